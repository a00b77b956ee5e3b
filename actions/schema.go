package actions

import (
	"encoding/json"
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
	schema, err := jsonschema.For[In](nil)
	if err != nil {
		return nil, err
	}
	t := reflect.TypeFor[In]()
	if t.Kind() != reflect.Struct {
		return nil, fmt.Errorf("entities are a struct, not %s", t)
	}
	return schema, annotate(schema, t)
}

// annotate adds the enum and default tags of struct t to its schema.
func annotate(schema *jsonschema.Schema, t reflect.Type) error {
	for field := range fields(t) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		property := schema.Properties[name]
		if property == nil {
			continue
		}
		if err := annotateField(schema, property, name, field); err != nil {
			return fmt.Errorf("field %s: %w", field.Name, err)
		}
	}
	return nil
}

func annotateField(schema, property *jsonschema.Schema, name string, field reflect.StructField) error {
	if values, ok := field.Tag.Lookup("enum"); ok {
		target := property
		if property.Items != nil {
			target = property.Items
		}
		for _, v := range strings.Split(values, ",") {
			target.Enum = append(target.Enum, strings.TrimSpace(v))
		}
	}
	if value, ok := field.Tag.Lookup("default"); ok {
		raw, err := defaultJSON(value, property)
		if err != nil {
			return err
		}
		property.Default = raw
		schema.Required = slices.DeleteFunc(schema.Required, func(r string) bool { return r == name })
	}
	if nested := structOf(field.Type); nested != nil {
		target := property
		if property.Items != nil {
			target = property.Items
		}
		return annotate(target, nested)
	}
	return nil
}

// defaultJSON reads a default as JSON, or as a plain string where the property
// is one.
func defaultJSON(value string, property *jsonschema.Schema) (json.RawMessage, error) {
	if property.Type == "string" {
		return json.Marshal(value)
	}
	if !json.Valid([]byte(value)) {
		return nil, fmt.Errorf("default %q is no JSON", value)
	}
	return json.RawMessage(value), nil
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

// structOf returns the struct behind pointers and slices, or nil.
func structOf(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	return t
}
