package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/connector"
	"github.com/planbot-go/planbot/internal/cli"
	"github.com/planbot-go/planbot/internal/settings"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/prompts"
)

type doctorCmd struct {
	JSON bool `name:"json" help:"print the checks as JSON"`
}

// probeTimeout is how long one check may take.
const probeTimeout = 5 * time.Second

// Run prints what was found and fails when the bot would not work.
func (d doctorCmd) Run(ctx context.Context, s *settings.Settings, std *cli.Streams) error {
	faults := s.Check()
	probes := []probe{{"settings", func(context.Context) check { return checkSettings(faults, s.Warnings()) }}}
	if faults == nil {
		p := &program{Settings: s, log: zerolog.Nop()}
		defer p.close()
		more, err := p.probes(ctx)
		if err != nil {
			return err
		}
		probes = append(probes, more...)
	}
	checks := examine(ctx, probes, s.Secrets())
	if d.JSON {
		if err := cli.PrintJSON(std.Out, checks); err != nil {
			return fmt.Errorf("doctor: %w", err)
		}
	} else {
		printChecks(std.Out, checks, cli.IsTerminal(std.Out) && os.Getenv("NO_COLOR") == "")
	}
	if slices.ContainsFunc(checks, func(c check) bool { return c.Status == failed }) {
		return cli.SilentError{Code: cli.ExitFailed}
	}
	return nil
}

// status is what came of a check. Only failed means that the bot will not work.
type status string

const (
	fine   status = "ok"
	warned status = "warn"
	failed status = "fail"
)

// check is what is known about one setting. Hint, if any, is what to do next.
type check struct {
	Name   string `json:"name"`
	Status status `json:"status"`
	Detail string `json:"detail"`
	Hint   string `json:"hint,omitempty"`
}

func ok(detail string) check         { return check{Status: fine, Detail: detail} }
func warn(detail, hint string) check { return check{Status: warned, Detail: detail, Hint: hint} }
func fail(detail, hint string) check { return check{Status: failed, Detail: detail, Hint: hint} }

// probe finds out about one setting. run returns soon after its context ends, and leaves the
// name of its check to the probe.
type probe struct {
	name string
	run  func(context.Context) check
}

// examine lets all probes run at once and returns their checks in the same order. Secrets are
// blotted out wherever they turn up, as are passwords in URLs: errors of libraries may hold them.
func examine(ctx context.Context, probes []probe, secrets []string) []check {
	checks := make([]check, len(probes))
	var running sync.WaitGroup
	for i, p := range probes {
		running.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, probeTimeout)
			defer cancel()
			c := p.run(ctx)
			c.Name, c.Detail, c.Hint = p.name, blot(c.Detail, secrets), blot(c.Hint, secrets)
			checks[i] = c
		})
	}
	running.Wait()
	return checks
}

var (
	password = regexp.MustCompile(`(://[^/\s:@]*):\S*@`)
	bearer   = regexp.MustCompile(`eyJ[A-Za-z0-9_.-]{8,}`)
)

func blot(text string, secrets []string) string {
	for _, s := range secrets {
		text = strings.ReplaceAll(text, s, "…")
	}
	text = password.ReplaceAllString(text, "$1:…@")
	return bearer.ReplaceAllString(text, "…")
}

// reason says in a few words why something did not answer.
func reason(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return "no answer in time"
	}
	return err.Error()
}

// took rounds for reading: "42ms", "1.3s".
func took(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return d.Round(time.Microsecond).String()
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	}
	return d.Round(100 * time.Millisecond).String()
}

// hintFor returns the hint of the first phrase that the error holds.
func hintFor(err error, hints [][2]string, otherwise string) string {
	text := strings.ToLower(err.Error())
	for _, h := range hints {
		if strings.Contains(text, h[0]) {
			return h[1]
		}
	}
	return otherwise
}

