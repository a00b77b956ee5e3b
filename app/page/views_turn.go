package page

import (
	"fmt"
	"strings"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/planbot-go/planbot/app/turnlog"
	"github.com/planbot-go/planbot/internal/markup"
)

// first are the first letters of a text.
func first(content string, most int) string { return fmt.Sprintf("%.*s", most, content) }

// turnListView is what the list of turns shows.
type turnListView struct {
	Turns    []turnlog.Head
	TooFast  int
	Query    string
	Outcome  string
	Outcomes []string
}

func (p *Page) turnsPage(v turnListView) g.Node {
	compares := func(id, words string, chosen int) g.Node {
		return g.Group{
			h.Label(h.For(id), text(words)),
			h.Select(h.ID(id), h.Name(id), each(v.Turns, func(i int, t turnlog.Head) g.Node {
				return optionOf(t.ID, i == chosen, t.ID, " ", first(marked(t.Text), 40))
			})),
		}
	}
	return body(
		h.H1(text("Turns")),
		h.Form(
			h.Class("row"), h.Method("get"), markup.Action("/dev/turns"),
			h.Label(h.For("q"), text("Filter")), h.Input(h.ID("q"), h.Name("q"), h.Value(v.Query), h.Type("search")),
			h.Label(h.For("outcome"), text("Outcome")),
			h.Select(h.ID("outcome"), h.Name("outcome"), optionOf("", false, "any"), g.Map(v.Outcomes, func(o string) g.Node {
				return h.Option(markup.On("selected", o == v.Outcome), text(o))
			})),
			h.Button(text("Show")),
		),
		g.If(len(v.Turns) > 0, h.Form(
			h.Class("row"), h.Method("get"), markup.Action("/dev/turns/compare"),
			compares("a", "Compare", -1), compares("b", "with", 1), h.Button(text("Compare")),
		)),
		h.Section(h.Aria("label", "Turns"), h.Class("turns"), h.ID("turns"), p.turnRows(v.Turns, "No turn matches.")),
		g.If(v.TooFast > 0, para("note", text(v.TooFast, " more turns came too fast to be kept here."))),
	)
}

// turnRows is a list of turns, or says that there are none.
func (p *Page) turnRows(turns []turnlog.Head, none string) g.Node {
	if len(turns) == 0 {
		return h.Ul(h.Class("list"), h.Li(h.Class("dim"), h.Data("key", "none"), text(none)))
	}
	return h.Ul(h.Class("list"), g.Map(turns, p.turnRow))
}

func (p *Page) turnRow(t turnlog.Head) g.Node {
	about := strings.Join(t.Actions, ", ")
	if about != "" {
		about += " · "
	}
	about += took(t.TookNS)
	if t.ModelCalls > 0 {
		about += fmt.Sprintf(" · %d %s", t.ModelCalls, plural(t.ModelCalls, "model call"))
	}
	if t.TokensIn > 0 {
		about += fmt.Sprintf(" · %d+%d tokens", t.TokensIn, t.TokensOut)
	}
	return h.Li(
		h.Data("key", t.ID), h.Data("turn", t.ID), h.Data("outcome", t.Outcome),
		h.A(
			markup.Href(turnAddress(t.ID)), h.Data("turn-link", t.ID),
			h.Span(h.Class("mark"), text(t.Outcome)), space,
			h.Span(h.Class("who"), text(t.Person)), space,
			h.Span(h.Class("what"), text(t.Text)), space,
			g.If(t.Problem != "", g.Group{h.Span(h.Class("why"), text(t.Problem)), space}),
			dim(about),
		),
		space,
		h.Form(
			h.Method("post"), markup.Action(turnAddress(t.ID, "pin")), markup.On("data-quiet", true),
			p.tokenField(), g.If(!t.Pinned, sends("pinned", "1")),
			h.Button(h.Class("pin"), text(either(t.Pinned, "Unpin", "Pin")), unseen(" turn ", t.ID)),
		),
	)
}

