// Package approvers is a feature of a program: whom a policy names by user principal names is found at the start, and
// doctor shows their ids.
package approvers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/planbot-go/planbot/actions/graph"
	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/bot"
)

const within = 8 * time.Second // limits what the start waits for Microsoft Graph

// Feature adds a check of doctor, which shows who these people are. A name that nobody has, or somebody who may not sign
// in, stops the start with exit code 2. If Microsoft Graph cannot be asked then, the people are found later.
func Feature(named *graph.Named) app.Feature {
	return app.Feature{
		Name: "approvers",
		Wire: func(ctx context.Context, _ *app.Program, _ *bot.Config) error {
			ctx, cancel := context.WithTimeout(ctx, within)
			defer cancel()
			_, err := named.IDs(ctx)
			if errors.Is(err, graph.ErrNobody) {
				return app.Usage(fmt.Errorf("approvers: %w", err))
			}
			return nil
		},
		Doctor: map[string]func(context.Context, *app.Program) app.Check{
			"approvers": func(ctx context.Context, _ *app.Program) app.Check { return check(ctx, named) },
		},
	}
}

func check(ctx context.Context, named *graph.Named) app.Check {
	ids, err := named.IDs(ctx)
	if err != nil {
		return app.Check{
			Status: "fail", Detail: err.Error(),
			Hint: "correct the name, or give the app the permission User.Read.All; see docs/approvals.md",
		}
	}
	var all []string
	for i, name := range named.Names() {
		all = append(all, name+" is "+ids[i])
	}
	return app.Check{Status: "ok", Detail: strings.Join(all, ", ")}
}
