package record_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	"github.com/planbot-go/planbot/actions/lists"
	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/app/record"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/connector"
	"github.com/planbot-go/planbot/models"
)

// Wrap the parts of a bot in a server of your own. With app.Main, serve --record does this.
func ExampleNew() {
	dir, err := os.MkdirTemp("", "said")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	guard, client, err := connector.New(connector.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer guard.Close()
	defer client.Close()

	recorder, err := record.New(record.Config{Dir: dir})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	b, err := app.New(ctx, app.Bot{Name: "Hedda", Register: lists.Register}, recorder.Model(models.Offline{}), bot.Config{
		Authenticator: recorder.Authenticator(bot.Guarded(guard)), Channel: recorder.Channel(client), Features: []bot.Feature{recorder.Feature()},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	handler := recorder.Handler(b)

	in := httptest.NewRequestWithContext(ctx, "POST", "http://127.0.0.1/api/messages", strings.NewReader(`{
		"type": "message", "id": "1", "channelId": "emulator", "deliveryMode": "expectReplies", "text": "add milk to the groceries list",
		"from": {"id": "mia"}, "recipient": {"id": "hedda"}, "conversation": {"id": "c1"}, "serviceUrl": "http://127.0.0.1"}`))
	in.Header.Set("Content-Type", "application/json")
	handler.ServeHTTP(httptest.NewRecorder(), in)
	_ = b.Drain(ctx)
	recorder.Close()

	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	fmt.Println(len(files), err)
	// Output: 2 <nil>
}

func ExampleRead() {
	const file = `
name: adds milk
steps:
  - event: {type: message, conversation: c1, from: mia, text: add milk}
    expect: {reply: Added milk.}
`
	all, err := record.Read("milk.yaml", []byte(file))
	fmt.Println(len(all), len(all[0].Faults))
	fmt.Println(err)
	// Output:
	// 1 1
	// milk.yaml: scenario "adds milk", step 1: expect.reply: there is no such field
}
