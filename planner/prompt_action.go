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
)

// AddPrompt registers an action that is a prompt: a semantic function of Semantic Kernel. The
// fields of In, a struct as for [actions.Add], are the prompt's variables: {{$name}}. {{$input}} is
// the field called input, or the only field. The prompt reads state as {{$user.name}} and
// {{$conversation.name}}.
//
// It needs Model and Prompts of cfg, and reads Prompt (the name of the prompt; "": that of the
// action), Named, Functions, Watch and MaxTokens. An empty description means the one in the prompt's
// config.json; one of the two must be set.
//
// The rendered prompt goes to the model as a user message, without history, with the prompt's
// completion settings. With include_input it goes as the system message, and the input as the user
// message; with include_history the history goes along. The answer is the result, and its cost
// counts toward the turn. After an empty answer the model is asked once more. If it gives none, the
// result is a failure with a reason fit for people, and the cause is logged. The action is marked
// as [actions.ReturnsData]. It is not [actions.StateOnly]: it changes nothing, but asking a model
// twice costs twice, so its result is saved for a replica that resumes the turn.
//
// It panics as [actions.Add] does, and if the prompt does not fit the action.
func AddPrompt[In any](reg *actions.Registry, name, description string, cfg Config, opts ...actions.Option) *actions.Action {
	tasks, err := newPromptTasks(name, description, cfg, fieldNames(reflect.TypeFor[In]()))
	if err != nil {
		panic("planner: " + err.Error())
	}
	return actions.Add(reg, name, tasks.made.description, func(ctx context.Context, turn *actions.Turn, in In) (actions.Result, error) {
		inputs, err := inputsOf(in)
		if err != nil {
			return actions.Result{}, err
		}
		return tasks.get(ctx).run(ctx, turn, inputs)
	}, promptOptions(opts)...)
}

// promptOptions adds the marks of a prompt action. It never runs in parallel: the turn adds up costs
// one call at a time.
func promptOptions(opts []actions.Option) []actions.Option {
	return slices.Concat([]actions.Option{actions.ReturnsData}, opts, []actions.Option{func(a *actions.Action) { a.Parallel = false }})
}

func fieldNames(t reflect.Type) []string {
	if t.Kind() != reflect.Struct {
		return nil // actions.Add reports it
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

// inputsOf returns the fields of a struct as JSON, by name.
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

// writeDuration writes a duration in the form that [actions.Add] reads.
func writeDuration(enc *jsontext.Encoder, d time.Duration) error {
	return enc.WriteToken(jsontext.String(d.String()))
}

// promptTask is the function of a prompt action.
type promptTask struct {
	modelPrompt
	parts       []prompts.Part // the messages of the prompt
	description string
	main        string // the parameter that is {{$input}}; "": none
}

// newPromptTasks checks cfg, and a prompt against an action with these parameters.
func newPromptTasks(name, description string, cfg Config, parameters []string) (*latest[*promptTask], error) {
	cfg.MaxTokens, cfg.HistoryTokens = cmp.Or(cfg.MaxTokens, defaultMaxTokens), defaultHistoryTokens
	err := checkTasks(&cfg)
	var tasks *latest[*promptTask]
	if err == nil {
		tasks, err = newLatest(context.Background(), cfg.Prompts, cmp.Or(cfg.Prompt, name), func(prompt *prompts.Prompt) (*promptTask, error) {
			return newPromptTask(description, &cfg, prompt, parameters)
		})
	}
	if err != nil {
		return nil, fmt.Errorf("prompt action %s: %w", name, err)
	}
	return tasks, nil
}

func newPromptTask(description string, cfg *Config, prompt *prompts.Prompt, parameters []string) (*promptTask, error) {
	t := &promptTask{
		modelPrompt: modelPrompt{prompt: prompt, cfg: cfg},
		description: cmp.Or(description, prompt.Config.Description),
	}
	if at := slices.IndexFunc(parameters, isInput); at >= 0 || len(parameters) == 1 {
		t.main = parameters[max(0, at)]
	}
	parts, markup := prompt.Chat()
	if parts == nil {
		role := "user"
		if wanted(prompt.Config.IncludeInput) {
			role = "system"
		}
		parts = []prompts.Part{{Role: role, Prompt: prompt}}
	}
	t.parts = parts
	if err := errors.Join(markup, t.checkUse(parameters), t.checkTemplate(), t.checkInputs(parameters), t.nameModel()); err != nil {
		return nil, fmt.Errorf("prompt %s: %w", prompt.Name(), err)
	}
	return t, nil
}

func checkTasks(c *Config) error {
	return errors.Join(
		faultIf(c.Model == nil, "no Model"),
		faultIf(c.Prompts == nil, "no Prompts"),
		faultIf(c.MaxTokens < 0, "MaxTokens is negative"),
	)
}

// checkUse reports settings that contradict an action or have no effect with it.
func (t *promptTask) checkUse(parameters []string) error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf("config.json: "+format, args...)) }
	c := &t.prompt.Config
	if t.description == "" {
		fault("no description: the model could not know what the action is for")
	}
	if a := c.Augmentation; a != "" && a != "none" {
		fault("augmentation_type %s: a prompt that is an action gives text, say none", a)
	}
	if c.ToolChoice != "" || c.ParallelCalls != nil {
		fault("tool_choice and parallel_tool_calls have no effect in a prompt that is an action")
	}
	if len(c.DataSources) > 0 {
		fault("augmentation.data_sources are for the prompt of a planner, this one is an action")
	}
	if wanted(c.IncludeInput) && t.main == "" {
		fault("include_input is true, but no parameter is called input")
	}
	if c.Input != nil && !slices.Equal(sorted(inputNames(c.Input)), sorted(parameters)) {
		fault("input.parameters are %s, the action has %s", list(inputNames(c.Input)), list(parameters))
	}
	if t.prompt.Actions != nil {
		faults = append(faults, errors.New("actions.json has no effect in a prompt that is an action"))
	}
	return errors.Join(faults...)
}

