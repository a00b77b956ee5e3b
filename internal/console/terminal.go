package console

import (
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
	in, err := newInput(cfg.In)
	if err != nil {
		return nil, fmt.Errorf("open the input: %w", err)
	}
	out, ok := cfg.Out.(*os.File)
	if !ok || !isTerminal(out) || !isTerminal(cfg.In) || cfg.Dumb {
		return newPlain(in, cfg.Out), nil
	}
	t, err := newTerminal(cfg, in, out)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the terminal: %w", err), in.close())
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
	resize func() // ends the watch over the size

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
	t.line.History = new(history)
	t.line.SetBracketedPasteMode(true)
	t.fit()
	t.resize = watchSize(t.fit)
	t.note("Ctrl-D ends the conversation, Alt-Enter starts a new line.")
	return t, nil
}

// fit takes over the width of the window. Some terminals do not tell one.
func (t *terminal) fit() {
	width, height, err := term.GetSize(int(t.out.Fd()))
	if err == nil && width > 0 && height > 0 {
		_ = t.line.SetSize(width, height) // fails only as the next write will
	}
}

// read passes blank lines over.
func (t *terminal) read() (string, error) {
	for {
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
func (t *terminal) print(text string) { _, _ = io.WriteString(t.line, text+"\n") }

// close leaves the terminal as it was, on a line of its own.
func (t *terminal) close() error {
	t.resize()
	t.line.SetBracketedPasteMode(false)
	_, _ = io.WriteString(t.out, "\r\n") // see print
	err := term.Restore(int(t.file.Fd()), t.before)
	if err != nil {
		err = fmt.Errorf("restore the terminal: %w", err)
	}
	return errors.Join(err, t.in.close())
}
