package turn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/bot/turn/internal/ask"
	"github.com/planbot-go/planbot/state"
)

// The audit says who approved what, and which actions with effects ran. An entry is first part of
// the turn's record: it is saved in the same step as the outcome or the decision that it is about.
// When the turn ends, waits or is left, its entries go to a log in Redis that all replicas share.
// If the process dies in between, the next one sends them again, and the log keeps each once. So a
// crash loses no entry of what is saved; a call that was cut off has one once it ran again, or
// once it is a dead letter.

// AuditEntry is one entry of the audit. It has ids and nothing that people or models wrote.
type AuditEntry struct {
	At time.Time `json:"at"`
	// What is "approval", "call" or "moderation".
	What string `json:"what"`
	// Outcome of an approval: asked, approved, approved-always, rejected, expired, or failed if
	// nobody could be asked. Of a call: ok, unchanged, failed, or unknown if it was cut off. Of
	// moderation: flagged.
	Outcome string `json:"outcome"`
	// Action is the action's name. Of moderation it is the categories, separated by commas.
	Action string `json:"action"`
	// Entities is the SHA-256 of the call's entities, or of the texts that were flagged. Equal ones have
	// equal digests.
	Entities string `json:"entities"`
	// ID is that of the approval, or the [actions.Attempt.Key] of the call, or what moderation was
	// asked about: its kinds, such as said, separated by commas.
	ID   string `json:"id"`
	Turn string `json:"turn"`

	// User is the aadObjectId of who wrote or clicked, and Tenant theirs; "" where the channel does
	// not prove them. Account is their id in the channel. Nobody wrote or clicked when an approval
	// expired: there it is who asked for the call.
	User         string `json:"user,omitempty"`
	Tenant       string `json:"tenant,omitempty"`
	Account      string `json:"account,omitempty"`
	Channel      string `json:"channel,omitempty"`
	Conversation string `json:"conversation,omitempty"`
	// By is the program that asked on the person's behalf, see [actions.Request]. "": the person
	// asked.
	By string `json:"by,omitempty"`
}

const (
	auditLog = "audit"
	// maxAudit limits the entries in Redis, to about 100 MB.
	maxAudit = 200_000

	auditApproval = "approval"
	auditCall     = "call"
	auditUnknown  = "unknown"

	auditModeration = "moderation"
)

// ReadAudit passes the entries since then to each, oldest first, until each returns an error. It
// also ends with an error at an entry of another version that it cannot read.
func ReadAudit(ctx context.Context, store *state.Store, since time.Time, each func(AuditEntry) error) error {
	return store.Lines(ctx, auditLog, since, func(line string) error {
		var entry AuditEntry
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			return fmt.Errorf("read the audit: %w", err)
		}
		return each(entry)
	})
}

// audit keeps the audit of a turn.
type audit struct{ *Turn }

// approval adds an entry about an approval to rec, which is the turn's own record or the one that a
// person decides with this turn.
func (t audit) approval(rec *Record, a *ask.Approval, outcome string) {
	t.add(rec, AuditEntry{What: auditApproval, Outcome: outcome, Action: a.Action, Entities: hashOf(a.Entities), ID: a.ID})
}

// call adds an entry about a call to the turn's record, unless the action changes only state or was
// not called.
func (t audit) call(c *call, outcome string) {
	if c.made && (c.action == nil || !c.action.StateOnly) {
		t.add(&t.rec, AuditEntry{What: auditCall, Outcome: outcome, Action: c.command.Action, Entities: hashOf(c.command.Entities), ID: c.key})
	}
}

func outcomeOf(r actions.Result) string {
	if r.Unchanged() {
		return "unchanged"
	}
	return okOrFailed(r.Failed())
}

// attemptKey is the [actions.Attempt.Key] of a turn's call.
func attemptKey(turn string, step int) string { return fmt.Sprintf("%s.%d", turn, step) }

// unknown adds entries about the next calls of the plan, of which nobody knows what they did.
func (t audit) unknown(calls int) {
	for i := range calls {
		c := t.exec.check(t.rec.Run.Progress.Next + i)
		c.made, c.key = true, t.exec.key(i)
		t.call(&c, auditUnknown)
	}
}

func (t audit) add(rec *Record, entry AuditEntry) {
	if t.engine.cfg.AuditKeep == 0 {
		return
	}
	entry.At, entry.Turn = time.Now().UTC().Truncate(time.Microsecond), rec.ID
	entry.User, entry.Tenant = provedIDs(t.Turn)
	entry.Account, entry.Channel, entry.Conversation = t.Activity.From.ID, t.Activity.ChannelID, t.Activity.Conversation.ID
	if r := requests(t).of(); r != nil {
		entry.By = r.By
	}
	rec.Audit = append(rec.Audit, entry)
}

// write sends the record's entries to the log. If Redis is unavailable, the record keeps them and
// the turn has to be continued later. If Redis refuses them, nobody can fix that here: the turn goes
// on without them.
func (t audit) write(ctx context.Context) error {
	keep := t.engine.cfg.AuditKeep
	if len(t.rec.Audit) == 0 || keep == 0 { // a bot that keeps no audit leaves that of others alone
		return nil
	}
	lines := map[string]time.Time{}
	for _, entry := range t.rec.Audit {
		line, err := json.Marshal(entry)
		if err != nil {
			return err
		}
		lines[string(line)] = entry.At
	}
	full, err := t.engine.cfg.Store.Append(ctx, auditLog, keep, maxAudit, lines)
	switch {
	case errors.Is(err, state.ErrUnavailable) || ctx.Err() != nil:
		return err
	case err != nil:
		zerolog.Ctx(ctx).Error().Err(err).Msg("could not write to the audit")
	case full:
		zerolog.Ctx(ctx).Warn().Msg("the audit is full, its oldest entries went early")
	}
	t.rec.Audit = nil
	return nil
}
