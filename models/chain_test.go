package models_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/planbot-go/planbot/models"
)

// cooldown is the default.
const cooldown = 30 * time.Second

func chain(t testing.TB, members ...*script) *models.Chain {
	t.Helper()
	cfg := &models.Chain{}
	for _, m := range members {
		cfg.Models = append(cfg.Models, m)
	}
	return cfg
}

func TestFallback(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		first  error
		second []error
		calls  [2]int
		err    error
		took   time.Duration // 0: at once
	}{
		{"answered", nil, []error{nil}, [2]int{1, 0}, nil, 0},
		{"throttled", throttled(2 * time.Second), []error{nil}, [2]int{1, 1}, nil, 0},
		{"no money", noMoney, []error{nil}, [2]int{1, 1}, nil, 0},
		{"down", down, []error{nil}, [2]int{1, 1}, nil, 0},
		{"gateway", gateway, []error{nil}, [2]int{1, 1}, nil, 0},
		{"no network", noNetwork, []error{nil}, [2]int{1, 1}, nil, 0},
		{"too slow", tooSlow, []error{nil}, [2]int{1, 1}, nil, 0},
		{"malformed", malformed, []error{nil}, [2]int{1, 1}, nil, 0},
		{"the last is retried", down, []error{down, throttled(4 * time.Second), nil}, [2]int{1, 3}, nil, 4 * time.Second},
		{"all down", noNetwork, []error{down}, [2]int{1, 4}, down, 2 * time.Second},
		{"400", bad, []error{nil}, [2]int{1, 0}, bad, 0},
		{"401", noKey, []error{nil}, [2]int{1, 0}, noKey, 0},
		{"too long", tooLong, []error{nil}, [2]int{1, 0}, tooLong, 0},
		{"filtered", filtered, []error{nil}, [2]int{1, 0}, filtered, 0},
		{"filtered answer", cut, []error{nil}, [2]int{1, 0}, cut, 0},
		{"empty", empty, []error{nil}, [2]int{1, 0}, empty, 0},
		{"not a model's fault", errForeign, []error{nil}, [2]int{1, 0}, errForeign, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				first, second, start := scripted("one", tt.first), scripted("two", tt.second...), time.Now()
				got, err := chain(t, first, second).Complete(t.Context(), hello)
				if !same(err, tt.err) || (err == nil) == (got == nil) {
					t.Errorf("got %v, %v, want %v", got, err, tt.err)
				}
				if calls := [2]int{first.count(), second.count()}; calls != tt.calls {
					t.Errorf("calls %v, want %v", calls, tt.calls)
				}
				if took := time.Since(start); took < tt.took || tt.took == 0 && took > 0 {
					t.Errorf("took %s", took)
				}
			})
		})
	}
}

func TestBreakerLeavesAFailingModelOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		first, second := scripted("one", down, down, down, down, noNetwork, down, nil), scripted("two", nil)
		f := chain(t, first, second)
		ask := func(wantFirst int) {
			t.Helper()
			if _, err := f.Complete(t.Context(), hello); err != nil {
				t.Fatal(err)
			}
			if first.count() != wantFirst {
				t.Errorf("%d calls of the first model, want %d", first.count(), wantFirst)
			}
		}
		for i := range 5 {
			ask(i + 1)
		}
		ask(5) // left out
		time.Sleep(cooldown - 1)
		ask(5)
		time.Sleep(time.Nanosecond)
		ask(6) // one tries, and fails
		ask(6)
		time.Sleep(cooldown)
		ask(7) // one tries, and is answered
		ask(8)
		ask(9)
		if second.count() != 9 {
			t.Errorf("%d calls of the second model", second.count())
		}
	})
}

func TestBreakerLetsOneTry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		first, second := scripted("one", down, down, down, down, down, nil), scripted("two", nil)
		f := chain(t, first, second)
		for range 5 {
			_, _ = f.Complete(t.Context(), hello)
		}
		time.Sleep(cooldown)
		first.takes = time.Second
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() { _, _ = f.Complete(t.Context(), hello) })
		}
		wg.Wait()
		if first.count() != 6 {
			t.Errorf("%d tried at once", first.count()-5)
		}
	})
}

