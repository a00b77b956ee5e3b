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

// RenderManual writes the functions manual for the prompt of the sequential
// planner, in the form of Semantic Kernel:
//
//	addPizza:
//	  description: Adds a pizza
//	  inputs:
//	    - size: how large (one of "S", "L")
//	    - quantity: (integer, optional) (default value: 1)
//
// Plain required texts have no mark. Texts are put on one line and cut as those
// of [RenderActions].
func RenderManual(actions []Action) string {
	if len(actions) == 0 {
		return "(none)"
	}
	functions := make([]string, len(actions))
	for i, a := range actions {
		functions[i] = manualOf(a)
	}
	return strings.Join(functions, "\n\n")
}

func manualOf(a Action) string {
	var out strings.Builder
	out.WriteString(oneLine(a.Name, maxWord) + ":\n  description: " + oneLine(a.Description, maxDescription) + "\n  inputs:")
	for _, p := range a.Parameters {
		out.WriteString("\n    - " + inputOf(p))
	}
	return out.String()
}

// inputOf writes one line of the list of inputs.
func inputOf(p Parameter) string {
	parts := []string{oneLine(p.Name, maxWord) + ":"}
	if description := oneLine(p.Description, maxDescription); description != "" {
		parts = append(parts, description)
	}
	if marks := inputMarks(p); marks != "" {
		parts = append(parts, "("+marks+")")
	}
	if value := oneLine(p.Default, maxDescription); value != "" {
		parts = append(parts, "(default value: "+strings.Trim(value, `"`)+")")
	}
	return strings.Join(parts, " ")
}

// inputMarks says what sets an input apart from a required text.
func inputMarks(p Parameter) string {
	var marks []string
	kind := oneLine(p.Type, maxDescription)
	item, list := strings.CutSuffix(kind, "[]")
	switch {
	case list && len(p.Enum) > 0:
		marks = append(marks, "JSON array of "+allowed(p))
	case list:
		marks = append(marks, "JSON array of "+item)
	case len(p.Enum) > 0:
		marks = append(marks, "one of "+allowed(p))
	case strings.HasPrefix(kind, "{"), kind == "object":
		marks = append(marks, strings.TrimSpace("JSON object "+strings.TrimPrefix(kind, "object")))
	case kind != "string" && kind != "":
		marks = append(marks, kind)
	}
	if !p.Required {
		marks = append(marks, "optional")
	}
	return strings.Join(marks, ", ")
}

// allowed lists the values of an enum, each in quotes.
func allowed(p Parameter) string {
	var out []byte
	for i, value := range p.Enum {
		if i > 0 {
			out = append(out, ", "...)
		}
		out = appendQuoted(out, oneLine(value, maxDescription))
	}
	return string(out)
}
