package skills

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
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

// judge is what skills say of a call, and notes what of theirs it has judged. Nobody is
// asked about a call that cannot be made: the tool itself says what is wrong.
func (p *Provider) judge(ctx context.Context, turn *actions.Turn, call actions.Call) (actions.Approval, error) {
	tool, g := call.Action.Name, given(call.Entities)
	if !isTool(tool) {
		denied, err := p.narrowed(ctx, turn, attempt{action: tool})
		return actions.Approval{Denied: denied}, err
	}
	judgedIn(turn).asked(tool)
	switch tool {
	case RunScript:
		return p.judgeScript(ctx, turn, call)
	case LoadSkill:
		_, s, fault, err := p.findSkill(ctx, turn, g)
		if err != nil || fault != "" {
			return actions.Approval{}, err
		}
		return p.judgeSkill(turn, s), nil
	}
	u, fault, err := p.findResource(ctx, turn, g)
	if err != nil || fault != "" {
		return actions.Approval{}, err
	}
	return p.judgeResource(ctx, turn, u)
}

// judgeResource binds the approval to what would be told. What cannot be read now is
// nothing that the tool would tell.
func (p *Provider) judgeResource(ctx context.Context, turn *actions.Turn, u use) (actions.Approval, error) {
	if !p.approves(ReadResource) {
		return actions.Approval{}, nil
	}
	r, data := u.skill.Resources[u.part], Data{}
	if r.Size >= 0 {
		var err error
		if data, err = r.Read(ctx); err != nil && ctx.Err() != nil {
			return actions.Approval{}, err
		}
	}
	bind := u.identity(data)
	judgedIn(turn).allow(ReadResource, u.skill.Name, r.Name, bind)
	return actions.Approval{Required: true, Reason: "Reads " + clip(r.Name) + " of the skill " + clip(u.skill.Name) + ".", Bind: bind}, nil
}

// judgeSkill binds the approval to what the skill says.
func (p *Provider) judgeSkill(turn *actions.Turn, s *Skill) actions.Approval {
	if !p.approves(LoadSkill) {
		return actions.Approval{}
	}
	bind := s.identity()
	judgedIn(turn).allow(LoadSkill, s.Name, "", bind)
	return actions.Approval{Required: true, Reason: "Loads the skill " + clip(s.Name) + ".", Bind: bind}
}

func (p *Provider) judgeScript(ctx context.Context, turn *actions.Turn, call actions.Call) (actions.Approval, error) {
	l, fault, err := p.findScript(ctx, turn, given(call.Entities))
	if err != nil || l.skill == nil {
		return actions.Approval{}, err
	}
	denied, err := p.narrowed(ctx, turn, attempt{RunScript, l.skill.Name, l.script})
	if err != nil || denied != "" {
		return actions.Approval{Denied: denied}, err
	}
	if fault != "" {
		return actions.Approval{}, nil
	}
	approval := actions.Approval{
		Required: p.approves(RunScript),
		Reason:   "Runs the script " + clip(l.script.Name) + " of the skill " + clip(l.skill.Name) + ".",
	}
	if l.script.Action != nil {
		return p.judgeFunc(ctx, turn, l, approval, call.Salvaged)
	}
	digest, err := p.cfg.Runner.Digest(ctx, l.skill)
	if err != nil {
		if ctx.Err() != nil {
			return actions.Approval{}, err
		}
		zerolog.Ctx(ctx).Error().Err(err).Str("skill", inLine(l.skill.Name)).Msg("the scripts of a skill cannot be read")
		return actions.Approval{Denied: fmt.Sprintf("The scripts of skill '%s' cannot be read.", inLine(l.skill.Name))}, nil
	}
	if digest == "" { // nothing would run
		return actions.Approval{}, nil
	}
	approval.Bind = digest
	judgedIn(turn).allow(RunScript, l.skill.Name, l.script.Name, digest)
	return approval, nil
}

// judgeFunc completes the approval of a script that is a Go function. Its marks count as
// those of actions do, and what the bot would fill in is part of what is approved.
func (p *Provider) judgeFunc(ctx context.Context, turn *actions.Turn, l launch, approval actions.Approval, salvaged bool) (actions.Approval, error) {
	a := l.script.Action
	approval.Required = approval.Required || a.Approval || a.Destructive && salvaged
	bound, err := a.Bound(ctx, turn)
	if err != nil {
		return actions.Approval{}, fmt.Errorf("script %s of skill %s: %w", inLine(l.script.Name), inLine(l.skill.Name), err)
	}
	raw, err := json.Marshal(bound)
	if err != nil {
		return actions.Approval{}, fmt.Errorf("script %s of skill %s: %w", inLine(l.script.Name), inLine(l.skill.Name), err)
	}
	is := l.identity()
	judgedIn(turn).allow(RunScript, l.skill.Name, l.script.Name, is)
	approval.Bind = is + " " + identity(string(raw))
	return approval, nil
}

// identity tells a script that is a Go function from any other of its name: by its skill's
// words, and by what it is said to do with which arguments.
func (l launch) identity() string {
	schema, err := json.Marshal(l.script.Action.Schema)
	if err != nil {
		schema = []byte(err.Error())
	}
	all := fmt.Sprintf("%q", []string{l.skill.Name, l.skill.Content(), l.script.Name, l.script.Description, string(schema)})
	return "built in " + identity(all)
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
