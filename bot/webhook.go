package bot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/activity"
)

// MaxBodyBytes is the largest activity that is read.
const MaxBodyBytes = 1 << 20

// expectRepliesWithin is when the answer to expectReplies leaves with the
// replies that are there: the caller gives up after 15 s.
const expectRepliesWithin = 14 * time.Second

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

// ServeHTTP takes one activity. It answers 200 once the activity is handled, or
// after Config.AckTimeout if that takes longer; an invoke and an activity that
// expects replies are answered with their result. Refusals carry no detail.
func (b *Bot) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a, err := b.receive(w, r)
	if err == nil {
		err = b.accept(w, r, a)
	}
	if err != nil {
		b.refuse(w, r, err)
	}
}

// receive checks the request from the outside in and returns its activity.
func (b *Bot) receive(w http.ResponseWriter, r *http.Request) (*activity.Activity, error) {
	if r.Method != http.MethodPost {
		return nil, refuse(http.StatusMethodNotAllowed, "method "+r.Method)
	}
	if b.Draining() {
		return nil, errDraining
	}
	if err := checkContentType(r.Header); err != nil {
		return nil, err
	}
	if r.ContentLength > MaxBodyBytes {
		return nil, refuse(http.StatusRequestEntityTooLarge, "body too large")
	}
	visitor, err := b.cfg.Door.Enter(r)
	if err != nil {
		return nil, asStatus(err)
	}
	body, err := readBody(w, r)
	if err != nil {
		return nil, err
	}
	a, err := activity.Decode(body)
	if err != nil {
		return nil, &StatusError{Status: http.StatusBadRequest, Err: err}
	}
	if err := visitor.Permit(a); err != nil {
		return nil, asStatus(err)
	}
	return a, nil
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
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBodyBytes))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, refuse(http.StatusRequestEntityTooLarge, "body too large")
	case err != nil:
		return nil, &StatusError{Status: http.StatusBadRequest, Err: err}
	}
	return body, nil
}

func asStatus(err error) error {
	var status *StatusError
	if errors.As(err, &status) {
		return err
	}
	return &StatusError{Status: http.StatusUnauthorized, Err: err}
}

// accept queues the activity and answers the request.
func (b *Bot) accept(w http.ResponseWriter, r *http.Request, a *activity.Activity) error {
	t := b.newTurn(a)
	done := make(chan struct{})
	log := b.turnLog(t)
	err := b.lanes.add(b.laneKey(t), func(ctx context.Context) {
		defer close(done)
		b.run(log.WithContext(ctx), t)
	})
	if err != nil {
		return err
	}
	switch {
	case a.Type == activity.Invoke:
		return b.answerInvoke(w, r, t, done)
	case t.replies != nil:
		return b.answerReplies(w, r, t, done)
	}
	if wait(r.Context(), b.cfg.AckTimeout, done) && t.dropped {
		return errDraining
	}
	w.WriteHeader(http.StatusOK)
	return nil
}

// laneKey names the turns that may not overlap: those of a conversation. Decisions
// have a lane of their own, so that none waits for a turn at work.
func (b *Bot) laneKey(t *Turn) string {
	if _, ok := decisionIn(t); ok {
		return conversationLane(t.Activity) + "\ndecisions"
	}
	return conversationLane(t.Activity)
}

// conversationLane is in a channel the one of the channel with all its threads,
// which share their state.
func conversationLane(a *activity.Activity) string {
	return a.ChannelID + "\n" + a.Conversation.BaseID()
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

func (b *Bot) answerInvoke(w http.ResponseWriter, r *http.Request, t *Turn, done <-chan struct{}) error {
	if !wait(r.Context(), b.cfg.AckTimeout, done) {
		return &StatusError{Status: http.StatusServiceUnavailable, RetryAfter: time.Second, Err: errors.New("the invoke takes too long")}
	}
	if t.dropped {
		return errDraining
	}
	return t.answer.write(w)
}

func (b *Bot) answerReplies(w http.ResponseWriter, r *http.Request, t *Turn, done <-chan struct{}) error {
	end := time.Now().Add(expectRepliesWithin)
	if wait(r.Context(), expectRepliesWithin, done) {
		if t.dropped {
			return errDraining
		}
		if t.follows != nil {
			wait(r.Context(), time.Until(end), t.follows)
		}
	}
	return InvokeResponse{Body: map[string]any{"activities": t.replies.take()}}.write(w)
}

// refuse answers a request that is not taken, and logs why.
func (b *Bot) refuse(w http.ResponseWriter, r *http.Request, err error) {
	status := &StatusError{Status: http.StatusInternalServerError, Err: err}
	if errors.Is(err, errBusy) || errors.Is(err, errDraining) {
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
