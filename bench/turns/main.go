// Command turns measures what a bot adds to a turn, with nothing but this repository and a
// redis-server: it builds the bot, starts Redis and stand-ins for the model and the
// channel, lets conversations talk to the bot, and counts. README.md in the folder above
// says how to read the table that it prints.
//
// It ends with status 1 when a reply was lost, came twice, came out of order or belonged to
// nothing, or when a message was not accepted; with 2 when it could not measure.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
)

func main() {
	debug.SetGCPercent(400) // the load shares its cores with the stand-ins
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// options are the flags.
type options struct {
	Conversations []int           `default:"16,128,512" help:"conversations that talk at the same time, a cell for each number"`
	Latency       []time.Duration `default:"0s,200ms" help:"how long the model takes, a cell for each time"`
	Duration      time.Duration   `default:"5s" help:"measured time of a cell"`
	Warmup        time.Duration   `default:"3s" help:"load before it"`
	Idle          time.Duration   `default:"2s" help:"time without load before that: what a bot asks of Redis then is subtracted"`
	Timeout       time.Duration   `default:"30s" help:"a reply that takes longer is lost"`
	Replicas      int             `default:"1" help:"processes of the bot; the messages of every conversation go round them"`
	Cold          int             `default:"5" help:"cold starts"`
	Bot           string          `help:"binary of the bot to measure; built from cmd/bot when empty"`
	Cores         string          `help:"cores that the bot may use, for taskset -c; any when empty"`
	Out           string          `default:"bench/out" help:"folder for the logs of the bot and of Redis"`
}

// Validate is called by kong.
func (o *options) Validate() error {
	if o.Replicas < 1 || o.Duration <= 0 || o.Cold < 0 || slices.ContainsFunc(o.Conversations, func(n int) bool { return n < 1 }) {
		return errors.New("--conversations, --replicas and --duration have to be positive, --cold not negative")
	}
	return nil
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var o options
	parser := kong.Must(&o, kong.Name("turns"), kong.Writers(stdout, stderr))
	_, err := parser.Parse(args)
	sound := false
	if err == nil {
		sound, err = measure(ctx, o, stdout)
	}
	switch {
	case err != nil:
		fmt.Fprintln(stderr, "turns:", err)
		return 2
	case !sound:
		return 1
	}
	return 0
}

// measure runs all cells, prints a row for each, and reports whether nothing went wrong
// with a message or a reply.
func measure(ctx context.Context, o options, w io.Writer) (sound bool, err error) {
	if err := os.MkdirAll(o.Out, 0o755); err != nil {
		return false, fmt.Errorf("folder for the logs: %w", err)
	}
	dir, err := os.MkdirTemp("", "planbot-turns")
	if err != nil {
		return false, fmt.Errorf("folder for binaries: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if o.Bot == "" {
		o.Bot = filepath.Join(dir, "bot")
		if out, err := exec.CommandContext(ctx, "go", "build", "-o", o.Bot, "github.com/planbot-go/planbot/cmd/bot").CombinedOutput(); err != nil {
			return false, fmt.Errorf("build cmd/bot: %w\n%s", err, out)
		}
	}
	m, err := startModel(ctx)
	if err != nil {
		return false, err
	}
	defer m.close()
	r := &rig{options: o, dir: dir, model: m}

	if o.Cold > 0 {
		var took []time.Duration
		for range o.Cold {
			one, err := r.coldStart(ctx)
			if err != nil {
				return false, fmt.Errorf("cold start: %w", err)
			}
			took = append(took, one)
		}
		slices.Sort(took)
		fmt.Fprintf(w, "Cold start: median %.0f ms, %.0f to %.0f ms.\n\n", ms(took[len(took)/2]), ms(took[0]), ms(took[len(took)-1]))
	}
	head := "| replicas | model ms | conversations | turns/s | p50 ms | p95 ms | p99 ms | CPU ms/turn | bot cores | load cores | peak RSS MiB " +
		"| Redis round trips | commands | Redis CPU ms | model calls | bytes/call | errors/lost/doubled/stray/reordered |"
	fmt.Fprintf(w, "%s\n|%s\n", head, strings.Repeat("--:|", strings.Count(head, "|")-1))
	sound = true
	for _, latency := range o.Latency {
		for _, n := range o.Conversations {
			c, err := r.cell(ctx, latency, n)
			if err != nil {
				return false, fmt.Errorf("model %v, %d conversations: %w", latency, n, err)
			}
			fmt.Fprintln(w, c)
			if c.fault != "" {
				fmt.Fprintln(w, "\nFirst fault:", c.fault)
			}
			sound = sound && !c.failed()
		}
	}
	return sound, nil
}

// rig is what the bot is measured with.
type rig struct {
	options
	dir   string // of this run
	model *model
}

// coldStart measures the time from the start of a process to the first reply.
func (r *rig) coldStart(ctx context.Context) (took time.Duration, err error) {
	err = r.with(ctx, 0, 1, 1, func(_ *redisServer, _ bot, l *load, began time.Time) error {
		if !l.talks[0].turn(ctx) {
			_, fault := l.outcome()
			return fmt.Errorf("the first message was not answered: %s", fault)
		}
		took = time.Since(began)
		return nil
	})
	return took, err
}

// with starts fresh processes of the bot on an empty Redis, and conversations that are ready to
// begin.
func (r *rig) with(ctx context.Context, latency time.Duration, replicas, conversations int, use func(*redisServer, bot, *load, time.Time) error) error {
	r.model.latency.Store(int64(latency))
	redis, err := r.startRedis(ctx)
	if err != nil {
		return err
	}
	defer redis.stop()
	began := time.Now()
	b, err := r.startBot(ctx, redis, replicas)
	defer b.stop()
	if err != nil {
		return err
	}
	l, err := newLoad(ctx, b.urls(), conversations, r.Timeout)
	if err != nil {
		return err
	}
	defer l.close()
	return use(redis, b, l, began)
}

// cell measures one load.
func (r *rig) cell(ctx context.Context, latency time.Duration, conversations int) (c cell, err error) {
	c = cell{replicas: r.Replicas, latency: latency, conversations: conversations}
	err = r.with(ctx, latency, r.Replicas, conversations, func(redis *redisServer, b bot, l *load, _ time.Time) error {
		if err := pause(ctx, min(r.Idle, time.Second)); err != nil { // a bot that just started is busy
			return err
		}
		if c.idle, err = r.window(ctx, redis, b, r.Idle); err != nil {
			return err
		}
		l.start(ctx)
		defer l.end() // also when something fails below
		if err := pause(ctx, r.Warmup); err != nil {
			return err
		}
		l.measuring.Store(true)
		c.used, err = r.window(ctx, redis, b, r.Duration)
		l.measuring.Store(false)
		if err != nil {
			return err
		}
		c.peakMiB = b.peakMiB()
		l.end()
		for _, talk := range l.talks {
			c.turns = append(c.turns, talk.turns...)
		}
		slices.Sort(c.turns)
		c.counts, c.fault = l.outcome()
		return b.died()
	})
	return c, err
}

// usage is what was used up to a moment, or within a window.
type usage struct {
	time, bot, load, redis time.Duration // that passed, and of CPUs; load is that of stand-ins and Redis, too
	reads                  int64         // of Redis' sockets: a pipeline of up to 16 KiB is one
	commands               int64         // of Redis, those that scripts run included
	modelCalls, modelBytes int64
}

// window waits and returns what was used meanwhile, without what it asks of Redis itself.
func (r *rig) window(ctx context.Context, redis *redisServer, b bot, d time.Duration) (used usage, err error) {
	began := time.Now()
	add := func(sign int64) error { // what was used so far
		reads, commands, err := redis.stats(ctx)
		of, factor := cpuOf(redis.process.cmd.Process.Pid), time.Duration(sign)
		used.time += factor * time.Since(began)
		used.bot += factor * b.cpu()
		used.load += factor * (cpuOf(os.Getpid()) + of)
		used.redis += factor * of
		used.reads += sign * reads
		used.commands += sign * commands
		used.modelCalls += sign * r.model.calls.Load()
		used.modelBytes += sign * r.model.bytes.Load()
		return err
	}
	if err := cmp.Or(add(-1), pause(ctx, d), add(1)); err != nil {
		return usage{}, err
	}
	used.reads--
	used.commands--
	return used, nil
}

// cell is what was measured under one load.
type cell struct {
	replicas      int
	latency       time.Duration
	conversations int
	idle, used    usage
	turns         []time.Duration // of the measured time, sorted
	peakMiB       float64
	counts        outcome
	fault         string // the first thing that went wrong
}

// failed reports whether anything went wrong with a message or a reply, or nothing was measured.
func (c *cell) failed() bool { return len(c.turns) == 0 || c.counts != outcome{} }

// String is the row of the table.
func (c cell) String() string {
	u, seconds, n := c.used, c.used.time.Seconds(), float64(max(len(c.turns), 1))
	quiet := seconds / max(c.idle.time.Seconds(), 0.001) // how many times the idle window fits in
	return fmt.Sprintf("| %d | %v | %d | %.0f | %.1f | %.1f | %.1f | %.3f | %.2f | %.2f | %.0f | %.2f | %.2f | %.3f | %.2f | %.0f | %d/%d/%d/%d/%d |",
		c.replicas, ms(c.latency), c.conversations, float64(len(c.turns))/seconds,
		percentile(c.turns, 50), percentile(c.turns, 95), percentile(c.turns, 99),
		ms(u.bot)/n, u.bot.Seconds()/seconds, u.load.Seconds()/seconds, c.peakMiB,
		(float64(u.reads)-float64(c.idle.reads)*quiet)/n, (float64(u.commands)-float64(c.idle.commands)*quiet)/n, ms(u.redis)/n,
		float64(u.modelCalls)/n, float64(u.modelBytes)/float64(max(u.modelCalls, 1)),
		c.counts.errors, c.counts.lost, c.counts.doubled, c.counts.stray, c.counts.reordered)
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

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
