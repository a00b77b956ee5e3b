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
		{Role: models.System, Text: "You keep lists."},
		{Role: models.User, Text: "add milk and eggs"},
		{Role: models.Assistant, Text: "One moment.", Calls: []models.Call{
			{ID: "call_a", Name: "addItem", Arguments: `{"item":"milk"}`},
			{ID: "call_b", Name: "addItem", Arguments: `{"item":"eggs"}`},
		}},
		{Role: models.ToolRole, CallID: "call_a", Text: "Added milk."},
		{Role: models.ToolRole, CallID: "call_b"},
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
		{"none", models.Request{Choice: models.ChoiceRequired, OneCallAtMost: true}, nil, nil, nil},
		{"auto", models.Request{Tools: []models.Tool{addItem, {Name: "ping"}}}, []any{wire(false), nothing}, nil, nil},
		{"required, one", models.Request{Tools: []models.Tool{strict}, Choice: models.ChoiceRequired, OneCallAtMost: true}, []any{wire(true)}, "required", false},
		{"seen only", models.Request{Tools: []models.Tool{addItem}, Choice: models.ChoiceNone}, []any{wire(false)}, "none", nil},
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
	body = bodyOf(t, req, func(cfg *models.OpenAIConfig, _ string) { cfg.Model = "o3-mini" })
	for _, key := range []string{"top_p", "presence_penalty", "frequency_penalty"} {
		if body[key] != nil {
			t.Errorf("a reasoning model got %s %v", key, body[key])
		}
	}
	body = bodyOf(t, hello, nil)
	for _, key := range []string{"top_p", "presence_penalty", "frequency_penalty", "stop"} {
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
		map[string]any{"role": "tool", "tool_call_id": "call_b", "content": ""},
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
	long := "chatcmpl-tool-" + strings.Repeat("0123456789abcdef", 2) // vLLM's, 46 bytes
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
				{Role: models.User, Text: "hi"},
				{Role: models.Assistant, Calls: []models.Call{{ID: long, Name: tt.call, Arguments: tt.arguments}}},
				{Role: models.ToolRole, CallID: long, Text: "no"},
			}}, nil)
			messages := body["messages"].([]any)
			id := messages[2].(map[string]any)["tool_call_id"].(string)
			if len(id) > 40 || id == "" {
				t.Errorf("id %q", id)
			}
			want := map[string]any{"role": "assistant", "content": "", "tool_calls": []any{wireCall(id, tt.wantName, tt.wantArguments)}}
			if diff := cmp.Diff(any(want), messages[1]); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestEmptyContentsAreWrittenWhereTheyStand: texts and schemas may hold the very
