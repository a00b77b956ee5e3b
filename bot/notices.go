package bot

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/state"
)

// Notices are what the person of the turn has waiting, see [actions.Notifier].
func (t *Turn) Notices(ctx context.Context, topic string) ([]actions.Pending, error) {
	var all []actions.Pending
	seen := map[string]bool{}
	add := func(lanes ...state.Lane) error {
		timers, err := t.bot.inbox.Timers(ctx, lanes...)
		if err != nil {
			return err
		}
		for _, timer := range timers {
			if timer.Owner != t.owner() || seen[timer.ID] {
				continue
			}
			i, a, err := readItem(timer.Body)
			if err != nil {
				return fmt.Errorf("notice %s: %w", timer.ID, err)
			}
			if i.Notice != nil && i.Notice.Topic == topic {
				seen[timer.ID] = true
				all = append(all, actions.Pending{ID: timer.ID, At: timer.At, Memo: i.Notice.Memo, Conversation: a.Conversation.ID})
			}
		}
		return nil
	}
	err := add(conversationLane(t.Activity))
	if err == nil && t.User != nil {
		err = t.bot.inbox.Members(ctx, placesKey(userKey(t.Activity)), func(members []string) error {
			var lanes []state.Lane
			for _, member := range members {
				if p, ok := placeOf(member); ok {
					lanes = append(lanes, t.laneAt(p.conversation))
				}
			}
			return add(lanes...)
		})
	}
	slices.SortStableFunc(all, func(a, b actions.Pending) int { return a.At.Compare(b.At) })
	return all, err
}

// Withdraw drops a notice of the person that waits, see [actions.Notifier].
func (t *Turn) Withdraw(ctx context.Context, p actions.Pending) (bool, error) {
	lane := t.laneAt(p.Conversation)
	n, err := t.bot.withdraw(ctx, lane, func(timer *state.Timer) bool { return timer.ID == p.ID && timer.Owner == t.owner() })
	return n > 0, err
}

// withdraw drops the timers of the lane that are meant, and counts them.
func (b *Bot) withdraw(ctx context.Context, lane state.Lane, meant func(*state.Timer) bool) (n int, err error) {
	timers, err := b.inbox.Timers(ctx, lane)
	for i := range timers {
		if !meant(&timers[i]) {
			continue
		}
		dropped, failure := b.inbox.Cancel(ctx, lane, timers[i].ID)
		if dropped {
			n++
		}
		err = cmp.Or(err, failure)
	}
	return n, err
}

// withdrawAll drops what waits for its time in a conversation: all of it in a personal
// one, else what the person asked for.
func (t *Turn) withdrawAll(ctx context.Context, in place) error {
	_, err := t.bot.withdraw(ctx, t.laneAt(in.conversation), func(timer *state.Timer) bool { return in.personal || timer.Owner == t.owner() })
	return err
}

// owner is who may withdraw what the turn leaves for later.
func (t *Turn) owner() string { return cmp.Or(t.Activity.From.ID, nobody) }

// laneAt is that of another conversation of the bot on the same channel.
func (t *Turn) laneAt(conversation string) state.Lane {
	there := activity.Conversation{}
	there.ID = conversation
	return conversationKey(t.Activity, there.BaseID()).Lane("")
}
