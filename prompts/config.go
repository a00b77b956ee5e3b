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
	Description  string `json:"description"`
	Completion   Config `json:"completion"`
	Augmentation struct {
		Type        string         `json:"augmentation_type"`
		DataSources map[string]int `json:"data_sources"`
	} `json:"augmentation"`
	Input struct {
		Parameters []struct {
			Input
			IsRequired *bool `json:"is_required"`
		} `json:"parameters"`
	} `json:"input"`
	Backends []string `json:"default_backends"`
}

// readConfig reads a config.json. Semantic Kernel writes an empty default for no default.
func readConfig(fsys fs.FS, file string) (Config, error) {
	var f configFile
	if err := readStrictly(fsys, file, &f); err != nil {
		return Config{}, err
	}
	c := f.Completion
	c.Description, c.Augmentation, c.DataSources = f.Description, f.Augmentation.Type, f.Augmentation.DataSources
	var faults []error
	if f.Input.Parameters != nil {
		c.Input = []Input{}
	}
	for _, p := range f.Input.Parameters {
		in := p.Input
		in.Required = p.IsRequired == nil && in.Default == "" || p.IsRequired != nil && *p.IsRequired
		if in.Required && in.Default != "" {
			faults = append(faults, fmt.Errorf("%s: input.parameters: %s: is_required and a defaultValue contradict each other: leave one out", file, in.Name))
		}
		// Models confuse names that differ only in case.
		if slices.ContainsFunc(c.Input, func(other Input) bool { return strings.EqualFold(other.Name, in.Name) }) {
			faults = append(faults, fmt.Errorf("%s: input.parameters: the name %s is taken", file, in.Name))
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

// readOffers reads an actions.json.
func readOffers(fsys fs.FS, file string) (offers []offer, err error) {
	if err := readStrictly(fsys, file, &offers); err != nil {
		return nil, err
	}
	var faults []error
	for i, o := range offers {
		if slices.ContainsFunc(offers[:i], func(other offer) bool { return other.Name == o.Name }) {
			faults = append(faults, fmt.Errorf("%s: the action %s is named twice", file, o.Name))
		}
	}
	return offers, errors.Join(faults...)
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
		lines := strings.Split(wrong.Error(), "\n")[1:] // the first names the schema, the others are "- at '/a/b': fault"
		for i, line := range lines {
			place, fault, _ := strings.Cut(strings.TrimPrefix(line, "- at '"), "': ")
			if place != "" {
				place = strings.ReplaceAll(place[1:], "/", ".") + ": "
			}
			lines[i] = file + ": " + place + fault
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
