package bot_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot"
)

// patience is how long these tests wait for what should come at once.
const patience = 10 * time.Second

// gatekeeper is a door of one function.
type gatekeeper func(r *http.Request) (bot.Caller, error)

func (g gatekeeper) Authenticate(r *http.Request) (bot.Caller, error) { return g(r) }

// visitor is one of whom the function says whether the activity is permitted.
type visitor func() error

func (v visitor) Permit(*activity.Activity) error { return v() }
func (visitor) Trusted() bool                     { return false }
func (visitor) ID() string                        { return "" }

var errStranger = errors.New("a stranger")

// serves starts the bot's own server, and returns its address.
func (b *bundle) serves(change func(*http.Server)) string {
	b.Helper()
	server := b.bot.NewServer(b.bot)
	change(server)
	listener := wires.Listen()
	go func() { _ = server.Serve(listener) }() // ends with Close
	b.Cleanup(func() { _ = server.Close() })
	return listener.Addr().String()
}

func asItIs(*http.Server) {}

// line is a connection that is written to by hand.
type line struct {
	*testing.T
	net.Conn
	read *bufio.Reader
}

func call(t *testing.T, addr string) *line {
	t.Helper()
	conn, err := wires.Dial(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	return &line{t, conn, bufio.NewReader(conn)}
}

func (l *line) write(text string) {
	l.Helper()
	if _, err := io.WriteString(l, text); err != nil {
		l.Fatal(err)
	}
}

// post writes the head of a request with a body of so many bytes.
func (l *line) post(bytes int, more string) {
	l.Helper()
	l.write(fmt.Sprintf("POST /api/messages HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n%s\r\n", bytes, more))
}

// answers reads one answer, and compares its status. Only a 4xx says what is wrong.
func (l *line) answers(want int) *http.Response {
	l.Helper()
	resp, err := http.ReadResponse(l.read, nil)
	if err != nil {
		l.Fatalf("want status %d: %v", want, err)
	}
	body, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	fault := strings.HasPrefix(string(body), `{"error":{"code":"`)
	if err != nil || resp.StatusCode != want || fault != (want >= http.StatusBadRequest && want < http.StatusInternalServerError) {
		l.Errorf("status %d, body %q, %v; want %d", resp.StatusCode, body, err, want)
	}
	return resp
}

// hungUp expects the end of the connection.
func (l *line) hungUp() {
	l.Helper()
	if rest, err := io.ReadAll(l.read); err != nil || len(rest) > 0 {
		l.Errorf("the connection did not end: %q, %v", rest, err)
	}
}

func TestQuietConnectionsGiveWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, func(c *bot.Config) { c.MaxConnections = 3 })
		addr := b.serves(asItIs)
		pass := func() { // so that no two have been quiet for the same time
			synctest.Wait()
			time.Sleep(time.Millisecond)
		}
		used := call(t, addr)
		used.post(2, "")
		used.write("{}")
		used.answers(http.StatusBadRequest)
		pass()
		half := call(t, addr)
		half.write("POST /api/messages HTTP/1.1\r\nHost: ")
		pass()
		silent := call(t, addr)
		pass()
		used.post(2, "")
		used.write("{}")
		used.answers(http.StatusBadRequest) // so the other two have been quiet for longer
		for _, next := range []*line{half, silent, used} {
			pass()
			fresh := call(t, addr)
			fresh.post(2, "")
			fresh.write("{}")
			fresh.answers(http.StatusBadRequest)
			next.hungUp()
		}
		if log := b.log.String(); !strings.Contains(log, "a quiet connection was closed for a new one") {
			t.Errorf("log:\n%s", log)
		}
	})
}

func TestConnectionsWaitWhileAllAreAtWork(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var inside atomic.Int32
		entered, goOn := make(chan int32, 9), make(chan struct{})
		b := setup(t, func(c *bot.Config) {
			c.MaxConnections = 2
			c.Authenticator = gatekeeper(func(*http.Request) (bot.Caller, error) {
				return visitor(func() error {
					entered <- inside.Add(1)
					defer inside.Add(-1)
					<-goOn
					return errStranger
				}), nil
			})
		})
		addr, body := b.serves(asItIs), string(b.activity(event{"text": "hi"}))
		var lines []*line
		for range 4 {
			one := call(t, addr)
			one.post(len(body), "")
			one.write(body)
			lines = append(lines, one)
		}
		<-entered
		<-entered
		for range lines {
			goOn <- struct{}{}
		}
		for _, one := range lines {
			one.answers(http.StatusUnauthorized)
		}
		for range len(lines) - 2 {
			if n := <-entered; n > 2 {
				t.Errorf("%d requests at once", n)
			}
		}
	})
}

