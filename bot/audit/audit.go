// Package audit says who approved what, which actions with effects ran, and what moderation flagged. An
// entry is first part of the turn's record: it is saved in the same step as the outcome or the decision
// that it is about. When the turn ends, waits or is left, its entries go to a log in Redis that all
// replicas share. If the process dies in between, the next one sends them again, and the log keeps each
// once. So a crash loses no entry of what is saved; a call that was cut off has one once it ran again, or
// once it is a dead letter. In the log each entry has the hash of the one before it: [Verify] checks them.
package audit

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/bot/turn"
	"github.com/planbot-go/planbot/state"
)

// Entry is one entry of the audit. It has ids and nothing that people or models wrote.
type Entry struct {
	At time.Time `json:"at"`
	// What is "approval", "call", "delegation" or "moderation".
	What string `json:"what"`
	// Outcome of an approval: asked, changed, approved, approved-always, rejected, expired, or failed if
	// nobody could be asked. Of a call: ok, unchanged, failed, or unknown if it was cut off. Of
	// moderation: flagged. Of a delegation: begun, ended, or decided by a delegate, beside the entry of the approval.
	Outcome string `json:"outcome"`
	// Action is the action's name. Of moderation it is the categories, separated by commas.
	Action string `json:"action"`
	// Entities is the SHA-256 of the call's entities, or of the texts that were flagged. Equal ones have
	// equal digests.
	Entities string `json:"entities"`
	// ID is that of the approval, or the [actions.Attempt.Key] of the call, or what moderation was
	// asked about: its kinds, such as said, separated by commas. Of a delegation it is the other person: the delegate
	// or, of decided, the approver in whose place that was.
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
	logName    = "audit"
	maxEntries = 200_000 // limits the entries in Redis, to about 100 MB
)

// Read passes the entries since then to each, oldest first, until each returns an error. It also ends
// with an error at an entry of another version that it cannot read.
func Read(ctx context.Context, store *state.Store, since time.Time, each func(Entry) error) error {
	return store.Lines(ctx, logName, since, func(line state.Line) error {
		var entry Entry
		if err := json.Unmarshal([]byte(line.Text), &entry); err != nil {
			return fmt.Errorf("read the audit: %w", err)
		}
		return each(entry)
	})
}

// Chain is what [Verify] finds.
type Chain struct {
	Entries int // that fit
	Loose   int // those of them that an earlier release wrote, before the first one with a hash
	// Fault is the first entry that does not fit, as it is stored, without its hash. "": all fit.
	Fault string
}

var errFault = errors.New("an entry does not fit")

// Verify checks that each entry since then has the hash of the one before it, and stops at the first that does not. It finds
// entries that were changed, added or removed, but not at the ends: old entries expire, and no hash covers the newest one.
// Somebody who can write to Redis can rewrite the whole chain.
func Verify(ctx context.Context, store *state.Store, since time.Time) (c Chain, err error) {
	err = store.Lines(ctx, logName, since, func(line state.Line) error {
		if line.Broken {
			c.Fault = cmp.Or(line.Text, "(empty)")
			return errFault
		}
		c.Entries++
		if line.Before == "" {
			c.Loose++
		}
		return nil
	})
	if errors.Is(err, errFault) {
		err = nil
	}
	return c, err
}

// New returns the feature that keeps an audit in the store for that long.
func New(store *state.Store, keep time.Duration) turn.Feature {
	a := &audit{store, keep}
	return turn.Feature{Name: logName, Noted: a.noted, Left: a.left, Keeps: "I also keep an audit of approvals and actions."}
}

type audit struct {
	store *state.Store
	keep  time.Duration
}

var entries = turn.NewSlot[[]Entry](logName) // those of a record that are not in the log yet

// noted adds an entry to the record that the note is about.
func (a *audit) noted(t *turn.Turn, n *turn.Note) {
	entry := Entry{
		At: time.Now().UTC().Truncate(time.Microsecond), What: n.What, Outcome: n.Outcome, Action: n.Action, Entities: turn.Hash(n.Of), ID: n.ID,
		Turn: n.Turn(), Account: t.Activity.From.ID, Channel: t.Activity.ChannelID, Conversation: t.Activity.Conversation.ID, By: n.By,
	}
	entry.User, entry.Tenant = t.Proved()
	list := entries.Of(n)
	*list = append(*list, entry)
}

// left sends the record's entries to the log. If Redis is unavailable, the record keeps them and the turn
// has to be continued later. If Redis refuses them, nobody can fix that here: the turn goes on without
// them.
func (a *audit) left(ctx context.Context, t *turn.Turn) error {
	list := entries.Of(t)
	if len(*list) == 0 {
		return nil
	}
	var lines []state.Line
	for _, entry := range *list {
		text, err := json.Marshal(entry)
		if err != nil {
			return err
		}
		lines = append(lines, state.Line{At: entry.At, Text: string(text)})
	}
	full, err := a.store.Append(ctx, logName, a.keep, maxEntries, lines...)
	switch {
	case errors.Is(err, state.ErrUnavailable) || ctx.Err() != nil:
		return err
	case err != nil:
		zerolog.Ctx(ctx).Error().Err(err).Msg("could not write to the audit")
	case full:
		zerolog.Ctx(ctx).Warn().Msg("the audit is full, its oldest entries went early")
	}
	*list = nil
	return nil
}
