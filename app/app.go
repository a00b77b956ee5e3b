// Package app is the whole program around a bot: settings, logs, health, metrics and traces, and
// the commands that serve the bot, talk to it and maintain it. A main function only needs [Main].
package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/app/internal/local"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bot/quota"
	"github.com/planbot-go/planbot/bot/teams"
	"github.com/planbot-go/planbot/bot/turn"
	"github.com/planbot-go/planbot/bot/turn/files"
	"github.com/planbot-go/planbot/connector"
	"github.com/planbot-go/planbot/internal/cli"
	"github.com/planbot-go/planbot/internal/settings"
	"github.com/planbot-go/planbot/internal/texts"
	"github.com/planbot-go/planbot/manifest"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/prompts"
	"github.com/planbot-go/planbot/state"
	"github.com/planbot-go/planbot/state/inbox"
)

// Bot describes the bot of a program. Name is required; the zero value of every other field is a
// working default.
type Bot struct {
	Name     string                  // what people call it
	Register func(*actions.Registry) // adds its actions; called more than once
	Examples []string                // what people may say, for the bot's help

	// Instructions tell the model who the bot is, what it is for and how it talks, with every
	// planner. They are at most 64 KiB. BOT_INSTRUCTIONS_FILE replaces them. "": none.
	Instructions string
	// Welcome is what the bot says when it is added to a conversation. "": a built-in text.
	Welcome string

	// Setup changes the config of the bot just before [bot.New]: its features, planner, policy,
	// limits, anything. Features are empty then; those of features, or New's cfg run within the
	// ones that Setup adds. An error stops the start with exit code 2. nil: changes nothing.
	Setup func(*bot.Config) error
	// Routes registers handlers on the bot before it takes activities. nil: none.
	Routes func(*bot.Bot)
	// Teams is what the bot answers besides messages and clicks on cards: dialogs, the message
	// extension, choices that are looked up.
	Teams teams.Routes

	// Memory lets the bot remember facts that people ask it to, in personal chats, as BOT_MEMORY does, with the feature memory.
	// People see and delete them with /memory. See package memory.
	Memory bool
	// Planner is the planner used if BOT_PLANNER is not set. "": sequence.
	Planner string
	// Prompts has a folder prompts, used if BOT_PROMPTS_DIR is not set. nil: the built-in prompts.
	Prompts fs.FS
	// Counter counts tokens for BOT_HISTORY_TOKENS and for prompts. nil: [prompts.Tokens], which counts up to half
	// as many again; package tokens counts exactly.
	Counter prompts.Counter
	// Functions are what prompts may call, see [planner.Config].
	Functions map[string]func(context.Context, *actions.Turn, []string) (any, error)
	// Texts changes and translates what the bot says by itself, see [bot.Config].
	Texts map[string]map[string]string
	// Connections makes the connections to services whose actions the bot may plan, such as MCP
	// servers, for the feature services. The bot closes them. Their logger is in the context; count is for their configs, and may be nil. An
	// error stops the start with exit code 2. nil: none.
	Connections func(ctx context.Context, count func(metric, label string)) ([]actions.Connection, error)

	// Features returns features of this bot, each time anew, such as one with a config of its own. One takes the
	// place of that of the same name which [Main] gets. nil: none.
	Features func() []Feature

	// Services are where people sign in for actions with [actions.NeedsToken] besides the OAuth
	// connections of the Azure Bot, by the name of the connection. They need the feature services,
	// BOT_PUBLIC_URL and BOT_TOKEN_KEYS. nil: none.
	Services map[string]connector.Service

	// Manifest says what is in the app package that installs the bot in Teams. Its Name is Name,
	// and its Prompts are the actions, if they are not set. Its Commands come after help, /reset,
	// /mydata and /forget, or replace the ones of the same title. Help describes the commands of
	// [bot.Bot.OnCommand] as Commands does. Texts translates descriptions, also in the language files
	// of the app package. Flags of "manifest build" replace the rest.
	Manifest manifest.Config

	features []Feature // of its program, with those of Features
}

