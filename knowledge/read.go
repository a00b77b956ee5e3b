package knowledge

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"image/jpeg"
	"io"
	"net/http"
	"net/mail"
	"path"
	"runtime"
	"runtime/metrics"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extast "github.com/yuin/goldmark/extension/ast"
	markdown "github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding/unicode"

	"github.com/planbot-go/planbot/internal/lazy"
	"github.com/planbot-go/planbot/internal/pdftext"
	"github.com/planbot-go/planbot/internal/yamltext"
)

const (
	maxFileBytes  = 20 << 20
	maxCharacters = 2_000_000
	maxFileTime   = 10 * time.Second
	maxDepth      = 200 // of elements within elements
)

// read is what a reader found in a file.
type read struct {
	title, url string
	updated    time.Time
	access     []string // that the file itself states; nil: it states none
	blocks     []block
	pages      int      // 0: it has none
	left       []string // what was not read of it, such as "2 characters whose fonts do not say what they are"
	pictures   int      // pages that are pictures and no scans
	scans      []scan
}

// scan is a page of a PDF that is nothing but a JPEG.
type scan struct {
	Page          int // from 1
	At            int // index among the blocks where its text belongs
	Sum           [sha256.Size]byte
	Width, Height int
	JPEG          []byte `json:",omitempty"`
}

// whatLeft says what was not read of it, if so many of the scans were not.
func (r *read) whatLeft(scans int) []string {
	all := &read{}
	all.leave(r.pictures+scans, "page that is a picture", "pages that are pictures")
	return append(all.left, r.left...)
}

// leave notes that so many of something were not read.
func (r *read) leave(n int, one, many string) {
	switch {
	case n == 1:
		r.left = append(r.left, "1 "+one)
	case n > 1:
		r.left = append(r.left, fmt.Sprintf("%d %s", n, many))
	}
}

func (r *read) size() (n int) {
	for _, b := range r.blocks {
		n += len(b.head) + utf8.RuneCountInString(b.text)
	}
	return n
}

// refusal is why a file is not taken, as the end of a sentence that begins with its name.
type refusal string

func (r refusal) Error() string { return string(r) }

const (
	tooMuchText = refusal("has more than 2 million characters of text")
	tooSlow     = refusal("took longer than 10 seconds to read")
	tooComplex  = refusal("is too complex to read")
	unreadable  = refusal("is damaged: the reader of its format gave up")
	onlyScans   = refusal("has pages and no text, as a scan has; make its text readable (OCR) first")
)

// readFile reads a file by what its bytes are. Its name counts only between kinds of text. What needs a parser
// is read in a child process if there is a helper, which sends the JPEGs of scans if they are wanted. Without one, a reader that does not end soon after its time
// goes on by itself: stuck is then true.
func readFile(ctx context.Context, helper *Helper, name string, data []byte, jpegs bool) (r *read, stuck bool, err error) {
	reader, parses, err := readerOf(name, data)
	switch {
	case err != nil:
		return nil, false, err
	case helper != nil && parses:
		r, err = helper.read(ctx, name, data, jpegs)
	default:
		r, stuck, err = readHere(ctx, reader)
	}
	if err == nil && r.size() > maxCharacters {
		err = tooMuchText
	}
	return r, stuck, err
}

func readHere(ctx context.Context, reader reader) (r *read, stuck bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, maxFileTime)
	defer cancel()
	type answer struct {
		r   *read
		err error
	}
	answers := make(chan answer, 1)
	go func() {
		a := answer{err: unreadable} // what stays after a panic
		defer func() {
			_ = recover() // a reader of a damaged file panicked
			answers <- a
		}()
		a.r, a.err = reader(ctx)
	}()
	select {
	case a := <-answers:
		var why refusal
		switch {
		case ctx.Err() != nil && a.err != nil:
			return nil, false, whyEnded(ctx)
		case a.err != nil && !errors.As(a.err, &why):
			a.err = unreadable
		}
		return a.r, false, a.err
	case <-ctx.Done():
		soon := time.NewTimer(time.Second)
		defer soon.Stop()
		select {
		case <-answers:
		case <-soon.C:
			stuck = true
		}
		return nil, stuck, whyEnded(ctx)
	}
}

