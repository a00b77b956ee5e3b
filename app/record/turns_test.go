package record_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/app/internal/turnlog"
	"github.com/planbot-go/planbot/app/record"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bottest"
	"github.com/planbot-go/planbot/planner"
	"github.com/planbot-go/planbot/state"
)

// logged returns the turns of a talk, oldest first, as a log sees them. The bot streams, as it does on the
// page.
func logged(t *testing.T, plannerName string, approval []string, talk func(kit *bottest.Kit)) (turns []turnlog.Record) {
	t.Helper()
	acts := registry()
	var log *turnlog.Log
	bottest.Test(t, bottest.Config{Name: "Listbot", New: func(ctx context.Context, parts bottest.Parts) (_ *bot.Bot, err error) {
		log = turnlog.New(turnlog.Config{})
		t.Cleanup(log.Close)
		b := parts.Bot
		b.Actions, b.Channel, b.Stream = acts, log.Channel(b.Channel), true
		b.Features = append(b.Features, bot.Feature{Event: log.WatchTurn})
		b.Policy = func(ctx context.Context, turn *actions.Turn, call actions.Call) (actions.Approval, error) {
			if slices.Contains(approval, call.Action.Name) {
				return actions.Approval{Required: true}, nil
			}
			return actions.DefaultPolicy(ctx, turn, call)
		}
		if b.Planner, err = parts.Planner(ctx, plannerName, planner.Config{Model: parts.Model, Actions: acts, Watch: log.WatchPlanner}); err != nil {
			return nil, err
		}
		return bot.New(b)
	}}, func(t *testing.T, kit *bottest.Kit) {
		talk(kit)
		kit.Settle()
		if err := log.Settle(t.Context()); err != nil {
			t.Fatal(err)
		}
		log.Close()
	})
	heads := log.Turns()
	for i := len(heads) - 1; i >= 0; i-- {
		rec, _ := log.Turn(heads[i].ID)
		turns = append(turns, rec)
	}
	return turns
}

// written returns the scenarios of turns.
func written(t *testing.T, cfg record.Config, turns ...turnlog.Record) (file string, open []string) {
	t.Helper()
	raw, open, err := record.FromTurns(t.Context(), cfg, "from-the-page", turns)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw), open
}

func TestFromTurns(t *testing.T) {
	t.Parallel()
	turns := logged(t, "", nil, func(kit *bottest.Kit) {
		mia := kit.Personal("Mia Rossi")
		kit.Model.Says(
			bottest.Plan(bottest.Do("addItem", "list", "Rossi's", "item", "milk for Mia"), bottest.Say("Mia, it is there.")),
			bottest.Plan(bottest.Do("noSuchAction")), // refused
			bottest.Plan(doAs("ALL", "summarizeLists"), bottest.Say("$ALL")),
			bottest.Plan(bottest.Do("addItem", "list", "Rossi's", "item", "tea"), bottest.Say("Tea, too.")),
			bottest.Plan(bottest.Say("One.\n\nTwo.")),
			bottest.Plan(bottest.Do("breakIt")),
			bottest.Plan(bottest.Say("It is broken.")),
			`{"type":"answer","commands":[{"type":"SAY","response":"I am fine, and a `+strings.Repeat("long ", 100)+`answer."}]}`,
		)
		for _, said := range []string{"add milk for Mia, password: hunter2", "what is there?", "and tea", "count", "break it", "how are you?"} {
			mia.Say(said)
			mia.Next()
		}
	})
	if len(turns) != 6 {
		t.Fatalf("%d turns", len(turns))
	}
	for name, c := range map[string]struct {
		turns []turnlog.Record
		parts []string
	}{
		"all":            {turns, []string{"noSuchAction", "It is broken."}},
		"from the midst": {turns[1:3], []string{"seed: {lists:", "milk for user-1"}},
		"with a gap":     {[]turnlog.Record{turns[0], turns[3]}, []string{"from-the-page, part 2"}},
		"one":            {turns[4:5], []string{"breakIt"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file, open := written(t, record.Config{}, c.turns...)
			contains(t, file, c.parts...)
			if strings.Contains(file, "hunter2") || strings.Contains(file, "Mia") || open != nil {
				t.Errorf("%q\n%s", open, file)
			}
			plays(t, file, false)
			plays(t, file, true)
		})
	}
}

