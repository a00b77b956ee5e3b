package turn

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot/turn/files"
	"github.com/planbot-go/planbot/bot/turn/internal/stream"
	"github.com/planbot-go/planbot/connector"
	"github.com/planbot-go/planbot/internal/texts"
	"github.com/planbot-go/planbot/models/moderation"
	"github.com/planbot-go/planbot/planner/plan"
)

var errNoCommands = errors.New("the planner made an empty plan")

// makePlan is the phase Planning: it asks the planner for the next plan. A plan that exceeds a
// limit does not start.
func (x *execution) makePlan(ctx context.Context) (Next, error) {
	if x.rec.Notice.runBy() != "" { // the call is over, see [RunCall]
		x.rec.Run = nil
		return goOnTo(done), nil
	}
	if x.halt.isStopped() {
		return Next{}, stream.ErrStopped
	}
	if x.rec.Run.Alone { // the call is over
		return goOnTo(done), ownHandler(x.Turn)(ctx, x.Turn)
	}
	if err := steer(ctx, x.Turn); err != nil {
		return Next{}, err
	}
	come, tells, err := x.readAttachments(ctx)
	if err != nil || tells {
		return come, err
	}
	err = x.nextPlan(ctx)
	if err == nil {
		x.unsaved.progressed = true
		return goOnTo(running), nil
	}
	if x.untold() == "" || is[*stopError](err) || errors.Is(err, stream.ErrStopped) || ctx.Err() != nil || PutsOff(x.Turn, err) {
		return Next{}, err
	}
	zerolog.Ctx(ctx).Error().Str("error", Cause(err)).Msg("asking the model again failed, sending the actions' own results instead")
	return x.tellUnchanged(ctx)
}

func (x *execution) nextPlan(ctx context.Context) error {
	e, run := x.engine, x.rec.Run
	if x.Usage.Messages >= x.Budget.Messages {
		return &LimitError{Limit: limitSays} // nothing that the model writes could be sent
	}
	p, err := x.planForAuthor(ctx)
	if isHalted(x.Turn) {
		return stream.ErrStopped
	}
	if err != nil {
		if fault, ok := errors.AsType[*plan.Fault](err); ok {
			for _, kind := range append([]plan.FaultKind{fault.Kind}, fault.Before...) { // none of the model's answers could run
				x.Count(CountRefusals, string(kind))
			}
		}
		return fmt.Errorf("plan: %w", err)
	}
	quotes := run.Attached != nil && run.Attached.Quote
	if watched(x.Turn) {
		planned := p
		x.engine.see(Event{Turn: x.ID, Planned: &planned, Shown: &Shown{x.Text, x.Attached, quotes, x.Draft != nil}})
	}
	p.Salvaged = p.Salvaged || quotes
	switch {
	case len(p.Commands) == 0 && !(len(x.Rounds) > 0 && slices.ContainsFunc(x.round().Outcomes, hasCard)):
		return fmt.Errorf("plan: %w", errNoCommands)
	case run.Steps+p.Calls() > e.cfg.MaxSteps:
		return &LimitError{Limit: limitSteps}
	case x.Usage.Messages+p.Says() > x.Budget.Messages: // a custom planner or a feature ignored the budget
		return &LimitError{Limit: limitSays}
	}
	run.Progress, run.Question, run.Asking, run.Approved = p.Start(nil), nil, nil, ""
	x.Rounds = append(x.Rounds, actions.Round{Preface: p.Preface})
	if x.unsaved.progressed || x.docs.bot != nil || changed(x.docs.scopes[1:]...) || !x.moved && changed(x.Conversation) {
		return nil // a rerun starts at the last save, not at this plan: it has to repeat what was done since then
	}
	return startOverHere(x.Turn)
}

// planForAuthor has the planner make a plan. If that is the first one, and the author of the message edits it
// meanwhile, it makes another one; if they delete it, the turn ends.
func (x *execution) planForAuthor(ctx context.Context) (p plan.Plan, err error) {
	first := len(x.Rounds) == 0
	for range 1 + maxFollowed {
		if err := judgeInput(ctx, x); err != nil {
			return p, err
		}
		p, err = x.askPlanner(ctx)
		if !first || ctx.Err() != nil || isHalted(x.Turn) {
			return p, err
		}
		changed, fault := followQueue(ctx, x.Turn)
		switch {
		case fault != nil:
			return p, fault
		case changed && x.deleted:
			return p, &stopError{}
		case !changed:
			return p, err
		}
	}
	return p, err
}

// hasCard reports whether a card has shown a result.
func hasCard(o actions.Outcome) bool { return o.Shown != "" }

