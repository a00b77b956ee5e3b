// Package documents is a feature of a program: the bot answers from documents, with citations, and the model reads
// the files that people send.
package documents

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/app/internal/turnview"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/internal/cli"
	"github.com/planbot-go/planbot/internal/settings"
	"github.com/planbot-go/planbot/internal/spelling"
	"github.com/planbot-go/planbot/knowledge"
	"github.com/planbot-go/planbot/planner"
	"github.com/planbot-go/planbot/skills/sandbox"
	"github.com/planbot-go/planbot/state"
)

// Config is what a bot answers from, besides what settings say. The zero value is nothing. Where BOT_FILE describes
// the bot, only Helper counts.
type Config struct {
	// Folders are what the bot answers from, besides those of BOT_KNOWLEDGE_DIR and "bot knowledge add".
	// It reads them at start and every BOT_KNOWLEDGE_EVERY.
	Folders []knowledge.Folder
	// Knowledge has more sources that the bot can search, the groups of people, and how much of what is
	// found a model gets. Its Sources may be empty, and none may be called documents.
	Knowledge knowledge.Config
	// Helper reads files and documents in child processes. nil: [app.Main] starts copies of its own program, and
	// [app.New] reads them in the process.
	Helper *knowledge.Helper
}

// Feature is the feature, for one program.
func Feature(cfg Config) app.Feature {
	f := &feature{cfg: cfg}
	return app.Feature{
		Name: "knowledge", Settings: f, Check: f.check, Register: f.register, Plan: f.plan, Wire: f.wire,
		Main: f.main, Commands: newCommands(f), Doctor: map[string]func(context.Context, *app.Program) app.Check{"knowledge": f.examine},
	}
}

type feature struct {
	On     bool     `env:"BOT_KNOWLEDGE" help:"true: answer from the documents that bot knowledge add has put into the bot's state"`
	Dir    string   `env:"BOT_KNOWLEDGE_DIR" else:"none" help:"folders of documents to answer from, as in PATH; read again when they change"`
	Tenant string   `env:"BOT_KNOWLEDGE_TENANT" else:"MICROSOFT_APP_TENANT_ID" help:"tenant whose people may read documents"`
	Hybrid bool     `env:"BOT_KNOWLEDGE_HYBRID" needs:"BOT_EMBEDDING_MODEL" help:"true: rank by words, too, for exact names and numbers"`
	Access []string `env:"BOT_KNOWLEDGE_ACCESS" needs:"BOT_KNOWLEDGE_DIR" else:"none, it has to be said" help:"who may read documents that do not say so themselves: everyone, nobody, or person:ID, team:ID, conversation:ID, group:NAME, comma separated"`

	Pictures int `env:"BOT_KNOWLEDGE_PICTURES" else:"none" max:"1000" needs:"BOT_MODEL_SEES" help:"how many scanned pages a run reads"`

	Every time.Duration `env:"BOT_KNOWLEDGE_EVERY" default:"5m" help:"how often the bot looks for changes in these folders"`

	Model   string `env:"BOT_EMBEDDING_MODEL" else:"none: found by words" help:"model that finds documents by meaning (on Azure a deployment)"`
	BaseURL string `env:"BOT_EMBEDDING_BASE_URL" url:"http" else:"the model's; with a key OpenAI's" needs:"BOT_EMBEDDING_MODEL" help:"server"`
	Key     string `env:"BOT_EMBEDDING_API_KEY" secret:"true" else:"the model's, on its server" needs:"BOT_EMBEDDING_MODEL" help:"its key"`

	Dimensions int `env:"BOT_EMBEDDING_DIMENSIONS" default:"512" max:"4096" help:"length of its vectors"`

	cfg   Config
	index atomic.Pointer[knowledge.Index] // of the bot, once it is made
}

// own is what the program says; nothing if a file describes the bot.
func (f *feature) own(s *settings.Settings) Config {
	if s.File != "" {
		return Config{}
	}
	return f.cfg
}

// hasIndex reports whether the bot answers from an index of its own.
func (f *feature) hasIndex(s *settings.Settings) bool { return f.On || len(f.folders(s)) > 0 }

