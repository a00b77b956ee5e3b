package planner_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner"
	"github.com/planbot-go/planbot/planner/plan"
)

// mute is a model whose first answers are empty, each in its own way.
type mute struct {
	empty []error
	asked []models.Request
}

func (m *mute) Complete(_ context.Context, req *models.Request) (*models.Response, error) {
	kept := *req
	kept.Messages = slices.Clone(req.Messages)
	m.asked = append(m.asked, kept)
	if len(m.empty) == 0 {
		return &models.Response{Text: "Here I am.", Finish: "stop", Usage: models.Usage{Prompt: 7, Completion: 3}}, nil
	}
	next := m.empty[0]
	m.empty = m.empty[1:]
	return nil, next
}

func nothing(code string) error {
	return &models.Error{Kind: models.Empty, Code: code, Usage: models.Usage{Prompt: 7, Completion: 100, Cost: 0.5}}
}

// TestEmptyAnswersAreRepaired, and paid for, in every planner.
func TestEmptyAnswersAreRepaired(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"sequence", "sequential", "tools"} {
		model, in := &mute{empty: []error{nothing(""), nothing("length")}}, turn("hello")
		p, err := planned(t, name, planner.Config{Model: model, Actions: vectorActions(t)}, in)
		if err != nil || len(p.Commands) != 1 || p.Commands[0].Response != "Here I am." {
			t.Fatalf("%s: %+v, %v", name, p, err)
		}
		if diff := cmp.Diff([]plan.FaultKind{plan.NoPlan, plan.Truncated}, p.Refused); diff != "" {
			t.Errorf("%s: refused (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(actions.Usage{ModelCalls: 3, PromptTokens: 21, CompletionTokens: 203, Cost: 1}, in.Usage); diff != "" {
			t.Errorf("%s: usage (-want +got):\n%s", name, diff)
		}
		told := model.asked[2].Messages
		for i, want := range []string{"no_plan: the answer is empty", "truncated: the answer was cut off"} {
			if m := told[len(told)-2+i]; m.Role != "system" || !strings.Contains(m.Text, want) {
				t.Errorf("%s: the model is told %+v, not %s", name, m, want)
			}
		}
	}
}

// TestEmptyAnswersEnd: after the repairs there is no plan, and no error of the model.
func TestEmptyAnswersEnd(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"sequence", "sequential", "tools"} {
		for code, want := range map[string]plan.FaultKind{"": plan.NoPlan, "length": plan.Truncated} {
			model := &mute{empty: []error{nothing(code), nothing(code), nothing(code)}}
			_, err := planned(t, name, planner.Config{Model: model, Actions: vectorActions(t)}, turn("hello"))
			if fault, ok := errors.AsType[*plan.Fault](err); !ok || fault.Kind != want || len(model.asked) != 3 {
				t.Errorf("%s: %v after %d calls", name, err, len(model.asked))
			}
		}
	}
}

// TestAPromptActionAsksAgainWhenTheAnswerIsEmpty, once.
func TestAPromptActionAsksAgainWhenTheAnswerIsEmpty(t *testing.T) {
	t.Parallel()
	for empty, want := range map[int]string{1: "Here I am.", 2: "the AI model had no answer"} {
		model, in := &mute{empty: slices.Repeat([]error{nothing("")}, empty)}, turn("x")
		result := call(t, promptAction(t, model, map[string]string{"prompt.txt": "{{$input}}"}), in, map[string]any{"input": "x"})
		if result.Text() != want || result.Failed() != (empty == 2) || in.Usage.ModelCalls != 2 {
			t.Errorf("%d empty: %q after %d calls, failed %v", empty, result.Text(), in.Usage.ModelCalls, result.Failed())
		}
	}
}
