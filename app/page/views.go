package page

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	g "maragu.dev/gomponents"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/app/internal/dryrun"
	"github.com/planbot-go/planbot/app/internal/turnlog"
	"github.com/planbot-go/planbot/internal/markup"
	h "github.com/planbot-go/planbot/internal/markup/html"
	"github.com/planbot-go/planbot/planner/plan"
)

// text is a text in a view: what is not seen is marked. Its parts may be numbers.
func text(parts ...any) g.Node {
	var out strings.Builder
	for _, part := range parts {
		fmt.Fprint(&out, part)
	}
	return g.Text(marked(out.String()))
}

var space = g.Text(" ") // what parts of a line have between them

func para(class string, children ...g.Node) g.Node { return h.P(h.Class(class), g.Group(children)) }

func dim(parts ...any) g.Node { return h.Span(h.Class("dim"), text(parts...)) }

func label(parts ...any) g.Node { return h.Span(h.Class("label"), text(parts...)) }

// unseen is a text for who does not see the page.
func unseen(parts ...any) g.Node { return h.Span(h.Class("hidden"), text(parts...)) }

func code(parts ...any) g.Node { return h.Code(text(parts...)) }

// frame is a text with its lines, in a frame that scrolls.
func frame(content string) g.Node { return h.Pre(h.TabIndex("0"), text(content)) }

func named(name, content string) g.Node {
	return h.Pre(h.TabIndex("0"), h.Aria("label", name), text(content))
}

// frameOf is a frame, or nothing where there is no text.
func frameOf(content string) g.Node {
	if content == "" {
		return nil
	}
	return frame(content)
}

// faultOf says what went wrong, or nothing.
func faultOf(why string) g.Node {
	if why == "" {
		return nil
	}
	return para("fault", text(why))
}

// source is a text that is long, and opens. "": nothing.
func source(name, content string) g.Node {
	if content == "" {
		return nil
	}
	return h.Details(h.Class("source"), h.Summary(text(name)), frame(content))
}

// later is what is seldom opened: a script makes it of a text once its details are, so a view has less to lay out.
func later(content ...g.Node) g.Node { return h.NoScript(content...) }

func link(to markup.Address, parts ...any) g.Node { return h.A(markup.Href(to), text(parts...)) }

// turnAddress is that of the view of a turn, or of what is below it.
func turnAddress(id string, below ...string) markup.Address {
	return markup.At(markup.At("/dev/turns", id), below...)
}

// turnLink leads to a turn, in the chat without another page.
func turnLink(id string, parts ...any) g.Node {
	return h.A(markup.Href(turnAddress(id)), h.Data("turn-link", id), text(parts...))
}

// sends is a value that a form sends along.
func sends(name, value string) g.Node {
	return h.Input(h.Type("hidden"), h.Name(name), h.Value(value))
}

func optionOf(value string, isChosen bool, parts ...any) g.Node {
	return h.Option(h.Value(value), markup.On("selected", isChosen), text(parts...))
}

func titled(id, title string, children ...g.Node) g.Node {
	return h.Section(h.Aria("labelledby", id), h.H2(h.ID(id), text(title)), g.Group(children))
}

// wide is a table that may be wider than the view.
func wide(name string, heads []string, rows ...g.Node) g.Node {
	return wideOf(name, h.Table(headRow(heads), h.TBody(rows...)))
}

func wideOf(name string, content g.Node) g.Node {
	return h.Div(h.Class("wide"), h.Role("group"), h.Aria("label", name), h.TabIndex("0"), content)
}

func headRow(heads []string) g.Node {
	return h.THead(h.Tr(g.Map(heads, func(head string) g.Node { return h.Th(h.Scope("col"), text(head)) })))
}

func rowHead(children ...g.Node) g.Node { return h.Th(h.Scope("row"), g.Group(children)) }

// fact is an entry of a list of facts.
func fact(name string, value ...g.Node) g.Node { return h.Div(h.Dt(text(name)), h.Dd(value...)) }

// each makes nodes of a list. Its function gets the index as well.
func each[T any](all []T, node func(i int, one T) g.Node) g.Group {
	var nodes g.Group
	for i, one := range all {
		nodes = append(nodes, node(i, one))
	}
	return nodes
}

// clock, short and day write a time for people.
func clock(t time.Time) string { return t.Local().Format("15:04:05.000") }

func short(t time.Time) string { return t.Local().Format("15:04") }

func day(t time.Time) g.Node { return timeOf(t, t.Local().Format(time.DateTime)) }

func timeOf(t time.Time, words string) g.Node {
	return h.Time(h.DateTime(t.Format(time.RFC3339)), text(words))
}

// plural is the word for so many: an "s" more than for one.
func plural(n int, word string) string {
	if n == 1 {
		return word
	}
	return word + "s"
}

// either chooses one of two words.
func either(is bool, yes, no string) string {
	if is {
		return yes
	}
	return no
}

// body is what a view shows below the navigation.
func body(children ...g.Node) g.Node {
	return h.Main(h.ID("main"), h.Class("page"), g.Group(children))
}

func assetAddress(name string) markup.Address {
	return markup.At("/dev/assets", assetHash(), name)
}

// tokenField is the page's token, which forms that do more than chat must send.
func (p *server) tokenField() g.Node { return sends("token", p.token) }

// document is a view with the navigation. tab is the path of the entry that is open in it.
func (p *server) document(title string, tab markup.Address, content g.Node, scripts ...string) g.Node {
	set := p.faults.view("", "").Words
	return h.Doctype(h.HTML(
		h.Lang("en"),
		h.Head(
			h.Meta(h.Charset("utf-8")),
			h.Meta(h.Name("viewport"), h.Content("width=device-width, initial-scale=1")),
			h.Meta(h.Name("color-scheme"), h.Content("light dark")),
			h.Meta(h.Name("planbot-token"), h.Content(p.token)),
			h.TitleEl(text(title, " – ", p.cfg.Name)),
			h.Link(h.Rel("stylesheet"), markup.Href(assetAddress("page.css"))),
			h.Link(h.Rel("icon"), markup.Href(assetAddress("icon.svg"))),
			g.Map(append([]string{"keys.js", "theme.js", "live.js"}, scripts...), func(name string) g.Node {
				return h.Script(h.Type("module"), markup.Src(assetAddress(name)))
			}),
		),
		h.Body(
			h.A(h.Class("skip"), markup.Href("#main"), text("Skip to the content")),
			h.Section(
				h.Class("alarm"), h.ID("alarm"), h.Aria("label", "Faults"), markup.On("hidden", len(set) == 0 && p.keeper.buildFault() == ""),
				h.Div(h.ID("alarm-words"), h.Role("status"), p.alarm()),
				h.Form(
					h.Class("row"), h.Method("post"), markup.Action("/dev/faults/clear"), markup.On("hidden", len(set) == 0),
					p.tokenField(), sends("back", string(tab)), h.Button(text("Clear all faults")), space, link("/dev/faults", "Faults"),
				),
			),
			h.Section(
				h.Class("gone"), h.ID("gone"), h.Aria("label", "Connection"), markup.On("hidden", true), h.Data("started", p.hub.started),
				h.P(h.Role("status")),
			),
			h.Header(
				h.Class("top"),
				para("brand", link("/dev/", p.cfg.Name)),
				h.Nav(h.Aria("label", "Planbot"), h.Ul(g.Map(p.tabs, func(t tabOf) g.Node {
					return h.Li(h.A(markup.Href(t.Path), g.If(t.Path == tab, h.Aria("current", "page")), text(t.Name)))
				}))),
				h.Button(h.Type("button"), h.Class("quiet"), h.ID("theme"), markup.On("hidden", true), text("Theme: system")),
			),
			content,
		),
	))
}

// alarm says which faults are set, and why a build failed.
func (p *server) alarm() g.Node {
	var all g.Group
	if why := p.keeper.buildFault(); why != "" {
		all = append(all,
			h.P(h.Strong(text("The last build failed.")), text(" The bot that was built before it answers.")),
			named("Why the build failed", why),
		)
	}
	if set := p.faults.view("", "").Words; len(set) > 0 {
		all = append(all, h.P(markup.On("data-set", true), h.Strong(text("Faults are set.")), text(" ", strings.Join(set, "; "), ".")))
	}
	return all
}

// faultPage says why there is nothing to see.
func faultPage(title, why string) g.Node {
	return body(h.H1(text(title)), h.P(text(why)), h.P(link("/dev/", "Back to the chat")))
}

func helpPage() g.Node {
	key := func(keys string, does string) g.Node {
		return h.Tr(h.Td(each(strings.Split(keys, " "), func(i int, key string) g.Node {
			var all g.Group
			for j, one := range strings.Split(key, "+") {
				all = append(all, g.If(j > 0, g.Text("+")), h.Kbd(text(one)))
			}
			return g.Group{g.If(i > 0, space), all}
		})), h.Td(text(does)))
	}
	return body(
		h.H1(text("Help")),
		h.H2(text("Keys")),
		h.Table(headRow([]string{"Key", "What it does"}), h.TBody(
			key("?", "this help"),
			key("m", "go to the message box"),
			key("j k", "next and previous turn in the list"),
			key("Enter", "open the turn; in the message box: send"),
			key("Shift+Enter", "a new line in the message box"),
			key("↑", "in an empty message box: edit your last message"),
			key("@", "in the message box: mention the bot or a person"),
			key("/", "at the beginning of a message: a command of the bot"),
			key("Esc", "back to the list of turns, or leave the message box"),
			key("/", "elsewhere: filter the turns, or the settings"),
			key("g c", "the chat"),
			key("g t", "the turns"),
			key("g i", "all that came in and went out"),
			key("g a", "the actions"),
			key("g p", "the prompts"),
			key("g s", "the skills"),
			key("g k", "dead letters and waiting turns"),
			key("g n", "the numbers"),
			key("g e", "the results of evaluations"),
			key("r", "at a turn: what if"),
			key("f", "at a turn: go on from here"),
			key("s", "at a turn: save as test"),
			h.Tr(h.Td(h.Kbd(text("Alt")), g.Text("+"), h.Kbd(text("1")), g.Text("…"), h.Kbd(text("9"))), h.Td(text("speak as another person"))),
			key("d", "light, dark or the system's theme"),
		)),
		h.P(text("While you type, only the keys of the message box work.")),
		h.H2(text("For programs")),
		h.P(
			link("/dev/turns.json", "/dev/turns.json"), text(" lists the turns. Each turn has its JSON at "), code("/dev/turns/ID.json"),
			text(", and the chat at "), link("/dev/.json", "/dev/.json"), text("."),
		),
		h.H2(text("What the page is")),
		h.P(
			text("The page runs in local mode only, on this machine only. "), code("BOT_PAGE=false"),
			text(" switches it off. It keeps the last turns in memory; with "), code("bot dev"),
			text(" they and the chat outlive each build, until it ends. It talks to the bot as a channel does: "+
				"what you write goes to the bot's webhook, and the bot answers to the page's connector."),
		),
	)
}

// faultsPage is the view with the faults that can be set.
func (p *server) faultsPage(v faultsView) g.Node {
	return body(
		h.H1(text("Faults")),
		h.P(text("Make something go wrong on purpose, and see what the bot does. Each fault lasts for a number of calls.")),
		p.faultForms(v),
		para("row", link("/dev/", "To the chat"), space, link("/dev/faults.json", "JSON")),
	)
}

func (p *server) faultForms(v faultsView) g.Node {
	form := func(of, name, about, unit string, choices []choice) g.Node {
		return h.Form(
			h.Class("row"), h.Method("post"), markup.Action("/dev/faults"),
			p.tokenField(), sends("of", of), sends("room", v.Room), sends("as", v.As),
			h.Label(h.For("fault-"+of), text(name)), space,
			h.Select(h.ID("fault-"+of), h.Name("fault"), g.Map(choices, func(c choice) g.Node { return optionOf(c.Name, false, c.Title) })), space,
			h.Label(h.For("times-"+of), text(about)), space,
			h.Input(h.ID("times-"+of), h.Name("n"), h.Type("number"), h.Min("1"), h.Max(fmt.Sprint(maxFaults)), h.Value("1"), h.Required()), space,
			h.Span(text(unit)), space, h.Button(text("Set"), unseen(" the fault: ", name)),
		)
	}
	all := g.Group{
		form("model", "Model", "for the next", "model calls", v.ModelFaults),
		form("sends", "Channel", "for the next", "messages of the bot", v.SendFaults),
	}
	if v.CanCrash {
		return append(all, form("crash", "Crash", "after command", "of a turn", v.CrashPoints))
	}
	return append(all, para("dim",
		text("The bot can crash on purpose only where its state outlives it: with "), code("bot dev"), text(", "),
		code("BOT_DATA_DIR"), text(" or "), code("REDIS_URL"), text("."),
	))
}

