package skills

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/planbot-go/planbot/internal/spelling"
	"github.com/planbot-go/planbot/internal/yamltext"
	"golang.org/x/text/unicode/norm"
)

// Limits of the specification, in characters.
const (
	maxName          = 64
	maxDescription   = 1024
	maxCompatibility = 500
)

// Limits of front matter.
const (
	maxFrontMatter = 64 << 10
	maxTokens      = 4096
	maxFaults      = 100 // per skill, so that a broken one stays readable
)

// Fault is a problem with a skill.
type Fault struct {
	Path string `json:"path"`           // the file or folder
	Line int    `json:"line,omitempty"` // from 1; 0: the whole file or folder
	Text string `json:"text"`
	// Warning says that the skill is used anyway. Otherwise it is left out.
	Warning bool `json:"warning"`
}

// String is the fault on one line, without control characters: path:line: text.
func (f Fault) String() string {
	where := f.Path
	if f.Line > 0 {
		where += ":" + strconv.Itoa(f.Line)
	}
	if f.Warning {
		where += ": warning"
	}
	return strings.Map(func(r rune) rune {
		if r != ' ' && !unicode.IsGraphic(r) || unicode.Is(unicode.Zl, r) || unicode.Is(unicode.Zp, r) {
			return '?'
		}
		return r
	}, where+": "+f.Text)
}

// sound reports whether there are only warnings.
func sound(list []Fault) bool {
	return !slices.ContainsFunc(list, func(f Fault) bool { return !f.Warning })
}

// quoted quotes foreign text, cut to a readable length.
func quoted(text string) string { return strconv.Quote(spelling.Limit(text, 81)) }

// parsing reads one SKILL.md, or checks one skill from Go. Strict mode follows the specification to
// the letter. Lenient mode turns minor faults into warnings: names that break a rule, texts that
// are too long, unknown fields, and YAML that can be repaired.
type parsing struct {
	path    string
	lenient bool
	fields  map[string]*ast.MappingValueNode // of the front matter
	faults  []Fault
}

func (p *parsing) note(warning bool, line int, format string, args []any) {
	if len(p.faults) < maxFaults {
		p.faults = append(p.faults, Fault{Path: p.path, Line: line, Text: fmt.Sprintf(format, args...), Warning: warning})
	}
}

func (p *parsing) fault(line int, format string, args ...any) { p.note(false, line, format, args) }

// flaw notes a fault that is only a warning in lenient mode.
func (p *parsing) flaw(line int, format string, args ...any) { p.note(p.lenient, line, format, args) }

// parse reads the text of a SKILL.md and notes every fault with its line. Use the skill only if all
// of them are warnings. Its Dir, Resources and Scripts are empty. folder is the name of the file's
// folder, which must equal the skill's name; "": not compared. In lenient mode it replaces a name
// that is missing or has invalid characters. A byte order mark and either kind of line ending are
// fine.
func (p *parsing) parse(text []byte, folder string) Skill {
	if !utf8.Valid(text) {
		p.fault(0, "is no UTF-8 text")
		return Skill{}
	}
	whole := strings.ReplaceAll(strings.TrimPrefix(string(text), "\ufeff"), "\r\n", "\n")
	head, body, ok := p.split(whole)
	if !ok || !p.read(head) {
		return Skill{}
	}
	s := p.frontMatter()
	s.Text, s.Instructions = whole, strings.TrimSpace(body)
	folder = norm.NFKC.String(folder)
	wrong := s.Name == "" || strings.ContainsFunc(s.Name, odd)
	if p.lenient && wrong && folder != "" && !strings.ContainsFunc(folder, odd) {
		what := "Missing required field: name (or it is blank)"
		if s.Name != "" {
			what = "name " + quoted(s.Name) + " has invalid characters"
		}
		p.flaw(p.line("name"), "%s: the directory's is used, %s", what, quoted(folder))
		s.Name = folder
	}
	p.check(&s)
	if folder != "" && s.Name != "" && folder != s.Name {
		p.flaw(p.line("name"), "directory name %s must match skill name %s", quoted(folder), quoted(s.Name))
	}
	slices.SortStableFunc(p.faults, func(a, b Fault) int { return cmp.Compare(a.Line, b.Line) })
	return s
}

var fence = regexp.MustCompile(`(?m)^---[ \t]*$\n?`)

// split finds the front matter, between a first line of three dashes and the next such line. No
// YAML value can contain such a line at the margin, so none ends it early.
func (p *parsing) split(text string) (head, body string, ok bool) {
	fences := fence.FindAllStringIndex(text, 2)
	switch {
	case len(fences) == 0 || fences[0][0] != 0:
		p.fault(1, "must start with YAML frontmatter: the first line has to be ---")
	case len(fences) == 1:
		p.fault(1, "YAML frontmatter is not properly closed: a line --- has to end it")
	case fences[1][0]-fences[0][1] > maxFrontMatter:
		p.fault(1, "YAML frontmatter exceeds %d bytes", maxFrontMatter)
	default:
		return text[fences[0][1]:fences[1][0]], text[fences[1][1]:], true
	}
	return "", "", false
}

