package bot_test

import (
	"bytes"
	"context"
	"flag"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bot/turn"
	"github.com/planbot-go/planbot/connector"
	plans "github.com/planbot-go/planbot/planner/plan"
)

var manyActivities = flag.Int("activities", 3000, "how many activities TestManyActivities delivers")

// sink is a channel that counts what it takes.
type sink struct {
	turn.Channel // nil: nothing else is called

	taken atomic.Int64
}

func (s *sink) Send(_ context.Context, _ activity.Reference, a *activity.Activity) (string, error) {
	if a.Type == activity.Message {
		s.taken.Add(1)
	}
	return "1", nil
}

func (s *sink) Reply(ctx context.Context, to activity.Reference, _ string, a *activity.Activity) (string, error) {
	return s.Send(ctx, to, a)
}

func (*sink) Update(context.Context, activity.Reference, string, *activity.Activity) error {
	return nil
}

func (*sink) Delete(context.Context, activity.Reference, string, bool) error { return nil }

func (*sink) Member(context.Context, activity.Reference, string) (activity.Account, error) {
	return activity.Account{}, nil
}

func (*sink) CreateConversation(_ context.Context, in activity.Reference, _ string, _ *activity.Activity) (activity.Reference, error) {
	return in, nil
}

func (*sink) React(context.Context, activity.Reference, string, string, bool) error { return nil }

func (*sink) Team(context.Context, activity.Reference, string) (connector.Team, error) {
	return connector.Team{}, nil
}

func (*sink) Identified() bool { return false }

// TestManyActivities of all kinds, good and bad, leave nothing behind. It counts
// goroutines and memory, so no other test may run beside it.
func TestManyActivities(t *testing.T) {
	out := &sink{}
	b := setup(t, func(c *bot.Config) {
		c.Channel, c.AckTimeout, c.Log = out, 0, zerolog.Nop()
		c.Access.Users = []string{"aad-mia"}
		c.Planner = bot.PlannerFunc(func(context.Context, *actions.Turn) (plans.Plan, error) {
			return plans.Plan{Commands: []plans.Command{{Kind: plans.Say, Response: "Hello."}}}, nil
		})
	})
	b.bot.OnInvoke("work", func(context.Context, *bot.Turn) (bot.InvokeResponse, error) {
		return bot.InvokeResponse{Body: "done"}, nil
	})
	b.deliverMany(out, 500) // what stays is there after that
	b.redis.FlushAll()
	goroutines, heap := runtime.NumGoroutine(), heapInUse()
	began := time.Now()
	b.deliverMany(out, *manyActivities)
	took := time.Since(began)
	b.redis.FlushAll() // which holds the ids of what came in, for half an hour
	b.until("that goroutines are gone", func() bool { return runtime.NumGoroutine() <= goroutines+10 })
	grown := heapInUse() - heap
	t.Logf("%d activities in %s; %d goroutines before, %d after; heap %+d KiB", *manyActivities, took.Round(time.Millisecond), goroutines, runtime.NumGoroutine(), grown>>10)
	if grown > 8<<20 { // the maps of the test's Redis do not shrink
		t.Errorf("the heap has grown by %d bytes", grown)
	}
}

// deliverMany delivers so many activities, a few at once, and waits for what is to be
// said to them.
func (b *bundle) deliverMany(out *sink, many int) {
	b.Helper()
	said := out.taken.Load()
	var answers atomic.Int64
	kinds := []struct {
		over    event
		status  int
		answers int64
	}{
		{event{"text": "hello"}, http.StatusOK, 1},
		{event{"text": "hello", "deliveryMode": "expectReplies"}, http.StatusOK, 0},
		{event{"type": "typing"}, http.StatusOK, 0},
		{event{"type": "invoke", "name": "work"}, http.StatusOK, 0},
		{event{"type": "invoke", "name": "no such"}, http.StatusNotImplemented, 0},
		{event{"text": "hello", "id": "the same"}, http.StatusOK, 0},
		{event{"text": "hello", "from": event{"id": "29:bob"}}, http.StatusOK, 1},
		{event{"conversation": event{}}, http.StatusBadRequest, 0},
		{event{"text": "hello", "serviceUrl": "https://evil.example/"}, http.StatusBadRequest, 0},
		{event{"text": "hello", "from": event{"id": "29:bot", "role": "bot"}}, http.StatusOK, 0},
	}
	next := make(chan int)
	var senders sync.WaitGroup
	for range 8 {
		senders.Go(func() {
			for i := range next {
				kind := kinds[i%len(kinds)]
				who := strconv.Itoa(i / len(kinds) % 100)
				over := event{
					"from":         event{"id": "29:" + who, "aadObjectId": "aad-mia"},
					"conversation": event{"id": "a:" + who, "conversationType": "personal"},
				}
				for k, v := range kind.over {
					over[k] = v
				}
				if got := b.hand(b.activity(over)); got != kind.status {
					b.Errorf("%v: status %d, want %d", kind.over, got, kind.status)
				}
				answers.Add(kind.answers)
			}
		})
	}
	for i := range many {
		next <- i
	}
	close(next)
	senders.Wait()
	b.until("that all is said", func() bool { return out.taken.Load() >= said+answers.Load() })
	queue := func(key string) bool { return strings.HasSuffix(key, "/queue") }
	b.until("that all turns have ended", func() bool { return !slices.ContainsFunc(b.redis.Keys(), queue) })
}

// hand gives the bot an activity without a connection.
func (b *bundle) hand(body []byte) int {
	r := httptest.NewRequestWithContext(b.Context(), http.MethodPost, "http://127.0.0.1/api/messages", bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	b.bot.ServeHTTP(w, r)
	return w.Code
}

// heapInUse is what is left when all garbage is gone.
func heapInUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
