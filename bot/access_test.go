package bot_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot"
)

const keptOut = "Sorry, I'm not allowed to talk with you here. Please ask whoever runs this bot."

// vouching is a door whose visitors have proved what Visitor says, with a channel that
// shows the bot's token.
func vouching(c *bot.Config) {
	inner := c.Authenticator
	c.Channel = identified{c.Channel}
	c.Authenticator = gatekeeper(func(r *http.Request) (bot.Caller, error) {
		visitor, err := inner.Authenticate(r)
		return signed{visitor}, err
	})
}

type signed struct{ bot.Caller }

func (signed) Trusted() bool { return true }

func TestAccess(t *testing.T) {
	t.Parallel()
	var (
		nobodys   = event{"id": "29:mia", "name": "Mia"}
		elsewhere = event{"id": "a:mia", "conversationType": "personal", "tenantId": "t2"}
		noTenant  = event{"id": "a:mia", "conversationType": "personal"}
	)
	for name, c := range map[string]struct {
		lists bot.Access
		local bool
		over  event
		list  string // that keeps her out
	}{
		"no lists":                     {bot.Access{}, false, nil, ""},
		"all lists":                    {bot.Access{Tenants: []string{"x", "T1"}, Users: []string{"AAD-MIA"}, Channels: []string{"MSTeams"}}, false, nil, ""},
		"another tenant":               {bot.Access{Tenants: []string{"t1"}}, false, event{"conversation": elsewhere, "channelData": event{"tenant": event{"id": "t2"}}}, "tenants"},
		"no tenant":                    {bot.Access{Tenants: []string{"t1"}}, false, event{"conversation": noTenant, "channelData": nil}, "tenants"},
		"tenant in channelData":        {bot.Access{Tenants: []string{"t1"}}, false, event{"conversation": noTenant}, ""},
		"tenant, odd channelData":      {bot.Access{Tenants: []string{"t1"}}, false, event{"channelData": "t2", "conversation": noTenant}, "tenants"},
		"another person":               {bot.Access{Users: []string{"aad-bob"}}, false, nil, "users"},
		"nobody":                       {bot.Access{Users: []string{"29:mia"}}, false, event{"from": nobodys}, "users"},
		"another channel":              {bot.Access{Channels: []string{"webchat"}}, false, nil, "channels"},
		"no channel":                   {bot.Access{Channels: []string{"webchat"}}, false, event{"channelId": nil}, "channels"},
		"a channel of the list":        {bot.Access{Channels: []string{"webchat"}}, false, event{"channelId": "webchat"}, ""},
		"Direct Line writes a tenant":  {bot.Access{Tenants: []string{"t1"}}, false, event{"channelId": "directline"}, "tenants"},
		"Direct Line writes a person":  {bot.Access{Users: []string{"aad-mia"}}, false, event{"channelId": "directline"}, "users"},
		"locally all is taken as true": {bot.Access{Tenants: []string{"t1"}, Users: []string{"aad-mia"}}, true, event{"channelId": "emulator"}, ""},
		"locally, another person":      {bot.Access{Users: []string{"aad-bob"}}, true, event{"channelId": "emulator"}, "users"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := setup(t, func(cfg *bot.Config) {
					cfg.Access = c.lists
					if !c.local {
						vouching(cfg)
					}
				})
				b.bot.OnMessage(nil, func(ctx context.Context, turn *bot.Turn) error { return turn.Tell(ctx, "Hi.") })
				over := event{"text": "hello"}
				for k, v := range c.over {
					over[k] = v
				}
				if got := b.deliver(over); got.status != http.StatusOK {
					t.Fatalf("status %d", got.status)
				}
				want, lines := "Hi.", 0
				if c.list != "" {
					want, lines = keptOut, 1
				}
				b.expect(want)
				if n := strings.Count(b.log.String(), `"audit":"access","list":"`+c.list); n != lines {
					t.Errorf("%d audit lines, want %d:\n%s", n, lines, b.log)
				}
				if kept := len(b.documents()) > 0; kept != (c.list == "") {
					t.Errorf("state: %v", b.documents())
				}
			})
		})
	}
}