func (t *promptTask) checkInputs(parameters []string) error {
	var faults []error
	for _, variable := range t.prompt.Variables() {
		name, temp := strings.CutPrefix(variable, "temp.")
		isParameter := slices.ContainsFunc(parameters, func(p string) bool { return strings.EqualFold(p, name) })
		if temp && !isParameter && (!isInput(name) || t.main == "") {
			faults = append(faults, fmt.Errorf("$%s is no parameter of the action, which has %s", name, list(parameters)))
		}
	}
	return errors.Join(faults...)
}

// isInput reports whether a variable is the main input. As in Semantic Kernel, case does not matter in names.
func isInput(name string) bool { return strings.EqualFold(name, input) }

// inputOf is the input with that name; nil: there is none.
func inputOf(inputs map[string]any, name string) any {
	if value, ok := inputs[name]; ok {
		return value
	}
	for other, value := range inputs {
		if strings.EqualFold(other, name) {
			return value
		}
	}
	return nil
}

func (t *promptTask) run(ctx context.Context, turn *actions.Turn, inputs map[string]any) (actions.Result, error) {
	if value, ok := inputs[t.main]; ok {
		inputs[input] = value
	}
	var messages []models.Message
	for _, part := range t.parts {
		own := modelPrompt{prompt: part.Prompt, cfg: t.cfg}
		text, err := own.render(ctx, turn, inputs, nil)
		if err != nil {
			return actions.Result{}, err
		}
		if text != "" {
			messages = append(messages, models.Message{Role: part.Role, Text: text})
		}
	}
	answer, err := t.answer(ctx, turn, inputs, messages)
	switch {
	case err != nil && ctx.Err() != nil:
		return actions.Result{}, err
	case err != nil:
		zerolog.Ctx(ctx).Warn().Err(err).Str("prompt", t.prompt.Name()).Msg("model gave a prompt action no answer")
		return actions.Fail("%s", whyNoAnswer(err)), nil
	}
	said := strings.TrimSpace(answer.Text)
	switch {
	case answer.Model == (models.Offline{}).Name():
		return actions.Fail("this needs a language model, and the bot has none"), nil
	case said == "":
		return actions.Fail("the AI model had no answer"), nil
	case answer.Finish == "length":
		said += " […]" // so that its end is not taken for the end of the answer
	}
	return actions.Text("%s", said), nil
}