// folders are what the bot itself adds to its index.
func (f *feature) folders(s *settings.Settings) []knowledge.Folder {
	all := slices.Clone(f.own(s).Folders)
	for i, folder := range all {
		if folder.FS == nil && folder.Path != "" {
			all[i].Name = cmp.Or(folder.Name, nameOf(folder.Path))
		}
	}
	for _, dir := range filepath.SplitList(f.Dir) {
		if dir = strings.TrimSpace(dir); dir != "" {
			all = append(all, knowledge.Folder{Path: dir, Name: nameOf(dir), Access: f.Access})
		}
	}
	return all
}

// nameOf is the name of a folder among those of an index.
func nameOf(dir string) string {
	if full, err := filepath.Abs(dir); err == nil {
		dir = full
	}
	return filepath.Base(dir)
}

// tenant is the one whose people may read documents; "": none is known.
func (f *feature) tenant(s *settings.Settings) string {
	if f.Tenant == "" && (s.AppID != "" || s.Proven) {
		return s.AppTenant
	}
	return f.Tenant
}

// check looks whether the folders are there, not into them.
func (f *feature) check(v app.Values) error {
	s := v.Settings()
	var faults []error
	fault := func(variable, format string, args ...any) {
		faults = append(faults, fmt.Errorf(variable+": "+format, args...))
	}
	rights := knowledge.CheckAccess(f.Access)
	if f.Dir != "" && len(f.Access) == 0 && !v.Faulty("BOT_KNOWLEDGE_ACCESS") {
		fault("BOT_KNOWLEDGE_ACCESS", "is needed with BOT_KNOWLEDGE_DIR: everyone, nobody, or person:ID, team:ID, conversation:ID, group:NAME")
	}
	if rights != nil {
		fault("BOT_KNOWLEDGE_ACCESS", "%w", rights)
	}
	own, seen := len(f.own(s).Folders), map[string]bool{}
	for i, folder := range f.folders(s) {
		source := "documents.Config.Folders"
		if i >= own {
			source = "BOT_KNOWLEDGE_DIR"
			folder.Access = []string{knowledge.Nobody} // who may read it has been checked
		}
		if err := folder.Check(); err != nil {
			fault(source, "%s: %w", cmp.Or(folder.Name, folder.Path, fmt.Sprint("number ", i+1)), err)
		}
		name := strings.ToLower(folder.Name)
		if seen[name] {
			fault(source, "two folders are called %s", folder.Name)
		}
		seen[name] = true
	}
	// A bot of one tenant hears of the tenant that it lacks already.
	if f.hasIndex(s) && s.AppID != "" && f.tenant(s) == "" && s.IdentityType() != "SingleTenant" {
		fault("BOT_KNOWLEDGE_TENANT", "is needed, as MICROSOFT_APP_TENANT_ID is not set: the tenant whose people may read the documents")
	}
	if f.On && len(f.folders(s)) == 0 && s.RedisURL == "" && s.DataDir == "" {
		fault("BOT_KNOWLEDGE", "needs REDIS_URL or BOT_DATA_DIR, where bot knowledge add puts documents; or set BOT_KNOWLEDGE_DIR")
	}
	if f.Model != "" {
		if _, err := s.Embedder(); err != nil {
			_, list, _ := strings.Cut(err.Error(), "embedder config: ")
			for line := range strings.Lines(list) {
				line = strings.Replace(strings.TrimSpace(line), "no Key for OpenAI", "needs OPENAI_API_KEY, or BOT_EMBEDDING_BASE_URL", 1)
				fault("BOT_EMBEDDING_MODEL", "%s", line)
			}
		}
	}
	if _, err := f.base(s); err != nil {
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}

// base makes what the bot can look up; nil: nothing. Its index is searched once there is one.
func (f *feature) base(s *settings.Settings) (*knowledge.Base, error) {
	cfg := f.own(s).Knowledge
	cfg.Sources = slices.Clone(cfg.Sources)
	if f.hasIndex(s) {
		var names []string
		for _, folder := range f.folders(s) {
			names = append(names, folder.Name)
		}
		cfg.Sources = append(cfg.Sources, knowledge.NamedSource{
			Name: "documents", About: strings.Join(names, ", "), Source: lateIndex{&f.index, s.AppID == "" && !s.Proven, f.tenant(s)},
		})
	}
	if len(cfg.Sources) == 0 {
		return nil, nil //nolint:nilnil // there is nothing to look up
	}
	base, err := knowledge.New(cfg)
	if err != nil {
		return nil, settings.Fault{Err: fmt.Errorf("documents.Config.Knowledge: %w", err)}
	}
	return base, nil
}

func (f *feature) register(v app.Values, registry *actions.Registry) {
	if base, err := f.base(v.Settings()); base != nil && err == nil { // check reports the error
		_ = base.Register(registry) // the registry collects it
	}
}

func (f *feature) plan(_ context.Context, v app.Values, cfg *planner.Config) error {
	base, err := f.base(v.Settings())
	if base != nil {
		cfg.DataSources = base.DataSources()
	}
	return err
}

// wire opens the bot's index, reads its folders and keeps both up to date.
func (f *feature) wire(ctx context.Context, p *app.Program, cfg *bot.Config) error {
	s := p.Settings()
	if cfg.Attachments.Shown && cfg.Attachments.Files == nil {
		cfg.Attachments.Files = knowledge.Files{Helper: f.cfg.Helper}
	}
	if !f.hasIndex(s) {
		return nil
	}
	if s.Proven && f.tenant(s) == "" {
		return errors.New("documents: Folders are for the people of one tenant: name it in Access.Tenants")
	}
	if cfg.Store == nil {
		store, err := state.Open(ctx, "", state.Config{})
		if err != nil {
			return err
		}
		cfg.Store = store
		p.OnClose(func() { _ = store.Close() }) // it is forgotten
	}
	index, err := f.open(s, cfg.Store, func(ctx context.Context, pages, prompt, completion int) {
		event := zerolog.Ctx(ctx).Info().Int("pages", pages).Int("promptTokens", prompt).Int("completionTokens", completion)
		cost := costOf(s, prompt, completion)
		if cost != "" {
			event.Str("cost", cost)
		}
		event.Msg("the model is about to read pages that are pictures; tokens and cost are estimated")
	})
	if err != nil {
		return app.Usage(err)
	}
	f.index.Store(index)
	first, err := f.open(s, cfg.Store, nil) // so that nothing waits until the model has read pages
	if err != nil {
		return app.Usage(err)
	}
	p.OnClose(f.keep(ctx, s, first, index))
	return nil
}

// costOf is what tokens cost; "" without a price.
func costOf(s *settings.Settings, prompt, completion int) string {
	if s.ModelPrice == nil {
		return ""
	}
	price := s.Price()
	return fmt.Sprintf("%.4f", (float64(prompt)*price[0]+float64(completion)*price[2])/1e6)
}

// open opens the index. The model reads no pages unless before is told what it is about to read.
func (f *feature) open(
	s *settings.Settings, store *state.Store, before func(ctx context.Context, pages, prompt, completion int),
) (*knowledge.Index, error) {
	cfg := knowledge.IndexConfig{Store: store, Tenant: f.tenant(s), Hybrid: f.Hybrid, Helper: f.cfg.Helper}
	if f.Model != "" {
		e, err := s.Embedder()
		if err != nil {
			return nil, err
		}
		cfg.Embedder = e
	}
	if f.Pictures > 0 && before != nil {
		model, _, err := s.NewModel(settings.Watch{})
		if err != nil {
			return nil, err
		}
		cfg.Sight = &knowledge.Sight{Model: model, MaxPages: f.Pictures, Before: before}
	}
	return knowledge.NewIndex(cfg)
}

// lateIndex is an index that is opened after planners are made.
type lateIndex struct {
	*atomic.Pointer[knowledge.Index]
	local  bool // nobody proves a tenant
	tenant string
}

var errNoIndex = errors.New("the index is not open")

// Search is that of the index. In local mode everybody is of its tenant: only this machine reaches the bot.
func (x lateIndex) Search(ctx context.Context, q knowledge.Query) ([]knowledge.Passage, error) {
	index := x.Load()
	if index == nil {
		return nil, errNoIndex
	}
	if x.local {
		q.Caller.Tenant = x.tenant
	}
	return index.Search(ctx, q)
}

const (
	firstRead  = 10 * time.Second // how long the start waits for the folders to be read
	readWithin = 30 * time.Minute // limits one run over a folder
)

// reader keeps the folders of a bot in its index.
type reader struct {
	index   *knowledge.Index
	folders []knowledge.Folder
	every   time.Duration
	said    map[string]string // what was last logged of a folder
}

func (f *feature) reader(s *settings.Settings, index *knowledge.Index) *reader {
	return &reader{index: index, folders: f.folders(s), every: cmp.Or(f.Every, 5*time.Minute), said: map[string]string{}}
}

// keep reads the folders, first without what a model has to read, and keeps them and the index up to date until ctx
// ends. done waits for that.
func (f *feature) keep(ctx context.Context, s *settings.Settings, blind, index *knowledge.Index) (done func()) {
	r := f.reader(s, index)
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	if len(r.folders) > 0 {
		first := make(chan struct{})
		running.Go(func() {
			f.reader(s, blind).read(ctx)
			close(first)
			if f.Pictures > 0 {
				r.read(ctx)
			}
			r.readAgain(ctx)
		})
		patience := time.NewTimer(firstRead)
		defer patience.Stop()
		select {
		case <-first:
		case <-patience.C:
			zerolog.Ctx(ctx).Warn().Msg("reading the documents is taking long; the bot starts meanwhile")
		case <-ctx.Done():
		}
	}
	running.Go(func() { index.Run(ctx) })
	return func() {
		cancel()
		running.Wait()
	}
}

func (r *reader) readAgain(ctx context.Context) {
	again := time.NewTicker(r.every)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-again.C:
			r.read(ctx)
		}
	}
}

