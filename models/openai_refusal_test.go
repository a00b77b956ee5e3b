package models_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/models"
)

// picky is a server that refuses, with status and body, what refuses says.
type picky struct {
	status  int
	body    string
	refuses func(body map[string]any) bool
}

// refusing starts a model behind a server with rules, the first that refuses wins.
// The bodies it got are in the channel.
func refusing(t testing.TB, edit func(cfg *models.OpenAIConfig, url string), rules ...picky) (models.Model, <-chan map[string]any) {
	t.Helper()
	got := make(chan map[string]any, 64)
	b := setup(t, nil, func(cfg *models.OpenAIConfig, url string) {
		if edit != nil {
			edit(cfg, url)
		}
		cfg.BaseURL = serve(t, func(w http.ResponseWriter, r *http.Request) {
			var body map[string]any
			if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
				t.Errorf("request body: %v", err)
			}
			got <- body
			for _, rule := range rules {
				if rule.refuses(body) {
					answer(rule.status, rule.body)(w, r)
					return
				}
			}
			answer(200, completion)(w, r)
		})
	})
	return b.model, got
}

// drained is how many requests there were, and the last one.
func drained(got <-chan map[string]any) (calls int, last map[string]any) {
	for ; len(got) > 0; calls++ {
		last = <-got
	}
	return calls, last
}

// form names the response format of a body.
func form(body map[string]any) string {
	format, _ := body["response_format"].(map[string]any)
	if format == nil {
		return "text"
	}
	return strings.TrimPrefix(format["type"].(string), "json_")
}

func forms(refused ...string) func(map[string]any) bool {
	return func(body map[string]any) bool {
		for _, f := range refused {
			if form(body) == f {
				return true
			}
		}
		return false
	}
}

func streamsNow(body map[string]any) bool { return body["stream"] == true }

func openaiSays(param, code, message string) string {
	body, _ := json.Marshal(map[string]any{"error": map[string]any{"message": message, "type": "invalid_request_error", "param": param, "code": code}})
	return string(body)
}

var (
	schemaA  = json.RawMessage(`{"type":"object","properties":{"a":{"type":"string"}}}`)
	lukewarm = 0.3
	inSchema = &models.Request{Messages: hello.Messages, MaxTokens: 50, Temperature: &lukewarm, Format: &models.Format{Name: "plan", Schema: schemaA}}
)

