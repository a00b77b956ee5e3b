package bot_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bot/teams"
	"github.com/planbot-go/planbot/bottest"
)

const (
	stillWorking = "I'm still working on it, so there's no need to send it again."
	willMessage  = "I'm still working on it. You get a message as soon as it's ready."
)

type lateHandler = func(context.Context, *bot.Turn, teams.Input) (teams.Answer, error)

// after6s answers after six seconds.
func after6s(a teams.Answer) lateHandler {
	return func(ctx context.Context, _ *bot.Turn, _ teams.Input) (teams.Answer, error) {
		select {
		case <-time.After(6 * time.Second):
			return a, nil
		case <-ctx.Done():
			return teams.Answer{}, ctx.Err()
		}
	}
}

func quickly(a teams.Answer) lateHandler {
	return func(context.Context, *bot.Turn, teams.Input) (teams.Answer, error) { return a, nil }
}

// nextForm is a form of two steps.
func nextForm(title string) teams.Answer {
	return teams.Answer{Form: &teams.Form{Title: title, Card: activity.Card{
		Fallback: title,
		Body:     []any{map[string]any{"type": "Input.Text", "id": "name"}},
		Actions:  []any{activity.Button{Title: "Save", Data: map[string]any{"verb": "two"}}},
	}}}
}

// submitOf is what a client sends for a button of a card, with that name filled in.
func submitOf(t *testing.T, button map[string]any, name string) map[string]any {
	t.Helper()
	data, ok := button["data"].(map[string]any)
	if !ok {
		t.Fatalf("a button without data: %v", button)
	}
	data["name"] = name
	return map[string]any{"data": data}
}

// openLate opens the form of a button that came late, and returns the form's own button.
func openLate(t *testing.T, sent bottest.Sent, chat *bottest.Chat, title string) map[string]any {
	t.Helper()
	buttons := sent.Buttons()
	if len(buttons) != 1 {
		t.Fatalf("%d buttons in %s", len(buttons), sent.JSON)
	}
	data := buttons[0]["data"].(map[string]any)
	if kind := data["msteams"].(map[string]any)["type"]; kind != "task/fetch" {
		t.Fatalf("the button opens no dialog: %v", data)
	}
	got := chat.Invoke("task/fetch", map[string]any{"data": data, "context": map[string]any{"theme": "dark"}})
	var form struct {
		Task struct {
			Type  string
			Value struct {
				Title string
				Card  struct {
					Content struct{ Actions []map[string]any }
				}
			}
		}
	}
	if err := json.Unmarshal(got.Body, &form); err != nil || form.Task.Type != "continue" || form.Task.Value.Title != title {
		t.Fatalf("opened %s", got.Body)
	}
	return form.Task.Value.Card.Content.Actions[0]
}

func lateKit(t *testing.T, routes teams.Routes, test func(t *testing.T, kit *bottest.Kit)) {
	bottest.Test(t, bottest.Config{Actions: actions.New(), Change: func(c *bot.Config) { c.Teams = routes }}, test)
}

