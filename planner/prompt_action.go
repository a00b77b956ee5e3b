package planner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/jsonschema-go/jsonschema"
	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner/plan"
	"github.com/planbot-go/planbot/prompts"
	"github.com/planbot-go/planbot/state"
)

// PromptActionConfig says what an action is made of whose function is a prompt: a
// semantic function of Semantic Kernel. Name, Model and Prompts are required.
type PromptActionConfig struct {
	Name string // of the action
	// Prompt is the name of the prompt in Prompts. "": Name.
	Prompt string
	// Description is what the model is told of the action. "": that of the
	// prompt's config.json; one of the two has to say something.
	Description string

	Model   models.Model
	Prompts *prompts.Library

	// Named and Functions are those of [SequenceConfig].
	Named     func(name string) (models.Model, error)
	Functions map[string]Function
	// MaxTokens bounds the model's answer, unless the prompt's config.json does.
	// 0: 2000.
	MaxTokens int
}

// AddPrompt registers an action whose function is a prompt. The fields of In, a
// struct as [actions.Add] wants it, are the prompt's variables: {{$name}}. {{$input}}
// is the field called input, or the only field there is. State is read as
// {{$user.name}} and {{$conversation.name}}.
//
// The rendered prompt goes to the model as the text of a user, without history, in
// the prompt's completion settings. With include_input it goes as that of the
// system, and the input as the user's; with include_history what was said before
// goes along. The answer is the result, and its cost counts for the turn. After an empty
// one the model is asked once more. When it gives none, the result is a failure with a reason that people may read,
// and the cause is logged. The action is marked as [actions.ReturnsData]. It is not
// [actions.StateOnly]: it changes nothing, but asking a model twice costs twice, so
// its result is kept for whoever goes on with a turn.
//
// It panics as [actions.Add] does, and when the prompt does not fit the action.
func AddPrompt[In any](reg *actions.Registry, cfg PromptActionConfig, opts ...actions.Option) *actions.Action {
	tasks, err := newPromptTasks(cfg, fieldNames(reflect.TypeFor[In]()))
	if err != nil {
		panic("planner: " + err.Error())
	}
	action := actions.Add(reg, cfg.Name, tasks.made.description, func(ctx context.Context, turn *actions.Turn, in In) (actions.Result, error) {
		inputs, err := inputsOf(in)
		if err != nil {
			return actions.Result{}, err
		}
		return tasks.get(ctx).run(ctx, turn, inputs)
	}, marked(opts)...)
	if action.Parallel {
		panic("planner: " + errParallel.Error() + ": " + cfg.Name)
	}
	return action
}

// errParallel: the turn counts what each call costs, one after the other.
var errParallel = errors.New("a prompt action cannot run in parallel")

// fieldNames are the names that the exported fields of struct t have in JSON.
func fieldNames(t reflect.Type) []string {
	if t.Kind() != reflect.Struct {
		return nil // actions.Add says so
	}
	var names []string
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.IsExported() && !f.Anonymous && name != "-" {
			names = append(names, cmp.Or(name, f.Name))
		}
	}
	return names
}

// inputsOf are the fields of a struct as JSON, by name.
func inputsOf(in any) (map[string]any, error) {
	raw, err := json.Marshal(in, json.Deterministic(true), json.WithMarshalers(json.MarshalToFunc(writeDuration)))
	if err != nil {
		return nil, fmt.Errorf("write the inputs as JSON: %w", err)
	}
	var values map[string]jsontext.Value
	if err := json.Unmarshal(raw, &values); err != nil {
		return nil, fmt.Errorf("read the inputs: %w", err)
	}
	inputs := make(map[string]any, len(values))
	for name, value := range values {
		inputs[name] = value
	}
	return inputs, nil
}

// writeDuration writes a duration as [actions.Add] reads it.
func writeDuration(enc *jsontext.Encoder, d time.Duration) error {
	return enc.WriteToken(jsontext.String(d.String()))
}

// marked puts the marks of all prompt actions before those of one.
func marked(opts []actions.Option) []actions.Option {
	return append([]actions.Option{actions.ReturnsData}, opts...)
}

// promptTask is the function of a prompt action.
type promptTask struct {
	modelPrompt
	description string
	main        string // the parameter that is {{$input}}; "": none
}

// newPromptTasks checks cfg, and a prompt against an action with these parameters.
func newPromptTasks(cfg PromptActionConfig, parameters []string) (*latest[*promptTask], error) {
	if err := cfg.check(); err != nil {
		return nil, fmt.Errorf("prompt action %s: %w", cfg.Name, err)
	}
	tasks, err := newLatest(context.Background(), cfg.Prompts, cmp.Or(cfg.Prompt, cfg.Name), func(_ context.Context, prompt *prompts.Prompt) (*promptTask, error) {
		return newPromptTask(cfg, prompt, parameters)
	})
	if err != nil {
		return nil, fmt.Errorf("prompt action %s: %w", cfg.Name, err)
	}
	return tasks, nil
}

