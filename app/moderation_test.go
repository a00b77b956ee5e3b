package app

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/internal/cli"
)

// TestModerationBySettings: a service that the settings name judges, and BOT_MODERATION_FAIL decides
// what happens without a verdict.
func TestModerationBySettings(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		by, answer string
		status     int
		set        env
		want       string
	}{
		"OpenAI flags":        {"openai", `{"results":[{"flagged":true}]}`, 200, nil, "I can't help with that message"},
		"OpenAI passes":       {"openai", `{"results":[{"flagged":false}]}`, 200, nil, "lists"},
		"Azure flags":         {"azure", `{"categoriesAnalysis":[{"category":"Hate","severity":4}]}`, 200, nil, "I can't help with that message"},
		"a higher threshold":  {"azure", `{"categoriesAnalysis":[{"category":"Hate","severity":4}]}`, 200, env{"bot-moderation-threshold": "6"}, "lists"},
		"shields":             {"azure", `{"categoriesAnalysis":[{"category":"Hate","severity":0}],"userPromptAnalysis":{"attackDetected":true}}`, 200, env{"bot-moderation-shields": "true"}, "I can't help with that message"},
		"closed":              {"openai", ``, 500, nil, "I can't check messages right now"},
		"open":                {"openai", ``, 500, env{"bot-moderation-fail": "open"}, "lists"},
		"a sentence of ours":  {"openai", `{"results":[{"flagged":true}]}`, 200, env{"bot-filtered-text": "Not here."}, "Not here."},
		"nobody to be asked":  {"", ``, 500, nil, "lists"},
		"a score of our own":  {"openai", `{"results":[{"flagged":false,"category_scores":{"hate":0.4}}]}`, 200, env{"bot-moderation-threshold": "0.4"}, "I can't help with that message"},
		"a score that passes": {"openai", `{"results":[{"flagged":false,"category_scores":{"hate":0.4}}]}`, 200, env{"bot-moderation-threshold": "0.5"}, "lists"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(tt.status)
				_, _ = io.WriteString(w, tt.answer)
			}))
			t.Cleanup(service.Close)
			set := env{"port": "0", "bot-moderation": tt.by}
			if tt.by != "" {
				set["bot-moderation-url"], set["bot-moderation-key"] = service.URL, "key"
			}
			for flag, value := range tt.set {
				set[flag] = value
			}
			a := assembled(t, set, io.Discard)
			server := httptest.NewServer(a.handler())
			t.Cleanup(server.Close)
			said := fmt.Sprintf(`{"type":"message","id":"1","channelId":"emulator","serviceUrl":%q,"from":{"id":"u"},"recipient":{"id":"b"},`+
				`"conversation":{"id":"c"},"deliveryMode":"expectReplies","text":"what is on my lists?"}`, server.URL)
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/api/messages", strings.NewReader(said))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/json")
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if answer, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(answer), tt.want) {
				t.Errorf("%d %s (%v), want %q", resp.StatusCode, answer, err, tt.want)
			}
		})
	}
}

// TestAProtectingSettingEndsTheStart of a bot whose features do not read it.
func TestAProtectingSettingEndsTheStart(t *testing.T) {
	protecting := 0
	for _, u := range unread() {
		if !u.Protects {
			continue
		}
		protecting++
		t.Run(u.Variable, func(t *testing.T) {
			t.Setenv(u.Variable, "openai")
			var out, errs strings.Builder
			code := run(t.Context(), Bot{Name: "Hedda"}, []string{"serve", "--port=0"}, &cli.Streams{In: os.Stdin, Out: &out, Err: &errs})
			if want := "this bot has no " + u.Feature + ": " + u.Variable + " is set and nobody reads it"; code != cli.ExitUsage || !strings.Contains(errs.String(), want) {
				t.Errorf("code %d: %s%s", code, out.String(), errs.String())
			}
		})
	}
	if protecting == 0 {
		t.Error("no setting protects")
	}
}
