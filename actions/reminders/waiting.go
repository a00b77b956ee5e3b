package reminders

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
)

// waiting are the reminders of the person that may be spoken of here, the next first.
func waiting(ctx context.Context, turn *actions.Turn) ([]actions.Pending, error) {
	if turn.Notifier == nil {
		return nil, nil
	}
	all, err := turn.Notifier.Notices(ctx, topic)
	here := &turn.Activity.Conversation
	if !here.Personal() {
		all = slices.DeleteFunc(all, func(p actions.Pending) bool {
			there := activity.Conversation{}
			there.ID = p.Conversation
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
		return actions.Text("There are no reminders."), nil
	}
	return actions.Text("%s", list(turn, all)), nil
}

// list is the reminders as markdown.
func list(turn *actions.Turn, all []actions.Pending) string {
	now, lines := time.Now(), make([]string, len(all))
	for i, p := range all {
		lines[i] = fmt.Sprintf("- %s: %s, %s", short(p.ID), p.Memo, told(p.At.In(turn.Activity.Zone()), now))
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
		return actions.Unchanged("There is no such reminder (any more)."), nil
	case len(found) > 1:
		return actions.Fail("there are several, say which by its id:\n%s", list(turn, found)), nil
	}
	gone, err := turn.Notifier.Withdraw(ctx, found[0])
	switch {
	case err != nil:
		return actions.Result{}, err
	case !gone:
		return actions.Unchanged("The reminder %s has just come.", short(found[0].ID)), nil
	}
	return actions.Text("Cancelled the reminder %s: %s.", short(found[0].ID), found[0].Memo), nil
}

// meant are the reminders of that id, else those that are about it.
func meant(all []actions.Pending, wanted string) []actions.Pending {
	var byID, about []actions.Pending
	for _, p := range all {
		switch memo := strings.ToLower(p.Memo); {
		case wanted == p.ID, wanted == short(p.ID):
			byID = append(byID, p)
		case strings.Contains(memo, wanted):
			about = append(about, p)
		}
	}
	if len(byID) > 0 {
		return byID
	}
	return about
}
