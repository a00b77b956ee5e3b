package connections_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/planbot-go/planbot/actions/connections"
)

func TestDialerAllowsPublicAddressesOnly(t *testing.T) {
	t.Parallel()
	for list, allowed := range map[string]bool{
		"1.1.1.1 8.8.8.8 11.0.0.0 100.63.255.255 100.128.0.1 172.15.0.1 172.32.0.1 192.167.1.1 168.63.129.15 223.255.255.255":                true,
		"2606:4700::1111 2a00:1450:4001::1 2001:4860:4860::8888 ::ffff:8.8.8.8 64:ff9b::8.8.8.8 2002:808:808::1":                             true,
		"0.0.0.0 0.1.2.3 10.0.0.1 10.255.255.255 100.64.0.1 100.100.100.200 127.0.0.1 127.1.2.3 169.254.169.254 169.254.0.1":                 false,
		"172.16.0.1 172.31.255.255 192.0.0.192 192.0.2.1 192.88.99.1 192.168.0.1 198.18.0.1 198.19.255.255 198.51.100.1 203.0.113.7":         false,
		"224.0.0.1 239.1.1.1 240.0.0.1 255.255.255.255 168.63.129.16":                                                                        false,
		":: ::1 ::7f00:1 ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::ffff:0:127.0.0.1 ::169.254.169.254 fe80::1 fe80::1%eth0 fec0::1 ff02::1 ff05::2": false,
		"fc00::1 fd00:ec2::254 100::1 2001::1 2001:db8::1 3fff::1 5f00::1 4000::1 64:ff9b:1::1.2.3.4":                                        false,
		"64:ff9b::169.254.169.254 64:ff9b::10.0.0.1 64:ff9b::127.0.0.1 2002:7f00:1::1 2002:a9fe:a9fe:: 2002:a00:1::1 2002:c0a8:1::":          false,
	} {
		for text := range strings.FieldsSeq(list) {
			err := connections.Allows(connections.Dialer{}, netip.MustParseAddr(text))
			if (err == nil) != allowed || err != nil && !errors.Is(err, connections.ErrAddress) {
				t.Errorf("%s: %v, want allowed: %t", text, err, allowed)
			}
		}
	}
	if err := connections.Allows(connections.Dialer{}, netip.Addr{}); !errors.Is(err, connections.ErrAddress) {
		t.Errorf("no address: %v", err)
	}
}

func TestDialerAllowsPrivateNetworksThatAreNamed(t *testing.T) {
	t.Parallel()
	d := connections.Dialer{Private: []netip.Prefix{
		netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("fd00:1::/32"), netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("224.0.0.0/4"),
	}}
	for text, allowed := range map[string]bool{
		"10.1.2.3": true, "::ffff:10.1.2.3": true, "64:ff9b::10.1.2.3": true, "2002:a01:203::1": true, "fd00:1::5": true, "fd00:1::5%eth0": true, "8.8.8.8": true,
		"10.2.0.1": false, "fd00:2::1": false, "127.0.0.1": false, "169.254.169.254": false, "64:ff9b::10.2.0.1": false,
		"0.0.0.0": false, "224.0.0.1": false,
	} {
		if err := connections.Allows(d, netip.MustParseAddr(text)); (err == nil) != allowed {
			t.Errorf("%s: %v, want allowed: %t", text, err, allowed)
		}
	}
}

// names answers each question for an IPv4 address with the next of the list, and then with the last one.
func names(t *testing.T, list ...string) (resolver *net.Resolver, asked *atomic.Int32) {
	t.Helper()
	asked = new(atomic.Int32)
	answer := func(question []byte) []byte {
		var m dnsmessage.Message
		if err := m.Unpack(question); err != nil {
			t.Errorf("a question to the name server: %v", err)
			return nil
		}
		m.Response, m.Additionals = true, nil
		if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
			at := min(int(asked.Add(1)), len(list))
			m.Answers = []dnsmessage.Resource{{
				Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class},
				Body:   &dnsmessage.AResource{A: netip.MustParseAddr(list[at-1]).As4()},
			}}
		}
		packed, err := m.Pack()
		if err != nil {
			t.Errorf("an answer of the name server: %v", err)
		}
		return packed
	}
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe() // no net.PacketConn, so messages have their length before them
		go func() {
			defer theirs.Close()
			for {
				var size uint16
				if binary.Read(theirs, binary.BigEndian, &size) != nil {
					return
				}
				question := make([]byte, size)
				if _, err := io.ReadFull(theirs, question); err != nil {
					return
				}
				packed := answer(question)
				if _, err := theirs.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(packed))), packed...)); err != nil {
					return
				}
			}
		}()
		return ours, nil
	}}, asked
}

