package bot_test

import (
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/bottest"
)

// TestCardsOfACrashEndAtAClick: the process dies at each request with which the bot asks in the conversation, elsewhere,
// later, and again. Once it is decided, only a card whose id died with it has buttons, and a click closes that one.
func TestCardsOfACrashEndAtAClick(t *testing.T) {
	t.Parallel()
	asks := func(t *testing.T, dies int, taken bool) (requests int) {
		config, ordered := laptops(actions.Approval{
			Approvers: []string{"19:board@unq.gbl.spaces"},
			Escalate:  []actions.Escalation{{After: time.Hour, To: []string{"19:heads@unq.gbl.spaces"}}},
		})
		bottest.Test(t, config, func(t *testing.T, kit *bottest.Kit) {
			team, board, heads := kit.Group("team", "Mia"), greeted(kit, "board", "Ben"), greeted(kit, "heads", "Carla")
			kit.Model.Decides(func(bottest.ModelCall) (bottest.Answer, bool) { return bottest.Answer{Text: orderTwo}, true })
			var sent atomic.Int32
			kit.Connector.Decides(func(s bottest.Sent) bottest.Answer {
				if int(sent.Add(1)) != dies {
					return bottest.Answer{}
				}
				time.Sleep(time.Second) // until who wrote has the answer
				kit.Restart()
				if taken {
					return bottest.Answer{}
				}
				return bottest.Answer{Status: http.StatusServiceUnavailable}
			})
			team.Mention("order two laptops")
			kit.Settle()
			board.Mention("/approvals")
			kit.Settle()
			team.Mention("/approvals")
			kit.Settle()
			time.Sleep(2 * time.Hour)
			kit.Settle()
			requests = int(sent.Load())
			board.Approve()
			kit.Settle()
			orphans := liveCards(kit)
			if may := map[bool]int{true: 1}[dies > 0]; len(orphans) > may {
				t.Errorf("cards with buttons: %v", orphans)
			}
			for _, chat := range []*bottest.Chat{team, board, heads} {
				for _, s := range chat.Messages() {
					if slices.Contains(orphans, s.To+" "+s.ID) {
						s.Press(s.Buttons()[0]["title"].(string))
					}
				}
			}
			kit.Settle()
			expectDone(t, kit, ordered, 2)
		})
		return requests
	}
	requests := asks(t, 0, true)
	if requests < 8 {
		t.Fatalf("%d requests", requests)
	}
	for dies := range requests {
		for _, taken := range []bool{true, false} {
			t.Run(fmt.Sprintf("at request %d, taken: %v", dies+1, taken), func(t *testing.T) {
				t.Parallel()
				asks(t, dies+1, taken)
			})
		}
	}
}

// TestCardsWhoseIDsWereLost: a card that was posted twice, because nobody knew that it had been, ends with the other one
// when somebody clicks it, or at that click.
func TestCardsWhoseIDsWereLost(t *testing.T) {
	t.Parallel()
	const late = "This was already decided: Approved by Ben"
	for name, c := range map[string]struct {
		before int // messages that come through before the one that comes twice
		decide func(t *testing.T, mia, ben *bottest.Chat, cards []bottest.Sent)
	}{
		"the first of the approver, and then the second": {1, func(t *testing.T, _, ben *bottest.Chat, _ []bottest.Sent) {
			first, second := ben.ExpectCard("Approve"), ben.ExpectCard("Approve")
			expectShown(t, first.Press("Approve"), "Approved by Ben")
			expectShown(t, second.Press("Approve"), late)
		}},
		"the second of the approver, and then the first": {1, func(t *testing.T, _, ben *bottest.Chat, _ []bottest.Sent) {
			first, second := ben.ExpectCard("Approve"), ben.ExpectCard("Approve")
			expectShown(t, second.Press("Approve"), "Approved by Ben")
			expectShown(t, first.Press("Approve"), late)
		}},
		"that of who asked": {0, func(t *testing.T, _, ben *bottest.Chat, cards []bottest.Sent) {
			expectShown(t, ben.ExpectCard("Approve").Press("Approve"), "Approved by Ben")
			expectShown(t, cards[0].Press("Send"), late)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config, ordered := laptops(actions.Approval{Approvers: []string{"aad-Ben"}})
			bottest.Test(t, config, func(t *testing.T, kit *bottest.Kit) {
				mia, ben := kit.Personal("Mia"), kit.Personal("Ben")
				kit.Model.Says(orderTwo)
				if c.before == 0 {
					kit.Connector.Fails(bottest.Answer{CutOff: true})
				}
				mia.Say("order two laptops")
				cards := []bottest.Sent{mia.ExpectCard("May I ask Ben")}
				if c.before == 0 {
					cards = append(cards, mia.ExpectCard("May I ask Ben"))
				}
				if c.before == 1 {
					kit.Connector.Fails(bottest.Answer{CutOff: true})
				}
				cards[len(cards)-1].Press("Send")
				c.decide(t, mia, ben, cards)
				mia.Expect("They are on their way.")
				kit.Settle()
				expectDone(t, kit, ordered, 2)
			})
		})
	}
}

// TestAnApproverForgets what the bot keeps about them: the cards that they were sent end all the same.
func TestAnApproverForgets(t *testing.T) {
	t.Parallel()
	config, ordered := laptops(actions.Approval{Approvers: []string{"aad-Ben", "aad-Carla"}})
	bottest.Test(t, config, func(t *testing.T, kit *bottest.Kit) {
		mia, ben, carla := kit.Personal("Mia"), kit.Personal("Ben"), kit.Personal("Carla")
		orderFor(t, kit, mia, "Ben, Carla")
		ben.ExpectCard("Approve")
		ben.Say("/forget yes")
		ben.ExpectMatch("I've deleted")
		carla.ExpectCard("Approve").Press("Approve")
		mia.Expect("They are on their way.")
		kit.Settle()
		expectDone(t, kit, ordered, 2)
	})
}

// TestManyLooks at the same approval: the oldest cards end before the bot forgets them.
func TestManyLooks(t *testing.T) {
	t.Parallel()
	config, ordered := laptops(actions.Approval{Approvers: []string{"aad-Ben"}})
	bottest.Test(t, config, func(t *testing.T, kit *bottest.Kit) {
		mia, ben := kit.Personal("Mia"), kit.Personal("Ben")
		orderFor(t, kit, mia, "Ben")
		ben.ExpectCard("Approve")
		for range 12 {
			ben.Say("/approvals")
			ben.ExpectCard("Approve")
			mia.Say("/approvals")
			mia.ExpectCard("Take it back")
		}
		ben.Approve()
		mia.Expect("They are on their way.")
		kit.Settle()
		expectDone(t, kit, ordered, 2)
	})
}
