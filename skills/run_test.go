package skills_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/planbot-go/planbot/skills"
	"github.com/planbot-go/planbot/skills/sandbox"
)

// box opens the machine's sandbox, or skips where it has none; that one is there where
// changes are judged is what the tests of the package sandbox see to.
func box(t *testing.T, limits sandbox.Config) *sandbox.Sandbox {
	t.Helper()
	s, err := sandbox.New(t.Context(), limits)
	if errors.Is(err, sandbox.ErrNoSandbox) && os.Getenv("CI") != "true" {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	return s
}

// scripted is a skill from files, with the scripts beside its SKILL.md.
func scripted(t *testing.T, scripts map[string]string) *skills.Skill {
	t.Helper()
	files := map[string]string{"s/SKILL.md": named("s"), "s/references/x.md": "beside it"}
	for name, text := range scripts {
		files["s/"+name] = text
	}
	found, err := skills.Discover(t.Context(), skills.Config{Roots: []string{tree(t, files)}})
	if err != nil || len(found.Skills) != 1 {
		t.Fatal(found, err)
	}
	return found.Skills[0]
}

// told is the result of a script as one text, with ! in front when it has failed and ? when
// the model has to see it.
func told(t *testing.T, r skills.Runner, s *skills.Skill, script, arguments, digest string) string {
	t.Helper()
	found, ok := scriptOf(s, script)
	if !ok {
		t.Fatalf("there is no script %s", script)
	}
	result, err := r.Run(t.Context(), s, found, value(t, arguments), digest)
	switch {
	case err != nil:
		return "error: " + err.Error()
	case result.Failed():
		return "!" + result.Text()
	case result.Observe():
		return "?" + result.Text()
	}
	return result.Text()
}

func TestRunScripts(t *testing.T) {
	t.Parallel()
	s := scripted(t, map[string]string{
		"say.sh":       `printf '[%s]' "$@"; cat; cat references/x.md`,
		"sub/where.sh": `cat references/x.md; echo "$0"`,
		"both.sh":      "echo out; echo err >&2",
		"err.sh":       "echo err >&2; exit 3",
		"fail.sh":      "echo out; exit 4",
		"nothing.sh":   "exit",
		"space.sh":     "echo; echo ' x '; echo",
		"killed.sh":    "kill -9 $$",
		"x.csx":        "MZ",
	})
	r := skills.Sandboxed(box(t, sandbox.Config{}))
	for _, tc := range []struct{ script, arguments, want string }{
		{"say.sh", `["a b","--x"]`, "?[a b][--x]beside it"},
		{"say.sh", `{"value":26.2,"unit":"mile"}`, "?[--unit][mile][--value][26.2]beside it"},
		{"say.sh", `"[1]"`, "?[1]beside it"},
		{"say.sh", ``, "?[]beside it"},
		{"sub/where.sh", ``, "?beside it./sub/where.sh"},
		{"both.sh", ``, "?out\n\nStderr:\nerr"},
		{"err.sh", ``, "!Stderr:\nerr\n\nScript exited with code 3"},
		{"fail.sh", ``, "!out\n\nScript exited with code 4"},
		{"nothing.sh", ``, "?(no output)"},
		{"space.sh", ``, "?x"},
		{"killed.sh", ``, "!Script exited with code 137"},
		{"say.sh", `{"":1}`, "!Error: Script 'say.sh' cannot take these arguments: one has no name."},
		{"say.sh", `["a\u0000b"]`, "!Error: Script 'say.sh' was not run: an argument contains a zero byte."},
	} {
		t.Run(tc.script+tc.arguments, func(t *testing.T) {
			t.Parallel()
			if got := told(t, r, s, tc.script, tc.arguments, ""); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
	if got := told(t, r, s, "x.csx", "", ""); !strings.HasPrefix(got, "!Error: Script 'x.csx' was not run: no interpreter for \".csx\" here, only for ") {
		t.Errorf("%q", got)
	}
	if got := told(t, r, s, "say.sh", `["`+strings.Repeat("x", 100_000)+`"]`, ""); !strings.Contains(got, "bytes of arguments") || got[0] != '!' {
		t.Errorf("%.200q", got)
	}
}

func TestScriptsBeyondLimits(t *testing.T) {
	t.Parallel()
	s := scripted(t, map[string]string{"wait.sh": "sleep 50", "slow.sh": "echo begun; echo slowly >&2; sleep 50", "work.sh": "echo begun; while :; do :; done"})
	for script, of := range map[string]struct {
		limits sandbox.Config
		want   string
	}{
		"wait.sh": {sandbox.Config{Wall: 500 * time.Millisecond}, "timed out after 0.5 seconds."},
		// time enough to begin, on a busy machine too
		"slow.sh": {sandbox.Config{Wall: 3 * time.Second}, "timed out after 3 seconds.\nbegun\n\nStderr:\nslowly"},
		"work.sh": {sandbox.Config{Wall: time.Minute, CPU: 200 * time.Millisecond}, "was ended: it went beyond its limit of CPU time.\nbegun"},
	} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			if got := told(t, skills.Sandboxed(box(t, of.limits)), s, script, "", ""); got != "!Error: Script '"+script+"' "+of.want {
				t.Errorf("%q", got)
			}
		})
	}
}

func TestRunsWhatWasApproved(t *testing.T) {
	t.Parallel()
	s := scripted(t, map[string]string{"a.sh": ". ./lib/b.sh", "lib/b.sh": "echo fine"})
	r := skills.Sandboxed(box(t, sandbox.Config{}))
	digest, err := r.Digest(t.Context(), s)
	if err != nil || len(digest) != 64 {
		t.Fatal(digest, err)
	}
	if got := told(t, r, s, "a.sh", "", digest); got != "?fine" {
		t.Errorf("%q", got)
	}
	if err := os.WriteFile(filepath.Join(s.Dir, "lib", "b.sh"), []byte("echo evil"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := told(t, r, s, "a.sh", "", digest); got != "!Error: Script 'a.sh' was not run: the skill has changed since this was approved." {
		t.Errorf("%q", got)
	}
	if got := told(t, r, s, "a.sh", "", ""); got != "?evil" {
		t.Errorf("%q", got)
	}
	if again, err := r.Digest(t.Context(), s); err != nil || again == digest {
		t.Errorf("%s, %v", again, err)
	}
}

func TestRunErrors(t *testing.T) {
	t.Parallel()
	s := scripted(t, map[string]string{"a.sh": "sleep 50"})
	script, _ := scriptOf(s, "a.sh")
	r := skills.Sandboxed(box(t, sandbox.Config{}))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Run(ctx, s, script, nil, ""); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if _, err := r.Digest(ctx, s); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if err := os.RemoveAll(s.Dir); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Run(t.Context(), s, script, nil, ""); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder is gone: %v", err)
	}
	if _, err := r.Digest(t.Context(), s); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder is gone: %v", err)
	}
}

func TestNoSandbox(t *testing.T) {
	t.Parallel()
	s := scripted(t, map[string]string{"a.sh": "exit"})
	r := skills.Sandboxed(nil)
	if digest, err := r.Digest(t.Context(), s); digest != "" || err != nil {
		t.Errorf("%q, %v", digest, err)
	}
	if got := told(t, r, s, "a.sh", "", ""); got != "!Error: script execution is disabled: no sandbox available." {
		t.Errorf("%q", got)
	}
}

// TestWhatCannotRunIsNotAskedFor has calls that the sandbox would refuse: nobody is asked to
// approve them, and the tool says why.
func TestWhatCannotRunIsNotAskedFor(t *testing.T) {
	t.Parallel()
	s := scripted(t, map[string]string{"a.sh": "echo fine", "b.csx": "MZ"})
	r := provide(t, skills.ProviderConfig{Sandbox: box(t, sandbox.Config{})}, s)
	for arguments, want := range map[string]string{
		`"a.sh"`:                      "",
		`"a.sh","arguments":{"--":1}`: "Error: Script 'a.sh' cannot take these arguments: one has no name.",
		`"a.sh","args":["\u0000"]`:    "Error: Script 'a.sh' was not run: an argument contains a zero byte.",
		`"b.csx","arguments":["x"]`:   `Error: Script 'b.csx' was not run: no interpreter for ".csx" here, only for `,
		`"b.csx"`:                     `Error: Script 'b.csx' was not run: no interpreter for ".csx" here, only for `,
		`"a.sh","arguments":["` + strings.Repeat("x", 70_000) + `"]`: "Error: Script 'a.sh' was not run: 70001 bytes of arguments",
	} {
		entities := `{"skillName":"s","scriptName":` + arguments + `}`
		approval := r.judge(r.Policy(nil), r.turn("mia"), skills.RunScript, value(t, entities).(map[string]any))
		if approval.Required != (want == "") || approval.Denied != "" {
			t.Errorf("%.60s: %+v", arguments, approval)
		}
		if got := r.told(r.turn("mia"), skills.RunScript, entities); want != "" && !strings.HasPrefix(got, want) || want == "" && got != "fine" {
			t.Errorf("%.60s: %q", arguments, got)
		}
	}
	for what, text := range map[string]string{"offered": r.prompt(""), "told": r.prompt("s")} {
		if !strings.Contains(text, "a.sh") || strings.Contains(text, "b.csx") {
			t.Errorf("%s\n%s", what, text)
		}
	}
	off := provide(t, skills.ProviderConfig{Sandbox: nil}, s, converter(t))
	if text := off.prompt("") + off.prompt("s"); strings.Contains(text, "a.sh") || !strings.Contains(text, `"convert"`) {
		t.Errorf("without a sandbox:\n%s", text)
	}
	if approval := off.judge(off.Policy(nil), off.turn("mia"), skills.RunScript, map[string]any{"skillName": "s", "scriptName": "a.sh"}); approval.Required {
		t.Errorf("without a sandbox: %+v", approval)
	}
}

// prompt is what the model sees.
func (r *rig) prompt(skill string) string {
	r.t.Helper()
	text, err := r.Prompt(r.t.Context(), nil, skill)
	if err != nil {
		r.t.Fatal(err)
	}
	return text
}

// TestLoudScripts keeps the ends of what is printed, and why it went wrong, within what a
// bot tells of a result.
func TestLoudScripts(t *testing.T) {
	t.Parallel()
	const most = 66 << 10
	loud := func(n int, to string) string {
		return "{ echo begun; head -c " + strconv.Itoa(n) + " /dev/zero | tr '\\0' x; echo; echo ended; }" + to + "\n"
	}
	s := scripted(t, map[string]string{
		"both.sh":  loud(100_000, "") + loud(100_000, " >&2") + "exit 7",
		"out.sh":   loud(65_000, "") + "echo why >&2; exit 7",
		"err.sh":   loud(40_000, "") + loud(30_000, " >&2") + "exit 7",
		"quiet.sh": loud(30_000, "") + loud(30_000, " >&2") + "exit 7",
	})
	r := skills.Sandboxed(box(t, sandbox.Config{}))
	for script, c := range map[string]struct {
		least int
		cuts  []string
	}{
		"both.sh":  {64_000, []string{" bytes or more]\n", " bytes or more]\n"}},
		"out.sh":   {65_000, nil},
		"err.sh":   {65_000, []string{" bytes or more]\n"}},
		"quiet.sh": {60_000, nil},
	} {
		got := strings.TrimPrefix(told(t, r, s, script, "", ""), "!")
		out, errs, _ := strings.Cut(got, "\nStderr:\n")
		if len(got) > most || len(got) < c.least || !strings.HasSuffix(got, "\nScript exited with code 7") {
			t.Errorf("%s: %d bytes, and the end is %q", script, len(got), got[max(0, len(got)-60):])
		}
		for _, part := range []string{out, errs} {
			if script == "out.sh" && part == errs {
				continue
			}
			if !strings.HasPrefix(part, "begun\n") || !strings.Contains(part, "\nended\n") {
				t.Errorf("%s: begins with %.20q, ends in %q", script, part, part[max(0, len(part)-60):])
			}
		}
		if n := strings.Count(got, "\n[truncated "); n != len(c.cuts) {
			t.Errorf("%s: %d cuts", script, n)
		}
		for _, cut := range c.cuts {
			if !strings.Contains(got, cut) {
				t.Errorf("%s: no %q", script, cut)
			}
		}
	}
}
