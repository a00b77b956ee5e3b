// Package models asks language models for text.
//
// A [Model] takes a [Request] and gives a [Response] or an [*Error] that says
// what kind of thing went wrong. That of [NewOpenAI] speaks to OpenAI, Azure OpenAI and
// every compatible server; [Offline] answers the examples of actions, with no model at
// all. A [Chain] asks several models in turn, patiently, and watches what they cost.
// The types of a vendor's client never leave this package.
package models

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// Message is one message of a prompt. One without text and without calls is not
// sent, as servers refuse it, unless it answers a call.
type Message struct {
	// Role is system (the runtime: instructions, results of actions), user (the person),
	// assistant (the model, earlier) or tool (the answer to a call of the model).
	Role string
	Text string
	// WithSchema is told in place of Text where the schema of the request's [Format] is sent
	// along, so that nothing is said twice. "": Text.
	WithSchema string

	// Calls are what the model called, in a message of the assistant. Each has to
	// be answered by a message of its own, with the call's id, right behind it.
	Calls []Call
	// CallID is the id of the call that a message of the tool role answers.
	CallID string
}

// Tool is a function that the model may call. Name is made of letters, digits, _
// and -, at most 64. Schema is the JSON Schema of its arguments, always of an
// object.
type Tool struct {
	Name        string
	Description string
	Schema      json.RawMessage
	// Strict asks the server to hold the model to the schema, which then must be
	// in the subset that OpenAI calls strict.
	Strict bool
	// Examples are phrases by which people ask for it, see [Offline]. Servers are not sent them.
	Examples []string
}

// Call is one call of a tool. Name and Arguments are as the model wrote them, and
// may be anything; Arguments should be the JSON of an object, or is empty for none.
// In a later request both are made what servers take back: other characters of the
// name become _, and arguments that are no object become an empty one.
type Call struct {
	ID        string
	Name      string
	Arguments string
}

// Format asks for JSON in place of free text. The zero value asks for any JSON
// object (json_object); with a Schema the text must follow it, strictly
// (json_schema). Not every server takes every format: the one of [NewOpenAI] falls back from
// json_schema to json_object to text, and remembers what its server refused. So a
// format is a wish, and the text has to be checked all the same.
type Format struct {
	Name   string          // of the schema, [A-Za-z0-9_-], at most 64; "": "answer"
	Schema json.RawMessage // JSON Schema; must be valid JSON
	// Loose says that Schema is not in the subset that OpenAI calls strict: there
	// the model is shown it and not held to it. Grammars hold it all the same.
	Loose bool
	// Grammar is Schema with more in it, for servers that make a grammar of it:
	// all but OpenAI and Azure, which refuse what they do not know. It must be
	// valid JSON; none: Schema.
	Grammar json.RawMessage
}

// Request is what a model is asked. Only Messages is required; a zero field
// leaves the choice to the server. A model never changes a request, so one may
// be used again and by several callers at once.
type Request struct {
	Messages    []Message
	MaxTokens   int      // of the answer, reasoning included; 0: the server's limit
	Temperature *float64 // nil: the server's default; some models refuse any other
	Format      *Format  // nil: free text

	TopP             *float64 // nil: the server's default, as of the next two
	PresencePenalty  *float64
	FrequencyPenalty *float64
	Stop             []string // texts before which the answer ends; at most 4

	// Actions are what a plan in the answer may use. Servers are not sent them, as the prompt
	// says what there is; [Offline] reads them. nil: the answer is text, or calls of Tools.
	Actions []Tool

	Tools []Tool // that the model may call; none: it answers with text
	// Choice of calling Tools: "" as the model likes, "required" at least one, "none" although
	// it sees them. Not every server holds the model to it, so the answer may still be a text.
	Choice        string
	OneCallAtMost bool // no parallel calls; further ones are dropped
}

// Usage counts tokens as the server reports them; a server that reports none
// leaves zeros. Cached is the part of Prompt that came from the provider's
// prompt cache, Reasoning the part of Completion that is not in the text.
type Usage struct {
	Prompt, Completion, Cached, Reasoning int
	Cost                                  float64 // see [Chain]; 0 where no price is known
}

