package connector

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/planbot-go/planbot/internal/loopback"
)

// cloud is one of Microsoft's clouds as a bot sees it: who issues its channels' tokens, where it
// gets its own tokens, and which hosts its connector runs on.
type cloud struct {
	Issuer        string   // the only accepted issuer of channel tokens
	MetadataURL   string   // the OpenID document that leads to the issuer's keys
	LoginURL      string   // root of the token endpoints
	Tenant        string   // where a multi-tenant bot gets its tokens
	Scope         string   // the scope of the bot's tokens
	ExchangeScope string   // the scope of a managed identity's token that proves another app
	TokenURL      string   // root of the service with people's tokens
	CallerID      string   // of an authenticated channel; "" where Microsoft names none
	EntraIssuers  []string // of apps' tokens; {tenant} is the app's tenant
	// ServiceHosts are the connector's hosts. FileHosts serve files that people share in chats, and
	// never see the bot's token. Each entry includes the hosts below it.
	ServiceHosts, FileHosts []string
}

// cloudNamed returns the cloud of that name, case-insensitively; "" is the public one. The
// constants come from Microsoft's Teams SDK (auth/cloud-environment) and botbuilder
// (authenticationConstants, governmentConstants), Entra's from its pages on national clouds.
func cloudNamed(name string) (cloud, error) {
	switch strings.ToLower(name) {
	case "", "public":
		return cloud{
			Issuer:        "https://api.botframework.com",
			TokenURL:      "https://token.botframework.com",
			MetadataURL:   "https://login.botframework.com/v1/.well-known/openidconfiguration",
			LoginURL:      "https://login.microsoftonline.com",
			Tenant:        "botframework.com",
			Scope:         "https://api.botframework.com/.default",
			ExchangeScope: "api://AzureADTokenExchange/.default",
			CallerID:      "urn:botframework:azure",
			EntraIssuers:  []string{"https://sts.windows.net/{tenant}/", "https://login.microsoftonline.com/{tenant}/v2.0"},
			ServiceHosts: []string{
				"botframework.com", "smba.trafficmanager.net", "smba.onyx.prod.teams.trafficmanager.net",
				"teams.microsoft.com", "teams.microsoft.us",
			},
			FileHosts: []string{"sharepoint.com", "svc.ms", "1drv.com"},
		}, nil
	case "dod":
		c, err := cloudNamed("gcch")
		c.TokenURL = "https://apidod.botframework.azure.us"
		return c, err
	case "gcch":
		return cloud{
			Issuer:        "https://api.botframework.us",
			TokenURL:      "https://tokengcch.botframework.azure.us",
			MetadataURL:   "https://login.botframework.azure.us/v1/.well-known/openidconfiguration",
			LoginURL:      "https://login.microsoftonline.us",
			Tenant:        "MicrosoftServices.onmicrosoft.us",
			Scope:         "https://api.botframework.us/.default",
			ExchangeScope: "api://AzureADTokenExchangeUSGov/.default",
			CallerID:      "urn:botframework:azureusgov",
			EntraIssuers:  []string{"https://sts.windows.net/{tenant}/", "https://login.microsoftonline.us/{tenant}/v2.0"},
			ServiceHosts:  []string{"botframework.us", "botframework.azure.us", "teams.microsoft.us"},
			FileHosts:     []string{"sharepoint.us", "sharepoint-mil.us", "dps.mil"},
		}, nil
	case "china":
		return cloud{
			Issuer:        "https://api.botframework.azure.cn",
			TokenURL:      "https://token.botframework.azure.cn",
			MetadataURL:   "https://login.botframework.azure.cn/v1/.well-known/openidconfiguration",
			LoginURL:      "https://login.partner.microsoftonline.cn",
			Tenant:        "microsoftservices.partner.onmschina.cn",
			Scope:         "https://api.botframework.azure.cn/.default",
			ExchangeScope: "api://AzureADTokenExchangeChina/.default",
			EntraIssuers:  []string{"https://sts.chinacloudapi.cn/{tenant}/", "https://login.partner.microsoftonline.cn/{tenant}/v2.0"},
			ServiceHosts:  []string{"botframework.azure.cn", "frontend.botapi.msg.infra.teams.microsoftonline.cn"},
			FileHosts:     []string{"sharepoint.cn"},
		}, nil
	default:
		return cloud{}, fmt.Errorf("cloud %q is not one of public, gcch, dod, china", name)
	}
}