// New makes only the bot with its Features, on that model: for a test, or for your own server. cfg sets what Bot does
// not. Connections are closed once ctx ends.
func New(ctx context.Context, b Bot, model models.Model, cfg bot.Config) (*bot.Bot, error) {
	b.addFeatures(nil)
	s := settingsOf(b)
	if err := s.Wiring(); err != nil {
		return nil, err
	}
	s.Planner = cmp.Or(b.Planner, settings.Sequence)
	if guard, ok := cfg.Authenticator.(interface{ Local() bool }); cfg.Authenticator != nil && (!ok || !guard.Local()) {
		s.Proven = true
		if len(cfg.Access.Tenants) == 1 {
			s.AppTenant = cfg.Access.Tenants[0]
		}
	}
	if err := b.describe(s); err != nil {
		return nil, err
	}
	closeAll, err := s.Connect(ctx)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, closeAll)
	maker, err := s.NewPlanner(ctx, s.Actions(), settings.Watch{Model: func(models.Model) models.Model { return model }})
	if err != nil {
		return nil, err
	}
	cfg.Actions, cfg.Planner, cfg.Memory = maker.Actions, maker, settings.Find[bot.Memory](maker.Extensions)
	p := &program{Settings: s, own: b, log: cfg.Log}
	context.AfterFunc(ctx, p.close)
	if err := p.wireFeatures(cfg.Log.WithContext(ctx), &cfg); err != nil {
		return nil, err
	}
	made, _, err := b.assemble(s, cfg)
	return made, err
}

// addFeatures makes those that a program hands over its own, and those of its description.
func (b *Bot) addFeatures(all []Feature) {
	b.features = slices.Clone(all)
	if b.Features == nil {
		return
	}
	for _, f := range b.Features() {
		same := func(other Feature) bool { return other.Name == f.Name }
		if i := slices.IndexFunc(b.features[:len(all)], same); i >= 0 {
			b.features[i] = f
			continue
		}
		b.features = append(b.features, f)
	}
}

// assemble fills cfg with what b and s say, and makes the bot. It returns the bot's policy, too.
func (b *Bot) assemble(s *settings.Settings, cfg bot.Config) (*bot.Bot, actions.Policy, error) {
	cfg.Name, cfg.Examples, cfg.Texts, cfg.Welcome, cfg.Teams = b.Name, b.Examples, b.describeCommands(), cmp.Or(b.Welcome, cfg.Welcome), b.Teams
	if cfg.Policy == nil {
		cfg.Policy = actions.DefaultPolicy // so that Setup can wrap it
	}
	if b.Setup != nil {
		watching := cfg.Features
		cfg.Features = nil
		if err := b.Setup(&cfg); err != nil {
			if _, complete := errors.AsType[settings.Fault](err); !complete {
				err = cli.Usage(fmt.Errorf("set up the bot: %w", err))
			}
			return nil, nil, err
		}
		cfg.Features = append(cfg.Features, watching...)
	}
	if s != nil { // whatever policy Setup has left
		cfg.Policy = settings.Policy(s.ApprovalActions, cfg.Policy)
	}
	made, err := bot.New(cfg)
	if err != nil {
		bare, ofBare := bot.New(bot.Config{
			Actions: cfg.Actions, Planner: cfg.Planner, Store: cfg.Store, Channel: cfg.Channel, Authenticator: cfg.Authenticator,
		})
		if ofBare == nil { // tells what is wrong with the routes, too
			err = errors.Join(err, b.route(bare))
			discard(bare)
		}
		return nil, nil, cli.Usage(err)
	}
	if err := b.route(made); err != nil {
		return nil, nil, cli.Usage(err)
	}
	return made, cfg.Policy, nil
}

// route adds the bot's routes, and returns what is wrong with them.
func (b *Bot) route(made *bot.Bot) error {
	if b.Routes != nil {
		b.Routes(made)
	}
	return made.Check()
}

// check is the mistakes in the settings and the bot, all at once. Setup, Routes and Connections are only tried
// here if there are mistakes already: otherwise the start finds those in them.
func (b *Bot) check(ctx context.Context, s *settings.Settings, more ...error) error {
	_, err := b.Teams.Invokes()
	more = append(more, err)
	if err := cli.Check(s, more...); err == nil {
		return nil
	}
	return cli.Check(s, append(more, b.tryConnections(ctx, s), b.tryWiring())...)
}

