package models

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
)

// edits are what a body has to say that the vendor's types cannot. Quotes within a
// text are escaped, so each place is found only where it is one, as long as
// nothing that is JSON already (schemas) stands before it: the vendor writes
// messages first, then numbers, then the format, then the tools.
type edits struct {
	noContent contentless
	schema    json.RawMessage
	place     schemaPlace
	stream    streamForm // of the answer, which the vendor's call for whole ones refuses to ask for
}

// contentless counts the messages whose content is empty, which the vendor leaves
// out. OpenAI wants one in an answer to a call, and chat templates that are older
// than tools fail without one in a message with calls.
type contentless struct{ answers, calls int }

// schemaPlace is a text of the body in whose stead another and a schema are sent.
type schemaPlace struct{ text, instead string }

// The places of schemas: beside json_object, where there is no field for one, and
// in the field of json_schema, which is written as null because the vendor would
// read through the schema at every call.
var (
	besideObject = schemaPlace{`"response_format":{"type":"json_object"`, `"response_format":{"type":"json_object","schema":`}
	inSchema     = schemaPlace{`"schema":null`, `"schema":`}
)

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
	if e.noContent == (contentless{}) && e.schema == nil && e.stream == noStream {
		return false, nil
	}
	body := make([]byte, req.ContentLength)
	if _, err := io.ReadFull(req.Body, body); err != nil {
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
	const answer, calls, content = `{"role":"tool",`, `{"role":"assistant",`, `"content":"",`
	body = bytes.Replace(body, []byte(answer+`"tool_call_id":`), []byte(answer+content+`"tool_call_id":`), e.noContent.answers)
	body = bytes.Replace(body, []byte(calls+`"tool_calls":`), []byte(calls+content+`"tool_calls":`), e.noContent.calls)
	const whole, stream, options = `"stream":false`, `"stream":true`, `,"stream_options":{"include_usage":true}`
	switch e.stream {
	case plainStream:
		body = bytes.Replace(body, []byte(whole), []byte(stream), 1)
	case usageStream:
		body = bytes.Replace(body, []byte(whole), []byte(stream+options), 1)
	}
	if before, after, found := bytes.Cut(body, []byte(e.place.text)); found && e.schema != nil {
		body = slices.Concat(before, []byte(e.place.instead), e.schema, after)
	}
	return body
}
