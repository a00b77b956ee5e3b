package main

import (
	"cmp"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
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
	if _, port, err := net.SplitHostPort(c.MetricsAddr); c.MetricsAddr != "" {
		if _, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil {
			f.add("BOT_METRICS_ADDR", "%q is not host:port", c.MetricsAddr)
		}
	}
	if c.Addr == "" {
		return
	}
	host, port, err := net.SplitHostPort(c.Addr)
	if _, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil {
		f.add("BOT_ADDR", "%q is not host:port", c.Addr)
		return
	}
	c.addr = net.JoinHostPort(host, port)
	if c.AppID == "" && !c.noAuth && !loopback(host) {
		f.add("BOT_ADDR", "%s is reachable by others, and without MICROSOFT_APP_ID nobody is checked: set an app id, listen on 127.0.0.1, or set BOT_DANGEROUSLY_NO_AUTH=true on a closed network", c.Addr)
	}
}

// loopback reports whether only this machine reaches the host. A name other
// than localhost may resolve to anything.
func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && ip.IsLoopback()
}

func (c *config) checkIdentity(f *faults) {
	if c.AppID == "" {
		for _, set := range []struct{ name, value string }{
			{"MICROSOFT_APP_PASSWORD", c.AppPassword},
			{"MICROSOFT_APP_TENANT_ID", c.AppTenant},
			{"MICROSOFT_APP_TYPE", c.AppType},
		} {
			if set.value != "" {
				f.add(set.name, "is set, but MICROSOFT_APP_ID is not")
			}
		}
		return
	}
	c.appType = multiTenant
	if c.AppTenant != "" {
		c.appType = singleTenant
	}
	if c.AppType != "" {
		types := []string{singleTenant, multiTenant, managedIdentity}
		i := slices.IndexFunc(types, func(t string) bool { return strings.EqualFold(t, c.AppType) })
		if i < 0 {
			f.add("MICROSOFT_APP_TYPE", "%q is none of %s", c.AppType, strings.Join(types, ", "))
			return
		}
		c.appType = types[i]
	}
	if c.appType == singleTenant && c.AppTenant == "" {
		f.add("MICROSOFT_APP_TENANT_ID", "is needed for %s", singleTenant)
	}
	if c.appType != managedIdentity && c.AppPassword == "" {
		f.add("MICROSOFT_APP_PASSWORD", "is needed for %s", c.appType)
	}
}

func (c *config) checkOverrides(f *faults) {
	if clouds := []string{"", "public", "gcch", "dod", "china"}; !slices.Contains(clouds, strings.ToLower(c.Cloud)) {
		f.add("BOT_CLOUD", "%q is none of %s", c.Cloud, strings.Join(clouds[1:], ", "))
	}
	c.checkURL(f, "BOT_OPENID_METADATA_URL", c.MetadataURL, "https")
	c.checkURL(f, "BOT_LOGIN_URL", c.LoginURL, "https")
	for entry := range strings.SplitSeq(c.AllowedHosts, ",") {
		entry = strings.TrimSpace(entry)
		if entry == "" {
			continue
		}
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
	case u.User != nil:
		f.add(variable, "holds a user name or password; it is an address only")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		f.add(variable, "holds a query or a fragment; it is an address only")
	case scheme == "https" && u.Scheme != "https" && !loopback(u.Hostname()):
		f.add(variable, "has to be https")
	}
}
