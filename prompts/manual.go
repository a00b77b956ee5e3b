package prompts

import "strings"

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
