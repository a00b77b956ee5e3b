package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/jsonschema-go/jsonschema"
	validator "github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/connections"
	"github.com/planbot-go/planbot/internal/spelling"
)

const (
	maxDefinition  = 64 << 10 // bytes, without what the tool promises
	maxPromise     = 256 << 10
	maxDescription = 1000 // characters, of a tool
	maxPropertyDoc = 300  // of a property
	maxTitle       = 100
	maxEnum        = 100 // values that models are told
	maxDepth       = 64  // of a schema
	maxShown       = 128 // characters of a tool's name in errors and logs
)

// definition is what a server says about a tool: as much of it as is pinned, and what follows from it. It
// is immutable.
type definition struct {
	remote, description string
	digest              string
	pinned              jsontext.Value // the members that the digest covers
	schema, told        *jsonschema.Schema
	returns             *jsonschema.Schema // the names of the fields of a result; nil: not said
	output              *validator.Schema  // nil: the server promises nothing
	hints               hints
}

// hints are what a server says about a tool's effects.
type hints struct {
	ReadOnly    bool  `json:"readOnlyHint"`
	Destructive *bool `json:"destructiveHint"`
	Idempotent  bool  `json:"idempotentHint"`
}

func (h hints) reads() bool { return h.ReadOnly && (h.Destructive == nil || !*h.Destructive) }

// covered are the members of a tool that its digest covers.
var covered = []string{"name", "title", "description", "inputSchema", "outputSchema", "annotations"}

// define judges what a server says about a tool. The definition that comes with an error has what is known:
// the tool's name, and the digest if there is one.
func define(raw jsontext.Value) (d definition, err error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil || members == nil {
		return d, errors.New("it is no object")
	}
	if err := json.Unmarshal(members["name"], &d.remote); err != nil || d.remote == "" {
		return d, errors.New("it has no name")
	}
	if !plainly(d.remote) {
		return d, errors.New("its name has characters that are not seen")
	}
	promise := len(members["outputSchema"]) // which no model reads
	if size := len(raw) - promise; size > maxDefinition {
		return d, fmt.Errorf("its definition has %d bytes, and may have %d", size, maxDefinition)
	}
	if promise > maxPromise {
		return d, fmt.Errorf("its outputSchema has %d bytes, and may have %d", promise, maxPromise)
	}
	pinned := map[string]jsontext.Value{}
	for _, name := range covered {
		if value, ok := members[name]; ok {
			pinned[name] = jsontext.Value(value)
		}
	}
	// An object with a member twice is refused here, so nothing below depends on which one counts.
	if _, err := connections.Digest(raw); err != nil {
		return d, err
	}
	if d.pinned, err = jsonv2.Marshal(pinned, jsonv2.Deterministic(true)); err != nil {
		return d, err
	}
	if d.digest, err = connections.Digest(d.pinned); err != nil {
		return d, err
	}
	if text, ok := members["description"]; ok && json.Unmarshal(text, &d.description) != nil {
		return d, errors.New("its description is no text")
	}
	d.description = spelling.OneLine(d.description, maxDescription)
	if text, ok := members["annotations"]; ok && json.Unmarshal(text, &d.hints) != nil {
		return d, errors.New("its annotations are of the wrong types")
	}
	var execution struct {
		Tasks string `json:"taskSupport"`
	}
	if _ = json.Unmarshal(members["execution"], &execution); execution.Tasks == "required" {
		return d, errors.New("it can only be called as a task, which is not supported")
	}
	if err := d.readInput(members["inputSchema"]); err != nil {
		return d, fmt.Errorf("inputSchema: %w", err)
	}
	if err := d.readOutput(members["outputSchema"]); err != nil {
		return d, fmt.Errorf("outputSchema: %w", err)
	}
	return d, nil
}

// plainly reports whether a name is what people see of it.
func plainly(name string) bool { return spelling.OneLine(name, maxDefinition) == name }

// readInput makes the schema that calls are checked against, and the one that models are told.
func (d *definition) readInput(raw json.RawMessage) error {
	root, err := schemaTree(raw)
	if err != nil {
		return err
	}
	oneDefs(root)
	checked, told := walk(root, checking).(map[string]any), walk(root, telling).(map[string]any)
	if kind, ok := checked["type"]; ok && kind != "object" {
		return errors.New("it is not the schema of an object")
	}
	checked["type"], told["type"] = "object", "object"
	if rules := rulesOf(told); rules != "" {
		d.description = strings.TrimSpace(spelling.OneLine(d.description, maxDescription-len(rules)-1) + " " + rules)
	}
	flatten(told)
	dropLoose(told)
	if d.schema, err = schemaOf(checked); err != nil {
		return err
	}
	if d.told, err = schemaOf(told); err != nil {
		return err
	}
	for field := range d.schema.Properties {
		if !plainly(field) {
			return errors.New("the name of a property has characters that are not seen")
		}
	}
	// A registry of its own says whether it can be an action at all.
	_, err = actions.AddSchema(actions.New(), "x", "", d.schema, nil)
	return err
}

