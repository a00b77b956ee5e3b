package bot_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bot/metrics"
	"github.com/planbot-go/planbot/bottest"
)

func TestMetrics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		b := setup(t, func(c *bot.Config) { c.Metrics = metrics.To(registry) })
		actions.Add(b.actions, "bad", "Fails", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) {
			return actions.Fail("no"), nil
		})
		b.model.Says(
			plan(do("fly", `{}`)), "```json\n"+plan(do("bad", `{}`), say("Done."))+"\n```", "It failed.",
			`{"type":"plan","commands":[`, plan(do("fly", `{}`)), plan(do("fly", `{}`)),
		)
		b.say("go")
		b.expect("It failed.")
		b.say("fly")
		b.expectFault("could not make a plan")
		b.deliver(event{"from": event{"id": "28:bot"}, "text": "I am a bot"})
		b.must(b.bot.Drain(t.Context())) // a turn is counted after it was answered
		got := b.gather(registry)
		delete(got, "planbot_queue_depth") // as of the last time that somebody counted
		want := map[string]float64{
			"planbot_turns_total ok": 1, "planbot_turns_total failed": 1, "planbot_turns_total ignored": 1, "planbot_turn_seconds": 2,
			"planbot_plans_total plan": 1, "planbot_plans_total prose": 1, "planbot_plan_repairs_total fence": 1,
			"planbot_plan_refusals_total unknown_action": 3, "planbot_plan_refusals_total truncated": 1,
			"planbot_actions_total bad failed": 1, "planbot_action_seconds bad": 1, "planbot_replies_total ok": 2,
			"planbot_queue_wait_seconds": 2, "planbot_takeovers_total": 0, "planbot_leases_lost_total": 0, "planbot_reply_seconds": 2,
			"planbot_approvals_waiting": 0, "planbot_approvals_oldest_seconds": 0,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s\nhave %v", diff, slices.Sorted(maps.Keys(got)))
		}
		if _, err := bot.New(bot.Config{Metrics: metrics.To(registry)}); err == nil {
			t.Error("registered twice")
		}
	})
}

func TestAnActionThatIsCutOffIsCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		b := setup(t, func(c *bot.Config) { c.Metrics, c.TurnTimeout = metrics.To(registry), time.Second })
		actions.Add(b.actions, "hang", "Hangs", func(ctx context.Context, _ *actions.Turn, _ struct{}) (actions.Result, error) {
			<-ctx.Done()
			return actions.Result{}, ctx.Err()
		})
		b.model.Says(plan(do("hang", `{}`)))
		b.say("go")
		b.expectFault("took too long")
		if got := b.gather(registry); got["planbot_actions_total hang cut_off"] != 1 || got["planbot_action_seconds hang"] != 1 {
			t.Errorf("metrics %v", got)
		}
	})
}

// gather returns the metrics by their names and labels; of histograms, how much they saw.
// TestApprovalsAreMeasured: how many wait, and how long each took, by the rule by which who decided was asked.
func TestApprovalsAreMeasured(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	config, _ := laptops(actions.Approval{
		Approvers: []string{"aad-Ben"}, Within: 48 * time.Hour, Escalate: []actions.Escalation{{After: 24 * time.Hour, To: []string{"aad-Carla"}}},
	})
	policy := config.Change
	config.Change = func(c *bot.Config) {
		policy(c)
		c.Metrics = metrics.To(registry)
	}
	bottest.Test(t, config, func(t *testing.T, kit *bottest.Kit) {
		mia, ben, carla := kit.Personal("Mia"), kit.Personal("Ben"), kit.Personal("Carla")
		began := time.Now()
		kit.Model.Says(orderTwo, orderTwo, orderTwo)
		waits := func(want float64) {
			t.Helper()
			if got := gather(t, registry)["planbot_approvals_waiting"]; got != want {
				t.Errorf("%v wait, want %v", got, want)
			}
			age := gather(t, registry)["planbot_approvals_oldest_seconds"]
			if age > 0 && want == 0 || age < time.Since(began).Seconds()-60 && want > 0 {
				t.Errorf("the oldest of %v waits %v s", want, age)
			}
		}
		for range 3 {
			mia.Say("order two laptops")
			mia.ExpectCard("May I ask Ben, and later Carla, to approve this?").Press("Send")
			ben.ExpectCard("Approve")
		}
		waits(3)
		ben.Approve()
		mia.Expect("They are on their way.")
		waits(2)
		time.Sleep(25 * time.Hour)
		for range 2 {
			mia.Expect("Nobody has decided yet, so I've also asked Carla.")
		}
		carla.ExpectCard("Approve")
		carla.ExpectCard("Approve").Press("Reject")
		mia.Expect("OK, I won't do this: Order.")
		waits(1)
		time.Sleep(25 * time.Hour)
		waits(0)
		took := map[string]float64{}
		for name, n := range gather(t, registry) {
			if rule, ok := strings.CutPrefix(name, "planbot_approval_seconds "); ok {
				took[rule] = n
			}
		}
		if diff := cmp.Diff(map[string]float64{"policy": 1, "escalation": 1, "nobody": 1}, took); diff != "" {
			t.Error(diff)
		}
	})
}

func (b *bundle) gather(registry *prometheus.Registry) map[string]float64 {
	return gather(b.T, registry)
}

// gather is what a collection reads, by name and labels: of a histogram the number of samples.
func gather(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	got := map[string]float64{}
	families, err := registry.Gather()
	must(t, err)
	for _, family := range families {
		for _, m := range family.Metric {
			value := m.GetCounter().GetValue() + m.GetGauge().GetValue()
			if family.GetType() == dto.MetricType_HISTOGRAM {
				value = float64(m.GetHistogram().GetSampleCount())
			}
			labels := []string{}
			for _, l := range m.Label {
				labels = append(labels, l.GetValue())
			}
			got[strings.Join(append([]string{family.GetName()}, labels...), " ")] = value
		}
	}
	return got
}