// tryWithin limits how long services may take to be looked at by a bot that does not start.
const tryWithin = 5 * time.Second

func (b *Bot) tryConnections(ctx context.Context, s *settings.Settings) error {
	ctx, cancel := context.WithTimeout(ctx, tryWithin)
	defer cancel()
	closeAll, err := s.Connect(ctx)
	if err == nil {
		closeAll()
	}
	return err
}

// tryWiring makes a bot that never starts, and returns what is wrong with it.
func (b *Bot) tryWiring() (err error) {
	defer func() {
		if recover() != nil {
			err = nil // Setup or Routes need what the wrong settings lack
		}
	}()
	trial := Bot{Name: b.Name, Examples: b.Examples, Setup: b.Setup, Routes: b.Routes}
	made, _, err := trial.assemble(nil, bot.Config{Actions: actions.New(), Planner: noPlanner{}})
	if made != nil {
		discard(made)
	}
	return err
}

// discard ends a bot that never started.
func discard(made *bot.Bot) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	_ = made.Drain(ended) // nothing runs in it
}

// noPlanner plans nothing.
type noPlanner struct{ turn.Planner }

func (b *Bot) describeCommands() map[string]map[string]string {
	all, english := maps.Clone(b.Texts), map[string]string{}
	for _, c := range b.Manifest.Commands {
		english[c.Title] = c.Description
	}
	if len(english) == 0 {
		return b.Texts
	}
	if all == nil {
		all = map[string]map[string]string{}
	}
	maps.Copy(english, all["en"])
	all["en"] = english
	return all
}

// chatCommands are the commands that people can send to the bot, with what each does: the built-in ones that are
// on, then those of its manifest.
func (b *Bot) chatCommands(s *settings.Settings) []manifest.Command {
	builtIn := []manifest.Command{
		{Title: "help", Description: string(texts.Text("Shows what I can do"))},
		{Title: "/reset", Description: string(texts.Text("Forgets our conversation"))},
		{Title: "/mydata", Description: string(texts.Text("Shows what I keep about you"))},
		{Title: "/forget", Description: string(texts.Text("Deletes everything I keep about you"))},
	}
	if b.Memory || s.Text("BOT_MEMORY") == "true" {
		builtIn = append(builtIn, manifest.Command{Title: "/memory", Description: string(texts.Text("Shows what you asked me to remember"))})
	}
	if len(b.Services) > 0 || b.usesAzureSignIn(s) {
		builtIn = append(builtIn, manifest.Command{Title: "/signout", Description: string(texts.Text("Signs you out of other services"))})
	}
	dropped := func(c manifest.Command) bool {
		replaced := func(own manifest.Command) bool { return own.Title == c.Title }
		return slices.Contains(s.CommandsOff, c.Title) || slices.ContainsFunc(b.Manifest.Commands, replaced)
	}
	return slices.Concat(slices.DeleteFunc(builtIn, dropped), b.Manifest.Commands)
}

// usesAzureSignIn reports whether people sign in by OAuth connections of the Azure Bot.
func (b *Bot) usesAzureSignIn(s *settings.Settings) bool {
	azure := func(name string) bool {
		_, own := b.Services[name]
		return !own
	}
	return s.SignsIn || slices.ContainsFunc(s.Actions().Connections(), azure)
}

const (
	readyTimeout = 2 * time.Second
	// closeTimeout limits how long connections may take to close once no turn runs, if
	// BOT_DRAIN_TIMEOUT leaves that much.
	closeTimeout   = 2 * time.Second
	leastCloseTime = 100 * time.Millisecond
	// cutOffTime is the part of BOT_DRAIN_TIMEOUT, at most a quarter of it, in which turns tell
	// people that they were cut off.
	cutOffTime = 3 * time.Second
)

type serveCmd struct {
	own *Bot
}

