package models

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/sashabaranov/go-openai"
)

const (
	// streamFactor is how much larger than its answer a stream may be: a chunk
	// wraps a few characters in some hundred, and reasoning comes on top.
	streamFactor = 16
	// usageTime is how long a server that has ended its answer may be silent before
	// it sends the usage, or ends the stream.
	usageTime = 5 * time.Second
	// drainTime is how long a stream that was ended is read on, so that the
	// connection can be used again.
	drainTime = 500 * time.Millisecond
	// maxStreamCalls is how many calls one answer may have.
	maxStreamCalls = 128
)

// stream asks for a stream, and reads it into the completion that the server would
// have sent. The stream has to end behind the end of the answer: what was cut off may
// be anything, so nothing of it is used.
func (o *OpenAI) stream(ctx context.Context, req openai.ChatCompletionRequest) (res openai.ChatCompletionResponse, err error) {
	reading, cancel := context.WithCancel(ctx)
	defer cancel()
	in, err := o.client.CreateChatCompletionStream(reading, req)
	if whole, ok := errors.AsType[*wholeAnswer](err); ok {
		err = json.Unmarshal(whole.body, &res)
		res.SetHeader(whole.header)
		return res, err
	}
	if err != nil {
		return res, err
	}
	defer in.Close() //nolint:errcheck // what counts has been read
	answer := streamed{left: o.cfg.MaxResponseBytes}
	late := time.AfterFunc(usageTime, cancel)
	defer late.Stop()
	chunks := 0
	for ; err == nil; chunks++ {
		if late.Stop(); answer.finish != "" {
			late.Reset(usageTime)
		}
		var chunk openai.ChatCompletionStreamResponse
		if chunk, err = in.Recv(); err == nil {
			err = answer.add(&chunk)
		}
	}
	res.SetHeader(in.Header())
	fault, isFault := errors.AsType[*Error](err)
	switch atEnd := errors.Is(err, io.EOF); {
	case answer.finish != "" && (atEnd || isFault && fault.Status == 0 && fault.Code == ""): // or nothing came any more
		answer.into(&res)
		return res, nil
	case ctx.Err() != nil:
		return res, networkError(ctx, err)
	case !atEnd:
		return res, err
	case chunks == 1:
		return res, &Error{Kind: Unavailable, Status: http.StatusOK, Code: codeMalformed, RequestID: requestID(in.Header()), Err: errors.New("the answer is neither a stream nor the JSON of a completion")}
	default:
		return res, &Error{Kind: Unavailable, Status: http.StatusOK, RequestID: requestID(in.Header()), Err: errors.New("the stream ended before the answer did")}
	}
}

// wholeAnswer is what a server sent that was asked for a stream and does not know
// them. It is an error only to get past the client library, which takes nothing else.
type wholeAnswer struct {
	body   []byte
	header http.Header
}

func (*wholeAnswer) Error() string { return "the answer is no stream" }

// openStream hands a stream on as [events].
func (d *doer) openStream(ctx context.Context, res *http.Response) (*http.Response, error) {
	limit := &io.LimitedReader{R: res.Body, N: d.maxBytes}
	in := bufio.NewReader(limit)
	first := byte(' ')
	for err := error(nil); err == nil && first <= ' '; {
		first, err = in.ReadByte()
	}
	_ = in.UnreadByte() // at the end there is nothing to take back
	if first != '{' {   // a line of a stream begins with the name of a field
		res.Body = &events{doer: d, res: res, body: res.Body, limit: limit, in: in, left: streamFactor * d.maxBytes}
		return res, nil
	}
	defer res.Body.Close()
	limit.N = d.maxBytes + 1
	body, err := readAll(in, res.ContentLength, d.maxBytes)
	switch {
	case err != nil:
		return nil, networkError(ctx, fmt.Errorf("read the answer: %w", err))
	case isError(body):
		return nil, d.fault(res, body)
	default:
		return nil, &wholeAnswer{body, res.Header}
	}
}

// events is the body of a stream as the client library reads it: only lines of data.
// The library would count comments, and lose an error that comes behind one.
type events struct {
	doer  *doer
	res   *http.Response
	body  io.ReadCloser
	limit *io.LimitedReader // below in
	in    *bufio.Reader
	left  int64 // bytes that may come
	event string
	ready []byte // of the line that is being read
	done  bool   // the server said that this is all
}

// Read gives what is left of a line of data, or of the next one.
func (e *events) Read(p []byte) (int, error) {
	for len(e.ready) == 0 {
		e.limit.N = e.doer.maxBytes // for this line
		line, err := e.in.ReadBytes('\n')
		e.left -= int64(len(line))
		switch {
		case e.limit.N <= 0 || e.left < 0:
			return 0, &Error{Kind: Unavailable, Code: codeTooLarge, Err: errTooLarge}
		case errors.Is(err, io.EOF): // a line without an end is none
			return 0, io.EOF
		case err != nil:
			return 0, &Error{Kind: Unavailable, Err: fmt.Errorf("read the stream: %w", err)}
		}
		field, value, _ := bytes.Cut(bytes.TrimSpace(line), []byte(":"))
		value = bytes.TrimSpace(value)
		switch string(field) {
		case "":
			e.event = ""
		case "event":
			e.event = string(value)
		case "error": // llama.cpp's older servers
			return 0, e.doer.fault(e.res, value)
		case "data":
			if e.event == "error" || isError(value) {
				return 0, e.doer.fault(e.res, value)
			}
			if len(value) > 0 {
				e.done = e.done || string(value) == "[DONE]"
				e.ready = line
			}
		}
	}
	n := copy(p, e.ready)
	e.ready = e.ready[n:]
	return n, nil
}

