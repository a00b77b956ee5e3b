package bot

import (
	"cmp"
	"context"
	"slices"

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
	if here.Personal {
		t.Conversation.Delete()
		t.Thread.Delete()
	} else {
		state.Of[prompts.History](t.Thread).Forget(t.Activity.From.ID)
	}
	return nil
}

// forgetPlace deletes what the person said in another conversation.
func (t *Turn) forgetPlace(ctx context.Context, p place) error {
	a := t.Activity
	key := state.ConversationKey(cmp.Or(a.ChannelID, nobody), cmp.Or(a.Recipient.ID, nobody), p.Conversation)
	scopes, err := t.bot.cfg.Store.Load(ctx, key)
	if err != nil {
		return err
	}
	if p.Personal {
		scopes[0].Delete()
	} else {
		state.Of[prompts.History](scopes[0]).Forget(a.From.ID)
	}
	return t.bot.cfg.Store.Save(ctx, scopes...)
}
