package connector_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"math/big"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/connector"
)

const (
	appID      = "0b0c0d0e-1111-2222-3333-444455556666"
	tenantID   = "7a7b7c7d-1111-2222-3333-444455556666"
	callerID   = "9c9d9e9f-1111-2222-3333-444455556666"
	serviceURL = "https://smba.trafficmanager.net/emea/"
)

// key returns one of a few RSA keys, made once: they are slow to make.
func key(i int) *rsa.PrivateKey { return keys()[i] }

var keys = sync.OnceValue(func() []*rsa.PrivateKey {
	out := make([]*rsa.PrivateKey, 3)
	for i := range out {
		k, err := rsa.GenerateKey(rand.Reader, 2048)
		if err != nil {
			panic(err)
		}
		out[i] = k
	}
	return out
})

// jwk describes a key as a key set does.
func jwk(id string, k *rsa.PublicKey, endorsements ...string) map[string]any {
	return map[string]any{
		"kty": "RSA", "use": "sig", "kid": id, "x5t": id,
		"n":            base64.RawURLEncoding.EncodeToString(k.N.Bytes()),
		"e":            base64.RawURLEncoding.EncodeToString(big.NewInt(int64(k.E)).Bytes()),
		"endorsements": endorsements,
	}
}

// issuer stands in for the Bot Framework's metadata and keys.
type issuer struct {
	*httptest.Server
	metadataGets, keyGets atomic.Int64

	mu       sync.Mutex
	keys     []map[string]any
	metadata http.HandlerFunc // replaces the answer when set
	document http.HandlerFunc
}

func newIssuer(t testing.TB) *issuer {
	t.Helper()
	i := &issuer{keys: []map[string]any{jwk("k0", &key(0).PublicKey, "msteams", "webchat")}}
	mux := http.NewServeMux()
	metadata := func(w http.ResponseWriter, r *http.Request) {
		i.metadataGets.Add(1)
		if h := i.override(&i.metadata); h != nil {
			h(w, r)
			return
		}
		writeJSON(w, map[string]any{"issuer": "x", "jwks_uri": i.URL + "/keys"})
	}
	mux.HandleFunc("GET /meta", metadata)
	mux.HandleFunc("GET /"+tenantID+"/v2.0/.well-known/openid-configuration", metadata)
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, r *http.Request) {
		i.keyGets.Add(1)
		if h := i.override(&i.document); h != nil {
			h(w, r)
			return
		}
		i.mu.Lock()
		defer i.mu.Unlock()
		writeJSON(w, map[string]any{"keys": i.keys})
	})
	i.Server = httptest.NewServer(mux)
	t.Cleanup(i.Close)
	return i
}

func (i *issuer) override(h *http.HandlerFunc) http.HandlerFunc {
	i.mu.Lock()
	defer i.mu.Unlock()
	return *h
}

func (i *issuer) set(change func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	change()
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(v); err != nil {
		panic(err)
	}
}

// clock is moved by hand.
type clock struct{ offset atomic.Int64 }

func (c *clock) now() time.Time          { return time.Now().Add(time.Duration(c.offset.Load())) }
func (c *clock) advance(d time.Duration) { c.offset.Add(int64(d)) }

// door is a guard before a stand-in issuer.
type door struct {
	*connector.Guard
	issuer *issuer
	clock  *clock
}

func newDoor(t testing.TB) *door {
	t.Helper()
	return newDoorWith(t, func(*connector.Config) {})
}

func newDoorWith(t testing.TB, change func(*connector.Config)) *door {
	t.Helper()
	d := &door{issuer: newIssuer(t), clock: &clock{}}
	cfg := withApp(http.DefaultTransport.(*http.Transport).Clone())
	cfg.MetadataURL = d.issuer.URL + "/meta"
	change(&cfg)
	d.Guard = newGuard(t, cfg)
	d.SetClock(d.clock.now)
	return d
}

// authenticate is what the webhook does with an activity.
func authenticate(t testing.TB, g *connector.Guard, header []string, a *activity.Activity) (*connector.Claims, error) {
	t.Helper()
	claims, err := g.Verify(t.Context(), header)
	if err == nil {
		err = claims.Permit(a)
	}
	return claims, err
}

func (d *door) Authenticate(t testing.TB, header []string, a *activity.Activity) (*connector.Claims, error) {
	t.Helper()
	return authenticate(t, d.Guard, header, a)
}

// withApp is a bot with an app id, over a transport and with more allowed hosts.
func withApp(rt http.RoundTripper, allowed ...string) connector.Config {
	return connector.Config{AppID: appID, Credentials: connector.Credentials{Password: secret}, Transport: rt, AllowedHosts: allowed}
}

func newGuard(t testing.TB, cfg connector.Config) *connector.Guard {
	t.Helper()
	g, _, err := connector.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	return g
}

// newClient has the tokens in place of the credentials' own, if there are any.
func newClient(t testing.TB, cfg connector.Config, tokens connector.Tokens) *connector.Client {
	t.Helper()
	_, c, err := connector.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if tokens != nil {
		c.SetTokens(tokens)
	}
	return c
}

func fixedToken(token string) connector.Tokens {
	return connector.TokensFrom(func(context.Context) (string, error) { return token, nil })
}

// goodClaims are those of a channel's token.
func goodClaims(now time.Time) jwt.MapClaims {
	return jwt.MapClaims{
		"iss": "https://api.botframework.com", "aud": appID, "serviceurl": serviceURL,
		"nbf": now.Add(-time.Minute).Unix(), "exp": now.Add(time.Hour).Unix(),
	}
}

// sign makes a token by key 0, its header changed by the pairs of extra.
func sign(t testing.TB, claims jwt.Claims, extra map[string]any) string {
	t.Helper()
	return signBy(t, jwt.SigningMethodRS256, key(0), claims, extra)
}

func signBy(t testing.TB, m jwt.SigningMethod, k any, claims jwt.Claims, extra map[string]any) string {
	t.Helper()
	token := jwt.NewWithClaims(m, claims)
	token.Header["kid"] = "k0"
	for name, v := range extra {
		token.Header[name] = v
		if v == nil {
			delete(token.Header, name)
		}
	}
	s, err := token.SignedString(k)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func message() *activity.Activity {
	return &activity.Activity{Type: activity.Message, ChannelID: activity.Teams, ServiceURL: serviceURL, Text: "hello"}
}

var rs256 = jwt.SigningMethodRS256
