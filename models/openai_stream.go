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
	"math"
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

// stream asks for a stream. The doer reads it into the completion that the server would
// have sent whole.
func (o *OpenAI) stream(ctx context.Context, req openai.ChatCompletionRequest) (res openai.ChatCompletionResponse, err error) {
	_, err = o.client.CreateChatCompletionStream(ctx, req)
	if read, ok := errors.AsType[*wholeAnswer](err); ok {
		return read.ChatCompletionResponse, nil
	}
	return res, err
}

// wholeAnswer is the answer to a request for a stream. It is an error only to get past the
// client library, which takes nothing but a stream, and loses errors that come in one.
type wholeAnswer struct{ openai.ChatCompletionResponse }

func (*wholeAnswer) Error() string { return "the answer was read whole" }

// readStream reads a stream, or the completion of a server that knows no streams. A stream
// has to end behind the end of the answer: what was cut off may be anything, so nothing of
// it is used.
func (d *doer) readStream(ctx context.Context, res *http.Response) error {
	defer res.Body.Close()
	limit := &io.LimitedReader{R: res.Body, N: streamFactor * d.maxBytes}
	in := bufio.NewReader(limit)
	first := byte(' ')
	for err := error(nil); err == nil && first <= ' '; {
		first, err = in.ReadByte()
	}
	_ = in.UnreadByte() // at the end there is nothing to take back
	read := &wholeAnswer{}
	read.SetHeader(res.Header)
	if first == '{' { // a line of a stream begins with the name of a field
		body, err := d.readWhole(ctx, res, in)
		if err == nil {
			err = json.Unmarshal(body, &read.ChatCompletionResponse)
		}
		return cmp.Or[error](err, read)
	}

	late := time.AfterFunc(usageTime, func() { _ = res.Body.Close() }) // the reading fails then
	defer late.Stop()
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, int(min(d.maxBytes, math.MaxInt)))
	lines.Split(func(data []byte, atEnd bool) (int, []byte, error) {
		if i := bytes.IndexByte(data, '\n'); i >= 0 {
			return i + 1, data[:i], nil
		}
		if atEnd {
			return len(data), nil, nil // a line without an end is none
		}
		return 0, nil, nil
	})
	answer := streamed{left: d.maxBytes}
	event, chunks, done := "", 0, false
	for late.Stop(); lines.Scan(); {
		field, value, _ := bytes.Cut(bytes.TrimSpace(lines.Bytes()), []byte(":"))
		value = bytes.TrimSpace(value)
		switch string(field) {
		case "":
			event = ""
		case "event":
			event = string(value)
		case "error": // llama.cpp's older servers
			return d.fault(res, value)
		case "data":
			if event == "error" || isError(value) {
				return d.fault(res, value)
			}
			var chunk openai.ChatCompletionStreamResponse
			done = done || string(value) == "[DONE]"
			if len(value) == 0 || done {
				break
			}
			if err := json.Unmarshal(value, &chunk); err != nil {
				return err
			}
			chunks++
			if err := answer.add(&chunk); err != nil {
				return err
			}
		}
		switch late.Stop(); {
		case done:
			late.Reset(drainTime)
		case answer.finish != "":
			late.Reset(usageTime)
		}
	}
	broken := func(code, text string) error {
		return &Error{Kind: Unavailable, Status: http.StatusOK, Code: code, RequestID: requestID(res.Header), Err: errors.New(text)}
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong), limit.N <= 0:
		return networkError(ctx, errTooLarge)
	case answer.finish != "":
		answer.into(&read.ChatCompletionResponse)
		return read
	case err != nil:
		return networkError(ctx, fmt.Errorf("read the stream: %w", err))
	case chunks == 0:
		return broken(codeMalformed, "the answer is neither a stream nor the JSON of a completion")
	default:
		return broken("", "the stream ended before the answer did")
	}
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
