package app

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/app/internal/local"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/internal/cli"
	"github.com/planbot-go/planbot/internal/settings"
	"github.com/planbot-go/planbot/manifest"
	"github.com/planbot-go/planbot/planner"
	"github.com/planbot-go/planbot/state"
	"github.com/planbot-go/planbot/state/inbox"
)

// Feature is a part of a program that a bot may have: settings, what it adds to the bot, what it runs
// beside it. A bot has the features that its main function hands to [Main]; package full lists those that
// Planbot ships. Only Name is required. Do not share a Feature between programs. Its functions are never called
// at the same time.
type Feature struct {
	Name string // what errors call it, such as traces; unique in a bot

	// Settings points at a struct whose fields are settings. The tag env names the variable, help says what
	// it is for, default what it is when nobody sets it; docs/own-bot.md lists the others. A field is a
	// string, bool, int, float64, [time.Duration], []string or [][2]string. The program sets them before it
	// calls anything here; [New] reads no environment, and sets only those that are zero, to their defaults.
	// nil: it has none.
	Settings any
	// Check returns every mistake in the settings, each an error that begins with its variable. Commands that
	// only look at settings call it too, so it connects to nothing. nil: there are none.
	Check func(Values) error
	// Describe changes what the main function says of the bot, once the settings are read. A mistake ends every
	// command. nil: it changes nothing.
	Describe func(*Program, *Bot) error
	// Register adds actions to the bot's. It is called more than once, also where settings are wrong. nil: it adds none.
	Register func(Values, *actions.Registry)
	// Plan adds to what a planner is made of, also for a planner that only shows what it would ask. An error stops
	// the start. nil: it adds nothing.
	Plan func(context.Context, Values, *planner.Config) error
	// Extend does what Plan does, once the settings are right: for what has to be looked up, and for actions that come
	// with it. nil: it adds nothing.
	Extend func(context.Context, Values, *planner.Config) error
	// Main is called first of all by [Main], with the arguments of the process: for a program that starts itself as
	// a child, which is done then. nil: there are no such children.
	Main func(args []string) (exit int, done bool)
	// Open lets the feature watch a bot that is to be served, before any of it is made. An error stops the start.
	// nil: it does nothing.
	Open func(*Program) error
	// Wire changes the bot before it is made. An error stops the start. nil: it changes nothing.
	Wire func(context.Context, *Program, *bot.Config) error
	// Commands points at a struct with a field for each command of the command line that the feature adds: its
	// tag name, or else its name in small letters, is the command's, its tag help says what it does. A field is a
	// [Command], or has commands in its turn. nil: it adds none.
	Commands any
	// Serve starts what runs beside the bot, which is made and takes no messages yet. An error stops the
	// start. nil: nothing runs.
	Serve func(context.Context, *Program) error
	// Doctor looks at something once the settings are right, by the name of the check. A function returns soon after
	// its context ends. They run at the same time. nil: there is nothing to look at.
	Doctor map[string]func(context.Context, *Program) Check
}

// Command is a command of the command line: a pointer to a struct, whose exported fields are its flags and
// arguments. The tag help says what one is for, arg makes it an argument, default is its value when nobody
// gives one; docs/own-bot.md lists the others. A method Help() string explains the command at length.
type Command interface {
	// Run runs the command. The settings are read, and not yet checked: see [Program.Check].
	Run(ctx context.Context, p *Program) error
}

// ranCommand is a [Command] for package cli.
type ranCommand struct {
	Command

	own *Bot
}

// Run is part of [cli.Runner].
func (c ranCommand) Run(ctx context.Context, s *settings.Settings, std *cli.Streams) error {
	p := &program{Settings: s, own: *c.own, log: cli.Logger(std.Err, s, zerolog.WarnLevel), std: std}
	defer p.close()
	return c.Command.Run(ctx, p.program())
}

// Values are the settings of a program, for a feature that has to know those of others.
type Values struct{ of *settings.Settings }

// Settings are the settings, for the features of this module.
func (v Values) Settings() *settings.Settings { return v.of }

// Text returns the value of a setting, other than a list of pairs, as a text that would set it; "" if nothing
// sets it and it has no default, or there is no such setting.
func (v Values) Text(variable string) string { return v.of.Text(variable) }

// Faulty reports whether the value of a setting could not be read. Its mistake is in the list already.
func (v Values) Faulty(variable string) bool { return v.of.Faulty(variable) }

// Actions returns the actions that the bot has; nil if some are not known before it starts, or settings are wrong.
func (v Values) Actions(ctx context.Context) *actions.Registry {
	if v.of.Bot.Connections != nil {
		return nil
	}
	all, err := v.of.Registry(ctx)
	if err != nil { // the settings say it
		return nil
	}
	return all
}

// Listen returns where the bot listens, as host:port.
func (v Values) Listen() string { return v.of.Listen() }

