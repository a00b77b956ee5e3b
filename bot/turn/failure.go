package turn

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/connector"
	"github.com/planbot-go/planbot/internal/texts"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner/plan"
	"github.com/planbot-go/planbot/state"
	"github.com/planbot-go/planbot/state/inbox"
)

var (
	// errLater stops the work on a turn for now. The turn keeps its place in the queue until its
	// Wait is over.
	errLater = errors.New("to be tried again later")
	// errRefused is how a step ends whose action says that it failed.
	errRefused = errors.New("the action refused")
	// errUnsent is a reply that could not be sent.
	errUnsent = errors.New("send reply")
)

// is reports whether err is or wraps an E.
func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// deadLetter stops the work on a turn until an operator has looked at it.
type deadLetter struct {
	reason string     // for the operator
	err    error      // may be nil
	say    texts.Text // for the person; "": that it could not be finished
}

func (e *deadLetter) Error() string {
	if e.err == nil {
		return e.reason
	}
	return e.reason + ": " + Cause(e.err)
}

func (e *deadLetter) Unwrap() error { return e.err }

// The limits of a turn, see [LimitError].
const (
	limitSteps = "steps"
	limitSame  = "same calls"
	limitText  = "text"
	limitSays  = "messages"
)

// LimitError is the error of a turn that exceeded one of its limits: "steps" (MaxSteps of the bot's
// Config), "same calls" (MaxSameCalls), "text" (what variables may fill into a SAY) or "messages"
// (Budget.Messages). The budget of tokens and money has its own error, [actions.BudgetError].
type LimitError struct{ Limit string }

func (e *LimitError) Error() string { return "the turn went over its limit of " + e.Limit }

// reachable reports whether the bot can still reach the person. After a failed send it can only if
// this one message was refused or could not be sent, not if the bot or the conversation was
// refused.
func reachable(failure error) bool {
	if !errors.Is(failure, errUnsent) {
		return true
	}
	var refused *connector.Error
	return errors.Is(failure, connector.ErrBadCall) || errors.As(failure, &refused) && (refused.Status == http.StatusBadRequest ||
		refused.Status == http.StatusRequestEntityTooLarge || refused.Status >= http.StatusInternalServerError)
}

// explain says in words for the person what happened.
func explain(t *Turn, failure error) texts.Text {
	var fromModel *models.Error
	var limit *LimitError
	unread := t.docs.fault != nil
	switch {
	case errors.Is(failure, actions.ErrFileGone):
		return "Sorry, I can't open that file any more. Please send it again."
	case errors.Is(failure, actions.ErrFileTooLarge):
		return "Sorry, that file is too large for me. I read files of up to 20 MB."
	case errors.Is(failure, actions.ErrFileDenied):
		return "Sorry, I'm not allowed to open that file for you."
	case errors.Is(failure, actions.ErrUncertain):
		return "Sorry, I lost the connection in the middle of this. Please check before you ask me again."
	case errors.Is(failure, errUnsent):
		return "Sorry, part of my answer could not be sent."
	case errors.As(failure, &limit) && limit.Limit == limitSame:
		return "Sorry, I was going in circles, so I stopped."
	case errors.As(failure, &limit) && limit.Limit == limitText:
		return "Sorry, my answer got too long, so I stopped."
	case errors.As(failure, &limit) && limit.Limit == limitSays:
		return "Sorry, answering that would take too many messages, so I stopped. Please ask for less at a time."
	case errors.As(failure, &limit):
		return "Sorry, this took too many steps, so I stopped."
	case is[*actions.BudgetError](failure):
		return "Sorry, this would cost more than I may spend on one message, so I stopped."
	case errors.As(failure, &fromModel):
		return explainModel(t, fromModel.Kind)
	case errors.Is(failure, errChanged):
		return "Sorry, things have changed since I asked for approval, so I didn't do it. Please ask me again."
	case is[*plan.Fault](failure):
		return "Sorry, I could not make a plan for that. Please try other words."
	case errors.Is(failure, context.DeadlineExceeded):
		return "Sorry, this took too long, so I stopped. Please try again."
	case errors.Is(failure, context.Canceled):
		return "Sorry, I was shut down in the middle of this. Please try again."
	case errors.Is(failure, state.ErrTooLarge) && !unread:
		return "Sorry, that's more than I can store, so I didn't save it."
	case errors.Is(failure, errHalfSaved):
		return "Sorry, someone else changed the same thing at the same time. Please check whether I saved this, and try again."
	case errors.Is(failure, state.ErrConflict):
		return "Sorry, someone else changed the same thing at the same time, so I didn't save this. Please try again."
	case (unread || errors.Is(failure, state.ErrValue)) && commandOff(t, forgetCommand):
		return "Sorry, I can't read what I stored here. Whoever runs this bot has to fix that."
	case unread, errors.Is(failure, state.ErrValue):
		return "Sorry, I can't read what I stored here. If whoever runs this bot can't fix it, /forget yes deletes it."
	default:
		return "Sorry, something went wrong on my side. Please try again."
	}
}

