package bot_test

import (
	"io"
	"net"
	"sync"
	"testing"
)

// cable leads to Redis, and can be cut: whoever uses it is then as good as dead.
type cable struct {
	listener net.Listener
	to       string

	mu    sync.Mutex
	cutUp bool
	conns []net.Conn
}

func newCable(t *testing.T, to string) *cable {
	t.Helper()
	var lc net.ListenConfig
	listener, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cable{listener: listener, to: to}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { c.carry(from) })
		}
	})
	t.Cleanup(func() {
		c.cut()
		serving.Wait()
	})
	return c
}

func (c *cable) addr() string { return c.listener.Addr().String() }

func (c *cable) carry(from net.Conn) {
	defer func() { _ = from.Close() }()
	to, err := net.Dial("tcp", c.to)
	if err != nil {
		return
	}
	defer func() { _ = to.Close() }()
	c.mu.Lock()
	if c.cutUp {
		c.mu.Unlock()
		return
	}
	c.conns = append(c.conns, from, to)
	c.mu.Unlock()
	go func() {
		_, _ = io.Copy(to, from)
		_ = to.Close()
	}()
	_, _ = io.Copy(from, to)
}

func (c *cable) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cutUp = true
	_ = c.listener.Close()
	for _, conn := range c.conns {
		_ = conn.Close()
	}
}
