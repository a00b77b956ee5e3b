package mcp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/mcp"
)

// answering makes a fake with the tool send, whose calls f answers.
func answering(t *testing.T, answer func(f *fake, w http.ResponseWriter, r *http.Request, m message), more ...string) *fake {
	t.Helper()
	f := newFake(t, tool("send", more...))
	f.call = func(w http.ResponseWriter, r *http.Request, m message) { answer(f, w, r, m) }
	return f
}

// hangUp closes the connection of a request.
func hangUp(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err == nil {
		_ = conn.Close()
	}
}

func uncertain(t *testing.T, what string, result actions.Result, err error) {
	t.Helper()
	if !errors.Is(err, actions.ErrUncertain) {
		t.Errorf("%s: got %+v, %v: want that nobody knows", what, result, err)
	}
}

func TestACallIsNotSentAgainOnceBytesWentOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		status := func(code int, media, body string) func(*fake, http.ResponseWriter, *http.Request, message) {
			return func(_ *fake, w http.ResponseWriter, _ *http.Request, _ message) {
				w.Header().Set("Content-Type", media)
				w.Header().Set("Retry-After", "1")
				w.WriteHeader(code)
				fmt.Fprint(w, body)
			}
		}
		for what, answer := range map[string]func(*fake, http.ResponseWriter, *http.Request, message){
			"hangs up":       func(_ *fake, w http.ResponseWriter, _ *http.Request, _ message) { hangUp(w) },
			"503 of a proxy": status(503, "text/html", "<html>busy</html>"),
			"502":            status(502, "text/html", ""),
			"504":            status(504, "text/plain", "late"),
			"500":            status(500, "text/plain", "oops"),
			"html":           status(200, "text/html", "<html>log in</html>"),
			"no JSON":        status(200, "application/json", `{"jsonrpc":`),
			"another id":     status(200, "application/json", `{"jsonrpc":"2.0","id":4711,"result":{"content":[]}}`),
			"torn": func(_ *fake, w http.ResponseWriter, _ *http.Request, m message) {
				w.Header().Set("Content-Type", "application/json")
				w.Header().Set("Content-Length", "500")
				fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}`, m.ID)
				_ = http.NewResponseController(w).Flush()
				hangUp(w)
			},
			"502 with JSON-RPC":          func(f *fake, w http.ResponseWriter, _ *http.Request, m message) { f.refuse(w, m, 502, -32602, "no") },
			"a stream without an answer": status(200, "text/event-stream", ": nothing\n\n"),
			"a task": func(f *fake, w http.ResponseWriter, _ *http.Request, m message) {
				f.result(w, m, `{"resultType":"task","task":{"taskId":"7"}}`)
			},
		} {
			for _, legacy := range []bool{false, true} {
				f := answering(t, answer)
				f.legacy = legacy
				c, _ := connectTo(t, f.URL)
				result, err := call(t, c)
				uncertain(t, what, result, err)
				if n := f.count("tools/call"); n != 1 {
					t.Errorf("%s, legacy %v: %d requests, want 1", what, legacy, n)
				}
				f.saying(`{"content":[{"type":"text","text":"ok"}]}`)
				if result, err := call(t, c); err != nil || result.Text() != "ok" {
					t.Errorf("%s, legacy %v: the next call: %+v, %v", what, legacy, result, err)
				}
			}
		}
	})
}

func TestACallOfAProcessThatDiedIsNotMadeAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for trust, want := range map[bool]int{false: 0, true: 1} {
			f := newFake(t, tool("send", `,"annotations":{"idempotentHint":true}`))
			c, _ := connectTo(t, f.URL, func(cfg *mcp.Config) { cfg.Rules.Trust = trust })
			offered(t, c)
			result, err := run(actions.Attempt{Key: "k", Again: true}.Context(t.Context()), t, c, "svc_send", nil)
			if n := f.count("tools/call"); n != want {
				t.Errorf("trust %v: %d requests, want %d", trust, n, want)
			}
			if !trust {
				uncertain(t, "again", result, err)
				continue
			}
			if err != nil || result.Text() != "ok" {
				t.Errorf("got %+v, %v", result, err)
			}
			f.mu.Lock()
			last := f.seen[len(f.seen)-1]
			f.mu.Unlock()
			if last.Params.Meta["planbot/attempt"] != "k" {
				t.Errorf("the server got no key of the attempt: %v", last.Params.Meta)
			}
		}
	})
}

func TestWhatTheOperatorTrustsToBeRepeatableIsRepeated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for hint, want := range map[string]int{"idempotentHint": 2, "readOnlyHint": 2, "openWorldHint": 1} {
			for _, trust := range []bool{false, true} {
				calls := atomic.Int32{}
				f := answering(t, func(f *fake, w http.ResponseWriter, _ *http.Request, m message) {
					if calls.Add(1) == 1 {
						hangUp(w)
						return
					}
					f.result(w, m, `{"content":[{"type":"text","text":"second"}]}`)
				}, `,"annotations":{"`+hint+`":true}`)
				c, _ := connectTo(t, f.URL, func(cfg *mcp.Config) { cfg.Rules.Trust = trust })
				result, err := call(t, c)
				if !trust || want == 1 {
					uncertain(t, hint, result, err)
					if n := f.count("tools/call"); n != 1 {
						t.Errorf("%s, trust %v: %d requests", hint, trust, n)
					}
					continue
				}
				if err != nil || result.Text() != "second" || f.count("tools/call") != want {
					t.Errorf("%s: got %+v, %v after %d requests", hint, result, err, f.count("tools/call"))
				}
			}
		}
	})
}

// A tool that may be repeated may have been done all the same.
func TestWhatIsRepeatedInVain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for hint, failed := range map[string]bool{"idempotentHint": false, "readOnlyHint": true} {
			f := answering(t, func(_ *fake, w http.ResponseWriter, _ *http.Request, _ message) { hangUp(w) }, `,"annotations":{"`+hint+`":true}`)
			inVain := func(c *mcp.Connection) {
				result, err := call(t, c)
				if !failed {
					uncertain(t, hint, result, err)
				} else if err != nil || !result.Failed() || !strings.Contains(result.Text(), "did not answer") {
					t.Errorf("%s: got %+v, %v", hint, result, err)
				}
			}
			c, _ := connectTo(t, f.URL, func(cfg *mcp.Config) { cfg.Rules.Trust = true })
			inVain(c)
			if n := f.count("tools/call"); n != 3 {
				t.Errorf("%s: %d requests, want 3", hint, n)
			}

			// The server is busy when the call is repeated: that says nothing about the first time.
			calls := atomic.Int32{}
			busy := answering(t, func(f *fake, w http.ResponseWriter, _ *http.Request, m message) {
				if calls.Add(1) == 1 {
					hangUp(w)
					return
				}
				f.refuse(w, m, 503, -32000, "busy")
			}, `,"annotations":{"`+hint+`":true}`)
			c, _ = connectTo(t, busy.URL, func(cfg *mcp.Config) { cfg.Rules.Trust = true })
			inVain(c)

			// The server is away when the call is to be repeated.
			gone := answering(t, func(f *fake, w http.ResponseWriter, _ *http.Request, _ message) {
				f.set(func() {
					f.front = func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(http.StatusBadGateway); return true }
				})
				hangUp(w)
			}, `,"annotations":{"`+hint+`":true}`)
			c, _ = connectTo(t, gone.URL, func(cfg *mcp.Config) { cfg.Rules.Trust = true })
			inVain(c)
		}
	})
}

func TestLoadShedding(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, status := range []int{429, 503} {
			calls, times := atomic.Int32{}, make(chan time.Time, 9)
			f := answering(t, func(f *fake, w http.ResponseWriter, _ *http.Request, m message) {
				times <- time.Now()
				if calls.Add(1) == 1 {
					w.Header().Set("Retry-After", "1")
					f.refuse(w, m, status, -32000, "busy")
					return
				}
				f.result(w, m, `{"content":[{"type":"text","text":"second"}]}`)
			})
			c, _ := connectTo(t, f.URL)
			result, err := call(t, c)
			if err != nil || result.Text() != "second" || f.count("tools/call") != 2 {
				t.Fatalf("%d: got %+v, %v after %d requests", status, result, err, f.count("tools/call"))
			}
			if first, second := <-times, <-times; second.Sub(first) < time.Second {
				t.Errorf("%d: sent again after %s", status, second.Sub(first))
			}
		}
		f := answering(t, func(f *fake, w http.ResponseWriter, _ *http.Request, m message) {
			w.Header().Set("Retry-After", "3600")
			f.refuse(w, m, 503, -32000, "busy")
		})
		c, _ := connectTo(t, f.URL)
		if result, err := call(t, c); err != nil || !result.Failed() || f.count("tools/call") != 1 {
			t.Errorf("got %+v, %v after %d requests", result, err, f.count("tools/call"))
		}
	})
}

func TestAKeyThatIsNoLongerGood(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, legacy := range []bool{false, true} {
			f := newFake(t, tool("send"))
			f.legacy = legacy
			c, _ := connectTo(t, f.URL)
			offered(t, c)
			both := make(chan struct{})
			arrived := atomic.Int32{}
			f.set(func() {
				f.call = func(w http.ResponseWriter, _ *http.Request, _ message) {
					if arrived.Add(1) == 2 {
						close(both)
					}
					<-both
					w.WriteHeader(http.StatusUnauthorized)
				}
			})
			var all sync.WaitGroup
			for i := range 2 {
				all.Go(func() {
					a, _ := c.Actions().Lookup("svc_send")
					result, err := a.Call(t.Context(), turnOf(t, fmt.Sprint(i)), map[string]any{})
					if err != nil || !result.Failed() || !strings.Contains(result.Text(), "does not allow") {
						t.Errorf("got %+v, %v", result, err)
					}
				})
			}
			all.Wait()
			connects := map[bool]string{false: "server/discover", true: "initialize"}[legacy]
			before := f.count(connects)
			for range 4 {
				all.Go(func() { offered(t, c) })
			}
			all.Wait()
			if n := f.count(connects) - before; n != 1 || f.count("tools/call") != 2 {
				t.Errorf("legacy %v: connected %d times, want once; %d calls", legacy, n, f.count("tools/call"))
			}
		}
	})
}

func TestACallThatTakesTooLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, legacy := range []bool{false, true} {
			cancelled := make(chan struct{})
			f := answering(t, func(_ *fake, _ http.ResponseWriter, r *http.Request, _ message) {
				select {
				case <-r.Context().Done():
					close(cancelled)
				case <-time.After(20 * time.Second):
				}
			})
			f.legacy = legacy
			c, _ := connectTo(t, f.URL, func(cfg *mcp.Config) { cfg.Timeouts = map[string]time.Duration{"send": time.Second} })
			offered(t, c)
			began := time.Now()
			result, err := run(t.Context(), t, c, "svc_send", nil)
			uncertain(t, "late", result, err)
			if took := time.Since(began); took < 700*time.Millisecond || took > 10*time.Second {
				t.Errorf("it took %s", took)
			}
			select {
			case <-cancelled:
			case <-time.After(10 * time.Second):
				t.Error("the server was not told")
			}
		}
	})
}

func TestAnAnswerThatCannotBeRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const done = "This was done, but its answer could not be read."
		big := func(media, before string) func(*fake, http.ResponseWriter, *http.Request, message) {
			return func(_ *fake, w http.ResponseWriter, _ *http.Request, m message) {
				w.Header().Set("Content-Type", media)
				fmt.Fprintf(w, `%s{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"`, before, m.ID)
				for range 9 << 10 {
					if _, err := fmt.Fprint(w, strings.Repeat("x", 1<<10)); err != nil {
						return
					}
				}
				fmt.Fprint(w, `"}]}}`+"\n\n")
			}
		}
		for what, answer := range map[string]func(*fake, http.ResponseWriter, *http.Request, message){
			"9 MiB":             big("application/json", ""),
			"9 MiB in a stream": big("text/event-stream", "id: 1\ndata:\n\ndata: "),
			"a hologram": func(f *fake, w http.ResponseWriter, _ *http.Request, m message) {
				f.result(w, m, `{"content":[{"type":"text","text":"a"},{"type":"hologram","data":"x"}]}`)
			},
			"another form": func(f *fake, w http.ResponseWriter, _ *http.Request, m message) {
				f.result(w, m, `{"content":[{"type":"text","text":"a","resource":[]}]}`)
			},
		} {
			f := answering(t, answer)
			c, _ := connectTo(t, f.URL)
			result, err := call(t, c)
			if err != nil || result.Text() != done || result.Failed() || f.count("tools/call") != 1 {
				t.Errorf("%s: got %.200q, %v after %d requests", what, result.Text(), err, f.count("tools/call"))
			}
		}
	})
}

func TestManyNotificationsBeforeAnAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := answering(t, func(_ *fake, w http.ResponseWriter, _ *http.Request, m message) {
			w.Header().Set("Content-Type", "text/event-stream")
			note := "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"info\",\"data\":\"" + strings.Repeat("x", 100<<10) + "\"}}\n\n"
			for range 100 {
				fmt.Fprint(w, note)
			}
			fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"at last\"}]}}\n\n", m.ID)
		})
		c, _ := connectTo(t, f.URL)
		if result, err := call(t, c); err != nil || result.Text() != "at last" {
			t.Errorf("got %.100q, %v", result.Text(), err)
		}
	})
}

// A session that has to go waits for the calls of others.
func TestACallSurvivesTheEndOfItsSession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slow, refused := make(chan struct{}), make(chan struct{})
		calls := atomic.Int32{}
		f := answering(t, func(f *fake, w http.ResponseWriter, _ *http.Request, m message) {
			if calls.Add(1) == 1 {
				close(slow)
				<-refused
				f.result(w, m, `{"content":[{"type":"text","text":"ok"}]}`)
				return
			}
			w.WriteHeader(http.StatusUnauthorized)
		})
		f.legacy = true
		c, _ := connectTo(t, f.URL)
		offered(t, c)
		a, _ := c.Actions().Lookup("svc_send")
		ended := make(chan error, 1)
		go func() {
			result, err := a.Call(t.Context(), turnOf(t, "ada"), map[string]any{})
			if err == nil && result.Text() != "ok" {
				err = errors.New(result.Text())
			}
			ended <- err
		}()
		<-slow
		if result, err := run(t.Context(), t, c, "svc_send", nil); err != nil || !result.Failed() {
			t.Errorf("got %+v, %v", result, err)
		}
		offered(t, c) // over another session
		if n := f.count("DELETE"); n != 0 {
			t.Errorf("the session was ended during a call")
		}
		close(refused)
		if err := <-ended; err != nil {
			t.Error(err)
		}
		eventually(t, "the session is ended", func() bool { return f.count("DELETE") == 1 })
	})
}

