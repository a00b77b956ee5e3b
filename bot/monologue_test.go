package bot_test

import (
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/internal/fakemodel"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner"
	"github.com/planbot-go/planbot/prompts"
)

// listBot is a prompt folder in the form of Teams AI's listBot sample with its monologue.
var listBot = fstest.MapFS{
	"prompts/sequence/skprompt.txt": {Data: []byte("You keep lists.\n\nrules:\n- only use lists that exist.\n\nCurrent lists:\n{{$conversation.lists}}")},
	"prompts/sequence/config.json": {Data: []byte(`{"schema":1.1,"description":"List Bot","type":"completion",
		"completion":{"completion_type":"chat","include_history":true,"include_input":true,"max_input_tokens":2800,"max_tokens":1000,"temperature":0.2,"top_p":0.0,"presence_penalty":0.6,"frequency_penalty":0.0,"stop_sequences":[]},
		"augmentation":{"augmentation_type":"monologue"}}`)},
	"prompts/sequence/actions.json": {Data: []byte(`[{"name":"createList","description":"Creates a list"},{"name":"addItem"},{"name":"deleteList"}]`)},
}

// act is a monologue that takes an action.
func act(name, parameters string) string {
	return `{"thoughts":{"thought":"They want that","reasoning":"They said so","plan":"- ` + name + `"},"action":{"name":"` + name + `","parameters":` + parameters + `}}`
}

// TestAMonologue in whole turns: a prompt folder of Teams AI plans action by action.
func TestAMonologue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		model := fakemodel.Serve(t, wires.Listen())
		b := setup(t, func(c *bot.Config) {
			library, err := prompts.LoadFS(listBot, "prompts")
			must(t, err)
			server, err := models.NewOpenAI(models.OpenAIConfig{BaseURL: model.URL, Model: "fake", Timeout: 5 * time.Second, Transport: overWires})
			must(t, err)
			c.Planner, err = planner.NewSequence(t.Context(), planner.Config{Model: server, Prompts: library, Actions: c.Actions})
			must(t, err)
		})
		model.Says(act("createList", `{"list":"party"}`), "Sure:\n```json\n"+act("addItem", `{"list":"party","item":"chips"}`)+"\n```", act("SAY", `{"text":"I made it."}`))
		b.tell(event{"text": "make a party list with chips"}, "I made it.")
		if kept := b.kept(); !strings.Contains(kept, "chips") {
			t.Errorf("kept %s", kept)
		}
		calls := model.Calls()
		first, last := calls[0].Messages, calls[2].Messages
		system := first[0].Text
		for _, want := range []string{"You keep lists.", "Actions:\ncreateList(list", "Take one action at a time.", `"name":"SAY"`} {
			if !strings.Contains(system, want) {
				t.Errorf("the prompt lacks %q: %s", want, system)
			}
		}
		if strings.Contains(system, "renameList") || strings.Contains(system, "saveAs") || len(system) > 4000 {
			t.Errorf("the prompt has %d bytes: %s", len(system), system)
		}
		told := []string{}
		for _, m := range last[len(last)-4:] {
			told = append(told, m.Role+": "+m.Text)
		}
		for i, want := range []string{
			`assistant: {"thoughts":{"plan":"- createList","reasoning":"They said so","thought":"They want that"},"action":{"name":"createList","parameters":{"list":"party"}}}`,
			"system: Results of the last plan:\n- createList: ", `assistant: {"thoughts":{"plan":"- addItem"`, "system: Results of the last plan:\n- addItem: ",
		} {
			if !strings.HasPrefix(told[i], want) {
				t.Errorf("message %d is %s, want %s", i, told[i], want)
			}
		}

		// The next turn sees this one in the same form. A bad answer is repaired, and does nothing.
		model.Says(`{"thoughts":{"thought":"Hm","reasoning":"-","plan":"-"}}`, act("deleteAll", `{}`), act("SAY", `{"text":"Which one?"}`))
		b.tell(event{"text": "delete it"}, "Which one?")
		calls = model.Calls()
		again := calls[3].Text()
		for _, want := range []string{`"action":{"name":"createList","parameters":{"list":"party"}}}`, `"action":{"name":"SAY","parameters":{"text":"I made it."}}}`} {
			if !strings.Contains(again, want) || strings.Contains(again, `"commands"`) {
				t.Errorf("the history lacks %q: %s", want, again)
			}
		}
		if repair := calls[4].Last("system"); !strings.Contains(repair, "there are thoughts and no action; to answer the person, take the action SAY") {
			t.Errorf("the model reads %s", repair)
		}
		if repair := calls[5].Last("system"); !strings.Contains(repair, `there is no action "deleteAll"`) || !strings.Contains(repair, "one JSON object with thoughts and one action") {
			t.Errorf("the model reads %s", repair)
		}
		b.connector.None(t)
	})
}
