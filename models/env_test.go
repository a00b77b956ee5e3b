package models_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/models"
)

func TestFromEnv(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 4)
	answering := answer(200, completion)
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.String() + " " + r.Header.Get("Authorization") + r.Header.Get("api-key")
		if len(asked) == 1 { // each is asked again
			w.Header().Set("Retry-After-Ms", "1")
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		answering(w, r)
	})
	for _, c := range []struct {
		env  map[string]string
		want []string
	}{
		{map[string]string{"OPENAI_MODEL": "m"}, nil},
		{
			map[string]string{"OPENAI_BASE_URL": url, "OPENAI_API_KEY": "k"},
			[]string{"/chat/completions Bearer k", "/chat/completions Bearer k"},
		},
		{
			map[string]string{
				"AZURE_OPENAI_ENDPOINT": url, "AZURE_OPENAI_API_KEY": "k", "AZURE_OPENAI_DEPLOYMENT": "d",
				"AZURE_OPENAI_API_VERSION": "v", "OPENAI_API_KEY": "other",
			},
			[]string{"/openai/deployments/d/chat/completions?api-version=v k", "/openai/deployments/d/chat/completions?api-version=v k"},
		},
	} {
		model, err := models.FromEnv(func(name string) string { return c.env[name] })
		if err != nil {
			t.Fatal(err)
		}
		if _, err := model.Complete(t.Context(), hello); err != nil {
			t.Errorf("%v: %v", c.env, err)
		}
		var got []string
		for len(asked) > 0 {
			got = append(got, <-asked)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%v (-want +got):\n%s", c.env, diff)
		}
	}
	wrong := map[string]string{"OPENAI_BASE_URL": "ftp://x", "BOT_MAX_TOKENS_FIELD": "tokens", "BOT_REASONING_EFFORT": "very high"}
	_, err := models.FromEnv(func(name string) string { return wrong[name] })
	for _, want := range []string{"model from the environment", "BaseURL", "MaxTokensField", "ReasoningEffort"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
}
