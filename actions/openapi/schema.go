package openapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/planbot-go/planbot/actions/connections"
	"github.com/planbot-go/planbot/internal/spelling"
)

const (
	maxSchema          = 64 << 10 // bytes of JSON
	maxParts           = 2000     // of a schema that has what it refers to written out
	maxToldDescription = 300
	maxToldValues      = 100
)

// The keywords of JSON Schema that have other schemas: one, a list, or some by name.
var (
	oneSchema   = []string{"items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames", "unevaluatedItems", "unevaluatedProperties", "contentSchema"}
	schemaList  = []string{"allOf", "anyOf", "oneOf", "prefixItems"}
	schemaNames = []string{"properties", "patternProperties", "$defs", "dependentSchemas"}
)

// eachPart returns a copy of a schema with f applied to the schemas that it has. f gets their places below
// the schema.
func eachPart(schema map[string]any, f func(below string, part any) any) map[string]any {
	out := maps.Clone(schema)
	for key, value := range schema {
		switch value := value.(type) {
		case []any:
			if slices.Contains(schemaList, key) {
				list := make([]any, len(value))
				for i := range value {
					list[i] = f(fmt.Sprintf("/%s/%d", key, i), value[i])
				}
				out[key] = list
			}
		case map[string]any:
			if slices.Contains(schemaNames, key) {
				parts := map[string]any{}
				for name, part := range value {
					parts[name] = f("/"+escape(key)+"/"+escape(name), part)
				}
				out[key] = parts
				continue
			}
			if slices.Contains(oneSchema, key) {
				out[key] = f("/"+key, value)
			}
		}
	}
	return out
}

// everyPart applies f to a schema and all within, the innermost first.
func everyPart(schema any, f func(map[string]any)) any {
	object, isObject := schema.(map[string]any)
	if !isObject {
		return schema
	}
	out := eachPart(object, func(_ string, part any) any { return everyPart(part, f) })
	f(out)
	return out
}

// schemas writes schemas of a document as JSON Schema of their own, without references out of it.
type schemas struct {
	doc    *document
	inline bool // what they refer to is written out, but for cycles
	parts  int
	defs   map[string]any // by name
	names  map[string]string
	open   []string // the places that are being written out
	err    error
}

var errParts = errors.New("the schema has too many parts")

func (s *schemas) of(p place) any {
	if s.parts++; s.parts > 10*maxParts || s.inline && s.parts > maxParts {
		s.err = errParts
	}
	object, isObject := p.value.(map[string]any)
	if !isObject || s.err != nil {
		return p.value
	}
	if _, refers := object["$ref"].(string); !refers {
		return s.plain(p, object)
	}
	to, err := s.doc.follow(p)
	if err != nil {
		s.err = err
		return nil
	}
	key := to.file + "#" + to.pointer
	var out map[string]any
	switch inner, isObject := to.value.(map[string]any); {
	case !isObject:
		return to.value
	case s.inline && !slices.Contains(s.open, key):
		s.open = append(s.open, key)
		out = s.plain(to, inner)
		s.open = s.open[:len(s.open)-1]
	default:
		out = map[string]any{"$ref": "#/$defs/" + s.define(key, to, inner)}
		if inner["readOnly"] == true {
			out[readOnlyMark] = true
		}
	}
	if !s.doc.old { // from 3.1 on, a schema may say more beside a reference
		beside := maps.Clone(object)
		delete(beside, "$ref")
		for keyword := range beside {
			if _, both := out[keyword]; both && !slices.Contains([]string{"title", "description", "default", "deprecated"}, keyword) {
				return map[string]any{"allOf": []any{out, s.plain(p, beside)}}
			}
		}
		maps.Copy(out, s.plain(p, beside))
	}
	if object["nullable"] == true {
		allowNull(out) // the standard ignores it here, and people mean it
	}
	return out
}

