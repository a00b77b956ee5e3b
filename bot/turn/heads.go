package turn

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/state"
)

// Head says when a turn was, for whom and how it ended. It has ids, numbers and the program's own
// names, and nothing that people or models wrote. A turn gets one when it ends, waits or becomes a
// dead letter; the latest counts.
type Head struct {
	Turn     string    `json:"turn"`
	Accepted time.Time `json:"accepted"`
	Type     string    `json:"type,omitempty"` // of the activity; "notice" if nobody said anything

	// Kind is personal, groupChat or channel; "" where the channel does not say.
	Kind         string `json:"kind,omitempty"`
	Conversation string `json:"conversation,omitempty"`
	Channel      string `json:"channel,omitempty"`
	// User, Tenant and Account are as in [AuditEntry].
	User    string `json:"user,omitempty"`
	Tenant  string `json:"tenant,omitempty"`
	Account string `json:"account,omitempty"`

	// Outcome is ok, failed, waiting or dead_letter. Reason is the kind of failure, or what the turn
	// waits for.
	Outcome string `json:"outcome"`
	Reason  string `json:"reason,omitempty"`
	// WaitedMS is the time from accepting the turn to the start of the last work on it: it stood in
	// a queue, or waited for somebody. TookMS is how long that work took. A dead letter has 0 for
	// both.
	WaitedMS int64 `json:"waited_ms"`
	TookMS   int64 `json:"took_ms"`
	// Tries is how many processes worked on it, one after another, because the earlier ones were
	// lost.
	Tries int `json:"tries"`

	ModelCalls       int     `json:"model_calls,omitzero"`
	PromptTokens     int     `json:"prompt_tokens,omitzero"`
	CompletionTokens int     `json:"completion_tokens,omitzero"`
	Cost             float64 `json:"cost,omitzero"`
	Sent             int     `json:"sent,omitzero"` // messages
	// Trace is the id of the trace that begins with the activity; "": not traced.
	Trace string `json:"trace,omitempty"`
}

const (
	headTable = "turns"
	// maxHeads limits the heads in Redis, to about 50 MB.
	maxHeads = 100_000
	// headWithin limits the write of one.
	headWithin = 2 * time.Second

	deadLetterOutcome = "dead_letter"
)

// ReadHead returns the head of the turn with that id. The error is [state.ErrNoRow] if there is none:
// the bot keeps no heads, or keeps them no longer, or the person has said /forget.
func ReadHead(ctx context.Context, store *state.Store, id string) (Head, error) {
	row, err := store.FindRow(ctx, headTable, id)
	if err != nil {
		return Head{}, err
	}
	var head Head
	if err := json.Unmarshal([]byte(row.Text), &head); err != nil {
		return Head{}, fmt.Errorf("read the head of turn %.80q: %w", id, err)
	}
	return head, nil
}

// headOwner names the person in rows, by nothing but a hash.
func headOwner(a *activity.Activity) string {
	sum := sha256.Sum256([]byte(userKey(a).String()))
	return hex.EncodeToString(sum[:16])
}

// heads keeps the heads of turns.
type heads struct{ *Engine }

// forget removes the heads of a person.
func (h heads) forget(ctx context.Context, a *activity.Activity) error {
	if h.cfg.TurnsKeep == 0 {
		return nil
	}
	return h.cfg.Store.DropRows(ctx, headTable, headOwner(a))
}

// ended keeps the head of a turn that is over or waits. began is when the work on it did, and tries how many processes had died with it before.
func (h heads) ended(ctx context.Context, t *Turn, failure error, began time.Time, tries int) {
	if h.cfg.TurnsKeep == 0 || t.rec.Forgotten || t.rec.Summary != nil {
		return
	}
	head := h.of(&t.rec, t.Activity, t.Usage)
	head.User, head.Tenant = provedIDs(t)
	head.WaitedMS, head.TookMS = max(began.Sub(t.rec.Accepted), 0).Milliseconds(), time.Since(began).Milliseconds()
	head.Tries = tries + 1
	switch w := t.rec.Wait; {
	case failure != nil:
		head.Outcome, head.Reason = okOrFailed(true), errorKind(failure)
	case t.rec.Phase == waiting && w != nil:
		head.Outcome, head.Reason = string(waiting), string(w.For)
	default:
		head.Outcome = okOrFailed(false)
	}
	h.put(ctx, t.Activity, head)
}

// dead keeps the head of a dead letter.
func (h heads) dead(ctx context.Context, rec *Record, a *activity.Activity, tries int) {
	if h.cfg.TurnsKeep == 0 || rec.Forgotten || rec.Summary != nil {
		return
	}
	var used actions.Usage
	if rec.Run != nil {
		used = rec.Run.Usage
	}
	head := h.of(rec, a, used)
	head.User, head.Tenant = provedIDs(&Turn{engine: h.Engine, Turn: &actions.Turn{Activity: a}})
	head.Outcome, head.Tries = deadLetterOutcome, tries+1
	h.put(ctx, a, head)
}

// of returns what the record says of itself.
func (h heads) of(rec *Record, a *activity.Activity, used actions.Usage) Head {
	head := Head{
		Turn: rec.ID, Accepted: rec.Accepted, Type: string(a.Type), Kind: a.Conversation.ConversationType, Conversation: a.Conversation.ID,
		Channel: a.ChannelID, Account: a.From.ID, Sent: len(rec.Sent),
		ModelCalls: used.ModelCalls, PromptTokens: used.PromptTokens, CompletionTokens: used.CompletionTokens, Cost: used.Cost,
	}
	if rec.Notice != nil {
		head.Type = "notice"
	}
	if at := spanContext(rec.Trace); at.HasTraceID() {
		head.Trace = at.TraceID().String()
	}
	return head
}

// put writes the head. The turn is over: a head that cannot be written is lost.
func (h heads) put(ctx context.Context, a *activity.Activity, head Head) {
	ctx, cancel := h.workers.outlive(ctx, headWithin)
	defer cancel()
	for _, text := range []*string{&head.Conversation, &head.Channel, &head.Account, &head.User, &head.Tenant, &head.Kind, &head.Type} {
		*text = strings.ToValidUTF8((*text)[:min(len(*text), maxSpanText)], "")
	}
	line, err := json.Marshal(head)
	if err == nil {
		err = h.cfg.Store.PutRow(ctx, headTable, maxHeads, state.Row{
			ID: head.Turn, Owner: headOwner(a), Text: string(line), Until: time.Now().Add(h.cfg.TurnsKeep),
		})
	}
	if err != nil {
		zerolog.Ctx(ctx).Warn().Str("error", cause(err)).Str("turn", head.Turn).Msg("the head of the turn is lost")
	}
}
