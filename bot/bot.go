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
	stdlog "log"
	"net"
	"net/http"
	"slices"
	"strings"
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
	refusals *lineLimit   // on the log

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
	b := &Bot{cfg: cfg, refusals: newLineLimit(refusalsEachSecond, refusalsAtOnce)}
	b.taking, b.refuse = context.WithCancel(context.Background()) // ends with Drain
	if err := b.fillIn(); err != nil {
		return nil, err
	}
	cfg = b.cfg
	b.routes.last = (&builtins{&b.cfg, &b.routes}).routes()
	b.routes.known = map[string]invokeRoute{
		cardInvoke:     {check: b.routes.checkClick, handle: b.routes.clicked},
		feedbackInvoke: {check: checkFeedback, handle: b.rated, atOnce: true},
	}
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

// fillIn makes the parts that a bot on its own machine needs and cfg does not
// have. They are closed when the bot was drained.
func (b *Bot) fillIn() error {
	if b.cfg.Store == nil {
		store, err := state.Open(context.Background(), "", state.Config{})
		if err != nil {
			return fmt.Errorf("bot without a Store: %w", err)
		}
		b.cfg.Store = store
		b.ends = append(b.ends, func() { _ = store.Close() }) // what it kept is gone either way
	}
	if b.cfg.Authenticator == nil {
		auth, client, err := local()
		if err != nil {
			return fmt.Errorf("bot without an Authenticator: %w", err)
		}
		b.cfg.Authenticator, b.cfg.Channel, b.local = auth, client, true
		b.ends = append(b.ends, client.Close)
	}
	return nil
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

// On registers a handler for the activities that match, by Activity and Text: the turn's
// state is not loaded yet. The first handler that matches answers.
func (b *Bot) On(match func(t *Turn) bool, h Handler) {
	b.routes.first = append(b.routes.first, route{match, h})
}

// OnMessage registers a handler for messages that match; a nil match takes all.
func (b *Bot) OnMessage(match func(t *Turn) bool, h Handler) {
	b.On(func(t *Turn) bool { return t.IsMessage() && (match == nil || match(t)) }, h)
}

// OnCommand registers a handler for messages whose whole text is the command,
// such as "/reset", without regard to case.
func (b *Bot) OnCommand(command string, h Handler) { b.On(isCommand(command), h) }

// OnActivity registers a handler for a type of activity.
func (b *Bot) OnActivity(typ activity.Type, h Handler) {
	b.On(func(t *Turn) bool { return strings.EqualFold(string(t.Activity.Type), string(typ)) }, h)
}

// OnEvent registers a handler for events of that name.
func (b *Bot) OnEvent(name string, h Handler) {
	b.On(func(t *Turn) bool { return t.Activity.Type == activity.Event && t.Activity.Name == name }, h)
}

// OnMembersAdded registers a handler for members, other than the bot, that join.
func (b *Bot) OnMembersAdded(h Handler) {
	b.On(func(t *Turn) bool {
		return t.Activity.Type == activity.ConversationUpdate && slices.ContainsFunc(t.Activity.MembersAdded, func(m activity.Account) bool {
			return m.ID != t.Activity.Recipient.ID
		})
	}, h)
}

// OnReaction registers a handler for reactions to messages.
func (b *Bot) OnReaction(h Handler) { b.OnActivity("messageReaction", h) }

// Use wraps the handler of every activity in m, which calls next to go on. The first one
// added is the outermost.
func (b *Bot) Use(m func(next Handler) Handler) { b.routes.middleware = append(b.routes.middleware, m) }

// OnInvoke registers the handler of the invokes of that name, whose response answers the
// HTTP request. The rule of [Handler] on running again holds. An [*InvokeError] that it
// returns is the answer; what it changed in state is kept. An invoke without a handler is
// answered with 501. It panics when the name has a handler: that is
// a wiring mistake. See [AddInvoke] for one that is typed, and [Bot.OnCardAction] and
// [Bot.OnFeedback] for the invokes that the bot knows itself.
func (b *Bot) OnInvoke(name string, h func(ctx context.Context, t *Turn) (InvokeResponse, error)) {
	b.routes.addInvoke(name, invokeRoute{handle: h})
}

// OnCardAction registers the handler of the buttons with that verb, whether the client
// knows Action.Execute or falls back to Action.Submit; then the answer comes as a message.
// Verbs that begin with "planbot/" are the bot's own. It panics when the verb is empty, the
// bot's, or has a handler: that is a wiring mistake.
//
// A click that is wrong, or has a verb without a handler, is answered with a card fault of
// status 400 in a response of status 200: so the client shows it. A 501 there would be
// "unable to reach app", for a card that an older version of the bot sent.
//
// A click waits for what is at work in its conversation. After ten seconds the person reads
// that it was noted; it is handled all the same, but its answer is shown no more. What the
// person has to know then belongs into a message, see [Turn.Tell]. Until an answer of the
// handler went out within five seconds, at most for a minute, an equal click of the same
// person is the same click: it gets that answer, and the handler is not called again. After
// that it counts.
func (b *Bot) OnCardAction(verb string, h func(ctx context.Context, t *Turn, click CardClick) (CardAnswer, error)) {
	if b.routes.cards == nil {
		b.routes.cards = map[string]cardHandler{}
	}
	if _, taken := b.routes.cards[verb]; taken || verb == "" || strings.HasPrefix(verb, turn.OwnVerbs) {
		panic("bot: the verb " + verb + " cannot have this handler")
	}
	b.routes.cards[verb] = h
}

// OnFeedback registers the handler of feedback, which comes where a message asks for it:
// see Config.Feedback and [activity.Activity.AskFeedback]. The person has the answer by
// then: an error of h is for the log. The rule of [Handler] on running again holds. Without one, and before it,
// feedback is counted and logged without its text. It panics when there is one: that is a
// wiring mistake.
func (b *Bot) OnFeedback(h func(ctx context.Context, t *Turn, f Feedback) error) {
	if b.routes.feedback != nil {
		panic("bot: feedback has a handler")
	}
	b.routes.feedback = h
}

// rated notes the feedback. The answer has to be empty.
func (b *Bot) rated(ctx context.Context, t *Turn) (InvokeResponse, error) {
	f, fault := readFeedback(t.Activity)
	if fault != nil {
		return InvokeResponse{}, fault // another version of the bot accepted it
	}
	reaction := disliked
	if f.Liked {
		reaction = liked
	}
	b.engine.Rated(reaction)
	zerolog.Ctx(ctx).Info().Str("reaction", reaction).Bool("text", f.Text != "").Str("rated", f.MessageID).Msg("feedback")
	if b.routes.feedback == nil {
		return InvokeResponse{}, nil
	}
	return InvokeResponse{}, b.routes.feedback(ctx, t, f)
}

// Limits on how long the end may take.
const (
	drainTimeout = 20 * time.Second
	closeTimeout = 2 * time.Second
)

// ListenAndServe answers POST /api/messages on addr, a host:port, until ctx ends,
// and then drains: activities are refused, and the turns at work get 20 seconds.
// After that it returns nil. It is all that the main of a small bot needs:
//
//	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
//	defer stop()
//	err := b.ListenAndServe(ctx, "127.0.0.1:3978")
//
// A bot without an Authenticator listens on loopback addresses only.
func (b *Bot) ListenAndServe(ctx context.Context, addr string) error {
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", addr, err)
	}
	return b.Serve(ctx, listener)
}

