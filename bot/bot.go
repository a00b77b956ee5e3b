// Package bot is the activity handler: it takes activities from a channel over
// HTTP, finds the route for each, and by default lets a planner plan and runs
// the plan.
//
// One message is one turn, see package bot/turn: it is kept in the inbox, and then
// acknowledged. From there on it is answered, whatever happens to the process. A request is
// authenticated, read and routed here, once; the turn then calls the handler that
// [Bot.handler] found.
//
// [Bot.Notify] says something without being asked, now or later; it is a turn, too.
package bot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/trace"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot/turn"
	"github.com/planbot-go/planbot/planner/plan"
	"github.com/planbot-go/planbot/state"
)

// PlannerFunc is a function as a [turn.Planner]. It is also the way to choose among
// planners, by the conversation or the person:
//
//	bot.PlannerFunc(func(ctx context.Context, t *actions.Turn) (plan.Plan, error) {
//		if t.Activity.Conversation.Personal() {
//			return tools.Plan(ctx, t)
//		}
//		return sequence.Plan(ctx, t)
//	})
type PlannerFunc func(ctx context.Context, t *actions.Turn) (plan.Plan, error)

// Plan calls the function.
func (f PlannerFunc) Plan(ctx context.Context, t *actions.Turn) (plan.Plan, error) {
	return f(ctx, t)
}

// Authenticator decides who may deliver activities. The first step sees only the HTTP
// request, so that strangers are refused before their bytes are read; the second the
// activity.
type Authenticator interface {
	Authenticate(r *http.Request) (Caller, error)
}

// Caller is who delivers an activity, and was authenticated.
type Caller interface {
	// Permit returns an error when the caller may not deliver this activity.
	Permit(a *activity.Activity) error
	// Trusted reports whether the caller has proved that the activities which it may
	// deliver have the serviceUrl of their channel. A bot that calls this one is the
	// channel of its own conversations, which are kept apart from all others.
	Trusted() bool
	// ID is who the caller is, as [activity.Activity.CallerID] has it. "": not known.
	ID() string
}

// Skills are what a bot needs of Agent Skills beside their actions.
type Skills interface {
	// Policy adds to another policy what skills ask of calls: approvals of their own, and
	// that nothing runs which an active skill does not allow.
	Policy(next actions.Policy) actions.Policy
	// Command does what a person writes behind /skill. It returns what to reply or, when
	// something is left to be done with the skill, the text to plan for.
	Command(ctx context.Context, t *actions.Turn, words string) (reply, rest string, err error)
	// Reset ends all skills of the conversation, as /reset does.
	Reset(t *actions.Turn)
}

