package main

import (
	"math"
	"runtime"
	"runtime/debug"
	"testing"
)

func TestMemoryLimit(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ liveMiB, want uint64 }{
		{0, 64},
		{30, 64},
		{48, 80},
		{1000, 1508},
	} {
		if got := memoryLimit(tt.liveMiB << 20); got != int64(tt.want<<20) {
			t.Errorf("%d MiB live: a limit of %d MiB, want %d", tt.liveMiB, got>>20, tt.want)
		}
	}
	if memoryLimit(math.MaxUint64) < 0 {
		t.Error("the limit overflows")
	}
}

// TestTuneGC is not parallel: it sets what is the whole process'.
func TestTuneGC(t *testing.T) {
	was := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(was)
	live := make([]byte, ampleMemory)
	runtime.GC()
	newGCTuner().tune()
	runtime.KeepAlive(live)
	if got := debug.SetMemoryLimit(-1); got < ampleMemory*3/2 || got == was {
		t.Errorf("the limit is %d with %d bytes live", got, len(live))
	}
}

func TestAfterEachGC(t *testing.T) {
	t.Parallel()
	called := make(chan struct{}, 1)
	afterEachGC(func() {
		select {
		case called <- struct{}{}:
		default:
		}
	})
	for range 3 {
		runtime.GC()
		<-called
	}
}
