package actions

import (
	json "encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// schemaFor derives the schema of the entities from the type In, through
// google/jsonschema-go, and adds what that library has no tags for: enum and
// default.
func schemaFor[In any]() (*jsonschema.Schema, error) {
	t := reflect.TypeFor[In]()
	if t.Kind() != reflect.Struct {
		return nil, fmt.Errorf("entities are a struct, not %s", t)
	}
	if readsItself(t) {
		return nil, fmt.Errorf("%s reads its JSON itself, so its fields say nothing of it", t)
	}
	t = shown(t)
	types := survey{map[reflect.Type]*jsonschema.Schema{}, map[reflect.Type]bool{}}
	if err := types.take(t); err != nil {
		return nil, err
	}
	schema, err := jsonschema.ForType(t, &jsonschema.ForOptions{TypeSchemas: types.schemas})
	if err != nil {
		return nil, err
	}
	if err := annotate(schema, t); err != nil {
		return nil, err
	}
	filled := map[string]any{}
	(&checker{root: schema, build: true}).defaults(schema, filled)
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

// innermost returns what is behind the pointers, lists and maps of t, and the
// schema of that.
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
		if inner == nil { // a type with a schema of its own
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

// fitTag reads the text of a tag as JSON, or as a plain string where schema wants
// one, and fits it to schema without converting it.
func fitTag(schema *jsonschema.Schema, text string) (any, error) {
	var value any = text
	if !wantsText(schema) {
		var err error
		if value, err = decodeNumbers([]byte(text)); err != nil || !json.Valid([]byte(text)) {
			return nil, fmt.Errorf("%q is no JSON", text)
		}
	}
	fitted, _, err := (&checker{root: schema, build: true, exact: true}).fit(schema, value)
	if err != nil {
		return nil, fmt.Errorf("%q: want %s, got %s", text, err.Want, err.Got)
	}
	return fitted, nil
}

// wantsText reports whether schema allows strings and nothing else but null.
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
