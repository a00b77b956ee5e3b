package console

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/term"
)

const (
	typedAhead = 64

	dim    = "\x1b[2m"
	cyan   = "\x1b[36m"
	strong = "\x1b[1m"
	reset  = "\x1b[0m"
)

// openScreen takes the terminal if there is one on both sides.
func openScreen(cfg Config) (screen, error) {
	in := newInput(cfg.In)
	out, ok := cfg.Out.(*os.File)
	if !ok || !isTerminal(out) || !isTerminal(cfg.In) || cfg.Dumb {
		return newPlain(in, cfg.Out), nil
	}
	t, err := newTerminal(cfg, in, out)
	if err != nil {
		in.interrupt()
		return nil, fmt.Errorf("open the terminal: %w", err)
	}
	return t, nil
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// terminal is a screen with a line being edited at its foot.
type terminal struct {
	in     *input
	file   *os.File
	out    *os.File
	before *term.State
	line   *term.Terminal
	name   string
	color  bool

	mu   sync.Mutex
	busy bool
}

func newTerminal(cfg Config, in *input, out *os.File) (*terminal, error) {
	before, err := term.MakeRaw(int(cfg.In.Fd()))
	if err != nil {
		return nil, err
	}
	t := &terminal{in: in, file: cfg.In, out: out, before: before, name: cfg.BotName, color: !cfg.NoColor}
	t.line = term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{newKeys(in), out}, t.prompt())
	t.line.SetBracketedPasteMode(true)
	t.fit()
	t.note("Ctrl-D ends the conversation, Alt-Enter starts a new line.")
	return t, nil
}

// fit takes over the width of the window, which may have changed. Some terminals do not tell
// one.
func (t *terminal) fit() {
	width, height, err := term.GetSize(int(t.out.Fd()))
	if err == nil && width > 0 && height > 0 {
		_ = t.line.SetSize(width, height) // fails only as the next write will
	}
}

// read passes blank lines over.
func (t *terminal) read() (string, error) {
	for {
		t.fit()
		line, err := t.line.ReadLine()
		if err != nil && !errors.Is(err, term.ErrPasteIndicator) {
			return "", err
		}
		if text := strings.TrimRight(unfold(line), " \t\n"); strings.TrimSpace(text) != "" {
			return text, nil
		}
	}
}

func (t *terminal) interrupt() { t.in.interrupt() }
func (*terminal) ahead() int   { return typedAhead }

func (t *terminal) say(text string) {
	if t.color {
		text = bold.ReplaceAllString(text, strong+"$1"+reset)
	}
	t.print(t.styled(cyan, t.name+":") + " " + text)
}

func (t *terminal) note(text string) { t.print(t.styled(dim, "("+text+")")) }

// working shows in the prompt whether the bot is at work.
func (t *terminal) working(on bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.busy == on {
		return
	}
	t.busy = on
	t.line.SetPrompt(t.prompt())
	_, _ = t.line.Write(nil) // draws the line again; fails only as the next write will
}

func (t *terminal) prompt() string {
	if t.busy {
		return t.styled(dim, "…") + " > "
	}
	return "> "
}

func (t *terminal) styled(style, text string) string {
	if !t.color {
		return text
	}
	return style + text + reset
}

// print shows text above the line being edited. A terminal that is gone ends
// the input as well, so its error need not be told.
func (t *terminal) print(text string) {
	t.fit()
	_, _ = io.WriteString(t.line, text+"\n")
}

// close leaves the terminal as it was, on a line of its own.
func (t *terminal) close() error {
	t.line.SetBracketedPasteMode(false)
	_, _ = io.WriteString(t.out, "\r\n") // see print
	err := term.Restore(int(t.file.Fd()), t.before)
	if err != nil {
		err = fmt.Errorf("restore the terminal: %w", err)
	}
	t.in.interrupt()
	return err
}

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

// Unwrap is the writer behind it.
func (l *Logs) Unwrap() io.Writer { return l.Out }

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
	p.in.interrupt()
	if p.err != nil {
		return fmt.Errorf("show the conversation: %w", p.err)
	}
	return nil
}

// input reads a file so that a wait can be ended. A read of a terminal or an inherited pipe
// cannot be: one that is under way is left to the end of the process, which is near.
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

func newInput(f *os.File) *input {
	in := &input{file: f, gone: make(chan struct{}), next: make(chan struct{}), got: make(chan chunk, 1)}
	go in.pump()
	return in
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
