package planner_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner"
	"github.com/planbot-go/planbot/planner/plan"
)

// formatOf is the format that a planner asks its model for.
func formatOf(t *testing.T, files map[string]string, change func(*planner.Config)) *models.Format {
	t.Helper()
	model := &recorder{answer: "Hi."}
	s, err := briefed(t, model, files, change)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Plan(t.Context(), turn("hello")); err != nil {
		t.Fatal(err)
	}
	return model.asked[0].Format
}

func TestTheModelIsHeldToTheFormat(t *testing.T) {
	t.Parallel()
	text := map[string]string{"prompt.txt": "Answer in JSON."}
	with := func(format string) *models.Format {
		return formatOf(t, text, func(cfg *planner.Config) { cfg.ResponseFormat = format })
	}
	if got := with("text"); got != nil {
		t.Errorf("text: %+v", got)
	}
	if diff := cmp.Diff(&models.Format{}, with("json_object")); diff != "" {
		t.Error(diff)
	}
	schema, grammar, _, err := plan.Schema(vectorActions(t), false)
	if err != nil {
		t.Fatal(err)
	}
	want := &models.Format{Name: "plan", Schema: schema, Loose: true, Grammar: grammar}
	for _, format := range []string{"", "json_schema"} {
		if diff := cmp.Diff(want, with(format)); diff != "" {
			t.Errorf("%q: %s", format, diff)
		}
	}
}

// TestTheSchemaIsOfWhatIsOffered, not of every action there is.
func TestTheSchemaIsOfWhatIsOffered(t *testing.T) {
	t.Parallel()
	got := formatOf(t, map[string]string{
		"prompt.txt": "Plan.", "actions.json": `[{"name":"addItem"}]`,
	}, func(*planner.Config) {})
	if s := string(got.Schema); got.Loose || !strings.Contains(s, `"addItem"`) || strings.Contains(s, `"createTicket"`) {
		t.Errorf("loose %v: %s", got.Loose, s)
	}
}

func TestTheSequentialPlannerAsksForNoJSON(t *testing.T) {
	t.Parallel()
	model := &recorder{answer: "Hi."}
	s, err := planner.NewSequential(t.Context(), planner.Config{Model: model, Prompts: library(t), Actions: vectorActions(t)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Plan(t.Context(), turn("hello")); err != nil {
		t.Fatal(err)
	}
	if format := model.asked[0].Format; format != nil {
		t.Errorf("%+v", format)
	}
}
