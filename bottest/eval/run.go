package eval

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/connections"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner/plan"
	"golang.org/x/sync/errgroup"
)

// Side is a planner to evaluate, with the actions that it may plan.
type Side struct {
	Name    string // such as "a"
	About   string // what it consists of, for people
	Planner interface {
		Plan(ctx context.Context, turn *actions.Turn) (plan.Plan, error)
	}
	Actions *actions.Registry
}

// maxSearches is how often a model may look for actions before its plan is judged, as in a chat.
const maxSearches = 3

// plan asks for a plan. One that does nothing but look for actions of services is not judged: the model
// plans again with what that finds.
func (s *Side) plan(ctx context.Context, turn *actions.Turn) (plan.Plan, error) {
	for {
		p, err := s.Planner.Plan(ctx, turn)
		if err != nil || len(turn.Rounds) == maxSearches {
			return p, err
		}
		round := actions.Round{Preface: p.Preface}
		for _, c := range p.Commands {
			if c.Kind != plan.Do {
				continue
			}
			a, ok := s.Actions.Lookup(c.Action)
			if !ok || a.Name != connections.FindActions {
				return p, nil
			}
			entities, err := a.Check(c.Entities)
			if err != nil {
				return p, nil // is judged as it is
			}
			result, err := a.Call(ctx, turn, entities)
			if err != nil {
				return plan.Plan{}, fmt.Errorf("look for actions: %w", err)
			}
			round.Outcomes = append(round.Outcomes, actions.Outcome{Action: c.Action, Entities: c.Entities, CallID: c.CallID, Text: result.Text(), Failed: result.Failed()})
		}
		if len(round.Outcomes) == 0 {
			return p, nil
		}
		turn.Rounds = append(turn.Rounds, round)
	}
}

// Config configures a run. Cases and Sides are required; the zero value of every other field is a
// working default.
type Config struct {
	Cases []testCase
	// Sides are asked in turn, case by case, so the results of a stopped run can be compared. The
	// first one is the baseline.
	Sides []Side
	// Times is how many times each case is asked. 0: once.
	Times int
	// Concurrency is how many cases are asked at once. 0: one. With more, latencies are those of a
	// model under load.
	Concurrency int
	// Timeout limits one plan, including all its model calls. 0: two minutes.
	Timeout time.Duration
	// Limit limits the cost of all sides together, counting finished and running plans. Once it is
	// used up, no model is asked again. Running calls, at most Concurrency, still finish.
	Limit actions.Budget
	// Progress is called with the number of finished plans, at first 0, and the total. Several
	// goroutines may call it, one at a time. nil: not called.
	Progress func(done, all int)
}

// The reasons to stop, see [Report].Stop.
const (
	limited     = "limit"
	interrupted = "interrupted"
	refused     = "refused"
	silent      = "silent"
)

const (
	// maxPlans bounds the plans of a run.
	maxPlans = 1_000_000
	// patience is how many plans in a row may go unanswered before a side is given up. Each may
	// have used all retries of the model.
	patience = 5
)

// Run asks for all plans and judges them. If it is stopped, it returns the results so far. An error
// about the Config comes without a report. If the model's server refuses every call or stops
// answering, the error comes with the report up to then.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	if len(cfg.Cases) == 0 || len(cfg.Sides) == 0 {
		return nil, errors.New("eval config: no Cases or no Sides")
	}
	cfg.Times, cfg.Concurrency = max(1, cfg.Times), max(1, cfg.Concurrency)
	cfg.Timeout = cmp.Or(cfg.Timeout, 2*time.Minute)
	if cfg.Times > maxPlans/len(cfg.Cases)/len(cfg.Sides) {
		return nil, fmt.Errorf("eval config: %d cases %d times are more than %d plans", len(cfg.Cases), cfg.Times, maxPlans)
	}
	r := &run{cfg: cfg, results: make([]*result, len(cfg.Cases)*cfg.Times*len(cfg.Sides)), unanswered: make([]int, len(cfg.Sides))}
	r.progress()
	workers, running := errgroup.WithContext(ctx)
	workers.SetLimit(cfg.Concurrency)
	for first := 0; first < len(r.results); first += len(cfg.Sides) {
		workers.Go(func() error { return r.askSides(running, first) })
	}
	err := workers.Wait()
	return newReport(r), err
}