func TestAServerThatDoesNotLetUsListen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, legacy := range []bool{false, true} {
			f := newFake(t, tool("send"))
			f.legacy = legacy
			f.front = func(_ http.ResponseWriter, r *http.Request) bool {
				if r.Method != http.MethodGet && r.Header.Get("Mcp-Method") != "subscriptions/listen" {
					return false
				}
				select {
				case <-r.Context().Done():
				case <-f.gone:
				}
				return true
			}
			c, _ := connectTo(t, f.URL)
			if result, err := call(t, c); err != nil || result.Text() != "ok" {
				t.Errorf("legacy %v: got %+v, %v", legacy, result, err)
			}
		}
	})
}

// It is alone, because it measures memory, and on a socket, which holds less than a connection in memory.
func TestALargeAnswerTakesLittleMemory(t *testing.T) { //nolint:paralleltest // see above
	f := answering(t, func(_ *fake, w http.ResponseWriter, _ *http.Request, m message) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"`, m.ID)
		part := strings.Repeat("x", 64<<10)
		for range 9 << 4 {
			if _, err := io.WriteString(w, part); err != nil {
				return
			}
		}
		fmt.Fprint(w, `"}]}}`)
	})
	socket := httptest.NewServer(f)
	t.Cleanup(socket.Close)
	c, _ := connectTo(t, socket.URL)
	c.DialWith((&net.Dialer{}).DialContext)
	offered(t, c)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	if _, err := run(t.Context(), t, c, "svc_send", nil); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 20<<20 {
		t.Errorf("it allocated %d MiB", grown>>20)
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for what, c := range map[string]struct {
			status, code int
			want         string // of a failure; "": an error for the operator
		}{
			"bad parameters": {200, -32602, "to: is no address"},
			"no such method": {404, -32601, ""},
			"internal":       {200, -32603, ""},
			"wants input":    {400, -32021, "asks the person"},
			"wants a link":   {200, -32042, "asks the person"},
		} {
			f := answering(t, func(f *fake, w http.ResponseWriter, _ *http.Request, m message) {
				f.refuse(w, m, c.status, c.code, "to: is no address")
			})
			conn, _ := connectTo(t, f.URL)
			result, err := call(t, conn)
			switch {
			case f.count("tools/call") != 1:
				t.Errorf("%s: %d requests", what, f.count("tools/call"))
			case c.want == "" && (err == nil || errors.Is(err, actions.ErrUncertain) || !strings.Contains(err.Error(), "to: is no address")):
				t.Errorf("%s: got %+v, %v, want an error", what, result, err)
			case c.want != "" && (err != nil || !result.Failed() || !strings.Contains(result.Text(), c.want)):
				t.Errorf("%s: got %+v, %v", what, result, err)
			}
		}
		for _, status := range []int{400, 403, 405} {
			f := answering(t, func(_ *fake, w http.ResponseWriter, _ *http.Request, _ message) { w.WriteHeader(status) })
			conn, _ := connectTo(t, f.URL)
			result, err := call(t, conn)
			if errors.Is(err, actions.ErrUncertain) || err == nil && !result.Failed() || f.count("tools/call") != 1 {
				t.Errorf("%d: got %+v, %v", status, result, err)
			}
		}
	})
}

func TestInputThatTheServerAsksFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := answering(t, asking(`{"reason":{"type":"string"}}`, `{"content":[{"type":"text","text":"closed"}]}`))
		c, _ := connectTo(t, f.URL)
		offered(t, c)
		first, err := run(actions.Attempt{Key: "k", MayAsk: true}.Context(t.Context()), t, c, "svc_send", map[string]any{"to": "x"})
		form, state := first.Asks()
		if err != nil || form == nil || form.Text != "Why?" || len(form.Fields) != 1 {
			t.Fatalf("got %+v, %v", first, err)
		}
		answer := &actions.Answer{Values: map[string]any{form.Fields[0].Name: "because"}, State: state}
		second, err := run(actions.Attempt{Key: "k", MayAsk: true, Answer: answer}.Context(t.Context()), t, c, "svc_send", map[string]any{"to": "x"})
		if err != nil || second.Text() != "closed" {
			t.Errorf("got %+v, %v", second, err)
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		calls := slices.DeleteFunc(slices.Clone(f.seen), func(m message) bool { return m.Method != "tools/call" })
		if len(calls) != 2 || calls[0].Params.State != "" || len(calls[0].Params.Answers) != 0 || bytes.Equal(calls[0].ID, calls[1].ID) ||
			calls[1].Params.State != "s" || string(calls[1].Params.Answers) != `{"1":{"action":"accept","content":{"reason":"because"}}}` || string(calls[1].Params.Arguments) != `{"to":"x"}` {
			t.Errorf("the server saw %+v", calls)
		}
		for _, m := range calls {
			if raw, _ := json.Marshal(m.Params.Meta["io.modelcontextprotocol/clientCapabilities"]); string(raw) != `{"elicitation":{"form":{}}}` {
				t.Errorf("claims to be able to %s", raw)
			}
		}
	})
}

