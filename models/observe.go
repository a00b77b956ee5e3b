package models

import (
	"context"
	"errors"
	"time"
)

// Observation is one call of a model, for metrics.
type Observation struct {
	Kind  string // the kind of the [Error]: "throttled", "timeout" …; "ok", or "canceled"
	Took  time.Duration
	Usage Usage // of an answer, also of one that is of no use
}

// Observed is m, with see called after each call, by whoever made the call. See
// has to be quick and safe for concurrent use.
func Observed(m Model, see func(Observation)) Model { return &observed{m, see} }

type observed struct {
	Model
	see func(Observation)
}

// Name is the model's own, "" when it has none.
func (o *observed) Name() string { return nameOf(o.Model) }

func (o *observed) Complete(ctx context.Context, req *Request) (*Response, error) {
	began := time.Now()
	answer, err := o.Model.Complete(ctx, req)
	seen := Observation{Kind: "ok", Took: time.Since(began)}
	var fault *Error
	switch {
	case err == nil:
		seen.Usage = answer.Usage
	case errors.As(err, &fault):
		seen.Kind, seen.Usage = fault.Kind.String(), fault.Usage
	default:
		seen.Kind = "canceled"
	}
	o.see(seen)
	return answer, err
}
