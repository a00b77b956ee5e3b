package bot_test

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bot/audit"
	"github.com/planbot-go/planbot/bot/turn"
	"github.com/planbot-go/planbot/bottest"
	"github.com/planbot-go/planbot/connector"
)

// delegate has somebody delegate for five days. The delegate reads it.
func delegate(t *testing.T, kit *bottest.Kit, chat *bottest.Chat, to string) {
	t.Helper()
	chat.Say("/delegate to aad-" + to + " for 5 days")
	chat.ExpectMatch("^" + to + " may decide your approvals in your place until 2000-01-0[67] 23:59 UTC, where the rules of an approval allow that. " +
		`To end it, say \*\*/delegate off\*\*\.$`)
	expectBegun(kit, to)
}

// expectBegun expects that a delegate reads what begins.
func expectBegun(kit *bottest.Kit, to string) {
	kit.Personal(to).ExpectMatch(`^\w+ lets you decide approvals in their place until [-0-9]+ 23:59 \w+\. I'll ask you when there is one, and the rules of an approval allow it\.$`)
}

// mentions says something in a group with a mention of these people.
func mentions(chat *bottest.Chat, text string, people ...string) {
	at := "<at>Planbot</at>"
	entities := []any{chat.MentionOf(at)}
	for _, person := range people {
		entities = append(entities, map[string]any{
			"type": "mention", "text": "<at>" + person + "</at>", "mentioned": map[string]any{"id": "29:" + strings.ToLower(person), "name": person},
		})
	}
	chat.Deliver(map[string]any{"type": "message", "text": at + " " + text, "entities": entities}).Taken()
}

// TestDelegate: the delegate is asked besides the approver, who asked reads that, and the audit has whose place it was.
func TestDelegate(t *testing.T) {
	t.Parallel()
	config, ordered := laptops(actions.Approval{Approvers: []string{"aad-Ben"}, Delegation: true})
	entriesOf := auditOf(&config)
	bottest.Test(t, config, func(t *testing.T, kit *bottest.Kit) {
		mia, ben, carla := kit.Personal("Mia"), kit.Personal("Ben"), kit.Personal("Carla")
		delegate(t, kit, ben, "Carla")
		kit.Model.Says(orderTwo)
		mia.Say("order two laptops")
		card := mia.ExpectCard("May I ask Ben, Carla (for Ben until 2000-01-06 23:59 UTC) to approve this?")
		card.Press("Send")
		ben.ExpectCard("Asked by Mia.")
		ben.Say("/approvals")
		id := regexp.MustCompile(`"approval":"([^"]+)"`).FindStringSubmatch(ben.ExpectCard("Asked by Mia.").Card())[1]
		ben.Expect("To let somebody else decide for a while, say **/delegate**.")
		asked := carla.ExpectCard("Carla decides this for Ben until 2000-01-06 23:59 UTC.", "Asked by Mia.")
		expectShown(t, asked.Press("Approve"), "Approved by Carla (for Ben)")
		mia.Expect("They are on their way.")
		expectDone(t, kit, ordered, 2)
		ben.Say("/approve " + id)
		ben.ExpectMatch(`^This was already decided: Approved by Carla \(for Ben\), `)
		ben.Say("/mydata")
		ben.ExpectMatch(`(?s)"who decides your approvals": \{.*"Carla"`)
		ben.Say("help")
		ben.ExpectCard("**/delegate**: lets somebody else decide your approvals for a while")
		mia.Say("help")
		if strings.Contains(mia.Next().JSON, "/delegate") {
			t.Error("who is no approver is told of /delegate")
		}
		ben.Say("/delegate off")
		ben.ExpectMatch("^Nobody decides your approvals in your place.")
		ben.Say("/delegate")
		ben.ExpectMatch("^Nobody decides your approvals in your place.")
		delegate(t, kit, ben, "Carla")
		delegate(t, kit, ben, "Dora")
		ben.Say("/forget yes")
		ben.Expect("I've deleted everything I kept about you, except the audit of approvals and actions.")
		entries := entriesOf(t, func(e audit.Entry) string {
			if e.What != "delegation" {
				return ""
			}
			return strings.TrimSpace(fmt.Sprint(e.User, " ", e.Outcome, " ", e.ID, " ", e.Action))
		})
		want := []string{
			"aad-Ben begun aad-Carla", "aad-Carla decided aad-Ben order", "aad-Ben ended aad-Carla",
			"aad-Ben begun aad-Carla", "aad-Ben ended aad-Carla", "aad-Ben begun aad-Dora", "aad-Ben ended aad-Dora",
		}
		if diff := cmp.Diff(want, entries); diff != "" {
			t.Error(diff)
		}
	})
}

