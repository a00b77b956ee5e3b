package models_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/models"
)

// TestGrammarsAreForServersThatMakeThem: Azure refuses a schema with words that it
// does not know.
func TestGrammarsAreForServersThatMakeThem(t *testing.T) {
	t.Parallel()
	req := &models.Request{
		Messages: []models.Message{{Role: "user", Text: "hi"}},
		Format:   &models.Format{Schema: json.RawMessage(`{"title":"schema"}`), Grammar: json.RawMessage(`{"title":"grammar"}`)},
	}
	azure := func(cfg *models.OpenAIConfig, url string) {
		cfg.AzureEndpoint, cfg.AzureKey, cfg.AzureDeployment = url, "k", "d"
		cfg.BaseURL, cfg.Key = "", ""
	}
	for want, edit := range map[string]func(*models.OpenAIConfig, string){"grammar": nil, "schema": azure} {
		if body := fmt.Sprint(bodyOf(t, req, edit)["response_format"]); !strings.Contains(body, "title:"+want) {
			t.Errorf("want the %s, sent %s", want, body)
		}
	}
	req.Format.Grammar = nil
	if body := fmt.Sprint(bodyOf(t, req, nil)["response_format"]); !strings.Contains(body, "title:schema") {
		t.Errorf("without a grammar: %s", body)
	}
	req.Format.Grammar = json.RawMessage(`{`)
	if _, err := setup(t, answer(200, completion), nil).model.Complete(t.Context(), req); err == nil {
		t.Error("a grammar that is no JSON was sent")
	}
}
