package prompts

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// maxStops is how many stop sequences a request may have.
const maxStops = 4

// instead says of fields of Teams AI and Semantic Kernel that have no effect
// here what to do in their place.
var instead = map[string]string{
	"name":               "the folder's name is the prompt's",
	"input_variables":    "say input.parameters",
	"execution_settings": "say completion",
	"output_variable":    "leave it out, the output is text",
	"default":            "say defaultValue",
	"isRequired":         "say is_required",
	"json_schema":        "parameters of a folder are texts, leave it out",
}

// inputName is what a parameter may be called, so that a template can name it.
const inputName = "letters, digits and _, at most 64"

// readConfig reads a config.json: the fields of Teams AI (schema 1.1, and 1 as
// far as it is the same), and the input.parameters of Semantic Kernel. A field
// that would have no effect is a fault, unless it says what is done anyway.
func readConfig(file string, raw []byte) (Config, error) {
	var c Config
	if err := wellFormed(file, raw); err != nil {
		return c, err
	}
	var backends []string
	s := &strict{file: file}
	s.object("", raw, fields{
		"schema":           value(s, new(float64), "1.1 or 1", func(v float64) bool { return v == 1.1 || v == 1 }),
		"type":             s.word(new(string), "completion"),
		"description":      s.text(&c.Description),
		"completion":       s.within(s.completion(&c)),
		"augmentation":     s.within(s.augmentation(&c.Augmentation)),
		"input":            s.within(s.input(&c.Input)),
		"default_backends": value(s, &backends, "a list with the name of one model", func(v []string) bool { return len(v) <= 1 }),
		"template_format":  s.unless(`"semantic-kernel"`, "templates have one format, leave it out"),
	})
	if len(backends) == 1 {
		if m := c.Model; m != "" && m != backends[0] {
			s.fail("default_backends", "names another model than completion.model")
		}
		c.Model = backends[0]
	}
	return c, errors.Join(s.faults...)
}

func (s *strict) completion(c *Config) fields {
	return fields{
		"max_tokens":          s.count(&c.MaxTokens),
		"max_input_tokens":    s.count(&c.MaxInputTokens),
		"temperature":         s.number(&c.Temperature, 0, 2),
		"top_p":               s.number(&c.TopP, 0, 1),
		"presence_penalty":    s.number(&c.PresencePenalty, -2, 2),
		"frequency_penalty":   s.number(&c.FrequencyPenalty, -2, 2),
		"stop_sequences":      value(s, &c.Stop, fmt.Sprintf("a list of at most %d texts, none empty", maxStops), goodStops),
		"include_history":     s.flag(&c.IncludeHistory),
		"include_input":       s.flag(&c.IncludeInput),
		"model":               value(s, &c.Model, "the name of a model", func(v string) bool { return strings.TrimSpace(v) != "" }),
		"tool_choice":         s.word(&c.ToolChoice, "auto", "required", "none"),
		"parallel_tool_calls": s.flag(&c.ParallelCalls),

		"include_images":  s.unless("false", "no images are sent, leave it out"),
		"completion_type": s.unless(`"chat"`, "models are asked as chat, leave it out"),
	}
}

func goodStops(stops []string) bool { return len(stops) <= maxStops && !slices.Contains(stops, "") }

func (s *strict) augmentation(kind *string) fields {
	return fields{
		"augmentation_type": s.word(kind, "none", "sequence", "sequential", "tools"),
		"data_sources":      s.unless("{}", "there are no data sources, leave them out"),
	}
}

// input reads the parameters of a prompt that is an action. Semantic Kernel
// writes an empty default where there is none.
func (s *strict) input(inputs *[]Input) fields {
	return fields{"parameters": func(at string, value jsontext.Value) {
		*inputs = []Input{}
		s.each(func(at string, value jsontext.Value) { s.parameter(at, value, inputs) })(at, value)
	}}
}

func (s *strict) parameter(at string, raw jsontext.Value, inputs *[]Input) {
	var in Input
	var required *bool
	s.named(at, raw, value(s, &in.Name, inputName, isInputName), fields{
		"description":  s.text(&in.Description),
		"defaultValue": s.text(&in.Default),
		"is_required":  s.flag(&required),
	})
	in.Required = required == nil && in.Default == "" || required != nil && *required
	if in.Required && in.Default != "" {
		s.fail(at, "is_required and a defaultValue contradict each other: leave one out")
	}
	if in.Name == "" {
		return
	}
	// Models mix up names that differ in case only.
	if slices.ContainsFunc(*inputs, func(other Input) bool { return strings.EqualFold(other.Name, in.Name) }) {
		s.fail(at, "the name %s is taken", in.Name)
	}
	*inputs = append(*inputs, in)
}

func isInputName(name string) bool {
	return validName.MatchString(name) && !strings.Contains(name, "-")
}

// readOffers reads an actions.json.
func readOffers(file string, raw []byte) ([]Offer, error) {
	if err := wellFormed(file, raw); err != nil {
		return nil, err
	}
	offers := []Offer{}
	s := &strict{file: file}
	s.each(func(at string, value jsontext.Value) { s.offer(at, value, &offers) })("", raw)
	return offers, errors.Join(s.faults...)
}

