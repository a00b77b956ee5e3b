package bot_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bottest"
	"github.com/planbot-go/planbot/internal/golden"
)

func TestWelcomeOnce(t *testing.T) {
	t.Parallel()
	bottest.Test(t, bottest.Config{Actions: oddActions()}, func(_ *testing.T, kit *bottest.Kit) {
		chat := kit.Personal("Mia")
		added := map[string]any{"type": "conversationUpdate", "membersAdded": []map[string]any{{"id": "28:bot"}}}
		installed := map[string]any{"type": "installationUpdate", "action": "add"}
		otto := map[string]any{"type": "conversationUpdate", "membersAdded": []map[string]any{{"id": "29:otto"}}}
		for _, a := range []map[string]any{added, installed, added, otto} {
			chat.Deliver(a).Taken()
		}
		chat.ExpectMatch("^Hello, I am Planbot")
		chat.ExpectNothing()
		chat.Deliver(map[string]any{"type": "installationUpdate", "action": "remove"}).Taken()
		chat.Deliver(installed).Taken()
		chat.ExpectMatch("^Hello, I am Planbot")
	})
}

func TestWelcomeOfItsOwn(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{" At your service.\n": "At your service.", " ": "Hello, I am Planbot. Tell me what you need in your own words, or say help to see what I can do."} {
		bottest.Test(t, bottest.Config{Actions: oddActions(), Change: func(cfg *bot.Config) {
			cfg.Welcome, cfg.Examples = text, []string{"What can you do?"}
		}}, func(t *testing.T, kit *bottest.Kit) {
			chat := kit.Personal("Mia")
			chat.AddBot()
			sent := chat.Next()
			if a := sent.Activity; a.Text != want || !strings.Contains(sent.JSON, "What can you do?") {
				t.Errorf("got %s", sent.JSON)
			}
		})
	}
}

func TestNoWelcomeInABigTeam(t *testing.T) {
	t.Parallel()
	for members, want := range map[int]bool{100: true, 101: false} {
		t.Run(fmt.Sprint(members), func(t *testing.T) {
			t.Parallel()
			bottest.Test(t, bottest.Config{Actions: oddActions()}, func(_ *testing.T, kit *bottest.Kit) {
				kit.Connector.TeamOf(members)
				team := kit.Conversation("19:general@thread.tacv2", "channel", "Mia")
				team.AddBot()
				if want {
					team.ExpectMatch("^Hello")
				}
				team.ExpectNothing()
			})
		})
	}
}

func TestActivitiesWithoutARoute(t *testing.T) {
	t.Parallel()
	type event = map[string]any
	bottest.Test(t, bottest.Config{Actions: oddActions()}, func(t *testing.T, kit *bottest.Kit) {
		chat := kit.Personal("Mia")
		for _, e := range []event{
			{"type": "typing"},
			{"type": "endOfConversation"},
			{"type": "messageReaction", "reactionsAdded": []event{{"type": "like"}}},
			{"type": "messageUpdate", "text": "edited", "channelData": event{"eventType": "editMessage"}},
			{"type": "messageDelete"},
			{"type": "event", "name": "application/vnd.microsoft.meetingStart"},
			{"type": "trace"},
			{"type": "fooBar"},
			{"type": "installationUpdate", "action": "add-upgrade"},
			{"type": "conversationUpdate", "channelData": event{"eventType": "teamRenamed"}},
			{"type": "message", "text": "from a bot", "from": event{"id": "28:other", "role": "bot"}},
			{"type": "message", "text": "from itself", "from": event{"id": "28:bot"}},
			{"type": "message", "text": "two tenants", "channelData": event{"tenant": event{"id": "t2"}}, "conversation": event{"id": "a:two", "conversationType": "personal", "tenantId": "t1"}},
			{"type": "message", "text": "<at>Planbot</at> forged", "conversation": event{"id": "19:g", "conversationType": "groupChat"}},
		} {
			if got := chat.Deliver(e); got.Status != http.StatusOK || len(got.Body) != 0 {
				t.Errorf("%v: %s", e, got)
			}
		}
		kit.Settle()
		for _, sent := range kit.Connector.Sent() { // to any conversation
			t.Errorf("sent %s", sent.JSON)
		}
	})
}

func TestInvokes(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		b.bot.OnInvoke("good", func(context.Context, *bot.Turn) (bot.InvokeResponse, error) {
			return bot.InvokeResponse{Body: map[string]int{"n": 1}}, nil
		})
		b.bot.OnInvoke("bad", func(context.Context, *bot.Turn) (bot.InvokeResponse, error) { panic("boom") })
		for name, want := range map[string]answer{
			"good": {status: http.StatusOK, body: `{"n":1}`},
			"bad":  {status: http.StatusInternalServerError},
			"odd":  {status: http.StatusNotImplemented},
			"":     {status: http.StatusNotImplemented},
		} {
			got := b.deliver(event{"type": "invoke", "name": name})
			if got.status != want.status || got.body != want.body {
				t.Errorf("%q: %d %q", name, got.status, got.body)
			}
		}
	})
}

func TestExpectReplies(t *testing.T) {
	t.Parallel()
	bottest.Test(t, bottest.Config{Actions: oddActions()}, func(t *testing.T, kit *bottest.Kit) {
		chat := kit.Personal("Mia")
		kit.Model.Says(plan(say("one"), say("two")))
		var body struct {
			Activities []struct{ Type, Text string }
		}
		chat.Deliver(map[string]any{"type": "message", "text": "hi", "deliveryMode": "expectReplies"}).Taken().Decode(&body)
		if len(body.Activities) != 2 || body.Activities[0].Text != "one" || body.Activities[1].Text != "two" {
			t.Errorf("activities %v", body.Activities)
		}
		chat.ExpectNothing()
	})
}

func TestTheDoor(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		good := string(b.activity(event{"text": "hi"}))
		for name, c := range map[string]struct {
			method, contentType, encoding, body string
			status                              int
			host, origin                        string
		}{
			"GET":             {http.MethodGet, "application/json", "", "", http.StatusMethodNotAllowed, "", ""},
			"PUT":             {http.MethodPut, "application/json", "", good, http.StatusMethodNotAllowed, "", ""},
			"text":            {http.MethodPost, "text/plain", "", good, http.StatusUnsupportedMediaType, "", ""},
			"form":            {http.MethodPost, "application/x-www-form-urlencoded", "", good, http.StatusUnsupportedMediaType, "", ""},
			"charset":         {http.MethodPost, "application/json; charset=utf-16", "", good, http.StatusUnsupportedMediaType, "", ""},
			"gzip":            {http.MethodPost, "application/json", "gzip", good, http.StatusUnsupportedMediaType, "", ""},
			"no JSON":         {http.MethodPost, "application/json", "", "{", http.StatusBadRequest, "", ""},
			"no activity":     {http.MethodPost, "application/json", "", "{}", http.StatusBadRequest, "", ""},
			"too large":       {http.MethodPost, "application/json", "", strings.Repeat(" ", 1<<20) + good, http.StatusRequestEntityTooLarge, "", ""},
			"foreign service": {http.MethodPost, "application/json", "", strings.Replace(good, b.connector.URL, "http://169.254.169.254/", 1), http.StatusBadRequest, "", ""},
			"web page":        {http.MethodPost, "application/json", "", good, http.StatusForbidden, "", "https://evil.example"},
			"rebound name":    {http.MethodPost, "application/json", "", good, http.StatusForbidden, "evil.example", ""},
		} {
			req, err := http.NewRequestWithContext(t.Context(), c.method, b.url, strings.NewReader(c.body))
			b.must(err)
			req.Header.Set("Content-Type", c.contentType)
			if c.encoding != "" {
				req.Header.Set("Content-Encoding", c.encoding)
			}
			if c.origin != "" {
				req.Header.Set("Origin", c.origin)
			}
			if c.host != "" {
				req.Host = c.host
			}
			// The bot may hang up before it has read a body, so the client writes none before it has been asked to.
			req.Header.Set("Expect", "100-continue")
			resp, err := (&http.Client{Transport: &http.Transport{DialContext: wires.Dial, DisableKeepAlives: true, ExpectContinueTimeout: time.Minute}}).Do(req)
			b.must(err)
			_ = resp.Body.Close()
			if resp.StatusCode != c.status {
				t.Errorf("%s: %d, want %d", name, resp.StatusCode, c.status)
			}
			if c.status == http.StatusMethodNotAllowed && resp.Header.Get("Allow") != http.MethodPost {
				t.Errorf("%s: Allow %q", name, resp.Header.Get("Allow"))
			}
		}
		b.connector.None(t)
	})
}

func TestGroupsAndThreads(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		in := func(thread, from, text string) event {
			return event{
				"text":         "<at>Planbot</at> " + text,
				"from":         event{"id": "29:" + from, "name": from},
				"conversation": event{"id": "19:team@thread.tacv2;messageid=" + thread, "conversationType": "channel", "isGroup": true},
				"entities":     []event{{"type": "mention", "text": "<at>Planbot</at>", "mentioned": event{"id": "28:bot", "name": "Planbot"}}},
			}
		}
		b.model.Says(
			plan(do("addItem", `{"list":"team","item":"cake"}`), say("Added, Mia.")),
			plan(`{"type":"DO","action":"summarizeLists","saveAs":"L"}`, say("$L")),
		)
		b.deliver(in("1", "Mia", "add cake"))
		b.expect("Added, Mia.")
		b.deliver(in("2", "Otto", "what is on our lists?"))
		b.expect("**team**\n\n- cake")
		second := b.model.Calls()[1]
		if got := second.Last("user"); got != "what is on our lists?" {
			t.Errorf("the model was asked %q", got)
		}
		if strings.Contains(second.Text(), "add cake") {
			t.Error("history of another thread is in the prompt")
		}
		if !strings.Contains(second.Text(), "Otto") {
			t.Error("the prompt does not say who speaks")
		}
	})
}

