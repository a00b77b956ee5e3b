package mcp_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/mcp"
	"github.com/planbot-go/planbot/connector"
)

// people have tokens, or have not, as a token service keeps them.
type people struct {
	client *connector.Client
	mu     sync.Mutex
	tokens map[string]string // by the id of the account
}

func newPeople(t *testing.T) *people {
	t.Helper()
	p := &people{tokens: map[string]string{}}
	s := serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		token := p.tokens[r.URL.Query().Get("userId")]
		if token == "" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		fmt.Fprintf(w, `{"token":%q}`, token)
	}))
	t.Cleanup(s.Close)
	guard, client, err := connector.New(connector.Config{TokenURL: s.URL, Transport: &http.Transport{DialContext: wires.Dial, DisableKeepAlives: true}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(guard.Close)
	t.Cleanup(client.Close)
	p.client = client
	return p
}

func (p *people) sign(who, token string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tokens["29:"+who] = token
}

// turn is a turn of a person, who may be signed in.
func (p *people) turn(t *testing.T, who string) *actions.Turn {
	t.Helper()
	turn := turnOf(t, who)
	turn.UserToken = func(ctx context.Context, connection string) (connector.UserToken, error) {
		if connection != "crm" {
			t.Errorf("a token for %s", connection)
		}
		return p.client.UserToken(ctx, turn.Activity.Reference(), connection, "")
	}
	return turn
}

func TestEachPersonHasASessionOfTheirOwn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, legacy := range []bool{false, true} {
			all := newPeople(t)
			f := newFake(t, tool("send"))
			f.legacy = legacy
			f.front = func(w http.ResponseWriter, r *http.Request) bool { // it knows two people, who see different tools
				who := r.Header.Get("Authorization")
				f.set(func() {
					switch who {
					case "Bearer of-ada":
						f.tools = []string{tool("send"), tool("audit")}
					case "Bearer of-bob", "Bearer of-bob-2":
						f.tools = []string{tool("send")}
					}
				})
				if !strings.HasPrefix(who, "Bearer of-") {
					w.WriteHeader(http.StatusUnauthorized)
					return true
				}
				return false
			}
			f.call = func(w http.ResponseWriter, r *http.Request, m message) {
				f.result(w, m, fmt.Sprintf(`{"content":[{"type":"text","text":%q}]}`, r.Header.Get("Authorization")+r.Header.Get("Mcp-Session-Id")))
			}
			c, log := connectTo(t, f.URL, func(cfg *mcp.Config) { cfg.SignIn = "crm" })
			offer := func(who string) []string {
				names, _ := c.Offer(t.Context(), all.turn(t, who))
				return names
			}
			send := func(who string) string {
				a, ok := c.Actions().Lookup("svc_send")
				if !ok || a.Connection != "crm" {
					t.Fatalf("got %+v, %v", a, ok)
				}
				result, err := a.Call(t.Context(), all.turn(t, who), map[string]any{})
				if err != nil {
					t.Fatal(err)
				}
				return result.Text()
			}
			if names := offer("ada"); !slices.Equal(names, []string{"svc_connect"}) || len(f.seen) != 0 {
				t.Fatalf("offered %v to somebody without a token, after %d requests", names, len(f.seen))
			}
			connect, ok := c.Actions().Lookup("svc_connect")
			if !ok || connect.Connection != "crm" {
				t.Fatalf("got %+v, %v", connect, ok)
			}
			all.sign("ada", "of-ada")
			result, err := connect.Call(t.Context(), all.turn(t, "ada"), map[string]any{})
			if err != nil || !result.Observe() {
				t.Fatalf("got %+v, %v", result, err)
			}
			if names := offer("ada"); !slices.Equal(names, []string{"svc_audit", "svc_send"}) {
				t.Errorf("ada is offered %v", names)
			}
			all.sign("bob", "of-bob")
			if names := offer("bob"); !slices.Equal(names, []string{"svc_send"}) {
				t.Errorf("bob is offered %v", names)
			}
			session := func(n int) string { return map[bool]string{true: fmt.Sprint("s", n)}[legacy] }
			if got := send("ada"); got != "Bearer of-ada"+session(1) {
				t.Errorf("ada's call went out as %s", got)
			}
			if got := send("bob"); got != "Bearer of-bob"+session(2) {
				t.Errorf("bob's call went out as %s", got)
			}
			all.sign("bob", "of-bob-2") // a fresh one
			if got := send("bob"); got != "Bearer of-bob-2"+session(2) {
				t.Errorf("bob's second call went out as %s", got)
			}
			a, _ := c.Actions().Lookup("svc_audit")
			if result, err := a.Call(t.Context(), all.turn(t, "bob"), map[string]any{}); err != nil || !result.Failed() {
				t.Errorf("bob used what only ada has: %+v, %v", result, err)
			}
			// Once the token is gone nothing goes out any more.
			if _, err := c.Forget(t.Context(), all.turn(t, "ada")); err != nil {
				t.Error(err)
			}
			all.sign("ada", "")
			before := f.count("tools/call")
			a, _ = c.Actions().Lookup("svc_send")
			if result, err := a.Call(t.Context(), all.turn(t, "ada"), map[string]any{}); err == nil || f.count("tools/call") != before {
				t.Errorf("got %+v, %v", result, err)
			}
			if legacy {
				eventually(t, "ada's session is ended", func() bool { return f.count("DELETE") == 1 })
			}
			if strings.Contains(log.String(), "of-ada") {
				t.Error("the log has a token")
			}
		}
	})
}

