// Package audit is a feature of a program: commands that list the audit of a bot, and verify it.
package audit

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/app/internal/turnview"
	"github.com/planbot-go/planbot/bot/audit"
	"github.com/planbot-go/planbot/internal/cli"
)

// Feature adds the command audit.
func Feature() app.Feature {
	return app.Feature{Name: "audit", Commands: &struct {
		Audit commands `help:"List approvals and action calls with effects; needs BOT_AUDIT_KEEP, and REDIS_URL or BOT_DATA_DIR."`
	}{}}
}

type commands struct {
	List   list   `default:"true" help:"List approvals and action calls with effects; needs BOT_AUDIT_KEEP, and REDIS_URL or BOT_DATA_DIR."`
	Verify verify `help:"Check that each entry has the hash of the one before it."`
}

type list struct {
	Since moreRecent `placeholder:"TIME" help:"only entries since a time such as 2026-01-31 or 2026-01-31T08:00:00Z, or of the last, such as 24h"`
	User  string     `placeholder:"ID" help:"only entries of this person, by aadObjectId or account id"`
	JSON  bool       `name:"json" help:"print JSON: one object a line"`
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
	return "Oldest first. An approval was asked, changed, approved, approved-always, rejected, expired or failed (nobody could be asked). " +
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
			fmt.Fprintln(table, "WHEN\tWHAT\tOUTCOME\tACTION\tENTITIES\tUSER\tTURN\tCONVERSATION")
		}
		_, err := fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%.12s\t%s\t%s\t%s\n",
			turnview.Moment(e.At), cli.Printable(e.What), cli.Printable(e.Outcome), cli.Printable(e.Action), cli.Printable(e.Entities),
			cli.Printable(cmp.Or(e.User, e.Account)), cli.Printable(e.Turn), cli.Printable(e.Conversation))
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
	Since moreRecent `placeholder:"TIME" help:"only entries since a time such as 2026-01-31, or of the last, such as 24h"`
}

func (verify) Help() string {
	return "If an entry was changed, added or removed, the first one that does not fit is shown, and the exit code is 1. " +
		"Entries that are missing at either end are not found, nor is a chain that somebody rewrote from its start."
}

func (c verify) Run(ctx context.Context, p *app.Program) error {
	store, err := p.OpenStore(ctx)
	if err != nil {
		return err
	}
	chain, err := audit.Verify(ctx, store, c.Since.Time)
	if err != nil {
		return err
	}
	if chain.Fault != "" {
		fmt.Fprintf(p.Out(), "Entry %d does not follow the one before it:\n%s\n", chain.Entries+1, cli.Printable(chain.Fault))
		return cli.SilentError{Code: cli.ExitFailed}
	}
	if chain.Loose > 0 {
		fmt.Fprintf(p.Out(), "The oldest %d have no hash, like those of earlier releases.\n", chain.Loose)
	}
	_, err = fmt.Fprintf(p.Out(), "Each of %s follows the one before it.\n", turnview.Count(chain.Entries, "audit line"))
	return err
}
