// Package actions holds what a bot can do: named functions with typed parameters. Each is
// registered in one line. Planners list them to the model, and plans call them.
//
// An action's JSON Schema comes from its Go type. So the model, the validation of plans and the
// function all see the same thing. There are two kinds of failure. An action that cannot do what
// was asked returns [Fail], and the model learns why. A Go error or a panic is a bug: the operator
// learns the cause, and the model learns only that it failed.
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
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	validator "github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/internal/plainjson"
	"github.com/planbot-go/planbot/internal/spelling"
	"github.com/planbot-go/planbot/internal/texts"
	"github.com/planbot-go/planbot/internal/titles"
)

// ErrPanic is wrapped by the error of a call whose action panicked.
var ErrPanic = errors.New("action panicked")

// Action is one registered action. After registration, change only the Action that [Add] returns,
// and only before the first turn. Then it is as safe for concurrent use as its function.
type Action struct {
	Name        string
	Description string
	// Title is what people read in place of Name, in cards, help and texts. Registration sets an
	// empty one to Name as words, such as "Close ticket" for closeTicket. It is translated as
	// [Turn.Translate] does.
	Title string
	// Detail explains what the action does, one line per step, where its name and entities do not
	// make that clear. Approvers see it.
	Detail string
	// Examples are phrases that people use to ask for the action, see [Example] and [Action.Phrase].
	Examples []string
	// Doing is what people read while the action runs and takes its time, see [Doing].
	Doing string
	// Schema describes the entities. It is always an object schema.
	Schema *jsonschema.Schema
	// Told is the schema that models see, if it says more than calls are validated against, such as
	// which values exist right now. nil: models see Schema.
	Told *jsonschema.Schema
	// Returns describes the result, see [Returns]. nil: the action does not say.
	Returns *jsonschema.Schema

	// StateOnly says that the action is quick, changes only turn state, and can run twice with the
	// same effect as once. Its effect is saved with the turn's next save. If the process is killed
	// before that, the action runs again; if the turn had saved nothing yet, the model is asked
	// first and may plan something else.
	StateOnly bool
	// Destructive says that the action cannot be undone. [DefaultPolicy] asks a person if the model is
	// less likely to have meant the call.
	Destructive bool
	// Approval says that a person must approve each call, see [Policy].
	Approval bool
	// Within is how long people have to approve such a call, if the policy has neither a Within nor an Escalate. nil, or 0:
	// the bot says.
	Within func(entities map[string]any) time.Duration
	// Connection is the OAuth connection whose token of the person the action needs, see [NeedsToken].
	// "": none.
	Connection string
	// ReturnsData says that the result is meant for the model. It is only descriptive: the plan and
	// [Observe] decide what the model sees.
	ReturnsData bool
	// Finds says that the action looks up what others wrote, see [Finds].
	Finds bool
	// Parallel says that the action may run at the same time as other actions of its plan, in any
	// order. It must not touch the turn's state.
	Parallel bool
	// Later says that the action goes on beside the conversation, and how long it may take, see [Later]. 0: the turn waits
	// for it.
	Later time.Duration
	// Aliases are other names for entities, see [Alias].
	Aliases map[string]string
	// Inherited are the entities that a command takes from earlier ones of its plan, see [Inherit].
	Inherited []string
	// Ended are the entities whose value is gone once the action has run, see [Ends].
	Ended []string
	// Source says where an action comes from that another service runs. An approval of a call is for
	// that Source and no other. The zero value is an action of this program.
	Source Source

	call     func(context.Context, *Turn, map[string]any) (Result, error)
	compiled func() (*validator.Schema, error) // Schema, for checks: it takes a moment, so at first use
	returned func() (*validator.Schema, error) // Returns; nil: there is none
	decodes  func(map[string]any) error        // tries to decode; nil: there is no Go type
	hosts    []hosted
	fault    error // of an option
}

// Source is where an action of another service comes from.
type Source struct {
	Connection string // the operator's name for the service
	Remote     string // the action's name there
	Digest     string // of its definition, in hex
}

// ErrUncertain is wrapped by the error of a call that may or may not have been done, because the answer
// of the service that does it was lost. The turn ends, and the person reads that nobody knows.
var ErrUncertain = errors.New("it is not known whether this was done")

// Option sets an option of an [Action].
type Option func(*Action)

