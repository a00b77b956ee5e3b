package models

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/sashabaranov/go-openai"
)

const (
	// maxStreamBytes exceeds the answer's limit because each chunk wraps a few characters in some
	// hundred, and reasoning comes on top.
	maxStreamBytes = 4 * maxAnswerBytes
	// usageTime is how long a server may be silent between the end of its answer and the usage, or
	// the end of the stream.
	usageTime = 5 * time.Second
	// lineSize is the buffer for a line of a stream: hundreds are read at once, for as long as a
	// model writes. Longer lines are read, too.
	lineSize = 1 << 10
	// drainTime is how long a finished stream is read on, so that the connection can be reused.
	drainTime      = 500 * time.Millisecond
	maxStreamTime  = 10 * time.Minute // how long an answer may take that somebody reads along
	maxStreamCalls = 128              // how many calls one answer may have
)

// follow returns a context and a client for a call. If its answer is read while it is written, the context ends with
// errQuiet when nothing of the answer comes for the configured timeout.
func (o *openAI) follow(ctx context.Context, begin func() (piece func(text string))) (context.Context, context.CancelFunc, *openai.Client) {
	if begin == nil {
		call, cancel := context.WithTimeout(ctx, o.cfg.Timeout)
		return call, cancel, o.client
	}
	whole, end := context.WithTimeout(ctx, max(maxStreamTime, o.cfg.Timeout))
	call, cancel := context.WithCancelCause(whole)
	late := time.AfterFunc(o.cfg.Timeout, func() { cancel(errQuiet) })
	vendor, sender := o.vendor, o.sender
	sender.begin = begin
	sender.goesOn = func() { late.Reset(o.cfg.Timeout) }
	vendor.HTTPClient = &sender
	return call, func() { late.Stop(); cancel(nil); end() }, openai.NewClientWithConfig(vendor)
}

var errQuiet = fmt.Errorf("nothing more of the answer came: %w", context.DeadlineExceeded)

// over is why a call's ctx has ended; nil while it has not.
func over(ctx context.Context) error {
	if errors.Is(context.Cause(ctx), errQuiet) {
		return errQuiet
	}
	return ctx.Err()
}

type streams struct{ *openai.Client }

func (s streams) complete(ctx context.Context, req openai.ChatCompletionRequest) (res openai.ChatCompletionResponse, err error) {
	req.Stream = true
	if ctx, req, err = withBody(ctx, req); err != nil {
		return res, err
	}
	_, err = s.CreateChatCompletionStream(ctx, req)
	return answerIn(err)
}

func answerIn(err error) (res openai.ChatCompletionResponse, failed error) {
	if read, ok := errors.AsType[*wholeAnswer](err); ok {
		return read.ChatCompletionResponse, nil
	}
	return res, err
}

// wholeAnswer is an answer that the doer has read, whole or from a stream. It is an error only to get
// past the client library, which reads every member, also those that nobody needs, and no other form
// than OpenAI's.
type wholeAnswer struct{ openai.ChatCompletionResponse }

func (*wholeAnswer) Error() string { return "the answer was read whole" }

// readCompletion reads a completion: whole, as a stream, or as an array of chunks, whatever was asked
// for. A stream must continue to the end of the answer: a cut-off answer may be anything, so none of it
// is used. It returns a [wholeAnswer] or an [*Error].
func (d *doer) readCompletion(ctx context.Context, res *http.Response) error {
	read := &wholeAnswer{}
	read.SetHeader(res.Header)
	limit := &io.LimitedReader{R: res.Body, N: maxStreamBytes}
	lines := lineReader{from: bufio.NewReaderSize(limit, lineSize)}
	if isStream := lines.begin(); !isStream {
		body, err := d.readBody(ctx, lines.from)
		if err != nil {
			return err
		}
		var answer streamed
		failed := answer.addWhole(body)
		switch {
		case isError(body):
			return d.fault(res, body)
		case failed != nil:
			return failed
		}
		answer.into(&read.ChatCompletionResponse)
		return read
	}

	piece := func(string) {}
	if d.begin != nil {
		piece = d.begin()
	}
	late := time.AfterFunc(usageTime, func() { _ = res.Body.Close() }) // makes the read fail
	defer late.Stop()
	var answer streamed
	var event sseEvent
	var failed error
	for done := false; failed == nil; {
		late.Stop()
		switch {
		case done:
			late.Reset(drainTime)
		case answer.finish != "":
			late.Reset(usageTime)
		}
		var line []byte
		if line, failed = lines.next(); failed != nil && len(line) == 0 {
			break
		}
		if done {
			continue
		}
		value, broken := event.add(line)
		if broken {
			failed = errMalformed
		}
		if len(value) == 0 {
			continue
		}
		if string(value) == "[DONE]" {
			done = true
			if answer.chunks > 0 && answer.finish == "" {
				answer.finish = openai.FinishReasonStop // it says that this is all
			}
			event.data = event.data[:0]
			continue
		}
		if isError(value) {
			return d.fault(res, value)
		}
		before := answer.text.Len()
		err := answer.add(value)
		if errors.Is(err, io.ErrUnexpectedEOF) && len(event.data) < maxAnswerBytes {
			continue // the rest of the value comes with the next line
		}
		if err != nil && failed == nil {
			failed = err
		}
		event.data = event.data[:0]
		if text := answer.text.String()[before:]; text != "" {
			piece(text)
		}
		if d.goesOn != nil {
			d.goesOn()
		}
	}
	_, known := errors.AsType[*Error](failed)
	switch {
	case known:
		return failed
	case limit.N <= 0:
		return errTooLarge
	case answer.finish != "":
		answer.into(&read.ChatCompletionResponse)
		return read
	case !errors.Is(failed, io.EOF):
		return networkError(ctx, fmt.Errorf("read the stream: %w", failed))
	case answer.chunks == 0:
		return errMalformed
	default:
		err := errors.New("the stream ended before the answer did")
		return &Error{Kind: Unavailable, Status: http.StatusOK, RequestID: requestID(res.Header), Err: err}
	}
}

