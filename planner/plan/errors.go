package plan

import "fmt"

// FaultKind says why a text is no plan that may run.
type FaultKind string

// The kinds of a [Fault]. When several apply, the first one wins; the last
// three are decided command by command.
const (
	Truncated       FaultKind = "truncated"        // the text ends before the plan does
	NoPlan          FaultKind = "no_plan"          // there is nothing to do and nothing to say
	InvalidPlan     FaultKind = "invalid_plan"     // it is no plan, or not certain which plan it is
	UnknownAction   FaultKind = "unknown_action"   // a command names an action that is not registered
	MissingEntities FaultKind = "missing_entities" // a command lacks a required entity
	InvalidEntities FaultKind = "invalid_entities" // an entity does not fit the action's schema
)

// Fault is the error of [Decode] and [Validate]. Detail names the exact
// fault in words that help the model to do better; it quotes what the model
// wrote, so that Kind alone is for logs.
type Fault struct {
	Kind   FaultKind
	Detail string
	// Before are the faults of earlier answers in the same turn; [Decode] and
	// [Validate] leave it empty.
	Before []FaultKind
}

func (e *Fault) Error() string {
	return fmt.Sprintf("decode plan: %s: %s", e.Kind, e.Detail)
}

// Faultf makes a [Fault].
func Faultf(kind FaultKind, format string, args ...any) *Fault {
	if len(args) == 0 {
		return &Fault{Kind: kind, Detail: format}
	}
	return &Fault{Kind: kind, Detail: fmt.Sprintf(format, args...)}
}
