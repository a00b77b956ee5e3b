package bot_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bot/turn"
	plans "github.com/planbot-go/planbot/planner/plan"
	"github.com/planbot-go/planbot/state"
)

// guests is a value of the whole bot's state that does not merge.
type guests struct {
	All []string `json:"all"`
}

// addGuest registers an action that adds the turn's text to the guests of the whole bot. first, if
// not nil, is called before that in each call, with the number of the call from 1.
func addGuest(b *bundle, first func(call int), opts ...actions.Option) {
	var calls atomic.Int64
	actions.Add(b.actions, "enter", "Adds a guest", func(ctx context.Context, turn *actions.Turn, _ struct{}) (actions.Result, error) {
		shared, err := turn.Bot(ctx)
		if err != nil {
			return actions.Done, err
		}
		if first != nil {
			first(int(calls.Add(1)))
		}
		all := state.Of[guests](shared)
		all.All = append(all.All, turn.Text)
		*state.At[state.Counter](shared, "entries")++
		return actions.Text("%d", len(all.All)), nil
	}, opts...)
}

// planned answers each message with this plan.
func planned(commands ...plans.Command) func(*bot.Config) {
	return func(c *bot.Config) {
		c.Planner = bot.PlannerFunc(func(context.Context, *actions.Turn) (plans.Plan, error) {
			return plans.Plan{Commands: slices.Clone(commands)}, nil
		})
	}
}

var (
	enters  = plans.Command{Kind: plans.Do, Action: "enter"}
	entered = plans.Command{Kind: plans.Say, Response: "Entered."}
)

// shared is the whole bot's state now.
func (b *bundle) shared() *state.Scope {
	b.Helper()
	scopes, err := b.bot.Store().Load(b.Context(), state.BotKey())
	b.must(err)
	return scopes[0]
}

// change saves a change of a document, as another conversation does.
func (b *bundle) change(key state.Key, change func(*state.Scope)) {
	b.Helper()
	b.must(b.bot.Store().Update(context.Background(), key, func(s *state.Scope) error {
		change(s)
		return nil
	}))
}

func enter(name string) func(*state.Scope) {
	return func(s *state.Scope) { state.Of[guests](s).All = append(state.Of[guests](s).All, name) }
}

func (b *bundle) wantGuests(want ...string) {
	b.Helper()
	if got := state.Of[guests](b.shared()).All; !slices.Equal(got, want) {
		b.Errorf("the guests are %q, want %q", got, want)
	}
}

// TestManyConversationsChangeOneValue of the whole bot at once, on two replicas, while others change
// it outside of turns: each that was told so is there, once, and nobody else.
func TestManyConversationsChangeOneValue(t *testing.T) {
	onEachRedis(t, func(t *testing.T, b *bundle, at *nodes) {
		b.change(state.BotKey(), (*state.Scope).Delete) // of an earlier run
		addGuest(b, nil, actions.StateOnly)
		urls := make([]string, 2)
		for i := range urls {
			urls[i] = b.onSameStore(func(c *bot.Config) {
				c.Planner = bot.PlannerFunc(func(_ context.Context, turn *actions.Turn) (plans.Plan, error) {
					return plans.Plan{Commands: []plans.Command{enters, {Kind: plans.Say, Response: "Entered " + turn.Text}}}, nil
				})
			})
		}
		const conversations, each, outside = 16, 3, 5
		var want []string
		var sending sync.WaitGroup
		for i := range conversations {
			where := fmt.Sprintf("group-%d", i)
			sending.Go(func() {
				for j := range each {
					text := fmt.Sprintf("%s guest %d", where, j)
					over := at.in(where, text)
					over["replyToId"] = text // so none joins another
					if got := b.post(urls[(i+j)%2], b.activity(over)); got.status != http.StatusOK {
						t.Errorf("%s: status %d %s", text, got.status, got.body)
					}
				}
			})
		}
		updated := make([]error, outside)
		for i := range outside {
			sending.Go(func() {
				updated[i] = b.bot.Store().Update(t.Context(), state.BotKey(), func(s *state.Scope) error {
					enter(fmt.Sprint("from outside ", i))(s)
					return nil
				})
			})
		}
		sending.Wait()
		for range conversations * each {
			reply := b.connector.Next(t).Text()
			if name, ok := strings.CutPrefix(reply, "Entered "); ok {
				want = append(want, name)
			} else if !strings.HasPrefix(reply, "Sorry, someone else changed the same thing at the same time, so I didn't save this.") {
				t.Errorf("reply %q", reply)
			}
		}
		in := len(want)
		for i, err := range updated {
			if err == nil {
				want = append(want, fmt.Sprint("from outside ", i))
			} else if !errors.Is(err, state.ErrConflict) { // on a slow machine
				t.Error(err)
			}
		}
		if t.Logf("%d of %d entered", in, conversations*each); in < conversations*each/2 {
			t.Errorf("only %d", in)
		}
		got := b.shared()
		all := slices.Sorted(slices.Values(state.Of[guests](got).All))
		slices.Sort(want)
		if !slices.Equal(all, want) {
			t.Errorf("%d guests, want %d", len(all), len(want))
		}
		if n := *state.At[state.Counter](got, "entries"); n != state.Counter(in) {
			t.Errorf("%d entries, want %d", n, in)
		}
		b.connector.None(t)
		b.change(state.BotKey(), (*state.Scope).Delete)
	})
}

