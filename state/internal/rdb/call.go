package rdb

import (
	"context"
	_ "embed" // docs.lua
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Partitions is part of every key and may never change: keys written under another number
// would not be found again.
const Partitions = 64

// Script is a Lua script.
type Script struct{ sha, text string }

// docsLua has the functions of scripts that write documents.
//
//go:embed docs.lua
var docsLua string

// NewScript joins docs.lua and the parts of a script.
func NewScript(parts ...string) *Script {
	text := docsLua + strings.Join(parts, "")
	return &Script{sha: redis.NewScript(text).Hash(), text: text}
}

// Text is the Lua code.
func (s *Script) Text() string { return s.text }

// Call is one command under way: a script's, or a plain one.
type Call struct {
	Err   error // why there is no reply
	Tries int   // how often it may have run
	Once  bool  // do not repeat it

	script     *Script
	whole      bool // the server does not know the script: it goes as text
	keys, args []any
	reply      *redis.Cmd
}

// Call starts a call of a script with keys, for more keys and arguments to be added.
func (s *Script) Call(keys ...string) *Call {
	return (&Call{script: s}).AddKeys(keys...)
}

// Plain is a call without a script.
func Plain(args ...any) *Call { return &Call{args: args} }

// AddKeys adds keys to a call of a script.
func (c *Call) AddKeys(keys ...string) *Call {
	for _, key := range keys {
		c.keys = append(c.keys, key)
	}
	return c
}

// Add adds arguments.
func (c *Call) Add(args ...any) *Call {
	c.args = append(c.args, args...)
	return c
}

// command is the call as go-redis sends it.
func (c *Call) command(ctx context.Context) *redis.Cmd {
	switch {
	case c.script == nil:
		return redis.NewCmd(ctx, c.args...)
	case c.whole:
		return redis.NewCmd(ctx, slices.Concat([]any{"eval", c.script.text, len(c.keys)}, c.keys, c.args)...)
	}
	return redis.NewCmd(ctx, slices.Concat([]any{"evalsha", c.script.sha, len(c.keys)}, c.keys, c.args)...)
}

// FirstErr is the first error of calls.
func FirstErr(calls []*Call) error {
	for _, c := range calls {
		if c.Err != nil {
			return c.Err
		}
	}
	return nil
}

// List is the reply of a call that returns one.
func (c *Call) List() Reply {
	l, _ := c.reply.Val().([]any)
	return l
}

// Int is the reply of a call that returns a number.
func (c *Call) Int() int64 {
	n, _ := c.reply.Val().(int64)
	return n
}

// Text is the reply of a call that returns a string.
func (c *Call) Text() string {
	text, _ := c.reply.Val().(string)
	return text
}

// Reply is a list, "" and 0 standing for what is not there.
type Reply []any

// Int is the i-th element, a number.
func (r Reply) Int(i int) int64 { return element[int64](r, i) }

// Text is the i-th element, a string.
func (r Reply) Text(i int) string { return element[string](r, i) }

// List is the i-th element, a list.
func (r Reply) List(i int) Reply { return element[[]any](r, i) }

// Has reports whether there is an i-th element that is not nil.
func (r Reply) Has(i int) bool { return element[any](r, i) != nil }

func element[T any](r Reply, i int) T {
	var value T
	if i < len(r) {
		value, _ = r[i].(T)
	}
	return value
}

// Texts is all of r.
func (r Reply) Texts() []string {
	texts := make([]string, len(r))
	for i := range r {
		texts[i] = r.Text(i)
	}
	return texts
}

// ErrUnavailable says that Redis could not be reached or cannot serve now.
var ErrUnavailable = errors.New("redis is unavailable")

// Explain wraps an error of the client for the caller: the caller's own ctx
// first, then what makes Redis unavailable, then anything else the server said.
func Explain(ctx context.Context, doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", doing, ctx.Err())
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		// The deadline was ours, not the caller's, who may test for his own.
		return fmt.Errorf("%s: %w: no answer in time", doing, ErrUnavailable)
	case redis.HasErrorPrefix(err, "MOVED"):
		return fmt.Errorf("%s: %w: %w (is this a cluster? then its URL starts with redis+cluster://)", doing, ErrUnavailable, err)
	case IsUnavailable(err):
		return fmt.Errorf("%s: %w: %w", doing, ErrUnavailable, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// notNow starts the answers of a server that is there and cannot serve us now.
var notNow = []string{
	"MOVED", "ASK", "LOADING", "READONLY", "CLUSTERDOWN", "TRYAGAIN", "MASTERDOWN", "NOREPLICAS", "MISCONF", "OOM",
	"BUSY", "NOAUTH", "WRONGPASS", "NOPERM", "AUTH", "max number of clients", "max clients",
	"This instance has cluster support disabled",
}

// IsUnavailable reports whether trying again may help. Everything that is not an answer is the network's or the
// client's, and so is the nil of a sentinel that knows no such server; among
// the answers, those of a server that cannot serve now.
func IsUnavailable(err error) bool {
	var answer redis.Error
	if !errors.As(err, &answer) || errors.Is(err, redis.Nil) {
		return true
	}
	text := strings.TrimPrefix(answer.Error(), "ERR ")
	if _, within, ok := strings.Cut(text, ": -"); ok && strings.HasPrefix(text, "Error running script") {
		text = within // Redis before 7 puts a text of its own around what a script's command was answered
	}
	return slices.ContainsFunc(notNow, func(p string) bool { return strings.HasPrefix(text, p) })
}

// IsWrongType reports whether the key holds something else than the command is for.
func IsWrongType(err error) bool { return redis.HasErrorPrefix(err, "WRONGTYPE") }
