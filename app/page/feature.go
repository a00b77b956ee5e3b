package page

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/app/agentskills"
	"github.com/planbot-go/planbot/app/internal/turnview"
	"github.com/planbot-go/planbot/app/metrics"
	"github.com/planbot-go/planbot/app/record"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/connector"
	"github.com/planbot-go/planbot/internal/loopback"
	"github.com/planbot-go/planbot/internal/settings"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner"
	"github.com/planbot-go/planbot/state/inbox"
)

// own are the settings of the page.
type own struct {
	Page bool   `env:"BOT_PAGE" default:"true" help:"false: no page at http://127.0.0.1:3978/; there is one in local mode only"`
	Keep string `env:"BOT_PAGE_KEEP" else:"they end with the process" help:"folder where the page keeps chat and turns; bot dev sets it"`

	page *server // nil: there is none
	cfg  bot.Config
}

// Feature serves the page of a bot in local mode.
func Feature() app.Feature {
	o := &own{}
	return app.Feature{Name: "page", Settings: o, Check: o.check, Open: o.open, Wire: o.wire, Serve: o.serve}
}

func (o *own) check(app.Values) error {
	info, err := os.Stat(o.Keep)
	switch {
	case errors.Is(err, fs.ErrNotExist): // it is made
		return nil
	case err != nil:
		return fmt.Errorf("BOT_PAGE_KEEP: %w", err)
	case !info.IsDir():
		return fmt.Errorf("BOT_PAGE_KEEP: %q is not a folder", o.Keep)
	}
	return nil
}

// open makes the page, which watches from the beginning and is served with the bot.
func (o *own) open(p *app.Program) (err error) {
	s, bot := p.Settings(), p.Described()
	host, _, _ := net.SplitHostPort(s.Listen())
	if !o.Page || s.AppID != "" || s.NoAuth || !loopback.IsHost(host) {
		return nil
	}
	if o.Keep != "" {
		if err := os.MkdirAll(o.Keep, 0o700); err != nil {
			return app.Usage(fmt.Errorf("BOT_PAGE_KEEP: %w", err))
		}
	}
	secret := ""
	if s.RedisURL != "" || s.DataDir != "" {
		sum := hmac.New(sha256.New, []byte(s.RedisURL+"\n"+s.DataDir))
		sum.Write([]byte("the address of the page's connector"))
		secret = hex.EncodeToString(sum.Sum(nil))
	}
	o.page, err = newServer(config{
		Name: bot.Name, Examples: bot.Examples, Secrets: s.Secrets(), Secret: secret, Keep: o.Keep, Log: *p.Log(), Counter: bot.Counter,
	})
	if err != nil {
		return err
	}
	p.OnClose(o.page.Close)
	p.LogTo(o.page.Turns().Writer())
	p.Watch(settings.Watch{Model: o.page.Model, Planner: o.page.Turns().WatchPlanner})
	return nil
}

func (o *own) wire(_ context.Context, _ *app.Program, cfg *bot.Config) error {
	if o.page == nil {
		return nil
	}
	cfg.Channel, cfg.TurnURL = o.page.Turns().Channel(cfg.Channel), o.page.TurnURL
	cfg.Features = append(cfg.Features, bot.Feature{Name: "page", Event: o.page.WatchTurn})
	o.cfg = *cfg
	return nil
}

func (o *own) serve(ctx context.Context, p *app.Program) error {
	if o.page == nil {
		return nil
	}
	addr, err := net.ResolveTCPAddr("tcp", p.Reached())
	if err != nil {
		return fmt.Errorf("BOT_PAGE_ADDR: %w", err)
	}
	parts, err := o.parts(ctx, p)
	if err != nil {
		return err
	}
	shown, err := o.page.Handler(addr, parts)
	if err != nil {
		return err
	}
	p.Handle("/{$}", shown)
	p.Handle("/dev/", shown)
	p.OnDrain(func(context.Context) { o.page.HangUp() })
	p.Announce("page", "http://"+p.Reached()+"/ to talk to it, and to see each turn")
	return nil
}

const evalsDir = "evals" // where the page looks for reports of bottest eval

const scenariosDir = "scenarios" // where the page saves tests

