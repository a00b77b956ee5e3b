package state

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// maxSleep bounds how long nobody looks.
const maxSleep = time.Hour

// signal wakes all who wait for the next of its kind. Its zero value is ready to use.
type signal struct {
	mu   sync.Mutex
	next chan struct{}
}

// wait returns a channel that is closed when tell is called next.
func (s *signal) wait() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next == nil {
		s.next = make(chan struct{})
	}
	return s.next
}

func (s *signal) tell() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next != nil {
		close(s.next)
		s.next = nil
	}
}

// changed is closed at the next change in a server of this process; nil: it is elsewhere.
func (i *Inbox) changed() <-chan struct{} {
	if i.r.cfg.Server == nil {
		return nil
	}
	return i.r.cfg.Server.changed.wait()
}

// sleep waits until there may be something to sweep: where it cannot be known, not at all.
func (i *Inbox) sleep(ctx context.Context, changed <-chan struct{}) {
	if changed == nil {
		return
	}
	if due, ok := i.nextDue(ctx); ok {
		i.sleepUntil(ctx, changed, due)
	}
}

// sleepUntil waits for the channel, but not longer than d and an hour. A nil one is not
// waited for.
func (i *Inbox) sleepUntil(ctx context.Context, woken <-chan struct{}, d time.Duration) {
	if woken == nil || d <= 0 {
		return
	}
	timer := time.NewTimer(min(d, maxSleep))
	defer timer.Stop()
	select {
	case <-woken:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// nextDue is how long no lease runs out and no timer is due.
func (i *Inbox) nextDue(ctx context.Context) (d time.Duration, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, i.r.cfg.Timeout)
	defer cancel()
	var firsts []*redis.ZSliceCmd
	_, err := i.r.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, part := range &i.parts {
			for _, key := range []any{part.leases, part.timers} {
				name, _ := key.(string)
				firsts = append(firsts, p.ZRangeWithScores(ctx, name, 0, 0))
			}
		}
		return nil
	})
	if err != nil {
		return 0, false
	}
	first := math.Inf(1)
	for _, f := range firsts {
		for _, z := range f.Val() {
			first = min(first, z.Score)
		}
	}
	ms := min(first-float64(time.Now().UnixMilli()), float64(maxSleep.Milliseconds()))
	return time.Duration(ms) * time.Millisecond, true
}
