// Package audit is a feature of a program: a command that lists the audit of a bot.
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
		Audit command `help:"List approvals and action calls with effects; needs BOT_AUDIT_KEEP, and REDIS_URL or BOT_DATA_DIR."`
	}{}}
}

type command struct {
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

// Help explains the columns.
func (command) Help() string {
	return "Oldest first. An approval was asked, approved, approved-always, rejected, expired or failed (nobody could be asked). " +
		"A call was ok, unchanged (it found nothing to act on), failed or unknown (it was cut off). " +
		"Of moderation there is what was flagged, with its categories as ACTION. " +
		"ENTITIES is the start of a digest: equal entities have equal digests."
}

// Run prints the audit.
func (c command) Run(ctx context.Context, p *app.Program) error {
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
