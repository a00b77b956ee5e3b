package plan

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

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

// decode reads a text; wrapped says that it was the contents of a wrapper.
func decode(text string, wrapped bool) (Plan, *Fault) {
	if len(text) > maxBytes {
		return Plan{}, InvalidPlan.Faultf("the answer is longer than %d bytes", maxBytes)
	}
	text, done := clean(text)
	if strings.HasPrefix(text, `"`) {
		r := reader{text: text}
		value, ok := r.read(0)
		switch inner, isText := value.(string); {
		case ok && isText && r.pos == len(text):
			return decodeInner(inner, "json_string", wrapped, json.Valid([]byte(text)))
		case !ok && r.cut && (strings.HasPrefix(text, `"{`) || strings.HasPrefix(text, `"[`)):
			return Plan{}, Truncated.Faultf("the text ends within a string of JSON")
		}
	}
	text, fault := finalChannel(text, &done)
	if fault != nil {
		return Plan{}, fault
	}
	a := newAnswer(text, done)
	if fault := a.scan(); fault != nil {
		return Plan{}, fault
	}
	p, fault := a.plan()
	if fault != errWrapped || len(a.found) != 1 || len(a.found[0].notes) > 0 || hasWords(a.without(true)) {
		return p, fault
	}
	if inner, ok := unwrap(a.text[a.found[0].start:a.found[0].end]); ok {
		return decodeInner(inner, "shape", wrapped, true)
	}
	return p, fault
}

// decodeInner reads the contents of a wrapper that is the whole answer. Only a strict one
// may hold a DO.
func decodeInner(inner, code string, wrapped, strict bool) (Plan, *Fault) {
	if wrapped {
		return Plan{}, errWrapped
	}
	p, fault := decode(inner, true)
	switch {
	case fault != nil:
		return Plan{}, fault
	case p.Salvaged, !strict && p.LastDo() >= 0:
		return Plan{}, errWrapped
	}
	done := notes(p.Repairs)
	done.add(code)
	p.Repairs = slices.Sorted(slices.Values(done))
	return p, nil
}

var errWrapped = InvalidPlan.Faultf("the plan stands within other JSON; answer with the plan alone")

// unwrap returns what is alone in a wrapper of strict JSON: in an array, under the key
// plan, or in a string under the key commands.
func unwrap(text string) (inner string, ok bool) {
	var list []jsontext.Value
	if jsonv2.Unmarshal([]byte(text), &list) == nil && len(list) == 1 {
		return string(list[0]), true
	}
	var object map[string]jsontext.Value
	if jsonv2.Unmarshal([]byte(text), &object) != nil {
		return "", false
	}
	for key, value := range object {
		switch {
		case strings.EqualFold(key, "plan") && len(object) == 1:
			return string(value), true
		case strings.EqualFold(key, "commands") && jsonv2.Unmarshal(value, &inner) == nil && strings.HasPrefix(inner, "[") && json.Valid([]byte(inner)):
			return `{"commands":` + inner + "}", true
		}
	}
	return "", false
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
	fault     *Fault // of what was broken so far
	parts     []part // what is no prose, in order

	pos, lineStart int
	inked, begun   bool // something stands before pos on its line, or anywhere
	thinking       bool // a tag of reasoning was opened in a line, and never closed
	struck         bool // there was a <s> of HTML, so that </s> ends no turn
	quotedLine     int  // a line in which a closing tag stands in a quote; -1 for none

	// For an answer to the sequential planner:
	xml    bool
	plans  []xmlPlan
	stray  *Fault // what stands outside of plans and keeps them from running
	quotes bool   // a <say> or a <goal> outside of plans is not closed yet
}

// span is a piece of a text.
type span struct{ start, end int }

// part is a piece of an answer that is no prose: reasoning, or a value.
type part struct {
	span
	value bool
}

// found is a value in an answer that may be the plan.
type found struct {
	span
	value     any
	shape     shape
	lineStart int
	notes     notes
	unclosed  bool // its last } is missing
	torn      bool // a comment in it may be part of a string
	top       bool // nothing is open where it begins
}

func newAnswer(text string, done notes) *answer {
	return &answer{text: text, done: done, budget: 8*len(text) + 1<<14}
}

