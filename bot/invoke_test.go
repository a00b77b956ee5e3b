package bot_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/state"
)

// FuzzInvokeValues posts what anybody may send as the value of a click or of feedback: it is refused with a reason, or
// it is feedback that its handler can rely on.
func FuzzInvokeValues(f *testing.F) {
	for _, value := range []string{
		`null`, `[]`, `"x"`, `7`, `{"action":null}`, `{"action":{"type":"Action.Execute","verb":"v","data":{"a":[1e400]}},"trigger":"manual","state":7}`,
		`{"action":{"type":"Action.Execute","verb":"nobody/approves","data":{"approval":"a","hash":"h","verb":"planbot/approve"}}}`,
		`{"actionName":"feedback","actionValue":{"reaction":"like","feedback":"{\"feedbackText\":\"good\"}"}}`,
		`{"actionName":"feedback","actionValue":{"reaction":"dislike","feedback":"{\"feedbackText\":7}"}}`,
		`{"actionName":"feedback","actionValue":{"reaction":"like","feedback":"\"x"}}`,
	} {
		f.Add([]byte(value))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		if !json.Valid(value) {
			t.Skip()
		}
		synctest.Test(t, func(t *testing.T) {
			b := setup(t)
			b.bot.OnFeedback(func(_ context.Context, _ *bot.Turn, f bot.Feedback) error {
				if len(f.Form) > 0 && f.Form.Kind() != '{' {
					t.Errorf("let in %+v", f)
				}
				return nil
			})
			for _, name := range []string{"adaptiveCard/action", "message/submitAction"} {
				got := b.deliver(event{"type": "invoke", "name": name, "replyToId": "1", "value": json.RawMessage(value)})
				if got.status >= 500 || got.status != http.StatusOK && got.body == "" {
					t.Errorf("%s: %d %s", name, got.status, got.body)
				}
			}
		})
	})
}

// counted is what handlers of these tests change in state.
type counted struct{ N int }

type vote struct {
	For string `json:"for"`
}

func (v *vote) Check() error {
	if v.For == "nobody" {
		return errors.New("there is nobody to vote for")
	}
	return nil
}

func TestTypedInvokes(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		var calls atomic.Int64
		bot.AddInvoke(b.bot, "vote", func(_ context.Context, turn *bot.Turn, in vote) (map[string]int, error) {
			calls.Add(1)
			if in.For == "otto" {
				return nil, &bot.InvokeError{Status: http.StatusConflict, Code: "Closed", Message: "Otto is not to be voted for."}
			}
			state.Of[counted](turn.Conversation).N++
			return map[string]int{"votes": state.Of[counted](turn.Conversation).N}, nil
		})
		bot.AddInvoke(b.bot, "empty", func(context.Context, *bot.Turn, struct{}) (struct{}, error) { return struct{}{}, nil })
		status := func(s int, err error) func(context.Context, *bot.Turn) (bot.InvokeResponse, error) {
			return func(context.Context, *bot.Turn) (bot.InvokeResponse, error) {
				return bot.InvokeResponse{Status: s, Body: "x"}, err
			}
		}
		b.bot.OnInvoke("nothing", status(http.StatusNoContent, nil))
		b.bot.OnInvoke("no status", status(42, nil))
		b.bot.OnInvoke("no fault", status(0, &bot.InvokeError{Code: "C", Message: "M"}))
		bot.AddInvoke(b.bot, "boom", func(context.Context, *bot.Turn, panics) (struct{}, error) { return struct{}{}, nil })
		const wrong = `{"error":{"code":"BadRequest","message":"%s"}}`
		for _, c := range []struct {
			name   string
			value  any
			status int
			body   string
		}{
			{"vote", event{"for": "mia", "more": 1}, 200, `{"votes":1}`},
			{"vote", event{"for": "mia"}, 200, `{"votes":2}`},
			{"vote", event{"for": "otto"}, 409, `{"error":{"code":"Closed","message":"Otto is not to be voted for."}}`},
			{"vote", nil, 400, fmt.Sprintf(wrong, "the invoke has no value")},
			{"vote", json.RawMessage("null"), 400, fmt.Sprintf(wrong, "the invoke has no value")},
			{"vote", "mia", 400, fmt.Sprintf(wrong, "the value of the invoke is of another form")},
			{"vote", event{"for": 7}, 400, fmt.Sprintf(wrong, "the value of the invoke is of another form")},
			{"vote", event{"for": "nobody"}, 400, fmt.Sprintf(wrong, "there is nobody to vote for")},
			{"empty", nil, 200, ""},
			{"empty", []int{1}, 200, ""},
			{"nothing", nil, 204, ""},
			{"no status", nil, 500, ""},
			{"no fault", nil, 500, `{"error":{"code":"C","message":"M"}}`},
			{"boom", event{}, 500, ""},
			{"unknown", event{}, 501, ""},
		} {
			got := b.deliver(event{"type": "invoke", "name": c.name, "value": c.value})
			if got.status != c.status || got.body != c.body {
				t.Errorf("%s of %v: %d %s", c.name, c.value, got.status, got.body)
			}
			if typ := got.header.Get("Content-Type"); (typ == "") != (c.body == "") {
				t.Errorf("%s of %v: content type %q", c.name, c.value, typ)
			}
		}
		if n := calls.Load(); n != 3 {
			t.Errorf("%d calls", n)
		}
		if n := len(b.connector.All()); n != 0 {
			t.Errorf("%d outbound calls", n)
		}
	})
}

