package page

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	dto "github.com/prometheus/client_model/go"
)

const (
	// sampleEvery is how often the metrics are read, maxSamples how many readings are kept: 15 minutes.
	sampleEvery = 10 * time.Second
	maxSamples  = 91
	// maxSeries limits how many series are kept. There is one for each action, among others.
	maxSeries  = 400
	ownMetrics = "planbot_" // how the names of the bot's metrics begin
	// sparkWide and sparkHigh are the size of a curve.
	sparkWide, sparkHigh = 240, 40
)

// numbers keeps the last values of the metrics. It is safe for concurrent use.
type numbers struct {
	page *server
	stop func() // nil: nothing reads them

	mu     sync.Mutex
	times  []time.Time
	series []*series
}

// series are the values of a metric with certain labels, one for each of the times.
type series struct {
	metric, help, kind, labels string
	values                     []float64 // of a histogram: the sums
	counts                     []float64 // of a histogram: how many were summed up
}

// every calls f in that interval until stop, which waits for it.
func every(interval time.Duration, f func(now time.Time)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background()) // ends with stop
	var ended sync.WaitGroup
	ended.Go(func() {
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case now := <-tick.C:
				f(now)
			}
		}
	})
	return func() {
		cancel()
		ended.Wait()
	}
}

func (n *numbers) close() {
	if n.stop != nil {
		n.stop()
	}
}

func (n *numbers) routes(mux *http.ServeMux) {
	p := n.page
	if p.of.Metrics == nil {
		return
	}
	n.sample(time.Now())
	n.stop = every(sampleEvery, n.sample)
	mux.HandleFunc("GET /dev/numbers", func(w http.ResponseWriter, _ *http.Request) {
		n.sample(time.Now())
		p.show(w, "/dev/numbers", "Numbers", numbersPage(n.tiles()))
	})
	mux.HandleFunc("GET /dev/numbers.json", func(w http.ResponseWriter, _ *http.Request) {
		n.sample(time.Now())
		writeJSON(w, map[string]any{"version": 1, "metrics": n.tiles()})
	})
}

// sample reads the metrics. It takes the place of the last reading if that was just now.
func (n *numbers) sample(now time.Time) {
	families, err := n.page.of.Metrics.Gather()
	if err != nil {
		n.page.cfg.Log.Debug().Err(err).Msg("the page cannot read some metrics") // the others are there
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	last := len(n.times) - 1
	switch {
	case last > 0 && now.Sub(n.times[last-1]) < sampleEvery:
		n.times[last] = now
	case len(n.times) == maxSamples:
		n.times = append(slices.Delete(n.times, 0, 1), now)
		for _, s := range n.series {
			s.values, s.counts = append(slices.Delete(s.values, 0, 1), 0), append(slices.Delete(s.counts, 0, 1), 0)
		}
	default:
		n.times = append(n.times, now)
		for _, s := range n.series {
			s.values, s.counts = append(s.values, 0), append(s.counts, 0)
		}
	}
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), ownMetrics) {
			continue
		}
		for _, m := range f.GetMetric() {
			s := n.of(f, m)
			if s == nil {
				continue
			}
			at := len(n.times) - 1
			switch f.GetType() {
			case dto.MetricType_COUNTER:
				s.values[at] = m.GetCounter().GetValue()
			case dto.MetricType_HISTOGRAM:
				s.values[at], s.counts[at] = m.GetHistogram().GetSampleSum(), float64(m.GetHistogram().GetSampleCount())
			default:
				s.values[at] = m.GetGauge().GetValue()
			}
		}
	}
}

// of returns the series of a metric; nil: there is no room for it. The caller holds the lock.
func (n *numbers) of(f *dto.MetricFamily, m *dto.Metric) *series {
	var labels []string
	for _, l := range m.GetLabel() {
		labels = append(labels, l.GetValue())
	}
	text := strings.Join(labels, ", ")
	i := slices.IndexFunc(n.series, func(s *series) bool { return s.metric == f.GetName() && s.labels == text })
	if i >= 0 {
		return n.series[i]
	}
	if len(n.series) == maxSeries {
		return nil
	}
	s := &series{
		metric: f.GetName(), help: f.GetHelp(), kind: strings.ToLower(f.GetType().String()), labels: text,
		values: make([]float64, len(n.times)), counts: make([]float64, len(n.times)),
	}
	n.series = append(n.series, s)
	return s
}