// askPlanner has the planner make a plan, inside the features.
func (x *execution) askPlanner(ctx context.Context) (p plan.Plan, err error) {
	ctx, end := x.step(ctx, StepPlan)
	defer func() { end(err) }()
	ctx, cancel := x.stream.Planning(ctx)
	defer cancel()
	x.halt.cancels(cancel)
	x.does(thinking, false)
	defer x.does("", false)
	defer x.stream.EndDraft()
	ask := func(ctx context.Context) (plan.Plan, error) {
		if err := x.lease.Err(); err != nil && !x.engine.cfg.Store.Embedded() { // this process was stopped for a while
			return plan.Plan{}, err
		}
		return x.engine.cfg.Planner.Plan(ctx, x.Turn.Turn)
	}
	return planWithin(ctx, x.Turn, ask)
}

// runCommands is the phase Running: it runs the remaining commands in order, until the record has
// to be saved or the plan ends. The model plans again if an action failed, if the plan asked for
// it, or if the last command had output and nothing came after it.
func (x *execution) runCommands(ctx context.Context) (Next, error) {
	p := x.rec.Run.Progress
	if err := judgePlan(ctx, x, p); err != nil { // once: the run knows what has passed
		return Next{}, err
	}
	for !p.Done() {
		if isHalted(x.Turn) {
			return Next{}, stream.ErrStopped
		}
		command := x.say
		if p.Plan.Commands[p.Next].Kind == plan.Do {
			command = x.do
		}
		come, err := command(ctx)
		if err != nil || come != goOnTo(running) {
			return come, err
		}
	}
	outcomes, run := x.round().Outcomes, x.rec.Run
	n := len(outcomes)
	if p.Owes() && !p.Plan.Observe { // the model is asked once in a turn to tell what it left untold
		asked := slices.ContainsFunc(x.Rounds, func(o actions.Round) bool { return o.Withheld })
		if asked || run.Steps >= x.engine.cfg.MaxSteps {
			return x.tellUnchanged(ctx)
		}
		x.round().Withheld = true
		return x.planAgain()
	}
	switch {
	case p.Plan.Observe, n > 0 && outcomes[n-1].Text != "" && outcomes[n-1].Shown == "": // the person has not seen it
		return x.planAgain()
	case len(x.rec.Sent) == run.sentBeside(), x.rec.Stream != nil && x.rec.Stream.State == stream.Ended: // always give an answer
		return x.sayLast(ctx, nil)
	}
	return x.conclude(nil, nil)
}

// planAgain goes back to planning with what was done so far.
func (x *execution) planAgain() (Next, error) {
	x.rec.Run.Progress = nil
	come := Next{phase: planning, saveFirst: x.unsaved.outside}
	if x.rec.Run.Steps >= x.engine.cfg.MaxSteps {
		return come, &LimitError{Limit: limitSteps}
	}
	return come, nil
}

// say sends the SAYs that come next.
func (x *execution) say(ctx context.Context) (Next, error) {
	p := x.rec.Run.Progress
	last := p.Next > p.Plan.LastDo() && !p.Owes()
	var texts []string
	for !p.Done() && p.Plan.Commands[p.Next].Kind == plan.Say && (last || len(texts) == 0) {
		text, err := x.nextText(ctx)
		if err != nil {
			return Next{}, err
		}
		if text != "" {
			texts = append(texts, text)
		}
	}
	if last {
		return x.sayLast(ctx, texts)
	}
	round := x.round()
	for _, text := range texts {
		round.Outcomes = append(round.Outcomes, actions.Outcome{Action: plan.Say, Text: text})
	}
	if len(texts) == 0 {
		return goOnTo(running), nil
	}
	return x.put(spokenMessages(ctx, x.Turn, texts))
}

// sayLast sends the texts that end a plan. If all of them are empty results, it says that they are
// done: no plan gets this far if anything failed.
func (x *execution) sayLast(ctx context.Context, texts []string) (Next, error) {
	if len(texts) == 0 && !x.hushed && len(x.rec.Run.Progress.Shown) == 0 {
		texts = []string{x.Translate("Done.")} // a plan had nothing but empty results to say
	}
	return x.conclude(texts, spokenMessages(ctx, x.Turn, texts))
}

// conclude ends the plan and sends the messages. It adds the turn to the history first, so that one
// save stores all of the turn. texts is what the messages say.
func (x *execution) conclude(texts []string, messages []*activity.Activity) (Next, error) {
	remember(x.Turn, texts...)
	x.rec.Run = nil
	if len(messages) == 0 {
		return goOnTo(done), nil
	}
	return x.put(messages)
}

// nextText takes the next command, a SAY, and returns what to send; "" if there is nothing to say.
func (x *execution) nextText(ctx context.Context) (string, error) {
	p := x.rec.Run.Progress
	if p.Withheld(p.Next) {
		zerolog.Ctx(ctx).Info().Msg("SAY withheld: an earlier command found nothing to act on")
		return "", p.Advance(actions.Done)
	}
	c, err := p.Command(p.Next)
	if err != nil { // a SAY has no other error
		return "", &LimitError{Limit: limitText}
	}
	if err := p.Advance(actions.Done); err != nil || strings.TrimSpace(c.Response) == "" {
		return "", err
	}
	x.Usage.Messages++
	return x.beforeSay(ctx, c.Response)
}

