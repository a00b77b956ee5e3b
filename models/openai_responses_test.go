package models_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/models"
)

const (
	// wantsResponses is how OpenAI refuses tools over chat completions.
	wantsResponses = `{"error":{"message":"Function tools with reasoning_effort are not supported for gpt-5.6-luna in /v1/chat/completions. ` +
		`To use function tools, use /v1/responses or set reasoning_effort to 'none'.","type":"invalid_request_error","param":"reasoning_effort","code":null}}`
	responseUsage = `"usage":{"input_tokens":20,"input_tokens_details":{"cached_tokens":5,"cache_write_tokens":0},"output_tokens":9,"output_tokens_details":{"reasoning_tokens":4},"total_tokens":29}`
	// calling is an answer of the Responses API with calls.
	calling = `{"id":"resp_1","object":"response","created_at":1,"status":"completed","error":null,"incomplete_details":null,"model":"gpt-x-2026","output":[
{"id":"rs_1","type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"Hm."}]},
{"id":"msg_1","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","annotations":[],"text":"One moment."}]},
{"id":"fc_1","type":"function_call","status":"completed","arguments":"{\"item\":\"tea\"}","call_id":"call_c","name":"addItem"}],` + responseUsage + `}`
)

// overResponses answers calls of the Responses API, and refuses tools elsewhere.
func overResponses(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/responses") {
			answer(200, body, "X-Request-Id", "r1")(w, r)
			return
		}
		answer(400, wantsResponses)(w, r)
	}
}

