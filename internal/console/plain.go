package console

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
)

// maxLine is the longest line of a pipe that is a message.
const maxLine = 256 << 10

// plain is a screen without a terminal: lines in, lines out.
type plain struct {
	in    *input
	lines *bufio.Scanner

	mu  sync.Mutex // held while writing
	out io.Writer
	err error // the first failure to write
}

func newPlain(in *input, out io.Writer) *plain {
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 0, 4<<10), maxLine)
	return &plain{in: in, lines: lines, out: out}
}

// read passes blank lines over.
func (p *plain) read() (string, error) {
	for p.lines.Scan() {
		if line := strings.TrimSpace(p.lines.Text()); line != "" {
			return line, nil
		}
	}
	if err := p.lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return "", fmt.Errorf("a line is longer than %d KiB", maxLine>>10)
	} else if err != nil {
		return "", err
	}
	return "", io.EOF
}

func (p *plain) interrupt()       { p.in.interrupt() }
func (p *plain) say(text string)  { p.print(text) }
func (p *plain) note(text string) { p.print("(" + text + ")") }
func (*plain) working(bool)       {}
func (*plain) ahead() int         { return 0 }

func (p *plain) print(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		_, p.err = fmt.Fprintln(p.out, text)
	}
}

func (p *plain) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	err := p.in.close()
	if p.err != nil {
		return fmt.Errorf("show the conversation: %w", p.err)
	}
	return err
}