const firstLine = 2 // the line of SKILL.md where the YAML starts

// read reads the front matter as a mapping; false if it is not one. It reads repairable YAML even
// in strict mode, to find the other faults.
func (p *parsing) read(head string) bool {
	root, line, err := parseYAML(head)
	if err != nil {
		before := len(p.faults)
		var failed error
		if root, _, failed = parseYAML(p.repair(head)); failed != nil {
			p.faults = p.faults[:before]
			p.fault(line, "Invalid YAML in frontmatter: %v", err)
			return false
		}
	}
	mapping, is := root.(*ast.MappingNode)
	if !is {
		p.fault(firstLine, "frontmatter must be a YAML mapping")
		return false
	}
	p.fields = p.entries(mapping)
	return true
}

// parseYAML returns the document's root (nil if empty), or the fault and its line in SKILL.md.
func parseYAML(text string) (root ast.Node, line int, err error) {
	root, err = yamltext.Parse(text, maxTokens, parser.AllowDuplicateMapKey())
	if wrong, ok := errors.AsType[*yamltext.Error](err); ok {
		return nil, wrong.Line + firstLine - 1, wrong.Err
	}
	return root, firstLine, err
}

func lineOf(node ast.Node) int { return node.GetToken().Position.Line + firstLine - 1 }

// line is a field's line, or 0 if it is missing.
func (p *parsing) line(name string) int {
	if f := p.fields[name]; f != nil {
		return lineOf(f.Key)
	}
	return 0
}

// entries returns a mapping's entries by name. Of duplicates, the last counts.
func (p *parsing) entries(mapping *ast.MappingNode) map[string]*ast.MappingValueNode {
	entries := map[string]*ast.MappingValueNode{}
	for _, entry := range mapping.Values {
		line := lineOf(entry.Key)
		name, ok := yamltext.Text(entry.Key)
		if !ok {
			p.flaw(line, "Unexpected fields: the key %s is no plain text", quoted(entry.Key.String()))
			continue
		}
		if before := entries[name]; before != nil {
			p.flaw(line, "%s is given twice, first in line %d", quoted(name), lineOf(before.Key))
		}
		entries[name] = entry
	}
	return entries
}

// frontMatter reads the known fields and notes every other one.
func (p *parsing) frontMatter() Skill {
	const disable = "disable-model-invocation" // of skills made for other agents
	for _, name := range slices.Sorted(maps.Keys(p.fields)) {
		key, line := strings.ToLower(name), p.line(name)
		known := slices.Contains([]string{"name", "description", "license", "compatibility", "metadata", "allowed-tools"}, key)
		switch {
		case known && key != name:
			p.flaw(line, "Unexpected fields: %s, which is spelled %s", quoted(name), key)
			if p.lenient && p.fields[key] == nil {
				p.fields[key] = p.fields[name]
			}
		case name == disable:
			p.flaw(line, "Unexpected fields: %q, which is not in the specification; where it is read, only people can load the skill", name)
		case !known:
			p.flaw(line, "Unexpected fields: %s; the specification has none of this name, texts of your own go under metadata", quoted(name))
		}
	}
	return Skill{
		Name:          norm.NFKC.String(p.text("name")),
		Description:   p.text("description"),
		License:       p.text("license"),
		Compatibility: p.text("compatibility"),
		Metadata:      p.texts("metadata"),
		AllowedTools:  p.tools("allowed-tools"),
		// Anything but a clear no means yes, which hides more from models.
		DisableModelInvocation: !slices.Contains([]string{"", "false", "no"}, strings.ToLower(p.text(disable))),
	}
}

// text is a text field's value, without surrounding white space; "" if there is no such field.
func (p *parsing) text(name string) string {
	f := p.fields[name]
	if f == nil {
		return ""
	}
	text, ok := yamltext.Text(f.Value)
	if !ok {
		p.flaw(lineOf(f.Key), "%s has to be one text, not %s", name, kindOf(f.Value))
	}
	return strings.TrimSpace(text)
}

func (p *parsing) texts(name string) map[string]string {
	f := p.fields[name]
	if f == nil {
		return nil
	}
	mapping, ok := f.Value.(*ast.MappingNode)
	if !ok {
		p.flaw(lineOf(f.Key), "%s has to be a mapping of texts to texts, not %s", name, kindOf(f.Value))
		return nil
	}
	texts := map[string]string{}
	for key, entry := range p.entries(mapping) {
		if text, ok := yamltext.Text(entry.Value); ok {
			texts[key] = text
		} else {
			p.flaw(lineOf(entry.Key), "%s: the value of %s has to be a text, not %s", name, quoted(key), kindOf(entry.Value))
		}
	}
	return texts
}

