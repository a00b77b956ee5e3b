// Package models asks language models for text.
//
// A [Model] takes a [Request] and returns a [Response] or an [*Error] that says what kind of thing
// went wrong. [NewOpenAI] talks to OpenAI, Azure OpenAI and every compatible server. [Offline]
// answers the examples of actions without a language model. A [Chain] asks several models in turn,
// retries, and adds up the cost. No vendor's types leave this package.
package models

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"
)

// Message is one message of a prompt. A message without text, pictures and calls is not sent, because servers
// refuse it, unless it answers a call.
type Message struct {
	// Role is system (the runtime: instructions, results of actions), user (the person), assistant
	// (the model, earlier) or tool (the answer to a model's call).
	Role string
	Text string
	// WithSchema replaces Text when the schema of the request's [Format] is sent along, so that
	// nothing is said twice. "": Text.
	WithSchema string
	// Pictures come with the text of a user message. Give them only to a model that sees.
	Pictures []Picture

	// Calls are the calls that the model made, in an assistant message. Each must be answered by
	// its own message with the call's id, right after it.
	Calls []Call
	// CallID is the id of the call that a tool message answers.
	CallID string
}

// Picture is a picture in a message.
type Picture struct {
	Type string // image/png, image/jpeg or another type that the model takes
	Data []byte
	// About stands for the picture in logs and recordings, such as "image: 1024×768 png".
	About string
}

// MarshalJSON writes About, so that no log has a picture in it.
func (p Picture) MarshalJSON() ([]byte, error) { return json.Marshal(p.About) }

// url has the whole picture in it.
func (p Picture) url() string {
	return "data:" + p.Type + ";base64," + base64.StdEncoding.EncodeToString(p.Data)
}

// Tool is a function that the model may call. Name has at most 64 letters, digits, _ and -. Schema
// is the JSON Schema of its arguments, always an object.
type Tool struct {
	Name        string
	Description string
	Schema      json.RawMessage
	// Strict asks the server to enforce the schema, which must then be in the subset that OpenAI
	// calls strict.
	Strict bool

	// The fields below are for [Offline] and are not sent to servers. Title is what people read in
	// place of Name; "": Name as words. Examples are phrases that people use to ask for it. Labelled
	// is Schema with the titles of parameters and the labels of values; nil: Schema.
	Title    string
	Examples []string
	Labelled json.RawMessage
}

// Call is one call of a tool. Name and Arguments are as the model wrote them and may be anything;
// Arguments should be a JSON object, or empty for none. A later request turns both into what
// servers accept: other characters in the name become _, and arguments that are not an object
// become an empty one.
type Call struct {
	ID        string
	Name      string
	Arguments string
}

// Format asks for JSON instead of free text. The zero value asks for any JSON object (json_object);
// with a Schema the text must follow it, strictly (json_schema). Not every server supports every
// format: [NewOpenAI]'s model falls back from json_schema to json_object to text, and remembers
// what its server refused. So a format is only a wish: always check the text.
type Format struct {
	Name   string          // of the schema: [A-Za-z0-9_-], at most 64; "": "answer"
	Schema json.RawMessage // JSON Schema; must be valid JSON
	// Loose says that Schema is not in the subset that OpenAI calls strict. There the model sees
	// the schema but is not forced to follow it. Grammars enforce it anyway.
	Loose bool
	// Grammar is a more detailed Schema for servers that compile it to a grammar: all but OpenAI
	// and Azure, which refuse keywords they do not know. It must be valid JSON; none: Schema.
	Grammar json.RawMessage
}