func (s *strict) offer(at string, raw jsontext.Value, offers *[]Offer) {
	var o Offer
	s.named(at, raw, value(s, &o.Name, "a text, not empty", func(v string) bool { return v != "" }), fields{
		"description": s.text(&o.Description),
		"parameters": func(at string, value jsontext.Value) {
			if value.Kind() != '{' {
				s.wrong(at, "a JSON Schema", value)
			}
			o.Parameters = value
		},
	})
	switch {
	case o.Name == "": // that is said
	case slices.ContainsFunc(*offers, func(other Offer) bool { return other.Name == o.Name }):
		s.fail(at, "the action %s is named twice", o.Name)
	default:
		*offers = append(*offers, o)
	}
}

// wellFormed says where a text is no JSON.
func wellFormed(file string, raw []byte) error {
	var any jsontext.Value
	err := json.Unmarshal(raw, &any)
	if err == nil {
		return nil
	}
	at := int64(0)
	if fault, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		at = fault.ByteOffset
		err = fault.Err
	}
	return fmt.Errorf("%s:%d: is no JSON: %w", file, 1+strings.Count(string(raw[:at]), "\n"), err)
}

// strict reads a JSON file by what is allowed in it, and keeps every fault with
// its place, rather than stopping at the first one.
type strict struct {
	file   string
	faults []error
}

// reader reads the value at a place.
type reader func(at string, value jsontext.Value)

// fields are what an object may hold.
type fields map[string]reader

func (s *strict) fail(at, format string, args ...any) {
	place := s.file + ": "
	if at != "" {
		place += at + ": "
	}
	s.faults = append(s.faults, errors.New(place+fmt.Sprintf(format, args...)))
}

func (s *strict) object(at string, value jsontext.Value, known fields) {
	var object map[string]jsontext.Value
	if value.Kind() == 'n' || json.Unmarshal(value, &object) != nil {
		s.wrong(at, "an object", value)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if read, ok := known[name]; ok {
			read(inside(at, name), object[name])
		} else if hint := instead[name]; hint != "" {
			s.fail(inside(at, name), "has no effect here: %s", hint)
		} else {
			s.fail(inside(at, name), "no such field, have %s", strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		}
	}
}

// named reads an object that must have a name.
func (s *strict) named(at string, raw jsontext.Value, name reader, known fields) {
	said := raw.Kind() != '{'
	known["name"] = func(at string, value jsontext.Value) {
		said = true
		name(at, value)
	}
	s.object(at, raw, known)
	if !said {
		s.fail(at, "has no name")
	}
}

// within reads an object inside of another.
func (s *strict) within(known fields) reader {
	return func(at string, value jsontext.Value) { s.object(at, value, known) }
}

// each reads every element of a list.
func (s *strict) each(read reader) reader {
	return func(at string, value jsontext.Value) {
		var list []jsontext.Value
		if value.Kind() == 'n' || json.Unmarshal(value, &list) != nil {
			s.wrong(at, "a list", value)
			return
		}
		for i, element := range list {
			read(fmt.Sprintf("%s[%d]", at, i), element)
		}
	}
}

// value reads a value of Go's type T that good takes; a nil good takes all.
func value[T any](s *strict, into *T, want string, good func(T) bool) reader {
	return func(at string, value jsontext.Value) {
		var v T
		if value.Kind() == 'n' || json.Unmarshal(value, &v) != nil || good != nil && !good(v) {
			s.wrong(at, want, value)
			return
		}
		*into = v
	}
}

func (s *strict) text(into *string) reader {
	return value(s, into, "a text", nil)
}

func (s *strict) word(into *string, words ...string) reader {
	return value(s, into, "one of "+strings.Join(words, ", "), func(v string) bool { return slices.Contains(words, v) })
}

func (s *strict) count(into *int) reader {
	return value(s, into, "a whole number from 1 on", func(v int) bool { return v > 0 })
}

func (s *strict) number(into **float64, least, most float64) reader {
	want := fmt.Sprintf("a number from %g to %g", least, most)
	return value(s, into, want, func(v *float64) bool { return least <= *v && *v <= most })
}

func (s *strict) flag(into **bool) reader {
	return value(s, into, "true or false", nil)
}

// unless refuses all values but the one that says what is done anyway.
func (s *strict) unless(allowed, hint string) reader {
	return func(at string, value jsontext.Value) {
		if compact := value.Clone(); compact.Compact() != nil || string(compact) != allowed {
			s.fail(at, "has no effect here: %s", hint)
		}
	}
}

// wrong says what a value is, cut short.
func (s *strict) wrong(at, want string, value jsontext.Value) {
	have := strings.Join(strings.Fields(string(value)), " ")
	if short := trimBytes(have, 60); short != have {
		have = short + "…"
	}
	s.fail(at, "want %s, have %s", want, have)
}

func inside(at, name string) string {
	if at == "" {
		return name
	}
	return at + "." + name
}
