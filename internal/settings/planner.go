package settings

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/internal/entra"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner"
	"github.com/planbot-go/planbot/planner/plan"
	"github.com/planbot-go/planbot/prompts"
	"github.com/planbot-go/planbot/state"
)

// Planner is the planner that the settings describe, with its parts.
type Planner struct {
	promptMaker
	Actions    *actions.Registry
	Extensions []actions.Extension
	AboutModel string
}

// Find returns the last extension that is a T; nil if none is.
func Find[T any](all []actions.Extension) (found T) {
	for _, e := range all {
		if one, is := e.(T); is {
			found = one
		}
	}
	return found
}

// promptMaker is a planner that can show its prompt.
type promptMaker interface {
	Plan(ctx context.Context, turn *actions.Turn) (plan.Plan, error)
	Messages(ctx context.Context, turn *actions.Turn) ([]models.Message, error)
	Summarize(ctx context.Context, turn *actions.Turn, keep int) (summary string, of int, err error)
	Sees(ctx context.Context) bool
}

// Fault is a mistake in the settings that shows up only in use.
type Fault struct{ Err error }

func (f Fault) Error() string { return f.Err.Error() }

// Unwrap is the mistake.
func (f Fault) Unwrap() error { return f.Err }

// NewPlanner makes the planner with these actions plus those from the settings.
func (s *Settings) NewPlanner(ctx context.Context, acts *actions.Registry, watch Watch) (p *Planner, err error) {
	if err := acts.Check(); err != nil {
		return nil, Fault{err}
	}
	p = &Planner{Actions: acts}
	cfg := planner.Config{Actions: acts, HistoryTokens: s.HistoryTokens, Sees: s.ModelSees, Watch: watch.Planner}
	if cfg.Model, p.AboutModel, err = s.NewModel(watch); err != nil {
		return nil, err
	}
	cfg.Named = func(name string) (models.Model, error) {
		named := *s
		named.OpenAIModel, named.AzureDeployment = name, name
		model, _, err := named.NewModel(watch)
		return model, err
	}
	if err := s.Complete(ctx, &cfg); err != nil {
		return nil, err
	}
	p.Extensions = cfg.Extensions
	if p.promptMaker, err = newPlanner(ctx, s.Planner, cfg); err != nil {
		return nil, s.ofPrompts(err)
	}
	return p, nil
}

// Complete adds to a planner's config and actions what the settings and features say: prompts, extensions, and
// prompt actions.
func (s *Settings) Complete(ctx context.Context, cfg *planner.Config) (err error) {
	if cfg.Prompts, err = s.loadPrompts(); err != nil {
		return Fault{fmt.Errorf("BOT_PROMPTS_DIR: %w", err)}
	}
	if s.PromptsReload && !s.Frozen {
		cfg.Prompts.Watch()
	}
	cfg.Prompt, cfg.ResponseFormat = cfg.Prompts.For(s.Planner), s.ResponseFormat
	cfg.Functions, cfg.Counter = s.Bot.Functions, s.Bot.Counter
	if cfg.Instructions, err = s.Instructions(); err != nil {
		return Fault{err}
	}
	for _, p := range s.Parts {
		for _, add := range []func(context.Context, *Settings, *planner.Config) error{p.Plan, p.Extend} {
			if add == nil {
				continue
			}
			if err := add(ctx, s, cfg); err != nil {
				return err
			}
		}
	}
	return s.ofPrompts(planner.AddPromptFolders(cfg.Actions, *cfg))
}

// Registry returns the actions that the bot runs with: those of the program, of skills, of prompts and, after
// [Settings.Connect], of services. The error is a [Fault].
func (s *Settings) Registry(ctx context.Context) (*actions.Registry, error) {
	registry := s.Actions()
	if err := registry.Check(); err != nil {
		return nil, Fault{err}
	}
	cfg := planner.Config{
		Actions: registry, Model: models.Offline{},
		Named: func(string) (models.Model, error) { return models.Offline{}, nil },
	}
	if err := s.Complete(ctx, &cfg); err != nil {
		return nil, Fault{err}
	}
	return registry, nil
}

// PromptNames are the names of the prompts that are actions.
func (s *Settings) PromptNames() (names []string, err error) {
	library, err := s.loadPrompts()
	if err != nil {
		return nil, Fault{err}
	}
	for _, name := range library.Names() {
		if p, err := library.Prompt(name); err == nil && p.Config.Input != nil {
			names = append(names, name)
		}
	}
	return names, nil
}

