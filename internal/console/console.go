// Package console talks with a bot in the terminal. It is a channel like any
// other: activities go to the bot's webhook, replies come back through a Bot
// Framework connector that the console serves on a loopback port of its own.
//
// On a terminal it edits lines, keeps a history and takes a pasted text as one
// message. Fed from a pipe, each line is a message, sent when the one before is
// answered, and what comes out is plain text.
package console

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/planbot-go/planbot/activity"
)

// ChannelID is the channel of every activity that comes from a console.
const ChannelID = "console"

// Config says who talks to which bot. BotURL, In and Out are required; the zero value of every
// other field is a working default.
type Config struct {
	// BotURL is the bot's webhook, "http://127.0.0.1:3978/api/messages". It answers a POST when
	// the turn is done or, with AcksAtOnce, before that: then a piped message counts as answered
	// once the bot has said something and then nothing more for a moment.
	BotURL     string
	AcksAtOnce bool
	// In is read until its end. It is a terminal, a pipe or a file.
	In *os.File
	// Out gets the conversation. Lines are edited when In and Out are both terminals.
	Out io.Writer
	// Dumb says that the terminal cannot edit lines (TERM=dumb), NoColor that the person wants
	// no colors (NO_COLOR).
	Dumb, NoColor bool
	// Logs, when set, show above the line being typed instead of across it.
	Logs *Logs

	BotName string        // "": "Bot"
	Timeout time.Duration // of one turn; 0: ten minutes
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
// ends; none of these is an error. An error is a terminal or a port that cannot be had, input that cannot be read, or, without a terminal,
// messages that the bot did not take. The terminal is as it was before, and
// nothing of the console runs any more. Each Run is a new conversation.
func Run(ctx context.Context, cfg Config) (err error) {
	cfg.BotName = cmp.Or(cfg.BotName, "Bot")
	cfg.Timeout = cmp.Or(cfg.Timeout, 10*time.Minute)
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
	defer b.client.CloseIdleConnections()
	t := &talk{screen: s, bot: b, said: c.said}
	return t.run(ctx)
}

// talk is one conversation under way.
type talk struct {
	screen screen
	bot    *bot
	said   <-chan activity.Type // what came from the bot
	lost   int                  // messages that the bot did not take
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
func (t *talk) deliver(ctx context.Context, a *activity.Activity) {
	t.sent++
	err := t.bot.post(ctx, a)
	if err == nil && t.bot.cfg.AcksAtOnce {
		if t.screen.ahead() == 0 {
			t.listen(ctx)
		}
		return
	}
	t.screen.working(false)
	if err == nil || ctx.Err() != nil {
		return
	}
	t.lost++
	t.screen.note(err.Error())
}

const (
	// moment is how long a bot that has said something may be silent before it counts as done.
	moment = 500 * time.Millisecond
	// silence is the same of one that has said nothing: it may have nothing to say.
	silence = 10 * time.Second
)

// listen waits until the bot has answered.
func (t *talk) listen(ctx context.Context) {
	for timer := time.NewTimer(silence); ; {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			return
		case kind := <-t.said:
			if kind == activity.Message {
				timer.Reset(moment)
			} else {
				timer.Reset(silence)
			}
		}
	}
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

const (
	botID      = "bot"
	maxRefusal = 1 << 10 // bytes of a refusal that are read
)

// bot is the way to the bot's webhook.
type bot struct {
	cfg          Config
	conversation string
	serviceURL   string
	client       *http.Client
}

func newBot(cfg Config, conversation, serviceURL string) *bot {
	return &bot{
		cfg:          cfg,
		conversation: conversation,
		serviceURL:   serviceURL,
		client: &http.Client{
			Transport:     &http.Transport{}, // no proxy: the bot is on this machine
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// hello says that the bot has come into the conversation.
func (b *bot) hello() *activity.Activity {
	a := b.activity(activity.ConversationUpdate)
	a.MembersAdded = []activity.Account{a.Recipient}
	return a
}

func (b *bot) message(text string) *activity.Activity {
	a := b.activity(activity.Message)
	a.Text, a.TextFormat = strings.ToValidUTF8(text, "\ufffd"), "plain"
	return a
}

func (b *bot) activity(t activity.Type) *activity.Activity {
	a := &activity.Activity{
		Type:       t,
		ID:         rand.Text(),
		ChannelID:  ChannelID,
		ServiceURL: b.serviceURL,
		From:       activity.NewAccount("console-user", "You"),
		Recipient:  activity.NewAccount(botID, b.cfg.BotName),
		Extra:      times(time.Now()),
	}
	a.Conversation.ID = b.conversation
	a.Conversation.ConversationType = "personal"
	return a
}

// times are when an activity is sent, and what time that is for the person.
func times(now time.Time) jsontext.Value {
	return jsontext.Value(`{"timestamp":"` + now.UTC().Format(time.RFC3339Nano) + `","localTimestamp":"` + now.Format(time.RFC3339Nano) + `"}`)
}

// post has one turn: it returns when the bot is done with the activity. Its
// errors are sentences for the person.
func (b *bot) post(ctx context.Context, a *activity.Activity) error {
	ctx, cancel := context.WithTimeout(ctx, b.cfg.Timeout)
	defer cancel()
	body, err := a.Encode()
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.cfg.BotURL, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json; charset=utf-8")
	resp, err := b.client.Do(req)
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("the bot did not finish within %s", b.cfg.Timeout)
	}
	if err != nil {
		return fmt.Errorf("the bot cannot be reached: %w", err)
	}
	defer func() { _ = resp.Body.Close() }() // read only
	said, _ := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("the bot did not take the message: %s %s", resp.Status, strings.TrimSpace(printable(string(said))))
	}
	return nil
}

const (
	maxReplyBytes = 1 << 20
	replyTimeout  = 10 * time.Second // to send one reply to the console
	closeTimeout  = time.Second
)

// connector takes the bot's replies, as the Bot Connector service does
// (https://learn.microsoft.com/azure/bot-service/rest-api/bot-framework-rest-connector-api-reference).
type connector struct {
	url    string // the serviceUrl of the conversation
	screen screen
	server *http.Server
	serves sync.WaitGroup
	ids    atomic.Int64
	said   chan activity.Type // what was shown, as far as anybody waits for it
}

func startConnector(ctx context.Context, s screen, conversation string) (*connector, error) {
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for replies: %w", err)
	}
	c := &connector{url: "http://" + listener.Addr().String() + "/", screen: s, said: make(chan activity.Type, 64)}
	c.server = &http.Server{
		Handler:           c.routes(conversation),
		ReadHeaderTimeout: replyTimeout,
		ReadTimeout:       replyTimeout,
	}
	c.serves.Go(func() { _ = c.server.Serve(listener) }) // ends with ErrServerClosed, by stop
	return c, nil
}

// stop lets the replies on their way arrive, for a moment, and ends the server.
func (c *connector) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if err := c.server.Shutdown(ctx); err != nil {
		_ = c.server.Close() // the listener is closed already, the rest is cut off
	}
	c.serves.Wait()
}

func (c *connector) routes(conversation string) http.Handler {
	mux := http.NewServeMux()
	at := "/v3/conversations/" + conversation + "/activities"
	mux.HandleFunc("POST "+at, c.taking(c.show))
	mux.HandleFunc("POST "+at+"/{replyTo}", c.taking(c.show))
	mux.HandleFunc("PUT "+at+"/{id}", c.taking(c.showEdited))
	mux.HandleFunc("DELETE "+at+"/{id}", c.deleted)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, http.StatusNotFound, "ConversationNotFound", "no such conversation or operation")
	})
	return mux
}

