package console

import (
	"io"
	"sync"
)

// Logs is a writer for the log of a process that also runs a console: while a
// terminal is being edited its lines show above the line being typed, else they
// go to Out. It may be used concurrently and must not be copied. A nil *Logs in
// a [Config] is fine.
type Logs struct {
	Out io.Writer // nil: dropped

	mu    sync.Mutex
	above io.Writer // the terminal being edited
	mute  bool
}

// Mute drops what is written from now on: once a person has left, nobody wants
// to read how the turn ended that they left in the middle of.
func (l *Logs) Mute() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mute = true
}

// Write writes whole lines. Its errors are those of the writer behind it.
func (l *Logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.mute:
		return len(p), nil
	case l.above != nil:
		return l.above.Write(p)
	case l.Out != nil:
		return l.Out.Write(p)
	default:
		return len(p), nil
	}
}

// attach sends the lines through s, if it edits, until the returned function
// is called.
func (l *Logs) attach(s screen) (detach func()) {
	t, edits := s.(*terminal)
	if l == nil || !edits {
		return func() {}
	}
	l.set(t.line)
	return func() { l.set(nil) }
}

func (l *Logs) set(w io.Writer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.above = w
}