// Close closes the connection, or gives it back when the stream came to its end.
func (e *events) Close() error {
	if e.done {
		late := time.AfterFunc(drainTime, func() { _ = e.body.Close() }) // the reading fails then
		defer late.Stop()
		_, _ = io.Copy(io.Discard, e.body)
	}
	return e.body.Close()
}

// streamed is the answer of a stream up to here.
type streamed struct {
	left          int64 // bytes that it may grow by
	model         string
	finish        openai.FinishReason
	text, refusal strings.Builder
	calls         []*streamedCall
	usage         openai.Usage
}

// streamedCall is a call as its pieces come.
type streamedCall struct {
	openai.ToolCall
	arguments strings.Builder
	whole     bool // the first piece of the arguments is all of them
}

func (s *streamed) add(c *openai.ChatCompletionStreamResponse) error {
	s.model = cmp.Or(s.model, c.Model)
	if c.Usage != nil {
		s.usage = *c.Usage // some servers send it with each chunk, as it grows
	}
	for i := range c.Choices {
		choice := &c.Choices[i]
		if choice.Index != 0 { // only one was asked for
			continue
		}
		d := &choice.Delta
		if d.FunctionCall != nil { // from before there were tools
			d.ToolCalls = append(d.ToolCalls, openai.ToolCall{Function: *d.FunctionCall})
		}
		s.text.WriteString(d.Content)
		s.refusal.WriteString(d.Refusal)
		s.left -= int64(len(d.Content) + len(d.Refusal))
		for i := range d.ToolCalls {
			s.addCall(&d.ToolCalls[i])
		}
		switch {
		case choice.FinishReason != "" && choice.FinishReason != openai.FinishReasonNull:
			s.finish = choice.FinishReason
		case d.Content != "" || d.Refusal != "" || len(d.ToolCalls) > 0: // what goes on has not ended
			s.finish = ""
		}
	}
	if s.left < 0 || len(s.calls) > maxStreamCalls {
		return &Error{Kind: Unavailable, Code: codeTooLarge, Err: errTooLarge}
	}
	return nil
}

// addCall adds a piece of a call. The first id and the first name count: servers repeat
// them, make up an id a piece, or send empty ones later.
func (s *streamed) addCall(p *openai.ToolCall) {
	call := s.callOf(p)
	if call == nil || call.endsBefore(p) {
		call = &streamedCall{}
		call.Index = p.Index
		s.calls = append(s.calls, call)
	}
	call.ID = cmp.Or(call.ID, p.ID)
	call.Function.Name = cmp.Or(call.Function.Name, p.Function.Name)
	if call.arguments.Len() == 0 {
		call.whole = isObject(p.Function.Arguments)
	}
	call.arguments.WriteString(p.Function.Arguments)
	s.left -= int64(len(p.ID) + len(p.Function.Name) + len(p.Function.Arguments))
}

// callOf is the last call of the piece's index, without an index that of its id, and
// without either the last one.
func (s *streamed) callOf(p *openai.ToolCall) *streamedCall {
	for i := len(s.calls) - 1; i >= 0; i-- {
		call := s.calls[i]
		if p.Index != nil && call.Index != nil && *call.Index == *p.Index || p.Index == nil && p.ID != "" && call.ID == p.ID {
			return call
		}
	}
	if p.Index != nil || len(s.calls) == 0 {
		return nil
	}
	return s.calls[len(s.calls)-1]
}

// endsBefore reports whether p begins another call, though it comes in the place of c:
// servers number each call from zero, or not at all.
func (c *streamedCall) endsBefore(p *openai.ToolCall) bool {
	switch {
	case p.Function.Name == "" || c.Function.Name == "": // goes on
		return false
	case p.ID != "" && c.ID != "":
		return p.ID != c.ID
	case p.Function.Name != c.Function.Name:
		return true
	default:
		return c.whole && strings.TrimSpace(p.Function.Arguments) != ""
	}
}

// into writes the answer as a completion.
func (s *streamed) into(res *openai.ChatCompletionResponse) {
	res.Model, res.Usage = s.model, s.usage
	message := openai.ChatCompletionMessage{Content: s.text.String(), Refusal: s.refusal.String()}
	for _, c := range s.calls {
		c.Function.Arguments = c.arguments.String()
		message.ToolCalls = append(message.ToolCalls, c.ToolCall)
	}
	res.Choices = []openai.ChatCompletionChoice{{Message: message, FinishReason: s.finish}}
}
