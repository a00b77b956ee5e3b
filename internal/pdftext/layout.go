package pdftext

import (
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/bidi"
	"golang.org/x/text/unicode/norm"
)

// page is the glyphs of a page, as they are drawn.
type page struct {
	glyphs []placed
	split  bool // the next one begins a line
	unseen bool // the next one is beside the page
}

// placed is a glyph along its line: x in reading direction, y across.
type placed struct {
	text  string
	turn  int // of the line, in degrees
	x, y  float64
	width float64
	size  float64
	first bool // begins a line in any case
	// unseen says that it is beside the page. A line that nobody sees anything of is left out.
	unseen bool
}

func (p *page) apart() { p.split = true }

// add adds a glyph that is drawn with a matrix.
func (p *page) add(text string, m matrix, width float64) {
	if len(p.glyphs) >= maxGlyphs {
		return
	}
	along, across := math.Hypot(m[0], m[1]), math.Hypot(m[2], m[3])
	if along == 0 || across == 0 || math.IsNaN(along) || math.IsInf(along, 0) {
		return
	}
	sin, cos := m[1]/along, m[0]/along
	p.glyphs = append(p.glyphs, placed{
		text: spelled(text), turn: int(math.Round(math.Atan2(sin, cos) * 180 / math.Pi)),
		x: m[4]*cos + m[5]*sin, y: m[5]*cos - m[4]*sin, width: width * along, size: across, first: p.split, unseen: p.unseen,
	})
	p.split = false
}

