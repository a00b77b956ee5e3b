package turn

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/planner/plan"
	"github.com/planbot-go/planbot/prompts"
	"github.com/planbot-go/planbot/state"
)

// This file holds two phases: planning asks the planner for the next plan, and running
// runs its commands up to the next point at which the record has to be saved.

var errNoCommands = errors.New("the planner made an empty plan")

// nothingToTell is said when a plan has nothing but empty results to say.
const nothingToTell = "Done."

// needHistory reads the conversation's history before anything is planned.
func (t *Turn) needHistory() error {
	state.Of[prompts.History](t.Thread)
	if err := t.Thread.Err(); err != nil {
		return fmt.Errorf("read history: %w", err)
	}
	return nil
}

// makePlan is the phase Planning: it asks the planner for the next plan. One that goes
// over a limit is not begun.
func (t *Turn) makePlan(ctx context.Context) error {
	err := t.nextPlan(ctx)
	if err == nil {
		t.rec.Phase, t.further = Running, true
		return nil
	}
	_, stopped := errors.AsType[*stopError](err)
	if t.untold() == "" || stopped || ctx.Err() != nil || t.leaves(err) {
		return err
	}
	zerolog.Ctx(ctx).Error().Str("error", cause(err)).Msg("asking the model again failed, sending the actions' own results instead")
	return t.tellUnchanged(ctx)
}

func (t *Turn) nextPlan(ctx context.Context) error {
	e, run := t.engine, t.rec.Run
	if t.Usage.Messages >= t.Budget.Messages {
		return &LimitError{Limit: LimitSays} // nothing that the model writes could be sent
	}
	p, err := t.askPlanner(ctx)
	if err != nil {
		e.meter.noPlan(err)
		return fmt.Errorf("plan: %w", err)
	}
	e.meter.plan(p)
	switch {
	case len(p.Commands) == 0:
		return fmt.Errorf("plan: %w", errNoCommands)
	case run.Steps+p.Calls() > e.cfg.MaxSteps:
		return &LimitError{Limit: LimitSteps}
	case t.Usage.Messages+p.Says() > t.Budget.Messages: // a planner of its own, or a hook
		return &LimitError{Limit: LimitSays}
	}
	run.Progress = plan.NewProgress(p, nil)
	t.Rounds = append(t.Rounds, actions.Round{Preface: p.Preface})
	if t.outside {
		return nil // what was done is not to be done again
	}
	t.rec.Phase = Running
	t.base, err = t.encode()
	return err
}

// askPlanner lets the planner make a plan, within the hook around it.
func (t *Turn) askPlanner(ctx context.Context) (p plan.Plan, err error) {
	ctx, s := step(ctx, "plan")
	defer func() { s.end(err) }()
	s.text("gen_ai.operation.name", "plan")
	ask := func(ctx context.Context) (plan.Plan, error) { return t.engine.cfg.Planner.Plan(ctx, t.Turn) }
	if hook := t.engine.cfg.Hooks.Plan; hook == nil {
		p, err = ask(ctx)
	} else if p, err = hook(ctx, t, ask); err == nil && len(p.Commands) > 0 {
		if p, err = plan.Validate(p, t.engine.cfg.Actions); err != nil {
			err = fmt.Errorf("hook Plan: %w", err)
		}
	}
	s.number("planbot.plan.commands", len(p.Commands))
	return p, err
}

