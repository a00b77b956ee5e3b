// Package reminders sends people reminders later, in the conversation where they asked for them.
// The bot stores waiting reminders, see [actions.Notifier]. They belong to the person.
//
// In a personal chat the bot shows all of a person's reminders. Elsewhere it shows only those
// requested there, to keep the others private. Where the channel shows cards, a reminder has buttons
// that put it off.
package reminders

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/internal/markdown"
	"github.com/planbot-go/planbot/internal/spelling"
	"github.com/planbot-go/planbot/internal/texts"
	"github.com/planbot-go/planbot/state"
)

const (
	topic   = "reminder" // marks the bot's notices that are reminders
	maxWhat = 500        // how many characters a reminder keeps
)

// Register adds the reminder actions to r.
func Register(r *actions.Registry) {
	actions.Add(r, "remindMe", "Reminds the person later; needs in_minutes or at, not both", remindMe, actions.Title("Remind me"),
		actions.Example("remind me in {in_minutes} minutes to {what}", "remind me to {what} in {in_minutes} minutes"))
	actions.Add(r, "listReminders", "Returns the person's reminders, with their ids", listReminders, actions.StateOnly,
		actions.ReturnsData, actions.Title("Show my reminders"), actions.Example("what are my reminders?", "list my reminders", "show my reminders"))
	actions.Add(r, "cancelReminder", "Cancels a reminder", cancelReminder, actions.Title("Cancel a reminder"),
		actions.Example("cancel the reminder about {reminder}", "cancel the reminder {reminder}", "cancel the {reminder} reminder"))
	actions.OnClick(r, snoozeVerb, snooze)
}

type remindIn struct {
	What    string    `json:"what" jsonschema:"what to be reminded of"`
	Minutes float64   `json:"in_minutes,omitempty" title:"Minutes"`
	At      time.Time `json:"at,omitzero" title:"Time" jsonschema:"RFC 3339 with zone"`
}

func remindMe(ctx context.Context, turn *actions.Turn, in remindIn) (actions.Result, error) {
	_, result, err := remind(ctx, turn, in)
	return result, err
}

// remind saves the reminder and returns its id; "": there is none.
func remind(ctx context.Context, turn *actions.Turn, in remindIn) (id string, _ actions.Result, _ error) {
	attempt, now := actions.AttemptOf(ctx), time.Now()
	what := spelling.OneLine(in.What, maxWhat)
	at, fault := when(in, turn.Activity.Zone(), now)
	switch {
	case turn.Notifier == nil:
		return "", actions.Fail("%s", turn.Translate("nothing can be sent later here")), nil
	case fault != "":
		return "", actions.Fail("%s", fault), nil
	case what == "":
		return "", actions.Fail("%s", turn.Translate("say what to be reminded of")), nil
	case !at.After(now) && !attempt.Again: // on a retry the reminder may already exist and be due
		return "", actions.Fail("%s", turn.Translate("that time has passed: it is now %s", now.In(at.Location()).Format(time.RFC3339))), nil
	case at.After(now.AddDate(1, 0, 0)):
		return "", actions.Fail("%s", turn.Translate("that is more than a year ahead")), nil
	}
	id, err := turn.Notifier.Notify(ctx, actions.Notice{
		Activities: []*activity.Activity{message(turn, what)}, At: at, Key: attempt.Key, Topic: topic, Memo: what,
	})
	switch {
	case errors.Is(err, actions.ErrFull):
		return "", actions.Fail("%s", turn.Translate("there are too many reminders in this conversation already")), nil
	case errors.Is(err, actions.ErrUnknownRecipient), errors.Is(err, actions.ErrUnreachable):
		return "", actions.Fail("%s", turn.Translate("nothing can be sent here later")), nil
	case err != nil:
		return "", actions.Result{}, err
	}
	return id, actions.Text("%s", turn.Translate("I will remind you %s: %s (reminder %s).", told(turn, at, now), what, short(id))), nil
}