// whyEnded is the refusal of a file that took too long, or the end of the caller's context.
func whyEnded(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return tooSlow
	}
	return ctx.Err()
}

// wholePage matches the beginning of a page of HTML or XHTML.
var wholePage = lazy.Regexp(`(?i)^\s*(?:<\?xml[^>]*>\s*)?(?:<!--[^>]*-->\s*)*(?:<!doctype html|<html)[\s>]`)

// reader reads a file that it has. It may panic, and it may not end.
type reader func(ctx context.Context) (*read, error)

// maxMarkdownHere is how much Markdown without HTML is parsed in this process: so little never takes long.
const maxMarkdownHere = 64 << 10

// readerOf chooses a reader. parses says that it is a parser, which may take far more memory or time than the
// file has bytes.
func readerOf(name string, data []byte) (_ reader, parses bool, err error) {
	begins := func(magic string) bool { return bytes.HasPrefix(data, []byte(magic)) }
	kind := http.DetectContentType(data)
	switch {
	case len(bytes.TrimSpace(data)) == 0:
		return nil, false, refusal("is empty")
	case bytes.Contains(data[:min(len(data), 1024)], []byte("%PDF-")):
		return func(ctx context.Context) (*read, error) { return readPDF(ctx, data) }, true, nil
	case begins("PK\x03\x04"), begins("PK\x05\x06"):
		return func(ctx context.Context) (*read, error) { return readZip(ctx, data) }, true, nil
	case begins("\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"):
		return nil, false, refusal("is an old or an encrypted Office file; save it as DOCX, XLSX or PDF without a password")
	case begins(`{\rtf`):
		return nil, false, refusal("is RTF, which is not read; save it as DOCX")
	case strings.HasPrefix(kind, "image/"):
		return nil, false, refusal("is a picture: it has no text")
	}
	text, err := textOf(data)
	if err != nil {
		return nil, false, err
	}
	ending := strings.ToLower(path.Ext(name))
	isMarkdown := ending == ".md" || ending == ".markdown" // which often begins with a tag
	switch {
	case isMail(text):
		return nil, false, refusal("is an e-mail (EML), which is not read")
	case name != "" && !isMarkdown && statesAccess(text): // what a person sends has no name here, and no access
		return nil, false, refusal("states access, which counts in Markdown only; name it .md")
	case wholePage().MatchString(text), ending == ".html", ending == ".htm", !isMarkdown && strings.HasPrefix(http.DetectContentType([]byte(text[:min(len(text), 512)])), "text/html"):
		return func(ctx context.Context) (*read, error) { return readHTML(ctx, text) }, true, nil
	case isMarkdown:
		parses := len(text) > maxMarkdownHere || strings.Contains(text, "<")
		return func(ctx context.Context) (*read, error) { return readMarkdown(ctx, text) }, parses, nil
	}
	return func(context.Context) (*read, error) {
		r := &read{}
		for _, p := range paragraphs(text) {
			r.blocks = append(r.blocks, block{kind: paragraph, text: p})
		}
		return r, nil
	}, false, nil
}

var declaresCharset = lazy.Regexp(`(?i)<meta\s[^>]*charset`)

// textOf decodes a text: UTF-8, UTF-16 with a mark, or what a page of HTML declares. Its lines end with \n.
func textOf(data []byte) (string, error) {
	if !utf8.Valid(data) && declaresCharset().Match(data[:min(len(data), 1024)]) {
		form, _, _ := charset.DetermineEncoding(data, "")
		if decoded, err := form.NewDecoder().Bytes(data); err == nil && !bytes.ContainsRune(decoded, utf8.RuneError) {
			data = decoded
		}
	}
	switch {
	case bytes.HasPrefix(data, []byte("\xff\xfe")), bytes.HasPrefix(data, []byte("\xfe\xff")):
		decoded, err := unicode.UTF16(unicode.LittleEndian, unicode.UseBOM).NewDecoder().Bytes(data)
		if err != nil {
			return "", unreadable
		}
		data = decoded
	case bytes.IndexByte(data, 0) >= 0:
		return "", refusal("is of no format that is read")
	case !utf8.Valid(data):
		return "", refusal("is of no format that is read; if it is text, save it as UTF-8")
	}
	text := strings.TrimPrefix(string(data), "\ufeff")
	return strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n"), nil
}

