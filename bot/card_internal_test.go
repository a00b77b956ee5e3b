package bot // the cards are made here without a conversation around them

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
	b := &Bot{cfg: Config{Actions: registry, Name: "Planbot", Examples: []string{"What is on my lists?", "a < b"}}}
	a := &activity.Activity{Type: activity.Message, ID: "1", ChannelID: activity.Teams}
	turn, at := b.newTurn(a), time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	p := &pending{
		ID: "ask1", Hash: "h", Action: "closeTicket", Entities: []byte(`{"id":12345678901234567,"note":"*bold* <b>\u202e","more":[1]}`), Reason: "It is final.",
		Asker: person{"29:mia", "Mia", "aad"}, Approvers: []string{"29:boss"}, Expires: at,
	}
	compareCard(t, "approval", turn.question(p).Attachments[0])
	p.Approvers = nil
	p.decide(decided{Approved: true, By: "Mia", At: at})
	compareCard(t, "decided", turn.decidedCard(p).Attachment())
	compareCard(t, "help", b.helpCard(b.helpText()).Attachment())
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