// Connect makes the bot's connections, for planners that are made after it. In local mode their locks accept
// what a service shows first. It is an error of whoever set the bot up. Call close at the end; it waits for them.
func (s *Settings) Connect(ctx context.Context) (closeAll func(), err error) {
	if s.Bot.Connections == nil {
		return func() {}, nil
	}
	all, err := s.Bot.Connections(ctx, s.Count)
	if err == nil && slices.Contains(all, nil) {
		err = errors.New("app.Bot.Connections: one of them is nil")
	}
	if err != nil {
		return nil, Fault{err}
	}
	if s.AppID == "" && !s.Proven { // local mode
		for _, c := range all {
			if locked, ok := c.(interface{ AcceptFirst() }); ok {
				locked.AcceptFirst()
			}
		}
	}
	s.Connected = all
	return func() {
		var closing sync.WaitGroup
		for _, c := range all {
			closing.Go(c.Close)
		}
		closing.Wait()
	}, nil
}

const listTime = 15 * time.Second // limits how long a service may take to say what it has

// Service is what a service has.
type Service struct {
	actions.Connection

	Has []actions.Listed
	Err error // why it cannot be told
}

// List asks services at the same time.
func List(ctx context.Context, all []actions.Connection) []Service {
	ctx, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()
	services := make([]Service, len(all))
	var asking sync.WaitGroup
	for i, c := range all {
		asking.Go(func() {
			has, err := listOf(ctx, c)
			services[i] = Service{c, has, err}
		})
	}
	asking.Wait()
	return services
}

func listOf(ctx context.Context, c actions.Connection) (all []actions.Listed, err error) {
	if c, ok := c.(actions.Lister); ok {
		return c.List(ctx)
	}
	names, note := c.Offer(ctx, Turn(""))
	for _, name := range names {
		if a, ok := c.Actions().Lookup(name); ok {
			all = append(all, actions.Listed{Remote: a.Source.Remote, Name: name})
		}
	}
	if len(all) == 0 && note != "" {
		err = errors.New(note)
	}
	return all, err
}

// Turn is a turn of nobody, in which somebody says that.
func Turn(said string) *actions.Turn {
	a := &activity.Activity{Type: activity.Message, ChannelID: "console", Text: said}
	temp := state.NewScope()
	return &actions.Turn{ID: "plan", Activity: a, Text: a.Said(), Conversation: temp, Thread: temp, User: temp, Temp: temp}
}

func (s *Settings) loadPrompts() (*prompts.Library, error) {
	if s.PromptsDir == "" && s.Bot.Prompts != nil {
		return prompts.LoadFS(s.Bot.Prompts, "prompts")
	}
	return prompts.Load(s.PromptsDir)
}

// ofPrompts marks err as a fault of the configured prompts, if any are configured.
func (s *Settings) ofPrompts(err error) error {
	if err != nil && s.PromptsDir != "" {
		return Fault{fmt.Errorf("BOT_PROMPTS_DIR %s: %w", s.PromptsDir, err)}
	}
	return err
}

func newPlanner(ctx context.Context, name string, cfg planner.Config) (promptMaker, error) {
	switch name {
	case sequential:
		return planner.NewSequential(ctx, cfg)
	case tools:
		return planner.NewTools(ctx, cfg)
	}
	return planner.NewSequence(ctx, cfg)
}

// Watch observes the models and the planner. The zero value observes nothing.
type Watch struct {
	Planner func(planner.Event)
	Calls   func(outcome string, took time.Duration, usage models.Usage)
	Model   func(models.Model) models.Model
	Count   func(metric, label string) // of what actions of services are used for
}

// Nest returns what observes a model behind inner; nil: nothing does.
func Nest(outer, inner func(models.Model) models.Model) func(models.Model) models.Model {
	if inner == nil {
		return outer
	}
	if outer == nil {
		return inner
	}
	return func(m models.Model) models.Model { return outer(inner(m)) }
}

// NewModel makes the first model with the others as fallbacks, each on its server, and describes
// it.
func (s *Settings) NewModel(watch Watch) (model models.Model, about string, err error) {
	configs := s.modelConfigs()
	if configs == nil {
		model = models.Offline{}
		about = "offline, answers the phrases of the actions (set OPENAI_API_KEY, OPENAI_BASE_URL or AZURE_OPENAI_ENDPOINT for a real one)"
	} else {
		cfg := &models.Chain{Retries: cmp.Or(s.ModelRetries, -1), MaxWait: s.ModelMaxWait, Observe: watch.Calls} // zero means the default there
		if s.ModelPrice != nil {
			cfg.Price = s.Price()
		}
		for _, each := range configs {
			server, err := models.NewOpenAI(each)
			if err != nil {
				return nil, "", fmt.Errorf("model %s: %w", each, err)
			}
			cfg.Models = append(cfg.Models, server)
		}
		model = cfg
		about = strings.Join(append([]string{configs[0].String()}, s.FallbackModels...), ", then ")
	}
	if watch.Model != nil {
		model = watch.Model(model)
	}
	return model, about, nil
}

