package plan

import (
	"maps"
	"slices"
	"strings"
)

var (
	attributeEscapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", `"`, "&quot;")
	textEscapes      = strings.NewReplacer("&", "&amp;", "<", "&lt;")
)

// retoldAsXML writes what the history keeps of a turn, see [Transcript], in the
// format that the sequential planner asks for, so that the model's own earlier
// answers are examples of it. Another text stays as it is.
func TranscriptXML(transcript string) string {
	commands, ok := ReadTranscript(transcript)
	if !ok {
		return transcript
	}
	if (Plan{Commands: commands}).LastDo() < 0 {
		texts := make([]string, len(commands))
		for i, c := range commands {
			texts[i] = c.Response
		}
		return strings.Join(texts, "\n")
	}
	var out strings.Builder
	out.WriteString("<plan>\n")
	for _, c := range commands {
		if c.Kind == Say {
			out.WriteString("  <say>" + textEscapes.Replace(c.Response) + "</say>\n")
			continue
		}
		out.WriteString("  <" + functionTag + c.Action)
		for _, name := range slices.Sorted(maps.Keys(c.Entities)) {
			out.WriteString(" " + name + `="` + attributeEscapes.Replace(textOf(c.Entities[name])) + `"`)
		}
		out.WriteString("/>\n")
	}
	out.WriteString("</plan>")
	return out.String()
}
