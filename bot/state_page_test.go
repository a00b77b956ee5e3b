package bot_test

import (
	"context"
	"testing"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/state"
)

// What docs/state.md shows; internal/docs checks that it is the same.

type stock struct {
	Left map[string]int `json:"left"`
}

type item struct {
	Name string `json:"name"`
}

func takeItem(ctx context.Context, turn *actions.Turn, in item) (actions.Result, error) {
	bot, err := turn.Bot(ctx)
	if err != nil {
		return actions.Done, err
	}
	left := state.Of[stock](bot).Left // everybody's
	if left[in.Name] == 0 {
		return actions.Unchanged("There is no %s left.", in.Name), nil
	}
	left[in.Name]--
	*state.At[state.Counter](turn.User, "taken")++ // this person's
	return actions.Text("%d left", left[in.Name]), nil
}

func TestWhatThePageShowsOfState(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		actions.Add(b.actions, "takeItem", "Takes an item out of the warehouse", takeItem, actions.StateOnly)
		b.change(state.BotKey(), func(s *state.Scope) { state.Of[stock](s).Left = map[string]int{"tea": 2} })
		taking := plan(`{"type":"DO","action":"takeItem","entities":{"name":"tea"},"saveAs":"LEFT"}`, say("Taken, $LEFT."))
		b.model.Says(taking, taking, plan(do("takeItem", `{"name":"tea"}`), say("Taken.")), plan(say("There is no tea left.")))
		for _, want := range []string{"Taken, 1 left.", "Taken, 0 left.", "There is no tea left."} {
			b.say("take a tea")
			b.expect(want)
		}
		if n := *state.At[state.Counter](b.scopes(miasKey)[0], "taken"); n != 2 {
			t.Errorf("taken %d", n)
		}
	})
}
