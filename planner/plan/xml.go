package plan

import (
	"cmp"
	"html"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/planbot-go/planbot/internal/lazy"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/internal/spelling"
	"github.com/planbot-go/planbot/internal/titles"
)

// DecodeXML reads a plan that a model wrote in the format of Semantic Kernel's sequential planner,
// and validates it. In a <plan>, the children <function.Name …/> or <function.Plugin.Name …/>
// become DOs with their attributes as entities.
//
//   - setContextVariable="NAME" saves the output for later attributes, as $NAME.
//     The last write of a name wins, $$ is a dollar sign, and a name that is not
//     set stays as it is. $NAME[1] in an attribute is a fault, set or not.
//   - $INPUT is the output of the previous function, at first the goal. An entity
//     called input gets it if it is missing or empty and has no default. Any other
//     missing entity gets the variable of its name.
//   - appendToResult="NAME" also saves the output. The plan ends with a SAY of all
//     such outputs, one per line, including those set as the same NAME. If there
//     are none, it says the last function's output.
//   - <say>text</say> is a SAY at that place. After the last function it replaces
//     the last output. Semantic Kernel has no such element.
//
// Names match without regard to case. A plugin is never dropped: the action of function.A.b is A-b
// or A_b. Of several plans the last one that can run counts, but none after a broken one. A plan
// may stand where [Decode] allows it. Text without such a plan goes to [Decode]: it is a JSON plan
// or prose. The error is a [*Fault]; a text that was cut off never yields a plan.
func DecodeXML(text, goal string, reg *actions.Registry) (Plan, error) {
	if len(text) > maxBytes {
		return Plan{}, InvalidPlan.Faultf("the answer is longer than %d bytes", maxBytes)
	}
	cleaned, done := clean(text)
	if looksJSON(openFence(cleaned, &notes{})) {
		return decodeOther(text, reg)
	}
	cleaned, fault := finalChannel(cleaned, &done)
	if fault != nil {
		return Plan{}, fault
	}
	a := newAnswer(cleaned, done)
	a.xml = true
	if fault := a.scan(); fault != nil {
		return Plan{}, fault
	}
	switch hides := anyXMLPlan().MatchString(a.text); {
	case a.thinking && len(a.plans) > 0:
		return Plan{}, Truncated.Faultf("the text ends within the reasoning")
	case a.stray != nil:
		return Plan{}, a.stray
	case len(a.plans) > 0:
		return a.lastXMLPlan(goal, reg)
	case hides:
		return Plan{}, InvalidPlan.Faultf("the plan stands in a comment or a <goal>, or is written with &lt; for <")
	case a.text != "" && strings.TrimSpace(anyTag().ReplaceAllString(a.text, "")) == "":
		return Plan{}, InvalidPlan.Faultf("the answer is XML, but no plan")
	}
	return decodeOther(text, reg)
}

var (
	anyXMLPlan = lazy.Regexp(`(?i)(?:<|&lt;)(?:plan\b|function\.)`)
	anyTag     = lazy.Regexp(`</?[A-Za-z][^<>]*>`)
)

// decodeOther reads an answer in the format of the sequence planner, if the answer holds nothing
// else.
func decodeOther(text string, reg *actions.Registry) (Plan, error) {
	p, err := Decode(text)
	if err == nil {
		p, err = p.Validate(reg)
	}
	if err != nil {
		return Plan{}, err
	}
	if lower := strings.ToLower(text); p.Salvaged && (strings.Contains(lower, "<"+functionTag) || strings.Contains(lower, "<say")) {
		return Plan{}, InvalidPlan.Faultf("there is an XML plan beside the JSON plan")
	}
	return p, nil
}

// lastXMLPlan takes the last plan that can run. An empty plan after it cancels it. If none can run,
// the fault is that of the last.
func (a *answer) lastXMLPlan(goal string, reg *actions.Registry) (Plan, error) {
	around := a.without(true)
	isMeant := func(f found) bool { return f.shape != otherShape }
	if slices.ContainsFunc(a.found, isMeant) || keyOfPlan().MatchString(around) {
		return Plan{}, errBeside
	}
	if fault := a.sealed(around); fault != nil {
		return Plan{}, fault
	}
	var last error
	for i := len(a.plans) - 1; i >= 0; i-- {
		p := &a.plans[i]
		if p.fault == nil && len(p.steps) > 0 && !p.top {
			return Plan{}, errInside // it may cancel a plan before it
		}
		if p.fault == nil && len(p.steps) > 0 && !a.standsXML(i) {
			return Plan{}, InvalidPlan.Faultf("the plan stands in the middle of a sentence or a quotation")
		}
		read, err := p.plan(goal, false, reg)
		if err == nil {
			a.done.add(p.notes...)
			return a.finish(read, around), nil
		}
		last = cmp.Or(last, err)
		if p.fault == nil && len(p.steps) == 0 {
			break
		}
	}
	return Plan{}, last
}

