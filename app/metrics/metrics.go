// Package metrics is a feature of a program: it serves the bot's metrics, and those of its process, to Prometheus.
package metrics

import (
	"context"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bot/metrics"
	"github.com/planbot-go/planbot/internal/settings"
	"github.com/planbot-go/planbot/models"
)

type feature struct {
	Addr string `env:"BOT_METRICS_ADDR" else:"no metrics" help:"host:port of GET /metrics for Prometheus"`

	all *prometheus.Registry // nil: no bot is served
}

// Feature counts what a bot that is served does, and shows it where BOT_METRICS_ADDR says.
func Feature() app.Feature {
	f := &feature{}
	return app.Feature{Name: "metrics", Settings: f, Check: f.check, Open: f.open, Wire: f.wire, Serve: f.serve}
}

// Of are the metrics of a program's bot; nil if nobody counts.
func Of(p *app.Program) *prometheus.Registry {
	if f, ok := p.Feature("metrics").Settings.(*feature); ok {
		return f.all
	}
	return nil
}

func (f *feature) open(p *app.Program) error {
	f.all = prometheus.NewRegistry()
	showVersion(f.all)
	p.Watch(settings.Watch{Calls: countModels(f.all), Count: countServices(f.all)})
	return nil
}

func (f *feature) wire(_ context.Context, _ *app.Program, cfg *bot.Config) error {
	if f.all != nil {
		cfg.Metrics = metrics.To(f.all)
	}
	return nil
}

func (f *feature) check(v app.Values) error {
	if f.Addr == "" {
		return nil
	}
	return v.CheckBeside("BOT_METRICS_ADDR", f.Addr)
}

func (f *feature) serve(ctx context.Context, p *app.Program) error {
	if f.Addr == "" {
		return nil
	}
	f.all.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(f.all, promhttp.HandlerOpts{Registry: f.all}))
	addr, err := p.ServeBeside(ctx, f.Addr, "BOT_METRICS_ADDR", "metrics", mux)
	if err != nil {
		return err
	}
	p.Log().Info().Str("url", "http://"+addr.String()+"/metrics").Msg("serving metrics")
	return nil
}

func countModels(to prometheus.Registerer) func(outcome string, lasted time.Duration, used models.Usage) {
	auto := promauto.With(to)
	calls := auto.NewCounterVec(prometheus.CounterOpts{
		Name: "planbot_model_calls_total", Help: "Calls of the model, with their retries, by outcome: ok or the kind of error.",
	}, []string{"outcome"})
	took := auto.NewHistogram(prometheus.HistogramOpts{
		Name: "planbot_model_seconds", Help: "How long calls of the model took.",
		Buckets: []float64{.1, .25, .5, 1, 2.5, 5, 10, 20, 40, 80, 160},
	})
	tokens := auto.NewCounterVec(prometheus.CounterOpts{
		Name: "planbot_model_tokens_total", Help: "Tokens by kind: prompt (with cached), completion (with reasoning).",
	}, []string{"kind"})
	cost := auto.NewCounter(prometheus.CounterOpts{
		Name: "planbot_model_cost_total", Help: "What the tokens cost by BOT_MODEL_PRICE.",
	})
	return func(outcome string, lasted time.Duration, used models.Usage) {
		calls.WithLabelValues(outcome).Inc()
		took.Observe(lasted.Seconds())
		tokens.WithLabelValues("prompt").Add(float64(used.Prompt))
		tokens.WithLabelValues("cached").Add(float64(used.Cached))
		tokens.WithLabelValues("completion").Add(float64(used.Completion))
		tokens.WithLabelValues("reasoning").Add(float64(used.Reasoning))
		cost.Add(used.Cost)
	}
}

func countServices(to prometheus.Registerer) func(metric, label string) {
	auto := promauto.With(to)
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return auto.NewCounterVec(prometheus.CounterOpts{Namespace: "planbot", Name: name, Help: help}, labels)
	}
	misses := counter("action_misses_total", "Calls in plans of actions of connections that were not offered.").WithLabelValues()
	labelled := map[string]*prometheus.CounterVec{
		"action_searches_total": counter("action_searches_total", "Searches of models for actions of connections: found or nothing.", "outcome"),
		"mcp_quarantined_total": counter("mcp_quarantined_total", "Definitions of tools that were not offered because nobody has accepted them.", "connection"),
	}
	return func(metric, label string) {
		if all := labelled[metric]; all != nil {
			all.WithLabelValues(label).Inc()
			return
		}
		misses.Inc()
	}
}

func showVersion(to prometheus.Registerer) {
	to.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "planbot_build_info", Help: "1, with the version of the bot.", ConstLabels: prometheus.Labels{"version": app.Version()},
	}, func() float64 { return 1 }))
}
