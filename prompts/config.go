package prompts

import (
	"bytes"
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

//go:embed prompt.schema.json
var schemaFile []byte

// schemas are the schemas of the files, by file name. A field without any effect is a fault, unless
// the schema says what happens instead.
var schemas = sync.OnceValue(func() map[string]*jsonschema.Schema {
	const name = "planbot:///prompt.schema.json" // not a file: a folder whose name has a space makes no URL
	tree, err := jsonschema.UnmarshalJSON(bytes.NewReader(schemaFile))
	c := jsonschema.NewCompiler()
	if err := cmp.Or(err, c.AddResource(name, tree)); err != nil {
		panic(err) // the file is part of the program
	}
	return map[string]*jsonschema.Schema{
		"config.json": c.MustCompile(name + "#/$defs/config"), "actions.json": c.MustCompile(name + "#/$defs/actions"),
	}
})

// configFile is a config.json.
type configFile struct {
	Description  string  `json:"description"`
	Completion   *Config `json:"completion"`
	Augmentation struct {
		Type        string         `json:"augmentation_type"`
		DataSources map[string]int `json:"data_sources"`
	} `json:"augmentation"`
	Input struct {
		Parameters []parameter `json:"parameters"`
	} `json:"input"`
	Backends []string `json:"default_backends"`

	// Newer versions of Semantic Kernel write these in place of completion and input.
	Settings  map[string]settings `json:"execution_settings"`
	Variables []parameter         `json:"input_variables"`
}

// settings are the execution_settings for one service of Semantic Kernel.
type settings struct {
	Config
	ModelID string `json:"model_id"`
}

// parameter is a parameter of a prompt action, in either form of Semantic Kernel.
type parameter struct {
	Name         string `json:"name"`
	Description  string `json:"description"`
	DefaultValue *any   `json:"defaultValue"`
	Default      *any   `json:"default"`
	IsRequired   *bool  `json:"is_required"`
	Required     *bool  `json:"required"`
}

// input returns the parameter, which may be the only one. Semantic Kernel writes an empty default for no
// default: it fills in nothing. So only the main parameter stays required then.
func (p *parameter) input(only bool) (Input, error) {
	in := Input{Name: p.Name, Description: p.Description}
	given := cmp.Or(p.DefaultValue, p.Default)
	if p.DefaultValue != nil && p.Default != nil {
		return in, errors.New("default and defaultValue contradict each other: leave one out")
	}
	if given != nil {
		in.Default = fmt.Sprint(*given)
	}
	if p.IsRequired == nil {
		p.IsRequired = p.Required
	}
	main := only || strings.EqualFold(in.Name, "input")
	switch {
	case p.IsRequired != nil:
		in.Required = *p.IsRequired
	case main:
		in.Required = in.Default == ""
	default:
		in.Required = given == nil
	}
	return in, nil
}

// readConfig reads a config.json.
func readConfig(fsys fs.FS, file string) (Config, error) {
	var f configFile
	if err := readStrictly(fsys, file, &f); err != nil {
		return Config{}, err
	}
	var faults []error
	c, err := f.settings()
	if err != nil {
		faults = append(faults, fmt.Errorf("%s: %w", file, err))
	}
	c.Description = f.Description
	c.Augmentation = f.Augmentation.Type
	c.DataSources = f.Augmentation.DataSources
	parameters := slices.Concat(f.Input.Parameters, f.Variables)
	if f.Input.Parameters != nil || f.Variables != nil {
		c.Input = []Input{}
	}
	for i := range parameters {
		in, err := parameters[i].input(len(parameters) == 1)
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: the parameter %s: %w", file, in.Name, err))
		}
		if in.Required && in.Default != "" {
			faults = append(faults, fmt.Errorf("%s: the parameter %s: is_required and a default contradict each other: leave one out", file, in.Name))
		}
		// Models confuse names that differ only in case.
		if slices.ContainsFunc(c.Input, func(other Input) bool { return strings.EqualFold(other.Name, in.Name) }) {
			faults = append(faults, fmt.Errorf("%s: the parameter %s: the name is taken", file, in.Name))
		}
		c.Input = append(c.Input, in)
	}
	if len(f.Backends) > 0 {
		if c.Model != "" && c.Model != f.Backends[0] {
			faults = append(faults, fmt.Errorf("%s: default_backends names another model than completion.model", file))
		}
		c.Model = f.Backends[0]
	}
	return c, errors.Join(faults...)
}

