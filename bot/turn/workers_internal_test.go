package turn

// Inside the package: what workers wait for cannot be seen from outside
// without waiting for real time.

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestWorkersHaveLimitsAndAreFair(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorkers(1)
		if !w.tryEnter() || w.tryEnter() {
			t.Fatal("want one slot")
		}
		entered := false
		go func() {
			entered = w.enter(t.Context())
			w.leave()
		}()
		synctest.Wait()
		w.yield()
		if !entered {
			t.Error("who waited did not go first")
		}
		w.leave()
		if err := w.drain(t.Context()); err != nil {
			t.Error(err)
		}
		if w.tryEnter() || w.enter(t.Context()) {
			t.Error("entered after the drain")
		}
	})
}

func TestDrainCancelsAtTheEndOfItsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorkers(2)
		w.tryEnter()
		w.tryEnter()
		stuck := make(chan struct{})
		go func() {
			<-w.ctx.Done()
			w.leave()
		}()
		go func() {
			<-stuck
			w.leave()
		}()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		if err := w.drain(ctx); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, errStuck) {
			t.Errorf("drain: %v", err)
		}
		if took := time.Since(began); took != time.Minute+cutOffGrace {
			t.Errorf("drain took %v", took)
		}
		close(stuck)
	})
}
