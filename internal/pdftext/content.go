package pdftext

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/bidi"
	"golang.org/x/text/unicode/norm"
)

// Page is what a page shows.
type Page struct {
	// Text has the lines of the page in the order in which the file draws them, with an empty line between
	// paragraphs.
	Text string
	// Picture says that the page shows a picture.
	Picture bool
	// Scan is the JPEG that is all that the page shows, upright and at least half as large as the page. nil: the
	// page shows something else.
	Scan []byte
	// Unknown counts the characters whose font does not say what they are.
	Unknown int
}

const (
	maxForms   = 12      // within each other
	maxDrawn   = 100_000 // forms of all pages together
	maxStates  = 10_000  // that are saved
	maxString  = 64 << 10
	maxGlyphs  = 500_000 // of a page
	maxAppears = 5000    // annotations of a page that are looked at
)

// matrix is [a b c d e f] of the format.
type matrix [6]float64

func (m matrix) times(n matrix) matrix {
	return matrix{
		m[0]*n[0] + m[1]*n[2], m[0]*n[1] + m[1]*n[3],
		m[2]*n[0] + m[3]*n[2], m[2]*n[1] + m[3]*n[3],
		m[4]*n[0] + m[5]*n[2] + n[4], m[4]*n[1] + m[5]*n[3] + n[5],
	}
}

func (m matrix) apply(x, y float64) (float64, float64) {
	return x*m[0] + y*m[2] + m[4], x*m[1] + y*m[3] + m[5]
}

var identity = matrix{1, 0, 0, 1, 0, 0}

// state is what commands change and q saves.
type state struct {
	toPage     matrix
	font       *font
	size       float64
	characters float64 // spacing
	words      float64 // spacing
	stretch    float64
	leading    float64
	rise       float64
}

// reader reads a page.
type reader struct {
	*Document
	state
	saved      []state
	text, line matrix
	box        [4]float64
	out        page
	forms      int // around here
	spoken     []*string
	shown      Page
	pictures   int     // shown
	scan       *stream // the last picture that may be a scan
}

// Pages is how many there are.
func (d *Document) Pages() int { return len(d.pages) }

// Title is what the file says that it is called.
func (d *Document) Title() string {
	t, _ := d.resolve(d.dict(d.trailer["Info"])["Title"]).(text)
	return textString(t)
}

// textString decodes a string that is for people.
func textString(t text) string {
	switch {
	case strings.HasPrefix(string(t), "\xfe\xff"):
		return fromUTF16(t[2:])
	case strings.HasPrefix(string(t), "\xef\xbb\xbf"):
		return strings.ToValidUTF8(string(t[3:]), "")
	}
	f := &font{}
	standardEncoding(f)
	var b strings.Builder
	for i := range len(t) {
		c := f.simple[t[i]]
		if c != "" && t[i] < 0x80 {
			b.WriteString(c)
		} else {
			b.WriteRune(rune(t[i]))
		}
	}
	return b.String()
}

// Page reads a page, from 0. Its error is that of the context, or [ErrTooLarge].
func (d *Document) Page(number int) (Page, error) {
	from := d.pages[number]
	r := &reader{Document: d, state: state{toPage: identity, stretch: 1}}
	r.box = d.box(from)
	turn, _ := d.int(from["Rotate"])
	if turn%360 != 0 {
		sin, cos := math.Sincos(-float64(turn%360) * math.Pi / 180)
		r.toPage = matrix{math.Round(cos), math.Round(sin), -math.Round(sin), math.Round(cos), 0, 0}
		x1, y1 := r.toPage.apply(r.box[0], r.box[1])
		x2, y2 := r.toPage.apply(r.box[2], r.box[3])
		r.box = [4]float64{min(x1, x2), min(y1, y2), max(x1, x2), max(y1, y2)}
	}
	start := r.toPage
	var all bytes.Buffer
	for _, part := range listOf(d, from["Contents"], nil) {
		if s, ok := d.resolve(part).(*stream); ok && all.Len() <= maxDrawing {
			all.Write(unpack(d, s))
			all.WriteByte('\n')
		}
	}
	if all.Len() > maxDrawing {
		return Page{}, ErrTooLarge
	}
	r.run(all.Bytes(), d.dict(from["Resources"]))
	r.state = state{toPage: start, stretch: 1}
	r.annotations(d.array(from["Annots"]))
	switch {
	case d.ctx.Err() != nil:
		return Page{}, d.ctx.Err()
	case d.unpacked > maxUnpacked, d.commands > maxCommands:
		return Page{}, ErrTooLarge
	}
	r.shown.Text = r.out.lines()
	r.shown.Picture = r.pictures > 0
	if r.pictures == 1 && r.scan != nil && r.shown.Unknown == 0 && strings.TrimSpace(r.shown.Text) == "" {
		r.shown.Scan = jpegOf(d, r.scan)
	}
	return r.shown, nil
}

