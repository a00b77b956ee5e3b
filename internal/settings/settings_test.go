package settings

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/lists"
)

func TestSettings(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		in   env
		want func(*Settings) bool
	}{
		"nothing is local mode": {env{}, func(s *Settings) bool {
			return s.Listen() == "127.0.0.1:3978" && s.TurnTimeout == 5*time.Minute && s.DrainTimeout == 20*time.Second
		}},
		"port":                  {env{"port": "80"}, func(s *Settings) bool { return s.Listen() == "127.0.0.1:80" }},
		"address wins":          {env{"port": "80", "bot-addr": "localhost:81"}, func(s *Settings) bool { return s.Listen() == "localhost:81" }},
		"IPv6 loopback":         {env{"bot-addr": "[::1]:81"}, func(s *Settings) bool { return s.Listen() == "[::1]:81" }},
		"closed network":        {env{"bot-addr": "0.0.0.0:81", "bot-dangerously-no-auth": "true"}, func(s *Settings) bool { return s.NoAuth }},
		"app id listens on all": {env{"microsoft-app-id": "a", "microsoft-app-tenant-id": guid, "microsoft-app-password": "p"}, func(s *Settings) bool { return s.Listen() == ":3978" && s.IdentityType() == singleTenant }},
		"many tenants, if it says so": {env{"microsoft-app-id": "a", "microsoft-app-password": "p", "microsoft-app-type": "multitenant"}, func(s *Settings) bool {
			return s.IdentityType() == multiTenant && s.Connector().Credentials.Tenant == ""
		}},
		"managed identity": {env{"microsoft-app-id": "a", "microsoft-app-type": "userassignedmsi"}, func(s *Settings) bool { return s.IdentityType() == managedIdentity }},
		"certificate": {env{"microsoft-app-id": "a", "microsoft-app-tenant-id": guid, "microsoft-app-certificate-file": certificateFile(t)}, func(s *Settings) bool {
			return s.Connector().Credentials.CertificateFile != "" && s.IdentityType() == singleTenant
		}},
		"workload identity": {env{"microsoft-app-id": "a", "microsoft-app-tenant-id": "t", "microsoft-app-federated-token-file": filesIn(t, map[string]string{"token": "a.b.c"}) + "/token"}, func(s *Settings) bool {
			return s.Connector().Credentials.FederatedTokenFile != "" && s.Connector().Credentials.Tenant == "t"
		}},
		"a trusted identity": {env{"microsoft-app-id": "a", "microsoft-app-tenant-id": guid, "microsoft-app-federated-client-id": "b"}, func(s *Settings) bool { return s.Connector().Credentials.FederatedClientID == "b" }},
		"an identity and a secret": {env{"microsoft-app-id": "a", "microsoft-app-password": "p", "microsoft-app-type": managedIdentity}, func(s *Settings) bool {
			return s.Connector().Credentials.Password == "" && s.Connector().Credentials.ManagedIdentity
		}},
		"callers": {env{"microsoft-app-id": "a", "microsoft-app-password": "p", "microsoft-app-type": multiTenant, "microsoft-app-tenant-id": guid, "bot-allow-emulator": "true", "bot-allowed-callers": " " + guid + ", "}, func(s *Settings) bool {
			return s.Connector().Credentials.Tenant == "" && s.Connector().Callers.Tenant == guid && s.Connector().Callers.Emulator && len(s.Connector().Callers.Bots) == 1
		}},
		"what people send": {env{}, func(s *Settings) bool {
			m, err := s.Transcriber()
			return m == nil && err == nil && s.Attachments == "shown" && s.FilesKeep == time.Hour && !s.ModelSees
		}},
		"pictures, no files, voice": {env{"openai-api-key": "k", "bot-model-sees": "true", "bot-files-keep": "0", "bot-transcribe-model": "whisper-1"}, func(s *Settings) bool {
			m, err := s.Transcriber()
			return m != nil && err == nil && s.FilesKeep == 0 && s.ModelSees
		}},
		"voice on Azure": {env{"azure-openai-endpoint": "https://x.openai.azure.com", "azure-openai-api-key": "k", "azure-openai-deployment": "d", "bot-transcribe-model": "whisper"}, func(s *Settings) bool {
			m, err := s.Transcriber()
			return m != nil && err == nil
		}},
		"loopback overrides":      {env{"bot-openid-metadata-url": "http://127.0.0.1:1/x", "bot-login-url": "http://[::1]:2"}, func(*Settings) bool { return true }},
		"local compatible server": {env{"openai-base-url": "http://ollama:11434/v1"}, func(*Settings) bool { return true }},
		"hosts":                   {env{"bot-allowed-service-hosts": " a.example, ,127.0.0.1:8080 "}, func(s *Settings) bool { return strings.Join(s.AllowedHosts, "|") == "a.example|127.0.0.1:8080" }},
		"said in local mode":      {env{"bot-model": "OFFLINE", "bot-state": "embedded"}, func(s *Settings) bool { return s.Model == "offline" && s.State == "embedded" }},
		"said with an app id":     {env{"microsoft-app-id": "a", "microsoft-app-tenant-id": guid, "microsoft-app-password": "p", "bot-model": "offline", "bot-state": "embedded"}, func(*Settings) bool { return true }},
		"a model and Redis":       {env{"microsoft-app-id": "a", "microsoft-app-tenant-id": guid, "microsoft-app-password": "p", "openai-api-key": "k", "redis-url": "redis://x", "bot-model": "", "bot-state": ""}, func(*Settings) bool { return true }},
		"Azure with Entra ID": {env{"azure-openai-endpoint": "https://x.openai.azure.com", "azure-openai-deployment": "d", "bot-fallback-models": "e", "bot-cloud": "gcch"}, func(s *Settings) bool {
			return s.EntraID() && s.modelConfigs()[0].AzureToken != nil && s.modelConfigs()[1].AzureToken != nil
		}},
		"Entra ID not elsewhere": {env{"azure-openai-endpoint": "https://x.openai.azure.com", "azure-openai-deployment": "d", "bot-fallback-models": "e", "bot-fallback-base-url": "http://x"}, func(s *Settings) bool {
			return s.modelConfigs()[1].AzureToken == nil
		}},
		"Azure wins over OpenAI": {env{"azure-openai-endpoint": "https://x.openai.azure.com", "azure-openai-api-key": "k", "azure-openai-deployment": "d", "openai-api-key": "k"}, func(*Settings) bool { return true }},
		"patience has defaults": {env{}, func(s *Settings) bool {
			return s.ModelRetries == 3 && s.ModelMaxWait == 20*time.Second && s.FallbackModels == nil
		}},
		"impatience": {env{"bot-model-retries": "0", "bot-model-max-wait": "5s"}, func(s *Settings) bool { return s.ModelRetries == 0 && s.ModelMaxWait == 5*time.Second }},
		"streams": {env{"openai-api-key": "k", "bot-fallback-models": "b", "bot-model-stream": "true"}, func(s *Settings) bool {
			return s.ModelStream && s.modelConfigs()[0].Stream && s.modelConfigs()[1].Stream
		}},
		"streams behind":       {env{"openai-api-key": "k", "bot-fallback-models": "b", "bot-fallback-base-url": "http://x", "bot-model-stream": "1"}, func(s *Settings) bool { return s.modelConfigs()[1].Stream }},
		"the old limit":        {env{"openai-api-key": "k", "bot-max-tokens-field": "max_tokens"}, func(s *Settings) bool { return s.modelConfigs()[0].MaxTokensField == "max_tokens" }},
		"the old limit behind": {env{"openai-api-key": "k", "bot-fallback-models": "b", "bot-fallback-base-url": "http://x", "bot-max-tokens-field": "max_tokens"}, func(s *Settings) bool { return s.modelConfigs()[1].MaxTokensField == "max_tokens" }},
		"an effort": {env{"openai-api-key": "k", "bot-fallback-models": "b", "bot-reasoning-effort": "low"}, func(s *Settings) bool {
			return s.modelConfigs()[0].ReasoningEffort == "low" && s.modelConfigs()[1].ReasoningEffort == "low"
		}},
		"no streams":             {env{}, func(s *Settings) bool { return !s.ModelStream && s.modelConfigs() == nil }},
		"fallback":               {env{"openai-api-key": "k", "bot-fallback-models": " a, ,b ", "bot-fallback-api-key": "k"}, func(s *Settings) bool { return strings.Join(s.FallbackModels, "|") == "a|b" }},
		"log level is not cased": {env{"bot-log-level": "DEBUG", "bot-log-format": "JSON"}, func(s *Settings) bool { return s.LogLevel == "debug" && s.LogFormat == "json" }},
		"durations are Go's":     {env{"bot-turn-timeout": "90s", "bot-drain-timeout": "1m30s"}, func(s *Settings) bool { return s.TurnTimeout == s.DrainTimeout }},
		"a planner by name":      {env{"bot-planner": "sequence"}, func(*Settings) bool { return true }},
		"the other planner":      {env{"bot-planner": "sequential"}, func(*Settings) bool { return true }},
		"the third planner":      {env{"bot-planner": "tools"}, func(*Settings) bool { return true }},
		"no limits": {env{}, func(s *Settings) bool {
			return s.MaxSteps == 0 && s.MaxSameCalls == 0 && s.Budget() == actions.Budget{} && s.ApprovalTimeout == 24*time.Hour
		}},
		"limits": {env{"bot-max-steps": "7", "bot-max-same-calls": "2", "bot-max-turn-tokens": "1000", "bot-max-turn-cost": "0.5", "bot-model-price": "0.15, 0.075, 0.6", "bot-approval-timeout": "720h", "bot-approvers": "a, b"}, func(s *Settings) bool {
			return s.MaxSteps == 7 && s.MaxSameCalls == 2 && s.Budget() == actions.Budget{Tokens: 1000, Cost: 0.5} && s.Price() == [3]float64{0.15, 0.075, 0.6} &&
				s.ApprovalTimeout == 720*time.Hour && strings.Join(s.Approvers, "|") == "a|b"
		}},
		"who may talk to it": {env{"bot-allowed-tenants": "t", "bot-allowed-users": "a, b,", "bot-allowed-channels": "msteams", "bot-max-connections": "3", "bot-max-requests": "2"}, func(s *Settings) bool {
			return strings.Join(s.AllowedTenants, "|") == "t" && strings.Join(s.AllowedUsers, "|") == "a|b" && strings.Join(s.AllowedChannels, "|") == "msteams" &&
				s.MaxConnections == 3 && s.MaxRequests == 2
		}},
		"price of two":              {env{"bot-model-price": "1,2"}, func(s *Settings) bool { return s.Price() == [3]float64{1, 1, 2} }},
		"a response format":         {env{"bot-response-format": "json_object"}, func(*Settings) bool { return true }},
		"a port of the OS's choice": {env{"port": "0"}, func(s *Settings) bool { return s.Listen() == "127.0.0.1:0" }},
	} {
		got, err := c.in.read()
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
		in   env
		want string
	}{
		"none":          {env{"microsoft-app-id": guid, "microsoft-app-tenant-id": guid, "microsoft-app-certificate-file": certificateFile(t)}, ""},
		"of local mode": {env{}, ""},
		"no tenant":     {env{"bot-allowed-tenants": guid + ",foo"}, `BOT_ALLOWED_TENANTS: "foo" is not the id of a tenant, which is a GUID`},
		"no person":     {env{"bot-allowed-users": "mia"}, `BOT_ALLOWED_USERS: "mia" is not the aadObjectId`},
		"no GUID":       {env{"microsoft-app-id": "your-app-id", "microsoft-app-tenant-id": guid, "microsoft-app-password": "p"}, "MICROSOFT_APP_ID: "},
	} {
		got, err := c.in.read()
		if all := strings.Join(got.Warnings(), "\n"); err != nil || (all == "") != (c.want == "") || !strings.Contains(all, c.want) {
			t.Errorf("%s: %q, %v", name, all, err)
		}
	}
}

