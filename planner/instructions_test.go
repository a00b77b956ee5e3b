package planner_test

import (
	"context"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner"
)

const heddas = "You are Hedda. {{actions}} {{oops}} {{$user.name}}"

// TestInstructionsFollowThePrompt of every planner, as they are, before the skills.
func TestInstructionsFollowThePrompt(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"sequence", "sequential", "tools"} {
		ask := func(text string) models.Request {
			model := &teller{answers: []models.Response{prose("Hi.")}}
			cfg := planner.Config{
				Model: model, Actions: lookers(), Instructions: text,
				Extensions: []actions.Extension{&extension{extra: actions.Extra{Key: "k", Text: "There is a moon."}}},
			}
			if _, err := planned(t, name, cfg, turn("hi")); err != nil {
				t.Fatal(err)
			}
			return model.asked[0]
		}
		with, without := ask("\n"+heddas+" \n"), ask(" \n")
		const section = "\n\nInstructions, within the rules above:\n" + heddas
		const skills = "\n\nThere is a moon."
		for i, told := range []string{with.Messages[0].Text, with.Messages[0].WithSchema} {
			bare := []string{without.Messages[0].Text, without.Messages[0].WithSchema}[i]
			if want := strings.Replace(bare, skills, section+skills, 1); told != want || bare != "" && told == bare {
				t.Errorf("%s: told %q, want %q", name, told, want)
			}
		}
	}
}

func TestAPromptPlacesTheInstructions(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"sequence", "sequential", "tools"} {
		for _, c := range []struct{ prompt, instructions, want string }{
			{"Plan.\nWho: {{instructions}}\nWhat: {{actions}}", heddas, "Plan.\nWho: " + heddas + "\nWhat: look(at?: string) - Does look\njump(at?: string) - Does jump"},
			{"Plan. {{instructions}}", "", "Plan. "},
		} {
			model := &teller{answers: []models.Response{prose("Hi.")}}
			cfg := planner.Config{Model: model, Actions: lookers(), Instructions: c.instructions, Prompts: folder(t, map[string]string{name + "/prompt.txt": c.prompt})}
			if _, err := planned(t, name, cfg, turn("hi")); err != nil {
				t.Fatal(err)
			}
			if got := unclocked(model.asked[0].Messages[0].Text); got != c.want {
				t.Errorf("%s: got %q, want %q", name, got, c.want)
			}
		}
	}
}

// TestAPromptMayListTheExamples of the actions.
func TestAPromptMayListTheExamples(t *testing.T) {
	t.Parallel()
	acts, err := actions.Read(strings.NewReader(`[{"name":"look","examples":["look at {what...}","look\naround"],"parameters":{"properties":{"what":{"type":"string"}}}},{"name":"jump"}]`))
	if err != nil {
		t.Fatal(err)
	}
	model := &teller{answers: []models.Response{prose("Hi."), prose("Hi.")}}
	cfg := planner.Config{Model: model, Actions: acts, Prompts: folder(t, map[string]string{"sequence/prompt.txt": "Plan. {{actions}}\n{{examples}}"})}
	if _, err := planned(t, "sequence", cfg, turn("hi")); err != nil {
		t.Fatal(err)
	}
	if got := unclocked(model.asked[0].Messages[0].Text); !strings.HasSuffix(got, "\n- look at {what}: look\n- look around: look") {
		t.Errorf("got %q", got)
	}
}

// TestInstructionsCount: the history makes room for them, and what does not fit is not cut.
func TestInstructionsCount(t *testing.T) {
	t.Parallel()
	shown := func(tokens string, instructions string) (int, error) {
		p, err := planner.NewSequence(t.Context(), planner.Config{
			Model: models.Offline{}, Actions: lookers(), Instructions: instructions, Prompts: folder(t, map[string]string{
				"sequence/prompt.txt": "Plan. {{actions}}", "sequence/config.json": `{"completion":{"max_input_tokens":` + tokens + `}}`,
			}),
		})
		if err != nil {
			t.Fatal(err)
		}
		messages, err := p.Messages(t.Context(), longTurn(t))
		return len(messages), err
	}
	long := strings.Repeat("Look at the moon. ", 50)
	without, err := shown("400", "")
	if err != nil {
		t.Fatal(err)
	}
	if with, err := shown("400", long); err != nil || with >= without {
		t.Errorf("%d messages with instructions, %d without, %v", with, without, err)
	}
	if _, err := shown("200", long); err == nil {
		t.Error("what does not fit is told in part")
	}
}

func TestWrongInstructions(t *testing.T) {
	t.Parallel()
	_, err := planner.NewTools(t.Context(), planner.Config{
		Model: models.Offline{}, Actions: actions.New(), Instructions: "\xff",
		Functions: map[string]func(context.Context, *actions.Turn, []string) (any, error){
			"instructions": func(context.Context, *actions.Turn, []string) (any, error) { return "", nil },
		},
	})
	want := "tools planner: Functions: \"instructions\": the planner has a function of this name\nInstructions are not UTF-8"
	if err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
}
