package connector_test

import (
	"encoding/base64"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/connector"
)

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
	d = newDoorWith(t, func(c *connector.GuardConfig) {
		c.Cloud.LoginURL, c.Callers = entra.URL, callers
		c.Hosts = hosts(t, false, "caller.example", "localhost")
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
			id, err := d.Authenticate(t.Context(), bySkill(t, claims), skillMessage())
			if got := status(t, err); got != tt.want {
				t.Errorf("status %d (%v), want %d", got, err, tt.want)
			}
			if a := (&activity.Activity{CallerID: id.CallerID}); err == nil && (a.CallerApp() != callerID && a.CallerApp() != appID || id.AppID != appID || id.ServiceURL != skillURL) {
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
		if _, err := d.Authenticate(t.Context(), bySkill(t, callerClaims(callerID)), a); status(t, err) != want {
			t.Errorf("%q: %v, want %d", serviceURL, err, want)
		}
	}
	a := skillMessage()
	a.ChannelID = strings.Repeat("x", 600)
	if _, err := d.Authenticate(t.Context(), bySkill(t, callerClaims(callerID)), a); status(t, err) != 400 {
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
				if _, err := d.Authenticate(t.Context(), bySkill(t, callerClaims(app)), skillMessage()); status(t, err) != want {
					t.Errorf("app %s: %v, want %d", app, err, want)
				}
			}
			// The channels come in as ever, and not with Entra's key.
			if _, err := d.Authenticate(t.Context(), []string{"Bearer " + sign(t, goodClaims(time.Now()), nil)}, message()); err != nil {
				t.Errorf("a channel: %v", err)
			}
			if _, err := d.Authenticate(t.Context(), bySkill(t, goodClaims(time.Now())), message()); status(t, err) != 401 {
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
	if _, err := d.Authenticate(t.Context(), []string{"Bearer " + sign(t, callerClaims(callerID), nil)}, skillMessage()); status(t, err) != 401 {
		t.Errorf("a caller with the channels' key: %v", err)
	}
	d, entra := newOpenDoor(t, everybody())
	entra.set(func() {
		entra.document = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }
	})
	if _, err := d.Authenticate(t.Context(), bySkill(t, callerClaims(callerID)), skillMessage()); status(t, err) != 503 {
		t.Errorf("without keys: %v", err)
	}
	if _, err := d.Authenticate(t.Context(), []string{"Bearer " + sign(t, goodClaims(time.Now()), nil)}, message()); err != nil {
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
			_, err := d.Authenticate(t.Context(), []string{"Bearer " + sign(t, goodClaims(time.Now()), nil)}, message())
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
