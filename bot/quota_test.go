package bot_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bot/quota"
	"github.com/planbot-go/planbot/state"
)

const (
	tooMany    = "You've sent a lot of messages. Please wait a minute."
	usedUp     = "You've used up today's budget. Please come back tomorrow."
	allTooMany = "Your organization has sent a lot of messages. Please wait a minute."
	allUsedUp  = "Your organization has used up today's budget. Please come back tomorrow."
)

func limited(q quota.Limits) func(*bot.Config) {
	return func(c *bot.Config) { c.Quota = q }
}

// otto is another person of the same tenant.
func otto(text string) event {
	return event{
		"text": text, "from": event{"id": "29:otto", "name": "Otto", "aadObjectId": "aad-otto"},
		"conversation": event{"id": "a:otto", "conversationType": "personal", "tenantId": "t1"},
	}
}

// tell delivers an activity and expects a reply.
func (b *bundle) tell(over event, want string) {
	b.Helper()
	if got := b.deliver(over); got.status != http.StatusOK {
		b.Fatalf("status %d %s", got.status, got.body)
	}
	b.expect(want)
}

// TestTurnsOfAPersonAreLimited over all replicas; what asks no model is free.
func TestTurnsOfAPersonAreLimited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		quota := limited(quota.Limits{UserTurnsPerMinute: 2})
		b := setup(t, quota)
		other := b.addReplica(quota)
		b.model.Says(plan(say("One.")), plan(say("Two.")), plan(say("Otto's.")), plan(say("Three.")))
		b.tell(event{"text": "1"}, "One.")
		for range 3 {
			b.tell(event{"text": "/reset"}, "I've cleared our conversation. Everything else that I keep for you is still here.")
		}
		other.say("2")
		b.expect("Two.")
		b.tell(event{"text": "3"}, tooMany)
		// In another conversation she is the same person, under whatever account.
		group := event{
			"text": "<at>Bot</at> 3", "from": event{"id": "29:other", "aadObjectId": "aad-mia"},
			"conversation": event{"id": "19:g", "conversationType": "groupChat", "isGroup": true, "tenantId": "t1"},
			"entities":     []event{{"type": "mention", "text": "<at>Bot</at>", "mentioned": event{"id": "28:bot"}}},
		}
		b.tell(group, tooMany)
		b.tell(otto("hi"), "Otto's.")
		if n := len(b.model.Calls()); n != 3 {
			t.Errorf("the model was asked %d times", n)
		}
		b.redis.FastForward(time.Minute)
		b.tell(event{"text": "3"}, "Three.")
		if prompt := b.model.Calls()[3].Text(); strings.Contains(prompt, tooMany) {
			t.Errorf("the model reads of the limit: %s", prompt)
		}
	})
}

// TestTokensOfAPersonAreLimited: those of failed turns count, too.
func TestTokensOfAPersonAreLimited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, limited(quota.Limits{UserTokensPerDay: 60}))
		b.model.Says(plan(say("One.")), "{", "{", "{", plan(say("Two.")))
		b.tell(event{"text": "1"}, "One.") // 15 tokens
		b.say("nonsense")                  // 45 tokens
		b.expectFault("I could not make a plan")
		b.tell(event{"text": "2"}, usedUp)
		b.redis.FastForward(23 * time.Hour)
		b.tell(event{"text": "2"}, usedUp)
		b.redis.FastForward(time.Hour)
		b.tell(event{"text": "2"}, "Two.")
	})
}

// TestTokensOfATurnThatWaitsCountOnce: what it used before the approval counts when it waits.
func TestTokensOfATurnThatWaitsCountOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, limited(quota.Limits{UserTokensPerDay: 1000}))
		d.model.Says(closePlan)
		used := state.UserKey("msteams", "28:bot", "aad-mia").Under("quota", "tokens").String()
		approve, _ := buttons(t, d.ask(nil, "close it"))
		if got, _ := d.redis.Get(used); got != "15" {
			t.Errorf("%s tokens before the approval", got)
		}
		d.deliver(click(approve, nil))
		d.expect("Closed it.")
		d.tell(event{"text": "/reset"}, "I've cleared our conversation. Everything else that I keep for you is still here.") // comes after it
		if got, _ := d.redis.Get(used); got != "15" {
			t.Errorf("%s tokens after the approval", got)
		}
	})
}

