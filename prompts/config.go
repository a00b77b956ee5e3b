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
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

//go:embed prompt.schema.json
var schemaFile []byte

// schemas are the schemas of the files, by file name. A field without any effect is a fault, unless
// the schema says what happens instead.
var schemas = sync.OnceValue(func() map[string]*jsonschema.Schema {
	const name = "prompt.schema.json"
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
		Type string `json:"augmentation_type"`
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
	c.Description, c.Augmentation = f.Description, f.Augmentation.Type
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
		at := int64(0)
		if fault, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
			at, err = fault.ByteOffset, fault.Err
		}
		return fmt.Errorf("%s:%d: is no JSON: %w", file, 1+bytes.Count(raw[:at], []byte("\n")), err)
	}
	tree, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err == nil {
		err = schemas()[path.Base(file)].Validate(tree)
	}
	if wrong, ok := errors.AsType[*jsonschema.ValidationError](err); ok {
		faults := leaves(wrong)
		slices.Sort(faults)
		return errors.New(file + ": " + strings.Join(faults, "\n"+file+": "))
	}
	if err == nil {
		err = json.Unmarshal(raw, into)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

// leaves returns the innermost faults: the outer ones only say that something inside is wrong.
func leaves(e *jsonschema.ValidationError) (faults []string) {
	for _, cause := range e.Causes {
		faults = append(faults, leaves(cause)...)
	}
	if len(e.Causes) == 0 {
		place := strings.Join(e.InstanceLocation, ".")
		if place != "" {
			place += ": "
		}
		faults = append(faults, place+e.ErrorKind.LocalizedString(message.NewPrinter(language.English)))
	}
	return faults
}
