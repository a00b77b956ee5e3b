package app

import (
	"cmp"
	"fmt"
	"strconv"

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
	c.retries = models.DefaultRetries
	if c.ModelRetries != "" {
		n, err := strconv.ParseUint(c.ModelRetries, 10, 8)
		if err != nil {
			f.add("BOT_MODEL_RETRIES", "%q is no number from 0 to 255", c.ModelRetries)
		}
		c.retries = int(n)
	}
	c.stream = truth(f, "BOT_MODEL_STREAM", c.ModelStream)
	c.maxWait = duration(f, "BOT_MODEL_MAX_WAIT", c.ModelMaxWait, models.DefaultMaxWait)
}

// newChain is the first model with the others behind it, each on its server.
func newChain(c config, first models.OpenAIConfig) (models.Model, error) {
	configs := []models.OpenAIConfig{first}
	for _, name := range c.fallbacks {
		configs = append(configs, behind(c, first, name))
	}
	retry := models.RetryConfig{Retries: c.retries, MaxWait: c.maxWait}
	if c.retries == 0 {
		retry.Retries = -1 // zero is the default there
	}
	// The last model is retried here rather than by the chain, so that its span
	// covers all tries.
	cfg := models.FallbackConfig{Retry: models.RetryConfig{Retries: -1}}
	for i, each := range configs {
		server, err := models.NewOpenAI(each)
		if err != nil {
			return nil, fmt.Errorf("model %s: %w", cmp.Or(each.Azure.Deployment, each.Model, models.DefaultModel), err)
		}
		var model models.Model = server
		if i == len(configs)-1 {
			model = models.Retry(model, retry)
		}
		cfg.Models = append(cfg.Models, models.Link{Model: models.Traced(model, provider(each))})
	}
	chain, err := models.NewFallback(cfg)
	if err != nil {
		return nil, err
	}
	return c.watched(models.Trim(chain)), nil
}

// watched is the model with its price and whoever counts its calls.
func (c *config) watched(model models.Model) models.Model {
	if c.ModelPrice != "" {
		model = models.Priced(model, c.limits.price)
	}
	if c.observe != nil {
		model = models.Observed(model, c.observe)
	}
	return c.recorded(model)
}

// provider is who runs the model's server, as traces say it.
func provider(of models.OpenAIConfig) string {
	if of.Azure.Endpoint != "" {
		return models.ProviderAzure
	}
	return models.ProviderOpenAI
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
