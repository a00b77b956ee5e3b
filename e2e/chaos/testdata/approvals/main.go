// Command approvals is a bot that pays what others approve: Ben and Carla together or, once Ben has said nothing for a
// while, one of them. It also takes slow steps, which nobody has to approve.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/app/full"
	"github.com/planbot-go/planbot/bot"
)

func main() {
	app.Main(app.Bot{
		Name: "Payments",
		Register: func(r *actions.Registry) {
			actions.Add(r, "pay", "Pays a bill", pay)
			for n := range 3 {
				name := fmt.Sprintf("step%d", n+1)
				actions.Add(r, name, "Takes a step", func(_ context.Context, _ *actions.Turn, in work) (actions.Result, error) {
					return enter(fmt.Sprintf("%s %s %d", in.For, name, time.Now().UnixNano()))
				}, actions.Title(fmt.Sprintf("Step %d", n+1)))
			}
		},
		Setup: func(cfg *bot.Config) error {
			cfg.Policy = policy
			return nil
		},
	}, full.Features()...)
}

func policy(_ context.Context, _ *actions.Turn, call actions.Call) (actions.Approval, error) {
	if call.Action.Name != "pay" {
		return actions.Approval{}, nil
	}
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

type work struct {
	For string `json:"for"`
}

func pay(_ context.Context, _ *actions.Turn, in bill) (actions.Result, error) { return enter(in.Bill) }

// enter adds a line to a ledger.
func enter(line string) (actions.Result, error) {
	ledger, err := os.OpenFile(os.Getenv("LEDGER"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return actions.Result{}, err
	}
	_, err = ledger.WriteString(line + "\n")
	if err != nil {
		return actions.Result{}, err
	}
	time.Sleep(200 * time.Millisecond) // in which processes may be killed
	return actions.Text("Done."), ledger.Close()
}
