package bot_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/connections"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/internal/fakeconnection"
	"github.com/planbot-go/planbot/internal/fakemodel"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner"
)

// TestFoundActions: what the model finds it can plan in the same turn and the next, until the person
// clears the conversation.
func TestFoundActions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		model := fakemodel.Serve(t, wires.Listen())
		b := setup(t, func(c *bot.Config) {
			var all []actions.Connection
			for _, s := range fakeconnection.Services(5, 0) {
				all = append(all, s)
			}
			choice, err := connections.NewChoice(all, nil)
			must(t, err)
			must(t, choice.Register(c.Actions))
			openAI, err := models.NewOpenAI(models.OpenAIConfig{BaseURL: model.URL, Model: "fake", Transport: overWires})
			must(t, err)
			c.Planner, err = planner.NewSequence(t.Context(), planner.Config{Model: openAI, Actions: c.Actions, Extensions: []actions.Extension{choice}})
			must(t, err)
		})
		const definition = "by merge commit, squash or rebase"
		told := func(call int, want bool) {
			t.Helper()
			if all := model.Calls(); len(all) <= call || strings.Contains(all[call].Text(), definition) != want {
				t.Errorf("of %d calls, call %d tells of what was found: %t", len(all), call+1, !want)
			}
		}
		model.Says(
			plan(do("findActions", `{"words":"merge pull request"}`), say("Not said.")),
			plan(do("code_merge_pull_request", `{"owner":"mia","repo":"bot","number":7}`), say("Merged.")),
			plan(say("Hello.")),
		)
		b.say("merge number 7")
		b.expect("Merged.")
		told(0, false)
		told(1, true)
		b.say("hi")
		b.expect("Hello.")
		told(2, true)
		b.say("/reset")
		b.connector.Next(t)
		if kept := b.kept(); strings.Contains(kept, "code_merge_pull_request") {
			t.Errorf("kept %s", kept)
		}
		model.Says(plan(say("Hi again.")))
		b.say("hi")
		b.expect("Hi again.")
		told(3, false)
	})
}
