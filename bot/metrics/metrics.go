// Package metrics counts what turns do, for Prometheus.
package metrics

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/planbot-go/planbot/bot/approvals"
	"github.com/planbot-go/planbot/bot/moderation"
	"github.com/planbot-go/planbot/bot/turn"
	"github.com/planbot-go/planbot/planner/plan"
	"github.com/planbot-go/planbot/state/inbox"
)

// metrics are for operators. No label contains what people, models or channels wrote: actions are
// the registered ones, and kinds are this program's own.
type metrics struct {
	counters map[string]*prometheus.CounterVec // by what [turn.Counted] says, each with one label
	times    map[string]prometheus.Observer

	leasesLost     prometheus.Counter
	plans, repairs *prometheus.CounterVec
	actions        *prometheus.CounterVec
	actionTime     *prometheus.HistogramVec
	approvals      *prometheus.HistogramVec
}

// decisions are the histogram buckets for what waits until people decide: a minute to a week.
var decisions = []float64{60, 300, 900, 3600, 4 * 3600, 8 * 3600, 24 * 3600, 48 * 3600, 7 * 24 * 3600}

// askWithin limits how long a collection waits for the store.
const askWithin = 2 * time.Second

// waits are the histogram buckets for what people wait for.
var waits = []float64{.05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}

const ours = "planbot"

// Registry are the metrics of a bot, all named planbot_…, for bot.Config.
type Registry struct{ to prometheus.Registerer }

// To counts what a bot does there.
func To(registry prometheus.Registerer) Registry { return Registry{registry} }

// Feature registers the metrics of turns and returns the feature that counts. It fails if they are
// registered already.
func (r Registry) Feature() (turn.Feature, error) {
	var faults []error
	register := func(c prometheus.Collector) { faults = append(faults, r.to.Register(c)) }
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
	m := &metrics{
		counters: map[string]*prometheus.CounterVec{
			turn.CountTurns:    counters("turns_total", "Turns, by how they ended in this process.", "outcome"),
			turn.CountRefusals: counters("plan_refusals_total", "Answers of the model that were no plan that may run.", "kind"),
			turn.CountReplies:  counters("replies_total", "Messages to the channel, and each further try (retried).", "outcome"),
			approvals.Counted: counters("approvals_total",
				"Approvals: asked, standing, sent, agreed, escalated, approved, rejected, withdrawn or expired.", "step"),
			turn.CountDuplicates: counters("duplicates_total", "Deliveries and clicks that came again and were dropped.", "kind"),
			turn.CountRefused:    counters("refused_total", "Refused requests, by HTTP status or by access list, and turns over a quota.", "reason"),
			turn.CountFeedback:   counters("feedback_total", "What people think of replies: like or dislike.", "reaction"),
			moderation.Counted: counters("moderation_total",
				"Verdicts of moderation: passed, flagged, failed (there was none) or let_through (none, and the bot fails open).", "outcome"),
		},
		times: map[string]prometheus.Observer{
			turn.CountTurns:     times("turn_seconds", "How long turns took.").WithLabelValues(),
			turn.CountWaits:     times("queue_wait_seconds", "How long turns waited before they began.").WithLabelValues(),
			turn.CountReplyTime: times("reply_seconds", "How long a message to the channel took, with all tries.").WithLabelValues(),
		},
		leasesLost: counters("leases_lost_total", "Turns left because another replica may have them.").WithLabelValues(),
		plans:      counters("plans_total", "Plans that ran: plan, salvaged (from prose) or prose (no plan).", "form"),
		repairs:    counters("plan_repairs_total", "Repairs that a plan needed to be read.", "code"),
		actions:    counters("actions_total", "Calls of actions: ok, failed or cut_off.", "action", "outcome"),
		approvals: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: ours, Name: "approval_seconds", Buckets: decisions,
			Help: "How long approvals waited, by the rule by which who decided was asked: policy, function, list, escalation, change, delegation, requester, or nobody (expired).",
		}, []string{"rule"}),
		actionTime: times("action_seconds", "How long calls of actions took.", "action"),
	}
	register(m.approvals)
	if err := errors.Join(faults...); err != nil {
		return turn.Feature{}, fmt.Errorf("metrics: %w", err)
	}
	return turn.Feature{Name: "metrics", Event: m.event}, nil
}

// Queues registers the metrics of the queues, which are read at each collection.
func (r Registry) Queues(stats func() inbox.Stats) error {
	err := errors.Join(r.to.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: ours, Name: "queue_depth", Help: "Turns in the inbox. Each replica shows those of all replicas.",
	}, func() float64 { return float64(stats().Waiting) })), r.to.Register(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Namespace: ours, Name: "takeovers_total", Help: "Turns that this replica took over from a lost one.",
	}, func() float64 { return float64(stats().Takeovers) })))
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	return nil
}

// Approvals registers how many approvals wait, and for how long the oldest does, which is asked at each collection; NaN: the
// store gave no answer.
func (r Registry) Approvals(waiting func(context.Context) (n int, since time.Time, err error)) error {
	gauge := func(name, help string, of func(n int, since time.Time) float64) error {
		return r.to.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: ours, Name: name, Help: help + " Each replica shows those of all replicas.",
		}, func() float64 {
			ctx, cancel := context.WithTimeout(context.Background(), askWithin)
			defer cancel()
			n, since, err := waiting(ctx)
			if err != nil {
				return math.NaN()
			}
			return of(n, since)
		}))
	}
	err := errors.Join(
		gauge("approvals_waiting", "Approvals that wait.", func(n int, _ time.Time) float64 { return float64(n) }),
		gauge("approvals_oldest_seconds", "How long the oldest approval waits.", func(_ int, since time.Time) float64 {
			if since.IsZero() {
				return 0
			}
			return time.Since(since).Seconds()
		}),
	)
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	return nil
}

func (m *metrics) event(e turn.Event) {
	switch {
	case e.Counted.What != "":
		m.count(e.Counted)
	case e.Planned != nil:
		m.planned(e.Planned)
	case e.Called != nil && e.Called.Action != nil:
		m.called(e.Called)
	}
}

func (m *metrics) count(c turn.Counted) {
	if counter := m.counters[c.What]; counter != nil {
		counter.WithLabelValues(c.How).Inc()
	}
	timed := c.What != turn.CountTurns || c.How == "ok" || c.How == "failed"
	if times := m.times[c.What]; times != nil && timed {
		times.Observe(c.Took.Seconds())
	}
	switch c.What {
	case turn.CountLeasesLost:
		m.leasesLost.Inc()
	case approvals.DecidedAfter:
		m.approvals.WithLabelValues(c.How).Observe(c.Took.Seconds())
	}
}

func (m *metrics) planned(p *plan.Plan) {
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
		m.counters[turn.CountRefusals].WithLabelValues(string(kind)).Inc()
	}
}

func (m *metrics) called(c *turn.Called) {
	outcome := "ok"
	switch {
	case c.Unknown:
		outcome = "cut_off"
	case c.Result.Failed():
		outcome = "failed"
	}
	m.actions.WithLabelValues(c.Action.Name, outcome).Inc()
	m.actionTime.WithLabelValues(c.Action.Name).Observe(c.Took.Seconds())
}