// tools is the value of a field that lists tools: one text or, as many write it, a list. An empty
// list allows none.
func (p *parsing) tools(name string) []string {
	f := p.fields[name]
	if f == nil {
		return nil
	}
	list, isList := f.Value.(*ast.SequenceNode)
	if !isList {
		return splitTools(p.text(name))
	}
	p.note(true, lineOf(f.Key), "%s is a list; the specification has one text with spaces between the tools", []any{name})
	tools := []string{}
	for _, node := range list.Values {
		text, ok := yamltext.Text(node)
		if !ok {
			p.flaw(lineOf(node), "%s has to list texts, not %s", name, kindOf(node))
		}
		tools = append(tools, splitTools(text)...)
	}
	return tools
}

// splitTools splits a list of tools at spaces and commas outside parentheses.
func splitTools(text string) []string {
	depth := 0
	return strings.FieldsFunc(text, func(r rune) bool {
		switch r {
		case '(':
			depth++
		case ')':
			depth = max(0, depth-1)
		}
		return depth == 0 && (r == ',' || unicode.IsSpace(r))
	})
}

func kindOf(node ast.Node) string { return "a YAML " + strings.ToLower(node.Type().String()) }

// check applies the specification's rules. Invalid characters in a name are a fault even in lenient
// mode: names appear in prompts, paths and schemas.
func (p *parsing) check(m *Skill) {
	line, name := p.line("name"), m.Name
	if name == "" {
		p.fault(line, "Missing required field: name (or it is blank)")
	}
	p.atMost(maxName, "name", name)
	p.atMost(maxDescription, "description", m.Description)
	p.atMost(maxCompatibility, "compatibility", m.Compatibility)
	if name != strings.ToLower(name) {
		p.flaw(line, "name %s has to be lowercase", quoted(name))
	}
	if strings.HasPrefix(name, "-") || strings.HasSuffix(name, "-") {
		p.flaw(line, "name %s cannot start or end with a hyphen", quoted(name))
	}
	if strings.Contains(name, "--") {
		p.flaw(line, "name %s has consecutive hyphens", quoted(name))
	}
	if strings.ContainsFunc(name, odd) {
		p.fault(line, "name %s has invalid characters: letters, digits and hyphens only", quoted(name))
	}
	if strings.TrimSpace(m.Description) == "" {
		p.fault(p.line("description"), "Missing required field: description (or it is blank)")
	}
	if p.fields["compatibility"] != nil && m.Compatibility == "" {
		p.flaw(p.line("compatibility"), "compatibility is there, but blank")
	}
}

func (p *parsing) atMost(most int, field, value string) {
	if n := utf8.RuneCountInString(value); n > most {
		p.flaw(p.line(field), "%s exceeds the %d character limit (it has %d)", field, most, n)
	}
}

// odd reports whether a character is invalid in a name.
func odd(r rune) bool {
	return r != '-' && !unicode.IsLetter(r) && !unicode.IsNumber(r) || r == utf8.RuneError || isBlank(r)
}

// entryLine matches a line with a key and a value, or a block marker as the value.
var entryLine = regexp.MustCompile(`^( *)([A-Za-z][\w-]*):[ \t]+([^\s#].*)$`)

// repair fixes the two most common YAML mistakes: values that need quotes because of a colon or a
// leading special character, and lines indented with tabs. Line numbers stay the same.
func (p *parsing) repair(head string) string {
	lines := strings.Split(head, "\n")
	for i, line := range lines {
		text := strings.TrimLeft(line, " \t")
		if indent := line[:len(line)-len(text)]; strings.Contains(indent, "\t") {
			p.flaw(i+firstLine, "Invalid YAML in frontmatter: the line is indented by a tab")
			lines[i] = strings.ReplaceAll(indent, "\t", "  ") + text
		}
	}
	for next := 0; next < len(lines); {
		at, entry := next, entryLine.FindStringSubmatch(lines[next])
		next++
		if entry == nil {
			continue
		}
		indent, key, value := entry[1], entry[2], strings.Fields(entry[3])
		for next < len(lines) && (strings.TrimSpace(lines[next]) == "" || strings.HasPrefix(lines[next], indent+" ")) {
			value = append(value, strings.Fields(lines[next])...)
			next++
		}
		if text := strings.Join(value, " "); needsQuotes(text) {
			p.flaw(at+firstLine, "Invalid YAML in frontmatter: the value of %s has to be quoted", key)
			lines[at] = indent + key + ": '" + strings.ReplaceAll(text, "'", "''") + "'"
			clear(lines[at+1 : next])
		}
	}
	return strings.Join(lines, "\n")
}

// needsQuotes reports whether YAML would read a value as neither text nor a list or mapping in
// brackets.
func needsQuotes(value string) bool {
	if strings.ContainsAny(value[:1], `"'`) && strings.Count(value, value[:1]) == 1 || strings.ContainsAny(value[:1], "|>") {
		return false // an unclosed quote, or a block
	}
	root, _, err := parseYAML(value)
	if _, isText := yamltext.Text(root); err != nil || isText {
		return err != nil
	}
	return value[0] != '[' && value[0] != '{'
}