// StateOnly marks an action that is quick, changes only turn state, and can run twice with the same
// effect as once.
func StateOnly(a *Action) { a.StateOnly = true }

// Destructive marks an action that cannot be undone, see [Action.Destructive].
func Destructive(a *Action) { a.Destructive = true }

// NeedsApproval marks an action whose calls a person must approve.
func NeedsApproval(a *Action) { a.Approval = true }

// NeedsToken marks an action that acts in another service as the person, with their token of that
// OAuth connection of the Azure Bot. If the person is not signed in when the action is to run, the plan
// waits while they do, and goes on as it was. The action gets the token from [Turn.UserToken]:
//
//	actions.Add(r, "nextMeeting", "Says when the next meeting is", next, actions.NeedsToken("graph"))
//
// If the call also needs an approval, that comes first.
func NeedsToken(connection string) Option {
	return func(a *Action) {
		if a.Connection = connection; connection == "" {
			a.fault = errors.New("NeedsToken without a connection")
		}
	}
}

// Parallel marks an action that may run at the same time as others.
func Parallel(a *Action) { a.Parallel = true }

// Later marks an action that takes long, up to that time. The bot does not make people wait for it: the plan goes on
// without its result, and the call is made beside the conversation. Once it is over, the planner tells the person how it
// went, in the same thread, with the state of that time. The call is as durable as others: if its process dies, another
// one makes it again, with the same [Attempt].Key. The person can stop it, which ends its context. What it changes in
// state must be quick to repeat: if somebody else has changed the same value meanwhile, it is made again.
//
// An action that another action calls, and one that another program asks for ([Request]), is waited for all the same.
func Later(within time.Duration) Option {
	return func(a *Action) {
		a.Later = within
		a.Description = strings.TrimRight(a.Description, ". ") + ". It takes long: its result comes later, in a turn of its own"
		if within <= 0 || within > maxLater {
			a.fault = fmt.Errorf("Later within %s, which is not between 0 and %s", within, maxLater)
		}
	}
}

// maxLater is the longest time of [Later].
const maxLater = 24 * time.Hour

// ReturnsData marks an action whose result is meant for the model. The mark is only descriptive.
func ReturnsData(a *Action) { a.ReturnsData = true }

// Finds marks an action that looks up what others wrote, as a search in documents does. The model gets its
// results as what somebody wrote, never as what the bot says; the history does not keep them, because who may
// read them may change; and in a bot with such an action the marks of sources in an answer, such as [1], mean
// [Turn.Sources] and nothing else.
func Finds(a *Action) { a.Finds = true }

// Title gives an action a name for people, such as "Close a ticket". No two actions may have the
// same title, see [Registry.Check].
func Title(title string) Option { return func(a *Action) { a.Title = title } }

// Doing says what people read while the action runs and takes longer than a moment, such as
// "Searching tickets", where the channel shows that. It is in the present tense, because nothing is
// done yet, and is translated as a title is. Without it they read "Working on it…". See
// [Turn.Progress].
func Doing(text string) Option { return func(a *Action) { a.Doing = text } }

// Example adds phrases that people use to ask for the action:
//
//	actions.Add(r, "addItem", "Adds an item to a list", add, actions.Example("add {item...} to {list}"))
//
// A slot names an entity. A slot with three dots also accepts "milk and eggs": an entity that is a
// list gets both values; otherwise the action is called twice.
//
// The offline model answers these phrases, see [models.Offline]. Help and the starters of the app
// package show the first one, {{examples}} of a prompt has all of them, and bottest eval asks a
// model for them.
func Example(phrases ...string) Option {
	return func(a *Action) { a.Examples = append(a.Examples, phrases...) }
}

// Alias gives an entity other names, which no entity may have. Models write them by mistake, and plans for other
// bots may be made of them. A plan that has the entity, too, is read without them. They are not shown to models.
func Alias(entity string, names ...string) Option {
	return func(a *Action) {
		if a.Aliases == nil {
			a.Aliases = map[string]string{}
		}
		for _, name := range names {
			a.Aliases[strings.ToLower(name)] = entity
		}
	}
}

