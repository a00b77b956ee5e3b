package connector

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// Cloud is one of Microsoft's clouds as a bot sees it: who issues the tokens of
// its channels, where its own tokens come from and on which hosts its connector
// lives. Take one from [CloudNamed] and change fields to override them; the
// zero value is not usable.
type Cloud struct {
	Name string
	// Issuer is the only issuer whose tokens open the door.
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
	switch strings.ToLower(name) {
	case "", "public":
		return publicCloud(), nil
	case "gcch", "dod":
		return governmentCloud(strings.ToLower(name)), nil
	case "china":
		return chinaCloud(), nil
	default:
		return Cloud{}, fmt.Errorf("cloud %q is not one of public, gcch, dod, china", name)
	}
}

func publicCloud() Cloud {
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
		ServiceHosts:  []string{"botframework.com", "smba.trafficmanager.net", "smba.onyx.prod.teams.trafficmanager.net", "teams.microsoft.com", "teams.microsoft.us"},
		FileHosts:     []string{"sharepoint.com", "svc.ms"},
	}
}

// governmentCloud is the same for GCC High and DoD: they differ only in their
// token service for signed-in users.
func governmentCloud(name string) Cloud {
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
	}
}

func chinaCloud() Cloud {
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

// withSibling reports whether the operator's URL vouches for host: the same
// host, or one beside or below it in the same domain.
func withSibling(u *url.URL, host string) bool {
	own := strings.ToLower(u.Hostname())
	if own == host {
		return true
	}
	if isAddress(own) || isAddress(host) {
		return false
	}
	domain := own
	if _, parent, _ := strings.Cut(own, "."); strings.Contains(parent, ".") {
		domain = parent
	}
	return host == domain || strings.HasSuffix(host, "."+domain)
}

// followedURL checks the jwks_uri of a metadata document: https on the
// metadata's domain; where the metadata itself is http on loopback, http on the
// very same host and port.
func followedURL(from *url.URL, raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || u.User != nil {
		return nil, errors.New("jwks_uri is no URL with a host")
	}
	switch {
	case u.Scheme == "http" && from.Scheme == "http" && strings.EqualFold(u.Host, from.Host):
		return u, nil
	case u.Scheme != "https":
		return nil, errors.New("jwks_uri is not https")
	case !slices.Contains([]string{"", "443", from.Port()}, u.Port()):
		return nil, errors.New("jwks_uri has an odd port")
	case !withSibling(from, strings.ToLower(u.Hostname())):
		return nil, errors.New("jwks_uri is not on the metadata's domain")
	default:
		return u, nil
	}
}
