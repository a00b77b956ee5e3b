package auth_test

import (
	"context"
	"crypto"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/planbot-go/planbot/internal/testing/ci"
)

var (
	loadFor = flag.Duration("load", time.Second, "how long good messages are sent, with and without a flood")
	slow    = flag.Int("slow", 300, "how many slow connections strangers keep open")
	most    = flag.Int("connections", 100, "how many connections the bot takes")
)

// tolerable is how long a good message may take to be acknowledged in the worst of
// floods, on a machine that is busy with other things as well.
const tolerable = 5 * time.Second

// TestFlood: slow connections, more than there may be, and bad tokens do not keep good
// messages out.
func TestFlood(t *testing.T) {
	ci.Only(t, "measures a flood, beside which nothing else may run")
	t.Parallel()
	w := newWorld(t, fmt.Sprint("BOT_MAX_CONNECTIONS=", *most))
	w.works()
	quiet := w.goodMessages()
	ctx, stop := context.WithCancel(t.Context())
	var strangers sync.WaitGroup
	var opened, refused atomic.Int64
	for range 2 {
		strangers.Go(func() { w.forge(ctx, &refused) })
	}
	for i := range *slow {
		strangers.Go(func() { w.dawdle(ctx, i, &opened) })
	}
	for (opened.Load() < int64(*slow) || refused.Load() == 0) && !t.Failed() {
		time.Sleep(10 * time.Millisecond) // strangers take their time, and nobody tells
	}
	flooded := w.goodMessages()
	stop()
	strangers.Wait()
	w.works()
	t.Logf("%d connections at most, %d slow ones opened by %d strangers, %d bad tokens refused", *most, opened.Load(), *slow, refused.Load())
	for i, kind := range []string{"kept connections", "fresh connections"} {
		t.Logf("%s, in quiet:   %s", kind, quiet[i])
		t.Logf("%s, in a flood: %s", kind, flooded[i])
		if worst := flooded[i][len(flooded[i])-1]; worst > tolerable {
			t.Errorf("a good message took %s", worst)
		}
	}
	w.logIsClean()
}

// TestUnreadAnswers: who asks and does not read what is answered takes connections from
// nobody but himself.
func TestUnreadAnswers(t *testing.T) {
	t.Parallel()
	for name, path := range map[string]string{
		"short": "/healthz", "long": "//" + strings.Repeat("a", 25_000), "refusal": "/api/messages",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "BOT_MAX_CONNECTIONS=1")
			w.works()
			w.client.CloseIdleConnections()
			w.asksAndDoesNotRead(path)
			began := time.Now()
			w.works()
			if took := time.Since(began); took > tolerable {
				t.Errorf("a good message took %s", took)
			}
			w.logIsClean()
		})
	}
}

// asksAndDoesNotRead asks until the answers fill all that there is between the two.
func (w *world) asksAndDoesNotRead(path string) {
	w.Helper()
	questions := []byte(strings.Repeat("GET "+path+" HTTP/1.1\r\nHost: x\r\n\r\n", 100))
	l := w.dial(time.Minute)
	_ = l.Conn.(*net.TCPConn).SetReadBuffer(4096)
	for {
		_ = l.SetWriteDeadline(time.Now().Add(time.Second))
		if _, err := l.Write(questions); err != nil {
			return
		}
	}
}

// times are sorted.
type times []time.Duration

func (s times) String() string {
	at := func(share float64) time.Duration { return s[int(share*float64(len(s)-1))].Round(10 * time.Microsecond) }
	return fmt.Sprintf("%d messages, p50 %s, p99 %s, worst %s", len(s), at(0.5), at(0.99), at(1))
}

// goodMessages are sent by a few people for a while, each of whom waits for the answer;
// half of them over connections that are kept, the others over fresh ones. All have to be
// taken.
func (w *world) goodMessages() (all [2]times) {
	w.Helper()
	fresh := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 30 * time.Second}
	var mu sync.Mutex
	var people sync.WaitGroup
	end := time.Now().Add(*loadFor)
	for i := range 4 {
		client, kind := w.client, i%2
		if kind == 1 {
			client = fresh
		}
		people.Go(func() {
			for time.Now().Before(end) {
				took, err := w.timed(client)
				if err != nil {
					w.Error(err)
					return
				}
				w.next()
				mu.Lock()
				all[kind] = append(all[kind], took)
				mu.Unlock()
			}
		})
	}
	people.Wait()
	for _, one := range all {
		if len(one) == 0 {
			w.Fatal("no good message was sent")
		}
		slices.Sort(one)
	}
	return all
}

func (w *world) timed(client *http.Client) (time.Duration, error) {
	req := w.request(w.good())
	began := time.Now()
	resp, err := client.Do(req)
	if err != nil {
		return 0, fmt.Errorf("a good message was not taken: %w", err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("a good message got %d", resp.StatusCode)
	}
	return time.Since(began), nil
}

// dawdle keeps a connection open that never gets to the end of a request, and opens
// another one when it is closed.
func (w *world) dawdle(ctx context.Context, i int, opened *atomic.Int64) {
	text := []string{
		"",
		"POST /api/messages HTTP/1.1\r\nHost: x\r\nX-Slow: ",
		"POST /api/messages HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nAuthorization: Bearer a.b.c\r\nContent-Length: 100000\r\n\r\n{",
	}[i%3]
	for ctx.Err() == nil {
		conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", w.addr)
		if err != nil {
			continue
		}
		opened.Add(1)
		end := context.AfterFunc(ctx, func() { _ = conn.Close() })
		_, _ = io.WriteString(conn, text)
		_, _ = io.Copy(io.Discard, conn) // until it is closed
		end()
		_ = conn.Close()
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond): // so that the machine is not busy with strangers alone
		}
	}
}

// forge sends tokens that are wrong in nothing but their signature.
func (w *world) forge(ctx context.Context, refused *atomic.Int64) {
	a := w.good()
	a.token.sign = signedBy("attacker", crypto.SHA256)
	a.bearer = []string{"Bearer " + a.token.String()} // making it costs more than refusing it
	for ctx.Err() == nil {
		resp, err := w.client.Do(w.request(a).WithContext(ctx))
		if err != nil {
			continue // its connection was closed for another
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusUnauthorized && !strings.HasPrefix(resp.Status, "5") {
			w.Errorf("a forged token got %d", resp.StatusCode)
			return
		}
		refused.Add(1)
	}
}
