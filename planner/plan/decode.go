package plan

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/internal/spelling"
	"github.com/planbot-go/planbot/internal/tags"
)

const maxBytes = 1 << 20 // limits the output that is decoded

// Decode reads the plan that a model wrote. It takes strict JSON as it is, and repairs what it can
// without guessing. Text without a plan becomes one SAY. The error is a [*Fault] of kind truncated,
// no_plan or invalid_plan.
//
// The package comment says where a plan with a DO counts. In addition, any plan must stand on its
// own: on separate lines, or at the start or end of the text; never in a comment, a block quote or
// another, broken plan. Several plans count only if they are equal. Decode takes linear time. It
// does not know the actions: the plan must pass [Plan.Validate] before it runs.
func Decode(text string) (Plan, error) { return decode(text, false, false) }

// decode reads a text; wrapped says that it came from a JSON string, and monologue is for
// [DecodeMonologue].
func decode(text string, wrapped, monologue bool) (Plan, error) {
	if len(text) > maxBytes {
		return Plan{}, InvalidPlan.Faultf("the answer is longer than %d bytes", maxBytes)
	}
	text, done := clean(text)
	var inner string
	if strings.HasPrefix(text, `"`) && json.Unmarshal([]byte(text), &inner) == nil {
		if wrapped {
			return Plan{}, errWrapped
		}
		p, err := decode(inner, true, monologue)
		switch {
		case err != nil:
			return Plan{}, err
		case p.Salvaged:
			return Plan{}, errWrapped
		}
		done.add(append(p.Repairs, "json_string")...)
		p.Repairs = slices.Sorted(slices.Values(done))
		return p, nil
	}
	if stringOfJSON.MatchString(text) {
		return Plan{}, Truncated.Faultf("the text ends within a string of JSON")
	}
	text, fault := finalChannel(text, &done)
	if fault != nil {
		return Plan{}, fault
	}
	a := newAnswer(text, done)
	a.monologue = monologue
	if fault := a.scan(); fault != nil {
		return Plan{}, fault
	}
	if a.idle {
		return Plan{}, errNoAction
	}
	p, err := a.plan(wrapped)
	if a.thoughts != "" && p.LastDo() >= 0 {
		p.Observe, p.Preface = true, a.thoughts
	}
	return p, err
}

// withoutSpokenThinking drops thinking whose ends are words: those of Granite, and the marks of gpt-oss
// where a server has lost their brackets.
func withoutSpokenThinking(text string, done *notes) (string, *Fault) {
	for _, form := range spokenThinking {
		if !form[0].MatchString(text) {
			continue
		}
		end := form[1].FindStringIndex(text)
		switch {
		case end == nil:
			return "", Truncated.Faultf("the text ends within the reasoning")
		case isOpen(text[strings.LastIndexByte(text[:end[0]], '\n')+1 : end[0]]):
			return text, nil
		}
		done.add("reasoning")
		return stripPrefix(text[end[1]:], done), nil
	}
	return text, nil
}

// spokenThinking match how thinking begins, and how it ends.
var spokenThinking = [][2]*regexp.Regexp{
	{regexp.MustCompile(`^(?i:[*# ]*here(?: is|['’]s) my (?:thought process|thinking|reasoning)\b)`), regexp.MustCompile(`(?im)^[*# ]*here(?: is|['’]s) my (?:final )?(?:response|answer|reply|plan)\b[^\n:]*:[*]*`)},
	{regexp.MustCompile(`^analysis(?:[^\sa-z]|\s(?s:.*)assistantfinal)`), regexp.MustCompile(`assistantfinal`)},
}

// stringOfJSON matches the start of JSON encoded as a JSON string.
var stringOfJSON = regexp.MustCompile(`^"[{[](?:\s|\\[nrt]|[{[])*\\"`)

var errWrapped = InvalidPlan.Faultf("the plan stands within other JSON; answer with the plan alone")

// answer is the output of a model while it is read.
type answer struct {
	text      string
	done      notes
	jsonFirst bool // the text begins like JSON, so it is meant as JSON
	reader    reader
	budget    int // bytes that the reader may still read
	marks     marks
	found     []found
	fault     *Fault // what was broken so far
	parts     []part // everything but prose, in order

	pos, lineStart int
	inked, begun   bool // there is something before pos on its line, or anywhere
	thinking       bool // a tag of thinking was opened within a line and never closed
	struck         bool // there was an HTML <s>, so </s> does not end the turn
	quotedLine     int  // a line with a closing tag inside a quote; -1 for none

	// For a monologue:
	monologue bool
	thoughts  string // of the last one that was read, as JSON; "": none was
	idle      bool   // one has thoughts and no action

	objects bool // any object counts, see [DecodeObject]

	// For an answer to the sequential planner:
	xml    bool
	plans  []xmlPlan
	stray  *Fault // what stands outside plans and keeps them from running
	quotes bool   // a <say> or a <goal> outside plans is still open
}

// part is a piece of an answer other than prose: reasoning, or a value.
type part struct {
	start, end int
	value      bool
}

// found is a value in an answer that may be the plan.
type found struct {
	start, end, lineStart int
	from, to              int // with the tags that are directly around it
	value                 any
	shape                 shape
	notes                 notes
	unclosed              bool // its last } is missing
	torn                  bool // a comment in it may be part of a string
	top                   bool // nothing is open where it begins
}

func newAnswer(text string, done notes) *answer {
	return &answer{text: text, done: done, budget: 8*len(text) + 1<<14}
}

// scan walks through the text once. It reads each value that may be the plan where it begins, and
// never searches inside one. Anything broken is a fault, unless it turns out to be reasoning.
func (a *answer) scan() *Fault {
	a.restart(0)
	for a.pos < len(a.text) {
		start := a.pos
		fault := a.step()
		if fault != nil && (fault.Kind == Truncated || a.jsonFirst || a.fault != nil || hasThinking(a.text[start:a.pos])) {
			return fault
		}
		a.fault = cmp.Or(a.fault, fault)
	}
	return a.fault
}

// restart starts over at pos, because nothing before it is part of the answer.
func (a *answer) restart(pos int) {
	text := a.text[pos:]
	if pos > 0 {
		text = stripPrefix(text, &a.done)
	}
	text = openFence(text, &a.done)
	*a = answer{
		text: text, done: a.done, jsonFirst: looksJSON(text), quotedLine: -1,
		reader: reader{text: text, steps: a.reader.steps}, budget: a.budget, xml: a.xml, monologue: a.monologue, objects: a.objects,
	}
}

