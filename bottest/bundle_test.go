package bottest_test

import (
	"runtime/debug"
	"testing"

	"go.uber.org/goleak"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/lists"
	"github.com/planbot-go/planbot/bottest"
)

// TestMain collects garbage less often: it was a third of what these tests cost.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	goleak.VerifyTestMain(m)
}

// listBot is a bot of the list actions.
func listBot() bottest.Config {
	acts := actions.New()
	lists.Register(acts)
	return bottest.Config{Actions: acts, Name: "ListBot"}
}

// addMilk is the plan of most of these tests.
var addMilk = bottest.Plan(bottest.Do("addItem", "list", "groceries", "item", "milk"), bottest.Say("Added milk."))

// both runs the test in a bubble and outside of one.
func both(t *testing.T, cfg func() bottest.Config, f func(t *testing.T, kit *bottest.Kit)) {
	t.Helper()
	t.Run("bubble", func(t *testing.T) {
		t.Parallel()
		bottest.Test(t, cfg(), f)
	})
	t.Run("loopback", func(t *testing.T) {
		t.Parallel()
		f(t, bottest.New(t, cfg()))
	})
}
