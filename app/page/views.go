package page

import (
	"fmt"
	"strings"
	"time"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/planbot-go/planbot/internal/markup"
)

// text is a text in a view: what is not seen is marked. Its parts may be numbers.
func text(parts ...any) g.Node {
	var out strings.Builder
	for _, part := range parts {
		fmt.Fprint(&out, part)
	}
	return g.Text(marked(out.String()))
}

// space is what parts of a line have between them.
var space = g.Text(" ")

func para(class string, children ...g.Node) g.Node { return h.P(h.Class(class), g.Group(children)) }

func dim(parts ...any) g.Node { return h.Span(h.Class("dim"), text(parts...)) }

func label(parts ...any) g.Node { return h.Span(h.Class("label"), text(parts...)) }

// unseen is a text for who does not see the page.
func unseen(parts ...any) g.Node { return h.Span(h.Class("hidden"), text(parts...)) }

func code(parts ...any) g.Node { return h.Code(text(parts...)) }

// frame is a text with its lines, in a frame that scrolls.
func frame(content string) g.Node { return h.Pre(h.TabIndex("0"), text(content)) }

// named is a frame of that name.
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

// optionOf is one of a list to choose from.
func optionOf(value string, isChosen bool, parts ...any) g.Node {
	return h.Option(h.Value(value), markup.On("selected", isChosen), text(parts...))
}

// titled is a part of a view under a title.
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

// tokenMeter shows a number of tokens.
func tokenMeter(tokens int) g.Node {
	return h.Meter(h.Min("0"), h.Max("4000"), h.Value(fmt.Sprint(tokens)), text(tokens))
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
func (p *Page) tokenField() g.Node { return sends("token", p.token) }

// document is a view with the navigation. tab is the path of the entry that is open in it.
func (p *Page) document(title string, tab markup.Address, content g.Node, scripts ...string) g.Node {
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
			g.Map(append([]string{"keys.js", "theme.js"}, scripts...), func(name string) g.Node {
				if strings.HasSuffix(name, ".min.js") { // of others: it is no module
					return h.Script(h.Defer(), markup.Src(assetAddress(name)))
				}
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
func (p *Page) alarm() g.Node {
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

// helpPage is the view with the keys.
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
			key("/", "elsewhere: filter the turns"),
			key("g c", "the chat"),
			key("g t", "the turns"),
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
func (p *Page) faultsPage(v faultsView) g.Node {
	return body(
		h.H1(text("Faults")),
		h.P(text("Make something go wrong on purpose, and see what the bot does. Each fault lasts for a number of calls.")),
		p.faultForms(v),
		para("row", link("/dev/", "To the chat"), space, link("/dev/faults.json", "JSON")),
	)
}

func (p *Page) faultForms(v faultsView) g.Node {
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
