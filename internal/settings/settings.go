// Package settings reads the settings of a bot from the environment and flags, checks them all at
// once, and makes the model, the planner and the skills that they describe. It is for app, and for
// tools that evaluate a bot without running it.
package settings

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/hashicorp/go-envparse"
	"github.com/spf13/pflag"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/connector"
	"github.com/planbot-go/planbot/internal/entra"
	"github.com/planbot-go/planbot/internal/loopback"
	"github.com/planbot-go/planbot/internal/markdown"
	"github.com/planbot-go/planbot/internal/spelling"
	"github.com/planbot-go/planbot/internal/texts"
	"github.com/planbot-go/planbot/internal/titles"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner"
	"github.com/planbot-go/planbot/prompts"
	"github.com/planbot-go/planbot/state"
)

// Settings are all settings of a bot. Their names are a contract. The env tag names the variable.
// The other tags say which values are allowed (oneof, min, max, url), the default (default, else),
// and that the value must not be shown (secret). The ten that most bots need are common. See
// [Settings.Load].
type Settings struct {
	Port     int    `env:"PORT" common:"true" default:"3978" min:"0" max:"65535" help:"port to listen on; BOT_ADDR wins"`
	Addr     string `env:"BOT_ADDR" else:"127.0.0.1 and the port; with an app id all interfaces" help:"host:port to listen on; without an app id only loopback"`
	PageAddr string `env:"BOT_PAGE_ADDR" else:"where it listens" help:"host:port at which browsers of this machine reach the bot, if a program passes requests on to it; bot dev sets it"`
	NoAuth   bool   `env:"BOT_DANGEROUSLY_NO_AUTH" help:"true: no app id, yet reachable by others; for closed networks only"`

	AppID          string `env:"MICROSOFT_APP_ID,MicrosoftAppId" common:"true" else:"local mode" help:"app id of the bot; without it nobody is checked, and only this machine may connect"`
	AppPassword    string `env:"MICROSOFT_APP_PASSWORD,MicrosoftAppPassword" common:"true" secret:"true" needs:"MICROSOFT_APP_ID" help:"client secret"`
	AppCertificate string `env:"MICROSOFT_APP_CERTIFICATE_FILE" needs:"MICROSOFT_APP_ID" help:"certificate with its RSA key instead of a client secret: PEM, or PKCS#12 as openssl pkcs12 -legacy writes it"`
	CertPassword   string `env:"MICROSOFT_APP_CERTIFICATE_PASSWORD" secret:"true" needs:"MICROSOFT_APP_CERTIFICATE_FILE" help:"password of a PKCS#12 file"`
	FederatedFile  string `env:"MICROSOFT_APP_FEDERATED_TOKEN_FILE" needs:"MICROSOFT_APP_ID" help:"token of a workload identity instead of a client secret; on AKS the path in AZURE_FEDERATED_TOKEN_FILE"`
	FederatedID    string `env:"MICROSOFT_APP_FEDERATED_CLIENT_ID" needs:"MICROSOFT_APP_ID" help:"client id of a managed identity that the app registration trusts, instead of a client secret"`
	AppTenant      string `env:"MICROSOFT_APP_TENANT_ID,MicrosoftAppTenantId" common:"true" needs:"MICROSOFT_APP_ID" help:"id of the bot's tenant; SingleTenant, BOT_ALLOW_EMULATOR and BOT_ALLOWED_CALLERS need it"`
	AppType        string `env:"MICROSOFT_APP_TYPE,MicrosoftAppType" oneof:"SingleTenant,MultiTenant,UserAssignedMSI" else:"SingleTenant" needs:"MICROSOFT_APP_ID" help:"SingleTenant, MultiTenant or UserAssignedMSI"`
	Cloud          string `env:"BOT_CLOUD" oneof:"public,gcch,dod,china" else:"public" help:"public, gcch, dod or china"`

	MetadataURL    string   `env:"BOT_OPENID_METADATA_URL" url:"https" else:"by cloud" help:"keys of channel tokens"`
	LoginURL       string   `env:"BOT_LOGIN_URL" url:"https" else:"by cloud" help:"where the bot's own tokens come from"`
	TokenURL       string   `env:"BOT_TOKEN_URL" url:"https" else:"by cloud; in local mode none" help:"the token service that signs people in, such as https://europe.token.botframework.com for data residency"`
	AllowedHosts   []string `env:"BOT_ALLOWED_SERVICE_HOSTS" else:"the cloud's connector hosts; in local mode loopback" help:"more hosts (host, host:port or .domain, comma separated) that may get replies, and with them the bot's token"`
	AllowEmulator  bool     `env:"BOT_ALLOW_EMULATOR" needs:"MICROSOFT_APP_ID" help:"true: accept the Emulator and the Agents Playground with tokens of the bot's own app; for development"`
	AllowedCallers []string `env:"BOT_ALLOWED_CALLERS" needs:"MICROSOFT_APP_ID" help:"app ids of bots of the same tenant that may call this one as a skill, comma separated"`

	AllowedTenants  []string `env:"BOT_ALLOWED_TENANTS" else:"all" help:"tenants whose people may talk to the bot, comma separated; only Teams proves tenants and people"`
	AllowedUsers    []string `env:"BOT_ALLOWED_USERS" else:"all" help:"people by aadObjectId, comma separated"`
	AllowedChannels []string `env:"BOT_ALLOWED_CHANNELS" else:"all" help:"channels such as msteams, comma separated"`

	RedisURL string `env:"REDIS_URL" common:"true" else:"embedded, forgets at exit" help:"where state lives"`
	DataDir  string `env:"BOT_DATA_DIR" common:"true" else:"none" help:"folder where state lives instead: the bot runs redis-server or valkey-server there; for one process"`
	State    string `env:"BOT_STATE" oneof:"embedded" else:"none" help:"embedded: state lives in the process, which forgets it at exit; say so with an app id and neither of the two above"`

	Model           string `env:"BOT_MODEL" oneof:"offline" else:"none" help:"offline: no language model, only the phrases of the actions; say so with an app id and no model"`
	OpenAIKey       string `env:"OPENAI_API_KEY" common:"true" secret:"true" help:"key of OpenAI or of a compatible server"`
	OpenAIBaseURL   string `env:"OPENAI_BASE_URL" common:"true" url:"http" else:"OpenAI's" help:"such as http://127.0.0.1:11434/v1"`
	OpenAIModel     string `env:"OPENAI_MODEL" common:"true" else:"gpt-6-luna of OpenAI; at other servers default, which those with one model ignore" needs:"OPENAI_API_KEY,OPENAI_BASE_URL,AZURE_OPENAI_ENDPOINT" help:"model"`
	AzureEndpoint   string `env:"AZURE_OPENAI_ENDPOINT" url:"https" help:"https://NAME.openai.azure.com; wins over OpenAI"`
	AzureKey        string `env:"AZURE_OPENAI_API_KEY" secret:"true" needs:"AZURE_OPENAI_ENDPOINT" else:"the Entra identity of the process" help:"Azure key"`
	AzureDeployment string `env:"AZURE_OPENAI_DEPLOYMENT" needs:"AZURE_OPENAI_ENDPOINT" help:"Azure deployment"`
	AzureVersion    string `env:"AZURE_OPENAI_API_VERSION" else:"2024-10-21" needs:"AZURE_OPENAI_ENDPOINT" help:"Azure API version"`

	FallbackModels  []string `env:"BOT_FALLBACK_MODELS" needs:"OPENAI_API_KEY,OPENAI_BASE_URL,AZURE_OPENAI_ENDPOINT" help:"models (on Azure deployments) to try in this order when the first cannot answer, comma separated"`
	FallbackBaseURL string   `env:"BOT_FALLBACK_BASE_URL" url:"http" else:"the first model's; with a key of their own OpenAI's" needs:"BOT_FALLBACK_MODELS" help:"server of the fallback models"`
	FallbackKey     string   `env:"BOT_FALLBACK_API_KEY" secret:"true" else:"on the first model's server that one's" needs:"BOT_FALLBACK_MODELS" help:"key of that server; it never gets the first model's"`

	ModelRetries    int           `env:"BOT_MODEL_RETRIES" default:"3" min:"0" max:"255" help:"retries of the last model"`
	ModelMaxWait    time.Duration `env:"BOT_MODEL_MAX_WAIT" default:"20s" help:"how long one call may wait between tries"`
	ModelStream     bool          `env:"BOT_MODEL_STREAM" help:"true: stream, for gateways that close quiet connections"`
	ReasoningEffort string        `env:"BOT_REASONING_EFFORT" else:"not sent; none for OpenAI's gpt-6-luna" help:"how much a reasoning model thinks: minimal, low, medium, high or another word that it knows"`
	SystemMessages  string        `env:"BOT_MODEL_SYSTEM_MESSAGES" oneof:"anywhere,first,nowhere" else:"anywhere" help:"where the server takes system messages: anywhere, first or nowhere"`
	MaxTokensField  string        `env:"BOT_MAX_TOKENS_FIELD" oneof:"max_completion_tokens,max_tokens" else:"max_completion_tokens" help:"the server's name for the token limit; max_tokens for old servers such as Ollama"`

	ModelSees       bool          `env:"BOT_MODEL_SEES" needs:"OPENAI_API_KEY,OPENAI_BASE_URL,AZURE_OPENAI_ENDPOINT" help:"true: the model and its fallbacks take pictures; prompts with include_images show it those in messages"`
	TranscribeModel string        `env:"BOT_TRANSCRIBE_MODEL" else:"none" needs:"OPENAI_API_KEY,OPENAI_BASE_URL,AZURE_OPENAI_ENDPOINT" help:"model of the same server (on Azure a deployment) that writes down voice messages, such as whisper-1"`
	Attachments     string        `env:"BOT_ATTACHMENTS" oneof:"shown,actions" default:"shown" help:"shown: the model gets people's files, pictures and voice messages, and people are told what is left out; actions: only actions get them"`
	FilesKeep       time.Duration `env:"BOT_FILES_KEEP" default:"1h" min:"0" help:"how long texts of files are kept for later messages of a personal chat; 0: not at all"`

	Planner        string `env:"BOT_PLANNER" oneof:"sequence,sequential,tools" else:"sequence" help:"sequence (JSON), sequential (XML) or tools (function calling)"`
	ResponseFormat string `env:"BOT_RESPONSE_FORMAT" oneof:"json_schema,json_object,text" else:"json_schema, or what the server takes" help:"json_schema, json_object or text, for the planner sequence"`
	PromptsDir     string `env:"BOT_PROMPTS_DIR" else:"embedded" help:"folder of prompts that replace or add to ours"`
	PromptsReload  bool   `env:"BOT_PROMPTS_RELOAD" needs:"BOT_PROMPTS_DIR" help:"true: reload on change; for development"`

	InstructionsFile string `env:"BOT_INSTRUCTIONS_FILE" else:"the bot's own" help:"file that says who the bot is, what it is for and how it talks; at most 64 KiB"`

	MaxTurns       int `env:"BOT_MAX_TURNS" else:"1024" help:"turns at work in this process at once"`
	MaxWaiting     int `env:"BOT_MAX_WAITING" else:"10000" help:"waiting messages; beyond that, the channel has to retry"`
	MaxWaitingEach int `env:"BOT_MAX_WAITING_PER_CONVERSATION" else:"256" help:"the same for one conversation"`
	MaxConnections int `env:"BOT_MAX_CONNECTIONS" else:"10000" help:"open connections; beyond that, a new one closes the one that has gone longest without an authenticated request"`
	MaxRequests    int `env:"BOT_MAX_REQUESTS" else:"4096" help:"requests at once; beyond that, the channel has to retry"`

	MaxSteps      int       `env:"BOT_MAX_STEPS" else:"25" help:"calls of actions in one turn"`
	MaxMessages   int       `env:"BOT_MAX_MESSAGES" else:"20" help:"SAYs of all plans of one turn"`
	MaxSameCalls  int       `env:"BOT_MAX_SAME_CALLS" else:"no limit" help:"how often a turn may make the same call"`
	MaxTurnTokens int       `env:"BOT_MAX_TURN_TOKENS" else:"no limit" help:"tokens that one turn may use"`
	MaxTurnCost   float64   `env:"BOT_MAX_TURN_COST" else:"no limit" needs:"BOT_MODEL_PRICE" help:"cost of one turn"`
	ModelPrice    []float64 `env:"BOT_MODEL_PRICE" else:"not known" help:"per 1M tokens: prompt[,cached],completion"`

	HistoryTurns   int  `env:"BOT_HISTORY_TURNS" else:"5" max:"100" help:"earlier turns of a conversation that the model sees"`
	HistoryTokens  int  `env:"BOT_HISTORY_TOKENS" else:"4000" help:"tokens that these may have; the oldest turns go first"`
	HistorySummary bool `env:"BOT_HISTORY_SUMMARY" needs:"OPENAI_API_KEY,OPENAI_BASE_URL,AZURE_OPENAI_ENDPOINT" help:"true: after a reply, the model sums up older turns instead of forgetting them; that is one more model call for each BOT_HISTORY_TURNS turns"`

	UserTurns    int `env:"BOT_USER_TURNS_PER_MINUTE" else:"no limit" help:"messages of one person for which a model is asked, across all replicas"`
	UserTokens   int `env:"BOT_USER_TOKENS_PER_DAY" else:"no limit" help:"tokens of one person's turns"`
	TenantTurns  int `env:"BOT_TENANT_TURNS_PER_MINUTE" else:"no limit" help:"the same for all people of a tenant"`
	TenantTokens int `env:"BOT_TENANT_TOKENS_PER_DAY" else:"no limit" help:"the same for all people of a tenant"`

	FilteredText     string        `env:"BOT_FILTERED_TEXT" else:"one sentence" help:"reply when a filter stops a turn"`
	CommandsOff      []string      `env:"BOT_COMMANDS_OFF" oneof:"/stop,/reset,/mydata,/forget,/signout" help:"built-in commands to switch off: /stop, /reset, /mydata, /forget, /signout, comma separated"`
	Feedback         bool          `env:"BOT_FEEDBACK" help:"true: ask in Teams what people think of replies"`
	PictureHosts     []string      `env:"BOT_PICTURE_HOSTS" else:"none" help:"hosts (comma separated) from which pictures in replies may come; others become their words"`
	Stream           string        `env:"BOT_STREAM" oneof:"auto,true,false" else:"auto: true without an app id, else false" help:"true: show in personal chats what the bot is doing, and answers while the model writes them"`
	ApprovalActions  []string      `env:"BOT_APPROVAL_ACTIONS" help:"actions that need approval, comma separated"`
	Approvers        []string      `env:"BOT_APPROVERS" else:"who asked" help:"who may approve, by id or aadObjectId, comma separated; who is not in the conversation is asked in their own chat"`
	ApprovalTimeout  time.Duration `env:"BOT_APPROVAL_TIMEOUT" default:"24h" help:"when an approval expires, at most 720h"`
	ApprovalReminder string        `env:"BOT_APPROVAL_REMINDER" else:"nobody is reminded" help:"when in the day approvers are reminded of what waits, such as 09:00"`
	AuditKeep        time.Duration `env:"BOT_AUDIT_KEEP" else:"no audit" needs:"REDIS_URL,BOT_DATA_DIR" help:"how long bot audit keeps approvals and action calls with effects, such as 720h"`
	AuditKeys        string        `env:"BOT_AUDIT_KEYS" secret:"true" else:"the audit is not signed" help:"keys that sign where the audit ends: 32 bytes each in base64, comma separated; the first signs, all verify"`
	TurnsKeep        time.Duration `env:"BOT_TURNS_KEEP" else:"they are not kept" help:"how long bot turns find can tell when a turn was, for whom and how it ended, without content, such as 168h; at most 100,000 turns"`

	Steer           bool `env:"BOT_STEER" help:"true: what a person writes while a plan runs joins that turn before it plans again"`
	ThreadsTogether bool `env:"BOT_THREADS_TOGETHER" help:"true: all threads of a channel are answered one after another"`

	Burst        time.Duration `env:"BOT_BURST" else:"it does not wait" help:"how long a message waits for others of the same person, to answer them together, such as 1s, at most 10s"`
	TurnTimeout  time.Duration `env:"BOT_TURN_TIMEOUT" default:"5m" help:"how long one turn may take"`
	DrainTimeout time.Duration `env:"BOT_DRAIN_TIMEOUT" default:"20s" help:"how long stopping may take, turns included"`
	LogLevel     string        `env:"BOT_LOG_LEVEL" oneof:"trace,debug,info,warn,error,disabled" else:"info" help:"trace, debug, info, warn, error or disabled"`
	LogFormat    string        `env:"BOT_LOG_FORMAT" oneof:"json,console" else:"console on a terminal, else json" help:"json or console"`

	// Parts are the settings of the features that this bot has, Unread those of all that there are.
	Parts  []Part
	Unread []Unread

	Bot Bot // that has these settings

	File     string   // that describes Bot, see package botfile; "": a program does
	Keep     []string // of the actions that Bot registers, if File is set
	LockFile string   // where accepted definitions are; "": actions.lock
	Hidden   []string // more secrets, see Secrets
	Notes    []string // more warnings, see Warnings
	EnvFile  string   // that was read, see ReadEnvFile; "": none
	Frozen   bool     // prompts and skills stay what they are, whatever reloads say
	Proven   bool     // people's tenants are proven, though there is no AppID
	SignsIn  bool     // connections need people's tokens from OAuth connections of the Azure Bot

	// Connected are the services that [Settings.Connect] has opened.
	Connected []actions.Connection
	// Count counts what their actions are used for. nil: nothing does.
	Count    func(metric, label string)
	faults   faults            // in single values
	wiring   []error           // mistakes in the code of the program
	texts    map[string]string // what flags have set variables to
	inFile   map[string]string // what the file has set variables to
	warnings []string
	typos    []string // variables that may be misspelled settings
	leftOut  []string // variables that the file of the bot sets, and no feature reads
}

