package models_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/models"
)

// Error bodies as the servers write them.
const (
	azureFiltered = `{"error":{"message":"The response was filtered due to the prompt triggering Azure OpenAI's content management policy.","type":null,"param":"prompt","code":"content_filter","status":400,"innererror":{"code":"ResponsibleAIPolicyViolation","content_filter_result":{"hate":{"filtered":true,"severity":"high"},"jailbreak":{"filtered":false,"detected":false}}}}}`
	azureInner    = `{"error":{"message":"Refused","code":null,"innererror":{"code":"ResponsibleAIPolicyViolation"}}}`
	openaiLong    = `{"error":{"message":"This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`
	vllmLong      = `{"object":"error","message":"This model's maximum context length is 4096 tokens. However, you requested 5000 tokens.","type":"BadRequestError","param":null,"code":400}`
	llamaLong     = `{"error":{"code":400,"message":"request (4390 tokens) exceeds the available context size (4096 tokens), try increasing it","type":"exceed_context_size_error","n_prompt_tokens":4390,"n_ctx":4096}}`
	llamaLong500  = `{"error":{"code":500,"message":"Context size has been exceeded.","type":"server_error"}}`
	pythonLong500 = `{"error":{"message":"Requested tokens (2285) exceed context window of 2048","type":"internal_server_error","param":null,"code":null}}`
	tgiLong       = "{\"error\":\"Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000\",\"error_type\":\"validation\"}"
	lmStudioLong  = `{"error":"Trying to keep the first 15857 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens"}`
	html          = "<html>\n<head><title>502 Bad Gateway</title></head></html>"
)

