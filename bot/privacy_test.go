package bot_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/internal/testing/ci"
	"github.com/planbot-go/planbot/state"
)

const forgotten = "I've deleted everything I kept about you."

// onlyButton is the data of the card's only button, which sends a message.
func onlyButton(t *testing.T, card sent) any {
	t.Helper()
	list, _ := asCard(t, card)["actions"].([]any)
	if len(list) != 1 {
		t.Fatalf("buttons %v", list)
	}
	button := list[0].(map[string]any)
	if button["type"] != "Action.Submit" || button["title"] != "Delete everything" || button["style"] != "destructive" {
		t.Errorf("button %v", button)
	}
	return button["data"]
}

// in adds fields to an event.
func in(where event, more event) event {
	all := event{}
	for _, fields := range []event{where, more} {
		for name, value := range fields {
			all[name] = value
		}
	}
	return all
}

func (b *bundle) makeList(name string, over event) {
	b.Helper()
	b.model.Says(plan(do("createList", `{"list":"`+name+`"}`), say("Made.")))
	b.tell(in(event{"text": "make " + name}, over), "Made.")
}

func TestForgetAsksOnce(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		b.makeList("secret", nil)
		b.say("/forget")
		card := b.connector.Next(t)
		yes := onlyButton(t, card)
		shown := fmt.Sprint(card.Body)
		for _, want := range []string{"Should I delete everything that I keep about you?", "This cannot be undone.", "Say /forget yes to delete it."} {
			if !strings.Contains(shown, want) {
				t.Errorf("the card lacks %q: %s", want, shown)
			}
		}
		b.say("/forget no") // asks again
		b.connector.Next(t)
		b.say("/forgetful") // that is no command
		if got := b.connector.Next(t).Text(); !strings.Contains(got, "I don't know the command `/forgetful`") {
			t.Errorf("reply %q", got)
		}
		if kept := b.kept(); !strings.Contains(kept, "secret") {
			t.Errorf("nobody said yes; kept %s", kept)
		}
		b.tell(event{"text": nil, "value": yes}, forgotten)
		if keys := b.documents(); len(keys) != 0 {
			t.Errorf("kept %v", keys)
		}
		b.connector.None(t)
	})
}

func TestForgetInWords(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		b.makeList("secret", event{"channelId": "sms"})
		b.tell(event{"channelId": "sms", "text": "/Forget"}, "Should I delete everything that I keep about you? This cannot be undone. What belongs to others stays.\n\nSay **/forget yes** to delete it.")
		if !strings.Contains(b.kept(), "secret") {
			t.Error("nobody said yes")
		}
		b.tell(event{"channelId": "sms", "text": "/forget  YES"}, forgotten)
		if keys := b.documents(); len(keys) != 0 {
			t.Errorf("kept %v", keys)
		}
	})
}

// TestForgetThatIsDeliveredAgain: a second delivery of what was said leaves no trace of the person, and hides nothing.
func TestForgetThatIsDeliveredAgain(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		b.makeList("ours", in(inGroup, event{"id": "said-1"}))
		b.deliver(in(inGroup, event{"id": "said-1", "text": "make ours"}))
		yes := event{"id": "said-2", "text": "/forget yes"}
		b.tell(yes, forgotten+" This stays, because it belongs to others: lists.")
		if kept := b.kept(); strings.Contains(kept, "29:mia") {
			t.Errorf("kept %s", kept)
		}
		b.deliver(yes)
		for _, key := range b.documents() {
			if strings.Contains(key, "29:mia") {
				t.Errorf("kept %s", key)
			}
		}
		b.connector.None(t)
	})
}