// scan walks through the text once. It reads each value that may be the plan where it
// begins, and never looks into one. What is broken is a fault, unless it turns out to be
// reasoning.
func (a *answer) scan() *Fault {
	a.restart(0)
	for a.pos < len(a.text) {
		start := a.pos
		fault := a.step()
		if fault != nil && (fault.Kind == Truncated || a.jsonFirst || a.fault != nil || reasoningTag.MatchString(a.text[start:a.pos])) {
			return fault
		}
		a.fault = cmp.Or(a.fault, fault)
	}
	return a.fault
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
	case c == '{' && a.fault != nil:
		return a.fault
	case c == '{' || c == '[' && reasoningTagAt(rest) == nil:
		return a.bracket(rest)
	case c == '\n':
		a.pos++
		a.lineStart, a.inked = a.pos, false
		return nil
	case c == ' ':
		a.pos++
		return nil
	case c == '<' || c == '[' || strings.HasPrefix(rest, "◁"):
		a.struck = a.struck || strings.HasPrefix(rest, "<s>")
		if endTokenAt(rest) > 0 && !(a.struck && strings.HasPrefix(rest, "</s>")) {
			a.done.add("end_token")
			a.text = a.text[:a.pos]
			return nil
		}
		if a.xml && c == '<' {
			if done, fault := a.tagOfXML(rest); done || fault != nil {
				return fault
			}
		}
		if tag := reasoningTagAt(rest); tag != nil {
			return a.tag(tag)
		}
	}
	switch {
	case strings.HasPrefix(rest, "<!--"):
		size := strings.Index(rest[4:], "-->")
		if size < 0 {
			a.pass(len(a.text))
		} else {
			a.pass(a.pos + len("<!---->") + size)
		}
		return nil
	case strings.HasPrefix(rest, "/*") && !a.marks.torn:
		if size := strings.Index(rest[2:], "*/"); size >= 0 {
			a.pass(a.pos + len("/**/") + size)
			return nil
		}
		a.marks.torn = true
	}
	a.mark()
	return nil
}

// pass steps over a comment, or reasoning that is only mentioned: no plan in it counts. In
// doubt, it leaves something open.
func (a *answer) pass(end int) {
	piece := a.text[a.pos:end]
	hasToken := func(token string) bool { return strings.Contains(piece, token) }
	a.marks.torn = a.marks.torn || isTorn(piece) || strings.ContainsFunc(piece, isQuote) || slices.ContainsFunc(endTokens, hasToken)
	a.jump(end)
}

// jump goes on at end.
func (a *answer) jump(end int) {
	if i := strings.LastIndexByte(a.text[a.pos:end], '\n'); i >= 0 {
		a.lineStart = a.pos + i + 1
	}
	a.inked, a.begun, a.pos = true, true, end
}

// mark steps over one character, which may be a mark.
func (a *answer) mark() {
	a.inked, a.begun = true, true
	a.pos += a.marks.step(a.text, a.pos)
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
	behind, line := a.pos+len(tag[0]), a.lineStart
	if a.fault != nil {
		line = strings.LastIndexByte(a.text[:a.pos], '\n') + 1
	}
	opens := tag[2] == ""
	mentioned := !opens && !a.jsonFirst && (line == a.quotedLine || isOpen(a.text[line:a.pos]))
	switch {
	case a.jsonFirst || opens && a.thinking:
		a.pos = behind
	case a.fault != nil && (opens || mentioned):
		return a.fault
	case opens:
		return a.reasons(tag[1]+"/"+tag[3], behind)
	case mentioned:
		a.quotedLine, a.pos = line, behind
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
		return Truncated.Faultf("the text ends within the reasoning")
	case size < 0:
		a.thinking = true
		a.pos = start
	case !a.begun:
		a.done.add("reasoning")
		a.restart(end)
	case a.inked && !strings.Contains(a.text[start:end], "\n"):
		a.pass(end)
	default:
		a.done.add("reasoning")
		a.marks.torn = a.marks.torn || isQuoted(a.text[a.lineStart:a.pos])
		a.parts = append(a.parts, part{span: span{a.pos, end}})
		a.pos, a.lineStart = end, end
	}
	return nil
}