// Run serves until the process is told to stop, then drains.
func (cmd serveCmd) Run(ctx context.Context, s *settings.Settings, std *cli.Streams) error {
	if err := cmd.own.check(ctx, s, freeDataDir(s.DataDir)); err != nil {
		return err
	}
	p := &program{Settings: s, own: *cmd.own, log: cli.Logger(std.Err, s, zerolog.InfoLevel)}
	defer p.close()
	if err := p.open(std.Err); err != nil {
		return err
	}
	if err := p.assemble(ctx); err != nil {
		return err
	}
	if err := p.refuseOldLayout(ctx); err != nil {
		return err
	}
	listener, err := local.Listen(ctx, s.Listen(), "BOT_ADDR, PORT")
	if err != nil {
		return err
	}
	if err := p.serveFeatures(ctx, listener.Addr()); err != nil {
		return errors.Join(err, listener.Close())
	}
	p.announce(std.Out)
	return p.serve(ctx, listener)
}

// open lets features watch from the beginning.
func (p *program) open(stderr io.Writer) error {
	for _, f := range p.own.features {
		if f.Open == nil {
			continue
		}
		if err := f.Open(p.program()); err != nil {
			return err
		}
	}
	if len(p.logs) > 0 {
		p.log = cli.Logger(stderr, p.Settings, zerolog.InfoLevel, p.logs...)
	}
	if len(p.logs) > 0 && p.log.GetLevel() == zerolog.Disabled { // contexts do not carry a disabled logger
		p.log = zerolog.New(io.Discard)
	}
	return nil
}

// serveFeatures starts what runs beside the bot, which listens there.
func (p *program) serveFeatures(ctx context.Context, addr net.Addr) error {
	p.reached = cmp.Or(p.PageAddr, addr.String()) // bot dev may be in front of it
	for _, f := range p.own.features {
		if f.Serve == nil {
			continue
		}
		if err := f.Serve(ctx, p.program()); err != nil {
			return err
		}
	}
	return nil
}

// refuseOldLayout returns an error if Redis holds turns from a version with another layout: this
// version would ignore them silently. A server that is not up yet cannot be asked.
func (p *program) refuseOldLayout(ctx context.Context) error {
	store := p.bot.Store()
	if store.Embedded() {
		return nil
	}
	in, err := inbox.Open(store, inbox.Config{Log: p.log})
	if err != nil {
		return err
	}
	defer in.Close()
	ping, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	n := 0
	if err = store.Ping(ping); err == nil {
		n, err = in.Old(ctx)
	}
	if err != nil {
		p.log.Warn().Err(err).Msg("cannot tell whether an older version left turns in Redis")
	}
	if n > 0 {
		return cli.Usage(fmt.Errorf("REDIS_URL: Redis holds turns of an older version in %d keys, which this version cannot read. "+
			"Let that version finish them, or forget them for good with: bot turns drop --old", n))
	}
	return nil
}

// program is a bot with all its parts.
type program struct {
	*settings.Settings
	own        Bot          // what the settings do not need of it
	std        *cli.Streams // of a command of a feature
	log        zerolog.Logger
	ackTimeout time.Duration // 0: the bot's default

	bot      *bot.Bot
	store    *state.Store
	logs     []io.Writer                       // copies of the log
	watch    settings.Watch                    // of features
	reached  string                            // where browsers of this machine reach it, as host:port
	about    [][2]string                       // what features say of it at the start
	wrappers []func(http.Handler) http.Handler // of the webhook
	policy   actions.Policy                    // the bot's
	handlers map[string]http.Handler           // of features, by pattern
	closers  []func()
	drained  []func(context.Context) // run once no turn does
	away     atomic.Bool             // whether the store was unreachable at the last check

	// What the bot runs with, in words; services only if there are any.
	aboutState, aboutModel, aboutIdentity, aboutServices string
}

// program is p for features.
func (p *program) program() *Program { return &Program{Values: Values{p.Settings}, p: p} }

