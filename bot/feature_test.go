package bot_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bot/turn"
	"github.com/planbot-go/planbot/bottest"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/models/moderation"
	plans "github.com/planbot-go/planbot/planner/plan"
	"github.com/planbot-go/planbot/state"
)

// hooked is a bundle with these features and an action note, which puts out its text.
func hooked(t *testing.T, features ...bot.Feature) *bundle {
	t.Helper()
	b := setup(t, func(c *bot.Config) { c.Features = features })
	actions.Add(b.actions, "note", "Notes", func(_ context.Context, _ *actions.Turn, in struct {
		Text string `json:"text"`
	},
	) (actions.Result, error) {
		return actions.Text("%s", in.Text), nil
	})
	return b
}

// callFunc is what stands within the hook Call.
type callFunc = func(context.Context, actions.Call) (actions.Result, error)

// planReady is the hook Plan that changes the planner's plans.
func planReady(change func(plans.Plan) (plans.Plan, error)) func(context.Context, *bot.Turn, func(context.Context) (plans.Plan, error)) (plans.Plan, error) {
	return func(ctx context.Context, _ *bot.Turn, next func(context.Context) (plans.Plan, error)) (plans.Plan, error) {
		p, err := next(ctx)
		if err != nil {
			return p, err
		}
		return change(p)
	}
}

func TestHooksSeeTheRunInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var seen []string
		note := func(format string, args ...any) { seen = append(seen, fmt.Sprintf(format, args...)) }
		b := hooked(t, bot.Feature{
			Plan: planReady(func(p plans.Plan) (plans.Plan, error) {
				note("plan of %d", len(p.Commands))
				return p, nil
			}),
			Call: func(ctx context.Context, _ *bot.Turn, c actions.Call, next callFunc) (actions.Result, error) {
				note("before %s %s", c.Action.Name, c.Entities["text"])
				r, err := next(ctx, c)
				note("after %s: %s", c.Action.Name, r.Text())
				return actions.Text("[%s]", r.Text()), err
			},
			Say: func(_ context.Context, _ *bot.Turn, text string) (string, error) {
				note("before say %s", text)
				return strings.ToUpper(text), nil
			},
		})
		b.model.Says(plan(say("first"), `{"type":"DO","action":"note","entities":{"text":"a"},"saveAs":"N"}`, say("it is $N")))
		b.say("go")
		b.expect("FIRST")
		b.expect("IT IS [A]")
		want := []string{"plan of 3", "before say first", "before note a", "after note: a", "before say it is [a]"}
		if diff := cmp.Diff(want, seen); diff != "" {
			t.Error(diff)
		}
	})
}

// TestFeaturesInOrder: they stand around each other in the order of the list, and say, send and end in that
// order.
func TestFeaturesInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var seen []string
		note := func(who, what string) {
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, who+" "+what)
		}
		ended := make(chan struct{}, 9)
		one := func(who, failed string) bot.Feature {
			return bot.Feature{
				Name:  who,
				Begin: func(context.Context, *bot.Turn) error { note(who, "begins"); return nil },
				Plan: func(ctx context.Context, _ *bot.Turn, next func(context.Context) (plans.Plan, error)) (plans.Plan, error) {
					note(who, "plans")
					return next(ctx)
				},
				Call: func(ctx context.Context, _ *bot.Turn, c actions.Call, next callFunc) (actions.Result, error) {
					note(who, "calls "+c.Entities["text"].(string))
					c.Entities = map[string]any{"text": who}
					r, err := next(ctx, c)
					return actions.Text("%s%s", r.Text(), who), err
				},
				Say:    func(_ context.Context, _ *bot.Turn, text string) (string, error) { return text + who, nil },
				Send:   func(_ context.Context, _ *bot.Turn, m *activity.Activity) { note(who, "sends "+m.Text) },
				Failed: func(context.Context, *bot.Turn, error) string { return failed },
				Left:   func(context.Context, *bot.Turn) error { note(who, "leaves"); return nil },
				Ended: func(context.Context, *bot.Turn, turn.Ended) {
					note(who, "ends")
					ended <- struct{}{}
				},
			}
		}
		b := hooked(t, one("O", ""), one("I", "What the inner one says."))
		b.model.Says(plan(`{"type":"DO","action":"note","entities":{"text":"a"},"saveAs":"N"}`, say("it is $N ")))
		b.say("go")
		b.expect("it is IIO OI")
		<-ended
		<-ended
		want := []string{
			"O begins", "I begins", "O plans", "I plans", "O calls a", "I calls O", "O sends it is IIO OI", "I sends it is IIO OI",
			"I leaves", "O leaves", "O ends", "I ends",
		}
		mu.Lock()
		if diff := cmp.Diff(want, seen); diff != "" {
			t.Error(diff)
		}
		mu.Unlock()
		bad := plan(do("invented", `{}`))
		b.model.Says(bad, bad, bad)
		b.say("fail")
		b.expectFault("What the inner one says.")
	})
}

func TestPlanReadyMayChangeAndStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := hooked(t, bot.Feature{Plan: planReady(func(p plans.Plan) (plans.Plan, error) {
			switch p.Commands[0].Action {
			case "note":
				p.Commands = []plans.Command{{Kind: plans.Say, Response: "changed"}}
			case "addItem":
				p.Commands = []plans.Command{{Kind: plans.Do, Action: "invented"}}
			}
			return p, nil
		})})
		b.model.Says(plan(do("note", `{"text":"x"}`)), plan(do("addItem", `{"list":"l","item":"i"}`)))
		b.say("change")
		b.expect("changed")
		b.say("invent")
		b.expectFault("I could not make a plan")
	})
}

func TestStopEndsTheTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for name, hooks := range map[string]bot.Feature{
			"plan": {Plan: planReady(func(plans.Plan) (plans.Plan, error) { return plans.Plan{}, turn.Stop("Stopped.") })},
			"do": {Call: func(context.Context, *bot.Turn, actions.Call, callFunc) (actions.Result, error) {
				return actions.Done, turn.Stop("Stopped.")
			}},
			"done": {Call: func(ctx context.Context, _ *bot.Turn, c actions.Call, next callFunc) (actions.Result, error) {
				r, _ := next(ctx, c)
				return r, turn.Stop("Stopped.")
			}},
			"say": {Say: func(context.Context, *bot.Turn, string) (string, error) { return "", turn.Stop("Stopped.") }},
		} {
			b := hooked(t, hooks)
			b.model.Says(plan(do("note", `{"text":"secret"}`), say("secret said")), plan(say("on")))
			b.say("bad words")
			b.expect("Stopped.")
			b.connector.None(t)
			if len(b.model.Calls()) != 1 {
				t.Errorf("%s: the model was asked again", name)
			}
		}
	})
}

func TestRefusedCallFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := hooked(t, bot.Feature{Call: func(_ context.Context, _ *bot.Turn, c actions.Call, _ callFunc) (actions.Result, error) {
			return actions.Done, turn.Refuse("no %s today", c.Entities["text"])
		}})
		b.model.Says(plan(do("note", `{"text":"x"}`), say("Noted.")), plan(say("I may not.")))
		b.say("go")
		b.expect("I may not.")
		if prompt := b.model.Calls()[1].Text(); !strings.Contains(prompt, "note failed: no x today") {
			t.Error(prompt)
		}
	})
}

// A panic in a hook around a call fails the turn. It does not end the process, with all other turns.
func TestAHookPanics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := hooked(t, bot.Feature{Call: func(context.Context, *bot.Turn, actions.Call, callFunc) (actions.Result, error) {
			panic("a hook of somebody's")
		}})
		b.model.Says(plan(do("note", `{"text":"x"}`), say("Noted.")), plan(say("Hello.")))
		b.say("go")
		b.expectFault("Sorry, something went wrong on my side. Please try again. This failed: Note, it was stopped before it ran. (turn ")
		b.say("hi")
		b.expect("Hello.")
	})
}

// A hook that fails after the action leaves it what it was: done or failed.
func TestAHookFailsAfterACall(t *testing.T) {
	t.Parallel()
	for name, fails := range map[string]func() error{
		"an error": func() error { return errors.New("the hook's own") },
		"a panic":  func() error { panic("a hook of somebody's") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := hooked(t, bot.Feature{Call: func(ctx context.Context, _ *bot.Turn, c actions.Call, next callFunc) (actions.Result, error) {
					_, _ = next(ctx, c)
					return actions.Result{}, fails()
				}})
				actions.Add(b.actions, "torn", "Fails", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) {
					return actions.Done, errors.New("it is torn")
				})
				b.model.Says(plan(do("torn", "{}"), say("Done.")), plan(do("note", `{"text":"x"}`), say("Noted.")))
				b.say("go")
				b.expectFault("Sorry, something went wrong on my side. Please try again. This failed: Torn, an internal error. (turn ")
				b.say("go on")
				b.expectFault("Sorry, something went wrong on my side. Please try again. Before that I did: Note. (turn ")
			})
		})
	}
}

