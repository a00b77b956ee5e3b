// Package audit says who approved what, which actions with effects ran, and what moderation flagged. An
// entry is first part of the turn's record: it is saved in the same step as the outcome or the decision
// that it is about. When the turn ends, waits or is left, its entries go to a log in Redis that all
// replicas share. If the process dies in between, the next one sends them again, and the log keeps each
// once. So a crash loses no entry of what is saved; a call that was cut off has one once it ran again, or
// once it is a dead letter. In the log each entry has the hash of the one before it, and a key of the operator
// signs where it ends: [Verify] checks both.
package audit

import (
	"bufio"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
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
	// Outcome of an approval: asked, unreachable (of whom Asked has the id), sent if who asked in private lets others read it,
	// escalated, changed, agreed if that is not enough yet, approved, approved-always, rejected, withdrawn by who asked, expired,
	// or failed if nobody could be asked. Of a call: ok, unchanged, failed, or unknown if it was cut off. Of
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
	// Asked are the ids of those whom an approval asks, separated by commas, each with the rule in brackets: policy,
	// function, list, escalation, change, or delegation of whom.
	Asked string `json:"asked,omitempty"`

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

// Chain is what [Verify] and [VerifyFiles] find.
type Chain struct {
	Entries int // that fit
	Loose   int // those of them that an earlier release wrote, before the first one with a hash
	// Fault is the first entry that does not fit, as it is stored, without its hash. "": all fit.
	Fault string
	// Missing says what else is wrong: where the audit ends, and whose signature that has. "": nothing.
	Missing string
	// Written is how many entries there ever were, also those that have gone with time. 0: it is not known.
	Written int
	// Cut is how many entries are missing at the beginning, though they were there when the newest one was written. Those
	// that went with time, or beyond 200,000, do not count, nor does Verify of a part.
	Cut int
	// Signed is when the newest of them was signed, and From the number of the first one that was signed when it was
	// written. Zero: none is.
	Signed time.Time
	From   int
}

var errFault = errors.New("an entry does not fit")

// Verify checks that each entry since then has the hash of the one before it, and stops at the first that does not. Then it
// checks that the newest is the one that was written last, that all that were there then still are, if since is zero, and, with
// keys, that one of them signed that: each signature covers all entries before it. Without keys, somebody who can write to Redis can rewrite everything. With them, they can
// still put back an older audit as a whole: only a copy of a newer one shows that.
func Verify(ctx context.Context, store *state.Store, keys [][]byte, since time.Time) (Chain, error) {
	k := checker{keys: keys}
	before, _, err := store.LogEnd(ctx, logName) // what comes meanwhile may not be read
	if err != nil {
		return k.Chain, err
	}
	k.seen = map[string]int{before.Hash: 0}
	err = store.Lines(ctx, logName, since, k.line)
	if errors.Is(err, errFault) {
		return k.Chain, nil
	}
	if err != nil {
		return k.Chain, err
	}
	end, fits, err := store.LogEnd(ctx, logName)
	if err != nil {
		return k.Chain, err
	}
	k.end(end, fits)
	if n := k.seen[before.Hash]; n > 0 && since.IsZero() && end.First > 0 {
		k.cut(before.Count-max(before.First, end.First)+1, n)
	}
	k.whole()
	return k.Chain, nil
}

// checker checks entries one after another.
type checker struct {
	Chain
	keys   [][]byte
	before *state.Line
	seen   map[string]int // how many entries there are up to the one with that hash
	all    bool           // seen gets every entry, not only those that are in it
	ends   bool           // at the end of the newest entry, that is noted
}

func (k *checker) line(line state.Line) error {
	if line.Broken {
		k.Fault = cmp.Or(line.Text, "(empty)")
		return errFault
	}
	k.Entries++
	if line.Before == "" {
		k.Loose++
	}
	_, known := k.seen[line.Hash]
	if k.all || known {
		k.seen[line.Hash] = k.Entries
	}
	k.before, k.ends = &line, false
	return nil
}

// end checks what is noted about an end. fits says that the entries end there.
func (k *checker) end(end state.End, fits bool) {
	k.ends = end.Hash != ""
	k.Written = end.Count
	signed := signature{}
	err := errors.New("nothing is signed")
	if end.Signature != "" {
		signed, err = readSignature(end, k.keys)
	}
	switch {
	case end.Hash == "" && (k.Entries == 0 || len(k.keys) == 0): // without keys, anybody could take it away
	case end.Hash != "" && !fits:
		k.Missing = fmt.Sprintf("The audit does not end where %d entries had been written: entries after or before that were added or removed", end.Count)
	case len(k.keys) > 0 && err != nil:
		k.Missing = "The end of the audit is not signed: " + err.Error()
	case len(k.keys) > 0:
		k.Signed, k.From = signed.at, signed.from
		if signed.broke && signed.from >= end.Count-k.Entries+1 {
			k.Missing = fmt.Sprintf("When entry %d was written, the audit did not begin or end where it had been signed: it was changed, or a bot without the keys wrote", signed.from)
		}
	}
}

// cut notes that fewer entries are there than at an end of which it is known how many there were.
func (k *checker) cut(were, are int) { k.Cut = max(k.Cut, were-are) }

// whole checks what is only known at the end of all entries.
func (k *checker) whole() {
	if k.Missing == "" && k.Entries > 0 && k.Loose == k.Entries {
		k.Missing = "No entry has a hash: an earlier release wrote all of them, or somebody took the hashes away"
	}
}

const endPrefix = `{"what":"end",`

// endLine is the end as [Export] writes it.
type endLine struct {
	What      string `json:"what"` // end
	Count     int    `json:"count"`
	First     int    `json:"first,omitzero"`
	Hash      string `json:"hash"`
	Signature string `json:"seal,omitempty"`
}

// beforePrefix begins an entry that [Export] writes with the hash of the one before it.
const beforePrefix = `{"before":"`

// Export writes the entries since then as lines of JSON, each with the hash of the one before it, as before, and then
// where they end, with its signature. [VerifyFiles] reads them.
func Export(ctx context.Context, store *state.Store, since time.Time, to io.Writer) error {
	end, fits, err := store.LogEnd(ctx, logName)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(to)
	there := false // what is written meanwhile comes behind the end
	err = store.Lines(ctx, logName, since, func(line state.Line) error {
		text, ok := strings.CutPrefix(line.Text, "{")
		if !ok {
			return fmt.Errorf("read the audit: %.80q is no entry", line.Text)
		}
		if line.Before != "" {
			text = `"before":"` + line.Before + `",` + text
		}
		if _, err := fmt.Fprintln(w, "{"+text); err != nil {
			return err
		}
		there = fits && line.Hash == end.Hash
		if there {
			return errEnd
		}
		return nil
	})
	if errors.Is(err, errEnd) {
		err = nil
	}
	if err == nil && end.Hash != "" && (there || !fits) {
		err = json.NewEncoder(w).Encode(endLine{"end", end.Count, end.First, end.Hash, end.Signature})
	}
	return errors.Join(err, w.Flush())
}

var errEnd = errors.New("the end")

const maxLine = 1 << 20 // bytes of a line in a file

// VerifyFiles is [Verify] for what [Export] wrote: one chain over all of them, in this order. Entries that a file has in
// common with earlier ones count once. [Chain.Cut] also counts what a file does not have that was exported since a time.
func VerifyFiles(keys [][]byte, files ...io.Reader) (Chain, error) {
	k := checker{keys: keys, seen: map[string]int{}, all: true}
	for i, file := range files {
		err := k.file(file)
		if errors.Is(err, errFault) {
			return k.Chain, nil
		}
		if err != nil {
			return k.Chain, fmt.Errorf("file %d: %w", i+1, err)
		}
	}
	if k.Missing == "" && k.Entries > 0 && !k.ends && k.Loose < k.Entries {
		k.Missing = "The newest entry is not followed by the line that says where the audit ends: entries after it may be missing"
	}
	k.whole()
	return k.Chain, nil
}

func (k *checker) file(file io.Reader) error {
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, maxLine)
	begun := false
	for lines.Scan() {
		text := lines.Text()
		if strings.HasPrefix(text, endPrefix) {
			end := endLine{}
			if err := json.Unmarshal([]byte(text), &end); err != nil {
				return fmt.Errorf("read the end of the audit: %w", err)
			}
			here := k.before != nil && end.Hash == k.before.Hash
			noted := state.End{Count: end.Count, First: end.First, Hash: end.Hash, Signature: end.Signature}
			older := *k
			switch {
			case here:
				k.end(noted, true)
			case !begun && k.seen[end.Hash] > 0: // of an older file: what is known of a newer end stays
				k.end(noted, true)
				older.Missing = k.Missing
				*k = older
			default:
				noted.Hash = cmp.Or(end.Hash, "-")
				k.end(noted, false)
			}
			if n := k.seen[end.Hash]; n > 0 && end.First > 0 {
				k.cut(end.Count-end.First+1, n)
			}
			if k.Missing != "" {
				return errFault
			}
			continue
		}
		if rest, ok := strings.CutPrefix(text, beforePrefix); ok && len(rest) > 2*sha256.Size+2 {
			text = rest[:2*sha256.Size] + " {" + rest[2*sha256.Size+2:]
		}
		line := state.ReadLine(text, k.before)
		if !begun && k.seen[line.Hash] > 0 {
			continue
		}
		begun = true
		if err := k.line(line); err != nil {
			return err
		}
	}
	return lines.Err()
}