// runCommands is the phase Running: it runs the commands that are left, in order, until
// the record has to be saved or the plan ends. The model has to see what happened when an
// action failed, when it asked for it, or when the last command put out something that
// nothing came after.
func (t *Turn) runCommands(ctx context.Context) error {
	p := t.rec.Run.Progress
	lastDo := p.Plan.LastDo()
	for !p.Done() {
		var err error
		switch {
		case p.Plan.Commands[p.Next].Kind == plan.Do:
			err = t.do(ctx)
		case p.Next > lastDo && !p.Owes():
			return t.sayLast(ctx)
		default:
			err = t.say(ctx)
		}
		if err != nil || t.unsaved || t.rec.Phase != Running {
			return err
		}
	}
	switch owes := p.Owes() && !p.Plan.Observe; {
	case owes && (t.rec.Run.Steps >= t.engine.cfg.MaxSteps || !t.withhold()):
		return t.tellUnchanged(ctx)
	case owes || p.Plan.Observe || t.lastOutcome().Text != "":
		return t.planAgain()
	}
	t.remember()
	t.rec.Run, t.rec.Phase = nil, Done
	return nil
}

// planAgain goes back to planning, with what was done until now.
func (t *Turn) planAgain() error {
	if t.rec.Run.Steps >= t.engine.cfg.MaxSteps {
		return &LimitError{Limit: LimitSteps}
	}
	t.rec.Run.Progress, t.rec.Phase, t.unsaved = nil, Planning, t.outside
	return nil
}

// say sends a SAY that other commands follow.
func (t *Turn) say(ctx context.Context) error {
	c, err := t.nextText(ctx)
	if err != nil || c.Response == "" {
		return err // or its variables are results with nothing to tell
	}
	t.rec.Run.Executed = append(t.rec.Run.Executed, c)
	t.note(actions.Outcome{Action: string(plan.Say), Text: c.Response})
	return t.put(ctx, c.Response)
}

// sayLast sends the SAYs that end a plan. The turn's place in the history is written with
// them, so that one save keeps all of the turn. Where all that was to be said are results
// with nothing to tell, it is said that they are done: no plan comes this far when
// anything failed.
func (t *Turn) sayLast(ctx context.Context) error {
	var texts []string
	for !t.rec.Run.Progress.Done() {
		c, err := t.nextText(ctx)
		if err != nil {
			return err
		}
		if c.Response != "" {
			t.rec.Run.Executed = append(t.rec.Run.Executed, c)
			texts = append(texts, c.Response)
		}
	}
	if len(texts) == 0 && !t.hushed {
		texts = []string{nothingToTell}
		t.rec.Run.Executed = append(t.rec.Run.Executed, plan.Command{Kind: plan.Say, Response: nothingToTell})
	}
	return t.conclude(ctx, texts...)
}

// conclude ends the plan with the texts.
func (t *Turn) conclude(ctx context.Context, texts ...string) error {
	t.remember()
	t.rec.Run, t.rec.Phase = nil, Done
	if len(texts) == 0 {
		return nil
	}
	return t.put(ctx, texts...)
}

// nextText takes the next command, a SAY, as it is to be said: with "" when there is
// nothing to say.
func (t *Turn) nextText(ctx context.Context) (plan.Command, error) {
	p := t.rec.Run.Progress
	if p.Withheld(p.Next) {
		zerolog.Ctx(ctx).Info().Msg("SAY withheld: an earlier command found nothing to act on")
		return plan.Command{}, p.Advance(actions.Done)
	}
	c, err := p.Command(p.Next)
	if err != nil {
		return c, &LimitError{Limit: LimitText}
	}
	if err := p.Advance(actions.Done); err != nil {
		return c, err
	}
	if strings.TrimSpace(c.Response) == "" {
		c.Response = ""
		return c, nil
	}
	t.Usage.Messages++
	c.Response, err = t.beforeSay(ctx, c.Response)
	return c, err
}

// withhold notes that the last plan left something untold, so that the model is asked for
// it. It is false when that was done in this turn before.
func (t *Turn) withhold() bool {
	if slices.ContainsFunc(t.Rounds, func(o actions.Round) bool { return o.Withheld }) {
		return false
	}
	t.Rounds[len(t.Rounds)-1].Withheld = true
	return true
}

