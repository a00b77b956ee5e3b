package models

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/sashabaranov/go-openai"
)

// result reads the vendor's answer.
func (o *OpenAI) result(ctx context.Context, req *Request, res *openai.ChatCompletionResponse, err error) (*Response, error) {
	if err != nil {
		return nil, classify(ctx, err)
	}
	used, id := usage(&res.Usage), requestID(res.Header())
	o.totals.add(used)
	if len(res.Choices) == 0 {
		return nil, &Error{Kind: Empty, Status: http.StatusOK, RequestID: id, Usage: used, Err: errors.New("no choices in the answer")}
	}
	choice := &res.Choices[0]
	if choice.FinishReason == openai.FinishReasonContentFilter {
		return nil, &Error{Kind: FilteredOutput, Status: http.StatusOK, Code: string(choice.FinishReason), RequestID: id, Usage: used}
	}
	if isBroken(choice.FinishReason) {
		return nil, &Error{Kind: Unavailable, Status: http.StatusOK, Code: string(choice.FinishReason), RequestID: id, Err: errors.New("the server gave up in the middle of the answer")}
	}
	answer := &Response{
		Text:   untilStop(withoutReasoning(choiceText(&choice.Message)), req.Stop),
		Calls:  calls(&choice.Message),
		Finish: finish(choice.FinishReason),
		Usage:  used,
		Model:  cmp.Or(res.Model, o.name),
	}
	answer.settleCalls(req)
	if strings.TrimSpace(answer.Text) == "" && len(answer.Calls) == 0 {
		return nil, &Error{Kind: Empty, Status: http.StatusOK, Code: emptyCode(answer.Finish), RequestID: id, Usage: used, Err: errors.New("no text in the answer")}
	}
	return answer, nil
}

// settleCalls makes the calls fit the request, and the finish fit the calls: some
// servers say "stop" with calls, or "tool_calls" without any. A cut stays a cut.
func (r *Response) settleCalls(req *Request) {
	if req.OneCallAtMost && len(r.Calls) > 1 { // the server does not know the wish
		r.Calls = r.Calls[:1]
	}
	identify(r.Calls, req)
	switch {
	case r.Finish == FinishLength:
	case len(r.Calls) > 0:
		r.Finish = FinishTools
	case r.Finish == FinishTools:
		r.Finish = FinishStop
	}
}

// untilStop is text up to the first of the stops. Servers that take stops have
// none in the text.
func untilStop(text string, stops []string) string {
	for _, stop := range stops {
		if stop != "" {
			text, _, _ = strings.Cut(text, stop)
		}
	}
	return text
}

// choiceText is what the model said: its text, or the parts of it, or its
// refusal. Reasoning that the server keeps apart stays out, in a field of its own
// or in a part of another type.
func choiceText(m *openai.ChatCompletionMessage) string {
	text := m.Content
	for _, part := range m.MultiContent {
		if isTextPart(string(part.Type)) {
			text += part.Text
		}
	}
	return cmp.Or(text, m.Refusal)
}

func isTextPart(kind string) bool { return kind == "text" || kind == "output_text" || kind == "" }

func finish(r openai.FinishReason) Finish {
	switch r {
	case openai.FinishReasonStop, "eos", "eos_token", "end_turn", "stop_sequence":
		return FinishStop
	case openai.FinishReasonLength, "max_tokens", "model_length":
		return FinishLength
	case openai.FinishReasonToolCalls, openai.FinishReasonFunctionCall:
		return FinishTools
	default:
		return ""
	}
}

// isBroken knows what servers say when they did not get to the end.
func isBroken(r openai.FinishReason) bool {
	switch r {
	case "error", "network_error", "abort", "insufficient_system_resource":
		return true
	default:
		return false
	}
}

func emptyCode(f Finish) string {
	if f == FinishLength {
		return CodeCutOff
	}
	return ""
}

func usage(u *openai.Usage) Usage {
	out := Usage{Prompt: u.PromptTokens, Completion: u.CompletionTokens}
	if d := u.PromptTokensDetails; d != nil {
		out.Cached = d.CachedTokens
	}
	if d := u.CompletionTokensDetails; d != nil {
		out.Reasoning = d.ReasoningTokens
	}
	return out
}
