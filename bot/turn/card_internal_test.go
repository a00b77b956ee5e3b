package turn // the cards are made here without a conversation around them

import (
	"context"
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
)

// TestCardsOnTheWire compares the cards of the bot with how they always were, since
// cards of earlier versions are clicked, and clients know these.
func TestCardsOnTheWire(t *testing.T) {
	t.Parallel()
	registry := actions.New()
	type ticket struct {
		ID   int64  `json:"id"`
		Note string `json:"note"`
	}
	actions.Add(registry, "closeTicket", "Closes a <ticket>", func(context.Context, *actions.Turn, ticket) (actions.Result, error) { return actions.Done, nil })
	e := &Engine{cfg: Config{Actions: registry}}
	asked := &activity.Activity{Type: activity.Message, ID: "1", ChannelID: activity.Teams}
	asked.From.ID, asked.From.Name = "29:mia", "Mia"
	turn := e.newTurn(asked)
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	a := &Approval{
		ID: "ask1", Hash: "h", Action: "closeTicket", Entities: []byte(`{"id":12345678901234567,"note":"*bold* <b>\u202e","more":[1]}`), Reason: "It is final.",
		Approvers: []string{"29:boss"}, Expires: at,
	}
	compareCard(t, "approval", (&execution{Turn: turn}).question(a).Attachments[0])
	a.Approvers, a.Decision = nil, &Decision{Approved: true, By: "Mia", At: at}
	card := a.decidedCard(turn, turn.Activity.From)
	compareCard(t, "decided", card.Attachment())
}

func compareCard(t *testing.T, name string, card activity.Attachment) {
	t.Helper()
	golden, err := os.ReadFile("testdata/cards/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	var want, got any
	if err := json.Unmarshal(golden, &want); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(card.Content, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}