// tellUnchanged says in the actions' own words what found nothing to act on, and what was
// done beside it.
func (t *Turn) tellUnchanged(ctx context.Context) error {
	t.Rounds[len(t.Rounds)-1].Withheld = true
	text, err := t.beforeSay(ctx, t.untold())
	if err != nil {
		return err
	}
	t.rec.Run.Executed = append(t.rec.Run.Executed, plan.Command{Kind: plan.Say, Response: text})
	if strings.TrimSpace(text) == "" {
		return t.conclude(ctx) // as a hook wants it
	}
	t.remember()
	t.rec.Run = nil
	return t.putAll(ctx, []string{text}, t.messages(text))
}

// untold is what the commands of the turn's last plans have said that found nothing to act
// on, and what those plans have done, when the model was to tell it and did not.
func (t *Turn) untold() string {
	if len(t.Rounds) == 0 || !t.Rounds[len(t.Rounds)-1].Withheld {
		return ""
	}
	var texts, did []string
	for _, round := range t.Rounds[slices.IndexFunc(t.Rounds, func(o actions.Round) bool { return o.Withheld }):] {
		for _, o := range round.Outcomes {
			switch {
			case o.Unchanged && !slices.Contains(texts, o.Text):
				texts = append(texts, o.Text)
			case !o.Unchanged && !o.Failed && o.Action != string(plan.Say):
				did = append(did, o.Action)
			}
		}
	}
	text := strings.Join(texts, " ")
	if len(did) > 0 {
		text += " I did this: " + strings.Join(did, ", ") + "."
	}
	return text
}

// note adds to what the planner gets to see.
func (t *Turn) note(o actions.Outcome) {
	round := &t.Rounds[len(t.Rounds)-1]
	round.Outcomes = append(round.Outcomes, o)
}

// lastOutcome is the newest of this plan.
func (t *Turn) lastOutcome() actions.Outcome {
	outcomes := t.Rounds[len(t.Rounds)-1].Outcomes
	if len(outcomes) == 0 {
		return actions.Outcome{}
	}
	return outcomes[len(outcomes)-1]
}

// remember adds the turn to the conversation's history, once.
func (t *Turn) remember() {
	if !t.rec.Remembered {
		t.rememberAs(plan.Transcript(t.rec.Run.Executed), t.rec.Run.Note)
	}
}

// rememberAs adds what was asked and answered to the conversation's history, and a note of
// the bot itself; "" stands for no answer and no note.
func (t *Turn) rememberAs(answer, note string) {
	said := prompts.Turn{From: t.Activity.From.ID, Messages: []prompts.Message{{Role: prompts.User, Text: t.Text}}}
	if !t.Activity.Conversation.Personal() {
		said.Name = t.Activity.From.Name
	}
	if answer != "" {
		said.Messages = append(said.Messages, prompts.Message{Role: prompts.Assistant, Text: answer})
	}
	if note != "" {
		said.Messages = append(said.Messages, prompts.Message{Role: prompts.System, Text: note})
	}
	state.Of[prompts.History](t.Thread).Append(said, 0)
	t.rec.Remembered = true
}

// call is one call of an action, with its variables filled in and its entities checked,
// and then with what came of it.
type call struct {
	command plan.Command
	action  *actions.Action
	result  actions.Result
	granted bool  // a person approved it, now or for good
	err     error // what went wrong before or in the action
	stop    error // what a hook ends the turn with
	took    time.Duration
}

// do runs the next DO, or as many of the next ones as may run at the same time. Whatever
// goes wrong in an action is a failed outcome, which the model sees in words that are safe
// to repeat; only the end of the turn's time, and what the hooks of the bot say, is an
// error.
func (t *Turn) do(ctx context.Context) error {
	calls := t.calls
	if calls == nil {
		var approval actions.Approval
		var err error
		if calls, approval, err = t.prepare(ctx); err != nil {
			return err
		}
		if approval.Required {
			return t.ask(ctx, &calls[0], approval)
		}
		if t.announce(calls) {
			return nil
		}
	}
	t.calls = nil
	t.snapshot()
	if !t.invoke(ctx, calls) {
		return t.abandon(calls)
	}
	t.further = true
	t.begun, t.rec.Run.InFlight, t.rec.Run.Approved = 0, 0, ""
	err := t.settle(ctx, calls)
	if err != nil {
		t.saveLate(ctx)
	}
	return err
}

