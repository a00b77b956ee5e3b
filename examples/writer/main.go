// Command writer is a bot without an action in Go: what it can do are two prompts
// in files, and a sequential plan feeds one with what the other wrote. See
// README.md beside it.
package main

import (
	"cmp"
	"context"
	"embed"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner"
	"github.com/planbot-go/planbot/prompts"
)

// files hold a prompt a folder; config.json says what it takes.
//
//go:embed prompts
var files embed.FS

// newBot makes an action of each prompt, and wires them with a planner.
func newBot(ctx context.Context, model models.Model) (*bot.Bot, error) {
	library, err := prompts.LoadFS(files, "prompts")
	if err != nil {
		return nil, err
	}
	registry := actions.New()
	if err := planner.AddPromptFolders(registry, planner.Config{Model: model, Prompts: library}); err != nil {
		return nil, err
	}
	sequential, err := planner.NewSequential(ctx, planner.Config{Model: model, Actions: registry, Prompts: library})
	if err != nil {
		return nil, err
	}
	return bot.New(bot.Config{
		Name: "Writer", Actions: registry, Planner: sequential, Log: *zerolog.Ctx(ctx),
		Examples: []string{"Write a poem about John Doe, then translate it into Chinese.", "帮忙写一首关于水哥的诗, 然后翻译为中文"},
	})
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	log := zerolog.New(zerolog.ConsoleWriter{Out: os.Stderr}).Level(zerolog.InfoLevel).With().Timestamp().Logger()
	if err := run(log.WithContext(ctx)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	model, err := models.FromEnv(os.Getenv)
	if err != nil {
		return err
	}
	b, err := newBot(ctx, model)
	if err != nil {
		return err
	}
	return b.ListenAndServe(ctx, cmp.Or(os.Getenv("BOT_ADDR"), "127.0.0.1:3978"))
}
