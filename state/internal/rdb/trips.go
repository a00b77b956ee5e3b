package rdb

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// tripsAtOnce is how many round trips may be under way before commands wait
	// for one of them to end: so few that those which wait go together, so many
	// that a slow one does not keep all others.
	tripsAtOnce = 4

	// maxTogether is how many callers go in one round trip.
	maxTogether = 128
)

// trips makes one round trip of what several callers want at the same time.
// A caller who finds no other trips under way makes one at once; who does not goes with
// the others that wait. The commands of a caller stay in their order, and next
// to each other. So a busy bot makes a fraction of the writes and reads, and needs a
// handful of connections however many turns it has.
//
// Over a cluster each caller goes alone: one trip would reach several nodes, and
// the slowest of them would hold up all.
type trips struct {
	client  redis.UniversalClient
	timeout time.Duration // of a trip for several
	atOnce  int

	mu       sync.Mutex
	waiting  []*batch
	underway int
	closed   bool
	work     sync.WaitGroup // trips for those who wait
}

// batch is what one caller wants.
type batch struct {
	cmds []redis.Cmder
	err  error // of the trip
	done chan struct{}
}

func newTrips(db *DB, timeout time.Duration) *trips {
	t := &trips{client: db.Client, timeout: timeout, atOnce: tripsAtOnce}
	if db.Clusters {
		t.atOnce = math.MaxInt
	}
	return t
}

// send runs the commands in one round trip. Its error is the first that the trip
// met, not necessarily with these commands. When the caller left because ctx ended
// they may be under way all the same: then they are not the caller's any more.
func (t *trips) send(ctx context.Context, cmds []redis.Cmder) (left bool, err error) {
	t.mu.Lock()
	if t.underway < t.atOnce || t.closed {
		t.underway++
		t.mu.Unlock()
		defer t.next()
		return false, t.trip(ctx, cmds)
	}
	e := &batch{cmds: cmds, done: make(chan struct{})}
	t.waiting = append(t.waiting, e)
	t.mu.Unlock()
	select {
	case <-e.done:
		return false, e.err
	case <-ctx.Done():
		t.mu.Lock()
		defer t.mu.Unlock()
		t.waiting = slices.DeleteFunc(t.waiting, func(other *batch) bool { return other == e })
		return true, ctx.Err()
	}
}

// next is the end of a trip: those who wait make the next one. With nobody there it is a
// trip less.
func (t *trips) next() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.waiting) > 0 {
		n := min(len(t.waiting), maxTogether)
		group := slices.Clone(t.waiting[:n])
		t.waiting = slices.Delete(t.waiting, 0, n)
		if !t.closed {
			t.work.Go(func() {
				t.run(group)
				t.next()
			})
			return
		}
		end(group, redis.ErrClosed)
	}
	t.underway--
}

// run makes the trip of a group. It outlives each of its callers.
func (t *trips) run(group []*batch) {
	ctx, cancel := context.WithTimeout(context.Background(), t.timeout)
	defer cancel()
	var cmds []redis.Cmder
	for _, e := range group {
		cmds = append(cmds, e.cmds...)
	}
	end(group, t.trip(ctx, cmds))
}

func end(group []*batch, err error) {
	for _, e := range group {
		e.err = err
		close(e.done)
	}
}

func (t *trips) trip(ctx context.Context, cmds []redis.Cmder) error {
	if len(cmds) == 1 { // a tenth cheaper than a pipeline of one
		return t.client.Process(ctx, cmds[0])
	}
	pipe := t.client.Pipeline()
	_ = pipe.BatchProcess(ctx, cmds...) // it only queues
	_, err := pipe.Exec(ctx)
	return err
}

// close closes the client, and waits for the trips that this ends.
func (t *trips) close() error {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	err := t.client.Close()
	t.work.Wait()
	return err
}
