package console_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/internal/console"
)

// openPTY returns both ends of a new terminal.
func openPTY(t *testing.T) (person, tty *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = person.Close() })
	fd := int(person.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tty.Close() })
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 200}); err != nil {
		t.Fatal(err)
	}
	return person, tty
}

// seat is a person at a terminal.
type seat struct {
	*bundle
	keys   *os.File
	screen *output
	end    chan error
	before *unix.Termios
	tty    *os.File
}

func sit(t *testing.T, color bool, turn func(b *bundle, a *activity.Activity) int) *seat {
	t.Helper()
	b := setup(t, turn)
	person, tty := openPTY(t)
	s := &seat{bundle: b, keys: person, screen: newOutput(), end: make(chan error, 1), before: termios(t, tty), tty: tty}
	_ = b.cfg.In.Close()
	b.cfg.In, b.cfg.Out, b.cfg.Logs, b.cfg.NoColor = tty, tty, &console.Logs{Out: io.Discard}, !color
	shown := make(chan struct{})
	go func() {
		defer close(shown)
		_, _ = io.Copy(s.screen, person) // ends when the terminal is closed
	}()
	go func() { s.end <- console.Run(t.Context(), b.cfg) }()
	t.Cleanup(func() {
		_ = tty.Close()
		<-shown
	})
	return s
}

func termios(t *testing.T, f *os.File) *unix.Termios {
	t.Helper()
	state, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	return state
}

func (s *seat) typed(keys string) {
	s.Helper()
	if _, err := io.WriteString(s.keys, keys); err != nil {
		s.Fatal(err)
	}
}

// sees waits until the screen has shown the text.
func (s *seat) sees(text string) {
	s.Helper()
	s.screen.mu.Lock()
	defer s.screen.mu.Unlock()
	late := false
	timer := time.AfterFunc(patience, func() {
		s.screen.mu.Lock()
		defer s.screen.mu.Unlock()
		late = true
		s.screen.grown.Broadcast()
	})
	defer timer.Stop()
	for !strings.Contains(s.screen.text.String(), text) {
		if late {
			s.Fatalf("the screen never showed %q, but:\n%q", text, s.screen.text.String())
		}
		s.screen.grown.Wait()
	}
}

// left checks that the console has ended well and the terminal is as before.
func (s *seat) left() {
	s.Helper()
	if err := <-s.end; err != nil {
		s.Error(err)
	}
	if after := termios(s.T, s.tty); *after != *s.before {
		s.Errorf("terminal before %+v, after %+v", s.before, after)
	}
	s.sees("\x1b[?2004l")
}

func echo(b *bundle, a *activity.Activity) int {
	if a.Text == "" {
		b.say(a, "heard **nothing**")
	} else {
		b.say(a, fmt.Sprintf("heard %q", a.Text))
	}
	return http.StatusOK
}

func TestTerminal(t *testing.T) {
	t.Parallel()
	s := sit(t, true, echo)
	s.sees("\x1b[36mBot:\x1b[0m heard \x1b[1mnothing\x1b[0m\r\n")
	s.typed("helo\x1b[Dl\r")
	s.sees(`heard "hello"`)
	s.typed("\x1b[200~one\r\ttwo\r\x1b[201~\r")
	s.sees(`heard "one\n\ttwo"`)
	s.typed("\x1b[A\x1b[A\x1b[A\x1b[A again\r")
	s.sees(`heard "hello again"`)
	_, _ = io.WriteString(s.cfg.Logs, "a log line\n")
	s.sees("a log line\r\n")
	s.typed("\x04")
	s.left()
	if got := strings.Join(s.texts(), "|"); got != "|hello|one\n\ttwo|hello again" {
		t.Errorf("the bot got %q", got)
	}
}

func TestTerminalShowsWhatComesWhileTyping(t *testing.T) {
	t.Parallel()
	answer := make(chan struct{})
	s := sit(t, false, func(b *bundle, a *activity.Activity) int {
		if a.Type == activity.Message {
			b.reply(a, `"type":"typing"`)
			b.wait(answer)
		}
		return echo(b, a)
	})
	s.sees("heard **nothing**")
	s.typed("first\r")
	s.sees("… > ")
	s.typed("second\rthi")
	s.sees("thi")
	answer <- struct{}{}
	s.sees(`heard "first"`)
	answer <- struct{}{}
	s.sees(`heard "second"`)
	s.typed("rd\r")
	answer <- struct{}{}
	s.sees(`heard "third"`)
	s.typed("\x04")
	s.left()
}

func TestTerminalTellsWhenTheBotIsDoneInSilence(t *testing.T) {
	t.Parallel()
	answer := make(chan struct{})
	s := sit(t, false, func(b *bundle, a *activity.Activity) int {
		b.reply(a, `"type":"typing"`)
		b.wait(answer)
		return http.StatusOK
	})
	s.sees("… > ")
	s.typed("half a line")
	s.sees("half a line")
	answer <- struct{}{}
	s.sees("\x1b[K> half a line") // drawn again, without the mark
	s.typed("\x03")
	s.left()
}

func TestTerminalTakesOnlySoMuchAhead(t *testing.T) {
	t.Parallel()
	s := sit(t, false, func(b *bundle, a *activity.Activity) int {
		if a.Type == activity.Message {
			b.reply(a, `"type":"typing"`)
			b.wait(nil)
		}
		return http.StatusOK
	})
	s.typed("the first\r")
	s.sees("…")
	for range 65 {
		s.typed("more\r")
	}
	s.sees("(not sent: 64 messages wait for the bot already)")
	s.typed("\x03")
	s.left()
}

func TestTerminalCtrlC(t *testing.T) {
	t.Parallel()
	over := make(chan struct{})
	s := sit(t, false, func(b *bundle, _ *activity.Activity) int {
		b.wait(over)
		return http.StatusOK
	})
	s.sees("> ")
	s.typed("half a li\x03")
	s.left()
	close(over)
}

// grows replies with parts of a message and its end.
func grows(b *bundle, a *activity.Activity) int {
	part := func(kind activity.Type, about, text string) {
		b.reply(a, fmt.Sprintf(`"type":%q,"text":%q,"entities":[{"type":"streaminfo",%s}]`, kind, text, about))
	}
	if a.Text == "" {
		return http.StatusOK
	}
	part("typing", `"streamType":"informative","streamSequence":1`, "Searching tickets")
	part("typing", `"streamId":"1","streamType":"streaming","streamSequence":2`, "You have")
	part("typing", `"streamId":"1","streamType":"streaming","streamSequence":3`, "You have 二 lists")
	part("message", `"streamId":"1","streamType":"final"`, "You have 二 lists.\nBye.")
	b.say(a, "More.")
	return http.StatusOK
}

// TestWordsAsTheyCome: on a terminal each part adds to the line that is there.
func TestWordsAsTheyCome(t *testing.T) {
	t.Parallel()
	s := sit(t, false, grows)
	s.typed("lists\r")
	s.sees("… Searching tickets > ")
	s.sees("Bot: You have\r\n")
	s.sees("\x1b[A\x1b[13C 二 lists\r\n")
	s.sees("\x1b[A\x1b[22C.\r\nBye.\r\n")
	s.sees("Bot: More.\r\n")
	s.typed("\x04")
	s.left()
}

// TestWordsInAPipe are shown once, when the message is whole.
func TestWordsInAPipe(t *testing.T) {
	t.Parallel()
	b := setup(t, grows)
	if err := b.run("lists\n"); err != nil {
		t.Fatal(err)
	}
	if got, want := b.out.String(), "You have 二 lists.\nBye.\nMore.\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