// trustedURL parses a URL that the operator configured: https, or http if it cannot leave this
// machine.
func trustedURL(what, raw string) (*url.URL, error) {
	u, err := parseServiceURL(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	if u.Scheme == "http" && !loopback.IsHost(u.Hostname()) {
		return nil, fmt.Errorf("%s %q: must be https, or http on a loopback address", what, raw)
	}
	return u, nil
}

// ErrHostNotAllowed is wrapped when a URL leads to a host that the bot may not talk to.
var ErrHostNotAllowed = errors.New("service host not allowed")

// serviceHosts says which service URLs the bot may send to, and so give its token to. It never
// changes.
type serviceHosts struct {
	services []string     // the cloud's connector
	files    []string     // for downloads only, without the token
	links    []string     // hosts for files to which people may be led, also in local mode
	listed   []listedHost // by the operator
	local    bool
}

// listedHost is one entry of the operator's list.
type listedHost struct {
	host, port string
	below      bool // also match every host below it
}

// reach is how far a connection to a host may go.
type reach int

const (
	reachNothing  reach = iota
	reachPublic         // public addresses only
	reachListed         // any address
	reachLoopback       // this machine only
)

// newServiceHosts allows the cloud's connector hosts and those of [Config.AllowedHosts]. In local
// mode it allows loopback hosts instead of the cloud's. The error names every bad entry.
func newServiceHosts(c cloud, extra []string, local bool) (*serviceHosts, error) {
	h := &serviceHosts{local: local, links: c.FileHosts}
	if !local {
		h.services, h.files = c.ServiceHosts, c.FileHosts
	}
	var errs []error
	for _, entry := range extra {
		if entry = strings.TrimSpace(entry); entry == "" {
			continue
		}
		l, err := parseListed(entry)
		if err != nil {
			errs = append(errs, fmt.Errorf("allowed service host %q: %w", entry, err))
			continue
		}
		h.listed = append(h.listed, l)
	}
	return h, errors.Join(errs...)
}

func parseListed(entry string) (listedHost, error) {
	name, below := strings.CutPrefix(entry, ".")
	if isAddress(name) && strings.Contains(name, ":") {
		name = "[" + name + "]"
	}
	u, err := parseURL("https://" + name)
	if err != nil || u.Path != "" || u.RawQuery != "" || u.Fragment != "" {
		return listedHost{}, errors.New("want a host or host:port, in ASCII, without a scheme or path")
	}
	l := listedHost{host: u.Hostname(), port: u.Port(), below: below}
	if n, err := strconv.ParseUint(l.port, 10, 16); l.port != "" && (err != nil || n == 0) {
		return l, errors.New("the port is not a number from 1 to 65535")
	}
	if below && !strings.Contains(l.host, ".") {
		return l, errors.New("a leading dot needs a domain of at least two labels")
	}
	return l, nil
}

// baseFor returns the service URL as a base for requests: host in lower case without a trailing
// dot, path without a trailing slash. The error wraps [ErrHostNotAllowed]. A calling bot may only
// use hosts that the operator listed; caller "" is a channel.
func (h *serviceHosts) baseFor(caller, rawURL string) (*url.URL, error) {
	u, err := parseServiceURL(rawURL)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrHostNotAllowed, err)
	}
	if caller != "" && !h.lists(target(u)) {
		return nil, fmt.Errorf("%w: %s is not listed, so no calling bot may name it", ErrHostNotAllowed, u.Host)
	}
	return u, checkReach(u, h.reachOf(target(u)))
}

// file parses a file's address and reports whether the bot's token may go there: to connector hosts
// and, for a calling bot, to hosts that the operator listed.
func (h *serviceHosts) file(caller, address string) (u *url.URL, signed bool, err error) {
	if u, err = parseURL(address); err != nil {
		return nil, false, fmt.Errorf("%w: %w", ErrHostNotAllowed, err)
	}
	signed = h.reachOf(target(u)) != reachNothing && (caller == "" || h.lists(target(u)))
	return u, signed, checkReach(u, h.fileReachOf(target(u)))
}

// upload parses the address of an upload session. Only file hosts, and hosts that the operator listed,
// get the bytes of a file. A calling bot may only name listed ones.
func (h *serviceHosts) upload(caller, address string) (*url.URL, error) {
	u, err := parseURL(address)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrHostNotAllowed, err)
	}
	host, port := target(u)
	r := h.reachOf(host, port)
	switch {
	case r == reachPublic: // the connector
		r = reachNothing
	case r == reachNothing && caller == "":
		r = h.fileReachOf(host, port)
	}
	return u, checkReach(u, r)
}