func newPromptTask(cfg PromptActionConfig, prompt *prompts.Prompt, parameters []string) (*promptTask, error) {
	t := &promptTask{
		modelPrompt: modelPrompt{
			prompt: prompt, model: cfg.Model, functions: cfg.Functions,
			maxTokens: cmp.Or(cfg.MaxTokens, 2000), counter: cfg.Prompts.Counter(),
		},
		description: cmp.Or(cfg.Description, prompt.Config.Description),
	}
	if slices.Contains(parameters, "input") || len(parameters) == 1 {
		t.main = parameters[max(0, slices.Index(parameters, "input"))]
	}
	if err := errors.Join(t.checkUse(parameters), t.checkTemplate(), t.checkInputs(parameters), t.nameModel(cfg.Named)); err != nil {
		return nil, fmt.Errorf("prompt %s: %w", prompt.Name(), err)
	}
	return t, nil
}

func (c *PromptActionConfig) check() error {
	var faults []error
	if c.Model == nil {
		faults = append(faults, errors.New("no Model"))
	}
	if c.Prompts == nil {
		faults = append(faults, errors.New("no Prompts"))
	}
	if c.MaxTokens < 0 {
		faults = append(faults, errors.New("MaxTokens is negative"))
	}
	return errors.Join(faults...)
}

// checkUse finds settings that contradict an action or have no effect with it.
func (t *promptTask) checkUse(parameters []string) error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf("config.json: "+format, args...)) }
	config, c := &t.prompt.Config, &t.prompt.Config.Completion
	if t.description == "" {
		fault("no description: the model could not know what the action is for")
	}
	if a := config.Augmentation; a != "" && a != prompts.AugmentNone {
		fault("augmentation_type %s: a prompt that is an action gives text, say none", a)
	}
	if c.ToolChoice != "" || c.ParallelCalls != nil {
		fault("tool_choice and parallel_tool_calls have no effect in a prompt that is an action")
	}
	if wanted(c.IncludeInput) && t.main == "" {
		fault("include_input is true, but no parameter is called input")
	}
	if config.Input != nil && !slices.Equal(sorted(inputNames(config.Input)), sorted(parameters)) {
		fault("input.parameters are %s, the action has %s", list(inputNames(config.Input)), list(parameters))
	}
	if t.prompt.Actions != nil {
		faults = append(faults, errors.New("actions.json has no effect in a prompt that is an action"))
	}
	return errors.Join(faults...)
}

// checkInputs finds variables that are no parameters.
func (t *promptTask) checkInputs(parameters []string) error {
	var faults []error
	for _, variable := range t.prompt.Variables() {
		name, temp := strings.CutPrefix(variable, "temp.")
		if temp && !slices.Contains(parameters, name) && (name != "input" || t.main == "") {
			faults = append(faults, fmt.Errorf("$%s is no parameter of the action, which has %s", name, list(parameters)))
		}
	}
	return errors.Join(faults...)
}

// run renders the prompt and asks the model.
func (t *promptTask) run(ctx context.Context, turn *actions.Turn, inputs map[string]any) (actions.Result, error) {
	if value, ok := inputs[t.main]; ok {
		inputs["input"] = value
	}
	in, err := t.assemble(ctx, turn, inputs)
	if err != nil {
		return actions.Result{}, err
	}
	answer, err := t.answer(ctx, turn, in)
	switch {
	case err == nil && answer.Text == "":
		return actions.Fail("the AI model had no answer"), nil
	case err == nil:
	case ctx.Err() != nil:
		return actions.Result{}, err
	default:
		zerolog.Ctx(ctx).Warn().Err(err).Str("prompt", t.prompt.Name()).Msg("model gave a prompt action no answer")
		return actions.Fail("%s", whyNoAnswer(err)), nil
	}
	if answer.Finish == models.FinishLength {
		answer.Text += " […]" // so that nobody takes its end for the end
	}
	return actions.Text("%s", answer.Text), nil
}

// answer is the model's, trimmed. A model that has none is asked once more.
func (t *promptTask) answer(ctx context.Context, turn *actions.Turn, in prompts.AssembleInput) (answer models.Response, err error) {
	for tries := 0; tries < 2 && answer.Text == "" && err == nil; tries++ {
		var said *models.Response
		if said, err = t.ask(ctx, turn, in, nil); err == nil {
			answer = *said
			answer.Text = strings.TrimSpace(said.Text)
		}
	}
	return answer, err
}

