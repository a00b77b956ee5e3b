package app

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const (
	// gcPercent lets a small heap grow to five times its live size: turns leave little behind, and
	// collecting it often costs more than the memory.
	gcPercent = 400
	// ampleMemory is what the Go runtime may use before garbage is collected more often.
	ampleMemory = 64 << 20
	// otherMemory is roughly what the runtime needs beside heap and stacks.
	otherMemory = 8 << 20
)

// tuneGC lets the heap grow fast while it is small, and slowly when it is large: with hundreds of
// running turns, most of it would be garbage. GOGC or GOMEMLIMIT in the environment take
// precedence.
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
		if max(next-limit, limit-next) > limit/16 { // setting it stops the world briefly
			limit = next
			debug.SetMemoryLimit(limit)
		}
	})
}

// memoryLimit leaves room for half as much garbage as there is live data in heap and stacks. A
// fixed limit would be a trap: a heap that outgrows it is collected without end.
func memoryLimit(live uint64) int64 {
	return max(ampleMemory, int64(min(live, 1<<50))*3/2+otherMemory)
}

// afterEachGC calls f after each collection, when the collector finds the sentinel unreachable.
func afterEachGC(f func()) {
	sentinel := new([64]byte) // large enough not to share its block with others
	runtime.AddCleanup(sentinel, func(f func()) {
		f()
		afterEachGC(f)
	}, f)
}
