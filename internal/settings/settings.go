// Package settings reads what the environment and the flags say about a bot, checks all of it
// at once, and makes the model, the planner and the skills that it describes. It is for app,
// and for the tools that judge a bot without running it.
package settings

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/alecthomas/kong"
	"golang.org/x/net/http/httpguts"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/connector"
	"github.com/planbot-go/planbot/internal/spelling"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner"
	"github.com/planbot-go/planbot/prompts"
	"github.com/planbot-go/planbot/skills"
	"github.com/planbot-go/planbot/state"
)

// Settings are all settings of a bot. Their names are a contract. Beside env, which names the
// variable, the tags say what a value may be (oneof, min, max, url), what holds without one
// (default, else) and that nobody may see it (secret). See [Settings.Flags].
type Settings struct {
	Port            int           `env:"PORT" default:"3978" max:"65535" help:"port to listen on; BOT_ADDR wins"`
	Addr            string        `env:"BOT_ADDR" else:"127.0.0.1 and the port; with an app id all interfaces" help:"host:port to listen on; without an app id it has to be loopback"`
	NoAuth          bool          `env:"BOT_DANGEROUSLY_NO_AUTH" help:"true: no app id, yet reachable from elsewhere; for closed networks only"`
	AppID           string        `env:"MICROSOFT_APP_ID,MicrosoftAppId" else:"local mode" help:"app id of the bot; without it nobody is checked, and only this machine may connect"`
	AppPassword     string        `env:"MICROSOFT_APP_PASSWORD,MicrosoftAppPassword" secret:"true" help:"client secret of the bot"`
	AppCertificate  string        `env:"MICROSOFT_APP_CERTIFICATE_FILE" help:"certificate with its RSA key instead of a client secret: PEM, or PKCS#12 as openssl pkcs12 -legacy writes it"`
	CertPassword    string        `env:"MICROSOFT_APP_CERTIFICATE_PASSWORD" secret:"true" help:"password of a PKCS#12 file"`
	FederatedFile   string        `env:"MICROSOFT_APP_FEDERATED_TOKEN_FILE" help:"token of a workload identity instead of a client secret; on AKS the path in AZURE_FEDERATED_TOKEN_FILE"`
	FederatedID     string        `env:"MICROSOFT_APP_FEDERATED_CLIENT_ID" help:"client id of a managed identity that the app registration trusts, instead of a client secret"`
	AppTenant       string        `env:"MICROSOFT_APP_TENANT_ID,MicrosoftAppTenantId" help:"tenant of the bot; SingleTenant, BOT_ALLOW_EMULATOR and BOT_ALLOWED_CALLERS need it"`
	AppType         string        `env:"MICROSOFT_APP_TYPE,MicrosoftAppType" oneof:"SingleTenant,MultiTenant,UserAssignedMSI" else:"SingleTenant with a tenant, else MultiTenant" help:"SingleTenant, MultiTenant or UserAssignedMSI"`
	Cloud           string        `env:"BOT_CLOUD" oneof:"public,gcch,dod,china" else:"public" help:"public, gcch, dod or china"`
	MetadataURL     string        `env:"BOT_OPENID_METADATA_URL" url:"https" else:"by cloud" help:"where the keys of channel tokens are found"`
	LoginURL        string        `env:"BOT_LOGIN_URL" url:"https" else:"by cloud" help:"where the bot's own tokens come from"`
	AllowedHosts    []string      `env:"BOT_ALLOWED_SERVICE_HOSTS" else:"the cloud's connector hosts; in local mode loopback" help:"more hosts (host, host:port or .domain, comma separated) that replies, and with them the bot's token, may go to"`
	AllowEmulator   bool          `env:"BOT_ALLOW_EMULATOR" help:"true: let in the Emulator and the Agents Playground with tokens of the bot's own app; for development"`
	AllowedCallers  []string      `env:"BOT_ALLOWED_CALLERS" help:"app ids of bots of the same tenant that may call this one as a skill, comma separated"`
	AllowedTenants  []string      `env:"BOT_ALLOWED_TENANTS" else:"all" help:"tenants whose people may talk to the bot, comma separated; only Teams vouches for tenants and people"`
	AllowedUsers    []string      `env:"BOT_ALLOWED_USERS" else:"all" help:"people who may talk to the bot, by aadObjectId, comma separated"`
	AllowedChannels []string      `env:"BOT_ALLOWED_CHANNELS" else:"all" help:"channels over which they may, such as msteams, comma separated"`
	RedisURL        string        `env:"REDIS_URL" else:"embedded, forgets at exit" help:"where state lives"`
	OpenAIKey       string        `env:"OPENAI_API_KEY" secret:"true" help:"key of OpenAI or of a compatible server"`
	OpenAIBaseURL   string        `env:"OPENAI_BASE_URL" url:"http" else:"OpenAI's" help:"address of a compatible server, such as http://127.0.0.1:11434/v1"`
	OpenAIModel     string        `env:"OPENAI_MODEL" else:"gpt-4o-mini" help:"model"`
	AzureEndpoint   string        `env:"AZURE_OPENAI_ENDPOINT" url:"https" help:"https://NAME.openai.azure.com; Azure OpenAI wins over OpenAI"`
	AzureKey        string        `env:"AZURE_OPENAI_API_KEY" secret:"true" help:"key of Azure OpenAI"`
	AzureDeployment string        `env:"AZURE_OPENAI_DEPLOYMENT" help:"deployment of Azure OpenAI"`
	AzureVersion    string        `env:"AZURE_OPENAI_API_VERSION" else:"2024-10-21" help:"API version of Azure OpenAI"`
	FallbackModels  []string      `env:"BOT_FALLBACK_MODELS" help:"models (on Azure deployments) to ask in turn when the one before cannot answer, comma separated"`
	FallbackBaseURL string        `env:"BOT_FALLBACK_BASE_URL" url:"http" else:"the first model's; with a key of their own OpenAI's" help:"address of the server of these"`
	FallbackKey     string        `env:"BOT_FALLBACK_API_KEY" secret:"true" else:"on the first model's server that one's" help:"key of that server, which never gets the first model's"`
	ModelRetries    int           `env:"BOT_MODEL_RETRIES" default:"3" max:"255" help:"how often the last model may be asked again in one call"`
	ModelMaxWait    time.Duration `env:"BOT_MODEL_MAX_WAIT" default:"20s" help:"how long one call may wait between its tries"`
	ModelStream     bool          `env:"BOT_MODEL_STREAM" help:"true: ask for answers piece by piece, for gateways that close quiet connections"`
	ReasoningEffort string        `env:"BOT_REASONING_EFFORT" else:"not sent" help:"how much a reasoning model thinks: minimal, low, medium, high or another word that it knows"`
	SystemMessages  string        `env:"BOT_MODEL_SYSTEM_MESSAGES" oneof:"anywhere,first,nowhere" else:"anywhere" help:"where the server takes messages of the role system: anywhere, first or nowhere"`
	MaxTokensField  string        `env:"BOT_MAX_TOKENS_FIELD" oneof:"max_completion_tokens,max_tokens" else:"max_completion_tokens" help:"name of the limit of an answer; max_tokens for servers that know only that, such as Ollama"`
	Planner         string        `env:"BOT_PLANNER" oneof:"sequence,sequential,tools" default:"sequence" help:"sequence (JSON), sequential (XML) or tools (function calling)"`
	ResponseFormat  string        `env:"BOT_RESPONSE_FORMAT" oneof:"json_schema,json_object,text" else:"json_schema, or what the server takes" help:"json_schema, json_object or text, for the planner sequence"`
	PromptsDir      string        `env:"BOT_PROMPTS_DIR" else:"embedded" help:"folder whose prompts replace the embedded ones, and add actions"`
	PromptsReload   bool          `env:"BOT_PROMPTS_RELOAD" help:"true: load that folder again when it changes; for development"`
	SkillsDir       string        `env:"BOT_SKILLS_DIR" else:"no skills" help:"folders of skills, separated as in PATH"`
	SkillsLenient   bool          `env:"BOT_SKILLS_LENIENT" help:"true: use skills with small faults"`
	SkillsLinks     bool          `env:"BOT_SKILLS_LINKS" help:"true: follow symbolic links that lead to one of the folders, as in a ConfigMap"`
	SkillsReload    bool          `env:"BOT_SKILLS_RELOAD" help:"true: look for changed skills in each turn; for development"`
	SkillsApproval  []string      `env:"BOT_SKILLS_APPROVAL" else:"run" help:"what of skills a person has to approve: load, read, run, comma separated, or all or none"`
	SkillsSandbox   string        `env:"BOT_SKILLS_SANDBOX" oneof:"auto,bubblewrap,landlock,none" default:"auto" help:"what scripts of skills run in: auto, bubblewrap, landlock, or none: they are refused"`
	MaxTurns        int           `env:"BOT_MAX_TURNS" min:"1" else:"1024" help:"turns that this process works on at once"`
	MaxWaiting      int           `env:"BOT_MAX_WAITING" min:"1" else:"10000" help:"messages that may wait in the inbox before the channel is told to come back"`
	MaxWaitingEach  int           `env:"BOT_MAX_WAITING_PER_CONVERSATION" min:"1" else:"256" help:"the same for one conversation"`
	MaxConnections  int           `env:"BOT_MAX_CONNECTIONS" min:"1" else:"10000" help:"open connections; a new one beyond that closes the one that has been quiet for longest"`
	MaxRequests     int           `env:"BOT_MAX_REQUESTS" min:"1" else:"4096" help:"requests answered at once, beyond which the channel is told to come back"`
	MaxSteps        int           `env:"BOT_MAX_STEPS" min:"1" else:"25" help:"calls of actions that one turn may make"`
	MaxMessages     int           `env:"BOT_MAX_MESSAGES" min:"1" else:"20" help:"SAYs of all plans of one turn"`
	MaxSameCalls    int           `env:"BOT_MAX_SAME_CALLS" min:"1" else:"no limit" help:"how often one turn may make the same call"`
	MaxTurnTokens   int           `env:"BOT_MAX_TURN_TOKENS" min:"1" else:"no limit" help:"tokens after which a turn asks the model no more"`
	MaxTurnCost     float64       `env:"BOT_MAX_TURN_COST" else:"no limit" help:"money after which a turn asks the model no more, by BOT_MODEL_PRICE"`
	ModelPrice      []float64     `env:"BOT_MODEL_PRICE" else:"not known" help:"price of a million tokens: prompt,completion or prompt,cached,completion"`
	FilteredText    string        `env:"BOT_FILTERED_TEXT" else:"one sentence" help:"what is said when a content filter stopped a turn"`
	Feedback        bool          `env:"BOT_FEEDBACK" help:"true: ask in Teams what people think of replies"`
	ApprovalActions []string      `env:"BOT_APPROVAL_ACTIONS" help:"actions of which a person has to approve each call, comma separated"`
	Approvers       []string      `env:"BOT_APPROVERS" else:"who asked" help:"who may approve, by id or aadObjectId, comma separated; they have to see the conversation"`
	ApprovalTimeout time.Duration `env:"BOT_APPROVAL_TIMEOUT" default:"24h" help:"how long an approval may take, at most 720h"`
	MetricsAddr     string        `env:"BOT_METRICS_ADDR" else:"no metrics" help:"host:port of GET /metrics for Prometheus"`
	OTelEndpoint    string        `env:"OTEL_EXPORTER_OTLP_ENDPOINT" url:"http" else:"no traces" help:"address of an OpenTelemetry collector, such as http://localhost:4318; turns traces on"`
	OTelTraces      string        `env:"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT" url:"http" help:"the same, used as it is, without /v1/traces behind it"`
	OTelExporter    string        `env:"OTEL_TRACES_EXPORTER" oneof:"otlp,none" else:"otlp with an endpoint, else none" help:"otlp or none"`
	OTelDisabled    bool          `env:"OTEL_SDK_DISABLED" help:"true: no traces, whatever else is set"`
	OTelServiceName string        `env:"OTEL_SERVICE_NAME" else:"planbot" help:"name of the bot in traces"`
	OTelAttributes  [][2]string   `env:"OTEL_RESOURCE_ATTRIBUTES" help:"what else spans say of this process: name=value, comma separated"`
	OTelSampler     string        `env:"OTEL_TRACES_SAMPLER" oneof:"always_on,always_off,traceidratio,parentbased_always_on,parentbased_always_off,parentbased_traceidratio" default:"parentbased_always_on" help:"which turns are traced"`
	OTelSamplerArg  float64       `env:"OTEL_TRACES_SAMPLER_ARG" default:"1" max:"1" help:"share of turns for traceidratio, from 0 to 1"`
	OTelHeaders     [][2]string   `env:"OTEL_EXPORTER_OTLP_TRACES_HEADERS,OTEL_EXPORTER_OTLP_HEADERS" name:"otel-exporter-otlp-headers" secret:"true" help:"headers for the collector, such as a key: name=value, comma separated"`
	OTelProtocol    string        `env:"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL,OTEL_EXPORTER_OTLP_PROTOCOL" name:"otel-exporter-otlp-protocol" oneof:"http/protobuf" else:"http/protobuf" help:"http/protobuf; its port is 4318"`
	OTelTimeout     int           `env:"OTEL_EXPORTER_OTLP_TRACES_TIMEOUT,OTEL_EXPORTER_OTLP_TIMEOUT" name:"otel-exporter-otlp-timeout" min:"1" else:"10000" help:"milliseconds that one request to the collector may take"`
	OTelCompression string        `env:"OTEL_EXPORTER_OTLP_TRACES_COMPRESSION,OTEL_EXPORTER_OTLP_COMPRESSION" name:"otel-exporter-otlp-compression" oneof:"none,gzip" else:"none" help:"gzip or none"`
	OTelCertificate string        `env:"OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE,OTEL_EXPORTER_OTLP_CERTIFICATE" name:"otel-exporter-otlp-certificate" else:"the system's" help:"PEM file of who signed the collector's certificate"`
	TurnTimeout     time.Duration `env:"BOT_TURN_TIMEOUT" default:"5m" help:"how long one turn may take, model and actions together"`
	DrainTimeout    time.Duration `env:"BOT_DRAIN_TIMEOUT" default:"20s" help:"how long ending may take after SIGTERM, running turns included"`
	LogLevel        string        `env:"BOT_LOG_LEVEL" oneof:"trace,debug,info,warn,error,disabled" else:"info" help:"trace, debug, info, warn, error or disabled"`
	LogFormat       string        `env:"BOT_LOG_FORMAT" oneof:"json,console" else:"console on a terminal, else json" help:"json or console"`

	// Register adds the actions of the bot that has these settings.
	Register func(*actions.Registry) `kong:"-"`

	faults   faults   // of single values
	flagged  []string // variables that flags stand for
	warnings []string
}

