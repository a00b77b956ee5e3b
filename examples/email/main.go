// Command email is a bot that summarizes texts and mails them: one plan does both,
// and a person approves the mail before it leaves. See README.md beside it.
package main

import (
	"cmp"
	"context"
	"embed"
	"fmt"
	"net/mail"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner"
	"github.com/planbot-go/planbot/prompts"
)

//go:embed prompts
var files embed.FS

// newBot wires the actions of email.go with a planner that asks for a whole plan.
func newBot(ctx context.Context, model models.Model, m mailer) (*bot.Bot, error) {
	library, err := prompts.LoadFS(files, "prompts")
	if err != nil {
		return nil, err
	}
	registry := actions.New()
	register(registry, model, library, m)
	sequence, err := planner.NewSequence(ctx, planner.SequenceConfig{Model: model, Actions: registry, Prompts: library})
	if err != nil {
		return nil, err
	}
	return bot.New(bot.Config{
		Name: "Mailbot", Actions: registry, Planner: sequence, Log: *zerolog.Ctx(ctx),
		Examples: []string{"Summarize this and send it to ann@example.com: …"},
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
	m := mailer{addr: os.Getenv("SMTP_ADDR"), from: mail.Address{Name: "Mailbot", Address: "mailbot@example.com"}}
	if m.addr == "" {
		server, err := startStandIn(ctx, printMail)
		if err != nil {
			return err
		}
		defer server.close()
		m.addr = server.addr()
	}
	b, err := newBot(ctx, model, m)
	if err != nil {
		return err
	}
	return b.ListenAndServe(ctx, cmp.Or(os.Getenv("BOT_ADDR"), "127.0.0.1:3978"))
}

// printMail is what becomes of mails without a mail server.
func printMail(envelope []string, mail string) {
	fmt.Printf("--- a mail that SMTP_ADDR would have got\n%s\n\n%s---\n", strings.Join(envelope, "\n"), mail)
}
