package bot_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bot/turn/files"
	"github.com/planbot-go/planbot/bottest"
)

func closeIt(_ context.Context, _ *actions.Turn, in closeTicket) (actions.Result, error) {
	return actions.Text("closed %d", in.ID), nil
}

// odd is an action with entities of every kind, and without titles.
type odd struct {
	Words    string            `json:"some_words,omitempty"`
	Items    []string          `json:"items,omitempty"`
	Sizes    []string          `json:"sizes,omitempty" enum:"s,l" labels:"Small,Large"`
	Sure     bool              `json:"sure,omitempty"`
	Where    map[string]string `json:"where,omitempty"`
	Anything any               `json:"anything,omitempty"`
}

// deskBot has both actions, in German too.
func deskBot() bottest.Config {
	acts := actions.New()
	registerDesk(acts)
	actions.Add(acts, "doOddThing", "Does it", func(context.Context, *actions.Turn, odd) (actions.Result, error) { return actions.Done, nil }, actions.NeedsApproval)
	return bottest.Config{Actions: acts, Change: func(cfg *bot.Config) {
		cfg.Texts = map[string]map[string]string{"de": {
			"Close a ticket": "Ticket schließen", "Closes a ticket": "Schließt ein Ticket", "Priority": "Dringlichkeit", "Urgent": "Eilig", "When": "Wann",
			"close ticket {id}": "schließe {id}",
		}}
	}}
}

// rows are the lines of the only card of a message.
func rows(t *testing.T, m bottest.Sent) (all []string) {
	t.Helper()
	var card struct {
		Body []struct {
			Text    string
			Inlines []struct{ Text string }
		}
	}
	if err := json.Unmarshal(m.Activity.Attachments[0].Content, &card); err != nil {
		t.Fatal(err)
	}
	for _, block := range card.Body {
		line := block.Text
		for _, run := range block.Inlines {
			line += run.Text
		}
		all = append(all, line)
	}
	return all
}

// ask has the model call an action, and returns what the card of the approval shows.
func askFor(t *testing.T, kit *bottest.Kit, chat *bottest.Chat, over map[string]any, action, entities string) (m bottest.Sent, lines string) {
	t.Helper()
	kit.Model.Says(plan(do(action, entities), say("Done.")))
	a := map[string]any{"type": "message", "text": "please"}
	for name, value := range over {
		a[name] = value
	}
	chat.Deliver(a)
	m = chat.Next()
	return m, strings.Join(rows(t, m), "\n")
}

func TestNamesForPeople(t *testing.T) {
	t.Parallel()
	bottest.Test(t, deskBot(), func(t *testing.T, kit *bottest.Kit) {
		mia := kit.Personal("Mia")
		berlin := []any{map[string]any{"type": "clientInfo", "timezone": "Europe/Berlin", "locale": "de-DE"}}
		const call = `{"id":7,"priority":"p1","at":"2035-07-01T10:00:00Z"}`
		m, lines := askFor(t, kit, mia, map[string]any{"locale": "de-DE", "entities": berlin}, "closeTicket", call)
		for _, want := range []string{"Ticket schließen\nSchließt ein Ticket\n", "Wann: 01.07.2035 12:00 CEST", "Ticket: 7", "Dringlichkeit: Eilig"} {
			if !strings.Contains(lines, want) {
				t.Errorf("the card in German lacks %q:\n%s", want, lines)
			}
		}
		if expires := lines[strings.LastIndex(lines, "\n")+1:]; !strings.HasSuffix(expires, " CET.") && !strings.HasSuffix(expires, " CEST.") {
			t.Errorf("in which zone does it expire? %s", expires)
		}
		for _, never := range []string{"closeTicket", "p1", "priority", "UTC"} {
			if strings.Contains(lines+m.Activity.Summary, never) {
				t.Errorf("a person reads %s:\n%s", never, lines)
			}
		}
		mia.Deliver(map[string]any{"type": "message", "text": "help", "locale": "de-DE"})
		if help := fmt.Sprint(rows(t, mia.Next())); !strings.Contains(help, "**Ticket schließen**: “schließe {Ticket}”") || !strings.Contains(help, "**Do odd thing**: Does it") {
			t.Errorf("help is %s", help)
		}
		_, lines = askFor(t, kit, mia, map[string]any{"localTimestamp": "2035-07-01T05:00:00-07:00"}, "closeTicket", call)
		for _, want := range []string{"Close a ticket\nCloses a ticket\n", "When: 2035-07-01 03:00 -07", "Priority: Urgent"} {
			if !strings.Contains(lines, want) {
				t.Errorf("the card in English lacks %q:\n%s", want, lines)
			}
		}
		if _, lines = askFor(t, kit, mia, nil, "closeTicket", `{"id":7,"at":"2035-07-01T10:00:30Z"}`); !strings.Contains(lines, "When: 2035-07-01T10:00:30Z") {
			t.Errorf("seconds are lost:\n%s", lines)
		}
	})
}

