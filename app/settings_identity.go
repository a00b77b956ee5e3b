package app

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/planbot-go/planbot/connector"
)

func (c *config) checkAddress(f *faults) {
	c.noAuth = truth(f, "BOT_DANGEROUSLY_NO_AUTH", c.NoAuth)
	if c.noAuth && c.AppID != "" {
		f.add("BOT_DANGEROUSLY_NO_AUTH", "contradicts MICROSOFT_APP_ID: with an app id callers are checked")
	}
	port := cmp.Or(c.Port, "3978")
	if n, err := strconv.ParseUint(port, 10, 16); err != nil {
		f.add("PORT", "%q is no port number", c.Port)
	} else {
		port = strconv.FormatUint(n, 10)
	}
	host := ""
	if c.AppID == "" {
		host = "127.0.0.1"
	}
	c.addr = net.JoinHostPort(host, port)
	if c.Addr != "" {
		c.checkBotAddr(f)
	}
	if c.MetricsAddr != "" {
		c.checkMetricsAddr(f)
	}
}

func (c *config) checkBotAddr(f *faults) {
	host, port, ok := hostPort(f, "BOT_ADDR", c.Addr)
	if !ok {
		return
	}
	c.addr = net.JoinHostPort(host, port)
	if c.AppID == "" && !c.noAuth && !loopback(host) {
		f.add("BOT_ADDR", "%s is reachable by others, and without MICROSOFT_APP_ID nobody is checked: set an app id, listen on 127.0.0.1, or set BOT_DANGEROUSLY_NO_AUTH=true on a closed network", c.Addr)
	}
}

// checkMetricsAddr refuses the bot's own port, which only one of the two would get.
func (c *config) checkMetricsAddr(f *faults) {
	host, port, ok := hostPort(f, "BOT_METRICS_ADDR", c.MetricsAddr)
	own, ownPort, err := net.SplitHostPort(c.addr)
	if ok && err == nil && port == ownPort && port != "0" && overlap(host, own) {
		f.add("BOT_METRICS_ADDR", "%s is where the bot itself listens (BOT_ADDR, PORT)", c.MetricsAddr)
	}
}

// hostPort reads host:port, the port as a number without zeros before it.
func hostPort(f *faults, variable, addr string) (host, port string, ok bool) {
	host, port, err := net.SplitHostPort(addr)
	n, bad := strconv.ParseUint(port, 10, 16)
	if err != nil || bad != nil {
		f.add(variable, "%q is not host:port", addr)
		return "", "", false
	}
	return host, strconv.FormatUint(n, 10), true
}

// overlap reports whether one cannot listen on the same port of both hosts.
func overlap(a, b string) bool {
	all := func(host string) bool {
		ip, err := netip.ParseAddr(host)
		return host == "" || err == nil && ip.IsUnspecified()
	}
	name := func(host string) string {
		if strings.EqualFold(host, "localhost") {
			return "127.0.0.1"
		}
		return strings.ToLower(host)
	}
	return all(a) || all(b) || name(a) == name(b)
}

// loopback reports whether only this machine reaches the host. A name other
// than localhost may resolve to anything.
func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && ip.IsLoopback()
}

func (c *config) checkIdentity(f *faults) {
	types := []string{singleTenant, multiTenant, managedIdentity}
	named := slices.IndexFunc(types, func(t string) bool { return strings.EqualFold(t, c.AppType) })
	if c.AppType != "" && named < 0 {
		f.add("MICROSOFT_APP_TYPE", "%q is none of %s", c.AppType, strings.Join(types, ", "))
	}
	if c.AppID == "" {
		for _, set := range append(c.proofs(), setting{"MICROSOFT_APP_CERTIFICATE_PASSWORD", c.CertPassword},
			setting{"MICROSOFT_APP_TENANT_ID", c.AppTenant}, setting{"MICROSOFT_APP_TYPE", c.AppType}) {
			if set.value != "" {
				f.add(set.name, "is set, but MICROSOFT_APP_ID is not")
			}
		}
		return
	}
	c.checkAppID(f)
	c.appType = multiTenant
	if c.AppTenant != "" {
		c.appType = singleTenant
	}
	if c.AppType != "" {
		if named < 0 {
			return // what it needs is not known
		}
		c.appType = types[named]
	}
	if c.appType == singleTenant {
		switch strings.ToLower(c.AppTenant) {
		case "":
			f.add("MICROSOFT_APP_TENANT_ID", "is needed for %s", singleTenant)
		case "common", "organizations", "consumers":
			f.add("MICROSOFT_APP_TENANT_ID", "%q is no tenant, and %s needs the bot's", c.AppTenant, singleTenant)
		}
	}
	c.checkProof(f)
}

// checkAppID refuses what no directory can have given out. Stand-ins of Microsoft's have
// app ids of all kinds.
func (c *config) checkAppID(f *faults) {
	odd := func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }
	for _, id := range []setting{{"MICROSOFT_APP_ID", c.AppID}, {"MICROSOFT_APP_FEDERATED_CLIENT_ID", c.FederatedID}} {
		if len(id.value) > 256 || strings.ContainsFunc(id.value, odd) {
			f.add(id.name, "is no id: it holds white space or control characters, or is longer than 256 bytes")
		}
	}
	if strings.ContainsFunc(c.AppPassword, unicode.IsControl) {
		f.add("MICROSOFT_APP_PASSWORD", "holds control characters, such as the end of a line")
	}
	if !connector.IsGUID(c.AppID) {
		c.warn("MICROSOFT_APP_ID", "it is no GUID, as the app ids are that Microsoft gives out")
	}
}

func (c *config) warn(variable, text string) { c.warnings = append(c.warnings, variable+": "+text) }

