package bot

import (
	"time"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/state"
)

// sameClick is how long a second click on the same card button is the same click, if
// nobody saw an answer to the first.
const sameClick = time.Minute

// duplicatesOf returns what identifies the delivery of an activity, so that it is
// handled once: channels send one again whose answer was late. Without an id
// nothing is ever taken for a duplicate.
func duplicatesOf(a *activity.Activity) []state.Duplicate {
	var all []state.Duplicate
	if a.ID != "" {
		all = append(all, state.Duplicate{ID: "activity\n" + a.Conversation.ID + "\n" + string(a.Type) + "\n" + a.ID})
	}
	if click := clickOf(a); click != "" {
		all = append(all, state.Duplicate{ID: click, For: sameClick})
	}
	return all
}

// clickOf identifies what was clicked by whom, since a click whose answer was late comes
// again under another id, too; "": it is no click.
func clickOf(a *activity.Activity) string {
	switch {
	case isSubmit(a):
		return "submit\n" + a.ReplyToID + "\n" + a.From.ID + "\n" + string(a.Value)
	case isExecute(a):
		return "execute\n" + a.ReplyToID + "\n" + a.From.ID + "\n" + string(a.Value)
	}
	return ""
}

// isExecute reports whether the activity is the click on a card's Action.Execute.
func isExecute(a *activity.Activity) bool { return a.Type == activity.Invoke && a.Name == cardInvoke }

// isSubmit reports whether the activity is the click on a card's submit button.
func isSubmit(a *activity.Activity) bool {
	return a.Type == activity.Message && a.Text == "" && len(a.Value) > 0 && a.Value.Kind() != 'n'
}
