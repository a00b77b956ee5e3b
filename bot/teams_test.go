package bot_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bot/teams"
	"github.com/planbot-go/planbot/bottest"
	"github.com/planbot-go/planbot/state"
)

// invoked is an invoke of that name.
func invoked(name string, value any) event {
	return event{"type": "invoke", "name": name, "value": value}
}

// aCard is a card with that text.
func aCard(text string) *activity.Card {
	return &activity.Card{Fallback: text, Body: []any{activity.TextBlock{Text: text}}}
}

func setupTeams(t *testing.T, routes teams.Routes, change ...func(*bot.Config)) *bundle {
	t.Helper()
	return setup(t, append(change, func(c *bot.Config) { c.Teams, c.AckTimeout = routes, 0 })...)
}

// has fails unless the answer is 200 and its body has all that want has, as JSON.
func (b *bundle) has(got answer, want string) {
	b.Helper()
	var have, wanted any
	if got.status != http.StatusOK || json.Unmarshal([]byte(got.body), &have) != nil {
		b.Fatalf("answered with %d %s", got.status, got.body)
	}
	b.must(json.Unmarshal([]byte(want), &wanted))
	if !within(wanted, have) {
		b.Errorf("answered with\n%s\nwithout\n%s", got.body, want)
	}
}

// within reports whether have has all of want.
func within(want, have any) bool {
	switch w := want.(type) {
	case map[string]any:
		h, ok := have.(map[string]any)
		for name, value := range w {
			ok = ok && within(value, h[name])
		}
		return ok
	case []any:
		h, ok := have.([]any)
		ok = ok && len(h) == len(w)
		for i := 0; ok && i < len(w); i++ {
			ok = within(w[i], h[i])
		}
		return ok
	}
	return want == have
}

const garden = `{"contentType":"application/vnd.microsoft.card.adaptive","content":{"type":"AdaptiveCard","body":[{"text":"Garden"}]}}`