func TestErrorKinds(t *testing.T) {
	t.Parallel()
	message := func(code, text string) string {
		return `{"error":{"message":"` + text + `","type":"some_type","param":null,"code":` + code + `}}`
	}
	tests := []struct {
		name   string
		status int
		body   string
		want   models.Error // Kind, Code, Status (0: as status)
	}{
		{"throttled", 429, message(`"rate_limit_exceeded"`, "slow down"), models.Error{Kind: models.Throttled, Code: "rate_limit_exceeded"}},
		{"azure throttled", 429, message(`"429"`, "Requests have exceeded call rate limit"), models.Error{Kind: models.Throttled, Code: "429"}},
		{"quota", 429, message(`"insufficient_quota"`, "no money"), models.Error{Kind: models.Quota, Code: "insufficient_quota"}},
		{"throttled, HTML", 429, html, models.Error{Kind: models.Throttled}},
		{"too long", 400, openaiLong, models.Error{Kind: models.TooLong, Code: "context_length_exceeded"}},
		{"string too long", 400, message(`"string_above_max_length"`, "long"), models.Error{Kind: models.TooLong, Code: "string_above_max_length"}},
		{"too long, vLLM", 400, vllmLong, models.Error{Kind: models.TooLong, Code: "BadRequestError"}},
		{"too long, llama.cpp", 400, llamaLong, models.Error{Kind: models.TooLong, Code: "exceed_context_size_error"}},
		{"too long, llama.cpp 500", 500, llamaLong500, models.Error{Kind: models.TooLong, Code: "server_error"}},
		{"too long, llama.cpp under 200", 200, llamaLong, models.Error{Kind: models.TooLong, Code: "exceed_context_size_error", Status: 400}},
		{"too long, llama-cpp-python 500", 500, pythonLong500, models.Error{Kind: models.TooLong, Code: "internal_server_error"}},
		{"too long, TGI", 422, tgiLong, models.Error{Kind: models.TooLong}},
		{"too long, LM Studio", 400, lmStudioLong, models.Error{Kind: models.TooLong}},
		{"too long, 413", 413, html, models.Error{Kind: models.TooLong}},
		{"filtered by Azure", 400, azureFiltered, models.Error{Kind: models.Filtered, Code: "content_filter"}},
		{"filtered by Azure, inner code", 400, azureInner, models.Error{Kind: models.Filtered}},
		{"filtered by OpenAI", 400, message(`"content_policy_violation"`, "no"), models.Error{Kind: models.Filtered, Code: "content_policy_violation"}},
		{"flagged by OpenAI", 400, message(`"invalid_prompt"`, "Your prompt was flagged as potentially violating our usage policy."), models.Error{Kind: models.Filtered, Code: "invalid_prompt"}},
		{"invalid prompt", 400, message(`"invalid_prompt"`, "messages is empty"), models.Error{Kind: models.BadRequest, Code: "invalid_prompt"}},
		{"output filtered", 200, `{"choices":[{"message":{"content":"Well, "},"finish_reason":"content_filter"}]}`, models.Error{Kind: models.Filtered, Code: "content_filter"}},
		{"401", 401, message(`"invalid_api_key"`, "Incorrect API key provided"), models.Error{Kind: models.Auth, Code: "invalid_api_key"}},
		{"403", 403, message(`"unsupported_country"`, "no"), models.Error{Kind: models.Auth, Code: "unsupported_country"}},
		{"408", 408, "", models.Error{Kind: models.Timeout}},
		{"504", 504, html, models.Error{Kind: models.Timeout}},
		{"500", 500, message("null", "The server had an error"), models.Error{Kind: models.Unavailable, Code: "some_type"}},
		{"502", 502, html, models.Error{Kind: models.Unavailable}},
		{"503 empty", 503, "", models.Error{Kind: models.Unavailable}},
		{"529", 529, message("null", "overloaded"), models.Error{Kind: models.Unavailable, Code: "some_type"}},
		{"404", 404, message(`"DeploymentNotFound"`, "The API deployment for this resource does not exist."), models.Error{Kind: models.BadRequest, Code: "DeploymentNotFound"}},
		{"a choice of tools that is not taken", 400, message("null", "This model does not support tool_choice."), models.Error{Kind: models.BadRequest, Code: "some_type"}},
		{"422 detail", 422, `{"detail":[{"loc":["body","messages"],"msg":"field required","input":{"x":1}}]}`, models.Error{Kind: models.BadRequest}},
		{"code of a strange form", 400, message(`"a b\nc"`, "no"), models.Error{Kind: models.BadRequest}},
		{"error of a strange form", 400, `{"error":[1],"message":{},"code":{}}`, models.Error{Kind: models.BadRequest}},
		{"redirect", 308, "", models.Error{Kind: models.BadRequest, Code: "redirect"}},
		{"router's error under 200", 200, `{"error":{"message":"overloaded","code":503}}`, models.Error{Kind: models.Unavailable, Code: "", Status: 503}},
		{"HTML under 200", 200, html, models.Error{Kind: models.Unavailable, Code: "malformed_response"}},
		{"nothing under 200", 200, "", models.Error{Kind: models.Unavailable, Code: "malformed_response"}},
		{"cut JSON", 200, completion[:200], models.Error{Kind: models.Unavailable, Code: "malformed_response"}},
		{"other JSON", 200, `{"choices":{"a":1}}`, models.Error{Kind: models.Unavailable, Code: "malformed_response"}},
		{"deep JSON", 200, strings.Repeat(`{"choices":[`, 20_000), models.Error{Kind: models.Unavailable, Code: "malformed_response"}},
		{"null", 200, "null", models.Error{Kind: models.Empty}},
		{"no choices", 200, `{"choices":[]}`, models.Error{Kind: models.Empty}},
		{"choices absent", 200, `{}`, models.Error{Kind: models.Empty}},
		{"blank text", 200, `{"choices":[{"message":{"content":" \n"},"finish_reason":"stop"}]}`, models.Error{Kind: models.Empty}},
		{"only reasoning", 200, `{"choices":[{"message":{"content":null,"reasoning_content":"hm"},"finish_reason":"length"}]}`, models.Error{Kind: models.Empty, Code: "length"}},
		{"no message", 200, `{"choices":[{}]}`, models.Error{Kind: models.Empty}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, answer(tt.status, tt.body, "X-Request-Id", "req-7"), nil)
			res, err := b.model.Complete(t.Context(), hello)
			fault, ok := errors.AsType[*models.Error](err)
			if !ok || res != nil {
				t.Fatalf("got %v, %v", res, err)
			}
			got := models.Error{Kind: fault.Kind, Code: fault.Code, Status: fault.Status}
			if tt.want.Status == 0 {
				tt.want.Status = tt.status
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("%v\n%s", err, diff)
			}
			if text := err.Error(); strings.ContainsAny(text, "\r\n") || len(text) > 500 || strings.Contains(text, testKey) {
				t.Errorf("error text %q", text)
			}
			if fault.Code != "malformed_response" && fault.RequestID != "req-7" {
				t.Errorf("request id %q", fault.RequestID)
			}
			if len(b.seen) != 1 {
				t.Errorf("%d calls", len(b.seen))
			}
		})
	}
}