var errBeside = InvalidPlan.Faultf("there is JSON of a plan beside the XML plan")

var keyOfPlan = lazy.Regexp(`(?i)["'](?:commands|action|response)["']|[{,]\s*(?:commands|action|response)\s*:`)

// standsXML reports whether plan i stands on its own. Tags beside it do not matter.
func (a *answer) standsXML(i int) bool {
	p, end := &a.plans[i], len(a.text)
	if i+1 < len(a.plans) {
		end = a.plans[i+1].start
	}
	return standsAlone(beside().ReplaceAllString(a.text[p.lineStart:p.start], ""), beside().ReplaceAllString(a.text[p.end:end], ""))
}

// beside matches text that may stand beside an XML plan because it says nothing.
var beside = lazy.Regexp(`(?is)<goal\b.*?</goal>|<!--.*?-->|<!\[CDATA\[.*?\]\]>|<\?.*?\?>|</?[a-z][^<>]*>`)

const functionTag = "function."

// EmptyPlan is the error of [DecodeXML] for <plan />: so a model says, in the format of Semantic Kernel, that none of
// the functions can do it. No other error is it.
var EmptyPlan = NoPlan.Faultf("the plan is empty: no function can do it")

// Limits: the XML plans in an answer, and the steps of each.
const maxPlans, maxSteps = 100, 1000

// xmlPlan is a <plan> in an answer, with the fault that keeps it from running.
type xmlPlan struct {
	start, end, lineStart int
	steps                 []xmlStep
	fault                 *Fault
	notes                 notes
	top                   bool // nothing is open where it begins
}

// xmlStep is one step of an XML plan: a function, or a text to say.
type xmlStep struct {
	function      string // what follows "function."; "" for a text
	attributes    []attribute
	set, appended string // the names that the output is set as and appended as; "" for none
	text          string
}

// attribute is an attribute of a tag, with its XML entities decoded.
type attribute struct{ name, value string }

// tagOfXML handles a tag outside plans that means something in this format, and reports whether it
// skipped it. The contents of a <goal> come from the person. If its end is uncertain, no plan runs.
func (a *answer) tagOfXML(rest string) (done bool, fault *Fault) {
	name, closing, _ := tagOf(rest)
	name = strings.ToLower(name)
	size := hiddenSize(rest)
	switch {
	case size < 0:
		return false, errXMLTruncated
	case name == "goal" && closing:
		a.stray = InvalidPlan.Faultf("a </goal> ends what did not begin")
	case name == "goal" && !a.quotes:
		end := indexFold(rest, "</goal>")
		if a.quotes = end < 0; !a.quotes {
			size = end + len("</goal>")
		}
	case name == "plan" && !closing:
		return true, a.planOfXML()
	case name == "say":
		a.quotes = !closing && !strings.HasSuffix(anyTag().FindString(rest[:min(len(rest), 200)]), "/>")
	case strings.HasPrefix(name, functionTag) && !closing:
		a.stray = InvalidPlan.Faultf("a function stands outside of a <plan>")
	}
	if size > 0 {
		a.parts = append(a.parts, part{start: a.pos, end: a.pos + size})
		a.pos += size
	}
	return size > 0, nil
}

// planOfXML reads the plan at pos. A broken plan ends with its closing tag: nothing inside is read
// again.
func (a *answer) planOfXML() *Fault {
	r := xmlReader{text: a.text, pos: a.pos}
	p := xmlPlan{start: a.pos, lineStart: a.lineStart}
	p.fault = r.plan(&p)
	a.marks.torn = a.marks.torn || isOpen(a.text[a.pos:p.start])
	p.top = a.marks.none() && !a.quotes
	if p.fault == errBeside {
		a.stray = errBeside
	}
	if p.fault != nil {
		size := indexFold(r.text[r.pos:], "</plan")
		if p.fault.Kind == Truncated || size < 0 {
			return p.fault
		}
		r.pos += size + len("</plan")
		if end := strings.IndexByte(r.text[r.pos:], '>'); end >= 0 {
			r.pos += end + 1
		}
		a.marks.torn = true // it was closed badly
	}
	if len(a.plans) == maxPlans {
		return InvalidPlan.Faultf("the answer holds more than %d plans", maxPlans)
	}
	p.end, p.notes = r.pos, r.notes
	a.plans = append(a.plans, p)
	a.parts = append(a.parts, part{p.start, p.end, true})
	a.pos, a.lineStart = r.pos, r.pos
	return nil
}

