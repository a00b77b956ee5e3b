package models

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/planbot-go/planbot/internal/lazy"
)

// serverError is what an error body says.
type serverError struct {
	status  int    // the numeric code; 0 if not a number
	code    string // the code, or else the status in words, or the type
	inner   string // error.innererror.code, Azure's
	message string // includes the faulty parameter, if the message does not name it
	param   string
	flagged bool          // a router says why its moderation refused the prompt
	wait    time.Duration // before the next try; 0: not said
}

// readServerError reads the forms of OpenAI, Azure, Google, FastAPI and the routers between them: an object,
// an array of objects, a text, or JSON within a text. For any other body, such as a proxy's page, the message
// is the whole text.
func readServerError(body []byte) (out serverError) {
	text := strings.TrimSpace(string(body))
	text = strings.TrimSpace(strings.TrimPrefix(text, "data:"))
	var value any
	if json.Unmarshal([]byte(text), &value) == nil {
		out.read(value, 0)
	}
	out.message = cmp.Or(out.message, text)
	if !strings.Contains(out.message, out.param) {
		out.message += " (" + out.param + ")"
	}
	if out.wait == 0 {
		if said := waitSaid().FindStringSubmatch(out.message); said != nil {
			out.wait = waitOf(said[1] + cmp.Or(strings.ToLower(said[2]), "s"))
		}
	}
	return out
}

// waitSaid matches how long a server asks to wait.
var waitSaid = lazy.Regexp(`(?i)(?:retry|try again|wait)[^.!?\d]{0,40}?\b(?:in|after|for)?:? ?(\d+(?:\.\d+)?) ?(ms|s|m)?(?:ec(?:ond)?s?|in(?:ute)?s?|illiseconds?)?\b`)

// read reads a value of an error body. The first of each member counts, and inner ones come first.
func (e *serverError) read(value any, depth int) {
	const maxErrorDepth = 8
	if depth > maxErrorDepth {
		return
	}
	switch v := value.(type) {
	case string:
		var inner any
		if text := strings.TrimSpace(v); strings.HasPrefix(text, "{") || strings.HasPrefix(text, "[") {
			if json.Unmarshal([]byte(text), &inner) == nil {
				e.read(inner, depth+1)
				return
			}
		}
		e.message = cmp.Or(e.message, v)
	case []any:
		for _, element := range v[:min(len(v), maxErrorDepth)] {
			e.read(element, depth+1)
		}
	case map[string]any:
		e.readObject(v, depth)
	}
}

func (e *serverError) readObject(object map[string]any, depth int) {
	for _, key := range [...]string{"error", "errors", "detail", "message", "Message", "msg"} {
		if object[key] != nil {
			e.read(object[key], depth+1)
		}
	}
	for _, key := range [...]string{"code", "status", "type", "error_code"} {
		switch code := object[key].(type) {
		case float64:
			if n := int(code); e.status == 0 && n >= 100 && n < 600 {
				e.status = n
			} else if e.code == "" && n >= 600 {
				e.code = strconv.Itoa(n)
			}
		case string:
			if n, err := strconv.Atoi(code); err == nil && e.status == 0 && n >= 400 && n < 600 {
				e.status = n
			}
			e.code = cmp.Or(e.code, code)
		}
	}
	param, _ := object["param"].(string)
	if place, ok := object["loc"].([]any); ok { // FastAPI's
		for _, step := range place {
			param = strings.TrimPrefix(param+"."+fmt.Sprint(step), ".")
		}
	}
	e.param = cmp.Or(e.param, param)
	if inner, ok := object["innererror"].(map[string]any); ok {
		code, _ := inner["code"].(string)
		e.inner = cmp.Or(e.inner, code)
	}
	if about, ok := object["metadata"].(map[string]any); ok { // OpenRouter's
		reasons, _ := about["reasons"].([]any)
		e.flagged = e.flagged || len(reasons) > 0 || about["flagged_input"] != nil
		if raw, ok := about["raw"].(string); ok {
			var inner serverError
			inner.read(raw, depth+1)
			e.message += ": " + inner.message
			e.code = cmp.Or(inner.code, e.code)
		}
	}
	details, _ := object["details"].([]any)
	for _, detail := range details {
		about, _ := detail.(map[string]any)
		delay, _ := about["retryDelay"].(string)
		reason, _ := about["reason"].(string) // Google's
		e.inner = cmp.Or(e.inner, reason)
		e.wait = cmp.Or(e.wait, waitOf(delay))
	}
	for key, unit := range map[string]string{"retry_after": "s", "retryAfter": "s", "retry_after_seconds": "s", "retry_after_ms": "ms"} {
		switch after := object[key].(type) {
		case float64:
			e.wait = cmp.Or(e.wait, waitOf(strconv.FormatFloat(after, 'f', -1, 64)+unit))
		case string:
			e.wait = cmp.Or(e.wait, waitOf(after), waitOf(after+unit))
		}
	}
}

// waitOf reads a duration; 0: it is none.
func waitOf(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0
	}
	return max(d, 0)
}

