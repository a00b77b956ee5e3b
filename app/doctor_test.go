package app

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot/signin"
	"github.com/planbot-go/planbot/connector"
	"github.com/planbot-go/planbot/internal/settings"
	"github.com/planbot-go/planbot/models"
)

// expect looks for the words in detail and hint.
func expect(t *testing.T, c check, want status, words ...string) {
	t.Helper()
	if c.Status != want {
		t.Errorf("%s, want %s: %+v", c.Status, want, c)
	}
	for _, w := range words {
		if !strings.Contains(c.Detail+"\n"+c.Hint, w) {
			t.Errorf("%+v does not say %q", c, w)
		}
	}
}

func TestProbesRunAtOnceAndAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slow := func(ctx context.Context) check {
			<-ctx.Done()
			return fail(ctx.Err().Error(), "")
		}
		quick := func(context.Context) check { return ok("fine") }
		start := time.Now()
		got := examine(t.Context(), []probe{{"a", slow}, {"b", quick}, {"c", slow}}, nil)
		if took := time.Since(start); took != probeTimeout {
			t.Errorf("took %s", took)
		}
		late := context.DeadlineExceeded.Error()
		want := []check{{"a", failed, late, ""}, {"b", fine, "fine", ""}, {"c", failed, late, ""}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

func TestSecretsAreBlottedOut(t *testing.T) {
	t.Parallel()
	got := examine(t.Context(), []probe{{"x", func(context.Context) check {
		return check{Detail: "dial redis://mia:p@ss/word@host:6379/0 with hunter2", Hint: "hunter2 and Bearer eyJhbGciOiJSUzI1NiJ9.e30.c2ln"}
	}}}, []string{"hunter2", "o"})
	want := []check{{Name: "x", Detail: "dial redis://mia:…@host:6379/0 with …", Hint: "… and Bearer …"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestCheckAddress(t *testing.T) {
	t.Parallel()
	expect(t, checkAddress(t.Context(), "127.0.0.1:0"), fine, "free")
	expect(t, checkAddress(t.Context(), ":0"), fine, "free")
	expect(t, checkAddress(t.Context(), "192.0.2.1:3978"), failed, "not an address of this machine", "BOT_ADDR")
	expect(t, checkAddress(t.Context(), "127.0.0.1:nothing"), failed, "BOT_ADDR")
	for body, want := range map[string]status{"ok\n": warned, "<html>": failed} {
		taken := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/healthz" {
				_, _ = io.WriteString(w, body)
			}
		}))
		expect(t, checkAddress(t.Context(), taken.Listener.Addr().String()), want, "taken", "PORT")
		taken.Close()
	}
}

func TestCheckIdentity(t *testing.T) {
	t.Parallel()
	p := &program{Settings: &settings.Settings{}}
	expect(t, p.checkIdentity(t.Context(), nil), fine, "local mode", "MICROSOFT_APP_ID")
	p.NoAuth = true
	expect(t, p.checkIdentity(t.Context(), nil), warned, "BOT_DANGEROUSLY_NO_AUTH")
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
		"something that nobody has thought of in the table": "otherwise",
	} {
		if got := refusal("x", errors.New(code), identityHints, "otherwise").Hint; !strings.Contains(got, hint) {
			t.Errorf("%s: %s", code, got)
		}
	}
}

func TestCheckOpenID(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/good":
			_, _ = io.WriteString(w, `{"issuer":"https://api.botframework.com","jwks_uri":"https://x/keys","more":1}`)
		case "/odd":
			_, _ = io.WriteString(w, `{"issuer":"https://api.botframework.com"}`)
		default:
			http.Redirect(w, r, "/good", http.StatusFound)
		}
	}))
	defer server.Close()
	const names = "BOT_OPENID_METADATA_URL"
	expect(t, checkOpenID(t.Context(), "", names), fine, "local mode")
	expect(t, checkOpenID(t.Context(), server.URL+"/good", names), fine, "tokens have to be of https://api.botframework.com")
	expect(t, checkOpenID(t.Context(), server.URL+"/odd", names), failed, "not an OpenID document", names)
	expect(t, checkOpenID(t.Context(), server.URL+"/moved", names), failed, "302")
	expect(t, checkOpenID(t.Context(), "http://127.0.0.1:1/x", names), failed, "refused")
}

