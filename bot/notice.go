package bot

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/state"
)

const (
	// maxNotice is how many messages one notice may have.
	maxNotice = 50
	// lateAfter is from when on a notice says that it is late.
	lateAfter = 5 * time.Minute
	// maxSentNotices is how many notices a conversation remembers.
	maxSentNotices = 20
)

// notice is what a turn sends that answers nothing, in its item.
type notice struct {
	Messages []jsontext.Value `json:"messages"`
	// Known is the conversation as it was known when the notice was kept: its state may
	// be gone by the time that it is due.
	Known reference `json:"known"`
	Due   time.Time `json:"due,omitzero"`   // in the zone that people are told it in
	Keyed bool      `json:"keyed,omitzero"` // the turn's id stands for its key
	Topic string    `json:"topic,omitempty"`
	Memo  string    `json:"memo,omitempty"`
}

// compose makes the messages of a notice to the conversation that a is of.
func compose(n *actions.Notice, a *activity.Activity) ([]jsontext.Value, error) {
	var list []*activity.Activity
	for _, part := range split(n.Text) {
		if strings.TrimSpace(part) == "" {
			continue
		}
		list = append(list, &activity.Activity{Type: activity.Message, Text: part, TextFormat: "markdown"})
	}
	for _, one := range n.Activities {
		if one == nil || one.Type == "" {
			return nil, errors.New("an activity of the notice has no type")
		}
		list = append(list, one)
	}
	if len(list) == 0 || len(list) > maxNotice {
		return nil, fmt.Errorf("a notice of %d messages", len(list))
	}
	for i, one := range list {
		list[i] = into(a, one)
	}
	messages, err := encodeAll(list)
	for _, m := range messages {
		if err == nil {
			err = activity.CheckSize(m)
		}
	}
	return messages, err
}

// into is a copy of m that goes into the conversation of a.
func into(a, m *activity.Activity) *activity.Activity {
	there, out := activity.To(a.Reference(), m.Type), *m
	out.ChannelID, out.ServiceURL, out.Conversation = there.ChannelID, there.ServiceURL, there.Conversation
	out.From, out.Recipient = there.From, there.Recipient
	return &out
}

// find makes the turn one of its conversation as that is known now. It is false when
// nothing can be sent there.
func (t *Turn) find(ctx context.Context) bool {
	known := *state.Of[reference](t.Conversation)
	if known == (reference{}) {
		known = t.notice.Known
	}
	if why := t.bot.usable(&known); why != "" {
		zerolog.Ctx(ctx).Warn().Str("reason", why).Msg("a notice was dropped: nothing can be sent there")
		t.bot.meter.reply("given_up")
		return false
	}
	t.Activity, t.signed = known.in(actions.To(t.Activity)), known.Signed
	return true
}

// sentNotices are the last notices with a key that went to a conversation, by their
// turns. They are part of its state.
type sentNotices struct {
	Turns []string `json:"turns,omitempty"`
}

// first notes that the notice is sent, and is false when it was before.
func (t *Turn) first() bool {
	sent := state.Of[sentNotices](t.Conversation)
	if !t.notice.Keyed {
		return true
	}
	if slices.Contains(sent.Turns, t.ID) {
		return false
	}
	sent.Turns = append(sent.Turns, t.ID)
	sent.Turns = slices.Delete(sent.Turns, 0, max(0, len(sent.Turns)-maxSentNotices))
	return true
}

// sendNotice sends what the turn is there for.
func sendNotice(ctx context.Context, t *Turn) error {
	if !t.first() {
		zerolog.Ctx(ctx).Info().Msg("a notice that was sent before is not sent again")
		return nil
	}
	list, err := decodeAll(t.notice.Messages)
	if err != nil {
		return &parkError{reason: "its messages cannot be read", err: err}
	}
	for i, m := range list {
		list[i] = into(t.Activity, m)
	}
	if due := t.notice.Due; !due.IsZero() && time.Since(due) > lateAfter {
		list = append(list, t.message("This should have come on "+due.Format("Monday, 2 January at 15:04")+"."))
	}
	return t.Send(ctx, list...)
}
