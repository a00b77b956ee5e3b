package turn_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/planbot-go/planbot/bot/turn"
)

// A feature that counts what people say keeps its count in the record of the turn, saved in the same step.
func ExampleNewSlot() {
	said := turn.NewSlot[int]("said")
	counting := turn.Feature{
		Name: "said",
		Begin: func(_ context.Context, t *turn.Turn) error {
			*said.Of(t) = len(strings.Fields(t.Text))
			return nil
		},
		Ended: func(_ context.Context, t *turn.Turn, e turn.Ended) {
			if e.Over() {
				fmt.Println(*said.Of(t), "words")
			}
		},
	}
	fmt.Println(counting.Name, "is for bot.Config.Features")
	// Output: said is for bot.Config.Features
}
