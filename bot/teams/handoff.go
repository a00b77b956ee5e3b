package teams

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot/turn"
	"github.com/planbot-go/planbot/state"
)

const (
	// handoffFor is how long a person has to continue elsewhere.
	handoffFor = 5 * time.Minute
	// maxHandoffs limits those that a person may have, and maxAllHandoffs what these keep, in bytes. None goes
	// before its time: somebody may be about to use it.
	maxHandoffs, maxAllHandoffs = 64, 128 << 10
	// maxHandoff limits what one keeps, in bytes.
	maxHandoff = 16 << 10
)

// handoffs are what a person may continue in another conversation, as part of their state: so
// /forget deletes it, and two replicas cannot use the same one twice.
type handoffs struct {
	Open []handoff `json:"open,omitempty"`
}

type handoff struct {
	ID    string         `json:"id"`
	User  string         `json:"user,omitempty"` // their aadObjectId
	Data  jsontext.Value `json:"data,omitzero"`
	Until time.Time      `json:"until"`
}

// Continue keeps data, so that the person of the turn can go on in their chat with the bot, and
// returns the continuation to put into the link that opens it. It works once, within five minutes
// and for that person; [Routes].Handoff then gets the data. It is saved with the turn, so return its
// error and send the link after it. Errors: data does not encode or has more than 16 KiB, the
// person has 64 continuations or 128 KiB of data in them, or the turn is read-only.
func Continue(t *turn.Turn, data any) (continuation string, err error) {
	raw, err := json.Marshal(data)
	switch {
	case err != nil:
		return "", fmt.Errorf("continue elsewhere: %w", err)
	case len(raw) > maxHandoff:
		return "", fmt.Errorf("continue elsewhere: %d bytes of data, at most %d", len(raw), maxHandoff)
	case t.ReadOnly() || t.User == nil:
		return "", errors.New("continue elsewhere: this turn saves nothing")
	}
	all, now := state.Of[handoffs](t.User), time.Now().UTC()
	all.Open = slices.DeleteFunc(all.Open, func(h handoff) bool { return now.After(h.Until) })
	size := len(raw)
	for _, h := range all.Open {
		size += len(h.Data)
	}
	if len(all.Open) >= maxHandoffs || size > maxAllHandoffs {
		return "", fmt.Errorf("continue elsewhere: the person has %d continuations with %d bytes of data, each for %s", len(all.Open), size-len(raw), handoffFor)
	}
	kept := handoff{ID: strings.ToLower(rand.Text()), User: t.Activity.From.AadObjectID, Data: raw, Until: now.Add(handoffFor)}
	all.Open = append(all.Open, kept)
	return kept.ID, nil
}

// errNoHandoff is what a person reads whose continuation is not good.
var errNoHandoff = wrong("has a continuation that is unknown, used or too old")

// handoff binds handoff/action.
func (r *Routes) handoff(a *activity.Activity) (Bound, error) {
	var value struct {
		Continuation string `json:"continuation"`
	}
	if err := read(a, &value); err != nil {
		return nil, err
	}
	if value.Continuation == "" {
		return nil, wrong("has no continuation")
	}
	return func(ctx context.Context, t *turn.Turn) (any, Late, error) {
		all := state.Of[handoffs](t.User)
		at := slices.IndexFunc(all.Open, func(h handoff) bool {
			return h.ID == value.Continuation && h.User == t.Activity.From.AadObjectID && time.Now().Before(h.Until)
		})
		if at < 0 {
			return nil, Late{}, errNoHandoff
		}
		in := Input{Data: all.Open[at].Data}
		all.Open = slices.Delete(all.Open, at, at+1)
		return nil, Late{}, r.Handoff(ctx, t, in)
	}, nil
}