func TestTeamsRoutes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		form := teams.Answer{Form: &teams.Form{Title: "New list", Height: "medium", Width: "400", Card: aCard("Garden")}}
		item := teams.Item{Card: aCard("Garden"), Title: "Garden", Text: "3 items", Image: "https://contoso.com/g.png", Tap: map[string]string{"id": "g"}}
		items := teams.Answer{Items: []teams.Item{item}}
		parameter := []teams.Parameter{{Name: "q", Title: "Name"}}
		var asked teams.Query
		var given teams.Input
		note := func(a teams.Answer) func(context.Context, *bot.Turn, teams.Input) (teams.Answer, error) {
			return func(_ context.Context, _ *bot.Turn, in teams.Input) (teams.Answer, error) {
				given = in
				return a, nil
			}
		}
		find := func(a teams.Answer) func(context.Context, *bot.Turn, teams.Query) (teams.Answer, error) {
			return func(_ context.Context, _ *bot.Turn, q teams.Query) (teams.Answer, error) {
				asked = q
				return a, nil
			}
		}
		b := setupTeams(t, teams.Routes{
			Dialogs: map[string]teams.Dialog{
				"newList": {Fetch: note(form), Submit: note(teams.Answer{})},
				"page":    {Fetch: note(teams.Answer{Form: &teams.Form{Title: "Page", URL: "https://contoso.com/page"}}), Submit: note(teams.Answer{Message: "Saved."})},
				"bad":     {Fetch: note(teams.Answer{Form: &teams.Form{Card: "a text"}})},
				"boom":    {Fetch: func(context.Context, *bot.Turn, teams.Input) (teams.Answer, error) { panic("boom") }},
				"":        {Submit: note(form)},
			},
			Search: map[string]func(context.Context, *bot.Turn, teams.Query) ([]teams.Choice, error){
				"lists": func(_ context.Context, _ *bot.Turn, q teams.Query) ([]teams.Choice, error) {
					asked = q
					if q.Text == "boom" {
						return nil, &bot.InvokeError{Status: 400, Code: "No", Message: "Not here."}
					}
					return make([]teams.Choice, len(q.Text)), nil
				},
			},
			Extension: teams.Extension{
				Commands: []teams.Command{
					{ID: "find", Title: "Find", Parameters: parameter, Initial: true, Query: find(items)},
					{ID: "mails", Title: "Mails", Parameters: parameter, Query: func(context.Context, *bot.Turn, teams.Query) (teams.Answer, error) {
						return teams.Answer{}, &teams.SignIn{URL: "https://contoso.com/login"}
					}},
					{ID: "share", Title: "Share", Fetch: note(form), Submit: note(teams.Answer{Preview: aCard("Garden")}), Send: func(ctx context.Context, turn *bot.Turn, in teams.Input) error {
						return turn.Show(ctx, *aCard("Sent"))
					}},
				},
				Select: func(_ context.Context, _ *bot.Turn, in teams.Input) (teams.Item, error) {
					given = in
					return teams.Item{Card: aCard("Garden")}, nil
				},
				Link:          find(teams.Answer{Items: []teams.Item{item}, NoCache: true}),
				AnonymousLink: find(items), Domains: []string{"*.contoso.com"},
				Settings: func(context.Context, *bot.Turn, teams.Input) (string, error) {
					return "https://contoso.com/settings", nil
				},
			},
			Config:       teams.Dialog{Fetch: note(form), Submit: note(teams.Answer{Message: "Saved."})},
			FeedbackForm: func(_ context.Context, _ *bot.Turn, liked bool) (teams.Answer, error) { return form, nil },
		})
		query := event{"commandId": "find", "parameters": []event{{"name": "q", "value": "gar"}}, "queryOptions": event{"skip": 25, "count": 10}}
		const formed = `{"type":"continue","value":{"title":"New list","height":"medium","width":400,"card":` + garden + `}}`
		const listed = `{"composeExtension":{"type":"result","attachmentLayout":"list","attachments":[{"contentType":"application/vnd.microsoft.card.adaptive",
		"content":{"type":"AdaptiveCard"},"preview":{"contentType":"application/vnd.microsoft.card.thumbnail","content":
		{"title":"Garden","text":"3 items","images":[{"url":"https://contoso.com/g.png"}],"tap":{"type":"invoke","value":{"id":"g"}}}}}]}}`
		const unlinked = `{"composeExtension":{"type":"result","attachments":[]}}`
		const gone = `{"task":{"type":"message","value":"Sorry, nothing is behind this button any more."}}`
		for _, c := range []struct {
			name   string
			value  any
			status int
			body   string
		}{
			{"task/fetch", event{"data": event{"verb": "newList"}, "context": event{"theme": "dark"}}, 200, `{"task":` + formed + `}`},
			{"task/fetch", event{"data": event{"verb": "page"}}, 200, `{"task":{"type":"continue","value":{"title":"Page","url":"https://contoso.com/page"}}}`},
			{"task/fetch", event{"data": event{"verb": "bad"}}, 200, `{"task":{"type":"message","value":"Sorry, something went wrong on my side. Please try again."}}`},
			{"task/fetch", event{"data": event{"verb": "boom"}}, 200, `{"task":{"type":"message","value":"Sorry, something went wrong on my side. Please try again."}}`},
			{"task/fetch", event{"data": event{"verb": "other"}}, 200, gone},
			{"task/submit", event{"data": event{"verb": "other"}}, 200, gone},
			{"task/fetch", event{"data": event{"verb": 7}}, 400, ``},
			{"task/fetch", event{}, 200, gone}, // "" has no Fetch
			{"task/fetch", nil, 400, ``},
			{"task/submit", event{"data": event{"verb": "newList", "name": "Garden"}}, 200, ``},
			{"task/submit", event{"data": event{"verb": "page"}}, 200, `{"task":{"type":"message","value":"Saved."}}`},
			{"task/submit", event{"data": "of a page"}, 200, `{"task":` + formed + `}`},
			{"task/submit", event{"data": nil}, 200, `{"task":` + formed + `}`},
			{"application/search", event{"queryText": "gr", "dataset": "lists"}, 200, `{"type":"application/vnd.microsoft.search.searchResponse","value":{"results":[{},{}]}}`},
			{"application/search", event{"queryText": "", "dataset": "lists"}, 200, `{"type":"application/vnd.microsoft.search.searchResponse","value":{"results":[]}}`},
			{"application/search", event{"queryText": "boom", "dataset": "lists"}, 200, `{"statusCode":400,"type":"application/vnd.microsoft.error","value":{"code":"No","message":"Not here."}}`},
			{"application/search", event{"queryText": "gr"}, 400, ``},
			{"application/search", event{"dataset": "lists"}, 400, ``},
			{"application/search", event{"queryText": "gr", "dataset": "other"}, 501, ``},
			{"composeExtension/query", query, 200, listed},
			{"composeExtension/query", event{"commandId": "other"}, 200, `{"composeExtension":{"type":"message","text":"Sorry, nothing is behind this button any more."}}`},
			{"composeExtension/query", event{}, 400, ``},
			{"composeExtension/query", event{"commandId": "mails"}, 200, `{"composeExtension":{"type":"auth","suggestedActions":{"actions":[{"type":"openUrl","value":"https://contoso.com/login","title":"Sign in"}]}}}`},
			{"composeExtension/selectItem", event{"id": "g"}, 200, `{"composeExtension":{"type":"result","attachments":[` + garden + `]}}`},
			{"composeExtension/selectItem", nil, 400, ``},
			{"composeExtension/queryLink", event{"url": "https://x.contoso.com/12"}, 200, listed},
			{"composeExtension/queryLink", event{"url": "https://x.contoso.com/12"}, 200, `{"composeExtension":{"suggestedActions":{"actions":[{"type":"setCachePolicy","value":"{\"type\":\"no-cache\"}"}]}}}`},
			{"composeExtension/queryLink", event{"url": "12"}, 400, ``},
			{"composeExtension/queryLink", event{"url": "https://X.Contoso.com:8443/12"}, 200, listed},
			{"composeExtension/queryLink", event{"url": "https://evil.example/12"}, 200, unlinked},
			{"composeExtension/queryLink", event{"url": "https://a.b.contoso.com/12"}, 200, unlinked},
			{"composeExtension/queryLink", event{"url": "https://contoso.com/12"}, 200, unlinked},
			{"composeExtension/queryLink", event{"url": "https://x.contoso.com.evil.example/12"}, 200, unlinked},
			{"composeExtension/queryLink", event{"url": "https://mia:pw@x.contoso.com/12"}, 200, unlinked},
			{"composeExtension/anonymousQueryLink", event{"url": "https://evil.example/12"}, 200, unlinked},
			{"composeExtension/anonymousQueryLink", event{"url": "https://x.contoso.com/12"}, 200, listed},
			{"composeExtension/fetchTask", event{"commandId": "share", "commandContext": "message"}, 200, `{"task":` + formed + `}`},
			{"composeExtension/submitAction", event{"commandId": "share", "data": event{"list": "garden"}}, 200, `{"composeExtension":{"type":"botMessagePreview","activityPreview":{"type":"message","attachments":[` + garden + `]}}}`},
			{"composeExtension/submitAction", event{"commandId": "share", "botMessagePreviewAction": "edit", "botActivityPreview": []event{{"attachments": []event{{"content": event{"a": 1}}}}}}, 200, `{"task":` + formed + `}`},
			{"composeExtension/submitAction", event{"commandId": "share", "botMessagePreviewAction": "burn"}, 400, ``},
			{"composeExtension/submitAction", event{"commandId": "share", "botMessagePreviewAction": 7}, 400, ``},
			{"composeExtension/submitAction", event{"commandId": "find"}, 200, gone},
			{"composeExtension/fetchTask", event{"commandId": "other"}, 200, gone},
			{"composeExtension/querySettingUrl", event{"commandId": "find"}, 200, `{"composeExtension":{"type":"config","suggestedActions":{"actions":[{"type":"openUrl","value":"https://contoso.com/settings"}]}}}`},
			{"composeExtension/setting", event{"state": "x"}, 501, ``},
			{"composeExtension/onCardButtonClicked", event{"x": 1}, 200, ``},
			{"config/fetch", event{"data": event{}}, 200, `{"responseType":"config","config":` + formed + `}`},
			{"config/submit", event{"data": event{}}, 200, `{"responseType":"config","config":{"type":"message","value":"Saved."}}`},
			{"message/fetchTask", event{"actionName": "feedback", "actionValue": event{"reaction": "like"}}, 200, `{"task":` + formed + `}`},
			{"message/fetchTask", event{"data": event{"actionName": "feedback", "actionValue": event{"reaction": "dislike"}}}, 200, `{"task":` + formed + `}`},
			{"message/fetchTask", event{"actionName": "feedback", "actionValue": event{"reaction": "boom"}}, 400, ``},
			{"handoff/action", event{"continuation": "x"}, 501, ``},
			{"tab/fetch", event{}, 501, ``},
		} {
			got := b.deliver(invoked(c.name, c.value))
			switch {
			case got.status != c.status || c.status == http.StatusOK && (got.body == "") != (c.body == ""):
				t.Errorf("%s of %v: %d %s", c.name, c.value, got.status, got.body)
			case c.status == http.StatusOK && c.body != "":
				b.has(got, c.body)
			}
		}
		b.deliver(invoked("composeExtension/query", query))
		if asked.Text != "gar" || asked.Parameters["q"] != "gar" || asked.Skip != 25 || asked.Count != 10 || asked.Initial {
			t.Errorf("asked %+v", asked)
		}
		b.deliver(invoked("composeExtension/query", event{"commandId": "find", "parameters": []event{{"name": "initialRun", "value": "true"}}}))
		if asked.Text != "" || !asked.Initial || asked.Count != 25 {
			t.Errorf("asked %+v", asked)
		}
		b.deliver(invoked("composeExtension/fetchTask", event{"commandId": "share", "commandContext": "message", "messagePayload": event{
			"id": "7", "from": event{"user": event{"id": "aad-ben", "displayName": "Ben"}}, "body": event{"content": "<p>Hi</p>"},
		}}))
		if m := given.Message; m == nil || *m != (teams.Message{ID: "7", UserID: "aad-ben", User: "Ben", HTML: "<p>Hi</p>"}) || given.Context != "message" {
			t.Errorf("given %+v", given)
		}
		if n := len(b.connector.All()); n != 0 {
			t.Errorf("%d calls", n)
		}
	})
}