// xmlReader reads an XML plan. It accepts whatever has only one meaning, even if it is not XML: a
// bare & or < in a value, names in any case, values without quotes.
type xmlReader struct {
	text  string
	pos   int
	notes notes
}

var errXMLTruncated = Truncated.Faultf("the text ends before the plan does")

// plan reads the plan at pos. Text, comments and other elements in it mean nothing, as in Semantic
// Kernel.
func (r *xmlReader) plan(p *xmlPlan) (fault *Fault) {
	for closed := false; fault == nil && !closed; {
		size := strings.IndexByte(r.text[r.pos:], '<')
		if size < 0 {
			return errXMLTruncated
		}
		r.pos += size
		name, closing, length := tagOf(r.text[r.pos:])
		switch lower := strings.ToLower(name); {
		case name == "":
			if size = hiddenSize(r.text[r.pos:]); size < 0 {
				return errXMLTruncated
			}
			r.pos += max(size, 1) // skips a < in the text
		case closing:
			if closed = lower == "plan"; !closed {
				return InvalidPlan.Faultf("there stands </%s> in place of </plan>", spelling.Clip(name))
			}
			r.pos += length
		case lower == "plan" && r.pos > p.start && planKey.MatchString(r.text[p.start+1:r.pos]):
			return errBeside
		case lower == "plan" && len(p.steps) == 0: // a <plan> before it was only mentioned
			p.start = r.pos
			_, closed, fault = r.startTag(name)
		case len(p.steps) == maxSteps:
			return InvalidPlan.Faultf("the plan has more than %d steps", maxSteps)
		case lower != "say" && planTags().MatchString(lower):
			return InvalidPlan.Faultf("<%s> is no step; write <function.NAME …/>", spelling.Clip(name))
		default:
			fault = r.element(p, name)
		}
	}
	return fault
}

// planTags are the element names of plans, here and in other formats. stepTag matches the tag of a
// step.
var (
	planTags = lazy.Regexp(`^(?:` + planNames + `)$`)
	stepTag  = lazy.Regexp(`(?i)</?(?:function\.|(?:` + planNames + `)\b)`)
)

const planNames = `plan|functions?|function_calls?|tool_calls?|tool_use|invoke|commands?|action|do|say|steps?`

// element reads an element of a plan, which may be a step. A step within it is a fault, because it
// would be lost.
func (r *xmlReader) element(p *xmlPlan, name string) *Fault {
	attributes, closed, fault := r.startTag(name)
	if fault != nil {
		return fault
	}
	inner := ""
	if !closed {
		rest, end := r.text[r.pos:], "</"+name+">"
		size := indexFold(rest, end)
		if size < 0 {
			return Truncated.Faultf("<%s> is not closed", spelling.Clip(name))
		}
		inner = rest[:size]
		if hides(inner) {
			return InvalidPlan.Faultf("<%s> ends within a comment or character data", spelling.Clip(name))
		}
		r.pos += size + len(end)
	}
	isFunction := strings.HasPrefix(strings.ToLower(name), functionTag)
	switch isSay := strings.EqualFold(name, "say"); {
	case stepTag().MatchString(inner), isFunction && anyTag().MatchString(inner):
		return InvalidPlan.Faultf("there is a tag within <%s>; a plan is a list of functions, whose inputs are attributes", spelling.Clip(name))
	case isFunction:
		step := xmlStep{function: name[len(functionTag):]}
		for _, a := range attributes {
			if fault := step.add(a); fault != nil {
				return fault
			}
		}
		p.steps = append(p.steps, step)
	case isSay && attributes != nil:
		return InvalidPlan.Faultf("<say> has an attribute; its text stands between <say> and </say>")
	case isSay:
		text := r.plain(inner)
		if raw := characterData().FindStringSubmatch(inner); raw != nil {
			text = raw[1]
		}
		if text = strings.TrimSpace(text); text == "" {
			r.notes.add("empty_say")
			return nil
		}
		p.steps = append(p.steps, xmlStep{text: text})
	}
	return nil
}

