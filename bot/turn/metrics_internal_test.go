package turn

import (
	"testing"
	"time"

	"github.com/planbot-go/planbot/state/inbox"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// Of this package, because what some methods count takes a crash to happen.
func TestMetricsOfTheInbox(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	m, err := newMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	stats := inbox.Stats{Waiting: 3}
	if err := m.inbox(func() inbox.Stats { return stats }); err != nil {
		t.Fatal(err)
	}
	countEach(m)
	stats = inbox.Stats{Waiting: 4, Takeovers: 2}
	for name, c := range map[string]struct {
		collector prometheus.Collector
		want      float64
	}{
		"dead_letter": {m.turns.WithLabelValues("dead_letter"), 1},
		"handed back": {m.turns.WithLabelValues("handed_back"), 1},
		"leases lost": {m.leasesLost, 1},
		"deliveries":  {m.duplicates.WithLabelValues("delivery"), 1},
		"clicks":      {m.duplicates.WithLabelValues("click"), 1},
	} {
		if got := testutil.ToFloat64(c.collector); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
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
		case "planbot_queue_wait_seconds", "planbot_reply_seconds":
			found++
			h := f.GetMetric()[0].GetHistogram()
			if h.GetSampleCount() != 1 || h.GetSampleSum() != 0 && h.GetSampleSum() != 2 {
				t.Errorf("%s: %v", f.GetName(), h)
			}
		}
	}
	if found != 4 {
		t.Errorf("%d of 4 in %v", found, families)
	}
}

func TestNoMetrics(t *testing.T) {
	t.Parallel()
	m, err := newMetrics(nil)
	if m != nil || err != nil {
		t.Fatalf("%v, %v", m, err)
	}
	if err := m.inbox(nil); err != nil {
		t.Error(err)
	}
	countEach(m)
}

func countEach(m *metrics) {
	m.deadLetter()
	m.handedBack()
	m.waited(-time.Second)
	m.leaseLost()
	m.duplicate(aDelivery)
	m.duplicate(aClick)
	m.replyTook(2 * time.Second)
	m.reply("ok")
}