// workbenchPage is the chat beside the turns.
func (p *server) workbenchPage(v workbenchView) g.Node {
	return h.Main(
		h.ID("main"), h.Class("bench"), h.Data("last", fmt.Sprint(v.Last)), h.Data("room", v.Room.Key),
		h.H1(h.Class("hidden"), text("Chat with ", v.Bot)),
		h.Section(h.Class("rooms"), h.Aria("label", "Conversations"), v.rooms()),
		h.Section(
			h.Class("talk"), h.Aria("label", "Chat"),
			h.Div(h.Class("log"), h.Role("log"), h.Aria("label", "Messages"), h.TabIndex("0"), h.ID("messages"), v.messages()),
			h.Div(h.Class("say"),
				h.Details(h.Class("menu"), h.Summary(h.Class("button"), text("More")), later(h.Div(
					h.H3(text("People, conversations and files")), v.additions(),
					h.H3(text("This conversation")), v.ofRoom(),
					h.H3(text("More that can happen")), v.events(),
					h.H3(text("Faults")), p.faultForms(p.faults.view(v.Room.Key, v.As)),
				))),
				v.sayForm(),
			),
		),
		h.Section(
			h.Class("side"),
			h.Section(h.Class("turns"), h.Aria("label", "Turns"), h.ID("turns"), h.H2(text("Turns")), p.turnRows(v.List)),
			h.Section(h.Class("one"), h.Aria("label", "Turn"), h.ID("turn"), h.Data("open", v.open()), p.openTurn(v.Turn)),
		),
	)
}

// entry is an entry of a list that scripts load anew. have are the marks of those that the page shows as they are now: of
// these, nothing else is sent.
func entry(have []string, key string, element func(...g.Node) g.Node, content ...g.Node) g.Node {
	looks := fnv.New64a()
	_ = element(content...).Render(looks) // a hash takes all
	is := strconv.FormatUint(looks.Sum64(), 36)
	if slices.Contains(have, is) {
		content = nil
	}
	return element(h.Data("key", key), h.Data("is", is), g.Group(content))
}

// open is the id of the turn that is open; "": none is.
func (v workbenchView) open() string {
	if v.Turn == nil {
		return ""
	}
	return v.Turn.ID
}

// chatForm is a form that does something in the chat. A script sends it without another page if it is quiet.
func chatForm(name string, isQuiet bool, children ...g.Node) g.Node {
	to := markup.At("/dev/chat", name)
	return h.Form(h.Class("row"), h.Method("post"), markup.Action(to), markup.On("data-quiet", isQuiet), g.Group(children))
}

// where are the fields that say in which conversation a form does something, and as whom.
func (v workbenchView) where() g.Node { return g.Group{sends("room", v.Room.Key), sends("as", v.As)} }

func (v workbenchView) rooms() g.Node {
	return g.Group{
		h.H2(text("Conversations")),
		h.Ul(g.Map(v.Rooms, func(r listed) g.Node {
			kind := cmp.Or(map[string]string{"personal": "personal", "groupChat": "group"}[r.Kind], "channel")
			return entry(v.Have, r.Key, h.Li,
				h.A(
					markup.Href(markup.Address("/dev/").With("room", r.Key)), h.Data("room", r.Key), g.If(r.Key == v.Room.Key, h.Aria("current", "true")),
					text(either(r.Kind == "channel", "# ", ""), r.Name),
				),
				g.If(r.Unread, h.Span(h.Class("unread"), text("new"))),
				dim(kind),
			)
		})),
	}
}

func (v workbenchView) sayForm() g.Node {
	isPersonal := v.Room.Kind == "personal"
	threads := g.Group{}
	if v.Room.Kind == "channel" {
		threads = g.Group{
			h.Label(h.For("thread"), text("Thread")),
			h.Select(h.ID("thread"), h.Name("thread"), optionOf("", false, "a new post"), g.Map(v.Room.Threads, func(m message) g.Node {
				words := m.ID
				if m.Activity != nil {
					words = first(marked(m.Activity.Text), 40)
				}
				return optionOf(m.ID, m.ID == v.Thread, words)
			})),
		}
	}
	return h.Form(
		h.ID("say"), h.Method("post"), markup.Action("/dev/chat/say"), sends("room", v.Room.Key),
		h.Div(
			h.Class("row"),
			h.Label(h.For("as"), text("Speak as")),
			h.Select(h.ID("as"), h.Name("as"), peopleOptions(v.Room.People, v.As)),
			threads,
			g.If(!isPersonal, h.Label(h.Class("check"), h.Input(h.Type("checkbox"), h.Name("all"), h.Value("1")), text(" deliver all messages"))),
		),
		h.Div(
			h.Class("row box"),
			h.Label(h.Class("hidden"), h.For("text"), text("Message")),
			h.Textarea(
				h.ID("text"), h.Name("text"), h.Rows("2"), h.Required(), h.AutoFocus(), h.AutoComplete("off"),
				h.Data("names", listJSON(v.Names)), h.Data("commands", listJSON(v.Commands)),
				h.Placeholder(either(isPersonal, "Write to "+v.Bot, "@"+v.Bot+" …")),
			),
			h.Button(h.Type("submit"), text("Send")),
		),
		h.Div(h.Class("names"), h.ID("names"), h.Role("listbox"), h.Aria("label", "Mention"), markup.On("hidden", true)),
	)
}

func peopleOptions(people []person, chosen string) g.Node {
	return g.Map(people, func(one person) g.Node { return optionOf(one.Key, one.Key == chosen, one.Name) })
}

func listJSON(all []string) string {
	raw, err := json.Marshal(all)
	if err != nil {
		return "null" // texts have JSON
	}
	return string(raw)
}

func (v workbenchView) events() g.Node {
	event := func(name, title string) g.Node {
		return g.Group{h.Button(h.Name("event"), h.Value(name), text(title)), space}
	}
	return g.Group{
		chatForm(
			"event", true, v.where(),
			event("botAdded", "Add the bot"), event("botRemoved", "Remove the bot"), event("install", "Install"), event("uninstall", "Uninstall"),
			event("userAdded", "Add a person"), event("userRemoved", "Remove a person"),
		),
		chatForm(
			"again", true, sends("room", v.Room.Key), h.Button(text("Deliver again")), space,
			h.Span(text("the last activity, as channels do when an answer was late")),
		),
	}
}

func (v workbenchView) additions() g.Node {
	add := func(name, title, what string) g.Node {
		id := "new-" + name
		return chatForm(
			name, false, v.where(), h.Label(h.For(id), text(title)), space,
			h.Input(h.ID(id), h.Name("name"), h.MaxLength(fmt.Sprint(maxName)), h.Required()), space, h.Button(text("Add"), unseen(" the ", what)),
		)
	}
	files := para("dim", text("Files go to the bot in personal chats only."))
	if v.Room.Kind == "personal" {
		files = chatForm(
			"file", false, h.EncType("multipart/form-data"), v.where(),
			h.Label(h.For("file"), text("File")), space, h.Input(h.ID("file"), h.Name("file"), h.Type("file"), h.Required()), space,
			h.Label(h.For("with"), text("with the text")), space, h.Input(h.ID("with"), h.Name("text")), space, h.Button(text("Send the file")),
		)
	}
	return g.Group{
		v.who(),
		add("person", "New person", "person"),
		add("room", "New group chat", "group chat"),
		files,
		para("dim",
			text("A JSON object with a "), code("type"), text(" in the message box is sent as a card ("), code("AdaptiveCard"),
			text(") or as an activity."),
		),
	}
}

// who are the people, as the bot sees them.
func (v workbenchView) who() g.Node {
	return g.Map(v.Room.People, func(p person) g.Node {
		input := func(name, title, value string) g.Node {
			id := "who-" + name + "-" + p.Key
			return g.Group{h.Label(h.For(id), text(title)), h.Input(h.ID(id), h.Name(name), h.Value(value), g.Attr("size", "13"), h.Required())}
		}
		return g.Group{
			para("line", h.Strong(text(p.Name)), space, code(p.ID), space, code(p.Directory)),
			chatForm(
				"who", false, sends("room", v.Room.Key), sends("as", p.Key), input("locale", "Locale", p.Locale), input("zone", "Zone", p.Zone),
				h.Button(text("Change"), unseen(" ", p.Name)),
			),
		}
	})
}

func (v workbenchView) ofRoom() g.Node {
	all := g.Group{chatForm(
		"rename", false, v.where(), h.Label(h.For("rename"), text("Name")), space,
		h.Input(h.ID("rename"), h.Name("name"), h.MaxLength(fmt.Sprint(maxName)), h.Required(), h.Value(v.Room.Name)), space,
		h.Button(text("Rename")),
	)}
	for _, command := range v.Commands {
		title := map[string]string{"/reset": "Reset", "/forget": "Forget"}[command]
		if title != "" && v.Room.Kind != "channel" {
			all = append(all, chatForm(
				"say", true, v.where(), sends("text", v.Draft+command), h.Button(text(title)), space, h.Span(text("sends "), code(command)),
			))
		}
	}
	return append(all, g.If(!v.Room.Given, chatForm(
		"delete", false, sends("room", v.Room.Key), h.Button(text("Delete")), space,
		h.Span(text("takes it off this page; the bot keeps what it knows")),
	)))
}

func (v workbenchView) messages() g.Node {
	all := g.Group{}
	if len(v.Messages) == 0 {
		nothing := h.Div(
			h.Class("empty"), h.Data("key", "empty"), h.P(text("Nobody has said anything here.", either(len(v.Examples) > 0, " Try:", ""))),
			g.Map(v.Examples, func(example string) g.Node {
				return h.Form(
					h.Method("post"), markup.Action("/dev/chat/say"), markup.On("data-quiet", true), v.where(), sends("text", v.Draft+example),
					h.Button(h.Class("chip"), text(example)),
				)
			}),
		)
		all = append(all, nothing)
	}
	if v.More > 0 {
		to := markup.Address("/dev/").With("room", v.Room.Key).With("as", v.As).With("messages", "all")
		all = append(all, h.P(h.Class("dim"), h.Data("key", "more"), link(to, "Show ", v.More, " earlier ", plural(v.More, "message"))))
	}
	typing := h.P(h.Class("typing"), h.Data("key", "typing"), text(v.Bot, " is typing…"))
	return append(all, g.Map(v.Messages, func(s shownMessage) g.Node { return s.html(v.Have) }), g.If(v.Room.Typing, typing))
}

// html is a message with what people can do about it.
func (s shownMessage) html(have []string) g.Node {
	class := "message " + either(s.Person != "", "theirs", "bots") + either(s.ThreadReply(), " reply", "")
	content := g.Group{para("dim", text("deleted"))}
	if !s.Deleted {
		content = s.content()
	}
	return entry(have, s.ID, h.Article,
		h.Class(class), h.Data("message", s.ID), h.Data("from", either(s.Person != "", s.Person, "bot")),
		g.If(s.Turn != "", h.Data("of", s.Turn)), markup.On("data-streaming", s.Streaming),
		h.Header(
			h.Strong(text(s.Name)), g.If(s.AI, g.Group{space, label("AI generated")}), space, timeOf(s.At, short(s.At)),
			g.If(s.Edited, g.Group{space, dim("edited")}),
			g.If(s.Turn != "", g.Group{space, h.A(
				h.Class("of"), markup.Href(turnAddress(s.Turn)), h.Data("turn-link", s.Turn), text("turn"), unseen(" ", s.Turn),
			)}),
		),
		content,
		g.If(s.Note != "", para("note", text(s.Note))),
		g.Map(s.Reactions, func(reaction string) g.Node { return h.Span(h.Class("reaction"), text(reaction)) }),
	)
}

func (s shownMessage) content() g.Group {
	where := g.Group{sends("room", s.Room), sends("as", s.As)}
	rate := func(reaction, title string) g.Node {
		return h.Button(h.Name("reaction"), h.Value(reaction), g.If(s.Rated == reaction, h.Aria("pressed", "true")), text(title))
	}
	change := g.Group{sends("text", "like"), h.Button(h.Name("change"), h.Value("react"), text("React with like"))}
	if s.Person != "" {
		said := ""
		if s.Activity != nil {
			said = s.Activity.Text
		}
		change = g.Group{
			h.Input(h.Name("text"), h.Aria("label", "New text"), h.Value(said)),
			h.Button(h.Name("change"), h.Value("edit"), text("Edit")), h.Button(h.Name("change"), h.Value("delete"), text("Delete")),
		}
	}
	const opinion = "What you think of it"
	return g.Group{
		h.Div(h.Class("text"), s.HTML),
		g.Map(s.Cards, func(c shownCard) g.Node {
			return h.Div(h.Class("card"), h.Data("card", c.JSON), h.Data("texts", c.Texts), h.Pre(h.Class("words"), text(c.Words)))
		}),
		g.Map(s.Files, func(f activity.Attachment) g.Node { return para("file", text(f.Name, " "), dim(f.ContentType)) }),
		g.If(len(s.Sources) > 0, h.Ol(h.Class("sources"), g.Map(s.Sources, func(name string) g.Node { return h.Li(text(name)) }))),
		g.If(len(s.Suggest) > 0, h.Div(h.Class("row"), g.Map(s.Suggest, func(one suggestion) g.Node {
			return h.Form(
				h.Method("post"), markup.Action("/dev/chat/say"), markup.On("data-quiet", true), where, sends("thread", s.Thread), sends("all", "1"),
				sends("text", one.Value), h.Button(h.Class("chip"), text(one.Title)),
			)
		}))),
		h.Div(h.Class("acts"),
			g.If(s.Rates, h.Details(h.Summary(text("Rate"), unseen(" this message")), later(chatForm(
				"rate", true, where, sends("message", s.ID),
				h.Input(h.Name("text"), h.Aria("label", opinion), h.Placeholder(opinion)), rate("like", "Like"), rate("dislike", "Dislike"),
			)))),
			h.Details(
				h.Class("change"), h.Summary(text("Change"), unseen(" this message")),
				later(chatForm("change", true, where, sends("message", s.ID), change)),
			),
		),
	}
}

