package state

import (
	"context"
	_ "embed" // the scripts
	"fmt"
	"slices"
)

var (
	//go:embed join.lua
	joinLua string

	//go:embed move.lua
	moveLua string
)

var (
	joinScript = newScript(joinLua)
	moveScript = newScript(moveLua)
)

// setBatch is how many members of a set are handed out at a time.
const setBatch = 100

// Join puts member into a set. A set is for what many turns note at the same time: it
// has no version, so nobody loses a race for it, and no limit. It expires
// [Config.TTL] after the last Join. Make its key with [Key.Under]; no document may
// use the same key.
func (i *Inbox) Join(ctx context.Context, set Key, member string) error {
	if err := set.Err(); err != nil {
		return fmt.Errorf("join a set: %w", err)
	}
	c := i.joinCall(set, member)
	_, err := i.count(ctx, "join a set", &c)
	return err
}

// joinCall makes the KEYS and ARGV of join.lua.
func (i *Inbox) joinCall(set Key, member string) call {
	c := callOf(joinScript, "1", 3)
	c.args = append(c.args, set.name, member, i.r.cfg.TTL.Milliseconds())
	return c
}

// Leave takes member out of a set. One that is not there is no error.
func (i *Inbox) Leave(ctx context.Context, set Key, member string) error {
	if err := set.Err(); err != nil {
		return fmt.Errorf("leave a set: %w", err)
	}
	return i.leave(ctx, set.name, []string{member})
}

func (i *Inbox) leave(ctx context.Context, name string, members []string) error {
	c := plain("srem", name)
	for _, member := range members {
		c.args = append(c.args, member)
	}
	_, err := i.count(ctx, "leave a set", &c)
	return err
}

// Members hands the members of a set to each, about a hundred at a time and maybe twice,
// until each returns an error.
func (i *Inbox) Members(ctx context.Context, set Key, each func(members []string) error) error {
	if err := set.Err(); err != nil {
		return fmt.Errorf("read a set: %w", err)
	}
	for _, name := range []string{set.name, set.aside()} {
		for cursor := "0"; ; {
			c := plain("sscan", name, cursor, "count", setBatch)
			if err := i.do(ctx, "read a set", &c); err != nil {
				return err
			}
			if isWrongType(c.err) {
				break // no set, so it has no members
			}
			if c.err != nil {
				return explain(ctx, "read a set", c.err)
			}
			reply := c.list()
			if err := each(reply.list(1).texts()); err != nil {
				return err
			}
			if cursor = reply.text(0); cursor == "0" {
				break
			}
		}
	}
	return nil
}

// Drain empties a set: it hands the members to each, a hundred at a time, and takes out
// those that each returns as done. A member that joins while it is with each is in the
// set afterwards, and so is one that is not done. When each fails, which ends the Drain,
// or the process ends, no member is lost: the next Drain has them all.
func (i *Inbox) Drain(ctx context.Context, set Key, each func(members []string) (done []string, err error)) error {
	if err := set.Err(); err != nil {
		return fmt.Errorf("drain a set: %w", err)
	}
	for { // what an earlier Drain was at when it ended
		if members, err := i.move(ctx, set.aside(), set.name); err != nil {
			return err
		} else if len(members) == 0 {
			break
		}
	}
	var left []string
	for {
		members, err := i.move(ctx, set.name, set.aside())
		if err != nil {
			return err
		}
		if len(members) == 0 {
			break
		}
		done, err := each(members)
		if err != nil {
			return err
		}
		if len(done) > 0 {
			if err := i.leave(ctx, set.aside(), done); err != nil {
				return err
			}
		}
		left = append(left, slices.DeleteFunc(members, func(member string) bool { return slices.Contains(done, member) })...)
	}
	for _, member := range left {
		if err := i.Join(ctx, set, member); err != nil {
			return err
		}
		if err := i.leave(ctx, set.aside(), []string{member}); err != nil {
			return err
		}
	}
	return nil
}

// aside is where the members are that Drain has handed out.
func (k Key) aside() string { return k.name + "/aside" }

// move moves some members from one set to another. A key that holds something
// other than a set is deleted: nothing could be added to it.
func (i *Inbox) move(ctx context.Context, from, to string) ([]string, error) {
	some := plain("srandmember", from, setBatch)
	if err := i.do(ctx, "read a set", &some); err != nil {
		return nil, err
	}
	if isWrongType(some.err) {
		gone := plain("del", from)
		_, err := i.count(ctx, "delete what is no set", &gone)
		return nil, err
	}
	if some.err != nil {
		return nil, explain(ctx, "read a set", some.err)
	}
	members := some.list().texts()
	if len(members) == 0 {
		return nil, nil
	}
	c := callOf(moveScript, "2", 3+len(members))
	c.args = append(c.args, from, to, i.r.cfg.TTL.Milliseconds())
	for _, member := range members {
		c.args = append(c.args, member)
	}
	_, err := i.count(ctx, "move members of a set", &c)
	return members, err
}

// Queued returns how many items a lane has, the one at work among them.
func (i *Inbox) Queued(ctx context.Context, lane Lane) (int, error) {
	if err := lane.key.Err(); err != nil {
		return 0, fmt.Errorf("count a lane: %w", err)
	}
	c := plain("llen", lane.keys().queue)
	return i.count(ctx, "count a lane", &c)
}
