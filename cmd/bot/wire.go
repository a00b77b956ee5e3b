package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/lists"
	"github.com/planbot-go/planbot/actions/reminders"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/connector"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner"
	"github.com/planbot-go/planbot/prompts"
	"github.com/planbot-go/planbot/skills"
	"github.com/planbot-go/planbot/state"
)

// app is the bot with everything that it is made of.
type app struct {
	config  config
	log     zerolog.Logger
	bot     *bot.Bot
	metrics *prometheus.Registry
	traces  *traces // nil: none
	store   *state.Redis
	closers []func()
	away    atomic.Bool                                              // the store was, when it was last asked for
	about   struct{ state, model, identity, skills, scripts string } // of skills only where there are
}

// examples are what the default bot's help offers to say.
func examples() []string {
	return []string{"What is on my lists?", "Create a grocery shopping list and add bananas to it.", "Remind me in 10 minutes to drink water."}
}

// defaultActions is the registry of the default bot.
func defaultActions() *actions.Registry {
	registry := actions.New()
	lists.Register(registry)
	reminders.Register(registry)
	return registry
}

// planMaker is a planner that can show its prompt.
type planMaker interface {
	bot.Planner
	Messages(ctx context.Context, turn *actions.Turn) ([]models.Message, error)
}

// parts are what plans need: actions, prompts, a model.
type parts struct {
	actions    *actions.Registry
	planner    planMaker
	model      models.Model
	aboutModel string
	skills     skillSet
	limits     limits
}

// newParts makes them, with these actions and what settings add to them. runner runs the scripts of skills; nil: nothing does.
func newParts(ctx context.Context, c config, acts *actions.Registry, runner skills.Runner) (*parts, error) {
	p := &parts{actions: acts, limits: c.limits}
	var err error
	if p.model, p.aboutModel, err = newModel(c); err != nil {
		return nil, err
	}
	cfg := planner.SequenceConfig{Model: p.model, Actions: p.actions, Named: c.modelNamed}
	if p.skills, err = c.complete(ctx, &cfg, runner); err != nil {
		return nil, err
	}
	if p.planner, err = newPlanner(ctx, c.Planner, cfg); err != nil {
		return nil, c.ofPrompts(err)
	}
	warnOfPrompts(ctx, c, cfg.Prompts)
	return p, nil
}

// complete adds to a planner, and to its actions, what settings say that makes its prompts:
// prompts, skills, and prompts that are actions.
func (c *config) complete(ctx context.Context, cfg *planner.SequenceConfig, runner skills.Runner) (set skillSet, err error) {
	load := prompts.Load
	if c.reload {
		load = prompts.Watch
	}
	if cfg.Prompts, err = load(c.PromptsDir); err != nil {
		return set, usageError{fmt.Errorf("BOT_PROMPTS_DIR: %w", err)}
	}
	cfg.ResponseFormat = planner.ResponseFormat(c.ResponseFormat)
	if set, err = newSkills(ctx, &c.skills, runner); err != nil {
		return set, err
	}
	if set.provider != nil {
		cfg.Extension = set.provider
		if err := set.provider.Register(cfg.Actions); err != nil {
			return set, err
		}
	}
	return set, c.ofPrompts(addPromptActions(*cfg))
}

// ofPrompts is a fault of the prompts that were set, where any were.
func (c *config) ofPrompts(err error) error {
	if err != nil && c.PromptsDir != "" {
		return usageError{fmt.Errorf("BOT_PROMPTS_DIR %s: %w", c.PromptsDir, err)}
	}
	return err
}

// addPromptActions adds the actions that are prompts to those of the planner.
func addPromptActions(cfg planner.SequenceConfig) error {
	return planner.AddPromptFolders(cfg.Actions, planner.PromptActionConfig{Model: cfg.Model, Prompts: cfg.Prompts, Named: cfg.Named})
}

