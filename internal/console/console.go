// Package console talks with a bot in the terminal. It is a channel like any other: it sends
// activities to the bot's webhook and takes replies through a Bot Framework connector, which it
// serves on a loopback port of its own.
//
// On a terminal it edits lines, keeps a history and takes a pasted text as one message. Fed from
// a pipe, each line is a message, sent when the one before is answered, and the output is plain
// text.
package console

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/internal/spelling"
)

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
	// Locale is the person's language, a BCP 47 tag. "": the bot's own.
	Locale string
	// Unannounced says that the bot is not told of the conversation before the first message, so it does not greet.
	Unannounced bool
	// Logs, when set, show above the line being typed instead of across it.
	Logs *Logs

	BotName string        // "": "Bot"
	Timeout time.Duration // of one turn; 0: ten minutes
}

const (
	typedAhead = 64 // messages that may wait for the bot on a terminal
	// moment is how long a bot that has said something may be silent before it counts as done.
	moment = 500 * time.Millisecond
	// silence is the same of one that has said nothing: it may have nothing to say.
	silence = 10 * time.Second

	maxDoing      = 40 // characters in the prompt of what the bot is doing
	maxReplyBytes = 1 << 20
	maxRefusal    = 1 << 10          // bytes of a refusal that are read
	replyTimeout  = 10 * time.Second // to send one reply to the console
	closeTimeout  = time.Second
)

// User is the id of the person at the terminal.
const User = "console-user"

// talk is one conversation under way.
type talk struct {
	Config
	screen       *screen
	conversation string
	serviceURL   string             // of the connector
	said         chan activity.Type // what was shown, as far as anybody waits for it
	client       http.Client
	sent, lost   int // activities, and those that the bot did not take
}

// Run holds one conversation and returns when In ends and everything is answered, when the
// person leaves a terminal with Ctrl-C or Ctrl-D, or when ctx ends; none of these is an error.
// An error is a terminal or a port that cannot be had, input that cannot be read, or, without a
// terminal, messages that the bot did not take. The terminal is as it was before. When ctx ended
// it, In is still being read until the process ends. Each Run is a new conversation.
func Run(ctx context.Context, cfg Config) (err error) {
	cfg.BotName = cmp.Or(cfg.BotName, "Bot")
	cfg.Timeout = cmp.Or(cfg.Timeout, 10*time.Minute)
	s, err := openScreen(cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if cfg.Logs != nil && s.line != nil {
		cfg.Logs.redirect(s.line)
		defer cfg.Logs.redirect(nil)
	}
	// Nobody else on this machine can guess the conversation and answer in the bot's place.
	t := &talk{Config: cfg, screen: s, conversation: rand.Text(), said: make(chan activity.Type, typedAhead)}
	t.client.Transport = &http.Transport{} // no proxy: the bot is on this machine
	t.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	defer t.client.CloseIdleConnections()
	stop, err := t.serve(ctx)
	if err != nil {
		return err
	}
	defer stop()
	return t.run(ctx)
}

func (t *talk) run(ctx context.Context) error {
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	ahead := 0
	if t.screen.line != nil {
		ahead = typedAhead
	}
	lines := make(chan string, ahead)
	ended := make(chan error, 1)
	go func() {
		ended <- t.read(ctx, lines)
		if ahead > 0 {
			leave() // a person who leaves does not wait for the rest
		}
		close(lines)
	}()
	if !t.Unannounced {
		hello := t.activity(activity.ConversationUpdate) // the bot has come into the conversation
		hello.MembersAdded = []activity.Account{hello.Recipient}
		t.deliver(ctx, hello)
	}
	for more := true; more; {
		var line string
		select {
		case <-ctx.Done():
			more = false
		case line, more = <-lines:
			if more {
				a := t.activity(activity.Message)
				a.Text, a.TextFormat = strings.ToValidUTF8(line, "\ufffd"), "plain"
				t.deliver(ctx, a)
			}
		}
	}
	select {
	case err := <-ended:
		if err == nil && t.lost > 0 && ahead == 0 {
			err = fmt.Errorf("the bot did not take %d of %d activities", t.lost, t.sent)
		}
		return err
	default:
		return nil
	}
}

// read passes on what is typed until the person leaves or ctx ends.
func (t *talk) read(ctx context.Context, lines chan<- string) error {
	for {
		line, err := t.screen.read()
		switch {
		case errors.Is(err, io.EOF) || ctx.Err() != nil:
			return nil
		case err != nil:
			return fmt.Errorf("read a message: %w", err)
		case len(lines) == typedAhead: // waiting here would miss Ctrl-C
			t.screen.note(fmt.Sprintf("not sent: %d messages wait for the bot already", typedAhead))
			continue
		}
		select {
		case lines <- line:
		case <-ctx.Done():
			return nil
		}
	}
}

func (t *talk) activity(kind activity.Type) *activity.Activity {
	now := time.Now()
	a := &activity.Activity{
		Type: kind, ID: rand.Text(), ChannelID: "console", ServiceURL: t.serviceURL,
		Extra: jsontext.Value(fmt.Sprintf(`{"timestamp":%q,"localTimestamp":%q}`, now.UTC().Format(time.RFC3339Nano), now.Format(time.RFC3339Nano))),
	}
	a.From.AadObjectID, a.Conversation.TenantID = User, "console" // the person has a memory
	a.From.ID, a.From.Name, a.Recipient.ID, a.Recipient.Name = User, "Terminal user", "bot", t.BotName
	a.Conversation.ID, a.Conversation.ConversationType, a.Locale = t.conversation, "personal", t.Locale
	return a
}

// deliver has one turn of the bot. Its replies show while it lasts.
func (t *talk) deliver(ctx context.Context, a *activity.Activity) {
	t.sent++
	err := t.post(ctx, a)
	switch {
	case err == nil && t.AcksAtOnce && t.screen.line == nil:
		t.listen(ctx)
	case err == nil && t.AcksAtOnce:
	default:
		t.screen.working(false)
	}
	if err != nil && ctx.Err() == nil {
		t.lost++
		t.screen.note(err.Error())
	}
}

// listen waits until the bot has answered.
func (t *talk) listen(ctx context.Context) {
	for timer := time.NewTimer(silence); ; {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			return
		case kind := <-t.said:
			timer.Reset(silence)
			if kind == activity.Message {
				timer.Reset(moment)
			}
		}
	}
}