// CheckBeside returns what is wrong with the address of a server beside the bot, which that variable sets.
func (v Values) CheckBeside(variable, addr string) error { return v.of.CheckBeside(variable, addr) }

// Usage marks an error as a mistake in the configuration: the program exits with code 2.
func Usage(err error) error { return cli.Usage(err) }

// Program is the program around a bot, as features see it while it starts, or while one of their commands runs.
type Program struct {
	Values

	p *program
}

// Check returns every mistake in the settings, and those in more, as an error with which a command ends with
// exit code 2.
func (p *Program) Check(more ...error) error { return cli.Check(p.p.Settings, more...) }

// Streams are where a command reads and writes, for the features of this module.
func (p *Program) Streams() *cli.Streams { return p.p.std }

// Out is where a command prints its results, and Err what people have to know besides.
func (p *Program) Out() io.Writer { return p.p.std.Out }

// Err is the standard error of a command.
func (p *Program) Err() io.Writer { return p.p.std.Err }

// ChatCommands are the commands that people can send to the bot, with what each does: the built-in ones that are
// on, then those of the bot's own manifest.
func (p *Program) ChatCommands() []manifest.Command { return p.p.own.chatCommands(p.p.Settings) }

// UsesAzureSignIn reports whether people sign in by OAuth connections of the Azure Bot.
func (p *Program) UsesAzureSignIn() bool { return p.p.own.usesAzureSignIn(p.p.Settings) }

// OpenInbox opens the queues of the bot for somebody who looks at them and takes no part in the work, until the
// program ends. In a command they are those of the running bots, after [Program.Check].
func (p *Program) OpenInbox(ctx context.Context) (*inbox.Inbox, error) {
	if p.p.bot != nil {
		return p.p.openInbox(p.p.bot.Store())
	}
	if err := p.p.openRunning(ctx); err != nil {
		return nil, err
	}
	return p.p.openInbox(p.p.store)
}

// OpenStore opens the store of the running bots, for a command, until the program ends.
func (p *Program) OpenStore(ctx context.Context) (*state.Store, error) {
	err := p.p.openRunning(ctx)
	return p.p.store, err
}

// Store is where the bot keeps state; nil before it is opened.
func (p *Program) Store() *state.Store { return p.p.store }

// Described is the bot as the main function of the program describes it.
func (p *Program) Described() Bot { return p.p.own }

// Trial is a bot that serves nobody, to plan with it.
type Trial struct {
	bot.Config // what the bot is made of, Setup included, with the policy that it has
	Bot        *bot.Bot
	Model      string // in words
}

// Trial makes the bot again on state of its own, which ends with the program, for a command. Settings of against, each
// NAME=VALUE, take the place of the program's.
func (p *Program) Trial(ctx context.Context, against ...string) (made Trial, err error) {
	s, err := p.Settings().Against(against)
	if err != nil {
		return made, err
	}
	s.RedisURL, s.DataDir, s.Frozen = "", "", true
	of := &program{Settings: s, own: p.p.own, log: p.p.log}
	p.OnClose(of.close)
	setup := of.own.Setup
	of.own.Setup = func(cfg *bot.Config) error {
		if setup != nil {
			if err := setup(cfg); err != nil {
				return err
			}
		}
		made.Config = *cfg
		return nil
	}
	err = of.assemble(ctx)
	made.Policy, made.Bot, made.Model = of.policy, of.bot, of.aboutModel
	return made, err
}

// Log is the program's log.
func (p *Program) Log() *zerolog.Logger { return &p.p.log }

// Bot returns the bot; nil before it is made.
func (p *Program) Bot() *bot.Bot { return p.p.bot }

// Beside is another bot of the same description, for a command that talks to it.
type Beside struct {
	Settings   *settings.Settings
	Log        zerolog.Logger
	AckTimeout time.Duration           // how long a request waits for its turn
	Setup      func(*bot.Config) error // after the one of the description
}

// Background serves that bot until ctx ends or end is called, which waits for it. The address takes activities.
func (p *Program) Background(ctx context.Context, b Beside) (address string, end func() error, err error) {
	own := p.p.own
	own.Setup = func(cfg *bot.Config) error {
		if setup := p.p.own.Setup; setup != nil {
			if err := setup(cfg); err != nil {
				return err
			}
		}
		return b.Setup(cfg)
	}
	beside := &program{Settings: b.Settings, own: own, log: b.Log, ackTimeout: b.AckTimeout}
	p.OnClose(beside.close)
	return beside.background(ctx)
}

// OnClose registers a function that the program calls when it ends, after the bot's turns; the last one first.
func (p *Program) OnClose(end func()) { p.p.closers = append(p.p.closers, end) }

// OnDrain registers a function that the program calls once no turn runs, while it closes its connections. Its
// context has the deadline.
func (p *Program) OnDrain(send func(ctx context.Context)) { p.p.drained = append(p.p.drained, send) }