// Inherit lets a command without a required entity take it from the commands before it in its plan, if those that
// have an entity of this name all have the same value: after createList(list: groceries), addItem(item: milk) means
// that list. With two different values, or none, the entity is missing.
func Inherit(entity string) Option {
	return func(a *Action) { a.Inherited = append(a.Inherited, entity) }
}

// Ends marks an entity whose value is gone once the action has run, such as the list that it deletes or renames.
// Later commands of the plan do not inherit it, see [Inherit].
func Ends(entity string) Option {
	return func(a *Action) { a.Ended = append(a.Ended, entity) }
}

// Phrase is how people may ask for the action: its first example, with titles as the names of its
// slots, in the language of the turn's person. "": it has no example.
func (a *Action) Phrase(turn *Turn) string {
	if len(a.Examples) == 0 {
		return ""
	}
	return slotForm.ReplaceAllStringFunc(turn.Translate(texts.Text(a.Examples[0])), func(slot string) string {
		name := slotForm.FindStringSubmatch(slot)[1]
		return "{" + turn.Translate(texts.Text(titles.Of(a.Schema.Properties[name], name))) + "}"
	})
}

// Returns declares that the result is an Out, as [JSON] writes it:
//
//	type ticket struct {
//		ID    int    `json:"id"`
//		Owner string `json:"owner,omitempty"`
//	}
//
//	actions.Add(r, "openTicket", "Opens a ticket", open, actions.Returns[ticket]())
//
// The model learns which fields there are, and a plan with another field of the result, such as
// $NAME.price, is a fault before it runs. A field that a result leaves out is empty. A result that
// is no Out is a bug of the action: the call fails, as after a Go error, and the log says where the
// result differs. More fields than declared are no fault, and the results of [Fail] and [Unchanged]
// are not compared. [Add] panics if Out has no schema.
func Returns[Out any]() Option {
	schema, err := returnsFor[Out]()
	if err != nil {
		err = fmt.Errorf("returns %s: %w", reflect.TypeFor[Out](), err)
	}
	return func(a *Action) { a.Returns, a.fault = schema, err }
}

// nestedKey is the context key of a flag that says whether a call called other actions.
type nestedKey struct{}

// Call runs the action with entities that [Action.Check] has accepted. It ignores Approval: the
// caller must ask first. A panic comes back as an error that wraps [ErrPanic] and includes the
// stack.
func (a *Action) Call(ctx context.Context, turn *Turn, entities map[string]any) (result Result, err error) {
	if a.call == nil {
		return Result{}, fmt.Errorf("action %s has no function", a.Name)
	}
	defer func() {
		if p := recover(); p != nil {
			result, err = Result{}, fmt.Errorf("action %s: %w: %v\n%s", a.Name, ErrPanic, p, debug.Stack())
		}
	}()
	attempt := AttemptOf(ctx)
	if outer, ok := ctx.Value(nestedKey{}).(*atomic.Bool); ok {
		outer.Store(true)
		attempt.MayAsk, attempt.Answer = false, nil // those are for the outer call
	}
	var nested atomic.Bool
	ctx = context.WithValue(ctx, nestedKey{}, &nested)
	personal := personalState(turn)
	for asked := 0; ; asked++ {
		result, err = a.call(attempt.Context(ctx), turn, entities)
		if err != nil || result.asks == nil || attempt.MayAsk {
			break
		}
		if asked == maxAsked {
			result, err = Result{}, errAsks
			break
		}
		attempt.Answer = &Answer{Declined: true, Unanswered: true, State: result.state}
	}
	if err == nil && result.asks == nil {
		err = a.checkReturned(&result)
	}
	if err != nil {
		err = fmt.Errorf("action %s: %w", a.Name, err)
	}
	if result.Unchanged() && attempt.Again && !a.StateOnly && !nested.Load() {
		// The process that died may have done it. This does not apply to state-only actions, whose changes
		// died with the process, nor to actions that call others, which report this themselves.
		result = Text("Done.")
	}
	result.alone = personalState(turn) != personal && !result.forAll
	if result.alone { // a click on the card is about that state, too
		result.cards = slices.Clone(result.cards)
		for i := range result.cards {
			result.cards[i].For = cmp.Or(result.cards[i].For, turn.Activity.From.ID)
		}
	}
	return result, err
}