func TestCommands(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		add := plan(do("addItem", `{"list":"home","item":"milk"}`), say("Added."))
		b.model.Says(add)
		b.say("add secret milk")
		b.expect("Added.")

		b.say("/RESET")
		b.expect("I've cleared our conversation. Everything else that I keep for you is still here.")
		b.model.Says(plan(`{"type":"DO","action":"summarizeLists","saveAs":"L"}`, say("$L")))
		b.say("lists?")
		b.expect("**home**\n\n- milk")
		if strings.Contains(b.model.Calls()[1].Text(), "secret") {
			t.Error("/reset left history")
		}

		b.say("/forget yes")
		b.expect("I've deleted everything I kept about you.")
		if keys := b.documents(); len(keys) != 0 {
			t.Errorf("/forget left %v", keys)
		}
	})
}

// TestHelpCard compares the card of the help with how it always was.
func TestHelpCard(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, func(cfg *bot.Config) {
			cfg.Examples, cfg.Actions = []string{"What is on my lists?", "a < b"}, actions.New()
			actions.Add(cfg.Actions, "closeTicket", "Closes a <ticket>", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) { return actions.Done, nil })
		})
		b.say("help")
		var card any
		b.must(json.Unmarshal(b.connector.Next(t).Activity.Attachments[0].Content, &card))
		raw, err := json.MarshalIndent(card, "", "  ")
		b.must(err)
		golden.Compare(t, "testdata/cards/help.json", string(raw)+"\n")
	})
}

func TestHelpListsTheRegistryAndItsButtonsSpeak(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, func(cfg *bot.Config) { cfg.Examples = []string{"What is on my lists?"} })
		b.say("help")
		raw, err := json.Marshal(b.connector.Next(t).Body)
		b.must(err)
		for _, want := range []string{"AdaptiveCard", "Add to a list", "/reset", "What is on my lists?"} {
			if !strings.Contains(string(raw), want) {
				t.Errorf("help has no %s: %s", want, raw)
			}
		}
		b.deliver(event{"text": "help", "channelId": "sms"})
		if text := b.connector.Next(t).Text(); !strings.Contains(text, "Add to a list") {
			t.Errorf("help without cards: %q", text)
		}
		b.model.Says(plan(say("Nothing.")))
		click := event{"text": nil, "replyToId": "1", "value": event{"say": "What is on my lists?"}}
		b.deliver(click)
		b.deliver(click)
		b.expect("Nothing.")
		b.connector.None(t)
	})
}

func TestLongRepliesAreSplit(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		long := strings.Repeat("All work and no play. 😀\n", 2500)
		b.model.Says(plan(say(long)))
		b.say("print everything")
		joined, parts := "", 0
		for joined != long && parts < 10 {
			part := b.connector.Next(t).Text()
			if len([]rune(part)) > 16_000 {
				t.Errorf("part of %d characters", len([]rune(part)))
			}
			joined += strings.ReplaceAll(part, "  \n", "\n") // as Teams wants single line breaks
			parts++
		}
		if joined != long || parts < 4 {
			t.Errorf("%d parts, equal: %v", parts, joined == long)
		}
	})
}

func TestTypingWhileAReplyTakesLong(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		b.model.Answers(func(w http.ResponseWriter, _ *http.Request) {
			b.connector.AwaitTyping(t)
			http.Error(w, `{"error":{"message":"x"}}`, http.StatusUnauthorized) // which is not tried again
		})
		b.say("slow")
		b.connector.Next(t)
		all := b.connector.All()
		if last := all[len(all)-1]; last.Type() != "message" {
			t.Errorf("after the reply came %v", last.Body)
		}
	})
}

func TestDrain(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		started, release := make(chan struct{}), make(chan struct{})
		actions.Add(b.actions, "slow", "Is slow", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) {
			close(started)
			<-release
			return actions.Done, nil
		})
		b.model.Says(plan(do("slow", `{}`), say("Done.")))
		var group sync.WaitGroup
		group.Go(func() { b.deliver(event{"text": "be slow"}) })
		<-started
		drained := make(chan error, 1)
		go func() { drained <- b.bot.Drain(t.Context()) }()
		for !b.bot.Draining() {
			runtime.Gosched()
		}
		if got := b.deliver(event{"text": "late"}); got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" {
			t.Errorf("while draining: %d, Retry-After %q", got.status, got.header.Get("Retry-After"))
		}
		close(release)
		group.Wait()
		b.expect("Done.")
		if err := <-drained; err != nil {
			t.Error(err)
		}
	})
}
