package state

import (
	"context"
	"crypto/rand"
	_ "embed" // the scripts
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

var (
	//go:embed schedule.lua
	scheduleLua string

	//go:embed cancel.lua
	cancelLua string

	//go:embed fire.lua
	fireLua string
)

var (
	scheduleScript = newScript(scheduleLua)
	cancelScript   = newScript(cancelLua)
	fireScript     = newScript(lanesLua, fireLua)
)

// maxTimers is how many timers a lane may have.
const maxTimers = 100

// Timer is an item that comes into its lane later. It lies in the lane's timers as
//
//	<owner>
//	<due, Unix ms>
//	<body>
type Timer struct {
	Lane  Lane
	ID    string // the turn's, when it is due; one of its own for each timer
	Owner string // who may list and cancel it: for the caller, nothing here asks
	At    time.Time
	Body  []byte // of the item
}

// Schedule keeps t until it is due, then it becomes an item of its lane, within
// about a second, and at once when its time has passed. A timer of the same ID is
// replaced. [ErrFull]: the lane has 100 timers.
func (i *Inbox) Schedule(ctx context.Context, t Timer) error {
	err := errors.Join(t.Lane.key.Err(), checkTurn(t.ID), i.fits(t.Lane, len(t.Body), i.maxItem()))
	if err == nil && (strings.Contains(t.Owner, "\n") || len(t.Owner) > maxIDBytes) {
		err = fmt.Errorf("%w: owner %.80q", ErrKey, t.Owner)
	}
	if err != nil {
		return fmt.Errorf("schedule: %w", err)
	}
	due := strconv.FormatInt(t.At.UnixMilli(), 10)
	c := callOf(scheduleScript, "3", 9)
	c.args = append(c.args, t.Lane.timersKey(), i.parts[t.Lane.key.partition].timers, t.Lane.key.seenKey(rand.Text()),
		t.ID, t.Owner+"\n"+due+"\n"+string(t.Body), due, timerName(t.Lane, t.ID), maxTimers, i.callMemory())
	n, err := i.count(ctx, "schedule", &c)
	if err == nil && n == 0 {
		err = fmt.Errorf("schedule: %w", ErrFull)
	}
	return err
}

// timerName is a timer's name in its partition.
func timerName(lane Lane, id string) string { return lane.path + "\n" + id }

// count runs one call that returns a number.
func (i *Inbox) count(ctx context.Context, doing string, c *call) (int, error) {
	if err := i.do(ctx, doing, c); err != nil {
		return 0, err
	}
	if c.err != nil {
		return 0, explain(ctx, doing, c.err)
	}
	return c.reply.Int()
}

// Cancel drops a timer and reports whether it was there: one that is due by now
// may be an item already.
func (i *Inbox) Cancel(ctx context.Context, lane Lane, id string) (bool, error) {
	if err := errors.Join(lane.key.Err(), checkTurn(id)); err != nil {
		return false, fmt.Errorf("cancel a timer: %w", err)
	}
	c := callOf(cancelScript, "3", 6)
	c.args = append(c.args, lane.timersKey(), i.parts[lane.key.partition].timers, lane.key.seenKey(rand.Text()),
		id, timerName(lane, id), i.callMemory())
	n, err := i.count(ctx, "cancel a timer", &c)
	return n > 0, err
}

// Timers lists the timers of lanes that are not due, the next one first.
func (i *Inbox) Timers(ctx context.Context, lanes ...Lane) ([]Timer, error) {
	calls := make([]*call, len(lanes))
	for j, lane := range lanes {
		if err := lane.key.Err(); err != nil {
			return nil, fmt.Errorf("list timers: %w", err)
		}
		c := plain("hgetall", lane.timersKey())
		calls[j] = &c
	}
	if err := i.do(ctx, "list timers", calls...); err != nil {
		return nil, err
	}
	var timers []Timer
	for n, c := range calls {
		if c.err != nil {
			return nil, explain(ctx, "list timers", c.err)
		}
		reply := c.list()
		for j := 0; j+1 < len(reply); j += 2 {
			owner, rest, _ := strings.Cut(reply.text(j+1), "\n")
			due, body, _ := strings.Cut(rest, "\n")
			at, err := strconv.ParseInt(due, 10, 64)
			if err != nil {
				return nil, fmt.Errorf("list timers of %s: one is due at %.20q", lanes[n], due)
			}
			timers = append(timers, Timer{Lane: lanes[n], ID: reply.text(j), Owner: owner, At: time.UnixMilli(at), Body: []byte(body)})
		}
	}
	slices.SortFunc(timers, func(a, b Timer) int { return a.At.Compare(b.At) })
	return timers, nil
}

// fire makes items of the timers that are due. What fails is due a second later.
func (i *Inbox) fire(ctx context.Context, due []string) {
	ctx, cancel := context.WithTimeout(ctx, i.r.cfg.Timeout)
	defer cancel()
	calls := make([]*call, 0, len(due))
	for _, name := range due {
		path, id, _ := strings.Cut(name, "\n")
		lane, err := parseLane(path)
		if err != nil {
			i.cfg.Log.Error().Err(err).Msg("a timer that is not the inbox's")
			continue
		}
		keys, part := lane.keys(), &i.parts[lane.key.partition]
		c := callOf(fireScript, "6", 9)
		c.args = append(c.args, lane.timersKey(), part.timers, keys.queue, part.depth, part.ready, part.leases, keys.lane, id, name)
		calls = append(calls, &c)
	}
	i.r.exec(ctx, calls)
	for _, c := range calls {
		if c.err != nil && !isUnavailable(c.err) {
			i.cfg.Log.Error().Err(c.err).Msg("a timer cannot become due")
		}
	}
}
