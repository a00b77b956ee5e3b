package state

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// OpenEmbedded makes a Redis that runs inside the process: nothing to install,
// no port that others could connect to, and nothing outlives the process or
// Close. Everything goes through the client and the scripts that a real server
// sees.
func OpenEmbedded(cfg Config) (*Redis, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	server, err := startEmbedded()
	if err != nil {
		return nil, fmt.Errorf("start embedded redis: %w", err)
	}
	redis.SetLogger(clientLog{cfg.Log})
	o := &redis.Options{
		Addr:       pipeAddr{}.String(),
		Dialer:     server.dial,
		Protocol:   2,
		MaxRetries: -1, // nothing gets lost on the way
		PoolSize:   16, PipelinePoolSize: -1,
	}
	tune(o)
	r := newRedis(clientsOf(o, "embedded redis"), cfg)
	r.stop = server.stop
	return r, nil
}

// embedded is a miniredis without a listener, and the clock that its TTLs need.
type embedded struct {
	mini *miniredis.Miniredis
	done chan struct{}
	wg   sync.WaitGroup

	mu     sync.Mutex
	closed bool
}

func startEmbedded() (*embedded, error) {
	e := &embedded{mini: miniredis.NewMiniRedis(), done: make(chan struct{})}
	first, err := e.mini.Dial() // starts it without a port; its own pipe is not for pipelines
	if err != nil {
		return nil, err
	}
	if err := first.Close(); err != nil {
		return nil, err
	}
	e.wg.Go(e.tick)
	return e, nil
}

func (e *embedded) dial(context.Context, string, string) (net.Conn, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, errors.New("embedded redis is closed")
	}
	client, server := newPipe()
	e.mini.Server().ServeConn(server)
	return client, nil
}

// tick lets time pass for TTLs, once a second: miniredis would otherwise keep
// every key for ever, or look at all of them on every command.
func (e *embedded) tick() {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	last := time.Now()
	for {
		select {
		case <-e.done:
			return
		case now := <-ticker.C:
			e.mini.FastForward(now.Sub(last))
			last = now
		}
	}
}

// stop ends the server and waits for its goroutines.
func (e *embedded) stop() {
	e.mu.Lock()
	closed := e.closed
	e.closed = true
	e.mu.Unlock()
	if closed {
		return
	}
	close(e.done)
	e.wg.Wait()
	e.mini.Close()
}
