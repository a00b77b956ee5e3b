package markdown

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/planbot-go/planbot/internal/lazy"
	"github.com/planbot-go/planbot/internal/spelling"
)

// room is kept free for what a part ends with because it is cut: at most a mark of a code block, or some of bold
// words.
const room = 64

// Split cuts a text into parts of at most that many UTF-16 code units each, also after [Lines]. It cuts between
// paragraphs, items or lines if it can, else between sentences or words, and not within a link. A code block, or bold words, that
// are cut end in their part and begin again in the next one. A text that fits stays as it is.
//
// The first part has at least what [Head] returns.
func Split(text string, units int) []string {
	var parts []string
	for prefix(text, units) < len(text) {
		at := cutAt(text, Head(text, units), prefix(text, units-room))
		parts = append(parts, at.end(text[:at.index]))
		text = at.resume(text[at.index:])
	}
	if strings.TrimSpace(text) != "" || len(parts) == 0 {
		parts = append(parts, text)
	}
	return parts
}

// Head is how many bytes of a text are in the first part of [Split] in any case, however the text goes on.
func Head(text string, units int) int { return prefix(text, units/4*3) }

// Rest returns the rest of a text of which the beginning was sent, and cannot be changed any more: a code block
// begins again.
func Rest(sent, rest string) string {
	if strings.HasPrefix(rest, "`") { // half a fence is none, and what was code behind it would be markup
		whole := strings.TrimRight(sent, "`")
		sent, rest = whole, sent[len(whole):]+rest
	}
	var b blocks
	for line := range strings.SplitSeq(sent, "\n") {
		b.next(line)
	}
	if b.mark == "" {
		return strings.TrimLeft(rest, " \n")
	}
	return b.inCode(anywhere, 0).resume(strings.TrimPrefix(rest, "\n"))
}

// prefix returns how many bytes of a text fit into that many code units. A line break counts as three, since
// [Lines] adds two.
func prefix(text string, units int) int {
	for i, c := range text {
		if c == '\n' {
			units -= 2
		}
		if units -= max(utf16.RuneLen(c), 1); units < 0 {
			return i
		}
	}
	return len(text)
}

// rank says how good it is to cut at a border. Less is better.
type rank int

const (
	betweenBlocks rank = iota
	betweenItems
	betweenLines
	betweenLinesOfCode
	betweenSentences
	betweenWords
	withinBold
	anywhere
)

// border is where a text may be cut.
type border struct {
	rank    rank
	index   int
	closing string // what ends the part
	opening string // what begins the next one
	mark    string // of the code block that is cut
	indent  int    // of the next part's first lines
}

func (at border) end(part string) string {
	switch {
	case at.closing == "":
		return part
	case at.mark == "":
		return strings.TrimRightFunc(part, unicode.IsSpace) + at.closing
	case !strings.HasSuffix(part, "\n"):
		part += "\n"
	}
	return part + at.closing
}

// resume returns the text behind the border, as the next part has it.
func (at border) resume(text string) string {
	if at.mark != "" { // a block that ends here does not begin again
		b := blocks{mark: at.mark}
		line, after, _ := strings.Cut(text, "\n")
		if b.next(line) == closes {
			return after
		}
	}
	var out strings.Builder
	out.WriteString(at.opening)
	for at.indent > 0 && text != "" {
		line, after, _ := strings.Cut(text, "\n")
		if strings.TrimSpace(line) != "" && indentOf(line) < at.indent {
			break
		}
		n := 0
		for n < len(line) && n < at.indent && line[n] == ' ' {
			n++
		}
		out.WriteString(text[n : len(text)-len(after)])
		text = after
	}
	return out.String() + text
}

const (
	lookAhead = 8 << 10 // how many bytes behind the limit are read, for what begins before it
	// maxParagraph is how many more are read of a paragraph in which bold words or the like have not ended by then.
	maxParagraph = 128 << 10
)

