// Package plan turns the text that a model wrote into a plan that is safe to run.
//
// A plan is a list of commands: DO runs an action, SAY sends a text. [Decode] reads a plan from the
// raw output of a model. It repairs what it can without guessing and refuses the rest with a
// [Fault], whose detail can go back to the model. [Plan.Validate] then checks the whole plan
// against the registered actions before its first command runs. Neither ever invents a DO that the
// text does not plainly contain.
//
// A plan may declare its type before its commands. The type "answer" says that it has no DO, so
// that its text may be shown while the model still writes it, see [Draft]: a DO in it is a fault.
// The type "plan", or none, says nothing.
//
// # Where a plan with a DO counts
//
// A plan with a DO counts in two cases. Either it begins at the top level of the output, outside
// every quote, brace and bracket opened before it, closed well or not. Or it is the only value in a
// wrapper that is the whole output and strict JSON: {"plan": …}, an array, or a string. Anything
// else is a reply or a fault. So text from a user does not run when the model repeats it unescaped,
// unless that text closes the surrounding quote or bracket exactly as JSON would. No decoder can
// tell that case from what the model meant.
//
// A mark counts anywhere: in prose, in code and inside other quotes.
//
//   - Strict JSON opens nothing. Nor does JSON that can be read with repairs, if its
//     marks close each other. Other JSON with a quote in it stays open for good.
//   - A brace or bracket closes with its own kind, a quote with its own. Closed by
//     anything else, or with a backslash before the quote, it stays open for good.
//   - Quotes are " and ', “”, „“, ‘’, «», »« and 「」. An apostrophe is not a quote: a
//     ' or ’ right after a letter or digit, as in Here's. Nor is an inch mark: a "
//     after a digit and before a space or a punctuation mark, as in 5" wide.
//   - Backticks, code fences, parentheses and tags open nothing. A comment that never
//     ends, or has a quote in it, stays open for good.
//   - Reasoning is not part of the output. A closing tag alone ends it, but not on a
//     line where something is open.
//   - A comment in a plan with a DO must close what it opens.
//
// The rule also holds for plans in XML. There a <say> counts as a quote, and so does a <goal>
// without an end. A broken <plan> counts as badly closed. A plan that only SAYs may stand
// elsewhere.
package plan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/internal/plainjson"
	"github.com/planbot-go/planbot/internal/spelling"
	"github.com/planbot-go/planbot/internal/titles"
)

// The kinds of commands.
const (
	Do  = "DO"  // runs an action
	Say = "SAY" // sends a text
)

// The types of a plan as models write it: an answer has no DO.
const (
	planType   = "plan"
	answerType = "answer"
)

// Command is one step of a [Plan].
type Command struct {
	Kind string `json:"type"` // [Do] or [Say]

	// Action is the name of the action that a DO runs.
	Action string `json:"action,omitempty"`
	// Entities are the arguments of a DO, as the model wrote them; never nil in a decoded DO.
	// Numbers are json.Number with their exact text.
	Entities map[string]any `json:"entities,omitempty"`
	// SaveAs names the variable that stores the result of a DO for later commands of the same plan.
	// "": the result is not saved.
	SaveAs string `json:"saveAs,omitempty"`
	// CallID is the id of the model's tool call behind this DO. "": the plan did not come from tool
	// calls.
	CallID string `json:"callId,omitempty"`
	// Result is the output of a DO that ran from a tool call. Only a [Transcript] sets it; a plan
	// never does.
	Result string `json:"result,omitempty"`

	// Response is the text of a SAY; never blank in a decoded SAY.
	Response string `json:"response,omitempty"`
}

// unnamed is the prefix of the variable names that we choose when a plan needs a result and the
// model did not name it.
const unnamed = "OUTPUT"

// Named reports whether the model itself named the result of a DO.
func (c *Command) Named() bool {
	return c.SaveAs != "" && !strings.HasPrefix(strings.ToUpper(c.SaveAs), unnamed+"_")
}