// read adds all folders. It logs what is new.
func (r *reader) read(ctx context.Context) {
	for _, f := range r.folders {
		began := time.Now()
		within, cancel := context.WithTimeout(ctx, readWithin)
		report, err := r.index.Add(within, f)
		cancel()
		if ctx.Err() != nil || errors.Is(err, state.ErrConflict) { // another replica reads them, too
			continue
		}
		said := fmt.Sprint(err, report.NotTaken)
		log, news := zerolog.Ctx(ctx), said != r.said[f.Name]
		r.said[f.Name] = said
		switch {
		case err != nil && news:
			log.Error().Err(err).Str("folder", f.Name).Msg("cannot add the documents of a folder")
		case err == nil && report.Added+report.Changed+report.Removed+report.Seen > 0:
			log.Info().Str("folder", f.Name).Int("added", report.Added).Int("changed", report.Changed).Int("removed", report.Removed).
				Int("kept", report.Kept).Int("embedded", report.Embedded).
				Int("seen", report.Seen).Int("tokens", report.Used.Total()).Dur("took", time.Since(began)).Msg("read documents")
		}
		for _, n := range report.Partly {
			log.Warn().Str("folder", f.Name).Str("file", n.File).Str("why", n.Why).Msg("a document was taken in part")
		}
		for _, n := range report.NotTaken {
			if news {
				log.Warn().Str("folder", f.Name).Str("file", n.File).Str("why", n.Why).Msg("a document was not taken")
			}
		}
	}
}

