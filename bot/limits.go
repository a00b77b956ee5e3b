package bot

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// Limit names what a turn may have only so much of.
type Limit string

// The limits of a [LimitError].
const (
	LimitSteps Limit = "steps"      // Config.MaxSteps
	LimitSame  Limit = "same calls" // Config.MaxSameCalls
	LimitText  Limit = "text"       // planner.MaxExpanded, in a SAY
	LimitSays  Limit = "messages"   // Config.Budget.Messages
)

// LimitError is the error of a turn that went over one of the limits of its
// [Config]. The budget of tokens and money has an error of its own,
// [actions.BudgetError].
type LimitError struct{ Limit Limit }

func (e *LimitError) Error() string { return "the turn went over its limit of " + string(e.Limit) }

// circles ends a turn in which the model makes the same call again and again.
// The call that reaches the limit has still run.
func (r *run) circles(calls []call) error {
	limit := r.turn.bot.cfg.MaxSameCalls
	if limit == 0 {
		return nil
	}
	if r.same == nil {
		r.same = map[string]int{}
	}
	for i := range calls {
		hash := hashOf(calls[i].command.Action, calls[i].command.Entities)
		if r.same[hash]++; r.same[hash] >= limit {
			return &LimitError{Limit: LimitSame}
		}
	}
	return nil
}

// hashOf identifies JSON values: the same ones, the same hash.
func hashOf(values ...any) string {
	hash := sha256.New()
	if err := json.NewEncoder(hash).Encode(values); err != nil { // keys are sorted
		return err.Error() // they came from JSON; no hash equals this
	}
	return hex.EncodeToString(hash.Sum(nil))
}