// Transcriber makes what writes down voice messages; nil: nothing does.
func (s *Settings) Transcriber() (*models.Transcriber, error) {
	configs := s.modelConfigs()
	if s.TranscribeModel == "" || configs == nil {
		return nil, nil //nolint:nilnil // nobody asked for one
	}
	cfg := configs[0]
	cfg.Model, cfg.AzureDeployment = s.TranscribeModel, s.TranscribeModel
	return models.NewTranscriber(cfg)
}

// EntraID reports whether the first model takes the process's Microsoft Entra identity instead of a
// key.
func (s *Settings) EntraID() bool { return s.AzureEndpoint != "" && s.AzureKey == "" }

// modelConfigs returns the configs of the models, in the order in which they are asked; none if no
// real model is set. A key is only sent to the server that it was set for.
func (s *Settings) modelConfigs() []models.OpenAIConfig {
	if s.OpenAIKey == "" && s.OpenAIBaseURL == "" && s.AzureEndpoint == "" {
		return nil
	}
	all := models.OpenAIConfig{
		Stream: s.ModelStream, MaxTokensField: s.MaxTokensField, ReasoningEffort: s.ReasoningEffort, SystemMessages: s.SystemMessages,
	}
	cfg := all
	cfg.Key, cfg.BaseURL, cfg.Model = s.OpenAIKey, s.OpenAIBaseURL, s.OpenAIModel
	cfg.AzureEndpoint, cfg.AzureKey = s.AzureEndpoint, s.AzureKey
	cfg.AzureDeployment, cfg.AzureVersion = s.AzureDeployment, s.AzureVersion
	if s.EntraID() {
		cfg.AzureToken, _ = entra.Token(s.Cloud, nil) // Check reports the error
	}
	configs := []models.OpenAIConfig{cfg}
	if s.FallbackBaseURL != "" || s.FallbackKey != "" {
		cfg = all
		cfg.Key, cfg.BaseURL = s.FallbackKey, s.FallbackBaseURL
	}
	for _, name := range s.FallbackModels {
		cfg.Model = name
		if cfg.AzureEndpoint != "" {
			cfg.Model, cfg.AzureDeployment = s.OpenAIModel, name
		}
		configs = append(configs, cfg)
	}
	return configs
}

// Against returns the settings with some replaced, each as NAME=VALUE; an empty value unsets one. A
// key stays with the server that it was set for, and a price with its model. The error is a
// [Fault].
func (s *Settings) Against(assignments []string) (*Settings, error) {
	other := s.clone()
	given, faults := other.assign(assignments)
	is := other.keys()
	for i, key := range s.keys() {
		mine, its := origin(key.server), origin(is[i].server)
		if !given[key.name] && key.value != "" && its != "" && mine != its { // "": it is not sent anywhere, or the address is invalid
			faults.add("--against", "the %s that is set is for %s, and is not sent to %s: add --against %s=…, with nothing behind the = where there is none",
				key.name, mine, its, key.name)
		}
	}
	if err := errors.Join(faults...); err != nil {
		return nil, Fault{err}
	}
	if err := other.Check(); err != nil {
		return nil, Fault{fmt.Errorf("the settings of --against have to be changed:\n%w", err)}
	}
	sameModel := func(a, b models.OpenAIConfig) bool {
		return a.AzureEndpoint == b.AzureEndpoint && a.String() == b.String()
	}
	if !given["BOT_MODEL_PRICE"] && !slices.EqualFunc(s.modelConfigs(), other.modelConfigs(), sameModel) {
		other.ModelPrice = nil
	}
	return other, nil
}

