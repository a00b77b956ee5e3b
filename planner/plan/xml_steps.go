package plan

import (
	"strings"

	"github.com/planbot-go/planbot/internal/spelling"
)

// child reads up to the end of the next child of a plan, or of the plan.
func (s *xmlScan) child(p *xmlPlan) (last bool, err *Fault) {
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
		p.attributes, last, err = s.startTag(name)
		return last, err
	case strings.EqualFold(name, "plan"):
		return false, Faultf(InvalidPlan, "a <plan> stands within the <plan>")
	case len(p.steps) == maxSteps:
		return false, Faultf(InvalidPlan, "the plan has more than %d steps", maxSteps)
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
func (s *xmlScan) closing(name string) (last bool, err *Fault) {
	if s.pos+len("</")+len(name) == len(s.text) {
		return false, errXMLTruncated
	}
	if !strings.EqualFold(name, "plan") {
		return false, Faultf(InvalidPlan, "</%s> closes nothing", spelling.Clip(name))
	}
	return true, s.shut(name)
}

// shut reads the closing tag at pos.
func (s *xmlScan) shut(name string) *Fault {
	s.pos += len("</") + len(name)
	s.space()
	if s.pos == len(s.text) {
		return errXMLTruncated
	}
	if s.text[s.pos] != '>' {
		return Faultf(InvalidPlan, "</%s> is no closing tag", spelling.Clip(name))
	}
	s.pos++
	return nil
}

// function reads a function's tag. Text in it has no meaning, as in Semantic
// Kernel; but a tag in it would be a function or an input that is left out.
func (s *xmlScan) function(p *xmlPlan, name string) *Fault {
	attributes, closed, err := s.startTag(name)
	if err != nil {
		return err
	}
	p.steps = append(p.steps, xmlStep{function: name[len(functionTag):], attributes: attributes})
	if closed {
		return nil
	}
	return s.contents(name, func(inner string) *Fault {
		return Faultf(InvalidPlan, "<%s> stands within <%s>, whose inputs have to be attributes", spelling.Clip(inner), spelling.Clip(name))
	})
}

// spoken reads a <say>, with its text in it or in its attribute text.
func (s *xmlScan) spoken(p *xmlPlan) *Fault {
	attributes, closed, err := s.startTag("say")
	if err != nil {
		return err
	}
	step := xmlStep{}
	for _, a := range attributes {
		if !strings.EqualFold(a.name, "text") {
			return Faultf(InvalidPlan, "<say> has an attribute %s; its text stands between <say> and </say>", spelling.Clip(a.name))
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
			return Faultf(InvalidPlan, "<say> is not closed")
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
func (s *xmlScan) other(name string) *Fault {
	if planTags[strings.ToLower(name)] {
		return Faultf(InvalidPlan, "<%s> is no step; write <function.NAME …/>", spelling.Clip(name))
	}
	_, closed, err := s.startTag(name)
	if err != nil || closed {
		return err
	}
	return s.contents(name, func(inner string) *Fault {
		if hasPrefixFold(inner, functionTag) || planTags[strings.ToLower(inner)] {
			return Faultf(InvalidPlan, "<%s> stands within <%s>; a plan is a list of functions, all of which run", spelling.Clip(inner), spelling.Clip(name))
		}
		return nil
	})
}

// contents reads up to the closing tag of the element name. It returns what
// inside says of the first tag in it that is a fault.
func (s *xmlScan) contents(name string, inside func(tag string) *Fault) *Fault {
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
			return Faultf(InvalidPlan, "<%s> is not closed", spelling.Clip(name))
		case tag != "" && !closes:
			if err := inside(tag); err != nil {
				return err
			}
		}
		s.pos++
	}
}
