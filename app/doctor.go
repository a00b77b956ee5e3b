package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/connector"
	"github.com/planbot-go/planbot/internal/doctor"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/prompts"
)

type doctorCmd struct {
	JSON bool `name:"json" help:"print the checks as JSON"`
}

// Run prints what was found and fails when the bot would not work.
func (d doctorCmd) Run(ctx context.Context, s *settings, std *streams) error {
	c, faults := s.check()
	probes := []doctor.Probe{doctor.Settings(faults, c.warnings)}
	if faults == nil {
		a := &program{config: c, log: zerolog.Nop()}
		defer a.close()
		more, err := a.probes(ctx)
		if err != nil {
			return err
		}
		probes = append(probes, more...)
	}
	checks := doctor.Run(ctx, doctor.Config{Probes: probes, Secrets: []string{s.AppPassword, s.CertPassword, s.OpenAIKey, s.AzureKey, s.FallbackKey, s.OTelHeaders}})
	var err error
	if d.JSON {
		err = doctor.PrintJSON(std.out, checks)
	} else {
		err = doctor.Print(std.out, checks, doctor.Style{Color: isTerminal(std.out) && os.Getenv("NO_COLOR") == ""})
	}
	if err != nil {
		return fmt.Errorf("doctor: %w", err)
	}
	if doctor.Failed(checks) {
		return silentError{exitFailed}
	}
	return nil
}

// probes check each part of the bot that the settings describe.
func (a *program) probes(ctx context.Context) ([]doctor.Probe, error) {
	if err := a.openStore(ctx); err != nil {
		return nil, err
	}
	c := a.config
	identity, cloud, err := a.identity()
	if err != nil {
		return nil, err
	}
	model, about, err := newModel(c)
	if err != nil {
		return nil, err
	}
	_, offline := model.(models.Offline)
	probes := []doctor.Probe{
		doctor.Address(c.addr),
		doctor.Identity(identity),
		doctor.OpenID(cloud.MetadataURL, nil),
		doctor.Clock(cloud.MetadataURL, nil, time.Now),
		doctor.Redis(doctor.RedisSettings{
			Embedded: a.store.Embedded(), Shared: c.AppID != "", Name: a.store.String(), Ping: a.store.Ping, Info: a.store.Info,
			Snapshots: func(ctx context.Context) (string, error) { return a.store.Setting(ctx, "save") },
		}),
		doctor.Model(doctor.ModelSettings{Offline: offline, Name: about, Try: tryModel(model)}),
		doctor.Prompts(c.PromptsDir, func(dir string) ([]string, error) {
			library, err := prompts.Load(dir)
			if err != nil {
				return nil, err
			}
			return library.Names(), nil
		}),
	}
	if c.callers.Emulator || len(c.callers.Bots) > 0 {
		probes = append(probes, doctor.Callers(cloud.EntraMetadataURL(c.callers.Tenant), nil))
	}
	if c.SkillsDir != "" {
		probes = append(probes, doctor.Skills(c.skills.find), c.scriptsProbe())
	}
	return probes, nil
}

// identity is who the bot is, and the cloud that it is of; none in local mode.
func (a *program) identity() (identity doctor.IdentitySettings, cloud connector.Cloud, err error) {
	c := a.config
	identity = doctor.IdentitySettings{AppID: c.AppID, Type: c.appType, Tenant: c.AppTenant, NoAuth: c.noAuth}
	if c.AppID == "" {
		return identity, cloud, nil
	}
	if cloud, err = a.cloud(); err != nil {
		return identity, cloud, err
	}
	tokens, err := a.tokens(cloud)
	if err != nil {
		return identity, cloud, err
	}
	identity.Token = func(ctx context.Context) error {
		_, err := tokens.Token(ctx)
		return err
	}
	return identity, cloud, nil
}

// tryModel asks for one word.
func tryModel(model models.Model) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := model.Complete(ctx, &models.Request{
			Messages:  []models.Message{{Role: models.User, Text: "Answer with the word: yes"}},
			MaxTokens: 20,
		})
		var fault *models.Error
		if !errors.As(err, &fault) {
			return err
		}
		if fault.Kind == models.Empty {
			return nil // it thought about it for 20 tokens, so it is there
		}
		if fault.Said != "" {
			return fmt.Errorf("%w: %s", err, fault.Said)
		}
		return err
	}
}
