package connector

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	// maxLimitWait is the longest time that a call waits to stay below the limits. A
	// longer wait is the caller's to plan.
	maxLimitWait = 30 * time.Second
	// sweepPause lies between two looks for limiters that nobody uses any more.
	sweepPause = time.Minute
)

// limit is a token bucket: it never allows more than burst + rate * seconds.
type limit struct {
	rate  rate.Limit // a second
	burst int
}

// The limits of Teams are 7 messages in a second, 8 in two, 60 in 30 and 1800 in an hour in
// one conversation, and 50 requests a second in one tenant
// (https://learn.microsoft.com/microsoftteams/platform/bots/how-to/rate-limit). These
// buckets stay below them in any span of time.
var (
	conversationLimits = []limit{{0.9, 6}, {0.45, 60}}
	tenantLimits       = []limit{{40, 10}}
)

// limits keeps the bot below the limits of Teams, so that Teams need not throttle it. It
// may be used concurrently. Calls of one conversation leave in the order in which they
// asked.
type limits struct {
	mu       sync.Mutex
	limiters map[string][]*rate.Limiter
	swept    time.Time
}

func newLimits() *limits { return &limits{limiters: map[string][]*rate.Limiter{}, swept: time.Now()} }

// usage is what a call counts against the limits.
type usage struct {
	conversation string // its id, perhaps with a thread's; "" for a question
	tenant       string // "" when it is not known
	messages     int    // that Teams makes of it; 0: one
	fleeting     bool   // what cannot be sent at once is not worth sending, or a second try
}

// wait waits until the call op may be made. A call that would have to wait beyond end, or for
// longer than maxLimitWait, is not to be made: the error is an [*Error] that is HeldBack.
//
// It waits for the conversation first and then for the tenant, so that calls that wait for
// their conversation take nothing from the tenant meanwhile.
func (l *limits) wait(ctx context.Context, op string, u usage, end time.Time) error {
	if latest := time.Now().Add(maxLimitWait); latest.Before(end) {
		end = latest
	}
	if u.fleeting {
		end = time.Now()
	}
	conversation, _, _ := strings.Cut(strings.ToLower(u.conversation), ";") // a channel with all its threads is one
	tenant := strings.ToLower(u.tenant)
	if conversation != "" {
		if err := l.take(ctx, op, "conversation "+conversation, conversationLimits, max(u.messages, 1), end); err != nil {
			return err
		}
	}
	if tenant != "" {
		return l.take(ctx, op, "tenant "+tenant, tenantLimits, 1, end)
	}
	return nil
}

// take takes n from each of the limiters with that name, and waits until all have them.
func (l *limits) take(ctx context.Context, op, name string, of []limit, n int, end time.Time) error {
	now := time.Now()
	taken, delay := l.reserve(name, of, n, now, end)
	switch {
	case delay == 0:
		return nil
	case taken == nil:
		return &Error{Op: op, Status: http.StatusTooManyRequests, RetryAfter: delay, HeldBack: true}
	}
	err := sleep(ctx, delay)
	if err != nil {
		for _, r := range taken {
			r.Cancel()
		}
	}
	return err
}

// reserve takes nothing when the delay leads beyond end.
func (l *limits) reserve(name string, of []limit, n int, now, end time.Time) (taken []*rate.Reservation, delay time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sweep(now)
	limiters := l.limiters[name]
	if limiters == nil {
		for _, one := range of {
			limiters = append(limiters, rate.NewLimiter(one.rate, one.burst))
		}
		l.limiters[name] = limiters
	}
	for _, one := range limiters {
		r := one.ReserveN(now, n)
		taken, delay = append(taken, r), max(delay, r.DelayFrom(now))
	}
	if delay > 0 && now.Add(delay).After(end) {
		for _, r := range taken {
			r.CancelAt(now)
		}
		return nil, delay
	}
	return taken, delay
}

// sweep forgets limiters that are full again: they are like new ones.
func (l *limits) sweep(now time.Time) {
	if now.Sub(l.swept) < sweepPause {
		return
	}
	l.swept = now
	for name, limiters := range l.limiters {
		full := true
		for _, one := range limiters {
			full = full && one.TokensAt(now) >= float64(one.Burst())
		}
		if full {
			delete(l.limiters, name)
		}
	}
}

// sleep waits for d or the end of ctx.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
