package connector

import (
	"net/http"
	"strings"
	"time"
	"unicode"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const maxMessageRunes = 256

// complaint is what a connector says of a refusal. Microsoft's has it under the name
// error, the Agents Playground's at the top.
type complaint struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// refusal makes an error of an answer that is no success. Whatever its body is, the
// status counts.
func refusal(op string, res *http.Response, body []byte) *Error {
	var said struct {
		complaint
		Error jsontext.Value `json:"error"`
	}
	_ = json.Unmarshal(body, &said) // a page of some proxy: no words
	e := &Error{Op: op, Status: res.StatusCode, RetryAfter: retryAfter(res.Header.Get("Retry-After"), time.Now())}
	c := said.complaint
	switch said.Error.Kind() {
	case '{':
		_ = json.Unmarshal(said.Error, &c)
	case '"':
		_ = json.Unmarshal(said.Error, &c.Message)
	}
	e.Code, e.Message = printable(c.Code), printable(c.Message)
	return e
}

// printable cuts a stranger's text to what a log line may hold.
func printable(s string) string {
	var b strings.Builder
	n := 0
	for _, r := range s {
		if n++; n > maxMessageRunes {
			break
		}
		if !unicode.IsPrint(r) {
			r = ' '
		}
		b.WriteRune(r)
	}
	return b.String()
}
