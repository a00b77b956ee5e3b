// Package netaddr tells addresses on the public internet from those that lead into a network of somebody's own.
package netaddr

import (
	"net/netip"
	"slices"
	"strings"
)

var (
	nat64         = netip.MustParsePrefix("64:ff9b::/96")
	sixToFour     = netip.MustParsePrefix("2002::/16")
	globalUnicast = netip.MustParsePrefix("2000::/3") // all that IANA has given out
	// special are the IANA special-purpose ranges that lead to no host on the internet or hide where they
	// lead, and the address at which Azure serves its machines.
	special = prefixes(`
		0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 168.63.129.16/32 169.254.0.0/16 172.16.0.0/12
		192.0.0.0/24 192.0.2.0/24 192.88.99.0/24 192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24
		224.0.0.0/4 240.0.0.0/4
		2001::/23 2001:db8::/32 3fff::/20`)
)

func prefixes(list string) (all []netip.Prefix) {
	for text := range strings.FieldsSeq(list) {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

// Carried is the IPv4 address that a NAT64 (RFC 6052), 6to4 (RFC 3056) or mapped address stands for; of any
// other address it is the address itself, without its zone.
func Carried(a netip.Addr) netip.Addr {
	a = a.WithZone("").Unmap() // no prefix contains an address with a zone
	b := a.As16()
	switch {
	case nat64.Contains(a):
		return netip.AddrFrom4([4]byte(b[12:]))
	case sixToFour.Contains(a):
		return netip.AddrFrom4([4]byte(b[2:6]))
	}
	return a
}

// IsPublic reports whether an address, or the one that it carries, is on the public internet. The zero Addr is not.
func IsPublic(a netip.Addr) bool {
	if !a.IsValid() {
		return false
	}
	a = Carried(a)
	if a.Is6() && !globalUnicast.Contains(a) {
		return false
	}
	return !slices.ContainsFunc(special, func(p netip.Prefix) bool { return p.Contains(a) })
}
