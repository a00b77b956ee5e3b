//go:build linux

package chaos_test

import (
	"slices"
	"strings"
	"sync"
	"time"
)

// record takes down what happens, from many goroutines.
type record struct {
	start time.Time

	mu       sync.Mutex
	messages map[key]*delivery
	order    []key // of messages, as they were first sent
	posts    []post
	calls    []call
	faults   []fault
	alone    []key
}

// delivery is a message on its way.
type delivery struct {
	message
	answered chan struct{} // closed when all replies were shown
	got      []string
}

func newRecord() *record {
	return &record{start: time.Now(), messages: map[key]*delivery{}}
}

// now is never 0.
func (r *record) now() times { return max(1, time.Since(r.start)) }

// sends notes that a message is on its way for the first time.
func (r *record) sends(k key, as kind) *delivery {
	r.mu.Lock()
	defer r.mu.Unlock()
	d := &delivery{message: message{key: k, kind: as, sent: r.now()}, answered: make(chan struct{})}
	if as == stop { // often the turn that stops answers
		close(d.answered)
	}
	r.messages[k], r.order = d, append(r.order, k)
	return d
}

func (r *record) acknowledged(d *delivery) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if d.acked == 0 {
		d.acked = r.now()
	}
}

func (r *record) failed(d *delivery, f failure) {
	r.mu.Lock()
	defer r.mu.Unlock()
	d.failures = append(d.failures, f)
}

// arrives notes a reply, and what will be done with it.
func (r *record) arrives(p post) (index int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p.at = r.now()
	p.done = p.at
	r.posts = append(r.posts, p)
	if p.shown() {
		r.answer(p)
	}
	return len(r.posts) - 1
}

// answer closes answered with the last reply. A free one comes in one.
func (r *record) answer(p post) {
	k, _ := keyIn(strings.TrimPrefix(p.answers(), "activity-"))
	d := r.messages[k]
	if d == nil || d.kind == stop || slices.Contains(d.got, p.text) {
		return
	}
	d.got = append(d.got, p.text)
	whole := strings.Join(d.got, "") == strings.Join(d.kind.says(k), "") || d.kind == work && isHalt(p.text)
	if whole || d.kind.isFree() && len(d.got) == 1 {
		close(d.answered)
	}
}

func (r *record) done(index int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.posts[index].done = r.now()
}

func (r *record) asks(c call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c.at = r.now()
	r.calls = append(r.calls, c)
}

// worn reports whether a message was asked of the model three times, and has no
// reply: its turn has lost two processes there, and one that loses a third at the same
// place is put aside, which people are told.
func (r *record) worn() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	asked := map[key]int{}
	for _, c := range r.calls {
		asked[c.key]++
		if d := r.messages[c.key]; asked[c.key] > 2 && d != nil && len(d.got) == 0 {
			return true
		}
	}
	return false
}

// breaks notes a fault around what brings it about.
func (r *record) breaks(what string, do func()) {
	from := r.now()
	do()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults = append(r.faults, fault{what, from, r.now()})
}

// story is what was seen so far.
func (r *record) story() story {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := story{posts: slices.Clone(r.posts), calls: slices.Clone(r.calls), faults: slices.Clone(r.faults), alone: slices.Clone(r.alone)}
	for _, k := range r.order {
		m := r.messages[k].message
		m.failures = slices.Clone(m.failures)
		s.messages = append(s.messages, m)
	}
	return s
}