func TestBreakerWaitsAsLongAsTheServerAsks(t *testing.T) {
	t.Parallel()
	for asks, waits := range map[time.Duration]time.Duration{
		0: 30 * time.Second, time.Second: 30 * time.Second, 2 * time.Minute: 2 * time.Minute, 24 * time.Hour: 5 * time.Minute,
	} {
		synctest.Test(t, func(t *testing.T) {
			first, second := scripted("one", throttled(asks)), scripted("two", nil)
			f := chain(t, first, second)
			for range 5 {
				_, _ = f.Complete(t.Context(), hello)
			}
			time.Sleep(waits - 1)
			_, _ = f.Complete(t.Context(), hello)
			if first.count() != 5 {
				t.Errorf("asked before %s", waits)
			}
			time.Sleep(time.Nanosecond)
			_, _ = f.Complete(t.Context(), hello)
			if first.count() != 6 {
				t.Errorf("not asked after %s", waits)
			}
		})
	}
}

func TestBreakerCountsOnlyTheModelsTrouble(t *testing.T) {
	t.Parallel()
	for _, fault := range []error{bad, noKey, tooLong, filtered, cut, empty, malformed, tooLarge, errForeign} {
		synctest.Test(t, func(t *testing.T) {
			first := scripted("one", down, down, down, down, fault, fault, fault, fault, fault, fault, down, nil)
			f := chain(t, first, scripted("two", nil))
			for range 11 {
				_, _ = f.Complete(t.Context(), hello)
			}
			if first.count() != 11 { // left out only with the fifth that counts
				t.Errorf("%v counts: %d calls", fault, first.count())
			}
			_, _ = f.Complete(t.Context(), hello)
			if first.count() != 11 {
				t.Errorf("%v stands for an answer", fault)
			}
		})
	}
}

func TestBreakerIsClosedByAnAnswerOnly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		first := scripted("one", down, down, down, down, nil, down, down, down, down, down, bad, nil)
		f := chain(t, first, scripted("two", nil))
		for range 11 {
			_, _ = f.Complete(t.Context(), hello)
		}
		if first.count() != 10 {
			t.Errorf("%d calls: an answer starts the count anew", first.count())
		}
		time.Sleep(cooldown)
		_, _ = f.Complete(t.Context(), hello) // 400: proves nothing
		_, _ = f.Complete(t.Context(), hello) // so the next one tries
		if first.count() != 12 {
			t.Errorf("%d calls after the cooldown", first.count()-10)
		}
	})
}

func TestTheEndOfTheTurnIsNotTheModelsFault(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		first, second := scripted("one", nil), scripted("two", nil)
		first.takes = time.Minute
		f := chain(t, first, second)
		for range 6 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err := f.Complete(ctx, hello)
			cancel()
			if fault, ok := errors.AsType[*models.Error](err); !ok || fault.Kind != models.Timeout {
				t.Fatal(err)
			}
		}
		if first.count() != 6 || second.count() != 0 {
			t.Errorf("calls %d, %d", first.count(), second.count())
		}
	})
}

func TestTheLastModelIsNeverLeftOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		first, last := scripted("one", down), scripted("two", noKey)
		f, only := chain(t, first, last), chain(t, last)
		for range 10 {
			_, _ = f.Complete(t.Context(), hello)
			_, _ = only.Complete(t.Context(), hello)
		}
		if last.count() != 20 {
			t.Errorf("%d calls", last.count())
		}
		broken := scripted("three", down)
		single := chain(t, broken)
		for range 10 {
			if _, err := single.Complete(t.Context(), hello); !same(err, down) {
				t.Errorf("got %v", err)
			}
		}
		if broken.count() != 40 {
			t.Errorf("%d calls, want three retries each time", broken.count())
		}
	})
}

func TestFallbackIsVisible(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		ctx := zerolog.New(&out).Level(zerolog.InfoLevel).WithContext(t.Context())
		f := &models.Chain{
			Models: []models.Model{scripted("one", down), scripted("", noNetwork), scripted("three", nil)},
		}
		for i := range 7 {
			if i == 6 {
				time.Sleep(cooldown) // to the next try, which fails again
			}
			got, err := f.Complete(ctx, hello)
			if err != nil || got.Model != "three" {
				t.Errorf("got %v, %v", got, err)
			}
		}
		for text, times := range map[string]int{
			`"model":"one","next":"#2","reason":"unavailable","status":503`:       6,
			`"model":"#2","next":"three","reason":"unavailable","message"`:        6,
			`"model":"one","next":"#2","reason":"circuit_open","message"`:         1,
			`"level":"warn","model":"one","failures":5,"message":"model left out`: 1,
			`"level":"info"`: 14,
		} {
			if n := strings.Count(out.String(), text); n != times {
				t.Errorf("%s: %d times, want %d in\n%s", text, n, times, out.String())
			}
		}
	})
}

