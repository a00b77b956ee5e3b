package knowledge

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/planbot-go/planbot/internal/pdftext"
)

const maxPages = 500

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
	left, pictures, unknown := maxCharacters, 0, 0
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
			if page.Picture {
				pictures++
			}
			continue
		}
		r.blocks = append(r.blocks, block{kind: heading, level: 1, text: fmt.Sprintf("page %d", number+1)})
		for _, p := range paragraphs(page.Text) {
			r.blocks = append(r.blocks, block{kind: paragraph, text: p})
		}
	}
	r.leave(pictures, "page that is a picture", "pages that are pictures")
	r.leave(unknown, "character whose font does not say what it is", "characters whose fonts do not say what they are")
	if len(r.blocks) == 0 {
		return nil, refusal("has pages and no text, as a scan has; make its text readable (OCR) first")
	}
	return r, nil
}