// announce has the loop save that the calls are about to be made, if any of them does
// something outside of state: then whoever goes on knows that it may be done. What was
// done outside of state before is saved in the same step.
func (t *Turn) announce(calls []call) bool {
	outside := slices.ContainsFunc(calls, func(c call) bool { return c.err == nil && !c.action.StateOnly })
	if !outside && !t.outside {
		return false
	}
	if outside {
		t.rec.Run.InFlight = len(calls)
	}
	t.calls, t.unsaved = calls, true
	return true
}

// prepare checks the next calls, as many as may be made at the same time: at least one,
// and one alone when it is wrong, or was or has to be approved, since what a person
// granted is for that call and for no other.
func (t *Turn) prepare(ctx context.Context) ([]call, actions.Approval, error) {
	p := t.rec.Run.Progress
	t.granted = false
	calls := make([]call, 0, 1)
	for i := range p.Together(t.parallel) {
		c := t.check(p.Next + i)
		approval := actions.Approval{}
		if c.err == nil {
			approved := ""
			if i == 0 {
				approved = t.rec.Run.Approved
			}
			var err error
			if approval, err = t.approval(ctx, &c, approved); err != nil {
				return nil, approval, err
			}
		}
		alone := c.err != nil || approval.Required || c.granted
		if alone && i > 0 {
			break // it is the first, next time
		}
		calls = append(calls, c)
		if alone {
			t.granted = c.granted
			return calls, approval, nil
		}
	}
	return calls, actions.Approval{}, nil
}

// parallel reports whether the DO may run beside others of its plan.
func (t *Turn) parallel(c plan.Command) bool {
	action, ok := t.engine.cfg.Actions.Lookup(c.Action)
	return ok && action.Parallel
}

// check makes a call of the DO at that index, with its variables filled in.
func (t *Turn) check(index int) call {
	c, err := t.rec.Run.Progress.Command(index)
	if err != nil {
		return call{command: c, err: &refusal{err.Error()}}
	}
	action, ok := t.engine.cfg.Actions.Lookup(c.Action)
	if !ok {
		return call{command: c, err: fmt.Errorf("no action %s", c.Action)}
	}
	entities, err := action.Check(c.Entities)
	if err == nil {
		c.Entities = entities
	}
	return call{command: c, action: action, err: err}
}

// overstay is how long a call may go on after the turn's time, or twice that time where
// that is less, before the turn ends without it.
const overstay = 10 * time.Second

// invoke makes the calls, at the same time when there are several, and reports whether
// they ended. Else they and what actions get of the turn are not touched any more: they
// belong to the calls for as long as those go on. Nobody can stop them.
func (t *Turn) invoke(ctx context.Context, calls []call) bool {
	ended := make(chan struct{})
	t.engine.workers.work.Go(func() {
		defer close(ended)
		var running sync.WaitGroup
		for i := range calls[1:] {
			running.Go(func() { t.make(ctx, &calls[i+1], i+1) })
		}
		t.make(ctx, &calls[0], 0)
		running.Wait()
	})
	select {
	case <-ended:
		return true
	case <-ctx.Done():
		return wait(context.WithoutCancel(ctx), min(overstay, t.engine.cfg.TurnTimeout), ended)
	}
}

// make makes the i-th of the next calls, within the hook around it.
func (t *Turn) make(ctx context.Context, c *call, i int) {
	if c.err != nil {
		return
	}
	ctx = actions.WithAttempt(ctx, actions.Attempt{Key: fmt.Sprintf("%s.%d", t.ID, t.rec.Run.Steps+i), Again: i < t.begun})
	ctx, s := command(ctx, c.action)
	began := time.Now()
	if t.engine.cfg.Hooks.Call == nil {
		c.result, c.err = c.action.Call(ctx, t.Turn, c.command.Entities)
	} else {
		t.makeWithin(ctx, c)
	}
	c.took = time.Since(began)
	if c.err == nil && c.result.Failed() {
		s.failed("refused")
	}
	s.end(c.err)
}