// onSameStore starts another bot on the bundle's own store.
func (b *bundle) onSameStore(change func(*bot.Config)) (url string) {
	b.Helper()
	made := b.wire(b.bot.Store(), func(c *bot.Config) { c.AckTimeout = 0 }, change)
	made.Start()
	return serve(b.T, made).URL
}

// TestTheBotsStateCostsNothingWithoutUse, and one load in a turn that uses it.
func TestTheBotsStateCostsNothingWithoutUse(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		addGuest(b, nil, actions.StateOnly)
		addTally(b, "know", ofPerson)
		var mu sync.Mutex
		var seen []string
		b.intercept(func(args []string) string {
			mu.Lock()
			defer mu.Unlock()
			scripted := args[0] == "SET" || args[len(args)-1] == "35" // miniredis also shows what scripts do
			if slices.Contains(args, state.BotKey().String()) && !scripted {
				seen = append(seen, args[0])
			}
			return ""
		})
		did := func() string {
			mu.Lock()
			defer mu.Unlock()
			defer func() { seen = nil }()
			return strings.Join(seen, " ")
		}
		b.model.Says(plan(do("know", `{}`), say("Hello.")), plan(do("enter", `{}`), do("enter", `{}`), say("Entered.")), plan(say("Bye.")))
		b.say("hello")
		b.expect("Hello.")
		if got := did(); got != "" {
			t.Errorf("a turn without it sends %q", got)
		}
		b.say("Mia")
		b.expect("Entered.")
		if got := did(); got != "GETRANGE EVALSHA EVALSHA" { // each enter is saved
			t.Errorf("a turn with it sends %q", got)
		}
		b.wantGuests("Mia", "Mia")
		did()
		b.say("bye")
		b.expect("Bye.")
		if got := did(); got != "" {
			t.Errorf("a turn after that sends %q", got)
		}
	})
}

// TestAnotherConversationChangesTheBotsValue between the load and the save, which are in the middle of
// a phase: the turn runs again from before the load. What it changed while it planned is done again too.
func TestAnotherConversationChangesTheBotsValue(t *testing.T) {
	t.Parallel()
	for name, saving := range map[string][]plans.Command{
		"before a reply":       {enters, entered},
		"between actions":      {enters, enters, entered},
		"before the next plan": {enters},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var b *bundle
				var mine []string
				b = setup(t, planned(saving...), func(c *bot.Config) {
					next := c.Planner
					c.Planner = bot.PlannerFunc(func(ctx context.Context, turn *actions.Turn) (plans.Plan, error) {
						if len(turn.Rounds) > 0 {
							return plans.Plan{Commands: []plans.Command{entered}}, nil
						}
						return next.Plan(ctx, turn)
					})
					c.Features = append(c.Features, bot.Feature{Plan: func(ctx context.Context, turn *bot.Turn, next func(context.Context) (plans.Plan, error)) (plans.Plan, error) {
						if len(turn.Rounds) == 0 {
							shared, err := turn.Bot(ctx)
							b.must(err)
							for _, scope := range []*state.Scope{shared, turn.User, turn.Thread} {
								*state.At[int](scope, "planned")++
							}
						}
						return next(ctx)
					}})
				})
				for _, c := range saving {
					if c.Kind == plans.Do {
						mine = append(mine, "Mia")
					}
				}
				addGuest(b, func(call int) {
					if call <= 2 { // and in the first rerun again
						b.change(state.BotKey(), enter(fmt.Sprint("another ", call)))
					}
				}, actions.StateOnly)
				b.say("Mia")
				b.expect("Entered.")
				b.wantGuests(append([]string{"another 1", "another 2"}, mine...)...)
				for _, scope := range b.scopes(state.BotKey(), miasKey, miasChatKey) {
					if n := *state.At[int](scope, "planned"); n != 1 {
						t.Errorf("%s: planned %d", scope.Key(), n)
					}
				}
				b.connector.None(t)
			})
		})
	}
}