// TestForgetButtonIsForOnePerson: in a group everybody sees it.
func TestForgetButtonIsForOnePerson(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		otto := event{"from": event{"id": "29:otto", "name": "Otto"}}
		b.makeList("mias", nil)
		b.makeList("ottos", in(otto, event{"conversation": event{"id": "a:otto", "conversationType": "personal"}}))
		b.deliver(in(inGroup, event{"text": "<at>Planbot</at> /forget"}))
		click := in(inGroup, event{"text": nil, "entities": nil, "value": onlyButton(t, b.connector.Next(t))})
		b.tell(in(click, otto), "This question is for somebody else. Nothing was deleted.")
		if kept := b.kept(); !strings.Contains(kept, "mias") || !strings.Contains(kept, "ottos") {
			t.Errorf("kept %s", kept)
		}
		b.tell(click, forgotten)
		if kept := b.kept(); strings.Contains(kept, "mias") || !strings.Contains(kept, "ottos") {
			t.Errorf("kept %s", kept)
		}
	})
}

// TestForgetSaysWhatStays in groups, by names that people read.
func TestForgetSaysWhatStays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, func(c *bot.Config) {
			c.Texts = map[string]map[string]string{"en": {"orderbook": "your team's orders"}}
		})
		b.makeList("ours", inGroup)
		b.tell(event{"text": "/forget yes", "locale": "de-DE"}, "Ich habe alles gelöscht, was ich über dich gespeichert hatte. Das bleibt, weil es anderen gehört: Listen.")
		if kept := b.kept(); !strings.Contains(kept, "ours") || strings.Contains(kept, "29:mia") {
			t.Errorf("kept %s", kept)
		}
		b.tell(event{"text": "/forget yes"}, forgotten) // Mia said nothing there since
		b.bot.OnCommand("/order", func(ctx context.Context, turn *bot.Turn) error {
			*state.At[string](turn.Conversation, "orderbook") = "tea"
			return turn.Tell(ctx, "Ordered.")
		})
		b.tell(in(inGroup, event{"text": "<at>Planbot</at> /order"}), "Ordered.")
		b.tell(in(inGroup, event{"text": "<at>Planbot</at> /forget yes"}), forgotten+" This stays, because it belongs to others: lists, your team's orders.")
	})
}

// TestForgetCallsWhatIsRegistered before it deletes state. If that fails, nothing is deleted and
// the person knows.
func TestForgetCallsWhatIsRegistered(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]event{"told to": {"text": "/forget yes"}, "taken out": {"type": "installationUpdate", "action": "remove"}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, setup, func(t *testing.T, b *bundle) {
				fails, calls := true, 0
				b.actions.OnForget(func(_ context.Context, turn *actions.Turn) (string, error) {
					if calls++; !turn.User.Has("lists") || turn.Activity.From.AadObjectID != "aad-mia" {
						t.Errorf("call %d: of %+v with %v", calls, turn.Activity.From, turn.User.Names())
					}
					*state.At[int](turn.User, "tries")++
					if fails {
						return "half of it", errors.New("the shop is closed")
					}
					return "", nil
				})
				b.actions.OnForget(func(context.Context, *actions.Turn) (string, error) { return "your invoices", nil })
				b.makeList("secret", nil)
				b.deliver(end)
				if end["text"] != nil {
					b.expectFault("Sorry, I could not delete everything that I keep about you. Please try again. (turn ")
				}
				if kept := b.kept(); !strings.Contains(kept, "secret") || strings.Contains(kept, "tries") {
					t.Errorf("kept %s", kept)
				}
				if !strings.Contains(b.log.String(), "the shop is closed") {
					t.Error("the log has no cause")
				}
				fails = false
				b.deliver(end)
				if end["text"] != nil {
					b.expect(forgotten + " This stays, because it belongs to others: your invoices.")
				}
				b.until("that nothing is left", func() bool { return len(b.documents()) == 0 })
				if calls != 2 {
					t.Errorf("%d calls", calls)
				}
				b.connector.None(t)
			})
		})
	}
}

