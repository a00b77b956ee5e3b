package models

import (
	"net/http"
	"slices"
	"strings"
)

// part is a part of a request that a server may not take, though it takes the
// rest.
type part uint8

const (
	partNone        part = iota
	partTokens           // the name of the limit of the answer
	partTemperature      // the temperature
	partOrder            // system messages after the first message, or two of one role in a row
	partSystem           // the role system
	partFormat           // the form of response_format
	partSchema           // this schema, in this form
	partFormatNow        // the form of response_format, with these messages
)

// refusedError is the cause of an [*Error] whose request may pass without one of
// the parts, the likeliest first.
type refusedError struct {
	parts []part
	error
}

// Unwrap is the server's own words.
func (e *refusedError) Unwrap() error { return e.error }

// refusedParts reads what the server does not take, from the parameter that it
// names, else from its words: what they mention first. Some servers say it with
// status 500.
func refusedParts(status int, said complaint) []part {
	switch status {
	case http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusInternalServerError, http.StatusNotImplemented:
	default:
		return nil
	}
	said.message = strings.ToLower(said.message)
	type mention struct {
		at   int
		part part
	}
	var found []mention
	if at := aboutFormat(said); at >= 0 {
		found = append(found, mention{at, refusedFormat(said)})
	}
	if isUnsupported(said) {
		if at := said.mentions("max_tokens", "max_completion_tokens"); at >= 0 {
			found = append(found, mention{at, partTokens})
		}
		if at := said.mentions("temperature"); at >= 0 {
			found = append(found, mention{at, partTemperature})
		}
	}
	if p := refusedRole(said); p != partNone {
		found = append(found, mention{0, p})
	}
	slices.SortStableFunc(found, func(a, b mention) int { return a.at - b.at })
	parts := make([]part, len(found))
	for i := range found {
		parts[i] = found[i].part
	}
	return parts
}

// mentions is where the complaint speaks of one of the parameters, -1 when it
// does not or is about another one.
func (c complaint) mentions(parameters ...string) int {
	first := -1
	for _, p := range parameters {
		if c.param == p {
			return 0
		}
		if at := strings.Index(c.message, p); c.param == "" && at >= 0 && (first < 0 || at < first) {
			first = at
		}
	}
	return first
}

// isUnsupported tells a parameter that is not taken from a value that is out of
// range.
func isUnsupported(said complaint) bool {
	switch said.code {
	case "unsupported_parameter", "unsupported_value", "unknown_parameter":
		return true
	}
	return containsAny(said.message,
		"unsupported",           // OpenAI
		"not support",           // OpenAI, routers
		"deprecated",            // Anthropic's compatible endpoint
		"unrecognized",          // Azure: Unrecognized request argument supplied
		"unknown",               // OpenAI: Unknown parameter
		"extra inputs",          // FastAPI, Mistral
		"extra fields",          // older FastAPI
		"unexpected keyword",    // Python servers
		"only the default",      // OpenAI
		"additional properties", // strict gateways
	)
}

// aboutFormat is where the complaint speaks of the response format, -1 when it
// does not.
func aboutFormat(said complaint) int {
	if strings.HasPrefix(said.param, "response_format") || said.code == "json_validate_failed" {
		return 0
	}
	return said.mentionsOfFormat(
		"response_format", "response format", "json_schema", "json_object",
		"structured output", "json mode", // routers
		"grammar", "guided decoding", "json schema", // llama.cpp, vLLM
	)
}

func (c complaint) mentionsOfFormat(words ...string) int {
	c.param = "" // servers name the messages or the schema's own fields there
	return c.mentions(words...)
}

func refusedFormat(said complaint) part {
	switch {
	case said.code == "json_validate_failed", // Groq: the model did not manage it
		containsAny(said.message, "the word 'json'", `the word "json"`): // OpenAI
		return partFormatNow
	case containsAny(said.message,
		"invalid schema", "invalid json schema", "invalid json_schema", // OpenAI, routers
		"unsupported schema", "schema contains", "schema is too", // vLLM, Gemini
		"grammar", "unimplemented", "guided decod", // vLLM
		"schema conversion", "failed to parse", // llama.cpp
	):
		return partSchema
	default:
		return partFormat
	}
}

// refusedRole knows the words of the servers and of the chat templates that they
// run.
func refusedRole(said complaint) part {
	switch {
	case containsAny(said.message,
		"must alternate",                 // Mistral, Gemma
		"system message must be",         // Qwen: at the beginning
		"expected last role",             // Mistral's API
		"unexpected role 'system' after", // Mistral's API
		"multiple system messages",       // routers
	):
		return partOrder
	case containsAny(said.message,
		"does not support 'system'",            // OpenAI's first reasoning models
		"system role not supported",            // Gemma
		"system role is not supported",         // routers
		"system messages are not supported",    // routers
		"developer instruction is not enabled", // Gemini's compatible endpoint
		"only user and assistant roles",        // Mistral's first templates
		"roles are supported, got system",      // Ministral
		"unknown role: system",                 // strict templates
	):
		return partSystem
	default:
		return partNone
	}
}
