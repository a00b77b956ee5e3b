package app

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/models"
)

func TestSettings(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		in   settings
		want func(config) bool
	}{
		"nothing is local mode": {settings{bot: defaultBot()}, func(c config) bool {
			return c.addr == "127.0.0.1:3978" && c.turnTimeout == 5*time.Minute && c.drainTimeout == 20*time.Second
		}},
		"port":                   {settings{bot: defaultBot(), Port: "80"}, func(c config) bool { return c.addr == "127.0.0.1:80" }},
		"address wins":           {settings{bot: defaultBot(), Port: "80", Addr: "localhost:81"}, func(c config) bool { return c.addr == "localhost:81" }},
		"IPv6 loopback":          {settings{bot: defaultBot(), Addr: "[::1]:81"}, func(c config) bool { return c.addr == "[::1]:81" }},
		"closed network":         {settings{bot: defaultBot(), Addr: "0.0.0.0:81", NoAuth: "true"}, func(c config) bool { return c.noAuth }},
		"app id listens on all":  {settings{bot: defaultBot(), AppID: "a", AppPassword: "p"}, func(c config) bool { return c.addr == ":3978" && c.appType == multiTenant }},
		"tenant makes it single": {settings{bot: defaultBot(), AppID: "a", AppPassword: "p", AppTenant: "t"}, func(c config) bool { return c.appType == singleTenant }},
		"managed identity":       {settings{bot: defaultBot(), AppID: "a", AppType: "userassignedmsi"}, func(c config) bool { return c.appType == managedIdentity }},
		"certificate":            {settings{bot: defaultBot(), AppID: "a", AppCertificate: certificateFile(t, time.Hour)}, func(c config) bool { return c.credentials().CertificateFile != "" && c.appType == multiTenant }},
		"workload identity": {settings{bot: defaultBot(), AppID: "a", AppTenant: "t", FederatedFile: filesIn(t, map[string]string{"token": "a.b.c"}) + "/token"}, func(c config) bool {
			return c.credentials().FederatedTokenFile != "" && c.credentials().Tenant == "t"
		}},
		"a trusted identity":       {settings{bot: defaultBot(), AppID: "a", FederatedID: "b"}, func(c config) bool { return c.credentials().FederatedClientID == "b" }},
		"an identity and a secret": {settings{bot: defaultBot(), AppID: "a", AppPassword: "p", AppType: managedIdentity}, func(c config) bool { return c.credentials().Password == "" && c.credentials().ManagedIdentity }},
		"callers": {settings{bot: defaultBot(), AppID: "a", AppPassword: "p", AppType: multiTenant, AppTenant: guid, AllowEmulator: "true", AllowedCallers: " " + guid + ", "}, func(c config) bool {
			return c.credentials().Tenant == "" && c.callers.Tenant == guid && c.callers.Emulator && len(c.credentials().Callers.Bots) == 1
		}},
		"loopback overrides":      {settings{bot: defaultBot(), MetadataURL: "http://127.0.0.1:1/x", LoginURL: "http://[::1]:2"}, func(config) bool { return true }},
		"local compatible server": {settings{bot: defaultBot(), OpenAIBaseURL: "http://ollama:11434/v1"}, func(config) bool { return true }},
		"hosts":                   {settings{bot: defaultBot(), AllowedHosts: " a.example, ,127.0.0.1:8080 "}, func(c config) bool { return strings.Join(c.hosts, "|") == "a.example|127.0.0.1:8080" }},
		"Azure wins over OpenAI":  {settings{bot: defaultBot(), AzureEndpoint: "https://x.openai.azure.com", AzureKey: "k", AzureDeployment: "d", OpenAIKey: "k"}, func(config) bool { return true }},
		"patience has defaults":   {settings{bot: defaultBot()}, func(c config) bool { return c.retries == 3 && c.maxWait == 20*time.Second && c.fallbacks == nil }},
		"impatience":              {settings{bot: defaultBot(), ModelRetries: "0", ModelMaxWait: "5s"}, func(c config) bool { return c.retries == 0 && c.maxWait == 5*time.Second }},
		"streams":                 {settings{bot: defaultBot(), ModelStream: "true"}, func(c config) bool { return c.stream && c.firstModel().Stream && behind(c, c.firstModel(), "b").Stream }},
		"streams behind":          {settings{bot: defaultBot(), OpenAIKey: "k", FallbackModels: "b", FallbackBaseURL: "http://x", ModelStream: "1"}, func(c config) bool { return behind(c, c.firstModel(), "b").Stream }},
		"the old limit":           {settings{bot: defaultBot(), OpenAIKey: "k", MaxTokensField: "max_tokens"}, func(c config) bool { return c.firstModel().MaxTokensField == "max_tokens" }},
		"the old limit behind":    {settings{bot: defaultBot(), OpenAIKey: "k", FallbackModels: "b", FallbackBaseURL: "http://x", MaxTokensField: "max_tokens"}, func(c config) bool { return behind(c, c.firstModel(), "b").MaxTokensField == "max_tokens" }},
		"an effort": {settings{bot: defaultBot(), OpenAIKey: "k", ReasoningEffort: "low"}, func(c config) bool {
			return c.firstModel().ReasoningEffort == "low" && behind(c, c.firstModel(), "b").ReasoningEffort == "low"
		}},
		"no streams":             {settings{bot: defaultBot()}, func(c config) bool { return !c.stream && !c.firstModel().Stream }},
		"fallback":               {settings{bot: defaultBot(), OpenAIKey: "k", FallbackModels: " a, ,b ", FallbackKey: "k"}, func(c config) bool { return strings.Join(c.fallbacks, "|") == "a|b" }},
		"log level is not cased": {settings{bot: defaultBot(), LogLevel: "DEBUG", LogFormat: "JSON"}, func(c config) bool { return c.logLevel.String() == "debug" }},
		"durations are Go's":     {settings{bot: defaultBot(), TurnTimeout: "90s", DrainTimeout: "1m30s"}, func(c config) bool { return c.turnTimeout == c.drainTimeout }},
		"a planner by name":      {settings{bot: defaultBot(), Planner: "sequence"}, func(config) bool { return true }},
		"the other planner":      {settings{bot: defaultBot(), Planner: "sequential"}, func(config) bool { return true }},
		"the third planner":      {settings{bot: defaultBot(), Planner: "tools"}, func(config) bool { return true }},
		"no limits": {settings{bot: defaultBot()}, func(c config) bool {
			return c.limits.steps == 0 && c.limits.same == 0 && c.limits.budget == actions.Budget{} && c.limits.approvalTimeout == 24*time.Hour
		}},
		"limits": {settings{bot: defaultBot(), MaxSteps: "7", MaxSameCalls: "2", MaxTurnTokens: "1000", MaxTurnCost: "0.5", ModelPrice: "0.15, 0.075, 0.6", ApprovalTimeout: "720h", Approvers: "a, b"}, func(c config) bool {
			l := c.limits
			return l.steps == 7 && l.same == 2 && l.budget == actions.Budget{Tokens: 1000, Cost: 0.5} && l.price == models.Price{Prompt: 0.15, Cached: 0.075, Completion: 0.6} &&
				l.approvalTimeout == 720*time.Hour && strings.Join(l.approvers, "|") == "a|b"
		}},
		"who may talk to it": {settings{bot: defaultBot(), AllowedTenants: "t", AllowedUsers: "a, b,", AllowedChannels: "msteams", MaxConnections: "3", MaxRequests: "2"}, func(c config) bool {
			var cfg bot.Config
			c.limits.apply(&cfg)
			return strings.Join(cfg.Access.Tenants, "|") == "t" && strings.Join(cfg.Access.Users, "|") == "a|b" && strings.Join(cfg.Access.Channels, "|") == "msteams" &&
				cfg.MaxConnections == 3 && cfg.MaxRequests == 2
		}},
		"price of two":              {settings{bot: defaultBot(), ModelPrice: "1,2"}, func(c config) bool { return c.limits.price == models.Price{Prompt: 1, Completion: 2} }},
		"a response format":         {settings{bot: defaultBot(), ResponseFormat: "json_object"}, func(config) bool { return true }},
		"a port of the OS's choice": {settings{bot: defaultBot(), Port: "0"}, func(c config) bool { return c.addr == "127.0.0.1:0" }},
	} {
		got, err := c.in.check()
		if err != nil || !c.want(got) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

const guid = "7a7b7c7d-1111-2222-3333-444455556666"

// pipe is a file that nobody ever writes.
func pipe(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestWarnings(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		in   settings
		want string
	}{
		"none":            {settings{bot: defaultBot(), AppID: guid, AppCertificate: certificateFile(t, time.Hour)}, ""},
		"of local mode":   {settings{bot: defaultBot()}, ""},
		"no GUID":         {settings{bot: defaultBot(), AppID: "your-app-id", AppPassword: "p"}, "MICROSOFT_APP_ID: "},
		"an old proof":    {settings{bot: defaultBot(), AppID: guid, AppCertificate: certificateFile(t, -time.Hour)}, "MICROSOFT_APP_CERTIFICATE_FILE: "},
		"too early a one": {settings{bot: defaultBot(), AppID: guid, AppCertificate: certificateFile(t, 24*time.Hour)}, "not valid before"},
	} {
		got, err := c.in.check()
		if all := strings.Join(got.warnings, "\n"); err != nil || (all == "") != (c.want == "") || !strings.Contains(all, c.want) {
			t.Errorf("%s: %q, %v", name, all, err)
		}
		var log strings.Builder
		(&program{config: got, log: zerolog.New(&log)}).announce(io.Discard, &net.TCPAddr{})
		if warned := strings.Contains(log.String(), `"level":"warn","about":"MICROSOFT_APP_`); warned != (c.want != "") {
			t.Errorf("%s: the start says %s", name, log.String())
		}
	}
}

// certificateFile is a certificate with its key, which runs out after that time. It lasts
// two hours.
func certificateFile(t *testing.T, after time.Duration) string {
	t.Helper()
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(after - 2*time.Hour), NotAfter: time.Now().Add(after)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &k.PublicKey, k)
	if err != nil {
		t.Fatal(err)
	}
	content := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	content = append(content, pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(k)})...)
	return filepath.Join(filesIn(t, map[string]string{"bot.pem": string(content)}), "bot.pem")
}

