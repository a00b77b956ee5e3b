package bot_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2/server"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot"
	plans "github.com/planbot-go/planbot/planner/plan"
	"github.com/planbot-go/planbot/state"
)

// intercept has f see each command that Redis gets, with its arguments, and answer it
// with an error unless that is "".
func (b *bundle) intercept(f func(args []string) (fault string)) {
	b.redis.Server().SetPreHook(func(peer *server.Peer, cmd string, args ...string) bool {
		fault := f(append([]string{cmd}, args...))
		if fault != "" {
			peer.WriteError(fault)
		}
		return fault != ""
	})
}

// isFinish recognises the step that ends a turn.
func isFinish(args []string) bool {
	return strings.HasPrefix(args[0], "EVAL") && slices.ContainsFunc(args, func(a string) bool { return strings.Contains(a, "/answers/") })
}

// outage is the answer of a Redis that is away for the commands which match, for that
// long from the first of them on.
func outage(lasts time.Duration, match func(args []string) bool) func([]string) string {
	var mu sync.Mutex
	var until time.Time
	return func(args []string) string {
		mu.Lock()
		defer mu.Unlock()
		if !match(args) {
			return ""
		}
		if until.IsZero() {
			until = time.Now().Add(lasts)
		}
		if time.Now().After(until) {
			return ""
		}
		return "LOADING Redis is loading the dataset in memory"
	}
}

const shortPatience = 300 * time.Millisecond

func impatient(c *bot.Config) { c.Lease, c.Patience = time.Minute, shortPatience }

// tally is what an action counts in state.
type tally struct{ N int }

// addTally registers an action that counts in the state which of picks.
func addTally(b *bundle, name string, of func(*actions.Turn) *state.Scope) {
	actions.Add(b.actions, name, "Counts", func(_ context.Context, turn *actions.Turn, _ struct{}) (actions.Result, error) {
		state.Of[tally](of(turn)).N++
		return actions.Done, nil
	}, actions.StateOnly)
}

func ofPerson(t *actions.Turn) *state.Scope       { return t.User }
func ofConversation(t *actions.Turn) *state.Scope { return t.Conversation }

// TestStateThatIsNotKeptAliveCostsNoOtherTurn: the turn has ended, and the next one is
// at the head of its lane.
func TestStateThatIsNotKeptAliveCostsNoOtherTurn(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		slow := addGate(b, "slow", actions.StateOnly)
		addTally(b, "count", ofConversation)
		addTally(b, "know", ofPerson)
		r := b.addReplica(impatient)
		b.model.Says(plan(do("know", `{}`), say("Hello, Mia.")))
		r.say("hello")
		b.expect("Hello, Mia.")
		b.until("that the turn has ended", func() bool { return !strings.Contains(strings.Join(b.documents(), " "), "/queue") })
		b.neglect("/users/")
		b.model.Says(plan(say("Wait."), do("slow", `{}`), do("count", `{}`)), plan(say("I am here.")))
		r.say("go")
		b.expect("Wait.")
		<-slow.entered
		r.say("are you there?")
		b.intercept(outage(4*shortPatience, func(args []string) bool {
			return args[0] == "PEXPIRE" && strings.Contains(args[1], "/users/") && !strings.HasSuffix(args[1], "/places")
		}))
		slow.open <- struct{}{}
		b.expect("I am here.")
	})
}

// meet has the bot know person and conversation, so that later turns have nothing of
// that to save.
func (r *replica) meet() {
	r.Helper()
	r.model.Says(plan(say("Hello."), say("Mia.")))
	r.say("hello")
	r.expect("Hello.")
	r.expect("Mia.")
}

// neglect makes documents look as if they were written long ago.
func (b *bundle) neglect(part string) {
	b.Helper()
	const written = len("planbot/1 ") + 26 + 1
	aged := 0
	for _, key := range b.documents() {
		if doc, err := b.redis.Get(key); err == nil && strings.Contains(key, part) {
			b.must(b.redis.Set(key, doc[:written]+"00000001"+doc[written+8:]))
			aged++
		}
	}
	if aged == 0 {
		b.Fatal("nothing to age")
	}
}

func TestAnOutageAtTheEndOfATurnLosesNoState(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		slow := addGate(b, "slow", actions.StateOnly)
		addTally(b, "count", ofConversation)
		r := b.addReplica(impatient)
		r.meet()
		b.model.Says(plan(say("I will."), do("slow", `{}`), do("count", `{}`)), plan(say("Next.")))
		r.say("count")
		r.say("and then?")
		<-slow.entered
		b.intercept(outage(4*shortPatience, isFinish))
		slow.open <- struct{}{}
		b.expect("I will.")
		b.expect("Next.")
		if kept := b.kept(); !strings.Contains(kept, `{"N":1}`) {
			t.Errorf("the count is not kept:\n%s", kept)
		}
	})
}