type panics struct{}

func (panics) Check() error { panic("boom") }

// pressed is the invoke of a click on a button of that verb.
func pressed(verb string, data any) event {
	return event{
		"type": "invoke", "name": "adaptiveCard/action", "replyToId": "1",
		"value": event{"action": event{"type": "Action.Execute", "id": "b1", "verb": verb, "data": data}, "trigger": "manual"},
	}
}

func TestCardActions(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		card := activity.Card{Fallback: "Booked.", Body: []any{activity.TextBlock{Text: "Booked."}}}
		for verb, a := range map[string]bot.CardAnswer{
			"card":    {Card: &card},
			"message": {Message: "Booked."},
			"login":   {SignIn: event{"text": "Sign in", "connectionName": "c"}},
			"done":    {},
		} {
			b.bot.OnCardAction(verb, func(context.Context, *bot.Turn, bot.CardClick) (bot.CardAnswer, error) { return a, nil })
		}
		for verb, fault := range map[string]*bot.InvokeError{
			"error":   {Status: http.StatusConflict, Code: "Full", Message: "The room is full."},
			"ours":    {Code: "Full", Message: "The room is full."},
			"code":    {Status: http.StatusUnauthorized},
			"consent": {Status: http.StatusPreconditionFailed, Code: "Consent", Message: "You have to consent."},
		} {
			b.bot.OnCardAction(verb, func(context.Context, *bot.Turn, bot.CardClick) (bot.CardAnswer, error) {
				return bot.CardAnswer{}, fault
			})
		}
		b.bot.OnCardAction("read", func(_ context.Context, _ *bot.Turn, click bot.CardClick) (bot.CardAnswer, error) {
			var v vote
			if err := click.Read(&v); err != nil {
				return bot.CardAnswer{}, err
			}
			return bot.CardAnswer{Message: fmt.Sprint(click.Verb, click.ID, click.Trigger, v.For)}, nil
		})
		b.bot.OnCardAction("fail", func(context.Context, *bot.Turn, bot.CardClick) (bot.CardAnswer, error) {
			return bot.CardAnswer{}, errors.New("the database of secrets is away")
		})
		const fault = `{"statusCode":400,"type":"application/vnd.microsoft.error","value":{"code":%q,"message":%q}}`
		noValue, ofForm := fmt.Sprintf(fault, "BadRequest", "the value of the click is missing or of another form"), fmt.Sprintf(fault, "BadRequest", "the data of the button is missing or of another form")
		gone := fmt.Sprintf(fault, "NotSupported", "Sorry, nothing is behind this button any more.")
		for _, c := range []struct {
			name string
			over event
			want string
		}{
			{"card", pressed("card", nil), `{"statusCode":200,"type":"application/vnd.microsoft.card.adaptive","value":{"type":"AdaptiveCard","$schema":"http://adaptivecards.io/schemas/adaptive-card.json","version":"1.5","fallbackText":"Booked.","body":[{"type":"TextBlock","text":"Booked.","wrap":true}]}}`},
			{"message", pressed("message", nil), `{"statusCode":200,"type":"application/vnd.microsoft.activity.message","value":"Booked."}`},
			{"error", pressed("error", nil), fmt.Sprintf(fault, "Full", "The room is full.")},
			{"error of ours", pressed("ours", nil), strings.Replace(fmt.Sprintf(fault, "Full", "The room is full."), "400", "500", 1)},
			{"login", pressed("login", nil), `{"statusCode":401,"type":"application/vnd.microsoft.activity.loginRequest","value":{"connectionName":"c","text":"Sign in"}}`},
			{"code", pressed("code", nil), `{"statusCode":401,"type":"application/vnd.microsoft.error.incorrectAuthCode","value":null}`},
			{"consent", pressed("consent", nil), `{"statusCode":412,"type":"application/vnd.microsoft.error.preconditionFailed","value":{"code":"Consent","message":"You have to consent."}}`},
			{"done", pressed("done", nil), `{"statusCode":200,"type":"application/vnd.microsoft.activity.message","value":"Done."}`},
			{"data", pressed("read", event{"for": "mia"}), `{"statusCode":200,"type":"application/vnd.microsoft.activity.message","value":"readb1manualmia"}`},
			{"no data", pressed("read", nil), ofForm},
			{"other data", pressed("read", "mia"), ofForm},
			{"unknown verb", pressed("else", nil), gone},
			{"no verb", pressed("", nil), gone},
			{"verb of no text", event{"type": "invoke", "name": "adaptiveCard/action", "value": event{"action": event{"type": "Action.Execute", "verb": 7}}}, noValue},
			{"no value", event{"type": "invoke", "name": "adaptiveCard/action"}, noValue},
			{"null", event{"type": "invoke", "name": "adaptiveCard/action", "value": json.RawMessage("null")}, noValue},
			{"a list", event{"type": "invoke", "name": "adaptiveCard/action", "value": []int{1}}, noValue},
			{"no action", event{"type": "invoke", "name": "adaptiveCard/action", "value": event{"trigger": "manual"}}, noValue},
			{"action null", event{"type": "invoke", "name": "adaptiveCard/action", "value": event{"action": nil}}, noValue},
			{"another action", event{"type": "invoke", "name": "adaptiveCard/action", "value": event{"action": event{"type": "Action.Submit", "verb": "card"}}}, fmt.Sprintf(fault, "NotSupported", "only Action.Execute is answered")},
		} {
			got := b.deliver(c.over)
			if got.status != http.StatusOK || got.body != c.want {
				t.Errorf("%s: %d %s\nwant %s", c.name, got.status, got.body, c.want)
			}
		}
		got := b.deliver(pressed("fail", nil))
		if !strings.Contains(got.body, `"statusCode":500`) || !strings.Contains(got.body, "(turn ") || strings.Contains(got.body, "database") {
			t.Errorf("a failure: %d %s", got.status, got.body)
		}
	})
}

