package connector_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// verify presents a token of the given key id, good in every other way.
func (d *door) verify(t testing.TB, kid string, keyIndex int) error {
	t.Helper()
	claims := goodClaims(d.clock.now())
	token := signBy(t, rs256, key(keyIndex), claims, map[string]any{"kid": kid})
	_, err := d.Verify(t.Context(), []string{"Bearer " + token})
	return err
}

// want presents the token again while a fetch goes on, however slow the machine is.
func (d *door) want(t *testing.T, kid string, keyIndex, want int) {
	t.Helper()
	err := d.verify(t, kid, keyIndex)
	for want != 503 && fetching(err) {
		err = d.verify(t, kid, keyIndex)
	}
	if got := status(t, err); got != want {
		t.Errorf("token of %s: status %d (%v), want %d", kid, got, err, want)
	}
}

func fetching(err error) bool {
	return err != nil && strings.Contains(err.Error(), "cannot check the token yet")
}

func (d *door) wantFetches(t *testing.T, want int64) {
	t.Helper()
	if got := d.issuer.metadataGets.Load(); got != want {
		t.Errorf("%d fetches, want %d", got, want)
	}
}

func TestKeysAreFetchedOnce(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	d.wantFetches(t, 0)
	token := sign(t, goodClaims(time.Now()), nil)
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if _, err := d.Verify(t.Context(), []string{"Bearer " + token}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	d.wantFetches(t, 1)
	if got := d.issuer.keyGets.Load(); got != 1 {
		t.Errorf("%d key fetches, want 1", got)
	}
}

func TestForeignTokensFetchNothing(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	claims := goodClaims(time.Now())
	claims["iss"] = "https://sts.windows.net/72f988bf-86f1-41af-91ab-2d7cd011db47/"
	for _, header := range [][]string{nil, {"x"}, {"Bearer a.b.c"}, {"Bearer " + sign(t, claims, nil)}} {
		if _, err := d.Verify(t.Context(), header); status(t, err) != 401 {
			t.Errorf("header %q: %v, want 401", header, err)
		}
	}
	d.wantFetches(t, 0)
}

func TestRotationRightAfterTheStart(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	d.want(t, "k0", 0, 200)
	d.issuer.set(func() { d.issuer.keys = []map[string]any{jwk("k1", &key(1).PublicKey, "msteams")} })
	d.want(t, "k1", 1, 200)
	d.want(t, "k0", 0, 401) // withdrawn, and no second fetch for it
	d.wantFetches(t, 2)
}

func TestFloodOfUnknownKeys(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	d.want(t, "k0", 0, 200)
	flood := func() {
		var wg sync.WaitGroup
		for i := range 40 {
			wg.Go(func() { d.want(t, fmt.Sprintf("evil%d", i), 1, 401) })
		}
		wg.Wait()
	}
	flood()
	d.wantFetches(t, 2)
	d.clock.advance(4 * time.Minute)
	flood()
	d.wantFetches(t, 2)
	d.clock.advance(2 * time.Minute)
	flood()
	d.wantFetches(t, 3)
	d.want(t, "k0", 0, 200)
}

func TestFailedRefreshesDoNotUseUpTheWindow(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	d.want(t, "k0", 0, 200)
	d.issuer.set(func() { d.issuer.document = answer(500, "") })
	d.want(t, "k1", 1, 401)
	d.want(t, "k1", 1, 401) // within two seconds: not asked again
	d.wantFetches(t, 2)
	d.issuer.set(func() {
		d.issuer.document = nil
		d.issuer.keys = append(d.issuer.keys, jwk("k1", &key(1).PublicKey, "msteams"))
	})
	d.clock.advance(3 * time.Second)
	d.want(t, "k1", 1, 200)
	d.want(t, "k0", 0, 200)
	d.wantFetches(t, 3)
}

func TestNoKeysYet(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	d.issuer.set(func() { d.issuer.metadata = answer(500, "") })
	for range 5 {
		err := d.verify(t, "k0", 0)
		if status(t, err) != 503 || !strings.Contains(err.Error(), "no keys of the token issuer") {
			t.Errorf("err = %v, want 503 for want of keys", err)
		}
	}
	d.wantFetches(t, 1)
	d.clock.advance(3 * time.Second)
	d.want(t, "k0", 0, 503)
	d.wantFetches(t, 2)
	d.issuer.set(func() { d.issuer.metadata = nil })
	d.clock.advance(3 * time.Second)
	d.want(t, "k0", 0, 200)
}

func TestOldKeysAreRenewed(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	d.want(t, "k0", 0, 200)
	d.clock.advance(22 * time.Hour)
	d.want(t, "k0", 0, 200)
	d.wantFetches(t, 1)
	d.issuer.set(func() { d.issuer.keys = []map[string]any{jwk("k1", &key(1).PublicKey, "msteams")} })
	d.clock.advance(3 * time.Hour)
	d.want(t, "k0", 0, 401) // withdrawn by the issuer more than a day ago
	d.want(t, "k1", 1, 200)
	d.wantFetches(t, 2)
}

// TestASlowIssuerHoldsNobodyUp: old keys count until there are new ones.
func TestASlowIssuerHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	d.want(t, "k0", 0, 200)
	asked, release := make(chan struct{}, 9), make(chan struct{})
	d.issuer.set(func() {
		d.issuer.document = func(w http.ResponseWriter, _ *http.Request) {
			asked <- struct{}{}
			<-release
			writeJSON(w, map[string]any{"keys": []any{jwk("k0", &key(0).PublicKey, "msteams")}})
		}
	})
	d.clock.advance(24*time.Hour + time.Minute)
	start := time.Now()
	d.want(t, "k0", 0, 200)
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("waited %v for new keys", took)
	}
	<-asked
	close(release)
	d.wantFetches(t, 2)
}

