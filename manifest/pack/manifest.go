// Package pack builds and checks the app package that installs the bot in Microsoft Teams: a
// zip of manifest.json, two icons, and a file for each further language.
//
// [Build] writes a bot's package. [Init] writes its files to a folder instead, where people edit
// them, and [Folder] makes the package from there. [Validate] checks any manifest, folder or package
// offline: manifest and language files against Microsoft's published JSON schemas, the icons and
// the zip against their documented rules.
//
// The default schema version is 1.25: the newest that the Teams store, tenants and sovereign clouds
// can be expected to accept. An app that needs a newer one gets it, see Targeted of [manifest.Config].
package pack

import (
	"archive/zip"
	"bytes"
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/planbot-go/planbot/internal/lazy"
	"github.com/planbot-go/planbot/manifest"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
)

const (
	schemaVersion = "1.25"
	targetedSince = "1.29" // the first version with supportsTargetedMessages
	// rscResource is the resource of an app that asks for permissions and signs nobody in.
	rscResource = "https://RscPermission"
	accentColor = "#0B6E75" // of the icons

	// The files of an app package, all at its root.
	manifestName = "manifest.json"
	colorName    = "color.png"
	outlineName  = "outline.png"

	// Placeholders in the JSON files of an app package, until its app id and domain are known.
	idPlaceholder     = "${{BOT_ID}}"
	domainPlaceholder = "${{BOT_DOMAIN}}"

	// Values for what is wrong or not known yet, so that the checks find only other mistakes.
	sampleID     = "1d0f3a52-7c1e-4b5e-9a44-5b2e6c1f0a77"
	sampleDomain = "bot.example.com"

	// maxCommands is the documented number of commands that Teams shows. Since version 1.24 the
	// schema allows more.
	maxCommands = 10

	defaultSummary = "Say what you want done: it plans the steps and does them."
	defaultDetails = "Tell the bot in your own words what you want done. It turns each message into a plan of actions, " +
		"runs them in order, and says what it did.\n\n" +
		"Send \"help\" to see what it can do. " +
		"Replies are written with AI: check what matters."
)

var (
	//go:embed icons/color.png
	colorIcon []byte
	//go:embed icons/outline.png
	outlineIcon []byte
)

// config and extension are those of package manifest, with what is made of them.
type (
	config    manifest.Config
	extension manifest.Extension
)

// object returns the extension as the manifest has it; nil: there is none.
func (e extension) object(bot string) object {
	if len(e.Commands) == 0 && len(e.Domains) == 0 {
		return nil
	}
	o := object{"botId": bot, "commands": e.Commands, "canUpdateConfiguration": e.Settings}
	if len(e.Domains) > 0 {
		value := object{"domains": e.Domains}
		if e.Anonymous {
			value["supportsAnonymizedPayloads"] = true
		}
		o["messageHandlers"] = []object{{"type": "link", "value": value}}
	}
	return o
}

// Build writes cfg's app package to w as a zip: manifest.json, both icons and the language files at
// the root. The same cfg gives the same bytes. Build writes nothing unless cfg is valid and the
// package passes [Validate]'s checks; otherwise the error lists every mistake at once.
func Build(w io.Writer, cfg manifest.Config) error {
	files, errs := config(cfg).files()
	return write(w, files.read, cfg.AppID, cfg.Domain, errs)
}

// Init writes the files of cfg's app package to the folder dir, which it creates if needed, for
// people to edit and [Folder] to read. It ignores AppID and Domain: manifest.json has ${{BOT_ID}} and
// ${{BOT_DOMAIN}} in their place. It writes nothing if cfg has a mistake or one of the files
// exists; the error lists all of them.
func Init(dir string, cfg manifest.Config) error {
	files, errs := config(cfg).files()
	names := slices.Sorted(maps.Keys(files))
	for _, name := range names {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			errs = append(errs, fmt.Errorf("%s exists and is not overwritten", filepath.Join(dir, name)))
		}
	}
	if _, err := checked(files.read, sampleID, sampleDomain, errs); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // the package holds no secret
		return fmt.Errorf("write app package: %w", err)
	}
	for _, name := range names {
		file, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644) //nolint:gosec // as above
		if err == nil {
			_, err = file.Write(files[name])
			err = errors.Join(err, file.Close())
		}
		if err != nil {
			return fmt.Errorf("write app package: %w", err)
		}
	}
	return nil
}

