package models

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// edits are what a body has to say that the vendor's types cannot, or only at the
// price of reading through it several times. Quotes within a text are escaped, so
// each place is found only where it is one, as long as nothing that is JSON already
// (messages, schemas) stands before it: the vendor writes messages first, then
// numbers, then the format, then the tools.
type edits struct {
	messages    []Message
	nineLetters bool // ids of calls
	schema      json.RawMessage
	place       schemaPlace
	stream      streamForm // of the answer, which the vendor's call for whole ones refuses to ask for
}

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
	e, ok := req.Context().Value(editsKey{}).(*edits)
	if !ok {
		return false, nil
	}
	body := make([]byte, req.ContentLength)
	if _, err := io.ReadFull(req.Body, body); err != nil {
		return false, fmt.Errorf("read the request: %w", err)
	}
	out := e.apply(body)
	if e.stream != noStream {
		req.Header.Set("Accept", "text/event-stream")
	}
	req.Body, req.ContentLength = out.reader(), out.size()
	req.GetBody = func() (io.ReadCloser, error) { return out.reader(), nil }
	return e.stream != noStream, nil
}

// pieces are a body. Calls that wait for their answers share the largest piece, the
// schema.
type pieces [3][]byte

func (p *pieces) reader() io.ReadCloser {
	return io.NopCloser(io.MultiReader(bytes.NewReader(p[0]), bytes.NewReader(p[1]), bytes.NewReader(p[2])))
}

func (p *pieces) size() int64 {
	return int64(len(p[0]) + len(p[1]) + len(p[2]))
}

// apply goes through body once, in the order of the places.
func (e *edits) apply(body []byte) *pieces {
	w := splice{rest: body, out: make([]byte, 0, len(body)+messagesSize(e.messages))}
	if w.replace(`"messages":null`, `"messages":`) {
		w.out = appendMessages(w.out, e.messages, e.nineLetters)
	}
	switch e.stream {
	case plainStream:
		w.replace(`"stream":false`, `"stream":true`)
	case usageStream:
		w.replace(`"stream":false`, `"stream":true,"stream_options":{"include_usage":true}`)
	}
	if e.schema != nil && w.replace(e.place.text, e.place.instead) {
		return &pieces{w.out, e.schema, w.rest}
	}
	return &pieces{append(w.out, w.rest...)}
}

// splice is a body on its way from the vendor's form to the one that is sent.
type splice struct{ out, rest []byte }

// replace copies up to the place and writes another text in its stead. Without such
// a place it does nothing, and is false.
func (w *splice) replace(place, instead string) bool {
	before, after, found := bytes.Cut(w.rest, []byte(place))
	if found {
		w.out = append(append(w.out, before...), instead...)
		w.rest = after
	}
	return found
}
