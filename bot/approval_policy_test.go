package bot_test

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bottest"
)

// TestAPolicyHangs: it has eight seconds, whether it minds its context or not. Nothing runs, whoever waits for it reads so,
// the log has a line, and the next click counts.
func TestAPolicyHangs(t *testing.T) {
	t.Parallel()
	for when, at := range map[string]int32{"at first": 1, "at the click": 2, "before the run": 3} {
		for how, forever := range map[string]bool{"until its time is over": false, "for ever": true} {
			t.Run(when+", "+how, func(t *testing.T) {
				t.Parallel()
				var calls atomic.Int32
				var end chan struct{}
				config, ordered := laptops(actions.Approval{})
				config.Change = func(c *bot.Config) {
					c.Policy = func(ctx context.Context, _ *actions.Turn, _ actions.Call) (actions.Approval, error) {
						if calls.Add(1) == at {
							ends := ctx.Done()
							if forever {
								ends = end
							}
							<-ends
							return actions.Approval{}, ctx.Err()
						}
						return actions.Approval{Required: true, Approvers: []string{"aad-Ben"}, Within: 48 * time.Hour}, nil
					}
				}
				var log strings.Builder
				config.Log = &log
				bottest.Test(t, config, func(t *testing.T, kit *bottest.Kit) {
					end = make(chan struct{})
					defer close(end)
					mia, ben := kit.Personal("Mia"), kit.Personal("Ben")
					kit.Model.Says(orderTwo)
					mia.Say("order two laptops")
					began := time.Now()
					if at > 1 {
						agree(t, mia, "Ben")
						ben.ExpectCard("Approve").Press("Approve")
					}
					switch at {
					case 2:
						ben.Expect("I can't find out who may approve this, so nothing was done. Please try again later.")
						if *ordered != 0 {
							t.Fatal("it ran")
						}
						time.Sleep(time.Minute)
						expectShown(t, ben.Press("Approve"), "Approved by Ben")
						mia.Expect("They are on their way.")
					default:
						mia.ExpectMatch("^Sorry, ")
						expectDone(t, kit, ordered, 0)
					}
					kit.Settle()
					if took := time.Since(began); took > 90*time.Second {
						t.Errorf("it took %s", took)
					}
					if !strings.Contains(log.String(), "no answer within 8s") {
						t.Errorf("the log says\n%s", log.String())
					}
				})
			})
		}
	}
}

// TestAPolicyNamesOthers while an approval waits: they are asked at the next click, whatever that click does.
func TestAPolicyNamesOthers(t *testing.T) {
	t.Parallel()
	const (
		ben, carla = "19:ben@unq.gbl.spaces", "19:carla@unq.gbl.spaces"
		no, two    = "You can't decide this. Nothing was done.", "It needs 2 approvals."
		mayI       = "May I ask Carla to approve this?"
	)
	for name, c := range map[string]struct {
		was, is []string
		quorum  int
		click   string // what Ben reads
		says    string // what Mia reads then
	}{
		"instead, in private": {[]string{"aad-Ben"}, []string{"aad-Carla"}, 1, no, mayI},
		"too, in private":     {[]string{"aad-Ben"}, []string{"aad-Ben", "aad-Carla"}, 2, two, mayI},
		"instead":             {[]string{ben}, []string{carla}, 1, no, "I've asked an approver."},
		"too":                 {[]string{ben}, []string{ben, carla}, 2, two, "Ben approved this. It needs 2 approvals. I've asked an approver."},
		"the click is enough": {[]string{ben}, []string{ben, carla}, 1, "Approved by Ben", "They are on their way."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			approval := actions.Approval{Approvers: c.was}
			config, ordered := laptopsBy(&approval)
			bottest.Test(t, config, func(t *testing.T, kit *bottest.Kit) {
				asks, ben, carla := kit.Personal("Mia"), kit.Personal("Ben"), kit.Personal("Carla")
				private := strings.HasPrefix(c.was[0], "aad")
				if private {
					orderFor(t, kit, asks, "Ben")
				} else {
					asks, ben, carla = kit.Group("team", "Mia"), greeted(kit, "ben", "Ben"), greeted(kit, "carla", "Carla")
					kit.Model.Says(orderTwo)
					asks.Mention("order two laptops")
					asks.ExpectCard("Take it back")
				}
				card := ben.ExpectCard("Approve")
				approval.Approvers, approval.Quorum = c.is, c.quorum
				expectShown(t, card.Press("Approve"), c.click)
				if strings.HasPrefix(c.click, "You can't") {
					ben.Expect(c.click)
				}
				if private {
					asks.ExpectMatch(regexp.QuoteMeta(c.says))
					carla.ExpectNothing()
					asks.Press("Send")
				} else {
					asks.Expect(c.says)
				}
				if c.says == "They are on their way." {
					carla.ExpectNothing()
				} else {
					carla.ExpectCard("Approve").Press("Approve")
					asks.Expect("They are on their way.")
				}
				kit.Settle()
				expectDone(t, kit, ordered, 2)
			})
		})
	}
}

