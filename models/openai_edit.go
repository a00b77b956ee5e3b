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
}

// editsKey is the context's key of the [edits].
type editsKey struct{}

// edit writes the body of req as its context says.
func edit(req *http.Request) error {
	e, _ := req.Context().Value(editsKey{}).(edits)
	if e.emptyAnswers == 0 && e.schema == nil {
		return nil
	}
	if e.schema != nil && !json.Valid(e.schema) {
		return &Error{Kind: BadRequest, Err: errors.New("the schema of the format is not JSON")}
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return fmt.Errorf("read the request: %w", err)
	}
	const answer, content = `{"role":"tool",`, `"content":"",`
	body = bytes.Replace(body, []byte(answer+`"tool_call_id":`), []byte(answer+content+`"tool_call_id":`), e.emptyAnswers)
	if e.schema != nil {
		const place = `"response_format":{"type":"json_object"`
		body = bytes.Replace(body, []byte(place), []byte(place+`,"schema":`+string(e.schema)), 1)
	}
	req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	return nil
}
