package bot_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/lists"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/state"
)

func TestTheListConversation(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		b.model.Says(
			plan(do("createList", `{"list":"grocery shopping"}`), do("addItem", `{"list":"grocery shopping","item":"bananas"}`), say("Done, bananas are on it.")),
			plan(`{"type":"DO","action":"summarizeLists","entities":{},"saveAs":"LISTS"}`, say("Here they are:\n$LISTS")),
		)
		b.say("Create a grocery shopping list and add bananas to it.")
		b.expect("Done, bananas are on it.")
		b.say("what is on my lists?")
		b.expect("Here they are:  \n**grocery shopping**\n\n- bananas")

		calls := b.model.Calls()
		if len(calls) != 2 {
			t.Fatalf("%d model calls for two messages", len(calls))
		}
		if got := calls[0].Last("user"); got != "Create a grocery shopping list and add bananas to it." {
			t.Errorf("the model was asked %q", got)
		}
		for _, want := range []string{"createList", "addItem", "item", "summarizeLists"} {
			if !strings.Contains(calls[0].Messages[0].Text, want) {
				t.Errorf("the prompt does not list %s", want)
			}
		}
		if calls[0].Messages[0].Text != calls[1].Messages[0].Text {
			t.Error("the first message of the prompt is not the same in both turns")
		}
		if !strings.Contains(calls[1].Text(), "Done, bananas are on it.") {
			t.Error("the second prompt has no history")
		}
	})
}

func TestReplyIsWhatTeamsWants(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		b.model.Says(plan(say("*Hi*")))
		b.deliver(event{"id": "act-7", "text": "hi"})
		sent := b.connector.Next(t)
		if sent.To != "a:mia" || sent.ReplyTo != "act-7" {
			t.Errorf("sent to %s, %s", sent.To, sent.ReplyTo)
		}
		if sent.Body["replyToId"] != "act-7" || sent.Body["text"] != "*Hi*" || sent.Body["textFormat"] != "markdown" {
			t.Errorf("body %v", sent.Body)
		}
		entities, _ := sent.Body["entities"].([]any)
		if len(entities) != 1 || entities[0].(map[string]any)["additionalType"].([]any)[0] != "AIGeneratedContent" {
			t.Errorf("entities %v", entities)
		}
		for _, field := range []string{"timestamp", "localTimestamp", "expiration", "suggestedActions", "serviceUrl", "id"} {
			if _, there := sent.Body[field]; there {
				t.Errorf("%s was sent: %v", field, sent.Body[field])
			}
		}
		if sent.Authorization != "" {
			t.Error("a token was sent in local mode")
		}
	})
}

func TestFailedActionsStopThePlanAndTheModelLearnsWhy(t *testing.T) {
	t.Parallel()
	for name, act := range map[string]func() (actions.Result, error){
		"fail":  func() (actions.Result, error) { return actions.Fail("the oven is cold"), nil },
		"error": func() (actions.Result, error) { return actions.Result{}, errors.New("secret cause") },
		"panic": func() (actions.Result, error) { panic("secret cause") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := setup(t, func(cfg *bot.Config) {
					actions.Add(cfg.Actions, "bake", "Bakes", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) { return act() })
				})
				b.model.Says(plan(do("createList", `{"list":"x"}`), do("bake", `{}`), say("Baked!")), plan(say("I could not bake.")))
				b.say("bake a cake")
				b.expect("I could not bake.")
				b.connector.None(t)
				second := b.model.Calls()[1].Text()
				if !strings.Contains(second, "bake failed: ") || strings.Contains(second, "secret cause") {
					t.Errorf("the model saw:\n%s", second)
				}
				if name != "fail" && !strings.Contains(b.log.String(), "secret cause") {
					t.Error("the operator does not learn the cause")
				}
				b.model.Says(plan(say("ok")))
				b.say("next")
				b.expect("ok")
			})
		})
	}
}

