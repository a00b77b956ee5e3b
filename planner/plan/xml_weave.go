package plan

import (
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/internal/spelling"
)

// weaver makes commands of the steps of an XML plan. Each output that is needed
// later is saved under a name of its own, so that writing a variable again takes
// nothing from who meant the value before. Names of variables are keys in lower
// case.
type weaver struct {
	d    *XMLDecoder
	goal string

	steps     []xmlStep
	inlined   int               // bytes of goal in the commands
	mentioned map[string]bool   // all names that the steps use; nil until they matter
	serial    int               // the last number that made a name free
	used      map[string]bool   // what outputs are saved under
	variables map[string]string // the name that holds a variable now
	results   map[string]bool   // what the steps append to the result
	missing   string            // a function that is left out
	lost      map[string]string // the function that is left out and would have set a variable

	commands []Command
	written  map[string]string // the attributes of a step so far, kept for the next
	key      []byte            // a name in lower case, kept for the next
	last     int               // the last DO; -1 for none
	shown    []int             // the DOs whose output is the result
	dollars  bool              // there is a $$
}

func (d *XMLDecoder) weave(steps []xmlStep, goal string) (*weaver, error) {
	w := &weaver{d: d, goal: strings.ReplaceAll(goal, "$", "$$"), steps: steps, last: -1}
	w.dollars = len(w.goal) > len(goal)
	w.used, w.variables = make(map[string]bool, len(steps)), make(map[string]string, len(steps))
	w.commands = make([]Command, 0, len(steps)+1)
	w.noteResults()
	for i := range steps {
		if err := w.step(&steps[i]); err != nil {
			return nil, err
		}
	}
	if w.missing != "" && w.last < 0 {
		return nil, Faultf(UnknownAction, "there is no function %q%s", spelling.Clip(w.missing), Suggest(w.missing, d.Actions))
	}
	w.result()
	if w.dollars && !(Plan{Commands: w.commands}).Saves() && len(w.inputs()) == 0 {
		w.settle()
	}
	return w, nil
}

// inputs are the variables that are set when the plan is run.
func (w *weaver) inputs() []string {
	if !w.d.KeepInput {
		return nil
	}
	return Plan{Commands: w.commands}.Inputs()
}

// noteResults notes the names that any step appends to the result: whatever sets
// one of them appends to it, too.
func (w *weaver) noteResults() {
	for i := range w.steps {
		for _, a := range w.steps[i].attributes {
			if outputOf(a.name) == appendsOutput {
				if w.results == nil {
					w.results = map[string]bool{}
				}
				w.results[strings.ToLower(variableName(a.value))] = true
			}
		}
	}
}

// output says what an attribute does with the output of its function.
type output uint8

const (
	noOutput output = iota
	setsOutput
	appendsOutput
)

const inputVariable = "input"

func outputOf(attribute string) output {
	switch {
	case strings.EqualFold(attribute, "setContextVariable"):
		return setsOutput
	case strings.EqualFold(attribute, "appendToResult"):
		return appendsOutput
	}
	return noOutput
}

// variableName is the name that an attribute for the output gives; models put a
// $ before it at times.
func variableName(value string) string {
	return strings.TrimPrefix(strings.TrimSpace(value), "$")
}

func (w *weaver) step(step *xmlStep) *Fault {
	if step.function == "" {
		text, err := w.expand(step.text)
		w.commands = append(w.commands, Command{Kind: Say, Response: text})
		return err
	}
	names, err := outputs(step)
	if err != nil {
		return err
	}
	c := Command{Kind: Do, Action: step.function}
	schema := &noSchema
	if action, known := resolveFunction(w.d.Actions, step.function); known {
		c.Action, schema = action.Name, action.Schema
	} else if w.d.AllowMissing {
		w.leaveOut(step, names)
		return nil
	}
	if c.Entities, err = w.entities(step, schema); err != nil {
		return err
	}
	w.last = len(w.commands)
	w.commands = append(w.commands, c)
	w.keep(names)
	return nil
}

