package state

import "sync"

// backlog says how many items there are in all lanes, from what a sweep counted and
// from what this process has done since: exact where it is the only one, and up to a
// second late about what others do. Nothing that it counts costs a round trip.
type backlog struct {
	mu    sync.Mutex
	rest  int64 // of the items, those that the tallies do not know
	tally tally
}

// tally counts calls that put items in and take them off.
type tally struct {
	accepting, accepted int64 // under way, and known to have arrived
	ending, ended       int64
}

// least and most are what the calls have changed in Redis between the tallies from and
// to, each the net of all of them: which of those under way had arrived is not known.
func least(from, to tally) int64 { return from.accepted - to.ended - to.ending }
func most(from, to tally) int64  { return to.accepted + to.accepting - from.ended }

func (b *backlog) items() int64 {
	return max(b.rest+b.tally.accepted+b.tally.accepting-b.tally.ended, 0)
}

// size is how many items there are, those on their way here among them.
func (b *backlog) size() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return int(b.items())
}

// enter makes room for an item, if there are less than limit or it is unbounded. Who
// has it says with entered what became of it.
func (b *backlog) enter(limit int, unbounded bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !unbounded && b.items() >= int64(limit) {
		return false
	}
	b.tally.accepting++
	return true
}

func (b *backlog) entered(kept bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tally.accepting--
	if kept {
		b.tally.accepted++
	}
}

// leave says that an item is taken off, and left whether it was.
func (b *backlog) leave() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tally.ending++
}

func (b *backlog) left(gone bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tally.ending--
	if gone {
		b.tally.ended++
	}
}

func (b *backlog) now() tally {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.tally
}

// counted corrects the rest by what somebody counted who began at the tally from. What
// it may already be, in view of the calls under way, it stays.
func (b *backlog) counted(items int64, from tally) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rest = min(max(b.rest, items-most(from, b.tally)), items-least(from, b.tally))
}
