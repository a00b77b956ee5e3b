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
	drainTime = 500 * time.Millisecond
	// maxStreamTime is how long an answer may take that somebody reads along.
	maxStreamTime = 10 * time.Minute
	// maxStreamCalls is how many calls one answer may have.
	maxStreamCalls = 128
)

// follow returns a context and a client for a call whose answer is read while it is written. The
// context ends with errQuiet when nothing of the answer comes for the configured timeout.
func (o *openAI) follow(ctx context.Context, begin func() (piece func(text string))) (context.Context, context.CancelFunc, *openai.Client) {
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

// streams asks for streams. The doer assembles each into the completion that the server would have
// sent whole.
type streams struct{ *openai.Client }

func (s streams) complete(ctx context.Context, req openai.ChatCompletionRequest) (res openai.ChatCompletionResponse, err error) {
	req.Stream = true
	if ctx, req, err = withBody(ctx, req); err != nil {
		return res, err
	}
	_, err = s.CreateChatCompletionStream(ctx, req)
	if read, ok := errors.AsType[*wholeAnswer](err); ok {
		return read.ChatCompletionResponse, nil
	}
	return res, err
}

// wholeAnswer is the answer to a stream request. It is an error only to get past the client
// library, which accepts nothing but a stream, and loses errors inside one.
type wholeAnswer struct{ openai.ChatCompletionResponse }

func (*wholeAnswer) Error() string { return "the answer was read whole" }

// readStream reads a stream, or the completion of a server without streaming. The stream must
// continue to the end of the answer: a cut-off answer may be anything, so none of it is used.
func (d *doer) readStream(ctx context.Context, res *http.Response) error {
	read := &wholeAnswer{}
	read.SetHeader(res.Header)
	limit := &io.LimitedReader{R: res.Body, N: maxStreamBytes}
	lines := bufio.NewReaderSize(limit, lineSize)
	first, _ := lines.Peek(1)
	if string(first) == "{" || strings.HasPrefix(res.Header.Get("Content-Type"), "application/json") {
		body, err := d.readWhole(ctx, res, lines)
		if err == nil {
			err = json.Unmarshal(body, &read.ChatCompletionResponse)
		}
		return cmp.Or[error](err, read)
	}

	piece := func(string) {}
	if d.begin != nil {
		piece = d.begin()
	}
	late := time.AfterFunc(usageTime, func() { _ = res.Body.Close() }) // makes the read fail
	defer late.Stop()
	var answer streamed
	var failed error // an unfinished line is dropped
	for done := false; failed == nil; {
		late.Stop()
		switch {
		case done:
			late.Reset(drainTime)
		case answer.finish != "":
			late.Reset(usageTime)
		}
		var line []byte
		if line, failed = lines.ReadBytes('\n'); failed != nil {
			break
		}
		value, isData := bytes.CutPrefix(line, []byte("data:"))
		value = bytes.TrimSpace(value)
		done = done || isData && string(value) == "[DONE]"
		switch {
		case isData && isError(value):
			return d.fault(res, value)
		case isData && len(value) > 0 && !done:
			before := answer.text.Len()
			failed = answer.add(value)
			if text := answer.text.String()[before:]; text != "" {
				piece(text)
			}
			if d.goesOn != nil {
				d.goesOn()
			}
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

// streamed is the part of the answer received so far.
type streamed struct {
	chunks        int
	model         string
	finish        openai.FinishReason
	text, refusal strings.Builder
	calls         []*streamedCall
	usage         openai.Usage
}

// streamedCall is a call assembled from its pieces.
type streamedCall struct {
	openai.ToolCall
	arguments strings.Builder
}

// streamChunk is what counts of a chunk.
type streamChunk struct {
	Model   string        `json:"model"`
	Usage   *openai.Usage `json:"usage"`
	Choices []struct {
		Index        int                 `json:"index"`
		FinishReason openai.FinishReason `json:"finish_reason"`
		Delta        struct {
			Content   string            `json:"content"`
			Refusal   string            `json:"refusal"`
			ToolCalls []openai.ToolCall `json:"tool_calls"`
		} `json:"delta"`
	} `json:"choices"`
}

// asLenient reads what encoding/json reads, in a third of the time: there is a chunk for each token.
var asLenient = jsonv2.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true), jsonv2.MatchCaseInsensitiveNames(true))

// add adds a chunk.
func (s *streamed) add(chunk []byte) error {
	var c streamChunk
	if jsonv2.Unmarshal(chunk, &c, asLenient) != nil {
		return errMalformed
	}
	s.chunks++
	s.model = cmp.Or(s.model, c.Model)
	if c.Usage != nil {
		s.usage = *c.Usage // some servers send a running total with each chunk
	}
	for _, choice := range c.Choices {
		if choice.Index != 0 { // we asked for only one
			continue
		}
		if choice.FinishReason == openai.FinishReasonNull { // some servers send the word
			choice.FinishReason = ""
		}
		s.text.WriteString(choice.Delta.Content)
		s.refusal.WriteString(choice.Delta.Refusal)
		for i := range choice.Delta.ToolCalls {
			s.addCall(&choice.Delta.ToolCalls[i])
		}
		if choice.FinishReason != "" || choice.Delta.Content != "" || len(choice.Delta.ToolCalls) > 0 {
			s.finish = choice.FinishReason // an answer that goes on has not finished
		}
	}
	if len(s.calls) > maxStreamCalls {
		return errTooLarge
	}
	return nil
}

// addCall adds a piece to the last call with the same index. Some servers number every call from
// zero, or not at all. There a name starts a new call if its id differs or the earlier arguments
// were complete.
func (s *streamed) addCall(p *openai.ToolCall) {
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
