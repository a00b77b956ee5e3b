package viewer

import (
	"strconv"

	g "maragu.dev/gomponents"

	"github.com/planbot-go/planbot/internal/markup"
	h "github.com/planbot-go/planbot/internal/markup/html"
)

// html is the page.
func (p page) html() g.Node {
	return h.Doctype(h.HTML(
		h.Lang("en"),
		h.Head(
			h.Meta(h.Charset("utf-8")),
			h.Meta(h.Name("viewport"), h.Content("width=device-width, initial-scale=1")),
			h.TitleEl(g.Text(p.Title)),
			h.Link(h.Rel("stylesheet"), markup.Href("/style.css")),
		),
		h.Body(
			h.Header(
				h.A(markup.Href("/"), g.Text(p.Bot+": turns")),
				g.If(p.Who != "", h.Span(g.Text(p.Who))),
				g.If(p.Who != "" && p.SignsIn, h.Form(h.Method("post"), markup.Action("/sign-out"), h.Button(g.Text("Sign out")))),
			),
			h.Main(
				h.H1(g.Text(p.Title)),
				g.If(p.Said != "", h.P(h.Role("status"), g.Text(p.Said))),
				g.If(p.Who != "", p.search()),
				g.Map(p.Parts, part.html),
				g.If(len(p.Dead) > 0, deadLetters(p.Dead)),
				g.If(p.Content, h.Form(
					h.Method("post"), markup.Action(markup.At("/turns", p.ID, "content")),
					h.Button(g.Text("Show what people wrote")), g.Text(" "), h.Small(g.Text("This look is written down.")),
				)),
				g.If(p.Act, p.acts()),
			),
		),
	))
}

func (p page) search() g.Node {
	return h.Form(
		h.Method("get"), markup.Action("/turns"), h.Role("search"),
		h.Label(h.For("id"), g.Text("Turn id, or the bot's message that has it")),
		h.Input(h.ID("id"), h.Name("id"), h.Required(), h.MaxLength("2000"), h.AutoComplete("off"), h.Value(p.ID)),
		h.Button(g.Text("Find")),
	)
}

func (p part) html() g.Node {
	return g.Group{
		h.H2(g.Text(p.Title)),
		h.Table(h.TBody(g.Map(p.Rows, func(row [2]string) g.Node {
			return h.Tr(h.Th(h.Scope("row"), g.Text(row[0])), h.Td(g.Text(row[1])))
		}))),
	}
}

func deadLetters(dead []deadLetter) g.Node {
	head := func(text string) g.Node { return h.Th(h.Scope("col"), g.Text(text)) }
	return g.Group{
		h.H2(g.Text("Dead letters")),
		h.Table(
			h.THead(h.Tr(head("Turn"), head("Since"), head("Reason"))),
			h.TBody(g.Map(dead, func(d deadLetter) g.Node {
				return h.Tr(h.Td(h.A(markup.Href(markup.At("/turns", d.ID)), g.Text(d.ID))), h.Td(g.Text(d.Since)), h.Td(g.Text(d.Reason)))
			})),
		),
	}
}

// acts are the forms with which an operator retries a turn, or forgets it.
func (p page) acts() g.Node {
	reason := func(id string) g.Node {
		return g.Group{
			h.Label(h.For(id), g.Text("Reason")), g.Text(" "),
			h.Input(h.ID(id), h.Name("reason"), h.Required(), h.MaxLength(strconv.Itoa(maxReason))),
		}
	}
	return g.Group{
		h.H2(g.Text("Act")),
		h.Form(
			h.Method("post"), markup.Action(markup.At("/turns", p.ID, "retry")),
			reason("why-retry"), g.Text(" "), h.Button(g.Text("Retry")),
		),
		h.Form(
			h.Method("post"), markup.Action(markup.At("/turns", p.ID, "drop")),
			reason("why-drop"), g.Text(" "),
			h.Label(h.For("typed"), g.Text("Type "+p.ID+" to forget this turn for good")), g.Text(" "),
			h.Input(h.ID("typed"), h.Name("typed"), h.Required(), h.AutoComplete("off")), g.Text(" "), h.Button(g.Text("Drop")),
		),
	}
}