// TestDelegationEnds: what ended does not count, whatever card is left; nor what the policy does not allow any more.
func TestDelegationEnds(t *testing.T) {
	t.Parallel()
	const no = "You can't decide this. Nothing was done."
	var allowed atomic.Bool
	config, ordered := laptops(actions.Approval{})
	config.Change = func(c *bot.Config) {
		c.Policy = func(context.Context, *actions.Turn, actions.Call) (actions.Approval, error) {
			return actions.Approval{Required: true, Approvers: []string{"29:ben"}, Delegation: allowed.Load(), Within: 700 * time.Hour}, nil
		}
	}
	bottest.Test(t, config, func(t *testing.T, kit *bottest.Kit) {
		team, ben := kit.Group("team", "Mia", "Ben", "Carla"), kit.Personal("Ben")
		delegate(t, kit, ben, "Carla")
		kit.Model.Says(orderTwo)
		team.Mention("order two laptops")
		card := team.ExpectCard("Who can decide: ben.").As("Carla")
		expectShown(t, card.Press("Approve"), no)
		allowed.Store(true)
		ben.Say("/delegate off")
		ben.ExpectMatch("^Nobody decides")
		expectShown(t, card.Press("Approve"), no)
		delegate(t, kit, ben, "Carla")
		ben.Say("/forget yes")
		ben.Next()
		expectShown(t, card.Press("Approve"), no)
		delegate(t, kit, ben, "Carla")
		time.Sleep(6 * 24 * time.Hour)
		expectShown(t, card.Press("Approve"), no)
		ben.Say("/delegate")
		ben.ExpectMatch("^Nobody decides")
		expectOrdered(t, ordered, 0)
		mentions(team.As("Ben"), "/delegate to <at>Carla</at> until tuesday", "Carla")
		team.ExpectMatch("^carla may decide your approvals in your place until 2000-01-11 23:59 UTC")
		expectBegun(kit, "carla")
		expectShown(t, card.Press("Approve"), "Approved by Carla (for Ben)")
		team.Expect("They are on their way.")
		expectOrdered(t, ordered, 2)
	})
}

// TestDelegatesDecideOnce: an approver and their delegate are one of the quorum, whoever clicks first, also if both click
// at once; a cycle gives nobody more than that, and a chain gives nobody anything.
func TestDelegatesDecideOnce(t *testing.T) {
	t.Parallel()
	config, ordered := laptops(actions.Approval{Approvers: []string{"aad-Ben", "aad-Dora"}, Quorum: 2, Delegation: true})
	bottest.Test(t, config, func(t *testing.T, kit *bottest.Kit) {
		team := kit.Group("team", "Mia", "Ben", "Carla", "Dora", "Emil")
		delegate(t, kit, kit.Personal("Ben"), "Carla")
		delegate(t, kit, kit.Personal("Carla"), "Emil")
		ask := func() bottest.Sent {
			kit.Model.Says(orderTwo)
			team.Mention("order two laptops")
			return team.ExpectCard("Who can decide: Ben, Dora, Carla (for Ben until 2000-01-06 23:59 UTC).", "It needs 2 approvals.")
		}
		card := ask()
		expectShown(t, card.As("Emil").Press("Approve"), "You can't decide this.")
		expectShown(t, card.As("Carla").Press("Approve"), "Carla (for Ben) approved this. It needs 2 approvals.")
		team.Expect("Carla (for Ben) approved this. It needs 2 approvals.")
		expectShown(t, card.As("Ben").Press("Approve"), "Carla (for Ben) has already approved this.")
		expectShown(t, card.As("Carla").Press("Approve"), "You've already approved this.")
		expectOrdered(t, ordered, 0)
		expectShown(t, card.As("Dora").Press("Approve"), "Approved by Carla (for Ben), Dora")
		team.Expect("They are on their way.")
		expectDone(t, kit, ordered, 2)

		card = ask()
		kit.Together(
			func() { card.As("Ben").Press("Approve") },
			func() { card.As("Carla").Press("Approve") },
		)
		team.ExpectMatch(`^(Ben|Carla \(for Ben\)) approved this\. It needs 2 approvals\.$`)
		team.ExpectNothing()
		delegate(t, kit, kit.Personal("Carla"), "Ben") // a cycle
		expectShown(t, card.As("Carla").Press("Approve"), "already approved this")
		expectShown(t, card.As("Ben").Press("Approve"), "already approved this")
		expectOrdered(t, ordered, 2)
		card.As("Dora").Press("Approve")
		team.Expect("They are on their way.")
		expectDone(t, kit, ordered, 4)
	})
}

