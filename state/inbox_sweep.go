package state

import (
	"context"
	_ "embed" // the script
	mathrand "math/rand/v2"
	"strconv"
	"time"
)

//go:embed sweep.lua
var sweepLua string

var sweepScript = newScript(lanesLua, sweepLua)

// sweepLimit bounds what one call of sweep.lua does, so that it does not keep
// others waiting. What is left is found a second later.
const sweepLimit = 100

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
		s.sweep(ctx)
		timer := time.NewTimer(every*3/4 + mathrand.N(every/2))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

// sweep sweeps all partitions in one round trip.
func (s *sweeper) sweep(ctx context.Context) {
	bounded, cancel := context.WithTimeout(ctx, s.in.r.cfg.Timeout)
	defer cancel()
	calls := make([]*call, partitions)
	for p := range calls {
		part := &s.in.parts[p]
		c := callOf(sweepScript, "4", 6)
		c.args = append(c.args, part.leases, part.ready, part.depth, part.timers, s.lanes(p), strconv.Itoa(sweepLimit))
		calls[p] = &c
	}
	s.in.r.exec(bounded, calls)
	var due []string
	var waiting int64
	for p, c := range calls {
		due = append(due, s.swept(p, c)...)
		waiting += s.depth[p]
	}
	s.in.waiting.Store(waiting)
	s.in.fire(ctx, due)
}

// lanes says whether to look at the lanes of a partition. After Redis was away
// their leases have run out, and it is not their holders' fault.
func (s *sweeper) lanes(p int) string {
	if s.away[p] || s.in.now() < s.patient[p] {
		return "0"
	}
	return "1"
}

func (s *sweeper) swept(p int, c *call) (due []string) {
	if c.err != nil {
		s.away[p] = true
		return nil
	}
	if s.away[p] {
		s.away[p], s.patient[p] = false, s.in.now()+s.in.cfg.Lease
	}
	reply := c.list()
	s.depth[p] = reply.int(0)
	for j := 1; j < len(reply); j++ {
		due = append(due, reply.text(j))
	}
	return due
}
