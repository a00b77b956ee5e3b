package bottest_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/lists"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bottest"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner"
	"github.com/planbot-go/planbot/prompts"
	"github.com/planbot-go/planbot/state"
)

func TestApprovalByCard(t *testing.T) {
	t.Parallel()
	both(t, func() bottest.Config { return ticketBot(new(tickets)) }, func(t *testing.T, kit *bottest.Kit) {
		chat := kit.Group("team", "Mia", "Otto")
		kit.Model.Says(bottest.Plan(bottest.Do("closeTicket", "id", 7), bottest.Say("Closed.")))
		chat.Mention("close 7")
		card := chat.ExpectCard("Close ticket", "7")
		if shown := card.As("Otto").Press("Approve").Shown(); !strings.Contains(shown, "You can't decide this") {
			t.Errorf("Otto was shown %q", shown)
		}
		var answer struct{ StatusCode int }
		chat.Press("Approve").Taken().Decode(&answer)
		if answer.StatusCode != http.StatusOK {
			t.Errorf("the click was answered with %d", answer.StatusCode)
		}
		chat.Expect("Closed.")
		updated := 0
		for _, s := range kit.Connector.Sent() {
			if s.Method == http.MethodPut && s.ID == card.ID {
				updated++
			}
		}
		if updated != 1 {
			t.Errorf("the card was updated %d times", updated)
		}
	})
}

// routedBot has handlers of its own.
func routedBot(ctx context.Context, parts bottest.Parts) (*bot.Bot, error) {
	acts := actions.New()
	lists.Register(acts)
	sequence, err := planner.NewSequence(ctx, planner.Config{Model: parts.Model, Actions: acts})
	if err != nil {
		return nil, err
	}
	cfg := parts.Bot
	cfg.Actions, cfg.Planner = acts, sequence
	b, err := bot.New(cfg)
	if err != nil {
		return nil, err
	}
	bot.AddInvoke(b, "shop/count", func(_ context.Context, t *bot.Turn, in struct{ Add int }) (struct{ Count int }, error) {
		count := state.At[int](t.Conversation, "count")
		*count += in.Add
		return struct{ Count int }{*count}, nil
	})
	for _, kind := range []string{"messageUpdate", "messageDelete", "messageReaction"} {
		b.On(func(t *bot.Turn) bool { return string(t.Activity.Type) == kind }, func(ctx context.Context, t *bot.Turn) error {
			return t.Tell(ctx, fmt.Sprintf("%s %s %d", kind, t.Text, len(t.Activity.ReactionsAdded)))
		})
	}
	return b, nil
}

func TestEventsOfAChannel(t *testing.T) {
	t.Parallel()
	bottest.Test(t, bottest.Config{New: routedBot}, func(t *testing.T, kit *bottest.Kit) {
		chat := kit.Personal("Mia")
		chat.AddBot()
		chat.ExpectMatch("^Hello, I am Planbot")
		chat.Add("Otto")
		chat.ExpectNothing()
		kit.Model.Says("Well.")
		said := chat.Say("milk")
		chat.Expect("Well.")
		said.Edit("oat milk")
		chat.Expect("messageUpdate oat milk 0")
		said.Delete()
		chat.Expect("messageDelete  0")
		chat.React("like")
		chat.Expect("messageReaction  1")
		kit.Model.Says("I read text only.")
		chat.Deliver(map[string]any{"type": "message", "attachments": []any{map[string]any{"contentType": "image/png", "contentUrl": kit.Connector.URL + "file"}}})
		chat.Expect("I read text only.")
		if asked := kit.Model.LastCall().Last("user"); !strings.Contains(asked, "image/png") {
			t.Errorf("the model was asked %q", asked)
		}
		chat.Deliver(map[string]any{"type": "conversationUpdate", "membersRemoved": []any{map[string]any{"id": "28:bot"}}}).Taken()
		chat.ExpectNothing()

		var got struct{ Count int }
		chat.Invoke("shop/count", map[string]int{"Add": 2}).Taken().Decode(&got)
		chat.Invoke("shop/count", map[string]int{"Add": 3}).Taken().Decode(&got)
		if kept := *state.At[int](chat.Conversation(), "count"); got.Count != 5 || kept != 5 {
			t.Errorf("count %d, kept %d", got.Count, kept)
		}
		if kept := *state.At[string](chat.User(), "cup"); kept != "" {
			t.Errorf("kept %q", kept)
		}
		chat.Keep(func(_, user *state.Scope) { *state.At[string](user, "cup") = "large" })
		if kept := *state.At[string](chat.User(), "cup"); kept != "large" {
			t.Errorf("kept %q", kept)
		}
		if other := chat.Invoke("shop/close", nil); other.Status != http.StatusNotImplemented {
			t.Errorf("an invoke without a handler: %s", other)
		}
	})
}

func TestThreadOfATeam(t *testing.T) {
	t.Parallel()
	bottest.Test(t, listBot(), func(_ *testing.T, kit *bottest.Kit) {
		kit.Connector.TeamOf(1000)
		chat := kit.Channel("general", "Mia")
		chat.AddBot()
		chat.ExpectNothing() // a welcome would disturb a thousand
		kit.Model.Says(addMilk)
		chat.Mention("add milk")
		chat.Expect("Added milk.")
	})
}

