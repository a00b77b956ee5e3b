package connector_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/connector"
)

const secret = "hunter2~very-secret"

// login stands in for a token endpoint, without a network, so that it works in
// the time of a synctest bubble.
type login struct {
	mu     sync.Mutex
	asked  []url.Values
	paths  []string
	at     []time.Duration
	start  time.Time
	answer func(n int) (status int, body string)
	delay  time.Duration
}

func (l *login) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	l.asked, l.paths, l.at = append(l.asked, form), append(l.paths, r.Method+" "+r.URL.String()), append(l.at, time.Since(l.start))
	n := len(l.asked)
	l.mu.Unlock()
	select {
	case <-time.After(l.delay):
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	status, text := l.answer(n)
	w := httptest.NewRecorder()
	w.WriteHeader(status)
	_, _ = w.WriteString(text)
	return w.Result(), nil
}

func (l *login) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.asked)
}

// grants numbers the tokens that it gives out.
func grants(seconds int) func(int) (int, string) {
	return func(n int) (int, string) {
		return 200, fmt.Sprintf(`{"token_type":"Bearer","expires_in":%d,"access_token":"token-%d"}`, seconds, n)
	}
}

func newTokens(t *testing.T, l *login) connector.Tokens {
	t.Helper()
	l.start = time.Now()
	cfg := withApp(l)
	cfg.Credentials.Tenant = "contoso.example"
	return tokensOf(t, cfg)
}

func TestTokenRequest(t *testing.T) {
	t.Parallel()
	tests := []struct{ cloud, tenant, loginURL, want, scope string }{
		{"public", "", "", "https://login.microsoftonline.com/botframework.com/oauth2/v2.0/token", "https://api.botframework.com/.default"},
		{"public", "0a0b0c0d-1111-2222-3333-444455556666", "", "https://login.microsoftonline.com/0a0b0c0d-1111-2222-3333-444455556666/oauth2/v2.0/token", "https://api.botframework.com/.default"},
		{"gcch", "", "", "https://login.microsoftonline.us/MicrosoftServices.onmicrosoft.us/oauth2/v2.0/token", "https://api.botframework.us/.default"},
		{"china", "t", "", "https://login.partner.microsoftonline.cn/t/oauth2/v2.0/token", "https://api.botframework.azure.cn/.default"},
		{"public", "t", "http://127.0.0.1:9/x/", "http://127.0.0.1:9/x/t/oauth2/v2.0/token", "https://api.botframework.com/.default"},
	}
	for _, tt := range tests {
		l := &login{answer: grants(3600)}
		cfg := withApp(l)
		cfg.Cloud, cfg.LoginURL, cfg.Credentials.Tenant = tt.cloud, tt.loginURL, tt.tenant
		wantToken(t, tokensOf(t, cfg), "token-1")
		form := url.Values{"grant_type": {"client_credentials"}, "client_id": {appID}, "client_secret": {secret}, "scope": {tt.scope}}
		if diff := cmp.Diff([]url.Values{form}, l.asked); diff != "" {
			t.Errorf("form (-want +got):\n%s", diff)
		}
		if l.paths[0] != "POST "+tt.want {
			t.Errorf("asked %s, want %s", l.paths[0], tt.want)
		}
	}
}

func TestTokenIsSharedAndRenewedEarly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &login{answer: grants(3600), delay: time.Second}
		tokens := newTokens(t, l)
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() { wantToken(t, tokens, "token-1") })
		}
		wg.Wait()
		time.Sleep(54 * time.Minute)
		wantToken(t, tokens, "token-1")
		if n := l.count(); n != 1 {
			t.Errorf("%d requests, want 1", n)
		}
		time.Sleep(2 * time.Minute) // less than 5 minutes are left
		wantToken(t, tokens, "token-1")
		wantToken(t, tokens, "token-1") // renewed meanwhile, once
		time.Sleep(2 * time.Second)
		wantToken(t, tokens, "token-2")
		if n := l.count(); n != 2 {
			t.Errorf("%d requests, want 2", n)
		}
	})
}

