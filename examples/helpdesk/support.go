package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/prompts"
	"github.com/planbot-go/planbot/state"
)

// The support team has a channel, where the bot posts the open tickets each working day, and the
// conversations of people who need a person. A click takes one over: from then on the thread of that
// post and the owner's conversation get each other's messages, until somebody says /close.

var nowhere actions.Recipient

// beSupport answers /support: the channel is the support team's from now on.
func beSupport(ctx context.Context, t *bot.Turn) error {
	d, err := deskOf(ctx, t.Turn)
	switch {
	case err != nil:
		return err
	case t.Activity.Conversation.ConversationType != "channel", d.Support != nowhere && d.Support != actions.ToChannel(t.Activity):
		return t.Tell(ctx, "Please say this in a channel of a team, and only in one.")
	}
	d.Support = actions.ToChannel(t.Activity)
	zone := cmp.Or(t.Activity.Zone().String(), "UTC") // some clients send an offset without a name
	daily := actions.Notice{To: d.Support, Key: "tickets", Every: "0 9 * * MON-FRI", Zone: zone, Run: "tickets"}
	if _, err := t.Notifier.Notify(ctx, daily); err != nil {
		return err
	}
	return t.Tell(ctx, "The support team is here. I post who needs a person and, on working days at 9:00 ("+zone+"), the open tickets.")
}

// bringInPerson posts the conversation in the support team's channel.
func bringInPerson(ctx context.Context, turn *actions.Turn, in which) (actions.Result, error) {
	d, k, err := find(ctx, turn, in.Ticket)
	if err != nil || k == nil {
		return noTicket(in.Ticket), err
	}
	if d.Support == nowhere {
		return actions.Fail("the support team has no channel yet: somebody has to say /support in one"), nil
	}
	if other, _ := d.talk(turn.Activity); other != nil || k.Team != nowhere {
		return actions.Unchanged("The support team has already been asked."), nil
	}
	k.From, k.Team = actions.To(turn.Activity), d.Support
	name := turn.Activity.From.Name
	heading := fmt.Sprintf("%s needs a person. Ticket %d: %s", name, k.Number, k.Title)
	card := activity.Card{
		Fallback: heading, Body: []any{activity.RichText{{Text: heading, Weight: "bolder"}}},
		Actions: []any{activity.Button{Title: "Take over", Verb: "take", Data: which{k.Number}}},
	}
	said := state.Of[prompts.History](turn.Thread).Lines(name, "Helpdesk")
	for _, line := range append(said, name+": "+strings.ToValidUTF8(turn.Text[:min(len(turn.Text), maxText)], "")) {
		card.Body = append(card.Body, activity.RichText{{Text: line, Subtle: true}})
	}
	posts := []*activity.Activity{{Type: activity.Message, Summary: heading, Attachments: []activity.Attachment{card.Attachment()}}}
	if _, err := turn.Notifier.Notify(ctx, actions.Notice{To: d.Support, Activities: posts}); err != nil {
		return actions.Result{}, err
	}
	return actions.Text("The support team will join. What you write here goes to them until ticket %d is closed.", k.Number), nil
}

// takeOver answers a click on that card.
func takeOver(ctx context.Context, t *bot.Turn, click bot.CardClick) (bot.CardAnswer, error) {
	var in which
	if err := click.Read(&in); err != nil {
		return bot.CardAnswer{}, err
	}
	d, k, err := find(ctx, t.Turn, in.Ticket)
	switch {
	case err != nil:
		return bot.CardAnswer{}, err
	case k == nil:
		return bot.CardAnswer{Message: "This ticket is closed."}, nil
	case k.Team != d.Support:
		return bot.CardAnswer{Message: k.Assignee + " has taken over."}, nil
	}
	k.Assignee = t.Activity.From.Name
	k.Team.Conversation += ";messageid=" + t.Activity.ReplyToID // the thread of the card
	return bot.CardAnswer{Message: "Mention me in this thread to answer, and say /close when you are done."},
		post(ctx, t, k.From, "%s of the support team is here.", k.Assignee)
}

// talk returns the ticket that the owner and the support team talk about in the conversation of the
// activity, and where the other side is. nil: there is none.
func (d *desk) talk(a *activity.Activity) (k *ticket, other actions.Recipient) {
	for _, k := range d.Open {
		switch actions.To(a) {
		case k.Team:
			return k, k.From
		case k.From:
			return k, k.Team
		}
	}
	return nil, other
}

// relay has each side of a talk read what the other side writes. Commands, and messages that belong
// to no talk, go on to the bot.
func relay(next bot.Handler) bot.Handler {
	return func(ctx context.Context, t *bot.Turn) error {
		if !t.IsMessage() || t.IsSubmit() || strings.HasPrefix(t.Text, "/") {
			return next(ctx, t)
		}
		d, err := deskOf(ctx, t.Turn)
		if err != nil {
			return err
		}
		k, other := d.talk(t.Activity)
		if k == nil {
			return next(ctx, t)
		}
		return post(ctx, t, other, "**%s** (ticket %d): %s", t.Activity.From.Name, k.Number, t.Text)
	}
}

// closeTalk answers /close, on either side.
func closeTalk(ctx context.Context, t *bot.Turn) error {
	d, err := deskOf(ctx, t.Turn)
	if err != nil {
		return err
	}
	k, other := d.talk(t.Activity)
	if k == nil {
		return t.Tell(ctx, "Nobody of the support team talks here.")
	}
	delete(d.Open, k.Number)
	if err := post(ctx, t, other, "%s closed ticket %d.", t.Activity.From.Name, k.Number); err != nil {
		return err
	}
	return t.Tell(ctx, fmt.Sprintf("Ticket %d is closed.", k.Number))
}

// post sends a text to another conversation, once, however often the turn runs.
func post(ctx context.Context, t *bot.Turn, to actions.Recipient, format string, args ...any) error {
	_, err := t.Notifier.Notify(ctx, actions.Notice{To: to, Text: fmt.Sprintf(format, args...), Key: t.ID})
	return err
}
