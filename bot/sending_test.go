package bot_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptrace"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bot/turn"
	"github.com/planbot-go/planbot/connector"
)

// slowly is a channel that is away for the first message that it is to carry with
// those words, which it says after the turn's time.
type slowly struct {
	turn.Channel
	words string
	turn  chan context.Context // of the turn
	once  atomic.Bool
}

func (s *slowly) Reply(ctx context.Context, to activity.Reference, replyTo string, a *activity.Activity) (string, error) {
	if strings.HasPrefix(a.Text, s.words) && s.once.CompareAndSwap(false, true) {
		<-(<-s.turn).Done()
		return "", &connector.Error{Op: "post", Status: http.StatusServiceUnavailable}
	}
	return s.Channel.Reply(ctx, to, replyTo, a)
}

// TestAReplyThatLeavesIsNotBoundToTheTurnsTime: what was done is told, whole and in order.
func TestAReplyThatLeavesIsNotBoundToTheTurnsTime(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		done := addCount(b, "done")
		slow := &slowly{Channel: hasty(t), words: "AAA", turn: make(chan context.Context, 8)}
		b.model.Says(plan(do("done", `{}`), say(strings.Repeat("A", 15000)+"\n\n"+strings.Repeat("B", 15000))))
		r := b.addReplica(func(c *bot.Config) {
			c.Channel, c.TurnTimeout = slow, 2*time.Second
			c.Features = append(c.Features, bot.Feature{Say: func(ctx context.Context, _ *bot.Turn, text string) (string, error) {
				slow.turn <- ctx
				return text, nil
			}})
		})
		r.say("go")
		for _, want := range []string{"AAA", "BBB"} {
			if got := b.connector.Next(t).Text(); !strings.HasPrefix(got, want) {
				t.Errorf("got %.40q, want %s…", got, want)
			}
		}
		b.connector.None(t)
		if done.Load() != 1 {
			t.Errorf("done %d times", done.Load())
		}
	})
}

// TestTheHourOfTheChannelBeginsWithItsFirstRefusal, not with the message that waited
// for its turn.
func TestTheHourOfTheChannelBeginsWithItsFirstRefusal(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		asked := b.model.Waits()
		first := b.addReplica()
		first.say("hello")
		<-asked
		first.kill()
		b.age(2 * time.Hour)
		b.connector.Fails(0, http.StatusServiceUnavailable)
		b.model.Says(plan(say("At last.")))
		b.addReplica(func(c *bot.Config) { c.Channel = hasty(t) })
		b.expect("At last.")
		b.connector.None(t)
	})
}

// TestTheHourOfTheChannelEndsInAParkedTurn, which has that time anew when an operator
// has it tried again.
func TestTheHourOfTheChannelEndsInAParkedTurn(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		direct := func(c *bot.Config) { c.Channel = hasty(t) }
		b.connector.Fails(0, http.StatusServiceUnavailable, http.StatusServiceUnavailable, http.StatusServiceUnavailable)
		b.model.Says(plan(say("At last.")))
		first := b.addReplica(direct)
		first.say("hello")
		key, id, record := b.awaitRecord(`"away"`)
		first.kill()
		b.redis.HSet(key, id, away.ReplaceAllString(record, `"away":"1990-01-01T00:00:00Z"`))
		b.addReplica(direct)
		dead := b.deadLetters(1)
		if rec := readRecord(t, dead[0].Record); !strings.Contains(rec.Wait.Reason, "the channel did not take") || !strings.Contains(string(dead[0].Record), "At last.") {
			t.Errorf("dead letter for %s: %s", rec.Wait.Reason, dead[0].Record)
		}
		b.retry(dead[0])
		b.expect("At last.")
		b.connector.None(t)
	})
}

var away = regexp.MustCompile(`"away":"[^"]*"`)

// awaitRecord waits until a record has those words.
func (b *bundle) awaitRecord(words string) (key, id, record string) {
	b.Helper()
	b.until("a record with "+words, func() bool {
		key, id, record = b.record(words)
		return key != ""
	})
	return key, id, record
}

// age makes what waits in the inbox older.
func (b *bundle) age(by time.Duration) {
	b.Helper()
	key, id, raw := b.record("")
	rec := readRecord(b.T, []byte(raw))
	rec.Accepted = rec.Accepted.Add(-by)
	older, err := rec.Encode()
	b.must(err)
	b.redis.HSet(key, id, string(older))
}

// TestAMessageThatNobodyAnswersIsSentTwice, and then taken as sent: a channel that takes
// messages and does not answer is not to get them for an hour.
func TestAMessageThatNobodyAnswersIsSentTwice(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		mute := &mute{words: "Really?"}
		r := b.addReplica(func(c *bot.Config) { c.Channel = hasty(t, mute) })
		b.model.Says(plan(say("Really?"), say("Behind it.")))
		r.say("go")
		b.expect("Really?")
		b.expect("Really?")
		b.expect("Behind it.")
		b.connector.None(t)
		if got := b.log.String(); !strings.Contains(got, "it may have arrived") {
			t.Errorf("log %s", got)
		}
	})
}

