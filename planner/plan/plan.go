// Package plan turns what a model wrote into a plan that is safe to run.
//
// A plan is a list of commands: DO runs an action, SAY sends a text. [Decode]
// reads a plan from the raw output of a model: it repairs what can be repaired
// without guessing, and refuses the rest with a [Fault] whose detail can be
// given back to the model. [Plan.Validate] then checks the whole plan against the
// registered actions before its first command runs. Neither ever makes a DO out
// of something that the text does not plainly say.
//
// # Where a plan with a DO may stand
//
// A plan with a DO counts only where it begins at the top level of the output:
// outside of every quote, brace and bracket that was opened before it, whether or
// not these were closed well. Or it is the only value in a wrapper that is the
// whole output and strict JSON: {"plan": …}, an array, or a string. Anything else
// is a reply or a fault. So what somebody wrote does not run where the model
// repeats it without escapes, unless it closes what it stands in as JSON would:
// that no decoder can tell from what the model meant.
//
// A mark counts wherever it stands, in prose, in code and in other quotes:
//
//   - Strict JSON opens nothing. Nor does JSON that can be read with repairs, if its
//     marks close each other. Other JSON with a quote in it stays open for good.
//   - A brace or bracket closes with its own kind, a quote with its own. Closed by
//     anything else, or with a backslash before the quote, it stays open for good.
//   - Quotes are " and ', “”, „“, ‘’, «», »« and 「」. An apostrophe is none: a ' or ’
//     right behind a letter or digit, as in Here's. Nor are inches: a " behind a
//     digit and before a space or a punctuation mark, as in 5" wide.
//   - Backticks, code fences, parentheses and tags open nothing. A comment that never
//     ends, or has a quote in it, stays open for good.
//   - Reasoning is no part of the output. A closing tag alone ends it, but not in a
//     line in which something is open.
//   - A comment in a plan with a DO must close what it opens.
//
// The rule holds for plans in XML, too: there a <say> is a quote as well, and so is a
// <goal> without an end; a <plan> that is broken was closed badly. A plan that only SAYs may stand elsewhere.
package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/internal/spelling"
)

// The kinds of commands.
const (
	Do  = "DO"  // runs an action
	Say = "SAY" // sends a text
)

// Command is one step of a [Plan].
type Command struct {
	Kind string `json:"type"` // [Do] or [Say]

	// Action is the name of the action that a DO runs.
	Action string `json:"action,omitempty"`
	// Entities are the arguments of a DO, as the model wrote them; never nil in
	// a decoded DO. Numbers are json.Number with their exact text.
	Entities map[string]any `json:"entities,omitempty"`
	// SaveAs is the variable that the result of a DO is kept in for later
	// commands of the same plan; "" when it is not kept.
	SaveAs string `json:"saveAs,omitempty"`
	// CallID is the id of the model's tool call that the DO came from; "" in a
	// plan that was written as one.
	CallID string `json:"callId,omitempty"`
	// Result is what a DO put out, in a command that was run: a [Transcript] keeps
	// it of a tool call. A plan has none.
	Result string `json:"result,omitempty"`

	// Response is the text of a SAY; never blank in a decoded SAY.
	Response string `json:"response,omitempty"`
}

// unnamed begins the names under which outputs are kept that a plan needs and the model
// has given no name.
const unnamed = "OUTPUT"

// Named reports whether the model itself gave the result of a DO a name.
func (c *Command) Named() bool {
	return c.SaveAs != "" && !strings.HasPrefix(strings.ToUpper(c.SaveAs), unnamed+"_")
}

// Plan is what a model wants done, in order. A plan from [Decode] has at least
// one command.
type Plan struct {
	Commands []Command `json:"commands"`
	// Repairs are the codes of what had to be repaired or stripped to read the
	// plan, sorted; none for a plan that was written as asked for.
	Repairs []string `json:"repairs,omitempty"`
	// Salvaged says that the plan stood in the middle of prose. A runtime may
	// want a person's approval before such a plan does harm.
	Salvaged bool `json:"salvaged,omitempty"`
	// Observe says that the model waits for the results, whatever they are, and
	// plans again with them.
	Observe bool `json:"observe,omitempty"`
	// Preface is what the model wrote beside its tool calls. It goes back to the
	// model with the results, not to the person.
	Preface string `json:"preface,omitempty"`
	// TrimResults says that results are saved without white space around them, as
	// Semantic Kernel does.
	TrimResults bool `json:"trimResults,omitempty"`
	// Refused are the faults of the answers before this one, which could not be
	// used; none when the first answer was good.
	Refused []FaultKind `json:"refused,omitempty"`
	// Prose says that the text held no plan: Commands is the one SAY of it.
	Prose bool `json:"prose,omitempty"`
}

// Saves reports whether any command keeps its result. Only in such a plan is
// $NAME a variable and $$ a dollar sign; in any other, text is taken as it is.
func (p Plan) Saves() bool {
	for i := range p.Commands {
		if p.Commands[i].SaveAs != "" {
			return true
		}
	}
	return false
}

// Calls is how many commands are DOs.
func (p Plan) Calls() (n int) {
	for _, c := range p.Commands {
		if c.Kind == Do {
			n++
		}
	}
	return n
}

// Says is how many commands are SAYs.
func (p Plan) Says() int { return len(p.Commands) - p.Calls() }

// LastDo returns the index of the last DO, or -1 when there is none.
func (p Plan) LastDo() int {
	for i := len(p.Commands) - 1; i >= 0; i-- {
		if p.Commands[i].Kind == Do {
			return i
		}
	}
	return -1
}

