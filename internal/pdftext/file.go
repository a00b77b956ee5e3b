// Package pdftext reads the text of PDF files: in the order in which they draw it, with words, lines and
// paragraphs told apart, also in forms, in the fields of forms and in text from right to left. It repairs
// files whose tables are wrong, and decrypts those that need no password.
//
// Nothing that it makes is as large as a number in the file says: all of it grows with bytes that were read,
// what is unpacked is counted, references that lead back to themselves end, and everything ends with the
// context.
package pdftext

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"maps"
)

// Errors of [Open].
var (
	// ErrDamaged says that a file has no pages that can be found.
	ErrDamaged = errors.New("damaged PDF")
	// ErrPassword says that a file needs a password.
	ErrPassword = errors.New("PDF that needs a password")
	// ErrTooLarge says that a file unpacks to more than is read.
	ErrTooLarge = errors.New("PDF that unpacks to too much")
)

// Limits of a document. Nothing is made as large as a number in the file says: everything grows with bytes
// that were read, and what is unpacked is counted here.
const (
	maxUnpacked       = 400 << 20 // of all streams together
	maxUnpackedStream = 32 << 20
	maxDrawing        = 16 << 20   // commands of a page
	maxCommands       = 20_000_000 // of all pages together
	maxObjects        = 2_000_000
	maxTreeDepth      = 60
)

// Document is an open PDF. It is not safe for concurrent use.
type Document struct {
	ctx      context.Context //nolint:containedctx // it lives as long as one file is read
	data     []byte
	xref     map[int]place
	objects  map[int]any
	reading  map[int]bool // objects that are being read, which may lead back to themselves
	trailer  dict
	crypt    *crypt // nil: not encrypted
	pages    []dict
	unpacked int64
	commands int
	next     int // commands after which to look whether the context has ended
	drawn    int // forms
	fonts    map[ref]*font
	rebuilt  bool
}

// place is where an object is: at an offset of the file, or the index within an object stream.
type place struct {
	at     int
	within int // number of the object stream; 0: none
}

