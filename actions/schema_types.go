package actions

import (
	"cmp"
	"encoding"
	stdjson "encoding/json"
	"fmt"
	"math/big"
	"reflect"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/jsonschema-go/jsonschema"
)

// survey collects the types within a type whose schema google/jsonschema-go takes
// for another than the codec reads.
type survey struct {
	schemas map[reflect.Type]*jsonschema.Schema
	seen    map[reflect.Type]bool
}

// take also finds what the codec could read and no schema can say.
func (s *survey) take(t reflect.Type) error {
	if s.seen[t] {
		return nil
	}
	s.seen[t] = true
	if schema := schemaOf(t); schema != nil {
		s.schemas[t] = schema
		return nil
	}
	if readsItself(t) {
		return nil
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return s.take(t.Elem())
	case reflect.Struct:
		return s.takeFields(t)
	}
	return nil
}

func (s *survey) takeFields(t reflect.Type) error {
	for field := range fields(t) {
		_, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		for option := range strings.SplitSeq(options, ",") {
			if option == "string" || strings.HasPrefix(option, "format:") {
				return fmt.Errorf("field %s: the json option %s is not in the schema, leave it out", field.Name, option)
			}
		}
		if field.Anonymous { // its fields are among those of t
			continue
		}
		if err := s.take(field.Type); err != nil {
			return err
		}
	}
	return nil
}

// schemaOf is the schema of a type as the codec reads it; nil where that of
// google/jsonschema-go is right.
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

// readsItself reports whether t has its own idea of its JSON. The codec has that
// of the types of time.
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
