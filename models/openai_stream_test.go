package models_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/internal/fakemodel"
	"github.com/planbot-go/planbot/models"
)

// streams is a configuration that asks for streams.
func streams(cfg *models.OpenAIConfig, _ string) { cfg.Stream = true }

// events writes chunks as a server does; a chunk is the JSON of its one choice, or
// with a # before it all of its data.
func events(chunks ...string) string {
	var b strings.Builder
	for _, c := range chunks {
		if whole, ok := strings.CutPrefix(c, "#"); ok {
			fmt.Fprintf(&b, "data: %s\n\n", whole)
			continue
		}
		fmt.Fprintf(&b, `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"streamed","choices":[%s],"usage":null}`+"\n\n", c)
	}
	return b.String()
}

// say, call and end are choices.
func say(text string) string {
	return fmt.Sprintf(`{"index":0,"delta":{"content":%q},"finish_reason":null}`, text)
}

func piece(fields string) string {
	return `{"index":0,"delta":{"tool_calls":[` + fields + `]},"finish_reason":null}`
}

func end(reason string) string {
	return fmt.Sprintf(`{"index":0,"delta":{},"finish_reason":%q}`, reason)
}

const (
	done      = "#[DONE]"
	lastUsage = `#{"choices":[],"usage":{"prompt_tokens":812,"completion_tokens":41,"prompt_tokens_details":{"cached_tokens":768},"completion_tokens_details":{"reasoning_tokens":7}}}`
)

// askStream is what a model makes of a stream.
func askStream(t *testing.T, stream string) (*models.Response, error) {
	t.Helper()
	return askType(t, "text/event-stream", stream)
}

func askType(t *testing.T, contentType, body string) (*models.Response, error) {
	t.Helper()
	b := setup(t, answer(200, body, "Content-Type", contentType, "X-Request-Id", "req-7"), streams)
	return b.model.Complete(t.Context(), &models.Request{Messages: hello.Messages, Tools: []models.Tool{addItem}})
}