// isMail reports whether a text begins with the header of an e-mail.
func isMail(text string) bool {
	m, err := mail.ReadMessage(strings.NewReader(text[:min(len(text), 64<<10)]))
	if err != nil {
		return false
	}
	known := 0
	for _, field := range []string{"From", "Received", "Message-Id", "Mime-Version", "Date", "Return-Path"} {
		if m.Header.Get(field) != "" {
			known++
		}
	}
	return known >= 2
}

func paragraphs(text string) (all []string) {
	var lines []string
	flush := func() {
		if len(lines) > 0 {
			all = append(all, strings.Join(lines, "\n"))
		}
		lines = nil
	}
	for line := range strings.Lines(text) {
		if line = strings.TrimRight(line, " \t\n\f"); line == "" {
			flush()
		} else {
			lines = append(lines, line)
		}
	}
	flush()
	return all
}

var (
	frontMatterEnd    = lazy.Regexp(`(?m)^(?:---|\.\.\.)[ \t]*(?:\n|\z)`)
	frontMatterAccess = lazy.Regexp(`(?mi)^["']?access["']?[ \t]*:`)
)

// statesAccess reports whether a text begins as front matter that says who may read it.
func statesAccess(text string) bool {
	first, after, _ := strings.Cut(strings.TrimLeft(text, " \t\n"), "\n")
	if end := frontMatterEnd().FindStringIndex(after); end != nil {
		after = after[:end[0]]
	}
	return strings.TrimRight(first, " \t") == "---" && frontMatterAccess().MatchString(after)
}

// frontMatter takes the YAML between two lines --- off the beginning of a text. It rather refuses a document
// than lets others read it than its author has written down.
func (r *read) frontMatter(text string) (rest string, err error) {
	first, after, _ := strings.Cut(strings.TrimLeft(text, " \t\n"), "\n")
	if strings.TrimRight(first, " \t") != "---" {
		return text, nil
	}
	end := frontMatterEnd().FindStringIndex(after)
	switch {
	case end == nil && frontMatterAccess().MatchString(after):
		return "", refusal("states access, but not between two lines ---")
	case end == nil:
		return text, nil // a line
	}
	matter, rest := after[:end[0]], after[end[1]:]
	var fields struct {
		Title   any             `json:"title"`
		URL     any             `json:"url"`
		Updated any             `json:"updated"`
		Access  json.RawMessage `json:"access"`
	}
	raw, err := yamltext.JSON([]byte(matter))
	if err != nil || json.Unmarshal(raw, &fields) != nil {
		return "", refusal("has front matter that is no YAML with fields")
	}
	r.title, _ = fields.Title.(string)
	r.url, _ = fields.URL.(string)
	if updated, ok := fields.Updated.(string); ok {
		if r.updated, err = time.Parse(time.DateOnly, updated[:min(len(updated), 10)]); err != nil {
			return "", refusal("has front matter whose updated is no date such as 2026-01-31")
		}
	}
	if len(fields.Access) > 0 {
		one := ""
		if json.Unmarshal(fields.Access, &one) == nil {
			r.access = []string{one}
		} else if json.Unmarshal(fields.Access, &r.access) != nil || len(r.access) == 0 {
			return "", refusal("has front matter whose access is no name and no list of names")
		}
		if _, err := accessTokens("", r.access); err != nil {
			return "", refusal("has front matter with wrong access: " + err.Error())
		}
	}
	return rest, nil
}

const maxCells = 500_000 // limits the cells of a document's tables

// tableRule matches the line between head and rows of a table.
var tableRule = lazy.Regexp(`^[ \t>]*[|:-][ \t|:-]*\|[ \t|:-]*\n?$`)

