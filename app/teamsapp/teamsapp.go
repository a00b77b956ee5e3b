// Package teamsapp has the commands that make the app package of a bot, which people install in Teams.
package teamsapp

import (
	"archive/zip"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/bot/teams"
	"github.com/planbot-go/planbot/internal/cli"
	"github.com/planbot-go/planbot/internal/spelling"
	"github.com/planbot-go/planbot/internal/texts"
	"github.com/planbot-go/planbot/internal/titles"
	"github.com/planbot-go/planbot/manifest"
	"github.com/planbot-go/planbot/manifest/pack"
)

// Feature adds the command manifest.
func Feature() app.Feature {
	var own *app.Bot
	return app.Feature{
		Name: "teamsapp", Commands: &struct {
			Manifest commands `help:"Write, build or validate the Teams app package."`
		}{},
		Describe: func(_ *app.Program, b *app.Bot) error {
			own = b
			return nil
		},
		Check: func(app.Values) error { return check(own) },
	}
}

// check checks what a bot's Manifest says. The rest is for the command: how long the bot's name is, and whether a
// translated title is that of a prompt.
func check(b *app.Bot) error {
	if b == nil || reflect.ValueOf(b.Manifest).IsZero() {
		return nil
	}
	cfg := b.Manifest
	cfg.AppID = cmp.Or(cfg.AppID, "00000000-0000-0000-0000-000000000001")
	cfg.Domain = cmp.Or(cfg.Domain, "bot.example.com")
	cfg.Translations = maps.Clone(cfg.Translations)
	for tag, in := range cfg.Translations {
		in.Commands = nil
		cfg.Translations[tag] = in
	}
	if err := pack.Build(io.Discard, cfg); err != nil {
		return fmt.Errorf("app.Bot.Manifest: %w", err)
	}
	return nil
}

type commands struct {
	Init     initCommand     `help:"Write the files of the app package to a folder, to edit them."`
	Build    buildCommand    `help:"Write the app package that is uploaded to Teams."`
	Validate validateCommand `help:"Check a manifest.json, its folder or an app package."`
}

// manifestFlags are the fields of [manifest.Config] that flags replace, by their names there.
type manifestFlags struct {
	Schema              string   `help:"version of the manifest's schema: 1.29, 1.25 or 1.22 (1.25, or 1.29 with --targeted)"`
	Version             string   `name:"app-version" help:"version of the app, raised with every change (1.0.0)"`
	Name                string   `help:"short name of the app (the name of the bot)"`
	FullName            string   `name:"full-name" help:"full name of the app (made from the name)"`
	Summary             string   `help:"what the app does, in one sentence"`
	Details             string   `help:"what the app does, at length"`
	AccentColor         string   `name:"color" help:"accent colour of the app, such as #0B6E75"`
	ColorIcon           icon     `name:"icon" placeholder:"FILE" help:"PNG of 192×192 pixels: the icon in colour"`
	OutlineIcon         icon     `name:"outline-icon" placeholder:"FILE" help:"PNG of 32×32 pixels: the outline, white on transparent"`
	Scopes              []string `help:"where people can add the bot (personal,team,groupChat)"`
	Permissions         []string `help:"what the app may do: identity, messageTeamMembers (identity)"`
	ValidDomains        []string `name:"valid-domains" help:"hosts besides DOMAIN whose pages the app opens"`
	Files               bool     `help:"people can send files to the bot, and get files from it"`
	Targeted            bool     `help:"people can write messages to the bot that nobody else in a group sees"`
	ResourcePermissions []string `name:"resource-permissions" help:"what the app asks of each team, chat or meeting that it is added to, such as TeamMember.Read.Group"`
	Disclaimer          string   `help:"what people read before they talk with the bot in Copilot, with the scope copilot"`
	WebAppID            string   `name:"web-app-id" help:"app registration with which people sign in (the app id, if there is a resource)"`
	WebAppResource      string   `name:"web-app-resource" help:"its application ID URI, such as api://botid-${{BOT_ID}}"`
	Developer           string   `help:"who publishes the app (the name)"`
	WebsiteURL          string   `name:"website-url" help:"https address of the app's website (https://DOMAIN)"`
	PrivacyURL          string   `name:"privacy-url" help:"https address of the privacy statement (https://DOMAIN/privacy)"`
	TermsURL            string   `name:"terms-url" help:"https address of the terms of use (https://DOMAIN/terms)"`
}

