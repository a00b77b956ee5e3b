package app

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/app/internal/local"
	"github.com/planbot-go/planbot/app/internal/turnview"
	"github.com/planbot-go/planbot/bot/signin"
	"github.com/planbot-go/planbot/connector"
	"github.com/planbot-go/planbot/internal/cli"
	"github.com/planbot-go/planbot/internal/entra"
	"github.com/planbot-go/planbot/internal/settings"
	"github.com/planbot-go/planbot/manifest"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner/plan"
)

type doctorCmd struct {
	JSON bool `name:"json" help:"print the checks as JSON"`
	own  *Bot
}

const probeTimeout = 5 * time.Second // limits one check

// Run prints the checks and fails if the bot would not work.
func (d doctorCmd) Run(ctx context.Context, s *settings.Settings, std *cli.Streams) error {
	checks, err := diagnose(ctx, *d.own, s)
	if err != nil {
		return err
	}
	if d.JSON {
		if err := cli.PrintJSON(std.Out, checks); err != nil {
			return fmt.Errorf("doctor: %w", err)
		}
	} else {
		printChecks(std.Out, checks)
	}
	if slices.ContainsFunc(checks, func(c check) bool { return c.Status == failed }) {
		return cli.SilentError{Code: cli.ExitFailed}
	}
	return nil
}

// diagnose examines the settings and what they name, except the checks that skip names.
func diagnose(ctx context.Context, own Bot, s *settings.Settings, skip ...string) ([]check, error) {
	_, err := own.Teams.Invokes()
	faults := errors.Join(s.Check(), err)
	probes := []probe{{"settings", func(context.Context) check { return checkSettings(faults, s.Warnings(), s.Given()) }}}
	if faults == nil {
		p := &program{Settings: s, own: own, log: zerolog.Nop()}
		defer p.close()
		more, err := p.probes(ctx)
		if err != nil {
			return nil, err
		}
		probes = append(probes, more...)
	}
	probes = slices.DeleteFunc(probes, func(p probe) bool { return slices.Contains(skip, p.name) })
	return examine(ctx, probes, s.Secrets()), nil
}

// status is the outcome of a check. Only failed means that the bot will not work.
type status = string

const (
	fine   status = "ok"
	warned status = "warn"
	failed status = "fail"
)

// Check is what the doctor says of one thing. Status is ok, warn or fail, or "" if there is nothing to say; Hint says
// what to do next.
type Check struct {
	Name   string `json:"name"`
	Status string `json:"status"`
	Detail string `json:"detail"`
	Hint   string `json:"hint,omitempty"`
}

type check = Check

func ok(detail string) check         { return check{Status: fine, Detail: detail} }
func warn(detail, hint string) check { return check{Status: warned, Detail: detail, Hint: hint} }
func fail(detail, hint string) check { return check{Status: failed, Detail: detail, Hint: hint} }

// warn adds something that should be changed.
func (c *check) warn(detail, hint string) {
	if c.Status == fine {
		c.Status = warned
	}
	c.Detail += "; " + detail
	c.Hint = strings.TrimPrefix(c.Hint+"\n"+hint, "\n")
}

// probe examines one setting. run returns soon after its context ends; the probe sets the name of
// the check.
type probe struct {
	name string
	run  func(context.Context) check
}

var (
	password = regexp.MustCompile(`(://[^/\s:@]*):\S*@`)
	bearer   = regexp.MustCompile(`eyJ[A-Za-z0-9_.-]{8,}`)
)

const leastSecret = 4 // the length of the shortest secret that is removed: shorter ones occur in words

// examine runs all probes at once and returns their checks in the same order. It removes secrets,
// and passwords in URLs, that library errors may contain.
func examine(ctx context.Context, probes []probe, secrets []string) []check {
	hide := func(text string) string {
		for _, s := range secrets {
			if len(s) >= leastSecret {
				text = strings.ReplaceAll(text, s, "…")
			}
		}
		return bearer.ReplaceAllString(password.ReplaceAllString(text, "$1:…@"), "…")
	}
	checks := make([]check, len(probes))
	var running sync.WaitGroup
	for i, p := range probes {
		running.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, probeTimeout)
			defer cancel()
			c := p.run(ctx)
			checks[i] = check{p.name, c.Status, hide(c.Detail), hide(c.Hint)}
		})
	}
	running.Wait()
	return slices.DeleteFunc(checks, func(c check) bool { return c == check{Name: c.Name} })
}