var (
	miasKey     = state.UserKey("msteams", "28:bot", "29:mia")
	miasChatKey = state.ConversationKey("msteams", "28:bot", "a:mia")
)

func (b *bundle) scopes(keys ...state.Key) []*state.Scope {
	b.Helper()
	scopes, err := b.bot.Store().Load(b.Context(), keys...)
	b.must(err)
	return scopes
}

// TestAPlanKeepsWhatItsHandlerChanged when it runs again because of another document.
func TestAPlanKeepsWhatItsHandlerChanged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, planned(enters, entered))
		addGuest(b, func(call int) {
			if call == 1 {
				b.change(state.BotKey(), enter("another"))
			}
		}, actions.StateOnly)
		b.bot.OnMessage(nil, func(ctx context.Context, turn *bot.Turn) error {
			*state.At[int](turn.User, "handled")++
			return turn.Plan(ctx)
		})
		b.say("Mia")
		b.expect("Entered.")
		b.wantGuests("another", "Mia")
		if n := *state.At[int](b.scopes(miasKey)[0], "handled"); n != 1 {
			t.Errorf("handled %d", n)
		}
	})
}

// TestOthersAlwaysChangeTheBotsValue first: after eight reruns the person is told, and nothing of
// theirs is there.
func TestOthersAlwaysChangeTheBotsValue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, planned(enters, entered))
		var want []string
		addGuest(b, func(call int) {
			want = append(want, fmt.Sprint("another ", call))
			b.change(state.BotKey(), enter(want[call-1]))
		}, actions.StateOnly)
		b.say("Mia")
		b.expectFault("Sorry")
		b.wantGuests(want...)
		if len(want) != 9 {
			t.Errorf("it ran %d times", len(want))
		}
	})
}

// TestWhatSharedStateWas: who watches the turns sees the bot's values as an action finds them.
func TestWhatSharedStateWas(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var found []string
		b := hooked(t, bot.Feature{Event: func(e turn.Event) {
			if e.Loaded {
				found = append(found, string(e.State()["bot"]["guests"]))
			}
		}})
		addGuest(b, nil)
		b.model.Says(plan(do("enter", `{}`), say("Entered.")), plan(do("enter", `{}`), say("Entered.")))
		for _, who := range []string{"Mia", "Ben"} {
			b.say(who)
			b.expect("Entered.")
		}
		synctest.Wait()
		if want := []string{"", `{"all":["Mia"]}`}; !slices.Equal(found, want) {
			t.Errorf("the guests were %q, want %q", found, want)
		}
	})
}

// TestAnActionThatFailsLeavesTheBotsState as it was, also if it was the first to load it.
func TestAnActionThatFailsLeavesTheBotsState(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		addGuest(b, nil, actions.StateOnly)
		for name, fault := range map[string]error{"refuse": nil, "break": errors.New("broken")} {
			actions.Add(b.actions, name, "Fails", func(ctx context.Context, turn *actions.Turn, _ struct{}) (actions.Result, error) {
				shared, err := turn.Bot(ctx)
				b.must(err)
				state.Of[guests](shared).All = []string{"nobody"}
				return actions.Fail("no"), fault
			}, actions.StateOnly)
		}
		b.model.Says(
			plan(do("refuse", `{}`)), plan(do("enter", `{}`), say("Entered.")),
			plan(do("enter", `{}`), do("break", `{}`)), plan(do("enter", `{}`), say("Entered.")),
		)
		b.say("Mia")
		b.expect("Entered.")
		b.wantGuests("Mia")
		b.say("Ben")
		b.expect("Entered.")
		b.wantGuests("Mia", "Ben", "Ben")
	})
}

// TestRedisIsAwayWhenTheBotsStateIsLoaded: the turn goes on when it is back, and knows nothing of it.
func TestRedisIsAwayWhenTheBotsStateIsLoaded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, planned(enters, entered))
		addGuest(b, nil)
		r := b.addReplica(impatient, planned(enters, entered))
		b.intercept(outage(4*shortPatience, func(args []string) bool {
			return args[0] == "GETRANGE" && args[1] == state.BotKey().String()
		}))
		r.say("Mia")
		b.expect("Entered.")
		b.wantGuests("Mia")
		b.connector.None(t)
	})
}

