package planner

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
)

const (
	functionTag = "function."
	// maxSteps is how many steps an XML plan may have, and maxPlans how many
	// plans an answer may hold.
	maxSteps, maxPlans = 1000, 100
	// maxLine is how much of a line beside a plan is looked at.
	maxLine = 2000
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
	steps []xmlStep
	fault *DecodeError
}

// isEmpty reports whether there is nothing in the plan that could run.
func (p *xmlPlan) isEmpty() bool { return p.fault == nil && len(p.steps) == 0 }

// xmlScan finds the plans in an answer, in one pass.
type xmlScan struct {
	tagReader
	plans   []xmlPlan
	around  []span // the text outside of plans
	stray   bool   // a function stands outside of any plan
	startAt int    // where the text outside of plans goes on
}

// scan finds all plans. It fails when the text cannot be the whole of an answer.
func (s *xmlScan) scan() *DecodeError {
	for s.pos < len(s.text) {
		size := strings.IndexAny(s.text[s.pos:], "<[◁")
		if size < 0 {
			break
		}
		s.pos += size
		if err := s.mark(s.text[s.pos:]); err != nil {
			return err
		}
	}
	s.pos = len(s.text)
	s.leave(s.pos)
	return nil
}

// mark looks at what may be a tag outside of plans.
func (s *xmlScan) mark(rest string) *DecodeError {
	if rest[0] == '<' && endTokenAt(rest) > 0 {
		s.done |= strippedEndToken
		s.text = s.text[:s.pos]
		return nil
	}
	if size := hiddenSize(rest); size != 0 {
		return s.hidden(size)
	}
	if index, opens, size := tagAt(rest); index >= 0 {
		return s.reasoning(reasoningTags[index].shut, opens, size)
	}
	if rest[0] == '<' && strings.EqualFold(tagName(rest), "plan") && rest[1] != '/' {
		return s.plan()
	}
	s.stray = s.stray || hasPrefixFold(rest, "<"+functionTag)
	s.pos++
	return nil
}

