package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// rig is everything that the bots are measured with.
type rig struct {
	options
	notes io.Writer
	cores cores
	dir   string // of this run: binaries, Redis' data
	redis *redisServer
	model *model
	bots  []bot
}

func newRig(ctx context.Context, o options, notes io.Writer) (r *rig, err error) {
	r = &rig{options: o, notes: notes}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.close())
		}
	}()
	if r.dir, err = os.MkdirTemp("", "planbot-turns"); err != nil {
		return r, fmt.Errorf("folder for binaries: %w", err)
	}
	if r.bots, err = r.lineUp(ctx); err != nil {
		return r, err
	}
	r.cores = r.shareCores(ctx)
	if r.redis, err = r.startRedis(ctx); err != nil {
		return r, err
	}
	r.model, err = startModel(ctx)
	return r, err
}

func (r *rig) close() error {
	r.model.close()
	r.redis.close()
	return os.RemoveAll(r.dir)
}

func (r *rig) note(format string, args ...any) { fmt.Fprintf(r.notes, format+"\n", args...) }

// all measures every cell, the bots of one cell right after one another.
func (r *rig) all(ctx context.Context, found *report, lines io.Writer) error {
	for _, b := range r.bots {
		if err := r.coldStarts(ctx, b, found); err != nil {
			return err
		}
	}
	for _, latency := range r.latencies {
		for _, n := range r.conversations {
			for _, b := range r.bots {
				c, err := r.cell(ctx, b, latency, n)
				if err != nil {
					return fmt.Errorf("%s, model %v, %d conversations: %w", b.Name, latency, n, err)
				}
				found.cells = append(found.cells, c)
				if err := json.NewEncoder(lines).Encode(c); err != nil {
					return fmt.Errorf("write a result: %w", err)
				}
				r.note("%s", c)
			}
		}
	}
	return nil
}

// coldStarts measures how long it takes from the start of a process to the first reply.
func (r *rig) coldStarts(ctx context.Context, b bot, found *report) error {
	r.model.latency.Store(0)
	var took []time.Duration
	for range r.cold {
		one, err := r.coldStart(ctx, b)
		if err != nil {
			return fmt.Errorf("cold start of %s: %w", b.Name, err)
		}
		took = append(took, one)
	}
	if len(took) > 0 {
		slices.Sort(took)
		found.cold = append(found.cold, coldStart{b.Name, took[len(took)/2], took[0], took[len(took)-1]})
	}
	return nil
}

func (r *rig) coldStart(ctx context.Context, b bot) (time.Duration, error) {
	if err := r.redis.flush(); err != nil {
		return 0, err
	}
	began := time.Now()
	f, err := r.start(ctx, b, 1)
	defer f.stop()
	if err != nil {
		return 0, err
	}
	l, err := newLoad(ctx, loadConfig{urls: f.urls(), conversations: 1, burst: 1, timeout: r.timeout})
	if err != nil {
		return 0, err
	}
	defer l.close()
	if !l.talks[0].turn(ctx) {
		return 0, fmt.Errorf("the first message was not answered: %s", l.fault())
	}
	return time.Since(began), nil
}

// cell measures one bot, in fresh processes, on an empty Redis.
func (r *rig) cell(ctx context.Context, b bot, latency time.Duration, conversations int) (cell, error) {
	c := cell{
		Bot: b.Name, Replicas: r.replicas, ModelMS: float64(latency) / 1e6, Conversations: conversations, Burst: r.burst,
		SharedCores: r.cores.shared,
	}
	if err := r.redis.flush(); err != nil {
		return c, err
	}
	r.model.latency.Store(int64(latency))
	f, err := r.start(ctx, b, r.replicas)
	defer f.stop()
	if err != nil {
		return c, err
	}
	idle, err := r.idleAsks(ctx, f)
	if err != nil {
		return c, err
	}
	l, err := newLoad(ctx, loadConfig{urls: f.urls(), conversations: conversations, burst: r.burst, timeout: r.timeout, retry: r.restart})
	if err != nil {
		return c, err
	}
	defer l.close()
	l.start(ctx)
	defer l.end() // also when something fails below; a second time is nothing
	if err := pause(ctx, r.warmup); err != nil {
		return c, err
	}
	window, err := r.window(ctx, f, l, c.profile())
	if err != nil {
		return c, err
	}
	c.PeakRSSMiB = f.peakMiB()
	l.end()
	c.fill(window, idle, l)
	return c, f.alive()
}

// window lets the load run and returns what it used.
func (r *rig) window(ctx context.Context, f *fleet, l *load, profile string) (usage, error) {
	before, err := r.snapshot(f)
	if err != nil {
		return usage{}, err
	}
	l.measuring.Store(true)
	end := time.After(r.duration)
	profiled := make(chan error, 1)
	go func() { profiled <- r.takeProfile(ctx, f, profile) }()
	var restarted error
	if r.restart {
		restarted = f.restart(ctx)
	}
	select {
	case <-end:
	case <-ctx.Done():
	}
	l.measuring.Store(false)
	after, err := r.snapshot(f)
	return after.since(before), errors.Join(ctx.Err(), err, restarted, <-profiled)
}

// settling is what a bot that just started gets before it is watched.
const settling = time.Second

// idleAsks is what the bot asks of Redis while nobody talks to it.
func (r *rig) idleAsks(ctx context.Context, f *fleet) (usage, error) {
	if err := pause(ctx, min(settling, r.idle)); err != nil {
		return usage{}, err
	}
	before, err := r.snapshot(f)
	if err != nil {
		return usage{}, err
	}
	if err := pause(ctx, r.idle); err != nil {
		return usage{}, err
	}
	after, err := r.snapshot(f)
	return after.since(before), err
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// path is a file of the results.
func (r *rig) path(name string) string { return filepath.Join(r.out, name) }