// icon is the picture in a file. One that cannot be read is told with the other mistakes.
type icon struct {
	raw []byte
	err error
}

// UnmarshalText implements [encoding.TextUnmarshaler].
func (i *icon) UnmarshalText(file []byte) error {
	i.raw, i.err = os.ReadFile(string(file))
	return nil
}

// fault is the mistake in the flag of an icon; nil is none.
func (i icon) fault(flag string) error {
	if i.err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", flag, i.err)
}

// faults joins those in the flags to the others.
func (f manifestFlags) faults(others error) error {
	return errors.Join(f.ColorIcon.fault("--icon"), f.OutlineIcon.fault("--outline-icon"), others)
}

// config returns the manifest of the bot, as the flags change it, in further languages too.
func (f manifestFlags) config(p *app.Program, languages ...string) manifest.Config {
	b, s := p.Described(), p.Settings()
	cfg := b.Manifest
	cfg.Name = cmp.Or(cfg.Name, b.Name)
	for field, value := range reflect.ValueOf(f).Fields() {
		if one, ok := value.Interface().(icon); ok {
			value = reflect.ValueOf(one.raw)
		}
		if !value.IsZero() {
			reflect.ValueOf(&cfg).Elem().FieldByName(field.Name).Set(value)
		}
	}
	cfg.Settings = cfg.Settings || b.Teams.Config.Fetch != nil
	if e := &cfg.Extension; e.Commands == nil && e.Domains == nil {
		*e = extension(b.Teams.Extension)
	}
	if cfg.ResourcePermissions == nil {
		cfg.ResourcePermissions = permissions(b.Teams.Events)
	}
	if p.UsesAzureSignIn() {
		cfg.ValidDomains = append(cfg.ValidDomains, "token.botframework.com")
		cfg.WebAppResource = cmp.Or(cfg.WebAppResource, manifest.BotResource)
	}
	cfg.Commands = p.ChatCommands()
	all, _ := texts.New(b.Texts) // the bot does not start with faults in them
	first := &actions.Turn{Texts: all, Activity: &activity.Activity{Locale: cfg.Language}}
	own := cfg.Prompts == nil
	if own {
		for _, a := range s.Actions().All() {
			cfg.Prompts = append(cfg.Prompts, starter(a, first))
		}
		slices.SortStableFunc(cfg.Prompts, func(a, b manifest.Command) int { // some may be left out
			return strings.Count(a.Description, gap) - strings.Count(b.Description, gap)
		})
	}
	translations := map[string]manifest.Translation{}
	for _, tag := range slices.AppendSeq(languages, maps.Keys(cfg.Translations)) {
		in, turn := cfg.Translations[tag], &actions.Turn{Texts: all, Activity: &activity.Activity{Locale: tag}}
		say := func(text string) string { return turn.Translate(texts.Text(text)) }
		in.FullName, in.Summary, in.Details = cmp.Or(in.FullName, say(cfg.FullName)), cmp.Or(in.Summary, say(cfg.Summary)), cmp.Or(in.Details, say(cfg.Details))
		commands := map[string]manifest.Command{}
		for _, c := range slices.Concat(cfg.Commands, cfg.Prompts) {
			commands[c.Title] = manifest.Command{Description: say(c.Description)}
		}
		for _, c := range cfg.Extension.Commands {
			commands[c.Title] = manifest.Command{Title: say(c.Title), Description: say(c.Description)}
		}
		if own {
			for _, a := range s.Actions().All() {
				c := starter(a, turn)
				commands[c.Title] = manifest.Command{Description: c.Description}
			}
		}
		for title, c := range in.Commands {
			commands[title] = manifest.Command{Title: c.Title, Description: cmp.Or(c.Description, commands[title].Description)}
		}
		in.Commands = commands
		translations[tag] = in
	}
	cfg.Translations = translations
	for i, c := range cfg.Commands { // which stand in English until here, as what is translated
		cfg.Commands[i].Description = first.Translate(texts.Text(c.Description))
	}
	return cfg
}

