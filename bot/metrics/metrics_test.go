package metrics_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/planbot-go/planbot/bot/metrics"
	"github.com/planbot-go/planbot/state/inbox"
)

func TestMetricsOfTheInbox(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	stats := inbox.Stats{Waiting: 3}
	err := metrics.To(registry).Queues(func() inbox.Stats { return stats })
	if err != nil {
		t.Fatal(err)
	}
	stats = inbox.Stats{Waiting: 4, Takeovers: 2}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, f := range families {
		switch f.GetName() {
		case "planbot_queue_depth":
			found++
			if got := f.GetMetric()[0].GetGauge().GetValue(); got != 4 {
				t.Errorf("depth %v", got)
			}
		case "planbot_takeovers_total":
			found++
			if got := f.GetMetric()[0].GetCounter().GetValue(); got != 2 {
				t.Errorf("takeovers %v", got)
			}
		}
	}
	if found != 2 {
		t.Errorf("%d of 2 in %v", found, families)
	}
}