func wantToken(t *testing.T, tokens connector.Tokens, want string) {
	t.Helper()
	if got, err := tokens.Token(t.Context()); err != nil || got != want {
		t.Errorf("token %q, %v; want %q", got, err, want)
	}
}

func TestShortTokensAreKeptHalfTheirLife(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &login{answer: grants(60)}
		tokens := newTokens(t, l)
		for range 29 {
			wantToken(t, tokens, "token-1")
			time.Sleep(time.Second)
		}
		time.Sleep(2 * time.Second)
		wantToken(t, tokens, "token-2")
	})
}

func TestAFailedRenewalKeepsTheToken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &login{answer: func(n int) (int, string) {
			if n > 1 {
				return 503, "down"
			}
			return grants(3600)(n)
		}}
		tokens := newTokens(t, l)
		wantToken(t, tokens, "token-1")
		time.Sleep(59 * time.Minute)
		for range 10 {
			wantToken(t, tokens, "token-1")
			synctest.Wait()
		}
		if n := l.count(); n != 2 {
			t.Errorf("%d requests, want 2: one renewal, then a pause", n)
		}
		time.Sleep(2 * time.Minute)
		if token, err := tokens.Token(t.Context()); err == nil {
			t.Errorf("token %q outlived its end", token)
		}
	})
}

func TestTokenBackOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &login{answer: func(int) (int, string) { return 500, "" }}
		tokens := newTokens(t, l)
		for range 600 { // a minute of callers
			if _, err := tokens.Token(t.Context()); err == nil {
				t.Fatal("a token from nowhere")
			}
			time.Sleep(100 * time.Millisecond)
		}
		if n := l.count(); n < 6 || n > 11 {
			t.Errorf("%d requests in a minute", n)
		}
		for i := 1; i < len(l.at); i++ {
			if gap := l.at[i] - l.at[i-1]; gap > 16*time.Second {
				t.Errorf("%v between two requests", gap)
			}
		}
		l.answer = grants(3600)
		time.Sleep(15 * time.Second)
		if _, err := tokens.Token(t.Context()); err != nil {
			t.Errorf("after the trouble: %v", err)
		}
	})
}

func TestTokenFaults(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, body string
		status     int
		want       string
	}{
		{"wrong secret", `{"error":"invalid_client","error_description":"AADSTS7000215: Invalid client secret ` + secret + ` provided"}`, 401, "401 invalid_client AADSTS7000215"},
		{"prose as a code", `{"error":"the secret ` + secret + ` is wrong"}`, 400, "status 400"},
		{"HTML", "<html>" + secret, 500, "status 500"},
		{"redirect", "", 302, "status 302"},
		{"no JSON", "token", 200, "cannot parse json"},
		{"empty token", `{"access_token":"","expires_in":3600}`, 200, "missing access_token"},
		{"no token", `{}`, 200, "missing access_token"},
		{"token with a line break", `{"access_token":"a\r\nb"}`, 200, "without a usable token"},
		{"token of another type", `{"access_token":"a","token_type":"mac"}`, 200, "without a bearer token"},
		{"too long", `{"access_token":"` + strings.Repeat("a", 2<<20) + `"}`, 200, "cannot parse json"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tokens := newTokens(t, &login{answer: func(int) (int, string) { return tt.status, tt.body }})
			token, err := tokens.Token(t.Context())
			var e *connector.TokenError
			if token != "" || !errors.As(err, &e) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("token %q, err %v; want %q", token, err, tt.want)
			}
			if err != nil && strings.Contains(err.Error(), secret) {
				t.Errorf("the secret is in %v", err)
			}
		})
	}
}

