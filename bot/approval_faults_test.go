package bot_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/bot"
	plans "github.com/planbot-go/planbot/planner/plan"
	"github.com/planbot-go/planbot/state"
)

// addCharge registers an action that does something and then fails.
func addCharge(d desk, opts ...actions.Option) *atomic.Int64 {
	calls := &atomic.Int64{}
	actions.Add(d.actions, "charge", "Charges", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) {
		calls.Add(1)
		return actions.Result{}, errors.New("timeout behind the charge")
	}, opts...)
	return calls
}

// TestForgetLeavesNoApproval, whether it was decided or not.
func TestForgetLeavesNoApproval(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.model.Says(closePlan, closePlan)
		approve, _ := buttons(t, d.ask(nil, "close it"))
		d.deliver(click(approve, nil))
		d.expect("Closed it.")
		d.ask(nil, "close it")
		d.say("/forget yes")
		d.expect("I've deleted everything I kept about you.")
		for _, k := range d.redis.Keys() {
			if v, _ := d.redis.Get(k); strings.Contains(v, "29:mia") || strings.Contains(k, "approvals") {
				t.Errorf("after /forget: %s %s", k, v)
			}
		}
	})
}

// TestAnApprovalIsForOneCall: the entities, what the bot fills in, and a registry
// that still has the action.
func TestAnApprovalIsForOneCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		type pay struct {
			Total int    `host:"total"`
			Via   string `json:"via,omitempty" default:"card"`
		}
		type payOther struct {
			Total int    `host:"total"`
			Via   string `json:"via,omitempty" default:"invoice"`
		}
		registry := func(change string) *actions.Registry {
			r := actions.New()
			actions.Provide(r, "total", func(_ context.Context, turn *actions.Turn) (int, error) {
				return *state.At[int](turn.User, "total"), nil
			})
			actions.Add(r, "more", "Adds", func(_ context.Context, turn *actions.Turn, _ struct{}) (actions.Result, error) {
				*state.At[int](turn.User, "total") += 10
				return actions.Done, nil
			})
			switch change {
			case "another default":
				actions.Add(r, "checkout", "Pays", func(context.Context, *actions.Turn, payOther) (actions.Result, error) {
					t.Error("paid")
					return actions.Done, nil
				}, actions.NeedsApproval)
			case "no such action":
			default:
				actions.Add(r, "checkout", "Pays", func(_ context.Context, _ *actions.Turn, in pay) (actions.Result, error) {
					return actions.Text("%d by %s", in.Total, in.Via), nil
				}, actions.NeedsApproval)
			}
			return r
		}
		for _, change := range []string{"none", "another total", "another default", "no such action"} {
			b := setup(t)
			*b.actions = *registry("none")
			b.model.Says(plan(do("more", `{}`), `{"type":"DO","action":"checkout","entities":{},"saveAs":"P"}`, say("Paid $P.")))
			b.say("pay")
			approve, _ := buttons(t, b.connector.Next(t))
			if change == "another total" {
				b.model.Says(plan(do("more", `{}`), say("Added.")))
				b.say("one more")
				b.expect("Added.")
			}
			b.actions = registry(change)
			b.must(b.bot.Drain(t.Context())) // else it might go on with what it has
			b.post(b.replica(), b.activity(click(approve, nil)))
			if change == "none" {
				b.expect("Paid 10 by card.")
				continue
			}
			b.expectFault("things have changed since I asked for approval")
		}
	})
}

// TestLimitsHoldAcrossAnApproval: what was spent and run before it counts.
func TestLimitsHoldAcrossAnApproval(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limited := func(c *bot.Config) { c.MaxSteps, c.MaxSameCalls = 3, 2 }
		for _, next := range []string{
			plan(do("addItem", `{"list":"l","item":"j"}`), do("addItem", `{"list":"l","item":"k"}`), say("more")), // four calls
			plan(do("closeTicket", `{"id":7}`)), // the same call again
		} {
			d := newDesk(t, limited)
			d.model.Says(plan(do("addItem", `{"list":"l","item":"i"}`), do("closeTicket", `{"id":7}`)), next)
			approve, _ := buttons(t, d.ask(nil, "close 7"))
			d.deliver(click(approve, nil))
			if got := d.connector.Next(t).Text(); strings.Contains(next, "more") != strings.Contains(got, "too many steps") {
				t.Errorf("got %q", got)
			}
		}
	})
}

func TestTheQuestionFitsAMessage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		raw, err := json.Marshal(map[string]any{"id": 1, "note": strings.Repeat("\u202e", 3000)})
		d.must(err)
		d.model.Says(plan(do("closeTicket", string(raw)), say("ok")), plan(say("Too long.")))
		question := d.ask(nil, "x")
		if out, err := json.Marshal(question.Body); err != nil || len(out) > 28<<10 {
			t.Errorf("a message of %d bytes, %v", len(out), err)
		}
	})
}

// TestAQuestionThatCannotBeSentIsWithdrawn, so that nothing waits for ever.
func TestAQuestionThatCannotBeSentIsWithdrawn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		for range 20 {
			d.model.Says(closePlan)
			d.connector.Fails(0, http.StatusBadRequest)
			d.say("close it")
			d.expectFault("could not be sent")
		}
		for _, k := range d.redis.Keys() {
			if strings.Contains(k, "approvals") {
				t.Errorf("left: %s", k)
			}
		}
	})
}

