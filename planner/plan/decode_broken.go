package plan

import (
	"strings"

	"github.com/planbot-go/planbot/internal/spelling"
)

// failed decides what a value means that could not be read. Nothing is looked
// for within what was meant as a plan.
func (s *survey) failed(start, root int) {
	end, inString := extent(s.text, start)
	closed := end >= 0
	if !closed {
		end = len(s.text)
	}
	s.reader.steps += end - start
	meant := s.jsonFirst || s.reader.tape.likePlan(root) || containsFold(s.text[start:end], commandKeys[0])
	if meant && s.guess(start, root) {
		return
	}
	s.reader.tape = s.reader.tape[:root]
	cutOff := s.reader.fault == cut
	switch {
	case meant && (cutOff || !closed && !(inString && endsWithBracket(s.text))):
		s.truncated = "the text ends before the JSON does: " + s.reader.want + " is missing"
	case meant:
		s.invalid = s.broken()
		s.skip(start, end)
	case cutOff && s.standsFirst(start) && quoteAt(s.text, firstKey(s.text, start)).size > 0:
		s.truncated = "the text ends before the JSON does"
	case closed:
		s.skip(start, end)
	default:
		s.pos = start + 1
	}
}

// broken says where the value breaks that was just read.
func (s *survey) broken() string {
	r := &s.reader
	near := r.text[min(r.pos, len(r.text)):]
	if near == "" {
		return "the JSON is broken at its end: expected " + r.want
	}
	return "the JSON is broken near " + strings.TrimSpace(spelling.Clip(near)) + ": expected " + r.want
}

// guess reads the value at start again and guesses where its strings end, which
// is only right for a plan that does nothing.
func (s *survey) guess(start, root int) bool {
	s.reader.steps += len(s.text) - start
	if !endsWithBracket(s.text) || mentionsDo(s.text[start:]) || strings.Contains(s.text[start:], `"""`) {
		return false
	}
	again := s.reader
	again.tape, again.guess, again.done = again.tape[:root:root], true, 0
	if !again.read(start) || again.unclosed || !s.maySay(again.tape, root) {
		s.reader.steps = again.steps
		return false
	}
	again.guess = false
	s.reader = again
	s.keep(start, root)
	return true
}

// maySay reports whether the value at may be a plan, or a bare command.
func (s *survey) maySay(t tape, at int) bool {
	d := drafting{tape: t}
	return t.shape(at) == planShape || s.jsonFirst && t[at].kind == objectNode && d.isBareCommand(at)
}
