package state_test

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/planbot-go/planbot/state"
)

// counted counts what is written to a connection.
type counted struct {
	net.Conn
	writes *atomic.Int64
}

func (c counted) Write(p []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(p)
}

// openShared opens stores of one server of this process, and counts what goes to it.
func openShared(t *testing.T, n int) (stores []*state.Redis, writes *atomic.Int64) {
	t.Helper()
	server, err := state.StartServer()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	writes = new(atomic.Int64)
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := server.Dial(ctx, network, addr)
		return counted{conn, writes}, err
	}
	for range n {
		stores = append(stores, openURL(t, "redis://here", state.Config{Dial: dial, Server: server}))
	}
	return stores, writes
}

// Nobody looks into a server of this process while nothing happens there, and all the same
// nothing is late: not what another replica puts there, nor what it leaves behind.
func TestInboxSleeps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stores, writes := openShared(t, 2)
		other, in := openInbox(t, stores[0], state.InboxConfig{}), openInbox(t, stores[1], state.InboxConfig{})
		claimed := claims(t, in)
		quiet := func() {
			t.Helper()
			time.Sleep(time.Minute)
			before := writes.Load()
			time.Sleep(24 * time.Hour)
			if n := writes.Load() - before; n > 500 {
				t.Errorf("%d writes in a day in which nothing happened", n)
			}
		}
		within := func(d time.Duration) *state.Hold {
			t.Helper()
			select {
			case h := <-claimed:
				return h
			case <-time.After(d):
				t.Fatalf("nothing after %v", d)
				return nil
			}
		}
		quiet()
		for _, after := range []time.Duration{90 * time.Minute, 0} {
			timer := state.Timer{Lane: entry("").Lane, ID: "tea", At: time.Now().Add(after), Body: []byte("tea")}
			if err := other.Schedule(t.Context(), timer); err != nil {
				t.Fatal(err)
			}
			finish(t, within(after+3*time.Second), false)
			quiet()
		}
		accept(t, other, entry("hello")) // which it takes itself
		other.Close()                    // and is gone
		finish(t, within(10*time.Second), false)
		quiet()
	})
}

// TTLs count also when nothing is asked for meanwhile.
func TestServerAges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stores, _ := openShared(t, 1)
		client := stores[0].Client()
		for range 2 {
			if err := client.Set(t.Context(), "tea", "hot", 10*time.Second).Err(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(5 * time.Second)
			if err := client.Get(t.Context(), "tea").Err(); err != nil {
				t.Errorf("after 5 of 10 seconds: %v", err)
			}
			time.Sleep(6 * time.Second)
			if err := client.Get(t.Context(), "tea").Err(); !errors.Is(err, redis.Nil) {
				t.Errorf("after 11 of 10 seconds: %v", err)
			}
			time.Sleep(24 * time.Hour)
		}
	})
}
