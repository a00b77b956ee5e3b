package bot_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bot/turn"
	"github.com/planbot-go/planbot/state"
	"github.com/planbot-go/planbot/state/inbox"
)

// leave puts a record into Mia's conversation, as a process leaves it that is gone.
func (b *bundle) leave(rec map[string]any) {
	b.Helper()
	raw, err := json.Marshal(rec)
	b.must(err)
	queue := state.ConversationKey("msteams", "28:bot", "a:mia")
	_, err = b.openInbox().Accept(b.Context(), inbox.Entry{Queue: queue, ID: "turn1turn1tu", Record: raw})
	b.must(err)
}

// left is a record of this version with these fields, of a message.
func (b *bundle) left(over event) map[string]any {
	b.Helper()
	rec := map[string]any{
		"v": 1, "id": "turn1turn1tu", "phase": "planning", "accepted": "2026-01-02T03:04:05Z",
		"activity": json.RawMessage(b.activity(event{"text": "go"})),
	}
	for name, value := range over {
		rec[name] = value
	}
	return rec
}

// TestRecordsThatCannotBeReadAreDeadLetters as they are. The person is told where that is
// possible, and the conversation goes on.
func TestRecordsThatCannotBeReadAreDeadLetters(t *testing.T) {
	t.Parallel()
	half := map[string]any{"plan": map[string]any{"commands": []any{map[string]any{"type": "DO", "action": "outside", "entities": map[string]any{}}}}, "next": 0}
	for name, tt := range map[string]struct {
		over   event
		reason string
		told   bool
	}{
		"no version":        {event{"v": 0}, "it has version 0", true},
		"no phase":          {event{"phase": "dreaming"}, "phase", true},
		"waits for nothing": {event{"phase": "waiting"}, "it waits for nothing", true},
		"runs nothing":      {event{"phase": "running"}, "it runs no plan", true},
		"no round":          {event{"phase": "running", "run": map[string]any{"progress": half, "usage": map[string]any{}}}, "in round 0", true},
		"no activity":       {event{"activity": json.RawMessage(`7`)}, "the record cannot be read", false},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, setup, func(t *testing.T, b *bundle) {
				addCount(b, "outside")
				b.leave(b.left(tt.over))
				r := b.addReplica(func(c *bot.Config) { c.Lease = 6 * time.Second }) // nobody is killed here
				if tt.told {
					b.expectFault("Somebody has to look at it.")
				}
				dead := b.deadLetters(1)
				if got := turn.Reason(dead[0]); !strings.Contains(got, tt.reason) {
					t.Errorf("reason %q, want one with %q", got, tt.reason)
				}
				b.model.Says(plan(say("Still here.")))
				r.say("are you there?")
				b.expect("Still here.")
			})
		})
	}
}

// TestANewerRecordIsLeft to newer processes for a while, with what is queued behind it. If there are
// none, because an upgrade was undone, it becomes a dead letter as it is, and the person is told.
// TestMoreWorlds/Upgrade of e2e/chaos has such processes.
func TestANewerRecordIsLeft(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		b.leave(b.left(event{"v": 4, "phase": "dreaming", "more": "of it"}))
		b.model.Says(plan(say("Still here.")))
		r := b.addReplica()
		b.until("the turn is left twice", func() bool { return strings.Count(b.log.String(), "left to a newer version") >= 2 })
		b.deadLetters(0)
		b.connector.None(t)
		r.say("are you there?")
		b.expectFault("Somebody has to look at it.")
		b.expect("Still here.")
		dead := b.deadLetters(1)
		if got := turn.Reason(dead[0]); !strings.Contains(got, "it has version 4, this program knows 3") || !strings.Contains(string(dead[0].Record), `"more":"of it"`) {
			t.Errorf("reason %q for %s", got, dead[0].Record)
		}
	})
}

// TestAClickOnANewerRecordIsLeft: whoever gets a click on an approval of a newer process leaves the
// click to that process, too.
func TestAClickOnANewerRecordIsLeft(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		raw, err := json.Marshal(b.left(event{"v": 4, "phase": "waiting"}))
		b.must(err)
		queue := state.ConversationKey("msteams", "28:bot", "a:mia")
		_, err = b.openInbox().Accept(t.Context(), inbox.Entry{Queue: queue, ID: "turn1turn1tu", Record: raw, Wait: &inbox.Wait{}})
		b.must(err)
		r := b.addReplica()
		r.say("/approve turn1turn1tu")
		b.until("the click is left", func() bool { return strings.Contains(b.log.String(), "left to a newer version") })
		b.connector.None(t)
		b.expectFault("Sorry, something went wrong on my side.") // nobody newer came
	})
}

