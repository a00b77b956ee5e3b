package console

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"sync"

	"golang.org/x/term"
)

const (
	// maxLine is the longest line of a pipe that is a message.
	maxLine = 256 << 10

	dim    = "\x1b[2m"
	cyan   = "\x1b[36m"
	strong = "\x1b[1m"
	reset  = "\x1b[0m"
)

// screen is where the conversation is typed and shown: a terminal with a line being edited at
// its foot, or, without one, lines in and lines out. It may be used concurrently, but read has
// one caller.
type screen struct {
	Config
	lines *bufio.Scanner // of In; nil: line is edited

	line   *term.Terminal
	before *term.State // of the terminal

	mu   sync.Mutex
	busy bool
	err  error // the first failure to write to what is no terminal
}

// openScreen takes the terminal if there is one on both sides.
func openScreen(cfg Config) (*screen, error) {
	s := &screen{Config: cfg}
	out, ok := cfg.Out.(*os.File)
	if !ok || !term.IsTerminal(int(out.Fd())) || !term.IsTerminal(int(cfg.In.Fd())) || cfg.Dumb {
		s.lines = bufio.NewScanner(cfg.In)
		s.lines.Buffer(nil, maxLine)
		return s, nil
	}
	before, err := term.MakeRaw(int(cfg.In.Fd()))
	if err != nil {
		return nil, fmt.Errorf("open the terminal: %w", err)
	}
	s.before = before
	s.line = term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{cfg.In, out}, "> ")
	s.line.SetBracketedPasteMode(true)
	s.note("Press Ctrl-D to leave.")
	return s, nil
}

// close leaves a terminal as it was, on a line of its own.
func (s *screen) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.line == nil {
		if s.err != nil {
			return fmt.Errorf("show the conversation: %w", s.err)
		}
		return nil
	}
	s.line.SetBracketedPasteMode(false)
	_, _ = io.WriteString(s.Out, "\r\n") // a terminal that is gone needs none
	if err := term.Restore(int(s.In.Fd()), s.before); err != nil {
		return fmt.Errorf("restore the terminal: %w", err)
	}
	return nil
}

// read returns the next message, or [io.EOF] when the person leaves. It skips blank lines.
func (s *screen) read() (string, error) {
	for {
		text, err := s.readOne()
		if err != nil || strings.TrimSpace(text) != "" {
			return text, err
		}
	}
}

func (s *screen) readOne() (string, error) {
	if s.lines != nil {
		if s.lines.Scan() {
			return strings.TrimSpace(s.lines.Text()), nil
		}
		if errors.Is(s.lines.Err(), bufio.ErrTooLong) {
			return "", fmt.Errorf("a line is longer than %d KiB", maxLine>>10)
		}
		if s.lines.Err() != nil {
			return "", s.lines.Err()
		}
		return "", io.EOF
	}
	var text strings.Builder
	for {
		s.fit()
		line, err := s.line.ReadLine()
		text.WriteString(line)
		if !errors.Is(err, term.ErrPasteIndicator) {
			return strings.TrimRight(printable(text.String()), " \t\n"), err
		}
		text.WriteByte('\n') // a pasted text is one message, which Enter sends
	}
}

// fit takes over the width of the window, which may have changed. Some terminals do not tell
// one.
func (s *screen) fit() {
	width, height, err := term.GetSize(int(s.In.Fd()))
	if err == nil && width > 0 && height > 0 {
		_ = s.line.SetSize(width, height) // fails only as the next write will
	}
}

var bold = regexp.MustCompile(`\*\*([^*\n]+)\*\*`)

// say shows a message of the bot.
func (s *screen) say(text string) {
	if s.line != nil {
		if !s.NoColor {
			text = bold.ReplaceAllString(text, strong+"$1"+reset)
		}
		text = s.styled(cyan, s.BotName+":") + " " + text
	}
	s.print(text)
}

// note shows what the console itself has to say.
func (s *screen) note(text string) { s.print(s.styled(dim, "("+text+")")) }

func (s *screen) styled(style, text string) string {
	if s.line == nil || s.NoColor {
		return text
	}
	return style + text + reset
}

// print shows text, on a terminal above the line being edited. When a terminal is gone, so is
// its input, which ends the conversation.
func (s *screen) print(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.line != nil:
		s.fit()
		_, _ = io.WriteString(s.line, text+"\n")
	case s.err == nil:
		_, s.err = fmt.Fprintln(s.Out, text)
	}
}

// working shows in the prompt whether the bot is at work.
func (s *screen) working(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.line == nil || s.busy == on {
		return
	}
	s.busy = on
	prompt := "> "
	if on {
		prompt = s.styled(dim, "…") + " > "
	}
	s.line.SetPrompt(prompt)
	_, _ = s.line.Write(nil) // draws the line again; fails only as the next write will
}

// Logs is a writer for the log of a process that also runs a console: while a line is being
// edited it shows above that line, else it goes to Out. It may be used concurrently.
type Logs struct {
	Out io.Writer

	mu      sync.Mutex
	instead io.Writer // of Out
}

// Mute drops what is written from now on: once a person has left, nobody wants to read how the
// turn ended that they left in the middle of.
func (l *Logs) Mute() { l.redirect(io.Discard) }

// Write writes whole lines. Its errors are those of the writer behind it.
func (l *Logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.instead != nil {
		return l.instead.Write(p)
	}
	return l.Out.Write(p)
}

func (l *Logs) redirect(to io.Writer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.instead = to
}

// Unwrap is the writer behind it.
func (l *Logs) Unwrap() io.Writer { return l.Out }