// The values of MICROSOFT_APP_TYPE.
const (
	SingleTenant    = "SingleTenant"
	MultiTenant     = "MultiTenant"
	ManagedIdentity = "UserAssignedMSI"
)

// The values of BOT_PLANNER.
const (
	Sequence   = "sequence"
	Sequential = "sequential"
	Tools      = "tools"
)

// Planners are the names of the planners, and of their prompts.
func Planners() []string { return []string{Sequence, Sequential, Tools} }

// NoSandbox and AutoSandbox are what BOT_SKILLS_SANDBOX may be beside a kind.
const (
	NoSandbox   = "none"
	AutoSandbox = "auto"
)

// Flags has kong read the settings, which are a part of what it parses: from the environment,
// and from flags that are called like the variables. White space around a value is dropped; an
// empty one is unset. A wrong value is no error yet, so that [Settings.Check] can tell all.
func (s *Settings) Flags() kong.Option {
	return kong.PostBuild(func(k *kong.Kong) error {
		for _, flag := range k.Model.Flags {
			if len(flag.Envs) == 0 {
				continue
			}
			flag.Name = cmp.Or(flag.Tag.Get("name"), strings.ToLower(strings.ReplaceAll(flag.Envs[0], "_", "-")))
			flag.Mapper = kong.MapperFunc(s.decode)
			s.checkSpellings(flag.Envs)
		}
		return nil
	})
}