// personalState grows when somebody looks into the state of the turn's person, where others read along.
func personalState(turn *Turn) uint32 {
	if turn == nil || turn.User == nil || turn.Activity == nil || turn.Activity.Conversation.Personal() {
		return 0
	}
	return turn.User.Asked()
}

// Registry is the set of a bot's actions. Register all actions before the first turn; after that it
// is safe for concurrent use.
type Registry struct {
	// Collect makes Check list the mistakes of [Add] and [Provide], which otherwise panic: so people
	// read all of them at once. Package app sets it. Set it before the first registration.
	Collect bool
	// Missing says, about a name that no action here has, what a model should do instead, as the end of a
	// sentence that begins with a semicolon. "": nothing. Several turns may call it at once, for each
	// fault of a plan. nil: the nearest names are suggested. An [Extension] sets it in its Offer.
	Missing func(name string) string

	all     []*Action
	exact   map[string]*Action
	hosts   map[string]provider
	forgets []func(context.Context, *Turn) (string, error)
	resets  []func(*Turn)
	faults  []error // that were collected

	clicks, refreshes []*Action // named by their verbs
	sources           []func() *Registry
}

// mistake panics with a mistake in the program, or collects it.
func (r *Registry) mistake(err error) {
	if !r.Collect {
		panic("actions: " + err.Error())
	}
	r.faults = append(r.faults, err)
}

// New returns an empty registry.
func New() *Registry {
	r := &Registry{exact: map[string]*Action{}, hosts: map[string]provider{}}
	r.provideBuiltIns()
	return r
}

// All returns the actions in the order of registration.
func (r *Registry) All() []*Action { return slices.Clone(r.all) }

// Finds reports whether an action of the registry itself is marked with [Finds].
func (r *Registry) Finds() bool {
	return slices.ContainsFunc(r.all, func(a *Action) bool { return a.Finds })
}

// AddSource makes [Registry.Lookup] also find actions that come and go while the bot runs, such as the
// tools of a server. current returns the registry that has them now; the same names in r come first. It
// must not block, and several goroutines may call it at once. All, Check and help do not see these
// actions, and a plan may use only those that an [Extension] adds with [Registry.With].
func (r *Registry) AddSource(current func() *Registry) { r.sources = append(r.sources, current) }

// Connections are the OAuth connections that the actions need, those of sources among them.
func (r *Registry) Connections() (all []string) {
	for _, a := range r.all {
		if a.Connection != "" && !slices.Contains(all, a.Connection) {
			all = append(all, a.Connection)
		}
	}
	for _, current := range r.sources {
		for _, name := range current().Connections() {
			if !slices.Contains(all, name) {
				all = append(all, name)
			}
		}
	}
	return all
}

// WithoutSources returns r without what AddSource has added: r itself if that is nothing.
func (r *Registry) WithoutSources() *Registry {
	if len(r.sources) == 0 {
		return r
	}
	own := *r
	own.sources = nil
	return &own
}

// With returns a registry with the actions of r and more, which may be those of another registry. The
// error names those whose name is taken.
func (r *Registry) With(more ...*Action) (*Registry, error) {
	own := make([]Offer, len(r.all))
	for i, a := range r.all {
		own[i].Name = a.Name
	}
	with, err := r.Only(own...)
	faults := []error{err}
	for _, a := range more {
		added := *a
		faults = append(faults, with.add(&added))
	}
	return with, errors.Join(faults...)
}

// OnForget registers what deletes a person's data. The bot itself deletes their state, what they
// said, and their notices and approvals. f deletes the rest, such as rows in a database, when the
// person says so with /forget or removes the app; the turn is theirs. keeps is what stays because
// it belongs to others, in words that people read, such as "the tickets of your team"; "": nothing.
//
// f runs before any state is deleted, so state can say where the rest is. If f returns an error, no
// state is deleted and the person reads that it did not work. f may run again: after an error, or
// if the process died. It must return when ctx ends.
func (r *Registry) OnForget(f func(ctx context.Context, turn *Turn) (keeps string, err error)) {
	if f == nil {
		r.mistake(errors.New("OnForget: the function is nil"))
		return
	}
	r.forgets = append(r.forgets, f)
}

// Forget calls all functions of [Registry.OnForget] and returns what stays. It is for the bot.
func (r *Registry) Forget(ctx context.Context, turn *Turn) (keeps []string, err error) {
	for _, f := range r.forgets {
		kept, failure := f(ctx, turn)
		if err = errors.Join(err, failure); kept != "" {
			keeps = append(keeps, kept)
		}
	}
	return keeps, err
}

