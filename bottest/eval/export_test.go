package eval

import (
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/planner/plan"
)

// Case and Result are for tests.
type (
	Case   = testCase
	Result = result
)

// Judge judges a plan for the case.
func (c *testCase) Judge(p plan.Plan, registry *actions.Registry, asked time.Time) (r result) {
	c.judge(p, registry, asked, &r)
	return r
}
