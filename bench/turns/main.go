// Command turns measures what a bot adds to a turn, with nothing but this
// repository and a redis-server: it builds the bot, starts Redis and stand-ins for
// the model and the channel, lets conversations talk to the bot, and counts.
// README.md in the folder above says how to read what it prints.
//
// It ends with status 1 when a reply was lost, came twice, came out of order or
// belonged to nothing, or when a message was not taken; with 2 when it could not
// measure.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// The statuses that the program ends with.
const (
	exitFailed = 1
	exitBroken = 2
)

func main() {
	// The load shares its cores with the stand-ins: what it does not collect, it can send.
	debug.SetGCPercent(400)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// options are the flags.
type options struct {
	conversations    []int
	latencies        []time.Duration
	duration, warmup time.Duration
	idle, timeout    time.Duration
	replicas, burst  int
	cold             int
	restart          bool
	profile, aof     bool
	pin              bool
	bots, out        string
	only             []string
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	var found report
	if err == nil {
		found, err = measure(ctx, o, stderr)
	}
	found.print(stdout)
	switch {
	case err != nil:
		fmt.Fprintln(stderr, "turns:", err)
		return exitBroken
	case found.failed():
		return exitFailed
	}
	return 0
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("turns", flag.ContinueOnError)
	f.SetOutput(stderr)
	conversations := f.String("conversations", "16,128,512", "conversations that talk at the same time, one cell each")
	latencies := f.String("latency", "0s,200ms", "how long the model takes, one cell each")
	only := f.String("only", "", "names of the bots to measure; all when empty")
	f.DurationVar(&o.duration, "duration", 5*time.Second, "measured time of a cell")
	f.DurationVar(&o.warmup, "warmup", 3*time.Second, "load before it")
	f.DurationVar(&o.idle, "idle", 2*time.Second, "time without load before that: what a bot asks of Redis then is subtracted")
	f.DurationVar(&o.timeout, "timeout", 30*time.Second, "a reply that takes longer is lost")
	f.IntVar(&o.replicas, "replicas", 1, "processes of the bot; the messages of every conversation go round them")
	f.IntVar(&o.burst, "burst", 1, "messages that a conversation sends before it waits for the replies")
	f.IntVar(&o.cold, "cold", 5, "cold starts of each bot")
	f.BoolVar(&o.restart, "restart", false, "end and start one replica after the other while measuring; what is refused is sent once more")
	f.BoolVar(&o.profile, "cpuprofile", false, "take a CPU profile of the first replica; CPU figures then include that")
	f.BoolVar(&o.aof, "aof", false, "let Redis keep an append-only file, written out each second")
	f.BoolVar(&o.pin, "pin", true, "keep bots and load on cores of their own, with taskset")
	f.StringVar(&o.bots, "bots", "", "JSON file with more bots")
	f.StringVar(&o.out, "out", "bench/out", "folder for logs, profiles and turns.jsonl, a line for each cell")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	var errs [3]error
	o.conversations, errs[0] = list("conversations", *conversations, strconv.Atoi)
	o.latencies, errs[1] = list("latency", *latencies, time.ParseDuration)
	o.only, errs[2] = list("only", *only, func(s string) (string, error) { return s, nil })
	return o, errors.Join(append(errs[:], o.check(f.Args()))...)
}

func (o *options) check(rest []string) error {
	switch {
	case len(rest) > 0:
		return fmt.Errorf("%q is no flag", rest)
	case o.replicas < 1 || o.burst < 1 || o.duration <= 0 || o.cold < 0:
		return errors.New("-replicas, -burst and -duration have to be positive, -cold not negative")
	case o.restart && o.replicas < 2:
		return errors.New("-restart needs -replicas 2 or more: who else should take what one refuses?")
	}
	for _, n := range o.conversations {
		if n < 1 {
			return fmt.Errorf("-conversations %d", n)
		}
	}
	return nil
}

// list reads the values of a flag that are separated by commas.
func list[T any](name, values string, read func(string) (T, error)) ([]T, error) {
	var all []T
	for part := range strings.SplitSeq(values, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		one, err := read(part)
		if err != nil {
			return nil, fmt.Errorf("-%s: %w", name, err)
		}
		all = append(all, one)
	}
	return all, nil
}

// measure runs all cells. What it found so far is returned with an error, too.
func measure(ctx context.Context, o options, notes io.Writer) (found report, err error) {
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return found, fmt.Errorf("folder for the results: %w", err)
	}
	lines, err := os.OpenFile(filepath.Join(o.out, "turns.jsonl"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return found, fmt.Errorf("file for the results: %w", err)
	}
	defer func() { err = errors.Join(err, lines.Close()) }()
	r, err := newRig(ctx, o, notes)
	if err != nil {
		return found, err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	return found, r.all(ctx, &found, lines)
}
