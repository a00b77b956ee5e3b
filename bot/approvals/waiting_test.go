package approvals // lists what no turn asked

import (
	"fmt"
	"testing"
	"time"

	"github.com/planbot-go/planbot/bot/turn"
	"github.com/planbot-go/planbot/state"
)

// TestCountingChangesNothing: what expired is not counted, and stays until somebody asks for an approval.
func TestCountingChangesNothing(t *testing.T) {
	t.Parallel()
	store, err := state.Open(t.Context(), "", state.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	members := func() (n int) {
		err := store.Members(t.Context(), waitingSet(), func(some []string) error {
			n += len(some)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for id, at := range map[string]time.Time{"over": time.Now().Add(-time.Hour), "waits": time.Now().Add(time.Hour)} {
		if err := store.Join(t.Context(), waitingSet(), fmt.Sprint(at.Unix(), " ", id, " ", at.Unix()-7200)); err != nil {
			t.Fatal(err)
		}
	}
	n, since, err := Waiting(t.Context(), store)
	if age := time.Since(since).Round(time.Minute); err != nil || n != 1 || members() != 2 || age != time.Hour {
		t.Errorf("%d wait, %v, and %d are there, the oldest for %s", n, err, members(), age)
	}
	one := &turn.Turn{}
	*asks.Of(one) = fmt.Sprint(time.Now().Add(time.Hour).Unix(), " new")
	(&asking{store: store}).list(t.Context(), one, turn.Ended{Outcome: "waiting"})
	if n, _, err := Waiting(t.Context(), store); err != nil || n != 2 || members() != 2 {
		t.Errorf("%d wait, %v, and %d are there once another is asked", n, err, members())
	}
}