// Handle lets the bot serve h at the address of its webhook, for requests of a pattern of [http.ServeMux].
func (p *Program) Handle(pattern string, h http.Handler) {
	if p.p.handlers == nil {
		p.p.handlers = map[string]http.Handler{}
	}
	p.p.handlers[pattern] = h
}

// LogTo copies the log to w from now on. It is for Open, as Watch is.
func (p *Program) LogTo(w io.Writer) { p.p.logs = append(p.p.logs, w) }

// Watch observes the models, behind those that do already, and the rest in place of those.
func (p *Program) Watch(w settings.Watch) {
	all := &p.p.watch
	all.Model = settings.Nest(all.Model, w.Model)
	if w.Planner != nil {
		all.Planner = w.Planner
	}
	if w.Calls != nil {
		all.Calls = w.Calls
	}
	if w.Count != nil {
		all.Count = w.Count
	}
}

// Reached is where browsers of this machine reach the bot, as host:port, once it listens.
func (p *Program) Reached() string { return p.p.reached }

// Announce says something about the bot at its start, in a line with that name.
func (p *Program) Announce(name, text string) { p.p.about = append(p.p.about, [2]string{name, text}) }

// WrapWebhook wraps the handler of the bot's webhook.
func (p *Program) WrapWebhook(wrap func(http.Handler) http.Handler) {
	p.p.wrappers = append(p.p.wrappers, wrap)
}

// Feature returns another feature of the program; the zero value if it has none of that name.
func (p *Program) Feature(name string) Feature {
	for _, f := range p.p.own.features {
		if f.Name == name {
			return f
		}
	}
	return Feature{}
}

// Policy is the bot's, once it is made.
func (p *Program) Policy() actions.Policy { return p.p.policy }

// Diagnose is what the doctor says of a bot that runs with these settings, but for the checks that skip names.
// It takes a while, and may cost a model call.
func (p *Program) Diagnose(ctx context.Context, skip ...string) ([]Check, error) {
	return diagnose(ctx, p.p.own, p.p.Apart(), skip...)
}

// ServeBeside serves h at addr until the program ends, and returns where it listens. setting names the
// variable that says so, for the error. what is its name in the log.
func (p *Program) ServeBeside(ctx context.Context, addr, setting, what string, h http.Handler) (net.Addr, error) {
	listener, err := local.Listen(ctx, addr, setting)
	if err != nil {
		return nil, err
	}
	server := p.p.bot.NewServer(h)
	var served sync.WaitGroup
	served.Go(func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			p.p.log.Error().Err(err).Msg(what + " stopped")
		}
	})
	p.OnClose(func() {
		_ = server.Close() // nothing to report it to
		served.Wait()
	})
	return listener.Addr(), nil
}

// Settings are the settings of a program with that bot and these features, for tools that do not run it.
func Settings(b Bot, features ...Feature) *settings.Settings {
	b.addFeatures(features)
	return settingsOf(b)
}

func settingsOf(b Bot) *settings.Settings {
	s := &settings.Settings{Bot: settings.BotOf(b), Unread: unread()}
	for i, f := range b.features {
		same := func(other Feature) bool { return other.Name == f.Name }
		switch {
		case f.Name == "":
			s.Fault(fmt.Errorf("app.Feature: number %d has no Name", i+1))
		case slices.ContainsFunc(b.features[:i], same):
			s.Fault(fmt.Errorf("app.Feature: two are called %s", f.Name))
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(f.Doctor)) {
			if name == "" || f.Doctor[name] == nil {
				s.Fault(fmt.Errorf("app.Feature %s: Doctor: the check %q has no name or no function", f.Name, name))
			}
		}
		part := settings.Part{Feature: f.Name, Values: f.Settings}
		if f.Check != nil {
			part.Check = func(s *settings.Settings) error { return f.Check(Values{s}) }
		}
		if f.Register != nil {
			part.Register = func(s *settings.Settings, to *actions.Registry) { f.Register(Values{s}, to) }
		}
		if f.Plan != nil {
			part.Plan = func(ctx context.Context, s *settings.Settings, cfg *planner.Config) error {
				return f.Plan(ctx, Values{s}, cfg)
			}
		}
		if f.Extend != nil {
			part.Extend = func(ctx context.Context, s *settings.Settings, cfg *planner.Config) error {
				return f.Extend(ctx, Values{s}, cfg)
			}
		}
		s.Add(part)
	}
	return s
}

//go:embed settings.txt
var ofFeatures string

// unread are the settings of all features that Planbot ships, as package full writes them down: this package
// knows none of them, and yet it says which ones a bot lacks.
func unread() (all []settings.Unread) {
	for line := range strings.Lines(ofFeatures) {
		words := strings.Fields(line)
		all = append(all, settings.Unread{Variable: words[0], Feature: words[1], Protects: len(words) > 2})
	}
	return all
}