// TestContinuationsStay: however many a person gets, none goes before its time.
func TestContinuationsStay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		used := 0
		b := setupTeams(t, teams.Routes{Handoff: func(context.Context, *bot.Turn, teams.Input) error { used++; return nil }})
		var made []string
		var full error
		b.bot.OnCommand("/elsewhere", func(ctx context.Context, turn *bot.Turn) error {
			for full == nil {
				c, err := teams.Continue(turn, strings.Repeat("x", 1000))
				if full = err; err == nil {
					made = append(made, c)
				}
			}
			return turn.Tell(ctx, "Go on elsewhere.")
		})
		b.say("/elsewhere")
		b.connector.Next(t)
		if len(made) != 64 || !strings.Contains(full.Error(), "64 continuations") {
			t.Fatalf("%d continuations, then %v", len(made), full)
		}
		b.deliver(invoked("handoff/action", event{"continuation": made[0]}))
		synctest.Wait()
		if used != 1 {
			t.Error("the first one was dropped")
		}
	})
}

// TestTeamsAside: what is answered at once waits for no turn, and keeps nothing.
func TestTeamsAside(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var faults []error
		var b *bundle
		b = setupTeams(t, teams.Routes{Dialogs: map[string]teams.Dialog{"count": {
			Fetch: func(ctx context.Context, turn *bot.Turn, _ teams.Input) (teams.Answer, error) {
				n := state.Of[counted](turn.Conversation)
				n.N++
				_, kept := teams.Continue(turn, 1)
				faults = []error{turn.Tell(ctx, "Hello"), turn.Save(ctx), turn.Plan(ctx), kept, b.bot.Forget(ctx, turn)}
				return teams.Answer{Message: strings.Repeat("I", n.N)}, nil
			},
		}}})
		busy, done := make(chan struct{}), make(chan struct{})
		b.bot.OnCommand("/busy", func(_ context.Context, turn *bot.Turn) error {
			state.Of[counted](turn.Conversation).N++
			close(busy)
			<-done
			return nil
		})
		b.say("/busy")
		<-busy
		for range 2 {
			b.has(b.deliver(invoked("task/fetch", event{"data": event{"verb": "count"}})), `{"task":{"type":"message","value":"I"}}`)
		}
		for i, err := range faults {
			if err == nil {
				t.Errorf("%d: a read-only turn did something", i)
			}
		}
		close(done)
		b.redis.SetError("LOADING")
		got := b.deliver(invoked("task/fetch", event{"data": event{"verb": "count"}}))
		b.redis.SetError("")
		b.has(got, `{"task":{"type":"message","value":"Sorry, something went wrong on my side. Please try again."}}`)
		if n := len(b.connector.All()); n != 0 {
			t.Errorf("%d calls", n)
		}
	})
}

