// Package heads keeps of each turn when it was, for whom and how it ended, without content.
package heads

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/bot/traces"
	"github.com/planbot-go/planbot/bot/turn"
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
	// User, Tenant and Account are the aadObjectId, the tenant and the id in the channel of the person.
	// The first two are "" where the channel does not prove them.
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
	table    = "turns"
	maxHeads = 100_000         // limits the heads in Redis, to about 50 MB
	within   = 2 * time.Second // limits the write of one
	maxText  = 256             // limits what comes from outside, such as ids
)

// Read returns the head of the turn with that id. The error is [state.ErrNoRow] if there is none: the
// bot keeps no heads, or keeps them no longer, or the person has said /forget.
func Read(ctx context.Context, store *state.Store, id string) (Head, error) {
	row, err := store.FindRow(ctx, table, id)
	if err != nil {
		return Head{}, err
	}
	var head Head
	if err := json.Unmarshal([]byte(row.Text), &head); err != nil {
		return Head{}, fmt.Errorf("read the head of turn %.80q: %w", id, err)
	}
	return head, nil
}

// New returns the feature that keeps heads in the store for that long.
func New(store *state.Store, keep time.Duration) turn.Feature {
	h := &heads{store, keep}
	return turn.Feature{
		Name: "heads", Ended: h.ended,
		Forget: func(ctx context.Context, t *turn.Turn) error { return store.DropRows(ctx, table, Owner(t)) },
		Keeps:  "For a while, I also keep when you wrote and how it ended.",
	}
}

type heads struct {
	store *state.Store
	keep  time.Duration
}

// Owner names the turn's person in rows, by nothing but a hash.
func Owner(t *turn.Turn) string {
	sum := sha256.Sum256([]byte(turn.PersonKey(t.Activity).String()))
	return hex.EncodeToString(sum[:16])
}

// ended writes the head of a turn. One that cannot be written is lost.
func (h *heads) ended(ctx context.Context, t *turn.Turn, e turn.Ended) {
	if e.Own || e.Forgotten {
		return
	}
	a := t.Activity
	head := Head{
		Turn: t.ID, Accepted: t.Accepted(), Type: string(a.Type), Kind: a.Conversation.ConversationType, Conversation: a.Conversation.ID,
		Channel: a.ChannelID, Account: a.From.ID, Sent: len(t.Sent()), Trace: traces.ID(t),
		Outcome: e.Outcome, Reason: e.Reason, WaitedMS: e.Waited.Milliseconds(), TookMS: e.Took.Milliseconds(), Tries: e.Tries + 1,
		ModelCalls: e.Usage.ModelCalls, PromptTokens: e.Usage.PromptTokens, CompletionTokens: e.Usage.CompletionTokens, Cost: e.Usage.Cost,
	}
	head.User, head.Tenant = t.Proved()
	if e.Unasked {
		head.Type = "notice"
	}
	if e.Dead() {
		head.Outcome = "dead_letter"
	}
	for _, text := range []*string{&head.Conversation, &head.Channel, &head.Account, &head.User, &head.Tenant, &head.Kind, &head.Type} {
		*text = strings.ToValidUTF8((*text)[:min(len(*text), maxText)], "")
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	line, err := json.Marshal(head)
	if err == nil {
		err = h.store.PutRow(ctx, table, maxHeads, state.Row{
			ID: head.Turn, Owner: Owner(t), Text: string(line), Until: time.Now().Add(h.keep),
		})
	}
	if err != nil {
		zerolog.Ctx(ctx).Warn().Err(err).Str("turn", head.Turn).Msg("the head of the turn is lost")
	}
}
