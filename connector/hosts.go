package connector

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Cloud is one of Microsoft's clouds as a bot sees it: who issues the tokens of
// its channels, where its own tokens come from and on which hosts its connector
// lives. Take one from [CloudNamed] and change fields to override them; the
// zero value is not usable.
type Cloud struct {
	Name string
	// Issuer is the only issuer whose tokens count.
	Issuer string
	// MetadataURL is the OpenID document that leads to the issuer's keys: https,
	// or http on a loopback address.
	MetadataURL string
	// LoginURL is the root of the token endpoints, {LoginURL}/{tenant}/oauth2/v2.0/token:
	// https, or http on a loopback address.
	LoginURL string
	// Tenant is where a multi-tenant bot gets its tokens.
	Tenant string
	// Scope is what the bot's tokens are good for.
	Scope string
	// ExchangeScope is what a managed identity's token has to be for when a registration
	// trusts that identity.
	ExchangeScope string
	// EntraIssuers issue the tokens of apps, {tenant} being theirs; see [Callers].
	EntraIssuers []string
	// CallerID is what an authenticated channel is called; "" where Microsoft
	// names none.
	CallerID string
	// ServiceHosts are the connector's hosts; each stands for itself and the
	// hosts below it.
	ServiceHosts []string
	// FileHosts are where files lie that people share in chats; each stands for itself
	// and the hosts below it. They never see the bot's token.
	FileHosts []string
}

// CloudNamed returns the cloud of that name, public, gcch, dod or china, without regard to
// case; "" is the public one. The constants are those of Microsoft's Teams SDK
// (auth/cloud-environment) and of botbuilder (authenticationConstants,
// governmentConstants); those of Entra are in its pages on national clouds.
func CloudNamed(name string) (Cloud, error) {
	switch name := strings.ToLower(name); name {
	case "", "public":
		return Cloud{
			Name:          "public",
			Issuer:        "https://api.botframework.com",
			MetadataURL:   "https://login.botframework.com/v1/.well-known/openidconfiguration",
			LoginURL:      "https://login.microsoftonline.com",
			Tenant:        "botframework.com",
			Scope:         "https://api.botframework.com/.default",
			ExchangeScope: "api://AzureADTokenExchange/.default",
			EntraIssuers:  []string{"https://sts.windows.net/{tenant}/", "https://login.microsoftonline.com/{tenant}/v2.0"},
			CallerID:      "urn:botframework:azure",
			ServiceHosts: []string{
				"botframework.com", "smba.trafficmanager.net", "smba.onyx.prod.teams.trafficmanager.net",
				"teams.microsoft.com", "teams.microsoft.us",
			},
			FileHosts: []string{"sharepoint.com", "svc.ms"},
		}, nil
	case "gcch", "dod": // they differ only in their token service for signed-in users
		return Cloud{
			Name:          name,
			Issuer:        "https://api.botframework.us",
			MetadataURL:   "https://login.botframework.azure.us/v1/.well-known/openidconfiguration",
			LoginURL:      "https://login.microsoftonline.us",
			Tenant:        "MicrosoftServices.onmicrosoft.us",
			Scope:         "https://api.botframework.us/.default",
			ExchangeScope: "api://AzureADTokenExchangeUSGov/.default",
			EntraIssuers:  []string{"https://sts.windows.net/{tenant}/", "https://login.microsoftonline.us/{tenant}/v2.0"},
			CallerID:      "urn:botframework:azureusgov",
			ServiceHosts:  []string{"botframework.us", "botframework.azure.us", "teams.microsoft.us"},
			FileHosts:     []string{"sharepoint.us", "sharepoint-mil.us", "dps.mil"},
		}, nil
	case "china":
		return Cloud{
			Name:          "china",
			Issuer:        "https://api.botframework.azure.cn",
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
		return Cloud{}, fmt.Errorf("cloud %q is not one of public, gcch, dod, china", name)
	}
}

// EntraMetadataURL is the OpenID document that leads to the keys of a tenant's tokens.
func (c Cloud) EntraMetadataURL(tenant string) string {
	return strings.TrimSuffix(c.LoginURL, "/") + "/" + url.PathEscape(tenant) + "/v2.0/.well-known/openid-configuration"
}

// trustedURL reads a URL that the operator configured: https, or http where it
// cannot leave the machine.
func trustedURL(what, raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: not a URL", what)
	}
	switch {
	case u.Host == "" || u.Opaque != "":
		return nil, fmt.Errorf("%s %q: no host", what, raw)
	case u.User != nil:
		return nil, fmt.Errorf("%s: user and password do not belong in it", what)
	case u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("%s %q: query and fragment do not belong in it", what, raw)
	case u.Scheme == "https" || u.Scheme == "http" && isLoopback(u.Hostname()):
		return u, nil
	default:
		return nil, fmt.Errorf("%s %q: must be https, or http on a loopback address", what, raw)
	}
}

