package models

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sashabaranov/go-openai"
)

// maxMessageBytes is how much of a server's own message is kept.
const maxMessageBytes = 300

// fault turns an answer that is not a completion into an error.
func (d *doer) fault(res *http.Response, body []byte) *Error {
	said := readComplaint(body)
	status := res.StatusCode
	if status < 300 && said.status >= 400 && said.status < 600 {
		status = said.status // a router's error under status 200
	}
	out := &Error{
		Kind:       faultKind(status, said),
		Status:     status,
		RetryAfter: retryAfter(res.Header),
		RequestID:  requestID(res.Header),
	}
	if isName(said.code, 64) {
		out.Code = said.code
	}
	switch {
	case status >= 300 && status < 400:
		out.Code, out.Err = CodeRedirect, errors.New("the server sends to another address; check the base URL")
	case status == http.StatusUnauthorized:
		out.Err = errors.New("the server does not accept the key") // its own words often quote the key
	case said.message != "":
		out.Said = oneLine(d.withoutSecret(said.message), maxMessageBytes)
	case status == http.StatusBadRequest && said == (complaint{}):
		out.Err = errors.New("the server does not say why")
	}
	if (out.Said != "" || out.Err != nil) && (out.Kind == BadRequest || out.Kind == Unavailable) {
		out.explain(status, said)
	}
	return out
}

var errRefused = errors.New("the server does not take a part of the request")

// explain adds what can be done about a refusal, which some servers send with a
// status that says nothing of the kind.
func (e *Error) explain(status int, said complaint) {
	if refusesTools(said) {
		e.Kind, e.Code, e.Err = BadRequest, CodeNoTools, errors.New("the model takes no tools")
		return
	}
	if parts := refusedParts(status, said); len(parts) > 0 {
		e.Err = &refusedError{parts, cmp.Or(e.Err, errRefused)}
	}
}

func (d *doer) withoutSecret(text string) string {
	if d.secret == "" {
		return text
	}
	return strings.ReplaceAll(text, d.secret, "[key]")
}

// complaint is what servers say in an error's body.
type complaint struct {
	status  int    // error.code as a number, 0 when it is none
	code    string // error.code, else error.type
	param   string // error.param: the parameter that is at fault
	inner   string // error.innererror.code, Azure's
	message string
}

// rawComplaint takes the forms of OpenAI and Azure (an error object), vLLM
// (message and code at the top), text-generation-inference and LM Studio (error
// is a string), and FastAPI (detail).
type rawComplaint struct {
	Error   json.RawMessage `json:"error"`
	Message json.RawMessage `json:"message"` // a text, or with Mistral an object with detail
	Code    any             `json:"code"`
	Type    string          `json:"type"`
	Param   string          `json:"param"`
	Detail  json.RawMessage `json:"detail"`
	Inner   struct {
		Code string `json:"code"`
	} `json:"innererror"`
}

// readComplaint understands what it can; a body of another kind (HTML of a proxy)
// gives the zero complaint.
func readComplaint(body []byte) complaint {
	var list []json.RawMessage // Gemini's compatible endpoint
	if json.Unmarshal(body, &list) == nil && len(list) > 0 {
		body = list[0]
	}
	raw, ok := parseComplaint(body)
	if !ok {
		return complaint{}
	}
	if len(raw.Error) > 0 && raw.Error[0] == '{' {
		if nested, ok := parseComplaint(raw.Error); ok {
			raw = nested
		}
	} else if jsonString(raw.Error) != "" {
		raw.Message = raw.Error
	}
	out := complaint{inner: raw.Inner.Code, message: jsonString(raw.Message), code: raw.Type, param: raw.Param}
	switch code := raw.Code.(type) {
	case string:
		out.code = cmp.Or(code, out.code)
	case float64:
		out.status = int(code)
	}
	out.readDetail(raw)
	return out
}

// parseComplaint keeps the fields that fit and leaves those that do not.
func parseComplaint(body []byte) (rawComplaint, bool) {
	var raw rawComplaint
	err := json.Unmarshal(body, &raw)
	_, wrongType := errors.AsType[*json.UnmarshalTypeError](err)
	return raw, err == nil || wrongType
}

func jsonString(raw json.RawMessage) string {
	var s string
	_ = json.Unmarshal(raw, &s) // not a string: ""
	return s
}

// readDetail takes FastAPI's detail without its input, which repeats the prompt.
// The place of the first fault, within the body, is the parameter.
func (c *complaint) readDetail(raw rawComplaint) {
	if nested, ok := parseComplaint(raw.Message); ok && len(raw.Detail) == 0 {
		raw.Detail = nested.Detail
	}
	if text := jsonString(raw.Detail); text != "" {
		c.message = cmp.Or(c.message, text)
		return
	}
	var items []struct {
		Loc []any  `json:"loc"`
		Msg string `json:"msg"`
	}
	if json.Unmarshal(raw.Detail, &items) != nil || len(items) == 0 {
		return
	}
	c.message = cmp.Or(c.message, items[0].Msg)
	var place []string
	for _, step := range items[0].Loc {
		place = append(place, fmt.Sprint(step))
	}
	if len(place) > 1 && place[0] == "body" {
		place = place[1:]
	}
	c.param = cmp.Or(c.param, strings.Join(place, "."))
}

