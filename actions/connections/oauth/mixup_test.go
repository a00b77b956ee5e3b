package oauth_test

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/planbot-go/planbot/actions/connections/oauth"
	"github.com/planbot-go/planbot/connector"
)

// evil stands in for a service that wants the tokens of another one's people.
type evil struct {
	*httptest.Server

	mu     sync.Mutex
	change func(path string, metadata map[string]any)
	stolen []url.Values // requests for tokens that reached it
}

func newEvil(t *testing.T) *evil {
	t.Helper()
	e := &evil{}
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e.mu.Lock()
		defer e.mu.Unlock()
		_ = r.ParseForm()
		answer := map[string]any{}
		switch r.URL.Path {
		case "/.well-known/oauth-protected-resource/mcp":
			answer = map[string]any{"resource": e.URL + "/mcp", "authorization_servers": []string{e.URL}}
		case "/.well-known/oauth-authorization-server":
			answer = map[string]any{
				"issuer": e.URL, "authorization_endpoint": e.URL + "/authorize", "token_endpoint": e.URL + "/token", "registration_endpoint": e.URL + "/register",
				"code_challenge_methods_supported": []string{"S256"},
			}
		case "/register":
			answer["client_id"] = "client-1" // the bot's id at the honest server, which is no secret
		case "/token":
			e.stolen = append(e.stolen, r.Form)
			w.WriteHeader(http.StatusBadRequest)
			return
		default:
			w.WriteHeader(http.StatusNotFound)
			return
		}
		if e.change != nil {
			e.change(r.URL.Path, answer)
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(e.Close)
	return e
}

// TestMixUp: an evil service sends the browser on to the honest one, with what the bot sent it and some of
// it changed. No code of the honest one reaches it: the honest server refuses an address that is not
// registered for the client, or the bot refuses who comes back there.
func TestMixUp(t *testing.T) {
	t.Parallel()
	const bot = "https://bot.example.com"
	for name, change := range map[string]func(q url.Values){
		"as it was":           func(url.Values) {},
		"the honest callback": func(q url.Values) { q.Set("redirect_uri", bot+"/oauth/callback/issues") },
		"the old callback":    func(q url.Values) { q.Set("redirect_uri", bot+"/oauth/callback") },
		"an encoded way out":  func(q url.Values) { q.Set("redirect_uri", bot+"/oauth/callback/issues%2f..%2fevil") },
		"metadata":            func(q url.Values) { q.Set("client_id", bot+"/oauth/client.json/issues") },
		"old metadata":        func(q url.Values) { q.Set("client_id", bot+"/oauth/client.json") },
		"metadata and callback": func(q url.Values) {
			q.Set("client_id", bot+"/oauth/client.json/issues")
			q.Set("redirect_uri", bot+"/oauth/callback/issues")
		},
		"a name of its own": func(q url.Values) { q.Set("redirect_uri", q.Get("redirect_uri")+"?iss=EVIL") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEvil(t)
			r := setup(t, func(c *oauth.Config) { c.Services["evil"] = connector.Service{Resource: e.URL + "/mcp"} })
			r.change = func(_ string, m map[string]any) { delete(m, "authorization_response_iss_parameter_supported") }
			r.comesBack(t, person("ben")) // so the bot is known there
			for _, path := range []string{"/oauth/client.json", "/oauth/client.json/issues"} {
				var m struct {
					Addresses []string `json:"redirect_uris"`
				}
				if _, page := r.visits(t, path); json.Unmarshal([]byte(page), &m) != nil {
					t.Fatal(page)
				}
				r.callbacks[bot+path] = m.Addresses
			}
			if loose := name == "a name of its own"; loose {
				r.callbacks["client-1"] = []string{bot + "/oauth/callback/evil?iss=" + e.URL}
			}
			res, err := r.SignInResource(t.Context(), person("mia"), "evil")
			if err != nil {
				t.Fatal(err)
			}
			u, _ := url.Parse(res.Link)
			q := u.Query()
			change(q)
			q.Set("redirect_uri", strings.ReplaceAll(q.Get("redirect_uri"), "EVIL", e.URL))
			q.Set("resource", r.URL+"/mcp")
			back := r.allows(t, r.URL+"/authorize?"+q.Encode())
			if at, query, loose := strings.Cut(back, "?iss="); loose {
				back = at + "?iss=" + strings.Replace(query, "?", "&", 1)
			} else {
				u, err := url.Parse(back)
				if err != nil {
					t.Fatal(err)
				}
				q := u.Query()
				q.Del("iss") // this server does not name itself
				u.RawQuery = q.Encode()
				back = u.String()
			}
			status, page := r.visits(t, back)
			e.mu.Lock()
			defer e.mu.Unlock()
			if status == http.StatusOK || len(e.stolen) != 0 {
				t.Errorf("%d %s, stolen %v", status, page, e.stolen)
			}
		})
	}
}