func (o *own) parts(ctx context.Context, p *app.Program) (parts, error) {
	s := p.Settings()
	where, box, scripts := agentskills.Of(p)
	of := parts{
		Bot: p.Bot(), Prompt: s.Planner, Evals: evalsDir, Skills: where, Sandbox: box, Scripts: scripts,
		Services: func() (all []*actions.Action) {
			for _, c := range s.Connected {
				all = append(all, c.Actions().All()...)
			}
			return all
		},
		UserToken: func(ctx context.Context, ref activity.Reference, connection string) (connector.UserToken, error) {
			return o.cfg.Tokens.UserToken(ctx, ref, connection, "")
		},
		Preview: func(ctx context.Context, turn *actions.Turn, own fs.FS, name string) (*planner.Asked, error) {
			return previewPrompt(ctx, *s, turn, own, name)
		},
		Policy: p.Policy(), Approvers: cmp.Or(strings.Join(s.Approvers, ", "), "who asked"),
		Doctor:    func(ctx context.Context) ([]app.Check, error) { return p.Diagnose(ctx, "address") },
		WhatIf:    func(ctx context.Context, c variation) (trial, error) { return o.trial(ctx, p, c) },
		Recording: record.Of(p), Scenarios: scenariosDir,
		Dead: func(w inbox.Waiting) ([][2]string, any) {
			known := turnview.ReadDead(w, true)
			return known.Rows(), known
		},
		Export: func(w inbox.Waiting) ([]byte, error) {
			one, err := record.DeadLetter(w, s.Secrets()...)
			if err != nil {
				return nil, fmt.Errorf("cannot make a test of this: %w", err)
			}
			return record.Write([]record.Scenario{one})
		},
	}
	if all := metrics.Of(p); all != nil {
		of.Metrics = all
	}
	var err error
	if of.Inbox, err = p.OpenInbox(ctx); err != nil {
		return of, err
	}
	if !p.Bot().Store().Embedded() {
		of.Crash = func() { os.Exit(ExitCrashed) }
	}
	for _, g := range s.Given() {
		of.Settings = append(of.Settings, setting{
			Name: g.Variable, From: g.From, About: g.About, Default: g.Default, Value: g.Value, Secret: g.Secret,
		})
	}
	for _, c := range p.ChatCommands() {
		of.Commands = append(of.Commands, c.Title)
	}
	switch {
	case s.PromptsDir != "":
		root, err := os.OpenRoot(s.PromptsDir)
		if err != nil {
			return of, fmt.Errorf("BOT_PROMPTS_DIR: %w", err)
		}
		p.OnClose(func() { _ = root.Close() }) // read only
		of.Prompts = root.FS()
		if s.PromptsReload {
			of.WritePrompt = func(name, text string) error { return root.WriteFile(name, []byte(text), 0o644) }
		}
	case p.Described().Prompts != nil:
		sub, err := fs.Sub(p.Described().Prompts, "prompts")
		if err != nil {
			return of, fmt.Errorf("prompts: %w", err)
		}
		of.Prompts = sub
	}
	return of, nil
}

var errNotAsked = errors.New("a preview asks no model") // ends a preview where the model would be asked

// unasked is a model that keeps the first request and answers none.
type unasked struct{ request *models.Request }

func (m *unasked) Complete(_ context.Context, r *models.Request) (*models.Response, error) {
	m.request = cmp.Or(m.request, r)
	return nil, errNotAsked
}

// previewPrompt returns what a model would be asked in a turn, if the bot had these prompts of its own.
func previewPrompt(ctx context.Context, s settings.Settings, turn *actions.Turn, own fs.FS, name string) (asked *planner.Asked, err error) {
	s.PromptsDir, s.PromptsReload, s.Bot.Prompts, s.Count = "", false, own, nil
	if slices.Contains(settings.Planners(), name) {
		s.Planner = name
	}
	model := &unasked{}
	maker, err := s.NewPlanner(ctx, s.Actions(), settings.Watch{
		Model: func(models.Model) models.Model { return model },
		Planner: func(e planner.Event) {
			asked = cmp.Or(asked, e.Asked)
		},
	})
	if err != nil {
		return nil, err
	}
	if s.Planner == name {
		if _, err = maker.Plan(ctx, turn); asked == nil {
			return nil, err
		}
		return asked, nil
	}
	action, ok := maker.Actions.Lookup(name)
	if !ok {
		return nil, fmt.Errorf("nothing uses the prompt %s: it belongs to no planner, and has no parameters to make it an action", name)
	}
	entities := map[string]any{}
	for parameter := range action.Schema.Properties {
		entities[parameter] = "[" + parameter + "]"
	}
	if _, err = action.Call(ctx, turn, entities); model.request == nil {
		return nil, err
	}
	asked = &planner.Asked{Prompt: name, Request: *model.request}
	for _, m := range model.request.Messages {
		asked.Sections = append(asked.Sections, planner.Section{Name: m.Role, Message: m})
	}
	return asked, nil
}

// trial makes what plans in a what-if: of the bot's settings with something changed.
func (o *own) trial(ctx context.Context, p *app.Program, c variation) (trial, error) {
	of := p.Settings()
	model := "OPENAI_MODEL"
	if of.AzureEndpoint != "" {
		model = "AZURE_OPENAI_DEPLOYMENT"
	}
	free := of.OpenAIKey == "" && of.OpenAIBaseURL == "" && of.AzureEndpoint == ""
	if c.Model != "" && free {
		return trial{}, errors.New("the bot has no model server, so it cannot ask another model: " +
			"set OPENAI_API_KEY, OPENAI_BASE_URL or AZURE_OPENAI_ENDPOINT")
	}
	var given []string
	for _, one := range [][2]string{{"BOT_PROMPTS_DIR", c.Prompts}, {model, c.Model}, {"BOT_PLANNER", c.Planner}} {
		if one[1] != "" {
			given = append(given, one[0]+"="+one[1])
		}
	}
	s, err := of.Against(given)
	if err != nil {
		return trial{}, err
	}
	if c.Own != nil {
		s.PromptsDir, s.Bot.Prompts = "", c.Own
	}
	s.Count, s.Frozen = nil, true // the bot has them
	registry := s.Actions()
	own, offers := []string{}, []actions.Offer{}
	for _, a := range registry.All() {
		own = append(own, a.Name)
		if slices.Contains(c.Actions, a.Name) {
			offers = append(offers, actions.Offer{Name: a.Name})
		}
	}
	if c.Actions != nil && len(offers) < len(own) {
		if registry, err = registry.Only(offers...); err != nil {
			return trial{Own: own}, err
		}
	}
	maker, err := s.NewPlanner(ctx, registry, settings.Watch{Planner: c.Watch})
	if err != nil {
		return trial{Own: own}, err
	}
	return trial{
		Planner: maker, Actions: maker.Actions, Own: own, Policy: p.Policy(),
		Model: maker.AboutModel, Free: free, Price: s.Price(), Streams: o.cfg.Stream,
	}, nil
}
