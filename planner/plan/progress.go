package plan

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/planbot-go/planbot/actions"
)

// Progress is a plan being run: how far it is and what it has saved. As JSON it
// can be kept, and gone on with later or in another process. The zero value is
// done. It is not safe for concurrent use.
type Progress struct {
	Plan Plan `json:"plan"`
	// Next is the index of the command that runs next.
	Next int `json:"next"`
	// Variables are the results saved so far and the inputs; nil in a plan that
	// has neither, whose texts are then taken as they are.
	Variables variables `json:"variables"`
	// Unchanged is what the commands so far have said that found nothing to act on, by their
	// indexes, see [actions.Unchanged].
	Unchanged map[int]string `json:"unchanged,omitempty"`
	// Said are the texts of the plan so far, where [Progress.Run] runs it.
	Said []string `json:"said,omitempty"`
}

// Done reports whether no command is left.
func (e *Progress) Done() bool { return e.Next >= len(e.Plan.Commands) }

// maxExpanded is how many bytes the variables may fill into one command: a short
// plan can name a long result many times.
const maxExpanded = 256 << 10

// errExpanded is the error of a command into which variables would fill more than
// [maxExpanded] bytes.
var errExpanded = errors.New("what was saved is too long to be filled in so often")

// Command returns the command at index i with the variables that are set by now
// filled in. With [errExpanded] nothing is.
func (e *Progress) Command(i int) (Command, error) {
	c := e.Plan.Commands[i]
	if e.Variables == nil {
		return c, nil
	}
	size := 0
	for _, name := range c.reads() {
		if size += len(textOf(e.Variables[strings.ToLower(name)])); size > maxExpanded {
			return c, errExpanded
		}
	}
	return e.Variables.expandCommand(c), nil
}

// Together returns how many of the commands from the next one on may run at the
// same time: 1, or more when all of them are DOs for which parallel returns true
// and none needs what another of them saves. It is 0 when none is left.
func (e *Progress) Together(parallel func(Command) bool) int {
	saved := map[string]bool{}
	isSaved := func(name string) bool { return saved[strings.ToLower(name)] }
	for i := e.Next; i < len(e.Plan.Commands); i++ {
		c := &e.Plan.Commands[i]
		if c.Kind != Do || !parallel(*c) || isSaved(c.SaveAs) || slices.ContainsFunc(c.reads(), isSaved) {
			return max(i-e.Next, 1)
		}
		if c.SaveAs != "" {
			saved[strings.ToLower(c.SaveAs)] = true
		}
	}
	return len(e.Plan.Commands) - e.Next
}

// Advance goes on to the next command, and keeps the result of the one that ran
// where its SaveAs says so. A result that is no JSON value is an error.
func (e *Progress) Advance(result actions.Result) error {
	if name := e.Plan.Commands[e.Next].SaveAs; name != "" {
		value, err := result.Value()
		if err != nil {
			return fmt.Errorf("save result as %s: %w", name, err)
		}
		if text, ok := value.(string); ok && e.Plan.TrimResults {
			value = strings.TrimSpace(text)
		}
		e.Variables.set(name, value)
	}
	if result.Unchanged() {
		if e.Unchanged == nil {
			e.Unchanged = map[int]string{}
		}
		e.Unchanged[e.Next] = result.Text()
	}
	e.Next++
	return nil
}

// Withheld reports whether the command at index i is a SAY that must not be sent: a command
// before it found nothing to act on, and its text does not quote the result of that very
// command.
func (e *Progress) Withheld(i int) bool {
	say := &e.Plan.Commands[i]
	if say.Kind != Say {
		return false
	}
	for at := range e.Unchanged {
		if at < i && !e.quotes(say.Response, at, i) {
			return true
		}
	}
	return false
}

// Owes reports whether the SAYs of the plan do not tell all there is to tell, as far as is
// known by now: one of them is withheld, or none quotes a command that found nothing to act on.
func (e *Progress) Owes() bool {
	for i := range e.Plan.Commands {
		if e.Withheld(i) {
			return true
		}
	}
	return len(e.untold()) > 0
}

// untold is what commands said that found nothing to act on, where no SAY that is sent
// quotes it.
func (e *Progress) untold() (texts []string) {
	for _, at := range slices.Sorted(maps.Keys(e.Unchanged)) {
		told := false
		for i := at + 1; i < len(e.Plan.Commands); i++ {
			told = told || !e.Withheld(i) && e.quotes(e.Plan.Commands[i].Response, at, i)
		}
		if !told {
			texts = append(texts, e.Unchanged[at])
		}
	}
	return texts
}

// quotes reports whether text, of the command at index i, names the result of the one at
// index at.
func (e *Progress) quotes(text string, at, i int) bool {
	name := e.Plan.Commands[at].SaveAs
	saved := func(c Command) bool { return strings.EqualFold(c.SaveAs, name) }
	if name == "" || slices.ContainsFunc(e.Plan.Commands[at+1:i], saved) {
		return false // or a later result has that name now
	}
	return slices.ContainsFunc(references(text), func(named string) bool { return strings.EqualFold(named, name) })
}

