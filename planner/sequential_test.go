package planner_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/internal/fakemodel"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner"
	"github.com/planbot-go/planbot/planner/plan"
	"github.com/planbot-go/planbot/prompts"
	"github.com/planbot-go/planbot/state"
)

// sequential is the planner with a fake model, and a turn to plan.
func sequential(t *testing.T, maxRepairs int) (*planner.Planner, *fakemodel.Server, *actions.Turn) {
	t.Helper()
	fake := fakemodel.New(t)
	model, err := models.NewOpenAI(models.OpenAIConfig{BaseURL: fake.URL, Model: "fake"})
	if err != nil {
		t.Fatal(err)
	}
	library, err := prompts.Load("")
	if err != nil {
		t.Fatal(err)
	}
	s, err := planner.NewSequential(t.Context(), planner.Config{Model: model, Prompts: library, Actions: xmlActions(t), MaxRepairs: maxRepairs})
	if err != nil {
		t.Fatal(err)
	}
	scope := state.NewScope()
	a := &activity.Activity{Type: activity.Message, Text: "wipe it"}
	return s, fake, &actions.Turn{Activity: a, Text: a.Text, Conversation: scope, Thread: scope, User: scope, Temp: scope}
}

// TestAnEmptyPlanIsAnAnswer: Semantic Kernel's prompt asks for it where no function fits.
func TestAnEmptyPlanIsAnAnswer(t *testing.T) {
	t.Parallel()
	for _, answer := range []string{"<plan />", "<plan>\n  <!-- there is nothing for it -->\n</plan>\n<!-- END -->"} {
		s, fake, turn := sequential(t, 0)
		fake.Says(answer)
		p, err := s.Plan(t.Context(), turn)
		want := []plan.Command{{Kind: plan.Say, Response: "Sorry, I can't do that with the actions I have."}}
		if diff := cmp.Diff(want, p.Commands); diff != "" || err != nil || len(fake.Calls()) != 1 {
			t.Errorf("%s: %v after %d calls, -want +got\n%s", answer, err, len(fake.Calls()), diff)
		}
	}
}

