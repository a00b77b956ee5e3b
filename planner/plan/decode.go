package plan

import (
	"encoding/json"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/planbot-go/planbot/internal/spelling"
)

// maxBytes is the longest output that is decoded.
const maxBytes = 1 << 20

// Decode reads the plan that a model wrote. It takes strict JSON as it is, and repairs
// what can be repaired without guessing. Text that holds no plan is one SAY. The error is
// a [*Fault] of the kinds truncated, no_plan or invalid_plan.
//
// The package says where a plan with a DO may stand. Besides, a plan counts only where it
// stands on its own: on lines of its own, or at the start or the end of the text; never in
// a comment, a block quote, or another, broken plan. Several plans count only when they
// are equal. Decode takes linear time. It does not know the actions: the plan has to pass
// [Validate] before it may run.
func Decode(text string) (Plan, error) {
	p, fault := decode(text, false)
	if fault != nil {
		return Plan{}, fault
	}
	return p, nil
}

// decode reads a text; unwrapped says that it was the contents of a JSON string.
func decode(text string, unwrapped bool) (Plan, *Fault) {
	if len(text) > maxBytes {
		return Plan{}, Faultf(InvalidPlan, "the answer is longer than %d bytes", maxBytes)
	}
	text, done := clean(text)
	if r := (reader{text: text}); strings.HasPrefix(text, `"`) {
		v, ok := r.read(0)
		whole := ok && v.kind == stringValue && r.pos == len(text)
		switch {
		case whole && unwrapped:
			return Plan{}, Faultf(InvalidPlan, "the answer is a JSON string of a JSON string")
		case whole:
			return unwrap(v.text, json.Valid([]byte(text)))
		case !ok && r.cut && (strings.HasPrefix(text, `"{`) || strings.HasPrefix(text, `"[`)):
			return Plan{}, Faultf(Truncated, "the text ends within a string of JSON")
		}
	}
	text, fault := finalChannel(text, &done)
	if fault != nil {
		return Plan{}, fault
	}
	a := answer{text: text, done: done, budget: 8*len(text) + 1<<14}
	if fault := a.scan(); fault != nil {
		return Plan{}, fault
	}
	return a.plan()
}

// unwrap reads an answer that is a JSON string of a plan or of prose.
func unwrap(inner string, strict bool) (Plan, *Fault) {
	p, fault := decode(inner, true)
	switch {
	case fault != nil:
		return Plan{}, fault
	case p.Salvaged, !strict && p.LastDo() >= 0:
		return Plan{}, Faultf(InvalidPlan, "the plan stands within a string of prose, or in one that is no JSON")
	}
	p.Repairs = slices.Sorted(slices.Values(append(p.Repairs, "json_string")))
	return p, nil
}

// answer is an output of a model while it is read.
type answer struct {
	text      string
	done      notes
	jsonFirst bool // the text begins as JSON, so it is meant as JSON
	reader    reader
	budget    int // how many bytes the reader may read
	marks     marks
	found     []found
	reasoning []span // between other text

	pos, lineStart int
	inked, begun   bool // something stands before pos on its line, or anywhere
	hidden         int  // up to here no plan counts: it is a comment, or only mentioned
	thinking       bool // a tag of reasoning was opened in a line, and never closed
	quotedLine     int  // a line in which a closing tag stands in a quote; -1 for none
	struck         bool // there was a <s> of HTML

	// For an answer to the sequential planner:
	xml      bool
	plans    []xmlPlan
	stray    bool // a function stands outside of any plan
	saying   bool // a <say> outside of plans has no </say> yet
	goalOpen bool // a <goal> has no </goal>
}

// span is a piece of a text.
type span struct{ start, end int }

// found is a value in an answer that may be the plan.
type found struct {
	span
	value     value
	shape     shape
	lineStart int
	notes     notes
	unclosed  bool // its last } is missing
	torn      bool // a comment in it may be part of a string
	top       bool // nothing is open where it begins
}

// scan walks through the text once. It reads each value that may be the plan where it
// begins, and never looks into one.
func (a *answer) scan() *Fault {
	a.restart(0)
	for a.pos < len(a.text) {
		if fault := a.step(); fault != nil && (fault.Kind == Truncated || !a.wasReasoning()) {
			return fault
		}
	}
	return nil
}

// wasReasoning begins anew behind the closing tag of reasoning, where a fault is part of
// that.
func (a *answer) wasReasoning() bool {
	tag := reasoningTag.FindStringSubmatchIndex(a.text[a.pos:])
	if opens := tag != nil && tag[4] == tag[5]; a.jsonFirst || tag == nil || opens {
		return false
	}
	at := a.pos + tag[0]
	line := a.text[strings.LastIndexByte(a.text[:at], '\n')+1 : at]
	if isOpen(line) || strings.Contains(a.text[a.pos:at], "{") {
		return false
	}
	a.done.add("reasoning")
	a.restart(a.pos + tag[1])
	return true
}

// restart begins anew at pos, because all before it was no part of the answer.
func (a *answer) restart(pos int) {
	text := a.text[pos:]
	if pos > 0 {
		text = stripPrefix(text, &a.done)
	}
	text = openFence(text, &a.done)
	*a = answer{
		text: text, done: a.done, jsonFirst: looksJSON(text), quotedLine: -1,
		reader: reader{text: text, steps: a.reader.steps}, budget: a.budget, xml: a.xml,
	}
}

