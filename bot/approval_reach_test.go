package bot_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/bottest"
)

// TestEscalationInPrivate: whoever asked alone could decide, so nobody else reads it before they agree.
func TestEscalationInPrivate(t *testing.T) {
	t.Parallel()
	config, ordered := laptops(actions.Approval{
		Approvers: []string{"aad-Mia"}, Self: true, Quorum: 2, Escalate: []actions.Escalation{{After: time.Hour, To: []string{"aad-Carla"}}},
	})
	bottest.Test(t, config, func(t *testing.T, kit *bottest.Kit) {
		mia, carla := kit.Personal("Mia"), kit.Personal("Carla")
		kit.Model.Says(orderTwo)
		mia.Say("order two laptops")
		mia.ExpectCard("Who can decide: Mia.").Press("Approve")
		mia.Expect("Mia approved this. It needs 2 approvals.")
		time.Sleep(61 * time.Minute)
		mia.ExpectMatch(`^May I ask Carla to approve this\?`)
		carla.ExpectNothing()
		mia.Press("Send")
		carla.ExpectCard("It needs 2 approvals.").Press("Approve")
		mia.Expect("They are on their way.")
		expectDone(t, kit, ordered, 2)
	})
}

// TestWordsAreForTheCallAsItWas: what somebody says about the first change does not approve the second one.
func TestWordsAreForTheCallAsItWas(t *testing.T) {
	t.Parallel()
	config, ordered := laptops(actions.Approval{Approvers: []string{"aad-Ben", "aad-Carla"}, Change: []string{"count"}})
	bottest.Test(t, config, func(t *testing.T, kit *bottest.Kit) {
		mia, ben, carla := kit.Personal("Mia"), kit.Personal("Ben"), kit.Personal("Carla")
		orderFor(t, kit, mia, "Ben, Carla", plan(say("Nine are on their way.")))
		card := ben.ExpectCard("Approve")
		bare := "/approve " + regexp.MustCompile(`"approval":"(\w+)"`).FindStringSubmatch(card.Card())[1]
		card.Press("Approve", "change:count", "1")
		first := mia.ExpectMatch("^Ben changed this: `Count: 2 → 1`. If you agree, say").Activity.Text
		carla.ExpectCard("Approve")
		carla.Expect("What you are asked to approve was changed. Please look at it again.")
		carla.Say(bare + "-1 count=9")
		mia.ExpectMatch("^Carla changed this: `Count: 2 → 9`. If you agree, say")
		for _, words := range []string{bare, regexp.MustCompile(`/approve [\w-]+`).FindString(first)} {
			mia.Say(words)
			mia.Expect("What you are asked to approve was changed. Please look at it again.")
		}
		ben.Expect("What you are asked to approve was changed. Please look at it again.")
		if *ordered != 0 {
			t.Fatal("words about another call were enough")
		}
		mia.Say(bare + "-2")
		mia.Expect("Nine are on their way.")
		expectDone(t, kit, ordered, 9)
	})
}

// TestChangeOnAnOldCard: what the policy no longer lets anybody change does not approve the call as it is.
func TestChangeOnAnOldCard(t *testing.T) {
	t.Parallel()
	approval := actions.Approval{Approvers: []string{"aad-Ben"}, Change: []string{"count"}}
	config, ordered := laptopsBy(&approval)
	bottest.Test(t, config, func(t *testing.T, kit *bottest.Kit) {
		mia, ben := kit.Personal("Mia"), kit.Personal("Ben")
		orderFor(t, kit, mia, "Ben")
		card := ben.ExpectCard("You can change this before you approve it:")
		approval.Change = nil
		expectShown(t, card.Press("Approve", "change:count", "1"), "It can't be changed like this. Nothing was done.")
		expectOrdered(t, ordered, 0)
		card.Press("Approve", "change:count", "2")
		mia.Expect("They are on their way.")
		expectDone(t, kit, ordered, 2)
	})
}

