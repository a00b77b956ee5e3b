package bot_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/internal/fakemodel"
)

func toolCall(id, name, arguments string) fakemodel.ToolCall {
	return fakemodel.ToolCall{ID: id, Name: name, Arguments: arguments}
}

// TestToolsAnswersEveryCall, also those that a failed one has stopped.
func TestToolsAnswersEveryCall(t *testing.T) {
	t.Parallel()
	b := setupPlanner(t, "tools")
	b.addOddActions()
	b.url = b.replica() // whose planner knows them
	b.model.CallsTools("Let me see.", toolCall("a", "addItem", `{"list":"Home","item":"milk"}`),
		toolCall("b", "broken", `{}`), toolCall("c", "deleteList", `{"list":"Home"}`))
	b.model.Says("I added milk.")
	b.say("go on")
	b.expect("I added milk.")
	asked := b.model.Calls()[1]
	if n := len(asked.Messages); n < 4 || asked.Messages[n-4].Content != "Let me see." || len(asked.Messages[n-4].ToolCalls) != 3 {
		t.Fatalf("asked\n%s", asked.Text())
	}
	for i, want := range []string{"Added milk", "Error: out of order", "Error: not run"} {
		id := string(rune('a' + i))
		if m := asked.Messages[len(asked.Messages)-3+i]; m.Role != "tool" || m.ToolCallID != id || !strings.HasPrefix(m.Content, want) {
			t.Errorf("message %+v does not answer %s with %s", m, id, want)
		}
	}
}

// TestToolsStopsInTime: a model that never ends is asked once for an answer alone.
func TestToolsStopsInTime(t *testing.T) {
	t.Parallel()
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
}

// TestToolsThatStillCalls, first though it may not and then without functions, has
// made no plan.
func TestToolsThatStillCalls(t *testing.T) {
	t.Parallel()
	b := setupPlanner(t, "tools")
	for i := range 12 {
		b.model.CallsTools("", toolCall("id", "addItem", fmt.Sprintf(`{"list":"Home","item":"i%d"}`, i)))
	}
	b.say("go on")
	b.expectFault("I could not make a plan for that")
}

// TestToolsFillsHostValues that the model tries to set.
func TestToolsFillsHostValues(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"tools", "sequence", "sequential"} {
		b := setupPlanner(t, name)
		got := make(chan string, 1)
		type in struct {
			Note string `json:"note"`
			Turn string `json:"turn" host:"turn"`
		}
		actions.Add(b.actions, "act", "Acts", func(_ context.Context, turn *actions.Turn, in in) (actions.Result, error) {
			got <- in.Note + fmt.Sprint(in.Turn == turn.ID)
			return actions.Done, nil
		})
		b.url = b.replica() // whose planner knows the action
		switch name {
		case "tools":
			b.model.CallsTools("", toolCall("a", "act", `{"note":"n","turn":"mine"}`))
			b.model.Says("Done.")
		case "sequence":
			b.model.Says(plan(do("act", `{"note":"n","turn":"mine"}`), say("Done.")))
		default:
			b.model.Says(`<plan><function.act note="n" turn="mine"/><say>Done.</say></plan>`)
		}
		b.say("go on")
		b.expect("Done.")
		if g := <-got; g != "ntrue" {
			t.Errorf("%s: got %s", name, g)
		}
		for _, call := range b.model.Calls() {
			if name == "tools" && strings.Contains(string(call.Tools[len(call.Tools)-1].Parameters), "turn") {
				t.Errorf("the model is told of the turn")
			}
		}
	}
}

// TestToolsRemembersResults: the next turn's prompt retells the calls with what
// they put out.
func TestToolsRemembersResults(t *testing.T) {
	t.Parallel()
	b := setupPlanner(t, "tools")
	b.model.CallsTools("", toolCall("a", "addItem", `{"list":"Home","item":"milk"}`))
	b.model.Says("Added.", "You have milk.")
	b.say("add milk")
	b.expect("Added.")
	b.say("and now?")
	b.expect("You have milk.")
	asked := b.model.Calls()[2]
	for i, m := range asked.Messages {
		if len(m.ToolCalls) == 0 {
			continue
		}
		answer := asked.Messages[i+1]
		if m.ToolCalls[0].Name != "addItem" || answer.ToolCallID != m.ToolCalls[0].ID || !strings.Contains(answer.Content, "Added milk to the list Home") {
			t.Errorf("call %+v, answer %+v", m, answer)
		}
		return
	}
	t.Errorf("no call in\n%s", asked.Text())
}

// TestToolsWaitsForApproval: the round goes on where it waited, and each of its
// calls is answered.
func TestToolsWaitsForApproval(t *testing.T) {
	t.Parallel()
	b := setupPlanner(t, "tools", func(c *bot.Config) {
		c.Policy = func(_ context.Context, _ *actions.Turn, call actions.Call) (actions.Approval, error) {
			return actions.Approval{Required: call.Action.Name == "deleteList"}, nil
		}
	})
	b.model.CallsTools("", toolCall("a", "addItem", `{"list":"Home","item":"milk"}`), toolCall("b", "deleteList", `{"list":"Home"}`), toolCall("c", "addItem", `{"list":"Work","item":"pen"}`))
	b.model.Says("All three.")
	b.say("go on")
	approve, _ := buttons(t, b.connector.Next(t))
	b.post(b.replica(), b.activity(click(approve, nil)))
	b.expect("All three.")
	asked := b.model.Calls()[1].Messages
	calls := asked[len(asked)-4].ToolCalls
	for i, want := range []string{"Added milk", "Deleted the list Home", "Added pen"} {
		if m := asked[len(asked)-3+i]; len(calls) != 3 || m.ToolCallID != calls[i].ID || !strings.HasPrefix(m.Content, want) {
			t.Errorf("message %+v does not answer %+v with %s", m, calls, want)
		}
	}
}
