package settings

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/models"
)

func TestModelsBehindTheFirst(t *testing.T) {
	t.Parallel()
	const answer = `{"choices":[{"message":{"content":"yes"},"finish_reason":"stop"}]}`
	tests := []struct {
		name  string
		edit  func(s env, first, second string)
		about string
		want  []string // the calls, the last one is answered
	}{
		{"same server", func(s env, first, _ string) {
			s["openai-api-key"], s["openai-base-url"], s["openai-model"] = "k1", first+"/v1", "a"
		}, "a at FIRST/v1, then b, then c", []string{"FIRST /v1/chat/completions a k1", "FIRST /v1/chat/completions b k1", "FIRST /v1/chat/completions c k1"}},
		{"Azure", func(s env, first, _ string) {
			s["azure-openai-endpoint"], s["azure-openai-api-key"], s["azure-openai-deployment"] = first, "k1", "a"
		}, "Azure OpenAI, deployment a, then b, then c", []string{"FIRST /openai/deployments/a/chat/completions a k1", "FIRST /openai/deployments/b/chat/completions b k1", "FIRST /openai/deployments/c/chat/completions c k1"}},
		{"a server of their own never gets the first one's key", func(s env, first, second string) {
			s["azure-openai-endpoint"], s["azure-openai-api-key"], s["azure-openai-deployment"], s["bot-fallback-base-url"] = first, "k1", "a", second+"/v1"
		}, "Azure OpenAI, deployment a, then b, then c", []string{"FIRST /openai/deployments/a/chat/completions a k1", "SECOND /v1/chat/completions b ", "SECOND /v1/chat/completions c "}},
		{"a server and a key of their own", func(s env, first, second string) {
			s["openai-api-key"], s["openai-base-url"], s["openai-model"], s["bot-fallback-base-url"], s["bot-fallback-api-key"] = "k1", first+"/v1", "a", second, "k2"
		}, "a at FIRST/v1, then b, then c", []string{"FIRST /v1/chat/completions a k1", "SECOND /chat/completions b k2", "SECOND /chat/completions c k2"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			calls := make(chan string, 9)
			serve := func(name string) string {
				srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					raw, _ := io.ReadAll(r.Body)
					_, model, _ := strings.Cut(string(raw), `"model":"`)
					model, _, _ = strings.Cut(model, `"`)
					key := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ") + r.Header.Get("Api-Key")
					calls <- fmt.Sprintf("%s %s %s %s", name, r.URL.Path, model, key)
					if model != "c" {
						w.WriteHeader(http.StatusServiceUnavailable)
						return
					}
					_, _ = io.WriteString(w, answer)
				}))
				t.Cleanup(srv.Close)
				return srv.URL
			}
			first, second := serve("FIRST"), serve("SECOND")
			s := env{"bot-fallback-models": "b,c"}
			tt.edit(s, first, second)
			c, err := s.read()
			if err != nil {
				t.Fatal(err)
			}
			model, about, err := c.NewModel(Watch{})
			if err != nil {
				t.Fatal(err)
			}
			if about = strings.ReplaceAll(about, first, "FIRST"); about != tt.about {
				t.Errorf("about: %s", about)
			}
			got, err := model.Complete(t.Context(), &models.Request{Messages: []models.Message{{Role: "user", Text: "hi"}}})
			if err != nil || got.Model != "c" {
				t.Fatalf("got %v, %v", got, err)
			}
			close(calls)
			var seen []string
			for call := range calls {
				seen = append(seen, call)
			}
			if diff := cmp.Diff(tt.want, seen); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestNoRetriesIsNone(t *testing.T) {
	t.Parallel()
	calls := 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls++
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	t.Cleanup(srv.Close)
	c, err := env{"openai-base-url": srv.URL, "bot-model-retries": "0"}.read()
	if err != nil {
		t.Fatal(err)
	}
	model, _, err := c.NewModel(Watch{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := model.Complete(t.Context(), &models.Request{Messages: []models.Message{{Role: "user", Text: "hi"}}}); err == nil || calls != 1 {
		t.Errorf("%v after %d calls", err, calls)
	}
}

func TestAKeyAloneIsForOpenAI(t *testing.T) {
	t.Parallel()
	s := &Settings{AzureEndpoint: "https://x.openai.azure.com", AzureKey: "k1", AzureDeployment: "a", FallbackKey: "k2", FallbackModels: []string{"b"}}
	if diff := cmp.Diff(models.OpenAIConfig{Key: "k2", Model: "b"}, s.modelConfigs()[1]); diff != "" {
		t.Error(diff)
	}
}

func TestAPromptThatIsTooLongIsTrimmed(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if raw, _ := io.ReadAll(r.Body); strings.Contains(string(raw), "long ago") {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"error":{"message":"too long","code":"context_length_exceeded"}}`)
			return
		}
		_, _ = io.WriteString(w, `{"choices":[{"message":{"content":"yes"},"finish_reason":"stop"}]}`)
	}))
	t.Cleanup(srv.Close)
	c, err := env{"openai-base-url": srv.URL}.read()
	if err != nil {
		t.Fatal(err)
	}
	model, _, err := c.NewModel(Watch{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = model.Complete(t.Context(), &models.Request{Messages: []models.Message{
		{Role: "user", Text: "long ago"}, {Role: "assistant", Text: "well"}, {Role: "user", Text: "hi"},
	}})
	if err != nil {
		t.Error(err)
	}
}