// signature is what signs an end.
type signature struct {
	from  int  // the first entry since which each is signed
	broke bool // what was signed before that one was not there any more
	at    time.Time
	key   string // its id
	mac   string
}

// keyID names a key and does not give it away.
func keyID(key []byte) string { return state.Hash("planbot audit key\n" + string(key))[:16] }

// sign returns the mac of an end. Those of earlier releases have no First.
func (s signature) sign(end state.End, key []byte) string {
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "planbot audit\n%d\n", end.Count)
	if end.First > 0 {
		fmt.Fprintf(mac, "%d\n", end.First)
	}
	fmt.Fprintf(mac, "%s\n%d\n%t\n%d", end.Hash, s.from, s.broke, s.at.Unix())
	return hex.EncodeToString(mac.Sum(nil))
}

// readSignature reads the signature of an end. The error is a sentence.
func readSignature(end state.End, keys [][]byte) (s signature, err error) {
	var at int64
	if _, err := fmt.Sscanf(end.Signature, "%d %t %d %s %s", &s.from, &s.broke, &at, &s.key, &s.mac); err != nil {
		return signature{}, errors.New("what stands there is no signature")
	}
	s.at = time.Unix(at, 0).UTC()
	for _, key := range keys {
		if keyID(key) != s.key {
			continue
		}
		if !hmac.Equal([]byte(s.sign(end, key)), []byte(s.mac)) {
			return signature{}, errors.New("the signature is not one of this end")
		}
		return s, nil
	}
	return signature{}, fmt.Errorf("none of the keys is %s, which signed it", s.key)
}

