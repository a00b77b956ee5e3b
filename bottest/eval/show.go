package eval

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/planbot-go/planbot/planner/plan"
)

// show is a plan, a line for each command.
func show(p plan.Plan) []string {
	var lines []string
	for i := range p.Commands {
		c := &p.Commands[i]
		line := "say " + quoted(c.Response)
		if c.Kind == plan.Do {
			line = showCall(Call{c.Action, c.Entities})
		}
		if c.SaveAs != "" {
			line += " => " + c.SaveAs
		}
		lines = append(lines, line)
	}
	return lines
}

func showCalls(calls []Call) string {
	if len(calls) == 0 {
		return "say"
	}
	lines := make([]string, len(calls))
	for i, call := range calls {
		lines[i] = showCall(call)
	}
	return strings.Join(lines, "; ")
}

func showCall(c Call) string {
	line := c.Action
	for _, name := range slices.Sorted(maps.Keys(c.Entities)) {
		line += " " + printable(name) + "=" + showValue(c.Entities[name])
	}
	return line
}

func showValue(value any) string {
	switch value := value.(type) {
	case string:
		return quoted(value)
	case json.Number:
		return printable(value.String())
	case []any:
		parts := make([]string, len(value))
		for i := range value {
			parts[i] = showValue(value[i])
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case map[string]any:
		return "{" + strings.TrimSpace(showCall(Call{"", value})) + "}"
	}
	return fmt.Sprint(value)
}

// quoted is a text in quotes, with nothing that a terminal obeys.
func quoted(text string) string { return strconv.QuoteToGraphic(text) }

// printable is a line of text with nothing that a terminal obeys.
func printable(text string) string {
	inQuotes := quoted(text)
	return strings.ReplaceAll(inQuotes[1:len(inQuotes)-1], `\"`, `"`)
}
