package entra_test

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/planbot-go/planbot/internal/entra"
)

const secret = "hush-hush"

// login stands in for all of Microsoft's servers.
type login struct {
	asked  []string // hosts and forms of requests for tokens
	status int
	body   string
}

func (l *login) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	w.Header().Set("Content-Type", "application/json")
	root := "https://" + r.URL.Host + "/tenant"
	switch {
	case strings.Contains(r.URL.Path, "/discovery/"):
		host := strings.Split(r.URL.Query().Get("authorization_endpoint"), "/")[2]
		_, _ = w.WriteString(`{"tenant_discovery_endpoint":"` + root + `/v2.0/.well-known/openid-configuration","metadata":[{"aliases":["` + host + `"],"preferred_network":"` + host + `","preferred_cache":"` + host + `"}]}`)
	case strings.HasSuffix(r.URL.Path, "/openid-configuration"):
		_, _ = w.WriteString(`{"token_endpoint":"` + root + `/oauth2/v2.0/token","authorization_endpoint":"` + root + `/oauth2/v2.0/authorize","issuer":"` + root + `/v2.0"}`)
	default:
		_ = r.ParseForm()
		l.asked = append(l.asked, r.URL.Host+" "+r.Form.Get("scope")+r.Form.Get("resource")+" "+r.Form.Get("client_id")+" "+r.Form.Get("client_assertion"))
		w.WriteHeader(l.status)
		_, _ = w.WriteString(l.body)
	}
	res := w.Result()
	res.Request = r
	return res, nil
}

// Not parallel, as the rest: the identity is in the environment.
func TestWorkloadIdentity(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("signed."+secret), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AZURE_FEDERATED_TOKEN_FILE", file)
	t.Setenv("AZURE_CLIENT_ID", "app")
	t.Setenv("AZURE_TENANT_ID", "tenant")
	t.Setenv("AZURE_TOKEN_CREDENTIALS", "WorkloadIdentityCredential")
	for cloud, want := range map[string]string{
		"":       "login.microsoftonline.com https://cognitiveservices.azure.com/.default",
		"public": "login.microsoftonline.com https://cognitiveservices.azure.com/.default",
		"gcch":   "login.microsoftonline.us https://cognitiveservices.azure.us/.default",
		"dod":    "login.microsoftonline.us https://cognitiveservices.azure.us/.default",
		"china":  "login.chinacloudapi.cn https://cognitiveservices.azure.cn/.default",
	} {
		l := &login{status: 200, body: `{"access_token":"t1","token_type":"Bearer","expires_in":3600}`}
		token, err := entra.Token(cloud, &http.Client{Transport: l})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second is the first
			if got, err := token(t.Context()); got != "t1" || err != nil {
				t.Errorf("%q: token %q, %v", cloud, got, err)
			}
		}
		if len(l.asked) != 1 || !strings.HasPrefix(l.asked[0], want) || !strings.HasSuffix(l.asked[0], " app signed."+secret) {
			t.Errorf("%q: asked %q, want one for %s", cloud, l.asked, want)
		}
	}

	l := &login{status: 401, body: `{"error":"invalid_client","error_description":"AADSTS700024: Client assertion ` + secret + ` is not within its valid time range."}`}
	token, err := entra.Token("", &http.Client{Transport: l})
	if err != nil {
		t.Fatal(err)
	}
	const want = "WorkloadIdentityCredential authentication failed, status 401, AADSTS700024"
	if got, err := token(t.Context()); got != "" || err == nil || err.Error() != want {
		t.Errorf("token %q, error %v, want %s", got, err, want)
	}
}

