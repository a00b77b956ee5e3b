package bot_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bottest"
	"github.com/planbot-go/planbot/models"
)

func toolCall(id, name, arguments string) models.Call {
	return models.Call{ID: id, Name: name, Arguments: arguments}
}

// TestToolsAnswersEveryCall, also those that a failed one has stopped.
func TestToolsAnswersEveryCall(t *testing.T) {
	t.Parallel()
	bottest.Test(t, bottest.Config{Actions: oddActions(), Planner: "tools"}, func(t *testing.T, kit *bottest.Kit) {
		kit.Model.Answers(bottest.Answer{Text: "Let me see.", Calls: []models.Call{
			{ID: "a", Name: "addItem", Arguments: `{"list":"Home","item":"milk"}`}, {ID: "b", Name: "broken", Arguments: `{}`}, {ID: "c", Name: "deleteList", Arguments: `{"list":"Home"}`},
		}})
		kit.Model.Says("I added milk.")
		chat := kit.Personal("Mia")
		chat.Say("go on")
		chat.Expect("I added milk.")
		asked := kit.Model.LastCall().Messages
		if n := len(asked); n < 4 || asked[n-4].Text != "Let me see." {
			t.Fatalf("asked\n%s", kit.Model.LastCall().Prompt())
		}
		checkAnswers(t, asked, "Added milk", "Error: out of order", "Error: not run")
	})
}

// checkAnswers holds the last messages to answers to the calls before them, in order.
func checkAnswers(t *testing.T, asked []models.Message, want ...string) {
	t.Helper()
	first := len(asked) - len(want)
	calls := asked[first-1].Calls
	if len(calls) != len(want) {
		t.Fatalf("%d calls, want %d", len(calls), len(want))
	}
	for i, begins := range want {
		if m := asked[first+i]; m.Role != "tool" || m.CallID != calls[i].ID || !strings.HasPrefix(m.Text, begins) {
			t.Errorf("message %+v does not answer %+v with %s", m, calls[i], begins)
		}
	}
}

// TestToolsStopsInTime: a model that never ends is asked once for an answer alone.
func TestToolsStopsInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setupPlanner(t, "tools")
		for i := range 10 {
			b.model.CallsTools("", toolCall(fmt.Sprint("id", i), "addItem", fmt.Sprintf(`{"list":"Home","item":"i%d"}`, i)))
		}
		b.model.Says("That is enough.")
		b.say("go on")
		b.expect("That is enough.")
		calls := b.model.Calls()
		if len(calls) != 11 || calls[9].ToolChoice != nil || len(calls[10].Tools) == 0 || calls[10].ToolChoice != "none" {
			t.Errorf("%d calls", len(calls))
		}
	})
}

// TestToolsThatStillCalls, first though it may not and then without functions, has
// made no plan.
func TestToolsThatStillCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setupPlanner(t, "tools")
		for i := range 12 {
			b.model.CallsTools("", toolCall("id", "addItem", fmt.Sprintf(`{"list":"Home","item":"i%d"}`, i)))
		}
		b.say("go on")
		b.expectFault("I could not make a plan for that")
	})
}

// TestToolsFillsHostValues that the model tries to set.
func TestToolsFillsHostValues(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"tools", "sequence", "sequential"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			type in struct {
				Note string `json:"note"`
				Turn string `json:"turn" host:"turn"`
			}
			var got []string
			acts := actions.New()
			actions.Add(acts, "act", "Acts", func(_ context.Context, turn *actions.Turn, in in) (actions.Result, error) {
				got = append(got, in.Note+fmt.Sprint(in.Turn == turn.ID))
				return actions.Done, nil
			})
			bottest.Test(t, bottest.Config{Actions: acts, Planner: name}, func(t *testing.T, kit *bottest.Kit) {
				if name == "sequence" { // one plan that does and says
					kit.Model.Says(plan(do("act", `{"note":"n","turn":"mine"}`), say("Done.")))
				} else {
					script{kit.Model, name}.calls("act", "note", `"n"`, "turn", `"mine"`)
				}
				if name == "tools" {
					kit.Model.Says("Done.")
				}
				chat := kit.Personal("Mia")
				chat.Say("go on")
				chat.Expect("Done.")
				if !slices.Equal(got, []string{"ntrue"}) {
					t.Errorf("got %q", got)
				}
				for _, call := range kit.Model.Calls() {
					if name == "tools" && (len(call.Tools) != 1 || strings.Contains(string(call.Tools[0].Schema), "turn")) {
						t.Errorf("the model is told of %+v", call.Tools)
					}
				}
			})
		})
	}
}

// TestToolsRemembersResults: the next turn's prompt retells the calls with what
// they put out.
func TestToolsRemembersResults(t *testing.T) {
	t.Parallel()
	bottest.Test(t, bottest.Config{Actions: oddActions(), Planner: "tools"}, func(t *testing.T, kit *bottest.Kit) {
		script{kit.Model, "tools"}.calls("addItem", "list", `"Home"`, "item", `"milk"`)
		kit.Model.Says("Added.", "You have milk.")
		chat := kit.Personal("Mia")
		chat.Say("add milk")
		chat.Expect("Added.")
		chat.Say("and now?")
		chat.Expect("You have milk.")
		asked := kit.Model.LastCall().Messages
		i := slices.IndexFunc(asked, func(m models.Message) bool { return len(m.Calls) > 0 })
		if i < 0 || asked[i].Calls[0].Name != "addItem" {
			t.Fatalf("no call in\n%s", kit.Model.LastCall().Prompt())
		}
		checkAnswers(t, asked[:i+2], "Added milk to the list Home")
	})
}

// TestToolsWaitsForApproval: the round goes on where it waited, also in another process,
// and each of its calls is answered.
func TestToolsWaitsForApproval(t *testing.T) {
	t.Parallel()
	cfg := bottest.Config{Actions: oddActions(), Planner: "tools", Change: func(c *bot.Config) {
		c.Policy = func(_ context.Context, _ *actions.Turn, call actions.Call) (actions.Approval, error) {
			return actions.Approval{Required: call.Action.Name == "deleteList"}, nil
		}
	}}
	bottest.Test(t, cfg, func(t *testing.T, kit *bottest.Kit) {
		kit.Model.CallsTools(models.Call{ID: "a", Name: "addItem", Arguments: `{"list":"Home","item":"milk"}`},
			models.Call{ID: "b", Name: "deleteList", Arguments: `{"list":"Home"}`}, models.Call{ID: "c", Name: "addItem", Arguments: `{"list":"Work","item":"pen"}`})
		kit.Model.Says("All three.")
		chat := kit.Personal("Mia")
		chat.Say("go on")
		card := chat.ExpectCard("Delete a list", "Home")
		chat.ExpectNothing()
		kit.Restart()
		card.Press("Approve")
		chat.Expect("All three.")
		checkAnswers(t, kit.Model.LastCall().Messages, "Added milk", "Deleted the list Home", "Added pen")
	})
}
