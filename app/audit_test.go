package app

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/planbot-go/planbot/bot/audit"
	"github.com/planbot-go/planbot/internal/cli"
	"github.com/planbot-go/planbot/state"
)

// audit runs bot audit on a Redis with these entries.
func audited(t *testing.T, entries ...audit.Entry) (run func(args ...string) (code int, out, errs string)) {
	t.Helper()
	url := "redis://" + miniredis.RunT(t).Addr()
	store, err := state.Open(t.Context(), url, state.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	for _, e := range entries {
		line, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := store.Append(t.Context(), "audit", 10_000*time.Hour, 100, map[string]time.Time{string(line): e.At}); err != nil {
			t.Fatal(err)
		}
	}
	return func(args ...string) (int, string, string) {
		return execute(t, "", append([]string{"audit", "--redis-url=" + url}, args...)...)
	}
}

func TestAuditIsListed(t *testing.T) {
	t.Parallel()
	now := time.Now().UTC().Truncate(time.Millisecond)
	entry := func(at time.Time, what, outcome, user string) audit.Entry {
		return audit.Entry{
			At: at, What: what, Outcome: outcome, Action: "closeTicket\x1b[31m", Entities: strings.Repeat("0123456789", 7), ID: "t1.0", Turn: "t1",
			User: user, Account: "29:" + user, Conversation: "a:mia",
		}
	}
	run := audited(t,
		entry(now.Add(-48*time.Hour), "approval", "asked", "mia"),
		entry(now.Add(-time.Hour), "approval", "approved", "otto"),
		entry(now, "call", "ok", "mia"))
	for _, c := range []struct {
		args       string
		want, lack []string
	}{
		{"", []string{"WHEN", "asked", "approved", "ok", " UTC ", "012345678901  ", "a:mia", "t1", "3 audit lines\n"}, []string{"0123456789012", "\x1b"}},
		{"--since=24h", []string{"approved", "ok", "2 audit lines\n"}, []string{"asked"}},
		{"--since=" + now.Add(-2*time.Hour).Format(time.RFC3339), []string{"2 audit lines\n"}, []string{"asked"}},
		{"--since=2999-01-01", []string{"0 audit lines\n"}, []string{"WHEN"}},
		{"--user=OTTO", []string{"approved", "1 audit line\n"}, []string{"asked", "call"}},
		{"--user=29:mia", []string{"asked", "call", "2 audit lines\n"}, []string{"approved"}},
		{"--bot-audit-keep=24h", []string{"2 audit lines\n"}, []string{"asked"}},
		{"--json --user=otto", []string{`"what":"approval","outcome":"approved"`, `"user":"otto"`, `"turn":"t1"`}, []string{"asked", "audit lines"}},
	} {
		code, out, errs := run(strings.Fields(c.args)...)
		if code != 0 || errs != "" {
			t.Errorf("%s: code %d, %s", c.args, code, errs)
		}
		for _, want := range c.want {
			if !strings.Contains(out, want) {
				t.Errorf("%s: no %q in\n%s", c.args, want, out)
			}
		}
		for _, lack := range c.lack {
			if strings.Contains(out, lack) {
				t.Errorf("%s: %q in\n%s", c.args, lack, out)
			}
		}
	}
	_, out, _ := run("--json")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	var first audit.Entry
	if err := json.Unmarshal([]byte(lines[0]), &first); err != nil || len(lines) != 3 || first != entry(now.Add(-48*time.Hour), "approval", "asked", "mia") {
		t.Errorf("%d lines, first %+v, %v", len(lines), first, err)
	}
	if code, _, errs := run("--since=yesterday"); code != cli.ExitUsage || !strings.Contains(errs, "neither a duration such as 24h nor a time") {
		t.Errorf("code %d: %s", code, errs)
	}
}

func TestAuditOfTheEmbeddedRedis(t *testing.T) {
	t.Parallel()
	for _, c := range [][]string{{"audit"}, {"audit", "--bot-audit-keep=24h"}, {"serve", "--bot-audit-keep=24h"}} {
		code, out, errs := execute(t, "", c...)
		if code != cli.ExitUsage || out != "" || !strings.Contains(errs, "REDIS_URL or BOT_DATA_DIR") {
			t.Errorf("%s: code %d, %q, %q", c, code, out, errs)
		}
	}
}

func TestAuditOfAnotherVersion(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	if _, err := server.ZAdd("planbot/{0}/audit", 1, "no JSON"); err != nil {
		t.Fatal(err)
	}
	code, _, errs := execute(t, "", "audit", "--redis-url=redis://"+server.Addr())
	if code != cli.ExitFailed || !strings.Contains(errs, "read the audit") {
		t.Errorf("code %d: %s", code, errs)
	}
}
