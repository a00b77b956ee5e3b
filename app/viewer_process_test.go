package app

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/planbot-go/planbot/internal/cli"
)

// browser is an operator's browser, at the viewer of a bot.
type browser struct {
	*testing.T
	addr, host string
	cookies    map[string]string
}

// openViewer is a browser at the viewer of a bot with dead letters first and second.
func openViewer(t *testing.T, host string, environment ...string) (*browser, *process, *letters) {
	t.Helper()
	l := newLetters(t, redisServer(t))
	l.bury("first", secretRecord, "its plan does not fit")
	l.bury("second", secretRecord, "<script>alert(1)</script>\u202e")
	bot := startBot(t, append([]string{"REDIS_URL=" + l.url, "BOT_VIEWER_ADDR=127.0.0.1:0", "BOT_LOG_LEVEL=info"}, environment...)...)
	found := regexp.MustCompile(`"url":"http://([^/"]+)/","sign_in":`).FindStringSubmatch(bot.logged())
	if found == nil {
		t.Fatal("it has no viewer")
	}
	b := &browser{T: t, addr: found[1], host: host, cookies: map[string]string{}}
	if host == "" {
		b.host = b.addr
	}
	return b, bot, l
}

// do makes a request, as a page of the viewer does unless headers say otherwise.
func (b *browser) do(path string, form url.Values, headers ...string) (status int, to, body string) {
	b.Helper()
	method, content := http.MethodGet, io.Reader(http.NoBody)
	if form != nil {
		method, content = http.MethodPost, strings.NewReader(form.Encode())
	}
	req, err := http.NewRequestWithContext(b.Context(), method, "http://"+b.addr+path, content)
	if err != nil {
		b.Fatal(err)
	}
	req.Host = b.host
	req.Header.Set("Sec-Fetch-Site", "same-origin")
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
		if headers[i] == "Host" {
			req.Host = headers[i+1]
		}
	}
	for name, value := range b.cookies {
		req.AddCookie(&http.Cookie{Name: name, Value: value}) //nolint:gosec // as a browser sends it
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, _ := io.ReadAll(resp.Body)
	for _, c := range resp.Cookies() {
		if !c.Secure || !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Path != "/" || c.Domain != "" || !strings.HasPrefix(c.Name, "__Host-") {
			b.Errorf("cookie %v", c)
		}
		if b.cookies[c.Name] = c.Value; c.MaxAge < 0 {
			delete(b.cookies, c.Name)
		}
	}
	policy := resp.Header.Get("Content-Security-Policy")
	if !strings.Contains(policy, "script-src 'none'") || strings.Contains(string(raw), "<script") {
		b.Errorf("%s: policy %q of %s", path, policy, raw)
	}
	return resp.StatusCode, resp.Header.Get("Location"), string(raw)
}

// want makes a request and compares its status and what it shows.
func (b *browser) want(path string, form url.Values, status int, shown string, headers ...string) (body string) {
	b.Helper()
	got, to, body := b.do(path, form, headers...)
	if got != status || !strings.Contains(to+body, shown) {
		b.Errorf("%s: status %d to %q, want %d with %q:\n%s", path, got, to, status, shown, body)
	}
	return body
}

