// Package loopback tells what is this machine, and what only looks so.
package loopback

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// IsHost reports whether host, a name or an address without a port, means this machine by itself. What a
// resolver makes of localhost does not count, and another name may resolve to anything.
func IsHost(host string) bool {
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && ip.Zone() == "" && ip.Unmap().IsLoopback()
}

// names and prefixes are of the headers that proxies and tunnels add. Some of them add only their own.
var (
	names    = []string{"Via", "Forwarded", "X-Real-Ip", "True-Client-Ip", "X-Client-Ip", "X-Cluster-Client-Ip", "Fly-Client-Ip", "Cdn-Loop"}
	prefixes = []string{"X-Forwarded-", "X-Original-", "Cf-", "X-Envoy-", "X-Azure-", "X-Arr-", "Tailscale-"}
)

// Proxied reports whether a proxy or tunnel says in the headers that it passed the request on. One that
// adds nothing cannot be told from a program of this machine.
func Proxied(h http.Header) bool {
	for name := range h {
		if slices.Contains(names, name) || slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
			return true
		}
	}
	return false
}