// checkSpellings makes empty variables unset, and finds two spellings of one that differ:
// one of them would be passed over without a word. OpenTelemetry's are no spellings, one of
// those goes before the other.
func (s *Settings) checkSpellings(names []string) {
	letters := func(name string) string { return strings.ToLower(strings.ReplaceAll(name, "_", "")) }
	first := strings.TrimSpace(os.Getenv(names[0]))
	for _, name := range names {
		value := strings.TrimSpace(os.Getenv(name))
		if value == "" {
			_ = os.Unsetenv(name) // fails only for names that no variable can have
		} else if first != "" && value != first && letters(name) == letters(names[0]) {
			s.faults.add(names[0], "and %s differ, and both are spellings of one setting", name)
		}
	}
}

// decode is the mapper of all settings.
func (s *Settings) decode(ctx *kong.DecodeContext, into reflect.Value) error {
	text := "true" // a flag alone
	next := ctx.Scan.Peek()
	if _, err := strconv.ParseBool(fmt.Sprint(next.Value)); err == nil || next.Type == kong.FlagValueToken || into.Kind() != reflect.Bool {
		if err := ctx.Scan.PopValueInto("value", &text); err != nil {
			return err
		}
	}
	variable := ctx.Value.Tag.Envs[0]
	if into.Addr().Pointer() != ctx.Value.Target.Addr().Pointer() { // kong reads flags before the environment
		s.flagged = append(s.flagged, variable)
	} else if slices.Contains(s.flagged, variable) {
		return nil
	}
	s.set(variable, text, ctx.Value.Tag, into)
	return nil
}

// set gives a field its value, and keeps what is wrong with it.
func (s *Settings) set(variable, text string, tags tags, into reflect.Value) {
	if err := read(cmp.Or(strings.TrimSpace(text), tags.Get("default")), tags, into); err != nil {
		s.faults.add(variable, "%v", err)
	}
}

type tags interface{ Get(name string) string }

