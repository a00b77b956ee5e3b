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
func Validate(p Plan, reg *actions.Registry) (Plan, error) {
	if err := validate(&p, reg, nil); err != nil {
		return Plan{}, err
	}
	return p, nil
}

// validate checks a plan in which the given variables are set from the start.
func validate(p *Plan, reg *actions.Registry, given []string) error {
	if len(p.Commands) == 0 {
		return errNothing
	}
	if err := checkForm(p.Commands); err != nil {
		return err
	}
	saved := savedNames(p.Commands, given)
	if err := checkOrder(p.Commands, saved); err != nil {
		return err
	}
	var later func(string) bool
	if saved != nil {
		later = func(text string) bool { return refersTo(text, saved) }
	}
	p.Commands = slices.Clone(p.Commands)
	for i := range p.Commands {
		if p.Commands[i].Kind != Do {
			continue
		}
		if err := checkAction(&p.Commands[i], i, reg, later); err != nil {
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
			return Faultf(InvalidPlan, "command %d: the type %q is not DO or SAY", i+1, spelling.Clip(string(c.Kind)))
		case c.Kind == Do && strings.TrimSpace(c.Action) == "":
			return Faultf(InvalidPlan, "command %d: the DO names no action", i+1)
		case c.Kind == Say && strings.TrimSpace(c.Response) == "":
			return Faultf(InvalidPlan, "command %d: the SAY has no response", i+1)
		case c.SaveAs != "" && nameSize(c.SaveAs) != len(c.SaveAs):
			return Faultf(InvalidPlan, "command %d: saveAs is no name", i+1)
		}
	}
	return nil
}

// savedNames maps each name that the plan saves, in lower case, to the command
// that saves it first, and those that are given to -1; nil when there are none.
func savedNames(commands []Command, given []string) map[string]int {
	var saved map[string]int
	if len(given) > 0 {
		saved = make(map[string]int, len(given))
	}
	for _, name := range given {
		saved[strings.ToLower(name)] = -1
	}
	for i := range commands {
		name := strings.ToLower(commands[i].SaveAs)
		if name == "" {
			continue
		}
		if saved == nil {
			saved = make(map[string]int)
		}
		if _, before := saved[name]; !before {
			saved[name] = i
		}
	}
	return saved
}

// checkOrder finds a variable that is used before it is saved.
func checkOrder(commands []Command, saved map[string]int) error {
	if saved == nil {
		return nil
	}
	for i := range commands {
		early := func(text string) error { return checkReferences(text, i, saved) }
		if err := early(commands[i].Response); err != nil {
			return err
		}
		if err := eachText(commands[i].Entities, early); err != nil {
			return err
		}
	}
	return nil
}

func checkReferences(text string, index int, saved map[string]int) error {
	var key []byte
	for name := range references(text) {
		key = appendFolded(key[:0], name)
		if by, ok := saved[string(key)]; ok && by >= index {
			return Faultf(InvalidPlan, "command %d uses $%s, which only command %d saves", index+1, spelling.Clip(name), by+1)
		}
	}
	return nil
}

// eachText calls visit for each string in value and returns an error of it: the
// same one each time, whatever the order of a map.
func eachText(value any, visit func(string) error) error {
	switch value := value.(type) {
	case string:
		return visit(value)
	case map[string]any:
		var first error
		for _, item := range value {
			if err := eachText(item, visit); err != nil && (first == nil || err.Error() < first.Error()) {
				first = err
			}
		}
		return first
	case []any:
		for _, item := range value {
			if err := eachText(item, visit); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkAction checks a DO against its action and gives it the action's name. Texts
// for which later returns true are not final.
func checkAction(c *Command, index int, reg *actions.Registry, later func(string) bool) error {
	action, ok := lookup(reg, c.Action)
	if !ok {
		return Faultf(UnknownAction, "command %d: there is no action %q%s", index+1, spelling.Clip(c.Action), Suggest(c.Action, reg))
	}
	c.Action = action.Name
	if err := action.CheckBefore(c.Entities, later); err != nil {
		return Faultf(kindOf(err), "command %d, action %s: %s", index+1, action.Name, err)
	}
	return nil
}

// kindOf is the kind of an error of [actions.Action.CheckBefore].
func kindOf(err error) FaultKind {
	if _, ok := errors.AsType[*actions.MissingError](err); ok {
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

// refersTo reports whether a variable that the plan saves is in text.
func refersTo(text string, saved map[string]int) bool {
	var key []byte
	for name := range references(text) {
		key = appendFolded(key[:0], name)
		if _, ok := saved[string(key)]; ok {
			return true
		}
	}
	return false
}

// Suggest names the actions whose names are nearest to an unknown one.
func Suggest(name string, reg *actions.Registry) string {
	name = spelling.Clip(name)
	function := spelling.Plain(name[strings.LastIndexByte(name, '.')+1:]) // the model may have made up a plugin
	name = spelling.Plain(name)
	var known []string
	for _, action := range reg.All() {
		known = append(known, action.Name)
	}
	near := spelling.Nearest(known, func(action string) (int, bool) {
		action = spelling.Plain(action)
		edits := min(spelling.Edits(name, action), spelling.Edits(function, action))
		return edits, edits <= max(2, len(name)/2)
	})
	if near == nil {
		return "; use only the actions that are listed"
	}
	return "; the nearest names are " + strings.Join(near, ", ")
}