// readOutput prepares the check of results.
func (d *definition) readOutput(raw json.RawMessage) error {
	if raw == nil || string(raw) == "null" {
		return nil
	}
	tree, err := validator.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return err
	}
	tree = walk(tree, promising)
	const name = "tool:///output"
	c := validator.NewCompiler()
	c.UseLoader(validator.SchemeURLLoader{}) // it loads nothing
	if err := c.AddResource(name, tree); err != nil {
		return err
	}
	if d.output, err = c.Compile(name); err != nil {
		return err
	}
	root, _ := tree.(map[string]any)
	properties, _ := root["properties"].(map[string]any)
	if root["type"] != "object" || len(properties) == 0 {
		return nil
	}
	// Plans may use these fields. That their values fit is checked where an answer is read.
	d.returns = &jsonschema.Schema{Properties: map[string]*jsonschema.Schema{}}
	for field := range properties {
		d.returns.Properties[field] = &jsonschema.Schema{}
	}
	return nil
}

// schemaTree decodes the schema of an object, with numbers as they were written.
func schemaTree(raw json.RawMessage) (map[string]any, error) {
	if raw == nil {
		return nil, errors.New("there is none")
	}
	value, err := validator.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	root, ok := value.(map[string]any)
	if !ok {
		return nil, errors.New("it is no schema of an object")
	}
	return root, deeperThan(root, maxDepth)
}

func deeperThan(value any, left int) error {
	if left == 0 {
		return fmt.Errorf("it has more than %d levels", maxDepth)
	}
	switch value := value.(type) {
	case map[string]any:
		for _, one := range value {
			if err := deeperThan(one, left-1); err != nil {
				return err
			}
		}
	case []any:
		for _, one := range value {
			if err := deeperThan(one, left-1); err != nil {
				return err
			}
		}
	}
	return nil
}

// oneDefs moves what a schema has under definitions to its $defs if it has both, since its Go type takes only one
// of them.
func oneDefs(root map[string]any) {
	defs, _ := root["$defs"].(map[string]any)
	older, _ := root["definitions"].(map[string]any)
	if defs == nil || older == nil {
		return
	}
	suffix := "" // of the names that move
	for slices.ContainsFunc(slices.Collect(maps.Keys(older)), func(name string) bool { return defs[name+suffix] != nil }) {
		suffix += "_"
	}
	for name, schema := range older {
		defs[name+suffix] = schema
	}
	delete(root, "definitions")
	everyRef(root, func(holder map[string]any, ref string) {
		if below, ok := strings.CutPrefix(ref, "#/definitions/"); ok {
			name, within, deeper := strings.Cut(below, "/")
			if holder["$ref"] = "#/$defs/" + name + suffix; deeper {
				holder["$ref"] = "#/$defs/" + name + suffix + "/" + within
			}
		}
	})
}

func schemaOf(tree map[string]any) (*jsonschema.Schema, error) {
	raw, err := json.Marshal(tree)
	if err != nil {
		return nil, err
	}
	schema := new(jsonschema.Schema)
	if err := json.Unmarshal(raw, schema); err != nil {
		return nil, err
	}
	return schema, nil
}

// A reading says what a copy of a schema is for.
type reading int

const (
	// checking is without what asserts nothing, but that checks of other actions take at its word: the
	// server alone fills in defaults, and formats are only notes.
	checking reading = iota
	// promising is for checks of results.
	promising
	// telling is for models, whose servers take less than all of JSON Schema. It may allow more than the
	// server does.
	telling
)

