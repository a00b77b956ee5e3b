package plan_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/planner/plan"
)

// workshop is a registry whose actions note that they ran.
type workshop struct {
	*actions.Registry
	ran  []string
	fail map[string]actions.Result
	errs map[string]error
}

func newWorkshop() *workshop {
	w := &workshop{Registry: actions.New(), fail: map[string]actions.Result{}, errs: map[string]error{}}
	type text struct {
		Input string `json:"input" jsonschema:"a text"`
	}
	type numbers struct {
		List []int `json:"list"`
		By   int   `json:"by,omitempty" default:"2"`
	}
	actions.Add(w.Registry, "upper", "Makes a text large", func(_ context.Context, _ *actions.Turn, in text) (actions.Result, error) {
		return w.run("upper", actions.Text("%s", " "+strings.ToUpper(in.Input)+"\n"))
	}, actions.StateOnly, actions.Parallel)
	actions.Add(w.Registry, "times", "", func(_ context.Context, _ *actions.Turn, in numbers) (actions.Result, error) {
		for i := range in.List {
			in.List[i] *= in.By
		}
		return w.run("times", actions.JSON(in.List))
	}, actions.StateOnly)
	actions.Add(w.Registry, "send", "", func(_ context.Context, _ *actions.Turn, in text) (actions.Result, error) {
		return w.run("send "+in.Input, actions.Done)
	}, actions.Parallel)
	actions.Add(w.Registry, "erase", "", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) {
		return w.run("erase", actions.Done)
	}, actions.Destructive, actions.StateOnly)
	actions.Add(w.Registry, "pay", "", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) {
		return w.run("pay", actions.Text("paid"))
	}, actions.NeedsApproval)
	return w
}

func (w *workshop) run(what string, result actions.Result) (actions.Result, error) {
	if failed, ok := w.fail[what]; ok {
		return failed, nil
	}
	if err := w.errs[what]; err != nil {
		return actions.Result{}, err
	}
	w.ran = append(w.ran, what)
	return result, nil
}

func (w *workshop) load(t *testing.T, text string) plan.Plan {
	t.Helper()
	p, err := plan.Load([]byte(text), w.Registry)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestRunnerRuns an XML plan with other inputs each time, at once and step by
// step over JSON.
func TestRunnerRuns(t *testing.T) {
	t.Parallel()
	w := newWorkshop()
	p := w.load(t, inPlan(`<function.upper setContextVariable="A"/>`, `<function.send/>`, `<function.upper input="$a of $WHERE costs $$5" appendToResult="R"/>`, `<function.upper input="b" appendToResult="R"/>`))
	for _, in := range []map[string]any{{"INPUT": "x", "where": "y"}, {"INPUT": "$A", "WHERE": "z"}} {
		want := fmt.Sprintf("%s OF %s COSTS $5\nB", strings.ToUpper(in["INPUT"].(string)), strings.ToUpper(fmt.Sprint(in["where"], in["WHERE"])))
		want = strings.ReplaceAll(want, "<NIL>", "")
		r := plan.Runner{Actions: w.Registry}
		got, err := r.Run(t.Context(), &actions.Turn{}, plan.NewProgress(p, in))
		if err != nil || got.Text() != want {
			t.Errorf("got %q, %v, want %q", got.Text(), err, want)
		}
		e := plan.NewProgress(p, in)
		steps := 0
		for ; !e.Done(); steps++ {
			if _, err := r.Step(t.Context(), &actions.Turn{}, e); err != nil {
				t.Fatal(err)
			}
			raw, err := json.Marshal(e)
			kept := new(plan.Progress)
			if err = errors.Join(err, json.Unmarshal(raw, kept)); err != nil {
				t.Fatal(err)
			}
			e = kept
		}
		if got := e.Result().Text(); got != want || steps != 5 {
			t.Errorf("in %d steps: got %q, want %q", steps, got, want)
		}
	}
	want := []string{"upper", "send X", "upper", "upper"}
	if diff := cmp.Diff(want, w.ran[:4]); diff != "" {
		t.Error(diff)
	}
}

func TestRunnerResult(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		commands []plan.Command
		want     actions.Result
	}{
		"a value":                   {commands(saved("A", "times", entities{"list": []any{"1", json.Number("2")}}), say("$A")), actions.JSON([]int{2, 4})},
		"in words":                  {commands(saved("A", "times", entities{"list": []any{}}), say("It is $A.")), actions.Text("It is [].")},
		"texts, a line each":        {commands(say(" a "), do("send", entities{"input": "x"}), say("b")), actions.Text("a\nb")},
		"nothing says the last one": {commands(say("a"), do("upper", entities{"input": "x"})), actions.Text("a\nX")},
		"a DO alone":                {commands(do("times", entities{"list": []any{json.Number("3")}, "by": "3"})), actions.Text("[9]")},
		"nothing to tell":           {commands(do("send", entities{"input": "x"})), actions.Text("")},
	} {
		w := newWorkshop()
		r := plan.Runner{Actions: w.Registry}
		e := plan.NewProgress(plan.Plan{Commands: test.commands}, nil)
		got, err := r.Run(t.Context(), &actions.Turn{}, e)
		if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(actions.Result{})); diff != "" || err != nil {
			t.Errorf("%s: %v, -want +got\n%s", name, err, diff)
		}
		if again, err := r.Run(t.Context(), &actions.Turn{}, e); err != nil || again.Text() != got.Text() {
			t.Errorf("%s, run when it is done: %v, %v", name, again, err)
		}
		if step, err := r.Step(t.Context(), &actions.Turn{}, e); err != nil || step.Text() != "" {
			t.Errorf("%s, stepped when it is done: %v, %v", name, step, err)
		}
	}
}

