package plan

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/internal/spelling"
)

// Progress is a plan being run: its next command and what it has saved. You can store it as JSON
// and resume it later or in another process. The zero value is done. It is not safe for concurrent
// use.
type Progress struct {
	Plan Plan `json:"plan"`
	// Next is the index of the command that runs next.
	Next int `json:"next"`
	// Variables are the results saved so far and the inputs. nil if the plan has neither; its texts
	// are then taken literally.
	Variables variables `json:"variables"`
	// Unchanged holds the texts of commands that found nothing to act on, by command index, see
	// [actions.Unchanged].
	Unchanged map[int]string `json:"unchanged,omitempty"`
	// Shown has the names, in lower case, of the variables whose values a card has shown. A line of a
	// SAY that is nothing but $NAME of these is left out.
	Shown map[string]bool `json:"shown,omitempty"`
	// Said are the texts of the plan so far if [Progress.Run] runs it.
	Said []string `json:"said,omitempty"`

	cards []activity.Card // those of the actions that Run has called
}

// Done reports whether no command remains.
func (e *Progress) Done() bool { return e.Next >= len(e.Plan.Commands) }

// maxExpanded limits the bytes that variables may add to one command: a short plan can name a long
// result many times.
const maxExpanded = 256 << 10

// noFieldError is the error of a DO that needs a field that a result turned out not to have.
type noFieldError string

func (e noFieldError) Error() string { return "there is no $" + string(e) }

// errExpanded is the error of a command in which variables would add more than [maxExpanded] bytes.
var errExpanded = errors.New("what was saved is too long to be filled in so often")

// Command returns the command at index i with the variables filled in that are set by now. With an
// error, none are filled in: that would be too much, or a DO uses a field that an object does not
// have.
func (e *Progress) Command(i int) (Command, error) {
	c := e.Plan.Commands[i]
	if e.Variables == nil {
		return c, nil
	}
	if c.Kind == Say && len(e.Shown) > 0 {
		c.Response = e.withoutShown(c.Response)
	}
	size, fields := 0, !e.Plan.TrimResults
	for _, name := range c.reads(fields) {
		value, rest, _ := e.Variables.resolve(name)
		if _, isObject := value.(map[string]any); isObject && rest != "" && c.Kind == Do {
			return c, noFieldError(spelling.Clip(name))
		}
		if size += len(textOf(value)); size > maxExpanded {
			return c, errExpanded
		}
	}
	return e.Variables.expandCommand(c, fields), nil
}

// Change gives the next command these entities, as they are, in place of those with the same names.
func (e *Progress) Change(entities map[string]any) {
	c := &e.Plan.Commands[e.Next]
	c.Entities = maps.Clone(c.Entities)
	if c.Entities == nil {
		c.Entities = map[string]any{}
	}
	for name, value := range entities {
		if text, ok := value.(string); ok && e.Variables != nil {
			value = strings.ReplaceAll(text, "$", "$$")
		}
		c.Entities[name] = value
	}
}

// withoutShown leaves out the lines that only repeat what a card has shown.
func (e *Progress) withoutShown(text string) string {
	lines := slices.DeleteFunc(strings.Split(text, "\n"), func(line string) bool {
		line = strings.ToLower(strings.TrimSpace(line))
		return strings.HasPrefix(line, "$") && e.Shown[line[1:]]
	})
	return strings.Join(lines, "\n")
}

// Together returns how many commands, starting with the next one, may run concurrently: 1, or more
// if all are DOs for which parallel returns true and none needs what another saves. It is 0 if none
// remains.
func (e *Progress) Together(parallel func(Command) bool) int {
	saved := map[string]bool{}
	isSaved := func(name string) bool { return saved[strings.ToLower(name)] }
	for i := e.Next; i < len(e.Plan.Commands); i++ {
		c := &e.Plan.Commands[i]
		if c.Kind != Do || !parallel(*c) || isSaved(c.SaveAs) || slices.ContainsFunc(c.reads(false), isSaved) {
			return max(i-e.Next, 1)
		}
		if c.SaveAs != "" {
			saved[strings.ToLower(c.SaveAs)] = true
		}
	}
	return len(e.Plan.Commands) - e.Next
}

// Advance moves to the next command, and saves the result of the one that ran if it has a SaveAs. A
// result that is not a JSON value is an error.
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
		if delete(e.Shown, strings.ToLower(name)); result.Shown() != "" {
			if e.Shown == nil {
				e.Shown = map[string]bool{}
			}
			e.Shown[strings.ToLower(name)] = true
		}
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

// Withheld reports whether the command at index i is a SAY that must not be sent: an earlier
// command found nothing to act on, and the SAY does not quote that command's result.
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

