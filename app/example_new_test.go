package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/planbot-go/planbot/actions/lists"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/models"
)

// A bot that is an [http.Handler], here with the offline model and without an app id. The other
// example has identity, Redis, health and shutdown.
func ExampleNew() {
	ctx := context.Background()
	b, err := app.New(ctx, app.Bot{Name: "Hedda", Register: lists.Register}, models.Offline{}, bot.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = b.Drain(ctx) }()

	server := httptest.NewServer(b) // your own server, and POST /api/messages in it
	defer server.Close()

	fmt.Println(post(ctx, server.URL, `{
		"type": "message", "id": "1", "channelId": "emulator", "deliveryMode": "expectReplies", "text": "add milk to the groceries list",
		"from": {"id": "mia"}, "recipient": {"id": "hedda"}, "conversation": {"id": "c1"}, "serviceUrl": "http://127.0.0.1"}`))
	// Output: Added milk to the list groceries.
}

// post sends an activity and returns the text of the first one that answers it.
func post(ctx context.Context, to, text string) string {
	in, err := http.NewRequestWithContext(ctx, http.MethodPost, to, strings.NewReader(text))
	if err != nil {
		return err.Error()
	}
	in.Header.Set("Content-Type", "application/json")
	out, err := http.DefaultClient.Do(in)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = out.Body.Close() }()
	var answer struct{ Activities []activity.Activity }
	if err := json.NewDecoder(out.Body).Decode(&answer); err != nil || len(answer.Activities) == 0 {
		return fmt.Sprint(out.Status, err)
	}
	return answer.Activities[0].Text
}