// readMarkdown reads Markdown with tables. Of raw HTML it keeps what people see.
func readMarkdown(ctx context.Context, text string) (*read, error) {
	r := &read{}
	text, err := r.frontMatter(text)
	if err != nil {
		return nil, err
	}
	columns, cells := 0, 0 // the parser makes a cell of each column for each row, also where the row has none
	for line := range strings.Lines(text) {
		if tableRule().MatchString(line) {
			columns = max(columns, strings.Count(line, "|")+1)
		} else if strings.TrimSpace(line) == "" {
			columns = 0
		}
		if cells += columns; cells > maxCells {
			return nil, refusal(fmt.Sprintf("has tables of more than %d cells", maxCells))
		}
		nested := strings.TrimLeft(line, " \t>-+*0123456789.)")
		if strings.Count(line[:len(line)-len(nested)], ">")+strings.Count(line[:len(line)-len(nested)], "- ") > maxDepth {
			return nil, refusal("nests quotes and lists too deeply")
		}
	}
	source := []byte(text)
	root := goldmark.New(goldmark.WithExtensions(extension.Table)).Parser().Parse(markdown.NewReader(source))
	m := markdownReader{read: r, source: source}
	m.html = func(text string) (within *read, err error) {
		if m.fault == nil {
			within, m.fault = readHTML(ctx, text)
		}
		return within, m.fault
	}
	m.blocks(root, 0)
	return r, m.fault
}

// markdownReader turns a tree of Markdown into blocks.
type markdownReader struct {
	*read
	source []byte
	html   func(text string) (*read, error) // reads raw HTML
	fault  error                            // of its raw HTML
	hiding string                           // the element of raw HTML around here that people do not see
	deep   int                              // how many of its name are open
}

// endLater are elements that end by their end tag alone, so that what follows raw HTML may be in them.
var endLater = []atom.Atom{
	atom.Div, atom.Span, atom.Section, atom.Article, atom.Aside, atom.Main, atom.Details, atom.Blockquote, atom.Center, atom.Font,
	atom.B, atom.I, atom.Em, atom.Strong, atom.Small, atom.Sub, atom.Sup, atom.A, atom.U, atom.S, atom.Template, atom.Nav, atom.Footer,
}

// tags notes which hidden element the tags of raw HTML leave open.
func (m *markdownReader) tags(raw string) {
	for z := html.NewTokenizer(strings.NewReader(raw)); z.Next() != html.ErrorToken; {
		t := z.Token()
		switch {
		case t.Type == html.StartTagToken && m.deep == 0 && slices.Contains(endLater, t.DataAtom) && hidden(&html.Node{DataAtom: t.DataAtom, Attr: t.Attr}):
			m.hiding, m.deep = t.Data, 1
		case t.Data != m.hiding || m.deep == 0:
		case t.Type == html.StartTagToken:
			m.deep++
		case t.Type == html.EndTagToken:
			m.deep--
		}
	}
}

func (m *markdownReader) blocks(parent ast.Node, depth int) {
	if depth > maxDepth {
		return
	}
	for n := parent.FirstChild(); n != nil; n = n.NextSibling() {
		b := block{kind: paragraph}
		if m.deep > 0 && n.Kind() != ast.KindHTMLBlock { // until a later block of HTML ends it
			continue
		}
		switch n := n.(type) {
		case *ast.Heading:
			b = block{kind: heading, level: n.Level, text: m.inline(n, depth)}
			if m.title == "" && n.Level == 1 {
				m.title = oneLine(b.text)
			}
		case *ast.FencedCodeBlock:
			b = block{kind: code, head: string(n.Language(m.source)), text: m.lines(n)}
		case *ast.CodeBlock:
			b = block{kind: code, text: m.lines(n)}
		case *ast.HTMLBlock:
			around := strings.Repeat("<"+m.hiding+" hidden>", min(m.deep, maxDepth))
			m.tags(m.lines(n))
			if within, err := m.html(around + m.lines(n)); err == nil {
				m.read.blocks = append(m.read.blocks, within.blocks...)
			}
			continue
		case *ast.List:
			b.text = m.list(n, depth, "")
		case *extast.Table:
			b = block{kind: table}
			for row := n.FirstChild(); row != nil; row = row.NextSibling() {
				var cells []string
				for cell := row.FirstChild(); cell != nil; cell = cell.NextSibling() {
					cells = append(cells, m.inline(cell, depth))
				}
				b.addRow(cells)
			}
			b = b.done()
		case *ast.Paragraph, *ast.TextBlock:
			b.text = m.inline(n, depth)
		default: // quotes
			m.blocks(n, depth+1)
			m.deep = 0
			continue
		}
		m.read.blocks = append(m.read.blocks, b)
		m.deep = 0
	}
}

