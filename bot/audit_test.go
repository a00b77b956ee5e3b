package bot_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bot/audit"
)

func audited(c *bot.Config) { c.AuditKeep = time.Hour }

// audit reads the audit as an operator does.
func (b *bundle) audit() (all []audit.Entry) {
	b.Helper()
	b.must(audit.Read(b.Context(), b.bot.Store(), time.Time{}, func(e audit.Entry) error {
		all = append(all, e)
		return nil
	}))
	if chain, err := audit.Verify(b.Context(), b.bot.Store(), nil, time.Time{}); err != nil || chain != (audit.Chain{Entries: len(all), Written: len(all)}) {
		b.Errorf("the chain of %d entries is %+v, %v", len(all), chain, err)
	}
	return all
}

// outcomes says of each entry what, who and how it came out.
func outcomes(all []audit.Entry) (list []string) {
	for _, e := range all {
		list = append(list, fmt.Sprint(e.What, " ", e.Action, " ", e.Outcome, " ", e.User))
	}
	return list
}

func (b *bundle) expectAudit(want ...string) []audit.Entry {
	b.Helper()
	all := b.audit()
	if diff := cmp.Diff(want, outcomes(all)); diff != "" {
		b.Error(diff)
	}
	return all
}

// settled waits until no turn of Mia's conversation is at work: a message after it was answered.
func (b *bundle) settled() {
	b.Helper()
	b.tell(event{"text": "/reset"}, "I've cleared our conversation. Everything else that I keep for you is still here.")
}

func TestAuditOfAnApproval(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, audited, func(c *bot.Config) { c.Approvers = []string{"aad-otto"} })
		d.model.Says(plan(do("createList", `{"list":"l"}`), do("closeTicket", `{"id":7,"note":"<secret>"}`), say("Closed it.")))
		approve, _ := buttons(t, d.ask(inGroup, "<at>Planbot</at> close it"))
		d.expectAudit("approval closeTicket asked aad-mia")
		d.deliver(click(approve, event{"conversation": inGroup["conversation"], "from": event{"id": "29:otto", "name": "Otto", "aadObjectId": "aad-otto"}}))
		d.expect("Closed it.")
		d.settled()
		all := d.expectAudit("approval closeTicket asked aad-mia", "approval closeTicket approved aad-otto", "call closeTicket ok aad-mia")
		for _, e := range all {
			if len(e.Entities) != 64 || e.Entities != all[0].Entities || len(e.Turn) != 12 || e.Turn != all[0].Turn || !strings.HasPrefix(e.ID, e.Turn) ||
				e.Tenant != "t1" || e.Channel != "msteams" || e.Conversation != "19:g@thread.v2" || !strings.HasPrefix(e.Account, "29:") || time.Since(e.At) > time.Minute {
				t.Errorf("entry %+v", e)
			}
		}
		lines, err := d.redis.ZMembers("planbot/{0}/audit")
		d.must(err)
		for _, content := range []string{"secret", "close it", "Mia", "Otto", "Closed"} {
			if strings.Contains(strings.Join(lines, "\n"), content) {
				t.Errorf("the audit has %q: %s", content, lines)
			}
		}
	})
}

func TestAuditOfOtherOutcomes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, audited)
		actions.Add(d.actions, "find", "Finds", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) {
			return actions.Unchanged("there is nothing"), nil
		})
		actions.Add(d.actions, "break", "Breaks", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) { panic("boom") })
		d.model.Says(plan(do("find", `{}`)), plan(do("break", `{}`)), plan(say("Neither.")), closePlan)
		d.tell(event{"text": "go"}, "Neither.")
		_, reject := buttons(t, d.ask(nil, "close it"))
		d.deliver(click(reject, nil))
		d.expect("OK, I won't do this: Close ticket.")
		d.settled()
		d.expectAudit("call find unchanged aad-mia", "call break failed aad-mia", "approval closeTicket asked aad-mia", "approval closeTicket rejected aad-mia")
	})
}

func TestAuditOfAnApprovalThatNobodyDecides(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, func(c *bot.Config) { c.AuditKeep = 48 * time.Hour })
		d.model.Says(closePlan, closePlan)
		d.connector.Fails(0, http.StatusBadRequest)
		d.say("close it")
		d.expectFault("could not be sent")
		d.expectAudit("approval closeTicket asked aad-mia", "approval closeTicket failed aad-mia")
		d.ask(nil, "close it")
		d.pass(25 * time.Hour)
		d.until("that the approval expired", func() bool { return len(d.audit()) == 4 })
		if last := outcomes(d.audit())[3]; last != "approval closeTicket expired aad-mia" {
			t.Error(last)
		}
	})
}

