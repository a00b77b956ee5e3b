// Package proxied tells whether a request to this machine came from elsewhere.
package proxied

import (
	"net/http"
	"slices"
	"strings"
)

// names and prefixes are of the headers that proxies and tunnels add. Some of them add only their own.
var (
	names    = []string{"Via", "Forwarded", "X-Real-Ip", "True-Client-Ip", "X-Client-Ip", "X-Cluster-Client-Ip", "Fly-Client-Ip", "Cdn-Loop"}
	prefixes = []string{"X-Forwarded-", "X-Original-", "Cf-", "X-Envoy-", "X-Azure-", "X-Arr-", "Tailscale-"}
)

// Has reports whether a proxy or tunnel says in the headers that it passed the request on. One that
// adds nothing cannot be told from a program of this machine.
func Has(h http.Header) bool {
	for name := range h {
		if slices.Contains(names, name) || slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
			return true
		}
	}
	return false
}
