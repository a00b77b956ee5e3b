package agentskills

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/internal/settings"
	"github.com/planbot-go/planbot/skills"
	"github.com/planbot-go/planbot/skills/sandbox"
)

// read reads the settings of a bot with this feature.
func read(flags ...string) (*settings.Settings, error) {
	s := app.Settings(app.Bot{Name: "Planbot"}, Feature(Config{}))
	return s, s.Read(flags...)
}

func sandboxed(t testing.TB, value string) *own {
	t.Helper()
	s, err := read("--bot-skills-sandbox="+value, "--bot-skills-dir="+t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return of(s)
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
			o := sandboxed(t, value)
			opened, err := o.sandbox(t.Context())
			about := o.scripts
			check := o.examineScripts(t.Context())
			box, none := o.open(t.Context())
			switch {
			case kinds == nil:
				if opened != nil || err != nil || !strings.Contains(about, "refused") || check.Status != "ok" {
					t.Errorf("%q, %v, %+v", about, err, check)
				}
			case none == nil:
				if err != nil || !slices.Contains(kinds, box.Kind()) || !strings.HasSuffix(about, " in "+box.Kind()) {
					t.Errorf("%s, %q, %v", box.Kind(), about, err)
				}
				if check.Status == "fail" || !strings.Contains(check.Detail, box.Kind()) {
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
	o := sandboxed(t, "auto")
	_, err := o.sandbox(t.Context())
	about := o.scripts
	if err != nil || !strings.HasPrefix(about, "scripts of skills are refused: no sandbox for scripts: bubblewrap: ") ||
		!strings.Contains(about, "; landlock: ") || strings.Contains(about, "\n") {
		t.Errorf("%q, %v", about, err)
	}
	if check := o.examineScripts(t.Context()); check.Status != "warn" || !strings.Contains(check.Detail, "landlock: ") {
		t.Errorf("%+v", check)
	}
	o = sandboxed(t, "landlock")
	var fault settings.Fault
	if _, err := o.sandbox(t.Context()); !errors.As(err, &fault) || !strings.HasPrefix(err.Error(), "BOT_SKILLS_SANDBOX: ") {
		t.Errorf("%v", err)
	}
	if check := o.examineScripts(t.Context()); check.Status != "fail" {
		t.Errorf("%+v", check)
	}
}

// BenchmarkScriptLaunch is what a script costs that does nothing, in a program of this
// size: under Landlock it starts twice before it is the script.
func BenchmarkScriptLaunch(b *testing.B) {
	for _, kind := range []string{"bubblewrap", "landlock"} {
		b.Run(kind, func(b *testing.B) {
			box, err := sandboxed(b, kind).open(b.Context())
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

func TestMistakes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ flags, want []string }{
		"skills of no folder": {
			[]string{"--bot-skills-lenient", "--bot-skills-links", "--bot-skills-reload", "--bot-skills-approval=run"},
			[]string{"BOT_SKILLS_LENIENT", "BOT_SKILLS_LINKS", "BOT_SKILLS_RELOAD", "BOT_SKILLS_APPROVAL"},
		},
		"odd skills": {
			[]string{
				"--bot-skills-dir=" + t.TempDir() + ":/nowhere::agentskills.go", "--bot-skills-lenient=a", "--bot-skills-links=b", "--bot-skills-reload=c",
				"--bot-skills-approval=run, jump", "--bot-skills-sandbox=docker",
			},
			[]string{
				"BOT_SKILLS_LENIENT", "BOT_SKILLS_LINKS", "BOT_SKILLS_RELOAD", "BOT_SKILLS_SANDBOX", "BOT_SKILLS_APPROVAL", "BOT_SKILLS_DIR", "BOT_SKILLS_DIR",
			},
		},
		"all, and then some": {[]string{"--bot-skills-dir=" + t.TempDir(), "--bot-skills-approval=all, run"}, []string{"BOT_SKILLS_APPROVAL"}},
	} {
		_, err := read(c.flags...)
		if err == nil {
			t.Errorf("%s: no mistake found", name)
			continue
		}
		var got []string
		for line := range strings.Lines(err.Error()) {
			variable, _, _ := strings.Cut(line, ": ")
			got = append(got, variable)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %s", name, err)
		}
	}
}

// TestConfig: the settings say where skills are, and those of the other side of a comparison do not change them.
func TestConfig(t *testing.T) {
	t.Parallel()
	dir, elsewhere := t.TempDir(), t.TempDir()
	s, err := read("--bot-skills-dir="+dir, "--bot-skills-lenient", "--bot-skills-links", "--bot-skills-reload")
	if err != nil {
		t.Fatal(err)
	}
	other, err := s.Against([]string{"BOT_SKILLS_DIR=" + elsewhere, "BOT_SKILLS_LENIENT="})
	if err != nil {
		t.Fatal(err)
	}
	other.Frozen = true
	want := skills.Config{Roots: []string{dir}, Lenient: true, FollowLinks: true, Reload: true}
	if diff := cmp.Diff(want, of(s).config(s)); diff != "" {
		t.Error(diff)
	}
	want = skills.Config{Roots: []string{elsewhere}, FollowLinks: true}
	if diff := cmp.Diff(want, of(other).config(other)); diff != "" {
		t.Error(diff)
	}
}