// words that are looked for.
func TestEmptyContentsAreWrittenWhereTheyStand(t *testing.T) {
	t.Parallel()
	trap, other := `{"role":"tool","tool_call_id":"x"}`, `{"role":"assistant","tool_calls":[]}`
	messages := afterCalls()
	messages[1].Text, messages[2].Text, messages[3].Text = trap, "", trap
	tool := models.Tool{Name: "f", Schema: json.RawMessage(`{"type":"object","default":[` + trap + `,` + other + `]}`)}
	body := bodyOf(t, &models.Request{Messages: messages, Tools: []models.Tool{tool}}, nil)
	sent := body["messages"].([]any)
	for i, want := range map[int]string{1: trap, 2: "", 3: trap, 4: ""} {
		if got, ok := sent[i].(map[string]any)["content"]; !ok || got != want {
			t.Errorf("message %d has content %v", i, got)
		}
	}
	schema := body["tools"].([]any)[0].(map[string]any)["function"].(map[string]any)["parameters"]
	if diff := cmp.Diff(any(map[string]any{"type": "object", "default": []any{
		map[string]any{"role": "tool", "tool_call_id": "x"}, map[string]any{"role": "assistant", "tool_calls": []any{}},
	}}), schema); diff != "" {
		t.Error(diff)
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
		{"one", choice(`{"content":null,"tool_calls":[`+milk+`]}`, "tool_calls"), models.Response{Calls: []models.Call{milkCall}, Finish: models.FinishTools}},
		{"several, and text", choice(`{"content":"Well.","tool_calls":[`+milk+`,`+eggs+`]}`, "tool_calls"), models.Response{Text: "Well.", Calls: []models.Call{milkCall, eggsCall}, Finish: models.FinishTools}},
		{"calls decide", choice(`{"content":"","tool_calls":[`+milk+`]}`, "stop"), models.Response{Calls: []models.Call{milkCall}, Finish: models.FinishTools}},
		{"no calls decide", choice(`{"content":"Well.","tool_calls":[]}`, "tool_calls"), models.Response{Text: "Well.", Finish: models.FinishStop}},
		{"cut off", choice(`{"tool_calls":[{"id":"call_7","function":{"name":"addItem","arguments":"{\"it"}}]}`, "length"), models.Response{Calls: []models.Call{{ID: "call_7", Name: "addItem", Arguments: `{"it`}}, Finish: models.FinishLength}},
		{"reasoning only beside", choice(`{"content":"<think>hm</think>\n","reasoning_content":"hm","tool_calls":[`+milk+`]}`, "tool_calls"), models.Response{Calls: []models.Call{milkCall}, Finish: models.FinishTools}},
		{"legacy", choice(`{"content":null,"function_call":{"name":"addItem","arguments":"{}"}}`, "function_call"), models.Response{Calls: []models.Call{{ID: "call_1", Name: "addItem", Arguments: "{}"}}, Finish: models.FinishTools}},
		{"both ways", choice(`{"function_call":{"name":"addItem","arguments":"{}"},"tool_calls":[`+eggs+`]}`, "tool_calls"), models.Response{Calls: []models.Call{eggsCall}, Finish: models.FinishTools}},
		{"no ids", choice(`{"tool_calls":[{"function":{"name":"a"}},{"id":"call_2","function":{"name":"b"}},{"id":"","function":{"name":"c"}}]}`, "tool_calls"), models.Response{
			Calls: []models.Call{{ID: "call_1", Name: "a"}, {ID: "call_2", Name: "b"}, {ID: "call_3", Name: "c"}}, Finish: models.FinishTools,
		}},
		{"one id for all", choice(`{"tool_calls":[{"id":"x","function":{"name":"a"}},{"id":"x","function":{"name":"b"}}]}`, "tool_calls"), models.Response{
			Calls: []models.Call{{ID: "x", Name: "a"}, {ID: "call_1", Name: "b"}}, Finish: models.FinishTools,
		}},
		{"no name", choice(`{"tool_calls":[{"id":"x","type":"custom"}]}`, "tool_calls"), models.Response{Calls: []models.Call{{ID: "x"}}, Finish: models.FinishTools}},
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

func TestStopsEndTheTextWhateverTheServerDoes(t *testing.T) {
	t.Parallel()
	b := setup(t, answer(200, `{"choices":[{"message":{"content":"one END two STOP"},"finish_reason":"stop"}]}`), nil)
	got, err := b.model.Complete(t.Context(), &models.Request{Messages: hello.Messages, Stop: []string{"STOP", "", "END"}})
	if err != nil || got.Text != "one " {
		t.Errorf("got %+v, %v", got, err)
	}
}

// TestLearnsWhatAServerTakesOfTools: refusals of the servers, and what they got in
// the end.
func TestLearnsWhatAServerTakesOfTools(t *testing.T) {
	t.Parallel()
	half := 0.5
	strict := addItem
	strict.Strict = true
	req := &models.Request{
		Messages: afterCalls(), TopP: &half, PresencePenalty: &half, FrequencyPenalty: &half, Stop: []string{"END"},
		Tools: []models.Tool{strict}, Choice: models.ChoiceRequired, OneCallAtMost: true,
	}
	hasStrict := func(body map[string]any) bool {
		tools, _ := json.Marshal(body["tools"])
		return strings.Contains(string(tools), `"strict":true`)
	}
	longIDs := func(body map[string]any) bool {
		return len(body["messages"].([]any)[3].(map[string]any)["tool_call_id"].(string)) != 9 ||
			strings.Contains(body["messages"].([]any)[3].(map[string]any)["tool_call_id"].(string), "_")
	}
	reasons := func(body map[string]any) bool { return body["reasoning_effort"] != "none" }
	tests := []struct {
		name  string
		rules []picky
		calls int
	}{
		{"parallel, o3", []picky{{400, openaiSays("parallel_tool_calls", "unsupported_parameter", "Unsupported parameter: 'parallel_tool_calls' is not supported with this model."), has("parallel_tool_calls")}}, 2},
		{"top_p and penalties", []picky{
			{400, openaiSays("top_p", "unsupported_parameter", "Unsupported parameter: 'top_p' is not supported with this model."), has("top_p")},
			{400, `{"code":"invalid-argument","error":"Argument not supported on this model: presencePenalty"}`, has("presence_penalty")},
		}, 3},
		{"temperature and top_p, Claude", []picky{{400, openaiSays("", "invalid_request_error", "`top_p` and `temperature` cannot both be specified for this model."), has("top_p")}}, 2},
		{"stop", []picky{{400, openaiSays("stop", "unsupported_parameter", "Unsupported parameter: 'stop' is not supported with this model."), has("stop")}}, 2},
		{"stop, xAI", []picky{{400, `{"code":"invalid-argument","error":"Argument not supported on this model: stop"}`, has("stop")}}, 2},
		{"strict, FastAPI", []picky{{422, `{"detail":[{"type":"extra_forbidden","loc":["body","tools",0,"function","strict"],"msg":"Extra inputs are not permitted","input":true}]}`, hasStrict}}, 2},
		{"strict, Mistral", []picky{{422, `{"object":"error","message":{"detail":[{"type":"extra_forbidden","loc":["body","tools",0,"function","strict"],"msg":"Extra inputs are not permitted"}]},"type":"invalid_request_error"}`, hasStrict}}, 2},
		{"a schema that is not strict", []picky{{400, openaiSays("tools[0].function.parameters", "invalid_function_parameters", "Invalid schema for function 'addItem': In context=(), 'additionalProperties' is required to be supplied and to be false."), hasStrict}}, 2},
		{"choice", []picky{{400, openaiSays("", "invalid_request_error", "deepseek-reasoner does not support this tool_choice"), has("tool_choice")}}, 2},
		{"choice, by words", []picky{{400, openaiSays("", "", "This model does not support tool_choice."), has("tool_choice")}}, 2},
		{"choice while thinking", []picky{{400, openaiSays("", "invalid_request_error", "Thinking may not be enabled when tool_choice forces tool use."), has("tool_choice")}}, 2},
		{"reasoning", []picky{{400, openaiSays("reasoning_effort", "", "Function tools with reasoning_effort are not supported for gpt-5.4 in /v1/chat/completions. Please use /v1/responses instead."), reasons}}, 2},
		{"ids of nine letters", []picky{{400, `{"object":"error","message":"Tool call id was call_a but must be a-z, A-Z, 0-9, with a length of 9.","type":"invalid_function_call","param":null,"code":"3280"}`, longIDs}}, 2},
		{"everything", []picky{
			{400, openaiSays("parallel_tool_calls", "unsupported_parameter", "no"), has("parallel_tool_calls")},
			{400, openaiSays("tool_choice", "unsupported_parameter", "no"), has("tool_choice")},
			{400, openaiSays("tools[0].function.strict", "unknown_parameter", "no"), hasStrict},
			{400, openaiSays("stop", "unsupported_parameter", "no"), has("stop")},
		}, 5},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			model, got := learner(t, tt.rules...)
			before := clone(t, req)
			for _, calls := range []int{tt.calls, 1} { // the second time it is known
				if _, err := model.Complete(t.Context(), req); err != nil {
					t.Fatal(err)
				}
				if len(got) != calls {
					t.Errorf("%d calls, want %d", len(got), calls)
				}
				var last map[string]any
				for len(got) > 0 {
					last = <-got
				}
				if last["tools"] == nil || !cmp.Equal(roles(last), "suatt") {
					t.Errorf("the server took %v", last)
				}
			}
			if diff := cmp.Diff(before, clone(t, req)); diff != "" {
				t.Errorf("the request was changed: %s", diff)
			}
		})
	}
}

