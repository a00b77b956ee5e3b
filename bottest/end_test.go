package bottest_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bot/teams"
	"github.com/planbot-go/planbot/bottest"
)

// What a test set up and the bot did not meet, and what it said that nobody looked at,
// fails the test at its end.
func TestEndsWithWhatIsLeft(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		test func(kit *bottest.Kit)
		want []string // none: it does not fail
	}{
		"crash": {func(kit *bottest.Kit) {
			kit.CrashAfter(2)
			kit.Model.Says(addMilk)
			chat := kit.Personal("Mia")
			chat.Say("add milk")
			chat.Expect("Added milk.")
		}, []string{"the crash of CrashAfter did not come: it was for the end of call 2 of an action, and the kit saw 1"}},
		"fault":   {func(kit *bottest.Kit) { kit.Connector.Fails(bottest.Answer{Status: 502}) }, []string{"1 faults of Connector.Fails were not met"}},
		"held":    {func(kit *bottest.Kit) { kit.Connector.Holds("No such text") }, []string{`the message "No such text" of Connector.Holds was not sent`}},
		"message": {func(kit *bottest.Kit) { said(kit) }, []string{`the bot said "Well." in a:Mia, which nothing expected`, "what happened:"}},
		"one more message": {func(kit *bottest.Kit) {
			kit.Model.Says(bottest.Plan(bottest.Say("One."), bottest.Say("Two.")))
			chat := kit.Personal("Mia")
			chat.Say("count")
			chat.Expect("One.")
		}, []string{`the bot said "Two." in a:Mia, which nothing expected`}},
		"several": {func(kit *bottest.Kit) {
			said(kit)
			kit.Model.Says("more")
		}, []string{"1 scripted answers of the model were not asked for\nthe bot said"}},
		"all were asked for": {func(kit *bottest.Kit) {
			chat := said(kit)
			kit.Settle()
			chat.Messages()
		}, nil},
		"all of the connector": {func(kit *bottest.Kit) {
			said(kit)
			kit.Settle()
			kit.Connector.Sent()
		}, nil},
		"said after they were asked for": {func(kit *bottest.Kit) {
			kit.Connector.Sent()
			said(kit).Messages()
			kit.Settle()
		}, []string{`the bot said "Well."`}},
		"reacted to": {func(kit *bottest.Kit) {
			chat := said(kit)
			kit.Settle()
			chat.React("like")
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := failingInBubble(t, listBot(), tt.test)
			contains(t, got, tt.want...)
			if len(tt.want) == 0 && got != "" {
				t.Errorf("it failed: %s", got)
			}
		})
	}
}

// TestEndsWithWhatNobodySees: limits of Teams are told where the bot is tested, not in Teams.
func TestEndsWithWhatNobodySees(t *testing.T) {
	t.Parallel()
	cfg := listBot()
	cfg.Change = func(cfg *bot.Config) {
		cfg.Features = append(cfg.Features, bot.Feature{Name: "suggests", Send: func(_ context.Context, _ *bot.Turn, m *activity.Activity) { m.Suggest("1", "2", "3", "4") }})
		cfg.Teams.Extension.Commands = []teams.Command{{
			ID: "find", Title: "Find", Parameters: []teams.Parameter{{Name: "q", Title: "Q"}},
			Query: func(context.Context, *bot.Turn, teams.Query) (teams.Answer, error) {
				return teams.Answer{Items: slices.Repeat([]teams.Item{{Title: "x", Card: activity.Card{Fallback: "x"}}}, 26)}, nil
			},
		}}
		cfg.Teams.Search = map[string]func(context.Context, *bot.Turn, teams.Query) ([]teams.Choice, error){
			"lists": func(context.Context, *bot.Turn, teams.Query) ([]teams.Choice, error) {
				return make([]teams.Choice, 16), nil
			},
		}
		cfg.Teams.Extension.Domains = []string{"tickets.example"}
		cfg.Teams.Extension.Link = func(context.Context, *bot.Turn, teams.Query) (teams.Answer, error) {
			return teams.Answer{Items: []teams.Item{{Title: "x", Card: activity.Card{Fallback: "x", Version: "1.4"}}}}, nil
		}
	}
	contains(t, failingInBubble(t, cfg, func(kit *bottest.Kit) {
		chat := said(kit)
		kit.Settle()
		chat.Messages()
		chat.Invoke("composeExtension/queryLink", map[string]any{"url": "https://tickets.example/1"})
		chat.Invoke("composeExtension/query", map[string]any{"commandId": "find"})
		chat.Invoke("application/search", map[string]any{"queryText": "", "dataset": "lists"})
	}), "1 of 4 suggestions", "26 results: Teams asked for 25", "16 results: Teams asked for 15", "the card has the version \"1.4\"")
}

// A bot without the kit's feature is not seen to act, so it does not crash.
func TestEndsWithoutTheCrashOfAnUnseenBot(t *testing.T) {
	t.Parallel()
	cfg := listBot()
	cfg.Change = func(cfg *bot.Config) { cfg.Features = nil }
	contains(t, failingInBubble(t, cfg, func(kit *bottest.Kit) {
		kit.CrashAfter(1)
		kit.Model.Says(addMilk)
		chat := kit.Personal("Mia")
		chat.Say("add milk")
		chat.Expect("Added milk.")
	}), "did not come", "does not take the Features of Parts.Bot")
}

// A test that failed by itself shows at its end what happened, and only once.
func TestEndsWithTheStory(t *testing.T) {
	t.Parallel()
	f := &fakeTest{ctx: t.Context()}
	f.run(func() {
		kit := bottest.New(f, listBot())
		kit.Model.Says(addMilk)
		chat := kit.Personal("Mia")
		chat.Say("add milk")
		chat.Expect("Added milk.")
		f.Errorf("no bread")
	})
	if len(f.failures) != 1 || len(f.logs) != 1 {
		t.Fatalf("failures %q, logs %q", f.failures, f.logs)
	}
	contains(t, f.logs[0], "what happened:", "Mia            add milk", "the last prompt:", `Mia.lists = {"all":[{"name":"groceries"`)

	f = &fakeTest{ctx: t.Context()}
	f.run(func() { said(bottest.New(f, listBot())).Expect("Hm.") })
	if len(f.failures) != 1 || len(f.logs) != 0 || strings.Count(f.failures[0], "what happened:") != 1 {
		t.Errorf("failures %q, logs %q", f.failures, f.logs)
	}
}

// A turn that is under way when the test ends is waited for: in a bubble that costs nothing.
func TestEndsWhenTheBotDoes(t *testing.T) {
	t.Parallel()
	contains(t, failingInBubble(t, listBot(), func(kit *bottest.Kit) {
		asked := kit.Model.Hangs(time.Hour)
		kit.Personal("Mia").Say("hi")
		<-asked
	}), "which nothing expected", "did not answer in time")
}
