package bot_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bottest"
)

const waitsForYou = "Approvals are waiting for you. Say **/approvals** to see them."

// reminding is a bot that reminds at nine of what this approval waits for.
func reminding(approval actions.Approval) (bottest.Config, *int) {
	config, ordered := laptops(approval)
	policy := config.Change
	config.Change = func(c *bot.Config) {
		c.ApprovalReminder = "09:00"
		policy(c)
	}
	return config, ordered
}

// TestReminded: once a day in each chat, at the time of day, until it is decided.
func TestReminded(t *testing.T) {
	t.Parallel()
	config, ordered := reminding(actions.Approval{
		Approvers: []string{"aad-Ben"}, Within: 96 * time.Hour, Escalate: []actions.Escalation{{After: 30 * time.Hour, To: []string{"aad-Carla"}}},
	})
	bottest.Test(t, config, func(t *testing.T, kit *bottest.Kit) {
		mia, ben, carla := kit.Personal("Mia"), kit.Personal("Ben"), kit.Personal("Carla")
		kit.Model.Says(orderTwo, orderTwo)
		for range 2 {
			mia.Say("order two laptops")
			card := mia.ExpectCard("May I ask Ben, and later Carla, to approve this?")
			card.Press("Send")
			ben.ExpectCard("Approve")
		}
		time.Sleep(9*time.Hour - time.Minute)
		ben.ExpectNothing()
		time.Sleep(2 * time.Minute)
		ben.Expect(waitsForYou)
		time.Sleep(23 * time.Hour)
		mia.Expect("Nobody has decided yet, so I've also asked Carla.")
		mia.Expect("Nobody has decided yet, so I've also asked Carla.")
		carla.ExpectCard("Approve").Press("Reject")
		mia.Expect("OK, I won't do this: Order.")
		time.Sleep(time.Hour)
		ben.Expect(waitsForYou)
		carla.ExpectCard("Approve")
		carla.Expect(waitsForYou)
		ben.Approve()
		mia.Expect("They are on their way.")
		time.Sleep(48 * time.Hour)
		ben.ExpectNothing()
		carla.ExpectNothing()
		mia.ExpectNothing()
		expectOrdered(t, ordered, 2)
	})
}

// TestRemindedHere: who decides in the conversation is reminded there, also the person who asked.
func TestRemindedHere(t *testing.T) {
	t.Parallel()
	config, ordered := reminding(actions.Approval{Within: 40 * time.Hour})
	bottest.Test(t, config, func(t *testing.T, kit *bottest.Kit) {
		mia := kit.Personal("Mia")
		time.Sleep(8*time.Hour + 30*time.Minute)
		kit.Model.Says(orderTwo)
		mia.Say("order two laptops")
		mia.ExpectCard("Approve")
		time.Sleep(time.Hour)
		mia.ExpectNothing() // it was only just asked
		time.Sleep(24 * time.Hour)
		mia.Expect(waitsForYou)
		mia.Approve()
		mia.Expect("They are on their way.")
		expectOrdered(t, ordered, 2)
	})
}

// TestRemindedOfAChange: of what an approver has changed the person who asked is reminded, who finds it in /approvals, and
// nobody who has approved it.
func TestRemindedOfAChange(t *testing.T) {
	t.Parallel()
	for quorum := range 3 {
		t.Run(fmt.Sprint("quorum ", quorum), func(t *testing.T) {
			t.Parallel()
			config, ordered := reminding(actions.Approval{
				Approvers: []string{"aad-Ben", "aad-Carla"}, Quorum: quorum, Change: []string{"count"}, Within: 40 * time.Hour,
			})
			bottest.Test(t, config, func(t *testing.T, kit *bottest.Kit) {
				mia, ben, carla := kit.Personal("Mia"), kit.Personal("Ben"), kit.Personal("Carla")
				kit.Model.Says(orderTwo, plan(say("One is on its way.")))
				mia.Say("order two laptops")
				agree(t, mia, "Ben, Carla")
				carla.ExpectCard("Approve")
				ben.ExpectCard("Approve").Press("Approve", "change:count", "1")
				mia.ExpectMatch("^Ben changed this: `Count: 2 → 1`.")
				carla.Expect("What you are asked to approve was changed. Please look at it again.")
				time.Sleep(10 * time.Hour)
				carla.Expect(waitsForYou)
				ben.ExpectNothing()
				if quorum > 1 {
					mia.ExpectNothing()
					carla.Approve()
				} else {
					mia.Expect(waitsForYou)
					mia.Say("/approvals")
					mia.ExpectCard("Ben changed this: Count: 2 → 1.").Press("Approve")
				}
				mia.Expect("One is on its way.")
				if *ordered != 1 || len(liveCards(kit)) > 0 {
					t.Errorf("%d ordered, cards %v", *ordered, liveCards(kit))
				}
			})
		})
	}
}

// TestNotRemindedBeforeSend: nobody but Mia knows of what she asked in private.
func TestNotRemindedBeforeSend(t *testing.T) {
	t.Parallel()
	config, _ := reminding(actions.Approval{Approvers: []string{"aad-Ben"}, Within: 40 * time.Hour})
	bottest.Test(t, config, func(t *testing.T, kit *bottest.Kit) {
		mia, ben := kit.Personal("Mia"), kit.Personal("Ben")
		kit.Model.Says(orderTwo)
		mia.Say("order two laptops")
		mia.ExpectCard("Send")
		time.Sleep(20 * time.Hour)
		mia.ExpectNothing()
		ben.ExpectNothing()
	})
}

// TestRemindedUnderKills: whenever the replica dies that reminds, they are reminded that day, and it waits on.
func TestRemindedUnderKills(t *testing.T) {
	t.Parallel()
	for at := range 4 {
		t.Run(fmt.Sprint("at request ", at), func(t *testing.T) {
			t.Parallel()
			config, ordered := reminding(actions.Approval{Approvers: []string{"aad-Ben", "aad-Carla"}, Within: 40 * time.Hour})
			config.Replicas = 2
			bottest.Test(t, config, func(t *testing.T, kit *bottest.Kit) {
				mia, ben, carla := kit.Personal("Mia"), kit.Personal("Ben").On(2), kit.Personal("Carla").On(2)
				orderFor(t, kit, mia, "Ben, Carla")
				var requests atomic.Int32
				kit.Connector.Decides(func(bottest.Sent) bottest.Answer {
					if requests.Add(1) == int32(at) {
						kit.Kill(1)
					}
					return bottest.Answer{}
				})
				time.Sleep(10 * time.Hour)
				kit.Settle()
				for _, chat := range []*bottest.Chat{ben, carla} {
					n := 0
					for _, m := range chat.Messages() {
						n += strings.Count(m.Activity.Text, "Approvals are waiting for you.")
					}
					if n < 1 || n > 2 { // the one before a death may come twice
						t.Errorf("reminded %d times", n)
					}
				}
				ben.Press("Approve")
				mia.On(2).Expect("They are on their way.")
				expectOrdered(t, ordered, 2)
			})
		})
	}
}
