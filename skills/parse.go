package skills

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// maxFrontMatter is how many bytes of a SKILL.md may be front matter.
const maxFrontMatter = 64 << 10

// Reading says how a SKILL.md is read. The zero value is the specification to the letter.
type Reading struct {
	// Folder is the name of the folder that the file lies in, which has to be that of the
	// skill. Empty: not compared.
	Folder string
	// Lenient makes warnings of what can be lived with: names that break a rule, texts
	// that are too long, fields that nobody knows, and YAML that can be mended. A name
	// that is missing or has characters that none can have gives way to Folder.
	Lenient bool
}

// Parse reads the text of a SKILL.md and lists everything that is wrong with it, with
// lines. The skill is to be used only if all of that are warnings; its Dir, Resources and
// Scripts are empty. A byte order mark and either kind of line end are fine.
func Parse(text []byte, how Reading) (Skill, []Fault) {
	f := faults{path: fileName, lenient: how.Lenient}
	s := parse(&f, text, how.Folder)
	return s, f.list
}

func parse(f *faults, text []byte, folder string) Skill {
	if !utf8.Valid(text) {
		f.add(0, "is no UTF-8 text")
		return Skill{}
	}
	whole := strings.ReplaceAll(strings.TrimPrefix(string(text), "\ufeff"), "\r\n", "\n")
	head, body, ok := split(f, whole)
	if !ok {
		return Skill{}
	}
	s := Skill{Text: whole, Instructions: strings.TrimSpace(body)}
	fields, ok := readFields(f, head)
	if !ok {
		return Skill{}
	}
	s.FrontMatter = frontMatter(f, fields)
	lines := map[string]int{}
	for name, field := range fields {
		lines[name] = field.line
	}
	s.nameAfter(f, lines["name"], folder)
	s.check(f, lines)
	checkFolder(f, lines["name"], s.Name, folder)
	slices.SortStableFunc(f.list, func(a, b Fault) int { return cmp.Compare(a.Line, b.Line) })
	return s
}

// split finds the front matter, between a first line of three dashes and the next such
// line. Within YAML none can begin at the margin, so no value closes it.
func split(f *faults, text string) (head, body string, ok bool) {
	first, rest, _ := strings.Cut(text, "\n")
	if !isFence(first) {
		f.add(1, "must start with YAML frontmatter: the first line has to be ---")
		return "", "", false
	}
	for at := 0; at < len(rest); {
		line, _, _ := strings.Cut(rest[at:], "\n")
		if isFence(line) {
			head, body = rest[:at], strings.TrimPrefix(rest[at+len(line):], "\n")
			if len(head) > maxFrontMatter {
				f.add(1, "YAML frontmatter exceeds %d bytes", maxFrontMatter)
				return "", "", false
			}
			return head, body, true
		}
		at += len(line) + 1
	}
	f.add(1, "YAML frontmatter is not properly closed: a line --- has to end it")
	return "", "", false
}

func isFence(line string) bool { return strings.TrimRight(line, " \t") == "---" }

// disableField is a field of skills that were made for other agents.
const disableField = "disable-model-invocation"

// truth is what a switch is set to. What is not plainly off is on: more is kept from models.
func (v field) truth(f *faults) bool {
	text := strings.ToLower(strings.TrimSpace(v.scalar(f)))
	return text != "" && text != "false" && text != "no"
}

// frontMatter takes the values of the known fields, and notes every other field.
func frontMatter(f *faults, fields map[string]field) FrontMatter {
	var m FrontMatter
	take := map[string]func(field){
		"name":          func(v field) { m.Name = norm.NFKC.String(v.scalar(f)) },
		"description":   func(v field) { m.Description = v.scalar(f) },
		"license":       func(v field) { m.License = v.scalar(f) },
		"compatibility": func(v field) { m.Compatibility = v.scalar(f) },
		"metadata":      func(v field) { m.Metadata = v.texts(f) },
		"allowed-tools": func(v field) { m.AllowedTools = v.tools(f) },
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		v, key := fields[name], strings.ToLower(name)
		set, known := take[key]
		_, twice := fields[key]
		switch {
		case known && key == name:
			set(v)
		case known && !twice:
			f.mend(v.line, "Unexpected fields: %s, which is spelled %s", quoted(name), key)
			if f.lenient {
				set(v)
			}
		case name == disableField:
			f.mend(v.line, "Unexpected fields: %q, which is none of the specification; where it is read, only people can load the skill", name)
			m.DisableModelInvocation = v.truth(f)
		default:
			f.mend(v.line, "Unexpected fields: %s; the specification has none of this name, texts of your own go under metadata", quoted(name))
		}
	}
	return m
}