// Owes reports whether, as far as is known, the SAYs do not tell everything: one is withheld, or
// none quotes a command that found nothing to act on.
func (e *Progress) Owes() bool {
	for i := range e.Plan.Commands {
		if e.Withheld(i) {
			return true
		}
	}
	return len(e.untold()) > 0
}

// untold returns the texts of commands that found nothing to act on and that no sent SAY quotes.
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

// quotes reports whether text, of the command at index i, names the result of the command at index
// at, and not just a field of it.
func (e *Progress) quotes(text string, at, i int) bool {
	name := e.Plan.Commands[at].SaveAs
	saved := func(c Command) bool { return strings.EqualFold(c.SaveAs, name) }
	if name == "" || slices.ContainsFunc(e.Plan.Commands[at+1:i], saved) {
		return false // or a later result has that name now
	}
	return slices.ContainsFunc(references(text, !e.Plan.TrimResults), func(named string) bool { return strings.EqualFold(named, name) })
}

// errNeedsApproval is wrapped by the error of [Progress.Run] if a command in the plan needs a
// person's approval.
var errNeedsApproval = errors.New("it needs the approval of a person, whom nobody asks here")

// Run runs a plan outside a chat: all remaining commands, one after another, without the limits and
// approvals of a bot. Of the bot's hooks, it only calls the Gate of the turn.
//
// The result is the texts that the plan said and the output of a final DO, one per line, or the list or
// object that is all it said. It is [actions.Unchanged] if any command was; it then includes that
// command's text if no SAY quotes it. It has the cards of all results; if they are all there is, its
// text is theirs. [Progress] does not store them.
//
// Run first validates the whole plan, and runs nothing if a remaining command needs approval. Just
// before a DO it checks the entities again and asks the Gate. Run stops early at a command that
// failed, with a result that says which one, or at a result that a model has to see
// ([actions.Observe]). The progress then stays at the failed command, or after the one to be seen,
// and another Run continues there. A failure is the action's own, an entity that does not fit once
// its variables are filled in, or the text from a Gate error's method Reason() string. Any other
// error wraps [errNeedsApproval], a [*Fault], the Gate's error, or what went wrong in the action.
func (e *Progress) Run(ctx context.Context, turn *actions.Turn, reg *actions.Registry) (actions.Result, error) {
	return e.run(ctx, turn, reg, false)
}

// run runs the plan; approved says that the plan was approved as a whole.
func (e *Progress) run(ctx context.Context, turn *actions.Turn, reg *actions.Registry, approved bool) (actions.Result, error) {
	if !e.Done() {
		if err := validate(&e.Plan, reg, slices.Collect(maps.Keys(e.Variables)), false); err != nil {
			return actions.Result{}, fmt.Errorf("run plan: %w", err)
		}
	}
	for i := e.Next; i < len(e.Plan.Commands) && !approved; i++ {
		c := &e.Plan.Commands[i]
		action, ok := reg.Lookup(c.Action)
		if ok && (action.Approval || action.Destructive && (e.Plan.Salvaged || action.Doubtful(c.Entities))) {
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
			for _, card := range e.cards[:len(e.cards)-len(result.Cards())] {
				result = result.WithCard(card)
			}
			return result, nil
		}
	}
	return e.result(), nil
}

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
		err := turn.Gate(ctx, actions.Call{Action: action, Entities: entities, Salvaged: e.Plan.Salvaged || action.Doubtful(entities)})
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
	e.cards = append(e.cards, result.Cards()...)
	if last := e.Next == len(e.Plan.Commands)-1; err == nil && last && !result.Failed() && !result.Unchanged() && result.Shown() == "" {
		e.say(result.Text()) // no later text reports this result
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

// result is the result of a plan that ran to its end.
func (e *Progress) result() actions.Result {
	texts := append(slices.Clone(e.Said), e.untold()...)
	if len(texts) == 0 {
		for _, card := range e.cards {
			texts = append(texts, card.Fallback)
		}
	}
	text := strings.Join(texts, "\n")
	result := actions.Text("%s", text)
	if value, ok := e.only(); ok {
		result = actions.JSON(value)
	}
	if len(e.Unchanged) > 0 {
		result = actions.Unchanged("%s", text)
	}
	for _, card := range e.cards {
		result = result.WithCard(card)
	}
	return result
}

// only returns the list or object that is all a plan says.
func (e *Progress) only() (any, bool) {
	c := e.Plan.Commands[len(e.Plan.Commands)-1]
	if c.Kind != Say || len(e.Said) != 1 {
		return nil, false
	}
	switch value := e.Variables.expand(c.Response, !e.Plan.TrimResults).(type) {
	case []any, map[string]any:
		return value, true
	}
	return nil, false
}

// UnmarshalJSON reads a stored progress, with numbers as json.Number. It refuses unknown fields.
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
