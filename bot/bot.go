// Package bot is the activity handler. It takes activities from a channel over HTTP and finds a
// route for each. By default a planner makes a plan and the bot runs it.
//
// Each message is one turn, see package bot/turn. The bot saves the turn in the inbox before it
// acknowledges the request. From then on the turn is answered even if the process dies. This
// package authenticates, reads and routes each request once; the turn then calls the handler that
// [Bot.handler] returns.
//
// [Bot.Notify] sends a message without being asked, now or later. That is a turn, too.
package bot

import (
	"cmp"
	"container/list"
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

	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/trace"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot/approvals"
	"github.com/planbot-go/planbot/bot/audit"
	"github.com/planbot-go/planbot/bot/background"
	"github.com/planbot-go/planbot/bot/heads"
	"github.com/planbot-go/planbot/bot/moderation"
	"github.com/planbot-go/planbot/bot/offers"
	"github.com/planbot-go/planbot/bot/privacy"
	"github.com/planbot-go/planbot/bot/quota"
	"github.com/planbot-go/planbot/bot/requests"
	"github.com/planbot-go/planbot/bot/signin"
	"github.com/planbot-go/planbot/bot/stop"
	"github.com/planbot-go/planbot/bot/summary"
	"github.com/planbot-go/planbot/bot/teams"
	"github.com/planbot-go/planbot/bot/traces"
	"github.com/planbot-go/planbot/bot/turn"
	"github.com/planbot-go/planbot/bot/turn/files"
	"github.com/planbot-go/planbot/bot/typing"
	"github.com/planbot-go/planbot/internal/markdown"
	"github.com/planbot-go/planbot/internal/texts"
	"github.com/planbot-go/planbot/planner/plan"
	"github.com/planbot-go/planbot/state"
	"github.com/planbot-go/planbot/state/inbox"
)

// PlannerFunc adapts a function to [turn.Planner]. Use it to choose a planner per conversation or
// person:
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

// Authenticator decides who may deliver activities. Authenticate sees only the HTTP request, so it
// refuses strangers before their body is read. [Caller.Permit] sees the activity.
type Authenticator interface {
	Authenticate(r *http.Request) (Caller, error)
}

// Caller is an authenticated sender of activities.
type Caller interface {
	// Permit returns an error if the caller may not deliver this activity.
	Permit(a *activity.Activity) error
	// Trusted reports whether the caller has proved that the activities it may deliver carry their
	// channel's serviceUrl. A bot that calls this one is the channel of its own conversations,
	// which are kept apart from all others.
	Trusted() bool
	// ID identifies the caller, in the form of [activity.Activity.CallerID]. "": unknown.
	ID() string
}

// Metrics counts what a bot does.
type Metrics interface {
	Feature() (Feature, error)             // counts turns
	Queues(stats func() inbox.Stats) error // shows what waits
	// Approvals shows how many approvals wait, and since when the oldest does. waiting asks the store, and is safe for
	// concurrent use.
	Approvals(waiting func(context.Context) (n int, since time.Time, err error)) error
}

// Skills is what a bot needs from Agent Skills besides their actions.
type Skills interface {
	// Policy adds the rules of skills to another policy: their own approvals, and that nothing runs
	// that an active skill does not allow.
	Policy(next actions.Policy) actions.Policy
	// Command runs what a person writes after /skill. It returns the reply or, if the skill still
	// has work to do, the text to plan for.
	Command(ctx context.Context, t *actions.Turn, words string) (reply, rest string, err error)
	// Reset ends all skills of the conversation, as /reset does.
	Reset(t *actions.Turn)
}

// Memory is what a bot needs of the facts that it remembers besides their actions.
type Memory interface {
	// Command answers what a person writes after /memory.
	Command(t *actions.Turn, words string) (reply string)
}

