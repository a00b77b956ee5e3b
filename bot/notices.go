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
	for _, lane := range t.lanes() {
		timers, err := t.bot.inbox.Timers(ctx, lane)
		if err != nil {
			return nil, err
		}
		for _, timer := range timers {
			if timer.Owner != t.owner() {
				continue
			}
			i, a, err := readItem(timer.Body)
			if err != nil {
				return nil, fmt.Errorf("notice %s: %w", timer.ID, err)
			}
			if i.Notice != nil && i.Notice.Topic == topic {
				all = append(all, actions.Pending{ID: timer.ID, At: timer.At, Memo: i.Notice.Memo, Conversation: a.Conversation.ID})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b actions.Pending) int { return a.At.Compare(b.At) })
	return all, nil
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
	_, err := t.bot.withdraw(ctx, t.laneAt(in.Conversation), func(timer *state.Timer) bool { return in.Personal || timer.Owner == t.owner() })
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

// lanes are those of the conversations that the bot knows the person from.
func (t *Turn) lanes() []state.Lane {
	lanes := []state.Lane{conversationLane(t.Activity)}
	if t.User == nil {
		return lanes
	}
	for _, p := range state.Of[places](t.User).All {
		if lane := t.laneAt(p.Conversation); !slices.Contains(lanes, lane) {
			lanes = append(lanes, lane)
		}
	}
	return lanes
}
