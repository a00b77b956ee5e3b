package app

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/manifest"
	"github.com/planbot-go/planbot/models"
)

// TestMemoryBySettings: BOT_MEMORY lets the bot remember what people ask it to, also without a model.
func TestMemoryBySettings(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		set  env
		want []string // what the answers have, one after the other
	}{
		"on":  {env{"bot-memory": "true"}, []string{"I'll remember: I am vegetarian. Say /memory", `1. I am vegetarian (said on `, "/memory", "Forgotten: I am vegetarian.", "You haven't asked me to remember anything."}},
		"off": {env{}, []string{"", "", "", "", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.set["port"] = "0"
			server := httptest.NewServer(assembled(t, tt.set, io.Discard).handler())
			t.Cleanup(server.Close)
			for i, text := range []string{"remember that I am vegetarian", "/memory", "help", "/memory forget 1", "/memory"} {
				said := fmt.Sprintf(`{"type":"message","id":"%d","channelId":"emulator","serviceUrl":%q,"from":{"id":"u","aadObjectId":"o"},"recipient":{"id":"b"},`+
					`"conversation":{"id":"c","tenantId":"t"},"deliveryMode":"expectReplies","text":%q}`, i, server.URL, text)
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/api/messages", strings.NewReader(said))
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Content-Type", "application/json")
				resp, err := http.DefaultClient.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				answer, err := io.ReadAll(resp.Body)
				if err != nil || !strings.Contains(string(answer), tt.want[i]) || name == "off" && strings.Contains(string(answer), "/memory forget") {
					t.Errorf("%q: %d %s (%v), want %q", text, resp.StatusCode, answer, err, tt.want[i])
				}
				if name == "off" && text == "help" && strings.Contains(string(answer), "/memory") {
					t.Errorf("help has the command: %s", answer)
				}
				_ = resp.Body.Close() // read only
			}
		})
	}
}

// TestManifestOfABotWithMemory lists its command.
func TestManifestOfABotWithMemory(t *testing.T) {
	t.Parallel()
	for _, more := range []string{"--bot-memory", ""} {
		zip, found := filepath.Join(t.TempDir(), "app.zip"), false
		args := []string{"manifest", "build", "--microsoft-app-id", testAppID, "--domain=bot.example.com", "--out", zip, more}
		wantRun(t, manifest.Config{}, slices.DeleteFunc(args, func(arg string) bool { return arg == "" })...)
		for _, c := range openManifest(t, zip).Bots[0].CommandLists[0].Commands {
			found = found || c.Title == "/memory" && c.Description == "Shows what you asked me to remember"
		}
		if found != (more != "") {
			t.Errorf("%q: /memory is listed: %v", more, found)
		}
	}
}

// TestMemoryByTheProgram: the field of Bot does what BOT_MEMORY does.
func TestMemoryByTheProgram(t *testing.T) {
	t.Parallel()
	for _, on := range []bool{true, false} {
		own := defaultBot()
		own.Memory, own.Features = on, AllFeatures
		made, err := New(t.Context(), own, models.Offline{}, bot.Config{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = made.Drain(context.WithoutCancel(t.Context())) })
		if _, has := made.Actions().Lookup("rememberFact"); has != on {
			t.Errorf("Memory %v: the action is there: %v", on, has)
		}
	}
}
