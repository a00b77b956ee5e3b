package teams_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bot/teams"
)

// A form that opens above the chat, from a button made by [teams.Open].
func ExampleDialog() {
	type list struct {
		Name string `json:"name"`
	}
	newList := teams.Dialog{
		Fetch: func(context.Context, *bot.Turn, teams.Input) (teams.Answer, error) {
			card := activity.Card{
				Fallback: "A new list",
				Body:     []any{map[string]any{"type": "Input.Text", "id": "name", "label": "Name"}},
				Actions:  []any{activity.Button{Title: "Save", Data: map[string]any{"verb": "newList"}}},
			}
			return teams.Answer{Form: &teams.Form{Title: "New list", Width: "medium", Card: card}}, nil
		},
		Submit: func(ctx context.Context, t *bot.Turn, in teams.Input) (teams.Answer, error) {
			var l list
			if err := in.Read(&l); err != nil {
				return teams.Answer{}, err
			}
			if l.Name == "" {
				return teams.Answer{Message: "A list needs a name."}, nil
			}
			return teams.Answer{}, t.Tell(ctx, "The list "+l.Name+" is there.") // closes the form
		},
	}
	serve(teams.Routes{Dialogs: map[string]teams.Dialog{"newList": newList}},
		`"name": "task/submit", "value": {"data": {"verb": "newList", "name": ""}}`,
		`"name": "task/submit", "value": {"data": {"verb": "newList", "name": "Garden"}}`)
	// Output:
	// 200 {"task":{"type":"message","value":"A list needs a name."}}
	// 200
	// said: The list Garden is there.
}

// A button of a card that opens a dialog.
func ExampleOpen() {
	button, err := json.Marshal(teams.Open("New list", "newList", map[string]any{"name": "Garden"}))
	fmt.Println(string(button), err)
	// Output: {"type":"Action.Submit","title":"New list","data":{"msteams":{"type":"task/fetch"},"name":"Garden","verb":"newList"}} <nil>
}

// Choices that the bot looks up while a person types into a card with [teams.Lookup]("list",
// "lists", "List").
func ExampleRoutes_search() {
	lists := []string{"Garden", "Groceries", "Work"}
	find := func(_ context.Context, _ *bot.Turn, q teams.Query) (found []teams.Choice, err error) {
		for _, name := range lists {
			if strings.HasPrefix(strings.ToLower(name), strings.ToLower(q.Text)) {
				found = append(found, teams.Choice{Title: name, Value: strings.ToLower(name)})
			}
		}
		return found, nil
	}
	serve(teams.Routes{Search: map[string]func(context.Context, *bot.Turn, teams.Query) ([]teams.Choice, error){"lists": find}},
		`"name": "application/search", "value": {"queryText": "g", "dataset": "lists"}`)
	// Output:
	// 200 {"statusCode":200,"type":"application/vnd.microsoft.search.searchResponse","value":{"results":[{"title":"Garden","value":"garden"},{"title":"Groceries","value":"groceries"}]}}
}

// A search in the compose box, links that become cards, and an action that shows a card before the
// bot posts it.
func ExampleExtension() {
	ticket := func(id string) teams.Item {
		return teams.Item{Title: "Ticket " + id, Card: activity.Card{Fallback: "Ticket " + id, Body: []any{activity.TextBlock{Text: "Ticket " + id}}}}
	}
	extension := teams.Extension{
		Commands: []teams.Command{
			{
				ID: "find", Title: "Find a ticket", Parameters: []teams.Parameter{{Name: "id", Title: "Number"}},
				Query: func(_ context.Context, _ *bot.Turn, q teams.Query) (teams.Answer, error) {
					return teams.Answer{Items: []teams.Item{ticket(q.Text)}}, nil
				},
			},
			{
				ID: "share", Title: "Share a ticket", Parameters: []teams.Parameter{{Name: "id", Title: "Number"}},
				Submit: func(_ context.Context, _ *bot.Turn, in teams.Input) (teams.Answer, error) {
					return teams.Answer{Preview: ticket("12").Card}, nil
				},
				Send: func(ctx context.Context, t *bot.Turn, _ teams.Input) error { return t.Tell(ctx, "Ticket 12 is open.") },
			},
		},
		Domains: []string{"tickets.contoso.com"},
		Link: func(_ context.Context, _ *bot.Turn, q teams.Query) (teams.Answer, error) {
			return teams.Answer{Items: []teams.Item{ticket(q.Text[strings.LastIndex(q.Text, "/")+1:])}}, nil
		},
	}
	serve(teams.Routes{Extension: extension},
		`"name": "composeExtension/queryLink", "value": {"url": "https://tickets.contoso.com/7"}`,
		`"name": "composeExtension/submitAction", "value": {"commandId": "share", "botMessagePreviewAction": "send"}`)
	// Output:
	// 200 {"composeExtension":{"type":"result","attachmentLayout":"list","attachments":[{"contentType":"application/vnd.microsoft.card.adaptive","content":{"type":"AdaptiveCard","$schema":"http://adaptivecards.io/schemas/adaptive-card.json","version":"1.3","fallbackText":"Ticket 7","body":[{"type":"TextBlock","text":"Ticket 7","wrap":true}]},"preview":{"contentType":"application/vnd.microsoft.card.thumbnail","content":{"title":"Ticket 7"}}}]}}
	// 200
	// said: Ticket 12 is open.
}