// taking reads the activity for show and answers with its id.
func (c *connector) taking(show func(*activity.Activity)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxReplyBytes))
		var tooLarge *http.MaxBytesError
		if errors.As(err, &tooLarge) {
			refuse(w, http.StatusRequestEntityTooLarge, "MessageSizeTooBig", "the activity is larger than 1 MiB")
			return
		}
		if err != nil {
			return // the bot hung up
		}
		a, err := activity.Decode(body)
		if err != nil {
			refuse(w, http.StatusBadRequest, "BadSyntax", err.Error())
			return
		}
		show(a)
		select {
		case c.said <- a.Type:
		default:
		}
		id := r.PathValue("id")
		if id == "" {
			id = "console-" + strconv.FormatInt(c.ids.Add(1), 10)
		}
		answer(w, http.StatusOK, map[string]string{"id": id})
	}
}

func (c *connector) show(a *activity.Activity) {
	switch a.Type {
	case activity.Typing:
		c.screen.working(true)
	case activity.Message:
		c.screen.working(false)
		c.screen.say(render(a))
	case "endOfConversation":
		c.screen.note("the bot has ended the conversation")
	}
}

func (c *connector) showEdited(a *activity.Activity) {
	a.Text += " (edited)"
	c.show(a)
}

func (c *connector) deleted(w http.ResponseWriter, _ *http.Request) {
	c.screen.note("the bot has taken a message back")
	w.WriteHeader(http.StatusOK)
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_ = json.MarshalWrite(w, body) // a bot that hung up has nobody to tell
}

// refuse answers with the error body of the Bot Connector service.
func refuse(w http.ResponseWriter, status int, code, message string) {
	type fault struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	answer(w, status, map[string]fault{"error": {code, message}})
}
