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
		if _, err := store.Append(t.Context(), "audit", 10_000*time.Hour, 100, nil, state.Line{At: e.At, Text: string(line)}); err != nil {
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
	if err := json.Unmarshal([]byte(lines[0]), &first); err != nil || len(lines) != 4 || !strings.HasPrefix(lines[3], `{"what":"end","count":3,`) || first != entry(now.Add(-48*time.Hour), "approval", "asked", "mia") {
		t.Errorf("%d lines, first %+v, %v", len(lines), first, err)
	}
	if code, _, errs := run("--since=yesterday"); code != cli.ExitUsage || !strings.Contains(errs, "neither a duration such as 24h nor a time") {
		t.Errorf("code %d: %s", code, errs)
	}
}

func TestAuditOfTheEmbeddedRedis(t *testing.T) {
	t.Parallel()
	for _, c := range [][]string{{"audit"}, {"audit", "--bot-audit-keep=24h"}, {"audit", "verify"}, {"serve", "--bot-audit-keep=24h"}} {
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

// TestAuditIsVerified: whatever somebody does to entries in the middle is found at the first entry that does not fit.
func TestAuditIsVerified(t *testing.T) {
	t.Parallel()
	const key = "planbot/{0}/audit"
	now := time.Now().UTC()
	for name, c := range map[string]struct {
		tamper func(z map[string]float64, lines []string)
		args   string
		want   string // "": all fit
	}{
		"nothing": {func(map[string]float64, []string) {}, "", ""},
		"changed": {func(z map[string]float64, l []string) {
			swap(z, l[2], strings.Replace(l[2], "approved", "rejected", 1))
		}, "", "Entry 4 "},
		"its hash changed":   {func(z map[string]float64, l []string) { swap(z, l[2], "0"+l[2][1:]) }, "", "Entry 3 "},
		"its hash taken":     {func(z map[string]float64, l []string) { swap(z, l[2], l[2][65:]) }, "", "Entry 3 "},
		"an old one changed": {func(z map[string]float64, l []string) { swap(z, l[0], "{}") }, "", "Entry 2 "},
		"taken out":          {func(z map[string]float64, l []string) { delete(z, l[2]) }, "", "Entry 3 "},
		"two taken out":      {func(z map[string]float64, l []string) { delete(z, l[1]); delete(z, l[2]) }, "", "Entry 2 "},
		"added": {func(z map[string]float64, l []string) {
			z[strings.Replace(l[2], "approved", "expired", 1)] = z[l[2]] + 0.5
		}, "", "Entry 4 "},
		"added, no hash":      {func(z map[string]float64, l []string) { z["{}"] = z[l[2]] + 0.5 }, "", "Entry 4 does not follow the one before it:\n{}\n"},
		"added, empty":        {func(z map[string]float64, l []string) { z[""] = z[l[2]] + 0.5 }, "", "Entry 4 "},
		"in another order":    {func(z map[string]float64, l []string) { z[l[1]], z[l[2]] = z[l[2]], z[l[1]] }, "", "Entry 2 "},
		"before --since":      {func(z map[string]float64, l []string) { delete(z, l[2]) }, "--since=150s", ""},
		"the oldest went":     {func(z map[string]float64, l []string) { delete(z, l[0]) }, "", "At the beginning, entries are missing that were there when the newest one was written: 1.\n5 audit lines verified after that.\n"},
		"the oldest left out": {func(z map[string]float64, l []string) { delete(z, l[0]) }, "--since=1h", ""},
		"the newest cut":      {func(z map[string]float64, l []string) { delete(z, l[5]) }, "", "The audit does not end where 6 entries had been written"},
		"all hashes taken": {func(z map[string]float64, l []string) {
			for _, line := range l[1:] {
				swap(z, line, line[65:])
			}
		}, "", "The audit does not end where 6 "},
		"one behind the end": {func(z map[string]float64, l []string) { z[state.Hash(l[5])+" {}"] = z[l[5]] + 1 }, "", "The audit does not end where 6 "},
		"no signature":       {func(map[string]float64, []string) {}, "--bot-audit-keys=" + strings.Repeat("A", 43) + "=", "The end of the audit is not signed: nothing is signed.\n6 audit lines"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := miniredis.RunT(t)
			url := "redis://" + server.Addr()
			store, err := state.Open(t.Context(), url, state.Config{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = store.Close() })
			// Without a hash, of an earlier release.
			if _, err := server.ZAdd(key, float64(now.Add(-10*time.Minute).UnixMicro()), `{"what":"old"}`); err != nil {
				t.Fatal(err)
			}
			for i := range 5 {
				at := now.Add(time.Duration(i-4) * time.Minute)
				line, _ := json.Marshal(audit.Entry{At: at, What: "approval", Outcome: "approved", ID: "t1." + string(rune('0'+i))})
				if _, err := store.Append(t.Context(), "audit", time.Hour, 100, nil, state.Line{At: at, Text: string(line)}); err != nil {
					t.Fatal(err)
				}
			}
			z, err := server.SortedSet(key)
			if err != nil {
				t.Fatal(err)
			}
			lines, _ := server.ZMembers(key)
			c.tamper(z, lines)
			server.Del(key)
			for line, score := range z {
				if _, err := server.ZAdd(key, score, line); err != nil {
					t.Fatal(err)
				}
			}
			code, out, errs := execute(t, "", append([]string{"audit", "verify", "--redis-url=" + url}, strings.Fields(c.args)...)...)
			if c.want == "" && (code != 0 || !strings.Contains(out, "follows the one before it.")) || c.want != "" && (code != cli.ExitFailed || !strings.HasPrefix(out, c.want)) || errs != "" {
				t.Errorf("code %d: %s%s", code, out, errs)
			}
		})
	}
}

// swap puts a line in the place of another one.
func swap(z map[string]float64, line, by string) {
	z[by] = z[line]
	delete(z, line)
}

// TestAuditInFiles: what bot audit --json wrote is verified with no Redis.
func TestAuditInFiles(t *testing.T) {
	t.Parallel()
	at := time.Now().UTC()
	run := audited(t, audit.Entry{At: at, What: "call", ID: "1"}, audit.Entry{At: at, What: "call", ID: "2"}, audit.Entry{At: at, What: "call", ID: "3"})
	_, all, _ := run("--json")
	lines := strings.SplitAfter(all, "\n")
	for name, c := range map[string]struct {
		text string
		code int
		want string
	}{
		"whole":             {all, 0, "Each of 3 audit lines follows the one before it.\n3 audit lines were written in all, and the newest of them is there.\nWithout BOT_AUDIT_KEYS"},
		"changed":           {strings.Replace(all, `"id":"2"`, `"id":"9"`, 1), 1, "Entry 3 does not follow"},
		"missing":           {lines[0] + lines[2] + lines[3], 1, "Entry 2 does not follow"},
		"reordered":         {lines[1] + lines[0] + lines[2] + lines[3], 1, "Entry 2 does not follow"},
		"cut off":           {lines[0] + lines[1], 1, "The newest entry is not followed"},
		"its end cut":       {lines[0] + lines[1] + lines[3], 1, "The audit does not end where 3 entries had been written"},
		"its beginning cut": {lines[2] + lines[3], 1, "At the beginning, entries are missing that were there when the newest one was written: 2.\n1 audit line verified"},
		"empty":             {"", 0, "Each of 0 audit lines follows the one before it.\nNothing says whether there ever were any.\n"},
	} {
		dir := filesIn(t, map[string]string{"a.json": c.text})
		code, out, errs := execute(t, "", "audit", "verify", dir+"/a.json")
		if code != c.code || !strings.HasPrefix(out, c.want) || errs != "" {
			t.Errorf("%s: code %d: %s%s", name, code, out, errs)
		}
	}
	part := filesIn(t, map[string]string{"a.json": lines[2] + lines[3]}) // as --json --since writes it
	if code, out, errs := execute(t, "", "audit", "verify", "--since=1h", part+"/a.json"); code != 0 || errs != "" || strings.Contains(out, "went with time") {
		t.Errorf("a part: code %d: %s%s", code, out, errs)
	}
	for _, bad := range [][]string{{"--bot-audit-keys=short"}} {
		if code, out, errs := execute(t, "", append([]string{"audit", "verify"}, bad...)...); code != cli.ExitUsage || out != "" || strings.Contains(errs, "short") {
			t.Errorf("%s: code %d: %s%s", bad, code, out, errs)
		}
	}
	if code, _, errs := execute(t, "", "audit", "verify", "/none.json"); code != cli.ExitFailed || !strings.Contains(errs, "/none.json") {
		t.Errorf("code %d: %s", code, errs)
	}
}
