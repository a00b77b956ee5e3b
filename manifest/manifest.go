// Package manifest builds and checks the app package that installs the bot in Microsoft Teams: a
// zip of manifest.json and two icons.
//
// [Build] writes a bot's package. [Validate] checks any manifest, folder or package offline: the
// manifest against Microsoft's published JSON schema, the icons and the zip against their
// documented rules.
//
// Build writes schema version 1.25: the newest that the Teams store, tenants and sovereign clouds
// can be expected to accept. Later versions add slash commands and targeted messages, which the bot
// does not use.
package manifest

import (
	"archive/zip"
	"bytes"
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
)

const (
	schemaVersion = "1.25"
	accentColor   = "#0B6E75" // of the icons

	// The files of an app package, all at its root.
	manifestName = "manifest.json"
	colorName    = "color.png"
	outlineName  = "outline.png"

	// maxCommands is the documented number of commands that Teams shows. Since version 1.24 the
	// schema allows more.
	maxCommands = 10

	defaultSummary = "Keeps your lists: say what you want, and it plans the steps and does them."
	defaultDetails = "Tell the bot in your own words what you want done. It turns each message into a plan of actions, " +
		"runs them in order, and says what it did.\n\n" +
		"It keeps lists: create them, add and remove items, check items off, find an item, or ask what is on them. " +
		"In a personal chat the lists are yours; in a group chat or a channel they belong to everybody there.\n\n" +
		"Send \"help\" to see what it can do, and \"/forget\" to delete everything it keeps about you. " +
		"Replies are written with AI: check what matters."
)

var (
	//go:embed icons/color.png
	colorIcon []byte
	//go:embed icons/outline.png
	outlineIcon []byte
)

// Command is an entry of the bot's command menu, or a prompt starter. Both fields are required.
// Picking it puts Title into the compose box.
type Command struct {
	Title       string `json:"title"`
	Description string `json:"description"`
}

// Starter makes a Command for [Config.Prompts] from an action's name and description: "createList"
// becomes "Create list".
func Starter(action, description string) Command {
	words := strings.Fields(strings.ToLower(wordEnd.ReplaceAllString(action, "$1 $2")))
	if len(words) > 0 {
		first, size := utf8.DecodeRuneInString(words[0])
		words[0] = string(unicode.ToUpper(first)) + words[0][size:]
	}
	return Command{Title: strings.Join(words, " "), Description: description}
}

// wordEnd matches a word's end in an action's name.
var wordEnd = regexp.MustCompile(`([a-z0-9])([A-Z])|[_.-]`)

// Config says which app to package. AppID and Domain are required; the zero value of every other
// field is a working default.
type Config struct {
	AppID   string // the bot's Microsoft app id, a GUID in any spelling; also the Teams app's id
	Domain  string // the bot's public host[:port], without a scheme
	Version string // semantic version; raise it with every change. "": 1.0.0
	Name    string // short name, up to 30 characters. "": Planbot

	FullName string // up to 100 characters, different from Name. "": made from Name
	Summary  string // one sentence, up to 80 characters. "": what the default bot does
	Details  string // up to 4000 characters. "": what the default bot does

	// Commands are shown in every scope; at most 10.
	Commands []Command
	// Prompts are suggestions to start with. They come first in personal chats and last elsewhere.
	// With Commands they make at most 10; excess prompts are dropped from the end.
	Prompts []Command

	Developer  string // name of the app's publisher. "": Name
	WebsiteURL string // https. "": the root of Domain
	PrivacyURL string // https. "": /privacy on Domain
	TermsURL   string // https. "": /terms on Domain
}

