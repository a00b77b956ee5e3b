// Package botfile reads bots that a file describes instead of a Go program: bot.yaml. What it has
// and its connections to other services need no code. schema.json is its JSON Schema, for editors.
package botfile

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/net/http/httpguts"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/connections"
	"github.com/planbot-go/planbot/actions/mcp"
	"github.com/planbot-go/planbot/actions/openapi"
	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/connector"
	"github.com/planbot-go/planbot/internal/loopback"
	"github.com/planbot-go/planbot/internal/settings"
	"github.com/planbot-go/planbot/internal/spelling"
	"github.com/planbot-go/planbot/knowledge"
	"github.com/planbot-go/planbot/manifest"
)

// content is what stands in a file. The tags are its keys, which schema.json has too.
type content struct {
	Version      int                          `yaml:"version"`
	Name         string                       `yaml:"name"`
	Instructions text                         `yaml:"instructions"`
	Welcome      string                       `yaml:"welcome"`
	Examples     []string                     `yaml:"examples"`
	Planner      string                       `yaml:"planner"`
	Prompt       folder                       `yaml:"prompt"`
	Prompts      folder                       `yaml:"prompts"`
	Skills       []folder                     `yaml:"skills"`
	Knowledge    *documents                   `yaml:"knowledge"`
	Actions      []rule                       `yaml:"actions"`
	Connections  map[string]*connection       `yaml:"connections"`
	Approvals    approvals                    `yaml:"approvals"`
	Texts        map[string]map[string]string `yaml:"texts"`
	Settings     map[string]value             `yaml:"settings"`
	Tests        []local                      `yaml:"tests"`
	Manifest     appPackage                   `yaml:"manifest"`
}

// documents are what the bot answers from.
type documents struct {
	Folders []folder      `yaml:"folders"`
	Access  []string      `yaml:"access"`
	Every   time.Duration `yaml:"every"`
}

// rule names an action of the program, or says which of a connection may be used. That may also stand in
// the connection itself.
type rule struct {
	name       string
	From       string   `yaml:"from"`
	Allow      []string `yaml:"allow"`
	Approve    []string `yaml:"approve"`
	Unapproved []string `yaml:"unapproved"`
}

// connection is a service: an MCP server at an address or of a command, or one with an OpenAPI document.
type connection struct {
	MCP     string   `yaml:"mcp"`
	Command []string `yaml:"command"`
	OpenAPI source   `yaml:"openapi"`

	Summary string `yaml:"summary"`
	Auth    *auth  `yaml:"auth"`
	Trust   string `yaml:"trust"`

	Header map[string]value `yaml:"header"` // besides that of Auth

	Allow      []string `yaml:"allow"`
	Approve    []string `yaml:"approve"`
	Unapproved []string `yaml:"unapproved"`

	// Of MCP servers.
	Timeout  time.Duration            `yaml:"timeout"`
	Timeouts map[string]time.Duration `yaml:"timeouts"`
	Env      map[string]value         `yaml:"env"`

	// Of OpenAPI documents.
	Plugin    local             `yaml:"plugin"`
	Server    string            `yaml:"server"`
	Variables map[string]string `yaml:"variables"`
	Headers   []string          `yaml:"headers"`
	Private   []netip.Prefix    `yaml:"private"`
	Redirects bool              `yaml:"follow_redirects"`
	Answers   map[string]answer `yaml:"answers"`

	plugin openapi.Plugin // what Plugin says
	ruled  bool           // its rules stand in actions
}

// auth is one way to prove who calls.
type auth struct {
	Bearer secret  `yaml:"bearer"`
	Basic  *basic  `yaml:"basic"`
	Header string  `yaml:"header"` // with Value
	Query  string  `yaml:"query"`  // with Value
	Value  secret  `yaml:"value"`
	SignIn string  `yaml:"sign_in"`
	OAuth  *own    `yaml:"oauth"`
	Client *client `yaml:"client_credentials"`
}

// client is the bot's own account at a service.
type client struct {
	TokenURL string   `yaml:"token_url"`
	ID       string   `yaml:"client_id"`
	Secret   secret   `yaml:"client_secret"`
	Scopes   []string `yaml:"scopes"`
}

const tokenWithin = 10 * time.Second // limits a request for a token

