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

// wire writes req in the vendor's words, as s says that the server takes it. What
// the vendor's types cannot say is in the context, for the [doer].
func (o *OpenAI) wire(ctx context.Context, req *Request, s shape) (openai.ChatCompletionRequest, context.Context) {
	out := openai.ChatCompletionRequest{Model: o.model}
	messages := arrange(req.Messages, s.roles)
	out.Messages = make([]openai.ChatCompletionMessage, 0, len(messages))
	for _, m := range messages {
		if m.Text != "" {
			out.Messages = append(out.Messages, openai.ChatCompletionMessage{Role: string(m.Role), Content: m.Text})
		}
	}
	switch s.tokens {
	case maxTokens:
		out.MaxTokens = req.MaxTokens
	case maxCompletionTokens:
		out.MaxCompletionTokens = req.MaxTokens
	}
	if req.Temperature != nil && !s.noTemperature {
		// The vendor's field is left out when it is zero; the smallest number above it is not.
		out.Temperature = max(float32(*req.Temperature), math.SmallestNonzeroFloat32)
	}
	form := s.form(req.Format)
	out.ResponseFormat = wireFormat(req.Format, form)
	if form == formObjectSchema {
		ctx = context.WithValue(ctx, schemaKey{}, req.Format.Schema)
	}
	return out, ctx
}

func wireFormat(f *Format, form formatForm) *openai.ChatCompletionResponseFormat {
	switch form {
	case formSchema:
		return &openai.ChatCompletionResponseFormat{
			Type: openai.ChatCompletionResponseFormatTypeJSONSchema,
			JSONSchema: &openai.ChatCompletionResponseFormatJSONSchema{
				Name:   cmp.Or(f.Name, "answer"),
				Schema: f.Schema,
				Strict: true,
			},
		}
	case formObject, formObjectSchema:
		return &openai.ChatCompletionResponseFormat{Type: openai.ChatCompletionResponseFormatTypeJSONObject}
	default:
		return nil
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
		Text:   withoutReasoning(choiceText(&choice.Message)),
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
// refusal. Reasoning that the server keeps apart stays out, in a field of its own
// or in a part of another type.
func choiceText(m *openai.ChatCompletionMessage) string {
	text := m.Content
	for _, part := range m.MultiContent {
		if part.Type == openai.ChatMessagePartTypeText || part.Type == "output_text" || part.Type == "" {
			text += part.Text
		}
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