func (x *execution) beforeSay(ctx context.Context, text string) (string, error) {
	for _, f := range x.engine.cfg.Features {
		if f.Say == nil {
			continue
		}
		var err error
		text, err = f.Say(ctx, x.Turn, text)
		if err != nil {
			return "", fmt.Errorf("feature %s: %w", f.Name, err)
		}
		if strings.TrimSpace(text) == "" {
			x.hushed = true
			return "", nil
		}
	}
	return text, judgeTexts(ctx, x, moderation.PlannedSay, text)
}

// tellUnchanged says in the actions' own words what found nothing to act on, and what else was
// done.
func (x *execution) tellUnchanged(ctx context.Context) (Next, error) {
	x.round().Withheld = true
	text, err := x.beforeSay(ctx, x.untold())
	if err != nil {
		return Next{}, err
	}
	if text == "" { // a feature blanked it
		return x.conclude(nil, nil)
	}
	return x.conclude([]string{text}, messagesOf(x.Turn, text)) // no model wrote it
}

// untold is what the model should have told the person and did not: which commands of the turn's
// last plans found nothing to act on, in the actions' words, and what those plans did. Of what was
// done beside the conversation, it is the result, unless that is data.
func (x *execution) untold() string {
	if len(x.Rounds) == 0 || !x.round().Withheld {
		return ""
	}
	var texts, did []string
	beside := x.rec.Own != ""
	for _, round := range x.Rounds[slices.IndexFunc(x.Rounds, func(o actions.Round) bool { return o.Withheld }):] {
		for _, o := range round.Outcomes {
			switch {
			case o.Action == plan.Say:
			case o.Unchanged && !slices.Contains(texts, o.Text), beside && isSentence(o.Text):
				texts = append(texts, o.Text)
			case !o.Unchanged && !o.Failed:
				did = append(did, Title(x.Turn, o.Action))
			}
		}
	}
	if len(did) > 0 {
		texts = append(texts, x.Translate("I did this: %s.", strings.Join(did, ", ")))
	}
	return strings.Join(texts, " ")
}

// isSentence reports whether a result is no data.
func isSentence(result string) bool { return result != "" && !json.Valid([]byte(result)) }

// round is the newest plan with its outcomes, which the planner sees.
func (x *execution) round() *actions.Round { return &x.Rounds[len(x.Rounds)-1] }

// execution makes the plans of a turn and runs their commands: the phases Planning and
// Running.
type execution struct {
	*Turn

	calls           []call // ready: they are made next
	mayHaveStarted  int    // how many of the next commands a dead process may have started
	granted         bool   // a person approved the current call
	hushed          bool   // a feature blanked what was to be said
	attachmentsRead bool   // this process has read what came with the message

	screened sync.Map // hashes of what has passed [screenTexts] in this process
}

// call is one call of an action. Its variables are filled in and its entities checked; then its
// result is added.
type call struct {
	command plan.Command
	key     string // of its attempt
	action  *actions.Action
	result  actions.Result
	pause   Pause  // what it waits for first
	hash    string // what an approval of it is bound to
	changed string // what a person changed in it before it was approved
	granted bool   // a person approved it, now or for good
	err     error  // what went wrong before or in the action
	stop    error  // the error with which a feature ends the turn
	made    bool   // the action was called
	took    time.Duration
	offers  []*activity.Activity // of files for the person
}

// do moves the next DO, or as many of the next ones as may run in parallel: it readies their calls,
// then it makes them. If something outside of state may happen, the loop saves the record between the
// two, so the next process knows which calls may have run.
func (x *execution) do(ctx context.Context) (Next, error) {
	if x.calls == nil {
		come, err := x.readyCalls(ctx)
		if err != nil || x.calls == nil || come.saveFirst {
			return come, err
		}
	}
	return x.makeCalls(ctx)
}

// readyCalls sets x.calls, unless a person has to be asked first.
func (x *execution) readyCalls(ctx context.Context) (Next, error) {
	if x.stream.Shows() { // what was shown is not what is to be said once this is done
		return x.put(nil)
	}
	if q := x.rec.Run.Question; q != nil && q.Given == nil {
		return x.askQuestion(ctx, q)
	}
	calls, err := x.prepare(ctx)
	if err != nil {
		if x.mayHaveStarted > 0 {
			noteInFlight(x.Turn)
		}
		return Next{}, err
	}
	if calls[0].pause != nil {
		come, err := x.ask(ctx, calls[0].pause)
		if !is[*refusal](err) {
			return come, err
		}
		calls[0].err = err
		x.docs.snapshot()
		return x.settle(ctx, calls[:1], 0)
	}
	outside := slices.ContainsFunc(calls, func(c call) bool { return c.err == nil && !c.action.StateOnly })
	if outside {
		x.rec.Run.InFlight = len(calls)
	}
	x.calls = calls
	return Next{phase: running, saveFirst: outside || x.unsaved.outside}, nil
}