func TestStaleKeysKeepWorking(t *testing.T) {
	t.Parallel()
	bad := map[string]http.HandlerFunc{
		"server error": answer(500, ""),
		"not found":    answer(404, "{}"),
		"HTML":         answer(200, "<html>hello</html>"),
		"no keys":      answer(200, `{}`),
		"empty set":    answer(200, `{"keys":[]}`),
		"null set":     answer(200, `{"keys":null}`),
		"EC key":       answer(200, `{"keys":[{"kty":"EC","kid":"k0","crv":"P-256","x":"AA","y":"AA"}]}`),
		"odd keys":     answer(200, `{"keys":[1,"x",null,{"kty":"RSA","kid":5},{"kty":"RSA","kid":"k0","n":"","e":""},{"kty":"RSA","kid":"k0","n":"AQAB","e":"AQAB"},{"kty":"RSA","kid":"k0","n":"!!","e":"AQAB"}]}`),
		"too long":     answer(200, `{"keys":[`+strings.Repeat(" ", 2<<20)+`]}`),
		"redirect":     func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) },
		"cut off":      answer(200, `{"keys":[{"kty":`),
		"error with keys": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadGateway)
			writeJSON(w, map[string]any{"keys": []any{jwk("k2", &key(2).PublicKey, "msteams")}})
		},
	}
	for name, h := range bad {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDoor(t)
			d.want(t, "k0", 0, 200)
			d.issuer.set(func() { d.issuer.document = h })
			for range 3 {
				d.clock.advance(25 * time.Hour)
				d.want(t, "k0", 0, 200)
			}
			d.wantFetches(t, 4)
			d.want(t, "k2", 2, 401)
		})
	}
}

func TestHangingIssuer(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	d.want(t, "k0", 0, 200)
	release := make(chan struct{})
	defer close(release)
	d.issuer.set(func() {
		d.issuer.document = func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-release:
			case <-r.Context().Done():
			}
		}
	})
	d.clock.advance(25 * time.Hour)
	start := time.Now()
	d.want(t, "k0", 0, 200)
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("a request with a known key waited %v for a hanging issuer", took)
	}
	start = time.Now()
	if err := d.verify(t, "k2", 2); status(t, err) != 503 || !fetching(err) { // anybody can invent key ids
		t.Errorf("err = %v, want 503 while nobody can know", err)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("a request with an unknown key held its connection for %v", took)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	token := signBy(t, rs256, key(2), goodClaims(d.clock.now()), map[string]any{"kid": "k2"})
	if _, err := d.Verify(ctx, []string{"Bearer " + token}); status(t, err) != 503 {
		t.Errorf("err = %v, want 503", err)
	}
}