// examine says what the bot can look up, and what was refused.
func (f *feature) examine(ctx context.Context, p *app.Program) app.Check {
	s, store := p.Settings(), p.Store()
	if !f.hasIndex(s) {
		return app.Check{}
	}
	const hint = "bot knowledge list shows the documents; docs/knowledge.md explains what can be read"
	index, err := f.open(s, store, nil)
	if err != nil {
		return app.Check{Status: "fail", Detail: err.Error(), Hint: hint}
	}
	if store.Embedded() { // the running bot has an index of its own
		f.reader(s, index).read(ctx)
	}
	all, err := index.List(ctx)
	if err == nil {
		_, err = index.Search(ctx, knowledge.Query{Text: "doctor"}) // on behalf of nobody: it asks for the model of the index only
	}
	var refused []knowledge.NotTaken
	if err == nil {
		refused, err = index.NotTaken(ctx)
	}
	switch {
	case errors.Is(err, knowledge.ErrNotBuilt):
		return app.Check{
			Status: "warn", Detail: "the index main has no documents",
			Hint: "add some: bot knowledge add FOLDER --access everyone, or set BOT_KNOWLEDGE_DIR",
		}
	case err != nil:
		return app.Check{Status: "fail", Detail: "the index main cannot be used: " + err.Error(), Hint: hint}
	}
	passages, unread := 0, 0
	for _, d := range all {
		passages += d.Chunks
		if !d.Readable {
			unread++
		}
	}
	c := app.Check{Status: "ok", Detail: fmt.Sprintf("the index main has %s, %s, found by %s",
		turnview.Count(len(all), "document"), turnview.Count(passages, "passage"), cmp.Or(f.Model, "their words"))}
	if unread > 0 {
		c.Detail += fmt.Sprintf("; %d of them nobody may read", unread)
	}
	for i, n := range refused {
		if i == 10 {
			c.Detail += fmt.Sprintf("\nand %d more", len(refused)-i)
			break
		}
		c.Detail += "\nnot taken: " + cli.OneLine(n.File) + ": " + cli.OneLine(n.Why)
	}
	if len(refused) > 0 || len(all) == 0 {
		c.Status = "warn"
		c.Hint = hint
	}
	return c
}