// refusal is the check for an error, with the hint for the first phrase that the error contains.
func refusal(detail string, err error, hints [][2]string, otherwise string) check {
	hint, text := otherwise, strings.ToLower(err.Error())
	for _, h := range slices.Backward(hints) {
		if strings.Contains(text, h[0]) {
			hint = h[1]
		}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fail(detail+": no answer in time", hint)
	}
	return fail(detail+": "+err.Error(), hint)
}

// since rounds for reading.
func since(start time.Time) time.Duration { return time.Since(start).Round(time.Millisecond) }

// probes check each part of the bot that the settings describe.
func (p *program) probes(ctx context.Context) ([]probe, error) {
	if err := p.openStore(ctx); err != nil {
		return nil, err
	}
	model, about, err := p.NewModel(settings.Watch{})
	if err != nil {
		return nil, err
	}
	guard, client, err := p.connect()
	if err != nil {
		return nil, err
	}
	acts := p.Actions()
	for _, c := range p.Connected {
		acts.AddSource(c.Actions)
	}
	forms, err := p.modelForms(acts)
	if err != nil {
		return nil, err
	}
	channels, callers := guard.MetadataURLs()
	probes := []probe{
		{"address", func(ctx context.Context) check { return checkAddress(ctx, p.Listen()) }},
		{"identity", func(ctx context.Context) check { return p.checkIdentity(ctx, client) }},
		{"openid", func(ctx context.Context) check {
			return checkOpenID(ctx, channels, "BOT_OPENID_METADATA_URL and BOT_CLOUD")
		}},
		{"redis", p.checkRedis},
		{"model", func(ctx context.Context) check { return checkModel(ctx, model, about, forms...) }},
	}
	if p.EntraID() {
		probes = append(probes, probe{"entra", p.checkEntra})
	}
	if p.AllowEmulator || len(p.AllowedCallers) > 0 {
		probes = append(probes, probe{"callers", func(ctx context.Context) check {
			return checkOpenID(ctx, callers, "MICROSOFT_APP_TENANT_ID, BOT_LOGIN_URL and BOT_CLOUD")
		}})
	}
	probes = append(probes, p.checkServices(ctx)...)
	names := slices.DeleteFunc(acts.Connections(), func(name string) bool { _, own := p.own.Services[name]; return own })
	if len(names) > 0 {
		probes = append(probes, probe{"sign-in", func(ctx context.Context) check { return p.checkSignIn(ctx, client, names) }})
	}
	for _, f := range p.own.features {
		for _, name := range slices.Sorted(maps.Keys(f.Doctor)) {
			probes = append(probes, probe{name, func(ctx context.Context) check { return f.Doctor[name](ctx, p.program()) }})
		}
	}
	return probes, nil
}

func checkSettings(err error, warnings []string, given []settings.Given) check {
	const hint = "each line names the variable to change; docs/settings.md explains them all"
	switch {
	case err != nil:
		return fail(strings.Join(append(settings.Lines(err), warnings...), "\n"), hint)
	case len(warnings) > 0:
		return warn(strings.Join(warnings, "\n"), hint)
	}
	return ok("no contradictions" + sources(given))
}

// sources says where the settings come from that are set, without their values.
func sources(given []settings.Given) (text string) {
	var order []string
	from := map[string][]string{}
	for _, g := range given {
		source, _, _ := strings.Cut(g.From, ", as ")
		if source == "" {
			continue
		}
		if from[source] == nil {
			order = append(order, source)
		}
		from[source] = append(from[source], g.Variable)
	}
	for _, source := range order {
		text += fmt.Sprintf("; from %s: %s", source, strings.Join(from[source], ", "))
	}
	return text
}