// TestDeadButtons: whoever presses a button of an earlier version of the bot reads that nothing is behind it,
// alone and in their language, whatever the button sends.
func TestDeadButtons(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setupTeams(t, teams.Routes{})
		const german = "Hinter dieser Schaltfläche ist leider nichts mehr."
		for i, value := range []any{event{"choice": "x"}, event{"verb": "old"}, event{"verb": "planbot/approve"}, event{}, "approve", 7, []int{}, false} {
			got := b.deliver(event{
				"id": fmt.Sprint("s", i), "value": value, "replyToId": "1", "locale": "de-DE",
				"conversation": event{"id": "19:g@thread.v2", "conversationType": "groupChat"},
			})
			if sent := b.connector.Next(t); got.status != http.StatusOK || sent.Activity.Text != german || !sent.Targeted {
				t.Errorf("%v: %d, sent %s", value, got.status, sent.JSON)
			}
		}
		for _, name := range []string{"task/fetch", "task/submit"} {
			e := invoked(name, event{"data": event{"verb": "old"}})
			e["locale"] = "de-DE"
			b.has(b.deliver(e), `{"task":{"type":"message","value":"`+german+`"}}`)
		}
		e := pressed("old", event{})
		e["locale"] = "de-DE"
		b.has(b.deliver(e), `{"statusCode":400,"value":{"message":"`+german+`"}}`)
	})
}

