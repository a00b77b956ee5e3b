package inbox

import (
	"context"
	"errors"
	mathrand "math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/planbot-go/planbot/state/internal/rdb"
)

var (
	sweepScript = script("sweep")
	nudgeScript = script("nudge")
	fireScript  = script("fire")
)

const (
	// readGroup is the consumer group of the ready streams, and the one consumer
	// in it: nothing is left pending, so nobody needs to know who read what, and
	// replicas that come and go leave nothing behind.
	readGroup = "planbot"

	// readCount is how many queues of one stream a read takes: few, since the reader
	// may find room for one only, and the others wait then.
	readCount = 4

	// maxSleep bounds how long nobody looks.
	maxSleep = time.Hour

	// sweepLimit bounds what one call of sweep.lua does, so that it does not keep
	// others waiting. What is left is found a second later. hurryLimit is for those
	// who hurry, and find held queues among those that they look for.
	sweepLimit = 100
	hurryLimit = 1000

	// sweepWithin bounds one sweep.
	sweepWithin = 2 * time.Second

	// ahead is how far those look who hurry: as far as wake in queue.lua puts a queue off.
	ahead = 5 * time.Second

	// hurryFor is how long after a new connection of a reader entries may get lost on the
	// old one, of which Redis does not know that it is dead.
	hurryFor = rdb.ReadBlock + time.Second
)

// run reads and sweeps until ctx ends.
func run(ctx context.Context, in *Inbox, ready func(Queue)) {
	s := &sweeper{in: in, poked: make(chan struct{}, 1)}
	client := in.db.Reader(s.hurry)
	var wg sync.WaitGroup
	wg.Go(func() { s.run(ctx) })
	wg.Go(func() {
		<-ctx.Done()
		_ = client.Close() // ends the reads that wait
	})
	all := make([]string, rdb.Partitions)
	for p := range all {
		all[p] = shared(p, "ready")
	}
	each := len(all)
	if in.db.Clusters { // the partitions may lie on several nodes
		each = 1
	}
	for streams := range slices.Chunk(all, each) {
		r := &reader{in: in, client: client, streams: streams, ready: ready}
		wg.Go(func() { r.run(ctx) })
	}
	wg.Wait()
}

// reader reads some of the ready streams.
type reader struct {
	in      *Inbox
	client  redis.UniversalClient
	streams []string
	ready   func(Queue)
	read    map[string][]string // ids of entries, by stream, that can be deleted
}

func (r *reader) run(ctx context.Context) {
	for failures := 0; ctx.Err() == nil; {
		changed := r.in.db.Changed()
		streams, err := r.next(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			failures++
			r.failed(ctx, err, failures)
			continue
		}
		if failures > 0 {
			failures = 0
			r.in.cfg.Log.Info().Msg("the inbox is read again")
		}
		r.hand(ctx, streams)
		if len(streams) == 0 {
			sleep(ctx, changed, nil, maxSleep)
		}
	}
}

// next deletes what was read before and waits for more, in one round trip.
func (r *reader) next(ctx context.Context) ([]redis.XStream, error) {
	ctx, cancel := context.WithTimeout(ctx, rdb.ReadBlock+4*time.Second)
	defer cancel()
	pipe := r.client.Pipeline()
	for stream, ids := range r.read {
		pipe.XDel(ctx, stream, ids...)
	}
	args := slices.Clone(r.streams)
	for range r.streams {
		args = append(args, ">")
	}
	reply := pipe.XReadGroup(ctx, &redis.XReadGroupArgs{
		Group: readGroup, Consumer: readGroup, Streams: args, Count: readCount, Block: rdb.ReadBlock, NoAck: true,
	})
	_, err := pipe.Exec(ctx)
	if reply.Err() == nil && reply.Val() == nil && err != nil {
		return nil, err
	}
	if err := reply.Err(); err != nil && !errors.Is(err, redis.Nil) {
		return nil, err
	}
	r.read = nil
	return reply.Val(), nil
}

func (r *reader) hand(ctx context.Context, streams []redis.XStream) {
	r.read = make(map[string][]string, len(streams))
	for _, stream := range streams {
		for _, entry := range stream.Messages {
			r.read[stream.Stream] = append(r.read[stream.Stream], entry.ID)
			path, _ := entry.Values["queue"].(string)
			var q Queue
			if err := q.UnmarshalText([]byte(path)); err != nil {
				r.in.cfg.Log.Error().Err(err).Str("stream", stream.Stream).Msg("an entry that is not the inbox's")
				continue
			}
			if ctx.Err() != nil {
				return // the others find them in the set of leases
			}
			r.ready(q)
		}
	}
}

// failed makes the groups where they are missing, which costs no pause, and else
// waits. It logs the first failure of a row.
func (r *reader) failed(ctx context.Context, err error, failures int) {
	if redis.HasErrorPrefix(err, "NOGROUP") {
		if err = r.makeGroups(ctx); err == nil && failures < 3 {
			return
		}
	}
	if failures == 2 && err != nil {
		r.in.cfg.Log.Warn().Err(err).Msg("the inbox cannot be read now")
	}
	rdb.Pause(ctx, r.in.leases.closed, failures)
}

