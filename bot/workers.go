package bot

import (
	"context"
	"errors"
	"sync"
	"time"
)

var (
	errDraining = errors.New("the bot is shutting down")
	errStuck    = errors.New("turns do not end although they were cancelled")
)

// cutOffGrace is what is left for turns that were cancelled at the end of the
// drain time.
const cutOffGrace = time.Second

// workers bound the lanes at work in this process, and wait for them at its end.
type workers struct {
	slots chan struct{}   // one per lane that may be at work
	ctx   context.Context // ends with the last turn, not with a request
	cut   context.CancelFunc
	last  context.Context // ends a moment after ctx: for what leaves then
	end   context.CancelFunc

	mu     sync.Mutex
	closed bool
	work   sync.WaitGroup // one per lane at work
}

func newWorkers(atOnce int) *workers {
	w := &workers{slots: make(chan struct{}, atOnce)}
	w.last, w.end = context.WithCancel(context.Background())
	w.ctx, w.cut = context.WithCancel(w.last)
	return w
}

// tryEnter takes a slot, if there is one and the bot is not draining. Who has one
// gives it back with leave.
func (w *workers) tryEnter() bool {
	select {
	case w.slots <- struct{}{}:
		return w.begin()
	default:
		return false
	}
}

// enter waits for a slot. It is false when the bot is draining or ctx ends.
func (w *workers) enter(ctx context.Context) bool {
	select {
	case w.slots <- struct{}{}:
		return w.begin()
	case <-ctx.Done():
		return false
	}
}

func (w *workers) begin() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		<-w.slots
		return false
	}
	w.work.Add(1)
	return true
}

func (w *workers) leave() {
	<-w.slots
	w.work.Done()
}

// yield lets a lane that waits for a slot go first, so that busy conversations do
// not keep others out.
func (w *workers) yield() {
	<-w.slots
	w.slots <- struct{}{}
}

func (w *workers) closing() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.closed
}

// drain lets no lane begin any more and waits for those at work. When ctx ends
// first it cancels them.
func (w *workers) drain(ctx context.Context) error {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	done := make(chan struct{})
	go func() {
		w.work.Wait()
		close(done)
	}()
	defer w.end()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	w.cut()
	after := context.WithoutCancel(ctx)
	if wait(after, cutOffGrace/2, done) {
		return ctx.Err()
	}
	w.end()
	if wait(after, cutOffGrace/2, done) {
		return ctx.Err()
	}
	return errors.Join(ctx.Err(), errStuck)
}

// outlive returns a context that goes on for the given time after that of a
// turn has ended, but for a moment only once the turns are cut off.
func (w *workers) outlive(ctx context.Context, atMost time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), atMost)
	stop := context.AfterFunc(w.last, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}
