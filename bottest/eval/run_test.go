package eval_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/bottest/eval"
	"github.com/planbot-go/planbot/internal/fakemodel"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner"
	"github.com/planbot-go/planbot/planner/plan"
)

const (
	addMilk = `{"type":"plan","commands":[{"type":"DO","action":"addItem","entities":{"list":"groceries","item":"milk"}},{"type":"SAY","response":"Added milk."}]}`
	hello   = `{"type":"plan","commands":[{"type":"SAY","response":"Hello!"}]}`
)

// bundle is a sequence planner over HTTP, with cases: milk (en), eggs (de), hello (en).
type bundle struct {
	*testing.T
	model *fakemodel.Server
	cfg   eval.Config
}

func setup(t *testing.T) *bundle {
	t.Helper()
	t.Parallel()
	b := &bundle{T: t, model: fakemodel.New(t)}
	cases, err := eval.Read("f.yaml", []byte(`
cases:
- name: milk
  lang: en
  say: Add milk to the groceries.
  lists: {groceries: [bread]}
  want: [{addItem: {list: groceries, item: milk}}]
- name: eggs
  lang: de
  say: Und Eier!
  history:
  - {say: Milch auf die Liste!, did: [{addItem: {list: Einkauf, item: Milch}}], reply: Steht drauf.}
  want: [{addItem: {list: Einkauf, item: Eier}}]
- name: hello
  lang: en
  say: Hello!
  want: say
`), registry())
	if err != nil {
		t.Fatal(err)
	}
	b.cfg = eval.Config{Cases: cases, Sides: []eval.Side{b.side("a")}}
	return b
}

// priced is the model with a price of 1 for each token.
func priced(tb testing.TB, model models.Model) models.Model {
	tb.Helper()
	chain := &models.Chain{Models: []models.Model{model}, Retries: -1, Price: [3]float64{1e6, 1e6, 1e6}}
	return chain
}

func (b *bundle) side(name string) eval.Side {
	b.Helper()
	model, err := models.NewOpenAI(models.OpenAIConfig{BaseURL: b.model.URL, Model: name})
	if err != nil {
		b.Fatal(err)
	}
	side := eval.Side{Name: name, About: "model " + name, Actions: registry()}
	if side.Planner, err = planner.NewSequence(b.Context(), planner.Config{Model: priced(b, model), Actions: side.Actions}); err != nil {
		b.Fatal(err)
	}
	return side
}

func (b *bundle) run() *eval.Report {
	b.Helper()
	report, err := eval.Run(b.Context(), b.cfg)
	if err != nil {
		b.Fatal(err)
	}
	return report
}

func TestRun(t *testing.T) {
	b := setup(t)
	b.model.Says(addMilk, `{"type":"plan","commands":[{"type":"DO","action":"fly"}]}`, addMilk, hello)
	var progress []string
	b.cfg.Progress = func(done, all int) { progress = append(progress, fmt.Sprint(done, "/", all)) }
	report := b.run()
	calls := b.model.Calls()
	if len(calls) != 4 {
		t.Fatalf("%d calls", len(calls))
	}
	for i, want := range []string{
		"user: Add milk to the groceries.\n",
		"user: Milch auf die Liste!\nassistant: {\"type\":\"plan\",\"commands\":[{\"type\":\"DO\",\"action\":\"addItem\",\"entities\":{\"item\":\"Milch\",\"list\":\"Einkauf\"}},{\"type\":\"SAY\",\"response\":\"Steht drauf.\"}]}\n",
		"Your answer could not be used",
	} {
		if !strings.Contains(calls[i].Text(), want) {
			t.Errorf("call %d without %q:\n%s", i, want, calls[i].Text())
		}
	}
	all := report.Sides[0].All
	if all.Asked != 3 || all.Valid != 1 || all.Action != 1 || all.Entities != 0.66666667 || all.Unwanted != 0 || all.Calls != 1.33333333 {
		t.Errorf("all: %+v", all)
	}
	if report.Spent.ModelCalls != 4 || report.Spent.PromptTokens == 0 || report.Spent.Cost != float64(report.Spent.PromptTokens+report.Spent.CompletionTokens) || all.Cost != report.Spent.Cost {
		t.Errorf("spent %+v, cost of all %v", report.Spent, all.Cost)
	}
	var langs []string
	for _, row := range report.Sides[0].Languages {
		langs = append(langs, fmt.Sprint(row.Lang, row.Asked, row.Entities))
	}
	if diff := cmp.Diff([]string{"en2 1", "de1 0"}, langs); diff != "" {
		t.Error(diff)
	}
	if refused := report.Sides[0].Results[1].Refused; len(refused) != 1 || refused[0] != plan.UnknownAction {
		t.Errorf("refused %v", refused)
	}
	if got := strings.Join(progress, " "); got != "0/3 1/3 2/3 3/3" || report.Asked != 3 || report.Of != 3 || report.Stop != "" || report.Score() != all.Entities {
		t.Errorf("progress %s, asked %d of %d, stop %q", got, report.Asked, report.Of, report.Stop)
	}
}

