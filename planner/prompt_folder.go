package planner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/prompts"
)

// AddPromptFolder is [AddPrompt] without a Go type: the action's parameters, all
// of them texts, are the input.parameters of the prompt's config.json. The error
// lists everything that is wrong with the prompt; then a stand-in has the name, so
// that who else names the action can be checked too.
func AddPromptFolder(reg *actions.Registry, cfg PromptActionConfig, opts ...actions.Option) (*actions.Action, error) {
	if err := cfg.check(); err != nil {
		return nil, fmt.Errorf("prompt action %s: %w", cfg.Name, err)
	}
	inputs, err := cfg.inputs()
	if err != nil {
		return nil, err
	}
	tasks, err := newPromptTasks(cfg, inputNames(inputs))
	if err != nil {
		_, taken := actions.AddSchema(reg, cfg.Name, "", schemaOf(inputs), func(context.Context, *actions.Turn, map[string]any) (actions.Result, error) {
			return actions.Result{}, err
		})
		return nil, errors.Join(err, taken)
	}
	action, err := actions.AddSchema(reg, cfg.Name, tasks.made.description, schemaOf(inputs), func(ctx context.Context, turn *actions.Turn, entities map[string]any) (actions.Result, error) {
		return tasks.get(ctx).run(ctx, turn, only(inputs, entities))
	}, marked(opts)...)
	if err == nil && action.Parallel {
		err = fmt.Errorf("%w: %s", errParallel, cfg.Name)
	}
	return action, err
}

// AddPromptFolders adds an action for each prompt whose config.json has an input,
// named as its folder. The Name, Prompt and Description of cfg are not looked at.
// The error lists everything that is wrong with any of them.
func AddPromptFolders(reg *actions.Registry, cfg PromptActionConfig, opts ...actions.Option) error {
	if err := cfg.check(); err != nil {
		return fmt.Errorf("prompt actions: %w", err)
	}
	var faults []error
	for _, name := range cfg.Prompts.Names() {
		prompt, err := cfg.Prompts.Prompt(name)
		if err == nil && prompt.Config.Input == nil {
			continue
		}
		cfg.Name, cfg.Prompt, cfg.Description = name, name, ""
		if err == nil {
			_, err = AddPromptFolder(reg, cfg, opts...)
		}
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}

func (c *PromptActionConfig) inputs() ([]prompts.Input, error) {
	name := c.Prompt
	if name == "" {
		name = c.Name
	}
	prompt, err := c.Prompts.Prompt(name)
	if err != nil {
		return nil, fmt.Errorf("prompt action %s: %w", c.Name, err)
	}
	if prompt.Config.Input == nil {
		return nil, fmt.Errorf("prompt %s: config.json has no input.parameters, so it is no action", name)
	}
	return prompt.Config.Input, nil
}

func schemaOf(inputs []prompts.Input) *jsonschema.Schema {
	schema := &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{}}
	for _, in := range inputs {
		property := &jsonschema.Schema{Type: "string", Description: in.Description}
		if in.Default != "" {
			property.Default, _ = json.Marshal(in.Default) // a text always can be
		}
		if in.Required {
			schema.Required = append(schema.Required, in.Name)
		}
		schema.Properties[in.Name] = property
		schema.PropertyOrder = append(schema.PropertyOrder, in.Name)
	}
	return schema
}

func inputNames(inputs []prompts.Input) []string {
	names := make([]string, len(inputs))
	for i, in := range inputs {
		names[i] = in.Name
	}
	return names
}

// only drops entities that are no inputs.
func only(inputs []prompts.Input, entities map[string]any) map[string]any {
	values := make(map[string]any, len(inputs))
	for _, in := range inputs {
		if value, ok := entities[in.Name]; ok {
			values[in.Name] = value
		}
	}
	return values
}