func TestHangingTokenEndpoint(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &login{answer: grants(3600), delay: time.Hour}
		tokens := newTokens(t, l)
		_, err := tokens.Token(t.Context())
		if took := time.Since(l.start); err == nil || took != 10*time.Second {
			t.Errorf("err = %v after %v, want one after 10 s", err, took)
		}
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := tokens.Token(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("err = %v, want the caller's deadline", err)
		}
		time.Sleep(10 * time.Second) // until the request ends
	})
}

// TestSendWaitsForTheTokenEndpoint: trouble that passes costs no message.
func TestSendWaitsForTheTokenEndpoint(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		status int
		body   string
		ok     bool
	}{
		{500, "", true},
		{503, `{"error":"x"}`, true},
		{429, `{"error":"x"}`, true},
		{400, `{"error":"x"}`, false},
		{401, `{"error":"invalid_client"}`, false},
		{200, "<html>maintenance", true},
		{200, `{"access_token":""}`, true},
		{302, "", true},
		{401, "<html>the proxy wants a password", true},
		{404, `{"error":"x"}`, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := &login{answer: func(n int) (int, string) {
				if n == 1 {
					return tt.status, tt.body
				}
				return grants(3600)(n)
			}}
			tokens := newTokens(t, l)
			script := &script{steps: []func(*http.Request) (*http.Response, error){says(200)}}
			_, err := scripted(t, script, tokens).Send(t.Context(), reference(serviceURL), message())
			if (err == nil) != tt.ok {
				t.Errorf("after %d %s: err = %v", tt.status, tt.body, err)
			}
			if tt.ok && (len(script.auth) != 1 || script.auth[0] != "Bearer token-2") || !tt.ok && len(script.auth) != 0 {
				t.Errorf("after %d %s: sent with %q", tt.status, tt.body, script.auth)
			}
		})
	}
}

// TestRefusedTokenIsFetchedAnew is the 401 with the real source of tokens.
func TestRefusedTokenIsFetchedAnew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tokens := newTokens(t, &login{answer: grants(3600)})
		script := &script{steps: []func(*http.Request) (*http.Response, error){says(401), says(200)}}
		if _, err := scripted(t, script, tokens).Send(t.Context(), reference(serviceURL), message()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"Bearer token-1", "Bearer token-2"}, script.auth); diff != "" {
			t.Errorf("tokens (-want +got):\n%s", diff)
		}
	})
}

// TestATokenThatIsRefusedForEver is not replaced for each message.
func TestATokenThatIsRefusedForEver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &login{answer: grants(24 * 3600)}
		tokens := newTokens(t, l)
		status := http.StatusUnauthorized
		c := scripted(t, roundTripper(func(r *http.Request) (*http.Response, error) { return says(status)(r) }), tokens)
		sent := 0
		send := func() error { // to another conversation each time, for its limits
			sent++
			_, err := c.Send(t.Context(), thread(fmt.Sprint(sent), ""), message())
			return err
		}
		for range 20 {
			var refused *connector.Error
			if err := send(); !errors.As(err, &refused) || refused.Status != status {
				t.Errorf("err = %v, want the 401", err)
			}
		}
		if n := l.count(); n != 2 {
			t.Errorf("%d tokens for twenty messages at once, want the first and one in its place", n)
		}
		for range 3600 {
			_ = send()
			time.Sleep(time.Second)
		}
		if n := l.count(); n < 55 || n > 65 {
			t.Errorf("%d tokens in an hour, want one a minute", n)
		}
		status = http.StatusOK
		if err := send(); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Hour)
		status = http.StatusUnauthorized // the next time that one is refused, it is replaced at once
		before := l.count()
		_ = send()
		if n := l.count() - before; n != 1 {
			t.Errorf("%d new tokens, want one", n)
		}
		time.Sleep(time.Minute)
		_ = send()
		if n := l.count() - before; n != 2 {
			t.Errorf("%d new tokens, want two", n)
		}
	})
}

// fileWith is a file of that content.
func fileWith(t *testing.T, content []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "proof")
	writeFile(t, file, content)
	return file
}

