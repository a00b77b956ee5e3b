package planner

import (
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/planbot-go/planbot/actions"
)

// weaver makes commands of the steps of an XML plan. Each output that is needed
// later is saved under a name of its own, so that writing a variable again takes
// nothing from who meant the value before.
type weaver struct {
	reg       *actions.Registry
	goal      string
	inlined   int // bytes of goal in the commands
	mentioned map[string]bool
	used      map[string]bool
	variables map[string]string // the name that holds a variable now, by its name in lower case
	commands  []Command
	last      int   // the last DO; -1 for none
	shown     []int // the DOs whose output is the result
}

func weave(steps []xmlStep, goal string, reg *actions.Registry) ([]Command, error) {
	w := &weaver{
		reg: reg, goal: strings.ReplaceAll(goal, "$", "$$"), mentioned: mentioned(steps),
		used: map[string]bool{}, variables: map[string]string{}, last: -1,
	}
	for _, step := range steps {
		if err := w.step(step); err != nil {
			return nil, err
		}
	}
	w.result()
	if !(Plan{Commands: w.commands}).Saves() {
		w.settle()
	}
	return w.commands, nil
}

// mentioned are all names that the steps use for variables, in lower case.
func mentioned(steps []xmlStep) map[string]bool {
	names := map[string]bool{}
	note := func(text string) {
		for name := range references(text) {
			names[strings.ToLower(name)] = true
		}
	}
	for _, step := range steps {
		note(step.text)
		for _, a := range step.attributes {
			note(a.value)
			if isOutput(a.name) {
				names[strings.ToLower(variableName(a.value))] = true
			}
		}
	}
	return names
}

const (
	setAttribute    = "setContextVariable"
	appendAttribute = "appendToResult"
	inputVariable   = "input"
)

func isOutput(name string) bool {
	return strings.EqualFold(name, setAttribute) || strings.EqualFold(name, appendAttribute)
}

// variableName is the name that an attribute for the output gives; models put a
// $ before it at times.
func variableName(value string) string {
	return strings.TrimPrefix(strings.TrimSpace(value), "$")
}

func (w *weaver) step(step xmlStep) *DecodeError {
	if step.function == "" {
		text, err := w.expand(step.text)
		w.commands = append(w.commands, Command{Kind: Say, Response: text})
		return err
	}
	set, appended, err := w.outputs(step)
	if err != nil {
		return err
	}
	c := Command{Kind: Do, Action: step.function}
	action, known := resolveFunction(w.reg, step.function)
	schema := &jsonschema.Schema{}
	if known {
		c.Action, schema = action.Name, action.Schema
	}
	if c.Entities, err = w.entities(step, schema); err != nil {
		return err
	}
	w.last = len(w.commands)
	w.commands = append(w.commands, c)
	w.keep(set)
	w.keep(appended)
	if appended != "" {
		w.shown = append(w.shown, w.last)
	}
	return nil
}

// resolveFunction finds the action of a function: by its whole name or, where
// the model put a plugin before it, by both joined, else by the name alone. A
// plugin that other actions have is not dropped.
func resolveFunction(reg *actions.Registry, name string) (*actions.Action, bool) {
	if action, ok := lookup(reg, name); ok {
		return action, true
	}
	plugin, function, ok := strings.Cut(name, ".")
	if !ok || strings.Contains(function, ".") {
		return nil, false
	}
	for _, joint := range [...]string{"-", "_"} {
		if action, ok := reg.Lookup(plugin + joint + function); ok {
			return action, true
		}
	}
	for _, action := range reg.All() {
		if hasPrefixFold(action.Name, plugin+"-") || hasPrefixFold(action.Name, plugin+"_") {
			return nil, false
		}
	}
	return reg.Lookup(function)
}

// outputs reads the names that the output is kept under.
func (w *weaver) outputs(step xmlStep) (set, appended string, err *DecodeError) {
	seen := map[string]string{}
	for _, a := range step.attributes {
		if !isOutput(a.name) {
			continue
		}
		name := variableName(a.value)
		key := strings.ToLower(a.name)
		if before, twice := seen[key]; twice && before != name {
			return "", "", fail(InvalidPlan, "function %s has %s twice", clip(step.function), a.name)
		}
		if nameSize(name) != len(name) {
			return "", "", fail(InvalidPlan, "function %s: %s=%q is no name; use letters, digits and _", clip(step.function), a.name, clip(a.value))
		}
		seen[key] = name
	}
	return seen[strings.ToLower(setAttribute)], seen[strings.ToLower(appendAttribute)], nil
}

// keep makes the output of the last function the value of a variable. INPUT is
// that already.
func (w *weaver) keep(name string) {
	if name == "" || strings.EqualFold(name, inputVariable) {
		return
	}
	c := &w.commands[w.last]
	if c.SaveAs == "" {
		c.SaveAs = w.free(name)
	}
	w.variables[strings.ToLower(name)] = c.SaveAs
}

// saved is the name under which the output of the DO at is saved.
func (w *weaver) saved(at int) string {
	if w.commands[at].SaveAs == "" {
		w.commands[at].SaveAs = w.free("")
	}
	return w.commands[at].SaveAs
}

// free is a name that nothing is saved under: the name itself, when it is the
// first time, else one that the plan does not mention.
func (w *weaver) free(name string) string {
	key := strings.ToLower(name)
	if name == "" {
		name, key = "OUTPUT", ""
	}
	for n := w.last + 1; key == "" || w.used[key]; n++ {
		next := name + "_" + strconv.Itoa(n)
		if low := strings.ToLower(next); !w.mentioned[low] && !w.used[low] {
			name, key = next, low
			break
		}
	}
	w.used[key] = true
	return name
}

// result ends the plan with what it is for: what was appended, else the last
// output, unless the plan says something of its own behind it.
func (w *weaver) result() {
	if len(w.shown) == 0 && w.last == len(w.commands)-1 && w.last >= 0 {
		w.shown = []int{w.last}
	}
	if len(w.shown) == 0 {
		return
	}
	lines := make([]string, len(w.shown))
	for i, at := range w.shown {
		lines[i] = "$" + w.saved(at)
	}
	w.commands = append(w.commands, Command{Kind: Say, Response: strings.Join(lines, "\n")})
}

// settle resolves $$ in a plan without variables, where nobody will.
func (w *weaver) settle() {
	for i := range w.commands {
		c := &w.commands[i]
		c.Entities = Variables{}.ExpandEntities(c.Entities)
		c.Response = Variables{}.ExpandText(c.Response)
	}
}
