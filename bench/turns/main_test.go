package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/lists"
	"github.com/planbot-go/planbot/planner/plan"
)

// The tests are in package main: a program has no outside.

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTheBotIsMeasured(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("redis-server is not installed")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var table, notes strings.Builder
	status := run(ctx, []string{
		"--conversations", "2,4", "--latency", "1ms", "--cold", "1", "--replicas", "2",
		"--idle", "200ms", "--warmup", "100ms", "--duration", "1s", "--out", t.TempDir(),
	}, &table, &notes)
	rows := 0
	for line := range strings.Lines(table.String()) {
		if !strings.HasPrefix(line, "| 2 |") {
			continue
		}
		rows++
		var figures []float64
		for field := range strings.SplitSeq(line, "|") {
			if n, err := strconv.ParseFloat(strings.TrimSpace(field), 64); err == nil {
				figures = append(figures, n)
			}
		}
		turns, p50, p99, cpu, rss, trips, commands, redisCPU, calls, size :=
			figures[3], figures[4], figures[6], figures[7], figures[10], figures[11], figures[12], figures[13], figures[14], figures[15]
		if turns == 0 || p50 < 1 || p99 < p50 || cpu <= 0 || rss < 1 || redisCPU <= 0 ||
			commands < 1.5 || trips <= 0 || calls < 0.8 || calls > 1.2 || size < 1000 {
			t.Errorf("%s", line)
		}
	}
	if status != 0 || rows != 2 || !strings.Contains(table.String(), "Cold start: median") {
		t.Fatalf("status %d: %s%s", status, &table, &notes)
	}
}

// bots that answer in their own way: say posts a reply to where the message came from.
type misbehaviour func(say func(text string), n int64, text string) (status int)

func botThat(t *testing.T, behaves misbehaviour) (url string) {
	t.Helper()
	var messages atomic.Int64
	client := &http.Client{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			ID, Text, ServiceURL string
			Conversation         struct{ ID string }
		}
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			t.Error(err)
		}
		say := func(text string) {
			raw, err := json.Marshal(map[string]string{"type": "message", "text": text})
			if err != nil {
				t.Error(err)
			}
			res, err := client.Post(in.ServiceURL+"v3/conversations/"+in.Conversation.ID+"/activities/"+in.ID, "application/json", bytes.NewReader(raw))
			if err != nil {
				t.Error(err)
				return
			}
			_ = res.Body.Close()
		}
		w.WriteHeader(behaves(say, messages.Add(1)-1, in.Text))
	}))
	t.Cleanup(server.Close)
	t.Cleanup(client.CloseIdleConnections)
	return server.URL
}

func TestTally(t *testing.T) {
	t.Parallel()
	var kept string
	for name, c := range map[string]struct {
		bot      misbehaviour
		answered bool
		want     outcome
	}{
		"as it should be": {
			bot:      func(say func(string), _ int64, text string) int { say("Done: " + text); return 200 },
			answered: true,
		},
		"nothing is said": {
			bot:  func(func(string), int64, string) int { return 202 },
			want: outcome{lost: 2},
		},
		"all is said twice": {
			bot:      func(say func(string), _ int64, text string) int { say(text); say(text); return 200 },
			answered: true, want: outcome{doubled: 2},
		},
		"something else is said, too": {
			bot: func(say func(string), _ int64, text string) int {
				say(text)
				say("Sorry.")
				say("x #t0-99")
				say("x #t1-0")
				return 200
			},
			answered: true, want: outcome{stray: 6},
		},
		"the second comes first": {
			bot: func(say func(string), n int64, text string) int {
				if n == 0 {
					kept = text
					return 200
				}
				say(text)
				say(kept)
				return 200
			},
			want: outcome{lost: 1, reordered: 1},
		},
		"all is refused": {
			bot:  func(func(string), int64, string) int { return 503 },
			want: outcome{errors: 2},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			timeout := 10 * time.Second
			if c.want.lost > 0 {
				timeout = 50 * time.Millisecond
			}
			l, err := newLoad(t.Context(), []string{botThat(t, c.bot)}, 1, timeout)
			if err != nil {
				t.Fatal(err)
			}
			defer l.close()
			first, second := l.talks[0].turn(t.Context()), l.talks[0].turn(t.Context())
			if answered := first && second; answered != c.answered {
				t.Errorf("answered: %v", answered)
			}
			got, fault := l.outcome()
			if got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
			if wrong := c.want != (outcome{}); wrong != (fault != "") {
				t.Errorf("fault %q", fault)
			}
		})
	}
}

func TestPlansOfTheModelRun(t *testing.T) {
	t.Parallel()
	registry := actions.New()
	lists.Register(registry)
	for _, s := range steps {
		text, err := planFor(s.text + " #t3-17")
		if err != nil {
			t.Fatal(err)
		}
		p, err := plan.Decode(text)
		if err == nil {
			p, err = p.Validate(registry)
		}
		if err != nil || len(p.Repairs) > 0 {
			t.Errorf("%s: %v, %+v", text, err, p)
			continue
		}
		if said := p.Commands[len(p.Commands)-1].Response; !strings.HasSuffix(said, " #t3-17") {
			t.Errorf("%q has no tag", said)
		}
	}
	for _, text := range []string{"add milk to Groceries", "hello #t1-1", ""} {
		if got, err := planFor(text); err == nil {
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
	for _, args := range []string{"--conversations=x", "--conversations=0", "--latency=5", "--replicas=0", "--bogus", "rest", "--duration=0s"} {
		var said strings.Builder
		if status := run(t.Context(), strings.Fields(args), &said, &said); status != 2 || !strings.HasPrefix(said.String(), "turns: ") {
			t.Errorf("%s: status %d, %s", args, status, &said)
		}
	}
}