// Part is the settings of a feature. They stand behind those that every bot has.
type Part struct {
	Feature string // its name
	// Values points at a struct with the tags of [Settings]. nil: none.
	Values any
	// Check returns what is wrong with them, a line for each mistake with its variable. nil: nothing is.
	Check func(*Settings) error
	// Register adds actions to the bot's. nil: there are none.
	Register func(*Settings, *actions.Registry)
	// Plan adds to what a planner is made of. nil: nothing.
	Plan func(context.Context, *Settings, *planner.Config) error
	// Extend does so, too, once the settings are right. nil: nothing.
	Extend func(context.Context, *Settings, *planner.Config) error
}

// Own returns the settings of the feature that keeps its own in a T; nil if the bot lacks the feature.
func Own[T any](s *Settings) *T {
	for _, p := range s.Parts {
		if values, ok := p.Values.(*T); ok {
			return values
		}
	}
	return nil
}

// clone is a copy that shares no settings, with features either.
func (s *Settings) clone() *Settings {
	other := *s
	other.Parts = slices.Clone(s.Parts)
	for i, p := range s.Parts {
		if p.Values != nil {
			values := reflect.New(reflect.TypeOf(p.Values).Elem())
			values.Elem().Set(reflect.ValueOf(p.Values).Elem())
			other.Parts[i].Values = values.Interface()
		}
	}
	return &other
}

