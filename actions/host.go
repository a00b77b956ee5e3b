package actions

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/planbot-go/planbot/activity"
)

// hostTag marks the fields that the bot fills in itself.
const hostTag = "host"

// provider finds a value of the bot for a call.
type provider struct {
	gives reflect.Type
	value func(context.Context, *Turn) (reflect.Value, error)
}

// hosted is a field of an action's entities that a provider fills in.
type hosted struct {
	provider
	name  string // of the value
	key   string // of the field in JSON
	index []int
}

// Provide registers the value of that name for fields of actions with the tag
// host:"name". The model is not told of such a field and cannot set it: what it
// writes under that name is dropped, whatever the planner.
//
//	actions.Provide(registry, "cartID", func(_ context.Context, turn *actions.Turn) (string, error) {
//		return state.Of[cart](turn.User).ID, nil
//	})
//
//	type pay struct {
//		Amount int              `json:"amount"`
//		Cart   string           `host:"cartID"`
//		Payer  activity.Account `host:"user"`
//	}
//
// Every registry has user (the [activity.Account] of who spoke), conversation
// (the [activity.Conversation]) and turn (the turn's id, a string). fn is called
// just before each call of an action that has such a field, by one action of a
// turn at a time; its error is the action's. Provide panics when the name is
// taken, and [Add] when nobody provides a name or not the type of the field: so
// it comes before the actions that need it.
func Provide[T any](r *Registry, name string, fn func(context.Context, *Turn) (T, error)) {
	if _, taken := r.hosts[name]; taken || name == "" {
		panic(fmt.Sprintf("actions: the host value %q is taken or has no name", name))
	}
	r.hosts[name] = provider{reflect.TypeFor[T](), func(ctx context.Context, turn *Turn) (reflect.Value, error) {
		value, err := fn(ctx, turn)
		return reflect.ValueOf(&value).Elem(), err
	}}
}

func (r *Registry) provideBuiltIns() {
	Provide(r, "user", func(_ context.Context, turn *Turn) (activity.Account, error) { return turn.Activity.From, nil })
	Provide(r, "conversation", func(_ context.Context, turn *Turn) (activity.Conversation, error) {
		return turn.Activity.Conversation, nil
	})
	Provide(r, "turn", func(_ context.Context, turn *Turn) (string, error) { return turn.ID, nil })
	Provide(r, "attempt", func(ctx context.Context, _ *Turn) (Attempt, error) { return AttemptOf(ctx), nil })
}

// hosted finds the fields of struct t that the bot fills in.
func (r *Registry) hosted(t reflect.Type) ([]hosted, error) {
	var found []hosted
	for _, f := range reflect.VisibleFields(t) {
		name, ok := f.Tag.Lookup(hostTag)
		if !ok {
			continue
		}
		provider, known := r.hosts[name]
		_, behindPointer := reflect.Zero(t).FieldByIndexErr(f.Index)
		var fault error
		switch {
		case !known:
			fault = fmt.Errorf("nobody provides %q", name)
		case !provider.gives.AssignableTo(f.Type):
			fault = fmt.Errorf("%q is %s, not %s", name, provider.gives, f.Type)
		case !f.IsExported() || f.Anonymous || behindPointer != nil:
			fault = errors.New("it has to be exported, to have a name and to be in no embedded pointer")
		}
		if fault != nil {
			return nil, fmt.Errorf("host field %s: %w", f.Name, fault)
		}
		key, _, _ := strings.Cut(strings.TrimPrefix(f.Tag.Get("json"), "-"), ",")
		found = append(found, hosted{provider, name, cmp.Or(key, f.Name), f.Index})
	}
	return found, nil
}

// shown is struct t without the fields that the bot fills in.
func shown(t reflect.Type) reflect.Type {
	var kept []reflect.StructField
	hides := false
	for _, f := range reflect.VisibleFields(t) {
		_, hidden := f.Tag.Lookup(hostTag)
		hides = hides || hidden
		if !hidden && f.IsExported() && !f.Anonymous {
			kept = append(kept, reflect.StructField{Name: f.Name, Type: f.Type, Tag: f.Tag})
		}
	}
	if !hides {
		return t
	}
	return reflect.StructOf(kept)
}

// Bound returns what the bot itself would fill in for a call now, as JSON, by the
// names of the values: those of [Provide], but not the built-in ones. It is what an
// approval is bound to beside the entities. Values that JSON cannot hold, such as
// services, are left out. The error is that of a provider.
func (a *Action) Bound(ctx context.Context, turn *Turn) (map[string]json.RawMessage, error) {
	bound := map[string]json.RawMessage{}
	turn.filling.Lock()
	defer turn.filling.Unlock()
	for _, f := range a.hosts {
		if slices.Contains(builtIns, f.name) {
			continue
		}
		value, err := f.value(ctx, turn)
		if err != nil {
			return nil, fmt.Errorf("action %s: host value %s: %w", a.Name, f.name, err)
		}
		if raw, err := json.Marshal(value.Interface()); err == nil {
			bound[f.name] = raw
		}
	}
	return bound, nil
}

// builtIns are the host values that every registry has.
var builtIns = []string{"user", "conversation", "turn", "attempt"}

// fill sets the fields of the entities that the bot fills in. Actions that run at
// the same time take turns, since values may come from the turn's state.
func fill(ctx context.Context, turn *Turn, entities reflect.Value, fields []hosted) error {
	if len(fields) == 0 {
		return nil
	}
	turn.filling.Lock()
	defer turn.filling.Unlock()
	for _, f := range fields {
		value, err := f.value(ctx, turn)
		if err != nil {
			return fmt.Errorf("host value %s: %w", f.name, err)
		}
		entities.FieldByIndex(f.index).Set(value)
	}
	return nil
}
