package bot_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bottest"
	plans "github.com/planbot-go/planbot/planner/plan"
)

// closing are the list actions and closeTicket, with effects outside, of which no ticket is
// open. Nothing is ever open.
func closing(opts ...actions.Option) *actions.Registry {
	acts := oddActions()
	actions.Add(acts, "closeTicket", "Closes a ticket", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) {
		return actions.Unchanged("There is no open ticket."), nil
	}, opts...)
	return acts
}

// TestNothingIsSaidToBeDoneThatFoundNothing: a SAY that was written in advance is not sent.
// The model is asked once more, with the outcome in view.
func TestNothingIsSaidToBeDoneThatFoundNothing(t *testing.T) {
	t.Parallel()
	gone := do("deleteList", `{"list":"Trip"}`)
	named := func(command, name string) string {
		return strings.TrimSuffix(command, "}") + `,"saveAs":"` + name + `"}`
	}
	for name, c := range map[string]struct {
		plans []string
		said  []string
		told  string // what the prompt of the second call holds
		lists string
	}{
		"deleteList":                      {[]string{plan(gone, say("Deleted!")), plan(say("There was none."))}, []string{"There was none."}, "There is no list Trip.", ""},
		"removeItem":                      {[]string{plan(do("removeItem", `{"list":"Trip","item":"map"}`), say("Removed!")), plan(say("It is not there."))}, []string{"It is not there."}, "There is no list Trip.", ""},
		"checkItem":                       {[]string{plan(do("checkItem", `{"list":"Trip","item":"map"}`), say("Checked!")), plan(say("It is not there."))}, []string{"It is not there."}, "There is no list Trip.", ""},
		"renameList":                      {[]string{plan(do("renameList", `{"list":"Trip","name":"Tour"}`), say("Renamed!")), plan(say("It is not there."))}, []string{"It is not there."}, "There is no list Trip.", ""},
		"what quotes that result is sent": {[]string{plan(named(gone, "R"), say("Well: $r"))}, []string{"Well: There is no list Trip."}, "", ""},
		"what quotes another result is not": {
			[]string{plan(named(do("addItem", `{"list":"Food","item":"milk"}`), "M"), named(gone, "R"), say("$M"), say("$R")), plan(say("Milk is on it."))},
			[]string{"There is no list Trip.", "Milk is on it."},
			"There is no list Trip.", "milk",
		},
		"what stands before it is sent": {[]string{plan(say("Let me see."), gone, say("Deleted!")), plan(say("There was none."))}, []string{"Let me see.", "There was none."}, "There is no list Trip.", ""},
		"what comes behind it is done": {
			[]string{plan(gone, say("Deleted!"), do("addItem", `{"list":"Food","item":"milk"}`), say("Added!")), plan(say("Only added."))},
			[]string{"Only added."},
			"Added milk to the list Food.", "milk",
		},
		"a second time the action itself is heard": {
			[]string{plan(gone, say("Deleted!")), plan(do("addItem", `{"list":"Food","item":"milk"}`), gone, say("Deleted now!"))},
			[]string{"There is no list Trip. I did this: Add to a list."},
			"There is no list Trip.", "milk",
		},
		"without a SAY, in the middle":  {[]string{plan(gone, do("quiet", `{}`)), plan(say("There was none."))}, []string{"There was none."}, "There is no list Trip.", ""},
		"a SAY before it tells nothing": {[]string{plan(say("Let me see."), gone, do("quiet", `{}`)), plan(say("There was none."))}, []string{"Let me see.", "There was none."}, "There is no list Trip.", ""},
		"two plans that found nothing":  {[]string{plan(do("closeTicket", `{}`), say("Closed!")), plan(gone, say("Deleted!"))}, []string{"There is no open ticket. There is no list Trip."}, "There is no open ticket.", ""},
		"creating what is there holds":  {[]string{plan(do("createList", `{"list":"Food"}`), do("createList", `{"list":"food"}`), say("It is there."))}, []string{"It is there."}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bottest.Test(t, bottest.Config{Actions: closing()}, func(t *testing.T, kit *bottest.Kit) {
				chat := kit.Personal("mia")
				kit.Model.Says(c.plans...)
				chat.Say("go")
				for _, text := range c.said {
					chat.Expect(text)
				}
				chat.ExpectNothing()
				if got := kit.Model.LastCall().Prompt(); c.told != "" && !strings.Contains(got, c.told) {
					t.Errorf("the prompt does not hold %q:\n%s", c.told, got)
				}
				if got := keptOf(chat); !strings.Contains(got, c.lists) {
					t.Errorf("kept %s, want %s", got, c.lists)
				}
			})
		})
	}
}

