package actions_test

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/connector"
	"github.com/planbot-go/planbot/state"
)

func ExampleNew() {
	registry := actions.New()
	actions.Add(registry, "closeTicket", "Closes a ticket",
		func(context.Context, *actions.Turn, struct{ ID int }) (actions.Result, error) {
			return actions.Done, nil
		},
		actions.NeedsApproval, actions.Title("Close a ticket"), actions.Example("close ticket {ID}"))

	for _, action := range registry.All() {
		fmt.Println(action.Name, action.Title, action.Approval, action.Examples)
	}
	// Output: closeTicket Close a ticket true [close ticket {ID}]
}

// The schema of an action may come from elsewhere, such as an API description.
func ExampleAddSchema() {
	schema := &jsonschema.Schema{Type: "object", Required: []string{"city"}, Properties: map[string]*jsonschema.Schema{"city": {Type: "string"}}}
	weather, err := actions.AddSchema(actions.New(), "weather", "Tells the weather of a city", schema,
		func(_ context.Context, _ *actions.Turn, entities map[string]any) (actions.Result, error) {
			return actions.Text("It rains in %s.", entities["city"]), nil
		})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = weather.Check(map[string]any{})
	fmt.Println(err)
	result, err := weather.Call(context.Background(), &actions.Turn{}, map[string]any{"city": "Bergen"})
	fmt.Println(result.Text(), err)
	// Output:
	// missing required entity city
	// It rains in Bergen. <nil>
}

// sortLines reads the file that came with the message, and has one for the person.
func sortLines(ctx context.Context, t *actions.Turn, _ struct{}) (actions.Result, error) {
	if len(t.Files) == 0 {
		return actions.Fail("No file came with the message."), nil
	}
	content, mediaType, err := t.Files[0].Open(ctx)
	if err != nil {
		return actions.Done, err // if the link has expired, the person reads that
	}
	if mediaType != "text/plain" { // whatever its name says
		return actions.Fail("The file is not text, but %s.", mediaType), nil
	}
	text, err := io.ReadAll(content)
	if err != nil {
		return actions.Done, err
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	slices.Sort(lines)
	sorted := actions.File{Name: "sorted.txt", Description: "The lines in order", Content: []byte(strings.Join(lines, "\n"))}
	return actions.Text("It has %d lines.", len(lines)).WithFile(sorted), nil
}

func ExampleResult_WithFile() {
	sort := actions.Add(actions.New(), "sortLines", "Sorts the lines of the file that came with the message", sortLines)

	for _, content := range []string{"pears\napples\n", "%PDF-1.7"} {
		turn := &actions.Turn{Files: []actions.File{{Name: "groceries.txt", Content: []byte(content)}}}
		result, err := sort.Call(context.Background(), turn, nil)
		fmt.Println(result.Text(), err)
		for _, f := range result.Files() {
			fmt.Printf("%s: %q\n", f.Name, f.Content)
		}
	}
	// Output:
	// It has 2 lines. <nil>
	// sorted.txt: "apples\npears"
	// The file is not text, but application/pdf. <nil>
}

// The model neither sees nor sets a field with a host tag.
func ExampleProvide() {
	type order struct {
		Drink string `json:"drink"`
		Room  string `host:"room"`
	}
	registry := actions.New()
	actions.Provide(registry, "room", func(_ context.Context, turn *actions.Turn) (string, error) {
		return *state.At[string](turn.User, "room"), nil
	})
	drink := actions.Add(registry, "order", "Orders a drink", func(_ context.Context, _ *actions.Turn, in order) (actions.Result, error) {
		return actions.Text("%s to room %s", in.Drink, in.Room), nil
	})

	turn := &actions.Turn{Activity: &activity.Activity{}, User: state.NewScope()}
	*state.At[string](turn.User, "room") = "4.12"
	result, err := drink.Call(context.Background(), turn, map[string]any{"drink": "tea", "room": "1.01"})
	fmt.Println(result.Text(), err)
	// Output: tea to room 4.12 <nil>
}

func ExampleRead() {
	registry, err := actions.Read(strings.NewReader(`[
		{"name": "addDrink", "description": "Adds a drink", "parameters": {"type": "object", "properties": {"drink": {"type": "string"}}, "required": ["drink"]}}
	]`))
	if err != nil {
		fmt.Println(err)
		return
	}
	drink, _ := registry.Lookup("adddrink")
	_, err = drink.Check(map[string]any{"drink": " "})
	fmt.Println(drink.Name, err)
	// Output: addDrink missing required entity drink
}

// An action says what it did, why it could not, or that there was nothing to do. A Go error is
// for what neither the model nor the person should read.
func ExampleResult() {
	type ticket struct {
		ID    int    `json:"id"`
		Title string `json:"title"`
	}
	tickets := map[int]ticket{7: {7, "VPN is down"}}
	closeTicket := func(id int) actions.Result {
		switch _, found := tickets[id]; {
		case id < 1:
			return actions.Fail("tickets are numbered from 1")
		case !found:
			return actions.Unchanged("There is no ticket %d.", id)
		}
		delete(tickets, id)
		return actions.Text("closed ticket %d", id)
	}
	for _, result := range []actions.Result{
		actions.JSON(tickets[7]), actions.Observe(tickets), closeTicket(0), closeTicket(1), closeTicket(7),
	} {
		fmt.Println(result.Text(), result.Failed(), result.Unchanged(), result.Observe())
	}
	// Output:
	// {"id":7,"title":"VPN is down"} false false false
	// {"7":{"id":7,"title":"VPN is down"}} false false true
	// tickets are numbered from 1 true false false
	// There is no ticket 1. false true false
	// closed ticket 7 false false false
}

// A service that knows the key does the same thing once, also if a process was killed meanwhile.
func ExampleAttemptOf() {
	pay := actions.Add(actions.New(), "pay", "Pays", func(ctx context.Context, _ *actions.Turn, _ struct{}) (actions.Result, error) {
		attempt := actions.AttemptOf(ctx)
		return actions.Text("paid with key %s, again: %v", attempt.Key, attempt.Again), nil
	})
	ctx := actions.Attempt{Key: "turn-1/0", Again: true}.Context(context.Background()) // the bot does this
	result, err := pay.Call(ctx, &actions.Turn{}, nil)
	fmt.Println(result.Text(), err)
	// Output: paid with key turn-1/0, again: true <nil>
}

// Keep the recipient of a conversation to write there later.
func ExampleTo() {
	in := &activity.Activity{Type: activity.Message, ChannelID: activity.Teams}
	in.Recipient.ID, in.Conversation.ID = "28:bot", "19:team@thread.v2"
	notice := actions.Notice{To: actions.To(in), Text: "The build is green.", Key: "build 7"}
	fmt.Println(notice.To.Channel, notice.To.Conversation)
	// Output: msteams 19:team@thread.v2
}

// What people read while an action runs is its own, or what it says about how far it is.
func ExampleDoing() {
	r := actions.New()
	search := actions.Add(r, "searchTickets", "Searches the tickets", func(_ context.Context, turn *actions.Turn, _ struct{}) (actions.Result, error) {
		turn.Progress(turn.Translate("Read %d of %d pages", 3, 12))
		return actions.Text("no ticket"), nil
	}, actions.Doing("Searching tickets"))
	turn := &actions.Turn{OnProgress: func(text string) { fmt.Println(text) }} // a bot sets it
	fmt.Println(search.Doing)
	result, err := search.Call(context.Background(), turn, nil)
	fmt.Println(result.Text(), err)
	// Output:
	// Searching tickets
	// Read 3 of 12 pages
	// no ticket <nil>
}

// A restart that people do not wait for. The bot tells them once it is over.
func ExampleLater() {
	r := actions.New()
	restart := actions.Add(r, "restart", "Restarts the server", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) {
		return actions.Text("It is up again."), nil
	}, actions.Later(10*time.Minute))
	fmt.Println(restart.Later)
	fmt.Println(restart.Description)
	// Output:
	// 10m0s
	// Restarts the server. It takes long: its result comes later, in a turn of its own
}

