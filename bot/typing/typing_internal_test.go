package typing

// Inside the package: what an indicator waits for cannot be seen from outside without waiting for real time.

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot/turn"
)

// slowChannel takes its time to send, and notes when what arrived.
type slowChannel struct {
	turn.Channel // nil: nothing else is called

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

// begin starts an indicator on a channel that takes that long.
func begin(t *testing.T, takes time.Duration) (*slowChannel, *indicator) {
	channel := &slowChannel{takes: takes, began: time.Now()}
	return channel, start(t.Context(), &activity.Activity{Type: activity.Message, Text: "hi"}, channel, "")
}

// sayOne sends a reply as a turn does.
func sayOne(ctx context.Context, channel *slowChannel, i *indicator) error {
	defer i.hold()(after)
	_, err := channel.Send(ctx, activity.Reference{}, &activity.Activity{Type: activity.Message})
	return err
}

func TestTypingIsShownUntilTheTurnEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		channel, i := begin(t, 0)
		time.Sleep(7 * time.Second) // of the bubble
		if err := sayOne(t.Context(), channel, i); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		i.hold()(forever)
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
		channel, i := begin(t, 0)
		time.Sleep(400 * time.Millisecond)
		if err := sayOne(t.Context(), channel, i); err != nil {
			t.Fatal(err)
		}
		i.hold()(forever)
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
		channel, i := begin(t, 300*time.Millisecond)
		time.Sleep(600 * time.Millisecond)
		if err := sayOne(t.Context(), channel, i); err != nil {
			t.Fatal(err)
		}
		i.hold()(forever)
		time.Sleep(time.Minute)
		if want := []string{"typing 800ms", "message 1.1s"}; !slices.Equal(channel.arrived, want) {
			t.Errorf("arrived %v, want %v", channel.arrived, want)
		}
	})
}