// Config says what a Bot is made of. Actions and Planner are required; the zero
// value of every other field is a working default.
type Config struct {
	Actions *actions.Registry
	Planner turn.Planner
	// Store keeps state. nil: an embedded store in this process, gone once the bot is drained.
	Store *state.Store
	// Channel sends activities; a [connector.Client] is one. Authenticator decides who gets in, see
	// [Guarded]. Set both or neither. Neither: a bot without an app id, which talks only to clients
	// on this machine.
	Channel       turn.Channel
	Authenticator Authenticator
	// Tokens signs people in to other services, for actions with [actions.NeedsToken], which require it.
	// A [connector.Client] does.
	Tokens signin.Tokens

	// Name is what the bot calls itself in its welcome. "": Planbot.
	Name string
	// Welcome is what the bot says when it is added to a conversation; Texts may translate it, a %
	// written there as %%. Avoid Markdown: Microsoft's local client does not render it above the
	// suggested Examples. "": its name, and how to talk to it.
	Welcome string
	// Examples are sentences to start with. Help shows them as buttons where the channel renders
	// cards, and the welcome suggests them. nil: examples of actions that need no values, see
	// [actions.Example].
	Examples []string
	// Feedback asks the person to rate each reply that a model wrote, where the channel supports it
	// (Teams does): with Teams' form, or that of Teams.FeedbackForm. See [Bot.OnFeedback].
	Feedback bool
	// Stream shows in personal chats what the bot is doing, and answers while the model writes them,
	// where the channel supports that (Teams and web chats do). Group chats and channels get whole
	// messages, and so does everybody if a feature has Say. With Moderation, people see each
	// sentence once it has passed.
	Stream bool
	// Requests lets other programs ask for calls in the name of people, see [Bot.Request]. For that the bot
	// notes which account a person of Microsoft Entra has.
	Requests bool
	// TurnTimeout ends a turn, including its current model call and action. 0: 5 minutes.
	TurnTimeout time.Duration
	// Burst is how long a message waits for others of the same person that are answered together with it, at most 10
	// seconds. 0: it does not wait, and only those are answered together that wait behind a running turn.
	Burst time.Duration
	// Steer has what a person writes while a plan runs join that turn before it plans again, as in a burst: the model sees it
	// with what was done so far, and one reply answers all. Commands that run are not changed. false: it waits for its turn.
	Steer bool
	// ThreadsTogether has all threads of a channel answered one after another. false: only what is in one thread is.
	// Replicas of a release that has no such field do not find an approval that waits in a thread by itself, so set it until
	// none of them is left.
	ThreadsTogether bool
	// AckTimeout is how long a request waits for its turn before it is acknowledged, for tests and
	// consoles. 0: no wait, a turn is acknowledged once it is saved.
	AckTimeout time.Duration
	// Lease is how long a dead process keeps others from its conversations. 0: 6 seconds.
	Lease time.Duration
	// Patience is how long a request waits for an unavailable store before the channel is told to
	// retry. 0: 8 seconds.
	Patience time.Duration
	// MaxSteps limits the action calls of one turn, over all of its plans. A plan with more calls
	// than are left does not start. 0: 25.
	MaxSteps int
	// MaxSameCalls limits how often one turn may make the same call with the same entities before
	// it is stopped as going in circles. 0: no limit.
	MaxSameCalls int
	// Budget limits what planning one turn may cost. Zero: no limit, except that Messages defaults
	// to 20.
	Budget actions.Budget
	// HistoryTurns is how many turns of a conversation are kept for the model. 0: 5.
	HistoryTurns int
	// Summarize sums up the oldest turns of the conversation, together with the summary so far, such
	// that no more than keep turns are left. It returns how many turns the summary is of; 0: none
	// are to be summed up yet. [planner.Planner.Summarize] is one. The bot calls it after a turn was
	// answered, beside the next ones, and keeps up to three times HistoryTurns meanwhile. nil: older
	// turns are forgotten.
	Summarize func(ctx context.Context, t *actions.Turn, keep int) (summary string, of int, err error)
	// Quota limits what a person and a tenant may use over all their turns. Zero: no limit.
	Quota quota.Limits
	// Moderation judges what people say, and what the bot is about to say and do. Zero: nobody does.
	Moderation moderation.Config
	// Attachments says what the model is shown of files, pictures and voice messages. Zero: nothing, and
	// only actions get them.
	Attachments files.Attachments
	// FilteredText is what the bot says when the model provider's content filter or Moderation stops a
	// turn. "": a default sentence that says so.
	FilteredText string
	// CommandsOff are the built-in commands that the bot does not have: any of /stop, /reset, /mydata, /forget
	// and /signout, which is there if actions need tokens. A person who types one is told that it is
	// off, unless [Bot.OnCommand] replaces it.
	CommandsOff []string
	// Memory adds the command /memory, with which people see and delete what the bot remembers about
	// them: a [memory.Extension] is one. It needs the actions of [memory.Register], and extends the planner. nil: none.
	Memory Memory
	// Texts changes what the bot says by itself: by language (a BCP 47 tag such as de or pt-BR), then
	// by the English sentence with its verbs of package fmt. Planbot has English, German, French,
	// Spanish, Chinese, Japanese and Italian, and says everything in the language of the person's
	// client. A language that you add may be incomplete; the rest is said in English. Sentences of
	// your own work too, with [actions.Turn.Translate].
	Texts map[string]map[string]string
	texts *texts.Catalog

	// Policy decides which calls need a person's approval. nil: [actions.DefaultPolicy].
	Policy actions.Policy
	// Approvers may approve calls for which the policy names nobody. List account ids or
	// aadObjectIds, at most ten, or a chat or channel. Empty: the person who asked.
	Approvers []string
	// ApprovalTimeout is how long people have to approve a call if the policy does not say. After
	// that nothing runs. 0: 24 hours.
	ApprovalTimeout time.Duration
	// ApprovalReminder is the time of day, such as "09:00", at which those who may approve what still waits are reminded,
	// in the zone of the person who asked. "": nobody is.
	ApprovalReminder string
	// AsksNobody says that nobody is asked for approvals, nor what an action wants to know: calls that need an
	// approval are refused.
	AsksNobody bool
	// AuditKeep is how long the bot keeps an audit of approvals and of calls of actions that are not
	// StateOnly: who, what, when and the outcome, without content. See [audit.Read]. 0: no audit.
	AuditKeep time.Duration
	// AuditKeys sign where the audit ends: the first signs, the others did before. Each has at least 32 bytes. None: it is
	// not signed, see [audit.Verify].
	AuditKeys [][]byte
	// TurnsKeep is how long the bot keeps of each turn when it was, for whom and how it ended, without
	// content. See [heads.Read]. 0: it does not.
	TurnsKeep time.Duration
	// UploadPiece is how many bytes of a file for a person one request uploads: a multiple of 327,680,
	// and at most 60 MiB. See [actions.Result.WithFile]. 0: 10 MiB, the largest file that can be sent.
	UploadPiece int
	// Skills are the bot's Agent Skills; a [skills.Provider] is one. Its actions must be among
	// Actions, and it must extend the planner. nil: none.
	Skills Skills
	// Features see what turns and plans do, and may change or stop it. They stand around those that the
	// other fields of the Config ask for.
	Features []Feature
	// PictureHosts are the hosts from which pictures in texts may come, by https: whoever has a host sees what
	// is asked of it. Other pictures become their words and their host. None: all do.
	PictureHosts []string
	// TurnURL is where a turn can be seen, for the log line of its failure. "" and nil: nowhere.
	TurnURL func(id string) string
	// Teams is what the bot answers besides messages and clicks on cards: dialogs, the message
	// extension, choices that are looked up. Zero: nothing.
	Teams teams.Routes
	// Access limits who may talk to the bot. Zero value: everyone the Authenticator accepts.
	Access Access
	// MaxTurns limits the turns that run in this process; further ones wait for it or for another
	// process. MaxWaiting and MaxWaitingPerConversation limit the waiting turns, in total and per
	// conversation, or thread of a channel. Beyond them the channel is told to retry. 0: 1024, 10000, 256.
	MaxTurns, MaxWaiting, MaxWaitingPerConversation int
	// MaxConnections limits the connections of a server made by [Bot.NewServer]. MaxRequests limits
	// the requests being answered; a request counts once its body is read, and gets a 503 beyond
	// the limit. 0: 10000, 4096.
	MaxConnections, MaxRequests int
	// Metrics counts what the bot does, such as metrics.To of bot/metrics. nil: nothing does.
	Metrics Metrics
	// Traces creates the spans of turns: plans, model calls, commands, sends, loads and saves.
	// Spans carry names, numbers and ids, never what people or models wrote. nil: no traces, at no
	// cost.
	Traces trace.TracerProvider
	// Log receives the bot's log. The zero value is silent.
	Log zerolog.Logger
}

