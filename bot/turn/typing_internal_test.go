package turn

// Inside the package: what typing and workers wait for cannot be seen from outside
// without waiting for real time.

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

func TestWorkersHaveLimitsAndAreFair(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorkers(1)
		if !w.tryEnter() || w.tryEnter() {
			t.Fatal("want one slot")
		}
		entered := false
		go func() {
			entered = w.enter(t.Context())
			w.leave()
		}()
		synctest.Wait()
		w.yield()
		if !entered {
			t.Error("who waited did not go first")
		}
		w.leave()
		if err := w.drain(t.Context()); err != nil {
			t.Error(err)
		}
		if w.tryEnter() || w.enter(t.Context()) {
			t.Error("entered after the drain")
		}
	})
}

func TestDrainCancelsAtTheEndOfItsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorkers(2)
		w.tryEnter()
		w.tryEnter()
		stuck := make(chan struct{})
		go func() {
			<-w.ctx.Done()
			w.leave()
		}()
		go func() {
			<-stuck
			w.leave()
		}()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		if err := w.drain(ctx); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, errStuck) {
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
	Channel // nil: nothing else is called

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

func (c *slowChannel) Identified() bool { return false }

func (*slowChannel) Delete(context.Context, activity.Reference, string, bool) error { return nil }

func (*slowChannel) Member(context.Context, activity.Reference, string) (activity.Account, error) {
	return activity.Account{}, nil
}

func (*slowChannel) CreateConversation(_ context.Context, in activity.Reference, _ string, _ *activity.Activity) (activity.Reference, error) {
	return in, nil
}

func (c *slowChannel) React(context.Context, activity.Reference, string, string, bool) error {
	return nil
}

func (c *slowChannel) Team(context.Context, activity.Reference, string) (connector.Team, error) {
	return connector.Team{}, nil
}

func typist(takes time.Duration) (*slowChannel, *Turn) {
	channel := &slowChannel{takes: takes, began: time.Now()}
	return channel, (&Engine{cfg: Config{Channel: channel}}).newTurn(&activity.Activity{Type: activity.Message, Text: "hi"})
}

// sayOne sends a reply as deliver does.
func sayOne(ctx context.Context, turn *Turn) error {
	defer turn.typing.hold()(typingAfter)
	_, err := transmit(ctx, turn, turn.Message("one"))
	return err
}

func TestTypingIsShownUntilTheTurnEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		channel, turn := typist(0)
		turn.typing = startTyping(t.Context(), turn)
		time.Sleep(7 * time.Second) // of the bubble
		if err := sayOne(t.Context(), turn); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		turn.typing.hold()(forever)
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
		if err := sayOne(t.Context(), turn); err != nil {
			t.Fatal(err)
		}
		turn.typing.hold()(forever)
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
		if err := sayOne(t.Context(), turn); err != nil {
			t.Fatal(err)
		}
		turn.typing.hold()(forever)
		time.Sleep(time.Minute)
		if want := []string{"typing 800ms", "message 1.1s"}; !slices.Equal(channel.arrived, want) {
			t.Errorf("arrived %v, want %v", channel.arrived, want)
		}
	})
}
