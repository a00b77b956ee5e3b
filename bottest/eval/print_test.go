package eval_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/bottest/eval"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner/plan"
)

// scripted plans by the text that the person says.
type scripted struct {
	took  time.Duration
	price float64
	plans map[string][]plan.Command
}

func (s scripted) Plan(_ context.Context, turn *actions.Turn) (plan.Plan, error) {
	time.Sleep(s.took)
	turn.Usage = actions.Usage{ModelCalls: 1, PromptTokens: 90, CompletionTokens: 10, Cost: s.price}
	p, ok := s.plans[turn.Text]
	switch {
	case !ok:
		return plan.Plan{}, &plan.Fault{Kind: plan.Truncated, Detail: "it ends too soon\n\x1b[31m"}
	case p == nil:
		return plan.Plan{}, &models.Error{Kind: models.Unavailable, Err: errors.New("nobody is there")}
	}
	return plan.Plan{Commands: p}, nil
}

func do(action string, entities map[string]any) plan.Command {
	return plan.Command{Kind: plan.Do, Action: action, Entities: entities}
}

func say(text string) plan.Command { return plan.Command{Kind: plan.Say, Response: text} }

func compared(t *testing.T) *eval.Report {
	cases, err := eval.Read("f.yaml", []byte(`
cases:
- {name: milk, lang: en, say: Add "milk", want: [{addItem: {list: [a, b], item: milk}}], or: [[{createList: {list: a, items: [milk]}}]]}
- {name: hello, lang: en, say: Hello, want: say}
- {name: eggs, lang: de, say: Eier, want: [{addItem: {list: a, item: Eier}}]}
- {name: all, lang: de, say: Alles, want: [summarizeLists]}
`), registry())
	if err != nil {
		t.Fatal(err)
	}
	first := scripted{time.Second, 0.25, map[string][]plan.Command{
		`Add "milk"`: {do("addItem", map[string]any{"list": "c", "item": "milk\x1b[31m\u202e", "more": []any{json.Number("1"), map[string]any{"x": true}}}), say(strings.Repeat("Käse ", 100))},
		"Hello":      {say("Hi!")},
		"Alles":      nil,
	}}
	second := scripted{1500 * time.Millisecond, 0.125, map[string][]plan.Command{
		`Add "milk"`: {do("addItem", map[string]any{"list": "b", "item": "milk"})},
		"Hello":      {do("deleteList", map[string]any{"list": "a"})},
		"Eier":       {do("addItem", map[string]any{"list": "a", "item": "Eier"})},
		"Alles":      {{Kind: plan.Do, Action: "summarizeLists", SaveAs: "ALL"}, say("$ALL")},
	}}
	report, err := eval.Run(t.Context(), eval.Config{Cases: cases, Times: 2, Sides: []eval.Side{
		{Name: "a", About: "one", Planner: first, Actions: registry()},
		{Name: "b", About: "another", Planner: second, Actions: registry()},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func TestPrint(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		if err := compared(t).Print(&out); err != nil {
			t.Fatal(err)
		}
		want := `a: one
b: another

        plans  valid  action  entities  unwanted  calls  tokens     p50     p95      cost
en   a      4   100%    100%       50%        0%   1.00     100   1.00s   1.00s    1.0000
     b      4   100%     50%       50%       50%   1.00     100   1.50s   1.50s    0.5000
de   a      4     0%      0%        0%        0%   1.00     100   1.00s   1.00s    1.0000
     b      4   100%    100%      100%        0%   1.00     100   1.50s   1.50s    0.5000
all  a      8    50%     50%       25%        0%   1.00     100   1.00s   1.00s    2.0000
     b      8   100%     75%       75%       25%   1.00     100   1.50s   1.50s    1.0000

milk (en): "Add \"milk\""
  wanted   addItem item="milk" list=["a","b"]
  or       createList items=["milk"] list="a"
  a        addItem item="milk\x1b[31m\u202e" list="c" more=[1,{"x":true}]; say "` + strings.Repeat("Käse ", 31) + `… (2 times)
  b        right

hello (en): "Hello"
  wanted   say
  a        right
  b        deleteList list="a" (unwanted: deleteList) (2 times)

eggs (de): "Eier"
  wanted   addItem item="Eier" list="a"
  a        decode plan: truncated: it ends too soon\n\x1b[31m (2 times)
  b        right

all (de): "Alles"
  wanted   summarizeLists
  a        model unavailable: nobody is there (2 times)
  b        right

16 of 16 plans, 16 calls of models, 1440 + 160 tokens, cost 3.0000
a: no answer from the model to 2 of the plans, which count as wrong
`
		if diff := cmp.Diff(want, out.String()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestPrintOneSide(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cases, p := slowCases(time.Second, time.Second)
		cases[1].Want = [][]plan.Command{{{Kind: plan.Do, Action: "summarizeLists"}}}
		cfg := eval.Config{Cases: cases, Sides: []eval.Side{{Name: "a", About: "slow", Planner: p, Actions: registry()}}}
		cfg.Times, cfg.Limit.Tokens = 2, 300
		report, err := eval.Run(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		if err := report.Print(&out); err != nil {
			t.Fatal(err)
		}
		want := `a: slow

       plans  valid  action  entities  unwanted  calls  tokens     p50     p95      cost
en         3   100%     67%       67%        0%   1.00     110   1.00s   1.00s         -
all        3   100%     67%       67%        0%   1.00     110   1.00s   1.00s         -

1 (en): "1"
  wanted   summarizeLists
  came     say "Hi"

3 of 4 plans, 3 calls of models, 300 + 30 tokens
stopped: limit
`
		if diff := cmp.Diff(want, out.String()); diff != "" {
			t.Error(diff)
		}
	})
}

// TestPriceOfOneSide: what the other one costs is not known.
func TestPriceOfOneSide(t *testing.T) {
	t.Parallel()
	cases, _ := slowCases(0)
	side := func(name string, price float64) eval.Side {
		return eval.Side{Name: name, Planner: scripted{0, price, map[string][]plan.Command{"0": {say("Hi!")}}}, Actions: registry()}
	}
	for name, c := range map[string]struct {
		sides []eval.Side
		cells [2]string
		end   string
	}{
		"first":  {[]eval.Side{side("a", 0.5), side("b", 0)}, [2]string{"0.5000", "-"}, "cost 0.5000; of b no price is known"},
		"second": {[]eval.Side{side("a", 0), side("b", 0.5)}, [2]string{"-", "0.5000"}, "cost 0.5000; of a no price is known"},
		"both":   {[]eval.Side{side("a", 0.5), side("b", 0.25)}, [2]string{"0.5000", "0.2500"}, "cost 0.7500"},
		"none":   {[]eval.Side{side("a", 0), side("b", 0)}, [2]string{"-", "-"}, "180 + 20 tokens"},
	} {
		report, err := eval.Run(t.Context(), eval.Config{Cases: cases, Sides: c.sides})
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		if err := report.Print(&out); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(out.String(), "\n")
		for i, want := range c.cells {
			if !strings.HasSuffix(lines[i+4], " "+want) || !strings.HasSuffix(lines[i+6], " "+want) {
				t.Errorf("%s: want %s in line %d and %d of\n%s", name, want, i+4, i+6, &out)
			}
		}
		if !strings.HasSuffix(out.String(), c.end+"\n") {
			t.Errorf("%s: want %s at the end of\n%s", name, c.end, &out)
		}
	}
}

func TestReportAsJSON(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		raw, err := json.Marshal(compared(t))
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			Asked, Of int
			Spent     map[string]float64
			Sides     []struct {
				Name      string
				All       map[string]float64
				Languages []map[string]any
				Results   []map[string]any
			}
		}
		if err := json.Unmarshal(raw, &got); err != nil {
			t.Fatal(err)
		}
		if got.Asked != 16 || got.Of != 16 || got.Spent["modelCalls"] != 16 || got.Spent["cost"] != 3 || len(got.Sides) != 2 {
			t.Errorf("%s", raw)
		}
		wantAll := map[string]float64{
			"asked": 8, "noAnswer": 2, "valid": 0.5, "action": 0.5, "entities": 0.25, "unwanted": 0,
			"modelCalls": 1, "tokens": 100, "p50": 1, "p95": 1, "cost": 2,
		}
		if diff := cmp.Diff(wantAll, got.Sides[0].All); diff != "" {
			t.Error(diff)
		}
		result := got.Sides[1].Results[2]
		wantResult := map[string]any{
			"case": "hello", "lang": "en", "plan": []any{`deleteList list="a"`}, "valid": true, "action": false, "entities": false,
			"unwanted": []any{"deleteList"}, "took": 1.5,
			"usage": map[string]any{"modelCalls": 1.0, "promptTokens": 90.0, "completionTokens": 10.0, "cost": 0.125},
		}
		if diff := cmp.Diff(wantResult, result); diff != "" {
			t.Error(diff)
		}
	})
}
