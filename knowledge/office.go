package knowledge

import (
	"archive/zip"
	"bytes"
	"cmp"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"
)

const (
	maxEntries       = 2000
	maxUnpackedBytes = 200 << 20
	maxRatio         = 100
	freeRatioBytes   = 1 << 20 // so small a thing may have any ratio
)

// readZip reads the Office formats, which are archives. What is in it says which one it is.
func readZip(ctx context.Context, data []byte) (*read, error) {
	archive, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, unreadable
	}
	if len(archive.File) > maxEntries {
		return nil, refusal(fmt.Sprintf("is an archive of %d entries, %d are read at most", len(archive.File), maxEntries))
	}
	total := uint64(0)
	entries := map[string]*zip.File{}
	left := map[string]int{} // what is in folders of things that are not read
	for _, f := range archive.File {
		name := strings.ReplaceAll(f.Name, `\`, "/")
		if entries[name] != nil {
			return nil, unreadable // readers differ in which of the two they take
		}
		kind := path.Base(path.Dir(name))
		left[kind]++
		if !isText(name) {
			continue // a picture, which is never unpacked
		}
		entries[name] = f
		// archive/zip stops reading an entry that is larger than it says.
		size := f.UncompressedSize64
		if total += size; size > maxUnpackedBytes || total > maxUnpackedBytes {
			return nil, refusal("is an archive that is larger than 200 MB when it is unpacked")
		}
		if size > freeRatioBytes && size/max(f.CompressedSize64, 1) > maxRatio {
			return nil, refusal("is an archive that is too complex to read: its text is packed more than a hundredfold")
		}
	}
	begins := func(folder string) bool {
		for name := range entries {
			if strings.HasPrefix(name, folder) {
				return true
			}
		}
		return false
	}
	if had := entries["word/document2.xml"]; had != nil && entries["word/document.xml"] == nil {
		entries["word/document.xml"] = had // Word on the web calls it so
	}
	switch {
	case entries["word/document.xml"] != nil:
		r, err := readDOCX(entries)
		return r.without(left), err
	case entries["xl/workbook.xml"] != nil:
		r, err := readXLSX(ctx, entries)
		return r.without(left), err
	case begins("ppt/"):
		return nil, refusal("is a presentation (PPTX), which is not read; save it as PDF")
	case entries["mimetype"] != nil && entries["content.xml"] != nil:
		return nil, refusal("is an OpenDocument file (ODT, ODS or ODP), which is not read; save it as DOCX, XLSX or PDF")
	}
	return nil, refusal("is an archive; only DOCX and XLSX are read of those")
}

// without notes which parts of an Office file were not read.
func (r *read) without(parts map[string]int) *read {
	if r == nil {
		return nil
	}
	r.leave(parts["media"], "picture", "pictures")
	r.leave(parts["charts"], "chart", "charts")
	r.leave(parts["embeddings"], "embedded file", "embedded files")
	return r
}

// isText reports whether an entry is one of those that are read.
func isText(name string) bool {
	ending := strings.ToLower(path.Ext(name))
	return ending == ".xml" || ending == ".rels" || name == "mimetype"
}

// readDOCX reads a document of Word: headings, paragraphs and tables, as they are when all changes are
// accepted, without hidden text.
func readDOCX(entries map[string]*zip.File) (*read, error) {
	levels, hiding, err := stylesIn(entries["word/styles.xml"])
	if err != nil {
		return nil, err
	}
	r := &read{}
	if err := inXML(entries["docProps/core.xml"], func(name xml.Name, dec *xml.Decoder, start xml.StartElement) error {
		if name.Local != "title" {
			return nil
		}
		return dec.DecodeElement(&r.title, &start)
	}); err != nil {
		return nil, err
	}
	d := docxReader{read: r, levels: levels, hiding: hiding}
	if d.lists, err = listsIn(entries["word/numbering.xml"], entries["word/styles.xml"]); err != nil {
		return nil, err
	}
	if err := withXML(entries["word/document.xml"], d.document); err != nil {
		return nil, err
	}
	for _, part := range []string{"footnotes", "endnotes"} {
		if err := d.notes(entries["word/"+part+".xml"], part); err != nil {
			return nil, err
		}
	}
	r.title = oneLine(r.title)
	for i := range r.blocks {
		r.blocks[i] = r.blocks[i].done() // lists
	}
	return r, nil
}

// withXML calls read for the XML of an entry, if there is one.
func withXML(entry *zip.File, read func(dec *xml.Decoder) error) error {
	if entry == nil {
		return nil
	}
	in, err := entry.Open()
	if err != nil {
		return unreadable
	}
	defer func() { _ = in.Close() }()
	return read(xml.NewDecoder(&shortRuns{in: in}))
}

// inXML calls each for the elements of an entry, if there is one.
func inXML(entry *zip.File, each func(name xml.Name, dec *xml.Decoder, start xml.StartElement) error) error {
	return withXML(entry, func(dec *xml.Decoder) error {
		for {
			token, err := dec.Token()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return unreadable
			}
			if start, ok := token.(xml.StartElement); ok {
				if err := each(start.Name, dec, start); err != nil {
					return unreadable
				}
			}
		}
	})
}

// shortRuns reads XML and fails when there is no tag for a long time, because the decoder keeps text whole.
type shortRuns struct {
	in  io.Reader
	run int
}

func (s *shortRuns) Read(p []byte) (int, error) {
	n, err := s.in.Read(p)
	if at := bytes.LastIndexByte(p[:n], '<'); at >= 0 {
		s.run = n - at
	} else {
		s.run += n
	}
	if s.run > maxCharacters {
		return 0, tooMuchText
	}
	return n, err
}

// stylesIn returns the level of each style that is a heading, and the styles that hide text. The ids of styles
// are in the language of whoever wrote the document, their names are not.
func stylesIn(entry *zip.File) (levels map[string]int, hiding map[string]bool, err error) {
	id := ""
	levels, hiding = map[string]int{}, map[string]bool{}
	err = inXML(entry, func(name xml.Name, _ *xml.Decoder, start xml.StartElement) error {
		switch name.Local {
		case "style":
			id = attribute(start, "styleId")
		case "name":
			style := strings.ToLower(attribute(start, "val"))
			if level, err := strconv.Atoi(strings.TrimPrefix(style, "heading ")); err == nil && level > 0 {
				levels[id] = min(level, 9)
			} else if style == "title" {
				levels[id] = 1
			}
		case "vanish":
			hiding[id] = isOn(start)
		}
		return nil
	})
	if len(levels) == 0 {
		for level := 1; level <= 9; level++ {
			levels["Heading"+strconv.Itoa(level)] = level
		}
		levels["Title"] = 1
	}
	return levels, hiding, err
}

// isOn reports whether a property that is there is on.
func isOn(property xml.StartElement) bool {
	value := attribute(property, "val")
	return value != "0" && value != "false" && value != "off"
}

func attribute(start xml.StartElement, name string) string {
	for _, a := range start.Attr {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

// docxReader turns the elements of a document into blocks.
type docxReader struct {
	*read
	levels map[string]int
	hiding map[string]bool // styles
	lists  *lists

	text   strings.Builder // of the paragraph or cell that grows
	level  int             // of the paragraph, 0: it is no heading
	item   bool            // the paragraph is one of a list
	place  listPlace       // where in it
	hides  bool            // the style of the paragraph does
	hidden bool            // the run is
	inText bool            // in an element of text
	tables int             // around here
	inRow  bool            // in the properties of a row
	rows   block
	cells  []string
	size   int
}

func (d *docxReader) document(dec *xml.Decoder) error {
	for {
		token, err := dec.Token()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return unreadable
		}
		switch token := token.(type) {
		case xml.StartElement:
			if err := d.start(dec, token); err != nil {
				return err
			}
		case xml.EndElement:
			d.end(token.Name.Local)
		case xml.CharData:
			if d.inText && !d.hidden {
				if d.size += len(token); d.size > 4*maxCharacters {
					return tooMuchText
				}
				d.text.Write(token)
			}
		}
	}
}

// notes reads the notes below pages or at the end, if there are any, and puts them behind the text.
func (d *docxReader) notes(entry *zip.File, title string) error {
	before := len(d.blocks)
	if err := withXML(entry, d.document); err != nil {
		return err
	}
	if len(d.blocks) > before {
		head := block{kind: heading, level: 1, text: strings.ToUpper(title[:1]) + title[1:]}
		d.blocks = slices.Insert(d.blocks, before, head)
	}
	return nil
}

func (d *docxReader) start(dec *xml.Decoder, e xml.StartElement) error {
	levels := 0 // of elements to leave out
	switch e.Name.Local {
	case "trPr":
		d.inRow = true
	case "cellDel": // the whole cell, which is around its properties
		levels = 3
	case "del", "moveFrom", "Fallback", "instrText", "delText", "pPrChange", "rPrChange", "footnotePr":
		// Deleted text, the old place of moved text, and the copy of a drawing for old readers. An empty
		// del marks a deleted paragraph mark.
		levels = 1
		if d.inRow { // the whole row
			d.inRow, levels = false, 3
		}
	case "p":
		if d.tables == 0 {
			d.paragraph()
		}
	case "pStyle":
		d.level, d.hides = d.levels[attribute(e, "val")], d.hiding[attribute(e, "val")]
		d.place = d.lists.styles[attribute(e, "val")]
		d.item = d.place.list != ""
	case "rStyle":
		d.hidden = d.hidden || d.hiding[attribute(e, "val")]
	case "outlineLvl":
		if level, err := strconv.Atoi(attribute(e, "val")); err == nil && level >= 0 && level < 9 && d.level == 0 {
			d.level = level + 1
		}
	case "numPr":
		d.item = true
	case "numId":
		d.place.list = attribute(e, "val")
		d.item = d.place.list != "0" // the style's list does not count
	case "ilvl":
		d.place.level, _ = strconv.Atoi(attribute(e, "val"))
	case "r":
		d.hidden = d.hides
	case "vanish":
		d.hidden = isOn(e)
	case "t":
		d.inText = true
	case "tab":
		d.text.WriteByte(' ')
	case "br", "cr":
		d.text.WriteByte('\n')
	case "noBreakHyphen":
		d.text.WriteByte('-')
	case "tbl":
		if d.tables++; d.tables == 1 {
			d.paragraph()
			d.rows = block{kind: table}
		}
	}
	for range levels {
		if err := dec.Skip(); err != nil {
			return unreadable
		}
	}
	return nil
}

func (d *docxReader) end(name string) {
	switch name {
	case "t":
		d.inText = false
	case "trPr":
		d.inRow = false
	case "r":
		d.hidden = false
	case "p":
		if d.tables == 0 {
			d.paragraph()
		} else {
			d.text.WriteByte(' ')
			d.level, d.item, d.hides, d.place = 0, false, false, listPlace{}
		}
	case "tc":
		if d.tables == 1 {
			d.cells = append(d.cells, d.text.String())
			d.text.Reset()
		}
	case "tr":
		if d.tables == 1 {
			if strings.TrimSpace(strings.Join(d.cells, "")) != "" {
				d.rows.addRow(d.cells)
			}
			d.cells = nil
		}
	case "tbl":
		if d.tables--; d.tables == 0 {
			d.blocks = append(d.blocks, d.rows.done())
			d.text.Reset()
		}
	}
}

func (d *docxReader) paragraph() {
	text := strings.TrimSpace(d.text.String())
	last := len(d.blocks) - 1
	number := ""
	if d.item && text != "" {
		number = d.lists.next(d.place)
	}
	switch {
	case text == "":
	case d.level > 0:
		d.blocks = append(d.blocks, block{kind: heading, level: d.level, text: oneLine(strings.TrimSpace(number + " " + text))})
	case d.item && last >= 0 && len(d.blocks[last].lines) > 0:
		d.blocks[last].lines = append(d.blocks[last].lines, cmp.Or(number, "-")+" "+text)
	case d.item:
		d.blocks = append(d.blocks, block{kind: paragraph, lines: []string{cmp.Or(number, "-") + " " + text}})
	default:
		d.blocks = append(d.blocks, block{kind: paragraph, text: text})
	}
	d.text.Reset()
	d.level, d.item, d.hides, d.place = 0, false, false, listPlace{}
}

// maxLists limits the lists of a document, and their levels.
const maxLists, maxListLevels = 5000, 9

// lists are the lists of a document of Word, which has their numbers only as rules.
type lists struct {
	levels map[string]*[maxListLevels]listLevel // of the forms of lists
	forms  map[string]string                    // by list
	starts map[string]*[maxListLevels]int       // where a list begins anew, by list; 0: it goes on
	styles map[string]listPlace                 // of paragraphs
	counts map[string]*[maxListLevels]int       // of the items so far, by form
	begun  map[string]bool                      // lists
}

// listLevel is how a level of a list is numbered.
type listLevel struct {
	format, text string
	start        int
}

// listPlace is where in a list a paragraph is.
type listPlace struct {
	list  string
	level int
}

// listsIn reads the lists of a document, and which styles are in them.
func listsIn(numbering, styles *zip.File) (*lists, error) {
	l := &lists{
		levels: map[string]*[maxListLevels]listLevel{}, forms: map[string]string{}, starts: map[string]*[maxListLevels]int{}, styles: map[string]listPlace{},
		counts: map[string]*[maxListLevels]int{}, begun: map[string]bool{},
	}
	form, list, level := "", "", -1
	number := func(e xml.StartElement, name string) int {
		n, _ := strconv.Atoi(attribute(e, name))
		return n
	}
	if err := inXML(numbering, func(name xml.Name, _ *xml.Decoder, e xml.StartElement) error {
		if len(l.levels)+len(l.forms) > maxLists {
			return tooMuchText
		}
		switch name.Local {
		case "abstractNum":
			form, list, level = attribute(e, "abstractNumId"), "", -1
			l.levels[form] = &[maxListLevels]listLevel{}
		case "num":
			form, list, level = "", attribute(e, "numId"), -1
		case "abstractNumId":
			l.forms[list] = attribute(e, "val")
		case "lvl", "lvlOverride":
			level = number(e, "ilvl")
		case "startOverride":
			if level >= 0 && level < maxListLevels && list != "" {
				if l.starts[list] == nil {
					l.starts[list] = &[maxListLevels]int{}
				}
				l.starts[list][level] = number(e, "val")
			}
		}
		if form == "" || level < 0 || level >= maxListLevels || l.levels[form] == nil {
			return nil
		}
		switch at := &l.levels[form][level]; name.Local {
		case "start":
			at.start = number(e, "val")
		case "numFmt":
			at.format = attribute(e, "val")
		case "lvlText":
			at.text = attribute(e, "val")
		}
		return nil
	}); err != nil {
		return nil, err
	}
	style := ""
	err := inXML(styles, func(name xml.Name, _ *xml.Decoder, e xml.StartElement) error {
		at := l.styles[style]
		switch name.Local {
		case "style":
			style = attribute(e, "styleId")
			return nil
		case "numId":
			at.list = attribute(e, "val")
		case "ilvl":
			at.level = number(e, "val")
		default:
			return nil
		}
		l.styles[style] = at
		return nil
	})
	return l, err
}

// next counts an item and returns its number as people see it, such as 2.1 or b); "": it has none.
func (l *lists) next(at listPlace) string {
	form := l.forms[at.list]
	levels := l.levels[form]
	if levels == nil || at.level < 0 || at.level >= maxListLevels {
		return ""
	}
	counts := l.counts[form]
	if counts == nil {
		counts = &[maxListLevels]int{}
		l.counts[form] = counts
	}
	if starts := l.starts[at.list]; starts != nil && !l.begun[at.list] {
		for level, start := range starts {
			if start > 0 {
				counts[level] = start - 1
				levels[level].start = start
			}
		}
	}
	l.begun[at.list] = true
	for level := range at.level { // an item may be deeper than there are items above it
		if counts[level] == 0 {
			counts[level] = max(levels[level].start, 1)
		}
	}
	if counts[at.level]++; counts[at.level] == 1 {
		counts[at.level] = max(levels[at.level].start, 1)
	}
	clear(counts[at.level+1:])
	if level := levels[at.level]; level.format == "bullet" || level.format == "none" {
		return ""
	}
	text := levels[at.level].text
	for level := range at.level + 1 {
		text = strings.ReplaceAll(text, "%"+strconv.Itoa(level+1), listNumber(counts[level], levels[level].format))
	}
	return oneLine(text)
}

// listNumber writes a number in one of Word's formats; those of other scripts are in digits.
func listNumber(n int, format string) string {
	const most = 4000 // Roman numbers and letters are for small ones
	switch {
	case n <= 0 || n >= most:
	case strings.HasSuffix(format, "Letter"): // after z come aa, bb
		letter := string(rune('a' + (n-1)%26))
		text := strings.Repeat(letter, min((n-1)/26+1, 20))
		if format == "upperLetter" {
			text = strings.ToUpper(text)
		}
		return text
	case strings.HasSuffix(format, "Roman"):
		var text strings.Builder
		for _, part := range []struct {
			value int
			name  string
		}{{1000, "m"}, {900, "cm"}, {500, "d"}, {400, "cd"}, {100, "c"}, {90, "xc"}, {50, "l"}, {40, "xl"}, {10, "x"}, {9, "ix"}, {5, "v"}, {4, "iv"}, {1, "i"}} {
			for ; n >= part.value; n -= part.value {
				text.WriteString(part.name)
			}
		}
		if format == "upperRoman" {
			return strings.ToUpper(text.String())
		}
		return text.String()
	case format == "decimalZero" && n < 10:
		return "0" + strconv.Itoa(n)
	}
	return strconv.Itoa(n)
}