func TestStreams(t *testing.T) {
	t.Parallel()
	used := models.Usage{Prompt: 812, Completion: 41, Cached: 768, Reasoning: 7}
	milk := models.Call{ID: "call_a", Name: "addItem", Arguments: `{"item":"milk"}`}
	eggs := models.Call{ID: "call_b", Name: "addItem", Arguments: `{"item":"eggs"}`}
	tests := []struct {
		name, stream string
		want         models.Response
	}{
		{"text", events(`{"index":0,"delta":{"role":"assistant","content":""}}`, say("Hel"), say("lo\n"), say("ä🥛"), end("stop"), lastUsage, done), models.Response{Text: "Hello\nä🥛", Finish: "stop", Usage: used}},
		{"no usage", events(say("Hello"), end("stop"), done), models.Response{Text: "Hello", Finish: "stop"}},
		{"usage with each chunk", events(say("Hello"), `#{"choices":[{"index":0,"delta":{"content":"!"}}],"usage":{"prompt_tokens":1}}`, `#{"choices":[{"index":0,"delta":{"content":""},"finish_reason":"stop"}],"usage":{"prompt_tokens":2}}`, done), models.Response{Text: "Hello!", Finish: "stop", Usage: models.Usage{Prompt: 2}}},
		{"an end but no finish", events(say("Hello"), done), models.Response{Text: "Hello", Finish: "stop"}},
		{"no end but a finish", events(say("Hello"), end("stop")), models.Response{Text: "Hello", Finish: "stop"}},
		{"a finish that was none", events(say("Hello"), end("stop"), say("!"), end("length"), done), models.Response{Text: "Hello!", Finish: "length"}},
		{"usage in a choice without words", events(say("Hello"), end("stop"), `#{"choices":[{"index":0,"delta":{},"finish_reason":null}],"usage":{"prompt_tokens":2}}`), models.Response{Text: "Hello", Finish: "stop", Usage: models.Usage{Prompt: 2}}},
		{"cut by the limit", events(say(`{"type":`), end("length"), done), models.Response{Text: `{"type":`, Finish: "length"}},
		{"nothing behind the end", events(say("Hello"), end("stop"), done, say(" again")), models.Response{Text: "Hello", Finish: "stop"}},
		{"refusal", events(`{"index":0,"delta":{"refusal":"I can"}}`, `{"index":0,"delta":{"refusal":"not."}}`, end("stop"), done), models.Response{Text: "I cannot.", Finish: "stop"}},
		{"reasoning apart", events(`{"index":0,"delta":{"content":null,"reasoning_content":"hm"}}`, `{"index":0,"delta":{"reasoning":"hm","reasoning_details":[{"text":"hm"}]}}`, say("yes"), end("stop"), done), models.Response{Text: "yes", Finish: "stop"}},
		{"reasoning in the text", events(say("<thi"), say("nk>hm</think>"), say("yes"), end("stop"), done), models.Response{Text: "yes", Finish: "stop"}},
		{"other choices", events(`{"index":1,"delta":{"content":"no"},"finish_reason":"length"}`, say("yes"), end("stop"), done), models.Response{Text: "yes", Finish: "stop"}},
		{"Azure's first chunk", events(`#{"choices":[],"prompt_filter_results":[{"prompt_index":0,"content_filter_results":{}}]}`, say("yes"), end("stop"), done), models.Response{Text: "yes", Finish: "stop"}},
		{"calls", events(say("Well."), piece(`{"index":0,"id":"call_a","type":"function","function":{"name":"addItem","arguments":""}}`), piece(`{"index":0,"function":{"arguments":"{\"item\":"}}`), piece(`{"index":0,"function":{"arguments":"\"milk\"}"}}`), end("tool_calls"), lastUsage, done), models.Response{Text: "Well.", Calls: []models.Call{milk}, Finish: "tool_calls", Usage: used}},
		{"interleaved", events(
			piece(`{"index":0,"id":"call_a","function":{"name":"addItem"}}`), piece(`{"index":1,"id":"call_b","function":{"name":"addItem"}}`),
			piece(`{"index":1,"function":{"arguments":"{\"item\":"}},{"index":0,"function":{"arguments":"{\"item\":"}}`),
			piece(`{"index":0,"function":{"arguments":"\"milk\"}"}}`), piece(`{"index":1,"function":{"arguments":"\"eggs\"}"}}`), end("stop"), done,
		), models.Response{Calls: []models.Call{milk, eggs}, Finish: "tool_calls"}},
		{"whole calls in one chunk", events(piece(`{"index":0,"id":"call_a","function":{"name":"addItem","arguments":"{\"item\":\"milk\"}"}},{"index":1,"id":"call_b","function":{"name":"addItem","arguments":"{\"item\":\"eggs\"}"}}`), end("tool_calls"), done), models.Response{Calls: []models.Call{milk, eggs}, Finish: "tool_calls"}},
		{"whole calls, each from zero", events(piece(`{"index":0,"id":"call_a","function":{"name":"addItem","arguments":"{\"item\":\"milk\"}"}}`), piece(`{"index":0,"id":"call_b","function":{"name":"addItem","arguments":"{\"item\":\"eggs\"}"}}`), end("tool_calls"), done), models.Response{Calls: []models.Call{milk, eggs}, Finish: "tool_calls"}},
		{"whole calls, no index, no ids", events(piece(`{"function":{"name":"addItem","arguments":"{\"item\":\"milk\"}"}}`), piece(`{"id":"","function":{"name":"addItem","arguments":"{\"item\":\"eggs\"}"}}`), end("tool_calls"), done), models.Response{
			Calls: []models.Call{{ID: "call_1", Name: "addItem", Arguments: milk.Arguments}, {ID: "call_2", Name: "addItem", Arguments: eggs.Arguments}}, Finish: "tool_calls",
		}},
		{"id and name with each piece", events(piece(`{"index":0,"id":"call_a","function":{"name":"addItem","arguments":"{\"item\":"}}`), piece(`{"index":0,"id":"call_a","function":{"name":"addItem","arguments":"\"milk\"}"}}`), end("tool_calls"), done), models.Response{Calls: []models.Call{milk}, Finish: "tool_calls"}},
		{"id and name with an empty last piece", events(piece(`{"index":0,"id":"call_a","function":{"name":"addItem","arguments":"{\"item\":\"milk\"}"}}`), piece(`{"index":0,"id":"call_a","function":{"name":"addItem","arguments":""}}`), end("tool_calls"), done), models.Response{Calls: []models.Call{milk}, Finish: "tool_calls"}},
		{"no ids, the name with each piece", events(piece(`{"index":0,"function":{"name":"addItem","arguments":"{\"item\":"}}`), piece(`{"index":0,"function":{"name":"addItem","arguments":"\"milk\"}"}}`), end("tool_calls"), done), models.Response{Calls: []models.Call{{ID: "call_1", Name: "addItem", Arguments: milk.Arguments}}, Finish: "tool_calls"}},
		{"another id with each piece, vLLM", events(piece(`{"index":0,"id":"call_a","function":{"name":"addItem"}}`), piece(`{"index":0,"id":"call_x","function":{"arguments":"{\"item\":"}}`), piece(`{"index":0,"id":"call_y","function":{"arguments":"\"milk\"}"}}`), end("tool_calls"), done), models.Response{Calls: []models.Call{milk}, Finish: "tool_calls"}},
		{"empty id and name later", events(piece(`{"index":0,"id":"call_a","function":{"name":"addItem","arguments":"{\"item\":"}}`), piece(`{"index":0,"id":"","function":{"name":"","arguments":"\"milk\"}"}}`), end("tool_calls"), done), models.Response{Calls: []models.Call{milk}, Finish: "tool_calls"}},
		{"id and name late", events(piece(`{"index":0,"id":"","function":{"arguments":"{\"item\":"}}`), piece(`{"index":0,"id":"call_a","function":{"name":"addItem","arguments":"\"milk\"}"}}`), end("tool_calls"), done), models.Response{Calls: []models.Call{milk}, Finish: "tool_calls"}},
		{"one id for all", events(piece(`{"index":0,"id":"call_a","function":{"name":"addItem","arguments":"{\"item\":\"milk\"}"}}`), piece(`{"index":1,"id":"call_a","function":{"name":"addItem","arguments":"{\"item\":\"eggs\"}"}}`), end("tool_calls"), done), models.Response{
			Calls: []models.Call{milk, {ID: "call_1", Name: "addItem", Arguments: eggs.Arguments}}, Finish: "tool_calls",
		}},
		{"pieces that belong to nothing", events(piece(`{"index":0,"id":"call_a","function":{"name":"addItem","arguments":"{\"item\":\"milk\"}"}}`), piece(`{"index":0,"function":{"name":"","arguments":"{\"item\":\"eggs\"}"}}`), end("tool_calls"), done), models.Response{Calls: []models.Call{{ID: "call_a", Name: "addItem", Arguments: milk.Arguments + eggs.Arguments}}, Finish: "tool_calls"}},
		{"cut by the limit in a call", events(piece(`{"index":0,"id":"call_a","function":{"name":"addItem","arguments":"{\"it"}}`), end("length"), done), models.Response{Calls: []models.Call{{ID: "call_a", Name: "addItem", Arguments: `{"it`}}, Finish: "length"}},
		{"comments, fields, carriage returns", strings.ReplaceAll(": keep-alive\n\n:\n\nretry: 10\nid: 1\nevent: message\n"+events(say("yes"))+": keep-alive\n\n"+events(end("stop"), done), "\n", "\r\n"), models.Response{Text: "yes", Finish: "stop"}},
		{"no empty lines, no space", strings.ReplaceAll(strings.ReplaceAll(events(say("yes"), end("stop"), done), "\n\n", "\n"), "data: ", "data:"), models.Response{Text: "yes", Finish: "stop"}},
		{"an event without data", "event: error\n\n" + events(say("yes"), end("stop"), done), models.Response{Text: "yes", Finish: "stop"}},
		{"no line end at the end", strings.TrimSpace(events(say("yes"), end("stop"), done)), models.Response{Text: "yes", Finish: "stop"}},
		{"many comments", strings.Repeat(": keep-alive\n\n", 2000) + events(say("yes"), end("stop"), done), models.Response{Text: "yes", Finish: "stop"}},
		{"a long line", events(say(strings.Repeat("yes", 10_000)), end("stop"), done), models.Response{Text: strings.Repeat("yes", 10_000), Finish: "stop"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := askStream(t, tt.stream)
			if err != nil {
				t.Fatal(err)
			}
			tt.want.Model = "streamed"
			if diff := cmp.Diff(&tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestStreamsAreAskedFor(t *testing.T) {
	t.Parallel()
	b := setup(t, answer(200, events(say("yes"), end("stop"), done)), streams)
	trap := `"stream":false`
	if _, err := b.model.Complete(t.Context(), &models.Request{Messages: []models.Message{{Role: "user", Text: trap}}}); err != nil {
		t.Fatal(err)
	}
	req := <-b.seen
	want := map[string]any{
		"model": "test-model", "stream": true, "stream_options": map[string]any{"include_usage": true},
		"messages": []any{map[string]any{"role": "user", "content": trap}},
	}
	if diff := cmp.Diff(want, req.Body); diff != "" {
		t.Error(diff)
	}
	if accept := req.Header.Get("Accept"); accept != "text/event-stream" {
		t.Errorf("Accept %q", accept)
	}
}

// TestStreamsThatAreNone: a server may not know how to stream, and send the whole.
func TestStreamsThatAreNone(t *testing.T) {
	t.Parallel()
	for body, contentType := range map[string]string{
		completion: "text/event-stream", "\r\n " + completion: "application/json; charset=utf-8",
	} {
		got, err := askType(t, contentType, body)
		if err != nil || got.Text != `{"type":"plan"}` || got.Usage.Prompt != 812 {
			t.Errorf("got %+v, %v", got, err)
		}
	}
	for body, want := range map[string]models.Error{
		llamaLong:                        {Kind: models.TooLong, Status: 400, RequestID: "req-7"},
		completion[:200]:                 {Kind: models.Unavailable, Status: 200},
		"{" + strings.Repeat(" ", 9<<20): {Kind: models.Unavailable},
	} {
		_, err := askType(t, "application/json; charset=utf-8", body)
		fault, ok := errors.AsType[*models.Error](err)
		if !ok || fault.Kind != want.Kind || fault.Status != want.Status || want.RequestID != "" && fault.RequestID != want.RequestID {
			t.Errorf("%.20s: %v", body, err)
		}
	}
}

func TestBrokenStreams(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, stream string
		want         models.Error
	}{
		{"cut off in a text", events(say("Hel"), say("lo")), models.Error{Kind: models.Unavailable, Status: 200}},
		{"cut off in a call", events(piece(`{"index":0,"id":"a","function":{"name":"addItem","arguments":"{}"}}`)), models.Error{Kind: models.Unavailable, Status: 200}},
		{"cut off before anything", events(`{"index":0,"delta":{"role":"assistant"}}`), models.Error{Kind: models.Unavailable, Status: 200}},
		{"cut off in a line", events(say("Hello")) + `data: {"choices":[{"index":0,"finish_rea`, models.Error{Kind: models.Unavailable, Status: 200}},
		{"goes on behind a finish, and is cut off", events(say("Hel"), end("stop"), say("lo")), models.Error{Kind: models.Unavailable, Status: 200}},
		{"cut off, with the word null as a finish", events(`{"index":0,"delta":{"content":"Hel"},"finish_reason":"null"}`), models.Error{Kind: models.Unavailable, Status: 200}},
		{"nothing", "", models.Error{Kind: models.Unavailable, Status: 200, Code: "malformed_response"}},
		{"HTML", html, models.Error{Kind: models.Unavailable, Status: 200, Code: "malformed_response"}},
		{"comments only", ": hm\n\n", models.Error{Kind: models.Unavailable, Status: 200, Code: "malformed_response"}},
		{"no JSON", events("#{\"choices\":", say("x"), end("stop"), done), models.Error{Kind: models.Unavailable, Status: 200, Code: "malformed_response"}},
		{"another shape", events(`#{"choices":{"a":1}}`, done), models.Error{Kind: models.Unavailable, Status: 200, Code: "malformed_response"}},
		{"only an end", events(done), models.Error{Kind: models.Unavailable, Status: 200, Code: "malformed_response"}},
		{"no text", events(end("stop"), done), models.Error{Kind: models.Empty, Status: 200}},
		{"only reasoning", events(`{"index":0,"delta":{"reasoning_content":"hm"}}`, end("length"), done), models.Error{Kind: models.Empty, Status: 200, Code: "length"}},
		{"filtered", events(say("Well"), end("content_filter"), done), models.Error{Kind: models.Filtered, Status: 200, Code: "content_filter"}},
		{"gave up", events(say("Well"), end("insufficient_system_resource"), done), models.Error{Kind: models.Unavailable, Status: 200, Code: "insufficient_system_resource"}},
		{"an error in the middle", events(say("Hel"), `#{"error":{"message":"The server had an error","type":"server_error","code":null}}`, done), models.Error{Kind: models.Unavailable, Status: 200, Code: "server_error"}},
		{"an error beside a choice", events(say("Hel"), `#{"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}],"error":{"message":"Provider disconnected","code":502}}`, done), models.Error{Kind: models.Unavailable, Status: 502}},
		{"an error behind the answer", events(say("Hel"), end("stop"), `#{"error":{"message":"oh","code":500}}`), models.Error{Kind: models.Unavailable, Status: 500}},
		{"an error object, vLLM", events(say("Hel"), `#{"object":"error","message":"too many","type":"BadRequestError","code":400}`, done), models.Error{Kind: models.BadRequest, Status: 400, Code: "BadRequestError"}},
		{"throttled in the middle", events(`#{"error":{"message":"slow down","code":429}}`), models.Error{Kind: models.Throttled, Status: 429}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			res, err := askStream(t, tt.stream)
			fault, ok := errors.AsType[*models.Error](err)
			if !ok || res != nil {
				t.Fatalf("got %+v, %v", res, err)
			}
			got := models.Error{Kind: fault.Kind, Status: fault.Status, Code: fault.Code}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("%v\n%s", err, diff)
			}
		})
	}
}

func TestStreamsOfTheFake(t *testing.T) {
	t.Parallel()
	server := fakemodel.New(t)
	model, err := models.NewOpenAI(models.OpenAIConfig{BaseURL: server.URL, Stream: true})
	if err != nil {
		t.Fatal(err)
	}
	calls := []models.Call{{ID: "a", Name: "addItem", Arguments: `{"item":"Milch für Mia 🥛","list":"Einkauf"}`}, {ID: "b", Name: "ping"}}
	server.CallsTools("Einen Moment, bitte.", calls...)
	got, err := model.Complete(t.Context(), hello)
	want := &models.Response{
		Text: "Einen Moment, bitte.", Finish: "tool_calls", Model: "fake", Usage: models.Usage{Prompt: 10, Completion: 5},
		Calls: []models.Call{{ID: "a", Name: "addItem", Arguments: calls[0].Arguments}, {ID: "b", Name: "ping"}},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	if !server.Calls()[0].Stream {
		t.Error("no stream was asked for")
	}
	server.CutsOff("Hello", calls...)
	_, err = model.Complete(t.Context(), hello)
	if fault, ok := errors.AsType[*models.Error](err); !ok || fault.Kind != models.Unavailable || fault.Code != "" {
		t.Errorf("cut off: %v", err)
	}
}

func TestACutStreamIsAskedForAgain(t *testing.T) {
	t.Parallel()
	server := fakemodel.New(t)
	model, err := models.NewOpenAI(models.OpenAIConfig{BaseURL: server.URL, Stream: true})
	if err != nil {
		t.Fatal(err)
	}
	server.CutsOff("Hel")
	server.Says("Hello")
	got, err := patient(t, model, &models.Chain{}).Complete(t.Context(), hello)
	if err != nil || got.Text != "Hello" {
		t.Errorf("got %+v, %v", got, err)
	}
}

// again is a text without an end.
type again struct{ text, rest string }

func (a *again) Read(p []byte) (int, error) {
	if a.rest == "" {
		a.rest = a.text
	}
	n := copy(p, a.rest)
	a.rest = a.rest[n:]
	return n, nil
}

// numbered is chunks with calls, each of an index of its own.
type numbered struct {
	again
	n int
}

func (s *numbered) Read(p []byte) (int, error) {
	if s.rest == "" {
		s.text = events(piece(fmt.Sprintf(`{"index":%d}`, s.n)))
		s.n++
	}
	return s.again.Read(p)
}

// carrier answers each call with a stream, without a network.
type carrier func() io.ReadCloser

func (c carrier) RoundTrip(req *http.Request) (*http.Response, error) {
	body := c()
	context.AfterFunc(req.Context(), func() { _ = body.Close() })
	return &http.Response{StatusCode: http.StatusOK, Body: body, Header: http.Header{}, ContentLength: -1, Request: req}, nil
}

// carried asks a model whose server sends the stream.
func carried(t testing.TB, stream io.ReadCloser, req *models.Request) (*models.Response, error) {
	t.Helper()
	model, err := models.NewOpenAI(models.OpenAIConfig{
		BaseURL: "http://model/v1", Stream: true, Transport: carrier(func() io.ReadCloser { return stream }),
	})
	if err != nil {
		t.Fatal(err)
	}
	return model.Complete(t.Context(), req)
}

func TestStreamsHaveCaps(t *testing.T) {
	t.Parallel()
	for name, stream := range map[string]io.Reader{
		"text":     &again{text: events(say(strings.Repeat("yes", 10_000)))},
		"calls":    &numbered{},
		"new ids":  &again{text: events(piece(`{"index":0,"id":"x","function":{"name":"f"}},{"index":0,"id":"y","function":{"name":"f"}}`))},
		"one line": &again{text: "data: {"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := carried(t, io.NopCloser(stream), hello)
			if fault, ok := errors.AsType[*models.Error](err); !ok || fault.Code != "response_too_large" {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestAStalledStreamEndsWithTheContext(t *testing.T) {
	t.Parallel()
	stalled := func(begun chan<- struct{}) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, events(say("Hel")))
			w.(http.Flusher).Flush()
			close(begun)
			<-r.Context().Done()
		}
	}
	begun := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-begun; cancel() }()
	_, err := setup(t, stalled(begun), streams).model.Complete(ctx, hello)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	b := setup(t, stalled(make(chan struct{})), func(cfg *models.OpenAIConfig, _ string) { cfg.Stream, cfg.Timeout = true, 50*time.Millisecond })
	_, err = b.model.Complete(t.Context(), hello)
	if fault, ok := errors.AsType[*models.Error](err); !ok || fault.Kind != models.Timeout {
		t.Errorf("timed out: %v", err)
	}
}

func TestTheConnectionOfAStreamIsUsedAgain(t *testing.T) {
	t.Parallel()
	addrs := make(chan string, 3)
	b := setup(t, func(w http.ResponseWriter, r *http.Request) {
		addrs <- r.RemoteAddr
		_, _ = io.WriteString(w, events(say("yes"), end("stop"), done))
		w.(http.Flusher).Flush()
		runtime.Gosched() // the end comes in a packet of its own
	}, streams)
	for range 3 {
		if _, err := b.model.Complete(t.Context(), hello); err != nil {
			t.Fatal(err)
		}
	}
	if a, b, c := <-addrs, <-addrs, <-addrs; a != b || b != c {
		t.Errorf("more connections than one: %s, %s, %s", a, b, c)
	}
}

// TestServersThatKeepTheStreamOpen: the answer is whole, and is not waited for
// until the timeout.
func TestServersThatKeepTheStreamOpen(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, stream string
		then         string // 4 seconds later
		takes        time.Duration
		want         string
	}{
		{"behind [DONE]", events(say("yes"), end("stop"), done), "", 500 * time.Millisecond, "yes"},
		{"comments behind [DONE]", events(say("yes"), end("stop"), done), ": hm\n", 500 * time.Millisecond, "yes"},
		{"behind the finish", events(say("yes"), end("stop")), "", 5 * time.Second, "yes"},
		{"a late usage", events(say("yes"), end("stop")), events(lastUsage), 9 * time.Second, "yes"},
		{"a finish that was none", events(say("yes"), end("stop")), events(say("!")), 14 * time.Second, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				in, out := io.Pipe()
				var server sync.WaitGroup
				defer server.Wait()
				server.Go(func() {
					_, _ = io.WriteString(out, tt.stream)
					time.Sleep(4 * time.Second)
					_, _ = io.WriteString(out, tt.then)
					time.Sleep(10 * time.Second)
					_ = out.CloseWithError(io.ErrUnexpectedEOF)
				})
				start := time.Now()
				got, err := carried(t, in, hello)
				if took := time.Since(start); took != tt.takes {
					t.Errorf("took %s, want %s", took, tt.takes)
				}
				if tt.want == "" {
					if err == nil {
						t.Errorf("a cut answer: %+v", got)
					}
				} else if err != nil || got.Text != tt.want {
					t.Errorf("%+v, %v", got, err)
				}
			})
		})
	}
}