// Fault adds a mistake in the code of the program to those of [Settings.Check].
func (s *Settings) Fault(err error) { s.wiring = append(s.wiring, err) }

// Wiring returns the mistakes in the code of the program.
func (s *Settings) Wiring() error { return errors.Join(s.wiring...) }

// Add adds the settings of a feature. If something in its struct cannot be a setting, that is a mistake, and none of
// the struct is read.
func (s *Settings) Add(p Part) {
	if err := s.checkPart(p.Values); err != nil {
		s.Fault(fmt.Errorf("app.Feature %s: Settings: %w", p.Feature, err))
		p.Values = nil
	}
	s.Parts = append(s.Parts, p)
	if p.Values == nil {
		return
	}
	for field, value := range reflect.ValueOf(p.Values).Elem().Fields() { // for a bot that reads no environment
		if names := variablesOf(field); names != nil && value.IsZero() {
			s.set(names[0], "", field.Tag, value)
		}
	}
}

var variableName = regexp.MustCompile(`^[A-Z][A-Z0-9_]*$`)

// checkPart returns what is wrong with a struct of settings; nil is none.
func (s *Settings) checkPart(values any) error {
	if values == nil {
		return nil
	}
	of := reflect.ValueOf(values)
	if of.Kind() != reflect.Pointer || of.Elem().Kind() != reflect.Struct {
		return fmt.Errorf("%T is no pointer to a struct", values)
	}
	var all []error
	taken := append(s.Variables(), "HELP", "HELP_ALL", "ENV_FILE") // whose flags every command has
	for field := range of.Elem().Type().Fields() {
		fault := func(format string, args ...any) {
			all = append(all, fmt.Errorf("the field "+field.Name+": "+format, args...))
		}
		variables := variablesOf(field)
		switch {
		case variables == nil && field.Tag.Get("help") == "":
			continue
		case variables == nil:
			fault("has no tag env")
			continue
		case !field.IsExported():
			fault("is not exported")
		case !variableName.MatchString(variables[0]):
			fault("%q is no variable such as COFFEE_CUPS", variables[0])
		case slices.Contains(taken, variables[0]):
			fault("there is a setting %s already", variables[0])
		case field.Tag.Get("help") == "":
			fault("has no tag help")
		}
		taken = append(taken, variables...)
		for _, bound := range []string{"min", "max"} {
			if text := field.Tag.Get(bound); text != "" {
				if _, err := strconv.ParseFloat(text, 64); err != nil {
					fault("the tag %s: %q is no number", bound, text)
				}
			}
		}
		into := reflect.New(field.Type).Elem()
		if err := Parse("", field.Tag, into); err != nil {
			fault("%w", err)
		} else if err := Parse(field.Tag.Get("default"), field.Tag, into); err != nil {
			fault("the tag default: %w", err)
		}
	}
	return errors.Join(all...)
}

// featureOf returns the name of the feature that reads a variable; "" if every bot does.
func (s *Settings) featureOf(variable string) string {
	for _, p := range s.Parts {
		if p.Values == nil {
			continue
		}
		for field := range reflect.TypeOf(p.Values).Elem().Fields() {
			if slices.Contains(variablesOf(field), variable) {
				return p.Feature
			}
		}
	}
	return ""
}

// Unread is a setting of a feature. A bot that lacks the feature warns if the setting is there.
type Unread struct {
	Variable, Feature string
	Protects          bool // the bot does not start, in place of the warning
}

// checkUnread reports settings that are for a feature which this bot does not have.
func (s *Settings) checkUnread(f *faults) {
	known := s.Variables()
	for _, u := range s.Unread {
		if slices.Contains(known, u.Variable) || s.lookUp([]string{u.Variable}) == "" && !slices.Contains(s.leftOut, u.Variable) {
			continue
		}
		text := fmt.Sprintf("this bot has no %s: %s is set and nobody reads it", u.Feature, u.Variable)
		if u.Protects {
			*f = append(*f, errors.New(text))
			continue
		}
		s.warnings = append(s.warnings, text)
	}
}

// fields are the settings, with their values: those that every bot has, and those of its features.
func (s *Settings) fields() iter.Seq2[reflect.StructField, reflect.Value] {
	return func(yield func(reflect.StructField, reflect.Value) bool) {
		of := []any{s}
		for _, p := range s.Parts {
			if p.Values != nil {
				of = append(of, p.Values)
			}
		}
		for _, one := range of {
			for field, value := range reflect.ValueOf(one).Elem().Fields() {
				if variablesOf(field) != nil && !yield(field, value) {
					return
				}
			}
		}
	}
}

// Bot is the part of app.Bot that settings need. Each field has the name and type that it has
// there.
type Bot struct {
	Name         string
	Instructions string
	Register     func(*actions.Registry)
	Examples     []string
	Memory       bool
	Planner      string
	Prompts      fs.FS
	Counter      prompts.Counter
	Functions    map[string]func(context.Context, *actions.Turn, []string) (any, error)
	Texts        map[string]map[string]string
	Connections  func(ctx context.Context, count func(metric, label string)) ([]actions.Connection, error)
}

// BotOf returns that part of b, an app.Bot. It panics if b lacks a field.
func BotOf(b any) (of Bot) {
	for field, value := range reflect.ValueOf(&of).Elem().Fields() {
		value.Set(reflect.ValueOf(b).FieldByName(field.Name))
	}
	return of
}

// The values of MICROSOFT_APP_TYPE.
const (
	singleTenant    = "SingleTenant"
	multiTenant     = "MultiTenant"
	managedIdentity = "UserAssignedMSI"
)

// The values of BOT_PLANNER.
const (
	Sequence   = "sequence"
	sequential = "sequential"
	tools      = "tools"
)

// Planners returns the names of the planners, and of their prompts.
func Planners() []string { return []string{Sequence, sequential, tools} }

// Common marks, as an annotation of their flags, the settings that help shows without being asked for
// all of them.
const Common = "common"

// AddFlags adds a flag for each setting, named like its variable. [Settings.Load] reads them.
func (s *Settings) AddFlags(flags *pflag.FlagSet) {
	for field := range s.fields() {
		variables := variablesOf(field)
		name := cmp.Or(field.Tag.Get("name"), strings.ToLower(strings.ReplaceAll(variables[0], "_", "-")))
		flag := flags.VarPF(&flagged{of: s, variable: variables[0], field: field}, name, "", field.Tag.Get("help")+" ($"+variables[0]+")"+without(field.Tag.Get("else")))
		if field.Type.Kind() == reflect.Bool {
			flag.NoOptDefVal = "true"
		}
		if field.Tag.Get("common") != "" {
			flag.Annotations = map[string][]string{Common: nil}
		}
	}
}

// without says in help what is done without the setting.
func without(otherwise string) string {
	if otherwise == "" || otherwise == "none" {
		return ""
	}
	return " (default " + otherwise + ")"
}

// flagged is the flag of a setting. It keeps the text for [Settings.Load], so that a wrong value is
// told with all the others.
type flagged struct {
	of       *Settings
	variable string
	field    reflect.StructField
}

// Set is part of [pflag.Value].
func (f *flagged) Set(text string) error {
	if f.of.texts == nil {
		f.of.texts = map[string]string{}
	}
	f.of.texts[f.variable] = text
	return nil
}

func (f *flagged) String() string {
	if f == nil { // as pflag makes one to know what is no default
		return ""
	}
	return f.field.Tag.Get("default")
}

// Type returns what help calls a value.
func (f *flagged) Type() string { return TypeName(f.field.Type) }