// TestManagedIdentity is one of App Service and Container Apps, whose endpoint is in the environment.
func TestManagedIdentity(t *testing.T) {
	identity := rand.Text() // azidentity caches tokens for the whole process
	var query string
	answer, status := fmt.Sprintf(`{"access_token":"t2","token_type":"Bearer","expires_on":"%d","resource":"r"}`, time.Now().Add(time.Hour).Unix()), 200
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if query = r.URL.RawQuery; r.Header.Get("X-IDENTITY-HEADER") != secret {
			t.Error("another header")
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(answer))
	}))
	defer server.Close()
	t.Setenv("IDENTITY_ENDPOINT", server.URL)
	t.Setenv("IDENTITY_HEADER", secret)
	t.Setenv("AZURE_CLIENT_ID", identity)
	token, err := entra.Token("", nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := token(t.Context()); got != "t2" || err != nil || !strings.Contains(query, "client_id="+identity) || !strings.Contains(query, "resource=https%3A%2F%2Fcognitiveservices.azure.com") {
		t.Errorf("token %q, %v, asked %s", got, err, query)
	}
	t.Setenv("AZURE_CLIENT_ID", rand.Text())
	answer, status = `{"error":"`+secret+`"}`, 400
	if token, err = entra.Token("", nil); err != nil {
		t.Fatal(err)
	}
	_, err = token(t.Context())
	if err == nil || strings.Contains(err.Error(), secret) || !strings.Contains(err.Error(), "ManagedIdentityCredential") ||
		!strings.Contains(err.Error(), "status 400") || strings.Contains(err.Error(), "\n") {
		t.Errorf("error %v", err)
	}
}

// TestTokenEndsWithItsContext: also while another call looks for the identity.
func TestTokenEndsWithItsContext(t *testing.T) {
	asked, over := make(chan bool, 9), make(chan bool)
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked <- true
		<-over
	}))
	defer server.Close()
	defer close(over)
	t.Setenv("IDENTITY_ENDPOINT", server.URL)
	t.Setenv("IDENTITY_HEADER", secret)
	t.Setenv("AZURE_CLIENT_ID", rand.Text())
	token, err := entra.Token("", nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() {
		_, err := token(ctx)
		first <- err
	}()
	<-asked
	late, end := context.WithTimeout(t.Context(), 0)
	defer end()
	if _, err := token(late); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the second: %v", err)
	}
	cancel()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("the first: %v", err)
	}
}

func TestWrongSelection(t *testing.T) {
	t.Setenv("AZURE_TOKEN_CREDENTIALS", "nobody")
	token, err := entra.Token("", nil)
	if err == nil || !strings.Contains(err.Error(), "AZURE_TOKEN_CREDENTIALS") {
		t.Errorf("got %v", err)
	}
	if _, later := token(t.Context()); !errors.Is(later, err) {
		t.Errorf("then %v", later)
	}
}

func TestIdentity(t *testing.T) {
	t.Parallel()
	for claims, want := range map[string]string{
		`{"appid":"a1","tid":"t1","idtyp":"app"}`: "app a1, tenant t1",
		`{"appid":"a1","tid":"t1","xms_mirid":"/subscriptions/s/providers/Microsoft.ManagedIdentity/userAssignedIdentities/planbot"}`: "app a1, managed identity planbot, tenant t1",
		`{"appid":"04b07795","upn":"mia@contoso.example","tid":"t1"}`:                                                                 "mia@contoso.example, tenant t1",
		`{"appid":"a\u001b[1m"}`: "app a [1m",
		`{}`:                     "",
		`[`:                      "",
	} {
		if got := entra.Identity("e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".x"); got != want {
			t.Errorf("%s: %q, want %q", claims, got, want)
		}
	}
	for _, odd := range []string{"", "opaque", "a.%.c"} {
		if got := entra.Identity(odd); got != "" {
			t.Errorf("%q: %q", odd, got)
		}
	}
}

// TestNoManagedIdentity: azidentity quotes what the machine's endpoint answers.
func TestNoManagedIdentity(t *testing.T) {
	t.Setenv("AZURE_TOKEN_CREDENTIALS", "ManagedIdentityCredential")
	t.Setenv("AZURE_CLIENT_ID", "") // so that it is put back
	if err := os.Unsetenv("AZURE_CLIENT_ID"); err != nil {
		t.Fatal(err)
	}
	token, err := entra.Token("", &http.Client{Transport: &login{status: 400, body: `{"error":"` + secret + `"}`}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = token(t.Context()); err == nil || strings.Contains(err.Error(), secret) || !strings.Contains(err.Error(), "ManagedIdentityCredential") {
		t.Errorf("error %v", err)
	}
}