// Cause is what the log may include of an error: nothing that a person, a model or a channel wrote.
func Cause(err error) string {
	var noPlan *plan.Fault
	var entity *actions.EntityError
	var refused *connector.Error
	switch {
	case errors.As(err, &noPlan):
		return "no plan that could run: " + string(noPlan.Kind)
	case errors.As(err, &entity):
		return entity.Fault()
	case errors.As(err, &refused) && refused.HeldBack:
		return "held back to stay below the limits of Teams"
	case refused != nil:
		return fmt.Sprintf("the connector answered %d %s", refused.Status, http.StatusText(refused.Status))
	default:
		return err.Error()
	}
}

// KindOf names an error for metrics, traces and the like. There are few names, and none quotes anybody.
func KindOf(err error) string {
	var ofModel *models.Error
	var ofPlan *plan.Fault
	var ofChannel *connector.Error
	switch {
	case errors.Is(err, errRefused):
		return "refused"
	case is[*deadLetter](err):
		return "dead_letter"
	case errors.Is(err, errLater):
		return "later"
	case errors.Is(err, inbox.ErrLost):
		return "lease_lost"
	case errors.Is(err, state.ErrUnavailable):
		return "state_unavailable"
	case errors.Is(err, inbox.ErrFull):
		return "inbox_full"
	case errors.As(err, &ofModel):
		return ofModel.Kind
	case errors.As(err, &ofPlan):
		return string(ofPlan.Kind)
	case errors.As(err, &ofChannel):
		return strconv.Itoa(ofChannel.Status)
	case is[*LimitError](err), is[*actions.BudgetError](err):
		return "limit"
	case errors.Is(err, errPanic):
		return "panic"
	case errors.Is(err, state.ErrConflict):
		return "conflict"
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case errors.Is(err, context.Canceled):
		return "canceled"
	default:
		return "_OTHER"
	}
}

// filteredText is said when the content filter of the model's provider stopped a turn.
const filteredText texts.Text = "Sorry, the content filter of the AI model stopped this. Please try other words."

func explainModel(t *Turn, kind string) texts.Text {
	if kind == models.TooLong && commandOff(t, resetCommand) {
		return "Sorry, that's too long for the AI model. Please shorten it."
	}
	switch kind {
	case models.Throttled:
		return "Sorry, the AI model is too busy right now. Please try again in a minute."
	case models.Quota:
		return "Sorry, the account of the AI model is used up. Whoever runs this bot has to fix that."
	case models.TooLong:
		return "Sorry, that's too long for the AI model. Please shorten it, or start over with /reset."
	case models.Filtered:
		return filteredText
	case models.Timeout:
		return "Sorry, the AI model did not answer in time. Please try again."
	case models.Auth:
		return "Sorry, the AI model refused my credentials. Whoever runs this bot has to fix that."
	default:
		return "Sorry, the AI model isn't available right now. Please try again."
	}
}
