package connections

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/planbot-go/planbot/internal/netaddr"
)

// ErrAddress is wrapped by the error of a dial to an address that a [Dialer] does not allow. Nothing was
// sent there.
var ErrAddress = errors.New("the address is not public, and not in a private network that is allowed")

// Dialer connects to services on the public internet. It judges the address that a name resolves to just
// before it connects, so a name that was public a moment ago cannot lead inside. The zero value is ready to
// use. It is safe for concurrent use.
type Dialer struct {
	// Private are networks to which it also connects, such as 10.1.0.0/16, and 127.0.0.0/8 for this machine.
	Private []netip.Prefix
	// Resolver resolves names. nil: that of the system.
	Resolver *net.Resolver
}

// ThisMachine are the networks of loopback addresses, for [Dialer.Private].
func ThisMachine() []netip.Prefix {
	return []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
}

// DialContext connects to host:port over TCP. Its error wraps [ErrAddress] if all addresses of the host are
// refused. It is for [http.Transport].
func (d Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: dialTimeout, Resolver: d.Resolver, Control: func(network, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil || !strings.HasPrefix(network, "tcp") {
			return fmt.Errorf("%w: %s %s", ErrAddress, network, address)
		}
		return d.allows(at.Addr())
	}}
	return dialer.DialContext(ctx, network, address)
}

const dialTimeout = 10 * time.Second

// CheckHost returns an error that wraps [ErrAddress] if a host, a name or an address, is known to be one that
// d would not connect to.
func (d Dialer) CheckHost(ctx context.Context, host string) error {
	if address, err := netip.ParseAddr(host); err == nil {
		return d.allows(address)
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	all, _ := cmp.Or(d.Resolver, net.DefaultResolver).LookupNetIP(ctx, "ip", host) // a name that is not known leads nowhere
	for _, address := range all {
		if err := d.allows(address); err != nil {
			return err
		}
	}
	return nil
}

// allows returns an error that wraps [ErrAddress] unless the address is public or in Private.
func (d Dialer) allows(address netip.Addr) error {
	if !address.IsValid() {
		return fmt.Errorf("%w: %s", ErrAddress, address)
	}
	for _, a := range []netip.Addr{address.WithZone("").Unmap(), netaddr.Carried(address)} {
		private := slices.ContainsFunc(d.Private, func(p netip.Prefix) bool { return p.Contains(a) })
		if private && !a.IsUnspecified() && !a.IsMulticast() {
			return nil
		}
	}
	if !netaddr.IsPublic(address) {
		return fmt.Errorf("%w: %s", ErrAddress, address)
	}
	return nil
}

// Transport returns a transport that connects with d, for https from TLS 1.2 on. If the environment names a
// proxy for an address, the transport connects to that one wherever it is, and the proxy decides where it
// connects to.
func (d Dialer) Transport() *http.Transport {
	var proxies sync.Map // at most one for http and one for https
	return &http.Transport{
		Proxy: func(r *http.Request) (*url.URL, error) {
			proxy, err := http.ProxyFromEnvironment(r)
			if proxy != nil {
				proxies.Store(addressOf(proxy), true)
			}
			return proxy, err
		},
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			if _, trusted := proxies.Load(address); trusted {
				return (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, network, address)
			}
			return d.DialContext(ctx, network, address)
		},
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2:      true,
		TLSHandshakeTimeout:    dialTimeout,
		IdleConnTimeout:        90 * time.Second,
		MaxIdleConnsPerHost:    8,
		MaxResponseHeaderBytes: 64 << 10,
	}
}

// addressOf is the address that a transport dials for a proxy.
func addressOf(proxy *url.URL) string {
	port := proxy.Port()
	if port == "" {
		port = map[string]string{"https": "443", "socks5": "1080", "socks5h": "1080"}[proxy.Scheme]
	}
	port = cmp.Or(port, "80")
	return net.JoinHostPort(proxy.Hostname(), port)
}
