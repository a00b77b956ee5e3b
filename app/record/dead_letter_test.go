package record_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/app/record"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bot/turn"
	"github.com/planbot-go/planbot/bottest"
	"github.com/planbot-go/planbot/planner"
	"github.com/planbot-go/planbot/planner/plan"
	"github.com/planbot-go/planbot/state"
	"github.com/planbot-go/planbot/state/inbox"
)

// deadLetters are those that were kept while somebody talked with the bot.
func deadLetters(t *testing.T, talk func(kit *bottest.Kit)) (all []inbox.Waiting) {
	t.Helper()
	acts := registry()
	var store *state.Store // of the newest process
	bottest.Test(t, bottest.Config{Name: "Listbot", New: func(ctx context.Context, parts bottest.Parts) (*bot.Bot, error) {
		b := parts.Bot
		b.Actions, store = acts, b.Store
		var err error
		if b.Planner, err = planner.NewSequence(ctx, planner.Config{Model: parts.Model, Actions: acts}); err != nil {
			return nil, err
		}
		return bot.New(b)
	}}, func(t *testing.T, kit *bottest.Kit) {
		talk(kit)
		in, err := inbox.Open(store, inbox.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		if all, err = in.Dead(t.Context()); err != nil {
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
func export(t *testing.T, all []inbox.Waiting, passes bool) string {
	t.Helper()
	if len(all) != 1 {
		t.Fatalf("there are %d dead letters", len(all))
	}
	one, err := record.DeadLetter(all[0])
	if err != nil {
		t.Fatal(err)
	}
	raw, err := record.Write([]record.Scenario{one})
	if err != nil {
		t.Fatal(err)
	}
	list, err := record.Read("x.yaml", raw)
	if err != nil {
		t.Fatalf("%v\n%s", err, raw)
	}
	for _, scripted := range []bool{false, true} {
		if failures, story := bottest.Play(&list[0], bottest.Config{Actions: registry(), Scripted: scripted}); (failures == nil) != passes {
			t.Errorf("scripted %t: %q\n%s\n%s", scripted, failures, raw, story)
		}
	}
	return string(raw)
}

// bare is a file without its quotes, which YAML needs for some texts only.
func bare(text string) string { return strings.ReplaceAll(text, `"`, "") }

func contains(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(bare(text), bare(part)) {
			t.Errorf("no %s in\n%s", part, text)
		}
	}
}

// TestDeadLetterInAPlan: the turn is in its second plan, behind one that failed.
func TestDeadLetterInAPlan(t *testing.T) {
	t.Parallel()
	file := export(t, deadLetters(t, func(kit *bottest.Kit) {
		chat := kit.Group("team", "Mia", "Otto")
		kit.Model.Says(
			bottest.Plan(bottest.Say("Wait, Mia."), bottest.Do("breakIt")),
			bottest.Plan(doAs("ADDED", "addItem", "list", "shop", "item", "tea"), bottest.Do("slow", "for", "Mia"), bottest.Say("$ADDED And more.")),
		)
		crashing(kit, 3, func() { chat.Mention("tea, says Mia") })
	}), true)
	contains(t, file, "lost 3 times", "tea, says user-1", `{"type":"SAY","response":"Wait, user-1."},{"type":"DO","action":"breakIt"}`,
		`"saveAs":"ADDED"`, "error: it is broken", "result: Added tea to the list shop.",
		"Of the plans before the last only what was done is known.", "Nobody knows whether 1 of the calls")
}

// TestDeadLetterWithResultsToCome: what the bot has to do in the end hangs on what nobody knows.
func TestDeadLetterWithResultsToCome(t *testing.T) {
	t.Parallel()
	file := export(t, deadLetters(t, func(kit *bottest.Kit) {
		chat := kit.Personal("Mia")
		kit.Model.Says(bottest.Plan(doAs("SLOW", "slow", "for", "me"), bottest.Do("addItem", "list", "shop", "item", "$SLOW"), bottest.Say("$SLOW")))
		crashing(kit, 1, func() { chat.Say("hm") })
	}), true)
	if strings.Contains(bare(file), "replies:") || strings.Contains(bare(file), "actions:") {
		t.Errorf("it expects what nobody knows:\n%s", file)
	}
	contains(t, file, "is not known", "Nobody knows what the model said here.")
}

// TestDeadLetterBehindAnApproval: the scenario has the click, too. The turn of the click may die with the other one.
func TestDeadLetterBehindAnApproval(t *testing.T) {
	t.Parallel()
	all := deadLetters(t, func(kit *bottest.Kit) {
		chat := kit.Group("team", "Mia")
		kit.Model.Says(bottest.Plan(bottest.Do("sendMail", "to", "Mia"), bottest.Say("Sent.")))
		chat.Mention("mail me")
		card := chat.ExpectCard()
		crashing(kit, 1, func() { card.Press("Approve") })
	})
	ofTheClick := func(w inbox.Waiting) bool { return !strings.Contains(string(w.Record), `"action":"sendMail"`) }
	file := export(t, slices.DeleteFunc(all, ofTheClick), true)
	contains(t, file, "approval: [sendMail]", "value: {approve: true}", "mail me", "is a guess")
}

// deadLetter is one with that record, of a turn that the bot has given up for the reason.
func deadLetter(reason, record string) inbox.Waiting {
	return inbox.Waiting{ID: "x", Record: []byte(record), Wait: inbox.Wait{Operator: true, About: []byte(`{"for":"operator","reason":"` + reason + `"}`)}}
}

// asked begins a record of what somebody said to the bot.
func asked(text string) string {
	return `{"v":1,"id":"x","accepted":"2026-05-04T09:00:00Z","activity":{"type":"message","from":{"id":"29:1"},"recipient":{"id":"28:b"},"conversation":{"id":"a:1"},"text":"` + text + `"},`
}

// TestDeadLetterWhileSending: the plan is over, and only what is being sent is known.
func TestDeadLetterWhileSending(t *testing.T) {
	t.Parallel()
	const message = `{"activity":{"type":"message","conversation":{"id":"a:1"},"text":"TEXT"}}`
	file := export(t, []inbox.Waiting{deadLetter("the channel did not take its message for 1h",
		asked("count")+`"phase":"sending","outbox":[`+strings.Replace(message, "TEXT", "One.", 1)+","+strings.Replace(message, "TEXT", "Two.", 1)+`],"sent":["1"],"remembered":true}`,
	)}, true)
	contains(t, file, "did not take its message for 1h", `{"type":"SAY","response":"One."},{"type":"SAY","response":"Two."}`, "the channel had taken 1")
}

// TestDeadLetterBehindAFailure: what was left out because of it was no call.
func TestDeadLetterBehindAFailure(t *testing.T) {
	t.Parallel()
	file := export(t, []inbox.Waiting{deadLetter("why",
		asked("go")+`"phase":"planning","run":{"usage":{},"rounds":[{"outcomes":[{"action":"breakIt","text":"it is broken","failed":true,"callId":"c1"},`+
			`{"action":"slow","entities":{"for":"me"},"text":"not run, because an earlier call failed","failed":true,"callId":"c2"}]}]}}`,
	)}, true)
	contains(t, file, "actions: [{action: breakIt, entities: {}, error: it is broken}]")
}

// TestDeadLetterAfterADecision: whatever is kept of the decision, the scenario makes it.
func TestDeadLetterAfterADecision(t *testing.T) {
	t.Parallel()
	const (
		waits = `"phase":"waiting","run":{"usage":{},"asked":1,` +
			`"rounds":[{}],"progress":{"plan":{"type":"plan","commands":[{"type":"DO","action":"sendMail","entities":{"to":"Mia"}}]},"next":0}},` +
			`"wait":{"for":"approval","then":"running","approval":{"id":"x","action":"sendMail","expires":"2026-05-05T09:00:00Z"DECISION}}}`
		rejected = `"phase":"planning","run":{"usage":{},"asked":1,"decided":{"action":"sendMail"},` +
			`"rounds":[{"outcomes":[{"action":"sendMail","entities":{"to":"Mia"},"text":"a person rejected it","failed":true}]}]}}`
	)
	for name, c := range map[string]struct {
		record string
		clicks string
	}{
		"nobody has decided":      {strings.Replace(waits, "DECISION", "", 1), ""},
		"approved, not begun yet": {strings.Replace(waits, "DECISION", `,"decision":{"approved":true,"at":"2026-05-04T10:00:00Z"}`, 1), "value: {approve: true}"},
		"rejected, not begun yet": {strings.Replace(waits, "DECISION", `,"decision":{"at":"2026-05-04T10:00:00Z"}`, 1), "value: {approve: false}"},
		"rejected, planned again": {rejected, "value: {approve: false}"},
	} {
		one, err := record.DeadLetter(deadLetter("why", asked("mail")+c.record))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if c.clicks == "" {
			if len(one.Steps) != 1 {
				t.Errorf("%s: %d steps", name, len(one.Steps))
			}
			continue
		}
		contains(t, export(t, []inbox.Waiting{deadLetter("why", asked("mail")+c.record)}, true), "approval: [sendMail]", c.clicks)
	}
}

// TestDeadLetterOfAnotherVersion: only what came in can be read.
func TestDeadLetterOfAnotherVersion(t *testing.T) {
	t.Parallel()
	file := export(t, []inbox.Waiting{deadLetter("why", strings.Replace(asked("go"), `"v":1`, `"v":99`, 1)+`"phase":"pondering"}`)}, true)
	contains(t, file, "text: go", "Some of the turn cannot be read", "it has version 99", "The turn had not begun.")
}

// TestDeadLetterWithNothing: those that no test can be made of.
func TestDeadLetterWithNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ record, want string }{
		"a notice": {
			`{"v":1,"phase":"planning","notice":{"messages":[]},"activity":{"type":"event","conversation":{"id":"c"}}}`, "answers no activity",
		},
		"no record":   {`nothing`, turn.ErrRecord.Error()},
		"no activity": {`{"v":1,"phase":"planning","activity":7}`, turn.ErrRecord.Error()},
	} {
		if _, err := record.DeadLetter(deadLetter("why", c.record)); err == nil || !strings.Contains(err.Error(), c.want) {
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

// doAs is a command whose result later ones can use by that name.
func doAs(name, action string, entities ...any) plan.Command {
	c := bottest.Do(action, entities...)
	c.SaveAs = name
	return c
}