// Config says what a Bot is made of. Actions and Planner are required; the zero
// value of every other field is a working default.
type Config struct {
	Actions *actions.Registry
	Planner turn.Planner
	// Store keeps state. nil: this process does, until the bot is drained.
	Store *state.Store
	// Channel is the way out; a [connector.Client] is one. Authenticator decides who gets
	// in, see [Guarded]. nil, both: those of a bot without an app id, which talks with
	// clients on this machine, and no other.
	Channel       turn.Channel
	Authenticator Authenticator

	// Name is how the bot calls itself in its welcome. "": Planbot.
	Name string
	// Examples are sentences that a person may start with; help shows them as
	// buttons where the channel draws cards, and the welcome suggests them.
	Examples []string
	// Feedback asks under each reply that a model wrote what the person thinks of it,
	// where the channel can: in Teams. See [Bot.OnFeedback].
	Feedback bool
	// TurnTimeout ends a turn, the model call and action in it included. 0: 5 minutes.
	TurnTimeout time.Duration
	// AckTimeout is how long a request waits for its turn before it is acknowledged,
	// for tests and consoles. 0: not at all, a turn that is kept is acknowledged.
	AckTimeout time.Duration
	// Lease is how long a process that is gone keeps others from its conversations.
	// 0: 6 seconds.
	Lease time.Duration
	// Patience is how long a request waits for a store that is away before the channel
	// is told to come back. 0: 8 seconds.
	Patience time.Duration
	// MaxSteps is how many calls of actions one turn may make, over all of its plans; a plan
	// with more than are left is not begun. 0: 25.
	MaxSteps int
	// MaxSameCalls is how often one turn may make the same call, the same entities
	// included, before it is stopped as going in circles. 0: as often as it likes.
	MaxSameCalls int
	// Budget bounds what the planning of one turn may cost. Zero means no bound, except that
	// Messages defaults to 20.
	Budget actions.Budget
	// FilteredText is said when a content filter of the model's provider stopped a
	// turn. "": a sentence that says so.
	FilteredText string

	// Policy decides which calls a person has to approve. nil: [actions.DefaultPolicy].
	Policy actions.Policy
	// Approvers may approve calls for which the policy names nobody, by the id or
	// aadObjectId of their account. None: the person who asked.
	Approvers []string
	// ApprovalTimeout is how long an approval may take where the policy does not
	// say; after that nothing runs. 0: 24 hours.
	ApprovalTimeout time.Duration
	// Skills are the bot's Agent Skills; a [skills.Provider] is one. Its actions have to be
	// among Actions, and the planner has to be extended by it. nil: there are none.
	Skills Skills
	// Hooks see, and may change or stop, what plans do.
	Hooks Hooks
	// Access says who may talk to the bot. The zero value: whoever the Authenticator takes.
	Access Access
	// MaxTurns bounds the turns at work in this process; what is more waits for it or
	// another one. MaxWaiting and MaxWaitingPerConversation bound the turns that wait,
	// in all and of one conversation; beyond them the channel is told to come
	// back. 0: 1024, 10000, 256.
	MaxTurns, MaxWaiting, MaxWaitingPerConversation int
	// MaxConnections bounds the connections of a server that the bot makes, see
	// [Bot.NewServer], and MaxRequests the requests that are being answered, of which one
	// counts once its body is there; beyond that it is 503. 0: 10000, 4096.
	MaxConnections, MaxRequests int
	// Metrics is where the bot's metrics are registered, all named planbot_…. nil:
	// there are none.
	Metrics prometheus.Registerer
	// Traces makes the spans of turns: their plans, calls of models, commands, sends,
	// loads and saves. They hold names, numbers and ids, nothing that people or models
	// wrote. nil: there are none, which costs nothing.
	Traces trace.TracerProvider
	// Log receives what the bot reports. The zero value is silent.
	Log zerolog.Logger
}

// Bot answers activities. It is an [http.Handler] for POST /api/messages, safe for
// concurrent use once its routes are registered.
type Bot struct {
	cfg    Config
	routes routes
	engine *turn.Engine

	requests atomic.Int64 // that are being answered, their bodies read
	refusals lineLimit    // on the log

	local  bool               // made without an Authenticator
	taking context.Context    // until activities are refused
	refuse context.CancelFunc // ends that
	ends   []func()           // close what New opened
	end    sync.Once
}

