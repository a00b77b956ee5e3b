package rdb

import (
	"context"
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

// trips makes one round trip of what several callers want at the same time. The commands
// of a caller stay in their order, and next to each other. So a busy bot makes a fraction of
// the writes and reads, and needs a handful of connections however many turns it has.
//
// Over a cluster each caller goes alone: one trip would reach several nodes, and
// the slowest of them would hold up all.
type trips struct {
	client redis.UniversalClient
	alone  bool
	next   chan *batch
	closed chan struct{}
	once   sync.Once // closes it
	work   sync.WaitGroup
}

// batch is what one caller wants.
type batch struct {
	cmds  []redis.Cmder
	until time.Time // when nobody waits for it any more
	err   error     // of the trip
	done  chan struct{}
}

func newTrips(db *DB) *trips {
	t := &trips{client: db.Client, alone: db.Clusters, next: make(chan *batch), closed: make(chan struct{})}
	for range tripsAtOnce {
		t.work.Go(t.run)
	}
	return t
}

// send runs the commands in one round trip. Its error is the first that the trip
// met, not necessarily with these commands. When the caller left because ctx ended
// they may be under way all the same: then they are not the caller's any more.
func (t *trips) send(ctx context.Context, cmds []redis.Cmder) (left bool, err error) {
	if t.alone {
		return false, t.trip(ctx, cmds)
	}
	b := &batch{cmds: cmds, done: make(chan struct{})}
	b.until, _ = ctx.Deadline()
	select {
	case t.next <- b:
	case <-t.closed:
		return false, redis.ErrClosed
	case <-ctx.Done():
		return true, ctx.Err()
	}
	select {
	case <-b.done:
		return false, b.err
	case <-ctx.Done():
		return true, ctx.Err()
	}
}

// run makes one trip after another, each with all that waits then.
func (t *trips) run() {
	for {
		select {
		case <-t.closed:
			return
		case b := <-t.next:
			t.together(t.waiting(b))
		}
	}
}

// waiting is first and those that wait behind it.
func (t *trips) waiting(first *batch) []*batch {
	group := []*batch{first}
	for len(group) < maxTogether {
		select {
		case b := <-t.next:
			group = append(group, b)
		default:
			return group
		}
	}
	return group
}

// together makes the trip of a group, as long as anybody waits for it.
func (t *trips) together(group []*batch) {
	var until time.Time
	var cmds []redis.Cmder
	for _, b := range group {
		cmds = append(cmds, b.cmds...)
		if b.until.After(until) {
			until = b.until
		}
	}
	ctx, cancel := context.WithDeadline(context.Background(), until.Add(10*time.Millisecond)) // it leaves before
	defer cancel()
	err := t.trip(ctx, cmds)
	for _, b := range group {
		b.err = err
		close(b.done)
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
	t.once.Do(func() { close(t.closed) })
	err := t.client.Close()
	t.work.Wait()
	return err
}
