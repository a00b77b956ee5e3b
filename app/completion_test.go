package app

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/internal/cli"
)

// TestCompletion completes commands, subcommands and flags, those of settings as well.
func TestCompletion(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"tur": "turns", "turns fi": "find", "turns find --js": "--json", "turns drop -y x --al": "--all", "serve --bot-max-w": "--bot-max-waiting",
		"--rec": "--record", "completion po": "powershell", "xyzzy": "",
	} {
		code, out, errs := execute(t, "", append([]string{"__complete"}, strings.Fields(line)...)...)
		if first, _, _ := strings.Cut(out, "\t"); code != 0 || first != want && !(want == "" && strings.HasPrefix(out, ":")) {
			t.Errorf("%s: code %d, %q %s", line, code, out, errs)
		}
	}
}

// TestCompletionScripts are for the name that the program has.
func TestCompletionScripts(t *testing.T) {
	t.Parallel()
	for shell, want := range map[string]string{
		"bash": "complete -o default -F __start_my-bot my-bot", "zsh": "#compdef my-bot\n", "fish": "complete -c my-bot ", "powershell": "Register-ArgumentCompleter -CommandName 'my-bot'",
	} {
		if code, out, errs := execute(t, "", "completion", shell, "--name=my-bot"); code != 0 || !strings.Contains(out, want) {
			t.Errorf("%s: code %d, no %q: %.300s%s", shell, code, want, out, errs)
		}
	}
	for _, bad := range [][]string{{"completion"}, {"completion", "tcsh"}, {"completion", "bash", "--name=a;b"}} {
		if code, out, errs := execute(t, "", bad...); code != cli.ExitUsage || out != "" || errs == "" {
			t.Errorf("%q: code %d, %s", bad, code, out)
		}
	}
}

// TestCompletionInBash: a shell takes the script and completes what is typed.
func TestCompletionInBash(t *testing.T) {
	t.Parallel()
	code, script, errs := execute(t, "", "completion", "bash", "--name=my-bot")
	if code != 0 {
		t.Fatal(errs)
	}
	dir := filesIn(t, map[string]string{"my-bot": "#!/bin/sh\n" + asBot + "=1 exec '" + os.Args[0] + "' \"$@\"\n"})
	if err := os.Chmod(filepath.Join(dir, "my-bot"), 0o700); err != nil { //nolint:gosec // a script
		t.Fatal(err)
	}
	// The package bash-completion has this function; not every machine has the package.
	const words = "_get_comp_words_by_ref() { cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} words=(\"${COMP_WORDS[@]}\") cword=$COMP_CWORD; }\n"
	cmd := exec.CommandContext(t.Context(), "bash", "-c", words+script+"\nCOMP_WORDS=(my-bot turns fi) COMP_CWORD=2 COMP_TYPE=9 COMP_LINE='my-bot turns fi' COMP_POINT=15\n__start_my-bot\necho \"${COMPREPLY[@]}\"")
	cmd.Env = append(os.Environ(), "PATH="+dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	if out, err := cmd.Output(); err != nil || !strings.HasPrefix(string(out), "find") {
		t.Errorf("%s, %v", out, err)
	}
}

// TestWrongCommands: the error names what is near.
func TestWrongCommands(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"tunrs":                           `did you mean "turns"?`,
		"turns fnd x":                     `did you mean "find"?`,
		"help nosuch":                     "unexpected argument nosuch",
		"help turns fnd":                  `did you mean "find"?`,
		"serve --opem":                    "",
		"dev --opne":                      `did you mean "--open"?`,
		"plan hi --bot-plan":              `did you mean`,
		"xyzzy":                           "xyzzy",
		"plan":                            "expected TEXT",
		"manifest":                        "expected one of init, build, validate",
		"turns find":                      "expected ID...",
		"version now":                     "unexpected argument now",
		"knowledge add x":                 "access",
		"plan decode --format yaml":       `--format: "yaml" is not one of json, xml`,
		"knowledge search x --limit many": `--limit: "many" is not a whole number`,
	} {
		code, out, errs := execute(t, "", strings.Fields(line)...)
		if code != cli.ExitUsage || out != "" || !strings.Contains(errs, want) {
			t.Errorf("%s: code %d, %s%s", line, code, out, errs)
		}
	}
}

// TestMisspeltBesideAMistake: both are told.
func TestMisspeltBesideAMistake(t *testing.T) {
	t.Setenv("BOT_PLANER", "tools")
	for _, command := range []string{"serve", "doctor"} {
		_, out, errs := execute(t, "", command, "--bot-addr=x")
		for _, want := range []string{"BOT_ADDR: ", "BOT_PLANER: there is no such setting; did you mean BOT_PLANNER?"} {
			if !strings.Contains(out+errs, want) {
				t.Errorf("%s does not name %q: %s%s", command, want, out, errs)
			}
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

// TestHelpOfSettings: the ten that matter come with each command, and all of them when asked for.
func TestHelpOfSettings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		line  string
		flags int
	}{{"serve --help", 10}, {"turns list -h", 10}, {"turns show --help-all", 138}, {"--help-all", 138}, {"--help", 0}, {"help plan", 10}} {
		code, out, errs := execute(t, "", strings.Fields(c.line)...)
		_, shown, _ := strings.Cut(out, "\nSettings, also from the environment:\n")
		if got := strings.Count("\n"+shown, "\n      --"); code != 0 || got != c.flags {
			t.Errorf("%s: code %d, %d settings, want %d: %s%s", c.line, code, got, c.flags, out, errs)
		}
	}
}

// TestHelpFitsAScreen of 40 lines.
func TestHelpFitsAScreen(t *testing.T) {
	t.Parallel()
	if _, out, _ := execute(t, "", "--help"); strings.Count(out, "\n") > 40 {
		t.Errorf("%d lines:\n%s", strings.Count(out, "\n"), out)
	}
}
