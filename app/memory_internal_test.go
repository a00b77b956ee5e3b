package app

import (
	"math"
	"runtime"
	"testing"
)

func TestMemoryLimit(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ liveMiB, want uint64 }{{0, 64}, {30, 64}, {48, 80}, {1000, 1508}} {
		if got := memoryLimit(tt.liveMiB << 20); got != int64(tt.want<<20) {
			t.Errorf("%d MiB live: a limit of %d MiB, want %d", tt.liveMiB, got>>20, tt.want)
		}
	}
	if memoryLimit(math.MaxUint64) < 0 {
		t.Error("the limit overflows")
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
