package auth_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/planbot-go/planbot/bottest"
)

// secretText is in all that people write here.
const secretText = "the-words-of-a-person"

// longestLine is what a line of the log may have: an activity's ids are in it, each of
// which has a KiB at most.
const longestLine = 8 << 10

// world is a bot with an identity and everything around it.
type world struct {
	*process
	authority *authority
	connector *bottest.Connector
	taken     atomic.Int64 // of its messages
	modelled  atomic.Int64 // calls of the model
	client    *http.Client
	ids       atomic.Int64

	mu     sync.Mutex
	tokens map[string]bool // that were sent
}

func newWorld(t *testing.T, env ...string) *world {
	t.Helper()
	w := &world{authority: newAuthority(t), connector: bottest.NewConnector(t), tokens: map[string]bool{}}
	model := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		w.modelled.Add(1)
		plan := `{"type":"plan","commands":[{"type":"SAY","response":"Hello."}]}`
		reply(rw, object{
			"object": "chat.completion", "model": "m", "usage": object{"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
			"choices": []object{{"index": 0, "finish_reason": "stop", "message": object{"role": "assistant", "content": plan}}},
		})
	}))
	t.Cleanup(model.Close)
	w.process = start(t, append([]string{
		"MICROSOFT_APP_ID=" + appID, "MICROSOFT_APP_PASSWORD=" + password, "MICROSOFT_APP_TENANT_ID=" + tenantID,
		"BOT_OPENID_METADATA_URL=" + w.authority.url + "/openid", "BOT_LOGIN_URL=" + w.authority.url,
		"BOT_ALLOWED_SERVICE_HOSTS=" + strings.TrimSuffix(strings.TrimPrefix(w.connector.URL, "http://"), "/"),
		"OPENAI_API_KEY=" + modelKey, "OPENAI_BASE_URL=" + model.URL + "/v1", "BOT_STATE=embedded", "BOT_LOG_LEVEL=info",
	}, env...)...)
	transport := &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	w.client = &http.Client{Transport: transport, Timeout: 30 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return w
}

// outbound is how often the bot has called anybody.
func (w *world) outbound() int64 {
	return w.authority.calls.Load() + w.modelled.Load() + int64(len(w.connector.Sent()))
}

// attempt is a request in the making: a good one, until it is changed.
type attempt struct {
	method, path string
	header       http.Header
	token        *token
	bearer       []string // values of Authorization in place of the token
	activity     object
	body         []byte // in place of the activity
	chunked      bool
}

// good is the message of a person in a personal chat.
func (w *world) good() *attempt {
	n := w.ids.Add(1)
	return &attempt{
		method: http.MethodPost, path: "/api/messages",
		header: http.Header{"Content-Type": {"application/json"}},
		token:  newToken(w.connector.URL),
		activity: object{
			"type": "message", "id": fmt.Sprint("activity-", n), "text": secretText, "channelId": "msteams", "serviceUrl": w.connector.URL,
			"from":         object{"id": "29:mia", "name": "Mia", "aadObjectId": "aad-mia"},
			"recipient":    object{"id": "28:" + appID, "name": "Planbot"},
			"conversation": object{"id": fmt.Sprint("a:", n), "conversationType": "personal", "tenantId": tenantID},
			"channelData":  object{"tenant": object{"id": tenantID}},
		},
	}
}

// request is the attempt as it goes over the wire.
func (w *world) request(a *attempt) *http.Request {
	w.Helper()
	body := a.body
	if body == nil {
		raw, err := json.Marshal(a.activity)
		if err != nil {
			w.Fatal(err)
		}
		body = raw
	}
	values := a.bearer
	if values == nil {
		values = []string{"Bearer " + a.token.String()}
	}
	w.sends(values)
	var from io.Reader = bytes.NewReader(body)
	if a.chunked {
		from = io.MultiReader(from) // whose length nobody knows
	}
	req, err := http.NewRequestWithContext(w.Context(), a.method, "http://"+w.addr, from)
	if err != nil {
		w.Fatal(err)
	}
	req.URL.Opaque = a.path // as it is
	if path, query, found := strings.Cut(a.path, "?"); found {
		req.URL = &url.URL{Scheme: "http", Host: w.addr, Opaque: path, RawQuery: query}
	}
	req.URL.Host, req.Host = w.addr, w.addr
	req.Header = a.header.Clone()
	req.Header["Authorization"] = values
	return req
}