// TypeName is what help calls a value of that type.
func TypeName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return TypeName(t.Elem())
	case reflect.Slice:
		return "list"
	case reflect.Float64:
		return "number"
	}
	return strings.ToLower(t.Name())
}

// Load sets every setting to what its flag says, else the environment, else the file of
// [Settings.ReadEnvFile], else to its default. White
// space around a value is dropped; an empty value is unset. A wrong value is not an error yet, so
// that [Settings.Check] can report all of them.
func (s *Settings) Load() {
	var known []string
	for field, value := range s.fields() {
		variables := variablesOf(field)
		known = append(known, variables...)
		s.checkSpellings(variables)
		text, ok := s.texts[variables[0]]
		if !ok {
			text = s.lookUp(variables)
		}
		s.set(variables[0], text, field.Tag, value)
	}
	s.typos = s.misspelled(known)
}

// variablesOf are the variables of a field, the first one is its name. nil: it is no setting.
func variablesOf(field reflect.StructField) []string {
	if names := field.Tag.Get("env"); names != "" {
		return strings.Split(names, ",")
	}
	return nil
}

const maxEnvFile = 64 << 10 // limits the size of such a file

// notInFiles are the settings that decide whose tokens count. A file that lies beside a program must
// not switch authentication off.
var notInFiles = []string{"BOT_DANGEROUSLY_NO_AUTH", "BOT_OPENID_METADATA_URL", "BOT_LOGIN_URL"}

// ofTeams are the names that Microsoft's command line for Teams writes, and the settings that they are.
var ofTeams = map[string]string{
	"CLIENT_ID": "MICROSOFT_APP_ID", "CLIENT_SECRET": "MICROSOFT_APP_PASSWORD", "TENANT_ID": "MICROSOFT_APP_TENANT_ID",
}

// ReadEnvFile reads settings from a file with lines NAME=value. They count for what neither a flag nor
// the environment sets. Call it before [Settings.Load].
func (s *Settings) ReadEnvFile(path string) error {
	file, err := os.Open(path) //nolint:gosec // a file that the operator names
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // opened to read only
	raw, err := io.ReadAll(io.LimitReader(file, maxEnvFile+1))
	if err != nil {
		return err
	}
	if len(raw) > maxEnvFile {
		return fmt.Errorf("read %s: has more than %d bytes", path, maxEnvFile)
	}
	values, n := map[string]string{}, 0
	for line := range bytes.Lines(bytes.TrimPrefix(raw, []byte("\ufeff"))) {
		n++
		pair, err := envparse.Parse(bytes.NewReader(line))
		if fault, ok := errors.AsType[*envparse.ParseError](err); ok {
			s.faults.add(fmt.Sprintf("%s:%d", path, n), "%v", fault.Err)
		}
		maps.Copy(values, pair)
	}
	s.EnvFile = path
	for _, name := range notInFiles {
		if strings.TrimSpace(values[name]) != "" {
			s.faults.add(name, "counts only from a flag or the environment, not from %s", path)
		}
		delete(values, name)
	}
	id := cmp.Or(s.texts["MICROSOFT_APP_ID"], fromEnvironment([]string{"MICROSOFT_APP_ID", "MicrosoftAppId"}))
	for name, variable := range ofTeams {
		if values[variable] == "" && (id == "" || id == values["CLIENT_ID"]) { // or else they are those of another app
			values[variable] = values[name]
		}
	}
	s.inFile = values
	return nil
}

// lookUp returns what the environment sets one of the variables to, or else the file.
func (s *Settings) lookUp(variables []string) string {
	if value := fromEnvironment(variables); value != "" {
		return value
	}
	for _, name := range variables {
		if value := strings.TrimSpace(s.inFile[name]); value != "" {
			return value
		}
	}
	return ""
}

// fromEnvironment is the value of the first of the variables that has one.
func fromEnvironment(variables []string) string {
	for _, name := range variables {
		if value := strings.TrimSpace(os.Getenv(name)); value != "" {
			return value
		}
	}
	return ""
}

// misspelled names the variables that look like one of the known ones: those of the file, and of the environment
// those that begin with BOT_, or as the settings of features of the program's own do. Others are somebody else's.
func (s *Settings) misspelled(known []string) (typos []string) {
	names, prefixes := slices.Collect(maps.Keys(s.inFile)), []string{"BOT"}
	for _, variable := range known {
		prefix, _, _ := strings.Cut(variable, "_")
		shipped := func(u Unread) bool { return u.Variable == variable }
		if !slices.Contains(prefixes, prefix) && !slices.ContainsFunc(s.Unread, shipped) && s.featureOf(variable) != "" {
			prefixes = append(prefixes, prefix)
		}
	}
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		prefix, _, _ := strings.Cut(name, "_")
		if _, also := s.inFile[name]; !also && slices.Contains(prefixes, prefix) {
			names = append(names, name)
		}
	}
	for _, name := range names {
		if _, ofTeams := ofTeams[name]; ofTeams || slices.Contains(known, name) || len(name) > 64 {
			continue
		}
		if meant := spelling.Meant(name, known); meant != "" {
			typos = append(typos, name+": there is no such setting; did you mean "+meant+"?")
		}
	}
	slices.Sort(typos)
	return typos
}

// checkSpellings reports two spellings of one setting with different values: one of them would be
// ignored silently. OpenTelemetry's variables are not spellings; one takes precedence over the other.
func (s *Settings) checkSpellings(names []string) {
	letters := func(name string) string { return strings.ToLower(strings.ReplaceAll(name, "_", "")) }
	first := strings.TrimSpace(os.Getenv(names[0]))
	for _, name := range names {
		value := strings.TrimSpace(os.Getenv(name))
		if value != "" && first != "" && value != first && letters(name) == letters(names[0]) {
			s.faults.add(names[0], "and %s differ, and both are spellings of one setting", name)
		}
	}
}

// set sets a field, and records what is wrong with the value.
func (s *Settings) set(variable, text string, tags reflect.StructTag, into reflect.Value) {
	if err := Parse(cmp.Or(strings.TrimSpace(text), tags.Get("default")), tags, into); err != nil {
		for _, line := range Lines(err) {
			s.faults.add(variable, "%s", line)
		}
	}
}

// Environ returns what flags and the file have set as variables, NAME=value, for another process that
// has the environment of this one. Values may be secret.
func (s *Settings) Environ() (list []string) {
	for variable, text := range s.texts {
		list = append(list, variable+"="+text)
	}
	for field := range s.fields() {
		variables := variablesOf(field)
		if fromEnvironment(variables) != "" {
			continue
		}
		if _, flagged := s.texts[variables[0]]; !flagged && s.lookUp(variables) != "" {
			list = append(list, variables[0]+"="+s.lookUp(variables))
		}
	}
	slices.Sort(list)
	return list
}

// Default sets settings, by variable, that neither a flag nor the environment has set.
func (s *Settings) Default(values map[string]string) {
	for variable, text := range values {
		field, value := s.field(variable)
		if field.Name == "" {
			s.leftOut = append(s.leftOut, variable)
			continue
		}
		variables := variablesOf(field)
		if _, flagged := s.texts[variables[0]]; !flagged && s.lookUp(variables) == "" {
			s.set(variables[0], text, field.Tag, value)
		}
	}
}

// ErrUnknown is what [CheckValue] returns if there is no such setting.
var ErrUnknown = errors.New("there is no such setting")

// Variables returns the variables of all settings.
func (s *Settings) Variables() (all []string) {
	for field := range s.fields() {
		all = append(all, variablesOf(field)...)
	}
	return all
}

// CheckValue says what is wrong with a value of the setting with that variable.
func (s *Settings) CheckValue(variable, text string) error {
	field, _ := s.field(variable)
	if field.Name == "" {
		return ErrUnknown
	}
	return Parse(strings.TrimSpace(text), field.Tag, reflect.New(field.Type).Elem())
}

// Secret reports whether that value of a setting must not be shown.
func (s *Settings) Secret(variable, text string) bool {
	field, _ := s.field(variable)
	if u, err := url.Parse(text); err == nil && u.User != nil {
		if _, has := u.User.Password(); has {
			return true
		}
	}
	return field.Tag.Get("secret") != ""
}