// probes check each part of the bot that the settings describe.
func (p *program) probes(ctx context.Context) ([]probe, error) {
	if err := p.openStore(ctx); err != nil {
		return nil, err
	}
	model, about, err := p.NewModel(settings.Watch{})
	if err != nil {
		return nil, err
	}
	var cloud connector.Cloud // none in local mode
	var tokens *connector.Tokens
	if p.AppID != "" {
		if cloud, err = p.ConnectorCloud(); err != nil {
			return nil, err
		}
		if tokens, err = p.tokens(cloud); err != nil {
			return nil, err
		}
	}
	probes := []probe{
		{"address", func(ctx context.Context) check { return checkAddress(ctx, p.Listen()) }},
		{"identity", func(ctx context.Context) check { return p.checkIdentity(ctx, tokens) }},
		{"openid", func(ctx context.Context) check {
			return checkOpenID(ctx, cloud.MetadataURL, "BOT_OPENID_METADATA_URL and BOT_CLOUD")
		}},
		{"clock", func(ctx context.Context) check { return checkClock(ctx, cloud.MetadataURL, time.Now) }},
		{"redis", p.checkRedis},
		{"model", func(ctx context.Context) check { return checkModel(ctx, model, about) }},
		{"prompts", func(context.Context) check { return checkPrompts(p.PromptsDir) }},
	}
	if p.AllowEmulator || len(p.AllowedCallers) > 0 {
		probes = append(probes, probe{"callers", func(ctx context.Context) check {
			return checkOpenID(ctx, cloud.EntraMetadataURL(p.AppTenant), "MICROSOFT_APP_TENANT_ID, BOT_LOGIN_URL and BOT_CLOUD")
		}})
	}
	if p.SkillsDir != "" {
		probes = append(probes, probe{"skills", p.checkSkills}, probe{"scripts", p.checkScripts})
	}
	return probes, nil
}

func checkSettings(err error, warnings []string) check {
	const hint = "each line names the variable to mend; docs/settings.md explains them all"
	switch {
	case err != nil:
		return fail(err.Error(), hint)
	case len(warnings) > 0:
		return warn(strings.Join(warnings, "\n"), hint)
	}
	return ok("no contradictions")
}

// checkAddress tries to listen.
func checkAddress(ctx context.Context, addr string) check {
	listener, err := listen(ctx, addr, "BOT_ADDR, PORT")
	switch {
	case err == nil:
		_ = listener.Close() // nobody has connected
		return ok("the bot will listen on " + addr + ", which is free; " + audience(addr))
	case errors.Is(err, syscall.EADDRINUSE) && healthy(ctx, addr):
		return warn(addr+" is taken by a program that says it is healthy, so the bot seems to be running already",
			"stop it before you start another one, or set PORT to a free port")
	case errors.Is(err, syscall.EADDRINUSE):
		return fail(addr+" is taken by another program", "end that program, or set PORT to a free port")
	case errors.Is(err, syscall.EACCES):
		return fail("this user may not listen on "+addr, "ports below 1024 need a privileged user: set PORT to a higher one, such as 3978")
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fail(addr+" is no address of this machine", "set BOT_ADDR to an address that this machine has, such as 127.0.0.1:3978")
	}
	return fail(err.Error(), "set BOT_ADDR as host:port, such as 127.0.0.1:3978")
}

// audience says who can reach the address.
func audience(addr string) string {
	host, _, _ := net.SplitHostPort(addr)
	ip, err := netip.ParseAddr(host)
	switch {
	case strings.EqualFold(host, "localhost") || err == nil && ip.IsLoopback():
		return "only programs on this machine can reach it"
	case host == "" || err == nil && ip.IsUnspecified():
		return "every machine that can reach this one can reach it"
	}
	return "machines of that network can reach it"
}

