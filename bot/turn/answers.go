package turn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/state/inbox"
)

// askEvery is how often a request asks Redis for an answer that another process works on.
const askEvery = 250 * time.Millisecond

// ErrLateAnswer says that the answer was not ready in time. The turn continues, and the same
// request waits for it again when it is resent.
var ErrLateAnswer = errors.New("the answer takes too long")

// answers are the requests of this process that wait for a turn's answer.
type answers struct {
	mu      sync.Mutex
	waiting map[string]chan []byte // by record id
}

func (w *answers) add(id string) <-chan []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	one := make(chan []byte, 1)
	w.waiting[id] = one
	return one
}

func (w *answers) remove(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.waiting, id)
}

// tell gives the answer to the request that waits for it here.
func (w *answers) tell(id string, answer []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if one := w.waiting[id]; one != nil {
		one <- answer // a turn answers once
		delete(w.waiting, id)
	}
}

// Ticket is a request that waits for a turn's answer.
type Ticket struct {
	engine *Engine
	queue  inbox.Queue
	id     string
	told   <-chan []byte
}

// Close stops waiting.
func (k *Ticket) Close() { k.engine.answers.remove(k.id) }

// Wait returns the answer of the record with that id, or of the record that it follows. Another
// process may work on it. Errors: [ErrLateAnswer] if ctx ends first, [ErrDraining], and those of
// the inbox.
func (k *Ticket) Wait(ctx context.Context, id string, a *activity.Activity) (Answer, error) {
	answer, err := k.await(ctx, k.queue, id, k.told)
	if err != nil || answer.Follows == "" {
		return answer, err
	}
	told := k.engine.answers.add(answer.Follows)
	defer k.engine.answers.remove(answer.Follows)
	return k.await(ctx, queueOf(a), answer.Follows, told)
}

func (k *Ticket) await(ctx context.Context, queue inbox.Queue, id string, told <-chan []byte) (a Answer, err error) {
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
	if err := json.Unmarshal(raw, &a); err != nil {
		return a, fmt.Errorf("read the answer: %w", err)
	}
	return a, nil
}

// Forget makes the next delivery with this duplicate id count as a new one. id is that of the
// record.
func (k *Ticket) Forget(ctx context.Context, duplicate, id string) error {
	return k.engine.inbox.Forget(ctx, k.queue, duplicate, id)
}
