package skills_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/connections"
	"github.com/planbot-go/planbot/internal/fakeconnection"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner"
	"github.com/planbot-go/planbot/planner/plan"
	"github.com/planbot-go/planbot/skills"
)

// scripter is a model that answers from a script and keeps what it was asked.
type scripter struct {
	answers []string // each an action and its entities
	tools   bool
	asked   []string
}

func (m *scripter) Complete(_ context.Context, r *models.Request) (*models.Response, error) {
	told := *r
	told.Messages = slices.Clone(r.Messages)
	for i := range told.Messages {
		told.Messages[i].WithSchema = ""
	}
	raw, err := json.Marshal(told)
	if err != nil {
		return nil, err
	}
	m.asked = append(m.asked, string(raw))
	action, entities, _ := strings.Cut(m.answers[0], " ")
	m.answers = m.answers[1:]
	if m.tools {
		return &models.Response{Calls: []models.Call{{ID: fmt.Sprint("c", len(m.asked)), Name: action, Arguments: entities}}, Finish: "tool_calls"}, nil
	}
	return &models.Response{Text: `{"type":"plan","commands":[{"type":"DO","action":"` + action + `","entities":` + entities + `}]}`, Finish: "stop"}, nil
}

// TestSkillsAndConnections: in one turn a model loads a skill, finds an action of a connection and plans
// it, in either order of the extensions.
func TestSkillsAndConnections(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"sequence", "tools"} {
		for _, skillsFirst := range []bool{true, false} {
			t.Run(fmt.Sprint(kind, skillsFirst), func(t *testing.T) {
				t.Parallel()
				r := provide(t, skills.ProviderConfig{Approve: []string{}}, &skills.Skill{Name: "release", Description: "How to release", Instructions: "First merge."})
				var all []actions.Connection
				for _, s := range fakeconnection.Services(5, 0) {
					all = append(all, s)
				}
				choice, err := connections.NewChoice(all, nil)
				if err != nil {
					t.Fatal(err)
				}
				if err := choice.Register(r.reg); err != nil {
					t.Fatal(err)
				}
				model := &scripter{tools: kind == "tools", answers: []string{
					`load_skill {"skillName":"release"}`, `findActions {"words":"merge pull request","connection":"code"}`,
					`code_merge_pull_request {"owner":"mia","repo":"bot","number":7}`, `read_skill_resource {"skillName":"release","resourceName":"none"}`,
				}}
				extensions := []actions.Extension{r.Provider, choice}
				if !skillsFirst {
					slices.Reverse(extensions)
				}
				planners := planner.Config{Model: model, Actions: r.reg, Extensions: extensions}
				p, err := planner.NewSequence(t.Context(), planners)
				if kind == "tools" {
					p, err = planner.NewTools(t.Context(), planners)
				}
				if err != nil {
					t.Fatal(err)
				}
				turn := r.turn("mia")
				turn.Text = "release the bot"
				for range 4 {
					made, err := p.Plan(t.Context(), turn)
					if err != nil || made.Commands[0].Kind != plan.Do {
						t.Fatalf("%+v, %v", made, err)
					}
					c := made.Commands[0]
					raw, err := json.Marshal(c.Entities)
					if err != nil {
						t.Fatal(err)
					}
					if _, err := r.call(turn, c.Action, string(raw)); err != nil {
						t.Fatal(err)
					}
					last := &turn.Rounds[len(turn.Rounds)-1].Outcomes[0]
					last.CallID = c.CallID
				}
				for text, has := range map[string][]bool{ // in each call of the model
					"How to release":                             {true, true, true, true},
					"load_skill":                                 {true, true, true, true},
					"First merge.":                               {false, true, true, true},
					"- code: Source code":                        {true, true, true, true},
					"by merge commit, squash or rebase":          {false, false, true, true},
					"You can plan these now":                     {false, false, true, true},
					"code_merge_pull_request got":                {false, false, false, true},
					"crm_list_contracts":                         {false, false, false, false},
					"Finds actions of other services. Those it ": {true, true, true, true},
				} {
					for n, want := range has {
						if strings.Contains(model.asked[n], text) != want {
							t.Errorf("call %d: %q is there: %t\n%s", n+1, text, !want, model.asked[n])
						}
					}
				}
			})
		}
	}
}