// Bot answers activities. It is an [http.Handler] for POST /api/messages. It is safe for concurrent
// use once its routes are registered.
type Bot struct {
	cfg     Config
	routes  routes
	engine  *turn.Engine
	signIn  *signin.SignIn
	privacy *privacy.Privacy
	asked   *requests.Requests
	offers  *offers.Offers
	views   views
	fetches fetches

	requests atomic.Int64   // being answered, with their bodies read
	refusals zerolog.Logger // limits how many lines are logged

	local  bool               // made without an Authenticator
	taking context.Context    // ends when activities are refused
	refuse context.CancelFunc // ends taking
	ends   []func()           // close what New opened
	end    sync.Once
}

// Limits of a [Config], which settings have, too.
const (
	maxHistory = 100
	maxBurst   = 10 * time.Second
)

// New returns a bot. Its built-in routes (welcome, help, /stop, /reset, /mydata, /forget, /signout) come after any
// that you register. One error reports every fault in cfg.
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
		{"Burst", int64(cfg.Burst)},
		{"AckTimeout", int64(cfg.AckTimeout)},
		{"Lease", int64(cfg.Lease)},
		{"Patience", int64(cfg.Patience)},
		{"MaxSteps", int64(cfg.MaxSteps)},
		{"MaxSameCalls", int64(cfg.MaxSameCalls)},
		{"Budget.Messages", int64(cfg.Budget.Messages)},
		{"HistoryTurns", int64(cfg.HistoryTurns)},
		{"Quota.UserTurnsPerMinute", int64(cfg.Quota.UserTurnsPerMinute)},
		{"Quota.TenantTurnsPerMinute", int64(cfg.Quota.TenantTurnsPerMinute)},
		{"Quota.UserTokensPerDay", int64(cfg.Quota.UserTokensPerDay)},
		{"Quota.TenantTokensPerDay", int64(cfg.Quota.TenantTokensPerDay)},
		{"ApprovalTimeout", int64(cfg.ApprovalTimeout)},
		{"AuditKeep", int64(cfg.AuditKeep)},
		{"TurnsKeep", int64(cfg.TurnsKeep)},
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
	if slices.ContainsFunc(cfg.AuditKeys, func(key []byte) bool { return len(key) < 32 }) {
		faults = append(faults, errors.New("AuditKeys: a key has less than 32 bytes"))
	}
	if p := cfg.UploadPiece; p < 0 || p > 60<<20 || p%uploadStep != 0 {
		faults = append(faults, fmt.Errorf("UploadPiece: %d bytes are not a multiple of %d, up to 60 MiB", p, uploadStep))
	}
	if cfg.Burst > maxBurst {
		faults = append(faults, fmt.Errorf("Burst: %v is more than %v", cfg.Burst, maxBurst))
	}
	if cfg.HistoryTurns > maxHistory {
		faults = append(faults, fmt.Errorf("HistoryTurns: %d is more than %d", cfg.HistoryTurns, maxHistory))
	}
	if cfg.AsksNobody && len(cfg.Approvers) > 0 {
		faults = append(faults, errors.New("Approvers: AsksNobody says that nobody is asked"))
	}
	if len(cfg.Approvers) > approvals.MaxApprovers {
		faults = append(faults, fmt.Errorf("Approvers: %d are more than %d; name a channel instead", len(cfg.Approvers), approvals.MaxApprovers))
	}
	if _, err := time.Parse(approvals.ReminderLayout, cfg.ApprovalReminder); cfg.ApprovalReminder != "" && err != nil {
		faults = append(faults, fmt.Errorf("ApprovalReminder: %q is no time of day such as 09:00", cfg.ApprovalReminder))
	}
	if cfg.ApprovalTimeout > approvals.MaxWithin {
		faults = append(faults, fmt.Errorf("ApprovalTimeout: %s is longer than state is kept, which is %s",
			cfg.ApprovalTimeout, approvals.MaxWithin))
	}
	if cfg.Budget.Tokens < 0 || !(cfg.Budget.Cost >= 0) {
		faults = append(faults, errors.New("Budget: Tokens or Cost is negative"))
	}
	for _, list := range []struct {
		name  string
		texts []string
	}{
		{"Examples", cfg.Examples},
		{"Approvers", cfg.Approvers},
		{"Access.Tenants", cfg.Access.Tenants},
		{"Access.Users", cfg.Access.Users},
		{"Access.Channels", cfg.Access.Channels},
	} {
		if i := slices.IndexFunc(list.texts, func(text string) bool { return strings.TrimSpace(text) == "" }); i >= 0 {
			faults = append(faults, fmt.Errorf("%s: number %d is empty", list.name, i+1))
		}
	}
	for _, host := range cfg.PictureHosts {
		if !markdown.IsHost(host) {
			faults = append(faults, fmt.Errorf("PictureHosts: %q is no host such as pictures.example.com", host))
		}
	}
	if a := cfg.Attachments; !a.Shown && (a.Files != nil || a.Transcribe != nil) {
		faults = append(faults, errors.New("Attachments: Files and Transcribe need Shown"))
	}
	for _, command := range cfg.CommandsOff {
		if !slices.Contains([]string{resetCommand, dataCommand, forgetCommand, signOutCommand, stop.Command}, command) {
			faults = append(faults, fmt.Errorf("CommandsOff: there is no built-in command %q", command))
		}
	}
	if cfg.Actions != nil {
		if cfg.Tokens == nil && cfg.Authenticator != nil && len(cfg.Actions.Connections()) > 0 {
			faults = append(faults, errors.New("no Tokens, which actions with NeedsToken require"))
		}
		if _, ok := cfg.Actions.Lookup("rememberFact"); cfg.Memory != nil && !ok {
			faults = append(faults, errors.New("Memory without the actions of memory.Register"))
		}
		faults = append(faults, cfg.Actions.Check())
	}
	invokes, err := cfg.Teams.Invokes()
	faults = append(faults, err)
	all, err := texts.New(cfg.Texts)
	cfg.texts = all
	if err := errors.Join(append(faults, err)...); err != nil {
		return nil, fmt.Errorf("bot config: %w", err)
	}
	cfg.Name = cmp.Or(cfg.Name, "Planbot")
	cfg.Welcome = strings.TrimSpace(cfg.Welcome)
	cfg.TurnTimeout = cmp.Or(cfg.TurnTimeout, 5*time.Minute)
	cfg.Lease = cmp.Or(cfg.Lease, 6*time.Second)
	cfg.MaxSteps = cmp.Or(cfg.MaxSteps, 25)
	cfg.HistoryTurns = cmp.Or(cfg.HistoryTurns, 5)
	cfg.Budget.Messages = cmp.Or(cfg.Budget.Messages, 20)
	cfg.ApprovalTimeout = cmp.Or(cfg.ApprovalTimeout, 24*time.Hour)
	cfg.UploadPiece = cmp.Or(cfg.UploadPiece, 32*uploadStep)
	cfg.MaxTurns = cmp.Or(cfg.MaxTurns, 1024)
	cfg.MaxConnections = cmp.Or(cfg.MaxConnections, 10_000)
	cfg.MaxRequests = cmp.Or(cfg.MaxRequests, 4096)
	if cfg.Policy == nil {
		cfg.Policy = actions.DefaultPolicy
	}
	if cfg.Skills != nil {
		cfg.Policy = cfg.Skills.Policy(cfg.Policy)
	}
	b := &Bot{cfg: cfg, refusals: cfg.Log.Sample(&zerolog.BurstSampler{Burst: maxRefusalLines, Period: refusalPeriod})}
	b.taking, b.refuse = context.WithCancel(context.Background()) // ends with Drain
	if err := b.fillIn(); err != nil {
		return nil, err
	}
	cfg = b.cfg
	b.signIn = signin.New(cfg.Tokens, cfg.Actions)
	features, err := b.features()
	if err != nil {
		return nil, fmt.Errorf("bot: %w", err)
	}
	b.asked = &requests.Requests{Store: cfg.Store, Actions: cfg.Actions, Taken: cfg.Requests}
	b.offers = &offers.Offers{Store: cfg.Store, Channel: cfg.Channel, Piece: cfg.UploadPiece}
	features = append([]Feature{b.asked.Feature(), b.offers.Feature()}, append(features, b.signIn.Feature())...)
	b.privacy = &privacy.Privacy{
		Store: cfg.Store, Actions: cfg.Actions, Features: features, Requests: cfg.Requests, Facts: cfg.Memory != nil, Audit: cfg.AuditKeep > 0, SignOut: b.signIn.Out,
	}
	features = append(features, b.privacy.Feature())
	b.routes.last = (&builtins{&b.cfg, &b.routes, b.signIn, b.privacy}).routes()
	clicks, refreshes := cfg.Actions.Clicks()
	for _, a := range clicks {
		b.OnCardAction(a.Name, actionClick(a))
	}
	for _, a := range refreshes {
		b.OnCardRefresh(a.Name, actionClick(a))
	}
	b.routes.last = append(b.routes.last, route{
		func(t *Turn) bool { return b.cfg.Teams.Events.Handler(t.Activity) != nil },
		func(ctx context.Context, t *Turn) error { return b.cfg.Teams.Events.Handler(t.Activity)(ctx, t) },
	})
	b.routes.known = map[string]invokeRoute{
		cardInvoke: {read: b.routes.readClick, handle: func(ctx context.Context, t *Turn, value any) (InvokeResponse, error) {
			return clicked(ctx, b, t, value)
		}, card: true, say: sayOnCard},
		feedbackInvoke: {read: readFeedback, handle: b.rated, mode: teams.Acknowledged, quiet: true},
		fileInvoke:     {read: valueOf[offers.Answer], handle: b.fileAnswered, mode: teams.Acknowledged, beside: "files", same: b.sameFile},
	}
	for name, in := range invokes {
		if strings.HasPrefix(name, "task/") && len(cfg.Teams.Dialogs) == 0 { // the author's own handler may take its place
			b.routes.known[name] = teamsRoute(b, in)
			continue
		}
		b.routes.addInvoke("Teams", name, teamsRoute(b, in))
	}
	if err := b.Check(); err != nil {
		for _, end := range b.ends {
			end()
		}
		return nil, err
	}
	kept := cfg.HistoryTurns
	if cfg.Summarize != nil {
		kept *= summary.Room
	}
	engine, err := turn.New(turn.Config{
		Actions: cfg.Actions, Planner: cfg.Planner, Store: cfg.Store, Channel: cfg.Channel,
		Handler: b.handler, Plans: b.plans, Burst: cfg.Burst, Steer: cfg.Steer, ThreadsTogether: cfg.ThreadsTogether,
		Notice: b.routes.notice, Unread: b.unread, Clicked: decidedClick,
		OwnAnswer: func(t *Turn, said string) turn.Answer { return failedInvoke(b, t, said) },
		Features:  features, Policy: cfg.Policy,
		TurnTimeout: cfg.TurnTimeout, Lease: cfg.Lease, Patience: cfg.Patience,
		MaxSteps: cfg.MaxSteps, MaxSameCalls: cfg.MaxSameCalls, MaxTurns: cfg.MaxTurns,
		MaxWaiting: cfg.MaxWaiting, MaxWaitingPerConversation: cfg.MaxWaitingPerConversation,
		Budget: cfg.Budget, PictureHosts: cfg.PictureHosts, TurnURL: cfg.TurnURL,
		Attachments: cfg.Attachments, Feedback: feedbackForm(&cfg), Stream: cfg.Stream,
		FilteredText: cfg.FilteredText, CommandsOff: cfg.CommandsOff, Texts: cfg.texts, HistoryTurns: kept,
		Log: cfg.Log,
	})
	if err != nil {
		return nil, fmt.Errorf("bot: %w", err)
	}
	b.engine = engine
	if cfg.Metrics != nil {
		err := errors.Join(cfg.Metrics.Queues(engine.Stats), cfg.Metrics.Approvals(func(ctx context.Context) (int, time.Time, error) {
			return approvals.Waiting(ctx, cfg.Store)
		}))
		if err != nil {
			return nil, fmt.Errorf("bot: %w", err)
		}
	}
	return b, nil
}

