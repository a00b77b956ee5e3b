package prompts

import (
	"slices"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"
)

// Longest name and description in the list, in characters; what is over is cut.
const (
	maxWord        = 64
	maxDescription = 1000
)

// Action is one action as the model is told of it.
type Action struct {
	Name        string
	Description string
	Parameters  []Parameter
}

// Parameter is one parameter of an [Action].
type Parameter struct {
	Name        string
	Type        string // as it is shown: string, number, string[], …; "" is any
	Description string
	Required    bool
	Enum        []string // the allowed values; of a list, those of its items
	Default     string   // JSON text; "" is none
}

// RenderActions writes the list of actions for the planner prompt, one line
// each, in the order given:
//
//	addPizza(size: "S"|"L", toppings?: ("ham"|"egg")[], quantity?: integer = 1) - Adds a pizza
//
// A parameter's description follows its type in quotes. Every text is put on
// one line, without control characters, and cut where it is too long, so that
// no description can pose as an action of its own.
func RenderActions(actions []Action) string {
	if len(actions) == 0 {
		return "(none)"
	}
	var out []byte
	for i, a := range actions {
		if i > 0 {
			out = append(out, '\n')
		}
		out = appendAction(out, a)
	}
	return string(out)
}

func appendAction(out []byte, a Action) []byte {
	out = append(out, oneLine(a.Name, maxWord)...)
	out = append(out, '(')
	for i, p := range a.Parameters {
		if i > 0 {
			out = append(out, ", "...)
		}
		out = appendParameter(out, p)
	}
	out = append(out, ')')
	if description := oneLine(a.Description, maxDescription); description != "" {
		out = append(out, " - "...)
		out = append(out, description...)
	}
	return out
}

func appendParameter(out []byte, p Parameter) []byte {
	out = append(out, oneLine(p.Name, maxWord)...)
	if !p.Required {
		out = append(out, '?')
	}
	out = append(out, ": "...)
	out = appendType(out, p)
	if value := oneLine(p.Default, maxDescription); value != "" {
		out = append(out, " = "...)
		out = append(out, value...)
	}
	if description := oneLine(p.Description, maxDescription); description != "" {
		out = append(out, ' ')
		out = appendQuoted(out, description)
	}
	return out
}

func appendType(out []byte, p Parameter) []byte {
	kind := oneLine(p.Type, maxDescription)
	if len(p.Enum) == 0 {
		if kind == "" {
			kind = "any"
		}
		return append(out, kind...)
	}
	item, list := strings.CutSuffix(kind, "[]")
	if list {
		out = append(out, '(')
	}
	for i, value := range p.Enum {
		if i > 0 {
			out = append(out, '|')
		}
		if value = oneLine(value, maxDescription); slices.Contains([]string{"number", "integer", "boolean"}, item) {
			out = append(out, value...)
		} else {
			out = appendQuoted(out, value)
		}
	}
	if list {
		out = append(out, ")[]"...)
	}
	return out
}

// appendQuoted cannot fail: oneLine has left valid UTF-8.
func appendQuoted(out []byte, text string) []byte {
	quoted, err := jsontext.AppendQuote(out, text)
	if err != nil {
		return out
	}
	return quoted
}

// oneLine puts a text on one line of at most limit characters: white space of
// any kind becomes one space, and what is not seen, such as marks that change
// the direction of writing, goes. The joiners inside of emoji and words stay.
func oneLine(text string, limit int) string {
	visible := strings.Map(func(r rune) rune {
		switch {
		case unicode.IsControl(r):
			return ' '
		case unicode.Is(unicode.Cf, r) && r != '\u200c' && r != '\u200d':
			return -1
		}
		return r
	}, text) // and torn bytes become U+FFFD
	line := strings.Join(strings.Fields(visible), " ")
	if runes := []rune(line); len(runes) > limit {
		return string(runes[:limit-1]) + "…"
	}
	return line
}
