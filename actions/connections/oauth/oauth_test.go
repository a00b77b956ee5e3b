package oauth_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions/connections"
	"github.com/planbot-go/planbot/actions/connections/oauth"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/connector"
	"github.com/planbot-go/planbot/state"
)

// service stands in for a service and its authorization server.
type service struct {
	*httptest.Server

	mu        sync.Mutex
	change    func(path string, metadata map[string]any) // of its metadata
	elsewhere map[string]string                          // paths of metadata by where they are instead
	status    int                                        // of the token endpoint; 0: 200
	fault     string                                     // that it names then; "": invalid_grant
	lifetime  int                                        // seconds
	issued    int
	refreshes int
	revoked   []string
	clients   []string
	callbacks map[string][]string   // where people may be sent back to, by client
	codes     map[string]url.Values // what was asked for, by code
}

func newService(t *testing.T) *service {
	t.Helper()
	s := &service{
		lifetime: 3600, codes: map[string]url.Values{}, callbacks: map[string][]string{"bot": {"https://bot.example.com/oauth/callback/issues"}},
	}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	return s
}

func (s *service) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := r.ParseForm(); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	answer, path := map[string]any{}, r.URL.Path
	for from, to := range s.elsewhere {
		switch r.URL.Path {
		case from:
			path = to
		case to:
			path = "nowhere"
		}
	}
	switch path {
	case "/.well-known/oauth-protected-resource/mcp":
		answer = map[string]any{"resource": s.URL + "/mcp", "authorization_servers": []string{s.URL + "/as"}, "scopes_supported": []string{"issues"}}
	case "/.well-known/oauth-authorization-server/as":
		answer = map[string]any{
			"issuer": s.URL + "/as", "authorization_endpoint": s.URL + "/authorize", "token_endpoint": s.URL + "/token", "revocation_endpoint": s.URL + "/revoke",
			"registration_endpoint": s.URL + "/register", "code_challenge_methods_supported": []string{"plain", "S256"}, "authorization_response_iss_parameter_supported": true,
		}
	case "/register":
		answer["client_id"] = "client-1"
		s.clients = append(s.clients, "client-1")
		var asked struct {
			Addresses []string `json:"redirect_uris"`
		}
		_ = json.NewDecoder(r.Body).Decode(&asked)
		s.callbacks["client-1"] = asked.Addresses
	case "/revoke":
		s.revoked = append(s.revoked, r.Form.Get("token"))
	case "/token":
		if s.status != 0 {
			w.WriteHeader(s.status)
			_, _ = fmt.Fprintf(w, `{"error":%q}`, cmp.Or(s.fault, "invalid_grant"))
			return
		}
		if r.Form.Get("grant_type") == "refresh_token" {
			s.refreshes++
		} else {
			asked, known := s.codes[r.Form.Get("code")]
			delete(s.codes, r.Form.Get("code"))
			sum := sha256.Sum256([]byte(r.Form.Get("code_verifier")))
			if !known || asked.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(sum[:]) || r.Form.Get("redirect_uri") != asked.Get("redirect_uri") || r.Form.Get("resource") != s.URL+"/mcp" {
				w.WriteHeader(http.StatusBadRequest)
				return
			}
		}
		s.issued++
		answer = map[string]any{"token_type": "Bearer", "access_token": fmt.Sprint("access-", s.issued), "refresh_token": fmt.Sprint("refresh-", s.issued), "expires_in": s.lifetime}
	default:
		w.WriteHeader(http.StatusNotFound)
		return
	}
	if s.change != nil {
		s.change(path, answer)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

// allows plays the person who allows what the link asks for, and returns where they are sent back to: as
// servers have to, to no address but those of the client.
func (s *service) allows(t *testing.T, link string) string {
	t.Helper()
	asked, err := url.Parse(link)
	if err != nil || !strings.HasPrefix(link, s.URL+"/authorize?") || asked.Query().Get("code_challenge_method") != "S256" || asked.Query().Get("resource") != s.URL+"/mcp" {
		t.Fatalf("the link is %s", link)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.callbacks[asked.Query().Get("client_id")], asked.Query().Get("redirect_uri")) {
		return s.URL + "/refused"
	}
	code := fmt.Sprint("code-", len(s.codes), s.issued)
	s.codes[code] = asked.Query()
	return asked.Query().Get("redirect_uri") + "?" + url.Values{"code": {code}, "state": asked.Query()["state"], "iss": {s.URL + "/as"}}.Encode()
}

type rig struct {
	*oauth.SignIn
	*service
	store *state.Store
	log   *bytes.Buffer
}

var key = bytes.Repeat([]byte{7}, 32)

func setup(t *testing.T, change ...func(*oauth.Config)) rig {
	t.Helper()
	store, err := state.Open(t.Context(), "", state.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	s := newService(t)
	cfg := oauth.Config{
		Store: store, Keys: [][]byte{key}, Address: "https://bot.example.com", Services: map[string]connector.Service{"issues": {Resource: s.URL + "/mcp"}},
	}
	log := &bytes.Buffer{}
	cfg.Log = zerolog.New(log)
	for _, f := range change {
		f(&cfg)
	}
	in, err := oauth.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return rig{in, s, store, log}
}

func person(id string) (ref activity.Reference) {
	ref.ChannelID, ref.Conversation.ID, ref.Conversation.TenantID = activity.Teams, "19:g", "t1"
	ref.User.ID, ref.User.AadObjectID = "29:"+id, id
	return ref
}

var codeForm = regexp.MustCompile(`^[0-9]{6}\n`)

// visits opens an address of the bot.
func (r rig) visits(t *testing.T, address string) (status int, body string) {
	t.Helper()
	w := httptest.NewRecorder()
	r.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, strings.TrimPrefix(address, "https://bot.example.com"), http.NoBody))
	return w.Code, w.Body.String()
}