// turnPage is the view of one turn.
func (p *Page) turnPage(v *turnView) g.Node {
	return h.Main(
		h.ID("main"), h.Class("page"), h.Data("last", "0"),
		h.Section(h.Class("one"), h.Aria("label", "Turn"), h.ID("turn"), h.Data("open", v.ID), markup.On("data-page", true), p.turnBody(v)),
	)
}

// openTurn is the turn beside the chat. nil: none is open.
func (p *Page) openTurn(v *turnView) g.Node {
	if v == nil {
		return g.Group{h.H2(text("Turn")), para("dim", text("Choose a turn to see everything about it."))}
	}
	return p.turnBody(v)
}

func (p *Page) turnBody(v *turnView) g.Node {
	return g.Group{
		p.turnHead(v),
		v.part("received", "Received", v.received()...),
		v.part("state", "State", v.state()...),
		v.part("prompt", "Prompt", v.prompt()...),
		v.part("answer", "Answer", v.answer()...),
		v.part("plan", "Plan", v.plan()...),
		v.part("commands", "Commands", v.commands()),
		v.part("journal", "Journal", v.journal()),
		v.part("sent", "Sent", v.sent()),
		v.part("log", "Log", v.log()),
	}
}

// part is a part of a turn, under a title.
func (v *turnView) part(name, title string, children ...g.Node) g.Node {
	head := h.H3
	if v.Page {
		head = h.H2
	}
	id := "t-" + name
	return h.Section(h.Aria("labelledby", id), head(h.ID(id), text(title)), g.Group(children))
}

func (p *Page) turnHead(v *turnView) g.Node {
	where := map[string]string{"": "no conversation", "personal": "a personal chat", "groupChat": "a group chat"}[v.Kind]
	if where == "" {
		where = "a " + v.Kind
	}
	lost := ""
	if v.Tries > 0 {
		lost = fmt.Sprintf(" · its process was lost %d times", v.Tries)
	}
	cached := ""
	if v.TokensCached > 0 {
		cached = fmt.Sprintf(" (%d cached)", v.TokensCached)
	}
	all := g.Group{}
	if v.Page {
		all = append(all, h.H1(text("Turn ", v.ID)))
	} else {
		all = append(all, h.H2(link(turnAddress(v.ID), "Turn ", v.ID)))
	}
	all = append(all,
		h.P(
			h.Class("sum"), h.Data("turn", v.ID), h.Data("outcome", v.Outcome), h.Span(h.Class("mark"), text(v.Outcome)),
			text(" ", v.Person, " in ", where, ", ", clock(v.At), " · waited ", took(v.WaitedNS), " · took ", took(v.TookNS), lost),
		),
		h.Dl(
			h.Class("facts"),
			fact("model calls", text(v.ModelCalls)),
			fact("tokens", text(v.TokensIn, " in", cached, ", ", v.TokensOut, " out")),
			fact("cost", text(fmt.Sprintf("%.4f", v.Cost))),
			g.If(v.Parent != "", fact("follows", turnLink(v.Parent, "turn ", v.Parent))),
			g.Map(v.Follows, func(id string) g.Node { return fact("decided by", turnLink(id, "turn ", id)) }),
		),
		g.If(v.Error != "", para("fault", h.Strong(text("Failed:")), text(" ", v.Error))),
	)
	if problems := v.Problems(); len(problems) > 0 {
		all = append(all, h.Ul(h.Class("why"), h.Aria("label", "What went wrong"), g.Map(problems, func(problem turnlog.Problem) g.Node {
			return h.Li(
				link(markup.Here("t-"+problem.Part), problem.Part), text(": ", problem.Text),
				g.If(problem.Times > 1, g.Group{space, h.Strong(text("×", problem.Times))}),
			)
		})))
	}
	return append(all,
		g.If(v.Incomplete, para("note", text("Some of this turn was not seen, because too much happened at once."))),
		g.If(v.Cut, para("note", text("Some of this turn is too large to be kept."))),
		g.If(len(v.Spans) > 0, h.Ol(h.Class("fall"), h.Aria("label", "What took how long"), g.Map(v.Spans, func(s span) g.Node {
			bar := h.Span(h.Class("bar"), h.Data("from", fmt.Sprint(s.From)), h.Data("wide", fmt.Sprint(s.Wide)))
			return h.Li(h.Span(text(s.Name)), bar, dim(took(s.Took)))
		}))),
		para("row",
			g.If(v.Prev != "", turnLink(v.Prev, "Previous")), space, g.If(v.Next != "", turnLink(v.Next, "Next")), space,
			g.If(v.Prev != "", link(markup.Address("/dev/turns/compare").With("a", v.Prev).With("b", v.ID), "Compare with the previous")), space,
			link(turnAddress(v.ID+".json"), "JSON"),
		),
		g.If(len(v.Received.Activity) > 0, h.Form(
			h.Class("row"), h.Method("post"), markup.Action(turnAddress(v.ID, "go-on")), p.tokenField(),
			h.A(markup.Href(turnAddress(v.ID, "what-if")), h.Data("do", "r"), text("What if")), space,
			h.Button(h.Name("at"), h.Value("after"), h.Data("do", "f"), text("Go on from here")), space,
			h.Button(h.Name("at"), h.Value("before"), text("Go on from before it")), space,
			h.A(markup.Href(markup.Address("/dev/turns/save").With("turn", v.ID)), h.Data("do", "s"), text("Save as test")),
		)),
	)
}