// lineReader reads the lines of a stream, which end as the standard of server-sent events says: with
// \n, \r\n or \r.
type lineReader struct {
	from *bufio.Reader
	line []byte
	cr   bool // the last line ended with \r
}

// begin skips a byte order mark and white space, and reports whether a stream follows, not JSON.
func (l *lineReader) begin() (isStream bool) {
	if mark, _ := l.from.Peek(3); string(mark) == "\ufeff" {
		_, _ = l.from.Discard(3)
	}
	for {
		switch next, _ := l.from.Peek(1); string(next) {
		case " ", "\t", "\r", "\n":
			_, _ = l.from.Discard(1)
		case "d", "e", "i", "r", ":": // data, event, id, retry, a comment
			return true
		default:
			return false
		}
	}
}

// next returns the next line, which is valid until the call after it, and what the stream ended with.
func (l *lineReader) next() ([]byte, error) {
	l.line = l.line[:0]
	for {
		if _, err := l.from.Peek(1); err != nil {
			return l.line, err
		}
		have, _ := l.from.Peek(l.from.Buffered())
		if l.cr && have[0] == '\n' {
			l.cr = false
			_, _ = l.from.Discard(1)
			continue
		}
		l.cr = false
		end := bytes.IndexAny(have, "\r\n")
		if end < 0 {
			l.line = append(l.line, have...)
			_, _ = l.from.Discard(len(have))
			continue
		}
		l.line = append(l.line, have[:end]...)
		l.cr = have[end] == '\r'
		_, _ = l.from.Discard(end + 1)
		return l.line, nil
	}
}

// sseEvent is an event of a stream while its lines come.
type sseEvent struct {
	name string
	data []byte
}

// add adds a line. It returns the data of the event so far, if there was new data in the line: servers
// that send a value in one line often send no empty line behind it. broken says that the event is over
// and its data never became JSON.
func (e *sseEvent) add(line []byte) (data []byte, broken bool) {
	field, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimSpace(value)
	switch {
	case len(line) == 0:
		broken = len(e.data) > 0
		*e = sseEvent{data: e.data[:0]}
		return nil, broken
	case line[0] == '{':
		value = line // chunks, one a line
		fallthrough
	case string(field) == "data" && len(value) > 0:
		if e.name != "" && !bytes.ContainsAny(value[:1], "{[") && len(e.data) == 0 {
			return nil, false // a ping
		}
		if e.name != "" && len(e.data) == 0 && value[0] == '{' && !bytes.Contains(value, []byte(`"choices"`)) && !isError(value) {
			return nil, false
		}
		if len(e.data) > 0 {
			e.data = append(e.data, '\n')
		}
		e.data = append(e.data, value...)
		return e.data, false
	case string(field) == "event":
		e.name = string(value)
		if e.name == "message" {
			e.name = ""
		}
	}
	return nil, false
}

// streamed is the part of the answer received so far. A whole answer is one part.
type streamed struct {
	chunks        int
	model         string
	finish        openai.FinishReason
	text, refusal strings.Builder
	calls         []*streamedCall
	usage         openai.Usage
	chosen        bool  // there was a choice
	last          chunk // its place is used again: there is one for each token
}

// streamedCall is a call assembled from its pieces.
type streamedCall struct {
	openai.ToolCall
	arguments strings.Builder
}

