// Command teams is a bot that uses what only Teams has: a message extension with a search, an action
// and cards for links, dialogs, choices that are looked up while a person types, settings, a feedback
// form, pressed suggestions and conversations that go on from Copilot. It keeps a person's tickets.
//
//	go run ./examples/teams
//	go run ./examples/teams manifest build --app-id APP_ID --domain HOST
package main

import (
	"context"
	"fmt"
	"net/url"
	"path"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/app/full"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bot/teams"
	"github.com/planbot-go/planbot/state"
)

// desk is what the bot keeps of a person.
type desk struct {
	Tickets []ticket `json:"tickets,omitempty"`
}

// office is what the bot keeps of a team or group. Whoever sets it up may change it.
type office struct {
	Team  string `json:"team,omitempty"`
	Owner string `json:"owner,omitempty"` // the account id
}

type ticket struct {
	ID     int    `json:"id"`
	Title  string `json:"title"`
	Closed bool   `json:"closed,omitzero"`
}

func of(t *actions.Turn) *desk { return state.Of[desk](t.User) }

// open adds a ticket.
func (d *desk) open(title string) ticket {
	d.Tickets = append(d.Tickets, ticket{ID: len(d.Tickets) + 1, Title: title})
	return d.Tickets[len(d.Tickets)-1]
}

// find returns the ticket with that number, or nil.
func (d *desk) find(id int) *ticket {
	if id < 1 || id > len(d.Tickets) {
		return nil
	}
	return &d.Tickets[id-1]
}

func (t ticket) name() string { return fmt.Sprintf("Ticket %d", t.ID) }

func (t ticket) card() activity.Card {
	c := activity.Card{
		Fallback: t.name() + ": " + t.Title,
		Body:     []any{activity.TextBlock{Text: t.name(), Weight: "bolder"}, activity.RichText{{Text: t.Title}}},
		Actions:  []any{activity.Button{Title: "Close it", Verb: "desk/close", Data: t}},
	}
	if t.Closed {
		c.Body, c.Actions = append(c.Body, activity.TextBlock{Text: "Closed", Subtle: true}), nil
	}
	return c
}

// plain is the card without its button: what the message extension inserts is no message of the bot.
func (t ticket) plain() activity.Card {
	c := t.card()
	c.Actions = nil
	return c
}

type newTicket struct {
	Title string `json:"title"`
}

func openTicket(_ context.Context, turn *actions.Turn, in newTicket) (actions.Result, error) {
	return actions.Card(of(turn).open(in.Title).card(), ""), nil
}

// closeTicket is what a click on the card's button does. Tickets are a person's own, so in a group the
// button of a ticket works for its person alone, and nobody else gets the new card: see [actions.OnClick].
func closeTicket(_ context.Context, turn *actions.Turn, in ticket) (actions.Result, error) {
	t := of(turn).find(in.ID)
	if t == nil {
		return actions.Fail("This is not one of your tickets."), nil
	}
	t.Closed = true
	return actions.Card(t.card(), ""), nil
}

func register(r *actions.Registry) {
	actions.Add(r, "openTicket", "Opens a ticket", openTicket, actions.StateOnly, actions.Example("open a ticket {title}"))
	actions.OnClick(r, "desk/close", closeTicket)
}

// search answers what people type into the message extension.
func search(_ context.Context, t *bot.Turn, q teams.Query) (found teams.Answer, err error) {
	for _, one := range of(t.Turn).Tickets {
		if strings.Contains(strings.ToLower(one.Title), strings.ToLower(q.Text)) {
			found.Items = append(found.Items, teams.Item{Card: one.plain(), Title: one.name(), Text: one.Title})
		}
	}
	found.Items = found.Items[min(q.Skip, len(found.Items)):]
	found.Items = found.Items[:min(q.Count, len(found.Items))]
	return found, nil
}

// form asks for a ticket. The message that an action was invoked on is what it begins with.
func form(_ context.Context, _ *bot.Turn, in teams.Input) (teams.Answer, error) {
	title := ""
	if in.Message != nil {
		title = "About a message of " + in.Message.User
	}
	return teams.Answer{Form: &teams.Form{Title: "New ticket", Card: activity.Card{
		Fallback: "A form for a new ticket",
		Body:     []any{map[string]any{"type": "Input.Text", "id": "title", "label": "Title", "value": title, "isRequired": true, "errorMessage": "Give it a title"}},
		Actions:  []any{activity.Button{Title: "Open it", Data: map[string]any{"verb": "newTicket"}}},
	}}}, nil
}

// filled opens the ticket of a form.
func filled(t *bot.Turn, in teams.Input) (ticket, error) {
	var data newTicket
	if err := in.Read(&data); err != nil {
		return ticket{}, err
	}
	if data.Title = strings.TrimSpace(data.Title); data.Title == "" || utf8.RuneCountInString(data.Title) > 200 {
		return ticket{}, &bot.InvokeError{Status: 400, Code: "BadTitle", Message: "A title has 1 to 200 characters."}
	}
	return of(t.Turn).open(data.Title), nil
}

func submitAction(_ context.Context, t *bot.Turn, in teams.Input) (teams.Answer, error) {
	opened, err := filled(t, in)
	return teams.Answer{Items: []teams.Item{{Card: opened.plain(), Title: opened.name()}}}, err
}

