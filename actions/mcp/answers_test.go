package mcp_test

import (
	"compress/gzip"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/mcp"
)

// sse writes events.
func sse(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprint(w, text)
	_ = http.NewResponseController(w).Flush()
}

// Whatever a server answers, a call is made once, ends in time, and does not spoil the next one.
func TestMoreAnswers(t *testing.T) {
	t.Parallel()
	const ok = `"result":{"content":[{"type":"text","text":"ok"}]}`
	type w = http.ResponseWriter
	for name, tt := range map[string]struct {
		call func(f *fake, w http.ResponseWriter, r *http.Request, m message)
		want string // "?": uncertain
	}{
		"stream open after answer": {func(f *fake, w w, r *http.Request, m message) {
			sse(w, "data: {\"jsonrpc\":\"2.0\",\"id\":"+string(m.ID)+","+ok+"}\n\n")
			select {
			case <-r.Context().Done():
			case <-f.gone:
			}
		}, "ok"},
		"other id json": {func(f *fake, w w, _ *http.Request, m message) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"jsonrpc":"2.0","id":9999,`+ok+`}`)
		}, "?"},
		"text id": {func(f *fake, w w, _ *http.Request, m message) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"jsonrpc":"2.0","id":"`+string(m.ID)+`",`+ok+`}`)
		}, "?"},
		"other id stream, end": {func(f *fake, w w, _ *http.Request, m message) {
			sse(w, "data: {\"jsonrpc\":\"2.0\",\"id\":9999,"+ok+"}\n\n")
		}, "?"},
		"other id stream, then ours": {func(f *fake, w w, _ *http.Request, m message) {
			sse(w, "data: {\"jsonrpc\":\"2.0\",\"id\":9999,\"result\":{\"content\":[]}}\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":"+string(m.ID)+","+ok+"}\n\n")
		}, "ok"},
		"crlf": {func(f *fake, w w, _ *http.Request, m message) {
			sse(w, ": hello\r\nevent: message\r\nid: 1\r\ndata: {\"jsonrpc\":\"2.0\",\r\ndata: \"id\":"+string(m.ID)+","+ok+"}\r\n\r\n")
		}, "ok"},
		"no last blank line": {func(f *fake, w w, _ *http.Request, m message) {
			sse(w, "data: {\"jsonrpc\":\"2.0\",\"id\":"+string(m.ID)+","+ok+"}\n")
		}, "ok"},
		"no last line feed": {func(f *fake, w w, _ *http.Request, m message) {
			sse(w, "data: {\"jsonrpc\":\"2.0\",\"id\":"+string(m.ID)+","+ok+"}")
		}, "ok"},
		"half an answer": {func(f *fake, w w, _ *http.Request, m message) {
			sse(w, "data: {\"jsonrpc\":\"2.0\",\"id\":"+string(m.ID)+","+ok)
		}, "?"},
		"carriage returns": {func(f *fake, w w, _ *http.Request, m message) {
			sse(w, "data: {\"jsonrpc\":\"2.0\",\"id\":"+string(m.ID)+","+ok+"}\r\r")
		}, "ok"},
		"garbage events first": {func(f *fake, w w, _ *http.Request, m message) {
			sse(w, "data: hello\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":"+string(m.ID)+","+ok+"}\n\n")
		}, "ok"},
		"server asks roots": {func(f *fake, w w, _ *http.Request, m message) {
			sse(w, "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"roots/list\"}\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":"+string(m.ID)+","+ok+"}\n\n")
		}, "ok"},
		"server asks with our id": {func(f *fake, w w, _ *http.Request, m message) {
			sse(w, "data: {\"jsonrpc\":\"2.0\",\"id\":"+string(m.ID)+",\"method\":\"sampling/createMessage\",\"params\":{\"messages\":[],\"maxTokens\":1}}\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":"+string(m.ID)+","+ok+"}\n\n")
		}, "ok"},
		"retry field": {func(f *fake, w w, _ *http.Request, m message) {
			sse(w, "retry: 999999999\nid: x\n\n")
		}, "?"},
		"gzip bomb": {func(f *fake, w w, _ *http.Request, m message) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			fmt.Fprintf(z, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"`, m.ID)
			part := []byte(strings.Repeat("x", 1<<20))
			for range 12 {
				if _, err := z.Write(part); err != nil {
					return
				}
			}
			_ = z.Close()
		}, "This was done, but its answer could not be read."},
		"gzip bomb stream": {func(f *fake, w w, _ *http.Request, m message) {
			w.Header().Set("Content-Type", "text/event-stream")
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			part := []byte(strings.Repeat("x", 1<<20))
			for range 12 {
				if _, err := z.Write(part); err != nil {
					return
				}
			}
			_ = z.Close()
		}, "This was done, but its answer could not be read."},
		"broken gzip": {func(f *fake, w w, _ *http.Request, m message) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Encoding", "gzip")
			fmt.Fprint(w, "nope")
		}, "?"},
		"endless": {func(f *fake, w w, r *http.Request, m message) {
			w.Header().Set("Content-Type", "application/json")
			part := []byte(strings.Repeat("x", 1<<16))
			for r.Context().Err() == nil {
				if _, err := w.Write(part); err != nil {
					return
				}
			}
		}, "This was done, but its answer could not be read."},
		"drip": {func(f *fake, w w, r *http.Request, m message) {
			w.Header().Set("Content-Type", "application/json")
			for r.Context().Err() == nil {
				if _, err := fmt.Fprint(w, " "); err != nil {
					return
				}
				_ = http.NewResponseController(w).Flush()
				select {
				case <-r.Context().Done():
				case <-time.After(20 * time.Millisecond):
				}
			}
		}, "?"},
		"204":          {func(f *fake, w w, _ *http.Request, m message) { w.WriteHeader(204) }, "?"},
		"202":          {func(f *fake, w w, _ *http.Request, m message) { w.WriteHeader(202) }, "?"},
		"empty result": {func(f *fake, w w, _ *http.Request, m message) { f.result(w, m, "{}") }, "send of svc answered without any content."},
		"null result":  {func(f *fake, w w, _ *http.Request, m message) { f.result(w, m, "null") }, "send of svc answered without any content."},
		"list result":  {func(f *fake, w w, _ *http.Request, m message) { f.result(w, m, "[]") }, "This was done, but its answer could not be read."},
		"task":         {func(f *fake, w w, _ *http.Request, m message) { f.result(w, m, `{"task":{"taskId":"1"}}`) }, "?"},
		"batch": {func(f *fake, w w, _ *http.Request, m message) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `[{"jsonrpc":"2.0","id":`+string(m.ID)+`,`+ok+`}]`)
		}, "?"},
		"bom": {func(f *fake, w w, _ *http.Request, m message) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, "\ufeff"+`{"jsonrpc":"2.0","id":`+string(m.ID)+`,`+ok+`}`)
		}, "?"},
		"huge headers": {func(f *fake, w w, _ *http.Request, m message) {
			w.Header().Set("X", strings.Repeat("x", 1<<20))
			f.result(w, m, `{"content":[]}`)
		}, "?"},
	} {
		for _, legacy := range []bool{false, true} {
			t.Run(fmt.Sprint(name, legacy), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					f := newFake(t, tool("send"))
					f.legacy = legacy
					var open atomic.Int32
					f.call = func(w http.ResponseWriter, r *http.Request, m message) {
						open.Add(1)
						defer open.Add(-1)
						tt.call(f, w, r, m)
					}
					limit := 3 * time.Second
					if tt.want != "?" { // it has an answer
						limit = 20 * time.Second
					}
					c, _ := connectTo(t, f.URL, func(cfg *mcp.Config) { cfg.CallTimeout = limit })
					began := time.Now()
					result, err := call(t, c)
					switch took := time.Since(began); {
					case took > limit+5*time.Second:
						t.Errorf("it took %s", took)
					case tt.want == "?" && !errors.Is(err, actions.ErrUncertain), tt.want != "?" && (err != nil || result.Text() != tt.want):
						t.Errorf("got %.100q, %v, want %s", result.Text(), err, tt.want)
					}
					if f.count("tools/call") != 1 {
						t.Errorf("%d calls", f.count("tools/call"))
					}
					eventually(t, "the request ends", func() bool { return open.Load() == 0 })
					f.saying(`{"content":[{"type":"text","text":"ok"}]}`)
					if result, err := call(t, c); err != nil || result.Text() != "ok" {
						t.Errorf("the next call: %+v, %v", result, err)
					}
				})
			})
		}
	}
}

