package actions

import (
	"cmp"
	"encoding"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/jsonschema-go/jsonschema"
	validator "github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/planbot-go/planbot/internal/plainjson"
	"github.com/planbot-go/planbot/internal/spelling"
	"github.com/planbot-go/planbot/internal/titles"
)

// schemaFor derives the schema of the entities from the type In with google/jsonschema-go. It adds
// enum and default, for which that library has no tags.
func schemaFor[In any]() (*jsonschema.Schema, error) {
	t := reflect.TypeFor[In]()
	if t.Kind() != reflect.Struct {
		return nil, fmt.Errorf("entities are a struct, not %s", t)
	}
	if readsItself(t) {
		return nil, fmt.Errorf("%s reads its JSON itself, so its fields say nothing of it", t)
	}
	t = shown(t)
	types := map[reflect.Type]*jsonschema.Schema{}
	survey(t, types, map[reflect.Type]bool{})
	schema, err := jsonschema.ForType(t, &jsonschema.ForOptions{TypeSchemas: types})
	if err != nil {
		return nil, err
	}
	return schema, annotate(schema, t)
}

// returnsFor derives the schema of a result from its type, as encoding/json writes it.
func returnsFor[Out any]() (*jsonschema.Schema, error) {
	t := reflect.TypeFor[Out]()
	types := map[reflect.Type]*jsonschema.Schema{}
	survey(t, types, map[reflect.Type]bool{})
	delete(types, reflect.TypeFor[time.Duration]()) // a number
	schema, err := jsonschema.ForType(t, &jsonschema.ForOptions{TypeSchemas: types})
	if err == nil && t.Kind() == reflect.Struct && schema.Type == "object" {
		err = annotate(schema, t)
	}
	return schema, err
}

// annotate adds the title, enum, labels, limits and default tags of struct t to its schema.
func annotate(schema *jsonschema.Schema, t reflect.Type) error {
	for field := range fields(t) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if err := annotateField(schema, cmp.Or(name, field.Name), field); err != nil {
			return fmt.Errorf("field %s: %w", field.Name, err)
		}
	}
	return nil
}

func annotateField(schema *jsonschema.Schema, name string, field reflect.StructField) error {
	if _, ok := field.Tag.Lookup(hostTag); ok {
		return errors.New("only a field of the entities themselves can have a host value")
	}
	options, hasOptions := field.Tag.Lookup("enum")
	labels, hasLabels := field.Tag.Lookup("labels")
	value, hasDefault := field.Tag.Lookup("default")
	hasLimits := slices.ContainsFunc(limits, func(limit string) bool {
		_, ok := field.Tag.Lookup(limit)
		return ok
	})
	property := schema.Properties[name]
	if property == nil || field.Anonymous {
		if hasOptions || hasLabels || hasDefault || hasLimits {
			return errors.New("it is no entity, so it can have no enum, no labels, no limits and no default")
		}
		return nil
	}
	property.Title = field.Tag.Get("title")
	element, t := innermost(property, field.Type)
	if hasLimits {
		if err := limit(element, field.Tag); err != nil {
			return err
		}
	}
	if hasOptions {
		for option := range strings.SplitSeq(options, ",") {
			value, err := readTag(element, t, strings.TrimSpace(option))
			if err != nil {
				return fmt.Errorf("enum: %w", err)
			}
			element.Enum = append(element.Enum, value)
		}
	}
	if hasLabels {
		if err := label(property, element, strings.Split(labels, ",")); err != nil {
			return fmt.Errorf("labels: %w", err)
		}
	}
	if t.Kind() == reflect.Struct {
		if err := annotate(element, t); err != nil {
			return err
		}
	}
	if !hasDefault {
		return nil
	}
	schema.Required = slices.DeleteFunc(schema.Required, func(r string) bool { return r == name })
	fallback, err := readTag(property, field.Type, value)
	if err != nil {
		return fmt.Errorf("default: %w", err)
	}
	list, isList := fallback.([]any)
	if !isList {
		list = []any{fallback}
	}
	for _, one := range list {
		if element.Enum != nil && !slices.Contains(element.Enum, one) {
			return fmt.Errorf("default: %v is not in the enum", one)
		}
		if hasLimits {
			if err := within(element, one); err != nil {
				return fmt.Errorf("default: %v is not within the limits: %w", one, err)
			}
		}
	}
	property.Default, err = plainjson.Marshal(fallback)
	return err
}

