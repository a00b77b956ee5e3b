package openapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/openapi"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/connector"
)

// sequence answers with the status codes, in order, and then with the last. 0 closes the connection.
func sequence(codes ...int) func(http.ResponseWriter, *http.Request, int) {
	return func(w http.ResponseWriter, _ *http.Request, try int) {
		code := codes[min(try, len(codes))-1]
		if code == 0 {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = fmt.Fprintf(w, `{"title":"Answer %d"}`, code)
	}
}

// act is a document with an operation act for each method.
func act(method string) string { return one(method, "/a", "") }

// TestAnswers has T37, and what else becomes of answers.
func TestAnswers(t *testing.T) {
	t.Parallel()
	long := `[` + strings.TrimSuffix(strings.Repeat("1,", 60), ",") + `]`
	cut := `[` + strings.Repeat("1,", 50) + `"and 10 more"]`
	for _, c := range []struct {
		status                int
		mediaType, body, want string
		fails                 bool
	}{
		{200, "application/json", `{"id":9007199254740993,"x":1.50,"e":1e400}`, `{"e":1e400,"id":9007199254740993,"x":1.50}`, false},
		{200, "application/vnd.api+json; charset=utf-8", `["<a>"]`, `["<a>"]`, false},
		{200, "application/json", `null`, `null`, false},
		{200, "application/json", long, cut, false},
		{200, "application/json", `{"a":{"b":` + long + `}}`, `{"a":{"b":` + cut + `}}`, false},
		{200, "application/json", ``, ``, false},
		{204, "", ``, ``, false},
		{201, "text/plain; charset=utf-8", "made\nit", "made\nit", false},
		{200, "image/png", strings.Repeat("x", 3000), "[image/png, 2 KB]", false},
		{200, "", `{"a":1}`, `{"a":1}`, false},
		{200, "application/xml", "<a/>", "[application/xml, 4 bytes]", false},
		{200, "application/json", `{"a":`, "cannot be used: it is no JSON", true},
		{200, "application/json", `{} {}`, "cannot be used: it is no JSON", true},
		{200, "application/json", `"` + strings.Repeat("x", 9<<20) + `"`, "larger than 8 MB", true},
		{404, "application/problem+json", `{"title":"Not found","detail":"no item 7","status":404}`, "svc answered 404: Not found: no item 7", true},
		{409, "application/problem+json", `{"detail":"two\nlines\u202e"}`, "svc answered 409: two lines", true},
		{422, "application/json", `{"error":"bad size"}`, `svc answered 422: {"error":"bad size"}`, true},
		{400, "text/plain", strings.Repeat("y", 600), "svc answered 400: " + strings.Repeat("y", 499) + "…", true},
		{400, "text/html", "<h1>no</h1>", "svc answered 400", true},
		{401, "application/json", `{"title":"token abc"}`, "svc does not allow this: it answered 401.", true},
		{403, "", ``, "svc does not allow this: it answered 403.", true},
		{304, "", ``, "svc answered 304", true},
	} {
		s := serve(t, replies(c.status, c.mediaType, c.body))
		result, err := run(t.Context(), t, connect(t, s, act("get")), "svc_act", `{}`)
		got := result.Text()
		if exact := got == c.want; err != nil || result.Failed() != c.fails || !exact && (!c.fails || !strings.Contains(got, c.want)) || s.count() != 1 {
			t.Errorf("%d %s: %.200q, failed %t, %v, %d requests; want %.200q", c.status, c.mediaType, got, result.Failed(), err, s.count(), c.want)
		}
		if logged := strings.Contains(s.log.String(), "service refused a call"); logged != (c.status == 401 || c.status == 403) || strings.Contains(s.log.String(), "abc") {
			t.Errorf("%d: logged %s", c.status, s.log.String())
		}
	}
}

// TestAWriteWhoseAnswerCannotBeRead was done all the same.
func TestAWriteWhoseAnswerCannotBeRead(t *testing.T) {
	t.Parallel()
	broken := func(w http.ResponseWriter, _ *http.Request, _ int) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", "100")
		_, _ = w.Write([]byte(`{"a"`))
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	for why, answer := range map[string]func(http.ResponseWriter, *http.Request, int){
		"it is no JSON": replies(200, "application/json", `{`), "it is larger than 8 MB": replies(200, "application/json", strings.Repeat(" ", 9<<20)), "it broke off": broken,
	} {
		s := serve(t, answer)
		if got := must(t, connect(t, s, act("post"), allow("act")), "svc_act", `{}`); got != "Done, but its answer could not be read: "+why+"." || s.count() != 1 {
			t.Errorf("%s: %q, %d requests", why, got, s.count())
		}
	}
	s := serve(t, broken)
	want(t, fails(t, connect(t, s, act("get")), "svc_act", `{}`), "cannot be reached")
	if s.count() != 3 {
		t.Errorf("%d requests", s.count())
	}
}

// TestTries has T37: reads are tried again, what may have been done never is.
func TestTries(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		method    string
		codes     []int
		requests  int
		uncertain bool
		text      string // "": it succeeds
	}{
		{"get", []int{500, 200}, 2, false, ""},
		{"get", []int{0, 503, 200}, 3, false, ""},
		{"head", []int{502, 200}, 2, false, ""},
		{"get", []int{500}, 3, false, "svc answered 500: it does not work right now."},
		{"get", []int{0}, 3, false, "svc cannot be reached right now"},
		{"get", []int{404, 200}, 1, false, "svc answered 404: Answer 404"},
		{"post", []int{500, 200}, 1, true, "POST /a: it is not known whether this was done: it answered 500"},
		{"put", []int{503, 200}, 1, true, "it answered 503"},
		{"patch", []int{504}, 1, true, "it answered 504"},
		{"delete", []int{0, 200}, 1, true, "DELETE /a: it is not known whether this was done: "},
		{"post", []int{429, 200}, 1, false, "svc answered 429: it is busy. Try again later."},
		{"get", []int{429, 200}, 1, false, "svc answered 429: it is busy. Try again later."},
		{"post", []int{400}, 1, false, "svc answered 400: Answer 400"},
	} {
		t.Run(fmt.Sprint(c.method, c.codes), func(t *testing.T) {
			t.Parallel() // they wait between their tries
			s := serve(t, sequence(c.codes...))
			result, err := run(t.Context(), t, connect(t, s, act(c.method), allow("act")), "svc_act", `{}`)
			if s.count() != c.requests || errors.Is(err, actions.ErrUncertain) != c.uncertain || (err != nil) != c.uncertain || result.Failed() != (c.text != "" && !c.uncertain) {
				t.Errorf("%d requests, %q, failed %t, %v", s.count(), result.Text(), result.Failed(), err)
			}
			want(t, result.Text()+textOf(err), c.text)
		})
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	for after, c := range map[string]struct {
		requests int
		text     string
	}{"0": {2, ""}, "11": {1, "Try again in 11 seconds."}, "Wed, 21 Oct 2015 07:28:00 GMT": {2, ""}, "soon": {1, "Try again later."}, "-1": {1, "Try again later."}} {
		for _, status := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
			s := serve(t, func(w http.ResponseWriter, _ *http.Request, try int) {
				if try == 1 {
					w.Header().Set("Retry-After", after)
					w.WriteHeader(status)
				}
			})
			result, err := run(t.Context(), t, connect(t, s, act("get")), "svc_act", `{}`)
			requests, text := c.requests, c.text
			if status == http.StatusServiceUnavailable && strings.HasSuffix(text, "later.") {
				requests, text = 2, "" // it does not say when, so we choose
			} else if status == http.StatusServiceUnavailable && text != "" {
				text = "does not work right now"
			}
			if err != nil || s.count() != requests || result.Failed() != (text != "") {
				t.Errorf("%d, %s: %d requests, %q, %v", status, after, s.count(), result.Text(), err)
			}
			want(t, result.Text(), text)
		}
	}
}

