package turn

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/planbot-go/planbot/planner/plan"
	"github.com/planbot-go/planbot/state/inbox"
)

// metrics are for operators. No label contains what people, models or channels wrote: actions are
// the registered ones, and kinds are this program's own.
type metrics struct {
	turns, plans, repairs, refusals, actions, replies, approvals, duplicates, feedback, refused *prometheus.CounterVec

	leasesLost                    prometheus.Counter
	turnTime, waitTime, replyTime prometheus.Histogram
	actionTime                    *prometheus.HistogramVec
}

// waits are the histogram buckets for what people wait for.
var waits = []float64{.05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}

// newMetrics registers the metrics, including stats of the inbox, which it reads at each
// collection. If to is nil, nobody collects them.
func newMetrics(to prometheus.Registerer, stats func() inbox.Stats) (*metrics, error) {
	if to == nil {
		to = prometheus.NewRegistry()
	}
	var faults []error
	register := func(c prometheus.Collector) { faults = append(faults, to.Register(c)) }
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "planbot", Name: name, Help: help}, labels)
		register(c)
		return c
	}
	times := func(name, help string) prometheus.HistogramOpts {
		return prometheus.HistogramOpts{Namespace: "planbot", Name: name, Help: help, Buckets: waits}
	}
	m := &metrics{
		turns:      counters("turns_total", "Turns, by how one ended in this process: ok, failed, ignored (nothing to do), dead_letter (an operator has to look at it) or handed_back (to other replicas, at the end of this one).", "outcome"),
		plans:      counters("plans_total", "Plans that were run, by how they stood in the answer: plan, salvaged (within prose) or prose (no plan, said as it is).", "form"),
		repairs:    counters("plan_repairs_total", "What had to be repaired to read a plan, by its code.", "code"),
		refusals:   counters("plan_refusals_total", "Answers of the model that were no plan that may run, by the kind of fault.", "kind"),
		actions:    counters("actions_total", "Calls of actions, by outcome: ok, failed or cut_off (by the end of the turn's time or of the process).", "action", "outcome"),
		replies:    counters("replies_total", "Messages to the channel, by outcome: ok, failed (refused), unsure (taken as sent, though nobody answered) or given_up (not taken for an hour, or a notice to where nothing can be sent); beside these, retried counts each further try.", "outcome"),
		approvals:  counters("approvals_total", "Approvals, by step: asked, standing, approved, rejected or expired.", "step"),
		duplicates: counters("duplicates_total", "What came in again and was dropped, by kind: delivery or click (on an approval that was decided).", "kind"),
		refused:    counters("refused_total", "Requests that were refused, by HTTP status or by the list that denies the sender (tenants, users, channels).", "reason"),
		feedback:   counters("feedback_total", "What people think of replies, by reaction: like or dislike.", "reaction"),
		leasesLost: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: "planbot", Name: "leases_lost_total", Help: "Turns that this replica left because another one has them, or may have.",
		}),
		turnTime:   prometheus.NewHistogram(times("turn_seconds", "How long turns took.")),
		waitTime:   prometheus.NewHistogram(times("queue_wait_seconds", "How long turns waited, from their acknowledgement to their begin.")),
		replyTime:  prometheus.NewHistogram(times("reply_seconds", "How long it took to send a message to the channel, all tries within.")),
		actionTime: prometheus.NewHistogramVec(times("action_seconds", "How long calls of actions took."), []string{"action"}),
	}
	for _, c := range []prometheus.Collector{
		m.leasesLost, m.turnTime, m.waitTime, m.replyTime, m.actionTime,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: "planbot", Name: "queue_depth", Help: "Turns in the inbox of all replicas, those at work among them. Each replica shows all of them, so take the maximum.",
		}, func() float64 { return float64(stats().Waiting) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Namespace: "planbot", Name: "takeovers_total", Help: "Turns that this replica took over from one that was lost.",
		}, func() float64 { return float64(stats().Takeovers) }),
	} {
		register(c)
	}
	return m, errors.Join(faults...)
}

// count adds one to the counter with that label.
func count(c *prometheus.CounterVec, label string) { c.WithLabelValues(label).Inc() }

func (m *metrics) plan(p plan.Plan) {
	form := "plan"
	switch {
	case p.Prose:
		form = "prose"
	case p.Salvaged:
		form = "salvaged"
	}
	count(m.plans, form)
	for _, code := range p.Repairs {
		count(m.repairs, code)
	}
	for _, kind := range p.Refused {
		count(m.refusals, string(kind))
	}
}

// noPlan counts a model's answers when none of them could run.
func (m *metrics) noPlan(err error) {
	if fault, ok := errors.AsType[*plan.Fault](err); ok {
		count(m.refusals, string(fault.Kind))
		for _, kind := range fault.Before {
			count(m.refusals, string(kind))
		}
	}
}

func (m *metrics) action(c *call, outcome string) {
	if c.action != nil {
		m.actions.WithLabelValues(c.action.Name, outcome).Inc()
		m.actionTime.WithLabelValues(c.action.Name).Observe(c.took.Seconds())
	}
}

func (m *metrics) turn(err error, took time.Duration) {
	count(m.turns, okOrFailed(err != nil))
	m.turnTime.Observe(took.Seconds())
}

func okOrFailed(failed bool) string {
	if failed {
		return "failed"
	}
	return "ok"
}