// TestForgetDropsDeadLetters of the person, and of nobody else.
func TestForgetDropsDeadLetters(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		hang := make(chan struct{})
		actions.Add(b.actions, "drink", "Hangs", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) {
			<-hang
			return actions.Done, nil
		})
		t.Cleanup(func() { close(hang) })
		r := b.addReplica(func(c *bot.Config) { c.TurnTimeout = time.Second })
		otto := event{"from": event{"id": "29:otto", "name": "Otto"}}
		for i, over := range []event{in(inGroup, event{"text": "<at>Planbot</at> secret"}), in(in(inGroup, otto), event{"text": "<at>Planbot</at> drink"})} {
			b.model.Says(plan(do("drink", `{}`)))
			if got := b.post(r.url, b.activity(over)); got.status != 200 {
				t.Fatal(got)
			}
			b.expectFault("Somebody has to look at it")
			b.deadLetters(i + 1)
		}
		if shown := b.myData(); !strings.Contains(shown, `"for": "operator"`) || !strings.Contains(shown, `"text": "secret"`) || strings.Contains(shown, `"text": "drink"`) {
			t.Errorf("shown %s", shown)
		}
		b.tell(event{"text": "/forget yes"}, forgotten)
		if left := b.deadLetters(1); strings.Contains(string(left[0].Record), "29:mia") {
			t.Errorf("left %s", left[0].Record)
		}
	})
}

// myData is what Mia is shown.
func (b *bundle) myData() string {
	b.Helper()
	before := len(b.connector.All())
	b.say("/mydata")
	var all strings.Builder
	for _, m := range b.connector.All()[before:] {
		if m.Message() {
			b.connector.Next(b)
			all.WriteString(m.Text() + "\n")
		}
	}
	return all.String()
}

// TestMyData shows all that is Mia's, and nothing of others.
func TestMyData(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, audited)
		b := d.bundle
		otto := event{"from": event{"id": "29:otto", "name": "Otto"}}
		b.makeList("mine `x`", nil)
		b.makeList("ours", inGroup)
		b.makeList("ottos", in(inGroup, otto))
		b.remind(`{"what":"drink water","in_minutes":10}`, nil)
		b.remind(`{"what":"drink milk","in_minutes":10}`, inGroup)
		b.remind(`{"what":"drink ottos milk","in_minutes":10}`, in(inGroup, otto))
		d.model.Says(closePlan)
		d.ask(nil, "close it")
		shown := b.myData()
		for _, want := range []string{
			"This is what I keep about you. I also keep an audit of approvals and actions.", "**About you**", "**This conversation**", "**Conversation `19:g@thread.v2`**",
			`"lists": {`, `"name": "mine \u0060x\u0060"`, `"what we said": {`, `"text": "make mine \u0060x\u0060"`,
			`"how I reach you": {`, `"Reminder: drink water"`, `Reminder: drink milk"`, `"action": "Close ticket"`, `"for": "approval"`, `"text": "close it"`,
		} {
			if !strings.Contains(shown, want) {
				t.Errorf("not shown: %s", want)
			}
		}
		for _, not := range []string{"ottos", `"name": "ours"`, "29:otto", "Otto"} {
			if strings.Contains(shown, not) {
				t.Errorf("shown: %s", not)
			}
		}
		if t.Failed() {
			t.Log(shown)
		}
		b.tell(in(inGroup, event{"text": "<at>Planbot</at> /mydata"}), "Please ask me that in a personal chat, where only you can read the answer.")
	})
}

