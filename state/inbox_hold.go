package state

import (
	"context"
	_ "embed" // the scripts
	"fmt"
	"strconv"
	"sync/atomic"
	"time"
)

var (
	//go:embed claim.lua
	claimLua string

	//go:embed save_held.lua
	saveHeldLua string

	//go:embed finish.lua
	finishLua string

	//go:embed release.lua
	releaseLua string
)

var (
	claimScript    = newScript(lanesLua, claimLua)
	saveHeldScript = newScript(docsLua, lanesLua, saveHeldLua)
	finishScript   = newScript(docsLua, lanesLua, finishLua)
	releaseScript  = newScript(lanesLua, releaseLua)
)

// Hold is a lane that this replica has, with the item at its head. One goroutine
// uses it; OnLost and Err are for any.
type Hold struct {
	in      *Inbox
	lane    Lane
	keys    laneKeys
	fence   any // as an argument
	item    Item
	expires atomic.Int64 // by the inbox's clock, ns
	ending  atomic.Bool  // the lane is being given up: a refused renewal says nothing
	lost    bool         // by another's having the lane; under the inbox's mu
	onLost  func()       // the same
}

// hold notes that this replica has a lane, since a request was sent.
func (i *Inbox) hold(lane Lane, keys laneKeys, fence int64, item Item, sent time.Duration) *Hold {
	h := &Hold{in: i, lane: lane, keys: keys, fence: strconv.FormatInt(fence, 10), item: item}
	h.expires.Store(int64(sent + i.cfg.Lease))
	i.mu.Lock()
	defer i.mu.Unlock()
	i.holds[h] = struct{}{}
	return h
}

// extend notes that the lease was renewed by a request sent at that time, unless
// the hold ended meanwhile.
func (h *Hold) extend(sent time.Duration) {
	h.in.mu.Lock()
	defer h.in.mu.Unlock()
	if _, ok := h.in.holds[h]; ok {
		h.expires.Store(max(h.expires.Load(), int64(sent+h.in.cfg.Lease)))
	}
}

// aging reports whether a third or more of the lease is over.
func (h *Hold) aging() bool {
	return time.Duration(h.expires.Load())-h.in.now() <= h.in.cfg.Lease-h.in.cfg.Lease/3
}

// drop forgets a hold whose lane was given up, or will be when its lease has run out.
func (i *Inbox) drop(h *Hold) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	h.expires.Store(0)
	_, had := i.holds[h]
	delete(i.holds, h)
	return had
}

// lose notes that the lane is another's.
func (h *Hold) lose() {
	if !h.in.drop(h) {
		return
	}
	h.in.lost.Add(1)
	h.in.mu.Lock()
	f := h.onLost
	h.lost = true
	h.in.mu.Unlock()
	if f != nil {
		f()
	}
}

// Lane is the lane that is held.
func (h *Hold) Lane() Lane { return h.lane }

// Item is what is at the head of the lane: the next one after a Finish or Park
// that said so.
func (h *Hold) Item() Item { return h.item }

// OnLost has f called, which must not wait, when it is known that another replica
// has the lane: at once if it is known already. It takes the place of the f before.
func (h *Hold) OnLost(f func()) {
	h.in.mu.Lock()
	h.onLost = f
	lost := h.lost
	h.in.mu.Unlock()
	if lost {
		f()
	}
}

// Err is [ErrLost] when another replica has the lane, or may have: the lease was
// not renewed in time by this process' own clock. The latter may pass, when Redis
// comes back and nobody took the lane. Ask right before something leaves.
func (h *Hold) Err() error {
	if h.in.now() >= time.Duration(h.expires.Load()) {
		return ErrLost
	}
	return nil
}