// TestBusyApprover: what waits longest is not forgotten for what was decided since.
func TestBusyApprover(t *testing.T) {
	t.Parallel()
	config, ordered := laptops(actions.Approval{Approvers: []string{"aad-Ben"}})
	bottest.Test(t, config, func(t *testing.T, kit *bottest.Kit) {
		ben, mia := kit.Personal("Ben"), kit.Personal("Mia")
		orderFor(t, kit, mia, "Ben")
		ben.ExpectCard("Asked by Mia.")
		for i := range 101 {
			otto := kit.Personal(fmt.Sprint("Otto", i))
			orderFor(t, kit, otto, "Ben")
			ben.ExpectCard("Asked by Otto").Press("Approve")
			otto.Expect("They are on their way.")
		}
		ben.Say("/approvals")
		ben.ExpectCard("Asked by Mia.").Press("Approve")
		mia.Expect("They are on their way.")
		expectDone(t, kit, ordered, 204)
	})
}

// TestDelegateDecidesForAWhile: not for good.
func TestDelegateDecidesForAWhile(t *testing.T) {
	t.Parallel()
	config, ordered := laptops(actions.Approval{Approvers: []string{"aad-Ben"}, Standing: true, Delegation: true})
	bottest.Test(t, config, func(t *testing.T, kit *bottest.Kit) {
		mia, ben, carla := kit.Personal("Mia"), kit.Personal("Ben"), kit.Personal("Carla")
		delegate(t, kit, ben, "Carla")
		kit.Model.Says(orderTwo, orderTwo)
		for range 2 {
			mia.Say("order two laptops")
			mia.ExpectCard("May I ask Ben, Carla (for Ben until").Press("Send")
			ben.ExpectCard("Always approve exactly this")
			card := carla.ExpectCard("Approve").Card()
			if regexp.MustCompile("approve-always").MatchString(card) {
				t.Errorf("a delegate's card: %s", card)
			}
			carla.Press("Approve")
			mia.Expect("They are on their way.")
		}
		expectDone(t, kit, ordered, 4)
	})
}

// blockedBy refuses what the bot sends to a chat.
func blockedBy(chat string) func(bottest.Sent) bottest.Answer {
	return func(s bottest.Sent) (a bottest.Answer) {
		if s.To == chat {
			a = bottest.Answer{Status: http.StatusForbidden, Code: "MessageWritesBlocked"}
		}
		return a
	}
}

// TestApproverWhoBlockedTheBot: who asked reads that the card did not come.
func TestApproverWhoBlockedTheBot(t *testing.T) {
	t.Parallel()
	config, ordered := laptops(actions.Approval{Approvers: []string{"aad-Ben", "aad-Carla"}})
	bottest.Test(t, config, func(t *testing.T, kit *bottest.Kit) {
		mia, carla := kit.Personal("Mia"), kit.Personal("Carla")
		kit.Connector.Decides(blockedBy("a:Ben"))
		orderFor(t, kit, mia, "Ben, Carla")
		mia.Expect("I can't reach Ben, who may approve this: Order.")
		carla.ExpectCard("Approve").Press("Approve")
		mia.Expect("They are on their way.")
		expectOrdered(t, ordered, 2)
	})
}

// TestOnlyApproverBlockedTheBot: whom the policy asks next is asked at once, not when it would be time for that. Without
// anybody else the plan ends.
func TestOnlyApproverBlockedTheBot(t *testing.T) {
	t.Parallel()
	for _, later := range []string{"aad-Carla", ""} {
		approval := actions.Approval{Approvers: []string{"aad-Ben"}}
		if later != "" {
			approval.Escalate = []actions.Escalation{{After: time.Hour, To: []string{later}}}
		}
		config, ordered := laptops(approval)
		bottest.Test(t, config, func(t *testing.T, kit *bottest.Kit) {
			mia, carla := kit.Personal("Mia"), kit.Personal("Carla")
			kit.Connector.Decides(blockedBy("a:Ben"))
			kit.Model.Says(orderTwo)
			began := time.Now()
			mia.Say("order two laptops")
			mia.ExpectCard("May I ask Ben").Press("Send")
			if later == "" {
				mia.Expect("I can't reach enough people who may approve this, so I didn't do it.")
				expectOrdered(t, ordered, 0)
				return
			}
			mia.Expect("I can't reach Ben, who may approve this: Order. Nobody has decided yet, so I've also asked Carla.")
			carla.ExpectCard("Approve").Press("Approve")
			mia.Expect("They are on their way.")
			if took := time.Since(began); took > time.Minute {
				t.Errorf("it took %s", took)
			}
			expectOrdered(t, ordered, 2)
		})
	}
}

