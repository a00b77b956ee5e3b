package turn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
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
	// tellWithin bounds the one sentence about a failure, which may have to leave after
	// the turn's own time is over.
	tellWithin = 20 * time.Second
	// settleWithin bounds a save at the end of the process.
	settleWithin = 5 * time.Second
)

// fail tells the person of a failure, and makes state agree with that: what was done for
// good is kept with what was noted of it, nothing else is, and a turn that did nothing is
// no part of the history. It reports whether the queue has a next record; its error is that
// of a step which has to be done elsewhere or later.
func (t *Turn) fail(ctx context.Context, failure error) (more bool, err error) {
	ctx, cancel := t.engine.workers.outlive(ctx, tellWithin)
	defer cancel()
	if w := t.rec.Wait; w != nil && w.Approval != nil && t.saveFault == nil {
		t.renote(w.Approval, "["+w.Approval.Action+" needs approval, but nobody could be asked.]")
		t.kept = append(t.kept, "") // the note is to be saved
	}
	switch {
	case t.scopes == nil || t.aside:
	case t.saveFault == nil && t.rec.Remembered && len(t.kept) == 0:
		t.takeBack()
	case t.saveFault != nil, t.fault != nil, len(t.kept) == 0 && !t.resumed:
		t.scopes = nil
	default:
		t.kept = append(t.kept, t.fresh...)
	}
	t.fresh = nil
	said := t.account(cmp.Or(t.instead, t.explain(failure)))
	if t.Activity.Type == activity.Invoke {
		t.Answer(t.engine.cfg.OwnAnswer(t, said))
	}
	t.rec.Run, t.rec.Outbox, t.rec.Wait, t.rec.Phase = nil, nil, nil, Failed
	if t.IsMessage() && reachable(failure) {
		err := t.Tell(ctx, said)
		if err != nil && t.leaves(err) {
			return false, err
		}
		if err != nil {
			zerolog.Ctx(ctx).Error().Str("error", cause(err)).Msg("the person was not told of the failure")
		}
		t.clean, t.rec.Phase = err == nil, Failed
	}
	return t.end(ctx)
}

// tellDeadLetter tells the person, where that is possible, and returns the answer for who
// waits for one.
func (t *Turn) tellDeadLetter(ctx context.Context, dead *deadLetter) []byte {
	said := t.account(cmp.Or(dead.say, "Sorry, I could not finish this. Somebody has to look at it."))
	if t.Activity.Type == activity.Invoke {
		t.Answer(t.engine.cfg.OwnAnswer(t, said))
	}
	var unsent *sendError
	if t.IsMessage() && t.lease.Err() == nil && !errors.As(dead, &unsent) {
		if err := t.deliver(ctx, t.Message(said)); err != nil {
			zerolog.Ctx(ctx).Error().Str("error", cause(err)).Msg("the person was not told of the dead letter")
		}
	}
	answer, err := t.encodeAnswer()
	if err != nil {
		zerolog.Ctx(ctx).Error().Err(err).Msg("a dead letter is left without an answer")
	}
	return answer
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

// account adds to a sentence what was done before, and how to name the turn to an
// operator. It never holds an error's own text.
func (t *Turn) account(said string) string {
	if untold := t.untold(); untold != "" {
		said += " " + untold
	} else if done := strings.Join(slices.DeleteFunc(slices.Clone(t.kept), func(name string) bool { return name == "" }), ", "); done != "" {
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

// explain says in words for the person what happened.
func (t *Turn) explain(failure error) string {
	var fromModel *models.Error
	var noPlan *plan.Fault
	var unsent *sendError
	var limit *LimitError
	var budget *actions.BudgetError
	switch {
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
		return explainModel(fromModel.Kind, t.engine.cfg.FilteredText)
	case errors.Is(failure, errChanged):
		return "Sorry, things have changed since I asked for approval, so I did not do it. Please ask me again."
	case errors.As(failure, &noPlan):
		return "Sorry, I could not make a plan for that. Please try other words."
	case errors.Is(failure, context.DeadlineExceeded):
		return "Sorry, this took too long, so I stopped. Please try again."
	case errors.Is(failure, context.Canceled):
		return "Sorry, I was shut down in the middle of this. Please try again."
	}
	return t.explainState(failure)
}

func (t *Turn) explainState(failure error) string {
	var conflict *state.ConflictError
	switch {
	case errors.Is(failure, state.ErrTooLarge) && t.fault == nil:
		return "Sorry, that is more than I can keep, so I did not keep it."
	case errors.As(failure, &conflict) && len(conflict.Saved) > 0:
		return "Sorry, somebody else changed the same things at that moment. Please look whether I kept this, and try again."
	case errors.Is(failure, state.ErrConflict):
		return "Sorry, somebody else changed the same things at that moment, so I kept nothing of this. Please try again."
	case errors.Is(failure, state.ErrUnavailable) && t.saveFault != nil:
		return "Sorry, I lost touch with my memory, so I cannot tell whether I kept this. Please look in a moment."
	case errors.Is(failure, state.ErrUnavailable):
		return "Sorry, I cannot reach my memory right now, so I did nothing. Please try again in a moment."
	case t.fault != nil, errors.Is(failure, state.ErrValue):
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
