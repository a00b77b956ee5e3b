package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/bottest/recording"
	"github.com/planbot-go/planbot/connector"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner"
)

// settings are what the environment and the flags say, as text. Names are a
// contract; the table in README.md explains them. An empty value is unset.
type settings struct {
	Port            string `env:"PORT" help:"port to listen on (3978)"`
	Addr            string `name:"bot-addr" env:"BOT_ADDR" help:"host:port to listen on; wins over PORT"`
	NoAuth          string `name:"bot-dangerously-no-auth" env:"BOT_DANGEROUSLY_NO_AUTH" help:"true: no app id on a non-loopback address, for closed networks"`
	AppID           string `name:"microsoft-app-id" env:"MICROSOFT_APP_ID,MicrosoftAppId" help:"app id of the bot; none: local mode"`
	AppPassword     string `name:"microsoft-app-password" env:"MICROSOFT_APP_PASSWORD,MicrosoftAppPassword" help:"client secret of the bot"`
	AppCertificate  string `name:"microsoft-app-certificate-file" env:"MICROSOFT_APP_CERTIFICATE_FILE" help:"certificate with its key instead of a client secret"`
	CertPassword    string `name:"microsoft-app-certificate-password" env:"MICROSOFT_APP_CERTIFICATE_PASSWORD" help:"password of that file, if it is PKCS#12"`
	FederatedFile   string `name:"microsoft-app-federated-token-file" env:"MICROSOFT_APP_FEDERATED_TOKEN_FILE" help:"token of a workload identity instead of a client secret"`
	FederatedID     string `name:"microsoft-app-federated-client-id" env:"MICROSOFT_APP_FEDERATED_CLIENT_ID" help:"managed identity that the app trusts, instead of a client secret"`
	AppTenant       string `name:"microsoft-app-tenant-id" env:"MICROSOFT_APP_TENANT_ID,MicrosoftAppTenantId" help:"tenant of the bot"`
	AppType         string `name:"microsoft-app-type" env:"MICROSOFT_APP_TYPE,MicrosoftAppType" help:"SingleTenant, MultiTenant or UserAssignedMSI"`
	Cloud           string `name:"bot-cloud" env:"BOT_CLOUD" help:"public, gcch, dod or china (public)"`
	MetadataURL     string `name:"bot-openid-metadata-url" env:"BOT_OPENID_METADATA_URL" help:"where the keys of channel tokens are found"`
	LoginURL        string `name:"bot-login-url" env:"BOT_LOGIN_URL" help:"where the bot's own tokens come from"`
	AllowedHosts    string `name:"bot-allowed-service-hosts" env:"BOT_ALLOWED_SERVICE_HOSTS" help:"more hosts (host or host:port, comma separated) that replies may go to"`
	AllowEmulator   string `name:"bot-allow-emulator" env:"BOT_ALLOW_EMULATOR" help:"true: let in the Emulator and the Playground with tokens of the bot's own app"`
	AllowedCallers  string `name:"bot-allowed-callers" env:"BOT_ALLOWED_CALLERS" help:"app ids of the bots that may call this one as a skill, comma separated"`
	RedisURL        string `name:"redis-url" env:"REDIS_URL" help:"where state lives; none: embedded"`
	OpenAIKey       string `name:"openai-api-key" env:"OPENAI_API_KEY" help:"key of OpenAI or a compatible server"`
	OpenAIBaseURL   string `name:"openai-base-url" env:"OPENAI_BASE_URL" help:"address of a compatible server"`
	OpenAIModel     string `name:"openai-model" env:"OPENAI_MODEL" help:"model (gpt-4o-mini)"`
	AzureEndpoint   string `name:"azure-openai-endpoint" env:"AZURE_OPENAI_ENDPOINT" help:"endpoint of Azure OpenAI; wins over OpenAI"`
	AzureKey        string `name:"azure-openai-api-key" env:"AZURE_OPENAI_API_KEY" help:"key of Azure OpenAI"`
	AzureDeployment string `name:"azure-openai-deployment" env:"AZURE_OPENAI_DEPLOYMENT" help:"deployment of Azure OpenAI"`
	AzureVersion    string `name:"azure-openai-api-version" env:"AZURE_OPENAI_API_VERSION" help:"API version of Azure OpenAI"`
	FallbackModels  string `name:"bot-fallback-models" env:"BOT_FALLBACK_MODELS" help:"models (on Azure deployments) to ask in turn when the one before cannot answer, comma separated"`
	FallbackBaseURL string `name:"bot-fallback-base-url" env:"BOT_FALLBACK_BASE_URL" help:"address of the server of these; without it and its key, the first model's server"`
	FallbackKey     string `name:"bot-fallback-api-key" env:"BOT_FALLBACK_API_KEY" help:"key of that server"`
	ModelRetries    string `name:"bot-model-retries" env:"BOT_MODEL_RETRIES" help:"how often the last model may be asked again in one call (3)"`
	ModelMaxWait    string `name:"bot-model-max-wait" env:"BOT_MODEL_MAX_WAIT" help:"how long one call may wait between its tries (20s)"`
	ModelStream     string `name:"bot-model-stream" env:"BOT_MODEL_STREAM" help:"true: ask the model's server for its answers piece by piece (false)"`
	ReasoningEffort string `name:"bot-reasoning-effort" env:"BOT_REASONING_EFFORT" help:"how much a reasoning model thinks: minimal, low, medium, high or another word that it knows (not sent)"`
	SystemMessages  string `name:"bot-model-system-messages" env:"BOT_MODEL_SYSTEM_MESSAGES" help:"where the server takes messages of the role system: anywhere, first or nowhere (anywhere)"`
	MaxTokensField  string `name:"bot-max-tokens-field" env:"BOT_MAX_TOKENS_FIELD" help:"name under which the limit of an answer is sent: max_completion_tokens, or max_tokens for servers that know only that (max_completion_tokens)"`
	Planner         string `name:"bot-planner" env:"BOT_PLANNER" help:"sequence, sequential or tools (sequence)"`
	ResponseFormat  string `name:"bot-response-format" env:"BOT_RESPONSE_FORMAT" help:"json_schema, json_object or text (json_schema)"`
	PromptsDir      string `name:"bot-prompts-dir" env:"BOT_PROMPTS_DIR" help:"folder whose prompts replace the embedded ones, and add actions"`
	PromptsReload   string `name:"bot-prompts-reload" env:"BOT_PROMPTS_RELOAD" help:"true: load that folder anew when it changes; for development"`
	SkillsDir       string `name:"bot-skills-dir" env:"BOT_SKILLS_DIR" help:"folders of skills, parted as PATH is; none: no skills"`
	SkillsLenient   string `name:"bot-skills-lenient" env:"BOT_SKILLS_LENIENT" help:"true: use skills with faults that can be lived with (false)"`
	SkillsLinks     string `name:"bot-skills-links" env:"BOT_SKILLS_LINKS" help:"true: follow symbolic links that lead to one of the folders (false)"`
	SkillsReload    string `name:"bot-skills-reload" env:"BOT_SKILLS_RELOAD" help:"true: look for changed skills in each turn; for development"`
	SkillsApproval  string `name:"bot-skills-approval" env:"BOT_SKILLS_APPROVAL" help:"what of skills a person has to approve: load, read, run, comma separated, or all or none (run)"`
	SkillsSandbox   string `name:"bot-skills-sandbox" env:"BOT_SKILLS_SANDBOX" help:"what scripts of skills run in: auto, bubblewrap, landlock, or none: they are refused (auto)"`
	MaxMessages     string `name:"bot-max-messages" env:"BOT_MAX_MESSAGES" help:"SAYs of all plans of one turn (20)"`
	MaxSteps        string `name:"bot-max-steps" env:"BOT_MAX_STEPS" help:"calls of actions that one turn may make (25)"`
	MaxSameCalls    string `name:"bot-max-same-calls" env:"BOT_MAX_SAME_CALLS" help:"how often one turn may make the same call; none: no limit"`
	MaxTurnTokens   string `name:"bot-max-turn-tokens" env:"BOT_MAX_TURN_TOKENS" help:"tokens after which a turn asks the model no more; none: no limit"`
	MaxTurnCost     string `name:"bot-max-turn-cost" env:"BOT_MAX_TURN_COST" help:"money after which a turn asks the model no more; none: no limit"`
	ModelPrice      string `name:"bot-model-price" env:"BOT_MODEL_PRICE" help:"price of a million tokens: prompt,completion or prompt,cached,completion"`
	Feedback        string `name:"bot-feedback" env:"BOT_FEEDBACK" help:"true: ask in Teams what people think of replies (false)"`
	FilteredText    string `name:"bot-filtered-text" env:"BOT_FILTERED_TEXT" help:"what is said when a content filter stopped a turn"`
	ApprovalActions string `name:"bot-approval-actions" env:"BOT_APPROVAL_ACTIONS" help:"actions of which a person has to approve each call, comma separated"`
	Approvers       string `name:"bot-approvers" env:"BOT_APPROVERS" help:"who may approve, by id or aadObjectId, comma separated; none: who asked"`
	ApprovalTimeout string `name:"bot-approval-timeout" env:"BOT_APPROVAL_TIMEOUT" help:"how long an approval may take (24h)"`
	AllowedTenants  string `name:"bot-allowed-tenants" env:"BOT_ALLOWED_TENANTS" help:"tenants whose people may talk to the bot, comma separated; none: all"`
	AllowedUsers    string `name:"bot-allowed-users" env:"BOT_ALLOWED_USERS" help:"people who may talk to the bot, by aadObjectId, comma separated; none: all"`
	AllowedChannels string `name:"bot-allowed-channels" env:"BOT_ALLOWED_CHANNELS" help:"channels over which they may, such as msteams, comma separated; none: all"`
	MetricsAddr     string `name:"bot-metrics-addr" env:"BOT_METRICS_ADDR" help:"host:port of GET /metrics for Prometheus; none: no metrics"`
	OTelDisabled    string `name:"otel-sdk-disabled" env:"OTEL_SDK_DISABLED" help:"true: no traces, whatever else is set"`
	OTelExporter    string `name:"otel-traces-exporter" env:"OTEL_TRACES_EXPORTER" help:"otlp or none (otlp with an endpoint, else none)"`
	OTelEndpoint    string `name:"otel-exporter-otlp-endpoint" env:"OTEL_EXPORTER_OTLP_ENDPOINT" help:"address of an OpenTelemetry collector; turns traces on"`
	OTelTraces      string `name:"otel-exporter-otlp-traces-endpoint" env:"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT" help:"the same, as it is, without /v1/traces behind it"`
	OTelProtocol    string `name:"otel-exporter-otlp-protocol" env:"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL,OTEL_EXPORTER_OTLP_PROTOCOL" help:"http/protobuf"`
	OTelHeaders     string `name:"otel-exporter-otlp-headers" env:"OTEL_EXPORTER_OTLP_TRACES_HEADERS,OTEL_EXPORTER_OTLP_HEADERS" help:"name=value of each request to the collector, comma separated"`
	OTelTimeout     string `name:"otel-exporter-otlp-timeout" env:"OTEL_EXPORTER_OTLP_TRACES_TIMEOUT,OTEL_EXPORTER_OTLP_TIMEOUT" help:"milliseconds that one request to it may take (10000)"`
	OTelCompression string `name:"otel-exporter-otlp-compression" env:"OTEL_EXPORTER_OTLP_TRACES_COMPRESSION,OTEL_EXPORTER_OTLP_COMPRESSION" help:"gzip or none (none)"`
	OTelCertificate string `name:"otel-exporter-otlp-certificate" env:"OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE,OTEL_EXPORTER_OTLP_CERTIFICATE" help:"PEM file of who signed the collector's certificate"`
	OTelServiceName string `name:"otel-service-name" env:"OTEL_SERVICE_NAME" help:"name of the bot in traces (planbot)"`
	OTelAttributes  string `name:"otel-resource-attributes" env:"OTEL_RESOURCE_ATTRIBUTES" help:"name=value of this bot in traces, comma separated"`
	OTelSampler     string `name:"otel-traces-sampler" env:"OTEL_TRACES_SAMPLER" help:"which turns are traced (parentbased_always_on)"`
	OTelSamplerArg  string `name:"otel-traces-sampler-arg" env:"OTEL_TRACES_SAMPLER_ARG" help:"share of the turns that are traced, from 0 to 1 (1)"`
	MaxTurns        string `name:"bot-max-turns" env:"BOT_MAX_TURNS" help:"turns that this process works on at once (1024)"`
	MaxWaiting      string `name:"bot-max-waiting" env:"BOT_MAX_WAITING" help:"messages that may wait in the inbox before the channel is told to come back (10000)"`
	MaxWaitingEach  string `name:"bot-max-waiting-per-conversation" env:"BOT_MAX_WAITING_PER_CONVERSATION" help:"of one conversation (256)"`
	MaxConnections  string `name:"bot-max-connections" env:"BOT_MAX_CONNECTIONS" help:"connections of clients, beyond which those that say nothing are closed (10000)"`
	MaxRequests     string `name:"bot-max-requests" env:"BOT_MAX_REQUESTS" help:"requests that are answered at once, beyond which the channel is told to come back (4096)"`
	TurnTimeout     string `name:"bot-turn-timeout" env:"BOT_TURN_TIMEOUT" help:"how long one turn may take (5m)"`
	DrainTimeout    string `name:"bot-drain-timeout" env:"BOT_DRAIN_TIMEOUT" help:"how long ending may take after SIGTERM, running turns included (20s)"`
	LogLevel        string `name:"bot-log-level" env:"BOT_LOG_LEVEL" help:"trace, debug, info, warn, error or disabled (info)"`
	LogFormat       string `name:"bot-log-format" env:"BOT_LOG_FORMAT" help:"json or console (console on a terminal, else json)"`

	twice faults // what the environment says in two ways
}