// TestSlowClients: a byte each second keeps no connection alive.
func TestSlowClients(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		addr := b.serves(asItIs)
		began := time.Now()
		headers, body := call(t, addr), call(t, addr)
		headers.write("POST /api/messages HTTP/1.1\r\nHost: localhost\r\nX-Long: ")
		body.post(1000, "")
		for _, each := range []*line{headers, body} {
			_ = each.SetDeadline(began.Add(time.Minute))
			go func() {
				for _, err := io.WriteString(each, " "); err == nil; _, err = io.WriteString(each, " ") {
					time.Sleep(time.Second)
				}
			}()
		}
		headers.hungUp()
		if took := time.Since(began); took > 11*time.Second {
			t.Errorf("slow headers had %s", took)
		}
		body.answers(http.StatusRequestTimeout)
		body.hungUp()
		if took := time.Since(began); took > 21*time.Second {
			t.Errorf("a slow body had %s", took)
		}
	})
}

func TestStrangersAreNotWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, func(c *bot.Config) {
			c.Authenticator = gatekeeper(func(*http.Request) (bot.Caller, error) { return nil, errStranger })
		})
		addr := b.serves(func(s *http.Server) { s.ReadTimeout = time.Hour })
		for _, more := range []string{"", "Expect: 100-continue\r\n"} {
			stranger := call(t, addr)
			stranger.post(1000, more)
			stranger.answers(http.StatusUnauthorized)
			stranger.hungUp()
		}
		quick := call(t, addr)
		for range 2 { // whose body is there may go on
			quick.post(1, "")
			quick.write("x")
			quick.answers(http.StatusUnauthorized)
		}
	})
}

func TestPanicAtTheDoor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, func(c *bot.Config) {
			c.Authenticator = gatekeeper(func(r *http.Request) (bot.Caller, error) {
				if r.Header.Get("X-Abort") != "" {
					panic(http.ErrAbortHandler)
				}
				panic("do not say this")
			})
		})
		one := call(t, b.serves(asItIs))
		one.post(2, "")
		one.write("{}")
		one.answers(http.StatusInternalServerError)
		if log := b.log.String(); strings.Count(log, "\n") != 1 || !strings.Contains(log, `"status":500`) || !strings.Contains(log, "server_test.go") {
			t.Errorf("log:\n%s", log)
		}
		one.post(2, "X-Abort: yes\r\n")
		one.write("{}")
		one.hungUp()
	})
}

func TestTooManyRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, func(c *bot.Config) { c.MaxRequests = 1 })
		began, goOn := make(chan struct{}), make(chan struct{})
		b.bot.OnMessage(nil, func(ctx context.Context, turn *bot.Turn) error {
			close(began)
			<-goOn
			return turn.Tell(ctx, "done")
		})
		slow := call(t, strings.TrimPrefix(b.url, "http://"))
		slow.post(100, "") // does not count while its body is on the way
		first := make(chan answer, 1)
		go func() { first <- b.deliver(event{"text": "first"}) }()
		<-began
		if got := b.deliver(event{"text": "second"}); got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" {
			t.Errorf("one too many: %d %v", got.status, got.header)
		}
		close(goOn)
		if got := <-first; got.status != http.StatusOK {
			t.Errorf("the first: %d", got.status)
		}
		if got := b.deliver(event{"type": "typing"}); got.status != http.StatusOK {
			t.Errorf("afterwards: %d", got.status)
		}
		b.expect("done")
		b.connector.None(t)
	})
}