func checkAddress(ctx context.Context, addr string) check {
	listener, err := local.Listen(ctx, addr, "BOT_ADDR, PORT")
	switch {
	case err == nil:
		_ = listener.Close() // no connection was made
		return ok("the bot will listen on " + addr + ", which is free")
	case errors.Is(err, syscall.EADDRINUSE):
		if body, err := local.Get(ctx, addr, "/healthz"); err == nil && string(body) == "ok\n" {
			return warn(addr+" is taken by a program that says it is healthy, so the bot seems to be running already",
				"stop it before you start another one, or set PORT to a free port")
		}
		return fail(addr+" is taken by another program", "end that program, or set PORT to a free port")
	case errors.Is(err, syscall.EACCES):
		return fail("this user may not listen on "+addr, "set PORT to one above 1023, such as 3978")
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fail(addr+" is not an address of this machine", "set BOT_ADDR to one that is, such as 127.0.0.1:3978")
	}
	return fail(err.Error(), "set BOT_ADDR as host:port, such as 127.0.0.1:3978")
}

// checkIdentity tries to get a token.
func (p *program) checkIdentity(ctx context.Context, client *connector.Client) check {
	switch {
	case p.AppID == "" && p.NoAuth:
		return warn("BOT_DANGEROUSLY_NO_AUTH is true: whoever reaches the bot may talk to it, and it cannot talk to Teams",
			"keep it on a closed network, or set MICROSOFT_APP_ID")
	case p.AppID == "":
		return check{
			Status: fine, Detail: "local mode, no app id: only programs on this machine may talk to the bot",
			Hint: "good for \"bot chat\" and the Agents Playground; for Teams, set MICROSOFT_APP_ID and MICROSOFT_APP_PASSWORD",
		}
	}
	about := fmt.Sprintf("app %s (%s)", p.AppID, strings.TrimSuffix(p.IdentityType()+", tenant "+p.AppTenant, ", tenant "))
	start := time.Now()
	if err := client.CheckToken(ctx); err != nil {
		return refusal(about+" gets no token from Microsoft, so it cannot answer", err, identityHints,
			"compare MICROSOFT_APP_… with the app registration, and see whether this machine reaches the login server")
	}
	return ok(fmt.Sprintf("%s got a token in %s", about, since(start)))
}

// checkSignIn asks the token service for a sign-in link of each connection. Nobody gets it.
func (p *program) checkSignIn(ctx context.Context, client signin.Tokens, names []string) check {
	ref := activity.Reference{ChannelID: activity.Teams}
	ref.User.ID, ref.Bot.ID, ref.Conversation.ID = "29:doctor", "28:"+p.AppID, "doctor"
	resource := strings.ReplaceAll(cmp.Or(p.own.Manifest.WebAppResource, manifest.BotResource), "${{BOT_ID}}", p.AppID)
	for _, connection := range names {
		r, err := client.SignInResource(ctx, ref, connection)
		switch {
		case errors.Is(err, connector.ErrNoTokenService):
			return warn("local mode has no token service, so nobody can sign in for the actions that need it", "set MICROSOFT_APP_ID, or BOT_TOKEN_URL")
		case err != nil:
			return warn("the token service gives no sign-in link for the connection "+connection+": "+err.Error(),
				"compare the name with the OAuth connections of the Azure Bot (Configuration); see docs/teams.md, Sign-in")
		case r.Exchange.URI != "" && r.Exchange.URI != resource && p.AppID != "":
			return warn("the Token Exchange URL of the connection "+connection+" is "+r.Exchange.URI+", and webApplicationInfo.resource of the app package is "+resource+", so nobody is signed in silently",
				"make both the Application ID URI of the app registration: in the OAuth connection of the Azure Bot, and with --web-app-resource of \"bot manifest build\"")
		}
	}
	return ok("the token service knows " + strings.Join(names, ", "))
}

// checkServices connects to each service and tells what it offers. A service that does not answer costs
// its own actions only.
func (p *program) checkServices(ctx context.Context) (probes []probe) {
	closeAll, err := p.Connect(ctx)
	if err != nil {
		return []probe{{"services", func(context.Context) check {
			return fail(err.Error(), "see the connections of the bot, in bot.yaml or its code")
		}}}
	}
	p.closers = append(p.closers, closeAll)
	for _, c := range p.Connected {
		probes = append(probes, probe{c.Key(), func(context.Context) check {
			return checkService(settings.List(ctx, []actions.Connection{c})[0])
		}})
	}
	return probes
}

