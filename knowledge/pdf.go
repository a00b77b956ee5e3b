package knowledge

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/ledongthuc/pdf"
)

const maxPages = 500

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
		text, err := textOfPage(file.Page(number))
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

var _ io.ReaderAt = untilDone{}