// abandon ends the turn while its calls still go on. What they do is not known and what
// they change in state is not saved, so an operator has to look at it.
func (t *Turn) abandon(calls []call) error {
	var list []string
	for i := range calls {
		list = append(list, calls[i].command.Action)
	}
	if err := cmp.Or(t.lease.Err(), t.held.Err()); err != nil && !t.engine.cfg.Store.Embedded() {
		return err // who goes on knows from the record that they have begun
	}
	t.uncertain = append(t.uncertain, list...)
	return &deadLetter{
		reason: "an action did not end when the turn's time was over: " + strings.Join(list, ", "),
		say:    "Sorry, this took too long, and I could not stop it. Somebody has to look at it.",
	}
}

// settle records what came of the calls, in their order, and says how the plan goes on.
func (t *Turn) settle(ctx context.Context, calls []call) error {
	p := t.rec.Run.Progress
	again := false
	var stop error
	for i := range calls {
		c := &calls[i]
		t.rec.Run.Steps++
		if c.err != nil && ctx.Err() != nil {
			t.uncertain = append(t.uncertain, c.command.Action)
			t.engine.meter.action(c, "cut_off")
			continue
		}
		t.outside = t.outside || c.action != nil && !c.action.StateOnly
		stop = cmp.Or(stop, c.stop)
		t.finishCall(ctx, c)
		if c.result.Failed() {
			again = true
			if len(calls) == 1 { // those that run together change no state
				t.rollback()
			}
		}
		t.record(c)
		if again {
			continue
		}
		if err := p.Advance(c.result); err != nil {
			return err
		}
		if c.result.Stops(c.command.Named()) && !p.Plan.Observe {
			again = true
		}
	}
	if again {
		t.leaveOut()
	}
	err := cmp.Or(ctx.Err(), stop, t.circles(calls))
	if again && err == nil {
		return t.planAgain()
	}
	if again {
		t.rec.Run.Progress, t.rec.Phase = nil, Planning
	}
	return err
}

// finishCall turns whatever went wrong in a call into a result.
func (t *Turn) finishCall(ctx context.Context, c *call) {
	for _, scope := range t.scopes {
		if err := scope.Err(); err != nil && c.err == nil {
			c.err = fmt.Errorf("read state: %w", err)
		}
	}
	if _, err := c.result.Value(); err != nil && c.err == nil {
		c.err = fmt.Errorf("read result: %w", err)
	}
	log := zerolog.Ctx(ctx).Debug()
	if c.err != nil {
		log = zerolog.Ctx(ctx).Error().Str("error", cause(c.err))
		c.result = actions.Fail("%s", safeReason(c.err))
	}
	log.Str("action", c.command.Action).Bool("failed", c.result.Failed()).Dur("took", c.took).Msg("action ran")
	t.engine.meter.action(c, okOrFailed(c.result.Failed()))
}

// record keeps what happened for the model, the history and the person.
func (t *Turn) record(c *call) {
	outcome := actions.Outcome{
		Action: c.command.Action, Entities: c.command.Entities, CallID: c.command.CallID,
		Text: cut(c.result.Text(), maxResult), Failed: c.result.Failed(), Unchanged: c.result.Unchanged(),
	}
	t.note(outcome)
	t.shorten()
	if outcome.Failed {
		return
	}
	done := c.command
	done.Result = cut(outcome.Text, maxExecuted)
	t.rec.Run.Executed = append(t.rec.Run.Executed, done)
	switch {
	case outcome.Unchanged: // nothing was done
	case c.action.StateOnly:
		t.fresh = append(t.fresh, outcome.Action)
	default:
		t.kept = append(t.kept, outcome.Action)
	}
}