// use opens the index of the running bots. A bot whose state is in its process has another one: then
// the folders of its settings are read into a new index, unless changes are to be made.
func (f *feature) use(ctx context.Context, p *app.Program, changes bool, use func(context.Context, *knowledge.Index) error) error {
	s, log := p.Settings(), *p.Log()
	own := s.RedisURL == "" && s.DataDir == ""
	if own && (changes || len(f.folders(s)) == 0) {
		return app.Usage(errors.New("REDIS_URL or BOT_DATA_DIR must be set: other processes cannot see into an embedded Redis. " +
			"A bot without them reads folders itself: BOT_KNOWLEDGE_DIR"))
	}
	var store *state.Store
	var err error
	if own {
		if err := p.Check(); err != nil {
			return err
		}
		log = cli.Logger(p.Err(), s, zerolog.ErrorLevel)
		store, err = state.Open(ctx, "", state.Config{})
		if err == nil {
			p.OnClose(func() { _ = store.Close() }) // it is forgotten
		}
	} else {
		store, err = p.OpenStore(ctx)
	}
	if err != nil {
		return err
	}
	var before func(ctx context.Context, pages, prompt, completion int)
	if changes {
		before = func(_ context.Context, pages, prompt, completion int) {
			cost := costOf(s, prompt, completion)
			if cost != "" {
				cost = ", which cost about " + cost
			}
			what := "1 page that is a picture"
			if pages > 1 {
				what = fmt.Sprint(pages, " pages that are pictures")
			}
			fmt.Fprintf(p.Err(), "the model is about to read %s: about %d tokens to it and %d from it%s\n", what, prompt, completion, cost)
		}
	}
	index, err := f.open(s, store, before)
	if err != nil {
		return err
	}
	ctx = log.WithContext(ctx)
	if own {
		f.reader(s, index).read(ctx)
	}
	return use(ctx, index)
}

// readFileCommand has the program read one file as a child of itself. It is no command for people.
const readFileCommand = "_read-file"

// main is the whole program where it was started to read one file. Else a program whose main calls [app.Main]
// reads files in copies of itself; a test's binary runs its tests, whatever it is told.
func (f *feature) main(args []string) (exit int, done bool) {
	if len(args) == 1 && args[0] == readFileCommand {
		return readOneFile(), true
	}
	if f.cfg.Helper == nil && flag.Lookup("test.v") == nil {
		f.cfg.Helper = Self()
	}
	return 0, false
}

