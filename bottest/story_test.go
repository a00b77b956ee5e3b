package bottest_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bottest"
)

// What explains a failure is in the story, and what does not is short.
func TestStory(t *testing.T) {
	t.Parallel()
	tools := ticketBot(new(tickets))
	tools.Planner = "tools"
	for name, tt := range map[string]struct {
		cfg  bottest.Config
		test func(kit *bottest.Kit)
		want []string
	}{
		"tools that were offered": {tools, func(kit *bottest.Kit) { said(kit).ExpectNothing() }, []string{"tools: createTicket, closeTicket"}},
		"tools of an unexpected call": {tools, func(kit *bottest.Kit) {
			kit.Personal("Mia").Say("hi")
			kit.Settle()
		}, []string{"call 1 of the model was not expected", "user: hi\n    tools: createTicket, closeTicket"}},
		"the answer to a click": {ticketBot(new(tickets)), func(kit *bottest.Kit) {
			chat := kit.Group("team", "Mia")
			kit.Model.Says(bottest.Plan(bottest.Do("closeTicket", "id", 7), bottest.Say("Closed.")))
			chat.Mention("close 7")
			chat.ExpectCard().As("Otto").Press("Approve")
			chat.Expect("Closed.")
		}, []string{`"value":"You can't decide this. Nothing was done."`}},
		"deliveries": {listBot(), func(kit *bottest.Kit) {
			kit.Model.Says("Well.")
			chat := kit.Group("team", "Mia")
			chat.Mention("hi").Again(chat)
			chat.Say("a nice day")
			chat.ExpectNothing()
		}, []string{"<at>ListBot</at> hi (again)\n", "a nice day (does not mention the bot)\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := failingInBubble(t, tt.cfg, tt.test)
			contains(t, got, tt.want...)
		})
	}
}

// A bot that keeps state elsewhere cannot be looked into.
func TestForeignBot(t *testing.T) {
	t.Parallel()
	cfg := bottest.Config{New: func(ctx context.Context, parts bottest.Parts) (*bot.Bot, error) {
		parts.Bot.Store = nil
		return newBot(ctx, parts)
	}}
	contains(t, failingInBubble(t, cfg, func(*bottest.Kit) {}), "the bot does not take its Store from the Parts")
}

// Who decides about answers may look into the kit and take time, while others are served.
func TestDecidersTakeTheirTime(t *testing.T) {
	t.Parallel()
	bottest.Test(t, listBot(), func(t *testing.T, kit *bottest.Kit) {
		kit.Model.Decides(func(c bottest.ModelCall) (bottest.Answer, bool) {
			if calls := kit.Model.Calls(); len(calls) == 0 || kit.Explain() == "" {
				t.Error("the call that is to be answered is not among the calls")
			}
			time.Sleep(time.Minute)
			return bottest.Answer{Text: c.Last("user")}, true
		})
		kit.Connector.Decides(func(bottest.Sent) bottest.Answer {
			time.Sleep(5 * time.Second)
			return bottest.Answer{}
		})
		began := time.Now()
		var talks []func()
		for _, name := range []string{"Mia", "Otto"} {
			chat := kit.Personal(name)
			talks = append(talks, func() {
				chat.Say(name)
				chat.Expect(name)
			})
		}
		kit.Together(talks...)
		if took := time.Since(began); took < 65*time.Second || took > 100*time.Second {
			t.Errorf("it took %v, of which others wait for nothing", took)
		}
	})
}

// Replicas log to one writer, which need not be safe for that.
func TestLogOfReplicas(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	cfg := listBot()
	cfg.Log, cfg.Replicas = &log, 3
	bottest.Test(t, cfg, func(t *testing.T, kit *bottest.Kit) {
		kit.Model.Decides(func(bottest.ModelCall) (bottest.Answer, bool) { return bottest.Answer{Text: "Well."}, true })
		var talks []func()
		for i, name := range []string{"Mia", "Otto", "Ugo"} {
			talks = append(talks, func() { kit.Personal(name).On(i + 1).Say("hi") })
		}
		kit.Together(talks...)
		kit.Settle()
		if n := len(kit.Connector.Sent()); n < 3 {
			t.Errorf("%d answers", n)
		}
	})
	if log.Len() == 0 {
		t.Error("nothing was logged")
	}
}