// hides reports whether a text ends within a comment, character data or an instruction, where a tag
// is only text.
func hides(text string) bool {
	return slices.ContainsFunc([][2]string{{"<!--", "-->"}, {"<![CDATA[", "]]>"}, {"<?", "?>"}}, func(mark [2]string) bool {
		at := strings.LastIndex(text, mark[0])
		return at >= 0 && !strings.Contains(text[at:], mark[1])
	})
}

// add adds an attribute of a function: an entity, or what to do with the output. Models sometimes
// write a $ before the name of a variable.
func (step *xmlStep) add(a attribute) *Fault {
	output := &step.set
	switch strings.ToLower(a.name) {
	case "setcontextvariable":
	case "appendtoresult":
		output = &step.appended
	default:
		step.attributes = append(step.attributes, a)
		return nil
	}
	name := strings.TrimPrefix(strings.TrimSpace(a.value), "$")
	switch {
	case *output != "" && *output != name:
		return InvalidPlan.Faultf("function %s has %s twice", spelling.Clip(step.function), a.name)
	case name != "" && !isName(name):
		return InvalidPlan.Faultf("function %s: %s=%q is no name; use letters, digits and _", spelling.Clip(step.function), a.name, spelling.Clip(a.value))
	}
	*output = name
	return nil
}

var characterData = lazy.Regexp(`(?s)^\s*<!\[CDATA\[(.*?)\]\]>\s*$`)

// tagOf returns the name of the tag at the start of text, "" if there is none, and the length of a
// closing tag.
func tagOf(text string) (name string, closing bool, length int) {
	parts := tagStart().FindStringSubmatch(text[:min(len(text), 300)])
	if parts == nil {
		return "", false, 0
	}
	return parts[1] + parts[2], parts[1] != "", len(parts[0])
}

var tagStart = lazy.Regexp(`^<(?:/(` + tagName + `)\s*>|(` + tagName + `))`)

const tagName = `[A-Za-z_$][\w$.\-\x{80}-\x{10FFFF}]*`

// hiddenSize is the size of a comment, character data or an instruction, which may stand between
// the steps of a plan. 0: there is none; negative: it never ends.
func hiddenSize(text string) int {
	found := hidden().FindStringSubmatch(text)
	switch {
	case found == nil:
		return 0
	case found[1]+found[2]+found[3] == "":
		return -1
	}
	return len(found[0])
}

var hidden = lazy.Regexp(`(?s)^(?:<!--.*?(-->|$)|<!\[CDATA\[.*?(\]\]>|$)|<\?.*?(\?>|$))`)

// startTag reads the start tag at pos, and reports whether it closes itself.
func (r *xmlReader) startTag(name string) (attributes []attribute, closed bool, fault *Fault) {
	r.pos += len("<") + len(name)
	rest := r.text[r.pos:]
	tag := tagEnd().FindString(rest)
	switch {
	case tag == "" && !strings.Contains(rest, ">"):
		return nil, false, errXMLTruncated
	case tag == "":
		return nil, false, InvalidPlan.Faultf("<%s>: %q has no attributes of the form NAME=\"value\"; write a quote within a value as &quot;",
			spelling.Clip(name), spelling.Clip(strings.TrimSpace(rest)))
	}
	r.pos += len(tag)
	for _, parts := range attributeForm().FindAllStringSubmatch(tag, -1) {
		value := parts[2] + parts[3] + parts[4]
		switch {
		case plansTag().MatchString(value):
			return nil, false, InvalidPlan.Faultf("<%s>: the value of %s has no closing quote", spelling.Clip(name), spelling.Clip(parts[1]))
		case parts[4] != "":
			r.notes.add("bare_words")
		}
		attributes = append(attributes, attribute{parts[1], r.plain(value)})
	}
	return attributes, strings.HasSuffix(tag, "/>"), nil
}

// attributeForm matches an attribute, tagEnd all attributes and the end of a start tag.
var (
	attributeForm = lazy.Regexp(anAttribute)
	tagEnd        = lazy.Regexp(`^(?:` + anAttribute + `)*\s*/?>`)
	plansTag      = lazy.Regexp(`(?i)</?(?:function|plan)`)
)

const anAttribute = `\s+([^\s=/<>"'“”]+)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'<=>/“”]+))`

