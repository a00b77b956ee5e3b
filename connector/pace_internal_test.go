package connector

// This test is inside the package to see what the pacer keeps in memory.

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

func TestPacerForgets(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer()
		for n := range 3*maxPaces + 1 {
			p.book(cadence{conversation: strconv.Itoa(n), tenant: "t" + strconv.Itoa(n)}, 0)
		}
		if n := len(p.young) + len(p.old); n > 2*maxPaces+2 {
			t.Errorf("%d paces are kept, want %d at most", n, 2*maxPaces)
		}
		time.Sleep(paceMemory)
		p.book(cadence{conversation: "a"}, 0)
		time.Sleep(paceMemory)
		p.book(cadence{conversation: "b"}, 0)
		if n := len(p.young) + len(p.old); n != 2 {
			t.Errorf("%d paces are kept after two idle hours, want those of a and b", n)
		}
	})
}

// TestPacerRemembersAnHour: a change of generations forgets nothing that still counts,
// and a conversation that goes on keeps no more than counts.
func TestPacerRemembersAnHour(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer()
		time.Sleep(paceMemory - time.Minute)
		for range 8 {
			p.book(cadence{conversation: "a"}, maxPaceWait)
		}
		time.Sleep(paceMemory - time.Second)
		p.book(cadence{conversation: "b"}, 0) // turns the generations
		b, _ := p.book(cadence{conversation: "a"}, 0)
		if n := len(b.shares[0].at); n != 9 {
			t.Errorf("%d of 9 requests count", n)
		}
		for range 5000 {
			time.Sleep(time.Second)
			b, _ = p.book(cadence{conversation: "a"}, maxPaceWait)
		}
		if n := len(b.shares[0].at); n > 1900 {
			t.Errorf("%d requests are kept, want those of an hour, and the ones that wait", n)
		}
	})
}
