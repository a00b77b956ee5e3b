package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// cell is what was measured of one bot under one load; a line of turns.jsonl.
type cell struct {
	Bot           string  `json:"bot"`
	Replicas      int     `json:"replicas"`
	SharedCores   bool    `json:"shared_cores"` // some of the processes shared a core
	ModelMS       float64 `json:"model_ms"`
	Conversations int     `json:"conversations"`
	Burst         int     `json:"burst"`
	Seconds       float64 `json:"seconds"`
	Turns         int     `json:"turns"` // in the measured time
	TurnsPerSec   float64 `json:"turns_per_s"`

	P50MS    float64 `json:"p50_ms"` // from the message sent to the reply received
	P95MS    float64 `json:"p95_ms"`
	P99MS    float64 `json:"p99_ms"`
	AckP50MS float64 `json:"ack_p50_ms"` // from the message sent to its HTTP response
	AckP99MS float64 `json:"ack_p99_ms"`

	CPUMS      float64 `json:"cpu_ms_per_turn"`
	BotCores   float64 `json:"bot_cores"`  // that the bot kept busy
	LoadCores  float64 `json:"load_cores"` // that load, stand-ins and Redis kept busy
	PeakRSSMiB float64 `json:"peak_rss_mib"`

	RoundTrips   float64 `json:"redis_round_trips_per_turn"`
	Commands     float64 `json:"redis_commands_per_turn"`
	RedisBytes   float64 `json:"redis_bytes_per_turn"`
	RedisCPUMS   float64 `json:"redis_cpu_ms_per_turn"`
	RedisGrowth  int64   `json:"redis_memory_growth"`          // bytes, from before the load to its end
	IdleTrips    float64 `json:"redis_round_trips_idle_per_s"` // without load; subtracted above
	IdleCommands float64 `json:"redis_commands_idle_per_s"`    // the same
	ModelCalls   float64 `json:"model_calls_per_turn"`
	BytesPerCall float64 `json:"model_bytes_per_call"`
	Errors       int64   `json:"errors"`
	Retried      int64   `json:"retried"`
	Lost         int64   `json:"lost"`
	Doubled      int64   `json:"doubled"`
	Stray        int64   `json:"stray"`
	Reordered    int64   `json:"reordered"`
	FirstFault   string  `json:"first_fault,omitempty"`
}