// Open finds the pages of a file. ctx ends this and all that is done with the document.
func Open(ctx context.Context, data []byte) (*Document, error) {
	at := bytes.Index(data[:min(len(data), 1024)], []byte("%PDF-"))
	if at > 0 {
		data = data[at:]
	}
	d := &Document{ctx: ctx, data: data, fonts: map[ref]*font{}}
	d.reset()
	d.readXref()
	err := d.open()
	if errors.Is(err, ErrDamaged) && ctx.Err() == nil {
		d.reset()
		d.rebuildXref()
		err = d.open()
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return d, err
}

func (d *Document) reset() {
	d.xref, d.objects, d.reading = map[int]place{}, map[int]any{}, map[int]bool{}
	d.trailer, d.crypt, d.pages = dict{}, nil, nil
}

func (d *Document) open() error {
	if encrypt, ok := d.resolve(d.trailer["Encrypt"]).(dict); ok {
		c, err := unlock(d, encrypt)
		if err != nil {
			return err
		}
		d.crypt, d.objects = c, map[int]any{}
	}
	root := d.dict(d.trailer["Root"])
	d.collect(d.dict(root["Pages"]), dict{}, map[ref]bool{}, 0)
	if len(d.pages) == 0 && d.rebuilt {
		for number := range d.xref { // pages without a tree
			page := d.dict(ref{number, 0})
			if page["Type"] == name("Page") && len(d.pages) < maxObjects {
				d.pages = append(d.pages, page)
			}
		}
	}
	switch {
	case d.ctx.Err() != nil:
		return d.ctx.Err()
	case d.unpacked > maxUnpacked:
		return ErrTooLarge
	case len(d.pages) == 0:
		return ErrDamaged
	}
	return nil
}

// collect lists the pages below a node, with what they inherit.
func (d *Document) collect(node, inherited dict, seen map[ref]bool, depth int) {
	if node == nil || depth > maxTreeDepth || len(d.pages) > maxObjects || d.ctx.Err() != nil {
		return
	}
	own := dict{}
	for _, key := range []name{"Resources", "MediaBox", "CropBox", "Rotate"} {
		own[key] = cmp.Or(node[key], inherited[key])
	}
	kids, ok := d.resolve(node["Kids"]).(array)
	if !ok {
		if node["Type"] == name("Pages") && node["Contents"] == nil {
			return
		}
		page := maps.Clone(node)
		maps.Copy(page, own)
		d.pages = append(d.pages, page)
		return
	}
	for _, kid := range kids {
		if r, ok := kid.(ref); ok {
			if seen[r] {
				continue
			}
			seen[r] = true
		}
		d.collect(d.dict(kid), own, seen, depth+1)
	}
}

func (d *Document) resolve(o any) any {
	for range 20 {
		r, ok := o.(ref)
		if !ok {
			return o
		}
		o = d.load(r.number)
	}
	return nil
}

func (d *Document) dict(o any) dict {
	switch o := d.resolve(o).(type) {
	case dict:
		return o
	case *stream:
		return o.dict
	}
	return nil
}

func (d *Document) array(o any) array {
	a, _ := d.resolve(o).(array)
	return a
}

func (d *Document) int(o any) (int, bool) {
	switch n := d.resolve(o).(type) {
	case int:
		return n, true
	case float64:
		return int(n), true
	}
	return 0, false
}

func (d *Document) number(o any) float64 {
	switch n := d.resolve(o).(type) {
	case int:
		return float64(n)
	case float64:
		return n
	}
	return 0
}

// load reads an object. What is damaged or leads back to itself is nil.
func (d *Document) load(number int) any {
	if o, ok := d.objects[number]; ok {
		return o
	}
	at, ok := d.xref[number]
	if !ok || d.reading[number] || d.ctx.Err() != nil {
		return nil
	}
	d.reading[number] = true
	defer delete(d.reading, number)
	var o any
	if at.within > 0 {
		d.loadWithin(at.within)
		o = d.objects[number]
	} else if found, id, ok := d.objectAt(at.at); ok && id.number == number {
		o = found
	} else if !d.rebuilt && d.trailer["Root"] != nil {
		d.rebuildXref() // offsets are wrong
		if at, ok := d.xref[number]; ok && at.within == 0 {
			if found, id, ok := d.objectAt(at.at); ok && id.number == number {
				o = found
			}
		}
	}
	if len(d.objects) < maxObjects {
		d.objects[number] = o
	}
	return o
}

// loadWithin reads all objects of an object stream.
func (d *Document) loadWithin(number int) {
	s, ok := d.load(number).(*stream)
	if !ok {
		return
	}
	first, _ := d.int(s.dict["First"])
	unpacked := unpack(d, s)
	if first < 0 || first > len(unpacked) {
		return
	}
	head := lexer{data: unpacked[:first]}
	for {
		n, ok := head.object(0)
		offset, more := head.object(0)
		id, isInt := n.(int)
		at, isOffset := offset.(int)
		if !ok || !more || !isInt || !isOffset || d.ctx.Err() != nil {
			return
		}
		if at < 0 || first+at > len(unpacked) || d.xref[id].within != number {
			continue
		}
		body := lexer{data: unpacked, at: first + at}
		if _, known := d.objects[id]; !known && len(d.objects) < maxObjects {
			d.objects[id], _ = body.object(0)
		}
	}
}

// objectAt reads "1 0 obj …" at an offset.
func (d *Document) objectAt(at int) (o any, id ref, ok bool) {
	if at < 0 || at >= len(d.data) {
		return nil, ref{}, false
	}
	l := lexer{data: d.data, at: at}
	n, _ := l.object(0)
	g, _ := l.object(0)
	word, _ := l.object(0)
	number, isInt := n.(int)
	generation, isGeneration := g.(int)
	if !isInt || !isGeneration || word != op("obj") {
		return nil, ref{}, false
	}
	id = ref{number, generation}
	o, ok = l.object(0)
	if !ok {
		return nil, id, false
	}
	if _, isInt := o.(int); isInt { // may be "5 0 R"
		after := l
		second, _ := after.object(0)
		third, _ := after.object(0)
		list := references(array{o, second, third})
		if len(list) == 1 {
			return list[0], id, true
		}
	}
	if head, isDict := o.(dict); isDict {
		l.space()
		if bytes.HasPrefix(l.data[l.at:], []byte("stream")) {
			return d.streamAt(head, id, l.at+len("stream")), id, true
		}
	}
	return d.crypt.strings(o, id), id, true
}

// streamAt reads the bytes of a stream, which begin behind the word.
func (d *Document) streamAt(head dict, id ref, at int) *stream {
	if bytes.HasPrefix(d.data[at:], []byte("\r\n")) {
		at += 2
	} else if at < len(d.data) && (d.data[at] == '\n' || d.data[at] == '\r') {
		at++
	}
	rest := d.data[at:]
	s := &stream{dict: head, id: id}
	if d.crypt != nil {
		s.dict, _ = d.crypt.strings(head, id).(dict)
	}
	if n, ok := d.int(head["Length"]); ok && n >= 0 && n <= len(rest) {
		after := bytes.TrimLeft(rest[n:min(n+20, len(rest))], " \r\n\t\x00")
		if bytes.HasPrefix(after, []byte("endstream")) || bytes.HasPrefix(after, []byte("endobj")) {
			s.raw = rest[:n]
			return s
		}
	}
	end := bytes.Index(rest, []byte("endstream"))
	if end < 0 {
		end = bytes.Index(rest, []byte("endobj"))
	}
	if end < 0 {
		end = len(rest)
	}
	s.raw = bytes.TrimSuffix(bytes.TrimSuffix(rest[:end], []byte("\n")), []byte("\r"))
	return s
}

// readXref reads the tables of a file, the newest first.
func (d *Document) readXref() {
	tail := d.data[max(0, len(d.data)-4096):]
	at := bytes.LastIndex(tail, []byte("startxref"))
	if at < 0 {
		return
	}
	l := lexer{data: tail, at: at + len("startxref")}
	start, _ := l.object(0)
	next, _ := start.(int)
	for seen := map[int]bool{}; next > 0 && next < len(d.data) && !seen[next] && d.ctx.Err() == nil; {
		seen[next] = true
		trailer := d.section(next)
		for key, value := range trailer {
			d.trailer[key] = cmp.Or(d.trailer[key], value)
		}
		if hybrid, ok := trailer["XRefStm"].(int); ok && !seen[hybrid] {
			seen[hybrid] = true
			d.section(hybrid)
		}
		next, _ = trailer["Prev"].(int)
	}
}

// section reads one table and returns its trailer.
func (d *Document) section(at int) dict {
	if at < 0 || at >= len(d.data) {
		return nil
	}
	l := lexer{data: d.data, at: at}
	first, _ := l.object(0)
	if first == op("xref") {
		return d.table(&l)
	}
	o, _, _ := d.objectAt(at)
	s, ok := o.(*stream)
	if !ok {
		return nil
	}
	d.xrefStream(s)
	return s.dict
}

func (d *Document) table(l *lexer) dict {
	for d.ctx.Err() == nil {
		o, ok := l.object(0)
		if o == op("trailer") {
			trailer, _ := l.object(0)
			t, _ := trailer.(dict)
			return t
		}
		count, _ := l.object(0)
		first, isInt := o.(int)
		n, isCount := count.(int)
		if !ok || !isInt || !isCount {
			return nil
		}
		for i := 0; i < n && len(d.xref) < maxObjects; i++ {
			before := l.at
			offset, _ := l.object(0)
			if offset == op("trailer") {
				l.at = before
				break
			}
			_, _ = l.object(0)
			kind, ok := l.object(0)
			if !ok {
				return nil
			}
			if at, ok := offset.(int); ok && kind == op("n") {
				d.place(first+i, place{at: at})
			}
		}
	}
	return nil
}

func (d *Document) place(number int, at place) {
	if _, known := d.xref[number]; !known && number >= 0 && len(d.xref) < maxObjects {
		d.xref[number] = at
	}
}

func (d *Document) xrefStream(s *stream) {
	var width [3]int
	for i, w := range d.array(s.dict["W"]) {
		if n, ok := w.(int); ok && i < 3 && n >= 0 && n <= 8 {
			width[i] = n
		}
	}
	row := width[0] + width[1] + width[2]
	if row == 0 {
		return
	}
	index := d.array(s.dict["Index"])
	if len(index) == 0 {
		index = array{0, len(d.data)}
	}
	entries := unpackPlain(d, s)
	for i := 0; i+1 < len(index); i += 2 {
		first, _ := index[i].(int)
		count, _ := index[i+1].(int)
		for n := 0; n < count && len(entries) >= row; n++ {
			kind := 1
			if width[0] > 0 {
				kind = bigEndian(entries[:width[0]])
			}
			second := bigEndian(entries[width[0] : width[0]+width[1]])
			switch kind {
			case 1:
				d.place(first+n, place{at: second})
			case 2:
				d.place(first+n, place{within: second})
			}
			entries = entries[row:]
		}
	}
}

func bigEndian(b []byte) (n int) {
	for _, c := range b {
		n = n<<8 | int(c)
	}
	return n
}

// rebuildXref finds all objects of a file whose tables are of no use.
func (d *Document) rebuildXref() {
	d.rebuilt = true
	d.xref, d.objects = map[int]place{}, map[int]any{}
	for at := 0; d.ctx.Err() == nil; {
		next := bytes.Index(d.data[at:], []byte("obj"))
		if next < 0 {
			break
		}
		at += next
		if number, start, ok := headBefore(d.data, at); ok && len(d.xref) < maxObjects {
			d.xref[number] = place{at: start} // the last one counts
		}
		at += len("obj")
	}
	for at := 0; d.ctx.Err() == nil; {
		next := bytes.Index(d.data[at:], []byte("trailer"))
		if next < 0 {
			break
		}
		at += next + len("trailer")
		l := lexer{data: d.data, at: at}
		o, _ := l.object(0)
		if t, ok := o.(dict); ok {
			for key, value := range t {
				if key != "Root" || d.dict(value) != nil {
					d.trailer[key] = value
				}
			}
		}
	}
	var packed []*stream
	for number, at := range d.xref {
		if d.ctx.Err() != nil {
			return
		}
		if at.within > 0 {
			continue
		}
		switch o, _, _ := d.objectAt(at.at); o := o.(type) {
		case *stream:
			switch o.dict["Type"] {
			case name("XRef"):
				for _, key := range []name{"Root", "Encrypt", "ID", "Info"} {
					if d.trailer[key] == nil && o.dict[key] != nil {
						d.trailer[key] = o.dict[key]
					}
				}
			case name("ObjStm"):
				o.id.number = number
				packed = append(packed, o)
			}
		case dict:
			if o["Type"] == name("Catalog") && d.trailer["Root"] == nil {
				d.trailer["Root"] = ref{number, 0}
			}
		}
	}
	if encrypt, ok := d.resolve(d.trailer["Encrypt"]).(dict); ok && d.crypt == nil {
		d.crypt, _ = unlock(d, encrypt)
		d.objects = map[int]any{}
	}
	for _, s := range packed {
		unpacked := unpack(d, s)
		first, _ := d.int(s.dict["First"])
		head := lexer{data: unpacked[:max(0, min(first, len(unpacked)))]}
		for d.ctx.Err() == nil {
			n, _ := head.object(0)
			_, ok := head.object(0)
			number, isInt := n.(int)
			if !ok || !isInt {
				break
			}
			d.place(number, place{within: s.id.number})
			if d.trailer["Root"] == nil && d.dict(ref{number, 0})["Type"] == name("Catalog") {
				d.trailer["Root"] = ref{number, 0}
			}
		}
	}
}

// headBefore reads the two numbers in front of the word obj.
func headBefore(data []byte, at int) (number, start int, ok bool) {
	digits := func(end int) (n, from int, ok bool) {
		for end > 0 && isSpace(data[end-1]) {
			end--
		}
		from = end
		for from > 0 && end-from < 10 && data[from-1] >= '0' && data[from-1] <= '9' {
			from--
		}
		for _, c := range data[from:end] {
			n = n*10 + int(c-'0')
		}
		return n, from, from < end
	}
	_, middle, ok := digits(at)
	if !ok || middle == 0 || !isSpace(data[middle-1]) {
		return 0, 0, false
	}
	number, start, ok = digits(middle)
	return number, start, ok
}
