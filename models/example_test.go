package models_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"

	"github.com/planbot-go/planbot/models"
)

func ExampleNewOpenAI() {
	server := httptest.NewServer(answer(200, `{"choices":[{"message":{"content":"Hello, Mia."},"finish_reason":"stop"}]}`))
	defer server.Close()

	model, err := models.NewOpenAI(models.OpenAIConfig{BaseURL: server.URL + "/v1", Model: "llama3.2"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer model.Close()

	res, err := model.Complete(context.Background(), &models.Request{
		Messages: []models.Message{{Role: models.User, Text: "I am Mia."}},
	})
	if fault, ok := errors.AsType[*models.Error](err); ok && fault.Kind == models.Throttled {
		fmt.Println("ask again in", fault.RetryAfter)
		return
	}
	fmt.Println(res.Text)
	// Output: Hello, Mia.
}

func ExampleNewFallback() {
	busy := httptest.NewServer(answer(429, `{"error":{"message":"slow down"}}`, "Retry-After", "60"))
	defer busy.Close()
	idle := httptest.NewServer(answer(200, `{"choices":[{"message":{"content":"Hello, Mia."},"finish_reason":"stop"}]}`))
	defer idle.Close()

	var cfg models.FallbackConfig
	for _, url := range []string{busy.URL, idle.URL} {
		model, err := models.NewOpenAI(models.OpenAIConfig{BaseURL: url + "/v1", Model: "llama3.2"})
		if err != nil {
			fmt.Println(err)
			return
		}
		defer model.Close()
		cfg.Models = append(cfg.Models, models.Link{Model: model})
	}
	chain, err := models.NewFallback(cfg)
	if err != nil {
		fmt.Println(err)
		return
	}
	res, err := models.Trim(chain).Complete(context.Background(), &models.Request{
		Messages: []models.Message{{Role: models.User, Text: "I am Mia."}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(res.Text)
	// Output: Hello, Mia.
}