// TestTheActionIsHeardWhereTheModelCannotBeAsked, and not that it was done.
func TestTheActionIsHeardWhereTheModelCannotBeAsked(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cfg  bottest.Config
		fail func(*bottest.Model)
	}{
		"it fails":          {bottest.Config{Actions: closing()}, func(m *bottest.Model) { m.Fails(401, "invalid_api_key") }},
		"no steps are left": {bottest.Config{Actions: closing(), Change: func(c *bot.Config) { c.MaxSteps = 2 }}, func(*bottest.Model) {}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bottest.Test(t, c.cfg, func(t *testing.T, kit *bottest.Kit) {
				chat := kit.Personal("mia")
				kit.Model.Says(plan(do("closeTicket", `{}`), do("addItem", `{"list":"Food","item":"milk"}`), say("All closed!")))
				c.fail(kit.Model)
				chat.Say("go")
				chat.Expect("There is no open ticket. I did this: Add to a list.")
				chat.ExpectNothing()
				kit.Model.Says(plan(say("Next.")))
				chat.Say("what now?")
				chat.Expect("Next.")
				if got := kit.Model.LastCall().Prompt(); strings.Contains(got, "All closed!") || !strings.Contains(got, "There is no open ticket.") {
					t.Errorf("the history is\n%s", got)
				}
			})
		})
	}
}

// TestAModelThatHangsHidesNothing: the person reads what came of the plan, and that the model
// did not answer.
func TestAModelThatHangsHidesNothing(t *testing.T) {
	t.Parallel()
	bottest.Test(t, bottest.Config{Actions: closing(), Change: func(c *bot.Config) { c.TurnTimeout = time.Minute }}, func(t *testing.T, kit *bottest.Kit) {
		chat := kit.Personal("mia")
		kit.Model.Says(plan(do("closeTicket", `{}`), do("addItem", `{"list":"Food","item":"milk"}`), say("All closed!")))
		kit.Model.Hangs(time.Hour)
		chat.Say("go")
		chat.ExpectMatch(`^Sorry, .*\. There is no open ticket\. I did this: Add to a list\. \(turn `)
		chat.ExpectNothing()
	})
}

// TestHooksSeeWhatActionsSay in place of the model.
func TestHooksSeeWhatActionsSay(t *testing.T) {
	t.Parallel()
	redact := func(c *bot.Config) {
		c.Features = append(c.Features, bot.Feature{Say: func(_ context.Context, _ *bot.Turn, text string) (string, error) {
			return strings.ReplaceAll(text, "ticket", "[…]"), nil
		}})
	}
	bottest.Test(t, bottest.Config{Actions: closing(), Change: redact}, func(_ *testing.T, kit *bottest.Kit) {
		chat := kit.Personal("mia")
		kit.Model.Says(plan(do("closeTicket", `{}`), say("Closed!")))
		kit.Model.Fails(401, "invalid_api_key")
		chat.Say("go")
		chat.Expect("There is no open […].")
		chat.ExpectNothing()
	})
}

// TestARejectionHidesNothing of what came before the call that was rejected.
func TestARejectionHidesNothing(t *testing.T) {
	t.Parallel()
	acts := closing()
	actions.Add(acts, "wipe", "Wipes", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) { return actions.Done, nil }, actions.NeedsApproval)
	bottest.Test(t, bottest.Config{Actions: acts}, func(t *testing.T, kit *bottest.Kit) {
		chat := kit.Personal("mia")
		kit.Model.Says(plan(do("closeTicket", `{}`), say("Closed!"), do("wipe", `{}`), say("Wiped!")), plan(say("No ticket was open, and I wiped nothing.")))
		chat.Say("go")
		chat.ExpectCard("Wipe")
		chat.Press("Reject")
		chat.Expect("No ticket was open, and I wiped nothing.")
		chat.ExpectNothing()
	})
}

