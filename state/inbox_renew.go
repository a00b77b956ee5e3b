package state

import (
	"context"
	_ "embed" // the script
	"time"
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

// renewAll renews the leases of which a third or more is over, in one round
// trip. A failed one is tried again soon; a refused one is lost.
func (i *Inbox) renewAll() {
	holds := i.aging()
	if len(holds) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), i.r.cfg.Timeout)
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

// aging lists the holds to renew. Those that are being given up renew themselves.
func (i *Inbox) aging() []*Hold {
	i.mu.Lock()
	defer i.mu.Unlock()
	var holds []*Hold
	due := int64(i.now() + i.cfg.Lease - i.cfg.Lease/3)
	for h := range i.holds {
		if h.expires.Load() <= due && !h.ending.Load() {
			holds = append(holds, h)
		}
	}
	return holds
}