// TestAttempts: what an earlier process may have sent is not sent again, unless the service can tell.
func TestAttempts(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	again := actions.Attempt{Key: "turn.3", Again: true}.Context(t.Context())
	_, err := run(again, t, connect(t, s, act("post"), allow("act")), "svc_act", `{}`)
	if !errors.Is(err, actions.ErrUncertain) || s.count() != 0 {
		t.Errorf("%v, %d requests", err, s.count())
	}
	if _, err = run(again, t, connect(t, s, act("get")), "svc_act", `{}`); err != nil || s.count() != 1 {
		t.Errorf("%v, %d requests", err, s.count())
	}
	c := connect(t, s, one("post", "/a", `"parameters":[{"name":"idempotency-key","in":"header","required":true,"schema":{"type":"string"}}],`), allow("act"))
	for _, ctx := range []context.Context{again, t.Context()} {
		if _, err = run(ctx, t, c, "svc_act", `{}`); err != nil {
			t.Error(err)
		}
		if key := s.last(t).header.Get("Idempotency-Key"); ctx == again && key != "turn.3" || len(key) < 6 {
			t.Errorf("key %q", key)
		}
	}
}

// TestRedirects: none is followed, but within the origin if the operator says so.
func TestRedirects(t *testing.T) {
	t.Parallel()
	other := serve(t, nil)
	answer := func(to string, status int) func(http.ResponseWriter, *http.Request, int) {
		return func(w http.ResponseWriter, r *http.Request, _ int) {
			if r.URL.Path == "/a" {
				w.Header().Set("Location", to)
				w.WriteHeader(status)
				return
			}
			replies(200, "text/plain", r.Method+" "+r.URL.Path+" "+r.Header.Get("X-Key"))(w, r, 1)
		}
	}
	secret := func(cfg *openapi.Config) { cfg.Header = http.Header{"X-Key": {"k"}} }
	follow := func(cfg *openapi.Config) { cfg.FollowRedirects = true }
	for _, to := range []string{other.URL + "/b", "/b", "//" + strings.TrimPrefix(other.URL, "http://"), "https://elsewhere.example/x?key=1"} {
		for _, status := range []int{301, 302, 303, 307, 308} {
			for _, following := range []bool{false, true} {
				s := serve(t, answer(to, status))
				more := []func(*openapi.Config){secret}
				if following {
					more = append(more, follow)
				}
				result, err := run(t.Context(), t, connect(t, s, act("get"), more...), "svc_act", `{}`)
				followed := following && to == "/b"
				if err != nil || result.Failed() == followed || followed && result.Text() != "GET /b k" {
					t.Errorf("%s, %d, %t: %q, %v", to, status, following, result.Text(), err)
				}
				if !followed {
					want(t, result.Text(), "which is not followed")
				}
				more = append(more, allow("act"))
				result, err = run(t.Context(), t, connect(t, s, act("post"), more...), "svc_act", `{}`)
				if uncertain := status < 304; errors.Is(err, actions.ErrUncertain) != uncertain || result.Failed() == uncertain {
					t.Errorf("POST, %s, %d, %t: %q, %v", to, status, following, result.Text(), err)
				}
			}
		}
	}
	if other.count() > 0 {
		t.Errorf("%d requests elsewhere", other.count())
	}
	loop := serve(t, func(w http.ResponseWriter, r *http.Request, _ int) { http.Redirect(w, r, "/a", http.StatusFound) })
	fails(t, connect(t, loop, act("get"), follow), "svc_act", `{}`)
	if loop.count() != 4 {
		t.Errorf("%d requests, want one and 3 redirects", loop.count())
	}
}