// asking answers a call with a question, and with the result once the question is answered or declined.
func asking(properties, result string) func(f *fake, w http.ResponseWriter, _ *http.Request, m message) {
	return func(f *fake, w http.ResponseWriter, _ *http.Request, m message) {
		if m.Params.State == "s" && len(m.Params.Answers) > 0 && result != "" {
			f.result(w, m, result)
			return
		}
		f.result(w, m, `{"resultType":"input_required","inputRequests":{"1":{"method":"elicitation/create","params":{"message":"Why?","requestedSchema":{"type":"object","properties":`+properties+`}}}},"requestState":"s"}`)
	}
}

// TestInputThatIsDeclined: the server is told, and the model learns what cannot be asked for.
func TestInputThatIsDeclined(t *testing.T) {
	t.Parallel()
	const secret, flat = `{"password":{"type":"string"}}`, `{"reason":{"type":"string"}}`
	for name, tt := range map[string]struct {
		properties, result string
		mayAsk             bool
		sent, says         string
		failed             bool
		calls              int
	}{
		"a secret":           {secret, `{"content":[{"type":"text","text":"closed"}]}`, true, "decline", "closed\nsvc asked the person for a secret. Nothing secret is asked for with cards, so it was declined.", false, 2},
		"a secret, or not":   {secret, `{"isError":true,"content":[{"type":"text","text":"no"}]}`, true, "decline", "svc asked the person for a secret. Nothing secret is asked for with cards, so it was declined. no", true, 2},
		"a secret, always":   {secret, "", true, "decline", "svc asked the person for a secret. Nothing secret is asked for with cards, so it was declined. It was not done.", true, 2},
		"a list":             {`{"x":{"type":"array"}}`, `{"structuredContent":{"a":1},"content":[]}`, true, "decline", `{"a":1}`, false, 2},
		"nobody to be asked": {flat, `{"content":[{"type":"text","text":"closed"}]}`, false, "cancel", "closed", false, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := answering(t, asking(tt.properties, tt.result))
				c, _ := connectTo(t, f.URL)
				offered(t, c)
				result, err := run(actions.Attempt{MayAsk: tt.mayAsk}.Context(t.Context()), t, c, "svc_send", map[string]any{"to": "x"})
				if err != nil || result.Failed() != tt.failed || result.Text() != tt.says || f.count("tools/call") != tt.calls {
					t.Errorf("got %q, %v after %d calls, want %q", result.Text(), err, f.count("tools/call"), tt.says)
				}
				f.mu.Lock()
				defer f.mu.Unlock()
				if last := f.seen[len(f.seen)-1]; string(last.Params.Answers) != `{"1":{"action":"`+tt.sent+`"}}` {
					t.Errorf("the server was told %s", last.Params.Answers)
				}
			})
		})
	}
}

func TestAServerThatIsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, tool("send"))
		c, log := connectTo(t, f.URL)
		offered(t, c)
		f.stop()
		// A connection that was open may still take a call in.
		if result, err := run(t.Context(), t, c, "svc_send", nil); err == nil && !result.Failed() {
			t.Errorf("got %+v, %v", result, err)
		}
		result, err := run(t.Context(), t, c, "svc_send", nil)
		if err != nil || !result.Failed() || !strings.Contains(result.Text(), "Nothing was done") {
			t.Errorf("got %+v, %v", result, err)
		}
		for range 20 {
			names, note := c.Offer(t.Context(), turnOf(t, "ada"))
			if len(names) != 0 || !strings.Contains(note, "svc is away") {
				t.Fatalf("offered %v, said %q", names, note)
			}
		}
		for range 3 { // operators do not wait
			if _, err := c.List(t.Context()); err == nil {
				t.Error("operators are not told")
			}
		}
		if n := strings.Count(log.String(), "is away"); n != 1 {
			t.Errorf("%d lines in the log, want 1", n)
		}
		if _, ok := c.Actions().Lookup("svc_send"); !ok {
			t.Error("a plan that waits no longer finds its action")
		}
	})
}

func TestAServerThatIsAwayIsLeftAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, tool("send"))
		f.front = func(w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(http.StatusInternalServerError)
			return true
		}
		c, _ := connectTo(t, f.URL)
		for range 20 {
			if names := offered(t, c); len(names) != 0 {
				t.Fatalf("offered %v", names)
			}
		}
		if n := f.count("server/discover"); n != 1 {
			t.Errorf("it was asked %d times", n)
		}
		f.set(func() { f.front = nil })
		eventually(t, "it is back", func() bool { return len(offered(t, c)) == 1 })
	})
}

