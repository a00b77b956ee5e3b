package connector_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/connector"
)

// A bot without an app id talks to a channel on its own machine, such as the
// Agents Playground.
func ExampleNew() {
	channel := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Println(r.Method, r.URL.Path)
		fmt.Fprint(w, `{"id":"42"}`)
	}))
	defer channel.Close()

	guard, client, err := connector.New(connector.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer guard.Close()
	defer client.Close()

	in := &activity.Activity{Type: activity.Message, ID: "1", ServiceURL: channel.URL, Text: "hello"}
	in.Conversation.ID = "a:1"
	claims, err := guard.Verify(context.Background(), nil)
	if err == nil {
		err = claims.Permit(in)
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	id, err := client.Reply(context.Background(), in.Reference(), in.ID, in.Reply("hello yourself"))
	fmt.Println(id, err)
	// Output:
	// POST /v3/conversations/a:1/activities/1
	// 42 <nil>
}

// Pictures and shared files of a message are fetched by their attachment.
func ExampleClient_Download() {
	channel := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "image/png")
		fmt.Fprint(w, "a cat")
	}))
	defer channel.Close()
	_, client, err := connector.New(connector.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	ctx := context.Background()
	for _, address := range []string{channel.URL + "/cat.png", "https://files.example/cat.png"} {
		content, contentType, err := client.Download(ctx, activity.Attachment{ContentType: "image/png", ContentURL: address}, 1<<20)
		fmt.Println(contentType, len(content), err)
	}
	// Output:
	// image/png 5 <nil>
	//  0 download attachment: service host not allowed: files.example:443
}

func ExampleNewUserToken() {
	token := connector.NewUserToken("calendar", "eyJ0eXAi…", time.Time{})
	fmt.Println(token) // logs and errors never have the secret
	fmt.Println(token.Secret() == "eyJ0eXAi…")
	// Output:
	// [user token]
	// true
}