// comesBack signs a person in, and returns the code of the page.
func (r rig) comesBack(t *testing.T, who activity.Reference) string {
	t.Helper()
	resource, err := r.SignInResource(t.Context(), who, "issues")
	if err != nil {
		t.Fatal(err)
	}
	status, page := r.visits(t, r.allows(t, resource.Link))
	if status != http.StatusOK || !codeForm.MatchString(page) {
		t.Fatalf("%d %s", status, page)
	}
	return page[:6]
}

func (r rig) token(t *testing.T, who activity.Reference, code string) string {
	t.Helper()
	token, err := r.UserToken(t.Context(), who, "issues", code)
	if err != nil {
		return err.Error()
	}
	return token.Secret()
}

func TestSignIn(t *testing.T) {
	t.Parallel()
	r := setup(t)
	mia, ben := person("mia"), person("ben")
	if got := r.token(t, mia, ""); !strings.Contains(got, connector.ErrNoUserToken.Error()) {
		t.Error(got)
	}
	code := r.comesBack(t, mia)
	none := connector.ErrNoUserToken.Error()
	if got := r.token(t, mia, ""); got != none {
		t.Errorf("before the code: %s", got)
	}
	if got := r.token(t, ben, code); got != none {
		t.Errorf("Ben used Mia's code: %s", got)
	}
	if got := r.token(t, mia, code); got != "access-1" {
		t.Errorf("Mia: %s", got)
	}
	elsewhere := mia
	elsewhere.Conversation.ID, elsewhere.User.ID = "a:1", "29:other"
	if got := r.token(t, elsewhere, ""); got != "access-1" {
		t.Errorf("Mia in another conversation: %s", got)
	}
	abroad := mia
	abroad.Conversation.TenantID = "t2"
	for name, who := range map[string]activity.Reference{"Ben": ben, "another tenant": abroad, "nobody": {}} {
		if got := r.token(t, who, ""); got != none {
			t.Errorf("%s: %s", name, got)
		}
	}
	if len(r.clients) != 1 {
		t.Errorf("registered %v", r.clients)
	}
	r.comesBack(t, ben)
	if len(r.clients) != 1 {
		t.Errorf("registered again: %v", r.clients)
	}
	if strings.Contains(r.log.String(), "access-") || strings.Contains(r.log.String(), code) {
		t.Errorf("the log has a secret: %s", r.log)
	}
}