// TestRefusedFormats: what a server refuses is asked for in the next form at once, and
// not again.
func TestRefusedFormats(t *testing.T) {
	t.Parallel()
	fastAPI := `{"error":{"message":"[{'type': 'literal_error', 'loc': ('body', 'response_format', 'type'), 'msg': \"Input should be 'text' or 'json_object'\", 'input': 'json_schema'}]","type":"internal_server_error","param":null,"code":null}}`
	vllm := func(message string) string {
		body, _ := json.Marshal(map[string]any{"object": "error", "message": message, "type": "BadRequestError", "param": nil, "code": 400})
		return string(body)
	}
	tests := []struct {
		name  string
		rules []picky
		calls int    // of the first request
		form  string // that the server took
	}{
		{"no json_schema, llama-cpp-python", []picky{{500, fastAPI, forms("schema")}}, 2, "object"},
		{"no json_schema, DeepSeek", []picky{{400, openaiSays("", "invalid_request_error", "This response_format type is unavailable now"), forms("schema")}}, 2, "object"},
		{"no json_schema, OpenAI's older models", []picky{{400, openaiSays("response_format", "", "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model."), forms("schema")}}, 2, "object"},
		{"no format at all", []picky{{400, vllm("response_format is not supported by this model"), forms("schema", "object")}}, 3, "text"},
		{"no format at all, by its place", []picky{{422, `{"detail":[{"type":"extra_forbidden","loc":["body","response_format"],"msg":"Extra inputs are not permitted","input":{}}]}`, forms("schema", "object")}}, 3, "text"},
		{"no format at all, Azure", []picky{{400, openaiSays("", "", "Unrecognized request argument supplied: response_format"), forms("schema", "object")}}, 3, "text"},
		{"by the parameter alone", []picky{{400, openaiSays("response_format", "unknown_parameter", "no"), forms("schema")}}, 2, "object"},
		{"branches that begin alike, OpenAI", []picky{{400, openaiSays("", "", "Invalid schema: Objects provided via 'anyOf' must not share identical first keys."), forms("schema")}}, 2, "object"},
		{"a schema that the grammar cannot say, vLLM", []picky{{400, vllm("The provided JSON schema contains features not supported by xgrammar."), forms("schema")}}, 2, "object"},
		{"a schema that the grammar cannot say, llama.cpp", []picky{{400, `{"error":{"code":400,"message":"failed to parse grammar","type":"invalid_request_error"}}`, forms("schema")}}, 2, "object"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			model, got := refusing(t, nil, tt.rules...)
			before := clone(t, inSchema)
			for _, want := range []int{tt.calls, 1} { // the second time it is known
				if _, err := model.Complete(t.Context(), inSchema); err != nil {
					t.Fatal(err)
				}
				calls, last := drained(got)
				if calls != want || form(last) != tt.form || last["temperature"] == nil || last["max_completion_tokens"] != 50.0 {
					t.Errorf("after %d calls, want %d, the server took %v", calls, want, last)
				}
			}
			if diff := cmp.Diff(before, clone(t, inSchema)); diff != "" {
				t.Errorf("the request was changed: %s", diff)
			}
		})
	}
}

func clone(t testing.TB, req *models.Request) string {
	t.Helper()
	return string(mustJSON(t, req))
}

func TestLMStudioTakesSchemasButNoObjects(t *testing.T) {
	t.Parallel()
	model, got := refusing(t, nil, picky{400, `{"error":"'response_format.type' must be 'json_schema' or 'text'"}`, forms("object")})
	for i, want := range []struct {
		format models.Format
		form   string
	}{{models.Format{}, "text"}, {*inSchema.Format, "schema"}, {models.Format{}, "text"}} {
		if _, err := model.Complete(t.Context(), &models.Request{Messages: hello.Messages, Format: &want.format}); err != nil {
			t.Fatal(err)
		}
		if _, last := drained(got); form(last) != want.form {
			t.Errorf("%d: %s, want %s", i, form(last), want.form)
		}
	}
}

// TestRefusalsOfOneRequest say nothing about the next one.
func TestRefusalsOfOneRequest(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"Groq, which could not hold the model to it": openaiSays("", "json_validate_failed", "Failed to generate JSON. Please adjust your prompt."),
		"OpenAI, whose messages need the word":       openaiSays("messages", "", "'messages' must contain the word 'json' in some form, to use 'response_format' of type 'json_object'."),
	} {
		model, got := refusing(t, nil, picky{400, body, forms("object")})
		for range 2 {
			if _, err := model.Complete(t.Context(), &models.Request{Messages: hello.Messages, Format: &models.Format{}}); err != nil {
				t.Fatal(err)
			}
			if calls, last := drained(got); calls != 2 || form(last) != "text" {
				t.Errorf("%s: %s after %d calls", name, form(last), calls)
			}
		}
	}
}