// Turns do not wait again and again for a server that takes requests and does not answer.
func TestAServerThatHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, tool("send"))
		f.front = func(w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(http.StatusInternalServerError)
			return true
		}
		c, _ := connectTo(t, f.URL)
		offered(t, c)
		f.set(func() {
			f.front = func(_ http.ResponseWriter, r *http.Request) bool {
				select {
				case <-r.Context().Done():
				case <-f.gone:
				}
				return true
			}
		})
		asked := f.count("server/discover")
		eventually(t, "it is tried again", func() bool {
			began := time.Now()
			if names := offered(t, c); len(names) != 0 {
				t.Fatalf("offered %v", names)
			}
			if took := time.Since(began); took > 5*time.Second {
				t.Fatalf("a turn waited for %s", took)
			}
			return f.count("server/discover") > asked
		})
	})
}

func TestRedirects(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reached := atomic.Int32{}
		other := serve(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
		t.Cleanup(other.Close)
		host := strings.TrimPrefix(other.URL, "http://")
		f := newFake(t, tool("send"))
		redirect := func(w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, other.URL+"/elsewhere", http.StatusTemporaryRedirect)
			return true
		}
		withKey := func(cfg *mcp.Config) {
			cfg.Header = http.Header{"Authorization": {"Bearer s3cret"}, "x-key": {"s3cret"}}
		}
		c, _ := connectTo(t, f.URL, withKey)
		offered(t, c)
		f.set(func() { f.front = redirect })
		result, err := run(t.Context(), t, c, "svc_send", nil)
		if err == nil || !strings.Contains(err.Error(), host) || errors.Is(err, actions.ErrUncertain) {
			t.Errorf("got %+v, %v, want the host", result, err)
		}
		fresh, log := connectTo(t, f.URL, withKey)
		if names := offered(t, fresh); len(names) != 0 {
			t.Errorf("offered %v", names)
		}
		if _, err := fresh.List(t.Context()); err == nil || !strings.Contains(err.Error(), host) {
			t.Errorf("operators read %v, want the host", err)
		}
		if reached.Load() != 0 {
			t.Error("the other host was reached")
		}
		if strings.Contains(log.String(), "s3cret") {
			t.Error("the log has the key")
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		for i, h := range f.headers {
			if h.Get("X-Key") != "s3cret" || h.Get("Authorization") != "Bearer s3cret" {
				t.Errorf("%s came without the key", f.seen[i].Method)
			}
		}
	})
}

func TestCallsAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var now, most atomic.Int32
		enough := make(chan struct{})
		f := answering(t, func(f *fake, w http.ResponseWriter, _ *http.Request, m message) {
			n := now.Add(1)
			for have := most.Load(); n > have && !most.CompareAndSwap(have, n); have = most.Load() {
			}
			<-enough
			now.Add(-1)
			f.result(w, m, `{"content":[{"type":"text","text":"ok"}]}`)
		})
		c, _ := connectTo(t, f.URL)
		offered(t, c)
		a, _ := c.Actions().Lookup("svc_send")
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				if result, err := a.Call(t.Context(), turnOf(t, fmt.Sprint(i/4)), map[string]any{}); err != nil || result.Text() != "ok" {
					t.Errorf("got %+v, %v", result, err)
				}
			})
		}
		eventually(t, "8 calls are under way", func() bool { return now.Load() == 8 })
		close(enough)
		all.Wait()
		if most.Load() != 8 {
			t.Errorf("%d calls at a time", most.Load())
		}

		enough = make(chan struct{})
		now.Store(0)
		most.Store(0)
		for range 4 {
			all.Go(func() { _, _ = a.Call(t.Context(), turnOf(t, "one"), map[string]any{}) })
		}
		eventually(t, "2 calls of a person are under way", func() bool { return now.Load() == 2 })
		close(enough)
		all.Wait()
		if most.Load() != 2 {
			t.Errorf("%d calls of a person at a time", most.Load())
		}
	})
}

func TestCloseEndsCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun := make(chan struct{})
		f := answering(t, func(f *fake, _ http.ResponseWriter, r *http.Request, _ message) {
			close(begun)
			select {
			case <-r.Context().Done():
			case <-f.gone:
			}
		})
		c, _ := connectTo(t, f.URL)
		offered(t, c)
		ended := make(chan error, 1)
		a, _ := c.Actions().Lookup("svc_send")
		go func() {
			_, err := a.Call(context.WithoutCancel(t.Context()), turnOf(t, "ada"), map[string]any{})
			ended <- err
		}()
		<-begun
		c.Close()
		if err := <-ended; !errors.Is(err, actions.ErrUncertain) {
			t.Errorf("got %v", err)
		}
		if names := offered(t, c); slices.Contains(names, "svc_send") {
			t.Error("a closed connection offers")
		}
	})
}

// TestNothingAndNull: what a tool may get empty or null it gets so, and what nobody named it does not get.
func TestNothingAndNull(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, `{"name":"send","inputSchema":{"type":"object","required":["content","cursor"],"properties":{
		"content":{"type":"string"},"cursor":{"anyOf":[{"type":"string"},{"type":"null"}]},
		"assignee":{"type":["string","null"]},"milestone":{"nullable":true,"allOf":[{"type":"integer"}]},"note":{"type":"string"}}}}`)
		got := make(chan string, 1)
		f.call = func(w http.ResponseWriter, _ *http.Request, m message) {
			got <- string(m.Params.Arguments)
			f.result(w, m, `{"content":[{"type":"text","text":"ok"}]}`)
		}
		c, _ := connectTo(t, f.URL)
		offered(t, c)
		for entities, want := range map[string]string{
			`{"content":"","cursor":null}`:                                             `{"content":"","cursor":null}`,
			`{"content":"x","cursor":"","assignee":null,"milestone":null,"note":null}`: `{"assignee":null,"content":"x","cursor":"","milestone":null}`,
		} {
			var given map[string]any
			if err := json.Unmarshal([]byte(entities), &given); err != nil {
				t.Fatal(err)
			}
			if result, err := run(t.Context(), t, c, "svc_send", given); err != nil || result.Failed() {
				t.Fatalf("%s: %v, %v", entities, result, err)
			}
			if sent := <-got; sent != want {
				t.Errorf("%s: sent %s", entities, sent)
			}
		}
	})
}
