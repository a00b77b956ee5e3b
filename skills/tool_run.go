package skills

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/planbot-go/planbot/actions"
)

// run is run_skill_script.
func (p *Provider) run(ctx context.Context, turn *actions.Turn, entities map[string]any) (actions.Result, error) {
	g := given(entities)
	u, fault, err := p.useScript(ctx, turn, g.skill(), g.script())
	if err != nil {
		return actions.Result{}, err
	}
	if fault != "" {
		return actions.Fail("%s", fault), nil
	}
	topicsOf(turn).touch(u.skill.Name)
	script, arguments := u.skill.Scripts[u.part], g.value("arguments", "args")
	log := audit(ctx, RunScript, u.skill).Str("script", inLine(script.Name))
	if script.Action != nil {
		log.Msg("skill used")
		return p.runFunc(ctx, turn, u, arguments)
	}
	if p.cfg.Runner == nil {
		return actions.Fail("%s", disabled), nil
	}
	digest, seen := digestsOf(turn)[u.skill.Name]
	if !seen { // nobody had to approve it; it is for the log
		digest, err = p.cfg.Runner.Digest(ctx, u.skill)
		if err != nil {
			return p.scriptFailed(ctx, u, err, err)
		}
	}
	log.Str("digest", digest).Msg("skill used")
	result, err := p.cfg.Runner.Run(ctx, u.skill, script, arguments, digest)
	if err != nil {
		return p.scriptFailed(ctx, u, err, err)
	}
	return result, nil
}

// runFunc runs a script that is a Go function.
func (p *Provider) runFunc(ctx context.Context, turn *actions.Turn, u use, arguments any) (actions.Result, error) {
	script := u.skill.Scripts[u.part]
	object, ok := asObject(arguments)
	if !ok {
		return actions.Fail("Script '%s' of skill '%s' takes its arguments as a JSON object, and not as %s.",
			inLine(script.Name), inLine(u.skill.Name), kindOfJSON(arguments)), nil
	}
	checked, err := script.Action.Check(object)
	if err != nil {
		return actions.Fail("Script '%s' of skill '%s' cannot run with these arguments: %v", inLine(script.Name), inLine(u.skill.Name), err), nil
	}
	result, err := script.Action.Call(ctx, turn, checked)
	if err != nil {
		why := errors.Unwrap(err) // what the function itself says
		if errors.Is(err, actions.ErrPanic) || why == nil {
			why = actions.ErrPanic
		}
		return p.scriptFailed(ctx, u, err, why)
	}
	return result, nil
}

// scriptFailed is the error of a script: the turn's, unless models may be told why.
func (p *Provider) scriptFailed(ctx context.Context, u use, err, why error) (actions.Result, error) {
	script, skill := inLine(u.skill.Scripts[u.part].Name), inLine(u.skill.Name)
	if !p.cfg.DetailedErrors {
		return actions.Result{}, fmt.Errorf("script %s of skill %s: %w", script, skill, err)
	}
	return p.failed(ctx, why, fmt.Sprintf("Failed to execute script '%s' from skill '%s'.", script, skill))
}

// asObject is what a model gave as arguments of a Go script: nothing, an object, or, as
// some servers and plans in XML write it, a text that holds one.
func asObject(arguments any) (map[string]any, bool) {
	switch a := arguments.(type) {
	case nil:
		return nil, true
	case map[string]any:
		return a, true
	case string:
		if strings.TrimSpace(a) == "" {
			return nil, true
		}
		dec := json.NewDecoder(bytes.NewReader([]byte(a)))
		dec.UseNumber()
		var object map[string]any
		if dec.Decode(&object) != nil || dec.More() {
			return nil, false
		}
		return object, true
	case []any:
		return nil, len(a) == 0
	}
	return nil, false
}

func kindOfJSON(value any) string {
	switch value.(type) {
	case string:
		return "a string"
	case []any:
		return "an array"
	case bool:
		return "a boolean"
	}
	return "a number"
}