// TestWhatIsStoredIsEncrypted looks at all that goes to Redis.
func TestWhatIsStoredIsEncrypted(t *testing.T) {
	t.Parallel()
	sent := &wire{}
	r := setup(t, func(c *oauth.Config) {
		embedded := c.Store
		store, err := state.Open(t.Context(), "redis://elsewhere", state.Config{Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := embedded.Dial(ctx, network, addr)
			return tapped{conn, sent}, err
		}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = store.Close() })
		c.Store = store
	})
	code := r.comesBack(t, person("mia.meyer"))
	if got := r.token(t, person("mia.meyer"), code); got != "access-1" {
		t.Fatal(got)
	}
	all := sent.String()
	if !strings.Contains(all, "oauth") {
		t.Fatal("nothing was seen on its way to Redis")
	}
	for _, secret := range []string{"access-1", "refresh-1", "verifier", "mia.meyer", `"` + code + `"`} {
		if strings.Contains(all, secret) {
			t.Errorf("Redis gets %q", secret)
		}
	}
}

// wire is what was sent on connections.
type wire struct {
	mu  sync.Mutex
	all []byte
}

func (w *wire) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return string(w.all)
}

type tapped struct {
	net.Conn
	to *wire
}

func (t tapped) Write(p []byte) (int, error) {
	t.to.mu.Lock()
	t.to.all = append(t.to.all, p...)
	t.to.mu.Unlock()
	return t.Conn.Write(p)
}

func TestCodesAreTriedThreeTimes(t *testing.T) {
	t.Parallel()
	r := setup(t)
	mia := person("mia")
	code := r.comesBack(t, mia)
	wrong := "000000"
	if code == wrong {
		wrong = "000001"
	}
	for range 3 {
		if got := r.token(t, mia, wrong); got != connector.ErrNoUserToken.Error() {
			t.Error(got)
		}
	}
	if got := r.token(t, mia, code); got != connector.ErrNoUserToken.Error() {
		t.Errorf("after three wrong codes: %s", got)
	}
	if got := r.token(t, mia, r.comesBack(t, mia)); got != "access-2" {
		t.Errorf("a new sign-in: %s", got)
	}
}

func TestComingBackWrongly(t *testing.T) {
	t.Parallel()
	r := setup(t)
	resource, err := r.SignInResource(t.Context(), person("mia"), "issues")
	if err != nil {
		t.Fatal(err)
	}
	back := r.allows(t, resource.Link)
	change := func(name, value string) string {
		u, err := url.Parse(back)
		if err != nil {
			t.Fatal(err)
		}
		q := u.Query()
		q.Set(name, value)
		u.RawQuery = q.Encode()
		return u.String()
	}
	for _, address := range []string{change("state", "x"), change("state", ""), change("state", strings.Repeat("x", 10_000))} {
		if status, page := r.visits(t, address); status != http.StatusBadRequest || codeForm.MatchString(page) {
			t.Errorf("%s: %d %s", address, status, page)
		}
	}
	if status, _ := r.visits(t, change("iss", "https://evil.test")); status != http.StatusBadRequest {
		t.Errorf("of another server: %d", status)
	}
	if status, _ := r.visits(t, back); status != http.StatusBadRequest {
		t.Errorf("the state is used: %d", status)
	}
	resource, err = r.SignInResource(t.Context(), person("mia"), "issues")
	if err != nil {
		t.Fatal(err)
	}
	back = r.allows(t, resource.Link)
	if status, _ := r.visits(t, change("code", "")); status != http.StatusBadRequest {
		t.Errorf("refused: %d", status)
	}
	for path, callback := range map[string]string{"/oauth/client.json": "/oauth/callback", "/oauth/client.json/issues": "/oauth/callback/issues"} {
		status, page := r.visits(t, path)
		if status != http.StatusOK || !strings.Contains(page, `"redirect_uris":["https://bot.example.com`+callback+`"]`) || !strings.Contains(page, `"client_id":"https://bot.example.com`+path+`"`) {
			t.Errorf("%d %s", status, page)
		}
	}
	for _, path := range []string{"/oauth/other", "/oauth/callback/other", "/oauth/callback/", "/oauth/client.json/other", "/oauth/callback/issues/"} {
		if status, _ := r.visits(t, path+"?code=c&state=s"); status != http.StatusNotFound {
			t.Errorf("%s: %d", path, status)
		}
	}
}

