package connector_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/connector"
)

// A bot without an app id talks to a channel on its own machine, such as the
// Agents Playground.
func Example() {
	channel := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Println(r.Method, r.URL.Path)
		fmt.Fprint(w, `{"id":"42"}`)
	}))
	defer channel.Close()

	cloud, _ := connector.CloudNamed("public")
	hosts, err := connector.NewServiceHosts(cloud, nil, true)
	if err != nil {
		fmt.Println(err)
		return
	}
	guard, err := connector.NewGuard(connector.GuardConfig{Cloud: cloud, Hosts: hosts})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer guard.Close()
	client, err := connector.New(connector.Config{Hosts: hosts})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	in := &activity.Activity{Type: activity.Message, ID: "1", ServiceURL: channel.URL, Text: "hello"}
	in.Conversation.ID = "a:1"
	if _, err := guard.Authenticate(context.Background(), nil, in); err != nil {
		fmt.Println(err)
		return
	}
	id, err := client.Reply(context.Background(), in.Reference(), in.ID, in.Reply("hello yourself"))
	fmt.Println(id, err)
	// Output:
	// POST /v3/conversations/a:1/activities/1
	// 42 <nil>
}

func ExampleServiceHosts_Allowed() {
	cloud, _ := connector.CloudNamed("public")
	hosts, _ := connector.NewServiceHosts(cloud, []string{"127.0.0.1:9000"}, false)
	fmt.Println(hosts.Allowed("https://smba.trafficmanager.net/emea/"))
	fmt.Println(hosts.Allowed("http://127.0.0.1:9000/"))
	fmt.Println(hosts.Allowed("https://smba.trafficmanager.net.evil.example/"))
	// Output:
	// <nil>
	// <nil>
	// service host not allowed: smba.trafficmanager.net.evil.example:443
}