func TestAnEmptyChainFails(t *testing.T) {
	t.Parallel()
	if _, err := (&models.Chain{}).Complete(t.Context(), hello); err == nil {
		t.Error("an empty chain answered")
	}
}

func TestRetry(t *testing.T) {
	t.Parallel()
	const s = time.Second
	tests := []struct {
		name     string
		steps    []error
		cfg      *models.Chain
		deadline time.Duration // of ctx, 0: none
		calls    int
		err      error         // of the call, nil: it is answered
		atLeast  time.Duration // of waiting
		atMost   time.Duration
	}{
		{name: "answered", steps: []error{nil}, calls: 1},
		{name: "throttled, then answered", steps: []error{throttled(2 * s), nil}, calls: 2, atLeast: 2 * s, atMost: 2200 * time.Millisecond},
		{name: "throttled without a time", steps: []error{throttled(0), nil}, calls: 2, atLeast: 300 * time.Millisecond, atMost: s},
		{name: "down", steps: []error{down, noNetwork, gateway, nil}, calls: 4, atLeast: 2 * s, atMost: 6 * s},
		{name: "down and asks to wait", steps: []error{&models.Error{Kind: models.Unavailable, Status: 503, RetryAfter: 5 * s}, nil}, calls: 2, atLeast: 5 * s, atMost: 5500 * time.Millisecond},
		{name: "three retries", steps: []error{down}, calls: 4, err: down, atLeast: 2 * s, atMost: 6 * s},
		{name: "all of the budget", steps: []error{throttled(20 * s), nil}, calls: 2, atLeast: 20 * s, atMost: 20 * s},
		{name: "beyond the budget", steps: []error{throttled(20*s + 1), nil}, calls: 1, err: throttled(20*s + 1)},
		{name: "a day", steps: []error{throttled(86400 * s), nil}, calls: 1, err: throttled(86400 * s)},
		{name: "the budget is for all waits", steps: []error{throttled(9 * s), throttled(9 * s), throttled(9 * s), nil}, calls: 3, err: throttled(9 * s), atLeast: 18 * s, atMost: 20 * s},
		{name: "own budget", steps: []error{throttled(2 * s), nil}, cfg: &models.Chain{MaxWait: s}, calls: 1, err: throttled(2 * s)},
		{name: "no waiting", steps: []error{down, nil}, cfg: &models.Chain{MaxWait: -1}, calls: 1, err: down},
		{name: "one retry", steps: []error{down, down, nil}, cfg: &models.Chain{Retries: 1}, calls: 2, err: down, atLeast: 300 * time.Millisecond, atMost: s},
		{name: "no retry", steps: []error{down, nil}, cfg: &models.Chain{Retries: -1}, calls: 1, err: down},
		{name: "the turn ends before", steps: []error{throttled(5 * s), nil}, deadline: 5 * s, calls: 1, err: throttled(5 * s)},
		{name: "the turn ends after", steps: []error{throttled(5 * s), nil}, deadline: 6 * s, calls: 2, atLeast: 5 * s, atMost: 5500 * time.Millisecond},
		{name: "another fault after a wait", steps: []error{down, noKey, nil}, calls: 2, err: noKey, atLeast: 300 * time.Millisecond, atMost: s},
		{name: "no money", steps: []error{noMoney, nil}, calls: 1, err: noMoney},
		{name: "malformed", steps: []error{malformed, nil}, calls: 1, err: malformed},
		{name: "too large", steps: []error{tooLarge, nil}, calls: 1, err: tooLarge},
		{name: "400", steps: []error{bad, nil}, calls: 1, err: bad},
		{name: "401", steps: []error{noKey, nil}, calls: 1, err: noKey},
		{name: "too long", steps: []error{tooLong, nil}, calls: 1, err: tooLong},
		{name: "filtered", steps: []error{filtered, nil}, calls: 1, err: filtered},
		{name: "filtered answer", steps: []error{cut, nil}, calls: 1, err: cut},
		{name: "empty", steps: []error{empty, nil}, calls: 1, err: empty},
		{name: "our own timeout", steps: []error{tooSlow, nil}, calls: 1, err: tooSlow},
		{name: "not a model's fault", steps: []error{errForeign, nil}, calls: 1, err: errForeign},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				if tt.deadline > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, tt.deadline)
					defer cancel()
				}
				model, start := scripted("m", tt.steps...), time.Now()
				got, err := patient(t, model, tt.cfg).Complete(ctx, hello)
				if !same(err, tt.err) || (err == nil) == (got == nil) {
					t.Errorf("got %v, %v, want %v", got, err, tt.err)
				}
				if model.count() != tt.calls {
					t.Errorf("%d calls, want %d", model.count(), tt.calls)
				}
				if took := time.Since(start); took < tt.atLeast || took > tt.atMost {
					t.Errorf("waited %s, want %s to %s", took, tt.atLeast, tt.atMost)
				}
			})
		})
	}
}