func writeFile(t *testing.T, file string, content []byte) {
	t.Helper()
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	type callers = connector.Callers
	type credentials = connector.Credentials
	with := func(id credentials, c callers) connector.Config {
		return connector.Config{AppID: appID, Credentials: id, Callers: c}
	}
	good := credentials{Password: secret}
	other, _ := pemOf(t, 2)
	_, mine := pemOf(t, 1)
	tests := []struct {
		name string
		cfg  connector.Config
		want string
	}{
		{"credentials of nobody", connector.Config{Credentials: good}, "without an AppID"},
		{"callers of nobody", connector.Config{Callers: callers{Tenant: tenantID, Emulator: true}}, "without an AppID"},
		{"cloud", connector.Config{Cloud: "mars", Tries: -1, UserAgent: "a\nb"}, "not one of public, gcch, dod, china\nTries is negative\nUserAgent"},
		{"plain metadata", connector.Config{AppID: appID, Credentials: good, MetadataURL: "http://login.botframework.com/meta"}, "https"},
		{"plain login", connector.Config{AppID: appID, Credentials: good, LoginURL: "http://login.example"}, "https"},
		{"nothing to prove it", with(credentials{}, callers{}), "0 of password"},
		{"two proofs", with(credentials{Password: secret, ManagedIdentity: true}, callers{}), "2 of password"},
		{"tenant with a path", with(credentials{Password: secret, Tenant: "a/../b"}, callers{}), "tenant"},
		{"tenant of dots", with(credentials{Password: secret, Tenant: ".."}, callers{}), "tenant"},
		{"no certificate", with(credentials{CertificateFile: fileWith(t, []byte(secret))}, callers{}), "certificate"},
		{"no such certificate", with(credentials{CertificateFile: "/nowhere.pem"}, callers{}), "/nowhere.pem"},
		{"foreign key", with(credentials{CertificateFile: fileWith(t, append(other, mine...))}, callers{}), "belongs to none"},
		{"certificate without a key", with(credentials{CertificateFile: fileWith(t, other)}, callers{}), "certificate"},
		{"password of nothing", with(credentials{Password: secret, CertificatePassword: secret}, callers{}), "certificate password"},
		{"no federated token", with(credentials{FederatedTokenFile: fileWith(t, []byte(secret))}, callers{}), "no signed token"},
		{"no such federated token", with(credentials{FederatedTokenFile: "/nowhere"}, callers{}), "/nowhere"},
		{"callers of no tenant", with(good, callers{Bots: []string{callerID}}), "tenant"},
		{"callers of a domain", with(good, callers{Emulator: true, Tenant: "contoso.example"}), "tenant"},
		{"anonymous caller", with(good, callers{Tenant: tenantID, Bots: []string{"AnonymousSkill"}}), "AnonymousSkill"},
		{"the bot calls itself", with(good, callers{Tenant: tenantID, Bots: []string{strings.ToUpper(appID)}}), "itself"},
		{"a caller twice", with(good, callers{Tenant: tenantID, Bots: []string{callerID, strings.ToUpper(callerID)}}), "twice"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, _, err := connector.New(tt.cfg)
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), secret) {
				t.Errorf("err = %v, want %q in it", err, tt.want)
			}
		})
	}
}

func TestCredentialsDoNotPrintTheirSecret(t *testing.T) {
	t.Parallel()
	id := connector.Credentials{Password: secret, CertificatePassword: secret}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		if s := fmt.Sprintf(format, id); strings.Contains(s, secret) {
			t.Errorf("%s prints %s", format, s)
		}
	}
}

// tokensOf are the tokens of a bot.
func tokensOf(t *testing.T, cfg connector.Config) connector.Tokens {
	t.Helper()
	return newClient(t, cfg, nil).Tokens()
}

