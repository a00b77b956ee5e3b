// Package manifest says what is in the app package that installs the bot in Microsoft Teams. Package pack builds and
// checks it.
package manifest

// Command is an entry of the bot's command menu, or a prompt starter. Both fields are required.
// Picking it puts Title into the compose box.
type Command struct {
	Title       string `json:"title"`
	Description string `json:"description"`
}

// Translation has the texts of a [Config] in another language. The zero value of a field leaves the
// Config's text.
type Translation struct {
	Name, FullName, Summary, Details string
	// Commands translates commands and prompts, and those of the message extension. The key is the
	// title in Config. Picking a command or a prompt sends the translated title, so give a title only
	// if the bot understands it.
	Commands map[string]Command
}

// Extension is a message extension: what people find and do from where they write a message. A bot
// has it if it answers such commands, see package bot/teams.
type Extension struct {
	Commands []ExtensionCommand // at most 10. Teams wants one, also if only links matter
	Domains  []string           // of links that get a card. * stands for one label
	// Anonymous says that they get one also where the app is not installed.
	Anonymous bool
	// Settings says that the extension has a page with settings.
	Settings bool
}

// ExtensionCommand is a command of a message extension. ID and Title are required.
type ExtensionCommand struct {
	ID          string      `json:"id"`
	Type        string      `json:"type"` // query or action
	Title       string      `json:"title"`
	Description string      `json:"description,omitempty"`
	Context     []string    `json:"context,omitempty"` // of compose, commandBox and message. nil: the first two
	InitialRun  bool        `json:"initialRun,omitzero"`
	FetchTask   bool        `json:"fetchTask,omitzero"` // the bot makes the form of an action
	Parameters  []Parameter `json:"parameters,omitempty"`
}

// Parameter is what people fill in for a command. Name and Title are required.
type Parameter struct {
	Name        string   `json:"name"`
	Title       string   `json:"title"`
	Description string   `json:"description,omitempty"`
	InputType   string   `json:"inputType,omitempty"` // such as text, date or choiceset. "": text
	Value       string   `json:"value,omitempty"`     // what it begins with
	Choices     []Choice `json:"choices,omitempty"`   // of a choiceset, at most 10
}

// Choice is one of the choices of a [Parameter]. Both fields are required.
type Choice struct {
	Title string `json:"title"`
	Value string `json:"value"`
}

// BotResource is the application ID URI of a bot whose people sign in by OAuth connections of the Azure Bot, unless
// its own manifest says another one.
const BotResource = "api://botid-${{BOT_ID}}"

// Config says which app to package. AppID and Domain are required, except for [pack.Init]; the zero
// value of every other field is a working default. In each text, ${{BOT_ID}} stands for AppID and
// ${{BOT_DOMAIN}} for Domain.
type Config struct {
	AppID   string // the bot's Microsoft app id, a GUID in any spelling; also the Teams app's id
	Domain  string // the bot's public host[:port], without a scheme
	Schema  string // schema version: 1.29, 1.25 or 1.22. "": 1.25, or the first one that has all of this
	Version string // semantic version; raise it with every change. "": 1.0.0
	Name    string // short name, up to 30 characters. "": Planbot

	FullName string // up to 100 characters, different from Name. "": made from Name
	Summary  string // one sentence, up to 80 characters. "": what every bot of Planbot does
	Details  string // up to 4000 characters. "": what every bot of Planbot does

	AccentColor string // such as #0B6E75, the colour of the built-in icons and the default
	ColorIcon   []byte // PNG, 192×192 pixels. nil: a built-in one
	OutlineIcon []byte // PNG, 32×32 pixels, only white on transparent. nil: a built-in one

	Language     string                 // language tag of the texts here. "": en
	Translations map[string]Translation // by language tag, such as de or pt-br

	// Commands are shown in every scope; at most 10.
	Commands []Command
	// Prompts are suggestions to start with. They come first in personal chats and last elsewhere.
	// With Commands they make at most 10; excess prompts are dropped from the end.
	Prompts []Command

	Scopes       []string // where people can add the bot. nil: personal, team and groupChat
	Permissions  []string // of identity and messageTeamMembers. nil: identity
	ValidDomains []string // hosts besides Domain whose pages the app opens, such as token.botframework.com

	// Extension is the message extension; the zero value is none.
	Extension Extension
	// Settings opens the bot's form when somebody adds it to a team or a group chat.
	Settings bool
	// Files says that people can send the bot files in personal chats, and get files from it.
	Files bool
	// Targeted says that people can write messages to the bot in groups that nobody else sees. It
	// needs schema version 1.29.
	Targeted bool
	// ResourcePermissions are what the app asks of each team, chat or meeting that it is added to, such
	// as OnlineMeeting.ReadBasic.Chat. At most 16.
	ResourcePermissions []string
	// Disclaimer is what people read before they talk with the bot in Microsoft 365 Copilot, up to 500
	// characters. It is for an app with the scope copilot, which makes the bot an agent there.
	Disclaimer string

	// WebAppID and WebAppResource are the app registration with which people sign in: its id and
	// its application ID URI, such as api://botid-${{BOT_ID}}. WebAppID is AppID if only
	// WebAppResource is set. Both "": people do not sign in.
	WebAppID       string
	WebAppResource string

	Developer  string // name of the app's publisher. "": Name
	WebsiteURL string // https. "": the root of Domain
	PrivacyURL string // https. "": /privacy on Domain
	TermsURL   string // https. "": /terms on Domain
}
