// Command approvals is a bot that pays what others approve: Ben and Carla together or, once Ben has said nothing for a
// while, one of them.
package main

import (
	"context"
	"os"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/app/full"
	"github.com/planbot-go/planbot/bot"
)

func main() {
	app.Main(app.Bot{
		Name:     "Payments",
		Register: func(r *actions.Registry) { actions.Add(r, "pay", "Pays a bill", pay) },
		Setup: func(cfg *bot.Config) error {
			cfg.Policy = policy
			return nil
		},
	}, full.Features()...)
}

func policy(_ context.Context, _ *actions.Turn, call actions.Call) (actions.Approval, error) {
	ben, carla := "aad-Ben", "aad-Carla"
	if call.Entities["who"] == "pair" {
		return actions.Approval{Required: true, Approvers: []string{ben, carla}, Quorum: 2, Within: 30 * time.Second}, nil
	}
	later := []actions.Escalation{{After: 2 * time.Second, To: []string{carla}}}
	return actions.Approval{Required: true, Approvers: []string{ben}, Escalate: later, Within: 30 * time.Second}, nil
}

type bill struct {
	Who  string `json:"who"`
	Bill string `json:"bill"`
}

// pay adds a line to a ledger each time that it runs.
func pay(_ context.Context, _ *actions.Turn, in bill) (actions.Result, error) {
	ledger, err := os.OpenFile(os.Getenv("LEDGER"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return actions.Result{}, err
	}
	_, err = ledger.WriteString(in.Bill + "\n")
	if err != nil {
		return actions.Result{}, err
	}
	time.Sleep(200 * time.Millisecond) // in which processes may be killed
	return actions.Text("Paid."), ledger.Close()
}
