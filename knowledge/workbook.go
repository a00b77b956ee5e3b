package knowledge

import (
	"archive/zip"
	"cmp"
	"context"
	"encoding/xml"
	"errors"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/planbot-go/planbot/internal/lazy"
)

const (
	maxSharedTexts = 500_000
	maxColumns     = 16_384
	maxGap         = 100    // empty cells in a row before one that is written with the name of its column
	maxFormats     = 65_000 // of cells
	maxShared      = 20_000 // formulas that cells share
)

// workbook is what the sheets of an XLSX share.
type workbook struct {
	entries  map[string]*zip.File // by name in lower case
	texts    []string
	formats  []string // of numbers, by the style of a cell
	from1904 bool     // days are counted from 1904
}

// sheetOf is a sheet that people see.
type sheetOf struct{ name, file string }

// readXLSX reads the sheets that people see, without the rows and columns that are hidden. Each begins with its
// head row. It keeps one row in memory, and what the sheets share.
func readXLSX(ctx context.Context, entries map[string]*zip.File) (*read, error) {
	w := &workbook{entries: map[string]*zip.File{}}
	for name, entry := range entries {
		w.entries[strings.ToLower(name)] = entry
	}
	if err := w.readTexts(); err != nil {
		return nil, err
	}
	if err := w.readStyles(); err != nil {
		return nil, err
	}
	sheets, err := w.sheets()
	if err != nil {
		return nil, err
	}
	r := &read{}
	left := maxCharacters
	for _, one := range sheets {
		s := sheetReader{workbook: w, shared: map[string]sharedFormula{}, left: left}
		err := inXML(w.entries[one.file], func(name xml.Name, dec *xml.Decoder, e xml.StartElement) error {
			if ctx.Err() != nil {
				s.why = ctx.Err()
			} else {
				s.element(name.Local, dec, e)
			}
			return s.why
		})
		s.endRow()
		left = s.left
		switch {
		case s.why != nil:
			return nil, s.why
		case err != nil:
			return nil, err
		case s.hasData: // a chart has none
			r.blocks = append(r.blocks, block{kind: heading, level: 1, text: one.name}, s.rows.done())
		}
	}
	return r, nil
}

// readTexts reads the texts of cells, each of which the file has once.
func (w *workbook) readTexts() error {
	size, tooMany := 0, false
	err := inXML(w.entries["xl/sharedstrings.xml"], func(name xml.Name, dec *xml.Decoder, e xml.StartElement) error {
		if name.Local != "si" {
			return nil
		}
		text, err := textIn(dec, "t")
		if err != nil {
			return err
		}
		w.texts = append(w.texts, unescaped(text))
		size += len(text)
		if tooMany = len(w.texts) > maxSharedTexts || size > 16*maxCharacters; tooMany {
			return tooComplex
		}
		return nil
	})
	if tooMany {
		return refusal("is an archive that is too complex to read")
	}
	return err
}

// textIn reads an element that has begun: its text, or the one in the elements of that name within it, without what
// says how it is pronounced. It ends where nothing that is read could be as long.
func textIn(dec *xml.Decoder, name string) (string, error) {
	var text strings.Builder
	within := 0 // elements of that name
	for depth := 1; depth > 0; {
		token, err := dec.Token()
		if err != nil {
			return "", err
		}
		switch token := token.(type) {
		case xml.StartElement:
			if token.Name.Local == "rPh" {
				if err := dec.Skip(); err != nil {
					return "", err
				}
				continue
			}
			depth++
			if token.Name.Local == name {
				within++
			}
		case xml.EndElement:
			depth--
			if token.Name.Local == name && within > 0 {
				within--
			}
		case xml.CharData:
			if name == "" || within > 0 {
				text.Write(token)
			}
		}
		if text.Len() > 4*maxCharacters {
			return "", tooMuchText
		}
	}
	return text.String(), nil
}

// escaped matches a character that XML cannot have, as Office writes it.
var escaped = lazy.Regexp(`_x[0-9A-Fa-f]{4}_`)

func unescaped(text string) string {
	if !strings.Contains(text, "_x") {
		return text
	}
	return escaped().ReplaceAllStringFunc(text, func(code string) string {
		r, err := strconv.ParseUint(code[2:6], 16, 16)
		if err != nil {
			return code
		}
		return string(rune(r))
	})
}

