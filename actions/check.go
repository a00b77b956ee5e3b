package actions

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"
)

// EntityError says which required entities a call lacks, or which entity does not fit the action's
// schema, and how. Its text contains the value; for logs use [EntityError.Fault].
type EntityError struct {
	Missing []string // in schema order; nil: an entity does not fit
	Path    string   // such as order.items[2].size
	Want    string
	Got     string

	place string   // Path with * for names that are not in the schema
	near  []string // given entities whose names differ from missing ones only in case
}

func (e *EntityError) Error() string {
	if e.Missing == nil {
		return fmt.Sprintf("entity %s: want %s, got %s", e.Path, e.Want, e.Got)
	}
	text := e.Fault()
	if len(e.near) > 0 {
		text += " (given: " + strings.Join(e.near, ", ") + "; names are case-sensitive)"
	}
	return text
}

// Fault says what was wanted and where, without anything that the model wrote: a name that is not
// in the schema becomes *.
func (e *EntityError) Fault() string {
	switch len(e.Missing) {
	case 0:
		return fmt.Sprintf("entity %s: want %s", cmp.Or(e.place, "*"), e.Want)
	case 1:
		return "missing required entity " + e.Missing[0]
	}
	return "missing required entities " + strings.Join(e.Missing, ", ")
}

// within prepends the name of the container to the path. named says that the schema has that name.
func (e *EntityError) within(name string, named bool) *EntityError {
	e.Path = join(name, e.Path)
	if !named {
		name = "*"
	}
	e.place = join(name, e.place)
	return e
}

// Check validates entities against the action's schema and returns a copy that is ready for
// [Action.Call]. It converts values where nothing is lost (the string "42" to a wanted integer, the
// number 42 to a wanted string), treats null as absent, and fills in defaults. Entities that are
// not in the schema are kept and are not a fault. Only the host values, which the bot fills in
// itself, are dropped, see [Provide].
//
// A required entity is missing if it is absent, null, blank, or a placeholder echoed from a prompt,
// such as <list>. 0 and false are values. Names are case-sensitive. A value that [Action.Call]
// could not decode into the action's Go type is also a fault. The error is an [*EntityError].
func (a *Action) Check(entities map[string]any) (map[string]any, error) {
	return a.check(entities, nil)
}

// CheckBefore validates entities as [Action.Check] does, before they are final. Strings for which
// later returns true will be replaced, possibly by another type, so they fit anything.
func (a *Action) CheckBefore(entities map[string]any, later func(text string) bool) error {
	_, err := a.check(entities, later)
	return err
}

func (a *Action) check(entities map[string]any, later func(string) bool) (map[string]any, error) {
	if err := a.missing(entities); err != nil {
		return nil, err
	}
	c := checker{root: a.Schema, later: later}
	checked, open, fault := c.fitObject(a.Schema, entities)
	if fault != nil {
		return nil, fault
	}
	for _, name := range open { // not final, so do not decode it yet
		delete(checked, name)
	}
	for _, h := range a.hosts { // the bot fills it in
		delete(checked, h.key)
	}
	if a.decodes != nil {
		if err := a.decodes(checked); err != nil {
			return nil, err
		}
	}
	return checked, nil
}

// missing finds the required entities that are missing.
func (a *Action) missing(entities map[string]any) error {
	var names []string
	for _, name := range a.Schema.Required {
		if value := entities[name]; isMissing(name, value) && !hasDefault(a.Schema, name) {
			names = append(names, name)
		}
	}
	if names == nil {
		return nil
	}
	fault := &EntityError{Missing: names}
	for _, given := range slices.Sorted(maps.Keys(entities)) {
		if slices.ContainsFunc(names, func(name string) bool { return given != name && strings.EqualFold(given, name) }) {
			fault.near = append(fault.near, given)
		}
	}
	return fault
}

// isMissing reports whether the value of a required entity counts as missing.
func isMissing(name string, value any) bool {
	switch value := value.(type) {
	case nil:
		return true
	case string:
		value = strings.TrimSpace(value)
		return value == "" || isPlaceholder(name, value)
	}
	return false
}

// isPlaceholder reports whether text is a placeholder from a prompt: the entity's name in angle
// brackets, or a generic word such as <value>.
func isPlaceholder(name, text string) bool {
	if !strings.HasPrefix(text, "<") || !strings.HasSuffix(text, ">") {
		return false
	}
	inner := strings.TrimSpace(strings.Trim(text, "<>"))
	return slices.ContainsFunc([]string{name, "value", "name", "text"}, func(word string) bool { return strings.EqualFold(inner, word) })
}

// defaults adds the defaults of properties that object lacks.
func (c *checker) defaults(schema *jsonschema.Schema, object map[string]any) {
	for name, property := range schema.Properties {
		if _, given := object[name]; given || property == nil || property.Default == nil {
			continue
		}
		if value, err := decodeNumbers(property.Default); err == nil {
			object[name] = value
		}
	}
}

