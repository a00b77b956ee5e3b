package main

import (
	"context"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bottest"
	"github.com/planbot-go/planbot/models"
)

// talk is a chat of Mia with the bot, on that model; nil: on a scripted one.
func talk(t *testing.T, model models.Model) (*bottest.Kit, *bottest.Chat) {
	t.Helper()
	kit := bottest.New(t, bottest.Config{New: func(ctx context.Context, p bottest.Parts) (*bot.Bot, error) {
		if model == nil {
			model = p.Model
		}
		return app.New(ctx, listbot, model, p.Bot)
	}})
	return kit, kit.Personal("Mia")
}

func TestListsByPlans(t *testing.T) {
	t.Parallel()
	kit, chat := talk(t, nil)
	const summarize = `{"type":"DO","action":"summarizeLists","saveAs":"LISTS"},{"type":"SAY","response":"Here you are:\n$LISTS"}`
	for _, step := range []struct{ say, plan, want string }{
		{
			"create groceries with milk and eggs, and a todo list",
			`{"type":"DO","action":"createList","entities":{"list":"Groceries","items":["milk","eggs"]}},
			 {"type":"DO","action":"createList","entities":{"list":"todo"}},{"type":"SAY","response":"Both are there."}`,
			"Both are there.",
		},
		{
			"I have the eggs, but we need bread, and more milk",
			`{"type":"DO","action":"removeItem","entities":{"list":"groceries","item":"Eggs"}},
			 {"type":"DO","action":"addItem","entities":{"list":"groceries","item":"bread"}},
			 {"type":"DO","action":"addItem","entities":{"list":"groceries","item":"Milk"}},` + summarize,
			"Here you are:\n- groceries: milk, bread\n- todo: ",
		},
		{
			"delete both lists",
			`{"type":"DO","action":"deleteList","entities":{"list":"todo"}},{"type":"DO","action":"deleteList","entities":{"list":"GROCERIES"}},` + summarize,
			"Here you are:\nThere are no lists.",
		},
	} {
		kit.Model.Says(`{"type":"plan","commands":[` + step.plan + `]}`)
		chat.Say(step.say)
		chat.Expect(step.want)
	}
	if n := len(kit.Model.Calls()); n != 3 {
		t.Errorf("%d model calls for three messages", n)
	}
}

func TestWhatIsNotThereCannotBeTakenAway(t *testing.T) {
	t.Parallel()
	kit, chat := talk(t, nil)
	kit.Model.Says(
		`{"type":"plan","commands":[{"type":"DO","action":"removeItem","entities":{"list":"todo","item":"run"}},{"type":"SAY","response":"Done!"}]}`,
		`{"type":"plan","commands":[{"type":"SAY","response":"You have no todo list."}]}`,
	)
	chat.Say("remove run from my todo list")
	chat.Expect("You have no todo list.")
	if prompt := kit.Model.Calls()[1].Prompt(); !strings.Contains(prompt, "removeItem failed: there is no list todo") {
		t.Errorf("the model was not told: %s", prompt)
	}
}

func TestListsBelongToTheConversation(t *testing.T) {
	t.Parallel()
	kit, chat := talk(t, models.Offline{})
	for _, step := range []struct{ say, want string }{
		{"create a grocery list and add bananas to it", "Done."},
		{"what is on my lists?", "- grocery: bananas"},
		{"remove bananas from the grocery list", "bananas is not on the list grocery any more"},
	} {
		chat.Say(step.say)
		chat.Expect(step.want)
	}
	otto := kit.Personal("Otto")
	otto.Say("what is on my lists?")
	otto.Expect("There are no lists.")
}

// TestPrompts holds what the model sees to testdata: BOTTEST_UPDATE=1 writes it anew.
func TestPrompts(t *testing.T) {
	t.Parallel()
	kit, chat := talk(t, nil)
	kit.Model.Says(
		bottest.Plan(bottest.Do("createList", "list", "groceries", "items", []string{"milk"}), bottest.Say("There it is.")),
		bottest.Plan(bottest.Say("Milk.")),
	)
	chat.Say("a grocery list with milk")
	chat.Expect("There it is.")
	chat.Say("what do I need?")
	chat.Expect("Milk.")
	kit.GoldenPrompt("testdata/prompts.txt")
}

// TestScenarios plays scenarios.yaml, as "bottest run" does.
func TestScenarios(t *testing.T) {
	t.Parallel()
	bottest.RunScenarios(t, listbot, "scenarios.yaml")
}
