package rdb

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// tripsAtOnce is how many round trips may be in flight before commands wait. It is small, so
	// that waiting commands share a trip, and large enough that one slow trip does not block all
	// others.
	tripsAtOnce = 4

	// maxTogether is how many callers share one round trip.
	maxTogether = 128
)

// trips combines what several callers send at the same time into one round trip. A caller's
// commands stay in order and together. So a busy bot needs a fraction of the writes and reads, and
// only a few connections, however many turns it runs.
//
// On a cluster each caller gets its own trip: a shared trip would go to several nodes, and the
// slowest would delay everybody.
type trips struct {
	client redis.UniversalClient
	alone  bool
	next   chan *batch
	closed chan struct{}
	once   sync.Once // guards the close of closed
	work   sync.WaitGroup
}

// batch is the commands of one caller.
type batch struct {
	cmds  []redis.Cmder
	until time.Time // when its caller stops waiting
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

// send runs the commands in one round trip. The error is the first one of the trip, not necessarily
// of these commands. left means that ctx ended first: the commands may still be in flight, so the
// caller must not touch them.
func (t *trips) send(ctx context.Context, cmds []redis.Cmder) (left bool, err error) {
	if err := ctx.Err(); err != nil { // else the choices below are a matter of luck
		return true, err
	}
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

// run makes one trip after another, each with everything that is waiting.
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

// waiting returns first and the batches behind it.
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

// together makes one trip for a group and stops when its last caller has stopped waiting.
func (t *trips) together(group []*batch) {
	var until time.Time
	var cmds []redis.Cmder
	for _, b := range group {
		cmds = append(cmds, b.cmds...)
		if b.until.After(until) {
			until = b.until
		}
	}
	ctx, cancel := context.WithDeadline(context.Background(), until.Add(10*time.Millisecond)) // callers leave first
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
	_ = pipe.BatchProcess(ctx, cmds...) // it only queues them
	_, err := pipe.Exec(ctx)
	return err
}

// close closes the client and waits for its trips to end.
func (t *trips) close() error {
	t.once.Do(func() { close(t.closed) })
	err := t.client.Close()
	t.work.Wait()
	return err
}