// TestServersThatDoNotStream are asked for the whole answer.
func TestServersThatDoNotStream(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, body string
		status     int
	}{
		{"no stream_options, Groq", `{"error":{"message":"property 'stream_options' is unsupported, did you mean 'stream'?","type":"invalid_request_error"}}`, 400},
		{"no stream_options, Mistral", `{"object":"error","message":{"detail":[{"type":"extra_forbidden","loc":["body","stream_options","include_usage"],"msg":"Extra inputs are not permitted","input":true}]},"type":"invalid_request_error","param":null,"code":null}`, 422},
		{"no stream_options, Azure", openaiSays("", "", "Unrecognized request argument supplied: stream_options"), 400},
		{"no streams, OpenAI", openaiSays("stream", "unsupported_value", "Your organization must be verified to stream this model."), 400},
		{"no streams", `{"error":{"message":"This model does not support streaming."}}`, 501},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			model, got := refusing(t, streams, picky{tt.status, tt.body, streamsNow})
			for _, want := range []int{2, 1} { // the second time it is known
				if _, err := model.Complete(t.Context(), inSchema); err != nil {
					t.Fatal(err)
				}
				if calls, last := drained(got); calls != want || streamsNow(last) || form(last) != "schema" {
					t.Errorf("after %d calls, want %d, the server took %v", calls, want, last)
				}
			}
		})
	}
}

// TestAStreamThatFailed is no refusal of streams.
func TestAStreamThatFailed(t *testing.T) {
	t.Parallel()
	model, got := refusing(t, streams, picky{500, openaiSays("", "", "error while streaming"), streamsNow})
	_, err := model.Complete(t.Context(), hello)
	if fault, ok := errors.AsType[*models.Error](err); !ok || fault.Kind != models.Unavailable || len(got) != 1 {
		t.Errorf("got %v after %d calls", err, len(got))
	}
}

// TestOtherRefusals are returned as they are, and nothing is learned from them.
func TestOtherRefusals(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		status int
		body   string
		calls  int
	}{
		{"the limit's name", 400, openaiSays("max_completion_tokens", "unsupported_parameter", "Unrecognized request argument supplied: max_completion_tokens"), 1},
		{"the temperature", 400, openaiSays("temperature", "unsupported_value", "Unsupported value: 'temperature' does not support 0.3 with this model."), 1},
		{"the system's role", 500, `{"error":{"code":500,"message":"System role not supported","type":"server_error"}}`, 1},
		{"the key", 401, openaiSays("response_format", "", "json_schema is not supported"), 1},
		{"too much", 429, openaiSays("response_format", "", "json_schema is not supported"), 1},
		{"the prompt is too long", 400, openaiSays("messages", "context_length_exceeded", "maximum context length; response_format counts"), 1},
		{"filtered", 400, openaiSays("response_format", "content_filter", "no"), 1},
		{"a fault that passes", 502, openaiSays("", "", "upstream failed while streaming; response_format"), 1},
		{"no words", 400, `{}`, 2},
		{"every form, for ever", 400, openaiSays("response_format", "", "response_format and streaming are not supported"), 3},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			model, got := refusing(t, nil, picky{tt.status, tt.body, func(map[string]any) bool { return true }})
			for range 2 { // what never was answered is not remembered
				_, err := model.Complete(t.Context(), inSchema)
				if _, ok := errors.AsType[*models.Error](err); !ok {
					t.Errorf("got %v", err)
				}
				if calls, _ := drained(got); calls != tt.calls {
					t.Errorf("%d calls, want %d", calls, tt.calls)
				}
			}
		})
	}
}

func TestManyAreRefusedAtOnce(t *testing.T) {
	t.Parallel()
	model, got := refusing(t, streams,
		picky{400, openaiSays("stream", "", "streaming is not supported"), streamsNow},
		picky{400, openaiSays("response_format", "", "json_schema is not supported"), forms("schema")})
	requests := []*models.Request{hello, inSchema}
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			if _, err := model.Complete(t.Context(), requests[i%2]); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	drained(got)
	if _, err := model.Complete(t.Context(), inSchema); err != nil {
		t.Error(err)
	}
	if calls, _ := drained(got); calls != 1 {
		t.Errorf("%d calls after all was learned", calls)
	}
}