// TestWhoIsKeptOutGetsNothingElse also where others get an answer.
func TestWhoIsKeptOutGetsNothingElse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, vouching, func(c *bot.Config) { c.Access.Users = []string{"aad-bob"} })
		b.bot.OnInvoke("work", func(context.Context, *bot.Turn) (bot.InvokeResponse, error) {
			t.Error("it ran")
			return bot.InvokeResponse{}, nil
		})
		for _, c := range []struct {
			over   event
			status int
			body   string
		}{
			{event{"type": "invoke", "name": "work"}, http.StatusForbidden, ""},
			{event{"type": "invoke", "name": "work", "deliveryMode": activity.ExpectReplies}, http.StatusForbidden, ""},
			{event{"type": "invoke", "name": "no such"}, http.StatusForbidden, ""},
			{event{"type": "conversationUpdate", "membersAdded": []event{{"id": "28:bot"}}}, http.StatusOK, ""},
			{event{"type": "installationUpdate", "action": "add"}, http.StatusOK, ""},
			{event{"type": "event", "name": "x", "deliveryMode": activity.ExpectReplies}, http.StatusOK, `{"activities":[]}`},
		} {
			if got := b.deliver(c.over); got.status != c.status || got.body != c.body {
				t.Errorf("%v: %d %q", c.over, got.status, got.body)
			}
		}
		got := b.deliver(event{"text": "hello", "deliveryMode": activity.ExpectReplies})
		if got.status != http.StatusOK || strings.Count(got.body, keptOut) != 1 {
			t.Errorf("expectReplies: %d %s", got.status, got.body)
		}
		if n := strings.Count(b.log.String(), `"audit":"access"`); n != 7 {
			t.Errorf("%d audit lines:\n%s", n, b.log)
		}
		if b.connector.None(t); len(b.connector.All()) > 0 {
			t.Errorf("sent %v", b.connector.All())
		}
	})
}

// TestWhoIsKeptOutLeavesNoTrace in state, also when the channel takes the answer only on a later try.
func TestWhoIsKeptOutLeavesNoTrace(t *testing.T) {
	t.Parallel()
	for _, fails := range []int{0, 1} {
		t.Run(fmt.Sprint(fails), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := setup(t, vouching, func(c *bot.Config) { c.Access.Users, c.Channel = []string{"aad-bob"}, hasty(t) })
				for range fails {
					b.connector.Fails(0, http.StatusServiceUnavailable)
				}
				b.say("hello")
				b.expect(keptOut)
				b.connector.None(t)
				if kept := b.kept(); kept != "" {
					t.Errorf("kept %s", kept)
				}
			})
		})
	}
}

// TestWhoIsKeptOutDecidesNothing of what somebody else asked for.
func TestWhoIsKeptOutDecidesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, vouching, func(c *bot.Config) {
			c.Access.Users = []string{"aad-mia"}
			c.Approvers = []string{"29:bob", "29:mia"}
		})
		group := event{"id": "19:group", "conversationType": "groupChat", "isGroup": true}
		bob := event{"id": "29:bob", "name": "Bob", "aadObjectId": "aad-bob"}
		d.model.Says(closePlan)
		card := d.ask(event{
			"conversation": group,
			"entities":     []event{{"type": "mention", "text": "<at>Planbot</at>", "mentioned": event{"id": "28:bot"}}},
		}, "<at>Planbot</at> close it")
		approve, _ := buttons(t, card)
		if got := d.deliver(click(approve, event{"from": bob, "conversation": group})); got.status != http.StatusForbidden || got.body != "" {
			t.Errorf("the click: %d %s", got.status, got.body)
		}
		for _, said := range []event{
			{"value": approve, "replyToId": "1"},
			{"text": "/approve " + approve["approval"].(string), "entities": []event{{"type": "mention", "text": "", "mentioned": event{"id": "28:bot"}}}},
		} {
			said["from"], said["conversation"] = bob, group
			if got := d.deliver(said); got.status != http.StatusOK {
				t.Errorf("%v: %d", said, got.status)
			}
			d.expect(keptOut)
		}
		if len(*d.closed) > 0 {
			t.Error("it ran")
		}
		d.deliver(click(approve, event{"conversation": group}))
		d.expect("Closed it.")
	})
}
