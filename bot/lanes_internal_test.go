package bot

// Inside the package: lanes and typing are parts whose timing cannot be seen
// from outside without waiting for real time.

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/connector"
)

func TestLanesKeepOrderAndAreFair(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLanes(limits{running: 1, waiting: 100, perLane: 100})
		var order []string // one job runs at a time
		begin := make(chan struct{})
		add := func(key, name string) {
			err := l.add(key, func(context.Context) {
				<-begin
				order = append(order, name)
			})
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		for _, name := range []string{"a1", "a2", "a3", "a4"} {
			add("a", name)
		}
		add("b", "b1")
		close(begin)
		if err := l.drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if want := []string{"a1", "b1", "a2", "a3", "a4"}; !slices.Equal(order, want) {
			t.Errorf("order %v, want %v", order, want)
		}
	})
}

func TestLanesHaveLimits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLanes(limits{running: 1, waiting: 3, perLane: 2})
		release := make(chan struct{})
		block := func(context.Context) { <-release }
		add := func(key string, want error) {
			t.Helper()
			if err := l.add(key, block); !errors.Is(err, want) {
				t.Errorf("lane %s: %v, want %v", key, err, want)
			}
			synctest.Wait()
		}
		add("a", nil) // runs
		add("a", nil)
		add("a", nil)
		add("a", errBusy) // two of this lane wait
		add("b", nil)
		add("c", errBusy) // three wait in all
		close(release)
		synctest.Wait()
		add("c", nil) // and now there is room again
		if err := l.drain(t.Context()); err != nil {
			t.Error(err)
		}
		add("c", errDraining)
	})
}

func TestDrainCancelsAtTheEndOfItsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLanes(limits{running: 10, waiting: 10, perLane: 10})
		stuck := make(chan struct{})
		must := func(key string, job func(context.Context)) {
			t.Helper()
			if err := l.add(key, job); err != nil {
				t.Fatal(err)
			}
		}
		must("obeys", func(ctx context.Context) { <-ctx.Done() })
		must("stuck", func(context.Context) { <-stuck })
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		if err := l.drain(ctx); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, errStuck) {
			t.Errorf("drain: %v", err)
		}
		if took := time.Since(began); took != time.Minute+cutOffGrace {
			t.Errorf("drain took %v", took)
		}
		close(stuck)
	})
}

// slowChannel takes its time to send, and notes when what arrived.
type slowChannel struct {
	takes   time.Duration
	began   time.Time
	arrived []string
	mu      sync.Mutex
}

func (c *slowChannel) Send(ctx context.Context, _ activity.Reference, a *activity.Activity) (string, error) {
	select {
	case <-time.After(c.takes):
	case <-ctx.Done():
		return "", ctx.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.arrived = append(c.arrived, string(a.Type)+" "+time.Since(c.began).String())
	return "", nil
}

func (c *slowChannel) Reply(ctx context.Context, to activity.Reference, _ string, a *activity.Activity) (string, error) {
	return c.Send(ctx, to, a)
}

func (*slowChannel) Update(context.Context, activity.Reference, string, *activity.Activity) error {
	return nil
}

func (c *slowChannel) Team(context.Context, activity.Reference, string) (connector.Team, error) {
	return connector.Team{}, nil
}

func typist(takes time.Duration) (*slowChannel, *Turn) {
	channel := &slowChannel{takes: takes, began: time.Now()}
	return channel, (&Bot{cfg: Config{Channel: channel}}).newTurn(&activity.Activity{Type: activity.Message, Text: "hi"})
}

func TestTypingIsShownUntilTheTurnEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		channel, turn := typist(0)
		turn.typing = startTyping(t.Context(), turn)
		time.Sleep(7 * time.Second) // of the bubble
		if err := turn.deliver(t.Context(), turn.message("one")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		turn.typing.stop()
		time.Sleep(time.Minute)
		want := []string{"typing 500ms", "typing 3.5s", "typing 6.5s", "message 7s", "typing 7.5s"}
		if !slices.Equal(channel.arrived, want) {
			t.Errorf("arrived %v, want %v", channel.arrived, want)
		}
	})
}

func TestNoTypingForAQuickReply(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		channel, turn := typist(0)
		turn.typing = startTyping(t.Context(), turn)
		time.Sleep(400 * time.Millisecond)
		if err := turn.deliver(t.Context(), turn.message("one")); err != nil {
			t.Fatal(err)
		}
		turn.typing.stop()
		time.Sleep(time.Minute)
		if want := []string{"message 400ms"}; !slices.Equal(channel.arrived, want) {
			t.Errorf("arrived %v, want %v", channel.arrived, want)
		}
	})
}

// TestNoTypingAfterItsReply has the reply ready while an indicator is on its way.
func TestNoTypingAfterItsReply(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		channel, turn := typist(300 * time.Millisecond)
		turn.typing = startTyping(t.Context(), turn)
		time.Sleep(600 * time.Millisecond)
		if err := turn.deliver(t.Context(), turn.message("one")); err != nil {
			t.Fatal(err)
		}
		turn.typing.stop()
		time.Sleep(time.Minute)
		if want := []string{"typing 800ms", "message 1.1s"}; !slices.Equal(channel.arrived, want) {
			t.Errorf("arrived %v, want %v", channel.arrived, want)
		}
	})
}