// setting is one by its variable's name.
type setting struct{ name, value string }

// proofs are the settings that prove who the bot is, of which one is needed.
func (c *config) proofs() []setting {
	return []setting{
		{"MICROSOFT_APP_PASSWORD", c.AppPassword},
		{"MICROSOFT_APP_CERTIFICATE_FILE", c.AppCertificate},
		{"MICROSOFT_APP_FEDERATED_TOKEN_FILE", c.FederatedFile},
		{"MICROSOFT_APP_FEDERATED_CLIENT_ID", c.FederatedID},
	}
}

func (c *config) checkProof(f *faults) {
	if c.CertPassword != "" && c.AppCertificate == "" {
		f.add("MICROSOFT_APP_CERTIFICATE_PASSWORD", "is set, but MICROSOFT_APP_CERTIFICATE_FILE is not")
	}
	proofs := slices.DeleteFunc(c.proofs(), func(s setting) bool { return s.value == "" })
	if c.appType == managedIdentity {
		for _, p := range proofs {
			if p.name != "MICROSOFT_APP_PASSWORD" { // which deployments set in any case, and is not used
				f.add(p.name, "contradicts MICROSOFT_APP_TYPE=%s, which proves itself", managedIdentity)
			}
		}
		return
	}
	if len(proofs) == 0 {
		f.add("MICROSOFT_APP_PASSWORD", "is needed for %s, or else MICROSOFT_APP_CERTIFICATE_FILE, MICROSOFT_APP_FEDERATED_TOKEN_FILE or MICROSOFT_APP_FEDERATED_CLIENT_ID", c.appType)
		return
	}
	for _, p := range proofs[1:] {
		f.add(p.name, "contradicts %s: the bot proves itself in one way", proofs[0].name)
	}
}

// credentials are what checkIdentity has checked.
func (c *config) credentials() connector.Credentials {
	id := connector.Credentials{AppID: c.AppID, Callers: c.callers}
	if c.appType == singleTenant {
		id.Tenant = c.AppTenant
	}
	if id.ManagedIdentity = c.appType == managedIdentity; !id.ManagedIdentity {
		id.Password, id.FederatedTokenFile, id.FederatedClientID = c.AppPassword, c.FederatedFile, c.FederatedID
		id.CertificateFile, id.CertificatePassword = c.AppCertificate, c.CertPassword
	}
	return id
}

// checkCallers reads who may come in beside the channels.
func (c *config) checkCallers(f *faults) {
	c.callers = connector.Callers{Tenant: c.AppTenant, Emulator: truth(f, "BOT_ALLOW_EMULATOR", c.AllowEmulator), Bots: f.entries("BOT_ALLOWED_CALLERS", c.AllowedCallers)}
	for _, set := range []struct {
		name string
		on   bool
	}{
		{"BOT_ALLOW_EMULATOR", c.callers.Emulator},
		{"BOT_ALLOWED_CALLERS", len(c.callers.Bots) > 0},
	} {
		switch {
		case !set.on:
		case c.AppID == "":
			f.add(set.name, "is set, but MICROSOFT_APP_ID is not: without one nobody is checked")
		case c.AppTenant == "" && !f.has("MICROSOFT_APP_TENANT_ID"):
			f.add("MICROSOFT_APP_TENANT_ID", "is needed with %s: only tokens of that tenant count", set.name)
		}
	}
}

// aboutCallers says who comes in beside the channels, for the log of the start.
func (c *config) aboutCallers() string {
	about := ""
	if c.callers.Emulator {
		about += "; lets in the Emulator and the Playground with tokens of that app (BOT_ALLOW_EMULATOR)"
	}
	if n := len(c.callers.Bots); n > 0 {
		about += fmt.Sprintf("; may be called by %d other bots (BOT_ALLOWED_CALLERS)", n)
	}
	return about
}

func (c *config) checkOverrides(f *faults) {
	if clouds := []string{"", "public", "gcch", "dod", "china"}; !slices.Contains(clouds, strings.ToLower(c.Cloud)) {
		f.add("BOT_CLOUD", "%q is none of %s", c.Cloud, strings.Join(clouds[1:], ", "))
	}
	c.checkURL(f, "BOT_OPENID_METADATA_URL", c.MetadataURL, "https")
	c.checkURL(f, "BOT_LOGIN_URL", c.LoginURL, "https")
	for _, entry := range f.entries("BOT_ALLOWED_SERVICE_HOSTS", c.AllowedHosts) {
		if strings.ContainsAny(entry, "/@ *?#") {
			f.add("BOT_ALLOWED_SERVICE_HOSTS", "%q is neither host nor host:port", entry)
			continue
		}
		c.hosts = append(c.hosts, entry)
	}
}

// checkURL accepts an absolute URL. With the scheme https, plain http is for
// loopback only.
func (c *config) checkURL(f *faults, variable, value, scheme string) {
	if value == "" {
		return
	}
	u, err := url.Parse(value)
	switch {
	case err != nil || u.Hostname() == "" || u.Scheme != "https" && u.Scheme != "http":
		f.add(variable, "is not an http or https address")
	case u.Port() != "" && !portNumber(u.Port()):
		f.add(variable, "has a port that is not a number from 1 to 65535")
	case u.User != nil:
		f.add(variable, "holds a user name or password; it is an address only")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		f.add(variable, "holds a query or a fragment; it is an address only")
	case scheme == "https" && u.Scheme != "https" && !loopback(u.Hostname()):
		f.add(variable, "has to be https")
	}
}

func portNumber(text string) bool {
	n, err := strconv.ParseUint(text, 10, 16)
	return err == nil && n > 0
}
