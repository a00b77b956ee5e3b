package bot

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot/offers"
	"github.com/planbot-go/planbot/bot/signin"
	"github.com/planbot-go/planbot/bot/teams"
	"github.com/planbot-go/planbot/bot/turn"
	"github.com/planbot-go/planbot/connector"
	"github.com/planbot-go/planbot/state"
	"github.com/planbot-go/planbot/state/inbox"
)

const maxBodyBytes = 1 << 20 // the largest body that the bot reads

// ServeHTTP takes one activity. It answers 200 once the activity is saved in the inbox, and works
// on it after that. An invoke and an activity that expects replies are answered with their result.
// The body of a refusal with a 4xx says what is wrong with the request, in the form of the Bot
// Framework's errors. With a 5xx it is empty: no panic reveals any detail.
func (b *Bot) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer b.survive(w, r)
	if err := b.serve(w, r); err != nil {
		b.answerRefused(w, r, err)
	}
}

// serve checks the request step by step and accepts its turn. Its error is the refusal.
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
	if b.requests.Add(1) > int64(b.cfg.MaxRequests) { // a slow sender does not count yet
		return errBusy
	}
	a, err := activity.Decode(raw)
	if err != nil {
		return &StatusError{Status: http.StatusBadRequest, Err: reason{err}}
	}
	if err := caller.Permit(a); err != nil {
		return asStatus(err)
	}
	a.CallerID = caller.ID()
	return b.accept(w, r, b.engine.NewTurn(a, raw, caller.Trusted(), b.routes.awaits(a) || b.cfg.AckTimeout > 0))
}

// authenticate checks everything about a request but its body.
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
	// The Authenticator may wait for an answer that never comes. Stop it when the bot drains.
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

// checkContentType accepts uncompressed JSON in UTF-8. A missing type is up to the Authenticator,
// which knows whether the caller is local.
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

// readBody reads the whole body, within the size limit and the server's read timeout.
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
	case err != nil: // its text may quote the body
		return nil, refuse(http.StatusBadRequest, "the body is not encoded as it says")
	}
	return buf.Bytes(), nil
}

// accept saves the turn in the inbox and answers the request. If nobody works on the turn's
// conversation, this process starts to.
func (b *Bot) accept(w http.ResponseWriter, r *http.Request, t *Turn) error {
	a, log := t.Activity, t.Log()
	if b.twoTenants(t, log) || b.ignores(t, log) {
		w.WriteHeader(http.StatusOK)
		return nil
	}
	route, invoked := b.routes.invoke(a)
	if list := b.cfg.Access.denies(a, b.cfg.Channel.Identified()); list != "" && !route.anonymous {
		if b.deny(w, t, log, list) {
			return nil
		}
	} else if err := b.engine.Prepare(r.Context(), t); err != nil {
		return err
	}
	if invoked && turn.Decision(t) == nil {
		value, fault := route.value(a)
		switch {
		case fault != nil: // it costs neither a turn nor a wait
			log.Warn().Str("invoke", a.Name).Int("status", fault.Status).Msg("invoke refused: its value is wrong, or nothing is registered for it")
			write(w, route.fault(fault, t))
			return nil
		case route.isAside(value):
			return b.answerAside(w, r, t, route, value)
		}
	}
	if !b.answers(t) {
		log.Debug().Msg("no route")
		turn.Dropped(t, "nothing answers it")
		write(w, nobodyAnswers(a))
		return nil
	}
	if first := b.engine.FirstForm(t); first != nil && !b.takesEdits(t) && !b.ignores(first, log) {
		_, duplicate, err := b.engine.Accept(r.Context(), first, (&delivery{Activity: *first.Activity}).duplicates()...)
		if err != nil {
			return err
		}
		if !duplicate {
			log.Info().Msg("an edit is the first form of a message that addresses the bot")
			w.WriteHeader(http.StatusOK)
			return nil
		}
	}
	if a.Type == activity.MessageDelete {
		m := delivery{Activity: *a}
		m.Type = activity.Message
		for _, d := range m.duplicates() {
			if err := b.engine.NoteDeleted(r.Context(), t, d.ID); err != nil {
				return err
			}
		}
	}
	awaited := turn.Awaited(t)
	asked := delivery{
		Activity: *a, route: route, click: clickOf(t), exchange: signin.ExchangeOf(a), code: turn.Secret(t), came: time.Now(),
	}
	var ticket *turn.Ticket
	if awaited {
		ticket = b.engine.Expect(t)
		defer ticket.Close()
	}
	id, duplicate, err := b.engine.Accept(r.Context(), t, asked.duplicates()...)
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
	return b.respond(w, r, &asked, ticket, id)
}

