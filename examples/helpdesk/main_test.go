package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bottest"
	"github.com/planbot-go/planbot/models"
)

// devices are a service that takes eight seconds and fails as often as it is told. It knows the
// keys that it was called with.
type devices struct {
	mu    sync.Mutex
	fails int
	keys  []string
}

func (d *devices) restart(ctx context.Context, key, _ string) (string, error) {
	select {
	case <-time.After(8 * time.Second):
	case <-ctx.Done():
		return "", ctx.Err()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.keys = append(d.keys, key)
	if d.fails > 0 {
		d.fails--
		return "", errors.New("no answer from the device")
	}
	return "up again", nil
}

// test runs f with the bot on the offline model, which takes the examples of the actions.
func test(t *testing.T, service *devices, f func(t *testing.T, kit *bottest.Kit)) {
	t.Helper()
	cfg := bottest.Config{Name: "Helpdesk", New: func(ctx context.Context, parts bottest.Parts) (*bot.Bot, error) {
		return app.New(ctx, helpdesk(service.restart), models.Offline{}, parts.Bot)
	}}
	bottest.Test(t, cfg, f)
}

func TestTickets(t *testing.T) {
	t.Parallel()
	test(t, nil, func(t *testing.T, kit *bottest.Kit) {
		mia, otto := kit.Personal("Mia"), kit.Personal("Otto")
		mia.Say("Open a ticket: the printer is out of paper.")
		mia.Expect("Ticket 1 is open.")
		mia.Say("Open a ticket with priority urgent: the VPN is down.")
		mia.Expect("Ticket 2 is open.")
		mia.Say("Assign ticket 2 to Ada Lovelace.")
		mia.Expect("Ada Lovelace is working on ticket 2.")
		mia.Say("Show my tickets.")
		mia.ExpectCard("Open tickets: 2", "2: the VPN is down", "urgent, from Mia, assigned to Ada Lovelace", "1: the printer is out of paper")
		otto.Say("close ticket 2")
		otto.ExpectCard("Close a ticket").Press("Approve")
		otto.Expect("There is no open ticket 2.") // that Otto may see
		otto.Say("/tickets")
		otto.ExpectCard("Open tickets: 0")
		otto.Deliver(map[string]any{"type": "message", "text": "/tickets", "channelId": "sms"}).Taken()
		otto.Expect("Open tickets: 0") // that channel has no cards
	})
}

func TestForget(t *testing.T) {
	t.Parallel()
	test(t, nil, func(t *testing.T, kit *bottest.Kit) {
		mia, otto := kit.Personal("Mia"), kit.Personal("Otto")
		for _, chat := range []*bottest.Chat{mia, otto} {
			chat.Say("Open a ticket: the VPN is down.")
			chat.ExpectMatch("is open")
		}
		mia.Say("/forget yes")
		mia.Expect("I've deleted everything I kept about you. " +
			"This stays, because it belongs to others: what was posted in the channel of the support team.")
		mia.Say("/tickets")
		mia.ExpectCard("Open tickets: 0")
		otto.Say("/tickets")
		otto.ExpectCard("Open tickets: 1")
	})
}

func TestTicketsOpenedAtTheSameTime(t *testing.T) {
	t.Parallel()
	test(t, nil, func(t *testing.T, kit *bottest.Kit) {
		people := []string{"Mia", "Otto", "Ada", "Ben"}
		var open []func()
		var opened []string
		for _, person := range people {
			open = append(open, func() { kit.Personal(person).Say("Open a ticket: the VPN is down.") })
		}
		kit.Together(open...)
		for _, person := range people {
			opened = append(opened, kit.Personal(person).Next().Activity.Text)
		}
		slices.Sort(opened)
		want := []string{"Ticket 1 is open.", "Ticket 2 is open.", "Ticket 3 is open.", "Ticket 4 is open."}
		if !slices.Equal(opened, want) {
			t.Errorf("said %q", opened)
		}
	})
}

func TestApprovalSurvivesARestart(t *testing.T) {
	t.Parallel()
	test(t, nil, func(t *testing.T, kit *bottest.Kit) {
		mia := kit.Personal("Mia")
		mia.Say("Open a ticket: the VPN is down.")
		mia.Expect("Ticket 1 is open.")
		mia.Say("Close ticket 1.")
		card := mia.ExpectCard("Close a ticket", "Ticket: ", "1")
		kit.Restart()
		card.Press("Approve")
		mia.Expect("Ticket 1 is closed.")
		mia.Say("/tickets")
		mia.ExpectCard("Open tickets: 0")
	})
}

func TestRestartIsTriedAgain(t *testing.T) {
	t.Parallel()
	service := &devices{fails: 2}
	test(t, service, func(t *testing.T, kit *bottest.Kit) {
		mia := kit.Personal("Mia")
		restart := func() {
			mia.Say("Restart HP-2231.")
			mia.Expect("I've started this: Restart a device. I'll tell you when it's done.")
		}
		began := time.Now()
		restart()
		mia.Say("Open a ticket: the VPN is down.") // meanwhile
		mia.Expect("Ticket 1 is open.")
		mia.ExpectMatch("HP-2231 is up again.")
		if took := time.Since(began); took < 24*time.Second {
			t.Errorf("three tries took %v", took)
		}
		kit.CrashAfter(1) // when the device was restarted, before the bot wrote that down
		restart()
		mia.ExpectNothing()
		kit.Restart()
		mia.ExpectMatch("HP-2231 is up again.")

		k := service.keys
		if len(k) != 5 || k[0] != k[1] || k[0] != k[2] || k[0] == k[3] || k[3] != k[4] {
			t.Errorf("the service was called with the keys %v", k)
		}
		service.fails = 3
		restart()
		mia.ExpectMatch("HP-2231 cannot be restarted now")
	})
}

func TestTheSupportTeamTakesOver(t *testing.T) {
	t.Parallel()
	test(t, nil, func(t *testing.T, kit *bottest.Kit) {
		const channel = "19:support@thread.tacv2"
		mia, team := kit.Personal("Mia"), kit.Conversation(channel, "channel", "Otto")
		mia.Say("Open a ticket: the VPN is down.")
		mia.Expect("Ticket 1 is open.")
		mia.Say("I need a person for ticket 1.")
		mia.ExpectMatch("the support team has no channel yet")
		team.Mention("/support")
		team.ExpectMatch("^The support team is here.")

		mia.Say("I need a person for ticket 1.")
		mia.Expect("The support team will join. What you write here goes to them until ticket 1 is closed.")
		card := team.ExpectCard("Mia needs a person. Ticket 1: the VPN is down",
			"Mia: Open a ticket: the VPN is down.", "Helpdesk: Ticket 1 is open.", "Mia: I need a person for ticket 1.")
		mia.Say("hurry")
		team.Expect("**Mia** (ticket 1): hurry")
		if got := card.Press("Take over").Shown(); !strings.Contains(got, "Mention me in this thread") {
			t.Errorf("the click shows %q", got)
		}
		mia.Expect("Otto of the support team is here.")
		if got := card.As("Ada").Press("Take over").Shown(); got != "Otto has taken over." {
			t.Errorf("the second click shows %q", got)
		}

		thread := kit.Conversation(channel+";messageid="+card.ID, "channel", "Otto")
		kit.Restart()
		thread.Mention("Which network are you in?")
		mia.Expect("**Otto** (ticket 1): Which network are you in?")
		mia.Say("Close ticket 1, please.") // goes to Otto, not to the bot
		thread.Expect("**Mia** (ticket 1): Close ticket 1, please.")
		thread.Mention("/close")
		thread.Expect("Ticket 1 is closed.")
		mia.Expect("Otto closed ticket 1.")
		mia.Say("/tickets")
		mia.ExpectCard("Open tickets: 0")
	})
}

func TestSummary(t *testing.T) {
	t.Parallel()
	test(t, nil, func(t *testing.T, kit *bottest.Kit) {
		team, mia := kit.Channel("support", "Otto"), kit.Personal("Mia")
		team.Deliver(map[string]any{
			"type": "message", "text": "<at>Helpdesk</at> /support", "entities": []any{team.MentionOf("<at>Helpdesk</at>")},
			"localTimestamp": "2026-01-02T09:00:00+05:30", // without the name of a zone
		}).Taken()
		team.Expect("The support team is here. I post who needs a person and, on working days at 9:00 (UTC), the open tickets.")
		mia.Say("/support")
		mia.Expect("Please say this in a channel of a team, and only in one.")
		kit.Channel("other").Mention("/support")
		kit.Channel("other").Expect("Please say this in a channel of a team, and only in one.")
		mia.Say("Open a ticket: the VPN is down.")
		mia.Expect("Ticket 1 is open.")
		posts := kit.Conversation("19:support@thread.tacv2", "channel", "Otto")
		time.Sleep(57*time.Hour + time.Minute) // from the beginning of a Saturday to Monday, after nine
		posts.ExpectCard("Open tickets: 1", "1: the VPN is down")
		posts.ExpectNothing() // of the weekend
		time.Sleep(24 * time.Hour)
		posts.ExpectCard("Open tickets: 1", "1: the VPN is down")
	})
}

func TestScenarios(t *testing.T) {
	t.Parallel()
	bottest.RunScenarios(t, helpdesk(new(devices).restart), "scenarios.yaml")
}