func TestARefusalIsLoggedWithoutThePrompt(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	quotes := fmt.Sprintf(`{"error":{"message":"json_schema is not supported for %s"}}`, hello.Messages[0].Text)
	model, _ := refusing(t, nil, picky{400, quotes, forms("schema")})
	ctx := zerolog.New(&out).Level(zerolog.InfoLevel).WithContext(t.Context())
	if _, err := model.Complete(ctx, inSchema); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, `"model":"test-model"`) || strings.Contains(text, hello.Messages[0].Text) {
		t.Errorf("log %q", text)
	}
}

func TestReasoningStaysOut(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, content, want string }{
		{"block", `"<think>hm</think>\n\nyes"`, "yes"},
		{"empty block", `"<think>\n\n</think>\n\n{}"`, "{}"},
		{"two blocks, cased", `"\n<Think>a</think><ANALYSIS>b</Analysis> yes"`, "yes"},
		{"brackets", `"[THINK]a</b>[/THINK]yes"`, "yes"},
		{"parts", `[{"type":"reasoning","text":"hm"},{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":"yes"}]`, "yes"},
		{"only reasoning", `"<think>hm</think>\n"`, ""},
		{"never closed", `"<think>hm {}"`, ""},
		{"Gemma", `"<|channel>thought\nhm\n<channel|>yes"`, "yes"},
		{"Seed", `"<seed:think>hm</seed:think>yes"`, "yes"},
		{"Kimi", `"◁think▷hm◁/think▷yes"`, "yes"},
		{"Command A", `"<|START_THINKING|>hm<|END_THINKING|>yes"`, "yes"},
		{"a link", `"[reasoning](https://x.y) says yes"`, "[reasoning](https://x.y) says yes"},
		{"later in the text", `"yes <think>hm</think>"`, "yes <think>hm</think>"},
		{"in a plan", `"{\"response\":\"<think>hm</think>\"}"`, `{"response":"<think>hm</think>"}`},
		{"another tag", `"<b>yes</b>"`, "<b>yes</b>"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			body := `{"choices":[{"message":{"content":` + tt.content + `},"finish_reason":"stop"}]}`
			got, err := setup(t, answer(200, body), nil).model.Complete(t.Context(), hello)
			if fault, ok := errors.AsType[*models.Error](err); tt.want == "" {
				if !ok || fault.Kind != models.Empty {
					t.Errorf("got %v, %v", got, err)
				}
			} else if err != nil || got.Text != tt.want {
				t.Errorf("got %v, %v, want %q", got, err, tt.want)
			}
		})
	}
}

// TestEachTryIsToldWhatItsFormatLeavesOut: a server that refuses the schema is told in words
// what the schema would have said.
func TestEachTryIsToldWhatItsFormatLeavesOut(t *testing.T) {
	t.Parallel()
	m, got := refusing(t, nil, picky{400, openaiSays("response_format", "", "json_schema is not supported"), forms("schema")})
	req := *inSchema
	req.Messages = []models.Message{{Role: "system", Text: "add(list: string)", WithSchema: "add(list)"}, {Role: "user", Text: "hello"}}
	req.Exchanges = []models.Message{{Role: "user", Text: "hi"}, {Role: "assistant", Text: "{}"}}
	if _, err := m.Complete(t.Context(), &req); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"schema [add(list) hello]", "object [add(list: string) hi {} hello]"} {
		body := <-got
		var texts []any
		for _, m := range body["messages"].([]any) {
			texts = append(texts, m.(map[string]any)["content"])
		}
		if told := fmt.Sprintf("%s %s", form(body), texts); told != want {
			t.Errorf("told %q, want %q", told, want)
		}
	}
}