// builtinFormats are those that files name by number alone. The others show a number as it is, or a date.
var builtinFormats = map[int]string{
	1: "0", 2: "0.00", 3: "#,##0", 4: "#,##0.00", 9: "0%", 10: "0.00%", 11: "0.00E+00",
	18: "h:mm", 19: "h:mm:ss", 20: "h:mm", 21: "h:mm:ss",
	37: "#,##0;-#,##0", 38: "#,##0;-#,##0", 39: "#,##0.00;-#,##0.00", 40: "#,##0.00;-#,##0.00",
	41: "#,##0;-#,##0", 42: "#,##0;-#,##0", 43: "#,##0.00;-#,##0.00", 44: "#,##0.00;-#,##0.00",
	45: "mm:ss", 46: "[h]:mm:ss", 47: "mm:ss", 48: "0.0E+0",
}

// readStyles reads how cells show numbers.
func (w *workbook) readStyles() error {
	codes, inCells := map[int]string{}, false
	return inXML(w.entries["xl/styles.xml"], func(name xml.Name, _ *xml.Decoder, e xml.StartElement) error {
		id, _ := strconv.Atoi(attribute(e, "numFmtId"))
		switch name.Local {
		case "numFmt":
			codes[id] = attribute(e, "formatCode")
		case "cellXfs":
			inCells = true
		case "cellStyles", "dxfs":
			inCells = false
		case "xf":
			if inCells && len(w.formats) < maxFormats {
				code := cmp.Or(codes[id], builtinFormats[id])
				if code == "" && (id >= 14 && id <= 17 || id == 22 || id >= 27 && id <= 36 || id >= 50 && id <= 58) {
					code = "yyyy-mm-dd" // in the form of some language
				}
				w.formats = append(w.formats, code)
			}
		}
		return nil
	})
}

