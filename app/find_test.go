package app

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/planbot-go/planbot/bot/audit"
	"github.com/planbot-go/planbot/internal/cli"
	"github.com/planbot-go/planbot/internal/fakemodel"
	"github.com/planbot-go/planbot/state"
)

// TestATurnIsFound by the id that the person read, in whatever form it was copied, and a turn that
// ended well too.
func TestATurnIsFound(t *testing.T) {
	t.Parallel()
	url := redisServer(t)
	connector, model := newConnector(t), fakemodel.New(t)
	bot := startBot(t, "REDIS_URL="+url, "OPENAI_BASE_URL="+model.URL, "BOT_TURNS_KEEP=1h", "BOT_MODEL_PRICE=1,2")
	model.Says(`{"type":"plan","commands":[{"type":"SAY","response":"my secret"}]}`)
	model.Fails(401, "invalid_api_key")
	tell(t, bot, connector.URL, "good secret")
	if got := connector.next(t); got != "my secret" {
		t.Fatalf("said %q", got)
	}
	good := turnOf(t, bot.until("turn ended"))
	tell(t, bot, connector.URL, "bad secret")
	said := connector.next(t)
	bad := turnOf(t, bot.until("turn ended"))
	if !strings.Contains(said, "(turn "+bad+")") {
		t.Fatalf("said %q, want turn %s", said, bad)
	}
	bot.stop() // the heads are written
	l := &letters{T: t, url: url}
	for _, copied := range [][]string{{bad}, {said}, {"(turn", bad + ")"}, {strings.ToUpper(bad)}, {"Leider nicht.（受付番号 " + bad + "）"}, {bad + ".0"}} {
		code, out, errs := l.turns(append([]string{"find"}, copied...)...)
		if code != 0 || !strings.Contains(out, "turn          "+bad+"\n") || !strings.Contains(out, "outcome       failed (") || !strings.Contains(out, "tries         1\n") {
			t.Errorf("%q: code %d, %s%s", copied, code, out, errs)
		}
	}
	_, out, errs := l.turns("find", "--json", good)
	var head map[string]any
	if err := json.Unmarshal([]byte(out), &head); err != nil || head["outcome"] != "ok" || head["turn"] != good || head["model_calls"] != 1.0 ||
		head["conversation"] != "c" || head["account"] != "u" || head["cost"] == nil || head["waited_ms"] == nil || strings.Contains(out, "secret") {
		t.Errorf("%v %s%s", err, out, errs)
	}
	store, err := state.Open(t.Context(), url, state.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	for _, e := range []audit.Entry{
		{What: "approval", Outcome: "asked", Action: "order", Turn: good, User: "aad-mia", Asked: "aad-ben (policy), aad-carla (delegation of aad-ben)"},
		{What: "call", Outcome: "ok", Action: "order", Turn: good},
		{What: "approval", Outcome: "approved", Action: "order", Turn: good, User: "aad-carla"},
		{What: "approval", Outcome: "approved", Action: "order", Turn: bad, User: "aad-otto"},
	} {
		text, _ := json.Marshal(e)
		if _, err := store.Append(t.Context(), "audit", time.Hour, 100, nil, state.Line{At: time.Now(), Text: string(text)}); err != nil {
			t.Fatal(err)
		}
	}
	_, out, _ = l.turns("find", good)
	_, raw, _ := l.turns("find", "--json", good)
	for _, want := range []string{": order asked by aad-mia, of aad-ben (policy), aad-carla (delegation of aad-ben)", ": order approved by aad-carla"} {
		if !strings.Contains(out, want+"\n") || !strings.Contains(raw, want+`"`) || strings.Contains(out, "otto") {
			t.Errorf("no %q in\n%s\n%s", want, out, raw)
		}
	}
	for _, c := range []struct {
		args []string
		code int
		err  string
	}{
		{[]string{"find", "unknown"}, cli.ExitFailed, "nothing is kept about turn unknown"},
		{[]string{"find", "（）"}, cli.ExitUsage, "which turn?"},
		{[]string{"find"}, cli.ExitUsage, "expected ID"},
		{[]string{"find", strings.Repeat("x", 100)}, cli.ExitUsage, "is not the id of a turn"},
	} {
		if code, out, errs := l.turns(c.args...); code != c.code || out != "" || !strings.Contains(errs, c.err) {
			t.Errorf("%q: code %d, %s%s", c.args, code, out, errs)
		}
	}
	if code, _, errs := execute(t, "", "turns", "find", good); code != cli.ExitUsage || !strings.Contains(errs, "REDIS_URL or BOT_DATA_DIR must be set") {
		t.Errorf("code %d: %s", code, errs)
	}
	if code, _, errs := execute(t, "", "serve", "--port=0", "--bot-turns-keep=never"); code != cli.ExitUsage || !strings.Contains(errs, "BOT_TURNS_KEEP") {
		t.Errorf("code %d: %s", code, errs)
	}
}

// tell posts a message to the bot.
func tell(t *testing.T, bot *process, service, text string) {
	t.Helper()
	address := regexp.MustCompile(`"url":"([^"]+)"`).FindStringSubmatch(bot.listening)
	body := fmt.Sprintf(`{"type":"message","id":%q,"channelId":"console","serviceUrl":%q,"from":{"id":"u"},"recipient":{"id":"b"},"conversation":{"id":"c"},"text":%q}`, text, service, text)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address[1], strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if answer, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK {
		t.Fatalf("%s %s", resp.Status, answer)
	}
}

func turnOf(t *testing.T, line string) string {
	t.Helper()
	var of struct{ Turn string }
	if err := json.Unmarshal([]byte(line), &of); err != nil || of.Turn == "" {
		t.Fatalf("%s: %v", line, err)
	}
	return of.Turn
}