// read reads a text into a field by its type and its tags.
func read(text string, tags tags, into reflect.Value) (err error) {
	into.SetZero()
	if text == "" {
		return nil
	}
	switch into := into.Addr().Interface().(type) {
	case *string:
		*into = text
		if words := strings.Split(tags.Get("oneof"), ","); words[0] != "" {
			i := slices.IndexFunc(words, func(word string) bool { return strings.EqualFold(word, text) })
			if i < 0 {
				*into = ""
				return fmt.Errorf("%q is none of %s", text, strings.Join(words, ", "))
			}
			*into = words[i]
		}
		return checkURL(text, tags.Get("url"))
	case *bool:
		if *into, err = strconv.ParseBool(text); err != nil {
			return fmt.Errorf("%q is neither true nor false", text)
		}
	case *int:
		n, err := strconv.ParseUint(text, 10, 31)
		least, _ := strconv.ParseUint(tags.Get("min"), 10, 31) // "" is 0
		most, unbounded := strconv.ParseUint(tags.Get("max"), 10, 31)
		if err != nil || n < least || unbounded == nil && n > most {
			return fmt.Errorf("%q is no whole number from %d %s", text, least, strings.TrimSpace("on "+tags.Get("max")))
		}
		*into = int(n)
	case *float64:
		*into, err = amount(text, tags)
		return err
	case *time.Duration:
		if *into, err = time.ParseDuration(text); err != nil || *into <= 0 {
			return fmt.Errorf("%q is no positive duration such as 30s or 5m", text)
		}
	case *[]string:
		if *into = list(text); *into == nil {
			return fmt.Errorf("%q names none", text) // which often stands for everybody
		}
	case *[]float64:
		for _, one := range list(text) {
			n, err := amount(one, tags)
			if err != nil {
				*into = nil
				return err
			}
			*into = append(*into, n)
		}
	case *[][2]string:
		for i, entry := range list(text) {
			name, value, found := strings.Cut(entry, "=")
			value, err := url.PathUnescape(strings.TrimSpace(value))
			if name = strings.TrimSpace(name); name == "" || !found || err != nil {
				return fmt.Errorf("entry %d is not name=value", i+1) // it may be a secret
			}
			*into = append(*into, [2]string{name, value})
		}
	}
	return nil
}

func amount(text string, tags tags) (float64, error) {
	most, err := strconv.ParseFloat(cmp.Or(tags.Get("max"), "1e12"), 64)
	n, bad := strconv.ParseFloat(text, 64)
	if err != nil || bad != nil || !(n >= 0 && n <= most) {
		return 0, fmt.Errorf("%q is no number such as 0.15, from 0 to %v", text, most)
	}
	return n, nil
}

// list reads what is separated by commas.
func list(value string) (all []string) {
	for entry := range strings.SplitSeq(value, ",") {
		if entry = strings.TrimSpace(entry); entry != "" {
			all = append(all, entry)
		}
	}
	return all
}

// checkURL accepts an absolute URL. With the scheme https, plain http is for loopback only.
func checkURL(value, scheme string) error {
	if scheme == "" {
		return nil
	}
	u, err := url.Parse(value)
	switch {
	case err != nil || u.Hostname() == "" || u.Scheme != "https" && u.Scheme != "http":
		return errors.New("is not an http or https address")
	case u.User != nil:
		return errors.New("holds a user name or password; it is an address only")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return errors.New("holds a query or a fragment; it is an address only")
	case scheme == "https" && u.Scheme != "https" && !loopback(u.Hostname()):
		return errors.New("has to be https")
	}
	if n, err := strconv.ParseUint(cmp.Or(u.Port(), "1"), 10, 16); err != nil || n == 0 {
		return errors.New("has a port that is not a number from 1 to 65535")
	}
	return nil
}

// loopback reports whether only this machine reaches the host. A name other than localhost
// may resolve to anything.
func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && ip.IsLoopback()
}

// faults are mistakes, each with its variable.
type faults []error

func (f *faults) add(variable, format string, args ...any) {
	*f = append(*f, fmt.Errorf("%s: %s", variable, fmt.Sprintf(format, args...)))
}

// ask adds what a parser said of the variable, a fault a line, unless it was found wrong
// already.
func (f *faults) ask(variable string, err error) {
	if err != nil && !f.has(variable) {
		for _, line := range linesOf(err) {
			f.add(variable, "%s", line)
		}
	}
}

// linesOf are the faults that an error joins, each with all the words that wrap it.
func linesOf(err error) (lines []string) {
	var inner []error
	switch e := err.(type) { //nolint:errorlint // looks at one link of the chain at a time
	case interface{ Unwrap() []error }:
		inner = e.Unwrap()
	case interface{ Unwrap() error }:
		inner = []error{e.Unwrap()}
	}
	whole := errors.Join(inner...)
	if whole == nil || !strings.HasSuffix(err.Error(), whole.Error()) {
		return strings.Split(err.Error(), "\n")
	}
	for _, each := range inner {
		for _, line := range linesOf(each) {
			lines = append(lines, strings.TrimSuffix(err.Error(), whole.Error())+line)
		}
	}
	return lines
}

func (f *faults) has(variable string) bool {
	return slices.ContainsFunc(*f, func(err error) bool { return strings.HasPrefix(err.Error(), variable+": ") })
}

// Check returns every mistake in the settings, a line each, with the name of the variable. It
// reads the files that they name, and connects to nothing. It has to come before the settings
// are used.
func (s *Settings) Check() error {
	s.warnings = nil
	f := slices.Clone(s.faults)
	s.checkAddresses(&f)
	s.checkIdentity(&f)
	s.checkCallers(&f)
	s.checkModel(&f)
	s.checkSkills(&f)
	s.checkTraces(&f)
	s.checkConnector(&f)
	if s.RedisURL != "" {
		f.ask("REDIS_URL", state.CheckURL(s.RedisURL))
	}
	if s.ResponseFormat != "" && s.Planner != Sequence && !f.has("BOT_PLANNER") {
		f.add("BOT_RESPONSE_FORMAT", "is for the planner sequence, not %s", s.Planner)
	}
	for _, ids := range []struct {
		variable, never, want string
		given                 []string
	}{
		{"BOT_ALLOWED_TENANTS", "@. \t", "id of a tenant, which is a GUID", s.AllowedTenants},
		{"BOT_ALLOWED_USERS", "@. \t", "aadObjectId of a person, which is a GUID", s.AllowedUsers},
		{"BOT_ALLOWED_CHANNELS", " \t", "channelId such as msteams", s.AllowedChannels},
	} {
		for _, id := range ids.given {
			if strings.ContainsAny(id, ids.never) {
				f.add(ids.variable, "%q is no %s", id, ids.want)
			}
		}
	}
	const longestApproval = 30 * 24 * time.Hour // as long as state is kept
	if s.ApprovalTimeout > longestApproval {
		f.add("BOT_APPROVAL_TIMEOUT", "%s is longer than state is kept, which is 720h", s.ApprovalTimeout)
	}
	if s.PromptsReload && s.PromptsDir == "" {
		f.add("BOT_PROMPTS_RELOAD", "needs BOT_PROMPTS_DIR: the embedded prompts do not change")
	}
	s.checkApproval(&f, s.checkPrompts(&f))
	return errors.Join(f...)
}

