package models

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// edits are what a body has to say that the vendor's types cannot. Quotes within a
// text are escaped, so each place is found only where it is one, as long as
// nothing that is JSON already (schemas) stands before it: the vendor writes
// messages first, then numbers, then the format, then the tools.
type edits struct {
	emptyAnswers int             // to calls, whose content is left out when it is empty
	schema       json.RawMessage // beside json_object; there is no field for it
	stream       streamForm      // of the answer, which the vendor's call for whole ones refuses to ask for
}

// streamForm is the way in which a stream is asked for.
type streamForm uint8

const (
	noStream    streamForm = iota
	plainStream            // stream
	usageStream            // stream, and stream_options to learn the usage
)

// editsKey is the context's key of the [edits].
type editsKey struct{}

// edit writes the body of req as its context says, and whether that asks for a
// stream.
func edit(req *http.Request) (streams bool, err error) {
	e, _ := req.Context().Value(editsKey{}).(edits)
	if e.emptyAnswers == 0 && e.schema == nil && e.stream == noStream {
		return false, nil
	}
	if e.schema != nil && !json.Valid(e.schema) {
		return false, &Error{Kind: BadRequest, Err: errors.New("the schema of the format is not JSON")}
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return false, fmt.Errorf("read the request: %w", err)
	}
	body = e.apply(body)
	if e.stream != noStream {
		req.Header.Set("Accept", "text/event-stream")
	}
	req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	return e.stream != noStream, nil
}

func (e *edits) apply(body []byte) []byte {
	insert := func(before, text, behind string, n int) {
		body = bytes.Replace(body, []byte(before+behind), []byte(before+text+behind), n)
	}
	insert(`{"role":"tool",`, `"content":"",`, `"tool_call_id":`, e.emptyAnswers)
	if e.schema != nil {
		insert(`"response_format":{"type":"json_object"`, `,"schema":`+string(e.schema), "", 1)
	}
	const whole, stream, options = `"stream":false`, `"stream":true`, `,"stream_options":{"include_usage":true}`
	switch e.stream {
	case plainStream:
		body = bytes.Replace(body, []byte(whole), []byte(stream), 1)
	case usageStream:
		body = bytes.Replace(body, []byte(whole), []byte(stream+options), 1)
	}
	return body
}