func checkService(s settings.Service) check {
	if s.Err != nil {
		return warn("the service cannot be asked, so none of its actions is offered: "+s.Err.Error(),
			"see that it runs, and that the bot has its right address")
	}
	var offered, refused, others []string
	for _, one := range s.Has {
		switch {
		case one.LeftOut == "":
			offered = append(offered, one.Name)
		case one.NotAllowed:
			refused = append(refused, cli.OneLine(one.Remote))
		default:
			others = append(others, cli.OneLine(one.Remote)+" is not offered: "+cli.OneLine(one.LeftOut))
		}
		for _, note := range one.Notes {
			others = append(others, cli.OneLine(one.Remote)+": "+cli.OneLine(note))
		}
	}
	c := ok(strings.TrimSuffix(fmt.Sprintf("offers %s: %s", turnview.Count(len(offered), "action"), strings.Join(offered, ", ")), ": "))
	if len(refused) > 0 {
		c.Detail += "\nits rules leave out " + strings.Join(refused, ", ")
	}
	c.Detail = strings.Join(append([]string{c.Detail}, others...), "\n")
	if len(others) > 0 {
		c.Status, c.Hint = warned, "bot actions --pin shows what changed, and accepts it"
	}
	return c
}

// identityHints are for Microsoft Entra's error codes
// (https://learn.microsoft.com/entra/identity-platform/reference-error-codes).
var identityHints = [][2]string{
	{"7000215", "MICROSOFT_APP_PASSWORD is wrong: it has to be the Value of the client secret, not its Secret ID"},
	{"7000222", "the client secret has run out: make a new one in the app registration and set MICROSOFT_APP_PASSWORD"},
	{"700027", "the certificate is unknown or has run out: upload the one in MICROSOFT_APP_CERTIFICATE_FILE"},
	{"70021", "the app registration has no such identity among its federated credentials: compare them"},
	{"700024", "the federated token has run out: see who renews MICROSOFT_APP_FEDERATED_TOKEN_FILE, and the clock"},
	{"managed identity gives none", "it has to be assigned to this machine, and its client id has to be set"},
	{"700016", "this tenant does not know the app; a bot of one tenant needs MICROSOFT_APP_TYPE=SingleTenant"},
	{"90002", "there is no such tenant: compare MICROSOFT_APP_TENANT_ID with the app registration"},
	{"900023", "there is no such tenant: compare MICROSOFT_APP_TENANT_ID with the app registration"},
	{"no such host", "the login server is not found: see DNS, the proxy (HTTPS_PROXY), and BOT_LOGIN_URL"},
	{"deadline exceeded", "the login server did not answer: see firewall, proxy (HTTPS_PROXY), and BOT_LOGIN_URL"},
}

// checkOpenID fetches the keys for inbound tokens. An empty url means local mode, which has none.
func checkOpenID(ctx context.Context, url, settings string) check {
	if url == "" {
		return ok("not needed in local mode: callers bring no tokens")
	}
	start := time.Now()
	issuer, err := fetchIssuer(ctx, url)
	if err != nil {
		return refusal("the keys that prove who calls cannot be found at "+url+", so every caller will be refused", err, nil,
			"see the firewall and the proxy (HTTPS_PROXY), and "+settings+" if they are set")
	}
	return ok(fmt.Sprintf("%s answered in %s; tokens have to be of %s", url, since(start), issuer))
}

func fetchIssuer(ctx context.Context, url string) (issuer string, err error) {
	body, err := local.Fetch(ctx, &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}, url)
	if err != nil {
		return "", err
	}
	var document struct {
		Issuer string `json:"issuer"`
		Keys   string `json:"jwks_uri"`
	}
	if json.Unmarshal(body, &document) != nil || document.Issuer == "" || document.Keys == "" {
		return "", errors.New("its answer is not an OpenID document")
	}
	return document.Issuer, nil
}