func first(content string, most int) string { return fmt.Sprintf("%.*s", most, content) }

// turnListView is what the list of turns shows.
type turnListView struct {
	Turns    []turnlog.Head
	Open     string   // the id of the one that is shown beside the list
	All      bool     // all are shown, and not the last ones only
	Have     []string // what the page shows already, see [entry]
	Ticked   []string // ids, which were not two when somebody wanted to compare them
	TooFast  int
	Query    string
	Outcome  string
	Outcomes []string
}

func (p *server) turnsPage(v turnListView) g.Node {
	return body(
		h.H1(text("Turns")),
		h.Form(
			h.Class("row"), h.Method("get"), markup.Action("/dev/turns"), h.ID("filter"), g.If(v.All, sends("turns", "all")),
			h.Label(h.For("q"), text("Filter")), h.Input(h.ID("q"), h.Name("q"), h.Value(v.Query), h.Type("search")),
			h.Label(h.For("outcome"), text("Outcome")),
			h.Select(h.ID("outcome"), h.Name("outcome"), optionOf("", false, "any"), g.Map(v.Outcomes, func(o string) g.Node {
				return h.Option(markup.On("selected", o == v.Outcome), text(o))
			})),
			h.NoScript(h.Button(text("Show"))),
			h.Button(h.FormAttr("two"), text("Compare the two ticked")),
			h.Span(h.Class("ways"), link("/dev/turns.json", "JSON")),
		),
		g.If(len(v.Ticked) > 0, h.P(h.Class("fault"), h.Role("alert"), text("Tick two turns, no more and no fewer, to compare them."))),
		h.Form(h.ID("two"), h.Method("get"), markup.Action("/dev/turns/compare")),
		h.Section(h.Aria("label", "Turns"), h.Class("turns"), h.ID("turns"), h.Data("last", "0"), p.turnRows(v)),
		g.If(v.TooFast > 0, para("note", text(v.TooFast, " turns came so fast that only their heads are kept."))),
	)
}

// turnRows is a table of turns, or says that there are none or that none matches.
func (p *server) turnRows(v turnListView) g.Node {
	rows, rest := g.Group{}, g.Group{} // a script adds the rest to a view once the others are shown
	for i, t := range v.Turns {
		if i == lastTurns && !v.All {
			break
		}
		to := &rows
		if i >= lastTurns && len(v.Have) == 0 {
			to = &rest
		}
		*to = append(*to, entry(v.Have, t.ID, h.Tr, p.turnRow(t, t.ID == v.Open, slices.Contains(v.Ticked, t.ID))))
	}
	last := func(content ...g.Node) {
		rows = append(rows, entry(v.Have, "last", h.Tr, h.Td(h.ColSpan("9"), g.Group(content))))
	}
	switch n := len(v.Turns); {
	case n > len(rows)+len(rest):
		to := markup.Address("/dev/turns").With("turns", "all").With("q", v.Query).With("outcome", v.Outcome)
		last(link(to, "Show all ", n, " turns"))
	case n == 0:
		last(text(either(len(p.turns.Turns()) > 0, "No turn matches.", "No turn yet.")))
	}
	number := func(title string) g.Node { return h.Th(h.Scope("col"), h.Class("number"), text(title)) }
	form := h.Form(h.ID("pin"), h.Method("post"), p.tokenField())
	return g.Group{form, h.Table(
		h.THead(h.Tr(
			h.Td(h.Class("tick")), h.Th(h.Scope("col"), text("Outcome")), h.Th(h.Scope("col"), text("Said")), h.Th(h.Scope("col"), text("Time")),
			h.Th(h.Scope("col"), text("Person")), h.Th(h.Scope("col"), text("Actions")), number("Took"), number("Tokens"), h.Td(),
		)),
		h.TBody(rows),
	), g.If(len(rest) > 0, h.NoScript(h.Table(h.TBody(rest))))}
}

func (p *server) turnRow(t turnlog.Head, isOpen, isTicked bool) g.Node {
	tokens, pin := "", either(t.Pinned, "Unpin", "Pin")
	if t.TokensIn > 0 {
		tokens = fmt.Sprint(t.TokensIn, " + ", t.TokensOut)
	}
	return g.Group{
		h.Data("turn", t.ID), h.Data("outcome", outcomeOf(t)),
		h.Td(h.Class("tick"), h.Input(
			h.Type("checkbox"), h.Name("turn"), h.Value(t.ID), h.FormAttr("two"), markup.On("checked", isTicked),
			h.Aria("label", "Compare turn "+t.ID),
		)),
		h.Td(h.Class("is"), h.Span(h.Class("mark"), text(outcomeOf(t)))),
		h.Td(
			h.Class("what"), h.A(
				markup.Href(turnAddress(t.ID)), h.Data("turn-link", t.ID), g.If(isOpen, h.Aria("current", "true")),
				text(t.Text, either(t.Text == "", "turn "+t.ID, "")),
			),
			g.If(isByHand(t), g.Group{space, label(byHand)}),
			g.If(t.Joined != "", g.Group{space, label("in turn ", t.Joined)}),
			g.If(t.Joins > 0, g.Group{space, label("answers ", t.Joins+1, " messages")}),
			g.If(t.Again > 0, g.Group{space, label("came ", t.Again+1, " times")}),
			g.If(repaired(t), g.Group{space, h.Span(h.Class("label"), h.Title(t.Problem), text("repaired"))}), // why is on the turn's page
			g.If(t.Problem != "" && !repaired(t), h.Span(h.Class("why"), text(t.Problem))),
		),
		h.Td(timeOf(t.At, t.At.Local().Format(time.TimeOnly))), h.Td(text(p.who(t), p.where(t))), h.Td(text(strings.Join(t.Actions, ", "))),
		h.Td(h.Class("number"), text(tookOf(t))), h.Td(h.Class("number"), text(tokens)),
		h.Td(h.Button(
			h.Class("pin"), h.FormAttr("pin"), markup.FormAction(turnAddress(t.ID, "pin")), h.Name("pinned"), h.Value(either(t.Pinned, "", "1")),
			h.Aria("label", pin+" turn "+t.ID), text(pin),
		)),
	}
}

// repaired reports whether a turn ended well although an answer was no plan.
func repaired(t turnlog.Head) bool {
	return t.Outcome == turnlog.OK && strings.HasPrefix(t.Problem, turnlog.NoPlan)
}

// outcomeOf is how a turn ended, in a word: one that ended well may have done nothing.
func outcomeOf(t turnlog.Head) string {
	switch {
	case t.Refused != "":
		return "refused"
	case t.Unapproved:
		return "not approved"
	case t.Outcome == turnlog.OK && t.Unchanged:
		return "unchanged"
	}
	return t.Outcome
}

// tookOf is how long a turn took beside its waits.
func tookOf(t turnlog.Head) string {
	switch t.Outcome {
	case turnlog.Running:
		return "not over"
	case turnlog.Joined, turnlog.Duplicate, turnlog.Ignored:
		return ""
	}
	return took(t.TookNS)
}

// who is the person of a turn.
func (p *server) who(t turnlog.Head) string { return cmp.Or(t.Person, p.chat.nameOfPerson(t.PersonID)) }

// where says in which conversation a turn was, unless that is the person's own.
func (p *server) where(t turnlog.Head) string {
	return either(t.Kind == "personal" || t.Kind == "", "", " in "+p.placeName(t))
}

// placeName is the name of the conversation of a turn, or else what kind it is.
func (p *server) placeName(t turnlog.Head) string {
	return cmp.Or(p.chat.nameOf(t.Conversation), "a "+placeOf(t.Kind))
}

// placeOf is the kind of a conversation, for people.
func placeOf(kind string) string { return either(kind == "groupChat", "group chat", kind) }

func (p *server) turnPage(v *turnView) g.Node {
	return h.Main(
		h.ID("main"), h.Class("page"), h.Data("last", "0"),
		h.Section(h.Class("one"), h.Aria("label", "Turn"), h.ID("turn"), h.Data("open", v.ID), markup.On("data-page", true), p.turnBody(v)),
	)
}

// openTurn is the turn beside the chat. nil: none is open.
func (p *server) openTurn(v *turnView) g.Node {
	if v == nil {
		return g.Group{h.H2(text("Turn")), para("dim", text("Choose a turn to see everything about it."))}
	}
	return p.turnBody(v)
}

func (p *server) turnBody(v *turnView) g.Node {
	steps := v.steps()
	return g.Group{
		v.head(),
		p.turnLinks(v),
		h.Div(h.Class("parts"),
			v.part("received", "Received", v.Type+": "+v.Received.Text, v.received()),
			v.part("plan", "Plan", planGist(steps), planTable(steps)),
			v.part("prompt", "Prompt", v.promptGist(), v.prompt()),
			v.part("answer", "Answer", v.answerGist(), v.answer()),
			v.part("sent", "Sent", v.sentGist(), v.sent()),
			v.part("time", "Time", "waited "+took(v.WaitedNS+v.PausedNS)+either(v.Outcome == turnlog.Running, ", ", ", took ")+tookOf(v.Head), v.waterfall()),
			v.part("journal", "Journal", count(len(v.Journal), "save"), v.journal()),
			v.part("log", "Log", count(len(v.Log), "line"), v.log()),
			v.part("state", "State", count(len(v.ByPath), "value")+" changed", v.state()),
		),
	}
}

func count(n int, word string) string {
	return fmt.Sprint(either(n == 0, "no", fmt.Sprint(n)), " ", plural(n, word))
}

// part is a part of a turn in one line, which opens. It is open if something went wrong in it. Its address is its name.
func (v *turnView) part(name, title, gist string, content g.Node) g.Node {
	head := h.H3
	if v.Page {
		head = h.H2
	}
	wrong := slices.ContainsFunc(v.Problems(), func(p turnlog.Problem) bool { return partOf(p) == name })
	return h.Section(h.Aria("labelledby", "t-"+name), h.Details(
		markup.On("open", wrong), markup.On("data-wrong", wrong && !repaired(v.Head)),
		h.Summary(head(h.ID("t-"+name), text(title)), space, h.Span(h.Class("gist"), text(first(gist, maxGist)))),
		h.Div(h.Class("in"), h.ID(name), content),
	))
}

const maxGist = 200 // how much of a text the line of a part has

// partOf is the part of the page that shows a problem.
func partOf(p turnlog.Problem) string { return either(p.Part == "commands", "plan", p.Part) }

// head says what the turn is. It stays in view.
func (v *turnView) head() g.Node {
	title := h.H2
	if v.Page {
		title = h.H1
	}
	about := []string{v.Person, either(v.Kind == "", "no conversation", placeOf(v.Kind)), v.At.Local().Format(time.DateTime), tookOf(v.Head)}
	if v.ModelCalls > 0 {
		about = append(about, count(v.ModelCalls, "model call"))
	}
	if v.TokensIn > 0 {
		about = append(about, fmt.Sprintf("%d + %d tokens", v.TokensIn, v.TokensOut))
	}
	if v.TokensCached > 0 {
		about = append(about, fmt.Sprint(v.TokensCached, " cached"))
	}
	if v.Cost > 0 {
		about = append(about, fmt.Sprintf("cost %.4f", v.Cost))
	}
	if v.Tries > 0 {
		about = append(about, "its process was lost "+count(v.Tries, "time"))
	}
	return h.Header(
		h.Class("sum"), h.Data("turn", v.ID), h.Data("outcome", outcomeOf(v.Head)),
		title(
			h.Span(h.Class("mark"), text(outcomeOf(v.Head))), space, text(first(v.Text, maxGist)),
			g.If(repaired(v.Head), g.Group{space, label("repaired")}),
		),
		para("dim", text(strings.Join(about, " · "), " · "), link(turnAddress(v.ID), "turn ", v.ID)),
	)
}