// same compares by text: the fault must come through untouched.
func same(a, b error) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return a.Error() == b.Error()
}

func TestRetryWaitsGrowAndDiffer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		seen := map[time.Duration]bool{}
		for range 8 {
			model := scripted("m", down)
			_, _ = patient(t, model, &models.Chain{}).Complete(t.Context(), hello)
			first, second, third := model.times[1].Sub(model.times[0]), model.times[2].Sub(model.times[1]), model.times[3].Sub(model.times[2])
			if first >= second || second >= third {
				t.Errorf("waits %s, %s, %s", first, second, third)
			}
			seen[first] = true
		}
		if len(seen) == 1 {
			t.Error("no jitter: who was refused together comes back together")
		}
	})
}

func TestRetryEndsWithTheCaller(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(3*time.Second, cancel)
		model, start := scripted("m", throttled(10*time.Second), nil), time.Now()
		_, err := patient(t, model, &models.Chain{}).Complete(ctx, hello)
		if !errors.Is(err, context.Canceled) || time.Since(start) != 3*time.Second || model.count() != 1 {
			t.Errorf("%v after %s and %d calls", err, time.Since(start), model.count())
		}
		if fault, ok := errors.AsType[*models.Error](err); ok {
			t.Errorf("a cancelled call is no fault of the model: %v", fault)
		}
	})
}

func TestRetryLogsItsWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		ctx := zerolog.New(&out).Level(zerolog.InfoLevel).WithContext(t.Context())
		_, _ = patient(t, scripted("gpt", throttled(2*time.Second), noNetwork, nil), &models.Chain{}).Complete(ctx, hello)
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != 2 || !strings.Contains(lines[0], `"kind":"throttled","status":429,"attempt":1,"wait":2`) || !strings.Contains(lines[1], `"model":"gpt"`) {
			t.Errorf("log %s", out.String())
		}
	})
}

func TestRetryOverHTTP(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	b := setup(t, func(w http.ResponseWriter, r *http.Request) {
		if calls.Add(1) == 1 {
			answer(429, `{"error":{"message":"slow down","code":"rate_limit_exceeded"}}`, "Retry-After-Ms", "1")(w, r)
			return
		}
		answer(200, completion)(w, r)
	}, nil)
	got, err := patient(t, b.model, &models.Chain{}).Complete(t.Context(), hello)
	if err != nil || got.Text != `{"type":"plan"}` || calls.Load() != 2 {
		t.Errorf("got %v, %v after %d calls", got, err, calls.Load())
	}
}

// talk writes messages: s, u and a are the roles, then a text; n bytes of it when
// it is a number of dots. c is a call with these arguments, t its answer.
func talk(lines ...string) []models.Message {
	role := map[byte]string{'s': "system", 'u': "user", 'a': "assistant", 'c': "assistant", 't': "tool"}
	out := make([]models.Message, len(lines))
	for i, l := range lines {
		out[i] = models.Message{Role: role[l[0]], Text: l[2:]}
		switch l[0] {
		case 'c':
			out[i].Text, out[i].Calls = "", []models.Call{{ID: "1", Name: "f", Arguments: l[2:]}}
		case 't':
			out[i].CallID = "1"
		}
	}
	return out
}

