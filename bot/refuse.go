package bot

import (
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/state"
)

var (
	errBusy      = errors.New("too many requests are at work")
	errDoorPanic = errors.New("the door panicked")
)

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

func asStatus(err error) error {
	var status *StatusError
	if errors.As(err, &status) {
		return err
	}
	return &StatusError{Status: http.StatusUnauthorized, Err: err}
}

// refuse answers a request that is not taken, and logs why.
func (b *Bot) refuse(w http.ResponseWriter, r *http.Request, err error) {
	status := &StatusError{Status: http.StatusInternalServerError, Err: err}
	switch {
	case errors.Is(err, state.ErrFull), errors.Is(err, state.ErrUnavailable), errors.Is(err, errDraining), errors.Is(err, errBusy):
		status = &StatusError{Status: http.StatusServiceUnavailable, RetryAfter: 2 * time.Second, Err: err}
	default:
		errors.As(err, &status)
	}
	switch {
	case status.Status == http.StatusMethodNotAllowed:
		w.Header().Set("Allow", http.MethodPost)
	case status.RetryAfter > 0:
		w.Header().Set("Retry-After", seconds(status.RetryAfter))
	}
	b.meter.refusal(strconv.Itoa(status.Status))
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
	b.refuse(w, r, fmt.Errorf("%w: %v\n%s", errDoorPanic, p, debug.Stack()))
}

// logRefusal writes the line of a refusal, unless there are too many of them.
func (b *Bot) logRefusal(r *http.Request, status *StatusError) {
	level := zerolog.WarnLevel
	switch {
	case errors.Is(status.Err, errDraining):
		level = zerolog.DebugLevel
	case status.Status >= http.StatusInternalServerError:
		level = zerolog.ErrorLevel
	}
	write, unsaid := b.refusals.next(time.Now())
	if !write {
		return
	}
	line := b.cfg.Log.WithLevel(level).Err(status.Err).Int("status", status.Status).Str("from", r.RemoteAddr)
	if unsaid > 0 {
		line = line.Int("not_logged_before", unsaid)
	}
	line.Msg("activity refused")
}

// What is logged of refusals: a flood of strangers shall not fill the disk, nor hold up
// others at a log that is slow to take it.
const refusalsAtOnce, refusalsEachSecond = 2000, 100

// lineLimit bounds how many lines of a kind are logged, as a token bucket.
type lineLimit struct {
	atOnce, eachSecond float64

	mu     sync.Mutex
	spent  float64
	at     time.Time // of that
	unsaid int       // lines since the last one
}

// next reports whether a line may be written now, and how many were not before it.
func (t *lineLimit) next(now time.Time) (write bool, unsaid int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.spent, t.at = max(0, t.spent-now.Sub(t.at).Seconds()*t.eachSecond), now
	if t.spent+1 > t.atOnce {
		t.unsaid++
		return false, 0
	}
	t.spent++
	unsaid, t.unsaid = t.unsaid, 0
	return true, unsaid
}
