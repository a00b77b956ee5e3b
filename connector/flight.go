package connector

import (
	"context"
	"sync"
)

// flight runs one thing at a time, for everyone who waits for it. What runs
// outlives the caller that started it and ends with the flight's owner, who
// waits for it in close.
type flight struct {
	ctx    context.Context // the owner's life, not a request's
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex
	running chan struct{}
}

func newFlight() *flight {
	ctx, cancel := context.WithCancel(context.Background())
	return &flight{ctx: ctx, cancel: cancel}
}

// join returns a channel that is closed when the run in progress ends. With
// none in progress it starts one when due says so; else it returns nil. What
// run changed is visible to the next due.
func (f *flight) join(due func() bool, run func(context.Context)) <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.running != nil {
		return f.running
	}
	if f.ctx.Err() != nil || !due() {
		return nil
	}
	done := make(chan struct{})
	f.running = done
	f.wg.Go(func() {
		defer f.land(done)
		run(f.ctx)
	})
	return done
}

func (f *flight) land(done chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.running = nil
	close(done)
}

// close ends what runs and waits for it. Nothing starts afterwards.
func (f *flight) close() {
	f.mu.Lock()
	f.cancel()
	f.mu.Unlock()
	f.wg.Wait()
}