// TestATurnThatWasOverIsOnlyEnded by who takes it from a process that was killed
// between the person's state and the end.
func TestATurnThatWasOverIsOnlyEnded(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		addTally(b, "count", ofPerson)
		first := b.addReplica()
		b.intercept(b.killedAtFinish(first))
		b.model.Says(plan(do("count", `{}`)))
		first.say("count this")
		b.expect("Done.")
		second := b.addReplica()
		b.expect("Done.") // nobody knows that it was sent
		b.model.Says(plan(say("Next.")))
		second.say("and then?")
		b.expect("Next.")
		calls := b.model.Calls()
		if len(calls) != 2 {
			t.Fatalf("the model was asked %d times", len(calls))
		}
		if n := strings.Count(calls[1].Text(), "count this"); n != 1 {
			t.Errorf("the turn is %d times in the history:\n%s", n, calls[1].Text())
		}
		if kept := b.kept(); !strings.Contains(kept, `{"N":1}`) {
			t.Errorf("not counted once:\n%s", kept)
		}
	})
}

// killedAtFinish kills the replica when it first ends a turn, before that is done.
func (b *bundle) killedAtFinish(r *replica) func([]string) string {
	var once sync.Once
	return func(args []string) (fault string) {
		if isFinish(args) {
			once.Do(func() {
				fault = "ERR nobody hears this"
				r.kill()
			})
		}
		return fault
	}
}

func TestAnInvokeThatWasOverKeepsItsAnswer(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		var runs atomic.Int64
		ran := make(chan struct{}, 2)
		invoke := func(made *bot.Bot) {
			made.OnInvoke("vote", func(_ context.Context, turn *bot.Turn) (bot.InvokeResponse, error) {
				runs.Add(1)
				state.Of[tally](turn.User).N++
				ran <- struct{}{}
				return bot.InvokeResponse{Status: http.StatusAccepted, Body: map[string]any{"counted": true}}, nil
			})
		}
		first, second := b.addRouted(invoke), b.addRouted(invoke)
		b.intercept(b.killedAtFinish(first))
		vote := b.activity(event{"type": "invoke", "name": "vote"})
		killed := make(chan struct{})
		go func() {
			defer close(killed)
			if resp, err := (&http.Client{Transport: overWires}).Post(first.url, "application/json", bytes.NewReader(vote)); err == nil {
				_ = resp.Body.Close()
			}
		}()
		<-ran
		got := second.post(second.url, vote)
		if got.status != http.StatusAccepted || got.body != `{"counted":true}` || runs.Load() != 1 {
			t.Errorf("answered with %d %s after %d runs", got.status, got.body, runs.Load())
		}
		<-killed
	})
}

// TestAFailureToSaveIsToldWhenSomethingWasDone: what could not be saved is let go.
func TestAFailureToSaveIsToldWhenSomethingWasDone(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		outside := addCount(b, "outside")
		actions.Add(b.actions, "hoard", "Keeps too much", func(_ context.Context, turn *actions.Turn, _ struct{}) (actions.Result, error) {
			*state.Of[hoard](turn.Conversation) = hoard{strings.Repeat("x", 3<<20)}
			return actions.Done, nil
		}, actions.StateOnly)
		r := b.addReplica(func(c *bot.Config) { c.Lease = 0 }) // nobody is to take it over
		r.meet()
		b.model.Says(plan(do("outside", `{}`), say("Half done."), do("hoard", `{}`)))
		r.say("go")
		b.expect("Half done.")
		b.expectFault("more than I can store, so I didn't save it. Before that I did: Outside.")
		if outside.Load() != 1 {
			t.Errorf("done %d times", outside.Load())
		}
	})
}

type hoard struct{ Text string }

// TestATurnThatCannotBeEndedIsParked, once, and who waits for its answer is told.
func TestATurnThatCannotBeEndedIsParked(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		chatty := func(ctx context.Context, turn *bot.Turn) error {
			for range 50 {
				if err := turn.Tell(ctx, strings.Repeat("x", 39<<10)); err != nil {
					return err
				}
			}
			return nil
		}
		b.bot.OnCommand("talk", chatty)
		if got := b.deliver(event{"text": "talk", "deliveryMode": "expectReplies"}); got.status != http.StatusInternalServerError {
			t.Errorf("answered with %d and %d bytes", got.status, len(got.body))
		}
		b.model.Says(plan(say("Still here.")))
		b.say("are you there?")
		b.expect("Still here.")
		if n := strings.Count(b.log.String(), "could not be ended"); n != 1 {
			t.Errorf("parked %d times:\n%s", n, b.log)
		}
	})
}

// alone is a bot that keeps everything in its process.
func (b *bundle) alone(change ...func(*bot.Config)) *replica {
	b.Helper()
	store, err := state.Open(context.Background(), "", state.Config{})
	b.must(err)
	b.Cleanup(func() { _ = store.Close() })
	made := b.wire(store, append([]func(*bot.Config){func(c *bot.Config) { c.AckTimeout = 0 }}, change...)...)
	made.Start()
	return &replica{bundle: b, url: serve(b.T, made).URL, bot: made}
}

