package page_test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/planbot-go/planbot/app/page"
)

// TestNumbers keeps 15 minutes of what is counted, and not more.
func TestNumbers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		metrics := prometheus.NewRegistry()
		turns := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "planbot_turns_total", Help: "Turns."}, []string{"outcome"})
		took := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "planbot_turn_seconds", Help: "Time of a turn."})
		depth := prometheus.NewGauge(prometheus.GaugeOpts{Name: "planbot_queue_depth", Help: "Turns in the inbox."})
		other := prometheus.NewGauge(prometheus.GaugeOpts{Name: "go_goroutines"})
		metrics.MustRegister(turns, took, depth, other)
		p, err := page.New(page.Config{Name: "Hedda"})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		h, err := p.Handler(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 3978}, page.Parts{Metrics: metrics})
		if err != nil {
			t.Fatal(err)
		}
		get := func(path string) string {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody)
			r.Host = "127.0.0.1:3978"
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w.Body.String()
		}
		type twin struct {
			Version int
			Metrics []struct {
				Metric, Kind string
				Times        []time.Time
				Rows         []struct {
					Labels         string
					Values, Counts []float64
				}
			}
		}
		read := func() (is twin) {
			if err := json.Unmarshal([]byte(get("/dev/numbers.json")), &is); err != nil || is.Version != 1 {
				t.Fatal(err, is)
			}
			return is
		}
		depth.Set(3)
		turns.WithLabelValues("ok").Add(5)
		time.Sleep(time.Minute)
		turns.WithLabelValues("ok").Add(2)
		turns.WithLabelValues("failed").Inc() // a series that was not there before
		took.Observe(0.2)
		took.Observe(0.4)
		for range 5 {
			read() // which adds no readings
		}
		is := read()
		if n := len(is.Metrics); n != 3 || is.Metrics[2].Metric != "planbot_turns_total" {
			t.Fatalf("%d metrics: %+v", n, is)
		}
		if n := len(is.Metrics[2].Times); n < 7 || n > 8 {
			t.Errorf("%d readings of a minute", n)
		}
		for _, row := range is.Metrics[2].Rows {
			want := map[string][2]float64{"ok": {0, 7}, "failed": {0, 1}}[row.Labels]
			if got := [2]float64{row.Values[0], row.Values[len(row.Values)-1]}; got != want || len(row.Values) != len(is.Metrics[2].Times) {
				t.Errorf("%s: %v, want %v", row.Labels, got, want)
			}
		}
		view := get("/dev/numbers")
		for _, want := range []string{"<h2 id=\"m-planbot_turns_total\">Turns</h2>", "<td>7</td><td>+7</td>", "300 ms, 2×", "<td>3</td>", `aria-label="Turn time: at most 300 ms in the last `} {
			if !strings.Contains(view, want) {
				t.Errorf("no %q in\n%s", want, view)
			}
		}
		_, shown, _ := strings.Cut(view, "<main") // the token before it may have any letters
		if regexp.MustCompile(`(?i)<[^>]* style|NaN|Inf`).MatchString(shown) || strings.Contains(shown, "goroutines") {
			t.Errorf("a style, no number, or a metric that is not the bot's in\n%s", view)
		}
		time.Sleep(time.Hour)
		for i := range 1000 {
			turns.WithLabelValues(fmt.Sprint("odd", i)).Inc()
		}
		is = read()
		rows := 0
		for _, m := range is.Metrics {
			rows += len(m.Rows)
			if n, span := len(m.Times), m.Times[len(m.Times)-1].Sub(m.Times[0]); n > 91 || span < 14*time.Minute || span > 16*time.Minute {
				t.Errorf("%s: %d readings of %s", m.Metric, n, span)
			}
		}
		if rows != 400 {
			t.Errorf("%d series are kept", rows)
		}
	})
}