// healthy reports whether what listens on addr is well, as a bot would say.
func healthy(ctx context.Context, addr string) bool {
	resp, err := get(ctx, addr, "/healthz")
	if err != nil {
		return false
	}
	defer func() { _ = resp.Body.Close() }() // read only
	said, _ := io.ReadAll(io.LimitReader(resp.Body, 64))
	return resp.StatusCode == http.StatusOK && strings.TrimSpace(string(said)) == "ok"
}

// ask asks a server of the internet.
func ask(ctx context.Context, url string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Cache-Control", "no-cache") // a cached answer has an old date
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}
	return transport.RoundTrip(req)
}

// checkIdentity tries to get a token.
func (p *program) checkIdentity(ctx context.Context, tokens *connector.Tokens) check {
	switch {
	case p.AppID == "" && p.NoAuth:
		return warn("no app id, and BOT_DANGEROUSLY_NO_AUTH is true: whoever can reach the bot's address may talk to it, and it cannot talk to Teams",
			"keep it on a closed network, or set MICROSOFT_APP_ID")
	case p.AppID == "":
		c := ok("local mode: without an app id nobody is asked who they are, so only programs on this machine may talk to the bot")
		c.Hint = "good for \"bot chat\" and the Agents Playground; for Teams, register a bot and set MICROSOFT_APP_ID and MICROSOFT_APP_PASSWORD"
		return c
	}
	kind := p.IdentityType()
	if p.AppTenant != "" {
		kind += ", tenant " + p.AppTenant
	}
	start := time.Now()
	if _, err := tokens.Token(ctx); err != nil {
		return fail(fmt.Sprintf("app %s (%s) gets no token from Microsoft, so it cannot answer: %s", p.AppID, kind, reason(err)),
			hintFor(err, identityHints, "compare MICROSOFT_APP_ID, MICROSOFT_APP_PASSWORD, MICROSOFT_APP_TENANT_ID and MICROSOFT_APP_TYPE with the app registration, and see whether this machine reaches the login server"))
	}
	return ok(fmt.Sprintf("app %s (%s) got a token in %s", p.AppID, kind, took(time.Since(start))))
}

// identityHints are for the codes of Microsoft Entra
// (https://learn.microsoft.com/entra/identity-platform/reference-error-codes).
var identityHints = [][2]string{
	{"7000215", "MICROSOFT_APP_PASSWORD is wrong: it has to be the Value of the client secret, not its Secret ID"},
	{"7000222", "the client secret has run out: make a new one in the app registration and set MICROSOFT_APP_PASSWORD"},
	{"700027", "the app's registration does not know the certificate, or it has run out: upload the one in MICROSOFT_APP_CERTIFICATE_FILE to the app registration"},
	{"70021", "the app's registration trusts no such identity: compare the issuer, subject and audience of its federated credentials with MICROSOFT_APP_FEDERATED_TOKEN_FILE or MICROSOFT_APP_FEDERATED_CLIENT_ID"},
	{"700024", "the federated token has run out: see who renews MICROSOFT_APP_FEDERATED_TOKEN_FILE, and the clock"},
	{"managed identity gives none", "the managed identity has to be assigned to this machine, and MICROSOFT_APP_ID (or MICROSOFT_APP_FEDERATED_CLIENT_ID) has to be its client id"},
	{"700016", "this tenant does not know the app: compare MICROSOFT_APP_ID and MICROSOFT_APP_TENANT_ID with the app registration; a bot of one tenant needs MICROSOFT_APP_TYPE=SingleTenant"},
	{"90002", "there is no such tenant: compare MICROSOFT_APP_TENANT_ID with the app registration"},
	{"900023", "there is no such tenant: compare MICROSOFT_APP_TENANT_ID with the app registration"},
	{"no such host", "this machine cannot look up the login server: see its DNS and its proxy (HTTPS_PROXY), and BOT_LOGIN_URL if it is set"},
	{"deadline exceeded", "the login server did not answer: see the firewall and the proxy (HTTPS_PROXY), and BOT_LOGIN_URL if it is set"},
}