// step looks at what is at pos and goes on behind it.
func (a *answer) step() *Fault {
	rest := a.text[a.pos:]
	switch c := rest[0]; {
	case c == '{' || c == '[' && reasoningTagAt(rest) == nil:
		return a.bracket(rest)
	case c == '<' && a.endToken(rest):
		return nil
	case c == '\n':
		a.pos++
		a.lineStart, a.inked = a.pos, false
		return nil
	case c == ' ':
		a.pos++
		return nil
	case a.pos < a.hidden:
		a.mark(false)
		return nil
	case c == '<' || c == '[' || strings.HasPrefix(rest, "◁"):
		if a.xml && c == '<' {
			if done, fault := a.tagOfXML(rest); done || fault != nil {
				return fault
			}
		}
		if tag := reasoningTagAt(rest); tag != nil {
			return a.tag(tag)
		}
	}
	a.comment(rest)
	a.mark(false)
	return nil
}

// mark steps over one character, which may be a mark. opensJSON says that it begins JSON
// which cannot be read.
func (a *answer) mark(opensJSON bool) {
	a.inked, a.begun = true, true
	a.pos += a.marks.step(a.text, a.pos, opensJSON)
}

// endToken cuts the text at an end token. </s> also ends a <s> of HTML.
func (a *answer) endToken(rest string) bool {
	a.struck = a.struck || strings.HasPrefix(rest, "<s>")
	if endTokenAt(rest) == 0 || a.struck && strings.HasPrefix(rest, "</s>") {
		return false
	}
	a.done.add("end_token")
	a.text = a.text[:a.pos]
	return true
}

// comment hides a comment. One that never ends keeps all behind it from running.
func (a *answer) comment(rest string) {
	switch {
	case strings.HasPrefix(rest, "/*") && !a.marks.torn:
		size := strings.Index(rest[2:], "*/")
		a.marks.torn = size < 0
		a.hidden = a.pos + len("/*") + size
	case strings.HasPrefix(rest, "<!--"):
		if size := strings.Index(rest[4:], "-->"); size >= 0 {
			a.hidden = a.pos + len("<!--") + size
		} else {
			a.hidden = len(a.text)
		}
	}
}

// reasoningTag matches a tag around reasoning: its bracket, the slash of a closing one, and
// the rest.
var reasoningTag = regexp.MustCompile(`(?i)([<[◁])(/?)((?:think|thinking|reasoning|analysis|scratchpad)[>\]▷])`)

// reasoningTagAt is the tag that text begins with; nil for none.
func reasoningTagAt(text string) []string {
	const longest = len("[/scratchpad]") + len("◁▷")
	tag := reasoningTag.FindStringSubmatch(text[:min(len(text), longest)])
	if tag == nil || !strings.HasPrefix(text, tag[0]) {
		return nil
	}
	return tag
}

// tag looks at a tag of reasoning outside of all values. A closing tag alone ends
// reasoning whose opening tag was part of the prompt, unless it is quoted.
func (a *answer) tag(tag []string) *Fault {
	behind := a.pos + len(tag[0])
	switch opens := tag[2] == ""; {
	case a.jsonFirst || opens && a.thinking:
		a.pos = behind
	case opens:
		return a.reasons(tag[1]+"/"+tag[3], behind)
	case a.lineStart == a.quotedLine || isOpen(a.text[a.lineStart:a.pos]):
		a.quotedLine, a.pos = a.lineStart, behind
	default:
		a.done.add("reasoning")
		a.restart(behind)
	}
	return nil
}

// reasons looks at reasoning whose contents begin at start and that shut ends. What stands
// before the answer is dropped, what stands within it is noted, and a tag in a line is only
// mentioned.
func (a *answer) reasons(shut string, start int) *Fault {
	size := indexFold(a.text[start:], shut)
	end := start + size + len(shut)
	switch {
	case size < 0 && !a.inked:
		return Faultf(Truncated, "the text ends within the reasoning")
	case size < 0:
		a.thinking = true
		a.pos = start
	case !a.begun:
		a.done.add("reasoning")
		a.restart(end)
	case a.inked && !strings.Contains(a.text[start:end], "\n"):
		a.hidden, a.pos = end, start
	default:
		a.done.add("reasoning")
		a.reasoning = append(a.reasoning, span{a.pos, end})
		a.pos, a.lineStart = end, end
	}
	return nil
}