// turnLinks are what can be done with a turn, and what went wrong in it.
func (p *server) turnLinks(v *turnView) g.Node {
	all := g.Group{h.Form(
		h.Class("row"), h.Method("post"), markup.Action(turnAddress(v.ID, "go-on")), p.tokenField(),
		g.If(len(v.Received.Activity) > 0, g.Group{
			g.If(!isByHand(v.Head), h.A(h.Class("button"), markup.Href(turnAddress(v.ID, "what-if")), h.Data("do", "r"), text("What if"))),
			h.Button(h.Name("at"), h.Value("after"), h.Data("do", "f"), text("Go on from here")),
			h.Button(h.Name("at"), h.Value("before"), text("Go on from before it")),
			g.If(!isByHand(v.Head), h.A(
				h.Class("button"), markup.Href(markup.Address("/dev/turns/save").With("turn", v.ID)), h.Data("do", "s"), text("Save as test"),
			)),
		}),
		h.Span(h.Class("ways"),
			g.If(v.Prev != "", turnLink(v.Prev, "Previous")), g.If(v.Next != "", turnLink(v.Next, "Next")),
			g.If(v.Prev != "", link(markup.Address("/dev/turns/compare").With("turn", v.Prev).With("turn", v.ID), "Compare with the previous")),
			link(turnAddress(v.ID+".json"), "JSON"),
		),
	)}
	if v.Parent != "" {
		all = append(all, h.P(text("Follows "), turnLink(v.Parent, "turn ", v.Parent), text(".")))
	}
	if v.Refused != "" {
		all = append(all, para("note", text("The click did not count: ", v.Refused)))
	}
	all = append(all, g.Map(v.Follows, func(click turnlog.Head) g.Node {
		words, why := "Decided by ", "."
		switch {
		case click.Type == turnlog.Notice:
			words = "Sent a notice to "
		case click.Refused != "":
			words, why = "Not decided by ", ": "+click.Refused
		}
		return h.P(text(words, p.who(click), " in "), turnLink(click.ID, "turn ", click.ID), text(why))
	}))
	if problems := v.Problems(); v.Error != "" || len(problems) > 0 {
		isSaid := slices.ContainsFunc(problems, func(p turnlog.Problem) bool {
			_, why, _ := strings.Cut(p.Text, ": ")
			return why != "" && strings.HasSuffix(v.Error, why)
		})
		all = append(all, h.Ul(h.Class("why"+either(repaired(v.Head), " note", "")), h.Aria("label", "What went wrong"),
			g.If(v.Error != "" && !isSaid, h.Li(h.Strong(text("Failed:")), text(" ", v.Error))),
			g.Map(problems, func(problem turnlog.Problem) g.Node {
				return h.Li(
					link(markup.Here(partOf(problem)), partOf(problem)), text(": ", problem.Text),
					g.If(problem.Times > 1, g.Group{space, h.Strong(text("×", problem.Times))}),
				)
			}),
		))
	}
	return append(all,
		g.If(v.Incomplete, para("note", text("Some of this turn was not seen, because too much happened at once."))),
		g.If(v.Cut, para("note", text("Some of this turn is too large to be kept."))),
	)
}

func (v *turnView) waterfall() g.Node {
	return h.Ol(h.Class("fall"), h.Aria("label", "What took how long"), g.Map(v.Spans, func(s span) g.Node {
		return h.Li(h.Span(text(s.Name)), stacked("", 100, []piece{{From: s.From, Wide: s.Wide}}), dim(took(s.Took)))
	}))
}

// piece is a piece of a bar.
type piece struct {
	From, Wide int
	Class      string
}

// stacked is a bar of pieces. name "": what is around it says the same.
func stacked(name string, whole int, pieces []piece) g.Node {
	about := h.Aria("hidden", "true")
	if name != "" {
		about = g.Group{h.Role("img"), h.Aria("label", name)}
	}
	return h.SVG(
		h.Class("bar"), g.Attr("viewBox", fmt.Sprint("0 0 ", max(whole, 1), " 10")), g.Attr("preserveAspectRatio", "none"), about,
		g.Map(pieces, func(p piece) g.Node {
			at := g.Group{g.Attr("x", fmt.Sprint(p.From)), h.Width(fmt.Sprint(p.Wide)), h.Height("10")}
			return g.El("rect", g.If(p.Class != "", h.Class(p.Class)), at)
		}),
	)
}

func line(parts ...any) g.Node { return para("line", text(parts...)) }

func (v *turnView) received() g.Node {
	r := v.Received
	return g.Group{
		frameOf(r.Text),
		g.If(v.Again > 0, para("note", text("It was delivered ", v.Again+1, " times, and the bot took it once."))),
		g.If(r.Duplicate != "", para("note", text("A duplicate of "), link(turnAddress(r.Duplicate), "turn ", r.Duplicate), text("."))),
		g.If(v.Joined != "", para("note", text("Answered together with other messages in "), turnLink(v.Joined, "turn ", v.Joined), text("."))),
		g.If(r.Dropped != "", para("note", text("No turn ran: ", r.Dropped, "."))),
		folds("Activity", r.Activity),
		folds("Answer to the request", r.Answer),
	}
}

// folds is JSON that opens. Nothing: there is none.
func folds(name string, raw jsontext.Value) g.Node {
	if len(raw) == 0 {
		return nil
	}
	return h.Details(
		h.Class("source"), h.Summary(text(name)),
		later(h.Button(h.Type("button"), h.Class("quiet"), h.Data("copy", string(raw)), text("Copy"), unseen(" ", name)), jsonOf(string(raw))),
	)
}

func (v *turnView) state() g.Node {
	value := func(content string) g.Node {
		if content == "" {
			return h.Td(dim("nothing"))
		}
		return h.Td(jsonOf(content))
	}
	row := func(c turnlog.Change) g.Node {
		by := h.Td(text(either(c.By == "", "the bot itself", c.By)))
		return h.Tr(h.Data("path", c.Path), h.Td(code(c.Path)), value(c.Before), value(c.After), by)
	}
	heads := []string{"Path", "Before", "After", "Changed by"}
	return g.Group{
		g.If(len(v.ByPath) > 0, wide("Changes of the state", heads, g.Map(v.ByPath, row))),
		folds("Before", v.Before), folds("After", v.After),
	}
}

// promptGist says how much of the limit the questions took.
func (v *turnView) promptGist() string {
	if len(v.Rounds) == 0 {
		return "no model was asked"
	}
	var all []string
	for _, r := range v.Rounds {
		tokens, _ := promptSize(r)
		words := fmt.Sprint(tokens)
		if r.InputTokens > 0 {
			words += fmt.Sprint(" of ", r.InputTokens)
		}
		all = append(all, words)
	}
	return count(len(v.Rounds), "question") + ": " + strings.Join(all, ", ") + " tokens"
}

// promptSize is how many tokens a question has, and how many of its sections were left out.
func promptSize(r turnlog.Round) (tokens, left int) {
	for _, s := range r.Sections {
		if s.Left {
			left++
		} else {
			tokens += s.Tokens
		}
	}
	return tokens, left
}

func (v *turnView) prompt() g.Node {
	var all g.Group
	for i, r := range v.Rounds {
		about := "prompt " + r.Prompt
		if r.Planner != "action" {
			about += fmt.Sprintf(", planner %s, %s offered", r.Planner, count(len(r.Offered), "action"))
		}
		tokens, left := promptSize(r)
		size := fmt.Sprintf("%d tokens", tokens)
		if r.InputTokens > 0 {
			size += fmt.Sprintf(" of at most %d", r.InputTokens)
		}
		if left > 0 {
			size += ", " + count(left, "message") + " left out"
		}
		all = append(all, h.Div(
			h.Class("round"),
			para("line", h.Strong(text("Question ", i+1, ": ", size)), space, dim(
				about, ", history at most ", r.HistoryTokens, ", answer at most ", r.MaxTokens, either(r.Format == "", "", ", as "+r.Format),
			)),
			promptBar(r, tokens),
			h.Ul(h.Class("sections"), g.Map(r.Sections, func(s turnlog.Section) g.Node { return promptSection(s, false) })),
		))
	}
	return all
}

// promptBar shows what of the limit each section takes, or of the whole where there is none.
func promptBar(r turnlog.Round, tokens int) g.Node {
	var pieces []piece
	at := 0
	for _, s := range r.Sections {
		if !s.Left {
			pieces = append(pieces, piece{at, s.Tokens, "of-" + s.Name})
			at += s.Tokens
		}
	}
	return stacked(fmt.Sprint("The parts of ", tokens, " tokens"), max(tokens, r.InputTokens), pieces)
}

func promptSection(s turnlog.Section, isOpen bool) g.Node {
	return h.Li(
		h.Data("section", s.Name), markup.On("data-left", s.Left),
		h.Details(
			markup.On("open", isOpen),
			h.Summary(
				h.Span(h.Class("swatch of-"+s.Name)), h.Span(h.Class("name"), text(s.Name)), space, dim(s.Role), space,
				h.Span(h.Class("number"), text(s.Tokens)), text(" tokens", either(s.Left, ", left out: there was no room", "")),
			),
			jsonOf(s.Text),
		),
	)
}

// answerGist counts the answers. One may not be there yet.
func (v *turnView) answerGist() string {
	n := len(v.Rounds)
	if n > 0 && v.Outcome == turnlog.Running && v.Rounds[n-1].Answer == nil {
		return count(n-1, "answer") + " yet"
	}
	return count(n, "answer")
}

func (v *turnView) answer() g.Node {
	var all g.Group
	for i, r := range v.Rounds {
		round := g.Group{h.Class("round")}
		if a := r.Answer; a != nil {
			finish := ""
			if a.Finish != "" {
				finish = ", ended with " + a.Finish
			}
			round = append(round,
				line("Answer ", i+1, ": ", took(a.TookNS), ", ", a.In, " tokens in, ", a.Out, " out", finish),
				faultOf(a.Error), jsonOf(a.Text),
				g.Map(a.Calls, callHTML),
			)
		} else {
			round = append(round, line("Waiting for the model."))
		}
		if f := r.Refused; f != nil {
			round = append(round, para("fault", h.Strong(text("Refused (", f.Kind, "):")), text(" ", f.Detail)))
		}
		all = append(all, h.Div(round...))
	}
	return all
}

func callHTML(c turnlog.Call) g.Node { return g.Group{line(c.Name), jsonOf(c.Arguments)} }

// planGist names the actions of a turn, and says how much it said.
func planGist(steps []step) string {
	var names []string
	said := 0
	for _, s := range steps {
		switch s.Kind {
		case plan.Do:
			what := s.Action
			if s.Result != "" && s.Result != "ok" {
				what += " (" + s.Result + ")"
			}
			names = append(names, what)
		case plan.Say:
			said++
		}
	}
	if said > 0 {
		names = append(names, count(said, "message"))
	}
	if len(names) == 0 {
		return "no plan"
	}
	return strings.Join(names, ", ")
}

func planTable(steps []step) g.Node {
	if len(steps) == 0 {
		return line("There was no plan.")
	}
	return wideOf("Plan", h.Table(
		h.Class("plan"), headRow([]string{"Command", "Planned", "Resolved", "Result"}), h.TBody(g.Map(steps, step.html)),
	))
}

func (s step) html() g.Node {
	if s.Kind == "" {
		return h.Tr(h.Td(h.ColSpan("4"), para(s.Result, text(s.Why)), source("What the model was told", s.Text)))
	}
	cell := func(name string, children ...g.Node) g.Node { return h.Td(h.Data("label", name), g.Group(children)) }
	resolved := jsonOf(s.Resolved)
	if s.Resolved == s.Planned {
		resolved = dim("the same")
	}
	var took g.Node
	if s.Took != "" {
		took = dim(s.Took)
	}
	return h.Tr(
		h.Data("command", s.Action), h.Data("result", s.Result),
		rowHead(text(s.Number, ". ", s.Kind, " "), code(s.Action), g.Map(s.Labels, func(l string) g.Node { return g.Group{space, label(l)} })),
		cell("Planned", jsonOf(s.Planned)), cell("Resolved", resolved),
		cell("Result",
			h.Span(h.Class("mark"), text(s.Result)), space, took,
			g.If(s.Why != "", para(either(s.Result == "failed", "fault", "line"), text(s.Why))), frameOf(s.Text), jsonOf(s.Data)),
	)
}

func (v *turnView) journal() g.Node {
	return h.Ol(h.Class("journal"), g.Map(v.Journal, func(s turnlog.Save) g.Node {
		size := fmt.Sprint(s.Bytes, " bytes")
		if s.TookNS > 0 {
			size += ", " + took(s.TookNS)
		}
		return h.Li(
			h.Data("phase", s.Phase), dim(clock(s.At)), space, h.Strong(text(s.Phase)), text(" ", s.Words, " "), dim(size), faultOf(s.Error),
		)
	}))
}

// sentGist says how many messages were sent, and how many were not.
func (v *turnView) sentGist() string {
	messages, refused := 0, 0
	for _, s := range v.Sent {
		if s.Error != "" {
			refused++
		} else if len(s.Activity) > 0 {
			messages++
		}
	}
	return count(messages, "message") + either(refused > 0, ", "+count(refused, "request")+" failed", "")
}

func (v *turnView) sent() g.Node {
	return h.Ol(h.Class("sent"), g.Map(v.Sent, func(s turnlog.Sent) g.Node {
		about := ""
		if s.Times > 1 {
			about += fmt.Sprintf(" %d times", s.Times)
		}
		about += " · "
		if s.Status == 0 {
			about += "no answer"
		} else {
			about += fmt.Sprint("the channel answered ", s.Status)
			if s.ID != "" {
				about += " with id " + s.ID
			}
		}
		if s.Tries > 1 {
			about += fmt.Sprintf(" after %d tries", s.Tries)
		}
		return h.Li(
			h.Data("status", fmt.Sprint(s.Status)), h.Strong(text(s.Kind)), text(about, " · ", took(s.TookNS)),
			frameOf(s.Text), faultOf(s.Error), folds("Activity", s.Activity),
		)
	}))
}

