package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/planbot-go/planbot/models"
)

// newMetrics is where everything is counted that BOT_METRICS_ADDR shows.
func newMetrics() *prometheus.Registry {
	metrics := prometheus.NewRegistry()
	metrics.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return metrics
}

// countModels counts calls of models, their time, tokens and cost.
func countModels(metrics prometheus.Registerer) func(outcome string, took time.Duration, used models.Usage) {
	calls := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "planbot_model_calls_total", Help: "Calls of the model, retries and fallbacks within, by outcome: ok or the kind of error.",
	}, []string{"outcome"})
	took := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "planbot_model_seconds", Help: "How long calls of the model took.", Buckets: []float64{.1, .25, .5, 1, 2.5, 5, 10, 20, 40, 80, 160},
	})
	tokens := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "planbot_model_tokens_total", Help: "Tokens by kind: prompt, cached (part of prompt), completion, reasoning (part of completion).",
	}, []string{"kind"})
	cost := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "planbot_model_cost_total", Help: "What the tokens cost by BOT_MODEL_PRICE.",
	})
	metrics.MustRegister(calls, took, tokens, cost)
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

// showMetrics serves them at BOT_METRICS_ADDR until stop is called.
func (a *app) showMetrics(ctx context.Context) (stop func(), err error) {
	if a.config.MetricsAddr == "" {
		return func() {}, nil
	}
	listener, err := listen(ctx, a.config.MetricsAddr, "BOT_METRICS_ADDR")
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(a.metrics, promhttp.HandlerOpts{Registry: a.metrics}))
	server := a.bot.NewServer(mux)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			a.log.Error().Err(fmt.Errorf("serve metrics: %w", err)).Msg("no metrics any more")
		}
	}()
	a.log.Info().Str("url", "http://"+listener.Addr().String()+"/metrics").Msg("metrics")
	return func() {
		if err := server.Close(); err != nil {
			a.log.Debug().Err(err).Msg("close metrics")
		}
		<-done
	}, nil
}
