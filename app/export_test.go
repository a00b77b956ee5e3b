package app

import (
	"context"
	"io"
	"testing"

	"github.com/planbot-go/planbot/actions/mcp/server"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/internal/cli"
	"github.com/planbot-go/planbot/state"
)

// AllFeatures are those of package full, which imports this one.
var AllFeatures func() []Feature

// OfAgents is the feature of package agents.
var OfAgents func(server.Config) Feature

// runAll runs a command line as a program with all features does.
func runAll(ctx context.Context, b Bot, args []string, std *cli.Streams) int {
	if b.features == nil {
		b.features = AllFeatures()
	}
	return run(ctx, b, args, std)
}

// Assembled is the default bot with these settings, by their flags, on that store, and what runs
// its scripts.
func Assembled(ctx context.Context, t testing.TB, flags map[string]string, store *state.Store) (b *bot.Bot, scripts string, err error) {
	t.Helper()
	p, err := env(flags).assemble(ctx, store, io.Discard)
	if err != nil {
		return nil, "", err
	}
	t.Cleanup(p.close)
	for _, part := range p.about {
		if part[0] == "scripts" {
			scripts = part[1]
		}
	}
	return p.bot, scripts, nil
}
