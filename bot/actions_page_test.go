package bot_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bottest"
	"github.com/planbot-go/planbot/state"
)

// What docs/actions.md shows; internal/docs checks that it is the same.

type brew struct {
	Minutes int `json:"minutes"`
}

func brewTea(ctx context.Context, turn *actions.Turn, in brew) (actions.Result, error) {
	ready := time.Now().Add(time.Duration(in.Minutes) * time.Minute)
	_, err := turn.Notifier.Notify(ctx, actions.Notice{Text: "Your tea is ready.", At: ready})
	return actions.Text("ready at %s", ready.Format("15:04")), err
}

func announce(ctx context.Context, b *bot.Bot, to actions.Recipient) error {
	_, err := b.Notify(ctx, actions.Notice{To: to, Text: "Version 7 is out.", Key: "release 7"})
	return err
}

func TestWhatThePageShowsOfNotices(t *testing.T) {
	inBubble(t, met, func(t *testing.T, b *bundle) {
		b.must(announce(b.Context(), b.bot, miasChat))
		b.expect("Version 7 is out.")
		b.must(announce(b.Context(), b.bot, miasChat))
		b.connector.None(t)

		actions.Add(b.actions, "brewTea", "Brews tea and says when it is ready", brewTea, actions.ReturnsData)
		before := b.ask("brewTea", `{"minutes":0}`, nil)
		if before == "Your tea is ready." {
			t.Errorf("the notice came before the turn's own reply")
		}
		b.expect("Your tea is ready.")
	})
}

func orderCoffee(ctx context.Context, _ *actions.Turn, _ struct{}) (actions.Result, error) {
	answer := actions.AttemptOf(ctx).Answer
	switch {
	case answer == nil:
		size := actions.Field{Name: "size", Required: true, Choices: []actions.Choice{{Value: "s", Title: "Small"}, {Value: "l", Title: "Large"}}}
		return actions.Ask(actions.Form{Text: "Which size?", Fields: []actions.Field{size}}, nil), nil
	case answer.Declined:
		return actions.Fail("The person did not say which size."), nil
	}
	return actions.Text("ordered in size %s", answer.Values["size"]), nil
}

func TestWhatThePageShowsOfQuestions(t *testing.T) {
	acts := actions.New()
	actions.Add(acts, "orderCoffee", "Orders a coffee", orderCoffee)
	bottest.Test(t, bottest.Config{Actions: acts}, func(_ *testing.T, kit *bottest.Kit) {
		kit.Model.Says(`{"type":"plan","commands":[{"type":"DO","action":"orderCoffee","entities":{},"saveAs":"C"},{"type":"SAY","response":"It is $C."}]}`)
		chat := kit.Personal("Mia")
		chat.Say("coffee, please")
		chat.ExpectCard("Which size?").Press("Send", "f0", "l")
		chat.Expect("It is ordered in size l.")
	})
}

func lunch(ctx context.Context, t *bot.Turn) error {
	m := t.Activity.Reply("")
	m.Summary = "Lunch at noon?"
	m.Attachments = []activity.Attachment{activity.Card{
		Fallback: "Lunch at noon? Say yes.",
		Body:     []any{activity.TextBlock{Text: "Lunch at noon?"}},
		Actions:  []any{activity.Button{Title: "Yes", Verb: "lunch", Data: map[string]any{"at": 12}}},
	}.Attachment()}
	return t.Send(ctx, m)
}

func lunchClicked(_ context.Context, t *bot.Turn, click bot.CardClick) (bot.CardAnswer, error) {
	var choice struct {
		At int `json:"at"`
	}
	if err := click.Read(&choice); err != nil {
		return bot.CardAnswer{}, err
	}
	return bot.CardAnswer{Message: fmt.Sprintf("See you at %d, %s.", choice.At, t.Activity.From.Name)}, nil
}

func TestWhatThePageShowsOfCards(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		b.bot.OnCommand("lunch", lunch)
		b.bot.OnCardAction("lunch", lunchClicked)
		b.say("lunch")
		button := asCard(t, b.connector.Next(t))["actions"].([]any)[0].(map[string]any)
		got := b.deliver(pressed(button["verb"].(string), button["data"]))
		if !strings.Contains(got.body, "See you at 12, Mia.") {
			t.Errorf("answer %s", got.body)
		}
	})
}

type question struct {
	About string `json:"about"`
}

func findInBooks(_ context.Context, turn *actions.Turn, in question) (actions.Result, error) {
	book := activity.Citation{Title: "The tea book", Abstract: "Black tea: three minutes.", URL: "https://contoso.com/tea"}
	return actions.Observe("Tea takes three minutes " + turn.Cite(book)), nil // the model reads "Tea takes three minutes [1]"
}

func whatNext(ctx context.Context, t *bot.Turn) error {
	t.React(ctx, "1f440_eyes", true) // a receipt, even where no typing indicator shows
	m := t.Message("What next?")
	m.LabelPurview("9f2c1a3e-0000-4000-8000-00000000c0de")
	m.SuggestSubmit("Order tea", map[string]int{"cups": 2}) // sends this to the bot and posts nothing in the chat
	m.Suggest("Show the list")                              // says it
	m.SuggestCompose("Ask Mia", "Mia, do you have milk?")   // for the person to change and send
	return t.Send(ctx, m)
}

