package recording

import (
	"bytes"
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot"
)

// maxAnswer is how much of an answer to a request is looked at.
const maxAnswer = 64 << 10

// Handler is h, of which the recorder sees what [Recorder.Door] lets in and how that was
// answered.
func (r *Recorder) Handler(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		d := &delivery{}
		seen := &answering{ResponseWriter: w, status: http.StatusOK}
		h.ServeHTTP(seen, req.WithContext(context.WithValue(req.Context(), deliveryKey{}, d)))
		if d.activity != nil {
			r.answered(d.activity, seen)
		}
	})
}

// delivery is the activity of a request, once it was let in.
type delivery struct{ activity *activity.Activity }

type deliveryKey struct{}

// answering sees the answer to a request.
type answering struct {
	http.ResponseWriter
	status int
	wrote  bool
	body   bytes.Buffer
}

// Unwrap is for [http.ResponseController].
func (a *answering) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// WriteHeader sees the status.
func (a *answering) WriteHeader(status int) {
	if !a.wrote {
		a.status, a.wrote = status, true
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write sees the body.
func (a *answering) Write(p []byte) (int, error) {
	a.wrote = true
	if a.body.Len()+len(p) <= maxAnswer {
		a.body.Write(p)
	}
	return a.ResponseWriter.Write(p)
}

// Door is the door, of which the recorder sees what it lets in. Without [Recorder.Handler]
// it does not see what is then refused all the same, and what clicks are answered with.
func (r *Recorder) Door(d bot.Door) bot.Door { return watchedDoor{d, r} }

type watchedDoor struct {
	bot.Door
	of *Recorder
}

func (d watchedDoor) Enter(req *http.Request) (bot.Visitor, error) {
	visitor, err := d.Door.Enter(req)
	to, _ := req.Context().Value(deliveryKey{}).(*delivery)
	if err != nil {
		return visitor, err
	}
	return watchedVisitor{visitor, d.of, to}, nil
}

type watchedVisitor struct {
	bot.Visitor
	of *Recorder
	to *delivery
}

func (v watchedVisitor) Permit(a *activity.Activity) error {
	err := v.Visitor.Permit(a)
	if err == nil {
		if raw, fault := a.Encode(); fault == nil {
			if own, fault := activity.Decode(raw); fault == nil { // the turn may change its own
				if v.to != nil {
					v.to.activity = own
				}
				v.of.came(own, len(raw))
			}
		}
	}
	return err
}

// came begins a step, unless the activity is known: channels deliver some twice.
func (r *Recorder) came(a *activity.Activity, size int) {
	r.meet(a)
	fresh := newStep(a)
	r.change(a.Conversation.BaseID(), size, func(c *conversation) {
		for _, s := range c.steps {
			if a.ID != "" && s.activity.ID == a.ID && s.activity.Type == a.Type && s.activity.Text == a.Text {
				return
			}
		}
		fresh.apart, c.apart = c.apart, false
		c.steps = append(c.steps, fresh)
	})
}

// answered takes back the step of an activity that was not taken, and keeps what the bot
// said in the answer.
func (r *Recorder) answered(a *activity.Activity, with *answering) {
	said := saidIn(a, with.body.Bytes())
	r.change(a.Conversation.BaseID(), with.body.Len(), func(c *conversation) {
		i := slices.IndexFunc(c.steps, func(s *step) bool { return s.activity == a })
		switch {
		case i < 0: // it came before
		case with.status >= http.StatusMultipleChoices:
			c.steps = slices.Delete(c.steps, i, i+1)
		default:
			c.steps[i].answered, c.steps[i].refused = true, len(said) > 0
			c.steps[i].replies = append(c.steps[i].replies, said...)
		}
	})
}

// stillAtWork begins what a click is answered with that takes longer. It says nothing.
const stillAtWork = "I am still at work."

// saidIn are the messages in the answer to a request: what a click shows, and replies that
// travel there.
func saidIn(a *activity.Activity, body []byte) (all []reply) {
	var answer struct {
		Value      any                 `json:"value"`
		Activities []activity.Activity `json:"activities"`
	}
	_ = json.Unmarshal(body, &answer) // any other answer says nothing
	if text, ok := answer.Value.(string); ok && a.Type == activity.Invoke && !strings.HasPrefix(text, stillAtWork) {
		all = append(all, reply{text: text})
	}
	for i := range answer.Activities {
		if m := &answer.Activities[i]; m.Type == activity.Message {
			all = append(all, replyOf(m))
		}
	}
	return all
}
