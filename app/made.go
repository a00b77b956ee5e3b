package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/app/internal/turnview"
	"github.com/planbot-go/planbot/app/page"
	"github.com/planbot-go/planbot/connector"
	"github.com/planbot-go/planbot/internal/settings"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner"
	"github.com/planbot-go/planbot/state/inbox"
)

// evalsDir is where the page looks for reports of bottest eval.
const evalsDir = "evals"

// pageParts are what the page shows of the bot.
func pageParts(p *program) (page.Parts, error) {
	of := page.Parts{
		Bot: p.bot, Metrics: p.metrics, Prompt: p.Planner, Evals: evalsDir, Skills: p.SkillsConfig(), Sandbox: p.sandbox, Scripts: p.aboutScripts,
		Services: func() (all []*actions.Action) {
			for _, c := range p.Connected {
				all = append(all, c.Actions().All()...)
			}
			return all
		},
		UserToken: func(ctx context.Context, ref activity.Reference, connection string) (connector.UserToken, error) {
			return p.tokens.UserToken(ctx, ref, connection, "")
		},
		Preview: func(ctx context.Context, turn *actions.Turn, own fs.FS, name string) (*planner.Asked, error) {
			return previewPrompt(ctx, *p.Settings, turn, own, name)
		},
		Doctor:    func(ctx context.Context) ([]page.Check, error) { return examineRunning(ctx, p.own, p.Apart()) },
		WhatIf:    func(ctx context.Context, c page.Change) (page.Trial, error) { return trialOf(ctx, p, c) },
		Recording: p.recording(), Scenarios: scenariosDir,
		Dead: func(w inbox.Waiting) ([][2]string, any) {
			known := turnview.ReadDead(w, true)
			return known.Rows(), known
		},
		Export: func(w inbox.Waiting) ([]byte, error) {
			return turnsExportCmd{}.render([]inbox.Waiting{w}, p.Settings)
		},
	}
	var err error
	if of.Inbox, err = p.openInbox(p.bot.Store()); err != nil {
		return of, err
	}
	if !p.bot.Store().Embedded() {
		of.Crash = func() { os.Exit(page.ExitCrashed) }
	}
	for _, g := range p.Given() {
		of.Settings = append(of.Settings, page.Setting{Name: g.Variable, From: g.From, About: g.About, Default: g.Default, Secret: g.Secret})
	}
	for _, c := range p.own.chatCommands(p.Settings) {
		of.Commands = append(of.Commands, c.Title)
	}
	switch {
	case p.PromptsDir != "":
		root, err := os.OpenRoot(p.PromptsDir)
		if err != nil {
			return of, fmt.Errorf("BOT_PROMPTS_DIR: %w", err)
		}
		p.closers = append(p.closers, func() { _ = root.Close() }) // read only
		of.Prompts = root.FS()
	case p.own.Prompts != nil:
		sub, err := fs.Sub(p.own.Prompts, "prompts")
		if err != nil {
			return of, fmt.Errorf("prompts: %w", err)
		}
		of.Prompts = sub
	}
	return of, nil
}

// errNotAsked ends a preview where the model would be asked.
var errNotAsked = errors.New("a preview asks no model")

// unasked is a model that keeps the first request and answers none.
type unasked struct{ request *models.Request }

// Complete is for [models.Model].
func (m *unasked) Complete(_ context.Context, r *models.Request) (*models.Response, error) {
	if m.request == nil {
		m.request = r
	}
	return nil, errNotAsked
}

// previewPrompt returns what a model would be asked in a turn, if the bot had these prompts of its own.
func previewPrompt(ctx context.Context, s settings.Settings, turn *actions.Turn, own fs.FS, name string) (asked *planner.Asked, err error) {
	s.PromptsDir, s.PromptsReload, s.Bot.Prompts, s.Metrics = "", false, own, nil
	if slices.Contains(settings.Planners(), name) {
		s.Planner = name
	}
	model := &unasked{}
	maker, err := s.NewPlanner(ctx, s.Actions(), nil, settings.Watch{
		Model: func(models.Model) models.Model { return model },
		Planner: func(e planner.Event) {
			if asked == nil {
				asked = e.Asked
			}
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

// examineRunning is what the doctor says of a bot that runs with these settings.
func examineRunning(ctx context.Context, own Bot, s *settings.Settings) ([]page.Check, error) {
	checks, err := diagnose(ctx, own, s, "address") // the bot itself has that
	all := make([]page.Check, len(checks))
	for i, c := range checks {
		all[i] = page.Check{Name: c.Name, Status: string(c.Status), Detail: c.Detail, Hint: c.Hint}
	}
	return all, err
}