// Plan is what a model wants done, in order. A plan from [Decode] has at least
// one command.
type Plan struct {
	Commands []Command `json:"commands"`
	// Repairs are the codes of what was repaired or stripped to read the plan, sorted. Empty if the
	// plan followed the format.
	Repairs []string `json:"repairs,omitempty"`
	// Salvaged says that the plan was found in the middle of prose. A runtime may want a person's
	// approval before such a plan does harm.
	Salvaged bool `json:"salvaged,omitempty"`
	// Observe says that the model waits for the results, whatever they are, and then plans again.
	Observe bool `json:"observe,omitempty"`
	// Preface is the text that the model wrote beside its tool calls. It goes back to the model
	// with the results, not to the person.
	Preface string `json:"preface,omitempty"`
	// TrimResults treats variables as Semantic Kernel does: saved results lose the white space around
	// them, $NAME.field is $NAME and a text, and a name that nothing saves is text.
	TrimResults bool `json:"trimResults,omitempty"`
	// Refused are the faults of earlier, unusable answers. Empty if the first answer was good.
	Refused []FaultKind `json:"refused,omitempty"`
	// Prose says that the text held no plan: Commands is one SAY with that text.
	Prose bool `json:"prose,omitempty"`
}

// Saves reports whether any command saves its result. Only in such a plan is $NAME a variable and
// $$ a dollar sign; any other plan takes text literally.
func (p Plan) Saves() bool {
	return slices.ContainsFunc(p.Commands, func(c Command) bool { return c.SaveAs != "" })
}

// Calls counts the DO commands.
func (p Plan) Calls() (n int) {
	for _, c := range p.Commands {
		if c.Kind == Do {
			n++
		}
	}
	return n
}

// Says counts the SAY commands.
func (p Plan) Says() int { return len(p.Commands) - p.Calls() }

// LastDo returns the index of the last DO, or -1 if there is none.
func (p Plan) LastDo() int {
	for i := len(p.Commands) - 1; i >= 0; i-- {
		if p.Commands[i].Kind == Do {
			return i
		}
	}
	return -1
}

// inputs returns the variables that the plan reads but no command saves, in the order of first use.
// [Plan.Start] sets them. An unset one stays as written.
func (p Plan) inputs() (names []string) {
	known := map[string]bool{}
	for i := range p.Commands {
		known[strings.ToLower(p.Commands[i].SaveAs)] = true
	}
	for i := range p.Commands {
		for _, name := range p.Commands[i].reads(false) {
			if low := strings.ToLower(name); !known[low] {
				known[low] = true
				names = append(names, name)
			}
		}
	}
	return names
}

// String shows the whole plan, one line per command:
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

