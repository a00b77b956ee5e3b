package bot

import (
	"context"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/activity"
)

const (
	// feedbackInvoke is the name of the invoke with which Teams brings what a person
	// thinks of a message.
	feedbackInvoke = "message/submitAction"

	liked    = "like"
	disliked = "dislike"
)

// Feedback is what a person thinks of a message. Teams keeps nothing of it.
type Feedback struct {
	Liked bool // else disliked
	// Text is what the person wrote in Teams' own form; "": nothing.
	Text string
	// Form is all that came of the form, an object; nil: none did.
	Form jsontext.Value
	// MessageID is the message that it is about, by the id that the channel gave it; "":
	// the channel did not say, as the Agents Playground does not.
	MessageID string
}

// FeedbackHandler is told what a person thinks of a message, whose answer the person has
// by then: an error is for the log. The rule of [Handler] on running again holds.
type FeedbackHandler func(ctx context.Context, t *Turn, f Feedback) error

// OnFeedback registers the handler of feedback, which comes where a message asks for it:
// see Config.Feedback and [activity.Activity.AskFeedback]. Without one, and before it,
// feedback is counted and logged without its text. It panics when there is one: that is a
// wiring mistake.
func (b *Bot) OnFeedback(h FeedbackHandler) {
	if b.routes.feedback != nil {
		panic("bot: feedback has a handler")
	}
	b.routes.feedback = h
}

// readFeedback reads the invoke.
func readFeedback(a *activity.Activity) (f Feedback, fault *InvokeError) {
	var value struct {
		Name  string `json:"actionName"`
		Value struct {
			Reaction string         `json:"reaction"`
			Feedback jsontext.Value `json:"feedback"`
		} `json:"actionValue"`
	}
	switch {
	case a.Value.Kind() != '{' || json.Unmarshal(a.Value, &value) != nil || value.Name != "feedback":
		return f, badValue("the value is no feedback")
	case value.Value.Reaction != liked && value.Value.Reaction != disliked:
		return f, badValue("the reaction is neither like nor dislike")
	}
	f = Feedback{Liked: value.Value.Reaction == liked, MessageID: a.ReplyToID}
	if !f.readForm(value.Value.Feedback) {
		return f, badValue("the feedback is no text")
	}
	return f, nil
}

// readForm reads what the person wrote: a text that is the JSON of a form, or none, as
// from the Agents Playground. It is false for anything else.
func (f *Feedback) readForm(feedback jsontext.Value) bool {
	var text string
	switch feedback.Kind() {
	case '"':
		if json.Unmarshal(feedback, &text) != nil {
			return false
		}
		if f.Form = jsontext.Value(text); !f.Form.IsValid() || f.Form.Kind() != '{' {
			f.Form, f.Text = nil, strings.TrimSpace(text)
			return true
		}
	case '{':
		f.Form = feedback
	case 'n', 0:
		return true
	default:
		return false
	}
	var form struct {
		Text string `json:"feedbackText"`
	}
	if json.Unmarshal(f.Form, &form) == nil {
		f.Text = strings.TrimSpace(form.Text)
	}
	return true
}

func checkFeedback(a *activity.Activity) *InvokeResponse {
	if _, fault := readFeedback(a); fault != nil {
		return fault.response()
	}
	return nil
}

// rated notes the feedback. The answer has to be empty.
func (b *Bot) rated(ctx context.Context, t *Turn) (InvokeResponse, error) {
	f, fault := readFeedback(t.Activity)
	if fault != nil {
		return InvokeResponse{}, fault // another version of the bot accepted it
	}
	reaction := disliked
	if f.Liked {
		reaction = liked
	}
	b.meter.rated(reaction)
	zerolog.Ctx(ctx).Info().Str("reaction", reaction).Bool("text", f.Text != "").Str("rated", f.MessageID).Msg("feedback")
	if b.routes.feedback == nil {
		return InvokeResponse{}, nil
	}
	return InvokeResponse{}, b.routes.feedback(ctx, t, f)
}
