package record_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/app/record"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bottest"
	"github.com/planbot-go/planbot/bottest/scenario"
	"github.com/planbot-go/planbot/planner"
	"github.com/planbot-go/planbot/state"
)

// parkedTurns are the turns that were parked while somebody talked with the bot.
func parkedTurns(t *testing.T, talk func(kit *bottest.Kit)) (all []state.Parked) {
	t.Helper()
	acts := registry()
	var store bot.Store // of the newest process
	bottest.Test(t, bottest.Config{Name: "Listbot", New: func(ctx context.Context, parts bottest.Parts) (*bot.Bot, error) {
		b := parts.Bot
		b.Actions, store = acts, b.Store
		var err error
		if b.Planner, err = planner.NewSequence(ctx, planner.SequenceConfig{Model: parts.Model, Actions: acts}); err != nil {
			return nil, err
		}
		return bot.New(b)
	}}, func(t *testing.T, kit *bottest.Kit) {
		talk(kit)
		inbox, err := store.Inbox(state.InboxConfig{})
		if err != nil {
			t.Fatal(err)
		}
		defer inbox.Close()
		if all, err = inbox.Parked(t.Context()); err != nil {
			t.Error(err)
		}
	})
	return all
}

// crashing has the bot die at each call of an action from the n-th on, until it gives up.
func crashing(kit *bottest.Kit, n int, begin func()) {
	kit.CrashAfter(n)
	begin()
	for left := range 3 {
		kit.Await(func() bool { return !kit.Alive(1) })
		kit.Restart()
		if left < 2 {
			kit.CrashAfter(1)
		}
		time.Sleep(20 * time.Second) // the lease of the dead
	}
	kit.Settle()
	kit.Connector.Sent() // what it said then is another test's
}

// export makes the test of the one turn, and plays it.
func export(t *testing.T, all []state.Parked, passes bool) string {
	t.Helper()
	if len(all) != 1 {
		t.Fatalf("%d turns were parked", len(all))
	}
	one, err := record.Parked(all[0])
	if err != nil {
		t.Fatal(err)
	}
	raw, err := record.Write([]record.Scenario{one})
	if err != nil {
		t.Fatal(err)
	}
	list, err := record.Read(strings.NewReader(string(raw)), "x.yaml")
	if err != nil {
		t.Fatalf("%v\n%s", err, raw)
	}
	for _, scripted := range []bool{false, true} {
		if result := scenario.Run(&list[0], scenario.Config{Actions: registry(), Scripted: scripted}); result.Passed != passes {
			t.Errorf("scripted %t, passed %t: %q\n%s\n%s", scripted, result.Passed, result.Failures, raw, result.Story)
		}
	}
	return string(raw)
}

func contains(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("no %s in\n%s", part, text)
		}
	}
}

// TestParkedInAPlan: the turn is in its second plan, behind one that failed.
func TestParkedInAPlan(t *testing.T) {
	t.Parallel()
	file := export(t, parkedTurns(t, func(kit *bottest.Kit) {
		chat := kit.Group("team", "Mia", "Otto")
		kit.Model.Says(
			bottest.Plan(bottest.Say("Wait, Mia."), bottest.Do("breakIt")),
			bottest.Plan(bottest.DoAs("ADDED", "addItem", "list", "shop", "item", "tea"), bottest.Do("slow", "for", "Mia"), bottest.Say("$ADDED And more.")),
		)
		crashing(kit, 3, func() { chat.Mention("tea, says Mia") })
	}), true)
	contains(t, file, "lost 3 times", "tea, says user-1", `{"type":"SAY","response":"Wait, user-1."},{"type":"DO","action":"breakIt"}`,
		`"saveAs":"ADDED"`, "error: it is broken", "result: Added tea to the list shop.", "replies: [\"Wait, user-1.\", Added tea to the list shop. And more.]",
		"Of the plans before the last only what was done is known.", "Nobody knows whether 1 of the calls")
}

