package bot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/prompts"
	"github.com/planbot-go/planbot/state"
)

// place is a conversation that holds what a person said: in its history, an approval or
// a notice for later. Their places are a set beside the person's state, so that /forget
// finds them all, and so that turns in many conversations never race for it.
type place struct {
	conversation string
	personal     bool
}

const (
	personalPlace = "personal "
	sharedPlace   = "shared "
)

// member is the place in the set.
func (p place) member() string {
	if p.personal {
		return personalPlace + p.conversation
	}
	return sharedPlace + p.conversation
}

// placeOf reads a member of the set.
func placeOf(member string) (p place, ok bool) {
	if id, ok := strings.CutPrefix(member, personalPlace); ok {
		return place{id, true}, true
	}
	id, ok := strings.CutPrefix(member, sharedPlace)
	return place{id, false}, ok
}

// here is the turn's conversation.
func (t *Turn) here() place {
	return place{t.Activity.Conversation.ID, t.Activity.Conversation.Personal()}
}

// placesKey is where the places of a person are.
func placesKey(person state.Key) state.Key { return person.Under("notes", "places") }

// listPlace puts the conversation among the person's places. It goes before the first
// write that has their words in it: a place without words costs nothing, words without a
// place outlive /forget. When Redis is away, that write would not be done either and the
// turn waits. When Redis refuses, which nobody can do anything about here, the turn
// goes on, and what was said is not kept in the history.
func (t *Turn) listPlace(ctx context.Context) error {
	if t.listed || !t.recorded || t.scopes == nil {
		return nil
	}
	err := t.bot.inbox.Join(ctx, placesKey(userKey(t.Activity)), t.here().member())
	if err == nil || errors.Is(err, state.ErrUnavailable) || ctx.Err() != nil {
		t.listed = err == nil
		return err
	}
	zerolog.Ctx(ctx).Error().Err(err).Msg("could not record this conversation for /forget, so its history is not kept")
	t.takeBack()
	t.recorded = false
	return nil
}

// forgetPerson deletes the person's state, their personal conversations, and
// what they said in others. What is of this conversation goes with the next save, after
// which [Turn.leavePlace] is due.
func forgetPerson(ctx context.Context, t *Turn) error {
	if err := t.forgetElsewhere(ctx); err != nil {
		return err
	}
	home, err := t.bot.cfg.Store.Load(ctx, homeKey(userKey(t.Activity)))
	if len(home) == 0 {
		return err
	}
	home[0].Delete() // also one that cannot be read
	t.home, t.scopes = nil, append(t.scopes, home[0])
	t.User.Delete()
	here := t.here()
	asker := t.Activity.From.ID
	if here.personal {
		asker = "" // all of them
	}
	if err := t.withdrawAll(ctx, here); err != nil {
		return err
	}
	if err := t.forgetApprovals(ctx, asker); err != nil {
		return err
	}
	if here.personal {
		t.Conversation.Delete()
		t.Thread.Delete()
	} else {
		state.Of[prompts.History](t.Thread).Forget(t.Activity.From.ID)
	}
	return nil
}

// leavePlace takes the conversation from the person's places, whose words are deleted
// from it. Nothing depends on it.
func (t *Turn) leavePlace(ctx context.Context) {
	if err := t.bot.inbox.Leave(ctx, placesKey(userKey(t.Activity)), t.here().member()); err != nil {
		zerolog.Ctx(ctx).Warn().Err(err).Msg("could not remove the conversation from the person's /forget list (harmless)")
	}
}

// forgetElsewhere deletes what the person said in all other conversations. One of them whose
// state cannot be read does not keep the rest.
func (t *Turn) forgetElsewhere(ctx context.Context) error {
	var fault error
	err := t.bot.inbox.Drain(ctx, placesKey(userKey(t.Activity)), func(members []string) ([]string, error) {
		done, err := t.forgetPlaces(ctx, members)
		if errors.Is(err, state.ErrUnavailable) || ctx.Err() != nil {
			return nil, err
		}
		fault = cmp.Or(fault, err)
		return done, nil
	})
	return cmp.Or(err, fault)
}

// forgetPlaces deletes what the person said in some other conversations, all at the same
// time. Not done are those in which somebody is at work: such a turn may have listed its
// conversation before this, and may save words after it.
func (t *Turn) forgetPlaces(ctx context.Context, members []string) (done []string, err error) {
	busy, faults := make([]bool, len(members)), make([]error, len(members))
	var work sync.WaitGroup
	for i, member := range members {
		p, ok := placeOf(member)
		busy[i] = p == t.here()
		if !ok || busy[i] {
			continue
		}
		work.Go(func() {
			defer func() {
				if p := recover(); p != nil {
					faults[i] = fmt.Errorf("%w: %v\n%s", errPanic, p, debug.Stack())
				}
			}()
			var waiting int
			if waiting, faults[i] = t.bot.inbox.Queued(ctx, t.laneAt(p.conversation)); faults[i] == nil {
				busy[i], faults[i] = waiting > 0, t.forgetPlace(ctx, p)
			}
		})
	}
	work.Wait()
	for i, member := range members {
		if !busy[i] && faults[i] == nil {
			done = append(done, member)
		}
	}
	return done, errors.Join(faults...)
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

// forgetPlace deletes what the person said in another conversation, on the newest state as
// long as a turn changes it meanwhile.
func (t *Turn) forgetPlace(ctx context.Context, p place) error {
	for attempt := 0; ; attempt++ {
		err := t.tryForgetPlace(ctx, p)
		if !errors.Is(err, state.ErrConflict) || attempt == maxMerges {
			return err
		}
		wait(ctx, rand.N(5*time.Millisecond<<min(attempt, 5)), nil)
	}
}

func (t *Turn) tryForgetPlace(ctx context.Context, p place) error {
	a := t.Activity
	there := activity.Conversation{}
	there.ID = p.conversation
	keys := []state.Key{conversationKey(a, there.ID)}
	if base := there.BaseID(); base != there.ID {
		keys = append(keys, conversationKey(a, base)) // which keeps the approvals of its threads
	}
	scopes, err := t.bot.cfg.Store.Load(ctx, keys...)
	if err != nil && !(p.personal && len(scopes) == len(keys)) { // what is deleted need not be read
		return err
	}
	asker := a.From.ID
	if p.personal {
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
		if p.personal {
			scope.Delete()
		} else {
			state.Of[prompts.History](scope).Forget(a.From.ID)
		}
	}
	return t.bot.cfg.Store.Save(ctx, append(scopes, docs...)...)
}
