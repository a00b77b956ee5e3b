package actions

import (
	stdjson "encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/jsonschema-go/jsonschema"
)

// codec reads entities into the types of actions.
var codec = json.JoinOptions(
	jsontext.AllowDuplicateNames(true), // two names that were no UTF-8 are one after it is mended
	json.WithUnmarshalers(json.UnmarshalFromFunc(readDuration)),
)

// readDuration reads what [time.Duration.String] writes; the codec has no form of
// its own for a duration.
func readDuration(dec *jsontext.Decoder, d *time.Duration) error {
	var text string
	if err := json.UnmarshalDecode(dec, &text); err != nil {
		return err
	}
	var err error
	*d, err = time.ParseDuration(text)
	return err
}

// decode converts checked entities into In. Numbers arrive as json.Number, which
// only encoding/json writes as numbers.
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

// decoding returns what tries whether checked entities can be decoded into In,
// which a schema cannot say whole: numbers have more digits than Go's, and texts
// that types read themselves have their own rules. It is nil where the schema says
// all.
func decoding[In any](schema *jsonschema.Schema) func(map[string]any) error {
	var narrow []string // the entities that may not fit though they fit the schema
	for field := range fields(shown(reflect.TypeFor[In]())) {
		if name := nameOf(field); schema.Properties[name] != nil && isNarrow(field.Type) {
			narrow = append(narrow, name)
		}
	}
	if narrow == nil {
		return nil
	}
	return func(entities map[string]any) error {
		some := make(map[string]any, len(narrow))
		for _, name := range narrow {
			if value, given := entities[name]; given {
				some[name] = value
			}
		}
		if _, fault := decode[In](schema, some); fault != nil {
			return fault
		}
		return nil
	}
}

// isNarrow reports whether t may refuse a value that fits its schema. A type with
// a cycle has no schema, so there is none.
func isNarrow(t reflect.Type) bool {
	if readsItself(t) || isBytes(t) {
		return true
	}
	switch t.Kind() {
	case reflect.String, reflect.Bool:
		return false
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return isNarrow(t.Elem())
	case reflect.Map:
		return readsItself(t.Key()) || isNarrow(t.Elem())
	case reflect.Struct:
		for field := range fields(t) {
			if !field.Anonymous && isNarrow(field.Type) {
				return true
			}
		}
		return false
	default: // a number, or anything, which may be one
		return true
	}
}

// faultOf says where the codec refused a value, and what was wanted there.
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
		fault.Got += " (" + short(semantic.Err.Error()) + ")" // only the type knows what it minds
	}
	return fault
}

// locate follows the steps to a value.
func locate(schema *jsonschema.Schema, value any, steps []string) *EntityError {
	if schema == nil {
		schema = &jsonschema.Schema{}
	}
	if len(steps) > 0 {
		step, rest := steps[0], steps[1:]
		switch value := value.(type) {
		case []any:
			if i, err := strconv.Atoi(step); err == nil && i < len(value) {
				return locate(schema.Items, value[i], rest).within("[" + step + "]")
			}
		case map[string]any:
			if property := schema.Properties[step]; property != nil {
				return locate(property, value[step], rest).within(step)
			}
			return locate(additional(schema), value[step], rest).withinUnnamed(step)
		}
	}
	return &EntityError{Got: describe(value)}
}

// wantOf describes what t reads, in words that help a model.
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
	switch {
	case t.Kind() >= reflect.Int && t.Kind() <= reflect.Int64:
		return fmt.Sprintf("an integer from %d to %d", int64(math.MinInt64)>>(64-t.Bits()), int64(math.MaxInt64)>>(64-t.Bits()))
	case t.Kind() >= reflect.Uint && t.Kind() <= reflect.Uintptr:
		return fmt.Sprintf("an integer from 0 to %d", uint64(math.MaxUint64)>>(64-t.Bits()))
	case t.Kind() == reflect.Float32:
		return fmt.Sprintf("a number from %.3g to %.3g", -math.MaxFloat32, math.MaxFloat32)
	case t.Kind() == reflect.Float64:
		return fmt.Sprintf("a number from %.3g to %.3g", -math.MaxFloat64, math.MaxFloat64)
	default:
		return "a value of " + t.String()
	}
}