// Warnings are about what may be meant otherwise; [Settings.Check] finds them.
func (s *Settings) Warnings() []string { return s.warnings }

func (s *Settings) warn(variable, text string) {
	s.warnings = append(s.warnings, variable+": "+text)
}

// Listen is the address of the bot.
func (s *Settings) Listen() string {
	host := ""
	if s.AppID == "" {
		host = "127.0.0.1"
	}
	return cmp.Or(s.Addr, net.JoinHostPort(host, strconv.Itoa(s.Port)))
}

func (s *Settings) checkAddresses(f *faults) {
	if s.NoAuth && s.AppID != "" {
		f.add("BOT_DANGEROUSLY_NO_AUTH", "contradicts MICROSOFT_APP_ID: with an app id callers are checked")
	}
	host, port := hostPort(f, "BOT_ADDR", s.Listen())
	if s.Addr != "" && !f.has("BOT_ADDR") && s.AppID == "" && !s.NoAuth && !loopback(host) {
		f.add("BOT_ADDR", "%s is reachable by others, and without MICROSOFT_APP_ID nobody is checked: set an app id, "+
			"listen on 127.0.0.1, or set BOT_DANGEROUSLY_NO_AUTH=true on a closed network", s.Addr)
	}
	if s.MetricsAddr == "" {
		return
	}
	other, otherPort := hostPort(f, "BOT_METRICS_ADDR", s.MetricsAddr)
	if port == otherPort && port != "0" && overlap(host, other) && !f.has("BOT_METRICS_ADDR") {
		f.add("BOT_METRICS_ADDR", "%s is where the bot itself listens (BOT_ADDR, PORT)", s.MetricsAddr)
	}
}

// hostPort reads host:port, the port without zeros before it.
func hostPort(f *faults, variable, addr string) (host, port string) {
	host, port, err := net.SplitHostPort(addr)
	n, bad := strconv.ParseUint(port, 10, 16)
	if err != nil || bad != nil {
		f.add(variable, "%q is not host:port", addr)
	}
	return host, strconv.FormatUint(n, 10)
}

// overlap reports whether one cannot listen on the same port of both hosts.
func overlap(a, b string) bool {
	all := func(host string) bool {
		ip, err := netip.ParseAddr(host)
		return host == "" || err == nil && ip.IsUnspecified()
	}
	return all(a) || all(b) || strings.EqualFold(a, b) || loopback(a) && loopback(b)
}

// IdentityType is how the bot proves who it is, "" in local mode.
func (s *Settings) IdentityType() string {
	switch {
	case s.AppID == "":
		return ""
	case s.AppType == "" && s.AppTenant != "":
		return SingleTenant
	}
	return cmp.Or(s.AppType, MultiTenant)
}

// setting is one by its variable's name.
type setting struct{ name, value string }

// proofs are the settings that prove who the bot is, of which one is needed.
func (s *Settings) proofs() []setting {
	return slices.DeleteFunc([]setting{
		{"MICROSOFT_APP_PASSWORD", s.AppPassword},
		{"MICROSOFT_APP_CERTIFICATE_FILE", s.AppCertificate},
		{"MICROSOFT_APP_FEDERATED_TOKEN_FILE", s.FederatedFile},
		{"MICROSOFT_APP_FEDERATED_CLIENT_ID", s.FederatedID},
	}, func(one setting) bool { return one.value == "" })
}

func (s *Settings) checkIdentity(f *faults) {
	proofs := s.proofs()
	if s.AppID == "" {
		for _, set := range append(proofs, setting{"MICROSOFT_APP_CERTIFICATE_PASSWORD", s.CertPassword},
			setting{"MICROSOFT_APP_TENANT_ID", s.AppTenant}, setting{"MICROSOFT_APP_TYPE", s.AppType}) {
			if set.value != "" {
				f.add(set.name, "is set, but MICROSOFT_APP_ID is not")
			}
		}
		return
	}
	// What no directory can have given out. Stand-ins of Microsoft's have app ids of all kinds.
	odd := func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }
	for _, id := range []setting{{"MICROSOFT_APP_ID", s.AppID}, {"MICROSOFT_APP_FEDERATED_CLIENT_ID", s.FederatedID}} {
		if len(id.value) > 256 || strings.ContainsFunc(id.value, odd) {
			f.add(id.name, "is no id: it holds white space or control characters, or is longer than 256 bytes")
		}
	}
	if strings.ContainsFunc(s.AppPassword, unicode.IsControl) {
		f.add("MICROSOFT_APP_PASSWORD", "holds control characters, such as the end of a line")
	}
	if !connector.IsGUID(s.AppID) {
		s.warn("MICROSOFT_APP_ID", "it is no GUID, as the app ids are that Microsoft gives out")
	}
	if f.has("MICROSOFT_APP_TYPE") {
		return // what it needs is not known
	}
	kind := s.IdentityType()
	switch tenant := strings.ToLower(s.AppTenant); {
	case kind != SingleTenant:
	case tenant == "":
		f.add("MICROSOFT_APP_TENANT_ID", "is needed for %s", SingleTenant)
	case tenant == "common" || tenant == "organizations" || tenant == "consumers":
		f.add("MICROSOFT_APP_TENANT_ID", "%q is no tenant, and %s needs the bot's", s.AppTenant, SingleTenant)
	}
	if s.CertPassword != "" && s.AppCertificate == "" {
		f.add("MICROSOFT_APP_CERTIFICATE_PASSWORD", "is set, but MICROSOFT_APP_CERTIFICATE_FILE is not")
	}
	for i, p := range proofs {
		switch {
		case kind == ManagedIdentity && p.name != "MICROSOFT_APP_PASSWORD": // which deployments set in any case
			f.add(p.name, "contradicts MICROSOFT_APP_TYPE=%s, which proves itself", ManagedIdentity)
		case kind != ManagedIdentity && i > 0:
			f.add(p.name, "contradicts %s: the bot proves itself in one way", proofs[0].name)
		}
	}
	if kind != ManagedIdentity && len(proofs) == 0 {
		f.add("MICROSOFT_APP_PASSWORD", "is needed for %s, or else MICROSOFT_APP_CERTIFICATE_FILE, "+
			"MICROSOFT_APP_FEDERATED_TOKEN_FILE or MICROSOFT_APP_FEDERATED_CLIENT_ID", kind)
	}
}

