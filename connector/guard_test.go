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
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"

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
		{"aud as an identifier URI", map[string]any{"aud": "api://" + appID}, 200},
		{"aud as a bot's identifier URI", map[string]any{"aud": "api://botid-" + appID}, 200},
		{"aud as a bot's identifier URI, upper case", map[string]any{"aud": strings.ToUpper("api://botid-" + appID)}, 200},
		{"aud array with an identifier URI", map[string]any{"aud": []string{"x", "api://" + appID}}, 200},
		{"own appid", map[string]any{"appid": appID}, 200},
		{"own azp", map[string]any{"azp": appID}, 200},
		{"exp within the skew", map[string]any{"exp": in(-240)}, 200},
		{"nbf within the skew", map[string]any{"nbf": in(240)}, 200},
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
		{"aud of another bot", map[string]any{"aud": "api://botid-99999999-1111-2222-3333-444455556666"}, 401},
		{"aud with a path", map[string]any{"aud": "api://" + appID + "/"}, 401},
		{"aud with a scope", map[string]any{"aud": "api://botid-" + appID + "/access_as_user"}, 401},
		{"aud with more behind it", map[string]any{"aud": appID + "0"}, 401},
		{"aud with a host", map[string]any{"aud": "api://contoso.com/" + appID}, 401},
		{"aud with a host and a bot", map[string]any{"aud": "api://contoso.com/botid-" + appID}, 401},
		{"aud of another scheme", map[string]any{"aud": "https://botid-" + appID}, 401},
		{"aud with no scheme", map[string]any{"aud": "botid-" + appID}, 401},
		{"aud with a space", map[string]any{"aud": " " + appID}, 401},
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
		{"nbf ahead", map[string]any{"nbf": in(400)}, 401},
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
			_, err := d.Authenticate(t, []string{"Bearer " + sign(t, claims, nil)}, message())
			if got := status(t, err); got != tt.want {
				t.Errorf("status %d (%v), want %d", got, err, tt.want)
			}
		})
	}
}

// TestGuardNamesTheAudience: an operator has to see which one came, on one line and cut.
func TestGuardNamesTheAudience(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	claims := goodClaims(time.Now())
	claims["aud"] = "api://other\n" + strings.Repeat("x", 5000)
	_, err := d.Authenticate(t, []string{"Bearer " + sign(t, claims, nil)}, message())
	if err == nil || !strings.HasPrefix(err.Error(), `token for another audience: "api://other\nxxx`) || len(err.Error()) > 300 {
		t.Errorf("the error is %v", err)
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
			id, err := d.Authenticate(t, []string{"Bearer " + sign(t, claims, nil)}, a)
			if got := status(t, err); got != tt.want {
				t.Errorf("status %d (%v), want %d", got, err, tt.want)
			}
			if err == nil && (id.ID() != "urn:botframework:azure" || !id.Trusted()) {
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
	_, err := d.Authenticate(t, []string{"Bearer " + sign(t, goodClaims(time.Now()), nil)}, message())
	if got := status(t, err); got != 401 {
		t.Errorf("status %d, want 401", got)
	}
}

func TestGuardLocal(t *testing.T) {
	t.Parallel()
	g := newGuard(t, connector.Config{AllowedHosts: []string{"bots.example:8443"}})
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
				id, err := authenticate(t, g, header, a)
				if got := status(t, err); got != tt.want {
					t.Errorf("header %q: status %d (%v), want %d", header, got, err, tt.want)
				}
				if err == nil && (id.Trusted() || id.ID() != "") {
					t.Errorf("identity %+v", id)
				}
			}
		})
	}
}

const (
	issuerV1 = "https://sts.windows.net/" + tenantID + "/"
	issuerV2 = "https://login.microsoftonline.com/" + tenantID + "/v2.0"
	skillURL = "https://caller.example/api/skills/"
)

// newOpenDoor lets in callers, whose keys entra has: its k0 is the key 1.
func newOpenDoor(t testing.TB, callers connector.Callers) (d *door, entra *issuer) {
	t.Helper()
	entra = newIssuer(t)
	entra.set(func() { entra.keys = []map[string]any{jwk("k0", &key(1).PublicKey)} })
	d = newDoorWith(t, func(c *connector.Config) {
		c.LoginURL, c.Callers, c.AllowedHosts = entra.URL, callers, []string{"caller.example", "localhost"}
	})
	return d, entra
}

func everybody() connector.Callers {
	return connector.Callers{Tenant: strings.ToUpper(tenantID), Emulator: true, Bots: []string{strings.ToUpper(callerID)}}
}

// callerClaims are those of a token that Entra gave to an app for this bot.
func callerClaims(app string) jwt.MapClaims {
	now := time.Now()
	return jwt.MapClaims{
		"iss": issuerV2, "aud": appID, "ver": "2.0", "azp": app, "tid": tenantID,
		"nbf": now.Add(-time.Minute).Unix(), "exp": now.Add(time.Hour).Unix(), "oid": "x", "sub": "x",
	}
}

