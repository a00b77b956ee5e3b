package main

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"github.com/planbot-go/planbot/models"
)

// checkFallback reads what is asked after the first model, and how patiently.
func (c *config) checkFallback(f *faults) {
	c.fallbacks = f.entries("BOT_FALLBACK_MODELS", c.FallbackModels)
	if len(c.fallbacks) > 0 && !c.online() {
		f.add("BOT_FALLBACK_MODELS", "is set, but none of OPENAI_API_KEY, OPENAI_BASE_URL and AZURE_OPENAI_ENDPOINT is")
	}
	c.checkURL(f, "BOT_FALLBACK_BASE_URL", c.FallbackBaseURL, "http")
	for _, set := range []struct{ name, value string }{
		{"BOT_FALLBACK_BASE_URL", c.FallbackBaseURL},
		{"BOT_FALLBACK_API_KEY", c.FallbackKey},
	} {
		if set.value != "" && len(c.fallbacks) == 0 {
			f.add(set.name, "is set, but BOT_FALLBACK_MODELS is not")
		}
	}
	c.retries = 3
	if c.ModelRetries != "" {
		n, err := strconv.ParseUint(c.ModelRetries, 10, 8)
		if err != nil {
			f.add("BOT_MODEL_RETRIES", "%q is no number from 0 to 255", c.ModelRetries)
		}
		c.retries = int(n)
	}
	c.stream = truth(f, "BOT_MODEL_STREAM", c.ModelStream)
	c.maxWait = duration(f, "BOT_MODEL_MAX_WAIT", c.ModelMaxWait, 20*time.Second)
}

// newChain is the first model with the others behind it, each on its server.
func newChain(c config, first models.OpenAIConfig) (models.Model, error) {
	configs := []models.OpenAIConfig{first}
	for _, name := range c.fallbacks {
		configs = append(configs, behind(c, first, name))
	}
	cfg := models.ChainConfig{Retries: c.retries, MaxWait: c.maxWait, Observe: c.observe}
	if c.retries == 0 {
		cfg.Retries = -1 // zero is the default there
	}
	if c.ModelPrice != "" {
		cfg.Price = c.limits.price
	}
	for _, each := range configs {
		server, err := models.NewOpenAI(each)
		if err != nil {
			return nil, fmt.Errorf("model %s: %w", cmp.Or(each.Azure.Deployment, each.Model, models.DefaultModel), err)
		}
		cfg.Models = append(cfg.Models, server)
	}
	chain, err := models.NewChain(cfg)
	if err != nil {
		return nil, err
	}
	return c.recorded(chain), nil
}

// behind says where the model of that name is, which is asked after first. Keys
// stay with the server that they were set for.
func behind(c config, first models.OpenAIConfig, name string) models.OpenAIConfig {
	switch {
	case c.FallbackBaseURL != "" || c.FallbackKey != "":
		first.Azure = models.Azure{}
		first.Key, first.BaseURL, first.Model = c.FallbackKey, c.FallbackBaseURL, name
	case c.AzureEndpoint != "":
		first.Azure.Deployment = name
	default:
		first.Model = name
	}
	return first
}
