package models

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

const (
	// streamFactor is how much larger than its answer a stream may be: a chunk
	// wraps a few characters in some hundred, and reasoning comes on top.
	streamFactor = 128
	// usageTime is how long a server that has ended its answer may be silent before
	// it sends the usage, or ends the stream.
	usageTime = 5 * time.Second
	// drainTime is how long a stream that was ended is read on, so that the
	// connection can be used again.
	drainTime = 500 * time.Millisecond
)

// readStream reads a stream of chunks into the body of the completion that it
// comes to. A server that does not stream and sends the whole is as good.
func (d *doer) readStream(res *http.Response) ([]byte, error) {
	limited := &io.LimitedReader{R: res.Body, N: max(d.maxBytes, streamFactor*d.maxBytes)}
	in := bufio.NewReader(limited)
	if isWhole(in) {
		return readAll(in, res.ContentLength, d.maxBytes)
	}
	body, err := (&stream{in: in, body: res.Body, maxBytes: d.maxBytes}).read()
	if fault, ok := errors.AsType[*streamFault](err); ok {
		return nil, d.fault(res, fault.body)
	}
	if err != nil && limited.N <= 0 {
		return nil, errTooLarge
	}
	if fault, ok := errors.AsType[*Error](err); ok {
		fault.Status, fault.RequestID = res.StatusCode, requestID(res.Header)
	}
	return body, err
}

// isWhole looks at the first byte that is no space: a line of a stream begins with
// the name of a field.
func isWhole(in *bufio.Reader) bool {
	for {
		next, err := in.Peek(1)
		switch {
		case err != nil || next[0] > ' ':
			return err == nil && next[0] == '{'
		default:
			_, _ = in.Discard(1) // is in the buffer
		}
	}
}

// streamFault is an error that the server sent in its stream.
type streamFault struct{ body []byte }

func (*streamFault) Error() string { return "an error in the stream" }

// stream reads server-sent events.
type stream struct {
	in       *bufio.Reader
	body     io.Closer // ends the reading
	maxBytes int64     // of a line, and of the answer

	answer  folded
	event   string // the event's name, "" for most
	pending []byte // data of the event that is not JSON up to here
	events  int
	done    bool        // the server said that this is all
	timer   *time.Timer // of the waiting behind the answer, nil before
}

// read reads to the end, which has to come behind the end of the answer: what was
// cut off may be anything, so nothing of it is used.
func (s *stream) read() ([]byte, error) {
	s.answer.left = s.maxBytes
	defer func() { s.wait(0) }()
	for {
		line, err := s.line()
		switch {
		case err != nil && s.isWhole():
			return s.answer.body()
		case err != nil:
			return nil, s.cutOff(err)
		case s.done:
			continue
		}
		if err := s.take(line); err != nil {
			return nil, err
		}
		switch {
		case s.done:
			s.wait(drainTime)
		case s.isWhole():
			s.wait(usageTime)
		default: // it was not the end yet
			s.wait(0)
		}
	}
}

// isWhole says that the model came to an end. [DONE] alone does not: llama-cpp-python
// writes it, too, when it breaks an answer off for another caller.
func (s *stream) isWhole() bool { return s.answer.finish != "" }

// wait ends the reading in d, and not at all when d is zero.
func (s *stream) wait(d time.Duration) {
	switch {
	case d == 0 && s.timer == nil:
	case d == 0:
		s.timer.Stop()
	case s.timer == nil:
		s.timer = time.AfterFunc(d, func() { _ = s.body.Close() }) // the read fails then
	default:
		s.timer.Reset(d)
	}
}

func (s *stream) cutOff(err error) error {
	switch {
	case err != io.EOF: //nolint:errorlint // the reader's own, never wrapped
		return err
	case s.events == 0:
		return &Error{Kind: Unavailable, Code: CodeMalformed, Err: errors.New("the answer is neither a stream nor the JSON of a completion")}
	default:
		return &Error{Kind: Unavailable, Err: errors.New("the stream ended before the answer did")}
	}
}

// line is the next line without its end. The last one may have no end.
func (s *stream) line() ([]byte, error) {
	var long []byte
	for {
		part, err := s.in.ReadSlice('\n')
		switch {
		case err == bufio.ErrBufferFull: //nolint:errorlint // as documented
			if int64(len(long)+len(part)) > s.maxBytes {
				return nil, errTooLarge
			}
			long = append(long, part...)
			continue
		case err == io.EOF && len(part)+len(long) > 0:
			err = nil
		}
		if long != nil {
			part = append(long, part...)
		}
		return bytes.TrimRight(part, "\r\n"), err
	}
}

// take takes one line: a field of an event, a comment, or the end of an event.
func (s *stream) take(line []byte) error {
	if len(line) == 0 {
		return s.endEvent()
	}
	field, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimSpace(value)
	switch string(field) {
	case "event":
		s.event = string(value)
	case "data":
		return s.data(value)
	case "error": // llama.cpp's older servers
		return &streamFault{bytes.Clone(value)}
	}
	return nil
}

// data takes one line of data. Most servers write one line an event, and some no
// empty line behind it, so what is JSON alone is not waited with.
func (s *stream) data(value []byte) error {
	switch {
	case len(value) == 0:
		return nil
	case string(value) == "[DONE]":
		s.done = true
		return nil
	case len(s.pending) == 0 && json.Valid(value):
		return s.chunk(value)
	case int64(len(s.pending)+len(value)) > s.maxBytes:
		return errTooLarge
	}
	s.pending = append(append(s.pending, value...), '\n')
	return nil
}

func (s *stream) endEvent() (err error) {
	if len(s.pending) > 0 {
		err = s.chunk(s.pending)
	}
	s.pending, s.event = nil, ""
	return err
}

func (s *stream) chunk(data []byte) error {
	s.events++
	var c chunk
	if err := json.Unmarshal(data, &c); err != nil {
		return fmt.Errorf("read a chunk of the stream: %w", err)
	}
	if s.event == "error" || c.Object == "error" || len(c.Error) > 0 && string(c.Error) != "null" {
		return &streamFault{bytes.Clone(data)}
	}
	return s.answer.add(&c)
}
