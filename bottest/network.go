package bottest

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"

	"github.com/planbot-go/planbot/internal/pipe"
	"github.com/planbot-go/planbot/internal/turnid"
)

// dialer opens connections.
type dialer = func(ctx context.Context, network, addr string) (net.Conn, error)

// network connects the parts of a kit: in memory in a bubble, else over loopback.
type network struct {
	inMemory bool

	mu        sync.Mutex
	listeners map[string]*pipe.Listener
}

// listen opens an address. It always looks like loopback, because bots without an app id accept no
// other.
func (n *network) listen(ctx context.Context) (net.Listener, error) {
	if !n.inMemory {
		var lc net.ListenConfig
		return lc.Listen(ctx, "tcp", "127.0.0.1:0")
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	const firstPort = 40_000
	addr := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: firstPort + len(n.listeners)}
	l := pipe.Listen(addr)
	n.listeners[addr.String()] = l
	return l, nil
}

func (n *network) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if !n.inMemory {
		var d net.Dialer
		return d.DialContext(ctx, network, addr)
	}
	n.mu.Lock()
	l := n.listeners[addr]
	n.mu.Unlock()
	if l == nil {
		return nil, errors.New("dial " + addr + ": nobody listens there, and no connection leads out of the bubble")
	}
	return l.Dial(ctx)
}

// cable connects one process to others. Cutting it makes the process as good as dead.
type cable struct {
	to   dialer
	copy io.Writer // of what the process sends; nil: nobody wants it

	mu    sync.Mutex
	isCut bool
	conns []net.Conn
}

var errCut = errors.New("the connection was cut by the test")

func (c *cable) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := c.to(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isCut {
		return nil, errors.Join(errCut, conn.Close())
	}
	c.conns = append(c.conns, conn)
	if c.copy != nil {
		return copied{conn, c.copy}, nil
	}
	return conn, nil
}

// copied is a connection of which what is sent is kept.
type copied struct {
	net.Conn
	to io.Writer
}

func (c copied) Write(b []byte) (int, error) {
	_, _ = c.to.Write(b) // the test's own
	return c.Conn.Write(b)
}

// cut breaks all connections and refuses new ones, or allows them again.
func (c *cable) cut(yes bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isCut = yes
	if yes {
		for _, conn := range c.conns {
			_ = conn.Close() // broken either way
		}
		c.conns = nil
	}
}

const ofHeaderName = "X-Bottest-Of"

// labelled tells the stand-ins which turn a request belongs to.
type labelled struct{ http.RoundTripper }

func (l labelled) RoundTrip(r *http.Request) (*http.Response, error) {
	label, err := json.Marshal(turnid.From(r.Context()))
	if err != nil {
		return nil, err
	}
	out := r.Clone(r.Context())
	out.Header.Set(ofHeaderName, string(label))
	return l.RoundTripper.RoundTrip(out)
}

func ofHeader(h http.Header) (of turnid.Of) {
	_ = json.Unmarshal([]byte(h.Get(ofHeaderName)), &of) // empty for a bot with its own client
	return of
}
