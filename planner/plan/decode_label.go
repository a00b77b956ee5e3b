package plan

import (
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"
)

// label says what stands before a value on its line.
type label uint8

const (
	noLabel    label = iota // prose: the value is in the middle of a sentence
	atStart                 // nothing, or a mark of Markdown
	knownLabel              // the name of what follows: "Plan:", "const plan ="
	someLabel               // a few words and a colon
)

// labels are the names that a model gives to its plan, in lower case.
var labels = map[string]bool{
	"plan": true, "the plan": true, "json": true, "output": true, "answer": true, "final answer": true,
	"response": true, "result": true, "final plan": true, "final": true, "assistant": true, "action plan": true,
}

// tags are the tags that a model puts around its answer.
var answerTags = map[string]bool{
	"answer": true, "output": true, "response": true, "result": true, "json": true, "final": true,
	"final_answer": true, "plan": true, "pre": true, "code": true,
}

// longestLabel is how long a label may be.
const longestLabel = 60

// labelBefore classifies what stands before a value on its line.
func labelBefore(line string) label {
	line = strings.TrimFunc(line, isBlank)
	if line == "" {
		return atStart
	}
	if len(line) > longestLabel || isQuoted(line) {
		return noLabel
	}
	if _, ok := fence(line); ok {
		return atStart
	}
	bare := strings.Trim(line, "`*_~#-+•. \t0123456789)")
	switch {
	case bare == "":
		return atStart
	case isAnswerTag(bare), isNamed(bare), isAssignment(bare):
		return knownLabel
	case strings.HasSuffix(bare, ":"):
		return someLabel
	}
	return noLabel
}

// isBlank reports whether c is white space of any kind, or has no width.
func isBlank(c rune) bool {
	if c < utf8.RuneSelf {
		return c == ' ' || '\t' <= c && c <= '\r'
	}
	return unicode.IsSpace(c) || isInvisible(c)
}

// isNamed reports whether line is the name of a plan and a colon.
func isNamed(line string) bool {
	name, ok := strings.CutSuffix(strings.Trim(line, "*_ "), ":")
	return ok && labels[strings.ToLower(strings.Trim(name, "*_ "))]
}

// isAssignment reports whether line assigns what follows to a variable.
func isAssignment(line string) bool {
	name, ok := strings.CutSuffix(line, "=")
	if !ok {
		return false
	}
	name = strings.TrimSpace(name)
	for _, keyword := range [...]string{"const ", "let ", "var "} {
		name = strings.TrimPrefix(name, keyword)
	}
	return name != "" && isWordStart(name[0]) && strings.TrimLeftFunc(name, func(c rune) bool {
		return c < 0x80 && isWordByte(byte(c))
	}) == ""
}

// isAnswerTag reports whether line is one tag around an answer.
func isAnswerTag(line string) bool {
	name, ok := strings.CutPrefix(line, "<")
	if !ok {
		return false
	}
	name, ok = strings.CutSuffix(strings.TrimPrefix(name, "/"), ">")
	return ok && answerTags[strings.ToLower(name)]
}

// fence returns the language of the code fence that line is; lines that only
// begin like one are none.
func fence(line string) (language string, ok bool) {
	rest := strings.TrimLeft(line, "`")
	if len(line)-len(rest) < 3 {
		if rest = strings.TrimLeft(line, "~"); len(line)-len(rest) < 3 {
			return "", false
		}
	}
	language = strings.TrimSpace(rest)
	return language, !strings.ContainsAny(language, "`{[(<:.!?") && strings.Count(language, " ") <= 2
}

// wrapping says what a stretch of text around a value is made of.
type wrapping struct {
	prose, fence, label, brace bool
}

// repairs returns what was stripped with the wrapping.
func (w wrapping) repairs() repairs {
	var done repairs
	for _, part := range [...]struct {
		there bool
		bit   repairs
	}{{w.prose, strippedProse}, {w.fence, strippedFence}, {w.label, strippedLabel}, {w.brace, droppedBrace}} {
		if part.there {
			done |= part.bit
		}
	}
	return done
}

// unwrap classifies the text around a value; before says that a value follows.
func unwrap(text string, before bool) wrapping {
	var w wrapping
	for line := range strings.Lines(text) {
		w.line(strings.TrimFunc(line, isBlank), before)
		if w.prose {
			break
		}
	}
	return w
}

func (w *wrapping) line(line string, before bool) {
	if line == "" {
		return
	}
	if _, ok := fence(line); ok {
		w.fence = true
		return
	}
	if !before {
		if rest := strings.TrimLeft(line, "}] \t"); rest != line {
			w.brace = true
			line = rest
		}
		if line = strings.TrimSpace(strings.TrimLeft(line, ";")); line == "" {
			return
		}
		if _, ok := fence(line); ok {
			w.fence = true
			return
		}
	}
	if strings.Trim(line, "`*_") == "" || isAnswerTag(line) || before && labelBefore(line) == knownLabel {
		w.label = true
		return
	}
	w.prose = true
}

// stands reports whether the value f may be a plan by its place: on lines of its
// own, or at the start or the end of the text. In the middle of a sentence, or in
// a block quote, it is something that the text talks about.
func (s *survey) stands(f found) bool {
	behind := s.text[f.end:]
	return !goesOn(behind) && standsBetween(s.text[f.lineStart:f.start], behind)
}

// standsBetween reports whether a plan stands on its own between what is before
// it on its line and the text behind it.
func standsBetween(before, behind string) bool {
	switch labelBefore(before) {
	case atStart, knownLabel:
		return true
	case someLabel:
		if !unwrap(firstLine(behind), false).prose {
			return true
		}
	}
	return !isQuoted(before) && !unwrap(behind, false).prose
}

// beside returns the text between the value f and what was found before and
// behind it.
func (s *survey) beside(f found) (before, behind string) {
	start, end := 0, len(s.text)
	at := sort.Search(len(s.found), func(i int) bool { return s.found[i].start >= f.start })
	if at > 0 {
		start = s.found[at-1].end
	}
	if at+1 < len(s.found) {
		end = s.found[at+1].start
	}
	at = sort.Search(len(s.reasoning), func(i int) bool { return s.reasoning[i].start >= f.start })
	if at > 0 {
		start = max(start, s.reasoning[at-1].end)
	}
	if at < len(s.reasoning) {
		end = min(end, s.reasoning[at].start)
	}
	return s.text[min(start, f.start):f.start], s.text[f.end:max(end, f.end)]
}

// goesOn reports whether the text behind a value shows that its JSON goes on: the
// value is then a part of something broken.
func goesOn(behind string) bool {
	next := strings.TrimLeft(behind, "}] \t\r\n;")
	if next == "" {
		return false
	}
	sameLine := !strings.Contains(behind[:len(behind)-len(next)], "\n")
	switch next[0] {
	case ',', ':':
		return true
	case '"', '\'', '[':
		return sameLine
	case '{':
		return sameLine && !keyFollows(next[1:])
	}
	return false
}

// isQuoted reports whether a line begins as a block quote or as a comment.
func isQuoted(line string) bool {
	line = strings.TrimLeft(line, " \t*-+0123456789.)")
	return hasAnyPrefix(line, ">", "//", "/*") || strings.HasPrefix(line, "#") && strings.Trim(line, "# \t") == ""
}