// TestNoCallsWithoutAChoice: where tool_choice is not taken, a model that must not
// call does not see the tools.
func TestNoCallsWithoutAChoice(t *testing.T) {
	t.Parallel()
	model, got := learner(t, picky{400, openaiSays("tool_choice", "unsupported_parameter", "no"), has("tool_choice")})
	if _, err := model.Complete(t.Context(), &models.Request{Messages: hello.Messages, Tools: []models.Tool{addItem}, Choice: models.ChoiceNone}); err != nil {
		t.Fatal(err)
	}
	<-got
	if last := <-got; last["tools"] != nil {
		t.Errorf("the server got %v", last)
	}
}

func TestShortIDsStayTogether(t *testing.T) {
	t.Parallel()
	model, got := learner(t, picky{400, `{"message":"Tool call id was call_a but must be a-z, A-Z, 0-9, with a length of 9."}`, func(body map[string]any) bool {
		return strings.Contains(string(mustJSON(t, body["messages"])), "call_a")
	}})
	messages := append(afterCalls(), models.Message{Role: models.Assistant, Calls: []models.Call{{ID: "aB3456789", Name: "f"}}}, models.Message{Role: models.ToolRole, CallID: "aB3456789"})
	if _, err := model.Complete(t.Context(), &models.Request{Messages: messages}); err != nil {
		t.Fatal(err)
	}
	<-got
	sent := (<-got)["messages"].([]any)
	id := func(message, call int) any {
		return sent[message].(map[string]any)["tool_calls"].([]any)[call].(map[string]any)["id"]
	}
	answers := func(message int) any { return sent[message].(map[string]any)["tool_call_id"] }
	if id(2, 0) != answers(3) || id(2, 1) != answers(4) || id(2, 0) == id(2, 1) {
		t.Errorf("calls and answers were parted: %v", sent)
	}
	if id(5, 0) != "aB3456789" || answers(6) != "aB3456789" {
		t.Errorf("an id that is good was changed: %v", sent)
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

func TestModelsWithoutTools(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, body string
		status     int
	}{
		{"Ollama", `{"error":{"message":"registry.ollama.ai/library/gemma:2b does not support tools","type":"api_error","param":null,"code":null}}`, 400},
		{"vLLM", `{"object":"error","message":"\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set","type":"BadRequestError","code":400}`, 400},
		{"llama.cpp", `{"error":{"code":500,"message":"tools param requires --jinja flag","type":"server_error"}}`, 500},
		{"OpenRouter", `{"error":{"message":"No endpoints found that support tool use.","code":404}}`, 404},
		{"OpenAI", openaiSays("tools", "unsupported_parameter", "Unsupported parameter: 'tools' is not supported with this model."), 400},
		{"Gemini", `[{"error":{"code":400,"message":"Function calling is not enabled for models/gemma-3-4b-it","status":"INVALID_ARGUMENT"}}]`, 400},
		{"a template without the role", `{"error":{"code":500,"message":"Only user and assistant roles are supported, got tool.","type":"server_error"}}`, 500},
		{"the role", openaiSays("messages", "", "unknown role: tool"), 400},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			model, got := learner(t, picky{tt.status, tt.body, func(map[string]any) bool { return true }})
			_, err := model.Complete(t.Context(), &models.Request{Messages: afterCalls(), Tools: []models.Tool{addItem}})
			fault, ok := errors.AsType[*models.Error](err)
			if !ok || fault.Kind != models.BadRequest || fault.Code != models.CodeNoTools || !strings.Contains(err.Error(), "takes no tools") {
				t.Errorf("got %v", err)
			}
			if len(got) != 1 {
				t.Errorf("%d calls", len(got))
			}
		})
	}
}