// makeCalls makes x.calls and records what came of them. Anything that goes wrong in an action becomes
// a failed outcome, which the model sees in words that are safe to repeat. Only the turn timeout and
// the bot's features produce an error.
func (x *execution) makeCalls(ctx context.Context) (Next, error) {
	calls := x.calls
	for i := range calls {
		calls[i].key = x.key(i)
	}
	x.calls, x.granted, x.docs.outage = nil, calls[0].granted, nil
	if err := x.lease.Err(); err != nil && !x.engine.cfg.Store.Embedded() { // this process was stopped for a while
		return Next{}, err
	}
	x.docs.snapshot()
	if !x.invoke(ctx, calls) {
		return Next{}, x.abandon(calls)
	}
	if x.docs.outage != nil {
		return Next{}, x.docs.outage // the calls are repeated once redis is back
	}
	for i := range calls {
		x.offerFiles(ctx, &calls[i])
	}
	for _, f := range x.engine.cfg.Features {
		for i := range calls {
			if c := &calls[i]; f.Called != nil && c.action != nil {
				c.err = f.Called(ctx, x.Turn, c.action, c.err)
			}
		}
	}
	x.unsaved.progressed = true
	mayHaveStarted := x.mayHaveStarted
	x.mayHaveStarted, x.rec.Run.InFlight = 0, 0
	made := len(calls) - x.deferAsking(calls)
	if made > 0 { // else the approved call is made again
		x.rec.Run.Approved = ""
	} else {
		x.docs.rollback()
	}
	come, err := x.settle(ctx, calls[:made], mayHaveStarted)
	switch run := x.rec.Run; {
	case err != nil:
		x.saveLate(ctx, come)
	case made == len(calls) || run == nil:
	case run.Progress != nil:
		x.noteAsking(calls[made:])
	default: // they go with their plan, and no call of the next one may have their keys
		run.Steps += len(calls) - made
	}
	return come, err
}

// prepare checks the next calls, as many as may run in parallel but at least one. A call comes
// alone if it is wrong, or if it was or has to be approved: an approval is for that call and no
// other.
func (x *execution) prepare(ctx context.Context) (calls []call, err error) {
	p, approved := x.rec.Run.Progress, x.rec.Run.Approved
	if q := x.rec.Run.Question; q != nil && q.Given != nil {
		if err := judgeTyped(ctx, x, q.Given.Values); err != nil {
			return nil, err
		}
	}
	parallel := func(c plan.Command) bool {
		action, ok := x.engine.cfg.Actions.Lookup(c.Action)
		return ok && action.Parallel
	}
	for i := range p.Together(parallel) {
		c := x.check(p.Next + i)
		if err := judgeCall(ctx, x, p.Next+i); err != nil {
			return nil, err
		}
		if err := x.allow(ctx, &c, approved); err != nil {
			return nil, err
		}
		alone := c.err != nil || c.pause != nil || c.granted || i == 0 && x.rec.Run.Question != nil
		if alone && i > 0 {
			break // it comes first next time
		}
		calls = append(calls, c)
		if alone {
			break
		}
		approved = ""
	}
	return calls, nil
}

// check makes a call of the DO at that index, with its variables filled in.
func (x *execution) check(index int) call {
	c, err := x.rec.Run.Progress.Command(index)
	if err != nil {
		return call{command: c, err: &refusal{reason: err.Error()}}
	}
	action, ok := x.engine.cfg.Actions.Lookup(c.Action)
	if !ok {
		return call{command: c, err: fmt.Errorf("no action %s", c.Action)}
	}
	entities, err := action.Check(c.Entities)
	if err == nil {
		c.Entities = entities
	}
	return call{command: c, action: action, err: err}
}

// offerFiles stores the files that the call has for the person.
func (x *execution) offerFiles(ctx context.Context, c *call) {
	for n, f := range c.result.Files() {
		if c.err != nil {
			return
		}
		offer, err := offerFile(ctx, x.Turn, f, c.key+"\n"+strconv.Itoa(n))
		c.offers, c.err = append(c.offers, offer), err
	}
}

// overstay is how long a call may run past the turn timeout before the turn ends without it, but at
// most as long as the timeout itself.
const overstay = 10 * time.Second