// Serve is [Bot.ListenAndServe] on a listener, which it closes.
func (b *Bot) Serve(ctx context.Context, listener net.Listener) error {
	addr := listener.Addr()
	if b.local && !isLoopback(addr) {
		return errors.Join(fmt.Errorf("listen on %s: a bot without an Authenticator is for loopback addresses only", addr), listener.Close())
	}
	mux := http.NewServeMux()
	mux.Handle("/api/messages", b)
	server := b.NewServer(mux)
	b.Start()
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	b.cfg.Log.Info().Str("url", "http://"+addr.String()+"/api/messages").Msg("listening")
	select {
	case err := <-ended:
		return fmt.Errorf("serve on %s: %w", addr, err)
	case <-ctx.Done():
	}
	if err := b.shut(ctx, server); err != nil {
		return err
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve on %s: %w", addr, err)
	}
	return nil
}

// shut waits for the turns at work and then for the connections, for each not
// too long.
func (b *Bot) shut(ctx context.Context, server *http.Server) error {
	b.cfg.Log.Info().Stringer("at_most", drainTimeout).Msg("draining")
	ctx = context.WithoutCancel(ctx)
	draining, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	if err := b.Drain(draining); err != nil {
		b.cfg.Log.Warn().Err(err).Msg("turns were cut off")
	}
	closing, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	if server.Shutdown(closing) != nil {
		return server.Close()
	}
	return nil
}

// Limits on what a client may hold on to.
const (
	headerTimeout  = 10 * time.Second
	readTimeout    = 20 * time.Second // headers and body
	writeTimeout   = time.Minute      // all behind the headers: a body, an answer that is waited for, and its way out
	idleTimeout    = 2 * time.Minute
	maxHeaderBytes = 32 << 10
	// lingerTimeout is how long the rest of a request is waited for that was answered
	// without it.
	lingerTimeout = 500 * time.Millisecond
)

// NewServer returns a server for h, of which the bot is a part, with all bounds on
// what clients may hold on to: the time for headers, body, answer and doing nothing,
// the size of headers, and the number of connections ([Config].MaxConnections). It
// reports to the bot's log. The caller may set other fields, but not ConnState and
// ConnContext.
func (b *Bot) NewServer(h http.Handler) *http.Server {
	cap := newConnCap(b.cfg.MaxConnections, b.cfg.Log)
	server := &http.Server{
		Handler:           cap.counting(hastening(h)),
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout + b.cfg.AckTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          stdlog.New(b.cfg.Log.With().Str(zerolog.LevelFieldName, zerolog.LevelWarnValue).Str("of", "net/http").Logger(), "", 0),
		ConnState:         cap.watch,
		ConnContext:       cap.connContext,
	}
	server.RegisterOnShutdown(cap.close)
	return server
}

// hastening waits only a moment for what is left of a request once h has answered it.
// The server reads that before it sends the answer, to use the connection again, and
// would give a stranger the time of a whole body for it.
func hastening(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r)
		if r.Body != http.NoBody {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(lingerTimeout)) // of a connection that is open
		}
	})
}