// errNeedsApproval is wrapped by the error of [Progress.Run] for a plan with a command that a
// person has to approve.
var errNeedsApproval = errors.New("it needs the approval of a person, whom nobody asks here")

// Run runs a plan where there is no chat: all commands that are left, one after another,
// without the limits and approvals of a bot, and with its hooks only as the Gate of the
// turn. It returns what came of the plan, see [Progress.Result].
//
// Before that the whole plan is validated, and none of it runs when a command that is left
// needs approval; just before a DO its entities are checked again, and the Gate is asked.
// Run ends early with the result of a command that failed, which says which one, or whose
// result a model has to see ([actions.Observe]). The progress then stays at the command
// that failed, or behind the one to be seen, and another Run goes on from there. A failure
// is the action's own, an entity that does not fit with its variables filled in, or what
// an error of the Gate says with a method Reason() string. Any other error wraps
// [errNeedsApproval], a [*Fault], the Gate's, or what went wrong in the action.
func (e *Progress) Run(ctx context.Context, turn *actions.Turn, reg *actions.Registry) (actions.Result, error) {
	return e.run(ctx, turn, reg, false)
}

// run runs the plan; approved says that it was approved as a whole.
func (e *Progress) run(ctx context.Context, turn *actions.Turn, reg *actions.Registry, approved bool) (actions.Result, error) {
	if !e.Done() {
		if err := validate(&e.Plan, reg, slices.Collect(maps.Keys(e.Variables))); err != nil {
			return actions.Result{}, fmt.Errorf("run plan: %w", err)
		}
	}
	for i := e.Next; i < len(e.Plan.Commands) && !approved; i++ {
		action, ok := reg.Lookup(e.Plan.Commands[i].Action)
		if ok && (action.Approval || action.Destructive && e.Plan.Salvaged) {
			return actions.Result{}, fmt.Errorf("run plan: command %d, action %s: %w", i+1, action.Name, errNeedsApproval)
		}
	}
	for !e.Done() {
		named := e.Plan.Commands[e.Next].Named()
		result, err := e.step(ctx, turn, reg)
		switch {
		case err != nil:
			return actions.Result{}, fmt.Errorf("run plan: command %d, %w", e.Next+1, err)
		case result.Failed():
			return actions.Fail("%s", e.failure(result)), nil
		}
		if err := e.Advance(result); err != nil {
			return actions.Result{}, err
		}
		if result.Stops(named) {
			return result, nil
		}
	}
	return e.Result(), nil
}

// step runs the next command.
func (e *Progress) step(ctx context.Context, turn *actions.Turn, reg *actions.Registry) (actions.Result, error) {
	c, err := e.Command(e.Next)
	switch {
	case err != nil:
		return actions.Fail("%s", err), nil
	case c.Kind == Say:
		if !e.Withheld(e.Next) {
			e.say(c.Response)
		}
		return actions.Done, nil
	case ctx.Err() != nil:
		return actions.Result{}, fmt.Errorf("action %s: %w", c.Action, ctx.Err())
	}
	action, ok := reg.Lookup(c.Action)
	if !ok {
		return actions.Result{}, fmt.Errorf("action %s is not there", c.Action)
	}
	entities, err := action.Check(c.Entities)
	if err != nil {
		return actions.Fail("%s", err), nil
	}
	ctx = actions.AttemptOf(ctx).Within(e.Next).Context(ctx)
	if turn != nil && turn.Gate != nil {
		err := turn.Gate(ctx, actions.Call{Action: action, Entities: entities, Salvaged: e.Plan.Salvaged})
		var told interface {
			error
			Reason() string
		}
		switch {
		case errors.As(err, &told):
			return actions.Fail("%s", told.Reason()), nil
		case err != nil:
			return actions.Result{}, fmt.Errorf("action %s: %w", c.Action, err)
		}
	}
	result, err := action.Call(ctx, turn, entities)
	if last := e.Next == len(e.Plan.Commands)-1; err == nil && last && !result.Failed() && !result.Unchanged() {
		e.say(result.Text()) // nothing after it says what came of it
	}
	return result, err
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

// Result is what came of a plan that [Progress.Run] ran to its end: the texts that it
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

// UnmarshalJSON reads what was kept, with numbers as json.Number. It refuses what
// a later version of this program wrote, and anything that this one does not know.
func (e *Progress) UnmarshalJSON(data []byte) error {
	type plain Progress
	var p plain
	if err := decodeStrictly(data, &p); err != nil {
		return fmt.Errorf("read progress: %w", err)
	}
	if p.Next < 0 || p.Next > len(p.Plan.Commands) {
		return fmt.Errorf("read progress: no command %d in a plan of %d", p.Next, len(p.Plan.Commands))
	}
	if p.Variables == nil && p.Plan.Saves() {
		p.Variables = variables{}
	}
	*e = Progress(p)
	return nil
}
