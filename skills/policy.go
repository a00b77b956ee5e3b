package skills

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/state"
)

// Policy adds to next, which may be nil for [actions.DefaultPolicy], what skills say of a
// call: that one of their tools needs approval, bound to what would run, and that a call is
// not among the allowed-tools of a skill that is loaded. It only ever asks for more.
func (p *Provider) Policy(next actions.Policy) actions.Policy {
	if next == nil {
		next = actions.DefaultPolicy
	}
	return func(ctx context.Context, turn *actions.Turn, call actions.Call) (actions.Approval, error) {
		if isTool(call.Action.Name) { // its mark is for bots that do not ask here
			unmarked := *call.Action
			unmarked.Approval = false
			call.Action = &unmarked
		}
		approval, err := next(ctx, turn, call)
		if err != nil || approval.Denied != "" {
			return approval, err
		}
		own, err := p.judge(ctx, turn, call)
		if err != nil || own.Denied != "" {
			return own, err
		}
		return both(approval, own), nil
	}
}

// both asks for what either asks for. An approval is bound to what would run, whoever wants
// it; that it may be a standing one is for both to say.
func both(a, own actions.Approval) actions.Approval {
	a.Bind = strings.TrimSpace(a.Bind + " " + own.Bind)
	if !own.Required {
		return a
	}
	a.Standing = !a.Required || a.Standing
	a.Required = true
	a.Reason = strings.TrimSpace(a.Reason + " " + own.Reason)
	return a
}

// judge is what skills say of a call. Nobody is asked about one that cannot be made: the
// tool itself says what is wrong.
func (p *Provider) judge(ctx context.Context, turn *actions.Turn, call actions.Call) (actions.Approval, error) {
	g := given(call.Entities)
	approval := actions.Approval{Required: p.approves(call.Action.Name)}
	switch call.Action.Name {
	case RunScript:
		return p.judgeScript(ctx, turn, g)
	case LoadSkill:
		v, err := p.view(ctx, turn)
		if err != nil {
			return actions.Approval{}, err
		}
		i, fault := v.skill(g.skill())
		if fault != "" {
			return actions.Approval{}, nil
		}
		approval.Reason = "Loads the skill " + inLine(v.names[i]) + "."
	case ReadResource:
		u, fault, err := p.useResource(ctx, turn, g.skill(), g.resource())
		if err != nil || fault != "" {
			return actions.Approval{}, err
		}
		approval.Reason = "Reads " + inLine(u.skill.Resources[u.part].Name) + " of the skill " + inLine(u.skill.Name) + "."
	default:
		denied, err := p.narrowed(ctx, turn, attempt{action: call.Action.Name})
		return actions.Approval{Denied: denied}, err
	}
	return approval, nil
}

func (p *Provider) judgeScript(ctx context.Context, turn *actions.Turn, g given) (actions.Approval, error) {
	u, fault, err := p.useScript(ctx, turn, g.skill(), g.script())
	if err != nil || fault != "" {
		return actions.Approval{}, err
	}
	script := u.skill.Scripts[u.part]
	denied, err := p.narrowed(ctx, turn, attempt{RunScript, u.skill.Name, script})
	if err != nil || denied != "" {
		return actions.Approval{Denied: denied}, err
	}
	approval := actions.Approval{
		Required: p.approves(RunScript), Bind: "built in",
		Reason: "Runs the script " + inLine(script.Name) + " of the skill " + inLine(u.skill.Name) + ".",
	}
	if script.Action != nil {
		return approval, nil
	}
	if p.cfg.Runner == nil {
		return actions.Approval{}, nil
	}
	if approval.Bind, err = p.cfg.Runner.Digest(ctx, u.skill); err != nil {
		if ctx.Err() != nil {
			return actions.Approval{}, err
		}
		zerolog.Ctx(ctx).Error().Err(err).Str("skill", inLine(u.skill.Name)).Msg("the scripts of a skill cannot be read")
		return actions.Approval{Denied: fmt.Sprintf("The scripts of skill '%s' cannot be read.", inLine(u.skill.Name))}, nil
	}
	if approval.Bind == "" { // nothing would run
		return actions.Approval{}, nil
	}
	digestsOf(turn)[u.skill.Name] = approval.Bind
	return approval, nil
}

// narrowed says why the skills that are loaded do not allow the call, "" when they do. Each
// of them that names tools has to name this one.
func (p *Provider) narrowed(ctx context.Context, turn *actions.Turn, a attempt) (string, error) {
	loaded := topicsOf(turn).Loaded
	if len(loaded) == 0 {
		return "", nil
	}
	v, err := p.view(ctx, turn)
	if err != nil {
		return "", err
	}
	for _, l := range loaded {
		i, ok := slices.BinarySearch(v.names, l.Skill)
		if !ok || v.skills[i].AllowedTools == nil || a.allowedBy(v.skills[i]) {
			continue
		}
		s := v.skills[i]
		zerolog.Ctx(ctx).Info().Str("skill", inLine(s.Name)).Str("action", a.action).Msg("a skill does not allow a call")
		return fmt.Sprintf("%s is not among the tools that the skill %s allows while it is loaded (%s). The person can end it with /skill off %s.",
			a, inLine(s.Name), clip(strings.Join(s.AllowedTools, " ")), inLine(s.Name)), nil
	}
	return "", nil
}

// digests are the digests of skills that the policy has seen in this turn, so that nothing
// else is run than what was approved. It is a value of the turn's temporary state.
type digests map[string]string

// StateName is the name under which state keeps it.
func (digests) StateName() string { return "skillDigests" }

func digestsOf(turn *actions.Turn) digests {
	if turn.Temp == nil {
		return digests{}
	}
	seen := state.Of[digests](turn.Temp)
	if *seen == nil {
		*seen = digests{}
	}
	return *seen
}