// invoke makes the calls, in parallel if there are several, and reports whether they ended. If they
// did not, nobody can stop them: leave them and the actions' part of the turn alone, because the
// calls own both for as long as they run.
func (x *execution) invoke(ctx context.Context, calls []call) bool {
	x.does(doing(calls), true)
	defer x.does("", false)
	ended := make(chan struct{})
	x.engine.workers.work.Go(func() {
		defer close(ended)
		var running sync.WaitGroup
		last := len(calls) - 1
		for i := range last {
			running.Go(func() { x.make(ctx, &calls[i], i) })
		}
		x.make(ctx, &calls[last], last)
		running.Wait()
	})
	select {
	case <-ended:
		return true
	case <-ctx.Done():
		return wait(context.WithoutCancel(ctx), min(overstay, x.engine.cfg.TurnTimeout), ended)
	}
}

// does tells the stream, if there is one, what the turn does from now on; "" says nothing. call says
// that it is a call of an action.
func (x *execution) does(what texts.Text, call bool) {
	switch {
	case x.stream == nil:
	case what == "":
		x.stream.Does("", call)
	default:
		x.stream.Does(x.Translate(what), call)
	}
}

// doing says what the calls do, for the person to read while they run.
func doing(calls []call) texts.Text {
	for _, c := range calls {
		if c.action != nil && c.action.Doing != "" {
			return texts.Text(c.action.Doing)
		}
	}
	return working
}

// make makes the i-th of the next calls, inside the features.
func (x *execution) make(ctx context.Context, c *call, i int) {
	if c.err != nil {
		return
	}
	attempt := actions.Attempt{Key: c.key, Again: i < x.mayHaveStarted, MayAsk: x.mayAsk(i), Approved: c.granted}
	if q := x.rec.Run.Question; i == 0 && q != nil && q.Given != nil {
		attempt.Answer = &actions.Answer{Values: q.Given.Values, Declined: q.Given.Declined, Unanswered: q.Given.Unanswered, State: q.State}
	}
	ctx = attempt.Context(ctx)
	ctx, end := x.step(ctx, StepCall+c.action.Name)
	began := time.Now()
	if !x.engine.has(func(f *Feature) bool { return f.Call != nil }) {
		c.made = true
		c.result, c.err = c.action.Call(ctx, x.Turn.Turn, c.command.Entities)
	} else {
		x.makeWithin(ctx, c)
	}
	c.took = time.Since(began)
	err := c.err
	if err == nil && c.result.Failed() {
		err = errRefused
	}
	end(err)
}

// makeWithin makes a call inside the features.
func (x *execution) makeWithin(ctx context.Context, c *call) {
	var made actions.Result
	var ran error
	next := func(ctx context.Context, wanted actions.Call) (result actions.Result, err error) {
		defer func() { made, ran = result, err }()
		entities := c.command.Entities
		if Hash(wanted.Entities) != Hash(entities) {
			if entities, err = c.action.Check(wanted.Entities); err != nil {
				return result, err
			}
			changed := x.describe(c)
			changed.Entities = entities
			approval, err := x.policy(ctx, changed) // nobody approved these
			if err == nil && (approval.Required || c.granted) {
				err = Refuse("%s was changed, and needs the approval of a person", c.action.Name)
			}
			if err != nil {
				return result, err
			}
			c.command.Entities = entities
		}
		c.made = true
		return c.action.Call(ctx, x.Turn.Turn, entities)
	}
	err := safely(x.Turn, func() (err error) { // the turn runs in another goroutine
		c.result, err = callWithin(ctx, x.Turn, x.describe(c), next)
		return err
	})
	switch {
	case err == nil:
	case is[*refusal](err) || errors.Is(err, ran):
		c.err = err
	default: // a feature's own error; what the action did, or failed to do, stays so
		c.stop = fmt.Errorf("around a call: %w", err)
		if c.result, c.err = made, ran; !c.made {
			c.result, c.err = actions.Fail(hookStopped), nil
		}
	}
}

// allowNested checks each call that an action makes, such as an action that is a plan. Nobody can be
// asked for an approval at that point, but approving the outer call approved these calls too: its
// card showed them. The card did not show what a call is bound to besides its entities, so a call
// with a Bind has to be approved by itself.
func (x *execution) allowNested(ctx context.Context, c actions.Call) error {
	approval, err := x.policy(ctx, c)
	if err == nil && approval.Required && (!x.granted || approval.Bind != "") {
		err = Refuse("%s needs the approval of a person, who cannot be asked within a plan", c.Action.Name)
	}
	if err == nil { // features see the call, and cannot change it
		_, err = callWithin(ctx, x.Turn, c, func(context.Context, actions.Call) (actions.Result, error) { return actions.Done, nil })
	}
	return err
}

// describe returns the call as features and policies see it.
func (x *execution) describe(c *call) actions.Call {
	return actions.Call{Action: c.action, Entities: maps.Clone(c.command.Entities), Salvaged: x.rec.Run.Progress.Plan.Salvaged}
}