// define writes a schema into the definitions, once, and returns its name there.
func (s *schemas) define(key string, to place, value map[string]any) string {
	if name, known := s.names[key]; known {
		return name
	}
	base := unsafeInName.ReplaceAllString(to.pointer[strings.LastIndex(to.pointer, "/")+1:], "_")
	name := base
	for n := 2; s.defs[name] != nil || name == ""; n++ {
		name = fmt.Sprintf("%s_%d", base, n)
	}
	s.names[key], s.defs[name] = name, true
	before := s.open
	s.open = []string{key}
	s.defs[name] = s.plain(to, value)
	s.open = before
	return name
}

var unsafeInName = regexp.MustCompile(`[^A-Za-z0-9_.-]`)

// plain writes a schema without a reference at its top.
func (s *schemas) plain(p place, object map[string]any) map[string]any {
	object = maps.Clone(object)
	delete(object, "$defs") // what refers to them is written out, or refers to definitions of ours
	delete(object, "definitions")
	out := eachPart(object, func(below string, part any) any { return s.of(place{p.file, p.pointer + below, part}) })
	modernize(out)
	dropReadOnly(out)
	nullable := out["nullable"] == true
	for keyword := range out {
		if strings.HasPrefix(keyword, "x-") || slices.Contains(notSchema, keyword) {
			delete(out, keyword)
		}
	}
	takes := 0 // of the options
	options, _ := out["oneOf"].([]any)
	for _, option := range options {
		if connections.TakesNull(option) {
			takes++
		}
	}
	if nullable || takes > 1 { // what fits two options fits, to the letter, none
		allowNull(out)
	}
	return out
}

// allowNull makes a schema take null, too. Its marks stay at its top.
func allowNull(schema map[string]any) {
	readOnly, gone := schema[readOnlyMark], schema[goneMark]
	connections.AllowNull(schema)
	schema[readOnlyMark], schema[goneMark] = readOnly, gone
}

// notSchema are keywords that say nothing about values that are sent, or that would make the schema
// depend on others.
var notSchema = []string{
	"$schema", "$id", "$anchor", "$dynamicAnchor", "$comment",
	"example", "examples", "externalDocs", "xml", "discriminator",
	"nullable", "readOnly", "writeOnly", "allowEmptyValue", "deprecated",
}

// modernize rewrites what OpenAPI 3.0 says in its own way, and later documents still do.
func modernize(schema map[string]any) {
	if schema["type"] == nil && schema["properties"] != nil {
		schema["type"] = "object"
	}
	for limit, exclusive := range map[string]string{"minimum": "exclusiveMinimum", "maximum": "exclusiveMaximum"} {
		if is, isBool := schema[exclusive].(bool); isBool {
			if delete(schema, exclusive); is && schema[limit] != nil {
				schema[exclusive] = schema[limit]
				delete(schema, limit)
			}
		}
	}
}

// dropReadOnly leaves out what only answers have. What all parts of a schema say holds for each of them.
func dropReadOnly(schema map[string]any) {
	properties, _ := schema["properties"].(map[string]any)
	var gone []any
	for name, property := range properties {
		// readOnly is gone from it by now, but for the mark
		if object, _ := property.(map[string]any); object[readOnlyMark] == true {
			delete(properties, name)
			gone = append(gone, name)
		}
	}
	parts, _ := schema["allOf"].([]any)
	for _, part := range parts {
		object, _ := part.(map[string]any)
		names, _ := object[goneMark].([]any)
		gone = append(gone, names...)
	}
	for _, part := range append([]any{schema}, parts...) {
		object, _ := part.(map[string]any)
		if required, _ := object["required"].([]any); len(required) > 0 && len(gone) > 0 {
			required = slices.DeleteFunc(slices.Clone(required), func(r any) bool { return slices.Contains(gone, r) })
			if object["required"] = required; len(required) == 0 {
				delete(object, "required")
			}
		}
	}
	if len(gone) > 0 {
		schema[goneMark] = gone
	}
	if schema["readOnly"] == true {
		schema[readOnlyMark] = true
	}
}

