package scenario

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	strict "github.com/go-json-experiment/json"

	"github.com/planbot-go/planbot/internal/yamltext"
)

// maxFileBytes is the cap on a file of scenarios.
const maxFileBytes = 64 << 20

// Fault is a mistake in a file of scenarios. Parts that do not apply are empty.
type Fault struct {
	File, Scenario string
	Step           string // such as "step 2", or "step 2, parallel 1"
	Field          string // such as "expect.replies[0]"
	Text           string
}

func (f *Fault) Error() string {
	where := f.File
	if f.Scenario != "" {
		where += fmt.Sprintf(": scenario %q", f.Scenario)
	}
	if f.Step != "" {
		where += ", " + f.Step
	}
	if f.Field != "" {
		where += ": " + f.Field
	}
	return where + ": " + f.Text
}

// Faults are all mistakes of a file.
type Faults []*Fault

func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i, one := range f {
		lines[i] = one.Error()
	}
	return strings.Join(lines, "\n")
}

// Without returns those of the scenarios that have none of the faults.
func (f Faults) Without(list []Scenario) []Scenario {
	return slices.DeleteFunc(slices.Clone(list), func(s Scenario) bool {
		return s.Name == "" || slices.ContainsFunc(f, func(one *Fault) bool { return one.File == s.File && one.Scenario == s.Name })
	})
}

// ReadFile reads the scenarios of a file. It is JSON if its name ends in .json, else YAML,
// of which JSON is a part: one scenario, a list of them, or an object with them in scenarios. An error is
// [Faults], beside which come the scenarios that have none, or that of opening the file.
func ReadFile(name string) ([]Scenario, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // read only
	return Read(file, name)
}

// Read is [ReadFile] of a file that is open, or of none: the name is for errors.
func Read(from io.Reader, name string) ([]Scenario, error) {
	data, err := io.ReadAll(io.LimitReader(from, maxFileBytes+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", name, err)
	case len(data) > maxFileBytes:
		return nil, Faults{{File: name, Text: fmt.Sprintf("more than %d bytes", maxFileBytes)}}
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff")) // editors on Windows write it
	tree, err := parse(data, filepath.Ext(name))
	if err != nil {
		return nil, Faults{{File: name, Text: err.Error()}}
	}
	r := &reader{}
	list := r.scenarios(tree, name)
	if len(r.faults) > 0 {
		return r.faults.Without(list), r.faults
	}
	return list, nil
}

// parse reads JSON or YAML to maps, slices, strings, bools and numbers as they are written.
func parse(data []byte, ext string) (tree any, err error) {
	if !strings.EqualFold(ext, ".json") && !json.Valid(data) {
		if data, err = yamltext.JSON(data); err != nil {
			return nil, fmt.Errorf("no YAML: %w", err)
		}
	} else if err := strict.Unmarshal(data, new(any)); err != nil { // finds names that are there twice
		return nil, fmt.Errorf("no JSON: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(&tree); err != nil {
		return nil, fmt.Errorf("no JSON: %w", err)
	}
	return tree, nil
}

// reader collects the faults of a file.
type reader struct{ faults Faults }

// place is where in the files something stands.
type place struct{ file, scenario, step, field string }

func (p place) in(field string) place {
	if p.field != "" {
		field = p.field + "." + field
	}
	p.field = field
	return p
}

func (p place) at(i int) place {
	p.field = fmt.Sprintf("%s[%d]", p.field, i)
	return p
}

func (r *reader) fault(p place, format string, args ...any) {
	r.faults = append(r.faults, &Fault{p.file, p.scenario, p.step, p.field, fmt.Sprintf(format, args...)})
}

// scenarios finds them in any of the forms of a file.
func (r *reader) scenarios(tree any, file string) []Scenario {
	p := place{file: file}
	top, isObject := tree.(map[string]any)
	_, single := top["steps"]
	list, isList := tree.([]any)
	switch {
	case single:
		list = []any{tree}
	case isObject:
		var holder struct {
			About     string `json:"about"`
			Count     int    `json:"count"`
			Scenarios []any  `json:"scenarios" need:"true"`
		}
		r.read(&holder, tree, p)
		list = holder.Scenarios
	case !isList:
		r.fault(p, "want scenarios, not %s", kindOf(tree))
	}
	var all []Scenario
	names := map[string]bool{}
	for i, one := range list {
		s := r.scenario(one, file, i)
		if s.Name != "" && names[s.Name] {
			r.fault(place{file: file, scenario: s.Name, field: "name"}, "there is another scenario of this name")
		}
		names[s.Name] = true
		all = append(all, s)
	}
	return all
}

func (r *reader) scenario(node any, file string, i int) Scenario {
	s := Scenario{File: file}
	object, _ := node.(map[string]any)
	name, _ := object["name"].(string)
	if name == "" {
		name = fmt.Sprintf("#%d", i+1)
	}
	before := len(r.faults)
	p := place{file: file, scenario: name}
	r.read(&s, node, p)
	if len(r.faults) == before { // else it says something else than was meant
		r.check(&s, p)
	}
	return s
}