// TestAddresses has T35 as far as a call goes: the address is judged when it is dialled.
func TestAddresses(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	_, port, err := net.SplitHostPort(strings.TrimPrefix(s.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"localhost", "127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0"} {
		c := connect(t, s, act("post"), allow("act"), func(cfg *openapi.Config) { cfg.Server, cfg.Private = "https://"+host+":"+port, nil })
		want(t, fails(t, c, "svc_act", `{}`), "svc cannot be reached right now, so nothing was done.")
	}
	want(t, s.log.String(), "not public")
	c := connect(t, s, act("get"), func(cfg *openapi.Config) {
		cfg.Server, cfg.Private = "https://10.0.0.1", []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}
	})
	fails(t, c, "svc_act", `{}`)
	if s.count() > 0 {
		t.Errorf("%d requests", s.count())
	}
}

// TestAServiceThatIsAway costs its calls only, and no secret reaches the log.
func TestAServiceThatIsAway(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.Close()
	c := connect(t, s, act("post"), allow("act"), func(cfg *openapi.Config) {
		cfg.Query, cfg.Header = map[string]string{"key": "hidden"}, http.Header{"X-Key": {"hidden"}}
	})
	if names, _ := c.Offer(t.Context(), nil); len(names) != 1 {
		t.Errorf("offered %s", names)
	}
	want(t, fails(t, c, "svc_act", `{}`), "svc cannot be reached right now, so nothing was done.")
	want(t, s.log.String(), `"connection":"svc"`, `"action":"svc_act"`, "connection refused", `"tries":3`)
	if strings.Contains(s.log.String(), "hidden") {
		t.Error(s.log.String())
	}
}