// TestPlansThatCannotRun are told with their fault, and so is a model that fails.
func TestPlansThatCannotRun(t *testing.T) {
	b := setup(t)
	b.model.Says("{", "{", "{")
	b.model.Fails(http.StatusInternalServerError, "broken")
	b.model.Says(`Hello there!`)
	report := b.run()
	results := report.Sides[0].Results
	if r := results[0]; r.Valid || r.NoAnswer || len(r.Refused) != 3 || !strings.Contains(r.Fault, "decode plan: truncated") {
		t.Errorf("no plan: %+v", r)
	}
	if r := results[1]; r.Valid || !r.NoAnswer || !strings.Contains(r.Fault, "the fake fails") {
		t.Errorf("no answer: %+v", r)
	}
	if r := results[2]; !r.Valid || !r.Entities || r.Plan[0] != `say "Hello there!"` {
		t.Errorf("prose: %+v", r)
	}
	if all := report.Sides[0].All; all.Valid != 0.33333333 || all.NoAnswer != 1 {
		t.Errorf("all: %+v", all)
	}
}

// TestSilentModel: a side that answers nothing any more is given up, and not one that
// answers now and then.
func TestSilentModel(t *testing.T) {
	b := setup(t)
	b.cfg.Times = 4
	fail := func(n int) {
		for range n {
			b.model.Fails(http.StatusNotFound, "no_model")
		}
	}
	fail(4)
	b.model.Says(hello)
	fail(5)
	report, err := eval.Run(b.Context(), b.cfg)
	if err == nil || !strings.Contains(err.Error(), "the model gave no answer to 5 plans in a row: a at ") || report.Stop != "silent" || report.Asked != 10 || report.Sides[0].All.NoAnswer != 9 {
		t.Errorf("%v, %+v", err, report)
	}
}

// TestTooManyPlans: numbers that no machine can hold are refused or of no use, at once.
func TestTooManyPlans(t *testing.T) {
	b := setup(t)
	b.cfg.Times = 1 << 60
	if report, err := eval.Run(b.Context(), b.cfg); err == nil || report != nil {
		t.Errorf("%v, %+v", err, report)
	}
	b.cfg.Times, b.cfg.Concurrency = 1, 1<<60
	b.model.Says(addMilk, addMilk, hello)
	if report := b.run(); report.Asked != 3 {
		t.Errorf("%+v", report)
	}
}

func TestSidesAreAskedByTurns(t *testing.T) {
	b := setup(t)
	b.cfg.Times = 2
	b.cfg.Cases = b.cfg.Cases[:1]
	b.cfg.Sides = append(b.cfg.Sides, b.side("b"))
	b.model.Says(addMilk, hello, addMilk, addMilk)
	report := b.run()
	var asked string
	for _, call := range b.model.Calls() {
		asked += call.Model
	}
	if asked != "abab" {
		t.Errorf("asked %s", asked)
	}
	if a, b := report.Sides[0].All.Entities, report.Sides[1].All.Entities; a != 1 || b != 0.5 || report.Score() != 0.5 {
		t.Errorf("scores %v, %v and %v", a, b, report.Score())
	}
}

func TestLimits(t *testing.T) {
	b := setup(t)
	b.model.Says(addMilk)
	one := b.first(t).Spent
	for name, limit := range map[string]actions.Budget{
		"tokens": {Tokens: one.PromptTokens + one.CompletionTokens},
		"cost":   {Cost: one.Cost},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			b.cfg.Limit = limit
			b.model.Says(addMilk) // any other call fails the test
			if report := b.run(); report.Stop != "limit" || report.Asked != 1 || report.Sides[0].All.Action != 1 {
				t.Errorf("%+v", report)
			}
		})
	}
	t.Run("within a plan", func(t *testing.T) {
		b := setup(t)
		b.cfg.Limit = actions.Budget{Tokens: 1}
		b.model.Says("{")
		report := b.run()
		if report.Stop != "limit" || report.Asked != 0 || report.Spent.ModelCalls != 1 || len(report.Sides[0].Results) != 0 {
			t.Errorf("%+v", report)
		}
	})
}

// first asks the first case alone.
func (b *bundle) first(t *testing.T) *eval.Report {
	t.Helper()
	cfg := b.cfg
	cfg.Cases = cfg.Cases[:1]
	report, err := eval.Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func TestInterrupted(t *testing.T) {
	b := setup(t)
	b.model.Says(addMilk)
	asked := b.model.Waits()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		<-asked
		cancel()
	}()
	report, err := eval.Run(ctx, b.cfg)
	if err != nil || report.Stop != "interrupted" || report.Asked != 1 || report.Of != 3 || len(report.Sides[0].Results) != 1 {
		t.Errorf("%+v, %v", report, err)
	}
}