// TestRotationWithASlowIssuer: what is signed with the new key is not lost while that is
// on its way, since the channel comes back after a 503.
func TestRotationWithASlowIssuer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		newest := 0
		slow := roundTripper(func(r *http.Request) (*http.Response, error) {
			time.Sleep(650 * time.Millisecond)
			w := httptest.NewRecorder()
			if strings.HasSuffix(r.URL.Path, "openidconfiguration") {
				writeJSON(w, map[string]any{"jwks_uri": "https://login.botframework.com/keys"})
			} else {
				writeJSON(w, map[string]any{"keys": []any{jwk(fmt.Sprintf("k%d", newest), &key(newest).PublicKey, "msteams")}})
			}
			return w.Result(), nil
		})
		d := &door{Guard: newGuard(t, withApp(slow)), clock: &clock{}}
		d.want(t, "k0", 0, 200)
		newest = 1
		d.want(t, "k1", 1, 503)
		time.Sleep(300 * time.Millisecond)
		d.want(t, "k1", 1, 200)
		d.want(t, "k2", 2, 401)
	})
}

func TestKeysOfOddSets(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	d.issuer.set(func() {
		encryption := jwk("k2", &key(2).PublicKey, "msteams")
		encryption["use"] = "enc"
		other := jwk("k2", &key(2).PublicKey, "msteams")
		other["alg"] = "RS512"
		d.issuer.keys = []map[string]any{
			{"kty": "EC", "kid": "k0"},
			encryption, other,
			jwk("k0", &key(0).PublicKey, "msteams"),
			jwk("k0", &key(1).PublicKey, "msteams"), // the same id again: the first one counts
		}
	})
	d.want(t, "k0", 0, 200)
	d.want(t, "k0", 1, 401)
	d.want(t, "k2", 2, 401)
}

func TestKeysURLMustBeNear(t *testing.T) {
	t.Parallel()
	for _, uri := range []string{
		"", "x", "file:///etc/passwd", "http://169.254.169.254/keys", "http://127.0.0.1:1/keys",
		"https://evil.example/keys", "https://127.0.0.1.evil.example/keys", "//evil.example/keys",
	} {
		t.Run(uri, func(t *testing.T) {
			t.Parallel()
			d := newDoor(t)
			d.issuer.set(func() { d.issuer.metadata = answer(200, fmt.Sprintf(`{"jwks_uri":%q}`, uri)) })
			err := d.verify(t, "k0", 0)
			if status(t, err) != 503 || !strings.Contains(err.Error(), "jwks_uri") {
				t.Errorf("err = %v, want 503 for the jwks_uri", err)
			}
			if got := d.issuer.keyGets.Load(); got != 0 {
				t.Errorf("%d key fetches, want 0", got)
			}
		})
	}
}

// TestKeysURLOnTheDomain looks at https, with a transport that answers for
// every host.
func TestKeysURLOnTheDomain(t *testing.T) {
	t.Parallel()
	tests := []struct {
		uri  string
		want int
	}{
		{"https://login.botframework.com/v1/.well-known/keys", 200},
		{"https://keys.botframework.com/keys", 200},
		{"https://LOGIN.botframework.com:443/keys", 200},
		{"http://login.botframework.com/keys", 503},
		{"https://login.botframework.com:8443/keys", 503},
		{"https://user@login.botframework.com/keys", 503},
		{"https://evilbotframework.com/keys", 503},
		{"https://botframework.com.evil.example/keys", 503},
		{"https://login.microsoftonline.com/keys", 503},
	}
	for _, tt := range tests {
		t.Run(tt.uri, func(t *testing.T) {
			t.Parallel()
			rt := roundTripper(func(r *http.Request) (*http.Response, error) {
				w := httptest.NewRecorder()
				if strings.HasSuffix(r.URL.Path, "openidconfiguration") {
					writeJSON(w, map[string]any{"jwks_uri": tt.uri})
				} else {
					writeJSON(w, map[string]any{"keys": []any{jwk("k0", &key(0).PublicKey, "msteams")}})
				}
				return w.Result(), nil
			})
			_, err := newGuard(t, withApp(rt)).Verify(t.Context(), []string{"Bearer " + sign(t, goodClaims(time.Now()), nil)})
			if got := status(t, err); got != tt.want {
				t.Errorf("status %d (%v), want %d", got, err, tt.want)
			}
		})
	}
}

func answer(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body)) // the client may have hung up
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