func TestStepsThatDidNotRunDoNotCount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		addCharge(d)
		commands := make([]string, 10)
		for i := range commands {
			commands[i] = do("charge", `{}`)
		}
		ten := plan(commands...)
		d.model.Says(ten, ten, ten, plan(say("I gave up.")))
		d.say("x")
		d.expect("I gave up.")
	})
}

func TestRepliesOfADecisionWaitForNoSlot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, func(c *bot.Config) { c.MaxTurns = 1 })
		d.model.Says(closePlan)
		approve, _ := buttons(t, d.ask(nil, "close it"))
		got := d.deliver(event{"text": fmt.Sprint("/approve ", approve["approval"]), "deliveryMode": "expectReplies"})
		if !strings.Contains(got.body, "Closed it.") {
			t.Errorf("answer %s", got.body)
		}
	})
}

func TestAClickNamesTheCallItSaw(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.model.Says(closePlan)
		approve, _ := buttons(t, d.ask(nil, "close it"))
		delete(approve, "hash")
		if got := d.deliver(click(approve, nil)); !strings.Contains(got.body, `"statusCode":400`) {
			t.Errorf("a click without a hash: %d %s", got.status, got.body)
		}
	})
}

// TestRejectedWithTheRest: the person learns that nothing behind it runs either.
func TestRejectedWithTheRest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.model.Says(plan(do("closeTicket", `{"id":1}`), do("addItem", `{"list":"l","item":"i"}`), say("Both.")), plan(say("ok")))
		_, reject := buttons(t, d.ask(nil, "both"))
		d.deliver(click(reject, nil))
		d.expect("OK, I won't do this: Close ticket. I also won't do what came after it: Add to a list.")
		d.say("really?")
		d.expect("ok")
		if prompt := d.model.Calls()[1].Text(); !strings.Contains(prompt, "system: [OK, I won't do this: Close ticket") {
			t.Error(prompt)
		}
	})
}

// TestAPlanWithinAPlanIsShownAndAsked: its commands are on the card, and the
// policy is asked for each of them.
func TestAPlanWithinAPlanIsShownAndAsked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, whole := range []bool{true, false} {
			d := newDesk(t, func(c *bot.Config) {
				c.Policy = func(_ context.Context, _ *actions.Turn, call actions.Call) (actions.Approval, error) {
					return actions.Approval{Required: call.Action.Name == "wire" || whole && call.Action.Name == "monthEnd"}, nil
				}
			})
			sent := &atomic.Int64{}
			actions.Add(d.actions, "wire", "Wires money", func(context.Context, *actions.Turn, struct {
				To string `json:"to"`
			},
			) (actions.Result, error) {
				sent.Add(1)
				return actions.Done, nil
			})
			p, err := plans.Load([]byte(plan(do("wire", `{"to":"bob"}`))), d.actions)
			d.must(err)
			_, err = p.AddAction(d.actions, "monthEnd", "Month end")
			d.must(err)
			d.model.Says(plan(do("monthEnd", `{}`), say("Done it.")), plan(say("I may not.")))
			first := d.ask(nil, "x")
			if !whole {
				if first.Text() != "I may not." || sent.Load() != 0 || !strings.Contains(d.model.Calls()[1].Text(), "approval of a person") {
					t.Errorf("said %q, wired %d times, asked %s", first.Text(), sent.Load(), d.model.Calls()[1].Text())
				}
				continue
			}
			if shown := fmt.Sprint(asCard(t, first)); !strings.Contains(shown, "wire") || !strings.Contains(shown, "bob") {
				t.Errorf("card %s", shown)
			}
			approve, _ := buttons(t, first)
			d.deliver(click(approve, nil))
			d.expect("Done it.")
			if sent.Load() != 1 {
				t.Errorf("wired %d times", sent.Load())
			}
		}
	})
}

// TestTheTruthIsSaidWithoutTheModel: an action failed, and then the model did.
func TestTheTruthIsSaidWithoutTheModel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.model.Says(plan(do("closeTicket", `{"id":13}`), say("Closed.")))
		approve, _ := buttons(t, d.ask(nil, "close 13"))
		d.model.Fails(http.StatusInternalServerError, "")
		d.deliver(click(approve, nil))
		d.expectFault("This failed: Close ticket, ticket 13 is locked.")
	})
}

// TestWhatWasSpentAndCalledBeforeAnApprovalCounts after it.
func TestWhatWasSpentAndCalledBeforeAnApprovalCounts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		add := do("addItem", `{"list":"l","item":"i"}`)
		for words, limit := range map[string]func(*bot.Config){
			"going in circles":      func(c *bot.Config) { c.MaxSameCalls = 2 },
			"more than I may spend": func(c *bot.Config) { c.Budget.Tokens = 1 },
		} {
			d := newDesk(t, limit)
			d.model.Says(plan(add, do("closeTicket", `{"id":7}`)), plan(add, say("And again.")))
			approve, _ := buttons(t, d.ask(nil, "close 7"))
			d.deliver(click(approve, nil))
			d.expectFault(words)
		}
	})
}

// TestWhatFollowsGoesWhereTheClickCameFrom: the channel may have moved since.
func TestWhatFollowsGoesWhereTheClickCameFrom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.model.Says(closePlan)
		approve, _ := buttons(t, d.ask(nil, "close it"))
		moved := newConnector(t)
		d.deliver(click(approve, event{"serviceUrl": moved.URL}))
		if got := moved.Next(t).Text(); got != "Closed it." {
			t.Errorf("got %q", got)
		}
		d.connector.None(t)
	})
}
