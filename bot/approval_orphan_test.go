package bot_test

import (
	"testing"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/bottest"
)

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
