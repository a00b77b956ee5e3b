package bottest_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/app/record"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bot/turn"
	"github.com/planbot-go/planbot/bottest"
	"github.com/planbot-go/planbot/internal/testing/ci"
	"github.com/planbot-go/planbot/planner/plan"
	"github.com/planbot-go/planbot/state"
)

// shop is what people say to the bots of these tests: they pay twice, and once by a command.
const shop = `
name: a shop
steps:
  - event: {type: message, conversation: c1, from: mia, text: pay 5}
    model: ['{"type":"plan","commands":[{"type":"DO","action":"pay","entities":{"eur":5},"saveAs":"A"},{"type":"SAY","response":"$A"}]}']
  - event: {type: message, conversation: c1, from: mia, text: pay 7}
    model: ['{"type":"plan","commands":[{"type":"DO","action":"pay","entities":{"eur":7},"saveAs":"A"},{"type":"SAY","response":"$A"}]}']
  - event: {type: message, conversation: c1, from: mia, text: /tip}
`

type payment struct {
	EUR int `json:"eur"`
}

// paid is a value in state.
type paid struct{ N int }

// pays makes an action of a bot, in each process anew.
type pays func(out *bottest.Outside) func(context.Context, *actions.Turn, payment) (actions.Result, error)

// shopOf is a bot that pays in that way.
func shopOf(how pays, opts ...actions.Option) func(*bottest.Outside) app.Bot {
	return func(out *bottest.Outside) app.Bot {
		return app.Bot{
			Name:     "Shop",
			Register: func(r *actions.Registry) { actions.Add(r, "pay", "Pays", how(out), opts...) },
			Routes: func(b *bot.Bot) {
				b.OnCommand("/tip", func(ctx context.Context, t *bot.Turn) error { return t.Send(ctx, t.Message("No tips.")) })
			},
		}
	}
}

// with changes such a bot. Its action is right.
func with(change func(out *bottest.Outside, b *app.Bot)) func(*bottest.Outside) app.Bot {
	return func(out *bottest.Outside) app.Bot {
		b := shopOf(keyed)(out)
		change(out, &b)
		return b
	}
}

func charge(in payment) string { return fmt.Sprintf("charge %d", in.EUR) }

// keyed pays at a service that knows keys.
func keyed(out *bottest.Outside) func(context.Context, *actions.Turn, payment) (actions.Result, error) {
	return func(ctx context.Context, _ *actions.Turn, in payment) (actions.Result, error) {
		out.Once(actions.AttemptOf(ctx).Key, charge(in))
		return actions.Text("Paid %d.", in.EUR), nil
	}
}

var sold atomic.Int64 // by all processes

// approving is what people say to a bot that asks first.
const approving = `
name: a shop that asks
steps:
  - event: {type: message, conversation: c1, from: mia, text: pay 5}
    model: ['{"type":"plan","commands":[{"type":"DO","action":"pay","entities":{"eur":5},"saveAs":"A"},{"type":"SAY","response":"$A"}]}']
  - event: {type: invoke, conversation: c1, from: mia, value: {approve: true}}
`

// twoApprovals are given elsewhere, in words and with a card, the second one an hour after the first.
const twoApprovals = `
name: a shop that asks two
steps:
  - event: {type: message, conversation: c1, from: mia, text: pay 5}
    model: ['{"type":"plan","commands":[{"type":"DO","action":"pay","entities":{"eur":5},"saveAs":"A"},{"type":"SAY","response":"$A"}]}']
  - event: {type: invoke, conversation: c1, from: mia, value: {send: true}}
  - parallel:
      - event: {type: invoke, conversation: "a:ben", from: ben, value: {approve: true}}
      - event: {type: invoke, conversation: "a:carla", from: carla, value: {approve: true}, at_ms: 3600000}
`

// TestCrashesBetweenTwoApprovals: what comes again is what came, and what is later comes later.
func TestCrashesBetweenTwoApprovals(t *testing.T) {
	t.Parallel()
	ci.NotUnderRace(t, "it dies at a hundred places")
	shop := with(func(_ *bottest.Outside, b *app.Bot) {
		b.Setup = func(cfg *bot.Config) error {
			cfg.Policy = func(context.Context, *actions.Turn, actions.Call) (actions.Approval, error) {
				people := []string{"aad-ben", "aad-carla"}
				later := []actions.Escalation{{After: 30 * time.Minute, To: []string{"aad-dora"}}}
				return actions.Approval{Required: true, Approvers: people, Quorum: 2, Escalate: later}, nil
			}
			return nil
		}
	})
	found := crash(t, twoApprovals, shop)
	for _, f := range found.Faults {
		t.Errorf("%s\n%s\n%s", f.Text, f.Place, f.Story)
	}
	if found.Covered != found.Places || found.Places == 0 {
		t.Errorf("%s", found)
	}
}