// answerAside answers an invoke that is not in its conversation's queue.
func (b *Bot) answerAside(w http.ResponseWriter, r *http.Request, t *Turn, route invokeRoute, value any) error {
	within := b.answerWithin(route)
	if route.continues {
		return b.answerOrGoOn(w, r, t, route, value.(teams.Bound), within)
	}
	ctx, cancel := context.WithTimeout(r.Context(), within)
	defer cancel()
	if route.anonymous {
		turn.LeaveState(t)
	}
	view := ""
	if c, ok := value.(click); ok {
		view = viewOf(t.Activity, c)
		if answer, ok := b.views.last(view); ok {
			write(w, answer)
			return nil
		}
	}
	handle := b.routes.wrap(func(ctx context.Context, t *Turn) error { return route.respond(ctx, t, value) })
	answer, err := b.engine.Aside(ctx, within, t, handle)
	switch {
	case errors.Is(err, turn.ErrDraining):
		return err
	case err == nil && view != "":
		b.views.keep(view, answer)
	}
	write(w, answer)
	return nil
}

// answerOrGoOn is answerAside for a handler that goes on if it takes too long. Then a turn in the
// conversation's queue tells the person what comes of it, also if this process dies: that turn has the
// handler run again if it runs elsewhere.
func (b *Bot) answerOrGoOn(w http.ResponseWriter, r *http.Request, t *Turn, route invokeRoute, h teams.Bound, within time.Duration) error {
	goesOn := turn.Again(t)
	id, asked := goesOn.ID, delivery{Activity: *goesOn.Activity, route: route, code: turn.Secret(goesOn)}
	running, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), b.cfg.TurnTimeout)
	f, h := b.fetches.begin(id, cancel, h)
	handle := b.routes.wrap(func(ctx context.Context, t *Turn) error { return route.respond(ctx, t, h) })
	answer, err := b.engine.Aside(running, within, t, func(ctx context.Context, t *Turn) error {
		defer close(f.done)
		return handle(ctx, t)
	})
	if !errors.Is(err, turn.ErrLateAnswer) {
		b.fetches.end(id)
		if errors.Is(err, turn.ErrDraining) {
			return err
		}
		write(w, answer)
		return nil
	}
	accepted, _, err := b.engine.Accept(r.Context(), goesOn, asked.duplicates()...)
	if accepted == id {
		time.AfterFunc(b.cfg.TurnTimeout, func() { b.fetches.end(id) })
	} else { // another one of the same goes on, or none can
		b.fetches.end(id)
	}
	if err == nil {
		answer, err = route.sentence(b.cfg.texts.Say(asked.Locale, "I'm still working on it. You get a message as soon as it's ready."))
	}
	if err != nil {
		b.cfg.Log.Error().Err(err).Str("invoke", asked.Name).Msg("a slow invoke cannot go on")
	}
	write(w, answer)
	return nil
}

// fetches are handlers of this process that go on, by the turn that waits for them.
type fetches struct{ all sync.Map }

// fetched is what such a handler has returned, once done is closed.
type fetched struct {
	done chan struct{}
	stop context.CancelFunc
	body any
	late teams.Late
	err  error
}

// begin returns h as a handler whose result the turn with that id gets. stop stops it.
func (f *fetches) begin(id string, stop context.CancelFunc, h teams.Bound) (*fetched, teams.Bound) {
	one := &fetched{done: make(chan struct{}), stop: stop, err: errors.New("the handler panicked")}
	f.all.Store(id, one)
	return one, func(ctx context.Context, t *Turn) (any, teams.Late, error) {
		one.body, one.late, one.err = h(ctx, t)
		return one.body, one.late, one.err
	}
}