// TestAMessageWaitsForAChannelThatAnswersNothing, as one does behind a proxy that takes
// all and passes on nothing.
func TestAMessageWaitsForAChannelThatAnswersNothing(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		hole := &hole{}
		hole.left.Store(3)
		r := b.addReplica(func(c *bot.Config) { c.Channel = hasty(t, hole) })
		b.model.Says(plan(say("Really?"), say("Behind it.")))
		r.say("go")
		b.expect("Really?")
		b.expect("Behind it.")
		b.connector.None(t)
	})
}

// crowded loses the answer to the first message, and holds back the first look at whether
// anybody is there.
type crowded struct {
	turn.Channel
	lost, held, knocked atomic.Bool
	blind               atomic.Int32 // messages sent in between
}

func (c *crowded) Reply(ctx context.Context, to activity.Reference, replyTo string, a *activity.Activity) (string, error) {
	if c.lost.CompareAndSwap(false, true) {
		return "", connector.ErrNoAnswer
	}
	if !c.knocked.Load() {
		c.blind.Add(1)
	}
	return c.Channel.Reply(ctx, to, replyTo, a)
}

func (c *crowded) Send(ctx context.Context, to activity.Reference, a *activity.Activity) (string, error) {
	if c.lost.Load() && c.held.CompareAndSwap(false, true) {
		return "", &connector.Error{Op: "post", Status: http.StatusTooManyRequests, HeldBack: true}
	}
	c.knocked.Store(c.held.Load())
	return c.Channel.Send(ctx, to, a)
}

// TestAKnockThatWasHeldBackIsNoAnswer of the channel, and so no reason to send once more
// what may have arrived.
func TestAKnockThatWasHeldBackIsNoAnswer(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		c := &crowded{Channel: hasty(t)}
		r := b.addReplica(func(cfg *bot.Config) { cfg.Channel = c })
		b.model.Says(plan(say("Really?")))
		r.say("go")
		b.expect("Really?")
		b.connector.None(t)
		if !c.held.Load() || c.blind.Load() != 0 {
			t.Errorf("held back: %t, sent without knowing: %d", c.held.Load(), c.blind.Load())
		}
	})
}

// TestTypingThatThereIsNoRoomForHoldsUpNothing that is sent behind it.
func TestTypingThatThereIsNoRoomForHoldsUpNothing(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		c := &crowded{Channel: hasty(t)}
		c.lost.Store(true)
		r := b.addReplica(func(cfg *bot.Config) { cfg.Channel = c })
		r.bot.OnCommand("wave", func(ctx context.Context, turn *bot.Turn) error {
			hint := activity.To(turn.Activity.Reference(), activity.Typing)
			hint.ReplyToID = ""
			err := turn.Send(ctx, hint, turn.Activity.Reply("Hello."))
			if err != nil {
				t.Errorf("what follows it has to wait: %v", err)
			}
			return err
		})
		r.say("wave")
		b.expect("Hello.")
		b.connector.None(t)
	})
}

// TestACallThatCannotBeMadeHoldsUpNothing: it is no channel that is away.
func TestACallThatCannotBeMadeHoldsUpNothing(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		r := b.addReplica()
		r.bot.OnCommand("wave", func(ctx context.Context, turn *bot.Turn) error {
			nowhere := turn.Activity.Reply("Hello.")
			nowhere.ReplyToID = ".."
			err := turn.Send(ctx, nowhere)
			if !errors.Is(err, connector.ErrBadCall) {
				t.Errorf("err = %v, want ErrBadCall", err)
			}
			return err
		})
		r.say("wave")
		if got := b.connector.Next(t).Text(); !strings.HasPrefix(got, "Sorry") {
			t.Errorf("the person is told %q", got)
		}
		b.model.Says(plan(say("At once.")))
		r.say("hello")
		b.expect("At once.")
	})
}

// hole takes so many requests, whatever they are.
type hole struct{ left atomic.Int32 }

func (h *hole) RoundTrip(r *http.Request) (*http.Response, error) {
	if h.left.Add(-1) < 0 {
		return overWires.RoundTrip(r)
	}
	httptrace.ContextClientTrace(r.Context()).WroteRequest(httptrace.WroteRequestInfo{})
	return nil, syscall.ECONNRESET
}

// mute loses the answers to messages with those words.
type mute struct{ words string }

func (m *mute) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := r.GetBody()
	if err != nil {
		return nil, err
	}
	var raw bytes.Buffer
	if _, err := raw.ReadFrom(body); err != nil {
		return nil, err
	}
	answer, err := overWires.RoundTrip(r)
	if err != nil || !strings.Contains(raw.String(), m.words) {
		return answer, err
	}
	_ = answer.Body.Close()
	return nil, syscall.ECONNRESET
}