// TestRefusalsWithoutACause are tried at most twice more, and what helped is believed after three
// conversations, for an hour.
func TestRefusalsWithoutACause(t *testing.T) {
	t.Parallel()
	turns := func(first string, older int) *models.Request {
		req := *inSchema
		req.Messages = []models.Message{{Role: "system", Text: "rules"}}
		for range older {
			req.Messages = append(req.Messages, models.Message{Role: "user", Text: first}, models.Message{Role: "assistant", Text: "ok"})
		}
		req.Messages = append(req.Messages, models.Message{Role: "user", Text: cmpOr(older, first)})
		return &req
	}
	vague := `[{"error":{"code":400,"message":"Request contains an invalid argument.","status":"INVALID_ARGUMENT"}}]`
	long := func(body map[string]any) bool { return len(body["messages"].([]any)) > 2 }
	for name, tt := range map[string]struct {
		refuses func(map[string]any) bool
		older   int
		calls   int
		ok      bool
	}{
		"the format":                {forms("schema", "object"), 0, 2, true},
		"the format, older turns":   {forms("schema", "object"), 2, 2, true},
		"the older turns":           {long, 2, 3, true},
		"both":                      {func(b map[string]any) bool { return form(b) != "text" || long(b) }, 2, 3, true},
		"everything":                {func(map[string]any) bool { return true }, 2, 3, false},
		"everything, no older turn": {func(map[string]any) bool { return true }, 0, 2, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			model, got := refusing(t, nil, picky{400, vague, tt.refuses})
			_, err := model.Complete(t.Context(), turns("hello", tt.older))
			if calls, _ := drained(got); (err == nil) != tt.ok || calls != tt.calls {
				t.Errorf("%d calls, %v", calls, err)
			}
		})
	}
	t.Run("learned", func(t *testing.T) {
		t.Parallel()
		model, got := refusing(t, nil, picky{400, vague, forms("schema", "object")})
		for i, want := range []int{2, 2, 2, 2, 1, 1} { // the second and the third are of one conversation
			first := []string{"a", "b", "b", "c", "d", "a"}[i]
			if _, err := model.Complete(t.Context(), turns(first, 0)); err != nil {
				t.Fatal(err)
			}
			if calls, _ := drained(got); calls != want {
				t.Errorf("request %d: %d calls, want %d", i, calls, want)
			}
		}
	})
}

func cmpOr(older int, first string) string {
	if older == 0 {
		return first
	}
	return "and now?"
}

// TestARefusedToolIsLeftOut, and the others stay.
func TestARefusedToolIsLeftOut(t *testing.T) {
	t.Parallel()
	for name, says := range map[string]string{
		"OpenAI":   openaiSays("tools[1].function.parameters", "invalid_function_parameters", "Invalid schema for function 'bad': In context=('properties', 'values'), array schema missing items."),
		"by name":  openaiSays("", "", "Function bad: parameters schema is invalid"),
		"by place": `{"type":"error","error":{"type":"invalid_request_error","message":"tools.1.custom.input_schema.properties: Property keys should match pattern"}}`,
		"Gemini":   `[{"error":{"code":400,"message":"* GenerateContentRequest.tools[0].function_declarations[1].parameters.properties[values].items: missing field.","status":"INVALID_ARGUMENT"}}]`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			has := func(body map[string]any) bool { return strings.Contains(fmt.Sprint(body["tools"]), "name:bad") }
			model, got := refusing(t, nil, picky{400, says, has})
			req := *hello
			req.Tools = []models.Tool{addItem, {Name: "bad", Schema: []byte(`{"type":"object"}`)}, {Name: "good", Schema: []byte(`{"type":"object"}`)}}
			ctx := zerolog.New(&out).Level(zerolog.InfoLevel).WithContext(t.Context())
			for i, want := range []int{2, 1} {
				_, err := model.Complete(ctx, &req)
				calls, last := drained(got)
				if tools := last["tools"].([]any); err != nil || calls != want || len(tools) != 2 {
					t.Errorf("request %d: %d calls, %d tools, %v", i, calls, len(tools), err)
				}
			}
			if strings.Count(out.String(), `"tool":"bad"`) != 1 || len(req.Tools) != 3 {
				t.Errorf("log %s", out.String())
			}
		})
	}
}
