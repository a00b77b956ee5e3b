package actions

import (
	"context"
	"strconv"
)

// Attempt is what an action may know about the call that it serves. The zero value
// is that of a call outside of a turn.
type Attempt struct {
	// Key names the call, and no other: the id of the turn and the index of the
	// command in it. A call that is made again after its process was killed has the
	// same key. Give it to the service that the action uses as its idempotency key.
	Key string
	// Again says that the call was begun before, by a process that did not live to
	// write down what came of it: it may have been done in part or in whole.
	Again bool
}

// Within is the attempt of the i-th call that is made within the call.
func (a Attempt) Within(i int) Attempt {
	if a.Key == "" {
		return a
	}
	return Attempt{Key: a.Key + "." + strconv.Itoa(i), Again: a.Again}
}

type attemptKey struct{}

// WithAttempt returns the context of a call. It is for who calls actions.
func WithAttempt(ctx context.Context, a Attempt) context.Context {
	return context.WithValue(ctx, attemptKey{}, a)
}

// AttemptOf returns what is known about the call, by the context that the action
// got. A field with the tag `host:"attempt"` is filled in with the same.
func AttemptOf(ctx context.Context) Attempt {
	a, _ := ctx.Value(attemptKey{}).(Attempt)
	return a
}