// TestFromTurnsWithKeys: a key in the state is that of who has the stand-in.
func TestFromTurnsWithKeys(t *testing.T) {
	t.Parallel()
	turns := logged(t, "", nil, func(kit *bottest.Kit) {
		kit.Model.Says(bottest.Plan(bottest.Say("Hello.")))
		mia := kit.Personal("Mia")
		mia.Say("hello")
		mia.Next()
	})
	a, err := activity.Decode(turns[0].Received.Activity)
	if err != nil {
		t.Fatal(err)
	}
	key := state.UserKey(a.ChannelID, a.Recipient.ID, a.From.ID).String()
	turns[0].Before["bot"] = map[string]jsontext.Value{"desk": jsontext.Value(`{"owner":"` + key + `"}`)}
	file, _ := written(t, record.Config{}, turns...)
	contains(t, file, state.UserKey(activity.Teams, "28:bot", "29:user-1").String())
}

// TestFromTurnsWithAFault: a test has the fault of the model as it was.
func TestFromTurnsWithAFault(t *testing.T) {
	t.Parallel()
	turns := logged(t, "", nil, func(kit *bottest.Kit) {
		mia := kit.Personal("Mia")
		kit.Model.Fails(401, "invalid_api_key")
		mia.Say("hello")
		mia.Next()
	})
	file, open := written(t, record.Config{}, turns...)
	contains(t, file, "http: 401", "invalid_api_key")
	if open != nil || strings.Contains(file, "503") {
		t.Errorf("%q\n%s", open, file)
	}
	plays(t, file, false)
}

// TestFromTurnsWithDecisions: what follows a click belongs to it, and without the click it is not there.
func TestFromTurnsWithDecisions(t *testing.T) {
	t.Parallel()
	turns := logged(t, "", nil, func(kit *bottest.Kit) {
		mia := kit.Personal("Mia")
		kit.Model.Says(
			bottest.Plan(bottest.Do("sendMail", "to", "a"), bottest.Say("Sent to a."), bottest.Do("sendMail", "to", "b"), bottest.Say("Sent to b.")),
			bottest.Plan(bottest.Say("It went out.")),
		)
		mia.Say("mail both")
		for _, press := range []string{"Approve", "Reject"} {
			card := mia.ExpectCard()
			time.Sleep(time.Second) // of virtual time: people take some
			card.Press(press)
			if press == "Approve" {
				mia.Expect("Sent to a.")
			}
		}
		mia.ExpectMatch("^OK, I won't do this: ")
		mia.Say("did it?")
		mia.Expect("It went out.")
	})
	if len(turns) != 4 {
		t.Fatalf("%d turns", len(turns))
	}
	for name, c := range map[string]struct {
		turns []turnlog.Record
		parts []string
		notes int
	}{
		"all":               {turns, []string{"<denied>", "value: {approve: true}", "It went out."}, 0},
		"without the click": {turns[:1], []string{`replies: ["<approval_card Send mail>"]`}, 0},
		"with one click":    {turns[:2], []string{"Sent to a."}, 0},
		"only the click":    {turns[1:2], []string{"decides another card"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file, open := written(t, record.Config{}, c.turns...)
			contains(t, file, c.parts...)
			if len(open) != c.notes {
				t.Errorf("%q\n%s", open, file)
			}
			plays(t, file, false)
			plays(t, file, true)
		})
	}
}

// TestFromTurnsWithAQuestion: what an action asks, and the answer, is no part of a scenario, and the test says so.
func TestFromTurnsWithAQuestion(t *testing.T) {
	t.Parallel()
	turns := logged(t, "", nil, func(kit *bottest.Kit) {
		kit.Model.Says(bottest.Plan(doAs("C", "orderCoffee"), bottest.Say("$C")), bottest.Plan(bottest.Say("You're welcome.")))
		mia := kit.Personal("Mia")
		mia.Say("coffee")
		mia.ExpectCard().Press("Send", "f0", "l")
		mia.Expect("ordered in size l")
		mia.Say("thanks")
		mia.Next()
	})
	file, open := written(t, record.Config{}, turns...)
	contains(t, file, "You're welcome.")
	if len(turns) != 3 || len(open) != 2 || !strings.Contains(open[0]+open[1], "step 2: An action asked") {
		t.Errorf("%d turns, %q\n%s", len(turns), open, file)
	}
	plays(t, file, false)
	plays(t, file, true)
}

