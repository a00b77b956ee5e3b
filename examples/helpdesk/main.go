// Command helpdesk is the helpdesk of a company: people open and close tickets, restart their
// devices, and get a person of the support team when the bot is not enough.
//
//	go run ./examples/helpdesk
//
// Without a key it plans with the offline model, which takes the examples of the actions, such as
// "open a ticket: the VPN is down". See README.md beside it.
package main

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/app/full"
	"github.com/planbot-go/planbot/bot"
)

func main() { app.Main(helpdesk(pretend), full.Features()...) }

// helpdesk is the bot, with the service that restarts devices: a real one, or that of a test.
func helpdesk(service restarter) app.Bot {
	return app.Bot{
		Name: "Helpdesk", Routes: addRoutes,
		Instructions: `You are the helpdesk of Contoso. Be brief and friendly.
Open one ticket for each problem. If a device hangs, offer to restart it first.
If somebody is upset or asks for the same thing again, offer to bring in a person.`,
		Welcome:  "Hello, this is the helpdesk. Tell me what is wrong, or say /tickets to see your tickets.",
		Examples: []string{"Open a ticket: the VPN is down.", "Restart HP-2231.", "Show my tickets."},
		Register: func(r *actions.Registry) { register(r, service) },
		Texts: map[string]map[string]string{"en": {"/tickets": "shows your tickets"}, "de": {
			"Open a ticket": "Ticket öffnen", "Show tickets": "Tickets zeigen", "Assign a ticket": "Ticket zuweisen",
			"Close a ticket": "Ticket schließen", "Bring in a person": "Einen Menschen holen", "Restart a device": "Gerät neu starten",
			"shows your tickets": "zeigt deine Tickets",
		}},
	}
}

// register adds what the model can plan with. The examples are what the offline model answers.
func register(r *actions.Registry, service restarter) {
	actions.Add(r, "openTicket", "Opens a ticket for a problem", openTicket, actions.StateOnly,
		actions.Title("Open a ticket"), actions.Example("open a ticket: {title}", "open a ticket with priority {priority}: {title}"))
	actions.Add(r, "showTickets", "Shows the person's open tickets or, in the support channel, all", showTickets,
		actions.StateOnly, actions.ReturnsData, actions.Title("Show tickets"), actions.Example("show my tickets"))
	actions.Add(r, "assignTicket", "Says who works on a ticket", assignTicket, actions.StateOnly,
		actions.Title("Assign a ticket"), actions.Example("assign ticket {ticket} to {name}"))
	actions.Add(r, "closeTicket", "Closes a ticket", closeTicket, actions.StateOnly, actions.NeedsApproval,
		actions.Title("Close a ticket"), actions.Example("close ticket {ticket}"))
	actions.Add(r, "bringInPerson", "Has the support team join the conversation about a ticket", bringInPerson,
		actions.Title("Bring in a person"), actions.Example("I need a person for ticket {ticket}"))
	actions.Add(r, "restartDevice", "Restarts a device", service.restart, actions.Later(2*time.Minute),
		actions.Title("Restart a device"), actions.Example("restart {device}"))
	r.OnForget(forget)
}

// addRoutes adds what works without a model.
func addRoutes(b *bot.Bot) {
	b.OnCommand("/tickets", sendTickets)
	b.OnCommand("/support", beSupport)
	b.OnCommand("/close", closeTalk)
	b.OnCardAction("take", takeOver)
	b.OnNotice("tickets", sendTickets)
	b.Use(relay)
}

// restarter restarts a device and says how it is after that. A call with the key of another is the
// same restart once more.
type restarter func(ctx context.Context, key, device string) (status string, err error)

type device struct {
	Name string `json:"device" title:"Device" jsonschema:"its name, such as HP-2231"`
}

// restart calls the service, up to three times. The key is always the same, also if the process dies
// and another one runs the action again.
func (service restarter) restart(ctx context.Context, _ *actions.Turn, in device) (actions.Result, error) {
	key := actions.AttemptOf(ctx).Key
	status, err := backoff.Retry(ctx, func() (string, error) {
		ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		return service(ctx, key, in.Name)
	}, backoff.WithMaxTries(3))
	switch {
	case ctx.Err() != nil: // the turn is over, or goes on in another process
		return actions.Result{}, ctx.Err()
	case err != nil:
		return actions.Fail("%s cannot be restarted now", in.Name), nil
	}
	return actions.Text("%s is %s.", in.Name, status), nil
}

// pretend stands in for a real service.
func pretend(ctx context.Context, _, _ string) (string, error) {
	select {
	case <-time.After(8 * time.Second):
		return "up again", nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}