// TestWrongKey stops at once: no other call would be taken.
func TestWrongKey(t *testing.T) {
	b := setup(t)
	b.model.Says(addMilk)
	b.model.Fails(http.StatusUnauthorized, "invalid_api_key")
	report, err := eval.Run(t.Context(), b.cfg)
	if fault, ok := errors.AsType[*models.Error](err); !ok || fault.Kind != models.Auth || report.Stop != "refused" || report.Asked != 1 {
		t.Errorf("%+v, %v", report, err)
	}
}

func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	if report, err := eval.Run(t.Context(), eval.Config{}); err == nil || report != nil {
		t.Error("nothing to do is no fault")
	}
}

// slow is a planner that takes some time, and says nothing.
type slow struct{ takes []time.Duration }

func (s *slow) Plan(ctx context.Context, turn *actions.Turn) (plan.Plan, error) {
	var d time.Duration
	for i := range s.takes {
		if turn.Text == fmt.Sprint(i) {
			d = s.takes[i]
		}
	}
	select {
	case <-time.After(d):
	case <-ctx.Done():
		return plan.Plan{}, ctx.Err()
	}
	turn.Usage = actions.Usage{ModelCalls: 1, PromptTokens: 100, CompletionTokens: 10}
	return plan.Plan{Commands: []plan.Command{{Kind: plan.Say, Response: "Hi"}}}, nil
}

func slowCases(takes ...time.Duration) (cases []eval.Case, p *slow) {
	for i := range takes {
		cases = append(cases, eval.Case{Name: fmt.Sprint(i), Lang: "en", Say: fmt.Sprint(i), Want: [][]plan.Command{nil}})
	}
	return cases, &slow{takes}
}

func TestLatencyAndConcurrency(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var takes []time.Duration
		for i := range 20 {
			takes = append(takes, time.Duration(i+1)*time.Second)
		}
		cases, p := slowCases(takes...)
		began := time.Now()
		report, err := eval.Run(t.Context(), eval.Config{Cases: cases, Sides: []eval.Side{{Planner: p, Actions: registry()}}, Concurrency: 20})
		if err != nil || time.Since(began) != 20*time.Second {
			t.Errorf("took %s, %v", time.Since(began), err)
		}
		if all := report.Sides[0].All; all.P50 != 10 || all.P95 != 19 || all.Tokens != 110 || all.Entities != 1 {
			t.Errorf("%+v", all)
		}
		for i, r := range report.Sides[0].Results {
			if r.Case != fmt.Sprint(i) {
				t.Errorf("result %d is of case %s", i, r.Case)
			}
		}
	})
}

func TestTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cases, p := slowCases(time.Second, 3*time.Second, time.Second)
		report, err := eval.Run(t.Context(), eval.Config{Cases: cases, Sides: []eval.Side{{Planner: p, Actions: registry()}}, Timeout: 2 * time.Second})
		if err != nil || report.Asked != 3 || !report.Sides[0].Results[1].NoAnswer || report.Sides[0].All.Valid != 0.66666667 {
			t.Errorf("%+v, %v", report, err)
		}
	})
}

// rambling is a model whose answers are no plans. Each takes a little longer than the one
// before, so that no two end at once.
type rambling struct{ calls atomic.Int64 }

func (m *rambling) Complete(context.Context, *models.Request) (*models.Response, error) {
	time.Sleep(time.Second + time.Duration(m.calls.Add(1))*time.Millisecond)
	return &models.Response{Text: `{"type":"plan","commands":[{"type":"DO","action":"nope"}]}`, Usage: models.Usage{Prompt: 100, Completion: 20}}, nil
}

// TestLimitsOfPlansUnderWay: what these have used counts before each call, so that at most
// as many calls are made beyond the limit as may be under way when it is reached.
func TestLimitsOfPlansUnderWay(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ limit, concurrency, calls int }{
		{150, 1, 2}, {400, 1, 4}, {480, 1, 4}, {150, 4, 5}, {400, 4, 7}, {150, 10, 11}, {480, 10, 13}, {800, 10, 16},
	} {
		synctest.Test(t, func(t *testing.T) {
			cases, _ := slowCases(make([]time.Duration, 30)...)
			model := new(rambling)
			p, err := planner.NewSequence(t.Context(), planner.Config{Model: priced(t, model), Actions: registry()})
			if err != nil {
				t.Fatal(err)
			}
			for _, limit := range []actions.Budget{{Tokens: c.limit}, {Cost: float64(c.limit)}} {
				model.calls.Store(0)
				report, err := eval.Run(t.Context(), eval.Config{Cases: cases, Sides: []eval.Side{{Planner: p, Actions: registry()}}, Concurrency: c.concurrency, Limit: limit})
				if err != nil {
					t.Fatal(err)
				}
				calls := int(model.calls.Load())
				if spent := report.Spent; calls != c.calls || report.Stop != "limit" || spent.ModelCalls != calls || spent.PromptTokens+spent.CompletionTokens != 120*calls || spent.Cost != float64(120*calls) {
					t.Errorf("%+v, %d at once: %d calls, want %d; %+v", limit, c.concurrency, calls, c.calls, report)
				}
			}
		})
	}
}