// TestCardRefresh: each person gets their own view, and a click's handler does not run.
func TestCardRefresh(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setupTeams(t, teams.Routes{})
		var runs, clicks atomic.Int64
		b.bot.OnCardRefresh("view", func(_ context.Context, turn *bot.Turn, c bot.CardClick) (bot.CardAnswer, error) {
			runs.Add(1)
			return bot.CardAnswer{Card: aCard("for " + turn.Activity.From.ID + string(c.Data))}, nil
		})
		b.bot.OnCardAction("vote", func(context.Context, *bot.Turn, bot.CardClick) (bot.CardAnswer, error) {
			clicks.Add(1)
			return bot.CardAnswer{}, nil
		})
		refresh := func(who, verb, trigger string) answer {
			e := pressed(verb, event{"item": "7"})
			e["value"].(event)["trigger"] = trigger
			e["from"], e["conversation"] = event{"id": who}, event{"id": "19:g@thread.v2", "conversationType": "groupChat"}
			return b.deliver(e)
		}
		for range 3 {
			for _, who := range []string{"29:mia", "29:otto"} {
				for _, trigger := range []string{"automatic", "manual"} {
					b.has(refresh(who, "view", trigger), `{"statusCode":200,"type":"application/vnd.microsoft.card.adaptive","value":{"fallbackText":"for `+who+`{\"item\":\"7\"}"}}`)
				}
			}
		}
		b.has(refresh("29:mia", "vote", "automatic"), `{"statusCode":200,"type":"application/vnd.microsoft.activity.message"}`)
		b.has(refresh("29:mia", "gone", "automatic"), `{"statusCode":200,"type":"application/vnd.microsoft.activity.message"}`)
		if n := runs.Load(); n < 6 || n > 8 { // of twelve: three each, and one more if this takes five seconds
			t.Errorf("the handler ran %d times", n)
		}
		if n := clicks.Load(); n != 0 {
			t.Errorf("a refresh clicked %d times", n)
		}
		if docs := b.documents(); len(docs) != 0 || len(b.connector.All()) != 0 {
			t.Errorf("kept %v, sent %d", docs, len(b.connector.All()))
		}
		got := b.deliver(event{
			"value": event{"verb": "view"}, "deliveryMode": "expectReplies",
			"from": event{"id": "29:mia"}, "conversation": event{"id": "19:g@thread.v2", "conversationType": "groupChat"},
		})
		if got.status != http.StatusOK || strings.Contains(got.body, "for 29:mia") {
			t.Errorf("all others see %s", got.body)
		}
	})
}

