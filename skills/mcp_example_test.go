package skills_test

import (
	"context"
	"fmt"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/mcp"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/skills"
)

// A bot uses the skills of a server that somebody else runs.
func ExampleFromMCP() {
	desk := newShelf().refunds() // a stand-in for the server
	defer desk.Close()
	connection, err := mcp.New(mcp.Config{Key: "desk", URL: desk.URL})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer connection.Close()
	provider, err := skills.NewProvider(skills.ProviderConfig{
		Sources: []skills.Source{skills.FromMCP(connection)}, Template: "Skills:\n{skills}",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	extra, err := provider.Extend(context.Background(), &actions.Turn{Activity: &activity.Activity{}})
	fmt.Println(extra.Text, err)
	// Output:
	// Skills:
	// desk-refunds (of the server desk): Pays money back <nil>
}