// maxMetadata is how much of an OpenID document is read.
const maxMetadata = 1 << 20

// checkOpenID looks for the keys of inbound tokens. An empty url is the local mode, which has
// none.
func checkOpenID(ctx context.Context, url, settings string) check {
	if url == "" {
		return ok("not needed in local mode: callers bring no tokens")
	}
	start := time.Now()
	issuer, err := fetchIssuer(ctx, url)
	if err != nil {
		return fail("the keys that prove who calls cannot be found at "+url+", so every caller will be refused: "+reason(err),
			"see the firewall and the proxy (HTTPS_PROXY), and "+settings+" if they are set")
	}
	return ok(fmt.Sprintf("%s answered in %s; tokens have to be of %s", url, took(time.Since(start)), issuer))
}

func fetchIssuer(ctx context.Context, url string) (issuer string, err error) {
	resp, err := ask(ctx, url)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }() // read only
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("it answered %s", resp.Status)
	}
	var document struct {
		Issuer string `json:"issuer"`
		Keys   string `json:"jwks_uri"`
	}
	err = json.UnmarshalRead(io.LimitReader(resp.Body, maxMetadata), &document, jsontext.AllowDuplicateNames(true))
	if err != nil || document.Issuer == "" || document.Keys == "" {
		return "", errors.New("what it answered is no OpenID document")
	}
	return document.Issuer, nil
}

const (
	clockOff   = 30 * time.Second // worth telling
	clockWrong = 5 * time.Minute  // as much as the checks of tokens forgive
)

// checkClock compares now with the date that the server at url writes into its answers. An
// empty url is the local mode, in which no token has to be judged.
func checkClock(ctx context.Context, url string, now func() time.Time) check {
	it := "it is " + now().UTC().Format(time.RFC3339)
	if url == "" {
		return ok(it + "; local mode asks no server for the time")
	}
	before := now()
	resp, err := ask(ctx, url)
	if err != nil {
		return warn(it+", but no server could be asked whether that is right: "+reason(err), "")
	}
	_ = resp.Body.Close() // only its header counts
	date, err := http.ParseTime(resp.Header.Get("Date"))
	if err != nil {
		return warn(it+", but no server could be asked whether that is right: "+url+" tells no time", "")
	}
	const hint = "let the machine set its clock by itself (timedatectl set-ntp true, or the settings of the virtual machine)"
	// Beyond what the way there and back explains. A date has whole seconds, so it is good to a second.
	off := max(before.Sub(date), date.Sub(now()), 0)
	switch detail := fmt.Sprintf("it differs by %s from the clock of %s", took(off), url); {
	case off > clockWrong:
		return fail(detail+"; tokens have a time in them, and more than 5 minutes makes them invalid", hint)
	case off > clockOff:
		return warn(detail, hint)
	}
	return ok("it agrees with the clock of " + url)
}

// checkModel asks the model for one word.
func checkModel(ctx context.Context, model models.Model, about string) check {
	if _, offline := model.(models.Offline); offline {
		c := ok("offline: a few rules stand in for a model, enough to try the lists")
		c.Hint = "for a real one set OPENAI_API_KEY, or OPENAI_BASE_URL (llama.cpp, Ollama, vLLM), or AZURE_OPENAI_ENDPOINT"
		return c
	}
	start := time.Now()
	_, err := model.Complete(ctx, &models.Request{
		Messages:  []models.Message{{Role: models.User, Text: "Answer with the word: yes"}},
		MaxTokens: 20,
	})
	if fault, is := errors.AsType[*models.Error](err); is {
		switch {
		case fault.Kind == models.Empty:
			err = nil // it thought about it for 20 tokens, so it is there
		case fault.Said != "":
			err = fmt.Errorf("%w: %s", err, fault.Said)
		}
	}
	switch {
	case err == nil:
		return ok(fmt.Sprintf("%s answers in %s", about, took(time.Since(start))))
	case errors.Is(err, context.DeadlineExceeded):
		return warn(about+" gave no answer within "+took(time.Since(start))+"; the bot itself waits longer",
			"a server that loads its model at the first question is quicker the second time: run the doctor again")
	}
	return fail(about+" does not answer: "+reason(err), hintFor(err, modelHints,
		"compare the settings whose names begin with OPENAI_ or AZURE_OPENAI_ with what your provider says"))
}

