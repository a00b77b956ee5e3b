// Package actions holds what a bot can do: named functions with typed
// parameters, registered in one line each, that planners list to the model and
// plans call.
//
// An action's JSON Schema comes from its Go type, so what the model is told,
// what a plan is checked against and what the function receives are one thing.
// Two kinds of failure are kept apart: an action that could not do what was
// asked returns [Fail] and the model learns why; a Go error or a panic is a
// defect, the operator learns the cause and the model only that it failed.
package actions

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/planbot-go/planbot/activity"
)

// ErrPanic is wrapped by the error of a call whose action panicked.
var ErrPanic = errors.New("action panicked")

// Action is one registered action. Do not change it after the registration, but
// for what [Add] returns, before the first turn. Unchanged, it is safe for
// concurrent use as far as the function behind it is.
type Action struct {
	Name        string
	Description string
	// Detail is what the action does, a line each step, where that is not plain
	// from its name and entities: it is shown to who is asked for approval.
	Detail string
	// Examples are phrases by which people ask for the action, see [Example].
	Examples []string
	// Schema describes the entities: always an object schema.
	Schema *jsonschema.Schema
	// Told describes the entities to models where that says more than Schema holds a
	// call to, such as which values there are just now. nil: they are told Schema.
	Told *jsonschema.Schema

	// StateOnly says that the action changes nothing but turn state, is quick, and
	// that doing it twice is doing it once. Its effect is saved with what comes after
	// it; when its process is killed before that, the turn does it again, or asks the
	// model again.
	StateOnly bool
	// Destructive says that the action cannot be undone. It only describes: such
	// a call runs like any other.
	Destructive bool
	// Approval says that a person has to approve each call, see [Policy].
	Approval bool
	// ReturnsData says that the result is meant for the model. It only describes:
	// what the model gets to see is decided by the plan and by [Observe].
	ReturnsData bool
	// Parallel says that the action may run at the same time as others of its
	// plan, in any order. It must not touch the turn's state.
	Parallel bool

	call    func(context.Context, *Turn, map[string]any) (Result, error)
	decodes func(map[string]any) error // tries it; nil: there is no Go type
	hosts   []hosted
}

// Option sets one of the marks of an [Action].
type Option func(*Action)

// StateOnly marks an action that is quick, changes nothing but turn state, and may
// be done twice with the effect of once.
func StateOnly(a *Action) { a.StateOnly = true }

// Destructive marks an action that cannot be undone. The mark only describes.
func Destructive(a *Action) { a.Destructive = true }

// NeedsApproval marks an action of which a person has to approve each call.
func NeedsApproval(a *Action) { a.Approval = true }

// Parallel marks an action that may run at the same time as others.
func Parallel(a *Action) { a.Parallel = true }

// ReturnsData marks an action whose result is meant for the model. The mark only
// describes.
func ReturnsData(a *Action) { a.ReturnsData = true }

// Example adds phrases by which people ask for the action:
//
//	actions.Add(r, "addItem", "Adds an item to a list", add, actions.Example("add {item...} to {list}"))
//
// A slot names an entity. One with three dots may be said as "milk and eggs": an entity
// that is a list gets both, for any other the action is called twice. The offline model
// answers these phrases, see [models.Offline], and people are shown the first one.
func Example(phrases ...string) Option {
	return func(a *Action) { a.Examples = append(a.Examples, phrases...) }
}

// nestedKey is for a mark in the context of a call that it called other actions.
type nestedKey struct{}

// Call runs the action with entities that [Action.Check] has accepted. It does
// not look at Approval, which is for the caller to ask for before. A panic
// comes back as an error that wraps [ErrPanic] and names the place.
func (a *Action) Call(ctx context.Context, turn *Turn, entities map[string]any) (result Result, err error) {
	if a.call == nil {
		return Result{}, fmt.Errorf("action %s has no function", a.Name)
	}
	defer func() {
		if p := recover(); p != nil {
			result, err = Result{}, fmt.Errorf("action %s: %w: %v\n%s", a.Name, ErrPanic, p, debug.Stack())
		}
	}()
	if outer, ok := ctx.Value(nestedKey{}).(*atomic.Bool); ok {
		outer.Store(true)
	}
	var nested atomic.Bool
	result, err = a.call(context.WithValue(ctx, nestedKey{}, &nested), turn, entities)
	if err != nil {
		err = fmt.Errorf("action %s: %w", a.Name, err)
	}
	if result.Unchanged() && AttemptOf(ctx).Again && !a.StateOnly && !nested.Load() {
		// The process that died did it. Not so where state alone changes, which died with the
		// process, nor in an action that calls others: those have said it themselves.
		result = Text("Done.")
	}
	return result, err
}

// Registry is the set of actions of a bot. Register all actions before the
// first turn; after that it is safe for concurrent use.
type Registry struct {
	all    []*Action
	exact  map[string]*Action
	folded map[string][]*Action
	hosts  map[string]provider
}

// New returns an empty registry.
func New() *Registry {
	r := &Registry{exact: map[string]*Action{}, folded: map[string][]*Action{}, hosts: map[string]provider{}}
	r.provideBuiltIns()
	return r
}

// All returns the actions in the order of their registration.
func (r *Registry) All() []*Action { return slices.Clone(r.all) }

