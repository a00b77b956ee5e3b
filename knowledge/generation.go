package knowledge

import (
	"compress/gzip"
	"context"
	"encoding/binary"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"github.com/planbot-go/planbot/internal/bm25"
	"github.com/planbot-go/planbot/state"
)

const (
	maxChunks    = 50_000
	maxBlock     = 384 << 10 // bytes of a generation in one document of the store
	blocksAtOnce = 4
	maxStored    = 1 << 30 // bytes of a generation, unpacked
)

// manifest says which generation of an index is in use. Whoever replaces it replaces the whole index.
type manifest struct {
	Generation string `json:"generation"` // its blocks are below this name
	Blocks     int    `json:"blocks"`
	Form       int    `json:"form"` // of chunks, see formVersion
	Model      string `json:"model,omitempty"`
	Dimensions int    `json:"dimensions,omitempty"`
}

// document is a document of a generation.
type document struct {
	ID, Folder string // the ID begins with the Folder
	Title, URL string
	Updated    time.Time
	Hash       [32]byte // of its bytes
	Access     []string // tokens
	Own        bool     // the document itself states its rights
	OwnURL     bool
	Chunks     int
	Scans      [][32]byte // hashes of the pages that a model may read, see [Sight]
	Unread     int        // of them
}

type chunk struct {
	Document   int
	Path, Text string
}

// generation is an index as it was at one time. It never changes.
type generation struct {
	manifest
	documents []document // by ID
	chunks    []chunk    // in the order of documents
	words     *bm25.Index
	vectors   []float32  // of chunks, one after another
	scans     [][32]byte // that are in use besides those of documents; not stored
}

// embedded is what the vector of a chunk is made of.
func (c *chunk) embedded() string { return strings.TrimSpace(c.Path + "\n\n" + c.Text) }

// wordsOf are the words by which a chunk is found. The title of its document counts, if it is not among the headings.
func (g *generation) wordsOf(i int) []string {
	c := &g.chunks[i]
	text := c.embedded()
	if title := g.documents[c.Document].Title; !strings.Contains(c.Path, title) {
		text = title + "\n" + text
	}
	return wordsOf(text)
}

// part is a piece of what is stored of a generation.
type part struct {
	Documents []document
	Chunks    []chunk
	Words     []byte
	Vectors   []byte
}

const chunksAtOnce = 500

// write stores g beside the generation in use and sets its Generation and Blocks.
func (x *Index) write(ctx context.Context, g *generation) error {
	out := &blockWriter{ctx: ctx, index: x, g: g, most: min(maxBlock, x.cfg.Store.MaxBytes()/2)}
	packed, err := gzip.NewWriterLevel(out, gzip.BestSpeed)
	if err != nil {
		return err
	}
	enc := gob.NewEncoder(packed)
	parts := []part{{Documents: g.documents}}
	for some := range slices.Chunk(g.chunks, chunksAtOnce) {
		parts = append(parts, part{Chunks: some})
	}
	words, err := g.words.MarshalBinary()
	if err != nil {
		return err
	}
	vectors, err := binary.Append(nil, binary.LittleEndian, g.vectors)
	if err != nil {
		return err
	}
	for _, p := range append(parts, part{Words: words, Vectors: vectors}) {
		if err := enc.Encode(p); err != nil {
			return err
		}
	}
	if err := packed.Close(); err != nil {
		return err
	}
	return out.flush()
}

// blockWriter stores what is written to it in documents of the store.
type blockWriter struct {
	ctx    context.Context //nolint:containedctx // it lives as long as one call
	index  *Index
	g      *generation
	most   int
	blocks [][]byte
}