// step handles what is at pos and moves past it.
func (a *answer) step() *Fault {
	rest := a.text[a.pos:]
	c := rest[0]
	switch {
	case c == '{' && a.fault != nil:
		return a.fault
	case c == '\n':
		a.pos++
		a.lineStart, a.inked = a.pos, false
		return nil
	case c == ' ':
		a.pos++
		return nil
	case c != '{' && c != '/' && !tags.Starts(rest):
		a.mark()
		return nil
	case c == '<' && endToken.MatchString(head(rest)) && (a.begun || !strings.Contains(head(rest), "start")) && !(a.struck && strings.HasPrefix(rest, "</s>")):
		a.done.add("end_token")
		a.text = a.text[:a.pos]
		return nil
	case c == '<' && a.xml:
		if done, fault := a.tagOfXML(rest); done || fault != nil {
			return fault
		}
	}
	if m, ok := thinkingTag(rest); ok {
		return a.thought(&m)
	}
	a.struck = a.struck || a.pos > 0 && strings.HasPrefix(rest, "<s>")
	if c == '{' || c == '[' {
		return a.bracket(rest)
	}
	if inner, ok := strings.CutPrefix(rest, "<!--"); ok {
		inner, _, _ = strings.Cut(inner, "-->")
		a.pass(min(a.pos+len("<!---->")+len(inner), len(a.text)))
		return nil
	}
	if inner, ok := strings.CutPrefix(rest, "/*"); ok && !a.marks.torn {
		inner, _, closed := strings.Cut(inner, "*/")
		if closed {
			a.pass(a.pos + len("/**/") + len(inner))
			return nil
		}
		a.marks.torn = true
	}
	a.mark()
	return nil
}

// head is the start of text, long enough to hold a tag or a token.
func head(text string) string { return text[:min(len(text), 40)] }

// pass skips a comment, or reasoning that is only mentioned: plans inside do not count. In doubt,
// it leaves something open.
func (a *answer) pass(end int) {
	piece := a.text[a.pos:end]
	a.marks.torn = a.marks.torn || isTorn(piece) || strings.ContainsFunc(piece, isQuote) || endTokens.MatchString(piece)
	a.jump(end)
}

// jump continues at end.
func (a *answer) jump(end int) {
	if i := strings.LastIndexByte(a.text[a.pos:end], '\n'); i >= 0 {
		a.lineStart = a.pos + i + 1
	}
	a.inked, a.begun, a.pos = true, true, end
}

// mark skips one character, which may be a mark.
func (a *answer) mark() {
	a.inked, a.begun = true, true
	a.pos += a.marks.step(a.text, a.pos)
}

// thinkingTag reads a tag of thinking at the start of a text. The text of a link is none.
func thinkingTag(text string) (m tags.Tag, ok bool) {
	m, ok = tags.Read(text)
	return m, ok && m.Kind == tags.Thinking && !m.Whole && !strings.HasPrefix(text[m.Size:], "(")
}

// hasThinking reports whether there is a tag of thinking in a text.
func hasThinking(text string) bool {
	for i := range len(text) {
		if tags.Starts(text[i:]) {
			if _, ok := thinkingTag(text[i:]); ok {
				return true
			}
		}
	}
	return false
}

// thought handles a tag of thinking outside all values. A lone closing tag ends thinking that the
// prompt opened, unless it is quoted.
func (a *answer) thought(m *tags.Tag) *Fault {
	behind, line := a.pos+m.Size, a.lineStart
	if a.fault != nil {
		line = strings.LastIndexByte(a.text[:a.pos], '\n') + 1
	}
	size, final := m.IsAnswer(a.text[behind:])
	opens := !m.Closes
	mentioned := !opens && !a.jsonFirst && (line == a.quotedLine || isOpen(a.text[line:a.pos]))
	switch {
	case a.jsonFirst || opens && a.thinking:
		a.pos = behind
	case a.fault != nil && (opens || mentioned):
		return a.fault
	case opens && final && !a.begun:
		a.done.add("reasoning")
		a.restart(behind + size)
		if from, to := m.End(a.text); from >= 0 && to == len(a.text) {
			a.text = a.text[:from]
		}
	case opens:
		return a.reasons(m, behind)
	case mentioned:
		a.quotedLine, a.pos = line, behind
	default:
		a.done.add("reasoning")
		a.restart(behind)
	}
	return nil
}

// reasons handles thinking whose contents start at start. Thinking before the answer is dropped;
// thinking within the answer is recorded; a tag within a line is only mentioned.
func (a *answer) reasons(m *tags.Tag, start int) *Fault {
	_, size := m.End(a.text[start:])
	end := start + size
	switch {
	case size < 0 && !a.inked && !m.Soft:
		return Truncated.Faultf("the text ends within the reasoning")
	case size < 0:
		a.thinking = true
		a.pos = start
	case !a.begun || strings.Trim(a.text[:a.pos], "-=_* \t\r\n") == "": // behind a line that Gemma draws
		a.done.add("reasoning")
		a.restart(end)
	case a.inked && !strings.Contains(a.text[start:end], "\n"):
		a.pass(end)
	default:
		a.done.add("reasoning")
		a.marks.torn = a.marks.torn || isQuoted(a.text[a.lineStart:a.pos])
		a.parts = append(a.parts, part{start: a.pos, end: end})
		a.pos, a.lineStart = end, end
	}
	return nil
}