func TestABotThatIsAloneTellsWhomItCutsOff(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		asked := b.model.Waits()
		r := b.alone()
		r.say("go")
		<-asked
		drained, cancel := context.WithCancel(t.Context())
		cancel()
		if err := r.bot.Drain(drained); !errors.Is(err, context.Canceled) {
			t.Errorf("drained with %v", err)
		}
		b.expectFault("shut down in the middle")
	})
}

// TestABotThatIsAloneDoesWhatWaitsBeforeItEnds, for a slot or for the channel.
func TestABotThatIsAloneDoesWhatWaitsBeforeItEnds(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		slow := addGate(b, "slow")
		r := b.alone(func(c *bot.Config) { c.MaxTurns, c.Channel = 1, hasty(t) })
		b.model.Says(plan(do("slow", `{}`), say("First.")), plan(say("Second.")))
		r.say("one")
		<-slow.entered
		elsewhere := event{"text": "two", "conversation": event{"id": "a:ben", "conversationType": "personal", "tenantId": "t1"}}
		if got := b.post(r.url, b.activity(elsewhere)); got.status != http.StatusOK {
			t.Fatalf("status %d", got.status)
		}
		b.connector.Fails(0, http.StatusServiceUnavailable)
		drained := make(chan error, 1)
		go func() { drained <- r.bot.Drain(t.Context()) }()
		for !r.bot.Draining() {
			runtime.Gosched()
		}
		slow.open <- struct{}{}
		if err := <-drained; err != nil {
			t.Errorf("drained with %v", err)
		}
		said := []string{b.connector.Next(t).Text(), b.connector.Next(t).Text()}
		slices.Sort(said)
		if !slices.Equal(said, []string{"First.", "Second."}) {
			t.Errorf("said %q", said)
		}
	})
}

// TestAnotherConversationChangesTheValue that a turn has changed and not saved yet, while the
// model makes the second plan: the turn runs again on what is there now, and nothing is lost.
func TestAnotherConversationChangesTheValue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		type notes struct {
			All []string `json:"all"`
		}
		var b *bundle
		var store *state.Store
		meddled, planned := false, 0
		b = setup(t, func(c *bot.Config) {
			c.Planner = bot.PlannerFunc(func(ctx context.Context, turn *actions.Turn) (plans.Plan, error) {
				planned++
				if len(turn.Rounds) == 0 {
					return plans.Plan{Commands: []plans.Command{{Kind: plans.Do, Action: "note"}}}, nil
				}
				if !meddled {
					meddled = true
					scopes, err := store.Load(ctx, state.UserKey("msteams", "28:bot", "29:mia"))
					b.must(err)
					state.Of[notes](scopes[0]).All = []string{"theirs"}
					b.must(store.Save(ctx, scopes...))
				}
				return plans.Plan{Commands: []plans.Command{{Kind: plans.Say, Response: "Noted."}}}, nil
			})
		})
		actions.Add(b.actions, "note", "Notes something.", func(_ context.Context, c *actions.Turn, _ struct{}) (actions.Result, error) {
			all := state.Of[notes](c.User)
			all.All = append(all.All, "ours")
			return actions.Observe("noted"), nil
		}, actions.StateOnly)
		store = b.openStore(b.toRedis)
		b.say("Note it.")
		b.expect("Noted.")
		scopes, err := store.Load(t.Context(), state.UserKey("msteams", "28:bot", "29:mia"))
		b.must(err)
		if got := state.Of[notes](scopes[0]).All; !slices.Equal(got, []string{"theirs", "ours"}) || planned != 3 {
			t.Errorf("kept %q after %d plans", got, planned)
		}
	})
}

// TestABotThatIsAloneEndsWhatItStreams, and says why, at the pace that the channel wants. No other
// process can.
func TestABotThatIsAloneEndsWhatItStreams(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		b.model.Answers(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, `data: {"choices":[{"delta":{"content":"{\"type\":\"answer\",\"commands\":[{\"type\":\"SAY\",\"response\":\"You have milk and bread"}}]}`+"\n\n")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		})
		r := b.alone(func(c *bot.Config) { c.Stream = true })
		r.say("go")
		b.connector.await(t, "part", func(s sent) bool { return s.Activity.Stream().Type == activity.StreamText })
		drained, cancel := context.WithCancel(t.Context())
		cancel()
		if err := r.bot.Drain(drained); !errors.Is(err, context.Canceled) {
			t.Errorf("drained with %v", err)
		}
		if got := b.connector.Next(t); got.Text() != "You have milk and brea" {
			t.Errorf("ended with %q", got.Text())
		}
		if got := b.connector.NextUpdate(t); !strings.Contains(got.Text(), "shut down in the middle") {
			t.Errorf("replaced with %q", got.Text())
		}
	})
}
