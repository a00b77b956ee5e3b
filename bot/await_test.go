package bot_test

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/bot"
)

// TestAnAnswerThatTheEndOfItsProcessCutsOff is refused, and the same request gets it from
// another replica.
func TestAnAnswerThatTheEndOfItsProcessCutsOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for name, over := range map[string]event{
			"expectReplies": {"text": "go", "deliveryMode": "expectReplies"},
			"an invoke":     {"type": "invoke", "name": "work"},
		} {
			b := setup(t)
			began, once := make(chan struct{}), sync.Once{}
			work := func(made *bot.Bot) {
				made.OnInvoke("work", func(context.Context, *bot.Turn) (bot.InvokeResponse, error) {
					return bot.InvokeResponse{Body: "done"}, nil
				})
				made.Use(func(next bot.Handler) bot.Handler {
					return func(ctx context.Context, turn *bot.Turn) error {
						once.Do(func() {
							close(began)
							<-ctx.Done()
						})
						if ctx.Err() != nil {
							return ctx.Err()
						}
						return next(ctx, turn)
					}
				})
			}
			first := b.addRouted(work)
			request := b.activity(over)
			answered := make(chan answer, 1)
			go func() { answered <- b.post(first.url, request) }()
			<-began
			drained, cancel := context.WithCancel(t.Context())
			cancel()
			_ = first.bot.Drain(drained)
			if got := <-answered; got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" {
				t.Errorf("%s: cut off with %d %s, Retry-After %q", name, got.status, got.body, got.header.Get("Retry-After"))
			}
			if over["text"] != nil {
				b.model.Says(plan(say("done")))
			}
			second := b.addRouted(work)
			if got := b.post(second.url, request); got.status != http.StatusOK || !strings.Contains(got.body, "done") {
				t.Errorf("%s: answered with %d %s", name, got.status, got.body)
			}
		}
	})
}

// TestRepliesThatNobodyWaitedForAreThereForWhoAsksAgain, all of them, and their turn is not
// done again.
func TestRepliesThatNobodyWaitedForAreThereForWhoAsksAgain(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		entered, open := make(chan struct{}), make(chan struct{})
		actions.Add(b.actions, "slow", "Waits", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) {
			close(entered)
			<-open
			return actions.Done, nil
		})
		b.model.Says(plan(say("One."), do("slow", `{}`), say("Two.")))
		request := b.activity(event{"text": "go", "deliveryMode": "expectReplies"})
		ctx, giveUp := context.WithCancel(t.Context())
		late := httptest.NewRecorder()
		answered := make(chan struct{})
		go func() {
			defer close(answered)
			r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/api/messages", bytes.NewReader(request))
			r.RemoteAddr = "127.0.0.1:1"
			b.bot.ServeHTTP(late, r)
		}()
		<-entered
		giveUp()
		<-answered
		close(open)
		if late.Code != http.StatusServiceUnavailable || late.Header().Get("Retry-After") == "" {
			t.Errorf("late: %d %s", late.Code, late.Body)
		}
		for range 2 {
			got := b.post(b.url, request)
			if got.status != http.StatusOK || strings.Count(got.body, `"text":`) != 2 || !strings.Contains(got.body, "One.") || !strings.Contains(got.body, "Two.") {
				t.Errorf("answered with %d %s", got.status, got.body)
			}
		}
		b.connector.None(t)
	})
}
