package bot_test

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bot/audit"
	"github.com/planbot-go/planbot/bot/turn"
	"github.com/planbot-go/planbot/bottest"
)

// TestChangedBeforeApproval: an approver makes it smaller. Who asked reads that and has to agree; then exactly that runs,
// and not what the plan says about the other call.
func TestChangedBeforeApproval(t *testing.T) {
	t.Parallel()
	config, ordered := laptops(actions.Approval{Approvers: []string{"aad-Ben"}, Change: []string{"count"}})
	bottest.Test(t, config, func(t *testing.T, kit *bottest.Kit) {
		mia, ben := kit.Personal("Mia"), kit.Personal("Ben")
		orderFor(t, kit, mia, "Ben", plan(say("One is on its way.")))
		card := ben.ExpectCard("You can change this before you approve it:")
		got := card.Press("Approve", "change:count", "1")
		if !strings.Contains(string(got.Body), "Ben changed and approved this. Somebody else has to agree.") || *ordered != 0 {
			t.Errorf("Ben reads %s, %d ordered", got.Body, *ordered)
		}
		expectShown(t, card.Press("Approve"), "This card is for a different call.")
		mia.ExpectMatch("^Ben changed this: `Count: 2 → 1`. If you agree, say \\*\\*/approve [a-z0-9]+-1\\*\\*.$")
		expectShown(t, mia.Press("Approve"), "Approved by Ben, Mia")
		mia.Expect("One is on its way.")
		expectDone(t, kit, ordered, 1)
		if last := fmt.Sprint(kit.Model.LastCall()); !strings.Contains(last, "a person changed it: Count: 2 → 1") {
			t.Errorf("the model reads %s", last)
		}
	})
}

func TestAChangeEndsApprovals(t *testing.T) {
	t.Parallel()
	config, ordered := laptops(actions.Approval{Approvers: []string{"aad-Ben", "aad-Carla"}, Quorum: 2, Change: []string{"count"}})
	entriesOf := auditOf(&config)
	bottest.Test(t, config, func(t *testing.T, kit *bottest.Kit) {
		mia, ben, carla := kit.Personal("Mia"), kit.Personal("Ben"), kit.Personal("Carla")
		orderFor(t, kit, mia, "Ben, Carla", plan(say("Three are on their way.")))
		ben.ExpectCard("It needs 2 approvals.").Press("Approve")
		mia.Expect("Ben approved this. It needs 2 approvals.")
		carla.ExpectCard("It needs 2 approvals.").Press("Approve", "change:count", "3")
		mia.Expect("Carla changed this: `Count: 2 → 3`.")
		ben.Expect("What you are asked to approve was changed. Please look at it again.")
		if *ordered != 0 {
			t.Fatal("the approval of another call was enough")
		}
		if got := ben.Press("Approve"); !strings.Contains(string(got.Body), "Approved by Carla, Ben") || !strings.Contains(string(got.Body), "Carla changed this: Count: 2 → 3.") {
			t.Errorf("Ben reads %s", got.Body)
		}
		mia.Expect("Three are on their way.")
		expectDone(t, kit, ordered, 3)
		entries := entriesOf(t, func(e audit.Entry) string { return e.Outcome + " " + e.Entities[:6] })
		two, three := turn.Hash(jsontext.Value(`{"count":2}`))[:6], turn.Hash(jsontext.Value(`{"count":3}`))[:6]
		want := []string{"asked " + two, "sent " + two, "agreed " + two, "changed " + three, "agreed " + three, "approved " + three, "ok " + three}
		if diff := cmp.Diff(want, entries); diff != "" {
			t.Error(diff)
		}
	})
}

