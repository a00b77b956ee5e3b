package planner_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
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
	schema, grammar, _, err := plan.Schema(vectorActions(t))
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

func TestJSONObjectNeedsTheWord(t *testing.T) {
	t.Parallel()
	for prompt, want := range map[string]string{
		"Plan.":             "sequence planner: prompt own: the response format json_object needs the word JSON in it",
		"Plan as json.":     "",
		"Plan, {{$input}}.": "", // as the turn has it
	} {
		_, err := briefed(t, &recorder{}, map[string]string{"prompt.txt": prompt}, func(cfg *planner.Config) { cfg.ResponseFormat = "json_object" })
		if err == nil && want != "" || err != nil && err.Error() != want {
			t.Errorf("%s: %v", prompt, err)
		}
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

// TestActionsThatSpoilAStrictSchemaAreNamed once, at the start.
func TestActionsThatSpoilAStrictSchemaAreNamed(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	reg := actions.New()
	offer[worded](reg, "fine")
	offer[labelled](reg, "open")
	cfg := planner.Config{Model: &recorder{}, Prompts: library(t), Actions: reg}
	if _, err := planner.NewSequence(zerolog.New(&log).WithContext(t.Context()), cfg); err != nil {
		t.Fatal(err)
	}
	if want := `{"level":"info","actions":["open"],"message":"the schema of plans is not strict"}` + "\n"; log.String() != want {
		t.Errorf("got %s", &log)
	}
}

type worded struct {
	Text string `json:"text"`
}

type labelled struct {
	Labels map[string]string `json:"labels"`
}