// TestAskedInAnotherChat: /approvals in somebody's own chat shows what they asked for in others, to be taken back, and that
// card ends, too.
func TestAskedInAnotherChat(t *testing.T) {
	t.Parallel()
	for _, takenBack := range []bool{true, false} {
		config, ordered := laptops(actions.Approval{Approvers: []string{"19:board@unq.gbl.spaces"}})
		bottest.Test(t, config, func(t *testing.T, kit *bottest.Kit) {
			team, board, mia := kit.Group("team", "Mia"), greeted(kit, "board", "Ben"), kit.Personal("Mia")
			kit.Model.Says(plan(say("Hello.")), orderTwo)
			mia.Say("hello")
			mia.Expect("Hello.")
			team.Mention("order two laptops for the new people")
			team.ExpectCard("Take it back")
			card := board.ExpectCard("Why", "order two laptops for the new people") // the reason
			mia.Say("/approvals")
			own := mia.ExpectCard("Asked in a group chat.", "Take it back")
			if takenBack {
				expectShown(t, own.Press("Take it back"), "Taken back by Mia")
				team.Expect("OK, I won't do this: Order.")
			} else {
				card.Press("Approve")
				team.Expect("They are on their way.")
			}
			kit.Settle()
			expectDone(t, kit, ordered, map[bool]int{false: 2}[takenBack])
			mia.Say("/approvals")
			mia.Expect("No approval waits for you.")
		})
	}
}

// TestInWordsInAnotherChat: what /approvals says in a chat without cards counts there.
func TestInWordsInAnotherChat(t *testing.T) {
	t.Parallel()
	for words, want := range map[string]int{"/approve": 2, "/reject": 0} {
		config, ordered := laptops(actions.Approval{})
		bottest.Test(t, config, func(t *testing.T, kit *bottest.Kit) {
			say := func(chat *bottest.Chat, text string) {
				chat.Deliver(map[string]any{"type": "message", "channelId": "console", "text": text})
				kit.Settle()
			}
			team, mia := kit.Group("team", "Mia"), kit.Personal("Mia")
			kit.Model.Says(`{"type":"plan","commands":[{"type":"SAY","response":"Hello."}]}`, orderTwo)
			say(mia, "hello")
			say(team, "order two laptops")
			say(mia, "/approvals")
			all := mia.Messages()
			id := regexp.MustCompile(`/approve (\w+)`).FindStringSubmatch(all[len(all)-1].Activity.Text)
			if id == nil {
				t.Fatalf("it says %q", all[len(all)-1].Activity.Text)
			}
			say(mia, words+" "+id[1])
			mia.Messages()
			team.Messages()
			expectOrdered(t, ordered, want)
		})
	}
}

// TestWhereItWasAsked is on the cards of other conversations.
func TestWhereItWasAsked(t *testing.T) {
	t.Parallel()
	config, _ := laptops(actions.Approval{Approvers: []string{"19:board@unq.gbl.spaces"}})
	bottest.Test(t, config, func(t *testing.T, kit *bottest.Kit) {
		team, board := kit.Group("team", "Mia"), greeted(kit, "board", "Ben")
		kit.Model.Says(orderTwo)
		team.Mention("order two laptops")
		if card := team.ExpectCard("Asked by Mia.").Card(); strings.Contains(card, "Asked in") {
			t.Errorf("in that conversation: %s", card)
		}
		expectShown(t, board.ExpectCard("Asked by Mia.", "Asked in a group chat.").Press("Approve"), "Asked in a group chat.")
		team.Expect("They are on their way.")
	})
}
