package skills

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Lengths that the specification allows, in characters.
const (
	MaxName          = 64
	MaxDescription   = 1024
	MaxCompatibility = 500
)

// FrontMatter is what a skill says of itself. Its values are text as it was written: a
// version 1.0 is "1.0". All of it is untrusted: escape it before a model or a page sees it.
type FrontMatter struct {
	// Name has letters in lower case, digits and single hyphens between them, and is the
	// name of the skill's folder too. It is in Unicode's form NFKC.
	Name          string
	Description   string // what the skill does and when to use it
	License       string
	Compatibility string            // what the skill needs
	AllowedTools  []string          // such as Read or Bash(git:*); nil when it says nothing of them, empty when it allows none
	Metadata      map[string]string // whatever else its author says
	// DisableModelInvocation says that models are not told of the skill, and only people can
	// load it. The specification does not have it: a SKILL.md can say so where it is read
	// leniently.
	DisableModelInvocation bool
}

// check holds the values against the rules of the specification. lines tells where the
// fields stand; nil is for values from Go.
func (m *FrontMatter) check(f *faults, lines map[string]int) {
	checkName(f, lines["name"], m.Name)
	checkText(f, lines["description"], "description", m.Description, MaxDescription)
	if strings.TrimSpace(m.Description) == "" {
		f.add(lines["description"], "Missing required field: description (or it is blank)")
	}
	checkText(f, lines["compatibility"], "compatibility", m.Compatibility, MaxCompatibility)
	if _, given := lines["compatibility"]; given && m.Compatibility == "" {
		f.mend(lines["compatibility"], "compatibility is there, but blank")
	}
}

func checkText(f *faults, line int, field, value string, most int) {
	if n := utf8.RuneCountInString(value); n > most {
		f.mend(line, "%s exceeds the %d character limit (it has %d)", field, most, n)
	}
}

// checkName lists every rule that a name breaks. Characters that a name cannot have are
// no matter of leniency: names stand in prompts, paths and schemas.
func checkName(f *faults, line int, name string) {
	if name == "" {
		f.add(line, "Missing required field: name (or it is blank)")
		return
	}
	if n := utf8.RuneCountInString(name); n > MaxName {
		f.mend(line, "name exceeds the %d character limit (it has %d)", MaxName, n)
	}
	if name != strings.ToLower(name) {
		f.mend(line, "name %s has to be lowercase", quoted(name))
	}
	if strings.HasPrefix(name, "-") || strings.HasSuffix(name, "-") {
		f.mend(line, "name %s cannot start or end with a hyphen", quoted(name))
	}
	if strings.Contains(name, "--") {
		f.mend(line, "name %s has consecutive hyphens", quoted(name))
	}
	if strings.ContainsFunc(name, odd) {
		f.add(line, "name %s has invalid characters: letters, digits and hyphens only", quoted(name))
	}
}

// odd says that a name cannot have a character.
func odd(r rune) bool {
	return r != '-' && !unicode.IsLetter(r) && !unicode.IsNumber(r) || r == utf8.RuneError || isBlank(r)
}

// isBlank says that a character is a letter to Unicode and shows nothing, so that two names
// would look the same: the fillers of Hangul, and the blanks among the hieroglyphs.
func isBlank(r rune) bool {
	return unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r) || r == 0x13441 || r == 0x13442
}

// nameAfter takes the folder's name for one that is missing or is none, as many clients do.
func (m *FrontMatter) nameAfter(f *faults, line int, folder string) {
	folder = norm.NFKC.String(folder)
	if !f.lenient || folder == "" || strings.ContainsFunc(folder, odd) || m.Name != "" && !strings.ContainsFunc(m.Name, odd) {
		return
	}
	what := "Missing required field: name (or it is blank)"
	if m.Name != "" {
		what = "name " + quoted(m.Name) + " has invalid characters"
	}
	f.warn(line, "%s: the directory's is used, %s", what, quoted(folder))
	m.Name = folder
}

// checkFolder compares the name with that of the skill's folder.
func checkFolder(f *faults, line int, name, folder string) {
	if folder != "" && name != "" && norm.NFKC.String(folder) != name {
		f.mend(line, "directory name %s must match skill name %s", quoted(folder), quoted(name))
	}
}

// splitTools splits a list of tools at spaces and commas that are outside of parentheses.
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
