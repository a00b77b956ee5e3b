package server_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/mcp/server"
)

// fakeBot notes requests and answers them at once, but for those that wait for a person.
type fakeBot struct {
	mu   sync.Mutex
	all  []actions.Request
	err  error
	gone bool // results are
}

func (b *fakeBot) Request(_ context.Context, r actions.Request) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		return "", b.err
	}
	b.all = append(b.all, r)
	return fmt.Sprint(len(b.all)), nil
}

func (b *fakeBot) Requested(_ context.Context, r actions.Request, id string) (actions.Requested, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, known := range b.all {
		if b.gone {
			break
		}
		if fmt.Sprint(i+1) != id || known.Subject != r.Subject {
			continue
		}
		if strings.HasPrefix(known.Action, "mcp_") {
			return actions.Requested{ID: id, Status: actions.RequestPending}, nil
		}
		return actions.Requested{ID: id, Status: actions.RequestDone, Text: "sunny"}, nil
	}
	return actions.Requested{}, actions.ErrNoRequest
}

// issuer signs tokens.
type issuer struct {
	*httptest.Server
	key *rsa.PrivateKey
}

var signingKey = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	key, err := signingKey()
	must(t, err)
	i := &issuer{key: key}
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]string{"jwks_uri": i.URL + "/keys"})
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		part := func(n *big.Int) string { return base64.RawURLEncoding.EncodeToString(n.Bytes()) }
		one := map[string]string{"kty": "RSA", "use": "sig", "kid": "k1", "n": part(key.N), "e": part(big.NewInt(int64(key.E)))}
		_ = json.NewEncoder(w).Encode(map[string]any{"keys": []any{one}})
	})
	i.Server = httptest.NewServer(mux)
	t.Cleanup(i.Close)
	return i
}

// token is one for Mia, with other claims where over has them.
func (i *issuer) token(t *testing.T, audience string, over jwt.MapClaims) string {
	t.Helper()
	claims := jwt.MapClaims{
		"iss": i.URL, "sub": "sub-mia", "aud": audience, "exp": time.Now().Add(time.Hour).Unix(), "nbf": time.Now().Add(-time.Minute).Unix(),
		"tid": "tenant-1", "oid": "aad-mia", "azp": "ide",
	}
	for name, value := range over {
		if claims[name] = value; value == nil {
			delete(claims, name)
		}
	}
	made := jwt.NewWithClaims(jwt.SigningMethodRS256, claims)
	made.Header["kid"] = "k1"
	signed, err := made.SignedString(i.key)
	must(t, err)
	return signed
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

type forecast struct {
	City string `json:"city"`
}

func registry() *actions.Registry {
	acts := actions.New()
	run := func(context.Context, *actions.Turn, forecast) (actions.Result, error) { return actions.Done, nil }
	actions.Add(acts, "weather", "Tells the weather", run, actions.Title("Weather"))
	actions.Add(acts, "secretPlan", "Is not offered", run)
	return acts
}

const fixedToken = "for-development"

func digest(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// start serves an MCP server of a fake bot.
func start(t *testing.T, issuers ...string) (*fakeBot, string) {
	t.Helper()
	bot := &fakeBot{}
	var made *server.Server
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { made.ServeHTTP(w, r) }))
	t.Cleanup(web.Close)
	var err error
	made, err = server.New(server.Config{
		Bot: bot, Actions: registry(), Exposed: []string{"weather"}, Resource: web.URL + "/mcp", Issuers: issuers, Origins: []string{"https://tools.example"},
		Tokens: []server.Token{{Name: "Coder", SHA256: digest(fixedToken), Tenant: "tenant-1", Person: "aad-mia"}},
	})
	must(t, err)
	t.Cleanup(made.Close)
	return bot, web.URL + "/mcp"
}

// withToken sends a token with each request.
type withToken struct{ token string }

func (c withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+c.token)
	return http.DefaultTransport.RoundTrip(r)
}

// connect connects with the SDK's own client.
func connect(t *testing.T, endpoint, token string) *sdk.ClientSession {
	t.Helper()
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &sdk.StreamableClientTransport{
		Endpoint: endpoint, HTTPClient: &http.Client{Transport: withToken{token}}, DisableStandaloneSSE: true,
	}, nil)
	must(t, err)
	t.Cleanup(func() { _ = session.Close() })
	return session
}

func call(t *testing.T, session *sdk.ClientSession, tool string, arguments any) (string, *sdk.CallToolResult) {
	t.Helper()
	result, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: arguments})
	must(t, err)
	return result.Content[0].(*sdk.TextContent).Text, result
}

