package plan

import "strings"

// span is a piece of a text.
type span struct{ start, end int }

// shape says what a value in a text looks like.
type shape uint8

const (
	otherShape    shape = iota // no part of a plan
	commandShape               // one bare command
	commandsShape              // an array of bare commands
	planShape                  // an object with commands
)

// found is a complete value in the text that may be the plan.
type found struct {
	span
	shape     shape
	root      int // its node on the tape
	lineStart int // where the line begins in which it begins
	done      repairs
	unclosed  bool // its last } was missing
	torn      bool // a comment in it may be part of a string
	top       bool // nothing is open where it begins
}

// survey is what a text holds: values that may be the plan, and faults that
// decide what may be made of them.
type survey struct {
	text      string // cut at the first end token
	jsonFirst bool   // the text begins as JSON, so it is meant as JSON
	reader    reader
	found     []found
	reasoning []span // blocks of reasoning between other text
	done      repairs

	pos       int
	lineStart int
	inked     bool // something stands before pos on its line
	struck    bool // there was a <s> of HTML
	endless   bool // a comment began and never ended
	thinking  bool // a tag of reasoning was opened in a line, and never closed
	openLine  int  // a line in which a closing tag stands in a quote; -1 for none
	restart   int  // where to begin anew, because all before it was reasoning; -1 for nowhere
	budget    int  // how many steps the reader may take

	truncated string // why the text cannot be the whole of the answer
	invalid   string // why a plan in the text cannot be read
}

// newSurvey is a survey that may read each byte of text a few times.
func newSurvey(text string) *survey {
	return &survey{budget: 8*len(text) + 1<<14}
}

// look surveys a text in one pass: it reads each value that may be a plan where
// it begins, and never looks into one. What the survey knew before is forgotten,
// but for what it has spent of its budget.
func (s *survey) look(text string) {
	*s = survey{
		text: text, openLine: -1, restart: -1, jsonFirst: looksJSON(text), budget: s.budget,
		reader: reader{text: text, tape: s.reader.tape[:0], steps: s.reader.steps},
	}
	if s.jsonFirst {
		s.candidate()
	}
	for s.pos < len(s.text) && s.restart < 0 && s.truncated == "" && !(s.jsonFirst && s.invalid != "") {
		s.step()
	}
}

// step looks at what is at pos and goes on behind it.
func (s *survey) step() {
	rest := s.text[s.pos:]
	switch rest[0] {
	case '\n':
		s.pos++
		s.lineStart, s.inked = s.pos, false
		return
	case ' ', '\t', '\r':
		s.pos++
		return
	case '{':
		s.brace(rest)
	case '<', '[', 0xE2: // the first byte of ◁
		s.mark(rest)
	case '/':
		s.comment("/*", "*/")
	default:
		s.pos++
	}
	s.inked = true
}

// brace looks at a {: it may begin a plan, if a key follows. At the end of the
// text nothing follows.
func (s *survey) brace(rest string) {
	switch {
	case keyFollows(rest[1:]):
		s.candidate()
	case strings.TrimSpace(rest[1:]) == "" && s.standsFirst(s.pos):
		s.truncated = "the text ends where the JSON begins"
	default:
		s.pos++
	}
}

// mark looks at an end token, a tag of reasoning, or an array of objects.
func (s *survey) mark(rest string) {
	if rest[0] == '<' && s.endToken(rest) {
		return
	}
	if strings.HasPrefix(rest, "<!--") {
		s.comment("<!--", "-->")
		return
	}
	if index, opens, size := tagAt(rest); index >= 0 {
		s.tag(index, opens, size)
		return
	}
	if rest[0] == '[' {
		inner := strings.TrimLeftFunc(rest[1:], isBlank)
		if strings.HasPrefix(inner, "{") && keyFollows(inner[1:]) {
			s.candidate()
			return
		}
	}
	s.pos++
}

// endToken cuts the text at an end token. </s> also ends a <s> of HTML.
func (s *survey) endToken(rest string) bool {
	s.struck = s.struck || strings.HasPrefix(rest, "<s>")
	if endTokenAt(rest) == 0 || s.struck && strings.HasPrefix(rest, "</s>") {
		return false
	}
	s.done |= strippedEndToken
	s.text = s.text[:s.pos]
	return true
}

