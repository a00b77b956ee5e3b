package page

import (
	"fmt"
	"strings"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/planbot-go/planbot/app/turnlog"
	"github.com/planbot-go/planbot/internal/markup"
)

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

func (p *Page) actionPage(v actionView) g.Node {
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
	schema := g.Group{named("Schema", shownText(pretty(v.Schema)))}
	if len(v.Told) > 0 {
		schema = append(schema, h.H3(text("As models see it")), named("Schema as models see it", shownText(pretty(v.Told))))
	}
	if len(v.Returns) > 0 {
		schema = append(schema, h.H3(text("What it returns")), named("Schema of the result", shownText(pretty(v.Returns))))
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

// actionForm runs an action by hand.
func (p *Page) actionForm(v actionView) g.Node {
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
		g.If(!v.StateOnly, h.P(h.Label(
			h.Class("check"), h.Input(h.Type("checkbox"), h.Name("outside"), h.Value("1")), text(" This has effects outside"),
		))),
		h.Button(h.Type("submit"), text("Run")),
		para("dim", text(
			"It runs without a plan: no approval, policy or hook is part of it, and nothing is said in the conversation. "+
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

func (p *Page) promptPage(v promptView) g.Node {
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
			h.P(text("Change the text to see what the model would be asked. No model is asked, and nothing is written to disk.")),
			h.Form(
				h.Class("form"), h.ID("draft"), h.Method("post"), markup.Action(promptAddress(v.Name)), p.tokenField(),
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
				h.Button(h.Type("submit"), text("Preview")),
			),
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
	Set, Unset []Setting
	Doctor     *examination // nil: there was none
	CanExamine bool
}

func (p *Page) settingsPage(v settingsView) g.Node {
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
			text("The names of the settings, and where each value comes from. Values are never shown here. "),
			link("/dev/settings.json", "JSON"),
		),
		titled("doctor", "Doctor", examine),
		titled("s-all", "What is set", settingsTable("What is set", v.Set)),
		titled("s-rest", "What is not set", h.Details(
			h.Class("source"), h.Summary(text(len(v.Unset), " settings")), settingsTable("What is not set", v.Unset),
		)),
	)
}

func (e *examination) html() g.Node {
	return g.Group{
		line("At ", short(e.At), ", in ", took(e.TookNS), ":"),
		faultOf(e.Fault),
		wide("Checks", []string{"Check", "Status", "What was found"}, g.Map(e.Checks, func(c Check) g.Node {
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

func settingsTable(name string, rows []Setting) g.Node {
	if len(rows) == 0 {
		return para("dim", text("None."))
	}
	return wide(name, []string{"Setting", "Set by", "What it does", "If it is not set"}, g.Map(rows, func(s Setting) g.Node {
		by := dim("nothing")
		if s.From != "" {
			by = h.Strong(text(oneLine(s.From)))
		}
		return h.Tr(
			h.Data("setting", oneLine(s.Name)), markup.On("data-set", s.From != ""),
			rowHead(code(oneLine(s.Name)), g.If(s.Secret, g.Group{space, label("secret")})),
			h.Td(by), h.Td(text(oneLine(s.About))), h.Td(text(oneLine(s.Default))),
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
		h.SVG(
			h.Class("spark"), g.Attr("viewBox", fmt.Sprintf("0 0 %d %d", sparkWide, sparkHigh)), g.Attr("preserveAspectRatio", "none"),
			h.Role("img"), h.Aria("label", fmt.Sprintf("%s: at most %s in the last %s", t.Name(), t.Most(), t.Since())),
			g.El("polyline", g.Attr("points", t.Points())),
		),
		wide(t.Name(), heads, g.Map(t.Rows, func(r tileRow) g.Node {
			return h.Tr(
				rowHead(text(either(r.Labels == "", "all", r.Labels))), h.Td(text(t.Now(r))),
				g.If(t.Kind != "gauge", h.Td(text(t.Lately(r)))),
			)
		})),
		para("dim", code(t.Metric)),
	)
}

func (p *Page) parkedPage(v parkedView) g.Node {
	dead := g.Group{line("There are no dead letters.")}
	if len(v.Dead) > 0 {
		dead = g.Map(v.Dead, p.deadLetter)
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

func parkedAddress(id, what string) markup.Address { return markup.At("/dev/parked", id, what) }

func (p *Page) deadLetter(d deadRow) g.Node {
	head := text("Turn ", d.ID)
	if d.Seen {
		head = link(turnAddress(d.ID), "Turn ", d.ID)
	}
	return h.Article(
		h.Class("letter"), h.Data("dead", d.ID), h.H3(head),
		faultOf(d.Reason),
		para("dim", text("since "), day(d.Since)),
		d.known(),
		h.Div(
			h.Class("row"),
			h.Form(h.Method("post"), markup.Action(parkedAddress(d.ID, "retry")), p.tokenField(), h.Button(text("Retry"), unseen(" turn ", d.ID))),
			h.A(markup.Href(parkedAddress(d.ID, "drop")), text("Drop"), unseen(" turn ", d.ID), text("…")), space,
			h.A(markup.Href(parkedAddress(d.ID, "export")), markup.On("download", true), text("Export"), unseen(" turn ", d.ID, " as a scenario")),
		),
	)
}

// known is what is known of a dead letter.
func (d deadRow) known() g.Node {
	return h.Details(
		h.Summary(text("What is known"), unseen(" of turn ", d.ID)),
		wideOf("What is known", h.Table(h.TBody(g.Map(d.Rows, func(row [2]string) g.Node {
			return h.Tr(rowHead(text(row[0])), h.Td(text(row[1])))
		})))),
	)
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
	return h.Tr(
		h.Data("waiting", r.ID), h.Data("for", r.For), h.Td(text(r.About), seen), h.Td(text(where)), h.Td(day(r.Since)), h.Td(day(r.Until)),
	)
}

func (p *Page) dropPage(d deadRow) g.Node {
	return body(
		h.H1(text("Drop turn ", d.ID, "?")),
		g.If(d.Text != "", h.P(text("Somebody wrote: ", d.Text))),
		h.P(text("The bot forgets this turn for good. Nobody gets an answer to it.")),
		d.known(),
		h.Form(
			h.Class("row"), h.Method("post"), markup.Action(parkedAddress(d.ID, "drop")), p.tokenField(),
			h.Button(text("Drop turn ", d.ID)), space, link("/dev/parked", "Keep it"),
		),
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
