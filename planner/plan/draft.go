package plan

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/planbot-go/planbot/internal/spelling"
	"github.com/planbot-go/planbot/internal/tags"
)

// Draft finds the text that people may see while a model still writes its answer. Only a plan that
// declares itself an answer has one, and writes it strictly: {"type":"answer","commands":[ and a
// SAY with its type before its response. The text is that of this first SAY. Anything else, such as
// a DO, prose, a code fence or what [Decode] would repair, ends the draft for good.
//
// A Draft decides nothing: what it shows is a prefix of the first SAY that Decode returns, or Decode
// refuses the answer, or reads it as prose. It holds back what may still change or be no text: half
// an escape or character, the last grapheme cluster, white space at the end, a bracket [ or < until
// it is closed or is 100 UTF-16 code units old, and all from a token on that ends a model's turn.
//
// A Draft reads one answer, in linear time. The zero value is ready to use. It is not safe for
// concurrent use.
type Draft struct {
	// Prose says that the answer is plain text, and no plan. Decode may find more in it than text,
	// such as reasoning that ends late: then what was shown need not be a prefix.
	Prose bool

	size    int    // bytes written
	part    int    // of opening, the next one
	matched int    // bytes of that part
	rest    string // half an escape or character
	over    bool   // nothing more is read

	text    strings.Builder // decoded
	units   int             // its size in UTF-16
	settled int             // its size without the last cluster and white space before that
	shown   int             // how much of it was returned
	first   rune            // of the last cluster
	last    rune            // of the last cluster
	runes   int             // of the last cluster

	square, angle bracket // the last ones
}

// bracket holds back the text from where it opened until its end is settled.
type bracket struct {
	open               bool
	at, units, settled int // what came before: bytes, UTF-16 code units, and settled
	end                int // in bytes; 0: it has none yet
}

// opening is how an answer begins. White space may stand before each part.
var opening = [...]string{"{", `"type"`, ":", `"` + answerType + `"`, ",", `"commands"`, ":", "[", "{", `"type"`, ":", `"` + Say + `"`, ",", `"response"`, ":", `"`}

const maxOpen = 100 // for how many UTF-16 code units an open bracket holds back the text

// Write reads on. It returns the text to show so far, and whether that is more than before. A piece
// may begin and end anywhere.
func (d *Draft) Write(piece string) (text string, grew bool) {
	d.size += len(piece)
	d.over = d.over || d.size > maxBytes
	in := d.rest + piece
	for n := 1; n > 0 && in != "" && !d.over; in = in[n:] {
		if d.part < len(opening) && !d.Prose {
			n = d.begin(in[0])
		} else {
			n = d.read(in)
		}
	}
	if d.rest = in; d.over {
		d.rest = ""
	}
	safe := d.safe()
	grew = safe > d.shown
	d.shown = max(d.shown, safe)
	return d.text.String()[:d.shown], grew
}

// safe is the size of the text that can be shown.
func (d *Draft) safe() int {
	safe := d.settled
	for _, b := range [...]*bracket{&d.square, &d.angle} {
		if b.open && (b.end == 0 || d.settled < b.end) {
			safe = min(safe, b.settled)
		}
	}
	// What a serving stack leaves before an answer, and SAY, are no part of it.
	if d.Prose && d.shown == 0 && (d.text.Len() < len("**assistant**:") || notProse(d.text.String())) {
		return 0
	}
	return safe
}

// notProse reports whether prose begins with words that are not its own.
func notProse(text string) bool {
	start := strings.ToLower(strings.TrimLeft(text[:len("**assistant**:")], "*"))
	for _, label := range [...]string{
		"assistant", "say", // labels
		"analysis", "here is my", "here's my", // thinking
		"call:", "functools[", "print(default_", "to=functions.", "✿function✿", // calls
	} {
		if strings.HasPrefix(start, label) {
			return true
		}
	}
	return false
}

func (d *Draft) begin(c byte) int {
	want := opening[d.part]
	switch {
	case c == want[d.matched]:
		if d.matched++; d.matched == len(want) {
			d.part, d.matched = d.part+1, 0
		}
	case d.matched > 0 || strings.IndexByte(" \t\r\n", c) < 0:
		d.over = true
	}
	return 1
}