// done is the block with its lines as its text. A table that has only a head is a paragraph.
func (b block) done() block {
	if len(b.lines) > 0 {
		b.text, b.lines = strings.Join(b.lines, "\n"), nil
	}
	if b.kind == table && b.text == "" {
		return block{kind: paragraph, text: b.head}
	}
	return b
}

// addRow adds a row to a table, whose first row is its head.
func (b *block) addRow(cells []string) {
	for i, cell := range cells {
		cells[i] = oneLine(cell)
	}
	row := "| " + strings.Join(cells, " | ") + " |"
	if b.head == "" {
		b.head = row
	} else {
		b.lines = append(b.lines, row)
	}
}

func (m *markdownReader) lines(n ast.Node) string {
	return string(n.Lines().Value(m.source))
}

// list writes a line for each item, with what is in it below it.
func (m *markdownReader) list(list *ast.List, depth int, indent string) string {
	if depth > maxDepth {
		return ""
	}
	var b strings.Builder
	number := list.Start
	for item := list.FirstChild(); item != nil; item = item.NextSibling() {
		mark := indent + "- "
		if list.IsOrdered() {
			mark = fmt.Sprintf("%s%d. ", indent, number)
			number++
		}
		for n := item.FirstChild(); n != nil; n = n.NextSibling() {
			switch n := n.(type) {
			case *ast.List:
				b.WriteString(m.list(n, depth+1, indent+"  "))
				continue
			case *ast.FencedCodeBlock, *ast.CodeBlock:
				b.WriteString(mark + m.lines(n))
			default:
				b.WriteString(mark + oneLine(m.inline(n, depth+1)) + "\n")
			}
			mark = indent + "  "
		}
	}
	return b.String()
}

// inline is the text of what is within a block, without marks.
func (m *markdownReader) inline(parent ast.Node, depth int) string {
	if depth > maxDepth {
		return ""
	}
	var b strings.Builder
	for n := parent.FirstChild(); n != nil; n = n.NextSibling() {
		if m.deep > 0 && n.Kind() != ast.KindRawHTML {
			continue
		}
		switch n := n.(type) {
		case *ast.Text:
			text := n.Segment.Value(m.source)
			if parent.Kind() != ast.KindCodeSpan {
				text = util.ResolveEntityNames(util.ResolveNumericReferences(util.UnescapePunctuations(text)))
			}
			b.Write(text)
			switch {
			case n.HardLineBreak():
				b.WriteByte('\n')
			case n.SoftLineBreak():
				b.WriteByte(' ')
			}
		case *ast.String:
			b.Write(n.Value)
		case *ast.AutoLink:
			b.Write(n.Label(m.source))
		case *ast.RawHTML:
			m.tags(string(n.Segments.Value(m.source)))
		default:
			b.WriteString(m.inline(n, depth+1))
			if n.Type() == ast.TypeBlock {
				b.WriteByte('\n')
			}
		}
	}
	return b.String()
}

// readHTML reads what people see of a page: no scripts, nothing hidden, and of a page with one main part
// only that.
func readHTML(ctx context.Context, text string) (*read, error) {
	root, err := html.Parse(&pageText{ctx: ctx, text: text})
	if err != nil {
		return nil, err
	}
	h := htmlReader{read: &read{}, hides: map[string]bool{}}
	h.styles(root, 0)
	if title := find(root, atom.Title, 0); title != nil && title.FirstChild != nil {
		h.title = oneLine(title.FirstChild.Data)
	}
	start := root
	if main := find(root, atom.Main, 0); main != nil {
		start = main
	}
	h.walk(start, 0)
	h.flush()
	return h.read, nil
}

// maxTree is how much memory the tree of a page may take, about. Its size has nothing to do with that of the
// page: the parser opens an element such as <b> again in each paragraph after one that did not close it, with
// all of its attributes.
// https://html.spec.whatwg.org/multipage/parsing.html#reconstruct-the-active-formatting-elements
const maxTree = 192 << 20

// pageText gives the text of a page to its parser, piece by piece, as long as ctx lasts and memory grows by
// no more than maxTree meanwhile.
type pageText struct {
	ctx       context.Context //nolint:containedctx // a reader has no other way to end
	text      string          // what is left
	given     int             // bytes
	most      uint64
	collected int // how often it has collected garbage, which may be all that has grown
}