// cutAt returns the best border between two indexes of a text.
func cutAt(text string, least, limit int) border {
	text, rest := text[:min(len(text), limit+lookAhead)], text[min(len(text), limit+lookAhead):]
	rest, _, _ = strings.Cut(rest[:min(len(rest), maxParagraph)], "\n\n")
	best := border{rank: anywhere + 1}
	better := func(b border) {
		if b.rank <= best.rank && b.index >= max(least, 1) && b.index <= limit {
			best = b
		}
	}
	var b blocks
	begin, start := 0, 0 // of the paragraph, and of the line
	var before string
	for start < len(text) {
		line, _, _ := strings.Cut(text[start:], "\n")
		was := b
		was.lists = slices.Clone(b.lists)
		is := b.next(line)
		if is != prose || was.last >= opens || isHeading(line) || isHeading(before) {
			if start >= least && was.last != opens {
				paragraph(text[:start], "", begin, least, limit, was, better)
			}
			begin = start
			if start > limit {
				break
			}
		}
		if start >= least && start > 0 && is != blank {
			better(lineBorder(start, was, b, isHeading(line)))
		}
		before = line
		start = min(start+len(line)+1, len(text))
	}
	if begin <= limit && b.last != opens {
		paragraph(text[:start], rest, begin, least, limit, b, better)
	}
	if best.rank > anywhere {
		return hardBorder(text, rest, least, limit)
	}
	return best
}

func isHeading(line string) bool { return strings.HasPrefix(strings.TrimLeft(line, " "), "#") }

// lineBorder is the border between two lines, with what was read before the second one, and with it.
func lineBorder(at int, was, is blocks, heading bool) border {
	b := border{rank: betweenLines, index: at}
	switch {
	case was.mark != "" && is.last != prose:
		return was.inCode(betweenLinesOfCode, at)
	case is.last == item && len(is.lists) == 1:
		b.rank = betweenItems
	case len(is.lists) > 0: // the rest would be code, if it stayed indented
		b.indent = is.lists[len(is.lists)-1].indent
		if is.last != item {
			b.indent += 2
		}
	case was.last == blank:
		b.rank = betweenBlocks
	case is.last == opens, was.last == closes, heading:
		b.rank = betweenItems
	case was.last == prose && is.last == prose, was.last == item && is.last == prose:
		b.rank = anywhere + 1 // paragraph knows better
	}
	return b
}

// inCode is a border in the code block that is open.
func (b *blocks) inCode(r rank, at int) border {
	indent, closing := indentOf(b.prefix), b.prefix+b.mark
	if strings.Contains(b.prefix, ">") {
		indent = 0
	}
	return border{rank: r, index: at, closing: closing, opening: b.opening + "\n", mark: b.mark, indent: indent}
}

// blockForm is what would begin a block, but not in the middle of a paragraph.
var blockForm = lazy.Regexp("^(?:[-+*] |#{1,6} |[>|]|[=-]+(?:\\s|$)|~~~|```|\\d{1,9}[.)] )")

// paragraph finds borders in the lines from begin to the end of the text, behind which rest is in the same
// paragraph. They are code if b says so.
func paragraph(text, rest string, begin, least, limit int, b blocks, better func(border)) {
	var all, open []span
	if b.mark == "" {
		all = spansBefore(text[begin:], rest)
	}
	for i := begin + 1; i < min(len(text), limit+1); i++ {
		for len(all) > 0 && all[0].from+begin < i {
			open = append(open, all[0])
			all = all[1:]
		}
		isLine := text[i-1] == '\n' && text[i] != '\n'
		isWord := text[i-1] == ' ' && text[i] != ' ' && text[i] != '\n'
		if i < least || !isLine && !isWord || blockForm().MatchString(text[i:min(len(text), i+12)]) && b.mark == "" {
			continue
		}
		if b.mark != "" {
			better(b.inCode(withinBold, i))
			continue
		}
		open = slices.DeleteFunc(open, func(s span) bool { return s.to-len(s.mark)+begin <= i })
		at := borderIn(open, i, isLine, text[i:])
		if at.rank == betweenWords && endsSentence(text[begin:i]) {
			at.rank = betweenSentences
		}
		better(at)
	}
}

func endsSentence(text string) bool {
	last, _ := utf8.DecodeLastRuneInString(strings.TrimRight(text, " "))
	return strings.ContainsRune(".!?…。！？", last)
}

// borderIn is the border in front of the rest of a paragraph, within what belongs together.
func borderIn(open []span, i int, isLine bool, rest string) border {
	at := border{rank: betweenWords, index: i}
	if isLine {
		at.rank = betweenLines
		at.indent = indentOf(rest)
	}
	for _, s := range open {
		if s.mark == "" {
			return border{rank: anywhere + 1}
		}
		at.rank = withinBold
		at.closing = s.mark + at.closing
		at.opening += s.mark
	}
	return at
}

