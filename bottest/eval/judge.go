package eval

import (
	"slices"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/planner/plan"
)

// Verdict is how good a plan is.
type Verdict struct {
	// Action says that the plan has the wanted actions, in their order, and none that is
	// unwanted.
	Action bool `json:"action"`
	// Entities says that they are called with the wanted entities, too: all is right.
	Entities bool `json:"entities"`
	// Unwanted are the actions of the plan that it should not have.
	Unwanted []string `json:"unwanted,omitempty"`
}

// Judge compares the plan with the wanted ones, and returns the verdict by that of them
// which it comes closest to. asked is when the model was asked, for times that are wanted.
func (c *Case) Judge(p plan.Plan, registry *actions.Registry, asked time.Time) Verdict {
	var best Verdict
	for i, want := range c.Want {
		v := c.compare(dosOf(p), want, registry, comparison{asked})
		if i == 0 || v.rank() > best.rank() || v.rank() == best.rank() && len(v.Unwanted) < len(best.Unwanted) {
			best = v
		}
	}
	return best
}

func (v *Verdict) rank() int {
	switch {
	case v.Entities:
		return 2
	case v.Action:
		return 1
	}
	return 0
}

func dosOf(p plan.Plan) []Call {
	var dos []Call
	for i := range p.Commands {
		if command := &p.Commands[i]; command.Kind == plan.Do {
			dos = append(dos, Call{command.Action, command.Entities})
		}
	}
	return dos
}

// compare looks for the wanted calls among those that came, in their order.
func (c *Case) compare(came, want []Call, registry *actions.Registry, values comparison) Verdict {
	found, same := 0, true
	for _, call := range came {
		if found == len(want) || call.Action != want[found].Action {
			continue
		}
		action, ok := registry.Lookup(call.Action)
		same = same && ok && values.call(action, want[found].Entities, call.Entities)
		found++
	}
	v := Verdict{Unwanted: c.unwanted(came, want)}
	v.Action = found == len(want) && len(v.Unwanted) == 0
	v.Entities = v.Action && same
	return v
}

// unwanted are the calls that are more than is wanted and do harm: those of an action
// that is wanted less often, or that is listed as unwanted, or any where nothing is.
func (c *Case) unwanted(came, want []Call) []string {
	left := map[string]int{}
	for _, call := range want {
		left[call.Action]++
	}
	var unwanted []string
	for _, call := range came {
		n, wanted := left[call.Action]
		switch {
		case n > 0:
			left[call.Action]--
		case wanted, len(c.Unwanted) == 0, slices.Contains(c.Unwanted, call.Action):
			unwanted = append(unwanted, call.Action)
		}
	}
	return unwanted
}
