package connector_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/connector"
)

// status is what the webhook would answer: 200 when err is nil.
func status(t testing.TB, err error) int {
	t.Helper()
	if err == nil {
		return 200
	}
	var refusal *connector.AuthError
	if !errors.As(err, &refusal) {
		t.Fatalf("err = %v (%T), want an AuthError", err, err)
	}
	return refusal.Status
}

func TestGuardOneClaimWrong(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	now := time.Now()
	in := func(s int) int64 { return now.Add(time.Duration(s) * time.Second).Unix() }
	tests := []struct {
		name   string
		claims map[string]any // nil value: claim absent
		want   int
	}{
		{"as it should be", nil, 200},
		{"aud array", map[string]any{"aud": []string{"other", appID}}, 200},
		{"aud upper case", map[string]any{"aud": strings.ToUpper(appID)}, 200},
		{"own appid", map[string]any{"appid": appID}, 200},
		{"own azp", map[string]any{"azp": appID}, 200},
		{"exp within the skew", map[string]any{"exp": in(-290)}, 200},
		{"nbf within the skew", map[string]any{"nbf": in(290)}, 200},
		{"fractional times", map[string]any{"exp": float64(in(60)) + .5, "nbf": float64(in(-60)) + .5}, 200},
		{"unknown claims", map[string]any{"x": map[string]any{"y": []int{1}}}, 200},
		{"serviceurl without the slash", map[string]any{"serviceurl": strings.TrimSuffix(serviceURL, "/")}, 200},
		{"serviceurl host upper case", map[string]any{"serviceurl": "HTTPS://SMBA.trafficmanager.net/emea/"}, 200},

		{"no iss", map[string]any{"iss": nil}, 401},
		{"iss with slash", map[string]any{"iss": "https://api.botframework.com/"}, 401},
		{"iss upper case", map[string]any{"iss": "https://API.botframework.com"}, 401},
		{"iss of the government cloud", map[string]any{"iss": "https://api.botframework.us"}, 401},
		{"iss of the emulator", map[string]any{"iss": "https://sts.windows.net/d6d49420-f39b-4df7-a1dc-d59a935871db/"}, 401},
		{"iss number", map[string]any{"iss": 1}, 401},
		{"no aud", map[string]any{"aud": nil}, 401},
		{"aud foreign", map[string]any{"aud": "99999999-1111-2222-3333-444455556666"}, 401},
		{"aud empty array", map[string]any{"aud": []string{}}, 401},
		{"aud array with a number", map[string]any{"aud": []any{appID, 1}}, 401},
		{"aud object", map[string]any{"aud": map[string]any{"a": appID}}, 401},
		{"aud number", map[string]any{"aud": 7}, 401},
		{"no exp", map[string]any{"exp": nil}, 401},
		{"exp over", map[string]any{"exp": in(-310)}, 401},
		{"exp string", map[string]any{"exp": "9999999999"}, 401},
		{"exp huge", map[string]any{"exp": jsonNumber("1e400")}, 401},
		{"exp beyond int64", map[string]any{"exp": jsonNumber("9223372036854775808")}, 401},
		{"exp null", map[string]any{"exp": jsonNumber("null")}, 401},
		{"exp object", map[string]any{"exp": map[string]any{}}, 401},
		{"no nbf", map[string]any{"nbf": nil}, 401},
		{"nbf ahead", map[string]any{"nbf": in(310)}, 401},
		{"nbf beyond int64", map[string]any{"nbf": jsonNumber("-1e300")}, 401},
		{"nbf string", map[string]any{"nbf": "0"}, 401},
		{"foreign appid", map[string]any{"appid": "99999999-1111-2222-3333-444455556666"}, 401},
		{"foreign azp", map[string]any{"azp": "99999999-1111-2222-3333-444455556666"}, 401},
		{"anonymous skill", map[string]any{"appid": "AnonymousSkill"}, 401},
		{"appid number", map[string]any{"appid": 5}, 401},
		{"no serviceurl", map[string]any{"serviceurl": nil}, 401},
		{"serviceurl array", map[string]any{"serviceurl": []string{serviceURL}}, 401},
		{"serviceurl forged", map[string]any{"serviceurl": "https://evil.example/"}, 401},
		{"serviceurl other path", map[string]any{"serviceurl": "https://smba.trafficmanager.net/amer/"}, 401},
		{"serviceurl in other case of path", map[string]any{"serviceurl": "https://smba.trafficmanager.net/EMEA/"}, 401},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			claims := goodClaims(now)
			maps.Copy(claims, tt.claims)
			maps.DeleteFunc(claims, func(_ string, v any) bool { return v == nil })
			_, err := d.Authenticate(t.Context(), []string{"Bearer " + sign(t, claims, nil)}, message())
			if got := status(t, err); got != tt.want {
				t.Errorf("status %d (%v), want %d", got, err, tt.want)
			}
		})
	}
}

