package plan

import (
	"slices"
	"strings"
	"unicode"
)

// beside returns the text between plan i and the plans before and behind it,
// without comments, reasoning and the goal.
func (s *xmlScan) beside(i int) (before, behind string) {
	first, last := 0, len(s.around)
	if i > 0 {
		first = s.plans[i-1].next
	}
	if i+1 < len(s.plans) {
		last = s.plans[i+1].next
	}
	next := s.plans[i].next
	return s.join(s.around[first:next]), s.join(s.around[next:last])
}

func (s *xmlScan) join(parts []span) string {
	var out strings.Builder
	for _, part := range parts {
		out.WriteString(s.text[part.start:part.end])
	}
	return withoutGoal(out.String())
}

// apart finds what keeps plan i from running by its place: it is inside of
// something, in a block quote or in the middle of a sentence, or the text beside it denies it.
// Tags do not matter, but for those that say whose plan it is.
func (s *xmlScan) apart(i int) *Fault {
	if !s.plans[i].top {
		return errInside
	}
	before, behind := s.beside(i)
	if isDenied(before, behind) {
		return errDenied
	}
	before, behind = withoutTags(before), withoutTags(behind)
	if !standsBetween(lastLine(before), behind) {
		return Faultf(InvalidPlan, "the plan stands in the middle of a sentence or a quotation")
	}
	return nil
}

// prose reports whether anything but the marks of a plan stands around the plans:
// words, or tags that are none of its format.
func (s *xmlScan) prose() bool {
	return slices.ContainsFunc(s.around, func(part span) bool {
		text := withoutGoal(s.text[part.start:part.end])
		return hasOtherTags(text) || hasWords(withoutTags(text))
	})
}

// hasWords reports whether text says anything, beside the marks of fences.
func hasWords(text string) bool {
	for line := range strings.Lines(text) {
		_, isFence := fence(strings.TrimFunc(line, isBlank))
		if !isFence && strings.ContainsFunc(line, func(c rune) bool { return unicode.IsLetter(c) || unicode.IsDigit(c) }) {
			return true
		}
	}
	return false
}

// isFormatTag reports whether a tag of that name may stand around a plan without
// saying anything of its own.
func isFormatTag(name string) bool {
	name = strings.ToLower(name)
	return name == "xml" || name == "goal" || answerTags[name]
}

func hasOtherTags(text string) bool {
	other := false
	eachTag(text, func(_, tag string) { other = other || !isFormatTag(tagName(tag)) })
	return other
}

// withoutTags returns text without its tags, whatever their names.
func withoutTags(text string) string {
	var out strings.Builder
	end := eachTag(text, func(before, _ string) { out.WriteString(before) })
	return out.String() + end
}

// eachTag calls each with every tag, and with the text before it since the last.
// It returns the text behind them all.
func eachTag(text string, each func(before, tag string)) string {
	from := 0
	for i := 0; i < len(text); i++ {
		if text[i] != '<' {
			continue
		}
		if size := tagSize(text[i:]); size > 0 {
			each(text[from:i], text[i:i+size])
			i += size - 1
			from = i + 1
		}
	}
	return text[from:]
}

// withoutGoal returns text without the goal, which may be repeated before a plan.
func withoutGoal(text string) string {
	const open, shut = "<goal>", "</goal>"
	var out strings.Builder
	for {
		start := indexFold(text, open)
		if start < 0 {
			return out.String() + text
		}
		size := indexFold(text[start:], shut)
		if size < 0 {
			return out.String() + text
		}
		out.WriteString(text[:start])
		text = text[start+size+len(shut):]
	}
}

// tagSize is the size of the tag that text begins with, whatever its name; 0 for
// none.
func tagSize(text string) int {
	name := strings.TrimPrefix(text[1:], "/")
	if name == "" || name[0]|0x20 < 'a' || name[0]|0x20 > 'z' {
		return 0
	}
	end := strings.IndexAny(name, "<>")
	if end < 0 || name[end] == '<' {
		return 0
	}
	return len(text) - len(name) + end + 1
}
