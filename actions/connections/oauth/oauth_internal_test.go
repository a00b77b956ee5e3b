package oauth

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/planbot-go/planbot/connector"
	"github.com/planbot-go/planbot/state"
)

// TestTheBuildBefore: who began to sign in with the build before, comes back to its address, and nobody
// else does. It is internal, as only the build before stores such sign-ins.
func TestTheBuildBefore(t *testing.T) {
	t.Parallel()
	redeemed := make(chan string, 10)
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		redeemed <- r.FormValue("redirect_uri")
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"access_token":"a","token_type":"Bearer"}`))
	}))
	t.Cleanup(service.Close)
	store, err := state.Open(t.Context(), "", state.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	s, err := New(Config{
		Store: store, Keys: [][]byte{make([]byte, keyBytes)}, Address: "https://bot.example.com", Services: map[string]connector.Service{"issues": {Resource: service.URL}},
	})
	if err != nil {
		t.Fatal(err)
	}
	at := server{Issuer: service.URL, Authorize: service.URL, Token: service.URL}
	before := started{Owner: "mia", Connection: "issues", Server: at, Client: "c", Verifier: "v"}
	now := before
	now.For, now.Callback = service.URL, s.callback("issues")
	for _, tt := range []struct {
		begun  started
		path   string
		status int
	}{
		{before, CallbackPath, http.StatusOK},
		{before, CallbackPath + "/issues", http.StatusBadRequest},
		{now, CallbackPath, http.StatusBadRequest},
		{now, CallbackPath + "/issues", http.StatusOK},
	} {
		if err := s.keep(t.Context(), documentKey("state", "x"), tt.begun, time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		for _, status := range []int{tt.status, http.StatusBadRequest} { // the state is used
			w := httptest.NewRecorder()
			s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, tt.path+"?code=c&state=x", http.NoBody))
			if w.Code != status {
				t.Errorf("%q on %s: %d %s", tt.begun.Callback, tt.path, w.Code, w.Body)
			}
		}
		if tt.status != http.StatusOK {
			continue
		}
		if got := <-redeemed; got != s.cfg.Address+tt.path {
			t.Errorf("redeemed for %s", got)
		}
	}
	if len(redeemed) > 0 {
		t.Error("a code was redeemed that should not have been")
	}
}
