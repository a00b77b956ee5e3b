package plan

import (
	"cmp"
	"html"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/internal/spelling"
)

// DecodeXML reads a plan that a model wrote in the format of Semantic Kernel's sequential planner,
// and validates it. In a <plan>, the children <function.Name …/> or <function.Plugin.Name …/>
// become DOs with their attributes as entities.
//
//   - setContextVariable="NAME" saves the output for later attributes, as $NAME.
//     The last write of a name wins, $$ is a dollar sign, and a name that is not
//     set stays as it is.
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
	switch hides := anyXMLPlan.MatchString(a.text); {
	case a.thinking && len(a.plans) > 0:
		return Plan{}, Truncated.Faultf("the text ends within the reasoning")
	case a.stray != nil:
		return Plan{}, a.stray
	case len(a.plans) > 0:
		return a.lastXMLPlan(goal, reg)
	case hides:
		return Plan{}, InvalidPlan.Faultf("the plan stands in a comment or a <goal>, or is written with &lt; for <")
	case a.text != "" && strings.TrimSpace(anyTag.ReplaceAllString(a.text, "")) == "":
		return Plan{}, InvalidPlan.Faultf("the answer is XML, but no plan")
	}
	return decodeOther(text, reg)
}

var (
	anyXMLPlan = regexp.MustCompile(`(?i)(?:<|&lt;)(?:plan\b|function\.)`)
	anyTag     = regexp.MustCompile(`</?[A-Za-z][^<>]*>`)
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
	if slices.ContainsFunc(a.found, isMeant) || keyOfPlan.MatchString(around) {
		return Plan{}, errBeside
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
		if last == nil {
			last = err
		}
		if p.fault == nil && len(p.steps) == 0 {
			break
		}
	}
	return Plan{}, last
}

var errBeside = InvalidPlan.Faultf("there is JSON of a plan beside the XML plan")

var keyOfPlan = regexp.MustCompile(`(?i)["'](?:commands|action|response)["']|[{,]\s*(?:commands|action|response)\s*:`)

// standsXML reports whether plan i stands on its own. Tags beside it do not matter.
func (a *answer) standsXML(i int) bool {
	p, end := &a.plans[i], len(a.text)
	if i+1 < len(a.plans) {
		end = a.plans[i+1].start
	}
	return standsAlone(beside.ReplaceAllString(a.text[p.lineStart:p.start], ""), beside.ReplaceAllString(a.text[p.end:end], ""))
}

// beside matches text that may stand beside an XML plan because it says nothing.
var beside = regexp.MustCompile(`(?is)<goal\b.*?</goal>|<!--.*?-->|<!\[CDATA\[.*?\]\]>|<\?.*?\?>|</?[a-z][^<>]*>`)

const (
	functionTag = "function."
	// Limits: the steps of an XML plan, the plans in an answer, and the attributes of a tag.
	maxSteps, maxPlans, maxAttributes = 1000, 100, 200
)

// xmlPlan is a <plan> in an answer, with the fault that keeps it from running.
type xmlPlan struct {
	start, end, lineStart int
	attributes            []attribute
	steps                 []xmlStep
	fault                 *Fault
	notes                 notes
	top                   bool // nothing is open where it begins
}

// xmlStep is one step of an XML plan: a function, or a text to say.
type xmlStep struct {
	function   string // what follows "function."; "" for a text
	attributes []attribute
	text       string
}

// attribute is an attribute of a tag, with its XML entities decoded.
type attribute struct{ name, value string }

