//go:build !unix || solaris || illumos || aix

package console

import (
	"io"
	"os"
	"sync"
)

// input reads a file so that a wait can be ended. Here a read cannot be: one
// that is under way is left to the end of the process, which is near.
type input struct {
	file *os.File
	gone chan struct{}
	once sync.Once
	next chan struct{} // asks for a read
	got  chan chunk
	rest []byte // read, not yet taken
}

type chunk struct {
	data []byte
	err  error
}

func newInput(f *os.File) (*input, error) {
	in := &input{file: f, gone: make(chan struct{}), next: make(chan struct{}), got: make(chan chunk, 1)}
	go in.pump()
	return in, nil
}

// pump reads ahead of nobody: only when asked.
func (in *input) pump() {
	for {
		select {
		case <-in.gone:
			return
		case <-in.next:
		}
		buf := make([]byte, 1<<10)
		n, err := in.file.Read(buf)
		in.got <- chunk{buf[:n], err}
	}
}

// Read is for one caller. It returns io.EOF once interrupted.
func (in *input) Read(p []byte) (int, error) {
	if len(in.rest) == 0 {
		if err := in.wait(); err != nil {
			return 0, err
		}
	}
	n := copy(p, in.rest)
	in.rest = in.rest[n:]
	return n, nil
}

func (in *input) wait() error {
	select {
	case <-in.gone:
		return io.EOF
	case in.next <- struct{}{}:
	}
	select {
	case <-in.gone:
		return io.EOF
	case c := <-in.got:
		in.rest = c.data
		if len(c.data) > 0 {
			return nil // an error comes back with the next read
		}
		return c.err
	}
}

func (in *input) interrupt() { in.once.Do(func() { close(in.gone) }) }

func (in *input) close() error {
	in.interrupt()
	return nil
}

// watchSize does nothing: no signal tells of a new size here.
func watchSize(func()) (stop func()) { return func() {} }
