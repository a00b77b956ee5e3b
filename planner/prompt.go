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

	"github.com/go-json-experiment/json"
	"github.com/google/jsonschema-go/jsonschema"
	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/internal/spelling"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner/plan"
	"github.com/planbot-go/planbot/prompts"
	"github.com/planbot-go/planbot/state"
)

// Function is what a prompt may call as {{name word 'a text' $variable}}. It is
// called for each turn, by several turns at once; its result is put into the
// prompt as [prompts.Format] writes it. An error ends the turn.
type Function func(ctx context.Context, turn *actions.Turn, args []string) (any, error)

// modelPrompt is a prompt with what it takes to ask a model with it. It does not change.
type modelPrompt struct {
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
func (a *modelPrompt) nameModel(named func(string) (models.Model, error)) (err error) {
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
func (a *modelPrompt) checkTemplate() error {
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
func (a *modelPrompt) render(ctx context.Context, turn *actions.Turn, inputs map[string]any) (string, error) {
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
func (a *modelPrompt) request(messages []models.Message) *models.Request {
	c := &a.prompt.Config.Completion
	request := &models.Request{
		Messages: messages, MaxTokens: cmp.Or(c.MaxTokens, a.maxTokens), Format: a.format,
		Temperature: c.Temperature, TopP: c.TopP, PresencePenalty: c.PresencePenalty, FrequencyPenalty: c.FrequencyPenalty,
		Stop: c.Stop, Actions: a.actions, OneCallAtMost: c.ParallelCalls != nil && !*c.ParallelCalls,
	}
	if c.ToolChoice != "auto" {
		request.Choice = c.ToolChoice
	}
	return request
}

// plannerPrompt is what a prompt makes of a planner: what the model is told, how it is
// asked, and what it may plan. It does not change.
type plannerPrompt struct {
	modelPrompt
	cfg     *SequenceConfig
	kind    string
	finish  func(*plannerPrompt) error // adds what only one planner needs; nil: nothing
	offered *actions.Registry          // what a plan may do
	tools   toolset                    // of the planner that calls tools: those that are offered
	static  *string                    // the prompt as rendered; nil: it has to be, for each turn

	// What an [Extension] added:
	extended *extended // others of this prompt
	skills   string
	pinned   []string
	tell     func(actions.Outcome) (string, bool)
}

// newPlannerPrompt checks a prompt against the planner of that kind, and renders it if
// it says the same in every turn. Every fault is in the one error.
func newPlannerPrompt(ctx context.Context, kind string, prompt *prompts.Prompt, cfg *SequenceConfig, finish func(*plannerPrompt) error) (*plannerPrompt, error) {
	b := &plannerPrompt{
		modelPrompt: modelPrompt{prompt: prompt, model: cfg.Model, functions: cfg.Functions, maxTokens: cfg.MaxTokens, counter: cfg.Prompts.Counter()},
		cfg:         cfg, kind: kind, finish: finish, extended: &extended{},
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
func (b *plannerPrompt) complete(ctx context.Context) (err error) {
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
func (b *plannerPrompt) withSkills(text string) string {
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
		text := sync.OnceValue(func() string { return render(plan.Describe(offered)) })
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
func (b *plannerPrompt) checkUse(kind string) error {
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
func (b *plannerPrompt) perTurn() bool {
	return len(b.prompt.Variables()) > 0 || slices.ContainsFunc(b.prompt.Functions(), func(name string) bool { return b.lists[name] == nil })
}

// system is the prompt as the model is told it in this turn.
func (b *plannerPrompt) system(ctx context.Context, turn *actions.Turn) (string, error) {
	if b.static != nil {
		return *b.static, nil
	}
	text, err := b.render(ctx, turn, nil)
	return b.withSkills(text), err
}

// includes says whether something that is told by default is.
func includes(setting *bool) bool { return setting == nil || *setting }

// byPlugin is the order of the functions manual: by plugin, then by name.
func byPlugin(a, b prompts.Action) int {
	pluginA, nameA := splitPlugin(a.Name)
	pluginB, nameB := splitPlugin(b.Name)
	return cmp.Or(strings.Compare(pluginA, pluginB), strings.Compare(nameA, nameB))
}

// turnVars are the variables of a turn: its state, and as temp.input the person's
// text. In a prompt action the scope temp is its inputs instead.
type turnVars struct {
	turn   *actions.Turn
	inputs map[string]any // nil: it is no prompt action
	fault  error          // the first value that could not be read
}

func isScope(name string) bool { return name == "conversation" || name == "user" || name == "temp" }

// Var returns a value of the state as the JSON that it is kept as.
func (v *turnVars) Var(scope, name string) (any, bool) {
	if scope == "temp" && v.inputs != nil {
		value, ok := v.inputs[name]
		return value, ok
	}
	if from := v.scope(scope); from != nil {
		value, err := from.JSON(name)
		if err != nil && v.fault == nil {
			v.fault = fmt.Errorf("variable $%s.%s: %w", scope, name, err)
		}
		if value != nil {
			return value, true
		}
	}
	if scope == "temp" && name == "input" {
		return v.turn.Text, true
	}
	return nil, false
}

func (v *turnVars) scope(name string) *state.Scope {
	switch name {
	case "conversation":
		return v.turn.Conversation
	case "user":
		return v.turn.User
	default:
		return v.turn.Temp
	}
}

// inBudget are the messages of a request, in at most the max_input_tokens of the
// prompt's config.json, of which some are for what comes behind them.
func (a *modelPrompt) inBudget(in prompts.AssembleInput, reserved int) ([]models.Message, error) {
	budget := a.prompt.Config.Completion.MaxInputTokens
	if budget == 0 {
		return converted(prompts.Assemble(in)), nil
	}
	messages, err := in.Within(budget-reserved, a.counter)
	if err != nil {
		return nil, &models.Error{Kind: models.TooLong, Err: err}
	}
	return converted(messages), nil
}

// converted are messages of a prompt as those of a model.
func converted(assembled []prompts.Message) []models.Message {
	messages := make([]models.Message, len(assembled))
	for i, m := range assembled {
		messages[i] = models.Message{Role: m.Role, Text: m.Text}
	}
	return messages
}

// sizeOf is how many tokens messages with calls and functions have; 0 where
// nobody asks, because the prompt has no max_input_tokens.
func (a *modelPrompt) sizeOf(messages []models.Message, tools []models.Tool) int {
	if a.prompt.Config.Completion.MaxInputTokens == 0 {
		return 0
	}
	size := 0
	add := func(texts ...string) {
		size += prompts.MessageTokens
		for _, text := range texts {
			size += a.counter.Count(text)
		}
	}
	for _, m := range messages {
		add(m.Text)
		for _, c := range m.Calls {
			add(c.Name, c.Arguments)
		}
	}
	for _, t := range tools {
		add(t.Name, t.Description, string(t.Schema))
	}
	return size
}

// offered is the registry of the actions that a prompt offers: reg itself when
// the prompt does not say. What it says of an action must be true of it.
func offered(offers []prompts.Offer, reg *actions.Registry) (*actions.Registry, error) {
	if offers == nil {
		return reg, nil
	}
	var faults []error
	picked := make([]actions.Offer, len(offers))
	for i, o := range offers {
		picked[i] = actions.Offer{Name: o.Name, Description: o.Description}
		if err := checkOffer(o, reg); err != nil {
			faults = append(faults, fmt.Errorf("actions.json: %w", err))
		}
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	return reg.Only(picked...)
}

// without is reg without the actions that the words exclude. Each has to exclude
// something: else it is misspelt.
func without(reg *actions.Registry, words []string) (*actions.Registry, error) {
	if len(words) == 0 {
		return reg, nil
	}
	var faults []error
	for _, word := range words {
		if !slices.ContainsFunc(reg.All(), func(a *actions.Action) bool { return excludes(word, a.Name) }) {
			faults = append(faults, fmt.Errorf("Exclude: there is no action %q%s", word, plan.Suggest(word, reg)))
		}
	}
	var kept []actions.Offer
	for _, a := range reg.All() {
		if !slices.ContainsFunc(words, func(word string) bool { return excludes(word, a.Name) }) {
			kept = append(kept, actions.Offer{Name: a.Name})
		}
	}
	rest, err := reg.Only(kept...)
	return rest, errors.Join(append(faults, err)...)
}

// excludes reports whether a word of [SequenceConfig.Exclude] means an action.
func excludes(word, name string) bool {
	plugin, bare := splitPlugin(name)
	return strings.EqualFold(strings.ReplaceAll(word, ".", "-"), name) || strings.EqualFold(word, bare) || plugin != "" && strings.EqualFold(word, plugin)
}

// splitPlugin parts the name of an action into that of its plugin, "" for none,
// and its own.
func splitPlugin(name string) (plugin, bare string) {
	plugin, bare, found := strings.Cut(name, "-")
	if !found {
		return "", name
	}
	return plugin, bare
}

func checkOffer(o prompts.Offer, reg *actions.Registry) error {
	action, ok := reg.Lookup(o.Name)
	if !ok || action.Name != o.Name {
		return fmt.Errorf("there is no action %q%s", spelling.Clip(o.Name), plan.Suggest(o.Name, reg))
	}
	if o.Parameters == nil {
		return nil
	}
	var said jsonschema.Schema
	if err := json.Unmarshal(o.Parameters, &said); err != nil {
		return fmt.Errorf("action %s: parameters are no JSON Schema: %w", o.Name, err)
	}
	if err := agree(&said, action.Schema); err != nil {
		return fmt.Errorf("action %s: parameters: %w", o.Name, err)
	}
	return nil
}

// agree compares what a file says of parameters with the registered schema: their
// names, which of them are required, and the types that the file gives.
func agree(said, registered *jsonschema.Schema) error {
	var faults []string
	compare := func(what string, said, registered []string) {
		if !slices.Equal(said, registered) {
			faults = append(faults, fmt.Sprintf("%s %s, the action has %s", what, list(said), list(registered)))
		}
	}
	compare("names", slices.Sorted(maps.Keys(said.Properties)), slices.Sorted(maps.Keys(registered.Properties)))
	compare("required", slices.Sorted(slices.Values(said.Required)), slices.Sorted(slices.Values(registered.Required)))
	for _, name := range slices.Sorted(maps.Keys(said.Properties)) {
		mine, action := said.Properties[name], registered.Properties[name]
		if mine == nil || action == nil {
			continue
		}
		if have, want := plan.TypeText(mine), plan.TypeText(action); have != "any" && have != want {
			faults = append(faults, fmt.Sprintf("%s is %s, the action has %s", name, have, want))
		}
	}
	if len(faults) == 0 {
		return nil
	}
	return errors.New(strings.Join(faults, "; "))
}

func list(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// latest is what is made of a prompt, made anew when the library has another
// version of it. It is safe for concurrent use.
type latest[T any] struct {
	library *prompts.Library
	name    string
	make    func(context.Context, *prompts.Prompt) (T, error)

	mu   sync.Mutex
	made T
	seen *prompts.Prompt // the version that made is of, or that nothing could be made of
}

// newLatest makes it of the version that there is now.
func newLatest[T any](ctx context.Context, library *prompts.Library, name string, make func(context.Context, *prompts.Prompt) (T, error)) (*latest[T], error) {
	prompt, err := library.Prompt(name)
	if err != nil {
		return nil, err
	}
	made, err := make(ctx, prompt)
	if err != nil {
		return nil, err
	}
	return &latest[T]{library: library, name: name, make: make, made: made, seen: prompt}, nil
}

// get returns what counts for a turn that begins now. Of a version that cannot be
// used the fault is logged once, and what was made before stays.
func (l *latest[T]) get(ctx context.Context) T {
	l.library.Reload(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	prompt, err := l.library.Prompt(l.name)
	if prompt == l.seen {
		return l.made
	}
	l.seen = prompt
	var made T
	if err == nil {
		made, err = l.make(ctx, prompt)
	}
	if err != nil {
		zerolog.Ctx(ctx).Warn().Err(err).Msg("a changed prompt cannot be used, the one before stays")
		return l.made
	}
	l.made = made
	return made
}
