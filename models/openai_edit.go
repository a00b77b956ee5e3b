package models

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
)

// edits are what a body has to say that the vendor's types cannot, or only at the
// price of reading through it several times. Quotes within a text are escaped, so
// each place is found only where it is one, as long as nothing that is JSON already
// (messages, schemas) stands before it: the vendor writes messages first, then
// numbers, then the format, then the tools.
type edits struct {
	messages    []Message
	prelude     *prelude
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

// pieces are a body. Calls that wait for their answers share the largest ones, the
// prompt and the schema.
type pieces [][]byte

// reader reads them all. [io.MultiReader] would make a buffer for each body.
func (p pieces) reader() io.ReadCloser {
	return io.NopCloser(&piecesReader{rest: slices.Clone(p)})
}

func (p pieces) size() (n int64) {
	for _, piece := range p {
		n += int64(len(piece))
	}
	return n
}

type piecesReader struct{ rest pieces }

func (r *piecesReader) Read(dst []byte) (n int, err error) {
	for len(r.rest) > 0 && n < len(dst) {
		read := copy(dst[n:], r.rest[0])
		n += read
		if r.rest[0] = r.rest[0][read:]; len(r.rest[0]) == 0 {
			r.rest = r.rest[1:]
		}
	}
	if n == 0 && len(dst) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

// apply goes through body once, in the order of the places.
func (e *edits) apply(body []byte) pieces {
	w := splice{rest: body, done: make(pieces, 0, 5)}
	if w.replace(`"messages":null`, `"messages":[`) {
		messages, opened := e.messages, false
		if len(messages) > 0 && messages[0].Role == System && !messages[0].isEmpty() {
			w.share(e.prelude.of(&messages[0]))
			messages, opened = messages[1:], true
		}
		w.out = slices.Grow(w.out, messagesSize(messages)+len(w.rest))
		w.out = append(appendMessages(w.out, messages, opened, e.nineLetters), ']')
	}
	switch e.stream {
	case plainStream:
		w.replace(`"stream":false`, `"stream":true`)
	case usageStream:
		w.replace(`"stream":false`, `"stream":true,"stream_options":{"include_usage":true}`)
	}
	if e.schema != nil && w.replace(e.place.text, e.place.instead) {
		w.share(e.schema)
	}
	return append(w.done, w.out, w.rest)
}

// splice is a body on its way from the vendor's form to the one that is sent.
type splice struct {
	done      pieces
	out, rest []byte
}

// share puts in what others have, too.
func (w *splice) share(piece []byte) {
	w.done = append(w.done, w.out, piece)
	w.out = nil
}

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
