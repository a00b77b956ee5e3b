package turn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot/turn/files"
	"github.com/planbot-go/planbot/state"
	"github.com/planbot-go/planbot/state/inbox"
)

// What this file is about: people write one question in several messages. Those that wait in the queue, one directly
// behind the other, become one turn when the first of them is at the head. That is one step of the inbox, before
// anything else is done for them: so a crash leaves them either all apart or together for good.

const (
	// maxBurst is how many messages a turn answers at most, and maxBurstText how many bytes they say.
	maxBurst     = 8
	maxBurstText = 8 << 10
	// maxBurstBytes is how large their activities may be.
	maxBurstBytes = 128 << 10
)

// joinBurst has the messages join that follow the one at the head directly and belong to it. t is the turn of that one,
// which has not begun; if bursts have time to come, it waits for them. If joined, the lease has another record.
func joinBurst(ctx context.Context, t *Turn, lease *inbox.Lease) (joined bool, err error) {
	e := t.engine
	if !t.IsMessage() || t.secret != "" {
		return false, nil
	}
	left := e.cfg.Burst - time.Since(t.rec.Accepted)
	waits := left > 0 && mayJoin(t)
	if waits {
		wait(ctx, min(left, e.cfg.Burst), nil) // the clock of who accepted it may be ahead
	}
	ctx, cancel := context.WithTimeout(ctx, claimWithin)
	defer cancel()
	following, err := lease.Following(ctx, maxBurst-1, waits)
	if err != nil || len(following) == 0 || !mayJoin(t) {
		return false, err
	}
	return joinRecords(ctx, t, lease, following)
}

// errJoined says that messages have joined a turn that runs: it goes on from its last save.
var errJoined = errors.New("messages have joined the turn")

// steer has what the person wrote while a plan ran join the turn, before it plans again. Then the error is errJoined.
func steer(ctx context.Context, t *Turn) error {
	if !t.engine.cfg.Steer || len(t.Rounds) == 0 || !isWords(t) {
		return nil
	}
	following, err := t.lease.Following(ctx, maxBurst-1-len(t.rec.Parts), true)
	if err != nil || len(following) == 0 {
		return err
	}
	if err := t.Save(ctx); err != nil { // what joins is saved without state
		return err
	}
	ctx, cancel := context.WithTimeout(Lasting(ctx, t), claimWithin) // the turn's end must not cut this off
	defer cancel()
	joined, err := joinRecords(ctx, t, t.lease, following)
	switch {
	case ctx.Err() != nil: // nobody knows whether they joined, so nothing is saved here: the next owner sees
		return fmt.Errorf("%w: %w", state.ErrUnavailable, ctx.Err())
	case err != nil || !joined:
		return err
	}
	rec, err := Decode(t.lease.Record())
	if err == nil {
		t.Activity, err = rec.Read()
	}
	return cmp.Or(err, errJoined)
}

// joinRecords has those of the following messages join that belong to the one at the head.
func joinRecords(ctx context.Context, t *Turn, lease *inbox.Lease, following []inbox.Entry) (joined bool, err error) {
	e, rec := t.engine, t.rec
	rec.Text, rec.Parts = "", slices.Clip(rec.Parts)
	size, said := len(rec.Activity), len(t.Text)
	for _, p := range rec.Parts {
		size += len(p.Activity)
	}
	var ids []string
	for _, entry := range following {
		next, err := Decode(entry.Record)
		a, fault := next.Read()
		_, secret := e.secrets.Load(entry.ID)
		if err != nil || fault != nil || secret {
			break
		}
		other := e.newTurn(a)
		useRecord(other, next)
		size, said = size+len(next.Activity), said+len(other.Text)
		if !mayJoin(other) || !belongs(t, other) || size > maxBurstBytes || said > maxBurstText {
			break
		}
		rec.Parts = append(rec.Parts, part{next.ID, next.Accepted, next.Activity})
		ids = append(ids, next.ID)
	}
	if len(ids) == 0 {
		return false, nil
	}
	whole := e.newTurn(t.Activity)
	useRecord(whole, rec)
	if !e.cfg.Plans(whole) {
		return false, nil
	}
	halted, err := e.inbox.Remembered(ctx, lease.Queue(), haltMark(t.ID))
	if err != nil || halted != "" { // the person stopped those that had come by then
		return false, err
	}
	rec.Text = whole.Text
	raw, err := rec.Encode()
	if err != nil {
		return false, err
	}
	joined, err = lease.Join(ctx, raw, ids)
	if joined {
		t.Log().Info().Strs("with", ids).Msg("messages that waited are answered as one question")
		for _, p := range rec.Parts[len(t.rec.Parts):] {
			e.see(Event{Turn: p.ID, Received: &Received{Activity: p.Activity, Joined: t.ID}})
		}
	}
	return joined, err
}

