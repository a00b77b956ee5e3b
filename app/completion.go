package app

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/planbot-go/planbot/internal/cli"
)

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish,powershell" help:"bash, zsh, fish or powershell"`
	Name  string `default:"bot" help:"name that the program has on your PATH"`
}

// Help says what to do with it.
func (completionCmd) Help() string {
	return `bash: source <(bot completion bash)    zsh: source <(bot completion zsh)    fish: bot completion fish | source    ` +
		`PowerShell: bot completion powershell | Out-String | Invoke-Expression`
}

// programName is what may stand in a script.
var programName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// Run prints the script.
func (c completionCmd) Run(k *kong.Context, std *cli.Streams) error {
	if !programName.MatchString(c.Name) {
		return cli.Usage(errors.New("--name: a name has only letters, digits, dots, hyphens and underscores"))
	}
	var all []wordsAt
	collectWords(k.Model.Node, "", &all)
	of := map[string]func(io.Writer, string, []wordsAt){"bash": bashScript, "zsh": zshScript, "fish": fishScript, "powershell": powershellScript}
	of[c.Shell](std.Out, c.Name, all)
	return nil
}

// wordsAt are what may follow some commands.
type wordsAt struct {
	at    string // the commands so far, separated by spaces
	words []string
}

// collectWords adds the commands and flags of a command, and those below it.
func collectWords(n *kong.Node, at string, all *[]wordsAt) {
	here := wordsAt{at: at, words: []string{"--help"}}
	for _, child := range n.Children {
		if child.Type == kong.CommandNode && !child.Hidden {
			here.words = append(here.words, child.Name)
		}
	}
	for _, flag := range n.Flags {
		if !flag.Hidden && at != "" && flag.Name != "help" {
			here.words = append(here.words, "--"+flag.Name)
		}
	}
	slices.Sort(here.words)
	*all = append(*all, here)
	for _, child := range n.Children {
		if child.Type == kong.CommandNode && !child.Hidden {
			collectWords(child, strings.TrimSpace(at+" "+child.Name), all)
		}
	}
}

// commandsOf are the places, quoted as alternatives of a case of sh.
func commandsOf(all []wordsAt) string {
	var names []string
	for _, w := range all[1:] {
		names = append(names, `"`+w.at+`"`)
	}
	return strings.Join(names, "|")
}

func bashScript(out io.Writer, name string, all []wordsAt) {
	fn := "_" + strings.NewReplacer(".", "_", "-", "_").Replace(name)
	fmt.Fprintf(out, `%s() {
  local at="" next w words=""
  for w in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    next="${at:+$at }$w"
    case "$next" in %s) at="$next" ;; esac
  done
  case "$at" in
`, fn, commandsOf(all))
	for _, w := range all {
		fmt.Fprintf(out, "    %q) words=%q ;;\n", w.at, strings.Join(w.words, " "))
	}
	fmt.Fprintf(out, `  esac
  COMPREPLY=($(compgen -W "$words" -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F %s %s
`, fn, name)
}

func zshScript(out io.Writer, name string, all []wordsAt) {
	fn := "_" + strings.NewReplacer(".", "_", "-", "_").Replace(name)
	fmt.Fprintf(out, `#compdef %s
%s() {
  local at="" next w
  for w in "${(@)words[2,CURRENT-1]}"; do
    next="${at:+$at }$w"
    case "$next" in (%s) at="$next" ;; esac
  done
  case "$at" in
`, name, fn, commandsOf(all))
	for _, w := range all {
		fmt.Fprintf(out, "    (%q) compadd -- %s ;;\n", w.at, strings.Join(w.words, " "))
	}
	fmt.Fprintf(out, `  esac
  _files
}
compdef %s %s
`, fn, name)
}

func fishScript(out io.Writer, name string, all []wordsAt) {
	fn := "__" + strings.NewReplacer(".", "_", "-", "_").Replace(name) + "_at"
	fmt.Fprintf(out, "function %s\n  set -l at ''\n  for w in (commandline -opc)[2..-1]\n    set -l next (string trim -- \"$at $w\")\n    switch $next\n      case", fn)
	for _, w := range all[1:] {
		fmt.Fprintf(out, " '%s'", w.at)
	}
	fmt.Fprint(out, "\n        set at $next\n    end\n  end\n  test \"$at\" = \"$argv[1]\"\nend\n")
	for _, w := range all {
		fmt.Fprintf(out, "complete -c %s -n \"%s '%s'\" -a '%s'\n", name, fn, w.at, strings.Join(w.words, " "))
	}
}

func powershellScript(out io.Writer, name string, all []wordsAt) {
	fmt.Fprintf(out, "Register-ArgumentCompleter -Native -CommandName '%s' -ScriptBlock {\n  param($word, $ast, $cursor)\n  $words = @{\n", name)
	for _, w := range all {
		fmt.Fprintf(out, "    '%s' = '%s'\n", w.at, strings.Join(w.words, " "))
	}
	fmt.Fprint(out, `  }
  $at = ''
  foreach ($e in $ast.CommandElements | Select-Object -Skip 1) {
    $next = ("$at $e").Trim()
    if ($e.Extent.EndOffset -lt $cursor -and $words.ContainsKey($next)) { $at = $next }
  }
  $words[$at].Split(' ') | Where-Object { $_ -like "$word*" } | ForEach-Object {
    [System.Management.Automation.CompletionResult]::new($_, $_, 'ParameterValue', $_)
  }
}
`)
}