// TestMyDataIsCapped: no message is longer than a channel takes, and the person knows.
func TestMyDataIsCapped(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		b.bot.OnCommand("/fill", func(ctx context.Context, turn *bot.Turn) error {
			for i, n := range []int{30_000, 100_000} {
				*state.At[string](turn.User, fmt.Sprint("big", i)) = strings.Repeat("wörd ", n/5)
			}
			return turn.Tell(ctx, "Full.")
		})
		b.tell(event{"text": "/fill"}, "Full.")
		shown := b.myData()
		if !strings.HasPrefix(shown, "This is what I keep about you. There is more than I can send here. Please ask whoever runs this bot.\n") {
			t.Errorf("shown %.200s", shown)
		}
		if n := strings.Count(shown, "wörd"); n < 19_000 || n > 20_000 {
			t.Errorf("%d words are shown", n)
		}
		for _, m := range b.connector.All() {
			if text := m.Text(); len([]rune(text)) > 16_000 || strings.Count(text, "```")%2 != 0 {
				t.Errorf("a message of %d characters, %d marks of code", len([]rune(text)), strings.Count(text, "```"))
			}
		}
	})
}

// TestMyDataWithWhatCannotBeRead shows the rest.
func TestMyDataWithWhatCannotBeRead(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		b.makeList("mine", nil)
		b.makeList("ours", inGroup)
		b.must(b.redis.Set(state.ConversationKey("msteams", "28:bot", "19:g@thread.v2").String(), "planbot/99 from the future"))
		if shown := b.myData(); !strings.Contains(shown, `"cannot be read": true`) || !strings.Contains(shown, `"name": "mine"`) {
			t.Errorf("shown %s", shown)
		}
	})
}

func TestCommandsThatAreOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, func(c *bot.Config) { c.CommandsOff = []string{"/stop", "/reset", "/mydata", "/forget"} })
		b.makeList("mine", nil)
		for _, text := range []string{"/stop", "/reset", "/mydata", "/forget", "/forget yes"} {
			command, _, _ := strings.Cut(text, " ")
			b.tell(event{"text": text}, command+" is switched off here.")
		}
		b.tell(event{"text": nil, "value": event{"verb": "planbot/forget", "person": "29:mia"}}, "/forget is switched off here.")
		if kept := b.kept(); !strings.Contains(kept, "mine") || !strings.Contains(kept, "make mine") {
			t.Errorf("kept %s", kept)
		}
		b.bot.OnCommand("/forget", func(ctx context.Context, turn *bot.Turn) error { return turn.Tell(ctx, "Ask Ann.") })
		b.tell(event{"text": "/forget"}, "Ask Ann.")
		b.deliver(event{"text": "help", "channelId": "sms"})
		if help := b.connector.Next(t).Text(); strings.Contains(help, "/reset") || strings.Contains(help, "/mydata") || !strings.HasSuffix(help, "- **/forget**") {
			t.Errorf("help %s", help)
		}
		for range 2 { // also without the history
			b.model.Fails(400, "context_length_exceeded")
		}
		b.say("hello")
		b.expectFault("Sorry, that's too long for the AI model. Please shorten it. (turn ")
		b.must(b.redis.Set(state.UserKey("msteams", "28:bot", "29:mia").String(), "planbot/99 from the future"))
		b.say("hello")
		b.expectFault("Sorry, I can't read what I stored here. Whoever runs this bot has to fix that.")
		if len(b.model.Calls()) != 3 {
			t.Errorf("%d model calls", len(b.model.Calls()))
		}
	})
}

func TestUnknownCommandsOff(t *testing.T) {
	t.Parallel()
	_, err := bot.New(bot.Config{CommandsOff: []string{"/forget", "forget", "/help"}})
	for _, want := range []string{`"forget"`, `"/help"`, "no Actions"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %s: %v", want, err)
		}
	}
}