// post has one turn: it returns when the bot is done with the activity. Its errors are sentences
// for the person.
func (t *talk) post(ctx context.Context, a *activity.Activity) error {
	ctx, cancel := context.WithTimeout(ctx, t.Timeout)
	defer cancel()
	body, err := a.Encode()
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.BotURL, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json; charset=utf-8")
	resp, err := t.client.Do(req)
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("the bot did not finish within %s", t.Timeout)
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

// serve takes the bot's replies until stop is called, as the Bot Connector service does
// (https://learn.microsoft.com/azure/bot-service/rest-api/bot-framework-rest-connector-api-reference).
func (t *talk) serve(ctx context.Context) (stop func(), err error) {
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for replies: %w", err)
	}
	t.serviceURL = "http://" + listener.Addr().String() + "/"
	mux := http.NewServeMux()
	at := "/v3/conversations/" + t.conversation + "/activities"
	mux.HandleFunc("POST "+at, t.take)
	mux.HandleFunc("POST "+at+"/{replyTo}", t.take)
	mux.HandleFunc("PUT "+at+"/{id}", t.take)
	mux.HandleFunc("DELETE "+at+"/{id}", func(http.ResponseWriter, *http.Request) { t.screen.note("the bot deleted a message") })
	server := &http.Server{Handler: mux, ReadHeaderTimeout: replyTimeout, ReadTimeout: replyTimeout}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener) // ends with ErrServerClosed, by stop
	}()
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		if server.Shutdown(ctx) != nil { // which lets the replies on their way arrive
			_ = server.Close() // the listener is closed already, the rest is cut off
		}
		<-served
	}, nil
}

// take shows an activity of the bot and answers with its id.
func (t *talk) take(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxReplyBytes))
	if err != nil {
		http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		return
	}
	a, err := activity.Decode(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	id := r.PathValue("id")
	if id != "" {
		a.Text += " (edited)"
	}
	switch a.Type {
	case activity.Typing:
		t.screen.working(true)
		if part := a.Stream(); part.Type == activity.StreamStatus {
			t.screen.doing(spelling.OneLine(a.Text, maxDoing))
		} else if part.Type == activity.StreamText {
			t.screen.doing("")
			t.screen.grow(strings.TrimSpace(printable(a.Text)))
		}
	case activity.Message:
		t.screen.working(false)
		if text := render(a); a.Stream().Type != activity.StreamFinal || !t.screen.grown(text) {
			t.screen.say(text)
		}
	case "endOfConversation":
		t.screen.note("the bot ended the conversation")
	}
	select {
	case t.said <- a.Type:
	default:
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	_ = json.NewEncoder(w).Encode(map[string]string{"id": cmp.Or(id, rand.Text())}) // a bot that hung up has nobody to tell
}