// abandon ends the turn while its calls still run. Nobody knows what they do, and their state
// changes are not saved, so an operator has to look at it.
func (x *execution) abandon(calls []call) error {
	var list []string
	for i := range calls {
		list = append(list, calls[i].command.Action)
	}
	if err := cmp.Or(x.lease.Err(), x.owned.Err()); err != nil && !x.engine.cfg.Store.Embedded() {
		return err // the record tells the next process that they have started
	}
	x.uncertain = append(x.uncertain, list...)
	x.noteUnknown(len(calls))
	return &deadLetter{
		reason: "an action did not end when the turn's time was over: " + strings.Join(list, ", "),
		say:    "Sorry, this took too long, and I could not stop it. Somebody has to look at it.",
	}
}

// settle records what came of the calls, in their order, and decides how the plan continues. An
// earlier process may have started the first ones.
func (x *execution) settle(ctx context.Context, calls []call, mayHaveStarted int) (Next, error) {
	p := x.rec.Run.Progress
	first, again := p.Next, false
	var stop, lost error
	var shown []*activity.Activity
	var drawn []activity.Card
	for i := range calls {
		c := &calls[i]
		x.rec.Run.Steps++
		x.rec.Run.Question, x.rec.Run.Asking = nil, x.rec.Run.Asking[min(len(x.rec.Run.Asking), 1):]
		if unknown := errors.Is(c.err, actions.ErrUncertain); unknown || c.err != nil && ctx.Err() != nil {
			x.uncertain = append(x.uncertain, c.command.Action)
			if len(calls) == 1 { // parallel calls change no state
				x.docs.rollback()
			}
			noteCall(x.Turn, c, "unknown")
			seeCalled(x.Turn, c, first+i, i < mayHaveStarted, true)
			if unknown {
				zerolog.Ctx(ctx).Error().Str("action", c.command.Action).Str("error", Cause(c.err)).Msg("nobody knows whether a call was done")
				lost = c.err
			}
			continue
		}
		x.unsaved.outside = x.unsaved.outside || c.action != nil && !c.action.StateOnly
		stop = cmp.Or(stop, c.stop)
		x.finishCall(ctx, c)
		noteCall(x.Turn, c, outcomeOf(c.result))
		if c.result.Failed() {
			again = true
			if len(calls) == 1 { // parallel calls change no state
				x.docs.rollback()
			}
		}
		if d := x.rec.Run.Decided; c.granted && d != nil && d.Changed != "" {
			c.changed, d.Changed = d.Changed, ""
			again = true // the rest of the plan was for another call
		}
		x.record(c)
		drawn = append(drawn, c.result.Cards()...)
		seeCalled(x.Turn, c, first+i, i < mayHaveStarted, false)
		shown = append(shown, cardMessages(ctx, x.Turn, c.result.Cards())...)
		if !c.result.Failed() {
			shown = append(shown, c.offers...)
		}
		if again {
			continue
		}
		if err := p.Advance(c.result); err != nil {
			return goOnTo(running), err
		}
		if c.result.Stops(c.command.Named()) && !p.Plan.Observe {
			again = true
		}
	}
	// What all of the bot's conversations share is saved before the next step, so that turns elsewhere seldom meet it.
	x.unsaved.outside = x.unsaved.outside || x.docs.bot != nil && changed(x.docs.bot)
	err := cmp.Or(ctx.Err(), lost, stop, x.checkSameCalls())
	if err == nil {
		err = judgeCards(ctx, x, drawn)
	}
	come := goOnTo(running)
	if again {
		x.leaveOut()
		var limit error
		come, limit = x.planAgain()
		err = cmp.Or(err, limit)
	}
	if err == nil && len(shown) > 0 && x.rec.Notice.runBy() == "" { // the save that has the outcomes has the cards, too
		sends, err := x.put(shown)
		if err != nil {
			return come, err
		}
		return sends, nil
	}
	return come, err
}

// noteCall notes what came of a call, unless the action changes only state or was not called.
func noteCall(t *Turn, c *call, outcome string) {
	if c.made && (c.action == nil || !c.action.StateOnly) {
		NoteFor(t, &t.rec, Note{What: "call", Outcome: outcome, Action: c.command.Action, Of: c.command.Entities, ID: c.key})
	}
}

func outcomeOf(r actions.Result) string {
	if r.Unchanged() {
		return "unchanged"
	}
	return okOrFailed(r.Failed())
}

// noteUnknown notes of the next calls of the plan that nobody knows what they did.
func (x *execution) noteUnknown(calls int) {
	for i := range calls {
		c := x.check(x.rec.Run.Progress.Next + i)
		c.made, c.key = true, x.key(i)
		noteCall(x.Turn, &c, "unknown")
	}
}