// An action that works in another service as the person who asks. The bot runs it once they have signed
// in to the connection.
func ExampleNeedsToken() {
	next := func(token string) string { return fmt.Sprintf("Stand-up at 9 (%d characters of token)", len(token)) }
	r := actions.New()
	actions.Add(r, "nextMeeting", "Says when the person's next meeting is",
		func(ctx context.Context, turn *actions.Turn, _ struct{}) (actions.Result, error) {
			token, err := turn.UserToken(ctx, "graph")
			if err != nil {
				return actions.Result{}, err
			}
			return actions.Text("%s", next(token.Secret())), nil
		}, actions.NeedsToken("graph"))
	action, _ := r.Lookup("nextMeeting")
	turn := &actions.Turn{UserToken: func(_ context.Context, connection string) (connector.UserToken, error) { // a bot sets it
		return connector.UserToken{Connection: connection}, nil
	}}
	result, err := action.Call(context.Background(), turn, nil)
	fmt.Println(action.Connection, result.Text(), err)
	// Output: graph Stand-up at 9 (0 characters of token) <nil>
}

// A click on a button of a card that an action shows. The data is checked as the entities of a plan.
func ExampleOnClick() {
	type closing struct {
		Ticket int `json:"ticket"`
	}
	registry := actions.New()
	actions.OnClick(registry, "desk/close", func(_ context.Context, turn *actions.Turn, in closing) (actions.Result, error) {
		card := activity.Card{Fallback: fmt.Sprintf("Ticket %d is closed.", in.Ticket), Body: []any{activity.TextBlock{Text: "Closed"}}}
		return actions.Card(card, ""), nil
	})
	// A client that opens the chat later shows the ticket as it is then.
	actions.OnRefresh(registry, "desk/show", func(context.Context, *actions.Turn, closing) (actions.Result, error) {
		return actions.Text("Ticket 7 is open."), nil
	})

	clicks, refreshes := registry.Clicks()
	fmt.Println(clicks[0].Name, refreshes[0].Name)
	_, err := clicks[0].Check(map[string]any{"ticket": "seven"})
	fmt.Println(err)
	result, err := clicks[0].Call(context.Background(), &actions.Turn{}, map[string]any{"ticket": 7})
	fmt.Println(result.Text(), err)
	// Output:
	// desk/close desk/show
	// entity ticket: want an integer, got the string "seven"
	// Ticket 7 is closed. <nil>
}

// An entity may have other names, and be that of the command before.
func ExampleAlias() {
	type item struct {
		List string `json:"list"`
		Item string `json:"item"`
	}
	registry := actions.New()
	add := func(context.Context, *actions.Turn, item) (actions.Result, error) { return actions.Done, nil }
	action := actions.Add(registry, "addItem", "Adds an item to a list", add, actions.Alias("item", "name"), actions.Inherit("list"))
	fmt.Println(action.Aliases, action.Inherited, registry.Check())
	// Output: map[name:item] [list] <nil>
}
