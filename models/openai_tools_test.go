package models_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/models"
)

var addItem = models.Tool{Name: "addItem", Description: "Adds an item", Schema: json.RawMessage(`{"type":"object","properties":{"item":{"type":"string"}}}`)}

// afterCalls is a conversation in which tools were called.
func afterCalls() []models.Message {
	return []models.Message{
		{Role: "system", Text: "You keep lists."},
		{Role: "user", Text: "add milk and eggs"},
		{Role: "assistant", Text: "One moment.", Calls: []models.Call{
			{ID: "call_a", Name: "addItem", Arguments: `{"item":"milk"}`},
			{ID: "call_b", Name: "addItem", Arguments: `{"item":"eggs"}`},
		}},
		{Role: "tool", CallID: "call_a", Text: "Added milk."},
		{Role: "tool", CallID: "call_b"},
	}
}

// wireCall is a call as it stands in a message.
func wireCall(id, name, arguments string) map[string]any {
	return map[string]any{"id": id, "type": "function", "function": map[string]any{"name": name, "arguments": arguments}}
}

// bodyOf asks a model that answers, and is what the server got.
func bodyOf(t *testing.T, req *models.Request, edit func(cfg *models.OpenAIConfig, url string)) map[string]any {
	t.Helper()
	b := setup(t, answer(200, completion), edit)
	before := clone(t, req)
	if _, err := b.model.Complete(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, clone(t, req)); diff != "" {
		t.Errorf("the request was changed: %s", diff)
	}
	return (<-b.seen).Body
}