// asLenient reads what encoding/json reads, in a third of the time.
var asLenient = jsonv2.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true), jsonv2.MatchCaseInsensitiveNames(true))

func (s *streamed) add(raw []byte) error {
	c := &s.last
	if err := c.read(raw); err != nil {
		return err
	}
	s.chunks++
	s.model = cmp.Or(s.model, c.Model)
	if c.Usage != nil {
		s.usage = *c.Usage // some servers send a running total with each chunk
	}
	for i := range c.Choices {
		choice := &c.Choices[i]
		if choice.Index != 0 { // we asked for only one
			continue
		}
		s.chosen = true
		if choice.FinishReason == openai.FinishReasonNull { // some servers send the word
			choice.FinishReason = ""
		}
		part := choice.said()
		s.text.WriteString(part.Content)
		s.refusal.WriteString(part.Refusal)
		for i := range part.ToolCalls {
			s.addCall(&part.ToolCalls[i])
		}
		if choice.FinishReason != "" || part.Content != "" || len(part.ToolCalls) > 0 {
			s.finish = choice.FinishReason // an answer that goes on has not finished
		}
	}
	if len(s.calls) > maxStreamCalls {
		return errTooLarge
	}
	return nil
}

// addWhole adds a whole answer. Some servers wrap it in an array, or send an array of chunks.
func (s *streamed) addWhole(raw []byte) error {
	if raw = bytes.TrimSpace(raw); len(raw) > 0 && raw[0] == '[' {
		var all []jsontext.Value
		if jsonv2.Unmarshal(raw, &all, asLenient) != nil {
			return errMalformed
		}
		if len(all) != 1 {
			for _, chunk := range all {
				if err := s.add(chunk); err != nil {
					return err
				}
			}
			return nil
		}
		raw = all[0]
	}
	c := &s.last
	err := c.read(raw)
	switch {
	case err != nil && s.addLines(raw):
		return nil
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errMalformed
	case err != nil:
		return err
	}
	s.model = c.Model
	if c.Usage != nil {
		s.usage = *c.Usage
	}
	if len(c.Choices) == 0 {
		return nil
	}
	s.chosen = true
	choice := &c.Choices[0]
	part := choice.said()
	s.finish = choice.FinishReason
	s.text.WriteString(part.Content)
	s.refusal.WriteString(part.Refusal)
	for _, p := range part.ToolCalls {
		call := &streamedCall{ToolCall: openai.ToolCall{ID: p.ID}}
		call.Function.Name = p.Function.Name
		call.arguments.WriteString(p.Function.Arguments)
		s.calls = append(s.calls, call)
	}
	return nil
}

// addLines adds chunks that stand on a line each, and reports whether they are an answer to its end.
func (s *streamed) addLines(raw []byte) bool {
	var all streamed
	for line := range bytes.Lines(raw) {
		if line = bytes.TrimSpace(line); len(line) > 0 && string(line) != "[DONE]" && all.add(line) != nil {
			return false
		}
	}
	if all.finish == "" {
		return false
	}
	s.model = all.model
	s.finish = all.finish
	s.calls = all.calls
	s.usage = all.usage
	s.chosen = all.chosen
	s.text.WriteString(all.text.String())
	s.refusal.WriteString(all.refusal.String())
	return true
}

// addCall adds a piece to the last call with the same index. Some servers number every call from
// zero, or not at all. There a name starts a new call if its id differs or the earlier arguments
// were complete.
func (s *streamed) addCall(p *chunkCall) {
	var call *streamedCall
	for _, c := range s.calls {
		if p.Index == nil || c.Index == nil || *c.Index == *p.Index {
			call = c
		}
	}
	other := call == nil
	switch {
	case call == nil || p.Function.Name == "":
	case p.ID != "" && call.ID != "":
		other = p.ID != call.ID
	default:
		other = isObject(call.arguments.String())
	}
	if other {
		call = &streamedCall{}
		call.Index = p.Index
		s.calls = append(s.calls, call)
	}
	call.ID = cmp.Or(call.ID, p.ID)
	call.Function.Name = cmp.Or(call.Function.Name, p.Function.Name)
	call.arguments.WriteString(p.Function.Arguments)
}

func (s *streamed) into(res *openai.ChatCompletionResponse) {
	res.Model, res.Usage = s.model, s.usage
	if !s.chosen {
		return
	}
	message := openai.ChatCompletionMessage{Content: s.text.String(), Refusal: s.refusal.String()}
	for _, c := range s.calls {
		c.Function.Arguments = c.arguments.String()
		message.ToolCalls = append(message.ToolCalls, c.ToolCall)
	}
	res.Choices = []openai.ChatCompletionChoice{{Message: message, FinishReason: s.finish}}
}
