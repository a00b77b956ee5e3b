package bot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/time/rate"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot/turn"
	"github.com/planbot-go/planbot/state"
	"github.com/planbot-go/planbot/state/inbox"
)

// maxBodyBytes is the largest activity that is read.
const maxBodyBytes = 1 << 20

// ServeHTTP takes one activity. It answers 200 once the activity is kept in the
// inbox, and works on it after that; an invoke and an activity that expects replies
// are answered with their result. Refusals carry no detail, and neither does a panic.
func (b *Bot) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer b.survive(w, r)
	if err := b.serve(w, r); err != nil {
		b.answerRefused(w, r, err)
	}
}

// serve does what the request asks for, from the outside in. Its error is the refusal.
func (b *Bot) serve(w http.ResponseWriter, r *http.Request) error {
	caller, err := b.authenticate(r)
	if err != nil {
		return err
	}
	defer keepOpen(r.Context())()
	raw, err := readBody(w, r)
	if err != nil {
		return err
	}
	defer b.requests.Add(-1)
	if b.requests.Add(1) > int64(b.cfg.MaxRequests) { // who is slow to send is not counted yet
		return errBusy
	}
	a, err := activity.Decode(raw)
	if err != nil {
		return &StatusError{Status: http.StatusBadRequest, Err: err}
	}
	if err := caller.Permit(a); err != nil {
		return asStatus(err)
	}
	a.CallerID = caller.ID()
	return b.accept(w, r, b.engine.NewTurn(a, raw, caller.Trusted(), b.routes.awaits(a) || b.cfg.AckTimeout > 0))
}

// authenticate checks all of a request but its body.
func (b *Bot) authenticate(r *http.Request) (Caller, error) {
	if r.Method != http.MethodPost {
		return nil, refuse(http.StatusMethodNotAllowed, "method "+brief(r.Method))
	}
	if b.Draining() {
		return nil, turn.ErrDraining
	}
	b.Start()
	if err := checkContentType(r.Header); err != nil {
		return nil, err
	}
	if r.ContentLength > maxBodyBytes {
		return nil, refuse(http.StatusRequestEntityTooLarge, "body too large")
	}
	// Who is to decide may wait for what does not come, and need not when the bot ends.
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(b.taking, cancel)()
	caller, err := b.cfg.Authenticator.Authenticate(r.WithContext(ctx))
	switch {
	case err != nil && b.Draining():
		return nil, turn.ErrDraining
	case err != nil:
		return nil, asStatus(err)
	}
	return caller, nil
}

// checkContentType accepts JSON in UTF-8, uncompressed. A missing type is left
// to the Authenticator, which knows whether the caller is local.
func checkContentType(h http.Header) error {
	for _, enc := range h.Values("Content-Encoding") {
		if enc != "" && !strings.EqualFold(enc, "identity") {
			return refuse(http.StatusUnsupportedMediaType, "content encoding")
		}
	}
	types := h.Values("Content-Type")
	if len(types) > 1 {
		return refuse(http.StatusUnsupportedMediaType, "more than one content type")
	}
	if len(types) == 0 || types[0] == "" {
		return nil
	}
	media, params, err := mime.ParseMediaType(types[0])
	if err != nil || media != "application/json" {
		return refuse(http.StatusUnsupportedMediaType, "content type")
	}
	if charset := params["charset"]; charset != "" && !strings.EqualFold(charset, "utf-8") {
		return refuse(http.StatusUnsupportedMediaType, "charset")
	}
	return nil
}

// readBody reads all of the body, if it is not too large and comes in the time that
// the server gives it.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	const usual = 64 << 10
	buf := bytes.NewBuffer(make([]byte, 0, min(max(r.ContentLength, 0), usual)+bytes.MinRead))
	_, err := buf.ReadFrom(http.MaxBytesReader(w, r.Body, maxBodyBytes))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, refuse(http.StatusRequestEntityTooLarge, "body too large")
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, refuse(http.StatusRequestTimeout, "the body took too long")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, refuse(http.StatusBadRequest, "the body ended early")
	case err != nil: // which may quote it
		return nil, refuse(http.StatusBadRequest, "the body is not encoded as it says")
	}
	return buf.Bytes(), nil
}

