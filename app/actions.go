package app

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"text/tabwriter"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/planbot-go/planbot/internal/cli"
	"github.com/planbot-go/planbot/internal/settings"
)

type actionsCmd struct {
	JSON bool `name:"json" help:"print JSON, for bottest --actions: all that a model is told of them, BOT_PROMPTS_DIR, and the bot's instructions"`
}

// declaredAction is an action in the form of Teams AI's actions.json.
type declaredAction struct {
	Name        string             `json:"name"`
	Title       string             `json:"title"`
	Description string             `json:"description"`
	Parameters  *jsonschema.Schema `json:"parameters"`
	Returns     *jsonschema.Schema `json:"returns,omitempty"`
	Examples    []string           `json:"examples,omitempty"`
	Destructive bool               `json:"destructive,omitempty"`
	Approval    bool               `json:"approval,omitempty"`
	ReturnsData bool               `json:"returns_data,omitempty"`
}

// Run prints the actions.
func (c actionsCmd) Run(s *settings.Settings, std *cli.Streams) error {
	registry := s.Actions()
	if err := registry.Check(); err != nil {
		return cli.Usage(err)
	}
	var list []declaredAction
	table := tabwriter.NewWriter(std.Out, 0, 0, 2, ' ', 0)
	for _, a := range registry.All() {
		list = append(list, declaredAction{a.Name, a.Title, a.Description, a.Schema, a.Returns, a.Examples, a.Destructive, a.Approval, a.ReturnsData})
		fmt.Fprintf(table, "%s\t%s\n", cli.Printable(a.Name), cli.OneLine(a.Description))
	}
	if !c.JSON {
		return table.Flush()
	}
	raw, err := json.Marshal(list)
	if err != nil {
		return fmt.Errorf("print actions: %w", err)
	}
	declared := settings.Declared{Actions: raw}
	if declared.Instructions, err = s.Instructions(); err != nil {
		return cli.Usage(err)
	}
	if s.PromptsDir != "" {
		if declared.PromptsDir, err = filepath.Abs(s.PromptsDir); err != nil {
			return fmt.Errorf("BOT_PROMPTS_DIR: %w", err)
		}
	}
	return cli.PrintJSON(std.Out, declared)
}
