package knowledge

import (
	"context"
	"encoding/xml"
	"io"
	"strings"
	"time"
)

// Piece is a chunk of a text.
type Piece struct{ Path, Text string }

// Cut reads a file and cuts it into chunks of so many words.
func Cut(ctx context.Context, name, text string, words int) (pieces []Piece, err error) {
	r, _, err := readFile(ctx, nil, name, []byte(text), false)
	if err != nil {
		return nil, err
	}
	for _, p := range (&chunker{most: words, count: countWords}).cut(r.blocks) {
		pieces = append(pieces, Piece{p.path, p.text})
	}
	return pieces, nil
}

// CutIn is Cut with a helper, into chunks of many words.
func CutIn(ctx context.Context, h *Helper, name, text string) (pieces []Piece, err error) {
	r, _, err := readFile(ctx, h, name, []byte(text), false)
	if err != nil {
		return nil, err
	}
	for _, p := range (&chunker{most: 1000, count: countWords}).cut(r.blocks) {
		pieces = append(pieces, Piece{p.path, p.text})
	}
	return pieces, nil
}

// Within limits the time of the helper's children.
func (h *Helper) Within(most time.Duration) *Helper {
	h.most = most
	return h
}

// Stuck reports whether the reader of a file goes on by itself.
func Stuck(ctx context.Context, name, text string) (bool, error) {
	_, stuck, err := readFile(ctx, nil, name, []byte(text), false)
	return stuck, err
}

// ReadXML reads XML as the reader of DOCX does, to its end or until that gives up.
func ReadXML(in io.Reader) error {
	for dec := xml.NewDecoder(&shortRuns{in: in}); ; {
		if _, err := dec.Token(); err != nil {
			return err
		}
	}
}

func countWords(text string) int { return len(strings.Fields(text)) }

// CountWords makes b count words in place of tokens.
func (b *Base) CountWords() *Base {
	b.count = countWords
	return b
}

// Frame is how many words stand around passages.
func Frame() int { return countWords(introduction("") + endOfPassages + "X") }

// Ranked is something in a list.
type Ranked struct {
	ID    string
	Score float64
}

// Fuse fuses lists.
func Fuse(lists ...[]string) (all []Ranked) {
	for _, r := range fuse(lists...) {
		all = append(all, Ranked{r.id, r.score})
	}
	return all
}

// WordsOf splits a text.
var WordsOf = wordsOf

// AddChunk adds a document of one chunk to what Fill stores.
type AddChunk struct{ ID, Text string }

// Fill makes chunks the whole index, each as a document that everybody in the tenant may read.
func (x *Index) Fill(ctx context.Context, chunks []AddChunk) error {
	old, err := x.check(ctx)
	if err != nil {
		return err
	}
	next := &generation{}
	for _, c := range chunks {
		next.add(stored{document{ID: c.ID, Access: []string{hashed(x.cfg.Tenant, EveryoneInTenant, "")}}, []chunk{{Text: c.Text}}})
	}
	_, err = x.swap(ctx, old, next)
	return err
}

// Reload loads the index again.
func (x *Index) Reload(ctx context.Context) error {
	x.loaded.Store(nil)
	_, err := x.check(ctx)
	return err
}