// TestClicksAreAnsweredInTheLanguageOfTheConversation: a click does not always have a locale.
func TestClicksAreAnsweredInTheLanguageOfTheConversation(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		b.bot.OnCardAction("sure", func(_ context.Context, turn *bot.Turn, _ bot.CardClick) (bot.CardAnswer, error) {
			return bot.CardAnswer{Message: turn.Translate("yes")}, nil
		})
		b.tell(event{"text": "/reset", "locale": "de-DE"}, "Ich habe unser Gespräch gelöscht. Alles andere, was ich für dich gespeichert habe, ist noch da.")
		if got := b.deliver(pressed("sure", nil)); !strings.Contains(got.body, `"value":"ja"`) {
			t.Errorf("a button of the bot's own: %s", got.body)
		}
	})
	bottest.Test(t, deskBot(), func(t *testing.T, kit *bottest.Kit) {
		mia, german := kit.Personal("Mia"), map[string]any{"locale": "de-DE"}
		m, _ := askFor(t, kit, mia, german, "closeTicket", `{"id":7,"at":"2035-07-01T10:00:00Z"}`)
		if got := string(m.Press("Ablehnen").Body); !strings.Contains(got, "Abgelehnt von Mia") || strings.Contains(got, "Close a ticket") {
			t.Errorf("the click was answered with %s", got)
		}
		mia.ExpectMatch("^OK, das tue ich nicht: Ticket schließen")
		if got := m.Press("Ablehnen").Shown(); !strings.Contains(got, "Darüber wurde schon entschieden: Abgelehnt von Mia") {
			t.Errorf("the second click was answered with %s", got)
		}
		unknown, err := m.Click(map[string]any{"type": "Action.Execute", "verb": "planbot/reject", "data": map[string]any{"verb": "planbot/reject", "approval": "none", "hash": "x"}})
		if err != nil {
			t.Fatal(err)
		}
		if got := mia.Deliver(unknown).Taken().Shown(); !strings.HasPrefix(got, "Ich warte nicht mehr") {
			t.Errorf("a late click was answered with %q", got)
		}
	})
}

// TestValuesAreReadable, and no two texts look the same.
func TestValuesAreReadable(t *testing.T) {
	t.Parallel()
	bottest.Test(t, deskBot(), func(t *testing.T, kit *bottest.Kit) {
		mia := kit.Personal("Mia")
		for entities, want := range map[string]string{
			`{"some_words":"HP-2231, \"new\""}`:                                  `Some words: HP-2231, "new"`,
			`{"some_words":"\"quoted\""}`:                                        `Some words: "\"quoted\""`,
			`{"some_words":"two\nlines\u202e "}`:                                 `Some words: "two\nlines\u202e "`,
			`{"some_words":"two\\nlines"}`:                                       `Some words: two\nlines`,
			`{"some_words":"–"}`:                                                 `Some words: "–"`,
			`{"items":["milk","oat milk","a, b","c:\\d"]}`:                       `Items: milk, oat milk, "a, b", "c:\\d"`,
			`{"sizes":["l","s"]}`:                                                `Sizes: Large, Small`,
			`{"sure":true}`:                                                      `Sure: yes`,
			`{"where":{"room":"B 12","a:b":""}}`:                                 `Where: "a:b": "", room: B 12`,
			`{"anything":["--serial","HP-2231"]}`:                                `Anything: --serial, HP-2231`,
			`{"anything":"[\"--serial\",\"HP-2231\"]"}`:                          `Anything: --serial, HP-2231`,
			`{"anything":{"unit":"mile","n":12345678901234567890,"more":[[1]]}}`: `Anything: more: ((1)), n: 12345678901234567890, unit: mile`,
			`{"anything":"[not JSON"}`:                                           `Anything: [not JSON`,
			`{"anything":[null,false,[]]}`:                                       `Anything: cleared, no, (–)`,
			`{"nobodys":"x"}`:                                                    `nobodys (not used): x`,
		} {
			if _, lines := askFor(t, kit, mia, nil, "doOddThing", entities); !strings.Contains(lines, "\n"+want+"\n") {
				t.Errorf("%s is shown as\n%s\nwant %s", entities, lines, want)
			}
			mia.Say("/reset")
			mia.Next()
		}
	})
}

// TestWrongNamesAreRefused at the start, all at once.
func TestWrongNamesAreRefused(t *testing.T) {
	t.Parallel()
	acts := actions.New()
	registerDesk(acts)
	actions.Add(acts, "close", "", closeIt, actions.Title("Close a ticket"), actions.Example("close {ticket}"))
	transcribe := func(context.Context, string, []byte) (string, error) { return "", nil }
	_, err := bot.New(bot.Config{
		Actions: acts, MaxSteps: -1, PictureHosts: []string{"https://pictures.example.com/a"}, Attachments: files.Attachments{Transcribe: transcribe},
	})
	for _, want := range []string{
		"no Planner", "MaxSteps is negative", "PictureHosts: ", "Transcribe need Shown",
		`action close has the title "Close a ticket" of closeTicket`, `"close {ticket}" has a slot {ticket}, which is no entity`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %q: %v", want, err)
		}
	}
}

// TestNoticesInTheLanguageOfTheConversation, also if nobody speaks just then.
func TestNoticesInTheLanguageOfTheConversation(t *testing.T) {
	t.Parallel()
	config := deskBot()
	actions.Add(config.Actions, "brewTea", "Brews tea", brewTea)
	bottest.Test(t, config, func(t *testing.T, kit *bottest.Kit) {
		mia := kit.Personal("Mia")
		kit.Model.Says(plan(do("brewTea", `{"minutes":1}`), say("Gleich.")))
		mia.Deliver(map[string]any{"type": "message", "text": "Tee", "locale": "de-DE"})
		mia.Expect("Gleich.")
		kit.StopRedis()
		time.Sleep(10 * time.Minute) // in the bubble
		kit.StartRedis()
		time.Sleep(time.Minute)
		mia.Expect("Your tea is ready.")
		mia.ExpectMatch("^Das war fällig: ")
	})
}
