package models

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"
)

// Defaults of [BreakerConfig].
const (
	DefaultBreakerFailures = 5
	DefaultBreakerCooldown = 30 * time.Second
)

// maxCooldown bounds a cooldown that a server asks for.
const maxCooldown = 5 * time.Minute

// BreakerConfig says when a model that keeps failing is left out for a while. The
// zero value is a working default.
type BreakerConfig struct {
	Failures int           // in a row; 0: DefaultBreakerFailures, negative: the model is never left out
	Cooldown time.Duration // until one call tries the model again, longer when the server asks for it; 0: DefaultBreakerCooldown
}

// breaker is the memory of one model's failures. After enough of them in a row it
// refuses all calls but one each cooldown, until such a one is answered.
type breaker struct {
	failures int
	cooldown time.Duration

	mu    sync.Mutex
	row   int       // failures since the last answer
	until time.Time // when the next call may try, while row has reached failures
}

func newBreaker(cfg BreakerConfig) *breaker {
	return &breaker{
		failures: cmp.Or(cfg.Failures, DefaultBreakerFailures),
		cooldown: max(cmp.Or(cfg.Cooldown, DefaultBreakerCooldown), 0),
	}
}

// allows reports whether the model may be asked. Of those who ask at the end of a
// cooldown only the first is allowed to try; if nothing is heard of it, another
// one a cooldown later.
func (b *breaker) allows() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.open() {
		return true
	}
	now := time.Now()
	if now.Before(b.until) {
		return false
	}
	b.until = now.Add(b.cooldown)
	return true
}

func (b *breaker) open() bool { return b.failures > 0 && b.row >= b.failures }

// record counts the end of a call. It is true when the model is left out from now
// on.
func (b *breaker) record(ctx context.Context, err error) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == nil {
		b.row = 0
		return false
	}
	was := b.open()
	fault, counts := counted(ctx, err)
	if !counts {
		if was {
			b.until = time.Now() // the try proved nothing: the next one may
		}
		return false
	}
	b.row++
	if b.open() {
		b.until = time.Now().Add(max(b.cooldown, min(fault.RetryAfter, maxCooldown)))
	}
	return b.open() && !was
}

// counted reports whether err says that the model itself is in trouble: 429, 5xx,
// the network, no answer in time. A refused request (400, 401, a filter, a prompt
// too long), an unreadable or empty body and the end of the caller's own ctx do
// not say so.
func counted(ctx context.Context, err error) (*Error, bool) {
	fault, ok := errors.AsType[*Error](err)
	if !ok || ctx.Err() != nil {
		return nil, false
	}
	return fault, fault.elsewhere() && fault.Kind != BadRequest && !fault.unreadable()
}

// elsewhere reports whether another model may answer where this one did not.
func (e *Error) elsewhere() bool {
	return e.Kind == Throttled || e.Kind == Unavailable || e.Kind == Timeout || e.Code == CodeNoTools
}
