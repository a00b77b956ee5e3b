// Command expenses is a bot to which people send their receipts. The manager approves what is below 500, and two
// people what is more; if the manager says nothing for a day, the board is asked, too. See README.md beside it.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/oauth2/clientcredentials"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/graph"
	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/app/full"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/state"
)

func main() { app.Main(expenses(office()), full.Features()...) }

// deciders are who approves expenses.
type deciders struct {
	manager actions.Finder // of the person who asks
	board   []string
}

// office has the manager from Entra if the bot may read it there, else those of a setting, for a first try.
func office() deciders {
	d := deciders{board: strings.Fields(os.Getenv("EXPENSES_BOARD"))}
	d.manager = func(context.Context, *actions.Turn, actions.Call) ([]string, error) {
		return strings.Fields(os.Getenv("EXPENSES_MANAGERS")), nil
	}
	if tenant := os.Getenv("EXPENSES_TENANT"); tenant != "" {
		entra := clientcredentials.Config{
			ClientID: os.Getenv("EXPENSES_APP"), ClientSecret: os.Getenv("EXPENSES_SECRET"),
			TokenURL: "https://login.microsoftonline.com/" + tenant + "/oauth2/v2.0/token", Scopes: []string{"https://graph.microsoft.com/.default"},
		}
		d.manager = graph.Client{Transport: entra.Client(context.Background()).Transport}.Manager
	}
	return d
}

// expenses is the bot.
func expenses(d deciders) app.Bot {
	return app.Bot{
		Name:         "Expenses",
		Instructions: "You take claims for expenses. Read amount and purpose from the photo of the receipt. Ask if you cannot read them.",
		Welcome:      "Hello, send me a photo of your receipt and say what it was for.",
		Examples:     []string{"Claim 42.50 for the taxi to the customer.", "What have I claimed?"},
		Register: func(r *actions.Registry) {
			actions.Add(r, "claim", "Claims an expense", claim, actions.StateOnly,
				actions.Title("Claim an expense"), actions.Example("claim {amount} for {purpose}"))
			actions.Add(r, "showClaims", "Shows what the person has claimed", showClaims, actions.StateOnly, actions.ReturnsData,
				actions.Title("Show my claims"), actions.Example("what have I claimed?"))
		},
		Setup: func(cfg *bot.Config) error {
			cfg.Policy = d.policy
			return nil
		},
	}
}

// limit is what one person may approve less than.
const limit = 500

// policy says who approves. It is asked again at each click, so it counts who is the manager then.
func (d deciders) policy(ctx context.Context, turn *actions.Turn, call actions.Call) (actions.Approval, error) {
	if call.Action.Name != "claim" {
		return actions.DefaultPolicy(ctx, turn, call)
	}
	amount, err := strconv.ParseFloat(fmt.Sprint(call.Entities["amount"]), 64)
	if err != nil {
		return actions.Approval{}, errors.New("a claim without an amount")
	}
	a := actions.Approval{Required: true, Find: d.manager, Delegation: true, Within: 3 * 24 * time.Hour}
	switch {
	case amount >= limit:
		a.Approvers, a.Quorum = d.board, 2
		a.Reason = fmt.Sprintf("%d and more need two approvals.", limit)
	case len(d.board) > 0:
		a.Escalate = []actions.Escalation{{After: 24 * time.Hour, To: d.board}}
	}
	return a, nil
}

type expense struct {
	Amount  float64 `json:"amount" jsonschema:"in euros, as the receipt says" minimum:"0.01"`
	Purpose string  `json:"purpose" jsonschema:"what it was for" minLength:"3"`
}

// claims are a person's approved expenses.
type claims struct{ All []expense }

func claim(_ context.Context, turn *actions.Turn, in expense) (actions.Result, error) {
	mine := state.Of[claims](turn.User)
	mine.All = append(mine.All, in)
	return actions.Text("%.2f for %s will be paid with your next salary.", in.Amount, in.Purpose), nil
}

func showClaims(_ context.Context, turn *actions.Turn, _ struct{}) (actions.Result, error) {
	mine := state.Peek[claims](turn.User)
	lines := []string{fmt.Sprintf("Your claims: %d", len(mine.All))}
	for _, e := range mine.All {
		lines = append(lines, fmt.Sprintf("- %.2f for %s", e.Amount, e.Purpose))
	}
	return actions.Text("%s", strings.Join(lines, "\n")), nil
}
