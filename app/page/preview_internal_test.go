package page

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/lists"
	"github.com/planbot-go/planbot/actions/reminders"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/internal/settings"
	"github.com/planbot-go/planbot/prompts"
	"github.com/planbot-go/planbot/state"
)

// turnOfMia is a turn with a history and a variable.
func turnOfMia() *actions.Turn {
	a := &activity.Activity{Type: activity.Message, ChannelID: activity.Teams, Text: "and eggs"}
	a.Conversation.ConversationType, a.From.Name = "personal", "Mia"
	turn := &actions.Turn{ID: "t1", Activity: a, Text: "and eggs", Conversation: state.NewScope(), User: state.NewScope(), Temp: state.NewScope()}
	turn.Thread = turn.Conversation
	state.Of[prompts.History](turn.Thread).Append(prompts.Turn{Messages: []prompts.Message{{Role: "user", Text: "add milk"}, {Role: "assistant", Text: "Added milk."}}}, 5)
	*state.At[string](turn.Conversation, "mood") = "sunny"
	return turn
}

// TestPreview renders prompts for a turn with a model that must not be asked.
func TestPreview(t *testing.T) {
	t.Parallel()
	model := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a preview asks the model") }))
	t.Cleanup(model.Close)
	s, err := settings.Read(settings.BotOf(app.Bot{Name: "Planbot", Register: func(r *actions.Registry) {
		lists.Register(r)
		reminders.Register(r)
	}}), "--openai-base-url="+model.URL, "--openai-model=m")
	if err != nil {
		t.Fatal(err)
	}
	own := fstest.MapFS{
		"prompts/sequence/prompt.txt":   {Data: []byte("You are {{$conversation.mood}}. Plan in JSON.\n{{actions}}")},
		"prompts/tools/prompt.txt":      {Data: []byte("Call what you need, said {{$temp.input}}.")},
		"prompts/Translate/prompt.txt":  {Data: []byte("Translate {{$text}} to {{$language}}.")},
		"prompts/Translate/config.json": {Data: []byte(`{"description":"Translates","input":{"parameters":[{"name":"text"},{"name":"language"}]}}`)},
		"prompts/idle/prompt.txt":       {Data: []byte("Nobody needs me.")},
	}
	for name, want := range map[string][]string{
		"sequence":   {"prompt: You are sunny. Plan in JSON.\n", "addItem(", "history: add milk", "person: and eggs"},
		"tools":      {"prompt: Call what you need, said and eggs.", "person: and eggs"},
		"sequential": {"prompt: ", "addItem"},
		"Translate":  {"Translate [text] to [language]."},
	} {
		asked, err := previewPrompt(t.Context(), *s, turnOfMia(), own, name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		text := ""
		for _, section := range asked.Sections {
			text += section.Name + ": " + section.Text + "\n"
		}
		for _, one := range want {
			if !strings.Contains(text, one) {
				t.Errorf("%s lacks %q:\n%s", name, one, text)
			}
		}
	}
	for name, want := range map[string]string{"idle": "nothing uses the prompt idle", "nothing": "nothing uses the prompt nothing"} {
		if _, err := previewPrompt(t.Context(), *s, turnOfMia(), own, name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	own["prompts/sequence/prompt.txt"] = &fstest.MapFile{Data: []byte("{{nothing}}")}
	if _, err := previewPrompt(t.Context(), *s, turnOfMia(), own, "sequence"); err == nil || !strings.Contains(err.Error(), `no function "nothing"`) {
		t.Errorf("a draft with a fault: %v", err)
	}
	if s.Planner != "sequence" || s.Bot.Prompts != nil {
		t.Error("a preview has changed the settings of the bot")
	}
}