// TestAChangeAsksMore: the policy is asked about the changed call, so a larger one needs another approver, who is asked.
func TestAChangeAsksMore(t *testing.T) {
	t.Parallel()
	config, ordered := laptops(actions.Approval{})
	config.Change = func(c *bot.Config) {
		c.Policy = func(_ context.Context, _ *actions.Turn, call actions.Call) (actions.Approval, error) {
			p := actions.Approval{Required: true, Approvers: []string{"aad-Ben"}, Change: []string{"count"}}
			switch count := fmt.Sprint(call.Entities["count"]); {
			case count == "13":
				p = actions.Approval{Denied: "nobody orders 13"}
			case len(count) > 1:
				p.Approvers, p.Quorum = []string{"aad-Ben", "19:board@unq.gbl.spaces"}, 2
			}
			return p, nil
		}
	}
	const no = "It can't be changed like this. Nothing was done."
	bottest.Test(t, config, func(t *testing.T, kit *bottest.Kit) {
		board, team, mia, ben := greeted(kit, "board", "Carla"), kit.Group("team", "Mia", "Ben"), kit.Personal("Mia"), kit.Personal("Ben")
		kit.Model.Says(orderTwo, plan(say("Ten are on their way.")), orderTwo)
		team.Mention("order two laptops")
		card := team.ExpectCard("Who can decide: Ben.").As("Ben")
		expectShown(t, card.Press("Approve", "change:count", "13"), no)
		card.Press("Approve", "change:count", "10")
		team.Expect("Ben changed this: `Count: 2 → 10`.")
		board.ExpectCard("Ben changed this: Count: 2 → 10.").Press("Approve")
		team.Expect("Ten are on their way.")
		expectDone(t, kit, ordered, 10)
		mia.Say("order two laptops") // in private she agrees that Ben reads it, and nobody else
		agree(t, mia, "Ben")
		expectShown(t, ben.ExpectCard("Approve").Press("Approve", "change:count", "10"), no)
		board.ExpectNothing()
	})
}

// TestWrongChanges: nothing happens, and the approver reads why.
func TestWrongChanges(t *testing.T) {
	t.Parallel()
	config, ordered := laptops(actions.Approval{Approvers: []string{"aad-Ben"}, Change: []string{"count"}})
	bottest.Test(t, config, func(t *testing.T, kit *bottest.Kit) {
		mia, ben := kit.Personal("Mia"), kit.Personal("Ben")
		orderFor(t, kit, mia, "Ben", plan(say("Four are on their way.")))
		card := ben.ExpectCard("Approve")
		for value, want := range map[string]string{
			"two": "Count has to be a number.", "1.5": "Count has to be a whole number.", "1e400": "Count has to be a number.",
			"99999999999999999999": "It can't be changed like this.", "": "Please fill in Count.",
		} {
			expectShown(t, card.Press("Approve", "change:count", value), want)
		}
		id := regexp.MustCompile(`"approval":"([^"]+)"`).FindStringSubmatch(card.Card())[1]
		ben.Say("/approve " + id + " color=red")
		ben.Expect("`color` can't be changed.")
		ben.Say("/approve " + id + " count=")
		ben.Expect("Please fill in Count.")
		mia.Say("/approve " + id + " count=1")
		mia.Expect("You can't decide this. Nothing was done.")
		if *ordered != 0 || len(liveCards(kit)) != 2 {
			t.Fatalf("%d ordered, cards %v", *ordered, liveCards(kit))
		}
		ben.Say("/approve " + id + " count=4")
		mia.ExpectMatch("^Ben changed this: `Count: 2 → 4`. If you agree")
		mia.Say("/approve " + id)
		mia.Expect("Four are on their way.")
		expectDone(t, kit, ordered, 4)
	})
}

// TestWhatCannotBeChanged is a fault of the policy: nobody is asked.
func TestWhatCannotBeChanged(t *testing.T) {
	t.Parallel()
	config, ordered := laptops(actions.Approval{Change: []string{"color"}})
	bottest.Test(t, config, func(t *testing.T, kit *bottest.Kit) {
		mia := kit.Personal("Mia")
		kit.Model.Says(orderTwo, plan(say("I asked nobody.")))
		mia.Say("order two laptops")
		mia.Expect("I asked nobody.")
		expectOrdered(t, ordered, 0)
	})
}

