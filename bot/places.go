package bot

import (
	"cmp"
	"context"
	"slices"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/prompts"
	"github.com/planbot-go/planbot/state"
)

// maxPlaces bounds how many conversations a person's state names.
const maxPlaces = 200

// places are the conversations whose history holds what a person said. They are
// part of the person's state, so that /forget finds them all.
type places struct {
	All []place `json:"all,omitempty"`
}

type place struct {
	Conversation string `json:"c"`
	Personal     bool   `json:"p,omitzero"`
}

// rememberPlace notes that this conversation's history holds the person's words.
func (t *Turn) rememberPlace() {
	here := place{t.Activity.Conversation.ID, t.Activity.Conversation.Personal()}
	known := state.Of[places](t.User)
	if slices.Contains(known.All, here) {
		return
	}
	known.All = append(known.All, here)
	if len(known.All) > maxPlaces {
		known.All = slices.Delete(known.All, 0, 1)
	}
}

// forgetPerson deletes the person's state, their personal conversations, and
// what they said in others.
func forgetPerson(ctx context.Context, t *Turn) error {
	here := place{t.Activity.Conversation.ID, t.Activity.Conversation.Personal()}
	for _, p := range state.Of[places](t.User).All {
		if p == here {
			continue
		}
		if err := t.forgetPlace(ctx, p); err != nil {
			return err
		}
	}
	t.User.Delete()
	asker := t.Activity.From.ID
	if here.Personal {
		asker = "" // all of them
	}
	if err := t.withdrawAll(ctx, here); err != nil {
		return err
	}
	if err := t.forgetApprovals(ctx, asker); err != nil {
		return err
	}
	if here.Personal {
		t.Conversation.Delete()
		t.Thread.Delete()
	} else {
		state.Of[prompts.History](t.Thread).Forget(t.Activity.From.ID)
	}
	return nil
}

func conversationKey(a *activity.Activity, id string) state.Key {
	return state.ConversationKey(channelOf(a), cmp.Or(a.Recipient.ID, nobody), id)
}

func userKey(a *activity.Activity) state.Key {
	return state.UserKey(channelOf(a), cmp.Or(a.Recipient.ID, nobody), cmp.Or(a.From.ID, nobody))
}

// channelOf is the channel in the activity's keys. What another bot brings is its own,
// whichever channel, conversation or person it names: it reaches nothing of the channel's.
func channelOf(a *activity.Activity) string {
	return ownChannel(cmp.Or(a.ChannelID, nobody), a.CallerApp())
}

func ownChannel(channel, callerApp string) string {
	if callerApp == "" {
		return channel
	}
	return callerApp + " " + channel
}

// forgetPlace deletes what the person said in another conversation.
func (t *Turn) forgetPlace(ctx context.Context, p place) error {
	a := t.Activity
	there := activity.Conversation{}
	there.ID = p.Conversation
	keys := []state.Key{conversationKey(a, there.ID)}
	if base := there.BaseID(); base != there.ID {
		keys = append(keys, conversationKey(a, base)) // which keeps the approvals of its threads
	}
	scopes, err := t.bot.cfg.Store.Load(ctx, keys...)
	if err != nil {
		return err
	}
	asker := a.From.ID
	if p.Personal {
		asker = ""
	}
	if err := t.withdrawAll(ctx, p); err != nil {
		return err
	}
	docs, err := t.bot.forgetApprovals(ctx, &activity.Activity{
		ChannelID: a.ChannelID, CallerID: a.CallerID, Recipient: a.Recipient, Conversation: there,
	}, scopes[len(scopes)-1], asker)
	if err != nil {
		return err
	}
	for _, scope := range scopes {
		if p.Personal {
			scope.Delete()
		} else {
			state.Of[prompts.History](scope).Forget(a.From.ID)
		}
	}
	return t.bot.cfg.Store.Save(ctx, append(scopes, docs...)...)
}