// reading is a request whose answer is read along: each answer that began is an element, with a
// bar between its pieces.
func reading(req models.Request) (*models.Request, func() []string) {
	var began []string
	req.Stream = func() func(string) {
		began = append(began, "")
		return func(text string) { began[len(began)-1] += text + "|" }
	}
	return &req, func() []string { return began }
}

// TestAnswersAreReadAlong: only the text, and each answer that begins anew from its start.
func TestAnswersAreReadAlong(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		answers []string
		began   []string
		want    string
		fails   *models.Error
	}{
		{"text", []string{events(`{"index":0,"delta":{"role":"assistant","content":""}}`, say("Hel"), say("lo"), end("stop"), lastUsage, done)}, []string{"Hel|lo|"}, "Hello", nil},
		{"no reasoning, no calls, no other choices", []string{events(`{"index":0,"delta":{"reasoning_content":"hm"}}`, piece(`{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}`), `{"index":1,"delta":{"content":"no"}}`, say("yes"), end("stop"), done)}, []string{"yes|"}, "yes", nil},
		{"nothing behind the end", []string{events(say("yes"), end("stop"), done, say("no"))}, []string{"yes|"}, "yes", nil},
		{"an answer that is sent whole", []string{completion}, nil, `{"type":"plan"}`, nil},
		{"an answer that breaks off", []string{events(say("Hel")), events(say("Good"), say(" day"), end("stop"), done)}, []string{"Hel|", "Good| day|"}, "Good day", nil},
		{"an error in the middle", []string{events(say("Hel"), `#{"error":{"message":"oh","code":400}}`)}, []string{"Hel|"}, "", &models.Error{Kind: models.BadRequest}},
		{"answers that all break off", []string{events(say("a")), events(say("b"))}, []string{"a|", "b|"}, "", &models.Error{Kind: models.Unavailable}},
		{"a server that refuses to stream", []string{`{"error":{"message":"streaming is not supported"}}`, completion}, nil, `{"type":"plan"}`, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			left := tt.answers
			b := setup(t, func(w http.ResponseWriter, _ *http.Request) {
				next := left[0]
				left = left[1:]
				switch {
				case strings.HasPrefix(next, `{"error"`):
					w.WriteHeader(http.StatusBadRequest)
				case strings.HasPrefix(next, "data:"):
					w.Header().Set("Content-Type", "text/event-stream")
				}
				_, _ = io.WriteString(w, next)
			}, nil)
			req, began := reading(*hello)
			got, err := (&models.Chain{Models: slices.Repeat([]models.Model{b.model}, len(tt.answers)), Retries: -1}).Complete(t.Context(), req)
			if diff := cmp.Diff(tt.began, began()); diff != "" {
				t.Error(diff)
			}
			fault, _ := errors.AsType[*models.Error](err)
			switch {
			case tt.fails != nil:
				if fault == nil || fault.Kind != tt.fails.Kind {
					t.Errorf("%+v, %v", got, err)
				}
			case err != nil || got.Text != tt.want:
				t.Errorf("%+v, %v", got, err)
			}
			asked := <-b.seen
			if asked.Body["stream"] != true || asked.Body["stream_options"] == nil || asked.Header.Get("Accept") != "text/event-stream" {
				t.Errorf("asked %v", asked.Body)
			}
		})
	}
}