// Build writes cfg's app package to w as a zip: manifest.json and both icons at the root. The same
// cfg gives the same bytes. Build writes nothing unless cfg is valid and its manifest passes
// [Validate]'s checks; otherwise the error lists every mistake at once.
func Build(w io.Writer, cfg Config) error {
	doc, err := document(cfg)
	if err != nil {
		return err
	}
	var pack bytes.Buffer
	zw := zip.NewWriter(&pack)
	for _, file := range []struct {
		name string
		data []byte
	}{{manifestName, doc}, {colorName, colorIcon}, {outlineName, outlineIcon}} {
		// The zip format's earliest time, so that equal contents make equal bytes.
		modified := time.Date(1980, time.January, 1, 0, 0, 0, 0, time.UTC)
		entry, err := zw.CreateHeader(&zip.FileHeader{Name: file.name, Method: zip.Deflate, Modified: modified})
		if err == nil {
			_, err = entry.Write(file.data)
		}
		if err != nil {
			return fmt.Errorf("pack %s: %w", file.name, err)
		}
	}
	if err := zw.Close(); err != nil {
		return fmt.Errorf("pack app package: %w", err)
	}
	if _, err := w.Write(pack.Bytes()); err != nil {
		return fmt.Errorf("write app package: %w", err)
	}
	return nil
}

// document returns only the manifest.json of cfg, indented. Its errors are those of [Build].
func document(cfg Config) ([]byte, error) {
	cfg, errs := cfg.complete()
	doc, err := json.Marshal(cfg.manifest(), json.Deterministic(true), jsontext.WithIndent("  "))
	if err != nil {
		return nil, fmt.Errorf("encode manifest: %w", err)
	}
	doc = append(doc, '\n')
	for _, problem := range check(manifestName, doc).problems {
		errs = append(errs, errors.New(problem))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("manifest config: %w", err)
	}
	return doc, nil
}

// complete returns a copy with every default filled in, and every mistake that the manifest checks
// would not find. It replaces bad values with valid ones, so those checks do not report them again.
func (c Config) complete() (Config, []error) {
	var errs []error
	id, err := parseGUID(c.AppID)
	if err != nil {
		errs, id = append(errs, err), "1d0f3a52-7c1e-4b5e-9a44-5b2e6c1f0a77"
	}
	if err := checkHost(c.Domain); err != nil {
		errs, c.Domain = append(errs, err), "bot.example.com"
	}
	c.AppID = id
	c.Version = cmp.Or(c.Version, "1.0.0")
	c.Name = cmp.Or(c.Name, "Planbot")
	c.FullName = cmp.Or(c.FullName, c.Name+" planning assistant")
	c.Summary = cmp.Or(c.Summary, defaultSummary)
	c.Details = cmp.Or(c.Details, defaultDetails)
	c.Developer = cmp.Or(c.Developer, c.Name)
	c.WebsiteURL = cmp.Or(c.WebsiteURL, "https://"+c.Domain)
	c.PrivacyURL = cmp.Or(c.PrivacyURL, "https://"+c.Domain+"/privacy")
	c.TermsURL = cmp.Or(c.TermsURL, "https://"+c.Domain+"/terms")
	if n := len(c.Commands); n > maxCommands {
		errs, c.Commands = append(errs, fmt.Errorf("%d commands, Teams shows at most %d", n, maxCommands)), c.Commands[:maxCommands]
	}
	for i, cmd := range slices.Concat(c.Commands, c.Prompts) {
		if strings.TrimSpace(cmd.Title) == "" || strings.TrimSpace(cmd.Description) == "" {
			errs = append(errs, fmt.Errorf("command or prompt %d (%q) needs a title and a description", i+1, cmd.Title))
		}
	}
	return c, errs
}