func TestContentHeaders(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		for _, c := range []struct {
			headers []string
			want    int
		}{
			{[]string{"Content-Type: application/json"}, http.StatusOK},
			{[]string{"Content-Type: application/json; charset=UTF-8"}, http.StatusOK},
			{[]string{"Content-Type: APPLICATION/JSON", "Content-Encoding: identity"}, http.StatusOK},
			{nil, http.StatusOK}, // local
			{[]string{"Content-Type: application/json", "Content-Type: application/json"}, http.StatusUnsupportedMediaType},
			{[]string{"Content-Type: application/json, text/plain"}, http.StatusUnsupportedMediaType},
			{[]string{"Content-Type: application/json; charset=utf-8; charset=utf-16"}, http.StatusUnsupportedMediaType},
			{[]string{"Content-Type: application/json; charset=utf-16"}, http.StatusUnsupportedMediaType},
			{[]string{"Content-Type: application/json", "Content-Encoding: identity", "Content-Encoding: gzip"}, http.StatusUnsupportedMediaType},
			{[]string{"Content-Type: application/json", "Content-Encoding: identity, gzip"}, http.StatusUnsupportedMediaType},
			{[]string{"Content-Type: text/json"}, http.StatusUnsupportedMediaType},
		} {
			one := call(t, strings.TrimPrefix(b.url, "http://"))
			body := b.activity(event{"type": "typing"})
			one.write(fmt.Sprintf("POST / HTTP/1.0\r\nHost: localhost\r\nContent-Length: %d\r\n", len(body)))
			for _, h := range c.headers {
				one.write(h + "\r\n")
			}
			one.write("\r\n" + string(body))
			if resp := one.answers(c.want); t.Failed() {
				t.Fatalf("%q: %d", c.headers, resp.StatusCode)
			}
		}
	})
}

// TestRefusalsSayWhatIsWrong with a request, but not what an Authenticator says.
func TestRefusalsSayWhatIsWrong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for body, want := range map[string]string{
			`{}`:               `400 {"error":{"code":"BadRequest","message":"malformed activity: no type"}}`,
			`{"type":"<b>",`:   `400 {"error":{"code":"BadRequest","message":"malformed activity: no JSON near byte 14"}}`,
			`{"type":"typing"`: `400 {"error":{"code":"BadRequest","message":"malformed activity: no JSON near byte 16"}}`,
			`stranger`:         `401 {"error":{"code":"Unauthorized","message":"the Authorization header has no token that this bot accepts; its log says why"}}`,
			`taken`:            `409 {"error":{"code":"Conflict","message":"Conflict"}}`,
		} {
			b := setup(t, func(c *bot.Config) {
				inner := c.Authenticator
				c.Authenticator = gatekeeper(func(r *http.Request) (bot.Caller, error) {
					switch body {
					case "stranger":
						return nil, errors.New("secret")
					case "taken":
						return nil, &bot.StatusError{Status: http.StatusConflict, Err: errors.New("secret")}
					}
					return inner.Authenticate(r)
				})
			})
			resp, err := (&http.Client{Transport: overWires}).Post(b.url, "application/json", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			said, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if got := fmt.Sprintf("%d %s", resp.StatusCode, said); err != nil || got != want {
				t.Errorf("%s: %s, want %s", body, got, want)
			}
		}
	})
}

func TestPipelinedRequestsAreAnsweredInOrder(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		good := string(b.activity(event{"type": "typing"}))
		one := call(t, b.serves(asItIs))
		one.post(len(good), "")
		one.write(good)
		one.post(1, "")
		one.write("x")
		one.post(len(good), "")
		one.write(good)
		for _, want := range []int{http.StatusOK, http.StatusBadRequest, http.StatusOK} {
			one.answers(want)
		}
	})
}

func TestAFloodOfRefusalsIsNotLogged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, func(c *bot.Config) {
			c.Authenticator = gatekeeper(func(*http.Request) (bot.Caller, error) { return nil, errStranger })
			c.Log = c.Log.Level(zerolog.InfoLevel)
		})
		one := call(t, b.serves(asItIs))
		began := time.Now()
		const many, atOnce, eachSecond = 2600, 2000, 100
		for range many {
			one.post(0, "")
			one.answers(http.StatusUnauthorized)
		}
		lines := strings.Count(b.log.String(), "activity refused")
		if most := atOnce + int(eachSecond*time.Since(began).Seconds()) + 1; lines < atOnce || lines > most {
			t.Errorf("%d lines of %d refusals, want %d to %d", lines, many, atOnce, most)
		}
	})
}
