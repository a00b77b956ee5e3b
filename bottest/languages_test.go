package bottest_test

import (
	"context"
	"testing"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bottest"
)

var barbot = app.Bot{
	Name: "Barbot",
	Register: func(r *actions.Registry) {
		actions.Add(r, "pourTea", "Pours a cup of tea", pourTea, actions.Title("Pour tea"))
	},
	Texts: map[string]map[string]string{
		"en": {"I've cleared our conversation. Everything else that I keep for you is still here.": "All cleared."},
		"de": {"Here is your tea, %s.": "Hier ist dein Tee, %s.", "Pour tea": "Tee einschenken", "Sugar, in %": "Zucker in %"},
	},
}

type tea struct {
	Sugar int `json:"sugar,omitempty" title:"Sugar, in %"`
}

func pourTea(_ context.Context, turn *actions.Turn, _ tea) (actions.Result, error) {
	return actions.Text("%s", turn.Translate("Here is your tea, %s.", turn.Activity.From.Name)), nil
}

// TestLanguages: the bot speaks the language of the person's client, with changes and sentences of
// its author.
func TestLanguages(t *testing.T) {
	t.Parallel()
	config := bottest.Config{New: func(ctx context.Context, parts bottest.Parts) (*bot.Bot, error) {
		parts.Bot.Policy = func(_ context.Context, turn *actions.Turn, _ actions.Call) (actions.Approval, error) {
			return actions.Approval{Required: turn.Text == "frage mich"}, nil
		}
		return app.New(ctx, barbot, parts.Model, parts.Bot)
	}}
	bottest.Test(t, config, func(t *testing.T, kit *bottest.Kit) {
		chat := kit.Personal("Mia")
		say := func(locale, text string) {
			chat.Deliver(map[string]any{"type": "message", "text": text, "locale": locale})
		}
		pour := bottest.Do("pourTea", "sugar", 5)
		pour.SaveAs = "TEA"
		plan := bottest.Plan(pour, bottest.Say("$TEA"))
		kit.Model.Says(plan, plan, plan)

		say("de-AT", "Tee")
		chat.Expect("Hier ist dein Tee, Mia.")
		say("en-US", "tea")
		chat.Expect("Here is your tea, Mia.")
		say("fr-FR", "/reset")
		chat.Expect("J'ai effacé notre conversation. Tout le reste de ce que je conserve pour vous est toujours là.")
		say("en-US", "/reset")
		chat.Expect("All cleared.")
		say("nl-NL", "/reset")
		chat.Expect("All cleared.")
		say("ja-JP", "help")
		chat.ExpectCard("必要なことをご自分の言葉で伝えてください", "/forget")

		say("de-DE", "frage mich")
		card := chat.ExpectCard("Darf ich das tun?", "Tee einschenken", "Zucker in %: ", "Angefragt von Mia.")
		card.Press("Ablehnen")
		chat.Expect("OK, das tue ich nicht: Tee einschenken.")
	})
}
