package connector_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/connector"
)

func TestServiceHosts(t *testing.T) {
	t.Parallel()
	listed := []string{" bots.example ", "other.example:8443", ".wide.example", "127.0.0.1:7001", "[::1]:7002", "localhost", ""}
	tests := []struct {
		url                  string
		open, withList, here bool // by the cloud; with the list; in local mode with the list
	}{
		{"https://smba.trafficmanager.net/emea/", true, true, false},
		{"https://SMBA.TrafficManager.net/emea", true, true, false},
		{"https://smba.trafficmanager.net./emea/", true, true, false},
		{"https://smba.trafficmanager.net:443/emea/", true, true, false},
		{"https://smba.onyx.prod.teams.trafficmanager.net/emea/", true, true, false},
		{"https://webchat.botframework.com/", true, true, false},
		{"https://botframework.com", true, true, false},
		{"https://smba.infra.gcc.teams.microsoft.com/gcc", true, true, false},
		{"https://smba.infra.gov.teams.microsoft.us/gcch", true, true, false},

		{"http://smba.trafficmanager.net/emea/", false, false, false},
		{"https://smba.trafficmanager.net:8443/", false, false, false},
		{"https://smba.trafficmanager.net:80/", false, false, false},
		{"https://smba.trafficmanager.net.evil.example/", false, false, false},
		{"https://evil.trafficmanager.net/", false, false, false},
		{"https://evilbotframework.com/", false, false, false},
		{"https://x@smba.trafficmanager.net/", false, false, false},
		{"https://smba.trafficmanager.net@evil.example/", false, false, false},
		{"https://smba.trafficmanager.net\\@evil.example/", false, false, false},
		{"https://evil.example\\.botframework.com/", false, false, false},
		{"https://evil.example#.botframework.com/", false, false, false},
		{"https://evil.example/.botframework.com/", false, false, false},
		{"https://smba.trafficmanager.net/?x=1", false, false, false},
		{"https://ѕmba.trafficmanager.net/", false, false, false},
		{"https://smba。trafficmanager。net/", false, false, false},
		{"https://smba.trafficmanager.net%2eevil.example/", false, false, false},
		{"https://evil.example%00.botframework.com/", false, false, false},
		{"https://.botframework.com/", false, false, false},
		{"https://a..botframework.com/", false, false, false},
		{"//smba.trafficmanager.net/", false, false, false},
		{"smba.trafficmanager.net", false, false, false},
		{"", false, false, false},
		{"file:///etc/passwd", false, false, false},
		{"ftp://smba.trafficmanager.net/", false, false, false},
		{"javascript:alert(1)", false, false, false},
		{"https:smba.trafficmanager.net", false, false, false},
		{"http://169.254.169.254/latest", false, false, false},
		{"https://169.254.169.254/latest", false, false, false},
		{"https://10.0.0.1/", false, false, false},
		{"https://[fe80::1%25eth0]/", false, false, false},
		{"https://2130706433/", false, false, false},
		{"https://0x7f.1/", false, false, false},

		{"https://bots.example/a", false, true, true},
		{"https://bots.example:8443/a", false, false, false},
		{"https://sub.bots.example/a", false, false, false},
		{"http://bots.example/a", false, false, false},
		{"https://other.example:8443/", false, true, true},
		{"https://other.example/", false, false, false},
		{"http://other.example:8443/", false, false, false},
		{"http://smba.trafficmanager.net:443/", false, false, false},
		{"https://a.b.wide.example/", false, true, true},
		{"https://wide.example/", false, true, true},
		{"https://notwide.example/", false, false, false},
		{"http://127.0.0.1:7001/", false, true, true},
		{"https://127.0.0.1:7001/", false, true, true},
		{"http://127.0.0.1:7003/", false, false, true},
		{"http://[::1]:7002/", false, true, true},
		{"http://localhost:56150/_connector", false, true, true},
		{"http://localhost.:56150/_connector", false, true, true},
		{"http://127.9.9.9/", false, false, true},
		{"http://[::ffff:127.0.0.1]/", false, false, true},
		{"http://localhost.evil.example/", false, false, false},
		{"http://127.0.0.1.evil.example/", false, false, false},
		{"http://0.0.0.0/", false, false, false},
	}
	open, withList := newClient(t, withApp(nil), nil), newClient(t, withApp(nil, listed...), nil)
	here := newClient(t, connector.Config{AllowedHosts: listed}, nil)
	for _, tt := range tests {
		t.Run(tt.url, func(t *testing.T) {
			t.Parallel()
			for _, c := range []struct {
				name   string
				client *connector.Client
				want   bool
			}{{"open", open, tt.open}, {"with the list", withList, tt.withList}, {"local", here, tt.here}} {
				err := c.client.Allowed(tt.url)
				if (err == nil) != c.want {
					t.Errorf("%s: err = %v, want allowed %t", c.name, err, c.want)
				}
				if err != nil && !errors.Is(err, connector.ErrHostNotAllowed) {
					t.Errorf("%s: %v is no ErrHostNotAllowed", c.name, err)
				}
			}
		})
	}
}

func TestServiceHostsNamesEveryBadEntry(t *testing.T) {
	t.Parallel()
	bad := []string{"https://a.example", "a.example/x", "a.example:0", "a.example:99999", "a.example:x", "ä.example", "u@a.example", ".com", "a b"}
	_, _, err := connector.New(connector.Config{AllowedHosts: append(bad, "good.example")})
	if err == nil {
		t.Fatal("no error")
	}
	for _, entry := range bad {
		if !strings.Contains(err.Error(), `"`+entry+`"`) {
			t.Errorf("%q is not named in: %v", entry, err)
		}
	}
	if strings.Contains(err.Error(), "good.example") {
		t.Errorf("a good entry is named in: %v", err)
	}
}

func TestClouds(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"public", "gcch", "dod", "china", "", "PUBLIC", "GCCH"} {
		cfg := withApp(nil)
		cfg.Cloud = name
		if _, _, err := connector.New(cfg); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	if _, _, err := connector.New(connector.Config{Cloud: "moon"}); err == nil || !strings.Contains(err.Error(), "gcch") {
		t.Errorf("err = %v, want the known names", err)
	}
}

// TestDialCheck lets a name through the list and looks at what it leads to.
func TestDialCheck(t *testing.T) {
	t.Parallel()
	for _, address := range []string{
		"10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.100.100.200", "0.0.0.0", "192.0.2.1",
		"224.0.0.1", "255.255.255.255", "[fe80::1]", "[fd00::1]", "[::]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[::ffff:10.0.0.1]",
	} {
		t.Run(address, func(t *testing.T) {
			t.Parallel()
			c := newClient(t, withApp(nil), fixedToken("t"))
			c.SetHosts([]string{strings.Trim(address, "[]")}, nil) // stands for a name that resolves to it
			_, err := c.Send(t.Context(), reference("https://"+address), message())
			if !errors.Is(err, connector.ErrHostNotAllowed) {
				t.Errorf("err = %v, want ErrHostNotAllowed", err)
			}
		})
	}
}
