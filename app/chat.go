package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/internal/console"
)

type chatCmd struct{}

// Run serves the bot on a port of its own and talks with it as a channel does.
// Only warnings are logged unless a level is asked for.
func (chatCmd) Run(ctx context.Context, s *settings, std *streams) error {
	settings := *s
	settings.Addr = "127.0.0.1:0"
	c, err := settings.checked()
	if err != nil {
		return err
	}
	if c.AppID != "" {
		return usageError{errors.New("chat is for the bot without an app id: unset MICROSOFT_APP_ID")}
	}
	if c.LogLevel == "" {
		c.logLevel = zerolog.WarnLevel
	}
	c.ackTimeout = c.turnTimeout + time.Minute // the console waits for each turn
	c.drainTimeout = time.Second               // and nobody for a turn once it is left
	logs := &console.Logs{Out: std.err}
	a, err := assemble(ctx, c, logger(logs, c))
	if err != nil {
		return err
	}
	defer a.close()
	listener, err := listen(ctx, c.addr, "BOT_ADDR, PORT")
	if err != nil {
		return err
	}
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	served := make(chan error, 1)
	go func() { served <- a.serve(ctx, listener) }()
	fmt.Fprintf(std.out, "%s, model: %s.\n", c.bot.Name, a.about.model)
	err = console.Run(ctx, console.Config{
		BotURL: "http://" + listener.Addr().String() + "/api/messages",
		In:     std.in, Out: std.out, Logs: logs, BotName: c.bot.Name, Timeout: c.ackTimeout,
		Dumb: os.Getenv("TERM") == "dumb", NoColor: os.Getenv("NO_COLOR") != "",
	})
	logs.Mute() // a turn that is cut off here is no news
	leave()
	return errors.Join(err, <-served)
}
