package heads_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/planbot-go/planbot/bot/heads"
	"github.com/planbot-go/planbot/state"
)

// A turn is found by the id that the person read.
func ExampleRead() {
	ctx := context.Background()
	store, err := state.Open(ctx, "", state.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = store.Close() }()
	_, err = heads.Read(ctx, store, "3d7rq2mzk4ab")
	fmt.Println(errors.Is(err, state.ErrNoRow))
	// Output: true
}
