package bot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/state"
)

// MaxBodyBytes is the largest activity that is read.
const MaxBodyBytes = 1 << 20

// StatusError is an error that says which HTTP status it is. Door and Visitor
// return one to choose it; other errors of theirs are 401. Status is required.
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

// ServeHTTP takes one activity. It answers 200 once the activity is kept in the
// inbox, and works on it after that; an invoke and an activity that expects replies
// are answered with their result. Refusals carry no detail.
func (b *Bot) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d, err := b.receive(w, r)
	if err == nil {
		err = b.accept(w, r, d)
	}
	if err != nil {
		b.refuse(w, r, err)
	}
}

// delivery is an activity that was let in.
type delivery struct {
	activity *activity.Activity
	raw      []byte
	signed   bool // see [Visitor]
}

// receive checks the request from the outside in and returns what it delivers.
func (b *Bot) receive(w http.ResponseWriter, r *http.Request) (d delivery, err error) {
	if r.Method != http.MethodPost {
		return d, refuse(http.StatusMethodNotAllowed, "method "+r.Method)
	}
	if b.Draining() {
		return d, errDraining
	}
	b.Start()
	if err := checkContentType(r.Header); err != nil {
		return d, err
	}
	if r.ContentLength > MaxBodyBytes {
		return d, refuse(http.StatusRequestEntityTooLarge, "body too large")
	}
	visitor, err := b.cfg.Door.Enter(r)
	if err != nil {
		return d, asStatus(err)
	}
	d.signed = visitor.Signed()
	if d.raw, err = readBody(w, r); err != nil {
		return d, err
	}
	if d.activity, err = activity.Decode(d.raw); err != nil {
		return d, &StatusError{Status: http.StatusBadRequest, Err: err}
	}
	if err := visitor.Permit(d.activity); err != nil {
		return d, asStatus(err)
	}
	d.activity.CallerID = visitor.CallerID()
	return d, nil
}

// checkContentType accepts JSON in UTF-8, uncompressed. A missing type is left
// to the door, which knows whether the caller is local.
func checkContentType(h http.Header) error {
	if enc := h.Get("Content-Encoding"); enc != "" && !strings.EqualFold(enc, "identity") {
		return refuse(http.StatusUnsupportedMediaType, "content encoding "+enc)
	}
	typ := h.Get("Content-Type")
	if typ == "" {
		return nil
	}
	media, params, err := mime.ParseMediaType(typ)
	if err != nil || media != "application/json" {
		return refuse(http.StatusUnsupportedMediaType, "content type")
	}
	if charset := params["charset"]; charset != "" && !strings.EqualFold(charset, "utf-8") {
		return refuse(http.StatusUnsupportedMediaType, "charset")
	}
	return nil
}

func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	const usual = 64 << 10
	buf := bytes.NewBuffer(make([]byte, 0, min(max(r.ContentLength, 0), usual)+bytes.MinRead))
	_, err := buf.ReadFrom(http.MaxBytesReader(w, r.Body, MaxBodyBytes))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, refuse(http.StatusRequestEntityTooLarge, "body too large")
	case err != nil:
		return nil, &StatusError{Status: http.StatusBadRequest, Err: err}
	}
	return buf.Bytes(), nil
}

func asStatus(err error) error {
	var status *StatusError
	if errors.As(err, &status) {
		return err
	}
	return &StatusError{Status: http.StatusUnauthorized, Err: err}
}