func crash(t *testing.T, scenario string, newBot func(*bottest.Outside) app.Bot) bottest.Crashes {
	t.Helper()
	list, err := record.Read("shop.yaml", []byte(scenario))
	if err != nil {
		t.Fatal(err)
	}
	return bottest.PlayCrashes(&list[0], 10*time.Minute, func(out *bottest.Outside) bottest.Config {
		return bottest.Config{Name: "Shop", New: func(ctx context.Context, parts bottest.Parts) (*bot.Bot, error) {
			return app.New(ctx, newBot(out), parts.Model, parts.Bot)
		}}
	})
}

// TestCrashes finds bugs that only a crash shows, and none in bots that have none.
func TestCrashes(t *testing.T) {
	t.Parallel()
	type in = payment
	feature := func(f func(out *bottest.Outside) bot.Feature) func(*bottest.Outside) app.Bot {
		return with(func(out *bottest.Outside, b *app.Bot) {
			b.Setup = func(cfg *bot.Config) error {
				cfg.Features = append(cfg.Features, f(out))
				return nil
			}
		})
	}
	tip := func(how func(out *bottest.Outside, n *int, t *bot.Turn) string) func(*bottest.Outside) app.Bot {
		return with(func(out *bottest.Outside, b *app.Bot) {
			n := 0
			b.Routes = func(b *bot.Bot) {
				b.OnCommand("/tip", func(ctx context.Context, t *bot.Turn) error { return t.Send(ctx, t.Message(how(out, &n, t))) })
			}
		})
	}
	type result = actions.Result
	text := actions.Text
	bugs := map[string]struct {
		bot  func(*bottest.Outside) app.Bot
		want string
	}{
		"no key": {shopOf(func(out *bottest.Outside) func(context.Context, *actions.Turn, in) (result, error) {
			return func(_ context.Context, _ *actions.Turn, p in) (result, error) {
				out.Did(charge(p))
				return text("Paid %d.", p.EUR), nil
			}
		}), `"charge 5" was done 2 times, not 1`},
		"no key in state only": {shopOf(func(out *bottest.Outside) func(context.Context, *actions.Turn, in) (result, error) {
			return func(_ context.Context, _ *actions.Turn, p in) (result, error) {
				out.Did(charge(p))
				return text("Paid %d.", p.EUR), nil
			}
		}, actions.StateOnly), `"charge 7" was done 2 times, not 1`},
		"no key in parallel": {shopOf(func(out *bottest.Outside) func(context.Context, *actions.Turn, in) (result, error) {
			return func(_ context.Context, _ *actions.Turn, p in) (result, error) {
				out.Did(charge(p))
				return text("Paid %d.", p.EUR), nil
			}
		}, actions.Parallel), `"charge 5" was done 2 times, not 1`},
		"a key by chance": {shopOf(func(out *bottest.Outside) func(context.Context, *actions.Turn, in) (result, error) {
			return func(_ context.Context, _ *actions.Turn, p in) (result, error) {
				out.Once(fmt.Sprint(rand.Uint64()), charge(p))
				return text("Paid %d.", p.EUR), nil
			}
		}), `"charge 5" was done 2 times, not 1`},
		"a key of the time": {shopOf(func(out *bottest.Outside) func(context.Context, *actions.Turn, in) (result, error) {
			return func(_ context.Context, _ *actions.Turn, p in) (result, error) {
				out.Once(time.Now().String(), charge(p))
				return text("Paid %d.", p.EUR), nil
			}
		}), `"charge 5" was done 2 times, not 1`},
		"a key of memory": {shopOf(func(out *bottest.Outside) func(context.Context, *actions.Turn, in) (result, error) {
			n, process := 0, rand.Uint64()
			return func(_ context.Context, _ *actions.Turn, p in) (result, error) {
				n++
				out.Once(fmt.Sprint(process, n), charge(p))
				return text("Paid %d.", p.EUR), nil
			}
		}), `"charge 5" was done 2 times, not 1`},
		"a receipt without a key": {shopOf(func(out *bottest.Outside) func(context.Context, *actions.Turn, in) (result, error) {
			return func(ctx context.Context, _ *actions.Turn, p in) (result, error) {
				out.Once(actions.AttemptOf(ctx).Key, charge(p))
				out.Did("mail a receipt")
				return text("Paid %d.", p.EUR), nil
			}
		}), `"mail a receipt" was done 3 times, not 2`},
		"a mail before the save": {shopOf(func(out *bottest.Outside) func(context.Context, *actions.Turn, in) (result, error) {
			return func(_ context.Context, turn *actions.Turn, p in) (result, error) {
				state.Of[paid](turn.Conversation).N += p.EUR
				out.Did(fmt.Sprintf("mail %d in all", state.Of[paid](turn.Conversation).N))
				return text("Paid %d.", p.EUR), nil
			}
		}), `"mail 5 in all" was done 2 times, not 1`},
		"again is done": {shopOf(func(out *bottest.Outside) func(context.Context, *actions.Turn, in) (result, error) {
			return func(ctx context.Context, _ *actions.Turn, p in) (result, error) {
				if !actions.AttemptOf(ctx).Again {
					out.Did(charge(p))
				}
				return text("Paid %d.", p.EUR), nil
			}
		}), `"charge 5" was done 0 times, not 1, and nobody was told`},
		"a counter outside of state": {shopOf(func(out *bottest.Outside) func(context.Context, *actions.Turn, in) (result, error) {
			n := 0
			return func(ctx context.Context, _ *actions.Turn, p in) (result, error) {
				n++
				out.Once(actions.AttemptOf(ctx).Key, charge(p))
				return text("Order %d of today.", n), nil
			}
		}), `"Order 2 of today." was said 0 times, not 1`},
		"a counter of the program": {shopOf(func(out *bottest.Outside) func(context.Context, *actions.Turn, in) (result, error) {
			return func(ctx context.Context, _ *actions.Turn, p in) (result, error) {
				out.Once(actions.AttemptOf(ctx).Key, charge(p))
				return text("Order %d.", sold.Add(1)), nil
			}
		}), "it does or says something else each time, without a crash"},
		"a sum in memory": {shopOf(func(out *bottest.Outside) func(context.Context, *actions.Turn, in) (result, error) {
			sum := 0
			return func(ctx context.Context, turn *actions.Turn, p in) (result, error) {
				out.Once(actions.AttemptOf(ctx).Key, charge(p))
				sum += p.EUR
				state.Of[paid](turn.Conversation).N = sum
				return text("Paid %d.", p.EUR), nil
			}
		}), "the state of c1 is "},
		"memory of what is done": {shopOf(func(out *bottest.Outside) func(context.Context, *actions.Turn, in) (result, error) {
			done := map[string]bool{}
			return func(ctx context.Context, _ *actions.Turn, p in) (result, error) {
				if key := actions.AttemptOf(ctx).Key; !done[key] {
					done[key] = true
					out.Did(charge(p))
				}
				return text("Paid %d.", p.EUR), nil
			}
		}), `"charge 5" was done 2 times, not 1`},
		"an approved call without a key": {shopOf(func(out *bottest.Outside) func(context.Context, *actions.Turn, in) (result, error) {
			return func(_ context.Context, turn *actions.Turn, p in) (result, error) {
				out.Did("look up " + turn.Text)
				out.Did(charge(p))
				return text("Paid %d.", p.EUR), nil
			}
		}, actions.Destructive), `"look up pay 5" was done 2 times, not 1`},
		"a command without a key": {tip(func(out *bottest.Outside, _ *int, _ *bot.Turn) string {
			out.Did("tip")
			return "Thanks."
		}), `"tip" was done 2 times, not 1`},
		"a middleware": {with(func(out *bottest.Outside, b *app.Bot) {
			routes := b.Routes
			b.Routes = func(b *bot.Bot) {
				routes(b)
				b.Use(func(next bot.Handler) bot.Handler {
					return func(ctx context.Context, t *bot.Turn) error {
						out.Did("count a visit")
						return next(ctx, t)
					}
				})
			}
		}), `"count a visit" was done`},
		"a feature's Begin": {feature(func(out *bottest.Outside) bot.Feature {
			return bot.Feature{Name: "b", Begin: func(context.Context, *bot.Turn) error {
				out.Did("greet")
				return nil
			}}
		}), `"greet" was done`},
		"a feature's Plan": {feature(func(out *bottest.Outside) bot.Feature {
			return bot.Feature{Name: "p", Plan: func(ctx context.Context, _ *bot.Turn, next func(context.Context) (plan.Plan, error)) (plan.Plan, error) {
				out.Did("bill a question")
				return next(ctx)
			}}
		}), `"bill a question" was done 3 times, not 2`},
		"a feature's Ended": {feature(func(out *bottest.Outside) bot.Feature {
			return bot.Feature{Name: "e", Ended: func(_ context.Context, t *bot.Turn, _ turn.Ended) { out.Did("close " + t.Text) }}
		}), `was done 0 times, not 1, and nobody was told`},
		"a function of a prompt": {with(func(out *bottest.Outside, b *app.Bot) {
			b.Register = func(r *actions.Registry) {
				actions.Add(r, "pay", "Pays", func(ctx context.Context, turn *actions.Turn, p in) (result, error) {
					out.Once(turn.ID+time.Now().Format("05"), charge(p))
					return text("Paid %d.", p.EUR), nil
				})
			}
		}), `was done 2 times, not 1`},
	}
	if len(bugs) != 20 {
		t.Errorf("%d bugs", len(bugs))
	}
	if !ci.Runs() || ci.UnderRace { // each takes a second of computing
		quick := []string{"no key", "again is done", "a counter outside of state", "a sum in memory"}
		for name := range bugs {
			if !slices.Contains(quick, name) {
				delete(bugs, name)
			}
		}
	}
	for name, bug := range bugs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			c := crash(t, shop, bug.bot)
			var all []string
			for _, f := range c.Faults {
				all = append(all, f.Text+", as "+f.Place)
			}
			if found := strings.Join(all, "\n"); !strings.Contains(found, bug.want) || c.Faults[0].Story == "" {
				t.Errorf("%v in %s: no %q in:\n%s", c, time.Since(began), bug.want, found)
			}
		})
	}
	for name, good := range map[string]func(*bottest.Outside) app.Bot{
		"keyed":    shopOf(keyed),
		"approved": shopOf(keyed, actions.NeedsApproval),
		"state": shopOf(func(*bottest.Outside) func(context.Context, *actions.Turn, in) (result, error) {
			return func(_ context.Context, turn *actions.Turn, p in) (result, error) {
				sum := state.Of[paid](turn.Conversation)
				sum.N += p.EUR
				return text("%d in all.", sum.N), nil
			}
		}),
		"uncertain": shopOf(func(out *bottest.Outside) func(context.Context, *actions.Turn, in) (result, error) {
			return func(ctx context.Context, _ *actions.Turn, p in) (result, error) {
				if actions.AttemptOf(ctx).Again {
					return result{}, actions.ErrUncertain
				}
				out.Did(charge(p))
				return text("Paid %d.", p.EUR), nil
			}
		}),
		"a command with a key": tip(func(out *bottest.Outside, _ *int, t *bot.Turn) string {
			out.Once(t.ID, "tip")
			return "Thanks."
		}),
	} {
		t.Run("none/"+name, func(t *testing.T) {
			t.Parallel()
			scenario := shop
			if name == "approved" {
				scenario = approving
			}
			c := crash(t, scenario, good)
			for _, f := range c.Faults {
				t.Errorf("%s, %s\n%s", f.Text, f.Place, f.Story)
			}
			if c.Covered != c.Places || c.Places < 20 {
				t.Error(c)
			}
		})
	}
}

