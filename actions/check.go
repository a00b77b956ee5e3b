package actions

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// MissingError says which required entities a call lacks.
type MissingError struct {
	Names []string // in the order of the schema
	Near  []string // entities given whose names differ only in case
}

func (e *MissingError) Error() string {
	text := "missing required " + plural("entity", "entities", len(e.Names)) + " " + strings.Join(e.Names, ", ")
	if len(e.Near) > 0 {
		text += " (given: " + strings.Join(e.Near, ", ") + "; names are case-sensitive)"
	}
	return text
}

// EntityError says which entity does not fit the action's schema, and how. Its
// text holds the value; [EntityError.Fault] is the form for logs.
type EntityError struct {
	Path string // as in order.items[2].size
	Want string
	Got  string

	place string // Path without what the schema does not name
}

func (e *EntityError) Error() string {
	return fmt.Sprintf("entity %s: want %s, got %s", e.Path, e.Want, e.Got)
}

// Fault says what was wanted and where, with nothing that the model wrote: a name
// that the schema does not have is a *.
func (e *EntityError) Fault() string {
	return fmt.Sprintf("entity %s: want %s", cmp.Or(e.place, "*"), e.Want)
}

// within puts the name of what holds the value before the path.
func (e *EntityError) within(name string) *EntityError {
	e.Path, e.place = join(name, e.Path), join(name, e.place)
	return e
}

// withinUnnamed is within, for a name that the schema does not have.
func (e *EntityError) withinUnnamed(name string) *EntityError {
	e.Path, e.place = join(name, e.Path), join("*", e.place)
	return e
}

// Check checks entities against the action's schema and returns a copy that is
// ready for [Action.Call]: values are converted where nothing is lost by it (the
// string "42" where an integer is wanted, the number 42 where a string is), null
// counts as absent, and defaults are filled in. Entities that the schema does not
// know are kept and are no fault, but for those that the bot fills in itself,
// see [Provide], which are dropped.
//
// A required entity is missing when it is absent, null, blank, or a placeholder
// such as <list> echoed from a prompt; 0 and false are values. Names are
// case-sensitive. What [Action.Call] could not decode into the action's Go type does
// not fit either. The error is a [*MissingError], else an [*EntityError].
func (a *Action) Check(entities map[string]any) (map[string]any, error) {
	if err := a.missing(entities); err != nil {
		return nil, err
	}
	c := checker{root: a.Schema, build: true}
	checked, err := c.entities(entities)
	if err != nil {
		return nil, err
	}
	if err := a.tryDecode(checked); err != nil {
		return nil, err
	}
	return checked, nil
}

// tryDecode takes out what the bot fills in itself, and finds what cannot be
// decoded.
func (a *Action) tryDecode(checked map[string]any) error {
	for _, h := range a.hosts {
		delete(checked, h.key)
	}
	if a.decodes == nil {
		return nil
	}
	return a.decodes(checked)
}

// CheckBefore checks entities as [Action.Check] does, before they are final:
// strings for which later returns true will be replaced, so any type may come of
// them. A nil later is never true.
func (a *Action) CheckBefore(entities map[string]any, later func(text string) bool) error {
	if err := a.missing(entities); err != nil {
		return err
	}
	c := checker{root: a.Schema, later: later, build: a.decodes != nil}
	checked, err := c.entities(entities)
	if err != nil {
		return err
	}
	return a.tryDecode(checked)
}

// missing finds the required entities that are not there.
func (a *Action) missing(entities map[string]any) error {
	var names []string
	for _, name := range a.Schema.Required {
		if property := a.Schema.Properties[name]; property != nil && property.Default != nil {
			continue
		}
		if value, ok := entities[name]; !ok || isMissing(name, value) {
			names = append(names, name)
		}
	}
	if names == nil {
		return nil
	}
	return &MissingError{Names: names, Near: near(names, entities)}
}

// near returns the entities whose names differ from the missing ones in case.
func near(missing []string, entities map[string]any) []string {
	var found []string
	for _, given := range slices.Sorted(maps.Keys(entities)) {
		if slices.ContainsFunc(missing, func(name string) bool { return given != name && strings.EqualFold(given, name) }) {
			found = append(found, given)
		}
	}
	return found
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

// isPlaceholder reports whether text is what a prompt writes in the place of an
// entity: its own name in angle brackets, or one of the words of all prompts.
func isPlaceholder(name, text string) bool {
	inner, ok := strings.CutPrefix(text, "<")
	if !ok {
		return false
	}
	if inner, ok = strings.CutSuffix(inner, ">"); !ok {
		return false
	}
	inner = strings.TrimSpace(inner)
	for _, word := range [...]string{name, "value", "name", "text"} {
		if strings.EqualFold(inner, word) {
			return true
		}
	}
	return false
}

// entities checks the entities of a call. Unlike in the objects within them, null
// counts as absent though they are required. The copy is without those in which
// something is not final.
func (c *checker) entities(entities map[string]any) (map[string]any, *EntityError) {
	var checked map[string]any
	if c.build {
		checked = make(map[string]any, len(entities))
	}
	var fault *EntityError
	for name, value := range entities {
		property := c.root.Properties[name]
		if value == nil && nullIsAbsent(c.root, name) {
			continue
		}
		c.open = false
		fitted, _, err := c.fit(property, value)
		if err != nil {
			err = err.within(name)
			if fault == nil || err.Path < fault.Path {
				fault = err // the same one each time, whatever the order of the map
			}
		}
		if c.build && !c.open {
			checked[name] = fitted
		}
	}
	if fault != nil {
		return nil, fault
	}
	c.defaults(c.root, checked)
	return checked, nil
}

// defaults fills in the defaults of what object does not have.
func (c *checker) defaults(schema *jsonschema.Schema, object map[string]any) {
	if !c.build {
		return
	}
	for name, property := range schema.Properties {
		if _, given := object[name]; given || property == nil || property.Default == nil {
			continue
		}
		if value, err := decodeNumbers(property.Default); err == nil {
			object[name] = value
		}
	}
}

// join puts the parts of a path together.
func join(name, rest string) string {
	if rest == "" || rest[0] == '[' {
		return name + rest
	}
	return name + "." + rest
}

func plural(one, many string, n int) string {
	if n == 1 {
		return one
	}
	return many
}

// describe shows a value in a fault, cut short.
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

// short cuts a longer text.
func short(text string) string {
	const longest = 40
	if runes := []rune(text); len(runes) > longest {
		return string(runes[:longest]) + "…"
	}
	return text
}
