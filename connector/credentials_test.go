package connector_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/connector"
)

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

func TestNewTokensRefuses(t *testing.T) {
	t.Parallel()
	cloud := publicCloud(t)
	open := cloud
	open.LoginURL = "http://login.example"
	with := func(c connector.Callers) connector.Credentials {
		return connector.Credentials{AppID: appID, Password: secret, Callers: c}
	}
	other, _ := pemOf(t, 2)
	_, mine := pemOf(t, 1)
	tests := []struct {
		name  string
		cloud connector.Cloud
		id    connector.Credentials
		want  string
	}{
		{"no app id", cloud, connector.Credentials{Password: secret}, "AppID"},
		{"nothing to prove it", cloud, connector.Credentials{AppID: appID}, "0 of password"},
		{"two proofs", cloud, connector.Credentials{AppID: appID, Password: secret, ManagedIdentity: true}, "2 of password"},
		{"plain http", open, connector.Credentials{AppID: appID, Password: secret}, "https"},
		{"tenant with a path", cloud, connector.Credentials{AppID: appID, Password: secret, Tenant: "a/../b"}, "tenant"},
		{"tenant of dots", cloud, connector.Credentials{AppID: appID, Password: secret, Tenant: ".."}, "tenant"},
		{"no certificate", cloud, connector.Credentials{AppID: appID, CertificateFile: fileWith(t, []byte(secret))}, "certificate"},
		{"no such certificate", cloud, connector.Credentials{AppID: appID, CertificateFile: "/nowhere.pem"}, "/nowhere.pem"},
		{"foreign key", cloud, connector.Credentials{AppID: appID, CertificateFile: fileWith(t, append(other, mine...))}, "belongs to none"},
		{"certificate without a key", cloud, connector.Credentials{AppID: appID, CertificateFile: fileWith(t, other)}, "certificate"},
		{"password of nothing", cloud, connector.Credentials{AppID: appID, Password: secret, CertificatePassword: secret}, "certificate password"},
		{"no federated token", cloud, connector.Credentials{AppID: appID, FederatedTokenFile: fileWith(t, []byte(secret))}, "no signed token"},
		{"no such federated token", cloud, connector.Credentials{AppID: appID, FederatedTokenFile: "/nowhere"}, "/nowhere"},
		{"callers of no tenant", cloud, with(connector.Callers{Bots: []string{callerID}}), "tenant"},
		{"callers of a domain", cloud, with(connector.Callers{Emulator: true, Tenant: "contoso.example"}), "tenant"},
		{"anonymous caller", cloud, with(connector.Callers{Tenant: tenantID, Bots: []string{"AnonymousSkill"}}), "AnonymousSkill"},
		{"the bot calls itself", cloud, with(connector.Callers{Tenant: tenantID, Bots: []string{strings.ToUpper(appID)}}), "itself"},
		{"a caller twice", cloud, with(connector.Callers{Tenant: tenantID, Bots: []string{callerID, strings.ToUpper(callerID)}}), "twice"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := connector.NewTokens(tt.cloud, tt.id, nil)
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), secret) {
				t.Errorf("err = %v, want %q in it", err, tt.want)
			}
		})
	}
}

func TestCredentialsDoNotPrintTheirSecret(t *testing.T) {
	t.Parallel()
	id := connector.Credentials{AppID: appID, Password: secret, CertificatePassword: secret}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		if s := fmt.Sprintf(format, id); strings.Contains(s, secret) {
			t.Errorf("%s prints %s", format, s)
		}
	}
}

// tokensOf are tokens for these credentials from a stand-in of the token endpoint.
func tokensOf(t *testing.T, id connector.Credentials, l *login) *connector.Tokens {
	t.Helper()
	id.AppID = appID
	tokens, err := connector.NewTokens(publicCloud(t), id, l)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tokens.Close)
	return tokens
}

func TestCertificateProvesTheApp(t *testing.T) {
	t.Parallel()
	first, keyOfFirst := pemOf(t, 1)
	second, keyOfSecond := pemOf(t, 2)
	file := fileWith(t, append(first, keyOfFirst...))
	l := &login{answer: grants(3600)}
	tokens := tokensOf(t, connector.Credentials{Tenant: "contoso.example", CertificateFile: file}, l)
	wantToken(t, tokens, "token-1")
	checkAssertion(t, l, 0, first, &key(1).PublicKey)

	// The certificate was renewed: the next token needs no restart. A chain comes along,
	// in any order.
	writeFile(t, file, append(append(first, second...), keyOfSecond...))
	tokens.Invalidate("token-1")
	wantToken(t, tokens, "token-2")
	checkAssertion(t, l, 1, second, &key(2).PublicKey)

	tokens = tokensOf(t, connector.Credentials{Tenant: "contoso.example", CertificateFile: file}, l)
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
			cloud := publicCloud(t)
			cloud.LoginURL = s.URL + "/x/"
			id.AppID, id.Tenant = appID, "t"
			tokens, err := connector.NewTokens(cloud, id, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer tokens.Close()
			wantToken(t, tokens, "one")
		})
	}
}

func TestFederatedTokenProvesTheApp(t *testing.T) {
	t.Parallel()
	file := fileWith(t, []byte("a.b.c\n"))
	l := &login{answer: grants(3600)}
	tokens := tokensOf(t, connector.Credentials{FederatedTokenFile: file}, l)
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
		tokens, err := connector.NewTokens(publicCloud(t), connector.Credentials{AppID: identity, ManagedIdentity: true}, m)
		if err != nil {
			t.Fatal(err)
		}
		defer tokens.Close()
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
		tokens, err := connector.NewTokens(publicCloud(t), connector.Credentials{AppID: rand.Text(), ManagedIdentity: true}, m)
		if err != nil {
			t.Fatal(err)
		}
		var failed *connector.TokenError
		token, err := tokens.Token(t.Context())
		if token != "" || !errors.As(err, &failed) || failed.Status != status || strings.Contains(err.Error(), secret) {
			t.Errorf("token %q, err = %v", token, err)
		}
		tokens.Close()
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
		tokens, err := connector.NewTokens(publicCloud(t), connector.Credentials{AppID: rand.Text(), ManagedIdentity: true}, m)
		if err != nil {
			t.Fatal(err)
		}
		defer tokens.Close()
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
		in, err := connector.CloudNamed(cloud)
		if err != nil {
			t.Fatal(err)
		}
		l := &login{answer: grants(3600)}
		m := &machine{answer: numbered, then: l}
		identity := rand.Text()
		tokens, err := connector.NewTokens(in, connector.Credentials{AppID: appID, Tenant: tenantID, FederatedClientID: identity}, m)
		if err != nil {
			t.Fatal(err)
		}
		wantToken(t, tokens, "token-1")
		tokens.Close()
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
	tokens := tokensOf(t, connector.Credentials{
		Password: secret, Callers: connector.Callers{Tenant: tenantID, Bots: []string{strings.ToUpper(callerID)}, Emulator: true},
	}, l)
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
	if token, err := tokens.Token(connector.ForCaller(t.Context(), tenantID)); !errors.Is(err, connector.ErrUnknownCaller) {
		t.Errorf("a stranger gets token %q, err = %v", token, err)
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