func TestAPlanThatEndsInAResultIsFollowedByAnother(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		b.model.Says(plan(do("createList", `{"list":"home","items":["milk"]}`), do("summarizeLists", `{}`)), plan(say("Milk is on home.")))
		b.say("make home with milk and tell me")
		b.expect("Milk is on home.")
		last := b.model.Calls()[1].Messages
		if got := last[len(last)-1].Text; !strings.Contains(got, "**home**") {
			t.Errorf("the model did not see the result but %q", got)
		}
	})
}

func TestTooManySteps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, func(cfg *bot.Config) { cfg.MaxSteps = 3 })
		for range 3 {
			b.model.Says(plan(do("summarizeLists", `{}`)))
		}
		b.say("loop")
		b.expectFault("too many steps")
		if n := len(b.model.Calls()); n != 3 {
			t.Errorf("%d model calls", n)
		}
	})
}

func TestModelFaults(t *testing.T) {
	t.Parallel()
	fails := func(status int, code string) func(*bundle) {
		return func(b *bundle) { b.model.Fails(status, code) }
	}
	for name, c := range map[string]struct {
		script func(*bundle)
		want   string
	}{
		"garbage":        {func(b *bundle) { b.model.Says(`{"type":"plan"`, `{"type":"plan"`, `{"type":"plan"`) }, "could not make a plan"},
		"empty":          {func(b *bundle) { b.model.Says("", "", "") }, "could not make a plan"},
		"401":            {fails(401, "invalid_api_key"), "refused my credentials"},
		"429":            {fails(429, "rate_limit_exceeded"), "too busy"},
		"500":            {fails(500, ""), "isn't available"},
		"content filter": {fails(400, "content_filter"), "content filter"},
		"too long":       {fails(400, "context_length_exceeded"), "too long"},
		"no answer": {func(b *bundle) {
			b.model.Answers(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		}, "did not answer in time"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := setup(t, func(cfg *bot.Config) {
					if name == "no answer" {
						cfg.TurnTimeout = 50 * time.Millisecond
					}
				})
				c.script(b)
				b.say("add milk to groceries")
				b.expectFault(c.want)
				b.connector.None(t)
				b.model.Says(plan(say("fine again")))
				if name != "no answer" {
					b.say("next")
					b.expect("fine again")
					if strings.Contains(b.model.Calls()[len(b.model.Calls())-1].Text(), "add milk") {
						t.Error("the failed message is in the history")
					}
				}
			})
		})
	}
}

// TestRedisDown: what cannot be kept is not acknowledged, and the channel sends it again.
func TestRedisDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, func(cfg *bot.Config) { cfg.Patience = 500 * time.Millisecond })
		b.toRedis.Cut(true)
		body := b.activity(event{"text": "hello"})
		if got := b.post(b.url, body); got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" {
			t.Errorf("status %d, Retry-After %q", got.status, got.header.Get("Retry-After"))
		}
		b.toRedis.Cut(false)
		b.model.Says(plan(say("back")))
		if got := b.post(b.url, body); got.status != http.StatusOK {
			t.Errorf("status %d", got.status)
		}
		b.expect("back")
		b.connector.None(t)
	})
}

// TestRedisGoesDownInTheTurn and comes back: the turn waits for it.
func TestRedisGoesDownInTheTurn(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		actions.Add(b.actions, "pull", "Pulls the plug for a moment", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) {
			b.toRedis.Cut(true)
			time.AfterFunc(200*time.Millisecond, func() { b.toRedis.Cut(false) })
			return actions.Done, nil
		}, actions.StateOnly)
		b.model.Says(plan(do("createList", `{"list":"home"}`), do("pull", `{}`), say("Created home.")))
		b.say("create home")
		b.expect("Created home.")
		b.connector.None(t)
	})
}

