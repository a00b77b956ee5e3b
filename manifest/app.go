package manifest

// The schema that Build writes, and the accent colour of the icons.
const (
	schemaVersion = "1.25"
	accentColor   = "#0B6E75"
)

const (
	defaultSummary = "Keeps your lists: say what you want, and it plans the steps and does them."
	defaultDetails = "Tell the bot in your own words what you want done. It turns each message into a plan of actions, " +
		"runs them in order, and says what it did.\n\n" +
		"It keeps lists: create them, add and remove items, check items off, find an item, or ask what is on them. " +
		"In a personal chat the lists are yours; in a group chat or a channel they belong to everybody there.\n\n" +
		"Send \"help\" to see what it can do, and \"/forget\" to delete everything it keeps about you. " +
		"Replies are written with AI: check what matters."
)

// app is the manifest: the part of the schema that the bot uses, in the order
// in which it is written.
type app struct {
	Schema                 string          `json:"$schema"`
	ManifestVersion        string          `json:"manifestVersion"`
	Version                string          `json:"version"`
	ID                     string          `json:"id"`
	Developer              developer       `json:"developer"`
	Name                   names           `json:"name"`
	Description            names           `json:"description"`
	Icons                  icons           `json:"icons"`
	AccentColor            string          `json:"accentColor"`
	Bots                   []teamsBot      `json:"bots"`
	Permissions            []string        `json:"permissions"`
	ValidDomains           []string        `json:"validDomains"`
	DefaultInstallScope    string          `json:"defaultInstallScope"`
	DefaultGroupCapability groupCapability `json:"defaultGroupCapability"`
}

type developer struct {
	Name          string `json:"name"`
	WebsiteURL    string `json:"websiteUrl"`
	PrivacyURL    string `json:"privacyUrl"`
	TermsOfUseURL string `json:"termsOfUseUrl"`
}

type names struct {
	Short string `json:"short"`
	Full  string `json:"full"`
}

type icons struct {
	Color   string `json:"color"`
	Outline string `json:"outline"`
}

type teamsBot struct {
	BotID              string        `json:"botId"`
	Scopes             []string      `json:"scopes"`
	SupportsFiles      bool          `json:"supportsFiles"`
	IsNotificationOnly bool          `json:"isNotificationOnly"`
	CommandLists       []commandList `json:"commandLists,omitempty"`
}

type commandList struct {
	Scopes   []string      `json:"scopes"`
	Commands []menuCommand `json:"commands"`
}

type menuCommand struct {
	Title       string `json:"title"`
	Description string `json:"description"`
}

type groupCapability struct {
	Team      string `json:"team"`
	GroupChat string `json:"groupchat"` // lower case here, unlike the scope
}

// newApp fills the manifest from a complete Config.
func newApp(cfg Config) app {
	return app{
		Schema:          schemaURL(schemaVersion),
		ManifestVersion: schemaVersion,
		Version:         cfg.Version,
		ID:              cfg.AppID,
		Developer: developer{
			Name:          cfg.Developer,
			WebsiteURL:    cfg.WebsiteURL,
			PrivacyURL:    cfg.PrivacyURL,
			TermsOfUseURL: cfg.TermsURL,
		},
		Name:        names{Short: cfg.Name, Full: cfg.FullName},
		Description: names{Short: cfg.Summary, Full: cfg.Details},
		Icons:       icons{Color: colorName, Outline: outlineName},
		AccentColor: accentColor,
		Bots: []teamsBot{{
			BotID:        cfg.AppID,
			Scopes:       []string{"personal", "team", "groupChat"},
			CommandLists: commandLists(cfg),
		}},
		Permissions:            []string{"identity"},
		ValidDomains:           []string{cfg.Domain},
		DefaultInstallScope:    "personal",
		DefaultGroupCapability: groupCapability{Team: "bot", GroupChat: "bot"},
	}
}

// commandLists puts prompt starters first where Teams shows them as such, in
// personal chats, and the commands first where they are a menu behind @mention.
func commandLists(cfg Config) []commandList {
	prompts := cfg.Prompts[:min(len(cfg.Prompts), MaxCommands-len(cfg.Commands))]
	if len(prompts)+len(cfg.Commands) == 0 {
		return nil
	}
	return []commandList{
		{Scopes: []string{"personal"}, Commands: menu(prompts, cfg.Commands)},
		{Scopes: []string{"team", "groupChat"}, Commands: menu(cfg.Commands, prompts)},
	}
}

func menu(parts ...[]Command) []menuCommand {
	var out []menuCommand
	for _, part := range parts {
		for _, c := range part {
			out = append(out, menuCommand(c))
		}
	}
	return out
}