func line(parts ...any) g.Node { return para("line", text(parts...)) }

func (v *turnView) received() g.Group {
	r := v.Received
	return g.Group{
		line(v.Type, ": ", r.Text),
		g.If(r.Duplicate != "", para("note", text("A duplicate of "), link(turnAddress(r.Duplicate), "turn ", r.Duplicate), text("."))),
		g.If(r.Dropped != "", para("note", text("No turn ran: ", r.Dropped, "."))),
		source("Activity", pretty(r.Activity)),
		g.If(len(r.Answer) > 0, source("Answer to the request", pretty(r.Answer))),
	}
}

func (v *turnView) state() g.Group {
	value := func(content string) g.Node {
		if content == "" {
			return h.Td(dim("nothing"))
		}
		return h.Td(frame(content))
	}
	row := func(c turnlog.Change) g.Node {
		by := h.Td(text(either(c.By == "", "the bot itself", c.By)))
		return h.Tr(h.Data("path", c.Path), h.Td(code(c.Path)), value(c.Before), value(c.After), by)
	}
	heads := []string{"Path", "Before", "After", "Changed by"}
	return g.Group{
		line(len(v.ByPath), " ", plural(len(v.ByPath), "value"), " changed"),
		g.If(len(v.ByPath) > 0, wide("Changes of the state", heads, g.Map(v.ByPath, row))),
		source("Before", v.Before), source("After", v.After),
	}
}

func (v *turnView) prompt() (all g.Group) {
	if len(v.Rounds) == 0 {
		return g.Group{line("No model was asked.")}
	}
	for i, r := range v.Rounds {
		asked := "of an action"
		if r.Planner != "action" {
			asked = fmt.Sprintf("of the planner %s, %d actions offered", r.Planner, len(r.Offered))
		}
		if r.Format != "" {
			asked += ", format " + r.Format
		}
		all = append(all, h.Div(
			h.Class("round"),
			line(
				"Question ", i+1, ": prompt ", r.Prompt, " ", asked, ", answer at most ", r.MaxTokens, " tokens, history at most ", r.HistoryTokens,
			),
			h.Ul(h.Class("sections"), g.Map(r.Sections, func(s turnlog.Section) g.Node { return promptSection(s, false) })),
		))
	}
	return all
}

