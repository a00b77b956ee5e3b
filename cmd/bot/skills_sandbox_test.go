package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/planbot-go/planbot/internal/doctor"
	"github.com/planbot-go/planbot/skills/sandbox"
)

func sandboxConfig(t testing.TB, value string) config {
	t.Helper()
	c, err := settings{SkillsSandbox: value}.check()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// probe runs the doctor's probe of scripts.
func probe(t *testing.T, c config) doctor.Check {
	t.Helper()
	return doctor.Run(t.Context(), doctor.Config{Probes: []doctor.Probe{c.scriptsProbe()}, Timeout: time.Minute})[0]
}

func TestSandboxSettings(t *testing.T) {
	t.Parallel()
	for value, kinds := range map[string][]string{
		"":           {"bubblewrap", "landlock"},
		"AUTO":       {"bubblewrap", "landlock"},
		"bubblewrap": {"bubblewrap"},
		"landlock":   {"landlock"},
		"none":       nil,
	} {
		t.Run(value, func(t *testing.T) {
			t.Parallel()
			c := sandboxConfig(t, value)
			box, about, err := c.sandbox(t.Context())
			check := probe(t, c)
			switch {
			case kinds == nil:
				if box != nil || err != nil || !strings.Contains(about, "refused") || check.Status != doctor.OK {
					t.Errorf("%v, %q, %v, %+v", box, about, err, check)
				}
			case box != nil:
				if err != nil || !slices.Contains(kinds, box.Kind()) || !strings.HasSuffix(about, " in "+box.Kind()) {
					t.Errorf("%s, %q, %v", box.Kind(), about, err)
				}
				if check.Status == doctor.Fail || !strings.Contains(check.Detail, box.Kind()) {
					t.Errorf("%+v", check)
				}
			default:
				t.Skip(about, err) // the machine has none
			}
		})
	}
}

// Where no sandbox works the bot starts all the same, unless it was told which to use.
func TestNoSandboxWorks(t *testing.T) {
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "nowhere"))
	c := sandboxConfig(t, "auto")
	box, about, err := c.sandbox(t.Context())
	if box != nil || err != nil || !strings.HasPrefix(about, "scripts of skills are refused: no sandbox for scripts: bubblewrap: ") ||
		!strings.Contains(about, "; landlock: ") || strings.Contains(about, "\n") {
		t.Errorf("%v, %q, %v", box, about, err)
	}
	if check := probe(t, c); check.Status != doctor.Warn || !strings.Contains(check.Detail, "landlock: ") {
		t.Errorf("%+v", check)
	}
	c = sandboxConfig(t, "landlock")
	var usage usageError
	if box, _, err := c.sandbox(t.Context()); box != nil || !errors.As(err, &usage) || !strings.HasPrefix(err.Error(), "BOT_SKILLS_SANDBOX: ") {
		t.Errorf("%v, %v", box, err)
	}
	if check := probe(t, c); check.Status != doctor.Fail {
		t.Errorf("%+v", check)
	}
}

// BenchmarkScriptLaunch is what a script costs that does nothing, in a program of this
// size: under Landlock it starts twice before it is the script.
func BenchmarkScriptLaunch(b *testing.B) {
	for _, kind := range []string{"bubblewrap", "landlock"} {
		b.Run(string(kind), func(b *testing.B) {
			c := sandboxConfig(b, string(kind))
			box, _, err := c.sandbox(b.Context())
			if err != nil {
				b.Skip(err)
			}
			dir := b.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "a.sh"), []byte("exit"), 0o600); err != nil {
				b.Fatal(err)
			}
			root, err := os.OpenRoot(dir)
			if err != nil {
				b.Fatal(err)
			}
			defer root.Close()
			var took []time.Duration
			for b.Loop() {
				began := time.Now()
				if _, err := box.Run(b.Context(), sandbox.Command{Dir: root, Script: "a.sh"}); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "median-ms")
		})
	}
}