// TestCardRefreshWithoutID: two people whose channel ids are missing do not see each other's view.
func TestCardRefreshWithoutID(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setupTeams(t, teams.Routes{})
		b.bot.OnCardRefresh("view", func(_ context.Context, turn *bot.Turn, _ bot.CardClick) (bot.CardAnswer, error) {
			return bot.CardAnswer{Card: aCard("for " + turn.Activity.From.AadObjectID)}, nil
		})
		for range 4 {
			for _, who := range []string{"aad-mia", "aad-otto"} {
				e := pressed("view", nil)
				e["from"] = event{"aadObjectId": who}
				b.has(b.deliver(e), `{"value":{"fallbackText":"for `+who+`"}}`)
			}
		}
	})
}

// TestHandoff: a continuation works once, for its person.
func TestHandoff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		type place struct{ List string }
		var mu sync.Mutex
		var minted string
		b := setupTeams(t, teams.Routes{Handoff: func(ctx context.Context, turn *bot.Turn, in teams.Input) error {
			var at place
			if err := in.Read(&at); err != nil {
				return err
			}
			return turn.Tell(ctx, "We were at the list "+at.List+".")
		}})
		b.bot.OnCommand("/elsewhere", func(ctx context.Context, turn *bot.Turn) error {
			c, err := teams.Continue(turn, place{"Garden"})
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			minted = c
			return turn.Tell(ctx, "Go on elsewhere.")
		})
		b.say("/elsewhere")
		b.connector.Next(t)
		mu.Lock()
		value := event{"continuation": minted}
		mu.Unlock()
		other := invoked("handoff/action", value)
		other["from"] = event{"id": "29:otto", "aadObjectId": "aad-otto"}
		stolen := invoked("handoff/action", value)
		stolen["from"] = event{"id": "29:mia", "aadObjectId": "aad-otto"}
		for _, c := range []struct {
			in     event
			status int
		}{
			{invoked("handoff/action", nil), 400},
			{invoked("handoff/action", event{"continuation": ""}), 400},
			{invoked("handoff/action", event{"continuation": "x"}), 400},
			{other, 400},
			{stolen, 400},
			{invoked("handoff/action", value), 200},
			{invoked("handoff/action", value), 400},
		} {
			if got := b.deliver(c.in); got.status != c.status || c.status == 200 && got.body != "" {
				t.Errorf("%v: %d %s", c.in["value"], got.status, got.body)
			}
		}
		if got := b.connector.Next(t).Text(); got != "We were at the list Garden." {
			t.Errorf("sent %q", got)
		}
		b.connector.None(t)
	})
}

