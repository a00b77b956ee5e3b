package models

import (
	"cmp"
	"context"
	"encoding/json"
	"strings"

	"github.com/sashabaranov/go-openai"
)

// wire writes req in the vendor's words, as s says that the server takes it. What
// the vendor's types cannot say is in the context, for the [doer].
func (o *OpenAI) wire(ctx context.Context, req *Request, s shape) (openai.ChatCompletionRequest, context.Context) {
	out := openai.ChatCompletionRequest{Model: o.model}
	e := &edits{messages: arrange(req.Messages, s.roles), prelude: &o.prelude, nineLetters: s.tools.nineLetterIDs, stream: s.stream()}
	switch s.tokens {
	case maxTokens:
		out.MaxTokens = req.MaxTokens
	case maxCompletionTokens:
		out.MaxCompletionTokens = req.MaxTokens
	}
	wireSampling(&out, req, s)
	wireTools(&out, req, s.tools)
	form := s.form(req.Format)
	out.ResponseFormat = wireFormat(req.Format, form)
	switch form {
	case formSchema:
		e.schema, e.place = o.schema(req.Format), inSchema
	case formObjectSchema:
		e.schema, e.place = o.schema(req.Format), besideObject
	}
	return out, context.WithValue(ctx, editsKey{}, e)
}

// schema is the form of the schema that the server takes.
func (o *OpenAI) schema(f *Format) json.RawMessage {
	if o.grammars && len(f.Grammar) > 0 {
		return f.Grammar
	}
	return f.Schema
}

func wireSampling(out *openai.ChatCompletionRequest, req *Request, s shape) {
	if !s.noTemperature {
		out.Temperature = wireNumber(req.Temperature)
	}
	if !s.noTopP {
		out.TopP = wireNumber(req.TopP)
	}
	if !s.noPenalties {
		out.PresencePenalty, out.FrequencyPenalty = wireNumber(req.PresencePenalty), wireNumber(req.FrequencyPenalty)
	}
	if !s.noStop {
		out.Stop = req.Stop
	}
}

// wireNumber keeps a zero apart from nothing: the vendor's fields are left out
// when they are zero. What is sent is as good as zero, but not so near to it that a
// server divides by it in vain.
func wireNumber(n *float64) float32 {
	if n == nil {
		return 0
	}
	if f := float32(*n); f != 0 {
		return f
	}
	return 1e-4
}

func wireFormat(f *Format, form formatForm) *openai.ChatCompletionResponseFormat {
	switch form {
	case formSchema:
		return &openai.ChatCompletionResponseFormat{
			Type: openai.ChatCompletionResponseFormatTypeJSONSchema,
			JSONSchema: &openai.ChatCompletionResponseFormatJSONSchema{
				Name:   cmp.Or(f.Name, "answer"), // the schema is put in later
				Strict: !f.Loose,
			},
		}
	case formObject, formObjectSchema:
		return &openai.ChatCompletionResponseFormat{Type: openai.ChatCompletionResponseFormatTypeJSONObject}
	default:
		return nil
	}
}

// isReasoning knows the families that want max_completion_tokens and take neither
// temperature, top_p nor penalties. The client library refuses the others' parameters for them before
// anything is sent.
func isReasoning(model string) bool {
	for _, family := range []string{"o1", "o3", "o4", "gpt-5", "gpt-6"} {
		if strings.HasPrefix(model, family) {
			return true
		}
	}
	return false
}
