package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const (
	// gcPercent lets a small heap grow to five times of what is live: a turn leaves
	// little behind, and a bot with little to do would collect it again and again
	// for the sake of a few MiB.
	gcPercent = 400

	// ampleMemory bounds that growth: towards it garbage is collected more often.
	// It counts all memory of the Go runtime.
	ampleMemory = 64 << 20

	// otherMemory is about what the runtime needs beside heap and stacks.
	otherMemory = 8 << 20
)

// tuneGC sets how much memory goes into collecting garbage less often. A limit of
// memory that does not move would be a trap: a heap that outgrows it is collected
// without end. So it moves with what is live, see memoryLimit. GOGC or GOMEMLIMIT in
// the environment win.
func tuneGC() {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	debug.SetGCPercent(gcPercent)
	debug.SetMemoryLimit(ampleMemory)
	afterEachGC(newGCTuner().tune)
}

// afterEachGC calls f when the collector has found that nobody holds the sentinel.
func afterEachGC(f func()) {
	sentinel := new([64]byte) // not so small that it shares its place with others
	runtime.AddCleanup(sentinel, func(f func()) {
		f()
		afterEachGC(f)
	}, f)
}

type gcTuner struct {
	samples []metrics.Sample
	limit   int64
}

func newGCTuner() *gcTuner {
	return &gcTuner{samples: []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}, limit: ampleMemory}
}

func (t *gcTuner) tune() {
	metrics.Read(t.samples)
	limit := memoryLimit(t.samples[0].Value.Uint64() + t.samples[1].Value.Uint64())
	if away := max(limit-t.limit, t.limit-limit); away > t.limit/16 { // a change stops the world for a moment
		t.limit = limit
		debug.SetMemoryLimit(limit)
	}
}

// memoryLimit leaves room for half as much garbage as is live in heap and stacks.
func memoryLimit(live uint64) int64 {
	return max(ampleMemory, int64(min(live, 1<<50))*3/2+otherMemory)
}