func TestServer(t *testing.T) {
	t.Parallel()
	entra := newIssuer(t)
	bot, endpoint := start(t, entra.URL)
	for name, token := range map[string]string{"a fixed token": fixedToken, "a signed token": entra.token(t, endpoint, nil)} {
		session := connect(t, endpoint, token)
		list, err := session.ListTools(t.Context(), nil)
		must(t, err)
		var names []string
		for _, tool := range list.Tools {
			names = append(names, tool.Name)
		}
		slices.Sort(names)
		if want := []string{"ask_person", "get_answer", "get_approval", "request_approval", "weather"}; !slices.Equal(names, want) || list.GetCacheScope() != "private" {
			t.Errorf("%s: offers %q, %s", name, names, list.GetCacheScope())
		}
		if text, result := call(t, session, "weather", forecast{"Oslo"}); result.IsError || !strings.Contains(text, `"sunny"`) {
			t.Errorf("%s: weather: %s", name, text)
		}
		text, result := call(t, session, "ask_person", map[string]any{"question": "Why?", "choices": []string{"a", "b"}})
		if result.IsError || !strings.Contains(text, `"status":"pending"`) {
			t.Errorf("%s: ask_person: %s", name, text)
		}
		var asked struct{ ID string }
		must(t, json.Unmarshal([]byte(text), &asked))
		if text, result := call(t, session, "get_answer", map[string]any{"id": asked.ID}); result.IsError || !strings.Contains(text, "pending") {
			t.Errorf("%s: get_answer: %s", name, text)
		}
		for tool, arguments := range map[string]any{
			"ask_person":       map[string]any{"question": " "},
			"request_approval": map[string]any{"what": "x", "minutes": 9999},
			"get_approval":     map[string]any{"id": "99"},
		} {
			if text, result := call(t, session, tool, arguments); !result.IsError {
				t.Errorf("%s: %s %v: %s", name, tool, arguments, text)
			}
		}
		if _, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "secretPlan", Arguments: forecast{"x"}}); err == nil {
			t.Errorf("%s: an action that is not exposed was called", name)
		}
	}
	bot.mu.Lock()
	defer bot.mu.Unlock()
	if len(bot.all) != 4 {
		t.Fatalf("%d requests", len(bot.all))
	}
	for _, r := range bot.all {
		if r.Tenant != "tenant-1" || r.Person != "aad-mia" || r.Subject == "" || r.By != "Coder" && r.By != "ide" {
			t.Errorf("request %+v", r)
		}
	}
	first := bot.all[0].Subject
	if slices.ContainsFunc(bot.all[2:], func(r actions.Request) bool { return r.Subject == first }) {
		t.Error("two programs are one subject")
	}
}

// TestAttempt: a client that may repeat a call says so, and the bot knows that it is the same.
func TestAttempt(t *testing.T) {
	t.Parallel()
	bot, endpoint := start(t)
	session := connect(t, endpoint, fixedToken)
	params := &sdk.CallToolParams{Name: "weather", Arguments: forecast{"Oslo"}, Meta: sdk.Meta{"planbot/attempt": "k1"}}
	_, err := session.CallTool(t.Context(), params)
	must(t, err)
	bot.mu.Lock()
	defer bot.mu.Unlock()
	if got := bot.all[0].Key; got != "weather\nk1" {
		t.Errorf("key %q", got)
	}
}