// limits are the tags that limit a value, with the names that JSON Schema has for them.
var limits = []string{"minimum", "maximum", "minLength", "maxLength", "pattern"}

// limit adds those of a field to the schema of its values.
func limit(element *jsonschema.Schema, tag reflect.StructTag) error {
	is := func(types ...string) bool {
		return slices.ContainsFunc(types, func(t string) bool { return element.Type == t || slices.Contains(element.Types, t) })
	}
	for _, name := range limits {
		text, ok := tag.Lookup(name)
		if !ok {
			continue
		}
		numeric := name == "minimum" || name == "maximum"
		switch {
		case numeric && !is("integer", "number"):
			return fmt.Errorf("%s: it is no number", name)
		case !numeric && !is("string"):
			return fmt.Errorf("%s: it is no text", name)
		case !numeric && element.Pattern != "", !numeric && element.Format != "":
			return fmt.Errorf("%s: its type has a form of its own", name)
		}
		if err := setLimit(element, name, strings.TrimSpace(text)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if element.Minimum != nil && element.Maximum != nil && *element.Minimum > *element.Maximum {
		return errors.New("minimum: it is above the maximum")
	}
	if element.MinLength != nil && element.MaxLength != nil && *element.MinLength > *element.MaxLength {
		return errors.New("minLength: it is above maxLength")
	}
	return nil
}

func setLimit(element *jsonschema.Schema, name, text string) error {
	if name == "pattern" {
		element.Pattern = text
		_, err := regexp.Compile(text)
		return err
	}
	if name == "minLength" || name == "maxLength" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return fmt.Errorf("%q is no length", text)
		}
		if name == "minLength" {
			element.MinLength = &n
		} else {
			element.MaxLength = &n
		}
		return nil
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
		return fmt.Errorf("%q is no number", text)
	}
	if name == "minimum" {
		element.Minimum = &n
	} else {
		element.Maximum = &n
	}
	return nil
}

// within says how a value breaks the limits of its schema.
func within(element *jsonschema.Schema, value any) error {
	compiled, err := compile(element)()
	if err != nil {
		return err
	}
	if fault := compiled.Validate(value); fault != nil {
		wrong, _ := errors.AsType[*validator.ValidationError](fault)
		return errors.New(explain(compiled, (&checker{}).first(wrong), value).Fault())
	}
	return nil
}

// label gives the values of an enum labels. The description tells models what people call the
// values.
func label(property, element *jsonschema.Schema, labels []string) error {
	if len(labels) != len(element.Enum) {
		return fmt.Errorf("%d for an enum of %d values", len(labels), len(element.Enum))
	}
	told := make([]string, len(labels))
	for i, text := range labels {
		if labels[i] = strings.TrimSpace(text); labels[i] == "" || slices.Contains(labels[:i], labels[i]) {
			return fmt.Errorf("%q is empty or there twice", text)
		}
		told[i] = fmt.Sprintf("%v is %s", element.Enum[i], labels[i])
	}
	element.Extra = map[string]any{titles.LabelsKey: labels}
	property.Description = strings.TrimPrefix(property.Description+"; "+strings.Join(told, ", "), "; ")
	return nil
}

// innermost unwraps the pointers, lists and maps of t and returns the element type and its schema.
func innermost(schema *jsonschema.Schema, t reflect.Type) (*jsonschema.Schema, reflect.Type) {
	for {
		inner := schema
		switch t.Kind() {
		case reflect.Pointer:
		case reflect.Slice, reflect.Array:
			inner = schema.Items
		case reflect.Map:
			inner = schema.AdditionalProperties
		default:
			return schema, t
		}
		if inner == nil { // the type has its own schema
			return schema, t
		}
		schema, t = inner, t.Elem()
	}
}

// readTag reads a tag's text as a value of type t: as JSON, or as it is if schema wants a string.
func readTag(schema *jsonschema.Schema, t reflect.Type, text string) (any, error) {
	raw := jsontext.Value(text)
	if schema.Type == "string" || slices.Equal(schema.Types, []string{"null", "string"}) {
		raw, _ = jsontext.AppendQuote(nil, text)
	}
	if err := json.Unmarshal(raw, reflect.New(t).Interface(), codec); err != nil {
		return nil, fmt.Errorf("%q does not fit %s: %w", text, t, err)
	}
	return decodeNumbers(raw)
}