// TestARefusalToStreamIsRemembered, and others are still asked for whole answers only.
func TestARefusalToStreamIsRemembered(t *testing.T) {
	t.Parallel()
	b := setup(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept") == "text/event-stream" {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"error":{"message":"this deployment is not allowed to stream"}}`)
			return
		}
		_, _ = io.WriteString(w, completion)
	}, nil)
	along, began := reading(*hello)
	for i, req := range []*models.Request{hello, along, along} {
		if _, err := b.model.Complete(t.Context(), req); err != nil || began() != nil {
			t.Fatalf("call %d: %v, read %q", i, err, began())
		}
	}
	var streamed []any
	for len(b.seen) > 0 {
		streamed = append(streamed, (<-b.seen).Body["stream"])
	}
	if diff := cmp.Diff([]any{false, true, false, false}, streamed); diff != "" {
		t.Error(diff)
	}
}

// TestQuietStreams: the limit is for the first piece and between pieces, not for the whole; the
// server's comments do not count.
func TestQuietStreams(t *testing.T) {
	t.Parallel()
	type part struct {
		after time.Duration
		text  string
	}
	tests := []struct {
		name  string
		parts []part
		takes time.Duration
		want  string
	}{
		{"slow", []part{{110 * time.Second, events(say("a"))}, {110 * time.Second, events(say("b"))}, {110 * time.Second, events(end("stop"), done)}}, 330 * time.Second, "ab"},
		{"reasoning", []part{{110 * time.Second, events(`{"index":0,"delta":{"reasoning_content":"hm"}}`)}, {110 * time.Second, events(say("a"), end("stop"), done)}}, 220 * time.Second, "a"},
		{"no first piece", []part{{130 * time.Second, events(say("a"))}}, 120 * time.Second, ""},
		{"no second piece", []part{{10 * time.Second, events(say("a"))}, {130 * time.Second, events(say("b"))}}, 130 * time.Second, ""},
		{"comments", []part{{10 * time.Second, events(say("a"))}, {110 * time.Second, ": hm\n\n"}, {110 * time.Second, events(end("stop"), done)}}, 130 * time.Second, ""},
		{"byte by byte", slices.Repeat([]part{{10 * time.Second, "d"}}, 100), 120 * time.Second, ""},
		{"without an end", slices.Repeat([]part{{10 * time.Second, events(say("a"))}}, 100), 10 * time.Minute, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				in, out := io.Pipe()
				var server sync.WaitGroup
				defer server.Wait()
				server.Go(func() {
					for _, p := range tt.parts {
						time.Sleep(p.after)
						if _, err := io.WriteString(out, p.text); err != nil {
							return
						}
					}
					_ = out.Close()
				})
				model, err := models.NewOpenAI(models.OpenAIConfig{BaseURL: "http://model/v1", Transport: carrier(func() io.ReadCloser { return in })})
				if err != nil {
					t.Fatal(err)
				}
				start := time.Now()
				req, _ := reading(*hello)
				got, err := model.Complete(t.Context(), req)
				if took := time.Since(start); took.Round(time.Second) != tt.takes {
					t.Errorf("took %s, want %s", took, tt.takes)
				}
				fault, _ := errors.AsType[*models.Error](err)
				if tt.want == "" {
					if fault == nil || fault.Kind != models.Timeout || !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
						t.Errorf("%+v, %v", got, err)
					}
				} else if err != nil || got.Text != tt.want {
					t.Errorf("%+v, %v", got, err)
				}
			})
		})
	}
}