// accept keeps the turn in the inbox and answers the request. When nobody is at work on
// its conversation, this process is from now on.
func (b *Bot) accept(w http.ResponseWriter, r *http.Request, t *Turn) error {
	a := t.Activity
	if b.twoTenants(t) || b.ignores(t) {
		w.WriteHeader(http.StatusOK)
		return nil
	}
	if list := b.cfg.Access.denies(a, b.cfg.Channel.Identified()); list != "" {
		if answered, err := b.deny(w, t, list); answered {
			return err
		}
	}
	if !b.answers(t) {
		t.Log().Debug().Msg("no route")
		return nobodyAnswers(a).write(w)
	}
	if response := b.routes.wrong(t); response != nil && t.Decision() == nil {
		return response.write(w)
	}
	awaited, click, log := t.Awaited(), clickOf(t), t.Log() // the turn is not ours once it has begun
	var ticket *turn.Ticket
	if awaited {
		ticket = b.engine.Expect(t)
		defer ticket.Close()
	}
	id, duplicate, err := b.engine.Accept(r.Context(), t, duplicatesOf(t)...)
	if err != nil {
		return err
	}
	if duplicate {
		log.Info().Str("of_turn", id).Msg("duplicate dropped")
	}
	if !awaited {
		w.WriteHeader(http.StatusOK)
		return nil
	}
	return b.respond(w, r, click, a, ticket, id)
}

// ignores reports whether the activity is not to be handled at all.
func (b *Bot) ignores(t *Turn) bool {
	a, reason := t.Activity, ""
	switch {
	case a.Type != activity.Message:
		return false
	case a.FromBot():
		reason = "sent by a bot"
	case a.ChannelID == activity.Teams && !a.Conversation.Personal() && !t.IsSubmit() && !a.Addressed():
		reason = "not addressed to the bot"
	default:
		return false
	}
	t.Log().Info().Str("reason", reason).Msg("activity ignored")
	b.engine.Ignored()
	return true
}

// twoTenants reports whether the activity names two tenants, which no channel does.
func (b *Bot) twoTenants(t *Turn) bool {
	a := t.Activity
	if _, one := a.Tenant(); one {
		return false
	}
	t.Log().Warn().Str("audit", "tenant").Str("channel", a.ChannelID).Str("tenant", brief(a.ChannelTenant())).
		Str("other_tenant", brief(a.Conversation.TenantID)).Str("user", brief(a.From.AadObjectID)).Msg("denied")
	b.engine.Ignored()
	return true
}

// deny answers what came from somebody whom a list denies, and says so in the log. It is
// false for a message: that is kept like any other, and its turn tells the person.
func (b *Bot) deny(w http.ResponseWriter, t *Turn, list string) (answered bool, err error) {
	a := t.Activity
	tenant, _ := a.Tenant()
	t.Log().Warn().Str("audit", "access").Str("list", list).Str("channel", a.ChannelID).
		Str("tenant", brief(tenant)).Str("user", brief(a.From.AadObjectID)).Msg("denied")
	b.engine.Refused(list)
	switch a.Type {
	case activity.Message:
		return false, nil
	case activity.Invoke:
		return true, InvokeResponse{Status: http.StatusForbidden}.write(w)
	}
	return true, nobodyAnswers(a).write(w)
}

// deniedText is what a person reads whom a list denies.
const deniedText = "Sorry, I may not talk with you here. Please ask whoever runs this bot."

// tellDenied is the handler of a message whose sender is denied.
func tellDenied(ctx context.Context, t *Turn) error { return t.Tell(ctx, deniedText) }

// answers reports whether any route takes the activity. One that panics does: its turn
// owns up to it.
func (b *Bot) answers(t *Turn) (yes bool) {
	defer func() { yes = yes || recover() != nil }()
	return b.handler(t) != nil
}

// handler returns what answers the turn's activity, or nil when nothing does.
func (b *Bot) handler(t *Turn) Handler {
	if b.cfg.Access.denies(t.Activity, b.cfg.Channel.Identified()) != "" {
		t.LeaveState()
		return tellDenied
	}
	if h := t.Decision(); h != nil {
		return h
	}
	return b.routes.handler(t)
}