// TestTeamsLate: who waits too long gets a sentence, and what has effects goes on and ends with a
// message.
func TestTeamsLate(t *testing.T) {
	t.Parallel()
	bottest.Test(t, bottest.Config{Actions: actions.New(), Change: func(c *bot.Config) {
		slow := func(ctx context.Context, _ *bot.Turn, _ teams.Input) (teams.Answer, error) {
			select {
			case <-time.After(6 * time.Second):
				return teams.Answer{Message: "The export is ready."}, nil
			case <-ctx.Done():
				return teams.Answer{}, ctx.Err()
			}
		}
		c.Teams.Dialogs = map[string]teams.Dialog{
			"export": {Fetch: slow, Submit: slow},
			"fails": {Submit: func(ctx context.Context, t *bot.Turn, in teams.Input) (teams.Answer, error) {
				_, _ = slow(ctx, t, in)
				return teams.Answer{}, errors.New("no")
			}},
			"refuses": {Submit: func(ctx context.Context, t *bot.Turn, in teams.Input) (teams.Answer, error) {
				_, _ = slow(ctx, t, in)
				return teams.Answer{}, &bot.InvokeError{Status: http.StatusConflict, Code: "Closed", Message: "The list is closed."}
			}},
		}
	}}, func(t *testing.T, kit *bottest.Kit) {
		chat := kit.Personal("mia")
		began := time.Now()
		for name, want := range map[string]string{
			"task/fetch":  `{"task":{"type":"message","value":"` + willMessage + `"}}`,
			"task/submit": `{"task":{"type":"message","value":"I'm still working on it, so there's no need to send it again."}}`,
		} {
			got := chat.Invoke(name, map[string]any{"data": map[string]any{"verb": "export"}})
			if got.Status != http.StatusOK || string(got.Body) != want {
				t.Errorf("%s: %d %s", name, got.Status, got.Body)
			}
		}
		if waited := time.Since(began); waited > 9*time.Second {
			t.Errorf("waited %v", waited)
		}
		chat.Expect("The export is ready.")
		chat.Expect("The export is ready.")
		chat.Invoke("task/submit", map[string]any{"data": map[string]any{"verb": "fails"}})
		chat.ExpectMatch(`^Sorry, something went wrong on my side\.`)
		chat.Invoke("task/submit", map[string]any{"data": map[string]any{"verb": "refuses"}})
		chat.Expect("The list is closed.")
		chat.ExpectNothing()
	})
}

// TestTeamsTwice: what has effects has them once, and each delivery gets the same answer.
func TestTeamsTwice(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var saved, sent atomic.Int64
		b := setupTeams(t, teams.Routes{
			Dialogs: map[string]teams.Dialog{"log": {Submit: func(context.Context, *bot.Turn, teams.Input) (teams.Answer, error) {
				return teams.Answer{Message: fmt.Sprint("Saved ", saved.Add(1))}, nil
			}}},
			Extension: teams.Extension{Commands: []teams.Command{{
				ID: "share", Title: "Share", Parameters: []teams.Parameter{{Name: "q", Title: "Name"}},
				Submit: func(context.Context, *bot.Turn, teams.Input) (teams.Answer, error) {
					return teams.Answer{Preview: aCard("Garden")}, nil
				},
				Send: func(ctx context.Context, turn *bot.Turn, _ teams.Input) error {
					sent.Add(1)
					return turn.Show(ctx, *aCard("Garden"))
				},
			}}},
		})
		submit := invoked("task/submit", event{"data": event{"verb": "log", "hours": 1}, "context": event{"theme": "dark"}})
		submit["id"] = "submit-1"
		first, again := b.deliver(submit), b.deliver(submit)
		if first.body != `{"task":{"type":"message","value":"Saved 1"}}` || again.body != first.body {
			t.Errorf("%s then %s", first.body, again.body)
		}
		other := b.deliver(invoked("task/submit", event{"data": event{"verb": "log", "hours": 2}}))
		if other.body == first.body {
			t.Errorf("other data: %s", other.body)
		}
		otto := invoked("task/submit", event{"data": event{"verb": "log", "hours": 2}})
		otto["from"] = event{"id": "29:otto"}
		if got := b.deliver(otto); got.body == other.body {
			t.Errorf("somebody else: %s", got.body)
		}
		preview := event{"commandId": "share", "botMessagePreviewAction": "send", "botActivityPreview": []event{{"type": "message", "attachments": []event{{"content": event{"id": "r1"}}}}}}
		for range 2 {
			if got := b.deliver(invoked("composeExtension/submitAction", preview)); got.status != 200 || got.body != "" {
				t.Errorf("send: %d %s", got.status, got.body)
			}
		}
		b.connector.Next(t)
		b.connector.None(t)
		if sent.Load() != 1 {
			t.Errorf("sent %d times", sent.Load())
		}
	})
}