// settings returns how to ask the model. Of several execution_settings it takes those called default: the others
// are for other services.
func (f *configFile) settings() (Config, error) {
	switch {
	case f.Settings == nil && f.Completion == nil:
		return Config{}, nil
	case f.Settings == nil:
		return *f.Completion, nil
	case f.Completion != nil:
		return Config{}, errors.New("completion and execution_settings contradict each other: leave one out")
	}
	chosen, ok := f.Settings["default"]
	for _, other := range f.Settings {
		if len(f.Settings) == 1 {
			chosen, ok = other, true
		}
	}
	if !ok {
		return Config{}, errors.New("execution_settings: call the settings to use default")
	}
	c := chosen.Config
	c.Model = chosen.ModelID
	return c, nil
}

// readOffers reads an actions.json.
func readOffers(fsys fs.FS, file string) (offers []offer, err error) {
	if err := readStrictly(fsys, file, &offers); err != nil {
		return nil, err
	}
	var faults []error
	for i, o := range offers {
		if slices.ContainsFunc(offers[:i], func(other offer) bool { return strings.EqualFold(other.Name, o.Name) }) {
			faults = append(faults, fmt.Errorf("%s: the action %s is named twice", file, o.Name))
		}
	}
	return offers, errors.Join(faults...)
}

// hints say what there is in place of fields and values of Teams AI and Semantic Kernel without effect here.
var hints = map[string]string{
	"data_sources":              "search with augmentation.data_sources and a knowledge base",
	"response_format":           "a plan has its own; to get JSON from an action, ask for it in the text",
	"function_choice_behavior":  "a prompt calls no functions; the planner tools does, with tool_choice",
	"chat_system_prompt":        "write it into the text",
	"number_of_responses":       "there is one answer",
	"results_per_prompt":        "there is one answer",
	"must be 'semantic-kernel'": "write handlebars and liquid templates in Semantic Kernel's own language: {{$name}} and {{function}}",
	"must be 'chat'":            "models of chats are asked; leave it out",
	"'none', 'monologue'":       "default means none in Teams AI; leave it out in the prompt of a planner",
}

// hintOf is what to do about a fault, behind a colon; "": the fault says all.
func hintOf(fault string) string {
	for what, hint := range hints {
		if hint != "" && strings.Contains(fault, what) {
			return ": " + hint
		}
	}
	return ""
}

// readStrictly reads JSON that must match its schema. The error lists every fault.
func readStrictly(fsys fs.FS, file string, into any) error {
	raw, err := fs.ReadFile(fsys, file)
	if err != nil {
		return err
	}
	raw = bytes.TrimPrefix(raw, []byte("\ufeff"))
	if err := json.Unmarshal(raw, new(jsontext.Value)); err != nil {
		return fmt.Errorf("%s: is no JSON: %w", file, err)
	}
	tree, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err == nil {
		err = schemas()[path.Base(file)].Validate(tree)
	}
	if wrong, ok := errors.AsType[*jsonschema.ValidationError](err); ok {
		var lines []string
		for line := range strings.Lines(wrong.Error()) { // "- at '/a/b': fault", set in below one that only says "validation failed"
			place, fault, found := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "- at '"), "': ")
			if !found || fault == "validation failed" {
				continue
			}
			if place != "" {
				place = strings.ReplaceAll(place[1:], "/", ".") + ": "
			}
			lines = append(lines, file+": "+place+fault+hintOf(fault))
		}
		slices.Sort(lines)
		return errors.New(strings.Join(lines, "\n"))
	}
	if err == nil {
		err = json.Unmarshal(raw, into)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}
