package app

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/planbot-go/planbot/app/internal/turnview"
	"github.com/planbot-go/planbot/bot/turn"
	"github.com/planbot-go/planbot/internal/cli"
	"github.com/planbot-go/planbot/state/inbox"

	"github.com/alicebob/miniredis/v2"

	"github.com/planbot-go/planbot/state"
)

// letters is a Redis with an inbox to leave dead letters in.
type letters struct {
	*testing.T
	url   string
	inbox *inbox.Inbox
}

func newLetters(t *testing.T, url string) *letters {
	t.Helper()
	store, err := state.Open(t.Context(), url, state.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	in, err := inbox.Open(store, inbox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(in.Close)
	return &letters{t, url, in}
}

// bury leaves a dead letter as a bot does that gives a turn up.
func (l *letters) bury(id, record, reason string) {
	l.Helper()
	about, err := json.Marshal(map[string]string{"for": "operator", "reason": reason})
	if err != nil {
		l.Fatal(err)
	}
	if _, err := l.accept(id, record).Wait(l.Context(), nil, inbox.Wait{Operator: true, About: about}, nil); err != nil {
		l.Fatal(err)
	}
}

// waits leaves a turn that goes on after that time.
func (l *letters) waits(id string, after time.Duration) {
	l.Helper()
	if _, err := l.accept(id, secretRecord).Wait(l.Context(), nil, inbox.Wait{Until: time.Now().Add(after)}, nil); err != nil {
		l.Fatal(err)
	}
}

func (l *letters) accept(id, record string) *inbox.Lease {
	l.Helper()
	receipt, err := l.inbox.Accept(l.Context(), inbox.Entry{Queue: theQueue(), ID: id, Record: []byte(record), Take: true})
	if err != nil || receipt.Lease == nil {
		l.Fatalf("%+v, %v", receipt, err)
	}
	return receipt.Lease
}

// theQueue is that of the conversation in secretRecord.
func theQueue() state.Key { return state.ConversationKey("console", "b", "c") }

// turns runs a subcommand of bot turns.
func (l *letters) turns(args ...string) (code int, out, errs string) {
	l.Helper()
	return execute(l.T, "", append(append([]string{"turns"}, args...), "--redis-url="+l.url)...)
}

// secretNew is a turn that has not begun; secretRecord is a dead letter in the middle of its plan.
const (
	secretActivity = `{"type":"message","id":"1","channelId":"console","from":{"id":"u","name":"Mia"},"recipient":{"id":"b"},"conversation":{"id":"c"},"text":"my secret"}`
	secretNew      = `{"v":1,"id":"first","accepted":"2026-01-02T03:04:05Z","activity":` + secretActivity + `,"phase":"planning"}`
	secretRecord   = `{"v":1,"id":"first","accepted":"2026-01-02T03:04:05Z","activity":` + secretActivity + `,"phase":"waiting",` +
		`"wait":{"for":"operator","then":"running","reason":"why"},` +
		`"run":{"progress":{"plan":{"commands":[` +
		`{"type":"DO","action":"createList","entities":{"list":"secret"}},` +
		`{"type":"DO","action":"addItem","entities":{"list":"secret","item":"secret"}},` +
		`{"type":"SAY","response":"secret\nmore"}]},"next":1,"variables":null},"in_flight":1,"steps":1,` +
		`"rounds":[{"outcomes":[{"action":"createList","entities":{"list":"secret"},"text":"secret"}]}],"usage":{}},` +
		`"outbox":[{"activity":{"type":"message","text":"secret"},"unanswered":1}],"sent":["id7"]}`
)

func TestTurnsOfTheEmbeddedRedis(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"list", "show x", "retry x", "drop -y x", "export"} {
		code, out, errs := execute(t, "", append([]string{"turns"}, strings.Fields(command)...)...)
		if code != cli.ExitUsage || out != "" || !strings.Contains(errs, "REDIS_URL or BOT_DATA_DIR must be set") {
			t.Errorf("%s: code %d, %q, %q", command, code, out, errs)
		}
	}
}

// TestTurnsAreShown, without what people wrote unless that is asked for.
func TestTurnsAreShown(t *testing.T) {
	t.Parallel()
	l := newLetters(t, "redis://"+miniredis.RunT(t).Addr())
	if code, out, _ := l.turns(); code != 0 || out != "0 dead letters, 0 turns at work or waiting\n" {
		t.Errorf("code %d: %q", code, out)
	}
	l.bury("first", secretRecord, "its plan does not fit")
	l.bury("second", "no record\x1b[31m", "\x1b[31mits record cannot be read")
	l.waits("fourth", time.Hour)
	l.accept("third", secretNew)
	for _, c := range []struct {
		args string
		want []string
	}{
		{"", []string{"TURN", "first ", " UTC  its plan does not fit", "  c\n", "second", "2 dead letters, 1 turn at work or waiting, 1 more until somebody answers or a time comes\n"}},
		{"list --json", []string{`"turn": "first"`, `"reason": "its plan does not fit"`, `"since": "`, `"accepted": "2026-01-02T03:04:05Z"`, `"queue": "`, `"conversation": "c"`, `"sent": [`}},
		{"show first", []string{
			"its plan does not fit", "Mia u", "createList - done", "addItem - may have begun, nobody knows whether it was done",
			"SAY\n", "done ", "2026-01-02 03:04:05 UTC\n", "goes on with  running\n", "id7", "to be sent ", "console",
		}},
		{"show first --json", []string{`"from": "Mia u"`, `"command": "addItem",` + "\n" + `      "state": "begun"`, `"unsent": 1`, `"then": "running"`}},
		{"show second", []string{"no JSON object"}},
	} {
		code, out, errs := l.turns(strings.Fields(c.args)...)
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
		_, out, _ := l.turns(strings.Fields(content)...)
		for _, want := range []string{"my secret", "addItem item=", "more"} {
			if !strings.Contains(out, want) {
				t.Errorf("%s: no %q in\n%s", content, want, out)
			}
		}
	}
	if code, _, errs := l.turns("show", "nobody"); code != cli.ExitFailed || !strings.Contains(errs, "no such dead letter") {
		t.Errorf("code %d: %s", code, errs)
	}
}

func TestTurnsOfAnotherVersionAreShownAsFarAsTheyCanBeRead(t *testing.T) {
	t.Parallel()
	const head = `"id":"x","accepted":"2026-01-02T03:04:05Z","activity":` + secretActivity
	for record, want := range map[string]string{
		`{"v":4,` + head + `,"run":[]}`:                                                               "version 4, this program knows 3",
		`{"v":1,` + head + `,"phase":"running","run":[]}`:                                             "cannot unmarshal array",
		`{"v":1,` + head + `,"phase":"dreaming"}`:                                                     `phase "dreaming"`,
		`{"v":1,` + head + `,"phase":"running","run":{"progress":{"plan":{"commands":[]},"next":5}}}`: "no command 5",
	} {
		got := turnview.ReadDead(inbox.Waiting{ID: "x", Record: []byte(record)}, true)
		if got.Conversation != "c" || got.Text != "my secret" || got.Accepted.IsZero() || got.Plan != nil || !strings.Contains(got.Unread, want) {
			t.Errorf("%s: %+v", record, got)
		}
	}
	if got := turnview.ReadDead(inbox.Waiting{ID: "x", Record: []byte("no record")}, true); got.Turn != "x" || !strings.Contains(got.Unread, "no JSON object") {
		t.Errorf("%+v", got)
	}
}

func TestTurnsAreExported(t *testing.T) {
	t.Parallel()
	l := newLetters(t, "redis://"+miniredis.RunT(t).Addr())
	l.bury("first", secretRecord, "why")
	l.bury("second", "no record", "why not")
	_, shown, _ := l.turns("export", "--raw")
	file := filepath.Join(t.TempDir(), "turns.jsonl")
	if code, out, errs := l.turns("export", "--raw", "--out", file); code != 0 || out != "" {
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
	var first, second struct {
		Turn, Reason, Queue string
		Since               time.Time
		Record              any
	}
	if err := errors.Join(json.Unmarshal([]byte(lines[0]), &first), json.Unmarshal([]byte(lines[1]), &second)); err != nil {
		t.Fatal(err)
	}
	if rec, ok := first.Record.(map[string]any); !ok || rec["v"] != 1.0 || rec["run"] == nil ||
		first.Turn != "first" || first.Reason != "why" || first.Queue == "" || first.Since.IsZero() {
		t.Errorf("%+v", first)
	}
	if second.Record != "no record" || second.Reason != "why not" {
		t.Errorf("%+v", second)
	}
	if code, _, errs := l.turns("export", "--raw", "--out", file); code != cli.ExitUsage || !strings.Contains(errs, "exists") {
		t.Errorf("code %d: %s", code, errs)
	}
}

// TestADeadLetterBecomesATest as it was; package record plays such tests.
func TestADeadLetterBecomesATest(t *testing.T) {
	t.Parallel()
	l := newLetters(t, "redis://"+miniredis.RunT(t).Addr())
	if code, out, errs := l.turns("export"); code != 0 || out != "" || !strings.Contains(errs, "nothing to export") {
		t.Errorf("where there is none: code %d, %q, %q", code, out, errs)
	}
	const record = `{"v":1,"id":"first","activity":` + secretActivity + `,"phase":"waiting","wait":{"for":"operator","then":"running","reason":"why"},` +
		`"run":{"progress":{"plan":{"commands":[{"type":"DO","action":"createList","entities":{"list":"a"},"saveAs":"X"},` +
		`{"type":"DO","action":"addItem","entities":{"list":"a","item":"b"},"callId":"c9"},{"type":"SAY","response":"$X Both."}]},"next":1,"variables":{"x":"Created the list a."}},` +
		`"in_flight":1,"steps":1,"rounds":[{"outcomes":[{"action":"createList","entities":{"list":"a"},"text":"Created the list a."}]}],"usage":{}}}`
	l.bury("first", strings.Replace(record, "my secret", "mine, says Mia", 1), "three processes were lost")
	l.bury("second", "no record", "why not")
	l.bury("third", secretNew, "not begun")
	file := filepath.Join(t.TempDir(), "first.yaml")
	if code, out, errs := l.turns("export", "first", "-o", file); code != 0 || out != "" {
		t.Fatalf("code %d: %s%s", code, out, errs)
	}
	raw, err := os.ReadFile(file)
	if err != nil || strings.Contains(string(raw), "Mia") || !strings.Contains(string(raw), "mine, says user-1") || !strings.Contains(string(raw), "three processes were lost") ||
		!strings.Contains(string(raw), `"result": "Created the list a."`) {
		t.Errorf("%v\n%s", err, raw)
	}
	code, out, errs := l.turns("export")
	if code != cli.ExitFailed || !strings.Contains(out, "name: turn first") || !strings.Contains(out, "name: turn third") || !strings.Contains(errs, `cannot make a test of this (--raw shows it): turn "second": `+turn.ErrRecord.Error()) {
		t.Errorf("code %d: %s%s", code, out, errs)
	}
	for args, want := range map[string]string{
		"nobody": "no such dead letter", "second": "no JSON object", "second --raw": "", "first -o x.JSON": "written as YAML", "first -o .": "file exists",
	} {
		code, out, errs := l.turns(append([]string{"export"}, strings.Fields(args)...)...)
		if (code == 0) != (want == "") || (out == "") != (want != "") || !strings.Contains(errs, want) {
			t.Errorf("%s: code %d: %q, %q", args, code, out, errs)
		}
	}
}

func TestTurnsAreDroppedAndRetried(t *testing.T) {
	t.Parallel()
	l := newLetters(t, "redis://"+miniredis.RunT(t).Addr())
	for _, id := range []string{"a", "b", "c", "d", "e"} {
		l.bury(id, secretRecord, "why")
	}
	for _, c := range []struct {
		args      string
		code      int
		out, errs string
	}{
		{"drop", cli.ExitUsage, "", "which turns?"},
		{"retry a --all", cli.ExitUsage, "", "which turns?"},
		{"drop a", cli.ExitUsage, "", "--yes"},
		{"drop -y a nobody", cli.ExitFailed, "a is forgotten\n", "no such dead letter"},
		{"drop -y a", cli.ExitFailed, "", "no such dead letter"},
		{"drop -y d d", cli.ExitFailed, "d is forgotten\n", "no such dead letter"},
		{"retry nobody b", cli.ExitFailed, "b was put back\n", "no such dead letter"},
		{"retry b", cli.ExitFailed, "", "no such dead letter"},
		{"list", 0, "2 dead letters, 1 turn at work or waiting\n", ""},
		{"retry --all", 0, "c was put back\ne was put back\n", ""},
		{"retry --all", 0, "", ""},
		{"list", 0, "0 dead letters, 3 turns at work or waiting\n", ""},
	} {
		code, out, errs := l.turns(strings.Fields(c.args)...)
		if code != c.code || !strings.HasSuffix(out, c.out) || c.out == "" && out != "" || !strings.Contains(errs, c.errs) {
			t.Errorf("%s: code %d, %q, %q", c.args, code, out, errs)
		}
	}
	lease, err := l.inbox.Claim(t.Context(), theQueue())
	if err != nil || lease == nil {
		t.Fatal(lease, err)
	}
	if lease.ID() != "b" || string(lease.Record()) != secretRecord || lease.Tries() != 0 {
		t.Errorf("turn %s, %d tries: %s", lease.ID(), lease.Tries(), lease.Record())
	}
}

// oldLayout leaves what the layout before this one kept in Redis: two keys of work and one
// that only remembers.
func oldLayout(t *testing.T, redis *miniredis.Miniredis) {
	t.Helper()
	_, one := redis.Lpush("planbot/{7}/console/b/conversations/c/queue", "turn1")
	_, two := redis.ZAdd("planbot/{7}/timers", 1, "turn1")
	if err := errors.Join(one, two, redis.Set("planbot/{7}/seen/1", "turn1")); err != nil {
		t.Fatal(err)
	}
}

// TestWhatAnOlderVersionLeftIsDropped, and nothing of this one.
func TestWhatAnOlderVersionLeftIsDropped(t *testing.T) {
	t.Parallel()
	redis := miniredis.RunT(t)
	l := newLetters(t, "redis://"+redis.Addr())
	l.bury("first", secretRecord, "why")
	oldLayout(t, redis)
	for _, c := range []struct {
		args      string
		code      int
		out, errs string
	}{
		{"drop --old", cli.ExitUsage, "", "--yes"},
		{"drop --old -y", 0, "deleted 3 keys of an older version\n", ""},
		{"drop --old", 0, "deleted 0 keys of an older version\n", ""},
		{"list", 0, "1 dead letter, 0 turns at work or waiting\n", ""},
	} {
		code, out, errs := l.turns(strings.Fields(c.args)...)
		if code != c.code || !strings.HasSuffix(out, c.out) || c.out == "" && out != "" || !strings.Contains(errs, c.errs) {
			t.Errorf("%s: code %d, %q, %q", c.args, code, out, errs)
		}
	}
	for _, key := range redis.Keys() {
		if strings.Contains(key, "{7}") && !strings.Contains(key, "/2/") {
			t.Errorf("%s is still there", key)
		}
	}
}

// TestServeStopsAtWhatAnOlderVersionLeft, until that is dropped.
func TestServeStopsAtWhatAnOlderVersionLeft(t *testing.T) {
	t.Parallel()
	redis := miniredis.RunT(t)
	oldLayout(t, redis)
	url := "--redis-url=redis://" + redis.Addr()
	code, _, errs := execute(t, "", "serve", url, "--port=0")
	if code != cli.ExitUsage || !strings.Contains(errs, "2 keys") || !strings.Contains(errs, "bot turns drop --old") {
		t.Errorf("code %d: %s", code, errs)
	}
	if code, out, errs := execute(t, "", "turns", "drop", "--old", "--yes", url); code != 0 {
		t.Fatalf("code %d: %s%s", code, out, errs)
	}
	a := assembled(t, env{"redis-url": "redis://" + redis.Addr()}, io.Discard)
	if err := a.refuseOldLayout(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestTheLayoutIsNotKnownWhileRedisIsAway: that is no reason not to start.
func TestTheLayoutIsNotKnownWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	var logs bytes.Buffer
	a := assembled(t, env{"redis-url": "redis://127.0.0.1:1/0"}, &logs)
	if err := a.refuseOldLayout(t.Context()); err != nil || !strings.Contains(logs.String(), "older version") {
		t.Errorf("%v; log %s", err, logs.String())
	}
}

// TestTurnsWithoutRedis says so within the inbox's patience.
func TestTurnsWithoutRedis(t *testing.T) {
	t.Parallel()
	redis := miniredis.RunT(t)
	addr := redis.Addr()
	redis.Close()
	if code, _, errs := execute(t, "", "turns", "--redis-url=redis://"+addr); code != cli.ExitFailed || !strings.Contains(errs, "list dead letters") {
		t.Errorf("code %d: %s", code, errs)
	}
}
