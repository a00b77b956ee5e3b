package turn

import (
	"context"
	"errors"
	"slices"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/state"
)

// documents are the state that a turn has loaded. Its parts are in the turn that actions see, too:
// the conversation, the person and, in a channel, the thread.
type documents struct {
	store *state.Store
	turn  *actions.Turn
	step  func(ctx context.Context, name string) (context.Context, func(error)) // of the turn

	scopes    []*state.Scope // the conversation, the person and the thread; nil: not loaded, or not to be saved
	bot       *state.Scope   // of the whole bot; nil: nobody asked for it
	home      *state.Scope   // names the person's own conversation; nil: this one is not personal
	snapshots []*state.Scope // of what actions may change, for rollback
	fault     error          // why some of it cannot be read
	outage    error          // why the whole bot's state could not be loaded, if Redis is away
}

// load reads the documents with these keys, see [Turn.keys], in one round trip.
func (d *documents) load(ctx context.Context, keys []state.Key) (err error) {
	ctx, end := d.step(ctx, "load")
	defer func() { end(err) }()
	scopes, err := d.store.Load(ctx, keys...)
	if err != nil && len(scopes) != len(keys) {
		return err
	}
	d.adopt(scopes) // a scope that cannot be read can still be deleted
	return nil
}

// adopt takes the scopes that [Turn.keys] names.
func (d *documents) adopt(scopes []*state.Scope) {
	if last := len(scopes) - 1; d.turn.Activity.Conversation.Personal() {
		scopes, d.home = scopes[:last], scopes[last]
	}
	d.scopes = scopes
	for _, scope := range scopes {
		d.fault = errors.Join(d.fault, scope.Err())
	}
	d.turn.Conversation, d.turn.User, d.turn.Thread = scopes[0], scopes[1], scopes[0]
	if len(scopes) > 2 {
		d.turn.Thread = scopes[2]
	}
}

// loadBot is [actions.Turn.Bot].
func (d *documents) loadBot(ctx context.Context) (_ *state.Scope, err error) {
	switch {
	case d.scopes == nil:
		return nil, errors.New("this turn has no state")
	case d.bot != nil:
		return d.bot, nil
	}
	ctx, end := d.step(ctx, "load")
	defer func() { end(err) }()
	scopes, err := d.store.Load(ctx, state.BotKey())
	if errors.Is(err, state.ErrUnavailable) {
		d.outage = err
	}
	if err == nil {
		d.bot = scopes[0]
	}
	return d.bot, err
}

// writable reports whether there is state that may be changed and saved.
func (d *documents) writable() bool { return d.scopes != nil && d.fault == nil }

// toSave returns the scopes to save, in the order of their partitions: the one that most others change
// comes first, because once it is saved the turn cannot run again.
func (d *documents) toSave() []*state.Scope {
	if d.bot == nil || d.scopes == nil {
		return d.scopes
	}
	return append([]*state.Scope{d.bot}, d.scopes...)
}

// rebase merges what others saved in these documents into the scopes.
func (d *documents) rebase(ctx context.Context, keys []state.Key) error {
	fresh, err := d.store.Load(ctx, keys...)
	if err != nil {
		return err
	}
	for _, scope := range d.toSave() {
		if i := slices.Index(keys, scope.Key()); i >= 0 {
			if err := scope.Rebase(fresh[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// snapshot copies what actions may change, for rollback.
func (d *documents) snapshot() {
	d.snapshots = d.snapshots[:0]
	for _, scope := range d.changeable() {
		d.snapshots = append(d.snapshots, scope.Checkpoint())
	}
}

// rollback takes back what a failed action changed, so that nothing is left half done.
func (d *documents) rollback() {
	scopes := d.changeable()
	for i, c := range d.snapshots {
		scopes[i].Restore(c)
	}
	if len(scopes) > len(d.snapshots) { // the action loaded it
		d.bot = nil
	}
}

// changeable returns the scopes that actions may change, the bot's last.
func (d *documents) changeable() []*state.Scope {
	all := append(slices.Clip(d.scopes), d.turn.Temp)
	if d.bot != nil {
		all = append(all, d.bot)
	}
	return all
}

// changed reports whether the scopes have changes to save. A scope that cannot be saved counts.
func changed(scopes ...*state.Scope) bool {
	return slices.ContainsFunc(scopes, func(s *state.Scope) bool {
		changed, err := s.Changed()
		return changed || err != nil
	})
}
