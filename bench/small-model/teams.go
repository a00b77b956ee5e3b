package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/planner/plan"
	"github.com/planbot-go/planbot/prompts"
)

// teamsText is the prompt of Teams AI's sequence augmentation: what the app says
// of itself, the actions in YAML with their parameters' schemas, and the form of
// the answer, in one system message. It is a reconstruction of its layout in words
// of our own, not its text.
const teamsText = `The following is a conversation with an AI assistant that keeps lists for a person.

%s
Use the actions above to write a plan in this JSON format:

{"type":"plan","commands":[{"type":"DO","action":"<name>","parameters":{"<name>":"<value>"}},{"type":"SAY","response":"<response>"}]}
`

// teamsPrompts is a library in which that prompt stands in the place of ours.
func teamsPrompts(reg *actions.Registry) (*prompts.Library, error) {
	dir, err := os.MkdirTemp("", "small-model")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a folder of the system's for such things
	folder := filepath.Join(dir, "sequence")
	if err := os.Mkdir(folder, 0o700); err != nil {
		return nil, err
	}
	text := fmt.Sprintf(teamsText, teamsActions(reg))
	if err := os.WriteFile(filepath.Join(folder, "prompt.txt"), []byte(text), 0o600); err != nil {
		return nil, err
	}
	return prompts.Load(dir)
}

func teamsActions(reg *actions.Registry) string {
	var b strings.Builder
	b.WriteString("actions:\n")
	for _, a := range plan.Describe(reg) {
		fmt.Fprintf(&b, "  %s:\n    description: %s\n", a.Name, a.Description)
		if len(a.Parameters) > 0 {
			b.WriteString("    parameters:\n")
		}
		for _, p := range a.Parameters {
			fmt.Fprintf(&b, "      %s:\n%s        description: %s\n", p.Name, teamsType(p.Type), p.Description)
		}
	}
	return b.String()
}

func teamsType(name string) string {
	if item, ok := strings.CutSuffix(name, "[]"); ok {
		return fmt.Sprintf("        type: array\n        items:\n          type: %s\n", item)
	}
	return fmt.Sprintf("        type: %s\n", name)
}
