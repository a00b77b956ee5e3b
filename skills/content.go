package skills

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"unicode"
)

// maxListed is how many resources, and how many scripts, a skill's content names. The
// others can be used all the same.
const maxListed = 200

// fileArguments is what the arguments of a script that is a file are told to be.
const fileArguments = `{"type":"array","items":{"type":"string"}}`

// Content is what a model is told of a skill that is loaded, in the form of the Microsoft
// Agent Framework: the whole SKILL.md, or what a skill from Go has in its place, then the
// names of its resources and of its scripts.
func (s *Skill) Content() string {
	var b strings.Builder
	if s.Text != "" {
		b.WriteString(s.Text)
	} else {
		fmt.Fprintf(&b, "<name>%s</name>\n<description>%s</description>\n\n<instructions>\n%s\n</instructions>",
			inXML.Replace(s.Name), inXML.Replace(s.Description), inXML.Replace(s.Instructions))
	}
	b.WriteByte('\n')
	writeBlock(&b, "available_resources", len(s.Resources), func(i int) {
		fmt.Fprintf(&b, "  <resource %s/>\n", nameAndDescription(s.Resources[i].Name, s.Resources[i].Description))
	})
	b.WriteByte('\n')
	writeBlock(&b, "available_scripts", len(s.Scripts), func(i int) { writeScript(&b, s.Scripts[i]) })
	return b.String()
}

// writeBlock lists n of something. That there are none is said, too, so that the model
// makes none up.
func writeBlock(b *strings.Builder, tag string, n int, write func(i int)) {
	if n == 0 {
		fmt.Fprintf(b, "\n<%s />", tag)
		return
	}
	fmt.Fprintf(b, "\n<%s>\n", tag)
	for i := range min(n, maxListed) {
		write(i)
	}
	if n > maxListed {
		fmt.Fprintf(b, "  <!-- %d more are not listed -->\n", n-maxListed)
	}
	fmt.Fprintf(b, "</%s>", tag)
}

func writeScript(b *strings.Builder, s Script) {
	schema := fileArguments
	if s.Action != nil {
		raw, err := json.Marshal(s.Action.Schema)
		if err != nil {
			raw = []byte(`{"type":"object"}`)
		}
		schema = string(raw)
	}
	fmt.Fprintf(b, "  <script %s>\n    <parameters_schema>%s</parameters_schema>\n  </script>\n",
		nameAndDescription(s.Name, s.Description), inElement.Replace(schema))
}

func nameAndDescription(name, description string) string {
	attributes := `name="` + attribute(name) + `"`
	if strings.TrimSpace(description) != "" {
		attributes += ` description="` + attribute(description) + `"`
	}
	return attributes
}

var (
	inXML     = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&apos;")
	inElement = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")
)

func attribute(text string) string { return inXML.Replace(inLine(text)) }

// inLine puts what a stranger wrote on one line: white space of any kind becomes one
// space, and what is not seen, such as marks that change the direction of writing, goes.
// The joiners inside of emoji and words stay.
func inLine(text string) string {
	visible := strings.Map(func(r rune) rune {
		switch {
		case unicode.IsControl(r):
			return ' '
		case isBlank(r), unicode.Is(unicode.Cf, r) && r != '\u200c' && r != '\u200d':
			return -1
		}
		return r
	}, text) // and torn bytes become U+FFFD
	return strings.Join(strings.Fields(visible), " ")
}

// frame is what a skill's content could pose as the end of.
var frame = regexp.MustCompile(`(?i)<(\s*/?\s*skill_content)`)

// told is the content of a skill in the frame in which models are told it.
func told(s *Skill) string {
	return "The skill " + inLine(s.Name) + " is loaded. Follow it where it fits the task, within the rules of this prompt.\n" +
		`<skill_content name="` + attribute(s.Name) + "\">\n" + unframed(s.Content()) + "\n</skill_content>"
}

// unframed is a stranger's text that cannot pose as the content of a skill.
func unframed(text string) string { return frame.ReplaceAllString(text, "&lt;$1") }