func (v *turnView) log() g.Node {
	return h.Ol(h.Class("lines"), g.Map(v.Log, func(l turnlog.Line) g.Node {
		head := h.Summary(h.Span(h.Class("mark"), text(l.Level)), text(" ", l.Text))
		return h.Li(h.Data("level", l.Level), h.Details(head, jsonOf(string(l.Line))))
	}))
}

// planList is a plan, with a name for who does not see it.
func planList(p turnlog.Plan, name string) g.Node {
	return h.Ol(h.Class("plan"), g.If(name != "", h.Aria("label", name)), g.Map(p.Commands, func(c turnlog.PlanCommand) g.Node {
		if c.Action == "" {
			return h.Li(h.Strong(text(c.Kind)), space, text(c.Response))
		}
		return h.Li(
			h.Strong(text(c.Kind)), space, code(c.Action), space, code(c.Entities),
			g.If(c.SaveAs != "", g.Group{text(" → "), code("$", c.SaveAs)}),
		)
	}))
}

// html is two turns side by side.
func (v compareView) html() g.Node {
	side := func(content string) g.Node {
		if content == "" {
			return h.Td(h.Span(h.Class("dim"), text("none")))
		}
		return h.Td(frame(content))
	}
	row := func(s sides) g.Node {
		cells := g.Group{side(s.A), side(s.B)}
		switch {
		case s.Inline():
			cells = g.Group{h.Td(text(s.A)), h.Td(text(s.B))}
		case s.A != "" && s.B != "" && !s.Same():
			cells = g.Group{h.Td(h.ColSpan("2"), diff(compareLines(pretty(s.A), pretty(s.B))))}
		case s.Same():
			cells = g.Group{h.Td(h.ColSpan("2"), h.Details(h.Summary(text("the same"), unseen(": ", s.Name)), frame(s.A)))}
		}
		return h.Tr(h.Data("same", fmt.Sprint(s.Same())), rowHead(text(s.Name), g.If(!s.Same(), g.Group{space, label("differs")})), cells)
	}
	turnHead := func(id string) g.Node { return h.Th(h.Scope("col"), link(turnAddress(id), "Turn ", id)) }
	return body(
		h.H1(text("Compare turns")),
		g.Map(v.Parts, func(part comparedPart) g.Node {
			if len(part.Rows) == 0 {
				return titled("c-"+part.Name, part.Name, line("Neither turn has one."))
			}
			return titled("c-"+part.Name, part.Name, wideOf("Both turns", h.Table(
				h.Class("sides"),
				h.THead(h.Tr(h.Th(h.Scope("col"), text("What")), turnHead(v.A.ID), turnHead(v.B.ID))),
				h.TBody(g.Map(part.Rows, row)),
			)))
		}),
		para("row",
			link(markup.Address("/dev/turns/compare.json").With("turn", v.A.ID).With("turn", v.B.ID), "JSON"), space,
			link("/dev/turns", "All turns"),
		),
	)
}

// savePage is the form that makes a test of turns.
func (p *server) savePage(v testView) g.Node {
	turns := g.Map(v.IDs, func(id string) g.Node { return sends("turn", id) })
	return body(
		h.H1(text("Save as test")),
		g.If(v.Saved != "", h.P(
			h.Class("note"), h.Role("status"), text("Saved as "), code(v.Saved), text(". Play it with "), code("bottest run ", v.Saved),
			text(". If your bot has actions of its own, say what they are with "), code("--actions actions.json"),
			text(", which the bot's command "), code("actions --json > actions.json"),
			text(" writes. A Go test plays it with the actions themselves, and their cards: "),
			code(`bottest.RunScenarios(t, b, "`, v.Saved, `")`), text("."),
		)),
		g.If(len(v.Turns) > 0, h.Form(
			h.Method("get"), markup.Action("/dev/turns/save"), h.H2(text("Turns")),
			h.FieldSet(h.Legend(text("Turns of the conversation, oldest first")), h.Ul(h.Class("choice"), g.Map(v.Turns, func(t chosenTurn) g.Node {
				return h.Li(h.Label(
					h.Class("check"), h.Input(h.Type("checkbox"), h.Name("turn"), h.Value(t.ID), markup.On("checked", t.Chosen)),
					text(" ", t.Person, ": ", t.Text, " "), dim(outcomeOf(t.Head), ", ", clock(t.At)),
				))
			}))),
			h.P(h.Button(h.Type("submit"), text("Show"))),
		)),
		g.If(v.Fault != "", h.P(h.Class("fault"), h.Role("alert"), text(v.Fault))),
		g.If(len(v.Open) > 0, titled("s-open", "What it does not check", h.Ul(g.Map(v.Open, func(one string) g.Node {
			return h.Li(text(one))
		})))),
		g.If(v.YAML != "", g.Group{
			titled("s-yaml", "Scenario",
				h.P(text("It replays what the model said, so the test needs no model.")),
				h.Pre(h.TabIndex("0"), markup.On("data-yaml", true), text(v.YAML)),
			),
			g.If(v.Folder != "", h.Form(
				h.Method("post"), markup.Action("/dev/turns/save"), h.Class("fields"), h.H2(text("File")), p.tokenField(), turns,
				h.P(
					h.Label(h.For("s-name"), text("Name")),
					h.Input(
						h.ID("s-name"), h.Name("name"), h.Value(v.Name), h.Required(), h.Pattern(`[a-z0-9\-]{1,64}\.yaml`), h.AutoComplete("off"),
					), space,
					dim("a-z, 0-9 and -, then .yaml; in the folder ", v.Folder),
				),
				h.P(h.Button(h.Type("submit"), text("Save"))),
			)),
			h.Form(
				h.Method("get"), markup.Action("/dev/turns/save.yaml"), turns, sends("name", v.Name),
				h.P(h.Button(h.Type("submit"), text("Download"))),
			),
		}),
	)
}

// whatIfPage is the form of a what-if, and what came of it.
func (p *server) whatIfPage(v whatIfView) g.Node {
	id := v.Record.ID
	asJSON := turnAddress(id, "what-if.json")
	result := g.Group{}
	if v.Result != nil {
		asJSON = asJSON.With("result", fmt.Sprint(v.Result.Number))
		result = v.Result.html()
	}
	return body(
		h.H1(text("What if")),
		h.P(
			text("Plans again on the state that "), h.A(markup.Href(turnAddress(id)), h.Data("do", "back"), text("turn ", id)),
			text(" found, with what you change here. It plans only: nothing runs, nothing is written, nothing is sent."),
		),
		g.If(v.Fault != "", h.P(h.Class("fault"), h.Role("alert"), text(v.Fault))),
		g.If(v.Confirm, h.P(h.Class("note"), h.Role("alert"), text(
			"Nothing was asked yet: with these changes a run costs more than the page said. See below, and press Run if that is all right.",
		))),
		result,
		p.whatIfForm(v),
		h.P(link(asJSON, "JSON")),
	)
}

func (p *server) whatIfForm(v whatIfView) g.Node {
	input := func(id, name, title, value string) g.Node {
		return h.P(
			h.Label(h.For(id), text(title)),
			h.Input(h.ID(id), h.Name(name), h.Value(value), h.Placeholder("as it is"), h.AutoComplete("off")),
		)
	}
	return h.Form(
		h.Method("post"), markup.Action(turnAddress(v.Record.ID, "what-if")), h.Class("fields"), h.ID("try"),
		h.H2(text(either(v.Result != nil, "Again", "What is different"))),
		p.tokenField(), sends("told", fmt.Sprint(v.Cost.Told)), sends("choose", "1"),
		g.If(v.Changes.Draft != "", g.Group{sends("draft", v.Changes.Draft), para("note", text("With the draft of a prompt."))}),
		h.P(
			h.Label(h.For("w-text"), text("Text")),
			h.Textarea(h.ID("w-text"), h.Name("text"), h.Rows("2"), h.Required(), g.Text(v.Changes.Text)),
		),
		input("w-prompts", "prompts", "Prompts folder", v.Changes.Prompts),
		input("w-model", "model", "Model", v.Changes.Model),
		h.P(
			h.Label(h.For("w-planner"), text("Planner")),
			h.Select(h.ID("w-planner"), h.Name("planner"), optionOf("", false, "as it is"), g.Map(v.Planners, func(name string) g.Node {
				return h.Option(markup.On("selected", name == v.Changes.Planner), text(name))
			})),
		),
		h.Details(
			markup.On("open", len(v.Changes.Actions) > 0), h.Summary(text("Actions offered")),
			h.FieldSet(h.Legend(text("Actions offered")), g.Map(v.Offered, func(a offeredAction) g.Node {
				box := h.Input(h.Type("checkbox"), h.Name("action"), h.Value(a.Name), markup.On("checked", a.Offered))
				return g.Group{h.Label(h.Class("check"), box, text(" ", a.Name)), space}
			})),
		),
		h.Details(h.Summary(text("State")), h.P(
			h.Label(h.For("w-state"), text("State (JSON)")),
			h.Textarea(h.ID("w-state"), h.Name("state"), h.Rows("12"), g.Attr("spellcheck", "false"), g.Text(v.Changes.State)),
		)),
		h.P(
			h.Label(h.For("w-runs-n"), text("Runs")),
			h.Input(h.ID("w-runs-n"), h.Name("runs"), h.Type("number"), h.Min("1"), h.Max(fmt.Sprint(maxRuns)), h.Value(fmt.Sprint(v.Changes.Runs))),
		),
		h.P(markup.On("data-cost", true), text(v.cost())),
		h.P(h.Button(h.Type("submit"), text("Run"))),
	)
}

func (v whatIfView) cost() string {
	c := v.Cost
	switch {
	case c.Free:
		return "A run costs nothing: " + c.Model + "."
	case c.Told == 0:
		return "What a run costs is not known."
	}
	money := ""
	if c.Money > 0 {
		money = fmt.Sprintf(", so up to %.4f in the currency of BOT_MODEL_PRICE", c.Money)
	}
	return fmt.Sprintf("Each run asks %s, usually once: about %d tokens, and at most %d for the answer%s. "+
		"If the answer is no plan, or the plan goes on with a recorded result, it asks again. "+
		"%d of %d tokens are left for what-ifs on this page.",
		c.Model, c.Question, c.Answer, money, v.Left, whatIfBudget)
}

// html is what came of a what-if.
func (r *result) html() g.Group {
	plans := func(all []turnlog.Plan, none string) g.Node {
		if len(all) == 0 {
			return line(none)
		}
		return g.Map(all, func(p turnlog.Plan) g.Node { return planList(p, "") })
	}
	under := func(id, title string, children ...g.Node) g.Node {
		return h.Section(h.Aria("labelledby", id), h.H3(h.ID(id), text(title)), g.Group(children))
	}
	newest := r.Runs[0]
	about := either(r.Same, "The new plan is the recorded one.", "The plans differ.")
	if len(r.Runs) > 1 {
		about += fmt.Sprintf(" Below is the first of %d runs.", len(r.Runs))
	}
	calls := line("Nothing.")
	if len(newest.Calls) > 0 {
		calls = h.Ol(h.Class("plan"), g.Map(newest.Calls, trialCallHTML))
	}
	prompt := h.Li(text("No model was asked."))
	if len(r.Prompt) > 0 {
		prompt = g.Map(r.Prompt, sectionChange.html)
	}
	return g.Group{
		titled("w-plans", "Both plans",
			line(about, " ", r.Stopped),
			h.Div(h.Class("pair"),
				under("w-recorded", "Recorded", plans(r.Recorded.Plans, "There was no plan."), faultOf(r.Recorded.Error)),
				under("w-new", "New", plans(newest.Plans, "There is no plan."), faultOf(newest.Fault)),
			),
		),
		titled("w-would", "What the new plan would do", calls, g.If(newest.Stops != "", para("note", text(newest.Stops)))),
		g.If(len(r.Runs) > 1, titled("w-runs", "How often",
			wide("How often each plan came", []string{"Runs", "Plan"}, g.Map(r.Plans, countedPlan.html)),
		)),
		titled("w-numbers", "Numbers",
			wide("What differs", []string{"Number", "Recorded", "New", "Difference"}, g.Map(r.Numbers, numberChange.html)),
		),
		titled("w-prompt", "Prompt", h.Ul(h.Class("sections"), prompt)),
		titled("w-answer", "Answer", h.Div(h.Class("pair"),
			under("w-answer-recorded", "Recorded answer", answers(r.Recorded.Rounds)),
			under("w-answer-new", "New answer", answers(newest.Rounds)),
		)),
	}
}

func (p countedPlan) html() g.Node { return h.Tr(h.Td(text(p.Times)), h.Td(frame(p.Text))) }

func (n numberChange) html() g.Node {
	return h.Tr(rowHead(text(n.Name)), h.Td(text(n.Was)), h.Td(text(n.Is)), h.Td(text(n.Change)))
}

