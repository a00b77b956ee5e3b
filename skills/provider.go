package skills

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/planner"
	"github.com/planbot-go/planbot/planner/plan"
	"github.com/planbot-go/planbot/prompts"
)

// ProviderConfig says what a [Provider] is made of. Source is required; the zero value of
// every other field is a working default.
type ProviderConfig struct {
	// Source gives the skills of each turn.
	Source Source
	// Runner runs scripts that are files. nil: nothing does, and models are told so.
	Runner Runner

	// Approve are the tools of which a person has to approve each call. nil: [RunScript]
	// alone, as with an empty list nobody is asked. The newest Microsoft Agent Framework has
	// all three.
	Approve []string
	// ScriptApproval is what early versions of that framework called the default.
	ScriptApproval bool

	// Template is what models are told of skills, with {skills} where their list goes; {0}
	// does as well. "": one that says what the tools are for.
	Template string
	// CatalogueSize is how many characters the list of skills may have. Over that
	// descriptions are cut, and no name is left out. 0: 24000.
	CatalogueSize int
	// DetailedErrors tells models what went wrong in a resource or a script, and not only
	// that something did. It may hold what is not for everybody.
	DetailedErrors bool
}

// Provider lets planners use skills: it lists them in the prompt, and adds the actions by
// which a model loads one, reads its resources and runs its scripts. A skill that is loaded
// stays so in its conversation until its topic ends, and may narrow what else runs. Which
// skills there are is asked of the source each time, so one that is taken away from somebody
// is gone for them at once. It is safe for concurrent use once it is registered.
type Provider struct {
	cfg      ProviderConfig
	views    views
	registry *actions.Registry // nil: not registered
}

var _ planner.Extension = (*Provider)(nil)

// NewProvider checks cfg whole.
func NewProvider(cfg ProviderConfig) (*Provider, error) {
	var errs []error
	if cfg.Source == nil {
		errs = append(errs, errors.New("no Source"))
	}
	if cfg.CatalogueSize < 0 {
		errs = append(errs, errors.New("CatalogueSize is negative"))
	}
	if cfg.Approve == nil {
		cfg.Approve = []string{RunScript}
	}
	for _, tool := range cfg.Approve {
		if !isTool(tool) {
			errs = append(errs, fmt.Errorf("Approve: there is no tool %q, have %s, %s and %s", tool, LoadSkill, ReadResource, RunScript))
		}
	}
	if cfg.ScriptApproval && !slices.Contains(cfg.Approve, RunScript) {
		errs = append(errs, fmt.Errorf("ScriptApproval contradicts Approve, which has no %s", RunScript))
	}
	var err error
	cfg.Template, err = checkTemplate(cfg.Template)
	if err := errors.Join(append(errs, err)...); err != nil {
		return nil, fmt.Errorf("skills provider: %w", err)
	}
	cfg.CatalogueSize = cmp.Or(cfg.CatalogueSize, defaultCatalogue)
	return &Provider{cfg: cfg}, nil
}

// Register adds the tools load_skill, read_skill_resource and run_skill_script, and the host
// value "skills", a [Reader], for actions of the bot that use resources themselves; so it
// comes before those. The error is that of a name which is taken.
func (p *Provider) Register(r *actions.Registry) error {
	for _, tool := range []struct {
		name, description string
		entities          []entity
		fn                func(context.Context, *actions.Turn, map[string]any) (actions.Result, error)
		marks             []actions.Option
	}{
		{LoadSkill, "Loads a skill: its instructions, and the names of its resources and scripts", []entity{skillName}, p.load, []actions.Option{actions.StateOnly}},
		{ReadResource, "Reads a resource of a skill", []entity{skillName, resourceName, pageNumber}, p.read, []actions.Option{actions.StateOnly}},
		{RunScript, "Runs a script of a skill", []entity{skillName, scriptName, scriptArguments}, p.run, nil},
	} {
		marks := append(tool.marks, actions.ReturnsData)
		if p.approves(tool.name) { // where Policy is not asked, nothing runs
			marks = append(marks, actions.NeedsApproval)
		}
		if _, err := actions.AddSchema(r, tool.name, tool.description, registered(tool.entities...), tool.fn, marks...); err != nil {
			return fmt.Errorf("register the tools of skills: %w", err)
		}
	}
	actions.Provide(r, "skills", func(_ context.Context, turn *actions.Turn) (Reader, error) { return Reader{p, turn}, nil })
	p.registry = r
	return nil
}

func (p *Provider) approves(tool string) bool { return slices.Contains(p.cfg.Approve, tool) }