// A process that has lost the queue while it prepared a call leaves the call to the next one.
func TestLostBeforeACall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var prepared, called atomic.Int32
		b := setup(t)
		actions.Add(b.actions, "note", "Notes", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) {
			called.Add(1)
			return actions.Text("noted"), nil
		}, actions.StateOnly)
		b.url = b.onSameStore(func(c *bot.Config) {
			c.Lease = 300 * time.Millisecond
			c.Policy = func(ctx context.Context, _ *actions.Turn, _ actions.Call) (actions.Approval, error) {
				if prepared.Add(1) == 1 {
					for _, key := range b.redis.Keys() {
						if strings.HasSuffix(key, "/lease") {
							b.redis.Del(key)
						}
					}
					<-ctx.Done()
				}
				return actions.Approval{}, nil
			}
		})
		b.model.Says(plan(do("note", "{}"), say("Noted.")), plan(do("note", "{}"), say("Noted.")))
		b.say("go")
		b.expect("Noted.")
		if prepared.Load() != 2 || called.Load() != 1 {
			t.Errorf("prepared %d times and called %d times", prepared.Load(), called.Load())
		}
	})
}

func TestAHookCanHushAndFail(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var failing atomic.Bool
		b := hooked(t, bot.Feature{Say: func(context.Context, *bot.Turn, string) (string, error) {
			if failing.Load() {
				return "", errors.New("moderation is away")
			}
			return " ", nil
		}})
		b.model.Says(plan(say("psst")), plan(say("psst")))
		b.say("go")
		b.connector.None(t)
		failing.Store(true)
		b.say("go")
		b.expectFault("something went wrong")
	})
}

// TestFeaturesJudge: each feature that judges has to pass what is said. One that has no verdict passes nothing.
func TestFeaturesJudge(t *testing.T) {
	t.Parallel()
	flags := func() error { return &turn.Flagged{Say: "Not that."} }
	for name, tt := range map[string]struct {
		first, second func() error
		want          string
	}{
		"all pass":               {nil, nil, "Hello."},
		"the first one flags":    {flags, nil, "Not that."},
		"the second one flags":   {nil, flags, "Not that."},
		"one has no verdict":     {func() error { return errors.New("away") }, nil, "Sorry, something went wrong"},
		"another has none":       {nil, func() error { return errors.New("away") }, "Sorry, something went wrong"},
		"one panics":             {nil, func() error { panic("ouch") }, "Sorry, something went wrong"},
		"it stops the turn":      {nil, func() error { return turn.Stop("Enough.") }, "Enough."},
		"it stops it in silence": {nil, func() error { return turn.Stop("") }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				about := func(verdict func() error) func(context.Context, *bot.Turn, turn.Judging) error {
					return func(_ context.Context, _ *bot.Turn, j turn.Judging) error {
						if verdict == nil || j.Pieces[0].Kind != moderation.PlannedSay {
							return nil
						}
						return verdict()
					}
				}
				var failures []error
				failed := func(_ context.Context, _ *bot.Turn, failure error) string {
					failures = append(failures, failure)
					return ""
				}
				b := hooked(t,
					bot.Feature{Name: "first", Judge: about(tt.first)},
					bot.Feature{Name: "second", Judge: about(tt.second), Failed: failed},
				)
				b.model.Says(plan(say("Hello.")))
				b.say("hi")
				switch {
				case strings.HasPrefix(tt.want, "Sorry"):
					b.expectFault(tt.want)
					if len(failures) != 1 || !errors.Is(failures[0], moderation.ErrUnjudged) {
						t.Errorf("failures %v", failures)
					}
				case tt.want != "":
					b.expect(tt.want)
				}
				b.connector.None(t)
			})
		})
	}
}