// tile shows a metric.
type tile struct {
	Metric string `json:"metric"`
	Help   string `json:"help"`
	Kind   string `json:"kind"`
	// Times are when the metric was read. Each row has one value for each of them.
	Times []time.Time `json:"times"`
	Rows  []tileRow   `json:"rows"`
}

// tileRow is a series of a metric.
type tileRow struct {
	Labels string    `json:"labels"`
	Values []float64 `json:"values"`
	Counts []float64 `json:"counts,omitempty"` // of a histogram, whose values are sums
}

// tiles returns all metrics, sorted by name.
func (n *numbers) tiles() []tile {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := []tile{}
	for _, s := range n.series {
		i := slices.IndexFunc(all, func(t tile) bool { return t.Metric == s.metric })
		if i < 0 {
			i = len(all)
			all = append(all, tile{Metric: s.metric, Help: s.help, Kind: s.kind, Times: slices.Clone(n.times)})
		}
		row := tileRow{Labels: s.labels, Values: slices.Clone(s.values)}
		if s.kind == "histogram" {
			row.Counts = slices.Clone(s.counts)
		}
		all[i].Rows = append(all[i].Rows, row)
	}
	slices.SortFunc(all, func(a, b tile) int { return cmp.Compare(a.Metric, b.Metric) })
	for _, t := range all {
		slices.SortFunc(t.Rows, func(a, b tileRow) int { return cmp.Compare(a.Labels, b.Labels) })
	}
	return all
}

func (t tile) Name() string {
	name := strings.TrimSuffix(strings.TrimPrefix(t.Metric, ownMetrics), "_total")
	if of, ok := strings.CutSuffix(name, "_seconds"); ok {
		name = of + " time" // there is a metric that counts them, too
	}
	name = strings.ReplaceAll(name, "_", " ")
	return strings.ToUpper(name[:1]) + name[1:]
}

// Since is how long ago the first value was read.
func (t tile) Since() string {
	return t.Times[len(t.Times)-1].Sub(t.Times[0]).Round(time.Second).String()
}

// grew is how much a row grew from one reading to another one.
func (r tileRow) grew(from, to int) (values, counts float64) {
	values = r.Values[to] - r.Values[from]
	if r.Counts != nil {
		counts = r.Counts[to] - r.Counts[from]
	}
	return values, counts
}

// Now is the value of a row, in words: of a counter all that it ever counted, of a histogram the mean.
func (t tile) Now(r tileRow) string {
	last := len(r.Values) - 1
	if t.Kind != "histogram" {
		return number(r.Values[last])
	}
	if r.Counts[last] == 0 {
		return "none"
	}
	return t.value(r.Values[last]/r.Counts[last]) + ", " + number(r.Counts[last]) + "×"
}

// Lately is what came since the first reading, in words; "": nothing that can be said.
func (t tile) Lately(r tileRow) string {
	values, counts := r.grew(0, len(r.Values)-1)
	switch {
	case t.Kind == "gauge":
		return ""
	case t.Kind == "counter":
		return "+" + number(values)
	case counts == 0:
		return "none"
	}
	return t.value(values/counts) + ", " + number(counts) + "×"
}

// value writes a value in the unit of the metric.
func (t tile) value(v float64) string {
	if strings.HasSuffix(t.Metric, "_seconds") {
		return took(time.Duration(v * float64(time.Second)))
	}
	return number(v)
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }

// curve is what the rows of a tile had in common at each time: of a counter how much it grew, of a
// histogram the mean of what came, of a gauge its value.
func (t tile) curve() []float64 {
	points := make([]float64, len(t.Times))
	for i := range points {
		var sum, counts float64
		for _, r := range t.Rows {
			switch {
			case t.Kind == "gauge":
				sum += r.Values[i]
			case i > 0:
				grew, n := r.grew(i-1, i)
				sum, counts = sum+grew, counts+n
			}
		}
		if points[i] = sum; t.Kind == "histogram" {
			points[i] = sum / max(1, counts)
		}
	}
	return points
}

func (t tile) Points() string {
	curve := t.curve()
	top := max(slices.Max(curve), 1e-9)
	var points []string
	for i, v := range curve {
		x := float64(sparkWide)
		if len(curve) > 1 {
			x *= float64(i) / float64(len(curve)-1)
		}
		points = append(points, fmt.Sprintf("%.1f,%.1f", x, 1+(sparkHigh-2)*(1-max(0, v)/top)))
	}
	return strings.Join(points, " ")
}

// Most is the highest point of the curve, in words.
func (t tile) Most() string { return t.value(slices.Max(t.curve())) }