// post sends one request without the client of the SDK.
func post(t *testing.T, endpoint string, header map[string]string) (int, http.Header, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, endpoint, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`))
	must(t, err)
	for name, value := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": "2025-06-18"} {
		r.Header.Set(name, value)
	}
	for name, value := range header {
		r.Header.Set(name, value)
	}
	res, err := http.DefaultClient.Do(r)
	must(t, err)
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	must(t, err)
	return res.StatusCode, res.Header, string(body)
}

func TestServerLetsNobodyIn(t *testing.T) {
	t.Parallel()
	entra, foreign := newIssuer(t), newIssuer(t)
	_, endpoint := start(t, entra.URL)
	hour := time.Hour
	for name, token := range map[string]string{
		"no token":           "",
		"another token":      "Bearer x",
		"no bearer":          "Basic " + fixedToken,
		"another audience":   "Bearer " + entra.token(t, endpoint+"2", nil),
		"expired":            "Bearer " + entra.token(t, endpoint, jwt.MapClaims{"exp": time.Now().Add(-hour).Unix()}),
		"without an end":     "Bearer " + entra.token(t, endpoint, jwt.MapClaims{"exp": nil}),
		"not yet":            "Bearer " + entra.token(t, endpoint, jwt.MapClaims{"nbf": time.Now().Add(hour).Unix()}),
		"a foreign issuer":   "Bearer " + foreign.token(t, endpoint, nil),
		"without a subject":  "Bearer " + entra.token(t, endpoint, jwt.MapClaims{"sub": nil}),
		"with another body":  "Bearer " + strings.Replace(entra.token(t, endpoint, nil), ".", ".e30", 1),
		"without signature":  "Bearer " + entra.token(t, endpoint, nil)[:20],
		"a digest, no token": "Bearer " + digest(fixedToken),
	} {
		header := map[string]string{"Authorization": token}
		status, answered, body := post(t, endpoint, header)
		if status != http.StatusUnauthorized || !strings.Contains(answered.Get("Www-Authenticate"), `resource_metadata="http://127.0.0.1`) || token != "" && strings.Contains(body, token) {
			t.Errorf("%s: %d %s, %v", name, status, body, answered)
		}
	}
	valid := map[string]string{"Authorization": "Bearer " + entra.token(t, endpoint, jwt.MapClaims{"nbf": nil})}
	if status, _, body := post(t, endpoint, valid); status != http.StatusOK {
		t.Errorf("valid: %d %s", status, body)
	}
	lower := map[string]string{"Authorization": "bearer " + entra.token(t, endpoint, nil)} // schemes have no case
	if status, _, body := post(t, endpoint, lower); status != http.StatusOK {
		t.Errorf("in lower case: %d %s", status, body)
	}
	valid["Origin"] = "https://evil.example"
	if status, _, body := post(t, endpoint, valid); status != http.StatusForbidden {
		t.Errorf("a foreign page: %d %s", status, body)
	}
	valid["Origin"] = "https://tools.example"
	if status, _, body := post(t, endpoint, valid); status != http.StatusOK {
		t.Errorf("a page of the operator: %d %s", status, body)
	}
}

// TestServerOfPrograms: a token that names no person may call nothing.
func TestServerOfPrograms(t *testing.T) {
	t.Parallel()
	entra := newIssuer(t)
	bot, endpoint := start(t, entra.URL)
	session := connect(t, endpoint, entra.token(t, endpoint, jwt.MapClaims{"idtyp": "app"}))
	for _, tool := range []string{"weather", "get_answer"} {
		if text, result := call(t, session, tool, map[string]any{"city": "Oslo", "id": "1"}); !result.IsError {
			t.Errorf("%s: %s", tool, text)
		}
	}
	if len(bot.all) != 0 {
		t.Errorf("requests %+v", bot.all)
	}
}

func TestServerWhenTheBotDoesNotTakeIt(t *testing.T) {
	t.Parallel()
	bot, endpoint := start(t)
	session := connect(t, endpoint, fixedToken)
	for want, err := range map[string]error{
		"no conversation":        fmt.Errorf("request: %w", actions.ErrUnknownRecipient),
		"too many open requests": actions.ErrFull,
	} {
		bot.mu.Lock()
		bot.err = err
		bot.mu.Unlock()
		if text, result := call(t, session, "weather", forecast{"Oslo"}); !result.IsError || !strings.Contains(text, want) {
			t.Errorf("%v: %s", err, text)
		}
	}
	bot.mu.Lock()
	bot.err = io.ErrUnexpectedEOF
	bot.mu.Unlock()
	_, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "weather", Arguments: forecast{"Oslo"}})
	if err == nil || strings.Contains(err.Error(), "EOF") {
		t.Errorf("an error of the store: %v", err)
	}
}

func TestServerLimitsCalls(t *testing.T) {
	t.Parallel()
	_, endpoint := start(t)
	header, limited := map[string]string{"Authorization": "Bearer " + fixedToken}, false
	for range 200 {
		status, answered, _ := post(t, endpoint, header)
		limited = limited || status == http.StatusTooManyRequests && answered.Get("Retry-After") == "1"
	}
	if !limited {
		t.Error("200 calls at once were all taken")
	}
}