// TestDelegateAndApproverAtOnce: one of two clicks at the same time decides, in chats of their own. Both are reminded
// before, and the one whose delegation has ended is not.
func TestDelegateAndApproverAtOnce(t *testing.T) {
	t.Parallel()
	config, ordered := laptops(actions.Approval{Approvers: []string{"aad-Ben"}, Delegation: true, Within: 100 * time.Hour})
	policy := config.Change
	config.Change = func(c *bot.Config) {
		c.ApprovalReminder = "09:00"
		policy(c)
	}
	bottest.Test(t, config, func(t *testing.T, kit *bottest.Kit) {
		const waits = "Approvals are waiting for you. Say **/approvals** to see them."
		mia, ben, carla := kit.Personal("Mia"), kit.Personal("Ben"), kit.Personal("Carla")
		ben.Say("/delegate to aad-Carla until 2000-01-01")
		ben.ExpectMatch("^Carla may decide")
		expectBegun(kit, "Carla")
		kit.Model.Says(orderTwo)
		mia.Say("order two laptops")
		mia.ExpectCard("May I ask Ben, Carla (for Ben until 2000-01-01 23:59 UTC)").Press("Send")
		id := regexp.MustCompile(`"approval":"([^"]+)"`).FindStringSubmatch(ben.ExpectCard("Order").Card())[1]
		carla.ExpectCard("Order")
		time.Sleep(10 * time.Hour)
		ben.Expect(waits)
		carla.Expect(waits)
		time.Sleep(24 * time.Hour)
		ben.Expect(waits)
		carla.ExpectNothing()
		ben.Say("/delegate to aad-Carla for 1 day")
		ben.ExpectMatch("^Carla may decide")
		expectBegun(kit, "Carla")
		kit.Together(func() { ben.Say("/approve " + id) }, func() { carla.Say("/approve " + id) })
		mia.Expect("They are on their way.")
		kit.Settle()
		late := 0
		for _, m := range slices.Concat(ben.Messages(), carla.Messages()) {
			if strings.HasPrefix(m.Activity.Text, "This was already decided: Approved by ") {
				late++
			}
		}
		if late != 1 {
			t.Errorf("%d of the two came too late", late)
		}
		expectDone(t, kit, ordered, 2)
	})
}

// TestNoDelegateOfTheirOwn: who asked decides for nobody, and whoever an approver has change a call is not the second one
// who agrees to it.
func TestNoDelegateOfTheirOwn(t *testing.T) {
	t.Parallel()
	config, ordered := laptops(actions.Approval{Approvers: []string{"aad-Ben"}, Delegation: true, Self: true, Change: []string{"count"}})
	bottest.Test(t, config, func(t *testing.T, kit *bottest.Kit) {
		team, ben := kit.Group("team", "Mia", "Ben", "Carla"), kit.Personal("Ben")
		delegate(t, kit, ben, "Mia")
		kit.Model.Says(orderTwo)
		team.Mention("order two laptops")
		card := team.ExpectCard("Who can decide: Ben.")
		expectShown(t, card.Press("Approve"), "You can't decide this.")
		delegate(t, kit, ben, "Carla")
		expectShown(t, card.As("Carla").Press("Approve", "change:count", "1"), "Carla changed and approved this. Somebody else has to agree.")
		team.ExpectMatch("^Carla changed this: `Count: 2 → 1`.")
		expectShown(t, card.As("Ben").Press("Approve"), "This card is for a different call.")
		expectShown(t, team.As("Ben").Approve(), "Carla (for Ben) has already approved this.")
		expectOrdered(t, ordered, 0)
		kit.Model.Says(plan(say("One is on its way.")))
		team.Approve()
		team.Expect("One is on its way.")
		expectDone(t, kit, ordered, 1)
	})
}

// TestDelegateInsteadOfTheApprover: an approver who cannot be reached is one of the quorum by their delegate.
func TestDelegateInsteadOfTheApprover(t *testing.T) {
	t.Parallel()
	config, ordered := laptops(actions.Approval{Approvers: []string{"aad-Ben"}, Delegation: true})
	bottest.Test(t, config, func(t *testing.T, kit *bottest.Kit) {
		team := kit.Group("team", "Ben", "Carla")
		mentions(team, "/delegate to <at>Carla</at> until 2000-01-31", "Carla")
		team.ExpectMatch("^carla may decide your approvals in your place until 2000-01-31 23:59 UTC")
		expectBegun(kit, "carla")
		kit.Connector.Decides(func(s bottest.Sent) bottest.Answer {
			if s.To == "" && strings.Contains(s.JSON, "Ben") {
				return bottest.Answer{Status: 403, Code: "ForbiddenOperationException"}
			}
			return bottest.Answer{}
		})
		mia := kit.Personal("Mia")
		kit.Model.Says(orderTwo)
		mia.Say("order two laptops")
		mia.ExpectCard("May I ask carla (for Ben until 2000-01-31 23:59 UTC) to approve this?").Press("Send")
		carla := kit.Personal("carla")
		carla.ExpectCard("carla decides this for Ben")
		carla.Say("/approvals")
		carla.ExpectCard("carla decides this for Ben").Press("Approve")
		mia.Expect("They are on their way.")
		expectDone(t, kit, ordered, 2)
	})
}

