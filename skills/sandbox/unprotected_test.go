package sandbox_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/planbot-go/planbot/skills/sandbox"
)

// TestUnprotected runs scripts without a sandbox, as somebody does who has none.
func TestUnprotected(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("needs sh on PATH")
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"hello.sh": "echo hello $1; echo careful >&2; pwd; touch here",
		"fail.sh":  "exit 3",
		"hang.sh":  "exec sleep 1000",
		"env.sh":   "echo [$PLANBOT_TEST_SECRET]",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	box := sandbox.Unprotected{Interpreters: map[string][]string{".sh": {"sh"}}}
	digest, err := box.Digest(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	run := func(box sandbox.Unprotected, c sandbox.Command) sandbox.Result {
		c.Dir = root
		got, err := box.Run(t.Context(), c)
		if err != nil {
			t.Errorf("%s: %v", c.Script, err)
		}
		return got
	}
	got := run(box, sandbox.Command{Script: "hello.sh", Args: []string{"Mia"}, Digest: digest})
	if !strings.HasPrefix(got.Stdout, "hello Mia\n") || got.Stderr != "careful\n" || got.ExitCode != 0 || strings.Contains(got.Stdout, dir) {
		t.Errorf("hello: %+v", got)
	}
	if _, err := os.Stat(filepath.Join(dir, "here")); err == nil {
		t.Error("the script worked in the skill's folder and not in a copy")
	}
	if got := run(box, sandbox.Command{Script: "fail.sh"}); got.ExitCode != 3 || got.Exceeded != "" {
		t.Errorf("fail: %+v", got)
	}
	if got := run(box, sandbox.Command{Script: "env.sh"}); got.Stdout != "[]\n" {
		t.Errorf("env: %+v", got)
	}
	if got := run(box, sandbox.Command{Script: "fail.sh", Digest: "other"}); !strings.Contains(got.Refused, "has changed since") {
		t.Errorf("another digest: %+v", got)
	}
	for _, script := range []string{"none.py", "../x.sh", ""} {
		if got := run(box, sandbox.Command{Script: script}); got.Refused == "" {
			t.Errorf("%q: %+v", script, got)
		}
	}
	if got := run(sandbox.Unprotected{}, sandbox.Command{Script: "hello.sh"}); !strings.Contains(got.Refused, "no interpreter") {
		t.Errorf("the zero value: %+v", got)
	}
	box.WallTime = time.Nanosecond // over before it starts
	if got := run(box, sandbox.Command{Script: "hang.sh"}); got.Exceeded != "wall time" {
		t.Errorf("hang: %+v", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	box.WallTime = 0
	if _, err := box.Run(ctx, sandbox.Command{Dir: root, Script: "hang.sh"}); err == nil {
		t.Error("no error after the end of the context")
	}
}
