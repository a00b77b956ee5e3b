package actions

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"
)

// checker fits values to the part of JSON Schema that the schemas of actions
// use: type, enum, const, the limits of numbers, strings and arrays, pattern,
// format date and date-time, properties, required, items, additionalProperties,
// allOf, anyOf, oneOf, default, and references within the schema. It ignores the
// rest.
type checker struct {
	root  *jsonschema.Schema
	later func(string) bool
	open  bool // later was true since this was set to false
	build bool // convert and fill in, for a copy that is going to run
	exact bool // convert nothing
	refs  int  // references followed so far, against circles
}

// maxRefs is how many references one check follows.
const maxRefs = 1000

// fit returns value as schema wants it, and whether that is another value. A nil
// schema wants nothing. The path of an error is relative to the value.
func (c *checker) fit(schema *jsonschema.Schema, value any) (fitted any, changed bool, err *EntityError) {
	if schema = c.resolve(schema); schema == nil {
		return value, false, nil
	}
	if text, ok := value.(string); ok && c.later != nil && c.later(text) {
		c.open = true
		return value, false, nil
	}
	if fitted, changed, err = c.fitType(schema, value); err != nil {
		return value, false, err
	}
	if err := checkLimits(schema, fitted); err != nil {
		return value, false, err
	}
	inner, deeper, err := c.fitContents(schema, fitted)
	if err != nil {
		return value, false, err
	}
	chosen, other, err := c.fitChoices(schema, inner)
	return chosen, changed || deeper || other, err
}

// resolve follows references within the schema.
func (c *checker) resolve(schema *jsonschema.Schema) *jsonschema.Schema {
	for schema != nil && schema.Ref != "" && c.refs < maxRefs {
		c.refs++
		name, ok := strings.CutPrefix(schema.Ref, "#/$defs/")
		if ok {
			schema = c.root.Defs[name]
			continue
		}
		if name, ok = strings.CutPrefix(schema.Ref, "#/definitions/"); !ok {
			return nil
		}
		schema = c.root.Definitions[name]
	}
	return schema
}

func typesOf(schema *jsonschema.Schema) []string {
	if schema.Type != "" {
		return []string{schema.Type}
	}
	return schema.Types
}

// hasType reports whether schema allows a type; one without types allows all.
func hasType(schema *jsonschema.Schema, name string) bool {
	if schema.Type != "" {
		return schema.Type == name
	}
	return schema.Types == nil || slices.Contains(schema.Types, name)
}

// fitType checks the type of value, and converts it when nothing is lost by it.
func (c *checker) fitType(schema *jsonschema.Schema, value any) (any, bool, *EntityError) {
	if schema.Type == "" && schema.Types == nil {
		return value, false, nil
	}
	var fits bool
	switch value := value.(type) {
	case nil:
		fits = hasType(schema, "null")
	case bool:
		fits = hasType(schema, "boolean")
	case string:
		fits = hasType(schema, "string")
	case []any:
		fits = hasType(schema, "array")
	case map[string]any:
		fits = hasType(schema, "object")
	default:
		return c.fitNumber(schema, value)
	}
	if fits {
		return value, false, nil
	}
	if !c.exact {
		if converted, ok := convert(schema, value); ok {
			return converted, true, nil
		}
	}
	return nil, false, wrong(schema, value)
}

// fitNumber checks a number. Where an integer is wanted it is written as one.
func (c *checker) fitNumber(schema *jsonschema.Schema, value any) (any, bool, *EntityError) {
	number, ok := numberOf(value)
	if !ok {
		return nil, false, wrong(schema, value)
	}
	if hasType(schema, "number") {
		return value, false, nil
	}
	if hasType(schema, "integer") {
		if whole, ok := integer(number); ok {
			return json.Number(whole), whole != number, nil
		}
	}
	if hasType(schema, "string") && !c.exact {
		return number, true, nil
	}
	return nil, false, wrong(schema, value)
}

// convert turns a string into a number or a boolean, or a boolean into a string,
// where schema wants that.
func convert(schema *jsonschema.Schema, value any) (any, bool) {
	text, ok := value.(string)
	if !ok {
		truth, isBool := value.(bool)
		return strconv.FormatBool(truth), isBool && hasType(schema, "string")
	}
	text = strings.TrimSpace(text)
	if isNumber(text) {
		if hasType(schema, "number") {
			return json.Number(text), true
		}
		whole, ok := integer(text)
		return json.Number(whole), ok && hasType(schema, "integer")
	}
	switch {
	case !hasType(schema, "boolean"):
		return nil, false
	case strings.EqualFold(text, "true"):
		return true, true
	case strings.EqualFold(text, "false"):
		return false, true
	}
	return nil, false
}

