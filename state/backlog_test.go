package state_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/planbot-go/planbot/state"
)

// crowd accepts n entries at once, each in a lane of its own, and returns the holds of
// those that were taken.
func crowd(t *testing.T, in *state.Inbox, n int, name string) []*state.Hold {
	t.Helper()
	var mu sync.Mutex
	var holds []*state.Hold
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			e := entry("x")
			e.Lane = state.ConversationKey("test", "bot", fmt.Sprint(name, i)).Lane("")
			receipt, err := in.Accept(t.Context(), e)
			if err != nil && !errors.Is(err, state.ErrFull) {
				t.Error(err)
			}
			if err == nil {
				mu.Lock()
				defer mu.Unlock()
				holds = append(holds, receipt.Hold)
			}
		})
	}
	all.Wait()
	return holds
}

// TestMaxWaitingIsExactForOneInbox, whatever comes at once and however often it is counted
// meanwhile.
func TestMaxWaitingIsExactForOneInbox(t *testing.T) {
	t.Parallel()
	in := openInbox(t, openEmbedded(t, state.Config{}), state.InboxConfig{MaxWaiting: 12, Lease: 240 * time.Millisecond})
	runInbox(t, in, func(state.Lane) {})
	holds := crowd(t, in, 80, "first")
	if len(holds) != 12 {
		t.Fatalf("%d of 80 were taken", len(holds))
	}
	for round := range 60 {
		if got := in.Stats().Waiting; got != 12 {
			t.Errorf("%d wait", got)
		}
		var ending sync.WaitGroup
		for _, h := range holds[:5] {
			ending.Go(func() {
				if _, err := h.Finish(t.Context(), nil); err != nil {
					t.Error(err)
				}
			})
		}
		ending.Wait()
		more := crowd(t, in, 20, fmt.Sprint("round ", round, " "))
		if len(more) != 5 {
			t.Fatalf("%d were taken into the room for 5", len(more))
		}
		holds = append(holds[5:], more...)
	}
}

// TestWhatOthersDoIsCounted soon.
func TestWhatOthersDoIsCounted(t *testing.T) {
	t.Parallel()
	r := openEmbedded(t, state.Config{})
	in, other := openInbox(t, r, state.InboxConfig{MaxWaiting: 3}), openInbox(t, r, state.InboxConfig{})
	runInbox(t, in, func(state.Lane) {})
	mine := crowd(t, in, 1, "mine")
	theirs := crowd(t, other, 2, "theirs")
	pollUntil(t, "the count", func() bool { return in.Stats().Waiting == 3 })
	if more := crowd(t, in, 5, "more"); len(more) > 0 {
		t.Errorf("%d more were taken", len(more))
	}
	for _, h := range append(theirs, mine...) {
		finish(t, h, false)
	}
	pollUntil(t, "the count", func() bool { return in.Stats().Waiting == 0 })
	if more := crowd(t, in, 5, "again"); len(more) != 3 {
		t.Errorf("%d were taken", len(more))
	}
}
