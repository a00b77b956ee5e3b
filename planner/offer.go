package planner

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/internal/spelling"
	"github.com/planbot-go/planbot/planner/plan"
	"github.com/planbot-go/planbot/prompts"
)

// offered is the registry of the actions that a prompt offers: reg itself when
// the prompt does not say. What it says of an action must be true of it.
func offered(offers []prompts.Offer, reg *actions.Registry) (*actions.Registry, error) {
	if offers == nil {
		return reg, nil
	}
	var faults []error
	picked := make([]actions.Offer, len(offers))
	for i, o := range offers {
		picked[i] = actions.Offer{Name: o.Name, Description: o.Description}
		if err := checkOffer(o, reg); err != nil {
			faults = append(faults, fmt.Errorf("actions.json: %w", err))
		}
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	return reg.Only(picked...)
}

// without is reg without the actions that the words exclude. Each has to exclude
// something: else it is misspelt.
func without(reg *actions.Registry, words []string) (*actions.Registry, error) {
	if len(words) == 0 {
		return reg, nil
	}
	var faults []error
	for _, word := range words {
		if !slices.ContainsFunc(reg.All(), func(a *actions.Action) bool { return excludes(word, a.Name) }) {
			faults = append(faults, fmt.Errorf("Exclude: there is no action %q%s", word, plan.Suggest(word, reg)))
		}
	}
	var kept []actions.Offer
	for _, a := range reg.All() {
		if !slices.ContainsFunc(words, func(word string) bool { return excludes(word, a.Name) }) {
			kept = append(kept, actions.Offer{Name: a.Name})
		}
	}
	rest, err := reg.Only(kept...)
	return rest, errors.Join(append(faults, err)...)
}

// excludes reports whether a word of [SequenceConfig.Exclude] means an action.
func excludes(word, name string) bool {
	plugin, bare := splitPlugin(name)
	return strings.EqualFold(strings.ReplaceAll(word, ".", "-"), name) || strings.EqualFold(word, bare) || plugin != "" && strings.EqualFold(word, plugin)
}

// splitPlugin parts the name of an action into that of its plugin, "" for none,
// and its own.
func splitPlugin(name string) (plugin, bare string) {
	plugin, bare, found := strings.Cut(name, "-")
	if !found {
		return "", name
	}
	return plugin, bare
}

func checkOffer(o prompts.Offer, reg *actions.Registry) error {
	action, ok := reg.Lookup(o.Name)
	if !ok || action.Name != o.Name {
		return fmt.Errorf("there is no action %q%s", spelling.Clip(o.Name), plan.Suggest(o.Name, reg))
	}
	if o.Parameters == nil {
		return nil
	}
	var said jsonschema.Schema
	if err := json.Unmarshal(o.Parameters, &said); err != nil {
		return fmt.Errorf("action %s: parameters are no JSON Schema: %w", o.Name, err)
	}
	if err := agree(&said, action.Schema); err != nil {
		return fmt.Errorf("action %s: parameters: %w", o.Name, err)
	}
	return nil
}

// agree compares what a file says of parameters with the registered schema: their
// names, which of them are required, and the types that the file gives.
func agree(said, registered *jsonschema.Schema) error {
	var faults []string
	compare := func(what string, said, registered []string) {
		if !slices.Equal(said, registered) {
			faults = append(faults, fmt.Sprintf("%s %s, the action has %s", what, list(said), list(registered)))
		}
	}
	compare("names", slices.Sorted(maps.Keys(said.Properties)), slices.Sorted(maps.Keys(registered.Properties)))
	compare("required", slices.Sorted(slices.Values(said.Required)), slices.Sorted(slices.Values(registered.Required)))
	for _, name := range slices.Sorted(maps.Keys(said.Properties)) {
		mine, action := said.Properties[name], registered.Properties[name]
		if mine == nil || action == nil {
			continue
		}
		if have, want := plan.TypeText(mine), plan.TypeText(action); have != "any" && have != want {
			faults = append(faults, fmt.Sprintf("%s is %s, the action has %s", name, have, want))
		}
	}
	if len(faults) == 0 {
		return nil
	}
	return errors.New(strings.Join(faults, "; "))
}

func list(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
