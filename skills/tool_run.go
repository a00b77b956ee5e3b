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

// launch is a run of a script with arguments that it can take.
type launch struct {
	skill     *Skill
	script    Script
	arguments any // of a Go function: as its action has checked them
}

// findScript finds the run that a call asks for, with all that is wrong with it as far as it
// can be known before it is tried: also of a script that is there, with other arguments.
func (p *Provider) findScript(ctx context.Context, turn *actions.Turn, g given) (l launch, fault string, err error) {
	if fault = g.fault(); fault != "" {
		return l, fault, nil
	}
	u, fault, err := p.use(ctx, turn, "Script", g.text(skillName), g.text(scriptName), func(s *Skill) []string {
		return names(s.Scripts, func(sc Script) string { return sc.Name })
	})
	if err != nil || fault != "" {
		return l, fault, err
	}
	l = launch{u.skill, u.skill.Scripts[u.part], g.value(scriptArguments)}
	switch {
	case l.script.Action != nil:
		l.arguments, fault = l.checked()
	case p.cfg.Runner == nil:
		fault = disabled
	default:
		fault = p.refuses(l.script, l.arguments)
	}
	return l, fault, nil
}

// refuses is what the runner says of a script that it will not run so.
func (p *Provider) refuses(script Script, arguments any) string {
	if r, ok := p.cfg.Runner.(Refuser); ok && script.Action == nil {
		return r.Refuses(script, arguments)
	}
	return ""
}

// checked are the arguments of a Go function, as its action takes them.
func (l launch) checked() (arguments map[string]any, fault string) {
	object, ok := asObject(l.arguments)
	if !ok {
		return nil, fmt.Sprintf("Script '%s' of skill '%s' takes its arguments as a JSON object, and not as %s.",
			inLine(l.script.Name), inLine(l.skill.Name), kindOfJSON(l.arguments))
	}
	checked, err := l.script.Action.Check(object)
	if err != nil {
		return nil, fmt.Sprintf("Script '%s' of skill '%s' cannot run with these arguments: %v", inLine(l.script.Name), inLine(l.skill.Name), err)
	}
	return checked, ""
}

// run is run_skill_script.
func (p *Provider) run(ctx context.Context, turn *actions.Turn, entities map[string]any) (actions.Result, error) {
	l, fault, err := p.findScript(ctx, turn, entities)
	if err != nil {
		return actions.Result{}, err
	}
	if fault != "" {
		return fail("%s", fault), nil
	}
	is, fault, err := p.mayRun(ctx, turn, l)
	if err != nil {
		return actions.Result{}, err
	}
	if fault != "" {
		return fail("%s", fault), nil
	}
	topicsOf(turn).touch(l.skill.Name)
	log := audit(ctx, RunScript, l.skill).Str("script", inLine(l.script.Name))
	if l.script.Action != nil {
		log.Msg("skill used")
		return p.runFunc(ctx, turn, l)
	}
	if is == "" { // nobody had to approve it; it is for the log
		if is, err = p.cfg.Runner.Digest(ctx, l.skill); err != nil {
			return p.scriptFailed(ctx, l, err, err)
		}
	}
	log.Str("digest", is).Msg("skill used")
	result, err := p.cfg.Runner.Run(ctx, l.skill, l.script, l.arguments, is)
	if err != nil {
		return p.scriptFailed(ctx, l, err, err)
	}
	return result, nil
}

// mayRun finds what the policy has judged of the very script: its digest, or identity.
// Where it was not asked, as where a plan runs without a bot, only what needs no approval
// may run, with is "".
func (p *Provider) mayRun(ctx context.Context, turn *actions.Turn, l launch) (is, fault string, err error) {
	is, ok, asked := judgedIn(turn).find(RunScript, l.skill.Name, l.script.Name)
	a := l.script.Action
	switch {
	case ok && (a == nil || is == l.identity()):
		return is, "", nil
	case asked, p.approves(RunScript), a != nil && (a.Approval || a.Destructive):
		return "", fmt.Sprintf(unjudged, "Script", inLine(l.script.Name)), nil
	}
	fault, err = p.narrowed(ctx, turn, attempt{RunScript, l.skill.Name, l.script})
	return "", fault, err
}

// runFunc runs a script that is a Go function.
func (p *Provider) runFunc(ctx context.Context, turn *actions.Turn, l launch) (actions.Result, error) {
	arguments, _ := l.arguments.(map[string]any)
	result, err := l.script.Action.Call(ctx, turn, arguments)
	if err != nil {
		why := errors.Unwrap(err) // what the function itself says
		if errors.Is(err, actions.ErrPanic) || why == nil {
			why = actions.ErrPanic
		}
		return p.scriptFailed(ctx, l, err, why)
	}
	return result, nil
}

// scriptFailed is the error of a script: the turn's, unless models may be told why.
func (p *Provider) scriptFailed(ctx context.Context, l launch, err, why error) (actions.Result, error) {
	script, skill := inLine(l.script.Name), inLine(l.skill.Name)
	if !p.cfg.DetailedErrors {
		return actions.Result{}, fmt.Errorf("script %s of skill %s: %w", script, skill, err)
	}
	return p.failed(ctx, err, why, fmt.Sprintf("Failed to execute script '%s' from skill '%s'.", script, skill))
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
