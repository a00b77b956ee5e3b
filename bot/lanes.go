package bot

import (
	"context"
	"errors"
	"sync"
)

var (
	errBusy     = errors.New("too many turns are waiting")
	errDraining = errors.New("the bot is shutting down")
)

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
	if !exists {
		ln = &lane{}
		l.byKey[key] = ln
		l.work.Go(func() { l.run(key, ln) })
	}
	ln.jobs = append(ln.jobs, job)
	l.waiting++
	return nil
}

func (l *lanes) run(key string, ln *lane) {
	l.slots <- struct{}{}
	defer func() { <-l.slots }()
	for {
		job := l.next(key, ln)
		if job == nil {
			return
		}
		job(l.ctx)
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
		l.cancel()
		<-done
		return ctx.Err()
	}
}