// TestAPlanThatDoesNotFitIsADeadLetter, and goes on after the fix: another version of the bot
// has the action again.
func TestAPlanThatDoesNotFitIsADeadLetter(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		progress := map[string]any{"plan": map[string]any{"commands": []any{
			map[string]any{"type": "DO", "action": "outside", "entities": map[string]any{}},
			map[string]any{"type": "SAY", "response": "Done it."},
		}}, "next": 0}
		b.leave(b.left(event{"phase": "running", "run": map[string]any{
			"progress": progress, "in_flight": 1, "rounds": []any{map[string]any{}}, "usage": map[string]any{},
		}}))
		first := b.addReplica()
		b.expectFault("I cannot tell whether this was done: Outside.")
		dead := b.deadLetters(1)
		if got := turn.Reason(dead[0]); !strings.Contains(got, "does not fit this version") {
			t.Errorf("reason %q", got)
		}
		b.must(first.bot.Drain(t.Context()))
		ran := 0
		actions.Add(b.actions, "outside", "Does", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) {
			ran++
			return actions.Done, nil
		})
		b.addReplica()
		b.retry(dead[0])
		b.expect("Done it.")
		b.connector.None(t)
		if ran != 1 {
			t.Errorf("ran %d times", ran)
		}
	})
}

// TestADeadInvokeIsAnswered, so that nobody waits for it in vain.
func TestADeadInvokeIsAnswered(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		vote := b.activity(event{"type": "invoke", "name": "vote"})
		b.leave(b.left(event{"v": 0, "awaited": true, "activity": json.RawMessage(vote)}))
		r := b.addRouted(func(made *bot.Bot) {
			made.OnInvoke("vote", func(context.Context, *bot.Turn) (bot.InvokeResponse, error) {
				return bot.InvokeResponse{Status: http.StatusAccepted}, nil
			})
		})
		b.deadLetters(1)
		queue := state.ConversationKey("msteams", "28:bot", "a:mia")
		answer, err := b.openInbox().Answer(t.Context(), queue, "turn1turn1tu")
		b.must(err)
		if !strings.Contains(string(answer), "500") {
			t.Errorf("answer %s", answer)
		}
		if got := r.post(r.url, b.activity(event{"type": "invoke", "name": "vote"})); got.status != http.StatusAccepted {
			t.Errorf("the next one is answered with %d", got.status)
		}
	})
}

// TestADeadLetterKeepsWhatWasApproved, so that an operator who has it tried again need not
// ask the person again.
func TestADeadLetterKeepsWhatWasApproved(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		var call bytes.Buffer
		b.must(json.NewEncoder(&call).Encode([]any{"outside", "", map[string]any{}, map[string]any{}}))
		b.leave(b.left(event{
			"phase": "waiting",
			"run": map[string]any{"asked": 1, "usage": map[string]any{}, "rounds": []any{map[string]any{}}, "progress": map[string]any{
				"plan": map[string]any{"commands": []any{
					map[string]any{"type": "DO", "action": "outside", "entities": map[string]any{}},
					map[string]any{"type": "SAY", "response": "Done it."},
				}}, "next": 0,
			}},
			"wait": map[string]any{"for": "approval", "then": "running", "approval": map[string]any{
				"id": "turn1turn1tu", "action": "outside", "entities": map[string]any{}, "hash": fmt.Sprintf("%x", sha256.Sum256(call.Bytes())),
				"expires": "2026-01-02T04:04:05Z", "decision": map[string]any{"approved": true, "by": "Mia", "at": "2026-01-02T03:05:05Z"},
			}},
		}))
		first := b.addReplica()
		b.expectFault("Sorry, things have changed since I asked for approval, so I didn't do it. Somebody has to look at it.")
		dead := b.deadLetters(1)
		b.must(first.bot.Drain(t.Context()))
		ran := addCount(b, "outside", actions.NeedsApproval)
		b.addReplica()
		b.retry(dead[0])
		b.expect("Done it.")
		b.connector.None(t)
		if n := ran.Load(); n != 1 {
			t.Errorf("ran %d times", n)
		}
	})
}
