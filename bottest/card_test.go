package bottest_test

import (
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"testing"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bottest"
)

// payBot sends a card when it is asked for one, and answers its button in every way there is.
func payBot(ctx context.Context, parts bottest.Parts) (*bot.Bot, error) {
	b, err := routedBot(ctx, parts)
	if err != nil {
		return nil, err
	}
	card := activity.Card{
		Fallback: "Pay",
		Body:     []any{map[string]any{"type": "Container", "items": []any{map[string]any{"type": "Input.Text", "id": "cups"}}}},
		Actions: []any{
			map[string]any{"type": "Action.Execute", "title": "Pay", "verb": "pay"},
			map[string]any{"type": "Action.OpenUrl", "title": "Read", "url": "https://example.com"},
		},
	}
	b.On(func(t *bot.Turn) bool { return t.Text == "card" }, func(ctx context.Context, t *bot.Turn) error {
		reply := t.Activity.Reply("")
		reply.Attachments = []activity.Attachment{card.Attachment()}
		return t.Send(ctx, reply)
	})
	b.OnCardAction("pay", func(_ context.Context, _ *bot.Turn, click bot.CardClick) (bot.CardAnswer, error) {
		var in struct {
			Cups string `json:"cups"`
		}
		if err := click.Read(&in); err != nil {
			return bot.CardAnswer{}, err
		}
		switch in.Cups {
		case "":
			return bot.CardAnswer{}, &bot.InvokeError{Status: 400, Code: "NoCups", Message: "How many cups?"}
		case "many":
			return bot.CardAnswer{}, &bot.InvokeError{Status: 400, Code: "TooMany"}
		case "broken":
			return bot.CardAnswer{}, errors.New("the till is broken")
		case "none":
			card := activity.Card{Fallback: "Nothing to pay"}
			return bot.CardAnswer{Card: &card}, nil
		}
		return bot.CardAnswer{Message: "Paid for " + in.Cups + "."}, nil
	})
	return b, nil
}

// TestButtonsInsideOfACard: a button is one wherever it lies, and what a button sends is none.
func TestButtonsInsideOfACard(t *testing.T) {
	t.Parallel()
	button := func(title string) map[string]any {
		return map[string]any{"type": "Action.Submit", "title": title, "data": map[string]any{"pressed": title, "then": map[string]any{"type": "Action.Submit", "title": "no button"}}}
	}
	set := func(title string) map[string]any {
		return map[string]any{"type": "ActionSet", "actions": []any{button(title)}}
	}
	card := activity.Card{Fallback: "All of them", Body: []any{
		set("in a set"),
		map[string]any{"type": "Container", "items": []any{set("in a container")}, "selectAction": button("the container itself")},
		map[string]any{"type": "ColumnSet", "columns": []any{map[string]any{"type": "Column", "items": []any{set("in a column")}}}},
	}, Actions: []any{
		button("in the bar"),
		map[string]any{"type": "Action.ShowCard", "title": "More", "card": map[string]any{"type": "AdaptiveCard", "body": []any{map[string]any{"type": "Input.Text", "id": "note"}}, "actions": []any{button("in a shown card")}}},
	}}
	cfg := bottest.Config{New: func(ctx context.Context, parts bottest.Parts) (*bot.Bot, error) {
		b, err := routedBot(ctx, parts)
		if err != nil {
			return nil, err
		}
		b.On(func(t *bot.Turn) bool { return t.Text == "card" }, func(ctx context.Context, t *bot.Turn) error {
			reply := t.Activity.Reply("")
			reply.Attachments = []activity.Attachment{card.Attachment()}
			return t.Send(ctx, reply)
		})
		b.On(func(t *bot.Turn) bool { return len(t.Activity.Value) > 0 }, func(ctx context.Context, t *bot.Turn) error {
			var value struct{ Pressed, Note string }
			if err := json.Unmarshal(t.Activity.Value, &value); err != nil {
				return err
			}
			return t.Tell(ctx, value.Pressed+value.Note)
		})
		return b, nil
	}}
	bottest.Test(t, cfg, func(t *testing.T, kit *bottest.Kit) {
		chat := kit.Personal("Mia")
		chat.Say("card")
		shown := chat.ExpectCard()
		var titles []any
		for _, b := range shown.Buttons() {
			titles = append(titles, b["title"])
		}
		want := []any{"in the bar", "More", "in a shown card", "in a set", "in a container", "the container itself", "in a column"}
		if !slices.Equal(titles, want) {
			t.Errorf("buttons %q, want %q", titles, want)
		}
		for _, title := range []string{"in the bar", "in a set", "in a container", "the container itself", "in a column"} {
			chat.Press(title)
			chat.Expect(title)
		}
		shown.Press("in a shown card", "note", "!")
		chat.Expect("in a shown card!")
	})
}

