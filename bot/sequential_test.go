package bot_test

import (
	"context"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/actions"
)

// TestSequentialRuns plays turns of the sequential planner whose model is of use,
// cut off, or of no use at all.
func TestSequentialRuns(t *testing.T) {
	t.Parallel()
	const add = `<function.addItem list="Home" item="milk"/>`
	const added = "Added milk to the list Home."
	tests := map[string]struct {
		says  []string
		reply string // begins with it
		adds  bool   // whether a list is kept
	}{
		"the output is the reply":     {[]string{"<plan>" + add + "</plan>"}, added, true},
		"a JSON plan":                 {[]string{plan(do("addItem", `{"list":"Home","item":"milk"}`), say("ok"))}, "ok", true},
		"prose":                       {[]string{"Which list?"}, "Which list?", false},
		"cut off, then whole":         {[]string{"<plan>" + add, "<plan>" + add + "</plan>"}, added, true},
		"cut off for ever":            {[]string{"<plan>" + add, "<plan>" + add, "<plan>" + add}, "Sorry, I could not make a plan for that.", false},
		"invents functions for ever":  {[]string{"<plan>" + add + "<function.fly/></plan>", "<plan>" + add + "<function.fly/></plan>", "<plan><function.fly/></plan>"}, "Sorry, I could not make a plan for that.", false},
		"refuses, then says why":      {[]string{"<plan/>", "I cannot order a pizza."}, "I cannot order a pizza.", false},
		"what fails stops the plan":   {[]string{`<plan><function.broken/>` + add + `<say>All done!</say></plan>`, "That did not work."}, "That did not work.", false},
		"the output feeds the next":   {[]string{`<plan><function.shout input="milk"/><function.shout/></plan>`}, "MILK!!", false},
		"the goal is the first input": {[]string{`<plan><function.shout/></plan>`}, "ADD MILK, $5!", false},
		"nothing to tell":             {[]string{`<plan><function.quiet/></plan>`}, "Done.", false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setupPlanner(t, "sequential")
			b.addOddActions()
			b.model.Says(test.says...)
			b.say("add milk, $5")
			if got := b.connector.Next(b).Text(); !strings.HasPrefix(got, test.reply) {
				t.Errorf("reply %q, want %q", got, test.reply)
			}
			if n := len(b.model.Calls()); n != len(test.says) {
				t.Errorf("%d model calls, want %d", n, len(test.says))
			}
			if dump := b.redis.Dump(); strings.Contains(dump, `\nlists `) != test.adds {
				t.Errorf("state after it:\n%s", dump)
			}
		})
	}
}

// addOddActions adds an action that fails, one with nothing to tell and one with
// an input.
func (b *bundle) addOddActions() {
	type nothing struct{}
	actions.Add(b.actions, "broken", "Fails", func(context.Context, *actions.Turn, nothing) (actions.Result, error) {
		return actions.Fail("out of order"), nil
	})
	actions.Add(b.actions, "quiet", "Says nothing", func(context.Context, *actions.Turn, nothing) (actions.Result, error) {
		return actions.Done, nil
	})
	type shouted struct {
		Input string `json:"input"`
	}
	actions.Add(b.actions, "shout", "Shouts", func(_ context.Context, _ *actions.Turn, in shouted) (actions.Result, error) {
		return actions.Text("%s!", strings.ToUpper(in.Input)), nil
	})
}
