// Package connector authenticates inbound activities and calls the Connector REST API.
//
// [New] makes both sides from one [Config]. The [Guard] decides whether an inbound activity comes
// from the Bot Framework: it checks the channel's token against keys that it fetches and caches.
// [Callers] are the other senders whose tokens it accepts. The [Client] calls the API. Both use the
// same list of hosts that the bot may talk to, so a forged serviceUrl never sees the bot's token.
//
// # Sending
//
// A reference names a conversation: one from an activity ([activity.Activity.Reference]), or one
// that was stored. Given a reference, a [Client] sends ([Client.Send], [Client.Reply]), changes
// what it sent ([Client.Update], [Client.Delete]) and lists members ([Client.Members]). It creates
// conversations ([Client.CreateConversation]), gets a team ([Client.Team]), and fetches
// pictures and files ([Client.Download]). It signs people in to other services ([Client.UserToken]). What it sends to a Teams channel's own id, without a
// thread, starts a thread.
//
// Each call has a deadline, stays below the limits of Teams, and is retried only where that can
// help; see [Client]. An error is an [*Error] (the connector's answer), wraps [ErrBadCall],
// [ErrHostNotAllowed] or [ErrNoAnswer], or says why there is no token or no connection.
//
// # Rules
//
// The rules are those of the Bot Framework's authentication specification
// (https://learn.microsoft.com/azure/bot-service/rest-api/bot-framework-rest-connector-authentication).
// Where it is silent, the strictest of Microsoft's SDKs decides.
package connector

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
)

// Config says who the bot is and whom it talks to. The zero value is local mode, where it talks to
// programs on this machine.
type Config struct {
	// AppID is the bot's own app id. Empty means local mode: tokens are neither required, checked
	// nor sent, and the only hosts are loopback ones and AllowedHosts. A listener without an app id
	// must stay on loopback.
	AppID string
	// Credentials are required with an AppID, and not allowed without one.
	Credentials Credentials
	// Callers authenticate with Entra tokens instead of a channel's. The zero value: none.
	Callers Callers

	// Cloud is public, gcch, dod or china, in any letter case. "": public.
	Cloud string
	// MetadataURL is the OpenID document that leads to the keys of channel tokens. LoginURL is the
	// root of the token endpoints, {LoginURL}/{tenant}/oauth2/v2.0/token. Both must be https, or
	// http on a loopback address. "": the cloud's.
	MetadataURL, LoginURL string
	// TokenURL is the root of the token service, which signs people in: for data residency such as
	// https://europe.token.botframework.com. It must be https, or http on a loopback address. "": the
	// cloud's; in local mode there is none.
	TokenURL string

	// AllowedHosts are added to the connector hosts of the cloud. An entry is a host or
	// host:port; ".example.com" also stands for every host below example.com. An entry with a
	// port matches only that port; one without matches 443, and any port on a loopback host.
	// Plain http is allowed to loopback hosts only.
	AllowedHosts []string

	// Transport carries all requests. nil: the package's own connection pools. The one for calls
	// and downloads checks at each dial that no public name leads to a private address.
	Transport http.RoundTripper
	// Tries is the maximum number of tries of a call. 0: 5.
	Tries int
	// UserAgent names the bot in calls. "": planbot.
	UserAgent string
}

