package plan

import (
	"errors"
	"slices"
	"strings"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/internal/spelling"
)

// Validate checks the whole plan against the registered actions before its first
// command runs, and returns it with the actions' names as they are registered.
// Entities stay as the model wrote them: [actions.Action.Check] converts them just
// before the run. One bad command makes the plan bad.
//
// A text may name a variable only behind the command that saves it; a name that
// no command saves is plain text. An entity with a variable in it has no type
// yet, so it is only checked for being there. The error is a [*Fault].
func (p Plan) Validate(reg *actions.Registry) (Plan, error) {
	if err := validate(&p, reg, nil); err != nil {
		return Plan{}, err
	}
	return p, nil
}

var errNothing = NoPlan.Faultf("the plan has no command")

// validate checks a plan in which the given variables are set from the start.
func validate(p *Plan, reg *actions.Registry, given []string) error {
	if len(p.Commands) == 0 {
		return errNothing
	}
	if err := checkForm(p.Commands); err != nil {
		return err
	}
	saved := map[string]int{} // the command that saves a name first, by the name in lower case
	for _, name := range given {
		saved[strings.ToLower(name)] = -1
	}
	for i := range p.Commands {
		name := strings.ToLower(p.Commands[i].SaveAs)
		if _, before := saved[name]; name != "" && !before {
			saved[name] = i
		}
	}
	for i := range p.Commands {
		for _, name := range p.Commands[i].reads() {
			if by, ok := saved[strings.ToLower(name)]; ok && by >= i {
				return InvalidPlan.Faultf("command %d uses $%s, which only command %d saves", i+1, spelling.Clip(name), by+1)
			}
		}
	}
	isLater := func(text string) bool {
		return slices.ContainsFunc(references(text), func(name string) bool { _, ok := saved[strings.ToLower(name)]; return ok })
	}
	p.Commands = slices.Clone(p.Commands)
	for i := range p.Commands {
		if p.Commands[i].Kind != Do {
			continue
		}
		if err := checkAction(&p.Commands[i], i, reg, isLater); err != nil {
			return err
		}
	}
	return nil
}

// checkForm finds commands that [Decode] does not make, but others might.
func checkForm(commands []Command) error {
	for i := range commands {
		switch c := &commands[i]; {
		case c.Kind != Do && c.Kind != Say:
			return InvalidPlan.Faultf("command %d: the type %q is not DO or SAY", i+1, spelling.Clip(string(c.Kind)))
		case c.Kind == Do && strings.TrimSpace(c.Action) == "":
			return InvalidPlan.Faultf("command %d: the DO names no action", i+1)
		case c.Kind == Say && strings.TrimSpace(c.Response) == "":
			return InvalidPlan.Faultf("command %d: the SAY has no response", i+1)
		case c.SaveAs != "" && !isName(c.SaveAs):
			return InvalidPlan.Faultf("command %d: saveAs is no name", i+1)
		}
	}
	return nil
}

// checkAction checks a DO against its action and gives it the action's name. Texts
// for which later returns true are not final.
func checkAction(c *Command, index int, reg *actions.Registry, later func(string) bool) error {
	action, ok := lookup(reg, c.Action)
	if !ok {
		return UnknownAction.Faultf("command %d: there is no action %q%s", index+1, spelling.Clip(c.Action), suggest(c.Action, reg))
	}
	c.Action = action.Name
	if err := action.CheckBefore(c.Entities, later); err != nil {
		return kindOf(err).Faultf("command %d, action %s: %s", index+1, action.Name, err)
	}
	return nil
}

// kindOf is the kind of an error of [actions.Action.CheckBefore].
func kindOf(err error) FaultKind {
	if e, ok := errors.AsType[*actions.EntityError](err); ok && e.Missing != nil {
		return MissingEntities
	}
	return InvalidEntities
}

// lookup finds an action; models of OpenAI put the namespace functions before
// its name.
func lookup(reg *actions.Registry, name string) (*actions.Action, bool) {
	if action, ok := reg.Lookup(name); ok {
		return action, true
	}
	if bare, ok := strings.CutPrefix(name, "functions."); ok {
		return reg.Lookup(bare)
	}
	return nil, false
}

// suggest names the actions whose names are nearest to an unknown one.
func suggest(name string, reg *actions.Registry) string {
	var known []string
	for _, action := range reg.All() {
		known = append(known, action.Name)
	}
	return spelling.Suggest(name, known)
}
