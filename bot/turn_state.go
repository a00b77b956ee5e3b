package bot

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/prompts"
	"github.com/planbot-go/planbot/state"
)

const (
	// maxMerges is how often one save is tried again because somebody else changed
	// the same state.
	maxMerges = 20
	// finishWithin is how long the end of a turn, whose replies have left, is tried.
	finishWithin = 2 * time.Minute
)

// keys are those of the turn's state: the conversation, the person, in a channel the
// thread, and of a conversation with one person what is noted of that.
func (t *Turn) keys() []state.Key {
	a := t.Activity
	keys := []state.Key{
		conversationKey(a, a.Conversation.BaseID()),
		userKey(a),
	}
	if a.Conversation.ID != a.Conversation.BaseID() {
		keys = append(keys, conversationKey(a, a.Conversation.ID))
	}
	if a.Conversation.Personal() {
		keys = append(keys, homeKey(userKey(a)))
	}
	return keys
}

// load reads the turn's state in one round trip.
func (t *Turn) load(ctx context.Context) (err error) {
	ctx, s := step(ctx, "load")
	defer func() { s.end(err) }()
	keys := t.keys()
	scopes, err := t.bot.cfg.Store.Load(ctx, keys...)
	if err != nil && len(scopes) != len(keys) {
		return err
	}
	t.loaded(scopes) // what cannot be read can still be deleted
	return nil
}

// loaded takes the scopes of [Turn.keys].
func (t *Turn) loaded(scopes []*state.Scope) {
	if last := len(scopes) - 1; t.Activity.Conversation.Personal() {
		scopes, t.home = scopes[:last], scopes[last]
	}
	t.scopes = scopes
	for _, scope := range scopes {
		t.unreadable = errors.Join(t.unreadable, scope.Err())
	}
	t.Conversation, t.User, t.Thread = scopes[0], scopes[1], scopes[0]
	if len(scopes) > 2 {
		t.Thread = scopes[2]
	}
}

// save writes what changed, and in the same step how far the turn is. From here on
// what was done in state counts as done. Where somebody else changed the same state
// meanwhile, both changes are kept.
func (t *Turn) save(ctx context.Context) (err error) {
	_, s := step(ctx, "save")
	defer func() { s.end(err) }()
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("save state: %w", err)
	}
	ctx = s.in(zerolog.Ctx(ctx).WithContext(t.lane)) // what has begun is not cut off by the turn's time
	if err := t.listPlace(ctx); err != nil {
		t.saveFailed = true
		return err
	}
	err = t.merging(ctx, func() error {
		journal, err := t.journal()
		if err != nil {
			return err
		}
		return t.hold.Save(ctx, journal, t.scopes...)
	})
	if err != nil {
		t.saveFailed = true
		return err
	}
	t.kept = append(t.kept, t.unsaved...)
	t.unsaved, t.remembered = nil, t.recorded
	return nil
}

// finish ends the turn: what it changed since, its answer, the end of its journal
// and of its place in the queue are one step. It reports whether the lane has
// another one. Once the replies have left, Redis is waited for.
func (t *Turn) finish(ctx context.Context) (more bool, err error) {
	ctx, s := step(ctx, "finish")
	defer func() { s.end(err) }()
	answer, err := t.encodeAnswer()
	if err != nil {
		return false, err
	}
	ctx, cancel := t.bot.workers.outlive(ctx, finishWithin)
	defer cancel()
	if t.done || t.saveFailed {
		t.scopes = nil
	} else if err := t.saveElsewhere(ctx); err != nil {
		return false, err
	}
	t.keepHome(ctx)
	for again := true; again; {
		if err = t.listPlace(ctx); err == nil {
			err = t.merging(ctx, func() (err error) {
				more, err = t.hold.Finish(ctx, answer, t.scopes...)
				return err
			})
		}
		again = errors.Is(err, state.ErrUnavailable) && len(t.Sent) > 0 && ctx.Err() == nil
	}
	if err == nil {
		t.bot.waiters.tell(t.ID, answer)
	}
	return more, err
}

// saveElsewhere saves the person's state, which no step can write together with the
// queue, when it was changed and nothing that was sent has saved it. With it goes a
// journal that leaves only the end to be done.
func (t *Turn) saveElsewhere(ctx context.Context) error {
	if t.scopes == nil {
		return nil
	}
	changes, err := t.User.Changes()
	if err != nil || len(changes.Values) == 0 {
		return err
	}
	return t.save(ctx)
}

// merging does a write again, as long as somebody else changed the same state, on
// the newest state with the turn's own changes merged in.
func (t *Turn) merging(ctx context.Context, write func() error) error {
	for attempt := 0; ; attempt++ {
		err := write()
		var lost *state.ConflictError
		if !errors.As(err, &lost) || attempt == maxMerges {
			return err
		}
		zerolog.Ctx(ctx).Info().Int("attempt", attempt+1).Msg("state changed meanwhile, merging")
		if err := t.rebase(ctx, lost.Conflicted); err != nil {
			return err
		}
		if attempt > 0 { // so that rivals do not meet again and again
			wait(ctx, rand.N(5*time.Millisecond<<min(attempt, 5)), nil)
		}
	}
}

func (t *Turn) rebase(ctx context.Context, keys []state.Key) error {
	fresh, err := t.bot.cfg.Store.Load(ctx, keys...)
	if err != nil {
		return err
	}
	for _, scope := range t.scopes {
		if i := slices.Index(keys, scope.Key()); i >= 0 {
			if err := scope.Rebase(fresh[i]); err != nil {
				return err
			}
		}
	}
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

// takeBack removes the turn from the history, where its save put it though it then
// failed.
func (t *Turn) takeBack() {
	history := state.Of[prompts.History](t.Thread)
	if last := len(history.Turns) - 1; last >= 0 && history.Turns[last].From == t.Activity.From.ID {
		history.Turns = history.Turns[:last]
	}
}