// transport makes requests with the bot's token, which it keeps while it is good. If a service does not take
// a token, the request is made once more with a new one: it may have been revoked.
func (c *client) transport(private []netip.Prefix, base http.RoundTripper) http.RoundTripper {
	if u, _ := url.Parse(c.TokenURL); u != nil && u.Scheme == "http" { // it is on this machine, as checkAuth sees to
		private = append(slices.Clip(private), connections.ThisMachine()...)
	}
	cfg := clientcredentials.Config{ClientID: c.ID, ClientSecret: string(c.Secret), TokenURL: c.TokenURL, Scopes: c.Scopes}
	patient := &http.Client{
		Timeout: tokenWithin, Transport: connections.Dialer{Private: private}.Transport(),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	ctx := context.WithValue(context.Background(), oauth2.HTTPClient, patient) // each request for a token has its own deadline
	fresh := func() *oauth2.Transport { return &oauth2.Transport{Source: cfg.TokenSource(ctx), Base: base} }
	var current atomic.Pointer[oauth2.Transport]
	current.Store(fresh())
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		with := current.Load()
		resp, err := with.RoundTrip(req)
		repeatable := req.Body == nil || req.Body == http.NoBody || req.GetBody != nil
		if err == nil && resp.StatusCode == http.StatusUnauthorized && repeatable {
			_ = resp.Body.Close() // whatever else it says
			again := req.Clone(req.Context())
			if req.GetBody != nil {
				if again.Body, err = req.GetBody(); err != nil {
					return nil, err
				}
			}
			current.CompareAndSwap(with, fresh()) // unless another request has
			resp, err = current.Load().RoundTrip(again)
		}
		if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
			err = fmt.Errorf("the token service answered %d", refused.Response.StatusCode) // without the rest of its answer
		}
		return resp, err
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// own is how the bot itself signs people in, see [connector.Service].
type own struct {
	Resource string   `yaml:"resource"`
	Issuer   string   `yaml:"issuer"`
	Hosts    []string `yaml:"hosts"`
	ClientID string   `yaml:"client_id"`
	Secret   secret   `yaml:"client_secret"`
	Scopes   []string `yaml:"scopes"`
}

type basic struct {
	User     string `yaml:"user"`
	Password secret `yaml:"password"`
}

type answer struct {
	Data   string   `yaml:"data"`
	Fields []string `yaml:"fields"`
}

type approvals struct {
	Actions   []string      `yaml:"actions"`
	Approvers []string      `yaml:"approvers"`
	Timeout   time.Duration `yaml:"timeout"`
}

// appPackage is what people may want to say of the app package of Teams; flags of "bot manifest" have
// the rest.
type appPackage struct {
	Version             string    `yaml:"version"`
	FullName            string    `yaml:"full_name"`
	Summary             string    `yaml:"summary"`
	Details             string    `yaml:"details"`
	AccentColor         string    `yaml:"color"`
	ColorIcon           icon      `yaml:"icon"`
	OutlineIcon         icon      `yaml:"outline_icon"`
	Language            string    `yaml:"language"`
	Commands            []command `yaml:"commands"`
	Prompts             []command `yaml:"prompts"`
	Scopes              []string  `yaml:"scopes"`
	Permissions         []string  `yaml:"permissions"`
	ValidDomains        []string  `yaml:"valid_domains"`
	Files               bool      `yaml:"files"`
	Targeted            bool      `yaml:"targeted"`
	ResourcePermissions []string  `yaml:"resource_permissions"`
	Disclaimer          string    `yaml:"disclaimer"`
	Developer           string    `yaml:"developer"`
	WebsiteURL          string    `yaml:"website_url"`
	PrivacyURL          string    `yaml:"privacy_url"`
	TermsURL            string    `yaml:"terms_url"`
}

type command struct {
	Title       string `yaml:"title"`
	Description string `yaml:"description"`
}

// service is where people sign in for the connection, with the bot as the client.
func (c *connection) service() connector.Service {
	o := c.Auth.OAuth
	return connector.Service{
		Resource: cmp.Or(o.Resource, c.MCP, c.Server), Issuer: o.Issuer, Hosts: o.Hosts,
		ClientID: o.ClientID, Secret: string(o.Secret), Scopes: o.Scopes, Private: c.Private,
	}
}

// File is a bot that a file describes. It is immutable and safe for concurrent use.
type File struct {
	name     string
	in       content
	settings map[string]string // by variable
	lines    map[string]int
	hidden   []string
	values   values
	warnings []string
}

// Read reads and checks a file of at most 1 MiB, and the files that it names. It does not connect to
// anything. known are the settings that the file may set. The error lists every fault, each with the file's
// name and the line. It never shows the value of a variable.
func Read(name string, known *settings.Settings) (*File, error) {
	raw, err := readFile(name, maxFile)
	if err != nil {
		return nil, fmt.Errorf("BOT_FILE: %s%w", strings.TrimSuffix(name, filepath.Base(name)), err)
	}
	dir, err := filepath.Abs(filepath.Dir(name))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	d := &decoder{known: known, dir: dir, lines: map[string]int{}, raw: map[string]string{}, values: values{}}
	f := &File{name: name, lines: d.lines, settings: map[string]string{}}
	if d.read(raw, &f.in); len(d.lines) > 0 { // else nothing was read
		d.check(f)
	}
	f.hidden, f.values = d.hidden, d.values
	for _, w := range d.warnings {
		f.warnings = append(f.warnings, fmt.Sprintf("%s:%d: %s", name, w.line, d.values.hide(w.text)))
	}
	if err := d.err(name); err != nil {
		return nil, err
	}
	return f, nil
}

// check notes the faults of values that are fine one by one.
func (d *decoder) check(f *File) {
	in := &f.in
	if in.Version != 1 && !d.faulty("version") {
		d.at("version", "has to be 1, the version of this format")
	}
	in.Name = cmp.Or(in.Name, "Planbot")
	d.checkPrompt(in)
	d.spreadRules(in)
	if in.Planner != "" && !slices.Contains(settings.Planners(), in.Planner) {
		d.at("planner", "has to be one of %s", strings.Join(settings.Planners(), ", "))
	}
	for _, key := range slices.Sorted(maps.Keys(in.Connections)) {
		d.checkConnection(key, in.Connections[key])
	}
	d.checkSettings(f)
}

// checkPrompt makes the folder of a planner's prompt the planner and its library.
func (d *decoder) checkPrompt(in *content) {
	if in.Prompt == "" {
		return
	}
	kind := filepath.Base(string(in.Prompt))
	switch {
	case in.Prompts != "":
		d.at("prompt", "is a folder of what prompts has: have one of them")
	case !slices.Contains(settings.Planners(), kind):
		d.at("prompt", "has to be a folder with the name of a planner: %s", strings.Join(settings.Planners(), ", "))
	case in.Planner != "" && in.Planner != kind:
		d.at("prompt", "is for the planner %s, and planner says %s", kind, in.Planner)
	default:
		in.Planner, in.Prompts = kind, folder(filepath.Dir(string(in.Prompt)))
	}
}

// spreadRules gives the connections the rules that stand in actions.
func (d *decoder) spreadRules(in *content) {
	for i, r := range in.Actions {
		path := fmt.Sprintf("actions.%d", i+1)
		if r.name != "" || d.faulty(path) {
			continue
		}
		c := in.Connections[r.From]
		switch {
		case c == nil && d.lines["connections."+r.From] > 0:
			continue // what is wrong with it is told
		case c == nil:
			d.at(path+".from", "there is no connection %q%s", spelling.Clip(r.From), spelling.Hint(r.From, slices.Sorted(maps.Keys(in.Connections))))
			continue
		case c.ruled, c.Allow != nil, c.Approve != nil, c.Unapproved != nil:
			d.at(path, "the rules of %s stand elsewhere, too", r.From)
		}
		c.Allow, c.Approve, c.Unapproved, c.ruled = r.Allow, r.Approve, r.Unapproved, true
	}
}

// faulty reports whether a key has a fault already.
func (d *decoder) faulty(path string) bool {
	return slices.ContainsFunc(d.faults, func(f fault) bool { return strings.HasPrefix(f.text, path+": ") })
}

// elsewhere has the settings that have a key of their own in the file.
var elsewhere = map[string]string{
	"BOT_PLANNER": "planner", "BOT_PROMPTS_DIR": "prompts", "BOT_SKILLS_DIR": "skills", "BOT_INSTRUCTIONS_FILE": "instructions",
	"BOT_APPROVAL_ACTIONS": "approvals.actions", "BOT_APPROVERS": "approvals.approvers", "BOT_APPROVAL_TIMEOUT": "approvals.timeout",
	"BOT_KNOWLEDGE_DIR": "knowledge.folders", "BOT_KNOWLEDGE_ACCESS": "knowledge.access", "BOT_KNOWLEDGE_EVERY": "knowledge.every",
	"BOT_FILE": "",
}

// isPath matches settings that name a file or a folder.
var isPath = regexp.MustCompile(`_(DIR|FILE|CERTIFICATE)$`)

// checkSettings checks the settings of the file, and adds those that have keys of their own.
func (d *decoder) checkSettings(f *File) {
	for name, v := range f.in.Settings {
		path := "settings." + name
		key, own := elsewhere[name]
		err := d.known.CheckValue(name, v.text)
		switch {
		case d.faulty(path):
		case own && key == "":
			d.at(path, "cannot be set here")
		case own:
			d.at(path, "stands in this file as %s", key)
		case errors.Is(err, settings.ErrUnknown):
			d.at(path, "there is no such setting%s", spelling.Hint(name, d.known.Variables()))
		case d.known.Secret(name, v.text) && !v.whole:
			d.at(path, "%s", literalSecret)
		case err != nil && v.text != v.raw:
			d.at(path, "the value of its variable is not what this setting takes")
		case err != nil:
			d.at(path, "%v", err)
		case isPath.MatchString(name) && !v.whole && (filepath.IsAbs(v.text) || !filepath.IsLocal(v.text)):
			d.at(path, "has to be a path below the folder of this file")
		case isPath.MatchString(name) && !v.whole:
			f.settings[name] = filepath.Join(d.dir, v.text)
		default:
			f.settings[name] = v.text
		}
	}
	for i, name := range f.in.Approvals.Actions {
		key, _, _ := strings.Cut(name, "_")
		path := fmt.Sprintf("approvals.actions.%d", i+1)
		switch {
		case strings.Contains(name, ","):
			d.at(path, "is not the name of an action")
		case f.in.Connections[key] != nil:
			d.at(path, "is an action of a connection: name it in connections.%s.approve, as the service does", key)
		}
	}
	add := func(name, v string) {
		if v != "" {
			f.settings[name] = v
		}
	}
	if k := f.in.Knowledge; k != nil {
		d.checkKnowledge(k)
		add("BOT_KNOWLEDGE_DIR", strings.Join(names(k.Folders), string(os.PathListSeparator)))
		add("BOT_KNOWLEDGE_ACCESS", strings.Join(k.Access, ","))
		if k.Every > 0 {
			add("BOT_KNOWLEDGE_EVERY", k.Every.String())
		}
	}
	add("BOT_PROMPTS_DIR", string(f.in.Prompts))
	add("BOT_SKILLS_DIR", strings.Join(names(f.in.Skills), string(os.PathListSeparator)))
	add("BOT_APPROVAL_ACTIONS", strings.Join(f.in.Approvals.Actions, ","))
	add("BOT_APPROVERS", strings.Join(f.in.Approvals.Approvers, ","))
	if t := f.in.Approvals.Timeout; t > 0 {
		add("BOT_APPROVAL_TIMEOUT", t.String())
	}
}

// checkKnowledge checks who may read what the bot answers from: it has to be said.
func (d *decoder) checkKnowledge(k *documents) {
	for _, name := range []string{"folders", "access"} {
		if d.lines["knowledge."+name] == 0 && !d.faulty("knowledge") {
			d.at("knowledge", "needs folders and access: who may read them, such as everyone or nobody")
			return
		}
	}
	for i, right := range k.Access {
		path := fmt.Sprintf("knowledge.access.%d", i+1)
		if err := knowledge.CheckAccess([]string{right}); d.faulty(path) {
			continue
		} else if err != nil || strings.Contains(right, ",") {
			d.at(path, "is not everyone, nobody, or person:, team:, conversation: or group: with an id behind it")
		}
	}
}

// secretName matches names of environment variables that have secrets.
var secretName = regexp.MustCompile(`(?i)(token|secret|passw|credential|key|auth)`)

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func (d *decoder) checkConnection(key string, c *connection) {
	path := "connections." + key
	if err := connections.CheckKey(key); err != nil {
		d.at(path, "%s", strings.TrimPrefix(err.Error(), fmt.Sprintf("connection %q: ", key)))
	}
	if c == nil {
		return // told
	}
	has := func(name string) bool { return d.lines[path+"."+name] > 0 }
	kinds := slices.DeleteFunc([]string{"mcp", "command", "openapi"}, func(name string) bool { return !has(name) })
	if len(kinds) != 1 {
		d.at(path, "wants one of mcp, command and openapi, has %d of them", len(kinds))
		return
	}
	of := map[string][]string{ // what only these have
		"timeout": {"mcp", "command"}, "timeouts": {"mcp", "command"}, "env": {"command"},
		"plugin": {"openapi"}, "server": {"openapi"}, "variables": {"openapi"}, "headers": {"openapi"},
		"private": {"mcp", "openapi"}, "follow_redirects": {"openapi"}, "answers": {"openapi"},
	}
	for _, name := range slices.Sorted(maps.Keys(of)) {
		if has(name) && !slices.Contains(of[name], kinds[0]) {
			d.at(path+"."+name, "is for a connection with %s", strings.Join(of[name], " or "))
		}
	}
	for name, address := range map[string]string{"mcp": c.MCP, "openapi": string(c.OpenAPI), "server": c.Server} {
		if u, err := url.Parse(address); strings.Contains(address, "://") && (err != nil || u.Host == "" || u.User != nil) {
			d.at(path+"."+name, "is not an address without a user name and a password")
		} else {
			d.checkQuery(path+"."+name, address)
		}
	}
	if kinds[0] == "mcp" && !strings.Contains(c.MCP, "://") && !d.faulty(path+".mcp") {
		d.at(path+".mcp", "is not an address such as https://mcp.example.com/mcp")
	}
	if kinds[0] == "command" && len(c.Command) > 0 && strings.ContainsAny(c.Command[0], `/\`) {
		c.Command = slices.Clone(c.Command)
		c.Command[0] = d.local(d.lines[path+".command"], path+".command", c.Command[0], c.Command[0], false)
	}
	if c.Trust != "" && c.Trust != "annotations" {
		d.at(path+".trust", "has to be annotations, or left out")
	}
	for i, name := range c.Unapproved {
		if slices.Contains(c.Approve, name) {
			d.at(fmt.Sprintf("%s.unapproved.%d", path, i+1), "%s is in approve as well", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Timeouts)) {
		if rules := (connections.Rules{Allow: c.Allow, Approve: c.Approve, Unapproved: c.Unapproved}); !rules.Allows(name) {
			d.at(path+".timeouts", "%s is not allowed", name)
		}
	}
	for name, v := range c.Env {
		switch {
		case !envName.MatchString(name):
			d.at(path+".env."+name, "is not the name of a variable")
		case v.text == "" || d.faulty(path+".env."+name):
		case secretName.MatchString(name) && !v.whole:
			d.at(path+".env."+name, "%s", literalSecret)
		case v.whole:
			d.hidden = append(d.hidden, v.text)
		}
	}
	for name, v := range c.Header {
		at := path + ".header." + name
		switch {
		case kinds[0] == "command":
			d.at(at, "is not for a command")
		case !httpguts.ValidHeaderFieldName(name):
			d.at(at, "is not the name of a header")
		case d.faulty(at):
		case !httpguts.ValidHeaderFieldValue(v.text):
			d.at(at, "has a value that cannot be in a header")
		case v.text != "" && !v.whole && (secretName.MatchString(name) || strings.EqualFold(name, "Cookie")):
			d.at(at, "%s", literalSecret)
		case c.Auth != nil && strings.EqualFold(c.Auth.headerName(), name):
			d.at(at, "is the header of auth")
		case v.whole:
			d.hidden = append(d.hidden, v.text)
		}
	}
	if c.Plugin != "" {
		d.readPlugin(path, c)
	}
	if c.Auth != nil {
		d.checkAuth(path+".auth", c, kinds[0])
	}
}

// checkQuery notes keys that stand in the query of an address, and hides those that come from variables.
func (d *decoder) checkQuery(path, address string) {
	_, query, _ := strings.Cut(cmp.Or(d.raw[path], address), "?")
	for pair := range strings.SplitSeq(query, "&") {
		if name, v, _ := strings.Cut(pair, "="); v != "" && secretName.MatchString(name) && !onlyVariable.MatchString(v) {
			d.at(path, "has a secret in its query, which must not be in this file: name a variable, as ${NAME}")
		}
	}
	_, query, _ = strings.Cut(address, "?")
	for pair := range strings.SplitSeq(query, "&") {
		if name, v, _ := strings.Cut(pair, "="); v != "" && secretName.MatchString(name) {
			d.hidden = append(d.hidden, v)
		}
	}
}

// readPlugin reads the plugin manifest of a connection, which is its allow-list.
func (d *decoder) readPlugin(path string, c *connection) {
	var err error
	if c.Allow != nil {
		d.at(path+".allow", "is what the manifest in plugin says: have one of them")
	}
	if c.plugin, err = openapi.ReadPlugin(string(c.Plugin)); err != nil {
		said := strings.TrimPrefix(err.Error(), fmt.Sprintf("read plugin %s: ", c.Plugin))
		for line := range strings.Lines(said) {
			d.at(path+".plugin", "%s", strings.TrimSuffix(line, "\n"))
		}
	}
	for _, warning := range c.plugin.Warnings {
		d.warnings = append(d.warnings, fault{d.lines[path+".plugin"], path + ".plugin: " + warning})
	}
}

func (d *decoder) checkAuth(path string, c *connection, kind string) {
	a := c.Auth
	has := func(name string) bool { return d.lines[path+"."+name] > 0 }
	ways := slices.DeleteFunc([]string{"bearer", "basic", "header", "query", "sign_in", "oauth", "client_credentials"}, func(name string) bool { return !has(name) })
	if len(ways) != 1 {
		d.at(path, "wants one of bearer, basic, header, query, sign_in, oauth and client_credentials, has %d of them", len(ways))
		return
	}
	way := ways[0]
	keyed := way == "header" || way == "query"
	switch {
	case kind == "command":
		d.at(path, "is not for a command, which gets its secrets as env")
	case way == "query" && kind == "mcp":
		d.at(path+".query", "is for a connection with openapi")
	case keyed != has("value"):
		d.at(path, "value is for header and query, which need it")
	case way == "basic" && (a.Basic == nil || a.Basic.User == "" || d.lines[path+".basic.password"] == 0):
		d.at(path+".basic", "needs user and password")
	case way == "header" && !httpguts.ValidHeaderFieldName(a.Header):
		d.at(path+".header", "is not the name of a header")
	case way == "sign_in" && a.SignIn == "":
		d.at(path+".sign_in", "is missing: the name of the OAuth connection")
	case way == "client_credentials" && a.Client != nil && (a.Client.ID == "" || d.lines[path+".client_credentials.client_secret"] == 0 || !isAddress(a.Client.TokenURL)):
		d.at(path+".client_credentials", "needs token_url, an https address, and client_id and client_secret")
	case way == "oauth" && a.OAuth != nil && a.OAuth.Issuer == "" && d.lines[path+".oauth.client_secret"] != 0:
		d.at(path+".oauth", "needs issuer with a client_secret: otherwise the service would say who gets it")
	case way == "oauth" && a.OAuth != nil && c.service().Resource == "":
		d.at(path+".oauth", "needs resource, the address of the service, as the connection has no server")
	}
	if !httpguts.ValidHeaderFieldValue(string(a.Value)) || !httpguts.ValidHeaderFieldValue(string(a.Bearer)) {
		d.at(path, "the value of its secret cannot be in a header")
	}
}

// Apply makes settings those of the bot in the file. s has the program's own bot, of which the file keeps
// the actions that it names, and the functions of prompts. What flags and the environment
// have set stays. The error lists the actions that the program does not have, with their lines.
func (f *File) Apply(s *settings.Settings) error {
	in, own := &f.in, s.Bot
	s.File = f.name
	s.Bot = settings.Bot{
		Name: in.Name, Instructions: string(in.Instructions), Examples: in.Examples, Planner: in.Planner,
		Functions: own.Functions, Texts: in.Texts,
		Connections: func(ctx context.Context, count func(metric, label string)) ([]actions.Connection, error) {
			return f.connect(ctx, count)
		},
	}
	if len(in.Connections) == 0 {
		s.Bot.Connections = nil
	}
	var faults []error
	if in.Actions != nil {
		all := actions.New()
		all.Collect = true
		if own.Register != nil {
			own.Register(all)
		}
		s.Keep = []string{}
		for i, r := range in.Actions {
			if r.name == "" {
				continue
			}
			if a, ok := all.Lookup(r.name); ok {
				s.Keep = append(s.Keep, a.Name)
			} else {
				var known []string
				for _, a := range all.All() {
					known = append(known, a.Name)
				}
				faults = append(faults, fmt.Errorf("%s:%d: actions: this program has no action %q%s", f.name, f.lines[fmt.Sprintf("actions.%d", i+1)], r.name, spelling.Hint(r.name, known)))
			}
		}
		s.Bot.Register = own.Register
	}
	s.Default(f.settings)
	s.Hidden, s.Notes = append(s.Hidden, f.hidden...), append(s.Notes, f.warnings...)
	for _, c := range in.Connections {
		s.SignsIn = s.SignsIn || c.Auth != nil && c.Auth.SignIn != ""
	}
	s.LockFile = filepath.Join(filepath.Dir(f.name), connections.LockName)
	return errors.Join(faults...)
}

// Welcome is what the bot says when it is added to a conversation; "" if the file does not say it.
func (f *File) Welcome() string { return f.in.Welcome }

// Services are where people sign in for connections, by their keys, with the bot as the client.
func (f *File) Services() map[string]connector.Service {
	all := map[string]connector.Service{}
	for key, c := range f.in.Connections {
		if c.Auth != nil && c.Auth.OAuth != nil {
			all[key] = c.service()
		}
	}
	return all
}

// Tests are the files of scenarios.
func (f *File) Tests() []string { return names(f.in.Tests) }

func names[P ~string](paths []P) (all []string) {
	for _, path := range paths {
		all = append(all, string(path))
	}
	return all
}

// Manifest is what the app package says.
func (f *File) Manifest() manifest.Config {
	m := f.in.Manifest
	return manifest.Config{
		Version: m.Version, FullName: m.FullName, Summary: m.Summary, Details: m.Details, AccentColor: m.AccentColor,
		ColorIcon: m.ColorIcon, OutlineIcon: m.OutlineIcon, Language: m.Language, Commands: commands(m.Commands), Prompts: commands(m.Prompts),
		Scopes: m.Scopes, Permissions: m.Permissions, ValidDomains: m.ValidDomains, Files: m.Files, Targeted: m.Targeted,
		ResourcePermissions: m.ResourcePermissions, Disclaimer: m.Disclaimer,
		Developer: m.Developer, WebsiteURL: m.WebsiteURL, PrivacyURL: m.PrivacyURL, TermsURL: m.TermsURL,
	}
}

// connect makes the connections of the file, in the order of their keys.
func (f *File) connect(ctx context.Context, count func(metric, label string)) (all []actions.Connection, err error) {
	lock, err := connections.ReadLock(filepath.Join(filepath.Dir(f.name), connections.LockName))
	if err != nil {
		return nil, err
	}
	var faults []error
	for _, key := range slices.Sorted(maps.Keys(f.in.Connections)) {
		made, err := f.in.Connections[key].open(ctx, key, filepath.Dir(f.name), lock, count)
		if err != nil {
			at := fmt.Sprintf("%s:%d: connections.%s: ", f.name, f.lines["connections."+key], key)
			for line := range strings.Lines(f.values.hide(err.Error())) {
				faults = append(faults, errors.New(at+strings.TrimSpace(line)))
			}
			continue
		}
		all = append(all, made)
	}
	if err := errors.Join(faults...); err != nil {
		for _, c := range all {
			c.Close()
		}
		return nil, err
	}
	return all, nil
}

func (c *connection) open(
	ctx context.Context, key, dir string, lock *connections.Lock, count func(metric, label string),
) (actions.Connection, error) {
	rules := connections.Rules{Allow: c.Allow, Approve: c.Approve, Unapproved: c.Unapproved, Trust: c.Trust != ""}
	header, query, signIn := c.Auth.parts(key)
	for name, v := range c.Header {
		if header == nil {
			header = http.Header{}
		}
		header.Set(name, v.text)
	}
	var authorize func(http.RoundTripper) http.RoundTripper
	if c.Auth != nil && c.Auth.Client != nil {
		authorize = func(base http.RoundTripper) http.RoundTripper { return c.Auth.Client.transport(c.Private, base) }
	}
	log := *zerolog.Ctx(ctx)
	if c.OpenAPI != "" {
		cfg := openapi.Config{
			Key: key, Summary: c.Summary, Document: string(c.OpenAPI), Server: c.Server, Variables: c.Variables, Header: header, Query: query,
			Headers: c.Headers, Private: c.Private, FollowRedirects: c.Redirects, SignIn: signIn, Authorize: authorize, Rules: rules, Lock: lock, Log: log,
			Answers: map[string]openapi.Answer{},
		}
		if c.Plugin != "" {
			cfg.Rules.Allow = c.plugin.Rules.Allow
			cfg.Rules.Approve = slices.Concat(c.Approve, c.plugin.Rules.Approve)
			cfg.Rules.Unapproved = slices.Concat(c.Unapproved, c.plugin.Rules.Unapproved)
			maps.Copy(cfg.Answers, c.plugin.Answers)
		}
		for name, a := range c.Answers {
			cfg.Answers[name] = openapi.Answer(a)
		}
		return openapi.New(ctx, cfg)
	}
	cfg := mcp.Config{
		Key: key, Summary: c.Summary, URL: c.MCP, Private: c.Private, Header: header, Command: c.Command, SignIn: signIn, Authorize: authorize, Rules: rules, Lock: lock,
		CallTimeout: c.Timeout, Timeouts: c.Timeouts, Count: count, Log: log,
	}
	if c.Command != nil {
		cfg.Dir = dir
	}
	for name, v := range c.Env {
		if cfg.Env == nil {
			cfg.Env = map[string]string{}
		}
		cfg.Env[name] = v.text
	}
	return mcp.New(cfg)
}

// isAddress reports whether a text is an address for secrets: https, or http to this machine.
func isAddress(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil {
		return false
	}
	return u.Scheme == "https" || u.Scheme == "http" && loopback.IsHost(u.Hostname())
}

// headerName is the header that has what proves who calls; "": none has.
func (a *auth) headerName() string {
	switch {
	case a.Query != "":
		return ""
	case a.Header != "":
		return a.Header
	}
	return "Authorization"
}

// parts are what a request of the connection with that key carries to prove who calls. a may be nil.
func (a *auth) parts(key string) (header http.Header, query map[string]string, signIn string) {
	switch {
	case a == nil:
	case a.Bearer != "":
		header = http.Header{"Authorization": {"Bearer " + string(a.Bearer)}}
	case a.Basic != nil:
		pair := base64.StdEncoding.EncodeToString([]byte(a.Basic.User + ":" + string(a.Basic.Password)))
		header = http.Header{"Authorization": {"Basic " + pair}}
	case a.Header != "" && a.Value != "":
		header = http.Header{}
		header.Set(a.Header, string(a.Value))
	case a.Query != "" && a.Value != "":
		query = map[string]string{a.Query: string(a.Value)}
	case a.OAuth != nil:
		signIn = key
	default:
		signIn = a.SignIn
	}
	return header, query, signIn
}

func commands(all []command) (out []manifest.Command) {
	for _, c := range all {
		out = append(out, manifest.Command(c))
	}
	return out
}

type fileSettings struct {
	File string `env:"BOT_FILE" common:"true" name:"file" else:"none" help:"bot.yaml, a bot that a file describes instead of a program; its flag is --file"`
}

// Feature makes the bot of a program the one that BOT_FILE describes, if it is set.
func Feature() app.Feature {
	s := &fileSettings{}
	return app.Feature{Name: "botfile", Settings: s, Describe: s.describe}
}

// describe reads the file. What it does not say is as in the zero value of the bot, but for what [File.Apply]
// keeps.
func (s *fileSettings) describe(p *app.Program, b *app.Bot) error {
	if s.File == "" {
		return nil
	}
	f, err := Read(s.File, p.Settings())
	if err != nil {
		return err
	}
	if err := f.Apply(p.Settings()); err != nil {
		return err
	}
	for field, value := range reflect.ValueOf(p.Settings().Bot).Fields() {
		reflect.ValueOf(b).Elem().FieldByName(field.Name).Set(value)
	}
	b.Welcome = f.Welcome()
	b.Manifest = f.Manifest()
	b.Services = f.Services()
	return nil
}
