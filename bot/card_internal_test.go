package bot // the card is made here without a conversation around it

import (
	"context"
	"encoding/json"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/actions"
)

// TestHelpCardOnTheWire compares the card of the help with how it always was.
func TestHelpCardOnTheWire(t *testing.T) {
	t.Parallel()
	registry := actions.New()
	actions.Add(registry, "closeTicket", "Closes a <ticket>", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) { return actions.Done, nil })
	b := &builtins{own: &routes{}, cfg: &Config{Actions: registry, Name: "Planbot", Examples: []string{"What is on my lists?", "a < b"}}}
	turn := &Turn{Turn: &actions.Turn{}}
	golden, err := os.ReadFile("testdata/cards/help.json")
	if err != nil {
		t.Fatal(err)
	}
	var want, got any
	if err := json.Unmarshal(golden, &want); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b.helpCard(turn, b.helpText(turn)).Attachment().Content, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