// Callers are who may come in beside the channels.
func (s *Settings) Callers() connector.Callers {
	return connector.Callers{Tenant: s.AppTenant, Emulator: s.AllowEmulator, Bots: s.AllowedCallers}
}

// Credentials are how the bot proves who it is.
func (s *Settings) Credentials() connector.Credentials {
	id := connector.Credentials{AppID: s.AppID, Callers: s.Callers()}
	kind := s.IdentityType()
	if kind == SingleTenant {
		id.Tenant = s.AppTenant
	}
	if id.ManagedIdentity = kind == ManagedIdentity; !id.ManagedIdentity {
		id.Password, id.FederatedTokenFile, id.FederatedClientID = s.AppPassword, s.FederatedFile, s.FederatedID
		id.CertificateFile, id.CertificatePassword = s.AppCertificate, s.CertPassword
	}
	return id
}

// ConnectorCloud is the cloud, with what settings say otherwise of it.
func (s *Settings) ConnectorCloud() (connector.Cloud, error) {
	cloud, err := connector.CloudNamed(s.Cloud)
	cloud.MetadataURL = cmp.Or(s.MetadataURL, cloud.MetadataURL)
	cloud.LoginURL = strings.TrimSuffix(cmp.Or(s.LoginURL, cloud.LoginURL), "/")
	return cloud, err
}

func (s *Settings) checkCallers(f *faults) {
	for _, set := range []struct {
		name string
		on   bool
	}{
		{"BOT_ALLOW_EMULATOR", s.AllowEmulator},
		{"BOT_ALLOWED_CALLERS", len(s.AllowedCallers) > 0},
	} {
		switch {
		case !set.on:
		case s.AppID == "":
			f.add(set.name, "is set, but MICROSOFT_APP_ID is not: without one nobody is checked")
		case s.AppTenant == "" && !f.has("MICROSOFT_APP_TENANT_ID"):
			f.add("MICROSOFT_APP_TENANT_ID", "is needed with %s: only tokens of that tenant count", set.name)
		}
	}
}

// checkConnector gives each setting to the connector among values that are good, so that
// faults are listed now and not found at the first use.
func (s *Settings) checkConnector(f *faults) {
	good, err := connector.CloudNamed("")
	if err != nil {
		f.ask("BOT_CLOUD", err)
		return
	}
	tokens := func(variable string, cloud connector.Cloud, edit func(id *connector.Credentials)) {
		id := connector.Credentials{AppID: cmp.Or(s.AppID, "app")}
		edit(&id)
		made, err := connector.NewTokens(cloud, id, nil)
		if err == nil {
			made.Close()
		}
		f.ask(variable, err)
	}
	if s.LoginURL != "" {
		changed := good
		changed.LoginURL = strings.TrimSuffix(s.LoginURL, "/")
		tokens("BOT_LOGIN_URL", changed, func(id *connector.Credentials) { id.Password = "secret" })
	}
	if s.AppTenant != "" {
		tokens("MICROSOFT_APP_TENANT_ID", good, func(id *connector.Credentials) {
			id.Password, id.Tenant = "secret", s.AppTenant
			if s.AllowEmulator || len(s.AllowedCallers) > 0 {
				id.Callers = connector.Callers{Tenant: s.AppTenant, Emulator: true}
			}
		})
	}
	if s.AppCertificate != "" {
		id := connector.Credentials{AppID: "app", CertificateFile: s.AppCertificate, CertificatePassword: s.CertPassword}
		tokens("MICROSOFT_APP_CERTIFICATE_FILE", good, func(of *connector.Credentials) { *of = id })
		if !f.has("MICROSOFT_APP_CERTIFICATE_FILE") {
			if err := id.CheckCertificate(time.Now()); err != nil {
				s.warn("MICROSOFT_APP_CERTIFICATE_FILE", err.Error())
			}
		}
	}
	if s.FederatedFile != "" {
		tokens("MICROSOFT_APP_FEDERATED_TOKEN_FILE", good, func(id *connector.Credentials) { id.FederatedTokenFile = s.FederatedFile })
	}
	if len(s.AllowedCallers) > 0 {
		tokens("BOT_ALLOWED_CALLERS", good, func(id *connector.Credentials) {
			id.Password = "secret"
			id.Callers = connector.Callers{Tenant: "00000000-0000-0000-0000-000000000000", Bots: s.AllowedCallers}
		})
	}
	_, err = connector.NewServiceHosts(good, s.AllowedHosts, false)
	f.ask("BOT_ALLOWED_SERVICE_HOSTS", err)
	if s.MetadataURL != "" {
		good.MetadataURL = s.MetadataURL
		hosts, _ := connector.NewServiceHosts(good, nil, false) // without any others never fails
		guard, err := connector.NewGuard(connector.GuardConfig{AppID: "app", Cloud: good, Hosts: hosts})
		if err == nil {
			guard.Close()
		}
		f.ask("BOT_OPENID_METADATA_URL", err)
	}
}

// Price is that of BOT_MODEL_PRICE.
func (s *Settings) Price() (price models.Price) {
	switch p := s.ModelPrice; len(p) {
	case 2:
		price.Prompt, price.Completion = p[0], p[1]
	case 3:
		price.Prompt, price.Cached, price.Completion = p[0], p[1], p[2]
	}
	return price
}

// Budget is what one turn may use.
func (s *Settings) Budget() actions.Budget {
	return actions.Budget{Messages: s.MaxMessages, Tokens: s.MaxTurnTokens, Cost: s.MaxTurnCost}
}

// online reports whether a real model is set.
func (s *Settings) online() bool {
	return cmp.Or(s.OpenAIKey, s.OpenAIBaseURL, s.AzureEndpoint) != ""
}

