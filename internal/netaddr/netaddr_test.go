package netaddr_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/internal/netaddr"
)

func TestIsPublic(t *testing.T) {
	t.Parallel()
	public := `8.8.8.8 1.1.1.1 ::ffff:8.8.8.8 64:ff9b::8.8.8.8 2002:808:808::1 2606:4700:4700::1111 2a00:1450:4001:80b::200e`
	others := `0.0.0.0 10.1.2.3 100.64.0.1 127.0.0.1 168.63.129.16 169.254.169.254 172.31.255.255 192.0.0.1 192.0.2.1 192.88.99.1
		192.168.1.1 198.18.0.1 198.51.100.1 203.0.113.1 224.0.0.1 255.255.255.255
		:: ::1 ::127.0.0.1 ::8.8.8.8 ::ffff:10.0.0.1 64:ff9b::7f00:1 64:ff9b::169.254.169.254 64:ff9b:1::1 100::1 2001::1 2001:db8::1
		2002:7f00:1:: 2002:a9fe:a9fe::1 3fff::1 5f00::1 fc00::1 fd12::1 fe80::1 fe80::1%eth0 fec0::1 ff02::1`
	for want, list := range map[bool]string{true: public, false: others} {
		for text := range strings.FieldsSeq(list) {
			if got := netaddr.IsPublic(netip.MustParseAddr(text)); got != want {
				t.Errorf("IsPublic(%s) = %v", text, got)
			}
		}
	}
	if netaddr.IsPublic(netip.Addr{}) {
		t.Error("no address is public")
	}
}
