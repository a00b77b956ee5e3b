package doctor_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/planbot-go/planbot/internal/doctor"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// examine runs one probe.
func examine(t *testing.T, p doctor.Probe) doctor.Check {
	t.Helper()
	checks := doctor.Run(t.Context(), doctor.Config{Probes: []doctor.Probe{p}})
	if len(checks) != 1 || checks[0].Name != p.Name || checks[0].Detail == "" {
		t.Fatalf("got %+v", checks)
	}
	return checks[0]
}

// expect examines and looks for the words in detail and hint.
func expect(t *testing.T, p doctor.Probe, status doctor.Status, words ...string) {
	t.Helper()
	c := examine(t, p)
	if c.Status != status {
		t.Errorf("%s, want %s: %+v", c.Status, status, c)
	}
	for _, w := range words {
		if !strings.Contains(c.Detail+"\n"+c.Hint, w) {
			t.Errorf("%+v does not say %q", c, w)
		}
	}
}

func answers(err error) func(context.Context) error {
	return func(context.Context) error { return err }
}

func TestRunIsParallelInOrderAndBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slow := func(ctx context.Context) doctor.Check {
			<-ctx.Done()
			return doctor.Check{Status: doctor.Fail, Detail: ctx.Err().Error()}
		}
		quick := func(context.Context) doctor.Check { return doctor.Check{Status: doctor.OK, Detail: "fine"} }
		start := time.Now()
		got := doctor.Run(t.Context(), doctor.Config{Probes: []doctor.Probe{{Name: "a", Run: slow}, {Name: "b", Run: quick}, {Name: "c", Run: slow}}})
		if took := time.Since(start); took != 5*time.Second {
			t.Errorf("took %s", took)
		}
		late := context.DeadlineExceeded.Error()
		want := []doctor.Check{{"a", doctor.Fail, late, ""}, {"b", doctor.OK, "fine", ""}, {"c", doctor.Fail, late, ""}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		if !doctor.Failed(got) || doctor.Failed(got[1:2]) {
			t.Error("Failed does not look at the statuses")
		}
	})
}

func TestSecretsAreBlottedOut(t *testing.T) {
	t.Parallel()
	got := doctor.Run(t.Context(), doctor.Config{
		Secrets: []string{"", "hunter2"},
		Probes: []doctor.Probe{{Name: "x", Run: func(context.Context) doctor.Check {
			return doctor.Check{
				Detail: "dial redis://mia:p@ss/word@host:6379/0 with hunter2",
				Hint:   "hunter2 and Bearer eyJhbGciOiJSUzI1NiJ9.e30.c2ln",
			}
		}}},
	})
	want := []doctor.Check{{Name: "x", Detail: "dial redis://mia:…@host:6379/0 with …", Hint: "… and Bearer …"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestAddress(t *testing.T) {
	t.Parallel()
	expect(t, doctor.Address("127.0.0.1:0"), doctor.OK, "free", "only programs on this machine")
	expect(t, doctor.Address(":0"), doctor.OK, "every machine")
	expect(t, doctor.Address("192.0.2.1:3978"), doctor.Fail, "no address of this machine", "BOT_ADDR")
	expect(t, doctor.Address("127.0.0.1:nothing"), doctor.Fail, "BOT_ADDR")

	for body, want := range map[string]doctor.Status{"ok\n": doctor.Warn, "<html>": doctor.Fail} {
		taken := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/healthz" {
				_, _ = w.Write([]byte(body))
			}
		}))
		expect(t, doctor.Address(taken.Listener.Addr().String()), want, "taken", "PORT")
		taken.Close()
	}
	var lc net.ListenConfig
	silent, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	got := doctor.Run(t.Context(), doctor.Config{Timeout: 20 * time.Millisecond, Probes: []doctor.Probe{doctor.Address(silent.Addr().String())}})
	if got[0].Status != doctor.Fail {
		t.Errorf("got %+v", got)
	}
}

func TestIdentity(t *testing.T) {
	t.Parallel()
	expect(t, doctor.Identity(doctor.IdentitySettings{}), doctor.OK, "local mode", "MICROSOFT_APP_ID")
	expect(t, doctor.Identity(doctor.IdentitySettings{NoAuth: true}), doctor.Warn, "BOT_DANGEROUSLY_NO_AUTH")
	app := doctor.IdentitySettings{AppID: "1234", Type: "SingleTenant", Tenant: "contoso", Token: answers(nil)}
	expect(t, doctor.Identity(app), doctor.OK, "1234", "SingleTenant, tenant contoso", "got a token")
	for code, hint := range map[string]string{
		"status 401 invalid_client AADSTS7000215":           "not its Secret ID",
		"status 401 invalid_client AADSTS7000222":           "run out",
		"status 400 unauthorized_client AADSTS700016":       "MICROSOFT_APP_TYPE=SingleTenant",
		"status 401 invalid_client AADSTS700027":            "upload the one in MICROSOFT_APP_CERTIFICATE_FILE",
		"status 401 invalid_client AADSTS700213":            "federated credentials",
		"status 401 invalid_client AADSTS700024":            "federated token has run out",
		"status 400 the managed identity gives none":        "assigned to this machine",
		"status 400 invalid_request AADSTS90002":            "no such tenant",
		"dial tcp: lookup login.example.com: no such host":  "DNS",
		"context deadline exceeded":                         "firewall",
		"something that nobody has thought of in the table": "compare MICROSOFT_APP_ID",
	} {
		app.Token = answers(errors.New(code))
		expect(t, doctor.Identity(app), doctor.Fail, code, hint)
	}
}

