package inbox

import "sync"

// backlog says how many records there are in all queues, from what a sweep counted and
// from what this process has done since: exact where it is the only one, and up to a
// second late about what others do. Nothing that it counts costs a round trip.
type backlog struct {
	mu    sync.Mutex
	rest  int64 // of the records, those that the tally does not know
	tally tally
}

// tally counts calls that put records in and take them off.
type tally struct {
	accepting, accepted int64 // under way, and known to have arrived
	ending, ended       int64
}

// size is how many records there are, those on their way here among them.
func (b *backlog) size() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return int(b.records())
}

func (b *backlog) records() int64 {
	return max(b.rest+b.tally.accepted+b.tally.accepting-b.tally.ended, 0)
}

// enter makes room for a record, if there are less than limit or it is unbounded. Who
// has it says with entered what became of it.
func (b *backlog) enter(limit int, unbounded bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !unbounded && b.records() >= int64(limit) {
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

// leave says that a record is taken off, and left whether it was.
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

// counted corrects the rest by what somebody counted who began at the tally from. Which of
// the calls under way had arrived is not known: the rest stays where it may be right.
func (b *backlog) counted(records int64, from tally) {
	b.mu.Lock()
	defer b.mu.Unlock()
	most := b.tally.accepted + b.tally.accepting - from.ended
	least := from.accepted - b.tally.ended - b.tally.ending
	b.rest = min(max(b.rest, records-most), records-least)
}