// TestFeaturesJudgeDrafts: nobody reads a draft that was flagged or has no verdict, and the answer that it is of cannot pass
// if it was flagged.
func TestFeaturesJudgeDrafts(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		verdict func() error
		wire    []string
	}{
		"passes": {func() error { return nil }, []string{"streaming That is a nice question, Mia.", "final That is a nice question, Mia. And long."}},
		"is flagged": {
			func() error { return &turn.Flagged{Say: "Not that."} },
			[]string{"informative Thinking…", "final Not that."},
		},
		"has no verdict": {
			func() error { return errors.New("away") },
			[]string{"informative Thinking…", "final That is a nice question, Mia. And long."},
		},
		"panics": {func() error { panic("ouch") }, []string{"informative Thinking…", "final That is a nice question, Mia. And long."}},
	} {
		t.Run(name, func(t *testing.T) {
			streamed(t, nil, func(t *testing.T, kit *bottest.Kit) {
				mia := kit.Personal("Mia")
				kit.Model.Answers(writes(300*time.Millisecond, answerOpens+"That is a nice question, Mia. And", 3*time.Second, " long."+answerEnds))
				mia.Say("Why?")
				kit.Settle()
				expectWire(t, kit, tt.wire...)
			}, func(c *bot.Config) {
				c.Features = append(c.Features, bot.Feature{Judge: func(_ context.Context, _ *bot.Turn, j turn.Judging) error {
					if j.Draft {
						return tt.verdict()
					}
					return nil
				}})
			})
		})
	}
}

func TestHooksChooseTheWordsOfAFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, func(c *bot.Config) {
			c.MaxSteps = 2
			c.Features = []bot.Feature{{Failed: func(_ context.Context, _ *bot.Turn, failure error) string {
				var noPlan *plans.Fault
				var fromModel *models.Error
				switch {
				case errors.As(failure, &noPlan):
					return "No such thing: " + string(noPlan.Kind)
				case errors.As(failure, &fromModel):
					return "Model: " + fromModel.Kind
				}
				return "Limit: " + failure.Error()
			}}}
		})
		bad := plan(do("fly", `{}`))
		b.model.Says(bad, bad, bad)
		b.say("fly")
		b.expectFault("No such thing: unknown_action")
		b.model.Says(plan(do("summarizeLists", `{}`), do("summarizeLists", `{}`), do("summarizeLists", `{}`)))
		b.say("much")
		b.expectFault("Limit: the turn went over its limit of steps")
		b.model.Fails(http.StatusUnauthorized, `{"error":{"message":"no"}}`)
		b.say("hi")
		b.expectFault("Model: auth")
	})
}

func TestSameCallsAreStopped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, func(c *bot.Config) { c.MaxSameCalls = 2 })
		ran := 0
		actions.Add(b.actions, "poll", "Polls", func(_ context.Context, _ *actions.Turn, _ struct {
			Of map[string]int `json:"of"`
		},
		) (actions.Result, error) {
			ran++
			return actions.Text("not yet"), nil
		})
		b.model.Says(plan(do("poll", `{"of":{"a":1,"b":2}}`)), plan(do("poll", `{"of":{"a":1}}`)), plan(do("poll", `{"of":{"b":2,"a":1}}`), say("x")))
		b.say("poll")
		b.expectFault("going in circles")
		if ran != 3 {
			t.Errorf("ran %d times", ran)
		}
	})
}

func TestBudgetOfTokens(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, func(c *bot.Config) { c.Budget.Tokens = 1 })
		b.model.Says(`{"type":"plan","commands":[`, plan(say("late")))
		b.say("hi")
		b.expectFault("more than I may spend")
		if n := len(b.model.Calls()); n != 1 {
			t.Errorf("%d model calls", n)
		}
	})
}

func TestParallelCalls(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		var mu sync.Mutex
		var order []string
		both := make(chan struct{}, 2)
		started := make(chan struct{})
		meet := func(name string) func(context.Context, *actions.Turn, struct{}) (actions.Result, error) {
			return func(ctx context.Context, _ *actions.Turn, _ struct{}) (actions.Result, error) {
				both <- struct{}{}
				if name == "slow" {
					select {
					case <-started: // so fast is done before
					case <-ctx.Done():
						return actions.Result{}, ctx.Err()
					}
				} else {
					defer close(started)
				}
				mu.Lock()
				defer mu.Unlock()
				order = append(order, name)
				if name == "bad" {
					panic("bad")
				}
				return actions.Text("%s result", name), nil
			}
		}
		actions.Add(b.actions, "slow", "Slow", meet("slow"), actions.Parallel)
		actions.Add(b.actions, "fast", "Fast", meet("fast"), actions.Parallel)
		b.model.Says(plan(`{"type":"DO","action":"slow","entities":{},"saveAs":"S"}`, `{"type":"DO","action":"fast","entities":{},"saveAs":"F"}`, say("$S, $F")))
		b.say("go")
		b.expect("slow result, fast result")
		if !slices.Equal(order, []string{"fast", "slow"}) {
			t.Errorf("order %v", order)
		}
		fail := func(_ context.Context, _ *actions.Turn, _ struct{}) (actions.Result, error) { panic("boom") }
		ok := func(_ context.Context, _ *actions.Turn, _ struct{}) (actions.Result, error) {
			return actions.Text("fine"), nil
		}
		actions.Add(b.actions, "bad", "Bad", fail, actions.Parallel)
		actions.Add(b.actions, "good", "Good", ok, actions.Parallel)
		b.model.Says(plan(do("bad", `{}`), do("good", `{}`), say("Both.")), plan(say("One failed.")))
		b.say("go")
		b.expect("One failed.")
		calls := b.model.Calls()
		for _, want := range []string{"- bad failed: an internal error", "- good: fine"} {
			if prompt := calls[len(calls)-1].Text(); !strings.Contains(prompt, want) {
				t.Errorf("lacks %q: %s", want, prompt)
			}
		}
	})
}

func TestParallelCallsThatAreCutOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, func(c *bot.Config) { c.TurnTimeout = time.Second })
		hang := func(ctx context.Context, _ *actions.Turn, _ struct{}) (actions.Result, error) {
			<-ctx.Done()
			return actions.Result{}, ctx.Err()
		}
		actions.Add(b.actions, "hangA", "A", hang, actions.Parallel)
		actions.Add(b.actions, "hangB", "B", hang, actions.Parallel)
		b.model.Says(plan(do("hangA", `{}`), do("hangB", `{}`), say("x")))
		b.say("go")
		b.expectFault("I cannot tell whether this was done: Hang a, Hang b.")
	})
}

func TestALongResultIsCutForTheModel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := hooked(t, bot.Feature{})
		actions.Add(b.actions, "long", "Is long", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) {
			return actions.Text("%s", strings.Repeat("é", 60_000)), nil
		})
		b.model.Says(plan(do("long", `{}`)), plan(say("Long.")))
		b.say("go")
		b.expect("Long.")
		prompt := b.model.Calls()[1].Text()
		if n := strings.Count(prompt, "é"); n != 33<<10 || !strings.Contains(prompt, "é […]") {
			t.Errorf("%d letters", n)
		}
	})
}

// sources are what an action of this test found.
type sources struct{ List []activity.Citation }

// TestSourcesOfAnActionAreCited in what the plan says of its result.
func TestSourcesOfAnActionAreCited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, func(c *bot.Config) {
			c.Features = append(c.Features, bot.Feature{Send: func(_ context.Context, turn *bot.Turn, m *activity.Activity) {
				m.Cite(state.Of[sources](turn.Temp).List...)
			}})
		})
		actions.Add(b.actions, "ask", "Asks the tea book", func(_ context.Context, turn *actions.Turn, _ struct{}) (actions.Result, error) {
			state.Of[sources](turn.Temp).List = []activity.Citation{{Title: "The tea book", URL: "https://example.com/tea"}, {Title: "Not named"}}
			return actions.Text("three minutes [1]"), nil
		})
		b.model.Says(`{"type":"plan","commands":[{"type":"DO","action":"ask","entities":{},"saveAs":"ANSWER"},{"type":"SAY","response":"It takes $ANSWER."}]}`)
		b.say("how long?")
		got := b.connector.Next(t)
		entities, _ := json.Marshal(got.Body["entities"])
		if got.Text() != "It takes three minutes [1]." || !strings.Contains(string(entities), `"name":"The tea book"`) || strings.Contains(string(entities), "Not named") {
			t.Errorf("%q with %s", got.Text(), entities)
		}
	})
}

// TestEnded: a feature sees each turn once, with why it failed, and can do no harm.
func TestEnded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan string, 8)
		b := hooked(t, bot.Feature{Ended: func(_ context.Context, t *bot.Turn, e turn.Ended) {
			ended <- fmt.Sprint(t.Text, ": ", e.Failure != nil)
			panic("out of order")
		}})
		b.model.Says(plan(say("Yes.")))
		b.say("one")
		b.expect("Yes.")
		b.model.Fails(http.StatusUnauthorized, "invalid_api_key")
		b.say("two")
		b.connector.Next(t)
		b.say("/reset")
		b.connector.Next(t)
		for _, want := range []string{"one: false", "two: true", "/reset: false"} {
			if got := <-ended; got != want {
				t.Errorf("ended %q, want %q", got, want)
			}
		}
	})
}
