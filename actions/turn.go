package actions

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

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

// Attempt is what an action may know about the call that it serves. The zero value
// is that of a call outside of a turn.
type Attempt struct {
	// Key names the call, and no other: the id of the turn and how many calls it made
	// before. A call that is made again after its process was killed has the
	// same key. Give it to the service that the action uses as its idempotency key.
	Key string
	// Again says that the call was begun before, by a process that did not live to
	// write down what came of it: it may have been done in part or in whole.
	Again bool
}

// Within is the attempt of the i-th call that is made within the call.
func (a Attempt) Within(i int) Attempt {
	if a.Key == "" {
		return a
	}
	return Attempt{Key: a.Key + "." + strconv.Itoa(i), Again: a.Again}
}

type attemptKey struct{}

// Context returns the context of the call. It is for who calls actions.
func (a Attempt) Context(ctx context.Context) context.Context {
	return context.WithValue(ctx, attemptKey{}, a)
}

// AttemptOf returns what is known about the call, by the context that the action
// got. A field with the tag `host:"attempt"` is filled in with the same.
func AttemptOf(ctx context.Context) Attempt {
	a, _ := ctx.Value(attemptKey{}).(Attempt)
	return a
}

// Call is a call of an action that is about to be made: with the entities that
// the action will get.
type Call struct {
	Action   *Action
	Entities map[string]any
	// Salvaged says that the plan stood in the middle of prose, so that it is
	// less certain that the model meant it.
	Salvaged bool
}

// Approval says whether a person has to approve a call before it is made. The
// zero value asks nobody.
type Approval struct {
	Required bool
	// Approvers are those who may approve, by the id or the aadObjectId of their
	// account. None: the person whose message led to the call.
	Approvers []string
	// Within is how long the approval may take; after that it is refused. 0: as
	// long as the bot is configured for.
	Within time.Duration
	// Reason is shown to who is asked, as it is and without markup; may be empty.
	Reason string
	// Bind is what the approval is for beside the action and its entities, such as the
	// digest of what will run. The policy is asked again just before an approved call is
	// made: with another Bind it is not the call that was approved.
	Bind string
	// Standing says that who approves may also say that the very same call, with the same
	// Bind and for the same person, need not be approved again in this conversation.
	Standing bool
	// Denied says why the call may not be made at all, in words that the model and the
	// person may read. "": it may.
	Denied string
}

// Policy decides which calls a person has to approve, and which may not be made. It is
// asked before each call, and once more when one that was approved is about to be made.
// An error ends the turn: nothing runs of which it is not known. It may be called by
// several turns at once.
type Policy func(ctx context.Context, turn *Turn, call Call) (Approval, error)

// DefaultPolicy asks for actions that are marked with [NeedsApproval], and for
// destructive ones in a plan that was salvaged from prose.
func DefaultPolicy(_ context.Context, _ *Turn, call Call) (Approval, error) {
	a := call.Action
	return Approval{Required: a.Approval || a.Destructive && call.Salvaged}, nil
}

// Why a [Notice] cannot be sent, for errors.Is.
var (
	// ErrUnknownRecipient says that the bot has heard nothing from there yet, or has
	// forgotten it.
	ErrUnknownRecipient = errors.New("unknown recipient")
	// ErrUnreachable says that the bot cannot speak there, and why. Whatever comes from
	// there makes it reachable again.
	ErrUnreachable = errors.New("unreachable recipient")
	// ErrFull says that too many notices wait there already.
	ErrFull = errors.New("too many notices wait")
)

// Recipient says where a notice goes: to a conversation, or to a person's own
// conversation with the bot. In a turn, Channel and Bot may be left out for those of
// the turn, and its Caller.
type Recipient struct {
	Channel string // such as msteams
	Bot     string // id of the bot's account there: in Teams 28: and the app id
	// Conversation is its id; with ";messageid=…" a thread of a channel.
	Conversation string
	// Caller is the app id of the bot that brought the conversation here, see
	// [activity.Activity.CallerApp]. "": the channel did.
	Caller string
	// User is the id of the person's account, when Conversation is empty.
	User string
}

// To is the conversation of the activity.
func To(a *activity.Activity) Recipient {
	return Recipient{Channel: a.ChannelID, Bot: a.Recipient.ID, Caller: a.CallerApp(), Conversation: a.Conversation.ID}
}

// Notice is what a bot says without being asked just now: elsewhere, or later. It
// needs a Text or Activities.
type Notice struct {
	// To is where it goes. In a turn, zero: where the turn is.
	To Recipient
	// Text is markdown, and is split when it is long. It is the bot's own, and not
	// labelled as generated by AI.
	Text string
	// Activities are sent behind the text, in order: messages with cards and the like.
	// Who is in the conversation, and where that is, is filled in.
	Activities []*activity.Activity
	// At is when it is sent. Zero, or past: at once. One that is sent late says so,
	// with the time in At's zone.
	At time.Time
	// Key makes notices with the same one, to the same conversation, a single one: one
	// that comes within a day, or waits for its time, or was among the last 20 with a key
	// that were sent there, is not sent again. "": what a call of an action sends is told
	// apart by what it says, and anything else is always sent.
	Key string

	// Topic and Memo are for [Notifier.Notices], and are not sent.
	Topic, Memo string
	// ID is that of one which waits, see [Notifier.Notices].
	ID string
}

// Notifier sends what is not a reply.
type Notifier interface {
	// Notify keeps the notice, and returns its id. From then on it is sent at least
	// once, in order with the turns of its conversation. Errors: [ErrUnknownRecipient],
	// [ErrUnreachable]; [ErrFull] and [state.ErrUnavailable], after which it may be
	// tried again.
	Notify(ctx context.Context, n Notice) (id string, err error)
	// Notices returns what the person of the turn has waiting of that topic, the next
	// one first, in the conversations that the bot knows the person from: ID, At, Memo and
	// the conversation in To.
	Notices(ctx context.Context, topic string) ([]Notice, error)
	// Withdraw drops one of those. It is false when it is not there: it was sent, or
	// is about to be.
	Withdraw(ctx context.Context, n Notice) (bool, error)
}
