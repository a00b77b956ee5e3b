package app

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/planbot-go/planbot/internal/settings"
	"github.com/planbot-go/planbot/skills/sandbox"
)

func sandboxed(t testing.TB, value string) *program {
	t.Helper()
	s, err := env{"bot-skills-sandbox": value, "bot-skills-dir": t.TempDir()}.read()
	if err != nil {
		t.Fatal(err)
	}
	return &program{Settings: s}
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
			p := sandboxed(t, value)
			opened, about, err := p.ScriptSandbox(t.Context())
			check := p.checkScripts(t.Context())
			box, none := p.OpenSandbox(t.Context())
			switch {
			case kinds == nil:
				if opened != nil || err != nil || !strings.Contains(about, "refused") || check.Status != fine {
					t.Errorf("%q, %v, %+v", about, err, check)
				}
			case none == nil:
				if err != nil || !slices.Contains(kinds, box.Kind()) || !strings.HasSuffix(about, " in "+box.Kind()) {
					t.Errorf("%s, %q, %v", box.Kind(), about, err)
				}
				if check.Status == failed || !strings.Contains(check.Detail, box.Kind()) {
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
	p := sandboxed(t, "auto")
	_, about, err := p.ScriptSandbox(t.Context())
	if err != nil || !strings.HasPrefix(about, "scripts of skills are refused: no sandbox for scripts: bubblewrap: ") ||
		!strings.Contains(about, "; landlock: ") || strings.Contains(about, "\n") {
		t.Errorf("%q, %v", about, err)
	}
	if check := p.checkScripts(t.Context()); check.Status != warned || !strings.Contains(check.Detail, "landlock: ") {
		t.Errorf("%+v", check)
	}
	p = sandboxed(t, "landlock")
	var fault settings.Fault
	if _, _, err := p.ScriptSandbox(t.Context()); !errors.As(err, &fault) || !strings.HasPrefix(err.Error(), "BOT_SKILLS_SANDBOX: ") {
		t.Errorf("%v", err)
	}
	if check := p.checkScripts(t.Context()); check.Status != failed {
		t.Errorf("%+v", check)
	}
}

// BenchmarkScriptLaunch is what a script costs that does nothing, in a program of this
// size: under Landlock it starts twice before it is the script.
func BenchmarkScriptLaunch(b *testing.B) {
	for _, kind := range []string{"bubblewrap", "landlock"} {
		b.Run(kind, func(b *testing.B) {
			box, err := sandboxed(b, kind).OpenSandbox(b.Context())
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
