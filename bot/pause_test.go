package bot_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bot/turn"
	"github.com/planbot-go/planbot/state"
)

func asksNobody(c *bot.Config) { c.AsksNobody = true }

// TestACallThatNobodyCanApproveIsRefused, in words for the model and the operator.
func TestACallThatNobodyCanApproveIsRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, asksNobody)
		d.model.Says(closePlan)
		d.model.Says(plan(say("I can't close it.")))
		d.say("close it")
		d.expect("I can't close it.")
		if len(*d.closed) != 0 {
			t.Error("the ticket is closed")
		}
		if got := d.model.Calls()[1].Text(); !strings.Contains(got, "closeTicket needs the approval of a person, and this bot cannot ask for one") {
			t.Errorf("the model sees %s", got)
		}
	})
}

// TestApproversThatNobodyAsks are a mistake of the Config.
func TestApproversThatNobodyAsks(t *testing.T) {
	t.Parallel()
	_, err := bot.New(bot.Config{AsksNobody: true, Approvers: []string{"29:boss"}})
	if err == nil || !strings.Contains(err.Error(), "Approvers: AsksNobody says that nobody is asked") {
		t.Error(err)
	}
	_, err = bot.New(bot.Config{Approvers: strings.Split("abcdefghijk", "")})
	if err == nil || !strings.Contains(err.Error(), "Approvers: 11 are more than 10; name a channel instead") {
		t.Errorf("eleven approvers: %v", err)
	}
}

// TestAnApprovalInABotThatAsksNobody becomes a dead letter when its time is up. The record keeps it as it is, and a
// bot that asks people goes on with it.
func TestAnApprovalInABotThatAsksNobody(t *testing.T) {
	inBubble(t, newDesk, func(t *testing.T, d desk) {
		soon := func(c *bot.Config) { c.ApprovalTimeout = time.Minute }
		first := d.addReplica(soon)
		d.model.Says(closePlan)
		first.say("close it")
		approve, _ := buttons(t, d.connector.Next(t))
		first.kill()
		without := d.addReplica(asksNobody)
		d.post(without.url, d.activity(click(approve, nil)))
		time.Sleep(2 * time.Minute)
		dead := d.deadLetters(1)
		if got := turn.Reason(dead[0]); !strings.Contains(got, `no feature that waits for "approval"`) || !strings.Contains(string(dead[0].Record), `"approval":{"id":`) {
			t.Errorf("reason %q for %s", got, dead[0].Record)
		}
		d.expectFault("Somebody has to look at it.")
		without.kill()
		with := d.addReplica(soon)
		d.retry(dead[0])
		d.deadLetters(0)
		d.model.Says(plan(say("I am.")))
		with.say("are you there?")
		d.expect("I am.")
		if len(*d.closed) != 0 {
			t.Error("the ticket is closed")
		}
	})
}

// second is a pause of a feature of one's own: another person has to say yes.
type second struct {
	ID, Card string
	By       string // who said yes
	Hash     string
	Asked    time.Time
}

func (*second) Kind() string                           { return "second" }
func (s *second) Until() time.Time                     { return s.Asked.Add(time.Hour) }
func (*second) Note() string                           { return "[A second person was asked.]" }
func (*second) Failed(*turn.Turn) string               { return "[Nobody could be asked.]" }
func (s *second) Shown(message string)                 { s.Card = message }
func (s *second) Answered() (activity string, ok bool) { return "", s.By != "" }
func (*second) Data(*turn.Turn) map[string]any         { return nil }
func (s *second) Ask(_ context.Context, t *turn.Turn, id string) (*activity.Activity, error) {
	s.ID, s.Asked = id, time.Now()
	return t.Message("Somebody else has to say yes " + id), nil
}

func (s *second) Resume(_ context.Context, t *turn.Turn) (turn.Next, error) {
	if s.By == "" {
		return turn.Expired(t, s, "[Nobody said yes.]"), nil
	}
	return turn.Approved(t, s, "closeTicket", s.Hash), nil
}

var secondFeature = turn.Feature{
	Name: "second",
	Ready: func(ctx context.Context, _ *turn.Turn, c *turn.Pending) (turn.Pause, error) {
		if c.Granted || c.Action.Name != "closeTicket" {
			return nil, nil
		}
		hash, err := c.Hash(ctx)
		return &second{Hash: hash}, err
	},
	Pauses: map[string]func() turn.Pause{"second": func() turn.Pause { return new(second) }},
	Reads: func(a *activity.Activity, text string) *turn.Reply {
		id, ok := strings.CutPrefix(text, "yes ")
		if !ok {
			return nil
		}
		return &turn.Reply{
			Pause: id,
			Take: func(_ context.Context, t *turn.Turn, w *turn.Waiting) (ours bool, refusal string) {
				s, ok := w.Pause.(*second)
				if ok && s.ID == id && t.Activity.From.ID == w.Asked.From.ID {
					return true, "Somebody else."
				}
				if ok {
					s.By = t.Activity.From.ID
				}
				return ok && s.ID == id, ""
			},
			Taken:   func(context.Context, *turn.Turn, *turn.Waiting) activity.Card { return activity.Card{} },
			Late:    func(*turn.Turn, *state.Scope) (said string, known bool) { return "Too late.", false },
			Counted: func(*state.Scope) bool { return a.ID == "said before" },
		}
	},
}

// TestAPauseOfOnesOwn: a second person says yes, also to a process that takes over.
func TestAPauseOfOnesOwn(t *testing.T) {
	inBubble(t, newDesk, func(t *testing.T, d desk) {
		has := func(c *bot.Config) { c.Features, c.Policy = append(c.Features, secondFeature), allowAll }
		first := d.addReplica(has)
		d.model.Says(closePlan)
		first.say("close it")
		asked, _ := d.connector.Next(t).Body["text"].(string)
		_, id, ok := strings.Cut(asked, "say yes ")
		if !ok {
			t.Fatalf("the bot said %q", asked)
		}
		first.kill()
		next := d.addReplica(has)
		reply := event{"text": "yes " + id}
		d.post(next.url, d.activity(reply))
		d.expect("Somebody else.")
		reply["from"] = event{"id": "29:ben", "name": "Ben"}
		d.post(next.url, d.activity(reply))
		d.expect("Closed it.")
		d.post(next.url, d.activity(reply))
		d.expect("Too late.")
		reply["id"] = "said before"
		d.post(next.url, d.activity(reply))
		d.settled()
		d.connector.None(t)
		if len(*d.closed) != 1 {
			t.Errorf("closed %v", *d.closed)
		}
	})
}

func allowAll(context.Context, *actions.Turn, actions.Call) (actions.Approval, error) {
	return actions.Approval{}, nil
}
