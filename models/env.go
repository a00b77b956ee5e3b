package models

import (
	"cmp"
	"fmt"
)

// FromEnv returns the model that the environment names; getenv is [os.Getenv].
// With AZURE_OPENAI_ENDPOINT it is that of AZURE_OPENAI_DEPLOYMENT, with
// OPENAI_API_KEY or OPENAI_BASE_URL the OPENAI_MODEL there; without any of them it
// is [Offline]. BOT_MAX_TOKENS_FIELD, BOT_REASONING_EFFORT and BOT_MODEL_SYSTEM_MESSAGES are the fields of
// [OpenAIConfig]. A real model is asked as patiently as [Retry] does by default, and
// once more with less when a prompt was too long for it, see [Trim].
func FromEnv(getenv func(name string) string) (Model, error) {
	cfg := OpenAIConfig{
		Key:     getenv("OPENAI_API_KEY"),
		BaseURL: getenv("OPENAI_BASE_URL"),
		Model:   getenv("OPENAI_MODEL"),

		MaxTokensField:  getenv("BOT_MAX_TOKENS_FIELD"),
		ReasoningEffort: getenv("BOT_REASONING_EFFORT"),
		SystemMessages:  getenv("BOT_MODEL_SYSTEM_MESSAGES"),

		Azure: Azure{
			Endpoint:   getenv("AZURE_OPENAI_ENDPOINT"),
			Key:        getenv("AZURE_OPENAI_API_KEY"),
			Deployment: getenv("AZURE_OPENAI_DEPLOYMENT"),
			APIVersion: getenv("AZURE_OPENAI_API_VERSION"),
		},
	}
	if cmp.Or(cfg.Key, cfg.BaseURL, cfg.Azure.Endpoint) == "" {
		return Offline{}, nil
	}
	model, err := NewOpenAI(cfg)
	if err != nil {
		return nil, fmt.Errorf("model from the environment: %w", err)
	}
	return Trim(Retry(model, RetryConfig{})), nil
}
