package bot_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/models"
	plans "github.com/planbot-go/planbot/planner/plan"
)

// addPlan makes an action of a plan.
func (b *bundle) addPlan(name string, commands ...string) {
	b.Helper()
	p, err := plans.Load([]byte(plan(commands...)), b.actions)
	b.must(err)
	_, err = p.AddAction(b.actions, name, "Does a plan")
	b.must(err)
}

// asks is a policy by the names of actions.
func asks(approval actions.Approval, names ...string) func(*bot.Config) {
	return func(c *bot.Config) {
		c.Policy = func(_ context.Context, _ *actions.Turn, call actions.Call) (actions.Approval, error) {
			for _, name := range names {
				if call.Action.Name == name {
					return approval, nil
				}
			}
			return actions.Approval{}, nil
		}
	}
}

// TestWhatWasGrantedIsForOneCall: not for those that would run beside it.
func TestWhatWasGrantedIsForOneCall(t *testing.T) {
	t.Parallel()
	for name, press := range map[string]func(*testing.T, desk){
		"once": func(t *testing.T, d desk) {
			t.Helper()
			approve, _, _ := choices(t, d.connector.Next(t))
			d.deliver(click(approve, nil))
		},
		"for good": func(t *testing.T, d desk) {
			t.Helper()
			_, always, _ := choices(t, d.connector.Next(t))
			d.deliver(click(always, nil))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				d := newDesk(t, asks(actions.Approval{Required: true, Standing: true}, "look", "closeTicket"))
				actions.Add(d.actions, "look", "Looks", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) {
					return actions.Done, nil
				}, actions.Parallel)
				d.addPlan("tidy", do("closeTicket", `{"id":7}`), say("ok"))
				tidy, _ := d.actions.Lookup("tidy")
				tidy.Parallel, tidy.Approval = true, false
				both := plan(do("look", `{}`), do("tidy", `{}`), say("Tidied."))
				for range 2 { // in the second turn, look may stand
					d.model.Says(both, plan(say("I may not.")))
					d.say("look and tidy")
					if len(d.connector.All()) == 1 || name == "once" {
						press(t, d)
					}
					d.expect("I may not.")
				}
				if len(*d.closed) != 0 {
					t.Errorf("closed %v with the approval of another call", *d.closed)
				}
			})
		})
	}
}

// TestAPlanThatIsApprovedForGoodGoesOnWorking, with its calls.
func TestAPlanThatIsApprovedForGoodGoesOnWorking(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, asks(actions.Approval{Required: true, Standing: true}, "tidy", "closeTicket"))
		d.addPlan("tidy", do("closeTicket", `{"id":7}`), say("ok"))
		for range 2 {
			d.model.Says(plan(do("tidy", `{}`), say("Tidied.")))
			d.say("tidy")
			if len(*d.closed) == 0 {
				_, always, _ := choices(t, d.connector.Next(t))
				d.deliver(click(always, nil))
			}
			d.expect("Tidied.")
		}
		if len(*d.closed) != 2 {
			t.Errorf("closed %v", *d.closed)
		}
	})
}

// TestWhatACallIsBoundToIsNotApprovedWithAPlan, since the plan's card did not show it.
func TestWhatACallIsBoundToIsNotApprovedWithAPlan(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, func(c *bot.Config) {
			c.Policy = func(_ context.Context, _ *actions.Turn, call actions.Call) (actions.Approval, error) {
				if call.Action.Name == "closeTicket" {
					return actions.Approval{Required: true, Bind: "v1"}, nil
				}
				return actions.Approval{Required: true}, nil
			}
		})
		d.addPlan("tidy", do("closeTicket", `{"id":7}`), say("ok"))
		d.model.Says(plan(do("tidy", `{}`), say("Tidied.")), plan(say("I may not.")))
		approve, _ := buttons(t, d.ask(nil, "tidy"))
		d.deliver(click(approve, nil))
		d.expect("I may not.")
		if len(*d.closed) != 0 {
			t.Errorf("closed %v", *d.closed)
		}
	})
}

// TestWhatWasDoneBeforeARejectionIsTold: the model sees it, with the rejection.
func TestWhatWasDoneBeforeARejectionIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := desk{bundle: setupPlanner(t, "tools", asks(actions.Approval{Required: true}, "addItem"))}
		actions.Add(d.actions, "weigh", "Weighs", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) {
			return actions.Text("7 kg"), nil
		})
		d.model.CallsTools("",
			models.Call{ID: "one", Name: "weigh", Arguments: `{}`},
			models.Call{ID: "two", Name: "addItem", Arguments: `{"list":"l","item":"i"}`},
			models.Call{ID: "three", Name: "weigh", Arguments: `{}`})
		_, reject := buttons(t, d.ask(nil, "weigh, and note it"))
		d.model.Says("It has 7 kg, which is not noted.")
		if got := d.deliver(click(reject, nil)); !strings.Contains(got.body, "Rejected by Mia") {
			t.Errorf("answer %s", got.body)
		}
		d.expect("It has 7 kg, which is not noted.")
		asked := d.model.Calls()[1]
		answers := map[string]string{}
		for _, m := range asked.Messages {
			if m.Role == "tool" {
				answers[m.CallID] = m.Text
			}
		}
		if answers["one"] != "7 kg" || answers["two"] != "Error: a person rejected it" || !strings.Contains(answers["three"], "not run") {
			t.Errorf("the model was told %q", answers)
		}
		d.model.Says("Yes.")
		d.say("is it noted?")
		d.expect("Yes.")
		if prompt := d.model.Calls()[2].Text(); !strings.Contains(prompt, "[addItem was rejected.]") {
			t.Errorf("the history does not say so: %s", prompt)
		}
	})
}

// TestManyLongResultsDoNotEndTheTurn holds what a turn writes down to its size.
func TestManyLongResultsDoNotEndTheTurn(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"words": strings.Repeat("plain text ", 7000), "quotes": strings.Repeat(`"`, 70_000), "separators": strings.Repeat("\u2028", 24_000),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				d := newDesk(t)
				actions.Add(d.actions, "read", "Reads", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) {
					return actions.Text("%s", text), nil
				})
				var reads []string
				for range 23 {
					reads = append(reads, do("read", `{}`))
				}
				d.model.Says(plan(append(reads, do("closeTicket", `{"id":7}`), say("Read."))...))
				approve, _ := buttons(t, d.ask(nil, "read all")) // which is written down too
				d.deliver(click(approve, nil))
				d.expect("Read.")
			})
		})
	}
}
