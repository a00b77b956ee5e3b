package bot_test

import (
	"context"
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
