package bottest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/lists"
	"github.com/planbot-go/planbot/app/record"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bottest"
	"github.com/planbot-go/planbot/planner"
	"github.com/planbot-go/planbot/state"
)

// newBot is what the program and its tests make.
func newBot(ctx context.Context, parts bottest.Parts) (*bot.Bot, error) {
	acts := actions.New()
	lists.Register(acts)
	sequence, err := planner.NewSequence(ctx, planner.Config{Model: parts.Model, Actions: acts})
	if err != nil {
		return nil, err
	}
	cfg := parts.Bot
	cfg.Actions, cfg.Planner = acts, sequence
	return bot.New(cfg)
}

func Example() {
	t := new(testing.T) // that of the test
	bottest.Test(t, bottest.Config{New: newBot}, func(t *testing.T, kit *bottest.Kit) {
		kit.Model.Says(bottest.Plan(bottest.Do("addItem", "list", "groceries", "item", "milk"), bottest.Say("Added milk.")))
		chat := kit.Personal("Mia")
		chat.Say("add milk to groceries")
		chat.Expect("Added milk.")

		fmt.Println(state.Of[lists.Lists](chat.User()).All)
	})
	// Output: [{groceries [milk]}]
}

func ExampleKit_CrashAfter() {
	t := new(testing.T) // that of the test
	bottest.Test(t, bottest.Config{New: newBot}, func(_ *testing.T, kit *bottest.Kit) {
		plan := bottest.Plan(bottest.Do("addItem", "list", "groceries", "item", "milk"), bottest.Say("Added milk."))
		kit.Model.Says(plan, plan) // nothing was written down of the first, so it is asked again
		chat := kit.Personal("Mia")
		kit.CrashAfter(1)
		chat.Say("add milk to groceries")
		chat.ExpectNothing()
		kit.Restart()
		chat.Expect("Added milk.") // when the lease of the dead process is over
		fmt.Println(state.Of[lists.Lists](chat.User()).All)
	})
	// Output: [{groceries [milk]}]
}

func ExampleKit_Together() {
	t := new(testing.T) // that of the test
	cfg := bottest.Config{New: newBot, Replicas: 2}
	bottest.Test(t, cfg, func(_ *testing.T, kit *bottest.Kit) {
		kit.Model.Answers(bottest.Answer{Text: "Hello.", Takes: 20 * time.Second})
		chat := kit.Personal("Mia")
		hi := map[string]any{"type": "message", "id": "m1", "text": "hi"}
		kit.Together(
			func() { chat.Deliver(hi).Taken() },
			func() { chat.On(2).Deliver(hi).Taken() }, // the channel could not wait
		)
		chat.Expect("Hello.")
		chat.ExpectNothing()
		fmt.Println(len(kit.Model.Calls()), "call of the model")
	})
	// Output: 1 call of the model
}

func ExampleModel_Throttles() {
	t := new(testing.T) // that of the test
	bottest.Test(t, bottest.Config{New: newBot}, func(_ *testing.T, kit *bottest.Kit) {
		began := time.Now()
		kit.Model.Throttles(15 * time.Second)
		kit.Model.Says("Hello.")
		chat := kit.Personal("Mia")
		chat.Say("hi")
		chat.Expect("Hello.")
		fmt.Println(time.Since(began) > 15*time.Second) // and outside of the bubble no time has passed
	})
	// Output: true
}

func ExampleChat_Press() {
	t := new(testing.T) // that of the test
	acts := actions.New()
	actions.Add(acts, "payInvoice", "Pays an invoice", func(context.Context, *actions.Turn, struct{ Number int }) (actions.Result, error) {
		return actions.Done, nil
	}, actions.NeedsApproval)
	bottest.Test(t, bottest.Config{Actions: acts}, func(_ *testing.T, kit *bottest.Kit) {
		chat := kit.Group("team", "Mia", "Otto")
		kit.Model.Says(bottest.Plan(bottest.Do("payInvoice", "Number", 42), bottest.Say("Paid.")))
		chat.Mention("pay 42")
		card := chat.ExpectCard("Pay invoice", "42")
		fmt.Println(card.As("Otto").Press("Approve").Shown()) // who did not ask for it
		chat.Press("Approve")
		chat.Expect("Paid.")
	})
	// Output: You can't decide this. Nothing was done.
}

func ExamplePlay() {
	const file = `
name: adds milk
steps:
  - event: {type: message, conversation: c1, from: mia, text: add milk}
    model: ['{"type":"plan","commands":[{"type":"DO","action":"addItem","entities":{"list":"groceries","item":"milk"}},{"type":"SAY","response":"Added milk."}]}']
    expect:
      actions: [{action: addItem, entities: {list: groceries, item: milk}}]
      replies: [Added milk.]
      state: {lists: {groceries: [milk]}}
`
	all, err := record.Read("milk.yaml", []byte(file))
	if err != nil {
		fmt.Println(err)
		return
	}
	failures, _ := bottest.Play(&all[0], bottest.Config{New: newBot})
	fmt.Println(all[0].Name, failures)
	// Output: adds milk []
}