// Parse parses a text into a field by its type and tags, see [Settings].
func Parse(text string, tags reflect.StructTag, into reflect.Value) (err error) {
	into.SetZero()
	switch into := into.Addr().Interface().(type) {
	case *string, *bool, *int, *float64, *time.Duration, *[]string, *[]float64, *[][2]string:
	default:
		return fmt.Errorf("no setting is a %T", reflect.ValueOf(into).Elem().Interface())
	}
	if text == "" {
		return nil
	}
	switch into := into.Addr().Interface().(type) {
	case *string:
		if *into, err = oneOf(text, tags); err != nil {
			return err
		}
		return checkURL(text, tags.Get("url"))
	case *bool:
		if *into, err = strconv.ParseBool(text); err != nil {
			return fmt.Errorf("%q is neither true nor false", text)
		}
	case *int:
		n, err := strconv.ParseUint(text, 10, 31)
		least, _ := strconv.ParseUint(cmp.Or(tags.Get("min"), "1"), 10, 31)
		most, unbounded := strconv.ParseUint(tags.Get("max"), 10, 31)
		if err != nil || n < least || unbounded == nil && n > most {
			to := cmp.Or(tags.Get("max"), "2147483647")
			return fmt.Errorf("%q is not a whole number from %d to %s", text, least, to)
		}
		*into = int(n)
	case *float64:
		*into, err = amount(text, tags)
		return err
	case *time.Duration:
		if *into, err = time.ParseDuration(text); err != nil || *into < 0 || *into == 0 && tags.Get("min") != "0" {
			return fmt.Errorf("%q is not a positive duration such as 30s or 5m", text)
		}
	case *[]string:
		if *into = list(text); *into == nil {
			return fmt.Errorf("%q is an empty list", text) // an empty list often means everybody
		}
		for i, one := range *into {
			word, unknown := oneOf(one, tags)
			(*into)[i], err = word, errors.Join(err, unknown)
		}
		return err
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

// oneOf returns the word of the tag that the text is, or the text if every text is allowed.
func oneOf(text string, tags reflect.StructTag) (string, error) {
	words := strings.Split(tags.Get("oneof"), ",")
	if words[0] == "" {
		return text, nil
	}
	i := slices.IndexFunc(words, func(word string) bool { return strings.EqualFold(word, text) })
	if i < 0 {
		return "", fmt.Errorf("%q is not one of %s", text, strings.Join(words, ", "))
	}
	return words[i], nil
}

func amount(text string, tags reflect.StructTag) (float64, error) {
	most, err := strconv.ParseFloat(cmp.Or(tags.Get("max"), "1e12"), 64)
	n, bad := strconv.ParseFloat(text, 64)
	if err != nil || bad != nil || !(n >= 0 && n <= most) {
		return 0, fmt.Errorf("%q is not a number such as 0.15, from 0 to %v", text, most)
	}
	return n, nil
}

func list(value string) (all []string) {
	for entry := range strings.SplitSeq(value, ",") {
		if entry = strings.TrimSpace(entry); entry != "" {
			all = append(all, entry)
		}
	}
	return all
}

// checkURL accepts an absolute URL. With the scheme https, plain http is allowed for loopback only.
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
	case scheme == "https" && u.Scheme != "https" && !loopback.IsHost(u.Hostname()):
		return errors.New("has to be https")
	}
	if n, err := strconv.ParseUint(cmp.Or(u.Port(), "1"), 10, 16); err != nil || n == 0 {
		return errors.New("has a port that is not a number from 1 to 65535")
	}
	return nil
}

