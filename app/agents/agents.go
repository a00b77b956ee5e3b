// Package agents is a feature of a program: it offers the bot to other agents as an MCP server at /mcp. They ask
// people in Teams, have them approve things, and call the actions that it lists.
package agents

import (
	"context"
	"fmt"
	"time"

	"github.com/planbot-go/planbot/actions/mcp/server"
	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/bot"
)

// Feature offers the bot as cfg says. Bot, Actions and Log are filled in. A wrong one stops the start with exit
// code 2.
func Feature(cfg server.Config) app.Feature {
	f := &feature{cfg}
	return app.Feature{Name: "agents", Check: f.check, Wire: f.wire, Serve: f.serve}
}

type feature struct{ cfg server.Config }

// checkWithin is how long the actions may take to be named: a wrong setting stops the start within that time.
const checkWithin = 5 * time.Second

// check leaves the names of actions to the start if some come from connections.
func (f *feature) check(v app.Values) error {
	ctx, cancel := context.WithTimeout(context.Background(), checkWithin) // a check gets none of its own
	defer cancel()
	cfg := f.cfg
	cfg.Actions = v.Actions(ctx)
	if err := cfg.Check(); err != nil {
		return fmt.Errorf("agents: %w", err)
	}
	return nil
}

func (f *feature) wire(_ context.Context, _ *app.Program, cfg *bot.Config) error {
	cfg.Requests = true
	f.cfg.Actions, f.cfg.Log = cfg.Actions, cfg.Log
	return nil
}

func (f *feature) serve(_ context.Context, p *app.Program) error {
	f.cfg.Bot = p.Bot()
	agents, err := server.New(f.cfg)
	if err != nil {
		return app.Usage(fmt.Errorf("agents: %w", err))
	}
	p.OnClose(agents.Close)
	for _, pattern := range []string{"/mcp", "/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/"} {
		p.Handle(pattern, agents)
	}
	return nil
}