func newReport(r *run) *Report {
	report := &Report{Asked: r.done, Of: len(r.results), Stop: r.stop, Spent: usage(r.spent), cases: r.cfg.Cases}
	for i, of := range r.cfg.Sides {
		side := sideReport{Name: of.Name, About: of.About, Results: []result{}}
		for at := i; at < len(r.results); at += len(r.cfg.Sides) {
			if r.results[at] != nil {
				side.Results = append(side.Results, *r.results[at])
			}
		}
		side.count()
		report.Sides = append(report.Sides, side)
	}
	return report
}

// run is a run in progress.
type run struct {
	cfg Config

	mu         sync.Mutex
	results    []*result // by case, time and side; nil: not asked
	done       int
	spent      actions.Usage
	stop       string // why no more plans may be asked for; the first reason counts
	unanswered []int  // plans in a row, by side
}

// askSides asks all sides for a plan of a case. Its error cancels the other calls.
func (r *run) askSides(ctx context.Context, first int) error {
	each := first / len(r.cfg.Sides)
	for i := range r.cfg.Sides {
		if r.over(ctx) {
			return nil
		}
		if err := r.ask(ctx, &r.cfg.Cases[each/r.cfg.Times], first, i); err != nil {
			return err
		}
	}
	return nil
}

// over reports whether no more plans may be asked for.
func (r *run) over(ctx context.Context) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.stop != "":
	case ctx.Err() != nil:
		r.stop = interrupted
	case r.afford() != nil:
		r.stop = limited
	}
	return r.stop != ""
}

// afford returns an error if the limit is used up. The caller holds mu.
func (r *run) afford() error {
	whole := actions.Turn{Usage: r.spent, Budget: r.cfg.Limit}
	return whole.Afford()
}

// ask asks one side for one plan. A plan that was stopped half-way has no result. The error ends
// the run.
func (r *run) ask(ctx context.Context, c *testCase, first, side int) error {
	timed, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	turn := c.turn()
	meter := r.meter()
	turn.Quota = meter
	began := time.Now()
	p, err := r.cfg.Sides[side].plan(timed, turn)
	came := &result{Case: c.Name, Lang: c.Lang, Took: rounded(time.Since(began).Seconds()), Usage: usage(turn.Usage)}
	_ = meter(turn.Usage) // counts the last call; the next plan checks the limit
	r.mu.Lock()
	defer r.mu.Unlock()
	if stop := reason(ctx, err); stop != "" {
		if r.stop = cmp.Or(r.stop, stop); r.stop == refused {
			return fmt.Errorf("the model's server takes no calls: %w", err)
		}
		return nil
	}
	came.read(p, err)
	if came.Valid {
		c.judge(p, r.cfg.Sides[side].Actions, began, came)
	}
	r.results[first+side] = came
	r.done++
	r.progress()
	r.unanswered[side]++
	if !came.NoAnswer {
		r.unanswered[side] = 0
	}
	if r.unanswered[side] == patience && r.stop == "" {
		r.stop = silent
		return fmt.Errorf("the model gave no answer to %d plans in a row: %s", patience, came.Fault)
	}
	return nil
}

// reason says whether the failure of one plan ends the run.
func reason(ctx context.Context, err error) string {
	fault, _ := errors.AsType[*models.Error](err)
	budget, _ := errors.AsType[*actions.BudgetError](err)
	switch {
	case err == nil:
		return ""
	case ctx.Err() != nil:
		return interrupted
	case budget != nil:
		return limited
	case fault != nil && (fault.Kind == models.Auth || fault.Kind == models.Quota):
		return refused
	}
	return ""
}

// meter adds up what one plan has used since the last call, and returns an error if the limit
// leaves it nothing.
func (r *run) meter() func(used actions.Usage) error {
	var counted actions.Usage
	return func(used actions.Usage) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.spent.ModelCalls += used.ModelCalls - counted.ModelCalls
		r.spent.PromptTokens += used.PromptTokens - counted.PromptTokens
		r.spent.CompletionTokens += used.CompletionTokens - counted.CompletionTokens
		r.spent.Cost += used.Cost - counted.Cost
		counted = used
		return r.afford()
	}
}

func (r *run) progress() {
	if r.cfg.Progress != nil {
		r.cfg.Progress(r.done, len(r.results))
	}
}

// textOfFault is the error including what the server said, which people evaluating a model want to
// see.
func textOfFault(err error) string {
	text := err.Error()
	if fault, ok := errors.AsType[*models.Error](err); ok && fault.Said != "" {
		text += ": " + fault.Said
	}
	return text
}