func TestTrim(t *testing.T) {
	t.Parallel()
	long := strings.Repeat(".", 100)
	tests := []struct {
		name     string
		messages []models.Message
		want     []models.Message // nil: not asked again
	}{
		{"older turns go", talk("s rules", "u 1"+long, "a 1"+long, "u 2"+long, "a 2"+long, "u 3", "a 3", "s now", "u hi"), talk("s rules", "s now", "u hi")},
		{"turns go whole", talk("s rules", "u 1", "a 1"+long, "u 2"+long, "a 2", "u hi"), talk("s rules", "u hi")},
		{"one turn too long", talk("s rules", "u 1"+long, "a 1", "u hi"), talk("s rules", "u hi")},
		{"a repair stays", talk("s rules", "u 1", "a 1", "u hi", "a bad", "s wrong"), talk("s rules", "u hi", "a bad", "s wrong")},
		{"results stay", talk("s rules", "s more", "u 1", "a 1", "s now", "u hi", "s results"), talk("s rules", "s more", "s now", "u hi", "s results")},
		{"rounds of this turn stay", talk("s rules", "u 1", "a 1", "u hi", "c {}", "t 1"+long, "c {}"+long, "t 2", "s now"), talk("s rules", "u hi", "c {}", "t 1"+long, "c {}"+long, "t 2", "s now")},
		{"rounds go with their turn", talk("u 1", "c {}", "t 1"+long, "a 1"+long, "u 2", "c {}", "t 2", "a 2", "u hi"), talk("u hi")},
		{"calls count", talk("u 1", "a 1"+long, "u 2", "c {}"+long, "t 2", "u hi"), talk("u hi")},
		{"answers without their turn go", talk("s rules", "c {}", "t 1", "a 1", "u hi"), talk("s rules", "u hi")},
		{
			"what was found is no question", talk("s rules", "u 1"+long, "a 1", "u hi", "a thinks", "s "+models.PlanResults+"- see below", "u one", "u two"),
			talk("s rules", "u hi", "a thinks", "s "+models.PlanResults+"- see below", "u one", "u two"),
		},
		{"no instructions", talk("u 1", "a 1", "u hi"), talk("u hi")},
		{"no history", talk("s rules", "s now", "u hi"+long), nil},
		{"nobody spoke", talk("s rules", "a hi"), nil},
		{"only the system", talk("s rules", "s more"), nil},
		{"nothing", nil, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			model, temp := scripted("m", tooLong, nil), 0.5
			req := &models.Request{Messages: tt.messages, MaxTokens: 7, Temperature: &temp, Format: &models.Format{}}
			before := clone(t, req)
			got, err := patient(t, model, &models.Chain{Retries: -1}).Complete(t.Context(), req)
			if tt.want == nil {
				if !same(err, tooLong) || model.count() != 1 {
					t.Errorf("got %v, %v after %d calls", got, err, model.count())
				}
				return
			}
			if err != nil || model.count() != 2 {
				t.Fatalf("got %v, %v after %d calls", got, err, model.count())
			}
			want := models.Request{Messages: tt.want, MaxTokens: 7, Temperature: &temp, Format: &models.Format{}}
			if diff := cmp.Diff(want, model.calls[1]); diff != "" {
				t.Error(diff)
			}
			if before != clone(t, req) {
				t.Error("the request was changed")
			}
		})
	}
}

func TestTrimOnlyOnceAndOnlyWhenTooLong(t *testing.T) {
	t.Parallel()
	req := &models.Request{Messages: talk("s rules", "u 1", "a 1", "u 2", "a 2", "u hi")}
	for _, tt := range []struct {
		steps []error
		calls int
		err   error
	}{
		{[]error{nil}, 1, nil},
		{[]error{tooLong, tooLong, nil}, 2, tooLong},
		{[]error{tooLong, noKey, nil}, 2, noKey},
		{[]error{down, nil}, 1, down},
		{[]error{bad, nil}, 1, bad},
	} {
		model := scripted("m", tt.steps...)
		if _, err := patient(t, model, &models.Chain{Retries: -1}).Complete(t.Context(), req); !same(err, tt.err) || model.count() != tt.calls {
			t.Errorf("%v: %v after %d calls", tt.steps, err, model.count())
		}
	}
}

func TestTrimIsVisible(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	ctx := zerolog.New(&out).Level(zerolog.InfoLevel).WithContext(t.Context())
	_, _ = patient(t, scripted("m", tooLong, nil), &models.Chain{}).Complete(ctx, &models.Request{Messages: talk("s rules", "u secret", "a 1", "u hi")})
	if text := out.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, `"left_out":2,"of":4`) || strings.Contains(text, "secret") {
		t.Errorf("log %q", text)
	}
}

