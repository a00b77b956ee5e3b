package bot_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bot/audit"
	"github.com/planbot-go/planbot/bottest"
	"github.com/planbot-go/planbot/state"
)

// laptops is a bot that orders laptops if this approval is given.
func laptops(approval actions.Approval) (bottest.Config, *int) { return laptopsBy(&approval) }

// auditOf has the bot keep an audit. It returns what reads it: a line for each entry, but for empty ones.
func auditOf(config *bottest.Config) (read func(t *testing.T, line func(audit.Entry) string) []string) {
	var store *state.Store
	change := config.Change
	config.Change = func(c *bot.Config) {
		c.AuditKeep, store = 24*time.Hour, c.Store
		change(c)
	}
	return func(t *testing.T, line func(audit.Entry) string) (lines []string) {
		t.Helper()
		err := audit.Read(t.Context(), store, time.Time{}, func(e audit.Entry) error {
			if text := line(e); text != "" {
				lines = append(lines, text)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return lines
	}
}

// laptopsBy is one whose policy a test can change.
func laptopsBy(approval *actions.Approval) (bottest.Config, *int) {
	ordered, shop := new(int), map[string]bool{}
	registry := actions.New()
	actions.Add(registry, "order", "Orders laptops", func(ctx context.Context, _ *actions.Turn, in struct {
		Count int `json:"count"`
	},
	) (actions.Result, error) {
		if key := actions.AttemptOf(ctx).Key; !shop[key] { // the shop knows its orders
			shop[key] = true
			*ordered += in.Count
		}
		return actions.Text("ordered %d", in.Count), nil
	})
	approval.Required = true
	policy := func(context.Context, *actions.Turn, actions.Call) (actions.Approval, error) { return *approval, nil }
	return bottest.Config{Actions: registry, Change: func(c *bot.Config) { c.Policy = policy }}, ordered
}

// agree lets the bot ask those people, which it does not do before.
func agree(t *testing.T, chat *bottest.Chat, people string) {
	t.Helper()
	card := chat.ExpectCard("May I ask "+people, "They read all of this.")
	got := card.Press("Send", "why", "for the new people")
	if body := string(got.Body); !strings.Contains(body, "I've asked "+people+".") || strings.Contains(body, "planbot/approve") {
		t.Errorf("after Send: %s", got.Body)
	}
}

// orderFor has somebody order two laptops and agree that the bot asks those people. The model says then what it is to say.
func orderFor(t *testing.T, kit *bottest.Kit, chat *bottest.Chat, people string, then ...string) {
	t.Helper()
	kit.Model.Says(append([]string{orderTwo}, then...)...)
	chat.Say("order two laptops")
	agree(t, chat, people)
}

func expectOrdered(t *testing.T, ordered *int, want int) {
	t.Helper()
	if *ordered != want {
		t.Errorf("%d ordered, want %d", *ordered, want)
	}
}

// expectDone expects that no card has buttons any more, too.
func expectDone(t *testing.T, kit *bottest.Kit, ordered *int, want int) {
	t.Helper()
	expectOrdered(t, ordered, want)
	if live := liveCards(kit); len(live) > 0 {
		t.Errorf("these cards have buttons: %v", live)
	}
}

// expectShown expects that a click shows that.
func expectShown(t *testing.T, click *bottest.Delivery, want string) {
	t.Helper()
	if got := string(click.Body); !strings.Contains(got, want) {
		t.Errorf("the click shows %s, want %q", got, want)
	}
}

const orderTwo = `{"type":"plan","commands":[{"type":"DO","action":"order","entities":{"count":2}},{"type":"SAY","response":"They are on their way."}]}`

// TestApproverElsewhere: who may approve is asked in their own chat; the person who asked reads whom the bot asked, and
// that it was approved. The card elsewhere ends with the decision.
func TestApproverElsewhere(t *testing.T) {
	t.Parallel()
	config, ordered := laptops(actions.Approval{Approvers: []string{"aad-Ben"}, Reason: "It is above 500."})
	bottest.Test(t, config, func(t *testing.T, kit *bottest.Kit) {
		mia, ben := kit.Personal("Mia"), kit.Personal("Ben")
		kit.Model.Says(orderTwo)
		mia.Say("order two laptops")
		ben.ExpectNothing() // before she agrees
		agree(t, mia, "Ben")
		card := ben.ExpectCard("Asked by Mia.")
		for _, want := range []string{"It is above 500.", "for the new people", "Approve", "Reject"} {
			if !strings.Contains(card.Card(), want) {
				t.Errorf("no %q in Ben's card: %s", want, card.Card())
			}
		}
		if *ordered != 0 {
			t.Fatal("ordered without approval")
		}
		if done := card.Press("Approve"); !strings.Contains(string(done.Body), "Approved by Ben") {
			t.Errorf("Ben reads %s", done.Body)
		}
		mia.Expect("They are on their way.")
		expectOrdered(t, ordered, 2)
		if again := card.Press("Reject"); !strings.Contains(string(again.Body), "already decided: Approved by Ben") {
			t.Errorf("a second click: %s", again.Body)
		}
	})
}

// TestQuorum: one approval is not enough; the same person does not count twice, who asked not at all.
func TestQuorum(t *testing.T) {
	t.Parallel()
	config, ordered := laptops(actions.Approval{Approvers: []string{"aad-Ben", "aad-Carla", "aad-Mia"}, Quorum: 2})
	bottest.Test(t, config, func(t *testing.T, kit *bottest.Kit) {
		mia, ben, carla := kit.Personal("Mia"), kit.Personal("Ben"), kit.Personal("Carla")
		orderFor(t, kit, mia, "Ben, Carla")
		card, other := ben.ExpectCard("It needs 2 approvals."), carla.ExpectCard("It needs 2 approvals.")
		if first := card.Press("Approve"); !strings.Contains(string(first.Body), "Ben approved this. It needs 2 approvals.") {
			t.Errorf("Ben reads %s", first.Body)
		}
		mia.Expect("Ben approved this. It needs 2 approvals.")
		if again := card.Press("Approve"); !strings.Contains(string(again.Body), "You've already approved this.") {
			t.Errorf("Ben again: %s", again.Body)
		}
		if *ordered != 0 {
			t.Fatal("one approval was enough")
		}
		if second := other.Press("Approve"); !strings.Contains(string(second.Body), "Approved by Ben, Carla") {
			t.Errorf("Carla reads %s", second.Body)
		}
		mia.Expect("They are on their way.")
	})
}

// TestQuorumRejected: one rejection is enough, also after an approval.
func TestQuorumRejected(t *testing.T) {
	t.Parallel()
	config, ordered := laptops(actions.Approval{Approvers: []string{"aad-Ben", "aad-Carla"}, Quorum: 2})
	bottest.Test(t, config, func(t *testing.T, kit *bottest.Kit) {
		mia, ben, carla := kit.Personal("Mia"), kit.Personal("Ben"), kit.Personal("Carla")
		orderFor(t, kit, mia, "Ben, Carla")
		first, second := ben.ExpectCard("Approve"), carla.ExpectCard("Approve")
		first.Press("Approve")
		mia.Expect("Ben approved this. It needs 2 approvals.")
		second.Press("Reject")
		mia.Expect("OK, I won't do this: Order.")
		expectOrdered(t, ordered, 0)
	})
}

// TestEscalation: who is asked later may decide then, and so may who was asked first.
func TestEscalation(t *testing.T) {
	t.Parallel()
	config, ordered := laptops(actions.Approval{
		Approvers: []string{"aad-Ben"}, Within: 3 * time.Hour,
		Escalate: []actions.Escalation{{After: time.Hour, To: []string{"aad-Carla"}}, {After: 2 * time.Hour, To: []string{"aad-Mia", "aad-Ben"}}},
	})
	bottest.Test(t, config, func(t *testing.T, kit *bottest.Kit) {
		mia, ben, carla := kit.Personal("Mia"), kit.Personal("Ben"), kit.Personal("Carla")
		orderFor(t, kit, mia, "Ben")
		ben.ExpectCard("Approve")
		time.Sleep(61 * time.Minute)
		mia.Expect("Nobody has decided yet, so I've also asked Carla.")
		card := carla.ExpectCard("Approve")
		time.Sleep(time.Hour)
		card.Press("Approve")
		mia.Expect("They are on their way.")
		expectOrdered(t, ordered, 2)
	})
}

// TestTakenBack: who asked may take it back, though they may not decide; the card elsewhere ends.
func TestTakenBack(t *testing.T) {
	t.Parallel()
	config, ordered := laptops(actions.Approval{Approvers: []string{"aad-Ben"}})
	bottest.Test(t, config, func(t *testing.T, kit *bottest.Kit) {
		mia, ben := kit.Personal("Mia"), kit.Personal("Ben")
		orderFor(t, kit, mia, "Ben")
		card := ben.ExpectCard("Approve")
		expectShown(t, mia.Press("Take it back"), "Taken back by Mia")
		mia.Expect("OK, I won't do this: Order.")
		expectShown(t, card.Press("Approve"), "already decided: Taken back by Mia")
		closed := 0
		for _, s := range kit.Connector.Sent() {
			if s.Method == "PUT" && s.ID == card.ID && !strings.Contains(s.Card(), "Approve\"") {
				closed++
			}
		}
		if closed != 1 || *ordered != 0 {
			t.Errorf("the card was closed %d times, %d ordered", closed, *ordered)
		}
	})
}

// TestStopBetweenTwoApprovals takes it back also while the bot tells of the first one.
func TestStopBetweenTwoApprovals(t *testing.T) {
	t.Parallel()
	config, ordered := laptops(actions.Approval{Approvers: []string{"aad-Ben", "aad-Carla"}, Quorum: 2})
	bottest.Test(t, config, func(t *testing.T, kit *bottest.Kit) {
		mia, ben, carla := kit.Personal("Mia"), kit.Personal("Ben"), kit.Personal("Carla")
		orderFor(t, kit, mia, "Ben, Carla")
		step := "Ben approved this. It needs 2 approvals."
		told, release := kit.Connector.Holds(step)
		ben.ExpectCard("It needs 2 approvals.").Press("Approve")
		<-told
		mia.Say("/stop")
		time.Sleep(time.Second)
		close(release)
		mia.Expect(step)
		mia.Expect("OK, I won't do this: Order.")
		if got := carla.ExpectCard("It needs 2 approvals.").Press("Approve").Shown(); !strings.Contains(got, "Taken back by Mia") {
			t.Errorf("Carla reads %q", got)
		}
		if *ordered != 0 {
			t.Errorf("%d ordered", *ordered)
		}
	})
}

// TestCardThatCameTwice: a click on the first of two cards, of which the bot knows only the second, ends both.
func TestCardThatCameTwice(t *testing.T) {
	t.Parallel()
	config, _ := laptops(actions.Approval{Approvers: []string{"aad-Ben"}})
	bottest.Test(t, config, func(t *testing.T, kit *bottest.Kit) {
		mia := kit.Personal("Mia")
		kit.Model.Says(orderTwo)
		kit.Connector.Fails(bottest.Answer{CutOff: true})
		mia.Say("order two laptops")
		first, second := mia.ExpectCard("May I ask Ben"), mia.ExpectCard("May I ask Ben")
		first.Press("Send")
		kit.Personal("Ben").ExpectCard("Asked by Mia.").Press("Approve")
		mia.Expect("They are on their way.")
		closed := map[string]bool{}
		for _, s := range kit.Connector.Sent() {
			closed[s.ID] = closed[s.ID] || s.Method == "PUT" && len(s.Buttons()) == 0
		}
		if !closed[first.ID] || !closed[second.ID] || first.ID == second.ID {
			t.Errorf("of %s and %s these were closed: %v", first.ID, second.ID, closed)
		}
	})
}

// TestNobodyToAsk: a card that nobody can press is never shown.
func TestNobodyToAsk(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		approval actions.Approval
		want     string
	}{
		"who asked alone":   {actions.Approval{Approvers: []string{"aad-Mia"}}, "I can't reach enough people who may approve this, so I didn't do it."},
		"not installed":     {actions.Approval{Approvers: []string{"aad-Nora"}}, "I can't reach enough people who may approve this, so I didn't do it."},
		"an unknown chat":   {actions.Approval{Approvers: []string{"19:board@thread.v2"}}, "I can't reach enough people who may approve this, so I didn't do it."},
		"no id":             {actions.Approval{Approvers: []string{" "}}, ""},
		"too many":          {actions.Approval{Approvers: strings.Fields("a b c d e f g h i j k")}, ""},
		"too large":         {actions.Approval{Approvers: []string{"aad-Ben"}, Quorum: 2}, ""},
		"escalates to none": {actions.Approval{Approvers: []string{"aad-Ben"}, Escalate: []actions.Escalation{{After: time.Hour}}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config, ordered := laptops(c.approval)
			bottest.Test(t, config, func(t *testing.T, kit *bottest.Kit) {
				kit.Connector.Decides(func(s bottest.Sent) bottest.Answer {
					if s.To == "" && strings.Contains(s.JSON, "Nora") {
						return bottest.Answer{Status: 403, Code: "ForbiddenOperationException"}
					}
					return bottest.Answer{}
				})
				mia := kit.Personal("Mia")
				kit.Model.Says(orderTwo)
				want := c.want
				if want == "" { // the model reads why
					want = "I asked nobody."
					kit.Model.Says(plan(say(want)))
				}
				mia.Say("order two laptops")
				mia.Expect(want)
				expectOrdered(t, ordered, 0)
			})
		})
	}
}

// TestFoundApprovers: a function finds who may decide, and is asked again at the click: who has left may not, and a
// changed policy counts.
func TestFoundApprovers(t *testing.T) {
	t.Parallel()
	group, quorum, fails := []string{"aad-Mia", "aad-Ben", "aad-Carla"}, 0, error(nil)
	config, ordered := laptops(actions.Approval{})
	config.Change = func(c *bot.Config) {
		c.Policy = func(context.Context, *actions.Turn, actions.Call) (actions.Approval, error) {
			return actions.Approval{Required: true, Quorum: quorum, Find: func(_ context.Context, turn *actions.Turn, call actions.Call) ([]string, error) {
				if turn.Activity.From.Name != "Mia" || call.Action.Name != "order" || turn.Conversation == nil {
					t.Errorf("%s, %s", turn.Activity.From.Name, call.Action.Name)
				}
				return group, fails
			}}, nil
		}
	}
	bottest.Test(t, config, func(t *testing.T, kit *bottest.Kit) {
		mia, ben, carla := kit.Personal("Mia"), kit.Personal("Ben"), kit.Personal("Carla")
		orderFor(t, kit, mia, "Ben, Carla")
		first, second := ben.ExpectCard("Approve"), carla.ExpectCard("Approve")
		reads := func(card bottest.Sent, want string) {
			t.Helper()
			if got := card.Press("Approve"); !strings.Contains(string(got.Body), want) || *ordered != 0 {
				t.Errorf("%s reads %s, %d ordered", card.To, got.Body, *ordered)
			}
		}
		group = []string{"aad-Carla"}
		reads(first, "You can't decide this.")
		fails = errors.New("the directory is away")
		reads(second, "I can't find out who may approve this, so nothing was done. Please try again later.")
		group, quorum, fails = []string{"aad-Carla", "aad-Ben"}, 2, nil
		reads(second, "Carla approved this. It needs 2 approvals.")
		mia.Expect("Carla approved this. It needs 2 approvals.")
		first.Press("Approve")
		mia.Expect("They are on their way.")
		expectOrdered(t, ordered, 2)
	})
}

// TestNobodyFound: if a function finds nobody to ask, the person reads so, the log has one line, and there is no card.
func TestNobodyFound(t *testing.T) {
	t.Parallel()
	const unknown = "I can't find out who may approve this, so I didn't do it."
	tooFew := "I can't reach enough people who may approve this, so I didn't do it."
	found := func(people ...string) actions.Finder {
		return func(context.Context, *actions.Turn, actions.Call) ([]string, error) { return people, nil }
	}
	for name, c := range map[string]struct {
		find actions.Finder
		want string
	}{
		"nobody":    {found(), tooFew},
		"who asked": {found("aad-Mia", "aad-mia", " "), tooFew},
		"too many": {
			found(strings.Fields("a b c d e f g h i j k")...),
			"More people may approve this than I can ask, so I didn't do it. Whoever runs me can name a channel instead.",
		},
		"it fails":  {func(context.Context, *actions.Turn, actions.Call) ([]string, error) { return nil, errors.New("broken") }, unknown},
		"it panics": {func(context.Context, *actions.Turn, actions.Call) ([]string, error) { panic("broken") }, unknown},
		"it hangs": {func(ctx context.Context, _ *actions.Turn, _ actions.Call) ([]string, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}, unknown},
		"it does not even end": {nil, unknown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var end chan struct{}
			if c.find == nil {
				c.find = func(context.Context, *actions.Turn, actions.Call) ([]string, error) {
					<-end
					return nil, nil
				}
			}
			config, ordered := laptops(actions.Approval{Find: c.find})
			var log strings.Builder
			config.Log = &log
			bottest.Test(t, config, func(t *testing.T, kit *bottest.Kit) {
				end = make(chan struct{})
				defer close(end)
				mia := kit.Personal("Mia")
				kit.Model.Says(orderTwo)
				mia.Say("order two laptops")
				mia.Expect(c.want)
				expectDone(t, kit, ordered, 0)
				if n := strings.Count(log.String(), "nobody can be asked for an approval"); n != 1 {
					t.Errorf("%d lines in the log", n)
				}
			})
		})
	}
}

// TestAChatApproves: everybody in a chat that the policy names may approve there, except who asked.
func TestAChatApproves(t *testing.T) {
	t.Parallel()
	config, ordered := laptops(actions.Approval{Approvers: []string{"19:Board@unq.gbl.spaces"}})
	bottest.Test(t, config, func(t *testing.T, kit *bottest.Kit) {
		mia, board := kit.Personal("Mia"), greeted(kit, "Board", "Ben", "Mia")
		orderFor(t, kit, mia, "an approver")
		card := board.ExpectCard("Asked by Mia.")
		expectShown(t, card.As("Mia").Press("Approve"), "You can't decide this.")
		card.As("Carla").Press("Approve")
		mia.Expect("They are on their way.")
		expectOrdered(t, ordered, 2)
	})
}

// TestAskedElsewhereUnderKills: whenever a replica dies, the other one asks, and one decision is what counts.
func TestAskedElsewhereUnderKills(t *testing.T) {
	t.Parallel()
	for at := range 10 {
		t.Run(fmt.Sprint("at request ", at), func(t *testing.T) {
			t.Parallel()
			config, ordered := laptops(actions.Approval{Approvers: []string{"aad-Ben", "aad-Carla"}, Quorum: 2})
			config.Replicas = 2
			bottest.Test(t, config, func(t *testing.T, kit *bottest.Kit) {
				var requests atomic.Int32
				kit.Connector.Decides(func(bottest.Sent) bottest.Answer {
					if requests.Add(1) == int32(at) {
						kit.Kill(1)
					}
					return bottest.Answer{}
				})
				mia, ben, carla := kit.Personal("Mia"), kit.Personal("Ben").On(2), kit.Personal("Carla").On(2)
				kit.Model.Says(orderTwo)
				mia.Say("order two laptops")
				kit.Settle()
				mia.On(2).Press("Send")
				kit.Settle()
				first, second := last(t, ben), last(t, carla)
				first.Press("Approve")
				second.Press("Approve")
				kit.Settle()
				expectOrdered(t, ordered, 2)
				expectShown(t, ben.Messages()[0].Press("Reject"), "already decided: Approved by Ben, Carla")
				for _, chat := range []*bottest.Chat{mia, ben, carla} {
					if len(chat.Messages()) == 0 {
						t.Error("somebody heard nothing")
					}
				}
				kit.Connector.Sent()
			})
		})
	}
}

// last is the last message of the chat, which has to be a card.
func last(t *testing.T, chat *bottest.Chat) bottest.Sent {
	t.Helper()
	all := chat.Messages()
	if len(all) == 0 || all[len(all)-1].Card() == "" {
		t.Fatalf("no card in %v", all)
	}
	return all[len(all)-1]
}

// TestInbox: /approvals asks again what waits for the person, and shows what they wait for, to be taken back.
func TestInbox(t *testing.T) {
	t.Parallel()
	config, ordered := laptops(actions.Approval{Approvers: []string{"aad-Ben"}})
	bottest.Test(t, config, func(t *testing.T, kit *bottest.Kit) {
		mia, ben := kit.Personal("Mia"), kit.Personal("Ben")
		ben.Say("/approvals")
		ben.Expect("No approval waits for you.")
		orderFor(t, kit, mia, "Ben")
		ben.ExpectCard("Asked by Mia.")
		mia.Say("/approvals")
		if card := mia.ExpectCard("Take it back", "I've asked Ben.", "Count"); strings.Contains(card.Card(), `"Approve"`) {
			t.Errorf("Mia reads %s", card.Card())
		}
		for range 2 {
			ben.Say("/approvals")
			ben.ExpectCard("Asked by Mia.")
		}
		ben.Approve()
		mia.Expect("They are on their way.")
		if live := liveCards(kit); len(live) > 0 {
			t.Errorf("cards with buttons: %v", live)
		}
		ben.Say("/approvals")
		ben.Expect("No approval waits for you.")
		orderFor(t, kit, mia, "Ben")
		mia.Say("/approvals")
		expectShown(t, mia.ExpectCard("I've asked Ben.").Press("Take it back"), "Taken back by Mia")
		mia.ExpectMatch("^OK")
		kit.Settle()
		if live := liveCards(kit); len(live) > 0 {
			t.Errorf("cards with buttons: %v", live)
		}
		expectOrdered(t, ordered, 2)
	})
}

// TestInboxOfTwelve: ten cards, and how many more there are.
func TestInboxOfTwelve(t *testing.T) {
	t.Parallel()
	config, _ := laptops(actions.Approval{Approvers: []string{"19:board@unq.gbl.spaces"}})
	bottest.Test(t, config, func(t *testing.T, kit *bottest.Kit) {
		board, team := greeted(kit, "board", "Ben"), kit.Group("team", "Mia")
		for range 12 {
			kit.Model.Says(orderTwo)
			team.Mention("order two laptops")
			team.ExpectCard("Take it back")
			board.ExpectCard("Approve")
		}
		for _, chat := range []*bottest.Chat{board, team} {
			chat.Mention("/approvals")
			for range 10 {
				chat.ExpectCard("Order")
			}
			chat.Expect("There are 2 more.")
			chat.ExpectNothing()
		}
	})
}

// TestApproversHere: in a group the card says who of its people may decide; who is not in it is asked elsewhere.
func TestApproversHere(t *testing.T) {
	t.Parallel()
	config, ordered := laptops(actions.Approval{Approvers: []string{"aad-Ben", "aad-Carla"}})
	bottest.Test(t, config, func(t *testing.T, kit *bottest.Kit) {
		kit.Model.Says(orderTwo)
		team := kit.Group("team", "Mia", "Ben", "Carla")
		team.Mention("order two laptops")
		card := team.ExpectCard("Who can decide: Ben, Carla.")
		team.As("Carla").Mention("/approvals")
		team.ExpectCard("Who can decide: Ben, Carla.")
		card.As("Carla").Press("Approve")
		team.Expect("They are on their way.")
		if live := liveCards(kit); len(live) > 0 {
			t.Errorf("cards with buttons: %v", live)
		}
		expectOrdered(t, ordered, 2)
	})
}

// liveCards are the messages that still have buttons, by their conversation.
func liveCards(kit *bottest.Kit) (live []string) {
	cards := map[string]string{}
	for _, s := range kit.Connector.Sent() {
		if s.Card() != "" && s.Status < http.StatusBadRequest {
			cards[s.To+" "+s.ID] = s.Card()
		}
	}
	for id, card := range cards {
		if strings.Contains(card, "planbot/") {
			live = append(live, id)
		}
	}
	slices.Sort(live)
	return live
}

// TestAnImpossibleApproval: what is wrong with the policy is for the log, and not for people.
func TestAnImpossibleApproval(t *testing.T) {
	t.Parallel()
	config, ordered := laptops(actions.Approval{Approvers: []string{"", "otto@contoso.com"}, Quorum: 3})
	bottest.Test(t, config, func(t *testing.T, kit *bottest.Kit) {
		kit.Model.Says(orderTwo, plan(say("I may not.")))
		kit.Personal("Mia").Say("order two laptops")
		kit.Personal("Mia").Expect("I may not.")
		told := kit.Model.Calls()[1].Prompt()
		if !strings.Contains(told, "nobody can approve it: ") || strings.Contains(told, "has no id") || *ordered > 0 {
			t.Errorf("%d ordered, told %s", *ordered, told)
		}
	})
}

// TestElsewhereToTheEnd: who may not decide does not, what nobody can approve is not asked, and cards end with their question.
func TestElsewhereToTheEnd(t *testing.T) {
	t.Parallel()
	two := []string{"aad-Ben", "aad-Carla"}
	later := []actions.Escalation{{After: time.Hour, To: []string{"aad-Carla"}}}
	const tooFew = "I can't reach enough people who may approve this, so I didn't do it."
	private := map[string]any{"recipient": map[string]any{"id": "28:bot", "name": "Planbot", "isTargeted": true}}
	press := func(t *testing.T, kit *bottest.Kit, who, title string) {
		t.Helper()
		kit.Personal(who).Press(title)
		kit.Settle()
	}
	for name, c := range map[string]struct {
		approval actions.Approval
		message  map[string]any // Mia's, in a group if it is private
		then     func(t *testing.T, kit *bottest.Kit)
		said     string // the last thing that Mia reads
		ordered  int
		live     string
	}{
		"who asked makes the quorum": {actions.Approval{Approvers: []string{"aad-Ben", "aad-Mia"}, Quorum: 2}, nil, nil, tooFew, 0, ""},
		"one person twice":           {actions.Approval{Approvers: []string{"aad-Ben", "aad-ben"}, Quorum: 2}, nil, nil, tooFew, 0, ""},
		"too few are reached":        {actions.Approval{Approvers: []string{"aad-Ben", "aad-Nora"}, Quorum: 2}, nil, nil, tooFew, 0, ""},
		"for good by one of two": {actions.Approval{Approvers: two, Quorum: 2, Standing: true}, nil, func(t *testing.T, kit *bottest.Kit) {
			press(t, kit, "Ben", "Approve")
			press(t, kit, "Carla", "Always approve exactly this")
			kit.Model.Says(orderTwo)
			kit.Personal("Mia").Say("the same again")
		}, "", 2, "a:Mia"},
		"who asked is known by another id": {actions.Approval{Approvers: []string{"aad-Mia", "aad-Ben"}}, map[string]any{
			"from": map[string]any{"id": "29:mia", "name": "Mia"},
		}, func(t *testing.T, kit *bottest.Kit) {
			press(t, kit, "Mia", "Approve")
		}, "", 0, "a:Ben a:Mia a:Mia"},
		"the approver resets": {actions.Approval{Approvers: two[:1]}, nil, func(t *testing.T, kit *bottest.Kit) {
			kit.Personal("Ben").Say("/reset")
			kit.Settle()
			press(t, kit, "Mia", "Take it back")
		}, "OK, I won't do this: Order.", 0, ""},
		"who asked resets": {actions.Approval{Approvers: two[:1]}, nil, func(_ *testing.T, kit *bottest.Kit) {
			kit.Personal("Mia").Say("/reset")
		}, "I've cleared our conversation. Everything else that I keep for you is still here.", 0, ""},
		"down until it expired": {actions.Approval{Approvers: two[:1], Within: 2 * time.Hour, Escalate: later}, nil, func(_ *testing.T, kit *bottest.Kit) {
			kit.Kill(1)
			time.Sleep(4 * time.Hour)
			kit.Restart()
		}, "", 0, ""},
		"in private": {
			actions.Approval{Approvers: []string{"aad-Mia", "aad-Ben"}, Self: true, Escalate: later},
			private, func(*testing.T, *bottest.Kit) { time.Sleep(2 * time.Hour) }, "", 0, "19:team@unq.gbl.spaces",
		},
		"in private, sent": {actions.Approval{Approvers: two[:1]}, private, func(t *testing.T, kit *bottest.Kit) {
			press(t, kit, "Ben", "Approve")
		}, "They are on their way.", 2, ""},
		"unsent": {actions.Approval{Approvers: two[:1]}, nil, func(t *testing.T, kit *bottest.Kit) {
			press(t, kit, "Mia", "Don't send")
		}, "OK, I won't do this: Order.", 0, ""},
		"unsent in time": {actions.Approval{Approvers: two[:1], Escalate: later}, nil, func(*testing.T, *bottest.Kit) {
			time.Sleep(25 * time.Hour)
		}, "", 0, ""},
		"a vote while the other waits in its queue": {actions.Approval{Approvers: two, Quorum: 2}, nil, func(t *testing.T, kit *bottest.Kit) {
			kit.Model.Says(plan(say("A long story.")))
			_, release := kit.Connector.Holds("A long story.")
			kit.Personal("Mia").Say("tell a story")
			time.Sleep(time.Second)
			first, second := last(t, kit.Personal("Ben")), last(t, kit.Personal("Carla"))
			first.Press("Approve")
			second.Press("Approve")
			time.Sleep(15 * time.Second)
			close(release)
		}, "They are on their way.", 2, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config, ordered := laptops(c.approval)
			bottest.Test(t, config, func(t *testing.T, kit *bottest.Kit) {
				kit.Connector.Decides(func(s bottest.Sent) bottest.Answer {
					if s.To == "" && strings.Contains(s.JSON, "Nora") {
						return bottest.Answer{Status: 403, Code: "ForbiddenOperationException"}
					}
					return bottest.Answer{}
				})
				mia := kit.Personal("Mia")
				if c.message["recipient"] != nil {
					mia = kit.Group("team", "Mia")
				}
				message := map[string]any{"type": "message", "text": "order two laptops"}
				maps.Copy(message, c.message)
				kit.Model.Says(orderTwo)
				mia.Deliver(message)
				kit.Settle()
				if live := liveCards(kit); len(live) == 1 && !strings.HasPrefix(name, "unsent") && name != "in private" {
					mia.Press("Send")
					kit.Settle()
				}
				if c.then != nil {
					c.then(t, kit)
					kit.Settle()
				}
				all := mia.Messages()
				if got := all[len(all)-1].Activity.Text; got != c.said {
					t.Errorf("Mia reads %q", got)
				}
				var live []string
				for _, id := range liveCards(kit) {
					live = append(live, strings.Fields(id)[0])
				}
				if got := strings.Join(live, " "); got != c.live {
					t.Errorf("cards with buttons: %s", got)
				}
				if *ordered != c.ordered {
					t.Errorf("%d ordered", *ordered)
				}
			})
		})
	}
}
