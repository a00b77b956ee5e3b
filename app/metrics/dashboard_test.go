package metrics

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bot/metrics"
)

// described keeps the names of what is registered, also of what has no value yet.
type described struct {
	prometheus.Registerer
	names map[string]bool
}

func (d *described) Register(c prometheus.Collector) error {
	descs := make(chan *prometheus.Desc, 99)
	c.Describe(descs)
	close(descs)
	for desc := range descs {
		d.names[regexp.MustCompile(`fqName: "([^"]+)"`).FindStringSubmatch(desc.String())[1]] = true
	}
	return d.Registerer.Register(c)
}

func (d *described) MustRegister(all ...prometheus.Collector) {
	for _, c := range all {
		if err := d.Register(c); err != nil {
			panic(err)
		}
	}
}

// counted are the names of all metrics of the program.
func counted(t *testing.T) []string {
	t.Helper()
	d := &described{prometheus.NewRegistry(), map[string]bool{}}
	countModels(d)
	showVersion(d)
	countServices(d)
	made, err := bot.New(bot.Config{Actions: actions.New(), Planner: bot.PlannerFunc(nil), Metrics: metrics.To(d)})
	if err == nil {
		err = made.Drain(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return slices.Sorted(maps.Keys(d.names))
}

// named are the metrics in a text.
func named(text string) []string {
	names := map[string]bool{}
	for _, name := range regexp.MustCompile(`\bplanbot_[a-z_]+`).FindAllString(text, -1) {
		names[strings.TrimSuffix(name, "_bucket")] = true
	}
	return slices.Sorted(maps.Keys(names))
}

func TestDashboardShowsEveryMetric(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../deploy/grafana/planbot.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		UID, Title string
		Panels     []struct {
			ID      int
			Type    string
			Targets []struct{ Expr, LegendFormat string }
		}
	}
	if err := json.Unmarshal(raw, &dashboard); err != nil {
		t.Fatal(err)
	}
	var shown strings.Builder
	ids := map[int]bool{}
	for _, p := range dashboard.Panels {
		if ids[p.ID] || (p.Type != "row") != (len(p.Targets) > 0) {
			t.Errorf("panel %d, %d targets", p.ID, len(p.Targets))
		}
		ids[p.ID] = true
		for _, target := range p.Targets {
			shown.WriteString(target.Expr + "\n")
		}
	}
	if diff := cmp.Diff(counted(t), named(shown.String())); diff != "" || dashboard.UID == "" {
		t.Errorf("registered (-) and shown (+):\n%s", diff)
	}
}

func TestDocsNameEveryMetric(t *testing.T) {
	t.Parallel()
	all := counted(t)
	raw, err := os.ReadFile("../../deploy/README.md")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(all, named(string(raw))); diff != "" {
		t.Errorf("registered (-) and named (+):\n%s", diff)
	}
	others, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(others) == 0 {
		t.Fatalf("%v, %v", others, err)
	}
	for _, file := range append(others, "../../README.md", "../../CHANGELOG.md") {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range named(string(raw)) {
			if !slices.Contains(all, name) {
				t.Errorf("%s names %s, which there is not", file, name)
			}
		}
	}
}