func TestServersThatAreRefused(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(s *service, path string, m map[string]any)
		says   string
	}{
		"no S256":                {func(_ *service, _ string, m map[string]any) { delete(m, "code_challenge_methods_supported") }, "S256"},
		"another issuer":         {func(_ *service, _ string, m map[string]any) { m["issuer"] = "https://evil.test" }, "another authorization server"},
		"another resource":       {func(_ *service, _ string, m map[string]any) { m["resource"] = "https://evil.test" }, "describes another"},
		"plain http elsewhere":   {func(_ *service, _ string, m map[string]any) { m["token_endpoint"] = "http://evil.test/token" }, "not https"},
		"authorizes elsewhere":   {func(_ *service, _ string, m map[string]any) { m["authorization_endpoint"] = "https://evil.test/" }, "another host, evil.test"},
		"tokens elsewhere":       {func(_ *service, _ string, m map[string]any) { m["token_endpoint"] = "https://evil.test/" }, "another host, evil.test"},
		"revokes elsewhere":      {func(_ *service, _ string, m map[string]any) { m["revocation_endpoint"] = "https://evil.test/" }, "another host, evil.test"},
		"registers elsewhere":    {func(_ *service, _ string, m map[string]any) { m["registration_endpoint"] = "https://evil.test/" }, "another host, evil.test"},
		"tokens at another port": {func(_ *service, _ string, m map[string]any) { m["token_endpoint"] = "http://127.0.0.1:1/" }, "another host, 127.0.0.1:1"},
		"a client id without end": {func(_ *service, path string, m map[string]any) {
			if path == "/register" {
				m["client_id"] = strings.Repeat("x", 10_000)
			}
		}, "does not register"},
		"scopes without end": {func(_ *service, _ string, m map[string]any) {
			m["scopes_supported"] = []string{strings.Repeat("x", 10_000)}
		}, "scopes"},
		"a private page": {func(_ *service, _ string, m map[string]any) {
			m["authorization_endpoint"] = "https://169.254.169.254/authorize"
		}, "169.254.169.254"},
		"no way to know the bot":  {func(_ *service, _ string, m map[string]any) { delete(m, "registration_endpoint") }, "needs a client id"},
		"registers it as nothing": {func(_ *service, _ string, m map[string]any) { delete(m, "client_id") }, "does not register"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := setup(t)
			r.change = func(path string, m map[string]any) { tt.change(r.service, path, m) }
			if resource, err := r.SignInResource(t.Context(), person("mia"), "issues"); err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%v, %v", resource.Link, err)
			}
		})
	}
	r := setup(t, func(c *oauth.Config) {
		c.Services["issues"] = connector.Service{Resource: "https" + strings.TrimPrefix(c.Services["issues"].Resource, "http")}
	})
	if _, err := r.SignInResource(t.Context(), person("mia"), "issues"); !errors.Is(err, connections.ErrAddress) {
		t.Errorf("a private address: %v", err)
	}
}

