package bot_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/connector"
)

// slowly is a channel that is away for the first message that it is to carry with
// those words, which it says after the turn's time.
type slowly struct {
	bot.Channel
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
	t.Parallel()
	b := setup(t)
	done := addCount(b, "done")
	slow := &slowly{Channel: hasty(t), words: "AAA", turn: make(chan context.Context, 8)}
	b.model.Says(plan(do("done", `{}`), say(strings.Repeat("A", 15000)+"\n\n"+strings.Repeat("B", 15000))))
	r := b.addReplica(func(c *bot.Config) {
		c.Channel, c.TurnTimeout = slow, 2*time.Second
		c.Hooks.BeforeSay = func(ctx context.Context, _ *bot.Turn, text string) (string, error) {
			slow.turn <- ctx
			return text, nil
		}
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
}

// TestTheHourOfTheChannelBeginsWithItsFirstRefusal, not with the message that waited
// for its turn.
func TestTheHourOfTheChannelBeginsWithItsFirstRefusal(t *testing.T) {
	t.Parallel()
	b := setup(t)
	asked := b.model.Waits()
	first := b.addReplica()
	first.say("hello")
	<-asked
	first.kill()
	b.age(2 * time.Hour)
	b.connector.Fails("", http.StatusServiceUnavailable)
	b.model.Says(plan(say("At last.")))
	b.addReplica(func(c *bot.Config) { c.Channel = hasty(t) })
	b.expect("At last.")
	b.connector.None(t)
}

// age makes what waits in the inbox older.
func (b *bundle) age(by time.Duration) {
	b.Helper()
	aged := 0
	for _, key := range b.redis.Keys() {
		if !strings.HasSuffix(key, "/queue") {
			continue
		}
		items, err := b.redis.List(key)
		b.must(err)
		b.redis.Del(key)
		for _, item := range items {
			var version int
			var turn string
			var accepted int64
			_, err := fmt.Sscan(item, &version, &turn, &accepted)
			b.must(err)
			_, body, _ := strings.Cut(item, "\n")
			_, err = b.redis.Push(key, fmt.Sprintf("%d %s %d\n%s", version, turn, accepted-by.Milliseconds(), body))
			b.must(err)
			aged++
		}
	}
	if aged == 0 {
		b.Error("nothing waits")
	}
}

// TestAMessageThatNobodyAnswersIsSentTwice, and then taken as sent: a channel that takes
// messages and does not answer is not to get them for an hour.
func TestAMessageThatNobodyAnswersIsSentTwice(t *testing.T) {
	t.Parallel()
	b := setup(t)
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
	answer, err := http.DefaultTransport.RoundTrip(r)
	if err != nil || !strings.Contains(raw.String(), m.words) {
		return answer, err
	}
	_ = answer.Body.Close()
	return nil, syscall.ECONNRESET
}