// plain decodes XML entities, each once. Lookalikes stay.
func (r *xmlReader) plain(text string) string {
	if !strings.ContainsAny(text, "<&") {
		return text
	}
	if strings.Contains(text, "<") || strings.Count(text, "&") > len(entityOfXML().FindAllStringIndex(text, -1)) {
		r.notes.add("escapes")
	}
	return entityOfXML().ReplaceAllStringFunc(text, html.UnescapeString)
}

var entityOfXML = lazy.Regexp(`&(?:lt|gt|amp|quot|apos|#0*[1-9]\d{0,6}|#[xX]0*[1-9a-fA-F][0-9a-fA-F]{0,5});`)

// plan builds the validated plan. kept says that the plan was stored: its first $INPUT stays a
// variable to set at run time.
func (p *xmlPlan) plan(goal string, kept bool, reg *actions.Registry) (Plan, error) {
	switch {
	case p.fault != nil:
		return Plan{}, p.fault
	case len(p.steps) == 0:
		return Plan{}, EmptyPlan
	}
	w := commandBuilder{
		reg: reg, goal: strings.ReplaceAll(goal, "$", "$$"), last: -1,
		taken: map[string]bool{}, variables: map[string]string{}, results: map[string]bool{},
	}
	if kept {
		w.goal = "$INPUT"
	}
	if w.build(p.steps); w.fault != nil {
		return Plan{}, w.fault
	}
	plan := Plan{Commands: w.commands, TrimResults: true}
	var inputs []string
	if kept {
		inputs = plan.inputs()
	}
	if !plan.Saves() && len(inputs) == 0 { // nothing else resolves $$ there
		for i := range plan.Commands {
			plan.Commands[i] = variables{}.expandCommand(plan.Commands[i], false)
		}
	}
	return plan, validate(&plan, reg, inputs, false)
}

// commandBuilder turns the steps of an XML plan into commands. It saves each output that is needed
// later under its own name, so that overwriting a variable does not affect readers of the earlier
// value. Variable names are lower-case keys.
type commandBuilder struct {
	reg       *actions.Registry
	goal      string
	inlined   int               // bytes of goal in the commands
	taken     map[string]bool   // names that the plan uses; true: an output is saved under it
	serial    int               // the last number used to make a name unique
	variables map[string]string // the name that stores a variable now
	results   map[string]bool   // what the steps append to the result
	commands  []Command
	last      int   // the last DO; -1 for none
	shown     []int // the DOs whose output is the result
	fault     *Fault
}

func (w *commandBuilder) build(steps []xmlStep) {
	for _, step := range steps {
		w.taken[strings.ToLower(step.set)] = false
		w.taken[strings.ToLower(step.appended)] = false
		w.results[strings.ToLower(step.appended)] = step.appended != ""
		texts := []string{step.text}
		for _, a := range step.attributes {
			texts = append(texts, a.value)
		}
		for _, name := range references(strings.Join(texts, " "), false) {
			w.taken[strings.ToLower(name)] = false
		}
	}
	for i := range steps {
		w.step(&steps[i])
	}
	// The plan ends with its result: what was appended, else the last output, unless the plan
	// itself says something after it.
	if len(w.shown) == 0 && w.last >= 0 && w.last == len(w.commands)-1 {
		w.shown = []int{w.last}
	}
	var lines []string
	for _, at := range w.shown {
		lines = append(lines, "$"+w.saved(at))
	}
	if lines != nil {
		w.commands = append(w.commands, Command{Kind: Say, Response: strings.Join(lines, "\n")})
	}
}

const inputVariable = "input"

func (w *commandBuilder) step(step *xmlStep) {
	if step.function == "" {
		text, _ := w.expand(step.text).(string)
		w.commands = append(w.commands, Command{Kind: Say, Response: text})
		return
	}
	c := Command{Kind: Do, Action: step.function}
	schema := &jsonschema.Schema{}
	if action, known := functionAction(w.reg, step.function); known {
		c.Action, schema = action.Name, action.Schema
	}
	c.Entities = w.entities(step, schema)
	w.last = len(w.commands)
	w.commands = append(w.commands, c)
	w.keep(step.set, step.appended)
}

func functionAction(reg *actions.Registry, name string) (*actions.Action, bool) {
	const global = "_GLOBAL_FUNCTIONS_." // Semantic Kernel's name for functions without a plugin
	if len(name) > len(global) && strings.EqualFold(name[:len(global)], global) {
		return reg.Lookup(name[len(global):])
	}
	return lookup(reg, name)
}