// Settings of a team or a group, when somebody adds the bot there.
func ExampleRoutes_config() {
	settings := teams.Dialog{
		Fetch: func(context.Context, *bot.Turn, teams.Input) (teams.Answer, error) {
			return teams.Answer{Form: &teams.Form{Title: "Settings", URL: "https://contoso.com/settings"}}, nil
		},
		Submit: func(context.Context, *bot.Turn, teams.Input) (teams.Answer, error) {
			return teams.Answer{Message: "Saved."}, nil
		},
	}
	serve(teams.Routes{Config: settings}, `"name": "config/fetch", "value": {}`, `"name": "config/submit", "value": {"data": {"language": "de"}}`)
	// Output:
	// 200 {"responseType":"config","config":{"type":"continue","value":{"title":"Settings","url":"https://contoso.com/settings"}}}
	// 200 {"responseType":"config","config":{"type":"message","value":"Saved."}}
}

// The bot's own form for feedback on replies. What people write arrives with [bot.Bot.OnFeedback].
func ExampleRoutes_feedbackForm() {
	form := func(_ context.Context, _ *bot.Turn, liked bool) (teams.Answer, error) {
		if liked {
			return teams.Answer{Message: "Thank you!"}, nil
		}
		why := map[string]any{"type": "Input.Text", "id": "why", "label": "What was wrong?", "isMultiline": true}
		return teams.Answer{Form: &teams.Form{Title: "Feedback", Card: activity.Card{Fallback: "Feedback", Body: []any{why}}}}, nil
	}
	serve(teams.Routes{FeedbackForm: form}, `"name": "message/fetchTask", "value": {"actionName": "feedback", "actionValue": {"reaction": "like"}}`)
	// Output:
	// 200 {"task":{"type":"message","value":"Thank you!"}}
}

// A suggested action that writes nothing into the chat when it is pressed.
func ExampleRoutes_suggested() {
	pressed := func(ctx context.Context, t *bot.Turn, in teams.Input) error {
		var chosen struct {
			Choice string `json:"choice"`
		}
		if err := in.Read(&chosen); err != nil {
			return err
		}
		return t.Tell(ctx, "You chose "+chosen.Choice+".")
	}
	serve(teams.Routes{Suggested: pressed}, `"name": "suggestedActions/submit", "value": {"choice": "tea"}`)
	// Output:
	// 200
	// said: You chose tea.
}

// A conversation of Copilot that goes on in the person's chat with the bot.
func ExampleContinue() {
	type place struct {
		List string `json:"list"`
	}
	link := make(chan string, 1)
	routes := teams.Routes{Handoff: func(ctx context.Context, t *bot.Turn, in teams.Input) error {
		var at place
		if err := in.Read(&at); err != nil {
			return err
		}
		return t.Tell(ctx, "We were at the list "+at.List+".")
	}}
	b, close := start(routes)
	defer close()
	b.OnCommand("/chat", func(ctx context.Context, t *bot.Turn) error {
		continuation, err := teams.Continue(t, place{"Garden"})
		if err != nil {
			return err
		}
		link <- continuation
		return t.Tell(ctx, "Go on in our chat.") // with the link https://teams.microsoft.com/l/chat/…?continuation=…
	})
	fmt.Println(b.post(`"type": "message", "text": "/chat"`))
	fmt.Println("said:", <-b.said)
	invoke := fmt.Sprintf(`"type": "invoke", "name": "handoff/action", "value": {"continuation": %q}`, <-link)
	fmt.Println(b.post(invoke))
	fmt.Println("said:", <-b.said)
	status, _, _ := strings.Cut(b.post(invoke), " ")
	fmt.Println(status)
	// Output:
	// 200
	// said: Go on in our chat.
	// 200
	// said: We were at the list Garden.
	// 400
}

// running is a bot of an example, with what it says.
type running struct {
	*bot.Bot
	url, channel string
	said         chan string
	id           int
}

// start serves a bot for programs on this machine, and a stand-in for Teams.
func start(routes teams.Routes) (*running, func()) {
	r := &running{said: make(chan string, 9)}
	channel := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, in *http.Request) {
		raw, _ := io.ReadAll(in.Body)
		if a, err := activity.Decode(raw); err == nil && a.Type == activity.Message {
			r.said <- a.Text
		}
		_, _ = io.WriteString(w, `{"id":"1"}`)
	}))
	made, err := bot.New(bot.Config{Actions: actions.New(), Planner: bot.PlannerFunc(nil), Teams: routes})
	if err != nil {
		panic(err)
	}
	server := httptest.NewServer(made)
	r.Bot, r.url, r.channel = made, server.URL, channel.URL
	return r, func() {
		_ = made.Drain(context.Background())
		server.Close()
		channel.Close()
	}
}

// post delivers an activity as Teams does.
func (r *running) post(members string) string {
	r.id++
	body := fmt.Sprintf(`{"id": "%d", "channelId": "msteams", "serviceUrl": %q, "from": {"id": "29:mia", "aadObjectId": "aad-mia"}, "recipient": {"id": "28:bot"},
		"conversation": {"id": "a:mia", "conversationType": "personal"}, %s}`, r.id, r.channel, members)
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, r.url, bytes.NewReader([]byte(body)))
	if err != nil {
		return err.Error()
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	raw, _ := io.ReadAll(resp.Body)
	return strings.TrimSpace(fmt.Sprint(resp.StatusCode, " ", string(raw)))
}

// serve delivers invokes to a bot with these routes, and prints its answers and what it says.
func serve(routes teams.Routes, invokes ...string) {
	r, close := start(routes)
	for _, invoke := range invokes {
		fmt.Println(r.post(`"type": "invoke", ` + invoke))
	}
	close()
	for len(r.said) > 0 {
		fmt.Println("said:", <-r.said)
	}
}
