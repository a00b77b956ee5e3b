package bot

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/state"
)

// MaxBodyBytes is the largest activity that is read.
const MaxBodyBytes = 1 << 20

// ServeHTTP takes one activity. It answers 200 once the activity is kept in the
// inbox, and works on it after that; an invoke and an activity that expects replies
// are answered with their result. Refusals carry no detail, and neither does a panic.
func (b *Bot) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer b.survive(w, r)
	if err := b.serve(w, r); err != nil {
		b.refuse(w, r, err)
	}
}

// serve does what the request asks for. Its error is the refusal.
func (b *Bot) serve(w http.ResponseWriter, r *http.Request) error {
	visitor, err := b.greet(r)
	if err != nil {
		return err
	}
	defer takeSeat(r.Context())()
	raw, err := readBody(w, r)
	if err != nil {
		return err
	}
	if b.requests.Add(1) > int64(b.cfg.MaxRequests) { // who is slow to send is not counted yet
		err = errBusy
	}
	defer b.requests.Add(-1)
	if err != nil {
		return err
	}
	d, err := open(visitor, raw)
	if err != nil {
		return err
	}
	return b.accept(w, r, d)
}

// greet checks the request from the outside in, up to its body.
func (b *Bot) greet(r *http.Request) (Visitor, error) {
	if r.Method != http.MethodPost {
		return nil, refuse(http.StatusMethodNotAllowed, "method "+brief(r.Method))
	}
	if b.Draining() {
		return nil, errDraining
	}
	b.Start()
	if err := checkContentType(r.Header); err != nil {
		return nil, err
	}
	if r.ContentLength > MaxBodyBytes {
		return nil, refuse(http.StatusRequestEntityTooLarge, "body too large")
	}
	return b.enter(r)
}

// enter asks the door, which need not decide any more when activities are refused: it
// may wait for what does not come.
func (b *Bot) enter(r *http.Request) (Visitor, error) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(b.taking, cancel)()
	visitor, err := b.cfg.Door.Enter(r.WithContext(ctx))
	switch {
	case err != nil && b.Draining():
		return nil, errDraining
	case err != nil:
		return nil, asStatus(err)
	}
	return visitor, nil
}

// delivery is an activity that was let in.
type delivery struct {
	activity *activity.Activity
	raw      []byte
	signed   bool // see [Visitor]
}

// open reads what the visitor brought.
func open(visitor Visitor, raw []byte) (d delivery, err error) {
	d = delivery{raw: raw, signed: visitor.Signed()}
	if d.activity, err = activity.Decode(raw); err != nil {
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
	_, err := buf.ReadFrom(http.MaxBytesReader(w, r.Body, MaxBodyBytes))
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

// accept keeps the activity in the inbox and answers the request. When nobody is at
// work on its conversation, this process is from now on.
func (b *Bot) accept(w http.ResponseWriter, r *http.Request, d delivery) error {
	a := d.activity
	t := b.newTurn(a)
	t.vouch(d.signed)
	if b.suspects(t) || b.ignores(t) {
		w.WriteHeader(http.StatusOK)
		return nil
	}
	if list := b.bars(a); list != "" {
		if answered, err := b.keepOut(w, t, list); answered {
			return err
		}
	}
	if !b.answers(t) {
		t.log().Debug().Msg("no route")
		return nobodyAnswers(a).write(w)
	}
	if response := b.wrong(t); response != nil {
		return response.write(w)
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

// ignores reports whether the activity is not to be handled at all.
func (b *Bot) ignores(t *Turn) bool {
	reason := unwanted(t.Activity)
	if reason == "" {
		return false
	}
	t.log().Info().Str("reason", reason).Msg("activity ignored")
	b.meter.ignored()
	return true
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
	if t.isMessage() && !t.detached { // which its words will be in
		e.Set, e.Member = placesKey(userKey(t.Activity)), t.here().member()
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
	t.listed = receipt.Joined
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