// end stops a handler of which nobody needs the result.
func (f *fetches) end(id string) {
	if one, ok := f.all.LoadAndDelete(id); ok {
		one.(*fetched).stop()
	}
}

// begun returns the handler of a turn: what this process has begun for it, else h.
func (f *fetches) begun(t *Turn, h teams.Bound) teams.Bound {
	one, ok := f.all.Load(t.ID)
	if !ok {
		return h
	}
	return func(ctx context.Context, _ *Turn) (any, teams.Late, error) {
		began := one.(*fetched)
		select {
		case <-began.done:
			return began.body, began.late, began.err
		case <-ctx.Done():
			return nil, teams.Late{}, ctx.Err()
		}
	}
}

// answerWithin is how long an invoke waits for its answer.
func (b *Bot) answerWithin(route invokeRoute) time.Duration {
	if route.say == nil && route.mode == teams.InOrder {
		return max(b.cfg.AckTimeout, invokeWithin)
	}
	return max(b.cfg.AckTimeout, toldWithin)
}

// unread reports whether nobody waits for the answer of the turn's invoke any more, so that the
// person has to be told in a message what they have to know.
func (b *Bot) unread(t *Turn) bool {
	route, ok := b.routes.invoke(t.Activity)
	switch {
	case !ok || route.quiet || t.ReadOnly():
		return false
	case route.mode == teams.Acknowledged, route.continues:
		return true
	}
	return route.say != nil && time.Since(t.Accepted()) > b.answerWithin(route)-savedWithin
}

func (b *Bot) ignores(t *Turn, log *zerolog.Logger) bool {
	a, reason := t.Activity, ""
	switch {
	case a.Type != activity.Message:
		return false
	case a.FromBot():
		reason = "sent by a bot"
	case a.ChannelID == activity.Teams && !a.Conversation.Personal() && !t.IsSubmit() && !a.Addressed() && !a.Targeted():
		reason = "not addressed to the bot"
	default:
		return false
	}
	log.Info().Str("reason", reason).Msg("activity ignored")
	turn.Dropped(t, reason)
	b.engine.Count(t.ID, turn.CountTurns, "ignored")
	return true
}

// twoTenants reports whether the activity names two tenants, which no channel does.
func (b *Bot) twoTenants(t *Turn, log *zerolog.Logger) bool {
	a := t.Activity
	if _, one := a.Tenant(); one {
		return false
	}
	log.Warn().Str("audit", "tenant").Str("channel", a.ChannelID).Str("tenant", brief(a.ChannelTenant())).
		Str("other_tenant", brief(a.Conversation.TenantID)).Str("user", brief(a.From.AadObjectID)).Msg("denied")
	turn.Dropped(t, "it names two tenants")
	b.engine.Count(t.ID, turn.CountTurns, "ignored")
	return true
}

// deny logs and answers an activity whose sender a list denies. It returns false for a message:
// that is saved like any other, and its turn tells the person.
func (b *Bot) deny(w http.ResponseWriter, t *Turn, log *zerolog.Logger, list string) (answered bool) {
	a := t.Activity
	tenant, _ := a.Tenant()
	log.Warn().Str("audit", "access").Str("list", list).Str("channel", a.ChannelID).
		Str("tenant", brief(tenant)).Str("user", brief(a.From.AadObjectID)).Msg("denied")
	b.engine.Count(t.ID, turn.CountRefused, list)
	if a.Type == activity.Message {
		return false
	}
	turn.Dropped(t, "denied by "+list)
	switch a.Type {
	case activity.Invoke:
		write(w, turn.Answer{Status: http.StatusForbidden})
	default:
		write(w, nobodyAnswers(a))
	}
	return true
}

// tellDenied is the handler of a message from a denied sender.
func tellDenied(ctx context.Context, t *Turn) error {
	return t.Tell(ctx, t.Translate("Sorry, I'm not allowed to talk with you here. Please ask whoever runs this bot."))
}

// answers reports whether any route matches the activity. A route that panics counts as a match:
// its turn reports the panic.
func (b *Bot) answers(t *Turn) (yes bool) {
	defer func() { yes = yes || recover() != nil }()
	return b.handler(t) != nil
}

