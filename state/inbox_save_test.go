package state_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/state"
)

// split is a network of which a part of the keys is cut off.
type split struct {
	behind atomic.Pointer[string] // part of their names
}

func (s *split) cut(part string) { s.behind.Store(&part) }

func (s *split) DialHook(next redis.DialHook) redis.DialHook { return next }

func (s *split) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return s.run([]redis.Cmder{cmd}, func([]redis.Cmder) error { return next(ctx, cmd) })
	}
}

func (s *split) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return s.run(cmds, func(some []redis.Cmder) error { return next(ctx, some) })
	}
}

func (s *split) run(cmds []redis.Cmder, next func([]redis.Cmder) error) error {
	var here, there []redis.Cmder
	for _, cmd := range cmds {
		if at := s.behind.Load(); at != nil && names(cmd, *at) {
			there = append(there, cmd)
		} else {
			here = append(here, cmd)
		}
	}
	var err error
	if len(here) > 0 {
		err = next(here)
	}
	for _, cmd := range there {
		err = io.ErrUnexpectedEOF
		cmd.SetErr(err)
	}
	return err
}

// names reports whether a command has a key with that part.
func names(cmd redis.Cmder, part string) bool {
	return slices.ContainsFunc(cmd.Args(), func(arg any) bool {
		text, _ := arg.(string)
		return strings.HasPrefix(text, "planbot/") && strings.Contains(text, part)
	})
}

var person = state.UserKey("test", "bot", "another partition")

// partOf is the part of a key that all keys of its partition share.
func partOf(key state.Key) string {
	name := key.String()
	return name[strings.Index(name, "{") : strings.Index(name, "}")+1]
}

// The step that ends a turn happened, and what goes with it in another partition did
// not: Finish says that it happened, so that nobody ends the next turn instead.
func TestFinishIsDone(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(t *testing.T, r *state.Redis, net *split, s *state.Scope){
		"no answer about a change": func(_ *testing.T, _ *state.Redis, net *split, s *state.Scope) {
			state.Of[Counter](s).N = 2
			net.cut(partOf(person))
		},
		"no answer about a use": func(_ *testing.T, _ *state.Redis, net *split, _ *state.Scope) {
			time.Sleep(50 * time.Second)
			net.cut(partOf(person))
		},
		"a conflict": func(t *testing.T, r *state.Redis, _ *split, s *state.Scope) {
			state.Of[Counter](s).N = 2
			put(t, r, person, 3)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := openEmbedded(t, state.Config{TTL: 100 * time.Second})
				put(t, r, person, 1)
				net := &split{}
				twin := r.Twin(t)
				twin.AddHook(net)
				var log strings.Builder
				in := openInbox(t, twin, state.InboxConfig{Log: zerolog.New(&log)})
				e := entry("1")
				e.Load = []state.Key{key, person}
				receipt := accept(t, in, e)
				accept(t, in, entry("2"))
				state.Of[Counter](receipt.Scopes[0]).N = 7
				test(t, r, net, receipt.Scopes[1])
				more, err := receipt.Hold.Finish(t.Context(), []byte("answer"), receipt.Scopes...)
				if !more || err != nil {
					t.Fatalf("finish: %v, %v", more, err)
				}
				wantBody(t, receipt.Hold, "2")
				if !strings.Contains(log.String(), e.Turn) {
					t.Errorf("the operator reads %q", log.String())
				}
				finish(t, receipt.Hold, false)
				if answer, err := in.Answer(t.Context(), lane, e.Turn); string(answer) != "answer" || err != nil {
					t.Errorf("answer %q, %v", answer, err)
				}
				if n := state.Of[Counter](load(t, r, key)).N; n != 7 {
					t.Errorf("n = %d", n)
				}
			})
		})
	}
}

// A person's document is never written for a lane whose own step was not done.
func TestSaveBehindTheLane(t *testing.T) {
	t.Parallel()
	for kind, open := range map[string]func(t *testing.T) *state.Redis{
		"embedded": func(t *testing.T) *state.Redis { return openEmbedded(t, state.Config{}) },
		"cluster": func(t *testing.T) *state.Redis {
			return openURL(t, "redis+cluster://"+miniredis.RunT(t).Addr(), state.Config{})
		},
	} {
		for name, test := range map[string]func(t *testing.T, r *state.Redis, net *split){
			"no answer":  func(_ *testing.T, _ *state.Redis, net *split) { net.cut(partOf(key)) },
			"a conflict": func(t *testing.T, r *state.Redis, _ *split) { put(t, r, key, 1) },
			"the lane is another's": func(t *testing.T, r *state.Redis, _ *split) {
				if err := r.Client().HSet(t.Context(), lane.String()+"/lease", "fence", "0").Err(); err != nil {
					t.Fatal(err)
				}
			},
		} {
			t.Run(kind+" and "+name, func(t *testing.T) {
				t.Parallel()
				saveBehind(t, open(t), test)
			})
		}
	}
}

func saveBehind(t *testing.T, r *state.Redis, test func(t *testing.T, r *state.Redis, net *split)) {
	net := &split{}
	r.AddHook(net)
	in := openInbox(t, r, state.InboxConfig{Patience: 2 * time.Second}) // on a busy machine, too
	e := entry("hello")
	e.Load = []state.Key{key, person}
	receipt := accept(t, in, e)
	for _, s := range receipt.Scopes {
		state.Of[Counter](s).N = 7
	}
	test(t, r, net)
	err := receipt.Hold.Save(t.Context(), []byte("journal"), receipt.Scopes...)
	var lost *state.ConflictError
	if err == nil || errors.As(err, &lost) && (len(lost.Saved) > 0 || len(lost.Conflicted) != 1) {
		t.Fatalf("save: %v", err)
	}
	if n := state.Of[Counter](load(t, r, person)).N; n != 0 {
		t.Errorf("after %v the person's n is %d", err, n)
	}
	if !errors.Is(err, state.ErrUnavailable) {
		return
	}
	net.cut("nothing")
	if err := receipt.Hold.Save(t.Context(), []byte("journal"), receipt.Scopes...); err != nil {
		t.Fatal(err)
	}
	if n := state.Of[Counter](load(t, r, person)).N; n != 7 {
		t.Errorf("after a save that was tried again the person's n is %d", n)
	}
	finish(t, receipt.Hold, false)
}
