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

func newTrips(client redis.UniversalClient, alone bool) *trips {
	t := &trips{client: client, alone: alone, next: make(chan *batch), closed: make(chan struct{})}
	for range tripsAtOnce {
		t.work.Go(t.travel)
	}
	return t
}

// trip runs calls in one round trip.
func (t *trips) trip(ctx context.Context, calls []*Call) {
	cmds := make([]redis.Cmder, len(calls))
	replies := make([]*redis.Cmd, len(calls))
	for i, c := range calls {
		replies[i] = commandOf(ctx, c)
		cmds[i] = replies[i]
		c.Tries++
	}
	left, err := t.send(ctx, cmds)
	for i, c := range calls {
		if left {
			replies[i] = redis.NewCmd(ctx) // the client may still write to the old one
		}
		c.reply = replies[i].Val()
		c.Err = replyError(replies[i], err)
	}
}

// send runs the commands in one round trip. The error is the first one of the trip, not necessarily
// of these commands. left means that ctx ended first: the commands may still be in flight, so the
// caller must not touch them.
func (t *trips) send(ctx context.Context, cmds []redis.Cmder) (left bool, err error) {
	if err := ctx.Err(); err != nil { // else the choices below are a matter of luck
		return true, err
	}
	if t.alone {
		return false, t.run(ctx, cmds)
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

// travel makes one trip after another, each with everything that is waiting.
func (t *trips) travel() {
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
	err := t.run(ctx, cmds)
	for _, b := range group {
		b.err = err
		close(b.done)
	}
}

func (t *trips) run(ctx context.Context, cmds []redis.Cmder) error {
	if len(cmds) == 1 { // a tenth cheaper than a pipeline of one
		return t.client.Process(ctx, cmds[0])
	}
	pipe := t.client.Pipeline()
	_ = pipe.BatchProcess(ctx, cmds...) // it only queues them
	_, err := pipe.Exec(ctx)
	return err
}

func (t *trips) scan(ctx context.Context, pattern string, each func(ctx context.Context, key string) error) error {
	var one sync.Mutex
	scan := func(ctx context.Context, node redis.Cmdable) error {
		one.Lock()
		defer one.Unlock()
		keys := node.Scan(ctx, 0, pattern, 1000).Iterator()
		for keys.Next(ctx) {
			if err := each(ctx, keys.Val()); err != nil {
				return err
			}
		}
		return keys.Err()
	}
	if cluster, ok := t.client.(*redis.ClusterClient); ok {
		return cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error { return scan(ctx, node) })
	}
	return scan(ctx, t.client)
}

func (t *trips) ping(ctx context.Context, keys []string) error {
	_, err := t.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, key := range keys {
			p.Set(ctx, key, "", time.Minute)
		}
		return nil
	})
	return err
}

func (t *trips) info(ctx context.Context) (string, error) { return t.client.Info(ctx).Result() }

func (t *trips) setting(ctx context.Context, name string) (string, error) {
	values, err := t.client.ConfigGet(ctx, name).Result()
	return values[name], err
}

func (t *trips) remove(ctx context.Context, key string) error { return t.client.Del(ctx, key).Err() }

// close closes the client and waits for its trips to end.
func (t *trips) close() error {
	t.once.Do(func() { close(t.closed) })
	err := t.client.Close()
	t.work.Wait()
	return err
}