func readOneFile() int {
	// Where the system has no sandbox, the limits that the parent has set remain.
	_ = sandbox.Confine()
	if err := knowledge.ServeHelper(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// Self reads files in copies of this program; nil if that cannot be. Only a program whose main calls [app.Main] may
// start those: of any other nobody knows what it does with the argument.
func Self() *knowledge.Helper {
	program, err := os.Executable()
	if err != nil {
		return nil
	}
	if _, err := os.Stat("/proc/self/exe"); err == nil {
		program = "/proc/self/exe" // also if another version took the program's place
	}
	helper, err := knowledge.NewHelper(knowledge.HelperConfig{Command: []string{program, readFileCommand}})
	if err != nil {
		return nil
	}
	return helper
}

const (
	watchEvery  = 5 * time.Second
	exitPartial = 3 // says that some files were not taken
)

// commands are those that the feature adds.
type commands struct {
	Knowledge knowledgeCommands `help:"Add, list, remove or search documents that the bot answers from."`
}

func newCommands(f *feature) *commands {
	return &commands{knowledgeCommands{
		Add:    addCommand{of: f},
		List:   listCommand{of: f},
		Remove: removeCommand{of: f},
		Search: searchCommand{of: f},
	}}
}

type knowledgeCommands struct {
	Add    addCommand    `help:"Add documents, or update those of a folder. Exit code 3: some files were left out."`
	List   listCommand   `help:"List the documents, and the files that were left out."`
	Remove removeCommand `help:"Remove a folder or a document."`
	Search searchCommand `help:"Search as the bot does, on behalf of somebody."`
}

type addCommand struct {
	of *feature

	Paths  []string      `arg:"" name:"path" help:"folders or files: Markdown, HTML, PDF, DOCX, XLSX, text"`
	Access []string      `required:"" help:"who may read: everyone, nobody, person:ID, team:ID, conversation:ID, group:NAME"`
	Name   string        `help:"what to call the folder (the last part of its path); adding it again replaces it"`
	URL    string        `name:"url" help:"https address of the folder, where people can read its files"`
	Shrink bool          `help:"allow that more than 30 % of the documents have vanished"`
	Watch  bool          `help:"go on, and look for changes every 5 seconds"`
	Every  time.Duration `help:"go on, and look for changes this often, such as 1h"`
	JSON   bool          `name:"json" help:"print a JSON object for each run over a folder"`
}

// Run adds the documents, once or until it is stopped.
func (c addCommand) Run(ctx context.Context, p *app.Program) error {
	if err := knowledge.CheckAccess(c.Access); err != nil {
		return app.Usage(fmt.Errorf("--access: %w", err))
	}
	if len(c.Paths) > 1 && c.Name != "" {
		return app.Usage(errors.New("--name is for one folder"))
	}
	var names []string
	for _, path := range c.Paths {
		whole, err := filepath.Abs(path)
		if err != nil {
			return err
		}
		if names = append(names, filepath.Base(whole)); slices.Contains(names[:len(names)-1], filepath.Base(whole)) {
			return app.Usage(fmt.Errorf("two folders are called %s: add each with a --name", filepath.Base(whole)))
		}
	}
	if c.Every < 0 {
		return app.Usage(errors.New("--every is negative"))
	}
	if c.Watch {
		c.Every = cmp.Or(c.Every, watchEvery)
	}
	return c.of.use(ctx, p, true, func(ctx context.Context, index *knowledge.Index) error {
		var timer <-chan time.Time
		if c.Every > 0 {
			ticker := time.NewTicker(c.Every)
			defer ticker.Stop()
			timer = ticker.C
		}
		said := map[string]string{}
		for {
			failed, partial := false, false
			for _, path := range c.Paths {
				report, err := index.Add(ctx, knowledge.Folder{Path: path, Name: c.Name, Access: c.Access, URL: c.URL, Shrink: c.Shrink})
				if ctx.Err() != nil && timer != nil {
					return nil // stopped
				}
				failed, partial = failed || err != nil, partial || len(report.NotTaken) > 0
				if now := fmt.Sprint(report, err, report.NotTaken); now != said[path] {
					said[path] = now
					if err := c.print(p, path, report, err); err != nil {
						return err
					}
				}
			}
			switch {
			case timer != nil:
			case failed:
				return cli.SilentError{Code: cli.ExitFailed}
			case partial:
				return cli.SilentError{Code: exitPartial}
			default:
				return nil
			}
			select {
			case <-ctx.Done():
				return nil
			case <-timer:
			}
		}
	})
}

// print tells what became of one folder.
func (c addCommand) print(p *app.Program, path string, report knowledge.Report, failed error) error {
	why := ""
	if failed != nil {
		why = failed.Error()
		if errors.Is(failed, knowledge.ErrShrinks) {
			why += " (--shrink)"
		}
	}
	if c.JSON {
		return cli.PrintJSON(p.Out(), struct {
			Path                                    string `json:"path"`
			Added, Changed, Removed, Kept, Embedded int
			Seen, Tokens                            int
			NotTaken, Partly                        []knowledge.NotTaken
			Error                                   string `json:",omitempty"`
		}{
			path, report.Added, report.Changed, report.Removed, report.Kept, report.Embedded, report.Seen, report.Used.Total(),
			append([]knowledge.NotTaken{}, report.NotTaken...), append([]knowledge.NotTaken{}, report.Partly...), why,
		})
	}
	for _, n := range slices.Concat(report.Partly, report.NotTaken) {
		fmt.Fprintf(p.Err(), "%s: %s\n", cli.OneLine(n.File), cli.OneLine(n.Why))
	}
	if failed != nil {
		fmt.Fprintf(p.Err(), "%s: %s\n", cli.OneLine(path), cli.OneLine(why))
		return nil
	}
	embedded := ""
	if report.Embedded > 0 {
		embedded = ", " + turnview.Count(report.Embedded, "passage") + " embedded"
	}
	fmt.Fprintf(p.Out(), "%s: %s%s\n", cli.OneLine(path), report, embedded)
	return nil
}

type listCommand struct {
	of *feature

	JSON bool `name:"json" help:"print JSON"`
}

func (c listCommand) Run(ctx context.Context, p *app.Program) error {
	return c.of.use(ctx, p, false, func(ctx context.Context, index *knowledge.Index) error {
		all, err := index.List(ctx)
		if err != nil {
			return err
		}
		refused, err := index.NotTaken(ctx)
		if err != nil {
			return err
		}
		if c.JSON {
			return cli.PrintJSON(p.Out(), map[string]any{
				"documents": append([]knowledge.Document{}, all...),
				"notTaken":  append([]knowledge.NotTaken{}, refused...),
			})
		}
		table := tabwriter.NewWriter(p.Out(), 0, 0, 2, ' ', 0)
		if len(all) > 0 {
			fmt.Fprintln(table, "DOCUMENT\tPASSAGES\tREADABLE\tTITLE")
		}
		for _, d := range all {
			readable := "yes"
			if !d.Readable {
				readable = "by nobody"
			}
			fmt.Fprintf(table, "%s\t%d\t%s\t%s\n", cli.OneLine(d.ID), d.Chunks, readable, cli.OneLine(d.Title))
		}
		if err := table.Flush(); err != nil {
			return err
		}
		fmt.Fprintln(p.Out(), turnview.Count(len(all), "document"))
		for _, n := range refused {
			fmt.Fprintf(p.Out(), "not taken: %s: %s\n", cli.OneLine(n.File), cli.OneLine(n.Why))
		}
		return nil
	})
}

type removeCommand struct {
	of *feature

	Name string `arg:"" help:"name of a folder, or of a document as list shows it"`
}

func (c removeCommand) Run(ctx context.Context, p *app.Program) error {
	return c.of.use(ctx, p, true, func(ctx context.Context, index *knowledge.Index) error {
		n, err := index.Remove(ctx, c.Name)
		switch {
		case err != nil:
			return err
		case n == 0:
			return fmt.Errorf("there is no folder and no document %q", c.Name)
		}
		fmt.Fprintln(p.Out(), turnview.Count(n, "document"), "removed")
		return nil
	})
}

type searchCommand struct {
	of *feature

	Words        []string `arg:"" help:"what to look for"`
	Person       string   `help:"object id of a person, as in a chat with them (only what everyone may read)"`
	Conversation string   `help:"id of a conversation, as in that group chat or channel"`
	Team         string   `help:"id of a team, as in a channel of it"`
	Groups       []string `name:"group" help:"a group that the person is in; may be repeated"`
	Limit        int      `default:"5" help:"how many passages at most"`
	JSON         bool     `name:"json" help:"print JSON"`
}

// Run prints what the bot would find.
func (c searchCommand) Run(ctx context.Context, p *app.Program) error {
	if len(c.Groups) > 0 && c.Person == "" {
		return app.Usage(errors.New("--group needs --person"))
	}
	return c.of.use(ctx, p, false, func(ctx context.Context, index *knowledge.Index) error {
		passages, err := index.Search(ctx, knowledge.Query{Text: strings.Join(c.Words, " "), Limit: c.Limit, Caller: knowledge.Caller{
			Tenant: index.Tenant(), Conversation: cmp.Or(c.Conversation, "bot knowledge search"), Team: c.Team,
			Personal: c.Person != "", Person: c.Person, Groups: c.Groups,
		}})
		switch {
		case err != nil:
			return err
		case c.JSON:
			return cli.PrintJSON(p.Out(), append([]knowledge.Passage{}, passages...))
		}
		for i, found := range passages {
			fmt.Fprintf(p.Out(), "%d. %s  %.3f\n   %s\n   %s\n", i+1, cli.OneLine(found.ID), found.Score,
				cli.OneLine(cmp.Or(found.Path, found.Title)), cli.OneLine(spelling.Cut(found.Text, 160)))
		}
		fmt.Fprintln(p.Out(), turnview.Count(len(passages), "passage"))
		return nil
	})
}
