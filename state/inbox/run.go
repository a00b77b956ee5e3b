package inbox

import (
	"context"
	mathrand "math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/planbot-go/planbot/state"
	"github.com/planbot-go/planbot/state/internal/rdb"
)

var (
	sweepScript = script("sweep")
	nudgeScript = script("queue", "nudge")
	fireScript  = script("queue", "fire")
)

const (
	// maxSleep limits how long a sweeper sleeps.
	maxSleep = time.Hour

	// sweepLimit limits the work of one sweep.lua call, so that it does not block Redis for others.
	// The next sweep, a second later, finds the rest. hurryLimit applies in a hurry, when the
	// results include queues that somebody is working on.
	sweepLimit = 100
	hurryLimit = 1000

	// lookEvery is how often a sweep looks at all partitions. Between that it looks where it knows that something is due.
	lookEvery = 4 * time.Second

	// sweepWithin limits one sweep.
	sweepWithin = 2 * time.Second

	// ahead is how far a hurried sweep looks ahead. It matches the delay that wake in queue.lua
	// gives a queue.
	ahead = 5 * time.Second

	// hurryFor is how long after a reader reconnects names can still get lost on the old
	// connection, which Redis does not yet know is dead.
	hurryFor = rdb.ReadBlock + time.Second
)

// Run reads which queues are ready and sweeps for queues and timers that are due, until ctx ends.
// It calls ready for each queue, in its own goroutines. ready calls [Inbox.Claim]. It may block
// while there is no room for more work; other replicas keep reading meanwhile. Run does not return
// when Redis is unavailable: it continues once Redis is back. Leases are renewed with or without
// Run.
func (i *Inbox) Run(ctx context.Context, ready func(state.Key)) {
	s := &sweeper{in: i, poked: make(chan struct{}, 1)}
	client := i.db.Reader(s.hurry)
	var wg sync.WaitGroup
	wg.Go(func() { s.run(ctx) })
	wg.Go(func() {
		<-ctx.Done()
		_ = client.Close() // unblocks the waiting reads
	})
	all := make([]string, rdb.Partitions)
	for p := range all {
		all[p] = shared(p, "wake")
	}
	each := len(all)
	if i.db.Clusters { // partitions may be on different nodes
		each = 1
	}
	for lists := range slices.Chunk(all, each) {
		wg.Go(func() { i.read(ctx, client, lists, ready) })
	}
	wg.Wait()
}

// read pops queue names from some of the ready lists until ctx ends.
func (i *Inbox) read(ctx context.Context, client rdb.Reader, lists []string, ready func(state.Key)) {
	for failures := 0; ctx.Err() == nil; {
		changed := i.db.Changed()
		// Redis pops from the first list that is not empty. Shuffle so that no list always comes
		// last.
		mathrand.Shuffle(len(lists), func(a, b int) { lists[a], lists[b] = lists[b], lists[a] })
		within, cancel := context.WithTimeout(ctx, rdb.ReadBlock+4*time.Second)
		taken, err := client.Take(within, lists)
		cancel()
		switch {
		case ctx.Err() != nil: // other replicas find what this one popped in the set of leases
			return
		case err != nil:
			if failures++; failures == 2 {
				i.cfg.Log.Warn().Err(err).Msg("the inbox cannot be read now")
			}
			rdb.Pause(ctx, i.leases.closed, failures)
			continue
		case taken == nil:
			sleep(ctx, changed, nil, maxSleep)
		default:
			var queue state.Key
			if err := queue.UnmarshalText([]byte(taken[1])); err != nil {
				i.cfg.Log.Error().Err(err).Str("list", taken[0]).Msg("an entry that is not the inbox's")
				continue
			}
			ready(queue)
		}
		if failures > 1 {
			i.cfg.Log.Info().Msg("the inbox is read again")
		}
		failures = 0
	}
}

// looks is when to look at partitions, by the clock of leases. The zero value: at all of them, now.
type looks struct {
	mu   sync.Mutex
	all  time.Duration
	next [rdb.Partitions]time.Duration
}

// expect has a partition looked at no later than then: something may be due there.
func (l *looks) expect(p int, then time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next[p] = min(l.next[p], then)
}

// take returns the partitions to look at by now, and whether these are all.
func (l *looks) take(now time.Duration, urgent bool) (due []int, all bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	all = urgent || l.all <= now
	if all {
		l.all = now + lookEvery
	}
	for p := range l.next {
		if all || l.next[p] <= now {
			due = append(due, p)
			l.next[p] = now + maxSleep // until something is expected earlier
		}
	}
	return due, all
}

