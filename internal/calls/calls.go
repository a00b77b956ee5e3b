// Package calls is what connections to other services have in common when they call them.
package calls

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/planbot-go/planbot/actions"
)

const (
	most      = 8 // at a time
	mostOfOne = 2 // of one person
)

// Slots limits how many calls run at a time. It is safe for concurrent use.
type Slots struct {
	all *semaphore.Weighted

	mu     sync.Mutex
	people map[string]*person
}

// person is somebody whose calls are under way.
type person struct {
	slots *semaphore.Weighted
	calls int // that use it
}

// NewSlots returns slots that nobody holds.
func NewSlots() *Slots {
	return &Slots{all: semaphore.NewWeighted(most), people: map[string]*person{}}
}

// Take waits until one more call may run: of that person, unless nobody is known, and of all. release ends the
// call. The error is that of ctx.
func (s *Slots) Take(ctx context.Context, who string) (release func(), err error) {
	if err := s.enter(ctx, who); err != nil {
		return nil, err
	}
	if err := s.all.Acquire(ctx, 1); err != nil {
		s.leave(who, 1)
		return nil, err
	}
	return func() {
		s.all.Release(1)
		s.leave(who, 1)
	}, nil
}

// enter takes a slot of a person.
func (s *Slots) enter(ctx context.Context, who string) error {
	if who == "" {
		return nil
	}
	s.mu.Lock()
	p := s.people[who]
	if p == nil {
		p = &person{slots: semaphore.NewWeighted(mostOfOne)}
		s.people[who] = p
	}
	p.calls++
	s.mu.Unlock()
	err := p.slots.Acquire(ctx, 1)
	if err != nil {
		s.leave(who, 0)
	}
	return err
}

// leave gives back what a call of a person holds.
func (s *Slots) leave(who string, held int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.people[who]
	if p == nil {
		return
	}
	p.slots.Release(held)
	if p.calls--; p.calls == 0 {
		delete(s.people, who)
	}
}

// PersonOf identifies the person of a turn; "": nobody is known.
func PersonOf(turn *actions.Turn) string {
	if turn == nil || turn.Activity == nil {
		return ""
	}
	tenant, _ := turn.Activity.Tenant()
	who := turn.Activity.From.AadObjectID
	if who == "" || tenant == "" {
		who = turn.Activity.ChannelID + "\n" + turn.Activity.From.ID
	}
	return tenant + "\n" + who
}

// Sleep waits, and reports whether ctx lasted.
func Sleep(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// RetryAfter reads the header of that name. said is false if it says nothing.
func RetryAfter(header http.Header) (after time.Duration, said bool) {
	text := header.Get("Retry-After")
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil || errors.Is(err, strconv.ErrRange) {
		return time.Duration(seconds) * time.Second, true
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(time.Until(at), 0), true
	}
	return 0, false
}