// features are those of the Config, and those that its other fields ask for.
func (b *Bot) features() ([]Feature, error) {
	var all []Feature
	if b.cfg.Quota != (quota.Limits{}) { // first: who is over it costs nothing
		all = append(all, quota.New(b.cfg.Store, b.cfg.Quota))
	}
	all = append(all, typing.New(b.cfg.Channel))
	if slices.ContainsFunc(b.cfg.Actions.All(), func(a *actions.Action) bool { return a.Later > 0 }) { // what wraps calls costs each call
		all = append(all, background.New())
	}
	all = append(all, b.cfg.Features...)
	if b.cfg.Metrics != nil {
		counts, err := b.cfg.Metrics.Feature()
		if err != nil {
			return nil, err
		}
		all = append(all, counts)
	}
	if b.cfg.Traces != nil {
		all = append(all, traces.New(b.cfg.Traces))
	}
	if b.cfg.AuditKeep > 0 {
		all = append(all, audit.New(b.cfg.Store, b.cfg.AuditKeep, b.cfg.AuditKeys...))
	}
	if b.cfg.TurnsKeep > 0 {
		all = append(all, heads.New(b.cfg.Store, b.cfg.TurnsKeep))
	}
	if b.cfg.Summarize != nil {
		all = append(all, summary.New(b.cfg.Summarize, b.cfg.HistoryTurns))
	}
	if !slices.Contains(b.cfg.CommandsOff, stop.Command) {
		all = append(all, stop.New(func() bool { return slices.Contains(b.routes.commands, stop.Command) }))
	}
	if b.cfg.Moderation.Moderator != nil {
		all = append(all, moderation.New(b.cfg.Moderation, b.cfg.FilteredText))
	}
	if !b.cfg.AsksNobody {
		all = append(all, approvals.New(b.cfg.Store, b.cfg.Actions, b.cfg.Approvers, b.cfg.ApprovalTimeout, b.cfg.ApprovalReminder))
	}
	return all, nil
}