// sends notes what no log may hold.
func (w *world) sends(values []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, value := range values {
		for _, part := range strings.FieldsFunc(value, func(r rune) bool { return r == '.' || r == ' ' }) {
			if len(part) >= 20 {
				w.tokens[part] = true
			}
		}
	}
}

// answer is what the bot answered.
type answer struct {
	status int
	header http.Header
	body   string
}

func (w *world) send(a *attempt) answer {
	w.Helper()
	resp, err := w.client.Do(w.request(a))
	if err != nil {
		w.Fatalf("%s %s: %v", a.method, a.path, err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		w.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(body)}
}

// works sends a good message, which has to be answered.
func (w *world) works() {
	w.Helper()
	a := w.good()
	if got := w.send(a); got.status != http.StatusOK {
		w.Fatalf("a good message got %d", got.status)
	}
	sent := w.next()
	if sent.Activity.Text != "Hello." || sent.Authorization != "Bearer "+accessToken {
		w.Errorf("the answer to a good message: %q with %q", sent.Activity.Text, sent.Authorization)
	}
}

// next waits for the next message of the bot.
func (w *world) next() bottest.Sent {
	w.Helper()
	w.taken.Add(1)
	return w.connector.Next()
}

// none fails the test if there is a message that next did not take.
func (w *world) none() {
	w.Helper()
	messages := slices.DeleteFunc(w.connector.Sent(), func(s bottest.Sent) bool { return !s.Message() })
	if len(messages) > int(w.taken.Load()) {
		w.Errorf("an unexpected message, one of %v", messages)
	}
}

// refused sends what must not get in: the answer has one of these statuses and says
// nothing else, and nobody is called for it.
func (w *world) refused(name string, a *attempt, want ...int) {
	w.Helper()
	before := w.outbound()
	got := w.send(a)
	if !slices.Contains(want, got.status) {
		w.Errorf("%s: status %d, want %d", name, got.status, want)
	}
	if got.status < 400 {
		return
	}
	if a.path == "/api/messages" && a.activity["type"] != "invoke" && a.method != http.MethodHead && !fault.MatchString(got.body) {
		w.Errorf("%s: the refusal says %q", name, got.body)
	}
	if strings.Contains(got.body, secretText) || got.status == http.StatusUnauthorized && !strings.Contains(got.body, "has no token that this bot accepts") {
		w.Errorf("%s: the refusal tells too much: %q", name, got.body)
	}
	if now := w.outbound(); now != before {
		w.Errorf("%s: %d calls of others for a %d", name, now-before, got.status)
	}
}

// fault matches the body of a refusal.
var fault = regexp.MustCompile(`^\{"error":\{"code":"[A-Za-z]+","message":"[^"]+"\}\}$`)

// logIsClean ends the bot and reads all that it has written.
func (w *world) logIsClean() {
	w.Helper()
	w.end()
	text, _ := w.out.seen()
	lines := 0
	for line := range strings.Lines(text) {
		lines++
		var said object
		if json.Unmarshal([]byte(line), &said) != nil {
			w.Errorf("not JSON: %.300q", line)
		}
		if len(line) > longestLine {
			w.Errorf("a line of %d bytes: %.300q", len(line), line)
		}
	}
	if lines == 0 {
		w.Error("no log at all")
	}
	secrets := []string{password, accessToken, modelKey, secretText, "BEGIN PUBLIC KEY"}
	for part := range w.tokens {
		secrets = append(secrets, part)
	}
	for _, secret := range secrets {
		if at := strings.Index(text, secret); at >= 0 {
			w.Errorf("the log holds %q:\n%.500s", secret, text[max(0, at-300):])
		}
	}
	w.Logf("%d lines of log, held against %d secrets", lines, len(secrets))
}
