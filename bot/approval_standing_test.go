package bot_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/bot"
)

// bound is a policy whose bind, and denial, a test can change.
type bound struct {
	bind, denied atomic.Value
	again        atomic.Int64 // calls that it was asked about
}

func newBound(bind string) *bound {
	b := &bound{}
	b.bind.Store(bind)
	b.denied.Store("")
	return b
}

func (b *bound) policy(_ context.Context, _ *actions.Turn, c actions.Call) (actions.Approval, error) {
	b.again.Add(1)
	return actions.Approval{Required: c.Action.Approval, Bind: b.bind.Load().(string), Denied: b.denied.Load().(string), Standing: true}, nil
}

func (b *bound) config(c *bot.Config) { c.Policy = b.policy }

// choices are the data of the card's three buttons.
func choices(t *testing.T, card sent) (approve, always, reject map[string]any) {
	t.Helper()
	list := asCard(t, card)["actions"].([]any)
	if len(list) != 3 {
		t.Fatalf("%d buttons", len(list))
	}
	var data [3]map[string]any
	for i := range list {
		data[i] = list[i].(map[string]any)["data"].(map[string]any)
	}
	return data[0], data[1], data[2]
}

var close7 = plan(do("closeTicket", `{"id":7}`), say("Closed 7."))

func TestApprovedForGoodIsNotAskedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		policy := newBound("v1")
		d := newDesk(t, policy.config)
		d.model.Says(close7)
		_, always, _ := choices(t, d.ask(nil, "close 7"))
		if got := d.deliver(click(always, nil)); !strings.Contains(got.body, "Approved for good by Mia") {
			t.Errorf("answer %s", got.body)
		}
		d.expect("Closed 7.")

		d.model.Says(close7)
		d.addReplica(policy.config).say("again") // it is in the state of the conversation, not in the process
		d.expect("Closed 7.")

		for what, ask := range map[string]func() sent{
			"other arguments": func() sent {
				d.model.Says(plan(do("closeTicket", `{"id":8}`), say("Closed 8.")))
				return d.ask(nil, "close 8")
			},
			"another conversation": func() sent {
				d.model.Says(close7)
				return d.ask(event{"conversation": event{"id": "a:other", "conversationType": "personal", "tenantId": "t1"}}, "close 7")
			},
			"another digest": func() sent {
				policy.bind.Store("v2")
				defer policy.bind.Store("v1")
				d.model.Says(close7)
				return d.ask(nil, "close 7")
			},
		} {
			if len(*d.closed) != 2 {
				t.Fatalf("closed %v", *d.closed)
			}
			t.Log(what)
			choices(t, ask())
		}
		if n := len(*d.closed); n != 2 {
			t.Errorf("closed %d", n)
		}
		d.say("/reset")
		d.connector.Next(t)
		d.model.Says(close7)
		choices(t, d.ask(nil, "close 7 once more"))
	})
}

func TestApprovedForGoodByWordsIsForWhoAsked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		policy := newBound("")
		d := newDesk(t, policy.config, func(c *bot.Config) { c.Approvers = []string{"aad-otto"} })
		group := func(over event) event {
			over["channelId"] = "console"
			over["conversation"] = event{"id": "g", "conversationType": "groupChat", "isGroup": true, "tenantId": "t1"}
			over["entities"] = []event{{"type": "mention", "text": "@Bot", "mentioned": event{"id": "28:bot"}}}
			return over
		}
		otto := event{"id": "29:otto", "name": "Otto", "aadObjectId": "aad-otto"}
		d.model.Says(close7)
		question := d.ask(group(event{}), "@Bot close 7").Text()
		id := question[strings.Index(question, "/approve ")+len("/approve "):][:12]
		if want := "Say **/approve " + id + "**, **/approve " + id + " always** if I should never ask about exactly this again, or **/reject " + id + "**."; !strings.HasSuffix(question, want) {
			t.Errorf("question %q, want %q at the end", question, want)
		}
		d.deliver(group(event{"text": "@Bot /approve " + id + " always", "from": otto}))
		d.expect("Closed 7.")
		d.model.Says(close7)
		d.deliver(group(event{"text": "@Bot close 7"}))
		d.expect("Closed 7.")
		d.model.Says(close7)
		eve := event{"id": "29:eve", "name": "Eve"}
		if got := d.ask(group(event{"from": eve}), "@Bot close 7").Text(); !strings.Contains(got, "May I do this?") {
			t.Errorf("what Mia may, Eve may too: %q", got)
		}
	})
}

func TestWhatMayNotBeApprovedForGoodIsApprovedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.model.Says(close7, close7)
		approve, _ := buttons(t, d.ask(nil, "close 7"))
		approve["verb"] = "planbot/approve-always"
		if got := d.deliver(click(approve, nil)); !strings.Contains(got.body, "Approved by Mia") {
			t.Errorf("answer %s", got.body)
		}
		d.expect("Closed 7.")
		buttons(t, d.ask(nil, "close 7"))
	})
}

func TestAnApprovalIsForWhatItIsBoundTo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		policy := newBound("v1")
		d := newDesk(t, policy.config)
		d.model.Says(close7)
		approve, _, _ := choices(t, d.ask(nil, "close 7"))
		policy.bind.Store("v2")
		d.deliver(click(approve, nil))
		d.expectFault("things have changed since I asked")
		if len(*d.closed) != 0 {
			t.Error("ran")
		}
	})
}

func TestWhatThePolicyDeniesIsToldTheModel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		policy := newBound("")
		d := newDesk(t, policy.config)
		policy.denied.Store("Only translations now.")
		d.model.Says(close7, plan(say("I may not.")))
		d.say("close 7")
		d.expect("I may not.")
		if prompt := d.model.Calls()[1].Text(); !strings.Contains(prompt, "closeTicket failed: Only translations now.") {
			t.Errorf("prompt %s", prompt)
		}

		policy.denied.Store("")
		d.model.Says(close7)
		approve, _, _ := choices(t, d.ask(nil, "close 7"))
		policy.denied.Store("Not any more.") // between the question and the yes
		d.model.Says(plan(say("Too late.")))
		d.deliver(click(approve, nil))
		d.expect("Too late.")
		calls := d.model.Calls()
		if prompt := calls[len(calls)-1].Text(); !strings.Contains(prompt, "closeTicket failed: Not any more.") {
			t.Errorf("prompt %s", prompt)
		}
		if len(*d.closed) != 0 {
			t.Error("ran")
		}
	})
}

// TestAReasonIsNoMarkup: a policy may put names into it that strangers gave.
func TestAReasonIsNoMarkup(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, func(c *bot.Config) {
			c.Policy = func(context.Context, *actions.Turn, actions.Call) (actions.Approval, error) {
				return actions.Approval{Required: true, Reason: "Runs ![x](http://evil/`a`) of a skill."}, nil
			}
		})
		d.model.Says(close7)
		question := d.ask(event{"channelId": "console"}, "close 7").Text()
		if !strings.Contains(question, "\n\n`Runs ![x](http://evil/\\u0060a\\u0060) of a skill.`\n\n") {
			t.Errorf("question %q", question)
		}
	})
}
