package state

import (
	"context"
	_ "embed" // the script
	"time"

	"github.com/redis/go-redis/v9"
)

//go:embed renew.lua
var renewLua string

var renewScript = newScript(lanesLua, renewLua)

// renew keeps the leases of all holds alive, until Close.
func (i *Inbox) renew() {
	ticker := time.NewTicker(i.cfg.Lease / 6)
	defer ticker.Stop()
	for {
		select {
		case <-i.closed:
			return
		case <-ticker.C:
			i.renewAll()
		}
	}
}

// renewAll renews the leases of which a third or more is over. A failed one is
// tried again soon; a refused one is lost.
func (i *Inbox) renewAll() {
	for trip, holds := range i.aging() {
		i.wg.Go(func() {
			i.renewTogether(holds)
			i.mu.Lock()
			defer i.mu.Unlock()
			i.renewing[trip] = false
		})
	}
}

// renewTogether renews leases in one round trip.
func (i *Inbox) renewTogether(holds []*Hold) {
	ctx, cancel := context.WithTimeout(context.Background(), min(i.r.cfg.Timeout, i.cfg.Lease/3))
	defer cancel()
	calls := make([]*call, len(holds))
	for j, h := range holds {
		c := callOf(renewScript, "2", 5)
		c.args = append(c.args, h.keys.lease, i.parts[h.lane.key.partition].leases, h.keys.lane, h.fence, i.lease)
		calls[j] = &c
	}
	sent := i.now()
	i.r.exec(ctx, calls)
	for j, h := range holds {
		i.renewed(h, calls[j], sent)
	}
}

func (i *Inbox) renewed(h *Hold, c *call, sent time.Duration) {
	if c.err != nil {
		return
	}
	if n, _ := c.reply.Int(); n == 1 {
		h.extend(sent)
	} else if !h.ending.Load() {
		h.lose()
	}
}

// aging lists the holds to renew, by the round trip that they go in, and notes that
// these are under way. Those that are being given up renew themselves.
func (i *Inbox) aging() map[int][]*Hold {
	i.mu.Lock()
	defer i.mu.Unlock()
	trips := map[int][]*Hold{}
	due := int64(i.now() + i.cfg.Lease - i.cfg.Lease/3)
	for h := range i.holds {
		if trip := i.renewalOf(h); h.expires.Load() <= due && !h.ending.Load() && !i.renewing[trip] {
			trips[trip] = append(trips[trip], h)
		}
	}
	for trip := range trips {
		i.renewing[trip] = true
	}
	return trips
}

// renewalOf is the number of the trip that renews h. All go in one; on a cluster each
// partition has its own, since a trip to several nodes that one of them does not answer
// in time leaves all its commands without a reply.
func (i *Inbox) renewalOf(h *Hold) int {
	if _, cluster := i.r.client.(*redis.ClusterClient); cluster {
		return h.lane.key.partition
	}
	return 0
}
