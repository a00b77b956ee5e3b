package manifest

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// The rules here are documented on Microsoft's pages (app manifest reference,
// app package, store validation guidelines), and not expressed by the schema.

// checkIdentity checks ids and the version.
func (c *checker) checkIdentity() {
	for _, where := range []string{"/id", "/bots/0/botId", "/webApplicationInfo/id", "/copilotAgents/customEngineAgents/0/id"} {
		switch id := c.text(where); {
		case id == "":
		case !guid.MatchString(strings.ToLower(id)):
			c.note(where, "%s", notGUID(id))
		case id == emptyGUID:
			c.note(where, "is the empty GUID: put in your own")
		}
	}
	if v := c.text("/version"); v != "" && !semver.MatchString(v) {
		c.note("/version", "%q is not a semantic version such as 1.0.0", v)
	}
}

func notGUID(s string) string {
	return fmt.Sprintf("%q is not a GUID such as 1d0f3a52-7c1e-4b5e-9a44-5b2e6c1f0a77", s)
}

// checkNames asks for texts that say something.
func (c *checker) checkNames() {
	for _, where := range []string{"/version", "/developer/name", "/name/short", "/name/full", "/description/short", "/description/full"} {
		if v, isText := c.at(where).(string); isText && strings.TrimSpace(v) == "" {
			c.note(where, "is empty")
		}
	}
	if name, ok := c.at("/name").(map[string]any); ok && name["full"] == nil {
		c.note("/name/full", "is missing")
	}
	if short := strings.TrimSpace(c.text("/name/short")); short != "" && strings.EqualFold(short, strings.TrimSpace(c.text("/name/full"))) {
		c.note("/name/full", "must differ from the short name")
	}
}

// checkURLs asks for https, where the schema lets http pass.
func (c *checker) checkURLs() {
	for _, where := range []string{"/developer/websiteUrl", "/developer/privacyUrl", "/developer/termsOfUseUrl"} {
		if v, isText := c.at(where).(string); isText && !isHTTPS(v) {
			c.note(where, "%s", notHTTPS(v))
		}
	}
}

func isHTTPS(s string) bool {
	u, err := url.Parse(s)
	return err == nil && u.Scheme == "https" && u.Hostname() != "" && u.User == nil
}

func notHTTPS(s string) string {
	return fmt.Sprintf("%q is not an https address such as https://example.com/privacy", s)
}

// checkDomains checks validDomains entry by entry.
func (c *checker) checkDomains() {
	for i := range c.size("/validDomains") {
		where := fmt.Sprintf("/validDomains/%d", i)
		d, isText := c.at(where).(string)
		switch {
		case !isText: // the schema says so
		case d == "{teamsitedomain}": // documented: the team's own SharePoint site
		case strings.Contains(d, "://"):
			c.note(where, "%q has a scheme: give only the host", d)
		case slices.Contains(identityProviders, strings.ToLower(d)):
			c.note(where, "%q is an identity provider: these must not be listed", d)
		default:
			if err := checkDomain(d); err != nil {
				c.note(where, "%v", err)
			}
		}
	}
}

// checkIconNames asks for both icons, as files at the root of the package.
func (c *checker) checkIconNames() {
	for _, rule := range iconRules() {
		where := "/icons/" + rule.key
		switch name, isText := c.at(where).(string); {
		case !isText: // the schema says whether it must be there
		case !plainName(name):
			c.note(where, "%q is not the name of a PNG file at the root of the package", name)
		}
	}
	if name := c.text("/icons/color"); name != "" && name == c.text("/icons/outline") {
		c.note("/icons/outline", "is the same file as the color icon")
	}
}

// plainName says whether an icon's path is a file name alone.
func plainName(name string) bool {
	return name != "." && name != ".." && !strings.ContainsAny(name, `/\:`) && strings.HasSuffix(strings.ToLower(name), ".png")
}

// checkBot checks that the command lists fit the bot's scopes: "a separate
// command list should be used for each scope".
func (c *checker) checkBot() {
	scopes, taken := c.texts("/bots/0/scopes"), map[string]bool{}
	for i := range c.size("/bots/0/commandLists") {
		list := fmt.Sprintf("/bots/0/commandLists/%d", i)
		for _, s := range c.texts(list + "/scopes") {
			if !slices.Contains(scopes, s) {
				c.note(list+"/scopes", "%q is not a scope of the bot", s)
			}
			if taken[s] {
				c.note(list+"/scopes", "%q has a command list already", s)
			}
			taken[s] = true
		}
		c.checkCommands(list + "/commands")
	}
	if c.at("/bots/0") != nil && len(scopes) == 0 {
		c.note("/bots/0/scopes", "is empty: the bot can be used nowhere")
	}
}

func (c *checker) checkCommands(list string) {
	for i := range c.size(list) {
		where := fmt.Sprintf("%s/%d/title", list, i)
		if v, isText := c.at(where).(string); isText && strings.TrimSpace(v) == "" {
			c.note(where, "is empty")
		}
	}
}

// checkAgents checks what the schema describes in words only: a custom engine
// agent is the app's bot, in the personal scope.
func (c *checker) checkAgents() {
	id := c.text("/copilotAgents/customEngineAgents/0/id")
	if id == "" {
		return
	}
	if !strings.EqualFold(id, c.text("/bots/0/botId")) {
		c.note("/copilotAgents/customEngineAgents/0/id", "must be the botId of the bot")
	}
	if !slices.Contains(c.texts("/bots/0/scopes"), "personal") {
		c.note("/bots/0/scopes", "must have personal, because the bot is a custom engine agent")
	}
}

// placeholder finds what a template's author meant somebody to replace:
// {{APP_ID}}, ${{BOT_ID}}, ${BOT_ID}, <<bot-id>>, %BOT_ID%.
var placeholder = regexp.MustCompile(`\$?\{\{[^{}]*\}\}|\$\{[A-Za-z_][A-Za-z0-9_.]*\}|<<[^<>]+>>|%[A-Z][A-Z0-9]*_[A-Z0-9_]+%`)

// checkPlaceholders walks every text of the document; path is where v is.
func (c *checker) checkPlaceholders(v any, path ...string) {
	switch v := v.(type) {
	case string:
		if left := placeholder.FindString(v); left != "" {
			c.note(pointer(path), "still holds the placeholder %s", left)
		}
	case []any:
		for i, item := range v {
			c.checkPlaceholders(item, append(path, strconv.Itoa(i))...)
		}
	case map[string]any:
		for key, item := range v {
			c.checkPlaceholders(item, append(path, key)...)
		}
	}
}