// takesEdits reports whether the bot's author handles this edit, and so decides whether it is answered.
func (b *Bot) takesEdits(t *Turn) (yes bool) {
	defer func() { yes = yes || recover() != nil }()
	return slices.ContainsFunc(b.routes.first, func(route route) bool { return route.match(t) })
}

// handler returns the handler of the turn's activity, or nil if there is none.
func (b *Bot) handler(t *Turn) Handler {
	if b.cfg.Access.denies(t.Activity, b.cfg.Channel.Identified()) != "" {
		turn.LeaveState(t)
		return tellDenied
	}
	if h := turn.Decision(t); h != nil {
		return h
	}
	if saysForget(t) && !slices.Contains(b.cfg.CommandsOff, forgetCommand) {
		turn.NeedsNoState(t)
	}
	return b.routes.handler(t)
}

// plans reports whether all that the turn's handler does is to plan.
func (b *Bot) plans(t *Turn) bool {
	if len(b.routes.middleware) > 0 || b.cfg.Access.denies(t.Activity, b.cfg.Channel.Identified()) != "" || turn.Decision(t) != nil {
		return false
	}
	route := b.routes.match(t)
	return route != nil && route.handle == nil
}

// nobodyAnswers is the response to an activity without a route.
func nobodyAnswers(a *activity.Activity) turn.Answer {
	switch {
	case a.Type == activity.Invoke:
		return turn.Answer{Status: http.StatusNotImplemented}
	case a.DeliveryMode == activity.ExpectReplies:
		return turn.Answer{Body: []byte(`{"activities":[]}`)}
	}
	return turn.Answer{}
}

func write(w http.ResponseWriter, a turn.Answer) {
	if a.Status == http.StatusNoContent || a.Status == http.StatusNotModified { // these have no body
		a.Body = nil
	}
	if len(a.Body) > 0 {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
	}
	w.WriteHeader(cmp.Or(a.Status, http.StatusOK))
	_, _ = w.Write(a.Body) // if this fails, the caller is gone and sends the invoke again
}

const (
	// expectRepliesWithin is how long expectReplies waits for its turn's replies: the caller gives
	// up after 15 s.
	expectRepliesWithin = 14 * time.Second
	invokeWithin        = 10 * time.Second // how long an invoke waits for its turn if no other answer fits
	// toldWithin is how long all others wait. Then the person is told why there is no answer yet.
	toldWithin = 4 * time.Second
	// savedWithin is how long an answer may take from its handler to the request that waits for it. What may
	// come too late is told as well: better twice than never.
	savedWithin = 300 * time.Millisecond
	// clientGivesUpAfter is how soon an answer must go out to count as seen: clients give up after five
	// seconds at the earliest.
	clientGivesUpAfter = 5 * time.Second
)

// respond waits for the turn's answer and writes it. For a duplicate that is the turn of the first
// delivery. An invoke and a request that expects replies get that answer or none, so that every
// retry gets the same one. One that takes too long gets a sentence, where Teams shows one.
func (b *Bot) respond(w http.ResponseWriter, r *http.Request, a *delivery, ticket *turn.Ticket, id string) error {
	within := b.cfg.AckTimeout
	expectsReplies := a.DeliveryMode == activity.ExpectReplies && a.Type != activity.Invoke
	switch {
	case a.Type == activity.Invoke:
		within = b.answerWithin(a.route)
	case expectsReplies:
		within = expectRepliesWithin
	}
	ctx, cancel := context.WithTimeout(r.Context(), within)
	defer cancel()
	answer, err := ticket.Wait(ctx, id)
	execute := a.click != "" && a.Type == activity.Invoke
	if a.exchange != "" && err == nil && answer.Status >= http.StatusBadRequest {
		b.clickAnswered(context.WithoutCancel(r.Context()), ticket, a.exchange, id) // the next one may succeed
	}
	switch {
	case a.Type == activity.Invoke && err == nil && time.Since(a.came) < clientGivesUpAfter:
		for _, d := range a.duplicates() {
			if d.For == sameClick {
				b.clickAnswered(r.Context(), ticket, d.ID, id)
			}
		}
	case a.route.say != nil && errors.Is(err, turn.ErrLateAnswer):
		b.cfg.Log.Info().Str("turn", id).Str("conversation", a.Conversation.ID).Msg("invoke is to be answered later")
		said := b.cfg.texts.Say(a.Locale, "I'm still working on it, so there's no need to send it again.")
		if execute {
			said = b.cfg.texts.Say(a.Locale, "I'm still working on it. I noted your click, so there's no need to click again.")
		}
		answer, err = a.route.sentence(said)
	}
	if err != nil && (expectsReplies || a.Type == activity.Invoke) {
		return err
	}
	write(w, answer)
	return nil
}