// answering is a model that fails in one way, or not at all.
type answering struct{ err error }

func (a answering) Complete(context.Context, *models.Request) (*models.Response, error) {
	return &models.Response{}, a.err
}

// refusing is a model whose server refuses schemas and streams.
type refusing struct{}

func (refusing) Complete(_ context.Context, req *models.Request) (*models.Response, error) {
	answer := &models.Response{Usage: models.Usage{Prompt: 30, Completion: 1, Cost: 0.00002}}
	switch {
	case req.Format != nil:
		answer.Without = []string{"json_schema"}
	case req.Stream != nil:
		answer.Without = []string{"stream"}
	case req.Tools != nil:
		answer.Without = []string{"tool bad"}
	}
	return answer, nil
}

func TestCheckModel(t *testing.T) {
	t.Parallel()
	expect(t, checkModel(t.Context(), models.Offline{}, ""), fine, "offline", "OPENAI_API_KEY")
	expect(t, checkModel(t.Context(), answering{}, "m at x"), fine, "m at x answers in")
	forms := []modelForm{
		{"json_schema", models.Request{Format: &models.Format{}}},
		{"tools", models.Request{Tools: []models.Tool{{Name: "bad"}}}},
		{"stream", models.Request{Stream: func() func(string) { return func(string) {} }}},
	}
	expect(t, checkModel(t.Context(), answering{}, "m at x", forms...), fine, "to json_schema and tools and stream")
	expect(t, checkModel(t.Context(), refusing{}, "m at x", forms...), warned, "for 93 tokens, which cost 0.000060", "refuses json_schema, so the bot describes the form in words",
		"BOT_RESPONSE_FORMAT", "refuses stream, so the bot asks for whole answers", "refuses tool bad, so the bot leaves it out")
	expect(t, checkModel(t.Context(), answering{&models.Error{Kind: models.Empty}}, "m"), fine)
	expect(t, checkModel(t.Context(), answering{context.DeadlineExceeded}, "m"), warned, "run the doctor again")
	expect(t, checkModel(t.Context(), answering{errors.New("status 401")}, "m"), failed, "the key is wrong")
	expect(t, checkModel(t.Context(), answering{errors.New("status 401, code PermissionDenied")}, "m"), failed, "Cognitive Services OpenAI User")
	expect(t, checkModel(t.Context(), answering{&models.Error{Kind: models.BadRequest, Said: "no tea"}}, "m"), failed, "no tea", "your provider says")
}

func TestCheckSettings(t *testing.T) {
	t.Parallel()
	expect(t, checkSettings(nil, nil, []settings.Given{{Variable: "PORT", From: "the environment, as PORT"}, {Variable: "BOT_PLANNER", From: "a flag"}, {Variable: "BOT_ADDR"}}), fine,
		"no contradictions; from the environment: PORT; from a flag: BOT_PLANNER")
	expect(t, checkSettings(nil, []string{"MICROSOFT_APP_ID: x"}, nil), warned, "MICROSOFT_APP_ID: x")
	expect(t, checkSettings(errors.New("PORT: x"), []string{"y"}, nil), failed, "PORT: x")
}