// read reads what is next of the text and returns its size; 0: more is needed to know it.
func (d *Draft) read(in string) int {
	c, size := rune(in[0]), 1
	switch {
	case c >= utf8.RuneSelf && !utf8.FullRuneInString(in):
		return 0
	case c >= utf8.RuneSelf:
		c, size = utf8.DecodeRuneInString(in)
		d.over = c == utf8.RuneError && size == 1
	case d.Prose:
	case c == '\\':
		c, size = unescape(in)
		d.over = size < 0
	case c == '"':
		d.end()
		return 1
	default:
		d.over = c < ' '
	}
	if d.Prose && d.text.Len() == 0 && isBlank(c) {
		return size
	}
	d.over = d.over || d.Prose && (strings.ContainsRune("◁＜⟨", c) || d.text.Len() == 0 && strings.ContainsRune("<[{\"`~【", c))
	if size > 0 && !d.over {
		d.add(c)
	}
	return max(size, 0)
}

// unescape reads the escape at the start of a text. size is 0 if more of the text is needed, and
// negative if JSON has no such escape. A surrogate without its other half is U+FFFD.
func unescape(in string) (c rune, size int) {
	const known, means = `"\/bfnrt`, "\"\\/\b\f\n\r\t"
	if len(in) < 2 {
		return 0, 0
	}
	if i := strings.IndexByte(known, in[1]); i >= 0 {
		return rune(means[i]), 2
	}
	c, size = codeUnit(in)
	if size <= 0 || !utf16.IsSurrogate(c) {
		return c, size
	}
	low, behind := codeUnit(in[size:])
	if pair := utf16.DecodeRune(c, low); behind > 0 && pair != unicode.ReplacementChar {
		return pair, size + behind
	}
	if c < 0xDC00 && behind == 0 {
		return 0, 0
	}
	return unicode.ReplacementChar, size
}

// codeUnit reads \uXXXX at the start of a text, with sizes as in unescape.
func codeUnit(in string) (unit rune, size int) {
	const long = len(`\uXXXX`)
	switch {
	case !strings.HasPrefix(in, `\u`[:min(len(in), 2)]):
		return 0, -1
	case len(in) < long:
		return 0, 0
	}
	n, err := strconv.ParseUint(in[2:long], 16, 16)
	if err != nil {
		return 0, -1
	}
	return rune(n), long
}

func (d *Draft) add(c rune) {
	at := d.text.Len()
	if !spelling.Joins(d.runes, d.first, d.last, c) { // so the cluster before it has ended
		if !isBlank(d.first) {
			d.settled = at
		}
		d.first, d.runes = c, 0
	}
	d.last = c
	d.runes++
	here := bracket{open: true, at: at, units: d.units, settled: d.settled}
	d.units += utf16.RuneLen(c)
	d.text.WriteRune(c)
	switch c {
	case '[':
		d.square = here
	case '<':
		d.angle = here
	case ']':
		d.close(&d.square)
	case '>':
		d.close(&d.angle)
	}
	for _, b := range [...]*bracket{&d.square, &d.angle} {
		b.open = b.open && (b.end > 0 || d.units-b.units <= maxOpen)
	}
}

// close ends the draft at a token, or at a tag around thinking or a call in prose.
func (d *Draft) close(b *bracket) {
	if !b.open || b.end > 0 {
		return
	}
	within := d.text.String()[b.at:]
	if strings.HasPrefix(within, "<|") || endToken.MatchString(within) || (d.Prose || strings.ContainsAny(within, "|｜‖")) && d.ends(within) {
		d.over = true
		return
	}
	b.end = d.text.Len()
}

func (d *Draft) ends(within string) bool {
	tag, ok := tags.Read(within)
	return ok && (tag.Special || d.Prose && tag.Kind != tags.Other)
}

// end ends the text: nothing of it can change any more.
func (d *Draft) end() {
	d.over, d.square.open, d.angle.open = true, false, false
	if d.runes > 0 && !isBlank(d.first) {
		d.settled = d.text.Len()
	}
}
