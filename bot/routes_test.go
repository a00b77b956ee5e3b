package bot_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/state"
)

func TestTheFirstRouteThatMatchesAnswers(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		tell := func(text string) bot.Handler {
			return func(ctx context.Context, t *bot.Turn) error { return t.Tell(ctx, text) }
		}
		b.bot.OnCommand("/ping", tell("command"))
		b.bot.OnMessage(func(t *bot.Turn) bool { return strings.HasPrefix(t.Text, "/p") }, tell("message"))
		b.bot.OnEvent("meeting", tell("event"))
		b.bot.OnReaction(tell("reaction"))
		b.bot.OnMembersAdded(tell("members"))
		b.bot.OnActivity("messageUpdate", tell("update"))
		b.bot.OnCommand("help", tell("own help"))
		b.bot.OnCommand("/Tickets", func(ctx context.Context, t *bot.Turn) error { return t.Tell(ctx, "tickets ["+t.Text+"]") })
		for _, c := range []struct {
			in   event
			want string
		}{
			{event{"text": "/PING"}, "command"},
			{event{"text": "/pong"}, "message"},
			{event{"type": "event", "name": "meeting"}, "event"},
			{event{"type": "messageReaction", "reactionsAdded": []event{{"type": "like"}}}, "reaction"},
			{event{"type": "conversationUpdate", "membersAdded": []event{{"id": "29:otto"}}}, "members"},
			{event{"type": "messageUpdate", "text": "edited"}, "update"},
			{event{"text": "help"}, "own help"},
			{event{"text": "/tickets"}, "tickets []"},
			{event{"text": "/TICKETS \u00a0 open  7 "}, "tickets [open  7]"},
		} {
			b.deliver(c.in)
			b.expect(c.want)
		}
		b.deliver(event{"type": "event", "name": "other"})
		b.connector.None(t)
		b.deliver(event{"text": "/help"})
		if got := string(b.connector.Next(t).JSON); !strings.Contains(got, "**/Tickets**") {
			t.Errorf("help is %s", got)
		}
	})
}

func TestMiddlewareWrapsEveryHandler(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		var order []string
		around := func(name string) func(bot.Handler) bot.Handler {
			return func(next bot.Handler) bot.Handler {
				return func(ctx context.Context, t *bot.Turn) error {
					order = append(order, name)
					err := next(ctx, t)
					order = append(order, name)
					return err
				}
			}
		}
		b.bot.Use(around("outer"))
		b.bot.Use(around("inner"))
		b.bot.OnInvoke("ask", func(context.Context, *bot.Turn) (bot.InvokeResponse, error) {
			order = append(order, "handler")
			return bot.InvokeResponse{Status: http.StatusAccepted}, nil
		})
		if got := b.deliver(event{"type": "invoke", "name": "ask"}); got.status != http.StatusAccepted {
			t.Errorf("status %d", got.status)
		}
		if got := strings.Join(order, " "); got != "outer inner handler inner outer" {
			t.Errorf("order %s", got)
		}
	})
}

func TestWhatAHandlerSendsHasIdsAndItsStateIsSavedFirst(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		type note struct{ Text string }
		var ids []string
		b.bot.OnCommand("note", func(ctx context.Context, t *bot.Turn) error {
			state.Of[note](t.User).Text = "kept"
			if err := t.Say(ctx, "one", "two"); err != nil {
				return err
			}
			ids = t.Sent()
			return nil
		})
		b.bot.OnCommand("read", func(ctx context.Context, t *bot.Turn) error {
			return t.Tell(ctx, state.Of[note](t.User).Text)
		})
		b.bot.OnCommand("fail", func(_ context.Context, t *bot.Turn) error {
			state.Of[note](t.User).Text = "lost"
			return errors.New("secret cause")
		})
		b.say("note")
		b.expect("one")
		b.expect("two")
		if len(ids) != 2 || ids[0] == "" || ids[0] == ids[1] {
			t.Errorf("ids %q", ids)
		}
		b.say("fail")
		b.expectFault("something went wrong on my side")
		b.say("read")
		b.expect("kept")
	})
}

// TestMisusedCommands: the person reads how to use them, and no model is asked.
func TestMisusedCommands(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		for said, want := range map[string]string{
			"/reset now":          "I did nothing. Say **/reset** with nothing after it.",
			"/mydata please":      "I did nothing. Say **/mydata** with nothing after it.",
			"/approve":            "I did nothing. Say **/approve ID** or **/reject ID**, with the id from my question.",
			"/Reject":             "I did nothing. Say **/approve ID** or **/reject ID**, with the id from my question.",
			"/approve the ticket": "I did nothing. Say **/approve ID** or **/reject ID**, with the id from my question.",
			"/reject abc":         "I'm no longer waiting for this decision. Nothing was done.",
		} {
			b.tell(event{"text": said}, want)
		}
		off := setup(t, func(c *bot.Config) { c.CommandsOff = []string{"/reset"} })
		off.tell(event{"text": "/reset now"}, "/reset is switched off here.")
	})
}

// TestUnknownCommands: the person reads which there are, and no model claims to have done one.
func TestUnknownCommands(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		b.bot.OnCommand("/hours", func(ctx context.Context, t *bot.Turn) error { return t.Tell(ctx, "Nine to five.") })
		for said, unknown := range map[string]string{
			"/clear":                      "/clear",
			"/Delete everything":          "/Delete",
			"/löschen":                    "/löschen",
			"/memory":                     "/memory", // there is none
			"/hours":                      "",
			"/help me":                    "",
			"/etc/passwd is what?":        "",
			"/ is a slash":                "",
			"what does /clear do?":        "",
			"//":                          "",
			"/" + strings.Repeat("a", 99): "",
			"/tell_\nme":                  "/tell_",
		} {
			b.model.Says(plan(say("Planned.")))
			b.say(said)
			got := b.connector.Next(t).JSON
			if told := strings.Contains(got, "I don't know the command `"+unknown+"`."); told != (unknown != "") {
				t.Errorf("%q: %s", said, got)
			}
			if unknown != "" && (!strings.Contains(got, "**/reset**: clears our conversation") || !strings.Contains(got, "**/hours**")) {
				t.Errorf("%q: %s", said, got)
			}
		}
	})
}
