package service_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/planbot-go/planbot/models/moderation"
	"github.com/planbot-go/planbot/models/moderation/service"
)

// exampleService stands in for a moderation service.
func exampleService(answer string) *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, answer) }))
}

func ExampleNewOpenAI() {
	server := exampleService(`{"results":[{"flagged":true,"categories":{"harassment":true,"hate":false}}]}`)
	defer server.Close()
	m, err := service.NewOpenAI(service.OpenAIConfig{Key: "key", URL: server.URL})
	if err != nil {
		fmt.Println(err)
		return
	}
	verdict, err := m.Judge(context.Background(), []moderation.Piece{{Kind: moderation.Said, Text: "You are an idiot."}})
	fmt.Println(verdict.Flagged(), verdict.Categories, err)
	// Output: true [harassment] <nil>
}

func ExampleNewAzure() {
	server := exampleService(`{"categoriesAnalysis":[{"category":"Hate","severity":2},{"category":"Violence","severity":4}]}`)
	defer server.Close()
	m, err := service.NewAzure(service.AzureConfig{URL: server.URL, Key: "key", Threshold: 4})
	if err != nil {
		fmt.Println(err)
		return
	}
	verdict, err := m.Judge(context.Background(), []moderation.Piece{{Kind: moderation.Said, Text: "I will hit you."}})
	fmt.Println(verdict.Flagged(), verdict.Categories, err)
	// Output: true [violence] <nil>
}

func ExampleAny() {
	server := exampleService(`{"results":[{"flagged":false}],"categoriesAnalysis":[{"category":"Sexual","severity":6}]}`)
	defer server.Close()
	openAI, err := service.NewOpenAI(service.OpenAIConfig{Key: "key", URL: server.URL})
	if err != nil {
		fmt.Println(err)
		return
	}
	azure, err := service.NewAzure(service.AzureConfig{Key: "key", URL: server.URL, Threshold: 4})
	if err != nil {
		fmt.Println(err)
		return
	}
	verdict, err := service.Any(openAI, azure).Judge(context.Background(), []moderation.Piece{{Kind: moderation.PlannedSay, Text: "…"}})
	fmt.Println(verdict.Flagged(), verdict.Categories, err)
	// Output: true [sexual] <nil>
}