var modelHints = [][2]string{
	{"status 401", "the key is wrong or has run out: OPENAI_API_KEY, or AZURE_OPENAI_API_KEY for Azure"},
	{"status 403", "the key may not use this model: see its permissions at your provider"},
	{"status 404", "there is no such model or deployment: OPENAI_MODEL, or AZURE_OPENAI_DEPLOYMENT and AZURE_OPENAI_API_VERSION; OPENAI_BASE_URL mostly ends in /v1"},
	{"status 429", "the provider has had enough of requests for now, or the credit is used up"},
	{"connection refused", "nothing listens there: start the model's server, or correct OPENAI_BASE_URL"},
	{"no such host", "this machine does not know the host of OPENAI_BASE_URL or AZURE_OPENAI_ENDPOINT"},
}

// checkPrompts reads the prompts in dir; "" is the embedded ones alone.
func checkPrompts(dir string) check {
	library, err := prompts.Load(dir)
	if err != nil {
		return fail(err.Error(), "BOT_PROMPTS_DIR names a folder with one folder for each prompt; unset it for the embedded prompts")
	}
	names := strings.Join(library.Names(), ", ")
	if dir == "" {
		return ok(fmt.Sprintf("embedded (%s)", names))
	}
	return ok(fmt.Sprintf("embedded, and those in %s before them (%s)", dir, names))
}

// maxSkillFaults are shown; a folder may have hundreds.
const maxSkillFaults = 10

// checkSkills looks for the skills that would be used, and for what is wrong with others.
func (p *program) checkSkills(ctx context.Context) check {
	found, faults, err := p.SkillsConfig().Discover(ctx)
	if err != nil {
		return fail(reason(err), "BOT_SKILLS_DIR names folders of skills, parted as in PATH")
	}
	var names []string
	for _, s := range found {
		names = append(names, s.Name)
	}
	detail := []string{strings.TrimSuffix(fmt.Sprintf("%d used: %s", len(names), strings.Join(names, ", ")), ": ")}
	if len(names) > 0 && len(faults) == 0 {
		return ok(detail[0])
	}
	for _, f := range faults[:min(len(faults), maxSkillFaults)] {
		detail = append(detail, f.String())
	}
	if more := len(faults) - maxSkillFaults; more > 0 {
		detail = append(detail, fmt.Sprintf("and %d more", more))
	}
	return warn(strings.Join(detail, "\n"), "bot skills list shows the same, with --lenient and --links where they are set; docs/skills.md explains how a SKILL.md is written")
}

// checkScripts tries whether scripts of skills can run.
func (p *program) checkScripts(ctx context.Context) check {
	const install = "install the package bubblewrap, and interpreters such as python3; " +
		"in a container, whose default profile forbids bubblewrap, Linux 6.12 or later does without: docs/security.md"
	if p.SkillsSandbox == settings.NoSandbox {
		return ok("scripts of skills are refused, as BOT_SKILLS_SANDBOX says")
	}
	box, err := p.OpenSandbox(ctx)
	switch {
	case err != nil && p.SkillsSandbox != settings.AutoSandbox:
		return fail(reason(err), install+"; or set BOT_SKILLS_SANDBOX to auto")
	case err != nil:
		return warn("scripts of skills are refused: "+reason(err), install+"; or set BOT_SKILLS_SANDBOX to none, so that nobody wonders")
	}
	commands := box.Interpreters()
	if len(commands) == 0 {
		return warn("there is "+string(box.Kind())+" for scripts of skills, but no interpreter", install)
	}
	var all []string // such as ".py by /usr/bin/python3"
	for _, ext := range slices.Sorted(maps.Keys(commands)) {
		all = append(all, ext+" by "+commands[ext][0])
	}
	detail := "scripts of skills run in " + string(box.Kind()) + ": " + strings.Join(all, ", ")
	if refused := box.Refused(); len(refused) > 0 {
		detail += "\nnot in " + errors.Join(refused...).Error()
	}
	return ok(detail)
}

