package turn

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot/turn/files"
	"github.com/planbot-go/planbot/models/moderation"
	"github.com/planbot-go/planbot/prompts"
	"github.com/planbot-go/planbot/state"
)

// This file is about messages that their authors edit or delete. Nothing runs again because of that:
// the history follows, and what was done stays done.

// deletedText is what a turn that goes on after a wait has in place of a message that its author deleted.
const deletedText = "[The person deleted this message.]"

// FirstForm returns the message of an edit that may be the first form of that message to address the
// bot, as somebody adds the mention that they forgot. nil: it is not, or it is so old that nobody
// knows any more whether the message was answered. Whether it was answered, only [Engine.Accept] knows:
// then the message is a duplicate.
func (e *Engine) FirstForm(t *Turn) *Turn {
	a := t.Activity
	if a.Type != activity.MessageUpdate || a.ChannelID != activity.Teams || a.DeliveryMode == activity.ExpectReplies || undeletes(a) {
		return nil
	}
	sent, err := strconv.ParseInt(a.ID, 10, 64) // Teams' ids are when a message was sent, in milliseconds
	if err != nil || time.Since(time.UnixMilli(sent)).Abs() >= e.inbox.Remembers() {
		return nil
	}
	m := *a
	m.Type = activity.Message
	raw, err := m.Encode()
	if err != nil {
		return nil
	}
	return e.NewTurn(&m, raw, t.rec.Caller.Trusted, false)
}

// undeletes reports whether the author takes back that they deleted the message.
func undeletes(a *activity.Activity) bool {
	var data struct {
		EventType string `json:"eventType"`
	}
	return json.Unmarshal(a.ChannelData, &data, json.MatchCaseInsensitiveNames(true)) == nil && strings.EqualFold(data.EventType, "undeleteMessage")
}

// Amend makes the history follow what the author of a message did with it: one that was deleted leaves the
// history, and so do a summary of it and the texts of its files; an edited one stands in its new words. Moderation judges these
// first. A message of somebody else, or one that the history does not have, changes nothing.
func (t *Turn) Amend(ctx context.Context) error {
	if t.ReadOnly() {
		return errReadOnly
	}
	a := t.Activity
	history := state.Peek[prompts.History](t.Thread)
	if err := t.Thread.Err(); err != nil {
		return fmt.Errorf("read history: %w", err)
	}
	if a.Type == activity.MessageDelete {
		if err := t.engine.files.ForgetMessage(ctx, t.conversationKey(), t.Conversation, a.From.ID, a.ID); err != nil {
			return err
		}
	}
	waits, err := t.waitsFor(ctx, a)
	if err != nil || !waits && !history.Has(a.From.ID, a.ID) {
		return err
	}
	text := ""
	if a.Type == activity.MessageUpdate {
		m := *a
		m.Type = activity.Message
		if text, err = (guard{t.exec}).edited(ctx, files.Said(&m)); err != nil {
			return err
		}
	}
	history = state.Of[prompts.History](t.Thread)
	history.Edit(a.From.ID, a.ID, text)
	if waits {
		history.Amend(a.From.ID, a.ID, text)
	}
	zerolog.Ctx(ctx).Info().Bool("deleted", text == "").Bool("waits", waits).Msg("the history follows what the author of a message did with it")
	return nil
}

// waitsFor reports whether a turn that answers the message waits: it would bring the old words back.
func (t *Turn) waitsFor(ctx context.Context, a *activity.Activity) (bool, error) {
	records, err := t.engine.inbox.Records(ctx, t.conversationKey())
	if err != nil {
		return false, err
	}
	for id, raw := range records {
		if id == t.ID || a.ID == "" || !bytes.Contains(raw, []byte(a.ID)) {
			continue
		}
		rec, err := Decode(raw)
		if err != nil || rec.Phase != waiting {
			continue // it has told the history all that it will, or an operator has to look at it
		}
		asked, err := rec.Read()
		if err == nil && asked.Type == activity.Message && asked.ID == a.ID && asked.From.ID == a.From.ID {
			return true, nil
		}
	}
	return false, nil
}

// followAuthor gives a turn that goes on after a wait the words that its message has by now.
func (t *Turn) followAuthor() {
	begins := t.rec.Phase != waiting && t.rec.Run == nil
	if begins || !t.IsMessage() || t.Thread == nil {
		return
	}
	text, ok := state.Peek[prompts.History](t.Thread).AmendedText(t.Activity.ID)
	t.amended, t.deleted = ok, ok && text == ""
	if t.deleted {
		text = deletedText
	}
	if t.amended {
		t.Text, t.rec.Text = text, text
	}
}

// settleAmended forgets the words that [Turn.followAuthor] needs. The turn is over.
func (t *Turn) settleAmended() {
	if t.amended && t.docs.writable() {
		state.Of[prompts.History](t.Thread).Settle(t.Activity.ID)
	}
}

// edited judges the words of an edited message and returns what may be kept of them. Nobody waits for a reply
// to an edit, so what was flagged or could not be judged is withheld without one.
func (g guard) edited(ctx context.Context, text string) (string, error) {
	err := g.judge(ctx, moderation.Said, text)
	switch {
	case err == nil:
		return text, nil
	case ctx.Err() != nil:
		return "", err
	case is[*stopError](err):
		return withheldText, nil
	case errors.Is(err, moderation.ErrUnjudged):
		zerolog.Ctx(ctx).Error().Str("error", cause(err)).Msg("the words of an edited message could not be judged and are withheld")
		return withheldText, nil
	}
	return "", err
}