// Extend is what skills add to the prompt of a turn: the list of those that it may use,
// the tools with their names, and the content of those that are loaded. The error is the
// source's, or that of state which cannot be read.
func (p *Provider) Extend(ctx context.Context, turn *actions.Turn) (planner.Extra, error) {
	topics, err := p.begin(turn)
	if err != nil {
		return planner.Extra{}, err
	}
	v, err := p.view(ctx, turn)
	if err != nil {
		return planner.Extra{}, err
	}
	extra := v.extra
	if turn != nil {
		extra.Pinned = v.pinned(turn, topics)
	}
	return extra, nil
}

// begin counts the turn as one of the topics of its conversation.
func (p *Provider) begin(turn *actions.Turn) (*topics, error) {
	topics := topicsOf(turn)
	if turn == nil || turn.Thread == nil {
		return topics, nil
	}
	if err := turn.Thread.Err(); err != nil {
		return nil, fmt.Errorf("read which skills are loaded: %w", err)
	}
	topics.begin(turn.ID)
	if len(topics.Loaded) == 0 && turn.Thread.Has(topics.StateName()) {
		turn.Thread.Remove(topics.StateName())
	}
	return topics, nil
}

// Reset ends the topics of all skills in the turn's conversation, or thread.
func (p *Provider) Reset(turn *actions.Turn) { turn.Thread.Remove(new(topics).StateName()) }

// Prompt shows what a model would see in the turn, which may be nil: the list of the skills
// and the tools as they are offered, or the content of the skill of that name. Without
// skills it is empty. The provider has to be registered.
func (p *Provider) Prompt(ctx context.Context, turn *actions.Turn, skill string) (string, error) {
	if skill != "" {
		v, err := p.everything(ctx, turn)
		if err != nil {
			return "", err
		}
		i, fault := v.skill(skill)
		if fault != "" {
			return "", errors.New(fault)
		}
		return v.told[i](), nil
	}
	v, err := p.view(ctx, turn)
	if err != nil || len(v.skills) == 0 {
		return "", err
	}
	offered, err := v.offer(p.registry)
	if err != nil {
		return "", err
	}
	tools := slices.DeleteFunc(plan.Describe(offered), func(a prompts.Action) bool { return !isTool(a.Name) })
	return v.extra.Text + "\n\n" + prompts.RenderActions(tools), nil
}

// view is what a model may use in the turn: skills that only people may load are there
// while they are loaded.
func (p *Provider) view(ctx context.Context, turn *actions.Turn) (*view, error) {
	list, err := p.cfg.Source.Skills(ctx, turn)
	if err != nil {
		return nil, fmt.Errorf("skills of the turn: %w", err)
	}
	if slices.ContainsFunc(list, forPeople) {
		loaded := topicsOf(turn)
		list = slices.DeleteFunc(slices.Clone(list), func(s *Skill) bool { return forPeople(s) && !loaded.has(s.Name) })
	}
	return p.viewOf(ctx, list)
}

// everything is what a person may use in the turn.
func (p *Provider) everything(ctx context.Context, turn *actions.Turn) (*view, error) {
	list, err := p.cfg.Source.Skills(ctx, turn)
	if err != nil {
		return nil, fmt.Errorf("skills of the turn: %w", err)
	}
	return p.viewOf(ctx, list)
}

func forPeople(s *Skill) bool { return s.DisableModelInvocation }

func (p *Provider) viewOf(ctx context.Context, list []*Skill) (*view, error) {
	return p.views.of(list, func(list []*Skill) (*view, error) {
		v, err := newView(list, p.offered, p.cfg.Template, p.cfg.CatalogueSize)
		if err == nil && v.cut >= 0 {
			zerolog.Ctx(ctx).Warn().Int("skills", len(v.skills)).Int("characters", v.cut).
				Msg("descriptions of skills are cut, so that their list is not too long")
		}
		return v, err
	})
}

// offered is a skill as models are told it: without scripts that cannot run here.
func (p *Provider) offered(s *Skill) *Skill {
	refused := func(script Script) bool { return p.refuses(script, nil) != "" }
	if !slices.ContainsFunc(s.Scripts, refused) {
		return s
	}
	offered := *s
	offered.Scripts = slices.DeleteFunc(slices.Clone(s.Scripts), refused)
	return &offered
}

// audit writes down that a skill was used: which, and never what was in it.
func audit(ctx context.Context, tool string, s *Skill) *zerolog.Event {
	return zerolog.Ctx(ctx).Info().Str("tool", tool).Str("skill", inLine(s.Name))
}