func TestWhereNobodyCanSignIn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, tool("send"))
		c, log := connectTo(t, f.URL, func(cfg *mcp.Config) { cfg.SignIn = "crm" })
		turn := turnOf(t, "ada")
		turn.UserToken = func(context.Context, string) (connector.UserToken, error) {
			return connector.UserToken{}, connector.ErrNoTokenService
		}
		names, note := c.Offer(t.Context(), turn)
		if len(names) != 0 || !strings.Contains(note, "cannot sign in") || f.count("server/discover") != 0 {
			t.Errorf("offered %v, said %q", names, note)
		}
		if names, note = c.Offer(t.Context(), turnOf(t, "ada")); len(names) != 0 || note == "" {
			t.Errorf("offered %v, said %q", names, note)
		}
		if n := strings.Count(log.String(), "is away"); n != 1 {
			t.Errorf("%d lines in the log, want 1", n)
		}
	})
}

func TestAToolCalledConnect(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, tool("connect"), tool("send"))
		all := newPeople(t)
		all.sign("ada", "of-ada")
		c, _ := connectTo(t, f.URL, func(cfg *mcp.Config) { cfg.SignIn = "crm" })
		if names, _ := c.Offer(t.Context(), all.turn(t, "ada")); !slices.Equal(names, []string{"svc_send"}) {
			t.Errorf("offered %v", names)
		}
		tools, err := c.List(t.Context())
		if err != nil || tools[0].Remote != "connect" || !strings.Contains(tools[0].LeftOut, "signs in") {
			t.Errorf("operators read %+v, %v", tools, err)
		}
	})
}

// A token that the server does not take, since it was revoked there, is as good as none: the person signs in
// again.
func TestATokenThatIsNoLongerGood(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, legacy := range []bool{false, true} {
			all := newPeople(t)
			f := newFake(t, tool("send"))
			f.legacy = legacy
			good := "Bearer of-ada"
			f.front = func(w http.ResponseWriter, r *http.Request) bool {
				var bad bool
				f.set(func() { bad = r.Header.Get("Authorization") != good })
				if bad {
					w.Header().Set("WWW-Authenticate", `Bearer error="invalid_token"`)
					w.WriteHeader(http.StatusUnauthorized)
					fmt.Fprint(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"invalid token"}}`)
				}
				return bad
			}
			c, _ := connectTo(t, f.URL, func(cfg *mcp.Config) { cfg.SignIn = "crm" })
			all.sign("ada", "of-ada")
			offer := func() []string {
				names, _ := c.Offer(t.Context(), all.turn(t, "ada"))
				return names
			}
			do := func(name string) error {
				a, ok := c.Actions().Lookup(name)
				if !ok {
					t.Fatalf("no %s", name)
				}
				_, err := a.Call(t.Context(), all.turn(t, "ada"), map[string]any{})
				return err
			}
			if names := offer(); !slices.Equal(names, []string{"svc_send"}) || do("svc_send") != nil {
				t.Fatalf("offered %v", names)
			}
			f.set(func() { good = "Bearer of-ada-2" })
			if err := do("svc_send"); !errors.Is(err, connector.ErrNoUserToken) || errors.Is(err, actions.ErrUncertain) {
				t.Errorf("legacy %v: a call: %v", legacy, err)
			}
			if names := offer(); !slices.Equal(names, []string{"svc_connect"}) {
				t.Errorf("legacy %v: offered %v", legacy, names)
			}
			if err := do("svc_connect"); !errors.Is(err, connector.ErrNoUserToken) {
				t.Errorf("legacy %v: connect: %v", legacy, err)
			}
			all.sign("ada", "of-ada-2")
			if names := offer(); !slices.Equal(names, []string{"svc_send"}) || do("svc_send") != nil {
				t.Errorf("legacy %v: offered %v", legacy, names)
			}
		}
	})
}

// TestAServerThatWantsMoreRights says which, of a call that it has not made.
func TestAServerThatWantsMoreRights(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, signIn := range []string{"crm", ""} {
			all := newPeople(t)
			f := newFake(t, tool("send"))
			f.call = func(w http.ResponseWriter, _ *http.Request, m message) {
				w.Header().Set("WWW-Authenticate", `Bearer error="insufficient_scope", scope="mail.read mail.send", resource_metadata="https://x.example"`)
				f.refuse(w, m, http.StatusForbidden, -32001, "insufficient scope")
			}
			c, _ := connectTo(t, f.URL, func(cfg *mcp.Config) { cfg.SignIn = signIn })
			all.sign("ada", "of-ada")
			if names, _ := c.Offer(t.Context(), all.turn(t, "ada")); !slices.Equal(names, []string{"svc_send"}) {
				t.Fatalf("offered %v", names)
			}
			a, _ := c.Actions().Lookup("svc_send")
			result, err := a.Call(t.Context(), all.turn(t, "ada"), map[string]any{})
			wants, more := errors.AsType[*connector.ScopeError](err)
			if more != (signIn != "") || more && !slices.Equal(wants.Scopes, []string{"mail.read", "mail.send"}) {
				t.Errorf("%v", err)
			}
			if !more && !strings.Contains(result.Text(), "does not allow this") {
				t.Errorf("without people to sign in: %s", result.Text())
			}
		}
	})
}

// Another token may be that of another account, with other tools.
func TestAnotherAccountOfAPerson(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := newPeople(t)
		f := newFake(t)
		f.front = func(_ http.ResponseWriter, r *http.Request) bool {
			f.set(func() { f.tools = []string{tool(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer of-"))} })
			return false
		}
		c, _ := connectTo(t, f.URL, func(cfg *mcp.Config) { cfg.SignIn = "crm" })
		for _, account := range []string{"work", "home"} {
			all.sign("ada", "of-"+account)
			if names, _ := c.Offer(t.Context(), all.turn(t, "ada")); !slices.Equal(names, []string{"svc_" + account}) {
				t.Errorf("offered %v with the account %s", names, account)
			}
		}
	})
}