// leaver is a channel of which somebody is no member any more.
type leaver struct {
	turn.Channel
	gone *atomic.Bool
}

func (l leaver) Member(ctx context.Context, ref activity.Reference, id string) (activity.Account, error) {
	if l.gone.Load() && strings.Contains(id, "Ben") {
		return activity.Account{}, &connector.Error{Status: http.StatusNotFound, Code: connector.NoMember}
	}
	return l.Channel.Member(ctx, ref, id)
}

// TestDelegationOfADeletedPerson does not count.
func TestDelegationOfADeletedPerson(t *testing.T) {
	t.Parallel()
	config, ordered := laptops(actions.Approval{Approvers: []string{"aad-Ben", "aad-Dora"}, Delegation: true})
	gone, policy := new(atomic.Bool), config.Change
	config.Change = func(c *bot.Config) {
		c.Channel = leaver{c.Channel, gone}
		policy(c)
	}
	bottest.Test(t, config, func(t *testing.T, kit *bottest.Kit) {
		team := kit.Group("team", "Mia", "Carla", "Dora")
		delegate(t, kit, kit.Personal("Ben"), "Carla")
		kit.Model.Says(orderTwo)
		team.Mention("order two laptops")
		card := team.ExpectCard("Carla (for Ben until")
		gone.Store(true)
		expectShown(t, card.As("Carla").Press("Approve"), "You can't decide this.")
		card.As("Dora").Press("Approve")
		team.Expect("They are on their way.")
		expectOrdered(t, ordered, 2)
	})
}

// TestWrongDelegations change nothing. One of a person who approves nothing has no effect.
func TestWrongDelegations(t *testing.T) {
	t.Parallel()
	config, _ := laptops(actions.Approval{Approvers: []string{"aad-Ben"}, Delegation: true})
	bottest.Test(t, config, func(t *testing.T, kit *bottest.Kit) {
		kit.Connector.Decides(func(s bottest.Sent) bottest.Answer {
			if s.To == "" && strings.Contains(s.JSON, "Nora") {
				return bottest.Answer{Status: 400, Code: "BadArgument"}
			}
			return bottest.Answer{}
		})
		ben := kit.Personal("Ben")
		for words, want := range map[string]string{
			"to aad-Carla":                              "^I changed nothing. Mention one person",
			"to aad-Carla until":                        "^I changed nothing. Mention one person",
			"aad-Carla until friday":                    "^I changed nothing. Mention one person",
			"to Carla Example until friday":             "^I changed nothing. Mention one person",
			"to aad-Carla until 1999-12-31":             "^I changed nothing. Mention one person",
			"to aad-Carla until 2000-06-01":             "^I changed nothing. Mention one person",
			"to aad-Carla until 9999999-01-01":          "^I changed nothing. Mention one person",
			"to aad-Carla until I am back":              "^I changed nothing. Mention one person",
			"to aad-Carla for 91 days":                  "^I changed nothing. Mention one person",
			"to aad-Carla for 0 days":                   "^I changed nothing. Mention one person",
			"to aad-Carla for -3 days":                  "^I changed nothing. Mention one person",
			"to aad-Carla for 5 minutes":                "^I changed nothing. Mention one person",
			"to aad-Carla for 99999999999999999999":     "^I changed nothing. Mention one person",
			"to 19:board@thread.v2 until friday":        "^I changed nothing. Mention one person",
			"to " + strings.Repeat("x", 300) + " for 5": "^I changed nothing. Mention one person",
			"off please":                                "^I changed nothing. Mention one person",
			"to aad-Nora until friday":                  "^I can't reach this person, so I changed nothing.$",
			"to AAD-ben until friday":                   "^That is you. I changed nothing.$",
			"to 29:ben for 5":                           "^That is you. I changed nothing.$",
		} {
			ben.Say("/delegate " + words)
			ben.ExpectMatch(want)
		}
		team := kit.Group("team", "Ben", "Carla", "Dora")
		mentions(team, "/delegate to <at>Carla</at> and <at>Dora</at> until friday", "Carla", "Dora")
		team.ExpectMatch("^I changed nothing. Mention one person")
		ben.Say("/delegate")
		ben.ExpectMatch("^Nobody decides your approvals in your place.")
		delegate(t, kit, kit.Personal("Otto"), "Carla")
		carla := kit.Personal("Carla")
		carla.Say("/approvals")
		carla.Expect("No approval waits for you.")
	})
}
