package planner

import "fmt"

// DecodeErrorKind says why a text is no plan that may run.
type DecodeErrorKind string

// The kinds of a [DecodeError]. When several apply, the first one wins; the last
// three are decided command by command.
const (
	Truncated       DecodeErrorKind = "truncated"        // the text ends before the plan does
	NoPlan          DecodeErrorKind = "no_plan"          // there is nothing to do and nothing to say
	InvalidPlan     DecodeErrorKind = "invalid_plan"     // it is no plan, or not certain which plan it is
	UnknownAction   DecodeErrorKind = "unknown_action"   // a command names an action that is not registered
	MissingEntities DecodeErrorKind = "missing_entities" // a command lacks a required entity
	InvalidEntities DecodeErrorKind = "invalid_entities" // an entity does not fit the action's schema
)

// DecodeError is the error of [Decode] and [Validate]. Detail names the exact
// fault in words that help the model to do better; it quotes what the model
// wrote, so that Kind alone is for logs.
type DecodeError struct {
	Kind   DecodeErrorKind
	Detail string
	// Before are the faults of earlier answers in the same turn; [Decode] and
	// [Validate] leave it empty.
	Before []DecodeErrorKind
}

func (e *DecodeError) Error() string {
	return fmt.Sprintf("decode plan: %s: %s", e.Kind, e.Detail)
}

func fail(kind DecodeErrorKind, format string, args ...any) *DecodeError {
	if len(args) == 0 {
		return &DecodeError{Kind: kind, Detail: format}
	}
	return &DecodeError{Kind: kind, Detail: fmt.Sprintf(format, args...)}
}

// clip shortens a text of the model for use in a detail.
func clip(text string) string {
	const limit = 60
	if len(text) <= limit {
		return text
	}
	return shorten(text, limit) + "…"
}

// shorten returns the first bytes of a longer text, at most limit.
func shorten(text string, limit int) string {
	for limit > 0 && text[limit]&0xC0 == 0x80 { // not within a rune
		limit--
	}
	return text[:limit]
}
