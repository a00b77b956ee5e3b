package skills

import (
	"regexp"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// plainEntry is a line with a key and a value that is no block;
// blockEntry one whose value is the block of lines behind it.
var (
	plainEntry = regexp.MustCompile(`^( *)([A-Za-z][\w-]*):[ \t]+([^\s|>#].*)$`)
	blockEntry = regexp.MustCompile(`^( *)[A-Za-z][\w-]*:[ \t]+[|>]`)
)

// behindQuotes matches a quoted value up to what stands behind it.
var behindQuotes = regexp.MustCompile(`^(?:"(?:[^"\\]|\\.)*"|'(?:[^']|'')*')\s*`)

// mendYAML reads again what YAML refuses, with the two mistakes mended that people make
// most: values with a colon in them, a mark at their begin or a quoted begin that should be
// quoted, and tabs to set lines in. It returns what it mended beside the root.
func mendYAML(f *faults, head string) (ast.Node, []Fault, error) {
	mends := faults{path: f.path, lenient: f.lenient}
	root, _, err := parseYAML(mend(&mends, head))
	return root, mends.list, err
}

func mend(f *faults, head string) string {
	lines := strings.Split(head, "\n")
	mendTabs(f, lines)
	for i := 0; i < len(lines); i++ {
		if block := blockEntry.FindStringSubmatch(lines[i]); block != nil {
			for i+1 < len(lines) && isContinued(lines[i+1], len(block[1])) {
				i++
			}
		} else if entry := plainEntry.FindStringSubmatch(lines[i]); entry != nil {
			i = mendEntry(f, lines, i, entry)
		}
	}
	return strings.Join(lines, "\n")
}

func mendTabs(f *faults, lines []string) {
	for i, line := range lines {
		text := strings.TrimLeft(line, " \t")
		if indent := line[:len(line)-len(text)]; strings.Contains(indent, "\t") {
			f.mend(i+firstLine, "Invalid YAML in frontmatter: the line is set in by a tab")
			lines[i] = strings.ReplaceAll(indent, "\t", "  ") + text
		}
	}
}

// mendEntry quotes the value that begins in lines[at] where that is needed, and returns
// the last line of it.
func mendEntry(f *faults, lines []string, at int, entry []string) int {
	indent, name, value := entry[1], entry[2], entry[3]
	end := at + 1
	for i := end; i < len(lines) && isContinued(lines[i], len(indent)); i++ {
		if text := strings.TrimSpace(lines[i]); text != "" {
			value, end = value+" "+text, i+1
		}
	}
	if needsQuotes(value) {
		f.mend(at+firstLine, "Invalid YAML in frontmatter: the value of %s has to be quoted", name)
		lines[at] = indent + name + ": '" + strings.ReplaceAll(strings.TrimSpace(value), "'", "''") + "'"
		clear(lines[at+1 : end]) // blank, so that the lines behind keep their numbers
	}
	return end - 1
}

// isContinued says that a line may go on with the value of an entry that is set in less.
func isContinued(line string, indent int) bool {
	text := strings.TrimLeft(line, " ")
	return strings.TrimSpace(text) == "" || len(line)-len(text) > indent
}

// needsQuotes says that YAML would take a value for more than text. A list or mapping in
// brackets that are closed is meant as one.
func needsQuotes(value string) bool {
	if value[0] == '"' || value[0] == '\'' {
		rest := behindQuotes.ReplaceAllString(value, "")
		return rest != value && rest != "" && rest[0] != '#'
	}
	if strings.HasPrefix(value, "- ") || strings.HasPrefix(value, "? ") || strings.ContainsRune("@`%*&!,]}", rune(value[0])) {
		return true
	}
	closed := value[0] == '[' && strings.HasSuffix(value, "]") || value[0] == '{' && strings.HasSuffix(value, "}")
	return !closed && (value[0] == '[' || value[0] == '{' || strings.Contains(value, ": ") || strings.HasSuffix(value, ":"))
}
