package state

import (
	"context"
	"strings"

	"github.com/redis/go-redis/v9"
)

// script is a Lua script in the form that calls of it need.
type script struct{ sha, text any }

// newScript joins the parts of a script.
func newScript(parts ...string) *script {
	text := strings.Join(parts, "")
	return &script{sha: redis.NewScript(text).Hash(), text: text}
}

// call is one command under way: a script's, or a plain one.
type call struct {
	script *script
	args   []any // of a script, its name comes with exec
	reply  *redis.Cmd
	err    error // why there is no reply
	tries  int   // how often it may have run
	once   bool  // do not retry
}

// callOf starts a call of a script with n keys, for keys and arguments to be appended.
func callOf(s *script, n string, room int) call {
	args := make([]any, 3, 3+room)
	args[0], args[1], args[2] = "evalsha", s.sha, n
	return call{script: s, args: args}
}

// plain is a call without a script.
func plain(args ...any) call { return call{args: args} }

// exec runs calls in one round trip, and those that met a server which does not
// know their script, with what follows them, in another one with its text: it
// ran nothing there. Each then has a reply or an err.
func (r *Redis) exec(ctx context.Context, calls []*call) {
	for len(calls) > 0 {
		r.trip(ctx, calls)
		calls = unknown(calls)
	}
}

func (r *Redis) trip(ctx context.Context, calls []*call) {
	cmds := make([]redis.Cmder, len(calls))
	for i, c := range calls {
		c.reply = redis.NewCmd(ctx, c.args...)
		cmds[i] = c.reply
		c.tries++
	}
	left, err := r.together.send(ctx, cmds)
	for _, c := range calls {
		if left {
			c.reply = redis.NewCmd(ctx) // the other one may still be written to
		}
		c.err = replyError(c.reply, err)
	}
}

// unknown is the rest of calls from the first whose script the server lacked. A
// call that was made with the text does not come back.
func unknown(calls []*call) []*call {
	for i, c := range calls {
		if c.script == nil || !isNoScript(c.err) || c.args[0] == any("eval") {
			continue
		}
		for _, c := range calls[i:] {
			if c.script != nil && isNoScript(c.err) {
				c.args[0], c.args[1] = "eval", c.script.text
				c.tries-- // it ran nothing
			}
		}
		return calls[i:]
	}
	return nil
}

// list is the reply of a script that returns one, "" and 0 standing for what is
// not there.
type list []any

func (c *call) list() list {
	l, _ := c.reply.Val().([]any)
	return l
}

func (l list) int(i int) int64 {
	if i >= len(l) {
		return 0
	}
	n, _ := l[i].(int64)
	return n
}

func (l list) text(i int) string {
	if i >= len(l) {
		return ""
	}
	s, _ := l[i].(string)
	return s
}

func (l list) list(i int) list {
	if i >= len(l) {
		return nil
	}
	inner, _ := l[i].([]any)
	return inner
}

// texts is all of l.
func (l list) texts() []string {
	texts := make([]string, len(l))
	for i := range l {
		texts[i] = l.text(i)
	}
	return texts
}

// ints is l from its i-th element on.
func (l list) ints(i int) []int64 {
	var ns []int64
	for ; i < len(l); i++ {
		ns = append(ns, l.int(i))
	}
	return ns
}