// TestTextsThatNothingSays: a misspelled sentence is named, with the one that it was meant to be.
func TestTextsThatNothingSays(t *testing.T) {
	t.Parallel()
	type crate struct {
		Size string `json:"size" title:"Size of the crate" enum:"s,l" labels:"Small,Large"`
	}
	all, err := Read(Bot{
		Name: "ListBot",
		Register: func(r *actions.Registry) {
			actions.Add(r, "openCrate", "Opens a crate", func(context.Context, *actions.Turn, crate) (actions.Result, error) { return actions.Done, nil },
				actions.Title("Open a crate"), actions.Example("open the {size} crate"))
		},
		Texts: map[string]map[string]string{
			"de": {
				"Open a crate": "Kiste öffnen", "open the {size} crate": "öffne die {size} Kiste", "Size of the crate": "Größe", "Small": "Klein",
				"shows this": "zeigt das", "Our own sentence.": "Unser eigener Satz.", "orderbook": "Bestellungen", "show this": "zeigt das",
			},
			"fr": {"Open a crat": "Ouvrir une caisse", "show this": "montre cela"},
		},
	})
	want := "texts: de: the bot does not say \"show this\"; did you mean \"shows this\"?\n" +
		"texts: fr: the bot does not say \"Open a crat\"; did you mean \"Open a crate\"?"
	if err != nil || strings.Join(all.Warnings(), "\n") != want {
		t.Errorf("%q, %v, want %q", all.Warnings(), err, want)
	}
}

