package bot_test

import (
	"context"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/bottest"
)

// TestWhatTheModelNamesItNeedNotSee holds results of [actions.Result.UnlessSaved] to both of
// their ways: into the plan by a name of the model's, else back to the model.
func TestWhatTheModelNamesItNeedNotSee(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, planner, plan string
		calls               int
		want                string
	}{
		{"saved", "sequence", plan(`{"type":"DO","action":"weigh","entities":{},"saveAs":"KG"}`, say("It is $KG.")), 1, "It is 7 kg."},
		{"not saved", "sequence", plan(do("weigh", `{}`), say("It is 9 kg.")), 2, "7 kg it is."},
		{"named", "sequential", `<plan><function.weigh setContextVariable="KG"/><say>It is $KG.</say></plan>`, 1, "It is 7 kg."},
		{"shown", "sequential", `<plan><function.weigh appendToResult="RESULT__KG"/></plan>`, 1, "7 kg"},
		{"without a name", "sequential", `<plan><function.weigh/></plan>`, 2, "7 kg it is."},
		{"handed on", "sequential", `<plan><function.weigh/><function.note/></plan>`, 2, "7 kg it is."},
	} {
		t.Run(c.planner+" "+c.name, func(t *testing.T) {
			t.Parallel()
			acts := actions.New()
			type note struct {
				Input string `json:"input"`
			}
			actions.Add(acts, "note", "Notes", func(context.Context, *actions.Turn, note) (actions.Result, error) {
				t.Error("went on with what the model has not seen")
				return actions.Done, nil
			})
			actions.Add(acts, "weigh", "Weighs", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) {
				return actions.Observe("7 kg").UnlessSaved(), nil
			})
			bottest.Test(t, bottest.Config{Actions: acts, Planner: c.planner}, func(t *testing.T, kit *bottest.Kit) {
				kit.Model.Says(c.plan)
				if c.calls == 2 {
					script{kit.Model, c.planner}.answers("7 kg it is.")
				}
				chat := kit.Personal("Mia")
				chat.Say("how heavy is it?")
				chat.Expect(c.want)
				calls := kit.Model.Calls()
				if len(calls) != c.calls || c.calls == 2 && !strings.Contains(calls[1].Prompt(), "weigh: 7 kg") {
					t.Errorf("%d calls of the model, want %d", len(calls), c.calls)
				}
			})
		})
	}
}
