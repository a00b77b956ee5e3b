// Command agents is the default bot that other agents reach at /mcp with the token "demo", in the name
// of Mia. run-inspector.mjs tries it.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/mcp/server"
	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/app/agents"
	"github.com/planbot-go/planbot/app/full"
)

func main() {
	digest := sha256.Sum256([]byte("demo"))
	app.Main(app.Bot{
		Name: "Agents",
		Register: func(r *actions.Registry) {
			actions.Add(r, "orderCoffee", "Orders a coffee", func(_ context.Context, _ *actions.Turn, in struct {
				Kind string `json:"kind"`
			},
			) (actions.Result, error) {
				return actions.Text("One %s is on its way.", in.Kind), nil
			})
			actions.Add(r, "closeKitchen", "Closes the kitchen", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) {
				return actions.Text("closed"), nil
			}, actions.NeedsApproval)
		},
	}, append(full.Features(), agents.Feature(server.Config{
		Exposed:  []string{"orderCoffee", "closeKitchen"},
		Resource: "http://" + os.Getenv("BOT_ADDR") + "/mcp",
		Tokens:   []server.Token{{Name: "Inspector", SHA256: hex.EncodeToString(digest[:]), Tenant: "contoso", Person: "mia-in-entra"}},
	}))...)
}
