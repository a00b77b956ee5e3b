package models

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/rs/zerolog"
)

// Defaults of [RetryConfig].
const (
	DefaultRetries = 3
	DefaultMaxWait = 20 * time.Second
)

// RetryConfig bounds what one call of a [Retry] may add to the first try. The
// zero value is a working default.
type RetryConfig struct {
	Retries int           // at most so many further tries; 0: DefaultRetries, negative: none
	MaxWait time.Duration // of waiting, in all; 0: DefaultMaxWait, negative: none
}

// Retry asks the model again when it was throttled (429), broken (5xx) or not
// reached, after as long as the server asks to wait, else after half a second,
// one, two …, each with some jitter. A wait that would end after the call's
// budget or ctx's deadline is not begun: the call fails at once, with the fault
// of the last try. An answer, whatever it says, is never asked for again, and so
// is nothing that would fail in the same way: 400, 401, used up money, a body
// that cannot be read, a timeout of our own.
//
// A retry is of one call only, so nothing that an action did can happen twice
// because of it. Each wait writes one info line to ctx's logger.
func Retry(m Model, cfg RetryConfig) Model {
	return &retrier{
		model:   m,
		retries: max(cmp.Or(cfg.Retries, DefaultRetries), 0),
		maxWait: max(cmp.Or(cfg.MaxWait, DefaultMaxWait), 0),
	}
}

type retrier struct {
	model   Model
	retries int
	maxWait time.Duration
}

// Name is the model's own, "" when it has none.
func (r *retrier) Name() string { return nameOf(r.model) }

// Complete is the first answer, or the fault after which there is no retry.
func (r *retrier) Complete(ctx context.Context, req *Request) (*Response, error) {
	left := r.maxWait
	pause := newPause()
	for attempt := 1; ; attempt++ {
		answer, err := r.model.Complete(ctx, req)
		fault, ok := errors.AsType[*Error](err)
		if !ok || attempt > r.retries || ctx.Err() != nil || !fault.passing() {
			return answer, err
		}
		delay, ok := delayFor(ctx, cmp.Or(fault.RetryAfter, pause.NextBackOff()), left)
		if !ok {
			return answer, err
		}
		zerolog.Ctx(ctx).Info().Str("model", nameOf(r.model)).Stringer("kind", fault.Kind).Int("status", fault.Status).
			Int("attempt", attempt).Dur("wait", delay).Msg("model asked again after a wait")
		if err := sleep(ctx, delay); err != nil {
			return nil, fmt.Errorf("wait to ask the model again: %w", err)
		}
		left -= delay
	}
}

// nameOf is the model's name for logs, "" when it has none.
func nameOf(m Model) string {
	if named, ok := m.(interface{ Name() string }); ok {
		return named.Name()
	}
	return ""
}

func newPause() *backoff.ExponentialBackOff {
	b := &backoff.ExponentialBackOff{
		InitialInterval:     500 * time.Millisecond,
		RandomizationFactor: 0.3,
		Multiplier:          2,
		MaxInterval:         8 * time.Second,
	}
	b.Reset()
	return b
}

// delayFor lengthens the wait a little, so that those who were refused together
// do not come back together. It is false when the wait is beyond what is left or
// the deadline.
func delayFor(ctx context.Context, wait, left time.Duration) (time.Duration, bool) {
	if wait > left {
		return 0, false
	}
	wait = min(wait+rand.N(wait/10+1), left)
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= wait {
		return 0, false
	}
	return wait, true
}

// sleep fails when ctx was cancelled first. A deadline that is nearer was seen
// before.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// passing reports whether the same request may be answered a little later: 429,
// 5xx, the network.
func (e *Error) passing() bool {
	switch e.Kind {
	case Throttled:
		return e.Code != CodeQuota
	case Unavailable:
		return !e.unreadable()
	case Timeout:
		return e.Status != 0 // 408 and 504; our own timeout has already taken its time
	default:
		return false
	}
}

// unreadable reports whether the server answered, with a body that is no
// completion.
func (e *Error) unreadable() bool { return e.Code == CodeMalformed || e.Code == CodeTooLarge }