// TestToolsOverResponses: where a model takes tools only there, it is asked there, at once and from
// then on.
func TestToolsOverResponses(t *testing.T) {
	t.Parallel()
	b := setup(t, overResponses(calling), func(cfg *models.OpenAIConfig, _ string) { cfg.Stream, cfg.ReasoningEffort = true, "low" })
	hot := 1.5
	req := &models.Request{
		Messages: afterCalls(), Tools: []models.Tool{addItem}, Choice: "required", OneCallAtMost: true, MaxTokens: 99, Temperature: &hot, Stop: []string{"x"},
		Format: &models.Format{Name: "plan", Schema: []byte(`{"type":"object"}`), Loose: true},
	}
	want := &models.Response{
		Text: "One moment.", Finish: "tool_calls", Model: "gpt-x-2026", Calls: []models.Call{{ID: "call_c", Name: "addItem", Arguments: `{"item":"tea"}`}},
		Usage: models.Usage{Prompt: 20, Completion: 9, Cached: 5, Reasoning: 4}, Without: []string{"chat"},
	}
	for range 2 {
		got, err := b.model.Complete(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
	if len(b.seen) != 3 {
		t.Errorf("%d requests, want 3", len(b.seen))
	}
	if path := (<-b.seen).Path; path != "/v1/chat/completions" {
		t.Errorf("first asked %s", path)
	}
	asked := <-b.seen
	type m = map[string]any
	wantBody := m{
		"model": "test-model", "max_output_tokens": 99.0, "store": false, "parallel_tool_calls": false, "tool_choice": "required", "reasoning": m{"effort": "low"},
		"text": m{"format": m{"type": "json_schema", "name": "plan", "schema": m{"type": "object"}}},
		"tools": []any{m{
			"type": "function", "name": "addItem", "description": "Adds an item", "strict": false,
			"parameters": m{"type": "object", "properties": m{"item": m{"type": "string"}}},
		}},
		"input": []any{
			m{"role": "system", "content": "You keep lists."},
			m{"role": "user", "content": "add milk and eggs"},
			m{"role": "assistant", "content": "One moment."},
			m{"type": "function_call", "call_id": "call_a", "name": "addItem", "arguments": `{"item":"milk"}`},
			m{"type": "function_call", "call_id": "call_b", "name": "addItem", "arguments": `{"item":"eggs"}`},
			m{"type": "function_call_output", "call_id": "call_a", "output": "Added milk."},
			m{"type": "function_call_output", "call_id": "call_b", "output": "(no text)"},
		},
	}
	if diff := cmp.Diff(wantBody, asked.Body); diff != "" || asked.Path != "/v1/responses" {
		t.Errorf("asked %s (-want +got)\n%s", asked.Path, diff)
	}
	if path := (<-b.seen).Path; path != "/v1/responses" {
		t.Errorf("then asked %s", path)
	}
}

// TestResponsesWithoutTrying: of some models the client library knows it.
func TestResponsesWithoutTrying(t *testing.T) {
	t.Parallel()
	b := setup(t, overResponses(calling), func(cfg *models.OpenAIConfig, _ string) { cfg.Model = "gpt-6-sol" })
	if _, err := b.model.Complete(t.Context(), &models.Request{Messages: hello.Messages, Tools: []models.Tool{addItem}}); err != nil {
		t.Fatal(err)
	}
	if path := (<-b.seen).Path; path != "/v1/responses" || len(b.seen) > 0 {
		t.Errorf("asked %s, and %d times more", path, len(b.seen))
	}
}

func TestResponsesEnds(t *testing.T) {
	t.Parallel()
	ended := func(status, more, output string) string {
		return `{"id":"r","object":"response","status":"` + status + `",` + more + `,"model":"m","output":[` + output + `],` + responseUsage + `}`
	}
	const said = `{"type":"message","content":[{"type":"output_text","text":"Well"}]}`
	for name, c := range map[string]struct{ body, finish, text, kind string }{
		"done":     {ended("completed", `"error":null`, said), "stop", "Well", ""},
		"refused":  {ended("completed", `"error":null`, `{"type":"message","content":[{"type":"refusal","refusal":"I won't."}]}`), "stop", "I won't.", ""},
		"cut off":  {ended("incomplete", `"incomplete_details":{"reason":"max_output_tokens"}`, said), "length", "Well", ""},
		"nothing":  {ended("incomplete", `"incomplete_details":{"reason":"max_output_tokens"}`, ""), "", "", models.Empty},
		"filtered": {ended("incomplete", `"incomplete_details":{"reason":"content_filter"}`, said), "", "", models.Filtered},
		"failed":   {ended("failed", `"error":{"code":"server_error","message":"oops"}`, ""), "", "", models.Unavailable},
		"odd":      {`{"object":"response","output":[{"type":1}]}`, "", "", models.Unavailable},
	} {
		b := setup(t, overResponses(c.body), nil)
		got, err := b.model.Complete(t.Context(), &models.Request{Messages: hello.Messages, Tools: []models.Tool{addItem}})
		fault, _ := errors.AsType[*models.Error](err)
		switch {
		case c.kind != "":
			if fault == nil || fault.Kind != c.kind {
				t.Errorf("%s: %+v, %v", name, got, err)
			}
		case err != nil || got.Finish != c.finish || got.Text != c.text:
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// TestNoResponsesOnAzure: its default version has no such API, so what it says is of more use.
func TestNoResponsesOnAzure(t *testing.T) {
	t.Parallel()
	b := setup(t, answer(400, wantsResponses), func(cfg *models.OpenAIConfig, url string) {
		cfg.Key, cfg.BaseURL = "", ""
		cfg.AzureEndpoint, cfg.AzureKey, cfg.AzureDeployment = url, "k", "d"
	})
	_, err := b.model.Complete(t.Context(), &models.Request{Messages: hello.Messages, Tools: []models.Tool{addItem}})
	if fault, ok := errors.AsType[*models.Error](err); !ok || !strings.Contains(fault.Said, "reasoning_effort to 'none'") || len(b.seen) != 1 {
		t.Errorf("%d requests, %v", len(b.seen), err)
	}
}

// toOpenAI answers what is sent to OpenAI, and keeps the body.
type toOpenAI struct{ body string }

func (o *toOpenAI) RoundTrip(r *http.Request) (*http.Response, error) {
	raw, err := io.ReadAll(r.Body)
	o.body = r.URL.String() + " " + string(raw)
	return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(completion)), Request: r}, err
}

// TestDefaultModel: the default takes tools over chat completions, as it is asked not to reason.
func TestDefaultModel(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ model, effort, want, not string }{
		{"", "", `"model":"gpt-6-luna"`, "?"},
		{"", "", `"reasoning_effort":"none"`, "?"},
		{"gpt-6-luna", "", `"reasoning_effort":"none"`, "?"},
		{"gpt-6-luna", "low", `https://api.openai.com/v1/responses {`, `"none"`},
		{"gpt-4.1-mini", "", `"model":"gpt-4.1-mini"`, "reasoning_effort"},
	} {
		server := &toOpenAI{}
		model, err := models.NewOpenAI(models.OpenAIConfig{Key: "k", Model: c.model, ReasoningEffort: c.effort, Transport: server})
		if err != nil {
			t.Fatal(err)
		}
		_, _ = model.Complete(t.Context(), &models.Request{Messages: hello.Messages, Tools: []models.Tool{addItem}}) // the answer is of no use to the Responses API
		if !strings.Contains(server.body, c.want) || strings.Contains(server.body, c.not) {
			t.Errorf("%q, %q: sent %s, want %s", c.model, c.effort, server.body, c.want)
		}
	}
	req := &models.Request{Messages: hello.Messages, Tools: []models.Tool{addItem}}
	if elsewhere := bodyOf(t, req, func(cfg *models.OpenAIConfig, _ string) { cfg.Model = "" }); elsewhere["model"] != "default" || elsewhere["reasoning_effort"] != nil {
		t.Errorf("another server got %v", elsewhere)
	}
}