// assign applies the assignments, and returns the names that were set.
func (s *Settings) assign(assignments []string) (given map[string]bool, faults faults) {
	given = map[string]bool{}
	changesPlans := regexp.MustCompile(`^(?:OPENAI_|AZURE_OPENAI_|BOT_(?:FALLBACK_|MODEL|REASONING_|MAX_TOKENS_FIELD|PLANNER|RESPONSE_FORMAT|INSTRUCTIONS_|PROMPTS_|SKILLS_))`)
	for _, each := range assignments {
		name, text, ok := strings.Cut(each, "=") // the text may be a secret
		field, value := s.field(name)
		switch {
		case !ok || field.Name == "":
			faults.add("--against", "%q is no setting and its value, such as OPENAI_MODEL=…", name)
			continue
		case !changesPlans.MatchString(name):
			faults.add("--against", "%s changes no plan: it is not a setting of models, prompts, skills or the planner", name)
		case given[name]:
			faults.add("--against", "%s is given twice", name)
		}
		given[name] = true
		s.set(name, text, field.Tag, value)
	}
	return given, faults
}

// serverKey is a key, and the server that it is sent to.
type serverKey struct{ name, value, server string }

func (s *Settings) keys() []serverKey {
	return []serverKey{
		{"OPENAI_API_KEY", s.OpenAIKey, cmp.Or(s.OpenAIBaseURL, openAI)},
		{"AZURE_OPENAI_API_KEY", s.AzureKey, s.AzureEndpoint},
		{"BOT_FALLBACK_API_KEY", s.FallbackKey, cmp.Or(s.FallbackBaseURL, openAI)},
	}
}

// openAI is the server for keys if no other is set.
const openAI = "https://api.openai.com"

// origin is the server of an address, "" if it has none.
func origin(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" {
		return ""
	}
	port := cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	return u.Scheme + "://" + net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

// Read reads the settings of a bot from the environment and from flags, and checks them.
func Read(b Bot, flags ...string) (*Settings, error) {
	s := &Settings{Bot: b}
	return s, s.Read(flags...)
}

// Read sets the settings to what flags and the environment say, and checks them.
func (s *Settings) Read(flags ...string) error {
	set := pflag.NewFlagSet("settings", pflag.ContinueOnError)
	s.AddFlags(set)
	if err := set.Parse(flags); err != nil {
		return err
	}
	s.Load()
	return s.Check()
}

// Declared is the output of `bot actions --json`, for tools that do not know the bot's code.
type Declared struct {
	Actions      json.RawMessage `json:"actions"` // in the form of Teams AI's actions.json
	PromptsDir   string          `json:"promptsDir,omitempty"`
	Instructions string          `json:"instructions,omitempty"`
}

// ReadActions reads the actions in a file: in the form of Teams AI's actions.json, or [Declared].
// Its prompts and instructions are used if no others are set. The error is a [Fault].
func (s *Settings) ReadActions(file string) (*actions.Registry, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, Fault{err}
	}
	declared := Declared{Actions: data}
	if trimmed := bytes.TrimSpace(data); bytes.HasPrefix(trimmed, []byte("{")) {
		if err := json.Unmarshal(trimmed, &declared); err != nil {
			return nil, Fault{fmt.Errorf("%s: %w", file, err)}
		}
	}
	s.PromptsDir = cmp.Or(s.PromptsDir, declared.PromptsDir)
	s.Bot.Instructions = cmp.Or(declared.Instructions, s.Bot.Instructions)
	registry, err := actions.Read(bytes.NewReader(declared.Actions))
	if err != nil {
		return nil, Fault{fmt.Errorf("%s: %w", file, err)}
	}
	return registry, nil
}

// Embedder makes the embedding model of BOT_EMBEDDING_MODEL. A key is only sent to the server that it was
// set for.
func (s *Settings) Embedder() (*models.Embedder, error) {
	model, base, key := s.Text("BOT_EMBEDDING_MODEL"), s.Text("BOT_EMBEDDING_BASE_URL"), s.Text("BOT_EMBEDDING_API_KEY")
	dimensions, _ := strconv.Atoi(s.Text("BOT_EMBEDDING_DIMENSIONS")) // 0: the default
	cfg := models.EmbedderConfig{Dimensions: dimensions, Retries: cmp.Or(s.ModelRetries, -1), MaxWait: s.ModelMaxWait}
	switch {
	case base != "" || key != "":
		cfg.Server = models.OpenAIConfig{Key: key, BaseURL: base}
	case s.AzureEndpoint != "":
		cfg.Server = models.OpenAIConfig{
			AzureEndpoint: s.AzureEndpoint, AzureKey: s.AzureKey, AzureVersion: s.AzureVersion, AzureDeployment: model,
		}
		if s.EntraID() {
			cfg.Server.AzureToken, _ = entra.Token(s.Cloud, nil) // Check reports the error
		}
	default:
		cfg.Server = models.OpenAIConfig{Key: s.OpenAIKey, BaseURL: s.OpenAIBaseURL}
	}
	cfg.Server.Model = model
	return models.NewEmbedder(cfg)
}
