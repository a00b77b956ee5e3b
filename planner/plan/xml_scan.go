package plan

import "strings"

const (
	functionTag = "function."
	// maxSteps is how many steps an XML plan may have, and maxPlans how many
	// plans an answer may hold.
	maxSteps, maxPlans = 1000, 100
)

// xmlStep is one step of an XML plan: a function, or a text to say.
type xmlStep struct {
	function   string // behind "function."; "" for a text
	attributes []attribute
	text       string
}

// xmlPlan is a <plan> in an answer, with the fault for which it cannot run.
type xmlPlan struct {
	span
	attributes []attribute
	steps      []xmlStep
	fault      *Fault
	next       int  // which text outside of plans is the first behind it
	top        bool // nothing is open where it begins
	said       bool // it begins in a <say>
}

// isEmpty reports whether there is nothing in the plan that could run.
func (p *xmlPlan) isEmpty() bool { return p.fault == nil && len(p.steps) == 0 }

// xmlScan finds the plans in an answer, in one pass.
type xmlScan struct {
	tagReader
	plans   []xmlPlan
	around  []span // the text outside of plans
	startAt int    // where the text outside of plans goes on

	saying    bool // a <say> outside of plans has no </say> yet
	lineStart int
	openLine  int // a line in which a closing tag of reasoning stands in a quote; -1 for none

	stray     bool // a function stands outside of any plan
	concealed bool // a plan stands in a comment or in character data
}

// scan finds all plans. It fails when the text cannot be the whole of an answer.
func (s *xmlScan) scan() *Fault {
	s.openLine = -1
	for s.pos < len(s.text) {
		switch s.text[s.pos] {
		case '<':
			if err := s.mark(s.text[s.pos:]); err != nil {
				return err
			}
		case '[', 0xE2: // the first byte of ◁
			if err := s.reasoningMark(s.text[s.pos:]); err != nil {
				return err
			}
		case '\n':
			s.pos++
			s.lineStart = s.pos
		default:
			s.pos++
		}
	}
	s.pos = len(s.text)
	s.leave(s.pos)
	s.markTop()
	return nil
}

// markTop notes which of the plans stand at the top level of the text, which the
// goal is no part of. A <say> is a quote here, and a plan that is broken was closed badly.
func (s *xmlScan) markTop() {
	var o opened
	for i := range s.plans {
		before, _ := s.beside(i)
		o.scan(before, 0, len(before))
		p := &s.plans[i]
		p.top = o.none() && !p.said
		o.never = o.never || p.fault != nil
	}
}

// mark looks at what may be a tag outside of plans.
func (s *xmlScan) mark(rest string) *Fault {
	if endTokenAt(rest) > 0 {
		s.done |= strippedEndToken
		s.text = s.text[:s.pos]
		return nil
	}
	if size := hiddenSize(rest); size != 0 {
		return s.hidden(size)
	}
	if hasPrefixFold(rest, "<plan") && strings.EqualFold(tagName(rest), "plan") {
		return s.plan()
	}
	if strings.EqualFold(tagName(rest), "say") {
		s.saying = rest[1] != '/' && !strings.HasSuffix(rest[:tagSize(rest)], "/>")
	}
	s.stray = s.stray || hasPrefixFold(rest, "<"+functionTag)
	return s.reasoningMark(rest)
}

// reasoningMark looks at what may be a tag of reasoning.
func (s *xmlScan) reasoningMark(rest string) *Fault {
	if index, opens, size := tagAt(rest); index >= 0 {
		return s.reasoning(reasoningTags[index].shut, opens, size)
	}
	s.pos++
	return nil
}

// hiddenMarks are what may stand between the steps of a plan and is no part of
// it: a comment, character data, an instruction.
var hiddenMarks = [...][2]string{{"<!--", "-->"}, {"<![CDATA[", "]]>"}, {"<?", "?>"}}

// hiddenSize is the size of such a mark at the start of text, with what it holds.
// 0: there is none; negative: it never ends.
func hiddenSize(text string) int {
	if len(text) < 2 || text[1] != '!' && text[1] != '?' {
		return 0
	}
	for _, mark := range hiddenMarks {
		if inner, ok := strings.CutPrefix(text, mark[0]); ok {
			end := strings.Index(inner, mark[1])
			if end < 0 {
				return -1
			}
			return len(mark[0]) + end + len(mark[1])
		}
	}
	return 0
}

func (s *xmlScan) hidden(size int) *Fault {
	if size < 0 {
		return errXMLTruncated
	}
	part := s.text[s.pos : s.pos+size]
	s.concealed = s.concealed || containsFold(part, "<plan") || containsFold(part, "<"+functionTag)
	s.leave(s.pos)
	s.enter(s.pos + size)
	return nil
}

// reasoning steps over a block of reasoning. A closing tag alone ends one whose
// beginning was part of the prompt.
func (s *xmlScan) reasoning(shut string, opens bool, size int) *Fault {
	start := max(s.lineStart, s.startAt)
	if !opens && (start == s.openLine || leavesOpen(s.text[start:s.pos])) {
		s.openLine = start // it is quoted
		s.pos += size
		return nil
	}
	s.done |= strippedReasoning
	if !opens {
		s.plans, s.around, s.stray, s.concealed, s.saying = nil, nil, false, false, false
		s.enter(s.pos + size)
		return nil
	}
	length := indexFold(s.text[s.pos:], shut)
	if length < 0 {
		return Faultf(Truncated, "the text ends within the reasoning")
	}
	s.leave(s.pos)
	s.enter(s.pos + length + len(shut))
	return nil
}

// leave ends the text outside of plans, and enter goes on with it.
func (s *xmlScan) leave(at int) {
	if s.startAt < at {
		s.around = append(s.around, span{s.startAt, at})
	}
}

func (s *xmlScan) enter(at int) { s.pos, s.startAt = at, at }

// plan reads the plan that begins at pos. A broken one ends with its closing tag:
// nothing within it is looked at again.
func (s *xmlScan) plan() *Fault {
	s.leave(s.pos)
	p := xmlPlan{span: span{start: s.pos}, said: s.saying}
	s.pos += len("<plan")
	attributes, closed, err := s.startTag("plan")
	p.attributes = attributes
	for err == nil && !closed {
		closed, err = s.child(&p)
	}
	if err != nil && err.Kind == Truncated {
		return err
	}
	if err != nil {
		p.fault = err
		size := indexFold(s.text[s.pos:], "</plan")
		if size < 0 {
			return err
		}
		s.pos += size + len("</plan")
		if end := strings.IndexByte(s.text[s.pos:], '>'); end >= 0 {
			s.pos += end + 1
		}
	}
	if p.end = s.pos; len(s.plans) == maxPlans {
		return Faultf(InvalidPlan, "the answer holds more than %d plans", maxPlans)
	}
	p.next = len(s.around)
	s.plans = append(s.plans, p)
	s.enter(s.pos)
	return nil
}
