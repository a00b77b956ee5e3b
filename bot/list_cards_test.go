package bot_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/lists"
	"github.com/planbot-go/planbot/bottest"
)

// shopping is a bot with lists.
func shopping() bottest.Config {
	registry := actions.New()
	lists.Register(registry)
	return bottest.Config{Actions: registry}
}

// shows has the bot show the lists, or one of them.
func shows(kit *bottest.Kit, tell func(string) *bottest.Delivery, entities string) {
	kit.Model.Says(plan(saved(do("showLists", entities), "L"), say("$L")))
	tell("show my lists")
}

// makes has the bot make a list.
func makes(t *testing.T, kit *bottest.Kit, chat *bottest.Chat, tell func(string) *bottest.Delivery, list string, items ...string) {
	raw, err := json.Marshal(map[string]any{"list": list, "items": items})
	must(t, err)
	kit.Model.Says(plan(do("createList", string(raw)), say("Made it.")))
	tell("make a list")
	chat.Expect("Made it.")
}

// cardChanges returns the changes of messages that the bot has sent so far.
func cardChanges(kit *bottest.Kit) (all []bottest.Sent) {
	kit.Settle()
	for _, sent := range kit.Connector.Sent() {
		if sent.Method == http.MethodPut {
			all = append(all, sent)
		}
	}
	return all
}

// lastChange returns the last one, which must show the texts.
func lastChange(t *testing.T, kit *bottest.Kit, texts ...string) bottest.Sent {
	t.Helper()
	all := cardChanges(kit)
	if len(all) == 0 {
		t.Fatal("no message was changed")
	}
	last := all[len(all)-1]
	for _, text := range texts {
		if !strings.Contains(last.Card(), text) {
			t.Errorf("the card does not show %q: %s", text, last.Card())
		}
	}
	return last
}

// TestAListIsACard with a toggle for each item. A click changes the item, and the card for everybody.
func TestAListIsACard(t *testing.T) {
	t.Parallel()
	bottest.Test(t, shopping(), func(t *testing.T, kit *bottest.Kit) {
		chat := kit.Group("mia")
		makes(t, kit, chat, chat.Mention, "groceries", "milk", "**eggs** <b>", "tea")
		shows(kit, chat.Mention, `{"list":"all"}`)
		card := chat.ExpectCard("groceries", "☐ milk", "☐ **eggs** <b>", "☐ tea", `"verb":"lists/check"`)
		if strings.Contains(card.Card(), `"TextBlock"`) {
			t.Errorf("something on the card is read as Markdown: %s", card.Card())
		}
		chat.ExpectNothing()

		answer := card.Press("Check off milk")
		if !strings.Contains(string(answer.Body), `"type":"application/vnd.microsoft.card.adaptive"`) || !strings.Contains(string(answer.Body), "☑ milk") {
			t.Errorf("the person who clicked gets %d %s", answer.Status, answer.Body)
		}
		if changed := lastChange(t, kit, "☑ milk", "☐ tea"); changed.ID != card.ID {
			t.Errorf("the others get a change of %s, want of %s", changed.ID, card.ID)
		}
		card.As("otto").Press("Check off tea") // on a card that is out of date
		lastChange(t, kit, "☑ milk", "☑ tea")
		card.As("otto").Press("Check off milk") // it is: this is no toggle back
		now := lastChange(t, kit, "☑ milk", "☑ tea")
		click, err := now.Click(now.Buttons()[0])
		must(t, err)
		chat.Deliver(click)
		lastChange(t, kit, "☐ milk", "☑ tea")
		if got := len(cardChanges(kit)); got != 4 {
			t.Errorf("%d changes for 4 clicks", got)
		}
		kit.Model.Says(plan(do("addItem", `{"list":"groceries","item":"jam"}`), say("Added.")))
		chat.Mention("jam")
		chat.Expect("Added.")
		before := len(cardChanges(kit))
		view := chat.Invoke("adaptiveCard/action", json.RawMessage(`{"action":{"type":"Action.Execute","verb":"lists/refresh","data":{}},"trigger":"automatic"}`))
		if !strings.Contains(string(view.Body), "☐ jam") {
			t.Errorf("a client that refreshes the card gets %s", view.Body)
		}
		chat.Invoke("adaptiveCard/action", json.RawMessage(`{"action":{"type":"Action.Execute","verb":"lists/check","data":{"list":"groceries","item":"jam","done":true}},"trigger":"automatic"}`))
		view = chat.Invoke("adaptiveCard/action", json.RawMessage(`{"action":{"type":"Action.Execute","verb":"lists/refresh","data":{"skip":1}},"trigger":"manual"}`))
		if !strings.Contains(string(view.Body), "☐ jam") || len(cardChanges(kit)) != before {
			t.Errorf("a refresh has an effect: %s", view.Body)
		}
		chat.ExpectNothing()
		kit.Personal("mia").ExpectNothing()
	})
}