// assemble wires the bot. Close the program when you no longer need it.
func (p *program) assemble(ctx context.Context) error {
	logged := p.log.WithContext(ctx)
	p.Count = p.watch.Count
	closeAll, err := p.Connect(logged)
	if err != nil {
		return err
	}
	p.closers = append(p.closers, closeAll)
	for _, c := range p.Connected {
		p.aboutServices = strings.TrimPrefix(p.aboutServices+", "+c.Key(), ", ")
	}
	maker, err := p.NewPlanner(logged, p.Actions(), p.watch)
	if err != nil {
		return err
	}
	p.aboutModel = maker.AboutModel
	if p.store == nil {
		if err := p.ownStore(ctx); err != nil {
			return err
		}
	}
	guard, client, err := p.connect()
	if err != nil {
		return err
	}
	auditKeys, err := settings.Keys("BOT_AUDIT_KEYS", p.AuditKeys)
	if err != nil {
		return err
	}
	cfg := bot.Config{
		Actions: maker.Actions, Planner: maker, Store: p.store, Channel: client, Tokens: client, Authenticator: bot.Guarded(guard), Log: p.log,
		FilteredText: p.FilteredText, CommandsOff: p.CommandsOff, Feedback: p.Feedback, HistoryTurns: p.HistoryTurns,
		Stream:      p.streams(),
		TurnTimeout: p.TurnTimeout, Burst: p.Burst, Steer: p.Steer, ThreadsTogether: p.ThreadsTogether, AckTimeout: p.ackTimeout,
		ApprovalTimeout: p.ApprovalTimeout, ApprovalReminder: p.ApprovalReminder, Approvers: p.Approvers,
		MaxSteps: p.MaxSteps, MaxSameCalls: p.MaxSameCalls, Budget: p.Budget(), Quota: quota.Limits{
			UserTurnsPerMinute: p.UserTurns, UserTokensPerDay: p.UserTokens, TenantTurnsPerMinute: p.TenantTurns, TenantTokensPerDay: p.TenantTokens,
		}, PictureHosts: p.PictureHosts, AuditKeep: p.AuditKeep, AuditKeys: auditKeys, TurnsKeep: p.TurnsKeep, MaxTurns: p.MaxTurns,
		MaxWaiting: p.MaxWaiting, MaxWaitingPerConversation: p.MaxWaitingEach, MaxConnections: p.MaxConnections, MaxRequests: p.MaxRequests,
		Access: bot.Access{Tenants: p.AllowedTenants, Users: p.AllowedUsers, Channels: p.AllowedChannels},
	}
	cfg.Memory = settings.Find[bot.Memory](maker.Extensions)
	if p.Attachments == "shown" {
		listen, err := p.Transcriber()
		if err != nil {
			return cli.Usage(fmt.Errorf("BOT_TRANSCRIBE_MODEL: %w", err))
		}
		cfg.Attachments = files.Attachments{Shown: true, Keep: cmp.Or(p.FilesKeep, -1)}
		if listen != nil {
			cfg.Attachments.Transcribe = listen.Transcribe
		}
	}
	cfg.Skills = settings.Find[bot.Skills](maker.Extensions)
	if p.HistorySummary {
		cfg.Summarize = maker.Summarize
	}
	if err := p.wireFeatures(logged, &cfg); err != nil {
		return err
	}
	if p.bot, p.policy, err = p.own.assemble(p.Settings, cfg); err != nil {
		return err
	}
	if store := p.bot.Store(); store != p.store { // Setup replaced it
		p.aboutState = store.String()
	}
	return nil
}

// wireFeatures lets features change the bot that is about to be made.
func (p *program) wireFeatures(ctx context.Context, cfg *bot.Config) error {
	for _, f := range p.own.features {
		if f.Wire == nil {
			continue
		}
		if err := f.Wire(ctx, p.program(), cfg); err != nil {
			return err
		}
	}
	return nil
}

// ownStore opens the store of a program that runs turns: it also runs the server of BOT_DATA_DIR.
func (p *program) ownStore(ctx context.Context) error {
	if p.DataDir != "" {
		data, err := openDataDir(ctx, p.DataDir, p.log)
		if err != nil {
			return err
		}
		p.closers = append(p.closers, data.close)
	}
	return p.openStore(ctx)
}

// openStore opens the configured Redis, or one inside the process. The program also starts if the
// server is not up yet.
func (p *program) openStore(ctx context.Context) (err error) {
	url, cfg := p.RedisURL, state.Config{}
	if p.DataDir != "" {
		url = "redis://data-folder" // Dial ignores it
		cfg.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) { return dialDataDir(ctx, p.DataDir) }
	}
	if p.store, err = state.Open(ctx, url, cfg); err != nil {
		return cli.Usage(fmt.Errorf("REDIS_URL: %w", err))
	}
	switch {
	case p.DataDir != "":
		p.aboutState = "in " + p.DataDir + " (BOT_DATA_DIR)"
	case p.store.Embedded():
		p.aboutState = "embedded Redis, forgets everything at exit (set BOT_DATA_DIR or REDIS_URL to keep it)"
	default:
		p.aboutState = p.store.String()
	}
	p.closers = append(p.closers, func() { _ = p.store.Close() }) // nothing is pending
	return nil
}