// bracket looks at a brace or a bracket. It begins a value that may be the plan, other
// JSON, or nothing of the kind.
func (a *answer) bracket(rest string) *Fault {
	start, top := a.pos, a.marks.none()
	inside := strings.TrimLeftFunc(rest[1:], isBlank)
	likely := a.jsonFirst && start == 0 || rest[0] == '{' && (inside == "" || keyFollows(inside)) ||
		rest[0] == '[' && strings.HasPrefix(inside, "{") && keyFollows(strings.TrimLeftFunc(inside[1:], isBlank))
	switch {
	case !likely && !top:
		a.mark()
		return nil
	case a.reader.steps > a.budget || len(a.found) == maxFound:
		return InvalidPlan.Faultf("the text holds too many pieces of JSON")
	}
	r := &a.reader
	v, ok := r.read(start)
	if !ok {
		end := extent(a.text, start)
		r.steps += end - start
		if likely {
			if fault := a.unreadable(start, end); fault != nil {
				a.jump(end)
				return fault
			}
		}
		opensJSON := likely || closingQuote(inside) != "" || rest[0] == '[' && (strings.HasPrefix(inside, "{") || strings.HasPrefix(inside, "["))
		a.marks.torn = a.marks.torn || opensJSON && strings.ContainsFunc(a.text[start:end], isQuote)
		a.mark()
		return nil
	}
	f := found{
		span: span{start, r.pos}, value: v, shape: shapeOf(v), lineStart: a.lineStart,
		notes: r.notes, unclosed: r.unclosed, torn: r.torn, top: top,
	}
	switch {
	case a.thinking && f.shape == planShape:
		return Truncated.Faultf("the text ends within the reasoning")
	case r.unclosed && f.shape != planShape && (a.jsonFirst || leads(a.text[a.lineStart:start])):
		return Truncated.Faultf("the text ends before the JSON does")
	case r.unclosed && f.shape != planShape, f.shape < commandShape && !a.jsonFirst && !top:
		a.marks.torn = a.marks.torn || strings.ContainsFunc(a.text[start:r.pos], isQuote)
		a.mark()
		return nil
	case f.shape >= commandShape || a.jsonFirst:
		a.found = append(a.found, f)
		a.parts = append(a.parts, part{f.span, true})
	}
	if len(r.notes) > 0 && isTorn(a.text[start:r.pos]) {
		a.marks.torn = true // nobody knows whether its strings end where they seem to
	}
	a.jump(r.pos)
	return nil
}

// maxFound is how many values that may be a plan are looked at.
const maxFound = 10_000

// unreadable decides what a value means that could not be read. Nothing is looked for
// within what was meant as a plan.
func (a *answer) unreadable(start, end int) *Fault {
	r := &a.reader
	closed := end < len(a.text) || strings.IndexByte("}]", a.text[end-1]) >= 0
	meant := a.jsonFirst || r.twice || planKey.MatchString(a.text[start:end])
	near := a.text[min(r.pos, len(a.text)):]
	switch first := strings.TrimLeftFunc(a.text[start:], func(c rune) bool { return c == '{' || c == '[' || isBlank(c) }); {
	case meant && (r.cut || !closed):
		return Truncated.Faultf("the text ends before the JSON does: %s is missing", r.want)
	case meant:
		return InvalidPlan.Faultf("the JSON is broken near %s: expected %s", strings.TrimSpace(spelling.Clip(near)), r.want)
	case r.cut && (first == "" || closingQuote(first) != "") && (len(a.found) > 0 || leads(a.text[a.lineStart:start])):
		return Truncated.Faultf("the text ends before the JSON does")
	}
	return nil
}

var planKey = regexp.MustCompile(`(?i)commands|type["'”]?\s*[:：]\s*["'“]?(?:plan|do|say)\b`)

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
	around := a.without(true)
	words := hasWords(around)
	isPlan := func(f found) bool { return f.shape == planShape }
	plans := slices.ContainsFunc(a.found, isPlan)
	switch {
	case len(a.found) == 0, !plans && words && !(a.jsonFirst && a.found[0].shape != otherShape):
		return a.prose()
	case !plans && words:
		return Plan{}, InvalidPlan.Faultf("commands stand beside prose, and not in a plan")
	}
	var p Plan
	var fault *Fault
	if plans {
		p.Commands, fault = a.chosen()
	} else {
		p.Commands, fault = a.bare()
	}
	if fault != nil {
		return Plan{}, fault
	}
	for _, f := range a.found {
		switch {
		case plans && !isPlan(f):
			continue
		case p.LastDo() >= 0 && !f.top:
			return Plan{}, errInside
		case p.LastDo() >= 0 && f.torn:
			return Plan{}, InvalidPlan.Faultf("a comment in the plan holds half a quote, brace or bracket; write no comments")
		}
		a.done.add(f.notes...)
	}
	return a.finish(p, around), nil
}

