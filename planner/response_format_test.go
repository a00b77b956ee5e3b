package planner_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner"
)

// formatOf is the format that a planner asks its model for.
func formatOf(t *testing.T, files map[string]string, change func(*planner.SequenceConfig)) *models.Format {
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
	with := func(format planner.ResponseFormat) *models.Format {
		return formatOf(t, text, func(cfg *planner.SequenceConfig) { cfg.ResponseFormat = format })
	}
	if got := with(planner.PlainText); got != nil {
		t.Errorf("text: %+v", got)
	}
	if diff := cmp.Diff(&models.Format{}, with(planner.JSONObject)); diff != "" {
		t.Error(diff)
	}
	schema, _, err := planner.PlanSchema(vectorActions(t))
	if err != nil {
		t.Fatal(err)
	}
	grammar, err := planner.PlanGrammar(vectorActions(t))
	if err != nil {
		t.Fatal(err)
	}
	want := &models.Format{Name: "plan", Schema: schema, Loose: true, Grammar: grammar}
	for _, format := range []planner.ResponseFormat{"", planner.JSONSchema} {
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
	}, func(*planner.SequenceConfig) {})
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
		_, err := briefed(t, &recorder{}, map[string]string{"prompt.txt": prompt}, func(cfg *planner.SequenceConfig) { cfg.ResponseFormat = planner.JSONObject })
		if err == nil && want != "" || err != nil && err.Error() != want {
			t.Errorf("%s: %v", prompt, err)
		}
	}
}

func TestTheSequentialPlannerAsksForNoJSON(t *testing.T) {
	t.Parallel()
	model := &recorder{answer: "Hi."}
	s, err := planner.NewSequential(t.Context(), planner.SequentialConfig{Model: model, Prompts: library(t), Actions: vectorActions(t)})
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
	offer[text](reg, "fine")
	offer[labelled](reg, "open")
	cfg := planner.SequenceConfig{Model: &recorder{}, Prompts: library(t), Actions: reg}
	if _, err := planner.NewSequence(zerolog.New(&log).WithContext(t.Context()), cfg); err != nil {
		t.Fatal(err)
	}
	if want := `{"level":"info","actions":["open"],"message":"the schema of plans is not strict"}` + "\n"; log.String() != want {
		t.Errorf("got %s", &log)
	}
}

type labelled struct {
	Labels map[string]string `json:"labels"`
}

// every has an entity of each kind.
type every struct {
	Text     string         `json:"text"`
	Size     string         `json:"size" enum:"S,L" default:"L"`
	Level    int            `json:"level,omitempty" enum:"1,2"`
	Count    *int           `json:"count,omitempty" default:"3"`
	Ratio    float64        `json:"ratio,omitempty"`
	Urgent   bool           `json:"urgent,omitempty"`
	Tags     []string       `json:"tags,omitempty"`
	At       time.Time      `json:"at,omitzero"`
	Labels   map[string]int `json:"labels,omitempty"`
	Any      any            `json:"any,omitempty"`
	Address  *address       `json:"address,omitempty"`
	Previous []address      `json:"previous,omitempty"`
}

type address struct {
	City string  `json:"city"`
	Zip  *string `json:"zip"`
	Kind string  `json:"kind,omitempty" enum:"home,work" default:"home"`
	Note string  `json:"note,omitempty"`
}

// TestNullIsAbsent: what a model writes that has to name every entity reaches the
// action as if it had named only those that have a value.
func TestNullIsAbsent(t *testing.T) {
	t.Parallel()
	var got every
	reg := actions.New()
	actions.Add(reg, "act", "", func(_ context.Context, _ *actions.Turn, in every) (actions.Result, error) {
		got = in
		return actions.Done, nil
	})
	_, compiled, _ := planSchema(t, reg)
	three, code := 3, "1050"
	for entities, want := range map[string]every{
		`{"text":"a","size":null,"level":null,"count":null,"ratio":null,"urgent":null,"tags":null,"at":null,"labels":null,"any":null,"address":null,"previous":null}`: {
			Text: "a", Size: "L", Count: &three,
		},
		`{"text":"a","size":"S","level":2,"count":3,"ratio":0.5,"urgent":true,"tags":["x"],"at":"2026-11-21T08:00:00Z","labels":{"a":1},"any":"b",` +
			`"address":{"city":"Wien","zip":"1050","kind":null,"note":null},"previous":[{"city":"Graz","zip":null,"kind":"work","note":"n"}]}`: {
			Text: "a", Size: "S", Level: 2, Count: &three, Ratio: 0.5, Urgent: true, Tags: []string{"x"}, Labels: map[string]int{"a": 1}, Any: "b",
			At:      time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC),
			Address: &address{City: "Wien", Zip: &code, Kind: "home"}, Previous: []address{{City: "Graz", Kind: "work", Note: "n"}},
		},
	} {
		written := `{"type":"plan","commands":[{"type":"DO","action":"act","entities":` + entities + `,"saveAs":null}]}`
		if err := compiled.Validate(reread(t, []byte(written))); err != nil {
			t.Errorf("%s does not follow the schema: %v", written, err)
		}
		if err := runnable(written, reg); err != nil {
			t.Error(err)
		}
		plan, err := planner.Decode(written)
		if err != nil {
			t.Fatal(err)
		}
		action, _ := reg.Lookup("act")
		checked, err := action.Check(plan.Commands[0].Entities)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := action.Call(t.Context(), turn(""), checked); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", entities, diff)
		}
	}
}