func (w *blockWriter) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		last := len(w.blocks) - 1
		if last < 0 || len(w.blocks[last]) == w.most {
			if len(w.blocks) == blocksAtOnce {
				if err := w.flush(); err != nil {
					return 0, err
				}
			}
			w.blocks = append(w.blocks, make([]byte, 0, w.most))
			last = len(w.blocks) - 1
		}
		n := min(len(rest), w.most-len(w.blocks[last]))
		w.blocks[last] = append(w.blocks[last], rest[:n]...)
		rest = rest[n:]
	}
	return len(p), nil
}

func (w *blockWriter) flush() error {
	keys := w.index.blockKeys(w.g.Generation, w.g.Blocks, w.g.Blocks+len(w.blocks))
	scopes, err := w.index.cfg.Store.Load(w.ctx, keys...)
	if err != nil {
		return err
	}
	for i, block := range w.blocks {
		*state.At[[]byte](scopes[i], "block") = block
	}
	w.g.Blocks += len(w.blocks)
	w.blocks = nil
	return w.index.cfg.Store.Save(w.ctx, scopes...)
}

func (x *Index) blockKeys(generation string, from, to int) (keys []state.Key) {
	for i := from; i < to; i++ {
		keys = append(keys, x.key.Under("blocks", generation+"-"+strconv.Itoa(i)))
	}
	return keys
}

// errGone says that a block of a generation is gone, because another one was swapped in.
var errGone = errors.New("a part of the index is gone")

func (x *Index) load(ctx context.Context, m manifest) (*generation, error) {
	g := &generation{manifest: m, words: &bm25.Index{}}
	if m.Generation == "" {
		return g, nil
	}
	packed, err := gzip.NewReader(&blockReader{ctx: ctx, index: x, m: m})
	if err != nil {
		return nil, err
	}
	dec := gob.NewDecoder(io.LimitReader(packed, maxStored))
	for {
		var p part
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		g.documents = append(g.documents, p.Documents...)
		if g.chunks == nil {
			n := 0
			for i := range g.documents {
				n += g.documents[i].Chunks
			}
			g.chunks = make([]chunk, 0, min(n, maxChunks))
		}
		g.chunks = append(g.chunks, p.Chunks...)
		if p.Words != nil {
			if err := g.words.UnmarshalBinary(p.Words); err != nil {
				return nil, err
			}
		}
		if len(p.Vectors) > 0 {
			g.vectors = make([]float32, len(p.Vectors)/4)
			if _, err := binary.Decode(p.Vectors, binary.LittleEndian, g.vectors); err != nil {
				return nil, err
			}
		}
	}
	if len(g.vectors) != len(g.chunks)*m.Dimensions || slices.ContainsFunc(g.chunks, func(c chunk) bool { return c.Document < 0 || c.Document >= len(g.documents) }) {
		return nil, errors.New("the stored index does not fit together")
	}
	return g, nil
}

// blockReader reads the blocks of a generation one after another.
type blockReader struct {
	ctx   context.Context //nolint:containedctx // it lives as long as one call
	index *Index
	m     manifest
	next  int
	have  [][]byte
}

func (r *blockReader) Read(p []byte) (int, error) {
	for len(r.have) == 0 {
		if r.next >= r.m.Blocks {
			return 0, io.EOF
		}
		to := min(r.next+blocksAtOnce, r.m.Blocks)
		scopes, err := r.index.cfg.Store.Load(r.ctx, r.index.blockKeys(r.m.Generation, r.next, to)...)
		if err != nil {
			return 0, err
		}
		for _, s := range scopes {
			block := *state.At[[]byte](s, "block")
			if len(block) == 0 {
				return 0, errGone
			}
			r.have = append(r.have, block)
		}
		r.next = to
	}
	n := copy(p, r.have[0])
	if r.have[0] = r.have[0][n:]; len(r.have[0]) == 0 {
		r.have = r.have[1:]
	}
	return n, nil
}

