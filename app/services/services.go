// Package services is a feature of a program: the model chooses among the actions of the bot's Connections, people
// sign in to its Services, and a command lists the actions and accepts those of services.
package services

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"text/tabwriter"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/jsonschema-go/jsonschema"
	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/connections"
	"github.com/planbot-go/planbot/actions/connections/oauth"
	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/internal/cli"
	"github.com/planbot-go/planbot/internal/settings"
	"github.com/planbot-go/planbot/planner"
)

type feature struct {
	PublicURL string `env:"BOT_PUBLIC_URL" url:"https" else:"none" help:"where browsers reach the bot, such as https://bot.example.com; people return there after signing in to services"`
	TokenKeys string `env:"BOT_TOKEN_KEYS" secret:"true" needs:"BOT_PUBLIC_URL" else:"none" help:"keys that encrypt people's tokens for such services: 32 bytes each in base64, comma separated; the first encrypts, all decrypt"`

	own *app.Bot
}

// Feature is the feature, for one program.
func Feature() app.Feature {
	f := &feature{}
	return app.Feature{
		Name: "services", Settings: f, Describe: f.describe, Check: f.check, Extend: extend, Wire: f.wire, Commands: &struct {
			Actions actionsCommand `help:"List the actions of the bot; with --json for bottest."`
		}{},
	}
}

func (f *feature) describe(_ *app.Program, b *app.Bot) error {
	f.own = b
	return nil
}

// keys are those of BOT_TOKEN_KEYS. The error does not show them.
func (f *feature) keys() ([][]byte, error) { return settings.Keys("BOT_TOKEN_KEYS", f.TokenKeys) }

func (f *feature) check(v app.Values) error {
	keys, err := f.keys()
	if f.own == nil || len(f.own.Services) == 0 {
		return err
	}
	faults := []error{err}
	if len(keys) == 0 {
		faults = append(faults, errors.New("BOT_TOKEN_KEYS: app.Bot.Services need it, such as openssl rand -base64 32 writes it"))
	}
	if f.PublicURL == "" && !v.Faulty("BOT_PUBLIC_URL") {
		faults = append(faults, errors.New("BOT_PUBLIC_URL: app.Bot.Services need it, such as https://bot.example.com"))
	}
	placeholder := oauth.Config{Keys: [][]byte{make([]byte, 32)}, Address: "https://bot.example.com", Services: f.own.Services}
	if err := placeholder.Check(); err != nil {
		faults = append(faults, fmt.Errorf("app.Bot.Services: %w", err))
	}
	if f.PublicURL != "" {
		placeholder.Address, placeholder.Services = f.PublicURL, nil
		if err := placeholder.Check(); err != nil {
			faults = append(faults, fmt.Errorf("BOT_PUBLIC_URL: %w", err))
		}
	}
	return errors.Join(faults...)
}

// wire lets people sign in to the bot's own services. A bot without a server of this program has none.
func (f *feature) wire(_ context.Context, p *app.Program, cfg *bot.Config) error {
	services := p.Described().Services
	if len(services) == 0 || p.Store() == nil {
		return nil
	}
	keys, err := f.keys()
	if err != nil {
		return app.Usage(err)
	}
	in, err := oauth.New(oauth.Config{
		Store: p.Store(), Keys: keys, Address: f.PublicURL, Services: services, Others: cfg.Tokens, Log: *p.Log(),
	})
	if err != nil {
		return app.Usage(err)
	}
	cfg.Tokens = in
	for _, path := range []string{oauth.CallbackPath, oauth.ClientPath} {
		p.Handle(path, in)
		p.Handle(path+"/", in)
	}
	return nil
}

// extend lets the model choose among the actions of services.
func extend(_ context.Context, v app.Values, cfg *planner.Config) error {
	s := v.Settings()
	if len(s.Connected) == 0 {
		return nil
	}
	choice, err := connections.NewChoice(s.Connected, s.Count)
	if err == nil {
		err = choice.Register(cfg.Actions)
	}
	if err != nil {
		return settings.Fault{Err: err}
	}
	for _, c := range s.Connected {
		if c, ok := c.(interface {
			Forget(context.Context, *actions.Turn) (string, error)
		}); ok {
			cfg.Actions.OnForget(c.Forget)
		}
	}
	cfg.Extensions = append(cfg.Extensions, choice)
	return nil
}

type actionsCommand struct {
	JSON bool `name:"json" help:"print JSON, for bottest --actions: all that a model is told of them, BOT_PROMPTS_DIR, and the bot's instructions"`
	Pin  bool `help:"accept what the services of the bot have now: write it to actions.lock, beside bot.yaml, and show what changed"`
}

// declaredAction is an action in the form of Teams AI's actions.json.
type declaredAction struct {
	Name        string             `json:"name"`
	Title       string             `json:"title"`
	Description string             `json:"description"`
	Parameters  *jsonschema.Schema `json:"parameters"`
	Returns     *jsonschema.Schema `json:"returns,omitempty"`
	Examples    []string           `json:"examples,omitempty"`
	Destructive bool               `json:"destructive,omitempty"`
	Approval    bool               `json:"approval,omitempty"`
	ReturnsData bool               `json:"returns_data,omitempty"`
}

