package connector_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/planbot-go/planbot/connector"
)

// FuzzAuthorization holds every header but good ones out, without a panic, and
// with no more than the one fetch of keys.
func FuzzAuthorization(f *testing.F) {
	d := newDoor(f)
	good := sign(f, goodClaims(time.Now()), nil)
	parts := strings.Split(good, ".")
	for _, s := range []string{
		"", "Bearer", "Bearer ", "Bearer " + good, "bearer " + good, good, "Bearer a.b.c", "Bearer ..", "Bearer " + good + "=",
		"Bearer " + parts[0] + ".e30." + parts[2], "Bearer e30." + parts[1] + "." + parts[2], "Bearer " + parts[0] + "." + parts[1] + ".",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, header string) {
		claims, err := d.Verify(t.Context(), []string{header})
		if err == nil {
			if signed, _ := strings.CutPrefix(header, "Bearer "); signed != good || !claims.Trusted() {
				t.Fatalf("%q was accepted", header)
			}
			return
		}
		var refusal *connector.AuthError
		if !errors.As(err, &refusal) || refusal.Status != 401 {
			t.Fatalf("err = %v (%T), want a 401", err, err)
		}
		if n := d.issuer.metadataGets.Load(); n > 2 {
			t.Fatalf("%d fetches of keys", n)
		}
	})
}

// FuzzServiceURL holds that what is allowed leads to an allowed host, read by
// another rule: the text between the slashes.
func FuzzServiceURL(f *testing.F) {
	c := newClient(f, withApp(nil), nil)
	for _, s := range []string{serviceURL, "https://a@b", "https://smba.trafficmanager.net\\.evil", "https://x.botframework.com:443/a?b", "http://[::1]/"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		if c.Allowed(raw) != nil {
			return
		}
		scheme, rest, _ := strings.Cut(raw, "://")
		host, _, _ := strings.Cut(rest, "/")
		host = strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(host), ":443"), ":")
		host = "." + strings.TrimSuffix(host, ".")
		ok := false
		for _, s := range []string{"botframework.com", "smba.trafficmanager.net", "smba.onyx.prod.teams.trafficmanager.net", "teams.microsoft.com", "teams.microsoft.us"} {
			ok = ok || strings.HasSuffix(host, "."+s)
		}
		if !strings.EqualFold(scheme, "https") || !ok {
			t.Fatalf("%q is allowed", raw)
		}
	})
}