// TestLateAnswers: whoever reads that the bot still works on it gets what comes of it, whatever that is, alone.
func TestLateAnswers(t *testing.T) {
	t.Parallel()
	garden := teams.Answer{Items: []teams.Item{{Card: aCard("Garden"), Title: "Garden"}}}
	page := teams.Answer{Form: &teams.Form{Title: "Page", URL: "https://contoso.com/page"}}
	for _, tt := range []struct {
		name string
		in   string // the invoke
		a    teams.Answer
		text string
		card string // is in the card
	}{
		{"a message", "task/submit", teams.Answer{Message: "Saved."}, "Saved.", ""},
		{"the next form", "task/submit", nextForm("Two"), "", "The form is ready now."},
		{"a page", "task/submit", page, "", "The form is ready now."},
		{"the end", "task/submit", teams.Answer{}, "I'm done with what you sent.", ""},
		{"an item", "composeExtension/submitAction", garden, "Here it is. It came too late for your message, so please copy it from here.", "Garden"},
		{"a preview", "composeExtension/submitAction", teams.Answer{Preview: aCard("Garden")}, "This is the preview. Nothing is posted yet: to post it, please start again.", "Garden"},
		{"a form", "composeExtension/submitAction", nextForm("Two"), "", "The form is ready now."},
		{"settings", "composeExtension/submitAction", teams.Answer{Settings: "https://contoso.com/s"}, "This needs your settings first. Please start again, and fill them in.", ""},
		{"nothing", "composeExtension/submitAction", teams.Answer{}, "I'm done with what you sent.", ""},
		{"a setting", "config/submit", teams.Answer{Message: "Saved."}, "Saved.", ""},
		{"the end of the settings", "config/submit", teams.Answer{}, "I'm done with what you sent.", ""},
		{"a large form", "task/submit", nextForm(strings.Repeat("Two", 8000)), "The form is ready, but too large for a message. Please start again.", ""},
	} {
		t.Run(tt.in+" "+tt.name, func(t *testing.T) {
			t.Parallel()
			routes := teams.Routes{
				Dialogs: map[string]teams.Dialog{"one": {Submit: after6s(tt.a)}},
				Config:  teams.Dialog{Submit: after6s(tt.a)},
				Extension: teams.Extension{Commands: []teams.Command{{
					ID: "share", Title: "Share", Fetch: quickly(nextForm("One")), Submit: after6s(tt.a),
				}}},
			}
			lateKit(t, routes, func(t *testing.T, kit *bottest.Kit) {
				for _, chat := range []*bottest.Chat{kit.Personal("Mia"), kit.Group("team", "Mia")} {
					got := chat.Invoke(tt.in, map[string]any{"commandId": "share", "data": map[string]any{"verb": "one"}})
					if got.Status != http.StatusOK || !strings.Contains(string(got.Body), stillWorking) {
						t.Fatalf("%d %s", got.Status, got.Body)
					}
					sent := chat.Next()
					if sent.Activity.Text != tt.text || !strings.Contains(sent.Card(), tt.card) || (tt.card == "") != (sent.Card() == "") {
						t.Errorf("sent %s", sent.JSON)
					}
					if want := strings.HasPrefix(sent.To, "19:"); sent.Targeted != want {
						t.Errorf("targeted %v: %s", sent.Targeted, sent.JSON)
					}
					chat.ExpectNothing()
				}
			})
		})
	}
}

// TestLateForms: a form that came too late opens from its message, and what is filled in reaches the handler
// that it was meant for, whatever that belongs to.
func TestLateForms(t *testing.T) {
	t.Parallel()
	var given teams.Input
	note := func(a teams.Answer) lateHandler {
		return func(_ context.Context, _ *bot.Turn, in teams.Input) (teams.Answer, error) {
			given = in
			return a, nil
		}
	}
	routes := teams.Routes{
		Dialogs: map[string]teams.Dialog{
			"one": {Fetch: after6s(nextForm("One")), Submit: after6s(nextForm("Two"))},
			"two": {Submit: note(teams.Answer{Message: "The dialog has it."})},
		},
		Config: teams.Dialog{Fetch: after6s(nextForm("Settings")), Submit: note(teams.Answer{Message: "The settings have it."})},
		Extension: teams.Extension{Commands: []teams.Command{
			{ID: "message", Title: "Message", Fetch: after6s(nextForm("Command")), Submit: note(teams.Answer{Message: "The command has it."})},
			{ID: "item", Title: "Item", Fetch: after6s(nextForm("Command")), Submit: note(teams.Answer{Items: []teams.Item{{Card: aCard("Garden")}}})},
		}},
	}
	lateKit(t, routes, func(t *testing.T, kit *bottest.Kit) {
		for _, chat := range []*bottest.Chat{kit.Personal("Mia"), kit.Group("team", "Mia")} {
			for _, tt := range []struct{ in, value, title, said, want string }{
				{"task/fetch", `{"data":{"verb":"one"}}`, "One", willMessage, `"The dialog has it."`},
				{"task/submit", `{"data":{"verb":"one"}}`, "Two", stillWorking, `"The dialog has it."`},
				{"config/fetch", `{"data":{}}`, "Settings", willMessage, `"The settings have it."`},
				{"composeExtension/fetchTask", `{"commandId":"message","messagePayload":{"id":"7","body":{"content":"<p>Hi</p>"}}}`, "Command", willMessage, `"The command has it."`},
				{"composeExtension/fetchTask", `{"commandId":"item"}`, "Command", willMessage, ""},
			} {
				got := chat.Invoke(tt.in, json.RawMessage(tt.value))
				if got.Status != http.StatusOK || !strings.Contains(string(got.Body), tt.said) {
					t.Fatalf("%s: %d %s", tt.in, got.Status, got.Body)
				}
				button := openLate(t, chat.ExpectCard("The form is ready now."), chat, tt.title)
				given = teams.Input{}
				answered := chat.Invoke("task/submit", submitOf(t, button, "Garden"))
				if answered.Status != http.StatusOK || !strings.Contains(string(answered.Body), tt.want) {
					t.Errorf("%s %s: %d %s", tt.in, tt.title, answered.Status, answered.Body)
				}
				if data := string(given.Data); data != `{"name":"Garden","verb":"two"}` {
					t.Errorf("%s %s: the handler got %s", tt.in, tt.title, data)
				}
				if m := given.Message; strings.Contains(tt.value, "messagePayload") && (m == nil || m.HTML != "<p>Hi</p>" || given.Command != "message") {
					t.Errorf("the command got %+v", given)
				}
				if tt.want == "" { // a dialog shows no item
					chat.Expect("Here it is. It came too late for your message, so please copy it from here.")
				}
				chat.ExpectNothing()
			}
		}
	})
}

