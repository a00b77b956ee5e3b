package knowledge

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/ledongthuc/pdf"

	"github.com/planbot-go/planbot/internal/lazy"
)

const maxPages = 500

// The parser keeps all of a page in memory, at many times its size, and a small file may have a page of
// gigabytes. So a page is measured before it is parsed.
const (
	maxDrawingBytes = 4 << 20   // of a page, unpacked
	maxPageText     = 256 << 10 // bytes of it that are in strings
	maxSavedStates  = 100_000
	maxMapBytes     = 1 << 20   // of a font's table of characters, unpacked
	maxMapEntries   = 1_000_000 // that such a table may claim
)

// untilDone is a file that cannot be read any more when ctx has ended, so that most endless loops of a
// parser end.
type untilDone struct {
	ctx  context.Context //nolint:containedctx // it lives as long as one call
	data *bytes.Reader
}

func (u untilDone) ReadAt(p []byte, at int64) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.data.ReadAt(p, at)
}

// readPDF reads the text of a PDF, page by page. It may panic, and it may not end: see [readFile].
func readPDF(ctx context.Context, data []byte) (*read, error) {
	file, err := pdf.NewReader(untilDone{ctx, bytes.NewReader(data)}, int64(len(data)))
	switch {
	case err == pdf.ErrInvalidPassword: //nolint:errorlint // the library returns it as it is
		return nil, refusal("needs a password")
	case err != nil:
		return nil, unreadable
	}
	pages := file.NumPage()
	switch {
	case pages > maxPages:
		return nil, refusal(fmt.Sprintf("has %d pages, %d are read at most", pages, maxPages))
	case pages < 1:
		return nil, unreadable
	}
	r := &read{pages: pages, title: oneLine(file.Trailer().Key("Info").Key("Title").Text())}
	left := maxCharacters
	for number := 1; number <= pages; number++ {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		page := file.Page(number)
		if !modest(page) {
			return nil, refusal(fmt.Sprintf("has a page that is too complex to read, page %d", number))
		}
		text, err := textOfPage(page)
		if err != nil {
			return nil, unreadable
		}
		if left -= utf8.RuneCountInString(text); left < 0 {
			return nil, tooMuchText
		}
		if strings.TrimSpace(text) == "" {
			continue
		}
		r.blocks = append(r.blocks, block{kind: heading, level: 1, text: fmt.Sprintf("page %d", number)})
		for _, p := range paragraphs(text) {
			r.blocks = append(r.blocks, block{kind: paragraph, text: p})
		}
	}
	if len(r.blocks) == 0 {
		return nil, refusal("has pages and no text, as a scan has; make its text readable (OCR) first")
	}
	return r, nil
}

// modest reports whether a page can be parsed in little memory.
func modest(page pdf.Page) bool {
	d := drawing{}
	contents := page.V.Key("Contents")
	for i := range max(contents.Len(), 1) {
		stream := contents
		if contents.Kind() == pdf.Array {
			stream = contents.Index(i)
		}
		if stream.Kind() == pdf.Stream && !unpack(stream, maxDrawingBytes, &d) {
			return false
		}
		if d.bytes > maxDrawingBytes || d.text > maxPageText || d.saved > maxSavedStates {
			return false
		}
	}
	for _, name := range page.Fonts() {
		characters := bytes.Buffer{}
		table := page.Font(name).V.Key("ToUnicode")
		if table.Kind() == pdf.Stream && (!unpack(table, maxMapBytes, &characters) || entries(characters.Bytes()) > maxMapEntries) {
			return false
		}
	}
	return true
}

// unpack writes a stream to out. It returns false if there is more than most bytes of it. What is damaged
// ends early.
func unpack(stream pdf.Value, most int64, out io.Writer) bool {
	in := stream.Reader()
	defer func() { _ = in.Close() }() // it was only read
	n, _ := io.Copy(out, io.LimitReader(in, most+1))
	return n <= most
}

// drawing measures what is written to it: the commands of a page.
type drawing struct {
	bytes, text, saved int

	open    int  // parentheses
	hex     bool // in a string of digits
	escaped bool
	before  [2]byte
}

func (d *drawing) Write(p []byte) (int, error) {
	d.bytes += len(p)
	for _, c := range p {
		switch {
		case d.escaped:
			d.escaped = false
		case d.open > 0 && c == '\\':
			d.escaped = true
		case c == '(':
			d.open++
		case d.open > 0 && c == ')':
			d.open--
		case d.open == 0 && (c == '<' || c == '>'):
			d.hex = c == '<'
		}
		if d.open > 0 || d.hex {
			d.text++
		}
		if d.before[1] == 'q' && ends(c) && ends(d.before[0]) {
			d.saved++
		}
		d.before = [2]byte{d.before[1], c}
	}
	return len(p), nil
}

// ends reports whether a word of a PDF ends before c.
func ends(c byte) bool { return bytes.IndexByte([]byte("\x00\t\n\f\r ()<>[]{}/%"), c) >= 0 }

var (
	quoted  = lazy.Regexp(`<[0-9A-Fa-f\s]*>|\[[^\[\]]*\]`)
	numbers = lazy.Regexp(`(?:^|[\s<>\[\]()/{}%])[+]?(\d+)`)
)

// entries is how many entries a font's table of characters may claim to have: the parser believes the number
// in front of each part.
func entries(table []byte) int {
	table = quoted().ReplaceAll(table, []byte(" "))
	most := 1
	for _, m := range numbers().FindAllSubmatch(table, -1) {
		n, err := strconv.Atoi(string(m[1]))
		if err != nil || n > maxMapEntries {
			return maxMapEntries + 1
		}
		most = max(most, n)
	}
	return most * (bytes.Count(table, []byte("endbf")) + bytes.Count(table, []byte("endcodespace")))
}

// textOfPage returns the text in the order in which the page has it, with a line for each height.
func textOfPage(page pdf.Page) (string, error) {
	if page.V.IsNull() || page.V.Key("Contents").Kind() == pdf.Null {
		return "", nil
	}
	var b strings.Builder
	var lastX, lastY, size float64
	for i, t := range page.Content().Text {
		if t.S == "" {
			continue
		}
		down := lastY - t.Y
		if down < 0 {
			down = -down
		}
		switch {
		case i == 0:
		case down > 2*max(size, t.FontSize):
			b.WriteString("\n\n")
		case down > 0.5*max(size, t.FontSize):
			b.WriteByte('\n')
		case t.X-lastX > 0.2*t.FontSize && t.S != " ":
			b.WriteByte(' ')
		}
		b.WriteString(t.S)
		lastX, lastY, size = t.X+t.W, t.Y, t.FontSize
		if b.Len() > 4*maxCharacters {
			return "", tooMuchText
		}
	}
	return b.String(), nil
}
