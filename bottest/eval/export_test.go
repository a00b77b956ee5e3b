package eval

import (
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/planner/plan"
)

// Judge judges a plan for the case.
func (c *Case) Judge(p plan.Plan, registry *actions.Registry, asked time.Time) (r Result) {
	c.judge(p, registry, asked, &r)
	return r
}
