// Package turnid tells the kit, recordings and the page which turn a context belongs to.
package turnid

import "context"

// Of says which turn something belongs to: its id, and the conversation and the activity that it
// answers. They are empty where there is no turn.
type Of struct {
	Turn         string `json:"turn"`
	Conversation string `json:"conversation"`
	Activity     string `json:"activity"`
}

type key struct{}

// With returns ctx for what is done for the turn.
func With(ctx context.Context, of Of) context.Context { return context.WithValue(ctx, key{}, of) }

// From is the turn of the context.
func From(ctx context.Context) Of {
	of, _ := ctx.Value(key{}).(Of)
	return of
}