// provedBy is a bot with these credentials and a stand-in of the token endpoint.
func provedBy(id connector.Credentials, rt http.RoundTripper) connector.Config {
	return connector.Config{AppID: appID, Credentials: id, Transport: rt}
}

func TestCertificateProvesTheApp(t *testing.T) {
	t.Parallel()
	first, keyOfFirst := pemOf(t, 1)
	second, keyOfSecond := pemOf(t, 2)
	file := fileWith(t, append(first, keyOfFirst...))
	l := &login{answer: grants(3600)}
	tokens := tokensOf(t, provedBy(connector.Credentials{Tenant: "contoso.example", CertificateFile: file}, l))
	wantToken(t, tokens, "token-1")
	checkAssertion(t, l, 0, first, &key(1).PublicKey)

	// The certificate was renewed: the next token needs no restart. A chain comes along,
	// in any order.
	writeFile(t, file, append(append(first, second...), keyOfSecond...))
	tokens.Invalidate("token-1")
	wantToken(t, tokens, "token-2")
	checkAssertion(t, l, 1, second, &key(2).PublicKey)

	tokens = tokensOf(t, provedBy(connector.Credentials{Tenant: "contoso.example", CertificateFile: file}, l))
	writeFile(t, file, []byte(secret))
	var failed *connector.TokenError
	if token, err := tokens.Token(t.Context()); !errors.As(err, &failed) || strings.Contains(err.Error(), secret) {
		t.Errorf("token %q, err = %v", token, err)
	}
}

// checkAssertion looks at the n-th request of a token.
func checkAssertion(t *testing.T, l *login, n int, certificate []byte, public *rsa.PublicKey) {
	t.Helper()
	form := l.asked[n]
	if got := form.Get("client_assertion_type"); got != "urn:ietf:params:oauth:client-assertion-type:jwt-bearer" {
		t.Errorf("type %q", got)
	}
	if form.Get("client_id") != appID || form.Get("grant_type") != "client_credentials" || form.Has("client_secret") {
		t.Errorf("form %v", form)
	}
	endpoint := "https://login.microsoftonline.com/contoso.example/oauth2/v2.0/token"
	token, err := jwt.Parse(form.Get("client_assertion"), func(*jwt.Token) (any, error) { return public, nil },
		jwt.WithValidMethods([]string{"PS256"}), jwt.WithAudience(endpoint), jwt.WithIssuer(appID), jwt.WithSubject(appID), jwt.WithExpirationRequired())
	if err != nil {
		t.Fatalf("assertion: %v", err)
	}
	if jti, _ := token.Claims.(jwt.MapClaims)["jti"].(string); len(jti) < 16 {
		t.Errorf("jti %q", jti)
	}
	block, _ := pem.Decode(certificate)
	thumbprint := sha256.Sum256(block.Bytes)
	if got := token.Header["x5t#S256"]; got != base64.RawURLEncoding.EncodeToString(thumbprint[:]) {
		t.Errorf("x5t#S256 %v", got)
	}
	if chain, _ := token.Header["x5c"].([]any); len(chain) == 0 || chain[0] != base64.StdEncoding.EncodeToString(block.Bytes) {
		t.Errorf("x5c %v", chain)
	}
}

// TestLoginServerOnThisMachine: every proof goes to the token endpoint that BOT_LOGIN_URL
// names and to nothing else, also over http and below a path, whatever the answer calls
// itself.
func TestLoginServerOnThisMachine(t *testing.T) {
	t.Parallel()
	certificate, private := pemOf(t, 1)
	for name, id := range map[string]connector.Credentials{
		"password":        {Password: secret},
		"certificate":     {CertificateFile: fileWith(t, append(certificate, private...))},
		"federated token": {FederatedTokenFile: fileWith(t, []byte("a.b.c"))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if got := r.Method + " " + r.URL.Path; got != "POST /x/t/oauth2/v2.0/token" {
					t.Errorf("asked for %s", got)
				}
				_, _ = fmt.Fprint(w, `{"token_type":"Bearer","expires_in":"3600","access_token":"one"}`) // as text/plain
			}))
			defer s.Close()
			id.Tenant = "t"
			cfg := provedBy(id, nil)
			cfg.LoginURL = s.URL + "/x/"
			tokens := tokensOf(t, cfg)
			wantToken(t, tokens, "one")
		})
	}
}

