package turn

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/planbot-go/planbot/planner/plan"
	"github.com/planbot-go/planbot/state/inbox"
)

// metrics are for operators. No label contains what people, models or channels wrote: actions are
// the registered ones, and kinds are this program's own.
type metrics struct {
	turns, plans, repairs, refusals, actions, replies, approvals, duplicates, feedback, refused, moderation *prometheus.CounterVec

	leasesLost                    prometheus.Counter
	turnTime, waitTime, replyTime prometheus.Observer
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
	const ours = "planbot"
	var faults []error
	register := func(c prometheus.Collector) { faults = append(faults, to.Register(c)) }
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: ours, Name: name, Help: help}, labels)
		register(c)
		return c
	}
	times := func(name, help string, labels ...string) *prometheus.HistogramVec {
		h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: ours, Name: name, Help: help, Buckets: waits}, labels)
		register(h)
		return h
	}
	register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: ours, Name: "queue_depth", Help: "Turns in the inbox. Each replica shows those of all replicas.",
	}, func() float64 { return float64(stats().Waiting) }))
	register(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Namespace: ours, Name: "takeovers_total", Help: "Turns that this replica took over from a lost one.",
	}, func() float64 { return float64(stats().Takeovers) }))
	return &metrics{
		turns:      counters("turns_total", "Turns, by how they ended in this process.", "outcome"),
		plans:      counters("plans_total", "Plans that ran: plan, salvaged (from prose) or prose (no plan).", "form"),
		repairs:    counters("plan_repairs_total", "Repairs that a plan needed to be read.", "code"),
		refusals:   counters("plan_refusals_total", "Answers of the model that were no plan that may run.", "kind"),
		actions:    counters("actions_total", "Calls of actions: ok, failed or cut_off.", "action", "outcome"),
		replies:    counters("replies_total", "Messages to the channel, and each further try (retried).", "outcome"),
		approvals:  counters("approvals_total", "Approvals: asked, standing, approved, rejected or expired.", "step"),
		duplicates: counters("duplicates_total", "Deliveries and clicks that came again and were dropped.", "kind"),
		refused:    counters("refused_total", "Refused requests, by HTTP status or by access list, and turns over a quota.", "reason"),
		feedback:   counters("feedback_total", "What people think of replies: like or dislike.", "reaction"),
		moderation: counters("moderation_total", "Verdicts of moderation: passed, flagged, failed (there was none) or let_through (none, and the bot fails open).", "outcome"),
		leasesLost: counters("leases_lost_total", "Turns left because another replica may have them.").WithLabelValues(),
		turnTime:   times("turn_seconds", "How long turns took.").WithLabelValues(),
		waitTime:   times("queue_wait_seconds", "How long turns waited before they began.").WithLabelValues(),
		replyTime:  times("reply_seconds", "How long a message to the channel took, with all tries.").WithLabelValues(),
		actionTime: times("action_seconds", "How long calls of actions took.", "action"),
	}, errors.Join(faults...)
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

func okOrFailed(failed bool) string {
	if failed {
		return "failed"
	}
	return "ok"
}
