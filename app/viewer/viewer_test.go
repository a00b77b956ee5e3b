package viewer_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/app/viewer"
	"github.com/planbot-go/planbot/state"
)

// TestStrangersKeepNobodyOut: anybody may begin a sign-in, as often as they like, and nothing is stored of
// it. Who began one can end it: the code then goes to the login service.
func TestStrangersKeepNobodyOut(t *testing.T) {
	t.Parallel()
	store, err := state.Open(t.Context(), "", state.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	login := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(login.Close)
	start := func(secret string, log *bytes.Buffer) func(path string, cookie *http.Cookie) *http.Response {
		v, err := viewer.New(viewer.Config{Store: store, Log: zerolog.New(log), SignIn: &viewer.SignIn{
			LoginURL: login.URL, Tenant: "t1", ClientID: "c1", ClientSecret: secret, URL: "https://turns.example.com",
		}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(v.Close)
		return func(path string, cookie *http.Cookie) *http.Response {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "https://turns.example.com"+path, http.NoBody)
			if cookie != nil {
				r.AddCookie(cookie)
			}
			w := httptest.NewRecorder()
			v.ServeHTTP(w, r)
			return w.Result()
		}
	}
	var log bytes.Buffer
	visit, other := start("s3cret", &log), start("another", &log)
	begin := func(visit func(string, *http.Cookie) *http.Response) (state string, cookie *http.Cookie) {
		resp := visit("/sign-in", nil)
		_ = resp.Body.Close()
		to, err := url.Parse(resp.Header.Get("Location"))
		if err != nil || len(resp.Cookies()) != 1 {
			t.Fatal(resp.Status, resp.Header)
		}
		state, cookie = to.Query().Get("state"), resp.Cookies()[0]
		if strings.Contains(to.String(), cookie.Value) {
			t.Errorf("the login service gets the cookie: %s", to)
		}
		return state, cookie
	}
	began, cookie := begin(visit)
	for range 11_000 {
		resp := visit("/sign-in", nil)
		_ = resp.Body.Close()
	}
	foreign, theirs := begin(other)
	second, _ := begin(visit)
	forged := *cookie
	forged.Value = strings.ToLower(cookie.Value)
	forgedState := fmt.Sprintf("%x", sha256.Sum256([]byte(forged.Value)))
	for name, tt := range map[string]struct {
		state  string
		cookie *http.Cookie
		why    string
	}{
		"who began":       {began, cookie, "the code was not taken"}, // by this login service
		"another sign-in": {second, cookie, "no sign-in of this browser"},
		"another secret":  {foreign, theirs, "the sign-in is over"},
		"a forged cookie": {forgedState, &forged, "the sign-in is over"},
		"no cookie":       {began, nil, "no sign-in of this browser"},
	} {
		log.Reset()
		resp := visit("/signed-in?code=x&state="+url.QueryEscape(tt.state), tt.cookie)
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusForbidden || !strings.Contains(log.String(), tt.why) {
			t.Errorf("%s: %s %s", name, resp.Status, &log)
		}
	}
}