func TestACancelledStreamEndsAtOnce(t *testing.T) {
	t.Parallel()
	gone := make(chan struct{})
	ctx, cancel := context.WithCancelCause(t.Context())
	b := setup(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, events(say("Hel")))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		close(gone)
	}, nil)
	req := *hello
	req.Stream = func() func(string) {
		return func(string) { cancel(errors.New("the person pressed Stop")) }
	}
	if _, err := b.model.Complete(ctx, &req); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	<-gone // the server sees it, too
}

// TestOfflineReadsAlong: its text comes in one piece, and an answer is declared.
func TestOfflineReadsAlong(t *testing.T) {
	t.Parallel()
	for text, typed := range map[string]string{"add milk to groceries": "plan", "what is this": "answer"} {
		req, began := reading(models.Request{Messages: []models.Message{{Role: "user", Text: text}}, Actions: []models.Tool{{
			Name: "addItem", Schema: []byte(`{"type":"object","properties":{"item":{"type":"string"},"list":{"type":"string"}},"required":["item","list"]}`),
			Examples: []string{"add {item} to {list}"},
		}}})
		got, err := models.Offline{}.Complete(t.Context(), req)
		if err != nil || !strings.HasPrefix(got.Text, `{"type":"`+typed+`",`) {
			t.Fatalf("%+v, %v", got, err)
		}
		if diff := cmp.Diff([]string{got.Text + "|"}, began()); diff != "" {
			t.Error(diff)
		}
		req.Stream = nil
		if got, err = (models.Offline{}).Complete(t.Context(), req); err != nil || !strings.HasPrefix(got.Text, `{"type":"plan",`) {
			t.Errorf("%+v, %v", got, err)
		}
	}
}

