package plans

import (
	"testing"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/planner/plan"
)

// TestPlanRunPlansOnce: what somebody types while the plan waits does not run it again, and a command that has the bot
// plan again does not end it.
func TestPlanRunPlansOnce(t *testing.T) {
	t.Parallel()
	r := &planRun{plan: plan.Plan{Commands: []plan.Command{
		{Kind: plan.Do, Action: "load_skill"}, {Kind: plan.Say, Response: "Loaded."}, {Kind: plan.Do, Action: "run_skill_script"}, {Kind: plan.Say, Response: "Done."},
	}}}
	in := func(id string, done ...string) *actions.Turn {
		turn := &actions.Turn{Activity: &activity.Activity{ID: id}}
		if len(done) > 0 {
			turn.Rounds = []actions.Round{{}}
		}
		for _, name := range done {
			turn.Rounds[0].Outcomes = append(turn.Rounds[0].Outcomes, actions.Outcome{Action: name, Text: "ok"})
		}
		return turn
	}
	for _, tt := range []struct {
		turn *actions.Turn
		want string
	}{
		{in("1"), r.plan.Outline()},
		{in("2"), "- SAY"},
		{in("1"), r.plan.Outline()}, // again, on fresh state
		{in("1", "load_skill"), "- SAY\n- run_skill_script\n- SAY"},
		{in("1", "load_skill", "run_skill_script"), "- SAY"},
	} {
		got, err := r.next(t.Context(), tt.turn)
		if err != nil || got.Outline() != tt.want {
			t.Errorf("got %q, want %q, %v", got.Outline(), tt.want, err)
		}
	}
}