// sign signs the end that is to be with the first key.
func (a *audit) sign(ctx context.Context, was, now state.End) string {
	if len(a.keys) == 0 {
		return ""
	}
	s := signature{from: was.Count + 1, at: time.Now(), key: keyID(a.keys[0])}
	before, err := readSignature(was, a.keys)
	switch {
	case was.Hash != "" && err == nil:
		s.from, s.broke = before.from, before.broke
	case was.Signature != "" || was.Count > 0 && a.signs.Load():
		s.broke = true
		zerolog.Ctx(ctx).Error().Err(err).Int("entries", was.Count).
			Msg("the audit does not begin or end where it was signed: it was changed, or a bot without the keys wrote")
	}
	s.mac = s.sign(now, a.keys[0])
	return fmt.Sprint(s.from, " ", s.broke, " ", s.at.Unix(), " ", s.key, " ", s.mac)
}

// New returns the feature that keeps an audit in the store for that long. The first key signs where it ends, each time that
// entries are written; the others are those before it. No keys: it is not signed.
func New(store *state.Store, keep time.Duration, keys ...[]byte) turn.Feature {
	a := &audit{store: store, keep: keep, keys: keys}
	return turn.Feature{Name: logName, Noted: a.noted, Left: a.left, Keeps: "I also keep an audit of approvals and actions."}
}

type audit struct {
	store *state.Store
	keep  time.Duration
	keys  [][]byte
	signs atomic.Bool // it has signed an end
}

var entries = turn.NewSlot[[]Entry](logName) // those of a record that are not in the log yet

// noted adds an entry to the record that the note is about.
func (a *audit) noted(t *turn.Turn, n *turn.Note) {
	entry := Entry{
		At: time.Now().UTC().Truncate(time.Microsecond), What: n.What, Outcome: n.Outcome, Action: n.Action, Entities: turn.Hash(n.Of), ID: n.ID,
		Turn: n.Turn(), Account: t.Activity.From.ID, Channel: t.Activity.ChannelID, Conversation: t.Activity.Conversation.ID, By: n.By,
		Asked: strings.Join(n.Asked, ", "),
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
	full, err := a.write(ctx, *list...)
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

// write adds entries to the log. full says that the oldest ones went early.
func (a *audit) write(ctx context.Context, list ...Entry) (full bool, err error) {
	var lines []state.Line
	for _, entry := range list {
		text, err := json.Marshal(entry)
		if err != nil {
			return false, err
		}
		lines = append(lines, state.Line{At: entry.At, Text: string(text)})
	}
	signed := false
	full, err = a.store.Append(ctx, logName, a.keep, maxEntries, func(was, now state.End) string {
		signed = len(a.keys) > 0
		return a.sign(ctx, was, now)
	}, lines...)
	if err == nil && signed {
		a.signs.Store(true)
	}
	return full, err
}