// nobodyAnswers is the response to an activity without a route.
func nobodyAnswers(a *activity.Activity) InvokeResponse {
	if a.Type == activity.Invoke {
		return InvokeResponse{Status: http.StatusNotImplemented}
	}
	if a.DeliveryMode == activity.ExpectReplies {
		return InvokeResponse{Body: map[string]any{"activities": []any{}}}
	}
	return InvokeResponse{}
}

const (
	// expectRepliesWithin is how long expectReplies waits for the replies of its turn:
	// the caller gives up after 15 s.
	expectRepliesWithin = 14 * time.Second
	// invokeWithin is how long an invoke waits for its turn.
	invokeWithin = 10 * time.Second
	// seenWithin is how soon an answer has to leave to be taken as seen: clients give up
	// after five seconds at the earliest.
	seenWithin = 5 * time.Second
	// stillAtWork answers a click on a card whose turn did not end in time.
	stillAtWork = "I'm still working on it. I noted your click, so there's no need to click again."
)

// respond waits for the answer of the turn and writes it. The turn is the first that the
// activity came with. An invoke and a request that expects replies are answered with that or
// not at all, so that they get the same answer however often they come; a late click on a
// card, with a sentence.
func (b *Bot) respond(w http.ResponseWriter, r *http.Request, click string, a *activity.Activity, ticket *turn.Ticket, id string) error {
	began, within := time.Now(), b.cfg.AckTimeout
	expectsReplies := a.DeliveryMode == activity.ExpectReplies && a.Type != activity.Invoke
	switch {
	case a.Type == activity.Invoke:
		within = max(within, invokeWithin)
	case expectsReplies:
		within = expectRepliesWithin
	}
	ctx, cancel := context.WithTimeout(r.Context(), within)
	defer cancel()
	answer, err := ticket.Wait(ctx, id, a)
	execute := click != "" && a.Type == activity.Invoke
	switch {
	case execute && err == nil && time.Since(began) < seenWithin:
		b.clickAnswered(r.Context(), ticket, click, id)
	case execute && errors.Is(err, turn.ErrLateAnswer):
		b.cfg.Log.Info().Str("turn", id).Str("conversation", a.Conversation.ID).Msg("click is to be answered later")
		return CardAnswer{Message: stillAtWork}.response().write(w)
	}
	switch {
	case err != nil && (expectsReplies || a.Type == activity.Invoke):
		return err
	case err != nil || len(answer.Body) == 0:
		return InvokeResponse{Status: answer.Status}.write(w)
	}
	return InvokeResponse{Status: answer.Status, Body: answer.Body}.write(w)
}

// clickAnswered has the next click on the same button count as one of its own, if the
// answer to this one goes to somebody who is still there.
func (b *Bot) clickAnswered(ctx context.Context, ticket *turn.Ticket, click, id string) {
	if ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if err := ticket.Forget(ctx, click, id); err != nil {
		b.cfg.Log.Warn().Err(err).Str("turn", id).Msg("click not forgotten, the same one counts in a minute")
	}
}

var (
	errBusy  = errors.New("too many requests are at work")
	errPanic = errors.New("the request's handling panicked")
)

// StatusError is an error that says which HTTP status it is. Authenticator and
// Caller return one to choose it; other errors of theirs are 401. Status is required.
type StatusError struct {
	Status     int
	RetryAfter time.Duration // for 503; 0: not said
	Err        error
}

func (e *StatusError) Error() string { return fmt.Sprintf("%s: %v", http.StatusText(e.Status), e.Err) }

// Unwrap returns the cause.
func (e *StatusError) Unwrap() error { return e.Err }

func refuse(status int, reason string) error {
	return &StatusError{Status: status, Err: errors.New(reason)}
}

func asStatus(err error) error {
	var status *StatusError
	if errors.As(err, &status) {
		return err
	}
	return &StatusError{Status: http.StatusUnauthorized, Err: err}
}

