package bot_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/actions"
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

// TestToolsStopsInTime: a model that never ends is asked once without functions.
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
	if len(calls) != 11 || len(calls[9].Tools) == 0 || len(calls[10].Tools) != 0 {
		t.Errorf("%d calls", len(calls))
	}
}

// TestToolsThatStillCalls, without functions, has made no plan.
func TestToolsThatStillCalls(t *testing.T) {
	t.Parallel()
	b := setupPlanner(t, "tools")
	for i := range 11 {
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