// promptSection is a part of a prompt.
func promptSection(s turnlog.Section, isOpen bool) g.Node {
	return h.Li(
		h.Data("section", s.Name), markup.On("data-left", s.Left),
		h.Details(
			markup.On("open", isOpen),
			h.Summary(
				h.Span(h.Class("name"), text(s.Name)), space, dim(s.Role), space, tokenMeter(s.Tokens),
				text(" ", s.Tokens, " tokens", either(s.Left, ", left out: there was no room", "")),
			),
			frame(s.Text),
		),
	)
}

func (v *turnView) answer() (all g.Group) {
	if len(v.Rounds) == 0 {
		return g.Group{line("The model wrote nothing.")}
	}
	for i, r := range v.Rounds {
		round := g.Group{h.Class("round")}
		if a := r.Answer; a != nil {
			finish := ""
			if a.Finish != "" {
				finish = ", ended with " + a.Finish
			}
			round = append(round,
				line("Answer ", i+1, ": ", took(a.TookNS), ", ", a.In, " tokens in, ", a.Out, " out", finish),
				faultOf(a.Error), frameOf(a.Text),
				g.Map(a.Calls, callHTML),
			)
		} else {
			round = append(round, line("Waiting for the model."))
		}
		if f := r.Refused; f != nil {
			round = append(round,
				para("fault", h.Strong(text("Refused (", f.Kind, "):")), text(" ", f.Detail)),
				source("What the model was told", f.Told),
			)
		}
		all = append(all, h.Div(round...))
	}
	return all
}

func callHTML(c turnlog.Call) g.Node { return frame(c.Name + " " + c.Arguments) }

func (v *turnView) plan() (all g.Group) {
	if len(v.Rounds) == 0 && len(v.Plans) == 0 {
		return g.Group{line("There was no plan.")}
	}
	for i, r := range v.Rounds {
		if f := r.Refused; f != nil {
			all = append(all, para("fault", text("Answer ", i+1, " was no plan that can run. ", f.Kind, ": ", f.Detail)))
		}
		if p := r.Plan; p != nil {
			all = append(all,
				g.If(len(p.Repairs) > 0, para("note", text("Repaired: ", strings.Join(p.Repairs, ", ")))),
				g.If(p.Salvaged, para("note", text("Found in the middle of a text."))),
				g.If(p.Prose, para("note", text("The answer was a text, which is said as it is."))),
			)
		}
	}
	for i, p := range v.Plans {
		all = append(all, planList(p, fmt.Sprint("Plan ", i+1)))
	}
	return all
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

func (v *turnView) commands() g.Node {
	if len(v.Commands) == 0 {
		return line("No action was called.")
	}
	heads := []string{"Command", "Planned", "Resolved", "Result", "Time"}
	return wide("Commands", heads, g.Map(v.Commands, func(c turnlog.Command) g.Node {
		resolved := frame(c.Resolved)
		if c.Planned == c.Resolved {
			resolved = dim("the same")
		}
		return h.Tr(
			h.Data("command", c.Action), h.Data("result", c.Result),
			h.Td(
				text(c.Number, ". "), code(c.Action),
				g.If(c.Approved, g.Group{space, label("approved")}), g.If(c.Again, g.Group{space, label("again")}),
			),
			h.Td(frame(c.Planned)), h.Td(resolved),
			h.Td(text(c.Result), frameOf(c.Text), frameOf(c.Data), faultOf(c.Error), dim("attempt ", c.Key)),
			h.Td(text(took(c.TookNS))),
		)
	}))
}

func (v *turnView) journal() g.Node {
	if len(v.Journal) == 0 {
		return line("Nothing was saved.")
	}
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

func (v *turnView) sent() g.Node {
	if len(v.Sent) == 0 {
		return line("Nothing was sent.")
	}
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
			frameOf(s.Text), faultOf(s.Error), g.If(len(s.Activity) > 0, source("Activity", pretty(s.Activity))),
		)
	}))
}