// finishCall turns any error of a call into a result.
func (x *execution) finishCall(ctx context.Context, c *call) {
	for _, scope := range x.docs.toSave() {
		if err := scope.Err(); err != nil && c.err == nil {
			c.err = fmt.Errorf("read state: %w", err)
		}
	}
	if _, err := c.result.Value(); err != nil && c.err == nil {
		c.err = fmt.Errorf("read result: %w", err)
	}
	log := zerolog.Ctx(ctx).Debug()
	if c.err != nil {
		log = zerolog.Ctx(ctx).Error().Str("error", Cause(c.err))
		reason := "an internal error" // the model and the person read it
		if is[*actions.EntityError](c.err) || is[*refusal](c.err) {
			reason = c.err.Error()
		}
		for _, known := range []error{actions.ErrFileGone, actions.ErrFileTooLarge, actions.ErrFileDenied, connector.ErrNoUserToken} {
			if errors.Is(c.err, known) {
				reason = known.Error()
			}
		}
		c.result = actions.Fail("%s", reason)
	}
	log.Str("action", c.command.Action).Bool("failed", c.result.Failed()).Dur("took", c.took).Msg("action ran")
}

// record adds what came of a call to its round.
func (x *execution) record(c *call) {
	round := x.round()
	round.Outcomes = append(round.Outcomes, actions.Outcome{
		Action: c.command.Action, Entities: c.command.Entities, CallID: c.command.CallID,
		Text:   cut(c.changed+c.result.Text(), maxResult),
		Failed: c.result.Failed(), Unchanged: c.result.Unchanged(), Shown: cut(c.result.Shown(), maxShown),
	})
	room := maxResults
	for _, o := range x.Outcomes() {
		room -= len(o.Text)
	}
	for i := range x.Rounds {
		for j := range x.Rounds[i].Outcomes {
			if o := &x.Rounds[i].Outcomes[j]; room < 0 && len(o.Text) > leastResult {
				room += len(o.Text) - leastResult
				o.Text = cut(o.Text, leastResult)
			}
		}
	}
}

// The results of calls that were not made.
const (
	notRun      = "not run, because an earlier call failed"
	hookStopped = "it was stopped before it ran"
	rejected    = "a person rejected it"
	NotSignedIn = "the person did not sign in"
)

const (
	// maxResult is how many bytes of a result the model sees: a page of a skill's resource and the
	// text around it.
	maxResult = 66 << 10
	// maxResults limits the bytes of all results of a turn, because each save writes them. Beyond
	// it, the oldest results are cut to leastResult.
	maxResults  = 320 << 10
	leastResult = 1 << 10
	// maxShown is how many bytes of the text of cards the history gets.
	maxShown = 4 << 10
)

// cut shortens a text and marks the cut.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + " […]"
}

// leaveOut answers the model's calls that come after a failed one: each of them needs an answer.
func (x *execution) leaveOut() {
	p, round := x.rec.Run.Progress, x.round()
	for _, c := range p.Plan.Commands[p.Next:] {
		answered := func(o actions.Outcome) bool { return o.CallID == c.CallID }
		if c.CallID == "" || slices.ContainsFunc(round.Outcomes, answered) {
			continue
		}
		round.Outcomes = append(round.Outcomes, actions.Outcome{
			Action: c.Action, Entities: c.Entities, CallID: c.CallID, Failed: true,
			Text: notRun,
		})
	}
}

// saveLate saves calls that completed although shutdown had cancelled the turn, so that the next
// process does not repeat them. It goes on with come.
func (x *execution) saveLate(ctx context.Context, come Next) {
	if x.engine.workers.ctx.Err() == nil || len(x.uncertain) > 0 || !x.unsaved.outside {
		return
	}
	late, cancel := x.engine.workers.outlive(ctx, settleWithin)
	defer cancel()
	x.rec.Phase = come.phase
	if err := x.Save(late); err != nil {
		zerolog.Ctx(ctx).Warn().Str("error", Cause(err)).Msg("what was done in the end is not saved")
	}
}

// checkSameCalls ends a turn in which the model keeps making the same call. The call that reaches the
// limit has still run.
func (x *execution) checkSameCalls() error {
	limit, same := x.engine.cfg.MaxSameCalls, map[string]int{}
	for _, o := range x.Outcomes() {
		if limit == 0 || o.Action == plan.Say || o.Failed && slices.Contains([]string{notRun, rejected, NotSignedIn}, o.Text) {
			continue
		}
		hash := Hash(o.Action, o.Entities)
		if same[hash]++; same[hash] >= limit {
			return &LimitError{Limit: limitSame}
		}
	}
	return nil
}