// Where a schema has more schemas: as its value, in a list, or by name.
var (
	inner = []string{
		"items", "additionalProperties", "additionalItems", "not", "if", "then", "else", "contains", "propertyNames",
		"unevaluatedItems", "unevaluatedProperties",
	}
	listed = []string{"allOf", "anyOf", "oneOf", "prefixItems", "items"}
	named  = []string{"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}
)

// dropped are the keywords that are not copied.
var dropped = map[reading][]string{
	checking: {"default", "format", "contentEncoding", "contentMediaType", "contentSchema"},
	telling: {
		"default", "$schema", "$id", "$comment", "$anchor", "$dynamicAnchor", "$dynamicRef", "$vocabulary", "examples",
		"contentEncoding", "contentMediaType", "contentSchema",
	},
}

// limits are numbers that the schema's type cannot hold if they are so large that they limit nothing.
var limits = []string{"maxLength", "maxItems", "maxProperties", "maxContains"}

func walk(value any, to reading) any {
	from, ok := value.(map[string]any)
	if !ok {
		switch {
		case to == telling && value == true:
			return map[string]any{}
		case to == telling && value == false:
			return map[string]any{"not": map[string]any{}}
		}
		return value
	}
	out := make(map[string]any, len(from))
	open := false // a property may have more names than we can tell
	for keyword, value := range from {
		list, isList := value.([]any)
		object, isObject := value.(map[string]any)
		number, isNumber := value.(json.Number)
		switch {
		case slices.Contains(dropped[to], keyword), to == telling && strings.HasPrefix(keyword, "x-"):
			continue
		case keyword == "pattern" && !isPattern(value):
			continue
		case keyword == "type" && len(list) == 1:
			value = list[0]
		case isNumber && slices.Contains(limits, keyword) && len(number) > len("999999999"):
			continue
		case isList && slices.Contains(listed, keyword):
			copies := make([]any, len(list))
			for i, one := range list {
				copies[i] = walk(one, to)
			}
			value = copies
		case isObject && slices.Contains(named, keyword):
			copies := make(map[string]any, len(object))
			for name, one := range object {
				if keyword == "patternProperties" && !isPattern(name) {
					open = true
					continue
				}
				copies[name] = walk(one, to)
			}
			value = copies
		case slices.Contains(inner, keyword):
			value = walk(value, to)
		}
		out[keyword] = value
	}
	if open {
		delete(out, "additionalProperties")
		delete(out, "unevaluatedProperties")
	}
	if to != promising && out["nullable"] == true { // OpenAPI's word, which servers made from such a document have
		connections.AllowNull(out)
	}
	if to == telling {
		simplify(out)
	}
	return out
}

// isPattern reports whether a pattern can be checked here: those of other languages may look ahead. The server
// checks them all.
func isPattern(value any) bool {
	text, ok := value.(string)
	_, err := regexp.Compile(text)
	return !ok || err == nil
}

// dropLoose drops references that lead nowhere in what models are told: what they led to is not told, or stands
// elsewhere by now.
func dropLoose(root map[string]any) {
	everyRef(root, func(holder map[string]any, ref string) {
		if !leads(ref, root) {
			delete(holder, "$ref")
		}
	})
}

// everyRef calls f for each reference in a schema, with the object that has it.
func everyRef(value any, f func(holder map[string]any, ref string)) {
	switch value := value.(type) {
	case map[string]any:
		if ref, ok := value["$ref"].(string); ok {
			f(value, ref)
		}
		for keyword, inner := range value {
			if _, data := inner.([]any); keyword != "enum" || !data {
				everyRef(inner, f)
			}
		}
	case []any:
		for _, inner := range value {
			everyRef(inner, f)
		}
	}
}

// leads reports whether a reference is a pointer to a place in a schema.
func leads(ref string, root map[string]any) bool {
	pointer, err := url.PathUnescape(strings.TrimPrefix(ref, "#"))
	if err != nil || ref == pointer || pointer != "" && pointer[0] != '/' {
		return false
	}
	var at any = root
	for token := range jsontext.Pointer(pointer).Tokens() {
		found := false
		switch holder := at.(type) {
		case map[string]any:
			at, found = holder[token]
		case []any:
			n, err := strconv.Atoi(token)
			if found = err == nil && n >= 0 && n < len(holder); found {
				at = holder[n]
			}
		}
		if !found {
			return false
		}
	}
	return true
}

// simplify rewrites the keywords of one schema for models.
func simplify(s map[string]any) {
	if text, ok := s["title"].(string); ok {
		s["title"] = spelling.OneLine(text, maxTitle)
	}
	note, _ := s["description"].(string)
	if only, ok := s["const"]; ok {
		delete(s, "const")
		if s["enum"] == nil {
			s["enum"] = []any{only}
		}
	}
	if options, ok := s["oneOf"].([]any); ok {
		delete(s, "oneOf")
		if more, both := s["anyOf"].([]any); both {
			options = append(slices.Clone(more), options...)
		}
		s["anyOf"] = options
	}
	note = spelling.OneLine(note, maxPropertyDoc)
	if values, ok := s["enum"].([]any); ok && len(values) > maxEnum {
		s["enum"] = values[:maxEnum:maxEnum]
		if slices.ContainsFunc(values[maxEnum:], func(value any) bool { return value == nil }) {
			connections.AllowNull(s)
		}
		more := fmt.Sprintf("%d more values exist.", len(values)-maxEnum)
		note = strings.TrimSpace(spelling.OneLine(note, maxPropertyDoc-len(more)-1) + " " + more)
	}
	if delete(s, "description"); note != "" {
		s["description"] = note
	}
	if s["type"] == "object" && s["properties"] == nil {
		s["properties"] = map[string]any{}
	}
}

// flatten makes a root that is one of several objects, or all of them, a plain object: with all their
// properties, of which only those are required that all of them require.
func flatten(root map[string]any) {
	resolve := func(value any) map[string]any {
		s, _ := value.(map[string]any)
		for range maxDepth {
			ref, ok := s["$ref"].(string)
			if !ok {
				break
			}
			place, name, _ := strings.Cut(strings.TrimPrefix(ref, "#/"), "/")
			defs, _ := root[place].(map[string]any)
			if s, ok = defs[name].(map[string]any); !ok {
				break
			}
		}
		return s
	}
	properties, _ := root["properties"].(map[string]any)
	properties = maps.Clone(properties)
	if properties == nil {
		properties = map[string]any{}
	}
	required := textsOf(root["required"])
	add := func(part map[string]any) (requires []string) {
		more, _ := part["properties"].(map[string]any)
		for name, property := range more {
			if have, ok := properties[name]; !ok {
				properties[name] = property
			} else if !reflect.DeepEqual(have, property) {
				properties[name] = map[string]any{"anyOf": []any{have, property}}
			}
		}
		return textsOf(part["required"])
	}
	if _, ok := root["$ref"]; ok {
		required = append(required, add(resolve(root))...)
	}
	all, _ := root["allOf"].([]any)
	for _, part := range all {
		required = append(required, add(resolve(part))...)
	}
	var common []string
	options, _ := root["anyOf"].([]any)
	for i, part := range options {
		requires := add(resolve(part))
		if i == 0 {
			common = requires
		}
		common = slices.DeleteFunc(common, func(name string) bool { return !slices.Contains(requires, name) })
	}
	required = append(required, common...)
	slices.Sort(required)
	for _, keyword := range []string{"$ref", "allOf", "anyOf", "not", "if", "then", "else", "enum", "dependentSchemas", "dependentRequired"} {
		delete(root, keyword)
	}
	root["properties"] = properties
	if required = slices.Compact(required); len(required) > 0 {
		root["required"] = required
	}
}

// rulesOf says in words what the root of a schema rules and [flatten] leaves out.
func rulesOf(root map[string]any) string {
	var rules []string
	say := func(format string, args ...any) { rules = append(rules, fmt.Sprintf(format, args...)) }
	together := func(part any) string {
		object, _ := part.(map[string]any)
		return strings.Join(textsOf(object["required"]), " and ")
	}
	if options, _ := root["anyOf"].([]any); len(options) > 0 {
		var sets []string
		for _, option := range options {
			sets = append(sets, together(option))
		}
		if !slices.Contains(sets, "") {
			say("Give %s.", strings.Join(sets, ", or "))
		}
	}
	dependent, _ := root["dependentRequired"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(dependent)) {
		say("With %s give %s, too.", name, strings.Join(textsOf(dependent[name]), " and "))
	}
	if names := together(root["not"]); names != "" {
		say("Do not give %s at the same time.", names)
	}
	names, _ := root["propertyNames"].(map[string]any)
	if pattern, ok := names["pattern"].(string); ok {
		say("Their names fit %s.", pattern)
	}
	limits := map[string]string{"minProperties": "Give at least %v of these.", "maxProperties": "Give at most %v of these."}
	for keyword, words := range limits {
		if n, has := root[keyword]; has {
			say(words, n)
		}
	}
	slices.Sort(rules)
	return spelling.OneLine(strings.Join(rules, " "), maxPropertyDoc)
}

func textsOf(list any) (texts []string) {
	values, _ := list.([]any)
	for _, value := range values {
		if text, ok := value.(string); ok {
			texts = append(texts, text)
		}
	}
	return texts
}
