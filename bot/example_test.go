package bot_test

import (
	"context"
	"fmt"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/bot"
)

// A summary on working days at five in the afternoon. The bot registers the schedule whenever it is
// installed somewhere and at each start, on each replica: the same Key replaces it.
func ExampleBot_OnNotice() {
	b, err := bot.New(bot.Config{Actions: actions.New(), Planner: bot.PlannerFunc(nil)})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	defer func() { _ = b.Drain(ctx) }()
	b.OnNotice("summary", func(ctx context.Context, t *bot.Turn) error {
		return t.Plan(ctx) // with the notice's Text, as if a person had written it
	})
	summary := actions.Notice{
		To:  actions.Recipient{Channel: "msteams", Bot: "28:app-id", Conversation: "19:warehouse@thread.tacv2"},
		Key: "summary", Every: "0 17 * * MON-FRI", Zone: "Europe/Berlin",
		Run: "summary", Text: "Summarize the open tickets.",
	}
	_, err = b.Notify(ctx, summary)
	fmt.Println(err)
	summary.Every = "0 17 30 2 *"
	_, err = b.Notify(ctx, summary)
	fmt.Println(err)
	// Output:
	// notify: unknown recipient
	// notify: the schedule "0 17 30 2 *" is never due
}
