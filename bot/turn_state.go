package bot

import (
	"cmp"
	"context"
	"errors"

	"github.com/planbot-go/planbot/state"
)

// load reads the turn's state in one round trip.
func (t *Turn) load(ctx context.Context) error {
	a := t.Activity
	channel, bot := cmp.Or(a.ChannelID, nobody), cmp.Or(a.Recipient.ID, nobody)
	keys := []state.Key{
		state.ConversationKey(channel, bot, a.Conversation.BaseID()),
		state.UserKey(channel, bot, cmp.Or(a.From.ID, nobody)),
	}
	threaded := a.Conversation.ID != a.Conversation.BaseID()
	if threaded {
		keys = append(keys, state.ConversationKey(channel, bot, a.Conversation.ID))
	}
	scopes, err := t.bot.cfg.Store.Load(ctx, keys...)
	if err != nil && len(scopes) != len(keys) {
		return err
	}
	t.scopes, t.unreadable = scopes, err // what cannot be read can still be deleted
	t.Conversation, t.User, t.Thread = scopes[0], scopes[1], scopes[0]
	if threaded {
		t.Thread = scopes[2]
	}
	return nil
}

// save writes what changed, and marks the activity as handled in the same step.
// From here on what was done in state counts as done.
func (t *Turn) save(ctx context.Context) error {
	if !t.forget {
		t.markSeen()
	}
	err := t.bot.cfg.Store.Save(ctx, t.scopes...)
	if errors.Is(err, state.ErrUnavailable) && ctx.Err() == nil {
		err = t.bot.cfg.Store.Save(ctx, t.scopes...) // a repeated save does no harm
	}
	if err != nil {
		t.saveFailed = true
		return err
	}
	t.kept = append(t.kept, t.unsaved...)
	t.unsaved = nil
	return nil
}

// secure notes the turn's state as it is, to which [Turn.undo] goes back.
func (t *Turn) secure() {
	t.secured = t.secured[:0]
	for _, scope := range t.changeable() {
		t.secured = append(t.secured, scope.Checkpoint())
	}
}

// undo takes back what an action that failed has changed in state, so that none
// of it is left half done.
func (t *Turn) undo() {
	scopes := t.changeable()
	for i, c := range t.secured {
		scopes[i].Restore(c)
	}
}

// changeable are the scopes that actions change.
func (t *Turn) changeable() []*state.Scope {
	scopes := []*state.Scope{t.Conversation, t.User, t.Temp}
	if t.Thread != t.Conversation {
		scopes = append(scopes, t.Thread)
	}
	return scopes
}

func (t *Turn) startOver() {
	t.Temp = state.NewScope()
	t.Rounds, t.unsaved, t.saveFailed = nil, nil, false
}
