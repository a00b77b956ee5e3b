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
	partTopP             // top_p
	partPenalties        // presence_penalty, frequency_penalty
	partStop             // stop
	partStream           // stream
	partStreamUsage      // stream_options
	partOrder            // system messages after the first message, or two of one role in a row
	partSystem           // the role system
	partFormat           // the form of response_format
	partSchema           // this schema, in this form
	partAnyFormat        // response_format
	partObject           // json_object, with a schema and without
	partFormatNow        // the form of response_format, with these messages
	partStrict           // tools that are strict, or this schema of one
	partChoice           // tool_choice
	partParallel         // parallel_tool_calls
	partReasoning        // reasoning, with tools
	partCallIDs          // the form of the ids of calls
)

// parameters are the parts that a server calls by a name.
var parameters = [...]struct {
	part  part
	names []string
}{
	{partTokens, []string{"max_tokens", "max_completion_tokens"}},
	{partTemperature, []string{"temperature"}},
	{partTopP, []string{"top_p", "topp"}},
	{partPenalties, []string{"presence_penalty", "frequency_penalty", "presencepenalty", "frequencypenalty"}},
	{partStop, []string{"'stop'", "`stop`", `"stop"`, ": stop"}}, // alone it is a word like any other
	{partStream, []string{"'stream'", "`stream`", `"stream"`, "support stream", "streaming is not"}},
	{partStreamUsage, []string{"stream_options", "include_usage"}},
	{partParallel, []string{"parallel_tool_calls"}},
	{partChoice, []string{"tool_choice"}},
}

// refusedError is the cause of an [*Error] whose request may pass without one of
// the parts, the likeliest first.
type refusedError struct {
	parts []part
	error
}

// Unwrap is what is known of the refusal without the server's own words.
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
	if status == http.StatusBadRequest && said == (complaint{}) {
		found = append(found, mention{0, partSchema}) // the likeliest of what is refused without a word
	}
	if isUnsupported(said) {
		for _, p := range parameters {
			if at := said.mentions(p.names...); at >= 0 {
				found = append(found, mention{at, p.part})
			}
		}
	}
	if p := refusedOfTools(said); p != partNone {
		found = append(found, mention{0, p})
	}
	if p := refusedRole(said); p != partNone {
		found = append(found, mention{0, p})
	}
	if len(found) == 0 && said.param == "" && saysExtra(said) {
		found = append(found, mention{0, partFormat}) // the likeliest of what is extra, when nobody says which
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
		if c.isAbout(strings.Trim(p, "'`\": ")) {
			return 0
		}
		if at := strings.Index(c.message, p); c.param == "" && at >= 0 && (first < 0 || at < first) {
			first = at
		}
	}
	return first
}

// isAbout reports whether the complaint names the parameter or a part of it.
func (c complaint) isAbout(parameter string) bool {
	rest, ok := strings.CutPrefix(c.param, parameter)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
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
		"cannot both be",        // Anthropic's compatible endpoint: temperature and top_p
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
		"invalid schema: ", // OpenAI: branches of anyOf that begin alike
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
	case saysUnknown(said) && (said.param == "response_format" || said.param == "" && namesAlone(said.message)):
		return partAnyFormat
	case said.message != "" && !strings.Contains(said.param+said.message, "schema"):
		return partObject
	default:
		return partFormat
	}
}

// saysUnknown tells a parameter that the server has never heard of from one whose
// value it does not take.
func saysUnknown(said complaint) bool {
	return said.code == "unknown_parameter" || saysExtra(said) || containsAny(said.message, "unrecognized", "unknown parameter", "unknown field", "unexpected keyword")
}

// namesAlone reports whether a message names response_format and nothing of it.
func namesAlone(message string) bool {
	return strings.Contains(message, "response_format") && !containsAny(message, "response_format.", "schema", "json_object")
}

// saysExtra knows the words of pydantic for a field that it does not know.
func saysExtra(said complaint) bool {
	return containsAny(said.message, "extra inputs", "extra fields")
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

// refusedOfTools knows what servers want otherwise of tools that they take.
func refusedOfTools(said complaint) part {
	switch {
	case said.code == "invalid_function_parameters", // OpenAI: the schema is not in the strict subset
		strings.HasSuffix(said.param, ".strict"),
		containsAny(said.message, "function.strict", "'strict'", "`strict`", "strict tools", "invalid schema for function"):
		return partStrict
	case said.isAbout("reasoning_effort"), containsAny(said.message, "tools with reasoning_effort"): // OpenAI, from GPT-5.4 on
		return partReasoning
	case containsAny(said.message, "tool call id was"): // Mistral, and vLLM with its tokenizer
		return partCallIDs
	case containsAny(said.message, "tool_choice forces"): // Anthropic's compatible endpoint
		return partChoice
	default:
		return partNone
	}
}

// refusesTools knows a model that takes no tools at all, or no answers to calls,
// where no other way to write the request helps.
func refusesTools(said complaint) bool {
	if containsAny(said.message, "tool_choice", "parallel_tool_calls", "reasoning_effort") {
		return false
	}
	return said.param == "tools" && isUnsupported(said) || containsAny(said.message,
		"does not support tool",                // Ollama, LM Studio
		"support tool use",                     // OpenRouter: no endpoints found that do
		"tool calling is not", "tools' is not", // Groq, OpenAI
		"tool use is not", "tools are not", "tools is not", "tools not supported", // routers
		"not support function", "function calling is not", // routers, Gemini
		"enable-auto-tool-choice", "tool-call-parser", // vLLM without the flags
		"tools param requires",                      // llama.cpp without templates
		"unknown role: tool", "supported, got tool", // strict templates
		"tool role is not", "tool role not", "role 'tool' is not",
	)
}