// The marks of a schema that is left out, and of one with the names of what was left out of it.
const readOnlyMark, goneMark = "\x00readOnly", "\x00gone"

// build writes the schema of entities, as calls are checked against, and as models see it if that differs.
func (s *schemas) build(entities map[string]any) (checked, told *jsonschema.Schema, err error) {
	if len(s.defs) > 0 {
		entities["$defs"] = s.defs
	}
	unmarked := everyPart(entities, func(schema map[string]any) {
		delete(schema, readOnlyMark)
		delete(schema, goneMark)
	})
	for {
		forCalls, shown := everyPart(unmarked, forChecks), everyPart(unmarked, forModels)
		if checked, err = read(forCalls); err == nil && !reflect.DeepEqual(forCalls, shown) {
			told, err = read(shown)
		}
		brief := everyPart(unmarked, withoutWords) // of a large schema, models read what can be given
		if !errors.Is(err, errLargeSchema) || reflect.DeepEqual(brief, unmarked) {
			return checked, told, err
		}
		unmarked = brief
	}
}

func withoutWords(schema map[string]any) {
	delete(schema, "title")
	delete(schema, "description")
}

var errLargeSchema = errors.New("its schema is too large")

func read(tree any) (*jsonschema.Schema, error) {
	raw, err := json.Marshal(tree)
	if err != nil {
		return nil, err
	}
	if len(raw) > maxSchema {
		return nil, fmt.Errorf("%w: %d bytes, more than %d", errLargeSchema, len(raw), maxSchema)
	}
	out := new(jsonschema.Schema)
	if err := json.Unmarshal(raw, out); err != nil {
		return nil, fmt.Errorf("its schema: %w", err)
	}
	return out, nil
}

// forChecks leaves out what the service checks by itself: formats, and patterns that only other languages
// know. It fills in a default only where something has to be sent.
func forChecks(schema map[string]any) {
	for _, keyword := range []string{"format", "contentEncoding", "contentMediaType", "contentSchema"} {
		delete(schema, keyword)
	}
	if pattern, isText := schema["pattern"].(string); isText {
		if _, err := regexp.Compile(pattern); err != nil {
			delete(schema, "pattern")
		}
	}
	if patterns, isObject := schema["patternProperties"].(map[string]any); isObject {
		for pattern := range patterns {
			if _, err := regexp.Compile(pattern); err != nil {
				delete(patterns, pattern) // so there may be properties of more names
				delete(schema, "additionalProperties")
				delete(schema, "unevaluatedProperties")
			}
		}
	}
	required, _ := schema["required"].([]any)
	properties, _ := schema["properties"].(map[string]any)
	for name, property := range properties {
		if object, isObject := property.(map[string]any); isObject && !slices.Contains(required, any(name)) {
			delete(object, "default")
		}
	}
}

// forModels says the same in fewer keywords and words.
func forModels(schema map[string]any) {
	if text, isText := schema["description"].(string); isText {
		schema["description"] = spelling.OneLine(text, maxToldDescription)
	}
	delete(schema, "title")
	if value, has := schema["const"]; has {
		schema["enum"] = []any{value}
		delete(schema, "const")
	}
	if _, has := schema["anyOf"]; !has && schema["oneOf"] != nil {
		schema["anyOf"] = schema["oneOf"]
		delete(schema, "oneOf")
	}
	if values, isList := schema["enum"].([]any); isList && len(values) > maxToldValues {
		var first []string
		for _, value := range values[:maxToldValues] {
			first = append(first, spelling.OneLine(fmt.Sprint(value), 60))
		}
		described, _ := schema["description"].(string)
		schema["description"] = strings.TrimPrefix(fmt.Sprintf("%s; one of %s and %d more", described, strings.Join(first, ", "), len(values)-maxToldValues), "; ")
		delete(schema, "enum")
	}
}
