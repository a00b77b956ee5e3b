package state_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/planbot-go/planbot/state"
)

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