// checkEntra gets a token for Azure OpenAI and says whose it is.
func (p *program) checkEntra(ctx context.Context) check {
	get, err := entra.Token(p.Cloud, nil)
	if err != nil {
		return fail(err.Error(), "correct AZURE_TOKEN_CREDENTIALS, or unset it")
	}
	start := time.Now()
	token, err := get(ctx)
	if err != nil {
		return refusal("Microsoft Entra ID gives no token for Azure OpenAI", err, nil,
			"set AZURE_OPENAI_API_KEY; or give this machine a workload or managed identity, with AZURE_CLIENT_ID if it is assigned by users; or sign in with az login")
	}
	return ok(fmt.Sprintf("got a token for Azure OpenAI in %s as %s", since(start), cmp.Or(entra.Identity(token), "somebody whom the token does not name")))
}

// modelForm is a form of request that the planner uses.
type modelForm struct {
	name    string
	request models.Request
}

// modelForms are the forms of the bot's planner, with the schemas of its own actions: a server may take one
// schema and refuse another.
func (p *program) modelForms(acts *actions.Registry) (forms []modelForm, err error) {
	switch format := p.ResponseFormat; {
	case p.Planner == "tools":
		var tools []models.Tool
		for _, a := range acts.All() {
			t := models.Tool{Name: a.Name, Description: a.Description}
			if t.Schema, t.Strict, err = plan.ToolSchema(a, true); err != nil {
				return nil, fmt.Errorf("schema of action %s: %w", a.Name, err)
			}
			tools = append(tools, t)
		}
		forms = append(forms, modelForm{"tools", models.Request{Tools: tools}})
	case p.Planner == "sequential" || format == "text":
		forms = append(forms, modelForm{"text", models.Request{}})
	case format == "json_object":
		forms = append(forms, modelForm{"json_object", models.Request{Format: &models.Format{}}})
	default:
		schema, grammar, strict, err := plan.Schema(acts, true)
		if err != nil {
			return nil, fmt.Errorf("schema of plans: %w", err)
		}
		forms = append(forms, modelForm{"json_schema", models.Request{Format: &models.Format{Schema: schema, Grammar: grammar, Loose: !strict}}})
	}
	if p.ModelStream || p.streams() {
		forms = append(forms, modelForm{"stream", models.Request{Stream: func() func(string) { return func(string) {} }}})
	}
	return forms, nil
}

// instead says what the bot does when a server refuses a part of a request, and how to spare the question.
var instead = map[string][2]string{
	"json_schema": {"describes the form in words and checks each answer", "BOT_RESPONSE_FORMAT=json_object, or text, spares the refused request after each start"},
	"json_object": {"describes the form in words and checks each answer", "BOT_RESPONSE_FORMAT=text spares the refused request after each start"},
	"stream":      {"asks for whole answers", "BOT_STREAM=false and BOT_MODEL_STREAM=false spare the refused request after each start"},
	"chat":        {"asks over the Responses API", ""},
}