// config is the settings, read and checked.
type config struct {
	settings
	addr         string
	noAuth       bool
	reload       bool // prompts
	skills       skillSettings
	feedback     bool
	appType      string
	hosts        []string
	callers      connector.Callers
	fallbacks    []string // names of models, in order
	retries      int      // of the last model
	maxWait      time.Duration
	stream       bool // answers of models
	limits       limits
	traces       traceSettings
	turnTimeout  time.Duration
	drainTimeout time.Duration
	observe      func(outcome string, took time.Duration, used models.Usage) // sees each call of a model; nil: nobody does
	recorder     *recording.Recorder                                         // sees all that the bot does; nil: nobody does
	ackTimeout   time.Duration                                               // set by commands that wait for each turn
	logLevel     zerolog.Level
	warnings     []string // about what may be meant otherwise
}

const (
	singleTenant    = "SingleTenant"
	multiTenant     = "MultiTenant"
	managedIdentity = "UserAssignedMSI"
)

const (
	sequencePlanner   = "sequence"
	sequentialPlanner = "sequential"
	toolsPlanner      = "tools"
)

// planners are the names of the planners, and of their prompts.
func planners() []string { return []string{sequencePlanner, sequentialPlanner, toolsPlanner} }

// check reads the settings. The error lists every mistake, a line each, with
// the name of the variable.
func (s settings) check() (config, error) {
	c := config{settings: s}
	faults := slices.Clone(s.twice)
	c.checkAddress(&faults)
	c.checkIdentity(&faults)
	c.checkCallers(&faults)
	c.checkOverrides(&faults)
	c.checkModel(&faults)
	c.checkFallback(&faults)
	c.checkLimits(&faults)
	c.checkTraces(&faults)
	c.checkRest(&faults)
	c.askParsers(&faults)
	return c, errors.Join(faults...)
}

