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
func (b *bundle) gather(registry *prometheus.Registry) map[string]float64 {
	b.Helper()
	got := map[string]float64{}
	families, err := registry.Gather()
	b.must(err)
	for _, family := range families {
		for _, m := range family.Metric {
			value := m.GetCounter().GetValue()
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