// newPlanner makes the planner of that name, which was checked.
func newPlanner(ctx context.Context, name string, cfg planner.SequenceConfig) (planMaker, error) {
	switch name {
	case sequentialPlanner:
		return planner.NewSequential(ctx, planner.SequentialConfig(cfg))
	case toolsPlanner:
		return planner.NewTools(ctx, planner.ToolsConfig{SequenceConfig: cfg})
	default:
		return planner.NewSequence(ctx, cfg)
	}
}

// online reports whether a real model is set.
func (c *config) online() bool { return cmp.Or(c.OpenAIKey, c.OpenAIBaseURL, c.AzureEndpoint) != "" }

// firstModel says where the first model is.
func (c *config) firstModel() models.OpenAIConfig {
	cfg := models.OpenAIConfig{Key: c.OpenAIKey, BaseURL: c.OpenAIBaseURL, Model: c.OpenAIModel, Stream: c.stream}
	cfg.MaxTokensField, cfg.ReasoningEffort, cfg.SystemMessages = c.MaxTokensField, c.ReasoningEffort, c.SystemMessages
	if c.AzureEndpoint != "" {
		cfg.Azure = models.Azure{Endpoint: c.AzureEndpoint, Key: c.AzureKey, Deployment: c.AzureDeployment, APIVersion: c.AzureVersion}
	}
	return cfg
}

func newModel(c config) (model models.Model, about string, err error) {
	switch {
	case c.AzureEndpoint != "":
		about = "Azure OpenAI, deployment " + c.AzureDeployment
	case c.OpenAIBaseURL != "":
		about = cmp.Or(c.OpenAIModel, models.DefaultModel) + " at " + c.OpenAIBaseURL
	case c.OpenAIKey != "":
		about = cmp.Or(c.OpenAIModel, models.DefaultModel) + " of OpenAI"
	default:
		return c.recorded(models.Offline{}), "offline, knows fixed phrases (set OPENAI_API_KEY, OPENAI_BASE_URL or AZURE_OPENAI_ENDPOINT for a real one)", nil
	}
	model, err = newChain(c, c.firstModel())
	return model, strings.Join(append([]string{about}, c.fallbacks...), ", then "), err
}

// modelNamed is the model of that name, or the deployment, on the server of the
// first one, with the same behind it. Offline there is one model for all names.
func (c config) modelNamed(name string) (models.Model, error) {
	if !c.online() {
		return c.recorded(models.Offline{}), nil
	}
	first := c.firstModel()
	if c.AzureEndpoint != "" {
		first.Azure.Deployment = name
	} else {
		first.Model = name
	}
	return newChain(c, first)
}

// assemble wires the bot. Close the app when it is no longer needed.
func assemble(ctx context.Context, c config, log zerolog.Logger) (_ *app, err error) {
	a := &app{log: log, metrics: newMetrics()}
	if c.MetricsAddr != "" {
		c.observe = countModels(a.metrics)
	}
	a.config = c
	defer func() {
		if err != nil {
			a.close()
		}
	}()
	if err := a.openTraces(ctx); err != nil {
		return nil, err
	}
	runner, aboutScripts, err := c.scriptRunner(log.WithContext(ctx))
	if err != nil {
		return nil, err
	}
	p, err := newParts(log.WithContext(ctx), c, defaultActions(), runner)
	if err != nil {
		return nil, err
	}
	a.about.model, a.about.skills, a.about.scripts = p.aboutModel, p.skills.about, aboutScripts
	if err := a.openStore(ctx); err != nil {
		return nil, err
	}
	guard, client, err := a.connect()
	if err != nil {
		return nil, err
	}
	cfg := bot.Config{
		Actions: p.actions, Planner: p.planner, Store: a.store, Channel: client, Door: bot.Guarded(guard),
		Examples: examples(), TurnTimeout: c.turnTimeout, AckTimeout: c.ackTimeout, FilteredText: c.FilteredText, Feedback: c.feedback, Log: log,
	}
	if p.skills.provider != nil {
		cfg.Skills = p.skills.provider
	}
	p.limits.apply(&cfg)
	if c.MetricsAddr != "" {
		cfg.Metrics = a.metrics
	}
	if a.traces != nil {
		cfg.Traces = a.traces.provider
	}
	if r := c.recorder; r != nil {
		cfg.Channel, cfg.Door, cfg.Hooks = r.Channel(cfg.Channel), r.Door(cfg.Door), r.Hooks()
	}
	a.bot, err = bot.New(cfg)
	return a, err
}