// Folder writes an app package to w from the folder dir, as [Init] wrote it and people edited it:
// manifest.json and the icons and language files that it names, with appID and domain in place of
// ${{BOT_ID}} and ${{BOT_DOMAIN}}. Otherwise it is like [Build].
func Folder(w io.Writer, dir, appID, domain string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("read app package: %w", err)
	}
	defer root.Close() //nolint:errcheck // opened to read only
	return write(w, fromFS(root.FS()), appID, domain, nil)
}

// write writes the package of the files that read returns. errs are the mistakes found so far.
func write(w io.Writer, read reader, appID, domain string, errs []error) error {
	id, err := parseGUID(appID)
	if err != nil {
		errs, id = append(errs, err), sampleID
	} else if doc, err := read.fill(id, domain)(manifestName); err == nil && !bytes.Contains(bytes.ToLower(doc), []byte(id)) {
		errs = append(errs, fmt.Errorf("%s has another app id than %s: write %s where it belongs", manifestName, id, idPlaceholder))
	}
	if err := checkHost(domain); err != nil {
		errs, domain = append(errs, err), sampleDomain
	}
	files, err := checked(read, id, domain, errs)
	if err != nil {
		return err
	}
	var packed bytes.Buffer
	zw := zip.NewWriter(&packed)
	for _, file := range files {
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
	if _, err := w.Write(packed.Bytes()); err != nil {
		return fmt.Errorf("write app package: %w", err)
	}
	return nil
}

// checked returns the files of a package, with the placeholders filled in. If there are errs or
// problems, it returns an error that lists them all.
func checked(read reader, id, domain string, errs []error) ([]file, error) {
	problems, files := checkFiles(read.fill(id, domain))
	slices.Sort(problems)
	for _, problem := range slices.Compact(problems) { // two checks may find the same problem
		errs = append(errs, errors.New(problem))
	}
	if len(errs) > 0 {
		return nil, fmt.Errorf("app package: %w", errors.Join(errs...))
	}
	return files, nil
}

// files returns the files of c's package by name, with placeholders for AppID and Domain, and every
// mistake that [checkFiles] would not find.
func (c config) files() (files, []error) {
	c, errs := c.complete()
	all := files{colorName: c.ColorIcon, outlineName: c.OutlineIcon}
	add := func(name string, content object) {
		data, err := json.Marshal(content, json.Deterministic(true), jsontext.WithIndent("  "))
		if err != nil {
			errs = append(errs, fmt.Errorf("encode %s: %w", name, err))
		}
		all[name] = append(data, '\n')
	}
	for _, tag := range slices.Sorted(maps.Keys(c.Translations)) {
		add(languageFile(tag), c.translated(c.Translations[tag]))
	}
	add(manifestName, c.manifest()) // last: no language may take its place
	return all, errs
}

// complete returns a copy with every default filled in, and every mistake that the checks of the
// files would not find.
func (c config) complete() (config, []error) {
	var errs []error
	c.AppID, c.Domain = idPlaceholder, domainPlaceholder
	if c.Schema == "" && c.Targeted {
		c.Schema = targetedSince
	}
	c.Schema = cmp.Or(c.Schema, schemaVersion)
	if c.Targeted && c.Schema < targetedSince {
		errs = append(errs, fmt.Errorf("targeted messages need schema version %s, not %s", targetedSince, c.Schema))
		c.Targeted = false
	}
	c.Version = cmp.Or(c.Version, "1.0.0")
	c.Name = cmp.Or(c.Name, "Planbot")
	c.FullName = cmp.Or(c.FullName, c.Name+" planning assistant")
	c.Summary = cmp.Or(c.Summary, defaultSummary)
	c.Details = cmp.Or(c.Details, defaultDetails)
	c.AccentColor = cmp.Or(c.AccentColor, accentColor)
	c.Language = cmp.Or(c.Language, "en")
	c.Developer = cmp.Or(c.Developer, c.Name)
	c.WebsiteURL = cmp.Or(c.WebsiteURL, "https://"+c.Domain)
	c.PrivacyURL = cmp.Or(c.PrivacyURL, "https://"+c.Domain+"/privacy")
	c.TermsURL = cmp.Or(c.TermsURL, "https://"+c.Domain+"/terms")
	if c.WebAppResource != "" {
		c.WebAppID = cmp.Or(c.WebAppID, c.AppID)
	}
	if len(c.ResourcePermissions) > 0 && c.WebAppID == "" {
		c.WebAppID, c.WebAppResource = c.AppID, rscResource
	}
	if c.Disclaimer != "" && !slices.Contains(c.Scopes, "copilot") {
		errs = append(errs, errors.New("a Disclaimer is for an app with the scope copilot"))
	}
	if c.ColorIcon == nil {
		c.ColorIcon = colorIcon
	}
	if c.OutlineIcon == nil {
		c.OutlineIcon = outlineIcon
	}
	if c.Scopes == nil {
		c.Scopes = []string{"personal", "team", "groupChat"}
	}
	if c.Permissions == nil {
		c.Permissions = []string{"identity"}
	}
	if n := len(c.Commands); n > maxCommands {
		errs, c.Commands = append(errs, fmt.Errorf("%d commands, Teams shows at most %d", n, maxCommands)), c.Commands[:maxCommands]
	}
	all := slices.Concat(c.Commands, c.Prompts)
	for i, cmd := range all {
		if strings.TrimSpace(cmd.Title) == "" || strings.TrimSpace(cmd.Description) == "" {
			errs = append(errs, fmt.Errorf("command or prompt %d (%q) needs a title and a description", i+1, cmd.Title))
		}
	}
	for _, tag := range slices.Sorted(maps.Keys(c.Translations)) {
		for _, title := range slices.Sorted(maps.Keys(c.Translations[tag].Commands)) {
			if !slices.ContainsFunc(all, func(cmd manifest.Command) bool { return cmd.Title == title }) &&
				!slices.ContainsFunc(c.Extension.Commands, func(cmd manifest.ExtensionCommand) bool { return cmd.Title == title }) {
				errs = append(errs, fmt.Errorf("translation %s is of %q, which is no command or prompt", tag, title))
			}
		}
	}
	c.Prompts = c.Prompts[:min(len(c.Prompts), maxCommands-len(c.Commands))]
	return c, errs
}

var (
	// semver is the regular expression that semver.org suggests, without captures.
	semver = lazy.Regexp(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)` +
		`(-(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(\.(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*)?` +
		`(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?$`)
	// hostName matches dot-separated labels of up to 63 characters.
	hostName = lazy.Regexp(`^([A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?(\.|$))+$`)
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
	case !hostName().MatchString(host) || strings.HasSuffix(host, "."):
		return fmt.Errorf("domain %q is not a host name such as bot.example.com", s)
	case host == "localhost" || strings.HasSuffix(host, ".localhost") || addrErr == nil && (addr.IsLoopback() || addr.IsUnspecified()):
		return fmt.Errorf("domain %q is whichever machine asks, so Teams cannot reach the bot there: give a host on the internet, such as a tunnel's", s)
	}
	return nil
}

// object is a part of the manifest. The schema defines its contents.
type object = map[string]any

// manifest returns a complete Config's document.
func (c config) manifest() object {
	bot := object{
		"botId":              c.AppID,
		"scopes":             c.Scopes,
		"supportsFiles":      c.Files,
		"isNotificationOnly": false,
	}
	if lists := c.commandLists(); len(lists) > 0 {
		bot["commandLists"] = lists
	}
	if c.Targeted {
		bot["supportsTargetedMessages"] = true
	}
	if form := (object{"fetchTask": true}); c.Settings {
		bot["configuration"] = object{"team": form, "groupChat": form}
	}
	doc := object{
		"$schema":         schemaURL(c.Schema, manifestSchema),
		"manifestVersion": c.Schema,
		"version":         c.Version,
		"id":              c.AppID,
		"developer": object{
			"name":          c.Developer,
			"websiteUrl":    c.WebsiteURL,
			"privacyUrl":    c.PrivacyURL,
			"termsOfUseUrl": c.TermsURL,
		},
		"name":         object{"short": c.Name, "full": c.FullName},
		"description":  object{"short": c.Summary, "full": c.Details},
		"icons":        object{"color": colorName, "outline": outlineName},
		"accentColor":  c.AccentColor,
		"permissions":  c.Permissions,
		"validDomains": append([]string{c.Domain}, c.ValidDomains...),
		"bots":         []object{bot},
	}
	if c.offers("personal") {
		doc["defaultInstallScope"] = "personal"
	}
	groups := object{}
	for _, scope := range []string{"team", "groupChat"} {
		if c.offers(scope) {
			groups[strings.ToLower(scope)] = "bot" // lower case here, unlike the scope
		}
	}
	if len(groups) > 0 {
		doc["defaultGroupCapability"] = groups
	}
	if e := extension(c.Extension).object(c.AppID); e != nil {
		doc["composeExtensions"] = []object{e}
	}
	if len(c.ResourcePermissions) > 0 {
		var all []object
		for _, name := range c.ResourcePermissions {
			all = append(all, object{"name": name, "type": "Application"})
		}
		doc["authorization"] = object{"permissions": object{"resourceSpecific": all}}
	}
	if c.offers("copilot") {
		agent := object{"id": c.AppID, "type": "bot"}
		if c.Disclaimer != "" {
			agent["disclaimer"] = object{"text": c.Disclaimer}
		}
		doc["copilotAgents"] = object{"customEngineAgents": []object{agent}}
	}
	if c.WebAppID != "" {
		web := object{"id": c.WebAppID}
		if c.WebAppResource != "" {
			web["resource"] = c.WebAppResource
		}
		doc["webApplicationInfo"] = web
	}
	if len(c.Translations) > 0 || c.Language != "en" {
		more := []object{}
		for _, tag := range slices.Sorted(maps.Keys(c.Translations)) {
			more = append(more, object{"languageTag": tag, "file": languageFile(tag)})
		}
		doc["localizationInfo"] = object{"defaultLanguageTag": c.Language, "additionalLanguages": more}
	}
	return doc
}

func (c config) offers(scope string) bool { return slices.Contains(c.Scopes, scope) }

// commandList is a list of commands as the schema has it.
type commandList struct {
	Scopes   []string           `json:"scopes"`
	Commands []manifest.Command `json:"commands"`
}

// commandLists returns the commands of a complete Config. Teams shows those of the personal scope
// as prompt starters, and the others as a menu behind @mention.
func (c config) commandLists() []commandList {
	var lists []commandList
	for _, list := range []commandList{
		{[]string{"personal", "copilot"}, slices.Concat(c.Prompts, c.Commands)},
		{[]string{"team", "groupChat"}, slices.Concat(c.Commands, c.Prompts)},
	} {
		list.Scopes = slices.DeleteFunc(list.Scopes, func(scope string) bool { return !c.offers(scope) })
		if len(list.Scopes) > 0 && len(list.Commands) > 0 {
			lists = append(lists, list)
		}
	}
	return lists
}

func languageFile(tag string) string { return strings.ToLower(tag) + ".json" }

// translated returns the language file of a complete Config. It has every text, so that an edited
// file needs no keys that people would have to look up.
func (c config) translated(t manifest.Translation) object {
	texts := object{
		"$schema":           schemaURL(c.Schema, languageSchema),
		"name.short":        cmp.Or(t.Name, c.Name),
		"name.full":         cmp.Or(t.FullName, c.FullName),
		"description.short": cmp.Or(t.Summary, c.Summary),
		"description.full":  cmp.Or(t.Details, c.Details),
	}
	for i, list := range c.commandLists() {
		for j, cmd := range list.Commands {
			key, own := fmt.Sprintf("bots[0].commandLists[%d].commands[%d].", i, j), t.Commands[cmd.Title]
			texts[key+"title"] = cmp.Or(own.Title, cmd.Title)
			texts[key+"description"] = cmp.Or(own.Description, cmd.Description)
		}
	}
	for i, cmd := range c.Extension.Commands {
		key, own := fmt.Sprintf("composeExtensions[0].commands[%d].", i), t.Commands[cmd.Title]
		texts[key+"title"] = cmp.Or(own.Title, cmd.Title)
		if cmd.Description != "" {
			texts[key+"description"] = cmp.Or(own.Description, cmd.Description)
		}
	}
	return texts
}