const (
	// maxResult is how many bytes of a result the model is shown: a page of a skill's
	// resource with what is said about it.
	maxResult = 66 << 10
	// maxExecuted is how many of them are kept for the history, which shortens them further.
	maxExecuted = 2 << 10
	// maxResults is how many bytes the results of one turn may have together: they are
	// saved with each step. Beyond it the oldest long ones are cut to maxOld.
	maxResults = 320 << 10
	maxOld     = 1 << 10
)

// shorten cuts old results, so that a turn with many long ones still comes to its end.
func (t *Turn) shorten() {
	total := 0
	for _, o := range t.Outcomes() {
		total += len(o.Text)
	}
	for i := range t.Rounds {
		outcomes := t.Rounds[i].Outcomes
		for j := range outcomes {
			if total <= maxResults {
				return
			}
			short := cut(outcomes[j].Text, maxOld)
			total -= len(outcomes[j].Text) - len(short)
			outcomes[j].Text = short
		}
	}
}

// cut shortens a text, and marks where it did.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + " […]"
}

// leaveOut answers the calls of the model that come after one that failed: each of them
// waits for an answer.
func (t *Turn) leaveOut() {
	p := t.rec.Run.Progress
	for i := p.Next; i < len(p.Plan.Commands); i++ {
		c := p.Plan.Commands[i]
		answered := slices.ContainsFunc(t.Rounds[len(t.Rounds)-1].Outcomes, func(o actions.Outcome) bool { return o.CallID == c.CallID })
		if c.CallID == "" || answered {
			continue
		}
		t.note(actions.Outcome{
			Action: c.Action, Entities: c.Entities, CallID: c.CallID, Failed: true,
			Text: "not run, because an earlier call failed",
		})
	}
}

// saveLate saves what was done by calls that ended although the turn was cancelled at the
// end of its process: whoever goes on does not do it again.
func (t *Turn) saveLate(ctx context.Context) {
	if t.engine.workers.ctx.Err() == nil || len(t.uncertain) > 0 || !t.outside {
		return
	}
	late, cancel := t.engine.workers.outlive(ctx, settleWithin)
	defer cancel()
	if err := t.save(late); err != nil {
		zerolog.Ctx(ctx).Warn().Str("error", cause(err)).Msg("what was done in the end is not saved")
	}
}

// Limit names what a turn may have only so much of.
type Limit string

// The limits of a [LimitError].
const (
	LimitSteps Limit = "steps"      // MaxSteps of the bot's Config
	LimitSame  Limit = "same calls" // MaxSameCalls
	LimitText  Limit = "text"       // plan.MaxExpanded, in a SAY
	LimitSays  Limit = "messages"   // Budget.Messages
)

// LimitError is the error of a turn that went over one of its limits. The budget of tokens
// and money has an error of its own, [actions.BudgetError].
type LimitError struct{ Limit Limit }

func (e *LimitError) Error() string { return "the turn went over its limit of " + string(e.Limit) }

// circles ends a turn in which the model makes the same call again and again. The call
// that reaches the limit has still run.
func (t *Turn) circles(calls []call) error {
	limit := t.engine.cfg.MaxSameCalls
	if limit == 0 {
		return nil
	}
	run := t.rec.Run
	if run.Same == nil {
		run.Same = map[string]int{}
	}
	for i := range calls {
		hash := hashOf(calls[i].command.Action, calls[i].command.Entities)
		if run.Same[hash]++; run.Same[hash] >= limit {
			return &LimitError{Limit: LimitSame}
		}
	}
	return nil
}

// hashOf identifies JSON values: the same ones, the same hash.
func hashOf(values ...any) string {
	hash := sha256.New()
	if err := json.NewEncoder(hash).Encode(values); err != nil { // keys are sorted
		return err.Error() // they came from JSON; no hash equals this
	}
	return hex.EncodeToString(hash.Sum(nil))
}
