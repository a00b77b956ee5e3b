package planner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/prompts"
)

// Function is what a prompt may call as {{name word 'a text' $variable}}. It is
// called for each turn, by several turns at once; its result is put into the
// prompt as [prompts.Format] writes it. An error ends the turn.
type Function func(ctx context.Context, turn *actions.Turn, args []string) (any, error)

// asking is a prompt with what it takes to ask a model with it. It does not change.
type asking struct {
	prompt    *prompts.Prompt
	model     models.Model
	functions map[string]Function
	lists     map[string]prompts.Func // functions that say the same in every turn
	maxTokens int                     // of the answer, unless the prompt says
	counter   prompts.Counter
	format    *models.Format // what the server holds the model to; nil: nothing
	actions   []models.Tool  // what a plan in the answer may use; nil: it is none
}

// nameModel takes the model that the prompt asks for, if it does.
func (a *asking) nameModel(named func(string) (models.Model, error)) (err error) {
	name := a.prompt.Config.Completion.Model
	if name == "" {
		return nil
	}
	if named == nil {
		return fmt.Errorf("config.json: completion.model %s: only one model is configured, leave it out", name)
	}
	if a.model, err = named(name); err != nil {
		return fmt.Errorf("config.json: completion.model %s: %w", name, err)
	}
	return nil
}

// checkTemplate finds functions and scopes that are not there.
func (a *asking) checkTemplate() error {
	var faults []error
	known := append(slices.Sorted(maps.Keys(a.lists)), slices.Sorted(maps.Keys(a.functions))...)
	for _, name := range a.prompt.Functions() {
		if !slices.Contains(known, name) {
			faults = append(faults, fmt.Errorf("no function %q, have %s", name, list(known)))
		}
	}
	for _, variable := range a.prompt.Variables() {
		if scope, _, _ := strings.Cut(variable, "."); !isScope(scope) {
			faults = append(faults, fmt.Errorf("$%s: no scope %q, have conversation, user, temp", variable, scope))
		}
	}
	return errors.Join(faults...)
}

// render is the prompt as it is in this turn.
func (a *asking) render(ctx context.Context, turn *actions.Turn, inputs map[string]any) (string, error) {
	vars := &turnVars{turn: turn, inputs: inputs}
	funcs := maps.Clone(a.lists)
	for name, fn := range a.functions {
		if funcs == nil {
			funcs = map[string]prompts.Func{}
		}
		funcs[name] = func(ctx context.Context, args []string) (any, error) { return fn(ctx, turn, args) }
	}
	text, err := a.prompt.Render(ctx, prompts.Data{Vars: vars.Var, Funcs: funcs})
	return text, cmp.Or(vars.fault, err)
}

// request asks with the settings of the prompt.
func (a *asking) request(messages []models.Message) *models.Request {
	c := &a.prompt.Config.Completion
	request := &models.Request{
		Messages: messages, MaxTokens: cmp.Or(c.MaxTokens, a.maxTokens), Format: a.format,
		Temperature: c.Temperature, TopP: c.TopP, PresencePenalty: c.PresencePenalty, FrequencyPenalty: c.FrequencyPenalty,
		Stop: c.Stop, Actions: a.actions, OneCallAtMost: c.ParallelCalls != nil && !*c.ParallelCalls,
	}
	if c.ToolChoice != "auto" {
		request.Choice = models.Choice(c.ToolChoice)
	}
	return request
}

// briefing is what a prompt makes of a planner: what the model is told, how it is
// asked, and what it may plan. It does not change.
type briefing struct {
	asking
	cfg     *SequenceConfig
	kind    string
	finish  func(*briefing) error // adds what only one planner needs; nil: nothing
	offered *actions.Registry     // what a plan may do
	tools   toolset               // of the planner that calls tools: those that are offered
	static  *string               // the prompt as rendered; nil: it has to be, for each turn

	// What an [Extension] added:
	extended *extended // others of this prompt
	skills   string
	pinned   []string
	tell     func(actions.Outcome) (string, bool)
}