// TestAppIDNeedsModelAndState: with an app id, a bot without a model, or whose state ends with it,
// starts only if the settings say so in words. The refusal has these words.
func TestAppIDNeedsModelAndState(t *testing.T) {
	t.Parallel()
	const noModel, noState = "or set BOT_MODEL=offline for a bot that answers fixed phrases only", "or set BOT_STATE=embedded for a bot that forgets everything at exit"
	for name, c := range map[string]struct {
		in   env
		want []string
	}{
		"nothing said":      {env{}, []string{noModel, noState}},
		"the model":         {env{"bot-model": "offline"}, []string{noState}},
		"the state":         {env{"bot-state": "embedded"}, []string{noModel}},
		"both":              {env{"bot-model": "offline", "bot-state": "embedded"}, nil},
		"a key, no state":   {env{"openai-api-key": "k"}, []string{noState}},
		"Redis, no model":   {env{"redis-url": "redis://x"}, []string{noModel}},
		"a server, Redis":   {env{"openai-base-url": "http://x/v1", "redis-url": "redis://x"}, nil},
		"Azure, said state": {env{"azure-openai-endpoint": "https://x.openai.azure.com", "azure-openai-deployment": "d", "bot-state": "embedded"}, nil},
		"a data folder":     {env{"bot-model": "offline", "bot-data-dir": "/data"}, nil},
		"local mode":        {env{"microsoft-app-id": "", "microsoft-app-tenant-id": "", "microsoft-app-password": ""}, nil},
	} {
		all := env{"microsoft-app-id": guid, "microsoft-app-tenant-id": guid, "microsoft-app-password": "p"}
		maps.Copy(all, c.in)
		var args []string
		for flag, value := range all {
			args = append(args, "--"+flag+"="+value)
		}
		_, err := Read(Bot{Name: "ListBot", Register: lists.Register}, args...)
		var lines []string
		if err != nil {
			lines = slices.DeleteFunc(strings.Split(err.Error(), "\n"), func(line string) bool { return strings.HasPrefix(line, "BOT_DATA_DIR: needs ") })
		}
		said := func(line, want string) bool { return strings.HasSuffix(line, want) }
		if !slices.EqualFunc(lines, c.want, said) {
			t.Errorf("%s: %q, want %q", name, lines, c.want)
		}
	}
}

// certificateFile is a certificate with its key.
func certificateFile(t *testing.T) string {
	t.Helper()
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now(), NotAfter: time.Now().Add(time.Hour)}
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

// instructions is a file with that text.
func instructions(t *testing.T, text string) string {
	t.Helper()
	return filepath.Join(filesIn(t, map[string]string{"hedda.md": text}), "hedda.md")
}

