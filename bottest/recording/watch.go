package recording

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bottest"
	"github.com/planbot-go/planbot/bottest/cassette"
	"github.com/planbot-go/planbot/connector"
	"github.com/planbot-go/planbot/internal/golden"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner/plan"
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
	of := bottest.OfContext(ctx)
	m.of.change(base(of.Conversation), 0, func(c *conversation) { c.ofTurn(of.Turn, of.Activity) }) // which begins
	response, err := m.Model.Complete(ctx, req)
	if errors.Is(err, context.Canceled) {
		return response, err
	}
	asked := golden.Prompt(req)
	m.of.change(base(of.Conversation), len(asked), func(c *conversation) {
		call, _ := cassette.New(req, response, err, nil)
		call.Conversation, call.Activity, call.Planner = base(of.Conversation), of.Activity, m.of.cfg.Planner
		call.Foreign = c.isForeign(of, req)
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

// Hooks see the plans, the calls of actions, and the ends of turns.
func (r *Recorder) Hooks() bot.Hooks {
	return bot.Hooks{
		PlanReady: func(ctx context.Context, t *bot.Turn, p plan.Plan) (plan.Plan, error) {
			kept := listsOf(t)
			r.turn(ctx, t, func(c *conversation, s *step) {
				if c.needsSeed(s, &r.cfg) {
					s.seed = kept
					c.bytes += sizeOf(kept)
				}
				s.planned(p)
			})
			return p, nil
		},
		BeforeDo: func(ctx context.Context, t *bot.Turn, call actions.Call) error {
			needs := call.Action.Approval || slices.Contains(r.cfg.Options.Approval, call.Action.Name)
			r.turn(ctx, t, func(_ *conversation, s *step) {
				s.done = append(s.done, &done{turn: t.ID, action: call.Action.Name, entities: call.Entities, unasked: needs && s.asker == ""})
			})
			return nil
		},
		AfterDo: func(ctx context.Context, t *bot.Turn, call actions.Call, result actions.Result) (actions.Result, error) {
			r.turn(ctx, t, func(_ *conversation, s *step) {
				for _, d := range s.done {
					if !d.ended && d.turn == t.ID && d.action == call.Action.Name {
						d.result, d.ended = result, true
						return
					}
				}
			})
			return result, nil
		},
		TurnEnded: func(ctx context.Context, t *bot.Turn, _ error) {
			r.turn(ctx, t, func(_ *conversation, s *step) { s.turns[t.ID] = true })
		},
	}
}

// turn changes the step that the turn belongs to: by what it answers or, if it follows a
// decision, by the click, which the context names. Then the turn answers who asked.
func (r *Recorder) turn(ctx context.Context, t *bot.Turn, change func(*conversation, *step)) {
	of := cmp.Or(bottest.OfContext(ctx).Activity, t.Activity.ID)
	r.change(t.Activity.Conversation.BaseID(), 0, func(c *conversation) {
		if s := c.ofTurn(t.ID, of); s != nil {
			if of != t.Activity.ID {
				s.asker = t.Activity.From.ID
			}
			change(c, s)
		}
	})
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
	status := statusOf(err)
	if a.Type != activity.Message || status == 0 {
		return
	}
	of := bottest.OfContext(ctx)
	said := replyOf(a)
	r.change(base(to.Conversation.ID), len(a.Text), func(c *conversation) {
		s := c.ofTurn(of.Turn, of.Activity)
		if s == nil { // a notice, or of a turn that another process had begun
			c.apart = true
			return
		}
		s.sends = append(s.sends, status)
		if err == nil {
			s.replies = append(s.replies, said)
		}
	})
}

// statusOf is how the channel answered a message for good; 0: it may take it later, or never
// got it.
func statusOf(err error) int {
	refused, answered := errors.AsType[*connector.Error](err)
	switch {
	case err == nil:
		return http.StatusOK
	case !answered, errors.Is(err, connector.ErrHeldBack):
		return 0
	}
	switch refused.Status {
	case http.StatusPreconditionFailed, http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return 0
	}
	return refused.Status
}