// TestThePromptOfSemanticKernel names its variables as Semantic Kernel does.
func TestThePromptOfSemanticKernel(t *testing.T) {
	t.Parallel()
	for _, names := range [][2]string{{"available_functions", "input"}, {"AVAILABLE_FUNCTIONS", "INPUT"}} {
		library := folder(t, map[string]string{
			"sequential/skprompt.txt": "Make a plan in XML.\n[FUNCTIONS]\n{{$" + names[0] + "}}\n[END]\n<goal>{{$" + names[1] + "}}</goal>",
		})
		model := &recorder{answer: "<plan />"}
		s, err := planner.NewSequential(t.Context(), planner.Config{Model: model, Prompts: library, Actions: xmlActions(t)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Plan(t.Context(), turn("write a poem")); err != nil {
			t.Fatal(err)
		}
		want := "[FUNCTIONS]\n" + plan.Manual(xmlActions(t)) + "\n[END]\n<goal>write a poem</goal>"
		if got := model.asked[0].Messages[0].Text; !strings.Contains(got, want) {
			t.Errorf("%v: the prompt lacks %s:\n%s", names, want, got)
		}
	}
}

func TestUnknownVariablesOfAPrompt(t *testing.T) {
	t.Parallel()
	library := folder(t, map[string]string{"sequential/prompt.txt": "{{$functions}} {{$input}} {{$temp.mood}}"})
	_, err := planner.NewSequential(t.Context(), planner.Config{Model: &recorder{}, Prompts: library, Actions: xmlActions(t)})
	want := "no variable $functions, have $input, $available_functions; write $conversation.functions, $user.functions or $temp.functions"
	if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "mood") {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestSequentialRepairs(t *testing.T) {
	t.Parallel()
	s, fake, turn := sequential(t, 0)
	fake.Says("<plan><function.whipe/></plan>", "<plan><function.wipe/>", "<plan><function.wipe/></plan>")
	p, err := s.Plan(t.Context(), turn)
	if err != nil || len(p.Commands) != 2 || p.Commands[0].Action != "wipe" {
		t.Fatalf("%+v, %v", p, err)
	}
	calls := fake.Calls()
	for i, want := range []string{"", `unknown_action: command 1: there is no action "whipe"`, "truncated: the text ends"} {
		if last := calls[i].Last("system"); !strings.Contains(last, want) {
			t.Errorf("call %d: %q does not say %q", i+1, last, want)
		}
	}
	if last := calls[2].Last("assistant"); last != "<plan><function.wipe/>" {
		t.Errorf("the model sees %q as its last answer", last)
	}
	if turn.Usage.ModelCalls != 3 || turn.Usage.PromptTokens != 30 {
		t.Errorf("usage %+v", turn.Usage)
	}
}

func TestSequentialGivesUp(t *testing.T) {
	t.Parallel()
	for repairs, says := range map[int]int{-1: 1, 1: 2} {
		s, fake, turn := sequential(t, repairs)
		for range says {
			fake.Says("<plan>")
		}
		_, err := s.Plan(t.Context(), turn)
		var fault *plan.Fault
		if !errors.As(err, &fault) || fault.Kind != plan.Truncated || len(fake.Calls()) != says {
			t.Errorf("%d repairs: %v after %d calls", repairs, err, len(fake.Calls()))
		}
	}
}

func TestSequentialNeedsItsParts(t *testing.T) {
	t.Parallel()
	_, err := planner.NewSequential(context.Background(), planner.Config{})
	for _, part := range []string{"sequential planner", "no Model", "no Actions"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v does not say %q", err, part)
		}
	}
}

// TestSequentialMessages: the prompt, earlier turns as XML, the person's text
// alone.
func TestSequentialMessages(t *testing.T) {
	t.Parallel()
	s, _, turn := sequential(t, 0)
	history := state.Of[prompts.History](turn.Thread)
	for _, said := range [][]plan.Command{
		{do("createList", map[string]any{"list": `a "b" <c>`, "items": []any{"d & e"}}), say("Made <it> & more.\nWell.")},
		{say("Hi!"), say("Which <list>?")},
	} {
		history.Append(prompts.Turn{From: "u", Messages: []prompts.Message{
			{Role: "user", Text: `{"type":"plan"}`}, {Role: "assistant", Text: plan.Plan{Commands: said}.Transcript(0)},
		}}, 0)
	}
	kept := history.Turns[0].Messages[1].Text
	var got []string
	messages := messagesOf(t, s, turn)
	for _, m := range messages[1:] {
		if m.Role != "system" { // the time
			got = append(got, string(m.Role)+": "+m.Text)
		}
	}
	want := []string{
		`user: {"type":"plan"}`,
		"assistant: <plan>\n" + `  <function.createList items="[&quot;d &amp; e&quot;]" list="a &quot;b&quot; &lt;c>"/>` + "\n  <say>Made &lt;it> &amp; more.\nWell.</say>\n</plan>",
		`user: {"type":"plan"}`, "assistant: Hi!\nWhich <list>?", "user: wipe it",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if history.Turns[0].Messages[1].Text != kept {
		t.Error("the history itself was changed")
	}
	p, err := plan.DecodeXML(messages[2].Text, "", xmlActions(t))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(commands(do("createList", map[string]any{"list": `a "b" <c>`, "items": []any{"d & e"}}), say("Made <it> & more.\nWell.")), p.Commands); diff != "" {
		t.Errorf("what is shown reads otherwise: -want +got\n%s", diff)
	}
}

// answered makes a sequential planner of cfg, whose model answers with text, and
// plans with it.
func answered(t *testing.T, text string, cfg planner.Config) (plan.Plan, string, error) {
	t.Helper()
	library, err := prompts.Load("")
	if err != nil {
		t.Fatal(err)
	}
	model := &recorder{answer: text}
	cfg.Model, cfg.Prompts, cfg.Actions, cfg.MaxRepairs = model, library, xmlActions(t), -1
	s, err := planner.NewSequential(t.Context(), cfg)
	if err != nil {
		return plan.Plan{}, "", err
	}
	scope := state.NewScope()
	p, err := s.Plan(t.Context(), &actions.Turn{Activity: &activity.Activity{}, Conversation: scope, Thread: scope, User: scope, Temp: scope})
	return p, model.asked[0].Messages[0].Text, err
}

// TestExclude: what is excluded is not listed, and no plan may do it.
func TestExclude(t *testing.T) {
	t.Parallel()
	for word, gone := range map[string]string{
		"wipe": "wipe", "WIPE": "wipe", "writer": "Writer-Translate", "translate": "Writer-Translate",
		"Writer.translate": "Writer-Translate", "writer-Translate": "Writer-Translate",
	} {
		_, system, err := answered(t, inPlan("<function."+gone+` input="a" language="French"/>`), planner.Config{Exclude: []string{word}})
		var fault *plan.Fault
		if !errors.As(err, &fault) || fault.Kind != plan.UnknownAction {
			t.Errorf("without %s: got %v", word, err)
		}
		if strings.Contains(system, "\n"+gone+":") || !strings.Contains(system, "\nsummarize:") {
			t.Errorf("without %s the model is told\n%s", word, system)
		}
	}
	_, _, err := answered(t, "", planner.Config{Exclude: []string{"wipe", "whipe"}})
	if err == nil || !strings.Contains(err.Error(), `Exclude: there is no action "whipe"`) || strings.Contains(err.Error(), `action "wipe"`) {
		t.Errorf("got %v", err)
	}
}
