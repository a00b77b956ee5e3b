package mcp_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/connections"
	"github.com/planbot-go/planbot/actions/mcp"
	"github.com/planbot-go/planbot/activity"
)

// A bot uses a server that somebody else runs. Reading needs no approval, because the operator says so.
func ExampleNew() {
	desk := httptest.NewServer(helpDesk())
	defer desk.Close()
	lock := connections.NewLock()
	lock.FirstUse = true // an operator would accept the tools: connections.ReadLock
	c, err := mcp.New(mcp.Config{
		Key: "desk", Summary: "tickets of the help desk", URL: desk.URL, Lock: lock,
		Rules: connections.Rules{Allow: []string{"find_ticket", "close_ticket"}, Unapproved: []string{"find_ticket"}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()

	turn := &actions.Turn{Activity: &activity.Activity{}}
	names, _ := c.Offer(context.Background(), turn)
	for _, name := range names {
		action, _ := c.Actions().Lookup(name)
		fmt.Println(action.Name, "needs approval:", action.Approval)
	}
	find, _ := c.Actions().Lookup("desk_find_ticket")
	result, err := find.Call(context.Background(), turn, map[string]any{"about": "printer"})
	fmt.Println(result.Text(), err)
	// Output:
	// desk_close_ticket needs approval: true
	// desk_find_ticket needs approval: false
	// {"id":7} <nil>
}

// helpDesk is a stand-in for the server.
func helpDesk() *sdk.StreamableHTTPHandler {
	type about struct {
		About string `json:"about"`
	}
	type ticket struct {
		ID int `json:"id"`
	}
	server := sdk.NewServer(&sdk.Implementation{Name: "desk", Version: "1"}, nil)
	for _, name := range []string{"find_ticket", "close_ticket", "delete_all_tickets"} {
		sdk.AddTool(server, &sdk.Tool{Name: name}, func(context.Context, *sdk.CallToolRequest, about) (*sdk.CallToolResult, ticket, error) {
			return nil, ticket{7}, nil
		})
	}
	return sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil)
}
