package state

import (
	"context"
	_ "embed" // the script
	mathrand "math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

//go:embed sweep.lua
var sweepLua string

var sweepScript = newScript(lanesLua, sweepLua)

// sweepLimit bounds what one call of sweep.lua does, so that it does not keep
// others waiting. What is left is found a second later.
const sweepLimit = 100

// sweepWithin bounds one sweep.
const sweepWithin = 2 * time.Second

// sweeper looks after all lanes every second, as every replica does.
type sweeper struct {
	in      *Inbox
	away    [partitions]bool          // the last sweep had no answer
	patient [partitions]time.Duration // until when lanes are left alone: their holders may renew
	depth   [partitions]int64
}

func (i *Inbox) sweep(ctx context.Context) {
	s := &sweeper{in: i}
	every := min(time.Second, i.cfg.Lease/2)
	for {
		changed := i.changed()
		s.sweep(ctx)
		i.sleep(ctx, changed)
		timer := time.NewTimer(every*3/4 + mathrand.N(every/2))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

// sweep sweeps all partitions.
func (s *sweeper) sweep(ctx context.Context) {
	calls, from := s.calls(), s.in.backlog.now()
	s.exec(ctx, calls)
	var due []string
	var waiting int64
	each := partitions / len(calls)
	for p := range partitions {
		due = append(due, s.swept(p, calls[p/each], p%each)...)
		waiting += s.depth[p]
	}
	s.in.backlog.counted(waiting, from)
	s.in.fire(ctx, due)
}

// exec runs the calls in one round trip. When some had no answer the last time, each
// goes alone: a node that answers nothing leaves a whole trip without an answer.
func (s *sweeper) exec(ctx context.Context, calls []*call) {
	ctx, cancel := context.WithTimeout(ctx, min(s.in.r.cfg.Timeout, sweepWithin))
	defer cancel()
	if !slices.Contains(s.away[:], true) {
		s.in.r.exec(ctx, calls)
		return
	}
	var wg sync.WaitGroup
	for _, c := range calls {
		wg.Go(func() { s.in.r.exec(ctx, []*call{c}) })
	}
	wg.Wait()
}

// calls makes one call for all partitions, or one for each where they may lie on
// several nodes.
func (s *sweeper) calls() []*call {
	each := partitions
	if _, cluster := s.in.r.client.(*redis.ClusterClient); cluster {
		each = 1
	}
	var calls []*call
	for first := 0; first < partitions; first += each {
		c := callOf(sweepScript, strconv.Itoa(4*each), 5*each+1)
		for p := first; p < first+each; p++ {
			part := &s.in.parts[p]
			c.args = append(c.args, part.leases, part.ready, part.depth, part.timers)
		}
		c.args = append(c.args, strconv.Itoa(sweepLimit))
		for p := first; p < first+each; p++ {
			c.args = append(c.args, s.lanes(p))
		}
		calls = append(calls, &c)
	}
	return calls
}

// lanes says whether to look at the lanes of a partition. After Redis was away
// their leases have run out, and it is not their holders' fault.
func (s *sweeper) lanes(p int) string {
	if s.away[p] || s.in.now() < s.patient[p] {
		return "0"
	}
	return "1"
}

// swept reads what the call said of a partition, its n-th.
func (s *sweeper) swept(p int, c *call, n int) (due []string) {
	if c.err != nil {
		s.away[p] = true
		return nil
	}
	if s.away[p] {
		s.away[p], s.patient[p] = false, s.in.now()+s.in.cfg.Lease
	}
	reply := c.list().list(n)
	s.depth[p] = reply.int(0)
	for j := 1; j < len(reply); j++ {
		due = append(due, reply.text(j))
	}
	return due
}