// TestLateFetchGoesOn: a slow handler of a form is not cut off, runs once, and its card comes once, however
// often the person presses. If its process dies, it runs again.
func TestLateFetchGoesOn(t *testing.T) {
	t.Parallel()
	var runs atomic.Int64
	routes := teams.Routes{Dialogs: map[string]teams.Dialog{"one": {
		Fetch: func(ctx context.Context, turn *bot.Turn, in teams.Input) (teams.Answer, error) {
			runs.Add(1)
			return after6s(nextForm("One"))(ctx, turn, in)
		},
	}, "bad": {
		Fetch: func(ctx context.Context, turn *bot.Turn, in teams.Input) (teams.Answer, error) {
			_, _ = after6s(teams.Answer{})(ctx, turn, in)
			return teams.Answer{}, &bot.InvokeError{Status: http.StatusConflict, Code: "Closed", Message: "The list is closed."}
		},
	}}}
	lateKit(t, routes, func(t *testing.T, kit *bottest.Kit) {
		chat := kit.Personal("Mia")
		began := time.Now()
		chat.Invoke("task/fetch", map[string]any{"data": map[string]any{"verb": "one"}})
		chat.ExpectCard("The form is ready now.", "One")
		if took := time.Since(began); took < 6*time.Second || took > 7*time.Second || runs.Load() != 1 {
			t.Errorf("the card took %v and %d runs", took, runs.Load())
		}
		press := func() { chat.Invoke("task/fetch", map[string]any{"data": map[string]any{"verb": "one"}}) }
		kit.Together(press, press, press)
		chat.ExpectCard("The form is ready now.", "One")
		chat.ExpectNothing()
		chat.Invoke("task/fetch", map[string]any{"data": map[string]any{"verb": "bad"}})
		chat.Expect("The list is closed.")
		chat.ExpectNothing()
		press()
		kit.Restart()
		chat.ExpectCard("The form is ready now.", "One")
		chat.ExpectNothing()
	})
}