// TestAPlanThatIsAnActionFindsNothing: it says so, in the plan that calls it. After a crash
// what only state knows is still so.
func TestAPlanThatIsAnActionFindsNothing(t *testing.T) {
	t.Parallel()
	for name, inner := range map[string]string{
		"alone":        do("deleteList", `{"list":"Trip"}`),
		"quoted":       strings.TrimSuffix(do("deleteList", `{"list":"Trip"}`), "}") + `,"saveAs":"R"},` + say("$R"),
		"with others":  do("deleteList", `{"list":"Trip"}`) + "," + do("quiet", `{}`),
		"with effects": do("deleteList", `{"list":"Trip"}`) + "," + do("mail", `{}`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			acts := closing()
			actions.Add(acts, "mail", "Mails", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) { return actions.Done, nil })
			decoded, err := plans.Decode(`{"type":"plan","commands":[` + inner + `]}`)
			must(t, err)
			_, err = decoded.AddAction(acts, "tidy", "Tidies up")
			must(t, err)
			bottest.Test(t, bottest.Config{Actions: acts}, func(t *testing.T, kit *bottest.Kit) {
				chat := kit.Personal("mia")
				kit.CrashAfter(1)
				kit.Model.Decides(func(c bottest.ModelCall) (bottest.Answer, bool) {
					text := plan(do("tidy", `{}`), say("All is deleted."))
					if strings.Contains(c.Prompt(), "Results of the last plan") {
						text = plan(say("Nothing was there."))
					}
					return bottest.Answer{Text: text}, true
				})
				chat.Say("tidy up")
				kit.Await(func() bool { return !kit.Alive(1) })
				kit.Restart()
				chat.Expect("Nothing was there.")
				chat.ExpectNothing()
			})
		})
	}
}

// TestWhatADeadProcessDidCountsAsDone: the call that is made again finds nothing to act on,
// because it was done.
func TestWhatADeadProcessDidCountsAsDone(t *testing.T) {
	t.Parallel()
	bottest.Test(t, bottest.Config{Actions: closing()}, func(t *testing.T, kit *bottest.Kit) {
		chat := kit.Personal("mia")
		kit.CrashAfter(1)
		kit.Model.Says(plan(do("closeTicket", `{}`), say("Closed.")))
		chat.Say("close it")
		kit.Await(func() bool { return !kit.Alive(1) })
		kit.Restart()
		chat.Expect("Closed.")
		chat.ExpectNothing()
	})
}

// TestAnApprovedCallThatFindsNothingIsNotSaidToBeDone, as any other.
func TestAnApprovedCallThatFindsNothingIsNotSaidToBeDone(t *testing.T) {
	t.Parallel()
	bottest.Test(t, bottest.Config{Actions: closing(actions.NeedsApproval)}, func(t *testing.T, kit *bottest.Kit) {
		chat := kit.Personal("mia")
		kit.Model.Says(plan(do("closeTicket", `{}`), say("Closed!")), plan(say("Nothing was open.")))
		chat.Say("close it")
		chat.ExpectCard("Close ticket")
		chat.Press("Approve")
		chat.Expect("Nothing was open.")
		chat.ExpectNothing()
	})
}

// TestXMLPlansWithhold what is not so, too.
func TestXMLPlansWithhold(t *testing.T) {
	t.Parallel()
	bottest.Test(t, bottest.Config{Actions: closing(), Planner: "sequential"}, func(t *testing.T, kit *bottest.Kit) {
		chat := kit.Personal("mia")
		kit.Model.Says(`<plan><function.closeTicket/><say>Closed!</say></plan>`, "Nothing was open.")
		chat.Say("close it")
		chat.Expect("Nothing was open.")
		kit.Model.Says(`<plan><function.closeTicket setContextVariable="R"/><say>So: $R</say></plan>`)
		chat.Say("close it again")
		chat.Expect("So: There is no open ticket.")
		chat.ExpectNothing()
	})
}