// bracket looks at a brace or a bracket. It begins a value that may be the plan, other
// JSON, or nothing of the kind.
func (a *answer) bracket(rest string) *Fault {
	inside := strings.TrimLeftFunc(rest[1:], isBlank)
	likely := a.jsonFirst && a.pos == 0 || rest[0] == '{' && (inside == "" || keyFollows(inside)) ||
		rest[0] == '[' && strings.HasPrefix(inside, "{") && keyFollows(strings.TrimLeftFunc(inside[1:], isBlank))
	opensJSON := closingQuote(inside) != "" || rest[0] == '{' && keyFollows(inside) ||
		rest[0] == '[' && (strings.HasPrefix(inside, "{") || strings.HasPrefix(inside, "["))
	hidden := a.pos < a.hidden
	likely = likely && !hidden
	if !likely && !a.marks.none() {
		a.mark(opensJSON)
		return nil
	}
	if a.reader.steps > a.budget || len(a.found) == maxFound {
		return Faultf(InvalidPlan, "the text holds too many pieces of JSON")
	}
	start := a.pos
	v, ok := a.reader.read(start)
	r := &a.reader
	if !ok {
		if likely {
			if fault := a.unreadable(start); fault != nil {
				return fault
			}
		}
		a.mark(opensJSON)
		return nil
	}
	f := found{
		span: span{start, r.pos}, value: v, shape: v.shape(), lineStart: a.lineStart,
		notes: r.notes, unclosed: r.unclosed, torn: r.torn, top: a.marks.none(),
	}
	switch {
	case a.thinking && f.shape == planShape && !hidden:
		return Faultf(Truncated, "the text ends within the reasoning")
	case r.unclosed && f.shape != planShape && likely && (a.jsonFirst || leads(a.text[a.lineStart:start])):
		return Faultf(Truncated, "the text ends before the JSON does")
	case r.unclosed && f.shape != planShape:
		a.mark(opensJSON)
		return nil
	case hidden && r.pos > a.hidden:
		a.mark(opensJSON)
		return nil
	case !hidden && (f.shape != otherShape || a.jsonFirst):
		a.found = append(a.found, f)
	case !a.marks.none():
		a.mark(opensJSON)
		return nil
	}
	whole := a.text[start:r.pos]
	if len(r.notes) > 0 && isTorn(whole) {
		a.marks.torn = true // nobody knows whether its strings end where they seem to
	}
	if i := strings.LastIndexByte(whole, '\n'); i >= 0 {
		a.lineStart = start + i + 1
	}
	a.pos = r.pos
	a.inked, a.begun = true, true
	return nil
}

// maxFound is how many values that may be a plan are looked at.
const maxFound = 10_000

// unreadable decides what a value means that could not be read. Nothing is looked for
// within what was meant as a plan.
func (a *answer) unreadable(start int) *Fault {
	r := &a.reader
	end := extent(a.text, start)
	r.steps += end - start
	closed := end < len(a.text) || strings.IndexByte("}]", a.text[end-1]) >= 0
	meant := a.jsonFirst || planKey.MatchString(a.text[start:end])
	near := a.text[min(r.pos, len(a.text)):]
	switch first := strings.TrimLeftFunc(a.text[start:], func(c rune) bool { return c == '{' || c == '[' || isBlank(c) }); {
	case meant && (r.cut || !closed):
		return Faultf(Truncated, "the text ends before the JSON does: %s is missing", r.want)
	case meant:
		a.pos = end
		return Faultf(InvalidPlan, "the JSON is broken near %s: expected %s", strings.TrimSpace(spelling.Clip(near)), r.want)
	case r.cut && (first == "" || closingQuote(first) != "") && (len(a.found) > 0 || leads(a.text[a.lineStart:start])):
		return Faultf(Truncated, "the text ends before the JSON does")
	}
	return nil
}

var planKey = regexp.MustCompile(`(?i)commands|type["'”]?\s*[:：]\s*["'“]?plan`)