// TestTenantsAreLimited: on channels that prove nothing, all people share one quota.
func TestTenantsAreLimited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, vouching, limited(quota.Limits{TenantTurnsPerMinute: 2, TenantTokensPerDay: 30}))
		b.model.Says(plan(say("Mia's.")), plan(say("Otto's.")), plan(say("Another tenant's.")), plan(say("One.")), plan(say("Two.")))
		b.tell(event{"text": "1"}, "Mia's.")
		b.tell(otto("2"), "Otto's.")
		b.tell(event{"text": "3"}, allTooMany)
		b.redis.FastForward(time.Minute)
		b.tell(otto("4"), allUsedUp)
		tenant := event{"tenant": event{"id": "t2"}}
		b.tell(event{"text": "5", "conversation": event{"id": "a:eve", "conversationType": "personal", "tenantId": "t2"}, "channelData": tenant}, "Another tenant's.")
		for i, want := range []string{"One.", "Two.", allTooMany} {
			id := string(rune('a' + i))
			b.tell(event{
				"channelId": "directline", "text": "6", "channelData": event{"tenant": event{"id": "t" + id}},
				"from":         event{"id": id, "aadObjectId": id},
				"conversation": event{"id": id, "tenantId": "t" + id},
			}, want)
		}
	})
}

// TestAnAccountIsAPersonWhereNobodyProvesPeople, whatever aadObjectId it writes.
func TestAnAccountIsAPersonWhereNobodyProvesPeople(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, vouching, limited(quota.Limits{UserTurnsPerMinute: 1}))
		b.model.Says(plan(say("Webchat's.")), plan(say("Hers.")))
		b.tell(event{"channelId": "webchat", "text": "1"}, "Webchat's.")
		b.tell(event{"channelId": "webchat", "text": "2", "from": event{"id": "29:mia", "aadObjectId": "aad-eve"}}, tooMany)
		b.tell(event{"text": "3"}, "Hers.")
	})
}

func TestATurnThatCannotBeCountedGoesOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, limited(quota.Limits{UserTurnsPerMinute: 1, UserTokensPerDay: 1}))
		mia := state.UserKey("msteams", "28:bot", "aad-mia")
		b.redis.HSet(mia.Under("quota", "turns").String(), "no", "number")
		b.redis.HSet(mia.Under("quota", "tokens").String(), "no", "number")
		b.model.Says(plan(say("One.")), plan(say("Two.")))
		b.tell(event{"text": "1"}, "One.")
		b.tell(event{"text": "2"}, "Two.")
		if log := b.log.String(); !strings.Contains(log, "quotas not counted") {
			t.Errorf("log: %s", log)
		}
	})
}

// TestATurnThatIsTakenOverCountsOnce, although its handler runs again.
func TestATurnThatIsTakenOverCountsOnce(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		quota := limited(quota.Limits{UserTurnsPerMinute: 1})
		first := b.addReplica(quota)
		asked := b.model.Waits()
		first.say("go")
		<-asked
		first.kill()
		b.model.Says(plan(say("Here.")))
		second := b.addReplica(quota)
		b.expect("Here.")
		second.say("again")
		b.expect(tooMany)
	})
}

func TestNegativeQuotasAreRefused(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		_, err := bot.New(bot.Config{
			Actions: b.actions, Planner: bot.PlannerFunc(nil), AuditKeep: -1,
			Quota: quota.Limits{UserTurnsPerMinute: -1, UserTokensPerDay: -1, TenantTurnsPerMinute: -1, TenantTokensPerDay: -1},
		})
		for _, want := range []string{"UserTurnsPerMinute", "UserTokensPerDay", "TenantTurnsPerMinute", "TenantTokensPerDay", "AuditKeep"} {
			if err == nil || !strings.Contains(err.Error(), want+" is negative") {
				t.Errorf("%v lacks %s", err, want)
			}
		}
	})
}
