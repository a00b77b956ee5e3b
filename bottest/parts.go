package bottest

import (
	"cmp"
	"context"
	"fmt"
	"net/http"

	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner"
)

// Parts are what the author of a bot needs to wire it for a test.
type Parts struct {
	// Model asks the scripted model, as the program does: with retries, with the next of
	// Config.Models behind each, and with less history when the prompt is too long. Named
	// is one of another name, for prompts that ask for it.
	Model models.Model
	Named func(name string) (models.Model, error)
	// ModelURL is where the scripted model is, and Transport leads there, for a client that
	// the bot makes itself: in a bubble no other way leads anywhere.
	ModelURL  string
	Transport http.RoundTripper
	// Bot has its Store, Channel, Door and Log filled in, and Hooks that watch: a bot
	// that sets others is not seen to act, and cannot be made to crash.
	Bot bot.Config
	// Replica is the number of the process that the bot is made for, from 1 on.
	Replica int
}

// newBot makes the bot as the config says.
func (k *Kit) newBot(ctx context.Context, parts Parts) (*bot.Bot, error) {
	if k.cfg.New != nil {
		return k.cfg.New(ctx, parts)
	}
	if k.cfg.Actions == nil {
		return nil, fmt.Errorf("the Config has neither New nor Actions")
	}
	cfg := parts.Bot
	cfg.Actions = k.cfg.Actions
	var err error
	if cfg.Planner, err = NewPlanner(ctx, k.cfg.Planner, planner.SequenceConfig{Model: parts.Model, Actions: cfg.Actions, Named: parts.Named}); err != nil {
		return nil, err
	}
	if k.cfg.Change != nil {
		k.cfg.Change(&cfg)
	}
	return bot.New(cfg)
}

// NewPlanner makes the planner of that name: "sequence", "sequential" or "tools"; "" is
// the first.
func NewPlanner(ctx context.Context, name string, cfg planner.SequenceConfig) (bot.Planner, error) {
	switch cmp.Or(name, "sequence") {
	case "sequence":
		return planner.NewSequence(ctx, cfg)
	case "sequential":
		return planner.NewSequential(ctx, cfg)
	case "tools":
		return planner.NewTools(ctx, planner.ToolsConfig{SequenceConfig: cfg})
	}
	return nil, fmt.Errorf("no planner %q, want sequence, sequential or tools", name)
}
