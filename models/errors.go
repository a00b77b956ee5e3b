package models

import (
	"fmt"
	"strings"
	"time"
)

// Kind sorts what goes wrong with a model by what a caller can do about it.
type Kind int

// The kinds of [Error]. The zero Kind is none of them and never returned.
const (
	Throttled      Kind = iota + 1 // 429: later, see RetryAfter; with CodeQuota not even then
	TooLong                        // the prompt does not fit: trim it, see [Trim]
	FilteredInput                  // the provider's filter refused the prompt
	FilteredOutput                 // the provider's filter cut the answer; none of it is returned
	Auth                           // 401, 403: the key or its rights are wrong
	Timeout                        // no answer in time: the deadline, 408, 504
	Unavailable                    // 5xx, the network, an answer that cannot be read
	BadRequest                     // any other refusal: the same request will fail again
	Empty                          // an answer without text
)

var kindNames = [...]string{
	"unknown", "throttled", "too_long", "filtered_input", "filtered_output",
	"auth", "timeout", "unavailable", "bad_request", "empty",
}

// String is the kind's name for logs and metrics: "throttled", "too_long" ….
func (k Kind) String() string {
	if k < 0 || int(k) >= len(kindNames) {
		k = 0
	}
	return kindNames[k]
}

// Values of [Error.Code] that callers tell apart. All but CodeQuota are ours;
// any other code is the server's own.
const (
	CodeQuota     = "insufficient_quota" // Throttled: the account's money is used up, waiting does not help
	CodeMalformed = "malformed_response" // Unavailable: the body is not the JSON of a completion
	CodeTooLarge  = "response_too_large" // Unavailable: the body is past the cap
	CodeRedirect  = "redirect"           // BadRequest: the server sends elsewhere; keys do not follow
	CodeCutOff    = "length"             // Empty: all tokens went before the first word (reasoning)
	CodeNoTools   = "no_tools"           // BadRequest: the model or its server takes no tools
)

// Error is a model call that gave no answer. Its text is for the operator and
// holds nothing that the server said but its code: servers quote what they were
// sent. Find it with errors.As.
type Error struct {
	Kind       Kind
	Status     int           // of HTTP, 0 when there was no answer
	Code       string        // the server's word for it, or one of the Code constants; may be ""
	RetryAfter time.Duration // how long the server asks to wait, 0 when it does not say
	RequestID  string        // the server's id of the call, for its support; may be ""
	Usage      Usage         // of an answer that was paid for and is of no use: empty, filtered
	Said       string        // the server's own message, shortened, on one line, without the key: for debugging, as it may quote the prompt
	Err        error         // the cause; a ctx error stays visible to errors.Is; may be nil
}

// Error says kind, status, code and cause.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("model ")
	b.WriteString(e.Kind.String())
	if e.Status != 0 {
		fmt.Fprintf(&b, ", status %d", e.Status)
	}
	if e.Code != "" {
		b.WriteString(", code " + e.Code)
	}
	if e.RetryAfter > 0 {
		fmt.Fprintf(&b, ", retry after %s", e.RetryAfter)
	}
	if e.RequestID != "" {
		b.WriteString(", request " + e.RequestID)
	}
	if e.Err != nil {
		b.WriteString(": " + e.Err.Error())
	}
	return b.String()
}

// Unwrap is the cause.
func (e *Error) Unwrap() error { return e.Err }