// ErrHostNotAllowed is what every refusal of [ServiceHosts] wraps.
var ErrHostNotAllowed = errors.New("service host not allowed")

// ServiceHosts says which service URLs the bot may send to, and so hand its
// token to. It never changes and may be used concurrently. Make it with
// [NewServiceHosts].
type ServiceHosts struct {
	suffixes []string
	files    []string // of downloads only, without the token
	listed   []listedHost
	local    bool
}

// listedHost is one entry of the operator's list.
type listedHost struct {
	host, port string
	below      bool // also every host below it
}

// reach is how far a connection to a host may go.
type reach int

const (
	reachPublic   reach = iota // public addresses only
	reachListed                // wherever the operator's name leads
	reachLoopback              // this machine only
)

// NewServiceHosts allows the connector hosts of cloud and the extra ones of the
// operator. An entry is a host or host:port; ".example.com" also stands for
// every host below example.com. An entry with a port matches only that port;
// one without matches 443, and any port on a loopback host. Plain http is
// allowed to loopback hosts only. With local set, the mode without an app id,
// the allowed hosts are the loopback ones and the listed ones, not the cloud's.
// The error names every bad entry.
func NewServiceHosts(cloud Cloud, extra []string, local bool) (*ServiceHosts, error) {
	h := &ServiceHosts{local: local}
	if !local {
		h.suffixes, h.files = cloud.ServiceHosts, cloud.FileHosts
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
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return h, nil
}

func parseListed(entry string) (listedHost, error) {
	var l listedHost
	rest, below := strings.CutPrefix(entry, ".")
	l.host, l.below = rest, below
	if host, port, err := net.SplitHostPort(rest); err == nil {
		l.host, l.port = host, port
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return l, errors.New("the port is not a number from 1 to 65535")
		}
	}
	if strings.HasPrefix(l.host, "[") && strings.HasSuffix(l.host, "]") {
		l.host = l.host[1 : len(l.host)-1]
	}
	l.host = normalHost(l.host)
	if l.host == "" || !plainHost(l.host) {
		return l, errors.New("want a host or host:port, in ASCII, without a scheme or path")
	}
	if below && !strings.Contains(l.host, ".") {
		return l, errors.New("a leading dot needs a domain of at least two labels")
	}
	return l, nil
}

// Allowed returns nil when the bot may send to the service URL, else an error
// that wraps [ErrHostNotAllowed] and says why not.
func (h *ServiceHosts) Allowed(rawURL string) error {
	_, err := h.base(rawURL)
	return err
}

// base returns the service URL in the form that requests are built on: host in lower case
// without a trailing dot, path without a trailing slash.
func (h *ServiceHosts) base(rawURL string) (*url.URL, error) {
	u, err := parseServiceURL(rawURL)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrHostNotAllowed, err)
	}
	return u, checkReach(u, h.reachOf)
}

// checkReach refuses a URL that leads nowhere, by reachOf, or to another machine in plain
// text.
func checkReach(u *url.URL, reachOf func(host, port string) (reach, bool)) error {
	host, port := u.Hostname(), effectivePort(u)
	r, ok := reachOf(host, port)
	switch {
	case !ok:
		return fmt.Errorf("%w: %s", ErrHostNotAllowed, net.JoinHostPort(host, port))
	case u.Scheme == "http" && r != reachLoopback:
		return fmt.Errorf("%w: plain http to %s", ErrHostNotAllowed, host)
	}
	return nil
}

// baseFor is base for what the caller named: a calling bot's hosts are those that the
// operator listed, and no others. "" is a channel.
func (h *ServiceHosts) baseFor(caller, rawURL string) (*url.URL, error) {
	u, err := h.base(rawURL)
	if err != nil || caller == "" || h.lists(u.Hostname(), effectivePort(u)) {
		return u, err
	}
	return nil, fmt.Errorf("%w: %s is not listed, so no calling bot may name it", ErrHostNotAllowed, u.Host)
}

