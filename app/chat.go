package app

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/internal/cli"
	"github.com/planbot-go/planbot/internal/console"
	"github.com/planbot-go/planbot/internal/settings"
)

type chatCmd struct {
	URL    string `name:"url" placeholder:"URL" help:"talk to the bot that runs at http://127.0.0.1:3978 or elsewhere"`
	Locale string `name:"locale" placeholder:"TAG" help:"your language, such as de or pt-BR"`
	own    *Bot
}

// Run talks to the bot as a channel does: to the one at URL, or else to one that it serves on its
// own port. That bot logs only warnings unless a level is set.
func (c chatCmd) Run(ctx context.Context, s *settings.Settings, std *cli.Streams) error {
	cfg := console.Config{
		In: std.In, Out: std.Out, BotName: s.Bot.Name, Locale: c.Locale, Dumb: os.Getenv("TERM") == "dumb", NoColor: os.Getenv("NO_COLOR") != "",
	}
	if c.URL != "" {
		u, err := url.Parse(c.URL)
		if err != nil || u.Host == "" {
			return cli.Usage(fmt.Errorf("--url: %q is not an address such as http://127.0.0.1:3978", c.URL))
		}
		if strings.Trim(u.Path, "/") == "" {
			u.Path = "/api/messages"
		}
		cfg.BotURL, cfg.AcksAtOnce = u.String(), true
		return console.Run(ctx, cfg)
	}
	own := *s
	own.Addr = "127.0.0.1:0"
	if own.AppID != "" {
		return cli.Usage(errors.New("chat is for the bot without an app id: unset MICROSOFT_APP_ID"))
	}
	if err := cli.Check(&own); err != nil {
		return err
	}
	own.DrainTimeout = time.Second // after leaving, no turn is worth waiting for
	cfg.Timeout = own.TurnTimeout + time.Minute
	cfg.Logs = &console.Logs{Out: std.Err}
	p := &program{Settings: &own, own: *c.own, log: cli.Logger(cfg.Logs, &own, zerolog.WarnLevel), ackTimeout: cfg.Timeout} // the console waits for each turn
	defer p.close()
	address, end, err := p.background(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(std.Out, "%s, model: %s.\n", s.Bot.Name, p.aboutModel)
	cfg.BotURL = address
	err = console.Run(ctx, cfg)
	cfg.Logs.Mute() // a turn cut off here needs no log
	return errors.Join(err, end())
}
