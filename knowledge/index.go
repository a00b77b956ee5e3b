package knowledge

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"math"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/internal/bm25"
	"github.com/planbot-go/planbot/internal/lazy"
	"github.com/planbot-go/planbot/internal/spelling"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/state"
)

const (
	maxFiles     = 20_000
	maxStuck     = 2 // files whose reader goes on by itself
	maxPassages  = 50
	freshFor     = 4 * time.Second
	checkEvery   = 2 * time.Second
	refreshEvery = time.Hour
	swapTime     = 30 * time.Second
)

// Errors of this package, for errors.Is.
var (
	// ErrNotBuilt says that nothing was ever added to an index, or that it has expired.
	ErrNotBuilt = errors.New("the index was never built")
	// ErrModel says that an index was made with another embedding model than the one that is
	// configured.
	ErrModel = errors.New("the index was made with another embedding model")
	// ErrShrinks says that more than 30 % of the documents of a folder have vanished at once.
	ErrShrinks = errors.New("too many documents have vanished at once")
)

// IndexConfig configures an [Index]. Store is required; the zero value of every other field is a working
// default.
type IndexConfig struct {
	// Store keeps the index. All processes with the same Store have the same index.
	Store *state.Store
	// Name tells indexes of one Store apart: up to 40 small letters, digits and hyphens. "": main.
	Name string
	// Tenant is the id of the tenant whose people may read. People of others find nothing. "": the
	// people of channels that state no tenant, such as the Emulator.
	Tenant string
	// Embedder adds vectors. nil: documents are found by words alone.
	Embedder Embedder
	// Hybrid ranks by words and by vectors, which helps if both are good for the texts. It needs an
	// Embedder. false: by vectors if there is an Embedder.
	Hybrid bool
	// Helper reads documents that need a parser in processes of their own. nil: they are read in this one.
	Helper *Helper
	// Sight has a model read pages that are pictures. nil: they are counted, and not read.
	Sight *Sight
	// Floor is the least cosine of what vectors find. 0: 0.2.
	Floor float64
}

// Index is documents in a [state.Store] that can be searched, in the memory of the process. Add and Remove
// make a new generation beside the one in use, and swap it in as a whole; other processes have it within
// five seconds. A search sees one generation. An Index expires with the state that nobody uses, unless a
// process runs it ([Index.Run]). It is safe for concurrent use.
type Index struct {
	cfg     IndexConfig
	key     state.Key
	count   func(text string) int // tokens
	most    int                   // tokens of a chunk
	loading chan struct{}         // has room for one
	loaded  atomic.Pointer[loaded]
}

// loaded is a generation and when it was last known to be the one in use.
type loaded struct {
	*generation
	at time.Time
}

var _ Source = (*Index)(nil)

var indexName = lazy.Regexp(`^[a-z0-9-]{1,40}$`)

