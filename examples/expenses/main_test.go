package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bottest"
)

// test runs f with the bot in a company in which Ben is everybody's manager, until he leaves.
func test(t *testing.T, f func(t *testing.T, kit *bottest.Kit, leave func())) {
	t.Helper()
	manager := []string{"aad-Ben"}
	company := expenses(deciders{board: []string{"aad-Carla", "aad-Dana"}, manager: func(context.Context, *actions.Turn, actions.Call) ([]string, error) {
		return manager, nil
	}})
	config := bottest.Config{Name: "Expenses", Replicas: 2, New: func(ctx context.Context, p bottest.Parts) (*bot.Bot, error) {
		return app.New(ctx, company, p.Model, p.Bot)
	}}
	bottest.Test(t, config, func(t *testing.T, kit *bottest.Kit) { f(t, kit, func() { manager = nil }) })
}

// claimed has Mia send a receipt, from which the scripted model reads the amount.
func claimed(kit *bottest.Kit, amount float64) *bottest.Chat {
	mia := kit.Personal("Mia")
	kit.Model.Says(bottest.Plan(bottest.Do("claim", "amount", amount, "purpose", "the new desk"), bottest.Say("It is on its way.")))
	photo := map[string]any{"contentType": "image/jpeg", "contentUrl": kit.Connector.URL + "receipt.jpg"}
	mia.Deliver(map[string]any{"type": "message", "text": "for the new desk", "attachments": []any{photo}}).Taken()
	mia.ExpectCard("May I ask", "Ben").Press("Send", "why", "The old one broke.")
	return mia
}

func TestTheManagerApproves(t *testing.T) {
	t.Parallel()
	test(t, func(t *testing.T, kit *bottest.Kit, _ func()) {
		mia, ben := claimed(kit, 420), kit.Personal("Ben")
		ben.ExpectCard("Claim an expense", "420", "The old one broke.", "Asked by Mia.")
		ben.Approve()
		mia.Expect("It is on its way.")
		show := bottest.Do("showClaims")
		show.SaveAs = "A"
		kit.Model.Says(bottest.Plan(show, bottest.Say("$A")))
		mia.Say("What have I claimed?")
		mia.Expect("Your claims: 1\n- 420.00 for the new desk")
	})
}

func TestADelegateApprovesAfterAKill(t *testing.T) {
	t.Parallel()
	test(t, func(t *testing.T, kit *bottest.Kit, leave func()) {
		ben, dora := kit.Personal("Ben"), kit.Personal("Dora").On(2)
		ben.Say("/delegate to aad-Dora until 2000-01-31")
		ben.ExpectMatch("^Dora may decide your approvals in your place until 2000-01-31 ")
		dora.ExpectMatch("^Ben lets you decide approvals in their place until 2000-01-31 ")
		mia := claimed(kit, 420)
		ben.ExpectCard("420")
		dora.ExpectCard("420", "Dora decides this for Ben until 2000-01-31")
		kit.Kill(1)
		dora.Approve()
		mia.Expect("It is on its way.")
	})
}

func TestTwoPeopleAtOnceAndAKill(t *testing.T) {
	t.Parallel()
	test(t, func(t *testing.T, kit *bottest.Kit, _ func()) {
		mia := claimed(kit, 500)
		kit.Personal("Ben").Approve()
		mia.Expect("Ben approved this. It needs 2 approvals.")
		kit.Kill(1)
		carla, dana := kit.Personal("Carla").On(2).ExpectCard("It needs 2 approvals."), kit.Personal("Dana").On(2).ExpectCard("It needs 2 approvals.")
		read := ""
		kit.Together(func() { carla.Press("Approve") }, func() { read = dana.Press("Reject").Shown() })
		mia.Expect("It is on its way.")
		if !strings.Contains(read, "This was already decided: Approved by Ben, Carla") {
			t.Errorf("Dana reads %q", read)
		}
	})
}

func TestTheBoardIsAskedAfterADay(t *testing.T) {
	t.Parallel()
	test(t, func(t *testing.T, kit *bottest.Kit, _ func()) {
		mia := claimed(kit, 20)
		kit.Personal("Ben").ExpectCard("Claim an expense")
		time.Sleep(25 * time.Hour)
		mia.Expect("Nobody has decided yet, so I've also asked Carla, Dana.")
		kit.Personal("Carla").ExpectCard("Asked by Mia.")
		kit.Personal("Dana").Reject()
		mia.Expect("OK, I won't do this: Claim an expense.")
	})
}

func TestWhoIsNoLongerTheManager(t *testing.T) {
	t.Parallel()
	test(t, func(t *testing.T, kit *bottest.Kit, leave func()) {
		mia := claimed(kit, 20)
		leave()
		if got := kit.Personal("Ben").Approve().Shown(); got != "You can't decide this. Nothing was done." {
			t.Errorf("Ben reads %q", got)
		}
		mia.Reject()
		mia.Expect("OK, I won't do this: Claim an expense.")
	})
}

func TestScenarios(t *testing.T) {
	t.Parallel()
	bottest.RunScenarios(t, expenses(deciders{manager: func(context.Context, *actions.Turn, actions.Call) ([]string, error) {
		return []string{"aad-ben"}, nil
	}}), "scenarios.yaml")
}
