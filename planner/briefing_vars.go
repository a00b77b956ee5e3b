package planner

import (
	"fmt"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/state"
)

// turnVars are the variables of a turn: its state, and as temp.input the person's
// text. In a prompt action the scope temp is its inputs instead.
type turnVars struct {
	turn   *actions.Turn
	inputs map[string]any // nil: it is no prompt action
	fault  error          // the first value that could not be read
}

func isScope(name string) bool { return name == "conversation" || name == "user" || name == "temp" }

// Var returns a value of the state as the JSON that it is kept as.
func (v *turnVars) Var(scope, name string) (any, bool) {
	if scope == "temp" && v.inputs != nil {
		value, ok := v.inputs[name]
		return value, ok
	}
	if from := v.scope(scope); from != nil {
		value, err := from.JSON(name)
		if err != nil && v.fault == nil {
			v.fault = fmt.Errorf("variable $%s.%s: %w", scope, name, err)
		}
		if value != nil {
			return value, true
		}
	}
	if scope == "temp" && name == "input" {
		return v.turn.Text, true
	}
	return nil, false
}

func (v *turnVars) scope(name string) *state.Scope {
	switch name {
	case "conversation":
		return v.turn.Conversation
	case "user":
		return v.turn.User
	default:
		return v.turn.Temp
	}
}
