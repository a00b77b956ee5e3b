package mcp_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/mcp"
)

func TestTimesToRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // when bubbles begin
	for after, calls := range map[string]int{
		"99999999999": 1, "99999999999999999999999": 1, "3600": 1, "11": 1, "0": 3, "-1": 3, "soon": 3,
		now.Add(time.Hour).Format(http.TimeFormat):  1,
		now.Add(-time.Hour).Format(http.TimeFormat): 3,
	} {
		t.Run(after, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFake(t, tool("send"))
				f.call = func(w http.ResponseWriter, _ *http.Request, m message) {
					w.Header().Set("Retry-After", after)
					f.refuse(w, m, http.StatusTooManyRequests, -32000, "busy")
				}
				c, _ := connectTo(t, f.URL)
				if result, err := call(t, c); err != nil || !result.Failed() || f.count("tools/call") != calls {
					t.Errorf("got %+v, %v after %d calls, want %d", result, err, f.count("tools/call"), calls)
				}
			})
		})
	}
}

// A server that wants to speak something else keeps the connection open.
func TestAServerThatSwitchesProtocols(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, tool("send"))
		f.call = func(w http.ResponseWriter, _ *http.Request, _ message) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				return
			}
			defer conn.Close()
			fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
			<-f.gone
		}
		c, _ := connectTo(t, f.URL, func(cfg *mcp.Config) { cfg.CallTimeout = time.Second })
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, err := call(t, c)
			if !errors.Is(err, actions.ErrUncertain) {
				t.Errorf("got %v", err)
			}
		}()
		select {
		case <-done:
		case <-time.After(8 * time.Second):
			t.Error("the call goes on")
			f.stop()
			<-done
		}
	})
}

func TestANameThatALargeToolHasToo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, tool("send"), tool("send", `,"x":"`+strings.Repeat("x", 65<<10)+`"`), tool("other"))
		c, _ := connectTo(t, f.URL)
		if names := offered(t, c); !slices.Equal(names, []string{"svc_other"}) {
			t.Errorf("offered %v", names)
		}
	})
}

func TestASessionThatTheServerHasForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for body, status := range map[string]int{
			"404 page not found": 404,
			`{"jsonrpc":"2.0","error":{"code":-32001,"message":"Session not found"},"id":null}`:                         404,
			`{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: No valid session ID provided"},"id":null}`: 400,
		} {
			f := newFake(t, tool("send"))
			f.legacy = true
			c, _ := connectTo(t, f.URL)
			offered(t, c)
			f.set(func() {
				f.front = func(w http.ResponseWriter, r *http.Request) bool {
					if r.Header.Get("Mcp-Session-Id") != "s1" {
						return false
					}
					if body[0] == '{' {
						w.Header().Set("Content-Type", "application/json")
					}
					w.WriteHeader(status)
					fmt.Fprint(w, body)
					return true
				}
			})
			result, err := run(t.Context(), t, c, "svc_send", nil)
			if err != nil || !result.Failed() || !strings.Contains(result.Text(), "not done") {
				t.Errorf("%d %s: got %+v, %v", status, body, result, err)
			}
			if result, err = call(t, c); err != nil || result.Text() != "ok" || f.count("initialize") != 2 {
				t.Errorf("%d %s: got %+v, %v after %d connects", status, body, result, err, f.count("initialize"))
			}
		}
	})
}

func TestAFailureThatCannotBeRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, content := range []string{`{"type":"text","text":"boom"}`, `"boom"`, `[{"type":"text","text":7}]`, `["boom"]`} {
			f := newFake(t, tool("send"))
			f.saying(`{"isError":true,"content":` + content + `}`)
			c, _ := connectTo(t, f.URL)
			if result, err := call(t, c); err != nil || !result.Failed() {
				t.Errorf("%s: got %q, %v", content, result.Text(), err)
			}
		}
	})
}

func TestSchemasThatReferToThemselves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, schema := range []string{
			`{"$ref":"#"}`,
			`{"type":"object","$ref":"#"}`,
			`{"type":"object","allOf":[{"$ref":"#"}]}`,
			`{"type":"object","anyOf":[{"$ref":"#"}]}`,
			`{"type":"object","properties":{"a":{"$ref":"#/$defs/a"}},"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}}`,
			`{"type":"object","properties":{"a":{"$ref":"#/$defs/a"}},"$defs":{"a":{"type":"object","properties":{"a":{"$ref":"#/$defs/a"}}}}}`,
			`{"type":"object","properties":{"a":{"$ref":"#/properties/a"}}}`,
			`{"type":"object","properties":{"a":{"not":{"$ref":"#"}}}}`,
			`{"type":"object","$dynamicRef":"#"}`,
			`{"$id":"file:///etc/passwd","type":"object","properties":{"a":{"$ref":"#"}}}`,
			`{"$id":"http://evil.test/","type":"object","properties":{"a":{"$ref":"x"}}}`,
			`{"type":"object","properties":{"a":{"$ref":"file:///etc/hostname"}}}`,
			`{"$schema":"http://evil.test/x","type":"object"}`,
		} {
			f := newFake(t,
				`{"name":"in","inputSchema":`+schema+`}`,
				`{"name":"out","inputSchema":{"type":"object"},"outputSchema":`+schema+`}`)
			f.saying(`{"content":[],"structuredContent":{"a":{"a":{}}}}`)
			c, _ := connectTo(t, f.URL)
			for _, name := range offered(t, c) {
				a, _ := c.Actions().Lookup(name)
				checked, err := a.Check(map[string]any{"a": map[string]any{"a": map[string]any{}}})
				if err != nil {
					continue
				}
				if _, err := a.Call(t.Context(), turnOf(t, "ada"), checked); err != nil {
					t.Errorf("%s: %s: %v", schema, name, err)
				}
			}
		}
	})
}

func TestARedirectWithAnAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, status := range []int{300, 301, 302, 303, 304, 305, 307, 308, 399} {
			for _, body := range []string{"", `{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"go away"}}`, `{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}`} {
				if status == 304 && body != "" {
					continue
				}
				f := newFake(t, tool("send"))
				f.call = func(w http.ResponseWriter, _ *http.Request, m message) {
					w.Header().Set("Content-Type", "application/json")
					w.Header().Set("Location", "https://evil.test/x")
					w.WriteHeader(status)
					if body != "" {
						fmt.Fprintf(w, body, m.ID)
					}
				}
				c, _ := connectTo(t, f.URL)
				result, err := call(t, c)
				if err == nil || !strings.Contains(err.Error(), "evil.test") || errors.Is(err, actions.ErrUncertain) || f.count("tools/call") != 1 {
					t.Errorf("%d %s: got %q, %v", status, body, result.Text(), err)
				}
			}
		}
	})
}

func TestDiscoverThatOlderServersRefuse(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]struct {
		status int
		media  string
		body   string
	}{
		"404 page":   {404, "text/html", "<html>"},
		"405":        {405, "", ""},
		"406":        {406, "text/plain", "Not Acceptable"},
		"415":        {415, "text/plain", ""},
		"422":        {422, "application/json", `{"detail":"x"}`},
		"500":        {500, "text/plain", "boom"},
		"400 -32000": {400, "application/json", `{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: Server not initialized"},"id":null}`},
		"400 -32600": {400, "application/json", `{"jsonrpc":"2.0","error":{"code":-32600,"message":"Bad Request: Missing session ID"},"id":"server-error"}`},
		"400 -32602": {400, "application/json", `{"jsonrpc":"2.0","error":{"code":-32602,"message":"Invalid request parameters"},"id":1}`},
		"404 -32001": {404, "application/json", `{"jsonrpc":"2.0","error":{"code":-32001,"message":"Session not found"},"id":null}`},
		"200 -32601": {200, "application/json", `{"jsonrpc":"2.0","error":{"code":-32601,"message":"Method not found"},"id":1}`},
		"200 -32602": {200, "application/json", `{"jsonrpc":"2.0","error":{"code":-32602,"message":"Invalid request parameters"},"id":1}`},
		"200 page":   {200, "text/html", "<html>"},
		"202":        {202, "", ""},
		"sse -32601": {200, "text/event-stream", "event: message\ndata: {\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32601,\"message\":\"Method not found\"},\"id\":1}\n\n"},
		"sse empty":  {200, "text/event-stream", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFake(t, tool("send"))
				f.legacy = true
				f.front = func(w http.ResponseWriter, r *http.Request) bool {
					if r.Header.Get("Mcp-Method") != "server/discover" {
						return false
					}
					if answer.media != "" {
						w.Header().Set("Content-Type", answer.media)
					}
					w.WriteHeader(answer.status)
					fmt.Fprint(w, answer.body)
					return true
				}
				c, _ := connectTo(t, f.URL)
				if names := offered(t, c); len(names) != 1 || f.count("initialize") != 1 {
					t.Errorf("offered %v after %d handshakes", names, f.count("initialize"))
				}
			})
		})
	}
}

func TestNamesThatAreAlmostTheSame(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, tool("send"), tool("Send"), tool("SEND"), tool("create_issue"), tool("create-issue"), tool("create.issue"), tool("create_issue_"))
		f.call = func(w http.ResponseWriter, _ *http.Request, m message) {
			f.result(w, m, `{"content":[{"type":"text","text":"`+m.Params.Name+`"}]}`)
		}
		c, _ := connectTo(t, f.URL)
		names := offered(t, c)
		if len(names) != 7 {
			t.Errorf("offered %v", names)
		}
		for _, name := range names {
			a, ok := c.Actions().Lookup(name)
			if !ok || a.Name != name {
				t.Fatalf("%s: found %+v", name, a)
			}
			result, err := run(t.Context(), t, c, name, nil)
			if err != nil || result.Text() != a.Source.Remote {
				t.Errorf("%s called %s, %v", name, result.Text(), err)
			}
		}
	})
}

func TestASecretWithData(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := answering(t, asking(`{"password":{"type":"string"}}`, `{"structuredContent":{"a":1},"content":[]}`))
		c, _ := connectTo(t, f.URL)
		offered(t, c)
		result, err := run(actions.Attempt{MayAsk: true}.Context(t.Context()), t, c, "svc_send", nil)
		if err != nil || result.Text() != `{"a":1}` || len(result.Cards()) != 1 || !strings.Contains(result.Cards()[0].Fallback, "Nothing secret is asked for") {
			t.Errorf("got %+v, %v", result, err)
		}
	})
}

func TestAStateWithoutQuestions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, tool("send"))
		f.call = func(w http.ResponseWriter, _ *http.Request, m message) {
			if m.Params.State == "later" {
				f.result(w, m, `{"content":[{"type":"text","text":"done"}]}`)
				return
			}
			f.result(w, m, `{"resultType":"input_required","requestState":"later"}`)
		}
		c, _ := connectTo(t, f.URL)
		result, err := call(t, c)
		if err != nil || result.Text() != "done" || f.count("tools/call") != 2 {
			t.Errorf("got %+v, %v", result, err)
		}
	})
}
