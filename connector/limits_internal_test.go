package connector

// These tests are inside the package to see what the limits keep in memory, and to go past the client.

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestLimitsForgetIdleConversations, but none that has used its limits.
func TestLimitsForgetIdleConversations(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLimits()
		send := func(conversation string) {
			if err := l.wait(t.Context(), "send", usage{conversation: conversation, tenant: "t" + conversation}); err != nil {
				t.Fatal(err)
			}
		}
		for n := range 10_000 {
			send(strconv.Itoa(n))
		}
		for range 40 { // half a minute of them
			send("busy")
		}
		time.Sleep(sweepPause - 30*time.Second)
		send("last")
		if l.limiters["conversation 0"] != nil || l.limiters["tenant t0"] != nil {
			t.Error("an idle conversation is remembered")
		}
		if l.limiters["conversation busy"] == nil {
			t.Error("a busy conversation was forgotten")
		}
		time.Sleep(3 * time.Minute)
		send("last")
		if n := len(l.limiters); n != 2 {
			t.Errorf("%d limiters are kept, want those of the last conversation and its tenant", n)
		}
	})
}

// TestWhoIsHeldBackTakesNothing, however many are.
func TestWhoIsHeldBackTakesNothing(t *testing.T) {
	t.Parallel()
	l := newLimits()
	ctx, cancel := context.WithTimeout(t.Context(), 0) // nobody may wait
	defer cancel()
	var wg sync.WaitGroup
	for range 500 {
		wg.Go(func() { _ = l.wait(ctx, "send", usage{conversation: "busy"}) })
	}
	wg.Wait()
	var e *Error
	if err := l.wait(ctx, "send", usage{conversation: "busy"}); !errors.As(err, &e) || e.RetryAfter > 2*time.Second {
		t.Errorf("err = %v, want one that names a moment within two seconds", err)
	}
}
