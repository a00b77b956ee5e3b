package bot_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/lists"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/connector"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner"
)

// post delivers an activity with these members, as a client on this machine does.
func post(url, members string, header ...string) (status int, body string) {
	in, err := http.NewRequestWithContext(context.Background(), http.MethodPost, url, strings.NewReader(
		`{"channelId": "emulator", "from": {"id": "mia"}, "recipient": {"id": "bot"}, "conversation": {"id": "c1"},
		"serviceUrl": "http://127.0.0.1", `+members+`}`))
	if err != nil {
		return 0, err.Error()
	}
	in.Header.Set("Content-Type", "application/json")
	if len(header) > 0 {
		in.Header.Set(header[0], header[1])
	}
	out, err := http.DefaultClient.Do(in)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = out.Body.Close() }()
	text, _ := io.ReadAll(out.Body)
	return out.StatusCode, string(text)
}

// A bot without an app id, for clients on this machine. [app.New] does this from a description of
// the bot; package app adds settings, logs and commands.
func ExampleNew() {
	ctx := context.Background()
	registry := actions.New()
	lists.Register(registry)
	sequence, err := planner.NewSequence(ctx, planner.Config{Model: models.Offline{}, Actions: registry})
	if err != nil {
		fmt.Println(err)
		return
	}
	b, err := bot.New(bot.Config{Actions: registry, Planner: sequence})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = b.Drain(ctx) }()
	b.OnCommand("/hours", func(ctx context.Context, t *bot.Turn) error { return t.Tell(ctx, "We are open from 6 to 22.") })

	server := httptest.NewServer(b) // or b.ListenAndServe(ctx, "127.0.0.1:3978")
	defer server.Close()
	for i, text := range []string{"add milk to the groceries list", "/hours"} {
		status, body := post(server.URL, fmt.Sprintf(`"type": "message", "id": "%d", "deliveryMode": "expectReplies", "text": %q`, i, text))
		var answer struct{ Activities []activity.Activity }
		if err := json.Unmarshal([]byte(body), &answer); err != nil || len(answer.Activities) == 0 {
			fmt.Println(status, body)
			return
		}
		fmt.Println(answer.Activities[0].Text)
	}
	// Output:
	// Added milk to the list groceries.
	// We are open from 6 to 22.
}

// With an AppID and Credentials, only the Bot Framework gets in. Without them, only programs on
// this machine do, and no web page that somebody has open there.
func ExampleGuarded() {
	guard, client, err := connector.New(connector.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer guard.Close()
	defer client.Close()
	b, err := bot.New(bot.Config{
		Actions: actions.New(), Planner: bot.PlannerFunc(nil), Authenticator: bot.Guarded(guard), Channel: client,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = b.Drain(context.Background()) }()

	server := httptest.NewServer(b)
	defer server.Close()
	status, _ := post(server.URL, `"type": "event", "name": "ping", "id": "1"`)
	fmt.Println(status)
	status, _ = post(server.URL, `"type": "event", "name": "ping", "id": "2"`, "Origin", "https://page.example")
	fmt.Println(status)
	// Output:
	// 200
	// 403
}

// A card whose choices the bot looks up while the person types.
func ExampleAddInvoke() {
	type search struct {
		Text string `json:"queryText"`
	}
	type choice struct {
		Title string `json:"title"`
		Value string `json:"value"`
	}
	type choices struct {
		Status int    `json:"statusCode"`
		Type   string `json:"type"`
		Value  struct {
			Results []choice `json:"results"`
		} `json:"value"`
	}
	b, err := bot.New(bot.Config{Actions: actions.New(), Planner: bot.PlannerFunc(nil)})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = b.Drain(context.Background()) }()
	bot.AddInvoke(b, "application/search", func(_ context.Context, _ *bot.Turn, in search) (choices, error) {
		if in.Text == "" {
			return choices{}, &bot.InvokeError{Status: http.StatusBadRequest, Code: "BadRequest", Message: "what is to be looked up?"}
		}
		found := choices{Status: http.StatusOK, Type: "application/vnd.microsoft.search.searchResponse"}
		found.Value.Results = []choice{{Title: "Green tea", Value: "green"}}
		return found, nil
	})

	server := httptest.NewServer(b)
	defer server.Close()
	fmt.Println(post(server.URL, `"type": "invoke", "id": "1", "name": "application/search", "value": {"queryText": "tea"}`))
	// Output: 200 {"statusCode":200,"type":"application/vnd.microsoft.search.searchResponse","value":{"results":[{"title":"Green tea","value":"green"}]}}
}

// A card that shows the person who may decide a button, and everybody else none.
func ExampleBot_OnCardRefresh() {
	b, err := bot.New(bot.Config{Actions: actions.New(), Planner: bot.PlannerFunc(nil)})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = b.Drain(context.Background()) }()
	b.OnCardRefresh("request", func(_ context.Context, t *bot.Turn, click bot.CardClick) (bot.CardAnswer, error) {
		card := activity.Card{Fallback: "A request", Body: []any{activity.TextBlock{Text: "A request for new chairs"}}}
		if t.Activity.From.ID == "mia" {
			card.Actions = []any{activity.Button{Title: "Allow it", Verb: "allow", Data: map[string]int{"request": 7}}}
		}
		return bot.CardAnswer{Card: &card}, nil
	})

	server := httptest.NewServer(b)
	defer server.Close()
	_, body := post(server.URL, `"type": "invoke", "id": "1", "name": "adaptiveCard/action",
		"value": {"action": {"type": "Action.Execute", "verb": "request"}, "trigger": "automatic"}`)
	fmt.Println(strings.Contains(body, "Allow it"))
	// Output: true
}

// A summary on working days at five in the afternoon. The bot registers the schedule whenever it is
// installed somewhere and at each start, on each replica: the same Key replaces it.
func ExampleBot_OnNotice() {
	b, err := bot.New(bot.Config{Actions: actions.New(), Planner: bot.PlannerFunc(nil)})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	defer func() { _ = b.Drain(ctx) }()
	b.OnNotice("summary", func(ctx context.Context, t *bot.Turn) error {
		return t.Plan(ctx) // with the notice's Text, as if a person had written it
	})
	summary := actions.Notice{
		To:  actions.Recipient{Channel: "msteams", Bot: "28:app-id", Conversation: "19:warehouse@thread.tacv2"},
		Key: "summary", Every: "0 17 * * MON-FRI", Zone: "Europe/Berlin",
		Run: "summary", Text: "Summarize the open tickets.",
	}
	_, err = b.Notify(ctx, summary)
	fmt.Println(err)
	summary.Every = "0 17 30 2 *"
	_, err = b.Notify(ctx, summary)
	fmt.Println(err)
	// Output:
	// notify: unknown recipient
	// notify: the schedule "0 17 30 2 *" is never due
}