// New returns both sides of the bot's connection to its channels, or an error that lists every
// mistake in cfg. It makes no requests. It reads the credential files, so an unusable one is an
// error now.
func New(cfg Config) (*Guard, *Client, error) {
	c, unknown := cloudNamed(cfg.Cloud)
	if unknown != nil {
		c, _ = cloudNamed("") // to check the other fields
	}
	c.MetadataURL = cmp.Or(cfg.MetadataURL, c.MetadataURL)
	c.LoginURL = strings.TrimSuffix(cmp.Or(cfg.LoginURL, c.LoginURL), "/")
	if cfg.AppID != "" {
		cfg.TokenURL = cmp.Or(cfg.TokenURL, c.TokenURL)
	}
	cfg.TokenURL = strings.TrimSuffix(cfg.TokenURL, "/")
	hosts, err := newServiceHosts(c, cfg.AllowedHosts, cfg.AppID == "")
	errs := []error{unknown, err}
	if cfg.Tries < 0 {
		errs = append(errs, errors.New("Tries is negative"))
	}
	if !httpguts.ValidHeaderFieldValue(cfg.UserAgent) {
		errs = append(errs, errors.New("UserAgent cannot be sent"))
	}
	if cfg.TokenURL != "" {
		_, err = trustedURL("token URL", cfg.TokenURL)
		errs = append(errs, err)
	}
	trusted := cfg.Transport
	if trusted == nil {
		trusted = newTransport((&net.Dialer{Timeout: dialTimeout}).DialContext) // for hosts that the operator configured
	}
	guard := &Guard{cfg: cfg, cloud: c, hosts: hosts, transport: trusted, now: time.Now}
	client := newClient(cfg, hosts, trusted)
	switch {
	case cfg.AppID != "":
		errs = append(errs, guard.setUp(), cfg.Callers.check(cfg.AppID))
		client.tokens, err = newTokens(cfg, c, trusted)
		errs = append(errs, err)
	case len(cfg.Callers.apps("")) > 0:
		errs = append(errs, errors.New("Callers without an AppID"))
	case cfg.Credentials != Credentials{}:
		errs = append(errs, errors.New("Credentials without an AppID"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, nil, fmt.Errorf("connector config: %w", err)
	}
	return guard, client, nil
}

// Callers may call the bot besides the channels, with tokens that Microsoft Entra issued to an app
// in the bot's own tenant. The zero value allows none.
//
// A channel's token names the service URL that goes with it; a caller's does not. So a caller may
// only name a host that the operator listed. The token sent there is made for that caller and
// useless elsewhere. A bot must keep its state about a caller's conversations apart from all
// others, whatever ids the caller claims. What a caller says about its people (their ids, tenants)
// is believed.
type Callers struct {
	// Tenant is the only tenant whose tokens are accepted: its id, a GUID. Required with the fields
	// below.
	Tenant string
	// Emulator allows tokens of the bot's own app: those of the Bot Framework Emulator and the
	// Agents Playground when they use its app id and secret.
	Emulator bool
	// Bots are the app ids of bots that may call this one as a skill.
	Bots []string
}

// apps are the app ids of all callers, in lower case.
func (c Callers) apps(own string) []string {
	var all []string
	for _, app := range c.Bots {
		all = append(all, strings.ToLower(app))
	}
	if c.Emulator {
		all = append(all, strings.ToLower(own))
	}
	return all
}

var guid = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)

func (c Callers) check(own string) error {
	apps := c.apps(own)
	if len(apps) == 0 {
		return nil
	}
	var errs []error
	if !guid.MatchString(c.Tenant) {
		errs = append(errs, errors.New("the tenant of the callers is no GUID"))
	}
	for _, app := range c.Bots {
		switch {
		case !guid.MatchString(app):
			errs = append(errs, fmt.Errorf("caller %q is no app id", app))
		case strings.EqualFold(app, own):
			errs = append(errs, fmt.Errorf("caller %s is the bot itself", app))
		}
	}
	if len(slices.Compact(slices.Sorted(slices.Values(apps)))) != len(apps) {
		errs = append(errs, errors.New("a caller twice"))
	}
	return errors.Join(errs...)
}

// Service is where people have accounts and sign in, besides the OAuth connections of the Azure Bot: see package
// oauth.
type Service struct {
	// Resource is the address of the service: tokens are for it alone. Required.
	Resource string
	// Issuer is its authorization server. "": the one that the service names.
	Issuer string
	// Hosts are other hosts than those of Issuer and Resource at which the authorization server may have
	// endpoints, such as oauth2.example.com: with the port, unless that is 443.
	Hosts []string
	// ClientID and Secret are those of the bot at the authorization server. "": the bot is known there
	// by the address of its metadata, or registers itself (RFC 7591). Secret needs an Issuer: otherwise
	// the service would say who gets it.
	ClientID, Secret string
	// Scopes are what the bot asks for. nil: what the service says it needs.
	Scopes []string
	// Private are networks with private addresses in which its authorization server may be. Calls of all
	// Services may go there.
	Private []netip.Prefix
}