// Request is what a model is asked. Only Messages is required; a zero field leaves the choice to
// the server. A model never changes a request, so it may be reused, also by several callers at
// once.
type Request struct {
	Messages    []Message
	MaxTokens   int      // of the answer, including reasoning; 0: the server's limit
	Temperature *float64 // nil: the server's default; some models refuse any other
	Format      *Format  // nil: free text

	TopP             *float64 // nil: the server's default; the same for the next two
	PresencePenalty  *float64
	FrequencyPenalty *float64
	Stop             []string // texts that end the answer before them; at most 4

	// Actions are what a plan in the answer may use. They are not sent to servers, because the
	// prompt lists them; [Offline] reads them. nil: the answer is text, or calls of Tools.
	Actions []Tool
	// Said is what the person says where none of the Messages is theirs, because the prompt has it in its text. It is
	// not sent to servers; [Offline] reads it.
	Said string
	// Exchanges follow the first of the Messages where the server does not get the schema of Format: they show the model
	// the form that the schema would have enforced.
	Exchanges []Message

	Tools []Tool // the model may call these; none: it answers with text
	// Choice controls tool calls: "" lets the model choose, "required" asks for at least one,
	// "none" forbids them although the model sees the tools. Not every server enforces it, so the
	// answer may still be text.
	Choice        string
	OneCallAtMost bool // no parallel calls; extra ones are dropped

	// Stream asks for the text while it is written. A model that can stream calls it when an answer
	// begins, and then piece with each part of the text, in order, before Complete returns. Reasoning
	// that the server keeps apart and calls of tools are not in it. An answer that begins anew, after a
	// fault or from another model, calls Stream again. What was read may belong to an answer that
	// fails: only the [Response] counts, which is whole as always. nil, and models that cannot stream:
	// whole answers only.
	Stream func() (piece func(text string)) `json:"-"`
}

// Usage counts tokens as the server reports them; zero if it reports none. Cached is the part of
// Prompt that came from the provider's prompt cache. Reasoning is the part of Completion that is
// not in the text.
type Usage struct {
	Prompt, Completion, Cached, Reasoning int
	Cost                                  float64 // see [Chain]; 0 if no price is known
}

// Add returns the sum of both.
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

// Response is what a model wrote. Text is never blank unless there are calls. It contains no
// reasoning that the server keeps apart or that stands in closed tags before the answer.
type Response struct {
	Text  string
	Calls []Call // of the request's tools, or of tools the model made up; each has its own ID
	// Finish says why the model stopped: stop (done), length (the answer is cut off somewhere, in
	// the text or in the last call) or tool_calls (it wants tools called).
	Finish string
	Usage  Usage
	Model  string // the server's name of the model that answered
	// Without is what the server refused of the request, so that it was asked without: json_schema,
	// json_object, stream, chat (the tools went over the Responses API), older turns, or tool and its name.
	Without []string
}

// Model writes text. Complete waits for the whole answer, also of a request with Stream, and ends
// with ctx. It fails with an
// [*Error] or, when ctx was cancelled, with an error for which errors.Is(err, context.Canceled)
// holds. Implementations must be safe for concurrent use.
type Model interface {
	Complete(ctx context.Context, req *Request) (*Response, error)
}

// The kinds of [Error] say what a caller can do about a fault.
const (
	Throttled   = "throttled"   // 429: try later, see RetryAfter
	Quota       = "quota"       // 402, or 429 with the code insufficient_quota: the account's money is used up
	TooLong     = "too_long"    // the prompt does not fit: trim it, as [Chain.Complete] does
	Filtered    = "filtered"    // the provider's filter refused the prompt or cut the answer; none of the answer is returned
	Auth        = "auth"        // 401, 403: the key or its rights are wrong
	Timeout     = "timeout"     // no answer in time: deadline, 408, 504
	Unavailable = "unavailable" // 5xx, the network, an unreadable answer
	BadRequest  = "bad_request" // any other refusal: the same request will fail again
	Empty       = "empty"       // an answer without text; with the code length all tokens went before the first word
)

// Values of [Error.Code] that are ours. Any other code is the server's.
const (
	codeMalformed = "malformed_response" // Unavailable: the body is not a completion's JSON
	codeTooLarge  = "response_too_large" // Unavailable: the body exceeds the cap
	codeRedirect  = "redirect"           // BadRequest: the server redirects; keys do not follow
	codeCutOff    = "length"             // Empty: all tokens went before the first word (reasoning)
)

// Error is a model call without an answer. Its text is for the operator and contains only the code
// of what the server said: servers quote what they were sent. Find it with errors.As.
type Error struct {
	Kind       string        // one of the above, as in logs and metrics
	Status     int           // HTTP status; 0 without an answer
	Code       string        // the server's code, or ours; may be ""
	RetryAfter time.Duration // the wait that the server asks for; 0: none stated
	RequestID  string        // the server's id of the call, for its support team; may be ""
	Usage      Usage         // of an answer that was paid for but is useless: empty, filtered
	Said       string        // the server's message on one line, shortened, without the key: for debugging only, as it may quote the prompt
	Err        error         // the cause, may be nil; errors.Is sees a ctx error in it
}

// Error returns kind, status, code and cause.
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

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
