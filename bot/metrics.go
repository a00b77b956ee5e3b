package bot

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/planbot-go/planbot/planner"
)

// metrics are what an operator watches. A nil *metrics counts nothing. No label
// holds what people, models or channels wrote: actions are those that are
// registered, kinds those of this program.
type metrics struct {
	turns, plans, repairs, refusals, actions, replies, approvals *prometheus.CounterVec
	turnTime                                                     prometheus.Histogram
	actionTime                                                   *prometheus.HistogramVec
}

// waits are the buckets of what people wait for.
var waits = []float64{.05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}

func newMetrics(to prometheus.Registerer) (*metrics, error) {
	if to == nil {
		return nil, nil
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "planbot", Name: name, Help: help}, labels)
	}
	m := &metrics{
		turns:     counter("turns_total", "Activities that were handled, by how it ended: ok, failed or ignored.", "outcome"),
		plans:     counter("plans_total", "Plans that were run, by how they stood in the answer: plan, salvaged (within prose) or prose (no plan, said as it is).", "form"),
		repairs:   counter("plan_repairs_total", "What had to be repaired to read a plan, by its code.", "code"),
		refusals:  counter("plan_refusals_total", "Answers of the model that were no plan that may run, by the kind of fault.", "kind"),
		actions:   counter("actions_total", "Calls of actions, by outcome: ok or failed.", "action", "outcome"),
		replies:   counter("replies_total", "Messages to the channel, by outcome: ok or failed.", "outcome"),
		approvals: counter("approvals_total", "Approvals, by step: asked, approved or rejected.", "step"),
		turnTime: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "planbot", Name: "turn_seconds", Help: "How long turns took.", Buckets: waits,
		}),
		actionTime: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "planbot", Name: "action_seconds", Help: "How long calls of actions took.", Buckets: waits,
		}, []string{"action"}),
	}
	var faults []error
	for _, c := range []prometheus.Collector{m.turns, m.plans, m.repairs, m.refusals, m.actions, m.replies, m.approvals, m.turnTime, m.actionTime} {
		faults = append(faults, to.Register(c))
	}
	return m, errors.Join(faults...)
}

func (m *metrics) turn(err error, took time.Duration) {
	if m == nil {
		return
	}
	m.turns.WithLabelValues(okOrFailed(err != nil)).Inc()
	m.turnTime.Observe(took.Seconds())
}

func (m *metrics) ignored() {
	if m != nil {
		m.turns.WithLabelValues("ignored").Inc()
	}
}

func (m *metrics) plan(p planner.Plan) {
	if m == nil {
		return
	}
	form := "plan"
	switch {
	case p.Prose:
		form = "prose"
	case p.Salvaged:
		form = "salvaged"
	}
	m.plans.WithLabelValues(form).Inc()
	for _, code := range p.Repairs {
		m.repairs.WithLabelValues(code).Inc()
	}
	for _, kind := range p.Refused {
		m.refusals.WithLabelValues(string(kind)).Inc()
	}
}

// noPlan counts the answers of a model of which none could run.
func (m *metrics) noPlan(err error) {
	var fault *planner.DecodeError
	if m == nil || !errors.As(err, &fault) {
		return
	}
	m.refusals.WithLabelValues(string(fault.Kind)).Inc()
	for _, kind := range fault.Before {
		m.refusals.WithLabelValues(string(kind)).Inc()
	}
}

func (m *metrics) action(c *call) {
	if m == nil || c.action == nil {
		return
	}
	m.actions.WithLabelValues(c.action.Name, okOrFailed(c.result.Failed())).Inc()
	m.actionTime.WithLabelValues(c.action.Name).Observe(c.took.Seconds())
}

func (m *metrics) reply(err error) {
	if m != nil {
		m.replies.WithLabelValues(okOrFailed(err != nil)).Inc()
	}
}

func (m *metrics) approval(step string) {
	if m != nil {
		m.approvals.WithLabelValues(step).Inc()
	}
}

func okOrFailed(failed bool) string {
	if failed {
		return "failed"
	}
	return "ok"
}
