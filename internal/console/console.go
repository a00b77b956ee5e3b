// Package console talks with a bot in the terminal. It is a channel like any
// other: activities go to the bot's webhook, replies come back through a Bot
// Framework connector that the console serves on a loopback port of its own.
//
// On a terminal it edits lines, keeps a history and takes a pasted text as one
// message. Fed from a pipe, each line is a message, sent when the one before is
// answered, and what comes out is plain text.
package console

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"sync"
	"time"
)

// ChannelID is the channel of every activity that comes from a console.
const ChannelID = "console"

// Config says who talks to which bot. BotURL, In and Out are required; the zero
// value of every other field is a working default.
type Config struct {
	// BotURL is the bot's webhook, "http://127.0.0.1:3978/api/messages". It has
	// to answer a POST when the turn is done, not before: that is how the console
	// knows that a piped message is answered.
	BotURL string
	// In is read until its end. It is a terminal, a pipe or a file.
	In *os.File
	// Out gets the conversation. Lines are edited when In and Out are both terminals.
	Out io.Writer
	// Dumb says that the terminal cannot edit lines (TERM=dumb), NoColor that the
	// person wants no colors (NO_COLOR).
	Dumb, NoColor bool
	// Logs, when set, show above the line being typed instead of across it.
	Logs *Logs

	UserID  string        // "": "console-user"; what the bot keeps of a person hangs on it
	Name    string        // "": "You"
	BotName string        // "": "Bot"
	Timeout time.Duration // of one turn; 0: ten minutes
}

func (c Config) checked() (Config, error) {
	var errs []error
	if u, err := url.Parse(c.BotURL); err != nil || u.Host == "" {
		errs = append(errs, fmt.Errorf("BotURL %q is no address", c.BotURL))
	}
	if c.In == nil {
		errs = append(errs, errors.New("no In"))
	}
	if c.Out == nil {
		errs = append(errs, errors.New("no Out"))
	}
	if err := errors.Join(errs...); err != nil {
		return c, fmt.Errorf("console config: %w", err)
	}
	c.UserID = cmp.Or(c.UserID, "console-user")
	c.Name = cmp.Or(c.Name, "You")
	c.BotName = cmp.Or(c.BotName, "Bot")
	c.Timeout = cmp.Or(c.Timeout, 10*time.Minute)
	return c, nil
}

// screen is where the conversation is typed and shown. Its methods may be
// called concurrently, but for read, which has one caller.
type screen interface {
	// read returns the next message, or [io.EOF] when the person leaves.
	read() (string, error)
	// interrupt makes read return io.EOF, now and from now on.
	interrupt()
	say(text string)  // a message of the bot
	note(text string) // what the console itself has to say
	working(on bool)  // the bot is at work, or no longer
	// ahead is how many messages may be typed while the bot is at work.
	ahead() int
	close() error
}

// Run holds one conversation and returns when In ends and everything is
// answered, when the person leaves a terminal with Ctrl-C or Ctrl-D, or when ctx
// ends; none of these is an error. An error is a wrong Config, a terminal or a
// port that cannot be had, input that cannot be read, or, without a terminal,
// messages that the bot did not take. The terminal is as it was before, and
// nothing of the console runs any more. Each Run is a new conversation.
func Run(ctx context.Context, cfg Config) (err error) {
	cfg, err = cfg.checked()
	if err != nil {
		return err
	}
	s, err := openScreen(cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	defer cfg.Logs.attach(s)()
	// The id cannot be guessed, so nobody else on this machine can put words
	// into the bot's mouth.
	conversation := rand.Text()
	c, err := startConnector(ctx, s, conversation)
	if err != nil {
		return err
	}
	defer c.stop()
	b := newBot(cfg, conversation, c.url)
	defer b.close()
	t := &talk{screen: s, bot: b}
	return t.run(ctx)
}

// talk is one conversation under way.
type talk struct {
	screen screen
	bot    *bot
	lost   int // messages that the bot did not take
	sent   int
}

func (t *talk) run(ctx context.Context) error {
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	lines := make(chan string, t.screen.ahead())
	var readErr error
	var reader sync.WaitGroup
	reader.Go(func() {
		readErr = t.read(ctx, lines)
		if t.screen.ahead() > 0 {
			leave() // a person who leaves does not wait for the rest
		}
		close(lines)
	})
	t.deliver(ctx, t.bot.hello())
	t.send(ctx, lines)
	leave()
	t.screen.interrupt()
	reader.Wait()
	return t.verdict(readErr)
}

// send delivers one message after the other until lines or ctx end.
func (t *talk) send(ctx context.Context, lines <-chan string) {
	for {
		select {
		case <-ctx.Done():
			return
		case line, more := <-lines:
			if !more {
				return
			}
			t.deliver(ctx, t.bot.message(line))
		}
	}
}

// read passes on what is typed until the person leaves or ctx ends.
func (t *talk) read(ctx context.Context, lines chan<- string) error {
	for ctx.Err() == nil {
		line, err := t.screen.read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read a message: %w", err)
		}
		t.enqueue(ctx, lines, line)
	}
	return nil
}

// enqueue waits for its turn only where nobody is typing: a reader that waits
// would not see Ctrl-C.
func (t *talk) enqueue(ctx context.Context, lines chan<- string, line string) {
	if t.screen.ahead() == 0 {
		select {
		case lines <- line:
		case <-ctx.Done():
		}
		return
	}
	select {
	case lines <- line:
	default:
		t.screen.note(fmt.Sprintf("not sent: %d messages wait for the bot already", t.screen.ahead()))
	}
}

// deliver has one turn of the bot. Its replies show while it lasts.
func (t *talk) deliver(ctx context.Context, a *outgoing) {
	t.sent++
	err := t.bot.post(ctx, a)
	t.screen.working(false)
	if err == nil || ctx.Err() != nil {
		return
	}
	t.lost++
	t.screen.note(err.Error())
}

func (t *talk) verdict(readErr error) error {
	if readErr != nil {
		return readErr
	}
	if t.lost > 0 && t.screen.ahead() == 0 {
		return fmt.Errorf("%d of %d activities were not taken by the bot", t.lost, t.sent)
	}
	return nil
}
