package manifest

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// label is one part of a host name, between dots.
var label = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?$`)

// shared are hosting domains whose subdomains belong to anybody, so that a
// wildcard on them trusts strangers (validDomains, documented under "domains
// outside your control"; onmicrosoft.com is the documented example).
var shared = []string{
	"onmicrosoft.com", "azurewebsites.net", "azurecontainerapps.io", "azurestaticapps.net", "cloudapp.azure.com",
	"windows.net", "devtunnels.ms", "ngrok.io", "ngrok.app", "ngrok.dev", "ngrok-free.app", "ngrok-free.dev",
	"trycloudflare.com", "herokuapp.com", "github.io", "vercel.app", "netlify.app", "sharepoint.com",
}

// identityProviders must not be listed in validDomains, says its documentation.
var identityProviders = []string{
	"login.microsoftonline.com", "login.microsoft.com", "login.live.com", "login.windows.net", "accounts.google.com",
}

// checkHost checks a host[:port] that the bot is reached at.
func checkHost(s string) error {
	switch {
	case s == "":
		return errors.New("domain is missing: give the host where the bot is reached, such as bot.example.com")
	case strings.Contains(s, "://"):
		return urlForHost(s)
	case strings.Contains(s, "*"):
		return fmt.Errorf("domain %q has a wildcard: give the one host where the bot is reached", s)
	}
	if err := checkDomain(s); err != nil {
		return fmt.Errorf("domain %w", err)
	}
	if ownMachine(s) {
		return fmt.Errorf("domain %q is whichever machine asks, so Teams cannot reach the bot there: give a host on the internet, such as a tunnel's", s)
	}
	return nil
}

// ownMachine reports whether s, a sound host[:port], means the machine that
// asks for it. A manifest for local trials may list such a host, so validating
// does not mind.
func ownMachine(s string) bool {
	host, _ := withoutPort(s) // s is sound
	host = strings.ToLower(host)
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || err == nil && (addr.IsLoopback() || addr.IsUnspecified())
}

// urlForHost explains a URL given where a host belongs, with the host to give.
func urlForHost(s string) error {
	if u, err := url.Parse(s); err == nil && u.Host != "" && checkDomain(u.Host) == nil {
		return fmt.Errorf("domain %q is a URL: give only the host, %s", s, u.Host)
	}
	return fmt.Errorf("domain %q is a URL: give only the host, such as bot.example.com", s)
}

// checkDomain checks the form of a validDomains entry: host[:port], where
// leading labels may be the wildcard *, each of which stands for exactly one
// label.
func checkDomain(s string) error {
	host, err := withoutPort(s)
	if err != nil {
		return err
	}
	if len(host) > 253 {
		return fmt.Errorf("%.40q… is longer than 253 characters", host)
	}
	labels := strings.Split(host, ".")
	for len(labels) > 0 && labels[0] == "*" {
		labels = labels[1:]
	}
	if wild := len(labels) < strings.Count(host, ".")+1; wild {
		if err := checkWildcard(s, labels); err != nil {
			return err
		}
	}
	for _, l := range labels {
		if !label.MatchString(l) {
			return fmt.Errorf("%q is not a host name such as bot.example.com: %q is no part of one", s, l)
		}
	}
	return nil
}

// checkWildcard refuses a wildcard over what nobody owns alone; labels is what
// follows it.
func checkWildcard(s string, labels []string) error {
	if len(labels) < 2 {
		return fmt.Errorf("%q is a wildcard over a whole top-level domain", s)
	}
	base := strings.ToLower(strings.Join(labels, "."))
	for _, d := range shared {
		if base == d || strings.HasSuffix(d, "."+base) {
			return fmt.Errorf("%q is a wildcard over %s, which others share: name your own host", s, base)
		}
	}
	return nil
}

// withoutPort splits off and checks a port.
func withoutPort(s string) (string, error) {
	if strings.ContainsAny(s, "/?#@ \t\r\n\\") {
		return "", fmt.Errorf("%q is more than a host: no scheme, user, path or space", s)
	}
	if !strings.Contains(s, ":") {
		return s, nil
	}
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return "", fmt.Errorf("%q is not host:port", s)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", fmt.Errorf("%q has no port from 1 to 65535 after the colon", s)
	}
	return host, nil
}