var errInside = InvalidPlan.Faultf("the plan stands within a quote, brace or bracket that was opened before it; answer with the plan alone, or with plain text")

// finish notes what was repaired, and what stood around the plan.
func (a *answer) finish(p Plan, around string) Plan {
	if p.Salvaged = hasWords(around); p.Salvaged {
		a.done.add("prose")
	}
	if strings.Contains(around, "```") || strings.Contains(around, "~~~") {
		a.done.add("fence")
	}
	p.Repairs = slices.Sorted(slices.Values(a.done))
	return p
}

// without is the text outside of reasoning or, with values, outside of values too and
// without the closing brackets behind them.
func (a *answer) without(values bool) string {
	var out strings.Builder
	start, closers := 0, ""
	for _, p := range a.parts {
		if p.value && !values {
			continue
		}
		out.WriteString(strings.TrimLeft(a.text[start:p.start], closers))
		if start = p.end; p.value {
			out.WriteString("\n")
			closers = "}], \t\r\n;"
		}
	}
	rest := a.text[start:]
	if values {
		rest = trimClosing(rest)
	}
	out.WriteString(rest)
	return out.String()
}

// chosen takes the one plan that the text holds, which may be there several times.
func (a *answer) chosen() ([]Command, *Fault) {
	var chosen []Command
	for _, f := range a.found {
		switch f.shape {
		case otherShape:
			continue
		case likeShape, commandShape:
			return nil, InvalidPlan.Faultf("a command or a reply stands beside the plan, and not in it")
		}
		behind := a.text[f.end:]
		if goesOn.MatchString(behind) || !standsAlone(a.text[f.lineStart:f.start], behind) {
			return nil, InvalidPlan.Faultf("the plan stands in the middle of a sentence or a quotation")
		}
		commands, fault := a.commandsOf(f.value, f.unclosed)
		switch {
		case fault != nil:
			return nil, fault
		case chosen != nil && !reflect.DeepEqual(chosen, commands):
			return nil, InvalidPlan.Faultf("there are several plans, and they differ")
		case chosen != nil:
			a.done.add("equal_plans")
		}
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
	text := strings.TrimSpace(a.without(false))
	endsInBracket := strings.HasSuffix(text, "}") || strings.HasSuffix(text, "]")
	empty := strings.TrimSpace(wordless.ReplaceAllString(text, "")) == ""
	switch {
	case empty, text == "null":
		return Plan{}, NoPlan.Faultf("the answer is empty")
	case strings.IndexByte("{[", text[0]) < 0:
	case json.Valid([]byte(text)), endsInBracket && containsFold(text, commandKeys[0]):
		return Plan{}, InvalidPlan.Faultf("the answer is JSON, but no plan")
	case extent(text, 0) == len(text) && !endsInBracket:
		return Plan{}, Truncated.Faultf("the text ends before the JSON does")
	}
	if name := dialect(text); name != "" {
		return Plan{}, InvalidPlan.Faultf("the answer is %s, not a JSON plan", name)
	}
	if said := saidInWords.FindStringSubmatch(text); said != nil {
		if text = said[1] + said[2]; strings.TrimSpace(text) == "" {
			return Plan{}, NoPlan.Faultf("the answer is empty")
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
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch line = line[:min(len(line), 80)]; {
		case !otherPlan.MatchString(line):
		case strings.HasPrefix(line, "<"):
			return "an XML plan or a tool call"
		default:
			return "a plan of another kind"
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
		return "", InvalidPlan.Faultf("the text is a tool call, not a plan")
	case !begun:
		return "", Truncated.Faultf("the text ends before the final answer begins")
	case strings.Contains(final, channel+"final"), before != "" && endTokenAt(before[at:]) != len(before)-at:
		return "", InvalidPlan.Faultf("it is not certain which part of the text is the final answer")
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
	likeShape                 // meant as a plan or as commands, where the answer begins with it
	commandShape              // a bare command with its type, or an array of them
	planShape                 // an object with commands
)

// commandKeys are the names of the commands of a plan; the later ones count only where the
// first is absent.
var commandKeys = []string{"commands", "steps", "actions", "plan"}

func shapeOf(value any) shape {
	if list, ok := value.([]any); ok && len(list) > 0 {
		value = list[0]
	}
	object, ok := value.(map[string]any)
	if !ok {
		return otherShape
	}
	f, fault := fieldsOf(object)
	shape := otherShape
	if _, given := f[commandKeys[0]]; given || isToolCall(f) || isBareCommand(f) || f["tool_calls"] != nil {
		shape = likeShape
	}
	if isKind(f["type"]) {
		shape = commandShape
	}
	for i, key := range commandKeys {
		list, _ := f[key].([]any)
		inner, _ := f[key].(map[string]any)
		switch {
		case i == 0 && isList(f[key]), len(list) > 0 && isCommand(list[0]), inner[commandKeys[0]] != nil:
			return planShape
		case isList(f[key]):
			shape = max(shape, likeShape)
		}
	}
	if fault != nil {
		return planShape // so that it is refused
	}
	return shape
}

// isList reports whether a value may hold commands.
func isList(value any) bool {
	switch value.(type) {
	case []any, map[string]any:
		return true
	}
	return false
}

// isKind reports whether a value is the type of a command.
func isKind(value any) bool {
	text, _ := value.(string)
	text = strings.TrimSpace(text)
	return strings.EqualFold(text, Do) || strings.EqualFold(text, Say)
}

// isCommand reports whether a value has the type of a command or, without a type, the name
// of an action.
func isCommand(value any) bool {
	object, _ := value.(map[string]any)
	f, fault := fieldsOf(object)
	return isKind(f["type"]) || fault == nil && f["type"] == nil && f["action"] != nil
}

// isToolCall reports whether an object is the call of a function as models write it.
func isToolCall(f map[string]any) bool {
	return f["name"] != nil && f["action"] == nil && f["response"] == nil && f["entities"] == nil &&
		(f["arguments"] != nil || f["parameters"] != nil) && !isKind(f["type"])
}

// isBareCommand reports whether an object is plainly a command, outside of a plan.
func isBareCommand(f map[string]any) bool {
	return isKind(f["type"]) || f["type"] == nil && (f["response"] != nil || f["action"] != nil)
}

// bare reads values that are the whole of an answer and no plan: commands, or tool calls.
func (a *answer) bare() ([]Command, *Fault) {
	if len(a.found) == 1 {
		return a.commandsOf(a.found[0].value, false)
	}
	items := make([]any, len(a.found))
	for i, f := range a.found {
		items[i] = f.value
	}
	a.done.add("bare_commands")
	return a.commands(items, true)
}

// commandsOf reads a value that is a plan, or what may stand for one.
func (a *answer) commandsOf(value any, unclosed bool) ([]Command, *Fault) {
	switch value := value.(type) {
	case nil:
		return nil, errNothing
	case map[string]any:
		return a.object(value, unclosed)
	case []any:
		if len(value) == 0 {
			return nil, errNothing
		}
		if shapeOf(value) == planShape {
			return nil, errWrapped
		}
		a.done.add("bare_commands")
		return a.commands(value, true)
	}
	return nil, InvalidPlan.Faultf("the answer is no plan")
}

// object reads a plan, or one command.
func (a *answer) object(object map[string]any, unclosed bool) ([]Command, *Fault) {
	if len(object) == 0 {
		return nil, errNothing
	}
	f, fault := fieldsOf(object)
	if fault != nil {
		return nil, fault
	}
	list := f[commandKeys[0]]
	for _, key := range commandKeys[1:] {
		other := f[key]
		switch {
		case f[commandKeys[0]] != nil || !isList(other):
		case list != nil && !reflect.DeepEqual(list, other):
			return nil, InvalidPlan.Faultf("%q is given beside other commands", key)
		default:
			list = other
		}
	}
	switch list := list.(type) {
	case []any:
		return a.commands(list, false)
	case map[string]any:
		switch {
		case unclosed:
			return nil, Truncated.Faultf("the text ends before the JSON does")
		case !isCommand(list):
			return nil, errWrapped
		}
		a.done.add("shape")
		return a.commands([]any{list}, false)
	case nil:
		if isToolCall(f) {
			return a.commands([]any{object}, true)
		}
		if isBareCommand(f) {
			a.done.add("bare_commands")
			return a.commands([]any{object}, false)
		}
		return nil, InvalidPlan.Faultf(`the answer is a JSON object without "commands", not a plan`)
	case string:
		return nil, errWrapped
	}
	return nil, InvalidPlan.Faultf(`"commands" is no array`)
}

// commands reads commands, and drops the SAYs that say nothing. Bare ones may also be tool
// calls.
func (a *answer) commands(items []any, bare bool) ([]Command, *Fault) {
	list := make([]Command, 0, len(items))
	for i, item := range items {
		c, fault := a.command(item, bare)
		switch {
		case fault != nil:
			return nil, fault.Kind.Faultf("command %d: %s", i+1, fault.Detail)
		case c.Kind == Say && strings.TrimSpace(c.Response) == "":
			a.done.add("empty_say")
		default:
			list = append(list, c)
		}
	}
	if len(list) == 0 {
		return nil, errNothing
	}
	return list, nil
}

func (a *answer) command(item any, bare bool) (Command, *Fault) {
	object, ok := item.(map[string]any)
	if !ok {
		return Command{}, InvalidPlan.Faultf("it is no object")
	}
	f, fault := fieldsOf(object)
	if fault != nil {
		return Command{}, fault
	}
	kind := f["type"]
	switch {
	case bare && isToolCall(f):
		a.done.add("tool_call")
		delete(f, "saveas")
		return a.do(f)
	case kind == nil && f["action"] != nil && f["response"] == nil:
		a.done.add("shape")
		return a.do(f)
	case kind == nil && f["response"] != nil && f["action"] == nil:
		a.done.add("shape")
		return a.say(f)
	case kind == nil:
		return Command{}, InvalidPlan.Faultf("it has no type DO or SAY")
	case !isKind(kind):
		return Command{}, InvalidPlan.Faultf("the type %q is not DO or SAY", spelling.Clip(fmt.Sprint(kind)))
	case strings.EqualFold(strings.TrimSpace(kind.(string)), Do):
		return a.do(f)
	}
	return a.say(f)
}

// do reads a DO.
func (a *answer) do(f map[string]any) (Command, *Fault) {
	action := f["action"]
	if action == nil {
		action = f["name"]
	}
	name, _ := action.(string)
	c := Command{Kind: Do, Action: strings.TrimSpace(name), Entities: map[string]any{}}
	if c.Action == "" {
		return c, InvalidPlan.Faultf("the DO names no action")
	}
	var given any
	for _, key := range []string{"entities", "parameters", "arguments"} {
		if given != nil && f[key] != nil && !reflect.DeepEqual(given, f[key]) {
			return c, InvalidPlan.Faultf("its entities are given twice with different values")
		}
		given = cmp.Or(given, f[key])
	}
	if saveAs := f["saveas"]; saveAs != nil {
		text, isText := saveAs.(string)
		c.SaveAs = strings.TrimPrefix(strings.TrimSpace(text), "$")
		if !isText || c.SaveAs != "" && !isName(c.SaveAs) {
			return c, InvalidPlan.Faultf("saveAs is no name: use letters, digits and _, and begin with no digit")
		}
	}
	switch given := given.(type) {
	case map[string]any:
		c.Entities = given
	case []any:
		if len(given) > 0 {
			return c, InvalidPlan.Faultf("its entities are an array, not an object")
		}
		a.done.add("shape")
	case nil:
	default:
		return c, InvalidPlan.Faultf("its entities are no object")
	}
	return c, nil
}

// say reads a SAY, whose response may have another name or be a message with its content.
func (a *answer) say(f map[string]any) (Command, *Fault) {
	c := Command{Kind: Say}
	if saveAs := f["saveas"]; saveAs != nil && saveAs != "" {
		return c, InvalidPlan.Faultf("a SAY has no result to save: saveAs belongs to a DO")
	}
	response := f["response"]
	for _, name := range []string{"text", "message", "content"} {
		if response == nil && f[name] != nil {
			a.done.add("shape")
			response = f[name]
		}
	}
	if message, ok := response.(map[string]any); ok && message["content"] != nil {
		a.done.add("shape")
		response = message["content"]
	}
	switch response.(type) {
	case nil:
		return c, nil
	case string, json.Number, bool:
		c.Response = fmt.Sprint(response)
	default:
		return c, InvalidPlan.Faultf("the response of the SAY is no string")
	}
	if echo := strings.ToLower(strings.TrimSpace(c.Response)); echo == "<response>" || echo == "<text>" {
		return c, InvalidPlan.Faultf("the response is the placeholder %s", echo)
	}
	return c, nil
}
