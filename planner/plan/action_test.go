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

func addPlan(t *testing.T, w *workshop, name, text string) *actions.Action {
	t.Helper()
	a, err := w.load(t, text).AddAction(w.Registry, name, "does "+name)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestAPlanIsAnAction that models and other plans can call.
func TestAPlanIsAnAction(t *testing.T) {
	t.Parallel()
	w := newWorkshop()
	shout := addPlan(t, w, "shout", inPlan(`<function.upper input="$INPUT from $City"/>`))
	raw, err := json.Marshal(shout.Schema)
	want := `{"type":"object","properties":{"INPUT":{"type":"string"},"City":{"type":"string"}},"required":["INPUT","City"]}`
	if diff := cmp.Diff(want, string(raw)); diff != "" || err != nil || shout.Description != "does shout" {
		t.Errorf("%v, -want +got\n%s", err, diff)
	}
	p, err := plan.DecodeXML(inPlan(`<function.upper input="a"/>`, `<function.shout city="Oslo"/>`, `<function.shout city="Rome" setContextVariable="X"/>`, `<function.send input="$X"/>`, `<say>$X</say>`), "", w.Registry)
	if err != nil {
		t.Fatal(err)
	}
	got, err := p.Start(nil).Run(t.Context(), &actions.Turn{}, w.Registry)
	if want := "A FROM OSLO FROM ROME"; err != nil || got.Text() != want || w.ran[len(w.ran)-1] != "send "+want {
		t.Errorf("got %q, %v after %q", got.Text(), err, w.ran)
	}
}

// TestInputsHaveTypes: those of the entities that they fill.
func TestInputsHaveTypes(t *testing.T) {
	t.Parallel()
	w := newWorkshop()
	twice := addPlan(t, w, "twice", `{"commands":[{"type":"SAY","response":"$Numbers by $n"},{"type":"DO","action":"times","entities":{"list":"$NUMBERS","by":"$n"},"saveAs":"A"}]}`)
	raw, err := json.Marshal(twice.Schema.Properties)
	want := `{"Numbers":{"type":["null","array"],"items":{"type":"integer"}},"n":{"type":"integer"}}`
	if diff := cmp.Diff(want, string(raw)); diff != "" || err != nil {
		t.Fatalf("%v, -want +got\n%s", err, diff)
	}
	e := plan.Plan{Commands: commands(
		saved("A", "times", entities{"list": []any{json.Number("1")}}), do("twice", entities{"Numbers": "$A", "n": "5"}),
	)}.Start(nil)
	if got, err := e.Run(t.Context(), &actions.Turn{}, w.Registry); err != nil || got.Text() != "[2] by 5\n[10]" {
		t.Errorf("got %q, %v", got.Text(), err)
	}
	if property := w.All()[1].Schema.Properties["by"]; property.Default == nil {
		t.Error("the default of the inner action is gone")
	}
}

func TestMarksOfPlans(t *testing.T) {
	t.Parallel()
	w := newWorkshop()
	type marks struct {
		StateOnly, Destructive, Approval, Parallel bool
		Connection                                 string
	}
	for i, test := range []struct {
		steps string
		want  marks
	}{
		{`<function.upper input="x"/>`, marks{StateOnly: true, Parallel: true}},
		{`<function.upper input="x"/><function.times list="[]"/>`, marks{StateOnly: true}},
		{`<function.upper input="x"/><function.send input="x"/>`, marks{Parallel: true}},
		{`<function.upper input="x"/><function.erase/>`, marks{StateOnly: true, Destructive: true}},
		{`<function.pay/><function.erase/>`, marks{Destructive: true, Approval: true, Connection: "bank"}},
		{`<function.plan4/>`, marks{Destructive: true, Approval: true, Connection: "bank"}},
	} {
		a := addPlan(t, w, fmt.Sprint("plan", i), inPlan(test.steps))
		if got := (marks{a.StateOnly, a.Destructive, a.Approval, a.Parallel, a.Connection}); got != test.want {
			t.Errorf("%s: got %+v, want %+v", test.steps, got, test.want)
		}
	}
}

// TestApprovalOfAPlan is for the whole: whoever calls it asked, and nobody is
// asked within.
func TestApprovalOfAPlan(t *testing.T) {
	t.Parallel()
	w := newWorkshop()
	buy := addPlan(t, w, "buy", inPlan(`<function.upper input="x"/>`, `<function.pay/>`))
	_, err := w.load(t, inPlan(`<function.buy/>`)).Start(nil).Run(t.Context(), &actions.Turn{}, w.Registry)
	if !errors.Is(err, plan.ErrNeedsApproval) || len(w.ran) > 0 {
		t.Errorf("got %v after %q", err, w.ran)
	}
	got, err := buy.Call(t.Context(), &actions.Turn{}, nil)
	if err != nil || got.Text() != "paid" || len(w.ran) != 2 {
		t.Errorf("approved: got %q, %v after %q", got.Text(), err, w.ran)
	}
}

// told is an error with a reason that may be told.
type told string

func (e told) Error() string  { return "secret of " + string(e) }
func (e told) Reason() string { return string(e) }

// TestGateOfAPlan is asked before each call within, those of inner plans too.
func TestGateOfAPlan(t *testing.T) {
	t.Parallel()
	w := newWorkshop()
	addPlan(t, w, "inner", inPlan(`<function.upper input="x"/>`, `<function.send/>`))
	outer := addPlan(t, w, "outer", inPlan(`<function.inner/>`))
	var asked []string
	var refusal error
	turn := &actions.Turn{Gate: func(_ context.Context, c actions.Call) error {
		asked = append(asked, fmt.Sprint(c.Action.Name, c.Entities, c.Salvaged))
		if c.Action.Name == "send" {
			return refusal
		}
		return nil
	}}
	if _, err := outer.Call(t.Context(), turn, nil); err != nil || len(w.ran) != 2 {
		t.Errorf("%v after %q", err, w.ran)
	}
	if diff := cmp.Diff([]string{"innermap[] false", "uppermap[input:x] false", "sendmap[input:X] false"}, asked); diff != "" {
		t.Errorf("asked: -want +got\n%s", diff)
	}
	refusal = fmt.Errorf("hook: %w", told("not today"))
	got, err := outer.Call(t.Context(), turn, nil)
	if want := "step 1 of 2, inner: step 2 of 3, send: not today (done before: upper)"; err != nil || !got.Failed() || got.Text() != want {
		t.Errorf("got %q, %v, want %q", got.Text(), err, want)
	}
	refusal = errors.New("policy is broken")
	if _, err := outer.Call(t.Context(), turn, nil); !errors.Is(err, refusal) {
		t.Errorf("got %v", err)
	}
	if sent := strings.Count(strings.Join(w.ran, " "), "send"); sent != 1 {
		t.Errorf("sent %d times: %q", sent, w.ran)
	}
}

// TestDetailOfAPlan shows all that it does, to who is asked for approval.
func TestDetailOfAPlan(t *testing.T) {
	t.Parallel()
	w := newWorkshop()
	inner := addPlan(t, w, "inner", inPlan(`<function.upper input="$WHO"/>`, `<function.pay/>`))
	if want := "- upper input=\"$WHO\"\n- pay => OUTPUT_2\n- SAY \"$OUTPUT_2\""; inner.Detail != want {
		t.Errorf("got\n%s\nwant\n%s", inner.Detail, want)
	}
	outer := addPlan(t, w, "outer", inPlan(`<function.inner who="Mia"/>`, `<say>paid</say>`))
	if want := "- inner WHO=\"Mia\"\n  " + strings.ReplaceAll(inner.Detail, "\n", "\n  ") + "\n- SAY \"paid\""; outer.Detail != want {
		t.Errorf("got\n%s\nwant\n%s", outer.Detail, want)
	}
	last := outer
	for i := range 7 { // each calls the one before it ten times
		last = addPlan(t, w, fmt.Sprint("p", i), inPlan(strings.Repeat(fmt.Sprintf(`<function.%s who="x"/>`, last.Name), 10)))
	}
	if len(last.Detail) > 10_000 {
		t.Errorf("%d bytes", len(last.Detail))
	}
}

func TestAPlanFailsWithItsStep(t *testing.T) {
	t.Parallel()
	w := newWorkshop()
	addPlan(t, w, "inner", inPlan(`<function.upper input="x"/>`, `<function.send input="y"/>`, `<function.erase/>`))
	addPlan(t, w, "outer", inPlan(`<function.inner/>`))
	outer, _ := w.Lookup("outer")
	w.fail["send y"] = actions.Fail("no line")
	got, err := outer.Call(t.Context(), &actions.Turn{}, nil)
	if want := "step 1 of 2, inner: step 2 of 4, send: no line (done before: upper)"; err != nil || !got.Failed() || got.Text() != want {
		t.Errorf("got %q, %v, want %q", got.Text(), err, want)
	}
	broken := errors.New("cable cut")
	w.fail, w.errs["send y"] = nil, broken
	if _, err := outer.Call(t.Context(), &actions.Turn{}, nil); !errors.Is(err, broken) || !strings.Contains(err.Error(), "command 2, action send: cable cut") {
		t.Errorf("got %v", err)
	}
}

// TestAPlanThatFoundNothing says so, with all that the plan has in advance left out.
func TestAPlanThatFoundNothing(t *testing.T) {
	t.Parallel()
	w := newWorkshop()
	actions.Add(w.Registry, "close", "Closes", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) {
		return actions.Unchanged("Nothing is open."), nil
	})
	for text, c := range map[string]struct {
		said      string
		unchanged bool
	}{
		inPlan(`<function.close/>`, `<say>Closed.</say>`):                         {"Nothing is open.", true},
		inPlan(`<function.close setContextVariable="R"/>`, `<say>Well. $R</say>`): {"Well. Nothing is open.", true},
		inPlan(`<function.close/>`):                                               {"Nothing is open.", true},
		inPlan(`<function.close/>`, `<function.send input="x"/>`):                 {"Nothing is open.", true},
		inPlan(`<function.close setContextVariable="A"/>`, `<function.close setContextVariable="B"/>`, `<say>$A</say>`, `<say>$B</say>`): {"Nothing is open.\nNothing is open.", true},
		inPlan(`<function.upper input="a"/>`): {"A", false},
		inPlan(`<function.close setContextVariable="R"/>`, `<say>Closed.</say>`, `<say>Well. $R</say>`): {"Well. Nothing is open.", true},
	} {
		a := addPlan(t, w, fmt.Sprint("plan", len(w.All())), text)
		got, err := a.Call(t.Context(), &actions.Turn{}, map[string]any{})
		if err != nil || got.Text() != c.said || got.Unchanged() != c.unchanged {
			t.Errorf("%s: %q, unchanged %t, %v", text, got.Text(), got.Unchanged(), err)
		}
	}
}

func TestPlansDoNotCallThemselves(t *testing.T) {
	t.Parallel()
	w := newWorkshop()
	loop := plan.Plan{Commands: commands(do("loop", entities{}))}
	if _, err := loop.AddAction(w.Registry, "loop", ""); err == nil || !strings.Contains(err.Error(), "unknown_action") {
		t.Errorf("got %v", err)
	}
}

func TestAddPlanRefuses(t *testing.T) {
	t.Parallel()
	w := newWorkshop()
	p := w.load(t, inPlan(`<function.times list="$A" by="$N"/>`))
	for want, add := range map[string]func() (*actions.Action, error){
		"add plan send": func() (*actions.Action, error) { return p.AddAction(w.Registry, "send", "") },
		"add plan x y":  func() (*actions.Action, error) { return p.AddAction(w.Registry, "x y", "") },
		"no_plan":       func() (*actions.Action, error) { return plan.Plan{}.AddAction(w.Registry, "p", "") },
	} {
		if _, err := add(); err == nil || !strings.HasPrefix(err.Error(), "add plan ") || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if _, ok := w.Lookup("p"); ok {
		t.Error("it was added all the same")
	}
}