// TestUselessAnswersHaveAUsage, since they were paid for.
func TestUselessAnswersHaveAUsage(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]models.Usage{
		`{"choices":[{"message":{"content":null},"finish_reason":"length"}],"usage":{"prompt_tokens":9,"completion_tokens":800}}`:         {Prompt: 9, Completion: 800},
		`{"choices":[{"message":{"content":"Well"},"finish_reason":"content_filter"}],"usage":{"prompt_tokens":9,"completion_tokens":1}}`: {Prompt: 9, Completion: 1},
		`{"choices":[],"usage":{"prompt_tokens":9}}`: {Prompt: 9},
	} {
		_, err := setup(t, answer(200, body), nil).model.Complete(t.Context(), hello)
		fault, ok := errors.AsType[*models.Error](err)
		if !ok || fault.Usage != want {
			t.Errorf("%s: %v, usage %+v", body, err, fault)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		headers []string
		want    time.Duration
	}{
		{"none", nil, 0},
		{"seconds", []string{"Retry-After", "7"}, 7 * time.Second},
		{"part of a second", []string{"Retry-After", "0.25"}, 250 * time.Millisecond},
		{"milliseconds win", []string{"Retry-After", "7", "Retry-After-Ms", "1250"}, 1250 * time.Millisecond},
		{"a date", []string{"Retry-After", time.Now().Add(1000 * time.Hour).UTC().Format(http.TimeFormat)}, 1000 * time.Hour},
		{"a date gone by", []string{"Retry-After", time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat)}, 0},
		{"negative", []string{"Retry-After", "-3"}, 0},
		{"absurd", []string{"Retry-After", "1e300"}, 0},
		{"no number", []string{"Retry-After", "NaN"}, 0},
		{"words", []string{"Retry-After", "soon"}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := setup(t, answer(429, html, tt.headers...), nil).model.Complete(t.Context(), hello)
			fault, ok := errors.AsType[*models.Error](err)
			if !ok || fault.RetryAfter > tt.want || fault.RetryAfter < tt.want-time.Minute {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}

func TestErrorsHideTheKeyAndWhatTheServerSays(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, message, hidden, shown string }{
		{"key", "Received API Key = " + testKey + " is over budget", testKey, "over budget"},
		{"past the cap", strings.Repeat("x", 290) + "You keep lists of things for people.", "You keep lists", "xxx"},
		{"lines", "bad\\n\\tvalue", "\n", "bad value"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := setup(t, answer(400, `{"error":{"message":"`+tt.message+`"}}`), nil).model.Complete(t.Context(), hello)
			fault, ok := errors.AsType[*models.Error](err)
			if !ok || strings.Contains(fault.Said, tt.hidden) || !strings.Contains(fault.Said, tt.shown) || strings.Contains(err.Error(), tt.shown) {
				t.Errorf("got %v, said %q", err, fault.Said)
			}
		})
	}
	masked := `{"error":{"message":"Incorrect API key provided: sk-te**********6789.","code":"invalid_api_key"}}`
	_, err := setup(t, answer(401, masked), nil).model.Complete(t.Context(), hello)
	if err == nil || strings.Contains(err.Error(), "sk-te") {
		t.Errorf("got %v", err)
	}
}