// Lists in shapes that the standard does not have.
func TestMoreLists(t *testing.T) {
	t.Parallel()
	page := func(next string, names ...string) string {
		var all []string
		for _, n := range names {
			all = append(all, tool(n))
		}
		return `{"tools":[` + strings.Join(all, ",") + `]` + next + `}`
	}
	for name, tt := range map[string]struct {
		list  func(cursor string) string
		calls int
		want  []string
	}{
		"alternate": {func(cursor string) string {
			if cursor == "x" {
				return page(`,"nextCursor":"y"`)
			}
			return page(`,"nextCursor":"x"`)
		}, 3, nil},
		"endless":       {func(cursor string) string { return page(`,"nextCursor":"` + cursor + `x"`) }, 20, nil},
		"null cursor":   {func(string) string { return page(`,"nextCursor":null`, "a") }, 1, []string{"svc_a"}},
		"number cursor": {func(string) string { return page(`,"nextCursor":1`, "a") }, 0, nil},
		"no tools":      {func(string) string { return `{}` }, 1, nil},
		"null tools":    {func(string) string { return `{"tools":null}` }, 1, nil},
		"tools object":  {func(string) string { return `{"tools":{}}` }, 0, nil},
		"ttl huge":      {func(string) string { return page(`,"ttlMs":9223372036854775807`, "a") }, 1, []string{"svc_a"}},
		"ttl huger":     {func(string) string { return page(`,"ttlMs":1e300`, "a") }, 1, []string{"svc_a"}},
		"ttl too much":  {func(string) string { return page(`,"ttlMs":1e400`, "a") }, 1, []string{"svc_a"}},
		"ttl negative":  {func(string) string { return page(`,"ttlMs":-1`, "a") }, 1, []string{"svc_a"}},
		"ttl negatives": {func(string) string { return page(`,"ttlMs":-1e300`, "a") }, 1, []string{"svc_a"}},
		"ttl 0":         {func(string) string { return page(`,"ttlMs":0`, "a") }, 1, []string{"svc_a"}},
		"ttl float":     {func(string) string { return page(`,"ttlMs":1.5`, "a") }, 1, []string{"svc_a"}},
		"ttl text":      {func(string) string { return page(`,"ttlMs":"60000"`, "a") }, 1, []string{"svc_a"}},
		"ttl null":      {func(string) string { return page(`,"ttlMs":null`, "a") }, 1, []string{"svc_a"}},
		"same on two pages": {func(cursor string) string {
			if cursor == "" {
				return page(`,"nextCursor":"2"`, "a", "b")
			}
			return page("", "b", "c")
		}, 2, []string{"svc_a", "svc_c"}},
	} {
		for _, legacy := range []bool{false, true} {
			t.Run(fmt.Sprint(name, legacy), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					f := newFake(t)
					f.legacy, f.list = legacy, tt.list
					c, _ := connectTo(t, f.URL)
					for range 3 {
						if names := offered(t, c); !slices.Equal(names, tt.want) {
							t.Errorf("offered %v, want %v", names, tt.want)
						}
					}
					if n := f.count("tools/list"); tt.calls > 0 && n != tt.calls {
						t.Errorf("%d requests, want %d", n, tt.calls)
					}
				})
			})
		}
	}
}

// A server that tells of changes without end is not asked without end.
func TestAStormOfChanges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, legacy := range []bool{false, true} {
			f := newFake(t, tool("send"))
			f.legacy = legacy
			f.front = func(w http.ResponseWriter, r *http.Request) bool {
				if r.Header.Get("Mcp-Method") != "subscriptions/listen" && r.Method != http.MethodGet || r.Method == http.MethodGet && !legacy {
					return false
				}
				for r.Context().Err() == nil {
					if sse(w, strings.Repeat("data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n", 100)); r.Context().Err() != nil {
						break
					}
					select {
					case <-f.gone:
						return true
					case <-time.After(time.Millisecond):
					}
				}
				return true
			}
			c, _ := connectTo(t, f.URL)
			for range 5 {
				if result, err := call(t, c); err != nil || result.Text() != "ok" {
					t.Errorf("got %+v, %v", result, err)
				}
			}
			if n := f.count("tools/list"); n > 11 {
				t.Errorf("%d lists", n)
			}
			c.Close()
			f.stop()
		}
	})
}
