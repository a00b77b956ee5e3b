package bot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/connector"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner/plan"
	"github.com/planbot-go/planbot/state"
)

const (
	// tellWithin bounds the one sentence about a failure, which may have to leave
	// after the turn's own time is over.
	tellWithin = 20 * time.Second
	// settleWithin bounds what is put right in state after a question was not sent.
	settleWithin = 5 * time.Second
)

// errPanic is a panic in a route.
var errPanic = errors.New("the route panicked")

// ownUp tells the person of a failure, and makes state agree with that: what was done
// for good is kept with what was noted of it, nothing else is, and a turn that did nothing is
// no part of the history. Its error is that of the step which does all of this, and is nil
// where there is nothing more to do.
func (b *Bot) ownUp(ctx context.Context, t *Turn, failure error) error {
	if t.Activity.Type == activity.Invoke {
		t.answer = t.brokenAnswer(sentence(failure, t))
	}
	ctx, cancel := b.workers.outlive(ctx, tellWithin)
	defer cancel()
	t.run, t.outbox = nil, nil
	t.settle()
	if !t.isMessage() || !reachable(failure) {
		return nil
	}
	err := t.Tell(ctx, sentence(failure, t))
	if err != nil && !b.leaves(t, err) {
		zerolog.Ctx(ctx).Error().Str("error", cause(err)).Msg("the person was not told of the failure")
		return nil
	}
	return err
}

// settle decides what of the turn's changes is saved after a failure.
func (t *Turn) settle() {
	switch {
	case t.scopes == nil || t.detached:
	case !t.saveFailed && t.remembered && len(t.kept) == 0:
		t.takeBack()
	case t.saveFailed, t.unreadable != nil, len(t.kept) == 0 && !(t.begun && t.pending != nil):
		t.scopes, t.saveFailed, t.unsaved = nil, false, nil
	}
	t.kept, t.unsaved = append(t.kept, t.unsaved...), nil // the sentence is saved with them
}

// reachable reports whether the person may still be reached: after a failure to
// send only if this one message was refused or could not be sent, not the bot or the
// conversation.
func reachable(failure error) bool {
	var unsent *sendError
	if !errors.As(failure, &unsent) {
		return true
	}
	var refused *connector.Error
	return errors.Is(failure, connector.ErrBadCall) || errors.Is(failure, activity.ErrTooLarge) || errors.As(failure, &refused) && (refused.Status == http.StatusBadRequest ||
		refused.Status == http.StatusRequestEntityTooLarge || refused.Status >= http.StatusInternalServerError)
}

// sentence says in words for the person what happened, what was done before,
// and how to name the turn to an operator. It never holds an error's own text.
func sentence(failure error, t *Turn) string {
	return t.account(cmp.Or(t.instead, explain(failure, t)))
}

// account adds to a sentence what is known of the turn.
func (t *Turn) account(said string) string {
	if untold := t.untold(); untold != "" {
		said += " " + untold
	} else if done := names(t.kept); done != "" {
		said += " Before that I did: " + done + "."
	}
	if failed := t.failed(); failed != "" {
		said += " This failed: " + failed + "."
	}
	if len(t.uncertain) > 0 {
		said += " I cannot tell whether this was done: " + strings.Join(t.uncertain, ", ") + "."
	}
	return fmt.Sprintf("%s (turn %s)", said, t.ID)
}