// jsonNumber is written into a token as it stands.
type jsonNumber string

func (n jsonNumber) MarshalJSON() ([]byte, error) { return []byte(n), nil }

func TestGuardClaimTwice(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	good := sign(t, goodClaims(time.Now()), nil)
	raw, err := base64.RawURLEncoding.DecodeString(strings.Split(good, ".")[1])
	if err != nil {
		t.Fatal(err)
	}
	doubled := strings.Replace(string(raw), "{", `{"aud":"`+appID+`",`, 1)
	_, err = d.Verify(t.Context(), []string{"Bearer " + sign(t, rawClaims{body: doubled}, nil)})
	if got := status(t, err); got != 401 {
		t.Errorf("status %d, want 401", got)
	}
}

// rawClaims are signed as they stand.
type rawClaims struct {
	jwt.MapClaims
	body string
}

func (c rawClaims) MarshalJSON() ([]byte, error) { return []byte(c.body), nil }

func TestGuardHeaderOfToken(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	claims := goodClaims(time.Now())
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(&key(0).PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	publicPEM := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})
	attacker := map[string]any{"jku": d.issuer.URL + "/evil", "x5u": d.issuer.URL + "/evil", "jwk": jwk("k0", &key(1).PublicKey, "msteams")}
	tests := []struct{ name, token string }{
		{"none", signBy(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, claims, nil) + "AA"},
		{"HS256 with the public key", signBy(t, jwt.SigningMethodHS256, publicPEM, claims, nil)},
		{"HS256 with the modulus", signBy(t, jwt.SigningMethodHS256, key(0).N.Bytes(), claims, nil)},
		{"the playground's dummy", signBy(t, jwt.SigningMethodHS256, []byte("dummy-secret-key"), jwt.MapClaims{"serviceurl": serviceURL, "iat": 1}, nil)},
		{"RS384", signBy(t, jwt.SigningMethodRS384, key(0), claims, nil)},
		{"RS512", signBy(t, jwt.SigningMethodRS512, key(0), claims, nil)},
		{"PS256", signBy(t, jwt.SigningMethodPS256, key(0), claims, nil)},
		{"ES256", signBy(t, jwt.SigningMethodES256, ec, claims, nil)},
		{"RS256 by another key", signBy(t, jwt.SigningMethodRS256, key(1), claims, nil)},
		{"key of the header", signBy(t, jwt.SigningMethodRS256, key(1), claims, attacker)},
		{"no kid", sign(t, claims, map[string]any{"kid": nil})},
		{"empty kid", sign(t, claims, map[string]any{"kid": ""})},
		{"kid number", sign(t, claims, map[string]any{"kid": 3})},
		{"kid array", sign(t, claims, map[string]any{"kid": []string{"k0"}})},
		{"alg lower case", tamperAlg(sign(t, claims, nil), "rs256")},
		{"alg number", sign(t, claims, map[string]any{"alg": 5})},
		{"critical extension", sign(t, claims, map[string]any{"crit": []string{"b64"}, "b64": false})},
		{"body changed", tamperBody(sign(t, claims, nil))},
		{"signature cut", strings.TrimRight(sign(t, claims, nil)[:300], ".")},
		{"payload no object", sign(t, rawClaims{body: `[]`}, nil)},
		{"payload no JSON", sign(t, rawClaims{body: `"x"`}, nil)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := d.Verify(t.Context(), []string{"Bearer " + tt.token})
			if got := status(t, err); got != 401 {
				t.Errorf("status %d (%v), want 401", got, err)
			}
			if err != nil && len(tt.token) > 20 && strings.Contains(err.Error(), tt.token[:20]) {
				t.Errorf("the error quotes the token: %v", err)
			}
		})
	}
}