func (p *pageText) Read(into []byte) (int, error) {
	now := heap()
	p.most = cmp.Or(p.most, now+maxTree)
	for ; now > p.most && p.collected < 2; p.collected++ {
		runtime.GC()
		now = heap()
	}
	switch {
	case p.ctx.Err() != nil:
		return 0, p.ctx.Err()
	case now > p.most:
		return 0, refusal("has a page that is too complex to read")
	case p.text == "":
		return 0, io.EOF
	}
	// One tag may make the parser copy all attributes so far eight times, and those take at most 24 times
	// their text.
	piece, tags := 0, (p.most-now)/uint64(8*24*p.given+1<<10)
	for tags = min(tags, 1000); piece < len(p.text) && piece < 4<<10; tags-- {
		next := strings.IndexByte(p.text[piece+1:], '<')
		if piece += 1 + next; next < 0 {
			piece = len(p.text)
		}
		if tags <= 1 {
			break
		}
	}
	n := copy(into, p.text[:min(piece, 4<<10)])
	p.text, p.given = p.text[n:], p.given+n
	return n, nil
}

// heap is how much memory the process has in use, with garbage.
func heap() uint64 {
	used := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(used)
	return used[0].Value.Uint64()
}

func find(n *html.Node, tag atom.Atom, depth int) *html.Node {
	if n.Type == html.ElementNode && n.DataAtom == tag {
		return n
	}
	for c := n.FirstChild; c != nil && depth < 1000; c = c.NextSibling {
		if found := find(c, tag, depth+1); found != nil {
			return found
		}
	}
	return nil
}

// htmlReader turns a page into blocks.
type htmlReader struct {
	*read
	text   strings.Builder // of the paragraph that grows
	rows   *block          // the table around it
	within int             // tables in a cell of that one
	hides  map[string]bool // see addStyles
}

// styles reads the style elements of a page.
func (h *htmlReader) styles(n *html.Node, depth int) {
	if n.DataAtom == atom.Style && n.FirstChild != nil {
		h.addStyles(n.FirstChild.Data)
	}
	for c := n.FirstChild; c != nil && depth < 1000; c = c.NextSibling {
		h.styles(c, depth+1)
	}
}

var (
	cssComment = lazy.Regexp(`(?s)/\*.*?(?:\*/|\z)`)
	cssAlways  = lazy.Regexp(`(?i)@media\s+(?:all|screen)\s*\{`)
)

// addStyles notes the selectors that hide text: those of an element, a class or an id, or of an element with
// one class or id. Rules for print or for some screens do not count.
func (h *htmlReader) addStyles(css string) {
	css = cssAlways().ReplaceAllString(cssComment().ReplaceAllString(css, ""), "")
	for css != "" {
		selectors, rest, _ := strings.Cut(css, "{")
		open, end := 1, 0
		for ; end < len(rest) && open > 0; end++ {
			switch rest[end] {
			case '{':
				open++
			case '}':
				open--
			}
		}
		style := strings.TrimSuffix(rest[:end], "}")
		css = rest[end:]
		selectors = selectors[strings.LastIndexAny(selectors, ";}")+1:]
		// White text may stand on the ground of another element.
		if strings.HasPrefix(strings.TrimSpace(selectors), "@") || !hiddenStyle(style+";background:black") {
			continue
		}
		for selector := range strings.SplitSeq(selectors, ",") {
			if selector = strings.TrimSpace(selector); selector != "html" && selector != "body" { // until a script shows them
				h.hides[selector] = true
			}
		}
	}
}

// hidden reports whether people do not see an element.
func (h *htmlReader) hidden(n *html.Node) bool {
	if hidden(n) || h.hides[n.Data] {
		return true
	}
	for _, a := range n.Attr {
		mark := map[string]string{"class": ".", "id": "#"}[a.Key]
		if mark == "" || len(h.hides) == 0 {
			continue
		}
		for name := range strings.FieldsSeq(a.Val) {
			if h.hides[mark+name] || h.hides[n.Data+mark+name] {
				return true
			}
		}
	}
	return false
}

func (h *htmlReader) flush() {
	if text := strings.TrimSpace(h.text.String()); text != "" {
		h.blocks = append(h.blocks, block{kind: paragraph, text: text})
	}
	h.text.Reset()
}

