package planner

import (
	"fmt"
	"strings"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/internal/spelling"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner/plan"
)

// maxToolDescription is how many bytes servers take of a description.
const maxToolDescription = 1024

// toolset is the actions that a model may call.
type toolset struct {
	offered *actions.Registry
	tools   []models.Tool
}

func newToolset(offered *actions.Registry, strict bool) (toolset, error) {
	s := toolset{offered: offered}
	for _, a := range offered.All() {
		tool := models.Tool{Name: a.Name, Description: a.Description}
		if len(tool.Description) > maxToolDescription {
			tool.Description = spelling.Shorten(tool.Description, maxToolDescription)
		}
		var err error
		if tool.Schema, tool.Strict, err = plan.ToolSchema(a, strict); err != nil {
			return toolset{}, fmt.Errorf("schema of action %s: %w", a.Name, err)
		}
		s.tools = append(s.tools, tool)
	}
	return s, nil
}

// find finds the action that a model means by name. Models write the marks of a
// plugin's function in other ways (Lists.add, lists_add for Lists-add), leave the
// plugin out, or put functions before it; where that may mean several actions, it
// means none.
func (s *toolset) find(name string) (*actions.Action, *plan.Fault) {
	bare := strings.TrimPrefix(strings.TrimSpace(name), "functions.")
	for _, means := range [...]func(*actions.Action) bool{
		func(a *actions.Action) bool { return a.Name == bare },
		func(a *actions.Action) bool { return strings.EqualFold(a.Name, bare) },
		func(a *actions.Action) bool { return joined(a.Name) == joined(bare) },
		func(a *actions.Action) bool {
			_, function := splitPlugin(a.Name)
			return joined(function) == joined(bare)
		},
	} {
		var found []*actions.Action
		for _, a := range s.offered.All() {
			if means(a) {
				found = append(found, a)
			}
		}
		switch len(found) {
		case 0:
		case 1:
			return found[0], nil
		default:
			return nil, plan.Faultf(plan.UnknownAction, "%q may mean %s; use the whole name", spelling.Clip(name), names(found))
		}
	}
	return nil, plan.Faultf(plan.UnknownAction, "there is no function %q%s", spelling.Clip(name), plan.Suggest(bare, s.offered))
}

// joined is a name with one mark for all between its words, in lower case.
func joined(name string) string {
	return strings.NewReplacer(".", "_", "-", "_").Replace(strings.ToLower(name))
}

func names(list []*actions.Action) string {
	out := make([]string, min(len(list), spelling.Most))
	for i := range out {
		out[i] = list[i].Name
	}
	return strings.Join(out, ", ")
}
