package app

import (
	"cmp"
	"errors"
	"strings"
	"time"

	"github.com/planbot-go/planbot/connector"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/state"
)

// askParsers asks those who will read a setting what they have against it, so
// that it is listed now and not found at the first use. None of them connects.
func (c *config) askParsers(f *faults) {
	if c.RedisURL != "" {
		f.ask("REDIS_URL", state.CheckURL(c.RedisURL))
	}
	c.askConnector(f)
	*f = append(*f, c.limits.needApproval(f.entries("BOT_APPROVAL_ACTIONS", c.ApprovalActions), c.askPrompts(f))...)
	if c.online() {
		c.askModels(f)
	}
}

// ask adds what a parser said of the variable, a fault a line. A variable that
// was found wrong already is not judged twice.
func (f *faults) ask(variable string, err error) {
	if err != nil && !f.has(variable) {
		f.addLines(variable, err)
	}
}

func (f *faults) addLines(variable string, err error) {
	for _, line := range linesOf(err) {
		f.add(variable, "%s", line)
	}
}

// linesOf are the faults that an error joins, each with all the words that wrap it.
func linesOf(err error) []string {
	var inner []error
	switch e := err.(type) { //nolint:errorlint // looks at one link of the chain at a time
	case interface{ Unwrap() []error }:
		inner = e.Unwrap()
	case interface{ Unwrap() error }:
		inner = []error{e.Unwrap()}
	}
	whole := errors.Join(inner...)
	if whole == nil {
		return strings.Split(err.Error(), "\n")
	}
	words, ok := strings.CutSuffix(err.Error(), whole.Error())
	if !ok {
		return strings.Split(err.Error(), "\n")
	}
	var lines []string
	for _, each := range inner {
		for _, line := range linesOf(each) {
			lines = append(lines, words+line)
		}
	}
	return lines
}

// askConnector gives each setting to the connector among values that are good.
func (c *config) askConnector(f *faults) {
	good, err := connector.CloudNamed("")
	if err != nil {
		f.ask("BOT_CLOUD", err)
		return
	}
	id := connector.Credentials{AppID: "app", Password: "secret"}
	if c.LoginURL != "" {
		changed := good
		changed.LoginURL = strings.TrimSuffix(c.LoginURL, "/")
		f.ask("BOT_LOGIN_URL", tokensFault(changed, id))
	}
	if c.AppTenant != "" {
		id.Tenant = c.AppTenant
		f.ask("MICROSOFT_APP_TENANT_ID", tokensFault(good, id))
	}
	c.askProof(f, good)
	c.askCallers(f, good)
	if _, err := connector.NewServiceHosts(good, c.hosts, false); err != nil {
		f.addLines("BOT_ALLOWED_SERVICE_HOSTS", err) // each entry is one of its own
	}
	if c.MetadataURL != "" {
		good.MetadataURL = c.MetadataURL
		f.ask("BOT_OPENID_METADATA_URL", guardFault(good))
	}
}

// askProof reads the files that prove who the bot is.
func (c *config) askProof(f *faults, cloud connector.Cloud) {
	if c.AppCertificate != "" {
		id := connector.Credentials{AppID: "app", CertificateFile: c.AppCertificate, CertificatePassword: c.CertPassword}
		if err := tokensFault(cloud, id); err != nil {
			f.ask("MICROSOFT_APP_CERTIFICATE_FILE", err)
		} else if err := id.CheckCertificate(time.Now()); err != nil {
			c.warn("MICROSOFT_APP_CERTIFICATE_FILE", err.Error())
		}
	}
	if c.FederatedFile != "" {
		f.ask("MICROSOFT_APP_FEDERATED_TOKEN_FILE", tokensFault(cloud, connector.Credentials{AppID: "app", FederatedTokenFile: c.FederatedFile}))
	}
}

