package models_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/models"
)

func chain(t testing.TB, members ...*script) *models.Fallback {
	t.Helper()
	cfg := models.FallbackConfig{}
	for _, m := range members {
		cfg.Models = append(cfg.Models, models.Link{Model: m})
	}
	f, err := models.NewFallback(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return f
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

func TestFallbackOwnParameters(t *testing.T) {
	t.Parallel()
	asked, own := 0.7, 0.1
	first, second, third := scripted("one", down), scripted("two", down), scripted("three", nil)
	f, err := models.NewFallback(models.FallbackConfig{Models: []models.Link{
		{Model: first}, {Model: second, MaxTokens: 10}, {Model: third, Temperature: &own},
	}})
	if err != nil {
		t.Fatal(err)
	}
	req := &models.Request{Messages: hello.Messages, MaxTokens: 99, Temperature: &asked}
	if _, err := f.Complete(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	for _, m := range []struct {
		model *script
		max   int
		temp  float64
	}{{first, 99, asked}, {second, 10, asked}, {third, 99, own}} {
		if got := m.model.calls[0]; got.MaxTokens != m.max || *got.Temperature != m.temp || len(got.Messages) != 2 {
			t.Errorf("%s was asked with %+v", m.model.name, got)
		}
	}
	if req.MaxTokens != 99 || *req.Temperature != asked {
		t.Errorf("the request was changed: %+v", req)
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
		time.Sleep(models.DefaultBreakerCooldown - 1)
		ask(5)
		time.Sleep(time.Nanosecond)
		ask(6) // one tries, and fails
		ask(6)
		time.Sleep(models.DefaultBreakerCooldown)
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
		time.Sleep(models.DefaultBreakerCooldown)
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
		time.Sleep(models.DefaultBreakerCooldown)
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

func TestBreakerCanBeSwitchedOff(t *testing.T) {
	t.Parallel()
	first, second := scripted("one", down), scripted("two", nil)
	f, err := models.NewFallback(models.FallbackConfig{
		Models:  []models.Link{{Model: first}, {Model: second}},
		Breaker: models.BreakerConfig{Failures: -1},
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		_, _ = f.Complete(t.Context(), hello)
	}
	if first.count() != 20 {
		t.Errorf("%d calls", first.count())
	}
}

func TestFallbackIsVisible(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		ctx := zerolog.New(&out).Level(zerolog.InfoLevel).WithContext(t.Context())
		f, err := models.NewFallback(models.FallbackConfig{
			Models:  []models.Link{{Model: scripted("one", down)}, {Model: scripted("", noNetwork)}, {Model: scripted("three", nil), Name: "own"}},
			Breaker: models.BreakerConfig{Failures: 2},
		})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 4 {
			if i == 3 {
				time.Sleep(models.DefaultBreakerCooldown) // to the next try, which fails again
			}
			got, err := f.Complete(ctx, hello)
			if err != nil || got.Model != "three" {
				t.Errorf("got %v, %v", got, err)
			}
		}
		for text, times := range map[string]int{
			`"model":"one","next":"#2","reason":"unavailable","status":503`:       3,
			`"model":"#2","next":"own","reason":"unavailable","message"`:          3,
			`"model":"one","next":"#2","reason":"circuit_open","message"`:         1,
			`"level":"warn","model":"one","failures":2,"message":"model left out`: 1,
			`"level":"info"`: 8,
		} {
			if n := strings.Count(out.String(), text); n != times {
				t.Errorf("%s: %d times, want %d in\n%s", text, n, times, out.String())
			}
		}
	})
}

func TestFallbackConfigListsEveryMistake(t *testing.T) {
	t.Parallel()
	if f, err := models.NewFallback(models.FallbackConfig{}); err == nil || f != nil {
		t.Error("an empty chain was accepted")
	}
	f, err := models.NewFallback(models.FallbackConfig{Models: []models.Link{{}, {Model: models.Offline{}}, {Name: "x"}}})
	if err == nil || f != nil || !strings.Contains(err.Error(), "Models[0]") || !strings.Contains(err.Error(), "Models[2]") || strings.Contains(err.Error(), "Models[1]") {
		t.Errorf("got %v", err)
	}
}
