package main

import (
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/lists"
	"github.com/planbot-go/planbot/planner"
)

func TestPlansOfTheModelRun(t *testing.T) {
	t.Parallel()
	registry := actions.New()
	lists.Register(registry)
	steps := cycle()
	for _, s := range steps {
		for _, parameters := range []bool{false, true} {
			text, err := plan(steps, s.text+" #t3-17", parameters)
			if err != nil {
				t.Fatal(err)
			}
			p, err := planner.Decode(text)
			if err == nil {
				p, err = planner.Validate(p, registry)
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
		if got, err := plan(steps, text, false); err == nil {
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

func TestWhatIsSharedAmongTurns(t *testing.T) {
	t.Parallel()
	at := time.Now()
	idle := usage{at: at.Add(2 * time.Second), asked: redisStats{reads: 41, commands: 81, bytes: 200, memory: 1000}}.since(usage{at: at})
	before := usage{
		at: at, bot: time.Second, load: 2 * time.Second, redis: time.Second, modelCalls: 10, modelBytes: 100,
		asked: redisStats{reads: 100, commands: 200, bytes: 1000, memory: 2000},
	}
	after := usage{
		at: at.Add(4 * time.Second), bot: 2 * time.Second, load: 4 * time.Second, redis: 3 * time.Second, modelCalls: 20, modelBytes: 500,
		asked: redisStats{reads: 100 + 1 + 80 + 30, commands: 200 + 1 + 160 + 50, bytes: 1000 + 400 + 700, memory: 5000},
	}
	l := &load{talks: []*conversation{
		{turns: make([]time.Duration, 7), acks: []time.Duration{time.Millisecond}},
		{turns: []time.Duration{time.Millisecond, 5 * time.Millisecond, 2 * time.Millisecond}},
	}}
	l.counts.retried.Add(3)
	got := cell{Bot: "b"}
	got.fill(after.since(before), idle, l)
	want := cell{
		Bot: "b", Seconds: 4, Turns: 10, TurnsPerSec: 2.5, P95MS: 5, P99MS: 5, AckP50MS: 1, AckP99MS: 1, CPUMS: 100, BotCores: 0.25, LoadCores: 0.5,
		RoundTrips: 3, Commands: 5, RedisBytes: 70, RedisCPUMS: 200, RedisGrowth: 4000, IdleTrips: 20, IdleCommands: 40, ModelCalls: 1, BytesPerCall: 40, Retried: 3,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestProcess(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "log")
	p, err := startProcess(t.Context(), program{args: []string{"sleep", "60"}, log: log})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.died(); err != nil {
		t.Error(err)
	}
	p.stop()
	if got := p.cmd.ProcessState.String(); got != "signal: terminated" {
		t.Errorf("it was ended by %s", got)
	}
	if p, err = startProcess(t.Context(), program{args: []string{"sh", "-c", "exit 7"}, log: log}); err != nil {
		t.Fatal(err)
	}
	<-p.ended
	if err := p.listens(t.Context(), 1); err == nil || !strings.Contains(err.Error(), "exit status 7, see "+log) {
		t.Errorf("a process that is gone listens: %v", err)
	}
}