// TestForwarded: a server for this machine takes nothing that came from elsewhere.
func TestForwarded(t *testing.T) {
	t.Parallel()
	_, endpoint := start(t)
	for _, name := range []string{"X-Forwarded-For", "Forwarded", "Cf-Ray", "X-Real-Ip"} {
		header := map[string]string{"Authorization": "Bearer " + fixedToken, name: "203.0.113.7"}
		if status, _, body := post(t, endpoint, header); status != http.StatusForbidden {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
}

// TestBatches: many calls in one request would cost as much as one.
func TestBatches(t *testing.T) {
	t.Parallel()
	bot, endpoint := start(t)
	const one = `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"weather","arguments":{"city":"Oslo"}}}`
	for name, tt := range map[string]struct {
		body, version string
		status        int
	}{
		"one":                  {fmt.Sprintf(one, 1), "", http.StatusOK},
		"white space, and one": {" \n" + fmt.Sprintf(one, 1), "2025-03-26", http.StatusOK},
		"a batch":              {"[" + fmt.Sprintf(one, 1) + "," + fmt.Sprintf(one, 2) + "]", "", http.StatusBadRequest},
		"a batch of one":       {"\r\n\t [" + fmt.Sprintf(one, 1) + "]", "2025-03-26", http.StatusBadRequest},
		"a batch of 2024":      {"[" + fmt.Sprintf(one, 1) + "]", "2024-11-05", http.StatusBadRequest},
		"only white space":     {strings.Repeat(" ", 2<<20), "", http.StatusBadRequest},
	} {
		bot.mu.Lock()
		before := len(bot.all)
		bot.mu.Unlock()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, endpoint, strings.NewReader(tt.body))
		must(t, err)
		r.Header.Set("Authorization", "Bearer "+fixedToken)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		if tt.version != "" {
			r.Header.Set("Mcp-Protocol-Version", tt.version)
		}
		answer, err := http.DefaultClient.Do(r)
		must(t, err)
		_ = answer.Body.Close()
		bot.mu.Lock()
		if calls := len(bot.all) - before; answer.StatusCode != tt.status || calls > 0 && tt.status != http.StatusOK {
			t.Errorf("%s: %d, %d calls", name, answer.StatusCode, calls)
		}
		bot.mu.Unlock()
	}
}

// TestTakenButGone: a call that was taken is answered with its id, whatever became of its result.
func TestTakenButGone(t *testing.T) {
	t.Parallel()
	bot, endpoint := start(t)
	bot.gone = true
	text, result := call(t, connect(t, endpoint, fixedToken), "weather", forecast{"Oslo"})
	if !strings.Contains(text, `"id":"1"`) || !strings.Contains(text, `"unknown"`) || !result.IsError {
		t.Error(text)
	}
}

func TestMetadata(t *testing.T) {
	t.Parallel()
	_, endpoint := start(t, "https://login.example/v2.0")
	base := strings.TrimSuffix(endpoint, "/mcp")
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+"/.well-known/oauth-protected-resource/mcp", nil)
	must(t, err)
	res, err := http.DefaultClient.Do(r)
	must(t, err)
	defer func() { _ = res.Body.Close() }()
	var meta struct {
		Resource string   `json:"resource"`
		Servers  []string `json:"authorization_servers"`
	}
	must(t, json.NewDecoder(res.Body).Decode(&meta))
	if meta.Resource != endpoint || !slices.Equal(meta.Servers, []string{"https://login.example/v2.0"}) {
		t.Errorf("metadata %+v", meta)
	}
}

func TestWrongConfig(t *testing.T) {
	t.Parallel()
	known := server.Token{Name: "Coder", SHA256: digest(fixedToken), Tenant: "tenant-1", Person: "aad-mia"}
	_, err := server.New(server.Config{
		Bot: &fakeBot{}, Actions: registry(), Exposed: []string{"gone", "mcp_ask_person"}, Resource: "http://bot.example/mcp",
		Issuers: []string{"http://login.example"}, Tokens: []server.Token{{Name: "x", SHA256: "y"}, known, known}, Origins: []string{"tools"}, Wait: -1,
	})
	for _, want := range []string{
		`"gone"`, `"mcp_ask_person"`, "is not https", "issuer", "Tokens: number 1", "Tokens: numbers 2 and 3 are the same", "Origins", "Wait: -1ns",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %s: %v", want, err)
		}
	}
	if _, err := server.New(server.Config{}); err == nil || !strings.Contains(err.Error(), "nobody could call") || !strings.Contains(err.Error(), "no Bot") {
		t.Errorf("no config: %v", err)
	}
}

func ExampleNew() {
	tools, err := server.New(server.Config{
		Bot: &fakeBot{}, Actions: registry(), Exposed: []string{"weather"}, Resource: "https://bot.example/mcp",
		Issuers: []string{"https://login.microsoftonline.com/7a7b7c7d-1111-2222-3333-444455556666/v2.0"}, Audience: "api://bot",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer tools.Close()
	mux := http.NewServeMux() // that of the webhook
	mux.Handle("/mcp", tools)
	mux.Handle("/.well-known/oauth-protected-resource/", tools)
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/mcp", nil))
	fmt.Println(w.Code, w.Header().Get("Www-Authenticate"))
	// Output: 401 Bearer resource_metadata="https://bot.example/.well-known/oauth-protected-resource/mcp"
}