// Claim takes the lane if it has work and nobody has it. Nil without an error: it
// has none, or somebody has it.
func (i *Inbox) Claim(ctx context.Context, lane Lane) (*Hold, error) {
	if err := lane.key.Err(); err != nil {
		return nil, fmt.Errorf("claim a lane: %w", err)
	}
	keys, part := lane.keys(), &i.parts[lane.key.partition]
	c := callOf(claimScript, "5", 8)
	c.args = append(c.args, keys.queue, keys.lease, part.leases, part.fence, keys.journal,
		keys.lane, i.caller(), i.lease)
	sent := i.now()
	if err := i.do(ctx, "claim a lane", &c); err != nil {
		return nil, err
	}
	if c.err != nil {
		return nil, explain(ctx, "claim a lane", c.err)
	}
	reply := c.list()
	if len(reply) == 0 {
		return nil, nil
	}
	h := i.hold(lane, keys, reply.int(0), Item{}, sent)
	if reply.int(2) > 0 {
		i.takeovers.Add(1)
	}
	if !h.begin(ctx, reply[3:], int(reply.int(1))) {
		return nil, nil
	}
	return h, nil
}

// begin makes a queue's head the item. One that this program cannot read is
// parked, and the next one begun; false: there is none, or the lane is left to
// whoever takes it when the lease has run out.
func (h *Hold) begin(ctx context.Context, head list, tries int) bool {
	item, err := parseItem(head.text(0), head.text(1))
	item.Tries = tries
	if len(head) > 2 && head[2] != nil { // it replaces the one that a parked turn brought
		item.Journal = append([]byte(nil), head.text(2)...)
	}
	h.item = item
	if err == nil {
		return true
	}
	h.in.cfg.Log.Error().Err(err).Str("turn", item.Turn).Str("lane", h.lane.path).Msg("an item that cannot be read is parked")
	more, failure := h.Park(ctx, err.Error(), nil)
	if failure != nil {
		h.in.drop(h)
		h.in.cfg.Log.Error().Err(failure).Str("lane", h.lane.path).Msg("an item that cannot be read cannot be parked")
		return false
	}
	return more
}

// Save writes the changed scopes and the journal of the item; a nil journal is
// left as it is, an empty one deletes it. The journal and the scopes of the
// lane's partition are one step, which happens only while the lane is held;
// other scopes are saved behind it, each partition for itself, and not at all when
// the step was not done. The journal must not be changed after the call.
//
// Errors: [ErrLost]: nothing was written, and the lane is gone; a [ConflictError]
// and the others as of [Redis.Save].
func (h *Hold) Save(ctx context.Context, journal []byte, scopes ...*Scope) error {
	if err := h.in.fits(h.lane, len(journal), h.in.maxJournal()); err != nil {
		return fmt.Errorf("save a journal: %w", err)
	}
	s, err := h.saving(scopes, time.Now())
	if err != nil || journal == nil && len(s.groups) == 1 && len(s.mine().writes) == 0 {
		return err
	}
	write := "1"
	if journal == nil {
		write = "0"
	}
	g, part := s.mine(), &h.in.parts[h.lane.key.partition]
	g.call = callOf(saveHeldScript, strconv.Itoa(3+len(g.writes)), 10+3*len(g.writes))
	g.args = append(g.args, h.keys.lease, part.leases, h.keys.journal)
	g.addKeys()
	lease, aging := any("0"), h.aging()
	if aging {
		lease = h.in.lease
	}
	g.args = append(g.args, h.keys.lane, h.fence, h.item.Turn, lease, write, journal)
	s.send(ctx, func(reply list, sent time.Duration) {
		switch reply.int(0) {
		case 0:
			if aging {
				h.extend(sent)
			}
			if journal != nil {
				h.item.Journal = journal[:len(journal):len(journal)]
			}
		case 5:
			g.lost = reply.ints(1)
		default:
			h.lose()
			g.err = ErrLost
		}
	})
	return s.settle(ctx)
}

// Finish is Save without a journal, and in the same step takes the item off the
// queue, keeps answer for whoever asks [Inbox.Answer] (nil: there is none), and
// goes on to the next item (true: the hold stays, Item is the next) or gives the
// lane up (false: there is no next one, or another replica got it and is to have it). Behind it, it is noted that scopes which did not change are in use.
//
// An error means that the step did not happen, or that this is not known: Item is
// still the same, and after a [ConflictError] and [ErrUnavailable] Finish may be
// called again. Once the step has happened, a scope of another partition that
// cannot be saved is no error, but logged: save those before.
func (h *Hold) Finish(ctx context.Context, answer []byte, scopes ...*Scope) (more bool, err error) {
	return h.end(ctx, answer, "", scopes)
}