// TestGPT6: the vendor's client refuses tools for these before anything is sent.
func TestGPT6(t *testing.T) {
	t.Parallel()
	ask := func(name string) (bundle, error) {
		b := setup(t, answer(200, completion), func(cfg *models.OpenAIConfig, _ string) { cfg.Model = name })
		_, err := b.model.Complete(t.Context(), &models.Request{Messages: hello.Messages, Tools: []models.Tool{addItem}})
		return b, err
	}
	b, err := ask("gpt-6-sol")
	if err != nil {
		t.Fatal(err)
	}
	if body := (<-b.seen).Body; body["reasoning_effort"] != "none" || body["tools"] == nil {
		t.Errorf("body %v", body)
	}
	_, err = ask("gpt-6-astra")
	if fault, ok := errors.AsType[*models.Error](err); !ok || fault.Kind != models.BadRequest || fault.Code != models.CodeNoTools || !strings.Contains(err.Error(), "Responses API") {
		t.Errorf("got %v", err)
	}
}

func TestAModelWithoutToolsGivesWay(t *testing.T) {
	t.Parallel()
	noTools := &models.Error{Kind: models.BadRequest, Code: models.CodeNoTools}
	first, second := scripted("first", noTools), scripted("second", nil)
	chain, err := models.NewFallback(models.FallbackConfig{Models: []models.Link{{Model: first}, {Model: second}}})
	if err != nil {
		t.Fatal(err)
	}
	for range 10 { // it is not left out: it may answer what needs no tools
		if _, err := chain.Complete(t.Context(), hello); err != nil {
			t.Fatal(err)
		}
	}
	if first.count() != 10 || second.count() != 10 {
		t.Errorf("%d and %d calls", first.count(), second.count())
	}
}

