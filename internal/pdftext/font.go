package pdftext

import (
	"cmp"
	_ "embed"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"unicode/utf16"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/traditionalchinese"
)

// font says which characters the codes of a text are, and how wide they are.
type font struct {
	composite bool
	simple    [256]string // without toUnicode
	toUnicode *cmap
	codes     *cmap             // of a composite font, if its codes are not of two bytes
	charset   encoding.Encoding // of a composite font whose codes are of one
	wide      bool              // the codes are UTF-16
	vertical  bool
	glyphs    map[int]rune // by number, of a font that does not say what its codes are
	numbers   []byte       // of glyphs by code, two bytes each; nil: they are the codes
	spells    bool         // the codes are likely to be Unicode: nothing else is known of them

	widths  map[int]float64 // of 1,000 for an em
	ranges  []widthRange
	missing float64
	unit    float64 // of a width, in ems
}

type widthRange struct {
	from, to int
	width    float64
}

// glyph is a code of a text.
type glyph struct {
	text  string
	width float64 // in ems
	space bool    // for word spacing
}

const maxWidths = 100_000 // limits the widths of a font

// loadFont reads a font, once.
func loadFont(d *Document, o any) *font {
	id, isRef := o.(ref)
	if f, known := d.fonts[id]; isRef && known {
		return f
	}
	f := newFont(d, d.dict(o))
	if isRef {
		d.fonts[id] = f
	}
	return f
}

func newFont(d *Document, from dict) *font {
	f := &font{widths: map[int]float64{}, unit: 0.001}
	if s, ok := d.resolve(from["ToUnicode"]).(*stream); ok {
		f.toUnicode = newCMap(d, s)
	}
	if from["Subtype"] == name("Type0") {
		readComposite(d, f, from)
	} else {
		readSimple(d, f, from)
	}
	return f
}

func readComposite(d *Document, f *font, from dict) {
	f.composite, f.missing = true, 1000
	switch e := d.resolve(from["Encoding"]).(type) {
	case *stream:
		f.codes = newCMap(d, e)
		f.vertical, _ = d.resolve(e.dict["WMode"]).(bool)
	case name:
		f.vertical = strings.HasSuffix(string(e), "-V")
		f.charset, f.wide = charsetOf(string(e))
	}
	var below dict
	all := d.array(from["DescendantFonts"])
	if len(all) > 0 {
		below = d.dict(all[0])
	}
	if f.toUnicode == nil && f.charset == nil && !f.wide {
		if file, ok := d.resolve(d.dict(below["FontDescriptor"])["FontFile2"]).(*stream); ok {
			f.glyphs = glyphCharacters(unpack(d, file))
		}
		if s, ok := d.resolve(below["CIDToGIDMap"]).(*stream); ok {
			f.numbers = unpack(d, s)
		}
		base, _ := d.resolve(from["BaseFont"]).(name)
		ordering, _ := d.resolve(d.dict(below["CIDSystemInfo"])["Ordering"]).(text)
		f.spells = len(f.glyphs) == 0 && ordering == "Identity" && !strings.Contains(string(base), "+")
	}
	if n, ok := d.int(below["DW"]); ok {
		f.missing = float64(n)
	}
	w := d.array(below["W"])
	for i := 0; i+1 < len(w) && len(f.widths)+len(f.ranges) < maxWidths; {
		first, _ := d.int(w[i])
		switch next := d.resolve(w[i+1]).(type) {
		case array:
			for j, width := range next {
				if len(f.widths) < maxWidths {
					f.widths[first+j] = d.number(width)
				}
			}
			i += 2
		default:
			if i+2 >= len(w) {
				return
			}
			last, _ := d.int(next)
			f.ranges = append(f.ranges, widthRange{first, last, d.number(w[i+2])})
			i += 3
		}
	}
}

// charsetOf returns the charset of a predefined table of codes.
func charsetOf(table string) (_ encoding.Encoding, wide bool) {
	for part, charset := range map[string]encoding.Encoding{
		"RKSJ": japanese.ShiftJIS, "GBK": simplifiedchinese.GBK, "GBpc": simplifiedchinese.GBK, "GB-EUC": simplifiedchinese.GBK,
		"B5": traditionalchinese.Big5, "KSC": korean.EUCKR,
	} {
		if strings.Contains(table, part) {
			return charset, false
		}
	}
	switch table {
	case "EUC-H", "EUC-V":
		return japanese.EUCJP, false
	case "H", "V":
		return nil, false
	}
	return nil, strings.Contains(table, "UCS2") || strings.Contains(table, "UTF16")
}