// Park moves the item with its journal to the parked turns, with the reason, and
// goes on like [Hold.Finish].
func (h *Hold) Park(ctx context.Context, reason string, answer []byte) (more bool, err error) {
	parked, err := h.parked(reason)
	if err != nil {
		return false, fmt.Errorf("park a turn: %w", err)
	}
	return h.end(ctx, answer, parked, nil)
}

func (h *Hold) end(ctx context.Context, answer []byte, parked string, scopes []*Scope) (more bool, err error) {
	if err := h.in.fits(h.lane, len(answer), h.in.maxItem()); err != nil {
		return false, fmt.Errorf("keep an answer: %w", err)
	}
	now := time.Now()
	s, err := h.saving(scopes, now)
	if err != nil {
		return false, err
	}
	s.idle = h.in.r.idle(scopes, s.groups, now)
	h.finishCall(s.mine(), answer, parked)
	h.ending.Store(true)
	defer h.ending.Store(false)
	var next list
	h.in.backlog.leave()
	s.send(ctx, func(reply list, sent time.Duration) {
		if more = h.ended(s.mine(), reply); more {
			next = reply[1:]
			h.extend(sent)
		}
	})
	h.in.backlog.left(s.done())
	err = s.settle(ctx)
	if !s.done() {
		return false, err
	}
	if err != nil {
		h.in.cfg.Log.Error().Err(err).Str("turn", h.item.Turn).Str("lane", h.lane.path).
			Msg("a turn has ended, and state of another partition was not saved with it")
	}
	return more && h.begin(ctx, next, 0), nil
}

// finishCall makes the KEYS and ARGV of finish.lua.
func (h *Hold) finishCall(g *group, answer []byte, parked string) {
	part := &h.in.parts[h.lane.key.partition]
	var keep int64
	kept := ""
	if answer != nil {
		keep, kept = seconds(h.in.cfg.DuplicateFor), answerMark+string(answer)
	}
	g.call = callOf(finishScript, strconv.Itoa(8+len(g.writes)), 16+3*len(g.writes))
	g.args = append(g.args, h.keys.queue, h.keys.lease, part.leases, h.keys.journal, part.depth,
		h.lane.key.answerKey(h.item.Turn), part.parked, part.ready)
	g.addKeys()
	g.args = append(g.args, h.keys.lane, h.fence, h.item.Turn, h.in.lease, keep, kept, parked)
}

// ended reads the reply of finish.lua and reports whether there is a next item.
func (h *Hold) ended(g *group, reply list) (more bool) {
	switch reply.int(0) {
	case 1:
		h.in.drop(h)
	case 2:
		return true
	case 4:
		// The item is gone and so is our hold: an earlier try did that, whose answer
		// got lost, unless another replica may have taken over meanwhile.
		if h.Err() == nil || g.tries > 1 {
			h.in.drop(h)
			return false
		}
		h.lose()
		g.err = ErrLost
	case 5:
		g.lost = reply.ints(1)
	default:
		h.lose()
		g.err = ErrLost
	}
	return false
}

// Release gives the lane up with the item in it. Others, or this replica, take
// it after the time: that is no takeover. The hold is over whatever Release
// returns: when Redis could not be told, the lease runs out. [ErrLost]: another
// replica had the lane.
func (h *Hold) Release(ctx context.Context, after time.Duration) error {
	h.in.drop(h)
	part := &h.in.parts[h.lane.key.partition]
	c := callOf(releaseScript, "3", 6)
	c.args = append(c.args, h.keys.lease, part.leases, part.ready, h.keys.lane, h.fence, max(after, 0).Milliseconds())
	if err := h.in.do(ctx, "release a lane", &c); err != nil {
		return err
	}
	if c.err != nil {
		return explain(ctx, "release a lane", c.err)
	}
	if n, _ := c.reply.Int(); n == 0 && c.tries == 1 {
		h.in.lost.Add(1)
		return fmt.Errorf("release a lane: %w", ErrLost)
	}
	return nil
}