func bySkill(t testing.TB, claims jwt.Claims) []string {
	t.Helper()
	return []string{"Bearer " + signBy(t, rs256, key(1), claims, nil)}
}

func skillMessage() *activity.Activity {
	a := message()
	a.ServiceURL = skillURL
	return a
}

func TestCallersOneClaimWrong(t *testing.T) {
	t.Parallel()
	d, _ := newOpenDoor(t, everybody())
	v1 := map[string]any{"iss": issuerV1, "ver": "1.0", "azp": nil, "appid": callerID}
	and := func(more map[string]any) map[string]any {
		all := maps.Clone(v1)
		maps.Copy(all, more)
		return all
	}
	tests := []struct {
		name   string
		claims map[string]any // nil value: claim absent
		want   int
	}{
		{"as it should be", nil, 200},
		{"version 1", v1, 200},
		{"the Emulator", map[string]any{"azp": appID}, 200},
		{"the Emulator, version 1", and(map[string]any{"appid": appID}), 200},
		{"ids in upper case", map[string]any{"azp": strings.ToUpper(callerID), "tid": strings.ToUpper(tenantID), "aud": strings.ToUpper(appID)}, 200},
		{"audience as an identifier URI", map[string]any{"aud": "api://" + appID}, 200},
		{"audience as a bot's identifier URI", map[string]any{"aud": "API://BotID-" + appID}, 200},
		{"the Emulator, audience as an identifier URI", map[string]any{"azp": appID, "aud": "api://" + appID}, 200},
		{"an app, by name", map[string]any{"idtyp": "app"}, 200},
		{"a serviceurl is not looked at", map[string]any{"serviceurl": "https://evil.example/"}, 200},

		{"no version", map[string]any{"ver": nil}, 401},
		{"empty version", map[string]any{"ver": ""}, 401},
		{"version 3", map[string]any{"ver": "3.0"}, 401},
		{"version number", map[string]any{"ver": 2}, 401},
		{"version 1 with azp only", map[string]any{"ver": "1.0"}, 401},
		{"version 2 with appid only", and(map[string]any{"ver": "2.0"}), 401},
		{"no tenant", map[string]any{"tid": nil}, 401},
		{"foreign tenant", map[string]any{"tid": callerID}, 401},
		{"issuer of a foreign tenant", map[string]any{"iss": "https://login.microsoftonline.com/" + callerID + "/v2.0"}, 401},
		{"issuer and tenant foreign", map[string]any{"iss": "https://sts.windows.net/" + callerID + "/", "tid": callerID}, 401},
		{"issuer of the government cloud", map[string]any{"iss": "https://login.microsoftonline.us/" + tenantID + "/v2.0"}, 401},
		{"issuer without its slash", map[string]any{"iss": strings.TrimSuffix(issuerV1, "/")}, 401},
		{"issuer with a slash", map[string]any{"iss": issuerV2 + "/"}, 401},
		{"issuer upper case", map[string]any{"iss": strings.ToUpper(issuerV2)}, 401},
		{"issuer of all tenants", map[string]any{"iss": "https://login.microsoftonline.com/common/v2.0"}, 401},
		{"issuer as it is configured", map[string]any{"iss": "https://login.microsoftonline.com/{tenant}/v2.0"}, 401},
		{"the Bot Framework's tenant", map[string]any{"iss": "https://sts.windows.net/d6d49420-f39b-4df7-a1dc-d59a935871db/"}, 401},
		{"foreign audience", map[string]any{"aud": callerID}, 401},
		{"a foreign bot", map[string]any{"aud": "api://botid-" + callerID}, 401},
		{"no audience", map[string]any{"aud": nil}, 401},
		{"the channels' audience", map[string]any{"aud": "https://api.botframework.com"}, 401},
		{"a stranger", map[string]any{"azp": tenantID}, 401},
		{"nobody", map[string]any{"azp": ""}, 401},
		{"anonymous", map[string]any{"azp": "AnonymousSkill"}, 401},
		{"anonymous, version 1", and(map[string]any{"appid": "AnonymousSkill"}), 401},
		{"a person at the caller", map[string]any{"scp": "access_as_user"}, 401},
		{"a person at the bot's own app", map[string]any{"azp": appID, "scp": "access_as_user"}, 401},
		{"scopes of another shape", map[string]any{"scp": []string{"x"}}, 401},
		{"a person, by name", map[string]any{"idtyp": "user"}, 401},
		{"expired", map[string]any{"exp": time.Now().Add(-6 * time.Minute).Unix()}, 401},
		{"no exp", map[string]any{"exp": nil}, 401},
		{"not yet", map[string]any{"nbf": time.Now().Add(6 * time.Minute).Unix()}, 401},
		{"a channel's issuer by Entra's key", map[string]any{"iss": "https://api.botframework.com", "serviceurl": serviceURL}, 401},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			claims := callerClaims(callerID)
			maps.Copy(claims, tt.claims)
			maps.DeleteFunc(claims, func(_ string, v any) bool { return v == nil })
			id, err := d.Authenticate(t, bySkill(t, claims), skillMessage())
			if got := status(t, err); got != tt.want {
				t.Errorf("status %d (%v), want %d", got, err, tt.want)
			}
			if err != nil {
				return
			}
			if a := (&activity.Activity{CallerID: id.ID()}); a.CallerApp() != callerID && a.CallerApp() != appID {
				t.Errorf("identity %+v", id)
			}
		})
	}
}

