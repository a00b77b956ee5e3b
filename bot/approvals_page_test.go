package bot_test

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/bot"
)

// What docs/approvals.md shows; internal/docs checks that it is the same.

// budget lets a person approve small orders, and the treasurers the others.
func budget(treasurers ...string) actions.Policy {
	return func(ctx context.Context, turn *actions.Turn, call actions.Call) (actions.Approval, error) {
		if call.Action.Name != "order" {
			return actions.DefaultPolicy(ctx, turn, call)
		}
		cost, err := strconv.ParseFloat(fmt.Sprint(call.Entities["cost"]), 64)
		switch {
		case err != nil:
			return actions.Approval{}, err
		case cost > 10_000:
			return actions.Approval{Denied: "Orders above 10,000 go through the purchasing department."}, nil
		case cost > 500:
			people := append([]string{}, treasurers...) // never nil: without treasurers nobody can approve it
			return actions.Approval{Required: true, Approvers: people, Reason: "above 500", Within: 4 * time.Hour}, nil
		}
		return actions.Approval{Required: true, Standing: true}, nil
	}
}

type supplies struct {
	Cost float64 `json:"cost"`
}

func order(_ context.Context, _ *actions.Turn, in supplies) (actions.Result, error) {
	return actions.Text("ordered for %v", in.Cost), nil
}

func registerOrders(registry *actions.Registry) {
	actions.Add(registry, "order", "Orders supplies", order, actions.NeedsApproval)
}

func TestWhatThePageShowsOfApprovals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, func(cfg *bot.Config) { cfg.Policy = budget("aad-otto") })
		registerOrders(b.actions)
		buy := func(cost string, then ...string) sent {
			b.model.Says(append([]string{plan(do("order", `{"cost":`+cost+`}`), say("Ordered."))}, then...)...)
			return desk{bundle: b}.ask(inGroup, "<at>Planbot</at> buy it")
		}
		press := func(button map[string]any, over event) string {
			whose := maps.Clone(over)
			if whose == nil {
				whose = event{}
			}
			whose["conversation"] = inGroup["conversation"]
			return b.deliver(click(button, whose)).body
		}
		otto := event{"from": event{"id": "29:otto", "name": "Otto", "aadObjectId": "aad-otto"}}

		approve, _ := buttons(t, buy("501"))
		if got := press(approve, nil); !strings.Contains(got, "You can't decide this") {
			t.Errorf("the person who asked decides: %s", got)
		}
		if got := press(approve, otto); !strings.Contains(got, "Approved by Otto") {
			t.Errorf("the treasurer: %s", got)
		}
		b.expect("Ordered.")

		if card := asCard(t, buy("20")); len(card["actions"].([]any)) != 3 {
			t.Errorf("no standing approval in %v", card)
		}

		if got := buy("10001", plan(say("Ask purchasing."))).Text(); got != "Ask purchasing." {
			t.Errorf("denied, the bot says %q", got)
		}
		if calls := b.model.Calls(); !strings.Contains(calls[len(calls)-1].Text(), "go through the purchasing department") {
			t.Error("the model does not learn why")
		}
	})
}