// TestViewerOnLoopback shows turns without content first, and writes down each look at content and
// each act.
func TestViewerOnLoopback(t *testing.T) {
	t.Parallel()
	b, bot, l := openViewer(t, "")
	start := b.want("/", nil, 200, `<label for="id">Turn id`)
	if !strings.Contains(start, `<a href="/turns/first">first</a>`) || !strings.Contains(start, "&lt;script&gt;alert(1)&lt;/script&gt;\uFFFD") || strings.Contains(start, "secret") {
		t.Errorf("start: %s", start)
	}
	b.want("/turns?id="+url.QueryEscape("Sorry. (turn FIRST)"), nil, 303, "/turns/first")
	b.want("/turns?id=%3F", nil, 400, "not the id of a turn")
	b.want("/turns/unknown", nil, 404, "Nothing is kept about this turn")
	if shown := b.want("/turns/first", nil, 200, "its plan does not fit"); !strings.Contains(shown, "createList - done") || strings.Contains(shown, "secret") {
		t.Errorf("turn: %s", shown)
	}
	for _, stranger := range [][]string{{"Host", "evil.example"}, {"Host", "localhost:1"}, {"X-Forwarded-For", "192.0.2.1"}} {
		b.want("/turns/first", nil, 403, "not the address", stranger...)
	}
	b.want("/turns/first/content", url.Values{}, 403, "", "Sec-Fetch-Site", "cross-site")
	if strings.Contains(bot.logged(), `"audit":"viewer"`) {
		t.Errorf("nobody has looked: %s", bot.logged())
	}
	b.want("/turns/first/content", nil, 405, "")
	b.want("/turns/first/content", url.Values{}, 200, "my secret")
	if line := bot.until("audit"); !strings.Contains(line, `"what":"content","turn":"first"`) {
		t.Errorf("audit: %s", line)
	}
	b.want("/turns/first/drop", url.Values{"reason": {"old"}, "typed": {"second"}}, 400, "type its id")
	b.want("/turns/first/drop", url.Values{"reason": {" "}, "typed": {"first"}}, 400, "Say why")
	b.want("/turns/first/drop", url.Values{"reason": {strings.Repeat("x", 201)}, "typed": {"first"}}, 400, "Say why")
	b.want("/turns/first/drop", url.Values{"reason": {"old news"}, "typed": {"first"}}, 200, "It is forgotten.")
	if line := bot.until("audit"); !strings.Contains(line, `"what":"drop","turn":"first"`) || !strings.Contains(line, `"reason":"old news"`) {
		t.Errorf("audit: %s", line)
	}
	b.want("/turns/first/retry", url.Values{"reason": {"again"}}, 404, "no dead letter")
	b.want("/turns/second/retry", url.Values{"reason": {"again"}}, 200, "It was put back.")
	if line := bot.until("audit"); !strings.Contains(line, `"what":"retry","turn":"second"`) {
		t.Errorf("audit: %s", line)
	}
	if _, out, _ := l.turns("show", "first"); out != "" {
		t.Errorf("there still is %s", out)
	}
	b.want("/sign-in", nil, 303, "/")
	b.want("/signed-in?code=x&state=x", nil, 404, "Nobody signs in here")
}

// login is Microsoft Entra's part of a sign-in. change changes the claims of the next ID token.
type login struct {
	*httptest.Server
	mu       sync.Mutex
	nonce    string
	verifier string
	change   jwt.MapClaims
}

const (
	viewerTenant = "11111111-2222-3333-4444-555555555555"
	viewerClient = "66666666-7777-8888-9999-000000000000"
)

func newLogin(t *testing.T) *login {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	l := &login{Server: httptest.NewServer(mux)}
	t.Cleanup(l.Close)
	at := "/" + viewerTenant
	mux.HandleFunc("GET "+at+"/v2.0/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":%q}`, l.URL+at+"/v2.0", l.URL+"/keys")
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		n, e := base64.RawURLEncoding.EncodeToString(key.N.Bytes()), base64.RawURLEncoding.EncodeToString(big.NewInt(int64(key.E)).Bytes())
		fmt.Fprintf(w, `{"keys":[{"kty":"RSA","use":"sig","kid":"k","n":%q,"e":%q}]}`, n, e)
	})
	mux.HandleFunc("POST "+at+"/oauth2/v2.0/token", func(w http.ResponseWriter, r *http.Request) {
		l.mu.Lock()
		defer l.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		if r.PostFormValue("code") != "good" || r.PostFormValue("client_secret") != "pw" || r.PostFormValue("code_verifier") == "" || r.PostFormValue("redirect_uri") != "https://turns.example/signed-in" {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"error":"invalid_grant","error_description":"not shown"}`)
			return
		}
		l.verifier = r.PostFormValue("code_verifier")
		claims := jwt.MapClaims{
			"iss": l.URL + at + "/v2.0", "aud": viewerClient, "sub": "s", "oid": "oid-olga", "tid": viewerTenant, "preferred_username": "olga@example.com",
			"nonce": l.nonce, "roles": []string{"Turns.Read"}, "exp": time.Now().Add(time.Hour).Unix(), "nbf": time.Now().Unix(),
		}
		for name, value := range l.change {
			claims[name] = value
		}
		token := jwt.NewWithClaims(jwt.SigningMethodRS256, claims)
		token.Header["kid"] = "k"
		signed, err := token.SignedString(key)
		if err != nil {
			t.Error(err)
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"access_token": "a", "token_type": "Bearer", "expires_in": 3600, "id_token": signed})
	})
	return l
}