// TestAnInvokeThatComesAgain while it is being answered gets the same answer.
func TestAnInvokeThatComesAgain(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		var calls atomic.Int64
		begun, release := make(chan struct{}), make(chan struct{})
		b.bot.OnCardAction("slow", func(context.Context, *bot.Turn, bot.CardClick) (bot.CardAnswer, error) {
			calls.Add(1)
			close(begun)
			<-release
			return bot.CardAnswer{Message: "once"}, nil
		})
		b.bot.OnFeedback(func(context.Context, *bot.Turn, bot.Feedback) error {
			calls.Add(1)
			return nil
		})
		body := b.activity(pressed("slow", nil))
		var both sync.WaitGroup
		var got [2]answer
		both.Go(func() { got[0] = b.post(b.url, body) })
		<-begun
		both.Go(func() { got[1] = b.post(b.url, body) })
		b.until("that the second one is there", func() bool { return strings.Contains(b.log.String(), "duplicate dropped") })
		close(release)
		both.Wait()
		for i, a := range got {
			if a.status != http.StatusOK || !strings.Contains(a.body, `"value":"once"`) {
				t.Errorf("answer %d: %d %s", i, a.status, a.body)
			}
		}
		rating := b.activity(rates("like", nil))
		for range 2 {
			if got := b.post(b.url, rating); got.status != http.StatusOK || got.body != "" {
				t.Errorf("feedback: %d %s", got.status, got.body)
			}
		}
		if n := calls.Load(); n != 2 {
			t.Errorf("%d calls", n)
		}
	})
}