// permissions are those without which Teams does not send the events.
func permissions(e teams.Events) (all []string) {
	if e.MeetingStarted != nil || e.MeetingEnded != nil {
		all = append(all, "OnlineMeeting.ReadBasic.Chat", "ChannelMeeting.ReadBasic.Group")
	}
	if e.MeetingJoined != nil || e.MeetingLeft != nil {
		all = append(all, "OnlineMeetingParticipant.Read.Chat")
	}
	if e.Read != nil {
		all = append(all, "ChatMessageReadReceipt.Read.Chat")
	}
	return all
}

// extension describes the message extension that the bot answers.
func extension(e teams.Extension) manifest.Extension {
	out := manifest.Extension{Domains: e.Domains, Anonymous: e.AnonymousLink != nil, Settings: e.Settings != nil}
	for _, c := range e.Commands {
		kind := "action"
		if c.Query != nil {
			kind = "query"
		}
		command := manifest.ExtensionCommand{
			ID: c.ID, Type: kind, Title: c.Title, Description: c.Description, Context: c.Contexts, InitialRun: c.Initial, FetchTask: c.Fetch != nil,
		}
		for _, p := range c.Parameters {
			parameter := manifest.Parameter{Name: p.Name, Title: p.Title, Description: p.Description, InputType: p.Type, Value: p.Value}
			for _, choice := range p.Choices {
				parameter.Choices = append(parameter.Choices, manifest.Choice(choice))
			}
			command.Parameters = append(command.Parameters, parameter)
		}
		out.Commands = append(out.Commands, command)
	}
	return out
}

// maxStarter is how many characters a prompt's title may have, which is what picking it sends, and
// maxStarterHelp those of its description.
const maxStarter, maxStarterHelp = 32, 128

const gap = "…" // stands in a starter's description for what people fill in: {list} means nothing to them

var placeholder = regexp.MustCompile(`\{[^{}]*\}`)

// starter suggests an action: with its first example that can be sent as it is and is short enough,
// or else with its title, which the example explains. The explanation is in the language of the turn.
func starter(a *actions.Action, turn *actions.Turn) manifest.Command {
	fits := func(text string) bool {
		return !strings.Contains(text, "{") && utf8.RuneCountInString(text) <= maxStarter
	}
	c := manifest.Command{Title: a.Title, Description: cmp.Or(titles.Capital(a.Phrase(turn)), turn.Translate(texts.Text(a.Description)))}
	if i := slices.IndexFunc(a.Examples, fits); i >= 0 {
		c.Title, c.Description = titles.Capital(a.Examples[i]), turn.Translate(texts.Text(a.Title))
	}
	if !fits(c.Title) {
		c.Title = spelling.OneLine(titles.Words(a.Name), maxStarter)
	}
	c.Description = spelling.OneLine(placeholder.ReplaceAllString(c.Description, gap), maxStarterHelp)
	return c
}

type initCommand struct {
	Dir       string   `arg:"" type:"path" help:"folder to write to"`
	Languages []string `help:"further languages, as tags such as de or pt-br: a file to translate for each (those of the bot, or de)"`
	manifestFlags
}

// Run writes the files, or nothing if something is wrong with them or one exists.
func (c initCommand) Run(_ context.Context, p *app.Program) error {
	own, s := p.Described(), p.Settings()
	if err := s.Actions().Check(); err != nil {
		return cli.Usage(err)
	}
	if len(own.Manifest.Translations)+len(c.Languages) == 0 { // one, to show what such a file looks like
		c.Languages = []string{"de"}
		if own.Manifest.Language != "" && own.Manifest.Language != "en" {
			c.Languages = []string{"en"}
		}
	}
	if err := c.faults(pack.Init(c.Dir, c.config(p, c.Languages...))); err != nil {
		return cli.Usage(err)
	}
	fmt.Fprintf(p.Out(), "Wrote manifest.json, its icons and a file to translate for each further language to %s.\n"+
		"Edit them, but keep ${{BOT_ID}} and ${{BOT_DOMAIN}}. Then: bot manifest build --from %s --app-id APP_ID --domain DOMAIN\n", c.Dir, cli.ShellWord(c.Dir))
	return nil
}