// feedbackForm is the form that people rate replies with, see [activity.Activity.AskFeedback].
func feedbackForm(cfg *Config) string {
	switch {
	case !cfg.Feedback:
		return ""
	case cfg.Teams.FeedbackForm != nil:
		return "custom"
	}
	return "default"
}

// fillIn adds the parts that cfg leaves out, for a bot that runs on its own machine. Drain closes
// them.
func (b *Bot) fillIn() error {
	if b.cfg.Store == nil {
		store, err := state.Open(context.Background(), "", state.Config{})
		if err != nil {
			return fmt.Errorf("bot without a Store: %w", err)
		}
		b.cfg.Store = store
		b.ends = append(b.ends, func() { _ = store.Close() }) // its contents are gone either way
	}
	if b.cfg.Authenticator == nil {
		auth, client, err := local()
		if err != nil {
			return fmt.Errorf("bot without an Authenticator: %w", err)
		}
		b.cfg.Authenticator, b.cfg.Channel, b.cfg.Tokens, b.local = auth, client, client, true
		b.ends = append(b.ends, client.Close)
	}
	return nil
}

// Check lists the mistakes in what was registered: a handler that is nil, an empty name, a second handler for the
// same. [Bot.Serve] and programs of package app do not start with one; if you serve the bot another way, call Check
// once all routes are registered.
func (b *Bot) Check() error {
	if err := errors.Join(b.routes.mistakes...); err != nil {
		return fmt.Errorf("bot routes: %w", err)
	}
	return nil
}