// TestDialerJudgesTheAddressThatItDials, whatever the name resolved to before.
func TestDialerJudgesTheAddressThatItDials(t *testing.T) {
	t.Parallel()
	var reached atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	defer server.Close()
	address := server.Listener.Addr().(*net.TCPAddr)

	resolver, asked := names(t, address.IP.String(), "169.254.169.254", "127.0.0.1")
	home := []netip.Prefix{netip.PrefixFrom(netip.MustParseAddr(address.IP.String()), 32)}
	for i, d := range []connections.Dialer{
		{Resolver: resolver, Private: home}, // it leads home, which is allowed
		{Resolver: resolver, Private: home}, // now to the metadata of a cloud
		{Resolver: resolver},                // and home, which is not
	} {
		transport := d.Transport()
		client := &http.Client{Transport: transport}
		response, err := client.Get("http://rebinds.example:" + address.AddrPort().String()[strings.LastIndex(address.String(), ":")+1:])
		if err == nil {
			_ = response.Body.Close()
		}
		if refused := errors.Is(err, connections.ErrAddress); refused != (i > 0) || reached.Load() != 1 {
			t.Errorf("dial %d: %v, reached %d times", i, err, reached.Load())
		}
		transport.CloseIdleConnections()
	}
	if asked.Load() != 3 {
		t.Errorf("the name server was asked %d times, want 3", asked.Load())
	}
}

func TestDialerSpeaksTCPOnly(t *testing.T) {
	t.Parallel()
	conn, err := connections.Dialer{}.DialContext(t.Context(), "udp", "8.8.8.8:53")
	if !errors.Is(err, connections.ErrAddress) {
		t.Errorf("udp: %v", err)
	}
	if conn != nil {
		_ = conn.Close()
	}
}

// TestDialerRefusesOtherSpellingsOfThisMachine, which some resolvers know.
func TestDialerRefusesOtherSpellingsOfThisMachine(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a request arrived") }))
	defer server.Close()
	at, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	transport := connections.Dialer{}.Transport()
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	for _, host := range []string{"localhost", "127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "2130706433", "0x7f.1", "0177.0.0.1", "127.1"} {
		response, err := client.Get("http://" + host + ":" + at.Port())
		if err == nil {
			_ = response.Body.Close()
			t.Errorf("%s: connected", host)
		}
	}
}

// TestTransportTrustsTheOperatorsProxy, which is in a private network as a rule. The environment is read
// once in a process, so another process does the asking.
func TestTransportTrustsTheOperatorsProxy(t *testing.T) {
	t.Parallel()
	const child = "CONNECTIONS_TEST_CHILD"
	transport := connections.Dialer{}.Transport()
	defer transport.CloseIdleConnections()
	if os.Getenv(child) != "" {
		response, err := (&http.Client{Transport: transport}).Get("https://service.example/x")
		if err == nil {
			_ = response.Body.Close()
		}
		return
	}
	asked := make(chan string, 1)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Method + " " + r.Host
		w.WriteHeader(http.StatusBadGateway)
	}))
	defer proxy.Close()
	again := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestTransportTrustsTheOperatorsProxy$")
	again.Env = append(os.Environ(), child+"=1", "HTTPS_PROXY="+proxy.URL, "NO_PROXY=")
	if out, err := again.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	select {
	case got := <-asked:
		if got != "CONNECT service.example:443" {
			t.Errorf("the proxy was asked %s", got)
		}
	default:
		t.Error("the proxy was not asked")
	}
}