func TestRolesKeepAnswersBehindTheirCalls(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, refusal string
		refuses       func(body map[string]any) bool
		roles         string
	}{
		{"in turn", "Conversation roles must alternate user/assistant/user/assistant/...", lateSystem, "suattauauatau"},
		{"no system", "System role not supported", system, "uattauauatau"},
	}
	messages := append(afterCalls(),
		models.Message{Role: models.System, Text: "It is Monday."},
		models.Message{Role: models.Assistant, Text: "Added."},
		models.Message{Role: models.User, Text: "what is on it?"},
		models.Message{Role: models.Assistant, Text: "Let me see."},
		models.Message{Role: models.Assistant, Calls: []models.Call{{ID: "call_c", Name: "show"}}},
		models.Message{Role: models.ToolRole, CallID: "call_c", Text: "milk, [instructions]"},
		models.Message{Role: models.User, Text: "well?"},
	)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			model, got := learner(t, picky{400, openaiSays("", "", tt.refusal), tt.refuses})
			if _, err := model.Complete(t.Context(), &models.Request{Messages: messages}); err != nil {
				t.Fatal(err)
			}
			<-got
			body := <-got
			if roles(body) != tt.roles {
				t.Errorf("roles %s, want %s", roles(body), tt.roles)
			}
			sent := body["messages"].([]any)
			n := len(sent)
			want := []any{
				map[string]any{"role": "assistant", "content": "Let me see.", "tool_calls": []any{wireCall("call_c", "show", "{}")}},
				map[string]any{"role": "tool", "tool_call_id": "call_c", "content": "milk, (instructions)"},
				map[string]any{"role": "assistant", "content": "(no answer)"},
				map[string]any{"role": "user", "content": "well?"},
			}
			if diff := cmp.Diff(want, sent[n-4:]); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestCallsWithoutAnswersStayApart, though no server takes them.
func TestCallsWithoutAnswersStayApart(t *testing.T) {
	t.Parallel()
	model, got := learner(t, picky{400, openaiSays("", "", "System role not supported"), system})
	_, err := model.Complete(t.Context(), &models.Request{Messages: []models.Message{
		{Role: models.System, Text: "x"}, {Role: models.Assistant, Calls: []models.Call{{ID: "1", Name: "f"}}}, {Role: models.Assistant, Text: "y"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	<-got
	if body := <-got; roles(body) != "uaa" {
		t.Errorf("roles %s", roles(body))
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