// accept keeps the activity in the inbox and answers the request. When nobody is at
// work on its conversation, this process is from now on.
func (b *Bot) accept(w http.ResponseWriter, r *http.Request, d delivery) error {
	a := d.activity
	t := b.newTurn(a)
	t.vouch(d.signed)
	if reason := unwanted(a); reason != "" {
		t.log().Info().Str("reason", reason).Msg("activity ignored")
		b.meter.ignored()
		w.WriteHeader(http.StatusOK)
		return nil
	}
	if !b.answers(t) {
		t.log().Debug().Msg("no route")
		return nobodyAnswers(a).write(w)
	}
	var told <-chan []byte
	if t.awaited {
		told = b.waiters.add(t.ID)
		defer b.waiters.remove(t.ID)
	}
	q, log := request{a, laneOf(t), t.awaited, t.replies != nil}, t.log() // the turn is not ours once it has begun
	receipt, err := b.enqueue(r.Context(), t, d.raw)
	if err != nil {
		return err
	}
	if receipt.Duplicate {
		log.Info().Str("of_turn", receipt.Turn).Msg("duplicate dropped")
		b.meter.duplicate(aDelivery)
	}
	if !q.awaits {
		w.WriteHeader(http.StatusOK)
		return nil
	}
	return b.respond(w, r, q, receipt.Turn, told)
}

// answers reports whether any route takes the activity. One that panics does: its turn
// owns up to it.
func (b *Bot) answers(t *Turn) (yes bool) {
	defer func() { yes = yes || recover() != nil }()
	return b.handler(t) != nil
}

// enqueue keeps the turn in the inbox, and begins it when its lane is free.
func (b *Bot) enqueue(ctx context.Context, t *Turn, raw []byte) (receipt state.Receipt, err error) {
	ctx, s := b.traces.receive(ctx)
	defer func() { s.end(err) }()
	s.about(t)
	t.trace = traceparent(ctx)
	i := item{Version: itemVersion, Awaited: t.awaited, Approval: t.resumes, Signed: t.signed, CallerID: t.Activity.CallerID, Trace: t.trace, Activity: raw}
	e := state.Entry{Lane: laneOf(t), Turn: t.ID, Body: i.encode(), Duplicates: duplicatesOf(t.Activity)}
	if !t.detached {
		e.Load = t.keys()
	}
	return b.submit(ctx, t, e)
}

// submit gives the entry to the inbox, and goes to work when it gets the lane for it.
func (b *Bot) submit(ctx context.Context, t *Turn, e state.Entry) (state.Receipt, error) {
	e.Take = b.workers.tryEnter()
	receipt, err := b.inbox.Accept(ctx, e)
	if receipt.Hold == nil {
		if e.Take {
			b.workers.leave()
		}
		return receipt, err
	}
	if len(receipt.Scopes) > 0 {
		t.loaded(receipt.Scopes)
	}
	go func() {
		defer b.workers.leave()
		b.work(receipt.Hold, t)
	}()
	return receipt, nil
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

// wait returns true when done was closed in time.
func wait(ctx context.Context, atMost time.Duration, done <-chan struct{}) bool {
	timer := time.NewTimer(atMost)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	case <-timer.C:
		return false
	}
}

// refuse answers a request that is not taken, and logs why.
func (b *Bot) refuse(w http.ResponseWriter, r *http.Request, err error) {
	status := &StatusError{Status: http.StatusInternalServerError, Err: err}
	if errors.Is(err, state.ErrFull) || errors.Is(err, state.ErrUnavailable) || errors.Is(err, errDraining) {
		status = &StatusError{Status: http.StatusServiceUnavailable, RetryAfter: 2 * time.Second, Err: err}
	} else {
		errors.As(err, &status)
	}
	switch {
	case status.Status == http.StatusMethodNotAllowed:
		w.Header().Set("Allow", http.MethodPost)
	case status.RetryAfter > 0:
		w.Header().Set("Retry-After", seconds(status.RetryAfter))
	}
	level := zerolog.WarnLevel
	switch {
	case errors.Is(err, errDraining):
		level = zerolog.DebugLevel
	case status.Status >= http.StatusInternalServerError:
		level = zerolog.ErrorLevel
	}
	b.cfg.Log.WithLevel(level).Err(status.Err).Int("status", status.Status).Str("from", r.RemoteAddr).Msg("activity refused")
	w.WriteHeader(status.Status)
}