type faults []error

func (f *faults) add(variable, format string, args ...any) {
	*f = append(*f, fmt.Errorf("%s: %s", variable, fmt.Sprintf(format, args...)))
}

// entries reads what is separated by commas. A setting that is there names something:
// an empty list often stands for everybody.
func (f *faults) entries(variable, value string) []string {
	all := list(value)
	if value != "" && len(all) == 0 {
		f.add(variable, "%q names none", value)
	}
	return all
}

// has reports whether a fault of the variable is listed already.
func (f *faults) has(variable string) bool {
	return slices.ContainsFunc(*f, func(err error) bool { return strings.HasPrefix(err.Error(), variable+": ") })
}

func (c *config) checkModel(f *faults) {
	c.checkURL(f, "OPENAI_BASE_URL", c.OpenAIBaseURL, "http")
	if c.AzureEndpoint != "" {
		c.checkURL(f, "AZURE_OPENAI_ENDPOINT", c.AzureEndpoint, "https")
		if c.AzureKey == "" {
			f.add("AZURE_OPENAI_API_KEY", "is needed with AZURE_OPENAI_ENDPOINT")
		}
		if c.AzureDeployment == "" {
			f.add("AZURE_OPENAI_DEPLOYMENT", "is needed with AZURE_OPENAI_ENDPOINT")
		}
		return
	}
	for _, set := range []struct{ name, value string }{
		{"AZURE_OPENAI_API_KEY", c.AzureKey},
		{"AZURE_OPENAI_DEPLOYMENT", c.AzureDeployment},
		{"AZURE_OPENAI_API_VERSION", c.AzureVersion},
	} {
		if set.value != "" {
			f.add(set.name, "is set, but AZURE_OPENAI_ENDPOINT is not")
		}
	}
	if c.OpenAIModel != "" && c.OpenAIKey == "" && c.OpenAIBaseURL == "" {
		f.add("OPENAI_MODEL", "is set, but neither OPENAI_API_KEY nor OPENAI_BASE_URL is")
	}
}

