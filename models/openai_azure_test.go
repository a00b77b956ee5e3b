package models_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/models"
)

// withToken makes a config one for an Azure deployment with tokens.
func withToken(token func(context.Context) (string, error)) func(cfg *models.OpenAIConfig, url string) {
	return func(cfg *models.OpenAIConfig, url string) {
		cfg.Key, cfg.BaseURL = "", ""
		cfg.AzureEndpoint, cfg.AzureDeployment, cfg.AzureToken = url, "d", token
	}
}

// TestAzureToken: each request gets the token that is good at that time.
func TestAzureToken(t *testing.T) {
	t.Parallel()
	n := 0
	for _, stream := range []bool{false, true} {
		b := setup(t, answer(200, completion), func(cfg *models.OpenAIConfig, url string) {
			cfg.Stream = stream
			withToken(func(ctx context.Context) (string, error) {
				if _, ok := ctx.Deadline(); !ok {
					t.Error("asked for a token without a deadline")
				}
				n++
				return fmt.Sprint("token-", n), nil
			})(cfg, url)
		})
		for range 2 {
			if _, err := b.model.Complete(t.Context(), hello); err != nil {
				t.Fatal(err)
			}
			got := <-b.seen
			if auth := got.Header["Authorization"]; len(auth) != 1 || auth[0] != fmt.Sprint("Bearer token-", n) || got.Header.Get("Api-Key") != "" {
				t.Errorf("stream %t: %v", stream, got.Header)
			}
			if got.Path != "/openai/deployments/d/chat/completions" || got.Query != "api-version=2024-10-21" {
				t.Errorf("asked %s?%s", got.Path, got.Query)
			}
		}
	}
	if n != 4 {
		t.Errorf("%d tokens", n)
	}
}

func TestAzureTokenFails(t *testing.T) {
	t.Parallel()
	b := setup(t, answer(200, completion), withToken(func(context.Context) (string, error) {
		return "", errors.New("no identity here")
	}))
	var log bytes.Buffer
	_, err := b.model.Complete(zerolog.New(&log).WithContext(t.Context()), hello)
	if fault, ok := errors.AsType[*models.Error](err); !ok || fault.Kind != models.Auth || err.Error() != "model auth: get a token for Azure OpenAI: no identity here" {
		t.Errorf("got %v", err)
	}
	if !strings.Contains(log.String(), `"kind":"auth"`) || len(b.seen) > 0 {
		t.Errorf("%d calls, log %s", len(b.seen), log.String())
	}

	ended := setup(t, answer(200, completion), withToken(func(ctx context.Context) (string, error) {
		<-ctx.Done()
		return "", ctx.Err()
	}))
	ctx, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	_, err = ended.model.Complete(ctx, hello)
	if fault, ok := errors.AsType[*models.Error](err); !ok || fault.Kind != models.Timeout {
		t.Errorf("after the deadline: %v", err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	cancel()
	if _, err = ended.model.Complete(ctx, hello); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
}

// TestAzureTokenIsSecret: what a server says may quote the token.
func TestAzureTokenIsSecret(t *testing.T) {
	t.Parallel()
	b := setup(t, func(w http.ResponseWriter, r *http.Request) {
		answer(403, `{"error":{"code":"Forbidden","message":"not with `+r.Header.Get("Authorization")+`"}}`)(w, r)
	}, withToken(func(context.Context) (string, error) { return "token-1", nil }))
	_, err := b.model.Complete(t.Context(), hello)
	fault, ok := errors.AsType[*models.Error](err)
	if !ok || fault.Kind != models.Auth || fault.Said != "not with Bearer [key]" {
		t.Errorf("got %+v", err)
	}
}

func TestAzureTokenOrKey(t *testing.T) {
	t.Parallel()
	token := func(context.Context) (string, error) { return "token-1", nil }
	cfg := models.OpenAIConfig{AzureEndpoint: "https://x.openai.azure.com", AzureDeployment: "d", AzureToken: token}
	if _, err := models.NewOpenAI(cfg); err != nil || cfg.String() != "Azure OpenAI with Entra ID, deployment d" {
		t.Errorf("%s: %v", cfg, err)
	}
	cfg.AzureKey = "k"
	if _, err := models.NewOpenAI(cfg); err == nil || !strings.Contains(err.Error(), "AzureKey: ") {
		t.Errorf("both: %v", err)
	}
}