// greeted is a group chat in which the bot has spoken, so it can be asked there.
func greeted(kit *bottest.Kit, name string, people ...string) *bottest.Chat {
	chat := kit.Group(name, people...)
	kit.Model.Says(plan(say("Hello.")))
	chat.Mention("hello")
	chat.Expect("Hello.")
	return chat
}

// changing has the bot ask the policy that is there now. It changes while turns run.
func changing(policy *atomic.Pointer[actions.Approval]) func(*bot.Config) {
	return func(c *bot.Config) {
		c.Policy = func(context.Context, *actions.Turn, actions.Call) (actions.Approval, error) {
			now := policy.Load()
			if now == nil {
				return actions.Approval{}, errors.New("the policy is away")
			}
			a := *now
			a.Required, a.Within = true, 60*time.Hour
			return a, nil
		}
	}
}

// TestAPolicyNamesOthersInTime: when it is time to remind people or to ask further ones, those are whom the policy names
// then.
func TestAPolicyNamesOthersInTime(t *testing.T) {
	t.Parallel()
	chats := func(names string) (ids []string) {
		for _, name := range strings.Fields(names) {
			ids = append(ids, "19:"+name+"@unq.gbl.spaces")
		}
		return ids
	}
	first := func(names string) actions.Approval { return actions.Approval{Approvers: chats(names)} }
	then := func(p actions.Approval, after time.Duration, names string) actions.Approval {
		p.Escalate = []actions.Escalation{{After: after, To: chats(names)}}
		return p
	}
	soon, late := 20*time.Hour, 50*time.Hour
	for name, c := range map[string]struct {
		was, is       actions.Approval
		fails         bool
		asked, silent string // of Ben, Carla and Dora
	}{
		"instead of who was asked": {first("ben"), first("carla"), false, "Carla", "Ben Dora"},
		"besides who was asked":    {first("ben"), first("ben carla"), false, "Carla", "Dora"},
		"others later":             {then(first("ben"), soon, "carla"), then(first("ben"), soon, "dora"), false, "Dora", "Carla"},
		"nobody later":             {then(first("ben"), soon, "carla"), first("ben"), false, "", "Carla Dora"},
		"also at once":             {then(first("ben"), soon, "carla"), then(first("ben dora"), soon, "carla"), false, "Carla Dora", ""},
		"much later":               {then(first("ben"), soon, "carla"), then(first("ben"), late, "dora"), false, "", "Carla Dora"},
		"nobody knows":             {then(first("ben"), soon, "carla"), actions.Approval{}, true, "Carla", "Dora"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var policy atomic.Pointer[actions.Approval] // nil: it fails
			config, ordered := laptops(actions.Approval{})
			config.Change = changing(&policy)
			if c.was.Escalate == nil {
				config.Change = func(b *bot.Config) {
					changing(&policy)(b)
					b.ApprovalReminder = "09:00"
				}
			}
			policy.Store(&c.was)
			bottest.Test(t, config, func(t *testing.T, kit *bottest.Kit) {
				team := kit.Group("team", "Mia")
				chats := map[string]*bottest.Chat{}
				for _, who := range []string{"Ben", "Carla", "Dora"} {
					chats[who] = greeted(kit, strings.ToLower(who), who)
				}
				kit.Model.Says(orderTwo)
				team.Mention("order two laptops")
				team.ExpectCard("Take it back")
				chats["Ben"].ExpectCard("Approve")
				policy.Store(&c.is)
				if c.fails {
					policy.Store(nil)
				}
				time.Sleep(25 * time.Hour)
				kit.Settle()
				if c.fails {
					policy.Store(&c.was)
				}
				last := "Ben"
				for _, last = range strings.Fields(c.asked) {
					chats[last].ExpectCard("Approve")
				}
				for _, who := range strings.Fields(c.silent) {
					chats[who].ExpectNothing()
				}
				chats[last].Approve()
				kit.Settle()
				expectDone(t, kit, ordered, 2)
				team.Messages()
				for _, chat := range chats {
					chat.Messages()
				}
			})
		})
	}
}

