package bot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/state"
)

const (
	// expectRepliesWithin is when the answer to expectReplies leaves with the
	// replies that are there: the caller gives up after 15 s.
	expectRepliesWithin = 14 * time.Second
	// invokeWithin is how long an invoke waits for its turn. The same invoke, sent
	// again, goes on waiting for the same turn.
	invokeWithin = 10 * time.Second
	// askEvery is how often Redis is asked for an answer that another process works on.
	askEvery = 250 * time.Millisecond
)

// errLateAnswer is an answer that is not there in time.
var errLateAnswer = &StatusError{Status: http.StatusServiceUnavailable, RetryAfter: time.Second, Err: errors.New("the answer takes too long")}

// waiters are the requests of this process that wait for the answer of a turn.
type waiters struct {
	mu     sync.Mutex
	byTurn map[string]*waiter
}

type waiter struct {
	answer  chan []byte
	replies *replies // what the request answers with when it can wait no longer
}

func newWaiters() *waiters { return &waiters{byTurn: map[string]*waiter{}} }

// add is called before the turn can begin, remove when nobody waits any more.
func (w *waiters) add(turn string, in *replies) *waiter {
	one := &waiter{answer: make(chan []byte, 1), replies: in}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.byTurn[turn] = one
	return one
}

func (w *waiters) remove(turn string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.byTurn, turn)
}

// repliesOf returns where the replies of the turn go, nil when nobody here waits
// for them.
func (w *waiters) repliesOf(turn string) *replies {
	w.mu.Lock()
	defer w.mu.Unlock()
	if one := w.byTurn[turn]; one != nil {
		return one.replies
	}
	return nil
}

// of returns who waits for the turn here, nil when nobody does.
func (w *waiters) of(turn string) *waiter {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.byTurn[turn]
}

// tell gives the answer to who waits for it here.
func (w *waiters) tell(turn string, answer []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if one := w.byTurn[turn]; one != nil {
		one.answer <- answer // a turn ends once
		delete(w.byTurn, turn)
	}
}

// answer is what a turn answers to the request that brought it, and to the same
// request when it comes again.
type answer struct {
	Status  int            `json:"status,omitempty"`
	Body    jsontext.Value `json:"body,omitempty"`
	Follows string         `json:"follows,omitempty"` // the turn whose replies belong to it
}

// encodeAnswer is nil when nobody waits.
func (t *Turn) encodeAnswer() ([]byte, error) {
	if !t.awaited {
		return nil, nil
	}
	a, err := t.given()
	if err != nil {
		return nil, err
	}
	if t.replies != nil {
		if a.Body, err = json.Marshal(map[string]any{"activities": t.replies.all()}); err != nil {
			return nil, fmt.Errorf("write the answer: %w", err)
		}
	}
	raw, err := json.Marshal(a)
	if err != nil {
		return nil, fmt.Errorf("write the answer: %w", err)
	}
	return raw, nil
}

// given is what the turn answers by now, beside its replies.
func (t *Turn) given() (*answer, error) {
	a := &answer{Status: t.answer.Status, Follows: t.follows}
	if t.answer.Body == nil {
		return a, nil
	}
	raw, err := json.Marshal(t.answer.Body)
	if err != nil {
		return nil, fmt.Errorf("write the answer: %w", err)
	}
	a.Body = raw
	return a, nil
}

// give makes a the turn's answer, as given returned it.
func (t *Turn) give(a *answer) {
	t.answer, t.follows = InvokeResponse{Status: a.Status}, a.Follows
	if len(a.Body) > 0 {
		t.answer.Body = a.Body
	}
}

// request is what a delivery asks for beside being handled.
type request struct {
	activity *activity.Activity
	replies  *replies // they travel in the response; nil: through the channel
	lane     state.Lane
	awaits   bool // the answer of the turn
}

// respond waits for the answer of the turn and writes it. The turn is the first that
// its activity came with; here is where this process tells it, if it does.
func (b *Bot) respond(w http.ResponseWriter, r *http.Request, q request, turn string, here *waiter) error {
	within := b.cfg.AckTimeout
	switch {
	case q.activity.Type == activity.Invoke:
		within = max(within, invokeWithin)
	case q.replies != nil:
		within = expectRepliesWithin
	}
	ctx, cancel := context.WithTimeout(r.Context(), within)
	defer cancel()
	a, err := b.await(ctx, q.lane, turn, here)
	switch {
	case err != nil && q.activity.Type == activity.Invoke:
		return err
	case err != nil && q.replies != nil, a.Follows != "" && q.replies != nil:
		if a.Follows != "" {
			_, _ = b.await(ctx, conversationLane(q.activity), a.Follows, b.waiters.of(a.Follows)) // it answers with what is there
		}
		return InvokeResponse{Body: map[string]any{"activities": q.replies.take()}}.write(w)
	case err != nil || len(a.Body) == 0:
		return InvokeResponse{Status: a.Status}.write(w)
	}
	return InvokeResponse{Status: a.Status, Body: a.Body}.write(w)
}

// await returns the answer of a turn. Another process may be at work on it.
func (b *Bot) await(ctx context.Context, lane state.Lane, turn string, here *waiter) (a answer, err error) {
	var raw []byte
	var told chan []byte
	if here != nil {
		told = here.answer
	}
	ticker := time.NewTicker(askEvery)
	defer ticker.Stop()
	for raw == nil {
		select {
		case raw = <-told:
		case <-ticker.C:
			if raw, err = b.inbox.Answer(ctx, lane, turn); err != nil && ctx.Err() == nil {
				return a, fmt.Errorf("ask for the answer: %w", err)
			}
		case <-b.workers.ctx.Done():
			return a, errDraining
		case <-ctx.Done():
			return a, errLateAnswer
		}
	}
	if err := json.Unmarshal(raw, &a); err != nil {
		return a, fmt.Errorf("read the answer: %w", err)
	}
	return a, nil
}
