package bot_test

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/bottest"
)

// TestNoCardIsLostInACrash: the process dies at each request with which the bot asks in the conversation, elsewhere,
// later, and again. As many cards have buttons as without a death, and none once it is decided.
func TestNoCardIsLostInACrash(t *testing.T) {
	t.Parallel()
	asks := func(t *testing.T, dies int, taken bool) (requests int) {
		config, ordered := laptops(actions.Approval{
			Approvers: []string{"19:board@unq.gbl.spaces"},
			Escalate:  []actions.Escalation{{After: time.Hour, To: []string{"19:heads@unq.gbl.spaces"}}},
		})
		bottest.Test(t, config, func(t *testing.T, kit *bottest.Kit) {
			team, board, heads := kit.Group("team", "Mia"), kit.Group("board", "Ben"), kit.Group("heads", "Carla")
			kit.Model.Says(plan(say("Hello.")), plan(say("Hello.")))
			for _, chat := range []*bottest.Chat{board, heads} {
				chat.Mention("hello")
				chat.Expect("Hello.")
			}
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
			if live := liveCards(kit); len(live) != 5 {
				t.Errorf("cards with buttons: %v", live)
			}
			board.Approve()
			kit.Settle()
			expectDone(t, kit, ordered, 2)
			for _, chat := range []*bottest.Chat{team, board, heads} {
				chat.Messages()
			}
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

// TestButtonsThatNoUpdateBrings come with a message of their own: the channel updates nothing, or its answer with the id of
// the first one is lost.
func TestButtonsThatNoUpdateBrings(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answers func(s bottest.Sent, before int) bottest.Answer // to what has a card, each of which was answered before so often
		posts   int
	}{
		"it is not found":    {refusing(http.StatusNotFound), 2},
		"it is not allowed":  {refusing(http.StatusMethodNotAllowed), 2},
		"it is unknown":      {refusing(http.StatusNotImplemented), 2},
		"it is forbidden":    {refusing(http.StatusForbidden), 2},
		"the channel breaks": {refusing(http.StatusInternalServerError), 2},
		"no answer comes": {func(s bottest.Sent, before int) bottest.Answer {
			return bottest.Answer{CutOff: s.Method == http.MethodPost && before < 4}
		}, 5},
		"an answer comes late": {func(s bottest.Sent, before int) bottest.Answer {
			return bottest.Answer{CutOff: s.Method == http.MethodPost && before < 2}
		}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config, ordered := laptops(actions.Approval{Approvers: []string{"aad-Ben"}})
			bottest.Test(t, config, func(t *testing.T, kit *bottest.Kit) {
				mia, ben := kit.Personal("Mia"), kit.Personal("Ben")
				posts := 0
				kit.Connector.Decides(func(s bottest.Sent) bottest.Answer {
					if s.To != "a:Ben" || s.Card() == "" {
						return bottest.Answer{}
					}
					answer := c.answers(s, posts)
					if s.Method == http.MethodPost {
						posts++
					}
					return answer
				})
				orderFor(t, kit, mia, "Ben")
				expectShown(t, ben.ExpectCard("Approve").Press("Approve"), "Approved by Ben")
				mia.Expect("They are on their way.")
				kit.Settle()
				expectOrdered(t, ordered, 2)
				if posts != c.posts {
					t.Errorf("%d messages", posts)
				}
			})
		})
	}
}

func refusing(status int) func(bottest.Sent, int) bottest.Answer {
	return func(s bottest.Sent, _ int) bottest.Answer {
		if s.Method == http.MethodPut {
			return bottest.Answer{Status: status}
		}
		return bottest.Answer{}
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
