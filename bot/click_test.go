package bot_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/state"
)

// TestAClickWhileTheBotIsAtWork is noted, and has one effect however often it comes, until
// its answer was seen.
func TestAClickWhileTheBotIsAtWork(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, func(c *bot.Config) { c.AckTimeout = 0 })
		begun, release := make(chan struct{}), make(chan struct{})
		b.bot.OnCommand("work", func(context.Context, *bot.Turn) error {
			close(begun)
			<-release
			return nil
		})
		b.bot.OnCardAction("count", func(_ context.Context, turn *bot.Turn, _ bot.CardClick) (bot.CardAnswer, error) {
			n := &state.Of[counted](turn.Conversation).N
			*n++
			return bot.CardAnswer{Message: fmt.Sprintf("Counted %d.", *n)}, nil
		})
		b.say("work")
		<-begun
		click := func() []byte { return b.activity(pressed("count", nil)) } // each with an id of its own
		first, again := click(), click()
		var waiting sync.WaitGroup
		var got answer
		before := b.seen()
		waiting.Go(func() { got = b.post(b.url, first) })
		b.until("that the first one is kept", func() bool { return b.seen() > before })
		late := b.postAndHangUp(again, func() bool { return strings.Contains(b.log.String(), "duplicate dropped") })
		if late.Code != http.StatusOK || !strings.Contains(late.Body.String(), `{"statusCode":200,"type":"application/vnd.microsoft.activity.message","value":"I'm still working on it.`) {
			t.Errorf("while at work: %d %s", late.Code, late.Body)
		}
		close(release)
		waiting.Wait()
		expect := func(what string, got answer, want string) {
			t.Helper()
			if got.status != http.StatusOK || !strings.Contains(got.body, want) {
				t.Errorf("%s: %d %s, want %s", what, got.status, got.body, want)
			}
		}
		expect("the first", got, "Counted 1.")
		for range 2 {
			expect("a click once that was answered", b.post(b.url, click()), "Counted ")
			expect("the first again", b.post(b.url, first), "Counted 1.")
			expect("the second again", b.post(b.url, again), "Counted 1.")
		}
		expect("the last", b.post(b.url, click()), "Counted 4.")
		other := pressed("count", nil)
		other["from"] = event{"id": "29:otto", "name": "Otto"}
		expect("another person", b.deliver(other), "Counted 5.")
	})
}

// TestAClickWhoseAnswerNobodySaw is the same click when it comes under another id, though
// its turn is over.
func TestAClickWhoseAnswerNobodySaw(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t)
		var calls atomic.Int64
		release := make(chan struct{})
		b.bot.OnCardAction("slow", func(context.Context, *bot.Turn, bot.CardClick) (bot.CardAnswer, error) {
			calls.Add(1)
			<-release
			return bot.CardAnswer{Message: fmt.Sprint("Booked ", calls.Load())}, nil
		})
		b.postAndHangUp(b.activity(pressed("slow", nil)), func() bool { return calls.Load() > 0 })
		close(release)
		b.until("that the turn is over", func() bool { return strings.Contains(b.log.String(), "turn ended") })
		for _, want := range []string{"Booked 1", "Booked 2"} {
			if got := b.deliver(pressed("slow", nil)); !strings.Contains(got.body, want) {
				t.Errorf("%d %s, want %s", got.status, got.body, want)
			}
		}
	})
}

// postAndHangUp posts the activity as one who gives up once it is so far.
func (b *bundle) postAndHangUp(body []byte, soFar func() bool) *httptest.ResponseRecorder {
	b.Helper()
	ctx, hangUp := context.WithCancel(b.Context())
	defer hangUp()
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/api/messages", bytes.NewReader(body))
	r.RemoteAddr = "127.0.0.1:1"
	late, answered := httptest.NewRecorder(), make(chan struct{})
	go func() {
		defer close(answered)
		b.bot.ServeHTTP(late, r)
	}()
	b.until("that it is so far", soFar)
	hangUp()
	<-answered
	return late
}

// seen is how many things tell a delivery from others.
func (b *bundle) seen() int {
	return len(slices.DeleteFunc(b.redis.Keys(), func(key string) bool { return !strings.Contains(key, "/seen/") }))
}