func (c *config) askCallers(f *faults, cloud connector.Cloud) {
	id := connector.Credentials{AppID: cmp.Or(c.AppID, "app"), Password: "secret"}
	if id.Callers.Bots = c.callers.Bots; len(id.Callers.Bots) > 0 {
		id.Callers.Tenant = "00000000-0000-0000-0000-000000000000"
		f.ask("BOT_ALLOWED_CALLERS", tokensFault(cloud, id))
	}
	if c.AppTenant != "" && (c.callers.Emulator || len(c.callers.Bots) > 0) {
		id.Callers = connector.Callers{Tenant: c.AppTenant, Emulator: true}
		f.ask("MICROSOFT_APP_TENANT_ID", tokensFault(cloud, id))
	}
}

func tokensFault(cloud connector.Cloud, id connector.Credentials) error {
	tokens, err := connector.NewTokens(cloud, id, nil)
	if err == nil {
		tokens.Close()
	}
	return err
}

func guardFault(cloud connector.Cloud) error {
	hosts, err := connector.NewServiceHosts(cloud, nil, false)
	if err != nil {
		return err
	}
	guard, err := connector.NewGuard(connector.GuardConfig{AppID: "app", Cloud: cloud, Hosts: hosts})
	if err == nil {
		guard.Close()
	}
	return err
}

// askModels makes every model of the chain and gives each fault to the variable
// that it came from.
func (c *config) askModels(f *faults) {
	first := c.firstModel()
	f.askModel(first, map[string]string{
		"BaseURL": "OPENAI_BASE_URL", "Key": "OPENAI_API_KEY",
		"Azure.Endpoint": "AZURE_OPENAI_ENDPOINT", "Azure.Key": "AZURE_OPENAI_API_KEY", "Azure.Deployment": "AZURE_OPENAI_DEPLOYMENT",
		"MaxTokensField": "BOT_MAX_TOKENS_FIELD", "ReasoningEffort": "BOT_REASONING_EFFORT", "SystemMessages": "BOT_MODEL_SYSTEM_MESSAGES",
	}, "OPENAI_MODEL")
	if c.AzureEndpoint != "" && c.FallbackBaseURL == "" && c.FallbackKey == "" {
		// What is shared with the first model was judged with it.
		for _, name := range c.fallbacks {
			next := models.OpenAIConfig{Azure: models.Azure{Endpoint: "https://azure.example", Key: "k", Deployment: name}}
			f.askModel(next, nil, "BOT_FALLBACK_MODELS")
		}
		return
	}
	if c.FallbackBaseURL+c.FallbackKey != "" && len(c.fallbacks) > 0 {
		f.askModel(behind(*c, first, c.fallbacks[0]), map[string]string{
			"BaseURL": "BOT_FALLBACK_BASE_URL", "Key": "BOT_FALLBACK_API_KEY",
			"MaxTokensField": "BOT_MAX_TOKENS_FIELD", "ReasoningEffort": "BOT_REASONING_EFFORT", "SystemMessages": "BOT_MODEL_SYSTEM_MESSAGES",
		}, "BOT_FALLBACK_MODELS")
	}
}

// askModel names the variable of each field that has a fault. What has no
// variable of its own is otherwise's.
func (f *faults) askModel(cfg models.OpenAIConfig, variables map[string]string, otherwise string) {
	model, err := models.NewOpenAI(cfg)
	if err == nil {
		_ = model.Close() // never fails
		return
	}
	known := *f // so that one variable may have several faults now
	for line := range strings.Lines(strings.TrimPrefix(err.Error(), "openai config: ")) {
		field, text, found := strings.Cut(strings.TrimSpace(line), ": ")
		if name, missing := strings.CutPrefix(field, "no "); missing && !found {
			field, _, _ = strings.Cut(name, " ")
			text = "is needed"
		}
		text = strings.ReplaceAll(text, "BaseURL", "OPENAI_BASE_URL") // the one that a text tells people to use
		variable := cmp.Or(variables[field], otherwise)
		if variable == otherwise || !known.has(variable) {
			f.add(variable, "%s", cmp.Or(text, line))
		}
	}
}
