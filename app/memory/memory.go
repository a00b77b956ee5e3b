// Package memory is a feature of a program: the bot remembers facts that people ask it to.
package memory

import (
	"context"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/memory"
	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/planner"
)

type feature struct {
	On bool `env:"BOT_MEMORY" help:"true: the bot remembers facts that people ask it to, in personal chats; /memory shows them"`
}

// Feature lets a bot remember if its description or BOT_MEMORY says so. It stands before features that add actions
// when planners are made.
func Feature() app.Feature {
	f := &feature{}
	return app.Feature{Name: "memory", Settings: f, Register: f.register, Extend: f.extend}
}

func (f *feature) remembers(v app.Values) bool { return f.On || v.Settings().Bot.Memory }

func (f *feature) register(v app.Values, r *actions.Registry) {
	if f.remembers(v) {
		memory.Register(r)
	}
}

func (f *feature) extend(_ context.Context, v app.Values, cfg *planner.Config) error {
	if f.remembers(v) {
		cfg.Extensions = append(cfg.Extensions, memory.Extension{})
	}
	return nil
}
