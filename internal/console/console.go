// Package console talks with a bot in the terminal. It is a channel like any other: it sends
// activities to the bot's webhook and takes replies through a Bot Framework connector, which it
// serves on a loopback port of its own.
//
// On a terminal it edits lines, keeps a history and takes a pasted text as one message. Fed from
// a pipe, each line is a message, sent when the one before is answered, and the output is plain
// text.
package console

import (
	"bufio"
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
	"regexp"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/term"
	"golang.org/x/text/width"

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
	moment  = 500 * time.Millisecond
	silence = 10 * time.Second // the same of one that has said nothing: it may have nothing to say

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

const (
	maxLine = 256 << 10 // the longest line of a pipe that is a message

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

// render puts a message into text: what it says, what its cards say, and the titles of its
// buttons.
func render(a *activity.Activity) string {
	var parts []string
	add := func(text string) {
		if text = strings.TrimSpace(printable(text)); text != "" {
			parts = append(parts, text)
		}
	}
	add(a.Text)
	for _, at := range a.Attachments {
		add(attachment(at))
	}
	if s := a.SuggestedActions; s != nil {
		var offered []button
		for _, raw := range s.Actions {
			var one button
			_ = json.Unmarshal(raw, &one) // what cannot be read has no title
			offered = append(offered, one)
		}
		add(titles(offered))
	}
	if len(parts) == 0 {
		return "(an empty message)"
	}
	return strings.Join(parts, "\n")
}

func attachment(at activity.Attachment) string {
	if len(at.Content) == 0 || !strings.HasPrefix(at.ContentType, "application/vnd.microsoft.card.") {
		return "[" + strings.TrimSpace(at.Name+" "+at.ContentType) + "]"
	}
	var card element
	if err := json.Unmarshal(at.Content, &card); err != nil {
		return "[a card that cannot be shown here]"
	}
	lines, buttons := card.read()
	if len(lines) == 0 && card.FallbackText != "" {
		lines = []string{card.FallbackText}
	}
	if names := titles(buttons); names != "" {
		lines = append(lines, names)
	}
	if len(lines) == 0 {
		return "[a card without text]"
	}
	return strings.Join(lines, "\n")
}

type button struct{ Title string }

// titles shows buttons as "[Yes] [No]".
func titles(buttons []button) string {
	var names []string
	for _, b := range buttons {
		if b.Title != "" {
			names = append(names, "["+b.Title+"]")
		}
	}
	return strings.Join(names, " ")
}

// element is an element of an Adaptive Card, or a whole card: Hero, Thumbnail and Signin cards
// have the same few fields.
type element struct {
	Title, Subtitle, Text, FallbackText string

	Inlines                           []any // texts, or TextRuns
	Facts                             []struct{ Title, Value string }
	Body, Items, Columns, Rows, Cells []element
	Actions, Buttons                  []button
}

// read collects what the element says, in the order of reading, and its buttons.
func (e *element) read() (lines []string, buttons []button) {
	for _, text := range []string{e.Title, e.Subtitle, e.Text, e.inline()} {
		if text != "" {
			lines = append(lines, text)
		}
	}
	for _, fact := range e.Facts {
		lines = append(lines, fact.Title+": "+fact.Value)
	}
	for _, inner := range [][]element{e.Body, e.Items, e.Columns, e.Rows, e.Cells} {
		for i := range inner {
			more, under := inner[i].read()
			lines, buttons = append(lines, more...), append(buttons, under...)
		}
	}
	return lines, append(append(buttons, e.Actions...), e.Buttons...)
}

// inline joins the runs of a RichTextBlock.
func (e *element) inline() string {
	var out strings.Builder
	for _, run := range e.Inlines {
		if object, ok := run.(map[string]any); ok {
			run = object["text"]
		}
		if text, ok := run.(string); ok {
			out.WriteString(text)
		}
	}
	return out.String()
}

// printable drops the control characters except line breaks and tabs: a reply is written by a
// model, and must not steer the terminal.
func printable(text string) string {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && unicode.IsControl(r) {
			return -1
		}
		return r
	}, text)
}