func submitDialog(_ context.Context, t *bot.Turn, in teams.Input) (teams.Answer, error) {
	opened, err := filled(t, in)
	return teams.Answer{Message: opened.name() + " is open."}, err
}

// link shows the ticket of an address such as https://desk.example.com/tickets/7.
func link(_ context.Context, t *bot.Turn, q teams.Query) (teams.Answer, error) {
	address, err := url.Parse(q.Text)
	if err != nil {
		return teams.Answer{}, err
	}
	id, _ := strconv.Atoi(path.Base(address.Path))
	one := of(t.Turn).find(id)
	if one == nil {
		return teams.Answer{}, nil
	}
	return teams.Answer{Items: []teams.Item{{Card: one.plain(), Title: one.name(), Text: one.Title}}}, nil
}

// strangersLink is for people without the app: it says nothing about the ticket.
func strangersLink(context.Context, *bot.Turn, teams.Query) (teams.Answer, error) {
	card := activity.Card{Fallback: "A ticket", Body: []any{activity.TextBlock{Text: "A ticket of the help desk"}}}
	return teams.Answer{Items: []teams.Item{{Card: card, Title: "A ticket"}}}, nil
}

// saveSettings keeps the settings of a team or group, not of the person who fills them in.
func saveSettings(_ context.Context, t *bot.Turn, in teams.Input) (teams.Answer, error) {
	var data struct{ Team string }
	if err := in.Read(&data); err != nil {
		return teams.Answer{}, err
	}
	here, person := state.Of[office](t.Conversation), t.Activity.From.ID
	if person == "" || here.Owner != "" && here.Owner != person {
		return teams.Answer{Message: "Only who set me up here may change this."}, nil
	}
	if data.Team = strings.TrimSpace(data.Team); utf8.RuneCountInString(data.Team) > 100 {
		return teams.Answer{Message: "A team has at most 100 characters."}, nil
	}
	here.Team, here.Owner = data.Team, person
	return teams.Answer{Message: "Saved."}, nil
}

func lookUp(_ context.Context, t *bot.Turn, q teams.Query) (found []teams.Choice, err error) {
	for _, one := range of(t.Turn).Tickets {
		if strings.Contains(strings.ToLower(one.Title), strings.ToLower(q.Text)) {
			found = append(found, teams.Choice{Title: one.Title, Value: strconv.Itoa(one.ID)})
		}
	}
	return found, nil
}

var routes = teams.Routes{
	Extension: teams.Extension{
		Commands: []teams.Command{
			{
				ID: "find", Title: "Find a ticket", Description: "Finds your tickets", Initial: true, Query: search,
				Parameters: []teams.Parameter{{Name: "words", Title: "Words"}},
			},
			{
				ID: "create", Title: "New ticket", Description: "Opens a ticket", Contexts: []string{"compose", "message"},
				Fetch: form, Submit: submitAction,
			},
		},
		Link: link, AnonymousLink: strangersLink, Domains: []string{"desk.example.com"},
	},
	Dialogs: map[string]teams.Dialog{"newTicket": {Fetch: form, Submit: submitDialog}},
	Search:  map[string]func(context.Context, *bot.Turn, teams.Query) ([]teams.Choice, error){"tickets": lookUp},
	Config: teams.Dialog{
		Fetch: func(context.Context, *bot.Turn, teams.Input) (teams.Answer, error) {
			return teams.Answer{Form: &teams.Form{Title: "Help desk", Card: activity.Card{
				Fallback: "The settings of the help desk",
				Body:     []any{map[string]any{"type": "Input.Text", "id": "team", "label": "Team"}},
				Actions:  []any{activity.Button{Title: "Save"}},
			}}}, nil
		},
		Submit: saveSettings,
	},
	FeedbackForm: func(_ context.Context, _ *bot.Turn, liked bool) (teams.Answer, error) {
		question := "What was good?"
		if !liked {
			question = "What went wrong?"
		}
		return teams.Answer{Form: &teams.Form{Title: "Feedback", Card: activity.Card{
			Fallback: question, Body: []any{map[string]any{"type": "Input.Text", "id": "feedbackText", "label": question}},
			Actions: []any{activity.Button{Title: "Send"}},
		}}}, nil
	},
	Suggested: func(ctx context.Context, t *bot.Turn, _ teams.Input) error { return t.Tell(ctx, "Noted.") },
	Handoff:   func(ctx context.Context, t *bot.Turn, _ teams.Input) error { return t.Tell(ctx, "Let's go on here.") },
}

// addRoutes shows the dialog and the choices in a card.
func addRoutes(b *bot.Bot) {
	b.OnCommand("/new", func(ctx context.Context, t *bot.Turn) error {
		return t.Show(ctx, activity.Card{
			Fallback: "Say: open a ticket, and its title.",
			Body:     []any{teams.Lookup("ticket", "tickets", "Is it like one of these?")},
			Actions:  []any{teams.Open("New ticket", "newTicket", nil)},
		})
	})
}

var desky = app.Bot{Name: "Desky", Register: register, Teams: routes, Routes: addRoutes}

func main() { app.Main(desky, full.Features()...) }