// checkModel asks the model for one word, once in each form, all at once.
func checkModel(ctx context.Context, model models.Model, about string, forms ...modelForm) check {
	if _, offline := model.(models.Offline); offline {
		return check{
			Status: fine, Detail: "offline: it answers only the phrases of the actions, which is enough to try the bot",
			Hint: "for a real one set OPENAI_API_KEY, or OPENAI_BASE_URL (llama.cpp, Ollama, vLLM), or AZURE_OPENAI_ENDPOINT",
		}
	}
	if len(forms) == 0 {
		forms = []modelForm{{name: "text"}}
	}
	start := time.Now()
	answers, errs := make([]*models.Response, len(forms)), make([]error, len(forms))
	var asking sync.WaitGroup
	for i := range forms {
		asking.Go(func() { answers[i], errs[i] = askForOneWord(ctx, model, forms[i].request) })
	}
	asking.Wait()
	for i, err := range errs {
		switch {
		case err == nil:
		case errors.Is(err, context.DeadlineExceeded):
			return warn(fmt.Sprintf("%s gave no answer to %s within %s; the bot itself waits longer", about, forms[i].name, since(start)),
				"a server that loads its model at the first question is quicker the second time: run the doctor again")
		default:
			return refusal(fmt.Sprintf("%s does not answer to %s", about, forms[i].name), err, modelHints,
				"compare the settings whose names begin with OPENAI_ or AZURE_OPENAI_ with what your provider says")
		}
	}
	var used models.Usage
	var names []string
	for i, answer := range answers {
		used = used.Add(answer.Usage)
		names = append(names, forms[i].name)
	}
	cost := ""
	switch {
	case used.Cost > 0:
		cost = fmt.Sprintf(", for %d tokens, which cost %.6f", used.Total(), used.Cost)
	case used.Total() > 0:
		cost = fmt.Sprintf(", for %d tokens", used.Total())
	}
	c := ok(fmt.Sprintf("%s answers in %s to %s%s", about, since(start), strings.Join(names, " and "), cost))
	told := map[string]bool{}
	for _, answer := range answers {
		for _, part := range answer.Without {
			if told[part] {
				continue
			}
			told[part] = true
			if does, known := instead[part]; known {
				c.warn(fmt.Sprintf("the server refuses %s, so the bot %s", part, does[0]), does[1])
			} else {
				c.warn(fmt.Sprintf("the server refuses %s, so the bot leaves it out", part), "a connection's allow or deny can leave an action out")
			}
		}
	}
	c.Hint = strings.TrimSpace(c.Hint)
	return c
}

// askForOneWord asks in the form of a request. A model that spent its tokens on reasoning works.
func askForOneWord(ctx context.Context, model models.Model, request models.Request) (*models.Response, error) {
	request.Messages = []models.Message{{Role: "user", Text: "Answer with the word: yes"}}
	request.MaxTokens = 20
	answer, err := model.Complete(ctx, &request)
	fault, is := errors.AsType[*models.Error](err)
	switch {
	case !is:
		return answer, err
	case fault.Kind == models.Empty:
		return &models.Response{Usage: fault.Usage}, nil
	case fault.Said != "":
		return nil, fmt.Errorf("%w: %s", err, fault.Said)
	}
	return nil, err
}

var modelHints = [][2]string{
	{"get a token", "the check entra says what is missing"},
	{"permissiondenied", "the identity needs the role Cognitive Services OpenAI User on the Azure OpenAI resource; a new role takes some minutes"},
	{"status 401", "the key is wrong or has run out: OPENAI_API_KEY, or AZURE_OPENAI_API_KEY for Azure"},
	{"status 403", "the key or identity may not use this model: see its permissions at your provider"},
	{"status 404", "there is no such model or deployment; OPENAI_BASE_URL mostly ends in /v1"},
	{"status 429", "the provider has had enough of requests for now, or the credit is used up"},
	{"connection refused", "nothing listens there: start the model's server, or correct OPENAI_BASE_URL"},
	{"no such host", "this machine does not know the host of OPENAI_BASE_URL or AZURE_OPENAI_ENDPOINT"},
}

const slowRedis = 20 * time.Millisecond

// checkRedis checks that Redis can store state, and stores it safely.
func (p *program) checkRedis(ctx context.Context) check {
	const keep = "set REDIS_URL, such as redis://localhost:6379, or BOT_DATA_DIR to keep it"
	switch {
	case p.store.Embedded() && p.AppID != "":
		return warn("embedded: state lives in this process, is gone when it ends, and a second replica does not see it", keep)
	case p.store.Embedded():
		return check{Status: fine, Detail: "embedded: state lives in this process and is gone when it ends", Hint: keep}
	}
	if p.DataDir != "" {
		conn, err := dialDataDir(ctx, p.DataDir)
		if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, os.ErrNotExist) {
			program, _ := settings.DataServer() // the check of the settings has found it
			return ok("no bot runs in " + p.DataDir + " now; the next one will run " + program + " there")
		}
		if err == nil {
			_ = conn.Close() // nothing was sent
		}
	}
	var latency time.Duration
	for range 2 { // the first one connects
		start := time.Now()
		if err := p.store.Ping(ctx); err != nil {
			return refusal(fmt.Sprintf("%s cannot be used, so the bot takes no message", p.store), err, redisHints,
				`see that the server runs (redis-cli -u "$REDIS_URL" ping) and that REDIS_URL names it`)
		}
		latency = since(start)
	}
	c := ok(fmt.Sprintf("%s answers in %s", p.store, latency))
	if latency > slowRedis {
		c.warn("that is slow", "run Redis near the bot: each message asks it three times")
	}
	text, err := p.store.Info(ctx)
	if err != nil {
		c.Detail += "; it does not say how it is set up (" + err.Error() + ")"
		return c
	}
	snapshots, err := p.store.Setting(ctx, "save")
	c.redis(text, snapshots, err)
	return c
}

