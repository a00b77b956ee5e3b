package bot_test

import (
	"testing"

	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/connector"
)

// local returns door and channel of a bot without an app id.
func local(t *testing.T) (bot.Door, *connector.Client) {
	t.Helper()
	cloud, err := connector.CloudNamed("public")
	if err != nil {
		t.Fatal(err)
	}
	hosts, err := connector.NewServiceHosts(cloud, nil, true)
	if err != nil {
		t.Fatal(err)
	}
	guard, err := connector.NewGuard(connector.GuardConfig{Cloud: cloud, Hosts: hosts})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(guard.Close)
	client, err := connector.New(connector.Config{Hosts: hosts})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return bot.Guarded(guard), client
}
