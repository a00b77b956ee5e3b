package app_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/app/moderation"
)

// TestModerationSettings: each row is what is set, and the variables that are wrong.
func TestModerationSettings(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		flags string
		wrong []string
	}{
		"nobody":                {"", nil},
		"OpenAI":                {"--bot-moderation=openai --openai-api-key=k --bot-moderation-threshold=0.4", nil},
		"Azure":                 {"--bot-moderation=Azure --bot-moderation-url=http://127.0.0.1:1 --bot-moderation-key=k --bot-moderation-fail=open --bot-moderation-shields", nil},
		"no key":                {"--bot-moderation=azure", []string{"BOT_MODERATION_URL", "BOT_MODERATION_KEY"}},
		"a severity of nothing": {"--bot-moderation=azure --bot-moderation-url=https://a.example --bot-moderation-key=k --bot-moderation-threshold=0", []string{"BOT_MODERATION_THRESHOLD"}},
		"a score as a severity": {"--bot-moderation=azure --bot-moderation-url=https://a.example --bot-moderation-key=k --bot-moderation-threshold=0.5", []string{"BOT_MODERATION_THRESHOLD"}},
		"a severity as a score": {
			"--bot-moderation=openai --bot-moderation-key=k --bot-moderation-threshold=4 --bot-moderation-shields",
			[]string{"BOT_MODERATION_THRESHOLD", "BOT_MODERATION_SHIELDS"},
		},
		"another moderator": {
			"--bot-moderation=ours --bot-moderation-fail=never --bot-moderation-url=http://a.example",
			[]string{"BOT_MODERATION", "BOT_MODERATION_URL", "BOT_MODERATION_FAIL"},
		},
		"a key for elsewhere": {"--bot-moderation=openai --openai-api-key=k --openai-base-url=https://a.example/v1", []string{"BOT_MODERATION_KEY"}},
		"half a moderator":    {"--bot-moderation-key=k", []string{"BOT_MODERATION_KEY"}},
	} {
		err := app.Settings(app.Bot{Name: "Desk"}, moderation.Feature()).Read(strings.Fields(c.flags)...)
		var wrong []string
		if err != nil {
			for line := range strings.Lines(err.Error()) {
				variable, _, _ := strings.Cut(line, ": ")
				wrong = append(wrong, variable)
			}
		}
		if !slices.Equal(wrong, c.wrong) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