func trialCallHTML(c dryrun.Call) g.Node {
	about := g.Group{text(c.Text)}
	if c.Action != "" {
		about = g.Group{code(c.Action), space, code(c.Entities)}
	}
	return h.Li(h.Data("would", c.Action), h.Strong(text(c.Kind)), space, about, text(" – ", c.Verdict), frameOf(c.Result))
}

func (c sectionChange) html() g.Node {
	if c.Same {
		return h.Li(h.Data("section", c.Name), h.Span(h.Class("name"), text(c.Name)), text(" the same, ", c.Is, " tokens"))
	}
	return h.Li(
		h.Data("section", c.Name), h.Span(h.Class("name"), text(c.Name)), text(" ", c.Was, " tokens became ", c.Is),
		diff(c.Lines),
	)
}

func diff(lines []diffLine) g.Node {
	return h.Pre(h.Class("diff"), h.TabIndex("0"), g.Map(lines, func(l diffLine) g.Node {
		switch l.Kind {
		case "was":
			return g.Group{h.Del(text("− ", l.Text)), g.Text("\n")}
		case "is":
			return g.Group{h.Ins(text("+ ", l.Text)), g.Text("\n")}
		}
		return g.Group{h.Span(text("  ", l.Text)), g.Text("\n")}
	}))
}

func answers(rounds []turnlog.Round) (all g.Group) {
	if len(rounds) == 0 {
		return g.Group{line("No model was asked.")}
	}
	for _, r := range rounds {
		if a := r.Answer; a != nil {
			all = append(all, faultOf(a.Error), jsonOf(a.Text), g.Map(a.Calls, callHTML))
		}
		if f := r.Refused; f != nil {
			all = append(all, para("fault", text("Refused (", f.Kind, "): ", f.Detail)))
		}
	}
	return all
}

func actionAddress(name string) markup.Address { return markup.At("/dev/actions", name) }

func actionsPage(all []actionShown) g.Node {
	list := para("dim", text("The bot has no actions."))
	if len(all) > 0 {
		list = wide("All actions", []string{"Action", "Effects", "Calls", "Failed", "Mean time"}, g.Map(all, func(a actionShown) g.Node {
			mean := ""
			if a.Calls > 0 {
				mean = took(a.MeanNS)
			}
			return h.Tr(
				h.Data("action", a.Name), rowHead(link(actionAddress(a.Name), a.Name), h.Br(), dim(oneLine(a.Title))),
				h.Td(text(oneLine(a.Description)), h.Br(), g.Map(a.Effects, func(e effect) g.Node {
					return g.Group{h.Span(h.Class("label"), h.Title(oneLine(e.About)), text(e.Name)), space}
				})),
				h.Td(text(a.Calls)), h.Td(text(a.Failed)), h.Td(text(mean)),
			)
		}))
	}
	return body(
		h.H1(text("Actions")),
		h.P(
			text("What the bot can do. Calls, failures and times are those of the turns that the page keeps. "),
			link("/dev/actions.json", "JSON"),
		),
		list,
	)
}

func (p *server) actionPage(v actionView) g.Node {
	facts := g.Group{fact("calls", text(v.Calls)), fact("failed", text(v.Failed))}
	if v.Calls > 0 {
		facts = append(facts, fact("mean time", text(took(v.MeanNS))))
	}
	if v.Doing != "" {
		facts = append(facts, fact("people read meanwhile", text(oneLine(v.Doing))))
	}
	var done g.Node
	if v.Run != nil {
		done = v.Run.html()
	}
	schema := g.Group{jsonOf(string(v.Schema))}
	if len(v.Told) > 0 {
		schema = append(schema, h.H3(text("As models see it")), jsonOf(string(v.Told)))
	}
	if len(v.Returns) > 0 {
		schema = append(schema, h.H3(text("What it returns")), jsonOf(string(v.Returns)))
	}
	last := para("dim", text("No turn that the page keeps has called it."))
	if len(v.Last) > 0 {
		last = wide("Last calls", []string{"Turn", "Result", "Entities", "Time"}, g.Map(v.Last, func(c lastCall) g.Node {
			return h.Tr(
				h.Data("result", c.Result), h.Td(h.A(markup.Href(turnAddress(c.Turn)), text(short(c.At)), unseen(" turn ", c.Turn))),
				h.Td(text(c.Result)), h.Td(code(oneLine(c.Entities))), h.Td(text(took(c.TookNS))),
			)
		}))
	}
	return h.Main(
		h.ID("main"), h.Class("page"), h.Data("action", v.Name),
		h.P(link("/dev/actions", "All actions")),
		h.H1(text(oneLine(v.Title), " "), code(v.Name)),
		h.P(text(shownText(v.Description))), frameOf(shownText(v.Detail)),
		h.Dl(h.Class("facts"), facts),
		h.P(link(actionAddress(v.Name+".json"), "JSON")),
		titled("a-effects", "Effects", h.Ul(g.Map(v.Effects, func(e effect) g.Node {
			return h.Li(h.Data("effect", e.Name), label(e.Name), text(" ", oneLine(e.About)))
		}))),
		g.If(len(v.Examples) > 0, titled("a-examples", "Examples", h.Ul(g.Map(v.Examples, func(one string) g.Node {
			return h.Li(text(oneLine(one)))
		})))),
		titled("a-run", "Run it", done, p.actionForm(v)),
		titled("a-schema", "Schema", schema),
		titled("a-last", "Last calls", last),
	)
}

// destroys reports whether the action cannot be undone.
func (v actionView) destroys() bool {
	return slices.ContainsFunc(v.Effects, func(e effect) bool { return e.Name == "Destructive" })
}

func (p *server) actionForm(v actionView) g.Node {
	return h.Form(
		h.Class("form"), h.Method("post"), markup.Action(actionAddress(v.Name)), markup.On("novalidate", true),
		p.tokenField(), sends("throw", "asked"),
		each(v.Fields, fieldHTML),
		h.Details(
			markup.On("open", v.Whole != "" || len(v.Fields) == 0), h.Summary(text("All entities as JSON")),
			h.Div(
				h.Class("field"), h.Label(h.For("entities"), text("Entities, which replace the fields above")),
				h.Textarea(h.ID("entities"), h.Name("entities"), h.Rows("5"), g.Attr("spellcheck", "false"), g.Text(v.Whole)),
			),
		),
		h.Div(
			h.Class("row"), h.Label(h.For("room"), text("Conversation")),
			h.Select(h.ID("room"), h.Name("room"), g.Map(v.Rooms, func(r listed) g.Node { return optionOf(r.Key, r.Key == v.Room, r.Name) })),
			h.Label(h.For("who"), text("As")),
			h.Select(h.ID("who"), h.Name("as"), peopleOptions(v.People, v.As)),
		),
		h.Div(
			h.Class("field"), h.Label(h.For("said"), text("What the person said, for actions that read it")),
			h.Input(h.ID("said"), h.Name("said"), h.Value(v.Said), h.AutoComplete("off")),
		),
		h.P(h.Label(
			h.Class("check"), h.Input(h.Type("checkbox"), h.Name("throw"), h.Value("1"), markup.On("checked", !v.Keep)),
			text(" Throw the state away"),
		)),
		g.If(v.destroys(), h.P(h.Label(
			h.Class("check"), h.Input(h.Type("checkbox"), h.Name("destroy"), h.Value("1")), text(" This cannot be undone"),
		))),
		g.If(!v.StateOnly, h.P(h.Label(
			h.Class("check"), h.Input(h.Type("checkbox"), h.Name("outside"), h.Value("1")), text(" This has effects outside"),
		))),
		h.Button(h.Type("submit"), text("Run")),
		para("dim", text(
			"It runs without a plan: no approval, policy or hook is part of it, and nothing is said in the conversation. "+
				"It is a row of the turns. "+
				"An action that asks a model does so.",
		)),
	)
}

func fieldHTML(i int, f field) g.Node {
	id := fmt.Sprint("e", i)
	name := g.Group{h.ID(id), h.Name(f.Key)}
	about := g.Group{h.Aria("describedby", id+"-about"), g.If(f.Fault != "", h.Aria("invalid", "true"))}
	var input g.Node
	switch f.Kind {
	case "choice":
		input = h.Select(name, about, optionOf("", false, "left out"), g.Map(f.Options, func(o option) g.Node {
			return optionOf(o.Key, o.Key == f.Value, oneLine(o.Title))
		}))
	case "json":
		input = h.Textarea(name, about, h.Rows("4"), g.Attr("spellcheck", "false"), g.Text(f.Value))
	default:
		isNumber := f.Kind == "number"
		input = h.Input(name, h.Value(f.Value), g.If(isNumber, g.Attr("inputmode", "decimal")), h.AutoComplete("off"), about)
	}
	want := ": " + oneLine(f.Want)
	if f.About != "" {
		want += ". " + oneLine(f.About)
	}
	return h.Div(
		h.Class("field"),
		h.Label(h.For(id), text(oneLine(f.Title)), g.If(f.Required, g.Group{space, dim("(required)")})),
		input,
		h.P(
			h.Class("dim"), h.ID(id+"-about"), code(oneLine(f.Name)), text(want),
			g.If(f.Fault != "", g.Group{space, h.Strong(h.Class("fault"), text(f.Fault))}),
		),
	)
}

// html is what came of a run by hand.
func (r *run) html() g.Node {
	content := g.Group{faultOf(r.Fault), h.P(text("It did not run."))}
	if r.Fault == "" {
		content = r.outcome()
	}
	return h.Section(
		h.ID("result"), h.Class("result"), h.Aria("labelledby", "a-result"), h.Data("run", r.ID), h.Data("result", r.Result),
		h.H3(h.ID("a-result"), text("Result")), content,
	)
}

func (r *run) outcome() g.Group {
	words := r.Result
	switch r.Result {
	case "lost":
		words = "no result"
	case "asks":
		words = "asks the person"
	}
	state := "The state was thrown away."
	switch {
	case r.Saved:
		state = "The state is saved."
	case r.Keep:
		state = "The state is not saved."
	}
	all := g.Group{para("line", h.Strong(text(words)), text(" after ", took(r.TookNS), ". ", state))}
	if r.Error != "" {
		all = append(all, h.Pre(h.Class("fault"), h.TabIndex("0"), text(r.Error)))
	}
	if r.Text != "" {
		all = append(all, named("Text", r.Text))
	}
	if r.Data != "" {
		all = append(all, named("Data", r.Data))
	}
	all = append(all,
		g.If(r.Result == "asks", para("note", text("The page cannot answer the question. In a turn the person gets it as a card."))),
		g.Map(r.Cards, func(card string) g.Node { return h.Details(h.Class("source"), h.Summary(text("Card")), frame(card)) }),
		g.Map(r.Files, func(name string) g.Node { return para("file", text("File: ", name)) }),
	)
	if len(r.Notices) > 0 {
		all = append(all,
			h.P(text(either(r.Outside, "It sent, or will send:", "It would send:"))),
			h.Ul(g.Map(r.Notices, func(one string) g.Node { return h.Li(text(one)) })),
		)
	}
	changes := h.P(text("It changed no state."))
	if len(r.Changes) > 0 {
		changes = wide("What changed", []string{"Path", "Before", "After"}, g.Map(r.Changes, func(c turnlog.Change) g.Node {
			return h.Tr(h.Data("path", oneLine(c.Path)), h.Td(code(shownText(c.Path))), h.Td(frameOf(c.Before)), h.Td(frameOf(c.After)))
		}))
	}
	return append(all, changes, h.Details(
		h.Class("source"), h.Summary(text("Entities as the action got them")), frame(shownText(r.Entities)),
	))
}

func promptAddress(name string) markup.Address { return markup.At("/dev/prompts", name) }

func promptsPage(folders []folder, fault string) g.Node {
	return body(
		h.H1(text("Prompts")),
		h.P(
			text("A prompt is a folder. A folder of "), code("BOT_PROMPTS_DIR"),
			text(", or of the bot's code, replaces the built-in one of the same name. "),
			link("/dev/prompts.json", "JSON"),
		),
		faultOf(fault),
		wide("All prompts", []string{"Prompt", "From", "Files"}, g.Map(folders, func(f folder) g.Node {
			return h.Tr(
				h.Data("prompt", oneLine(f.Name)),
				rowHead(link(promptAddress(f.Name), oneLine(f.Name)), g.If(f.Used, g.Group{space, label("of the planner")})),
				h.Td(text(either(f.Builtin, "built in", "the bot"))),
				h.Td(g.Map(f.Files, func(file promptFile) g.Node {
					return g.Group{text(file.Name, " "), dim(file.Tokens, " tokens"), h.Br()}
				})),
			)
		})),
	)
}