func (p *program) openRunning(ctx context.Context) error {
	if err := cli.Check(p.Settings); err != nil {
		return err
	}
	if p.RedisURL == "" && p.DataDir == "" {
		return cli.Usage(errors.New("REDIS_URL or BOT_DATA_DIR must be set: other processes cannot see into an embedded Redis"))
	}
	if err := p.openStore(ctx); err != nil {
		return err
	}
	if p.DataDir != "" {
		if err := p.store.Ping(ctx); err != nil {
			return fmt.Errorf("no bot runs with BOT_DATA_DIR=%s: %w", p.DataDir, err)
		}
	}
	return nil
}

// openInbox opens an inbox that takes no part in the work, until the program is closed.
func (p *program) openInbox(store *state.Store) (*inbox.Inbox, error) {
	in, err := inbox.Open(store, inbox.Config{Patience: turnsPatience, Log: p.log})
	if err == nil {
		p.closers = append(p.closers, in.Close)
	}
	return in, err
}

func dialDataDir(ctx context.Context, folder string) (net.Conn, error) {
	var dialer net.Dialer
	return dialer.DialContext(ctx, "unix", filepath.Join(folder, settings.DataSocket))
}

// connect makes the guard that authenticates callers and the client that sends.
func (p *program) connect() (*connector.Guard, *connector.Client, error) {
	cfg := p.Connector()
	cfg.UserAgent = "planbot/" + Version()
	guard, client, err := connector.New(cfg)
	if err != nil {
		return nil, nil, cli.Usage(err)
	}
	p.closers = append(p.closers, guard.Close, client.Close)
	switch {
	case p.NoAuth:
		p.aboutIdentity = "none, BOT_DANGEROUSLY_NO_AUTH=true: whoever reaches this address may talk to the bot"
	case p.AppID == "":
		p.aboutIdentity = "local mode, no app id: whoever reaches this address may talk to the bot"
	default:
		p.aboutIdentity = "app " + p.AppID + ", " + p.IdentityType()
		if p.AllowEmulator {
			p.aboutIdentity += "; accepts the Emulator and the Playground with tokens of that app (BOT_ALLOW_EMULATOR)"
		}
		if n := len(p.AllowedCallers); n > 0 {
			p.aboutIdentity += fmt.Sprintf("; may be called by %d other bots (BOT_ALLOWED_CALLERS)", n)
		}
	}
	return guard, client, nil
}

// close closes the parts, last first.
func (p *program) close() {
	for _, end := range slices.Backward(p.closers) {
		end()
	}
	p.closers = nil
}

// serve answers requests until ctx ends, and then drains: it refuses new activities, lets running
// turns end, and closes connections.
func (p *program) serve(ctx context.Context, listener net.Listener) error {
	server := p.bot.NewServer(p.handler())
	server.BaseContext = func(net.Listener) context.Context { return p.log.WithContext(context.WithoutCancel(ctx)) }
	p.bot.Start()
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	err := p.drain(server)
	if ended := <-failed; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	return err
}

// background assembles p and serves until ctx ends or end is called, which waits for that. The address takes
// activities.
func (p *program) background(ctx context.Context) (address string, end func() error, err error) {
	if err := p.assemble(ctx); err != nil {
		return "", nil, err
	}
	listener, err := local.Listen(ctx, p.Listen(), "BOT_ADDR, PORT")
	if err != nil {
		return "", nil, err
	}
	ctx, leave := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- p.serve(ctx, listener) }()
	end = func() error {
		leave()
		return <-served
	}
	return "http://" + listener.Addr().String() + "/api/messages", end, nil
}

