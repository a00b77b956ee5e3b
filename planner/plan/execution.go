package plan

import (
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
	Variables Variables `json:"variables"`
	// Unchanged is what the commands so far have said that found nothing to act on, by their
	// indexes, see [actions.Unchanged].
	Unchanged map[int]string `json:"unchanged,omitempty"`
	// Said are the texts of the plan so far, where a [Runner] runs it.
	Said []string `json:"said,omitempty"`
}

// NewProgress starts a plan at its first command. The inputs are variables that
// it finds set, by name, see [Plan.Inputs]; a plan that was run before can be run
// with others.
func NewProgress(p Plan, inputs map[string]any) *Progress {
	e := &Progress{Plan: p}
	if p.Saves() || len(inputs) > 0 {
		e.Variables = make(Variables, len(inputs))
	}
	for name, value := range inputs {
		e.Variables.Set(name, value)
	}
	return e
}

// Done reports whether no command is left.
func (e *Progress) Done() bool { return e.Next >= len(e.Plan.Commands) }

// MaxExpanded is how many bytes the variables may fill into one command: a short
// plan can name a long result many times.
const MaxExpanded = 256 << 10

// ErrExpanded is the error of a command into which variables would fill more than
// [MaxExpanded] bytes.
var ErrExpanded = errors.New("what was saved is too long to be filled in so often")

// Command returns the command at index i with the variables that are set by now
// filled in. With [ErrExpanded] nothing is.
func (e *Progress) Command(i int) (Command, error) {
	c := e.Plan.Commands[i]
	if e.Variables == nil {
		return c, nil
	}
	size := e.Variables.size(c.Response)
	_ = eachText(c.Entities, func(text string) error {
		size += e.Variables.size(text)
		return nil
	})
	if size > MaxExpanded {
		return c, ErrExpanded
	}
	c.Entities = e.Variables.ExpandEntities(c.Entities)
	c.Response = e.Variables.ExpandText(c.Response)
	return c, nil
}

// Together returns how many of the commands from the next one on may run at the
// same time: 1, or more when all of them are DOs for which parallel returns true
// and none needs what another of them saves. It is 0 when none is left.
func (e *Progress) Together(parallel func(Command) bool) int {
	saved := map[string]int{}
	for i := e.Next; i < len(e.Plan.Commands); i++ {
		c := &e.Plan.Commands[i]
		if c.Kind != Do || !parallel(*c) || needs(c, saved) {
			return max(i-e.Next, 1)
		}
		if c.SaveAs != "" {
			saved[strings.ToLower(c.SaveAs)] = i
		}
	}
	return len(e.Plan.Commands) - e.Next
}

// needs reports whether c uses or replaces one of the saved names.
func needs(c *Command, saved map[string]int) bool {
	if _, ok := saved[strings.ToLower(c.SaveAs)]; ok {
		return true
	}
	return eachText(c.Entities, func(text string) error {
		if refersTo(text, saved) {
			return Faultf(InvalidPlan, "")
		}
		return nil
	}) != nil
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
		e.Variables.Set(name, value)
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
	for named := range references(text) {
		if strings.EqualFold(named, name) {
			return true
		}
	}
	return false
}

// Validate checks the whole plan as [Validate] does, with the variables that are
// set by now. What it says of an entity with such a variable is said just before
// its command.
func (e *Progress) Validate(reg *actions.Registry) error {
	return validate(&e.Plan, reg, slices.Collect(maps.Keys(e.Variables)))
}

// UnmarshalJSON reads what was kept, with numbers as json.Number. It refuses what
// a later version of this program wrote, and anything that this one does not know.
func (e *Progress) UnmarshalJSON(data []byte) error {
	type plain Progress
	var p plain
	if err := decodeStrictly(data, &p); err != nil {
		return fmt.Errorf("read execution: %w", err)
	}
	if p.Next < 0 || p.Next > len(p.Plan.Commands) {
		return fmt.Errorf("read execution: no command %d in a plan of %d", p.Next, len(p.Plan.Commands))
	}
	if p.Variables == nil && p.Plan.Saves() {
		p.Variables = Variables{}
	}
	*e = Progress(p)
	return nil
}