// box is the part of a page that is seen.
func (d *Document) box(from dict) [4]float64 {
	for _, key := range []name{"MediaBox", "CropBox"} {
		b := d.array(from[key])
		if len(b) != 4 {
			continue
		}
		x1, y1, x2, y2 := d.number(b[0]), d.number(b[1]), d.number(b[2]), d.number(b[3])
		if x1 != x2 && y1 != y2 {
			return [4]float64{min(x1, x2), min(y1, y2), max(x1, x2), max(y1, y2)}
		}
	}
	return [4]float64{0, 0, 612, 792}
}

// run does the commands of a page or a form.
func (r *reader) run(commands []byte, resources dict) {
	l := lexer{data: commands}
	var all array
	depth := len(r.saved)
	for {
		o, ok := l.object(0)
		if !ok {
			break
		}
		word, isWord := o.(op)
		if !isWord {
			if len(all) < 1000 {
				all = append(all, o)
			}
			continue
		}
		r.commands++
		if r.commands >= r.next {
			r.next = r.commands + 4096
			if r.ctx.Err() != nil {
				break
			}
		}
		if r.commands > maxCommands || r.unpacked > maxUnpacked {
			break
		}
		if word == "BI" {
			r.pictures++
			skipPicture(&l)
		} else {
			r.do(word, all, resources)
		}
		all = all[:0]
	}
	if len(r.saved) > depth {
		r.saved = r.saved[:depth]
	}
}

// skipPicture goes behind a picture within the commands.
func skipPicture(l *lexer) {
	for l.at < len(l.data) {
		at := bytes.Index(l.data[l.at:], []byte("EI"))
		if at < 0 {
			l.at = len(l.data)
			return
		}
		end := l.at + at
		l.at = end + 2
		before := end == 0 || isSpace(l.data[end-1])
		if !before || l.at < len(l.data) && !isSpace(l.data[l.at]) {
			continue
		}
		plain := true // what follows are commands
		for _, c := range l.data[l.at:min(l.at+15, len(l.data))] {
			plain = plain && (isSpace(c) && c != 0 || c >= ' ' && c < 0x7f)
		}
		if plain {
			return
		}
	}
}

func (r *reader) numbers(all array, n int) ([]float64, bool) {
	if len(all) < n {
		return nil, false
	}
	out := make([]float64, n)
	for i, o := range all[len(all)-n:] {
		out[i] = r.number(o)
	}
	return out, true
}

