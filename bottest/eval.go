package bottest

import (
	"context"
	"fmt"
	"os"

	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/app/full"
	"github.com/planbot-go/planbot/bottest/eval"
	"github.com/planbot-go/planbot/internal/settings"
)

// Eval measures how well the model in the environment's settings plans for the bot: it asks for a
// plan for each case in the file, or with "" for each example of the actions, see [eval], and runs
// nothing. It is bottest eval for a bot whose
// code is at hand. It returns an error for wrong settings, a wrong file, or a model that cannot be
// asked; in the last case with a report of the results so far.
func Eval(ctx context.Context, b app.Bot, file string) (*eval.Report, error) {
	s := app.Settings(b, full.Features()...)
	if err := s.Read(); err != nil {
		return nil, fmt.Errorf("eval: these settings have to be changed:\n%w", err)
	}
	s.Frozen = true // nothing changes during the evaluation
	maker, err := s.NewPlanner(ctx, s.Actions(), settings.Watch{})
	if err != nil {
		return nil, fmt.Errorf("eval: %w", err)
	}
	cases, err := eval.Examples(maker.Actions)
	if file != "" {
		var text []byte
		if text, err = os.ReadFile(file); err == nil {
			cases, err = eval.Read(file, text, maker.Actions)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("eval: %w", err)
	}
	about := maker.AboutModel + "; planner " + s.Planner
	return eval.Run(ctx, eval.Config{Cases: cases, Timeout: s.TurnTimeout, Sides: []eval.Side{{Name: b.Name, About: about, Planner: maker, Actions: maker.Actions}}})
}