// fill takes over what was counted. l has ended.
func (c *cell) fill(u, idle usage, l *load) {
	var turns, acks []time.Duration
	for _, talk := range l.talks {
		turns, acks = append(turns, talk.turns...), append(acks, talk.acks...)
	}
	slices.Sort(turns)
	slices.Sort(acks)
	c.P50MS, c.P95MS, c.P99MS = percentile(turns, 50), percentile(turns, 95), percentile(turns, 99)
	c.AckP50MS, c.AckP99MS = percentile(acks, 50), percentile(acks, 99)
	c.Turns, c.Seconds = len(turns), u.time.Seconds()
	c.TurnsPerSec = float64(c.Turns) / c.Seconds
	c.BotCores, c.LoadCores = u.bot.Seconds()/c.Seconds, u.load.Seconds()/c.Seconds
	c.IdleTrips = float64(idle.asked.reads) / idle.time.Seconds()
	c.IdleCommands = float64(idle.asked.commands) / idle.time.Seconds()
	idleBytes := float64(idle.asked.bytes) / idle.time.Seconds()
	c.RedisGrowth = u.asked.memory - idle.asked.memory

	n := float64(max(c.Turns, 1))
	c.CPUMS, c.RedisCPUMS = ms(u.bot)/n, ms(u.redis)/n
	c.RoundTrips = (float64(u.asked.reads) - c.IdleTrips*c.Seconds) / n
	c.Commands = (float64(u.asked.commands) - c.IdleCommands*c.Seconds) / n
	c.RedisBytes = (float64(u.asked.bytes) - idleBytes*c.Seconds) / n
	c.ModelCalls = float64(u.modelCalls) / n
	c.BytesPerCall = float64(u.modelBytes) / float64(max(u.modelCalls, 1))

	c.Errors, c.Retried, c.Lost = l.counts.errors.Load(), l.counts.retried.Load(), l.counts.lost.Load()
	c.Doubled, c.Stray, c.Reordered = l.counts.doubled.Load(), l.counts.stray.Load(), l.counts.reordered.Load()
	c.FirstFault = l.fault()
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// percentile is the smallest value in ms that p percent of all do not exceed; 0 of none.
func percentile(sorted []time.Duration, p int) float64 {
	if len(sorted) == 0 {
		return 0
	}
	rank := (len(sorted)*p + 99) / 100
	return ms(sorted[max(rank, 1)-1])
}

// failed reports whether anything went wrong with a message or a reply, or nothing was measured.
func (c *cell) failed() bool {
	return c.Turns == 0 || c.Errors+c.Lost+c.Doubled+c.Stray+c.Reordered > 0
}

// String is the line that is told while the others are measured.
func (c cell) String() string {
	line := fmt.Sprintf("%s, %d conversations, model %v ms: %.0f turns/s, p50 %.1f ms, %.3f ms CPU", c.Bot, c.Conversations, c.ModelMS, c.TurnsPerSec, c.P50MS, c.CPUMS)
	if c.FirstFault != "" {
		line += "; first fault: " + c.FirstFault
	}
	return line
}

// coldStart is the time from the start of a process to the first reply.
type coldStart struct {
	bot                  string
	median, least, worst time.Duration
}

// report is what is printed in the end.
type report struct {
	cells []cell
	cold  []coldStart
}

func (r *report) failed() bool {
	return slices.ContainsFunc(r.cells, func(c cell) bool { return c.failed() })
}

// print writes the report as markdown.
func (r *report) print(w io.Writer) {
	if len(r.cells) > 0 {
		head := "| bot | replicas | model ms | conversations | turns/s | p50 ms | p95 ms | p99 ms | ack p50 ms | ack p99 ms | CPU ms/turn | × floor | bot cores | load cores " +
			"| peak RSS MiB | Redis round trips | commands | Redis CPU ms | model calls | bytes/call | errors/lost/doubled/stray/reordered | retried |"
		fmt.Fprintln(w, head)
		fmt.Fprintln(w, "|---|"+strings.Repeat("--:|", strings.Count(head, "|")-2))
	}
	for i := range r.cells {
		c := &r.cells[i]
		fmt.Fprintf(w, "| %s | %d | %v | %d | %.0f | %.1f | %.1f | %.1f | %.1f | %.1f | %.3f | %s | %.2f | %.2f | %.0f | %.2f | %.2f | %.3f | %.2f | %.0f | %d/%d/%d/%d/%d | %d |\n",
			c.Bot, c.Replicas, c.ModelMS, c.Conversations, c.TurnsPerSec, c.P50MS, c.P95MS, c.P99MS, c.AckP50MS, c.AckP99MS, c.CPUMS, r.overFloor(c),
			c.BotCores, c.LoadCores, c.PeakRSSMiB, c.RoundTrips, c.Commands, c.RedisCPUMS, c.ModelCalls, c.BytesPerCall,
			c.Errors, c.Lost, c.Doubled, c.Stray, c.Reordered, c.Retried)
	}
	if len(r.cold) > 0 {
		fmt.Fprint(w, "\n| bot | cold start ms, median | least | most |\n|---|--:|--:|--:|\n")
	}
	for _, s := range r.cold {
		fmt.Fprintf(w, "| %s | %.0f | %.0f | %.0f |\n", s.bot, ms(s.median), ms(s.least), ms(s.worst))
	}
}

// overFloor is the CPU time of a turn as a multiple of what the floor needs under
// the same load; "" when that was not measured.
func (r *report) overFloor(c *cell) string {
	for i := range r.cells {
		f := &r.cells[i]
		if f.Bot == "floor" && f.ModelMS == c.ModelMS && f.Conversations == c.Conversations && f.CPUMS > 0 {
			return fmt.Sprintf("%.2f", c.CPUMS/f.CPUMS)
		}
	}
	return ""
}

// profile is the name of the file for the cell's CPU profile.
func (c *cell) profile() string {
	return fmt.Sprintf("%s-%vms-%d.pprof", c.Bot, c.ModelMS, c.Conversations)
}
