package page

import (
	"encoding/json"
	"fmt"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/internal/markup"
)

// workbenchScripts are those of the chat.
var workbenchScripts = []string{"live.js", "chat.js", "adaptivecards.min.js"}

// workbenchPage is the chat beside the turns.
func (p *Page) workbenchPage(v workbenchView) g.Node {
	open := ""
	if v.Turn != nil {
		open = v.Turn.ID
	}
	return h.Main(
		h.ID("main"), h.Class("bench"), h.Data("last", fmt.Sprint(v.Last)), h.Data("room", v.Room.Key),
		h.H1(h.Class("hidden"), text("Chat with ", v.Bot)),
		h.Section(h.Class("rooms"), h.Aria("label", "Conversations"), v.rooms()),
		h.Section(
			h.Class("talk"), h.Aria("label", "Chat"),
			h.Div(h.Class("log"), h.Role("log"), h.Aria("label", "Messages"), h.TabIndex("0"), h.ID("messages"), v.messages()),
			v.sayForm(),
			more("More that can happen", v.events()),
			more("People, conversations and files", v.additions()),
			more("This conversation", v.ofRoom()),
			more("Faults", p.faultForms(p.faults.view(v.Room.Key, v.As))),
		),
		h.Section(
			h.Class("side"),
			h.Section(h.Class("turns"), h.Aria("label", "Turns"), h.ID("turns"), p.openTurns(v)),
			h.Section(h.Class("one"), h.Aria("label", "Turn"), h.ID("turn"), h.Data("open", open), p.openTurn(v.Turn)),
		),
	)
}

func (p *Page) openTurns(v workbenchView) g.Node {
	return g.Group{h.H2(text("Turns")), p.turnRows(v.Turns, "No turn yet.")}
}

// more is a part of the chat that opens.
func more(title string, children ...g.Node) g.Node {
	return h.Details(h.Class("more"), h.Summary(text(title)), g.Group(children))
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
			kind := map[string]string{"personal": "personal", "groupChat": "group"}[r.Kind]
			if kind == "" {
				kind = "channel"
			}
			return h.Li(
				h.Data("key", r.Key),
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
		h.Class("say"), h.ID("say"), h.Method("post"), markup.Action("/dev/chat/say"), sends("room", v.Room.Key),
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

// peopleOptions are the people to choose from.
func peopleOptions(people []person, chosen string) g.Node {
	return g.Map(people, func(one person) g.Node { return optionOf(one.Key, one.Key == chosen, one.Name) })
}

// listJSON is a list for a script.
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
		add("person", "New person", "person"),
		add("room", "New group chat", "group chat"),
		files,
		para("dim",
			text("A JSON object with a "), code("type"), text(" in the message box is sent as a card ("), code("AdaptiveCard"),
			text(") or as an activity."),
		),
	}
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
	typing := h.P(h.Class("typing"), h.Data("key", "typing"), text(v.Bot, " is typing…"))
	return append(all, g.Map(v.Messages, shownMessage.html), g.If(v.Room.Typing, typing))
}

// html is a message with what people can do about it.
func (s shownMessage) html() g.Node {
	class := "message " + either(s.Person != "", "theirs", "bots") + either(s.ThreadReply(), " reply", "")
	content := g.Group{para("dim", text("deleted"))}
	if !s.Deleted {
		content = s.content()
	}
	return h.Article(
		h.Class(class), h.Data("key", s.ID), h.Data("message", s.ID), h.Data("from", either(s.Person != "", s.Person, "bot")),
		g.If(s.Turn != "", h.Data("of", s.Turn)), markup.On("data-streaming", s.Streaming), h.Data("activity", s.JSON),
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
		g.If(s.Rates, chatForm(
			"rate", true, where, sends("message", s.ID),
			h.Input(h.Name("text"), h.Aria("label", opinion), h.Placeholder(opinion)), rate("like", "Like"), rate("dislike", "Dislike"),
		)),
		h.Details(
			h.Class("change"), h.Summary(text("Change"), unseen(" this message")),
			chatForm("change", true, where, sends("message", s.ID), change),
		),
	}
}
