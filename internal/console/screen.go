package console

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"sync"
	"unicode"

	"golang.org/x/term"
	"golang.org/x/text/width"
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

	mu     sync.Mutex
	prompt string // "": the bot is not at work
	shown  string // of a message that grows, at the foot of what is shown; "": there is none
	width  int    // of the terminal
	err    error  // the first failure to write to what is no terminal
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
		s.width = width
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

// grow shows on a terminal more of a message that is still being written.
func (s *screen) grow(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.line == nil || text == "" {
		return
	}
	s.fit()
	more, continues := strings.CutPrefix(text, s.shown)
	switch {
	case s.shown == "" || !continues:
		more = s.styled(cyan, s.BotName+":") + " " + text
	case more == "":
		return
	default: // behind what is there, unless that fills its row
		shown := s.BotName + ": " + s.shown
		last := shown[strings.LastIndexByte(shown, '\n')+1:]
		if column := columns(last) % max(s.width, 1); column > 0 {
			more = fmt.Sprintf("\x1b[A\x1b[%dC%s", column, more)
		}
	}
	s.shown = text
	_, _ = io.WriteString(s.line, more+"\n")
}

// grown shows the rest of a message that has grown. It returns false if there is none, or if this is
// another text.
func (s *screen) grown(text string) bool {
	s.mu.Lock()
	continues := s.shown != "" && strings.HasPrefix(text, s.shown)
	s.mu.Unlock()
	if continues {
		s.grow(text)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shown = ""
	return continues
}

// columns is about how wide a line is in a terminal.
func columns(line string) (n int) {
	for _, r := range line {
		switch kind := width.LookupRune(r).Kind(); {
		case r == '\t':
			n += 8 - n%8
		case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		case kind == width.EastAsianWide || kind == width.EastAsianFullwidth:
			n += 2
		default:
			n++
		}
	}
	return n
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
	s.shown = ""
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
	prompt := ""
	if on {
		prompt = s.styled(dim, "…") + " > "
	}
	s.ask(prompt, !on)
}

// doing shows in the prompt what the bot is doing.
func (s *screen) doing(text string) { s.ask(s.styled(dim, "… "+text)+" > ", true) }

// ask sets the prompt; "" is the ordinary one. It keeps one that says more, unless always is set.
func (s *screen) ask(prompt string, always bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.line == nil || s.prompt == prompt || s.prompt != "" && !always {
		return
	}
	s.prompt = prompt
	s.line.SetPrompt(cmp.Or(prompt, "> "))
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
