package state

import (
	"context"
	_ "embed" // the script
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
)

//go:embed unpark.lua
var unparkLua string

var unparkScript = newScript(lanesLua, unparkLua)

// parkedFormat is raised when what a [Parked] holds is understood otherwise.
const parkedFormat = 1

// Parked is a turn that was put aside, with everything known of it.
type Parked struct {
	Format   int       `json:"format"`
	Turn     string    `json:"turn"`
	Lane     Lane      `json:"lane"`
	Body     []byte    `json:"body"`
	Journal  []byte    `json:"journal,omitempty"`
	Raw      bool      `json:"raw,omitempty"` // Body is all of an item that this program could not read
	Reason   string    `json:"reason"`
	Tries    int       `json:"tries"`
	Accepted time.Time `json:"accepted"`
	At       time.Time `json:"at"` // when it was parked
}

// parked is the item as it is kept among the parked turns.
func (h *Hold) parked(reason string) (string, error) {
	t := h.item
	text, err := json.Marshal(Parked{
		Format: parkedFormat, Turn: t.Turn, Lane: h.lane, Body: t.Body, Journal: t.Journal,
		Raw: t.raw, Reason: reason, Tries: t.Tries, Accepted: t.Accepted, At: time.Now(),
	})
	return string(text), err
}

// Parked lists the turns that were parked and neither put back nor dropped,
// the oldest first. One that cannot be read is listed with that as its reason.
func (i *Inbox) Parked(ctx context.Context) ([]Parked, error) {
	calls, err := i.everywhere(ctx, "list parked turns", func(part *partitionKeys) call { return plain("hgetall", part.parked) })
	if err != nil {
		return nil, err
	}
	var all []Parked
	for _, c := range calls {
		reply := c.list()
		for j := 0; j+1 < len(reply); j += 2 {
			all = append(all, parseParked(reply.text(j), reply.text(j+1)))
		}
	}
	slices.SortStableFunc(all, func(a, b Parked) int { return a.At.Compare(b.At) })
	return all, nil
}

func parseParked(turn, text string) Parked {
	var p Parked
	err := json.Unmarshal([]byte(text), &p)
	switch {
	case err != nil:
		return Parked{Turn: turn, Body: []byte(text), Reason: "it cannot be read: " + err.Error()}
	case p.Format != parkedFormat:
		return Parked{Format: p.Format, Turn: turn, Body: []byte(text), Reason: fmt.Sprintf("it has format %d, this program knows %d", p.Format, parkedFormat)}
	}
	return p
}

// everywhere makes a call in each partition, in one round trip.
func (i *Inbox) everywhere(ctx context.Context, doing string, of func(*partitionKeys) call) ([]*call, error) {
	calls := make([]*call, partitions)
	for p := range calls {
		c := of(&i.parts[p])
		calls[p] = &c
	}
	if err := i.do(ctx, doing, calls...); err != nil {
		return nil, err
	}
	for _, c := range calls {
		if c.err != nil {
			return nil, explain(ctx, doing, c.err)
		}
	}
	return calls, nil
}

// Waiting counts the items in all lanes, those at work among them, as of now.
// [InboxStats] has the figure of the last sweep.
func (i *Inbox) Waiting(ctx context.Context) (int, error) {
	calls, err := i.everywhere(ctx, "count what waits", func(part *partitionKeys) call { return plain("mget", part.depth) })
	if err != nil {
		return 0, err
	}
	all := 0
	for _, c := range calls {
		n, _ := strconv.Atoi(c.list().text(0)) // "": nothing was ever counted there
		all += max(n, 0)
	}
	return all, nil
}

// Unpark puts a parked turn back, at the end of its lane's queue. It starts with
// no tries, and goes on where its journal ends. [ErrNoTurn]: it is not parked.
func (i *Inbox) Unpark(ctx context.Context, turn string) error {
	const doing = "put a turn back"
	calls, err := i.everywhere(ctx, doing, func(part *partitionKeys) call { return plain("hmget", part.parked, turn) })
	if err != nil {
		return err
	}
	at := slices.IndexFunc(calls, func(c *call) bool { return c.list().text(0) != "" })
	if at < 0 {
		return fmt.Errorf("%s: %w: %.80q", doing, ErrNoTurn, turn)
	}
	p := parseParked(turn, calls[at].list().text(0))
	if err := p.Lane.key.Err(); err != nil {
		return fmt.Errorf("%s: %.80q: %s", doing, turn, p.Reason)
	}
	item := Item{Turn: p.Turn, Accepted: p.Accepted, Body: p.Body, Journal: p.Journal}
	text := item.format()
	if p.Raw {
		text = string(p.Body)
	}
	keys, part := p.Lane.keys(), &i.parts[at]
	c := callOf(unparkScript, "5", 8)
	c.args = append(c.args, part.parked, keys.queue, part.depth, part.ready, part.leases, keys.lane, turn, text)
	n, err := i.count(ctx, doing, &c)
	if err == nil && n == 0 && c.tries == 1 {
		err = fmt.Errorf("%s: %w: %.80q", doing, ErrNoTurn, turn)
	}
	return err
}

// Drop forgets a parked turn. [ErrNoTurn]: it is not parked.
func (i *Inbox) Drop(ctx context.Context, turn string) error {
	calls, err := i.everywhere(ctx, "drop a turn", func(part *partitionKeys) call { return plain("hdel", part.parked, turn) })
	if err != nil {
		return err
	}
	for _, c := range calls {
		if n, _ := c.reply.Int(); n > 0 || c.tries > 1 {
			return nil
		}
	}
	return fmt.Errorf("drop a turn: %w: %.80q", ErrNoTurn, turn)
}
