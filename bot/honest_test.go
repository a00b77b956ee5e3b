package bot_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/prompts"
	"github.com/planbot-go/planbot/state"
)

// counted registers an action with an effect outside of state.
func (b *bundle) counted(name string) *atomic.Int64 {
	var calls atomic.Int64
	actions.Add(b.actions, name, "Does "+name, func(context.Context, *actions.Turn, struct{}) (actions.Result, error) {
		calls.Add(1)
		return actions.Done, nil
	})
	return &calls
}

func TestASayBeforeTheLastDoLeavesTheHistoryWhole(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		b.model.Says(plan(say("first answer")),
			plan(say("working"), do("createList", `{"list":"x"}`), say("done")), plan(say("third")))
		b.say("first question")
		b.expect("first answer")
		b.say("second question")
		b.expect("working")
		b.expect("done")
		b.say("third question")
		b.expect("third")
		prompt := b.model.Calls()[2].Text()
		for _, want := range []string{"first question", "first answer", "second question", "working", "done"} {
			if !strings.Contains(prompt, want) {
				t.Errorf("the prompt does not hold %q", want)
			}
		}
	})
}

func TestTheNextPlanKnowsWhatWasSaid(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		b.model.Says(plan(say("Let me look."), do("summarizeLists", `{}`)), plan(say("Nothing there.")))
		b.say("look")
		b.expect("Let me look.")
		b.expect("Nothing there.")
		if got := b.model.Calls()[1].Text(); !strings.Contains(got, "SAY: Let me look.") {
			t.Errorf("the model was asked\n%s", got)
		}
	})
}

func TestAPlanOverTheLimitRunsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, func(cfg *bot.Config) { cfg.MaxSteps = 3 })
		calls := b.counted("pay")
		b.model.Says(plan(do("pay", `{}`), do("pay", `{}`), do("pay", `{}`), do("pay", `{}`), say("Paid.")))
		b.say("pay a lot")
		b.expectFault("too many steps")
		b.connector.None(t)
		if calls.Load() != 0 {
			t.Errorf("%d calls", calls.Load())
		}
	})
}

func TestAPlanWithAsManyCallsAsThereMayBe(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, func(cfg *bot.Config) { cfg.MaxSteps = 2 })
		calls := b.counted("pay")
		b.model.Says(plan(say("One moment."), do("pay", `{}`), do("pay", `{}`), say("Paid."), say("Twice.")))
		b.say("pay twice")
		b.expect("One moment.")
		b.expect("Paid.")
		b.expect("Twice.")
		if calls.Load() != 2 {
			t.Errorf("%d calls", calls.Load())
		}
	})
}

func TestARefusedReplyIsOwnedUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for status, told := range map[int]bool{400: true, 413: true, 500: true, 403: false, 404: false} {
			b := setup(t)
			b.model.Says(plan(say("one"), say("two")))
			b.connector.Fails(0, status)
			b.say("hi")
			if told {
				b.expectFault("could not be sent")
			}
			b.connector.None(t)
		}
	})
}

// TestAFailedActionLeavesNothingHalfDone: what it changed in state is taken back,
// what an action before it changed stays.
func TestAFailedActionLeavesNothingHalfDone(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		type counts map[string]int
		read := func(turn *actions.Turn) counts {
			c := state.At[counts](turn.User, "counts")
			if *c == nil {
				*c = counts{}
			}
			return *c
		}
		actions.Add(b.actions, "count", "Counts, and then fails as it is told to", func(_ context.Context, turn *actions.Turn, in struct {
			Name string `json:"name"`
			How  string `json:"how"`
		},
		) (actions.Result, error) {
			read(turn)[in.Name]++
			*state.At[string](turn.Conversation, "last") = in.Name
			switch in.How {
			case "panic":
				panic("as told")
			case "error":
				return actions.Done, errors.New("as told")
			case "fail":
				return actions.Fail("as told"), nil
			}
			return actions.Done, nil
		})
		actions.Add(b.actions, "read", "Reads", func(_ context.Context, turn *actions.Turn, _ struct{}) (actions.Result, error) {
			return actions.Text("%v, last %s", read(turn), *state.At[string](turn.Conversation, "last")), nil
		})
		for _, how := range []string{"panic", "error", "fail"} {
			b.model.Says(plan(do("count", `{"name":"good","how":"well"}`), do("count", `{"name":"`+how+`","how":"`+how+`"}`), say("Counted.")), plan(say("It failed.")))
			b.say("count")
			b.expect("It failed.")
		}
		b.model.Says(plan(`{"type":"DO","action":"read","entities":{},"saveAs":"R"}`, say("$R")))
		b.say("read")
		b.expect("map[good:3], last good")
	})
}

