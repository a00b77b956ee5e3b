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
	"errors"
	"fmt"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/google/jsonschema-go/jsonschema"
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
	decodes func(map[string]any) error // tries it; nil: what fits Schema can be decoded
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