// TestParkedWithResultsToCome: what the bot has to do in the end hangs on what nobody knows.
func TestParkedWithResultsToCome(t *testing.T) {
	t.Parallel()
	file := export(t, parkedTurns(t, func(kit *bottest.Kit) {
		chat := kit.Personal("Mia")
		kit.Model.Says(bottest.Plan(bottest.DoAs("SLOW", "slow", "for", "me"), bottest.Do("addItem", "list", "shop", "item", "$SLOW"), bottest.Say("$SLOW")))
		crashing(kit, 1, func() { chat.Say("hm") })
	}), true)
	if strings.Contains(file, "replies:") || strings.Contains(file, "actions:") {
		t.Errorf("it expects what nobody knows:\n%s", file)
	}
	contains(t, file, "is not known", "Nobody knows what the model said here.")
}

// TestParkedBehindAnApproval: the scenario has the click, too.
func TestParkedBehindAnApproval(t *testing.T) {
	t.Parallel()
	file := export(t, parkedTurns(t, func(kit *bottest.Kit) {
		chat := kit.Group("team", "Mia")
		kit.Model.Says(bottest.Plan(bottest.Do("sendMail", "to", "Mia"), bottest.Say("Sent.")))
		chat.Mention("mail me")
		card := chat.ExpectCard()
		crashing(kit, 1, func() { card.Press("Approve") })
	}), true)
	contains(t, file, "approval: [sendMail]", "value: {approve: true}", "mail me", "is a guess")
}

// TestParkedWhileSending: the plan is over, and only what is being sent is known.
func TestParkedWhileSending(t *testing.T) {
	t.Parallel()
	const message = `{"type":"message","conversation":{"id":"a:1"},"text":"TEXT"}`
	file := export(t, []state.Parked{{
		Turn: "x", Reason: "the channel did not take its message for 1h",
		Body:    []byte(`{"v":1,"activity":{"type":"message","from":{"id":"29:1"},"recipient":{"id":"28:b"},"conversation":{"id":"a:1"},"text":"count"}}`),
		Journal: []byte(`{"v":1,"send":{"messages":[` + strings.Replace(message, "TEXT", "One.", 1) + "," + strings.Replace(message, "TEXT", "Two.", 1) + `],"next":1},"sent":["1"],"recorded":true}`),
	}}, true)
	contains(t, file, "did not take its message for 1h", `{"type":"SAY","response":"One."},{"type":"SAY","response":"Two."}`, "replies: [One., Two.]", "1 of the messages")
}

// TestParkedBehindAFailure: what was left out because of it was no call.
func TestParkedBehindAFailure(t *testing.T) {
	t.Parallel()
	file := export(t, []state.Parked{{
		Turn: "x", Reason: "why", Body: []byte(`{"v":1,"activity":{"type":"message","from":{"id":"29:1"},"recipient":{"id":"28:b"},"conversation":{"id":"a:1"},"text":"go"}}`),
		Journal: []byte(`{"v":1,"run":{"usage":{},"rounds":[{"outcomes":[{"action":"breakIt","text":"it is broken","failed":true,"callId":"c1"},` +
			`{"action":"slow","entities":{"for":"me"},"text":"not run, because an earlier call failed","failed":true,"callId":"c2"}]}]}}`),
	}}, true)
	contains(t, file, "actions: [{action: breakIt, entities: {}, error: it is broken}]", "What had to be said in the end is not known")
}

// TestParkedWithNothing: turns that no test can be made of.
func TestParkedWithNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		body string
		want error
	}{
		"a notice":     {`{"v":1,"notice":{"messages":[]},"activity":{"type":"event","conversation":{"id":"c"}}}`, bot.ErrAnswersNothing},
		"no item":      {`nothing`, nil},
		"a click only": {`{"v":1,"approval":"x","activity":{"type":"invoke","conversation":{"id":"c"}}}`, nil},
	} {
		_, err := record.Parked(state.Parked{Turn: "x", Body: []byte(c.body)})
		if err == nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func slow(context.Context, *actions.Turn, struct {
	For string `json:"for"`
},
) (actions.Result, error) {
	return actions.Text("cocoa"), nil
}
