package skills

import (
	"context"
	"errors"
	"strings"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
)

// load is load_skill. The instructions themselves are told by [Provider.Extend], so that
// neither the journal nor the history holds them.
func (p *Provider) load(ctx context.Context, turn *actions.Turn, entities map[string]any) (actions.Result, error) {
	v, s, fault, err := p.findSkill(ctx, turn, entities)
	if err != nil {
		return actions.Result{}, err
	}
	if fault != "" {
		return fail("%s", fault), nil
	}
	if judged, ok, _ := judgedIn(turn).find(LoadSkill, s.Name, ""); p.approves(LoadSkill) && (!ok || judged != s.identity()) {
		return fail(unjudged, "Skill", inLine(s.Name)), nil
	}
	switch added, err := p.activate(ctx, turn, v, s); {
	case err != nil:
		return fail("%v. The person can end them with /skill off.", err), nil
	case !added:
		return actions.Observe("The skill " + inLine(s.Name) + " is loaded already, its instructions are above."), nil
	}
	return actions.Observe(loadedText(s.Name)), nil
}

// activate loads a skill into the turn's conversation. added is false when it was loaded
// before. The error says in words that no more can be.
func (p *Provider) activate(ctx context.Context, turn *actions.Turn, v *view, s *Skill) (added bool, err error) {
	if v.tooLong(topicsOf(turn), s.Name) {
		return false, errLongLoaded
	}
	if added, err = topicsOf(turn).add(s.Name, turn.ID, v.has); err != nil || !added {
		return false, err
	}
	audit(ctx, LoadSkill, s).Msg("skill used")
	for _, word := range s.AllowedTools {
		if !p.understands(s, word) {
			zerolog.Ctx(ctx).Warn().Str("skill", inLine(s.Name)).Str("tool", clip(word)).
				Msg("allowed-tools of a skill has what allows nothing here")
		}
	}
	return true, nil
}

// findSkill finds the skill that a call names. fault is what is wrong, "" for nothing, and
// err the source's; so it is with the others that find.
func (p *Provider) findSkill(ctx context.Context, turn *actions.Turn, g given) (v *view, s *Skill, fault string, err error) {
	v, err = p.view(ctx, turn)
	if err != nil {
		return nil, nil, "", err
	}
	if fault = g.fault(); fault != "" {
		return nil, nil, fault, nil
	}
	i, fault := v.skill(g.text(skillName))
	if fault != "" {
		return nil, nil, fault, nil
	}
	return v, v.skills[i], "", nil
}

// use is a resource or a script of a skill that the turn may use.
type use struct {
	skill *Skill
	part  int
}

func (p *Provider) findResource(ctx context.Context, turn *actions.Turn, g given) (u use, fault string, err error) {
	if fault = g.fault(); fault != "" {
		return u, fault, nil
	}
	return p.useResource(ctx, turn, g.text(skillName), g.text(resourceName))
}

func (p *Provider) useResource(ctx context.Context, turn *actions.Turn, skill, resource string) (u use, fault string, err error) {
	return p.use(ctx, turn, "Resource", skill, resource, func(s *Skill) []string {
		return names(s.Resources, func(r Resource) string { return r.Name })
	})
}

// use finds a part of a skill that a model means.
func (p *Provider) use(ctx context.Context, turn *actions.Turn, kind, skill, part string, parts func(*Skill) []string) (u use, fault string, err error) {
	v, err := p.view(ctx, turn)
	if err != nil {
		return u, "", err
	}
	if blank := strings.TrimSpace(part) == ""; blank && strings.TrimSpace(skill) != "" {
		return u, kind + " name cannot be empty.", nil
	}
	i, fault := v.skill(skill)
	if fault != "" {
		return u, fault, nil
	}
	u.skill = v.skills[i]
	have := parts(u.skill)
	if u.part = find(part, have); u.part < 0 {
		fault = kind + " '" + clip(part) + "' not found in skill '" + inLine(u.skill.Name) + "'." + didYouMean(part, have)
	}
	return u, fault, nil
}

// safeCause is err without the stack of a panic.
func safeCause(err error) error {
	if errors.Is(err, actions.ErrPanic) {
		return actions.ErrPanic
	}
	return err
}

// failed is what models are told of a resource or script that did not work: the text, and
// with DetailedErrors why. The end of the turn's time is the turn's.
func (p *Provider) failed(ctx context.Context, err, why error, text string) (actions.Result, error) {
	if ctx.Err() != nil {
		return actions.Result{}, err
	}
	zerolog.Ctx(ctx).Error().Err(err).Msg("a part of a skill did not work")
	if p.cfg.DetailedErrors {
		text += " Exception: " + why.Error()
	}
	return fail("%s", text), nil
}

// fail is a result that says what is wrong in the form of the Microsoft Agent Framework.
func fail(format string, args ...any) actions.Result { return actions.Fail("Error: "+format, args...) }

// names are those of a list.
func names[T any](list []T, name func(T) string) []string {
	out := make([]string, len(list))
	for i, item := range list {
		out[i] = name(item)
	}
	return out
}