func FuzzStream(f *testing.F) {
	for _, stream := range []string{
		events(say("Hello"), piece(`{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}`), end("stop"), lastUsage, done),
		events(piece(`{"id":"a","function":{"name":"f","arguments":{"a":1}}},{"function":{"name":"g"}}`), end("tool_calls")),
		events(`{"index":0,"delta":{"function_call":{"name":"f","arguments":"{"}}}`, done),
		"event: error\ndata: {}\n\nerror: x\n: hm\ndata: {\ndata: }\n\n",
	} {
		f.Add([]byte(stream))
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		read := func(in io.Reader) (string, string) {
			req, began := reading(*hello)
			got, err := carried(t, io.NopCloser(in), req)
			if text := strings.ReplaceAll(strings.Join(began(), ""), "|", ""); err == nil && len(began()) > 0 && !bytes.Contains(stream, []byte("refusal")) &&
				!strings.HasSuffix(text, strings.ReplaceAll(got.Text, "|", "")) {
				t.Errorf("read along %q, the answer is %q", text, got.Text)
			}
			return string(mustJSON(t, got)), fmt.Sprint(err)
		}
		got, err := read(strings.NewReader(string(stream)))
		if again, errAgain := read(iotest.OneByteReader(strings.NewReader(string(stream)))); again != got || errAgain != err {
			t.Errorf("in one piece %s, %s; byte by byte %s, %s", got, err, again, errAgain)
		}
		if got == "null" {
			return
		}
		if len(got) > 6*(4<<10)+len(stream) {
			t.Errorf("%d bytes of a stream of %d", len(got), len(stream))
		}
		text := strings.TrimSpace(string(stream))
		if !strings.HasPrefix(text, "{") && !strings.Contains(strings.ToLower(text), "finish_reason") && !strings.Contains(text, "[DONE]") && !strings.Contains(text, `\u`) {
			t.Errorf("an answer without an end: %s", got)
		}
	})
}

