//go:build unix && !solaris && !illumos && !aix

package console

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"

	"golang.org/x/sys/unix"
)

// input reads a file so that a wait can be ended: reads of a terminal and of
// an inherited pipe know no deadline.
type input struct {
	file         *os.File
	wake, waking *os.File // wake becomes readable when waking is closed
	once         sync.Once
}

func newInput(f *os.File) (*input, error) {
	wake, waking, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	in := &input{file: f, wake: wake, waking: waking}
	if fd := max(int(f.Fd()), int(wake.Fd())); fd >= unix.FD_SETSIZE {
		return nil, errors.Join(fmt.Errorf("file descriptor %d is too high to wait for", fd), in.close())
	}
	return in, nil
}

// Read returns io.EOF once interrupted.
func (in *input) Read(p []byte) (int, error) {
	for {
		var ready unix.FdSet
		file, wake := int(in.file.Fd()), int(in.wake.Fd())
		ready.Set(file)
		ready.Set(wake)
		_, err := unix.Select(max(file, wake)+1, &ready, nil, nil, nil)
		switch {
		case errors.Is(err, unix.EINTR): // a signal, such as a new size
		case err != nil:
			return 0, os.NewSyscallError("select", err)
		case ready.IsSet(wake):
			return 0, io.EOF
		default:
			return in.file.Read(p)
		}
	}
}

func (in *input) interrupt() { in.once.Do(func() { _ = in.waking.Close() }) } // nothing was written

// close is called when no Read is under way.
func (in *input) close() error {
	in.interrupt()
	return in.wake.Close()
}

// watchSize calls changed when the window got another size, until the returned
// function is called.
func watchSize(changed func()) (stop func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGWINCH)
	var watch sync.WaitGroup
	watch.Go(func() {
		for range signals {
			changed()
		}
	})
	return func() {
		signal.Stop(signals)
		close(signals)
		watch.Wait()
	}
}