// Services have their metadata where the standards allow it.
func TestWhereMetadataIs(t *testing.T) {
	t.Parallel()
	const resource, issuer = "/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-authorization-server/as"
	for at, of := range map[string]string{
		"/.well-known/oauth-protected-resource": resource, "/.well-known/openid-configuration/as": issuer, "/as/.well-known/openid-configuration": issuer,
	} {
		r := setup(t)
		r.elsewhere = map[string]string{at: of}
		if _, err := r.SignInResource(t.Context(), person("mia"), "issues"); err != nil {
			t.Errorf("%s: %v", at, err)
		}
	}
	for named, fine := range map[string]bool{"": true, "/": true, "/mcp": true, "/other": false} {
		r := setup(t)
		r.elsewhere = map[string]string{"/.well-known/oauth-protected-resource": resource}
		r.change = func(path string, m map[string]any) {
			if path == resource {
				m["resource"] = r.URL + named
			}
		}
		if _, err := r.SignInResource(t.Context(), person("mia"), "issues"); (err == nil) != fine {
			t.Errorf("the root describes %q: %v", named, err)
		}
	}
}

func TestTokensAreRenewed(t *testing.T) {
	t.Parallel()
	r := setup(t)
	mia := person("mia")
	r.lifetime = 30 // less than a minute
	code := r.comesBack(t, mia)
	second, err := oauth.New(oauth.Config{
		Store: r.store, Keys: [][]byte{bytes.Repeat([]byte{8}, 32), key}, Address: "https://bot.example.com", // keys change over
		Services: map[string]connector.Service{"issues": {Resource: r.URL + "/mcp"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	r.mu.Lock()
	r.lifetime = 3600
	r.mu.Unlock()
	if got := r.token(t, mia, code); got != "access-2" {
		t.Fatal(got)
	}
	if err := r.SignOutUser(t.Context(), mia, "issues"); err != nil {
		t.Fatal(err)
	}
	r.lifetime = 30
	code = r.comesBack(t, mia)
	r.mu.Lock()
	r.lifetime, r.refreshes = 3600, 0
	r.mu.Unlock()
	var all sync.WaitGroup
	all.Go(func() { r.token(t, mia, code) })
	all.Wait()
	for _, in := range []*oauth.SignIn{r.SignIn, second} {
		for range 4 {
			all.Go(func() {
				if token, err := in.UserToken(t.Context(), mia, "issues", ""); err != nil || token.Secret() != "access-4" {
					t.Errorf("%s, %v", token.Secret(), err)
				}
			})
		}
	}
	all.Wait()
	if r.refreshes != 1 {
		t.Errorf("renewed %d times", r.refreshes)
	}
}

func TestATokenThatIsNotRenewed(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]string{http.StatusBadRequest: connector.ErrNoUserToken.Error(), http.StatusServiceUnavailable: "access-1"} {
		r := setup(t)
		mia := person("mia")
		code := func() string { r.lifetime = 30; return r.comesBack(t, mia) }()
		r.mu.Lock()
		r.status = status
		r.mu.Unlock()
		if got := r.token(t, mia, code); got != want {
			t.Errorf("after %d: %s, want %s", status, got, want)
		}
	}
}

func TestSigningOut(t *testing.T) {
	t.Parallel()
	r := setup(t)
	mia, ben := person("mia"), person("ben")
	r.token(t, mia, r.comesBack(t, mia))
	r.token(t, ben, r.comesBack(t, ben))
	code := r.comesBack(t, mia) // and once more, without the code
	if err := r.SignOutUser(t.Context(), mia, "issues"); err != nil {
		t.Fatal(err)
	}
	if got := r.token(t, mia, ""); got != connector.ErrNoUserToken.Error() {
		t.Error(got)
	}
	if got := r.token(t, mia, code); got != connector.ErrNoUserToken.Error() {
		t.Errorf("by the code: %s", got)
	}
	if got := r.token(t, ben, ""); got != "access-2" {
		t.Errorf("Ben: %s", got)
	}
	if got := strings.Join(r.revoked, " "); got != "refresh-3 refresh-1" {
		t.Errorf("revoked %s", got)
	}
}

// TestComingBackAfterSigningOut: a sign-in that a person left does not count any more.
func TestComingBackAfterSigningOut(t *testing.T) {
	t.Parallel()
	r := setup(t)
	mia := person("mia")
	first, err := r.SignInResource(t.Context(), mia, "issues")
	if err != nil {
		t.Fatal(err)
	}
	if err := r.SignOutUser(t.Context(), mia, "issues"); err != nil {
		t.Fatal(err)
	}
	if status, page := r.visits(t, r.allows(t, first.Link)); status != http.StatusBadRequest || r.issued != 0 {
		t.Errorf("%d %s, %d tokens issued", status, page, r.issued)
	}
	for range 2 { // each link of a round counts
		first, err = r.SignInResource(t.Context(), mia, "issues")
		if err != nil {
			t.Fatal(err)
		}
	}
	code := r.comesBack(t, mia)
	if got := r.token(t, mia, code); got != "access-1" {
		t.Error(got)
	}
	if status, page := r.visits(t, r.allows(t, first.Link)); status != http.StatusOK {
		t.Errorf("the older link: %d %s", status, page)
	}
	if got := r.token(t, mia, ""); got != "access-1" {
		t.Errorf("without the second code: %s", got)
	}
}

// TestSigningOutWhileTokensCome: what comes too late is revoked.
func TestSigningOutWhileTokensCome(t *testing.T) {
	t.Parallel()
	r := setup(t)
	mia := person("mia")
	leave := func(path string, _ map[string]any) {
		if path == "/token" {
			r.change = nil
			r.mu.Unlock() // it has the service revoke tokens
			defer r.mu.Lock()
			if err := r.SignOutUser(t.Context(), mia, "issues"); err != nil {
				t.Error(err)
			}
		}
	}
	resource, err := r.SignInResource(t.Context(), mia, "issues")
	if err != nil {
		t.Fatal(err)
	}
	back := r.allows(t, resource.Link)
	r.change = leave
	if status, page := r.visits(t, back); status != http.StatusBadRequest || strings.Join(r.revoked, " ") != "refresh-1" {
		t.Errorf("%d %s, revoked %v", status, page, r.revoked)
	}
	r.lifetime = 30
	code := r.comesBack(t, mia)
	r.change = leave
	if got := r.token(t, mia, code); got != connector.ErrNoUserToken.Error() || strings.Join(r.revoked, " ") != "refresh-1 refresh-2 refresh-3" {
		t.Errorf("%s, revoked %v", got, r.revoked)
	}
}

// TestSigningInAnewWhileTokensAreRenewed: the newer tokens stay.
func TestSigningInAnewWhileTokensAreRenewed(t *testing.T) {
	t.Parallel()
	for _, refused := range []bool{false, true} {
		r := setup(t)
		mia := person("mia")
		r.lifetime = 30
		r.change = func(path string, m map[string]any) {
			if path != "/token" || r.refreshes == 0 {
				return
			}
			r.change = nil
			r.lifetime = 3600
			r.mu.Unlock()
			defer r.mu.Lock()
			if err := r.SignOutUser(t.Context(), mia, "issues"); err != nil {
				t.Error(err)
			}
			r.token(t, mia, r.comesBack(t, mia))
			if refused {
				delete(m, "access_token")
			}
		}
		if got := r.token(t, mia, r.comesBack(t, mia)); got != "access-3" {
			t.Errorf("refused %t: %s", refused, got)
		}
		if got := r.token(t, mia, ""); got != "access-3" {
			t.Errorf("refused %t, later: %s", refused, got)
		}
	}
}

// TestLifetimes: a token that cannot be renewed is good to its end, and services write its time as they like.
func TestLifetimes(t *testing.T) {
	t.Parallel()
	r := setup(t)
	mia := person("mia")
	r.lifetime = 30
	r.change = func(path string, m map[string]any) {
		if path == "/token" {
			delete(m, "refresh_token")
		}
	}
	if got := r.token(t, mia, r.comesBack(t, mia)); got != "access-1" {
		t.Errorf("without a refresh token: %s", got)
	}
	for _, seconds := range []any{"3600", 3600.5, 1e15, nil} {
		r := setup(t)
		r.lifetime = 30
		code := r.comesBack(t, mia)
		r.change = func(path string, m map[string]any) {
			if path == "/token" {
				m["expires_in"] = seconds
			}
		}
		for range 2 {
			if got := r.token(t, mia, code); got != "access-2" {
				t.Errorf("%v: %s", seconds, got)
			}
			code = ""
		}
	}
}

// TestWrongClient: a secret that an operator has to mend costs nobody their tokens.
// TestAForgottenClient: where the server does not know the bot any more, the next sign-in registers it anew.
func TestAForgottenClient(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.change = func(path string, m map[string]any) {
		if path == "/register" {
			m["client_id"] = fmt.Sprint("client-", len(r.clients))
		}
	}
	begin := func() (client, link string) {
		resource, err := r.SignInResource(t.Context(), person("mia"), "issues")
		if err != nil {
			t.Fatal(err)
		}
		u, _ := url.Parse(resource.Link)
		return u.Query().Get("client_id"), resource.Link
	}
	client, link := begin()
	if client != "client-1" {
		t.Fatalf("it is %s", client)
	}
	r.mu.Lock()
	r.status, r.fault = http.StatusUnauthorized, "invalid_client"
	r.mu.Unlock()
	if status, _ := r.visits(t, r.allows(t, link)); status != http.StatusBadRequest {
		t.Errorf("the person reads %d", status)
	}
	client, link = begin()
	if client != "client-2" {
		t.Errorf("after the server forgot it, it is %s", client)
	}
	asked, _ := url.Parse(link)
	refused := url.Values{"error": {"invalid_client"}, "state": asked.Query()["state"], "iss": {r.URL + "/as"}}
	if status, _ := r.visits(t, asked.Query().Get("redirect_uri")+"?"+refused.Encode()); status != http.StatusBadRequest {
		t.Errorf("the person reads %d", status)
	}
	if client, _ := begin(); client != "client-2" {
		t.Errorf("after a person said that the server forgot it, it is %s", client)
	}
}

func TestWrongClient(t *testing.T) {
	t.Parallel()
	for _, fault := range []string{"invalid_client", "incorrect_client_credentials"} {
		r := setup(t, func(c *oauth.Config) {
			at := strings.TrimSuffix(c.Services["issues"].Resource, "/mcp")
			c.Services["issues"] = connector.Service{Resource: at + "/mcp", Issuer: at + "/as", ClientID: "bot", Secret: "old"}
		})
		r.lifetime = -1
		mia := person("mia")
		code := r.comesBack(t, mia)
		r.lifetime = 3600
		r.status, r.fault = http.StatusUnauthorized, fault
		if fault == "incorrect_client_credentials" { // as GitHub says it
			r.status = 0
			r.change = func(path string, m map[string]any) {
				if path == "/token" {
					delete(m, "access_token")
					m["error"] = fault
				}
			}
		}
		if got := r.token(t, mia, code); !strings.Contains(got, "refuses the bot's client id or secret") {
			t.Errorf("%s: %s", fault, got)
		}
		r.mu.Lock()
		r.status, r.change = 0, nil
		r.mu.Unlock()
		if got := r.token(t, mia, ""); !strings.HasPrefix(got, "access-") {
			t.Errorf("%s, mended: %s", fault, got)
		}
	}
}

// others are the connections of the token service.
// TestCanWiden: only for what the operator lists, and for what the person has not given yet.
func TestCanWiden(t *testing.T) {
	t.Parallel()
	mia := person("mia")
	for _, tt := range []struct {
		listed        []string
		given, needed string // given: what the server says; "": nothing
		want          bool
	}{
		{[]string{"read", "write"}, "read", "write", true},
		{[]string{"read", "write"}, "read", "read write", true},
		{[]string{"read", "write"}, "read", "", true},
		{[]string{"read", "write"}, "read write", "write", false}, // the service contradicts itself
		{[]string{"read", "write"}, "", "write", false},           // as it was asked for
		{[]string{"read", "write"}, "read", "write admin", false},
		{nil, "read", "write", false},
	} {
		r := setup(t, func(c *oauth.Config) {
			service := c.Services["issues"]
			service.Scopes = tt.listed
			c.Services["issues"] = service
		})
		r.change = func(path string, answer map[string]any) {
			if tt.given != "" && answer["access_token"] != nil {
				answer["scope"] = tt.given
			}
		}
		if can, err := r.CanWiden(t.Context(), mia, "issues", strings.Fields(tt.needed)); can || err != nil {
			t.Errorf("%+v: nobody is signed in: %v, %v", tt, can, err)
		}
		r.token(t, mia, r.comesBack(t, mia))
		if can, err := r.CanWiden(t.Context(), mia, "issues", strings.Fields(tt.needed)); can != tt.want || err != nil {
			t.Errorf("%+v: %v, %v", tt, can, err)
		}
		if says := strings.Contains(r.log.String(), "not listed"); says != strings.Contains(tt.needed, "admin") {
			t.Errorf("%+v: logged %s", tt, r.log)
		}
	}
	if can, err := setup(t).CanWiden(t.Context(), mia, "other", []string{"read"}); can || err != nil {
		t.Errorf("%v, %v", can, err)
	}
}

type others struct{ oauth.Tokens }

func (others) UserToken(_ context.Context, _ activity.Reference, connection, _ string) (connector.UserToken, error) {
	return connector.NewUserToken(connection, "of the token service", time.Time{}), nil
}

func TestOtherConnections(t *testing.T) {
	t.Parallel()
	r := setup(t, func(c *oauth.Config) { c.Others = others{} })
	if token, err := r.UserToken(t.Context(), person("mia"), "graph", ""); err != nil || token.Secret() != "of the token service" {
		t.Error(token.Secret(), err)
	}
	if _, err := r.ExchangeToken(t.Context(), person("mia"), "issues", "x"); !errors.Is(err, connector.ErrNoUserToken) {
		t.Error(err)
	}
	alone := setup(t)
	if _, err := alone.UserToken(t.Context(), person("mia"), "graph", ""); !errors.Is(err, connector.ErrNoTokenService) {
		t.Error(err)
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	const good = "https://a.example.com"
	_, err := oauth.New(oauth.Config{Keys: [][]byte{{1}}, Address: "http://bot.example.com", Services: map[string]connector.Service{
		"a": {Resource: "ftp://x", Issuer: "http://y"}, "b": {Resource: good, ClientID: "bot", Secret: "s3cret"},
		"c": {Resource: good, Issuer: good + "?tenant=1", Secret: "s3cret", Hosts: []string{good, "a/b", "", "b.example.com:8443"}},
		"d": {Resource: good, Scopes: []string{"read write", "", "mail.read"}, Private: make([]netip.Prefix, 1)},
		"e": {Resource: good, Scopes: []string{strings.Repeat("s", 2001)}}, "x?y": {Resource: good},
	}})
	want := `oauth: no Store
Keys: number 1 has 1 bytes, not 32
Address: it is not https
service a: Resource: it is not https
service a: Issuer: it is not https
service b: a Secret needs an Issuer
service c: Issuer: it has a query
service c: Hosts: "https://a.example.com" is no host such as oauth2.example.com or oauth2.example.com:8443
service c: Hosts: "a/b" is no host such as oauth2.example.com or oauth2.example.com:8443
service c: Hosts: "" is no host such as oauth2.example.com or oauth2.example.com:8443
service c: a Secret needs a ClientID
service d: Scopes: "read write" is no scope
service d: Scopes: "" is no scope
service d: Private: number 1 is no network
service e: Scopes: 2001 bytes, more than 2000
service "x?y": the name cannot end an address`
	if err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
	if err := (oauth.Config{Address: good + "?"}).Check(); err == nil || err.Error() != "Keys: there is none, and tokens are stored encrypted\nAddress: it has a query" {
		t.Error(err)
	}
}

func ExampleNew() {
	store, err := state.Open(context.Background(), "", state.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	_, err = oauth.New(oauth.Config{
		Store: store, Keys: [][]byte{make([]byte, 32)}, Address: "https://bot.example.com",
		Services: map[string]connector.Service{"issues": {Resource: "https://mcp.example.com/"}},
	})
	fmt.Println(err)
	// Output: <nil>
}