func (s *Settings) checkModel(f *faults) {
	if n := len(s.ModelPrice); n != 0 && n != 2 && n != 3 {
		f.add("BOT_MODEL_PRICE", "has %d amounts, want 2 or 3", n)
	}
	if s.MaxTurnCost > 0 && s.ModelPrice == nil {
		f.add("BOT_MAX_TURN_COST", "needs BOT_MODEL_PRICE to know what a turn costs")
	}
	azure := []setting{{"AZURE_OPENAI_API_KEY", s.AzureKey}, {"AZURE_OPENAI_DEPLOYMENT", s.AzureDeployment}, {"AZURE_OPENAI_API_VERSION", s.AzureVersion}}
	for _, set := range azure {
		switch {
		case s.AzureEndpoint == "" && set.value != "":
			f.add(set.name, "is set, but AZURE_OPENAI_ENDPOINT is not")
		case s.AzureEndpoint != "" && set.value == "" && set.name != "AZURE_OPENAI_API_VERSION":
			f.add(set.name, "is needed with AZURE_OPENAI_ENDPOINT")
		}
	}
	if s.OpenAIModel != "" && !s.online() {
		f.add("OPENAI_MODEL", "is set, but neither OPENAI_API_KEY nor OPENAI_BASE_URL is")
	}
	if len(s.FallbackModels) > 0 && !s.online() {
		f.add("BOT_FALLBACK_MODELS", "is set, but none of OPENAI_API_KEY, OPENAI_BASE_URL and AZURE_OPENAI_ENDPOINT is")
	}
	for _, set := range []setting{{"BOT_FALLBACK_BASE_URL", s.FallbackBaseURL}, {"BOT_FALLBACK_API_KEY", s.FallbackKey}} {
		if set.value != "" && len(s.FallbackModels) == 0 {
			f.add(set.name, "is set, but BOT_FALLBACK_MODELS is not")
		}
	}
	if s.online() {
		s.checkServers(f)
	}
}

// checkServers makes every model of the chain and gives each fault to the variable that it
// came from.
func (s *Settings) checkServers(f *faults) {
	first := s.firstModel()
	shared := map[string]string{
		"MaxTokensField": "BOT_MAX_TOKENS_FIELD", "ReasoningEffort": "BOT_REASONING_EFFORT", "SystemMessages": "BOT_MODEL_SYSTEM_MESSAGES",
		"Azure.Endpoint": "AZURE_OPENAI_ENDPOINT", "Azure.Key": "AZURE_OPENAI_API_KEY", "Azure.Deployment": "AZURE_OPENAI_DEPLOYMENT",
	}
	f.askModel(first, shared, "OPENAI_BASE_URL", "OPENAI_API_KEY", "OPENAI_MODEL")
	for i, name := range s.FallbackModels {
		switch own := s.FallbackBaseURL != "" || s.FallbackKey != ""; {
		case own && i == 0: // the others differ in their names only
			f.askModel(s.behind(first, name), shared, "BOT_FALLBACK_BASE_URL", "BOT_FALLBACK_API_KEY", "BOT_FALLBACK_MODELS")
		case !own && s.AzureEndpoint != "": // what is shared with the first model was judged with it
			next := models.OpenAIConfig{Azure: models.Azure{Endpoint: "https://azure.example", Key: "k", Deployment: name}}
			f.askModel(next, nil, "", "", "BOT_FALLBACK_MODELS")
		}
	}
}

// askModel names the variable of each field that has a fault. What has none of its own is
// otherwise's.
func (f *faults) askModel(cfg models.OpenAIConfig, shared map[string]string, baseURL, key, otherwise string) {
	model, err := models.NewOpenAI(cfg)
	if err == nil {
		_ = model.Close() // never fails
		return
	}
	known := slices.Clone(*f) // so that one variable may have several faults now
	for line := range strings.Lines(strings.TrimPrefix(err.Error(), "openai config: ")) {
		field, text, found := strings.Cut(strings.TrimSpace(line), ": ")
		if name, missing := strings.CutPrefix(field, "no "); missing && !found {
			field, _, _ = strings.Cut(name, " ")
			text = "is needed"
		}
		variable := cmp.Or(shared[field], map[string]string{"BaseURL": baseURL, "Key": key}[field], otherwise)
		text = strings.ReplaceAll(cmp.Or(text, line), "BaseURL", "OPENAI_BASE_URL") // the one that a text tells people to use
		if variable == otherwise || !known.has(variable) {
			f.add(variable, "%s", text)
		}
	}
}

// skillTools are the words of BOT_SKILLS_APPROVAL.
var skillTools = map[string][]string{
	"load": {skills.LoadSkill}, "read": {skills.ReadResource}, "run": {skills.RunScript},
	"all": {skills.LoadSkill, skills.ReadResource, skills.RunScript}, "none": {},
}

// ApprovedTools are the tools of skills of which a person has to approve each call.
func (s *Settings) ApprovedTools() []string {
	if s.SkillsApproval == nil {
		return skillTools["run"]
	}
	tools := []string{}
	for _, word := range s.SkillsApproval {
		tools = append(tools, skillTools[strings.ToLower(word)]...)
	}
	return tools
}

// SkillDirs are the folders of BOT_SKILLS_DIR.
func (s *Settings) SkillDirs() []string {
	return slices.DeleteFunc(filepath.SplitList(s.SkillsDir), func(dir string) bool { return strings.TrimSpace(dir) == "" })
}

func (s *Settings) checkSkills(f *faults) {
	for _, word := range s.SkillsApproval {
		switch _, ok := skillTools[strings.ToLower(word)]; {
		case !ok:
			f.add("BOT_SKILLS_APPROVAL", "%q is none of load, read, run, all and none", word)
		case len(s.SkillsApproval) > 1 && (strings.EqualFold(word, "all") || strings.EqualFold(word, "none")):
			f.add("BOT_SKILLS_APPROVAL", "%s says it for all three, so it stands alone", word)
		}
	}
	dirs := s.SkillDirs()
	for _, dir := range dirs {
		if info, err := os.Stat(dir); err != nil && !s.SkillsReload || err == nil && !info.IsDir() {
			f.add("BOT_SKILLS_DIR", "%q is no folder", dir)
		}
	}
	for variable, set := range map[string]bool{
		"BOT_SKILLS_LENIENT": s.SkillsLenient, "BOT_SKILLS_LINKS": s.SkillsLinks, "BOT_SKILLS_RELOAD": s.SkillsReload, "BOT_SKILLS_APPROVAL": s.SkillsApproval != nil,
	} {
		if set && len(dirs) == 0 {
			f.add(variable, "needs BOT_SKILLS_DIR: there are no skills without it")
		}
	}
}

