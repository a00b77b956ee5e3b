package app

import (
	"encoding/json"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/internal/cli"
)

// TestCompletionInBash completes commands, subcommands and flags in a real shell.
func TestCompletionInBash(t *testing.T) {
	t.Parallel()
	code, script, errs := execute(t, "", "completion", "bash", "--name=my-bot")
	if code != 0 {
		t.Fatal(errs)
	}
	for line, want := range map[string]string{
		"tur": "turns", "turns fi": "find", "turns find --js": "--json", "--he": "--help", "turns drop -y x --al": "--all", "xyzzy": "",
	} {
		words := strings.Fields(line)
		out, err := exec.CommandContext(t.Context(), "bash", "-c", script+"\nCOMP_WORDS=(my-bot "+line+")\nCOMP_CWORD="+string(rune('0'+len(words)))+"\n_my_bot\necho \"${COMPREPLY[@]}\"").CombinedOutput()
		if got := strings.TrimSpace(string(out)); err != nil || got != want {
			t.Errorf("%s: %q, %v", line, got, err)
		}
	}
}

func TestCompletion(t *testing.T) {
	t.Parallel()
	for shell, want := range map[string][]string{
		"zsh":        {"#compdef bot\n", `("turns") compadd -- --help`, "compdef _bot bot\n"},
		"fish":       {"complete -c bot -n \"__bot_at 'turns'\" -a '", "find"},
		"powershell": {"Register-ArgumentCompleter -Native -CommandName 'bot'", "'turns find' = '"},
	} {
		code, out, errs := execute(t, "", "completion", shell)
		for _, w := range want {
			if code != 0 || !strings.Contains(out, w) {
				t.Errorf("%s: code %d, no %q: %s%s", shell, code, w, out, errs)
			}
		}
	}
	for _, bad := range [][]string{{"completion"}, {"completion", "tcsh"}, {"completion", "bash", "--name=a;b"}} {
		if code, out, errs := execute(t, "", bad...); code != cli.ExitUsage || out != "" || errs == "" {
			t.Errorf("%q: code %d, %s", bad, code, out)
		}
	}
}

// TestWrongCommands: the error names what is near.
func TestWrongCommands(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"tunrs":              `did you mean "turns"?`,
		"turns fnd x":        `did you mean "find"?`,
		"serve --opem":       "",
		"dev --opne":         `did you mean "--open"?`,
		"plan hi --bot-plan": `did you mean`,
		"xyzzy":              "xyzzy",
	} {
		code, out, errs := execute(t, "", strings.Fields(line)...)
		if code != cli.ExitUsage || out != "" || !strings.Contains(errs, want) {
			t.Errorf("%s: code %d, %s%s", line, code, out, errs)
		}
	}
}

func TestVersionAsJSON(t *testing.T) {
	t.Parallel()
	code, out, errs := execute(t, "", "version", "--json")
	var v struct{ Version, Commit, Go, Platform string }
	if err := json.Unmarshal([]byte(out), &v); code != 0 || err != nil || v.Version == "" || v.Go != runtime.Version() || v.Platform != runtime.GOOS+"/"+runtime.GOARCH || !strings.Contains(out, `"commit"`) {
		t.Errorf("code %d: %v, %s%s", code, err, out, errs)
	}
}

// TestHelpFitsAScreen of 40 lines.
func TestHelpFitsAScreen(t *testing.T) {
	t.Parallel()
	if _, out, _ := execute(t, "", "--help"); strings.Count(out, "\n") > 40 {
		t.Errorf("%d lines:\n%s", strings.Count(out, "\n"), out)
	}
}