// Keys are those of a setting, separated by commas. The error does not show them.
func Keys(variable, text string) (keys [][]byte, err error) {
	for one := range strings.SplitSeq(text, ",") {
		if one = strings.TrimSpace(one); one == "" {
			continue
		}
		key, fault := base64.StdEncoding.DecodeString(one)
		if fault != nil || len(key) != 32 {
			return nil, fmt.Errorf("%s: key %d is not 32 bytes in base64, as openssl rand -base64 32 writes them", variable, len(keys)+1)
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// faults are mistakes, each with its variable.
type faults []error

// add adds a mistake unless it is already there.
func (f *faults) add(variable, format string, args ...any) {
	text := variable + ": " + fmt.Sprintf(format, args...)
	if !slices.ContainsFunc(*f, func(err error) bool { return err.Error() == text }) {
		*f = append(*f, errors.New(text))
	}
}

// ask adds what a parser said about the variable, one fault per line, unless the variable already
// has a fault.
func (f *faults) ask(variable string, err error) {
	if err != nil && !f.has(variable) {
		for _, line := range Lines(err) {
			f.add(variable, "%s", line)
		}
	}
}

// Lines returns the errors that err joins, each with its wrapping text.
func Lines(err error) (lines []string) {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, each := range joined.Unwrap() {
			lines = append(lines, Lines(each)...)
		}
		return lines
	}
	inner := errors.Unwrap(err)
	if inner == nil || !strings.HasSuffix(err.Error(), inner.Error()) {
		return strings.Split(err.Error(), "\n")
	}
	for _, line := range Lines(inner) {
		lines = append(lines, strings.TrimSuffix(err.Error(), inner.Error())+line)
	}
	return lines
}

func (f *faults) has(variable string) bool {
	return slices.ContainsFunc(*f, func(err error) bool { return strings.HasPrefix(err.Error(), variable+": ") })
}

// Text returns the value of a setting as a text that would set it; "" if nothing sets it and it has no
// default, or there is no such setting.
func (s *Settings) Text(variable string) string {
	field, value := s.field(variable)
	if field.Name == "" || value.IsZero() {
		return ""
	}
	if words, ok := value.Interface().([]string); ok {
		return strings.Join(words, ",")
	}
	return fmt.Sprint(value.Interface())
}

// Faulty reports whether the value of a setting could not be read.
func (s *Settings) Faulty(variable string) bool { return s.faults.has(variable) }

// Check returns every mistake in the settings, one per line, with the name of the variable. It
// reads the files that they name and does not connect to anything. Call it before you use the
// settings.
func (s *Settings) Check() error {
	s.warnings = slices.Concat(s.typos, s.Notes)
	f := slices.Concat(s.faults, s.wiring)
	if own := s.Bot.Planner; own != "" && !slices.Contains(Planners(), own) {
		f.add("app.Bot.Planner", "there is no planner %q%s", own, spelling.Hint(own, Planners()))
		s.Planner = cmp.Or(s.Planner, Sequence)
	}
	s.Planner = cmp.Or(s.Planner, s.Bot.Planner, Sequence)
	s.checkNeeds(&f)
	s.checkUnread(&f)
	s.checkAddresses(&f)
	s.checkIdentity(&f)
	s.checkCallers(&f)
	s.checkConnector(&f)
	s.checkModels(&f)
	s.checkExplicit(&f)
	if s.RedisURL != "" {
		store, err := state.Open(context.Background(), s.RedisURL, state.Config{}) // dials nothing
		if err == nil {
			err = store.Close()
		}
		f.ask("REDIS_URL", err)
	}
	s.checkDataDir(&f)
	if s.ResponseFormat != "" && s.Planner != Sequence && !f.has("BOT_PLANNER") {
		f.add("BOT_RESPONSE_FORMAT", "is for the planner sequence, not %s", s.Planner)
	}
	if _, err := Keys("BOT_AUDIT_KEYS", s.AuditKeys); err != nil {
		f.add("BOT_AUDIT_KEYS", "%s", strings.TrimPrefix(err.Error(), "BOT_AUDIT_KEYS: "))
	}
	if _, err := time.Parse("15:04", s.ApprovalReminder); s.ApprovalReminder != "" && err != nil {
		f.add("BOT_APPROVAL_REMINDER", "%q is no time of day such as 09:00", s.ApprovalReminder)
	}
	for _, host := range s.PictureHosts {
		if !markdown.IsHost(host) {
			f.add("BOT_PICTURE_HOSTS", "%q is no host such as pictures.example.com", host)
		}
	}
	for _, id := range s.Approvers {
		switch { // nobody could press the buttons, or anybody who takes that name
		case strings.Contains(id, "@") && !strings.HasPrefix(id, "19:"), strings.ContainsAny(id, " \t"):
			f.add("BOT_APPROVERS", "%.80q is a name, not an id or aadObjectId", id)
		case !strings.Contains(id, ":") && !isGUID.MatchString(id): // an id on other channels; in Teams the bot says that it reaches nobody
			s.warnings = append(s.warnings, fmt.Sprintf("BOT_APPROVERS: %.80q is neither an aadObjectId, which is a GUID, nor an id of Teams", id))
		}
	}
	if s.Burst < 0 || s.Burst > 10*time.Second {
		f.add("BOT_BURST", "%s is not between 0s and 10s", s.Burst)
	}
	if s.ApprovalTimeout > 720*time.Hour {
		f.add("BOT_APPROVAL_TIMEOUT", "%s is longer than state is kept, which is 720h", s.ApprovalTimeout)
	}
	if n := len(s.ModelPrice); n != 0 && n != 2 && n != 3 {
		f.add("BOT_MODEL_PRICE", "has %d amounts, want 2 or 3", n)
	}
	if _, err := s.Instructions(); err != nil {
		f = append(f, err)
	}
	if s.Bot.Register != nil && strings.TrimSpace(s.Bot.Name) == "" {
		f = append(f, errors.New("app.Bot has no Name"))
	}
	if i := slices.IndexFunc(s.Bot.Examples, func(text string) bool { return strings.TrimSpace(text) == "" }); i >= 0 {
		f.add("app.Bot.Examples", "number %d is empty", i+1)
	}
	for _, line := range Lines(planner.CheckFunctions(s.Bot.Functions)) {
		f = append(f, errors.New("app.Bot."+line))
	}
	if _, err := texts.New(s.Bot.Texts); err != nil {
		f = append(f, err)
	}
	registry := s.checkPrompts(&f)
	f.ask("actions", registry.Check())
	s.checkApproval(&f, registry)
	s.checkTexts(registry)
	for _, p := range s.Parts {
		if p.Check != nil {
			f = append(f, p.Check(s))
		}
	}
	return errors.Join(f...)
}

const (
	// DataSocket is the name of the server's socket in BOT_DATA_DIR.
	DataSocket    = "redis.sock"
	maxSocketPath = 103 // what every Unix has room for
)

// DataServer finds the program that keeps state in BOT_DATA_DIR.
func DataServer() (path string, err error) {
	for _, name := range []string{"redis-server", "valkey-server"} {
		if path, err = exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("needs redis-server or valkey-server on PATH (on Debian and Ubuntu the package redis-server or valkey)")
}

func (s *Settings) checkDataDir(f *faults) {
	if s.DataDir == "" {
		return
	}
	if s.RedisURL != "" {
		f.add("BOT_DATA_DIR", "contradicts REDIS_URL: state lives in one place")
	}
	full, err := filepath.Abs(s.DataDir)
	if err != nil {
		f.add("BOT_DATA_DIR", "%v", err)
		return
	}
	s.DataDir = full
	if n := len(filepath.Join(full, DataSocket)); n > maxSocketPath {
		f.add("BOT_DATA_DIR", "is %d bytes too long for the path of a socket", n-maxSocketPath)
	}
	if info, err := os.Stat(full); err == nil && !info.IsDir() {
		f.add("BOT_DATA_DIR", "%s is not a folder", full)
	}
	if _, err := DataServer(); err != nil {
		f.add("BOT_DATA_DIR", "%v", err)
	}
}

// Warnings returns settings that are allowed but probably not intended; [Settings.Check] finds
// them.
func (s *Settings) Warnings() []string { return s.warnings }

// Typos returns the warnings about variables that may be misspelled settings.
func (s *Settings) Typos() []string { return s.typos }

// checkNeeds reports settings that have no effect without another one.
func (s *Settings) checkNeeds(f *faults) {
	known := s.Variables()
	for _, u := range s.Unread {
		known = append(known, u.Variable)
	}
	isSet := func(variable string) bool {
		_, value := s.field(variable)
		return f.has(variable) || !value.IsZero()
	}
	for field, value := range s.fields() {
		needed := strings.Split(field.Tag.Get("needs"), ",")
		unknown := func(variable string) bool { return !slices.Contains(known, variable) }
		if i := slices.IndexFunc(needed, unknown); needed[0] != "" && i >= 0 {
			f.add(field.Tag.Get("env"), "the tag needs: there is no setting %s", needed[i])
		}
		if needed[0] != "" && !value.IsZero() && !slices.ContainsFunc(needed, isSet) {
			variable, _, _ := strings.Cut(field.Tag.Get("env"), ",")
			f.add(variable, "needs %s", strings.Join(needed, " or "))
		}
	}
}

// Listen returns the address of the bot.
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
	host, _ := hostPort(f, "BOT_ADDR", s.Listen())
	if s.Addr != "" && !f.has("BOT_ADDR") && s.AppID == "" && !s.NoAuth && !loopback.IsHost(host) {
		f.add("BOT_ADDR", "%s is reachable by others, and without MICROSOFT_APP_ID nobody is checked: set an app id, "+
			"listen on 127.0.0.1, or set BOT_DANGEROUSLY_NO_AUTH=true on a closed network", s.Addr)
	}
	if s.PageAddr != "" {
		hostPort(f, "BOT_PAGE_ADDR", s.PageAddr)
	}
}

// CheckBeside returns what is wrong with the address of a server beside the bot's own.
func (s *Settings) CheckBeside(variable, addr string) error {
	var f faults
	other, otherPort := hostPort(&f, variable, addr)
	host, port := hostPort(&faults{}, "BOT_ADDR", s.Listen())
	// If two addresses have the same port, one on all interfaces conflicts with the other.
	all := func(host string) bool { return host == "" || host == "0.0.0.0" || host == "::" }
	same := all(host) || all(other) || strings.EqualFold(host, other) || loopback.IsHost(host) && loopback.IsHost(other)
	if same && port == otherPort && port != 0 && len(f) == 0 {
		f.add(variable, "%s is where the bot itself listens (BOT_ADDR, PORT)", addr)
	}
	return errors.Join(f...)
}

// Login is the login service of the cloud, where people sign in.
func (s *Settings) Login() string {
	switch {
	case s.LoginURL != "":
		return s.LoginURL
	case s.Cloud == "gcch", s.Cloud == "dod":
		return "https://login.microsoftonline.us"
	case s.Cloud == "china":
		return "https://login.partner.microsoftonline.cn"
	}
	return "https://login.microsoftonline.com"
}

func hostPort(f *faults, variable, addr string) (host string, port uint64) {
	host, text, err := net.SplitHostPort(addr)
	port, bad := strconv.ParseUint(text, 10, 16)
	if err != nil || bad != nil {
		f.add(variable, "%q is not host:port", addr)
	}
	return host, port
}

// IdentityType is how the bot authenticates, "" in local mode.
func (s *Settings) IdentityType() string {
	if s.AppID == "" {
		return ""
	}
	return cmp.Or(s.AppType, singleTenant) // no other kind of bot can be registered with a secret since 2025
}

func (s *Settings) checkIdentity(f *faults) {
	if s.AppID == "" {
		return
	}
	// No directory issues such ids. Stand-ins for Microsoft's have app ids of all kinds.
	odd := func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }
	if len(s.AppID) > 256 || strings.ContainsFunc(s.AppID, odd) {
		f.add("MICROSOFT_APP_ID", "is not an id: it holds white space or control characters, or is longer than 256 bytes")
	} else if !isGUID.MatchString(s.AppID) {
		s.warnings = append(s.warnings, "MICROSOFT_APP_ID: it is not a GUID, as app ids of Microsoft are")
	}
	if strings.ContainsFunc(s.FederatedID, odd) {
		f.add("MICROSOFT_APP_FEDERATED_CLIENT_ID", "is not an id: it holds white space or control characters")
	}
	if strings.ContainsFunc(s.AppPassword, unicode.IsControl) {
		f.add("MICROSOFT_APP_PASSWORD", "holds control characters, such as the end of a line")
	}
	if f.has("MICROSOFT_APP_TYPE") {
		return // its requirements are unknown
	}
	kind := s.IdentityType()
	switch tenant := strings.ToLower(s.AppTenant); {
	case kind != singleTenant:
	case tenant == "" && s.AppType == "":
		f.add("MICROSOFT_APP_TENANT_ID", "is needed: the id of the tenant that the bot is registered in; an older bot of many tenants sets MICROSOFT_APP_TYPE")
	case tenant == "":
		f.add("MICROSOFT_APP_TENANT_ID", "is needed for %s", singleTenant)
	case tenant == "common" || tenant == "organizations" || tenant == "consumers":
		f.add("MICROSOFT_APP_TENANT_ID", "%q is not a tenant, and %s needs the bot's", s.AppTenant, singleTenant)
	}
	first := "" // the credential of the bot
	for _, proof := range [][2]string{
		{"MICROSOFT_APP_PASSWORD", s.AppPassword},
		{"MICROSOFT_APP_CERTIFICATE_FILE", s.AppCertificate},
		{"MICROSOFT_APP_FEDERATED_TOKEN_FILE", s.FederatedFile},
		{"MICROSOFT_APP_FEDERATED_CLIENT_ID", s.FederatedID},
	} {
		switch variable := proof[0]; {
		case proof[1] == "":
		case kind == managedIdentity && variable != "MICROSOFT_APP_PASSWORD": // deployments set it in any case
			f.add(variable, "contradicts MICROSOFT_APP_TYPE=%s, which proves itself", managedIdentity)
		case kind != managedIdentity && first != "":
			f.add(variable, "contradicts %s: the bot proves itself in one way", first)
		default:
			first = variable
		}
	}
	if kind != managedIdentity && first == "" {
		f.add("MICROSOFT_APP_PASSWORD", "is needed for %s, or else MICROSOFT_APP_CERTIFICATE_FILE, "+
			"MICROSOFT_APP_FEDERATED_TOKEN_FILE or MICROSOFT_APP_FEDERATED_CLIENT_ID", kind)
	}
}

var isGUID = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)

// Connector configures the connector: who the bot is and whom it talks to.
func (s *Settings) Connector() connector.Config {
	cfg := connector.Config{
		AppID: s.AppID, Cloud: s.Cloud, MetadataURL: s.MetadataURL, LoginURL: s.LoginURL, TokenURL: s.TokenURL, AllowedHosts: s.AllowedHosts,
		Callers: connector.Callers{Tenant: s.AppTenant, Emulator: s.AllowEmulator, Bots: s.AllowedCallers},
	}
	if s.AppID == "" {
		return cfg
	}
	id, kind := &cfg.Credentials, s.IdentityType()
	if kind == singleTenant {
		id.Tenant = s.AppTenant
	}
	if id.ManagedIdentity = kind == managedIdentity; !id.ManagedIdentity {
		id.Password, id.FederatedTokenFile, id.FederatedClientID = s.AppPassword, s.FederatedFile, s.FederatedID
		id.CertificateFile, id.CertificatePassword = s.AppCertificate, s.CertPassword
	}
	return cfg
}