// readAttachments reads what came with the message, once in each process. It reports whether there is
// something to tell the person first; then the loop plans once that is sent.
func (x *execution) readAttachments(ctx context.Context) (come Next, tells bool, err error) {
	if x.attachmentsRead || !x.engine.cfg.Attachments.Shown || !x.IsMessage() || x.rec.Notice != nil || x.rec.Stateless {
		return Next{}, false, nil
	}
	x.attachmentsRead, x.Attached = true, nil
	run, kept := x.rec.Run, x.engine.files
	m := files.Message{
		Turn: x.ID, Queue: conversationKey(x.Turn), Activity: x.Activity, Text: x.Text,
		Conversation: x.Conversation, Before: run.Attached, Translate: x.Translate,
	}
	from := kept.Recall
	if files.Come(x.Activity) {
		from = kept.Take
		var end func(error)
		ctx, end = x.step(ctx, "attachments")
		defer func() { end(err) }()
		x.does(working, false)
		defer x.does("", false)
	}
	r, err := from(ctx, m)
	if err != nil {
		return Next{}, false, err
	}
	if err := judgeTexts(ctx, x, moderation.Said, r.Heard...); err != nil { // nobody has read it yet
		return Next{}, false, err
	}
	if x.Attached = r.Attached; r.Text != x.Text {
		x.Text, x.rec.Text = r.Text, r.Text
	}
	if err := judgeAttached(ctx, x); err != nil {
		return Next{}, false, err
	}
	kept.Keep(ctx, m, r)
	run.Attached = r.Taken
	switch {
	case r.Note == "":
		return Next{}, false, nil
	case r.Nothing:
		return Next{}, false, &stopError{r.Note}
	}
	messages := messagesOf(x.Turn, r.Note)
	run.Attached.Sent += len(messages)
	come, err = x.put(messages)
	return come, true, err
}

// mayAsk reports whether the i-th of the next calls may ask the person something.
func (x *execution) mayAsk(i int) bool {
	if q := x.rec.Run.Question; i == 0 && q != nil && q.Asked >= maxQuestions {
		return false
	}
	asks := x.engine.has(func(f *Feature) bool { return f.Asks != nil })
	return asks && x.Activity.From.ID != "" && x.ShowsCards() && (x.rec.Notice == nil || x.rec.Notice.runBy() != "")
}

// key is the [actions.Attempt.Key] of the i-th of the next calls. A call that has asked keeps its key.
func (x *execution) key(i int) string {
	run := x.rec.Run
	if i < len(run.Asking) {
		return run.Asking[i]
	}
	return fmt.Sprintf("%s.%d", x.ID, run.Steps+i)
}

// deferAsking puts the calls that asked behind those that did not: calls that run together may run in any
// order. It returns how many there are.
func (x *execution) deferAsking(calls []call) (asking int) {
	asks := func(c *call) bool {
		form, _ := c.result.Asks()
		return form != nil && c.err == nil && c.stop == nil
	}
	for i := range calls {
		if asks(&calls[i]) {
			asking++
		}
	}
	if asking == 0 || asking == len(calls) {
		return asking
	}
	p := x.rec.Run.Progress
	commands, sorted, first, last := slices.Clone(p.Plan.Commands), slices.Clone(calls), 0, len(calls)-asking
	for i := range calls {
		to := &first
		if asks(&calls[i]) {
			to = &last
		}
		commands[p.Next+*to], sorted[*to] = p.Plan.Commands[p.Next+i], calls[i]
		*to++
	}
	p.Plan.Commands = commands
	copy(calls, sorted)
	return asking
}

// noteAsking notes the questions of these calls, which come next in the plan. The first is asked next;
// the others are made again after it.
func (x *execution) noteAsking(calls []call) {
	run, asked := x.rec.Run, 1
	if run.Question != nil {
		asked += run.Question.Asked
	}
	run.Asking = nil
	for i := range calls {
		run.Asking = append(run.Asking, calls[i].key)
	}
	form, state := calls[0].result.Asks()
	run.Question = &Question{Action: calls[0].action.Name, Form: *form, State: state, Asked: asked}
}

// maxQuestions is how many questions one call may ask.
const maxQuestions = 3

// askQuestion asks the question of the next call. Then the same call is made again, with the answer. If nobody can be
// asked, it is made again at once.
func (x *execution) askQuestion(ctx context.Context, q *Question) (Next, error) {
	if err := judgeQuestion(ctx, x, &q.Form); err != nil {
		return Next{}, err
	}
	for _, f := range x.engine.cfg.Features {
		if f.Asks == nil {
			continue
		}
		come, err := x.ask(ctx, f.Asks(x.Turn, *q))
		if !is[*refusal](err) {
			x.rec.Run.Question = nil
			return come, err
		}
		zerolog.Ctx(ctx).Warn().Str("action", q.Action).Str("error", err.Error()).Msg("nobody was asked a question")
	}
	q.Given = &Given{Declined: true, Unanswered: true}
	return saveThen(running), nil
}

// Hash identifies JSON values: equal values have equal hashes.
func Hash(values ...any) string {
	hash := sha256.New()
	if err := json.NewEncoder(hash).Encode(values); err != nil { // Encode sorts keys
		return err.Error() // they came from JSON; no hash equals this
	}
	return hex.EncodeToString(hash.Sum(nil))
}