// used answers with a fixed usage.
type used models.Usage

func (u used) Complete(context.Context, *models.Request) (*models.Response, error) {
	return &models.Response{Text: "hi", Usage: models.Usage(u)}, nil
}

func TestPriced(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		usage models.Usage
		price [3]float64
		want  float64
	}{
		{models.Usage{Prompt: 1_000_000, Completion: 500_000}, [3]float64{2, 2, 8}, 6},
		{models.Usage{Prompt: 1_000_000, Cached: 500_000}, [3]float64{2, 1, 0}, 1.5},
		{models.Usage{Prompt: 1_000_000, Cached: 500_000}, [3]float64{2, 2, 0}, 2},
	} {
		answer, err := patient(t, used(test.usage), &models.Chain{Price: test.price}).Complete(t.Context(), &models.Request{})
		if err != nil || answer.Usage.Cost != test.want {
			t.Errorf("%+v at %+v: %v, %v", test.usage, test.price, answer.Usage.Cost, err)
		}
	}
	wasted := models.Usage{Completion: 500_000}
	_, err := patient(t, scripted("m", &models.Error{Kind: models.Empty, Usage: wasted}), &models.Chain{Price: [3]float64{0, 0, 8}}).Complete(t.Context(), &models.Request{})
	var fault *models.Error
	if !errors.As(err, &fault) || fault.Usage.Cost != 4 {
		t.Errorf("an empty answer: %v", err)
	}
	torn := func(tokens int) error {
		return &models.Error{Kind: models.Unavailable, RetryAfter: time.Millisecond, Usage: models.Usage{Completion: tokens}}
	}
	chain := &models.Chain{Models: []models.Model{scripted("a", torn(1)), scripted("b", torn(2), torn(4), nil)}}
	if answer, err := chain.Complete(t.Context(), &models.Request{}); err != nil || answer.Usage.Completion != 7 {
		t.Errorf("an answer after three useless ones: %+v, %v", answer, err)
	}
	chain = &models.Chain{Models: []models.Model{scripted("a", torn(1)), scripted("b", torn(2), torn(4))}, Retries: 1}
	if _, err := chain.Complete(t.Context(), &models.Request{}); !errors.As(err, &fault) || fault.Usage.Completion != 7 {
		t.Errorf("useless answers alone: %+v", fault.Usage)
	}
	if sum := (models.Usage{Cost: 1}).Add(models.Usage{Cost: 2}); sum.Cost != 3 {
		t.Errorf("sum %v", sum.Cost)
	}
}

// failing fails with a fixed error.
type failing struct{ err error }

func (f failing) Complete(context.Context, *models.Request) (*models.Response, error) {
	return nil, f.err
}

func TestObserved(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		model models.Model
		want  string
	}{
		{used{Prompt: 3}, "ok"},
		{failing{&models.Error{Kind: models.Throttled}}, "throttled"},
		{failing{context.Canceled}, "canceled"},
	} {
		var outcomes []string
		var usage models.Usage
		m := patient(t, test.model, &models.Chain{Retries: -1, Observe: func(outcome string, _ time.Duration, used models.Usage) {
			outcomes, usage = append(outcomes, outcome), used
		}})
		_, err := m.Complete(t.Context(), &models.Request{})
		if len(outcomes) != 1 || outcomes[0] != test.want || (err == nil) != (test.want == "ok") {
			t.Errorf("want %s, saw %q, %v", test.want, outcomes, err)
		}
		if fail, ok := test.model.(failing); ok && !errors.Is(err, fail.err) {
			t.Errorf("error %v", err)
		}
		if test.want == "ok" && usage.Prompt != 3 {
			t.Errorf("usage %+v", usage)
		}
	}
}

// answering always gives the same answer.
type answering struct {
	models.Response
	name string
}

func (a answering) Name() string { return a.name }

func (a answering) Complete(context.Context, *models.Request) (*models.Response, error) {
	r := a.Response
	return &r, nil
}