func fields(t reflect.Type) func(func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for _, f := range reflect.VisibleFields(t) {
			if f.IsExported() && !yield(f) {
				return
			}
		}
	}
}

// survey collects the types within t for which google/jsonschema-go derives a schema that differs
// from what the codec reads.
func survey(t reflect.Type, schemas map[reflect.Type]*jsonschema.Schema, seen map[reflect.Type]bool) {
	if seen[t] {
		return
	}
	seen[t] = true
	schema := schemaOf(t)
	switch {
	case schema != nil:
		schemas[t] = schema
	case readsItself(t):
	case slices.Contains([]reflect.Kind{reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map}, t.Kind()):
		survey(t.Elem(), schemas, seen)
	case t.Kind() == reflect.Struct:
		for field := range fields(t) {
			survey(field.Type, schemas, seen)
		}
	}
}

// schemaOf is the schema of t as the codec reads it; nil if that of google/jsonschema-go is right.
func schemaOf(t reflect.Type) *jsonschema.Schema {
	switch t {
	case reflect.TypeFor[time.Time]():
		return &jsonschema.Schema{Type: "string", Format: "date-time"}
	case reflect.TypeFor[time.Duration]():
		return &jsonschema.Schema{Type: "string", Pattern: `^-?([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h))+$`, Examples: []any{"1h30m"}}
	case reflect.TypeFor[stdjson.RawMessage](), reflect.TypeFor[jsontext.Value]():
		return &jsonschema.Schema{}
	case reflect.TypeFor[big.Int]():
		return &jsonschema.Schema{Type: "integer"}
	}
	switch {
	case reads[encoding.TextUnmarshaler](t) && !readsJSON(t):
		return &jsonschema.Schema{Type: "string"}
	case (t.Kind() == reflect.Slice || t.Kind() == reflect.Array) && t.Elem() == reflect.TypeFor[byte]() && !readsJSON(t):
		return &jsonschema.Schema{Type: "string", ContentEncoding: "base64"}
	}
	return nil
}

// readsItself reports whether t decodes its own JSON. For the types of package time the codec does
// that.
func readsItself(t reflect.Type) bool {
	return t == reflect.TypeFor[time.Duration]() || readsJSON(t) || reads[encoding.TextUnmarshaler](t)
}

func readsJSON(t reflect.Type) bool {
	return reads[json.Unmarshaler](t) || reads[json.UnmarshalerFrom](t)
}

func reads[I any](t reflect.Type) bool {
	return t.Kind() != reflect.Interface && t.Kind() != reflect.Pointer && reflect.PointerTo(t).Implements(reflect.TypeFor[I]())
}

// codec decodes entities into the Go types of actions.
var codec = json.JoinOptions(
	jsontext.AllowDuplicateNames(true), // after invalid UTF-8 is replaced, two names may be equal
	json.WithUnmarshalers(json.UnmarshalFromFunc(readDuration)),
)

// readDuration parses the format of [time.Duration.String]; the codec has no format of its own for
// durations.
func readDuration(dec *jsontext.Decoder, d *time.Duration) error {
	var text string
	if err := json.UnmarshalDecode(dec, &text); err != nil {
		return err
	}
	var err error
	*d, err = time.ParseDuration(text)
	return err
}

// decode converts checked entities into In. It encodes them with encoding/json, because only that
// writes json.Number as a number.
func decode[In any](a *Action, entities map[string]any) (in In, fault *EntityError) {
	if len(entities) == 0 {
		return in, nil
	}
	raw, err := stdjson.Marshal(entities)
	if err == nil {
		err = json.Unmarshal(raw, &in, codec)
	}
	if err == nil {
		return in, nil
	}
	semantic, ok := errors.AsType[*json.SemanticError](err)
	if !ok || semantic.GoType == nil {
		return in, &EntityError{Path: "*", Want: "what JSON can say", Got: "another value"}
	}
	compiled, _ := a.compiled()
	fault = locate(compiled, entities, slices.Collect(semantic.JSONPointer.Tokens()))
	fault.Want = "a value that fits " + strings.TrimPrefix(semantic.GoType.String(), "*")
	if semantic.Err != nil {
		fault.Got += " (" + spelling.Clip(semantic.Err.Error()) + ")"
	}
	return in, fault
}