// link checks the address of a file that people are to be led to.
func (h *serviceHosts) link(caller, address string) error {
	u, err := parseURL(address)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrHostNotAllowed, err)
	}
	host, port := target(u)
	switch {
	case u.Scheme != "https":
		return fmt.Errorf("%w: plain http to %s", ErrHostNotAllowed, host)
	case h.lists(host, port), caller == "" && port == "443" && below(h.links, host):
		return nil
	}
	return fmt.Errorf("%w: %s", ErrHostNotAllowed, net.JoinHostPort(host, port))
}

// checkReach rejects a URL that leads nowhere, and plain http to another machine.
func checkReach(u *url.URL, r reach) error {
	switch {
	case r == reachNothing:
		return fmt.Errorf("%w: %s", ErrHostNotAllowed, net.JoinHostPort(target(u)))
	case u.Scheme == "http" && r != reachLoopback:
		return fmt.Errorf("%w: plain http to %s", ErrHostNotAllowed, u.Hostname())
	}
	return nil
}

func (h *serviceHosts) lists(host, port string) bool {
	return slices.ContainsFunc(h.listed, func(l listedHost) bool {
		if host != l.host && !(l.below && strings.HasSuffix(host, "."+l.host)) {
			return false
		}
		return port == l.port || l.port == "" && (port == "443" || loopback.IsHost(host))
	})
}

// reachOf returns how far a connection to the connector host may go.
func (h *serviceHosts) reachOf(host, port string) reach {
	listed := h.lists(host, port)
	switch {
	case loopback.IsHost(host):
		if listed || h.local {
			return reachLoopback
		}
	case listed:
		return reachListed
	case port == "443" && below(h.services, host):
		return reachPublic
	}
	return reachNothing
}

// fileReachOf is reachOf for downloads, which may also go to file hosts.
func (h *serviceHosts) fileReachOf(host, port string) reach {
	r := h.reachOf(host, port)
	if r == reachNothing && port == "443" && below(h.files, host) {
		return reachPublic
	}
	return r
}

// ofMicrosoft reports whether a service URL leads to Microsoft's connector and the operator did not
// list it.
func (h *serviceHosts) ofMicrosoft(u *url.URL) bool { return h.reachOf(target(u)) == reachPublic }

// below reports whether host is one of the domains or below one.
func below(domains []string, host string) bool {
	return slices.ContainsFunc(domains, func(d string) bool { return host == d || strings.HasSuffix(host, "."+d) })
}

// parseServiceURL parses a service URL and drops a trailing slash.
func parseServiceURL(raw string) (*url.URL, error) {
	u, err := parseURL(raw)
	if err != nil {
		return nil, err
	}
	if u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		return nil, errors.New("query or fragment in the URL")
	}
	u.Path, u.RawPath = strings.TrimSuffix(u.Path, "/"), strings.TrimSuffix(u.RawPath, "/")
	return u, nil
}

// parseURL parses a foreign URL and rejects every form that two parsers could read as different
// hosts.
func parseURL(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Opaque != "" || u.Host == "" {
		return nil, errors.New("not an absolute URL")
	}
	switch {
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, errors.New("neither https nor http")
	case u.User != nil:
		return nil, errors.New("user in the URL")
	}
	host := normalHost(u.Hostname())
	if !plainHost(host) {
		return nil, errors.New("host is not a plain ASCII name or address")
	}
	u.Host = strings.TrimSuffix(net.JoinHostPort(host, u.Port()), ":")
	return u, nil
}

// sameServiceURL compares a token's serviceurl with an activity's. Scheme and host are
// case-insensitive, and one trailing slash does not count.
func sameServiceURL(a, b string) bool {
	if a == b {
		return a != ""
	}
	ua, errA := parseServiceURL(a)
	ub, errB := parseServiceURL(b)
	return errA == nil && errB == nil && ua.String() == ub.String()
}

func target(u *url.URL) (host, port string) {
	if port = u.Port(); port == "" && u.Scheme == "http" {
		port = "80"
	}
	return u.Hostname(), cmp.Or(port, "443")
}

func normalHost(host string) string { return strings.TrimSuffix(strings.ToLower(host), ".") }

// hostName is a lower-case DNS name. Underscores are allowed because Microsoft's hosts may have
// them.
var hostName = regexp.MustCompile(`^([a-z0-9_]([a-z0-9_-]*[a-z0-9_])?\.)*[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?$`)

// plainHost rejects hosts that are not ASCII (homographs), are percent-encoded or zoned, or are
// otherwise neither a DNS name nor an IP address.
func plainHost(host string) bool {
	return isAddress(host) || len(host) <= 253 && hostName.MatchString(host)
}

func isAddress(host string) bool {
	a, err := netip.ParseAddr(host)
	return err == nil && a.Zone() == ""
}