func TestWhatThePageShowsOfMessages(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		actions.Add(b.actions, "findInBooks", "Finds it in books", findInBooks)
		b.bot.OnCommand("next", whatNext)
		b.model.Says(plan(do("findInBooks", `{"about":"tea"}`)), plan(say("Three minutes [1].")))
		b.say("how long does tea take?")
		if got := b.connector.Next(t); !strings.Contains(got.JSON, `"name":"The tea book"`) {
			t.Errorf("no source in %s", got.JSON)
		}
		b.say("next")
		if got := b.connector.Next(t); !strings.Contains(got.JSON, `"@id":"9f2c1a3e-0000-4000-8000-00000000c0de"`) || strings.Count(got.JSON, `"Action.`) != 2 {
			t.Errorf("%s", got.JSON)
		}
	})
}

type closeTicket struct {
	ID       int       `json:"id" title:"Ticket"`
	Priority string    `json:"priority,omitempty" title:"Priority" enum:"p1,p2" labels:"Urgent,Not urgent"`
	At       time.Time `json:"at,omitzero" title:"When"`
}

func registerDesk(r *actions.Registry) {
	actions.Add(r, "closeTicket", "Closes a ticket", closeIt, actions.NeedsApproval, actions.Title("Close a ticket"),
		actions.Example("close ticket {id}", "close ticket {id} with priority {priority}"))
}

func showTickets(ctx context.Context, turn *actions.Turn, in struct{}) (actions.Result, error) {
	card := activity.Card{Body: []any{
		activity.TextBlock{Text: "Open tickets", Weight: "bolder"},
		activity.RichText{{Text: "7: VPN is down"}},
	}}
	return actions.Card(card, "One ticket is open: 7, VPN is down."), nil
}

type opened struct {
	ID    int    `json:"id"`
	Owner string `json:"owner,omitempty"`
}

func openTicket(ctx context.Context, turn *actions.Turn, in struct{}) (actions.Result, error) {
	return actions.JSON(opened{ID: 7}), nil
}

func registerTickets(r *actions.Registry) {
	actions.Add(r, "showTickets", "Shows the open tickets", showTickets)
	actions.Add(r, "openTicket", "Opens a ticket", openTicket, actions.Returns[opened]())
}

func TestWhatThePageShowsOfResults(t *testing.T) {
	t.Parallel()
	acts := actions.New()
	registerTickets(acts)
	bottest.Test(t, bottest.Config{Actions: acts}, func(t *testing.T, kit *bottest.Kit) {
		chat := kit.Personal("mia")
		kit.Model.Says(plan(saved(do("openTicket", `{}`), "T"), do("showTickets", `{}`), say("Ticket $T.id is yours$T.owner.")))
		chat.Say("my VPN is down")
		expectAll(chat, []string{"[7: VPN is down]", "Ticket 7 is yours."})
		if list := kit.Model.LastCall().Prompt(); !strings.Contains(list, "openTicket() - Opens a ticket (result: $NAME.id, $NAME.owner)\n") {
			t.Errorf("the model is not told of the result:\n%s", list)
		}
	})
}

type lunchers struct {
	Names []string `json:"names,omitempty"`
}

func lunchCard(turn *actions.Turn) activity.Card {
	coming := strings.Join(state.Of[lunchers](turn.Conversation).Names, ", ")
	return activity.Card{
		Fallback: "Lunch at noon? Coming: " + coming,
		Body:     []any{activity.TextBlock{Text: "Lunch at noon?"}, activity.RichText{{Text: "Coming: " + coming}}},
		Actions:  []any{activity.Button{Title: "I'm in", Verb: "lunch/in"}},
		Refresh:  &activity.Button{Verb: "lunch/now"},
	}
}

func askLunch(_ context.Context, turn *actions.Turn, _ struct{}) (actions.Result, error) {
	return actions.Card(lunchCard(turn), ""), nil
}

func imIn(ctx context.Context, turn *actions.Turn, in struct{}) (actions.Result, error) {
	all := state.Of[lunchers](turn.Conversation)
	if !slices.Contains(all.Names, turn.Activity.From.Name) {
		all.Names = append(all.Names, turn.Activity.From.Name)
	}
	return askLunch(ctx, turn, in)
}

func registerLunch(r *actions.Registry) {
	actions.Add(r, "askLunch", "Asks who comes to lunch", askLunch)
	actions.OnClick(r, "lunch/in", imIn)
	actions.OnRefresh(r, "lunch/now", askLunch)
}

func TestWhatThePageShowsOfClicksOnAnActionsCard(t *testing.T) {
	t.Parallel()
	registry := actions.New()
	registerLunch(registry)
	bottest.Test(t, bottest.Config{Actions: registry}, func(t *testing.T, kit *bottest.Kit) {
		chat := kit.Group("Mia")
		kit.Model.Says(plan(do("askLunch", `{}`)))
		chat.Mention("lunch?")
		card := chat.ExpectCard("Coming: ")
		card.Press("I'm in")
		card.As("Otto").Press("I'm in")
		card.Press("I'm in")
		lastChange(t, kit, "Coming: Mia, Otto\"")
	})
}