// TestCallersNameListedHostsOnly: their tokens say nothing about service URLs.
func TestCallersNameListedHostsOnly(t *testing.T) {
	t.Parallel()
	d, _ := newOpenDoor(t, everybody())
	for serviceURL, want := range map[string]int{
		skillURL:                  200,
		"http://localhost:56150/": 200, // the Playground's, which is listed here
		serviceURL:                400, // Microsoft's: for channels
		"https://other.example/":  400,
		"http://caller.example/":  400,
		"https://10.0.0.1/":       400,
		"":                        400,
	} {
		a := skillMessage()
		a.ServiceURL = serviceURL
		if _, err := d.Authenticate(t, bySkill(t, callerClaims(callerID)), a); status(t, err) != want {
			t.Errorf("%q: %v, want %d", serviceURL, err, want)
		}
	}
	a := skillMessage()
	a.ChannelID = strings.Repeat("x", 600)
	if _, err := d.Authenticate(t, bySkill(t, callerClaims(callerID)), a); status(t, err) != 400 {
		t.Errorf("a long channel: %v", err)
	}
}

func TestOnlyWhoIsAllowedCalls(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name             string
		callers          connector.Callers
		emulator, caller int
	}{
		{"nobody", connector.Callers{}, 401, 401},
		{"a tenant alone", connector.Callers{Tenant: tenantID}, 401, 401},
		{"the Emulator", connector.Callers{Tenant: tenantID, Emulator: true}, 200, 401},
		{"a bot", connector.Callers{Tenant: tenantID, Bots: []string{callerID}}, 401, 200},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d, entra := newOpenDoor(t, tt.callers)
			for app, want := range map[string]int{appID: tt.emulator, callerID: tt.caller} {
				if _, err := d.Authenticate(t, bySkill(t, callerClaims(app)), skillMessage()); status(t, err) != want {
					t.Errorf("app %s: %v, want %d", app, err, want)
				}
			}
			// The channels come in as ever, and not with Entra's key.
			if _, err := d.Authenticate(t, []string{"Bearer " + sign(t, goodClaims(time.Now()), nil)}, message()); err != nil {
				t.Errorf("a channel: %v", err)
			}
			if _, err := d.Authenticate(t, bySkill(t, goodClaims(time.Now())), message()); status(t, err) != 401 {
				t.Errorf("a channel with Entra's key: %v", err)
			}
			if nobody := tt.emulator+tt.caller > 800; nobody != (entra.keyGets.Load() == 0) {
				t.Errorf("Entra's keys were fetched %d times", entra.keyGets.Load())
			}
		})
	}
}

// TestKeysOfCallersAreTheirOwn: what goes wrong with them touches no channel.
func TestKeysOfCallersAreTheirOwn(t *testing.T) {
	t.Parallel()
	d, _ := newOpenDoor(t, everybody())
	if _, err := d.Authenticate(t, []string{"Bearer " + sign(t, callerClaims(callerID), nil)}, skillMessage()); status(t, err) != 401 {
		t.Errorf("a caller with the channels' key: %v", err)
	}
	d, entra := newOpenDoor(t, everybody())
	entra.set(func() {
		entra.document = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }
	})
	if _, err := d.Authenticate(t, bySkill(t, callerClaims(callerID)), skillMessage()); status(t, err) != 503 {
		t.Errorf("without keys: %v", err)
	}
	if _, err := d.Authenticate(t, []string{"Bearer " + sign(t, goodClaims(time.Now()), nil)}, message()); err != nil {
		t.Errorf("a channel: %v", err)
	}
}