func TestKeepAndRead(t *testing.T) {
	t.Parallel()
	bottest.Test(t, listBot(), func(t *testing.T, kit *bottest.Kit) {
		chat := kit.Personal("Mia")
		chat.Keep(func(conversation, user *state.Scope) {
			state.Of[lists.Lists](user).All = []lists.List{{Name: "groceries", Items: []lists.Item{{Name: "tea"}}}}
			state.Of[prompts.History](conversation).Append(prompts.Turn{From: "29:mia", Messages: []prompts.Message{{Role: "user", Text: "tea, please"}}}, 0)
		})
		kit.Model.Says(addMilk)
		chat.Say("and milk")
		chat.Expect("Added milk.")
		if prompt := kit.Model.LastCall().Prompt(); !strings.Contains(prompt, "tea, please") {
			t.Errorf("the history is not in the prompt:\n%s", prompt)
		}
		if kept := state.Of[lists.Lists](chat.User()); len(kept.All) != 1 || len(kept.All[0].Items) != 2 {
			t.Errorf("kept %+v", kept)
		}
		if kept := state.Of[prompts.History](chat.Conversation()); len(kept.Turns) != 2 {
			t.Errorf("history %+v", kept)
		}
	})
}

func TestTools(t *testing.T) {
	t.Parallel()
	cfg := listBot()
	cfg.Planner = "tools"
	bottest.Test(t, cfg, func(t *testing.T, kit *bottest.Kit) {
		chat := kit.Personal("Mia")
		kit.Model.CallsTools(models.Call{ID: "1", Name: "addItem", Arguments: `{"list":"groceries","item":"milk"}`})
		kit.Model.Says("Added milk.")
		chat.Say("add milk")
		chat.Expect("Added milk.")
		calls := kit.Model.Calls()
		if len(calls) != 2 || len(calls[0].Tools) == 0 || calls[1].Last("tool") == "" || !strings.Contains(calls[1].Prompt(), "assistant calls addItem") {
			t.Errorf("%d calls, the last:\n%s", len(calls), calls[len(calls)-1].Prompt())
		}
	})
}

func TestStreams(t *testing.T) {
	t.Parallel()
	both(t, func() bottest.Config { return streamingBot(true) }, func(t *testing.T, kit *bottest.Kit) {
		chat := kit.Personal("Mia")
		kit.Model.Answers(bottest.Answer{Text: "Hello, how", CutOff: true})
		kit.Model.Says("Hello, how are you?")
		chat.Say("hi")
		chat.Expect("Hello, how are you?")
		if call := kit.Model.LastCall(); !call.Stream || call.Model != "own" || call.Conversation != "a:Mia" {
			t.Errorf("the call %+v", call)
		}
	})
}

func TestExpectingAtTheSameTime(t *testing.T) {
	t.Parallel()
	bottest.Test(t, listBot(), func(_ *testing.T, kit *bottest.Kit) {
		kit.Model.Decides(func(c bottest.ModelCall) (bottest.Answer, bool) {
			return bottest.Answer{Text: c.Last("user"), Takes: time.Minute}, true
		})
		var talks []func()
		for i := range 8 {
			text := fmt.Sprint("number ", i)
			chat := kit.Personal(text)
			talks = append(talks, func() {
				chat.Say(text)
				chat.Expect(text)
			})
		}
		kit.Together(talks...)
	})
}

func TestHeldMessage(t *testing.T) {
	t.Parallel()
	bottest.Test(t, listBot(), func(t *testing.T, kit *bottest.Kit) {
		chat := kit.Personal("Mia")
		taken, release := kit.Connector.Holds("Added milk.")
		kit.Model.Says(addMilk)
		chat.Say("add milk")
		<-taken
		time.Sleep(time.Second)
		kit.Kill(1)
		close(release)
		kit.Restart()
		chat.Expect("Added milk.")
		chat.Expect("Added milk.") // nobody knows whether the first one arrived
		chat.ExpectNothing()
		if n := len(kit.Model.Calls()); n != 1 {
			t.Errorf("the model was asked %d times", n)
		}
	})
}

func TestDecisions(t *testing.T) {
	t.Parallel()
	bottest.Test(t, listBot(), func(t *testing.T, kit *bottest.Kit) {
		kit.Model.Decides(func(c bottest.ModelCall) (bottest.Answer, bool) {
			return bottest.Answer{Text: "To " + c.Conversation + ": " + c.Last("user")}, true
		})
		var refused sync.Map
		kit.Connector.Decides(func(s bottest.Sent) bottest.Answer {
			if _, again := refused.LoadOrStore(s.To, true); again {
				return bottest.Answer{}
			}
			return bottest.Answer{Status: http.StatusBadGateway}
		})
		mia, otto := kit.Personal("Mia"), kit.Personal("Otto")
		kit.Together(func() { mia.Say("one") }, func() { otto.Say("two") })
		mia.Expect("To a:Mia: one")
		otto.Expect("To a:Otto: two")
		for _, to := range []string{"a:Mia", "a:Otto"} {
			if _, once := refused.Load(to); !once {
				t.Errorf("%s was not refused", to)
			}
		}
	})
}