func TestKeyDoesNotFollowRedirects(t *testing.T) {
	t.Parallel()
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("%s %s reached the other host", r.Method, r.URL)
	}))
	t.Cleanup(other.Close)
	for _, status := range []int{301, 302, 307, 308} {
		_, err := setup(t, answer(status, "", "Location", other.URL), nil).model.Complete(t.Context(), hello)
		if fault, ok := errors.AsType[*models.Error](err); !ok || fault.Code != "redirect" {
			t.Errorf("status %d: %v", status, err)
		}
	}
}

func TestHugeBody(t *testing.T) {
	t.Parallel()
	endless := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `{"choices":[{"message":{"content":"`)
		for r.Context().Err() == nil {
			if _, err := io.WriteString(w, strings.Repeat("a", 1<<16)); err != nil {
				return
			}
		}
	}
	announced := answer(200, "{}"+strings.Repeat(" ", 9<<20))
	for name, h := range map[string]http.HandlerFunc{"endless": endless, "announced": announced} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, h, nil)
			_, err := b.model.Complete(t.Context(), hello)
			if fault, ok := errors.AsType[*models.Error](err); !ok || fault.Kind != models.Unavailable || fault.Code != "response_too_large" {
				t.Errorf("got %v", err)
			}
		})
	}
}

// hang answers nothing, or half an answer, until the client has gone.
func hang(first string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if first != "" {
			_, _ = io.WriteString(w, first)
			w.(http.Flusher).Flush()
		}
		<-r.Context().Done()
	}
}

func TestTimeout(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]http.HandlerFunc{"no answer": hang(""), "half an answer": hang(completion[:100])} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, h, func(cfg *models.OpenAIConfig, _ string) { cfg.Timeout = 50 * time.Millisecond })
			start := time.Now()
			_, err := b.model.Complete(t.Context(), hello)
			fault, ok := errors.AsType[*models.Error](err)
			if !ok || fault.Kind != models.Timeout || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
			if took := time.Since(start); took > 10*time.Second {
				t.Errorf("took %s", took)
			}
		})
	}
	t.Run("the caller's deadline", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err := setup(t, hang(""), nil).model.Complete(ctx, hello)
		if fault, ok := errors.AsType[*models.Error](err); !ok || fault.Kind != models.Timeout {
			t.Errorf("got %v", err)
		}
	})
}

func TestCancel(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]string{"no answer": "", "half an answer": completion[:100]} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, hang(first), nil)
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				<-b.seen // the call is under way
				cancel()
			}()
			_, err := b.model.Complete(ctx, hello)
			if !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
			if fault, ok := errors.AsType[*models.Error](err); ok {
				t.Errorf("a cancelled call is no fault of the model: %v", fault)
			}
		})
	}
}

func TestNetworkFault(t *testing.T) {
	t.Parallel()
	gone := httptest.NewServer(http.NotFoundHandler())
	url := gone.URL
	gone.Close()
	drop := func(first string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			if first != "" {
				_, _ = io.WriteString(w, first)
				w.(http.Flusher).Flush()
			}
			panic(http.ErrAbortHandler)
		}
	}
	for name, model := range map[string]models.Model{
		"refused":            setup(t, nil, func(cfg *models.OpenAIConfig, _ string) { cfg.BaseURL = url }).model,
		"dropped at once":    setup(t, drop(""), nil).model,
		"dropped in the end": setup(t, drop(completion[:100]), nil).model,
	} {
		_, err := model.Complete(t.Context(), hello)
		assertUnavailable(t, name, err)
	}
}

func assertUnavailable(t *testing.T, name string, err error) {
	t.Helper()
	fault, ok := errors.AsType[*models.Error](err)
	if !ok || fault.Kind != models.Unavailable || fault.Status != 0 || fault.Code != "" || fault.Err == nil {
		t.Errorf("%s: %v", name, err)
	}
}