func TestCertificateOfAKey(t *testing.T) {
	t.Parallel()
	der := func(from, to time.Duration) string {
		now := time.Now()
		return base64.StdEncoding.EncodeToString(certificateOf(t, key(0), now.Add(from), now.Add(to)))
	}
	const hour = time.Hour
	tests := []struct {
		name string
		x5c  any
		want int
	}{
		{"valid", []string{der(-hour, hour)}, 200},
		{"expired", []string{der(-2*hour, -hour)}, 401},
		{"expired within the skew", []string{der(-hour, -4*time.Minute)}, 200},
		{"expired beyond the skew", []string{der(-hour, -6*time.Minute)}, 401},
		{"not yet", []string{der(hour, 2*hour)}, 401},
		{"not yet within the skew", []string{der(4*time.Minute, hour)}, 200},
		{"a chain whose root is old", []string{der(-hour, hour), der(-2*hour, -hour)}, 200},
		{"none", []string{}, 200},
		{"no base64", []string{"%"}, 200},
		{"no certificate", []string{"AAAA"}, 200},
		{"no list", "x", 200},
		{"null", nil, 200},
		{"a list of numbers", []int{1}, 200},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := newDoor(t)
			k := jwk("k0", &key(0).PublicKey, "msteams")
			k["x5c"] = tt.x5c
			d.issuer.set(func() { d.issuer.keys = []map[string]any{k} })
			_, err := d.Authenticate(t, []string{"Bearer " + sign(t, goodClaims(time.Now()), nil)}, message())
			if got := status(t, err); got != tt.want {
				t.Errorf("status %d (%v), want %d", got, err, tt.want)
			}
		})
	}
}

// TestACertificateEndsWhileItsKeyIsKept: keys are kept for a day.
func TestACertificateEndsWhileItsKeyIsKept(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	k := jwk("k0", &key(0).PublicKey, "msteams")
	k["x5c"] = []string{base64.StdEncoding.EncodeToString(certificateOf(t, key(0), time.Now().Add(-time.Hour), time.Now().Add(time.Hour)))}
	d.issuer.set(func() { d.issuer.keys = []map[string]any{k} })
	claims := goodClaims(time.Now())
	claims["exp"] = time.Now().Add(24 * time.Hour).Unix()
	token := []string{"Bearer " + sign(t, claims, nil)}
	if _, err := d.Verify(t.Context(), token); err != nil {
		t.Fatal(err)
	}
	d.clock.advance(2 * time.Hour)
	if _, err := d.Verify(t.Context(), token); status(t, err) != 401 {
		t.Errorf("err = %v, want 401", err)
	}
}

// TestDownloadForCaller takes a caller's token to listed hosts only.
func TestDownloadForCaller(t *testing.T) {
	t.Parallel()
	script := &script{steps: []func(*http.Request) (*http.Response, error){says(200), says(200), says(200)}}
	client := newClient(t, withApp(script, "caller.example"), nil)
	tokens := fixedToken("t")
	tokens.SetCaller(callerID, tokens)
	client.SetTokens(tokens)
	for _, from := range []string{serviceURL + "v3/attachments/1", skillURL + "v3/attachments/1"} {
		if _, _, err := client.Download(connector.ForCaller(t.Context(), callerID), activity.Attachment{ContentURL: from}, 0); err != nil {
			t.Error(err)
		}
	}
	if _, _, err := client.Download(t.Context(), activity.Attachment{ContentURL: serviceURL + "v3/attachments/1"}, 0); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"", "Bearer t", "Bearer t"}, script.auth); diff != "" {
		t.Errorf("tokens (-want +got):\n%s", diff)
	}
}

// TestSendForCaller: a caller gets a token of its own, and only where the operator
// said.
func TestSendForCaller(t *testing.T) {
	t.Parallel()
	cfg := withApp(&login{answer: grants(3600)})
	cfg.Callers = connector.Callers{Tenant: tenantID, Bots: []string{callerID}}
	tokens := tokensOf(t, cfg)
	script := &script{steps: []func(*http.Request) (*http.Response, error){says(200), says(401), says(200)}}
	client := newClient(t, withApp(script, "caller.example"), tokens)
	ctx := connector.ForCaller(t.Context(), callerID)
	for _, where := range []string{serviceURL, "https://other.example/"} {
		if _, err := client.Send(ctx, reference(where), message()); !errors.Is(err, connector.ErrHostNotAllowed) {
			t.Errorf("for a caller to %s: %v", where, err)
		}
	}
	if _, err := client.Send(t.Context(), reference(serviceURL), message()); err != nil {
		t.Error(err)
	}
	if _, err := client.Send(ctx, reference(skillURL), message()); err != nil {
		t.Error(err)
	}
	if _, err := client.Send(connector.ForCaller(ctx, tenantID), reference(skillURL), message()); !errors.Is(err, connector.ErrBadCall) {
		t.Errorf("for an unknown caller: %v", err)
	}
	if diff := cmp.Diff([]string{"Bearer token-1", "Bearer token-2", "Bearer token-3"}, script.auth); diff != "" {
		t.Errorf("tokens (-want +got):\n%s", diff)
	}
}