// join joins two parts of a path.
func join(name, rest string) string {
	if rest == "" || rest[0] == '[' {
		return name + rest
	}
	return name + "." + rest
}

// describe describes a value for a fault and shortens it.
func describe(value any) string {
	switch value := value.(type) {
	case nil:
		return "null"
	case map[string]any:
		return "an object"
	case []any:
		return "an array"
	case string:
		return fmt.Sprintf("the string %q", short(value))
	case json.Number:
		return "the number " + short(value.String())
	default:
		return fmt.Sprintf("%v", value)
	}
}

// short truncates a long text.
func short(text string) string {
	const longest = 40
	if runes := []rune(text); len(runes) > longest {
		return string(runes[:longest]) + "…"
	}
	return text
}

// checker fits values to the part of JSON Schema that action schemas use: type, enum, const, the
// limits of numbers, strings and arrays, pattern, format date and date-time, properties, required,
// items, additionalProperties, allOf, anyOf, oneOf, default, and references within the schema. It
// ignores the rest.
type checker struct {
	root  *jsonschema.Schema
	later func(string) bool
	open  bool // later has returned true since this was reset
	exact bool // do not convert
	refs  int  // references followed so far, to stop cycles
}

// maxRefs limits the references that one check follows.
const maxRefs = 1000

