package turn_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot/turn"
	"github.com/planbot-go/planbot/internal/texts"
	"github.com/planbot-go/planbot/planner/plan"
	"github.com/planbot-go/planbot/state"
)

// tells is a planner that calls an action, and then says what came of that.
type tells struct{ action string }

func (p tells) Plan(_ context.Context, t *actions.Turn) (plan.Plan, error) {
	for _, o := range t.Outcomes() {
		return plan.Plan{Commands: []plan.Command{{Kind: plan.Say, Response: o.Text}}}, nil
	}
	return plan.Plan{Commands: []plan.Command{{Kind: plan.Do, Action: p.action}}}, nil
}

// replies is a channel that has nothing but replies.
type replies struct {
	turn.Channel
	all chan string
}

func (c replies) Reply(_ context.Context, _ activity.Reference, _ string, a *activity.Activity) (string, error) {
	c.all <- a.Text
	return "", nil
}

func (replies) Identified() bool { return false }

// TestWithoutFeatures: an engine without a feature answers, and refuses the calls that only a feature could allow.
func TestWithoutFeatures(t *testing.T) {
	t.Parallel()
	for action, want := range map[string]string{
		"free":   "done so",
		"token":  "token needs a sign-in, and this bot cannot sign people in",
		"person": "person needs the approval of a person, and this bot cannot ask for one",
	} {
		all := actions.New()
		run := func(context.Context, *actions.Turn, struct{}) (actions.Result, error) {
			return actions.Text("done so"), nil
		}
		actions.Add(all, "free", "Does", run)
		actions.Add(all, "token", "Does", run, actions.NeedsToken("graph"))
		actions.Add(all, "person", "Does", run, actions.NeedsApproval)
		catalog, err := texts.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		store, err := state.Open(t.Context(), "", state.Config{})
		if err != nil {
			t.Fatal(err)
		}
		channel := replies{all: make(chan string, 9)}
		engine, err := turn.New(turn.Config{
			Actions: all, Planner: tells{action}, Store: store, Channel: channel, Policy: actions.DefaultPolicy, Texts: catalog,
			Handler: func(*turn.Turn) turn.Handler {
				return func(ctx context.Context, t *turn.Turn) error { return t.Plan(ctx) }
			},
			TurnTimeout: time.Minute, Lease: time.Minute, MaxSteps: 9, HistoryTurns: 5, MaxTurns: 9, Budget: actions.Budget{Messages: 9},
		})
		if err != nil {
			t.Fatal(err)
		}
		a := &activity.Activity{Type: activity.Message, ID: "1", Text: "go on", ChannelID: "test", ServiceURL: "http://channel"}
		a.From.ID, a.Recipient.ID, a.Conversation.ID = "mia", "bot", "chat"
		raw, err := a.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := engine.Accept(t.Context(), engine.NewTurn(a, raw, true, false)); err != nil {
			t.Fatal(err)
		}
		if got := <-channel.all; !strings.Contains(got, want) {
			t.Errorf("%s: the person reads %q, want %q", action, got, want)
		}
		if err := engine.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}
}
