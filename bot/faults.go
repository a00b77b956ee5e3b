package bot

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner"
	"github.com/planbot-go/planbot/state"
)

// tellWithin bounds the one sentence about a failure, which may have to leave
// after the turn's own time is over.
const tellWithin = 15 * time.Second

// tell sends the person one honest sentence about the failure of the turn. It
// returns the failure for the log, joined with that of the sentence if it could
// not be sent.
func (b *Bot) tell(ctx context.Context, t *Turn, failure error) error {
	if t.Activity.Type == activity.Invoke {
		t.answer = InvokeResponse{Status: 500}
		return failure
	}
	var unsent *sendError
	if !t.isMessage() || errors.As(failure, &unsent) {
		return failure
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tellWithin)
	defer cancel()
	if err := t.deliver(ctx, t.message(sentence(failure, t))); err != nil {
		return errors.Join(failure, err)
	}
	zerolog.Ctx(ctx).Debug().Msg("the person was told of the failure")
	return failure
}

// sentence says in words for the person what happened, what was done before,
// and how to name the turn to an operator. It never holds an error's own text.
func sentence(failure error, t *Turn) string {
	said := explain(failure)
	if done := names(t.kept); done != "" {
		said += " Before that I did: " + done + "."
	}
	return fmt.Sprintf("%s (turn %s)", said, t.ID)
}

func explain(failure error) string {
	var fromModel *models.Error
	var noPlan *planner.DecodeError
	switch {
	case errors.Is(failure, errTooManySteps):
		return "Sorry, this took too many steps, so I stopped."
	case errors.As(failure, &fromModel):
		return explainModel(fromModel.Kind)
	case errors.As(failure, &noPlan):
		return "Sorry, I could not make a plan for that. Please try other words."
	case errors.Is(failure, state.ErrTooLarge):
		return "Sorry, that is more than I can keep, so I did not keep it."
	case errors.Is(failure, state.ErrConflict):
		return "Sorry, somebody else changed the same things at that moment, so I kept nothing of this. Please try again."
	case errors.Is(failure, state.ErrUnavailable):
		return "Sorry, I cannot reach my memory right now, so I kept nothing of this. Please try again in a moment."
	case errors.Is(failure, context.DeadlineExceeded):
		return "Sorry, this took too long, so I stopped. Please try again."
	case errors.Is(failure, context.Canceled):
		return "Sorry, I was shut down in the middle of this. Please try again."
	default:
		return "Sorry, something went wrong on my side. Please try again."
	}
}

func explainModel(kind models.Kind) string {
	switch kind {
	case models.Throttled:
		return "Sorry, the AI model has too much to do right now. Please try again in a minute."
	case models.TooLong:
		return "Sorry, that is too long for the AI model. Please say it shorter, or start anew with /reset."
	case models.FilteredInput, models.FilteredOutput:
		return "Sorry, the content filter of the AI model stopped this. Please try other words."
	case models.Timeout:
		return "Sorry, the AI model did not answer in time. Please try again."
	case models.Auth:
		return "Sorry, the AI model does not let me in. Whoever runs me has to look at that."
	default:
		return "Sorry, the AI model cannot be used right now. Please try again."
	}
}

// safeReason says why an action failed, in words that the model and the person
// may read.
func safeReason(err error) string {
	var missing *actions.MissingError
	var wrong *actions.EntityError
	if errors.As(err, &missing) || errors.As(err, &wrong) {
		return err.Error()
	}
	return "an internal error"
}

// names lists the actions that were done for good.
func names(done []actions.Outcome) string {
	var list []string
	for _, o := range done {
		list = append(list, o.Action)
	}
	return strings.Join(list, ", ")
}