// spelled spells ligatures and forms of letters with letters, and leaves out what is no character.
func spelled(text string) string {
	plain := true
	for i := 0; i < len(text); i++ {
		plain = plain && text[i] >= ' ' && text[i] < 0x7f
	}
	if plain {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		switch {
		case r == utf8.RuneError, r != '\t' && unicode.IsControl(r), unicode.Is(unicode.Co, r):
		case r == '\u00a0', r == '\t':
			b.WriteByte(' ')
		case r >= 0xfb00 && r <= 0xfdff, r >= 0xfe70 && r <= 0xfeff:
			b.WriteString(norm.NFKC.String(string(r)))
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// row is a line of glyphs.
type row struct {
	text  string
	y     float64
	size  float64
	turn  int
	x     float64 // of its end
	start float64
}

// Gaps, in sizes of the font.
const (
	wordGap  = 0.12
	lineStep = 0.55
)

// lines returns the text.
func (p *page) lines() string {
	var rows []row
	var current []placed
	flush := func() {
		if len(current) > 0 {
			r := rowOf(current)
			if r.text != "" {
				rows = append(rows, r)
			}
		}
		current = nil
	}
	for _, g := range p.glyphs {
		n := len(current)
		if n > 0 {
			last := current[n-1]
			size := max(last.size, g.size)
			if g.first || g.turn != last.turn || math.Abs(g.y-last.y) > lineStep*size {
				flush()
			}
		}
		current = append(current, g)
	}
	flush()
	return join(rows)
}

// rowOf writes a line.
func rowOf(glyphs []placed) row {
	r := row{y: glyphs[0].y, size: glyphs[0].size, turn: glyphs[0].turn, start: glyphs[0].x}
	rightToLeft, unseen := 0, true
	for _, g := range glyphs {
		unseen = unseen && g.unseen
		r.size = max(r.size, g.size)
		for _, c := range g.text {
			switch {
			case isRightToLeft(c):
				rightToLeft++
			case unicode.IsLetter(c):
				rightToLeft--
			}
		}
	}
	if unseen {
		return row{}
	}
	mixed := slices.ContainsFunc(glyphs, func(g placed) bool { return strings.ContainsFunc(g.text, isRightToLeft) })
	if mixed {
		slices.SortStableFunc(glyphs, func(a, b placed) int {
			switch {
			case a.x < b.x:
				return -1
			case a.x > b.x:
				return 1
			}
			return 0
		})
	}
	var pieces []string
	var last placed
	for i, g := range glyphs {
		if i > 0 {
			size := min(last.size, g.size)
			gap := g.x - last.x - last.width
			switch {
			case g.text == last.text && math.Abs(g.x-last.x) < 0.1*size && math.Abs(g.y-last.y) < 0.1*size && strings.TrimSpace(g.text) != "":
				continue // drawn twice to look bold
			case gap > wordGap*size, gap < -0.5*size-last.width && !mixed:
				pieces = append(pieces, " ")
			}
		}
		pieces = append(pieces, g.text)
		last = g
	}
	r.x = last.x + last.width
	if mixed {
		pieces = logical(pieces, rightToLeft > 0)
	}
	r.text = strings.Join(strings.Fields(strings.Join(pieces, "")), " ")
	return r
}

func isRightToLeft(c rune) bool {
	properties, _ := bidi.LookupRune(c)
	return properties.Class() == bidi.R || properties.Class() == bidi.AL
}

// mirrored are the characters that look the other way in text that goes from right to left.
var mirrored = strings.NewReplacer("(", ")", ")", "(", "[", "]", "]", "[", "{", "}", "}", "{", "<", ">", ">", "<", "«", "»", "»", "«")

// closesFirst reports whether the first bracket of a text is a closing one.
func closesFirst(pieces []string) bool {
	all := strings.Join(pieces, "")
	at := strings.IndexAny(all, "()[]{}")
	return at >= 0 && strings.IndexByte(")]}", all[at]) >= 0
}

// logical turns pieces that stand as they are seen, from left to right, into the order in which they are read.
func logical(pieces []string, rightToLeft bool) []string {
	kind := make([]int, len(pieces)) // 1: from right to left, -1: from left to right, 0: either
	for i, p := range pieces {
		for _, c := range p {
			properties, _ := bidi.LookupRune(c)
			switch properties.Class() {
			case bidi.R, bidi.AL:
				kind[i] = 1
			case bidi.L, bidi.EN, bidi.AN:
				kind[i] = -1
			}
		}
	}
	base := -1
	if rightToLeft {
		base = 1
	}
	// What stands between two of a kind is of that kind, and otherwise as the line is.
	for i := 0; i < len(kind); {
		end := i
		for end < len(kind) && kind[end] == 0 {
			end++
		}
		if end > i {
			between := base
			if i > 0 && end < len(kind) && kind[i-1] == kind[end] {
				between = kind[end]
			}
			for j := i; j < end; j++ {
				kind[j] = between
			}
		}
		i = max(end, i+1)
	}
	var out []string
	for i := 0; i < len(pieces); {
		end := i
		for end < len(pieces) && kind[end] == kind[i] {
			end++
		}
		run := slices.Clone(pieces[i:end])
		if kind[i] > 0 {
			slices.Reverse(run)
			if closesFirst(run) { // the file names brackets as they are seen; most name them as they are meant
				for j := range run {
					run[j] = mirrored.Replace(run[j])
				}
			}
		}
		if rightToLeft {
			out = append(run, out...)
		} else {
			out = append(out, run...)
		}
		i = end
	}
	return out
}

// join writes lines, with an empty one between paragraphs, and joins words that are cut at the end of a line.
func join(rows []row) string {
	var out []string
	for i, r := range rows {
		if i == 0 {
			out = append(out, r.text)
			continue
		}
		last := rows[i-1]
		down := last.y - r.y
		near := r.turn == last.turn && down > 0 && down < 1.9*max(r.size, last.size)
		whole := out[len(out)-1]
		written, cut := cutWord(whole, r.text)
		switch {
		case cut && near:
			out[len(out)-1] = written + r.text
		case near || math.Abs(down) < lineStep*max(r.size, last.size):
			out = append(out, "\n", r.text)
		default:
			out = append(out, "\n\n", r.text)
		}
	}
	return strings.Join(out, "")
}

// cutWord reports whether the last word of a line goes on in the next, and returns the line without the hyphen.
func cutWord(line, next string) (written string, cut bool) {
	last, size := utf8.DecodeLastRuneInString(line)
	first, _ := utf8.DecodeRuneInString(next)
	before, _ := utf8.DecodeLastRuneInString(line[:len(line)-size])
	if last == '\u00ad' && unicode.IsLetter(first) {
		return line[:len(line)-size], true
	}
	return line[:len(line)-size], (last == '-' || last == '\u2010') && unicode.IsLetter(before) && unicode.IsLower(first)
}