// TestTwoPeopleCheckItemsOffAtOnce: neither click is lost, and the last change shows both.
func TestTwoPeopleCheckItemsOffAtOnce(t *testing.T) {
	t.Parallel()
	bottest.Test(t, shopping(), func(t *testing.T, kit *bottest.Kit) {
		chat := kit.Group("mia")
		var items []string
		for i := range 8 {
			items = append(items, fmt.Sprint("item ", i))
		}
		makes(t, kit, chat, chat.Mention, "work", items...)
		shows(kit, chat.Mention, `{"list":"work"}`)
		card := chat.ExpectCard()
		var all sync.WaitGroup
		for i, item := range items {
			all.Go(func() { card.As(fmt.Sprint("person", i%3)).Press("Check off " + item) })
		}
		all.Wait()
		last := lastChange(t, kit)
		if got := strings.Count(last.Card(), "☑"); got != len(items) {
			t.Errorf("the card shows %d items as done, want %d: %s", got, len(items), last.Card())
		}
	})
}

// TestAListThatIsGone: the person who clicked is told, and nobody has its toggles any more.
func TestAListThatIsGone(t *testing.T) {
	t.Parallel()
	bottest.Test(t, shopping(), func(t *testing.T, kit *bottest.Kit) {
		chat := kit.Personal("mia")
		makes(t, kit, chat, chat.Say, "groceries", "milk", "tea")
		makes(t, kit, chat, chat.Say, "work", "mail")
		shows(kit, chat.Say, `{"list":"Groceries"}`)
		one := chat.ExpectCard("☐ milk")
		if strings.Contains(one.Card(), "mail") {
			t.Errorf("another list is on the card: %s", one.Card())
		}
		shows(kit, chat.Say, `{"list":"all"}`)
		all := chat.ExpectCard("☐ milk", "☐ mail")
		tells := func(answer *bottest.Delivery, want string) {
			t.Helper()
			if !strings.Contains(string(answer.Body), `"type":"application/vnd.microsoft.activity.message","value":"`+want+`"`) {
				t.Errorf("answered %s, want %s", answer.Body, want)
			}
		}
		kit.Model.Says(plan(do("removeItem", `{"list":"groceries","item":"tea"}`), say("Gone.")))
		chat.Say("no tea")
		chat.Expect("Gone.")
		tells(one.Press("Check off tea"), "tea is not on the list groceries.")
		if changed := lastChange(t, kit, "☐ milk"); strings.Contains(changed.Card(), "tea") {
			t.Errorf("tea is still on the card: %s", changed.Card())
		}
		kit.Model.Says(plan(do("deleteList", `{"list":"groceries"}`), say("Gone, too.")))
		chat.Say("no groceries")
		chat.Expect("Gone, too.")
		tells(one.Press("Check off milk"), "There is no list groceries.")
		if changed := lastChange(t, kit, "There is no list groceries."); len(changed.Buttons()) > 0 {
			t.Errorf("the card has toggles: %s", changed.Card())
		}
		tells(all.Press("Check off milk"), "There is no list groceries.")
		if changed := lastChange(t, kit, "☐ mail"); strings.Contains(changed.Card(), "milk") {
			t.Errorf("a deleted list is on the card: %s", changed.Card())
		}
		shows(kit, chat.Say, `{"list":"groceries"}`)
		chat.Expect("There is no list groceries.")
	})
}