// TestPaymentsSurviveCrashes plays a file of scenarios.
func TestPaymentsSurviveCrashes(t *testing.T) {
	t.Parallel()
	ci.NotUnderRace(t, "it dies at each place of a turn")
	file := filepath.Join(t.TempDir(), "shop.yaml")
	if err := os.WriteFile(file, []byte(shop), 0o600); err != nil {
		t.Fatal(err)
	}
	bottest.CrashScenarios(t, time.Minute, shopOf(keyed), file)
}

// A service that ignores keys is asked twice.
func ExamplePlayCrashes() {
	list, err := record.Read("pay.yaml", []byte(`
name: pay
steps:
  - event: {type: message, conversation: c1, from: mia, text: pay}
    model: ['{"type":"plan","commands":[{"type":"DO","action":"pay","entities":{}},{"type":"SAY","response":"Paid."}]}']
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	found := bottest.PlayCrashes(&list[0], time.Minute, func(out *bottest.Outside) bottest.Config {
		acts := actions.New()
		actions.Add(acts, "pay", "Pays", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) {
			out.Did("charge")
			return actions.Done, nil
		})
		return bottest.Config{Actions: acts}
	})
	fmt.Println(found.Covered == found.Places, found.Faults[0].Text)
	// Output: true "charge" was done 2 times, not 1
}
