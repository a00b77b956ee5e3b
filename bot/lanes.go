package bot

import (
	"context"
	"errors"
	"sync"
	"time"
)

var (
	errBusy     = errors.New("too many turns are waiting")
	errDraining = errors.New("the bot is shutting down")
	errStuck    = errors.New("turns do not end although they were cancelled")
)

// cutOffGrace is what is left for turns that were cancelled at the end of the
// drain time.
const cutOffGrace = time.Second

type limits struct{ running, waiting, perLane int }

// lanes run the turns of one conversation one after another, in the order of
// their arrival, and those of different conversations at once.
type lanes struct {
	limits limits
	slots  chan struct{} // one per turn that may run at once
	ctx    context.Context
	cancel context.CancelFunc

	mu      sync.Mutex
	byKey   map[string]*lane
	waiting int
	closed  bool
	work    sync.WaitGroup // one per lane that has turns
}

type lane struct{ jobs []func(context.Context) }

func newLanes(l limits) *lanes {
	ctx, cancel := context.WithCancel(context.Background()) // ends with the last turn, not with a request
	return &lanes{limits: l, slots: make(chan struct{}, l.running), ctx: ctx, cancel: cancel, byKey: map[string]*lane{}}
}

// add queues the job in the lane of key. The job's context ends when the lanes
// are drained past their time. It returns errBusy or errDraining, and then the
// job will not run.
func (l *lanes) add(key string, job func(context.Context)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return errDraining
	}
	ln, exists := l.byKey[key]
	if l.waiting >= l.limits.waiting || exists && len(ln.jobs) >= l.limits.perLane {
		return errBusy
	}
	l.push(key, job)
	return nil
}

// behind queues a job that belongs to the one that the caller is running: no limit
// refuses it, and no drain.
func (l *lanes) behind(key string, job func(context.Context)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.push(key, job)
}

func (l *lanes) push(key string, job func(context.Context)) {
	ln, exists := l.byKey[key]
	if !exists {
		ln = &lane{}
		l.byKey[key] = ln
		l.work.Go(func() { l.run(key, ln) })
	}
	ln.jobs = append(ln.jobs, job)
	l.waiting++
}

// run does the lane's jobs. It gives its slot back after each, so that busy
// conversations do not keep others out.
func (l *lanes) run(key string, ln *lane) {
	for {
		l.slots <- struct{}{}
		job := l.next(key, ln)
		if job != nil {
			job(l.ctx)
		}
		<-l.slots
		if job == nil {
			return
		}
	}
}

// next takes the lane's next job, or removes the lane when there is none.
func (l *lanes) next(key string, ln *lane) func(context.Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(ln.jobs) == 0 {
		delete(l.byKey, key)
		return nil
	}
	job := ln.jobs[0]
	ln.jobs[0] = nil // what it holds on to can go
	ln.jobs = ln.jobs[1:]
	l.waiting--
	return job
}

func (l *lanes) closing() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

func (l *lanes) drain(ctx context.Context) error {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	done := make(chan struct{})
	go func() {
		l.work.Wait()
		close(done)
	}()
	defer l.cancel()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	l.cancel()
	if !wait(context.WithoutCancel(ctx), cutOffGrace, done) {
		return errors.Join(ctx.Err(), errStuck)
	}
	return ctx.Err()
}

// outlive returns a context that goes on for the given time after that of a
// turn has ended, but for a moment only once the turns are cut off.
func (l *lanes) outlive(ctx context.Context, atMost time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), atMost)
	stop := context.AfterFunc(l.ctx, func() {
		wait(ctx, cutOffGrace/2, nil)
		cancel()
	})
	return ctx, func() {
		stop()
		cancel()
	}
}
