package bot_test

import (
	"context"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bottest"
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
			[]string{"There is no list Trip.", "Milk is on it."}, "There is no list Trip.", "milk",
		},
		"what stands before it is sent": {[]string{plan(say("Let me see."), gone, say("Deleted!")), plan(say("There was none."))}, []string{"Let me see.", "There was none."}, "There is no list Trip.", ""},
		"what comes behind it is done": {
			[]string{plan(gone, say("Deleted!"), do("addItem", `{"list":"Food","item":"milk"}`), say("Added!")), plan(say("Only added."))},
			[]string{"Only added."}, "Added milk to the list Food.", "milk",
		},
		"a second time the action itself is heard": {
			[]string{plan(gone, say("Deleted!")), plan(do("addItem", `{"list":"Food","item":"milk"}`), gone, say("Deleted now!"))},
			[]string{"There is no list Trip. I did this: addItem."}, "There is no list Trip.", "milk",
		},
		"creating what is there holds": {[]string{plan(do("createList", `{"list":"Food"}`), do("createList", `{"list":"food"}`), say("It is there."))}, []string{"It is there."}, "", ""},
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
				chat.Expect("There is no open ticket. I did this: addItem.")
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
		chat.ExpectCard("closeTicket")
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