// BenchmarkReadStream reads 200 tokens along.
func BenchmarkReadStream(b *testing.B) {
	var chunks []string
	for range 200 {
		chunks = append(chunks, say(" word"))
	}
	chunks = append(chunks, end("stop"), lastUsage, done)
	text := events(chunks...)
	b.ReportAllocs()
	for b.Loop() {
		req, _ := reading(*hello)
		if _, err := carried(b, io.NopCloser(strings.NewReader(text)), req); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*200), "ns/token")
}

// TestWrappedAnswers: gateways put the answer into a member, and an error that says nothing beside it.
func TestWrappedAnswers(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		`{"data":` + completion + `,"success":true}`, `{"result":` + completion + `,"errors":[]}`, `{"a":{"choices":null},"data":` + completion + `}`,
		strings.Replace(completion, "{", `{"error":{},`, 1), strings.Replace(completion, "{", `{"error":"",`, 1), strings.Replace(completion, "{", `{"error":false,`, 1), strings.Replace(completion, "{", `{"error":0,`, 1),
	} {
		b := setup(t, answer(200, body), nil)
		if got, err := b.model.Complete(t.Context(), hello); err != nil || got.Text != `{"type":"plan"}` || got.Usage.Prompt != 812 {
			t.Errorf("%s: %+v, %v", body, got, err)
		}
	}
}