// TestAButtonThatFellBack is answered with a message.
func TestAButtonThatFellBack(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		card := activity.Card{Fallback: "Booked."}
		for verb, a := range map[string]bot.CardAnswer{
			"card": {Card: &card}, "message": {Message: "Booked."}, "done": {}, "error": {}, "login": {SignIn: event{}},
		} {
			b.bot.OnCardAction(verb, func(_ context.Context, _ *bot.Turn, click bot.CardClick) (bot.CardAnswer, error) {
				var v vote
				if err := click.Read(&v); err != nil || v.For != "mia" {
					return bot.CardAnswer{}, fmt.Errorf("unexpected data %s", click.Data)
				}
				if verb == "error" {
					return a, &bot.InvokeError{Status: http.StatusBadRequest, Code: "Full", Message: "The room is full."}
				}
				return a, nil
			})
		}
		submit := func(verb string) {
			t.Helper()
			if got := b.deliver(event{"value": event{"verb": verb, "for": "mia"}, "replyToId": "1"}); got.status != http.StatusOK {
				t.Errorf("%s: %d %s", verb, got.status, got.body)
			}
		}
		for verb, want := range map[string]string{"message": "Booked.", "done": "Done.", "error": "The room is full.", "login": "Sorry, this needs a newer version of your app."} {
			submit(verb)
			b.expect(want)
		}
		submit("card")
		if card := asCard(t, b.connector.Next(t)); card["fallbackText"] != "Booked." {
			t.Errorf("card %v", card)
		}
	})
}

// rates is the invoke of feedback.
func rates(reaction string, feedback any) event {
	return event{
		"type": "invoke", "name": "message/submitAction", "replyToId": "message-1",
		"value": event{"actionName": "feedback", "actionValue": event{"reaction": reaction, "feedback": feedback}},
	}
}

func TestFeedback(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, handled := range []bool{true, false} {
			b := setup(t)
			var got []bot.Feedback
			if handled {
				b.bot.OnFeedback(func(_ context.Context, _ *bot.Turn, f bot.Feedback) error {
					got = append(got, f)
					return nil
				})
			}
			loose := rates("like", "so [good")
			delete(loose, "replyToId")
			for name, c := range map[string]event{
				"reaction":     rates("boom", nil),
				"a list of it": rates("like", []int{1}),
				"a number":     rates("like", 7),
				"no value":     {"type": "invoke", "name": "message/submitAction", "replyToId": "1"},
				"a list":       {"type": "invoke", "name": "message/submitAction", "replyToId": "1", "value": []int{}},
				"another name": {"type": "invoke", "name": "message/submitAction", "replyToId": "1", "value": event{"actionName": "x", "actionValue": event{"reaction": "like"}}},
				"a wrong type": {"type": "invoke", "name": "message/submitAction", "replyToId": "1", "value": event{"actionName": "feedback", "actionValue": "like"}},
			} {
				if got := b.deliver(c); got.status != http.StatusBadRequest || !strings.Contains(got.body, `{"error":{"code":"BadRequest",`) {
					t.Errorf("%s: %d %s", name, got.status, got.body)
				}
			}
			for _, c := range []event{rates("like", `{"feedbackText":" so good "}`), rates("dislike", nil), rates("dislike", ""), rates("like", event{"mine": 1}), loose} {
				if got := b.deliver(c); got.status != http.StatusOK || got.body != "" {
					t.Errorf("%v: %d %q", c, got.status, got.body)
				}
			}
			log := b.log.String()
			if n := strings.Count(log, `,"message":"feedback"`); n != 5 || !strings.Contains(log, `"rated":"message-1"`) || strings.Contains(log, "good") {
				t.Errorf("logged %d times: %s", n, log)
			}
			if !handled {
				continue
			}
			want := []bot.Feedback{
				{Liked: true, Text: "so good", Form: []byte(`{"feedbackText":" so good "}`), MessageID: "message-1"},
				{MessageID: "message-1"},
				{MessageID: "message-1"},
				{Liked: true, Form: []byte(`{"mine":1}`), MessageID: "message-1"},
				{Liked: true, Text: "so [good"},
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		}
	})
}