func (r *reader) do(word op, all array, resources dict) {
	one := func(to *float64) {
		if n, ok := r.numbers(all, 1); ok {
			*to = n[0]
		}
	}
	switch word {
	case "q":
		if len(r.saved) < maxStates {
			r.saved = append(r.saved, r.state)
		}
	case "Q":
		n := len(r.saved)
		if n > 0 {
			r.state = r.saved[n-1]
			r.saved = r.saved[:n-1]
		}
	case "cm":
		if n, ok := r.numbers(all, 6); ok {
			r.toPage = matrix(n).times(r.toPage)
		}
	case "BT":
		r.text, r.line = identity, identity
	case "Tf":
		if len(all) >= 2 {
			which, _ := all[len(all)-2].(name)
			r.font = loadFont(r.Document, r.dict(resources["Font"])[which])
			r.size = r.number(all[len(all)-1])
		}
	case "gs":
		if len(all) > 0 {
			which, _ := all[0].(name)
			f := r.array(r.dict(r.dict(resources["ExtGState"])[which])["Font"])
			if len(f) == 2 {
				r.font, r.size = loadFont(r.Document, f[0]), r.number(f[1])
			}
		}
	case "Tc":
		one(&r.characters)
	case "Tw":
		one(&r.words)
	case "TL":
		one(&r.leading)
	case "Ts":
		one(&r.rise)
	case "Tz":
		one(&r.stretch)
		r.stretch /= 100
	case "Td", "TD":
		if n, ok := r.numbers(all, 2); ok {
			if word == "TD" {
				r.leading = -n[1]
			}
			r.move(n[0], n[1])
		}
	case "Tm":
		if n, ok := r.numbers(all, 6); ok {
			r.text, r.line = matrix(n), matrix(n)
		}
	case "T*":
		r.move(0, -r.leading)
	case "Tj", "'", "\"":
		if word == "\"" && len(all) >= 3 {
			r.words, r.characters = r.number(all[0]), r.number(all[1])
		}
		if word != "Tj" {
			r.move(0, -r.leading)
		}
		if len(all) > 0 {
			r.show(all[len(all)-1])
		}
	case "TJ":
		if len(all) > 0 {
			list, _ := all[len(all)-1].(array)
			for _, o := range list {
				r.show(o)
			}
		}
	case "Do":
		if len(all) > 0 {
			which, _ := all[len(all)-1].(name)
			r.form(r.dict(resources["XObject"])[which], resources)
		}
	case "BDC", "BMC":
		r.begin(all, resources)
	case "EMC":
		n := len(r.spoken)
		if n > 0 {
			r.spoken = r.spoken[:n-1]
		}
	}
}

// begin begins a part that may have a text of its own for those who cannot see it.
func (r *reader) begin(all array, resources dict) {
	var spoken *string
	if len(all) > 1 {
		properties, _ := all[1].(dict)
		if which, ok := all[1].(name); ok {
			properties = r.dict(r.dict(resources["Properties"])[which])
		}
		if t, ok := r.resolve(properties["ActualText"]).(text); ok {
			s := textString(t)
			spoken = &s
		}
	}
	if len(r.spoken) < maxStates {
		r.spoken = append(r.spoken, spoken)
	}
}

func (r *reader) move(x, y float64) {
	r.line = matrix{1, 0, 0, 1, x, y}.times(r.line)
	r.text = r.line
}

// show draws a text, or moves by a number.
func (r *reader) show(o any) {
	if r.font == nil {
		r.font = newFont(r.Document, dict{})
	}
	t, isText := o.(text)
	if !isText {
		by := -r.number(o) / 1000 * r.size
		if r.font.vertical {
			r.text = matrix{1, 0, 0, 1, 0, by}.times(r.text)
		} else {
			r.text = matrix{1, 0, 0, 1, by * r.stretch, 0}.times(r.text)
		}
		return
	}
	t = t[:min(len(t), maxString)]
	r.commands += len(t) / 16 // it takes its time
	r.font.each(t, func(g glyph) {
		advance := g.width*r.size + r.characters
		if g.space {
			advance += r.words
		}
		r.put(g)
		if r.font.vertical {
			r.text = matrix{1, 0, 0, 1, 0, -r.size - r.characters}.times(r.text)
		} else {
			r.text = matrix{1, 0, 0, 1, advance * r.stretch, 0}.times(r.text)
		}
	})
}