// Add is the sum of both.
func (u Usage) Add(o Usage) Usage {
	return Usage{
		Prompt:     u.Prompt + o.Prompt,
		Completion: u.Completion + o.Completion,
		Cached:     u.Cached + o.Cached,
		Reasoning:  u.Reasoning + o.Reasoning,
		Cost:       u.Cost + o.Cost,
	}
}

// Total is the number of tokens in and out.
func (u Usage) Total() int { return u.Prompt + u.Completion }

// Response is what a model wrote. Text is never blank unless there are calls, and
// holds no reasoning that the server keeps apart or that stands in closed tags
// before the answer.
type Response struct {
	Text  string
	Calls []Call // of the request's tools, or of what the model takes for one; each has an ID of its own
	// Finish says why the model stopped: stop, since it was done; length, when the answer is
	// cut off somewhere, in the text or in the last call; tool_calls, when it wants tools to
	// be called.
	Finish string
	Usage  Usage
	Model  string // the model that answered, by the server's name for it
}

// Model writes text. Complete waits for the whole answer, ends with ctx, and
// fails with an [*Error], or, when ctx was cancelled, with an error for which
// errors.Is(err, context.Canceled) holds. Implementations are safe for use by
// several goroutines at once.
type Model interface {
	Complete(ctx context.Context, req *Request) (*Response, error)
}

// The kinds of [Error] sort what goes wrong with a model by what a caller can do about it.
const (
	Throttled   = "throttled"   // 429: later, see RetryAfter; with the code insufficient_quota not even then
	TooLong     = "too_long"    // the prompt does not fit: trim it, as [Chain.Complete] does
	Filtered    = "filtered"    // the provider's filter refused the prompt, or cut the answer; none of it is returned
	Auth        = "auth"        // 401, 403: the key or its rights are wrong
	Timeout     = "timeout"     // no answer in time: the deadline, 408, 504
	Unavailable = "unavailable" // 5xx, the network, an answer that cannot be read
	BadRequest  = "bad_request" // any other refusal: the same request will fail again
	Empty       = "empty"       // an answer without text; with the code length all tokens went before the first word
)

// Values of [Error.Code]. All but codeQuota are ours; any other code is the server's own.
const (
	codeQuota     = "insufficient_quota" // Throttled: the account's money is used up, waiting does not help
	codeMalformed = "malformed_response" // Unavailable: the body is not the JSON of a completion
	codeTooLarge  = "response_too_large" // Unavailable: the body is past the cap
	codeRedirect  = "redirect"           // BadRequest: the server sends elsewhere; keys do not follow
	codeCutOff    = "length"             // Empty: all tokens went before the first word (reasoning)
)

// Error is a model call that gave no answer. Its text is for the operator and
// holds nothing that the server said but its code: servers quote what they were
// sent. Find it with errors.As.
type Error struct {
	Kind       string        // one of the above, as logs and metrics have it
	Status     int           // of HTTP, 0 when there was no answer
	Code       string        // the server's word for it, or ours; may be ""
	RetryAfter time.Duration // how long the server asks to wait, 0 when it does not say
	RequestID  string        // the server's id of the call, for its support; may be ""
	Usage      Usage         // of an answer that was paid for and is of no use: empty, filtered
	Said       string        // the server's own message, shortened, on one line, without the key: for debugging, as it may quote the prompt
	Err        error         // the cause; a ctx error stays visible to errors.Is; may be nil
}

// Error says kind, status, code and cause.
func (e *Error) Error() string {
	text := "model " + e.Kind
	if e.Status != 0 {
		text += fmt.Sprintf(", status %d", e.Status)
	}
	if e.Code != "" {
		text += ", code " + e.Code
	}
	if e.RetryAfter > 0 {
		text += fmt.Sprintf(", retry after %s", e.RetryAfter)
	}
	if e.RequestID != "" {
		text += ", request " + e.RequestID
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap is the cause.
func (e *Error) Unwrap() error { return e.Err }