// when returns the intended time in the person's zone, or what is wrong with it.
func when(in remindIn, zone *time.Location, now time.Time) (at time.Time, fault string) {
	const minutesAYear = 366 * 24 * 60
	switch {
	case (in.Minutes == 0) == in.At.IsZero():
		return at, "say when: give either in_minutes or at"
	case in.At.IsZero():
		minutes := max(-1, min(in.Minutes, minutesAYear+1)) // avoid an overflow
		return now.Add(time.Duration(minutes * float64(time.Minute))).In(zone), ""
	}
	_, written := in.At.Zone()
	if _, shown := now.In(zone).Zone(); written != shown {
		return in.At.In(zone), ""
	}
	// The offset is the one that the model was shown. The zone's offset may differ at that time, so
	// take it as the time on the person's clock.
	y, m, d := in.At.Date()
	return time.Date(y, m, d, in.At.Hour(), in.At.Minute(), in.At.Second(), 0, zone), ""
}

// message is the reminder to send. Outside a personal chat it mentions the person. A model may have written what
// it says, so it loads no picture.
func message(turn *actions.Turn, what string) *activity.Activity {
	what = markdown.Tame(what, nil)
	m := &activity.Activity{Type: activity.Message, ChannelID: turn.Activity.ChannelID, Text: turn.Translate("Reminder: %s", what), TextFormat: "markdown"}
	if !turn.Activity.Conversation.Personal() {
		m.Mention(turn.Activity.From)
	}
	if m.ShowsCards() {
		button := func(title texts.Text, minutes float64) activity.Button {
			return activity.Button{Title: turn.Translate(title), Verb: snoozeVerb, Data: snoozed{what, minutes, turn.Activity.From.ID}}
		}
		m.Attachments = []activity.Attachment{activity.Card{
			Fallback: turn.Translate("Ask me if you want to be reminded again."),
			Actions:  []any{button("In 10 minutes", 10), button("In 1 hour", 60), button("Tomorrow", 24*60)},
		}.Attachment()}
	}
	return m
}

const snoozeVerb = "reminders/snooze"

// snoozed is the data of a button that puts a reminder off.
type snoozed struct {
	What    string  `json:"what"`
	Minutes float64 `json:"minutes"`
	For     string  `json:"for"` // who is reminded
}

// snoozes are the reminders that the last ones were put off to, part of the person's state.
type snoozes struct {
	Last []snoozedTo `json:"last,omitempty"`
}

type snoozedTo struct {
	Message  string `json:"message"` // the channel's id of the one that was put off
	Reminder string `json:"reminder"`
}

const maxSnoozes = 20

// snooze reminds the person again. A second click, on a client that still shows the buttons, moves the
// reminder of the first.
func snooze(ctx context.Context, turn *actions.Turn, in snoozed) (actions.Result, error) {
	if in.For != turn.Activity.From.ID {
		return actions.Fail("%s", turn.Translate("This reminder is for somebody else.")), nil
	}
	id, result, err := remind(ctx, turn, remindIn{What: in.What, Minutes: in.Minutes})
	if err != nil || result.Failed() {
		return result, err
	}
	if err := replace(ctx, turn, id); err != nil {
		return actions.Result{}, err
	}
	later := activity.Card{Body: []any{activity.RichText{{Text: result.Text()}}}}
	return actions.Card(later, "%s", result.Text()).ForAll(), nil // as the reminder was
}

// replace withdraws what the clicked reminder was put off to before, and notes the new one.
func replace(ctx context.Context, turn *actions.Turn, id string) error {
	message := turn.Activity.ReplyToID
	if message == "" {
		return nil
	}
	now := snoozedTo{turn.Activity.Conversation.BaseID() + "\n" + message, id}
	all := state.Of[snoozes](turn.User)
	if at := slices.IndexFunc(all.Last, func(s snoozedTo) bool { return s.Message == now.Message }); at >= 0 {
		before := actions.Notice{ID: all.Last[at].Reminder, To: actions.Recipient{Conversation: turn.Activity.Conversation.ID}}
		all.Last = slices.Delete(all.Last, at, at+1)
		if before.ID != id { // else this is the same click again
			if _, err := turn.Notifier.Withdraw(ctx, before); err != nil {
				return err
			}
		}
	}
	all.Last = append(all.Last[max(len(all.Last)-maxSnoozes+1, 0):], now)
	return nil
}

