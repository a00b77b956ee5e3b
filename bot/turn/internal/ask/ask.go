// Package ask is how a bot asks people: for the approval of a call, and what an action wants to know. It
// makes the cards and the words, reads what a person clicks or says, and notes it in the [Approval] or the
// [Question]. Package turn stores both in its records, and knows when to ask and how to go on.
package ask

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/internal/titles"
)

// View is how a person sees what is asked. All but Asker and Program is required.
type View struct {
	titles.View
	Title  func(action string) string // what people call the action
	Action func(name string) (*actions.Action, bool)
	Asker  activity.Account // who wanted what is to be approved
	// Program is the sentence that another program asks in their name. "": none does.
	Program string
	Alone   bool // nobody but the asker reads it
}

// The verbs of the buttons. Cards of earlier versions have them.
const (
	verbApprove = "planbot/approve"
	verbAlways  = "planbot/approve-always"
	verbReject  = "planbot/reject"
	verbAnswer  = "planbot/answer"
	verbDecline = "planbot/decline"
)

// data is what a button carries, and so a click.
type data struct {
	Approval string `json:"approval,omitempty"`
	Question string `json:"question,omitempty"`
	Hash     string `json:"hash,omitempty"` // of the call on the card
	Verb     string `json:"verb"`
}

// Click is what a person says about an approval or a question: with a button of its card or, about an
// approval, in words. [Read] makes it.
type Click struct {
	ID      string // of the approval or the question
	Answers bool   // it is about a question

	said     data
	inputs   map[string]json.RawMessage // of the card
	by       activity.Account
	activity string // its id
	card     string // id of the message with the button; "" in words
}

// Read reads a click of the activity's person. In words it is /approve or /reject with the id of an
// approval, as text. ok is false for everything else, such as a refresh: its client says what
// somebody sees, not what they decide.
func Read(a *activity.Activity, text string) (c Click, ok bool) {
	c = Click{by: a.From, activity: a.ID}
	var raw []byte
	verb := &c.said.Verb // Action.Submit has it nowhere else
	switch {
	case a.Type == activity.Message && a.Text == "" && len(a.Value) > 0 && a.Value.Kind() != 'n':
		raw = a.Value
	case a.Type == activity.Message:
		return c, c.readWords(strings.Fields(text))
	case a.Automatic():
		return c, false
	case a.Type == activity.Invoke && a.Name == "adaptiveCard/action":
		var click struct {
			Action struct {
				Type, Verb string
				Data       json.RawMessage
			}
		}
		if json.Unmarshal(a.Value, &click) != nil || click.Action.Type != "Action.Execute" {
			return c, false
		}
		raw, verb = click.Action.Data, &click.Action.Verb
	}
	if json.Unmarshal(raw, &c.said) != nil || json.Unmarshal(raw, &c.inputs) != nil || *verb != c.said.Verb {
		return c, false
	}
	c.card = a.ReplyToID
	switch c.said.Verb {
	case verbApprove, verbAlways, verbReject:
		c.ID = c.said.Approval
		return c, c.ID != "" && c.said.Hash != ""
	case verbAnswer, verbDecline:
		c.ID, c.Answers = c.said.Question, true
		return c, c.ID != ""
	}
	return c, false
}

// readWords reads the words of a message. After /approve and the id may come always.
func (c *Click) readWords(words []string) bool {
	if len(words) < 2 {
		return false
	}
	c.ID = strings.ToLower(words[1]) // as the bot wrote it
	switch strings.ToLower(strings.Join(slices.Delete(words, 1, 2), " ")) {
	case "/approve":
		c.said.Verb = verbApprove
	case "/approve always":
		c.said.Verb = verbAlways
	case "/reject":
		c.said.Verb = verbReject
	}
	return c.said.Verb != ""
}

// cardVersion is the schema that introduced Action.Execute.
const cardVersion = "1.4"

func button(title, style string, d data) activity.Button {
	return activity.Button{Title: title, Style: style, Verb: d.Verb, Data: d, Bare: d.Verb == verbDecline}
}

func heading(text string) activity.TextBlock {
	return activity.TextBlock{Text: text, Weight: "bolder", Size: "medium"}
}

// line shows a bold word and a value beside it; neither is read as markdown.
func line(word, value string) activity.RichText {
	runs := activity.RichText{{Text: word, Weight: "bolder"}}
	if value != "" {
		runs = append(runs, activity.TextBlock{Text: value, Mono: true})
	}
	return runs
}

func small(text string) activity.RichText {
	return activity.RichText{{Text: text, Subtle: true, Size: "small"}}
}