// hiddenSize is the size of what text begins with that is no part of a plan: a
// comment, character data, an instruction. 0: none; negative: it never ends.
func hiddenSize(text string) int {
	for _, mark := range [...][2]string{{"<!--", "-->"}, {"<![CDATA[", "]]>"}, {"<?", "?>"}} {
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

func (s *xmlScan) hidden(size int) *DecodeError {
	if size < 0 {
		return errXMLTruncated
	}
	s.leave(s.pos)
	s.enter(s.pos + size)
	return nil
}

// reasoning steps over a block of reasoning. A closing tag alone ends one whose
// beginning was part of the prompt.
func (s *xmlScan) reasoning(shut string, opens bool, size int) *DecodeError {
	s.done |= strippedReasoning
	if !opens {
		s.plans, s.around, s.stray = nil, nil, false
		s.enter(s.pos + size)
		return nil
	}
	length := indexFold(s.text[s.pos:], shut)
	if length < 0 {
		return fail(Truncated, "the text ends within the reasoning")
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
func (s *xmlScan) plan() *DecodeError {
	s.leave(s.pos)
	p := xmlPlan{span: span{start: s.pos}}
	s.pos += len("<plan")
	_, closed, err := s.startTag("plan")
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
		return fail(InvalidPlan, "the answer holds more than %d plans", maxPlans)
	}
	s.plans = append(s.plans, p)
	s.enter(s.pos)
	return nil
}

// child reads up to the end of the next child of a plan, or of the plan.
func (s *xmlScan) child(p *xmlPlan) (last bool, err *DecodeError) {
	size := strings.IndexByte(s.text[s.pos:], '<')
	if size < 0 {
		return false, errXMLTruncated
	}
	s.pos += size
	rest := s.text[s.pos:]
	if size := hiddenSize(rest); size < 0 {
		return false, errXMLTruncated
	} else if size > 0 {
		s.pos += size
		return false, nil
	}
	name := tagName(rest)
	switch {
	case name == "":
		s.pos++ // a < in a text
		return false, nil
	case strings.HasPrefix(rest, "</"):
		return s.closing(name)
	}
	start := s.pos
	s.pos += len("<") + len(name)
	switch {
	case strings.EqualFold(name, "plan") && len(p.steps) == 0: // the one before was only spoken of
		s.around = append(s.around, span{p.start, start})
		p.start = start
		_, last, err = s.startTag(name)
		return last, err
	case strings.EqualFold(name, "plan"):
		return false, fail(InvalidPlan, "a <plan> stands within the <plan>")
	case len(p.steps) == maxSteps:
		return false, fail(InvalidPlan, "the plan has more than %d steps", maxSteps)
	case hasPrefixFold(name, functionTag):
		return false, s.function(p, name)
	case strings.EqualFold(name, "say"):
		return false, s.spoken(p)
	default:
		return false, s.other(name)
	}
}

// closing reads a closing tag among the children of a plan: only the plan's own
// can stand there.
func (s *xmlScan) closing(name string) (last bool, err *DecodeError) {
	if s.pos+len("</")+len(name) == len(s.text) {
		return false, errXMLTruncated
	}
	if !strings.EqualFold(name, "plan") {
		return false, fail(InvalidPlan, "</%s> closes nothing", clip(name))
	}
	return true, s.shut(name)
}

// shut reads the closing tag at pos.
func (s *xmlScan) shut(name string) *DecodeError {
	s.pos += len("</") + len(name)
	s.space()
	if s.pos == len(s.text) {
		return errXMLTruncated
	}
	if s.text[s.pos] != '>' {
		return fail(InvalidPlan, "</%s> is no closing tag", clip(name))
	}
	s.pos++
	return nil
}

// function reads a function's tag. Text in it has no meaning, as in Semantic
// Kernel; but a tag in it would be a function or an input that is left out.
func (s *xmlScan) function(p *xmlPlan, name string) *DecodeError {
	attributes, closed, err := s.startTag(name)
	if err != nil {
		return err
	}
	p.steps = append(p.steps, xmlStep{function: name[len(functionTag):], attributes: attributes})
	if closed {
		return nil
	}
	return s.contents(name, func(inner string) *DecodeError {
		return fail(InvalidPlan, "<%s> stands within <%s>, whose inputs have to be attributes", clip(inner), clip(name))
	})
}

// spoken reads a <say>, with its text in it or in its attribute text.
func (s *xmlScan) spoken(p *xmlPlan) *DecodeError {
	attributes, closed, err := s.startTag("say")
	if err != nil {
		return err
	}
	step := xmlStep{}
	for _, a := range attributes {
		if !strings.EqualFold(a.name, "text") {
			return fail(InvalidPlan, "<say> has an attribute %s; its text stands between <say> and </say>", clip(a.name))
		}
		step.text = a.value
	}
	if !closed {
		size := indexFold(s.text[s.pos:], "</say")
		if size < 0 {
			return errXMLTruncated
		}
		inner := s.text[s.pos : s.pos+size]
		if containsFold(inner, "<"+functionTag) || containsFold(inner, "</plan") || containsFold(inner, "<say") {
			return fail(InvalidPlan, "<say> is not closed")
		}
		step.text += s.sayText(inner)
		s.pos += size
		if err := s.shut("say"); err != nil {
			return err
		}
	}
	if step.text = strings.TrimSpace(step.text); step.text == "" {
		s.done |= droppedSay
		return nil
	}
	p.steps = append(p.steps, step)
	return nil
}

// sayText is the text of a <say>, which may stand in character data.
func (s *xmlScan) sayText(inner string) string {
	if raw, ok := strings.CutPrefix(strings.TrimSpace(inner), "<![CDATA["); ok {
		if raw, ok = strings.CutSuffix(raw, "]]>"); ok && !strings.Contains(raw, "]]>") {
			return raw
		}
	}
	return s.plain(inner)
}

// other steps over an element that means nothing here, as Semantic Kernel does.
// It is no plan when that would leave out a function, or is one in other words.
func (s *xmlScan) other(name string) *DecodeError {
	if planTags[strings.ToLower(name)] {
		return fail(InvalidPlan, "<%s> is no step; write <function.NAME …/>", clip(name))
	}
	_, closed, err := s.startTag(name)
	if err != nil || closed {
		return err
	}
	return s.contents(name, func(inner string) *DecodeError {
		if hasPrefixFold(inner, functionTag) || planTags[strings.ToLower(inner)] {
			return fail(InvalidPlan, "<%s> stands within <%s>; a plan is a list of functions, all of which run", clip(inner), clip(name))
		}
		return nil
	})
}

// contents reads up to the closing tag of the element name. It returns what
// inside says of the first tag in it that is a fault.
func (s *xmlScan) contents(name string, inside func(tag string) *DecodeError) *DecodeError {
	for {
		size := strings.IndexByte(s.text[s.pos:], '<')
		if size < 0 {
			return errXMLTruncated
		}
		s.pos += size
		rest := s.text[s.pos:]
		hidden, tag := hiddenSize(rest), tagName(rest)
		closes := strings.HasPrefix(rest, "</")
		switch {
		case hidden < 0:
			return errXMLTruncated
		case hidden > 0:
			s.pos += hidden
			continue
		case closes && strings.EqualFold(tag, name):
			return s.shut(tag)
		case strings.EqualFold(tag, "plan"):
			return fail(InvalidPlan, "<%s> is not closed", clip(name))
		case tag != "" && !closes:
			if err := inside(tag); err != nil {
				return err
			}
		}
		s.pos++
	}
}

// stands reports whether a plan stands on its own: not in quotes, not in a block
// quote, and not in the middle of a sentence.
func (s *xmlScan) stands(p xmlPlan) bool {
	before, behind := s.text[:p.start], s.text[p.end:]
	before, behind = before[max(0, len(before)-maxLine):], behind[:min(len(behind), maxLine)]
	line := before[strings.LastIndexByte(before, '\n')+1:]
	rest := firstLine(behind)
	if strings.HasPrefix(strings.TrimSpace(line), ">") {
		return false
	}
	if line != "" && rest != "" && !strings.HasSuffix(line, "```") && line[len(line)-1] == rest[0] && strings.IndexByte("\"'`", rest[0]) >= 0 {
		return false
	}
	return !hasWords(line) || !hasWords(rest)
}

// prose reports whether anything but the marks of a plan stands around the plans.
func (s *xmlScan) prose() bool {
	return slices.ContainsFunc(s.around, func(part span) bool { return hasWords(s.text[part.start:part.end]) })
}

// unspoken is what may stand around a plan and is no prose: the goal, tags, and
// the marks of a fence.
var unspoken = regexp.MustCompile("(?is)<goal>.*?</goal>|</?[a-z][^<>]*>|```+[a-z]*")

func hasWords(text string) bool {
	return strings.ContainsFunc(unspoken.ReplaceAllString(text, " "), func(c rune) bool { return unicode.IsLetter(c) || unicode.IsDigit(c) })
}
