package bot_test

import (
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bot/heads"
	"github.com/planbot-go/planbot/state"
)

func kept(c *bot.Config) { c.TurnsKeep = time.Hour }

// heads reads all heads of turns out of Redis.
func (b *bundle) heads() (all []heads.Head) {
	b.Helper()
	for _, key := range b.redis.Keys() {
		if !strings.HasSuffix(key, "/rows/turns") {
			continue
		}
		rows, err := b.redis.HKeys(key)
		b.must(err)
		for _, id := range rows {
			head, err := heads.Read(b.Context(), b.bot.Store(), id)
			b.must(err)
			all = append(all, head)
		}
	}
	return all
}

// head waits for the head of the only turn with that outcome.
func (b *bundle) head(outcome string) (found heads.Head) {
	b.Helper()
	b.until("a head of a turn that is "+outcome, func() bool {
		for _, h := range b.heads() {
			if h.Outcome == outcome {
				found = h
				return true
			}
		}
		return false
	})
	return found
}

// TestHeadsCountProcesses that worked on a turn, one after another.
func TestHeadsCountProcesses(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		slow := addGate(b, "slow")
		first := b.addReplica(kept)
		b.model.Says(plan(do("slow", `{}`), say("Done.")))
		first.say("go")
		<-slow.entered
		first.kill()
		b.addReplica(kept)
		b.expect("Done.")
		if h := b.head("ok"); h.Tries != 2 {
			t.Errorf("%+v", h)
		}
	})
}

// TestHeadsOfTurns: each turn has one, without content, however it ended.
func TestHeadsOfTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, kept)
		b := d.bundle
		d.model.Says(plan(say("my secret answer")))
		b.tell(event{"text": "my secret question"}, "my secret answer")
		h := b.head("ok")
		if len(h.Turn) != 12 || h.User != "aad-mia" || h.Tenant != "t1" || h.Channel != "msteams" || h.Conversation != "a:mia" || h.Kind != "personal" ||
			!strings.HasPrefix(h.Account, "29:") || h.Type != "message" || h.Tries != 1 || h.ModelCalls != 1 || h.Sent != 1 || h.Reason != "" || time.Since(h.Accepted) > time.Minute {
			t.Errorf("%+v", h)
		}
		d.model.Says(closePlan)
		d.ask(nil, "close it")
		if h := b.head("waiting"); h.Reason != "approval" {
			t.Errorf("%+v", h)
		}
		raw, err := json.Marshal(b.heads())
		b.must(err)
		for _, content := range []string{"secret", "close", "Mia"} {
			if strings.Contains(string(raw), content) {
				t.Errorf("the heads have %q: %s", content, raw)
			}
		}
	})
}

// TestHeadOfAFailure has the id that the person reads.
func TestHeadOfAFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, kept)
		b.model.Fails(401, "invalid_api_key")
		b.say("go")
		said := b.connector.Next(b).Text()
		h := b.head("failed")
		id := regexp.MustCompile(`\(turn (\w+)\)`).FindStringSubmatch(said)
		if id == nil || id[1] != h.Turn || h.Reason == "" {
			t.Errorf("said %q, head %+v", said, h)
		}
	})
}

// TestHeadsAreForgotten with the person, and others are not.
func TestHeadsAreForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, kept)
		b.model.Says(plan(say("one")), plan(say("two")))
		b.tell(event{"text": "first"}, "one")
		b.tell(in(inGroup, event{"from": event{"id": "29:otto", "name": "Otto"}, "text": "<at>Planbot</at> second"}), "two")
		b.until("two heads", func() bool { return len(b.heads()) == 2 })
		if shown := b.myData(); !strings.Contains(shown, "For a while, I also keep when you wrote and how it ended.") {
			t.Errorf("shown %q", shown)
		}
		b.until("three heads", func() bool { return len(b.heads()) == 3 })
		b.tell(event{"text": "/forget yes"}, "I've deleted everything I kept about you.")
		b.until("one head", func() bool { all := b.heads(); return len(all) == 1 && all[0].Account == "29:otto" })
		b.settled()
	})
}

// TestNoHeads: without TurnsKeep nothing is written.
func TestNoHeads(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		b.model.Says(plan(say("one")))
		b.tell(event{"text": "first"}, "one")
		b.settled()
		if all := b.heads(); len(all) != 0 {
			t.Errorf("%+v", all)
		}
		if _, err := heads.Read(t.Context(), b.bot.Store(), "unknown"); !errors.Is(err, state.ErrNoRow) {
			t.Error(err)
		}
	})
}