func TestStateThatCannotBeSavedIsNotReportedAsDone(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		actions.Add(b.actions, "hoard", "Keeps too much", func(_ context.Context, turn *actions.Turn, _ struct{}) (actions.Result, error) {
			*state.At[string](turn.User, "hoard") = strings.Repeat("x", 2<<20)
			return actions.Done, nil
		}, actions.StateOnly)
		b.model.Says(plan(do("createList", `{"list":"home"}`), do("hoard", `{}`), say("Created home.")),
			plan(`{"type":"DO","action":"summarizeLists","saveAs":"L"}`, say("$L")))
		b.say("create home")
		b.expectFault("more than I can store")
		b.say("lists?")
		b.expect("There are no lists yet.")
	})
}

func TestConnectorFaults(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		b.model.Says(plan(do("createList", `{"list":"home"}`), say("Created home.")))
		b.connector.Fails(0, http.StatusForbidden)
		b.say("create home")
		b.connector.None(t)
		b.connector.Fails(0*time.Second, http.StatusTooManyRequests)
		b.model.Says(plan(say("second")))
		b.say("and now?")
		b.expect("second")
		b.must(b.bot.Drain(t.Context())) // the log is written after the answer
		if !strings.Contains(b.log.String(), "send reply") {
			t.Error("the operator does not learn that the reply was not sent")
		}
	})
}

func TestADuplicateIsHandledOnce(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		b.model.Says(plan(do("addItem", `{"list":"home","item":"milk"}`), say("Added milk.")))
		body := b.activity(event{"id": "same", "text": "add milk"})
		var group sync.WaitGroup
		for range 3 {
			group.Go(func() {
				if got := b.post(b.url, body); got.status != http.StatusOK {
					t.Errorf("status %d", got.status)
				}
			})
		}
		group.Wait()
		b.expect("Added milk.")
		b.connector.None(t)
	})
}

func TestMessagesOfOneConversationAreAnsweredInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, func(cfg *bot.Config) { cfg.AckTimeout = 0 })
		var texts []string
		for i := range 20 {
			texts = append(texts, string(rune('a'+i)))
			b.model.Says(plan(say("re " + texts[i])))
		}
		for _, text := range texts {
			b.say(text)
		}
		for _, text := range texts {
			b.expect("re " + text)
		}
		for i, call := range b.model.Calls() {
			if got := call.Last("user"); got != texts[i] {
				t.Fatalf("call %d was for %q", i, got)
			}
		}
	})
}

// TestALostRaceIsRunAgain lets another conversation of the same person, and somebody in
// this one, save in between: the commands run again on fresh state, without another plan, and
// nothing that others saved is lost.
func TestALostRaceIsRunAgain(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		elsewhere := b.openStore(b.toRedis)
		var ran atomic.Int32
		actions.Add(b.actions, "race", "Adds to home while somebody else adds to it", func(ctx context.Context, turn *actions.Turn, _ struct{}) (actions.Result, error) {
			scopes, err := elsewhere.Load(ctx, turn.User.Key(), turn.Conversation.Key())
			if err != nil || ran.Add(1) > 1 {
				return actions.Result{}, err
			}
			state.Of[lists.Lists](scopes[0]).All = []lists.List{{Name: "theirs"}}
			*state.At[string](scopes[1], "note") = "theirs"
			return actions.Done, elsewhere.Save(ctx, scopes...)
		}, actions.StateOnly)
		b.model.Says(
			plan(do("createList", `{"list":"mine"}`), do("race", `{}`), say("Created mine.")),
			plan(`{"type":"DO","action":"summarizeLists","saveAs":"L"}`, say("$L")),
		)
		b.say("create mine")
		b.expect("Created mine.")
		b.say("lists?")
		if got := b.connector.Next(b).Text(); !strings.Contains(got, "**theirs**") || !strings.Contains(got, "**mine**") {
			t.Errorf("lists: %s", got)
		}
		b.connector.None(t)
		if n := strings.Count(b.model.Calls()[1].Text(), "user: create mine"); n != 1 {
			t.Errorf("the message is %d times in the history", n)
		}
		if n := len(b.model.Calls()); n != 2 || ran.Load() != 2 {
			t.Errorf("%d plans, the action ran %d times", n, ran.Load())
		}
	})
}
