// Package audit is a feature of a program: commands that list the audit of a bot, and verify it.
package audit

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/app/internal/turnview"
	"github.com/planbot-go/planbot/bot/audit"
	"github.com/planbot-go/planbot/internal/cli"
	"github.com/planbot-go/planbot/internal/settings"
)

// Feature adds the command audit.
func Feature() app.Feature {
	return app.Feature{Name: "audit", Commands: &struct {
		Audit commands `help:"List approvals and action calls with effects; needs BOT_AUDIT_KEEP, and REDIS_URL or BOT_DATA_DIR."`
	}{}}
}

type commands struct {
	List   list   `default:"true" help:"List approvals and action calls with effects; needs BOT_AUDIT_KEEP, and REDIS_URL or BOT_DATA_DIR."`
	Verify verify `help:"Check that no entry was changed, added or removed, here or in files of list --json."`
}

type list struct {
	Since moreRecent `placeholder:"TIME" help:"only entries since a time such as 2026-01-31 or 2026-01-31T08:00:00Z, or of the last, such as 24h"`
	User  string     `placeholder:"ID" help:"only entries of this person, by aadObjectId or account id"`
	JSON  bool       `name:"json" help:"print JSON: one object a line and, without --user, what verify FILE needs"`
}

// moreRecent is a time, or how long ago it was.
type moreRecent struct{ time.Time }

// UnmarshalText reads a duration, a day in UTC, or a time.
func (s *moreRecent) UnmarshalText(text []byte) (err error) {
	if ago, err := time.ParseDuration(string(text)); err == nil && ago > 0 {
		s.Time = time.Now().Add(-ago)
		return nil
	}
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if s.Time, err = time.Parse(layout, string(text)); err == nil {
			return nil
		}
	}
	return fmt.Errorf("%.80q is neither a duration such as 24h nor a time such as 2026-01-31 or 2026-01-31T08:00:00Z", text)
}

func (list) Help() string {
	return "Oldest first. An approval was asked, changed, approved, approved-always, rejected, " +
		"withdrawn (by who asked), expired or failed (nobody could be asked). " +
		"A call was ok, unchanged (it found nothing to act on), failed or unknown (it was cut off). " +
		"A delegation was begun, ended or decided (an approver's delegate decided in their place). " +
		"Of moderation there is what was flagged, with its categories as ACTION. " +
		"ENTITIES is the start of a digest: equal entities have equal digests."
}

func (c list) Run(ctx context.Context, p *app.Program) error {
	store, err := p.OpenStore(ctx)
	if err != nil {
		return err
	}
	if c.JSON && c.User == "" { // with what is about to go: verify counts it
		return audit.Export(ctx, store, c.Since.Time, p.Out())
	}
	from, keep := c.Since.Time, p.Settings().AuditKeep
	if oldest := time.Now().Add(-keep); keep > 0 && from.Before(oldest) {
		from = oldest
	}
	lines := json.NewEncoder(p.Out())
	lines.SetEscapeHTML(false)
	table := tabwriter.NewWriter(p.Out(), 0, 0, 2, ' ', 0)
	listed := 0
	err = audit.Read(ctx, store, from, func(e audit.Entry) error {
		if c.User != "" && !strings.EqualFold(c.User, e.User) && c.User != e.Account {
			return nil
		}
		listed++
		if c.JSON {
			return lines.Encode(e)
		}
		if listed == 1 {
			fmt.Fprintln(table, "WHEN\tWHAT\tOUTCOME\tACTION\tENTITIES\tUSER\tTURN\tCONVERSATION\tASKED")
		}
		_, err := fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%.12s\t%s\t%s\t%s\t%s\n",
			turnview.Moment(e.At), cli.Printable(e.What), cli.Printable(e.Outcome), cli.Printable(e.Action), cli.Printable(e.Entities),
			cli.Printable(cmp.Or(e.User, e.Account)), cli.Printable(e.Turn), cli.Printable(e.Conversation), cli.Printable(e.Asked))
		return err
	})
	if err != nil || c.JSON {
		return err
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err = fmt.Fprintln(p.Out(), turnview.Count(listed, "audit line"))
	return err
}

