package connector

import (
	"errors"
	"fmt"
	"net/http"
	"time"
)

// ErrNoAnswer is wrapped when the whole request of a call was written and no answer came:
// it may have been taken. A request that was not written to its end, say because there was
// no connection, does not count. Which of the two it was is what the Transport tells
// [net/http/httptrace].
var ErrNoAnswer = errors.New("no answer came")

// ErrBadCall is wrapped when a call was not made, and never can be: what it names is no
// id ("", "." and ".." are none), or its activity has no type, cannot be written as JSON
// or is too large.
var ErrBadCall = errors.New("the call cannot be made")

// ErrHeldBack is wrapped when a call was not made, since it would have had to wait too
// long to stay below the limits of Teams. It comes with an [*Error] of status 429 whose
// RetryAfter says when there is room.
var ErrHeldBack = errors.New("held back to stay below the limits of Teams")

// AuthError is why the door stays shut. Its text is for the log: it holds
// nothing of the token, and nothing of it belongs in a response.
type AuthError struct {
	// Status is what to answer: 401 for a fault of the token, 503 while there are no
	// keys to judge it with or newer ones are on their way, 400 for a service URL that
	// is not allowed.
	Status int
	Reason string
	Err    error
}

// Error returns the reason.
func (e *AuthError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%s: %v", e.Reason, e.Err)
	}
	return e.Reason
}

// Unwrap returns what lies behind, or nil.
func (e *AuthError) Unwrap() error { return e.Err }

func unauthorized(reason string) error {
	return &AuthError{Status: http.StatusUnauthorized, Reason: reason}
}

// Error is an answer of the Connector that is no success.
type Error struct {
	Op         string // what was tried on what
	Status     int
	Code       string // the Connector's own, such as "ConversationNotFound"; may be ""
	Message    string // the Connector's words, cut and without control characters
	RetryAfter time.Duration
}

// Error says what was tried and what came back.
func (e *Error) Error() string {
	s := fmt.Sprintf("%s: status %d", e.Op, e.Status)
	if e.Code != "" {
		s += " " + e.Code
	}
	if e.Message != "" {
		s += ": " + e.Message
	}
	return s
}

// TokenError is a token that could not be had. It never holds a secret: of the
// endpoint's answer it keeps the status and the codes.
type TokenError struct {
	Status int    // 0 when the endpoint was not reached
	Code   string // such as "invalid_client AADSTS7000215"
	Err    error

	retryAt time.Time // when the endpoint may be asked again
}

// Error says why there is no token.
func (e *TokenError) Error() string {
	switch {
	case e.Err != nil:
		return fmt.Sprintf("get bot token: %v", e.Err)
	case e.Code != "" && e.Status == 0:
		return "get bot token: " + e.Code
	case e.Code != "":
		return fmt.Sprintf("get bot token: status %d %s", e.Status, e.Code)
	default:
		return fmt.Sprintf("get bot token: status %d", e.Status)
	}
}

// refused reports whether the endpoint refused the bot itself (RFC 6749, section 5.2).
// What a proxy or a page in its place says is trouble that passes, as are its own errors.
func (e *TokenError) refused() bool {
	return e.Code != "" && (e.Status == http.StatusBadRequest || e.Status == http.StatusUnauthorized)
}

// Unwrap returns the transport's error, or nil.
func (e *TokenError) Unwrap() error { return e.Err }
