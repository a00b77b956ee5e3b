package app_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/golang-jwt/jwt/v5"

	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bottest"
	"github.com/planbot-go/planbot/connector"
	"github.com/planbot-go/planbot/internal/fakemodel"
	"github.com/planbot-go/planbot/models"
)

const heddasID = "0b0c0d0e-1111-2222-3333-444455556666"

// authority stands in for Microsoft: it signs the tokens of channels, and gives the bot its own.
type authority struct {
	*httptest.Server
	key *rsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	a := &authority{key: key}
	encode := base64.RawURLEncoding.EncodeToString
	answer := func(w http.ResponseWriter, v any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(v)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /openid", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{"issuer": "https://api.botframework.com", "jwks_uri": a.URL + "/keys"})
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{"keys": []any{map[string]any{
			"kty": "RSA", "use": "sig", "kid": "k", "n": encode(key.N.Bytes()), "e": encode(big.NewInt(int64(key.E)).Bytes()),
			"endorsements": []string{"msteams"},
		}}})
	})
	mux.HandleFunc("POST /{tenant}/oauth2/v2.0/token", func(w http.ResponseWriter, r *http.Request) {
		answer(w, map[string]any{"access_token": "of-" + r.PostFormValue("client_id"), "token_type": "Bearer", "expires_in": 3600})
	})
	a.Server = httptest.NewServer(mux)
	t.Cleanup(a.Close)
	return a
}

// token is what a channel with that serviceUrl proves itself with to a bot.
func (a *authority) token(t *testing.T, audience, serviceURL string) string {
	t.Helper()
	token := jwt.NewWithClaims(jwt.SigningMethodRS256, jwt.MapClaims{
		"iss": "https://api.botframework.com", "aud": audience, "serviceurl": serviceURL,
		"nbf": time.Now().Add(-time.Minute).Unix(), "exp": time.Now().Add(time.Hour).Unix(),
	})
	token.Header["kid"] = "k"
	signed, err := token.SignedString(a.key)
	if err != nil {
		t.Fatal(err)
	}
	return signed
}

// TestABotInAServerOfItsOwn plays the example of New: who gets in, what goes out, and health.
func TestABotInAServerOfItsOwn(t *testing.T) {
	t.Parallel()
	authority, redis, channel, server := newAuthority(t), miniredis.RunT(t), bottest.NewConnector(t), fakemodel.New(t)
	host, err := url.Parse(channel.URL)
	if err != nil {
		t.Fatal(err)
	}
	identity := connector.Config{
		AppID: heddasID, Credentials: connector.Credentials{Password: "secret"},
		MetadataURL: authority.URL + "/openid", LoginURL: authority.URL, AllowedHosts: []string{host.Host},
	}
	model, err := models.NewOpenAI(models.OpenAIConfig{BaseURL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	var lc net.ListenConfig
	listener, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	served := make(chan error, 1)
	go func() { served <- serveHedda(ctx, listener, identity, "redis://"+redis.Addr(), model) }()

	root := "http://" + listener.Addr().String()
	request := func(method, path, token, body string) int {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, root+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		_, _ = io.Copy(io.Discard, resp.Body)
		return resp.StatusCode
	}
	says := func(id, kind, text string) string {
		return fmt.Sprintf(`{"type":"message","id":%q,"channelId":"msteams","serviceUrl":%q,"from":{"id":"29:mia","name":"Mia"},"recipient":{"id":"28:bot"},`+
			`"conversation":{"id":%q,"conversationType":%q},"entities":[{"type":"mention","text":"<at>Hedda</at>","mentioned":{"id":"28:bot"}}],"text":"<at>Hedda</at> %s"}`,
			id, channel.URL, kind, kind, text)
	}
	good := authority.token(t, heddasID, channel.URL)
	for name, token := range map[string]string{
		"no token": "", "a forged one": good[:len(good)-6] + "AAAAAA", "another bot's": authority.token(t, "another", channel.URL),
		"another channel's": authority.token(t, heddasID, "https://smba.trafficmanager.net/emea/"),
	} {
		if status := request(http.MethodPost, "/api/messages", token, says("0", "personal", "hello")); status != http.StatusUnauthorized {
			t.Errorf("%s: %d", name, status)
		}
	}

	const deletion = `{"type":"plan","commands":[{"type":"DO","action":"deleteList","entities":{"list":"parts"}}]}`
	server.Says(`{"type":"plan","commands":[{"type":"DO","action":"createList","entities":{"list":"parts"}},{"type":"SAY","response":"Made it."}]}`,
		deletion, `{"type":"plan","commands":[{"type":"SAY","response":"Not here."}]}`)
	for i, step := range []struct{ kind, text, want string }{
		{"personal", "/hours", "The warehouse is open from 6 to 22."},
		{"personal", "make a list of parts", "Made it."},
		{"groupChat", "delete it", "Not here."},
	} {
		if status := request(http.MethodPost, "/api/messages", good, says(fmt.Sprint(i+1), step.kind, step.text)); status != http.StatusOK {
			t.Fatalf("%s: %d", step.text, status)
		}
		if sent := channel.Next(); sent.Activity.Text != step.want || sent.Authorization != "Bearer of-"+heddasID {
			t.Errorf("%s: got %q with %q", step.text, sent.Activity.Text, sent.Authorization)
		}
	}
	calls := server.Calls()
	if len(calls) != 3 || !strings.Contains(calls[0].Text(), hedda.Instructions) || !strings.Contains(calls[2].Text(), "deleteList works in a personal chat only") {
		t.Errorf("the model was told %+v", calls)
	}

	for _, step := range []struct {
		fault, path string
		want        int
	}{{"", "/healthz", 200}, {"", "/readyz", 200}, {"LOADING", "/readyz", 503}, {"LOADING", "/healthz", 200}, {"", "/readyz", 200}} {
		redis.SetError(step.fault)
		if status := request(http.MethodGet, step.path, "", ""); status != step.want {
			t.Errorf("%s with Redis %q: %d", step.path, step.fault, status)
		}
	}
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// TestNew: the kit sees the calls of a bot that has hooks of its own.
func TestNew(t *testing.T) {
	t.Parallel()
	bottest.Test(t, bottest.Config{Name: "Hedda", New: func(ctx context.Context, p bottest.Parts) (*bot.Bot, error) {
		return app.New(ctx, hedda, p.Model, p.Bot)
	}}, func(t *testing.T, kit *bottest.Kit) {
		chat := kit.Group("team", "Mia")
		chat.AddBot()
		chat.Expect(hedda.Welcome)
		chat.Mention("/hours")
		chat.Expect("The warehouse is open from 6 to 22.")
		kit.Model.Says(
			bottest.Plan(bottest.Do("addItem", "list", "parts", "item", "bolts"), bottest.Do("deleteList", "list", "parts")),
			bottest.Plan(bottest.Say("That works in a personal chat only.")),
		)
		chat.Mention("add bolts to parts, and delete it")
		chat.Expect("That works in a personal chat only.")
		if calls := kit.Calls(); len(calls) != 1 || calls[0].Action != "addItem" {
			t.Errorf("the kit saw %+v", calls)
		}
	})
}
