package connector

import (
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// maxPaceWait is the longest time that a call waits for its turn; what would have to
	// wait longer is the caller's to plan.
	maxPaceWait = 30 * time.Second
	// paceMargin is added to each span: what is to leave at a moment leaves a little later.
	paceMargin = 10 * time.Millisecond
	// paceMemory is how long a request counts.
	paceMemory = time.Hour + paceMargin
	// maxPaces is how many conversations are newly remembered before those that were
	// idle meanwhile are forgotten. At most twice as many are in memory.
	maxPaces = 50_000
)

// pacer keeps the bot below the limits of Teams, so that these need not throttle it
// (https://learn.microsoft.com/microsoftteams/platform/bots/how-to/rate-limit). The
// moments that it gives out keep them to the letter: there is none in whose last second,
// or other span of a limit, there are more than the limit says. What comes after such a
// moment (opening a connection or waiting for one, the network) it does not see; where that
// moves requests together by more than paceMargin, Teams may still say 429. It may be used
// concurrently.
//
// Who may not send yet books the next moment that is free, so that requests of one
// conversation leave in the order in which they asked. Those of different conversations
// share only the limit of their tenant, of which what nobody waits for leaves a fifth to
// what somebody does: a bulk of notices does not hold up the answers. Nothing runs in the
// background: conversations are kept in two generations, and who is not heard of in one is
// forgotten with it. A generation lasts an hour, or until it has maxPaces; with more than
// those in an hour, the longest limit is kept less strictly.
type pacer struct {
	start                           time.Time
	writes, reads, tenants, unasked []limit

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
	const one, two, thirty, hour = time.Second + paceMargin, 2*time.Second + paceMargin, 30*time.Second + paceMargin, time.Hour + paceMargin
	return &pacer{
		start:   time.Now(),
		writes:  []limit{{7, one}, {8, two}, {60, thirty}, {1800, hour}},
		reads:   []limit{{14, one}, {16, two}, {120, thirty}, {3600, hour}},
		tenants: []limit{{50, one}},
		unasked: []limit{{40, one}},
		young:   map[paceKey]*pace{},
	}
}

// cadence says towards which limits a request counts.
type cadence struct {
	conversation string // its id, perhaps with a thread's, which does not count; "" when there is none
	tenant       string // "" when it is not known
	reads        bool
	double       bool // Teams makes two messages of it
	unasked      bool // nobody waits for it
}

// paceKey names a pace.
type paceKey struct {
	kind byte   // 'w' writes and 'r' reads of a conversation, 't' everything of a tenant, 'u' what is unasked there
	id   string // in lower case
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
	shares := make([]share, 0, 3)
	conversation, _, _ := strings.Cut(strings.ToLower(c.conversation), ";") // without its thread
	switch {
	case conversation == "":
	case c.reads:
		shares = append(shares, share{p.of(paceKey{'r', conversation}, p.reads, now), 1})
	case c.double:
		shares = append(shares, share{p.of(paceKey{'w', conversation}, p.writes, now), 2})
	default:
		shares = append(shares, share{p.of(paceKey{'w', conversation}, p.writes, now), 1})
	}
	tenant := strings.ToLower(c.tenant)
	if tenant != "" {
		shares = append(shares, share{p.of(paceKey{'t', tenant}, p.tenants, now), 1})
	}
	if tenant != "" && c.unasked {
		shares = append(shares, share{p.of(paceKey{'u', tenant}, p.unasked, now), 1})
	}
	return shares
}

func (p *pacer) of(key paceKey, limits []limit, now time.Duration) *pace {
	one, ok := p.young[key]
	if !ok {
		if one, ok = p.old[key]; !ok {
			one = &pace{limits: limits, ordered: key.kind == 'w' || key.kind == 'r'}
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