func tamperAlg(token, alg string) string {
	_, rest, _ := strings.Cut(token, ".")
	return base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"`+alg+`","kid":"k0"}`)) + "." + rest
}

func tamperBody(token string) string {
	parts := strings.Split(token, ".")
	body, _ := base64.RawURLEncoding.DecodeString(parts[1])
	body = []byte(strings.Replace(string(body), "emea", "amer", 1))
	return parts[0] + "." + base64.RawURLEncoding.EncodeToString(body) + "." + parts[2]
}

func TestGuardAuthorizationHeader(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	good := sign(t, goodClaims(time.Now()), nil)
	tests := []struct {
		name   string
		header []string
		want   int
	}{
		{"right", []string{"Bearer " + good}, 200},
		{"none", nil, 401},
		{"empty", []string{""}, 401},
		{"scheme only", []string{"Bearer"}, 401},
		{"scheme and space", []string{"Bearer "}, 401},
		{"raw token", []string{good}, 401},
		{"lower case", []string{"bearer " + good}, 401},
		{"upper case", []string{"BEARER " + good}, 401},
		{"basic", []string{"Basic " + good}, 401},
		{"two spaces", []string{"Bearer  " + good}, 401},
		{"tab", []string{"Bearer\t" + good}, 401},
		{"leading space", []string{" Bearer " + good}, 401},
		{"trailing space", []string{"Bearer " + good + " "}, 401},
		{"two tokens", []string{"Bearer " + good + " " + good}, 401},
		{"comma", []string{"Bearer " + good + ",Bearer " + good}, 401},
		{"two headers", []string{"Bearer " + good, "Bearer " + good}, 401},
		{"padding", []string{"Bearer " + good + "="}, 401},
		{"four parts", []string{"Bearer " + good + ".x"}, 401},
		{"dots", []string{"Bearer " + strings.Repeat(".", 10000)}, 401},
		{"too long", []string{"Bearer " + strings.Repeat("a", 1<<20) + ".b.c"}, 401},
		{"no ASCII", []string{"Bearer ä.b.c"}, 401},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := d.Verify(t.Context(), tt.header)
			if got := status(t, err); got != tt.want {
				t.Errorf("status %d (%v), want %d", got, err, tt.want)
			}
		})
	}
}

func TestGuardActivityAgainstToken(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	tests := []struct {
		name    string
		claimed string // "" as the activity says
		change  func(*activity.Activity)
		want    int
	}{
		{"as it should be", "", func(*activity.Activity) {}, 200},
		{"other endorsed channel", "", func(a *activity.Activity) { a.ChannelID = "webchat" }, 200},
		{"trailing slash differs", "", func(a *activity.Activity) { a.ServiceURL = strings.TrimSuffix(serviceURL, "/") }, 200},
		{"channel not endorsed", "", func(a *activity.Activity) { a.ChannelID = "directline" }, 401},
		{"channel in another case", "", func(a *activity.Activity) { a.ChannelID = "MSTeams" }, 401},
		{"no channel", "", func(a *activity.Activity) { a.ChannelID = "" }, 401},
		{"emulator", "", func(a *activity.Activity) { a.ChannelID = "emulator" }, 401},
		{"AseChannel", "", func(a *activity.Activity) { a.ChannelID = "AseChannel" }, 401},
		{"no service url", "", func(a *activity.Activity) { a.ServiceURL = "" }, 401},
		{"forged service url", "", func(a *activity.Activity) { a.ServiceURL = "https://evil.example/" }, 401},
		{"user in the service url", "", func(a *activity.Activity) { a.ServiceURL = "https://smba.trafficmanager.net@evil.example/emea/" }, 401},
		{"claimed host not allowed", "https://evil.example/", func(a *activity.Activity) { a.ServiceURL = "https://evil.example/" }, 400},
		{"claimed loopback", "http://127.0.0.1:9/", func(a *activity.Activity) { a.ServiceURL = "http://127.0.0.1:9/" }, 400},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			claims := goodClaims(time.Now())
			if tt.claimed != "" {
				claims["serviceurl"] = tt.claimed
			}
			a := message()
			tt.change(a)
			id, err := d.Authenticate(t.Context(), []string{"Bearer " + sign(t, claims, nil)}, a)
			if got := status(t, err); got != tt.want {
				t.Errorf("status %d (%v), want %d", got, err, tt.want)
			}
			if err == nil && (id.AppID != appID || id.CallerID != "urn:botframework:azure" || id.ServiceURL != a.ServiceURL || id.Local) {
				t.Errorf("identity %+v", id)
			}
		})
	}
}

func TestGuardNeedsNoActivityToRefuse(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	claims := goodClaims(time.Now())
	delete(claims, "serviceurl")
	if _, err := d.Verify(t.Context(), []string{"Bearer " + sign(t, claims, nil)}); status(t, err) != 401 {
		t.Errorf("err = %v, want 401 for a token that permits no activity", err)
	}
}

func TestGuardKeyWithoutEndorsements(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	d.issuer.set(func() { d.issuer.keys = []map[string]any{jwk("k0", &key(0).PublicKey)} })
	_, err := d.Authenticate(t.Context(), []string{"Bearer " + sign(t, goodClaims(time.Now()), nil)}, message())
	if got := status(t, err); got != 401 {
		t.Errorf("status %d, want 401", got)
	}
}

func TestGuardLocal(t *testing.T) {
	t.Parallel()
	g, err := connector.NewGuard(connector.GuardConfig{Hosts: hosts(t, true, "bots.example:8443")})
	if err != nil {
		t.Fatal(err)
	}
	dummy := "Bearer " + signBy(t, jwt.SigningMethodHS256, []byte("dummy-secret-key"), jwt.MapClaims{"iat": 1}, nil)
	tests := []struct {
		name, serviceURL, mode string
		want                   int
	}{
		{"playground", "http://localhost:56150/_connector", "", 200},
		{"playground of TARGET_SDK", "http://localhost:56150/_connector/", "", 200},
		{"IPv4", "http://127.0.0.1:9999", "", 200},
		{"IPv6", "http://[::1]:9999", "", 200},
		{"listed", "https://bots.example:8443/x", "", 200},
		{"expect replies without a service url", "", activity.ExpectReplies, 200},
		{"no service url", "", "", 400},
		{"Microsoft's host", serviceURL, "", 400},
		{"metadata address", "http://169.254.169.254/", "", 400},
		{"private address", "http://10.0.0.1/", "", 400},
		{"expect replies with a bad service url", "http://10.0.0.1/", activity.ExpectReplies, 400},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a := message()
			a.ServiceURL, a.DeliveryMode = tt.serviceURL, tt.mode
			for _, header := range [][]string{nil, {dummy}, {"garbage"}} {
				id, err := g.Authenticate(t.Context(), header, a)
				if got := status(t, err); got != tt.want {
					t.Errorf("header %q: status %d (%v), want %d", header, got, err, tt.want)
				}
				if err == nil && (!id.Local || id.AppID != "" || id.CallerID != "") {
					t.Errorf("identity %+v", id)
				}
			}
		})
	}
}

func TestNewGuardRefuses(t *testing.T) {
	t.Parallel()
	cloud := publicCloud(t)
	plain := cloud
	plain.MetadataURL = "http://login.botframework.com/meta"
	login := cloud
	login.LoginURL = "http://login.example"
	tests := []struct {
		name string
		cfg  connector.GuardConfig
		want string
	}{
		{"nothing", connector.GuardConfig{}, "no Hosts"},
		{"app id with local hosts", connector.GuardConfig{AppID: appID, Cloud: cloud, Hosts: hosts(t, true)}, "local hosts"},
		{"no app id with open hosts", connector.GuardConfig{Cloud: cloud, Hosts: hosts(t, false)}, "local hosts"},
		{"callers of nobody", connector.GuardConfig{Hosts: hosts(t, true), Callers: connector.Callers{Tenant: tenantID, Emulator: true}}, "Callers without"},
		{"callers of no tenant", connector.GuardConfig{AppID: appID, Cloud: cloud, Hosts: hosts(t, false), Callers: connector.Callers{Emulator: true}}, "tenant"},
		{"callers with a plain login", connector.GuardConfig{AppID: appID, Cloud: login, Hosts: hosts(t, false), Callers: connector.Callers{Tenant: tenantID, Emulator: true}}, "login URL"},
		{"no cloud", connector.GuardConfig{AppID: appID, Hosts: hosts(t, false)}, "issuer"},
		{"plain http", connector.GuardConfig{AppID: appID, Cloud: plain, Hosts: hosts(t, false)}, "https"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if _, err := connector.NewGuard(tt.cfg); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("err = %v, want %q in it", err, tt.want)
			}
		})
	}
}