// TestAnotherServersIssuer: a service cannot have people sign in at the server of another one.
func TestAnotherServersIssuer(t *testing.T) {
	t.Parallel()
	e := newEvil(t)
	for name, tt := range map[string]struct {
		honest func(at string) connector.Service
		port   string // before that of the server
		own    bool
	}{
		"at the service": {honest: func(at string) connector.Service { return connector.Service{Resource: at + "/mcp"} }},
		"configured": {honest: func(at string) connector.Service {
			return connector.Service{Resource: "https://x.example.com/", Issuer: at + "/as"}
		}},
		"in another spelling":        {honest: func(at string) connector.Service { return connector.Service{Resource: at + "/mcp"} }, port: ":0"},
		"the operator says it is so": {honest: func(at string) connector.Service { return connector.Service{Resource: at + "/mcp"} }, own: true},
	} {
		r := setup(t, func(c *oauth.Config) {
			at := strings.TrimSuffix(c.Services["issues"].Resource, "/mcp")
			issuer := ""
			if tt.own {
				issuer = at + "/as"
			}
			c.Services["issues"], c.Services["evil"] = tt.honest(at), connector.Service{Resource: e.URL + "/mcp", Issuer: issuer}
		})
		spelled := func(address string) string {
			return strings.Replace(address, "127.0.0.1:", "127.0.0.1"+cmp.Or(tt.port, ":"), 1)
		}
		e.mu.Lock()
		e.change = func(_ string, m map[string]any) { m["authorization_servers"] = []string{spelled(r.URL + "/as")} }
		e.mu.Unlock()
		r.change = func(_ string, m map[string]any) { // it takes the host of the request for its own
			for name, value := range m {
				if address, ok := value.(string); ok {
					m[name] = spelled(address)
				}
			}
		}
		if res, err := r.SignInResource(t.Context(), person("mia"), "evil"); (err == nil) != tt.own {
			t.Errorf("%s: %s, %v", name, res.Link, err)
		}
	}
}

// TestHosts: an endpoint at another host counts if the operator names that host.
func TestHosts(t *testing.T) {
	t.Parallel()
	for host, fine := range map[string]bool{
		"":                             false, // none is named
		"example.com":                  false,
		"oauth2.example.com":           true,
		"OAUTH2.example.com:443":       true,
		"oauth2.example.com:8443":      false,
		"oauth2.example.com.evil.test": false,
	} {
		r := setup(t, func(c *oauth.Config) {
			own := c.Services["issues"]
			if host != "" {
				own.Hosts = []string{host}
			}
			c.Services["issues"] = own
		})
		r.change = func(_ string, m map[string]any) {
			if m["token_endpoint"] != nil {
				m["token_endpoint"] = "https://oauth2.example.com/token"
			}
		}
		if _, err := r.SignInResource(t.Context(), person("mia"), "issues"); (err == nil) != fine {
			t.Errorf("%q: %v", host, err)
		}
	}
}

// TestConfigurationThatChanged: tokens, refresh tokens and secrets go nowhere but to what is configured now.
func TestConfigurationThatChanged(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*connector.Service){
		"resource": func(s *connector.Service) { s.Resource = "https://other.example.com/mcp" },
		"issuer": func(s *connector.Service) {
			s.Issuer, s.ClientID, s.Secret = "https://as.example.com", "client-1", "s3cret"
		},
		"nothing": func(*connector.Service) {},
	} {
		r := setup(t)
		mia := person("mia")
		r.lifetime = 30
		code := r.comesBack(t, mia)
		begun, err := r.SignInResource(t.Context(), mia, "issues")
		if err != nil {
			t.Fatal(err)
		}
		service := connector.Service{Resource: r.URL + "/mcp"}
		change(&service)
		later, err := oauth.New(oauth.Config{
			Store: r.store, Keys: [][]byte{key}, Address: "https://bot.example.com", Services: map[string]connector.Service{"issues": service},
		})
		if err != nil {
			t.Fatal(err)
		}
		r.SignIn = later
		got := r.token(t, mia, code)
		status, _ := r.visits(t, r.allows(t, begun.Link))
		if changed := name != "nothing"; changed && (got != connector.ErrNoUserToken.Error() || r.refreshes != 0) || !changed && got != "access-2" {
			t.Errorf("%s: %s, renewed %d times", name, got, r.refreshes)
		}
		if name != "nothing" && status != http.StatusBadRequest {
			t.Errorf("%s: the code was redeemed: %d", name, status)
		}
	}
}