func readSimple(d *Document, f *font, from dict) {
	base, _ := d.resolve(from["BaseFont"]).(name)
	descriptor := d.dict(from["FontDescriptor"])
	flags, _ := d.int(descriptor["Flags"])
	encodings := d.dict(from["Encoding"])
	which, _ := d.resolve(from["Encoding"]).(name)
	if encodings != nil {
		which, _ = d.resolve(encodings["BaseEncoding"]).(name)
	}
	readEncoding(d, f, which, string(base), from["Subtype"] == name("TrueType"), flags&4 != 0, descriptor)
	code := 0
	for _, o := range d.array(encodings["Differences"]) {
		switch o := d.resolve(o).(type) {
		case int:
			code = o
		case name:
			if code >= 0 && code < 256 {
				f.simple[code] = charactersOf(string(o))
				if f.simple[code] == "" && !strings.Contains(string(base), "Dingbats") {
					f.simple[code] = numbered(string(o))
				}
			}
			code++
		}
	}
	if from["Subtype"] == name("Type3") {
		m := d.array(from["FontMatrix"])
		if len(m) == 6 {
			f.unit = d.number(m[0])
		}
	}
	first, _ := d.int(from["FirstChar"])
	f.missing = d.number(descriptor["MissingWidth"])
	for i, w := range d.array(from["Widths"]) {
		if len(f.widths) < 1000 {
			f.widths[first+i] = d.number(w)
		}
	}
	if len(f.widths) == 0 && from["Subtype"] != name("Type3") {
		standardWidths(f, string(base))
	}
}

var putGlyph = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`dup\s+(\d+)\s*/([^\s/]+)\s+put`) })

func readEncoding(d *Document, f *font, which name, base string, trueType, symbolic bool, descriptor dict) {
	var table encoding.Encoding = charmap.Windows1252
	switch {
	case which == "MacRomanEncoding":
		table = charmap.Macintosh
	case which == "WinAnsiEncoding":
	case strings.Contains(base, "Symbol"):
		for i, r := range []rune("ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ") {
			f.simple['A'+i] = string(r)
		}
		for i, r := range []rune("αβχδεφγηιϕκλμνοπθρστυϖωξψζ") {
			f.simple['a'+i] = string(r)
		}
		for c := ' '; c < 'A'; c++ {
			f.simple[c] = string(c)
		}
		f.simple[0xb7] = "•"
		return
	case !trueType:
		standardEncoding(f)
		if s, ok := d.resolve(descriptor["FontFile"]).(*stream); ok {
			program := unpack(d, s)
			for _, m := range putGlyph().FindAllSubmatch(program[:min(len(program), 64<<10)], 256) {
				if code, err := strconv.Atoi(string(m[1])); err == nil && code < 256 {
					f.simple[code] = charactersOf(string(m[2]))
				}
			}
		}
		return
	case symbolic && which == "":
		table = charmap.Macintosh
	}
	decoder := table.NewDecoder()
	for code := range 256 {
		if r, err := decoder.Bytes([]byte{byte(code)}); err == nil && code >= ' ' {
			f.simple[code] = strings.Trim(string(r), "\ufffd\x7f")
		}
	}
	if which == "WinAnsiEncoding" || which == "" {
		f.simple[0xad] = "-"
	}
}

// standardEncoding is Adobe's.
func standardEncoding(f *font) {
	for c := ' '; c < 0x7f; c++ {
		f.simple[c] = string(c)
	}
	f.simple['\''], f.simple['`'] = "’", "‘"
	high := map[int]string{
		0xa1: "¡¢£⁄¥ƒ§¤'“«‹›ﬁﬂ", 0xb1: "–†‡·", 0xb6: "¶•‚„”»…‰", 0xbf: "¿", 0xc1: "`´ˆ˜¯˘˙¨", 0xca: "˚¸", 0xcd: "˝˛ˇ—",
		0xe1: "Æ", 0xe3: "ª", 0xe8: "ŁØŒº", 0xf1: "æ", 0xf5: "ı", 0xf8: "łøœß",
	}
	for from, characters := range high {
		for i, r := range []rune(characters) {
			f.simple[from+i] = string(r)
		}
	}
}

//go:embed glyphlist.txt
var glyphList string

var glyphNames = sync.OnceValue(func() map[string]string {
	names := map[string]string{}
	for line := range strings.Lines(glyphList) {
		glyph, codes, ok := strings.Cut(strings.TrimSpace(line), ";")
		if !ok || strings.HasPrefix(line, "#") {
			continue
		}
		var b strings.Builder
		for code := range strings.FieldsSeq(codes) {
			if n, err := strconv.ParseUint(code, 16, 32); err == nil {
				b.WriteRune(rune(n)) //nolint:gosec // of 32 bits
			}
		}
		names[glyph] = b.String()
	}
	return names
})

