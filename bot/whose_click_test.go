package bot_test

import (
	"context"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bot/teams"
	"github.com/planbot-go/planbot/bottest"
	"github.com/planbot-go/planbot/state"
)

// kudos are what a person or a group has collected.
type kudos struct{ Said string }

// kudosCard is a card with a button for one more, also deep in its body.
func kudosCard(said string) activity.Card {
	more := func(title string) activity.Button {
		return activity.Button{Title: title, Verb: "kudos/more", Data: map[string]string{"say": "+"}}
	}
	return activity.Card{
		Fallback: said,
		Body:     []any{activity.TextBlock{Text: said}, map[string]any{"type": "ActionSet", "actions": []any{more("Deep")}}},
		Actions:  []any{more("More")},
	}
}

// TestWhoseClick: where others read along, a card about a person's own state works for that person alone, and
// only they see what a click on it returns. What belongs to all works and shows for all.
func TestWhoseClick(t *testing.T) {
	t.Parallel()
	type said struct {
		Say string `json:"say"`
	}
	for _, shared := range []bool{false, true} {
		of := func(turn *actions.Turn) *kudos {
			if shared {
				return state.Of[kudos](turn.Conversation)
			}
			return state.Of[kudos](turn.User)
		}
		r := actions.New()
		actions.Add(r, "thank", "Says thanks", func(_ context.Context, turn *actions.Turn, in said) (actions.Result, error) {
			of(turn).Said = in.Say
			return actions.Card(kudosCard(in.Say), ""), nil
		})
		actions.OnClick(r, "kudos/more", func(_ context.Context, turn *actions.Turn, in said) (actions.Result, error) {
			k := of(turn)
			k.Said += in.Say
			return actions.Card(kudosCard(k.Said), ""), nil
		})
		bottest.Test(t, bottest.Config{Actions: r, Change: func(c *bot.Config) {
			c.Teams.Suggested = func(ctx context.Context, turn *bot.Turn, _ teams.Input) error {
				return turn.Show(ctx, kudosCard("mine"))
			}
		}}, func(t *testing.T, kit *bottest.Kit) {
			const refused = "This is for somebody else."
			ben := kit.Personal("Ben")
			kit.Model.Says(`{"type":"plan","commands":[{"type":"DO","action":"thank","entities":{"say":"secret"}}]}`)
			ben.Say("thank me")
			ben.ExpectCard("secret")
			group := kit.Group("office", "Ann")
			kit.Model.Says(`{"type":"plan","commands":[{"type":"DO","action":"thank","entities":{"say":"open"}}]}`)
			group.Mention("thank us")
			card := group.ExpectCard("open")
			for _, title := range []string{"More", "Deep"} {
				got := string(card.As("Ben").Press(title).Body)
				if shared && !strings.Contains(got, "open+") || !shared && (!strings.Contains(got, refused) || strings.Contains(got, "secret")) {
					t.Errorf("shared %v: Ben's click on %s: %s", shared, title, got)
				}
				if got := string(card.Press(title).Body); !strings.Contains(got, "open+") {
					t.Errorf("shared %v: Ann's click on %s: %s", shared, title, got)
				}
			}
			for _, button := range card.Buttons()[:1] { // as clients without Action.Execute send it
				fallback, _ := button["fallback"].(map[string]any)
				click, err := card.Click(fallback)
				if err != nil {
					t.Fatal(err)
				}
				group.As("Ben").Deliver(click)
				sent := group.Next()
				if sent.Targeted == shared || !shared && sent.Activity.Text != refused {
					t.Errorf("shared %v: Ben's message: %s", shared, sent.JSON)
				}
			}
			changed := 0
			for _, sent := range kit.Connector.Sent() {
				if sent.Method == "PUT" {
					changed++
				}
				if sent.To != "a:Ben" && strings.Contains(sent.JSON, "secret") {
					t.Errorf("the group sees %s", sent.JSON)
				}
			}
			if (changed > 0) != shared {
				t.Errorf("shared %v: %d changes for all", shared, changed)
			}
			group.Invoke("suggestedActions/submit", map[string]any{"show": true})
			unmarked := group.ExpectCard("mine")
			if got := string(unmarked.As("Ben").Press("More").Body); !shared && !strings.Contains(got, "secret+") {
				t.Errorf("Ben's own state: %s", got)
			}
			for _, sent := range kit.Connector.Sent() {
				if sent.To != "a:Ben" && strings.Contains(sent.JSON, "secret") {
					t.Errorf("the group sees %s", sent.JSON)
				}
			}
			group.ExpectNothing()
		})
	}
}