// kind judges by status, codes and numbers first, and by words only where servers have nothing else.
func (e *serverError) kind(status int) string {
	code := strings.ToLower(e.code)
	switch {
	case status == http.StatusPaymentRequired, status >= 400 && slices.Contains(quotaCodes, code):
		return Quota
	case status == http.StatusUnavailableForLegalReasons, e.isFiltered(status):
		return Filtered
	case status == http.StatusUnauthorized, status == http.StatusForbidden, e.inner == "API_KEY_INVALID": // Gemini says so with a 400
		return Auth
	case status == http.StatusRequestEntityTooLarge, e.isTooLong(status):
		return TooLong
	case status == http.StatusTooManyRequests:
		return Throttled
	case status == http.StatusRequestTimeout, status == http.StatusGatewayTimeout:
		return Timeout
	case status >= 500, status < 300:
		return Unavailable
	default:
		return BadRequest
	}
}

var quotaCodes = []string{
	"insufficient_quota", "insufficient_balance", "insufficient_user_quota", "insufficient_credits", "billing_hard_limit_reached", "billing_not_active",
	"payment_required", "arrearage",
}

// isFiltered recognizes refusals by the filters of providers and routers.
func (e *serverError) isFiltered(status int) bool {
	const azure = "ResponsibleAIPolicyViolation"
	switch {
	case status >= 500 || status == http.StatusUnauthorized || status == http.StatusTooManyRequests:
		return false
	case e.flagged, e.inner == azure:
		return true
	case e.code == "invalid_prompt":
		return strings.Contains(e.message, "usage policy") || strings.Contains(e.message, "flagged")
	}
	return filterCode().MatchString(e.code) || status >= 400 && filterWords().MatchString(e.message)
}

var (
	filterCode  = lazy.Regexp(`(?i)^(?:content_?(?:filter|policy_violation|blocked|moderation)(?:ed)?|ResponsibleAIPolicyViolation|data_?inspection_?failed|moderation\w*|prohibited_content|safety\w*|sensitive\w*|1301)$`)
	filterWords = lazy.Regexp(`(?i)requires moderation|(?:prompt|input|content)s?\b[^.]{0,40}\b(?:was|were|is|are|been) (?:flagged|blocked)|inappropriate content|content management policy|sensitive (?:content|words?|information)`)
)

// isTooLong recognizes a prompt that does not fit. Only a prompt, an input or the context can be too long
// for a model: a schema, a tool or a picture that is too large is another fault.
func (e *serverError) isTooLong(status int) bool {
	said := e.message
	switch {
	case tooLongCode().MatchString(e.code):
		return true
	case status == http.StatusTooManyRequests: // the whole minute's tokens are too few for this one request
		n := limitSaid().FindStringSubmatch(said)
		return strings.Contains(strings.ToLower(said), "request too large") || n != nil && numeral(n[2]) > numeral(n[1])
	case otherSize().MatchString(said) || otherSize().MatchString(e.param):
		return false
	case status >= 500 || status < 300:
		return contextWords().MatchString(said) && excess().MatchString(said)
	}
	return (contextWords().MatchString(said) || tokenWords().MatchString(said)) && excess().MatchString(said) || noRoom().MatchString(said)
}

var (
	tooLongCode  = lazy.Regexp(`(?i)^(?:context_?length_?exceeded|string_above_max_length|exceed_context_size_error|(?:prompt|input|request)_too_(?:long|large)|context_?window_?exceeded(?:_?error)?|model_context_window_exceeded|tokens_limit_reached|1261)$`)
	limitSaid    = lazy.Regexp(`(?i)\blimit:? (\d[\d,]*)\b.{0,60}?\brequested:? (\d[\d,]*)`)
	contextWords = lazy.Regexp(`(?i)\b(?:context|prompt|inputs?|messages?|sequence|conversation|current length|max(?:imum)? (?:model )?length)\b|max_(?:model_len|seq_len)|ContextWindow`)
	tokenWords   = lazy.Regexp(`(?i)\btokens?\b`)
	excess       = lazy.Regexp(`(?i)\bexceed|\btoo (?:long|large|many)|\b(?:longer|greater|larger|more|higher|fewer|less|shorter) than\b|overflow|over the (?:limit|maximum)|reduce the length|shorten|\bmaximum (?:context|prompt|input|model|sequence|allowed|length|number of (?:input )?tokens)|\bmax (?:context|model|length)|length should be|must (?:be|have) (?:at most|<=?|less|no more)|<=? ?\d|limit (?:is|of) \d|does(?: not|n't) fit|context length (?:is )?(?:only )?\d`)
	noRoom       = lazy.Regexp(`(?i)must be at least 1, got -`) // vLLM and SGLang, for what is left of the context
	otherSize    = lazy.Regexp(`(?i)schema|nesting|\bstates\b|\btools?\b|\bfunctions?\b|\bimages?\b|\bstop sequences?\b|\bproperties\b|\benum\b|\btemperature\b|top_p|metadata|\bmax_(?:completion_)?tokens is too large`)
)

// numeral reads a number with commas in it.
func numeral(text string) int {
	n, _ := strconv.Atoi(strings.ReplaceAll(text, ",", ""))
	return n
}
