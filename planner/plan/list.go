package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/internal/spelling"
	"github.com/planbot-go/planbot/internal/titles"
)

// Longest name and description in a list, in characters; the rest is cut.
const (
	maxWord        = 64
	maxDescription = 1000
)

// List writes the actions for a prompt, one line each, in the order of registration:
//
//	addPizza(size: "S"|"L", toppings?: ("ham"|"egg")[], quantity?: integer = 1) - Adds a pizza
//
// Parameters whose names the schema leaves open are [any name]?, or their pattern: [^x_]?.
// A parameter's description follows its type in quotes. The fields of a declared result follow the
// action's description, as variables of a plan with saveAs. A brief list has only the parameter names,
// for a model that gets the [Schema] of plans. Every text is put on one line, without control
// characters, and cut if too long, so no description can pose as another action.
func List(registry *actions.Registry, brief bool) string {
	var lines []string
	for _, a := range registry.All() {
		schema := a.ForModels()
		var parameters []string
		add := func(text string, of *jsonschema.Schema) {
			if !brief {
				text += describeParameter(of, a.NullIsValue())
			}
			parameters = append(parameters, text)
		}
		for _, name := range titles.Order(schema) {
			text := spelling.OneLine(name, maxWord)
			if !slices.Contains(schema.Required, name) {
				text += "?"
			}
			add(text, schema.Properties[name])
		}
		for _, pattern := range slices.Sorted(maps.Keys(schema.PatternProperties)) {
			add("["+spelling.OneLine(pattern, maxWord)+"]?", schema.PatternProperties[pattern])
		}
		if others := schema.AdditionalProperties; others != nil && others.Not == nil && len(schema.Properties) == 0 {
			add("[any name]?", others)
		}
		line := spelling.OneLine(a.Name, maxWord) + "(" + strings.Join(parameters, ", ") + ")"
		if description := spelling.OneLine(a.Description, maxDescription); description != "" {
			line += " - " + description
		}
		if a.Returns != nil && len(a.Returns.Properties) > 0 {
			line += " (result: $NAME." + spelling.OneLine(strings.Join(titles.Order(a.Returns), ", $NAME."), maxDescription) + ")"
		}
		lines = append(lines, line)
	}
	return cmp.Or(strings.Join(lines, "\n"), "(none)")
}

func describeParameter(property *jsonschema.Schema, nulls bool) string {
	text := ": " + listedType(property, nulls)
	if value := spelling.OneLine(string(property.Default), maxDescription); value != "" {
		text += " = " + value
	}
	if description := spelling.OneLine(property.Description, maxDescription); description != "" {
		text += " " + quote(description)
	}
	return text
}

// listedType writes the type of a parameter or, if there are only some values, those: texts in quotes.
func listedType(property *jsonschema.Schema, nulls bool) string {
	kind, null := spelling.OneLine(typeText(property, nulls), maxDescription), ""
	if without, ok := strings.CutSuffix(kind, orNull); ok {
		kind, null = without, orNull
	}
	enum, isList := property.Enum, strings.HasSuffix(kind, "[]") && property.Items != nil
	if isList {
		enum = property.Items.Enum
	}
	var values []string
	for _, v := range enum {
		value := spelling.OneLine(fmt.Sprint(v), maxDescription)
		switch v.(type) {
		case nil:
			continue
		case string:
			value = quote(value)
		}
		values = append(values, value)
	}
	switch {
	case values == nil:
		return kind + null
	case isList:
		return "(" + strings.Join(values, "|") + ")[]" + null
	}
	return strings.Join(values, "|") + null
}

// quote cannot fail: a text on one line is valid UTF-8.
func quote(text string) string {
	quoted, _ := jsontext.AppendQuote(nil, text)
	return string(quoted)
}

// Manual writes the functions manual for the prompt of the sequential planner, in the form of
// Semantic Kernel, ordered by plugin and name, with those of connected services behind them as they come:
//
//	addPizza:
//	  description: Adds a pizza
//	  inputs:
//	    - size: how large ("S"|"L")
//	    - quantity: (integer, optional) (default value: 1)
//
// An action PLUGIN-FUNCTION is written PLUGIN.FUNCTION. Plain required texts have no mark. Texts are put on one line and cut as in [List].
func Manual(registry *actions.Registry) string {
	all := slices.Clone(registry.All())
	byPlugin := func(a *actions.Action) string { // - sorts before the other characters of names
		if strings.Contains(a.Name, "-") {
			return a.Name
		}
		return "-" + a.Name
	}
	slices.SortStableFunc(all, func(a, b *actions.Action) int {
		if a.Source.Connection != "" || b.Source.Connection != "" { // these come and go: behind the others, a cached prefix stays
			return cmp.Compare(len(a.Source.Connection), 0) - cmp.Compare(len(b.Source.Connection), 0)
		}
		return strings.Compare(byPlugin(a), byPlugin(b))
	})
	var functions []string
	for _, a := range all {
		text := spelling.OneLine(strings.Replace(a.Name, "-", ".", 1), maxWord) + ":\n  description: " + spelling.OneLine(a.Description, maxDescription) + "\n  inputs:"
		schema := a.ForModels()
		for _, name := range titles.Order(schema) {
			text += "\n    - " + manualInput(schema, name, a.NullIsValue())
		}
		functions = append(functions, text)
	}
	return cmp.Or(strings.Join(functions, "\n\n"), "(none)")
}

// manualInput writes one line of the list of inputs. Its marks say how the input differs from a
// required text.
func manualInput(schema *jsonschema.Schema, name string, nulls bool) string {
	property := schema.Properties[name]
	var marks []string
	switch kind := listedType(property, nulls); {
	case kind == "object", strings.HasPrefix(kind, "{"), strings.HasSuffix(kind, "[]"):
		marks = append(marks, "JSON "+kind)
	case kind != "string":
		marks = append(marks, kind)
	}
	if !slices.Contains(schema.Required, name) {
		marks = append(marks, "optional")
	}
	text := spelling.OneLine(name, maxWord) + ":"
	if description := spelling.OneLine(property.Description, maxDescription); description != "" {
		text += " " + description
	}
	if marks != nil {
		text += " (" + strings.Join(marks, ", ") + ")"
	}
	if value := spelling.OneLine(string(property.Default), maxDescription); value != "" {
		text += " (default value: " + strings.Trim(value, `"`) + ")"
	}
	return text
}
