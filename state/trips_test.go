package state_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/planbot-go/planbot/state"
)

// tripsAtOnce is how many round trips rdb has under way at most.
const tripsAtOnce = 4

// gate is a hook that keeps trips until they are let through, and counts their
// commands.
type gate struct {
	through chan struct{}
	mu      sync.Mutex
	trips   []int
}

func (g *gate) DialHook(next redis.DialHook) redis.DialHook {
	return next
}

func (g *gate) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() != "hello" { // by which each new connection begins
			g.hold(1)
		}
		return next(ctx, cmd)
	}
}

func (g *gate) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		g.hold(len(cmds))
		return next(ctx, cmds)
	}
}

func (g *gate) hold(commands int) {
	g.mu.Lock()
	g.trips = append(g.trips, commands)
	g.mu.Unlock()
	<-g.through
}

func (g *gate) seen() []int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.trips
}

// inGroups opens a Redis whose trips wait, with as many under way as go at once.
func inGroups(t *testing.T) (*state.Store, *gate, *sync.WaitGroup) {
	t.Helper()
	r, err := state.Open(t.Context(), "", state.Config{})
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{through: make(chan struct{})}
	r.AddHook(g)
	var first sync.WaitGroup
	for i := range tripsAtOnce {
		first.Go(func() {
			_, _ = r.Load(t.Context(), groupKey(i)) // of a closed one, in one test
		})
		synctest.Wait() // else two could share a trip
	}
	return r, g, &first
}

func groupKey(i int) state.Key { return state.ConversationKey("c", "b", fmt.Sprint(i)) }

func TestCallersGoTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, g, first := inGroups(t)
		defer r.Close()
		for i := range 10 {
			first.Go(func() { count(t, r, i) })
		}
		synctest.Wait()
		if trips := g.seen(); len(trips) != tripsAtOnce {
			t.Fatalf("%d trips are under way: %v", len(trips), trips)
		}
		g.through <- struct{}{} // one alone, else several share what waits
		synctest.Wait()
		if trips := g.seen()[tripsAtOnce:]; len(trips) != 1 || trips[0] != 20 {
			t.Errorf("those that waited went in trips of %v commands, want one of 20", trips)
		}
		close(g.through)
		first.Wait()
		for i := range 10 {
			if got := state.Of[Counter](load(t, r, groupKey(100+i))).N; got != i+1 {
				t.Errorf("counter %d is %d", i, got)
			}
		}
	})
}

// count loads two documents, and saves one with a number of its own.
func count(t *testing.T, r *state.Store, i int) {
	scopes, err := r.Load(t.Context(), groupKey(100+i), groupKey(200+i))
	if err != nil {
		t.Error(err)
		return
	}
	state.Of[Counter](scopes[0]).N = i + 1
	if err := r.Save(t.Context(), scopes...); err != nil {
		t.Error(err)
	}
}

func TestWhoLeavesIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, g, first := inGroups(t)
		defer r.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := r.Load(ctx, groupKey(100)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("load: %v", err)
		}
		close(g.through)
		first.Wait()
		synctest.Wait()
		if trips := g.seen(); len(trips) != tripsAtOnce {
			t.Errorf("the command of who left was sent: %v", trips)
		}
	})
}

func TestCloseEndsWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, g, first := inGroups(t)
		waiting := make(chan error)
		go func() {
			_, err := r.Load(t.Context(), groupKey(100))
			waiting <- err
		}()
		synctest.Wait()
		first.Go(func() {
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		})
		if err := <-waiting; !errors.Is(err, state.ErrUnavailable) {
			t.Errorf("load: %v", err)
		}
		close(g.through)
		first.Wait()
	})
}