// entities builds the entities of a function: from its attributes, then from implicit values, INPUT
// and variables with an entity's name.
func (w *commandBuilder) entities(step *xmlStep, schema *jsonschema.Schema) map[string]any {
	entities := make(map[string]any, len(step.attributes))
	chains := false // the input was given as empty, so it gets the previous output
	for _, a := range step.attributes {
		name := propertyName(schema, a.name)
		if a.value == "" && strings.EqualFold(name, inputVariable) {
			chains = true
			continue
		}
		if index := indexedIn(a.value, func(string) bool { return true }); index != "" {
			w.fault = InvalidPlan.Faultf("function %s %s", spelling.Clip(step.function), noList(index))
		}
		value := w.expand(typed(schema.Properties[name], a.value))
		if before, twice := entities[name]; twice && !reflect.DeepEqual(before, value) {
			w.fault = InvalidPlan.Faultf("function %s has the attribute %s twice", spelling.Clip(step.function), spelling.Clip(name))
		}
		entities[name] = value
	}
	for name, property := range schema.Properties {
		saved, set := w.variables[strings.ToLower(name)]
		_, given := entities[name]
		switch {
		case given:
		case strings.EqualFold(name, inputVariable):
			if property.Default == nil || chains {
				entities[name] = w.input()
			}
		case set:
			entities[name] = "$" + saved
		}
	}
	return entities
}

// propertyName is the schema property that an attribute means.
func propertyName(schema *jsonschema.Schema, name string) string {
	if schema.Properties[name] != nil {
		return name
	}
	for _, property := range titles.Order(schema) {
		if strings.EqualFold(property, name) {
			return property
		}
	}
	return name
}

// typed parses a JSON list or object if the schema wants one and not a text.
func typed(property *jsonschema.Schema, text string) (value any) {
	if property == nil {
		return text
	}
	types := append(property.Types, property.Type)
	isList := slices.Contains(types, "array") || slices.Contains(types, "object")
	if !isList || slices.Contains(types, "string") || decodeStrictly([]byte(text), &value) != nil || value == nil {
		return text
	}
	return value
}

// expand renames the variables in all strings of a value to the names that store them now.
func (w *commandBuilder) expand(value any) any {
	return mapTexts(value, func(text string) any {
		return reference.ReplaceAllStringFunc(text, func(found string) string {
			low := strings.ToLower(found[1:])
			switch {
			case low == inputVariable:
				return w.input()
			case w.variables[low] != "":
				return "$" + w.variables[low]
			}
			return found
		})
	})
}

// input returns $INPUT: the output of the last function, at first the goal.
func (w *commandBuilder) input() string {
	if w.last >= 0 {
		return "$" + w.saved(w.last)
	}
	if w.inlined += len(w.goal); w.inlined > maxBytes {
		w.fault = InvalidPlan.Faultf("the plan repeats the goal too often")
		return ""
	}
	return w.goal
}

// keep saves the output of the last function in variables, and in the result. INPUT already is that
// output.
func (w *commandBuilder) keep(names ...string) {
	c := &w.commands[w.last]
	shown := false
	for _, name := range names {
		low := strings.ToLower(name)
		shown = shown || w.results[low]
		if low == "" || low == inputVariable {
			continue
		}
		if c.SaveAs == "" {
			c.SaveAs = w.free(name)
		}
		w.variables[low] = c.SaveAs
	}
	if shown {
		w.shown = append(w.shown, w.last)
	}
}

// saved is the name under which the output of the DO at index at is saved.
func (w *commandBuilder) saved(at int) string {
	if w.commands[at].SaveAs == "" {
		w.commands[at].SaveAs = w.free("")
	}
	return w.commands[at].SaveAs
}

// free returns an unused name: the name itself the first time, else one that the plan does not
// mention.
func (w *commandBuilder) free(name string) string {
	low := strings.ToLower(name)
	if name != "" && !w.taken[low] {
		w.taken[low] = true
		return name
	}
	name = cmp.Or(name, unnamed)
	for w.serial = max(w.serial, w.last+1); ; w.serial++ { // never reset: a plan may mention very many names
		next := name + "_" + strconv.Itoa(w.serial)
		low := strings.ToLower(next)
		if _, taken := w.taken[low]; !taken {
			w.taken[low] = true
			return next
		}
	}
}
