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
	// expectRepliesWithin is how long expectReplies waits for the replies of its turn:
	// the caller gives up after 15 s.
	expectRepliesWithin = 14 * time.Second
	// invokeWithin is how long an invoke waits for its turn.
	invokeWithin = 10 * time.Second
	// seenWithin is how soon an answer has to leave to be taken as seen: clients give up
	// after five seconds at the earliest.
	seenWithin = 5 * time.Second
	// askEvery is how often Redis is asked for an answer that another process works on.
	askEvery = 250 * time.Millisecond
	// stillAtWork answers a click on a card whose turn did not end in time.
	stillAtWork = "I am still at work. I noted what you clicked and will get to it: there is no need to click again."
)

// errLateAnswer is an answer that is not there in time. The turn goes on, and the same
// request, sent again, waits for it again.
var errLateAnswer = &StatusError{Status: http.StatusServiceUnavailable, RetryAfter: time.Second, Err: errors.New("the answer takes too long")}

// waiters are the requests of this process that wait for the answer of a turn.
type waiters struct {
	mu     sync.Mutex
	byTurn map[string]chan []byte
}

func newWaiters() *waiters { return &waiters{byTurn: map[string]chan []byte{}} }

// add returns where the answer comes, if the turn ends in this process and behind this
// call. Who adds removes.
func (w *waiters) add(turn string) (told <-chan []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	one := make(chan []byte, 1)
	w.byTurn[turn] = one
	return one
}

func (w *waiters) remove(turn string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.byTurn, turn)
}

// tell gives the answer to who waits for it here.
func (w *waiters) tell(turn string, answer []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if one := w.byTurn[turn]; one != nil {
		one <- answer // a turn ends once
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
		if a.Body, err = json.Marshal(map[string]any{"activities": t.replies}); err != nil {
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
	lane     state.Lane
	awaits   bool // the answer of the turn
	replies  bool // they travel in the response
}

// respond waits for the answer of the turn and writes it. The turn is the first that
// its activity came with; told is where this process tells its answer, if it does. An
// invoke and a request that expects replies are answered with that or not at all, so
// that they get the same answer however often they come; a late click on a card, with a
// sentence.
func (b *Bot) respond(w http.ResponseWriter, r *http.Request, q request, turn string, told <-chan []byte) error {
	began, within := time.Now(), b.cfg.AckTimeout
	switch {
	case q.activity.Type == activity.Invoke:
		within = max(within, invokeWithin)
	case q.replies:
		within = expectRepliesWithin
	}
	ctx, cancel := context.WithTimeout(r.Context(), within)
	defer cancel()
	a, err := b.await(ctx, q.lane, turn, told)
	if err == nil && q.replies && a.Follows != "" {
		told = b.waiters.add(a.Follows)
		defer b.waiters.remove(a.Follows)
		a, err = b.await(ctx, conversationLane(q.activity), a.Follows, told)
	}
	switch {
	case isExecute(q.activity) && err == nil && time.Since(began) < seenWithin:
		b.clickAnswered(r.Context(), q, turn)
	case isExecute(q.activity) && errors.Is(err, errLateAnswer):
		b.cfg.Log.Info().Str("turn", turn).Str("conversation", q.activity.Conversation.ID).Msg("click is to be answered later")
		return ShowMessage(stillAtWork).response().write(w)
	}
	switch {
	case err != nil && (q.replies || q.activity.Type == activity.Invoke):
		return err
	case err != nil || len(a.Body) == 0:
		return InvokeResponse{Status: a.Status}.write(w)
	}
	return InvokeResponse{Status: a.Status, Body: a.Body}.write(w)
}

// clickAnswered has the next click on the same button count as one of its own, if the
// answer to this one goes to somebody who is still there.
func (b *Bot) clickAnswered(ctx context.Context, q request, turn string) {
	if ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if err := b.inbox.Forget(ctx, q.lane, clickOf(q.activity), turn); err != nil {
		b.cfg.Log.Warn().Err(err).Str("turn", turn).Msg("click not forgotten, the same one counts in a minute")
	}
}

// await returns the answer of a turn. Another process may be at work on it.
func (b *Bot) await(ctx context.Context, lane state.Lane, turn string, told <-chan []byte) (a answer, err error) {
	var raw []byte
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