// checkLimits checks a value of the right type against what else its schema says
// of it.
func checkLimits(schema *jsonschema.Schema, value any) *EntityError {
	if schema.Enum != nil && !slices.ContainsFunc(schema.Enum, func(one any) bool { return same(one, value) }) {
		return wrong(schema, value)
	}
	if schema.Const != nil && !same(*schema.Const, value) {
		return wrong(schema, value)
	}
	switch value := value.(type) {
	case string:
		return checkString(schema, value)
	case []any:
		if n := len(value); schema.MinItems != nil && n < *schema.MinItems || schema.MaxItems != nil && n > *schema.MaxItems {
			return &EntityError{Want: "another number of elements", Got: strconv.Itoa(n)}
		}
		return nil
	}
	if number, ok := numberOf(value); ok {
		return checkRange(schema, number)
	}
	return nil
}

func checkString(schema *jsonschema.Schema, text string) *EntityError {
	n := utf8.RuneCountInString(text)
	switch {
	case schema.MinLength != nil && n < *schema.MinLength:
		return &EntityError{Want: fmt.Sprintf("at least %d characters", *schema.MinLength), Got: strconv.Itoa(n)}
	case schema.MaxLength != nil && n > *schema.MaxLength:
		return &EntityError{Want: fmt.Sprintf("at most %d characters", *schema.MaxLength), Got: strconv.Itoa(n)}
	case schema.Pattern != "" && !matches(schema.Pattern, text):
		return &EntityError{Want: "a string that matches " + schema.Pattern + example(schema), Got: describe(text)}
	case schema.Format == "date-time" && !isTime(time.RFC3339, text):
		return &EntityError{Want: wantTime, Got: describe(text)}
	case schema.Format == "date" && !isTime(time.DateOnly, text):
		return &EntityError{Want: "a date as in 2006-01-02", Got: describe(text)}
	}
	return nil
}

// wantTime describes a date-time of JSON Schema.
const wantTime = "an RFC 3339 date-time such as 2026-11-21T09:00:00Z"

// example is the first example of schema, in words; "" when it has none.
func example(schema *jsonschema.Schema) string {
	if len(schema.Examples) == 0 {
		return ""
	}
	return fmt.Sprintf(", such as %v", schema.Examples[0])
}

// matches reports whether text matches; a pattern that Go does not know is no
// fault of the text.
func matches(pattern, text string) bool {
	re, err := regexp.Compile(pattern)
	return err != nil || re.MatchString(text)
}

func isTime(layout, text string) bool {
	_, err := time.Parse(layout, text)
	return err == nil
}

func checkRange(schema *jsonschema.Schema, number string) *EntityError {
	if schema.Minimum == nil && schema.Maximum == nil && schema.ExclusiveMinimum == nil && schema.ExclusiveMaximum == nil {
		return nil
	}
	n, _ := strconv.ParseFloat(number, 64) // out of range is ±Inf, which compares as it should
	switch {
	case schema.Minimum != nil && n < *schema.Minimum:
		return &EntityError{Want: fmt.Sprintf("at least %v", *schema.Minimum), Got: number}
	case schema.Maximum != nil && n > *schema.Maximum:
		return &EntityError{Want: fmt.Sprintf("at most %v", *schema.Maximum), Got: number}
	case schema.ExclusiveMinimum != nil && n <= *schema.ExclusiveMinimum:
		return &EntityError{Want: fmt.Sprintf("more than %v", *schema.ExclusiveMinimum), Got: number}
	case schema.ExclusiveMaximum != nil && n >= *schema.ExclusiveMaximum:
		return &EntityError{Want: fmt.Sprintf("less than %v", *schema.ExclusiveMaximum), Got: number}
	}
	return nil
}

// wrong is the error for a value that is not what schema wants.
func wrong(schema *jsonschema.Schema, value any) *EntityError {
	return &EntityError{Want: wants(schema), Got: describe(value)}
}

// wants describes what schema wants.
func wants(schema *jsonschema.Schema) string {
	switch {
	case schema.Const != nil:
		return fmt.Sprintf("%v", *schema.Const)
	case schema.Enum != nil:
		var options []string
		for _, option := range schema.Enum {
			options = append(options, fmt.Sprintf("%v", option))
		}
		return "one of " + strings.Join(options, ", ")
	}
	var names []string
	for _, name := range typesOf(schema) {
		if name != "null" {
			names = append(names, article(name))
		}
	}
	if len(names) == 0 {
		return "another value"
	}
	return strings.Join(names, " or ")
}

func article(name string) string {
	if strings.IndexByte("aio", name[0]) >= 0 {
		return "an " + name
	}
	return "a " + name
}