// TestAPolicyNamesOthersInTimeInPrivate: who asked agrees first that others read it, but knows who is asked later.
func TestAPolicyNamesOthersInTimeInPrivate(t *testing.T) {
	t.Parallel()
	approval := actions.Approval{Approvers: []string{"aad-Ben"}, Escalate: []actions.Escalation{
		{After: time.Hour, To: []string{"aad-Carla"}}, {After: 2 * time.Hour, To: []string{"aad-Emil"}},
	}}
	var policy atomic.Pointer[actions.Approval]
	policy.Store(&approval)
	config, ordered := laptops(actions.Approval{})
	config.Change = changing(&policy)
	bottest.Test(t, config, func(t *testing.T, kit *bottest.Kit) {
		mia, carla, dora := kit.Personal("Mia"), kit.Personal("Carla"), kit.Personal("Dora")
		kit.Model.Says(orderTwo)
		mia.Say("order two laptops")
		mia.ExpectCard("and later Carla, Emil").Press("Send")
		kit.Personal("Ben").ExpectCard("Approve")
		policy.Store(&actions.Approval{Approvers: approval.Approvers, Escalate: []actions.Escalation{
			approval.Escalate[0], {After: 2 * time.Hour, To: []string{"aad-Dora"}},
		}})
		time.Sleep(90 * time.Minute)
		mia.Expect("Nobody has decided yet, so I've also asked Carla.")
		carla.ExpectCard("Approve")
		dora.ExpectNothing()
		time.Sleep(time.Hour)
		mia.ExpectMatch("May I ask Dora to approve this")
		dora.ExpectNothing()
		mia.Press("Send")
		dora.ExpectCard("Approve").Press("Approve")
		mia.Expect("They are on their way.")
		kit.Settle()
		expectDone(t, kit, ordered, 2)
	})
}

// TestForGoodByWhomThePolicyNames today: nobody approved it for good who may not do so any more, and as many as it takes.
func TestForGoodByWhomThePolicyNames(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		today  []string
		quorum int
		stands bool
	}{
		"the same":        {[]string{"aad-Ben"}, 1, true},
		"others, too":     {[]string{"aad-Carla", "aad-Ben"}, 1, true},
		"others":          {[]string{"aad-Carla"}, 1, false},
		"more of them":    {[]string{"aad-Carla", "aad-Ben"}, 2, false},
		"nobody, so Mia ": {nil, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			approval := actions.Approval{Approvers: []string{"aad-Ben"}, Standing: true}
			config, ordered := laptopsBy(&approval)
			bottest.Test(t, config, func(t *testing.T, kit *bottest.Kit) {
				mia, ben := kit.Personal("Mia"), kit.Personal("Ben")
				orderFor(t, kit, mia, "Ben")
				ben.ExpectCard("Approve").Press("Always approve exactly this")
				mia.Expect("They are on their way.")
				approval.Approvers, approval.Quorum = c.today, c.quorum
				kit.Model.Says(orderTwo)
				mia.Say("order two laptops")
				if c.stands {
					mia.Expect("They are on their way.")
					expectOrdered(t, ordered, 4)
				} else {
					mia.ExpectCard("Order")
					expectOrdered(t, ordered, 2)
				}
			})
		})
	}
}

// TestChangedBack to what was asked: who asked reads what was changed.
func TestChangedBack(t *testing.T) {
	t.Parallel()
	config, ordered := laptops(actions.Approval{Approvers: []string{"aad-Ben", "aad-Carla"}, Change: []string{"count"}})
	bottest.Test(t, config, func(t *testing.T, kit *bottest.Kit) {
		mia, ben, carla := kit.Personal("Mia"), kit.Personal("Ben"), kit.Personal("Carla")
		orderFor(t, kit, mia, "Ben, Carla", plan(say("Two are on their way.")))
		card := carla.ExpectCard("Approve")
		ben.ExpectCard("Approve").Press("Approve", "change:count", "3")
		mia.ExpectMatch("^Ben changed this: `Count: 2 → 3`")
		carla.Expect("What you are asked to approve was changed. Please look at it again.")
		carla.Say("/approve " + regexp.MustCompile(`"approval":"(\w+)"`).FindStringSubmatch(card.Card())[1] + "-1 count=2")
		mia.ExpectMatch("^Carla changed this: `Count: 3 → 2`")
		ben.Expect("What you are asked to approve was changed. Please look at it again.")
		ben.Press("Approve")
		mia.Expect("Two are on their way.")
		kit.Settle()
		expectDone(t, kit, ordered, 2)
	})
}
