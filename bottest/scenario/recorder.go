package scenario

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
)

// recorder is a test without package testing: it keeps the failures. It is safe for
// concurrent use.
type recorder struct {
	ctx  context.Context
	step string // at work

	mu       sync.Mutex
	failures []string
	cleanups []func()
}

// do calls f and returns also when f gives up.
func (r *recorder) do(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if p := recover(); p != nil {
				r.Errorf("panic: %v\n%s", p, debug.Stack())
			}
		}()
		f()
	}()
	<-done
}

func (r *recorder) cleanUp() {
	for {
		r.mu.Lock()
		last := len(r.cleanups) - 1
		if last < 0 {
			r.mu.Unlock()
			return
		}
		f := r.cleanups[last]
		r.cleanups = r.cleanups[:last]
		r.mu.Unlock()
		r.do(f)
	}
}

// Errorf keeps a failure.
func (r *recorder) Errorf(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	text, _, _ = strings.Cut(text, "\n\nwhat happened:") // told once, behind all failures
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.step != "" {
		text = r.step + ": " + text
	}
	r.failures = append(r.failures, text)
}

// Fatalf keeps a failure and ends the goroutine.
func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

// Failed reports whether there was a failure.
func (r *recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.failures) > 0
}

// Cleanup has f called at the end.
func (r *recorder) Cleanup(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cleanups = append(r.cleanups, f)
}

// Context ends with the bubble.
func (r *recorder) Context() context.Context { return r.ctx }

// Helper does nothing: failures name steps and not lines.
func (r *recorder) Helper() {}

// Logf does nothing.
func (r *recorder) Logf(string, ...any) {}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