// promptsFolder is a folder whose planner prompt is text.
func promptsFolder(t *testing.T, text string) string {
	t.Helper()
	return filesIn(t, map[string]string{"sequence/prompt.txt": text})
}

// filesIn is a folder with these files.
func filesIn(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestEveryMistakeIsListedWithItsVariable(t *testing.T) {
	t.Parallel()
	azure := settings{bot: defaultBot(), AzureEndpoint: "https://x", AzureKey: "k", AzureDeployment: "d"}
	with := func(s settings, edit func(*settings)) settings {
		edit(&s)
		return s
	}
	for name, c := range map[string]struct {
		in   settings
		want []string
	}{
		"open to the world":  {settings{bot: defaultBot(), Addr: "0.0.0.0:3978"}, []string{"BOT_ADDR"}},
		"by name":            {settings{bot: defaultBot(), Addr: "bot.example:3978"}, []string{"BOT_ADDR"}},
		"all interfaces":     {settings{bot: defaultBot(), Addr: ":3978"}, []string{"BOT_ADDR"}},
		"no address":         {settings{bot: defaultBot(), Addr: "3978"}, []string{"BOT_ADDR"}},
		"no metrics address": {settings{bot: defaultBot(), MetricsAddr: "9090"}, []string{"BOT_METRICS_ADDR"}},
		"one port for two":   {settings{bot: defaultBot(), Addr: "127.0.0.1:3978", MetricsAddr: "localhost:03978"}, []string{"BOT_METRICS_ADDR"}},
		"the usual port":     {settings{bot: defaultBot(), MetricsAddr: ":3978"}, []string{"BOT_METRICS_ADDR"}},
		"no port":            {settings{bot: defaultBot(), Port: "99999"}, []string{"PORT"}},
		"no numbers": {settings{bot: defaultBot(), MaxSteps: "0", MaxMessages: "0", MaxSameCalls: "-1", MaxTurnTokens: "many", MaxTurnCost: "1,2", ModelPrice: "x", ApprovalTimeout: "0", MaxTurns: "0", MaxWaiting: "all", MaxWaitingEach: "-1", MaxConnections: "0", MaxRequests: "few"}, []string{
			"BOT_MAX_TURNS", "BOT_MAX_WAITING", "BOT_MAX_WAITING_PER_CONVERSATION", "BOT_MAX_CONNECTIONS", "BOT_MAX_REQUESTS",
			"BOT_MAX_STEPS", "BOT_MAX_MESSAGES", "BOT_MAX_SAME_CALLS", "BOT_MAX_TURN_TOKENS", "BOT_MAX_TURN_COST", "BOT_MODEL_PRICE", "BOT_APPROVAL_TIMEOUT",
		}},
		"lists of nobody": {settings{bot: defaultBot(), AllowedTenants: ",", AllowedUsers: " , ", AllowedChannels: ",,", AllowedCallers: ",", AllowedHosts: ", ", Approvers: ",", ApprovalActions: ",", FallbackModels: ","}, []string{
			"BOT_ALLOWED_TENANTS", "BOT_ALLOWED_USERS", "BOT_ALLOWED_CHANNELS", "BOT_ALLOWED_CALLERS", "BOT_ALLOWED_SERVICE_HOSTS", "BOT_APPROVERS", "BOT_APPROVAL_ACTIONS", "BOT_FALLBACK_MODELS",
		}},
		"lists of names": {settings{bot: defaultBot(), AllowedTenants: "contoso.example, " + guid, AllowedUsers: guid + ",bob@contoso,bob smith", AllowedChannels: "Microsoft Teams"}, []string{
			"BOT_ALLOWED_TENANTS", "BOT_ALLOWED_USERS", "BOT_ALLOWED_USERS", "BOT_ALLOWED_CHANNELS",
		}},
		"ids of nothing":        {settings{bot: defaultBot(), AppID: "your app", FederatedID: "a\x00b"}, []string{"MICROSOFT_APP_ID", "MICROSOFT_APP_FEDERATED_CLIENT_ID"}},
		"an endless id":         {settings{bot: defaultBot(), AppID: strings.Repeat("a", 257), AppPassword: "p"}, []string{"MICROSOFT_APP_ID"}},
		"a secret of two lines": {settings{bot: defaultBot(), AppID: "a", AppPassword: "u:p\nu:p"}, []string{"MICROSOFT_APP_PASSWORD"}},
		"a tenant of all":       {settings{bot: defaultBot(), AppID: "a", AppPassword: "p", AppTenant: "Common"}, []string{"MICROSOFT_APP_TENANT_ID"}},
		"ports of nothing":      {settings{bot: defaultBot(), MetadataURL: "https://x:99999/y", LoginURL: "https://x:0"}, []string{"BOT_OPENID_METADATA_URL", "BOT_LOGIN_URL"}},
		"half an address":       {settings{bot: defaultBot(), AllowedHosts: "[::1,-,a.-b,[::1],::1"}, []string{"BOT_ALLOWED_SERVICE_HOSTS", "BOT_ALLOWED_SERVICE_HOSTS", "BOT_ALLOWED_SERVICE_HOSTS"}},
		"a pipe":                {settings{bot: defaultBot(), AppID: "a", AppCertificate: pipe(t)}, []string{"MICROSOFT_APP_CERTIFICATE_FILE"}},
		"a pipe of tokens":      {settings{bot: defaultBot(), AppID: "a", FederatedFile: pipe(t)}, []string{"MICROSOFT_APP_FEDERATED_TOKEN_FILE"}},
		"an approval too long":  {settings{bot: defaultBot(), ApprovalTimeout: "720h1s"}, []string{"BOT_APPROVAL_TIMEOUT"}},
		"cost without a price":  {settings{bot: defaultBot(), MaxTurnCost: "1"}, []string{"BOT_MAX_TURN_COST"}},
		"one price":             {settings{bot: defaultBot(), ModelPrice: "1"}, []string{"BOT_MODEL_PRICE"}},
		"no app id":             {settings{bot: defaultBot(), AppPassword: "p", AppTenant: "t", AppType: singleTenant}, []string{"MICROSOFT_APP_PASSWORD", "MICROSOFT_APP_TENANT_ID", "MICROSOFT_APP_TYPE"}},
		"proofs of nobody": {settings{bot: defaultBot(), AppCertificate: "/nowhere", CertPassword: "p", FederatedFile: "/nowhere", FederatedID: "b", AllowEmulator: "true", AllowedCallers: guid}, []string{
			"MICROSOFT_APP_CERTIFICATE_FILE", "MICROSOFT_APP_FEDERATED_TOKEN_FILE", "MICROSOFT_APP_FEDERATED_CLIENT_ID", "MICROSOFT_APP_CERTIFICATE_PASSWORD", "BOT_ALLOW_EMULATOR", "BOT_ALLOWED_CALLERS",
		}},
		"two proofs":             {settings{bot: defaultBot(), AppID: "a", AppPassword: "p", FederatedID: "b", FederatedFile: "/nowhere"}, []string{"MICROSOFT_APP_FEDERATED_TOKEN_FILE", "MICROSOFT_APP_FEDERATED_CLIENT_ID"}},
		"a proof of an identity": {settings{bot: defaultBot(), AppID: "a", AppType: managedIdentity, FederatedID: "b"}, []string{"MICROSOFT_APP_FEDERATED_CLIENT_ID"}},
		"no certificate":         {settings{bot: defaultBot(), AppID: "a", AppCertificate: "/nowhere"}, []string{"MICROSOFT_APP_CERTIFICATE_FILE"}},
		"no federated token":     {settings{bot: defaultBot(), AppID: "a", FederatedFile: "/nowhere"}, []string{"MICROSOFT_APP_FEDERATED_TOKEN_FILE"}},
		"a password of nothing":  {settings{bot: defaultBot(), AppID: "a", AppPassword: "p", CertPassword: "p"}, []string{"MICROSOFT_APP_CERTIFICATE_PASSWORD"}},
		"callers of no tenant":   {settings{bot: defaultBot(), AppID: "a", AppPassword: "p", AllowEmulator: "true", AllowedCallers: guid}, []string{"MICROSOFT_APP_TENANT_ID"}},
		"callers of a domain":    {settings{bot: defaultBot(), AppID: "a", AppPassword: "p", AppTenant: "contoso.example", AllowEmulator: "true"}, []string{"MICROSOFT_APP_TENANT_ID"}},
		"anonymous callers":      {settings{bot: defaultBot(), AppID: guid, AppPassword: "p", AppTenant: guid, AllowedCallers: "AnonymousSkill," + guid}, []string{"BOT_ALLOWED_CALLERS", "BOT_ALLOWED_CALLERS"}},
		"neither on nor off":     {settings{bot: defaultBot(), AppID: "a", AppPassword: "p", AllowEmulator: "maybe"}, []string{"BOT_ALLOW_EMULATOR"}},
		"no password":            {settings{bot: defaultBot(), AppID: "a"}, []string{"MICROSOFT_APP_PASSWORD"}},
		"no tenant":              {settings{bot: defaultBot(), AppID: "a", AppPassword: "p", AppType: singleTenant}, []string{"MICROSOFT_APP_TENANT_ID"}},
		"odd type":               {settings{bot: defaultBot(), AppID: "a", AppPassword: "p", AppType: "Other"}, []string{"MICROSOFT_APP_TYPE"}},
		"odd type of nobody":     {settings{bot: defaultBot(), AppType: "foo"}, []string{"MICROSOFT_APP_TYPE", "MICROSOFT_APP_TYPE"}},
		"a server beside Azure":  {with(azure, func(s *settings) { s.OpenAIBaseURL = "::" }), []string{"OPENAI_BASE_URL"}},
		"both open and closed":   {settings{bot: defaultBot(), AppID: "a", AppPassword: "p", NoAuth: "true"}, []string{"BOT_DANGEROUSLY_NO_AUTH"}},
		"neither true nor false": {settings{bot: defaultBot(), NoAuth: "maybe"}, []string{"BOT_DANGEROUSLY_NO_AUTH"}},
		"plain http":             {settings{bot: defaultBot(), MetadataURL: "http://evil.example/x", LoginURL: "ftp://x"}, []string{"BOT_OPENID_METADATA_URL", "BOT_LOGIN_URL"}},
		"password in an address": {settings{bot: defaultBot(), OpenAIBaseURL: "https://u:p@x/v1"}, []string{"OPENAI_BASE_URL"}},
		"half an Azure":          {settings{bot: defaultBot(), AzureEndpoint: "https://x"}, []string{"AZURE_OPENAI_API_KEY", "AZURE_OPENAI_DEPLOYMENT"}},
		"the other half":         {settings{bot: defaultBot(), AzureKey: "k", AzureDeployment: "d", AzureVersion: "v"}, []string{"AZURE_OPENAI_API_KEY", "AZURE_OPENAI_DEPLOYMENT", "AZURE_OPENAI_API_VERSION"}},
		"a fallback of nobody":   {settings{bot: defaultBot(), FallbackModels: "m"}, []string{"BOT_FALLBACK_MODELS"}},
		"a server for no model":  {settings{bot: defaultBot(), OpenAIKey: "k", FallbackBaseURL: "http://x/v1", FallbackKey: "k"}, []string{"BOT_FALLBACK_BASE_URL", "BOT_FALLBACK_API_KEY"}},
		"a fallback's password":  {settings{bot: defaultBot(), OpenAIKey: "k", FallbackModels: "m", FallbackBaseURL: "http://u:p@x/v1"}, []string{"BOT_FALLBACK_BASE_URL"}},
		"Redis":                  {settings{bot: defaultBot(), RedisURL: "redis://:u:p@x?colour=red"}, []string{"REDIS_URL"}},
		"hosts":                  {settings{bot: defaultBot(), AllowedHosts: "a:b:c, good.example, https://x, x:0"}, []string{"BOT_ALLOWED_SERVICE_HOSTS", "BOT_ALLOWED_SERVICE_HOSTS", "BOT_ALLOWED_SERVICE_HOSTS"}},
		"no such command":        {settings{bot: defaultBot(), PromptsDir: promptsFolder(t, "{{oops}}")}, []string{"BOT_PROMPTS_DIR"}},
		"no such scope":          {settings{bot: defaultBot(), PromptsDir: promptsFolder(t, "Hi {{$dialog.name}}")}, []string{"BOT_PROMPTS_DIR"}},
		"no word of JSON":        {settings{bot: defaultBot(), PromptsDir: promptsFolder(t, "Hi."), ResponseFormat: "json_object"}, []string{"BOT_PROMPTS_DIR"}},
		"not a template":         {settings{bot: defaultBot(), PromptsDir: promptsFolder(t, "{{")}, []string{"BOT_PROMPTS_DIR"}},
		"a mute action": {
			settings{bot: defaultBot(), PromptsDir: filesIn(t, map[string]string{"a/prompt.txt": "{{$x}}", "a/config.json": `{"input": {"parameters": []}}`, "sequence/prompt.txt": "{{oops}}"})},
			[]string{"BOT_PROMPTS_DIR", "BOT_PROMPTS_DIR", "BOT_PROMPTS_DIR"},
		},
		"a reload of nothing":     {settings{bot: defaultBot(), PromptsReload: "true"}, []string{"BOT_PROMPTS_RELOAD"}},
		"odd feedback":            {settings{bot: defaultBot(), Feedback: "maybe"}, []string{"BOT_FEEDBACK"}},
		"skills of no folder":     {settings{bot: defaultBot(), SkillsLenient: "true", SkillsLinks: "true", SkillsReload: "true", SkillsApproval: "run"}, []string{"BOT_SKILLS_LENIENT", "BOT_SKILLS_LINKS", "BOT_SKILLS_RELOAD", "BOT_SKILLS_APPROVAL"}},
		"odd skills":              {settings{bot: defaultBot(), SkillsDir: t.TempDir() + ":/nowhere::settings.go", SkillsLenient: "a", SkillsLinks: "b", SkillsReload: "c", SkillsApproval: "run, jump"}, []string{"BOT_SKILLS_LENIENT", "BOT_SKILLS_LINKS", "BOT_SKILLS_RELOAD", "BOT_SKILLS_APPROVAL", "BOT_SKILLS_DIR", "BOT_SKILLS_DIR"}},
		"all, and then some":      {settings{bot: defaultBot(), SkillsDir: t.TempDir(), SkillsApproval: "all, run"}, []string{"BOT_SKILLS_APPROVAL"}},
		"an odd reload":           {settings{bot: defaultBot(), PromptsReload: "often"}, []string{"BOT_PROMPTS_RELOAD"}},
		"no prompt":               {settings{bot: defaultBot(), PromptsDir: t.TempDir()}, []string{"BOT_PROMPTS_DIR"}},
		"queries":                 {settings{bot: defaultBot(), MetadataURL: "https://x/?u:p", LoginURL: "https://x/#u:p", OpenAIBaseURL: "http://x/v1?u:p"}, []string{"BOT_OPENID_METADATA_URL", "BOT_LOGIN_URL", "OPENAI_BASE_URL"}},
		"hosts of nobody":         {settings{bot: defaultBot(), MetadataURL: "https://:443", LoginURL: "https://:443"}, []string{"BOT_OPENID_METADATA_URL", "BOT_LOGIN_URL"}},
		"an odd tenant":           {settings{bot: defaultBot(), AppID: "a", AppPassword: "p", AppTenant: "my tenant/"}, []string{"MICROSOFT_APP_TENANT_ID"}},
		"an odd deployment":       {with(azure, func(s *settings) { s.AzureDeployment = "a/b" }), []string{"AZURE_OPENAI_DEPLOYMENT"}},
		"an odd endpoint":         {with(azure, func(s *settings) { s.AzureEndpoint = "https://x/openai/v1" }), []string{"AZURE_OPENAI_ENDPOINT"}},
		"an odd key":              {with(azure, func(s *settings) { s.AzureKey = "u:p\n" }), []string{"AZURE_OPENAI_API_KEY"}},
		"odd deployments behind":  {with(azure, func(s *settings) { s.FallbackModels = "a/b, good, c?d" }), []string{"BOT_FALLBACK_MODELS", "BOT_FALLBACK_MODELS"}},
		"OpenAI without a key":    {settings{bot: defaultBot(), OpenAIBaseURL: "https://api.openai.com/v1"}, []string{"OPENAI_API_KEY"}},
		"OpenAI behind, no key":   {with(azure, func(s *settings) { s.FallbackModels, s.FallbackBaseURL = "m", "https://api.openai.com/v1" }), []string{"BOT_FALLBACK_API_KEY"}},
		"an odd fallback":         {settings{bot: defaultBot(), OpenAIKey: "k\n", FallbackModels: "m", FallbackBaseURL: "http://x/?q", FallbackKey: "u:p\n"}, []string{"OPENAI_API_KEY", "BOT_FALLBACK_BASE_URL", "BOT_FALLBACK_API_KEY"}},
		"a planner, and approval": {settings{bot: defaultBot(), Planner: "bar", ApprovalActions: "nope, DELETELIST, nada", ResponseFormat: "json_object"}, []string{"BOT_PLANNER", "BOT_APPROVAL_ACTIONS", "BOT_APPROVAL_ACTIONS"}},
		"no folder, and approval": {settings{bot: defaultBot(), PromptsDir: "/nowhere", ApprovalActions: "nope"}, []string{"BOT_PROMPTS_DIR", "BOT_APPROVAL_ACTIONS"}},
		"a format, and a prompt":  {settings{bot: defaultBot(), PromptsDir: promptsFolder(t, "{{oops}}"), ResponseFormat: "xml"}, []string{"BOT_RESPONSE_FORMAT", "BOT_PROMPTS_DIR"}},
		"no name of a limit": {with(azure, func(s *settings) {
			s.MaxTokensField, s.ReasoningEffort, s.SystemMessages = "tokens", "very high", "never"
		}), []string{"BOT_MAX_TOKENS_FIELD", "BOT_REASONING_EFFORT", "BOT_MODEL_SYSTEM_MESSAGES"}},
		"such names, and behind": {settings{bot: defaultBot(), OpenAIKey: "k", FallbackModels: "b", FallbackBaseURL: "http://x", MaxTokensField: "tokens"}, []string{"BOT_MAX_TOKENS_FIELD"}},
		"half a stream":          {settings{bot: defaultBot(), ModelStream: "maybe"}, []string{"BOT_MODEL_STREAM"}},
		"impatient":              {settings{bot: defaultBot(), ModelRetries: "-1", ModelMaxWait: "0s"}, []string{"BOT_MODEL_RETRIES", "BOT_MODEL_MAX_WAIT"}},
		"no response format":     {settings{bot: defaultBot(), ResponseFormat: "yaml"}, []string{"BOT_RESPONSE_FORMAT"}},
		"another planner's":      {settings{bot: defaultBot(), Planner: "sequential", ResponseFormat: "text"}, []string{"BOT_RESPONSE_FORMAT"}},
		"a model of nobody":      {settings{bot: defaultBot(), OpenAIModel: "m"}, []string{"OPENAI_MODEL"}},
		"everything else":        {settings{bot: defaultBot(), Cloud: "moon", AllowedHosts: "https://x/", Planner: "magic", SkillsDir: "s", SkillsSandbox: "docker", PromptsDir: "/nowhere", TurnTimeout: "5", DrainTimeout: "-1s", LogLevel: "loud", LogFormat: "xml"}, []string{"BOT_CLOUD", "BOT_ALLOWED_SERVICE_HOSTS", "BOT_PLANNER", "BOT_SKILLS_SANDBOX", "BOT_SKILLS_DIR", "BOT_PROMPTS_DIR", "BOT_TURN_TIMEOUT", "BOT_DRAIN_TIMEOUT", "BOT_LOG_LEVEL", "BOT_LOG_FORMAT"}},
	} {
		_, err := c.in.check()
		if err == nil {
			t.Errorf("%s: no mistake found", name)
			continue
		}
		lines := strings.Split(err.Error(), "\n")
		if len(lines) != len(c.want) {
			t.Errorf("%s: %d mistakes, want %d:\n%v", name, len(lines), len(c.want), err)
		}
		for _, variable := range c.want {
			if !strings.Contains("\n"+err.Error(), "\n"+variable+": ") {
				t.Errorf("%s: %s is not named in\n%v", name, variable, err)
			}
		}
		if strings.Contains(err.Error(), " BaseURL") {
			t.Errorf("%s: a name that no setting has: %v", name, err)
		}
		if strings.Contains(err.Error(), "u:p") {
			t.Errorf("%s: a secret is shown: %v", name, err)
		}
	}
}

// Actions of skills have a setting of their own.
func TestApprovalOfSkillsHint(t *testing.T) {
	t.Parallel()
	_, err := settings{bot: defaultBot(), ApprovalActions: "load_skill, READ_SKILL_RESOURCE, run_skill_script, nope"}.check()
	if err == nil {
		t.Fatal("took them")
	}
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != 4 {
		t.Fatal(err)
	}
	for i, want := range []string{"BOT_SKILLS_APPROVAL=load", "BOT_SKILLS_APPROVAL=read", "BOT_SKILLS_APPROVAL=run", `"nope"`} {
		if !strings.HasSuffix(lines[i], want) {
			t.Errorf("%s, want %s", lines[i], want)
		}
	}
}
