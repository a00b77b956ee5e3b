package doctor

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
)

// ScriptSettings say what scripts of skills run in.
type ScriptSettings struct {
	Required bool                                         // the bot does not start without
	Open     func(context.Context) (ScriptSandbox, error) // nil: they are not to run
}

// ScriptSandbox is a sandbox that was tried and holds.
type ScriptSandbox struct {
	Kind         string
	Refused      []error             // why better ones are not in use
	Interpreters map[string][]string // commands, by the extensions of scripts
}

// Scripts checks that scripts of skills can run.
func Scripts(s ScriptSettings) Probe {
	return Probe{"scripts", func(ctx context.Context) Check { return scripts(ctx, s) }}
}

func scripts(ctx context.Context, s ScriptSettings) Check {
	const install = "install the package bubblewrap, and interpreters such as python3; " +
		"in a container, whose default profile forbids bubblewrap, Linux 6.12 or later does without: docs/security.md"
	if s.Open == nil {
		return ok("scripts of skills are refused, as BOT_SKILLS_SANDBOX says")
	}
	box, err := s.Open(ctx)
	switch {
	case err != nil && s.Required:
		return fail(reason(err), install+"; or set BOT_SKILLS_SANDBOX to auto")
	case err != nil:
		return warn("scripts of skills are refused: "+reason(err), install+"; or set BOT_SKILLS_SANDBOX to none, so that nobody wonders")
	case len(box.Interpreters) == 0:
		return warn("there is "+box.Kind+" for scripts of skills, but no interpreter", install)
	}
	detail := "scripts of skills run in " + box.Kind + ": " + strings.Join(interpreters(box.Interpreters), ", ")
	if len(box.Refused) > 0 {
		detail += "\nnot in " + errors.Join(box.Refused...).Error()
	}
	return ok(detail)
}

// interpreters are such as ".py by /usr/bin/python3".
func interpreters(commands map[string][]string) []string {
	var all []string
	for _, ext := range slices.Sorted(maps.Keys(commands)) {
		all = append(all, ext+" by "+commands[ext][0])
	}
	return all
}
