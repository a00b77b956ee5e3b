package actions

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/planbot-go/planbot/internal/spelling"
)

// EntityError says which required entities a call lacks, or which entity does not fit the action's
// schema, and how. Its text contains the value; for logs use [EntityError.Fault].
type EntityError struct {
	Missing []string // in schema order; nil: an entity does not fit
	Path    string   // such as order.items.2.size
	Want    string
	Got     string

	place string // Path with * for names that are not in the schema
}

func (e *EntityError) Error() string {
	if e.Missing != nil {
		return e.Fault()
	}
	if e.Path == "" { // a rule about all of them together
		return fmt.Sprintf("the entities: want %s, got %s", e.Want, e.Got)
	}
	return fmt.Sprintf("entity %s: want %s, got %s", e.Path, e.Want, e.Got)
}

// Fault says what was wanted and where, without anything that the model wrote: a name that is not
// in the schema becomes *.
func (e *EntityError) Fault() string {
	switch len(e.Missing) {
	case 0:
		if e.Path == "" {
			return "the entities: want " + e.Want
		}
		return fmt.Sprintf("entity %s: want %s", cmp.Or(e.place, "*"), e.Want)
	case 1:
		return "missing required entity " + e.Missing[0]
	}
	return "missing required entities " + strings.Join(e.Missing, ", ")
}