func (p *server) promptPage(v promptView) g.Node {
	var made g.Node
	if v.Preview != nil {
		made = v.Preview.html()
	}
	sent := para("dim", text("No turn that the page keeps was planned with it."))
	if v.Sent != nil {
		sent = h.P(text("To the model in "), link(turnAddress(v.Sent.ID), "turn ", v.Sent.ID), text(":"))
	}
	return h.Main(
		h.ID("main"), h.Class("page"), h.Data("prompt", oneLine(v.Name)),
		h.P(link("/dev/prompts", "All prompts")),
		h.H1(text("Prompt ", oneLine(v.Name))),
		h.P(
			text(either(v.Builtin, "Built in.", "From the bot's own folder."), either(v.Used, " The planner uses it.", ""), " "),
			link(promptAddress(v.Name+".json"), "JSON"),
		),
		titled("p-draft", "Draft",
			h.P(text("Change the text to see what the model would be asked. No model is asked, and nothing is written to disk before you say so.")),
			h.Form(
				h.Class("form"), h.ID("draft"), h.Method("post"), markup.Action(promptAddress(v.Name)), p.tokenField(),
				h.Input(h.Type("hidden"), h.Name("was"), h.Value(v.Was)),
				h.Div(
					h.Class("row"), h.Label(h.For("of"), text("With the variables of")),
					h.Select(h.ID("of"), h.Name("turn"), g.Map(v.Turns, func(t turnlog.Head) g.Node {
						return optionOf(t.ID, t.ID == v.Turn, short(t.At), " ", oneLine(t.Person), ": ", first(oneLine(t.Text), 60))
					}), optionOf("", v.Turn == "", "no turn")),
				),
				h.Div(
					h.Class("field"), h.Label(h.For("text"), text("Text of the prompt")),
					h.Textarea(h.ID("text"), h.Name("draft"), h.Rows("16"), g.Attr("spellcheck", "false"), g.Text("\n"+v.Draft)), // which is no part of it
				),
				h.Div(h.Class("row"),
					h.Button(h.Type("submit"), text("Preview")),
					g.If(v.Turn != "", h.Button(h.Name("then"), h.Value("what-if"), text("Try it in a what-if"))),
					g.If(v.CanWrite, h.Button(h.Name("then"), h.Value("write"), text("Write it to the file"))),
				),
			),
			g.If(v.Wrote, h.P(h.Class("note"), h.Role("status"), text("Written. The bot reads it before its next turn."))),
			h.Div(h.ID("preview"), h.Role("region"), h.Aria("label", "Preview"), h.TabIndex("-1"), h.Aria("live", "polite"), made),
		),
		titled("p-files", "Files", g.Map(v.Files, func(f promptFile) g.Node {
			return h.Details(h.Class("source"), h.Summary(text(f.Name, ", ", f.Tokens, " tokens")), frame(shownText(f.Text)))
		})),
		titled("p-sent", "As it was sent", sent, promptSections(v.Sections)),
	)
}

func (v *preview) html() g.Node {
	if v.Fault != "" {
		return faultOf(v.Fault)
	}
	return g.Group{
		para("line", h.Strong(text(v.Tokens, " tokens")), text(either(v.Draft, ", with the draft", ", with the text as it is"))),
		promptSections(v.Sections),
	}
}

func promptSections(all []turnlog.Section) g.Node {
	if len(all) == 0 {
		return nil
	}
	return h.Ul(h.Class("sections"), g.Map(all, func(s turnlog.Section) g.Node {
		s.Text = shownText(s.Text)
		return promptSection(s, true)
	}))
}

func (v skillsView) html() g.Node {
	asJSON := link("/dev/skills.json", "JSON")
	if len(v.Folders) == 0 {
		return body(h.H1(text("Skills")), para("dim",
			text("There are no skills: "), code("BOT_SKILLS_DIR"), text(" is not set. Skills that the bot's own code adds are not listed. "), asJSON,
		))
	}
	found := g.Group{para("dim", text("No usable skill was found there."))}
	if len(v.Skills) > 0 {
		found = g.Map(v.Skills, skillShown.html)
	}
	return body(
		h.H1(text("Skills")),
		h.P(
			text("From "), each(v.Folders, func(i int, f string) g.Node { return g.Group{g.If(i > 0, text(", ")), code(shownText(f))} }),
			text(". Skills that the bot's own code adds are not listed. "), asJSON,
		),
		g.If(v.Scripts != "", h.P(text("Sandbox: ", shownText(v.Scripts), "."))),
		g.Map(v.Refused, func(why string) g.Node { return para("dim", text("Not in ", why)) }),
		faultOf(v.Fault),
		found,
		g.If(len(v.Others) > 0, titled("k-others", "What is not used, and why", skillFaults(v.Others))),
	)
}

func (s skillShown) html() g.Node {
	loaded := "no conversation of the page"
	if len(s.Loaded) > 0 {
		loaded = oneLine(strings.Join(s.Loaded, "; "))
	}
	facts := g.Group{fact("loaded in", text(loaded)), fact("folder", code(shownText(s.Source))), fact("digest of SKILL.md", code(s.Digest))}
	if s.Whole != "" {
		facts = append(facts, fact("digest that an approval of its scripts is for", code(s.Whole)))
	}
	if s.License != "" {
		facts = append(facts, fact("licence", text(oneLine(s.License))))
	}
	if s.Compatibility != "" {
		facts = append(facts, fact("needs", text(oneLine(s.Compatibility))))
	}
	facts = append(facts,
		g.Map(s.AllowedTools, func(tool string) g.Node { return fact("allows", text(oneLine(tool))) }),
		g.Map(s.Metadata, func(one string) g.Node { return fact("metadata", text(oneLine(one))) }),
	)
	return h.Section(
		h.Data("skill", oneLine(s.Name)), h.Class("skill"),
		h.H2(text(oneLine(s.Name)), g.If(s.PeopleOnly, g.Group{space, label("people alone load it")})),
		h.P(text(shownText(s.Description))),
		h.Dl(h.Class("facts wrap"), facts),
		skillFaults(s.Faults),
		g.If(len(s.Resources) > 0, g.Group{
			h.H3(text("Resources")), h.Ul(g.Map(s.Resources, func(name string) g.Node { return h.Li(code(oneLine(name))) })),
		}),
		g.If(len(s.Scripts) > 0, g.Group{
			h.H3(text("Scripts")), h.Ul(g.Map(s.Scripts, func(one script) g.Node {
				can := text("can run")
				if one.Refused != "" {
					can = h.Span(h.Class("note"), text("cannot run: ", oneLine(one.Refused)))
				}
				return h.Li(h.Data("script", oneLine(one.Name)), code(oneLine(one.Name)), space, can)
			})),
		}),
		g.If(s.More > 0, para("dim", text("and ", s.More, " more files"))),
		h.Details(h.Class("source"), h.Summary(text("Instructions")), frame(shownText(s.Instructions))),
	)
}

func skillFaults(all []faultShown) g.Node {
	if len(all) == 0 {
		return nil
	}
	return h.Ul(h.Class("faults"), g.Map(all, func(f faultShown) g.Node {
		at := shownText(f.Path)
		if f.Line > 0 {
			at += fmt.Sprint(":", f.Line)
		}
		return h.Li(h.Class(either(f.Warning, "note", "fault")), code(at), text(" ", either(f.Warning, "warning: ", ""), oneLine(f.Text)))
	}))
}

// settingsView is what the view of settings shows.
type settingsView struct {
	Query      string // of the filter
	Set, Unset []setting
	Doctor     *examination // nil: there was none
	CanExamine bool
}

func (p *server) settingsPage(v settingsView) g.Node {
	examine := g.Group{para("dim", text("Nothing here can examine the settings."))}
	if v.CanExamine {
		examine = g.Group{
			h.P(text("It connects to what the settings name, and asks the model for one word. It takes up to half a minute.")),
			h.Form(
				h.Method("post"), markup.Action("/dev/settings/doctor"), p.tokenField(),
				h.Button(h.Type("submit"), text("Examine the settings")),
			),
		}
	}
	if v.Doctor != nil {
		examine = append(examine, v.Doctor.html())
	}
	return body(
		h.H1(text("Settings")),
		h.P(
			text("Where each value comes from. Switches, numbers, times and single words are shown; other texts and secrets are not. "),
			link("/dev/settings.json", "JSON"),
		),
		titled("doctor", "Doctor", examine),
		filterForm("/dev/settings", v.Query),
		titled("s-all", "What is set", settingsTable("What is set", v.Set)),
		titled("s-rest", "What is not set", h.Details(
			h.Class("source"), markup.On("open", v.Query != ""),
			h.Summary(text(len(v.Unset), " settings")), settingsTable("What is not set", v.Unset),
		)),
	)
}

func filterForm(of markup.Address, query string) g.Node {
	return h.Form(
		h.Class("row"), h.Method("get"), markup.Action(of),
		h.Label(h.For("q"), text("Filter")), h.Input(h.ID("q"), h.Name("q"), h.Value(query), h.Type("search")), h.Button(text("Show")),
	)
}

func (e *examination) html() g.Node {
	return g.Group{
		line("At ", short(e.At), ", in ", took(e.TookNS), ":"),
		faultOf(e.Fault),
		wide("Checks", []string{"Check", "Status", "What was found"}, g.Map(e.Checks, func(c app.Check) g.Node {
			var hint g.Node
			if c.Hint != "" {
				hint = para(either(c.Status == "ok", "dim", "note")+" breaks", text(shownText(c.Hint)))
			}
			return h.Tr(
				h.Data("check", oneLine(c.Name)), h.Data("status", c.Status), rowHead(text(oneLine(c.Name))),
				h.Td(h.Span(h.Class("mark"), text(c.Status))), h.Td(h.Span(h.Class("breaks"), text(shownText(c.Detail))), hint),
			)
		})),
	}
}

func settingsTable(name string, rows []setting) g.Node {
	if len(rows) == 0 {
		return para("dim", text("None."))
	}
	return wide(name, []string{"Setting", "Value", "Set by", "What it does", "If it is not set"}, g.Map(rows, func(s setting) g.Node {
		by, value := dim("nothing"), code(oneLine(s.Value))
		if s.From != "" {
			by = h.Strong(text(oneLine(s.From)))
			if s.Value == "" {
				value = dim("not shown")
			}
		}
		return h.Tr(
			h.Data("setting", oneLine(s.Name)), markup.On("data-set", s.From != ""),
			rowHead(code(oneLine(s.Name)), g.If(s.Secret, g.Group{space, label("secret")})),
			h.Td(value), h.Td(by), h.Td(text(oneLine(s.About))), h.Td(text(oneLine(s.Default))),
		)
	}))
}

func numbersPage(tiles []tile) g.Node {
	return body(
		h.H1(text("Numbers")),
		para("dim", text(
			"The metrics of this process since it started, and a curve of the last 15 minutes. A metric appears once there is something to count.",
		)),
		h.Div(h.Class("tiles"), g.Map(tiles, tile.html)),
		para("row", link("/dev/numbers.json", "JSON")),
	)
}

func (t tile) html() g.Node {
	heads := []string{either(t.Kind == "histogram", "Mean", "Value") + " of", "in all"}
	if t.Kind != "gauge" {
		heads = append(heads, "last "+t.Since())
	}
	id := "m-" + t.Metric
	return h.Section(
		h.Class("tile"), h.Data("metric", t.Metric), h.Aria("labelledby", id),
		h.H2(h.ID(id), text(t.Name())),
		para("dim", text(t.Help)),
		h.Div(h.Class("axes"), h.Div(h.Aria("hidden", "true"), h.Span(text(t.Most())), h.Span(text("0"))), h.SVG(
			h.Class("spark"), g.Attr("viewBox", fmt.Sprintf("0 0 %d %d", sparkWide, sparkHigh)), g.Attr("preserveAspectRatio", "none"),
			h.Role("img"), h.Aria("label", fmt.Sprintf("%s: at most %s in the last %s", t.Name(), t.Most(), t.Since())),
			g.El("polyline", g.Attr("points", t.Points())),
		), h.Div(h.Aria("hidden", "true"), h.Span(text(short(t.Times[0]))), h.Span(text("now")))),
		wide(t.Name(), heads, g.Map(t.Rows, func(r tileRow) g.Node {
			return h.Tr(
				rowHead(text(either(r.Labels == "", "all", r.Labels))), h.Td(text(t.Now(r))),
				g.If(t.Kind != "gauge", h.Td(text(t.Lately(r)))),
			)
		})),
		para("dim", code(t.Metric)),
	)
}

func (p *server) parkedPage(v parkedView) g.Node {
	dead := line("There are no dead letters.")
	if len(v.Dead) > 0 {
		rows := g.Map(v.Dead, func(d deadRow) g.Node {
			return h.Tr(
				h.Data("dead", d.ID),
				h.Td(h.Input(h.Type("checkbox"), h.Name("turn"), h.Value(d.ID), h.Aria("label", "Turn "+d.ID))),
				rowHead(link(parkedAddress(d.ID), "Turn ", d.ID), h.Br(), day(d.Since)), h.Td(text(d.Text)),
				h.Td(faultOf(d.Reason), d.known()),
			)
		})
		dead = p.letters(nil, "", wide("Dead letters", []string{"", "Turn", "Said", "Why"}, rows))
	}
	waiting := line("Nothing waits.")
	if len(v.Waiting) > 0 {
		waiting = wide("What waits", []string{"For", "Where", "Since", "Until"}, g.Map(v.Waiting, waitingRow.html))
	}
	return body(
		h.H1(text("Parked")),
		titled("dead", "Dead letters", para("dim", text("Turns that the bot could not finish. They wait for you.")), dead),
		titled("waits", "Waiting", para("dim", text("These go on once a person decides or answers, or when they are due.")), waiting),
		para("row", link("/dev/parked.json", "JSON"), space, dim("Each list shows at most ", v.Most, ".")),
	)
}