const (
	pings     = 5
	slowRedis = 20 * time.Millisecond
	// oldestMajor and oldestMinor are the oldest Redis that the scripts were tried with; those
	// before it get no fixes any more.
	oldestMajor, oldestMinor = 6, 2
)

// checkRedis checks that state can be kept, and that it is kept as one would expect.
func (p *program) checkRedis(ctx context.Context) check {
	const keep = "set REDIS_URL, such as redis://localhost:6379, to keep it"
	switch {
	case p.store.Embedded() && p.AppID != "":
		return warn("embedded: conversations and lists live in this process, are gone when it ends, and a second replica does not see them", keep)
	case p.store.Embedded():
		c := ok("embedded: conversations and lists live in this process and are gone when it ends")
		c.Hint = keep
		return c
	}
	latency, err := ping(ctx, p.store.Ping)
	if err != nil {
		return fail(fmt.Sprintf("no answer from %s, and without it the bot takes no message: %s", p.store, reason(err)), hintFor(err, redisHints,
			"see that the server runs (redis-cli -u \"$REDIS_URL\" ping) and that REDIS_URL names it"))
	}
	about := redisReport{status: fine, details: []string{fmt.Sprintf("%s answers in %s", p.store, took(latency))}}
	if latency > slowRedis {
		about.warn("that is slow", "run Redis near the bot: each message asks it three times")
	}
	if text, err := p.store.Info(ctx); err != nil {
		about.say("it does not say how it is set up (" + reason(err) + ")")
	} else {
		snapshots, err := p.store.Setting(ctx, "save")
		about.info(text, snapshots, err)
	}
	return check{Status: about.status, Detail: strings.Join(about.details, "; "), Hint: strings.Join(about.hints, "\n")}
}

var redisHints = [][2]string{
	{"noauth", "the server wants a password: redis://:password@host:6379 in REDIS_URL"},
	{"wrongpass", "the user or the password in REDIS_URL is wrong"},
	{"noperm", "the user of REDIS_URL may not do what the bot needs: see ACL LIST"},
	{"connection refused", "nothing listens there: start Redis (redis-server, or docker run -p 6379:6379 redis), or correct REDIS_URL"},
	{"no such host", "this machine does not know the host in REDIS_URL"},
	{"tls", "use rediss:// for a server with TLS and redis:// for one without"},
}

// ping returns the middle of a few round trips, after one that connects.
func ping(ctx context.Context, once func(context.Context) error) (time.Duration, error) {
	if err := once(ctx); err != nil {
		return 0, err
	}
	all := make([]time.Duration, pings)
	for i := range all {
		start := time.Now()
		if err := once(ctx); err != nil {
			return 0, err
		}
		all[i] = time.Since(start)
	}
	slices.Sort(all)
	return all[pings/2], nil
}

// redisReport collects what is to be said about a server.
type redisReport struct {
	status         status
	details, hints []string
}

func (r *redisReport) say(detail string) { r.details = append(r.details, detail) }

func (r *redisReport) warn(detail, hint string) {
	if r.status == fine {
		r.status = warned
	}
	r.say(detail)
	r.hints = append(r.hints, hint)
}

