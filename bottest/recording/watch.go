package recording

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/lists"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bottest"
	"github.com/planbot-go/planbot/bottest/cassette"
	"github.com/planbot-go/planbot/internal/golden"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner"
)

// maxAnswer is how much of an answer to a request is looked at.
const maxAnswer = 64 << 10

// base is the conversation without its thread.
func base(id string) string {
	id, _, _ = strings.Cut(id, ";messageid=")
	return id
}

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
	r.change(a.Conversation.BaseID(), size, func(c *conversation) {
		learn(a, r.scrub)
		for _, s := range c.steps {
			if a.ID != "" && s.activity.ID == a.ID && s.activity.Type == a.Type {
				return
			}
		}
		c.steps = append(c.steps, &step{activity: a})
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

// Model is the model, of which the recorder sees what it is asked and answers.
func (r *Recorder) Model(m models.Model) models.Model { return watchedModel{m, r} }

type watchedModel struct {
	models.Model
	of *Recorder
}

// Name is the model's own, "" when it has none.
func (m watchedModel) Name() string {
	if named, ok := m.Model.(interface{ Name() string }); ok {
		return named.Name()
	}
	return ""
}

func (m watchedModel) Complete(ctx context.Context, req *models.Request) (*models.Response, error) {
	response, err := m.Model.Complete(ctx, req)
	if errors.Is(err, context.Canceled) {
		return response, err
	}
	of := bottest.OfContext(ctx)
	asked := golden.Prompt(req)
	m.of.change(base(of.Conversation), len(asked), func(c *conversation) {
		call, _ := cassette.New(req, response, err, nil)
		call.Conversation, call.Activity = base(of.Conversation), of.Activity
		c.calls = append(c.calls, call)
		s := c.ofTurn(of.Turn, of.Activity)
		switch {
		case s == nil:
		case err != nil:
			s.answers = append(s.answers, answer{fault: errorOf(err)})
		default:
			c.bytes += len(response.Text)
			s.answers = append(s.answers, answer{text: response.Text, tools: response.Calls})
		}
	})
	return response, err
}

// Hooks see the plans and the calls of actions.
func (r *Recorder) Hooks() bot.Hooks {
	return bot.Hooks{
		PlanReady: func(_ context.Context, t *bot.Turn, plan planner.Plan) (planner.Plan, error) {
			r.turn(t, func(c *conversation, s *step) {
				if c.seed == nil {
					c.seed = listsOf(t)
				}
				s.planned(plan)
			})
			return plan, nil
		},
		BeforeDo: func(_ context.Context, t *bot.Turn, call actions.Call) error {
			r.turn(t, func(_ *conversation, s *step) {
				s.done = append(s.done, &done{turn: t.ID, action: call.Action.Name, entities: call.Entities})
			})
			return nil
		},
		AfterDo: func(_ context.Context, t *bot.Turn, call actions.Call, result actions.Result) (actions.Result, error) {
			r.turn(t, func(_ *conversation, s *step) {
				for _, d := range s.done {
					if !d.ended && d.turn == t.ID && d.action == call.Action.Name {
						d.result, d.ended = result, true
						return
					}
				}
			})
			return result, nil
		},
	}
}

func (r *Recorder) turn(t *bot.Turn, change func(*conversation, *step)) {
	r.change(t.Activity.Conversation.BaseID(), 0, func(c *conversation) {
		if s := c.ofTurn(t.ID, t.Activity.ID); s != nil {
			change(c, s)
		}
	})
}

// listsOf are the lists that the turn finds.
func listsOf(t *bot.Turn) map[string][]string {
	found := map[string][]string{}
	scope := t.Personal()
	const name = "lists" // of lists.Lists in state
	if scope == nil || !scope.Has(name) {
		return found
	}
	var all lists.Lists
	if raw, err := scope.JSON(name); err != nil || json.Unmarshal(raw, &all) != nil {
		return found
	}
	for _, l := range all.All {
		found[l.Name] = []string{}
		for _, item := range l.Items {
			found[l.Name] = append(found[l.Name], item.Name)
		}
	}
	return found
}

// Channel is the channel, of which the recorder sees the messages that it takes.
func (r *Recorder) Channel(c bot.Channel) bot.Channel { return watchedChannel{c, r} }

type watchedChannel struct {
	bot.Channel
	of *Recorder
}

func (c watchedChannel) Send(ctx context.Context, to activity.Reference, a *activity.Activity) (string, error) {
	id, err := c.Channel.Send(ctx, to, a)
	c.of.sent(ctx, to, a, err)
	return id, err
}

func (c watchedChannel) Reply(ctx context.Context, to activity.Reference, replyTo string, a *activity.Activity) (string, error) {
	id, err := c.Channel.Reply(ctx, to, replyTo, a)
	c.of.sent(ctx, to, a, err)
	return id, err
}

func (r *Recorder) sent(ctx context.Context, to activity.Reference, a *activity.Activity, err error) {
	if err != nil || a.Type != activity.Message {
		return
	}
	of := bottest.OfContext(ctx)
	said := replyOf(a)
	r.change(base(to.Conversation.ID), len(a.Text), func(c *conversation) {
		if s := c.ofTurn(of.Turn, of.Activity); s != nil {
			s.replies = append(s.replies, said)
		}
	})
}

func replyOf(a *activity.Activity) reply {
	said := reply{text: a.Text}
	if action, asks := strings.CutPrefix(a.Summary, "Approval needed: "); asks && len(a.Attachments) > 0 {
		said.card = action
	}
	return said
}