// clickAnswered makes the next click on the same button count as a new one, if the client is still
// there to get this answer.
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

const retryAfter = 2 * time.Second // when to send again what the bot could not take

var (
	errBusy  = errors.New("too many requests are at work")
	errPanic = errors.New("the request's handling panicked")
)

// StatusError is an error with an HTTP status. Authenticator and Caller return one to choose the
// status; their other errors become 401, but for those of [connector.Guard]. Status is required.
type StatusError struct {
	Status     int
	RetryAfter time.Duration // for 503; 0: 2 seconds
	Err        error
}

func (e *StatusError) Error() string { return fmt.Sprintf("%s: %v", http.StatusText(e.Status), e.Err) }

// Unwrap returns the cause.
func (e *StatusError) Unwrap() error { return e.Err }

// body says what is wrong with the request, for a 4xx. A 401 does not say what is wrong with the
// token: that would help to forge one.
func (e *StatusError) body() []byte {
	if e.Status < http.StatusBadRequest || e.Status >= http.StatusInternalServerError {
		return nil
	}
	text := http.StatusText(e.Status)
	code, said := strings.ReplaceAll(text, " ", ""), text
	known, ours := errors.AsType[reason](e.Err)
	refused, byGuard := errors.AsType[*connector.AuthError](e.Err)
	switch {
	case e.Status == http.StatusUnauthorized:
		said = "the Authorization header has no token that this bot accepts; its log says why"
	case ours:
		said = known.Error()
	case byGuard:
		said = refused.Error()
	}
	body, err := json.Marshal(map[string]any{"error": map[string]string{"code": code, "message": said}})
	if err != nil {
		return nil // cannot be: these are texts
	}
	return body
}

// reason is why the bot refuses a request, in words for its sender.
type reason struct{ error }

func refuse(status int, why string) error {
	return &StatusError{Status: status, Err: reason{errors.New(why)}}
}

func asStatus(err error) error {
	var status *StatusError
	var refusal *connector.AuthError
	switch {
	case errors.As(err, &status):
		return err
	case errors.As(err, &refusal):
		return &StatusError{Status: refusal.Status, Err: err}
	}
	return &StatusError{Status: http.StatusUnauthorized, Err: err}
}

func (b *Bot) answerRefused(w http.ResponseWriter, r *http.Request, err error) {
	status := &StatusError{Status: http.StatusInternalServerError, Err: err}
	switch {
	case errors.Is(err, inbox.ErrFull), errors.Is(err, state.ErrUnavailable), errors.Is(err, turn.ErrDraining), errors.Is(err, errBusy):
		status.Status = http.StatusServiceUnavailable
	case errors.Is(err, turn.ErrLateAnswer):
		status.Status, status.RetryAfter = http.StatusServiceUnavailable, time.Second
	default:
		errors.As(err, &status)
	}
	switch status.Status {
	case http.StatusMethodNotAllowed:
		w.Header().Set("Allow", http.MethodPost)
	case http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(cmp.Or(status.RetryAfter, retryAfter).Seconds()))))
	}
	b.engine.Count("", turn.CountRefused, strconv.Itoa(status.Status))
	b.logRefusal(r, status)
	write(w, turn.Answer{Status: status.Status, Body: status.body()})
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

// A flood of refusals from strangers must not fill the disk, nor delay others when the log is slow.
const maxRefusalLines, refusalPeriod = 2000, 20 * time.Second