// TestRunnerStaysAtWhatFails, with all that was saved, and goes on there.
func TestRunnerStaysAtWhatFails(t *testing.T) {
	t.Parallel()
	p := plan.Plan{Commands: commands(saved("A", "upper", entities{"input": "x"}), do("send", entities{"input": "$A"}), say("Sent $A."))}
	w := newWorkshop()
	r := plan.Runner{Actions: w.Registry}
	e := plan.NewProgress(p, nil)
	w.fail["send  X\n"] = actions.Fail("no line")
	got, err := r.Run(t.Context(), &actions.Turn{}, e)
	if want := "step 2 of 3, send: no line (done before: upper)"; err != nil || !got.Failed() || got.Text() != want || e.Next != 1 {
		t.Errorf("got %q, %v at %d, want %q", got.Text(), err, e.Next, want)
	}
	if step, err := r.Step(t.Context(), &actions.Turn{}, e); err != nil || step.Text() != "no line" || !step.Failed() || e.Next != 1 {
		t.Errorf("got %v, %v", step, err)
	}
	clear(w.fail)
	broken := errors.New("cable cut")
	w.errs["send  X\n"] = broken
	if _, err := r.Run(t.Context(), &actions.Turn{}, e); !errors.Is(err, broken) || err.Error() != "run plan: command 2, action send: cable cut" || e.Next != 1 {
		t.Errorf("got %v at %d", err, e.Next)
	}
	clear(w.errs)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Run(ctx, &actions.Turn{}, e); !errors.Is(err, context.Canceled) || e.Next != 1 {
		t.Errorf("got %v at %d", err, e.Next)
	}
	if got, err := r.Run(t.Context(), &actions.Turn{}, e); err != nil || got.Text() != "Sent  X\n." || cmp.Diff([]string{"upper", "send  X\n"}, w.ran) != "" {
		t.Errorf("got %q, %v after %q", got.Text(), err, w.ran)
	}
}

// TestRunnerRunsNothingOfWhatMayNotRun, however late in the plan it stands.
func TestRunnerRunsNothingOfWhatMayNotRun(t *testing.T) {
	t.Parallel()
	first := do("upper", entities{"input": "x"})
	for name, test := range map[string]struct {
		plan     plan.Plan
		approval bool // that is what it lacks
	}{
		"unknown":                  {plan.Plan{Commands: commands(first, do("fly", entities{}))}, false},
		"missing":                  {plan.Plan{Commands: commands(first, do("send", entities{}))}, false},
		"misfit":                   {plan.Plan{Commands: commands(first, do("times", entities{"list": "x"}))}, false},
		"too early":                {plan.Plan{Commands: commands(do("send", entities{"input": "$A"}), saved("A", "upper", entities{"input": "x"}))}, false},
		"needs approval":           {plan.Plan{Commands: commands(first, do("pay", entities{}))}, true},
		"destructive and salvaged": {plan.Plan{Commands: commands(first, do("erase", entities{})), Salvaged: true}, true},
	} {
		w := newWorkshop()
		r := plan.Runner{Actions: w.Registry}
		e := plan.NewProgress(test.plan, nil)
		_, err := r.Run(t.Context(), &actions.Turn{}, e)
		_, stepErr := r.Step(t.Context(), &actions.Turn{}, e)
		for _, err := range []error{err, stepErr} {
			var fault *plan.Fault
			if errors.Is(err, plan.ErrNeedsApproval) != test.approval || errors.As(err, &fault) == test.approval {
				t.Errorf("%s: got %v", name, err)
			}
		}
		if len(w.ran) > 0 || e.Next != 0 {
			t.Errorf("%s: ran %q", name, w.ran)
		}
	}
}

// TestRunnerChecksJustBefore the command what a variable made of its entities.
func TestRunnerChecksJustBefore(t *testing.T) {
	t.Parallel()
	w := newWorkshop()
	r := plan.Runner{Actions: w.Registry}
	e := plan.NewProgress(plan.Plan{Commands: commands(saved("A", "upper", entities{"input": "x"}), do("times", entities{"list": "$A"}))}, nil)
	got, err := r.Run(t.Context(), &actions.Turn{}, e)
	if err != nil || !got.Failed() || !strings.Contains(got.Text(), "step 2 of 2, times: entity list: want an array") || e.Next != 1 {
		t.Errorf("got %q, %v", got.Text(), err)
	}
}

// TestRunnerHandsOnWhatAModelHasToSee and goes on behind it.
func TestRunnerHandsOnWhatAModelHasToSee(t *testing.T) {
	t.Parallel()
	w := newWorkshop()
	actions.Add(w.Registry, "look", "", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) {
		return actions.Observe("a door"), nil
	})
	r := plan.Runner{Actions: w.Registry}
	e := plan.NewProgress(plan.Plan{Commands: commands(do("look", entities{}), say("Well."))}, nil)
	if got, err := r.Run(t.Context(), &actions.Turn{}, e); err != nil || !got.Observe() || got.Text() != "a door" || e.Next != 1 {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := r.Run(t.Context(), &actions.Turn{}, e); err != nil || got.Text() != "Well." {
		t.Errorf("got %v, %v", got, err)
	}
}
