package connector

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"time"
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
	if r == reachLoopback && !a.IsLoopback() || r == reachPublic && !publicAddress(a) {
		return fmt.Errorf("%w: the name resolves to %s", ErrHostNotAllowed, a)
	}
	return nil
}

// publicAddress reports whether a is on the public internet: not private, and not in one of the
// specialRanges.
func publicAddress(a netip.Addr) bool {
	if nat64.Contains(a) {
		b := a.As16()
		a = netip.AddrFrom4([4]byte(b[12:]))
	}
	special := slices.ContainsFunc(specialRanges, func(p netip.Prefix) bool { return p.Contains(a) })
	return a.IsGlobalUnicast() && !a.IsPrivate() && !special
}

var (
	nat64 = netip.MustParsePrefix("64:ff9b::/96")
	// specialRanges are the IANA special-purpose ranges that lead to no host on the internet or
	// hide where they lead, and the address from which Azure serves its machines.
	specialRanges = prefixes(
		"0.0.0.0/8 192.0.0.0/24 192.0.2.0/24 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 240.0.0.0/4",
		"100.64.0.0/10",            // carrier NAT, cloud metadata
		"168.63.129.16/32",         // Azure's host
		"192.88.99.0/24 2002::/16", // 6to4: any IPv4 address
		"::/96",                    // old forms of embedded IPv4
		"64:ff9b:1::/48 100::/64 2001::/23 2001:db8::/32 3fff::/20 5f00::/16 fec0::/10",
	)
)

func prefixes(lists ...string) (all []netip.Prefix) {
	for _, text := range strings.Fields(strings.Join(lists, " ")) {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

func closeIdle(rt http.RoundTripper) {
	if t, ok := rt.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}