// begin begins to sign in and returns the state.
func (b *browser) begin(l *login, from string) (state string) {
	b.Helper()
	status, to, _ := b.do(from, nil)
	u, err := url.Parse(to)
	q := u.Query()
	if status != http.StatusSeeOther || err != nil || !strings.HasPrefix(to, l.URL+"/"+viewerTenant+"/oauth2/v2.0/authorize?") || q.Get("code_challenge_method") != "S256" || q.Get("client_id") != viewerClient {
		b.Fatalf("status %d to %s", status, to)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.nonce = q.Get("nonce")
	return q.Get("state")
}

// TestViewerSignIn: roles say what a person may do.
func TestViewerSignIn(t *testing.T) {
	t.Parallel()
	l := newLogin(t)
	b, bot, _ := openViewer(t, "turns.example", "BOT_VIEWER_URL=https://turns.example", "BOT_VIEWER_TENANT_ID="+viewerTenant,
		"BOT_VIEWER_CLIENT_ID="+viewerClient, "BOT_VIEWER_CLIENT_SECRET=pw", "BOT_LOGIN_URL="+l.URL)
	b.want("/", nil, 403, "not the address", "Host", b.addr)
	b.want("/turns/first", nil, 303, "/sign-in?back=%2Fturns%2Ffirst")
	b.want("/turns/first/content", url.Values{}, 401, "no longer signed in")
	b.want("/style.css", nil, 200, "color-scheme")

	b.want("/signed-in?code=good&state="+b.begin(l, "/sign-in?back=%2Fturns%2Ffirst"), nil, 303, "/turns/first")
	if line := bot.until("audit"); !strings.Contains(line, `"what":"sign-in","user":"oid-olga"`) {
		t.Errorf("audit: %s", line)
	}
	if shown := b.want("/turns/first", nil, 200, "olga@example.com"); strings.Contains(shown, "Retry") || strings.Contains(shown, "what people wrote") {
		t.Errorf("shown %s", shown)
	}
	b.want("/turns/first/content", url.Values{}, 403, "app role Turns.Content")
	b.want("/turns/first/retry", url.Values{"reason": {"x"}}, 403, "app role Turns.Act")
	old := b.cookies["__Host-planbot-viewer"]
	place, _, _ := strings.Cut(old, ".")
	b.cookies["__Host-planbot-viewer"] = place + ".guessed"
	b.want("/", nil, 303, "/sign-in")
	b.want("/sign-out", url.Values{}, 200, "signed out") // of nothing
	b.cookies["__Host-planbot-viewer"] = old
	b.want("/turns/first", nil, 200, "olga@example.com")
	b.want("/sign-out", url.Values{}, 200, "signed out")
	b.cookies["__Host-planbot-viewer"] = old
	b.want("/", nil, 303, "/sign-in") // the session is gone, not only the cookie
	b.cookies = map[string]string{}

	for name, change := range map[string]jwt.MapClaims{
		"other nonce":    {"nonce": "x"},
		"other tenant":   {"tid": viewerClient},
		"other issuer":   {"iss": l.URL + "/" + viewerClient + "/v2.0"},
		"other audience": {"aud": viewerTenant},
		"two audiences":  {"aud": []string{viewerClient, viewerTenant}},
		"expired":        {"exp": time.Now().Add(-time.Hour).Unix()},
		"no person":      {"oid": ""},
	} {
		state := b.begin(l, "/sign-in")
		l.mu.Lock()
		l.change = change
		l.mu.Unlock()
		if b.want("/signed-in?code=good&state="+state, nil, 403, "could not be signed in"); b.cookies["__Host-planbot-viewer"] != "" {
			t.Errorf("%s: there is a session", name)
		}
	}
	l.mu.Lock()
	l.change = jwt.MapClaims{"roles": []string{"Other"}, "role\u017f": []string{"Turns.Read"}} // in another case
	l.mu.Unlock()
	b.want("/signed-in?code=bad&state="+b.begin(l, "/sign-in"), nil, 403, "could not be signed in")
	b.begin(l, "/sign-in")
	b.want("/signed-in?code=good&state=forged", nil, 403, "could not be signed in")
	state := b.begin(l, "/sign-in")
	b.want("/signed-in?code=good&state="+state, nil, 403, "app role Turns.Read")
	if b.cookies["__Host-planbot-viewer"] != "" {
		t.Error("somebody without a role has a session")
	}
	b.want("/signed-in?code=good&state="+state, nil, 403, "could not be signed in") // the browser has forgotten it

	b.cookies = map[string]string{}
	l.mu.Lock()
	l.change = jwt.MapClaims{"roles": []string{"Turns.Read", "Turns.Content", "Turns.Act"}}
	l.mu.Unlock()
	b.want("/signed-in?code=good&state="+b.begin(l, "/sign-in?back=//evil.example"), nil, 303, "/")
	b.want("/turns/first/content", url.Values{}, 200, "my secret")
	b.want("/turns/first/drop", url.Values{"reason": {"x"}, "typed": {"first"}}, 200, "It is forgotten.")
	if log := bot.logged(); strings.Contains(log, "not shown") || strings.Contains(log, "eyJ") || strings.Contains(log, `"pw"`) || !strings.Contains(log, `"user":"oid-olga"`) {
		t.Errorf("log: %s", log)
	}
}

// TestViewerSettings: it does not start without sign-in where others reach it.
func TestViewerSettings(t *testing.T) {
	t.Parallel()
	whole := []string{"--bot-viewer-url=https://turns.example", "--bot-viewer-tenant-id=" + viewerTenant, "--bot-viewer-client-id=" + viewerClient, "--bot-viewer-client-secret=pw"}
	for name, c := range map[string]struct {
		args []string
		err  string
	}{
		"for others":   {[]string{"--bot-viewer-addr=:8080"}, "set BOT_VIEWER_URL, BOT_VIEWER_TENANT_ID, BOT_VIEWER_CLIENT_ID, BOT_VIEWER_CLIENT_SECRET"},
		"half":         {append([]string{"--bot-viewer-addr=127.0.0.1:0"}, whole[:3]...), "set BOT_VIEWER_CLIENT_SECRET"},
		"no viewer":    {whole, "needs BOT_VIEWER_ADDR"},
		"a name":       {append([]string{"--bot-viewer-addr=:8080"}, append(whole, "--bot-viewer-tenant-id=contoso.com")...), "no GUID"},
		"a path":       {append([]string{"--bot-viewer-addr=:8080"}, append(whole, "--bot-viewer-url=https://turns.example/x")...), "has a path"},
		"plain http":   {append([]string{"--bot-viewer-addr=:8080"}, append(whole, "--bot-viewer-url=http://turns.example")...), "has to be https"},
		"no log":       {[]string{"--bot-viewer-addr=127.0.0.1:0", "--bot-log-level=disabled"}, "contradicts BOT_LOG_LEVEL"},
		"the bot's":    {[]string{"--bot-viewer-addr=127.0.0.1:3978", "--port=3978"}, "has the same port as"},
		"no host:port": {[]string{"--bot-viewer-addr=x"}, "is not host:port"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if code, _, errs := execute(t, "", append([]string{"serve", "--port=0"}, c.args...)...); code != cli.ExitUsage || !strings.Contains(errs, c.err) {
				t.Errorf("code %d: %s", code, errs)
			}
		})
	}
}