// checkCallers passes each setting about callers to the connector, with valid values for the rest,
// so faults show up now and not at first use.
func (s *Settings) checkCallers(f *faults) {
	callers := s.AllowEmulator || len(s.AllowedCallers) > 0
	if callers && s.AppID != "" && s.AppTenant == "" && !f.has("MICROSOFT_APP_TENANT_ID") {
		f.add("MICROSOFT_APP_TENANT_ID", "is needed with BOT_ALLOW_EMULATOR and BOT_ALLOWED_CALLERS")
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
				f.add(ids.variable, "%q is not the %s", id, ids.want)
			} else if strings.HasSuffix(ids.want, "a GUID") && !isGUID.MatchString(id) {
				s.warnings = append(s.warnings, fmt.Sprintf("%s: %q is not the %s", ids.variable, id, ids.want))
			}
		}
	}
}

// checkConnector passes each setting to the connector, with valid values for the rest, so faults
// show up now and not at first use.
func (s *Settings) checkConnector(f *faults) {
	check := func(variable string, edit func(cfg *connector.Config)) {
		cfg := connector.Config{AppID: cmp.Or(s.AppID, "app"), Credentials: connector.Credentials{Password: "secret"}}
		edit(&cfg)
		_, _, err := connector.New(cfg)
		f.ask(variable, err)
	}
	check("BOT_CLOUD", func(cfg *connector.Config) { cfg.Cloud = s.Cloud })
	check("BOT_LOGIN_URL", func(cfg *connector.Config) { cfg.LoginURL = s.LoginURL })
	check("BOT_TOKEN_URL", func(cfg *connector.Config) { cfg.TokenURL = s.TokenURL })
	check("BOT_OPENID_METADATA_URL", func(cfg *connector.Config) { cfg.MetadataURL = s.MetadataURL })
	check("BOT_ALLOWED_SERVICE_HOSTS", func(cfg *connector.Config) { cfg.AllowedHosts = s.AllowedHosts })
	check("MICROSOFT_APP_TENANT_ID", func(cfg *connector.Config) {
		cfg.Credentials.Tenant = s.AppTenant
		if s.AppTenant != "" && (s.AllowEmulator || len(s.AllowedCallers) > 0) {
			cfg.Callers = connector.Callers{Tenant: s.AppTenant, Emulator: true}
		}
	})
	check("BOT_ALLOWED_CALLERS", func(cfg *connector.Config) {
		cfg.Callers = connector.Callers{Tenant: "00000000-0000-0000-0000-000000000000", Bots: s.AllowedCallers}
	})
	if s.FederatedFile != "" {
		check("MICROSOFT_APP_FEDERATED_TOKEN_FILE", func(cfg *connector.Config) {
			cfg.Credentials = connector.Credentials{FederatedTokenFile: s.FederatedFile}
		})
	}
	if s.AppCertificate != "" {
		check("MICROSOFT_APP_CERTIFICATE_FILE", func(cfg *connector.Config) {
			cfg.Credentials = connector.Credentials{CertificateFile: s.AppCertificate, CertificatePassword: s.CertPassword}
		})
	}
}

// checkExplicit refuses a bot with an app id that has no model, or forgets everything at exit,
// unless the settings say so.
func (s *Settings) checkExplicit(f *faults) {
	for _, c := range []struct{ variable, value, meaning, instead string }{
		{"BOT_MODEL", "offline", "answers fixed phrases only", "OPENAI_API_KEY,OPENAI_BASE_URL,AZURE_OPENAI_ENDPOINT"},
		{"BOT_STATE", "embedded", "forgets everything at exit", "REDIS_URL,BOT_DATA_DIR"},
	} {
		_, given := s.field(c.variable)
		instead := strings.Split(c.instead, ",")
		set := slices.DeleteFunc(slices.Clone(instead), func(name string) bool {
			_, value := s.field(name)
			return value.IsZero()
		})
		switch {
		case f.has(c.variable), c.variable == "BOT_STATE" && s.Text("BOT_PAGE_KEEP") != "": // bot dev keeps the state
		case !given.IsZero() && len(set) > 0:
			f.add(c.variable, "%s contradicts %s", c.value, strings.Join(set, ", "))
		case given.IsZero() && len(set) == 0 && s.AppID != "":
			f.add(c.variable, "with an app id (MICROSOFT_APP_ID), set %s; or set %s=%s for a bot that %s",
				strings.Join(instead, " or "), c.variable, c.value, c.meaning)
		}
	}
}

// Policy asks for approval of calls of these actions. next decides about the others.
func Policy(names []string, next actions.Policy) actions.Policy {
	return func(ctx context.Context, turn *actions.Turn, call actions.Call) (actions.Approval, error) {
		decided, err := next(ctx, turn, call)
		decided.Required = decided.Required || slices.Contains(names, call.Action.Name)
		return decided, err
	}
}

// Price returns BOT_MODEL_PRICE.
func (s *Settings) Price() (price [3]float64) {
	switch p := s.ModelPrice; len(p) {
	case 2:
		price = [3]float64{p[0], p[0], p[1]}
	case 3:
		price = [3]float64(p)
	}
	return price
}

// Budget is what one turn may use.
func (s *Settings) Budget() actions.Budget {
	return actions.Budget{Messages: s.MaxMessages, Tokens: s.MaxTurnTokens, Cost: s.MaxTurnCost}
}

// checkModels makes every model and reports each fault under the variable that caused it.
func (s *Settings) checkModels(f *faults) {
	variables := map[string]string{
		"Key": "OPENAI_API_KEY", "BaseURL": "OPENAI_BASE_URL", "Model": "OPENAI_MODEL", "MaxTokensField": "BOT_MAX_TOKENS_FIELD",
		"ReasoningEffort": "BOT_REASONING_EFFORT", "SystemMessages": "BOT_MODEL_SYSTEM_MESSAGES", "AzureEndpoint": "AZURE_OPENAI_ENDPOINT",
		"AzureKey": "AZURE_OPENAI_API_KEY", "AzureDeployment": "AZURE_OPENAI_DEPLOYMENT",
	}
	if s.EntraID() {
		_, err := entra.Token(s.Cloud, nil)
		f.ask("AZURE_TOKEN_CREDENTIALS", err)
	}
	known := slices.Clone(*f)
	for i, cfg := range s.modelConfigs() {
		if i == 1 {
			variables["Model"], variables["AzureDeployment"] = "BOT_FALLBACK_MODELS", "BOT_FALLBACK_MODELS"
			if s.FallbackBaseURL != "" || s.FallbackKey != "" {
				variables["Key"], variables["BaseURL"] = "BOT_FALLBACK_API_KEY", "BOT_FALLBACK_BASE_URL"
			}
		}
		_, err := models.NewOpenAI(cfg)
		if err == nil {
			continue
		}
		for line := range strings.Lines(strings.TrimPrefix(err.Error(), "openai config: ")) {
			field, text, _ := strings.Cut(strings.TrimSpace(line), ": ")
			if missing, is := strings.CutPrefix(field, "no "); is {
				field, _, _ = strings.Cut(missing, " ")
				text = "is needed"
			}
			text = strings.ReplaceAll(text, "BaseURL", "OPENAI_BASE_URL") // the variable that an error text tells people to use
			if !known.has(variables[field]) {
				f.add(variables[field], "%s", text)
			}
		}
	}
}

// Actions returns the bot's actions. Its Check lists what is wrong with them.
func (s *Settings) Actions() *actions.Registry {
	registry := actions.New()
	registry.Collect = true
	if s.Bot.Register != nil {
		s.Bot.Register(registry)
	}
	if s.Keep != nil && registry.Check() == nil {
		offers := make([]actions.Offer, len(s.Keep))
		for i, name := range s.Keep {
			offers[i].Name = name
		}
		registry, _ = registry.Only(offers...) // they were looked up there
		registry.Collect = true
	}
	for _, p := range s.Parts {
		if p.Register != nil {
			p.Register(s, registry)
		}
	}
	return registry
}

const maxInstructions = 64 << 10 // limits the bytes of the instructions

// Instructions returns the text of BOT_INSTRUCTIONS_FILE or, if that is not set, the bot's own
// instructions. The error names the source.
func (s *Settings) Instructions() (text string, err error) {
	source, file := "app.Bot.Instructions", s.InstructionsFile
	raw := s.Bot.Instructions
	if file != "" {
		source = "BOT_INSTRUCTIONS_FILE"
		raw, err = readInstructions(file)
	}
	text = strings.TrimSpace(strings.ReplaceAll(strings.TrimPrefix(raw, "\ufeff"), "\r\n", "\n"))
	switch {
	case err != nil:
	case len(raw) > maxInstructions:
		err = fmt.Errorf("longer than %d KiB", maxInstructions>>10)
	case !utf8.ValidString(text):
		err = errors.New("not UTF-8")
	case file != "" && text == "":
		err = fmt.Errorf("%q is empty", file)
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", source, err)
	}
	return text, nil
}