// TestABotsStateThatCannotBeRead fails the actions that need it, and no others; it is not overwritten.
func TestABotsStateThatCannotBeRead(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		addGuest(b, nil, actions.StateOnly)
		b.must(b.redis.Set(state.BotKey().String(), "not ours"))
		b.model.Says(plan(do("enter", `{}`), say("Entered.")), plan(say("That failed.")), plan(do("createList", `{"list":"Home"}`), say("Created.")))
		b.say("Mia")
		b.expect("That failed.")
		b.say("create a list")
		b.expect("Created.")
		if got, err := b.redis.Get(state.BotKey().String()); got != "not ours" {
			t.Errorf("it is now %q, %v", got, err)
		}
		if !strings.Contains(b.log.String(), "was not written by this program") {
			t.Errorf("the log does not say why: %s", b.log)
		}
	})
}

// TestHalfOfTheStateIsSaved when another conversation changes the person's value in the moment between
// the two: the person reads that nobody can tell, and nothing runs twice.
func TestHalfOfTheStateIsSaved(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		calls := 0
		actions.Add(b.actions, "enter", "Adds a guest", func(ctx context.Context, turn *actions.Turn, _ struct{}) (actions.Result, error) {
			calls++
			shared, err := turn.Bot(ctx)
			b.must(err)
			enter(turn.Text)(shared)
			enter(turn.Text)(turn.User)
			return actions.Done, nil
		}, actions.StateOnly)
		var once sync.Once
		b.intercept(func(args []string) string {
			if strings.HasPrefix(args[0], "EVAL") && slices.Contains(args, state.BotKey().String()) {
				once.Do(func() { b.change(miasKey, enter("another")) })
			}
			return ""
		})
		b.model.Says(plan(do("enter", `{}`), say("Entered.")))
		b.say("Mia")
		b.expectFault("Please check whether I saved this, and try again. I cannot tell whether this was done: Enter.")
		b.wantGuests("Mia")
		if all := state.Of[guests](b.scopes(miasKey)[0]).All; !slices.Equal(all, []string{"another"}) || calls != 1 {
			t.Errorf("the person's guests are %q after %d calls", all, calls)
		}
		b.connector.None(t)
	})
}

// TestAPersonsValueChangesBeforeTheBotsIsSaved: nothing is saved, and the turn runs again.
func TestAPersonsValueChangesBeforeTheBotsIsSaved(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		calls := 0
		actions.Add(b.actions, "enter", "Adds a guest", func(ctx context.Context, turn *actions.Turn, _ struct{}) (actions.Result, error) {
			shared, err := turn.Bot(ctx)
			b.must(err)
			if calls++; calls == 1 {
				b.change(miasKey, enter("another"))
			}
			enter(turn.Text)(shared)
			enter(turn.Text)(turn.User)
			return actions.Done, nil
		}, actions.StateOnly)
		b.model.Says(plan(do("enter", `{}`), say("Entered.")), plan(do("enter", `{}`), say("Entered.")))
		b.say("Mia")
		b.expect("Entered.")
		b.wantGuests("Mia")
		if all := state.Of[guests](b.scopes(miasKey)[0]).All; !slices.Equal(all, []string{"another", "Mia"}) || calls != 2 {
			t.Errorf("the person's guests are %q after %d calls", all, calls)
		}
	})
}

// TestAFailureIsToldEvenIfTheValueChanged that was to be kept with it.
func TestAFailureIsToldEvenIfTheValueChanged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, func(c *bot.Config) {
			c.Features = append(c.Features, bot.Feature{Say: func(context.Context, *bot.Turn, string) (string, error) { return "", errors.New("no words") }})
		})
		calls := addCount(b, "phone")
		addGuest(b, func(int) { b.change(state.BotKey(), enter("another")) }, actions.StateOnly)
		b.model.Says(plan(do("phone", `{}`), do("enter", `{}`), say("Entered.")))
		b.say("Mia")
		b.expectFault("Before that I did: Phone.")
		b.wantGuests("another")
		if calls.Load() != 1 {
			t.Errorf("%d calls", calls.Load())
		}
	})
}

// TestAHandlerThatSaysNothing has its changes of the bot's state saved too.
func TestAHandlerThatSaysNothing(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		b.bot.OnMessage(nil, func(ctx context.Context, turn *bot.Turn) error {
			shared, err := turn.Bot(ctx)
			if err == nil {
				enter(turn.Text)(shared)
			}
			return err
		})
		b.say("Mia")
		b.wantGuests("Mia")
	})
}