// info reads the server's own account of itself, and the rules of its snapshots, which many
// hosted servers do not tell.
func (r *redisReport) info(text, snapshots string, noSnapshots error) {
	info := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, found := strings.Cut(strings.TrimSpace(line), ":"); found {
			info[name] = value
		}
	}
	switch version := info["redis_version"]; {
	case version == "":
	case info["server_name"] == "valkey":
		r.say("Valkey " + info["valkey_version"])
	default:
		r.say("version " + version)
		if older(version) {
			r.warn(fmt.Sprintf("older than %d.%d", oldestMajor, oldestMinor), "bring Redis up to date")
		}
	}
	if info["role"] == "slave" {
		r.warn("it is a replica, which takes no writes", "name the primary in REDIS_URL, or use redis+sentinel://")
		r.status = failed
	}
	switch policy := info["maxmemory_policy"]; policy {
	case "":
	case "noeviction":
		r.say("it never throws keys away")
	default:
		r.warn("when its memory is full it throws keys away ("+policy+"), conversations and queued messages among them",
			"set maxmemory-policy to noeviction (redis-cli CONFIG SET maxmemory-policy noeviction)")
	}
	const hint = "switch on the append-only file (redis-cli CONFIG SET appendonly yes, and appendonly yes in redis.conf)"
	switch rules := strings.TrimSpace(snapshots); {
	case info["aof_enabled"] == "":
	case info["aof_enabled"] == "1":
		r.say("it writes everything to disk (AOF)")
	case noSnapshots != nil:
		r.warn("it keeps no append-only file, so that a restart loses at least the latest changes", hint)
	case rules == "":
		r.warn("it writes nothing to disk, so that a restart loses everything", hint)
	default:
		r.say("it writes snapshots to disk (RDB " + rules + "), so that a crash loses the changes since the last one")
	}
}

func older(version string) bool {
	major, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	a, errA := strconv.Atoi(major)
	b, errB := strconv.Atoi(minor)
	return errA == nil && errB == nil && (a < oldestMajor || a == oldestMajor && b < oldestMinor)
}

// maxText is how wide the text beside the names of checks is.
const maxText = 85

// printChecks writes the checks as a table for people, and a last line that sums up.
func printChecks(w io.Writer, checks []check, color bool) {
	names := 0
	count := map[status]int{}
	for _, c := range checks {
		names = max(names, utf8.RuneCountInString(c.Name))
		count[c.Status]++
	}
	for _, c := range checks {
		mark := fmt.Sprintf("%-4s", c.Status)
		if color {
			mark = "\x1b[" + map[status]string{fine: "32", warned: "33", failed: "31"}[c.Status] + "m" + mark + "\x1b[0m"
		}
		lines := wrap(c.Detail, maxText)
		for i, line := range wrap(c.Hint, maxText-2) {
			lines = append(lines, map[bool]string{true: "→ ", false: "  "}[i == 0]+line)
		}
		fmt.Fprintf(w, "%s  %-*s  %s\n", mark, names, c.Name, strings.Join(lines, "\n"+strings.Repeat(" ", len("fail  ")+names+2)))
	}
	switch {
	case count[failed] > 0:
		fmt.Fprintf(w, "\n%d of %d checks failed: the bot will not work as it is set up.\n", count[failed], len(checks))
	case count[warned] > 0:
		fmt.Fprintf(w, "\nThe bot can run. %d of %d checks have something to tell first.\n", count[warned], len(checks))
	default:
		fmt.Fprintln(w, "\nAll is well.")
	}
}

// wrap breaks text at spaces into lines of at most width characters; a word that is longer has
// a line of its own. Line breaks in the text stay.
func wrap(text string, width int) (lines []string) {
	for paragraph := range strings.SplitSeq(text, "\n") {
		line := ""
		for _, word := range strings.Fields(paragraph) {
			if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
				lines = append(lines, line)
				line = ""
			}
			line = strings.TrimPrefix(line+" "+word, " ")
		}
		if line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}