// ForModels is the schema that models are told: Told or else Schema.
func (a *Action) ForModels() *jsonschema.Schema { return cmp.Or(a.Told, a.Schema) }

// Offer is an action to offer: its name and, where they are set, the description and
// the schema of its entities that the model is told in place of the action's own. A
// call is checked against the action's own schema all the same.
type Offer struct {
	Name, Description string
	Schema            *jsonschema.Schema
}

// Only returns a registry of the offered actions alone, in that order. The error
// names every one that r does not have, to the letter, and that is offered twice.
func (r *Registry) Only(offers ...Offer) (*Registry, error) {
	only := New()
	var faults []error
	for _, o := range offers {
		a, ok := r.exact[o.Name]
		if !ok {
			faults = append(faults, fmt.Errorf("no action %q", o.Name))
			continue
		}
		offered := *a
		offered.Description = cmp.Or(o.Description, a.Description)
		offered.Told = cmp.Or(o.Schema, a.Told)
		if err := only.add(&offered); err != nil {
			faults = append(faults, err)
		}
	}
	return only, errors.Join(faults...)
}

// Lookup finds an action by its exact name, else by the one name that is equal
// without regard to case. Two such names, or none: not found.
func (r *Registry) Lookup(name string) (*Action, bool) {
	if a, ok := r.exact[name]; ok {
		return a, true
	}
	if same := r.folded[strings.ToLower(name)]; len(same) == 1 {
		return same[0], true
	}
	return nil, false
}

// validName is what the function calling of OpenAI accepts, which every
// planner can write.
var validName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]{0,63}$`)

// slotForm is a slot in an [Example].
var slotForm = regexp.MustCompile(`\{([^{}]*?)(?:\.\.\.)?\}`)

func (r *Registry) add(a *Action) error {
	if !validName.MatchString(a.Name) {
		return fmt.Errorf("action name %q: want a letter or _, then at most 63 letters, digits, _ or -", a.Name)
	}
	if _, taken := r.exact[a.Name]; taken {
		return fmt.Errorf("action name %q is taken", a.Name)
	}
	for _, phrase := range a.Examples {
		for _, slot := range slotForm.FindAllStringSubmatch(phrase, -1) {
			if a.Schema.Properties[slot[1]] == nil {
				return fmt.Errorf("action %s: the example %q has a slot {%s}, which is no entity", a.Name, phrase, slot[1])
			}
		}
	}
	r.all = append(r.all, a)
	r.exact[a.Name] = a
	folded := strings.ToLower(a.Name)
	r.folded[folded] = append(r.folded[folded], a)
	return nil
}

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
	a := &Action{Name: name, Description: description, Schema: schema, hosts: hosts, decodes: func(entities map[string]any) error {
		if _, fault := decode[In](schema, entities); fault != nil {
			return fault
		}
		return nil
	}}
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

// maxRegistryBytes is the cap on a file of actions.
const maxRegistryBytes = 4 << 20

// declared is one entry of an actions.json in the form of Teams AI
// (name, description, parameters), with Planbot's marks.
type declared struct {
	Name        string             `json:"name"`
	Description string             `json:"description"`
	Parameters  *jsonschema.Schema `json:"parameters"`
	Examples    []string           `json:"examples"`
	Destructive bool               `json:"destructive"`
	Approval    bool               `json:"approval"`
	ReturnsData bool               `json:"returns_data"`
}

// Read returns the registry that a file in the form of Teams AI's actions.json
// declares. Its actions have no functions: they can be listed to a model and
// checked, not called. Every fault of the file is in the one error.
func Read(r io.Reader) (*Registry, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxRegistryBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read actions: %w", err)
	}
	if len(data) > maxRegistryBytes {
		return nil, fmt.Errorf("read actions: more than %d bytes", maxRegistryBytes)
	}
	var list []declared
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, fmt.Errorf("read actions: %w", err)
	}
	registry := New()
	var faults []error
	for i, d := range list {
		if err := registry.declare(d); err != nil {
			faults = append(faults, fmt.Errorf("entry %d: %w", i, err))
		}
	}
	if err := errors.Join(faults...); err != nil {
		return nil, fmt.Errorf("read actions: %w", err)
	}
	return registry, nil
}

func (r *Registry) declare(d declared) error {
	schema := d.Parameters
	if schema == nil {
		schema = &jsonschema.Schema{Type: "object"}
	}
	if schema.Type == "" {
		schema.Type = "object"
	}
	if schema.Type != "object" {
		return fmt.Errorf("action %q: parameters are of type %s, want object", d.Name, schema.Type)
	}
	if at := unspecified(schema); at != "" {
		return fmt.Errorf("action %q: parameter %s is null, want a schema", d.Name, at)
	}
	return r.add(&Action{
		Name: d.Name, Description: d.Description, Schema: schema, Examples: d.Examples,
		Destructive: d.Destructive, Approval: d.Approval, ReturnsData: d.ReturnsData,
	})
}

// unspecified returns the path of a property that schema names without a schema,
// or "".
func unspecified(schema *jsonschema.Schema) string {
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		property := schema.Properties[name]
		if property == nil {
			return name
		}
		if at := unspecified(property); at != "" {
			return join(name, at)
		}
	}
	if schema.Items == nil {
		return ""
	}
	if at := unspecified(schema.Items); at != "" {
		return join("[]", at)
	}
	return ""
}
