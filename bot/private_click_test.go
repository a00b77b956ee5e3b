package bot_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bot/teams"
)

// TestPrivateListCard: a click on a toggle changes the card for the person who sees it.
func TestPrivateListCard(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, func(c *bot.Config) { c.AckTimeout = 0 })
		b.model.Says(plan(do("createList", `{"list":"a","items":["tea"]}`), saved(do("showLists", `{"list":"a"}`), "L"), say("$L")))
		b.whisper("show")
		card := b.connector.Next(t)
		b.onlyMia(card)
		click, err := card.Click(card.Buttons()[0])
		must(t, err)
		click["recipient"] = event{"id": "28:bot"}
		if got := b.deliver(private(event(click))); !strings.Contains(got.body, "☑ tea") {
			t.Errorf("answered with %d %s", got.status, got.body)
		}
		if got := b.connector.NextUpdate(t); !got.Targeted || got.ID != card.ID {
			t.Errorf("a private card was changed as if all saw it: %s", got.JSON)
		}
	})
}

// TestPrivateSay: what a button of a private card says is as private as the card.
func TestPrivateSay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, func(c *bot.Config) { c.AckTimeout, c.Examples = 0, []string{"what do I earn?"} })
		b.whisper("help")
		card := b.connector.Next(t)
		b.onlyMia(card)
		b.model.Says(plan(say("A lot.")))
		b.deliver(private(event{"value": event{"say": "what do I earn?"}, "replyToId": card.ID, "recipient": event{"id": "28:bot"}}))
		b.onlyMia(b.connector.Next(t))
		b.model.Says(plan(say("Hello!")), plan(say("Hello!")))
		b.deliver(open("hi"))
		b.connector.Next(t)
		if told := b.told(); strings.Contains(told, "earn") || strings.Contains(told, "A lot") {
			t.Errorf("an open question was told of a private one: %s", told)
		}
		b.whisper("go on")
		b.onlyMia(b.connector.Next(t))
		if told := b.told(); !strings.Contains(told, "what do I earn?") {
			t.Errorf("the next private question was told %s", told)
		}
	})
}

// TestPrivateClickTyping: nobody sees that the bot works on it.
func TestPrivateClickTyping(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, func(c *bot.Config) { c.AckTimeout = 0 })
		b.bot.OnCommand("show", func(ctx context.Context, turn *bot.Turn) error { return turn.Show(ctx, *aCard("a")) })
		b.bot.OnMessage((*bot.Turn).IsSubmit, func(ctx context.Context, turn *bot.Turn) error {
			time.Sleep(2 * time.Second)
			return turn.Tell(ctx, "clicked")
		})
		b.whisper("show")
		card := b.connector.Next(t)
		b.deliver(private(event{"value": event{"a": 1}, "replyToId": card.ID, "recipient": event{"id": "28:bot"}}))
		b.onlyMia(b.connector.Next(t))
		for _, s := range b.connector.All() {
			if s.Type() == "typing" {
				t.Errorf("all see %s", s.JSON)
			}
		}
	})
}

// TestPrivateSayForgotten: /forget finds it.
func TestPrivateSayForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, func(c *bot.Config) { c.AckTimeout = 0 })
		b.whisper("help")
		card := b.connector.Next(t)
		b.model.Says(plan(say("A lot.")))
		b.deliver(private(event{"value": event{"say": "what do I earn?"}, "replyToId": card.ID, "recipient": event{"id": "28:bot"}}))
		b.connector.Next(t)
		b.until("the history", func() bool { return strings.Contains(b.kept(), "earn") })
		b.say("/forget yes")
		b.connector.Next(t)
		b.until("that it is forgotten", func() bool { return !strings.Contains(b.kept(), "earn") })
	})
}