// openStore opens the configured Redis, or one inside the process. A server
// that is not there yet is no reason not to start.
func (a *app) openStore(ctx context.Context) (err error) {
	cfg := state.Config{Log: a.log}
	if a.config.RedisURL == "" {
		a.about.state = "embedded Redis, forgets everything at exit (set REDIS_URL to keep it)"
		if a.store, err = state.OpenEmbedded(cfg); err != nil {
			return err
		}
	} else {
		if a.store, err = state.Open(ctx, a.config.RedisURL, cfg); err != nil {
			return usageError{fmt.Errorf("REDIS_URL: %w", err)}
		}
		a.about.state = a.store.String()
	}
	a.closers = append(a.closers, func() {
		if err := a.store.Close(); err != nil {
			a.log.Debug().Err(err).Msg("close state")
		}
	})
	return nil
}

// connect makes the guard at the door and the way out.
func (a *app) connect() (*connector.Guard, *connector.Client, error) {
	cloud, err := a.cloud()
	if err != nil {
		return nil, nil, err
	}
	local := a.config.AppID == ""
	hosts, err := connector.NewServiceHosts(cloud, a.config.hosts, local)
	if err != nil {
		return nil, nil, usageError{fmt.Errorf("BOT_ALLOWED_SERVICE_HOSTS: %w", err)}
	}
	guard, err := connector.NewGuard(connector.GuardConfig{AppID: a.config.AppID, Cloud: cloud, Callers: a.config.callers, Hosts: hosts})
	if err != nil {
		return nil, nil, err
	}
	a.closers = append(a.closers, guard.Close)
	cfg := connector.Config{Hosts: hosts, UserAgent: "planbot/" + versionText()}
	a.about.identity = "local mode, no app id: whoever reaches this address may talk to the bot"
	if a.config.noAuth {
		a.about.identity = "none, BOT_DANGEROUSLY_NO_AUTH=true: nobody is checked, whoever reaches this address may talk to the bot"
	}
	if !local {
		tokens, err := a.tokens(cloud)
		if err != nil {
			return nil, nil, err
		}
		cfg.Tokens = tokens
		a.about.identity = "app " + a.config.AppID + ", " + a.config.appType + a.config.aboutCallers()
	}
	client, err := connector.New(cfg)
	if err != nil {
		return nil, nil, err
	}
	a.closers = append(a.closers, client.Close)
	return guard, client, nil
}

func (a *app) cloud() (connector.Cloud, error) {
	cloud, err := connector.CloudNamed(a.config.Cloud)
	cloud.MetadataURL = cmp.Or(a.config.MetadataURL, cloud.MetadataURL)
	cloud.LoginURL = strings.TrimSuffix(cmp.Or(a.config.LoginURL, cloud.LoginURL), "/")
	return cloud, err
}

func (a *app) tokens(cloud connector.Cloud) (*connector.Tokens, error) {
	tokens, err := connector.NewTokens(cloud, a.config.credentials(), nil)
	if err != nil {
		return nil, usageError{err}
	}
	a.closers = append(a.closers, tokens.Close)
	return tokens, nil
}

// close ends the parts, the last first.
func (a *app) close() {
	for i := len(a.closers) - 1; i >= 0; i-- {
		a.closers[i]()
	}
	a.closers = nil
}