// TestFeedbackDoesNotWaitForATurn that is at work in its conversation.
func TestFeedbackDoesNotWaitForATurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, func(c *bot.Config) { c.AckTimeout = 0 })
		begun, release := make(chan struct{}), make(chan struct{})
		b.bot.OnCommand("work", func(context.Context, *bot.Turn) error {
			close(begun)
			<-release
			return nil
		})
		heard := make(chan bot.Feedback, 1)
		b.bot.OnFeedback(func(_ context.Context, _ *bot.Turn, f bot.Feedback) error {
			heard <- f
			return nil
		})
		b.say("work")
		<-begun
		if got := b.deliver(rates("like", nil)); got.status != http.StatusOK || got.body != "" {
			t.Errorf("%d %s", got.status, got.body)
		}
		close(release)
		if f := <-heard; !f.Liked {
			t.Errorf("%+v", f)
		}
	})
}

func TestRepliesAskForFeedback(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, on := range []bool{true, false} {
			b := setup(t, func(c *bot.Config) { c.Feedback = on })
			b.model.Says(plan(say(strings.Repeat("word ", 4000))), plan(say("short")), plan(say("elsewhere")))
			b.say("long")
			asked := func() bool {
				t.Helper()
				data, _ := b.connector.Next(t).Body["channelData"].(map[string]any)
				return data["feedbackLoop"] != nil
			}
			if first, last := asked(), asked(); first || last != on {
				t.Errorf("%v: asked under the first part: %v, the last: %v", on, first, last)
			}
			b.say("short")
			if asked() != on {
				t.Errorf("%v: under a short one", on)
			}
			b.deliver(event{"text": "elsewhere", "channelId": "webchat"})
			if asked() {
				t.Error("asked where nobody can answer")
			}
		}
	})
}

func TestWelcomeSuggestsExamples(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, func(c *bot.Config) { c.Examples = []string{"one", "two", "three", "four"} })
		added := func(conversation event) any {
			t.Helper()
			b.deliver(event{"type": "conversationUpdate", "membersAdded": []event{{"id": "28:bot"}}, "conversation": conversation})
			return b.connector.Next(t).Body["suggestedActions"]
		}
		want := map[string]any{"actions": []any{
			map[string]any{"type": "imBack", "title": "one", "value": "one"},
			map[string]any{"type": "imBack", "title": "two", "value": "two"},
			map[string]any{"type": "imBack", "title": "three", "value": "three"},
		}}
		if diff := cmp.Diff(any(want), added(event{"id": "a:mia", "conversationType": "personal", "tenantId": "t1"})); diff != "" {
			t.Error(diff)
		}
		if got := added(event{"id": "19:g", "conversationType": "groupChat", "tenantId": "t1"}); !cmp.Equal(any(want), got) {
			t.Errorf("in a group %v", got)
		}
	})
}