func TestRedisReport(t *testing.T) {
	t.Parallel()
	const sound = "# Server\r\nredis_version:7.2.4\r\nrole:master\r\nmaxmemory_policy:noeviction\r\naof_enabled:1\r\n"
	const noAOF = "redis_version:8.0.1\nmaxmemory_policy:noeviction\naof_enabled:0\n"
	for name, c := range map[string]struct {
		info, snapshots string
		untold          error
		status          status
		words           []string
	}{
		"sound":               {sound, "", nil, fine, []string{"version 7.2.4", "AOF"}},
		"odd":                 {"\x00:\n:::\nredis_version:x.y\n", "", nil, fine, nil},
		"old":                 {"redis_version:6.0.16\n", "", nil, warned, []string{"older than 6.2"}},
		"older":               {"redis_version:5.9.1\n", "", nil, warned, []string{"older than 6.2"}},
		"valkey":              {"redis_version:7.2.4\nserver_name:valkey\nvalkey_version:8.1.0\n", "", nil, fine, []string{"version 7.2.4"}},
		"replica":             {"role:slave\n", "", nil, failed, []string{"takes no writes"}},
		"replica that evicts": {"role:slave\nmaxmemory_policy:allkeys-lru\n", "", nil, failed, []string{"allkeys-lru"}},
		"evicts":              {"maxmemory_policy:allkeys-lru\n", "", nil, warned, []string{"allkeys-lru", "noeviction"}},
		"no AOF, not told":    {noAOF, "", errors.New("ERR unknown command"), warned, []string{"latest changes", "appendonly"}},
		"no AOF, no RDB":      {noAOF, "", nil, warned, []string{"loses everything"}},
		"RDB alone":           {noAOF, "3600 1 300 100", nil, fine, []string{"snapshots", "3600 1 300 100"}},
	} {
		r := ok("it answers")
		r.redis(c.info, c.snapshots, c.untold)
		t.Log(name)
		expect(t, r, c.status, c.words...)
	}
	for fault, hint := range map[string]string{
		"dial tcp 127.0.0.1:6379: connect: connection refused": "start Redis",
		"NOAUTH Authentication required":                       "wants a password",
		"WRONGPASS invalid username-password pair":             "is wrong",
	} {
		if got := refusal("x", errors.New(fault), redisHints, "").Hint; !strings.Contains(got, hint) {
			t.Errorf("%s: %s", fault, got)
		}
	}
}

func TestCheckRedis(t *testing.T) {
	t.Parallel()
	p := assembled(t, env{"port": "0"}, io.Discard)
	expect(t, p.checkRedis(t.Context()), fine, "gone when it ends", "REDIS_URL")
	p.AppID = "a"
	expect(t, p.checkRedis(t.Context()), warned, "second replica", "REDIS_URL")
	p = assembled(t, env{"port": "0", "redis-url": "redis://127.0.0.1:1"}, io.Discard)
	expect(t, p.checkRedis(t.Context()), failed, "127.0.0.1:1", "start Redis")
}

func TestPrintChecks(t *testing.T) {
	t.Parallel()
	checks := []check{
		{"address", fine, "free", ""},
		{"redis", warned, "a detail that is too long for one line of this table, which is a hundred characters wide", "do this\nthen that"},
		{"model", failed, "one\ntwo", ""},
	}
	var out strings.Builder
	printChecks(&out, checks)
	const want = `ok    address   free
warn  redis     a detail that is too long for one line of this table, which is a hundred characters wide
                → do this
                  then that
fail  model     one
                two

1 of 3 checks failed: the bot will not work as it is set up.
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
	out.Reset()
	printChecks(&out, checks[:1])
	if got := out.String(); !strings.HasPrefix(got, "ok    address   free\n") || !strings.HasSuffix(got, "\nAll is well.\n") {
		t.Errorf("%q", got)
	}
}

// tokenService knows one connection, of which it exchanges tokens for that address.
type tokenService struct {
	signin.Tokens
	connection, exchanges string
}

func (s tokenService) SignInResource(_ context.Context, _ activity.Reference, connection string) (r connector.SignInResource, err error) {
	r.Link, r.Exchange.URI = "https://token.example.com", s.exchanges
	if connection != s.connection {
		err = errors.New("status 404")
	}
	return r, err
}

func TestCheckSignIn(t *testing.T) {
	t.Parallel()
	p := &program{Settings: &settings.Settings{AppID: "1d0f"}}
	for _, tt := range []struct {
		exchanges, resource string
		want                status
		says                string
	}{
		{"api://botid-1d0f", "", fine, "knows graph"},
		{"", "", fine, "knows graph"}, // it signs nobody in silently
		{"api://botid-2", "", warned, "api://botid-2, and webApplicationInfo.resource of the app package is api://botid-1d0f"},
		{"api://bot.example.com/botid-1d0f", "api://bot.example.com/botid-${{BOT_ID}}", fine, "knows graph"},
	} {
		p.own.Manifest.WebAppResource = tt.resource
		expect(t, p.checkSignIn(t.Context(), tokenService{nil, "graph", tt.exchanges}, []string{"graph"}), tt.want, tt.says)
	}
	expect(t, p.checkSignIn(t.Context(), tokenService{nil, "graph", ""}, []string{"graph", "gihtub"}), warned, "gihtub", "404")
}
