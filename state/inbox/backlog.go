package inbox

import "sync"

// backlog counts the records in all queues. It combines the count of the last sweep with what this
// process has done since. The count is exact if this is the only process, and up to five seconds late
// about others. It costs no round trip.
type backlog struct {
	mu    sync.Mutex
	rest  int64 // records that the tally does not include
	tally tally
}

// tally counts calls that add and remove records.
type tally struct {
	accepting, accepted int64 // in flight, and known to have arrived
	ending, ended       int64
}

// size is the number of records, including those still being added.
func (b *backlog) size() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return int(b.records())
}

func (b *backlog) records() int64 {
	return max(b.rest+b.tally.accepted+b.tally.accepting-b.tally.ended, 0)
}

// enter reserves room for a record if there are fewer than limit or it is unbounded. The caller
// reports the outcome with entered.
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

// leave reports that a record is about to be removed. left reports whether it was.
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

// counted corrects rest with a count that started at the tally from. It cannot know which calls in
// flight the count includes, so rest changes only as far as it must.
func (b *backlog) counted(records int64, from tally) {
	b.mu.Lock()
	defer b.mu.Unlock()
	most := b.tally.accepted + b.tally.accepting - from.ended
	least := from.accepted - b.tally.ended - b.tally.ending
	b.rest = min(max(b.rest, records-most), records-least)
}