// Start begins to work on the inbox, including what other processes left there. [Bot.Serve] and the
// first request call it. If you serve the bot another way, call Start once all routes are
// registered, so that nothing waits for the first request.
func (b *Bot) Start() {
	if err := b.Check(); err != nil {
		b.cfg.Log.Error().Err(err).Msg("a route was not registered")
	}
	b.engine.Start()
}

// Drain refuses new activities with 503 and waits for the running turns. If ctx ends first, it
// cancels them and returns ctx's error. Other processes finish them, or this one after a restart. A
// bot that keeps its state in this process also works on waiting turns while there is time, and
// tells people what it cancelled. Drain closes what New opened.
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

// Notify saves a notice and sends it in order with the turns of its conversation. See
// [turn.Engine.Notify].
func (b *Bot) Notify(ctx context.Context, n actions.Notice) (id string, err error) {
	return b.engine.Notify(ctx, n)
}

// Request has an action called that another program asks for in the name of a person, and Requested says
// what came of it. They need [Config].Requests. See [requests.Requests.Submit].
func (b *Bot) Request(ctx context.Context, r actions.Request) (id string, err error) {
	return b.asked.Submit(ctx, b.engine, r)
}

// Requested says how far a request is. See [requests.Requests.Find].
func (b *Bot) Requested(ctx context.Context, r actions.Request, id string) (actions.Requested, error) {
	return b.asked.Find(ctx, b.engine, r, id)
}

// Withdraw drops the waiting notices with the Key in the conversation, or of the person, in To. See
// [turn.Engine.Withdraw].
func (b *Bot) Withdraw(ctx context.Context, n actions.Notice) (bool, error) {
	return b.engine.Withdraw(ctx, n)
}

// Forget deletes everything that the bot keeps about the turn's person, see [privacy.Privacy.Forget].
func (b *Bot) Forget(ctx context.Context, t *Turn) error { return b.privacy.Forget(ctx, t) }

// Store returns the bot's store.
func (b *Bot) Store() *state.Store { return b.cfg.Store }

// Actions returns the bot's actions, for tests. It never returns nil.
func (b *Bot) Actions() *actions.Registry { return b.cfg.Actions }

// Draining reports whether Drain was called.
func (b *Bot) Draining() bool { return b.taking.Err() != nil }

// On registers a handler for the activities that match. match sees only Activity and Text: state is
// not loaded yet. The first handler that matches answers.
func (b *Bot) On(match func(t *Turn) bool, h Handler) { b.routes.add("On", route{match, h}) }

// OnMessage registers a handler for messages that match; a nil match takes all.
func (b *Bot) OnMessage(match func(t *Turn) bool, h Handler) {
	b.routes.add("OnMessage", route{func(t *Turn) bool { return t.IsMessage() && (match == nil || match(t)) }, h})
}

// OnCommand registers a handler for messages that are the command, regardless of case. Words may
// follow a command that begins with a slash, such as "/tickets open": the handler gets them as the
// turn's Text. Help lists these commands, with what [Config].Texts has for the command: {"en":
// {"/tickets": "lists the open tickets"}}. A program of package app has it from its Manifest.
func (b *Bot) OnCommand(command string, h Handler) {
	if strings.TrimSpace(command) == "" {
		b.routes.mistake("OnCommand: the command is empty")
		return
	}
	if slices.ContainsFunc(b.routes.commands, func(other string) bool { return strings.EqualFold(other, command) }) {
		b.routes.mistake("OnCommand: the command %q has a handler", command)
		return
	}
	b.routes.add(fmt.Sprintf("OnCommand %q", command), b.routes.command(command, h))
}

// OnActivity registers a handler for a type of activity.
func (b *Bot) OnActivity(typ activity.Type, h Handler) {
	if typ == "" {
		b.routes.mistake("OnActivity: the type is empty")
		return
	}
	b.routes.add(fmt.Sprintf("OnActivity %q", typ), route{func(t *Turn) bool { return strings.EqualFold(string(t.Activity.Type), string(typ)) }, h})
}

// OnEvent registers a handler for events of that name.
func (b *Bot) OnEvent(name string, h Handler) {
	if name == "" {
		b.routes.mistake("OnEvent: the name is empty")
		return
	}
	b.routes.add(fmt.Sprintf("OnEvent %q", name), route{func(t *Turn) bool { return t.Activity.Type == activity.Event && t.Activity.Name == name }, h})
}

// OnMembersAdded registers a handler for members, other than the bot, that join.
func (b *Bot) OnMembersAdded(h Handler) {
	b.routes.add("OnMembersAdded", route{func(t *Turn) bool {
		return t.Activity.Type == activity.ConversationUpdate && slices.ContainsFunc(t.Activity.MembersAdded, func(m activity.Account) bool {
			return m.ID != t.Activity.Recipient.ID
		})
	}, h})
}