// TestTheEndOfATurn ends its call. What was sent by then may have been done.
func TestTheEndOfATurn(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"get", "post"} {
		arrived := make(chan struct{})
		s := serve(t, func(_ http.ResponseWriter, r *http.Request, _ int) {
			close(arrived)
			<-r.Context().Done()
		})
		c := connect(t, s, act(method), allow("act"))
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-arrived; cancel() }()
		_, err := run(ctx, t, c, "svc_act", `{}`)
		if !errors.Is(err, context.Canceled) || errors.Is(err, actions.ErrUncertain) != (method == "post") {
			t.Errorf("%s: %v", method, err)
		}
	}
}

func TestClose(t *testing.T) {
	t.Parallel()
	arrived := make(chan struct{})
	s := serve(t, func(_ http.ResponseWriter, r *http.Request, _ int) {
		close(arrived)
		<-r.Context().Done()
	})
	c := connect(t, s, act("get"))
	go func() { <-arrived; c.Close() }()
	if _, err := run(t.Context(), t, c, "svc_act", `{}`); textOf(err) != "action svc_act: the connection is closed" {
		t.Error(err)
	}
	c.Close()
	if _, err := run(t.Context(), t, c, "svc_act", `{}`); textOf(err) != "action svc_act: the connection is closed" || s.count() != 1 {
		t.Error(err)
	}
}

// TestCallsAtATime: no more than eight, and two of one person.
func TestCallsAtATime(t *testing.T) {
	t.Parallel()
	mia := &activity.Activity{}
	mia.From.ID = "29:mia"
	for limit, turn := range map[int]*actions.Turn{8: {}, 2: {Activity: mia}} {
		testCallsAtATime(t, limit, turn)
	}
}

func testCallsAtATime(t *testing.T, limit int, turn *actions.Turn) {
	t.Helper()
	var mu sync.Mutex
	var now, most int
	full, all := make(chan struct{}), make(chan struct{})
	fill := sync.OnceFunc(func() { close(full) })
	s := serve(t, func(http.ResponseWriter, *http.Request, int) {
		mu.Lock()
		now++
		if most = max(most, now); now == limit {
			fill()
		}
		mu.Unlock()
		<-all
		mu.Lock()
		now--
		mu.Unlock()
	})
	c := connect(t, s, act("get"))
	a := action(t, c, "svc_act")
	var calls sync.WaitGroup
	for range 20 {
		calls.Go(func() {
			if _, err := a.Call(t.Context(), turn, nil); err != nil {
				t.Error(err)
			}
		})
	}
	select {
	case <-full:
	case <-time.After(20 * time.Second):
		t.Errorf("%d calls never run at a time", limit)
	}
	close(all)
	calls.Wait()
	if most != limit || s.count() != 20 {
		t.Errorf("%d at a time, %d in all", most, s.count())
	}
}

// TestAnswerIsCut to what the operator names.
func TestAnswerIsCut(t *testing.T) {
	t.Parallel()
	s := serve(t, replies(200, "application/json", `{"data":{"a/b":[{"id":1,"x":2},{"id":3},"text"]},"more":1}`))
	for _, c := range []struct {
		by, text string
		answer   openapi.Answer
	}{
		{"act", `[{"id":1},{"id":3},"text"]`, openapi.Answer{Data: "/data/a~1b", Fields: []string{"id"}}},
		{"GET /a", `{"id":1,"x":2}`, openapi.Answer{Data: "/data/a~1b/0"}},
		{"GET", `{"more":1}`, openapi.Answer{Fields: []string{"more", "none"}}},
	} {
		got := must(t, connect(t, s, act("get"), func(cfg *openapi.Config) { cfg.Answers = map[string]openapi.Answer{c.by: c.answer} }), "svc_act", `{}`)
		if got != c.text {
			t.Errorf("%+v: %s", c.answer, got)
		}
	}
	none := func(cfg *openapi.Config) { cfg.Answers = map[string]openapi.Answer{"act": {Data: "/nothing"}} }
	want(t, fails(t, connect(t, s, act("get"), none), "svc_act", `{}`), "it has no /nothing")
	if got := must(t, connect(t, s, act("post"), none, allow("act")), "svc_act", `{}`); got != "Done, but its answer could not be read: it has no /nothing." {
		t.Error(got)
	}
}

