package manifest

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// Limits of the manifest that a Config can run into. [MaxCommands] is the
// documented number of commands that Teams shows; the schema's own is higher
// since version 1.24.
const (
	MaxCommands = 10
	maxName     = 30
	maxFullName = 100
	maxSummary  = 80
	maxDetails  = 4000
)

// Command is one entry of the bot's command menu, or one prompt starter: both
// fields are required. Picking it puts Title into the compose box.
type Command struct {
	Title       string
	Description string
}

// Config says which app to package. AppID and Domain are required; the zero
// value of every other field is a working default.
type Config struct {
	AppID   string // the bot's Microsoft app id, a GUID in any spelling; it is the id of the Teams app too
	Domain  string // host[:port] where the bot is reached, without a scheme
	Version string // semantic version; raise it with every change. "": 1.0.0
	Name    string // short name, up to 30 characters. "": Planbot

	FullName string // up to 100 characters, other than Name. "": made from Name
	Summary  string // one sentence, up to 80 characters. "": what the default bot does
	Details  string // up to 4000 characters. "": what the default bot does

	// Commands are shown in every scope, at most [MaxCommands].
	Commands []Command
	// Prompts are what a person may start with. They come first in personal
	// chats and last elsewhere. Those that do not fit beside Commands in
	// [MaxCommands] are left out, the last first.
	Prompts []Command

	Developer  string // name of who publishes the app. "": Name
	WebsiteURL string // https. "": the root of Domain
	PrivacyURL string // https. "": /privacy on Domain
	TermsURL   string // https. "": /terms on Domain
}

// complete returns a copy with every default filled in, or every mistake of
// what was given.
func (c Config) complete() (Config, error) {
	var errs []error
	note := func(err error) { errs = append(errs, err) }

	id, err := parseGUID(c.AppID)
	note(err)
	note(checkHost(c.Domain))
	c.AppID = id
	c.Version = cmp.Or(c.Version, "1.0.0")
	if !semver.MatchString(c.Version) {
		note(fmt.Errorf("version %q is not a semantic version such as 1.0.0", c.Version))
	}
	c = c.withDefaults()
	note(tooLong("name", c.Name, maxName))
	note(tooLong("full name", c.FullName, maxFullName))
	note(tooLong("summary", c.Summary, maxSummary))
	note(tooLong("details", c.Details, maxDetails))
	if strings.EqualFold(c.Name, c.FullName) {
		note(fmt.Errorf("full name %q must differ from the name", c.FullName))
	}
	note(checkCommands(c))
	return c, errors.Join(errs...)
}

func (c Config) withDefaults() Config {
	c.Name = cmp.Or(c.Name, "Planbot")
	c.FullName = cmp.Or(c.FullName, c.Name+" planning assistant")
	c.Summary = cmp.Or(c.Summary, defaultSummary)
	c.Details = cmp.Or(c.Details, defaultDetails)
	c.Developer = cmp.Or(c.Developer, c.Name)
	c.WebsiteURL = cmp.Or(c.WebsiteURL, "https://"+c.Domain)
	c.PrivacyURL = cmp.Or(c.PrivacyURL, "https://"+c.Domain+"/privacy")
	c.TermsURL = cmp.Or(c.TermsURL, "https://"+c.Domain+"/terms")
	return c
}

func checkCommands(c Config) error {
	var errs []error
	if n := len(c.Commands); n > MaxCommands {
		errs = append(errs, fmt.Errorf("%d commands, Teams shows at most %d", n, MaxCommands))
	}
	for _, list := range []struct {
		kind     string
		commands []Command
	}{{"command", c.Commands}, {"prompt", c.Prompts}} {
		for i, cmd := range list.commands {
			if strings.TrimSpace(cmd.Title) == "" || strings.TrimSpace(cmd.Description) == "" {
				errs = append(errs, fmt.Errorf("%s %d (%q) needs a title and a description", list.kind, i+1, cmd.Title))
			}
		}
	}
	return errors.Join(errs...)
}

// tooLong counts characters as the schema does: code points.
func tooLong(what, text string, limit int) error {
	if n := len([]rune(text)); n > limit {
		return fmt.Errorf("%s has %d characters, at most %d fit: %q", what, n, limit, text)
	}
	return nil
}

var (
	guid = regexp.MustCompile(`^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$`)
	// semver is the expression that semver.org suggests, without captures.
	semver = regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)` +
		`(-(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(\.(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*)?` +
		`(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?$`)
)

// emptyGUID is what a form holds before somebody fills it in.
const emptyGUID = "00000000-0000-0000-0000-000000000000"

// parseGUID accepts what people paste: any case, in braces, around spaces, and
// returns the lower-case form with dashes.
func parseGUID(s string) (string, error) {
	id := strings.ToLower(strings.TrimSpace(s))
	if strings.HasPrefix(id, "{") && strings.HasSuffix(id, "}") {
		id = id[1 : len(id)-1]
	}
	switch {
	case id == "":
		return "", errors.New("app id is missing: give the bot's Microsoft app id, a GUID")
	case !guid.MatchString(id):
		return "", fmt.Errorf("app id %q is not a GUID such as 1d0f3a52-7c1e-4b5e-9a44-5b2e6c1f0a77", s)
	case id == emptyGUID:
		return "", fmt.Errorf("app id %q is the empty GUID", s)
	}
	return id, nil
}