func TestOpenIDAndClock(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/good":
			_, _ = w.Write([]byte(`{"issuer":"https://api.botframework.com","jwks_uri":"https://x/keys","more":1}`))
		case "/odd":
			_, _ = w.Write([]byte(`{"issuer":"https://api.botframework.com"}`))
		case "/timeless":
			w.Header()["Date"] = nil
		default:
			http.Redirect(w, r, "/good", http.StatusFound)
		}
	}))
	defer server.Close()
	expect(t, doctor.OpenID("", nil), doctor.OK, "local mode")
	expect(t, doctor.OpenID(server.URL+"/good", nil), doctor.OK, "tokens have to be of https://api.botframework.com")
	expect(t, doctor.Callers(server.URL+"/good", nil), doctor.OK, "tokens have to be of")
	expect(t, doctor.Callers(server.URL+"/odd", nil), doctor.Fail, "no OpenID document", "MICROSOFT_APP_TENANT_ID")
	expect(t, doctor.OpenID(server.URL+"/odd", nil), doctor.Fail, "no OpenID document", "BOT_OPENID_METADATA_URL")
	expect(t, doctor.OpenID(server.URL+"/moved", nil), doctor.Fail, "302")
	expect(t, doctor.OpenID("http://127.0.0.1:1/x", nil), doctor.Fail, "refused")

	for shift, want := range map[time.Duration]doctor.Status{
		0: doctor.OK, time.Second: doctor.OK, time.Minute: doctor.Warn, -time.Minute: doctor.Warn, -time.Hour: doctor.Fail, 6 * time.Minute: doctor.Fail,
	} {
		now := func() time.Time { return time.Now().Add(shift) }
		expect(t, doctor.Clock(server.URL+"/good", nil, now), want, "clock of "+server.URL)
	}
	expect(t, doctor.Clock("", nil, time.Now), doctor.OK, "local mode")
	expect(t, doctor.Clock(server.URL+"/timeless", nil, time.Now), doctor.Warn, "tells no time")
}

func TestModel(t *testing.T) {
	t.Parallel()
	expect(t, doctor.Model(doctor.ModelSettings{Offline: true}), doctor.OK, "offline", "OPENAI_API_KEY")
	expect(t, doctor.Model(doctor.ModelSettings{Name: "m at x", Try: answers(nil)}), doctor.OK, "m at x answers in")
	expect(t, doctor.Model(doctor.ModelSettings{Name: "m", Try: answers(context.DeadlineExceeded)}), doctor.Warn, "run the doctor again")
	expect(t, doctor.Model(doctor.ModelSettings{Name: "m", Try: answers(errors.New("status 401"))}), doctor.Fail, "the key is wrong")
	expect(t, doctor.Model(doctor.ModelSettings{Name: "m", Try: answers(errors.New("status 418"))}), doctor.Fail, "your provider says")
}

func TestPromptsAndSettings(t *testing.T) {
	t.Parallel()
	load := func(dir string) ([]string, error) {
		if dir == "bad" {
			return nil, errors.New("bad/sequence/prompt.md: line 3")
		}
		return []string{"sequence"}, nil
	}
	expect(t, doctor.Prompts("", load), doctor.OK, "embedded (sequence)")
	expect(t, doctor.Prompts("mine", load), doctor.OK, "in mine")
	expect(t, doctor.Prompts("bad", load), doctor.Fail, "line 3", "BOT_PROMPTS_DIR")
	expect(t, doctor.Settings(nil, nil), doctor.OK, "no contradictions")
	expect(t, doctor.Settings(nil, []string{"MICROSOFT_APP_ID: x"}), doctor.Warn, "MICROSOFT_APP_ID: x")
	expect(t, doctor.Settings(errors.New("PORT: x"), []string{"y"}), doctor.Fail, "PORT: x")
}

func TestPrint(t *testing.T) {
	t.Parallel()
	checks := []doctor.Check{
		{"address", doctor.OK, "free", ""},
		{"redis", doctor.Warn, "a detail that is too long for one line of this table", "do this\nthen that"},
		{"model", doctor.Fail, "one\ntwo", ""},
	}
	var out strings.Builder
	if err := doctor.Print(&out, checks, doctor.Style{Width: 45}); err != nil {
		t.Fatal(err)
	}
	const want = `ok    address  free
warn  redis    a detail that is too long for
               one line of this table
               → do this
                 then that
fail  model    one
               two

1 of 3 checks failed: the bot will not work as it is set up.
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
	out.Reset()
	if err := doctor.Print(&out, checks[:1], doctor.Style{Color: true}); err != nil || !strings.HasPrefix(out.String(), "\x1b[32mok  \x1b[0m  address  free\n") {
		t.Errorf("%v, %q", err, out.String())
	}
	if !strings.HasSuffix(out.String(), "\nAll is well.\n") {
		t.Errorf("got %q", out.String())
	}
}

func TestPrintJSON(t *testing.T) {
	t.Parallel()
	in := []doctor.Check{{"redis", doctor.Warn, "a <b>", "c"}, {"model", doctor.OK, "d", ""}}
	var out strings.Builder
	if err := doctor.PrintJSON(&out, in); err != nil {
		t.Fatal(err)
	}
	var back []doctor.Check
	if err := json.Unmarshal([]byte(out.String()), &back); err != nil || cmp.Diff(in, back) != "" {
		t.Errorf("%v: %s", err, out.String())
	}
	if strings.Count(out.String(), "hint") != 1 || !strings.Contains(out.String(), "<b>") {
		t.Errorf("got %s", out.String())
	}
	out.Reset()
	if err := doctor.PrintJSON(&out, nil); err != nil || out.String() != "[]\n" {
		t.Errorf("%v: %q", err, out.String())
	}
}