// NewIndex checks all of cfg. It does not ask the store for anything.
func NewIndex(cfg IndexConfig) (*Index, error) {
	var errs []error
	cfg.Name, cfg.Floor = cmp.Or(cfg.Name, "main"), cmp.Or(cfg.Floor, 0.2)
	if cfg.Store == nil {
		errs = append(errs, errors.New("no Store"))
	}
	if !indexName().MatchString(cfg.Name) {
		errs = append(errs, fmt.Errorf("the Name %.50q is not up to 40 small letters, digits and hyphens", cfg.Name))
	}
	if cfg.Hybrid && cfg.Embedder == nil {
		errs = append(errs, errors.New("Hybrid needs an Embedder"))
	}
	if cfg.Sight != nil && (cfg.Sight.Model == nil || cfg.Sight.MaxPages < 0) {
		errs = append(errs, errors.New("the Sight has no Model, or MaxPages is negative"))
	}
	if cfg.Embedder != nil && (cfg.Embedder.Model() == "" || cfg.Embedder.Dimensions() < 1) {
		errs = append(errs, errors.New("the Embedder has no model or no dimensions"))
	}
	if !(cfg.Floor >= -1 && cfg.Floor <= 1) {
		errs = append(errs, errors.New("the Floor is no cosine"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("knowledge index: %w", err)
	}
	return &Index{
		cfg: cfg, key: state.BotKey().Under("knowledge", cfg.Name), loading: make(chan struct{}, 1),
		count: countTokens, most: maxChunkTokens,
	}, nil
}

// current returns the generation in use, as it was at most freshFor ago.
func (x *Index) current(ctx context.Context) (*generation, error) {
	if have := x.loaded.Load(); have != nil && time.Since(have.at) < freshFor {
		return have.generation, nil
	}
	return x.check(ctx)
}

// check loads the generation in use if it is not loaded.
func (x *Index) check(ctx context.Context) (*generation, error) {
	asked := time.Now()
	select {
	case x.loading <- struct{}{}:
		defer func() { <-x.loading }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	var have *generation
	if l := x.loaded.Load(); l != nil {
		if have = l.generation; !l.at.Before(asked) {
			return have, nil // somebody else checked meanwhile
		}
	}
	now := time.Now()
	g, err := x.loadCurrent(ctx, have)
	if err != nil {
		return nil, err
	}
	x.loaded.Store(&loaded{g, now})
	return g, nil
}

// Run keeps the newest generation in memory until ctx ends, so that no search waits for it, and keeps the
// index from expiring. It logs what goes wrong and tries again. Without Run, searches look for a newer
// generation themselves.
func (x *Index) Run(ctx context.Context) {
	every := time.NewTicker(checkEvery)
	defer every.Stop()
	var refreshed time.Time
	broken := false
	for {
		g, err := x.check(ctx)
		if err == nil && time.Since(refreshed) >= refreshEvery {
			if err = x.each(ctx, g.manifest, func(*state.Scope) {}); err == nil {
				refreshed = time.Now()
			}
		}
		if err != nil && !broken && ctx.Err() == nil {
			zerolog.Ctx(ctx).Error().Err(err).Str("index", x.cfg.Name).Msg("cannot load the knowledge index")
		}
		broken = err != nil
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
	}
}

// Search returns the passages that fit q best, best first, of the documents that q.Caller may read, at most
// three of a document. If nothing fits, there are none. Errors: [ErrNotBuilt], [ErrModel], those of the store, of the Embedder and
// of ctx.
func (x *Index) Search(ctx context.Context, q Query) ([]Passage, error) {
	g, err := x.usable(ctx)
	if err != nil {
		return nil, err
	}
	rights, text := q.Caller.tokens(x.cfg.Tenant), strings.TrimSpace(spelling.Limit(q.Text, maxQuery))
	allowed := g.readable(rights)
	e := x.cfg.Embedder
	var vector []float32
	if e != nil && text != "" && slices.Contains(allowed, true) {
		vectors, err := embed(ctx, e, []string{text})
		if err != nil {
			return nil, fmt.Errorf("search index %s: %w", x.cfg.Name, err)
		}
		if g, err = x.usable(ctx); err != nil { // rights may have changed meanwhile
			return nil, err
		}
		vector, allowed = vectors[0], g.readable(rights)
	}
	if text == "" || !slices.Contains(allowed, true) {
		return nil, nil
	}
	among := func(i int) bool { return allowed[g.chunks[i].Document] }
	limit := min(cmp.Or(max(q.Limit, 0), 10), maxPassages)
	var hits []hit
	if e == nil || x.cfg.Hybrid {
		scores := g.words.Scores(wordsOf(text), among)
		hits = g.best(scores, func(i int) bool { return scores[i] > 0 })
	}
	if vector != nil {
		scores := cosines(g.vectors, vector, among)
		near := g.best(scores, func(i int) bool { return among(i) && scores[i] >= x.cfg.Floor })
		if x.cfg.Hybrid {
			fused := fuse(textsOf(hits), textsOf(near))
			near = nil
			for _, r := range fused {
				near = append(near, hit{Text: r.id, Score: r.score})
			}
		}
		hits = near
	}
	var passages []Passage
	of := map[int]int{} // what words and vectors find of a document may be more than three
	for _, h := range hits {
		d := g.chunks[h.Text].Document
		if of[d]++; of[d] <= maxPerDocument && len(passages) < limit {
			passages = append(passages, g.passage(h))
		}
	}
	return passages, nil
}

// best returns the chunks with the best scores, among those for which among returns true. Of a document it takes
// at most three, so that a long one hides no other.
func (g *generation) best(scores []float64, among func(chunk int) bool) []hit {
	keep := make([]bool, len(scores))
	first := 0
	for _, d := range g.documents {
		for _, h := range bm25.Best(scores[first:first+d.Chunks], func(i int) bool { return among(first + i) }, maxPerDocument) {
			keep[first+h.Text] = true
		}
		first += d.Chunks
	}
	return bm25.Best(scores, func(i int) bool { return keep[i] }, maxPassages)
}

func textsOf(hits []hit) (texts []int) {
	for _, h := range hits {
		texts = append(texts, h.Text)
	}
	return texts
}

// usable returns the generation in use, if it was made with the Embedder.
func (x *Index) usable(ctx context.Context) (*generation, error) {
	g, err := x.current(ctx)
	if err != nil {
		return nil, err
	}
	e := x.cfg.Embedder
	switch {
	case g.Generation == "":
		return nil, fmt.Errorf("search index %s: %w", x.cfg.Name, ErrNotBuilt)
	case e != nil && (g.Model != e.Model() || g.Dimensions != e.Dimensions()):
		return nil, fmt.Errorf("search index %s: %w: it has %s, the question has %s; add its folders again", x.cfg.Name, ErrModel,
			modelText(g.Model, g.Dimensions), modelText(e.Model(), e.Dimensions()))
	}
	return g, nil
}

// readable says of each document whether somebody with these rights may read it.
func (g *generation) readable(rights map[string]bool) []bool {
	allowed := make([]bool, len(g.documents))
	for i := range g.documents {
		allowed[i] = slices.ContainsFunc(g.documents[i].Access, func(token string) bool { return rights[token] })
	}
	return allowed
}

func modelText(model string, dimensions int) string {
	if model == "" {
		return "no vectors"
	}
	return fmt.Sprintf("%s with %d dimensions", model, dimensions)
}

// hit is a chunk that was found.
type hit = bm25.Hit

func (g *generation) passage(h hit) Passage {
	c := &g.chunks[h.Text]
	d := &g.documents[c.Document]
	first := h.Text
	for first > 0 && g.chunks[first-1].Document == c.Document {
		first--
	}
	return Passage{
		ID: d.ID + "#" + strconv.Itoa(h.Text-first+1), Document: d.ID, Title: cmp.Or(d.Title, path.Base(d.ID)), URL: d.URL,
		Path: c.Path, Text: c.Text, Score: h.Score, Updated: d.Updated,
	}
}

// Tenant is the tenant whose people may read.
func (x *Index) Tenant() string { return x.cfg.Tenant }

// Document is a document of an [Index], as [Index.List] returns it.
type Document struct {
	ID, Title, URL string
	Updated        time.Time // as the document states it; often zero
	Chunks         int
	Readable       bool // somebody may read it
}

// List returns all documents, by ID, for the operator: it asks for no rights. An index that was never
// built has none.
func (x *Index) List(ctx context.Context) ([]Document, error) {
	g, err := x.check(ctx)
	if err != nil {
		return nil, err
	}
	var all []Document
	for _, d := range g.documents {
		all = append(all, Document{d.ID, d.Title, d.URL, d.Updated, d.Chunks, len(d.Access) > 0})
	}
	return all, nil
}

const maxNotTaken = 100 // how many files of a folder are kept in mind

// refused are the files that were not taken when their folders were last added, by folder.
type refused map[string][]NotTaken

// noteNotTaken keeps in mind what was not taken of a folder.
func (x *Index) noteNotTaken(ctx context.Context, folder string, files []NotTaken) error {
	return x.cfg.Store.Update(ctx, x.key.Under("refused", "files"), func(s *state.Scope) error {
		all := state.At[refused](s, "files")
		if len(files) == 0 {
			delete(*all, folder)
			return nil
		}
		if *all == nil {
			*all = refused{}
		}
		(*all)[folder] = files[:min(len(files), maxNotTaken)]
		return nil
	})
}

// NotTaken returns the files that were not taken when their folders were last added, at most 100 of each
// folder, with the names of their folders.
func (x *Index) NotTaken(ctx context.Context) ([]NotTaken, error) {
	scopes, err := x.cfg.Store.Load(ctx, x.key.Under("refused", "files"))
	if err != nil {
		return nil, err
	}
	folders := *state.At[refused](scopes[0], "files")
	var all []NotTaken
	for _, folder := range slices.Sorted(maps.Keys(folders)) {
		for _, f := range folders[folder] {
			if f.File != folder {
				f.File = folder + "/" + f.File
			}
			all = append(all, f)
		}
	}
	return all, nil
}

// Remove removes the folder with that name, or the document with that ID, and returns how many documents
// that were. None of the folder's files counts as not taken any more. If there is none, it changes nothing.
func (x *Index) Remove(ctx context.Context, name string) (removed int, err error) {
	old, err := x.check(ctx)
	if err != nil {
		return 0, err
	}
	next := &generation{}
	for d := range old.all() {
		if d.Folder != name && d.ID != name {
			next.add(d)
		}
	}
	if removed = len(old.documents) - len(next.documents); removed > 0 {
		if _, err := x.swap(ctx, old, next); err != nil {
			return 0, fmt.Errorf("remove from index %s: %w", x.cfg.Name, err)
		}
	}
	return removed, x.noteNotTaken(ctx, name, nil)
}

// stored is a document of a generation with its chunks.
type stored struct {
	document
	chunks []chunk
}

// all yields the documents of a generation, in their order.
func (g *generation) all() iter.Seq[stored] {
	return func(yield func(stored) bool) {
		at := 0
		for _, d := range g.documents {
			if !yield(stored{d, g.chunks[at : at+d.Chunks]}) {
				return
			}
			at += d.Chunks
		}
	}
}

func (g *generation) add(d stored) {
	for _, c := range d.chunks {
		c.Document = len(g.documents)
		g.chunks = append(g.chunks, c)
	}
	d.Chunks = len(d.chunks)
	g.documents = append(g.documents, d.document)
}

// Folder is documents to add to an index.
type Folder struct {
	// Path is a folder with all its folders, or one file.
	Path string
	// FS has the documents instead, such as embedded ones. Path is then a folder in it; "": all of it.
	// Folders with an FS need a Name.
	FS fs.FS
	// Name is what the IDs of its documents begin with. Adding a folder replaces what was added with
	// the same Name. "": the last part of Path.
	Name string
	// Access says who may read the documents that do not say so themselves, in their front matter
	// ("access: person:ID"). It is required: [EveryoneInTenant], [Nobody], or "person:", "group:",
	// "team:" and "conversation:" with an id behind it.
	Access []string
	// URL is an https address to which the path of a file is added for its own. "": files have only
	// the addresses in their front matter.
	URL string
	// Shrink allows that more than 30 % of the documents have vanished.
	Shrink bool
}

// Report says what [Index.Add] did.
type Report struct {
	Added, Changed, Removed, Kept int          // documents
	Embedded                      int          // chunks that the Embedder has seen
	Seen                          int          // pages that the model of the Sight has read
	Used                          models.Usage // of that model
	NotTaken                      []NotTaken
	// Partly are the files that were added or changed of which something was not read, and what, as the end of
	// a sentence: "was taken without 2 pages that are pictures".
	Partly []NotTaken
}

// NotTaken is a file that is not in the index, or not as it is now, and why, as the end of a sentence.
type NotTaken struct{ File, Why string }

// String lists the counts that are not zero: "1 changed, 1 removed, 1 kept".
func (r Report) String() string {
	var parts []string
	seen := "pages read by the model"
	if r.Seen == 1 {
		seen = "page read by the model"
	}
	for _, p := range []struct {
		n    int
		what string
	}{{r.Added, "added"}, {r.Changed, "changed"}, {r.Removed, "removed"}, {r.Kept, "kept"}, {r.Seen, seen}, {len(r.Partly), "taken in part"}, {len(r.NotTaken), "not taken"}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	return cmp.Or(strings.Join(parts, ", "), "nothing there")
}

// Add brings the index up to date with a folder: it reads what is new and what has changed, and removes
// what has vanished. Until it returns, searches see the index as it was. Files that cannot be taken are
// no error: the Report names them. If the store or the Embedder fails, or if ctx ends, the index stays as
// it was. Errors besides: [ErrShrinks], and [state.ErrConflict] if somebody else changed the index meanwhile.
//
// A few parsers may get stuck on damaged files. Add leaves them behind after ten seconds, and after the
// second one it takes no more files that need reading.
func (x *Index) Add(ctx context.Context, f Folder) (Report, error) {
	report, err := x.add(ctx, f)
	if err != nil {
		return report, fmt.Errorf("add to index %s: %w", x.cfg.Name, err)
	}
	return report, nil
}

func (x *Index) add(ctx context.Context, f Folder) (Report, error) {
	access, err := f.check(x.cfg.Tenant)
	if err != nil {
		return Report{}, err
	}
	root, files, done, err := f.open()
	if err != nil {
		return Report{}, err
	}
	defer done()
	old, err := x.check(ctx)
	if errors.Is(err, errGone) { // it expired in part: begin again
		old = &generation{}
		old.manifest, err = x.readManifest(ctx)
	}
	if err != nil {
		return Report{}, err
	}
	a := &adding{Index: x, folder: f, access: access, root: root, form: old.Form, was: map[string]stored{}}
	for d := range old.all() {
		if d.Folder == f.Name {
			a.was[d.ID] = d
		} else {
			a.now = append(a.now, d)
		}
	}
	before := len(a.was)
	if err := a.walk(ctx, files); err != nil {
		return a.report, err
	}
	if err := a.readScans(ctx); err != nil {
		return a.report, err
	}
	if err := x.noteNotTaken(ctx, f.Name, a.report.NotTaken); err != nil {
		return a.report, err
	}
	gone := len(a.was)
	if gone > 0 && !f.Shrink && (gone == before || gone > max(1, before*3/10)) {
		return a.report, fmt.Errorf("%w: %d of %d in %s; allow it if that is meant", ErrShrinks, gone, before, f.Name)
	}
	a.report.Removed = gone
	slices.SortFunc(a.now, func(a, b stored) int { return cmp.Compare(a.ID, b.ID) })
	next := &generation{scans: a.scans}
	for _, d := range a.now {
		next.add(d)
	}
	if len(next.chunks) > maxChunks {
		return a.report, fmt.Errorf("the index would have %d chunks, at most %d are kept", len(next.chunks), maxChunks)
	}
	if old.Generation != "" && old.Form == formVersion && reflect.DeepEqual(next.documents, old.documents) && x.sameModel(old) {
		return a.report, nil
	}
	a.report.Embedded, err = x.swap(ctx, old, next)
	return a.report, err
}

func (x *Index) sameModel(g *generation) bool {
	if x.cfg.Embedder == nil {
		return g.Model == ""
	}
	return g.Model == x.cfg.Embedder.Model() && g.Dimensions == x.cfg.Embedder.Dimensions()
}

// Check says what is wrong with the folder: it is not there, nobody said who may read its documents, or another
// field is wrong. It does not read the documents.
func (f Folder) Check() error {
	if _, err := f.check(""); err != nil {
		return err
	}
	_, _, done, err := f.open()
	if err != nil {
		return err
	}
	done()
	return nil
}

// check checks a folder, fills in its name and returns its rights.
func (f *Folder) check(tenant string) (access []string, err error) {
	switch {
	case f.Path == "" && f.FS == nil:
		return nil, errors.New("no Path")
	case f.FS != nil && f.Name == "":
		return nil, errors.New("no Name")
	}
	if f.Name == "" {
		whole, err := filepath.Abs(f.Path)
		if err != nil {
			return nil, err
		}
		f.Name = filepath.Base(whole)
	}
	if strings.ContainsAny(f.Name, "/\\\n#") || len(f.Name) > 200 {
		return nil, fmt.Errorf("%.60q cannot be the name of a folder", f.Name)
	}
	if f.URL != "" && secureURL(f.URL) == "" {
		return nil, errors.New("the URL is no https address")
	}
	if len(f.Access) == 0 {
		return nil, fmt.Errorf("no Access: say who may read the documents, such as %s or %s", EveryoneInTenant, Nobody)
	}
	return accessTokens(tenant, f.Access)
}

// secureURL returns an https address, "" for everything else.
func secureURL(address string) string {
	u, err := url.Parse(strings.TrimSpace(address))
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || len(address) > 2000 {
		return ""
	}
	return u.String()
}

// open opens the folder, or the folder of the one file. Nothing outside of it can be read. Call done at the
// end.
func (f *Folder) open() (root fs.FS, only string, done func(), err error) {
	if f.FS != nil {
		if _, err := fs.Stat(f.FS, cmp.Or(f.Path, ".")); err != nil {
			return nil, "", nil, err
		}
		root, err = fs.Sub(f.FS, cmp.Or(f.Path, "."))
		return root, ".", func() {}, err
	}
	info, err := os.Stat(f.Path)
	if err != nil {
		return nil, "", nil, err
	}
	folder, only := f.Path, "."
	if !info.IsDir() {
		folder, only = filepath.Split(f.Path)
	}
	opened, err := os.OpenRoot(cmp.Or(folder, "."))
	if err != nil {
		return nil, "", nil, err
	}
	return opened.FS(), only, func() { _ = opened.Close() }, nil // it was only read
}

// adding is one run of Add.
type adding struct {
	*Index
	folder Folder
	access []string
	root   fs.FS
	form   int               // of the old generation
	was    map[string]stored // its documents of the folder that were not met yet, by ID
	now    []stored          // the documents of the next generation
	stuck  int
	files  int
	later  []string // files whose scans the model is to read
	unseen []scan   // that it has not read yet
	blind  bool     // the model is of no use in this run

	scans     [][sha256.Size]byte // of files that nothing was taken of, because nobody has read them yet
	sightEnds time.Time
	report    Report
}

func (a *adding) id(name string) string {
	if name == a.folder.Name {
		return name // the one file
	}
	return a.folder.Name + "/" + name
}

// notTaken notes a file. stays says that what the index has of it stays.
func (a *adding) notTaken(name, why string, stays bool) {
	id := a.id(name)
	for was, d := range a.was {
		if stays && (was == id || strings.HasPrefix(was, id+"/") || name == ".") {
			a.keep(d)
			why = strings.TrimSuffix(why, "; its earlier version stays") + "; its earlier version stays"
		}
	}
	a.report.NotTaken = append(a.report.NotTaken, NotTaken{name, why})
}

// keep takes a document over from the old generation, with the rights that it has now.
func (a *adding) keep(d stored) {
	if !d.Own {
		d.Access = a.access
	}
	if !d.OwnURL {
		d.URL = a.address(d.ID)
	}
	a.now = append(a.now, d)
	delete(a.was, d.ID)
	a.report.Kept++
}

// address is the address of a document below that of its folder.
func (a *adding) address(id string) string {
	if a.folder.URL == "" {
		return ""
	}
	names := strings.Split(strings.TrimPrefix(id, a.folder.Name+"/"), "/")
	for i, name := range names {
		names[i] = url.PathEscape(name)
	}
	joined, err := url.JoinPath(a.folder.URL, names...)
	if err != nil {
		return ""
	}
	return secureURL(joined)
}

func (a *adding) walk(ctx context.Context, start string) error {
	return fs.WalkDir(a.root, start, func(name string, entry fs.DirEntry, err error) error {
		hidden := strings.HasPrefix(path.Base(name), ".") && name != "."
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			a.notTaken(name, "cannot be opened", true)
			return nil
		case hidden && entry.IsDir():
			a.notTaken(name, "is a hidden folder", false)
			return fs.SkipDir
		case entry.IsDir():
			return nil
		}
		if a.files++; a.files > maxFiles {
			return fmt.Errorf("%s has more than %d files", a.folder.Name, maxFiles)
		}
		switch {
		case hidden:
			a.notTaken(name, "is hidden", false)
		case entry.Type()&fs.ModeSymlink != 0:
			a.notTaken(name, "is a symbolic link, which is not followed", false)
		case !entry.Type().IsRegular():
			a.notTaken(name, "is no ordinary file", false)
		default:
			return a.take(ctx, name)
		}
		return nil
	})
}

func (a *adding) take(ctx context.Context, name string) error {
	data, err := a.bytes(name)
	switch {
	case err != nil:
		a.notTaken(name, "cannot be read", true)
		return nil
	case len(data) > maxFileBytes:
		a.notTaken(name, "is larger than 20 MB", false)
		return nil
	}
	id, hash := a.id(name), sha256.Sum256(data)
	was, known := a.was[id]
	if known && a.form == formVersion && was.Hash == hash && (a.cfg.Sight == nil || was.Unread == 0) {
		a.keep(was)
		return nil
	}
	if a.stuck >= maxStuck {
		a.notTaken(name, "was not read, because the readers of files before it are stuck", false)
		return nil
	}
	r, err := a.read(ctx, name, data, false)
	if r == nil {
		return err
	}
	if a.cfg.Sight != nil && len(r.scans) > 0 {
		a.later = append(a.later, name)
		return a.findUnseen(ctx, r.scans)
	}
	return a.put(name, hash, r, len(r.scans))
}

// read reads a file. nil without an error: it is refused, and noted as not taken.
func (a *adding) read(ctx context.Context, name string, data []byte, scans bool) (*read, error) {
	r, stuck, err := readFile(ctx, a.cfg.Helper, name, data, scans)
	if stuck {
		a.stuck++
	}
	why, refused := errors.AsType[refusal](err)
	switch {
	case refused:
		a.notTaken(name, why.Error(), false)
		return nil, nil
	case err != nil:
		return nil, err
	}
	return r, nil
}

// put adds a file to the next generation. So many of its scans were not read.
func (a *adding) put(name string, hash [sha256.Size]byte, r *read, unread int) (err error) {
	id := a.id(name)
	was, known := a.was[id]
	if known && a.form == formVersion && was.Hash == hash && was.Unread == unread {
		a.keep(was)
		return nil
	}
	pieces := (&chunker{most: a.most, count: a.count}).cut(r.blocks)
	switch {
	case len(pieces) == 0 && unread > 0:
		for _, s := range r.scans {
			a.scans = append(a.scans, s.Sum)
		}
		a.notTaken(name, onlyScans.Error(), false)
		return nil
	case len(pieces) == 0:
		a.notTaken(name, "has no text", false)
		return nil
	}
	d := document{
		ID: id, Folder: a.folder.Name, Title: spelling.Limit(r.title, maxHeading), URL: secureURL(r.url), Updated: r.updated,
		Hash: hash, Access: a.access, Own: r.access != nil, OwnURL: r.url != "", Unread: unread,
	}
	for _, s := range r.scans {
		d.Scans = append(d.Scans, s.Sum)
	}
	if d.Own {
		if d.Access, err = accessTokens(a.cfg.Tenant, r.access); err != nil {
			return err
		}
	}
	if !d.OwnURL {
		d.URL = a.address(id)
	}
	left := r.whatLeft(unread)
	if len(left) > 0 {
		a.report.Partly = append(a.report.Partly, NotTaken{name, "was taken without " + strings.Join(left, ", ")})
	}
	chunks := make([]chunk, len(pieces))
	for i, p := range pieces {
		chunks[i] = chunk{Path: p.path, Text: p.text}
	}
	a.now = append(a.now, stored{d, chunks})
	if known {
		delete(a.was, id)
		a.report.Changed++
	} else {
		a.report.Added++
	}
	return nil
}

// bytes reads a file, and one byte more than it may have.
func (a *adding) bytes(name string) (_ []byte, err error) {
	file, err := a.root.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return io.ReadAll(io.LimitReader(file, maxFileBytes+1))
}

// swap stores the next generation, puts it into use in one step, and removes the old one.
func (x *Index) swap(ctx context.Context, old, next *generation) (embedded int, err error) {
	next.manifest = manifest{Generation: rand.Text(), Form: formVersion}
	if embedded, err = next.index(ctx, x.cfg.Embedder, old); err != nil {
		return 0, err
	}
	err = x.write(ctx, next)
	if err == nil {
		err = x.cfg.Store.Update(ctx, x.key, func(s *state.Scope) error {
			m := state.At[manifest](s, "manifest")
			if m.Generation != old.Generation {
				return fmt.Errorf("%w: another process added or removed documents; try again", state.ErrConflict)
			}
			*m = next.manifest
			return nil
		})
	}
	if errors.Is(err, state.ErrUnavailable) {
		return 0, err // and it is not known which of the two is in use: the other one expires
	}
	unused := old.manifest
	if err != nil {
		unused = next.manifest
	}
	// What is not removed expires.
	cleaning, cancel := context.WithTimeout(context.WithoutCancel(ctx), swapTime)
	defer cancel()
	if failed := x.each(cleaning, unused, (*state.Scope).Delete); failed != nil {
		zerolog.Ctx(ctx).Warn().Err(failed).Str("index", x.cfg.Name).Msg("cannot remove an unused generation of the knowledge index")
	}
	if err != nil {
		return 0, err
	}
	if failed := forgetScans(cleaning, x, old, next); failed != nil {
		zerolog.Ctx(ctx).Warn().Err(failed).Str("index", x.cfg.Name).Msg("cannot remove the texts of pages that are gone")
	}
	x.loaded.Store(&loaded{next, time.Now()})
	return embedded, nil
}

// Embedder turns texts into vectors of a model. Several goroutines may call it at once.
type Embedder interface {
	// Model names the model and whatever else decides about its vectors. Vectors of two names are
	// never compared.
	Model() string
	// Dimensions is the length of each vector.
	Dimensions() int
	// Embed returns a vector for each text, in order. It gets at most 256 texts, none of them empty,
	// and must return when ctx ends.
	Embed(ctx context.Context, texts []string) ([][]float32, error)
}

const embedBatch = 256

// embed returns a vector of length 1 for each text.
func embed(ctx context.Context, e Embedder, texts []string) ([][]float32, error) {
	var all [][]float32
	for batch := range slices.Chunk(texts, embedBatch) {
		vectors, err := e.Embed(ctx, batch)
		if err != nil {
			return nil, fmt.Errorf("embed %d texts with %s: %w", len(batch), e.Model(), err)
		}
		if len(vectors) != len(batch) {
			return nil, fmt.Errorf("embed with %s: got %d vectors for %d texts", e.Model(), len(vectors), len(batch))
		}
		for _, v := range vectors {
			if len(v) != e.Dimensions() {
				return nil, fmt.Errorf("embed with %s: a vector has %d dimensions, want %d; the server may ignore the setting", e.Model(), len(v), e.Dimensions())
			}
			v = slices.Clone(v)
			if err := normalize(v); err != nil {
				return nil, fmt.Errorf("embed with %s: %w", e.Model(), err)
			}
			all = append(all, v)
		}
	}
	return all, nil
}

// normalize makes the length of v 1.
func normalize(v []float32) error {
	sum := 0.0
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	if !(sum > 0) || math.IsInf(sum, 0) { // NaN is not more than 0
		return errors.New("a vector is zero, infinite or no number")
	}
	length := math.Sqrt(sum)
	for i := range v {
		v[i] = float32(float64(v[i]) / length)
	}
	return nil
}

// cosines compares the query with each vector for which among returns true; the others have 0. All vectors have
// length 1 and lie one after another.
func cosines(vectors, query []float32, among func(int) bool) []float64 {
	n := len(query)
	scores := make([]float64, len(vectors)/n)
	for i := range scores {
		if !among(i) {
			continue
		}
		v := vectors[i*n : i*n+n : i*n+n]
		var a, b, c, d float32
		j := 0
		for ; j+4 <= len(v) && j+4 <= len(query); j += 4 {
			a += v[j] * query[j]
			b += v[j+1] * query[j+1]
			c += v[j+2] * query[j+2]
			d += v[j+3] * query[j+3]
		}
		for ; j < len(v); j++ {
			a += v[j] * query[j]
		}
		scores[i] = float64(a + b + c + d)
	}
	return scores
}

// ranked is something in a list, with its score there.
type ranked[ID cmp.Ordered] struct {
	id    ID
	score float64
}

// fuse ranks what several lists rank: the sum of 1/(60+rank), and of equals by id.
func fuse[ID cmp.Ordered](lists ...[]ID) []ranked[ID] {
	scores := map[ID]float64{}
	for _, list := range lists {
		for i, id := range list {
			scores[id] += 1 / float64(60+i+1)
		}
	}
	var all []ranked[ID]
	for id, score := range scores {
		all = append(all, ranked[ID]{id, score})
	}
	slices.SortFunc(all, func(a, b ranked[ID]) int { return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.id, b.id)) })
	return all
}
