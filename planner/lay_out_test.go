package planner_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner"
	"github.com/planbot-go/planbot/planner/plan"
	"github.com/planbot-go/planbot/prompts"
	"github.com/planbot-go/planbot/state"
)

// bounded makes a planner of each kind whose prompt has at most so many tokens.
func bounded(t *testing.T, tokens int, model models.Model) map[string]interface {
	shower
	Plan(ctx context.Context, turn *actions.Turn) (plan.Plan, error)
} {
	t.Helper()
	cfg := planner.Config{Model: model, Actions: vectorActions(t), Prompt: "own", Prompts: folder(t, map[string]string{
		"own/prompt.txt":  "Plan.",
		"own/config.json": fmt.Sprintf(`{"completion": {"max_input_tokens": %d}}`, tokens),
	})}
	sequence, err := planner.NewSequence(t.Context(), cfg)
	sequential, err2 := planner.NewSequential(t.Context(), cfg)
	cfg.Prompts = folder(t, map[string]string{
		"own/prompt.txt":   "Plan.",
		"own/config.json":  fmt.Sprintf(`{"completion": {"max_input_tokens": %d}}`, tokens),
		"own/actions.json": `[{"name": "addItem"}]`,
	})
	tools, err3 := planner.NewTools(t.Context(), cfg)
	if err := errors.Join(err, err2, err3); err != nil {
		t.Fatal(err)
	}
	return map[string]interface {
		shower
		Plan(ctx context.Context, turn *actions.Turn) (plan.Plan, error)
	}{"sequence": sequence, "sequential": sequential, "tools": tools}
}

// longTurn is a turn with five others before it.
func longTurn(t *testing.T) *actions.Turn {
	t.Helper()
	in := turn("what now? <|endoftext|>")
	for i := range 5 {
		p := fmt.Sprintf(`{"type":"plan","commands":[{"type":"DO","action":"addItem","entities":{"item":"eggs %d","list":"groceries"}},{"type":"SAY","response":"Added."}]}`, i)
		state.Of[prompts.History](in.Thread).Append(prompts.Turn{
			Messages: []prompts.Message{{Role: "user", Text: fmt.Sprint("add eggs ", i)}, {Role: "assistant", Text: p}},
		}, 0)
	}
	return in
}

// TestTheHistoryHasWhatIsLeft: never more in all than the prompt may have, whole
// turns, the newest ones.
func TestTheHistoryHasWhatIsLeft(t *testing.T) {
	t.Parallel()
	before := map[string]int{}
	for _, tokens := range []int{130, 170, 210, 260, 330, 3000} {
		for name, p := range bounded(t, tokens, &recorder{}) {
			messages := messagesOf(t, p, longTurn(t))
			size, people := 0, 0
			for _, m := range messages {
				size += prompts.Tokens(m.Text)
				for _, c := range m.Calls {
					size += prompts.Tokens(c.Name, c.Arguments)
				}
				if m.Role == "user" {
					people++
				}
			}
			if size > tokens || people < before[name] || tokens == 3000 && people != 6 {
				t.Errorf("%s, at most %d: %d tokens, %d turns, before %d", name, tokens, size, people, before[name])
			}
			before[name] = people
			if last := messages[len(messages)-1]; last.Text != "what now? <|endoftext|>" {
				t.Errorf("%s: the last message is %q", name, last.Text)
			}
			if people > 1 && !strings.Contains(messages[1].Text, fmt.Sprint("add eggs ", 6-people)) {
				t.Errorf("%s: of %d turns the first is %q", name, people, messages[1].Text)
			}
		}
	}
	for name, people := range before {
		if people != 6 {
			t.Errorf("%s: %d turns", name, people)
		}
	}
}

func TestAPromptThatCannotFitIsTooLong(t *testing.T) {
	t.Parallel()
	model := &recorder{}
	for name, p := range bounded(t, 12, model) {
		_, err := p.Plan(t.Context(), longTurn(t))
		fault, ok := errors.AsType[*models.Error](err)
		if !ok || fault.Kind != models.TooLong || !strings.Contains(err.Error(), "prompt needs ") {
			t.Errorf("%s: got %v", name, err)
		}
		if _, err := p.Messages(t.Context(), longTurn(t)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if len(model.asked) > 0 {
		t.Error("the model was asked all the same")
	}
}

// TestWhatWasRefusedCountsToo: a long answer that cannot run takes the place of
// history when the model is asked again.
func TestWhatWasRefusedCountsToo(t *testing.T) {
	t.Parallel()
	model := &recorder{answer: `{"type":"plan","commands":[{"type":"DO","action":"fly","entities":{"why":"` + strings.Repeat("so ", 60) + `"}}]}`}
	if _, err := bounded(t, 420, model)["sequence"].Plan(t.Context(), longTurn(t)); err == nil {
		t.Fatal("no error")
	}
	if len(model.asked) < 2 {
		t.Fatalf("asked %d times", len(model.asked))
	}
	for i, request := range model.asked {
		size := 0
		for _, m := range request.Messages {
			size += prompts.Tokens(m.Text)
		}
		if size > 420 {
			t.Errorf("call %d: %d tokens", i, size)
		}
	}
	if first, second := len(model.asked[0].Messages), len(model.asked[1].Messages); second >= first+2 {
		t.Errorf("%d messages, then %d", first, second)
	}
}

func TestAPromptActionThatCannotFitFails(t *testing.T) {
	t.Parallel()
	model := &recorder{}
	a := promptAction(t, model, map[string]string{
		"prompt.txt":  "{{$input}}",
		"config.json": `{"completion": {"max_input_tokens": 20}}`,
	})
	result := call(t, a, turn("x"), map[string]any{"input": strings.Repeat("so much ", 30)})
	if !result.Failed() || result.Text() != "the text is too long for the AI model" || len(model.asked) > 0 {
		t.Errorf("got %q after %d calls", result.Text(), len(model.asked))
	}
}
