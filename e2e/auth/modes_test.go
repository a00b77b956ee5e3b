package auth_test

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// TestLocalMode: without an app id clients of this machine are let in, whatever token
// they show, and web pages are not.
func TestLocalMode(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "MICROSOFT_APP_ID=", "MICROSOFT_APP_PASSWORD=", "MICROSOFT_APP_TENANT_ID=", "BOT_ALLOWED_SERVICE_HOSTS=")
	taken := changes{
		"no token":    func(a *attempt) { a.bearer = []string{} },
		"any token":   func(a *attempt) { a.bearer = []string{"Bearer x"} },
		"no type":     func(a *attempt) { a.header.Del("Content-Type") },
		"the dummy":   func(a *attempt) { a.token.sign = withPublicKey; a.header.Set("x-ms-agents-playground", "true") },
		"no channel":  set("channelId", nil),
		"no tenant":   both(set("channelData", nil), set("conversation", object{"id": "c|livechat"})),
		"of a person": set("from", object{"id": "u", "role": "user"}),
	}
	for _, name := range slices.Sorted(maps.Keys(taken)) {
		a := w.good()
		taken[name](a)
		if got := w.send(a); got.status != http.StatusOK {
			t.Errorf("%s: status %d", name, got.status)
			continue
		}
		if sent := w.next(); sent.Activity.Text != "Hello." || sent.Authorization != "" {
			t.Errorf("%s: %q with %q", name, sent.Activity.Text, sent.Authorization)
		}
	}
	origin := func(of string) func(*attempt) {
		return func(a *attempt) { a.header.Set("Origin", of) }
	}
	for name, change := range map[string]func(*attempt){
		"a page":           origin("https://evil.example"),
		"a page of here":   origin("http://" + w.addr),
		"a page of a file": origin("null"),
	} {
		a := w.good()
		change(a)
		w.refused(name, a, http.StatusForbidden)
	}
	for name, value := range map[string]string{
		"X-Forwarded-For": "203.0.113.9", "X-Forwarded-Host": "abcd.ngrok-free.app", "X-Forwarded-Proto": "https", "X-Real-IP": "203.0.113.9",
		"Forwarded": "for=203.0.113.9", "Via": "1.1 tunnel",
	} {
		a := w.good()
		a.header.Set(name, value)
		w.refused("a tunnel's "+name, a, http.StatusForbidden)
	}
	for _, url := range []string{"https://smba.trafficmanager.net/amer/", "http://169.254.169.254/", "http://evil.example/", "file:///etc/passwd", "", "http://127.0.0.1.evil.example/"} {
		a := w.good()
		a.activity["serviceUrl"] = url
		w.refused("serviceUrl "+url, a, http.StatusBadRequest)
	}
	named := w.request(w.good())
	named.Host = "evil.example" // a name that was made to lead here
	resp, err := w.client.Do(named)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusForbidden {
		t.Errorf("another host: status %d", resp.StatusCode)
	}
	w.none()
	w.logIsClean()
}

// TestAllowLists: who is not on them reads one sentence, and nothing else happens.
func TestAllowLists(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "BOT_ALLOWED_TENANTS="+strings.ToUpper(tenantID), "BOT_ALLOWED_USERS=aad-bob, AAD-MIA", "BOT_ALLOWED_CHANNELS=msteams,directline")
	w.works()
	asked := w.modelled.Load()
	another := both(set("conversation", object{"id": "c", "tenantId": "another"}), set("channelData", nil))
	for name, change := range (changes{
		"another tenant":  another,
		"another person":  set("from", object{"id": "29:eve", "aadObjectId": "aad-eve"}),
		"nobody":          set("from", object{"id": "29:mia"}),
		"another channel": set("channelId", "directline"),
	}) {
		a := w.good()
		change(a)
		if got := w.send(a); got.status != http.StatusOK {
			t.Errorf("%s: status %d", name, got.status)
			continue
		}
		if got := w.next().Activity.Text; !strings.Contains(got, "not allowed to talk with you") {
			t.Errorf("%s: %q", name, got)
		}
	}
	invoke := w.good()
	both(another, set("type", "invoke"), set("name", "adaptiveCard/action"))(invoke)
	w.refused("an invoke", invoke, http.StatusForbidden)
	joined := w.good()
	both(another, set("type", "conversationUpdate"), set("membersAdded", []object{{"id": "28:" + appID}}))(joined)
	if got := w.send(joined); got.status != http.StatusOK {
		t.Errorf("an update: status %d", got.status)
	}
	two := w.good()
	two.activity["channelData"] = object{"tenant": object{"id": "their-tenant"}}
	if got := w.send(two); got.status != http.StatusOK {
		t.Errorf("two tenants: status %d", got.status)
	}
	if now := w.modelled.Load(); now != asked {
		t.Errorf("%d calls of the model", now-asked)
	}
	w.works()
	w.none()
	w.logIsClean()
	log, _ := w.out.seen()
	if n := strings.Count(log, `"audit":"access"`); n != 6 {
		t.Errorf("%d audit lines, want 6", n)
	}
	if line := `"audit":"tenant","channel":"msteams","tenant":"their-tenant","other_tenant":"` + tenantID + `"`; strings.Count(log, line) != 1 {
		t.Errorf("no line with %s", line)
	}
}
