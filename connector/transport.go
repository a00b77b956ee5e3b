package connector

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"

	"github.com/planbot-go/planbot/internal/netaddr"
)

const (
	dialTimeout    = 10 * time.Second
	maxIdlePerHost = 128 // a region's connector is one host
)

// newTransport returns a pooled transport that opens every connection with dial.
func newTransport(dial func(ctx context.Context, network, addr string) (net.Conn, error)) *http.Transport {
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            dial,
		ForceAttemptHTTP2:      true,
		MaxIdleConns:           2 * maxIdlePerHost,
		MaxIdleConnsPerHost:    maxIdlePerHost,
		IdleConnTimeout:        90 * time.Second,
		TLSHandshakeTimeout:    dialTimeout,
		MaxResponseHeaderBytes: 64 << 10,
	}
}

// noRedirects returns a client that returns a redirect as an ordinary response, so a token or a
// trusted document never moves to another address.
func noRedirects(rt http.RoundTripper) *http.Client {
	return &http.Client{
		Transport:     rt,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// guardedTransport is for URLs that hosts allows. It checks the resolved address at dial time: a
// name that was public when checked cannot lead inside later. Any other host that it dials is the
// operator's proxy, which is trusted to choose addresses, because it resolves names itself.
func guardedTransport(hosts *serviceHosts) *http.Transport {
	t := newTransport(func(ctx context.Context, network, addr string) (net.Conn, error) {
		dialer := &net.Dialer{Timeout: dialTimeout}
		host, port, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, err
		}
		if r := hosts.fileReachOf(host, port); r != reachNothing {
			dialer.Control = r.control
		}
		return dialer.DialContext(ctx, network, addr)
	})
	t.DisableCompression = true // answers are short, mostly an id; and no file grows while it is read
	// When all connections are in use, wait for one. Without a limit, a burst of replies would open
	// more connections than are kept, and close them again.
	t.MaxConnsPerHost = maxIdlePerHost
	return t
}

// control runs after name resolution and before connecting.
func (r reach) control(_, addr string, _ syscall.RawConn) error {
	ap, err := netip.ParseAddrPort(addr)
	if err != nil {
		return fmt.Errorf("%w: address %s", ErrHostNotAllowed, addr)
	}
	a := ap.Addr().Unmap()
	if r == reachLoopback && !a.IsLoopback() || r == reachPublic && !netaddr.IsPublic(a) {
		return fmt.Errorf("%w: the name resolves to %s", ErrHostNotAllowed, a)
	}
	return nil
}

func closeIdle(rt http.RoundTripper) {
	if t, ok := rt.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}