var (
	// semver is the regular expression that semver.org suggests, without captures.
	semver = regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)` +
		`(-(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(\.(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*)?` +
		`(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?$`)
	// hostName matches dot-separated labels of up to 63 characters.
	hostName = regexp.MustCompile(`^([A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?(\.|$))+$`)
)

// parseGUID accepts what people paste: any case, in braces, with surrounding spaces. It returns the
// lower-case form with dashes.
func parseGUID(s string) (string, error) {
	id, err := uuid.Parse(strings.TrimSpace(s))
	switch {
	case strings.TrimSpace(s) == "":
		return "", errors.New("app id is missing: give the bot's Microsoft app id, a GUID")
	case err != nil:
		return "", fmt.Errorf("app id %s", notGUID(s))
	case id == uuid.Nil:
		return "", fmt.Errorf("app id %q is the empty GUID", s)
	}
	return id.String(), nil
}

// checkHost checks the bot's public host[:port].
func checkHost(s string) error {
	if s == "" {
		return errors.New("domain is missing: give the host where the bot is reached, such as bot.example.com")
	}
	if strings.Contains(s, "://") {
		example := "such as bot.example.com"
		if u, err := url.Parse(s); err == nil && u.Host != "" {
			example = u.Host
		}
		return fmt.Errorf("domain %q is a URL: give only the host, %s", s, example)
	}
	u, err := url.Parse("https://" + s)
	if err != nil || u.Host != s {
		return fmt.Errorf("domain %q is not host or host:port: no scheme, user, path or space", s)
	}
	host := strings.ToLower(u.Hostname())
	addr, addrErr := netip.ParseAddr(host)
	switch n, err := strconv.ParseUint(cmp.Or(u.Port(), "443"), 10, 16); {
	case err != nil || n == 0 || strings.HasSuffix(s, ":"):
		return fmt.Errorf("domain %q has no port from 1 to 65535 after the colon", s)
	case len(host) > 253:
		return fmt.Errorf("domain %.40q… is longer than 253 characters", host)
	case !hostName.MatchString(host) || strings.HasSuffix(host, "."):
		return fmt.Errorf("domain %q is not a host name such as bot.example.com", s)
	case host == "localhost" || strings.HasSuffix(host, ".localhost") || addrErr == nil && (addr.IsLoopback() || addr.IsUnspecified()):
		return fmt.Errorf("domain %q is whichever machine asks, so Teams cannot reach the bot there: give a host on the internet, such as a tunnel's", s)
	}
	return nil
}

// object is a part of the manifest. The schema defines its contents.
type object = map[string]any

// manifest returns a complete Config's document.
func (c Config) manifest() object {
	bot := object{
		"botId":              c.AppID,
		"scopes":             []string{"personal", "team", "groupChat"},
		"supportsFiles":      false,
		"isNotificationOnly": false,
	}
	prompts := c.Prompts[:min(len(c.Prompts), maxCommands-len(c.Commands))]
	if len(prompts)+len(c.Commands) > 0 {
		// Teams shows the first list as prompt starters in personal chats, and all as a menu behind
		// @mention elsewhere.
		bot["commandLists"] = []object{
			{"scopes": []string{"personal"}, "commands": append(prompts[:len(prompts):len(prompts)], c.Commands...)},
			{"scopes": []string{"team", "groupChat"}, "commands": append(c.Commands[:len(c.Commands):len(c.Commands)], prompts...)},
		}
	}
	return object{
		"$schema":         schemaURL(schemaVersion),
		"manifestVersion": schemaVersion,
		"version":         c.Version,
		"id":              c.AppID,
		"developer": object{
			"name":          c.Developer,
			"websiteUrl":    c.WebsiteURL,
			"privacyUrl":    c.PrivacyURL,
			"termsOfUseUrl": c.TermsURL,
		},
		"name":                   object{"short": c.Name, "full": c.FullName},
		"description":            object{"short": c.Summary, "full": c.Details},
		"icons":                  object{"color": colorName, "outline": outlineName},
		"accentColor":            accentColor,
		"bots":                   []object{bot},
		"permissions":            []string{"identity"},
		"validDomains":           []string{c.Domain},
		"defaultInstallScope":    "personal",
		"defaultGroupCapability": object{"team": "bot", "groupchat": "bot"}, // lower case here, unlike the scope
	}
}