// hardBorder is the border where there is no better one: between two characters, but not within a link.
func hardBorder(text, rest string, least, limit int) border {
	var b blocks
	start, begin := 0, 0 // of the last line, and of its paragraph
	for line := range strings.Lines(text[:limit]) {
		if !strings.HasSuffix(line, "\n") {
			break
		}
		if b.next(strings.TrimSuffix(line, "\n")) != prose || isHeading(line) {
			begin = start
		}
		start += len(line)
	}
	at := least + len(spelling.Cut(text[least:], len(utf16.Encode([]rune(text[least:limit]))))) - len("…")
	if b.mark != "" {
		return b.inCode(anywhere, at)
	}
	border := border{index: at}
	for _, s := range spansBefore(text[begin:], rest) {
		from, to := s.from+begin, s.to+begin
		switch {
		case from >= at || to <= at:
		case s.mark == "" && from >= max(least, 1): // what is open inside of it does not matter
			border.index, at = from, from
		case s.mark != "" && to-len(s.mark) > at && from+len(s.mark) < at:
			border.closing = s.mark + border.closing
			border.opening += s.mark
		}
	}
	return border
}

// span is what belongs together in a paragraph.
type span struct {
	from, to int
	mark     string // of bold words and the like, which may be cut if they end and begin again; "": never cut it
}

// spansBefore is spans of the beginning of a paragraph, also with what ends in the rest of it.
func spansBefore(s, rest string) []span {
	all, open := spans(s)
	if open && rest != "" {
		all, _ = spans(s + rest)
	}
	return all
}

// spans returns what belongs together, in the order in which it begins, and whether something has not ended.
func spans(s string) (all []span, unended bool) {
	var open []span
	for i := 0; i < len(s); {
		n := 1
		switch c := s[i]; c {
		case '\\':
			n = min(2, len(s)-i)
		case '`':
			n = run(s[i:])
			end := closingTicks(s[i+n:], n, len(s))
			unended = unended || end == 0
			if end > 0 {
				code := span{from: i, to: i + n + end}
				if end > maxSpan {
					code.mark = s[i : i+n]
				}
				all = append(all, code)
				n += end
			}
		case '<':
			if end := strings.IndexByte(s[i:], '>'); end > 0 && !strings.ContainsAny(s[i:i+end], " \n") {
				if at := strings.Index(s[i:], "</at>"); s[i:i+end] == "<at" && at > 0 {
					end = at + len("</at")
				}
				all = append(all, span{from: i, to: i + end + 1})
				n = end + 1
			}
		case '[':
			if end := link(s[i:]); end > 0 {
				all = append(all, span{from: linkBegin(s, i, end), to: i + end})
				n = end
			}
		case '*', '_', '~':
			n = run(s[i:])
			open = delimiter(s, i, n, open, &all)
		}
		i += n
	}
	slices.SortStableFunc(all, func(a, b span) int { return a.from - b.from })
	return all, unended || len(open) > 0
}

const maxOpen = 16 // how many marks of bold words and the like are open at a time

// linkBegin is where a link begins that has a bracket at s[i] and is n bytes long: a picture has a mark before it, and
// the number of a source stays with its sentence.
func linkBegin(s string, i, n int) int {
	switch {
	case s[i+n-1] == ']' && strings.Count(s[i:i+n], "[") == 1:
		return len(strings.TrimRight(s[:i], " \n"))
	case i > 0 && s[i-1] == '!':
		return i - 1
	}
	return i
}

// delimiter reads the mark of n bytes at s[i], which opens or closes bold words and the like, and returns what is
// open behind it.
func delimiter(s string, i, n int, open []span, all *[]span) []span {
	mark := s[i : i+n]
	before, _ := utf8.DecodeLastRuneInString(s[:i])
	after, _ := utf8.DecodeRuneInString(s[i+n:])
	startsWord := i+n < len(s) && !unicode.IsSpace(after)
	endsWord := i > 0 && !unicode.IsSpace(before)
	if mark[0] == '_' && startsWord && endsWord && isLetter(before) && isLetter(after) { // snake_case
		return open
	}
	if endsWord {
		for k := len(open) - 1; k >= 0; k-- {
			if open[k].mark == mark {
				*all = append(*all, span{open[k].from, i + n, mark})
				return open[:k]
			}
		}
	}
	if startsWord && n <= 3 && len(open) < maxOpen {
		open = append(open, span{from: i, mark: mark})
	}
	return open
}

func isLetter(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }
