package models

import (
	"cmp"
	"encoding/json"
	"errors"
	"hash/maphash"
	"slices"
	"sync"
)

// shape is how requests are written for one deployment: what the server was seen
// to refuse is left out or said another way. Every field only ever grows, so two
// shapes that were learned at the same time can be merged.
type shape struct {
	tokens        tokenField
	roles         roleRule
	noTemperature bool
	noTopP        bool
	noPenalties   bool
	noStop        bool
	noStream      bool
	noStreamUsage bool // stream_options
	tools         toolRule
	formats       formats // of the deployment
	ofSchema      formats // of this request's schema
	once          formats // of this call
}

// tokenField is the name under which the limit of the answer is sent.
type tokenField uint8

const (
	maxTokens tokenField = iota
	maxCompletionTokens
	noTokenField
)

// toolRule says what of a request with tools is not taken.
type toolRule struct {
	noStrict, noChoice, noParallel bool // parameters
	noReasoning                    bool // reasoning beside tools
	nineLetterIDs                  bool // other ids of calls
}

func (t toolRule) or(o toolRule) toolRule {
	return toolRule{
		noStrict:      t.noStrict || o.noStrict,
		noChoice:      t.noChoice || o.noChoice,
		noParallel:    t.noParallel || o.noParallel,
		noReasoning:   t.noReasoning || o.noReasoning,
		nineLetterIDs: t.nineLetterIDs || o.nineLetterIDs,
	}
}

// without is t when req has no such part.
func (t toolRule) without(p part, req *Request) toolRule {
	tools := len(req.Tools) > 0
	switch p {
	case partStrict:
		t.noStrict = t.noStrict || slices.ContainsFunc(req.Tools, func(t Tool) bool { return t.Strict })
	case partChoice:
		t.noChoice = t.noChoice || tools && req.Choice != ChoiceAuto
	case partParallel:
		t.noParallel = t.noParallel || tools && req.OneCallAtMost
	case partReasoning:
		t.noReasoning = t.noReasoning || tools
	case partCallIDs:
		t.nineLetterIDs = t.nineLetterIDs || slices.ContainsFunc(req.Messages, func(m Message) bool { return len(m.Calls) > 0 })
	}
	return t
}

// formats says which forms of response_format are not taken.
type formats struct{ noSchema, noObjectSchema, noObject bool }

func (f formats) or(o formats) formats {
	return formats{f.noSchema || o.noSchema, f.noObjectSchema || o.noObjectSchema, f.noObject || o.noObject}
}

func (f formats) without(form formatForm) formats {
	switch form {
	case formSchema:
		f.noSchema = true
	case formObjectSchema:
		f.noObjectSchema = true
	case formObject:
		f.noObject = true
	}
	return f
}

// formatForm is one way to ask for JSON, from the strictest to none.
type formatForm uint8

const (
	formText         formatForm = iota
	formSchema                  // json_schema, strict
	formObjectSchema            // json_object with a schema: llama-cpp-python, Together, Fireworks
	formObject                  // json_object
)

func (f formatForm) String() string {
	return [...]string{"text", "json_schema", "json_object with schema", "json_object"}[f]
}

// form is the strictest way to ask for f that the server has not refused.
func (s shape) form(f *Format) formatForm {
	refused := s.formats.or(s.ofSchema).or(s.once)
	switch {
	case f == nil:
		return formText
	case len(f.Schema) > 0 && !refused.noSchema:
		return formSchema
	case len(f.Schema) > 0 && !refused.noObjectSchema:
		return formObjectSchema
	case !refused.noObject:
		return formObject
	default:
		return formText
	}
}

// stream is how the answer is asked for.
func (s shape) stream() streamForm {
	switch {
	case s.noStream:
		return noStream
	case s.noStreamUsage:
		return plainStream
	default:
		return usageStream
	}
}

// after is the shape to try next when err says that the server refused a part of
// req as s wrote it. It is false when err says nothing of the kind, or when no
// such part was sent.
func (s shape) after(err error, req *Request) (shape, bool) {
	refused, ok := errors.AsType[*refusedError](err)
	if !ok {
		return s, false
	}
	for _, p := range refused.parts {
		if next := s.without(p, req); next != s {
			return next, true
		}
	}
	return s, false
}

// without is s when req has no such part in the shape s.
func (s shape) without(p part, req *Request) shape {
	form := s.form(req.Format)
	switch p {
	case partTokens:
		if req.MaxTokens > 0 {
			s.tokens = min(s.tokens+1, noTokenField)
		}
	case partTemperature:
		s.noTemperature = s.noTemperature || req.Temperature != nil
	case partTopP:
		s.noTopP = s.noTopP || req.TopP != nil
	case partPenalties:
		s.noPenalties = s.noPenalties || req.PresencePenalty != nil || req.FrequencyPenalty != nil
	case partStop:
		s.noStop = s.noStop || len(req.Stop) > 0
	case partStream:
		s.noStream = true
	case partStreamUsage:
		s.noStreamUsage = s.noStreamUsage || !s.noStream
	case partOrder:
		// A template that still minds has no place for the system at all.
		s.roles = min(s.roles+1, noSystem)
	case partSystem:
		s.roles = noSystem
	case partFormat:
		s.formats = s.formats.without(form)
	case partAnyFormat:
		if req.Format != nil {
			s.formats = formats{true, true, true}
		}
	case partObject:
		s.formats = s.formats.without(form)
		if form == formObjectSchema {
			s.formats = s.formats.without(formObject)
		}
	case partSchema:
		s.ofSchema = s.ofSchema.without(form)
	case partFormatNow:
		s.once = s.once.without(form)
	default:
		s.tools = s.tools.without(p, req)
	}
	return s
}

// merge is what both have learned of the deployment.
func (s shape) merge(o shape) shape {
	return shape{
		tokens:        max(s.tokens, o.tokens),
		roles:         max(s.roles, o.roles),
		noTemperature: s.noTemperature || o.noTemperature,
		noTopP:        s.noTopP || o.noTopP,
		noPenalties:   s.noPenalties || o.noPenalties,
		noStop:        s.noStop || o.noStop,
		noStream:      s.noStream || o.noStream,
		noStreamUsage: s.noStreamUsage || o.noStreamUsage,
		tools:         s.tools.or(o.tools),
		formats:       s.formats.or(o.formats),
	}
}

// maxSchemas is how many schemas are remembered. A program has a handful.
const maxSchemas = 64

// memory is what one deployment has shown that it takes.
type memory struct {
	mu      sync.Mutex
	shape   shape
	schemas map[uint64]formats // that are JSON, by hash
	seed    maphash.Seed
}

// recall is the shape for a request with f. It reads a schema only once: to see
// that it is JSON takes longer than to send it.
func (m *memory) recall(f *Format) (shape, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := m.shape
	if f == nil || len(f.Schema) == 0 {
		return out, nil
	}
	if m.schemas == nil || len(m.schemas) >= maxSchemas {
		m.schemas, m.seed = map[uint64]formats{}, maphash.MakeSeed()
	}
	hash := maphash.Bytes(m.seed, f.Schema)
	refused, known := m.schemas[hash]
	if !known {
		if !json.Valid(f.Schema) || len(f.Grammar) > 0 && !json.Valid(f.Grammar) {
			return shape{}, &Error{Kind: BadRequest, Err: errors.New("the schema of the format is not JSON")}
		}
		m.schemas[hash] = formats{}
	}
	out.ofSchema = refused
	return out, nil
}

// keep remembers a shape that was answered.
func (m *memory) keep(s shape, f *Format) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.shape = m.shape.merge(s)
	if f != nil && s.ofSchema != (formats{}) {
		m.schemas[maphash.Bytes(m.seed, f.Schema)] = s.ofSchema
	}
}

// firstShape is what is known before the first call: the families of models that
// say so by their names, and the servers whose reference names every form.
func firstShape(cfg *OpenAIConfig, model string) shape {
	s := shape{noStream: !cfg.Stream}
	if isReasoning(model) {
		s.tokens, s.noTemperature, s.noTopP, s.noPenalties = maxCompletionTokens, true, true, true
	}
	if cfg.isAzure() || cmp.Or(cfg.BaseURL, DefaultBaseURL) == DefaultBaseURL {
		s.formats.noObjectSchema = true
	}
	return s
}
