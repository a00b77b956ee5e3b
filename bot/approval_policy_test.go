package bot_test

import (
	"context"
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
	const ben, carla = "19:ben@unq.gbl.spaces", "19:carla@unq.gbl.spaces"
	for name, c := range map[string]struct {
		was, is []string
		quorum  int
		click   string // what Ben reads
		says    string // what Mia reads then
	}{
		"instead, in private": {[]string{"aad-Ben"}, []string{"aad-Carla"}, 1, "You can't decide this. Nothing was done.", "May I ask Carla to approve this?"},
		"too, in private":     {[]string{"aad-Ben"}, []string{"aad-Ben", "aad-Carla"}, 2, "It needs 2 approvals.", "May I ask Carla to approve this?"},
		"instead":             {[]string{ben}, []string{carla}, 1, "You can't decide this. Nothing was done.", "I've asked an approver."},
		"too":                 {[]string{ben}, []string{ben, carla}, 2, "It needs 2 approvals.", "Ben approved this. It needs 2 approvals. I've asked an approver."},
		"the click is enough": {[]string{ben}, []string{ben, carla}, 1, "Approved by Ben", "They are on their way."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config, ordered := laptops(actions.Approval{})
			approval := actions.Approval{Required: true, Approvers: c.was}
			config.Change = func(b *bot.Config) {
				b.Policy = func(context.Context, *actions.Turn, actions.Call) (actions.Approval, error) { return approval, nil }
			}
			bottest.Test(t, config, func(t *testing.T, kit *bottest.Kit) {
				asks, ben, carla := kit.Personal("Mia"), kit.Personal("Ben"), kit.Personal("Carla")
				private := strings.HasPrefix(c.was[0], "aad")
				if private {
					orderFor(t, kit, asks, "Ben")
				} else {
					kit.Model.Says(plan(say("Hello.")), plan(say("Hello.")), orderTwo)
					asks, ben, carla = kit.Group("team", "Mia"), kit.Group("ben", "Ben"), kit.Group("carla", "Carla")
					for _, chat := range []*bottest.Chat{ben, carla} {
						chat.Mention("hello")
						chat.Expect("Hello.")
					}
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
