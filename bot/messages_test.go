package bot_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bottest"
	plans "github.com/planbot-go/planbot/planner/plan"
)

func numbers(n int) []string {
	says := make([]string, n)
	for i := range says {
		says[i] = fmt.Sprint("Number ", i, ".")
	}
	return says
}

func saying(texts ...string) []string {
	commands := make([]string, len(texts))
	for i, text := range texts {
		commands[i] = say(text)
	}
	return commands
}

// TestSAYsOfATurnAreBounded: a plan with too many is a fault, and the model is asked for
// another one.
func TestSAYsOfATurnAreBounded(t *testing.T) {
	t.Parallel()
	most := plan(saying(numbers(20)...)...)
	for name, c := range map[string]struct {
		plans []string
		said  []string
	}{
		"as many as may be":      {[]string{most}, numbers(20)},
		"one more":               {[]string{plan(saying(numbers(21)...)...), plan(say("In short: 21."))}, []string{"In short: 21."}},
		"forty":                  {[]string{plan(saying(numbers(40)...)...), most}, numbers(20)},
		"of two plans":           {[]string{plan(append(saying(numbers(15)...), do("findItem", `{"item":"x"}`))...), plan(saying(numbers(6)...)...), plan(saying(numbers(5)...)...)}, append(numbers(15), numbers(5)...)},
		"a long one, in parts":   {[]string{plan(append(saying(numbers(19)...), say(strings.Repeat("line\\n", 9000)))...)}, nil},
		"never again":            {slices.Repeat([]string{plan(saying(numbers(21)...)...)}, 3), []string{"<fault>"}},
		"none left for a result": {[]string{plan(append(saying(numbers(20)...), do("findItem", `{"item":"x"}`))...)}, append(numbers(20), "<many>")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bottest.Test(t, bottest.Config{Actions: oddActions()}, func(t *testing.T, kit *bottest.Kit) {
				chat := kit.Personal("mia")
				kit.Model.Says(c.plans...)
				chat.Say("go")
				if c.said == nil {
					kit.Settle()
					if got := len(chat.Messages()); got <= 20 {
						t.Errorf("%d messages: nothing was split", got)
					}
					return
				}
				for _, text := range c.said {
					switch text {
					case "<fault>":
						chat.ExpectMatch("^Sorry, I could not make a plan for that")
					case "<many>":
						chat.ExpectMatch("^Sorry, answering that would take too many messages")
					default:
						chat.Expect(text)
					}
				}
				chat.ExpectNothing()
			})
		})
	}
}

// TestSAYsOfOtherPlannersAreBounded, though nobody else looked at their plans.
func TestSAYsOfOtherPlannersAreBounded(t *testing.T) {
	t.Parallel()
	chatty := bot.PlannerFunc(func(context.Context, *actions.Turn) (plans.Plan, error) {
		return plans.Plan{Commands: slices.Repeat([]plans.Command{{Kind: plans.Say, Response: "Again."}}, 4)}, nil
	})
	change := func(c *bot.Config) { c.Planner, c.Budget.Messages = chatty, 3 }
	bottest.Test(t, bottest.Config{Actions: oddActions(), Change: change}, func(_ *testing.T, kit *bottest.Kit) {
		chat := kit.Personal("mia")
		chat.Say("go")
		chat.ExpectMatch("^Sorry, answering that would take too many messages")
		chat.ExpectNothing()
	})
}
