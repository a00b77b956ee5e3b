package actions

import (
	"cmp"
	"encoding"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/jsonschema-go/jsonschema"
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
	if err := survey(t, types, map[reflect.Type]bool{}); err != nil {
		return nil, err
	}
	schema, err := jsonschema.ForType(t, &jsonschema.ForOptions{TypeSchemas: types})
	if err != nil {
		return nil, err
	}
	if err := annotate(schema, t); err != nil {
		return nil, err
	}
	filled := map[string]any{}
	(&checker{root: schema}).defaults(schema, filled)
	if _, fault := decode[In](schema, filled); fault != nil {
		return nil, fmt.Errorf("defaults: %w", fault)
	}
	return schema, nil
}

// annotate adds the enum and default tags of struct t to its schema.
func annotate(schema *jsonschema.Schema, t reflect.Type) error {
	for field := range fields(t) {
		if err := annotateField(schema, nameOf(field), field); err != nil {
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
	value, hasDefault := field.Tag.Lookup("default")
	property := schema.Properties[name]
	if property == nil || field.Anonymous {
		if hasOptions || hasDefault {
			return errors.New("it is no entity, so it can have no enum and no default")
		}
		return nil
	}
	element, t := innermost(property, field.Type)
	if hasOptions {
		if err := addOptions(element, options); err != nil {
			return err
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
	return addDefault(property, value)
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

func addOptions(schema *jsonschema.Schema, options string) error {
	var values []any
	for option := range strings.SplitSeq(options, ",") {
		value, err := fitTag(schema, strings.TrimSpace(option))
		if err != nil {
			return fmt.Errorf("enum: %w", err)
		}
		values = append(values, value)
	}
	schema.Enum = values
	return nil
}

func addDefault(schema *jsonschema.Schema, text string) error {
	value, err := fitTag(schema, text)
	if err != nil {
		return fmt.Errorf("default: %w", err)
	}
	schema.Default, err = marshal(value)
	return err
}

// fitTag parses the text of a tag as JSON, or takes it as a plain string if schema wants a string.
// It fits the value to schema without converting it.
func fitTag(schema *jsonschema.Schema, text string) (any, error) {
	var value any = text
	if !wantsText(schema) {
		var err error
		if value, err = decodeNumbers([]byte(text)); err != nil || !stdjson.Valid([]byte(text)) {
			return nil, fmt.Errorf("%q is no JSON", text)
		}
	}
	fitted, err := (&checker{root: schema, exact: true}).fit(schema, value)
	if err != nil {
		return nil, fmt.Errorf("%q: want %s, got %s", text, err.Want, err.Got)
	}
	return fitted, nil
}

// wantsText reports whether schema allows only strings, and perhaps null.
func wantsText(schema *jsonschema.Schema) bool {
	types := slices.DeleteFunc(slices.Clone(typesOf(schema)), func(t string) bool { return t == "null" })
	return len(types) == 1 && types[0] == "string"
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
// from what the codec reads. It also rejects json options that no schema can express.
func survey(t reflect.Type, schemas map[reflect.Type]*jsonschema.Schema, seen map[reflect.Type]bool) error {
	if seen[t] {
		return nil
	}
	seen[t] = true
	schema := schemaOf(t)
	switch {
	case schema != nil:
		schemas[t] = schema
	case readsItself(t):
	case slices.Contains([]reflect.Kind{reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map}, t.Kind()):
		return survey(t.Elem(), schemas, seen)
	case t.Kind() == reflect.Struct:
		for field := range fields(t) {
			_, options, _ := strings.Cut(field.Tag.Get("json"), ",")
			for option := range strings.SplitSeq(options, ",") {
				if option == "string" || strings.HasPrefix(option, "format:") {
					return fmt.Errorf("field %s: the json option %s is not in the schema, leave it out", field.Name, option)
				}
			}
			if err := survey(field.Type, schemas, seen); err != nil {
				return err
			}
		}
	}
	return nil
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
	case isBytes(t):
		return &jsonschema.Schema{Type: "string", ContentEncoding: "base64"}
	case reads[encoding.TextUnmarshaler](t) && !readsJSON(t):
		return &jsonschema.Schema{Type: "string"}
	}
	return nil
}

// isBytes reports whether the codec reads t from base64.
func isBytes(t reflect.Type) bool {
	return (t.Kind() == reflect.Slice || t.Kind() == reflect.Array) && t.Elem() == reflect.TypeFor[byte]() && !readsItself(t)
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

// nameOf is the name of a field in JSON.
func nameOf(field reflect.StructField) string {
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	return cmp.Or(name, field.Name)
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
func decode[In any](schema *jsonschema.Schema, entities map[string]any) (in In, fault *EntityError) {
	if len(entities) == 0 {
		return in, nil
	}
	raw, err := stdjson.Marshal(entities)
	if err == nil {
		err = json.Unmarshal(raw, &in, codec)
	}
	if err != nil {
		fault = faultOf(err, schema, entities)
	}
	return in, fault
}

// faultOf says where the codec rejected a value, and what it wanted there.
func faultOf(err error, schema *jsonschema.Schema, entities map[string]any) *EntityError {
	semantic, ok := errors.AsType[*json.SemanticError](err)
	if !ok {
		return &EntityError{Path: "*", Want: "what JSON can say", Got: "another value"}
	}
	var steps []string
	for step := range semantic.JSONPointer.Tokens() {
		steps = append(steps, step)
	}
	fault := locate(schema, entities, steps)
	t := semantic.GoType
	if t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	fault.Want = wantOf(t)
	if t != nil && readsItself(t) && t.PkgPath() != "time" && semantic.Err != nil {
		fault.Got += " (" + short(semantic.Err.Error()) + ")" // only the type knows the reason
	}
	return fault
}

// locate follows the steps of a path to a value.
func locate(schema *jsonschema.Schema, value any, steps []string) *EntityError {
	if schema == nil {
		schema = &jsonschema.Schema{}
	}
	if len(steps) > 0 {
		step, rest := steps[0], steps[1:]
		switch value := value.(type) {
		case []any:
			if i, err := strconv.Atoi(step); err == nil && i < len(value) {
				return locate(schema.Items, value[i], rest).within("["+step+"]", true)
			}
		case map[string]any:
			property, named := schema.Properties[step]
			if !named {
				property = additional(schema)
			}
			return locate(property, value[step], rest).within(step, named)
		}
	}
	return &EntityError{Got: describe(value)}
}

// wantOf describes what t accepts, in words that help a model.
func wantOf(t reflect.Type) string {
	switch {
	case t == nil:
		return "another value"
	case t == reflect.TypeFor[time.Time]():
		return wantTime
	case t == reflect.TypeFor[time.Duration]():
		return "a duration such as 1h30m, of at most 292 years"
	case isBytes(t):
		return "a text in base64"
	case readsItself(t):
		return "a value of " + t.String()
	}
	return "a value that fits " + t.String()
}