// tagOfXML handles a tag outside plans that means something in this format, and reports whether it
// skipped it. The contents of a <goal> come from the person. If its end is uncertain, no plan runs.
func (a *answer) tagOfXML(rest string) (done bool, fault *Fault) {
	_, name := tagOf(rest)
	name = strings.ToLower(name)
	opens := !strings.HasPrefix(rest, "</")
	size := hiddenSize(rest)
	switch {
	case size < 0:
		return false, errXMLTruncated
	case name == "goal" && opens && !a.quotes:
		end := indexFold(rest, "</goal>")
		if a.quotes = end < 0; !a.quotes {
			size = end + len("</goal>")
		}
	case name == "goal" && !opens:
		a.stray = InvalidPlan.Faultf("a </goal> ends what did not begin")
	case name == "plan" && opens:
		return true, a.planOfXML()
	case name == "say":
		a.quotes = opens && !strings.HasSuffix(anyTag.FindString(rest[:min(len(rest), 200)]), "/>")
	case hasPrefixFold(rest, "<"+functionTag):
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

// plan reads the plan at pos. Other elements mean nothing, as in Semantic Kernel. But one with a
// step inside is a fault, because the step would be lost.
func (r *xmlReader) plan(p *xmlPlan) (fault *Fault) {
	r.pos += len("<plan")
	var closed bool
	p.attributes, closed, fault = r.startTag("plan")
	for open := ""; fault == nil && !closed; {
		var name string
		var closing bool
		if name, closing, fault = r.nextTag(); fault != nil {
			return fault
		}
		lower := strings.ToLower(name)
		isFunction := strings.HasPrefix(lower, functionTag)
		switch {
		case closing && lower == cmp.Or(open, "plan"):
			closed = open == ""
			fault, open = r.closeTag(name), ""
		case closing && (open == "" || lower == "plan"):
			r.pos -= len("</") + len(name)
			fault = InvalidPlan.Faultf("there stands </%s> in place of </%s>", spelling.Clip(name), spelling.Clip(cmp.Or(open, "plan")))
		case closing:
		case open != "" && (isFunction || planTags.MatchString(lower) || strings.HasPrefix(open, functionTag)):
			fault = InvalidPlan.Faultf("<%s> stands within <%s>; a plan is a list of functions, whose inputs are attributes", spelling.Clip(name), spelling.Clip(open))
		case open != "":
		case lower == "plan" && planKey.MatchString(r.text[p.start+1:r.pos]):
			fault = errBeside
		case lower == "plan" && len(p.steps) == 0: // the previous tag was only mentioned
			p.start = r.pos - len("<plan")
			p.attributes, closed, fault = r.startTag(name)
		case len(p.steps) == maxSteps:
			fault = InvalidPlan.Faultf("the plan has more than %d steps", maxSteps)
		case lower == "say":
			fault = r.say(p)
		case planTags.MatchString(lower):
			fault = InvalidPlan.Faultf("<%s> is no step; write <function.NAME …/>", spelling.Clip(name))
		default:
			attributes, alone, wrong := r.startTag(name)
			if fault = wrong; !alone {
				open = lower
			}
			if isFunction {
				p.steps = append(p.steps, xmlStep{function: name[len(functionTag):], attributes: attributes})
			}
		}
	}
	return fault
}

// planTags are the element names of plans in other formats.
var planTags = regexp.MustCompile(`^(?:plan|functions?|function_calls?|tool_calls?|tool_use|invoke|commands?|action|do|say|steps?)$`)

// nextTag skips text and comments and moves past the name of the next tag.
func (r *xmlReader) nextTag() (name string, closing bool, fault *Fault) {
	for {
		size := strings.IndexByte(r.text[r.pos:], '<')
		if size < 0 {
			return "", false, errXMLTruncated
		}
		r.pos += size
		rest := r.text[r.pos:]
		if tag, name := tagOf(rest); tag != "" {
			r.pos += len(tag)
			return name, rest[1] == '/', nil
		}
		if size = hiddenSize(rest); size < 0 {
			return "", false, errXMLTruncated
		}
		r.pos += max(size, 1) // skips a < in the text
	}
}

// tagOf returns the tag at the start of text, up to its name, and the name; "" if there is none.
func tagOf(text string) (tag, name string) {
	parts := tagStart.FindStringSubmatch(text[:min(len(text), 300)])
	if parts == nil {
		return "", ""
	}
	return parts[1], parts[2]
}

var tagStart = regexp.MustCompile(`^(</?([A-Za-z_$][\w$.\-\x{80}-\x{10FFFF}]*))(?:[ \t\r\n/>]|$)`)

// hiddenSize is the size of a comment, character data or an instruction, which may stand between
// the steps of a plan. 0: there is none; negative: it never ends.
func hiddenSize(text string) int {
	found := hidden.FindStringSubmatch(text)
	switch {
	case found == nil:
		return 0
	case found[1]+found[2]+found[3] == "":
		return -1
	}
	return len(found[0])
}

var hidden = regexp.MustCompile(`(?s)^(?:<!--.*?(-->|$)|<!\[CDATA\[.*?(\]\]>|$)|<\?.*?(\?>|$))`)

// attributeForm matches an attribute and what follows it; attributeCut matches one that was cut
// off.
var (
	attributeForm = regexp.MustCompile(`^([^\s=/<>"'“”]+)\s*=\s*(?:"([^"]*)"|'([^']*)'|[“”]([^”]*)”|([^\s"'<=>“”]+?))(\s|/?>)`)
	attributeCut  = regexp.MustCompile(`^[^\s=/<>"'“”]*\s*(?:=\s*(?:"[^"]*"?|'[^']*'?|[“”][^”]*”?|[^\s"'<=>“”]*))?$`)
	plansTag      = regexp.MustCompile(`(?i)</?(?:function|plan)`)
)

// startTag reads the rest of a tag after its name, and reports whether it closes itself.
func (r *xmlReader) startTag(name string) (attributes []attribute, closed bool, fault *Fault) {
	for {
		rest := strings.TrimLeft(r.text[r.pos:], " \t\r\n")
		r.pos = len(r.text) - len(rest)
		switch {
		case rest == "", rest == "/":
			return nil, false, errXMLTruncated
		case rest[0] == '>':
			r.pos++
			return attributes, false, nil
		case strings.HasPrefix(rest, "/>"):
			r.pos += 2
			return attributes, true, nil
		case len(attributes) == maxAttributes:
			return nil, false, InvalidPlan.Faultf("<%s> has more than %d attributes", spelling.Clip(name), maxAttributes)
		}
		parts := attributeForm.FindStringSubmatch(rest)
		switch {
		case parts == nil && attributeCut.MatchString(rest):
			return nil, false, errXMLTruncated
		case parts == nil:
			line, _, _ := strings.Cut(rest, "\n")
			return nil, false, InvalidPlan.Faultf("<%s>: %q is no attribute; write NAME=\"value\", and a quote within a value as &quot;", spelling.Clip(name), spelling.Clip(line))
		case plansTag.MatchString(parts[2] + parts[3] + parts[4] + parts[5]):
			return nil, false, InvalidPlan.Faultf("<%s>: the value of %s has no closing quote", spelling.Clip(name), spelling.Clip(parts[1]))
		case parts[4] != "":
			r.notes.add("quotes")
		case parts[5] != "":
			r.notes.add("bare_words")
		}
		attributes = append(attributes, attribute{parts[1], r.plain(parts[2] + parts[3] + parts[4] + parts[5])})
		r.pos += len(parts[0]) - len(parts[6])
	}
}

// plain decodes XML entities, each once. Lookalikes stay.
func (r *xmlReader) plain(text string) string {
	if strings.Contains(text, "<") || strings.Count(text, "&") > len(entityOfXML.FindAllStringIndex(text, -1)) {
		r.notes.add("escapes")
	}
	return entityOfXML.ReplaceAllStringFunc(text, html.UnescapeString)
}

var entityOfXML = regexp.MustCompile(`&(?:lt|gt|amp|quot|apos|#0*[1-9]\d{0,6}|#[xX]0*[1-9a-fA-F][0-9a-fA-F]{0,5});`)

// closeTag reads the rest of a closing tag.
func (r *xmlReader) closeTag(name string) *Fault {
	rest := strings.TrimLeft(r.text[r.pos:], " \t\r\n")
	r.pos = len(r.text) - len(rest)
	switch {
	case rest == "":
		return errXMLTruncated
	case rest[0] != '>':
		return InvalidPlan.Faultf("</%s> has no >", spelling.Clip(name))
	}
	r.pos++
	return nil
}

// say reads a <say> and its text.
func (r *xmlReader) say(p *xmlPlan) *Fault {
	attributes, closed, fault := r.startTag("say")
	inner := ""
	if fault == nil && !closed {
		size := indexFold(r.text[r.pos:], "</say")
		if size < 0 {
			return errXMLTruncated
		}
		inner = r.text[r.pos : r.pos+size]
		r.pos += size + len("</say")
		fault = r.closeTag("say")
	}
	switch {
	case fault != nil:
		return fault
	case len(attributes) > 0:
		return InvalidPlan.Faultf("<say> has an attribute; its text stands between <say> and </say>")
	case notInSay.MatchString(inner):
		return InvalidPlan.Faultf("<say> is not closed")
	}
	if raw := characterData.FindStringSubmatch(inner); raw != nil {
		inner = raw[1]
	} else {
		inner = r.plain(inner)
	}
	if inner = strings.TrimSpace(inner); inner == "" {
		r.notes.add("empty_say")
		return nil
	}
	p.steps = append(p.steps, xmlStep{text: inner})
	return nil
}

var (
	notInSay      = regexp.MustCompile(`(?i)<function\.|</plan|<say`)
	characterData = regexp.MustCompile(`(?s)^\s*<!\[CDATA\[(.*?)\]\]>\s*$`)
)

// plan builds the validated plan. kept says that the plan was stored: its first $INPUT stays a
// variable to set at run time. A stored <plan> with a version is complete, so nothing is filled in.
func (p *xmlPlan) plan(goal string, kept bool, reg *actions.Registry) (Plan, error) {
	plan := Plan{TrimResults: true}
	w := commandBuilder{
		reg: reg, keepInput: kept, literal: kept && len(p.attributes) > 0, goal: strings.ReplaceAll(goal, "$", "$$"), last: -1,
		taken: map[string]bool{}, variables: map[string]string{}, results: map[string]bool{},
	}
	if w.literal {
		if err := plan.readAttributes(p.attributes); err != nil {
			return Plan{}, err
		}
	}
	switch {
	case p.fault != nil:
		return Plan{}, p.fault
	case len(p.steps) == 0:
		return Plan{}, NoPlan.Faultf("the plan is empty; if it cannot be done, say so in plain text")
	}
	if fault := w.build(p.steps); fault != nil {
		return Plan{}, fault
	}
	plan.Commands = w.commands
	var inputs []string
	if kept {
		inputs = plan.inputs()
	}
	if w.dollars && !w.literal && !plan.Saves() && len(inputs) == 0 { // nothing else resolves $$ there
		for i := range plan.Commands {
			plan.Commands[i] = variables{}.expandCommand(plan.Commands[i])
		}
	}
	return plan, validate(&plan, reg, inputs)
}

// commandBuilder turns the steps of an XML plan into commands. It saves each output that is needed
// later under its own name, so that overwriting a variable does not affect readers of the earlier
// value. Variable names are lower-case keys.
type commandBuilder struct {
	reg       *actions.Registry
	keepInput bool
	literal   bool // the steps are complete; nothing is filled in
	goal      string
	inlined   int               // bytes of goal in the commands
	taken     map[string]bool   // names that the plan uses; true: an output is saved under it
	serial    int               // the last number used to make a name unique
	variables map[string]string // the name that stores a variable now
	results   map[string]bool   // what the steps append to the result
	commands  []Command
	last      int   // the last DO; -1 for none
	shown     []int // the DOs whose output is the result
	dollars   bool  // there is a $$
}

func (w *commandBuilder) build(steps []xmlStep) *Fault {
	w.dollars = strings.Contains(w.goal, "$")
	for i := range steps {
		w.note(steps[i].text)
		for _, a := range steps[i].attributes {
			w.note(a.value)
			if kind := outputOf(a.name); kind != "" {
				name := strings.ToLower(variableName(a.value))
				w.taken[name] = false
				w.results[name] = w.results[name] || kind == appendsOutput
			}
		}
	}
	for i := range steps {
		if fault := w.step(&steps[i]); fault != nil {
			return fault
		}
	}
	// The plan ends with its result: what was appended, else the last output, unless the plan
	// itself says something after it.
	if len(w.shown) == 0 && w.last >= 0 && w.last == len(w.commands)-1 && !w.literal {
		w.shown = []int{w.last}
	}
	var lines []string
	for _, at := range w.shown {
		lines = append(lines, "$"+w.saved(at))
	}
	if lines != nil {
		w.commands = append(w.commands, Command{Kind: Say, Response: strings.Join(lines, "\n")})
	}
	return nil
}

// note records the names that a text mentions.
func (w *commandBuilder) note(text string) {
	for _, name := range references(text) {
		w.taken[strings.ToLower(name)] = false
	}
}

// The attributes that say what to do with the output of a function, in lower case.
const setsOutput, appendsOutput = "setcontextvariable", "appendtoresult"

const inputVariable = "input"

// outputOf returns the attribute in lower case if it is one of these, else "".
func outputOf(attribute string) string {
	if name := strings.ToLower(attribute); name == setsOutput || name == appendsOutput {
		return name
	}
	return ""
}

// variableName is the name in an output attribute, without the $ that models sometimes add.
func variableName(value string) string {
	return strings.TrimPrefix(strings.TrimSpace(value), "$")
}

// outputs returns the names that the output is set as and appended as; "" for none.
func (step *xmlStep) outputs() (set, appended string, fault *Fault) {
	names := map[string]string{}
	for _, a := range step.attributes {
		kind, name := outputOf(a.name), variableName(a.value)
		before, twice := names[kind]
		switch {
		case kind == "":
			continue
		case twice && before != name:
			return "", "", InvalidPlan.Faultf("function %s has %s twice", spelling.Clip(step.function), a.name)
		case name != "" && !isName(name):
			return "", "", InvalidPlan.Faultf("function %s: %s=%q is no name; use letters, digits and _", spelling.Clip(step.function), a.name, spelling.Clip(a.value))
		}
		names[kind] = name
	}
	return names[setsOutput], names[appendsOutput], nil
}

func (w *commandBuilder) step(step *xmlStep) *Fault {
	if step.function == "" {
		text, fault := w.expand(step.text)
		w.commands = append(w.commands, Command{Kind: Say, Response: text.(string)})
		return fault
	}
	set, appended, fault := step.outputs()
	if fault != nil {
		return fault
	}
	c := Command{Kind: Do, Action: step.function}
	schema := &jsonschema.Schema{}
	if action, known := functionAction(w.reg, step.function); known {
		c.Action, schema = action.Name, action.Schema
	}
	if c.Entities, fault = w.entities(step, schema); fault != nil {
		return fault
	}
	w.last = len(w.commands)
	w.commands = append(w.commands, c)
	switch {
	case w.literal && appended != "":
		return InvalidPlan.Faultf("function %s has appendToResult; in a plan with a version write <say>$NAME</say>", spelling.Clip(step.function))
	case w.literal:
		w.commands[w.last].SaveAs = set
	default:
		w.keep(set, appended)
	}
	return nil
}

// functionAction finds the action of a function: by its whole name or, with a plugin before it, by
// both joined. It never drops a plugin: the model may mean a function that does not exist.
func functionAction(reg *actions.Registry, name string) (*actions.Action, bool) {
	if action, ok := lookup(reg, name); ok {
		return action, true
	}
	plugin, function, ok := strings.Cut(name, ".")
	if !ok || strings.Contains(function, ".") {
		return nil, false
	}
	if strings.EqualFold(plugin, "_GLOBAL_FUNCTIONS_") { // Semantic Kernel's name for functions without a plugin
		return reg.Lookup(function)
	}
	dashed, ok := reg.Lookup(plugin + "-" + function)
	joined, also := reg.Lookup(plugin + "_" + function)
	if !ok {
		return joined, also
	}
	return dashed, !also
}

// entities builds the entities of a function: from its attributes, then from implicit values, INPUT
// and variables with an entity's name.
func (w *commandBuilder) entities(step *xmlStep, schema *jsonschema.Schema) (map[string]any, *Fault) {
	entities := make(map[string]any, len(step.attributes))
	written := make(map[string]string, len(step.attributes))
	chains := false // the input was given as empty, so it gets the previous output
	for _, a := range step.attributes {
		if outputOf(a.name) != "" {
			continue
		}
		name := propertyName(schema, a.name)
		key := name
		if schema.Properties[name] == nil {
			key = strings.ToLower(name)
		}
		if before, twice := written[key]; twice && before != a.value {
			return nil, InvalidPlan.Faultf("function %s has the attribute %s twice", spelling.Clip(step.function), spelling.Clip(name))
		}
		written[key] = a.value
		if a.value == "" && !w.literal && strings.EqualFold(name, inputVariable) {
			chains = true
			continue
		}
		var value any = a.value
		if typed := typed(schema.Properties[name], a.value); typed != nil {
			value = typed
		}
		var fault *Fault
		if entities[name], fault = w.expand(value); fault != nil {
			return nil, fault
		}
	}
	for name, property := range schema.Properties {
		if w.literal {
			break
		}
		_, given := entities[name]
		saved, set := w.variables[strings.ToLower(name)]
		switch {
		case given:
		case strings.EqualFold(name, inputVariable):
			if property.Default != nil && !chains {
				continue
			}
			text, fault := w.input()
			if fault != nil {
				return nil, fault
			}
			entities[name] = text
		case set:
			entities[name] = "$" + saved
		}
	}
	return entities, nil
}

// propertyName is the schema property that an attribute means.
func propertyName(schema *jsonschema.Schema, name string) string {
	if schema.Properties[name] != nil {
		return name
	}
	same := ""
	for property := range schema.Properties {
		if strings.EqualFold(property, name) {
			if same != "" {
				return name
			}
			same = property
		}
	}
	return cmp.Or(same, name)
}

// typed parses a JSON list or object if the schema wants one and not a text; nil if value is a
// text.
func typed(property *jsonschema.Schema, text string) (value any) {
	if property == nil {
		return nil
	}
	types := append(property.Types, property.Type)
	if !slices.Contains(types, "string") && (slices.Contains(types, "array") || slices.Contains(types, "object")) {
		if decodeStrictly([]byte(text), &value) != nil {
			return nil
		}
	}
	return value
}

// expand renames the variables in all strings of a value to the names that store them now.
func (w *commandBuilder) expand(value any) (expanded any, fault *Fault) {
	if w.literal {
		return value, nil
	}
	expanded = mapTexts(value, func(text string) any {
		return reference.ReplaceAllStringFunc(text, func(found string) string {
			low := strings.ToLower(found[1:])
			switch {
			case found == "$$":
				w.dollars = true
			case fault != nil: // one fault is enough
			case low == inputVariable:
				found, fault = w.input()
			case w.variables[low] != "":
				return "$" + w.variables[low]
			}
			return found
		})
	})
	return expanded, fault
}

// input returns $INPUT: the output of the last function, at first the goal.
func (w *commandBuilder) input() (string, *Fault) {
	switch {
	case w.last >= 0:
		return "$" + w.saved(w.last), nil
	case w.keepInput:
		return "$INPUT", nil
	}
	if w.inlined += len(w.goal); w.inlined > maxBytes {
		return "", InvalidPlan.Faultf("the plan repeats the goal too often")
	}
	return w.goal, nil
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
		if low := strings.ToLower(next); !has(w.taken, low) {
			w.taken[low] = true
			return next
		}
	}
}

func has(names map[string]bool, name string) bool { _, ok := names[name]; return ok }