// sweeper checks all queues every four seconds, and about every second those of partitions where something is due.
// Every replica runs one.
type sweeper struct {
	in     *Inbox
	poked  chan struct{}
	urgent atomic.Int64 // hurry until then, by the clock of leases

	away    [rdb.Partitions]bool          // the last sweep got no reply
	patient [rdb.Partitions]time.Duration // until then leave leased queues alone, because their owners may still renew
	depth   [rdb.Partitions]int64
	next    time.Duration // time until something is due in what the last sweep looked at
}

// hurry makes the sweeper look at once for queues that nobody has and whose names may have got lost
// from the ready list.
func (s *sweeper) hurry() {
	s.urgent.Store(int64(s.in.leases.now() + hurryFor))
	select {
	case s.poked <- struct{}{}:
	default:
	}
}

func (s *sweeper) run(ctx context.Context) {
	every := min(time.Second, s.in.cfg.Lease/2)
	for ctx.Err() == nil {
		changed := s.in.db.Changed()
		s.sweep(ctx)
		if time.Duration(s.urgent.Load()) < s.in.leases.now() {
			sleep(ctx, changed, s.poked, s.next)
		}
		pause := every*3/4 + mathrand.N(every/2)
		if slices.Contains(s.away[:], true) {
			pause /= 4
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-s.poked:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// sleep waits for one of the channels, but no longer than d and no longer than an hour. It returns
// at once if changed is nil.
func sleep(ctx context.Context, changed, poked <-chan struct{}, d time.Duration) {
	if changed == nil || d <= 0 {
		return
	}
	timer := time.NewTimer(min(d, maxSleep))
	defer timer.Stop()
	select {
	case <-changed:
	case <-poked:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// sweep checks all partitions.
func (s *sweeper) sweep(ctx context.Context) {
	from := s.in.backlog.now()
	limit, look := sweepLimit, time.Duration(0)
	now := s.in.leases.now()
	urgent := now < time.Duration(s.urgent.Load())
	if urgent {
		limit, look = hurryLimit, ahead
	}
	// An in-process server says when something changed, and not where.
	due, all := s.in.looks.take(now, urgent || s.in.db.Server() != nil)
	each := rdb.Partitions
	if s.in.db.Clusters {
		each = 1
	}
	var calls []*rdb.Call
	for some := range slices.Chunk(due, each) {
		c := sweepScript.Call()
		for _, p := range some {
			c.AddKeys(shared(p, "leases"), shared(p, "depth"), shared(p, "timers"))
		}
		c.Add(limit, look.Milliseconds())
		calls = append(calls, c)
	}
	s.exec(ctx, calls)
	var work []*rdb.Call
	s.next = maxSleep
	for n, p := range due {
		work = append(work, s.swept(p, calls[n/each], n%each, look)...)
	}
	if all {
		var waiting int64
		for _, depth := range s.depth {
			waiting += depth
		}
		s.in.backlog.counted(waiting, from)
	}
	s.exec(ctx, work)
	for _, c := range work {
		if c.Err != nil && !rdb.IsUnavailable(c.Err) {
			s.in.cfg.Log.Error().Err(c.Err).Msg("a queue or a timer cannot be looked after")
		}
	}
}

func (s *sweeper) exec(ctx context.Context, calls []*rdb.Call) {
	ctx, cancel := context.WithTimeout(ctx, sweepWithin)
	defer cancel()
	s.in.db.Spread(ctx, calls...)
}

// swept reads the reply for partition p, the n-th of the call, and builds calls for what is due.
// After an outage of Redis, leases have expired through no fault of their owners, so swept gives
// them time to renew.
func (s *sweeper) swept(p int, c *rdb.Call, n int, look time.Duration) (work []*rdb.Call) {
	if c.Err != nil {
		s.away[p], s.next = true, 0
		s.in.looks.expect(p, 0)
		return nil
	}
	now := s.in.leases.now()
	if s.away[p] {
		s.away[p], s.patient[p] = false, now+s.in.cfg.Lease/2
	}
	patient := flag(now < s.patient[p])
	reply := c.List().List(n)
	s.depth[p] = reply.Int(0)
	rest := time.Duration(reply.Int(3)) * time.Millisecond
	s.next = min(s.next, rest)
	s.in.looks.expect(p, now+rest)
	parse := func(path string) (q state.Key, ok bool) {
		err := q.UnmarshalText([]byte(path))
		if err != nil {
			s.in.cfg.Log.Error().Err(err).Msg("a queue or a timer that is not the inbox's")
		}
		return q, err == nil
	}
	for _, path := range reply.List(1).Texts() {
		if q, ok := parse(path); ok {
			work = append(work, call(nudgeScript, q).Add(look.Milliseconds(), patient))
		}
	}
	for _, member := range reply.List(2).Texts() {
		path, id, _ := strings.Cut(member, "\n")
		if q, ok := parse(path); ok {
			work = append(work, call(fireScript, q).Add(id))
		}
	}
	return work
}