// newBriefing checks a prompt against the planner of that kind, and renders it if
// it says the same in every turn. Every fault is in the one error.
func newBriefing(ctx context.Context, kind string, prompt *prompts.Prompt, cfg *SequenceConfig, finish func(*briefing) error) (*briefing, error) {
	b := &briefing{
		asking: asking{prompt: prompt, model: cfg.Model, functions: cfg.Functions, maxTokens: cfg.MaxTokens, counter: cfg.Prompts.Counter()},
		cfg:    cfg, kind: kind, finish: finish, extended: &extended{},
	}
	allowed, excluding := without(cfg.Actions, cfg.Exclude)
	var err error
	b.offered, err = offered(prompt.Actions, allowed)
	b.lists = listsOf(b.offered, "")
	faults := []error{excluding, err, b.checkUse(kind), b.checkTemplate(), b.nameModel(cfg.Named)}
	if err := errors.Join(faults...); err != nil {
		return nil, fmt.Errorf("prompt %s: %w", prompt.Name(), err)
	}
	if cfg.Extension != nil { // which says later what is really offered
		ctx = zerolog.Nop().WithContext(ctx)
	}
	return b, b.complete(ctx)
}

// complete makes what follows from the actions that are offered: the format that the
// server holds the model to, and the prompt itself.
func (b *briefing) complete(ctx context.Context) (err error) {
	if b.kind == prompts.AugmentSequence {
		if b.format, err = b.cfg.ResponseFormat.of(ctx, b.offered); err != nil {
			return err
		}
	}
	if b.kind != prompts.AugmentTools {
		all, err := newToolset(b.offered, false)
		if err != nil {
			return err
		}
		b.actions = append([]models.Tool{}, all.tools...)
	}
	if !b.perTurn() {
		text, err := b.prompt.Render(ctx, prompts.Data{Funcs: b.lists})
		if err != nil {
			return err
		}
		text = b.withSkills(text)
		b.static = &text
		if err := b.checkFormat(); err != nil {
			return err
		}
	}
	if b.finish == nil {
		return nil
	}
	return b.finish(b)
}

// withSkills is the prompt with what an [Extension] adds to it, unless the prompt has a
// place for that.
func (b *briefing) withSkills(text string) string {
	if b.skills == "" || slices.Contains(b.prompt.Functions(), skillsFunction) {
		return text
	}
	return strings.TrimRight(text, "\n") + "\n\n" + b.skills
}

// skillsFunction is the name by which a prompt gets what an [Extension] has to say.
const skillsFunction = "skills"

// listsOf are the functions by which a prompt lists the actions: {{actions}}, a
// line each, and {{manual}}, as the sequential planner of Semantic Kernel does; and
// {{skills}}.
func listsOf(offered *actions.Registry, skills string) map[string]prompts.Func {
	list := func(render func([]prompts.Action) string) prompts.Func {
		text := sync.OnceValue(func() string { return render(Describe(offered)) })
		return func(context.Context, []string) (any, error) { return text(), nil }
	}
	manual := func(described []prompts.Action) string {
		slices.SortStableFunc(described, byPlugin)
		return prompts.RenderManual(described)
	}
	return map[string]prompts.Func{
		"actions": list(prompts.RenderActions), "manual": list(manual),
		skillsFunction: func(context.Context, []string) (any, error) { return skills, nil },
	}
}

// checkUse finds settings that contradict the planner or have no effect with it.
func (b *briefing) checkUse(kind string) error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf("config.json: "+format, args...)) }
	config, c := &b.prompt.Config, &b.prompt.Config.Completion
	if a := config.Augmentation; a != "" && a != kind {
		fault("augmentation_type %s contradicts the planner, which is %s", a, kind)
	}
	if config.Input != nil {
		fault("input.parameters are for a prompt that is an action, this one is a planner's")
	}
	if kind != prompts.AugmentTools && (c.ToolChoice != "" || c.ParallelCalls != nil) {
		fault("tool_choice and parallel_tool_calls have no effect with the planner %s", kind)
	}
	if c.IncludeInput != nil && !*c.IncludeInput && !slices.Contains(b.prompt.Variables(), "temp.input") {
		fault("include_input is false, and the text does not show {{$input}}: the model would never see what the person said")
	}
	return errors.Join(faults...)
}

// perTurn says that the prompt may say something else in every turn.
func (b *briefing) perTurn() bool {
	return len(b.prompt.Variables()) > 0 || slices.ContainsFunc(b.prompt.Functions(), func(name string) bool { return b.lists[name] == nil })
}

// system is the prompt as the model is told it in this turn.
func (b *briefing) system(ctx context.Context, turn *actions.Turn) (string, error) {
	if b.static != nil {
		return *b.static, nil
	}
	text, err := b.render(ctx, turn, nil)
	return b.withSkills(text), err
}

// includes says whether something that is told by default is.
func includes(setting *bool) bool { return setting == nil || *setting }
