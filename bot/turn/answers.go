package turn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/planbot-go/planbot/state"
)

// askEvery is how often a request asks Redis for an answer that another process works on.
const askEvery = 250 * time.Millisecond

// ErrLateAnswer says that the answer was not ready in time. The turn continues, and the same
// request waits for it again when it is resent.
var ErrLateAnswer = errors.New("the answer takes too long")

// Ticket is a request that waits for a turn's answer.
type Ticket struct {
	engine              *Engine
	queue, conversation state.Key // the turn's own, and that of the conversation
	id                  string
	told                <-chan []byte
}

// Close stops waiting.
func (k *Ticket) Close() { k.engine.answers.Delete(k.id) }

// Wait returns the answer of the record with that id, or of the record that it follows. Another
// process may work on it. Errors: [ErrLateAnswer] if ctx ends first, [ErrDraining], and those of
// the inbox.
func (k *Ticket) Wait(ctx context.Context, id string) (Answer, error) {
	answer, err := k.await(ctx, k.queue, id, k.told)
	if err != nil || answer.Follows == "" {
		return answer, err
	}
	told := k.engine.expect(answer.Follows)
	defer k.engine.answers.Delete(answer.Follows)
	return k.await(ctx, k.conversation, answer.Follows, told)
}

func (k *Ticket) await(ctx context.Context, queue state.Key, id string, told <-chan []byte) (a Answer, err error) {
	var raw []byte
	ticker := time.NewTicker(askEvery)
	defer ticker.Stop()
	for raw == nil {
		select {
		case raw = <-told:
		case <-ticker.C:
			if raw, err = k.engine.inbox.Answer(ctx, queue, id); err != nil && ctx.Err() == nil {
				return a, fmt.Errorf("ask for the answer: %w", err)
			}
		case <-k.engine.workers.ctx.Done():
			return a, ErrDraining
		case <-ctx.Done():
			return a, ErrLateAnswer
		}
	}
	if err = json.Unmarshal(raw, &a); err == nil && a.Activities != nil {
		a.Body, err = json.Marshal(map[string]any{"activities": a.Activities})
	}
	if err != nil {
		return a, fmt.Errorf("read the answer: %w", err)
	}
	return a, nil
}

// Forget makes the next delivery with this duplicate id count as a new one. id is that of the
// record.
func (k *Ticket) Forget(ctx context.Context, duplicate, id string) error {
	return k.engine.inbox.Forget(ctx, k.queue, duplicate, id)
}

// errReadOnly says that a turn beside the queues changes and sends nothing.
var errReadOnly = errors.New("this turn is read-only: it saves and sends nothing")

// answerAside is the turn of [Engine.Aside].
func answerAside(ctx context.Context, t *Turn, h Handler) (Answer, error) {
	err := t.safely(func() error {
		if t.rec.Stateless {
			t.Conversation, t.User, t.Thread = state.NewScope(), state.NewScope(), state.NewScope()
			return h(ctx, t)
		}
		keys := t.keys()
		if t.Activity.Conversation.Personal() { // the last one is for what turns save
			keys = keys[:len(keys)-1]
		}
		scopes, failed := t.engine.cfg.Store.LoadLater(ctx, keys...)
		t.docs.scopes, t.Conversation, t.User, t.Thread = scopes, scopes[0], scopes[1], scopes[len(scopes)-1]
		if len(scopes) == 2 {
			t.Thread = scopes[0]
		}
		err := h(ctx, t)
		if fault := failed(); fault != nil { // the handler did not see what is stored
			if err = fault; !errors.Is(fault, state.ErrUnavailable) {
				t.docs.fault = fault
			}
		}
		return err
	})
	if err != nil {
		return t.engine.cfg.OwnAnswer(t, t.Translate(explain(t, err))), err
	}
	if t.rec.Answer == nil {
		return Answer{}, nil
	}
	return *t.rec.Answer, nil
}