// mayJoin reports whether the turn has not begun, and is about nothing but the words of a message for the planner.
func mayJoin(t *Turn) bool {
	r := &t.rec
	begun := r.Phase != planning || r.Run != nil || r.Wait != nil || len(r.Parts)+len(r.Outbox)+len(r.Sent) > 0
	return !begun && isWords(t)
}

// isWords reports whether the turn is about nothing but the words of messages for the planner.
func isWords(t *Turn) bool {
	r, a := &t.rec, t.Activity
	other := r.Text != "" && len(r.Parts) == 0 || r.Notice != nil || r.Own != "" || r.Stateless || r.Awaited || r.Answer != nil
	if other || !t.IsMessage() || a.ID == "" || t.Text == "" || len(a.Value) > 0 || a.FromBot() || a.CallerID != "" {
		return false
	}
	isFile := func(at activity.Attachment) bool {
		return !strings.HasPrefix(strings.ToLower(at.ContentType), "text/html")
	} // a copy of the text
	brings := slices.ContainsFunc(a.Attachments, isFile) || a.FileMarks()+len(a.Quotes())+len(a.Links())+len(a.Shared()) > 0
	return !brings && t.engine.cfg.Plans != nil && t.engine.cfg.Plans(t)
}

// belongs reports whether both messages are of one person, in one thread, for the same readers, and proved in the same way.
func belongs(t, other *Turn) bool {
	a, b := t.Activity, other.Activity
	user, tenant := t.Proved()
	otherUser, otherTenant := other.Proved()
	return a.From.ID == b.From.ID && user == otherUser && tenant == otherTenant && t.rec.Caller == other.rec.Caller &&
		threadOf(t) == threadOf(other) && targetedAt(t) == targetedAt(other) &&
		a.ServiceURL == b.ServiceURL && a.Recipient.ID == b.Recipient.ID && a.ReplyToID == b.ReplyToID
}

// Messages is how many messages the turn answers as one question.
func Messages(t *Turn) int { return max(len(t.burst), 1) }

// messagesIn are the messages that the turn answers, in order; or the one activity.
func messagesIn(t *Turn) []*activity.Activity {
	if t.burst != nil {
		return t.burst
	}
	return []*activity.Activity{t.Activity}
}

func hasID(all []*activity.Activity, id string) bool {
	return slices.ContainsFunc(all, func(a *activity.Activity) bool { return a.ID == id })
}

// amendment is what the author did with a message.
type amendment struct {
	text    string
	deleted bool
	at      time.Time
}

// useWords gives the turn the words that its messages have by now.
func useWords(t *Turn, now map[string]amendment) {
	words := wordsOf(t, now)
	t.deleted = len(words) == 0
	if t.burst != nil {
		t.words = words
	}
	if !t.deleted {
		t.Text = strings.Join(words, "\n")
		t.rec.Text = t.Text
	}
}

// wordsOf returns what each of the turn's messages says that is not deleted.
func wordsOf(t *Turn, now map[string]amendment) (words []string) {
	for _, m := range messagesIn(t) {
		is, amended := now[m.ID]
		if !amended {
			is.text = files.Said(m)
		}
		if !is.deleted {
			words = append(words, is.text)
		}
	}
	return words
}