// makeGroups makes the groups from the streams' beginnings: what was put there
// before is read, too.
func (r *reader) makeGroups(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, rdb.ReadBlock+4*time.Second)
	defer cancel()
	pipe := r.client.Pipeline()
	for _, stream := range r.streams {
		pipe.XGroupCreateMkStream(ctx, stream, readGroup, "0")
	}
	cmds, err := pipe.Exec(ctx)
	for _, cmd := range cmds {
		if err := cmd.Err(); err != nil && !redis.HasErrorPrefix(err, "BUSYGROUP") {
			return err
		}
	}
	if len(cmds) == 0 {
		return err
	}
	return nil
}

// sweeper looks after all queues every second, as every replica does.
type sweeper struct {
	in     *Inbox
	poked  chan struct{}
	urgent atomic.Int64 // until when it hurries, by the clock of leases

	away    [rdb.Partitions]bool          // the last sweep had no answer
	patient [rdb.Partitions]time.Duration // until when held queues are left alone: their holders may renew
	depth   [rdb.Partitions]int64
	next    time.Duration // until something is to be done
}

// hurry has the sweeper look at once for queues that nobody has, and whose entry in the
// stream may have got lost.
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

// sleep waits for one of the channels, but not longer than d and an hour. It does not
// wait without changed.
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

// sweep sweeps all partitions.
func (s *sweeper) sweep(ctx context.Context) {
	from := s.in.backlog.now()
	limit, look := sweepLimit, time.Duration(0)
	if s.in.leases.now() < time.Duration(s.urgent.Load()) {
		limit, look = hurryLimit, ahead
	}
	each := rdb.Partitions
	if s.in.db.Clusters {
		each = 1
	}
	var calls []*rdb.Call
	for first := 0; first < rdb.Partitions; first += each {
		c := sweepScript.Call()
		for p := first; p < first+each; p++ {
			c.AddKeys(shared(p, "leases"), shared(p, "depth"), shared(p, "timers"))
		}
		c.Add(limit, look.Milliseconds())
		calls = append(calls, c)
	}
	s.exec(ctx, calls)
	var work []*rdb.Call
	var waiting int64
	s.next = maxSleep
	for p := range rdb.Partitions {
		work = append(work, s.swept(p, calls[p/each], p%each, look)...)
		waiting += s.depth[p]
	}
	s.in.backlog.counted(waiting, from)
	if len(work) == 0 {
		return
	}
	s.exec(ctx, work)
	for _, c := range work {
		if c.Err != nil && !rdb.IsUnavailable(c.Err) {
			s.in.cfg.Log.Error().Err(c.Err).Msg("a queue or a timer cannot be looked after")
		}
	}
}

// exec runs the calls in one round trip. When some had no answer the last time, each
// goes alone: a node that answers nothing leaves a whole trip without an answer.
func (s *sweeper) exec(ctx context.Context, calls []*rdb.Call) {
	ctx, cancel := context.WithTimeout(ctx, sweepWithin)
	defer cancel()
	if !slices.Contains(s.away[:], true) {
		s.in.db.Exec(ctx, calls...)
		return
	}
	var wg sync.WaitGroup
	for _, c := range calls {
		wg.Go(func() { s.in.db.Exec(ctx, c) })
	}
	wg.Wait()
}

// swept reads what the call said of a partition, its n-th, and makes the calls for what
// is due. After Redis was away leases have run out, and it is not their holders' fault:
// they get some time to renew them.
func (s *sweeper) swept(p int, c *rdb.Call, n int, look time.Duration) (work []*rdb.Call) {
	if c.Err != nil {
		s.away[p], s.next = true, 0
		return nil
	}
	now := s.in.leases.now()
	if s.away[p] {
		s.away[p], s.patient[p] = false, now+s.in.cfg.Lease/2
	}
	patient := flag(now < s.patient[p])
	reply := c.List().List(n)
	s.depth[p] = reply.Int(0)
	s.next = min(s.next, time.Duration(reply.Int(3))*time.Millisecond)
	parse := func(path string) (q Queue, ok bool) {
		err := q.UnmarshalText([]byte(path))
		if err != nil {
			s.in.cfg.Log.Error().Err(err).Msg("a queue or a timer that is not the inbox's")
		}
		return q, err == nil
	}
	for _, path := range reply.List(1).Texts() {
		if q, ok := parse(path); ok {
			work = append(work, nudgeScript.Call(q.at("lease"), q.shared("leases"), q.shared("ready")).
				Add(path, look.Milliseconds(), patient))
		}
	}
	for _, member := range reply.List(2).Texts() {
		path, id, _ := strings.Cut(member, "\n")
		if q, ok := parse(path); ok {
			work = append(work, fireCall(q, id))
		}
	}
	return work
}

// fireCall makes the KEYS and ARGV of fire.lua.
func fireCall(q Queue, id string) *rdb.Call {
	return fireScript.Call(q.at("queue"), q.at("records"), q.at("waits"), q.shared("timers"), q.shared("dead"),
		q.shared("depth"), q.shared("ready"), q.shared("leases")).Add(q.String(), id)
}
