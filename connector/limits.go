package connector

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	// maxLimitWait is the longest that a call waits to stay below the limits. A longer wait is up
	// to the caller.
	maxLimitWait = 30 * time.Second
	sweepPause   = time.Minute // the time between two sweeps of unused limiters
)

// limit is a token bucket: it never allows more than burst + rate * seconds.
type limit struct {
	rate  rate.Limit // per second
	burst int
}

// Teams allows 7 messages per second, 8 per 2 s, 60 per 30 s and 1800 per hour in one conversation,
// two reactions per second, and 50 requests per second in one tenant
// (https://learn.microsoft.com/microsoftteams/platform/bots/how-to/rate-limit). These buckets stay
// below that in any time window.
var (
	conversationLimits = []limit{{0.9, 6}, {0.45, 60}}
	reactionLimits     = []limit{{0.9, 1}}
	tenantLimits       = []limit{{40, 10}}
	chunkLimits        = []limit{{20, 5}} // of a tenant: half
)

// How many requests there is still room for after one that may be left out: after a part of a growing
// message, and in a tenant after a typing indicator, which says less.
const (
	spare       = 2
	typingSpare = 5
)

// limits keeps the bot below the limits of Teams, so that Teams need not throttle it. It may be
// used concurrently. Calls in one conversation leave in the order in which they asked.
type limits struct {
	mu       sync.Mutex
	limiters map[string][]*rate.Limiter
	swept    time.Time
}

func newLimits() *limits { return &limits{limiters: map[string][]*rate.Limiter{}, swept: time.Now()} }

// usage is what a call counts against the limits.
type usage struct {
	conversation string // its id, perhaps with a thread's; "" for a query
	tenant       string // "" if unknown
	messages     int    // how many Teams counts it as; 0: one
	fleeting     bool   // not worth a wait or a retry
	chunk        bool   // a part of a growing message; fleeting, too
	reaction     bool   // counts as a reaction, not as a message
}

// wait waits until the call op may be made. If that would take longer than maxLimitWait or go
// beyond ctx's deadline, the call must not be made: the error is an [*Error] with HeldBack set.
//
// It waits for the conversation first and then for the tenant, so calls that wait for their
// conversation do not use up the tenant's limit.
func (l *limits) wait(ctx context.Context, op string, u usage) error {
	latest := time.Now().Add(maxLimitWait)
	if end, ok := ctx.Deadline(); ok && end.Before(latest) {
		latest = end
	}
	if u.fleeting {
		latest = time.Now()
	}
	room := 0
	if u.chunk {
		room = spare
	}
	if conversation, _, _ := strings.Cut(strings.ToLower(u.conversation), ";"); conversation != "" { // a channel with all its threads is one
		kind, of := "conversation ", conversationLimits
		if u.reaction {
			kind, of = "reactions of ", reactionLimits
		}
		if err := l.take(ctx, op, kind+conversation, of, max(u.messages, 1), room, latest); err != nil {
			return err
		}
	}
	if u.chunk && u.tenant != "" {
		if err := l.take(ctx, op, "chunks of tenant "+strings.ToLower(u.tenant), chunkLimits, 1, 0, latest); err != nil {
			return err
		}
	}
	if u.fleeting && !u.chunk {
		room = typingSpare
	}
	if u.tenant != "" {
		return l.take(ctx, op, "tenant "+strings.ToLower(u.tenant), tenantLimits, 1, room, latest)
	}
	return nil
}

// take takes n from each limiter with that name, and waits until all allow it and have that much
// room left.
func (l *limits) take(ctx context.Context, op, name string, of []limit, n, room int, latest time.Time) error {
	taken, delay := l.reserve(name, of, n, room, latest)
	if taken == nil {
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

// reserve takes nothing if the delay would go beyond latest.
func (l *limits) reserve(name string, of []limit, n, room int, latest time.Time) (taken []*rate.Reservation, delay time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.sweep(now)
	limiters := l.limiters[name]
	if limiters == nil {
		for _, one := range of {
			limiters = append(limiters, rate.NewLimiter(one.rate, one.burst))
		}
		l.limiters[name] = limiters
	}
	for _, one := range limiters {
		if lacks := float64(n+room) - one.TokensAt(now); room > 0 && lacks > 0 {
			delay = max(delay, time.Duration(lacks/float64(one.Limit())*float64(time.Second)))
		}
		r := one.ReserveN(now, n)
		taken, delay = append(taken, r), max(delay, r.DelayFrom(now))
	}
	if delay > 0 && now.Add(delay).After(latest) {
		for _, r := range taken {
			r.CancelAt(now)
		}
		return nil, delay
	}
	return taken, delay
}

// sweep drops limiters that are full again: a new one behaves the same.
func (l *limits) sweep(now time.Time) {
	if now.Sub(l.swept) < sweepPause {
		return
	}
	l.swept = now
	for name, limiters := range l.limiters {
		if !slices.ContainsFunc(limiters, func(one *rate.Limiter) bool { return one.TokensAt(now) < float64(one.Burst()) }) {
			delete(l.limiters, name)
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
