package actions

import (
	"context"
	"fmt"
	"reflect"

	"github.com/google/jsonschema-go/jsonschema"
)

// Add registers fn under name. The entities of a plan are decoded into In, a
// struct whose json tags name them:
//
//	type addItem struct {
//		List string `json:"list" jsonschema:"name of the list"`
//		Size string `json:"size,omitempty" enum:"small,large" default:"small"`
//	}
//
// The jsonschema tag is the description; a field with omitempty, omitzero or a
// default is optional. enum lists the values that a field, or each element of
// it, may have; these and the default are JSON, strings without the quotes. The
// bot itself fills in a field with a host tag, see [Provide].
//
// A [time.Time] is written as RFC 3339 says, with date, time and zone: from less
// the rest would be a guess. A [time.Duration] is written as in 1h30m, bytes are in
// base64, and a type with UnmarshalText is a string. What does not fit its Go type,
// as a number that is too large, is a fault of [Action.Check].
//
// fn may be called by several turns at once, and has to end when its context does. One
// that goes on is left to itself: what it changes in the turn from then on, and changed
// before, is not kept. Add panics when the name is taken or
// not usable, In has no schema or reads its JSON itself, or an enum, default or
// host value does not fit its field: these are wiring mistakes, not run-time
// events.
func Add[In any](r *Registry, name, description string, fn func(context.Context, *Turn, In) (Result, error), opts ...Option) *Action {
	schema, err := schemaFor[In]()
	var hosts []hosted
	if err == nil {
		hosts, err = r.hosted(reflect.TypeFor[In]())
	}
	if err != nil {
		panic(fmt.Sprintf("actions: add %s: %v", name, err))
	}
	a := &Action{Name: name, Description: description, Schema: schema, hosts: hosts, decodes: decoding[In](schema)}
	a.call = func(ctx context.Context, turn *Turn, entities map[string]any) (Result, error) {
		in, fault := decode[In](schema, entities)
		if fault != nil { // nobody has asked Check; the log must not hold the value
			return Result{}, fmt.Errorf("decode entities: %s", fault.Fault())
		}
		if err := fill(ctx, turn, reflect.ValueOf(&in).Elem(), hosts); err != nil {
			return Result{}, err
		}
		return fn(ctx, turn, in)
	}
	for _, opt := range opts {
		opt(a)
	}
	if err := r.add(a); err != nil {
		panic("actions: " + err.Error())
	}
	return a
}

// AddSchema is [Add] for an action whose schema is data rather than a Go type: an
// object schema with a property for each entity. fn gets the entities checked
// against it, with defaults filled in and numbers as json.Number. The error is
// that of a name which is taken or not usable, or of another kind of schema.
func AddSchema(r *Registry, name, description string, schema *jsonschema.Schema, fn func(ctx context.Context, turn *Turn, entities map[string]any) (Result, error), opts ...Option) (*Action, error) {
	if schema == nil || schema.Type != "object" {
		return nil, fmt.Errorf("action %s: the schema is not that of an object", name)
	}
	a := &Action{Name: name, Description: description, Schema: schema, call: fn}
	for _, opt := range opts {
		opt(a)
	}
	if err := r.add(a); err != nil {
		return nil, err
	}
	return a, nil
}