// readInstructions reads a file, but no more than one byte over the limit.
func readInstructions(name string) (text string, err error) {
	info, err := os.Stat(name)
	if err == nil && !info.Mode().IsRegular() { // a pipe would block
		err = fmt.Errorf("%q is not a file", name)
	}
	if err != nil {
		return "", err
	}
	file, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }() // read only
	raw, err := io.ReadAll(io.LimitReader(file, maxInstructions+1))
	return string(raw), err
}

// checkPrompts makes the prompt actions and renders the planner's prompt. If the folder has faults,
// it continues with what could be read. It returns all actions.
func (s *Settings) checkPrompts(f *faults) *actions.Registry {
	registry := s.Actions()
	if s.PromptsDir == "" && s.Bot.Prompts == nil {
		return registry
	}
	if info, err := os.Stat(s.PromptsDir); s.PromptsDir != "" && (err != nil || !info.IsDir()) {
		f.add("BOT_PROMPTS_DIR", "%q is not a folder", s.PromptsDir)
		return registry
	}
	from := "BOT_PROMPTS_DIR"
	if s.PromptsDir == "" {
		from = cmp.Or(s.File, "app.Bot.Prompts")
	}
	library, err := s.loadPrompts()
	if library == nil {
		f.ask(from, err)
		return registry
	}
	cfg := planner.Config{
		Model: models.Offline{}, Prompts: library, Prompt: library.For(s.Planner), Actions: registry, ResponseFormat: s.ResponseFormat, Functions: s.Bot.Functions,
		Named: func(string) (models.Model, error) { return models.Offline{}, nil },
	}
	var notPlanned error
	for _, p := range s.Parts {
		if p.Plan != nil {
			notPlanned = errors.Join(notPlanned, p.Plan(context.Background(), s, &cfg))
		}
	}
	faulty := planner.AddPromptFolders(registry, cfg)
	_, misfit := newPlanner(context.Background(), s.Planner, cfg)
	f.ask(from, errors.Join(err, s.unused(library), notPlanned, faulty, misfit))
	return registry
}

// unused finds prompts that this bot would never use: most often their names are misspelt.
func (s *Settings) unused(library *prompts.Library) error {
	var faults []error
	for _, name := range library.Unused(append(Planners(), library.For(s.Planner))...) {
		p, err := library.Prompt(name)
		if err != nil {
			return err
		}
		why := fmt.Sprintf("as it is neither %s nor an action (config.json without input.parameters)", strings.Join(Planners(), ", "))
		switch planner := p.Planner(); planner {
		case "":
		case s.Planner:
			why = "as another folder is for the planner " + planner + ", too"
		default:
			why = fmt.Sprintf("as it is for the planner %s, and the bot has %s: set BOT_PLANNER=%[1]s", planner, s.Planner)
		}
		faults = append(faults, fmt.Errorf("prompt %s: nothing uses it, %s", name, why))
	}
	return errors.Join(faults...)
}

// checkApproval reports unknown actions in BOT_APPROVAL_ACTIONS, and changes the others to their
// registered spelling.
func (s *Settings) checkApproval(f *faults, registry *actions.Registry) {
	s.ApprovalActions = slices.Clone(s.ApprovalActions)
	for i, name := range s.ApprovalActions {
		if action, ok := registry.Lookup(name); ok {
			s.ApprovalActions[i] = action.Name
			continue
		}
		var known []string
		for _, a := range registry.All() {
			known = append(known, a.Name)
		}
		f.add("BOT_APPROVAL_ACTIONS", "there is no action %q (tools of skills: BOT_SKILLS_APPROVAL)%s", name, spelling.Hint(name, known))
	}
}

// checkTexts warns of a sentence in Texts that looks like one that the bot says, which would stay as
// it is. Others may be the bot's own.
func (s *Settings) checkTexts(registry *actions.Registry) {
	known := slices.Sorted(maps.Keys(texts.Shipped(texts.Languages()[0])))
	for _, a := range registry.All() {
		known = append(append(known, a.Title, a.Description), a.Examples...)
		for _, name := range slices.Sorted(maps.Keys(a.Schema.Properties)) {
			property := a.Schema.Properties[name]
			known = append(known, titles.Of(property, name))
			if property != nil && property.Items != nil {
				property = property.Items
			}
			for _, value := range cmp.Or(property, &jsonschema.Schema{}).Enum {
				known = append(known, titles.Label(property, value))
			}
		}
	}
	seen := map[string]bool{}
	for _, language := range slices.Sorted(maps.Keys(s.Bot.Texts)) {
		for _, sentence := range slices.Sorted(maps.Keys(s.Bot.Texts[language])) {
			if seen[sentence] || slices.Contains(known, sentence) {
				continue
			}
			seen[sentence] = true
			near := spelling.Nearest(known, func(other string) (int, bool) {
				most := len(sentence) / 5
				if other == "" || len(other) < len(sentence)-most || len(other) > len(sentence)+most {
					return 0, false
				}
				edits := spelling.Edits(sentence, other)
				return edits, edits <= most
			})
			if near != nil {
				s.warnings = append(s.warnings, fmt.Sprintf("texts: %s: the bot does not say %q; did you mean %q?", language, sentence, near[0]))
			}
		}
	}
}

// Secrets returns the values that must not be shown.
func (s *Settings) Secrets() (all []string) {
	all = append(all, s.Hidden...)
	for field, value := range s.fields() {
		if field.Tag.Get("secret") == "" {
			continue
		}
		switch value := value.Interface().(type) {
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

// Apart returns a copy with services of its own, and without metrics: to examine the settings of a bot
// that runs.
func (s *Settings) Apart() *Settings {
	apart := *s
	apart.Connected, apart.Count = nil, nil
	return &apart
}

// Given says of a setting where its value comes from, without the value.
type Given struct {
	Variable string
	Also     string // another name of it; "": none
	From     string // what set it, in words; "": nothing
	About    string
	Default  string // in words; "": none
	Secret   bool
	Value    string // of a switch, a number, a time or a word; "": it may tell something
	Common   bool   // whether most bots need it
	Protects bool   // whether a bot is less safe without it
	Feature  string // which reads it; "": every bot does
}

// Given lists all settings, in their order.
func (s *Settings) Given() (all []Given) {
	for field := range s.fields() {
		names := variablesOf(field)
		g := Given{
			Variable: names[0],
			About:    field.Tag.Get("help"),
			Default:  cmp.Or(field.Tag.Get("else"), field.Tag.Get("default")),
			Secret:   field.Tag.Get("secret") != "",
			Common:   field.Tag.Get("common") != "",
			Protects: field.Tag.Get("protects") != "",
			Feature:  s.featureOf(names[0]),
		}
		if len(names) > 1 {
			g.Also = names[1]
		}
		kind := field.Type.Kind()
		if kind == reflect.Bool {
			g.Default = cmp.Or(g.Default, "false")
		}
		if _, value := s.field(names[0]); !g.Secret && (kind <= reflect.Float64 || kind == reflect.String && isWord(value.String())) {
			g.Value = fmt.Sprint(value.Interface())
		}
		inEnvironment := slices.IndexFunc(names, func(name string) bool { return os.Getenv(name) != "" })
		_, flagged := s.texts[names[0]]
		switch {
		case flagged:
			g.From = "a flag"
		case inEnvironment >= 0:
			g.From = strings.TrimSuffix("the environment, as "+names[inEnvironment], ", as "+g.Variable)
		case s.lookUp(names) != "":
			g.From = s.EnvFile
		case s.File != "" && len(s.IsSet(names[0])) > 0:
			g.From = "the file of the bot"
		}
		all = append(all, g)
	}
	return all
}

// isWord reports whether a text is one word, such as those to choose from.
func isWord(text string) bool { return strings.Trim(text, "abcdefghijklmnopqrstuvwxyz") == "" }

// IsSet lists those of the variables whose value differs from the default. A variable of a feature that the program
// does not have is not set.
func (s *Settings) IsSet(variables ...string) (set []string) {
	for _, variable := range variables {
		field, value := s.field(variable)
		if !value.IsValid() {
			continue
		}
		was := reflect.New(field.Type).Elem()
		if Parse(field.Tag.Get("default"), field.Tag, was) == nil && !reflect.DeepEqual(value.Interface(), was.Interface()) {
			set = append(set, variable)
		}
	}
	return set
}

// field returns the field of the variable. Its name is empty if there is none.
func (s *Settings) field(variable string) (field reflect.StructField, value reflect.Value) {
	for field, value = range s.fields() {
		if slices.Contains(variablesOf(field), variable) {
			return field, value
		}
	}
	return reflect.StructField{}, reflect.Value{}
}