// extent finds where the bracket at start is closed again, outside of strings, or the end
// of the text. It is for text that cannot be read better than that.
func extent(text string, start int) int {
	depth, inString := 0, false
	for i := start; i < len(text); i++ {
		switch c := text[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return len(text)
}

// plan decides what the answer amounts to.
func (a *answer) plan() (Plan, *Fault) {
	around, plans := a.around(), 0
	for _, f := range a.found {
		if f.shape == planShape {
			plans++
		}
	}
	switch words := hasWords(around); {
	case len(a.found) == 0:
		return a.prose()
	case plans == 0 && words && !(a.jsonFirst && a.found[0].value.isMeant()):
		return a.prose()
	case plans == 0 && words:
		return Plan{}, Faultf(InvalidPlan, "commands stand beside prose, and not in a plan")
	}
	d := draft{alone: len(a.found) == 1 && !hasWords(around)}
	var commands []Command
	var fault *Fault
	if plans == 0 {
		commands, fault = d.bare(a.found)
	} else {
		commands, fault = a.chosen(&d)
	}
	if fault != nil {
		return Plan{}, fault
	}
	p := Plan{Commands: commands, Salvaged: hasWords(around)}
	if p.LastDo() >= 0 {
		for _, f := range a.found {
			if fault := d.mayDo(f); fault != nil && (plans == 0 || f.shape == planShape) {
				return Plan{}, fault
			}
		}
	}
	for _, f := range a.found {
		if plans == 0 || f.shape == planShape {
			a.done.add(f.notes...)
		}
	}
	a.done.add(d.done...)
	if p.Salvaged {
		a.done.add("prose")
	}
	if strings.Contains(around, "```") || strings.Contains(around, "~~~") {
		a.done.add("fence")
	}
	p.Repairs = slices.Sorted(slices.Values(a.done))
	return p, nil
}

// around is the text outside of the values and of reasoning, without the closing brackets
// behind a value.
func (a *answer) around() string {
	values := make([]span, 0, len(a.found)+len(a.plans))
	for _, f := range a.found {
		values = append(values, f.span)
	}
	for _, p := range a.plans {
		values = append(values, p.span)
	}
	slices.SortFunc(values, func(a, b span) int { return a.start - b.start })
	var out strings.Builder
	start := 0
	for _, v := range values {
		between := a.outside(start, v.start)
		if start > 0 {
			between = strings.TrimLeft(between, "}], \t\r\n;")
		}
		out.WriteString(between + "\n")
		start = v.end
	}
	out.WriteString(trimClosing(a.outside(start, len(a.text))))
	return out.String()
}

// outside is a piece of the text without reasoning.
func (a *answer) outside(start, end int) string {
	var out strings.Builder
	at, _ := slices.BinarySearchFunc(a.reasoning, start, func(s span, start int) int { return s.start - start })
	for _, s := range a.reasoning[at:] {
		if s.start >= end {
			break
		}
		out.WriteString(a.text[start:s.start])
		start = s.end
	}
	out.WriteString(a.text[start:end])
	return out.String()
}

// chosen takes the one plan that the text holds, which may be there several times.
func (a *answer) chosen(d *draft) ([]Command, *Fault) {
	var chosen []Command
	plans := 0
	for _, f := range a.found {
		if f.shape != planShape {
			if f.value.isMeant() {
				return nil, Faultf(InvalidPlan, "a command or a reply stands beside the plan, and not in it")
			}
			continue
		}
		behind := a.text[f.end:]
		if goesOn.MatchString(behind) || !standsAlone(a.text[f.lineStart:f.start], behind) {
			return nil, Faultf(InvalidPlan, "the plan stands in the middle of a sentence or a quotation")
		}
		commands, fault := d.plan(&f.value, f.unclosed)
		if fault != nil {
			return nil, fault
		}
		if plans > 0 && !reflect.DeepEqual(chosen, commands) {
			return nil, Faultf(InvalidPlan, "there are several plans, and they differ")
		}
		if plans > 0 {
			d.done.add("equal_plans")
		}
		plans++
		chosen = commands
	}
	return chosen, nil
}

// trimClosing drops what may close a plan that is already closed.
func trimClosing(behind string) string {
	return strings.TrimLeft(strings.TrimLeft(behind, "}] \t\r\n"), ";")
}

// goesOn matches the text behind a value when its JSON goes on: the value is then a part
// of something broken.
var goesOn = regexp.MustCompile(`^(?:[}\]\s;]*[,:]|[}\]; \t\r]*["'\[{])`)

// standsAlone reports whether a plan stands on its own between what is before it on its
// line and the text behind it. In the middle of a sentence, or in a block quote, it is
// something that the text talks about.
func standsAlone(before, behind string) bool {
	line, _, _ := strings.Cut(behind, "\n")
	switch {
	case isQuoted(before):
		return false
	case !hasWords(before), leads(before) && !hasWords(trimClosing(line)):
		return true
	}
	return !hasWords(trimClosing(behind))
}

// leads reports whether nothing but marks, or a short label, stands before a value on its
// line.
func leads(before string) bool {
	before = strings.TrimRight(before, " \t*_`")
	return !isQuoted(before) && (!hasWords(before) || len(before) <= 60 && label.MatchString(before))
}

var label = regexp.MustCompile(`[:：]$|^(?:const |let |var )?[A-Za-z_$][\w$.-]*\s*=$`)

// isQuoted reports whether a line begins as a block quote or as a comment.
func isQuoted(line string) bool {
	line = strings.TrimLeft(line, " \t*-+0123456789.)")
	return strings.HasPrefix(line, ">") || strings.HasPrefix(line, "//") || strings.HasPrefix(line, "/*") ||
		strings.HasPrefix(line, "#") && strings.Trim(line, "# \t") == ""
}

// wordless matches what says nothing: code fences with their language, marks of lists and
// headings, and the tags around an answer.
var wordless = regexp.MustCompile("(?m)^\\s*(?:```+|~~~+)(?: ?[^\\s`{\\[(<:.!?]+){0,3} *$|^\\s*(?:[-+•]|#+|\\d+[.)])[ \t]" +
	"|</?(?i:answer|output|response|result|json|final|final_answer|plan|pre|code|xml)>")

// hasWords reports whether text says anything.
func hasWords(text string) bool {
	return strings.ContainsFunc(wordless.ReplaceAllString(text, ""), func(c rune) bool {
		return !isBlank(c) && !strings.ContainsRune("`*_", c)
	})
}

// prose makes the one SAY of a text that holds no plan, unless the text is empty, or is a
// plan of another kind, which must be neither run nor shown.
func (a *answer) prose() (Plan, *Fault) {
	text := strings.TrimSpace(a.outside(0, len(a.text)))
	endsInBracket := strings.HasSuffix(text, "}") || strings.HasSuffix(text, "]")
	empty := strings.TrimSpace(wordless.ReplaceAllString(text, "")) == ""
	switch {
	case empty, text == "null":
		return Plan{}, Faultf(NoPlan, "the answer is empty")
	case strings.IndexByte("{[", text[0]) < 0:
	case json.Valid([]byte(text)), endsInBracket && containsFold(text, commandKeys[0]):
		return Plan{}, Faultf(InvalidPlan, "the answer is JSON, but no plan")
	case extent(text, 0) == len(text) && !endsInBracket:
		return Plan{}, Faultf(Truncated, "the text ends before the JSON does")
	}
	if name := dialect(text); name != "" {
		return Plan{}, Faultf(InvalidPlan, "the answer is %s, not a JSON plan", name)
	}
	if said := saidInWords.FindStringSubmatch(text); said != nil {
		if text = said[1] + said[2]; strings.TrimSpace(text) == "" {
			return Plan{}, Faultf(NoPlan, "the answer is empty")
		}
	}
	return Plan{Commands: []Command{{Kind: Say, Response: text}}, Repairs: slices.Sorted(slices.Values(a.done)), Prose: true}, nil
}

// dialect names the other way in which a text is a plan; "" for prose. It looks at the start
// of lines: what is in the middle of one is mentioned, not meant.
func dialect(text string) string {
	if notJSON.MatchString(text[:min(len(text), 200)]) && !strings.Contains(text, "\n") || escapedJSON.MatchString(text) {
		return "a function call or a template"
	}
	thought, list := false, false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		line = line[:min(len(line), 80)]
		switch {
		case otherPlan.MatchString(line), list && listedKey.MatchString(line), thought && answered.MatchString(line):
			if strings.HasPrefix(line, "<") {
				return "an XML plan or a tool call"
			}
			return "a plan of another kind"
		case line != "":
			list = listOfCommands.MatchString(line)
			thought = thought || thinks.MatchString(line)
		}
	}
	return ""
}

// The marks of dialects, each at the start of a line.
var (
	escapedJSON = regexp.MustCompile(`^(?:\{&(?:quot|#34);|\{\{(?:[#!~]|set |json )|｛)`)
	notJSON     = regexp.MustCompile(`^\[?[A-Za-z_$][\w$.-]*\((?:\)|.*[="'])`)
	otherPlan   = regexp.MustCompile("^(?:" + strings.Join([]string{
		`<(?:\|python_tag\||\|tool|｜tool|antml:)`, `\[/?TOOL_`, "```tool_", // tool calls
		`(?i:<(?:plan|functions?|function_calls?|tool_calls?|tool_use|invoke|commands?|action|do|say|steps?)[>.= \t/])`, // XML
		`[-*•\d.) \t` + "`" + `]*(?i:["']?type["']?\s*:\s*["']?(?:do|say|plan)["']?\s*$)`,                               // YAML
		"[-*•\\d.) \\t`]*(?:THEN )?DO[ :*`\\t]+[\"*`]*[a-z_]",                                                           // a list of steps
		"(?:[-*•]+|\\d+[.)])[ \\t*`]*(?:THEN )?SAY(?:[ :*`\"]|$)",
		`(?i:[* \t]*action input[* ]*:)`, // ReAct
	}, "|") + ")")
	listOfCommands = regexp.MustCompile(`^(?i:commands|steps|actions):$`)
	listedKey      = regexp.MustCompile(`^(?:[-*•]|\d+[.)])[ \t*]*["']?(?i:type|action|do|say)["']?\s*:`)
	thinks         = regexp.MustCompile(`^[* \t]*(?i:thought)[* ]*:`)
	answered       = regexp.MustCompile(`^[* \t]*(?i:action|final answer)[* ]*:`)
)

// saidInWords matches prose that begins with the word SAY, and what is said.
var saidInWords = regexp.MustCompile(`(?s)^(?:SAY *:|(?i:say:)|SAY +["“])\s*(?:["“]([^"”]*)["”]|(.*))$`)

// looksJSON reports whether a text begins as JSON: it may be broken, but it is not meant
// as prose.
func looksJSON(text string) bool {
	if text == "" || strings.IndexByte("{[", text[0]) < 0 {
		return false
	}
	inner := strings.TrimLeftFunc(text, func(c rune) bool { return c == '{' || c == '[' || isBlank(c) })
	object := strings.Contains(text[:len(text)-len(inner)], "{")
	return inner == "" || inner[0] == '"' || inner[0] == '}' || text[0] == '[' && inner[0] == ']' ||
		text[0] == '{' && (strings.IndexByte(`'&\,:`, inner[0]) >= 0 || closingQuote(inner) != "") || object && keyFollows(inner)
}

// keyFollows reports whether text begins with a key: a string, or a bare word and a colon.
func keyFollows(text string) bool {
	return closingQuote(text) != "" || strings.HasPrefix(text, "//") || strings.HasPrefix(text, "/*") ||
		text != "" && isWordStart(text[0]) && bareKey.MatchString(text[:min(len(text), 80)])
}

var bareKey = regexp.MustCompile(`^[A-Za-z_$][\w$.-]{0,63}[ \t]*[:：]`)

// endTokens are what a serving stack leaks at the end of a model's turn.
var endTokens = []string{
	"</s>", "<|end|>", "<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|endoftext|>", "<|end_of_text|>",
	"<|return|>", "<|call|>", "<|eot|>", "<|im_start|>", "<|start|>", "<|start_header_id|>",
	"<end_of_turn>", "<start_of_turn>", "<eos>", "<｜end▁of▁sentence｜>",
}

// endTokenAt is the size of the end token that text begins with; 0 for none.
func endTokenAt(text string) int {
	if !strings.HasPrefix(text, "<") {
		return 0
	}
	for _, token := range endTokens {
		if strings.HasPrefix(text, token) {
			return len(token)
		}
	}
	return 0
}

// rolePrefix matches what may stand before an answer to say whose it is.
var rolePrefix = regexp.MustCompile(`^(?i:<\|im_start\|>assistant|<\|start_header_id\|>assistant<\|end_header_id\|>|<start_of_turn>model|` +
	`<\|assistant\|>|<\|begin_of_text\|>|<bos>|(?:\*\*)?assistant(?:\*\*)?:(?:\*\*)?|assistant\n)`)

// clean makes the text valid UTF-8 and drops what stands around an answer.
func clean(text string) (string, notes) {
	var done notes
	valid := strings.ToValidUTF8(text, "\ufffd")
	if valid != text {
		done.add("utf8")
	}
	text = stripPrefix(valid, &done)
	struck := strings.Contains(text, "<s>") // then </s> is HTML
	for {
		text = strings.TrimRight(text, " \t\r\n")
		at := max(strings.LastIndexByte(text, '<'), 0)
		if size := endTokenAt(text[at:]); size == 0 || size < len(text)-at || struck && text[at:] == "</s>" {
			return text, done
		}
		text = text[:at]
		done.add("end_token")
	}
}

// stripPrefix drops a byte order mark, characters without width, and role labels.
func stripPrefix(text string, done *notes) string {
	for {
		trimmed := strings.TrimLeftFunc(text, func(c rune) bool { return isInvisible(c) || strings.ContainsRune(" \t\r\n", c) })
		size := len(rolePrefix.FindString(trimmed[:min(len(trimmed), 80)]))
		if size > 0 || strings.ContainsFunc(text[:len(text)-len(trimmed)], isInvisible) {
			done.add("prefix")
		}
		if text = trimmed[size:]; size == 0 {
			return text
		}
	}
}

// openFence returns the contents of a text that is one code fence, closed or not, with JSON
// in it.
func openFence(text string, done *notes) string {
	parts := wholeFence.FindStringSubmatch(text)
	if parts == nil || strings.Contains(parts[1], "```") || strings.Contains(parts[1], "~~~") || parts[1] != "null" && !looksJSON(parts[1]) {
		return text
	}
	done.add("fence")
	return parts[1]
}

var wholeFence = regexp.MustCompile("^(?s:(?:```+|~~~+)[ \t]*(?i:json5|jsonc|json|plan|text)?\\s*(.*?)\\s*(?:`*|~*))$")

// finalChannel returns what the model wrote on the final channel, when the text is in the
// harmony format of gpt-oss: only that is an answer.
func finalChannel(text string, done *notes) (string, *Fault) {
	const channel, assistant, message = "<|channel|>", "<|start|>assistant", "<|message|>"
	before, final, found := strings.Cut(text, channel+"final")
	harmony := strings.HasPrefix(text, channel) || strings.HasPrefix(text, assistant)
	if looksJSON(text) || !harmony && (!found || isOpen(before[strings.LastIndexByte(before, '\n')+1:])) {
		return text, nil
	}
	before = strings.TrimRight(strings.TrimSuffix(strings.TrimRight(before, " \n"), assistant), " \n")
	at := max(strings.LastIndexByte(before, '<'), 0)
	_, answer, begun := strings.Cut(final, message)
	switch {
	case !found && strings.Contains(text, " to="):
		return "", Faultf(InvalidPlan, "the text is a tool call, not a plan")
	case !begun:
		return "", Faultf(Truncated, "the text ends before the final answer begins")
	case strings.Contains(final, channel+"final"), before != "" && endTokenAt(before[at:]) != len(before)-at:
		return "", Faultf(InvalidPlan, "it is not certain which part of the text is the final answer")
	}
	done.add("reasoning")
	return answer, nil
}

// indexFold finds mark, which begins with no letter, in text without regard to case.
func indexFold(text, mark string) int {
	for from := 0; ; from++ {
		i := strings.IndexByte(text[from:], mark[0])
		if i < 0 {
			return -1
		}
		if from += i; hasPrefixFold(text[from:], mark) {
			return from
		}
	}
}

func hasPrefixFold(text, prefix string) bool {
	return len(text) >= len(prefix) && strings.EqualFold(text[:len(prefix)], prefix)
}

// containsFold reports whether text contains a lower-case word in any case.
func containsFold(text, word string) bool {
	return strings.Contains(strings.ToLower(text), word)
}

// shape says what a value looks like.
type shape int

const (
	otherShape   shape = iota // no part of a plan
	commandShape              // a bare command, or an array of them
	planShape                 // an object with commands
)

// commandKeys are the names of the commands of a plan; the later ones count only where the
// first is absent.
var commandKeys = []string{"commands", "steps", "actions", "plan"}

func (v *value) shape() shape {
	if v.kind == arrayValue && len(v.items) > 0 && v.items[0].kind == objectValue {
		return v.items[0].shape()
	}
	shape := otherShape
	for i := range v.members {
		key, inner := strings.ToLower(v.members[i].key), &v.members[i].value
		isList := inner.kind == arrayValue || inner.kind == objectValue
		switch {
		case key == commandKeys[0] && isList, slices.Contains(commandKeys, key) && inner.holdsCommands():
			return planShape
		case key == "type" && inner.isKind():
			shape = commandShape
		}
	}
	return shape
}

// holdsCommands reports whether the value is an array of commands or a plan.
func (v *value) holdsCommands() bool {
	if v.kind == arrayValue {
		return len(v.items) > 0 && v.items[0].isCommand()
	}
	return slices.ContainsFunc(v.members, func(m member) bool { return strings.EqualFold(m.key, commandKeys[0]) })
}

func (v *value) isKind() bool {
	text := strings.TrimSpace(v.text)
	return v.isText() && (strings.EqualFold(text, string(Do)) || strings.EqualFold(text, string(Say)))
}

// isCommand reports whether the value has the type of a command or, without a type, the
// name of an action.
func (v *value) isCommand() bool {
	fields, fault := v.fields()
	if kind := fields["type"]; kind != nil {
		return kind.isKind()
	}
	return fault == nil && fields["action"] != nil
}

// isToolCall reports whether the value is a call of a function as models write it.
func (v *value) isToolCall() bool {
	f, fault := v.fields()
	return fault == nil && f["name"] != nil && f["action"] == nil && f["response"] == nil && f["entities"] == nil &&
		(f["arguments"] != nil || f["parameters"] != nil) && (f["type"] == nil || !f["type"].isKind())
}

// isBareCommand reports whether the value is plainly a command, outside of a plan.
func (v *value) isBareCommand() bool {
	f, fault := v.fields()
	if fault != nil || v.kind != objectValue {
		return false
	}
	if f["type"] != nil {
		return f["type"].isKind()
	}
	return f["response"] != nil || f["action"] != nil && f["action"].kind != objectValue
}

// isMeant reports whether a value that is no plan was meant as one.
func (v *value) isMeant() bool {
	f, fault := v.fields()
	isList := func(key string) bool {
		list := f[key]
		return list != nil && (list.kind == arrayValue || list.kind == objectValue)
	}
	return fault != nil || v.shape() != otherShape || f[commandKeys[0]] != nil || f["tool_calls"] != nil ||
		slices.ContainsFunc(commandKeys, isList) || v.isToolCall() || v.isBareCommand()
}

// draft makes the commands of a plan from what was read.
type draft struct {
	alone   bool // there is nothing but one value in the answer
	done    notes
	wrapped bool // the plan or its commands are the value of something else
	crowded bool // and not its only one
}

var errNothing = Faultf(NoPlan, "the plan has no command")

// mayDo holds a plan with a DO to the rule of the package on where it may stand.
func (d *draft) mayDo(f found) *Fault {
	switch {
	case !f.top:
		return errInside
	case f.torn:
		return Faultf(InvalidPlan, "a comment in the plan holds half a quote, brace or bracket; write no comments")
	case d.wrapped && (d.crowded || !d.alone || len(f.notes) > 0):
		return Faultf(InvalidPlan, "the plan stands within other JSON; answer with the plan alone")
	}
	return nil
}

var errInside = Faultf(InvalidPlan, "the plan stands within a quote, brace or bracket that was opened before it; answer with the plan alone, or with plain text")

// bare reads values that are the whole of an answer and no plan: commands, or tool calls.
func (d *draft) bare(list []found) ([]Command, *Fault) {
	if len(list) == 1 {
		return d.plan(&list[0].value, false)
	}
	items := make([]value, len(list))
	for i := range list {
		if items[i] = list[i].value; !items[i].isToolCall() && !items[i].isBareCommand() {
			return nil, Faultf(InvalidPlan, "there are several JSON values, and value %d is no command", i+1)
		}
	}
	d.done.add("bare_commands")
	return d.commands(items, true)
}

// plan reads a value that is a plan, or what may stand for one.
func (d *draft) plan(v *value, unclosed bool) ([]Command, *Fault) {
	switch {
	case v.kind == nullValue, v.kind == arrayValue && len(v.items) == 0, v.kind == objectValue && len(v.members) == 0:
		return nil, errNothing
	case v.kind == objectValue:
		return d.object(v, true, unclosed)
	case v.kind != arrayValue:
		return nil, Faultf(InvalidPlan, "the answer is %s, not a plan", v.kind)
	}
	d.done.add("bare_commands")
	if len(v.items) == 1 && v.items[0].shape() == planShape {
		d.wrapped = true
		return d.object(&v.items[0], false, unclosed)
	}
	return d.commands(v.items, true)
}

// object reads a plan, a plan under another key, or one command.
func (d *draft) object(v *value, mayWrap, unclosed bool) ([]Command, *Fault) {
	fields, fault := v.fields()
	if fault != nil {
		return nil, fault
	}
	list := fields[commandKeys[0]]
	wraps := false
	for _, key := range commandKeys[1:] {
		other := fields[key]
		if fields[commandKeys[0]] != nil || other == nil || other.kind != arrayValue && other.kind != objectValue {
			continue
		}
		if list != nil && !list.equal(other) {
			return nil, Faultf(InvalidPlan, "%q is given beside other commands", key)
		}
		list = other
		wraps = list.kind == objectValue && !list.isCommand()
	}
	switch {
	case list == nil && !mayWrap:
		return nil, Faultf(InvalidPlan, `there is no "commands" array in the plan`)
	case list == nil:
		return d.single(v)
	case wraps && mayWrap:
		d.done.add("shape")
		d.wrapped, d.crowded = true, len(v.members) > 1
		return d.object(list, false, unclosed)
	case unclosed && list.kind != arrayValue:
		return nil, Faultf(Truncated, "the text ends before the JSON does")
	}
	return d.list(list)
}

// list reads the value of commands: an array, one command, or an array that was written
// as a string.
func (d *draft) list(v *value) ([]Command, *Fault) {
	switch v.kind {
	case arrayValue:
		return d.commands(v.items, false)
	case objectValue:
		d.done.add("shape")
		return d.commands([]value{*v}, false)
	case stringValue:
		text := strings.TrimSpace(v.text)
		r := reader{text: text}
		if inner, ok := r.read(0); ok && inner.kind == arrayValue && r.pos == len(text) {
			d.done.add("json_string")
			d.done.add(r.notes...)
			d.wrapped = true
			d.crowded = d.crowded || len(r.notes) > 0
			return d.commands(inner.items, false)
		}
	}
	return nil, Faultf(InvalidPlan, `"commands" is %s, not an array`, v.kind)
}

// single reads an object that is no plan: one command, or one tool call.
func (d *draft) single(v *value) ([]Command, *Fault) {
	if !v.isToolCall() && !v.isBareCommand() {
		return nil, Faultf(InvalidPlan, `the answer is a JSON object without "commands", not a plan`)
	}
	if !v.isToolCall() {
		d.done.add("bare_commands")
	}
	return d.commands([]value{*v}, true)
}

// commands reads commands, and drops the SAYs that say nothing. Bare ones may also be tool
// calls.
func (d *draft) commands(items []value, bare bool) ([]Command, *Fault) {
	list := make([]Command, 0, len(items))
	for i := range items {
		c, fault := d.command(&items[i], bare)
		switch {
		case fault != nil:
			return nil, Faultf(fault.Kind, "command %d: %s", i+1, fault.Detail)
		case c.Kind == Say && strings.TrimSpace(c.Response) == "":
			d.done.add("empty_say")
		default:
			list = append(list, c)
		}
	}
	if len(list) == 0 {
		return nil, errNothing
	}
	return list, nil
}

func (d *draft) command(v *value, bare bool) (Command, *Fault) {
	if v.kind != objectValue {
		return Command{}, Faultf(InvalidPlan, "it is %s, not an object", v.kind)
	}
	fields, fault := v.fields()
	if fault != nil {
		return Command{}, fault
	}
	if len(fields) < len(v.members) {
		d.done.add("equal_keys")
	}
	for key, field := range fields {
		if field.kind == nullValue {
			delete(fields, key)
		}
	}
	kind := fields["type"]
	switch {
	case bare && v.isToolCall():
		d.done.add("tool_call")
		delete(fields, "saveas")
		return d.do(fields)
	case kind == nil && fields["action"] != nil && fields["response"] == nil:
		d.done.add("shape")
		return d.do(fields)
	case kind == nil && fields["response"] != nil && fields["action"] == nil:
		d.done.add("shape")
		return d.say(fields)
	case kind == nil:
		return Command{}, Faultf(InvalidPlan, "it has no type DO or SAY")
	case !kind.isKind():
		return Command{}, Faultf(InvalidPlan, "the type %q is not DO or SAY", spelling.Clip(kind.text))
	case strings.EqualFold(strings.TrimSpace(kind.text), string(Do)):
		return d.do(fields)
	}
	return d.say(fields)
}

// do reads a DO. An action that is an object holds its own entities.
func (d *draft) do(fields map[string]*value) (Command, *Fault) {
	action, given := fields["action"], []*value{fields["entities"], fields["parameters"], fields["arguments"]}
	if action == nil {
		action = fields["name"]
	}
	if action != nil && action.kind == objectValue {
		d.done.add("shape")
		inner, fault := action.fields()
		if fault != nil {
			return Command{}, fault
		}
		action = inner["name"]
		given = append(given, inner["entities"], inner["parameters"], inner["arguments"])
	}
	if action == nil || !action.isText() || strings.TrimSpace(action.text) == "" {
		return Command{}, Faultf(InvalidPlan, "the DO names no action")
	}
	c := Command{Kind: Do, Action: strings.TrimSpace(action.text)}
	given = slices.DeleteFunc(given, func(v *value) bool { return v == nil || v.kind == nullValue })
	for _, other := range given {
		if !other.equal(given[0]) {
			return c, Faultf(InvalidPlan, "its entities are given twice with different values")
		}
	}
	var fault *Fault
	if len(given) == 0 {
		c.Entities = map[string]any{}
	} else if c.Entities, fault = d.entities(given[0]); fault != nil {
		return c, fault
	}
	if saveAs := fields["saveas"]; saveAs != nil {
		c.SaveAs = strings.TrimPrefix(strings.TrimSpace(saveAs.text), "$")
		if saveAs.kind != stringValue || nameSize(c.SaveAs) != len(c.SaveAs) {
			return c, Faultf(InvalidPlan, "saveAs is no name: use letters, digits and _, and begin with no digit")
		}
	}
	return c, nil
}

// entities reads the entities of a DO: an object, or an array of objects that have a name
// and a value and nothing else.
func (d *draft) entities(v *value) (map[string]any, *Fault) {
	if v.kind == arrayValue {
		d.done.add("shape")
		object := value{kind: objectValue}
		for i := range v.items {
			pair, fault := v.items[i].fields()
			if fault != nil || len(v.items[i].members) != 2 || pair["name"] == nil || pair["value"] == nil || pair["name"].kind != stringValue {
				return nil, Faultf(InvalidPlan, "its entities are an array, not an object")
			}
			object.members = append(object.members, member{pair["name"].text, *pair["value"]})
		}
		v = &object
	}
	if v.kind != objectValue {
		return nil, Faultf(InvalidPlan, "its entities are %s, not an object", v.kind)
	}
	return v.object()
}

// say reads a SAY, whose response may have another name or be a message with its content.
func (d *draft) say(fields map[string]*value) (Command, *Fault) {
	if saveAs := fields["saveas"]; saveAs != nil && saveAs.text != "" {
		return Command{}, Faultf(InvalidPlan, "a SAY has no result to save: saveAs belongs to a DO")
	}
	response := fields["response"]
	for _, name := range []string{"text", "message", "content"} {
		if response == nil && fields[name] != nil {
			d.done.add("shape")
			response = fields[name]
		}
	}
	if response != nil && response.kind == objectValue {
		d.done.add("shape")
		inner, fault := response.fields()
		if fault != nil {
			return Command{}, fault
		}
		if response = inner["content"]; response == nil {
			return Command{}, Faultf(InvalidPlan, "the response of the SAY is an object, not a string")
		}
	}
	switch c := (Command{Kind: Say}); {
	case response == nil, response.kind == nullValue:
		return c, nil
	case response.kind == stringValue, response.kind == numberValue, response.kind == booleanValue:
		c.Response = response.text
		if echo := strings.ToLower(strings.TrimSpace(c.Response)); echo == "<response>" || echo == "<text>" {
			return c, Faultf(InvalidPlan, "the response is the placeholder %s", echo)
		}
		return c, nil
	}
	return Command{}, Faultf(InvalidPlan, "the response of the SAY is %s, not a string", response.kind)
}