// TestFromTurnsAroundADecision: what an approved call changes is no gap, neither for a turn before the
// decision nor for one after it.
func TestFromTurnsAroundADecision(t *testing.T) {
	t.Parallel()
	turns := logged(t, "", []string{"addItem"}, func(kit *bottest.Kit) {
		mia := kit.Personal("Mia")
		add, all := bottest.Plan(bottest.Do("addItem", "list", "a", "item", "b"), bottest.Say("Added.")), bottest.Plan(doAs("ALL", "summarizeLists"), bottest.Say("$ALL"))
		kit.Model.Says(add, all, all)
		mia.Say("add b")
		card := mia.ExpectCard()
		time.Sleep(time.Second) // of virtual time, as below
		mia.Say("what is there?")
		mia.Next()
		time.Sleep(time.Second)
		card.Press("Approve")
		mia.Expect("Added.")
		time.Sleep(time.Second)
		mia.Say("and now?")
		mia.Next()
	})
	file, open := written(t, record.Config{Approval: []string{"addItem"}}, turns...)
	if len(turns) != 4 || open != nil || strings.Contains(file, "part 2") {
		t.Errorf("%d turns, %q\n%s", len(turns), open, file)
	}
	plays(t, file, false)
}

// TestFromTurnsOfPlanners: plans of other planners become plans as JSON, as in recordings.
func TestFromTurnsOfPlanners(t *testing.T) {
	t.Parallel()
	for name, answers := range map[string][]string{
		"sequential": {`<plan><function.addItem list="a" item="b"/><say>Done it.</say></plan>`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			turns := logged(t, name, nil, func(kit *bottest.Kit) {
				group := kit.Group("Lunch", "Mia", "Otto")
				kit.Model.Says(answers...)
				group.Say("nobody hears this")
				group.Mention("add b to a")
				group.Next()
			})
			file, open := written(t, record.Config{Planner: name}, turns...)
			contains(t, file, `"type":"plan"`)
			if open != nil {
				t.Errorf("%q", open)
			}
			plays(t, file, false)
		})
	}
}

// TestFromTurnsRefuses what would be no test.
func TestFromTurnsRefuses(t *testing.T) {
	t.Parallel()
	turns := logged(t, "", nil, func(kit *bottest.Kit) {
		kit.Model.Says(bottest.Plan(bottest.Say("Hello.")), bottest.Plan(bottest.Say("Hello.")))
		for _, name := range []string{"Mia", "Otto"} {
			chat := kit.Personal(name)
			chat.Say("hello")
			chat.Expect("Hello.")
		}
	})
	large := turns[0]
	large.Rounds = []turnlog.Round{{Answer: &turnlog.Answer{Text: "[left out: 300000 bytes, sha256 00]"}}}
	if _, open := written(t, record.Config{}, large); len(open) != 1 || !strings.Contains(open[0], "too large") {
		t.Errorf("open is %q", open)
	}
	notice := turns[0]
	notice.Received.Activity = nil
	for want, turns := range map[string][]turnlog.Record{
		"no turn was chosen": nil, "the turns are of different conversations": turns, "turn " + notice.ID + " answers no message: the bot began it by itself": {notice},
	} {
		if file, _, err := record.FromTurns(t.Context(), record.Config{}, "x", turns); err == nil || err.Error() != want {
			t.Errorf("got %v and %q, want %q", err, file, want)
		}
	}
}

// TestFromTurnsOfAttachments expects nothing of an attachment without a text: a model is shown it, but not in a scenario.
func TestFromTurnsOfAttachments(t *testing.T) {
	t.Parallel()
	turns := logged(t, "", nil, func(kit *bottest.Kit) {
		kit.Model.Says(bottest.Plan(bottest.Say("A picture.")))
		mia := kit.Personal("Mia")
		mia.Say("?")
		mia.Next()
	})
	said := strings.Replace(string(turns[0].Received.Activity), `"text":"?"`, `"attachments":[{"contentType":"image/png","contentUrl":"https://x.example"}]`, 1)
	turns[0].Received.Activity = []byte(said)
	file, open := written(t, record.Config{}, turns...)
	if len(open) != 1 || !strings.Contains(open[0], "attachment") || strings.Contains(file, "replies") {
		t.Errorf("%v\n%s", open, file)
	}
	plays(t, file, true)
}

// TestStateOfAFailure: a turn that fails leaves the state as it was, also the first one of a conversation.
func TestStateOfAFailure(t *testing.T) {
	t.Parallel()
	turns := logged(t, "", nil, func(kit *bottest.Kit) {
		kit.Model.Says("{", "{", "{")
		mia := kit.Personal("Mia")
		mia.Say("?")
		mia.Next()
	})
	if turns[0].Outcome != turnlog.Failed || len(turns[0].Changes) != 0 {
		t.Errorf("it is %s, and changed %+v", turns[0].Outcome, turns[0].Changes)
	}
}
