package app

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const (
	// gcPercent lets a small heap grow to five times of what is live: turns leave little
	// behind, and collecting it often costs more than the memory does.
	gcPercent = 400
	// ampleMemory is what the Go runtime may use before garbage is collected more often.
	ampleMemory = 64 << 20
	// otherMemory is about what the runtime needs beside heap and stacks.
	otherMemory = 8 << 20
)

// tuneGC lets the heap grow fast while it is small, and little when it is large: with
// hundreds of turns at work, garbage would be most of it. GOGC or GOMEMLIMIT in the
// environment win.
func tuneGC() {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	debug.SetGCPercent(gcPercent)
	limit := int64(ampleMemory)
	debug.SetMemoryLimit(limit)
	samples := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	afterEachGC(func() {
		metrics.Read(samples)
		next := memoryLimit(samples[0].Value.Uint64() + samples[1].Value.Uint64())
		if max(next-limit, limit-next) > limit/16 { // setting it stops the world for a moment
			limit = next
			debug.SetMemoryLimit(limit)
		}
	})
}

// memoryLimit leaves room for half as much garbage as is live in heap and stacks. A limit that
// stayed where it is would be a trap: a heap that outgrows it is collected without end.
func memoryLimit(live uint64) int64 {
	return max(ampleMemory, int64(min(live, 1<<50))*3/2+otherMemory)
}

// afterEachGC calls f when the collector has found that nobody holds the sentinel.
func afterEachGC(f func()) {
	sentinel := new([64]byte) // not so small that it shares its place with others
	runtime.AddCleanup(sentinel, func(f func()) {
		f()
		afterEachGC(f)
	}, f)
}