// traceOf asks the model within a trace and returns its spans, the model's first.
func traceOf(t *testing.T, m models.Model, req *models.Request) (tracetest.SpanStubs, error) {
	t.Helper()
	kept := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(kept))
	ctx, root := provider.Tracer("test").Start(t.Context(), "turn")
	_, err := m.Complete(ctx, req)
	root.End()
	return kept.GetSpans(), err
}

func attributes(span tracetest.SpanStub) map[string]string {
	all := map[string]string{}
	for _, a := range span.Attributes {
		all[string(a.Key)] = a.Value.String()
	}
	return all
}

func TestTracedAnswer(t *testing.T) {
	t.Parallel()
	m := patient(t, answering{models.Response{
		Text: "secret answer", Finish: "stop", Model: "gpt-5-2026",
		Usage: models.Usage{Prompt: 30, Completion: 7, Cached: 20, Reasoning: 2},
	}, "gpt-5"}, &models.Chain{})
	half := 0.5
	spans, err := traceOf(t, m, &models.Request{
		Messages: []models.Message{{Role: "user", Text: "secret question"}}, MaxTokens: 9, TopP: &half, Format: &models.Format{},
	})
	if err != nil || len(spans) != 2 {
		t.Fatalf("%v, %d spans", err, len(spans))
	}
	span := spans[0]
	if span.Name != "chat gpt-5" || span.SpanKind != trace.SpanKindClient || span.Status.Code != codes.Unset ||
		span.Parent.SpanID() != spans[1].SpanContext.SpanID() {
		t.Errorf("%+v", span)
	}
	want := map[string]string{
		"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai",
		"gen_ai.request.model": "gpt-5", "gen_ai.response.model": "gpt-5-2026", "gen_ai.response.finish_reasons": `["stop"]`,
		"gen_ai.usage.input_tokens": "30", "gen_ai.usage.output_tokens": "7",
		"gen_ai.usage.cache_read.input_tokens": "20", "gen_ai.usage.reasoning.output_tokens": "2",
	}
	if got := attributes(span); !maps.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	if strings.Contains(fmt.Sprint(spans), "secret") {
		t.Errorf("content in %v", spans)
	}
}

func TestTracedFault(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		err  error
		want map[string]string
	}{
		{&models.Error{Kind: models.Throttled, Status: 429, Said: "secret"}, map[string]string{"error.type": "throttled"}},
		{&models.Error{Kind: models.Filtered, Usage: models.Usage{Prompt: 3}}, map[string]string{"error.type": "filtered", "gen_ai.usage.input_tokens": "3"}},
		{fmt.Errorf("secret: %w", context.Canceled), map[string]string{"error.type": "canceled"}},
		{errors.New("secret"), map[string]string{"error.type": "_OTHER"}},
	} {
		spans, err := traceOf(t, patient(t, failing{test.err}, &models.Chain{Retries: -1}), &models.Request{})
		if !errors.Is(err, test.err) || len(spans) != 2 || spans[0].Status.Code != codes.Error || spans[0].Name != "chat #1" {
			t.Fatalf("%v, %v", err, spans)
		}
		got := attributes(spans[0])
		maps.DeleteFunc(got, func(name, _ string) bool { return strings.HasPrefix(name, "gen_ai.") && test.want[name] == "" })
		if !maps.Equal(got, test.want) {
			t.Errorf("got %v, want %v", got, test.want)
		}
		if strings.Contains(fmt.Sprint(spans), "secret") {
			t.Errorf("content in %v", spans)
		}
	}
}

func TestTracedRetryIsOneSpan(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := patient(t, scripted("m", &models.Error{Kind: models.Throttled}, nil), &models.Chain{})
		spans, err := traceOf(t, m, &models.Request{})
		if err != nil || len(spans) != 2 || spans[0].Name != "chat m" || spans[0].Status.Code != codes.Unset {
			t.Errorf("%v, %v", err, spans)
		}
	})
}

// Not parallel: it counts allocations of the whole process.
func TestUntracedCostsNothing(t *testing.T) {
	m := patient(t, &constant{}, &models.Chain{})
	req := &models.Request{}
	if n := testing.AllocsPerRun(100, func() { _, _ = m.Complete(t.Context(), req) }); n != 0 {
		t.Errorf("%v allocations without a trace", n)
	}
}

// constant gives one and the same answer.
type constant struct{ models.Response }

func (c *constant) Complete(context.Context, *models.Request) (*models.Response, error) {
	return &c.Response, nil
}
