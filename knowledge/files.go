package knowledge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/internal/bm25"
)

// Files reads the files that people send, with the readers and limits of an [Index]. The zero Files is
// ready to use. It is safe for concurrent use.
type Files struct {
	// Helper reads what needs a parser in a process of its own. nil: it is read in this one, with sizes that
	// are checked and 10 seconds.
	Helper *Helper
}

// fileText is the text of a file, as it is kept.
type fileText struct {
	Pages int        `json:"pages,omitempty"` // 0: it has none
	Left  []string   `json:"left,omitempty"`  // what was not read
	Parts []filePart `json:"parts"`
}

type filePart struct {
	Path string `json:"path,omitempty"`
	Text string `json:"text"`
}

// Read returns the text of a file in the form that Show takes. Only its bytes count, not its name. Markdown
// is read as it is written. Errors: [actions.ErrFileTooLarge],
// [actions.ErrFileTooComplex], [actions.ErrFileNoText], [actions.ErrFileLocked], [actions.ErrFileDamaged],
// ctx's, or one that says what else is wrong, for the operator.
func (f Files) Read(ctx context.Context, _ string, content []byte) (text []byte, err error) {
	if len(content) > maxFileBytes {
		return nil, actions.ErrFileTooLarge
	}
	r, _, err := readFile(ctx, f.Helper, "", content, false) // a parser of Markdown takes very long for what is made for that
	if why, ok := errors.AsType[refusal](err); ok {
		return nil, fmt.Errorf("%w: it %w", why.forPerson(), why)
	}
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("%w: %w", actions.ErrFileTooComplex, err) // no child could be started
	}
	if err != nil {
		return nil, err
	}
	kept := fileText{Pages: r.pages, Left: r.whatLeft(len(r.scans))}
	for _, p := range (&chunker{most: maxChunkTokens, count: countTokens}).cut(r.blocks) {
		kept.Parts = append(kept.Parts, filePart{clean(p.path), clean(p.text)})
	}
	if len(kept.Parts) == 0 {
		return nil, actions.ErrFileNoText
	}
	return json.Marshal(kept)
}

var errUnread = errors.New("the file cannot be read") // any other reason for which a file is not read

// forPerson is the reason as people are told.
func (r refusal) forPerson() error {
	begins := func(any ...string) bool {
		return slices.ContainsFunc(any, func(with string) bool { return strings.HasPrefix(string(r), with) })
	}
	switch {
	case r == tooSlow, r == tooMuchMemory, r == tooComplex, begins("has a page that is too", "is an archive that is too complex"):
		return actions.ErrFileTooComplex
	case r == unreadable, r == broke:
		return actions.ErrFileDamaged
	case r == tooMuchText, begins("has ") && strings.Contains(string(r), " pages, "), begins("is an archive of", "is an archive that"):
		return actions.ErrFileTooLarge
	case begins("has pages and no text", "is empty"):
		return actions.ErrFileNoText
	case begins("needs a password"):
		return actions.ErrFileLocked
	}
	return errUnread
}

// Show returns of a text that Read returned what fits into so many tokens: all of it, or the parts that
// have the question's words, and then those at its beginning, in the order of the file. looked is how
// many pages or, if pages is unset, parts of so many that is. shown is empty if the text is not one that
// Read returned.
func (Files) Show(text []byte, question string, tokens int) (shown string, looked, of int, pages bool) {
	var kept fileText
	if json.Unmarshal(text, &kept) != nil || len(kept.Parts) == 0 {
		return "", 0, 0, false
	}
	words := bm25.New(len(kept.Parts), func(i int) []string { return wordsOf(kept.Parts[i].Path + "\n" + kept.Parts[i].Text) })
	var order []int
	for _, h := range words.Rank(wordsOf(question), func(int) bool { return true }, len(kept.Parts)) {
		order = append(order, h.Text)
	}
	for i := range kept.Parts {
		if !slices.Contains(order, i) {
			order = append(order, i)
		}
	}
	var taken []int
	for _, i := range order {
		n := countTokens(kept.Parts[i].Path + "\n" + kept.Parts[i].Text)
		if n > tokens && len(taken) > 0 {
			break
		}
		tokens -= n
		taken = append(taken, i)
	}
	slices.Sort(taken)
	looked, of = kept.looked(taken)
	return kept.write(taken), looked, of, kept.Pages > 0
}

// write writes the parts with the headings above them.
func (f *fileText) write(taken []int) string {
	var b strings.Builder
	if len(f.Left) > 0 {
		b.WriteString("[Not read of this file: " + strings.Join(f.Left, ", ") + ".]\n\n")
	}
	path, last := "", -1
	for _, i := range taken {
		p := f.Parts[i]
		if i != last+1 {
			b.WriteString("[…]\n\n")
		}
		if p.Path != path && p.Path != "" {
			b.WriteString("# " + p.Path + "\n\n")
		}
		b.WriteString(p.Text + "\n\n")
		path, last = p.Path, i
	}
	if last >= 0 && last < len(f.Parts)-1 {
		b.WriteString("[…]")
	}
	return strings.TrimSpace(b.String())
}

// looked counts the pages of the parts, or the parts.
func (f *fileText) looked(taken []int) (looked, of int) {
	if f.Pages == 0 {
		return len(taken), len(f.Parts)
	}
	if len(taken) == len(f.Parts) { // pages without text count as well
		return f.Pages, f.Pages
	}
	pages := map[string]bool{}
	for _, i := range taken {
		page, _, _ := strings.Cut(f.Parts[i].Path, pathMark)
		pages[page] = true
	}
	return len(pages), f.Pages
}