// fit returns a copy of value converted to schema. A nil schema accepts anything. The path of an
// error is relative to value.
func (c *checker) fit(schema *jsonschema.Schema, value any) (any, *EntityError) {
	if schema = c.resolve(schema); schema == nil {
		return value, nil
	}
	if text, ok := value.(string); ok && c.later != nil && c.later(text) {
		c.open = true
		return value, nil
	}
	fitted, err := c.fitType(schema, value)
	if err != nil {
		return value, err
	}
	if err := checkLimits(schema, fitted); err != nil {
		return value, err
	}
	switch contents := fitted.(type) {
	case []any:
		fitted, err = c.fitItems(schema, contents)
	case map[string]any:
		fitted, _, err = c.fitObject(schema, contents)
	}
	if err != nil {
		return value, err
	}
	return c.fitChoices(schema, fitted)
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

// hasType reports whether schema allows a type. A schema without types allows all.
func hasType(schema *jsonschema.Schema, name string) bool {
	types := typesOf(schema)
	return types == nil || slices.Contains(types, name)
}

// fitType checks the type of value and converts it if nothing is lost.
func (c *checker) fitType(schema *jsonschema.Schema, value any) (any, *EntityError) {
	if schema.Type == "" && schema.Types == nil {
		return value, nil
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
		return value, nil
	}
	if !c.exact {
		if converted, ok := convert(schema, value); ok {
			return converted, nil
		}
	}
	return nil, wrong(schema, value)
}

// fitNumber checks a number. It writes a wanted integer without a fraction or exponent.
func (c *checker) fitNumber(schema *jsonschema.Schema, value any) (any, *EntityError) {
	number, ok := numberOf(value)
	if !ok {
		return nil, wrong(schema, value)
	}
	if hasType(schema, "number") {
		return value, nil
	}
	if hasType(schema, "integer") {
		if whole, ok := integer(number); ok {
			return json.Number(whole), nil
		}
	}
	if hasType(schema, "string") && !c.exact {
		return number, nil
	}
	return nil, wrong(schema, value)
}

// convert turns a string into a number or boolean, or a boolean into a string, if schema wants
// that.
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

// checkLimits checks a value of the right type against the rest of its schema.
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

// wantTime describes JSON Schema's date-time.
const wantTime = "an RFC 3339 date-time such as 2026-11-21T09:00:00Z"

// example is the first example of schema in words, or "".
func example(schema *jsonschema.Schema) string {
	if len(schema.Examples) == 0 {
		return ""
	}
	return fmt.Sprintf(", such as %v", schema.Examples[0])
}

// matches reports whether text matches. A pattern that Go cannot compile matches everything: that
// is not the text's fault.
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
	n, _ := strconv.ParseFloat(number, 64) // out of range is ±Inf, which compares correctly
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

// wrong is the error for a value that does not fit schema.
func wrong(schema *jsonschema.Schema, value any) *EntityError {
	return &EntityError{Want: wants(schema), Got: describe(value)}
}

// wants describes what schema accepts.
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

func (c *checker) fitItems(schema *jsonschema.Schema, list []any) (any, *EntityError) {
	fitted := make([]any, len(list))
	for i, item := range list {
		var err *EntityError
		if fitted[i], err = c.fit(schema.Items, item); err != nil {
			return nil, err.within("["+strconv.Itoa(i)+"]", true)
		}
	}
	return fitted, nil
}

// fitObject fits an object and returns the names of the properties that are not final. Extra
// properties are kept even where schema forbids them. If null can only mean "absent", the property
// is left out: models that must name every property write null.
func (c *checker) fitObject(schema *jsonschema.Schema, object map[string]any) (fitted map[string]any, open []string, fault *EntityError) {
	for _, name := range schema.Required {
		if _, given := object[name]; !given && !hasDefault(schema, name) {
			return nil, nil, (&EntityError{Want: "a value", Got: "none"}).within(name, true)
		}
	}
	before := c.open
	fitted = make(map[string]any, len(object))
	for name, value := range object {
		if value == nil && nullIsAbsent(schema, name) {
			continue
		}
		property, named := schema.Properties[name]
		if property == nil {
			property = additional(schema)
		}
		c.open = false
		var err *EntityError
		if fitted[name], err = c.fit(property, value); err != nil {
			err = err.within(name, named)
			if fault == nil || err.Path < fault.Path {
				fault = err // report the same one each time, whatever the map order
			}
		}
		if c.open {
			open, before = append(open, name), true
		}
	}
	c.open = before
	c.defaults(schema, fitted)
	return fitted, open, fault
}

// nullIsAbsent reports whether null means that a property is absent: it has a default, or it is
// optional and does not allow null.
func nullIsAbsent(schema *jsonschema.Schema, name string) bool {
	property := schema.Properties[name]
	return property != nil && (property.Default != nil ||
		!slices.Contains(schema.Required, name) && !slices.Contains(typesOf(property), "null"))
}

func hasDefault(schema *jsonschema.Schema, name string) bool {
	property := schema.Properties[name]
	return property != nil && property.Default != nil
}

// additional returns the schema of properties that have none of their own. nil: anything is
// allowed, or nothing.
func additional(schema *jsonschema.Schema) *jsonschema.Schema {
	if more := schema.AdditionalProperties; more != nil && more.Not == nil {
		return more
	}
	return nil
}

// fitChoices fits value to all of allOf, and to one option each of anyOf and oneOf.
func (c *checker) fitChoices(schema *jsonschema.Schema, value any) (any, *EntityError) {
	var err *EntityError
	for _, part := range schema.AllOf {
		if value, err = c.fit(part, value); err != nil {
			return nil, err
		}
	}
	for _, options := range [...][]*jsonschema.Schema{schema.AnyOf, schema.OneOf} {
		if options == nil {
			continue
		}
		if value, err = c.fitOne(options, value); err != nil {
			return nil, err
		}
	}
	return value, nil
}

// fitOne fits value to the first option that accepts it unconverted, or else to the first that
// accepts it converted.
func (c *checker) fitOne(options []*jsonschema.Schema, value any) (any, *EntityError) {
	was := c.exact
	defer func() { c.exact = was }()
	nearest := &EntityError{Want: "nothing", Got: describe(value)}
	for i, option := range slices.Concat(options, options) {
		c.exact = was || i < len(options)
		fitted, err := c.fit(option, value)
		if err == nil {
			return fitted, nil
		}
		if i == 0 || len(err.Path) > len(nearest.Path) {
			nearest = err
		}
	}
	return nil, nearest
}

// numberOf returns the text of a number of any Go type that JSON values have.
func numberOf(value any) (string, bool) {
	switch value := value.(type) {
	case json.Number:
		return value.String(), isNumber(value.String())
	case float64:
		return strconv.FormatFloat(value, 'g', -1, 64), true
	case int:
		return strconv.Itoa(value), true
	case int64:
		return strconv.FormatInt(value, 10), true
	}
	return "", false
}

// isNumber reports whether text is a JSON number.
func isNumber(text string) bool {
	if text == "" || text[0] != '-' && (text[0] < '0' || text[0] > '9') {
		return false
	}
	return json.Valid([]byte(text))
}

// maxExponent limits the numbers that are written out in full.
const maxExponent = 300

// exact parses a number without losing digits.
func exact(text string) (*big.Rat, bool) {
	if at := strings.IndexAny(text, "eE"); at >= 0 {
		exponent, err := strconv.Atoi(text[at+1:])
		if err != nil || exponent < -maxExponent || exponent > maxExponent {
			return nil, false
		}
	}
	return new(big.Rat).SetString(text)
}

// integer writes a whole number without a fraction or exponent: 4.0 becomes 4, 1.5e3 becomes 1500.
// It keeps every digit, however long the number.
func integer(text string) (string, bool) {
	if !strings.ContainsAny(text, ".eE") {
		return text, true
	}
	n, ok := exact(text)
	if !ok || !n.IsInt() {
		return "", false
	}
	return n.Num().String(), true
}

// same reports whether an option of a schema and a value are the same JSON value.
func same(option, value any) bool {
	a, isNumber := numberOf(option)
	b, number := numberOf(value)
	if !isNumber || !number {
		return isNumber == number && reflect.DeepEqual(option, value)
	}
	x, okX := exact(a)
	y, okY := exact(b)
	return okX && okY && x.Cmp(y) == 0
}