// OnNotice registers the handler that notices name in [actions.Notice].Run. It runs as a turn of the
// conversation, in order with its other turns, and may use its state, [turn.Turn.Tell] and, with the
// notice's Text, [turn.Turn.Plan]. The turn's Activity is an event named "notice". Nobody asked, so
// nobody is told of an error: it goes to the log. A name that is empty or has a handler is a mistake, see
// [Bot.Check].
func (b *Bot) OnNotice(name string, h Handler) {
	switch {
	case name == "":
		b.routes.mistake("OnNotice: the name is empty")
	case h == nil:
		b.routes.mistake("OnNotice %q: the handler is nil", name)
	case b.routes.notices[name] != nil:
		b.routes.mistake("OnNotice: the notice %q has a handler", name)
	default:
		if b.routes.notices == nil {
			b.routes.notices = map[string]Handler{}
		}
		b.routes.notices[name] = h
	}
}

// HandlesNotice reports whether [Bot.OnNotice] has registered a handler of that name.
func (b *Bot) HandlesNotice(name string) bool { return b.routes.notices[name] != nil }

// Resumes reports whether a feature of the bot can read what a record waits for, see [turn.Engine.Resumes].
func (b *Bot) Resumes(rec *turn.Record) bool { return b.engine.Resumes(rec) }

// OnReaction registers a handler for reactions to messages.
func (b *Bot) OnReaction(h Handler) { b.OnActivity("messageReaction", h) }

// Use wraps the handler of every activity in m, which calls next to continue. The first one added
// is the outermost.
func (b *Bot) Use(m func(next Handler) Handler) {
	if m == nil {
		b.routes.mistake("Use: the middleware is nil")
		return
	}
	b.routes.middleware = append(b.routes.middleware, m)
}

// OnInvoke registers the handler for invokes of that name. Its response answers the HTTP request.
// Like a [Handler], it may run again. If it returns an [*InvokeError], that is the answer, and its
// state changes are saved. An invoke without a handler gets a 501. A name that has a handler
// is a mistake, see [Bot.Check]. [AddInvoke] is a typed version; [Bot.OnCardAction] and
// [Bot.OnFeedback] are for the invokes that the bot decodes itself.
func (b *Bot) OnInvoke(name string, h func(ctx context.Context, t *Turn) (InvokeResponse, error)) {
	if h == nil {
		b.routes.mistake("OnInvoke %q: the handler is nil", name)
		return
	}
	b.routes.addInvoke("OnInvoke", name, invokeRoute{handle: func(ctx context.Context, t *Turn, _ any) (InvokeResponse, error) { return h(ctx, t) }})
}

// OnCardAction registers the handler for buttons with that verb. If a client falls back from
// Action.Execute to Action.Submit, the answer comes as a message. Verbs that begin with "planbot/"
// are the bot's own. A verb that is empty, the bot's own, or has a handler is a mistake, see
// [Bot.Check].
//
// A bad click, or one whose verb has no handler, gets a card fault with status 400 in a response
// with status 200, so that the client shows it. With a 501 the client would say "unable to reach
// app" about a card that an older version of the bot sent.
//
// A click waits for the running turn of its conversation. After four seconds the person reads that
// the click was noted. It is still handled, and a Message of its answer is then sent to the
// conversation, or its Card replaces the clicked one in a personal chat. An equal click by the same person counts as
// the same click until an answer has gone out within five seconds, for at most a minute: it gets
// the same answer, and the handler does not run again. After that it is a new click.
func (b *Bot) OnCardAction(verb string, h func(ctx context.Context, t *Turn, click CardClick) (CardAnswer, error)) {
	b.routes.addCard("OnCardAction", verb, cardRoute{handle: h})
}

// OnCardRefresh registers the handler for cards whose member refresh has an Action.Execute with that
// verb. Clients ask when somebody opens the chat, or the message was edited: for a view of the card
// that only this person gets. The turn is read-only, and neither a model nor a message fits here.
// The answer's Card should have the member refresh again; for who may see no more than all others,
// return the card that all others see, no error. A person who asks for the same card more than a
// few times in a row gets the last answer again. A verb that is empty, the bot's own, or has
// a handler is a mistake, see [Bot.Check]: a client sends the same for a refresh by hand and for a click.
//
// Without a handler the card stays as it is: a refresh never runs what OnCardAction registered.
func (b *Bot) OnCardRefresh(verb string, h func(ctx context.Context, t *Turn, click CardClick) (CardAnswer, error)) {
	b.routes.addCard("OnCardRefresh", verb, cardRoute{handle: h, refresh: true})
}

// OnFeedback registers the handler for feedback on messages that ask for it, see Config.Feedback
// and [activity.Activity.AskFeedback]. The request is answered before h runs, so an error of h only
// goes to the log. Like a [Handler], h may run again. Before h runs, or if there is no handler, the
// bot counts the feedback and logs it without its text. A second handler is a mistake, see
// [Bot.Check].
func (b *Bot) OnFeedback(h func(ctx context.Context, t *Turn, f Feedback) error) {
	switch {
	case h == nil:
		b.routes.mistake("OnFeedback: the handler is nil")
	case b.routes.feedback != nil:
		b.routes.mistake("OnFeedback: there is a handler")
	default:
		b.routes.feedback = h
	}
}

// rated records the feedback. The answer must be empty.
func (b *Bot) rated(ctx context.Context, t *Turn, value any) (InvokeResponse, error) {
	f := value.(Feedback)
	reaction := disliked
	if f.Liked {
		reaction = liked
	}
	b.engine.Count(t.ID, turn.CountFeedback, reaction)
	zerolog.Ctx(ctx).Info().Str("reaction", reaction).Bool("text", f.Text != "").Str("rated", f.MessageID).Msg("feedback")
	if b.routes.feedback == nil {
		return InvokeResponse{}, nil
	}
	return InvokeResponse{}, b.routes.feedback(ctx, t, f)
}

const uploadStep = 327_680 // what OneDrive wants the parts of a file to be a multiple of, in bytes

