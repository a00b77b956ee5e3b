// Package markdown fits the Markdown of messages to Teams, and cuts what is too long for one message. It reads
// lines, lists, code, tables and what may not be cut within a line; it is no parser of all that Markdown has.
package markdown

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/planbot-go/planbot/internal/lazy"
)

// Lines makes single line breaks outside of code ones that Teams shows, which reads them as spaces: with two
// spaces in front of them. A list that follows a line gets an empty line before it.
func Lines(text string) string {
	if !strings.ContainsAny(text, "\r\n") {
		return text
	}
	var out strings.Builder
	var b blocks
	before := ""
	lines := strings.Split(unixLines(text), "\n")
	for i, line := range lines {
		was, inList := b.last, len(b.lists) > 0
		is := b.next(line)
		switch {
		case i == 0:
		case was != prose && was != item || is == blank:
			out.WriteString("\n")
		case is == item && was == prose && !inList:
			out.WriteString("\n\n")
		default:
			spaces := len(before) - len(strings.TrimRight(before, " "))
			out.WriteString("  "[min(spaces, 2):] + "\n")
		}
		if breaks(line) && i < len(lines)-1 && is != code && is != opens && strings.TrimSpace(lines[i+1]) != "" {
			line = line[:len(line)-1] // a backslash breaks a line only at its very end
		}
		out.WriteString(line)
		before = line
	}
	return out.String()
}