func (r *reader) put(g glyph) {
	m := matrix{r.size * r.stretch, 0, 0, r.size, 0, r.rise}.times(r.text).times(r.toPage)
	shown := g.text
	if g.text == "" && !g.space {
		r.shown.Unknown++
	}
	for i := len(r.spoken) - 1; i >= 0; i-- {
		said := r.spoken[i]
		if said != nil {
			shown = *said
			*said = "" // the first glyph says all of it
			break
		}
	}
	r.out.unseen = m[4] < r.box[0]-20 || m[4] > r.box[2]+5 || m[5] < r.box[1]-20 || m[5] > r.box[3]+5
	r.out.add(shown, m, g.width)
}

// form draws a form or a picture.
func (r *reader) form(o any, around dict) {
	s, ok := r.resolve(o).(*stream)
	if !ok {
		return
	}
	switch {
	case s.dict["Subtype"] == name("Image"):
		r.pictures++
		m := r.toPage
		upright := m[0] > 0 && m[3] > 0 && math.Abs(m[1]) < m[0]/10 && math.Abs(m[2]) < m[3]/10
		if upright && 2*m[0]*m[3] >= (r.box[2]-r.box[0])*(r.box[3]-r.box[1]) {
			r.scan = s
		}
		return
	case s.dict["Subtype"] != nil && s.dict["Subtype"] != name("Form"), r.forms >= maxForms:
		return
	}
	r.drawn++
	if r.drawn > maxDrawn {
		r.commands = maxCommands + 1
		return
	}
	before, saved := r.state, r.saved
	textBefore, lineBefore := r.text, r.line
	r.forms++
	if m, ok := r.numbers(r.array(s.dict["Matrix"]), 6); ok {
		r.toPage = matrix(m).times(r.toPage)
	}
	resources := r.dict(s.dict["Resources"])
	if resources == nil {
		resources = around
	}
	r.saved = nil
	r.run(unpack(r.Document, s), resources)
	r.forms--
	r.state, r.saved, r.text, r.line = before, saved, textBefore, lineBefore
}

// annotations draws what lies over the page, such as the fields of a form.
func (r *reader) annotations(all array) {
	page := r.toPage
	for i, o := range all {
		a := r.dict(o)
		flags, _ := r.int(a["F"])
		if i >= maxAppears || a == nil || flags&2 != 0 || flags&32 != 0 || a["Subtype"] == name("Popup") {
			continue
		}
		appearance := r.resolve(r.dict(a["AP"])["N"])
		if states, ok := appearance.(dict); ok {
			which, _ := r.resolve(a["AS"]).(name)
			appearance = r.resolve(states[which])
		}
		area, ok := r.numbers(r.array(a["Rect"]), 4)
		if !ok {
			continue
		}
		s, ok := appearance.(*stream)
		if !ok {
			r.field(a, area, page)
			continue
		}
		box, ok := r.numbers(r.array(s.dict["BBox"]), 4)
		if !ok {
			continue
		}
		own := identity
		if m, ok := r.numbers(r.array(s.dict["Matrix"]), 6); ok {
			own = matrix(m)
		}
		x1, y1 := own.apply(box[0], box[1])
		x2, y2 := own.apply(box[2], box[3])
		fit := identity
		if x1 != x2 && y1 != y2 {
			fit[0] = math.Abs((area[2] - area[0]) / (x2 - x1))
			fit[3] = math.Abs((area[3] - area[1]) / (y2 - y1))
			fit[4] = min(area[0], area[2]) - min(x1, x2)*fit[0]
			fit[5] = min(area[1], area[3]) - min(y1, y2)*fit[3]
		}
		r.state = state{toPage: fit.times(page), stretch: 1}
		r.out.apart()
		r.form(s, nil)
	}
}

// field writes the value of a field that draws nothing itself.
func (r *reader) field(a dict, area []float64, page matrix) {
	if a["Subtype"] != name("Widget") || r.resolve(a["FT"]) == name("Btn") {
		return
	}
	if value, ok := r.resolve(a["V"]).(text); ok {
		x, y := page.apply(min(area[0], area[2]), min(area[1], area[3]))
		r.out.apart()
		r.out.add(textString(value), matrix{10, 0, 0, 10, x, y}, 0.5)
	}
}

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
