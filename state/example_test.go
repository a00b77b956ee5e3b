package state_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/planbot-go/planbot/state"
)

// What docs/state.md shows; internal/docs checks that it is the same.

type Stock struct {
	Left map[string]int `json:"left"`
}

var errSoldOut = errors.New("sold out")

func take(ctx context.Context, store *state.Store, item string) error {
	return store.Update(ctx, state.BotKey(), func(bot *state.Scope) error {
		stock := state.Of[Stock](bot)
		if stock.Left[item] == 0 {
			return errSoldOut // nothing is saved
		}
		stock.Left[item]--
		return nil
	})
}

// A web page of your own, or a job at night, changes what the bot's turns read with Turn.Bot. A bot
// has its store as Bot.Store().
func ExampleStore_Update() {
	ctx := context.Background()
	store, err := state.Open(ctx, "", state.Config{}) // inside this process
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = store.Close() }()
	deliver := func(bot *state.Scope) error {
		state.Of[Stock](bot).Left = map[string]int{"tea": 1}
		return nil
	}
	if err := store.Update(ctx, state.BotKey(), deliver); err != nil {
		fmt.Println(err)
	}
	fmt.Println(take(ctx, store, "tea"))
	fmt.Println(take(ctx, store, "tea"))
	// Output:
	// <nil>
	// sold out
}

// The key of a person's state is made of the ids that the channel has for the person and the bot.
// In a turn it is turn.User.Key().
func ExampleUserKey() {
	fmt.Println(state.UserKey("msteams", "28:1b2c", "29:mia"))
	fmt.Println(state.ConversationKey("msteams", "28:1b2c", "19:group@thread.v2"))
	fmt.Println(state.BotKey())
	// Output:
	// planbot/{40}/msteams/28:1b2c/users/29:mia
	// planbot/{33}/msteams/28:1b2c/conversations/19:group@thread.v2
	// planbot/{39}/bot
}