func TestFederatedTokenProvesTheApp(t *testing.T) {
	t.Parallel()
	file := fileWith(t, []byte("a.b.c\n"))
	l := &login{answer: grants(3600)}
	tokens := tokensOf(t, provedBy(connector.Credentials{FederatedTokenFile: file}, l))
	wantToken(t, tokens, "token-1")
	writeFile(t, file, []byte("d.e.f")) // as Kubernetes does
	tokens.Invalidate("token-1")
	wantToken(t, tokens, "token-2")
	if first, second := l.asked[0].Get("client_assertion"), l.asked[1].Get("client_assertion"); first != "a.b.c" || second != "d.e.f" {
		t.Errorf("assertions %q, %q", first, second)
	}
}

// machine stands in for the endpoint of managed identities. azidentity keeps their
// tokens for the whole process, so that each test needs an identity of its own.
type machine struct {
	asked  atomic.Int64
	query  atomic.Pointer[string]
	answer func(n int64) (int, string)
	then   http.RoundTripper // for all other hosts
}

func (m *machine) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Host != "169.254.169.254" {
		return m.then.RoundTrip(r)
	}
	m.query.Store(&r.URL.RawQuery)
	status, body := m.answer(m.asked.Add(1))
	w := httptest.NewRecorder()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.WriteString(body)
	res := w.Result()
	res.Request = r
	return res, nil
}

func numbered(n int64) (int, string) {
	return 200, fmt.Sprintf(`{"access_token":"machine-%d","token_type":"Bearer","expires_in":"3600","resource":"r"}`, n)
}

// TestManagedIdentityTokenIsNew: azidentity keeps tokens, too, and would hand the
// old one back.
func TestManagedIdentityTokenIsNew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := &machine{answer: numbered}
		identity := rand.Text()
		tokens := tokensOf(t, connector.Config{AppID: identity, Credentials: connector.Credentials{ManagedIdentity: true}, Transport: m})
		wantToken(t, tokens, "machine-1")
		if q := *m.query.Load(); !strings.Contains(q, "client_id="+identity) || !strings.Contains(q, "resource=https%3A%2F%2Fapi.botframework.com&") && !strings.HasSuffix(q, "resource=https%3A%2F%2Fapi.botframework.com") {
			t.Errorf("asked %s", q)
		}
		tokens.Invalidate("machine-1")
		wantToken(t, tokens, "machine-2")
		time.Sleep(55*time.Minute + time.Second)
		wantToken(t, tokens, "machine-2")
		synctest.Wait()
		wantToken(t, tokens, "machine-3")
	})
}

func TestManagedIdentityFaults(t *testing.T) {
	t.Parallel()
	for _, status := range []int{400, 403} {
		m := &machine{answer: func(int64) (int, string) { return status, `{"error":"` + secret + `"}` }}
		tokens := tokensOf(t, connector.Config{AppID: rand.Text(), Credentials: connector.Credentials{ManagedIdentity: true}, Transport: m})
		var failed *connector.TokenError
		token, err := tokens.Token(t.Context())
		if token != "" || !errors.As(err, &failed) || failed.Status != status || strings.Contains(err.Error(), secret) {
			t.Errorf("token %q, err = %v", token, err)
		}
	}
}