// TestAnonymousLinks: only the handler for them answers people whom the access list cannot know, and
// it has no state.
func TestAnonymousLinks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		item := teams.Answer{Items: []teams.Item{{Card: aCard("Garden"), Title: "Garden"}}}
		link := invoked("composeExtension/anonymousQueryLink", event{"url": "https://tickets.contoso.com/12"})
		link["from"], link["conversation"] = event{"id": "redacted", "aadObjectId": "redacted"}, event{"id": "redacted", "tenantId": "redacted"}
		link["channelData"] = event{"tenant": event{"id": "redacted"}}
		known := maps.Clone(link)
		known["name"] = "composeExtension/queryLink"
		for registered, status := range map[bool]int{true: 200, false: 403} {
			extension := teams.Extension{
				Commands: []teams.Command{{ID: "find", Title: "Find", Parameters: []teams.Parameter{{Name: "q", Title: "Name"}}, Query: func(context.Context, *bot.Turn, teams.Query) (teams.Answer, error) { return item, nil }}},
				Domains:  []string{"*.contoso.com"},
				Link:     func(context.Context, *bot.Turn, teams.Query) (teams.Answer, error) { return item, nil },
			}
			if registered {
				extension.AnonymousLink = func(_ context.Context, turn *bot.Turn, _ teams.Query) (teams.Answer, error) {
					state.Of[counted](turn.User).N++
					state.Of[counted](turn.Conversation).N++
					return item, nil
				}
			}
			b := setupTeams(t, teams.Routes{Extension: extension}, func(c *bot.Config) { c.Access = bot.Access{Tenants: []string{"t1"}} })
			if got := b.deliver(link); got.status != status {
				t.Errorf("registered %v: %d %s", registered, got.status, got.body)
			}
			if got := b.deliver(known); got.status != http.StatusForbidden {
				t.Errorf("a link of somebody unknown: %d", got.status)
			}
			if docs := b.documents(); len(docs) > 0 {
				t.Errorf("kept %v", docs)
			}
		}
	})
}

// TestSuggestedAndFeedbackForm: both names of the invoke lead to one handler, and replies ask for the
// bot's own form.
func TestSuggestedAndFeedbackForm(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setupTeams(t, teams.Routes{
			Suggested: func(ctx context.Context, turn *bot.Turn, in teams.Input) error {
				var chosen struct {
					Choice string `json:"choice"`
				}
				if err := in.Read(&chosen); err != nil {
					return err
				}
				if chosen.Choice == "boom" {
					return errors.New("boom")
				}
				return turn.Tell(ctx, "Noted: "+chosen.Choice)
			},
			FeedbackForm: func(context.Context, *bot.Turn, bool) (teams.Answer, error) {
				return teams.Answer{Message: "Thanks"}, nil
			},
		}, func(c *bot.Config) { c.Feedback = true })
		for i, name := range []string{"suggestedActions/submit", "suggestedAction/submit"} {
			if got := b.deliver(invoked(name, event{"choice": fmt.Sprint(i)})); got.status != 200 || got.body != "" {
				t.Errorf("%s: %d %s", name, got.status, got.body)
			}
			if got := b.connector.Next(t).Text(); got != fmt.Sprint("Noted: ", i) {
				t.Errorf("%s: %q", name, got)
			}
		}
		if got := b.deliver(invoked("suggestedActions/submit", nil)); got.status != 400 {
			t.Errorf("no value: %d", got.status)
		}
		b.deliver(invoked("suggestedActions/submit", event{"choice": "boom"}))
		if got := b.connector.Next(t).Text(); !strings.HasPrefix(got, "Sorry, something went wrong on my side.") {
			t.Errorf("a failure: %q", got)
		}
		b.model.Says(`{"type":"plan","commands":[{"type":"SAY","response":"Hello"}]}`)
		b.say("hello")
		if got := string(b.connector.Next(t).Activity.ChannelData); !strings.Contains(got, `"feedbackLoop":{"type":"custom"}`) {
			t.Errorf("channelData %s", got)
		}
	})
}