// answerRefused answers a request that is not taken, and logs why.
func (b *Bot) answerRefused(w http.ResponseWriter, r *http.Request, err error) {
	status := &StatusError{Status: http.StatusInternalServerError, Err: err}
	switch {
	case errors.Is(err, inbox.ErrFull), errors.Is(err, state.ErrUnavailable), errors.Is(err, turn.ErrDraining), errors.Is(err, errBusy):
		status = &StatusError{Status: http.StatusServiceUnavailable, RetryAfter: 2 * time.Second, Err: err}
	case errors.Is(err, turn.ErrLateAnswer):
		status = &StatusError{Status: http.StatusServiceUnavailable, RetryAfter: time.Second, Err: err}
	default:
		errors.As(err, &status)
	}
	switch {
	case status.Status == http.StatusMethodNotAllowed:
		w.Header().Set("Allow", http.MethodPost)
	case status.RetryAfter > 0:
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(status.RetryAfter.Seconds()))))
	}
	b.engine.Refused(strconv.Itoa(status.Status))
	b.logRefusal(r, status)
	w.WriteHeader(status.Status)
}

// survive answers 500 to a request whose handling panicked.
func (b *Bot) survive(w http.ResponseWriter, r *http.Request) {
	p := recover()
	if p == nil {
		return
	}
	if p == http.ErrAbortHandler { //nolint:errorlint // what is thrown is this very value
		panic(p)
	}
	b.answerRefused(w, r, fmt.Errorf("%w: %v\n%s", errPanic, p, debug.Stack()))
}

// logRefusal writes the line of a refusal, unless there are too many of them.
func (b *Bot) logRefusal(r *http.Request, status *StatusError) {
	level := zerolog.WarnLevel
	switch {
	case errors.Is(status.Err, turn.ErrDraining):
		level = zerolog.DebugLevel
	case status.Status >= http.StatusInternalServerError:
		level = zerolog.ErrorLevel
	}
	write, unsaid := b.refusals.next()
	if !write {
		return
	}
	line := b.cfg.Log.WithLevel(level).Err(status.Err).Int("status", status.Status).Str("from", r.RemoteAddr)
	if unsaid > 0 {
		line = line.Int64("not_logged_before", unsaid)
	}
	line.Msg("activity refused")
}

// What is logged of refusals: a flood of strangers shall not fill the disk, nor hold up
// others at a log that is slow to take it.
const refusalsAtOnce, refusalsEachSecond = 2000, 100

// lineLimit bounds how many lines of a kind are logged.
type lineLimit struct {
	*rate.Limiter

	unsaid atomic.Int64 // lines since the last one
}

func newLineLimit(eachSecond rate.Limit, atOnce int) *lineLimit {
	return &lineLimit{Limiter: rate.NewLimiter(eachSecond, atOnce)}
}

// next reports whether a line may be written now, and how many were not before it.
func (l *lineLimit) next() (write bool, unsaid int64) {
	if !l.Allow() {
		l.unsaid.Add(1)
		return false, 0
	}
	return true, l.unsaid.Swap(0)
}

// sameClick is how long a second click on the same card button is the same click, if
// nobody saw an answer to the first.
const sameClick = time.Minute

// duplicatesOf returns what identifies the delivery of an activity, so that it is
// handled once: channels send one again whose answer was late. Without an id
// nothing is ever taken for a duplicate.
func duplicatesOf(t *Turn) []inbox.Duplicate {
	a, all := t.Activity, []inbox.Duplicate(nil)
	if a.ID != "" {
		all = append(all, inbox.Duplicate{ID: "activity\n" + a.Conversation.ID + "\n" + string(a.Type) + "\n" + a.ID})
	}
	if click := clickOf(t); click != "" {
		all = append(all, inbox.Duplicate{ID: click, For: sameClick})
	}
	return all
}

// clickOf identifies what was clicked by whom, since a click whose answer was late comes
// again under another id, too; "": it is no click.
func clickOf(t *Turn) string {
	switch a := t.Activity; {
	case t.IsSubmit():
		return "submit\n" + a.ReplyToID + "\n" + a.From.ID + "\n" + string(a.Value)
	case t.IsExecute():
		return "execute\n" + a.ReplyToID + "\n" + a.From.ID + "\n" + string(a.Value)
	}
	return ""
}

// brief is as much of a text that anybody may have written as belongs in a log.
func brief(text string) string {
	const most = 100
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}