// TestACrashLosesNoEntry: the first call is saved with its entry when the process dies in the next.
func TestACrashLosesNoEntry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, audited)
		addCount(b, "before")
		slow := addGate(b, "slow")
		b.model.Says(plan(do("before", `{}`), do("slow", `{}`), say("All done.")))
		first := b.addReplica(audited)
		first.say("go")
		<-slow.entered
		first.kill()
		b.addReplica(audited)
		b.expect("All done.")
		b.settled()
		all := b.expectAudit("call before ok aad-mia", "call slow ok aad-mia")
		if attempts := slow.all(); all[1].ID != attempts[1].Key {
			t.Errorf("entry %+v of %+v", all[1], attempts)
		}
	})
}

func TestAuditOfWhatNobodyKnows(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		hang := make(chan struct{})
		actions.Add(b.actions, "drink", "Hangs", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) {
			<-hang
			return actions.Done, nil
		})
		t.Cleanup(func() { close(hang) })
		actions.Add(b.actions, "wait", "Waits", func(ctx context.Context, _ *actions.Turn, _ struct{}) (actions.Result, error) {
			<-ctx.Done()
			return actions.Result{}, ctx.Err()
		})
		hasty := func(c *bot.Config) { c.TurnTimeout = time.Second }
		b.model.Says(plan(do("wait", `{}`), say("x")), plan(do("drink", `{}`), say("x")))
		r := b.addReplica(audited, hasty)
		r.say("wait")
		b.expectFault("I cannot tell whether this was done: Wait.")
		r.say("drink")
		b.expectFault("I could not stop it")
		b.deadLetters(1)
		b.expectAudit("call wait unknown aad-mia", "call drink unknown aad-mia")
	})
}

// TestAuditOfACallThatKillsItsProcesses: it may have been done each time.
func TestAuditOfACallThatKillsItsProcesses(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		entered, open := make(chan struct{}, 8), make(chan struct{})
		t.Cleanup(func() { close(open) })
		actions.Add(b.actions, "poison", "Kills", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) {
			entered <- struct{}{}
			<-open
			return actions.Done, nil
		})
		b.model.Says(plan(do("poison", `{}`), say("Fine.")))
		r := b.addReplica(audited)
		r.say("drink")
		for range 3 {
			<-entered
			r.kill()
			r = b.addReplica(audited)
		}
		b.expectFault("Somebody has to look at it")
		b.deadLetters(1)
		b.expectAudit("call poison unknown aad-mia")
	})
}

// TestForgettingKeepsTheAudit, and says so.
func TestForgettingKeepsTheAudit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, audited)
		addCount(b, "act")
		b.model.Says(plan(do("act", `{}`), say("Done it.")))
		b.tell(event{"text": "go"}, "Done it.")
		b.tell(event{"text": "/forget yes"}, "I've deleted everything I kept about you, except the audit of approvals and actions.")
		b.expectAudit("call act ok aad-mia")
	})
}

func TestNoAuditUnlessWanted(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		addCount(b, "act")
		b.model.Says(plan(do("act", `{}`), say("Done it.")))
		b.tell(event{"text": "go"}, "Done it.")
		for _, key := range b.redis.Keys() {
			if strings.Contains(key, "audit") || strings.Contains(key, "quota") {
				t.Errorf("Redis has %s", key)
			}
		}
	})
}

// TestAnAuditThatCannotBeWrittenStopsNoReply when Redis refuses it.
func TestAnAuditThatCannotBeWrittenStopsNoReply(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, audited)
		b.must(b.redis.Set("planbot/{0}/audit", "no log"))
		addCount(b, "act")
		b.model.Says(plan(do("act", `{}`), say("Done it.")), plan(say("Still here.")))
		b.tell(event{"text": "go"}, "Done it.")
		b.tell(event{"text": "go"}, "Still here.")
		if log := b.log.String(); !strings.Contains(log, "could not write to the audit") {
			t.Errorf("log: %s", log)
		}
	})
}
