package skills

import (
	"path"
	"slices"
	"strings"
)

// attempt is a call as allowed-tools see it.
type attempt struct {
	action string
	skill  string // of the script, when it is one
	script Script
}

// String names it for whoever is told that it is not allowed.
func (a attempt) String() string {
	if a.action == RunScript {
		return RunScript + " " + inLine(a.script.Name)
	}
	return a.action
}

// allowedBy says that a word of the skill's allowed-tools names the call.
func (a attempt) allowedBy(s *Skill) bool {
	return slices.ContainsFunc(s.AllowedTools, func(word string) bool {
		if command, ok := shellCommand(word); ok {
			return a.action == RunScript && command.names(a, s)
		}
		return strings.EqualFold(word, a.action)
	})
}

// command is what a word such as Bash(python scripts/x.py:*) allows: all scripts, or those
// of an interpreter, or one of the skill's own.
type command struct {
	interpreter, script string
	unknown             bool // it is none that runs here
}

// shellCommand reads the word Bash, alone or with a command behind it. ok is false for any
// other word.
func shellCommand(word string) (c command, ok bool) {
	const shell = "bash"
	if len(word) < len(shell) || !strings.EqualFold(word[:len(shell)], shell) {
		return command{}, false
	}
	if word = word[len(shell):]; word == "" {
		return command{}, true
	}
	inner, opened := strings.CutPrefix(word, "(")
	inner, closed := strings.CutSuffix(inner, ")")
	if !opened || !closed {
		return command{}, false
	}
	if inner == "*" {
		return command{}, true
	}
	prefix, free := strings.CutSuffix(inner, ":*")
	fields := strings.Fields(prefix)
	if !free || len(fields) == 0 || len(fields) > 2 {
		return command{unknown: true}, true
	}
	if isInterpreter(fields[0]) {
		c.interpreter, fields = strings.ToLower(fields[0]), fields[1:]
	}
	if len(fields) > 0 {
		c.script = strings.TrimPrefix(strings.Join(fields, " "), "./")
	}
	return c, true
}

// names says that the command is a script.
func (c command) names(a attempt, of *Skill) bool {
	if c.unknown || c.script != "" && (c.script != a.script.Name || a.skill != of.Name) {
		return false
	}
	return c.interpreter == "" || a.script.Action == nil && slices.Contains(interpreters[strings.ToLower(path.Ext(a.script.Name))], c.interpreter)
}

// interpreters are what people call the programs that run scripts.
var interpreters = map[string][]string{
	".py":  {"python", "python3"},
	".js":  {"node", "nodejs"},
	".sh":  {"bash", "sh"},
	".ps1": {"pwsh", "powershell"},
	".cs":  {"dotnet"},
	".csx": {"dotnet-script", "dotnet"},
}

func isInterpreter(word string) bool {
	for _, names := range interpreters {
		if slices.Contains(names, strings.ToLower(word)) {
			return true
		}
	}
	return false
}

// understands says that a word of the skill's allowed-tools can allow something.
func (p *Provider) understands(s *Skill, word string) bool {
	if c, ok := shellCommand(word); ok {
		_, exists := s.Script(c.script)
		return !c.unknown && (c.script == "" || exists)
	}
	if p.registry == nil || strings.EqualFold(word, "read") { // resources can always be read
		return true
	}
	_, ok := p.registry.Lookup(word)
	return ok
}
