package models_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/models"
)

func TestRetry(t *testing.T) {
	t.Parallel()
	const s = time.Second
	tests := []struct {
		name     string
		steps    []error
		cfg      models.RetryConfig
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
		{name: "own budget", steps: []error{throttled(2 * s), nil}, cfg: models.RetryConfig{MaxWait: s}, calls: 1, err: throttled(2 * s)},
		{name: "no waiting", steps: []error{down, nil}, cfg: models.RetryConfig{MaxWait: -1}, calls: 1, err: down},
		{name: "one retry", steps: []error{down, down, nil}, cfg: models.RetryConfig{Retries: 1}, calls: 2, err: down, atLeast: 300 * time.Millisecond, atMost: s},
		{name: "no retry", steps: []error{down, nil}, cfg: models.RetryConfig{Retries: -1}, calls: 1, err: down},
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
				got, err := models.Retry(model, tt.cfg).Complete(ctx, hello)
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
			_, _ = models.Retry(model, models.RetryConfig{}).Complete(t.Context(), hello)
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
		_, err := models.Retry(model, models.RetryConfig{}).Complete(ctx, hello)
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
		_, _ = models.Retry(scripted("gpt", throttled(2*time.Second), noNetwork, nil), models.RetryConfig{}).Complete(ctx, hello)
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
	got, err := models.Retry(b.model, models.RetryConfig{}).Complete(t.Context(), hello)
	if err != nil || got.Text != `{"type":"plan"}` || calls.Load() != 2 {
		t.Errorf("got %v, %v after %d calls", got, err, calls.Load())
	}
}