// TestInstructions: the file replaces the bot's own.
func TestInstructions(t *testing.T) {
	t.Parallel()
	const most = maxInstructions
	for name, c := range map[string]struct {
		own, file   string
		want, fault string
	}{
		"none":              {"", "", "", ""},
		"the bot's own":     {" Be brief.\n", "", "Be brief.", ""},
		"a file":            {"Be brief.", "\ufeffBe kind.\r\nAnd {{$brief}}.\n\n", "Be kind.\nAnd {{$brief}}.", ""},
		"as long as may be": {"", strings.Repeat("a", most), strings.Repeat("a", most), ""},
		"too long":          {strings.Repeat("a", most+1), "", "", "app.Bot.Instructions: longer than 64 KiB"},
		"binary":            {"\xff", "", "", "app.Bot.Instructions: not UTF-8"},
		"a file of them":    {"\xff", "Be kind.", "Be kind.", ""},
	} {
		var flags []string
		if c.file != "" {
			flags = []string{"--bot-instructions-file=" + instructions(t, c.file)}
		}
		s, err := Read(Bot{Instructions: c.own}, flags...)
		if c.fault != "" {
			if err == nil || err.Error() != c.fault {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got, err := s.Instructions(); got != c.want || err != nil {
			t.Errorf("%s: %.40q, %v", name, got, err)
		}
	}
}

// TestInstructionsOfAnotherSide: unset for one side, the bot's own count there.
func TestInstructionsOfAnotherSide(t *testing.T) {
	t.Parallel()
	s, err := Read(Bot{Instructions: "own"}, "--bot-instructions-file="+instructions(t, "of a file"))
	if err != nil {
		t.Fatal(err)
	}
	other, err := s.Against([]string{"BOT_INSTRUCTIONS_FILE="})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := other.Instructions(); got != "own" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
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
	azure := func() env {
		return env{"azure-openai-endpoint": "https://x", "azure-openai-api-key": "k", "azure-openai-deployment": "d"}
	}
	with := func(s env, edit func(env)) env {
		edit(s)
		return s
	}
	for name, c := range map[string]struct {
		in   env
		want []string
	}{
		"open to the world": {env{"bot-addr": "0.0.0.0:3978"}, []string{"BOT_ADDR"}},
		"by name":           {env{"bot-addr": "bot.example:3978"}, []string{"BOT_ADDR"}},
		"all interfaces":    {env{"bot-addr": ":3978"}, []string{"BOT_ADDR"}},
		"no address":        {env{"bot-addr": "3978"}, []string{"BOT_ADDR"}},
		"no port":           {env{"port": "99999"}, []string{"PORT"}},
		"no numbers": {env{"bot-max-steps": "0", "bot-max-messages": "0", "bot-max-same-calls": "-1", "bot-max-turn-tokens": "many", "bot-max-turn-cost": "1,2", "bot-model-price": "x", "bot-user-turns-per-minute": "0", "bot-user-tokens-per-day": "-5", "bot-tenant-turns-per-minute": "1.5", "bot-tenant-tokens-per-day": "many", "bot-approval-timeout": "0", "bot-audit-keep": "90d", "bot-max-turns": "0", "bot-max-waiting": "all", "bot-max-waiting-per-conversation": "-1", "bot-max-connections": "0", "bot-max-requests": "few"}, []string{
			"BOT_MAX_TURNS", "BOT_MAX_WAITING", "BOT_MAX_WAITING_PER_CONVERSATION", "BOT_MAX_CONNECTIONS", "BOT_MAX_REQUESTS",
			"BOT_MAX_STEPS", "BOT_MAX_MESSAGES", "BOT_MAX_SAME_CALLS", "BOT_MAX_TURN_TOKENS", "BOT_MAX_TURN_COST", "BOT_MODEL_PRICE",
			"BOT_USER_TURNS_PER_MINUTE", "BOT_USER_TOKENS_PER_DAY", "BOT_TENANT_TURNS_PER_MINUTE", "BOT_TENANT_TOKENS_PER_DAY", "BOT_APPROVAL_TIMEOUT", "BOT_AUDIT_KEEP",
		}},
		"lists of nobody": {env{"bot-allowed-tenants": ",", "bot-allowed-users": " , ", "bot-allowed-channels": ",,", "bot-allowed-callers": ",", "bot-allowed-service-hosts": ", ", "bot-approvers": ",", "bot-approval-actions": ",", "bot-fallback-models": ","}, []string{
			"BOT_ALLOWED_TENANTS", "BOT_ALLOWED_USERS", "BOT_ALLOWED_CHANNELS", "BOT_ALLOWED_CALLERS", "BOT_ALLOWED_SERVICE_HOSTS", "BOT_APPROVERS", "BOT_APPROVAL_ACTIONS", "BOT_FALLBACK_MODELS",
		}},
		"lists of names": {env{"bot-allowed-tenants": "contoso.example, " + guid, "bot-allowed-users": guid + ",bob@contoso,bob smith", "bot-allowed-channels": "Microsoft Teams"}, []string{
			"BOT_ALLOWED_TENANTS", "BOT_ALLOWED_USERS", "BOT_ALLOWED_USERS", "BOT_ALLOWED_CHANNELS",
		}},
		"ids of nothing":         {env{"microsoft-app-id": "your app", "microsoft-app-tenant-id": guid, "microsoft-app-federated-client-id": "a\x00b"}, []string{"MICROSOFT_APP_ID", "MICROSOFT_APP_FEDERATED_CLIENT_ID"}},
		"an endless id":          {env{"microsoft-app-id": strings.Repeat("a", 257), "microsoft-app-tenant-id": guid, "microsoft-app-password": "p"}, []string{"MICROSOFT_APP_ID"}},
		"a secret of two lines":  {env{"microsoft-app-id": "a", "microsoft-app-tenant-id": guid, "microsoft-app-password": "u:p\nu:p"}, []string{"MICROSOFT_APP_PASSWORD"}},
		"a tenant of all":        {env{"microsoft-app-id": "a", "microsoft-app-password": "p", "microsoft-app-tenant-id": "Common"}, []string{"MICROSOFT_APP_TENANT_ID"}},
		"ports of nothing":       {env{"bot-openid-metadata-url": "https://x:99999/y", "bot-login-url": "https://x:0"}, []string{"BOT_OPENID_METADATA_URL", "BOT_LOGIN_URL"}},
		"half an address":        {env{"bot-allowed-service-hosts": "[::1,-,a.-b,[::1],::1"}, []string{"BOT_ALLOWED_SERVICE_HOSTS", "BOT_ALLOWED_SERVICE_HOSTS", "BOT_ALLOWED_SERVICE_HOSTS"}},
		"a pipe":                 {env{"microsoft-app-id": "a", "microsoft-app-tenant-id": guid, "microsoft-app-certificate-file": pipe(t)}, []string{"MICROSOFT_APP_CERTIFICATE_FILE"}},
		"a pipe of tokens":       {env{"microsoft-app-id": "a", "microsoft-app-tenant-id": guid, "microsoft-app-federated-token-file": pipe(t)}, []string{"MICROSOFT_APP_FEDERATED_TOKEN_FILE"}},
		"an approval too long":   {env{"bot-approval-timeout": "720h1s"}, []string{"BOT_APPROVAL_TIMEOUT"}},
		"a long burst":           {env{"bot-burst": "11s"}, []string{"BOT_BURST"}},
		"a name for an approver": {env{"bot-approvers": "aad-ben,19:board@thread.v2,carla@contoso.com,Ben Miller"}, []string{"BOT_APPROVERS", "BOT_APPROVERS"}},
		"no time of day":         {env{"bot-approval-reminder": "9 am"}, []string{"BOT_APPROVAL_REMINDER"}},
		"an audit without Redis": {env{"bot-audit-keep": "24h"}, []string{"BOT_AUDIT_KEEP"}},
		"cost without a price":   {env{"bot-max-turn-cost": "1"}, []string{"BOT_MAX_TURN_COST"}},
		"one price":              {env{"bot-model-price": "1"}, []string{"BOT_MODEL_PRICE"}},
		"no app id":              {env{"microsoft-app-password": "p", "microsoft-app-tenant-id": "t", "microsoft-app-type": singleTenant}, []string{"MICROSOFT_APP_PASSWORD", "MICROSOFT_APP_TENANT_ID", "MICROSOFT_APP_TYPE"}},
		"proofs of nobody": {env{"microsoft-app-certificate-file": "/nowhere", "microsoft-app-certificate-password": "p", "microsoft-app-federated-token-file": "/nowhere", "microsoft-app-federated-client-id": "b", "bot-allow-emulator": "true", "bot-allowed-callers": guid}, []string{
			"MICROSOFT_APP_CERTIFICATE_FILE", "MICROSOFT_APP_FEDERATED_TOKEN_FILE", "MICROSOFT_APP_FEDERATED_CLIENT_ID", "BOT_ALLOW_EMULATOR", "BOT_ALLOWED_CALLERS",
		}},
		"two proofs":             {env{"microsoft-app-id": "a", "microsoft-app-tenant-id": guid, "microsoft-app-password": "p", "microsoft-app-federated-client-id": "b", "microsoft-app-federated-token-file": "/nowhere"}, []string{"MICROSOFT_APP_FEDERATED_TOKEN_FILE", "MICROSOFT_APP_FEDERATED_CLIENT_ID"}},
		"a proof of an identity": {env{"microsoft-app-id": "a", "microsoft-app-type": managedIdentity, "microsoft-app-federated-client-id": "b"}, []string{"MICROSOFT_APP_FEDERATED_CLIENT_ID"}},
		"no certificate":         {env{"microsoft-app-id": "a", "microsoft-app-tenant-id": guid, "microsoft-app-certificate-file": "/nowhere"}, []string{"MICROSOFT_APP_CERTIFICATE_FILE"}},
		"no federated token":     {env{"microsoft-app-id": "a", "microsoft-app-tenant-id": guid, "microsoft-app-federated-token-file": "/nowhere"}, []string{"MICROSOFT_APP_FEDERATED_TOKEN_FILE"}},
		"a password of nothing":  {env{"microsoft-app-id": "a", "microsoft-app-tenant-id": guid, "microsoft-app-password": "p", "microsoft-app-certificate-password": "p"}, []string{"MICROSOFT_APP_CERTIFICATE_PASSWORD"}},
		"callers of no tenant":   {env{"microsoft-app-id": "a", "microsoft-app-type": multiTenant, "microsoft-app-password": "p", "bot-allow-emulator": "true", "bot-allowed-callers": guid}, []string{"MICROSOFT_APP_TENANT_ID"}},
		"callers of a domain":    {env{"microsoft-app-id": "a", "microsoft-app-password": "p", "microsoft-app-tenant-id": "contoso.example", "bot-allow-emulator": "true"}, []string{"MICROSOFT_APP_TENANT_ID"}},
		"anonymous callers":      {env{"microsoft-app-id": guid, "microsoft-app-password": "p", "microsoft-app-tenant-id": guid, "bot-allowed-callers": "AnonymousSkill," + guid}, []string{"BOT_ALLOWED_CALLERS", "BOT_ALLOWED_CALLERS"}},
		"neither on nor off":     {env{"microsoft-app-id": "a", "microsoft-app-tenant-id": guid, "microsoft-app-password": "p", "bot-allow-emulator": "maybe"}, []string{"BOT_ALLOW_EMULATOR"}},
		"an app id alone":        {env{"microsoft-app-id": "a"}, []string{"MICROSOFT_APP_TENANT_ID", "MICROSOFT_APP_PASSWORD"}},
		"a secret alone":         {env{"microsoft-app-id": "a", "microsoft-app-password": "p"}, []string{"MICROSOFT_APP_TENANT_ID"}},
		"no tenant":              {env{"microsoft-app-id": "a", "microsoft-app-password": "p", "microsoft-app-type": singleTenant}, []string{"MICROSOFT_APP_TENANT_ID"}},
		"odd type":               {env{"microsoft-app-id": "a", "microsoft-app-password": "p", "microsoft-app-type": "Other"}, []string{"MICROSOFT_APP_TYPE"}},
		"odd type of nobody":     {env{"microsoft-app-type": "foo"}, []string{"MICROSOFT_APP_TYPE"}},
		"a server beside Azure":  {with(azure(), func(s env) { s["openai-base-url"] = "::" }), []string{"OPENAI_BASE_URL"}},
		"both open and closed":   {env{"microsoft-app-id": "a", "microsoft-app-tenant-id": guid, "microsoft-app-password": "p", "bot-dangerously-no-auth": "true"}, []string{"BOT_DANGEROUSLY_NO_AUTH"}},
		"neither true nor false": {env{"bot-dangerously-no-auth": "maybe"}, []string{"BOT_DANGEROUSLY_NO_AUTH"}},
		"plain http":             {env{"bot-openid-metadata-url": "http://evil.example/x", "bot-login-url": "ftp://x"}, []string{"BOT_OPENID_METADATA_URL", "BOT_LOGIN_URL"}},
		"password in an address": {env{"openai-base-url": "https://u:p@x/v1"}, []string{"OPENAI_BASE_URL"}},
		"half an Azure":          {env{"azure-openai-endpoint": "https://x"}, []string{"AZURE_OPENAI_DEPLOYMENT"}},
		"other words":            {env{"microsoft-app-id": "a", "microsoft-app-tenant-id": guid, "microsoft-app-password": "p", "bot-model": "none", "bot-state": "redis"}, []string{"BOT_MODEL", "BOT_STATE"}},
		"two models, two states": {env{"bot-model": "offline", "openai-api-key": "k", "openai-base-url": "http://x/v1", "bot-state": "embedded", "redis-url": "redis://x"}, []string{"BOT_MODEL", "BOT_STATE"}},
		"offline, on Azure":      {with(azure(), func(s env) { s["bot-model"] = "offline" }), []string{"BOT_MODEL"}},
		"the other half":         {env{"azure-openai-api-key": "k", "azure-openai-deployment": "d", "azure-openai-api-version": "v"}, []string{"AZURE_OPENAI_API_KEY", "AZURE_OPENAI_DEPLOYMENT", "AZURE_OPENAI_API_VERSION"}},
		"a fallback of nobody":   {env{"bot-fallback-models": "m"}, []string{"BOT_FALLBACK_MODELS"}},
		"a server for no model":  {env{"openai-api-key": "k", "bot-fallback-base-url": "http://x/v1", "bot-fallback-api-key": "k"}, []string{"BOT_FALLBACK_BASE_URL", "BOT_FALLBACK_API_KEY"}},
		"a fallback's password":  {env{"openai-api-key": "k", "bot-fallback-models": "m", "bot-fallback-base-url": "http://u:p@x/v1"}, []string{"BOT_FALLBACK_BASE_URL"}},
		"Redis":                  {env{"redis-url": "redis://:u:p@x?colour=red"}, []string{"REDIS_URL"}},
		"hosts":                  {env{"bot-allowed-service-hosts": "a:b:c, good.example, https://x, x:0"}, []string{"BOT_ALLOWED_SERVICE_HOSTS", "BOT_ALLOWED_SERVICE_HOSTS", "BOT_ALLOWED_SERVICE_HOSTS"}},
		"no such command":        {env{"bot-prompts-dir": promptsFolder(t, "{{oops}}")}, []string{"BOT_PROMPTS_DIR"}},
		"no such scope":          {env{"bot-prompts-dir": promptsFolder(t, "Hi {{$dialog.name}}")}, []string{"BOT_PROMPTS_DIR"}},
		"not a template":         {env{"bot-prompts-dir": promptsFolder(t, "{{")}, []string{"BOT_PROMPTS_DIR"}},
		"a mute action": {
			env{"bot-prompts-dir": filesIn(t, map[string]string{"a/prompt.txt": "{{$x}}", "a/config.json": `{"input": {"parameters": []}}`, "sequence/prompt.txt": "{{oops}}"})},
			[]string{"BOT_PROMPTS_DIR", "BOT_PROMPTS_DIR", "BOT_PROMPTS_DIR"},
		},
		"instructions of nobody":  {env{"bot-instructions-file": "/nowhere", "bot-max-steps": "0"}, []string{"BOT_INSTRUCTIONS_FILE", "BOT_MAX_STEPS"}},
		"blank instructions":      {env{"bot-instructions-file": instructions(t, "\ufeff \r\n\t")}, []string{"BOT_INSTRUCTIONS_FILE"}},
		"endless instructions":    {env{"bot-instructions-file": instructions(t, strings.Repeat("a\r\n", maxInstructions/3+1))}, []string{"BOT_INSTRUCTIONS_FILE"}},
		"binary instructions":     {env{"bot-instructions-file": instructions(t, "a\xffb")}, []string{"BOT_INSTRUCTIONS_FILE"}},
		"a folder, not a file":    {env{"bot-instructions-file": t.TempDir()}, []string{"BOT_INSTRUCTIONS_FILE"}},
		"a pipe of instructions":  {env{"bot-instructions-file": pipe(t)}, []string{"BOT_INSTRUCTIONS_FILE"}},
		"a reload of nothing":     {env{"bot-prompts-reload": "true"}, []string{"BOT_PROMPTS_RELOAD"}},
		"odd feedback":            {env{"bot-feedback": "maybe"}, []string{"BOT_FEEDBACK"}},
		"unknown commands":        {env{"bot-commands-off": "/forget, /delete, reset, /MYDATA"}, []string{"BOT_COMMANDS_OFF", "BOT_COMMANDS_OFF"}},
		"an odd reload":           {env{"bot-prompts-reload": "often"}, []string{"BOT_PROMPTS_RELOAD"}},
		"no prompt":               {env{"bot-prompts-dir": t.TempDir()}, []string{"BOT_PROMPTS_DIR"}},
		"queries":                 {env{"bot-openid-metadata-url": "https://x/?u:p", "bot-login-url": "https://x/#u:p", "openai-base-url": "http://x/v1?u:p"}, []string{"BOT_OPENID_METADATA_URL", "BOT_LOGIN_URL", "OPENAI_BASE_URL"}},
		"hosts of nobody":         {env{"bot-openid-metadata-url": "https://:443", "bot-login-url": "https://:443"}, []string{"BOT_OPENID_METADATA_URL", "BOT_LOGIN_URL"}},
		"an odd tenant":           {env{"microsoft-app-id": "a", "microsoft-app-password": "p", "microsoft-app-tenant-id": "my tenant/"}, []string{"MICROSOFT_APP_TENANT_ID"}},
		"an odd deployment":       {with(azure(), func(s env) { s["azure-openai-deployment"] = "a/b" }), []string{"AZURE_OPENAI_DEPLOYMENT"}},
		"an odd endpoint":         {with(azure(), func(s env) { s["azure-openai-endpoint"] = "https://x/openai/v1" }), []string{"AZURE_OPENAI_ENDPOINT"}},
		"an odd key":              {with(azure(), func(s env) { s["azure-openai-api-key"] = "u:p\nu:p" }), []string{"AZURE_OPENAI_API_KEY"}},
		"odd deployments behind":  {with(azure(), func(s env) { s["bot-fallback-models"] = "a/b, good, c?d" }), []string{"BOT_FALLBACK_MODELS", "BOT_FALLBACK_MODELS"}},
		"OpenAI without a key":    {env{"openai-base-url": "https://api.openai.com/v1"}, []string{"OPENAI_API_KEY"}},
		"OpenAI behind, no key":   {with(azure(), func(s env) { s["bot-fallback-models"], s["bot-fallback-base-url"] = "m", "https://api.openai.com/v1" }), []string{"BOT_FALLBACK_API_KEY"}},
		"an odd fallback":         {env{"openai-api-key": "k\nk", "bot-fallback-models": "m", "bot-fallback-base-url": "http://x/?q", "bot-fallback-api-key": "u:p\nu:p"}, []string{"OPENAI_API_KEY", "BOT_FALLBACK_BASE_URL", "BOT_FALLBACK_API_KEY"}},
		"a planner, and approval": {env{"bot-planner": "bar", "bot-approval-actions": "nope, DELETELIST, nada", "bot-response-format": "json_object"}, []string{"BOT_PLANNER", "BOT_APPROVAL_ACTIONS", "BOT_APPROVAL_ACTIONS"}},
		"no folder, and approval": {env{"bot-prompts-dir": "/nowhere", "bot-approval-actions": "nope"}, []string{"BOT_PROMPTS_DIR", "BOT_APPROVAL_ACTIONS"}},
		"a format, and a prompt":  {env{"bot-prompts-dir": promptsFolder(t, "{{oops}}"), "bot-response-format": "xml"}, []string{"BOT_RESPONSE_FORMAT", "BOT_PROMPTS_DIR"}},
		"no name of a limit": {with(azure(), func(s env) {
			s["bot-max-tokens-field"], s["bot-reasoning-effort"], s["bot-model-system-messages"] = "tokens", "very high", "never"
		}), []string{"BOT_MAX_TOKENS_FIELD", "BOT_REASONING_EFFORT", "BOT_MODEL_SYSTEM_MESSAGES"}},
		"such names, and behind": {env{"openai-api-key": "k", "bot-fallback-models": "b", "bot-fallback-base-url": "http://x", "bot-max-tokens-field": "tokens"}, []string{"BOT_MAX_TOKENS_FIELD"}},
		"half a stream":          {env{"bot-model-stream": "maybe"}, []string{"BOT_MODEL_STREAM"}},
		"impatient":              {env{"bot-model-retries": "-1", "bot-model-max-wait": "0s"}, []string{"BOT_MODEL_RETRIES", "BOT_MODEL_MAX_WAIT"}},
		"no response format":     {env{"bot-response-format": "yaml"}, []string{"BOT_RESPONSE_FORMAT"}},
		"another planner's":      {env{"bot-planner": "sequential", "bot-response-format": "text"}, []string{"BOT_RESPONSE_FORMAT"}},
		"a model of nobody":      {env{"openai-model": "m"}, []string{"OPENAI_MODEL"}},
		"everything else":        {env{"bot-cloud": "moon", "bot-allowed-service-hosts": "https://x/", "bot-planner": "magic", "bot-prompts-dir": "/nowhere", "bot-turn-timeout": "5", "bot-drain-timeout": "-1s", "bot-log-level": "loud", "bot-log-format": "xml"}, []string{"BOT_CLOUD", "BOT_ALLOWED_SERVICE_HOSTS", "BOT_PLANNER", "BOT_PROMPTS_DIR", "BOT_TURN_TIMEOUT", "BOT_DRAIN_TIMEOUT", "BOT_LOG_LEVEL", "BOT_LOG_FORMAT"}},
	} {
		_, err := c.in.read()
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
	_, err := env{"bot-approval-actions": "load_skill, READ_SKILL_RESOURCE, run_skill_script, nope"}.read()
	if err == nil {
		t.Fatal("took them")
	}
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != 4 {
		t.Fatal(err)
	}
	for i, want := range []string{`"load_skill"`, `"READ_SKILL_RESOURCE"`, `"run_skill_script"`, `"nope"`} {
		if !strings.HasSuffix(lines[i], want+" (tools of skills: BOT_SKILLS_APPROVAL)") {
			t.Errorf("%s, want %s", lines[i], want)
		}
	}
}

func TestABotHasAName(t *testing.T) {
	t.Parallel()
	if _, err := Read(Bot{Register: lists.Register}, "--bot-max-steps=-1"); err == nil ||
		!strings.Contains(err.Error(), "app.Bot has no Name") || !strings.Contains(err.Error(), "BOT_MAX_STEPS") {
		t.Errorf("error %v", err)
	}
}

func TestMisspelledVariables(t *testing.T) {
	for name, value := range map[string]string{"BOT_MODLE": "offline", "BOT_MODEL": "x", "BOT_WAREHOUSE": "y", "PORTT": "1", "DESK_OPNES": "3"} {
		t.Setenv(name, value)
	}
	s := &Settings{inFile: map[string]string{"OPENAI_MODL": "x", "CLIENT_ID": "y", "WAREHOUSE": "z"}}
	var desk struct {
		Opens int `env:"DESK_OPENS" help:"hour"`
	}
	s.Add(Part{Feature: "desk", Values: &desk})
	got := s.misspelled([]string{"BOT_ADDR", "BOT_MODEL", "OPENAI_MODEL", "PORT", "CLIENT_IDS", "DESK_OPENS"})
	want := []string{"BOT_MODLE: there is no such setting; did you mean BOT_MODEL?", "DESK_OPNES: there is no such setting; did you mean DESK_OPENS?", "OPENAI_MODL: there is no such setting; did you mean OPENAI_MODEL?"}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// TestGiven lists where values come from, and no value.
func TestGiven(t *testing.T) {
	t.Setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
	t.Setenv("MicrosoftAppTenantId", "")
	t.Setenv("COFFEE_OLD_KEYS", "key=sk-verysecret1")
	var coffee struct {
		Keys [][2]string `env:"COFFEE_KEYS,COFFEE_OLD_KEYS" secret:"true" help:"keys of the machine"`
	}
	s := &Settings{Bot: Bot{Name: "Hedda"}, Parts: []Part{{Feature: "coffee", Values: &coffee}}}
	if err := s.Read("--openai-api-key=sk-verysecret1", "--bot-planner=tools", "--bot-token-url=http://127.0.0.1:9"); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(s.Secrets(), "sk-verysecret1") || len(coffee.Keys) != 1 {
		t.Errorf("secrets %q, keys %q", s.Secrets(), coffee.Keys)
	}
	from := map[string]Given{}
	for _, g := range s.Given() {
		from[g.Variable] = g
		if strings.Contains(fmt.Sprint(g), "verysecret") || strings.Contains(fmt.Sprint(g), "127.0.0.1:9") {
			t.Errorf("%s has its value: %+v", g.Variable, g)
		}
	}
	for name, want := range map[string]string{
		"OPENAI_API_KEY": "a flag", "BOT_PLANNER": "a flag", "OPENAI_BASE_URL": "the environment", "MICROSOFT_APP_TENANT_ID": "", "BOT_MAX_STEPS": "",
		"COFFEE_KEYS": "the environment, as COFFEE_OLD_KEYS",
	} {
		if g, known := from[name]; !known || g.From != want || g.About == "" {
			t.Errorf("%s is %+v, want %q", name, g, want)
		}
	}
	if !from["OPENAI_API_KEY"].Secret || from["BOT_PLANNER"].Secret || from["BOT_PLANNER"].Default != "sequence" || from["BOT_MODEL_RETRIES"].Default != "3" || from["BOT_MODEL_RETRIES"].Value != "3" {
		t.Errorf("secrets and defaults: %+v", from["OPENAI_API_KEY"])
	}
	s.File = "bot.yaml"
	s.Default(map[string]string{"BOT_MAX_STEPS": "7"})
	for _, g := range s.Given() {
		if g.Variable == "BOT_MAX_STEPS" && g.From != "the file of the bot" {
			t.Errorf("what the file sets is from %q", g.From)
		}
	}
}

// TestUnread: a setting of a feature that the bot lacks is told, and stops the start if it protects.
func TestUnread(t *testing.T) {
	t.Setenv("COFFEE_STRENGTH", "3")
	t.Setenv("COFFEE_LIMIT", "4")
	s := &Settings{Bot: Bot{Name: "Hedda"}, Unread: []Unread{{"COFFEE_STRENGTH", "coffee", false}, {"COFFEE_LIMIT", "coffee", true}, {"COFFEE_SUGAR", "coffee", true}}}
	err := s.Read()
	if err == nil || err.Error() != "this bot has no coffee: COFFEE_LIMIT is set and nobody reads it" {
		t.Errorf("got %v", err)
	}
	if want := []string{"this bot has no coffee: COFFEE_STRENGTH is set and nobody reads it"}; !slices.Equal(s.Warnings(), want) {
		t.Errorf("warnings %q", s.Warnings())
	}
	var coffee struct {
		Strength int `env:"COFFEE_STRENGTH" help:"of the coffee"`
		Limit    int `env:"COFFEE_LIMIT" protects:"true" help:"cups a day"`
	}
	s.Parts = []Part{{Feature: "coffee", Values: &coffee}}
	if err := s.Read(); err != nil || coffee.Strength != 3 || coffee.Limit != 4 || len(s.Warnings()) != 0 {
		t.Errorf("got %+v, %v, %q", coffee, err, s.Warnings())
	}
}

// TestApart examines a copy, which must not get at what the running bot uses.
func TestApart(t *testing.T) {
	t.Parallel()
	s := &Settings{Planner: Sequence, Connected: make([]actions.Connection, 1), Count: func(string, string) {}}
	apart := s.Apart()
	if apart.Connected != nil || apart.Count != nil || apart.Planner != Sequence || s.Connected == nil {
		t.Errorf("got %+v", apart)
	}
}

// TestFieldsOfGo are checked as settings are, and listed with theirs.
func TestFieldsOfGo(t *testing.T) {
	t.Parallel()
	_, err := Read(Bot{
		Name: "Desk", Register: lists.Register, Planner: "tolls", Examples: []string{"help", " "},
		Functions: map[string]func(context.Context, *actions.Turn, []string) (any, error){"now": nil},
	}, "--bot-max-steps=-1", "--bot-approval-actions=addItm")
	if err == nil {
		t.Fatal("no fault")
	}
	for _, want := range []string{
		"BOT_MAX_STEPS: ", `app.Bot.Planner: there is no planner "tolls"; did you mean tools?`, "app.Bot.Examples: number 2 is empty", `app.Bot.Functions: "now"`,
		"did you mean addItem?",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in\n%v", want, err)
		}
	}
}