var turnID = regexp.MustCompile(`\(turn \w+\)`)

// Whatever a click was answered with, its text is shown.
func TestShown(t *testing.T) {
	t.Parallel()
	bottest.Test(t, bottest.Config{New: payBot}, func(t *testing.T, kit *bottest.Kit) {
		chat := kit.Personal("Mia")
		chat.Say("card")
		card := chat.ExpectCard()
		for cups, want := range map[string]string{
			"2": "Paid for 2.", "": "How many cups?", "many": "TooMany", "none": "",
			"broken": "Sorry, something went wrong on my side. Please try again. (turn …)",
		} {
			if got := turnID.ReplaceAllString(card.Press("Pay", "cups", cups).Shown(), "(turn …)"); got != want {
				t.Errorf("a click for %q cups was answered with %q, want %q", cups, got, want)
			}
		}
		if got := chat.Invoke("shop/count", "two").Shown(); got != "the value of the invoke is of another form" {
			t.Errorf("an invoke with a wrong value was answered with %q", got)
		}
	})
}

func TestExpectsWhatCannotBe(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		test func(kit *bottest.Kit, chat *bottest.Chat)
		want []string
	}{
		"another chat": {func(kit *bottest.Kit, _ *bottest.Chat) {
			said(kit)
			kit.Personal("Otto").Expect("Well.")
		}, []string{"the bot said nothing more, want \"Well.\"\nthe bot said", "the bot said \"Well.\" in a:Mia, which nothing expected"}},
		"a card as text": {func(_ *bottest.Kit, chat *bottest.Chat) { chat.Expect("") }, []string{`the bot said a card, want "": for cards there is ExpectCard`}},
		"link":           {func(_ *bottest.Kit, chat *bottest.Chat) { chat.ExpectCard().Press("Read") }, []string{`the button "Read" is of type Action.OpenUrl, which sends nothing to the bot`}},
		"kind":           {func(kit *bottest.Kit, _ *bottest.Chat) { kit.Conversation("x", "group", "Mia") }, []string{`no kind of conversation "group"`}},
		"alive":          {func(kit *bottest.Kit, _ *bottest.Chat) { kit.Alive(2) }, []string{"there is no replica 2"}},
		"crash":          {func(kit *bottest.Kit, _ *bottest.Chat) { kit.CrashAfter(0) }, []string{"CrashAfter(0): the first call is 1"}},
		"dead":           {func(kit *bottest.Kit, chat *bottest.Chat) { card := chat.ExpectCard(); kit.Kill(1); card.Press("Pay") }, []string{"the bot did not answer this: no answer: replica 1 is dead"}},
		"dead invoke":    {func(kit *bottest.Kit, chat *bottest.Chat) { kit.Kill(1); chat.Invoke("shop/count", nil) }, []string{"the bot did not answer this"}},
		"no Redis":       {func(kit *bottest.Kit, chat *bottest.Chat) { kit.StopRedis(); chat.Press("Pay") }, []string{"the bot did not answer this: 503"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			contains(t, failingInBubble(t, bottest.Config{New: payBot}, func(kit *bottest.Kit) {
				chat := kit.Personal("Ugo")
				chat.Say("card")
				kit.Settle()
				tt.test(kit, chat)
			}), tt.want...)
		})
	}
}

// Who presses a button has seen the card.
func TestPressLooksAtTheCard(t *testing.T) {
	t.Parallel()
	if got := failingInBubble(t, bottest.Config{New: payBot}, func(kit *bottest.Kit) {
		chat := kit.Personal("Mia")
		chat.Say("card")
		kit.Settle()
		chat.Press("Pay")
	}); got != "" {
		t.Errorf("it failed: %s", got)
	}
}

// A process that dies over an invoke owes no answer.
func TestInvokeOfTheDead(t *testing.T) {
	t.Parallel()
	var die func()
	cfg := bottest.Config{New: func(ctx context.Context, parts bottest.Parts) (*bot.Bot, error) {
		b, err := routedBot(ctx, parts)
		if err != nil {
			return nil, err
		}
		b.OnInvoke("shop/burn", func(context.Context, *bot.Turn) (bot.InvokeResponse, error) {
			die()
			return bot.InvokeResponse{Status: 503}, nil
		})
		return b, nil
	}}
	bottest.Test(t, cfg, func(t *testing.T, kit *bottest.Kit) {
		die = func() { kit.Kill(1) }
		burned := kit.Personal("Mia").Invoke("shop/burn", nil)
		t.Log(burned)
		if burned.Status < 500 {
			t.Errorf("the dead answered %s", burned)
		}
	})
}
