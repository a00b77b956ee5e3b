package statetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/planbot-go/planbot/state"
)

// testReplicas lets two replicas take in and work on the items of some lanes;
// now and then one lets go of a lane, or forgets it as a crash does. Every item is
// finished once, in the order in which its lane took it in.
func testReplicas(t *testing.T, b *inboxBundle) {
	const lanes, items = 4, 12
	w := &work{b: b, done: map[state.Lane][]string{}, ended: make(chan struct{}), left: lanes * items}
	var accepts sync.WaitGroup
	replicas := []*state.Inbox{
		b.inbox(state.InboxConfig{Lease: shortLease, Name: "same"}), b.inbox(state.InboxConfig{Lease: shortLease, Name: "same"}),
	}
	for _, in := range replicas {
		b.run(in)
	}
	for l := range lanes {
		lane := b.conversation(fmt.Sprint(l)).Lane("")
		b.desk.put(lane, func() { w.ready(replicas[rand.IntN(2)], lane) })
		accepts.Go(func() {
			for i := range items {
				w.accept(replicas[i%2], lane, fmt.Sprint(i))
			}
		})
	}
	accepts.Wait()
	<-w.ended
	w.turns.Wait()
	if len(w.done) != lanes {
		t.Fatalf("%d lanes were worked on", len(w.done))
	}
	for lane, done := range w.done {
		w.lost -= len(done)
		done = slices.Compact(done)
		for i := range items {
			if len(done) != items || done[i] != fmt.Sprint(i) {
				t.Fatalf("%s was worked on in the order %v", lane, done)
			}
		}
	}
	if w.lost != -lanes*items {
		t.Errorf("%d items were worked on twice", -lanes*items-w.lost)
	}
}

type work struct {
	b     *inboxBundle
	turns sync.WaitGroup
	ended chan struct{}

	mu   sync.Mutex
	done map[state.Lane][]string
	left int // items to be finished
	lost int // items that were worked on twice
}

func (w *work) accept(in *state.Inbox, lane state.Lane, body string) {
	e := w.b.entry(body)
	e.Lane, e.Take = lane, rand.IntN(4) > 0
	e.Duplicates = []state.Duplicate{{ID: body}}
	for range 3 { // a channel that sends thrice
		receipt, err := in.Accept(w.b.t.Context(), e)
		if err != nil {
			w.b.t.Errorf("accept: %v", err)
			return
		}
		if h := receipt.Hold; h != nil {
			w.turns.Go(func() { w.work(h) })
		}
		e.Turn += "x"
	}
}

func (w *work) ready(in *state.Inbox, lane state.Lane) {
	h, err := in.Claim(context.Background(), lane)
	if err != nil {
		w.b.t.Errorf("claim: %v", err)
	}
	if h != nil {
		w.turns.Go(func() { w.work(h) })
	}
}

func (w *work) work(h *state.Hold) {
	for more := true; more; {
		switch rand.IntN(12) {
		case 0:
			if err := h.Release(context.Background(), 0); err != nil {
				w.b.t.Errorf("release: %v", err)
			}
			return
		case 1:
			ended, cancel := context.WithCancel(context.Background())
			cancel()
			_ = h.Release(ended, 0) // nobody is told: the lease runs out
			return
		}
		w.works(h)
		var err error
		if more, err = h.Finish(context.Background(), nil); err != nil {
			w.failed(err)
			return
		}
		w.finished()
	}
}

func (w *work) works(h *state.Hold) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done[h.Lane()] = append(w.done[h.Lane()], string(h.Item().Body))
}

// failed: on a machine that is slow a lease may run out.
func (w *work) failed(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lost++
	if !errors.Is(err, state.ErrLost) {
		w.b.t.Errorf("finish: %v", err)
	}
}

func (w *work) finished() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.left--; w.left == 0 {
		close(w.ended)
	}
}