// each does something with the blocks of a generation and saves them. A save that changes nothing keeps
// them from expiring.
func (x *Index) each(ctx context.Context, m manifest, do func(*state.Scope)) error {
	for from := 0; from < m.Blocks; from += blocksAtOnce {
		scopes, err := x.cfg.Store.Load(ctx, x.blockKeys(m.Generation, from, min(from+blocksAtOnce, m.Blocks))...)
		if err != nil {
			return err
		}
		for _, s := range scopes {
			do(s)
		}
		if err := x.cfg.Store.Save(ctx, scopes...); err != nil {
			return err
		}
	}
	return nil
}

// readManifest reads which generation is in use. An index that was never built has none.
func (x *Index) readManifest(ctx context.Context) (manifest, error) {
	scopes, err := x.cfg.Store.Load(ctx, x.key)
	if err != nil {
		return manifest{}, err
	}
	m := *state.At[manifest](scopes[0], "manifest")
	if err := scopes[0].Err(); err != nil {
		return manifest{}, err
	}
	return m, x.cfg.Store.Save(ctx, scopes...) // which keeps it from expiring
}

// loadCurrent reads the generation in use, unless it is have.
func (x *Index) loadCurrent(ctx context.Context, have *generation) (*generation, error) {
	for try := 0; ; try++ {
		m, err := x.readManifest(ctx)
		if err != nil {
			return nil, fmt.Errorf("read index %s: %w", x.cfg.Name, err)
		}
		if have != nil && have.Generation == m.Generation {
			return have, nil
		}
		g, err := x.load(ctx, m)
		switch {
		case err == nil:
			return g, nil
		case !errors.Is(err, errGone) || try == 2:
			return nil, fmt.Errorf("load index %s: %w", x.cfg.Name, err)
		}
	}
}

// index makes what the chunks of g are found by.
func (g *generation) index(ctx context.Context, e Embedder, old *generation) (embedded int, err error) {
	g.words = bm25.New(len(g.chunks), g.wordsOf)
	if e == nil {
		return 0, nil
	}
	g.Model, g.Dimensions = e.Model(), e.Dimensions()
	known := map[string][]float32{}
	if old.Model == g.Model && old.Dimensions == g.Dimensions {
		for i := range old.chunks {
			known[old.chunks[i].embedded()] = old.vectors[i*g.Dimensions : (i+1)*g.Dimensions]
		}
	}
	var missing []string
	for i := range g.chunks {
		if text := g.chunks[i].embedded(); known[text] == nil {
			known[text] = []float32{} // to embed it once
			missing = append(missing, text)
		}
	}
	vectors, err := embed(ctx, e, missing)
	if err != nil {
		return 0, err
	}
	for i, text := range missing {
		known[text] = vectors[i]
	}
	g.vectors = make([]float32, 0, len(g.chunks)*g.Dimensions)
	for i := range g.chunks {
		g.vectors = append(g.vectors, known[g.chunks[i].embedded()]...)
	}
	return len(missing), nil
}

// wordsOf splits a text into words: runs of letters and digits, in the form in which equal words are
// equal. Runs of Chinese, Japanese and Korean signs are split into pairs, and so are those of other scripts
// without spaces.
func wordsOf(text string) (words []string) {
	text = cases.Fold().String(norm.NFKC.String(text))
	for _, run := range strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) }) {
		if strings.IndexFunc(run, isUnspaced) < 0 {
			words = append(words, run)
			continue
		}
		runes := []rune(run)
		for i := 0; i < len(runes); {
			end := i + 1
			for end < len(runes) && isUnspaced(runes[end]) == isUnspaced(runes[i]) {
				end++
			}
			if !isUnspaced(runes[i]) || end == i+1 {
				words = append(words, string(runes[i:end]))
			}
			for ; isUnspaced(runes[i]) && i+1 < end; i++ {
				words = append(words, string(runes[i:i+2]))
			}
			i = end
		}
	}
	return words
}

func isUnspaced(r rune) bool {
	return r >= 0x0e00 && (r == 'ー' || unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar))
}