func parkedAddress(id string, below ...string) markup.Address {
	return markup.At(markup.At("/dev/parked", id), below...)
}

// letters is a form that retries or drops dead letters: those of the list, and those that are ticked in it.
func (p *server) letters(turns []deadRow, reason string, content ...g.Node) g.Node {
	return h.Form(
		h.Method("post"), markup.Action("/dev/parked"), p.tokenField(), g.Map(turns, func(d deadRow) g.Node { return sends("turn", d.ID) }),
		g.Group(content),
		h.Div(h.Class("row"),
			h.Label(h.For("reason"), text("Reason, for the log")), h.Input(h.ID("reason"), h.Name("reason"), h.Value(reason), h.AutoComplete("off")),
			h.Button(h.Name("do"), h.Value("retry"), text("Retry")), h.Button(h.Name("do"), h.Value("drop"), text("Drop…")),
		),
	)
}

// lostPage is a dead letter, as far as the state of the bot knows it.
func (p *server) lostPage(d deadRow) g.Node {
	return body(
		h.P(link("/dev/parked", "All parked turns")),
		h.H1(text("Turn ", d.ID)),
		faultOf(d.Reason), para("dim", text("parked since "), day(d.Since)),
		g.If(d.Text != "", h.P(text("Somebody wrote: ", d.Text))),
		p.letters([]deadRow{d}, ""),
		titled("l-known", "What is known", d.table()),
		para("row",
			g.If(d.Seen, link(turnAddress(d.ID), "All that the page saw of it")),
			h.A(markup.Href(parkedAddress(d.ID, "export")), markup.On("download", true), text("Export as a scenario")),
		),
	)
}

func (d deadRow) known() g.Node {
	return h.Details(h.Class("source"), h.Summary(text("What is known"), unseen(" of turn ", d.ID)), d.table())
}

func (d deadRow) table() g.Node {
	return wideOf("What is known", h.Table(h.TBody(g.Map(d.Rows, func(row [2]string) g.Node {
		return h.Tr(rowHead(text(row[0])), h.Td(text(row[1])))
	}))))
}

func (r waitingRow) html() g.Node {
	where := r.Room
	if r.Person != "" && r.Person != r.Room {
		where += ", " + r.Person
	}
	var seen g.Node
	if r.Seen {
		seen = g.Group{space, h.A(markup.Href(turnAddress(r.ID)), text("turn"), unseen(" ", r.ID))}
	}
	var chain g.Node
	if len(r.Chain) > 0 {
		chain = h.Ul(g.Map(r.Chain, func(line string) g.Node { return h.Li(text(oneLine(line))) }))
	}
	return h.Tr(
		h.Data("waiting", r.ID), h.Data("for", r.For),
		h.Td(h.Class("words"), text(r.About), seen, chain), h.Td(text(where)), h.Td(day(r.Since)), h.Td(day(r.Until)),
	)
}

func (p *server) dropPage(v dropView) g.Node {
	return body(
		h.H1(text("Drop ", count(len(v.Turns), "turn"), "?")),
		h.P(text("The bot forgets them for good. Nobody gets an answer.")),
		g.Map(v.Turns, func(d deadRow) g.Node { return h.Div(h.P(h.Strong(text("Turn ", d.ID)), text(" ", d.Text)), d.known()) }),
		h.Form(
			h.Class("row"), h.Method("post"), markup.Action("/dev/parked"), p.tokenField(),
			sends("do", "drop"), sends("sure", "1"), sends("reason", v.Reason), g.Map(v.Turns, func(d deadRow) g.Node { return sends("turn", d.ID) }),
			h.Button(h.AutoFocus(), text("Drop ", count(len(v.Turns), "turn"))), link("/dev/parked", "Keep"),
		),
	)
}

// activitiesPage is all that came in and went out.
func activitiesPage(all []passed, query string) g.Node {
	list := line(either(query == "", "Nothing has come in or gone out.", "No activity matches."))
	if len(all) > 0 {
		heads := []string{"Time", "Way", "Kind", "Person and place", "Text", "Status", "Activity"}
		list = wide("Activities", heads, g.Map(all, func(a passed) g.Node {
			var of g.Node
			if a.Turn != "" {
				of = g.Group{space, link(turnAddress(a.Turn), "turn")}
			}
			return h.Tr(
				h.Data("status", cmp.Or(map[bool]string{a.Bad: "fail", a.Status == "accepted" || a.Out && !a.Bad: "ok"}[true], "none")),
				h.Td(timeOf(a.At, a.At.Local().Format(time.TimeOnly))), h.Td(text(either(a.Out, "← out", "→ in"))), h.Td(text(a.Kind)),
				h.Td(text(a.Person, either(a.Place == "", "", " in "+a.Place))),
				h.Td(h.Class("words"), text(first(a.Text, maxGist))), h.Td(h.Span(h.Class("mark"), text(a.Status)), of),
				h.Td(folds("JSON", a.Activity)),
			)
		}))
	}
	return body(
		h.H1(text("Activities")),
		h.P(
			text("The last "), text(maxPassed), text(" that came in and went out in the turns that the page keeps, "+
				"and what the bot refused. Newest first. "),
			link("/dev/activities.json", "JSON"),
		),
		filterForm("/dev/activities", query),
		list,
	)
}

func (v evalsView) html() g.Node {
	all := g.Group{h.H1(text("Evals"))}
	if v.Folder != "" {
		all = append(all, h.P(
			text("Reports of "), code("bottest eval --json"), text(" in the folder "), code(shownText(v.Folder)), text(", newest first. "),
			link("/dev/evals.json", "JSON"),
		))
	}
	all = append(all, g.Map(v.Faults, faultOf))
	switch {
	case len(v.Rows) > 0:
		heads := []string{
			"Report", "Plans", "All right", "Since the one before", "Right actions", "Can run", "Unwanted", "Tokens", "p50", "p95", "Cost",
		}
		all = append(all, titled("v-all", "Results", wide("Results", heads, g.Map(v.Rows, evalRow.html))), v.compareForm())
	case v.Folder != "":
		folder := shownText(v.Folder)
		all = append(all,
			h.P(text("There is no report yet. Save one like this, then load the page again:")),
			named("How to save a report",
				"mkdir -p "+folder+"\ngo tool bottest eval --actions actions.json --json eval.yaml > "+folder+"/first.json"),
			para("dim", text("The folder is beside where the bot was started.")),
		)
	default:
		all = append(all, para("dim", text("This bot has no folder of reports.")))
	}
	return body(all...)
}

func (r evalRow) html() g.Node {
	points := func(share float64) string { return fmt.Sprintf("%d %%", percent(share)) }
	asked := fmt.Sprint(r.Asked)
	if r.NoAnswer > 0 {
		asked += fmt.Sprintf(", %d without an answer", r.NoAnswer)
	}
	about := " " + oneLine(r.About)
	if r.Stop != "" {
		about += ", stopped: " + oneLine(r.Stop)
	}
	cost := ""
	if r.Cost != 0 {
		cost = fmt.Sprintf("%.4f", r.Cost)
	}
	share := fmt.Sprint(percent(r.Entities))
	right := h.Meter(h.Min("0"), h.Max("100"), h.Value(share), h.Aria("label", "all right"), text(points(r.Entities)))
	cell := func(content string) g.Node { return h.Td(text(content)) }
	return h.Tr(
		h.Data("report", oneLine(r.ID)),
		rowHead(text(oneLine(r.File), " ", oneLine(r.Side)), h.Br(), h.Span(
			h.Class("dim"), timeOf(r.At, r.At.Local().Format("2006-01-02 15:04")), text(about),
		)),
		cell(asked), h.Td(right, text(" ", points(r.Entities))), cell(r.Trend()),
		cell(points(r.Action)), cell(points(r.Valid)), cell(points(r.Unwanted)), cell(fmt.Sprintf("%.0f", r.Tokens)),
		cell(fmt.Sprintf("%.2f s", r.P50)), cell(fmt.Sprintf("%.2f s", r.P95)), cell(cost),
	)
}

func (v evalsView) compareForm() g.Node {
	choose := func(id, title, chosen string) g.Node {
		return g.Group{
			h.Label(h.For(id), text(title)),
			h.Select(h.ID(id), h.Name(id), g.Map(v.Rows, func(r evalRow) g.Node { return optionOf(r.ID, r.ID == chosen, r.Label()) })),
		}
	}
	var differs g.Node
	if v.Compare != nil {
		differs = v.Compare.html()
	}
	return titled("v-two", "Compare two",
		h.Form(
			h.Class("row"), h.Method("get"), markup.Action("/dev/evals"),
			choose("a", "Before", v.A), choose("b", "After", v.B), h.Button(text("Compare")),
		),
		differs,
	)
}

func (c *comparison) html() g.Node {
	rest := fmt.Sprintf(", %d the same", c.Same)
	if c.OnlyA > 0 {
		rest += fmt.Sprintf(", %d only before", c.OnlyA)
	}
	if c.OnlyB > 0 {
		rest += fmt.Sprintf(", %d only after", c.OnlyB)
	}
	all := g.Group{h.P(
		h.Class("line"), h.Data("better", fmt.Sprint(c.Better)), h.Data("worse", fmt.Sprint(c.Worse)),
		h.Strong(text(c.Better, " better, ", c.Worse, " worse")), text(rest, "."),
	)}
	if len(c.Differs) > 0 {
		result := func(r evalResult) g.Node { return h.Td(text(r.Outcome()), frame(r.Text())) }
		all = append(all, wide("Cases that differ", []string{"Case", "Before", "After"}, g.Map(c.Differs, func(d caseDiffer) g.Node {
			return h.Tr(h.Data("case", oneLine(d.Case)), rowHead(text(oneLine(d.Case))), result(d.A), result(d.B))
		})))
	}
	return append(all, g.If(c.More > 0, para("dim", text("and ", c.More, " more"))))
}

const (
	// shortJSON is how long an object or a list may be that is shown in one line, and openJSON one that is not folded.
	shortJSON, openJSON = 72, 600
	maxColoured         = 128 << 10 // limits what gets colours and folds
)

// jsonOf is JSON in colours, with objects and lists to fold. Any other text is in a frame as it is; "": nothing.
func jsonOf(content string) g.Node {
	raw := jsontext.Value(content)
	if len(raw) > maxColoured || !raw.IsValid(jsontext.AllowDuplicateNames(true)) {
		return frameOf(content)
	}
	return h.Div(h.Class("json"), jsonNode(nil, raw))
}

func jsonNode(key g.Node, raw jsontext.Value) g.Node {
	if len(raw) <= shortJSON || raw.Kind() != '{' && raw.Kind() != '[' {
		return h.Div(key, inline(raw))
	}
	d := jsontext.NewDecoder(strings.NewReader(string(raw)), jsontext.AllowDuplicateNames(true))
	begin, _ := d.ReadToken() // it is valid, here and below
	var rows g.Group
	for d.PeekKind() != '}' && d.PeekKind() != ']' {
		var name g.Node
		if begin.Kind() == '{' {
			key, _ := d.ReadValue()
			name = g.Group{h.Span(h.Class("k"), text(string(key))), text(": ")}
		}
		value, _ := d.ReadValue()
		rows = append(rows, jsonNode(name, value.Clone()))
	}
	size := text(begin.String(), " ", len(rows), " ", either(begin.Kind() == '{', plural(len(rows), "field"), plural(len(rows), "value")))
	return h.Details(
		markup.On("open", key == nil || len(raw) <= openJSON),
		h.Summary(key, h.Span(h.Class("dim"), size)), h.Div(rows),
	)
}

func inline(raw jsontext.Value) g.Node {
	d := jsontext.NewDecoder(strings.NewReader(string(raw)), jsontext.AllowDuplicateNames(true))
	var all g.Group
	for {
		depth := d.StackDepth()
		kind, n := d.StackIndex(depth)
		token, err := d.ReadToken()
		if err != nil {
			return all
		}
		isKey := kind == '{' && n%2 == 0
		ends := token.Kind() == '}' || token.Kind() == ']'
		switch {
		case ends || n == 0:
		case isKey || kind == '[':
			all = append(all, g.Text(", "))
		default:
			all = append(all, g.Text(": "))
		}
		switch {
		case isKey && !ends:
			all = append(all, h.Span(h.Class("k"), text(quotedToken(token))))
		case token.Kind() == '"':
			all = append(all, h.Span(h.Class("s"), text(quotedToken(token))))
		case strings.ContainsRune("{}[]", rune(token.Kind())):
			all = append(all, text(token.String()))
		default:
			all = append(all, h.Span(h.Class("n"), text(token.String())))
		}
	}
}

func quotedToken(t jsontext.Token) string {
	raw, err := jsontext.AppendQuote(nil, t.String())
	if err != nil {
		return t.String()
	}
	return string(raw)
}
