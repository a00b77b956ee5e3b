package planner_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner"
)

// teller is a model that answers from a script and keeps what it was asked.
type teller struct {
	answers []models.Response
	asked   []models.Request
}

func (m *teller) Complete(_ context.Context, req *models.Request) (*models.Response, error) {
	kept := *req
	kept.Messages = slices.Clone(req.Messages)
	m.asked = append(m.asked, kept)
	if len(m.answers) == 0 {
		return nil, errors.New("not scripted")
	}
	next := m.answers[0]
	m.answers = m.answers[1:]
	return &next, nil
}

// calls is an answer with calls, each "id name arguments".
func calls(text string, list ...string) models.Response {
	r := models.Response{Text: text, Finish: models.FinishTools}
	for _, c := range list {
		parts := strings.SplitN(c, " ", 3)
		r.Calls = append(r.Calls, models.Call{ID: parts[0], Name: parts[1], Arguments: parts[2]})
	}
	return r
}

func text(s string) models.Response { return models.Response{Text: s, Finish: models.FinishStop} }

// toolActions has a plugin's functions beside plain ones.
func toolActions(t *testing.T) *actions.Registry {
	t.Helper()
	r := actions.New()
	type item struct {
		List  string   `json:"list"`
		Count int      `json:"count,omitempty"`
		Size  string   `json:"size,omitempty" enum:"s,m"`
		Tags  []string `json:"tags,omitempty"`
	}
	type none struct{}
	for _, name := range []string{"addItem", "Lists-clear", "Notes-clear", "Lists-show_all"} {
		actions.Add(r, name, "Does "+name, func(context.Context, *actions.Turn, item) (actions.Result, error) { return actions.Done, nil })
	}
	actions.Add(r, "ping", strings.Repeat("é", 600), func(context.Context, *actions.Turn, none) (actions.Result, error) { return actions.Done, nil })
	return r
}

// tools is the planner with a scripted model.
func tools(t *testing.T, cfg planner.ToolsConfig, answers ...models.Response) (*planner.Tools, *teller) {
	t.Helper()
	model := &teller{answers: answers}
	cfg.Model, cfg.Prompts = model, library(t)
	if cfg.Actions == nil {
		cfg.Actions = toolActions(t)
	}
	p, err := planner.NewTools(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p, model
}

// tail is the messages behind the first n, a line each.
func tail(messages []models.Message, n int) []string {
	var out []string
	for _, m := range messages[n:] {
		line := string(m.Role) + ":"
		if m.CallID != "" {
			line += " (" + m.CallID + ")"
		}
		if m.Text != "" {
			line += " " + m.Text
		}
		for _, c := range m.Calls {
			line += " [" + c.ID + " " + c.Name + " " + c.Arguments + "]"
		}
		out = append(out, line)
	}
	return out
}

const opening = 3 // the prompt, the situation, the person's text

func TestToolsNamesEveryFault(t *testing.T) {
	t.Parallel()
	cfg := planner.ToolsConfig{Choice: "always", MaxRounds: -1, Included: []string{"fly"}, Excluded: []string{"swim"}}
	_, err := planner.NewTools(t.Context(), cfg)
	want := "tools planner: no Model\nno Prompts\nno Actions\nno Choice \"always\"\nMaxRounds is negative"
	if err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
	cfg = planner.ToolsConfig{Included: cfg.Included, Excluded: cfg.Excluded}
	cfg.Model, cfg.Prompts, cfg.Actions = &teller{}, library(t), toolActions(t)
	_, err = planner.NewTools(t.Context(), cfg)
	want = "tools planner: no action \"fly\" to include or exclude\nno action \"swim\" to include or exclude"
	if err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
}

func TestToolsOffersTheActions(t *testing.T) {
	t.Parallel()
	p, model := tools(t, planner.ToolsConfig{Excluded: []string{"Notes-clear"}, OneCallAtMost: true}, text("Hi."))
	in := turn("hello")
	plan, err := p.Plan(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(planner.Plan{Commands: []planner.Command{say("Hi.")}, Prose: true}, plan); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
	asked := model.asked[0]
	var names []string
	for _, tool := range asked.Tools {
		names = append(names, tool.Name)
		if !json.Valid(tool.Schema) || !strings.Contains(string(tool.Schema), `"properties":{`) || len(tool.Description) > 1024 || tool.Strict {
			t.Errorf("tool %+v", tool)
		}
	}
	if diff := cmp.Diff([]string{"addItem", "Lists-clear", "Lists-show_all", "ping"}, names); diff != "" {
		t.Errorf("tools (-want +got):\n%s", diff)
	}
	if asked.Choice != models.ChoiceAuto || !asked.OneCallAtMost || asked.MaxTokens != 2000 || in.Usage.ModelCalls != 1 {
		t.Errorf("asked %+v, usage %+v", asked, in.Usage)
	}
	if got := asked.Messages[0].Text; strings.Contains(got, "addItem") || !strings.Contains(got, "function") {
		t.Errorf("prompt %q", got)
	}
}

// TestToolsPlansARound: calls become a plan, the next round sees what came of it.
func TestToolsPlansARound(t *testing.T) {
	t.Parallel()
	p, model := tools(t, planner.ToolsConfig{}, calls("I'll do it.", `a addItem {"list":"$5","count":1.50}`, "a Lists-clear ", " ping null"), text("Done it."))
	in := turn("go on")
	plan, err := p.Plan(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	// ids are made unique, numbers stay as they are written
	if len(plan.Commands) != 3 {
		t.Fatalf("plan %+v", plan)
	}
	_ = model
}

var errUnused = fmt.Errorf