// told describes a time in words, in its own zone. The sentences are layouts of package time.
func told(turn *actions.Turn, at, now time.Time) string {
	now = now.In(at.Location())
	var form texts.Text = "on Monday, 2 January 2006 at 15:04"
	switch day := at.Format(time.DateOnly); {
	case day == now.Format(time.DateOnly):
		form = "today at 15:04"
	case day == now.AddDate(0, 0, 1).Format(time.DateOnly):
		form = "tomorrow at 15:04"
	case at.Year() == now.Year():
		form = "on Monday, 2 January at 15:04"
	}
	said := at.Format(turn.Translate(form))
	if at.Location() == time.UTC {
		said += " UTC" // otherwise it is the person's zone
	}
	return said
}

// short is the id as shown to people and models.
func short(id string) string { return id[:min(len(id), 5)] }

// waiting returns the person's reminders that may be shown here, the next one first.
func waiting(ctx context.Context, turn *actions.Turn) ([]actions.Notice, error) {
	if turn.Notifier == nil {
		return nil, nil
	}
	all, err := turn.Notifier.Notices(ctx, topic)
	here := &turn.Activity.Conversation
	if !here.Personal() {
		all = slices.DeleteFunc(all, func(p actions.Notice) bool {
			there := activity.Conversation{}
			there.ID = p.To.Conversation
			return there.BaseID() != here.BaseID()
		})
	}
	return all, err
}

func listReminders(ctx context.Context, turn *actions.Turn, _ struct{}) (actions.Result, error) {
	all, err := waiting(ctx, turn)
	if err != nil {
		return actions.Result{}, err
	}
	if len(all) == 0 {
		return actions.Text("%s", turn.Translate("There are no reminders.")), nil
	}
	return actions.Text("%s", list(turn, all)), nil
}

// list formats the reminders as markdown.
func list(turn *actions.Turn, all []actions.Notice) string {
	now, lines := time.Now(), make([]string, len(all))
	for i, p := range all {
		lines[i] = fmt.Sprintf("- %s: %s, %s", short(p.ID), p.Memo, told(turn, p.At.In(turn.Activity.Zone()), now))
	}
	return strings.Join(lines, "\n")
}

type cancelIn struct {
	Reminder string `json:"reminder" jsonschema:"its id, or what it is about"`
}

func cancelReminder(ctx context.Context, turn *actions.Turn, in cancelIn) (actions.Result, error) {
	all, err := waiting(ctx, turn)
	if err != nil {
		return actions.Result{}, err
	}
	wanted := strings.ToLower(strings.Trim(in.Reminder, " \t\n#.\"'"))
	found := meant(all, wanted)
	switch {
	case wanted == "" || len(found) == 0:
		return actions.Unchanged("%s", turn.Translate("There is no such reminder, or it is already gone.")), nil
	case len(found) > 1:
		return actions.Fail("%s", turn.Translate("there are several; say which one by its id:\n%s", list(turn, found))), nil
	}
	gone, err := turn.Notifier.Withdraw(ctx, found[0])
	switch {
	case err != nil:
		return actions.Result{}, err
	case !gone:
		return actions.Unchanged("%s", turn.Translate("The reminder %s has just gone off.", short(found[0].ID))), nil
	}
	return actions.Text("%s", turn.Translate("Cancelled the reminder %s: %s.", short(found[0].ID), found[0].Memo)), nil
}

// meant returns the reminder with that id, or else those whose text contains wanted.
func meant(all []actions.Notice, wanted string) []actions.Notice {
	var about []actions.Notice
	for _, n := range all {
		if wanted == n.ID || wanted == short(n.ID) {
			return []actions.Notice{n}
		}
		if strings.Contains(strings.ToLower(n.Memo), wanted) {
			about = append(about, n)
		}
	}
	return about
}
