package recording

import (
	"context"
	"errors"
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

// base is the conversation without its thread.
func base(id string) string {
	id, _, _ = strings.Cut(id, ";messageid=")
	return id
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
	if action, asks := strings.CutPrefix(a.Summary, "Approval needed: "); len(a.Attachments) > 0 {
		if said.card = anotherCard; asks {
			said.card = action
		}
	}
	return said
}
