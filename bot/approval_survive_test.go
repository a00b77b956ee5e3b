package bot_test

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/bot"
)

// TestAnApprovedCallThatWasCutOffNeedsNoSecondApproval: it is made again as what it is,
// the same call.
func TestAnApprovedCallThatWasCutOffNeedsNoSecondApproval(t *testing.T) {
	t.Parallel()
	b := setup(t)
	slow := addGate(b, "wipe", actions.NeedsApproval)
	first := b.addReplica()
	b.model.Says(plan(do("wipe", `{}`), say("Wiped.")))
	first.say("wipe it")
	approve, _ := buttons(t, b.connector.Next(t))
	b.post(first.url, b.activity(click(approve, nil)))
	<-slow.entered
	first.kill()
	b.addReplica()
	b.expect("Wiped.")
	b.connector.None(t)
	if got := slow.all(); len(got) != 2 || got[0].Key != got[1].Key || !got[1].Again {
		t.Errorf("attempts %+v", got)
	}
}

// TestAnApprovedCallThatHadBegunIsNotSaidNotToBeDone by a version in which it is another.
func TestAnApprovedCallThatHadBegunIsNotSaidNotToBeDone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	slow := addGate(b, "wipe", actions.NeedsApproval)
	first := b.addReplica()
	b.model.Says(plan(do("wipe", `{}`), say("Wiped.")))
	first.say("wipe it")
	approve, _ := buttons(t, b.connector.Next(t))
	b.post(first.url, b.activity(click(approve, nil)))
	<-slow.entered
	first.kill()
	b.actions = actions.New()
	actions.Add(b.actions, "wipe", "Wipes", func(context.Context, *actions.Turn, struct {
		What string `json:"what,omitempty" default:"everything"`
	},
	) (actions.Result, error) {
		t.Error("wiped everything")
		return actions.Done, nil
	}, actions.NeedsApproval)
	b.addReplica()
	b.expectFault("I cannot tell whether this was done: Wipe.")
	b.connector.None(t)
}

// TestACallThatHadBegunIsNotAskedAbout: by a policy that has changed since, or that fails.
func TestACallThatHadBegunIsNotAskedAbout(t *testing.T) {
	t.Parallel()
	for name, policy := range map[string]func() (actions.Approval, error){
		"it needs an approval now": func() (actions.Approval, error) { return actions.Approval{Required: true}, nil },
		"nobody can tell":          func() (actions.Approval, error) { return actions.Approval{}, errors.New("the policy is away") },
		"it is denied now":         func() (actions.Approval, error) { return actions.Approval{Denied: "not today"}, nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			slow := addGate(b, "wipe")
			first := b.addReplica()
			b.model.Says(plan(do("wipe", `{}`), say("Wiped.")))
			first.say("wipe it")
			<-slow.entered
			first.kill()
			b.addReplica(func(c *bot.Config) {
				c.Policy = func(context.Context, *actions.Turn, actions.Call) (actions.Approval, error) { return policy() }
			})
			b.expectFault("I cannot tell whether this was done: Wipe.")
			b.connector.None(t)
			if got := slow.all(); len(got) != 1 {
				t.Errorf("attempts %+v", got)
			}
		})
	}
}

// TestWhatWasApprovedWaitsForItsTurn, also when it would be over by then: another
// question makes no room at its cost.
func TestWhatWasApprovedWaitsForItsTurn(t *testing.T) {
	t.Parallel()
	b := setup(t)
	wiped := addCount(b, "wipe", actions.NeedsApproval)
	entered, open := make(chan struct{}), make(chan struct{})
	actions.Add(b.actions, "slow", "Waits", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) {
		close(entered)
		<-open
		return actions.Done, nil
	})
	r := b.addReplica()
	b.model.Says(plan(do("wipe", `{}`), say("Wiped.")), plan(do("slow", `{}`), do("wipe", `{}`), say("And again.")))
	r.say("wipe it")
	approve, _ := buttons(t, b.connector.Next(t))
	b.expire("/approvals/")
	r.say("slowly, and once more")
	<-entered
	b.post(r.url, b.activity(click(approve, nil)))
	close(open)
	buttons(t, b.connector.Next(t))
	b.expect("Wiped.")
	if n := wiped.Load(); n != 1 {
		t.Errorf("wiped %d times", n)
	}
}

var expires = regexp.MustCompile(`"expires":"[^"]*"`)

// expire makes the documents of conversations say that approvals are over for a while.
// Those whose keys have the given part stay.
func (b *bundle) expire(not string) {
	b.Helper()
	for _, key := range b.documents() {
		doc, err := b.redis.Get(key)
		if err == nil && !strings.Contains(key, not) {
			b.must(b.redis.Set(key, expires.ReplaceAllString(doc, `"expires":"2000-01-01T00:00:00Z"`)))
		}
	}
}
