package connector

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// maxRetryAfter is the longest wait that the connector may ask for within a
// call; a longer one is the caller's to plan.
const maxRetryAfter = time.Minute

// errDone ends a call that succeeded with an answer that cannot be read: to make it
// again would do it twice.
var errDone = errors.New("it was done, but the answer cannot be read")

type onRetry struct{}

// OnRetry returns a context in which each call of a [Client] tells f, right before each
// try but its first, that it is made again.
func OnRetry(ctx context.Context, f func()) context.Context {
	return context.WithValue(ctx, onRetry{}, f)
}

func retries(ctx context.Context) {
	if f, ok := ctx.Value(onRetry{}).(func()); ok {
		f()
	}
}

// attempts decides what becomes of a call after each of its tries, by the list
// in Microsoft's documentation (bots/how-to/conversations/conversation-messages,
// "Status codes from bot conversational APIs").
type attempts struct {
	left      int
	end       time.Time // of the call
	backoff   *backoff.ExponentialBackOff
	lost      bool // a try whose answer never came was repeated
	refreshed bool // a 401 is not tried again (any more)
}

func newAttempts(ctx context.Context, cfg Config) *attempts {
	end := time.Now().Add(cfg.CallTimeout)
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(end) {
		end = deadline
	}
	b := &backoff.ExponentialBackOff{
		InitialInterval:     500 * time.Millisecond,
		RandomizationFactor: 0.3,
		Multiplier:          2,
		MaxInterval:         20 * time.Second,
	}
	b.Reset()
	return &attempts{left: cfg.Tries, end: end, backoff: b, refreshed: cfg.Tokens == nil}
}

// repeat tries until that succeeds or [attempts] gives up.
func repeat[T any](ctx context.Context, cfg Config, try func(end time.Time) (T, error)) (T, error) {
	tries := newAttempts(ctx, cfg)
	unsure := false
	for {
		reply, err := try(tries.end)
		if err == nil {
			return reply, nil
		}
		unanswered := errors.Is(err, ErrNoAnswer)
		delay, again := tries.next(ctx, err)
		if !again || sleep(ctx, delay) != nil {
			if unsure && !unanswered {
				err = fmt.Errorf("%w; to a try before that %w", err, ErrNoAnswer)
			}
			return reply, err
		}
		unsure = unsure || unanswered
		retries(ctx)
	}
}

// next returns how long to wait before the next try, or false when err is final.
func (a *attempts) next(ctx context.Context, err error) (time.Duration, bool) {
	if a.left--; a.left <= 0 || ctx.Err() != nil {
		return 0, false
	}
	delay, again := a.judge(err)
	return delay, again && time.Until(a.end) > delay
}

func (a *attempts) judge(err error) (time.Duration, bool) {
	if errors.Is(err, ErrHeldBack) || errors.Is(err, errDone) {
		return 0, false
	}
	var answer *Error
	if errors.As(err, &answer) {
		switch answer.Status {
		case http.StatusUnauthorized:
			first := !a.refreshed
			a.refreshed = true
			return 0, first
		case http.StatusPreconditionFailed, http.StatusTooManyRequests,
			http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			return max(a.backoff.NextBackOff(), answer.RetryAfter), answer.RetryAfter <= maxRetryAfter
		default:
			return 0, false
		}
	}
	if no := new(noToken); errors.As(err, &no) {
		var e *TokenError
		if !errors.As(no, &e) || e.refused() {
			return 0, false // a refusal of the bot itself does not pass within a call
		}
		return max(a.backoff.NextBackOff(), time.Until(e.retryAt)), true
	}
	if errors.Is(err, ErrHostNotAllowed) || errors.Is(err, ErrTooLarge) {
		return 0, false
	}
	first := !a.lost // no answer: the activity may or may not have arrived
	a.lost = true
	return a.backoff.NextBackOff(), first
}

// noToken is why a call was not made: its token could not be had.
type noToken struct{ error }

func (n *noToken) Unwrap() error { return n.error }

// retryAfter reads the header of that name, seconds or an HTTP date (RFC 9110).
func retryAfter(value string, now time.Time) time.Duration {
	if value = strings.TrimSpace(value); value == "" {
		return 0
	}
	if n, err := strconv.ParseInt(value, 10, 64); err == nil {
		return time.Duration(min(max(n, 0), int64(24*time.Hour/time.Second))) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(at.Sub(now), 0)
	}
	return 0
}
