// Package metrics is a feature of a program: it serves the bot's metrics, and those of its process, to Prometheus.
package metrics

import (
	"context"
	"net/http"

	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/planbot-go/planbot/app"
)

type settings struct {
	Addr string `env:"BOT_METRICS_ADDR" else:"no metrics" help:"host:port of GET /metrics for Prometheus"`
}

// Feature serves metrics where BOT_METRICS_ADDR says.
func Feature() app.Feature {
	s := &settings{}
	return app.Feature{Name: "metrics", Settings: s, Check: s.check, Serve: s.serve}
}

func (s *settings) check(v app.Values) error {
	if s.Addr == "" {
		return nil
	}
	return v.CheckBeside("BOT_METRICS_ADDR", s.Addr)
}

func (s *settings) serve(ctx context.Context, p *app.Program) error {
	if s.Addr == "" {
		return nil
	}
	all := p.Metrics()
	all.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(all, promhttp.HandlerOpts{Registry: all}))
	addr, err := p.ServeBeside(ctx, s.Addr, "BOT_METRICS_ADDR", "metrics", mux)
	if err != nil {
		return err
	}
	p.Log().Info().Str("url", "http://"+addr.String()+"/metrics").Msg("serving metrics")
	return nil
}
