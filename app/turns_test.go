package app

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/planbot-go/planbot/internal/cli"

	"github.com/alicebob/miniredis/v2"

	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/state"
)

// parking is a Redis with an inbox to park turns in.
type parking struct {
	*testing.T
	url   string
	inbox *state.Inbox
}

func newParking(t *testing.T, url string) *parking {
	t.Helper()
	store, err := state.Open(t.Context(), url, state.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	inbox, err := store.Inbox(state.InboxConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(inbox.Close)
	return &parking{t, url, inbox}
}

// park leaves a turn as a bot does that gives it up.
func (p *parking) park(turn, body, journal, reason string) {
	p.Helper()
	hold := p.accept(turn, body)
	if err := hold.Save(p.Context(), []byte(journal)); err != nil {
		p.Fatal(err)
	}
	if _, err := hold.Park(p.Context(), reason, nil); err != nil {
		p.Fatal(err)
	}
}

func (p *parking) accept(turn, body string) *state.Hold {
	p.Helper()
	lane := state.ConversationKey("console", "b", "c").Lane("")
	receipt, err := p.inbox.Accept(p.Context(), state.Entry{Lane: lane, Turn: turn, Body: []byte(body), Take: true})
	if err != nil || receipt.Hold == nil {
		p.Fatalf("%+v, %v", receipt, err)
	}
	return receipt.Hold
}

// turns runs a subcommand of bot turns.
func (p *parking) turns(args ...string) (code int, out, errs string) {
	p.Helper()
	return execute(p.T, "", append(append([]string{"turns"}, args...), "--redis-url="+p.url)...)
}

const (
	secretItem    = `{"v":1,"activity":{"type":"message","id":"1","channelId":"console","from":{"id":"u","name":"Mia"},"recipient":{"id":"b"},"conversation":{"id":"c"},"text":"my secret"}}`
	secretJournal = `{"v":1,"run":{"execution":{"plan":{"commands":[` +
		`{"type":"DO","action":"createList","entities":{"list":"secret"}},` +
		`{"type":"DO","action":"addItem","entities":{"list":"secret","item":"secret"}},` +
		`{"type":"SAY","response":"secret\nmore"}]},"next":1,"variables":null},"in_flight":1,"steps":1,"rounds":[{}],` +
		`"kept":[{"action":"createList","entities":{"list":"secret"},"text":"secret"}],"usage":{}},` +
		`"send":{"messages":[{"type":"message","text":"secret"}],"begun":1},"sent":["id7"]}`
)

func TestTurnsOfTheEmbeddedRedis(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"list", "show x", "retry x", "drop -y x", "export"} {
		code, out, errs := execute(t, "", append([]string{"turns"}, strings.Fields(command)...)...)
		if code != cli.ExitUsage || out != "" || !strings.Contains(errs, "REDIS_URL: is not set") {
			t.Errorf("%s: code %d, %q, %q", command, code, out, errs)
		}
	}
}

// TestTurnsAreShown, without what people wrote unless that is asked for.
func TestTurnsAreShown(t *testing.T) {
	t.Parallel()
	p := newParking(t, "redis://"+miniredis.RunT(t).Addr())
	if code, out, _ := p.turns(); code != 0 || out != "0 turns parked, 0 turns at work or waiting\n" {
		t.Errorf("code %d: %q", code, out)
	}
	p.park("first", secretItem, secretJournal, "its plan does not fit")
	p.park("second", "no item\x1b[31m", "", "\x1b[31mits item cannot be read")
	p.accept("third", secretItem)
	for _, c := range []struct {
		args string
		want []string
	}{
		{"", []string{"TURN", "first ", " UTC  0  ", "its plan does not fit", "  c\n", "second", "2 turns parked, 1 turn at work or waiting\n"}},
		{"list --json", []string{`"turn": "first"`, `"conversation": "c"`, `"sent": [`}},
		{"show first", []string{
			"its plan does not fit", "Mia u", "createList - done", "addItem - begun, nobody knows whether it was done",
			"SAY\n", "done ", " UTC\n", "id7", "to be sent ", "console",
		}},
		{"show first --json", []string{`"from": "Mia u"`, `"command": "addItem",` + "\n" + `      "state": "begun"`, `"unsent": 1`}},
		{"show second", []string{"read item", "none: it begins anew"}},
	} {
		code, out, errs := p.turns(strings.Fields(c.args)...)
		for _, want := range c.want {
			if !strings.Contains(out, want) {
				t.Errorf("%s: no %q in\n%s", c.args, want, out)
			}
		}
		if code != 0 || errs != "" || strings.Contains(out, "secret") || strings.Contains(out, "\x1b") {
			t.Errorf("%s: code %d, %q\n%s", c.args, code, errs, out)
		}
	}
	for _, content := range []string{"show first --content", "show first --content --json"} {
		_, out, _ := p.turns(strings.Fields(content)...)
		for _, want := range []string{"my secret", "addItem item=", "more"} {
			if !strings.Contains(out, want) {
				t.Errorf("%s: no %q in\n%s", content, want, out)
			}
		}
	}
	if code, _, errs := p.turns("show", "nobody"); code != cli.ExitFailed || !strings.Contains(errs, "no such turn") {
		t.Errorf("code %d: %s", code, errs)
	}
}

func TestTurnsOfAnotherVersionAreShownAsFarAsTheyCanBeRead(t *testing.T) {
	t.Parallel()
	item := strings.Replace(secretItem, `"v":1`, `"v":2`, 1)
	for journal, want := range map[string]string{
		`{"v":2,"run":[]}`: "version 2, this program knows 1",
		`no journal`:       "no JSON object",
		`{"v":1,"run":{"execution":{"plan":{"commands":[]},"next":5}}}`: "no command 5",
	} {
		got := bot.ReadParked(state.Parked{Turn: "x", Body: []byte(item), Journal: []byte(journal)}, true)
		if got.Conversation != "c" || got.Text != "my secret" || got.Plan != nil ||
			!strings.Contains(got.Unread, "version 2, this one knows 1; ") || !strings.Contains(got.Unread, want) {
			t.Errorf("%s: %+v", journal, got)
		}
	}
}

func TestTurnsAreExported(t *testing.T) {
	t.Parallel()
	p := newParking(t, "redis://"+miniredis.RunT(t).Addr())
	p.park("first", secretItem, secretJournal, "why")
	p.park("second", "no item", "", "why not")
	_, shown, _ := p.turns("export", "--raw")
	file := filepath.Join(t.TempDir(), "turns.jsonl")
	if code, out, errs := p.turns("export", "--raw", "--out", file); code != 0 || out != "" {
		t.Errorf("code %d: %q, %q", code, out, errs)
	}
	raw, err := os.ReadFile(file)
	if err != nil || string(raw) != shown {
		t.Errorf("%v: the file has %q, not %q", err, raw, shown)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	lines := strings.Split(strings.TrimSpace(shown), "\n")
	if len(lines) != 2 {
		t.Fatalf("%d lines", len(lines))
	}
	type exported struct {
		Turn, Reason, Lane string
		Parked             time.Time
		Item, Journal      any
	}
	var first, second exported
	if err := errors.Join(json.Unmarshal([]byte(lines[0]), &first), json.Unmarshal([]byte(lines[1]), &second)); err != nil {
		t.Fatal(err)
	}
	if item, ok := first.Item.(map[string]any); !ok || item["v"] != 1.0 || first.Journal.(map[string]any)["v"] != 1.0 ||
		first.Turn != "first" || first.Reason != "why" || first.Lane == "" || first.Parked.IsZero() {
		t.Errorf("%+v", first)
	}
	if second.Item != "no item" || second.Journal != nil {
		t.Errorf("%+v", second)
	}
	if code, _, errs := p.turns("export", "--raw", "--out", file); code != cli.ExitUsage || !strings.Contains(errs, "exists") {
		t.Errorf("code %d: %s", code, errs)
	}
}

// TestAParkedTurnBecomesATest as it was; package recording plays such tests.
func TestAParkedTurnBecomesATest(t *testing.T) {
	t.Parallel()
	p := newParking(t, "redis://"+miniredis.RunT(t).Addr())
	if code, out, errs := p.turns("export"); code != 0 || out != "" || !strings.Contains(errs, "nothing to export") {
		t.Errorf("where none is parked: code %d, %q, %q", code, out, errs)
	}
	const journal = `{"v":1,"run":{"execution":{"plan":{"commands":[{"type":"DO","action":"createList","entities":{"list":"a"},"saveAs":"X"},` +
		`{"type":"DO","action":"addItem","entities":{"list":"a","item":"b"},"callId":"c9"},{"type":"SAY","response":"$X Both."}]},"next":1,"variables":{"x":"Created the list a."}},` +
		`"in_flight":1,"steps":1,"rounds":[{"outcomes":[{"action":"createList","entities":{"list":"a"},"text":"Created the list a."}]}],"usage":{}}}`
	p.park("first", strings.Replace(secretItem, "my secret", "mine, says Mia", 1), journal, "three processes were lost")
	p.park("second", "no item", "", "why not")
	p.park("third", secretItem, "", "not begun")
	file := filepath.Join(t.TempDir(), "first.yaml")
	if code, out, errs := p.turns("export", "first", "-o", file); code != 0 || out != "" {
		t.Fatalf("code %d: %s%s", code, out, errs)
	}
	raw, err := os.ReadFile(file)
	if err != nil || strings.Contains(string(raw), "Mia") || !strings.Contains(string(raw), "mine, says user-1") || !strings.Contains(string(raw), "three processes were lost") ||
		!strings.Contains(string(raw), "replies: [Created the list a. Both.]") {
		t.Errorf("%v\n%s", err, raw)
	}
	code, out, errs := p.turns("export")
	if code != cli.ExitFailed || !strings.Contains(out, "name: turn first") || !strings.Contains(out, "name: turn third") || !strings.Contains(errs, `no test is to be made of this; --raw shows it: turn "second": read item`) {
		t.Errorf("code %d: %s%s", code, out, errs)
	}
	for args, want := range map[string]string{
		"nobody": "no such turn", "second": "read item", "second --raw": "", "first -o x.JSON": "written as YAML", "first -o .": "is a folder",
	} {
		code, out, errs := p.turns(append([]string{"export"}, strings.Fields(args)...)...)
		if (code == 0) != (want == "") || (out == "") != (want != "") || !strings.Contains(errs, want) {
			t.Errorf("%s: code %d: %q, %q", args, code, out, errs)
		}
	}
}

func TestTurnsAreDroppedAndRetried(t *testing.T) {
	t.Parallel()
	p := newParking(t, "redis://"+miniredis.RunT(t).Addr())
	for _, turn := range []string{"a", "b", "c", "d"} {
		p.park(turn, secretItem, secretJournal, "why")
	}
	for _, c := range []struct {
		args      string
		code      int
		out, errs string
	}{
		{"drop", cli.ExitUsage, "", "which turns?"},
		{"retry a --all", cli.ExitUsage, "", "which turns?"},
		{"drop a", cli.ExitUsage, "", "--yes"},
		{"drop -y a nobody", cli.ExitFailed, "a is forgotten\n", "no such turn"},
		{"drop -y a", cli.ExitFailed, "", "no such turn"},
		{"retry nobody b", cli.ExitFailed, "b was put back\n", "no such turn"},
		{"retry b", cli.ExitFailed, "", "no such turn"},
		{"list", 0, "2 turns parked, 1 turn at work or waiting\n", ""},
		{"retry --all", 0, "c was put back\nd was put back\n", ""},
		{"retry --all", 0, "", ""},
		{"list", 0, "0 turns parked, 3 turns at work or waiting\n", ""},
	} {
		code, out, errs := p.turns(strings.Fields(c.args)...)
		if code != c.code || !strings.HasSuffix(out, c.out) || c.out == "" && out != "" || !strings.Contains(errs, c.errs) {
			t.Errorf("%s: code %d, %q, %q", c.args, code, out, errs)
		}
	}
	hold, err := p.inbox.Claim(t.Context(), state.ConversationKey("console", "b", "c").Lane(""))
	if err != nil || hold == nil {
		t.Fatal(hold, err)
	}
	if got := hold.Item(); got.Turn != "b" || string(got.Body) != secretItem || string(got.Journal) != secretJournal || got.Tries != 0 {
		t.Errorf("%+v", got)
	}
}

// TestTurnsWithoutRedis says so within the inbox's patience.
func TestTurnsWithoutRedis(t *testing.T) {
	t.Parallel()
	redis := miniredis.RunT(t)
	addr := redis.Addr()
	redis.Close()
	if code, _, errs := execute(t, "", "turns", "--redis-url=redis://"+addr); code != cli.ExitFailed || !strings.Contains(errs, "list parked turns") {
		t.Errorf("code %d: %s", code, errs)
	}
}
