package bot_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bot/turn"
)

// TestARecordOfAnAbsentFeature becomes a dead letter that says so. What the feature keeps in it stays as it is,
// and a bot that has the feature goes on with it.
func TestARecordOfAnAbsentFeature(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		kept := `{"text":"all of it","of":1,"hash":"it"}`
		notice := json.RawMessage(b.activity(event{"type": "event", "name": "guests", "text": ""}))
		b.leave(b.left(event{"own": "guests", "activity": notice, "guests": json.RawMessage(kept)}))
		without := b.addReplica()
		dead := b.deadLetters(1)
		if got := turn.Reason(dead[0]); !strings.Contains(got, `no feature "guests"`) || !strings.Contains(string(dead[0].Record), kept) {
			t.Errorf("reason %q for %s", got, dead[0].Record)
		}
		b.connector.None(t)
		without.kill() // or it would take the record again
		var handled atomic.Int32
		guests := turn.Feature{Name: "guests", Handle: func(context.Context, *turn.Turn) error {
			handled.Add(1)
			return nil
		}}
		b.addReplica(func(c *bot.Config) { c.Features = append(c.Features, guests) })
		b.retry(dead[0])
		b.until("it is handled", func() bool { return handled.Load() == 1 })
	})
}

// TestASummaryOfAnOlderRelease is put into the history: such a release did not write down whose record it is.
func TestASummaryOfAnOlderRelease(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		summarizes := func(c *bot.Config) {
			c.Summarize = func(context.Context, *actions.Turn, int) (string, int, error) { return "", 0, nil }
		}
		// It is of no turns, so the hash is that of nothing.
		kept := `{"text":"Mia likes tea.","of":0,"hash":"5ecd0884a447a44a83c9611ff07e2f708cd08e56aacb3c247617475f2814f755"}`
		own := json.RawMessage(b.activity(event{"type": "event", "name": "summary", "text": ""}))
		b.leave(b.left(event{"activity": own, "summary": json.RawMessage(kept)}))
		r := b.addReplica(summarizes)
		b.model.Says(plan(say("Hello.")))
		r.say("hello")
		b.expect("Hello.")
		prompt := b.model.Calls()[0].Text()
		if !strings.Contains(prompt, "Mia likes tea.") {
			t.Errorf("the model sees %s", prompt)
		}
		b.deadLetters(0)
	})
}