// New returns a bot with the built-in routes (welcome, help, /reset, /forget),
// behind any that are registered later. Every fault of cfg is in the one error.
func New(cfg Config) (*Bot, error) {
	var faults []error
	for _, required := range []struct {
		name string
		set  bool
	}{
		{"Actions", cfg.Actions != nil},
		{"Planner", cfg.Planner != nil},
		{"Channel", cfg.Channel != nil || cfg.Authenticator == nil},
		{"Authenticator", cfg.Authenticator != nil || cfg.Channel == nil},
	} {
		if !required.set {
			faults = append(faults, fmt.Errorf("no %s", required.name))
		}
	}
	for _, number := range []struct {
		name  string
		value int64
	}{
		{"TurnTimeout", int64(cfg.TurnTimeout)},
		{"AckTimeout", int64(cfg.AckTimeout)},
		{"Lease", int64(cfg.Lease)},
		{"Patience", int64(cfg.Patience)},
		{"MaxSteps", int64(cfg.MaxSteps)},
		{"MaxSameCalls", int64(cfg.MaxSameCalls)},
		{"Budget.Messages", int64(cfg.Budget.Messages)},
		{"ApprovalTimeout", int64(cfg.ApprovalTimeout)},
		{"MaxTurns", int64(cfg.MaxTurns)},
		{"MaxWaiting", int64(cfg.MaxWaiting)},
		{"MaxWaitingPerConversation", int64(cfg.MaxWaitingPerConversation)},
		{"MaxConnections", int64(cfg.MaxConnections)},
		{"MaxRequests", int64(cfg.MaxRequests)},
	} {
		if number.value < 0 {
			faults = append(faults, fmt.Errorf("%s is negative", number.name))
		}
	}
	if err := errors.Join(faults...); err != nil {
		return nil, fmt.Errorf("bot config: %w", err)
	}
	cfg.Name = cmp.Or(cfg.Name, "Planbot")
	cfg.TurnTimeout = cmp.Or(cfg.TurnTimeout, 5*time.Minute)
	cfg.MaxSteps = cmp.Or(cfg.MaxSteps, 25)
	cfg.Budget.Messages = cmp.Or(cfg.Budget.Messages, 20)
	cfg.FilteredText = cmp.Or(cfg.FilteredText, "Sorry, the content filter of the AI model stopped this. Please try other words.")
	cfg.ApprovalTimeout = cmp.Or(cfg.ApprovalTimeout, 24*time.Hour)
	cfg.MaxTurns = cmp.Or(cfg.MaxTurns, 1024)
	cfg.MaxConnections = cmp.Or(cfg.MaxConnections, 10_000)
	cfg.MaxRequests = cmp.Or(cfg.MaxRequests, 4096)
	if cfg.Policy == nil {
		cfg.Policy = actions.DefaultPolicy
	}
	if cfg.Skills != nil {
		cfg.Policy = cfg.Skills.Policy(cfg.Policy)
	}
	b := &Bot{cfg: cfg, refusals: lineLimit{atOnce: refusalsAtOnce, eachSecond: refusalsEachSecond}}
	b.taking, b.refuse = context.WithCancel(context.Background()) // ends with Drain
	if err := b.fillIn(); err != nil {
		return nil, err
	}
	b.routes.last, b.routes.known = builtin(b), builtinInvokes(b)
	cfg = b.cfg
	engine, err := turn.New(turn.Config{
		Actions: cfg.Actions, Planner: cfg.Planner, Store: cfg.Store, Channel: cfg.Channel,
		Handler: b.handler, OwnAnswer: failedInvoke, Clicked: decidedClick,
		Hooks: cfg.Hooks, Policy: cfg.Policy, Approvers: cfg.Approvers, ApprovalTimeout: cfg.ApprovalTimeout,
		TurnTimeout: cfg.TurnTimeout, Lease: cfg.Lease, Patience: cfg.Patience,
		MaxSteps: cfg.MaxSteps, MaxSameCalls: cfg.MaxSameCalls, MaxTurns: cfg.MaxTurns,
		MaxWaiting: cfg.MaxWaiting, MaxWaitingPerConversation: cfg.MaxWaitingPerConversation,
		Budget: cfg.Budget, Feedback: cfg.Feedback, FilteredText: cfg.FilteredText,
		Metrics: cfg.Metrics, Traces: cfg.Traces, Log: cfg.Log,
	})
	if err != nil {
		return nil, fmt.Errorf("bot: %w", err)
	}
	b.engine = engine
	return b, nil
}

// Start begins to do what waits in the inbox, also what another process left there.
// [Bot.Serve] and the first request call it; who serves the bot otherwise calls it when
// all routes are registered, so that nothing waits for the first request.
func (b *Bot) Start() { b.engine.Start() }

// Drain stops taking activities, which are then refused with 503, and waits for the turns
// at work. When ctx ends first, it cancels them and returns ctx's error: what they have not
// done is left to other processes, or to this one when it is started again. A bot that
// keeps everything in its process also does what waits, as far as there is time, and tells
// people what it had to cancel. Drain closes what New opened.
func (b *Bot) Drain(ctx context.Context) error {
	b.refuse()
	err := b.engine.Drain(ctx)
	b.end.Do(func() {
		for _, end := range b.ends {
			end()
		}
	})
	return err
}

// Notify keeps the notice, which is sent in order with the turns of its conversation, see
// [turn.Engine.Notify].
func (b *Bot) Notify(ctx context.Context, n actions.Notice) (id string, err error) {
	return b.engine.Notify(ctx, n)
}

// Store is where the bot keeps its state.
func (b *Bot) Store() *state.Store { return b.cfg.Store }

// Draining reports whether Drain was called.
func (b *Bot) Draining() bool { return b.taking.Err() != nil }