// line begins a line, unless it has just begun.
func (h *htmlReader) line() {
	if text := h.text.String(); text != "" && !strings.HasSuffix(text, "\n") {
		h.text.WriteByte('\n')
	}
}

func (h *htmlReader) walk(n *html.Node, depth int) {
	if depth > 1000 {
		return
	}
	if n.Type == html.TextNode {
		text := oneLine(n.Data)
		if text == "" {
			if n.Data != "" && h.text.Len() > 0 {
				h.text.WriteByte(' ')
			}
			return
		}
		if first, _ := utf8.DecodeRuneInString(n.Data); strings.ContainsRune(" \t\n", first) {
			h.text.WriteByte(' ')
		}
		h.text.WriteString(text)
		if last, _ := utf8.DecodeLastRuneInString(n.Data); strings.ContainsRune(" \t\n", last) {
			h.text.WriteByte(' ')
		}
		return
	}
	if n.Type == html.ElementNode && h.hidden(n) {
		return
	}
	within := func() {
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			h.walk(c, depth+1)
		}
	}
	switch n.DataAtom {
	case atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6:
		h.flush()
		within()
		text := oneLine(h.text.String())
		h.text.Reset()
		h.blocks = append(h.blocks, block{kind: heading, level: int(n.Data[1] - '0'), text: text})
		h.title = cmp.Or(h.title, text)
	case atom.Table:
		if h.rows != nil { // a table in a cell is text
			h.within++
			h.line()
			within()
			h.line()
			h.within--
			return
		}
		h.flush()
		h.rows = &block{kind: table}
		within()
		h.blocks = append(h.blocks, h.rows.done())
		h.rows = nil
		h.text.Reset()
	case atom.Tr:
		if h.rows == nil || h.within > 0 {
			h.line()
			within()
			h.line()
			return
		}
		var cells []string
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			if c.DataAtom == atom.Td || c.DataAtom == atom.Th {
				h.text.Reset()
				h.walk(c, depth+1)
				cells = append(cells, h.text.String())
			}
		}
		h.text.Reset()
		if len(cells) > 0 {
			h.rows.addRow(cells)
		}
	case atom.Td, atom.Th:
		within()
		h.text.WriteByte(' ')
	case atom.Caption:
		if h.within == 0 {
			h.flush()
			within()
			h.flush()
			return
		}
		within()
		h.line()
	case atom.Pre:
		h.flush()
		h.blocks = append(h.blocks, block{kind: code, text: h.textWithin(n, 0)})
	case atom.Br:
		h.text.WriteByte('\n')
	case atom.Li:
		h.line()
		h.text.WriteString("- ")
		within()
		h.line()
	case atom.P, atom.Div, atom.Section, atom.Article, atom.Blockquote, atom.Ul, atom.Ol, atom.Dl, atom.Body, atom.Main, atom.Header, atom.Figure, atom.Details:
		if h.rows != nil || n.Parent != nil && n.Parent.DataAtom == atom.Li {
			h.line()
			within()
			h.line()
			return
		}
		h.flush()
		within()
		h.flush()
	case atom.Dt, atom.Dd, atom.Summary, atom.Figcaption:
		h.line()
		within()
		h.line()
	default:
		within()
	}
}

func (h *htmlReader) textWithin(n *html.Node, depth int) string {
	if n.Type == html.TextNode {
		return n.Data
	}
	if depth > 1000 || n.Type == html.ElementNode && h.hidden(n) {
		return ""
	}
	var b strings.Builder
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		b.WriteString(h.textWithin(c, depth+1))
	}
	return b.String()
}

// hidden reports whether people do not see an element, or see it on every page.
func hidden(n *html.Node) bool {
	switch n.DataAtom {
	case atom.Script, atom.Style, atom.Noscript, atom.Template, atom.Head, atom.Iframe, atom.Object, atom.Svg, atom.Nav, atom.Footer, atom.Button, atom.Select:
		return true
	}
	for _, a := range n.Attr {
		switch strings.ToLower(a.Key) {
		case "hidden":
			return true
		case "aria-hidden":
			if strings.EqualFold(strings.TrimSpace(a.Val), "true") {
				return true
			}
		case "style":
			if hiddenStyle(a.Val) {
				return true
			}
		case "color": // of old pages
			if n.DataAtom == atom.Font && hiddenStyle("color:"+a.Val) {
				return true
			}
		}
	}
	return false
}

