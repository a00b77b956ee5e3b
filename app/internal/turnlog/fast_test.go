package turnlog_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planbot-go/planbot/app/internal/turnlog"
	"github.com/planbot-go/planbot/bot/turn"
	"github.com/planbot-go/planbot/planner/plan"
)

// TestTurnsThatComeTooFastHaveHeads: a bot under load does not pay for records that nobody can read, and each turn has a row.
func TestTurnsThatComeTooFastHaveHeads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := turnlog.New(turnlog.Config{})
		defer l.Close()
		settle := func(kept, tooFast int) {
			t.Helper()
			if err := l.Settle(t.Context()); err != nil {
				t.Fatal(err)
			}
			if len(l.Turns()) != kept || l.TooFast() != tooFast {
				t.Errorf("%d turns are kept and %d are counted, want %d and %d", len(l.Turns()), l.TooFast(), kept, tooFast)
			}
		}
		for i := range 40 {
			l.WatchTurn(turn.Event{Turn: fmt.Sprintf("turn-%d", i), Received: &turn.Received{Text: "hi"}})
		}
		settle(40, 10)
		time.Sleep(time.Second) // of the bubble: there is room for ten again
		l.WatchTurn(turn.Event{Turn: "turn-35", Began: &turn.Began{}})
		l.WatchTurn(turn.Event{Turn: "turn-35", Planned: &plan.Plan{}}) // the rest of a turn that came too fast is left out, too
		l.WatchTurn(turn.Event{Turn: "turn-35", Ended: &turn.Ended{Outcome: "ok"}})
		l.WatchTurn(turn.Event{Turn: "turn-40", Received: &turn.Received{Text: "hi"}})
		settle(41, 10)
		if r, _ := l.Turn("turn-35"); r.Outcome != turnlog.OK || !r.Incomplete || len(r.Plans) != 0 {
			t.Errorf("a turn that came too fast is %s, incomplete: %t, with %d plans", r.Outcome, r.Incomplete, len(r.Plans))
		}
		if r, _ := l.Turn("turn-40"); r.Incomplete {
			t.Error("a turn that came in time is incomplete")
		}
	})
}