func TestToolsAtTheWire(t *testing.T) {
	t.Parallel()
	strict := addItem
	strict.Strict = true
	wire := func(strict bool) map[string]any {
		function := map[string]any{
			"name": "addItem", "description": "Adds an item",
			"parameters": map[string]any{"type": "object", "properties": map[string]any{"item": map[string]any{"type": "string"}}},
		}
		if strict {
			function["strict"] = true
		}
		return map[string]any{"type": "function", "function": function}
	}
	nothing := map[string]any{"type": "function", "function": map[string]any{
		"name": "ping", "parameters": map[string]any{"type": "object", "properties": map[string]any{}},
	}}
	tests := []struct {
		name                    string
		req                     models.Request
		tools, choice, parallel any
	}{
		{"none", models.Request{Choice: "required", OneCallAtMost: true}, nil, nil, nil},
		{"auto", models.Request{Tools: []models.Tool{addItem, {Name: "ping"}}}, []any{wire(false), nothing}, nil, nil},
		{"required, one", models.Request{Tools: []models.Tool{strict}, Choice: "required", OneCallAtMost: true}, []any{wire(true)}, "required", false},
		{"seen only", models.Request{Tools: []models.Tool{addItem}, Choice: "none"}, []any{wire(false)}, "none", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.req.Messages = hello.Messages
			body := bodyOf(t, &tt.req, nil)
			got := []any{body["tools"], body["tool_choice"], body["parallel_tool_calls"]}
			if diff := cmp.Diff([]any{tt.tools, tt.choice, tt.parallel}, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestSamplingAtTheWire(t *testing.T) {
	t.Parallel()
	zero, half, below := 0.0, 0.5, -0.5
	req := &models.Request{Messages: hello.Messages, TopP: &half, PresencePenalty: &below, FrequencyPenalty: &zero, Stop: []string{"END"}}
	body := bodyOf(t, req, nil)
	if body["top_p"] != 0.5 || body["presence_penalty"] != -0.5 || !cmp.Equal(body["stop"], any([]any{"END"})) {
		t.Errorf("body %v", body)
	}
	if penalty, ok := body["frequency_penalty"].(float64); !ok || penalty > 1e-3 {
		t.Errorf("frequency_penalty %v: zero must be sent, not left out", body["frequency_penalty"])
	}
	body = bodyOf(t, hello, nil)
	for _, key := range []string{"top_p", "presence_penalty", "frequency_penalty", "temperature", "stop"} {
		if _, ok := body[key]; ok {
			t.Errorf("%s was sent without being asked for", key)
		}
	}
}

func TestCallsInHistoryAtTheWire(t *testing.T) {
	t.Parallel()
	want := []any{
		map[string]any{"role": "system", "content": "You keep lists."},
		map[string]any{"role": "user", "content": "add milk and eggs"},
		map[string]any{"role": "assistant", "content": "One moment.", "tool_calls": []any{
			wireCall("call_a", "addItem", `{"item":"milk"}`), wireCall("call_b", "addItem", `{"item":"eggs"}`),
		}},
		map[string]any{"role": "tool", "tool_call_id": "call_a", "content": "Added milk."},
		map[string]any{"role": "tool", "tool_call_id": "call_b", "content": "(no text)"},
	}
	for name, tools := range map[string][]models.Tool{"with tools": {addItem}, "without": nil} {
		body := bodyOf(t, &models.Request{Messages: afterCalls(), Tools: tools}, nil)
		if diff := cmp.Diff(any(want), body["messages"]); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestHistoryIsMadeLegal: what a model wrote may be refused when it is sent back.
func TestHistoryIsMadeLegal(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, call, arguments, wantName, wantArguments string }{
		{"legal", "Lists-add_Item2", `{"a":{}}`, "Lists-add_Item2", `{"a":{}}`},
		{"other characters", "functions.add item:ä", "{}", "functions_add_item__", "{}"},
		{"no name", "", "{}", "_", "{}"},
		{"long", strings.Repeat("a", 65), "{}", strings.Repeat("a", 64), "{}"},
		{"no arguments", "f", "", "f", "{}"},
		{"cut off", "f", `{"a":"b`, "f", "{}"},
		{"two objects", "f", `{"a":1}{"b":2}`, "f", "{}"},
		{"an array", "f", `[{"a":1}]`, "f", "{}"},
		{"null", "f", `null`, "f", "{}"},
		{"with space", "f", " {\"a\": 1}\n", "f", " {\"a\": 1}\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			body := bodyOf(t, &models.Request{Messages: []models.Message{
				{Role: "user", Text: "hi"},
				{Role: "assistant", Calls: []models.Call{{ID: "call_1", Name: tt.call, Arguments: tt.arguments}}},
				{Role: "tool", CallID: "call_1", Text: "no"},
			}}, nil)
			messages := body["messages"].([]any)
			want := map[string]any{"role": "assistant", "tool_calls": []any{wireCall("call_1", tt.wantName, tt.wantArguments)}}
			if diff := cmp.Diff(any(want), messages[1]); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestCallsOfAnAnswer(t *testing.T) {
	t.Parallel()
	choice := func(message, finish string) string {
		return `{"choices":[{"message":` + message + `,"finish_reason":"` + finish + `"}]}`
	}
	const milk, eggs = `{"id":"call_7","type":"function","function":{"name":"addItem","arguments":"{\"item\":\"milk\"}"}}`, `{"id":"call_8","type":"function","function":{"name":"addItem","arguments":"{}"}}`
	milkCall, eggsCall := models.Call{ID: "call_7", Name: "addItem", Arguments: `{"item":"milk"}`}, models.Call{ID: "call_8", Name: "addItem", Arguments: `{}`}
	tests := []struct {
		name, body string
		want       models.Response
	}{
		{"one", choice(`{"content":null,"tool_calls":[`+milk+`]}`, "tool_calls"), models.Response{Calls: []models.Call{milkCall}, Finish: "tool_calls"}},
		{"several, and text", choice(`{"content":"Well.","tool_calls":[`+milk+`,`+eggs+`]}`, "tool_calls"), models.Response{Text: "Well.", Calls: []models.Call{milkCall, eggsCall}, Finish: "tool_calls"}},
		{"calls decide", choice(`{"content":"","tool_calls":[`+milk+`]}`, "stop"), models.Response{Calls: []models.Call{milkCall}, Finish: "tool_calls"}},
		{"no calls decide", choice(`{"content":"Well.","tool_calls":[]}`, "tool_calls"), models.Response{Text: "Well.", Finish: "stop"}},
		{"cut off", choice(`{"tool_calls":[{"id":"call_7","function":{"name":"addItem","arguments":"{\"it"}}]}`, "length"), models.Response{Calls: []models.Call{{ID: "call_7", Name: "addItem", Arguments: `{"it`}}, Finish: "length"}},
		{"reasoning only beside", choice(`{"content":"<think>hm</think>\n","reasoning_content":"hm","tool_calls":[`+milk+`]}`, "tool_calls"), models.Response{Calls: []models.Call{milkCall}, Finish: "tool_calls"}},
		{"both ways", choice(`{"function_call":{"name":"addItem","arguments":"{}"},"tool_calls":[`+eggs+`]}`, "tool_calls"), models.Response{Calls: []models.Call{eggsCall}, Finish: "tool_calls"}},
		{"no ids", choice(`{"tool_calls":[{"function":{"name":"a"}},{"id":"call_2","function":{"name":"b"}},{"id":"","function":{"name":"c"}}]}`, "tool_calls"), models.Response{
			Calls: []models.Call{{ID: "call_1", Name: "a"}, {ID: "call_2", Name: "b"}, {ID: "call_3", Name: "c"}}, Finish: "tool_calls",
		}},
		{"one id for all", choice(`{"tool_calls":[{"id":"x","function":{"name":"a"}},{"id":"x","function":{"name":"b"}}]}`, "tool_calls"), models.Response{
			Calls: []models.Call{{ID: "x", Name: "a"}, {ID: "call_1", Name: "b"}}, Finish: "tool_calls",
		}},
		{"an id that OpenAI refuses, vLLM", choice(`{"tool_calls":[{"id":"chatcmpl-tool-0123456789abcdef0123456789abcdef","function":{"name":"a"}}]}`, "tool_calls"), models.Response{Calls: []models.Call{{ID: "call_1", Name: "a"}}, Finish: "tool_calls"}},
		{"no name", choice(`{"tool_calls":[{"id":"x","type":"custom"}]}`, "tool_calls"), models.Response{Calls: []models.Call{{ID: "x"}}, Finish: "tool_calls"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := setup(t, answer(200, tt.body), nil).model.Complete(t.Context(), &models.Request{Messages: hello.Messages, Tools: []models.Tool{addItem}})
			if err != nil {
				t.Fatal(err)
			}
			tt.want.Model = "test-model"
			if diff := cmp.Diff(&tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestIDsOfCallsGoOnInAConversation(t *testing.T) {
	t.Parallel()
	b := setup(t, answer(200, `{"choices":[{"message":{"tool_calls":[{"function":{"name":"a"}}]}}]}`), nil)
	got, err := b.model.Complete(t.Context(), &models.Request{Messages: afterCalls()})
	if err != nil || len(got.Calls) != 1 || got.Calls[0].ID != "call_3" {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestOneCallAtMostHoldsWhateverTheServerDoes(t *testing.T) {
	t.Parallel()
	b := setup(t, answer(200, `{"choices":[{"message":{"tool_calls":[{"id":"1","function":{"name":"a"}},{"id":"2","function":{"name":"b"}}]}}]}`), nil)
	got, err := b.model.Complete(t.Context(), &models.Request{Messages: hello.Messages, Tools: []models.Tool{addItem}, OneCallAtMost: true})
	if err != nil || len(got.Calls) != 1 || got.Calls[0].ID != "1" {
		t.Errorf("got %+v, %v", got, err)
	}
}

func mustJSON(t testing.TB, v any) []byte {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// TestGPT6 takes tools over chat completions if it is not to reason.
func TestGPT6(t *testing.T) {
	t.Parallel()
	req := &models.Request{Messages: hello.Messages, Tools: []models.Tool{addItem}}
	body := bodyOf(t, req, func(cfg *models.OpenAIConfig, _ string) { cfg.Model, cfg.ReasoningEffort = "gpt-6-sol", "none" })
	if body["reasoning_effort"] != "none" || body["tools"] == nil {
		t.Errorf("body %v", body)
	}
}

// TestWhatAServerSaysIsForDebugging: it may quote what a person had typed, however
// short.
func TestWhatAServerSaysIsForDebugging(t *testing.T) {
	t.Parallel()
	secret := `{"to":"Mia"}`
	body := string(mustJSON(t, map[string]any{"error": map[string]any{"message": "cannot read " + secret}}))
	b := setup(t, answer(http.StatusBadRequest, body), nil)
	for level, shown := range map[zerolog.Level]bool{zerolog.InfoLevel: false, zerolog.DebugLevel: true} {
		var log bytes.Buffer
		_, err := b.model.Complete(zerolog.New(&log).Level(level).WithContext(t.Context()), hello)
		fault, ok := errors.AsType[*models.Error](err)
		if !ok || strings.Contains(err.Error(), "Mia") || fault.Said != "cannot read "+secret {
			t.Errorf("got %v", err)
		}
		if strings.Contains(log.String(), "Mia") != shown {
			t.Errorf("at %s: %s", level, &log)
		}
	}
}