// assemble is what the model is told.
func (t *promptTask) assemble(ctx context.Context, turn *actions.Turn, inputs map[string]any) (in prompts.AssembleInput, err error) {
	text, err := t.render(ctx, turn, inputs)
	if err != nil {
		return in, err
	}
	in.Input = text
	if completion := &t.prompt.Config.Completion; wanted(completion.IncludeInput) {
		in.System = text
		if in.Input, err = prompts.Format(inputs["input"]); err != nil {
			return in, err
		}
	}
	if wanted(t.prompt.Config.Completion.IncludeHistory) {
		history := state.Of[prompts.History](turn.Thread).Retold(spoken)
		in.History = func(budget int) []prompts.Message {
			return history.Within(min(budget, defaultHistoryTokens), t.counter)
		}
	}
	return in, nil
}

// spoken is what the bot said in a turn, from what the history keeps of it.
func spoken(transcript string) string {
	commands, ok := plan.ReadTranscript(transcript)
	if !ok && strings.HasPrefix(transcript, `{"type":"plan"`) {
		return tooLong // the history has cut it
	}
	if !ok {
		return transcript
	}
	var said []string
	for _, c := range commands {
		if c.Kind == plan.Say {
			said = append(said, c.Response)
		}
	}
	return strings.Join(said, "\n")
}

// whyNoAnswer says it in words that the model and the person may read.
func whyNoAnswer(err error) string {
	if budget, ok := errors.AsType[*actions.BudgetError](err); ok {
		return budget.Error()
	}
	fault, ok := errors.AsType[*models.Error](err)
	if !ok {
		return "the AI model could not be asked"
	}
	switch fault.Kind {
	case models.Throttled:
		return "the AI model is too busy right now"
	case models.TooLong:
		return "the text is too long for the AI model"
	case models.FilteredInput, models.FilteredOutput:
		return "the content filter of the AI model refused it"
	case models.Timeout:
		return "the AI model did not answer in time"
	default:
		return "the AI model could not be asked"
	}
}

// wanted says whether something that is not told by default is.
func wanted(setting *bool) bool { return setting != nil && *setting }

func sorted(names []string) []string { return slices.Sorted(slices.Values(names)) }

// AddPromptFolders adds an action for each prompt whose config.json has an input, named as
// its folder: [AddPrompt] without a Go type. The action's parameters, all of them texts, are
// the input.parameters of the config.json. The Name, Prompt and Description of cfg are not
// looked at. The error lists everything that is wrong with any of them; then a stand-in has
// the name, so that who else names the action can be checked too.
func AddPromptFolders(reg *actions.Registry, cfg PromptActionConfig, opts ...actions.Option) error {
	if err := cfg.check(); err != nil {
		return fmt.Errorf("prompt actions: %w", err)
	}
	var faults []error
	for _, name := range cfg.Prompts.Names() {
		prompt, err := cfg.Prompts.Prompt(name)
		if err == nil && prompt.Config.Input != nil {
			cfg.Name, cfg.Prompt, cfg.Description = name, name, ""
			err = addPromptFolder(reg, cfg, prompt.Config.Input, opts)
		}
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}

func addPromptFolder(reg *actions.Registry, cfg PromptActionConfig, inputs []prompts.Input, opts []actions.Option) error {
	description := ""
	tasks, fault := newPromptTasks(cfg, inputNames(inputs))
	if fault == nil {
		description = tasks.made.description
	}
	run := func(ctx context.Context, turn *actions.Turn, entities map[string]any) (actions.Result, error) {
		if fault != nil {
			return actions.Result{}, fault
		}
		values := make(map[string]any, len(inputs))
		for _, in := range inputs {
			if value, ok := entities[in.Name]; ok {
				values[in.Name] = value
			}
		}
		return tasks.get(ctx).run(ctx, turn, values)
	}
	action, err := actions.AddSchema(reg, cfg.Name, description, schemaOf(inputs), run, marked(opts)...)
	if err == nil && action.Parallel {
		err = fmt.Errorf("%w: %s", errParallel, cfg.Name)
	}
	return errors.Join(fault, err)
}

func schemaOf(inputs []prompts.Input) *jsonschema.Schema {
	schema := &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{}}
	for _, in := range inputs {
		property := &jsonschema.Schema{Type: "string", Description: in.Description}
		if in.Default != "" {
			property.Default, _ = json.Marshal(in.Default) // a text always can be
		}
		if in.Required {
			schema.Required = append(schema.Required, in.Name)
		}
		schema.Properties[in.Name] = property
		schema.PropertyOrder = append(schema.PropertyOrder, in.Name)
	}
	return schema
}

func inputNames(inputs []prompts.Input) []string {
	names := make([]string, len(inputs))
	for i, in := range inputs {
		names[i] = in.Name
	}
	return names
}