// answer asks the model, and once more after an empty answer.
func (t *promptTask) answer(ctx context.Context, turn *actions.Turn, inputs map[string]any, messages []models.Message) (*models.Response, error) {
	var in told
	name := "prompt" // of the section that comes last
	if wanted(t.prompt.Config.IncludeInput) {
		name = "person"
		in.opening = sections("prompt", messages...)
		text, err := prompts.Format(inputs[input])
		if err != nil {
			return nil, err
		}
		if messages = nil; text != "" {
			messages = []models.Message{{Role: "user", Text: text}}
		}
	}
	if wanted(t.prompt.Config.IncludeHistory) {
		in.summary, in.history = summaryOf(turn), historyOf(turn, spoken)
	}
	if pictures := t.pictures(turn); len(pictures) > 0 {
		if len(messages) == 0 || messages[len(messages)-1].Role != "user" {
			messages = append(messages, models.Message{Role: "user"})
		}
		messages[len(messages)-1].Pictures = pictures
	}
	in.ending = sections(name, messages...)
	request := t.request()
	all, err := t.fit(in, nil, nil)
	if err != nil {
		return nil, err
	}
	request.Messages = messagesOf(all)
	ask := func() (*models.Response, error) {
		if t.cfg.Watch != nil {
			t.cfg.see(turn.ID, Event{Asked: t.asked("action", all, request)})
		}
		began := time.Now()
		answer, err := complete(ctx, turn, t.model, request)
		seen := &Answered{Err: err, Took: time.Since(began)}
		if err == nil {
			seen.Response = answer
		}
		t.cfg.see(turn.ID, Event{Answered: seen})
		return answer, err
	}
	answer, err := ask()
	if err == nil && strings.TrimSpace(answer.Text) == "" {
		answer, err = ask()
	}
	return answer, err
}

// spoken returns what the bot said in a turn, from the stored history.
func spoken(transcript string) []models.Message {
	commands, text := readTranscript(transcript)
	said := []string{}
	for _, c := range commands {
		if c.Kind == plan.Say {
			said = append(said, c.Response)
		}
	}
	return []models.Message{{Role: "assistant", Text: cmp.Or(text, strings.Join(said, "\n"))}}
}

// whyNoAnswer explains it in words that the model and the person may read.
func whyNoAnswer(err error) string {
	if budget, ok := errors.AsType[*actions.BudgetError](err); ok {
		return budget.Error()
	}
	if fault, ok := errors.AsType[*models.Error](err); ok {
		switch fault.Kind {
		case models.Throttled:
			return "the AI model is too busy right now"
		case models.Quota:
			return "the account of the AI model is used up"
		case models.TooLong:
			return "the text is too long for the AI model"
		case models.Filtered:
			return "the content filter of the AI model refused it"
		case models.Timeout:
			return "the AI model did not answer in time"
		}
	}
	return "the AI model could not be asked"
}

// wanted reports whether an off-by-default setting is on.
func wanted(setting *bool) bool { return setting != nil && *setting }

// AddPromptFolders adds an action for each prompt whose config.json has an input, named after its
// folder: [AddPrompt] without a Go type. The action's parameters, all texts, are the
// input.parameters of config.json. The Prompt of cfg is ignored. The error lists every fault of any
// of them.
func AddPromptFolders(reg *actions.Registry, cfg Config, opts ...actions.Option) error {
	if err := checkTasks(&cfg); err != nil {
		return fmt.Errorf("prompt actions: %w", err)
	}
	var faults []error
	for _, name := range cfg.Prompts.Names() {
		prompt, err := cfg.Prompts.Prompt(name)
		if err == nil && prompt.Config.Input != nil {
			cfg.Prompt = name
			err = addPromptFolder(reg, name, cfg, prompt.Config.Input, opts)
		}
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}

func addPromptFolder(reg *actions.Registry, name string, cfg Config, inputs []prompts.Input, opts []actions.Option) error {
	tasks, err := newPromptTasks(name, "", cfg, inputNames(inputs))
	if err != nil {
		return err
	}
	run := func(ctx context.Context, turn *actions.Turn, entities map[string]any) (actions.Result, error) {
		values := make(map[string]any, len(inputs))
		for _, in := range inputs {
			if value, ok := entities[in.Name]; ok {
				values[in.Name] = value
			}
		}
		return tasks.get(ctx).run(ctx, turn, values)
	}
	_, err = actions.AddSchema(reg, name, tasks.made.description, schemaOf(inputs), run, promptOptions(opts)...)
	return err
}

func schemaOf(inputs []prompts.Input) *jsonschema.Schema {
	schema := &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{}}
	for _, in := range inputs {
		property := &jsonschema.Schema{Type: "string", Description: in.Description}
		if in.Default != "" {
			property.Default, _ = json.Marshal(in.Default) // cannot fail for a text
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