// TestPrivateReminders are not listed where others read it.
func TestPrivateReminders(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, func(c *bot.Config) { c.AckTimeout = 0 })
		b.model.Says(remindPlan(`{"what":"fire Ben","in_minutes":60}`))
		b.whisper("remind me")
		b.onlyMia(b.connector.Next(t))
		b.model.Says(remindPlan(`{"what":"buy tea","in_minutes":60}`))
		b.deliver(open("remind me"))
		b.connector.Next(t)
		list := plan(saved(do("listReminders", `{}`), "IT"), say("$IT"))
		b.model.Says(list, list, list)
		b.deliver(open("my reminders"))
		if got := b.connector.Next(t).Text(); strings.Contains(got, "fire Ben") || !strings.Contains(got, "buy tea") {
			t.Errorf("all read %q", got)
		}
		b.whisper("my reminders")
		if got := b.connector.Next(t).Text(); !strings.Contains(got, "fire Ben") || !strings.Contains(got, "buy tea") {
			t.Errorf("Mia reads %q", got)
		}
		b.say("my reminders")
		if got := b.connector.Next(t).Text(); !strings.Contains(got, "fire Ben") || !strings.Contains(got, "buy tea") {
			t.Errorf("Mia reads alone %q", got)
		}
		b.model.Says(plan(saved(do("cancelReminder", `{"reminder":"fire"}`), "IT"), say("$IT")))
		b.whisper("cancel it")
		if got := b.connector.Next(t); !strings.HasPrefix(got.Text(), "Cancelled the reminder") {
			t.Errorf("Mia reads %q", got.Text())
		}
	})
}

// TestLateAnswerInAGroup: the answer of a form is for who filled it in, also when it is late.
func TestLateAnswerInAGroup(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setupTeams(t, teams.Routes{Dialogs: map[string]teams.Dialog{
			"salary": {Submit: func(context.Context, *bot.Turn, teams.Input) (teams.Answer, error) {
				time.Sleep(5 * time.Second)
				return teams.Answer{Message: "You earn a lot."}, nil
			}},
			"refused": {Submit: func(context.Context, *bot.Turn, teams.Input) (teams.Answer, error) {
				time.Sleep(5 * time.Second)
				return teams.Answer{}, &bot.InvokeError{Status: http.StatusConflict, Code: "No", Message: "You earn too little."}
			}},
		}})
		b.bot.OnCardAction("salary", func(context.Context, *bot.Turn, bot.CardClick) (bot.CardAnswer, error) {
			time.Sleep(5 * time.Second)
			return bot.CardAnswer{Message: "You earn a lot."}, nil
		})
		b.bot.OnCardAction("broken", func(context.Context, *bot.Turn, bot.CardClick) (bot.CardAnswer, error) {
			time.Sleep(5 * time.Second)
			return bot.CardAnswer{}, errors.New("no salaries today")
		})
		b.bot.OnCardAction("payslip", func(context.Context, *bot.Turn, bot.CardClick) (bot.CardAnswer, error) {
			time.Sleep(5 * time.Second)
			return bot.CardAnswer{Card: &activity.Card{Fallback: "You earn a lot."}}, nil
		})
		b.bot.OnCardAction("old", func(_ context.Context, _ *bot.Turn, click bot.CardClick) (bot.CardAnswer, error) {
			time.Sleep(5 * time.Second)
			return bot.CardAnswer{}, click.Read(new(int))
		})
		late := []event{
			invoked("task/submit", event{"data": event{"verb": "salary"}}), invoked("task/submit", event{"data": event{"verb": "refused"}}),
			pressed("salary", event{}), pressed("broken", event{}), pressed("payslip", event{}),
			pressed("old", event{}),
		}
		var all sync.WaitGroup
		for i, e := range late {
			e["recipient"] = event{"id": "28:bot"}
			e = private(e, event{"conversation": event{"id": fmt.Sprint("19:", i), "conversationType": "groupChat", "tenantId": "t1"}})
			all.Go(func() { b.deliver(e) })
		}
		all.Wait()
		for range late {
			sent := b.connector.Next(t)
			b.onlyMia(sent)
			if strings.Contains(sent.JSON, "the data of the button") {
				t.Errorf("a person reads what is for who writes a client: %s", sent.JSON)
			}
		}
	})
}
