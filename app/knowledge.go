package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/app/internal/turnview"
	"github.com/planbot-go/planbot/internal/cli"
	"github.com/planbot-go/planbot/internal/settings"
	"github.com/planbot-go/planbot/internal/spelling"
	"github.com/planbot-go/planbot/knowledge"
	"github.com/planbot-go/planbot/state"
)

const (
	// firstRead limits how long a start waits for the documents. What takes longer goes on while the bot
	// serves.
	firstRead = 20 * time.Second
	// readWithin limits one run over a folder.
	readWithin = 30 * time.Minute
	watchEvery = 5 * time.Second
	// exitPartial says that some files were not taken.
	exitPartial = 3
)

// reader keeps the folders of a bot in its index.
type reader struct {
	index   *knowledge.Index
	folders []knowledge.Folder
	every   time.Duration
	said    map[string]string // what was last logged of a folder
}

// openKnowledge opens the bot's index, reads its folders and keeps both up to date until ctx ends. done waits
// for that. Without an index it does nothing. It fails only if the settings are wrong.
func openKnowledge(ctx context.Context, s *settings.Settings, store *state.Store) (done func(), err error) {
	if !s.UsesIndex() {
		return func() {}, nil
	}
	index, err := s.OpenIndex(store)
	if err != nil {
		return nil, err
	}
	r := &reader{index: index, folders: s.Folders(), every: cmp.Or(s.KnowledgeEvery, 5*time.Minute), said: map[string]string{}}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	if len(r.folders) > 0 {
		first := make(chan struct{})
		running.Go(func() {
			r.read(ctx)
			close(first)
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
	}, nil
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
		case err == nil && report.Added+report.Changed+report.Removed > 0:
			log.Info().Str("folder", f.Name).Int("added", report.Added).Int("changed", report.Changed).Int("removed", report.Removed).
				Int("kept", report.Kept).Int("embedded", report.Embedded).Dur("took", time.Since(began)).Msg("read documents")
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

type knowledgeCmd struct {
	Add    knowledgeAddCmd    `help:"Add documents, or update those of a folder. Exit code 3: some files were left out."`
	List   knowledgeListCmd   `help:"List the documents, and the files that were left out."`
	Remove knowledgeRemoveCmd `help:"Remove a folder or a document."`
	Search knowledgeSearchCmd `help:"Search as the bot does, on behalf of somebody."`
}

// withIndex opens the index of the running bots. A bot whose state is in its process has another one: then
// the folders of its settings are read into a new index, unless changes are to be made.
func withIndex(ctx context.Context, s *settings.Settings, std *cli.Streams, changes bool, use func(context.Context, *knowledge.Index) error) error {
	own := s.RedisURL == "" && s.DataDir == ""
	open := func(store *state.Store, log zerolog.Logger) error {
		ctx := log.WithContext(ctx)
		index, err := s.OpenIndex(store)
		if err != nil {
			return err
		}
		if own {
			(&reader{index: index, folders: s.Folders(), said: map[string]string{}}).read(ctx)
		}
		return use(ctx, index)
	}
	switch {
	case !own:
		return withStore(ctx, s, std, func(p *program) error { return open(p.store, p.log) })
	case changes || len(s.Folders()) == 0:
		return cli.Usage(errors.New("REDIS_URL or BOT_DATA_DIR must be set: other processes cannot see into an embedded Redis. " +
			"A bot without them reads folders itself: BOT_KNOWLEDGE_DIR"))
	}
	if err := cli.Check(s); err != nil {
		return err
	}
	store, err := state.Open(ctx, "", state.Config{})
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }() // it is forgotten
	return open(store, cli.Logger(std.Err, s, zerolog.ErrorLevel))
}

type knowledgeAddCmd struct {
	Paths  []string      `arg:"" name:"path" help:"folders or files: Markdown, HTML, PDF, DOCX, XLSX, text"`
	Access []string      `required:"" help:"who may read documents that do not say so themselves: everyone (of the tenant), nobody, person:ID, team:ID, conversation:ID or group:NAME, comma separated"`
	Name   string        `help:"what to call the folder (the last part of its path); adding it again replaces it"`
	URL    string        `name:"url" help:"https address of the folder, where people can read its files"`
	Shrink bool          `help:"allow that more than 30 % of the documents have vanished"`
	Watch  bool          `help:"go on, and look for changes every 5 seconds"`
	Every  time.Duration `help:"go on, and look for changes this often, such as 1h"`
	JSON   bool          `name:"json" help:"print a JSON object for each run over a folder"`
}

// Run adds the documents, once or until it is stopped.
func (c knowledgeAddCmd) Run(ctx context.Context, s *settings.Settings, std *cli.Streams) error {
	if err := knowledge.CheckAccess(c.Access); err != nil {
		return cli.Usage(fmt.Errorf("--access: %w", err))
	}
	if len(c.Paths) > 1 && c.Name != "" {
		return cli.Usage(errors.New("--name is for one folder"))
	}
	var names []string
	for _, path := range c.Paths {
		whole, err := filepath.Abs(path)
		if err != nil {
			return err
		}
		if names = append(names, filepath.Base(whole)); slices.Contains(names[:len(names)-1], filepath.Base(whole)) {
			return cli.Usage(fmt.Errorf("two folders are called %s: add each with a --name", filepath.Base(whole)))
		}
	}
	if c.Every < 0 {
		return cli.Usage(errors.New("--every is negative"))
	}
	if c.Watch {
		c.Every = cmp.Or(c.Every, watchEvery)
	}
	return withIndex(ctx, s, std, true, func(ctx context.Context, index *knowledge.Index) error {
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
					if err := c.print(std, path, report, err); err != nil {
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
func (c knowledgeAddCmd) print(std *cli.Streams, path string, report knowledge.Report, failed error) error {
	why := ""
	if failed != nil {
		why = failed.Error()
		if errors.Is(failed, knowledge.ErrShrinks) {
			why += " (--shrink)"
		}
	}
	if c.JSON {
		return cli.PrintJSON(std.Out, struct {
			Path                                    string `json:"path"`
			Added, Changed, Removed, Kept, Embedded int
			NotTaken, Partly                        []knowledge.NotTaken
			Error                                   string `json:",omitempty"`
		}{path, report.Added, report.Changed, report.Removed, report.Kept, report.Embedded, append([]knowledge.NotTaken{}, report.NotTaken...), append([]knowledge.NotTaken{}, report.Partly...), why})
	}
	for _, n := range slices.Concat(report.Partly, report.NotTaken) {
		fmt.Fprintf(std.Err, "%s: %s\n", cli.OneLine(n.File), cli.OneLine(n.Why))
	}
	if failed != nil {
		fmt.Fprintf(std.Err, "%s: %s\n", cli.OneLine(path), cli.OneLine(why))
		return nil
	}
	embedded := ""
	if report.Embedded > 0 {
		embedded = ", " + turnview.Count(report.Embedded, "passage") + " embedded"
	}
	fmt.Fprintf(std.Out, "%s: %s%s\n", cli.OneLine(path), report, embedded)
	return nil
}

type knowledgeListCmd struct {
	JSON bool `name:"json" help:"print JSON"`
}

// Run prints the documents.
func (c knowledgeListCmd) Run(ctx context.Context, s *settings.Settings, std *cli.Streams) error {
	return withIndex(ctx, s, std, false, func(ctx context.Context, index *knowledge.Index) error {
		all, err := index.List(ctx)
		if err != nil {
			return err
		}
		refused, err := index.NotTaken(ctx)
		if err != nil {
			return err
		}
		if c.JSON {
			return cli.PrintJSON(std.Out, map[string]any{"documents": append([]knowledge.Document{}, all...), "notTaken": append([]knowledge.NotTaken{}, refused...)})
		}
		table := tabwriter.NewWriter(std.Out, 0, 0, 2, ' ', 0)
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
		fmt.Fprintln(std.Out, turnview.Count(len(all), "document"))
		for _, n := range refused {
			fmt.Fprintf(std.Out, "not taken: %s: %s\n", cli.OneLine(n.File), cli.OneLine(n.Why))
		}
		return nil
	})
}

type knowledgeRemoveCmd struct {
	Name string `arg:"" help:"name of a folder, or of a document as list shows it"`
}

// Run removes documents.
func (c knowledgeRemoveCmd) Run(ctx context.Context, s *settings.Settings, std *cli.Streams) error {
	return withIndex(ctx, s, std, true, func(ctx context.Context, index *knowledge.Index) error {
		n, err := index.Remove(ctx, c.Name)
		switch {
		case err != nil:
			return err
		case n == 0:
			return fmt.Errorf("there is no folder and no document %q", c.Name)
		}
		fmt.Fprintln(std.Out, turnview.Count(n, "document"), "removed")
		return nil
	})
}

type knowledgeSearchCmd struct {
	Words        []string `arg:"" help:"what to look for"`
	Person       string   `help:"object id of a person, as in a chat with them (only what everyone may read)"`
	Conversation string   `help:"id of a conversation, as in that group chat or channel"`
	Team         string   `help:"id of a team, as in a channel of it"`
	Groups       []string `name:"group" help:"a group that the person is in; may be repeated"`
	Limit        int      `default:"5" help:"how many passages at most"`
	JSON         bool     `name:"json" help:"print JSON"`
}

// Run prints what the bot would find.
func (c knowledgeSearchCmd) Run(ctx context.Context, s *settings.Settings, std *cli.Streams) error {
	if len(c.Groups) > 0 && c.Person == "" {
		return cli.Usage(errors.New("--group needs --person"))
	}
	return withIndex(ctx, s, std, false, func(ctx context.Context, index *knowledge.Index) error {
		passages, err := index.Search(ctx, knowledge.Query{Text: strings.Join(c.Words, " "), Limit: c.Limit, Caller: knowledge.Caller{
			Tenant: index.Tenant(), Conversation: cmp.Or(c.Conversation, "bot knowledge search"), Team: c.Team,
			Personal: c.Person != "", Person: c.Person, Groups: c.Groups,
		}})
		switch {
		case err != nil:
			return err
		case c.JSON:
			return cli.PrintJSON(std.Out, append([]knowledge.Passage{}, passages...))
		}
		for i, p := range passages {
			fmt.Fprintf(std.Out, "%d. %s  %.3f\n   %s\n   %s\n", i+1, cli.OneLine(p.ID), p.Score,
				cli.OneLine(cmp.Or(p.Path, p.Title)), cli.OneLine(spelling.Cut(p.Text, 160)))
		}
		fmt.Fprintln(std.Out, turnview.Count(len(passages), "passage"))
		return nil
	})
}
