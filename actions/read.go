package actions

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"
)

// maxRegistryBytes is the cap on a file of actions.
const maxRegistryBytes = 4 << 20

// declared is one entry of an actions.json in the form of Teams AI
// (name, description, parameters), with Planbot's marks.
type declared struct {
	Name        string             `json:"name"`
	Description string             `json:"description"`
	Parameters  *jsonschema.Schema `json:"parameters"`
	Examples    []string           `json:"examples"`
	Destructive bool               `json:"destructive"`
	Approval    bool               `json:"approval"`
	ReturnsData bool               `json:"returns_data"`
}

// Read returns the registry that a file in the form of Teams AI's actions.json
// declares. Its actions have no functions: they can be listed to a model and
// checked, not called. Every fault of the file is in the one error.
func Read(r io.Reader) (*Registry, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxRegistryBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read actions: %w", err)
	}
	if len(data) > maxRegistryBytes {
		return nil, fmt.Errorf("read actions: more than %d bytes", maxRegistryBytes)
	}
	var list []declared
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, fmt.Errorf("read actions: %w", err)
	}
	registry := New()
	var faults []error
	for i, d := range list {
		if err := registry.declare(d); err != nil {
			faults = append(faults, fmt.Errorf("entry %d: %w", i, err))
		}
	}
	if err := errors.Join(faults...); err != nil {
		return nil, fmt.Errorf("read actions: %w", err)
	}
	return registry, nil
}

func (r *Registry) declare(d declared) error {
	schema := d.Parameters
	if schema == nil {
		schema = &jsonschema.Schema{Type: "object"}
	}
	if schema.Type == "" {
		schema.Type = "object"
	}
	if schema.Type != "object" {
		return fmt.Errorf("action %q: parameters are of type %s, want object", d.Name, schema.Type)
	}
	if at := unspecified(schema); at != "" {
		return fmt.Errorf("action %q: parameter %s is null, want a schema", d.Name, at)
	}
	return r.add(&Action{
		Name: d.Name, Description: d.Description, Schema: schema, Examples: d.Examples,
		Destructive: d.Destructive, Approval: d.Approval, ReturnsData: d.ReturnsData,
	})
}

// unspecified returns the path of a property that schema names without a schema,
// or "".
func unspecified(schema *jsonschema.Schema) string {
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		property := schema.Properties[name]
		if property == nil {
			return name
		}
		if at := unspecified(property); at != "" {
			return join(name, at)
		}
	}
	if schema.Items == nil {
		return ""
	}
	if at := unspecified(schema.Items); at != "" {
		return join("[]", at)
	}
	return ""
}