// sheets are those that people see, in their order.
func (w *workbook) sheets() (all []sheetOf, err error) {
	files := map[string]string{} // by relation
	err = inXML(w.entries["xl/_rels/workbook.xml.rels"], func(_ xml.Name, _ *xml.Decoder, e xml.StartElement) error {
		file := attribute(e, "Target")
		if !strings.HasPrefix(file, "/") {
			file = "/xl/" + file
		}
		files[attribute(e, "Id")] = strings.ToLower(path.Clean(file)[1:])
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = inXML(w.entries["xl/workbook.xml"], func(name xml.Name, _ *xml.Decoder, e xml.StartElement) error {
		switch name.Local {
		case "workbookPr":
			w.from1904 = isTrue(attribute(e, "date1904"))
		case "sheet":
			state := attribute(e, "state")
			if state != "hidden" && state != "veryHidden" {
				all = append(all, sheetOf{attribute(e, "name"), files[attribute(e, "id")]})
			}
		}
		return nil
	})
	return all, err
}

// isTrue reads a property that is off where it is not there.
func isTrue(value string) bool { return value == "1" || value == "true" }

// sheetReader turns the elements of a sheet into rows.
type sheetReader struct {
	*workbook
	hidden  [maxColumns + 1]bool // columns, from 1
	shared  map[string]sharedFormula
	hasData bool
	rows    block
	left    int // characters
	why     error

	number int // of the row
	hides  bool
	cells  []string
}

func (s *sheetReader) element(name string, dec *xml.Decoder, e xml.StartElement) {
	switch name {
	case "sheetData":
		s.hasData = true
		s.rows.kind = table
	case "col":
		if isTrue(attribute(e, "hidden")) {
			first, _ := strconv.Atoi(attribute(e, "min"))
			last, _ := strconv.Atoi(attribute(e, "max"))
			for column := max(first, 1); column <= min(last, maxColumns); column++ {
				s.hidden[column] = true
			}
		}
	case "row":
		s.endRow()
		s.number++
		if n, err := strconv.Atoi(attribute(e, "r")); err == nil {
			s.number = n
		}
		s.hides = isTrue(attribute(e, "hidden"))
	case "c":
		if s.hasData {
			s.cell(dec, e)
		}
	}
}

func (s *sheetReader) cell(dec *xml.Decoder, e xml.StartElement) {
	column := len(s.cells) + 1
	if at, _, ok := position(attribute(e, "r")); ok {
		column = at
	}
	text, err := s.cellText(dec, e, column)
	if err != nil {
		s.why = unreadable
		if why, ok := errors.AsType[refusal](err); ok {
			s.why = why
		}
		return
	}
	if text == "" || column > maxColumns {
		return
	}
	for len(s.cells) < column {
		s.cells = append(s.cells, "")
	}
	s.cells[column-1] = text
}

// cellText reads a cell that has begun: its value, or the formula where it has none.
func (s *sheetReader) cellText(dec *xml.Decoder, cell xml.StartElement, column int) (text string, err error) {
	kind := attribute(cell, "t")
	hasValue := false
	for {
		token, err := dec.Token()
		if err != nil {
			return "", err
		}
		if _, isEnd := token.(xml.EndElement); isEnd { // all others are read with what they begin
			return text, nil
		}
		e, isStart := token.(xml.StartElement)
		if !isStart {
			continue
		}
		switch e.Name.Local {
		case "f":
			formula, err := textIn(dec, "")
			if err != nil {
				return "", err
			}
			formula = s.formula(e, formula, column) // also where it is not shown: others may share it
			if !hasValue {
				text = "=" + formula
			}
		case "v":
			value, err := textIn(dec, "")
			if err != nil {
				return "", err
			}
			if hasValue = value != "" || kind == "str"; hasValue { // a text may be empty
				text = s.shown(kind, value, attribute(cell, "s"))
			}
		case "is":
			hasValue = true
			inline, err := textIn(dec, "t")
			if err != nil {
				return "", err
			}
			text = unescaped(inline)
		default:
			if err := dec.Skip(); err != nil {
				return "", err
			}
		}
	}
}

// endRow takes the row that was read, if people see it.
func (s *sheetReader) endRow() {
	var seen []string
	blank, isEmpty := 0, true
	for i, cell := range s.cells {
		switch {
		case s.hidden[i+1]:
			continue
		case cell == "":
			blank++
		default:
			if blank > maxGap {
				seen = seen[:len(seen)-blank]
				cell = letters(i+1) + ": " + cell
			}
			blank = 0
		}
		seen = append(seen, cell)
		isEmpty = isEmpty && strings.TrimSpace(cell) == ""
		s.left -= len(cell) + 3
	}
	s.cells = s.cells[:0]
	switch {
	case s.left < 0 && s.why == nil:
		s.why = tooMuchText
	case !isEmpty && !s.hides:
		s.rows.addRow(seen)
	}
}

// shown is a value as people see it, with dates in ISO form.
func (w *workbook) shown(kind, value, style string) string {
	n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
	switch kind {
	case "s":
		if i := int(n); err == nil && i >= 0 && i < len(w.texts) {
			return w.texts[i]
		}
		return ""
	case "b":
		return map[string]string{"0": "FALSE", "1": "TRUE"}[value]
	case "", "n":
		if err != nil || math.IsInf(n, 0) || math.IsNaN(n) {
			return value
		}
		code := ""
		if i, err := strconv.Atoi(style); err == nil && i >= 0 && i < len(w.formats) {
			code = w.formats[i]
		}
		return formatNumber(code, n, w.from1904)
	}
	return unescaped(value)
}

// sharedFormula is the formula of the first of the cells that share it. Only that cell has its text.
type sharedFormula struct {
	text        string
	column, row int
}

// formula is the text of the formula of a cell in that column.
func (s *sheetReader) formula(e xml.StartElement, text string, column int) string {
	text = strings.TrimPrefix(text, "=")
	if attribute(e, "t") != "shared" {
		return text
	}
	id := attribute(e, "si")
	if text == "" {
		return s.shared[id].in(column, s.number)
	}
	if len(s.shared) < maxShared {
		s.shared[id] = sharedFormula{text, column, s.number}
	}
	return text
}

// inFormula matches texts and names, among which are cells, such as B$3.
var inFormula = lazy.Regexp(`"[^"]*"|'[^']*'|[A-Za-z_$][\w.$]*\(?`)

// cellName matches the name of a cell. What has a $ before it stays when a formula is moved.
var cellName = lazy.Regexp(`^(\$?)([A-Za-z]{1,3})(\$?)([1-9]\d{0,6})$`)

// in is the formula as it is in another cell.
func (f sharedFormula) in(column, row int) string {
	return inFormula().ReplaceAllStringFunc(f.text, func(word string) string {
		name := cellName().FindStringSubmatch(word)
		if name == nil {
			return word
		}
		x, y, _ := position(name[2] + name[4])
		if name[1] == "" {
			x += column - f.column
		}
		if name[3] == "" {
			y += row - f.row
		}
		if x < 1 || y < 1 {
			return "#REF!"
		}
		return name[1] + letters(x) + name[3] + strconv.Itoa(y)
	})
}

// position is that of a cell such as C7.
func position(cell string) (column, row int, ok bool) {
	name := cellName().FindStringSubmatch(cell)
	if name == nil {
		return 0, 0, false
	}
	for _, letter := range strings.ToUpper(name[2]) {
		column = column*26 + int(letter-'A') + 1
	}
	row, err := strconv.Atoi(name[4])
	return column, row, err == nil
}

func letters(column int) (name string) {
	for ; column > 0; column = (column - 1) / 26 {
		name = string(rune('A'+(column-1)%26)) + name
	}
	return name
}

// formatNumber shows a number in a format of Excel: dates and times in ISO form, all else as Excel does in English.
// Where a format is a fraction or names a condition, the number is shown as it is.
func formatNumber(code string, n float64, from1904 bool) string {
	if code == "" || strings.Contains(code, "[<") || strings.Contains(code, "[>") || strings.Contains(code, "[=") {
		return general(n)
	}
	sections := splitFormat(code)
	format := sections[0]
	switch {
	case n < 0 && len(sections) > 1:
		n = -n
		format = sections[1] // which has a sign of its own
	case n == 0 && len(sections) > 2:
		format = sections[2]
	}
	switch kind := format.kind(); {
	case kind == ofText && (format.prefix != "" || len(sections) > 1): // which may hide the number
		return strings.TrimSpace(format.prefix)
	case kind == ofDigits:
		return format.number(n)
	case (kind == ofDay || kind == ofTime) && n >= 0 && n < 2_958_466: // the end of the year 9999
		return format.time(kind, n, from1904)
	}
	return general(n)
}

// general shows a number as it is: whole numbers whole, others with fifteen digits, which Excel has.
func general(n float64) string {
	if n == math.Trunc(n) && math.Abs(n) < 1e18 {
		return strconv.FormatInt(int64(n), 10)
	}
	n = fifteen(n)
	if size := math.Abs(n); size < 1e-9 || size >= 1e18 {
		return strconv.FormatFloat(n, 'E', -1, 64)
	}
	return strconv.FormatFloat(n, 'f', -1, 64)
}

// fifteen rounds to fifteen digits.
func fifteen(n float64) float64 {
	n, _ = strconv.ParseFloat(strconv.FormatFloat(n, 'g', 15, 64), 64) // which wrote it
	return n
}

// numberFormat is one section of a format: digits or letters of a date, between texts.
type numberFormat struct {
	prefix, digits, suffix string
	percent                int
	elapsed                bool   // hours do not end at 24
	mixed                  bool   // there are texts between digits
	pattern                []rune // all of it, with digit and maybe for digits
}

// These stand for digits in a pattern.
const (
	digit = '\uE000'
	maybe = '\uE001' // it is left out where there is none
)

// formatKind is what a format shows.
type formatKind int

const (
	ofAll    formatKind = iota // the number as it is
	ofDigits                   // some of its digits
	ofDay                      // a date
	ofTime                     // a time
	ofText                     // no number
)

// splitFormat reads a format. It has one section at least.
func splitFormat(code string) (all []numberFormat) {
	var f numberFormat
	add := func(text string) {
		f.pattern = append(f.pattern, []rune(text)...)
		if f.digits == "" {
			f.prefix += text
		} else {
			f.suffix += text
		}
	}
	in := []rune(code)
	for i := 0; i < len(in); i++ {
		until := func(end rune) string { // of what begins at i
			from := i + 1
			for i++; i < len(in) && in[i] != end; i++ {
			}
			return string(in[min(from, len(in)):i])
		}
		switch c := in[i]; {
		case c == ';':
			all = append(all, f)
			f = numberFormat{}
		case c == '"':
			add(until('"'))
		case c == '[':
			inside := until(']')
			symbol, isCurrency := strings.CutPrefix(inside, "$")
			if isCurrency {
				symbol, _, _ = strings.Cut(symbol, "-")
				add(symbol)
			} else if inside != "" && strings.Trim(strings.ToLower(inside), "hms") == "" { // else it is a colour
				f.elapsed = true
				f.digits += inside
			}
		case c == '\\':
			i++
			add(string(in[min(i, len(in)):min(i+1, len(in))]))
		case c == '_', c == '*': // as wide as the next one, or filled with it
			i++
		case c == '%':
			f.percent++
			add("%")
		case strings.ContainsRune("0#?.,/@", c), c >= 'A' && c <= 'Z', c >= 'a' && c <= 'z',
			c == '+' && strings.HasSuffix(strings.ToUpper(f.digits), "E"):
			f.mixed = f.mixed || f.suffix != ""
			f.digits += string(c)
			f.suffix = ""
			switch c {
			case '0':
				f.pattern = append(f.pattern, digit)
			case '#', '?':
				f.pattern = append(f.pattern, maybe)
			}
		default:
			add(string(c))
		}
	}
	return append(all, f)
}

func (f numberFormat) kind() formatKind {
	low := strings.ToLower(f.digits)
	has := func(letters string) bool { return strings.ContainsAny(low, letters) }
	switch whole, _, isScientific := strings.Cut(low, "e"); {
	case low == "":
		return ofText
	case strings.Contains(low, "general"):
		return ofAll
	case has("yd"), has("m") && !has("hs"):
		return ofDay
	case has("hs"):
		return ofTime
	case has("@/") || f.mixed && has(".,") || isScientific && strings.IndexByte(whole+".", '.') != 1:
		return ofAll
	case has("0#?"):
		return ofDigits
	}
	return ofAll
}

func (f numberFormat) number(n float64) string {
	digits, exponent, isScientific := strings.Cut(strings.ToUpper(f.digits), "E")
	whole, places, _ := strings.Cut(digits, ".")
	if f.mixed {
		return f.fill(n)
	}
	n *= math.Pow(100, float64(f.percent))
	for strings.HasSuffix(whole, ",") || strings.HasSuffix(places, ",") { // in thousands
		if before, ok := strings.CutSuffix(places, ","); ok {
			places = before
		} else {
			whole = strings.TrimSuffix(whole, ",")
		}
		n /= 1000
	}
	sign := ""
	if n < 0 {
		sign = "-"
		n = -n
	}
	var text string
	if isScientific {
		text = strconv.FormatFloat(n, 'E', len(places), 64)
		if !strings.HasPrefix(exponent, "+") {
			text = strings.Replace(text, "E+", "E", 1)
		}
	} else {
		if scale := math.Pow10(len(places)); n*scale < 1<<53 { // half of a digit is one more, as people round
			n = math.Floor(fifteen(n*scale)+.5) / scale
		}
		text = strconv.FormatFloat(n, 'f', len(places), 64)
		for strings.TrimRight(places, "#?") != places && strings.HasSuffix(text, "0") {
			places = places[:len(places)-1]
			text = text[:len(text)-1]
		}
	}
	first, rest, _ := strings.Cut(text, ".")
	if first == "0" && !strings.Contains(whole, "0") {
		first = ""
	}
	for len(first) < strings.Count(whole, "0") {
		first = "0" + first
	}
	if first+rest+f.prefix+f.suffix == "" {
		first = "0"
	}
	if strings.Contains(whole, ",") {
		for i := len(first) - 3; i > 0; i -= 3 {
			first = first[:i] + "," + first[i:]
		}
	}
	if rest != "" {
		first += "." + rest
	}
	if strings.Trim(first, "0.,") == "" {
		sign = "" // it is rounded to nothing
	}
	return strings.TrimSpace(sign + f.prefix + first + f.suffix)
}

// fill shows a whole number with the texts between its digits.
func (f numberFormat) fill(n float64) string {
	digits := strconv.FormatFloat(math.Abs(math.Round(n)), 'f', 0, 64)
	var out []rune // from the end
	first := slices.IndexFunc(f.pattern, func(r rune) bool { return r == digit || r == maybe })
	for i, r := range slices.Backward(f.pattern) {
		last := len(digits) - 1
		switch {
		case r != digit && r != maybe:
			out = append(out, r)
		case last >= 0:
			out = append(out, rune(digits[last]))
			digits = digits[:last]
		case r == digit:
			out = append(out, '0')
		}
		if i == first {
			left := []rune(digits)
			slices.Reverse(left)
			out = append(out, left...)
		}
	}
	if n < 0 {
		out = append(out, '-')
	}
	slices.Reverse(out)
	return strings.TrimSpace(string(out))
}

// time shows a number of days since the first one as a date, a time or both.
func (f numberFormat) time(kind formatKind, n float64, from1904 bool) string {
	first := time.Date(1899, 12, 30, 0, 0, 0, 0, time.UTC)
	switch {
	case from1904:
		first = time.Date(1904, 1, 1, 0, 0, 0, 0, time.UTC)
	case n >= 1 && n < 60 && kind == ofDay: // Excel has a 29th of February in 1900
		n++
	}
	seconds := int(math.Round(n * 24 * 60 * 60))
	t := first.AddDate(0, 0, seconds/(24*60*60)).Add(time.Duration(seconds%(24*60*60)) * time.Second)
	switch {
	case kind == ofDay && n == math.Trunc(n):
		return t.Format(time.DateOnly)
	case kind == ofDay:
		return strings.TrimSuffix(t.Format(time.DateTime), ":00")
	}
	minutes := t.Format(":04")
	if strings.ContainsAny(f.digits, "sS") {
		minutes = t.Format(":04:05")
	}
	if f.elapsed {
		return strconv.Itoa(seconds/(60*60)) + minutes
	}
	return t.Format("15") + minutes
}