// checkTraces finds what OpenTelemetry would pass over with a warning.
func (s *Settings) checkTraces(f *faults) {
	if s.OTelDisabled || s.OTelExporter == "none" {
		return
	}
	for _, header := range s.OTelHeaders {
		if !httpguts.ValidHeaderFieldName(header[0]) || !httpguts.ValidHeaderFieldValue(header[1]) {
			f.add("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "cannot be the headers of a request")
			break
		}
	}
	if s.OTelCertificate != "" {
		pem, err := os.ReadFile(s.OTelCertificate)
		if err != nil {
			f.add("OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", "%q cannot be read", s.OTelCertificate)
		} else if !x509.NewCertPool().AppendCertsFromPEM(pem) {
			f.add("OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", "%q holds no certificate in PEM", s.OTelCertificate)
		}
	}
	if s.OTelSamplerArg != 1 && !strings.HasSuffix(s.OTelSampler, "traceidratio") && !f.has("OTEL_TRACES_SAMPLER_ARG") {
		f.add("OTEL_TRACES_SAMPLER_ARG", "is for the samplers traceidratio and parentbased_traceidratio")
	}
	for _, name := range []string{ // which the SDK reads by itself
		"OTEL_BSP_SCHEDULE_DELAY", "OTEL_BSP_EXPORT_TIMEOUT", "OTEL_BSP_MAX_QUEUE_SIZE", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE",
		"OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", "OTEL_ATTRIBUTE_COUNT_LIMIT", "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT",
		"OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "OTEL_SPAN_EVENT_COUNT_LIMIT", "OTEL_SPAN_LINK_COUNT_LIMIT",
		"OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT", "OTEL_LINK_ATTRIBUTE_COUNT_LIMIT",
	} {
		value := os.Getenv(name)
		n, err := strconv.ParseInt(value, 10, 32)
		if value != "" && (err != nil || n < 0 || n == 0 && strings.HasPrefix(name, "OTEL_BSP_")) {
			f.add(name, "%q is no whole number that it could be", value)
		}
	}
}

// Actions are those of the bot.
func (s *Settings) Actions() *actions.Registry {
	registry := actions.New()
	if s.Register != nil {
		s.Register(registry)
	}
	return registry
}

// checkPrompts makes the actions that are prompts, and renders the prompt of the planner as
// it will. Where the folder has faults it goes on with what could be read. It returns all
// actions that there are.
func (s *Settings) checkPrompts(f *faults) *actions.Registry {
	registry := s.Actions()
	if s.PromptsDir == "" {
		return registry
	}
	if info, err := os.Stat(s.PromptsDir); err != nil || !info.IsDir() {
		f.add("BOT_PROMPTS_DIR", "%q is no folder", s.PromptsDir)
		return registry
	}
	library, err := prompts.Load(s.PromptsDir)
	if library == nil {
		f.ask("BOT_PROMPTS_DIR", err)
		return registry
	}
	cfg := planner.Config{
		Model: models.Offline{}, Prompts: library, Actions: registry, ResponseFormat: s.ResponseFormat,
		Named: func(string) (models.Model, error) { return models.Offline{}, nil },
	}
	faulty := addPromptActions(cfg)
	_, misfit := newPlanner(context.Background(), s.Planner, cfg)
	f.ask("BOT_PROMPTS_DIR", errors.Join(err, unused(library), faulty, misfit))
	return registry
}

// unused finds prompts that this bot would never use: more often than not their names are
// misspelt.
func unused(library *prompts.Library) error {
	var faults []error
	for _, name := range library.Unused(Planners()...) {
		meant := ""
		for _, known := range Planners() {
			if spelling.Edits(strings.ToLower(name), known) <= 2 {
				meant = "; did you mean " + known + "?"
				break
			}
		}
		faults = append(faults, fmt.Errorf("prompt %s: nothing uses it, as it is neither %s nor an action (config.json without input.parameters)%s",
			name, strings.Join(Planners(), ", "), meant))
	}
	return errors.Join(faults...)
}

// checkApproval finds the actions of BOT_APPROVAL_ACTIONS that there are not, and spells the
// others as they are registered.
func (s *Settings) checkApproval(f *faults, registry *actions.Registry) {
	s.ApprovalActions = slices.Clone(s.ApprovalActions)
	for i, name := range s.ApprovalActions {
		if action, ok := registry.Lookup(name); ok {
			s.ApprovalActions[i] = action.Name
			continue
		}
		hint := ""
		for word, tools := range skillTools {
			if len(tools) == 1 && strings.EqualFold(tools[0], name) {
				hint = ": for this action of skills it is BOT_SKILLS_APPROVAL=" + word
			}
		}
		f.add("BOT_APPROVAL_ACTIONS", "there is no action %q%s", name, hint)
	}
}

// Secrets are the values that nobody may see.
func (s *Settings) Secrets() (all []string) {
	v := reflect.ValueOf(s).Elem()
	for i := range v.NumField() {
		if v.Type().Field(i).Tag.Get("secret") == "" {
			continue
		}
		switch value := v.Field(i).Interface().(type) {
		case string:
			all = append(all, value)
		case [][2]string:
			for _, pair := range value {
				all = append(all, pair[1])
			}
		}
	}
	if u, err := url.Parse(s.RedisURL); err == nil && u.User != nil {
		password, _ := u.User.Password()
		all = append(all, password)
	}
	return slices.DeleteFunc(all, func(secret string) bool { return secret == "" })
}

// IsSet lists those of the variables that have another value than the default.
func (s *Settings) IsSet(variables ...string) (set []string) {
	v := reflect.ValueOf(s).Elem()
	for _, variable := range variables {
		field := v.Field(fieldOf(variable))
		was := reflect.New(field.Type()).Elem()
		tag := v.Type().Field(fieldOf(variable)).Tag
		if read(tag.Get("default"), tag, was) == nil && !reflect.DeepEqual(field.Interface(), was.Interface()) {
			set = append(set, variable)
		}
	}
	return set
}

// fieldOf is the field of the variable, -1 when there is none.
func fieldOf(variable string) int {
	fields := reflect.TypeFor[Settings]()
	for i := range fields.NumField() {
		if slices.Contains(strings.Split(fields.Field(i).Tag.Get("env"), ","), variable) && variable != "" {
			return i
		}
	}
	return -1
}