// TestLateElsewhere: if the bot is not in the chat, its person gets the answer in their own chat with it.
func TestLateElsewhere(t *testing.T) {
	t.Parallel()
	fails := func(ctx context.Context, turn *bot.Turn, in teams.Input) (teams.Answer, error) {
		_, _ = after6s(teams.Answer{})(ctx, turn, in)
		return teams.Answer{}, &bot.InvokeError{Status: http.StatusConflict, Code: "Closed", Message: "The list is closed."}
	}
	routes := teams.Routes{Extension: teams.Extension{Commands: []teams.Command{
		{ID: "message", Title: "Message", Fetch: quickly(nextForm("One")), Submit: after6s(teams.Answer{Message: "Saved."})},
		{ID: "item", Title: "Item", Fetch: quickly(nextForm("One")), Submit: after6s(teams.Answer{Items: []teams.Item{{Card: aCard("Garden")}}})},
		{ID: "fails", Title: "Fails", Fetch: quickly(nextForm("One")), Submit: fails},
		{ID: "form", Title: "Form", Fetch: after6s(nextForm("One")), Submit: fails},
	}}}
	refusals := map[string]bottest.Answer{
		"personal":  {Status: http.StatusForbidden, Code: "BotNotInConversationRoster"},
		"groupChat": {Status: http.StatusForbidden, Code: "BotNotInConversationRoster"},
		"channel":   {Status: http.StatusForbidden, Code: "BotNotInConversationRoster"},
		// Where the bot is, but no messages for one person.
		"groupChat, 400": {Status: http.StatusBadRequest, Code: "BadArgument"},
		"channel, 405":   {Status: http.StatusMethodNotAllowed, Code: "BadArgument"},
	}
	for where, refusal := range refusals {
		kind, _, _ := strings.Cut(where, ",")
		for _, known := range []bool{true, false} {
			lateKit(t, routes, func(t *testing.T, kit *bottest.Kit) {
				const elsewhere = "19:mia_otto@unq.gbl.spaces"
				kit.Connector.Decides(func(s bottest.Sent) bottest.Answer {
					if s.To == elsewhere {
						return refusal
					}
					return bottest.Answer{}
				})
				own := kit.Personal("mia")
				if known {
					own.Say("help")
					own.Next()
				}
				chat := kit.Conversation(elsewhere, kind, "mia")
				for _, step := range []struct{ name, command, want string }{
					{"composeExtension/submitAction", "message", "Saved."},
					{"composeExtension/submitAction", "item", "Garden"},
					{"composeExtension/submitAction", "fails", "The list is closed."},
					{"composeExtension/fetchTask", "form", "The form is ready now."},
				} {
					chat.Invoke(step.name, map[string]any{"commandId": step.command, "data": map[string]any{}})
					if sent := own.Next(); !strings.Contains(sent.JSON, step.want) || sent.Targeted {
						t.Errorf("%s, known %v: sent %s", where, known, sent.JSON)
					}
				}
				own.ExpectNothing()
			})
		}
	}
}

// TestEqualForms: the same data at once counts once, whatever the theme. After the first was answered, the
// person wants another one.
func TestEqualForms(t *testing.T) {
	t.Parallel()
	var runs atomic.Int64
	slow := func(within time.Duration) lateHandler {
		return func(context.Context, *bot.Turn, teams.Input) (teams.Answer, error) {
			time.Sleep(within)
			runs.Add(1)
			return teams.Answer{Message: "Noted."}, nil
		}
	}
	routes := teams.Routes{
		Dialogs:   map[string]teams.Dialog{"quick": {Submit: slow(time.Second)}, "slow": {Submit: slow(6 * time.Second)}},
		Config:    teams.Dialog{Submit: slow(time.Second)},
		Extension: teams.Extension{Commands: []teams.Command{{ID: "add", Title: "Add", Fetch: quickly(nextForm("One")), Submit: slow(time.Second)}}},
	}
	lateKit(t, routes, func(t *testing.T, kit *bottest.Kit) {
		chat := kit.Personal("Mia")
		for _, tt := range []struct{ in, verb string }{
			{"task/submit", "quick"}, {"task/submit", "slow"}, {"config/submit", ""}, {"composeExtension/submitAction", ""},
		} {
			runs.Store(0)
			send := func(theme string) func() {
				return func() {
					chat.Invoke(tt.in, map[string]any{"commandId": "add", "data": map[string]any{"verb": tt.verb, "n": 1}, "context": map[string]any{"theme": theme}})
				}
			}
			kit.Together(send("dark"), send("default"), send("contrast"))
			if tt.verb == "slow" {
				chat.Expect("Noted.")
			}
			if n := runs.Load(); n != 1 {
				t.Errorf("%s %s: at once %d runs", tt.in, tt.verb, n)
			}
			send("default")()
			if tt.verb == "slow" {
				chat.Expect("Noted.")
			}
			if n := runs.Load(); n != 2 {
				t.Errorf("%s %s: one after the other %d runs", tt.in, tt.verb, n)
			}
			chat.ExpectNothing()
		}
	})
}