func (v *turnView) log() g.Node {
	if len(v.Log) == 0 {
		return line("The log has no line of this turn.")
	}
	return h.Ol(h.Class("lines"), g.Map(v.Log, func(l turnlog.Line) g.Node {
		return h.Li(h.Data("level", l.Level), h.Details(h.Summary(h.Strong(text(l.Level)), text(" ", l.Text)), frame(pretty(l.Line))))
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
			link(markup.Address("/dev/turns/compare.json").With("a", v.A.ID).With("b", v.B.ID), "JSON"), space, link("/dev/turns", "All turns"),
		),
	)
}

// savePage is the form that makes a test of turns.
func (p *Page) savePage(v testView) g.Node {
	turns := g.Map(v.IDs, func(id string) g.Node { return sends("turn", id) })
	return body(
		h.H1(text("Save as test")),
		g.If(v.Saved != "", h.P(
			h.Class("note"), h.Role("status"), text("Saved as "), code(v.Saved), text(". Play it with "), code("bottest run ", v.Saved),
			text(", or in a Go test of your own bot with "), code(`bottest.RunScenarios(t, b, "`, v.Saved, `")`), text("."),
		)),
		g.If(len(v.Turns) > 0, h.Form(
			h.Method("get"), markup.Action("/dev/turns/save"), h.H2(text("Turns")),
			h.FieldSet(h.Legend(text("Turns of the conversation, oldest first")), h.Ul(h.Class("choice"), g.Map(v.Turns, func(t chosenTurn) g.Node {
				return h.Li(h.Label(
					h.Class("check"), h.Input(h.Type("checkbox"), h.Name("turn"), h.Value(t.ID), markup.On("checked", t.Chosen)),
					text(" ", t.Person, ": ", t.Text, " "), dim(t.Outcome, ", ", clock(t.At)),
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
func (p *Page) whatIfPage(v whatIfView) g.Node {
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

func (p *Page) whatIfForm(v whatIfView) g.Node {
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

// cost says what a run may cost.
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
		calls = h.Ol(h.Class("plan"), g.Map(newest.Calls, trialCall.html))
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

func (c trialCall) html() g.Node {
	about := g.Group{text(c.Text)}
	if c.Action != "" {
		about = g.Group{code(c.Action), space, code(c.Entities)}
	}
	return h.Li(h.Data("would", c.Action), h.Strong(text(c.Kind)), space, about, text(": ", c.Verdict), frameOf(c.Result))
}

func (c sectionChange) html() g.Node {
	if c.Same {
		return h.Li(h.Data("section", c.Name), h.Span(h.Class("name"), text(c.Name)), text(" the same, ", c.Is, " tokens"))
	}
	return h.Li(
		h.Data("section", c.Name), h.Span(h.Class("name"), text(c.Name)), text(" ", c.Was, " tokens became ", c.Is),
		h.Pre(h.Class("diff"), h.TabIndex("0"), g.Map(c.Lines, func(l diffLine) g.Node {
			switch l.Kind {
			case "was":
				return g.Group{h.Del(text("− ", l.Text)), g.Text("\n")}
			case "is":
				return g.Group{h.Ins(text("+ ", l.Text)), g.Text("\n")}
			}
			return g.Group{h.Span(text("  ", l.Text)), g.Text("\n")}
		})),
	)
}

func answers(rounds []turnlog.Round) (all g.Group) {
	if len(rounds) == 0 {
		return g.Group{line("No model was asked.")}
	}
	for _, r := range rounds {
		if a := r.Answer; a != nil {
			all = append(all, faultOf(a.Error), frameOf(a.Text), g.Map(a.Calls, callHTML))
		}
		if f := r.Refused; f != nil {
			all = append(all, para("fault", text("Refused (", f.Kind, "): ", f.Detail)))
		}
	}
	return all
}
