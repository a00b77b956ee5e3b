package plan_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/planner/plan"
)

func TestExecutionGoesOnAfterJSON(t *testing.T) {
	t.Parallel()
	e := plan.Plan{Commands: []plan.Command{
		{Kind: plan.Do, Action: "find", Entities: map[string]any{"who": "$WHO"}, SaveAs: "ID"},
		{Kind: plan.Do, Action: "close", Entities: map[string]any{"id": "$ID", "big": json.Number("12345678901234567890")}},
		{Kind: plan.Say, Response: "Closed $id for $$1."},
	}}.Start(map[string]any{"who": "Mia"})
	if got := command(t, e, 0).Entities["who"]; got != "Mia" {
		t.Errorf("input: got %v", got)
	}
	if err := e.Advance(actions.JSON(42)); err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	kept := new(plan.Progress)
	if err := json.Unmarshal(raw, kept); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"id": json.Number("42"), "big": json.Number("12345678901234567890")}
	if diff := cmp.Diff(want, command(t, kept, 1).Entities); diff != "" {
		t.Error(diff)
	}
	for range 2 {
		if kept.Done() {
			t.Fatal("done too early")
		}
		if got := command(t, kept, 2).Response; got != "Closed 42 for $1." {
			t.Errorf("got %q", got)
		}
		if err := kept.Advance(actions.Done); err != nil {
			t.Fatal(err)
		}
	}
	if !kept.Done() {
		t.Error("not done")
	}
	for _, bad := range []string{`{"plan":{"commands":[]},"next":1}`, `{"next":-1}`, `{"next":"x"}`} {
		if json.Unmarshal([]byte(bad), kept) == nil {
			t.Errorf("%s was read", bad)
		}
	}
}

func TestExecutionTogether(t *testing.T) {
	t.Parallel()
	do := func(action, entity, saveAs string) plan.Command {
		return plan.Command{Kind: plan.Do, Action: action, Entities: map[string]any{"e": []any{entity}}, SaveAs: saveAs}
	}
	say := plan.Command{Kind: plan.Say, Response: "hi"}
	for name, test := range map[string]struct {
		commands []plan.Command
		want     int
	}{
		"none":            {nil, 0},
		"one":             {[]plan.Command{do("p", "", ""), do("s", "", "")}, 1},
		"not parallel":    {[]plan.Command{do("s", "", ""), do("p", "", "")}, 1},
		"all":             {[]plan.Command{do("p", "", "A"), do("p", "", "B"), do("p", "$C", "")}, 3},
		"until a SAY":     {[]plan.Command{do("p", "", ""), do("p", "", ""), say}, 2},
		"a SAY":           {[]plan.Command{say, do("p", "", "")}, 1},
		"needs a result":  {[]plan.Command{do("p", "", "A"), do("p", "", ""), do("p", "x $a", "")}, 2},
		"replaces a name": {[]plan.Command{do("p", "", "A"), do("p", "", "a")}, 1},
	} {
		e := plan.Plan{Commands: test.commands}.Start(nil)
		got := e.Together(func(c plan.Command) bool { return c.Action == "p" })
		if got != test.want {
			t.Errorf("%s: got %d, want %d", name, got, test.want)
		}
	}
}

// TestExecutionTrims: results of XML plans are saved without white space around
// them, those of others as they are.
func TestExecutionTrims(t *testing.T) {
	t.Parallel()
	for trim, want := range map[bool]string{true: "[a  b]", false: "[ a  b\n]"} {
		p := plan.Plan{TrimResults: trim, Commands: []plan.Command{
			{Kind: plan.Do, Action: "find", SaveAs: "A"}, {Kind: plan.Say, Response: "[$A]"},
		}}
		e := p.Start(nil)
		if err := e.Advance(actions.Text(" a  b\n")); err != nil || command(t, e, 1).Response != want {
			t.Errorf("trim %v: got %q, %v", trim, command(t, e, 1).Response, err)
		}
	}
}

func command(t *testing.T, e *plan.Progress, i int) plan.Command {
	t.Helper()
	c, err := e.Command(i)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestWhatIsFilledInHasALimit(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", plan.MaxExpanded/2)
	e := plan.Plan{Commands: []plan.Command{
		{Kind: plan.Say, Response: "$A$A"},
		{Kind: plan.Say, Response: "$A$A$B"},
		{Kind: plan.Do, Action: "a", Entities: map[string]any{"x": "$A", "y": []any{"$A", "$B"}}},
		{Kind: plan.Do, Action: "a", Entities: map[string]any{"x": "$C"}},
	}}.Start(map[string]any{"A": long, "B": json.Number("1"), "C": []any{long, long}})
	for i, fits := range []bool{true, false, false, false} {
		if _, err := e.Command(i); (err == nil) != fits {
			t.Errorf("command %d: %v", i, err)
		}
	}
}
