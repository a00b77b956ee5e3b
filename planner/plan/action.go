package plan

import (
	"cmp"
	"context"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/internal/titles"
)

// planAction is a plan that other plans can call.
type planAction struct {
	plan   Plan
	inputs []string
	reg    *actions.Registry
}

// property describes an input: like the first entity that takes it unchanged, else as a text.
func (p *planAction) property(input string) *jsonschema.Schema {
	for i := range p.plan.Commands {
		c := &p.plan.Commands[i]
		action, ok := p.reg.Lookup(c.Action)
		if c.Kind != Do || !ok || action.Schema.Defs != nil || action.Schema.Definitions != nil {
			continue
		}
		for _, name := range titles.Order(action.Schema) {
			text, _ := c.Entities[name].(string)
			if property := action.Schema.Properties[name]; property != nil && strings.EqualFold(text, "$"+input) {
				property = property.CloneSchemas()
				property.Default = nil
				return property
			}
		}
	}
	return &jsonschema.Schema{Type: "string"}
}

// marks sets the strictest marks of the actions that the plan calls. If they need tokens, the person
// signs in before the plan begins; but of several connections only the first can be waited for.
func (p *planAction) marks(a *actions.Action) {
	a.Detail = p.detail()
	a.StateOnly, a.Parallel = true, true
	for i := range p.plan.Commands {
		inner, ok := p.reg.Lookup(p.plan.Commands[i].Action)
		if !ok {
			continue // a SAY
		}
		a.StateOnly, a.Parallel = a.StateOnly && inner.StateOnly, a.Parallel && inner.Parallel
		a.Destructive, a.Approval = a.Destructive || inner.Destructive, a.Approval || inner.Approval
		a.ReturnsData, a.Finds = a.ReturnsData || inner.ReturnsData, a.Finds || inner.Finds
		a.Connection = cmp.Or(a.Connection, inner.Connection)
	}
}

// maxDetail limits the length of a plan that shows nested plans.
const maxDetail = 8000

// detail shows the plan, with each plan it calls below the call, unless that gets very long.
func (p *planAction) detail() string {
	var out strings.Builder
	for i := range p.plan.Commands {
		c := &p.plan.Commands[i]
		out.WriteString(c.line() + "\n")
		inner, ok := p.reg.Lookup(c.Action)
		if ok && inner.Detail != "" && out.Len()+len(inner.Detail) < maxDetail {
			out.WriteString("  " + strings.ReplaceAll(inner.Detail, "\n", "\n  ") + "\n")
		}
	}
	return strings.TrimSuffix(out.String(), "\n")
}

func (p *planAction) call(ctx context.Context, turn *actions.Turn, entities map[string]any) (actions.Result, error) {
	inputs := make(map[string]any, len(p.inputs))
	for _, name := range p.inputs {
		inputs[name] = entities[name]
	}
	// The call itself has been approved if needed.
	return p.plan.Start(inputs).run(ctx, turn, p.reg, true)
}
