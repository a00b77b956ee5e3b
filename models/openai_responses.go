package models

import (
	"context"
	"encoding/json"

	"github.com/sashabaranov/go-openai"
)

// responses asks over the Responses API for what chat completions would answer.
type responses struct{ *openai.Client }

// complete translates a completion's request and the answer. It leaves out what models that need
// this API refuse: sampling parameters and stop texts.
func (r responses) complete(ctx context.Context, req openai.ChatCompletionRequest) (res openai.ChatCompletionResponse, err error) {
	keep := false
	ask := openai.CreateResponseRequest{
		Model: req.Model, Input: responseInput(req.Messages), MaxOutputTokens: max(req.MaxTokens, req.MaxCompletionTokens),
		ToolChoice: req.ToolChoice, Store: &keep,
	}
	if req.ReasoningEffort != "" {
		ask.Reasoning = &openai.ResponseReasoning{Effort: req.ReasoningEffort}
	}
	if parallel, set := req.ParallelToolCalls.(bool); set {
		ask.ParallelToolCalls = &parallel
	}
	for _, t := range req.Tools {
		f := t.Function
		ask.Tools = append(ask.Tools, openai.ResponseTool{Type: t.Type, Parameters: map[string]any{
			"name": f.Name, "description": f.Description, "parameters": f.Parameters, "strict": f.Strict, // strict is the default here
		}})
	}
	if format := req.ResponseFormat; format != nil {
		text := &openai.ResponseTextFormat{Type: string(format.Type)}
		if schema := format.JSONSchema; schema != nil {
			text.Name, text.Schema, text.Strict = schema.Name, schema.Schema, schema.Strict
		}
		ask.Text = &openai.ResponseTextConfig{Format: text}
	}
	answer, err := r.CreateResponse(ctx, ask)
	if err != nil {
		return res, err
	}
	res.Model = answer.Model
	res.SetHeader(answer.Header())
	if u := answer.Usage; u != nil {
		res.Usage = openai.Usage{PromptTokens: u.InputTokens, CompletionTokens: u.OutputTokens, TotalTokens: u.TotalTokens}
		if d := u.InputTokensDetails; d != nil {
			res.Usage.PromptTokensDetails = &openai.PromptTokensDetails{CachedTokens: d.CachedTokens}
		}
		if d := u.OutputTokensDetails; d != nil {
			res.Usage.CompletionTokensDetails = &openai.CompletionTokensDetails{ReasoningTokens: d.ReasoningTokens}
		}
	}
	choice := openai.ChatCompletionChoice{FinishReason: openai.FinishReasonStop}
	if why := answer.IncompleteDetails; why != nil {
		choice.FinishReason = openai.FinishReasonLength
		if why.Reason == string(openai.FinishReasonContentFilter) {
			choice.FinishReason = openai.FinishReasonContentFilter
		}
	}
	if choice.Message, err = responseMessage(answer.Output); err != nil {
		return res, err
	}
	res.Choices = []openai.ChatCompletionChoice{choice}
	return res, nil
}

// responseParts translates the parts of a message.
func responseParts(parts []openai.ChatMessagePart) (all []map[string]string) {
	for _, p := range parts {
		if p.ImageURL != nil {
			all = append(all, map[string]string{"type": "input_image", "image_url": p.ImageURL.URL})
		} else {
			all = append(all, map[string]string{"type": "input_text", "text": p.Text})
		}
	}
	return all
}

// responseInput translates messages.
func responseInput(messages []openai.ChatCompletionMessage) (input []any) {
	for _, m := range messages {
		switch {
		case m.Role == openai.ChatMessageRoleTool:
			input = append(input, openai.ResponseFunctionCallOutput{Type: "function_call_output", CallID: m.ToolCallID, Output: m.Content})
		case len(m.MultiContent) > 0:
			input = append(input, openai.ResponseInputMessage{Role: m.Role, Content: responseParts(m.MultiContent)})
		case m.Content != "":
			input = append(input, openai.ResponseInputMessage{Role: m.Role, Content: m.Content})
		}
		for _, c := range m.ToolCalls {
			input = append(input, openai.ResponseOutputItem{
				Type: "function_call", CallID: c.ID, Name: c.Function.Name, Arguments: c.Function.Arguments,
			})
		}
	}
	return input
}

// responseMessage translates what the model said and called. It skips other items, such as its
// reasoning.
func responseMessage(output []any) (m openai.ChatCompletionMessage, err error) {
	raw, err := json.Marshal(output)
	if err != nil {
		return m, err
	}
	var items []openai.ResponseOutputItem
	if err := json.Unmarshal(raw, &items); err != nil {
		return m, err
	}
	for _, item := range items {
		switch item.Type {
		case "message":
			for _, part := range item.Content {
				if part.Type == "output_text" {
					m.Content += part.Text
				}
				m.Refusal += part.Refusal
			}
		case "function_call":
			m.ToolCalls = append(m.ToolCalls, openai.ToolCall{
				ID: item.CallID, Type: openai.ToolTypeFunction, Function: openai.FunctionCall{Name: item.Name, Arguments: item.Arguments},
			})
		}
	}
	return m, nil
}
