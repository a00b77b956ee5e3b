package doctor

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ModelSettings say which model plans.
type ModelSettings struct {
	Offline bool
	Name    string // such as "gpt-4o-mini of OpenAI"; unused when offline
	// Try asks the model for a word or two. Required unless offline.
	Try func(context.Context) error
}

// Model checks that the model answers.
func Model(s ModelSettings) Probe {
	return Probe{"model", func(ctx context.Context) Check { return model(ctx, s) }}
}

func model(ctx context.Context, s ModelSettings) Check {
	if s.Offline {
		c := ok("offline: fixed phrases stand in for a model, enough to try the bot")
		c.Hint = "for a real one set OPENAI_API_KEY, or OPENAI_BASE_URL (llama.cpp, Ollama, vLLM), or AZURE_OPENAI_ENDPOINT"
		return c
	}
	start := time.Now()
	err := s.Try(ctx)
	switch {
	case err == nil:
		return ok(fmt.Sprintf("%s answers in %s", s.Name, took(time.Since(start))))
	case errors.Is(err, context.DeadlineExceeded):
		return warn(s.Name+" gave no answer within "+took(time.Since(start))+"; the bot itself waits longer",
			"a server that loads its model at the first question is quicker the second time: run the doctor again")
	}
	return fail(s.Name+" does not answer: "+reason(err), hintFor(err, modelHints(),
		"compare the settings whose names begin with OPENAI_ or AZURE_OPENAI_ with what your provider says"))
}

func modelHints() [][2]string {
	return [][2]string{
		{"status 401", "the key is wrong or has run out: OPENAI_API_KEY, or AZURE_OPENAI_API_KEY for Azure"},
		{"status 403", "the key may not use this model: see its permissions at your provider"},
		{"status 404", "there is no such model or deployment: OPENAI_MODEL, or AZURE_OPENAI_DEPLOYMENT and AZURE_OPENAI_API_VERSION; OPENAI_BASE_URL mostly ends in /v1"},
		{"status 429", "the provider has had enough of requests for now, or the credit is used up"},
		{"connection refused", "nothing listens there: start the model's server, or correct OPENAI_BASE_URL"},
		{"no such host", "this machine does not know the host of OPENAI_BASE_URL or AZURE_OPENAI_ENDPOINT"},
	}
}
