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

	res, err := model.Complete(context.Background(), &models.Request{
		Messages: []models.Message{{Role: "user", Text: "I am Mia."}},
	})
	if fault, ok := errors.AsType[*models.Error](err); ok && fault.Kind == models.Throttled {
		fmt.Println("ask again in", fault.RetryAfter)
		return
	}
	fmt.Println(res.Text)
	// Output: Hello, Mia.
}

func ExampleChain() {
	busy := httptest.NewServer(answer(429, `{"error":{"message":"slow down"}}`, "Retry-After", "60"))
	defer busy.Close()
	idle := httptest.NewServer(answer(200, `{"choices":[{"message":{"content":"Hello, Mia."},"finish_reason":"stop"}]}`))
	defer idle.Close()

	chain := &models.Chain{}
	for _, url := range []string{busy.URL, idle.URL} {
		model, err := models.NewOpenAI(models.OpenAIConfig{BaseURL: url + "/v1", Model: "llama3.2"})
		if err != nil {
			fmt.Println(err)
			return
		}
		chain.Models = append(chain.Models, model)
	}
	res, err := chain.Complete(context.Background(), &models.Request{
		Messages: []models.Message{{Role: "user", Text: "I am Mia."}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(res.Text)
	// Output: Hello, Mia.
}

// Tests and small programs take the model of the environment; app.Main does so by itself.
func ExampleFromEnv() {
	environment := map[string]string{"OPENAI_BASE_URL": "http://127.0.0.1:11434/v1", "OPENAI_MODEL": "llama3.2"}
	model, err := models.FromEnv(func(name string) string { return environment[name] }) // or os.Getenv
	fmt.Printf("%T %v\n", model, err)

	model, err = models.FromEnv(func(string) string { return "" })
	fmt.Printf("%T %v\n", model, err)
	// Output:
	// *models.Chain <nil>
	// models.Offline <nil>
}
