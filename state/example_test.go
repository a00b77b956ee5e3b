package state_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

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

// Without a URL, Redis runs inside the process. A bot loads and saves the state of its turns by
// itself; a program beside it does so like this.
func ExampleOpen() {
	ctx := context.Background()
	store, err := state.Open(ctx, "", state.Config{}) // or redis://user:password@host:6379/0
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = store.Close() }()

	mia, team := state.UserKey("msteams", "28:bot", "29:mia"), state.ConversationKey("msteams", "28:bot", "19:team@thread.v2")
	scopes, err := store.Load(ctx, mia, team)
	if err != nil {
		fmt.Println(err)
		return
	}
	*state.At[string](scopes[0], "name") = "Mia"
	*state.At[int](scopes[1], "meetings") += 2
	if err := store.Save(ctx, scopes...); errors.Is(err, state.ErrConflict) {
		return // a turn saved meanwhile: load again and decide again
	} else if err != nil {
		fmt.Println(err)
		return
	}

	again, err := store.Load(ctx, mia, team)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(*state.At[string](again[0], "name"), *state.At[int](again[1], "meetings"))
	// Output: Mia 2
}

// A test of an action makes the state that its turn has.
func ExampleNewScope() {
	user := state.NewScope()
	*state.At[int](user, "rolls") = 3
	rolls, err := user.JSON("rolls")
	fmt.Println(user.Names(), rolls, err)

	copied := state.ScopeOf(map[string]jsontext.Value{"rolls": rolls})
	fmt.Println(*state.At[int](copied, "rolls"))
	// Output:
	// [rolls] 3 <nil>
	// 3
}
