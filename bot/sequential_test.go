package bot_test

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/lists"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bottest"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner"
	plans "github.com/planbot-go/planbot/planner/plan"
	"github.com/planbot-go/planbot/prompts"
	"github.com/planbot-go/planbot/state"
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
		"a plan of nothing":           {[]string{"<plan/>"}, "Sorry, I can't do that with the actions I have.", false},
		"what fails stops the plan":   {[]string{`<plan><function.broken/>` + add + `<say>All done!</say></plan>`, "That did not work."}, "That did not work.", false},
		"the output feeds the next":   {[]string{`<plan><function.shout input="milk"/><function.shout/></plan>`}, "MILK!!", false},
		"the goal is the first input": {[]string{`<plan><function.shout/></plan>`}, "ADD MILK, $5!", false},
		"nothing to tell":             {[]string{`<plan><function.quiet/></plan>`}, "Done.", false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bottest.Test(t, bottest.Config{Actions: oddActions(), Planner: "sequential"}, func(t *testing.T, kit *bottest.Kit) {
				kit.Model.Says(test.says...)
				chat := kit.Personal("Mia")
				chat.Say("add milk, $5")
				chat.ExpectMatch("^" + regexp.QuoteMeta(test.reply))
				chat.ExpectNothing()
				if n := len(kit.Model.Calls()); n != len(test.says) {
					t.Errorf("%d model calls, want %d", n, len(test.says))
				}
				if all := state.Of[lists.Lists](chat.User()).All; (len(all) > 0) != test.adds {
					t.Errorf("kept %v", all)
				}
			})
		})
	}
}

// addOddActions adds an action that fails, one with nothing to tell and one with
// an input.
func addOddActions(to *actions.Registry) {
	type nothing struct{}
	actions.Add(to, "broken", "Fails", func(context.Context, *actions.Turn, nothing) (actions.Result, error) {
		return actions.Fail("out of order"), nil
	})
	actions.Add(to, "quiet", "Says nothing", func(context.Context, *actions.Turn, nothing) (actions.Result, error) {
		return actions.Done, nil
	})
	type shouted struct {
		Input string `json:"input"`
	}
	actions.Add(to, "shout", "Shouts", func(_ context.Context, _ *actions.Turn, in shouted) (actions.Result, error) {
		return actions.Text("%s!", strings.ToUpper(in.Input)), nil
	})
}

func TestThePlannerIsChosenByConversation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, func(c *bot.Config) {
			b := &bundle{T: t}
			library, err := prompts.Load("")
			b.must(err)
			sequence := c.Planner
			sequential, err := planner.NewSequential(t.Context(), planner.Config{Model: offline{}, Prompts: library, Actions: c.Actions})
			b.must(err)
			c.Planner = bot.PlannerFunc(func(ctx context.Context, turn *actions.Turn) (plans.Plan, error) {
				if turn.Activity.Conversation.Personal() {
					return sequential.Plan(ctx, turn)
				}
				return sequence.Plan(ctx, turn)
			})
		})
		b.say("hi")
		b.expect("added by XML")
		b.model.Says(plan(say("said by JSON")))
		b.deliver(event{"text": "<at>Bot</at> hi", "conversation": event{"id": "19:g", "conversationType": "groupChat", "isGroup": true, "tenantId": "t1"}, "entities": []event{{"type": "mention", "text": "<at>Bot</at>", "mentioned": event{"id": "28:bot"}}}})
		b.expect("said by JSON")
	})
}

// offline answers with one plan.
type offline struct{}

func (offline) Complete(context.Context, *models.Request) (*models.Response, error) {
	return &models.Response{Text: `<plan><say>added by XML</say></plan>`}, nil
}