var redisHints = [][2]string{
	{"oom command", "the server answers, but is full: raise its maxmemory or free memory (redis-cli info memory); keep maxmemory-policy noeviction"},
	{"noauth", "the server wants a password: redis://:password@host:6379 in REDIS_URL"},
	{"wrongpass", "the user or the password in REDIS_URL is wrong"},
	{"noperm", "the user of REDIS_URL may not do what the bot needs: see ACL LIST"},
	{"connection refused", "nothing listens there: start Redis (redis-server), or correct REDIS_URL"},
	{"no such host", "this machine does not know the host in REDIS_URL"},
	{"tls", "use rediss:// for a server with TLS and redis:// for one without"},
}

// redis adds what the server says about itself, and its snapshot rules, which many hosted servers
// do not reveal.
func (c *check) redis(text, snapshots string, noSnapshots error) {
	info := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, found := strings.Cut(strings.TrimSpace(line), ":"); found {
			info[name] = value
		}
	}
	if version := info["redis_version"]; version != "" {
		c.Detail += "; version " + version
		var major, minor int
		_, err := fmt.Sscanf(version, "%d.%d", &major, &minor)
		if err == nil && (major < 6 || major == 6 && minor < 2) { // no longer get fixes
			c.warn("older than 6.2", "bring Redis up to date")
		}
	}
	if info["role"] == "slave" {
		c.warn("it is a replica, which takes no writes", "name the primary in REDIS_URL, or use redis+sentinel://")
		c.Status = failed
	}
	if policy := info["maxmemory_policy"]; policy != "" && policy != "noeviction" {
		c.warn("when its memory is full it throws keys away ("+policy+"), conversations and queued messages among them",
			"set maxmemory-policy to noeviction (redis-cli CONFIG SET maxmemory-policy noeviction)")
	}
	const hint = "switch on the append-only file (redis-cli CONFIG SET appendonly yes, and appendonly yes in redis.conf)"
	switch rules := strings.TrimSpace(snapshots); {
	case info["aof_enabled"] == "":
	case info["aof_enabled"] == "1":
		c.Detail += "; it writes everything to disk (AOF)"
	case noSnapshots != nil:
		c.warn("it keeps no append-only file, so that a restart loses at least the latest changes", hint)
	case rules == "":
		c.warn("it writes nothing to disk, so that a restart loses everything", hint)
	default:
		c.Detail += "; it writes snapshots to disk (RDB " + rules + "), so that a crash loses the changes since the last one"
	}
}

// printChecks writes the checks for people, and a summary line.
func printChecks(w io.Writer, checks []check) {
	count := map[status]int{}
	for _, c := range checks {
		count[c.Status]++
		text := c.Detail
		if c.Hint != "" {
			text += "\n→ " + strings.ReplaceAll(c.Hint, "\n", "\n  ")
		}
		fmt.Fprintf(w, "%-4s  %-8s  %s\n", c.Status, c.Name, strings.ReplaceAll(text, "\n", "\n"+strings.Repeat(" ", 16)))
	}
	switch {
	case count[failed] > 0:
		fmt.Fprintf(w, "\n%d of %d checks failed: the bot will not work as it is set up.\n", count[failed], len(checks))
	case count[warned] > 0:
		fmt.Fprintf(w, "\nThe bot can run. %d of %d checks have a warning.\n", count[warned], len(checks))
	default:
		fmt.Fprintln(w, "\nAll is well.")
	}
}