// TestResultsAreValues: a number of an answer goes on to the digit.
func TestResultsAreValues(t *testing.T) {
	t.Parallel()
	s := serve(t, replies(200, "application/json", `{"id":9007199254740993}`))
	result, err := run(t.Context(), t, connect(t, s, act("get")), "svc_act", `{}`)
	if err != nil {
		t.Fatal(err)
	}
	value, err := result.Value()
	if object, _ := value.(map[string]any); err != nil || object["id"] != json.Number("9007199254740993") {
		t.Errorf("%v, %v", value, err)
	}
}

// TestTokens: each call carries the token of its own person, to the connection's own host only.
func TestTokens(t *testing.T) {
	t.Parallel()
	s := serve(t, replies(200, "text/plain", "ok"))
	signIn := func(cfg *openapi.Config) { cfg.SignIn = "crm" }
	c := connect(t, s, act("get"), signIn, func(cfg *openapi.Config) { cfg.Headers = []string{"X-A"} })
	a := action(t, c, "svc_act")
	if a.Connection != "crm" {
		t.Errorf("needs the token of %q", a.Connection)
	}
	turn := &actions.Turn{UserToken: func(_ context.Context, connection string) (connector.UserToken, error) {
		return connector.UserToken{}, fmt.Errorf("%s: %w", connection, connector.ErrNoUserToken)
	}}
	if _, err := a.Call(t.Context(), turn, nil); !errors.Is(err, connector.ErrNoUserToken) || s.count() != 0 {
		t.Errorf("%v, %d requests", err, s.count())
	}
	if _, err := a.Call(t.Context(), &actions.Turn{}, nil); err == nil || s.count() != 0 {
		t.Errorf("%v, %d requests", err, s.count())
	}

	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, `{"token":"of %s for %s"}`, r.URL.Query().Get("userId"), r.URL.Query().Get("connectionName"))
	}))
	t.Cleanup(service.Close)
	_, tokens, err := connector.New(connector.Config{TokenURL: service.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tokens.Close)
	for _, who := range []string{"mia", "ben"} {
		from := &activity.Activity{}
		from.ChannelID, from.From.ID = activity.Teams, who
		turn := &actions.Turn{Activity: from, UserToken: func(ctx context.Context, connection string) (connector.UserToken, error) {
			return tokens.UserToken(ctx, from.Reference(), connection, "")
		}}
		if _, err := a.Call(t.Context(), turn, nil); err != nil {
			t.Fatal(err)
		}
		if got := s.last(t).header["Authorization"]; len(got) != 1 || got[0] != "Bearer of "+who+" for crm" {
			t.Errorf("%s: %s", who, got)
		}
	}
	refusing := serve(t, replies(401, "text/plain", "no"))
	revoked := action(t, connect(t, refusing, act("get"), signIn), "svc_act")
	if _, err := revoked.Call(t.Context(), &actions.Turn{UserToken: func(context.Context, string) (connector.UserToken, error) {
		return connector.NewUserToken("crm", "revoked", time.Time{}), nil
	}}, nil); !errors.Is(err, connector.ErrNoUserToken) || refusing.count() != 1 {
		t.Errorf("%v, %d requests", err, refusing.count())
	}
	narrow := serve(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
		w.Header().Set("WWW-Authenticate", `Bearer realm="x", error="insufficient_scope", scope="issues:write"`)
		w.WriteHeader(http.StatusForbidden)
	})
	_, err = action(t, connect(t, narrow, act("get"), signIn), "svc_act").Call(t.Context(), &actions.Turn{UserToken: func(context.Context, string) (connector.UserToken, error) {
		return connector.NewUserToken("crm", "narrow", time.Time{}), nil
	}}, nil)
	if wants, more := errors.AsType[*connector.ScopeError](err); !more || len(wants.Scopes) != 1 || narrow.count() != 1 {
		t.Errorf("%v, %d requests", err, narrow.count())
	}
	elsewhere := connect(t, nil, paths(`"/a":{"get":{"operationId":"act","servers":[{"url":"https://other.example"}],"responses":{"200":{"description":"ok"}}}}`), signIn)
	if a := action(t, elsewhere, "svc_act"); a.Connection != "" {
		t.Errorf("another host would get the token of %s", a.Connection)
	}
	_, err = try(t, s, act("get"), signIn, func(cfg *openapi.Config) { cfg.Header = http.Header{"authorization": {"x"}} })
	want(t, textOf(err), "SignIn")
}