// TestStateOfWhatWasDoneIsKept although the turn fails after it.
func TestStateOfWhatWasDoneIsKept(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		actions.Add(b.actions, "order", "Orders, and notes it", func(_ context.Context, turn *actions.Turn, _ struct{}) (actions.Result, error) {
			*state.At[int](turn.User, "orders")++
			return actions.Text("ordered %d", *state.At[int](turn.User, "orders")), nil
		})
		b.model.Says(plan(do("order", `{}`)))
		b.model.Fails(500, "")
		b.say("order")
		b.expectFault("Before that I did: Order.")
		b.model.Says(plan(`{"type":"DO","action":"order","entities":{},"saveAs":"R"}`, say("$R")))
		b.say("order")
		b.expect("ordered 2")
	})
}

func TestWhatWasDoneBeforeAFailureIsSaidAndNotDoneAgain(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		calls := b.counted("pay")
		b.model.Says(plan(do("pay", `{}`), do("summarizeLists", `{}`)))
		b.model.Fails(500, "")
		in := event{"id": "same", "text": "pay"}
		for range 3 {
			b.deliver(in)
		}
		b.expectFault("Before that I did: Pay, Summarize the lists.")
		b.connector.None(t)
		if calls.Load() != 1 {
			t.Errorf("paid %d times", calls.Load())
		}
		other := b.replica()
		if got := b.post(other, b.activity(in)); got.status != http.StatusOK || calls.Load() != 1 {
			t.Errorf("on another replica: status %d, paid %d times", got.status, calls.Load())
		}
	})
}

func TestAnActionThatIsCutOffIsNamed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, func(cfg *bot.Config) { cfg.TurnTimeout = time.Second })
		actions.Add(b.actions, "hang", "Hangs", func(ctx context.Context, _ *actions.Turn, _ struct{}) (actions.Result, error) {
			<-ctx.Done()
			return actions.Result{}, ctx.Err()
		})
		actions.Add(b.actions, "late", "Is done as the time ends", func(ctx context.Context, _ *actions.Turn, _ struct{}) (actions.Result, error) {
			<-ctx.Done()
			return actions.Done, nil
		})
		b.model.Says(plan(do("hang", `{}`), say("x")), plan(do("late", `{}`), say("x")))
		b.say("hang")
		b.expectFault("I cannot tell whether this was done: Hang.")
		b.say("late")
		b.expectFault("Before that I did: Late.")
	})
}

func TestARoutePanicIsContained(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		b.bot.OnCommand("handler", func(context.Context, *bot.Turn) error { panic("boom") })
		b.bot.OnMessage(func(turn *bot.Turn) bool { return turn.Text == "match" && *(*bool)(nil) }, func(context.Context, *bot.Turn) error { return nil })
		for _, text := range []string{"handler", "match"} {
			b.say(text)
			b.expectFault("something went wrong")
		}
		b.model.Says(plan(say("alive")))
		b.say("hello")
		b.expect("alive")
	})
}

func TestRepeatedInvokesGetTheSameAnswer(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		var calls atomic.Int64
		b.bot.OnInvoke("count", func(context.Context, *bot.Turn) (bot.InvokeResponse, error) {
			return bot.InvokeResponse{Status: http.StatusCreated, Body: calls.Add(1)}, nil
		})
		for name, want := range map[string]answer{"count": {status: http.StatusCreated, body: "1"}, "unknown": {status: http.StatusNotImplemented}} {
			body := b.activity(event{"type": "invoke", "id": "invoke-" + name, "name": name})
			var group sync.WaitGroup
			for range 3 {
				group.Go(func() {
					if got := b.post(b.url, body); got.status != want.status || got.body != want.body {
						t.Errorf("%s: %d %q", name, got.status, got.body)
					}
				})
			}
			group.Wait()
		}
	})
}

func TestRepeatedExpectRepliesGetTheSameReplies(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		b.model.Says(plan(say("one")))
		in := event{"id": "same", "text": "hi", "deliveryMode": "expectReplies"}
		first, second := b.deliver(in), b.deliver(in)
		if !strings.Contains(first.body, `"text":"one"`) || first.body != second.body || strings.Contains(first.body, "serviceUrl") {
			t.Errorf("first %s\nsecond %s", first.body, second.body)
		}
	})
}