// TestALongListIsOnSeveralCards, none of them larger than a channel takes.
func TestALongListIsOnSeveralCards(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		item  string
		cards int
	}{
		"short names": {"item number %d", 1},
		"long names":  {strings.Repeat("語", 190) + " %d", 6},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bottest.Test(t, shopping(), func(t *testing.T, kit *bottest.Kit) {
				chat := kit.Personal("mia")
				var items []string
				for i := range 60 {
					items = append(items, fmt.Sprintf(test.item, i))
				}
				makes(t, kit, chat, chat.Say, "long", items...)
				shows(kit, chat.Say, `{"list":"all"}`)
				toggles := 0
				var last bottest.Sent
				for range test.cards {
					last = chat.ExpectCard("long")
					toggles += len(last.Buttons())
					if len(last.Card()) > 28<<10 {
						t.Errorf("a card of %d bytes", len(last.Card()))
					}
				}
				chat.ExpectNothing()
				if toggles != len(items) {
					t.Errorf("%d toggles", toggles)
				}
				buttons := last.Buttons()
				click, err := last.Click(buttons[len(buttons)-1])
				must(t, err)
				chat.Deliver(click)
				changed := lastChange(t, kit, "☑")
				if got := strings.Count(changed.Card(), "☑"); got != 1 || len(changed.Buttons()) != len(buttons) {
					t.Errorf("%d items are done, of %d", got, len(changed.Buttons()))
				}
			})
		})
	}
}

// TestBadClicksOnLists change nothing and get a clear answer.
func TestBadClicksOnLists(t *testing.T) {
	t.Parallel()
	bottest.Test(t, shopping(), func(t *testing.T, kit *bottest.Kit) {
		chat := kit.Personal("mia")
		makes(t, kit, chat, chat.Say, "groceries", "milk")
		for data, want := range map[string]string{
			`"milk"`:                             `"statusCode":400`,
			`{"item":7,"list":["groceries"]}`:    `"statusCode":400`,
			`{"skip":-1e99}`:                     `"statusCode":400`,
			`{"item":"milk","list":"nowhere"}`:   "There is no list nowhere.",
			`{"item":"<item>","list":"<list>"}`:  "There is no list",
			`{"skip":999999999}`:                 "nothing on it",
			`{"skip":-1}`:                        "☐ milk",
			`null`:                               "☐ milk",
			`{"only":true}`:                      "There is no list",
			`{"list":"other","only":true}`:       "There is no list other.",
			`{"item":"milk","list":"GROCERIES"}`: "☐ milk",
		} {
			answer := chat.Invoke("adaptiveCard/action", json.RawMessage(`{"action":{"type":"Action.Execute","verb":"lists/check","data":`+data+`},"trigger":"manual"}`))
			if answer.Status != http.StatusOK || !strings.Contains(string(answer.Body), want) {
				t.Errorf("%s: %d %s, want %s", data, answer.Status, answer.Body, want)
			}
		}
		chat.ExpectNothing()
		if got := cardChanges(kit); len(got) > 0 {
			t.Errorf("a message was changed: %+v", got)
		}
	})
}

// TestListsWithoutCards are texts, as ever.
func TestListsWithoutCards(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		b.model.Says(plan(do("createList", `{"list":"home","items":["milk"]}`), saved(do("showLists", `{"list":"all"}`), "L"), say("Look:\n$L")))
		b.deliver(event{"channelId": "slack", "text": "show"})
		b.expect("**home**\n- milk")
		b.expect("Look:")
	})
}