func TestTakenVerbsAndHandlersAreMistakes(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		card := func(context.Context, *bot.Turn, bot.CardClick) (bot.CardAnswer, error) { return bot.CardAnswer{}, nil }
		rated := func(context.Context, *bot.Turn, bot.Feedback) error { return nil }
		b.bot.OnCardAction("taken", card)
		b.bot.OnFeedback(rated)
		notice := func(context.Context, *bot.Turn) error { return nil }
		bot.AddInvoke(b.bot, "x", empty)
		b.bot.OnNotice("n", notice)
		b.bot.OnCommand("/open", notice)
		if err := b.bot.Check(); err != nil {
			t.Fatal(err)
		}
		for want, register := range map[string]func(){
			`OnCardAction: the verb "taken" has a handler`:              func() { b.bot.OnCardAction("taken", card) },
			`OnCardAction: the verb is empty`:                           func() { b.bot.OnCardAction("", card) },
			`OnCardAction: the verb "planbot/approve" is the bot's own`: func() { b.bot.OnCardAction("planbot/approve", card) },
			`OnCardAction: the handler of the verb "new" is nil`:        func() { b.bot.OnCardAction("new", nil) },
			`OnCardRefresh: the handler of the verb "view" is nil`:      func() { b.bot.OnCardRefresh("view", nil) },
			`OnFeedback: there is a handler`:                            func() { b.bot.OnFeedback(rated) },
			`OnFeedback: the handler is nil`:                            func() { b.bot.OnFeedback(nil) },
			`AddInvoke: the invoke "x" has a handler`:                   func() { bot.AddInvoke(b.bot, "x", empty) },
			`AddInvoke "z": the handler is nil`:                         func() { bot.AddInvoke[struct{}, struct{}](b.bot, "z", nil) },
			`OnInvoke "y": the handler is nil`:                          func() { b.bot.OnInvoke("y", nil) },
			`OnCommand "hours": the handler is nil`:                     func() { b.bot.OnCommand("hours", nil) },
			`OnCommand "/hours": the handler is nil`:                    func() { b.bot.OnCommand("/hours", nil) },
			`OnCommand: the command "/Open" has a handler`:              func() { b.bot.OnCommand("/Open", notice) },
			`OnCommand: the command is empty`:                           func() { b.bot.OnCommand(" ", notice) },
			`On: the handler is nil`:                                    func() { b.bot.On(func(*bot.Turn) bool { return true }, nil) },
			`On: match is nil`:                                          func() { b.bot.On(nil, notice) },
			`OnMessage: the handler is nil`:                             func() { b.bot.OnMessage(nil, nil) },
			`OnEvent "e": the handler is nil`:                           func() { b.bot.OnEvent("e", nil) },
			`OnEvent: the name is empty`:                                func() { b.bot.OnEvent("", notice) },
			`OnActivity "event": the handler is nil`:                    func() { b.bot.OnActivity("event", nil) },
			`OnActivity: the type is empty`:                             func() { b.bot.OnActivity("", notice) },
			`OnMembersAdded: the handler is nil`:                        func() { b.bot.OnMembersAdded(nil) },
			`OnNotice: the name is empty`:                               func() { b.bot.OnNotice("", notice) },
			`OnNotice "m": the handler is nil`:                          func() { b.bot.OnNotice("m", nil) },
			`OnNotice: the notice "n" has a handler`:                    func() { b.bot.OnNotice("n", notice) },
			`Use: the middleware is nil`:                                func() { b.bot.Use(nil) },
		} {
			register()
			if err := b.bot.Check(); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %s", err, want)
			}
		}
	})
}

func empty(context.Context, *bot.Turn, struct{}) (struct{}, error) { return struct{}{}, nil }

// TestAReplyThatIsTooLarge is not tried for an hour, and its person is told.
func TestAReplyThatIsTooLarge(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		b.bot.OnCommand("talk", func(ctx context.Context, turn *bot.Turn) error {
			return turn.Send(ctx, turn.Activity.Reply(strings.Repeat("x", 50<<10)))
		})
		b.say("talk")
		b.expectFault("part of my answer could not be sent")
		got := b.deliver(event{"text": "talk", "deliveryMode": "expectReplies"})
		if !strings.Contains(got.body, "could not be sent") || strings.Contains(got.body, strings.Repeat("x", 20)) {
			t.Errorf("%d %.3000s", got.status, got.body)
		}
	})
}
