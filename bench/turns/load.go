package main

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// loadConfig says how to talk to a bot.
type loadConfig struct {
	urls          []string // of the replicas; messages go round them
	conversations int
	burst         int
	timeout       time.Duration
	retry         bool // a message that was refused is sent once more
}

// load is conversations with a bot, and the connector where its replies arrive.
type load struct {
	loadConfig
	client     *http.Client
	server     *http.Server
	serviceURL string
	steps      []step
	talks      []*conversation
	measuring  atomic.Bool
	ended      chan struct{}
	end        func() // waits until all conversations are over
	running    sync.WaitGroup
	sent       atomic.Uint64
	arrived    atomic.Int64
	counts     counts
	first      atomic.Pointer[string] // that went wrong
}

// conversation is one person who talks to the bot.
type conversation struct {
	load   *load
	id     string
	number int

	mu       sync.Mutex
	messages []*message
	latest   int // number of the latest message that was replied to; -1: none

	turns, acks []time.Duration // measured ones, of the goroutine that talks
}

// lateness is what replies that come twice get to arrive after the last message.
const lateness = 300 * time.Millisecond

func newLoad(ctx context.Context, cfg loadConfig) (*load, error) {
	l := &load{loadConfig: cfg, steps: cycle(), ended: make(chan struct{})}
	l.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: cfg.conversations, DisableCompression: true}}
	l.end = sync.OnceFunc(func() {
		close(l.ended)
		l.running.Wait()
		time.Sleep(lateness)
	})
	run := strconv.FormatInt(time.Now().UnixNano(), 36)
	for i := range cfg.conversations {
		l.talks = append(l.talks, &conversation{load: l, id: fmt.Sprintf("a:%s-%d", run, i), number: i, latest: -1})
	}
	return l, l.listen(ctx)
}

func (l *load) close() {
	l.client.CloseIdleConnections()
	_ = l.server.Close() // nobody replies any more
}

// start lets all conversations begin.
func (l *load) start(ctx context.Context) {
	for _, c := range l.talks {
		l.running.Go(func() {
			for !l.over(ctx) {
				c.turn(ctx)
			}
		})
	}
}

func (l *load) over(ctx context.Context) bool {
	select {
	case <-l.ended:
		return true
	case <-ctx.Done():
		return true
	default:
		return false
	}
}

// backOff keeps a bot that refuses everything from being asked without a pause.
const backOff = 20 * time.Millisecond

// turn sends as many messages as a burst has, each when the bot has taken the one
// before, waits for the replies, and reports whether all came.
func (c *conversation) turn(ctx context.Context) (answered bool) {
	var waiting []*message
	for range c.load.burst {
		m, taken := c.send(ctx)
		if !taken {
			_ = pause(ctx, backOff) // the end of ctx is noticed by all who wait
			break
		}
		waiting = append(waiting, m)
	}
	answered = len(waiting) == c.load.burst
	for _, m := range waiting {
		answered = c.await(ctx, m) && answered
	}
	return answered
}

// send posts the next message of the cycle.
func (c *conversation) send(ctx context.Context) (m *message, taken bool) {
	m, n := c.open()
	text := c.load.steps[n%len(c.load.steps)].text + tagMark + tag(c.number, n)
	m.sent = time.Now()
	err := c.load.deliver(ctx, c.activity(n, text))
	switch {
	case ctx.Err() != nil:
		return m, false
	case err != nil:
		c.load.counts.errors.Add(1)
		c.load.note(err.Error())
		return m, false
	}
	if c.load.measuring.Load() {
		c.acks = append(c.acks, time.Since(m.sent))
	}
	return m, true
}

// await waits for the reply to a message.
func (c *conversation) await(ctx context.Context, m *message) bool {
	late := time.NewTimer(time.Until(m.sent.Add(c.load.timeout)))
	defer late.Stop()
	select {
	case at := <-m.reply:
		if c.load.measuring.Load() {
			c.turns = append(c.turns, at.Sub(m.sent))
		}
		return true
	case <-late.C:
		c.load.counts.lost.Add(1)
		c.load.note("no reply in " + c.load.timeout.String() + " in " + c.id)
	case <-ctx.Done():
	}
	return false
}

// note keeps the first thing that went wrong.
func (l *load) note(what string) {
	what = strings.ToValidUTF8(what[:min(len(what), 300)], "")
	l.first.CompareAndSwap(nil, &what)
}

// fault is the first thing that went wrong, or "".
func (l *load) fault() string {
	if what := l.first.Load(); what != nil {
		return *what
	}
	return ""
}