// line formats the command as a line of [Plan.String].
func (c *Command) line() string {
	if c.Kind == Say {
		return "- " + Say + " " + quoted(c.Response)
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

func quoted(value any) string {
	raw, _ := plainjson.Marshal(value) // entities came from JSON
	return string(raw)
}

// Outline shows a validated plan without its contents: one line per command, with the action's name
// or SAY. It is safe for logs.
func (p Plan) Outline() string {
	lines := make([]string, len(p.Commands))
	for i := range p.Commands {
		if lines[i] = "- " + Say; p.Commands[i].Kind != Say {
			lines[i] = "- " + p.Commands[i].Action
		}
	}
	return strings.Join(lines, "\n")
}

// FaultKind says why a text is not a plan that can run.
type FaultKind string

// The kinds of a [Fault]. If several apply, the first one wins; the last three are decided command
// by command.
const (
	Truncated       FaultKind = "truncated"        // the text ends before the plan does
	NoPlan          FaultKind = "no_plan"          // there is nothing to do and nothing to say
	InvalidPlan     FaultKind = "invalid_plan"     // not a plan, or it is unclear which plan is meant
	UnknownAction   FaultKind = "unknown_action"   // a command names an action that is not registered
	MissingEntities FaultKind = "missing_entities" // a command lacks a required entity
	InvalidEntities FaultKind = "invalid_entities" // an entity does not fit the action's schema
)

// Fault is the error of [Decode] and [Plan.Validate]. Detail describes the exact fault in words
// that help the model correct it. Detail quotes the model, so log only Kind.
type Fault struct {
	Kind   FaultKind
	Detail string
	// Before are the faults of earlier answers in the same turn. [Decode] and [Plan.Validate] leave
	// it empty.
	Before []FaultKind
}

func (e *Fault) Error() string {
	return fmt.Sprintf("decode plan: %s: %s", e.Kind, e.Detail)
}

// Faultf makes a [Fault] of kind k.
func (k FaultKind) Faultf(format string, args ...any) *Fault {
	return &Fault{Kind: k, Detail: fmt.Sprintf(format, args...)}
}

// Start returns a run of the plan at its first command. inputs are the variables set at the start,
// by name. A plan can run again with other inputs.
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
// required, with the types of the entities they fill. It runs with its own variables, and its
// result is that of [Progress.Run]. If a command fails, the action fails and says which one.
//
// If any command needs approval, the action needs one approval for the whole plan. If any command
// is destructive, so is the action. It changes only state, and may run in parallel, if that is true
// of all commands. Its Detail is the plan, including the plans it calls. It asks the turn's Gate
// before each of its calls.
//
// A plan can only call actions registered before it, including other plans, so it cannot call
// itself. AddAction returns an error for an invalid plan or name.
func (p Plan) AddAction(reg *actions.Registry, name, description string) (*actions.Action, error) {
	a := &planAction{plan: p, inputs: p.inputs(), reg: reg}
	if err := validate(&a.plan, reg, a.inputs, false); err != nil {
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

// reads returns the names of the variables that a command refers to, with their fields if fields is
// set: first those in its entities, then those in its response.
func (c *Command) reads(fields bool) (names []string) {
	mapTexts(c.Entities, func(text string) any {
		names = append(names, references(text, fields)...)
		return nil
	})
	return append(names, references(c.Response, fields)...)
}

// indexes returns a variable that an entity uses as a list, as in $NAME[1]; "": none does. In a response the
// brackets may be a citation.
func (c *Command) indexes(saved map[string]int) (name string) {
	isSaved := func(name string) bool { _, ok := saved[strings.ToLower(name)]; return ok }
	mapTexts(c.Entities, func(text string) any {
		if name == "" {
			name = indexedIn(text, isSaved)
		}
		return nil
	})
	return name
}

// noList says what is wrong with $NAME[1].
func noList(name string) string {
	return fmt.Sprintf("uses $%s as a list, but it is one value: use an action that takes a part of it, or write $%[1]s alone; $$ is a dollar sign", spelling.Clip(name))
}

// Validate checks the whole plan against the registered actions before its first command runs, and
// returns it with the registered spelling of the action names. Entities stay as the model wrote
// them: [actions.Action.Check] converts them just before the run. One bad command makes the whole
// plan bad.
//
// In a plan that saves something, a text may use a variable only after a command that saves it, and
// only such fields of it as the action has if it declares them ([actions.Returns]). An entity with
// a variable in it has no type yet, so Validate only checks that it is present. The error is a
// [*Fault].
func (p Plan) Validate(reg *actions.Registry) (Plan, error) {
	if err := validate(&p, reg, nil, true); err != nil {
		return Plan{}, err
	}
	return p, nil
}

var errNothing = NoPlan.Faultf("the plan has no command")

// validate checks a plan whose given variables are set from the start. complete says that no others
// will be.
func validate(p *Plan, reg *actions.Registry, given []string, complete bool) error {
	if len(p.Commands) == 0 {
		return errNothing
	}
	if err := checkForm(p.Commands); err != nil {
		return err
	}
	saved := map[string]int{} // the first command that saves a name, by the name in lower case
	for _, name := range given {
		saved[strings.ToLower(name)] = -1
	}
	for i := range p.Commands {
		name := strings.ToLower(p.Commands[i].SaveAs)
		if _, before := saved[name]; name != "" && !before {
			saved[name] = i
		}
	}
	complete = complete && !p.TrimResults && p.Saves()
	for i := range p.Commands {
		for _, read := range p.Commands[i].reads(!p.TrimResults) {
			name, _, _ := strings.Cut(read, ".")
			switch by, ok := saved[strings.ToLower(name)]; {
			case ok && by >= i:
				return InvalidPlan.Faultf("command %d uses $%s, which only command %d saves", i+1, spelling.Clip(name), by+1)
			case !ok && complete:
				return InvalidPlan.Faultf("command %d uses $%s, which no command saves; write $$ for a dollar sign", i+1, spelling.Clip(name))
			}
			if missing := p.lacks(reg, i, read); missing != "" {
				return InvalidPlan.Faultf("command %d uses $%s, but %s", i+1, spelling.Clip(read), missing)
			}
		}
		if name := p.Commands[i].indexes(saved); name != "" {
			return InvalidPlan.Faultf("command %d %s", i+1, noList(name))
		}
	}
	isLater := func(text string) bool {
		return slices.ContainsFunc(references(text, false), func(name string) bool { _, ok := saved[strings.ToLower(name)]; return ok })
	}
	p.Commands = slices.Clone(p.Commands)
	for i := range p.Commands {
		if p.Commands[i].Kind != Do {
			continue
		}
		if err := checkAction(p.Commands, i, reg, isLater); err != nil {
			return err
		}
	}
	return nil
}

// lacks says which field of a reference in command i the saved result does not have, as far as its
// action declares that; "" if it has all of them.
func (p *Plan) lacks(reg *actions.Registry, i int, reference string) string {
	names := strings.Split(reference, ".")
	for by := i - 1; by >= 0; by-- { // the last one that saves the name
		c := &p.Commands[by]
		if !strings.EqualFold(c.SaveAs, names[0]) {
			continue
		}
		action, ok := lookup(reg, c.Action)
		if !ok || action.Returns == nil {
			return ""
		}
		schema := action.Returns
		for _, field := range names[1:] {
			if schema == nil || len(schema.Properties) == 0 {
				return "" // behind a text, .field is text
			}
			if schema.Properties[field] == nil {
				return fmt.Sprintf("the result of %s has no field %s; there are %s", action.Name, spelling.Clip(field), strings.Join(titles.Order(schema), ", "))
			}
			schema = schema.Properties[field]
		}
		return ""
	}
	return ""
}

// checkForm rejects commands that [Decode] never makes but other callers might.
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

// checkAction checks the DO at index i against its action, and sets the registered name and the entities that it
// gives by another name or leaves to earlier commands. later reports texts that are not final yet.
func checkAction(commands []Command, i int, reg *actions.Registry, later func(string) bool) error {
	c := &commands[i]
	action, ok := lookup(reg, c.Action)
	if !ok {
		return UnknownAction.Faultf("command %d: there is no action %q%s", i+1, spelling.Clip(c.Action), reg.Suggest(c.Action))
	}
	c.Action = action.Name
	c.Entities = Complete(action, c.Entities, commands[:i], reg)
	if err := action.CheckBefore(c.Entities, later); err != nil {
		return kindOf(err).Faultf("command %d, action %s: %s", i+1, action.Name, err)
	}
	return nil
}

// Complete returns the entities of a command with their own names in place of aliases, see [actions.Alias], and with
// what the commands before it leave to it, see [actions.Inherit]. It does not change the map that it is given.
func Complete(action *actions.Action, entities map[string]any, before []Command, reg *actions.Registry) map[string]any {
	entities = renamed(action, entities)
	for _, name := range action.Inherited {
		if value, inherits := inherited(before, name, reg); inherits && actions.SaysNothing(name, entities[name]) {
			entities = maps.Clone(entities)
			entities[name] = value
		}
	}
	return entities
}

// renamed returns the entities without aliases.
func renamed(action *actions.Action, entities map[string]any) map[string]any {
	if len(action.Aliases) == 0 {
		return entities
	}
	renamed := maps.Clone(entities)
	for _, alias := range slices.Sorted(maps.Keys(entities)) {
		entity, isAlias := action.Aliases[strings.ToLower(alias)]
		if _, given := renamed[entity]; isAlias && !given {
			renamed[entity] = entities[alias]
			delete(renamed, alias)
		}
	}
	return renamed
}

// inherited is the value that all commands with that entity have, as texts without regard to case. There must be one,
// and none of them may have ended what it names.
func inherited(before []Command, name string, reg *actions.Registry) (value any, ok bool) {
	for i := range before {
		other := before[i].Entities[name]
		action, known := reg.Lookup(before[i].Action)
		switch {
		case actions.SaysNothing(name, other):
		case known && slices.Contains(action.Ended, name):
			return nil, false
		case ok && !strings.EqualFold(textOf(other), textOf(value)):
			return nil, false
		default:
			value, ok = other, true
		}
	}
	return value, ok
}

// kindOf returns the kind of an error of [actions.Action.CheckBefore].
func kindOf(err error) FaultKind {
	if e, ok := errors.AsType[*actions.EntityError](err); ok && e.Missing != nil {
		return MissingEntities
	}
	return InvalidEntities
}

// lookup finds an action by its name, or as Semantic Kernel names it: PLUGIN.FUNCTION, or FUNCTION if only one plugin
// has it. OpenAI models put the namespace "functions" before a name.
func lookup(reg *actions.Registry, name string) (*actions.Action, bool) {
	if action, ok := reg.Lookup(name); ok {
		return action, true
	}
	if bare, ok := strings.CutPrefix(name, "functions."); ok {
		return lookup(reg, bare)
	}
	if plugin, function, ok := strings.Cut(name, "."); ok {
		return inPlugin(reg, plugin, function)
	}
	return onlyFunction(reg, name)
}

// inPlugin finds the action of a plugin's function, by both names joined. It never drops a plugin: the model may
// mean a function that does not exist.
func inPlugin(reg *actions.Registry, plugin, function string) (*actions.Action, bool) {
	if strings.Contains(function, ".") {
		return nil, false
	}
	dashed, ok := reg.Lookup(plugin + "-" + function)
	joined, also := reg.Lookup(plugin + "_" + function)
	if !ok {
		return joined, also
	}
	return dashed, !also
}

// onlyFunction finds the action of a function that is named without its plugin, PLUGIN-FUNCTION, if no other
// plugin has a function of that name.
func onlyFunction(reg *actions.Registry, name string) (only *actions.Action, ok bool) {
	for _, action := range reg.All() {
		_, function, hasPlugin := strings.Cut(action.Name, "-")
		switch {
		case !hasPlugin || !strings.EqualFold(function, name):
		case only != nil:
			return nil, false
		default:
			only = action
		}
	}
	return only, only != nil
}

// planAction is a plan that other plans can call.
type planAction struct {
	plan   Plan
	inputs []string
	reg    *actions.Registry
}

// property describes an input: like the first entity that takes it unchanged, else as a text.
func (p *planAction) property(input string) *jsonschema.Schema {
	for i := range p.plan.Commands {
		c := &p.plan.Commands[i]
		action, ok := p.reg.Lookup(c.Action)
		if c.Kind != Do || !ok || action.Schema.Defs != nil || action.Schema.Definitions != nil {
			continue
		}
		for _, name := range titles.Order(action.Schema) {
			text, _ := c.Entities[name].(string)
			if property := action.Schema.Properties[name]; property != nil && strings.EqualFold(text, "$"+input) {
				property = property.CloneSchemas()
				property.Default = nil
				return property
			}
		}
	}
	return &jsonschema.Schema{Type: "string"}
}

// marks sets the strictest marks of the actions that the plan calls. If they need tokens, the person
// signs in before the plan begins; but of several connections only the first can be waited for.
func (p *planAction) marks(a *actions.Action) {
	a.Detail = p.detail()
	a.StateOnly, a.Parallel = true, true
	for i := range p.plan.Commands {
		inner, ok := p.reg.Lookup(p.plan.Commands[i].Action)
		if !ok {
			continue // a SAY
		}
		a.StateOnly, a.Parallel = a.StateOnly && inner.StateOnly, a.Parallel && inner.Parallel
		a.Destructive, a.Approval = a.Destructive || inner.Destructive, a.Approval || inner.Approval
		a.ReturnsData, a.Finds = a.ReturnsData || inner.ReturnsData, a.Finds || inner.Finds
		a.Connection = cmp.Or(a.Connection, inner.Connection)
	}
}

const maxDetail = 8000 // limits the length of a plan that shows nested plans

// detail shows the plan, with each plan it calls below the call, unless that gets very long.
func (p *planAction) detail() string {
	var out strings.Builder
	for i := range p.plan.Commands {
		c := &p.plan.Commands[i]
		out.WriteString(c.line() + "\n")
		inner, ok := p.reg.Lookup(c.Action)
		if ok && inner.Detail != "" && out.Len()+len(inner.Detail) < maxDetail {
			out.WriteString("  " + strings.ReplaceAll(inner.Detail, "\n", "\n  ") + "\n")
		}
	}
	return strings.TrimSuffix(out.String(), "\n")
}

func (p *planAction) call(ctx context.Context, turn *actions.Turn, entities map[string]any) (actions.Result, error) {
	inputs := make(map[string]any, len(p.inputs))
	for _, name := range p.inputs {
		inputs[name] = entities[name]
	}
	// The call itself has been approved if needed.
	return p.plan.Start(inputs).run(ctx, turn, p.reg, true)
}