// Check validates entities against the action's schema and returns a copy that is ready for
// [Action.Call]. It converts values where nothing is lost (the string "42" to a wanted integer, the
// number 42 to a wanted string), leaves out each optional null that is no value, see
// [Action.NullIsValue], and fills in defaults. Entities that are not in the schema are kept and are not
// a fault. Only the host values, which the bot fills in itself, are dropped, see [Provide].
//
// A required entity is missing if it is absent, null, blank, or a placeholder echoed from a prompt,
// such as <list>. 0 and false are values. To another service all of these are values if its schema allows
// them, see [Action.Doubtful]. Names are case-sensitive. A value that [Action.Call] could not decode into
// the action's Go type is also a fault. The error is an [*EntityError].
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
	schema, err := a.compiled()
	if err != nil {
		return nil, fmt.Errorf("action %s: %w", a.Name, err)
	}
	if names := a.missing(schema, entities); names != nil {
		return nil, &EntityError{Missing: names}
	}
	c := checker{later: later, strict: a.Source.Connection != "", nulls: a.NullIsValue()}
	checked, _ := c.fit(schema, entities, make([]string, 0, 4)).(map[string]any)
	if wrong, ok := errors.AsType[*jsonschema.ValidationError](schema.Validate(checked)); ok {
		if wrong = c.first(wrong); wrong != nil {
			return nil, explain(schema, wrong, checked)
		}
	}
	for _, place := range c.open { // not final, so do not decode it yet
		delete(checked, place[0])
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

// checkReturned compares the result with what the action declares. The error has no value of the
// result in it. Results that say why there is nothing to return are not compared.
func (a *Action) checkReturned(r *Result) error {
	if a.returned == nil || r.failed || r.unchanged {
		return nil
	}
	schema, err := a.returned()
	if err != nil {
		return err
	}
	value, err := r.Value()
	if err != nil {
		return err
	}
	if wrong, ok := errors.AsType[*jsonschema.ValidationError](schema.Validate(value)); ok {
		if wrong = (&checker{}).first(wrong); wrong != nil {
			fault := explain(schema, wrong, value)
			return fmt.Errorf("its result does not match what it Returns: at %s: want %s", cmp.Or(fault.place, "the top"), fault.Want)
		}
	}
	if object, ok := value.(map[string]any); ok {
		for name := range a.Returns.Properties {
			if _, has := object[name]; !has {
				r.absent = append(r.absent, name)
			}
		}
	}
	return nil
}

// NullIsValue reports whether a null that the schema allows is a value, and not the same as no value: the
// action gets the entities as they are. In the Go struct of [Add] nobody can tell the two apart.
func (a *Action) NullIsValue() bool { return a.decodes == nil }

// Doubtful reports whether some required entity of a call is null, blank or a placeholder from a prompt.
// Models write these when they know no value. The schema of another service may want them all the same, so
// such a call is made, and counts as [Call.Salvaged].
func (a *Action) Doubtful(entities map[string]any) bool {
	if a.Source.Connection == "" {
		return false
	}
	schema, err := a.compiled()
	return err == nil && (&checker{}).doubtful(schema, entities)
}

// doubtful looks for required values that say nothing, also within objects.
func (c *checker) doubtful(s *jsonschema.Schema, value any) bool {
	if c.parts++; s == nil || c.parts > maxParts {
		return false
	}
	switch value := value.(type) {
	case []any:
		if slices.ContainsFunc(value, func(item any) bool { return c.doubtful(itemsOf(s), item) }) {
			return true
		}
	case map[string]any:
		for name, item := range value {
			if slices.Contains(s.Required, name) && SaysNothing(name, item) || c.doubtful(propertyOf(s, name), item) {
				return true
			}
		}
	default:
		return false
	}
	parts := slices.Concat(s.AllOf, s.AnyOf, s.OneOf, []*jsonschema.Schema{s.Ref})
	return slices.ContainsFunc(parts, func(part *jsonschema.Schema) bool { return c.doubtful(part, value) })
}

// missing finds the required entities that are missing. What another service requires is missing only if it
// is absent, or null although its schema has no null.
func (a *Action) missing(schema *jsonschema.Schema, entities map[string]any) (names []string) {
	for _, name := range a.Schema.Required {
		value, given := entities[name]
		absent := SaysNothing(name, value)
		if a.Source.Connection != "" {
			absent = !given || value == nil && !takesNull(schema.Properties[name])
		}
		property := a.Schema.Properties[name]
		if absent && (property == nil || property.Default == nil) {
			names = append(names, name)
		}
	}
	return names
}

// SaysNothing reports whether a value is null, blank or a placeholder from a prompt: the entity's name in
// angle brackets or a word such as <value>.
func SaysNothing(name string, value any) bool {
	text, isText := value.(string)
	text = strings.TrimSpace(text)
	if value == nil || isText && text == "" {
		return true
	}
	inner := strings.TrimSpace(strings.Trim(text, "<>"))
	return strings.HasPrefix(text, "<") && strings.HasSuffix(text, ">") &&
		slices.ContainsFunc([]string{name, "value", "name", "text"}, func(word string) bool { return strings.EqualFold(inner, word) })
}

// compile prepares a schema for checks, once. It refuses references to other documents.
func compile(schema any) func() (*jsonschema.Schema, error) {
	return sync.OnceValues(func() (*jsonschema.Schema, error) {
		const name = "action:///schema"
		raw, err := json.Marshal(schema)
		if err != nil {
			return nil, err
		}
		tree, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
		if err != nil {
			return nil, err
		}
		c := jsonschema.NewCompiler()
		c.UseLoader(jsonschema.SchemeURLLoader{})
		c.AssertFormat()
		for _, name := range ignoredFormats {
			c.RegisterFormat(&jsonschema.Format{Name: name, Validate: func(any) error { return nil }})
		}
		c.AssertContent()
		if err := c.AddResource(name, tree); err != nil {
			return nil, err
		}
		return c.Compile(name)
	})
}

// ignoredFormats are not checked: only dates and times have one form.
var ignoredFormats = []string{
	"json-pointer", "relative-json-pointer", "uuid", "duration", "period", "ipv4", "ipv6", "hostname", "email", "time",
	"uri", "iri", "uri-reference", "iri-reference", "uri-template", "semver",
}

// checker converts the entities of a call to what their schema wants.
type checker struct {
	later  func(string) bool
	strict bool       // unknown entities are faults, if the schema says so: they would be sent to another service
	nulls  bool       // a null that the schema allows is a value
	open   [][]string // the places of texts that are not final
	parts  int        // parts of schemas followed so far, to stop cycles
}

const maxParts = 1000 // limits the references and alternatives that one check follows

// fit returns a copy of value, converted where nothing is lost, without nulls that mean absent, and
// with defaults. It does not say whether the value fits. at is the place of value in the entities.
func (c *checker) fit(s *jsonschema.Schema, value any, at []string) any {
	if s == nil || s.Bool != nil {
		return value
	}
	if text, ok := value.(string); ok && c.later != nil && c.later(text) {
		c.open = append(c.open, slices.Clone(at))
		return value
	}
	switch contents := convert(s, value).(type) {
	case []any:
		list := make([]any, len(contents))
		for i, item := range contents {
			list[i] = c.fit(itemsOf(s), item, append(at, strconv.Itoa(i)))
		}
		value = list
	case map[string]any:
		object := make(map[string]any, len(contents))
		for name, property := range s.Properties {
			if property.Default != nil && *property.Default != nil {
				object[name] = c.fit(property, *property.Default, append(at, name))
			}
		}
		for name, item := range contents {
			if property := propertyOf(s, name); item != nil || !c.nullIsAbsent(s, name) {
				object[name] = c.fit(property, item, append(at, name))
			}
		}
		value = object
	default:
		value = contents
	}
	parts := s.AllOf
	if s.Ref != nil {
		parts = slices.Concat(parts, []*jsonschema.Schema{s.Ref})
	}
	for _, part := range parts {
		if c.parts++; c.parts < maxParts {
			value = c.fit(part, value, at)
		}
	}
	return c.fitOne(s.OneOf, c.fitOne(s.AnyOf, value, at), at)
}

// fitOne fits value to the first option that accepts it unconverted, or else to the first that
// accepts it converted.
func (c *checker) fitOne(options []*jsonschema.Schema, value any, at []string) any {
	accepts := func(s *jsonschema.Schema, value any) bool {
		wrong, ok := s.Validate(value).(*jsonschema.ValidationError) //nolint:errorlint // it returns no other
		return !ok || (&checker{strict: c.strict}).first(wrong) == nil
	}
	if i := slices.IndexFunc(options, func(s *jsonschema.Schema) bool { return accepts(s, value) }); i >= 0 {
		options = options[i : i+1]
	}
	for _, option := range options {
		if c.parts++; c.parts >= maxParts {
			break
		}
		if fitted := c.fit(option, value, at); accepts(option, fitted) {
			return fitted
		}
	}
	return value
}

// itemsOf is the schema of each item of a list; nil: anything.
func itemsOf(s *jsonschema.Schema) *jsonschema.Schema {
	if items, ok := s.Items.(*jsonschema.Schema); ok { // up to draft 2019-09
		return items
	}
	return s.Items2020
}

// propertyOf is the schema of what an object holds under a name; nil: anything, or nothing.
func propertyOf(s *jsonschema.Schema, name string) *jsonschema.Schema {
	if property := s.Properties[name]; property != nil {
		return property
	}
	more, _ := s.AdditionalProperties.(*jsonschema.Schema)
	return more
}

// nullIsAbsent reports whether null means that a property is absent: it is optional or has a default, and
// null is no value of it. Models that must name every property write null.
func (c *checker) nullIsAbsent(s *jsonschema.Schema, name string) bool {
	property := s.Properties[name]
	optional := property != nil && (property.Default != nil || !slices.Contains(s.Required, name))
	return optional && !(c.nulls && takesNull(property))
}

// takesNull reports whether null fits a schema, in whichever of its many forms that is said.
func takesNull(s *jsonschema.Schema) bool { return s == nil || s.Validate(nil) == nil }

func allows(s *jsonschema.Schema, kind string) bool {
	return s.Types != nil && slices.Contains(s.Types.ToStrings(), kind)
}

// convert converts numbers, strings and booleans into each other if s wants that and nothing is
// lost. A number too large to compute with becomes a string, which fits no number's schema.
func convert(s *jsonschema.Schema, value any) any {
	switch v := value.(type) {
	case bool:
		if allows(s, "string") && !allows(s, "boolean") {
			return strconv.FormatBool(v)
		}
	case json.Number:
		n, ok := new(big.Rat).SetString(number.FindString(v.String()))
		switch {
		case ok && allows(s, "number"):
		case ok && allows(s, "integer") && n.IsInt():
			return json.Number(n.Num().String()) // 4.0 becomes 4, 1.5e3 becomes 1500
		case !ok || allows(s, "string"):
			return v.String()
		}
	case string:
		text := strings.ToLower(strings.TrimSpace(v))
		switch {
		case allows(s, "string"):
		case allows(s, "boolean") && (text == "true" || text == "false"):
			return text == "true"
		case (allows(s, "number") || allows(s, "integer")) && number.MatchString(text):
			return convert(s, json.Number(text))
		}
	}
	return value
}

// number matches a number in JSON that is not too large to compute with.
var number = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]{1,3})?$`)

// first returns the first fault in e by its place, or nil. Texts that are not final are no faults, and unknown
// entities only if c is strict.
func (c *checker) first(e *jsonschema.ValidationError) (first *jsonschema.ValidationError) {
	oneIsEnough := false
	switch e.ErrorKind.(type) {
	case *kind.AdditionalProperties:
		if !c.strict {
			return nil
		}
	case *kind.AnyOf, *kind.OneOf:
		oneIsEnough = true
	case *kind.PropertyNames: // its causes are about the name, and stand where the object does
		return e
	}
	if len(e.Causes) == 0 && !slices.ContainsFunc(c.open, func(place []string) bool {
		return len(place) <= len(e.InstanceLocation) && slices.Equal(place, e.InstanceLocation[:len(place)])
	}) {
		return e
	}
	for _, cause := range e.Causes {
		fault := c.first(cause)
		if fault == nil && oneIsEnough {
			return nil
		}
		if first == nil || fault != nil && slices.Compare(fault.InstanceLocation, first.InstanceLocation) < 0 {
			first = fault
		}
	}
	return first
}

// explain says what is wrong with the entities.
func explain(s *jsonschema.Schema, e *jsonschema.ValidationError, entities any) *EntityError {
	fault := locate(s, entities, e.InstanceLocation)
	var want []string
	switch k := e.ErrorKind.(type) {
	case *kind.Required:
		fault = locate(s, entities, append(e.InstanceLocation, k.Missing[0]))
		fault.Want, fault.Got = "a value", "none"
	case *kind.AdditionalProperties:
		fault = locate(s, entities, append(e.InstanceLocation, slices.Min(k.Properties)))
		fault.Want = "nothing, since there is no such entity"
	case *kind.Enum:
		for i, option := range k.Want {
			if i == maxOptions {
				want = append(want, fmt.Sprintf("%d more values", len(k.Want)-i))
				break
			}
			want = append(want, spelling.OneLine(fmt.Sprint(option), maxOption))
		}
		fault.Want = "one of " + strings.Join(want, ", ")
	case *kind.Type:
		for _, name := range k.Want {
			switch name {
			case "array", "integer", "object":
				want = append(want, "an "+name)
			case "boolean", "number", "string":
				want = append(want, "a "+name)
			}
		}
		fault.Want = strings.Join(want, " or ")
	case *kind.DependentRequired:
		fault.Want = fmt.Sprintf("%s, because %s is given", strings.Join(k.Missing, " and "), k.Prop)
	case *kind.MinProperties:
		fault.Want = fmt.Sprintf("at least %d entities of those in its schema", k.Want)
	case *kind.MaxProperties:
		fault.Want = fmt.Sprintf("at most %d entities", k.Want)
	case *kind.PropertyNames:
		fault = locate(s, entities, append(e.InstanceLocation, k.Property))
		fault.Want = "an entity of another name"
		for _, cause := range e.Causes {
			fault.Want += ": " + explain(s, cause, entities).Want
		}
	case *kind.UniqueItems:
		fault.Want = "no value twice"
	case *kind.Contains:
		fault.Want = "another value in the list"
	case *kind.OneOf:
		fault.Want = "only one of the alternatives"
		if len(k.Subschemas) == 0 {
			fault.Want = "one of the alternatives"
		}
		fault.Want += alternatives(s, e)
	case *kind.AnyOf:
		fault.Want = "one of the alternatives" + alternatives(s, e)
	case *kind.Not:
		fault.Want = "other entities" + forbidden(s, e)
	default: // such as maximum 100
		var limit struct{ Want any }
		if raw, err := json.Marshal(k); err == nil {
			_ = json.Unmarshal(raw, &limit)
		}
		fault.Want = cmp.Or(strings.Join(k.KeywordPath(), " "), "another value")
		if limit.Want != nil {
			fault.Want += " " + decimal(fmt.Sprint(limit.Want))
		}
		if limit.Want == "date-time" {
			fault.Want += ", such as 2026-11-21T09:00:00Z"
		}
	}
	return fault
}

// decimal writes a fraction, which the library has for a limit such as 0.5, as people write it.
func decimal(text string) string {
	fraction, ok := new(big.Rat).SetString(text)
	if !ok || !strings.Contains(text, "/") {
		return text
	}
	n, _ := fraction.Float64()
	return strconv.FormatFloat(n, 'g', -1, 64)
}

// rootOf is the schema whose rule a value breaks, if it is that of the whole call.
func rootOf(s *jsonschema.Schema, e *jsonschema.ValidationError) *jsonschema.Schema {
	if len(e.InstanceLocation) > 0 {
		return &jsonschema.Schema{}
	}
	for n := 0; s.Ref != nil && n < maxParts; n++ {
		s = s.Ref
	}
	return s
}

// alternatives names what each of some alternatives requires.
func alternatives(s *jsonschema.Schema, e *jsonschema.ValidationError) string {
	var sets []string
	for _, option := range slices.Concat(rootOf(s, e).OneOf, rootOf(s, e).AnyOf) {
		if len(option.Required) > 0 {
			sets = append(sets, strings.Join(option.Required, " and "))
		}
	}
	if sets == nil {
		return ""
	}
	return ": " + strings.Join(sets, ", or ")
}

// forbidden names what may not be given together.
func forbidden(s *jsonschema.Schema, e *jsonschema.ValidationError) string {
	if not := rootOf(s, e).Not; not != nil && len(not.Required) > 0 {
		return ": not " + strings.Join(not.Required, " and ") + " at the same time"
	}
	return ""
}

// maxOptions is how many values a fault names that would do, and maxOption how many characters of each.
const maxOptions, maxOption = 50, 100

// locate follows the steps of a path to a value.
func locate(s *jsonschema.Schema, value any, steps []string) *EntityError {
	place := slices.Clone(steps)
	for i, step := range steps {
		for n := 0; s != nil && s.Ref != nil && n < maxParts; n++ {
			s = s.Ref
		}
		if s == nil {
			s = &jsonschema.Schema{}
		}
		switch holder := value.(type) {
		case []any:
			n, _ := strconv.Atoi(step)
			s, value = itemsOf(s), holder[n]
		case map[string]any:
			if s.Properties[step] == nil {
				place[i] = "*"
			}
			s, value = propertyOf(s, step), holder[step]
		}
	}
	return &EntityError{Path: strings.Join(steps, "."), place: strings.Join(place, "."), Got: describe(value)}
}

// describe says in a few words what a value is.
func describe(value any) string {
	switch value := value.(type) {
	case nil:
		return "null"
	case map[string]any:
		return "an object"
	case []any:
		return "an array"
	case string:
		return fmt.Sprintf("the string %q", spelling.Clip(value))
	case json.Number:
		return "the number " + spelling.Clip(value.String())
	default:
		return fmt.Sprintf("%v", value)
	}
}
