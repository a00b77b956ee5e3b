package main

import (
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/lists"
	"github.com/planbot-go/planbot/planner/plan"
)

func TestPlansOfTheModelRun(t *testing.T) {
	t.Parallel()
	registry := actions.New()
	lists.Register(registry)
	steps := cycle()
	for _, s := range steps {
		for _, parameters := range []bool{false, true} {
			text, err := planFor(steps, s.text+" #t3-17", parameters)
			if err != nil {
				t.Fatal(err)
			}
			p, err := plan.Decode(text)
			if err == nil {
				p, err = plan.Validate(p, registry)
			}
			if err != nil || p.LastDo() != len(p.Commands)-2 {
				t.Errorf("%s: %v, %+v", text, err, p)
				continue
			}
			if !parameters && len(p.Repairs) > 0 {
				t.Errorf("%s was repaired: %v", text, p.Repairs)
			}
			if said := p.Commands[len(p.Commands)-1].Response; !strings.HasSuffix(said, " #t3-17") {
				t.Errorf("%q has no tag", said)
			}
		}
	}
	for _, text := range []string{"add milk to Groceries", "hello #t1-1", ""} {
		if got, err := planFor(steps, text, false); err == nil {
			t.Errorf("%q is answered with %s", text, got)
		}
	}
}

func TestPercentile(t *testing.T) {
	t.Parallel()
	var hundred []time.Duration
	for i := range 100 {
		hundred = append(hundred, time.Duration(i+1)*time.Millisecond)
	}
	for _, c := range []struct {
		of   []time.Duration
		p    int
		want float64
	}{
		{nil, 50, 0},
		{hundred[:1], 50, 1},
		{hundred[:1], 99, 1},
		{hundred[:2], 50, 1},
		{hundred[:3], 50, 2},
		{hundred, 50, 50},
		{hundred, 95, 95},
		{hundred, 99, 99},
		{hundred[:10], 99, 10},
	} {
		if got := percentile(c.of, c.p); got != c.want {
			t.Errorf("percentile %d of %d is %v, want %v", c.p, len(c.of), got, c.want)
		}
	}
}

func TestFlags(t *testing.T) {
	t.Parallel()
	o, err := parse([]string{"-conversations", "1, 2", "-latency", "0s,5ms"}, io.Discard)
	if err != nil || !slices.Equal(o.conversations, []int{1, 2}) || !slices.Equal(o.latencies, []time.Duration{0, 5 * time.Millisecond}) {
		t.Errorf("%+v, %v", o, err)
	}
	for _, args := range []string{"-conversations x", "-conversations 0", "-latency 5", "-replicas 0", "-burst 0", "-restart", "-bogus", "rest", "-duration 0s"} {
		if _, err := parse(strings.Fields(args), io.Discard); err == nil {
			t.Errorf("%s is taken", args)
		}
	}
}

func TestCores(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		allowed  string
		replicas int
		bots     string
		load     string
		shared   bool
	}{
		{"0-1", 1, "0", "1", false},
		{"0-1", 2, "0 1", "1", true},
		{"0", 1, "0", "0", true},
		{"0-3,8", 2, "0 1", "2,3,8", false},
	} {
		got := shareOut(readCores(c.allowed), c.replicas)
		var bots []string
		for _, one := range got.replicas {
			bots = append(bots, coreList(one))
		}
		if strings.Join(bots, " ") != c.bots || coreList(got.load) != c.load || got.shared != c.shared {
			t.Errorf("%s for %d: %+v", c.allowed, c.replicas, got)
		}
	}
	if got := readCores("x"); got != nil {
		t.Errorf("%v", got)
	}
}

func TestWhatFails(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]cell{
		"nothing measured": {}, "errors": {Turns: 1, Errors: 1}, "lost": {Turns: 1, Lost: 1}, "doubled": {Turns: 1, Doubled: 1},
		"stray": {Turns: 1, Stray: 1}, "reordered": {Turns: 1, Reordered: 1},
	} {
		if r := (report{cells: []cell{{Turns: 1, Retried: 1}, c}}); !r.failed() {
			t.Errorf("%s is no failure", name)
		}
	}
	if r := (report{cells: []cell{{Turns: 1, Retried: 1}}}); r.failed() {
		t.Error("what was cured by one retry is a failure")
	}
}