// OnReset registers what clears something that the bot's extensions keep about a conversation, when
// somebody says /reset there.
func (r *Registry) OnReset(f func(turn *Turn)) { r.resets = append(r.resets, f) }

// Reset calls all functions of [Registry.OnReset]. It is for the bot.
func (r *Registry) Reset(turn *Turn) {
	for _, f := range r.resets {
		f(turn)
	}
}

// ForModels is the schema that models see: Told, or else Schema.
func (a *Action) ForModels() *jsonschema.Schema { return cmp.Or(a.Told, a.Schema) }

// Offer is an action to offer to the model. Description and Schema, where set, replace the action's
// own in what the model sees. Calls are still validated against the action's own schema.
type Offer struct {
	Name, Description string
	Schema            *jsonschema.Schema
}

// Only returns a registry with just the offered actions, in that order. Names must match exactly.
// The error lists every name that r does not have and every one offered twice.
func (r *Registry) Only(offers ...Offer) (*Registry, error) {
	only := New()
	only.forgets, only.resets, only.clicks, only.refreshes, only.Missing = r.forgets, r.resets, r.clicks, r.refreshes, r.Missing
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

// Suggest says what to do about a name that no action has, as the end of a sentence: what Missing says,
// or else the nearest names.
func (r *Registry) Suggest(name string) string {
	if r.Missing != nil {
		if advice := r.Missing(name); advice != "" {
			return advice
		}
	}
	var known []string
	for _, a := range r.all {
		known = append(known, a.Name)
	}
	return spelling.Suggest(name, known)
}

// Lookup finds an action by its exact name, or else by the only name that matches without regard to
// case. It finds none if several match that way.
func (r *Registry) Lookup(name string) (*Action, bool) {
	if a, ok := r.exact[name]; ok {
		return a, true
	}
	for _, current := range r.sources {
		if a, ok := current().exact[name]; ok {
			return a, true
		}
	}
	var found *Action
	for _, a := range r.all {
		if !strings.EqualFold(a.Name, name) {
			continue
		}
		if found != nil {
			return nil, false
		}
		found = a
	}
	return found, found != nil
}

// validName is what OpenAI function calling accepts, so that every planner can use the name.
var validName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]{0,63}$`)

// slotForm matches a slot in an [Example].
var slotForm = regexp.MustCompile(`\{([^{}]*?)(?:\.\.\.)?\}`)

func (r *Registry) add(a *Action) error {
	if !validName.MatchString(a.Name) {
		return fmt.Errorf("action name %q: want a letter or _, then at most 63 letters, digits, _ or -", a.Name)
	}
	if _, taken := r.exact[a.Name]; taken {
		return fmt.Errorf("action name %q is taken", a.Name)
	}
	if a.fault != nil {
		return fmt.Errorf("action %s: %w", a.Name, a.fault)
	}
	if a.Title == "" {
		a.Title = titles.Words(a.Name)
		if slices.ContainsFunc(r.all, func(other *Action) bool { return other.Title == a.Title }) {
			a.Title = a.Name
		}
	}
	if a.Returns != nil && a.returned == nil {
		a.returned = compile(a.Returns)
		if _, err := a.returned(); err != nil {
			return fmt.Errorf("action %s: Returns: %w", a.Name, err)
		}
	}
	r.all = append(r.all, a)
	r.exact[a.Name] = a
	return nil
}

// Check lists every action with the title of another, and every example with a slot that is no
// entity, and what was collected. A bot with such actions does not start.
func (r *Registry) Check() error {
	faults := slices.Clone(r.faults)
	titled := map[string]string{} // names by title
	for _, a := range r.all {
		if name, taken := titled[a.Title]; taken {
			faults = append(faults, fmt.Errorf("action %s has the title %q of %s", a.Name, a.Title, name))
		}
		titled[a.Title] = a.Name
		faults = append(faults, a.checkNames())
		for _, phrase := range a.Examples {
			if strings.TrimSpace(phrase) == "" {
				faults = append(faults, fmt.Errorf("action %s: an example is empty", a.Name))
			}
			for _, slot := range slotForm.FindAllStringSubmatch(phrase, -1) {
				if a.Schema.Properties[slot[1]] == nil {
					faults = append(faults, fmt.Errorf("action %s: the example %q has a slot {%s}, which is no entity", a.Name, phrase, slot[1]))
				}
			}
		}
	}
	return errors.Join(faults...)
}

// checkNames reports aliases and inherited entities that do not fit the schema.
func (a *Action) checkNames() error {
	var faults []error
	for _, alias := range slices.Sorted(maps.Keys(a.Aliases)) {
		entity := a.Aliases[alias]
		if a.Schema.Properties[entity] == nil {
			faults = append(faults, fmt.Errorf("action %s: the alias %s is for %s, which is no entity", a.Name, alias, entity))
		}
		for name := range a.Schema.Properties {
			if strings.EqualFold(name, alias) {
				faults = append(faults, fmt.Errorf("action %s: the alias %s is an entity", a.Name, alias))
			}
		}
	}
	for _, entity := range a.Inherited {
		if a.Schema.Properties[entity] == nil {
			faults = append(faults, fmt.Errorf("action %s inherits %s, which is no entity", a.Name, entity))
		}
	}
	return errors.Join(faults...)
}

// Add registers fn under name. The entities of a plan are decoded into In, a struct whose json tags
// name them:
//
//	type addItem struct {
//		List string `json:"list" jsonschema:"name of the list"`
//		Size string `json:"size,omitempty" enum:"small,large" default:"small"`
//	}
//
// The jsonschema tag is the description. A field with omitempty, omitzero or a default is optional.
// enum lists the allowed values of a field, or of each of its elements. Enum values and defaults
// are JSON, except that strings have no quotes. The bot itself fills in a field with a host tag,
// see [Provide].
//
// People read the title tag in place of the name, and the labels tag in place of the values of
// enum, in the same order:
//
//	Size string `json:"size" title:"Size of the crate" enum:"s,l" labels:"Small,Large"`
//
// A [time.Time] is RFC 3339 with date, time and zone, so that nothing has to be guessed. A
// [time.Duration] looks like 1h30m, bytes are base64, and a type with UnmarshalText is a string. A
// value that does not fit its Go type, such as a number that is too large, is a fault of
// [Action.Check].
//
// Several turns may call fn at once. fn must return when its context ends. If it does not, it is
// abandoned: nothing that it changes in the turn, before or after, is kept. Add panics if the name
// is taken or invalid, if In has no schema or decodes its own JSON, or if an enum, labels, default or
// host value does not fit its field, unless the registry collects mistakes. These are wiring
// mistakes, not run-time events.
func Add[In any](r *Registry, name, description string, fn func(context.Context, *Turn, In) (Result, error), opts ...Option) *Action {
	a, err := newAction(r, name, fn)
	a.Description = description
	err = errors.Join(err, a.apply(opts))
	if err == nil {
		err = r.add(a)
	}
	if err != nil {
		r.mistake(err)
	}
	return a
}

// apply applies options, none of which may be nil.
func (a *Action) apply(opts []Option) error {
	for i, opt := range opts {
		if opt == nil {
			return fmt.Errorf("action %s: option %d is nil", a.Name, i+1)
		}
		opt(a)
	}
	return nil
}

// OnClick registers what a click on a button with that verb does, such as a button of a card that an
// action shows:
//
//	activity.Button{Title: "Close it", Verb: "desk/close", Data: closing{Ticket: 7}}
//
// In is as for [Add], and the button's data, with the values of the card's inputs, is checked in the
// same way: it comes from the person's client. A click is no plan: no model sees it, and neither
// policy nor hooks are asked. fn has to check whether the person may do this, and the rest is as with
// an action: a result of [Fail], an error and a panic take back what fn changed in turn state, and
// if the process dies, fn runs again with the same [Attempt].
//
// The first card of the result replaces the clicked card for everybody. If there is none, or the
// result is [Unchanged], the person who clicked reads its text, and nobody else. A client that does
// not know Action.Execute shows either as a message. Where others read along, only that person gets a
// result for which fn looked into their state, [Turn].User; and a card of an action that did so counts
// their clicks alone, see [activity.Card].For. [Result.ForAll] is the exception.
//
// OnClick panics if the verb is empty or taken, or if In has no schema, unless the registry collects
// mistakes.
func OnClick[In any](r *Registry, verb string, fn func(context.Context, *Turn, In) (Result, error)) {
	r.clicks = append(r.clicks, newClick(r, verb, fn))
}

// OnRefresh registers what a card with that verb in its [activity.Card].Refresh shows now: the first
// card of the result, which should have the Refresh again. Only the person whose client asks gets it.
// fn may read state, but nothing that it changes is kept, and it cannot send. The rest is as for
// [OnClick]; a verb is for one of them.
func OnRefresh[In any](r *Registry, verb string, fn func(context.Context, *Turn, In) (Result, error)) {
	r.refreshes = append(r.refreshes, newClick(r, verb, fn))
}

// Clicks returns what [OnClick] and [OnRefresh] registered: actions named by their verbs. It is for
// the bot.
func (r *Registry) Clicks() (clicks, refreshes []*Action) {
	return slices.Clone(r.clicks), slices.Clone(r.refreshes)
}

func newClick[In any](r *Registry, verb string, fn func(context.Context, *Turn, In) (Result, error)) *Action {
	a, err := newAction(r, verb, fn)
	named := func(other *Action) bool { return other.Name == verb }
	if verb == "" || slices.ContainsFunc(r.clicks, named) || slices.ContainsFunc(r.refreshes, named) {
		err = fmt.Errorf("the verb %q of a button is empty or taken", verb)
	}
	if err != nil {
		r.mistake(err)
	}
	return a
}

// newAction makes an action that decodes its entities into In.
func newAction[In any](r *Registry, name string, fn func(context.Context, *Turn, In) (Result, error)) (*Action, error) {
	schema, err := schemaFor[In]()
	if fn == nil {
		err = errors.Join(err, errors.New("the function is nil"))
	}
	var hosts []hosted
	if err == nil {
		hosts, err = r.hosted(reflect.TypeFor[In]())
	}
	if err != nil {
		return &Action{Name: name, Schema: &jsonschema.Schema{Type: "object"}}, fmt.Errorf("add %s: %w", name, err)
	}
	a := &Action{Name: name, Schema: schema, hosts: hosts, compiled: compile(schema)}
	a.decodes = func(entities map[string]any) error {
		if _, fault := decode[In](a, entities); fault != nil {
			return fault
		}
		return nil
	}
	a.call = func(ctx context.Context, turn *Turn, entities map[string]any) (Result, error) {
		in, fault := decode[In](a, entities)
		if fault != nil { // the caller skipped Check; keep the value out of the log
			return Result{}, fmt.Errorf("decode entities: %s", fault.Fault())
		}
		values, err := a.hostValues(ctx, turn)
		if err != nil {
			return Result{}, err
		}
		for i, f := range hosts {
			reflect.ValueOf(&in).Elem().FieldByIndex(f.index).Set(values[i])
		}
		return fn(ctx, turn, in)
	}
	return a, nil
}

// AddSchema is [Add] for an action whose schema is data, not a Go type. It must be an object schema
// with a property for each entity. fn gets the validated entities, with defaults filled in and
// numbers as json.Number. AddSchema returns an error if the name is taken or invalid, or if the
// schema is not that of an object, is no valid JSON Schema or refers to another document.
func AddSchema(r *Registry, name, description string, schema *jsonschema.Schema, fn func(ctx context.Context, turn *Turn, entities map[string]any) (Result, error), opts ...Option) (*Action, error) {
	if schema == nil || schema.Type != "object" {
		return nil, fmt.Errorf("action %s: the schema is not that of an object", name)
	}
	a := &Action{Name: name, Description: description, Schema: schema, call: fn, compiled: compile(schema)}
	if _, err := a.compiled(); err != nil {
		return nil, fmt.Errorf("action %s: %w", name, err)
	}
	if err := a.apply(opts); err != nil {
		return nil, err
	}
	if err := r.add(a); err != nil {
		return nil, err
	}
	return a, nil
}

const hostTag = "host" // marks the fields that the bot fills in itself

// provider computes a host value for a call.
type provider struct {
	gives reflect.Type
	value func(context.Context, *Turn) (reflect.Value, error)
}

// hosted is a field of an action's entities that a provider fills in.
type hosted struct {
	provider
	name  string // of the host value
	key   string // the field's name in JSON
	index []int
}

// Provide registers a host value: the bot puts it into action fields with the tag host:"name". The
// model does not see such a field and cannot set it: whatever it writes under that name is dropped,
// with any planner.
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
// Every registry has user (the sender's [activity.Account]), conversation (the
// [activity.Conversation]), turn (the turn's id, a string) and attempt (the [Attempt]). fn is
// called just before each call of an action that has such a field, for one action of a turn at a
// time. Its error becomes the action's error. Provide panics if the name is taken. [Add] panics if
// nobody provides the name or its type does not fit the field, so call Provide first.
func Provide[T any](r *Registry, name string, fn func(context.Context, *Turn) (T, error)) {
	if _, taken := r.hosts[name]; taken || name == "" || fn == nil {
		r.mistake(fmt.Errorf("the host value %q is taken, or has no name or no function", name))
		return
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

// hostValues computes the values of a's host fields. It locks the turn, because actions may run in
// parallel and providers may read the turn's state.
func (a *Action) hostValues(ctx context.Context, turn *Turn) ([]reflect.Value, error) {
	if len(a.hosts) == 0 {
		return nil, nil
	}
	turn.filling.Lock()
	defer turn.filling.Unlock()
	values := make([]reflect.Value, len(a.hosts))
	for i, f := range a.hosts {
		var err error
		if values[i], err = f.value(ctx, turn); err != nil {
			return nil, fmt.Errorf("host value %s: %w", f.name, err)
		}
	}
	return values, nil
}

// Bound returns, as JSON, the host values that the bot would fill in for a call now, except the
// built-in ones, by name. An approval is bound to them and to the entities. Values that JSON cannot
// encode, such as services, are left out. The error is a provider's.
func (a *Action) Bound(ctx context.Context, turn *Turn) (map[string]json.RawMessage, error) {
	values, err := a.hostValues(ctx, turn)
	if err != nil {
		return nil, fmt.Errorf("action %s: %w", a.Name, err)
	}
	bound := map[string]json.RawMessage{}
	for i, f := range a.hosts {
		if slices.Contains(builtIns, f.name) {
			continue
		}
		if raw, err := json.Marshal(values[i].Interface()); err == nil {
			bound[f.name] = raw
		}
	}
	return bound, nil
}

var builtIns = []string{"user", "conversation", "turn", "attempt"} // the host values that every registry has

const maxRegistryBytes = 4 << 20 // limits the size of an actions file

// declared is one entry of an actions.json in Teams AI format (name, description, parameters), with
// Planbot's additions.
type declared struct {
	Name        string             `json:"name"`
	Title       string             `json:"title"`
	Description string             `json:"description"`
	Parameters  *jsonschema.Schema `json:"parameters"`
	Returns     *jsonschema.Schema `json:"returns"`
	Examples    []string           `json:"examples"`
	Destructive bool               `json:"destructive"`
	Approval    bool               `json:"approval"`
	ReturnsData bool               `json:"returns_data"`

	// Function is the whole entry in the form in which OpenAI's API takes tools.
	Function *declared `json:"function"`
}

// Read parses a file in the format of Teams AI's actions.json, or a list of tools as OpenAI's API takes
// them ({"type":"function","function":{…}}). The actions of the registry have no
// functions: they can be listed to a model and validated, but not called. The error lists all
// faults of the file.
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
		return nil, fmt.Errorf("read actions: %w", plainjson.Explain(err))
	}
	registry := New()
	var faults []error
	for i, d := range list {
		if d.Function != nil {
			d = *d.Function
		}
		schema := d.Parameters
		if schema == nil {
			schema = &jsonschema.Schema{}
		}
		schema.Type = cmp.Or(schema.Type, "object")
		if _, err := AddSchema(registry, d.Name, d.Description, schema, nil, Example(d.Examples...), func(a *Action) {
			a.Title, a.Destructive, a.Approval, a.ReturnsData, a.Returns = d.Title, d.Destructive, d.Approval, d.ReturnsData, d.Returns
		}); err != nil {
			faults = append(faults, fmt.Errorf("entry %d: %w", i, err))
		}
	}
	faults = append(faults, registry.Check())
	if err := errors.Join(faults...); err != nil {
		return nil, fmt.Errorf("read actions: %w", err)
	}
	return registry, nil
}
