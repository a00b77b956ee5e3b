package bot

import (
	"time"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/state"
)

// sameClick is how long a second click on the same card button is the same click.
const sameClick = time.Minute

// duplicatesOf returns what identifies the delivery of an activity, so that it is
// handled once: channels send one again whose answer was late. Without an id
// nothing is ever taken for a duplicate.
func duplicatesOf(a *activity.Activity) []state.Duplicate {
	var all []state.Duplicate
	if a.ID != "" {
		all = append(all, state.Duplicate{ID: "activity\n" + a.Conversation.ID + "\n" + string(a.Type) + "\n" + a.ID})
	}
	if isSubmit(a) {
		all = append(all, state.Duplicate{ID: "submit\n" + a.ReplyToID + "\n" + a.From.ID + "\n" + string(a.Value), For: sameClick})
	}
	return all
}

// isSubmit reports whether the activity is the click on a card's submit button.
func isSubmit(a *activity.Activity) bool {
	return a.Type == activity.Message && a.Text == "" && len(a.Value) > 0 && a.Value.Kind() != 'n'
}
