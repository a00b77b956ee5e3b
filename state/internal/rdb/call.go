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

// Partitions is part of every key and must never change: keys written under another number would
// not be found again.
const Partitions = 64

// Script is a Lua script that includes docs.lua.
type Script struct{ sha, text string }

// docsLua has the functions of scripts that write documents.
//
//go:embed docs.lua
var docsLua string

// NewScript concatenates docs.lua and the parts of a script.
func NewScript(parts ...string) *Script {
	text := docsLua + strings.Join(parts, "")
	return &Script{sha: redis.NewScript(text).Hash(), text: text}
}

// Text is the Lua code.
func (s *Script) Text() string { return s.text }

// Call is one command to send: a script or a plain command.
type Call struct {
	Err   error // why there is no reply
	Tries int   // how often it may have run
	Once  bool  // do not retry just because it got no reply

	script     *Script
	whole      bool // the server does not know the script: send its text
	keys, args []any
	reply      any
}

// Call starts a call of a script with these keys. More keys and arguments can be added.
func (s *Script) Call(keys ...string) *Call {
	return (&Call{script: s}).AddKeys(keys...)
}

// CallWith is [Script.Call] with keys that many calls have. It does not keep them.
func (s *Script) CallWith(keys []any) *Call {
	return &Call{script: s, keys: append(make([]any, 0, len(keys)+moreKeys), keys...), args: make([]any, 0, usualArgs)}
}

const moreKeys, usualArgs = 3, 14

// Plain makes a call of a plain command.
func Plain(args ...any) *Call { return &Call{args: args} }

// AddKeys adds keys to a script call.
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

func commandOf(ctx context.Context, c *Call) *redis.Cmd {
	switch {
	case c.script == nil:
		return redis.NewCmd(ctx, c.args...)
	case c.whole:
		return redis.NewCmd(ctx, slices.Concat([]any{"eval", c.script.text, len(c.keys)}, c.keys, c.args)...)
	}
	return redis.NewCmd(ctx, slices.Concat([]any{"evalsha", c.script.sha, len(c.keys)}, c.keys, c.args)...)
}

// FirstErr returns the first error among calls.
func FirstErr(calls []*Call) error {
	for _, c := range calls {
		if c.Err != nil {
			return c.Err
		}
	}
	return nil
}

// List is the reply as a list.
func (c *Call) List() Reply {
	l, _ := c.reply.([]any)
	return l
}

// Int is the reply as a number.
func (c *Call) Int() int64 {
	n, _ := c.reply.(int64)
	return n
}

// Text is the reply as a string.
func (c *Call) Text() string {
	text, _ := c.reply.(string)
	return text
}

// Reply is a list. Missing elements read as "" or 0.
type Reply []any

// Int returns the i-th element as a number.
func (r Reply) Int(i int) int64 { return element[int64](r, i) }

// Text returns the i-th element as a string.
func (r Reply) Text(i int) string { return element[string](r, i) }

// List returns the i-th element as a list.
func (r Reply) List(i int) Reply { return element[[]any](r, i) }

// Has reports whether r has an i-th element that is not nil.
func (r Reply) Has(i int) bool { return element[any](r, i) != nil }

func element[T any](r Reply, i int) T {
	var value T
	if i < len(r) {
		value, _ = r[i].(T)
	}
	return value
}

// Texts returns all elements as strings.
func (r Reply) Texts() []string {
	texts := make([]string, len(r))
	for i := range r {
		texts[i] = r.Text(i)
	}
	return texts
}

// ErrUnavailable says that Redis cannot be reached or cannot serve now.
var ErrUnavailable = errors.New("redis is unavailable")

// Explain wraps a client error for the caller. It checks the caller's ctx first, then whether Redis
// is unavailable; any other error is an answer of the server.
func Explain(ctx context.Context, doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", doing, ctx.Err())
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		// Our deadline expired, not the caller's, so do not wrap it: the caller may test for his
		// own.
		return fmt.Errorf("%s: %w: no answer in time", doing, ErrUnavailable)
	case redis.HasErrorPrefix(err, "MOVED"):
		return fmt.Errorf("%s: %w: %w (is this a cluster? then its URL starts with redis+cluster://)", doing, ErrUnavailable, err)
	case strings.Contains(err.Error(), "OOM command"):
		return fmt.Errorf("%s: %w: %w (Redis is full: raise its maxmemory, or free memory)", doing, ErrUnavailable, err)
	case IsUnavailable(err):
		return fmt.Errorf("%s: %w: %w", doing, ErrUnavailable, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// notNow lists how a server's answers start when it is up but cannot serve now.
var notNow = []string{
	"MOVED", "ASK", "LOADING", "READONLY", "CLUSTERDOWN", "TRYAGAIN", "MASTERDOWN", "NOREPLICAS", "MISCONF", "OOM",
	"BUSY", "NOAUTH", "WRONGPASS", "NOPERM", "AUTH", "max number of clients", "max clients",
	"This instance has cluster support disabled",
}

// IsUnavailable reports whether a retry may help. Anything that is not an answer comes from the
// network or the client and counts as unavailable. So does the nil of a sentinel that does not know
// the server. An answer counts if the server says it cannot serve now.
func IsUnavailable(err error) bool {
	var answer redis.Error
	if !errors.As(err, &answer) || errors.Is(err, redis.Nil) {
		return true
	}
	text := strings.TrimPrefix(answer.Error(), "ERR ")
	if _, within, ok := strings.Cut(text, ": -"); ok && strings.HasPrefix(text, "Error running script") {
		text = within // Redis before 7 wraps the error of a command inside a script in its own text
	}
	return slices.ContainsFunc(notNow, func(p string) bool { return strings.HasPrefix(text, p) })
}

// IsWrongType reports whether the key holds a type that the command does not work on.
func IsWrongType(err error) bool { return redis.HasErrorPrefix(err, "WRONGTYPE") }