// lists reports whether the operator listed the host.
func (h *ServiceHosts) lists(host, port string) bool {
	loopback := isLoopback(host)
	return slices.ContainsFunc(h.listed, func(l listedHost) bool { return l.matches(host, port, loopback) })
}

// reachOf finds how far a connection to host and port may go; false: nowhere.
func (h *ServiceHosts) reachOf(host, port string) (reach, bool) {
	listed := h.lists(host, port)
	switch {
	case isLoopback(host):
		return reachLoopback, listed || h.local
	case listed:
		return reachListed, true
	default:
		return reachPublic, port == "443" && below(h.suffixes, host)
	}
}

// fileReachOf is reachOf for downloads, which may also go to hosts of files.
func (h *ServiceHosts) fileReachOf(host, port string) (reach, bool) {
	if r, ok := h.reachOf(host, port); ok {
		return r, true
	}
	return reachPublic, port == "443" && below(h.files, host)
}

// below reports whether host is one of the domains, or in one of them.
func below(domains []string, host string) bool {
	for _, d := range domains {
		if host == d || strings.HasSuffix(host, "."+d) {
			return true
		}
	}
	return false
}

// file reads the address of a file, and reports whether it is on a host of the connector,
// which may see the bot's token.
func (h *ServiceHosts) file(address string) (u *url.URL, ofConnector bool, err error) {
	if u, err = parseURL(address); err != nil {
		return nil, false, fmt.Errorf("%w: %w", ErrHostNotAllowed, err)
	}
	_, ofConnector = h.reachOf(u.Hostname(), effectivePort(u))
	return u, ofConnector, checkReach(u, h.fileReachOf)
}

// ofMicrosoft reports whether a service URL leads to Microsoft's connector, and was not
// listed by the operator.
func (h *ServiceHosts) ofMicrosoft(u *url.URL) bool {
	r, ok := h.reachOf(u.Hostname(), effectivePort(u))
	return ok && r == reachPublic
}

func (l listedHost) matches(host, port string, loopback bool) bool {
	if host != l.host && (!l.below || !strings.HasSuffix(host, "."+l.host)) {
		return false
	}
	if l.port == "" {
		return loopback || port == "443"
	}
	return port == l.port
}

// parseServiceURL reads a service URL, without a slash at its end.
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

// parseURL reads the URL of a stranger and refuses every form that two parsers could
// take for two different hosts.
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
	host, port := normalHost(u.Hostname()), u.Port()
	if !plainHost(host) {
		return nil, errors.New("host is not a plain ASCII name or address")
	}
	u.Host = host
	if strings.Contains(host, ":") {
		u.Host = "[" + host + "]"
	}
	if port != "" {
		u.Host += ":" + port
	}
	return u, nil
}

// sameServiceURL compares a token's serviceurl with an activity's: scheme and
// host without regard to case, one trailing slash does not count.
func sameServiceURL(a, b string) bool {
	if a == b {
		return a != ""
	}
	ua, errA := parseServiceURL(a)
	ub, errB := parseServiceURL(b)
	return errA == nil && errB == nil && ua.String() == ub.String()
}

func effectivePort(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "http":
		return "80"
	default:
		return "443"
	}
}

func normalHost(host string) string {
	return strings.TrimSuffix(strings.ToLower(host), ".")
}

// hostName is a DNS name in lower case, in which Microsoft's hosts may have underscores.
var hostName = regexp.MustCompile(`^([a-z0-9_]([a-z0-9_-]*[a-z0-9_])?\.)*[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?$`)

// plainHost refuses what is not ASCII (homographs), percent-encoded, zoned or otherwise no
// DNS name or IP address.
func plainHost(host string) bool {
	return isAddress(host) || len(host) <= 253 && hostName.MatchString(host)
}

func isAddress(host string) bool {
	a, err := netip.ParseAddr(host)
	return err == nil && a.Zone() == ""
}

// isLoopback reports whether host names this machine by itself, without asking
// a resolver. What localhost resolves to is checked when it is dialled.
func isLoopback(host string) bool {
	if normalHost(host) == "localhost" {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback()
}