// TestApprovedUntouched: what stands in the inputs, as clients send it, is no change.
func TestApprovedUntouched(t *testing.T) {
	t.Parallel()
	type pay struct {
		Amount  float64 `json:"amount"`
		Purpose string  `json:"purpose,omitempty"`
	}
	long := strings.Repeat("lorem ipsum ", 500)
	for name, c := range map[string]struct {
		entities string
		inputs   []any
		shows    string
		changed  bool
	}{
		"a long text":            {`{"amount":4,"purpose":"` + long + `"}`, []any{"change:purpose", long}, `"maxLength":6000`, false},
		"lines":                  {`{"amount":4,"purpose":"a\nb"}`, []any{"change:purpose", "a\r\nb"}, `"isMultiline":true`, false},
		"lines in one":           {`{"amount":4,"purpose":"a\nb"}`, []any{"change:purpose", "a b"}, "", false},
		"other line breaks":      {`{"amount":4,"purpose":"a\r\nb"}`, []any{"change:purpose", "a\nb"}, "", false},
		"spaces around":          {`{"amount":4,"purpose":"  a "}`, []any{"change:purpose", "a"}, `"isMultiline":false`, false},
		"only a space":           {`{"amount":4,"purpose":" "}`, []any{"change:purpose", " "}, "", false},
		"only a space, trimmed":  {`{"amount":4,"purpose":" "}`, []any{"change:purpose", ""}, "", false},
		"a number":               {`{"amount":4.2e2}`, []any{"change:amount", 420}, "", false},
		"a number as a text":     {`{"amount":"420.0"}`, []any{"change:amount", "420"}, "", false},
		"a text is made null":    {`{"amount":4,"purpose":"a"}`, []any{"change:purpose", "null"}, "", true},
		"another number":         {`{"amount":420}`, []any{"change:amount", "420.01"}, "", true},
		"a space inside is more": {`{"amount":4,"purpose":"ab"}`, []any{"change:purpose", "a b"}, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config, _ := laptops(actions.Approval{Approvers: []string{"aad-Ben"}, Change: []string{"amount", "purpose"}})
			config.Actions = actions.New()
			actions.Add(config.Actions, "pay", "Pays", func(context.Context, *actions.Turn, pay) (actions.Result, error) { return actions.Done, nil })
			bottest.Test(t, config, func(t *testing.T, kit *bottest.Kit) {
				mia, ben := kit.Personal("Mia"), kit.Personal("Ben")
				kit.Model.Says(plan(do("pay", c.entities), say("Paid.")))
				mia.Say("pay")
				agree(t, mia, "Ben")
				want := "Approved by Ben"
				if c.changed {
					want = "Ben changed and approved this."
				}
				expectShown(t, ben.ExpectCard("Approve", c.shows).Press("Approve", c.inputs...), want)
				if c.changed {
					mia.ExpectMatch("^Ben changed this")
					expectShown(t, mia.Press("Take it back"), "Taken back")
				}
				mia.ExpectMatch(".")
			})
		})
	}
}

// TestChangedUnderKills: whenever the replica dies that tells of the change, all read it, and the changed call runs once.
func TestChangedUnderKills(t *testing.T) {
	t.Parallel()
	for at := range 10 {
		t.Run(fmt.Sprint("at request ", at), func(t *testing.T) {
			t.Parallel()
			config, ordered := laptops(actions.Approval{Approvers: []string{"aad-Ben", "aad-Carla"}, Quorum: 2, Change: []string{"count"}})
			config.Replicas = 2
			bottest.Test(t, config, func(t *testing.T, kit *bottest.Kit) {
				mia, ben, carla := kit.Personal("Mia"), kit.Personal("Ben").On(2), kit.Personal("Carla").On(2)
				kit.Model.Decides(func(call bottest.ModelCall) (bottest.Answer, bool) {
					if strings.Contains(fmt.Sprint(call), "a person changed it") {
						return bottest.Answer{Text: plan(say("One is on its way."))}, true // again, if it was not saved
					}
					return bottest.Answer{Text: orderTwo}, true
				})
				mia.Say("order two laptops")
				agree(t, mia, "Ben, Carla")
				ben.ExpectCard("Approve")
				card := carla.ExpectCard("Approve")
				var requests atomic.Int32
				kit.Connector.Decides(func(bottest.Sent) bottest.Answer {
					if requests.Add(1) == int32(at) {
						kit.Kill(1)
					}
					return bottest.Answer{}
				})
				card.Press("Approve", "change:count", "1")
				kit.Settle()
				ben.Press("Approve")
				kit.Settle()
				expectDone(t, kit, ordered, 1)
				var texts []string // the last one before a death may come twice
				for _, m := range mia.Messages() {
					texts = append(texts, m.Activity.Text)
				}
				if got := strings.Join(texts, "\n"); !strings.Contains(got, "Carla changed this: `Count: 2 → 1`.\n") || !strings.HasSuffix(got, "\nOne is on its way.") {
					t.Errorf("Mia reads %s", got)
				}
			})
		})
	}
}