// logRefusal logs a refusal, unless there are too many of them.
func (b *Bot) logRefusal(r *http.Request, status *StatusError) {
	level := zerolog.WarnLevel
	switch {
	case errors.Is(status.Err, turn.ErrDraining):
		level = zerolog.DebugLevel
	case status.Status >= http.StatusInternalServerError:
		level = zerolog.ErrorLevel
	}
	b.refusals.WithLevel(level).Err(status.Err).Int("status", status.Status).Str("from", r.RemoteAddr).Msg("activity refused")
}

// sameClick is how long a second click on the same card button counts as the same click, if nobody
// saw an answer to the first.
const sameClick = time.Minute

const sameExchange = 10 * time.Minute // how long the clients of a person may repeat a silent sign-in

// delivery is what a request brought, for its answer: the turn may change its activity once it has started.
type delivery struct {
	activity.Activity
	route    invokeRoute
	click    string // see [clickOf]
	exchange string // see [signin.ExchangeOf]
	code     string // see [turn.Secret]
	came     time.Time
}

// duplicates identify the delivery, so that it is handled once: channels send an activity again if
// its answer was late. Without an id, only a click can be a duplicate.
func (d *delivery) duplicates() (all []inbox.Duplicate) {
	if d.ID != "" {
		id := "activity\n" + d.Conversation.BaseID() + "\n" + string(d.Type) + "\n" + d.ID
		if d.Amends() { // a message may be edited more than once
			raw, _ := d.Encode() // it was decoded
			sum := sha256.Sum256(raw)
			id += "\n" + hex.EncodeToString(sum[:])
		}
		all = append(all, inbox.Duplicate{ID: id})
	}
	if d.click != "" {
		all = append(all, inbox.Duplicate{ID: d.click, For: sameClick})
	}
	if d.exchange != "" {
		all = append(all, inbox.Duplicate{ID: d.exchange, For: sameExchange})
	}
	return append(all, d.route.duplicates(&d.Activity, d.code)...)
}

// clickOf identifies who clicked what: a click whose answer was late also comes again under another
// id. "": not a click.
func clickOf(t *Turn) string {
	switch a := t.Activity; {
	case t.IsSubmit():
		return "submit\n" + a.ReplyToID + "\n" + a.From.ID + "\n" + string(a.Value)
	case t.IsExecute():
		return "execute\n" + a.ReplyToID + "\n" + a.From.ID + "\n" + string(a.Value)
	}
	return ""
}

// brief shortens a text that anybody may have written, for the log.
func brief(text string) string {
	const most = 100
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

// tellLate sends what an invoke answers to a person who does not wait for it any more, or whom the answer
// cannot show it. Nobody else sees it. It returns why the turn fails.
func (b *Bot) tellLate(ctx context.Context, t *Turn, route invokeRoute, late teams.Late) error {
	unread := b.unread(t)
	if !unread && !late.Only {
		return nil
	}
	text, card, err := late.Message(t)
	if err != nil {
		return err
	}
	switch {
	case card != nil:
		m := t.Message(text)
		m.Attachments = []activity.Attachment{*card}
		err = t.SendAlone(ctx, m)
	case text != "":
		err = t.TellAlone(ctx, text)
	default:
		return nil
	}
	if err != nil || !unread || late.Again() {
		return err
	}
	for _, d := range route.duplicates(t.Activity, "") {
		if d.For == sameClick { // what the person sends from here on is another one
			err = turn.ForgetDuplicate(ctx, t, d.ID)
		}
	}
	return err
}

// sameFile identifies the file: the first answer counts, but for those with an address that no file may go to.
func (b *Bot) sameFile(a *activity.Activity) (id string, lasting bool) {
	var answer offers.Answer
	_ = json.Unmarshal(a.Value, &answer) // it was read before
	id = string(answer.Context)
	address := answer.UploadInfo.UploadURL
	if address != "" && b.cfg.Channel.CheckUpload(connector.ForCaller(context.Background(), a.CallerApp()), address) != nil {
		id += "\n" + address
	}
	return id, true
}

// fileAnswered acts on a person's answer to a file that the bot offered. The answer to the invoke must be empty.
func (b *Bot) fileAnswered(ctx context.Context, t *Turn, value any) (InvokeResponse, error) {
	return InvokeResponse{}, b.offers.Take(ctx, t, value.(offers.Answer))
}