var noSchema jsonschema.Schema

// leaveOut leaves out a step whose function is missing. Its output is its input,
// so the step behind it sees nothing of it; what it would have set is not there.
func (w *weaver) leaveOut(step *xmlStep, names [2]string) {
	w.missing = step.function
	for _, name := range names {
		if w.lost == nil {
			w.lost = map[string]string{}
		}
		w.lost[strings.ToLower(name)] = step.function
	}
}

// resolveFunction finds the action of a function: by its whole name or, with a
// plugin before it, as both joined. A plugin is never dropped: what the model
// means may be a function that is not there.
func resolveFunction(reg *actions.Registry, name string) (*actions.Action, bool) {
	if action, ok := lookup(reg, name); ok {
		return action, true
	}
	plugin, function, ok := strings.Cut(name, ".")
	if !ok || strings.Contains(function, ".") {
		return nil, false
	}
	if strings.EqualFold(plugin, globalPlugin) {
		return reg.Lookup(function)
	}
	dashed, ok := reg.Lookup(plugin + "-" + function)
	joined, also := reg.Lookup(plugin + "_" + function)
	if !ok {
		return joined, also
	}
	return dashed, !also
}

// globalPlugin is the plugin of functions that have none, in Semantic Kernel.
const globalPlugin = "_GLOBAL_FUNCTIONS_"

// outputs reads the names that the output is set as, and appended as; "" for none.
func outputs(step *xmlStep) (names [2]string, err *Fault) {
	var seen [2]bool
	for _, a := range step.attributes {
		kind := outputOf(a.name)
		if kind == noOutput {
			continue
		}
		name, at := variableName(a.value), kind-setsOutput
		if seen[at] && names[at] != name {
			return names, Faultf(InvalidPlan, "function %s has %s twice", spelling.Clip(step.function), a.name)
		}
		if nameSize(name) != len(name) {
			return names, Faultf(InvalidPlan, "function %s: %s=%q is no name; use letters, digits and _", spelling.Clip(step.function), a.name, spelling.Clip(a.value))
		}
		seen[at], names[at] = true, name
	}
	return names, nil
}

// keep makes the output of the last function the value of variables, and a part
// of the result. INPUT is that output already.
func (w *weaver) keep(names [2]string) {
	shown := false
	for _, name := range names {
		if name == "" {
			continue
		}
		w.fold(name)
		shown = shown || w.results[string(w.key)]
		if string(w.key) == inputVariable {
			continue
		}
		c := &w.commands[w.last]
		if c.SaveAs == "" {
			c.SaveAs = w.free(name)
			w.fold(name)
		}
		w.variables[string(w.key)] = c.SaveAs
	}
	if shown {
		w.shown = append(w.shown, w.last)
	}
}

// fold puts a name in lower case into w.key.
func (w *weaver) fold(name string) { w.key = appendFolded(w.key[:0], name) }

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
	if w.fold(name); name != "" && !w.used[string(w.key)] {
		w.used[string(w.key)] = true
		return name
	}
	if name == "" {
		name = unnamed
	}
	if w.mentioned == nil {
		w.mentioned = mentioned(w.steps)
	}
	for w.serial = max(w.serial, w.last+1); ; w.serial++ { // never back: a plan may mention very many names
		next := name + "_" + strconv.Itoa(w.serial)
		if low := strings.ToLower(next); !w.mentioned[low] && !w.used[low] {
			w.used[low] = true
			return next
		}
	}
}

// mentioned are all names that the steps use for variables, in lower case.
func mentioned(steps []xmlStep) map[string]bool {
	names := map[string]bool{}
	note := func(text string) {
		for name := range references(text) {
			names[strings.ToLower(name)] = true
		}
	}
	for i := range steps {
		note(steps[i].text)
		for _, a := range steps[i].attributes {
			note(a.value)
			if outputOf(a.name) != noOutput {
				names[strings.ToLower(variableName(a.value))] = true
			}
		}
	}
	return names
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
