package plan

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// String shows the whole plan, a line for each command:
//
//   - Writer-Translate input="$S" language="French" => T
//   - SAY "$T"
//
// It quotes what people and models wrote; see [Plan.Outline] for logs.
func (p Plan) String() string {
	lines := make([]string, len(p.Commands))
	for i := range p.Commands {
		lines[i] = p.Commands[i].line()
	}
	return strings.Join(lines, "\n")
}

// line shows the command as a line of [Plan.String].
func (c *Command) line() string {
	if c.Kind == Say {
		return "- " + string(Say) + " " + strconv.Quote(c.Response)
	}
	var out strings.Builder
	out.WriteString("- " + c.Action)
	for _, name := range slices.Sorted(maps.Keys(c.Entities)) {
		out.WriteString(" " + name + "=" + quoted(c.Entities[name]))
	}
	if c.SaveAs != "" {
		out.WriteString(" => " + c.SaveAs)
	}
	return out.String()
}

// quoted shows a value in a line: a text in quotes, else JSON.
func quoted(value any) string {
	switch value := value.(type) {
	case string:
		return strconv.Quote(value)
	case nil, json.Number, bool:
		raw, _ := json.Marshal(value) // none of them fails
		return string(raw)
	}
	return textOf(value)
}

// Outline shows a plan that was validated without anything that is in it: a line
// for each command, with the name of its action or SAY. It is safe for logs.
func (p Plan) Outline() string {
	lines := make([]string, len(p.Commands))
	for i := range p.Commands {
		if lines[i] = "- " + string(Say); p.Commands[i].Kind != Say {
			lines[i] = "- " + p.Commands[i].Action
		}
	}
	return strings.Join(lines, "\n")
}