// comment goes on behind a comment in a text. One that never ends takes in all
// that follows; a slash alone is no comment.
func (s *survey) comment(open, shut string) {
	rest, is := strings.CutPrefix(s.text[s.pos:], open)
	if !is || s.endless {
		s.pos++
		return
	}
	if size := strings.Index(rest, shut); size >= 0 {
		s.skip(s.pos, s.pos+len(open)+size+len(shut))
		return
	}
	if strings.HasPrefix(open, "<") {
		s.skip(s.pos, len(s.text))
		return
	}
	s.endless = true
	s.pos += len(open)
}

// tag looks at a tag of reasoning outside of all values.
func (s *survey) tag(index int, opens bool, size int) {
	behind := s.pos + size
	switch {
	case s.jsonFirst || opens && s.thinking:
		s.pos = behind
	case !opens && (s.lineStart == s.openLine || leavesOpen(s.text[s.lineStart:s.pos])): // it is quoted
		s.openLine, s.pos = s.lineStart, behind
	case !opens: // its opening tag was part of the prompt
		s.restart = behind
	default:
		s.block(reasoningTags[index].shut, behind)
	}
}

// block looks at a block of reasoning whose contents begin at start. What stands
// before the answer is dropped, what stands within it is noted, and a tag in the
// middle of a line is only mentioned.
func (s *survey) block(shut string, start int) {
	size := indexFold(s.text[start:], shut)
	end := start + size + len(shut)
	switch {
	case size < 0 && !s.inked:
		s.truncated = "the text ends within the reasoning"
	case size < 0:
		s.thinking = true
		s.pos = start
	case strings.TrimSpace(s.text[:s.pos]) == "":
		s.restart = end
	case s.inked && !strings.Contains(s.text[start:end], "\n"):
		s.pos = end
	default:
		s.reasoning = append(s.reasoning, span{s.pos, end})
		s.pos, s.lineStart = end, end
	}
}

// candidate reads the value that begins at pos.
func (s *survey) candidate() {
	if s.overBudget() {
		return
	}
	if cap(s.reader.tape) == 0 {
		s.reader.tape = make(tape, 0, (len(s.text)-s.pos)/12+8)
	}
	start, root := s.pos, len(s.reader.tape)
	s.reader.done = 0
	if s.reader.read(start) {
		s.keep(start, root)
		return
	}
	s.failed(start, root)
}

// maxFound is how many values that may be a plan are looked at.
const maxFound = 10_000

// overBudget gives up on a text that has to be read again and again.
func (s *survey) overBudget() bool {
	if s.reader.steps <= s.budget && len(s.found) < maxFound {
		return false
	}
	s.invalid = "the text holds too many pieces of JSON"
	s.pos = len(s.text)
	return true
}

// keep notes the value that was just read, if it may be a plan, and goes on
// behind it.
func (s *survey) keep(start, root int) {
	r := &s.reader
	f := found{span: span{start, r.pos}, root: root, lineStart: s.lineStart, done: r.done, unclosed: r.unclosed, torn: r.torn}
	f.shape = r.tape.shape(root)
	first := s.standsFirst(start)
	s.skip(start, r.pos)
	switch {
	case s.thinking && f.shape == planShape:
		s.truncated = "the text ends within the reasoning"
	case f.unclosed && f.shape != planShape:
		if s.jsonFirst || first {
			s.truncated = "the text ends before the JSON does"
		}
	case f.shape != otherShape || s.jsonFirst:
		s.found = append(s.found, f)
	default:
		r.tape = r.tape[:root]
	}
}

// skip goes on at end, behind a value that begins at start.
func (s *survey) skip(start, end int) {
	s.pos = end
	if i := strings.LastIndexByte(s.text[start:end], '\n'); i >= 0 {
		s.lineStart = start + i + 1
	}
}

// standsFirst reports whether nothing but a label stands before start on its
// line.
func (s *survey) standsFirst(start int) bool {
	return labelBefore(s.text[s.lineStart:start]) != noLabel
}

// firstKey returns where the first key of the value at start begins.
func firstKey(text string, start int) int {
	rest := strings.TrimLeftFunc(text[start:], func(c rune) bool { return c == '{' || c == '[' || isBlank(c) })
	return len(text) - len(rest)
}