// forgetDuring has Mia say "/forget yes" to processes that die, after she made lists in her own chat
// and in a group. It returns what was sent, how many died, the steps of the first, and what is left.
func forgetDuring(t *testing.T, deaths ...place) (sent []string, died int, steps, left []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(time.Minute) }) // what is cut off finds out
		server, err := state.Open(t.Context(), "", state.Config{})
		must(t, err)
		t.Cleanup(func() { _ = server.Close() })
		var mu sync.Mutex
		orders := map[string]bool{"29:mia": true}
		c := &crashes{t: t, server: server, every: true, next: make(chan struct{}, 100), acts: func(r *actions.Registry) {
			r.OnForget(func(_ context.Context, turn *actions.Turn) (string, error) {
				mu.Lock()
				defer mu.Unlock()
				delete(orders, turn.Activity.From.ID)
				return "invoices", nil
			})
		}}
		body := func(id, text, conversation string) string {
			return `{"type":"message","id":"` + id + `","channelId":"msteams","serviceUrl":"http://127.0.0.1:1/","text":"` + text + `",` +
				`"from":{"id":"29:mia"},"recipient":{"id":"28:bot"},"conversation":` + conversation + `}`
		}
		mine := `{"id":"a:mia","conversationType":"personal","tenantId":"t1"}`
		m := c.begin()
		for _, c.body = range []string{
			body("a1", "go", mine),
			strings.Replace(body("a2", "<at>B</at> go", `{"id":"19:g","conversationType":"groupChat","isGroup":true}`), `"from"`,
				`"entities":[{"type":"mention","text":"<at>B</at>","mentioned":{"id":"28:bot"}}],"from"`, 1),
		} {
			if !c.deliver(m) {
				t.Fatal("not taken")
			}
			time.Sleep(aLongTime)
		}
		must(t, m.bot.Drain(t.Context()))
		c.mu.Lock()
		if len(c.sent) != 6 {
			t.Errorf("sent %q", c.sent)
		}
		c.sent, c.steps, c.deaths, c.body = nil, nil, deaths, body("a3", "/forget yes", mine)
		c.mu.Unlock()
		m = c.begin()
		taken := c.deliver(m)
		for quiet := false; !quiet || !taken; {
			select {
			case <-c.next:
				m = c.begin()
			case <-time.After(aLongTime):
				quiet = true
			}
			taken = taken || c.deliver(m) // as the channel does
		}
		conn, err := server.Dial(t.Context(), "", "")
		must(t, err)
		n, r := &nodes{T: t}, bufio.NewReader(conn)
		for _, key := range n.ask(conn, r, "KEYS", "*") {
			value := ""
			if n.ask(conn, r, "TYPE", key)[0] == "string" {
				value = n.ask(conn, r, "GET", key)[0]
			}
			if strings.Contains(key, "/users/") || strings.HasSuffix(key, "/conversations/a:mia") || strings.Contains(value, "29:mia") {
				left = append(left, key+": "+value)
			}
		}
		must(t, conn.Close())
		if len(orders) > 0 {
			left = append(left, "orders")
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		sent, died, steps = append(sent, c.sent...), c.died, c.steps
	})
	return sent, died, steps, left
}

// TestForgetInEveryCrash: whatever one or two deaths interrupt, the person reads once what is true,
// with what stays, and nothing else is left.
func TestForgetInEveryCrash(t *testing.T) {
	t.Parallel()
	ci.NotUnderRace(t, "it dies at each place of a turn")
	_, _, steps, _ := forgetDuring(t)
	want := "I've deleted everything I kept about you, except the audit of approvals and actions. This stays, because it belongs to others: invoices, lists."
	if got := strings.Join(steps, ", "); got != strings.Repeat("script, ", 8)+"send "+want+", script" {
		t.Fatalf("the steps are %s", got)
	}
	for _, at := range places(len(steps)) {
		t.Run(at.String(), func(t *testing.T) {
			t.Parallel()
			for _, deaths := range [][]place{{at}, {at, at}} {
				sent, died, _, left := forgetDuring(t, deaths...)
				if len(left) > 0 {
					t.Errorf("with deaths %v is left %q", deaths, left)
				}
				if n := len(slices.Compact(slices.Clone(sent))); n != 1 || sent[0] != want || len(sent) > 1+died {
					t.Errorf("with deaths %v was sent %q", deaths, sent)
				}
			}
		})
	}
}