// drain takes at most the drain timeout, whatever hangs.
func (p *program) drain(server *http.Server) error {
	p.log.Info().Stringer("at_most", p.DrainTimeout).Msg("draining")
	end := time.Now().Add(p.DrainTimeout)
	ctx, cancel := context.WithDeadline(context.Background(), end.Add(-min(cutOffTime, p.DrainTimeout/4)))
	defer cancel()
	if err := p.bot.Drain(ctx); err != nil {
		p.log.Warn().Err(err).Msg("turns were cut off")
	}
	ctx, cancel = context.WithTimeout(context.Background(), max(leastCloseTime, min(closeTimeout, time.Until(end))))
	defer cancel()
	var flush sync.WaitGroup
	for _, send := range p.drained {
		flush.Go(func() { send(ctx) })
	}
	err := server.Shutdown(ctx)
	flush.Wait()
	if err != nil {
		p.log.Debug().Err(err).Msg("connections were cut off")
		return server.Close()
	}
	p.log.Info().Msg("stopped")
	return nil
}

func (p *program) handler() http.Handler {
	mux := http.NewServeMux()
	var webhook http.Handler = p.bot
	for _, wrap := range p.wrappers {
		webhook = wrap(webhook)
	}
	mux.Handle("/api/messages", webhook)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", p.ready)
	for pattern, h := range p.handlers {
		mux.Handle(pattern, h)
	}
	return mux
}

// ready says whether this process can take activities now. Probes come every few seconds, so it
// logs only when the store's availability changes.
func (p *program) ready(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
	defer cancel()
	log := zerolog.Ctx(ctx)
	line := log.Debug()
	err := errors.New("draining")
	if !p.bot.Draining() {
		err = p.bot.Store().Ping(ctx)
		if changed := p.away.Swap(err != nil) != (err != nil); changed {
			line = log.Warn()
		}
	}
	if err != nil {
		line.Err(err).Msg("not ready")
		http.Error(w, "not ready", http.StatusServiceUnavailable)
		return
	}
	line.Msg("ready")
	fmt.Fprintln(w, "ready")
}

// announce says where the bot listens, what is not set up, and what to do next: sentences for a
// person, one line for a log.
func (p *program) announce(out io.Writer) {
	url := "http://" + p.reached + "/api/messages"
	if p.NoAuth {
		p.log.Warn().Msg("BOT_DANGEROUSLY_NO_AUTH is true: nobody is checked, so keep this bot on a closed network")
	}
	for _, about := range p.Warnings() {
		p.log.Warn().Str("about", about).Msg("check this setting")
	}
	line := p.log.Info()
	if cli.JSONLog(out, p.Settings) {
		out = io.Discard
	} else {
		line = p.log.Debug() // the sentences say the same
	}
	fmt.Fprintf(out, "%s listens on %s\n", p.Bot.Name, url)
	for _, part := range append(p.about, [][2]string{
		{"state", p.aboutState},
		{"model", p.aboutModel},
		{"identity", p.aboutIdentity},
		{"services", p.aboutServices},
		{"env file", p.EnvFile},
		{"next", p.next(p.reached)},
	}...) {
		if part[1] != "" {
			line = line.Str(part[0], part[1])
			fmt.Fprintf(out, "  %-10s %s\n", part[0]+":", cli.Printable(part[1]))
		}
	}
	line.Str("url", url).Msg("listening")
	fmt.Fprintln(out, `Ctrl-C ends it. "bot doctor" explains the settings, README.md the rest.`)
}

// next says what to do now that the bot runs.
func (p *program) next(addr string) string {
	if p.AppID != "" {
		return "point the Azure Bot's messaging endpoint to https://YOUR_HOST/api/messages, see README.md"
	}
	command := os.Args[0]
	if info, ok := debug.ReadBuildInfo(); ok && strings.Contains(command, "/go-build") { // started with go run
		command = "go run " + info.Path
	}
	return fmt.Sprintf(`talk to it: "%s chat --url http://%s" in another terminal, or Microsoft's client with `+
		"npx @microsoft/m365agentsplayground -e http://%s/api/messages", command, addr, addr)
}

// streams reports whether the bot shows answers while the model writes them.
func (p *program) streams() bool {
	return p.Stream == "true" || p.Stream != "false" && p.AppID == ""
}

var version string // set at link time; otherwise the build info decides

// Version returns the version of the program, such as v1.2.0 or devel.
func Version() string {
	built := "devel"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		built = strings.Trim(info.Main.Version, "()") // "(devel)" if unknown
	}
	return cmp.Or(version, built)
}
