package turn

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/planbot-go/planbot/planner/plan"
	"github.com/planbot-go/planbot/state/inbox"
)

// metrics are what an operator watches. A nil *metrics counts nothing. No label
// holds what people, models or channels wrote: actions are those that are
// registered, kinds those of this program.
type metrics struct {
	to prometheus.Registerer

	turns, plans, repairs, refusals, actions, replies, approvals, duplicates, feedback, refused *prometheus.CounterVec
	leasesLost                                                                                  prometheus.Counter
	turnTime, waitTime, replyTime                                                               prometheus.Histogram
	actionTime                                                                                  *prometheus.HistogramVec
}

// waits are the buckets of what people wait for.
var waits = []float64{.05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}

func newMetrics(to prometheus.Registerer) (*metrics, error) {
	if to == nil {
		return nil, nil
	}
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "planbot", Name: name, Help: help}, labels)
	}
	times := func(name, help string) prometheus.HistogramOpts {
		return prometheus.HistogramOpts{Namespace: "planbot", Name: name, Help: help, Buckets: waits}
	}
	m := &metrics{
		to:         to,
		turns:      counters("turns_total", "Turns, by how one ended in this process: ok, failed, ignored (nothing to do), dead_letter (for an operator to look at) or handed_back (to other replicas, at the end of this one).", "outcome"),
		plans:      counters("plans_total", "Plans that were run, by how they stood in the answer: plan, salvaged (within prose) or prose (no plan, said as it is).", "form"),
		repairs:    counters("plan_repairs_total", "What had to be repaired to read a plan, by its code.", "code"),
		refusals:   counters("plan_refusals_total", "Answers of the model that were no plan that may run, by the kind of fault.", "kind"),
		actions:    counters("actions_total", "Calls of actions, by outcome: ok, failed or cut_off (by the end of the turn's time or of the process).", "action", "outcome"),
		replies:    counters("replies_total", "Messages to the channel, by outcome: ok, failed (refused), unsure (taken as sent, though nobody answered) or given_up (not taken for an hour, or a notice to where nothing can be sent); beside these, retried counts each further try.", "outcome"),
		approvals:  counters("approvals_total", "Approvals, by step: asked, approved or rejected.", "step"),
		duplicates: counters("duplicates_total", "What came in again and was dropped, by kind: delivery or click (on an approval that was decided).", "kind"),
		refused:    counters("refused_total", "What was refused at the door, by the HTTP status of that or the allow-list that keeps its sender out (tenants, users, channels).", "reason"),
		feedback:   counters("feedback_total", "What people think of replies, by reaction: like or dislike.", "reaction"),
		leasesLost: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: "planbot", Name: "leases_lost_total", Help: "Turns that this replica left because another one has them, or may have.",
		}),
		turnTime:   prometheus.NewHistogram(times("turn_seconds", "How long turns took.")),
		waitTime:   prometheus.NewHistogram(times("queue_wait_seconds", "How long turns waited, from their acknowledgement to their begin.")),
		replyTime:  prometheus.NewHistogram(times("reply_seconds", "How long it took to send a message to the channel, all tries within.")),
		actionTime: prometheus.NewHistogramVec(times("action_seconds", "How long calls of actions took."), []string{"action"}),
	}
	var faults []error
	for _, c := range []prometheus.Collector{
		m.turns, m.plans, m.repairs, m.refusals, m.actions, m.replies, m.approvals, m.duplicates, m.feedback, m.refused,
		m.leasesLost, m.turnTime, m.waitTime, m.replyTime, m.actionTime,
	} {
		faults = append(faults, to.Register(c))
	}
	return m, errors.Join(faults...)
}

// inbox shows what the inbox counts, as stats says whenever somebody looks.
func (m *metrics) inbox(stats func() inbox.Stats) error {
	if m == nil {
		return nil
	}
	return errors.Join(
		m.to.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: "planbot", Name: "queue_depth", Help: "Turns in the inbox of all replicas, those at work among them. Each replica shows all of them, so take the maximum.",
		}, func() float64 { return float64(stats().Waiting) })),
		m.to.Register(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Namespace: "planbot", Name: "takeovers_total", Help: "Turns that this replica took over from one that was lost.",
		}, func() float64 { return float64(stats().Takeovers) })),
	)
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

// deadLetter and handedBack are turns that did not end in this process.
func (m *metrics) deadLetter() {
	if m != nil {
		m.turns.WithLabelValues("dead_letter").Inc()
	}
}

func (m *metrics) handedBack() {
	if m != nil {
		m.turns.WithLabelValues("handed_back").Inc()
	}
}

func (m *metrics) waited(d time.Duration) {
	if m != nil {
		m.waitTime.Observe(max(d, 0).Seconds()) // clocks of two replicas differ
	}
}

func (m *metrics) leaseLost() {
	if m != nil {
		m.leasesLost.Inc()
	}
}

// Kinds of what comes in again.
const (
	aDelivery = "delivery"
	aClick    = "click"
)

func (m *metrics) duplicate(kind string) {
	if m != nil {
		m.duplicates.WithLabelValues(kind).Inc()
	}
}

func (m *metrics) refusal(reason string) {
	if m != nil {
		m.refused.WithLabelValues(reason).Inc()
	}
}

func (m *metrics) plan(p plan.Plan) {
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
	var fault *plan.Fault
	if m == nil || !errors.As(err, &fault) {
		return
	}
	m.refusals.WithLabelValues(string(fault.Kind)).Inc()
	for _, kind := range fault.Before {
		m.refusals.WithLabelValues(string(kind)).Inc()
	}
}

func (m *metrics) action(c *call, outcome string) {
	if m == nil || c.action == nil {
		return
	}
	m.actions.WithLabelValues(c.action.Name, outcome).Inc()
	m.actionTime.WithLabelValues(c.action.Name).Observe(c.took.Seconds())
}

func (m *metrics) reply(outcome string) {
	if m != nil {
		m.replies.WithLabelValues(outcome).Inc()
	}
}

func (m *metrics) replyTook(d time.Duration) {
	if m != nil {
		m.replyTime.Observe(d.Seconds())
	}
}

func (m *metrics) approval(step string) {
	if m != nil {
		m.approvals.WithLabelValues(step).Inc()
	}
}

func (m *metrics) rated(reaction string) {
	if m != nil {
		m.feedback.WithLabelValues(reaction).Inc()
	}
}

// Ignored counts an activity that is not to be handled.
func (e *Engine) Ignored() { e.meter.ignored() }

// Refused counts what was refused: reason is an HTTP status, or the list that denied the
// sender.
func (e *Engine) Refused(reason string) { e.meter.refusal(reason) }

// Rated counts what a person thinks of a reply.
func (e *Engine) Rated(reaction string) { e.meter.rated(reaction) }

func okOrFailed(failed bool) string {
	if failed {
		return "failed"
	}
	return "ok"
}
