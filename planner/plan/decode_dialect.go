package plan

import (
	"strings"
	"unicode/utf8"
)

// dialect names the way in which text is a plan, if it is one of another kind
// than ours; "" for prose. It looks at the start of each line only: what is in
// the middle of one is mentioned, not meant.
func dialect(text string) string {
	if name := wholeDialect(text); name != "" {
		return name
	}
	var seen lineMarks
	for line := range strings.Lines(text) {
		if name := seen.line(strings.TrimSpace(line)); name != "" {
			return name
		}
	}
	return ""
}

// wholeDialect names the dialects that make up a whole text.
func wholeDialect(text string) string {
	switch {
	case hasAnyPrefix(text, "{&quot;", "{&#34;"):
		return "escaped JSON"
	case hasAnyPrefix(text, "{{#", "{{!", "{{~", "{{set ", "{{json ", "｛"):
		return "a template"
	case isCall(text):
		return "a function call"
	}
	return ""
}

// isCall reports whether text is one call of a function on one line, maybe in
// brackets: with arguments that are named or quoted, or with none.
func isCall(text string) bool {
	text = strings.TrimSuffix(strings.TrimSuffix(strings.TrimPrefix(text, "["), ";"), "]")
	name, rest, ok := strings.Cut(text, "(")
	if !ok || !isWordOnly(name) || !isWordStart(name[0]) || !strings.HasSuffix(rest, ")") {
		return false
	}
	rest = rest[:len(rest)-1]
	return rest == "" || strings.ContainsAny(rest, `="'`) && !strings.Contains(rest, "\n")
}

// isWordOnly reports whether text is one bare word.
func isWordOnly(text string) bool {
	for i := range len(text) {
		if !isWordByte(text[i]) {
			return false
		}
	}
	return text != ""
}

// lineMarks is what the lines so far had that only means something together with
// a later line.
type lineMarks struct {
	thought  bool // a line of a ReAct text
	commands bool // the line before was the key of a YAML list
}

// line names the dialect that a line gives away.
func (m *lineMarks) line(line string) string {
	item, isItem := listItem(line)
	wasCommands := m.commands
	m.commands = false
	switch {
	case line == "":
		m.commands = wasCommands
	case line[0] == '<' && isPlanTag(line[1:]):
		return "an XML plan or a tool call"
	case hasAnyPrefix(line, "[TOOL_", "[/TOOL_", "```tool_"):
		return "a tool call"
	case isYAMLType(item), wasCommands && isItem && isYAMLKey(item):
		return "YAML"
	case isStep(item, isItem):
		return "a list of steps"
	case m.isReAct(strings.Trim(line, "* ")):
		return "a ReAct text"
	default:
		key := strings.ToLower(line)
		m.commands = key == "commands:" || key == "steps:" || key == "actions:"
	}
	return ""
}

// listItem drops the mark of a list item and the marks of Markdown around its
// first word.
func listItem(line string) (item string, isItem bool) {
	item = strings.TrimLeft(line, "-*•")
	if item == line {
		if n := digits(line); n > 0 && n < len(line) && (line[n] == '.' || line[n] == ')') {
			item = line[n+1:]
		}
	}
	return strings.Trim(item, " \t*`"), item != line
}

// planTags are the names of the elements of XML plans and of tool calls.
var planTags = map[string]bool{
	"plan": true, "function": true, "functions": true, "function_call": true, "function_calls": true,
	"tool_call": true, "tool_calls": true, "tool_use": true, "invoke": true, "command": true,
	"commands": true, "action": true, "do": true, "say": true, "step": true, "steps": true,
}

// isPlanTag reports whether a line that begins with < begins with such an
// element.
func isPlanTag(name string) bool {
	if hasAnyPrefix(name, "|python_tag|", "|tool", "｜tool", "antml:") {
		return true
	}
	end := 0
	for end < len(name) && isWordStart(name[end]) {
		end++
	}
	if end == len(name) || strings.IndexByte(">.= \t/", name[end]) < 0 {
		return false
	}
	return end <= len("function_calls") && planTags[strings.ToLower(name[:end])]
}

// isYAMLType reports whether a line is the type of a plan or a command in YAML.
func isYAMLType(line string) bool {
	key, value, ok := strings.Cut(line, ":")
	value = strings.Trim(value, ` "'`)
	return ok && strings.EqualFold(strings.Trim(key, `"'`), "type") && (isKind(value) || strings.EqualFold(value, "plan"))
}

// isYAMLKey reports whether a list item begins with a key of a command.
func isYAMLKey(item string) bool {
	key, _, ok := strings.Cut(item, ":")
	switch strings.ToLower(strings.Trim(key, `"' `)) {
	case "type", "action", "do", "say":
		return ok
	}
	return false
}

// isStep reports whether a line is a step of a plan in words: DO and the name of
// an action or, in a list, SAY.
func isStep(line string, inList bool) bool {
	line = strings.TrimSpace(strings.TrimPrefix(line, "THEN "))
	if rest, ok := strings.CutPrefix(line, string(Say)); ok {
		return inList && (rest == "" || strings.IndexByte(" :*`\"", rest[0]) >= 0)
	}
	rest, ok := strings.CutPrefix(line, string(Do))
	if !ok || rest == "" || strings.IndexByte(" :*`\t", rest[0]) < 0 {
		return false
	}
	rest = strings.TrimLeft(rest, " :*`\"\t")
	first, _ := utf8.DecodeRuneInString(rest)
	return 'a' <= first && first <= 'z' || first == '_'
}

// isReAct reports whether a line shows that the text is one of ReAct.
func (m *lineMarks) isReAct(line string) bool {
	label, _, ok := strings.Cut(line, ":")
	if !ok || len(label) > 20 {
		return false
	}
	switch strings.ToLower(strings.Trim(label, " *")) {
	case "action input":
		return true
	case "thought":
		m.thought = true
	case "action", "final answer":
		return m.thought
	}
	return false
}

func hasAnyPrefix(text string, prefixes ...string) bool {
	for _, prefix := range prefixes {
		if strings.HasPrefix(text, prefix) {
			return true
		}
	}
	return false
}