func explain(failure error, t *Turn) string {
	var fromModel *models.Error
	var noPlan *plan.Fault
	var unsent *sendError
	var limit *LimitError
	var budget *actions.BudgetError
	switch {
	case t.resumes != "" && !t.begun:
		return "Sorry, I could not begin with what was decided. Say /approve " + t.resumes + " to let me try again, or /reject."
	case errors.As(failure, &unsent):
		return "Sorry, a part of my answer could not be sent."
	case errors.As(failure, &limit) && limit.Limit == LimitSame:
		return "Sorry, I was going in circles, so I stopped."
	case errors.As(failure, &limit) && limit.Limit == LimitText:
		return "Sorry, my answer would be too long to be read, so I stopped."
	case errors.As(failure, &limit) && limit.Limit == LimitSays:
		return "Sorry, answering that would take too many messages, so I stopped. Please ask for less at a time."
	case errors.As(failure, &limit):
		return "Sorry, this took too many steps, so I stopped."
	case errors.As(failure, &budget):
		return "Sorry, this would take more than I may spend on one message, so I stopped."
	case errors.As(failure, &fromModel):
		return explainModel(fromModel.Kind, t.bot.cfg.FilteredText)
	case errors.Is(failure, errChanged):
		return "Sorry, things have changed since I asked for approval, so I did not do it. Please ask me again."
	case errors.As(failure, &noPlan):
		return "Sorry, I could not make a plan for that. Please try other words."
	case errors.Is(failure, context.DeadlineExceeded):
		return "Sorry, this took too long, so I stopped. Please try again."
	case errors.Is(failure, context.Canceled):
		return "Sorry, I was shut down in the middle of this. Please try again."
	}
	return explainState(failure, t)
}

func explainState(failure error, t *Turn) string {
	var conflict *state.ConflictError
	switch {
	case errors.Is(failure, state.ErrTooLarge) && t.unreadable == nil:
		return "Sorry, that is more than I can keep, so I did not keep it."
	case errors.As(failure, &conflict) && len(conflict.Saved) > 0:
		return "Sorry, somebody else changed the same things at that moment. Please look whether I kept this, and try again."
	case errors.Is(failure, state.ErrConflict):
		return "Sorry, somebody else changed the same things at that moment, so I kept nothing of this. Please try again."
	case errors.Is(failure, state.ErrUnavailable) && t.saveFailed:
		return "Sorry, I lost touch with my memory, so I cannot tell whether I kept this. Please look in a moment."
	case errors.Is(failure, state.ErrUnavailable):
		return "Sorry, I cannot reach my memory right now, so I did nothing. Please try again in a moment."
	case t.unreadable != nil, errors.Is(failure, state.ErrValue):
		return "Sorry, I cannot read what I keep here. If whoever runs me cannot mend it, /forget deletes it."
	default:
		return "Sorry, something went wrong on my side. Please try again."
	}
}

// cause is what the log may hold of an error: nothing that a person, a model or
// a channel wrote.
func cause(err error) string {
	var noPlan *plan.Fault
	var entity *actions.EntityError
	var refused *connector.Error
	switch {
	case errors.As(err, &noPlan):
		return "no plan that could run: " + string(noPlan.Kind)
	case errors.As(err, &entity):
		return entity.Fault()
	case errors.Is(err, connector.ErrHeldBack):
		return connector.ErrHeldBack.Error()
	case errors.As(err, &refused):
		return fmt.Sprintf("the connector answered %d %s", refused.Status, http.StatusText(refused.Status))
	default:
		return err.Error()
	}
}

func explainModel(kind models.Kind, filtered string) string {
	switch kind {
	case models.Throttled:
		return "Sorry, the AI model has too much to do right now. Please try again in a minute."
	case models.TooLong:
		return "Sorry, that is too long for the AI model. Please say it shorter, or start anew with /reset."
	case models.FilteredInput, models.FilteredOutput:
		return filtered
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
	var refused *refusal
	if errors.As(err, &missing) || errors.As(err, &wrong) || errors.As(err, &refused) {
		return err.Error()
	}
	return "an internal error"
}

// maxReason is how many bytes of an action's own words are told beside a failure.
const maxReason = 200

// failed is the action that failed last, with its reason, if no plan came after it
// that could tell the person.
func (t *Turn) failed() string {
	if len(t.Rounds) == 0 {
		return ""
	}
	for _, o := range t.Rounds[len(t.Rounds)-1].Outcomes {
		if !o.Failed {
			continue
		}
		reason := strings.Join(strings.Fields(o.Text), " ")
		if len(reason) > maxReason {
			reason = strings.ToValidUTF8(reason[:maxReason], "") + " […]"
		}
		return o.Action + ", " + cmp.Or(strings.TrimRight(reason, "."), "for no reason given")
	}
	return ""
}

// names lists the actions that were done for good.
func names(done []actions.Outcome) string {
	var list []string
	for _, o := range done {
		list = append(list, o.Action)
	}
	return strings.Join(list, ", ")
}