// bracket handles a brace or a bracket. It begins a value that may be the plan, other JSON, or
// neither.
func (a *answer) bracket(rest string) *Fault {
	start, top := a.pos, a.marks.none()
	inside := strings.TrimLeftFunc(rest[1:], isBlank)
	likely := a.jsonFirst && start == 0 || rest[0] == '{' && (inside == "" || keyFollows(inside)) ||
		rest[0] == '[' && strings.HasPrefix(inside, "{") && keyFollows(strings.TrimLeftFunc(inside[1:], isBlank))
	switch {
	case !likely && !top:
		a.mark()
		return nil
	case a.reader.steps > a.budget:
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
	if a.monologue {
		v = a.acted(v)
	}
	f := found{
		start: start, end: r.pos, lineStart: a.lineStart, from: start, to: r.pos, value: v, shape: shapeOf(v),
		notes: r.notes, unclosed: r.unclosed, torn: r.torn, top: top,
	}
	switch {
	case a.thinking && f.shape == planShape:
		return Truncated.Faultf("the text ends within the reasoning")
	case r.unclosed && f.shape != planShape && (a.jsonFirst || leads(a.text[a.lineStart:start])):
		return errCut
	case r.unclosed && f.shape != planShape, f.shape < commandShape && !a.jsonFirst && !top:
		a.marks.torn = a.marks.torn || strings.ContainsFunc(a.text[start:r.pos], isQuote)
		a.mark()
		return nil
	case f.shape >= commandShape || a.jsonFirst || a.objects:
		a.found = append(a.found, f)
		a.parts = append(a.parts, part{start, r.pos, true})
	}
	if len(r.notes) > 0 && isTorn(a.text[start:r.pos]) {
		a.marks.torn = true // its strings may not end where they seem to
	}
	a.jump(r.pos)
	return nil
}

// unreadable decides what a value that could not be read means. It never searches inside something
// meant as a plan.
func (a *answer) unreadable(start, end int) *Fault {
	r := &a.reader
	closed := end < len(a.text) || strings.IndexByte("}]", a.text[end-1]) >= 0
	meant := a.jsonFirst || planKey.MatchString(a.text[start:end]) || a.objects || a.monologue && monologueKey.MatchString(a.text[start:end])
	near := a.text[min(r.pos, len(a.text)):]
	switch first := strings.TrimLeftFunc(a.text[start:], func(c rune) bool { return c == '{' || c == '[' || isBlank(c) }); {
	case meant && (r.cut || !closed):
		return Truncated.Faultf("the text ends before the JSON does: %s is missing", r.want)
	case meant:
		return InvalidPlan.Faultf("the JSON is broken near %s: expected %s", strings.TrimSpace(spelling.Clip(near)), r.want)
	case r.cut && (first == "" || closingQuote(first) != "") && (len(a.found) > 0 || leads(a.text[a.lineStart:start])):
		return errCut
	}
	return nil
}

var planKey = regexp.MustCompile(`(?i)commands|type["'”]?\s*[:：]\s*["'“]?(?:plan|do|say)\b`)

// extent finds where the bracket at start is closed outside strings, or the end of the text. It is
// for text that cannot be parsed.
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

// plan decides what the answer means; wrapped says that it came from a JSON string.
func (a *answer) plan(wrapped bool) (Plan, error) {
	around := a.without(true)
	words := hasWords(around)
	if len(a.found) == 1 && a.found[0].notes == nil && !words && !wrapped {
		a.unwrap(&a.found[0])
	}
	plans := slices.ContainsFunc(a.found, func(f found) bool { return f.shape == planShape })
	var p Plan
	fault := a.sealed(around)
	switch {
	case fault != nil:
	case plans:
		p.Commands, fault = a.chosen()
	case len(a.found) == 0, words && !(a.jsonFirst && a.found[0].shape != otherShape):
		return a.prose()
	case words:
		return Plan{}, InvalidPlan.Faultf("commands stand beside prose, and not in a plan")
	default:
		p.Commands, fault = a.bare()
	}
	if fault == nil && plans && p.LastDo() >= 0 && a.drafts() {
		fault = errDraft
	}
	if fault != nil {
		return Plan{}, fault
	}
	for _, f := range a.found {
		switch {
		case plans && f.shape != planShape: // other JSON
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

// drafts reports whether the answer begins with words that name what follows as thinking, however they are marked
// (## Thinking, **Thoughts:**, &lt;think&gt;, a fence), and goes on behind the plan. Models that give reasons first
// end with the plan.
func (a *answer) drafts() bool {
	first, last := a.found[0], a.found[len(a.found)-1]
	return hasWords(trimClosing(a.text[last.to:])) && namesThinking(a.text[:first.start])
}

// namesThinking reports whether the first line of a text, or what stands before its colon, names it as thinking.
func namesThinking(text string) bool {
	const title = 5 // words at most
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	line, _, _ = strings.Cut(html.UnescapeString(line), ":")
	words := strings.FieldsFunc(line, func(c rune) bool { return !unicode.IsLetter(c) })
	if first, _ := utf8.DecodeRuneInString(line); !unicode.IsLetter(first) { // the line begins with a mark
		words = words[:min(len(words), 1)]
	}
	return len(words) <= title && slices.ContainsFunc(words, tags.IsThinking)
}

var errInside = InvalidPlan.Faultf("the plan stands within a quote, brace or bracket that was opened before it; answer with the plan alone, or with plain text")

// unwrap takes a plan out of strict JSON that holds nothing else: an array, an object with the key
// plan, or a string under the key commands.
func (a *answer) unwrap(f *found) {
	value := f.value
	switch wrapper := value.(type) {
	case []any:
		if len(wrapper) == 1 {
			value = wrapper[0]
		}
	case map[string]any:
		fields, _ := fieldsOf(wrapper)
		text, _ := fields[commandKeys[0]].(string)
		if text == "" && len(fields) == 1 {
			value = fields["plan"]
		}
		inner := reader{text: text}
		if list, ok := inner.read(0); ok && inner.notes == nil && inner.pos == len(text) && strings.HasPrefix(text, "[") {
			value = map[string]any{commandKeys[0]: list}
		}
	}
	if shape := shapeOf(value); shape == planShape && !reflect.DeepEqual(value, f.value) {
		f.value, f.shape = value, shape
		a.done.add("shape")
	}
}

// finish records repairs, and what surrounded the plan.
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

// without returns the text outside reasoning. With values, it also leaves out values and the
// closing brackets after them.
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
	if !values {
		return out.String() + a.text[start:]
	}
	return out.String() + trimClosing(a.text[start:])
}

// trimClosing drops closing marks after a plan that is already closed.
func trimClosing(behind string) string {
	return strings.TrimLeft(strings.TrimLeft(behind, "}] \t\r\n"), ";")
}

// chosen returns the one plan in the text. The text may repeat it.
func (a *answer) chosen() ([]Command, *Fault) {
	var chosen []Command
	for _, f := range a.found {
		behind := a.text[f.to:]
		before := a.text[f.lineStart:f.start]
		if f.from < f.start {
			before = a.text[strings.LastIndexByte(a.text[:f.from], '\n')+1 : f.from]
		}
		switch {
		case f.shape == otherShape:
			continue
		case f.shape != planShape:
			return nil, InvalidPlan.Faultf("a command or a reply stands beside the plan, and not in it")
		case goesOn.MatchString(behind), !standsAlone(before, behind):
			return nil, InvalidPlan.Faultf("the plan stands in the middle of a sentence or a quotation")
		}
		commands, fault := a.commandsOf(f.value, f.unclosed)
		switch {
		case fault != nil:
			return nil, fault
		case isAnswer(f.value) && slices.ContainsFunc(commands, func(c Command) bool { return c.Kind == Do }):
			return nil, errDoInAnswer
		case chosen != nil && !reflect.DeepEqual(chosen, commands):
			return nil, InvalidPlan.Faultf("there are several plans, and they differ")
		case chosen != nil:
			a.done.add("equal_plans")
		}
		chosen = commands
	}
	return chosen, nil
}

// envelope is a tag around plans while its end is not reached.
type envelope struct {
	tag     tags.Tag
	at      int
	words   bool // there are words in it
	leading bool // the answer begins with it
	plans   int
	only    *found // the one plan in it
}

// sealed decides whether the tags in the text let its plans run. They may stand in a tag, if it is
// closed and holds one plan and nothing else. In or behind any other tag that the answer begins with,
// or in one that is never closed, a plan is a draft: nobody has to know what the tag means. A control token
// that the text ends with closes all others.
func (a *answer) sealed(around string) *Fault {
	if len(a.found)+len(a.plans) == 0 || !strings.ContainsAny(around, "<[◁＜⟨【") {
		return nil
	}
	var open []envelope
	begun, shut, added := false, false, false // added: there are words behind a plan
	ended := slices.Contains(a.done, "end_token")
	plans := 0
	closings := a.closings()
	at, nextFound := 0, 0
	for _, p := range append(slices.Clone(a.parts), part{start: len(a.text), end: len(a.text)}) {
		for at < p.start {
			size, m, isTag := a.nextTag(at, p.start, closings, begun)
			if words := a.text[at : at+size]; hasWords(strings.TrimLeft(words, "}],;")) {
				begun = true
				added = plans > 0
				if added && shut {
					return errDraft
				}
				for i := range open {
					open[i].words = true
					if open[i].plans > 0 {
						return errDraft
					}
				}
			}
			at += size
			if !isTag {
				break
			}
			i := len(open) - 1
			for i >= 0 && !m.Ends(&open[i].tag) {
				i--
			}
			switch {
			case i < 0 && m.Special && plans > 0 && at+m.Size == len(a.text):
				ended = true
				if len(open) > 0 && open[0].only != nil {
					open[0].only.from, open[0].only.to = open[0].at, len(a.text)
				}
			case !m.Closes:
				open = append(open, envelope{tag: m, at: at, leading: !begun && len(open) == 0})
				begun = true
			case i < 0 && added:
				return errDraft // it ends what the prompt began
			case i < 0:
				shut = plans > 0 || !answerTag.MatchString(m.Name)
			default:
				for _, inner := range open[i+1:] {
					if inner.plans > 0 && !(inner.tag.Special && m.Special) {
						return errDraft
					}
				}
				e := open[i]
				if e.only != nil {
					e.only.from, e.only.to = e.at, at+m.Size
				}
				shut = shut || e.leading && e.plans == 0
				open = open[:i]
			}
			at += m.Size
		}
		if at = p.end; !p.value {
			continue
		}
		var f *found
		if nextFound < len(a.found) && a.found[nextFound].start == p.start {
			f = &a.found[nextFound]
			nextFound++
		}
		if f != nil && f.shape < commandShape {
			continue
		}
		plans++
		if shut {
			return errDraft
		}
		for i := range open {
			if open[i].plans++; open[i].words || open[i].plans > 1 {
				return errDraft
			}
			open[i].only = f
		}
	}
	if slices.ContainsFunc(open, func(e envelope) bool { return e.plans > 0 && !(ended && (e.tag.Special || e.tag.Name == "s")) }) {
		return Truncated.Faultf("the text ends before the tag around the plan is closed")
	}
	return nil
}

var errDraft = InvalidPlan.Faultf("the plan stands in or behind a block such as <draft>, with more than the plan in it; answer with the plan alone, or with plain text")

// answerTag matches the names of tags around an answer. They may lack their other half.
var answerTag = regexp.MustCompile(`^(?:answer|output|response|result|json|final|final_answer|plan|pre|code|xml)$`)

// closings returns where the last closing tag of each name is.
func (a *answer) closings() map[string]int {
	last := map[string]int{}
	for i := range len(a.text) {
		if !tags.Starts(a.text[i:]) {
			continue
		}
		if m, ok := tags.Read(a.text[i:]); ok && m.Closes {
			last[m.Name] = i
		}
	}
	return last
}

// nextTag finds the next tag between at and end that may stand around something, and how much stands
// before it. A tag within a line that is never closed is only mentioned, and so are [words].
func (a *answer) nextTag(at, end int, closings map[string]int, begun bool) (size int, m tags.Tag, ok bool) {
	first := !begun
	for i := at; i < end; i++ {
		if !tags.Starts(a.text[i:end]) {
			continue
		}
		m, ok := tags.Read(a.text[i:end])
		if !ok || m.Whole || wholeTag.MatchString(m.Name) || a.xml && slices.Contains([]string{"plan", "say", "goal"}, m.Name) {
			continue
		}
		closed := closings[m.Name] > i
		first = first && !hasWords(a.text[at:i])
		isLink := strings.HasPrefix(a.text[i:], "[") && strings.HasPrefix(a.text[i+m.Size:], "(")
		before := strings.TrimRight(a.text[at:i], " \t")
		opensLine := a.text[i] == '<' && (before == "" || strings.HasSuffix(before, "\n"))
		if m.Special || m.Closes || closed || first && !isLink || opensLine {
			return i - at, m, true
		}
		i += m.Size - 1
	}
	return end - at, m, false
}

// wholeTag matches HTML that stands around nothing.
var wholeTag = regexp.MustCompile(`^(?:br|hr|img|wbr|input)$`)

// isAnswer reports whether a plan declares that it has no DO.
func isAnswer(value any) bool {
	object, _ := value.(map[string]any)
	f, _ := fieldsOf(object)
	kind, _ := f["type"].(string)
	return strings.EqualFold(strings.TrimSpace(kind), answerType)
}

var errDoInAnswer = InvalidPlan.Faultf(`there is a DO in a plan of the type "answer"; with a DO the type is "plan"`)

// goesOn matches text after a value that continues its JSON: then the value is part of something
// broken.
var goesOn = regexp.MustCompile(`^(?:[}\]\s;]*[,:]|[}\]; \t\r]*["'\[{])`)

// standsAlone reports whether a plan stands on its own, given the text before it on its line and
// the text after it. In the middle of a sentence, or in a block quote, the text only talks about
// it.
func standsAlone(before, behind string) bool {
	line, _, _ := strings.Cut(behind, "\n")
	return !isQuoted(before) && (!hasWords(before) || leads(before) && !hasWords(trimClosing(line)) || !hasWords(trimClosing(behind)))
}

// leads reports whether only marks or a short label precede a value on its line.
func leads(before string) bool {
	before = strings.TrimRight(before, " \t*_`")
	return !isQuoted(before) && (!hasWords(before) || len(before) <= 60 && label.MatchString(before))
}

var label = regexp.MustCompile(`[:：]$|^(?:const |let |var )?[A-Za-z_$][\w$.-]*\s*=$`)

// isQuoted reports whether a line starts as a block quote or a comment.
func isQuoted(line string) bool { return quotedLine.MatchString(line) }

var quotedLine = regexp.MustCompile(`^[ \t*+\d.)-]*(?:>|//|/\*|#[# \t]*$)`)

// wordless matches text that says nothing: code fences with their language, list and heading marks,
// and the tags around an answer.
var wordless = regexp.MustCompile("(?m)^\\s*(?:```+|~~~+)(?: ?[^\\s`{\\[(<:.!?]+){0,3} *$|^\\s*(?:[-+•]|#+|\\d+[.)])[ \t]" +
	"|</?(?i:answer|output|response|result|json|final|final_answer|plan|pre|code|xml)>")

// hasWords reports whether text says anything.
func hasWords(text string) bool {
	return strings.ContainsFunc(wordless.ReplaceAllString(text, ""), func(c rune) bool {
		return !isBlank(c) && !strings.ContainsRune("`*_", c)
	})
}

// prose turns a text without a plan into one SAY. An empty text is an error, and so is a plan of
// another kind, which must be neither run nor shown.
func (a *answer) prose() (Plan, error) {
	text, fault := a.spoken(withoutComments(strings.TrimSpace(a.without(false))))
	if fault != nil {
		return Plan{}, fault
	}
	if said := saidInWords.FindStringSubmatch(text); said != nil {
		text = strings.TrimSpace(said[1] + said[2])
	}
	endsInBracket := strings.HasSuffix(text, "}") || strings.HasSuffix(text, "]")
	switch {
	case strings.TrimSpace(wordless.ReplaceAllString(text, "")) == "", text == "null":
		return Plan{}, NoPlan.Faultf("the answer is empty")
	case strings.IndexByte("{[", text[0]) < 0:
	case json.Valid([]byte(text)), endsInBracket && strings.Contains(strings.ToLower(text), commandKeys[0]):
		return Plan{}, InvalidPlan.Faultf("the answer is JSON, but no plan")
	case extent(text, 0) == len(text) && !endsInBracket:
		return Plan{}, errCut
	}
	if otherPlan.MatchString(text) || otherPlan.MatchString(unwrapped(text)) {
		return Plan{}, errOtherPlan
	}
	return Plan{Commands: []Command{{Kind: Say, Response: text}}, Repairs: slices.Sorted(slices.Values(a.done)), Prose: true}, nil
}

// unwrapped is what stands in the one block of a tag that a text is: code, unless the tag says that it is code to read.
func unwrapped(text string) string {
	t, ok := tags.Read(text)
	if !ok || t.Closes || answerTag.MatchString(t.Name) {
		return ""
	}
	inner := text[t.Size:]
	if from, to := t.End(inner); to == len(inner) {
		return strings.TrimSpace(inner[:from])
	}
	return ""
}

// withoutComments leaves out comments that a text begins with: those of HTML, which nobody sees, and others that are
// thinking.
func withoutComments(text string) string {
	for _, marks := range [][2]string{{"<!--", "-->"}, {"/*", "*/"}} {
		inner, begins := strings.CutPrefix(text, marks[0])
		inner, behind, closed := strings.Cut(inner, marks[1])
		if begins && closed && (marks[0] == "<!--" || namesThinking(inner)) {
			return withoutComments(strings.TrimSpace(behind))
		}
	}
	return text
}

var (
	errCut       = Truncated.Faultf("the text ends before the JSON does")
	errOtherPlan = InvalidPlan.Faultf("the answer is a plan or a call of another kind, such as XML, not a JSON plan")
)

// spoken returns prose without blocks of control tokens, which are not for people. A call in tags, or a
// control token on its own, is no answer. In code they are text like any other, and so is HTML.
func (a *answer) spoken(text string) (string, *Fault) {
	var out strings.Builder
	code, kept, spaced := false, 0, true
	for i := 0; i < len(text); i++ {
		if text[i] == '`' {
			code = !code
		}
		opensLine := spaced
		spaced = text[i] == '\n' || spaced && isBlank(rune(text[i]))
		if code || !tags.Starts(text[i:]) {
			continue
		}
		t, ok := tags.Read(text[i:])
		cut := !ok && cutToken.MatchString(head(text[i:]))
		switch {
		case cut:
			return "", Truncated.Faultf("the text ends within a control token")
		case ok && t.Kind == tags.Call && (t.Special || opensLine):
			return "", errOtherPlan
		case !ok || !t.Special:
			continue
		}
		from, to := t.End(text[i+t.Size:])
		if t.Closes || from < 0 {
			return "", InvalidPlan.Faultf("there is a control token such as <|token|> in the text; answer without any")
		}
		a.done.add("reasoning")
		out.WriteString(text[kept:i])
		kept = i + t.Size + to
		i = kept - 1
	}
	return strings.TrimSpace(out.String() + text[kept:]), nil
}

// cutToken matches a control token that the text ends in.
var cutToken = regexp.MustCompile(`^[<＜]/?[|｜‖]+[\w▁｜‖|]*$`)

// otherPlan matches a text that is entirely a call or a template, and a line that begins as a plan
// of another kind. In the middle of a line it is only mentioned.
var otherPlan = regexp.MustCompile("(?m)" + strings.Join([]string{
	`\A(?:\{&(?:quot|#34);|\{\{(?:[#!~]|set |json )|｛|\[?[A-Za-z_$][\w$.-]*\((?:\)|[^\n]*[="'{])[^\n]*\z)`,
	`^\s*<(?:\|python_tag\||\|tool|｜tool|antml:)`, `^\s*\[/?TOOL_`, "^\\s*```tool_", // tool calls
	`^\s*(?i:<(?:plan|functions?|function_calls?|tool_calls?|tool_use|invoke|commands?|action|do|say|steps?)[>.= \t/])`, // XML
	`^\s*[-*•\d.) \t` + "`" + `]*(?i:["']?type["']?\s*:\s*["']?(?:do|say|plan)["']?\s*$)`,                               // YAML
	"^\\s*[-*•\\d.) \\t`]*(?:THEN )?DO[ :*`\\t]+[\"*`]*[a-z_]",                                                          // a list of steps
	"^\\s*(?:[-*•]+|\\d+[.)])[ \\t*`]*(?:THEN )?SAY(?:[ :*`\"]|$)",
	`^\s*["']?(?:tool_calls?|function_calls?)["']?\s*[:=]\s*[\[{]`,                                       // OpenAI's calls, without the braces around them
	`^\s*(?i:[* \t]*action input[* ]*:)`,                                                                 // ReAct
	`^\s*(?:functools\s*\[|✿FUNCTION✿|(?:call:|print\(default_api\.)\w+[({]|(?:to=)?functions\.[\w.-]+)`, // Phi, Qwen, Gemma, Gemini, gpt-oss
}, "|"))

// saidInWords matches prose that begins with the word SAY, and captures what is said.
var saidInWords = regexp.MustCompile(`(?s)^(?:SAY *:|(?i:say:)|SAY +["“])\s*(?:["“]([^"”]*)["”]|(.*))$`)

// looksJSON reports whether a text begins like JSON: maybe broken, but not meant as prose.
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
	return closingQuote(text) != "" || strings.HasPrefix(text, "//") || strings.HasPrefix(text, "/*") || bareKey.MatchString(text[:min(len(text), 80)])
}

var bareKey = regexp.MustCompile(`^[A-Za-z_$][\w$.-]{0,63}[ \t]*[:：]`)

// endTokens match tokens that a serving stack leaks at the end of a model's turn.
var (
	endTokens = regexp.MustCompile(tokens)
	endToken  = regexp.MustCompile("^(?:" + tokens + ")")
	endsTurn  = regexp.MustCompile("(?:(?:" + tokens + `)\s*)+$`)
)

const tokens = `</s>|<\|(?:end|im_end|eot_id|eom_id|endoftext|end_of_text|return|call|eot|im_start|start|start_header_id)\|>|` +
	`<end_of_turn>|<start_of_turn>|<eos>|<｜end▁of▁sentence｜>`

// rolePrefix matches a role label before an answer. One in tags is a control token with the role behind it; a second
// token may close it.
var rolePrefix = regexp.MustCompile(`^(?i:<(?:[|｜][\w▁]+[|｜]?|start_of_turn)>\s*(?:assistant|model)(?:\s*<[|｜](?:end\w+|\w+_end)[|｜]>|\b)|` +
	`<\|assistant\|>|<\|begin_of_text\|>|<bos>|(?:\*\*)?assistant(?:\*\*)?:(?:\*\*)?|assistant\n)`)

// clean makes the text valid UTF-8 and drops what surrounds an answer.
func clean(text string) (string, notes) {
	var done notes
	valid := strings.ToValidUTF8(text, "\ufffd")
	if valid != text {
		done.add("utf8")
	}
	text = strings.TrimRight(stripPrefix(valid, &done), " \t\r\n")
	if at := endsTurn.FindStringIndex(text); at != nil {
		done.add("end_token")
		text = strings.TrimRight(text[:at[0]], " \t\r\n")
	}
	return text, done
}

// stripPrefix drops a byte order mark, zero-width characters and role labels.
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

// openFence returns the contents of a text that is one code fence with JSON in it, closed or not.
func openFence(text string, done *notes) string {
	parts := wholeFence.FindStringSubmatch(text)
	if parts == nil || strings.Contains(parts[1], "```") || strings.Contains(parts[1], "~~~") || parts[1] != "null" && !looksJSON(parts[1]) {
		return text
	}
	done.add("fence")
	return parts[1]
}

var wholeFence = regexp.MustCompile("^(?s:(?:```+|~~~+)[ \t]*(?i:json5|jsonc|json|plan|text)?\\s*(.*?)\\s*(?:`*|~*))$")

// finalChannel returns what the model wrote on the final channel if the text is in the harmony
// format of gpt-oss: only that is an answer.
func finalChannel(text string, done *notes) (string, *Fault) {
	const final = "<|channel|>final"
	text, fault := withoutSpokenThinking(text, done)
	if fault != nil {
		return "", fault
	}
	before, _, found := strings.Cut(text, final)
	harmony := strings.HasPrefix(text, "<|channel|>") || strings.HasPrefix(text, "<|start|>assistant")
	if looksJSON(text) || !harmony && (!found || isOpen(before[strings.LastIndexByte(before, '\n')+1:])) {
		return text, nil
	}
	answer := finalAnswer.FindStringSubmatch(text)
	switch {
	case !found && strings.Contains(text, " to="):
		return "", InvalidPlan.Faultf("the text is a tool call, not a plan")
	case !strings.Contains(text[len(before):], "<|message|>"):
		return "", Truncated.Faultf("the text ends before the final answer begins")
	case answer == nil || strings.Count(text, final) > 1:
		return "", InvalidPlan.Faultf("it is not certain which part of the text is the final answer")
	}
	done.add("reasoning")
	return answer[1], nil
}

var finalAnswer = regexp.MustCompile(`(?s)^(?:.*<\|(?:end|return|call)\|>)?\s*(?:<\|start\|>assistant)?\s*<\|channel\|>final.*?<\|message\|>(.*)$`)

// indexFold finds mark in text, ignoring case. mark must not begin with a letter.
func indexFold(text, mark string) int {
	for from := 0; ; from++ {
		i := strings.IndexByte(text[from:], mark[0])
		if i < 0 {
			return -1
		}
		from += i
		if end := from + len(mark); end <= len(text) && strings.EqualFold(text[from:end], mark) {
			return from
		}
	}
}

// shape says what a value looks like.
type shape int

const (
	otherShape   shape = iota // not part of a plan
	likeShape                 // meant as a plan or as commands if the answer begins with it
	commandShape              // a bare command with its type, or an array of them
	planShape                 // an object with commands
)

// commandKeys are the keys that hold the commands of a plan. The later ones count only if the first
// is absent.
var commandKeys = []string{"commands", "steps", "actions", "plan"}

func shapeOf(value any) shape {
	if list, ok := value.([]any); ok && len(list) > 0 {
		value = list[0]
	}
	object, _ := value.(map[string]any)
	f, fault := fieldsOf(object)
	shape := otherShape
	_, given := f[commandKeys[0]]
	switch {
	case isKind(f["type"]):
		shape = commandShape
	case given, isToolCall(f), f["tool_calls"] != nil, f["type"] == nil && (f["response"] != nil || f["action"] != nil):
		shape = likeShape
	}
	for i, key := range commandKeys {
		list, _ := f[key].([]any)
		inner, _ := f[key].(map[string]any)
		switch {
		case fault != nil, i == 0 && isList(f[key]), len(list) > 0 && isCommand(list[0]), inner[commandKeys[0]] != nil:
			return planShape // a faulty one is refused later
		case isList(f[key]):
			shape = max(shape, likeShape)
		}
	}
	return shape
}

// isList reports whether a value may hold commands.
func isList(value any) bool {
	kind := reflect.ValueOf(value).Kind()
	return kind == reflect.Slice || kind == reflect.Map
}

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

// isToolCall reports whether an object is a function call as models write it.
func isToolCall(f map[string]any) bool {
	return f["name"] != nil && f["action"] == nil && f["response"] == nil && f["entities"] == nil &&
		(f["arguments"] != nil || f["parameters"] != nil) && !isKind(f["type"])
}

// bare reads values that make up the whole answer and are not a plan: commands, or tool calls.
func (a *answer) bare() ([]Command, *Fault) {
	if len(a.found) == 1 {
		return a.commandsOf(a.found[0].value, false)
	}
	items := make([]any, len(a.found))
	for i, f := range a.found {
		items[i] = f.value
	}
	return a.commandsOf(items, false)
}

// commandsOf reads a value that is a plan or stands for one.
func (a *answer) commandsOf(value any, unclosed bool) ([]Command, *Fault) {
	object, isObject := value.(map[string]any)
	items, isArray := value.([]any)
	f, fault := fieldsOf(object)
	switch {
	case value == nil, isObject && len(object) == 0, isArray && len(items) == 0:
		return nil, errNothing
	case isArray && shapeOf(value) == planShape:
		return nil, errWrapped
	case isArray:
		a.done.add("bare_commands")
		return a.commands(items, true)
	case fault != nil:
		return nil, fault
	}
	list := f[commandKeys[0]]
	for _, key := range commandKeys[1:] {
		switch other := f[key]; {
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
			return nil, errCut
		case !isCommand(list):
			return nil, errWrapped
		}
		a.done.add("shape")
		return a.commands([]any{list}, false)
	case string:
		return nil, errWrapped
	case nil:
		if isToolCall(f) {
			return a.commands([]any{object}, true)
		}
		if isKind(f["type"]) || f["type"] == nil && (f["response"] != nil || f["action"] != nil) {
			a.done.add("bare_commands")
			return a.commands([]any{object}, false)
		}
	}
	return nil, InvalidPlan.Faultf(`the answer is JSON without an array "commands", not a plan`)
}

// commands reads commands and drops empty SAYs. Bare ones may also be tool calls.
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
	kind, isText := f["type"].(string)
	switch {
	case fault != nil:
		return Command{}, fault
	case bare && isToolCall(f):
		a.done.add("tool_call")
		f = maps.Clone(f)
		delete(f, "saveas")
		kind = Do
	case f["type"] == nil && f["action"] != nil && f["response"] == nil:
		a.done.add("shape")
		kind = Do
	case f["type"] == nil && f["response"] != nil && f["action"] == nil:
		a.done.add("shape")
		kind = Say
	case !isText:
		return Command{}, InvalidPlan.Faultf("it has no type DO or SAY")
	}
	switch strings.ToUpper(strings.TrimSpace(kind)) {
	case Do:
		return a.do(f)
	case Say:
		return a.say(f)
	}
	return Command{}, InvalidPlan.Faultf("the type %q is not DO or SAY", spelling.Clip(kind))
}

func (a *answer) do(f map[string]any) (Command, *Fault) {
	name, _ := cmp.Or(f["action"], f["name"]).(string)
	c := Command{Kind: Do, Action: strings.TrimSpace(name)}
	if c.Action == "" {
		return c, InvalidPlan.Faultf("the DO names no action")
	}
	var given any
	for _, key := range []string{"entities", "parameters", "arguments"} {
		switch {
		case f[key] == nil:
		case given != nil && !reflect.DeepEqual(given, f[key]):
			return c, InvalidPlan.Faultf("its entities are given twice with different values")
		default:
			given = f[key]
		}
	}
	if reflect.DeepEqual(given, []any{}) {
		a.done.add("shape")
		given = nil
	}
	var isObject bool
	if c.Entities, isObject = given.(map[string]any); !isObject && given != nil {
		return c, InvalidPlan.Faultf("its entities are no object")
	}
	if c.Entities == nil {
		c.Entities = map[string]any{}
	}
	saveAs, isText := f["saveas"].(string)
	c.SaveAs = strings.TrimPrefix(strings.TrimSpace(saveAs), "$")
	if f["saveas"] != nil && !isText || c.SaveAs != "" && !isName(c.SaveAs) {
		return c, InvalidPlan.Faultf("saveAs is no name: use letters, digits and _, and begin with no digit")
	}
	return c, nil
}

// say reads a SAY. Its response may have another name, or be a message with content.
func (a *answer) say(f map[string]any) (Command, *Fault) {
	c := Command{Kind: Say}
	if saveAs := f["saveas"]; saveAs != nil && saveAs != "" {
		return c, InvalidPlan.Faultf("a SAY has no result to save: saveAs belongs to a DO")
	}
	response := cmp.Or(f["response"], f["text"], f["message"], f["content"])
	if f["response"] == nil && response != nil {
		a.done.add("shape")
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

// acted returns a monologue as the plan that it stands for, and any other value as it is.
func (a *answer) acted(value any) any {
	if list, ok := value.([]any); ok && len(list) == 1 {
		return []any{a.acted(list[0])}
	}
	object, ok := value.(map[string]any)
	f, fault := fieldsOf(object)
	_, thinks := f["thoughts"]
	if _, flat := f["thought"]; flat {
		thinks = true
	}
	action, isObject := f["action"].(map[string]any)
	if a.reader.unclosed && !isObject {
		return value // what follows the name of the action may be missing
	}
	if !ok || fault != nil || f["type"] != nil || f[commandKeys[0]] != nil || !thinks && !isObject {
		return value
	}
	if inner, fault := fieldsOf(action); isObject && fault == nil {
		f = inner
	} else if isObject {
		return map[string]any{commandKeys[0]: []any{action}} // which is refused
	}
	name, _ := firstOf(f, "name", "action").(string)
	if name = strings.TrimSpace(name); name == "" {
		a.idle = true
		return value
	}
	if !isObject {
		a.done.add("shape")
	}
	thoughts, err := json.Marshal(object["thoughts"])
	if a.thoughts = string(thoughts); err != nil || object["thoughts"] == nil || len(thoughts) > maxThoughts {
		a.thoughts = "{}"
	}
	command := map[string]any{"type": Do, "action": name}
	for _, key := range []string{"parameters", "entities", "arguments"} {
		if f[key] != nil {
			command[key] = f[key]
		}
	}
	if strings.EqualFold(name, Say) {
		said, _ := firstOf(f, "parameters", "entities", "arguments").(map[string]any)
		if said, _ = fieldsOf(said); said == nil {
			said = f
		}
		command = map[string]any{"type": Say, "response": firstOf(said, "text", "response", "message", "content")}
	}
	return map[string]any{commandKeys[0]: []any{command}}
}

const maxThoughts = 4 << 10 // limits the bytes of the thoughts that go back to the model

// DecodeMonologue is [Decode] for the monologue of Teams AI, in which the model takes one action at a
// time and sees its result before it takes the next:
//
//	{"thoughts":{"thought":"…","reasoning":"…","plan":"- …"},"action":{"name":"createList","parameters":{"list":"a"}}}
//
// The plan has that one command. The action SAY is a SAY of its parameter text. After a DO the model
// waits for the result ([Plan.Observe]), and its thoughts are the Preface. What Decode says of plans
// holds for this form, and a plan in Decode's own form is read as well.
func DecodeMonologue(text string) (Plan, error) { return decode(text, false, true) }

var errNoAction = InvalidPlan.Faultf(`there are thoughts and no action; to answer the person, take the action SAY: {"name":"SAY","parameters":{"text":"…"}}`)

// monologueKey matches what a broken monologue has.
var monologueKey = regexp.MustCompile(`(?i)["'“]?(?:thoughts?|action)["'”]?\s*[:：]`)

// firstOf is the first of the values that is there.
func firstOf(f map[string]any, keys ...string) any {
	for _, key := range keys {
		if f[key] != nil {
			return f[key]
		}
	}
	return nil
}

// MonologueSchema is [Schema] for the answers that [DecodeMonologue] reads. There are no variables.
func MonologueSchema(registry *actions.Registry) (schema, grammar json.RawMessage, strict bool, err error) {
	whole, strict := monologueForm(registry, false)
	held, _ := monologueForm(registry, true)
	schema, err = json.Marshal(whole)
	grammar, err2 := json.Marshal(held)
	return schema, grammar, strict, errors.Join(err, err2)
}

func monologueForm(registry *actions.Registry, grammar bool) (whole *form, strict bool) {
	f := former{grammar: grammar}
	text := ofType("string")
	if grammar {
		text.MinLength = 1
	}
	thoughts := f.closed(
		property{name: "thought", form: ofType("string")}, property{name: "reasoning", form: ofType("string")}, property{name: "plan", form: ofType("string")},
	)
	taken := []*form{f.closed(property{name: "name", form: f.options(Say)}, property{name: "parameters", form: f.closed(property{name: "text", form: text})})}
	for _, b := range f.branches(registry, false) {
		taken = append(taken, f.closed(property{name: "name", form: f.options(b.names...)}, property{name: "parameters", form: choice(b.shapes...)}))
	}
	return f.closed(property{name: "thoughts", form: thoughts}, property{name: "action", form: choice(taken...)}), !f.loose
}

// DecodeObject reads the one JSON object that a model wrote, as tolerantly as [Decode]: in a code fence,
// between words, behind reasoning, with repairs that have only one meaning. Numbers are json.Number.
// Several objects count only if they are equal. The error is a [*Fault] of kind truncated, no_plan (there
// is none) or invalid_plan.
func DecodeObject(text string) (map[string]any, error) { return decodeObject(text, false) }

// decodeObject reads a text; wrapped says that it came from a JSON string.
func decodeObject(text string, wrapped bool) (map[string]any, error) {
	if len(text) > maxBytes {
		return nil, InvalidPlan.Faultf("the answer is longer than %d bytes", maxBytes)
	}
	text, done := clean(text)
	var inner string
	if !wrapped && strings.HasPrefix(text, `"`) && json.Unmarshal([]byte(text), &inner) == nil {
		return decodeObject(inner, true)
	}
	text, fault := finalChannel(text, &done)
	if fault != nil {
		return nil, fault
	}
	a := newAnswer(text, done)
	a.objects = true
	if fault := a.scan(); fault != nil {
		return nil, fault
	}
	var only map[string]any
	for _, f := range a.found {
		value := f.value
		if list, ok := value.([]any); ok && len(list) == 1 {
			value = list[0]
		}
		object, ok := value.(map[string]any)
		switch {
		case !ok:
			return nil, InvalidPlan.Faultf("the answer has JSON that is no object")
		case f.torn:
			return nil, InvalidPlan.Faultf("a comment in the JSON holds half a quote, brace or bracket; write no comments")
		case only != nil && !reflect.DeepEqual(only, object):
			return nil, InvalidPlan.Faultf("there are several JSON objects, and they differ")
		}
		only = object
	}
	if only == nil {
		return nil, NoPlan.Faultf("the answer has no JSON object")
	}
	return only, nil
}