// Limits on shutdown.
const (
	drainTimeout = 20 * time.Second
	closeTimeout = 2 * time.Second
)

// ListenAndServe serves POST /api/messages on addr, a host:port, until ctx ends. Then it drains: it
// refuses activities, gives the running turns 20 seconds, and returns nil. It is all that the main
// of a small bot needs:
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
	if err := b.Check(); err != nil {
		return errors.Join(err, listener.Close())
	}
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

// shut waits for the running turns and then for the connections, each for a limited time.
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

// Limits on what a client may tie up.
const (
	headerTimeout  = 10 * time.Second
	readTimeout    = 20 * time.Second // headers and body
	writeTimeout   = time.Minute      // everything after the headers: read the body, wait for the answer, write it
	idleTimeout    = 2 * time.Minute
	maxHeaderBytes = 32 << 10
	// lingerTimeout is how long the server waits for the rest of a request it has already answered.
	lingerTimeout = 500 * time.Millisecond
)

// NewServer returns a server for h, a handler that includes the bot. It limits what clients may tie
// up: the time for headers, body and answer, idle time, the size of headers, and the number of
// connections ([Config].MaxConnections). It logs to the bot's log. The caller may set other fields,
// but not ConnState and ConnContext.
func (b *Bot) NewServer(h http.Handler) *http.Server {
	cap := newConnCap(b.cfg.MaxConnections, b.cfg.Log)
	return &http.Server{
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
}

// hastening limits how long the server waits for the rest of a request once h has answered it. The
// server reads the rest before it sends the answer, so that it can reuse the connection. Without
// the limit a stranger would get the time of a whole body.
func hastening(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r)
		if r.Body != http.NoBody {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(lingerTimeout)) // cannot fail on an open connection
		}
	})
}

// connCap limits the open connections of a server. At the limit it closes the one that has gone
// longest without an authenticated request, counted from when it opened or from its last answer. So
// a client that opens connections and sends nothing, sends slowly, or does not read loses its own
// connections. New connections wait until one has been quiet for a moment: a request that has just
// arrived is not cut off.
//
// netutil.LimitListener would not choose: strangers who keep connections open would lock out
// everybody, health checks included.
type connCap struct {
	most int
	log  zerolog.Logger

	mu    sync.Mutex
	conns map[net.Conn]*conn
	quiet list.List // of *conn, longest quiet first
}

const (
	leastQuiet = 250 * time.Millisecond // how long a connection may always be quiet
	roomPause  = 10 * time.Millisecond  // the time between two looks for a connection that may be closed
)

type conn struct {
	net.Conn
	serving int           // authenticated requests being answered
	at      *list.Element // in quiet; nil: not quiet
	since   time.Time     // when it became quiet
}

func newConnCap(most int, log zerolog.Logger) *connCap {
	return &connCap{most: most, log: log.Sample(&zerolog.BurstSampler{Burst: 1, Period: time.Second}), conns: map[net.Conn]*conn{}}
}

// watch is the server's ConnState. The server calls it for a new connection before it accepts the
// next one.
func (k *connCap) watch(c net.Conn, now http.ConnState) {
	switch now {
	case http.StateNew:
		for !k.open(c) {
			time.Sleep(roomPause)
		}
	case http.StateClosed, http.StateHijacked:
		k.mu.Lock()
		defer k.mu.Unlock()
		k.forget(c)
	}
}

// open counts a new connection, if necessary in place of another. It returns false if there is no
// room now.
func (k *connCap) open(c net.Conn) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.conns) >= k.most {
		longest := k.quiet.Front()
		if longest == nil || time.Since(longest.Value.(*conn).since) < leastQuiet {
			return false
		}
		old := longest.Value.(*conn).Conn
		k.forget(old)
		go func() { _ = old.Close() }() // may wait for the client; its own goroutine notices
		k.log.Warn().Int("at_most", k.most).Msg("a quiet connection was closed for a new one")
	}
	k.conns[c] = &conn{Conn: c}
	k.rests(k.conns[c])
	return true
}

func (k *connCap) forget(c net.Conn) {
	if one := k.conns[c]; one != nil && one.at != nil {
		k.quiet.Remove(one.at)
	}
	delete(k.conns, c)
}

func (k *connCap) rests(one *conn) {
	one.at, one.since = k.quiet.PushBack(one), time.Now()
}

// connOf identifies a server's connection in the contexts of its requests.
type connOf struct {
	cap  *connCap
	conn net.Conn
}

type connKey struct{}

// connContext is the server's ConnContext.
func (k *connCap) connContext(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, connOf{k, c})
}

// counting restarts the quiet time of a connection when h has answered a request.
func (k *connCap) counting(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if at, ok := r.Context().Value(connKey{}).(connOf); ok {
			defer k.count(at.conn, 0)
		}
		h.ServeHTTP(w, r)
	})
}

// keepOpen keeps the connection of an authenticated request open until done is called. On a server
// without a cap it does nothing.
func keepOpen(ctx context.Context) (done func()) {
	at, ok := ctx.Value(connKey{}).(connOf)
	if !ok {
		return func() {}
	}
	at.cap.count(at.conn, 1)
	return func() { at.cap.count(at.conn, -1) }
}

// count adds to the connection's authenticated requests, if it is still open. With none left, it is
// quiet from now on.
func (k *connCap) count(c net.Conn, requests int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	one := k.conns[c]
	if one == nil {
		return
	}
	if one.at != nil {
		k.quiet.Remove(one.at)
		one.at = nil
	}
	if one.serving += requests; one.serving == 0 {
		k.rests(one)
	}
}