// inputs are the variables that the plan reads and no command of it saves, in the order in
// which they are read first. They are set when it is run, see [Plan.Start]; one that is not
// set stays as it is written.
func (p Plan) inputs() (names []string) {
	known := map[string]bool{}
	for i := range p.Commands {
		known[strings.ToLower(p.Commands[i].SaveAs)] = true
	}
	for i := range p.Commands {
		for _, name := range p.Commands[i].reads() {
			if low := strings.ToLower(name); !known[low] {
				known[low] = true
				names = append(names, name)
			}
		}
	}
	return names
}

// String shows the whole plan, a line for each command:
//
//   - Writer-Translate input="$S" language="French" => T
//   - SAY "$T"
//
// It quotes what people and models wrote; see [Plan.Outline] for logs.
func (p Plan) String() string {
	lines := make([]string, len(p.Commands))
	for i := range p.Commands {
		lines[i] = p.Commands[i].line()
	}
	return strings.Join(lines, "\n")
}

// line shows the command as a line of [Plan.String].
func (c *Command) line() string {
	if c.Kind == Say {
		return "- " + Say + " " + strconv.Quote(c.Response)
	}
	var out strings.Builder
	out.WriteString("- " + c.Action)
	for _, name := range slices.Sorted(maps.Keys(c.Entities)) {
		out.WriteString(" " + name + "=" + quoted(c.Entities[name]))
	}
	if c.SaveAs != "" {
		out.WriteString(" => " + c.SaveAs)
	}
	return out.String()
}

// quoted shows a value in a line: a text in quotes, else JSON.
func quoted(value any) string {
	switch value := value.(type) {
	case string:
		return strconv.Quote(value)
	case nil, json.Number, bool:
		raw, _ := json.Marshal(value) // none of them fails
		return string(raw)
	}
	return textOf(value)
}

// Outline shows a plan that was validated without anything that is in it: a line
// for each command, with the name of its action or SAY. It is safe for logs.
func (p Plan) Outline() string {
	lines := make([]string, len(p.Commands))
	for i := range p.Commands {
		if lines[i] = "- " + Say; p.Commands[i].Kind != Say {
			lines[i] = "- " + p.Commands[i].Action
		}
	}
	return strings.Join(lines, "\n")
}

// FaultKind says why a text is no plan that may run.
type FaultKind string

// The kinds of a [Fault]. When several apply, the first one wins; the last
// three are decided command by command.
const (
	Truncated       FaultKind = "truncated"        // the text ends before the plan does
	NoPlan          FaultKind = "no_plan"          // there is nothing to do and nothing to say
	InvalidPlan     FaultKind = "invalid_plan"     // it is no plan, or not certain which plan it is
	UnknownAction   FaultKind = "unknown_action"   // a command names an action that is not registered
	MissingEntities FaultKind = "missing_entities" // a command lacks a required entity
	InvalidEntities FaultKind = "invalid_entities" // an entity does not fit the action's schema
)

// Fault is the error of [Decode] and [Plan.Validate]. Detail names the exact
// fault in words that help the model to do better; it quotes what the model
// wrote, so that Kind alone is for logs.
type Fault struct {
	Kind   FaultKind
	Detail string
	// Before are the faults of earlier answers in the same turn; [Decode] and
	// [Plan.Validate] leave it empty.
	Before []FaultKind
}

func (e *Fault) Error() string {
	return fmt.Sprintf("decode plan: %s: %s", e.Kind, e.Detail)
}

// Faultf makes a [Fault] of that kind.
func (k FaultKind) Faultf(format string, args ...any) *Fault {
	return &Fault{Kind: k, Detail: fmt.Sprintf(format, args...)}
}

// Start starts a plan at its first command. The inputs are variables that it finds set, by
// name; a plan that was run before can be run with others.
func (p Plan) Start(inputs map[string]any) *Progress {
	e := &Progress{Plan: p}
	if p.Saves() || len(inputs) > 0 {
		e.Variables = make(variables, len(inputs))
	}
	for name, value := range inputs {
		e.Variables.set(name, value)
	}
	return e
}

// AddAction registers a plan as an action. Its parameters are the plan's [Plan.Inputs], all
// required, with the types of the entities that they fill. It runs in variables of its own,
// and its result is that of [Progress.Run]; so a command that fails makes it fail, and says which.
//
// It needs approval, once for the whole, if any of its commands does, and is destructive if
// any is. It changes state only, and may run beside others, if that holds of all. Its Detail
// is the plan, with those of the plans that it calls. It asks the turn's Gate before each of
// its calls.
//
// A plan can call actions that were there before it, plans among them, so none can call
// itself. The error is of a plan or a name that will not do.
func (p Plan) AddAction(reg *actions.Registry, name, description string) (*actions.Action, error) {
	a := &planAction{plan: p, inputs: p.inputs(), reg: reg}
	if err := validate(&a.plan, reg, a.inputs); err != nil {
		return nil, fmt.Errorf("add plan %s: %w", name, err)
	}
	schema := &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{}, PropertyOrder: a.inputs, Required: a.inputs}
	for _, input := range a.inputs {
		schema.Properties[input] = a.property(input)
	}
	action, err := actions.AddSchema(reg, name, description, schema, a.call, a.marks)
	if err != nil {
		return nil, fmt.Errorf("add plan %s: %w", name, err)
	}
	return action, nil
}

// reads are the names of the variables that a command refers to, in its entities and then
// in its response.
func (c *Command) reads() (names []string) {
	mapTexts(c.Entities, func(text string) any {
		names = append(names, references(text)...)
		return nil
	})
	return append(names, references(c.Response)...)
}

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