// charactersOf returns what a name of a glyph stands for, by Adobe's rules.
func charactersOf(glyph string) string {
	glyph, _, _ = strings.Cut(glyph, ".")
	if c, ok := glyphNames()[glyph]; ok {
		return c
	}
	var b strings.Builder
	for part := range strings.SplitSeq(glyph, "_") {
		c, ok := glyphNames()[part]
		if !ok {
			c = characterOf(part)
		}
		b.WriteString(c)
	}
	return b.String()
}

// numbered reads names that some programs give to the glyphs they draw: a letter or two and the code, such as a65.
func numbered(glyph string) string {
	digits := strings.TrimLeft(glyph, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
	n, err := strconv.Atoi(digits)
	if err != nil || len(glyph)-len(digits) > 2 || len(glyph) == len(digits) || n < ' ' || n > 255 {
		return ""
	}
	return string(rune(n))
}

// characterOf reads names such as uni20AC and u1F600.
func characterOf(glyph string) string {
	digits, isUni := strings.CutPrefix(glyph, "uni")
	if !isUni {
		digits, _ = strings.CutPrefix(glyph, "u")
	}
	if len(digits) == len(glyph) || len(digits) < 4 {
		return ""
	}
	if isUni && len(digits)%4 == 0 {
		var units []uint16
		for i := 0; i < len(digits); i += 4 {
			n, err := strconv.ParseUint(digits[i:i+4], 16, 16)
			if err != nil {
				return ""
			}
			units = append(units, uint16(n))
		}
		return string(utf16.Decode(units))
	}
	if n, err := strconv.ParseUint(digits, 16, 21); err == nil {
		return string(rune(n)) //nolint:gosec // of 21 bits
	}
	return ""
}

// standardWidths are those of Helvetica, about, or of Courier, for fonts that every reader has.
func standardWidths(f *font, base string) {
	f.missing = 556
	if strings.Contains(base, "Courier") {
		f.missing = 600
		return
	}
	scale := 1.0
	if strings.Contains(base, "Times") {
		scale = 0.93
		f.missing = 500
	}
	for width, characters := range map[float64]string{
		222: "'`ijl", 260: "|", 278: " !,./:;[\\]Ift", 333: "()-r", 334: "{}", 355: "\"", 389: "*", 469: "^", 500: "Jckvsxyz",
		584: "+<=>~", 611: "FTZ", 667: "&ABEKPSVXY", 722: "CDHNRUw", 778: "GOQ", 833: "Mm", 889: "%", 944: "W", 1015: "@",
	} {
		for _, c := range characters {
			f.widths[int(c)] = width * scale
		}
	}
}

func (f *font) width(code int) float64 {
	if w, ok := f.widths[code]; ok {
		return w * f.unit
	}
	width := f.missing
	for _, r := range f.ranges {
		if code >= r.from && code <= r.to {
			width = r.width
			break
		}
	}
	if len(f.widths) < maxWidths {
		f.widths[code] = width // there may be many ranges
	}
	return width * f.unit
}

func (f *font) each(s text, use func(glyph)) {
	switch {
	case !f.composite:
		for i := range len(s) {
			code := int(s[i])
			use(glyph{f.characters(code, f.simple[code]), f.width(code), code == ' '})
		}
	case f.charset != nil:
		f.eachOfCharset(s, use)
	default:
		for len(s) > 0 {
			n := 2
			if f.codes != nil {
				n = f.codes.size(s)
			}
			n = min(n, len(s))
			code := bigEndian([]byte(s[:n]))
			cid, own := code, ""
			if f.codes != nil {
				cid, own = f.codes.cid(code), f.codes.text(code)
			}
			switch {
			case f.wide, f.spells:
				own = fromUTF16(s[:n])
			case f.glyphs != nil:
				own = f.glyphCharacter(cid)
			}
			use(glyph{f.characters(code, own), f.width(cid), n == 1 && code == ' '})
			s = s[n:]
		}
	}
}

// glyphCharacter is the character of a glyph by the font's own file.
func (f *font) glyphCharacter(cid int) string {
	if f.numbers != nil {
		if 2*cid+2 > len(f.numbers) {
			return ""
		}
		cid = bigEndian(f.numbers[2*cid : 2*cid+2])
	}
	if c, ok := f.glyphs[cid]; ok {
		return string(c)
	}
	return ""
}

// eachOfCharset is for codes of one or two bytes.
func (f *font) eachOfCharset(s text, use func(glyph)) {
	for len(s) > 0 {
		n := 1
		c := s[0]
		alone := f.charset == japanese.ShiftJIS && c >= 0xa0 && c < 0xe0
		if c >= 0x81 && c != 0xff && len(s) > 1 && !alone {
			n = 2
		}
		own, err := f.charset.NewDecoder().String(string(s[:n]))
		if err != nil {
			own = ""
		}
		width := f.missing * f.unit
		if n == 1 {
			width /= 2
		}
		use(glyph{f.characters(bigEndian([]byte(s[:n])), own), width, n == 1 && s[0] == ' '})
		s = s[n:]
	}
}

// characters are those that the file states for a code, or its own.
func (f *font) characters(code int, own string) string {
	if f.toUnicode == nil {
		return own
	}
	return cmp.Or(f.toUnicode.text(code), own)
}

func fromUTF16(s text) string {
	var units []uint16
	for i := 0; i+1 < len(s); i += 2 {
		units = append(units, uint16(s[i])<<8|uint16(s[i+1]))
	}
	return string(utf16.Decode(units))
}

// cmap maps codes to characters, or to the numbers of glyphs.
type cmap struct {
	characters map[int]text   // UTF-16
	known      map[int]string // of codes that were looked up
	ranges     []cmapRange
	sizes      [5][]codeRange // by bytes of a code
}

type codeRange struct{ from, to int }

type cmapRange struct {
	codeRange
	start text // UTF-16 of the first; "": a number
	cid   int
}

// maxCMap limits the entries of a table, and maxRanges those for more than one code.
const (
	maxCMap   = 200_000
	maxRanges = 20_000
)

func newCMap(d *Document, s *stream) *cmap {
	m := &cmap{characters: map[int]text{}, known: map[int]string{}}
	l := lexer{data: unpack(d, s)}
	var all array
	for d.ctx.Err() == nil {
		o, ok := l.object(0)
		if !ok {
			break
		}
		word, isWord := o.(op)
		if !isWord {
			if len(all) < maxCMap {
				all = append(all, o)
			}
			continue
		}
		m.add(string(word), all)
		all = nil
	}
	return m
}

func (m *cmap) add(word string, all array) {
	code := func(i int) (n, size int) {
		t, _ := all[i].(text)
		return bigEndian([]byte(t[:min(len(t), 4)])), len(t)
	}
	if len(m.characters) > maxCMap || len(m.ranges) > maxRanges {
		return
	}
	switch word {
	case "endcodespacerange":
		for i := 0; i+1 < len(all); i += 2 {
			from, size := code(i)
			to, _ := code(i + 1)
			if size >= 1 && size <= 4 && len(m.sizes[size]) < 1000 {
				m.sizes[size] = append(m.sizes[size], codeRange{from, to})
			}
		}
	case "endbfchar", "endcidchar":
		for i := 0; i+1 < len(all); i += 2 {
			from, _ := code(i)
			switch to := all[i+1].(type) {
			case text:
				m.characters[from] = to
			case name:
				m.characters[from] = toUTF16(charactersOf(string(to)))
			case int:
				m.ranges = append(m.ranges, cmapRange{codeRange{from, from}, "", to})
			}
		}
	case "endbfrange", "endcidrange":
		for i := 0; i+2 < len(all); i += 3 {
			from, _ := code(i)
			to, _ := code(i + 1)
			switch first := all[i+2].(type) {
			case text:
				m.ranges = append(m.ranges, cmapRange{codeRange{from, to}, first, 0})
			case int:
				m.ranges = append(m.ranges, cmapRange{codeRange{from, to}, "", first})
			case array:
				for j, o := range first {
					if t, ok := o.(text); ok && from+j <= to {
						m.characters[from+j] = t
					}
				}
			}
		}
	}
}

func toUTF16(s string) text {
	var out []byte
	for _, unit := range utf16.Encode([]rune(s)) {
		out = append(out, byte(unit>>8), byte(unit))
	}
	return text(out)
}

// size is how many bytes the first code of a text has.
func (m *cmap) size(s text) int {
	for n := 1; n <= 4 && n <= len(s); n++ {
		for _, r := range m.sizes[n] {
			if within(s[:n], r, n) {
				return n
			}
		}
	}
	for n := 1; n <= 4; n++ {
		if len(m.sizes[n]) > 0 {
			return n
		}
	}
	return 2
}

// within compares byte by byte, as the format asks for.
func within(s text, r codeRange, n int) bool {
	for i := range n {
		shift := 8 * (n - 1 - i)
		c := int(s[i])
		if c < r.from>>shift&0xff || c > r.to>>shift&0xff {
			return false
		}
	}
	return true
}

func (m *cmap) cid(code int) int {
	for _, r := range m.ranges {
		if code >= r.from && code <= r.to && r.start == "" {
			return r.cid + code - r.from
		}
	}
	return code
}

func (m *cmap) text(code int) string {
	known, ok := m.known[code]
	if !ok {
		known = m.find(code)
		if len(m.known) < maxCMap {
			m.known[code] = known
		}
	}
	return known
}

func (m *cmap) find(code int) string {
	if t, ok := m.characters[code]; ok {
		if len(t) == 1 {
			return string(rune(t[0]))
		}
		return strings.Trim(fromUTF16(t), "\x00")
	}
	for _, r := range m.ranges {
		if code < r.from || code > r.to || r.start == "" {
			continue
		}
		runes := []rune(fromUTF16(r.start))
		if len(r.start) == 1 {
			runes = []rune{rune(r.start[0])}
		}
		if len(runes) == 0 {
			return ""
		}
		runes[len(runes)-1] += rune(code - r.from) //nolint:gosec // a code has four bytes at most, and an odd rune is replaced
		return strings.Trim(string(runes), "\x00")
	}
	return ""
}

// glyphCharacters reads a font file of the kind TrueType and returns which character each glyph is for, for
// fonts of which the PDF does not say that.
func glyphCharacters(file []byte) map[int]rune {
	if len(file) < 12 {
		return nil
	}
	var table []byte
	for i := range bigEndian(file[4:6]) {
		at := 12 + 16*i
		if at+16 > len(file) {
			return nil
		}
		if string(file[at:at+4]) == "cmap" {
			table = part(file, bigEndian(file[at+8:at+12]), bigEndian(file[at+12:at+16]))
		}
	}
	if len(table) < 4 {
		return nil
	}
	found, best := map[int]rune{}, 0
	for i := range bigEndian(table[2:4]) {
		entry := part(table, 4+8*i, 8)
		if entry == nil {
			break
		}
		platform, kind := bigEndian(entry[:2]), bigEndian(entry[2:4])
		unicode := platform == 0 || platform == 3 && (kind == 1 || kind == 10)
		if !unicode || kind < best {
			continue
		}
		if all := charactersIn(part(table, bigEndian(entry[4:8]), len(table))); len(all) > 0 {
			found, best = all, kind
		}
	}
	return found
}

// part is so many bytes from there, or what there is of them.
func part(data []byte, at, size int) []byte {
	if at < 0 || size < 0 || at >= len(data) {
		return nil
	}
	return data[at:min(len(data), at+size)]
}

func charactersIn(table []byte) map[int]rune {
	found := map[int]rune{}
	left := 200_000 // characters to look at: ranges may overlap
	add := func(c, glyph int) {
		if old, known := found[glyph]; glyph > 0 && (!known || rune(c) < old && old >= 0xe000) { //nolint:gosec // below 1<<21
			found[glyph] = rune(c) //nolint:gosec // as above
		}
		left--
	}
	switch {
	case len(table) >= 16 && bigEndian(table[:2]) == 4:
		n := bigEndian(table[6:8]) / 2
		word := func(array, i int) int {
			at := 14 + 2*(n*array+i)
			if array > 0 {
				at += 2
			}
			if at+2 > len(table) {
				return 0
			}
			return bigEndian(table[at : at+2])
		}
		for i := 0; i < n && left > 0; i++ {
			last, first, delta, offset := word(0, i), word(1, i), word(2, i), word(3, i)
			for c := first; c <= last && c < 0xffff && left > 0; c++ {
				glyph := c
				if offset > 0 {
					at := 16 + 2*(3*n+i) + offset + 2*(c-first)
					if at+2 > len(table) {
						break
					}
					glyph = bigEndian(table[at : at+2])
					if glyph == 0 {
						left--
						continue
					}
				}
				add(c, (glyph+delta)&0xffff)
			}
		}
	case len(table) >= 16 && bigEndian(table[:2]) == 12:
		for at := 16; at+12 <= len(table) && left > 0; at += 12 {
			first, last, glyph := bigEndian(table[at:at+4]), bigEndian(table[at+4:at+8]), bigEndian(table[at+8:at+12])
			for c := first; c <= last && c <= 0x10ffff && left > 0; c++ {
				add(c, glyph+c-first)
			}
		}
	}
	return found
}
