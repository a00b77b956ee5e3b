package connector

import (
	"slices"
	"sync"
	"time"
)

const (
	// maxPaceWait is the longest time that a call waits for its turn; what would have to
	// wait longer is the caller's to plan.
	maxPaceWait = 30 * time.Second
	// paceMemory is how long a request counts.
	paceMemory = time.Hour
	// maxPaces is how many conversations are newly remembered before those that were
	// idle meanwhile are forgotten. At most twice as many are in memory.
	maxPaces = 50_000
)

// pacer keeps the bot below the limits of Teams, so that these need not throttle it
// (https://learn.microsoft.com/microsoftteams/platform/bots/how-to/rate-limit). It is
// exact: there is no moment in whose last second, or other span of a limit, there were
// more requests than the limit says. It may be used concurrently.
//
// Who may not send yet books the next moment that is free, so that requests of one
// conversation leave in the order in which they came, and none waits for those of
// another. Nothing runs in the background: conversations are kept in two generations of
// at least an hour each, and who is not heard of in one is forgotten with it.
type pacer struct {
	start                  time.Time
	writes, reads, tenants []limit

	mu       sync.Mutex
	young    map[paceKey]*pace
	old      map[paceKey]*pace
	youngest time.Duration // when young began
}

// limit allows so many requests in any span of that length.
type limit struct {
	most   int
	within time.Duration
}

func newPacer() *pacer {
	const s = time.Second
	return &pacer{
		start:   time.Now(),
		writes:  []limit{{7, s}, {8, 2 * s}, {60, 30 * s}, {1800, time.Hour}},
		reads:   []limit{{14, s}, {16, 2 * s}, {120, 30 * s}, {3600, time.Hour}},
		tenants: []limit{{50, s}},
		young:   map[paceKey]*pace{},
	}
}

// cadence says towards which limits a request counts.
type cadence struct {
	thread string // a conversation, with its thread; "" when there is none
	tenant string // "" when it is not known
	reads  bool
	double bool // Teams makes two messages of it
}

// paceKey names a pace.
type paceKey struct {
	kind byte // 'w' writes and 'r' reads of a conversation, 't' everything of a tenant
	id   string
}

// pace is when requests of one kind were made, or are going to be, in order of time.
type pace struct {
	limits  []limit
	ordered bool // a new one does not come before those that wait
	at      []time.Duration
}

// share is a pace, and how often a request counts there.
type share struct {
	*pace
	count int
}

// booking is a moment at which a request may be made.
type booking struct {
	wait   time.Duration
	at     time.Duration
	shares []share
}

// book finds the next moment that keeps all limits, and takes it unless it is further
// away than patience.
func (p *pacer) book(c cadence, patience time.Duration) (b booking, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Since(p.start)
	p.age(now)
	b.shares = p.sharesOf(c, now)
	b.at = settle(now, b.shares)
	if b.wait = b.at - now; b.wait > patience {
		return b, false
	}
	for _, s := range b.shares {
		for range s.count {
			i, _ := slices.BinarySearch(s.at, b.at)
			s.at = slices.Insert(s.at, i, b.at)
		}
	}
	return b, true
}

// giveBack frees a moment that nothing was sent at.
func (p *pacer) giveBack(b booking) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range b.shares {
		if i, found := slices.BinarySearch(s.at, b.at); found {
			s.at = slices.Delete(s.at, i, i+s.count)
		}
	}
}

// age begins a new generation, and forgets the one before the last.
func (p *pacer) age(now time.Duration) {
	if now-p.youngest < paceMemory && len(p.young) < maxPaces {
		return
	}
	p.young, p.old, p.youngest = map[paceKey]*pace{}, p.young, now
}

func (p *pacer) sharesOf(c cadence, now time.Duration) []share {
	shares := make([]share, 0, 2)
	switch {
	case c.thread == "":
	case c.reads:
		shares = append(shares, share{p.of(paceKey{'r', c.thread}, p.reads, now), 1})
	case c.double:
		shares = append(shares, share{p.of(paceKey{'w', c.thread}, p.writes, now), 2})
	default:
		shares = append(shares, share{p.of(paceKey{'w', c.thread}, p.writes, now), 1})
	}
	if c.tenant != "" {
		shares = append(shares, share{p.of(paceKey{'t', c.tenant}, p.tenants, now), 1})
	}
	return shares
}

func (p *pacer) of(key paceKey, limits []limit, now time.Duration) *pace {
	one, ok := p.young[key]
	if !ok {
		if one, ok = p.old[key]; !ok {
			one = &pace{limits: limits, ordered: key.kind != 't'}
		}
		p.young[key] = one
	}
	longest := limits[len(limits)-1].within
	past, _ := slices.BinarySearch(one.at, now-longest+1)
	one.at = slices.Delete(one.at, 0, past)
	return one
}

// settle returns the first moment from at on that suits all paces.
func settle(at time.Duration, shares []share) time.Duration {
	for moved := true; moved; {
		moved = false
		for _, s := range shares {
			if next := s.earliest(at); next > at {
				at, moved = next, true
			}
		}
	}
	return at
}

func (s share) earliest(at time.Duration) time.Duration {
	if n := len(s.at); s.ordered && n > 0 {
		at = max(at, s.at[n-1])
	}
	for moved := true; moved; {
		moved = false
		for _, l := range s.limits {
			if next := l.earliest(s.at, at, s.count); next > at {
				at, moved = next, true
			}
		}
	}
	return at
}

// earliest moves at behind every group of requests, as many as the limit leaves beside
// the new ones, with which these would lie in one span.
func (l limit) earliest(taken []time.Duration, at time.Duration, count int) time.Duration {
	group := l.most - count + 1
	i, _ := slices.BinarySearch(taken, at-l.within+1)
	for ; i+group <= len(taken); i++ {
		first, last := taken[i], taken[i+group-1]
		if last-at >= l.within {
			break
		}
		if max(at, last)-min(at, first) < l.within {
			at = first + l.within
		}
	}
	return at
}
