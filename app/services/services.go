// Package services is a feature of a program: the model chooses among the actions of the bot's Connections, people
// sign in to its Services, and a command lists the actions and accepts those of services.
package services

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/connections"
	"github.com/planbot-go/planbot/actions/connections/oauth"
	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/bot"
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
func (f *feature) keys() (keys [][]byte, err error) {
	for text := range strings.SplitSeq(f.TokenKeys, ",") {
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		key, fault := base64.StdEncoding.DecodeString(text)
		if fault != nil || len(key) != 32 {
			err = errors.Join(err, fmt.Errorf("BOT_TOKEN_KEYS: key %d is not 32 bytes in base64, as openssl rand -base64 32 writes them", len(keys)+1))
		}
		keys = append(keys, key)
	}
	return keys, err
}

func (f *feature) check(app.Values) error {
	keys, err := f.keys()
	if f.own == nil || len(f.own.Services) == 0 {
		return err
	}
	if err != nil {
		keys = [][]byte{make([]byte, 32)}
	}
	return errors.Join(err, missing((oauth.Config{Keys: keys, Address: f.PublicURL, Services: f.own.Services}).Check()))
}

// missing says what the bot's Services lack.
func missing(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("app.Bot.Services need BOT_PUBLIC_URL and BOT_TOKEN_KEYS: %w", err)
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
		return app.Usage(missing(err))
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