// hiddenStyle reports whether a style hides text, also as white text on no other ground.
func hiddenStyle(style string) bool {
	white, ground, squeezed, cut := false, false, false, false
	for rule := range strings.SplitSeq(strings.ToLower(style), ";") {
		name, value, _ := strings.Cut(rule, ":")
		value = strings.Join(strings.Fields(strings.TrimSuffix(strings.TrimSpace(value), "!important")), "")
		switch name = strings.TrimSpace(name); name {
		case "display":
			if value == "none" {
				return true
			}
		case "visibility":
			if value == "hidden" || value == "collapse" {
				return true
			}
		case "opacity", "font-size":
			if isZero(value) || value == "1px" {
				return true
			}
		case "height", "max-height", "width", "max-width":
			squeezed = squeezed || isZero(value)
		case "overflow":
			cut = value == "hidden" || value == "clip"
		case "clip":
			if strings.HasPrefix(value, "rect(0") || strings.HasPrefix(value, "rect(1px,1px") {
				return true
			}
		case "left", "top", "text-indent", "margin-left":
			if distance, ok := strings.CutPrefix(value, "-"); ok && len(strings.TrimRight(distance, "pxem")) >= 4 { // off the page
				return true
			}
		case "color":
			switch {
			case value == "transparent", strings.HasPrefix(value, "rgba(") && strings.HasSuffix(value, ",0)"):
				return true
			case value == "white", value == "#fff", value == "#ffffff", value == "rgb(255,255,255)":
				white = true
			}
		case "background", "background-color", "background-image":
			ground = value != "white" && value != "#fff" && value != "#ffffff" && value != "none" && value != "transparent"
		}
	}
	return white && !ground || squeezed && cut
}

// isZero reports whether a length is none.
func isZero(length string) bool {
	return length != "" && strings.Trim(length, "0.pxemrt%") == ""
}

const (
	maxPages = 500
	maxJPEGs = 16 << 20 // bytes of the scans of a file; further ones are pictures
)

// readPDF reads the text of a PDF, page by page.
func readPDF(ctx context.Context, data []byte) (*read, error) {
	file, err := pdftext.Open(ctx, data)
	switch {
	case errors.Is(err, pdftext.ErrPassword):
		return nil, refusal("needs a password")
	case errors.Is(err, pdftext.ErrTooLarge):
		return nil, tooComplex
	case err != nil:
		return nil, err
	case file.Pages() > maxPages:
		return nil, refusal(fmt.Sprintf("has %d pages, %d are read at most", file.Pages(), maxPages))
	}
	r := &read{pages: file.Pages(), title: oneLine(file.Title())}
	left, jpegs, unknown := maxCharacters, maxJPEGs, 0
	for number := range r.pages {
		page, err := file.Page(number)
		if errors.Is(err, pdftext.ErrTooLarge) {
			return nil, refusal(fmt.Sprintf("has a page that is too complex to read, page %d", number+1))
		}
		if err != nil {
			return nil, err
		}
		if left -= utf8.RuneCountInString(page.Text); left < 0 {
			return nil, tooMuchText
		}
		unknown += page.Unknown
		if strings.TrimSpace(page.Text) == "" {
			shape, err := jpeg.DecodeConfig(bytes.NewReader(page.Scan))
			switch {
			case err == nil && len(page.Scan) <= jpegs:
				jpegs -= len(page.Scan)
				r.scans = append(r.scans, scan{number + 1, len(r.blocks), sha256.Sum256(page.Scan), shape.Width, shape.Height, page.Scan})
			case page.Picture:
				r.pictures++
			}
			continue
		}
		r.blocks = append(r.blocks, pageBlocks(number+1, page.Text)...)
	}
	r.leave(unknown, "character whose font does not say what it is", "characters whose fonts do not say what they are")
	if len(r.blocks) == 0 && len(r.scans) == 0 {
		return nil, onlyScans
	}
	return r, nil
}

func pageBlocks(number int, text string) []block {
	all := []block{{kind: heading, level: 1, text: fmt.Sprintf("page %d", number)}}
	for _, p := range paragraphs(text) {
		all = append(all, block{kind: paragraph, text: p})
	}
	return all
}