type buildCommand struct {
	AppID  string `name:"app-id" help:"Microsoft app id of the bot (MICROSOFT_APP_ID)"`
	Domain string `help:"host[:port] where the bot is reached, without https://"`
	Out    string `type:"path" default:"app.zip" help:"file to write (app.zip)"`
	From   string `type:"path" placeholder:"DIR" help:"folder that \"manifest init\" wrote: everything but the app id and the domain comes from its files"`
	manifestFlags
}

// Run writes the package, or nothing if something is wrong with it.
func (c buildCommand) Run(_ context.Context, p *app.Program) error {
	own, s := p.Described(), p.Settings()
	if err := s.Actions().Check(); err != nil {
		return cli.Usage(err)
	}
	id, domain := cmp.Or(c.AppID, own.Manifest.AppID, s.AppID), cmp.Or(c.Domain, own.Manifest.Domain)
	var made bytes.Buffer
	var err error
	switch {
	case c.From == "":
		cfg := c.config(p)
		cfg.AppID, cfg.Domain = id, domain
		err = c.faults(pack.Build(&made, cfg))
	case !reflect.ValueOf(c.manifestFlags).IsZero():
		err = fmt.Errorf("with --from, everything but --app-id, --domain and --out comes from the files in %s: edit those instead", c.From)
	default:
		err = pack.Folder(&made, c.From, id, domain)
	}
	if err != nil {
		return cli.Usage(err)
	}
	if err := os.WriteFile(c.Out, made.Bytes(), 0o644); err != nil { //nolint:gosec // the package holds no secret
		return fmt.Errorf("write the app package: %w", err)
	}
	fmt.Fprintf(p.Out(), "Wrote %s (%d bytes). Upload it in Teams: Apps > Manage your apps > Upload an app.\n", c.Out, made.Len())
	pages, err := pagesOf(made.Bytes(), domain)
	if err == nil && len(pages) > 0 {
		fmt.Fprintf(p.Err(), "warning: the app links to %s, which the bot does not serve. Administrators and Microsoft's review open these pages: "+
			"put them there, or name yours with --website-url, --privacy-url and --terms-url (in app.Bot.Manifest, or with --from in manifest.json).\n",
			strings.Join(pages, ", "))
	}
	return err
}

// pagesOf are the pages on the bot's own domain that an app package links to for people.
func pagesOf(pack []byte, domain string) ([]string, error) {
	files, err := zip.NewReader(bytes.NewReader(pack), int64(len(pack)))
	if err != nil {
		return nil, err
	}
	raw, err := fs.ReadFile(files, "manifest.json")
	if err != nil {
		return nil, err
	}
	var doc struct {
		Developer struct{ WebsiteURL, PrivacyURL, TermsOfUseURL string }
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		return nil, err
	}
	var pages []string
	for _, page := range []string{doc.Developer.WebsiteURL, doc.Developer.PrivacyURL, doc.Developer.TermsOfUseURL} {
		address, err := url.Parse(page)
		if err == nil && strings.EqualFold(address.Host, domain) && !slices.Contains(pages, page) {
			pages = append(pages, page)
		}
	}
	return pages, nil
}

type validateCommand struct {
	File string `arg:"" type:"path" help:"manifest.json, folder or app package"`
}

// Run prints every problem and fails if there is one.
func (c validateCommand) Run(_ context.Context, p *app.Program) error {
	problems, err := pack.Validate(c.File)
	if err != nil {
		return cli.Usage(err)
	}
	for _, problem := range problems {
		fmt.Fprintln(p.Out(), problem)
	}
	if len(problems) > 0 {
		return cli.SilentError{Code: cli.ExitFailed}
	}
	fmt.Fprintln(p.Out(), cmp.Or(filepath.Base(c.File), c.File)+" is fine")
	return nil
}
