package actions

import (
	"bytes"
	"encoding/json"

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

	// Outcomes are the commands that ran in this turn so far, in order. They
	// are what a planner shows the model when it plans again.
	Outcomes []Outcome

	// Usage is what planning has cost in this turn so far.
	Usage Usage
}

// Usage counts calls of models and their tokens, as the models report them.
type Usage struct {
	ModelCalls, PromptTokens, CompletionTokens int
}

// Outcome is one DO command that ran.
type Outcome struct {
	Action string
	Text   string
	Failed bool
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
