package models

import (
	"cmp"
	"context"
	"errors"
	"math"
	"net/http"
	"strings"

	"github.com/sashabaranov/go-openai"
)

// wire writes req in the vendor's words.
func (o *OpenAI) wire(req *Request) openai.ChatCompletionRequest {
	out := openai.ChatCompletionRequest{
		Model:          o.model,
		Messages:       make([]openai.ChatCompletionMessage, 0, len(req.Messages)),
		ResponseFormat: wireFormat(req.Format),
	}
	for _, m := range req.Messages {
		if m.Text != "" {
			out.Messages = append(out.Messages, openai.ChatCompletionMessage{Role: string(m.Role), Content: m.Text})
		}
	}
	if o.reasoning {
		out.MaxCompletionTokens = req.MaxTokens
		return out
	}
	out.MaxTokens = req.MaxTokens
	if req.Temperature != nil {
		// The vendor's field is left out when it is zero; the smallest number above it is not.
		out.Temperature = max(float32(*req.Temperature), math.SmallestNonzeroFloat32)
	}
	return out
}

func wireFormat(f *Format) *openai.ChatCompletionResponseFormat {
	if f == nil {
		return nil
	}
	if len(f.Schema) == 0 {
		return &openai.ChatCompletionResponseFormat{Type: openai.ChatCompletionResponseFormatTypeJSONObject}
	}
	return &openai.ChatCompletionResponseFormat{
		Type: openai.ChatCompletionResponseFormatTypeJSONSchema,
		JSONSchema: &openai.ChatCompletionResponseFormatJSONSchema{
			Name:   cmp.Or(f.Name, "answer"),
			Schema: f.Schema,
			Strict: true,
		},
	}
}

// isReasoning knows the families that want max_completion_tokens and take no
// temperature. The client library refuses the others' parameters for them before
// anything is sent.
func isReasoning(model string) bool {
	for _, family := range []string{"o1", "o3", "o4", "gpt-5", "gpt-6"} {
		if strings.HasPrefix(model, family) {
			return true
		}
	}
	return false
}

// result reads the vendor's answer.
func (o *OpenAI) result(ctx context.Context, res *openai.ChatCompletionResponse, err error) (*Response, error) {
	if err != nil {
		return nil, classify(ctx, err)
	}
	used, id := usage(&res.Usage), requestID(res.Header())
	o.totals.add(used)
	if len(res.Choices) == 0 {
		return nil, &Error{Kind: Empty, Status: http.StatusOK, RequestID: id, Err: errors.New("no choices in the answer")}
	}
	choice := &res.Choices[0]
	if choice.FinishReason == openai.FinishReasonContentFilter {
		return nil, &Error{Kind: FilteredOutput, Status: http.StatusOK, Code: string(choice.FinishReason), RequestID: id}
	}
	answer := &Response{
		Text:   choiceText(&choice.Message),
		Finish: finish(choice.FinishReason),
		Usage:  used,
		Model:  cmp.Or(res.Model, o.name),
	}
	if strings.TrimSpace(answer.Text) == "" {
		return nil, &Error{Kind: Empty, Status: http.StatusOK, Code: emptyCode(answer.Finish), RequestID: id, Err: errors.New("no text in the answer")}
	}
	return answer, nil
}

// choiceText is what the model said: its text, or the parts of it, or its
// refusal. Reasoning that the server keeps apart stays out.
func choiceText(m *openai.ChatCompletionMessage) string {
	text := m.Content
	for _, part := range m.MultiContent {
		text += part.Text
	}
	return cmp.Or(text, m.Refusal)
}

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