func faultKind(status int, said complaint) Kind {
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return Auth
	case status == http.StatusTooManyRequests:
		return Throttled
	case status == http.StatusRequestTimeout, status == http.StatusGatewayTimeout:
		return Timeout
	case status == http.StatusRequestEntityTooLarge, isTooLong(said):
		return TooLong
	case isFilteredInput(said):
		return FilteredInput
	case status >= 500, status < 300:
		return Unavailable
	default:
		return BadRequest
	}
}

// isTooLong knows a prompt that does not fit by code, else by the words of the
// servers that send none (some say it with status 500).
func isTooLong(said complaint) bool {
	switch said.code {
	case "context_length_exceeded", "string_above_max_length", "exceed_context_size_error", "prompt_too_long":
		return true
	}
	return containsAny(said.message,
		"maximum context length",              // OpenAI, vLLM, llama-cpp-python
		"maximum model length",                // vLLM
		"available context size",              // llama.cpp
		"context size has been exceeded",      // llama.cpp
		"exceed context window",               // llama-cpp-python
		"exceeds the context window",          // OpenAI
		"exceed context limit",                // routers
		"exceeds the context length",          // Ollama
		"exceeded max context length",         // Ollama
		"when context the overflows",          // LM Studio
		"longer than the model's context",     // SGLang
		"prompt is too long",                  // routers
		"too large for model with",            // Mistral
		"`inputs` tokens + `max_new_tokens`",  // text-generation-inference
		"maximum number of tokens allowed",    // Gemini's compatible endpoint
		"please reduce the length of the mes", // Groq, OpenRouter
	)
}

// isFilteredInput knows the refusals of Azure's and OpenAI's filters.
func isFilteredInput(said complaint) bool {
	switch said.code {
	case "content_filter", "content_policy_violation", "ResponsibleAIPolicyViolation":
		return true
	case "invalid_prompt":
		return containsAny(said.message, "usage policy", "flagged")
	}
	return said.inner == "ResponsibleAIPolicyViolation"
}

func containsAny(text string, wordings ...string) bool {
	text = strings.ToLower(text)
	for _, w := range wordings {
		if strings.Contains(text, w) {
			return true
		}
	}
	return false
}

// isVendorRefusal knows what the client library refuses before it sends anything.
func isVendorRefusal(err error) bool {
	for _, refusal := range []error{
		openai.ErrChatCompletionInvalidModel,
		openai.ErrReasoningModelMaxTokensDeprecated,
		openai.ErrReasoningModelLimitationsOther,
		openai.ErrReasoningModelLimitationsLogprobs,
		openai.ErrReasoningSamplingUnsupported,
		openai.ErrReasoningEffortUnsupported,
		openai.ErrReasoningToolsRequireResponses,
	} {
		if errors.Is(err, refusal) {
			return true
		}
	}
	_, schema := errors.AsType[*json.MarshalerError](err)        // not JSON
	_, number := errors.AsType[*json.UnsupportedValueError](err) // a temperature that is none
	return schema || number
}

// isDecodeFault tells a body that is not the expected JSON from a broken network:
// the doer has read the body whole, so an end within it is the body's own.
func isDecodeFault(err error) bool {
	_, syntax := errors.AsType[*json.SyntaxError](err)
	_, shape := errors.AsType[*json.UnmarshalTypeError](err)
	return syntax || shape || err == io.EOF || err == io.ErrUnexpectedEOF //nolint:errorlint // unwrapped by the decoder, wrapped by the doer
}

// vendorRefusal is the cause of an [*Error] for what [isVendorRefusal] knows.
func vendorRefusal(err error) (code string, cause error) {
	switch {
	case errors.Is(err, openai.ErrReasoningToolsRequireResponses):
		return "", &refusedError{[]part{partReasoning}, opaque(err)}
	case errors.Is(err, openai.ErrReasoningEffortUnsupported): // it is sent with tools only
		return CodeNoTools, errors.New("the model takes tools through the Responses API only")
	default:
		return "", opaque(err)
	}
}

// opaque keeps the text and drops the vendor's type.
func opaque(err error) error { return errors.New(oneLine(err.Error(), maxMessageBytes)) }

// oneLine makes s fit for a log line: no control characters, one space between
// words, valid UTF-8, at most limit bytes.
func oneLine(s string, limit int) string {
	if len(s) > 4*limit {
		s = s[:4*limit]
	}
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, ""))
	s = strings.Join(strings.Fields(s), " ")
	if len(s) <= limit {
		return s
	}
	cut := limit
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}