func (c *config) checkRest(f *faults) {
	if c.Planner = cmp.Or(c.Planner, sequencePlanner); !slices.Contains(planners(), c.Planner) {
		f.add("BOT_PLANNER", "%q is not a planner of this version, which has: %s", c.Planner, strings.Join(planners(), ", "))
	}
	formats := []planner.ResponseFormat{"", planner.JSONSchema, planner.JSONObject, planner.PlainText}
	switch {
	case !slices.Contains(formats, planner.ResponseFormat(c.ResponseFormat)):
		f.add("BOT_RESPONSE_FORMAT", "%q is not json_schema, json_object or text", c.ResponseFormat)
	case c.ResponseFormat != "" && c.Planner != sequencePlanner && !f.has("BOT_PLANNER"):
		f.add("BOT_RESPONSE_FORMAT", "is for the planner sequence, not %s", c.Planner)
	}
	c.checkSkills(f)
	if c.PromptsDir != "" {
		if info, err := os.Stat(c.PromptsDir); err != nil || !info.IsDir() {
			f.add("BOT_PROMPTS_DIR", "%q is no folder", c.PromptsDir)
		}
	}
	if c.reload = truth(f, "BOT_PROMPTS_RELOAD", c.PromptsReload); c.reload && c.PromptsDir == "" {
		f.add("BOT_PROMPTS_RELOAD", "needs BOT_PROMPTS_DIR: the embedded prompts do not change")
	}
	c.feedback = truth(f, "BOT_FEEDBACK", c.Feedback)
	c.turnTimeout = duration(f, "BOT_TURN_TIMEOUT", c.TurnTimeout, 5*time.Minute)
	c.drainTimeout = duration(f, "BOT_DRAIN_TIMEOUT", c.DrainTimeout, 20*time.Second)
	level, err := zerolog.ParseLevel(cmp.Or(strings.ToLower(c.LogLevel), "info"))
	if err != nil {
		f.add("BOT_LOG_LEVEL", "%q is no level", c.LogLevel)
	}
	c.logLevel = level
	if format := strings.ToLower(c.LogFormat); format != "" && format != "json" && format != "console" {
		f.add("BOT_LOG_FORMAT", "%q is neither json nor console", c.LogFormat)
	}
}

func truth(f *faults, variable, value string) bool {
	if value == "" {
		return false
	}
	on, err := strconv.ParseBool(value)
	if err != nil {
		f.add(variable, "%q is neither true nor false", value)
	}
	return on
}

func duration(f *faults, variable, value string, otherwise time.Duration) time.Duration {
	if value == "" {
		return otherwise
	}
	d, err := time.ParseDuration(value)
	if err != nil || d <= 0 {
		f.add(variable, "%q is no positive duration such as 30s or 5m", value)
	}
	return d
}
