package connector_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

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

func newTokens(t *testing.T, l *login) *connector.Tokens {
	t.Helper()
	l.start = time.Now()
	tokens, err := connector.NewTokens(publicCloud(t), connector.Credentials{AppID: appID, Tenant: "contoso.example", Password: secret}, l)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tokens.Close)
	return tokens
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
		cloud, err := connector.CloudNamed(tt.cloud)
		if err != nil {
			t.Fatal(err)
		}
		if tt.loginURL != "" {
			cloud.LoginURL = tt.loginURL
		}
		l := &login{answer: grants(3600)}
		tokens, err := connector.NewTokens(cloud, connector.Credentials{AppID: appID, Tenant: tt.tenant, Password: secret}, l)
		if err != nil {
			t.Fatal(err)
		}
		if token, err := tokens.Token(t.Context()); err != nil || token != "token-1" {
			t.Errorf("token %q, %v", token, err)
		}
		tokens.Close()
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
		defer tokens.Close()
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

func wantToken(t *testing.T, tokens *connector.Tokens, want string) {
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
		defer tokens.Close()
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
		defer tokens.Close()
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
		defer tokens.Close()
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
		defer tokens.Close()
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
			defer tokens.Close()
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
		defer tokens.Close()
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
		defer tokens.Close()
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
