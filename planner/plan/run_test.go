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
	}, actions.NeedsApproval, actions.NeedsToken("bank"))
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

// TestRunRuns an XML plan with other inputs each time.
func TestRunRuns(t *testing.T) {
	t.Parallel()
	w := newWorkshop()
	p := w.load(t, inPlan(`<function.upper setContextVariable="A"/>`, `<function.send/>`, `<function.upper input="$a of $WHERE costs $$5" appendToResult="R"/>`, `<function.upper input="b" appendToResult="R"/>`))
	for _, in := range []map[string]any{{"INPUT": "x", "where": "y"}, {"INPUT": "$A", "WHERE": "z"}} {
		want := fmt.Sprintf("%s OF %s COSTS $5\nB", strings.ToUpper(in["INPUT"].(string)), strings.ToUpper(fmt.Sprint(in["where"], in["WHERE"])))
		want = strings.ReplaceAll(want, "<NIL>", "")
		got, err := p.Start(in).Run(t.Context(), &actions.Turn{}, w.Registry)
		if err != nil || got.Text() != want {
			t.Errorf("got %q, %v, want %q", got.Text(), err, want)
		}
	}
	want := []string{"upper", "send X", "upper", "upper"}
	if diff := cmp.Diff(want, w.ran[:4]); diff != "" {
		t.Error(diff)
	}
}

func TestRunResult(t *testing.T) {
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
		e := plan.Plan{Commands: test.commands}.Start(nil)
		got, err := e.Run(t.Context(), &actions.Turn{}, w.Registry)
		if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(actions.Result{})); diff != "" || err != nil {
			t.Errorf("%s: %v, -want +got\n%s", name, err, diff)
		}
		if again, err := e.Run(t.Context(), &actions.Turn{}, w.Registry); err != nil || again.Text() != got.Text() {
			t.Errorf("%s, run when it is done: %v, %v", name, again, err)
		}
	}
}

// TestRunStaysAtWhatFails, with all that was saved, and goes on there.
func TestRunStaysAtWhatFails(t *testing.T) {
	t.Parallel()
	p := plan.Plan{Commands: commands(saved("A", "upper", entities{"input": "x"}), do("send", entities{"input": "$A"}), say("Sent $A."))}
	w := newWorkshop()
	e := p.Start(nil)
	w.fail["send  X\n"] = actions.Fail("no line")
	got, err := e.Run(t.Context(), &actions.Turn{}, w.Registry)
	if want := "step 2 of 3, send: no line (done before: upper)"; err != nil || !got.Failed() || got.Text() != want || e.Next != 1 {
		t.Errorf("got %q, %v at %d, want %q", got.Text(), err, e.Next, want)
	}
	clear(w.fail)
	broken := errors.New("cable cut")
	w.errs["send  X\n"] = broken
	if _, err := e.Run(t.Context(), &actions.Turn{}, w.Registry); !errors.Is(err, broken) || err.Error() != "run plan: command 2, action send: cable cut" || e.Next != 1 {
		t.Errorf("got %v at %d", err, e.Next)
	}
	clear(w.errs)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := e.Run(ctx, &actions.Turn{}, w.Registry); !errors.Is(err, context.Canceled) || e.Next != 1 {
		t.Errorf("got %v at %d", err, e.Next)
	}
	if got, err := e.Run(t.Context(), &actions.Turn{}, w.Registry); err != nil || got.Text() != "Sent  X\n." || cmp.Diff([]string{"upper", "send  X\n"}, w.ran) != "" {
		t.Errorf("got %q, %v after %q", got.Text(), err, w.ran)
	}
}

// TestRunRunsNothingOfWhatMayNotRun, however late in the plan it stands.
func TestRunRunsNothingOfWhatMayNotRun(t *testing.T) {
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
		e := test.plan.Start(nil)
		_, err := e.Run(t.Context(), &actions.Turn{}, w.Registry)
		var fault *plan.Fault
		if errors.Is(err, plan.ErrNeedsApproval) != test.approval || errors.As(err, &fault) == test.approval {
			t.Errorf("%s: got %v", name, err)
		}
		if len(w.ran) > 0 || e.Next != 0 {
			t.Errorf("%s: ran %q", name, w.ran)
		}
	}
}

// TestRunChecksJustBefore the command what a variable made of its entities.
func TestRunChecksJustBefore(t *testing.T) {
	t.Parallel()
	w := newWorkshop()
	e := plan.Plan{Commands: commands(saved("A", "upper", entities{"input": "x"}), do("times", entities{"list": "$A"}))}.Start(nil)
	got, err := e.Run(t.Context(), &actions.Turn{}, w.Registry)
	if err != nil || !got.Failed() || !strings.Contains(got.Text(), "step 2 of 2, times: entity list: want an array") || e.Next != 1 {
		t.Errorf("got %q, %v", got.Text(), err)
	}
}

// TestRunHandsOnWhatAModelHasToSee and goes on behind it.
func TestRunHandsOnWhatAModelHasToSee(t *testing.T) {
	t.Parallel()
	w := newWorkshop()
	actions.Add(w.Registry, "look", "", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) {
		return actions.Observe("a door"), nil
	})
	e := plan.Plan{Commands: commands(do("look", entities{}), say("Well."))}.Start(nil)
	if got, err := e.Run(t.Context(), &actions.Turn{}, w.Registry); err != nil || !got.Observe() || got.Text() != "a door" || e.Next != 1 {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := e.Run(t.Context(), &actions.Turn{}, w.Registry); err != nil || got.Text() != "Well." {
		t.Errorf("got %v, %v", got, err)
	}
}

// TestRunValidatesWithWhatIsSet: an input counts as what it is.
func TestRunValidatesWithWhatIsSet(t *testing.T) {
	t.Parallel()
	w := newWorkshop()
	p := plan.Plan{Commands: commands(do("TIMES", entities{"list": "$n"}))}
	if _, err := p.Start(map[string]any{"N": []any{json.Number("2")}}).Run(t.Context(), &actions.Turn{}, w.Registry); err != nil || len(w.ran) != 1 {
		t.Errorf("ran %q, %v", w.ran, err)
	}
	var fault *plan.Fault
	if _, err := p.Start(map[string]any{"M": "2"}).Run(t.Context(), &actions.Turn{}, w.Registry); !errors.As(err, &fault) {
		t.Errorf("got %v", err)
	}
}
