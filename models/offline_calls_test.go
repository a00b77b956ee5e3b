package models_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/models"
)

// toolRequest is what the planner of tools would send for messages.
func toolRequest(messages ...models.Message) *models.Request {
	req := &models.Request{Messages: append([]models.Message{{Role: models.System, Text: "You are a bot. Call functions."}}, messages...)}
	for _, name := range []string{"createList", "addItem", "removeItem", "checkItem", "renameList", "deleteList", "findItem", "summarizeLists", "Dice-roll"} {
		req.Tools = append(req.Tools, models.Tool{Name: name, Schema: json.RawMessage(`{"type":"object"}`)})
	}
	return req
}

func user(text string) models.Message { return models.Message{Role: models.User, Text: text} }

func called(calls ...models.Call) models.Message {
	return models.Message{Role: models.Assistant, Calls: calls}
}

func answered(id, text string) models.Message {
	return models.Message{Role: models.ToolRole, CallID: id, Text: text}
}

func askOffline(t *testing.T, req *models.Request) *models.Response {
	t.Helper()
	got, err := models.Offline{}.Complete(t.Context(), req)
	if err != nil || got.Model != models.OfflineName {
		t.Fatalf("got %+v, %v", got, err)
	}
	if wantFinish := len(got.Calls) > 0; wantFinish != (got.Finish == models.FinishTools) || wantFinish == (got.Text != "") {
		t.Errorf("response %+v", got)
	}
	return got
}

func TestOfflineCallsTools(t *testing.T) {
	t.Parallel()
	milk := models.Call{ID: "call_1", Name: "addItem", Arguments: `{"item":"milk","list":"groceries"}`}
	tests := []struct {
		name string
		req  *models.Request
		want []models.Call
	}{
		{"one", toolRequest(user("add milk to the groceries list")), []models.Call{milk}},
		{"several", toolRequest(user("create a groceries list and add milk and $5 & eggs to it")), []models.Call{
			{ID: "call_1", Name: "createList", Arguments: `{"list":"groceries"}`},
			{ID: "call_2", Name: "addItem", Arguments: `{"item":"milk","list":"groceries"}`},
			{ID: "call_3", Name: "addItem", Arguments: `{"item":"$5","list":"groceries"}`},
			{ID: "call_4", Name: "addItem", Arguments: `{"item":"eggs","list":"groceries"}`},
		}},
		{"nothing to fill in", toolRequest(user("what is on my lists?")), []models.Call{{ID: "call_1", Name: "summarizeLists", Arguments: "{}"}}},
		{"by name", toolRequest(user("Dice-roll sides=6")), []models.Call{{ID: "call_1", Name: "Dice-roll", Arguments: `{"sides":"6"}`}}},
		{"by name, JSON", toolRequest(user(`addItem {"list":"$a","item":"b"}`)), []models.Call{{ID: "call_1", Name: "addItem", Arguments: `{"item":"b","list":"$a"}`}}},
		{"in a conversation", toolRequest(
			user("create a groceries list"), called(models.Call{ID: "call_1", Name: "createList"}), answered("call_1", "Created the list groceries."),
			models.Message{Role: models.Assistant, Text: "Created the list groceries."}, user("add milk to it"),
		), []models.Call{{ID: "call_2", Name: "addItem", Arguments: `{"item":"milk","list":"groceries"}`}}},
		{"hello", toolRequest(user("hello")), nil},
		{"not understood", toolRequest(user("write a poem")), nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := askOffline(t, tt.req)
			if diff := cmp.Diff(tt.want, got.Calls); diff != "" {
				t.Errorf("%s\ntext %q", diff, got.Text)
			}
			if strings.HasPrefix(got.Text, "{") {
				t.Errorf("a plan as text: %s", got.Text)
			}
		})
	}
}

func TestOfflineCallsOnlyWhatThereIs(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]func(*models.Request){
		"another tool": func(req *models.Request) { req.Tools = req.Tools[:1] },
		"no calling":   func(req *models.Request) { req.Choice = models.ChoiceNone },
		"no tools left": func(req *models.Request) {
			req.Tools = nil
			req.Messages = append([]models.Message{called(models.Call{ID: "1", Name: "a"}), answered("1", "b")}, req.Messages...)
		},
	} {
		req := toolRequest(user("add milk to the groceries list"))
		edit(req)
		if got := askOffline(t, req); len(got.Calls) > 0 || !strings.Contains(got.Text, "needs the action addItem") {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestOfflineSaysWhatToolsAnswered(t *testing.T) {
	t.Parallel()
	said := user("add milk and eggs to the groceries list")
	calls := called(models.Call{ID: "a", Name: "addItem"}, models.Call{ID: "b", Name: "addItem"})
	tests := []struct {
		name string
		req  *models.Request
		want string
	}{
		{"results", toolRequest(said, calls, answered("a", "Added milk."), answered("b", "Added eggs.\n")), "Added milk.\nAdded eggs."},
		{"data", toolRequest(said, calls, answered("a", `{"n":1}`), answered("b", "[1]")), "addItem: {\"n\":1}\naddItem: [1]"},
		{"nothing to tell", toolRequest(said, calls, answered("a", "done"), answered("b", "")), "addItem is done.\naddItem is done."},
		{"a failure", toolRequest(said, calls, answered("a", "Added milk."), answered("b", "Error: the list is full")), "Added milk.\nI could not do addItem: the list is full"},
		{"rounds", toolRequest(said, called(models.Call{ID: "a", Name: "addItem"}), answered("a", "Added milk."), called(models.Call{ID: "b", Name: "addItem"}), answered("b", "Added eggs.")), "Added milk.\nAdded eggs."},
		{"a last word", toolRequest(said, calls, answered("a", "Added milk."), answered("b", "Added eggs."), models.Message{Role: models.System, Text: "You cannot call any more."}), "Added milk.\nAdded eggs."},
		{"not those of another turn", toolRequest(user("x"), calls, answered("a", "old"), answered("b", "old"), said, called(models.Call{ID: "c", Name: "addItem"}), answered("c", "new")), "new"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := askOffline(t, tt.req); got.Text != tt.want {
				t.Errorf("said %q, want %q", got.Text, tt.want)
			}
			tt.req.Tools = nil // the final call
			if got := askOffline(t, tt.req); got.Text != tt.want {
				t.Errorf("without tools said %q, want %q", got.Text, tt.want)
			}
		})
	}
}

// TestOfflineCallsOneAfterTheOther where only one call at a time is wanted, up to
// the first that fails.
func TestOfflineCallsOneAfterTheOther(t *testing.T) {
	t.Parallel()
	req := toolRequest(user("add milk, eggs and bread to the groceries list"))
	req.OneCallAtMost = true
	items := []string{"milk", "eggs", "bread"}
	for _, item := range items {
		got := askOffline(t, req)
		if len(got.Calls) != 1 || !strings.Contains(got.Calls[0].Arguments, item) {
			t.Fatalf("%s: %+v", item, got)
		}
		req.Messages = append(req.Messages, called(got.Calls[0]), answered(got.Calls[0].ID, "Added "+item+"."))
	}
	if got := askOffline(t, req); got.Text != "Added milk.\nAdded eggs.\nAdded bread." {
		t.Errorf("said %q", got.Text)
	}
	req.Messages = req.Messages[:4]
	req.Messages[3].Text = "Error: full"
	if got := askOffline(t, req); got.Text != "I could not do addItem: full" {
		t.Errorf("after a failure: %+v", got)
	}
}