// TestTokenThatHasRunOutAlready is what a machine gets whose clock is ahead. Not every
// message asks for another one.
func TestTokenThatHasRunOutAlready(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := &machine{answer: func(int64) (int, string) {
			return 200, fmt.Sprintf(`{"access_token":"old","token_type":"Bearer","expires_on":"%d","resource":"r"}`, time.Now().Add(-time.Hour).Unix())
		}}
		tokens := tokensOf(t, connector.Config{AppID: rand.Text(), Credentials: connector.Credentials{ManagedIdentity: true}, Transport: m})
		for range 600 { // a minute of messages
			if token, err := tokens.Token(t.Context()); token != "" || err == nil || !strings.Contains(err.Error(), "clock") {
				t.Fatalf("token %q, err = %v", token, err)
			}
			time.Sleep(100 * time.Millisecond)
		}
		if n := m.asked.Load(); n < 6 || n > 11 {
			t.Errorf("%d requests in a minute", n)
		}
	})
}

func TestFederatedManagedIdentityProvesTheApp(t *testing.T) {
	t.Parallel()
	for cloud, audience := range map[string]string{
		"public": "api%3A%2F%2FAzureADTokenExchange", "gcch": "api%3A%2F%2FAzureADTokenExchangeUSGov", "china": "api%3A%2F%2FAzureADTokenExchangeChina",
	} {
		l := &login{answer: grants(3600)}
		m := &machine{answer: numbered, then: l}
		identity := rand.Text()
		cfg := provedBy(connector.Credentials{Tenant: tenantID, FederatedClientID: identity}, m)
		cfg.Cloud = cloud
		tokens := tokensOf(t, cfg)
		wantToken(t, tokens, "token-1")
		q := *m.query.Load() + "&"
		if !strings.Contains(q, "client_id="+identity+"&") || !strings.Contains(q, "resource="+audience+"&") {
			t.Errorf("%s: asked the machine %s", cloud, q)
		}
		if form := l.asked[0]; form.Get("client_assertion") != "machine-1" || form.Get("client_id") != appID {
			t.Errorf("%s: form %v", cloud, form)
		}
	}
}

func TestTokensOfCallers(t *testing.T) {
	t.Parallel()
	l := &login{answer: grants(3600)}
	cfg := withApp(l)
	cfg.Callers = connector.Callers{Tenant: tenantID, Bots: []string{strings.ToUpper(callerID)}, Emulator: true}
	tokens := tokensOf(t, cfg)
	ask := func(app, want string) {
		t.Helper()
		token, err := tokens.Token(connector.ForCaller(t.Context(), app))
		if err != nil || token != want {
			t.Errorf("for %q: token %q, %v; want %q", app, token, err, want)
		}
	}
	ask("", "token-1")
	ask(callerID, "token-2")
	ask(strings.ToUpper(callerID), "token-2")
	ask(appID, "token-1") // the Emulator wants what a channel gets
	tokens.Invalidate("token-2")
	ask(callerID, "token-3")
	ask("", "token-1")
	var asked []string
	for i, form := range l.asked {
		asked = append(asked, strings.TrimPrefix(l.paths[i], "POST https://login.microsoftonline.com/")+" "+form.Get("scope"))
	}
	want := []string{
		"botframework.com/oauth2/v2.0/token https://api.botframework.com/.default",
		tenantID + "/oauth2/v2.0/token " + callerID + "/.default",
		tenantID + "/oauth2/v2.0/token " + callerID + "/.default",
	}
	if diff := cmp.Diff(want, asked); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	if token, err := tokens.Token(connector.ForCaller(t.Context(), tenantID)); !errors.Is(err, connector.ErrBadCall) {
		t.Errorf("an unknown caller gets token %q, err = %v", token, err)
	}
}

// pemOf is a certificate of the i-th key, and that key.
func pemOf(t *testing.T, i int) (certificate, private []byte) {
	t.Helper()
	k := key(i)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	der := certificateOf(t, k, time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})
}

func certificateOf(t *testing.T, k *rsa.PrivateKey, from, to time.Time) []byte {
	t.Helper()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "bot"}, NotBefore: from, NotAfter: to}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &k.PublicKey, k)
	if err != nil {
		t.Fatal(err)
	}
	return der
}
