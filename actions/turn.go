package actions

import (
	"bytes"
	"context"
	"encoding/json"
	"sync"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/state"
)

// Turn is one activity being answered: what the person said and the state that
// actions read and change. It belongs to the turn and is not safe for
// concurrent use.
type Turn struct {
	// ID names the turn in logs and in what a person is told of a failure.
	ID string
	// Activity is what came in. Read only.
	Activity *activity.Activity
	// Text is what the person said, without the mention of the bot.
	Text string

	// Conversation is the state of the whole conversation: in a channel, of
	// all its threads. Thread is the state of the thread; outside of channels
	// it is Conversation. User is the person's, across conversations. Temp
	// lives as long as the turn.
	Conversation, Thread, User, Temp *state.Scope

	// Rounds are the plans of this turn so far, with what came of each. They
	// are what a planner shows the model when it plans again.
	Rounds []Round

	// Usage is what planning has cost in this turn so far, and Budget what it may
	// cost: who asks a model in the turn checks with [Turn.Afford] before each
	// call and adds to Usage after it.
	Usage  Usage
	Budget Budget

	// Quota is asked by [Turn.Afford] as well, with the Usage so far: a budget that
	// turns share, whose error is a [*BudgetError] when it is used up. nil: there is
	// none.
	Quota func(used Usage) error

	// Gate is asked by whatever calls actions within an action, such as a plan that
	// is an action, before each of these calls; an error is the failure of that
	// call. nil lets every call be made.
	Gate func(ctx context.Context, call Call) error

	// Notifier sends what is not a reply to this turn: elsewhere, or later. nil where
	// there is no bot around the turn.
	Notifier Notifier

	filling sync.Mutex // held while the bot fills in entities, see [Provide]
}

// Usage counts calls of models and their tokens, as the models report them, and
// what they cost where prices are known. Messages are the SAYs of all plans so far.
type Usage struct {
	ModelCalls, PromptTokens, CompletionTokens int
	Cost                                       float64 // in the currency of the prices
	Messages                                   int     `json:",omitempty"`
}

// Budget bounds what the planning of one turn may cost: tokens in and out, and
// money. The call that goes over these is still made. Messages bounds the SAYs of all
// plans: one that has more than are left is a fault. A zero field is no bound.
type Budget struct {
	Tokens   int
	Cost     float64
	Messages int
}

// BudgetError says which part of a turn's [Budget] is used up.
type BudgetError struct{ Of string } // "tokens" or "cost"

func (e *BudgetError) Error() string { return "the turn's budget of " + e.Of + " is used up" }

// Afford returns a [*BudgetError] when nothing is left of the turn's budget, else what
// the Quota says.
func (t *Turn) Afford() error {
	switch u, b := t.Usage, t.Budget; {
	case b.Tokens > 0 && u.PromptTokens+u.CompletionTokens >= b.Tokens:
		return &BudgetError{Of: "tokens"}
	case b.Cost > 0 && u.Cost >= b.Cost:
		return &BudgetError{Of: "cost"}
	}
	if t.Quota != nil {
		return t.Quota(t.Usage)
	}
	return nil
}

// Round is one plan of a turn: what came of its commands so far, in their order.
type Round struct {
	// Preface is what the model wrote beside the calls of its tools. It goes back
	// to the model, not to the person.
	Preface  string    `json:"preface,omitempty"`
	Outcomes []Outcome `json:"outcomes,omitempty"`
	// Withheld says that texts of the plan were not sent, because a command before them
	// found nothing to act on: see [Unchanged].
	Withheld bool `json:"withheld,omitempty"`
}

// Outcome is one command that ran, or that was not run because one before it
// failed. A text that was said has the action "SAY".
type Outcome struct {
	Action   string         `json:"action"`
	Entities map[string]any `json:"entities,omitempty"` // as they were called
	Text     string         `json:"text,omitempty"`
	Failed   bool           `json:"failed,omitempty"`
	// Unchanged says that the command found nothing to act on, see [Unchanged].
	Unchanged bool `json:"unchanged,omitempty"`
	// CallID is the id of the model's call of a tool; "" of a plan's command.
	CallID string `json:"callId,omitempty"`
}

// Outcomes are those of all rounds, in order.
func (t *Turn) Outcomes() []Outcome {
	var all []Outcome
	for _, r := range t.Rounds {
		all = append(all, r.Outcomes...)
	}
	return all
}

// Personal returns the state that belongs to whoever the bot talks with: the
// person's own in a personal chat, else the conversation's.
func (t *Turn) Personal() *state.Scope {
	if t.Activity.Conversation.Personal() {
		return t.User
	}
	return t.Conversation
}

func decodeNumbers(raw []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	err := dec.Decode(&v)
	return v, err
}
