package documents

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/app/internal/turnview"
	"github.com/planbot-go/planbot/internal/cli"
	"github.com/planbot-go/planbot/internal/spelling"
	"github.com/planbot-go/planbot/knowledge"
)

const (
	watchEvery = 5 * time.Second
	// exitPartial says that some files were not taken.
	exitPartial = 3
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
	Access []string      `required:"" help:"who may read documents that do not say so themselves: everyone (of the tenant), nobody, person:ID, team:ID, conversation:ID or group:NAME, comma separated"`
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
			NotTaken, Partly                        []knowledge.NotTaken
			Error                                   string `json:",omitempty"`
		}{
			path, report.Added, report.Changed, report.Removed, report.Kept, report.Embedded,
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

// Run prints the documents.
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

// Run removes documents.
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