// breaks reports whether a line ends with a backslash that nothing escapes.
func breaks(line string) bool { return (len(line)-len(strings.TrimRight(line, `\`)))%2 == 1 }

// Seen returns what people see of a text, for comparisons: without what Tame added, and with the line breaks of
// Lines.
func Seen(text string) string { return Lines(strings.ReplaceAll(text, unseen, "")) }

// Fit makes of a text what Teams can show of it: a table becomes a list, with a line for each row. An item of a
// numbered list that has the number of the one before it gets the next one, which Markdown means by that: so the
// list goes on where it is cut.
func Fit(text string) string { return fit(text, false) }

// FitDraft is Fit for a text that is still being written. However it goes on, what it returns is the beginning of
// what Fit returns in the end; only a table whose rows do not begin with "|" may still change words before it.
func FitDraft(text string) string { return strings.TrimRight(fit(text, true), " \t\r\n") }

func fit(text string, draft bool) string {
	lines := strings.Split(unixLines(text), "\n")
	last := len(lines) - 1
	out := make([]string, 0, len(lines))
	var b blocks
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		inCode := b.mark != ""
		// A line that is still being written may become one of a table or a list.
		if draft && i == last && !inCode && (strings.Contains(line, "|") || numberForm().MatchString(line)) {
			break
		}
		switch b.next(line) {
		case item:
			line = b.numbered(line)
		case prose:
			rows, after := tableAt(lines, i, draft)
			if after < 0 {
				return strings.Join(out, "\n")
			}
			if after == 0 {
				break
			}
			if len(out) > 0 && strings.TrimSpace(out[len(out)-1]) != "" {
				out = append(out, "")
			}
			out = append(out, rows...)
			if draft && after >= last {
				return strings.Join(out, "\n")
			}
			if after <= last && strings.TrimSpace(lines[after]) != "" {
				out = append(out, "")
			}
			i = after - 1
			b.last = blank
			continue
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n")
}

// numberForm is a line that may become an item of a numbered list.
var numberForm = lazy.Regexp(`^[ \t]*\d{1,9}[.)]?[ \t]*$`)

// kind is what a line is.
type kind int

const (
	blank kind = iota
	prose      // a line of a paragraph, a heading or a quotation
	item       // the first line of an item of a list
	opens      // the fence that begins a code block
	code
	closes // the fence that ends one
)

// blocks reads a text line by line.
type blocks struct {
	// Of the code block that is open: its mark, the line that begins it, and what stands before the mark. ""
	// is no mark: none is open.
	mark, opening, prefix string

	lists []list // that are open, the outermost first
	last  kind   // the kind of the line before
}

// list is a list that is open.
type list struct {
	indent int
	number int // of its last item; 0: it has no numbers
}

const (
	maxFence   = 20  // characters of the mark of a code block that is closed and opened again
	maxOpening = 100 // bytes of the line that opens it
)

var (
	fenceForm = lazy.Regexp("^((?:[ \t]*>)*[ \t]*(?:(?:[-*+]|\\d{1,9}[.)])[ \t]+)?)(`{3,}|~{3,})(.*)$")
	itemForm  = lazy.Regexp(`^([ \t]*)(?:[-*+]|(\d{1,9})[.)])[ \t]+\S`)
	ruleForm  = lazy.Regexp(`^[ \t]*(?:(?:-[ \t]*){3,}|(?:\*[ \t]*){3,}|(?:_[ \t]*){3,})$`)
)

func (b *blocks) next(line string) kind {
	b.last = b.read(line)
	return b.last
}

func (b *blocks) read(line string) kind {
	text := strings.TrimLeft(line, " \t")
	var fence []string
	if text != "" && strings.IndexByte("`~>-*+0123456789", text[0]) >= 0 {
		fence = fenceForm().FindStringSubmatch(line)
	}
	if b.mark != "" {
		switch {
		case fence != nil && strings.HasPrefix(fence[2], b.mark) && strings.TrimSpace(fence[3]) == "":
			b.mark, b.opening, b.prefix = "", "", ""
			return closes
		case !strings.Contains(b.prefix, ">") || strings.HasPrefix(text, ">"):
			return code
		}
		b.mark, b.opening, b.prefix = "", "", "" // the quotation has ended, and the code in it
	}
	indent := indentOf(line)
	switch {
	case strings.TrimSpace(text) == "":
		return blank
	case fence != nil && len(fence[2]) <= maxFence && !strings.Contains(fence[3], "`"):
		b.open(fence)
		return opens
	case text[0] != '>' && b.isItem(line):
		b.add(line)
		return item
	case indent >= 4+b.contentIndent() && (b.last == blank || b.last == code || b.last == closes):
		return code
	case indent < 2 && b.last != prose && b.last != item:
		b.lists = nil
	}
	return prose
}

// contentIndent is how far the lines of the innermost item are indented.
func (b *blocks) contentIndent() int {
	if len(b.lists) == 0 {
		return 0
	}
	innermost := b.lists[len(b.lists)-1]
	if innermost.number > 0 {
		return innermost.indent + 3
	}
	return innermost.indent + 2
}

func (b *blocks) open(fence []string) {
	b.mark = fence[2]
	b.prefix = fence[1]
	if marker := strings.TrimLeft(b.prefix, " \t"); marker != "" && marker[0] != '>' {
		b.add(fence[0])
		b.prefix = strings.Repeat(" ", len(b.prefix))
	} else if indentOf(b.prefix) < 2 {
		b.lists = nil
	}
	b.opening = strings.TrimSpace(fence[2] + fence[3])
	if len(b.opening) > maxOpening {
		b.opening = b.mark
	}
	if strings.Contains(b.prefix, ">") {
		b.opening = b.prefix + b.opening
	}
}

func (b *blocks) isItem(line string) bool {
	m := itemForm().FindStringSubmatch(line)
	if m == nil || ruleForm().MatchString(line) {
		return false
	}
	return m[2] == "" || m[2] == "1" || b.last != prose || len(b.lists) > 0
}

func (b *blocks) add(line string) {
	indent, number := indentOf(line), 0
	if m := itemForm().FindStringSubmatch(line); m != nil && m[2] != "" {
		number, _ = strconv.Atoi(m[2])
	}
	for len(b.lists) > 0 && indent < b.lists[len(b.lists)-1].indent {
		b.lists = b.lists[:len(b.lists)-1]
	}
	n := len(b.lists) - 1
	if n < 0 || indent >= b.lists[n].indent+2 || (number == 0) != (b.lists[n].number == 0) {
		if n >= 0 && indent < b.lists[n].indent+2 { // another kind of list at its place
			b.lists = b.lists[:n]
		}
		b.lists = append(b.lists, list{indent, number})
		return
	}
	if number > 0 {
		b.lists[n].number = max(number, b.lists[n].number+1)
	}
}

// numbered returns the line that begins the newest item, with its number.
func (b *blocks) numbered(line string) string {
	number := b.lists[len(b.lists)-1].number
	m := itemForm().FindStringSubmatchIndex(line)
	if number == 0 || m[4] < 0 {
		return line
	}
	if written, _ := strconv.Atoi(line[m[4]:m[5]]); written == number {
		return line
	}
	return line[:m[4]] + strconv.Itoa(number) + line[m[5]:]
}

// indentOf is how far a line is indented.
func indentOf(line string) (n int) {
	for _, c := range []byte(line) {
		switch c {
		case ' ':
			n++
		case '\t':
			n += 4 - n%4
		default:
			return n
		}
	}
	return n
}

var (
	delimiterForm = lazy.Regexp(`^:?-+:?$`)
	startForm     = lazy.Regexp(`^[ \t>|:-]*$`)
	prefixForm    = lazy.Regexp(`^[ \t]*(?:>[ \t]*)*`)
	breakForm     = lazy.Regexp(`(?i)\s*<br\s*/?>\s*`)
)

// tableAt returns the rows, as items of a list, of a table that begins at lines[i], and the line after it: 0 if
// none begins there, -1 if that is not decided in a draft.
func tableAt(lines []string, i int, draft bool) (rows []string, after int) {
	last := len(lines) - 1
	if !strings.Contains(lines[i], "|") {
		return nil, 0
	}
	if draft && i >= last-1 && (i == last || startForm().MatchString(lines[last])) {
		return nil, -1
	}
	if i == last || !strings.Contains(lines[i+1], "|") || !allDelimiters(cells(lines[i+1], 0)) {
		return nil, 0
	}
	columns := len(cells(lines[i+1], 0))
	prefix, names := prefixForm().FindString(lines[i]), cells(lines[i], columns)
	for after = i + 2; after <= last && strings.Contains(lines[after], "|"); after++ {
		if draft && after == last {
			break
		}
		if row := rowOf(names, cells(lines[after], columns)); row != "" {
			rows = append(rows, prefix+"- "+row)
		}
	}
	switch {
	case len(rows) > 0:
	case draft && after >= last:
		return nil, -1
	default:
		rows = []string{prefix + strings.Join(names, " · ")}
	}
	return rows, after
}

// rowOf is a row of a table with its columns' names.
func rowOf(names, values []string) string {
	var parts []string
	for i, value := range values {
		name := ""
		if i < len(names) {
			name = strings.Trim(names[i], "*_` ")
		}
		switch {
		case value == "":
		case name == "":
			parts = append(parts, value)
		case strings.ContainsAny(name, "*[`"):
			parts = append(parts, name+": "+value)
		default:
			parts = append(parts, "**"+strings.TrimSuffix(name, ":")+":** "+value)
		}
	}
	return strings.Join(parts, " · ")
}

func allDelimiters(cells []string) bool {
	for _, cell := range cells {
		if !delimiterForm().MatchString(cell) {
			return false
		}
	}
	return len(cells) > 0
}

// cells returns the cells of a table's row. If there are more than its columns, marks in code and in links are none
// of their borders.
func cells(line string, columns int) []string {
	line = strings.TrimSpace(line[len(prefixForm().FindString(line)):])
	line = strings.TrimPrefix(line, "|")
	all := cellsOf(line, false)
	if columns > 0 && len(all) > columns {
		all = cellsOf(line, true)
	}
	return all
}

func cellsOf(line string, whole bool) (all []string) {
	var cell strings.Builder
	add := func() {
		all = append(all, breakForm().ReplaceAllString(strings.TrimSpace(cell.String()), " / "))
		cell.Reset()
	}
	for i := 0; i < len(line); i++ {
		n := 0
		switch {
		case line[i] == '\\' && i+1 < len(line):
			i++
			if line[i] != '|' {
				cell.WriteByte('\\')
			}
			cell.WriteByte(line[i])
			continue
		case whole && line[i] == '`':
			ticks := run(line[i:])
			if n = closingTicks(line[i+ticks:], ticks, maxSpan); n > 0 {
				n += ticks
			}
		case whole && line[i] == '[':
			n = link(line[i:])
		case line[i] == '|':
			add()
			continue
		}
		n = max(n, 1)
		cell.WriteString(strings.ReplaceAll(line[i:i+n], `\|`, "|"))
		i += n - 1
	}
	if strings.TrimSpace(cell.String()) != "" {
		add()
	}
	return all
}

const (
	maxSpan  = 2 << 10 // bytes of a link or of code in a line that are not cut
	maxDepth = 8       // brackets in brackets
)

// run is how often the first byte of s is repeated.
func run(s string) int { return len(s) - len(strings.TrimLeft(s, s[:1])) }

// closingTicks is where the code that was opened by n backticks ends, if it is not longer than most; 0: nowhere.
func closingTicks(s string, n, most int) int {
	s = s[:min(len(s), most)]
	for i := 0; i < len(s); {
		if s[i] != '`' {
			i++
			continue
		}
		k := run(s[i:])
		if k == n {
			return i + k
		}
		i += k
	}
	return 0
}

// link is where a link, a picture or the mark of a source ends which begins at the start of s; 0: none does.
func link(s string) int {
	end := matching(s, '[', ']')
	switch {
	case end == 0:
		return 0
	case end < len(s) && s[end] == '(':
		if n := matching(s[end:], '(', ')'); n > 0 {
			return end + n
		}
	case end < len(s) && s[end] == '[':
		if n := matching(s[end:], '[', ']'); n > 0 {
			return end + n
		}
	}
	if strings.Trim(s[1:end-1], "0123456789") == "" {
		return end
	}
	return 0
}

// matching is the index behind the bracket that closes the first one; 0: there is none.
func matching(s string, opening, closing byte) int {
	s = s[:min(len(s), maxSpan)]
	depth := 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case opening:
			if depth++; depth > maxDepth {
				return 0
			}
		case closing:
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return 0
}

func unixLines(text string) string {
	if !strings.Contains(text, "\r") {
		return text
	}
	return strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
}

const unseen = "\u200b" // breaks markup: a space of no width, which people do not see

// Tame returns the markdown with nothing in it that a client loads or runs by itself, whoever wrote it: a
// document can make a model write a picture whose address tells a stranger what the person asked. A picture
// becomes its words and its host, unless it is at one of these hosts. HTML, and links to anything but the
// web, mail and telephones, become text.
//
// It does not parse markdown, as each client does that in its own way. It knows the few forms that it leaves,
// and breaks all that begins like another one, in code too. Only HTML stays in code between plain fences, if the
// text has no picture and no mention.
func Tame(text string, hosts []string) string {
	if !strings.ContainsAny(text, "<[") {
		return text
	}
	var s strings.Builder
	var code [][2]int
	if !strings.Contains(text, "![") && !strings.Contains(text, "at>") { // a fence may go with a picture, or be HTML behind a mention
		code = fenced(text)
	}
	for i := 0; i < len(text); {
		rest := text[i:]
		switch {
		case strings.HasPrefix(rest, "!["):
			picture := pictureForm().FindStringSubmatch(rest)
			switch {
			case picture == nil: // another form of a picture; as a link it needs a click
				s.WriteString("!" + unseen)
				i++
				continue
			case onList(picture[2], hosts) && !strings.ContainsAny(picture[0], "<>\n\\`"): // which a client may read in another way
				s.WriteString("![" + picture[1] + "](" + picture[2] + ")")
			default: // what is left must not make markup of what is beside it
				s.WriteString(separator(s.String(), "]") + inWords(Tame(picture[1], nil), picture[2]))
				s.WriteString(separator(s.String(), "!", "<", "]"))
			}
			i += len(picture[0])
			continue
		case (strings.HasPrefix(rest, "](") || strings.HasPrefix(rest, "]:")) && !goodLink().MatchString(rest[2:]):
			s.WriteString("]" + unseen)
		case rest[0] == '<' && htmlForm().MatchString(rest) && !plainForm().MatchString(rest) && !slices.ContainsFunc(code, func(c [2]int) bool { return c[0] <= i && i < c[1] }):
			s.WriteString("<" + unseen)
		default:
			s.WriteByte(rest[0])
		}
		i++
	}
	return s.String()
}

// separator is what keeps a text apart from what follows, if it has one of these ends.
func separator(text string, ends ...string) string {
	if slices.ContainsFunc(ends, func(end string) bool { return strings.HasSuffix(text, end) }) {
		return unseen
	}
	return ""
}

var (
	// pictureForm is a picture with a plain address, and perhaps a title.
	pictureForm = lazy.Regexp(`^!\[([^\[\]]*)\]\(\s*<?([^\s()<>]*)>?(?:\s+(?:"[^"]*"|'[^']*'))?\s*\)`)
	goodLink    = lazy.Regexp("(?i)^[ \\t\\r\\n]*(?:https?://|mailto:|tel:|<?#|<(?:https?://|mailto:)[^\\s<>\"'`]*>)")
	htmlForm    = lazy.Regexp(`^<[A-Za-z/!?]`)
	// plainForm is an address between angle brackets, or a mention.
	plainForm  = lazy.Regexp("^<(?:(?i:https?://|mailto:)[^\\s<>\"'`]*|/?at)>")
	plainFence = lazy.Regexp("^```[\\w+#.-]*\r?\n?$")
	hostForm   = lazy.Regexp(`^[A-Za-z0-9.-]+$`)
)

// IsHost reports whether that can be one of the hosts: a name, with a port unless that is 443.
func IsHost(host string) bool {
	u, err := url.Parse("https://" + host)
	return err == nil && host != "" && u.Host == host
}

func onList(address string, hosts []string) bool {
	u, err := url.Parse(address)
	return err == nil && u.Scheme == "https" && u.User == nil && slices.ContainsFunc(hosts, func(host string) bool { return strings.EqualFold(host, u.Host) })
}

// inWords is what is left of a picture.
func inWords(words, address string) string {
	u, err := url.Parse(address)
	if err != nil || !hostForm().MatchString(u.Hostname()) {
		return words
	}
	return strings.TrimSpace(words + " (" + u.Hostname() + ")")
}

// fenced returns where code between fences is, if every client sees it there: no fence is of another form.
func fenced(text string) (spans [][2]int) {
	at, begin := 0, -1
	for line := range strings.Lines(text) {
		if strings.Contains(line, "```") || strings.Contains(line, "~~~") {
			switch {
			case !plainFence().MatchString(line), begin >= 0 && strings.TrimRight(line, "\r\n") != "```":
				return nil
			case begin < 0:
				begin = at
			default:
				spans, begin = append(spans, [2]int{begin, at}), -1
			}
		}
		at += len(line)
	}
	if begin >= 0 {
		return nil
	}
	return spans
}

// TameDraft is Tame for a text that is still being written: what may become markup has to wait for its end.
func TameDraft(text string, hosts []string) string {
	if at := strings.LastIndex(text, "!["); at >= 0 && !strings.Contains(text[at:], ")") {
		text = text[:at]
	}
	if at := strings.LastIndexAny(text, "<"); at >= 0 && !strings.Contains(text[at:], ">") && (at+1 == len(text) || htmlForm().MatchString(text[at:])) {
		text = text[:at]
	}
	if at := strings.LastIndex(text, "]("); at >= 0 && !strings.Contains(text[at:], ")") {
		text = text[:at]
	}
	return Tame(strings.TrimRight(text, "!]"), hosts)
}