type verify struct {
	Since moreRecent `placeholder:"TIME" help:"as of audit: only entries since then; of files: those before may be missing"`
	Files []string   `arg:"" optional:"" placeholder:"FILE" help:"files that bot audit --json wrote, oldest first: verify these, as one audit"`
}

func (verify) Help() string {
	return "If an entry was changed, added or removed, the first one that does not fit is shown, and the exit code is 1. " +
		"It is 1 as well if the beginning or the end is missing or, with BOT_AUDIT_KEYS, not signed by one of them. " +
		"The beginning of files that list --json --since wrote is missing: say --since, too, or put the files before them first. " +
		"Without these keys, somebody who can write to Redis can rewrite the whole audit. " +
		"With them they can only put back an older one as a whole: compare its time and number, or verify files."
}

func (c verify) Run(ctx context.Context, p *app.Program) error {
	keys, err := settings.Keys("BOT_AUDIT_KEYS", p.Settings().AuditKeys)
	if err != nil {
		return cli.Usage(err)
	}
	chain, err := c.verify(ctx, p, keys)
	if err != nil {
		return err
	}
	if chain.Fault != "" {
		fmt.Fprintf(p.Out(), "Entry %d does not follow the one before it:\n%s\n", chain.Entries+1, cli.Printable(chain.Fault))
		return cli.SilentError{Code: cli.ExitFailed}
	}
	if chain.Missing != "" {
		fmt.Fprintf(p.Out(), "%s.\n%s verified before that.\n", cli.Printable(chain.Missing), turnview.Count(chain.Entries, "audit line"))
		return cli.SilentError{Code: cli.ExitFailed}
	}
	if chain.Cut > 0 && c.Since.IsZero() {
		fmt.Fprintf(p.Out(), "At the beginning, entries are missing that were there when the newest one was written: %d.\n"+
			"%s verified after that.\n", chain.Cut, turnview.Count(chain.Entries, "audit line"))
		return cli.SilentError{Code: cli.ExitFailed}
	}
	if chain.Loose > 0 {
		fmt.Fprintf(p.Out(), "The oldest %d have no hash, like those of earlier releases.\n", chain.Loose)
	}
	fmt.Fprintf(p.Out(), "Each of %s follows the one before it.\n", turnview.Count(chain.Entries, "audit line"))
	for _, said := range known(chain, len(keys) > 0, c.Since.IsZero()) {
		fmt.Fprintln(p.Out(), said)
	}
	return nil
}

// verify verifies what the command is about.
func (c verify) verify(ctx context.Context, p *app.Program, keys [][]byte) (chain audit.Chain, err error) {
	if len(c.Files) == 0 {
		store, err := p.OpenStore(ctx)
		if err != nil {
			return chain, err
		}
		return audit.Verify(ctx, store, keys, c.Since.Time)
	}
	var files []io.Reader
	for _, name := range c.Files {
		file, err := os.Open(name)
		if err != nil {
			return chain, err
		}
		defer func() { _ = file.Close() }()
		files = append(files, file)
	}
	return audit.VerifyFiles(keys, files...)
}

// known says what is known of an audit besides that it fits together, and what is not. whole says that all of it was read.
func known(c audit.Chain, keys, whole bool) (said []string) {
	switch {
	case c.Entries == 0 && c.Written == 0:
		said = append(said, "Nothing says whether there ever were any.")
	case c.Written == 0:
		said = append(said, "Where it ends was never noted, as by earlier releases: entries that are missing at the end are not found.")
	default:
		said = append(said, fmt.Sprintf("%s were written in all, and the newest of them is there.", turnview.Count(c.Written, "audit line")))
		if gone := c.Written - c.Entries - c.Cut; gone > 0 && whole {
			said = append(said, fmt.Sprintf("The oldest %d went with time, or because there were too many.", gone))
		}
	}
	switch {
	case !c.Signed.IsZero():
		said = append(said, fmt.Sprintf("The newest was signed on %s.", turnview.Moment(c.Signed)))
		if c.From > 1 {
			said = append(said, fmt.Sprintf("Those before number %d were not signed when they were written: nothing proves these.", c.From))
		}
	case !keys:
		said = append(said, "Without BOT_AUDIT_KEYS, nothing shows whether somebody wrote all of it anew.")
	}
	return said
}