// Run prints the actions, those of services as well.
func (c actionsCommand) Run(ctx context.Context, p *app.Program) error {
	s, std := p.Settings(), p.Streams()
	ctx = cli.Logger(std.Err, s, zerolog.WarnLevel).WithContext(ctx)
	closeAll, err := s.Connect(ctx)
	if err != nil {
		return err
	}
	defer closeAll()
	services := settings.List(ctx, s.Connected)
	if c.Pin {
		return pin(s, services, std)
	}
	all, err := c.actions(ctx, s)
	if err != nil {
		return err
	}
	said := map[string]string{} // what services say of their actions, by name
	var away error
	for _, service := range services {
		for _, one := range service.Has {
			if a, ok := service.Actions().Lookup(one.Name); ok && one.LeftOut == "" {
				all = append(all, a)
				said[a.Name] = description(one.Definition)
			}
			notes := one.Notes
			if one.LeftOut != "" && !one.NotAllowed {
				notes = append([]string{one.LeftOut}, notes...)
			}
			for _, note := range notes {
				fmt.Fprintf(std.Err, "%s: %s: %s\n", service.Key(), cli.OneLine(one.Remote), cli.OneLine(note))
			}
		}
		if service.Err != nil {
			fmt.Fprintf(std.Err, "%s: %s\n", service.Key(), cli.OneLine(service.Err.Error()))
			away = cli.SilentError{Code: cli.ExitFailed}
		}
	}
	declarations := []declaredAction{} // [] if there are none
	table := tabwriter.NewWriter(std.Out, 0, 0, 2, ' ', 0)
	for _, a := range all {
		declarations = append(declarations, declaredAction{a.Name, a.Title, a.Description, a.Schema, a.Returns, a.Examples, a.Destructive, a.Approval, a.ReturnsData})
		fmt.Fprintf(table, "%s\t%s\n", cli.Printable(a.Name), cli.OneLine(cmp.Or(said[a.Name], a.Description)))
	}
	if !c.JSON {
		return errors.Join(table.Flush(), away)
	}
	raw, err := json.Marshal(declarations)
	if err != nil {
		return fmt.Errorf("print actions: %w", err)
	}
	declared := settings.Declared{Actions: raw}
	if declared.Instructions, err = s.Instructions(); err != nil {
		return app.Usage(err)
	}
	if s.PromptsDir != "" {
		if declared.PromptsDir, err = filepath.Abs(s.PromptsDir); err != nil {
			return fmt.Errorf("BOT_PROMPTS_DIR: %w", err)
		}
	}
	return errors.Join(cli.PrintJSON(std.Out, declared), away)
}

// actions are those that the bot has besides those of services. With --json those that bottest adds itself are left out:
// of prompts in BOT_PROMPTS_DIR, and of skills.
func (c actionsCommand) actions(ctx context.Context, s *settings.Settings) ([]*actions.Action, error) {
	registry, err := s.Registry(ctx)
	if err != nil {
		return nil, err
	}
	all := registry.All()
	if !c.JSON {
		return all, nil
	}
	own := s.Actions()
	var prompts []string
	if s.PromptsDir == "" {
		if prompts, err = s.PromptNames(); err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(all, func(a *actions.Action) bool {
		_, isOwn := own.Lookup(a.Name)
		return !isOwn && !slices.Contains(prompts, a.Name)
	}), nil
}

// description is what a service says of an action, in full: what is not seen is shown as \u and its
// number. It is "" if the definition has none.
func description(definition jsontext.Value) string {
	var in struct {
		Description string `json:"description"`
	}
	_ = json.Unmarshal(definition, &in) // a definition of another form has none
	return connections.Visible(in.Description)
}

// pin accepts what the services have now, and shows what that changes. What was accepted of a service that
// cannot tell what it has stays; then pin fails.
func pin(s *settings.Settings, services []settings.Service, std *cli.Streams) error {
	path := cmp.Or(s.LockFile, connections.LockName)
	before, err := connections.ReadLock(path)
	if err != nil {
		return app.Usage(err)
	}
	after := connections.NewLock()
	failed := error(nil)
	for _, service := range services {
		definitions := map[string]jsontext.Value{}
		for _, one := range service.Has {
			if one.Definition != nil {
				definitions[one.Remote] = one.Definition
			}
		}
		err := service.Err
		if err == nil && (len(definitions) > 0 || len(service.Has) == 0) {
			err = after.Set(service.Key(), definitions)
		}
		if err == nil {
			continue
		}
		fmt.Fprintf(std.Err, "%s: nothing new was accepted: %s\n", service.Key(), cli.OneLine(err.Error()))
		failed = cli.SilentError{Code: cli.ExitFailed}
		if pins, known := before.Pins(service.Key()); known {
			clear(definitions)
			for remote, pin := range pins {
				definitions[remote] = pin.Definition
			}
			if err := after.Set(service.Key(), definitions); err != nil {
				return err // they were read
			}
		}
	}
	changes := before.Diff(after)
	for _, change := range changes {
		fmt.Fprintln(std.Out, change)
	}
	if err := after.Write(path); err != nil {
		return err
	}
	fmt.Fprintf(std.Out,
		"Changes in %s: %d. The bot uses what stands there from its next start on, or its next build if the file is embedded.\n",
		path, len(changes),
	)
	return failed
}