func TestForgetFindsWhatWasSaidElsewhere(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		group := event{
			"text": "<at>Planbot</at> group secret", "conversation": event{"id": "19:g@thread.v2", "conversationType": "groupChat", "isGroup": true},
			"entities": []event{{"type": "mention", "text": "<at>Planbot</at>", "mentioned": event{"id": "28:bot"}}},
		}
		b.model.Says(plan(say("a")), plan(say("b")), plan(say("c")))
		b.deliver(group)
		b.expect("a")
		b.deliver(event{"text": "personal secret", "conversation": event{"id": "a:other", "conversationType": "personal"}})
		b.expect("b")
		b.say("secret here")
		b.expect("c")
		b.say("/forget yes")
		b.expect("I've deleted everything I kept about you.")
		for _, key := range b.documents() {
			value, err := b.redis.Get(key)
			b.must(err)
			if strings.Contains(value, "secret") || strings.Contains(value, "29:mia") {
				t.Errorf("%s holds %s", key, value)
			}
		}
	})
}

func TestForgetHealsStateThatCannotBeRead(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		b.must(b.redis.Set(state.UserKey("msteams", "28:bot", "29:mia").String(), "planbot/99 from the future"))
		b.say("hello")
		b.expectFault("/forget yes deletes it")
		b.say("/forget yes")
		b.expect("I've deleted everything I kept about you.")
		b.model.Says(plan(say("hello")))
		b.say("hello again")
		b.expect("hello")
	})
}

func TestResetHealsAHistoryThatCannotBeRead(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		b.bot.OnCommand("spoil", func(_ context.Context, turn *bot.Turn) error {
			*state.At[string](turn.Thread, new(prompts.History).StateName()) = "no history"
			return nil
		})
		b.say("spoil")
		b.say("hello")
		b.connector.Next(t)
		b.say("/reset")
		b.expect("I've cleared our conversation. Everything else that I keep for you is still here.")
		b.model.Says(plan(say("hello")))
		b.say("hello again")
		b.expect("hello")
	})
}

func TestTheLogHoldsNothingThatWasSaid(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		actions.Add(b.actions, "fail", "Fails", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) {
			return actions.Fail("secret"), nil
		})
		b.model.Says(plan(do("addItem", `{"list":["secret"],"item":"x"}`)), `secret {"type":"plan"`, plan(do("secret", `{}`)),
			plan(do("addItem", `{"list":"secret","item":"secret"}`), do("fail", `{}`)), plan(say("secret")))
		b.say("secret")
		b.connector.Next(t)
		b.connector.Fails(0, 400)
		b.say("secret")
		b.connector.Next(t)
		for line := range strings.Lines(b.log.String()) {
			quiet := strings.Contains(line, `"level":"debug"`) || strings.Contains(line, `"level":"trace"`)
			if strings.Contains(line, "secret") && !quiet {
				t.Errorf("logged: %s", line)
			}
		}
		if b.log.String() == "" {
			t.Error("nothing was logged at all")
		}
	})
}

func TestDrainEndsInTime(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		started := make(chan struct{})
		stuck := make(chan struct{})
		defer close(stuck)
		actions.Add(b.actions, "stuck", "Ignores its context", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) {
			close(started)
			<-stuck
			return actions.Done, nil
		})
		b.model.Says(plan(do("stuck", `{}`), say("x")))
		var group sync.WaitGroup
		group.Go(func() { b.deliver(event{"text": "be stuck"}) })
		<-started
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := b.bot.Drain(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("drain: %v", err)
		}
		stuck <- struct{}{}
		group.Wait()
	})
}

// TestACallOfWhichNobodyKnows: its plan ends, the model is not asked to tell the person, and nothing is
// repeated.
func TestACallOfWhichNobodyKnows(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		var calls atomic.Int64
		actions.Add(b.actions, "sendMail", "Sends a mail", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) {
			calls.Add(1)
			return actions.Result{}, fmt.Errorf("post: %w", actions.ErrUncertain)
		})
		b.model.Says(plan(do("createList", `{"list":"x"}`), do("sendMail", `{}`), say("Sent!")))
		b.say("send it")
		b.expectFault("Sorry, I lost the connection in the middle of this. Please check before you ask me again. " +
			"Before that I did: Create a list. I cannot tell whether this was done: Send mail.")
		if n := calls.Load(); n != 1 {
			t.Errorf("%d calls", n)
		}
	})
}
