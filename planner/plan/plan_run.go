package plan

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/planbot-go/planbot/actions"
)

// ErrNeedsApproval is wrapped by the error of a [Runner] for a plan with a command
// that a person has to approve.
var ErrNeedsApproval = errors.New("it needs the approval of a person, whom nobody asks here")

// Runner runs plans where there is no chat: command after command, without the
// limits and approvals of a bot, and with its hooks only as the Gate of the turn. Actions is required. It is safe for
// concurrent use, on an [Progress] each.
type Runner struct {
	Actions *actions.Registry

	approved bool // what it runs was approved as a whole
}

// Step runs the next command and returns its result: of a SAY, its text. Before
// that, the whole plan is validated, and none of it runs when a command that is
// left needs approval; just before a DO its entities are checked again, and the
// turn's Gate is asked.
//
// When the result is a failure, or there is an error, the execution stays at that
// command, and the next Step tries it again. A failure is the action's own, an
// entity that does not fit with its variables filled in, or what an error of the
// Gate says with a method Reason() string. Any other error wraps
// [ErrNeedsApproval], a [*Fault], the Gate's, or what went wrong in the action.
func (r *Runner) Step(ctx context.Context, turn *actions.Turn, e *Progress) (actions.Result, error) {
	if e.Done() {
		return actions.Done, nil
	}
	if err := r.ready(e); err != nil {
		return actions.Result{}, err
	}
	return r.step(ctx, turn, e)
}

// Run runs all commands that are left, as [Runner.Step] does, and returns what
// came of the plan, see [Progress.Result]. It ends before that with the result
// of a command that failed, which says which one, or whose result a model has to
// see ([actions.Observe]); then Run goes on from there.
func (r *Runner) Run(ctx context.Context, turn *actions.Turn, e *Progress) (actions.Result, error) {
	if e.Done() {
		return e.Result(), nil
	}
	if err := r.ready(e); err != nil {
		return actions.Result{}, err
	}
	for !e.Done() {
		named := e.Plan.Commands[e.Next].Named()
		result, err := r.step(ctx, turn, e)
		if err != nil {
			return actions.Result{}, err
		}
		if result.Failed() {
			return actions.Fail("%s", e.failure(result)), nil
		}
		if result.Stops(named) {
			return result, nil
		}
	}
	return e.Result(), nil
}

// ready reports whether what is left of the plan may run.
func (r *Runner) ready(e *Progress) error {
	if err := e.Validate(r.Actions); err != nil {
		return fmt.Errorf("run plan: %w", err)
	}
	if r.approved {
		return nil
	}
	for i := e.Next; i < len(e.Plan.Commands); i++ {
		action, ok := r.Actions.Lookup(e.Plan.Commands[i].Action)
		if ok && (action.Approval || action.Destructive && e.Plan.Salvaged) {
			return fmt.Errorf("run plan: command %d, action %s: %w", i+1, action.Name, ErrNeedsApproval)
		}
	}
	return nil
}

func (r *Runner) step(ctx context.Context, turn *actions.Turn, e *Progress) (actions.Result, error) {
	c, err := e.Command(e.Next)
	if err != nil {
		return actions.Fail("%s", err), nil
	}
	if c.Kind == Say {
		if !e.Withheld(e.Next) {
			e.say(c.Response)
		}
		return actions.Text("%s", c.Response), e.Advance(actions.Done)
	}
	ctx = actions.WithAttempt(ctx, actions.AttemptOf(ctx).Within(e.Next))
	result, err := r.call(ctx, turn, c, e.Plan.Salvaged)
	if err != nil {
		return actions.Result{}, fmt.Errorf("run plan: command %d, %w", e.Next+1, err)
	}
	if result.Failed() {
		return result, nil
	}
	if err := e.Advance(result); err != nil {
		return actions.Result{}, err
	}
	if e.Done() && !result.Unchanged() { // nothing after it says what came of it
		e.say(result.Text())
	}
	return result, nil
}

func (r *Runner) call(ctx context.Context, turn *actions.Turn, c Command, salvaged bool) (actions.Result, error) {
	if err := ctx.Err(); err != nil {
		return actions.Result{}, fmt.Errorf("action %s: %w", c.Action, err)
	}
	action, ok := r.Actions.Lookup(c.Action)
	if !ok {
		return actions.Result{}, fmt.Errorf("action %s is not there", c.Action)
	}
	entities, err := action.Check(c.Entities)
	if err != nil {
		return actions.Fail("%s", err), nil
	}
	if err := pass(ctx, turn, actions.Call{Action: action, Entities: entities, Salvaged: salvaged}); err != nil {
		if told := reasoned(nil); errors.As(err, &told) {
			return actions.Fail("%s", told.Reason()), nil
		}
		return actions.Result{}, fmt.Errorf("action %s: %w", c.Action, err)
	}
	return action.Call(ctx, turn, entities)
}

// reasoned is an error of a gate with a reason that models and people may read.
type reasoned interface {
	error
	Reason() string
}

// pass asks the turn's gate about a call.
func pass(ctx context.Context, turn *actions.Turn, call actions.Call) error {
	if turn == nil || turn.Gate == nil {
		return nil
	}
	return turn.Gate(ctx, call)
}

func (e *Progress) say(text string) {
	if text = strings.TrimSpace(text); text != "" {
		e.Said = append(e.Said, text)
	}
}

// failure says which command failed, why, and what was done before it.
func (e *Progress) failure(result actions.Result) string {
	text := fmt.Sprintf("step %d of %d, %s: %s", e.Next+1, len(e.Plan.Commands), e.Plan.Commands[e.Next].Action, result.Text())
	var done []string
	for _, c := range e.Plan.Commands[:e.Next] {
		if c.Kind == Do {
			done = append(done, c.Action)
		}
	}
	if len(done) > 0 {
		text += " (done before: " + strings.Join(done, ", ") + ")"
	}
	return text
}

// Result is what came of a plan that a [Runner] ran to its end: the texts that it
// said and the output of a DO at its end, a line each. Where all that it says is
// one $NAME, it is that value, whatever its type. It is [actions.Unchanged] when any command
// was: then it has that command's text as well, if no SAY quotes it.
func (e *Progress) Result() actions.Result {
	if len(e.Unchanged) > 0 {
		return actions.Unchanged("%s", strings.Join(append(slices.Clone(e.Said), e.untold()...), "\n"))
	}
	if value, ok := e.only(); ok {
		return actions.JSON(value)
	}
	return actions.Text("%s", strings.Join(e.Said, "\n"))
}

// only is the value that is all a plan says, unless it is a text.
func (e *Progress) only() (any, bool) {
	says := 0
	var value any
	for i := range e.Plan.Commands {
		if c := &e.Plan.Commands[i]; c.Kind == Say {
			says++
			value = e.Variables.expand(c.Response)
		}
	}
	if _, isText := value.(string); isText || value == nil || says > 1 {
		return nil, false
	}
	return value, e.Plan.Commands[len(e.Plan.Commands)-1].Kind == Say
}
